//! Dual-version concurrency control: an object has at most one newer copy, linked from its header.
//!
//! ```text
//!   heap     | link | header | payload ...          the version of before, while anyone needs it
//!                |
//!                v
//!   copies   | object, shape | header | payload ... | the version that a transaction makes
//!                 |
//!                 v
//!             | end |                               running, or when that transaction ended
//! ```
//!
//! - *Read*: no link, the object as it is; else the copy, if it is mine or its transaction ended
//!   before mine began; else the object as it is.
//! - *Write*: the link is the object's lock. Who has set it has the object to itself until it is
//!   home or taken back; who finds it set gives way.
//! - *Commit* never fails. Three stages: what was changed becomes durable (the caller's); all
//!   copies become visible at once (`end`); when nobody needs the old versions any more, the new
//!   ones are written over them and the links taken away (`write_back`).
//!
//! What this gives is snapshot isolation: a transaction reads the moment at which it began, and its
//! own writes; of two that write the same object and run at the same time one gives way. Two that
//! each read what the other writes both commit (write skew): who must not `protect`s what it has
//! read.
//!
//! | file | what it is |
//! |---|---|
//! | `link` | the word in the header |
//! | `copies` | where copies are |
//! | `end` | when a transaction ended |
//! | `seats` | what workers show each other: the grace period, the frontier |
//! | `attempt` | one worker's running transaction: begin, take back |
//! | `read`, `write` | what it does with objects |
//! | `owned` | what it has to itself |
//! | `member` | transactions that end together |
//! | `commit` | the second and third stage, and who helps |
//! | `write_back` | the queue of what is not home |
//!
//! *Objects that are new.* Memory that was never an object has no header, and it may be handed out
//! as zeros later: a link there that a crash leaves would be found as data. So a new object gets
//! its link when its transaction is durable; until then only its writer knows of it.
//!
//! *When a copy's space is used again* (P-1): who may have a link to it has begun before a commit
//! of its worker that came after the link was taken away. So that commit's time goes with the
//! space, and when no transaction runs that began before it the space is free. That holds for
//! attempts that were taken back too: a reader may have met their links.
//!
//! (Pisces, sections 2.2 and 3.)

mod attempt;
mod commit;
mod copies;
mod end;
mod link;
mod member;
mod owned;
mod read;
mod seats;
mod write;
mod write_back;

pub(crate) use attempt::Attempt;
pub(crate) use commit::{Finished, LOOKS, Ready, Versions};
pub(crate) use link::WORKERS_MAX;
pub(crate) use owned::{Entry, Owned};
pub(crate) use write_back::store;

use crate::perform::Heap;

/// Where the objects are.
pub(crate) trait Home {
    /// The words, to be loaded.
    fn words(&self) -> &Heap;

    /// Stores a word. Relaxed.
    fn store(&self, index: usize, value: u64);

    /// Stores a word if `current` is there. AcqRel, and Acquire where it is not.
    ///
    /// # Errors
    /// What is there instead.
    fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64>;
}

/// Where the link of an object is.
#[inline(always)]
const fn link_of(object: usize) -> usize {
    object - 2
}

/// Where the header word of an object is: its copy begins with it.
#[inline(always)]
const fn header_of(object: usize) -> usize {
    object - 1
}
