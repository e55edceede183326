//! Copies of a structure, one a worker, and how large each is.
//!
//! ```text
//!   a workload's size in its head   | objects | lines of one | copies | keys |
//!                                      8 bits        16           8       32
//! ```
//!
//! Where a paper runs a program several times over, each worker has a copy of the data to itself,
//! up to 32 of them; further workers share. What several workers may reach they reach under the
//! copy's lock, which a worker of its own never waits for.

use words::{LockId, Stop, Words};

use crate::data::{DataSet, LINE_BYTES, OBJECTS_MAX};
use crate::turns::{Turns, workers_of};
use crate::{CLIENTS_MAX, Options, lock, scaled};

/// Most copies: what leads to them fits in an object.
pub(crate) const COPIES: usize = 32;

/// Keys of a copy at scale 1 where an object has up to so many bytes: larger ones are fewer, so
/// that a copy's data are 100 MB.
const KEYS: u64 = 100_000;
const LARGE_MIN: u64 = 1024;

/// Fewest keys: as many as a transaction may be about, and some more.
const KEYS_MIN: u64 = 96;

/// More keys than any pool holds objects, as a number of bits.
const KEYS_BITS: u32 = 32;

/// Numbers that a worker needs, at least, for keys that come and go.
const NUMBERS_EACH: u64 = 4;

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Of each copy, that are always there.
    pub(crate) keys: u64,
    pub(crate) copies: u64,
    /// Of an object.
    pub(crate) lines: u64,
    /// That a transaction is about.
    pub(crate) objects: usize,
}

impl Shape {
    /// What the options ask for.
    pub(crate) fn of(options: &Options) -> Shape {
        let data = DataSet::of(options);
        let bytes = (data.lines() * LINE_BYTES).max(LARGE_MIN);
        let keys = scaled(KEYS * LARGE_MIN / bytes, options, KEYS_MIN);
        Shape {
            keys: keys.min((1 << KEYS_BITS) - 1),
            copies: options.workers.clamp(1, COPIES) as u64,
            lines: data.lines(),
            objects: data.objects() as usize,
        }
    }

    pub(crate) fn encode(self) -> u64 {
        self.keys | self.copies << KEYS_BITS | self.lines << 40 | (self.objects as u64) << 56
    }

    /// What stands in a head; of a damaged one something that leads to no panic.
    pub(crate) fn decode(size: u64) -> Shape {
        Shape {
            keys: (size & ((1 << KEYS_BITS) - 1)).max(KEYS_MIN),
            copies: (size >> KEYS_BITS & 0xff).clamp(1, COPIES as u64),
            lines: (size >> 40 & 0xffff).clamp(1, 256),
            objects: ((size >> 56) as usize).clamp(1, OBJECTS_MAX),
        }
    }

    /// Whether objects are written whole, and come and go.
    pub(crate) fn is_large(self) -> bool {
        self.lines > 1
    }

    /// Numbers of a copy's keys that come and go.
    pub(crate) fn passing(self) -> u64 {
        if !self.is_large() {
            return 0;
        }
        (self.keys / 16).max(NUMBERS_EACH * (CLIENTS_MAX as u64).div_ceil(self.copies))
    }

    /// Objects that a copy has room for.
    pub(crate) fn slots(self) -> u64 {
        if self.is_large() { self.keys + self.passing() + 1 } else { self.keys }
    }

    /// Which copy is a worker's.
    #[inline]
    pub(crate) fn copy(self, index: usize) -> u64 {
        index as u64 % self.copies
    }

    /// The order in which a worker's own keys come and go.
    pub(crate) fn turns(self, index: usize, options: Option<&Options>, random: u64) -> Turns {
        let workers = options.map_or(CLIENTS_MAX, |options| workers_of(index, options));
        let (copies, passing) = (self.copies as usize, self.passing().max(NUMBERS_EACH));
        Turns::in_order(index / copies, workers.div_ceil(copies), passing, random)
    }
}

/// Locks a copy.
#[inline]
pub(crate) fn lock_copy<W: Words>(tx: &mut W, copy: u64) -> Result<(), Stop> {
    tx.lock(LockId::of(lock::ROWS, copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_was_written() {
        for data in [DataSet::Large { bytes: 16384 }, DataSet::Random { objects: 64 }] {
            let options = Options { data: Some(data), workers: 200, ..Options::default() };
            let shape = Shape::of(&options);
            assert_eq!(Shape::decode(shape.encode()), shape);
            assert_eq!(shape.copies, COPIES as u64);
        }
        let shape = Shape::of(&Options { scale: 1e9, ..Options::default() });
        assert_eq!(Shape::decode(shape.encode()), shape);
        for damaged in [0, u64::MAX, 1 << 63] {
            let shape = Shape::decode(damaged);
            assert!(shape.copies > 0 && shape.lines > 0 && shape.objects > 0);
            assert!(shape.slots() < 1 << 33);
        }
    }
}
