//! The circular log, which places groups on the medium.
//!
//! ```text
//!   | group | group | group |      free      | group | group | rest |
//!   0                       head             tail                   bytes
//! ```
//!
//! A *sequence* counts the bytes of the log used in this generation. Its place is the sequence
//! modulo the log's size. A group never straddles the end: if it does not fit, the rest stays
//! unused, and the group goes to the start of the next wrap.
//!
//! Invariants:
//! - `tail <= head <= tail + bytes`; each only grows.
//! - No byte between tail and head is overwritten. A group is recycled only after it is reproduced
//!   and that fact is durable.

use medium::mutants::{Mutant, injected, relax};
use medium::sync::{Arc, AtomicU64, Ordering};
use medium::{Buffer, LogMedium};

use crate::{Group, Identity, Packed};

/// One stream of the log, which places its groups one after another.
pub struct CircularLog {
    medium: Arc<dyn LogMedium>,
    identity: Identity,
    head: u64,
    padding: u64,
    /// The sequence that no group passes while the log grows.
    bound: u64,
    /// The sequence at the end of the last gap that a growth has left.
    skipped: u64,
}

/// The place of a group.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Bytes from the start of the log area.
    pub at: u64,
    /// The sequence at its end.
    pub end: u64,
}

/// A group handed to the medium.
#[derive(Debug)]
pub struct Sent {
    /// The sequence at its end.
    pub end: u64,
    /// Its memory, if it is durable already; else the medium returns it on acknowledgement.
    pub durable: Option<Buffer>,
}

impl CircularLog {
    /// Makes an empty log; a new generation begins at sequence 0.
    pub fn new(medium: Arc<dyn LogMedium>, identity: Identity) -> CircularLog {
        let (bound, skipped) = (u64::MAX, 0);
        CircularLog { medium, identity, head: 0, padding: 0, bound, skipped }
    }

    /// Returns the sequence at the end of the last group.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the bytes written or skipped only to fill blocks and wraps.
    pub fn padding_bytes(&self) -> u64 {
        self.padding
    }

    /// Returns whether a group of `words` words fits, padding included. Groups are recycled up to
    /// the sequence `tail`.
    pub fn has_room(&self, words: usize, tail: &AtomicU64) -> bool {
        let (sequence, bytes) = self.next(words);
        let end = sequence + bytes;
        // Acquire: pairs with the reproduce step's Release store. The tail grows only after the
        // recycled groups are reproduced and that is durable; seeing it must mean seeing that.
        let tail = tail.load(relax(Ordering::Acquire, Mutant::TailReadRelaxed));
        let more = match injected(Mutant::RoomForOneMore) {
            true => self.medium.block_bytes() as u64,
            false => 0,
        };
        end <= tail + self.medium.bytes() + more && end <= self.bound
    }

    /// Begins to double the log, if every sequence in use has the same place in a log of twice the
    /// size. From here on, groups get only such sequences. Returns whether it has begun.
    ///
    /// ```text
    ///   sequence      0          L          2L         3L         4L
    ///   log of L      | 0 .... L | 0 .... L | 0 .... L | 0 .... L |
    ///   log of 2 L    | 0 .... L   L ... 2L | 0 .... L   L ... 2L |
    ///                   same                  same
    /// ```
    ///
    /// An empty log in the wrong part skips the rest of it, as a group that does not fit would. A
    /// scan from the tail follows such a gap by one size alone. So the log does not grow again
    /// before the tail is behind the gap.
    pub fn begin_growth(&mut self, tail: &AtomicU64) -> bool {
        let bytes = self.medium.bytes();
        // Acquire: as in `has_room`.
        let tail = tail.load(Ordering::Acquire);
        let mut part = tail - tail % (2 * bytes);
        let is_second = self.head > part + bytes;
        if is_second && self.head == tail {
            part += 2 * bytes;
            self.padding += part - self.head;
            (self.head, self.skipped) = (part, part);
        } else if tail < self.skipped {
            return false;
        }
        let same = self.head <= part + bytes || injected(Mutant::LogGrownInSecondHalf);
        if same && !injected(Mutant::LogGrowthUnbounded) {
            self.bound = part + bytes;
        }
        same
    }

    /// Lets groups use the medium's size, which a growth has doubled.
    pub fn end_growth(&mut self) {
        self.bound = u64::MAX;
    }

    /// Places and seals a group that fits. `acknowledged` is the end of the last acknowledged
    /// group. Groups are placed in ID order.
    pub fn place(&mut self, packed: &mut Packed, acknowledged: u64) -> Place {
        let (sequence, bytes) = self.next(packed.words());
        self.padding += sequence - self.head + bytes - 8 * packed.words_used() as u64;
        packed.seal(self.identity, sequence, acknowledged);
        self.head = sequence + bytes;
        if injected(Mutant::BlockRewritten) {
            self.head -= self.medium.block_bytes() as u64;
        }
        Place { at: sequence % self.medium.bytes(), end: self.head }
    }

    /// Sends a plain group that fits. It is durable when the medium acknowledges it (one persist
    /// barrier). `acknowledged` is the end of the last acknowledged group.
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

    /// Does as [`append`](CircularLog::append) on memory, where a group is durable on return.
    /// Returns the sequence at its end, and its memory.
    ///
    /// # Errors
    /// The medium's.
    pub fn append_to_memory(
        &mut self,
        group: Group,
        acknowledged: u64,
    ) -> Result<(u64, Buffer), medium::Error> {
        let mut packed = Packed::plain(group, self.medium.block_bytes() / 8);
        let Place { at, end } = self.place(&mut packed, acknowledged);
        let words = packed.words();
        Ok((end, self.medium.append_alone(at, packed.into_image().0, words)?))
    }

    /// Returns the sequence and the bytes of the next group.
    fn next(&self, words: usize) -> (u64, u64) {
        let bytes = (8 * words).next_multiple_of(self.medium.block_bytes()) as u64;
        (wrap_for(self.head, bytes, self.medium.bytes()), bytes)
    }
}

/// Returns the sequence for a group of `bytes` bytes: `head`, or the start of the next wrap.
pub(crate) fn wrap_for(head: u64, bytes: u64, log_bytes: u64) -> u64 {
    let left = log_bytes - head % log_bytes;
    if bytes <= left { head } else { head + left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_that_does_not_fit_wraps() {
        assert_eq!(wrap_for(0, 100, 100), 0);
        assert_eq!(wrap_for(60, 40, 100), 60);
        assert_eq!(wrap_for(60, 41, 100), 100);
        assert_eq!(wrap_for(100, 100, 100), 100);
        assert_eq!(wrap_for(260, 50, 100), 300);
    }
}
