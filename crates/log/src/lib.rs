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
//! medium in one write. A [`Combiner`] keeps only the last value of each word of a group, [`Lz4`]
//! compresses it; [`Packed`] is a group as it goes to the medium. It carries one checksum over
//! everything, its identity included: that is the commit mark of all its records, so durability
//! costs one persist barrier a group.

mod combine;
mod compress;
mod group;
mod packed;
mod persistent;
mod ring;
mod scan;
mod sync;

pub use combine::Combiner;
pub use compress::Lz4;
pub use group::{GROUP_HEADER_WORDS, Group, Identity, Transactions};
pub use packed::Packed;
pub use persistent::{PersistentRing, Place, Sent};
pub use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, Ring, Writer};
pub use scan::{Found, Scan, Unreached};
