//! The table of ownership records, shared by the stripes of a heap.
//!
//! Two stripes with one record exclude each other as if they were one. A transaction of `w` stripes
//! meets a record of a concurrent one, whatever both write, with a probability of about
//! `w * w / (2 * records)`. So the table grows with the heap, up to a bound that grows with the
//! cores: more records cause misses of caches and TLB, and avoid few conflicts.
//!
//! The memory consists of zeros that the kernel provides at first use (as huge pages where it can).
//! A large table therefore costs nothing to create, and takes memory only for its used part.

use medium::Memory;

use super::write_set::STRIPE_WORDS;
use crate::Error;
use crate::sync::{AtomicU64, cores};

/// Most records for each core by default, with the cores rounded up to a power of two.
const RECORDS_PER_CORE: usize = 1 << 18;
/// Most records that a program can request: 512 MiB. A read set stores their numbers in 32 bits.
const RECORDS_MAX: u64 = 1 << 26;

/// Ownership records; their number is a power of two.
#[derive(Debug)]
pub(super) struct Records {
    memory: Memory,
}

impl Records {
    /// Makes the records for a heap; see [`records_of`] for their number.
    ///
    /// # Errors
    /// [`Error::NoRecords`]. Fewer records would isolate as well, but would silently add false
    /// conflicts.
    pub(super) fn new(heap_words: usize, wanted: u64) -> Result<Records, Error> {
        let records = records_of(heap_words, wanted);
        let bytes = 8 * records;
        match Memory::anonymous(bytes) {
            Ok(memory) => Ok(Records { memory }),
            Err(_) => Err(Error::NoRecords { records, bytes }),
        }
    }

    /// Returns all records.
    #[inline(always)]
    pub(super) fn all(&self) -> &[AtomicU64] {
        self.memory.as_ref()
    }

    /// Returns the number of a stripe's record.
    #[inline(always)]
    pub(super) fn number(&self, stripe: usize) -> usize {
        stripe & (self.all().len() - 1)
    }

    /// Returns the record with this number.
    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> &AtomicU64 {
        &self.all()[number]
    }
}

/// Checks that the system has memory for this number of records.
///
/// # Errors
/// [`Error::NoRecords`].
pub(crate) fn check_records(records: u64) -> Result<(), Error> {
    let bytes = 8 * records;
    match bytes > 0 && Memory::room(bytes).is_err() {
        true => Err(Error::NoRecords { records, bytes }),
        false => Ok(()),
    }
}

/// Returns the number of records for a heap: as requested, rounded up to a power of two, or with 0
/// a number for the heap and the machine. Never more than the heap has stripes.
pub(crate) fn records_of(heap_words: usize, wanted: u64) -> u64 {
    count(heap_words, wanted, cores()) as u64
}

fn count(heap_words: usize, wanted: u64, cores: usize) -> usize {
    let stripes = heap_words.div_ceil(STRIPE_WORDS).next_power_of_two();
    let most = match wanted {
        0 => RECORDS_PER_CORE.saturating_mul(cores.next_power_of_two()),
        wanted => wanted.min(RECORDS_MAX).next_power_of_two() as usize,
    };
    stripes.min(most).min(RECORDS_MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 17; // words
    const GIB: usize = 1 << 27;

    #[test]
    fn records_grow_with_heap_and_cores() {
        assert_eq!(count(64 * MIB, 0, 2), 1 << 17);
        assert_eq!(count(256 * MIB, 0, 2), 1 << 19);
        assert_eq!(count(GIB, 0, 2), 1 << 19);
        assert_eq!(count(GIB, 0, 3), 1 << 20);
        assert_eq!(count(GIB, 0, 64), 1 << 21, "one for each stripe");
        assert_eq!(count(1 << 45, 0, usize::MAX >> 1), RECORDS_MAX as usize);
    }

    #[test]
    fn records_chosen_are_rounded_and_bounded() {
        assert_eq!(count(GIB, 1, 2), 1);
        assert_eq!(count(GIB, 1000, 2), 1024);
        assert_eq!(count(GIB, u64::MAX, 2), 1 << 21);
        assert_eq!(count(1, 1000, 2), 1);
        assert_eq!(count(1 << 45, u64::MAX, 2), RECORDS_MAX as usize);
    }
}
