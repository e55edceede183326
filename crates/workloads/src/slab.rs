//! A slab of objects of one size, some lines each, in copies, with a stack of free slots.
//!
//! ```text
//!   lines   copy 0: slot 0 | slot 1 | ...        copy 1: slot 0 | ...        one array of lines
//!   free    copy 0: free slots' number | a stack of their tickets | ...      copy 1: ...
//! ```
//!
//! An object of up to 16 KiB is larger than an object of the heap, and is contiguous here. A slot's
//! *ticket* is its number plus 1; 0 is none. An insert takes the slot freed last, and a removal
//! frees another. The number of free slots then stays, and one word of the stack is written, whose
//! place is known beforehand.

use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::copies::Shape;
use crate::stamp::{Stamp, content};
use crate::violation::{Violation, Violations};

/// Words of a line.
pub(crate) const WORDS: usize = 8;
pub(crate) type Line = [u64; WORDS];

/// Blocks that one transaction prepares.
const STEP: u64 = 256;

/// Words in a block; copies share no block.
const PER_BLOCK: u64 = words::BLOCK_BYTES / 8;

/// First bit of the line's number in the key of an object's line.
const PART_SHIFT: u32 = 48;

/// The arrays.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Slab {
    lines: Array<Line>,
    free: Array<u64>,
}

/// The free slot that is taken next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Top {
    pub(crate) ticket: u64,
    /// Number of free slots.
    free: u64,
}

/// Returns the stamp key of a line of an object, from its key's number.
fn part(number: u64, line: u64) -> u64 {
    number | line << PART_SHIFT
}

/// Returns the words of one copy's stack.
fn stack(shape: Shape) -> u64 {
    (1 + shape.slots()).next_multiple_of(PER_BLOCK)
}

impl Slab {
    /// Returns the heap bytes, headers included.
    pub(crate) fn bytes(shape: Shape) -> u64 {
        let lines = (shape.copies * shape.slots() * shape.lines).div_ceil(4);
        (lines + shape.copies * stack(shape) / PER_BLOCK) * BLOCK_STRIDE
    }

    pub(crate) fn reserve<W: Allocate>(tx: &mut W, shape: Shape) -> Result<Slab, Stop> {
        let lines = Array::reserve(tx, shape.copies * shape.slots() * shape.lines)?;
        Ok(Slab { lines, free: Array::reserve(tx, shape.copies * stack(shape))? })
    }

    /// Prepares it by one step; returns whether it is ready.
    pub(crate) fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        Ok(self.lines.prepare(tx, STEP)? && self.free.prepare(tx, STEP)?)
    }

    /// Pushes a slot that was never used on a copy's stack, at this place of it.
    pub(crate) fn load_free<W: Words>(
        self,
        tx: &mut W,
        shape: Shape,
        copy: u64,
        place: u64,
    ) -> Result<(), Stop> {
        tx.write(self.stacked(shape, copy, 1 + place)?, 1 + shape.keys + place)?;
        tx.write(self.stacked(shape, copy, 0)?, 1 + place)
    }

    pub(crate) fn give_back<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.lines.free(tx)?;
        self.free.free(tx)
    }

    /// Returns the slot of a copy that is taken next.
    #[inline]
    pub(crate) fn top<W: Words>(self, tx: &mut W, shape: Shape, copy: u64) -> Result<Top, Stop> {
        let free = tx.read(self.stacked(shape, copy, 0)?)?;
        tx.after_last_read();
        if free == 0 || free > shape.slots() {
            return Err(Stop::BadValue);
        }
        Ok(Top { ticket: tx.read(self.stacked(shape, copy, free)?)?, free })
    }

    /// Announces that the top is taken and `back` slots are freed, none to two.
    #[inline]
    pub(crate) fn will_take<W: Words>(
        self,
        tx: &mut W,
        (shape, copy): (Shape, u64),
        top: Top,
        back: usize,
    ) -> Result<(), Stop> {
        self.will_write(tx, (shape, copy), top.ticket)?;
        for place in top.free..top.free + back as u64 {
            tx.will_write(self.stacked(shape, copy, place)?, 8);
        }
        if back != 1 {
            tx.will_write(self.stacked(shape, copy, 0)?, 8);
        }
        Ok(())
    }

    /// Takes the top, and frees these slots, up to two.
    #[inline]
    pub(crate) fn take<W: Words>(
        self,
        tx: &mut W,
        (shape, copy): (Shape, u64),
        top: Top,
        back: &[u64],
    ) -> Result<(), Stop> {
        for (place, &ticket) in (top.free..).zip(back) {
            tx.write(self.stacked(shape, copy, place)?, ticket)?;
        }
        if back.len() == 1 {
            return Ok(());
        }
        tx.write(self.stacked(shape, copy, 0)?, top.free - 1 + back.len() as u64)
    }

    /// Announces that a slot's object is written whole.
    #[inline]
    pub(crate) fn will_write<W: Words>(
        self,
        tx: &mut W,
        (shape, copy): (Shape, u64),
        ticket: u64,
    ) -> Result<(), Stop> {
        for line in 0..shape.lines {
            tx.will_write(self.line(shape, copy, ticket, line)?, 8 * WORDS);
        }
        Ok(())
    }

    /// Writes an object whole, as this transaction's under a key's number.
    #[inline]
    pub(crate) fn put<W: Words>(
        self,
        tx: &mut W,
        (shape, copy): (Shape, u64),
        ticket: u64,
        (stamp, number): (Stamp, u64),
    ) -> Result<(), Stop> {
        for line in 0..shape.lines {
            let key = part(number, line);
            let words = content::<WORDS>(stamp.value(key), key);
            tx.write_words(self.line(shape, copy, ticket, line)?, &words)?;
        }
        Ok(())
    }

    /// Writes an object of one line, of which transactions write the first word only.
    pub(crate) fn load_small<W: Words>(
        self,
        tx: &mut W,
        (shape, copy): (Shape, u64),
        number: u64,
    ) -> Result<(), Stop> {
        let mut words = small(number);
        words[0] = Stamp::LOADED.value(number);
        tx.write_words(self.line(shape, copy, 1 + number, 0)?, &words)
    }

    /// Returns the place of a line of an object; the first word of the first line is its stamp.
    #[inline]
    pub(crate) fn line(
        self,
        shape: Shape,
        copy: u64,
        ticket: u64,
        line: u64,
    ) -> Result<Addr, Stop> {
        let slot = ticket.wrapping_sub(1);
        if slot >= shape.slots() {
            return Err(Stop::BadValue);
        }
        let first = (copy * shape.slots() + slot) * shape.lines;
        Ok(self.lines.at(first + line)?.addr())
    }

    /// Checks the object under a key's number.
    pub(crate) fn check<W: Words>(
        self,
        tx: &mut W,
        (shape, copy): (Shape, u64),
        (number, ticket): (u64, u64),
        violations: &mut Violations,
    ) -> Result<(), Stop> {
        let mut first = None;
        for line in 0..shape.lines {
            let (key, mut found) = (part(number, line), [0; WORDS]);
            tx.read_words(self.line(shape, copy, ticket, line)?, &mut found)?;
            let Some(stamp) = Stamp::of(found[0], key) else {
                violations.add(Violation::Value { key: number, found: found[0] });
                return Ok(());
            };
            let stamp = *first.get_or_insert(stamp);
            let mut expected = small(number);
            if shape.is_large() {
                expected = content(stamp.value(key), key);
            } else {
                expected[0] = found[0];
            }
            if let Some(word) = (0..WORDS).find(|&word| found[word] != expected[word]) {
                let (expected, found) = (expected[word], found[word]);
                let word = line as usize * WORDS + word;
                violations.add(Violation::Record { key: number, word, expected, found });
            }
        }
        Ok(())
    }

    /// Returns the tickets on a copy's stack.
    pub(crate) fn free_tickets<W: Words>(
        self,
        tx: &mut W,
        shape: Shape,
        copy: u64,
    ) -> Result<Vec<u64>, Stop> {
        let free = tx.read(self.stacked(shape, copy, 0)?)?;
        if free > shape.slots() {
            return Err(Stop::BadValue);
        }
        (1..=free).map(|place| tx.read(self.stacked(shape, copy, place)?)).collect()
    }

    /// Returns the place of a word of a copy's stack; the first holds the number of free slots.
    #[inline]
    fn stacked(self, shape: Shape, copy: u64, place: u64) -> Result<Addr, Stop> {
        if place > shape.slots() {
            return Err(Stop::BadValue);
        }
        Ok(self.free.at(copy * stack(shape) + place)?.addr())
    }
}

/// Returns the words of a small object, which follow from its key's number except for the first.
fn small(number: u64) -> Line {
    content(number, !number)
}
