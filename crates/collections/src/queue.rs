//! A queue of bounded length: a ring of entries of one cache line each.
//!
//! ```text
//!   value in the program's object     ring: elements of 64 bytes, 4 to a block of 256 bytes
//!   | ring | first | capacity |       | first | - | - | - |   taken out so far, alone in its line
//!                                     | last  | - | - | - |   put in so far, alone in its line
//!                                     | number + 1 | value: 7 words |   slot 0
//!                                     | 0          | ...            |   slot 1: free
//! ```
//!
//! Entry n is in slot n modulo the capacity. What is in a slot says whether the queue is full, or
//! empty: so whoever puts in does not read what whoever takes out writes, and the two meet in the
//! slots alone. Putting in writes an entry and a cursor, taking out the mark of an entry and a
//! cursor. Several queues may share a ring, each at its [part](Queue::part).
//!
//! Invariants:
//! - `first <= last <= first + capacity`.
//! - A slot says the number of its entry plus 1, for entries from `first` to `last`; else 0.
//! - What says that a queue is full or empty is protected: write skew (snapshot isolation) is
//!   closed.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::check::{Checked, Damage};

/// Words of a value.
pub const QUEUE_WORDS: usize = 7;

/// Elements in front of the slots, a whole block: the cursors.
const CURSORS: u64 = 4;
const FIRST: u64 = 0;
const LAST: u64 = 1;

/// An element of a ring.
type Line = [u64; QUEUE_WORDS + 1];

/// A ring, or several of them, one behind the other: a value of two words that objects can hold.
pub type Ring = Array<Line>;

/// A queue; a value of four words that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Queue {
    ring: Ring,
    /// Its first element.
    begin: u64,
    capacity: u64,
}

impl Queue {
    /// An empty queue with room for `capacity` entries, at least one, in this one transaction.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot prepare so many: then
    /// reserve the ring, prepare it step by step, and take all of it as a [part](Queue::part).
    pub fn create<W: Allocate>(tx: &mut W, capacity: u64) -> Result<Queue, Stop> {
        let capacity = capacity.max(1);
        let ring = Array::create(tx, Queue::elements(capacity).ok_or(Stop::Full)?)?;
        Ok(Queue { ring, begin: 0, capacity })
    }

    /// Elements of a ring that a queue with so much room needs; `None`: more than any heap holds.
    pub const fn elements(capacity: u64) -> Option<u64> {
        match capacity.checked_next_multiple_of(CURSORS) {
            Some(slots) => slots.checked_add(CURSORS),
            None => None,
        }
    }

    /// The `number`-th queue in a ring of queues that have room for `capacity` entries each, empty
    /// in a ring of zeros. Nothing is read: a queue beyond the ring answers [`Stop::BadPointer`].
    pub const fn part(ring: Ring, number: u64, capacity: u64) -> Queue {
        let capacity = if capacity == 0 { 1 } else { capacity };
        let begin = match Queue::elements(capacity) {
            Some(elements) => elements.saturating_mul(number),
            None => u64::MAX,
        };
        Queue { ring, begin, capacity }
    }

    /// Puts an entry in behind the last; whether there was room. Writes 9 words.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadValue`] in a damaged queue, here and in all that follows.
    #[inline]
    pub fn push<W: Words>(self, tx: &mut W, value: &[u64; QUEUE_WORDS]) -> Result<bool, Stop> {
        let (cursor, number, slot) = self.next(tx, LAST)?;
        let found = tx.read(slot)?;
        if found != 0 {
            // The entry of one lap before.
            let expected = number.wrapping_sub(self.capacity).wrapping_add(1);
            return if found == expected { tx.protect(slot).map(|()| false) } else { damaged() };
        }
        let mut line = [number.wrapping_add(1); QUEUE_WORDS + 1];
        line[1..].copy_from_slice(value);
        tx.write_words(slot, &line)?;
        tx.write(cursor, number.wrapping_add(1))?;
        Ok(true)
    }

    /// Takes the first entry out; `None`: there is none. Writes 2 words.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn pop<W: Words>(self, tx: &mut W) -> Result<Option<[u64; QUEUE_WORDS]>, Stop> {
        let (cursor, number, slot) = self.next(tx, FIRST)?;
        let mut line = [0; QUEUE_WORDS + 1];
        tx.read_words(slot, &mut line)?;
        if line[0] != number.wrapping_add(1) {
            return if line[0] == 0 { tx.protect(slot).map(|()| None) } else { damaged() };
        }
        tx.write(slot, 0)?;
        tx.write(cursor, number.wrapping_add(1))?;
        let mut value = [0; QUEUE_WORDS];
        value.copy_from_slice(&line[1..]);
        Ok(Some(value))
    }

    /// Entries that were ever taken out, and those that were ever put in.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn span<W: Words>(self, tx: &mut W) -> Result<(u64, u64), Stop> {
        Ok((tx.read(self.line(FIRST)?)?, tx.read(self.line(LAST)?)?))
    }

    /// Entries that it has room for.
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    /// Calls `visit` with the numbers and values of up to `most` entries, the first one first, from
    /// entry `from` on; answers where to go on.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        most: u64,
        mut visit: impl FnMut(u64, &[u64; QUEUE_WORDS]),
    ) -> Result<Option<u64>, Stop> {
        let (first, last) = self.span(tx)?;
        if last.wrapping_sub(first) > self.capacity {
            return damaged();
        }
        let begin = from.max(first);
        let end = begin.saturating_add(most.max(1)).min(last);
        for number in begin..end {
            let mut line = [0; QUEUE_WORDS + 1];
            tx.read_words(self.slot(number)?, &mut line)?;
            let mut value = [0; QUEUE_WORDS];
            value.copy_from_slice(&line[1..]);
            visit(number, &value);
        }
        Ok((end < last).then_some(end))
    }

    /// Checks up to `most` slots from slot `from` on (the first is 0): each says what its place
    /// demands. [`whole`](crate::whole) checks all of it.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let (mut answer, (first, last)) = (Checked::default(), self.span(tx)?);
        if first > last || last - first > self.capacity {
            answer.found(Damage::Span { most: self.capacity, first, found: last });
            return Ok(answer);
        }
        let end = from.saturating_add(most.max(1)).min(self.capacity);
        for slot in from..end {
            // The least number from `first` on whose slot it is.
            let ahead = (slot + self.capacity - first % self.capacity) % self.capacity;
            let expected = if ahead < last - first { first + ahead + 1 } else { 0 };
            let found = tx.read(self.line(CURSORS + slot)?)?;
            if found != expected {
                answer.found(Damage::Slot { slot, expected, found });
            }
            answer.entries += u64::from(expected != 0);
        }
        answer.next = (end < self.capacity).then_some(end);
        Ok(answer)
    }

    /// Gives the memory of a queue that has a ring of its own back. Every copy of this value leads
    /// nowhere from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when it was given back before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.ring.free(tx)
    }

    /// A cursor's place, the number in it, and that number's slot.
    #[inline]
    fn next<W: Words>(self, tx: &mut W, which: u64) -> Result<(Addr, u64, Addr), Stop> {
        tx.compute(work::QUEUE);
        let cursor = self.line(which)?;
        let number = tx.read(cursor)?;
        tx.after_last_read();
        Ok((cursor, number, self.slot(number)?))
    }

    #[inline]
    fn slot(self, number: u64) -> Result<Addr, Stop> {
        // A value made of a damaged object may have no room.
        let slot = number.checked_rem(self.capacity).ok_or(Stop::BadValue)?;
        self.line(slot.wrapping_add(CURSORS))
    }

    /// The place of an element.
    #[inline]
    fn line(self, element: u64) -> Result<Addr, Stop> {
        Ok(self.ring.at(self.begin.saturating_add(element))?.addr())
    }
}

fn damaged<T>() -> Result<T, Stop> {
    Err(Stop::BadValue)
}
