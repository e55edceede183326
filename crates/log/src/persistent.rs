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

use crate::{Group, Identity};

/// One stream of the log: where its next group goes.
pub struct PersistentRing {
    medium: Arc<dyn LogMedium>,
    identity: Identity,
    head: u64,
    padding: u64,
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

    /// Whether a group fits; `tail` is the sequence up to which groups are recycled.
    pub fn has_room(&self, group: &Group, tail: &AtomicU64) -> bool {
        let (sequence, bytes) = self.place(group);
        // Acquire: the tail grows only after the recycled groups are reproduced and that is
        // durable; seeing it must mean seeing that. Pairs with the reproduce step's Release store.
        sequence + bytes <= tail.load(Ordering::Acquire) + self.medium.bytes()
    }

    /// Sends a group for which there is room. It is durable when the medium acknowledges it (one
    /// persist barrier). `acknowledged` is the sequence behind the last group that was.
    ///
    /// # Errors
    /// The medium's.
    pub fn append(&mut self, mut group: Group, acknowledged: u64) -> Result<Sent, medium::Error> {
        let (sequence, bytes) = self.place(&group);
        self.padding += sequence - self.head + bytes - 8 * group.words() as u64;
        let block_words = self.medium.block_bytes() / 8;
        let words = group.seal(self.identity, sequence, acknowledged, block_words);
        let at = sequence % self.medium.bytes();
        let durable = self.medium.append(at, group.into_buffer(), words)?;
        self.head = sequence + bytes;
        if planted(Mutant::BlockRewritten) {
            self.head -= block_words as u64 * 8;
        }
        Ok(Sent { end: self.head, durable })
    }

    /// The sequence and the bytes of a group.
    fn place(&self, group: &Group) -> (u64, u64) {
        let bytes = (8 * group.words()).next_multiple_of(self.medium.block_bytes()) as u64;
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
