//! Dual-version concurrency control: an object has at most one newer copy, linked from its header.
//!
//! ```text
//!   heap     | link | header | payload ...          the old version, while a transaction needs it
//!                |
//!                v
//!   copies   | object, shape | header | payload ... | the version that a transaction makes
//!                 |
//!                 v
//!             | end |                               RUNNING, or the transaction's timestamp
//! ```
//!
//! | operation | rule |
//! |---|---|
//! | read | takes its own copy, or a copy that ended before its start, else the heap's object |
//! | write | locks the object by setting its link; conflicts if another transaction has set it |
//! | commit | never fails; three stages, below |
//!
//! The link stays set until the copy is in the heap or rolled back. The stages of a commit:
//! 1. The caller makes the changes durable.
//! 2. All copies become visible at once (`end`).
//! 3. After the grace period, when no transaction needs the old versions, the new ones overwrite
//!    them and the links are removed (`write_back`).
//!
//! Isolation is snapshot isolation. A transaction reads the state at its start, and its own writes.
//! If two concurrent transactions write the same object, one of them gives way. If each reads an
//! object that the other writes, both commit (write skew). A transaction avoids that with
//! `protect`.
//!
//! | file | contents |
//! |---|---|
//! | `link` | the link word in an object's header |
//! | `copy_memory` | memory for copies |
//! | `end` | when a transaction ended |
//! | `transaction_table` | the transaction table: grace period, durable watermark, frontier |
//! | `attempt` | one worker's running transaction: begin, roll back |
//! | `read`, `write` | access to objects |
//! | `owned` | the objects that an attempt has locked |
//! | `member` | group commit: transactions that end together |
//! | `commit` | the second and third stage, and helping |
//! | `write_back` | the queue of committed transactions that the heap lacks |
//! | `view` | a moment at which the heap and the queues are as of one transaction |
//!
//! *New objects.* Memory that was never an object has no header, and the allocator may hand it out
//! later as zeros. A link that a crash leaves there would be read as data. So a new object gets its
//! link when its transaction is durable. Until then only its writer knows of it.
//!
//! *Reuse of a copy's space* (P-1). A transaction with a link to a copy began before every commit
//! of the copy's worker that followed the link's removal. So the space is tagged with the timestamp
//! of the first such commit. It is free when every transaction that began before the timestamp has
//! ended. Rolled-back attempts follow the same rule, because a reader may have followed their
//! links.
//!
//! Source: Pisces, sections 2.2 and 3.

mod attempt;
mod commit;
mod copy_memory;
mod end;
mod link;
mod member;
mod owned;
mod read;
mod transaction_table;
mod view;
mod write;
mod write_back;

pub(crate) use attempt::Attempt;
pub(crate) use commit::{Finished, LOOKS, Ready, Shown, Versions};
pub(crate) use link::WORKERS_MAX;
pub(crate) use owned::{Entry, Owned};
pub(crate) use write_back::store;

use crate::perform::Heap;

/// The heap that holds the objects.
pub(crate) trait ObjectHeap {
    /// Returns the words, for loads.
    fn words(&self) -> &Heap;

    /// Stores a word. Relaxed.
    fn store(&self, index: usize, value: u64);

    /// Stores a word if `current` is there: AcqRel on success, Acquire on failure.
    ///
    /// # Errors
    /// The value that is there instead.
    fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64>;
}

/// Returns the position of an object's link.
#[inline(always)]
const fn link_of(object: usize) -> usize {
    object - 2
}

/// Returns the position of an object's header word, with which its copy begins.
#[inline(always)]
const fn header_of(object: usize) -> usize {
    object - 1
}
