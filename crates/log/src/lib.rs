//! The redo log, which carries committed transactions from memory to the medium.
//!
//! ```text
//!   worker 0 -> Ring --+
//!   worker 1 -> Ring --+--> Group --> CircularLog --> LogMedium
//!   worker 2 -> Ring --+      |
//!                             +-----> applied to the heap image, then recycled
//! ```
//!
//! A worker appends one *record* per transaction to its own volatile [`Ring`]. The persist step
//! merges records by transaction ID into a [`Group`] (group commit), which the [`CircularLog`]
//! appends to the medium in one write. A [`Combiner`] keeps only the last value of each word of a
//! group, and [`Lz4`] compresses the group. [`Packed`] is a group in its stored form.
//!
//! A group carries one checksum over everything, its identity included. The checksum is the commit
//! mark of all its records, so durability costs one persist barrier per group.

mod circular;
mod combine;
mod compress;
mod group;
mod packed;
mod ring;
mod scan;
mod sync;
mod witness;

pub use circular::{CircularLog, Place, Sent};
pub use combine::Combiner;
pub use compress::Lz4;
pub use group::{GROUP_HEADER_WORDS, Group, Identity, Transactions};
pub use packed::Packed;
pub use ring::{RECORD_HEAD_WORDS, RECORD_WORDS_MAX, REGION_WORDS, Ring, RingMemory, Writer};
pub use scan::{Found, Scan, Unreached};
pub use witness::{WITNESSES, WitnessKey};

impl RingMemory for medium::Memory {
    fn release(&self, words: std::ops::Range<usize>) {
        medium::Memory::release(self, words);
    }
}
