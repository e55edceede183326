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

use medium::sync::{AtomicU64, Ordering};
use medium::{Counts, LogMedium};
use thiserror::Error;

use crate::{Group, Identity};

/// The ring has no room for a group until something is recycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the log has no room for {bytes} bytes before something is recycled")]
pub struct Full {
    /// What the group needs.
    pub bytes: u64,
}

/// One stream of the log.
pub struct PersistentRing {
    medium: Box<dyn LogMedium>,
    identity: Identity,
    head: u64,
    padding: u64,
}

impl PersistentRing {
    /// An empty ring; a new generation begins at sequence 0.
    pub fn new(medium: Box<dyn LogMedium>, identity: Identity) -> PersistentRing {
        PersistentRing { medium, identity, head: 0, padding: 0 }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.medium.bytes()
    }

    /// The sequence behind the last group.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// What the medium has done.
    pub fn counts(&self) -> Counts {
        self.medium.counts()
    }

    /// Bytes that were written or skipped only to fill blocks and laps.
    pub fn padding_bytes(&self) -> u64 {
        self.padding
    }

    /// Appends a group and makes it durable (one persist barrier); answers the sequence behind it.
    ///
    /// `tail` is the sequence up to which groups are recycled.
    ///
    /// # Errors
    /// `Ok(Err(Full))` when there is no room: recycle, then try again. `Err` when the medium
    /// failed.
    pub fn append(
        &mut self,
        group: &mut Group,
        tail: &AtomicU64,
    ) -> Result<Result<u64, Full>, medium::Error> {
        let block = self.medium.block_bytes();
        let bytes = (8 * group.words()).next_multiple_of(block) as u64;
        let sequence = lap_for(self.head, bytes, self.medium.bytes());
        // Acquire: the tail grows only after the recycled groups are reproduced and that is
        // durable; seeing it must mean seeing that. Pairs with the reproduce step's Release store.
        if sequence + bytes > tail.load(Ordering::Acquire) + self.medium.bytes() {
            return Ok(Err(Full { bytes }));
        }
        let words = group.seal(self.identity, sequence, block / 8);
        self.medium.append(sequence % self.medium.bytes(), group.buffer(), words)?;
        self.medium.barrier()?;
        self.padding += sequence - self.head + bytes - 8 * group.words() as u64;
        self.head = sequence + bytes;
        Ok(Ok(self.head))
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
