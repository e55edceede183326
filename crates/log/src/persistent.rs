//! The persistent ring: where groups go on the medium.
//!
//! ```text
//!   | group | group | group |      free      | group | group | rest |
//!   0                       head             tail                   bytes
//! ```
//!
//! A *sequence* counts the bytes of the ring used in this generation; its place is the sequence
//! modulo the ring's size. A group never wraps: when it does not fit before the end it goes to the
//! start of the next lap, and the rest stays unused.
//!
//! Invariants:
//! - `tail <= head <= tail + bytes`; each only grows.
//! - Nothing between tail and head is overwritten: a group is recycled only after it is reproduced
//!   and that fact is durable.

use medium::mutants::{Mutant, planted};
use medium::sync::{Arc, AtomicU64, Ordering};
use medium::{Buffer, LogMedium};

use crate::{Group, Identity, Packed};

/// One stream of the log: where its next group goes.
pub struct PersistentRing {
    medium: Arc<dyn LogMedium>,
    identity: Identity,
    head: u64,
    padding: u64,
}

/// Where a group goes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Bytes from the start of the log area.
    pub at: u64,
    /// The sequence behind it.
    pub end: u64,
}

/// A group that was sent.
#[derive(Debug)]
pub struct Sent {
    /// The sequence behind it.
    pub end: u64,
    /// Its memory, when it is durable already; else the medium's acknowledgement gives it back.
    pub durable: Option<Buffer>,
}

impl PersistentRing {
    /// An empty ring; a new generation begins at sequence 0.
    pub fn new(medium: Arc<dyn LogMedium>, identity: Identity) -> PersistentRing {
        PersistentRing { medium, identity, head: 0, padding: 0 }
    }

    /// The sequence behind the last group.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Bytes that were written or skipped only to fill blocks and laps.
    pub fn padding_bytes(&self) -> u64 {
        self.padding
    }

    /// Whether a group of so many words fits, padding or not; `tail` is the sequence up to which
    /// groups are recycled.
    pub fn has_room(&self, words: usize, tail: &AtomicU64) -> bool {
        let (sequence, bytes) = self.next(words);
        // Acquire: the tail grows only after the recycled groups are reproduced and that is
        // durable; seeing it must mean seeing that. Pairs with the reproduce step's Release store.
        sequence + bytes <= tail.load(Ordering::Acquire) + self.medium.bytes()
    }

    /// Gives a group for which there is room its place, and seals it. `acknowledged` is the
    /// sequence behind the last group that was. Groups get their places in ID order.
    pub fn place(&mut self, packed: &mut Packed, acknowledged: u64) -> Place {
        let (sequence, bytes) = self.next(packed.words());
        self.padding += sequence - self.head + bytes - 8 * packed.words_used() as u64;
        packed.seal(self.identity, sequence, acknowledged);
        self.head = sequence + bytes;
        if planted(Mutant::BlockRewritten) {
            self.head -= self.medium.block_bytes() as u64;
        }
        Place { at: sequence % self.medium.bytes(), end: self.head }
    }

    /// Sends a group for which there is room, as it is. It is durable when the medium acknowledges
    /// it (one persist barrier). `acknowledged` is the sequence behind the last group that was.
    ///
    /// # Errors
    /// The medium's.
    pub fn append(&mut self, group: Group, acknowledged: u64) -> Result<Sent, medium::Error> {
        let mut packed = Packed::plain(group, self.medium.block_bytes() / 8);
        let Place { at, end } = self.place(&mut packed, acknowledged);
        let words = packed.words();
        let durable = self.medium.append(at, packed.into_image().0, words)?;
        Ok(Sent { end, durable })
    }

    /// The sequence and the bytes of the next group.
    fn next(&self, words: usize) -> (u64, u64) {
        let bytes = (8 * words).next_multiple_of(self.medium.block_bytes()) as u64;
        (lap_for(self.head, bytes, self.medium.bytes()), bytes)
    }
}

/// The sequence at which so many bytes fit without wrapping: `head`, or the next lap's start.
pub(crate) fn lap_for(head: u64, bytes: u64, ring_bytes: u64) -> u64 {
    let left = ring_bytes - head % ring_bytes;
    if bytes <= left { head } else { head + left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_does_not_fit_goes_to_the_next_lap() {
        assert_eq!(lap_for(0, 100, 100), 0);
        assert_eq!(lap_for(60, 40, 100), 60);
        assert_eq!(lap_for(60, 41, 100), 100);
        assert_eq!(lap_for(100, 100, 100), 100);
        assert_eq!(lap_for(260, 50, 100), 300);
    }
}
