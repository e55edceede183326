//! Copies of a structure, one a worker, and their shape.
//!
//! ```text
//!   a workload's size in its head   | objects | lines of one | copies | keys |
//!                                      8 bits        16           8       32
//! ```
//!
//! Where a paper runs several processes, each worker has its own copy of the data, up to 32 copies;
//! further workers share. A copy has a lock that guards it, which a worker with its own copy never
//! waits for.

use words::{LockId, Stop, Words};

use crate::churn::{Churn, workers_of};
use crate::data::{DataSet, LINE_BYTES, OBJECTS_MAX};
use crate::lock;
use crate::options::{CLIENTS_MAX, Options, scaled};

/// Most copies: their links fit in an object.
pub(crate) const COPIES: usize = 32;

/// Keys of a copy at scale 1 with objects of up to `LARGE_MIN` bytes. Larger objects are fewer, so
/// that a copy's data are 100 MB.
const KEYS: u64 = 100_000;
const LARGE_MIN: u64 = 1024;

/// Fewest keys: as many as a transaction uses, and some more.
const KEYS_MIN: u64 = 96;

/// Bits of a key count, for more keys than any pool holds objects.
const KEYS_BITS: u32 = 32;

/// Fewest numbers of a worker for keys that are inserted and removed.
const NUMBERS_EACH: u64 = 4;

/// The shape of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Keys of each copy that are always present.
    pub(crate) keys: u64,
    pub(crate) copies: u64,
    /// Lines of an object.
    pub(crate) lines: u64,
    /// Objects of a transaction.
    pub(crate) objects: usize,
}

impl Shape {
    /// Returns the shape for these options.
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

    /// Decodes a head's size; a damaged one gives some shape without a panic.
    pub(crate) fn decode(size: u64) -> Shape {
        Shape {
            keys: (size & ((1 << KEYS_BITS) - 1)).max(KEYS_MIN),
            copies: (size >> KEYS_BITS & 0xff).clamp(1, COPIES as u64),
            lines: (size >> 40 & 0xffff).clamp(1, 256),
            objects: ((size >> 56) as usize).clamp(1, OBJECTS_MAX),
        }
    }

    /// Returns whether objects are written whole, and are inserted and removed.
    pub(crate) fn is_large(self) -> bool {
        self.lines > 1
    }

    /// Returns the numbers of a copy's keys that are inserted and removed.
    pub(crate) fn passing(self) -> u64 {
        if !self.is_large() {
            return 0;
        }
        (self.keys / 16).max(NUMBERS_EACH * (CLIENTS_MAX as u64).div_ceil(self.copies))
    }

    /// Returns the number of objects that a copy has room for.
    pub(crate) fn slots(self) -> u64 {
        if self.is_large() { self.keys + self.passing() + 1 } else { self.keys }
    }

    /// Returns the copy of a worker.
    #[inline]
    pub(crate) fn copy(self, index: usize) -> u64 {
        index as u64 % self.copies
    }

    /// Returns the order in which a worker's own keys are inserted and removed.
    pub(crate) fn churn(self, index: usize, options: Option<&Options>, random: u64) -> Churn {
        let workers = options.map_or(CLIENTS_MAX, |options| workers_of(index, options));
        let (copies, passing) = (self.copies as usize, self.passing().max(NUMBERS_EACH));
        Churn::in_order(index / copies, workers.div_ceil(copies), passing, random)
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
    fn shape_round_trips() {
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
