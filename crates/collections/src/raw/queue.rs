//! A bounded queue: a ring of entries of one cache line each.
//!
//! ```text
//!   value in the program's object     ring: elements of 64 bytes, 4 to a block of 256 bytes
//!   | ring | first | capacity |       | first | - | - | - |   popped so far, alone in its line
//!                                     | last  | - | - | - |   pushed so far, alone in its line
//!                                     | number + 1 | value: 7 words |   slot 0
//!                                     | 0          | ...            |   slot 1: free
//! ```
//!
//! Entry n is in slot n modulo the capacity. The slot alone shows whether the queue is full or
//! empty. A push therefore does not read the word that a pop writes, and the two meet only in the
//! slots. A push writes an entry and a cursor, a pop the mark of an entry and a cursor. Several
//! queues may share a ring, each at its [part](Queue::part).
//!
//! Invariants:
//! - `first <= last <= first + capacity`.
//! - A slot holds the number of its entry plus 1, for entries from `first` to `last`; else 0.
//! - The slot that shows a full or empty queue is protected, which prevents write skew under
//!   snapshot isolation.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::raw::check::{Checked, Damage};

/// Words of a value.
pub const QUEUE_WORDS: usize = 7;

/// Elements in front of the slots, a whole block for the cursors.
const CURSORS: u64 = 4;
const FIRST: u64 = 0;
const LAST: u64 = 1;

/// An element of a ring.
type Line = [u64; QUEUE_WORDS + 1];

/// A ring, or several one after another; a value of two words that objects can hold.
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
    /// Creates an empty queue with room for `capacity` entries, at least one, in this one
    /// transaction.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot prepare so many. Reserve the
    /// ring then, prepare it in several transactions, and use all of it as a [part](Queue::part).
    pub fn create<W: Allocate>(tx: &mut W, capacity: u64) -> Result<Queue, Stop> {
        let capacity = capacity.max(1);
        let ring = Array::create(tx, Queue::elements(capacity).ok_or(Stop::Full)?)?;
        Ok(Queue { ring, begin: 0, capacity })
    }

    /// Returns the ring elements of a queue of this capacity; `None` above the size of any heap.
    pub const fn elements(capacity: u64) -> Option<u64> {
        match capacity.checked_next_multiple_of(CURSORS) {
            Some(slots) => slots.checked_add(CURSORS),
            None => None,
        }
    }

    /// Returns the `number`-th queue in a ring of queues of this capacity, empty in a ring of
    /// zeros. It reads nothing: using a queue beyond the ring is [`Stop::BadPointer`].
    pub const fn part(ring: Ring, number: u64, capacity: u64) -> Queue {
        let capacity = if capacity == 0 { 1 } else { capacity };
        let begin = match Queue::elements(capacity) {
            Some(elements) => elements.saturating_mul(number),
            None => u64::MAX,
        };
        Queue { ring, begin, capacity }
    }

    /// Pushes an entry after the last; returns whether it had room. Writes 9 words.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadValue`] in a damaged queue, here and in all other methods.
    #[inline]
    pub fn push<W: Words>(self, tx: &mut W, value: &[u64; QUEUE_WORDS]) -> Result<bool, Stop> {
        let (cursor, number, slot) = self.next(tx, LAST)?;
        let found = tx.read(slot)?;
        if found != 0 {
            // The number that the slot holds if the entry one wrap before is still in it.
            let expected = number.wrapping_sub(self.capacity).wrapping_add(1);
            // Full: protect the slot, since this transaction relies on it and does not write it.
            return if found == expected { tx.protect(slot).map(|()| false) } else { damaged() };
        }
        let mut line = [number.wrapping_add(1); QUEUE_WORDS + 1];
        line[1..].copy_from_slice(value);
        tx.write_words(slot, &line)?;
        tx.write(cursor, number.wrapping_add(1))?;
        Ok(true)
    }

    /// Pops the first entry; `None` when the queue is empty. Writes 2 words.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn pop<W: Words>(self, tx: &mut W) -> Result<Option<[u64; QUEUE_WORDS]>, Stop> {
        let (cursor, number, slot) = self.next(tx, FIRST)?;
        let mut line = [0; QUEUE_WORDS + 1];
        tx.read_words(slot, &mut line)?;
        if line[0] != number.wrapping_add(1) {
            // Empty: protect the slot, since this transaction relies on it and does not write it.
            return if line[0] == 0 { tx.protect(slot).map(|()| None) } else { damaged() };
        }
        tx.write(slot, 0)?;
        tx.write(cursor, number.wrapping_add(1))?;
        let mut value = [0; QUEUE_WORDS];
        value.copy_from_slice(&line[1..]);
        Ok(Some(value))
    }

    /// Returns how many entries were ever popped, and how many ever pushed.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn span<W: Words>(self, tx: &mut W) -> Result<(u64, u64), Stop> {
        Ok((tx.read(self.line(FIRST)?)?, tx.read(self.line(LAST)?)?))
    }

    /// Returns the capacity in entries.
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    /// Calls `visit` with the numbers and values of up to `most` entries, the oldest first, from
    /// entry `from` on; returns the next entry.
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

    /// Checks the numbers of up to `most` slots from slot `from` on (the first is 0).
    /// [`whole`](crate::raw::whole) checks the whole queue.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let (mut checked, (first, last)) = (Checked::default(), self.span(tx)?);
        if first > last || last - first > self.capacity {
            checked.found(Damage::Span { most: self.capacity, first, found: last });
            return Ok(checked);
        }
        let end = from.saturating_add(most.max(1)).min(self.capacity);
        for slot in from..end {
            // The least number from `first` on that belongs in this slot.
            let ahead = (slot + self.capacity - first % self.capacity) % self.capacity;
            let expected = if ahead < last - first { first + ahead + 1 } else { 0 };
            let found = tx.read(self.line(CURSORS + slot)?)?;
            if found != expected {
                checked.found(Damage::Slot { slot, expected, found });
            }
            checked.entries += u64::from(expected != 0);
        }
        checked.next = (end < self.capacity).then_some(end);
        Ok(checked)
    }

    /// Frees the memory of a queue that has a ring of its own. Every copy of this value dangles
    /// from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the queue was freed before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.ring.free(tx)
    }

    /// Returns a cursor's place, the number in it, and that number's slot.
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
        // A value read from a damaged object may have capacity 0.
        let slot = number.checked_rem(self.capacity).ok_or(Stop::BadValue)?;
        self.line(slot.wrapping_add(CURSORS))
    }

    /// Returns the place of an element.
    #[inline]
    fn line(self, element: u64) -> Result<Addr, Stop> {
        let at = self.ring.at(self.begin.saturating_add(element));
        // The program has no index: a queue beyond its ring is a wild value.
        Ok(at.map_err(|_| Stop::BadPointer)?.addr())
    }
}

fn damaged<T>() -> Result<T, Stop> {
    Err(Stop::BadValue)
}
