//! Replicas of a pool on other machines.
//!
//! A machine that dies takes its pool with it, unless another machine has the transactions. A
//! [`Primary`] appends the durable groups of its log to a [stream](LogStream), which keeps them on
//! several machines. [`Follower`]s read the stream and apply the groups to copies of the pool. A
//! follower is recovery that never ends.
//!
//! ```text
//!   primary                     stream                          followers
//!   commit -> log -> sender --> | term 1 | group | group | ...  --> pool, pool
//!               |       |
//!   heap image <+-------+ confirmed
//!                               ... | group | term 2 | group |  <-- a promoted follower
//! ```
//!
//! Lastword has no consensus of its own. The stream orders its messages, and a new primary begins
//! by a message, its *term*. Safety depends on the stream's compare-and-append:
//!
//! - An append names the last message. The stream refuses it after another writer's message. So no
//!   message of an old primary follows the term of a new one. An old primary detects at its next
//!   append that it is deposed. Its pool is then poisoned and acknowledges nothing more.
//! - A primary has one append outstanding: see [`stream`].
//! - A primary applies to its heap image only transactions that the stream has. So a deposed one
//!   can follow: it drops the end of its log.
//! - A follower applies whole groups only.
//!
//! The program, or its operator, decides when a follower is [promoted](Follower::promote). A wrong
//! decision costs availability, never a replicated transaction.
//!
//! Limits: one primary writes, and no data are sharded. A primary that is cut off from the stream
//! still serves reads, of old values, until its next append; [`Primary::confirm`] excludes that.

mod assembly;
mod error;
mod follower;
mod groups;
mod history;
mod link;
pub mod message;
mod primary;
mod sender;
pub mod stream;

pub use error::{Damage, Error};
pub use follower::{Follower, FollowerStatus, Lag};
pub use groups::Groups;
pub use history::End;
pub use link::Link;
pub use primary::{Primary, PrimaryStatus};
pub use stream::directory::DirectoryStream;
pub use stream::faulty::{Faults, FaultyStream};
#[cfg(feature = "nats")]
pub use stream::jetstream::JetStream;
pub use stream::memory::MemoryStream;
pub use stream::{LogStream, ReadStream, StreamError};

/// Compiles the examples of the book.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/guide/replication.md")]
    struct Replication;
}
