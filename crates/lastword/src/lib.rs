//! Durable memory transactions.
//!
//! A *pool* holds persistent data. A program reads and writes it inside transactions, at the speed
//! of memory. A transaction that is committed and acknowledged survives a crash, a `kill -9` or a
//! power failure, always as a whole.
//!
//! ```
//! use lastword::prelude::*;
//!
//! #[lastword::persist]
//! struct Account { cents: u64, transfers: u64 }
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("bank.pool");
//! # fn go(path: &std::path::Path) -> Result<(), lastword::Error> {
//! let pool = Pool::create(path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
//! let mut worker = pool.worker()?; // one per thread
//! let account = Account { cents: 100, transfers: 0 };
//! let (from, to) = worker.run(|tx| Ok((tx.alloc(account)?, tx.alloc(account)?)))?.value;
//!
//! let done = worker.run(|tx| { // may run again when another transaction is in the way
//!     let mut account = tx.get(from)?;
//!     if account.cents < 30 {
//!         return tx.abort("insufficient funds");
//!     }
//!     account.cents -= 30;
//!     tx.set(from, account)?;
//!     tx.update(to.cents(), |cents| cents + 30)?;
//!     Ok(account.cents)
//! })?;
//! println!("left: {}", done.value); // committed: visible to every thread
//! done.ticket.wait()?;              // durable
//! # Ok(())
//! # }
//! # go(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The *root* leads to the data after a restart. A program sets it once with
//! `tx.set_root_ptr(object)` and reads it with `tx.root_ptr::<Account>()` after [`Pool::open`],
//! which also recovers the pool after a crash.
//!
//! A [*design*](design) is one way to reach atomic durability. Each step of `decoupled` has a
//! folder in this crate: `perform`, `shadow`, `persist`, `reproduce`, `recover`. The designs whose
//! workers run every step themselves are in `slots` and `dual_version`. Transactions are
//! serializable, with two exceptions: [`Snapshot`] provides snapshot isolation (with groups
//! *parallel* snapshot isolation), and [`Plain`] has only one worker.
//!
//! ```text
//!   [ in the heap image  | durable in the log | committed, volatile | running ]  transaction ID ->
//!   0              reproduced ID         durable ID           committed ID
//!      recover() replays this  ^^^^^^^^^^^^^^^^     lost in a crash ^^^^^^^^^^
//! ```

mod any;
mod derives;
pub mod design;
mod error;
mod file_check;
mod ideal;
mod in_use;
mod info;
mod inside;
mod inspect;
mod log_growth;
mod metrics;
mod mvcc;
mod open;
mod opening;
mod options;
mod owned;
pub mod perform;
mod persist;
mod pipeline;
pub mod prelude;
// Not in `pipeline`, which the models compile without a pool file.
mod dual_version;
#[cfg(test)]
#[path = "pipeline/tests.rs"]
mod pipeline_tests;
mod poison;
mod pool;
mod rate_limit;
mod reader;
mod reason;
mod recover;
mod registry;
pub mod replication;
mod reproduce;
mod role;
mod shadow;
mod slots;
mod storage;
mod superblock;
mod sync;
mod ticket;
mod transfer;
mod tx;
mod worker;
mod write_pace;

pub use any::{AnyBody, AnyDesign, AnyDurable, AnyPool, AnyWorker, Erase, ToAnyPool};
#[doc(inline)]
pub use derives::{Key, persist};
pub use design::Design;
pub use design::exported::*;
pub use error::{
    CutFile, Error, IdealError, InUse, Limit, LogDamage, LogMismatch, LostFile, NamedError,
    ReplicationError, StillUsed, TransferError,
};
pub use info::{Info, MemoryUse};
pub use inspect::{
    CheckOptions, Checked, CollectionAtRest, CollectionDamage, CollectionInfo, Copied, CopyOptions,
    Finding, HeapAtRest, Problem, Repair, Report, Scrub, Severity, check, check_with, convert,
    copy, copy_undamaged, heap_usage, heap_usage_with, inspect, inspect_with, list_collections,
    list_collections_with, repair, repair_with, scrub,
};
pub use metrics::Metrics;
pub use open::Open;
pub use opening::{Opening, OpeningStep};
pub use options::{Durability, Medium, Options, Shadow};
pub use owned::{OwnedCommitted, OwnedDurable, OwnedTicket, OwnedWorker};
pub use pool::{Pool, PoolView, Shape, ViewTx, grow};
pub use reader::PoolReader;
pub use reason::{AbortReason, Reason};
pub use registry::{DesignInfo, Isolation, LogFormat, Promise};
pub use shadow::{Evicting, ShadowCounts, ShadowHeap, ShadowMemory, Software};
pub use superblock::printable;
pub use ticket::{Durable, Ticket};
pub use transfer::{Exported, Transferred, compact, import};
pub use tx::Tx;
pub use worker::{Committed, Worker};

/// Maps, sets, vectors, queues and counters: see [`Pool::named`].
pub use collections;
pub use collections::{AsKey, Key, KeyBuf};
pub use lw_alloc::header::Kind;
pub use lw_alloc::{ClassUsage, Damage, Live, Shortage, Usage, Wrong};
pub use medium::{Error as MediumError, LogPath, LostName, System};
pub use words::{
    Addr, Allocate, AnyError, Array, BLOCK_BYTES, BLOCK_STRIDE, Bytes, Erased, ErasedTx, Field,
    OBJECT_BYTES_MAX, Objects, Persist, Place, Ptr, Stop, Text, Transact, TxId, View, Words, field,
};

/// The paths in code that the macros generate.
#[doc(hidden)]
pub mod __private {
    pub use collections::{Definitions, derived};
    pub use words::{
        Body, DefinedType, Definition, FieldDefinition, HasFields, Placed, definition_of,
        no_padding_after, size_allowed, zerocopy,
    };
}

/// Compiles the examples of the README and of the book.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/start/first-program.md")]
    struct FirstProgram;
    #[doc = include_str!("../../../docs/concepts/designs.md")]
    struct Designs;
    #[doc = include_str!("../../../docs/guide/rust.md")]
    struct Rust;
    #[doc = include_str!("../../../docs/guide/larger-than-memory.md")]
    struct LargerThanMemory;
    #[doc = include_str!("../../../docs/guide/async.md")]
    struct Async;
    #[doc = include_str!("../../../docs/guide/collections.md")]
    struct Collections;
}
