//! The redo log: what carries a committed transaction from memory to the medium.
//!
//! ```text
//!   worker 0 -> Ring --+
//!   worker 1 -> Ring --+--> Group --> PersistentRing --> LogMedium
//!   worker 2 -> Ring --+      |
//!                             +-----> reproduced at home, then the persistent ring is recycled
//! ```
//!
//! A worker appends one *record* a transaction to its own volatile [`Ring`]. The persist step
//! merges records by transaction ID into a [`Group`], which the [`PersistentRing`] appends to the
//! medium in one write. A group carries one checksum over everything, its identity included: that
//! is the commit mark of all its records, so durability costs one persist barrier a group.
#![forbid(unsafe_code)]

mod group;
mod persistent;
mod ring;
mod scan;
mod sync;

pub use group::{GROUP_HEADER_WORDS, Group, Identity, Transactions};
pub use persistent::{PersistentRing, Sent};
pub use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, Ring, Writer};
pub use scan::{Found, Scan, Unreached};
