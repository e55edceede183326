//! The table of ownership records, which a heap's stripes share.
//!
//! Two stripes under one record exclude each other as if they were one. A transaction of w stripes
//! beside another one meets a record of the other's in about w * w / (2 * records) of all cases,
//! whatever both write. So the table grows with the heap, up to a bound that grows with the cores:
//! more records than that cost misses of caches and TLB and save conflicts that hardly occur.
//!
//! The memory is zeros that the kernel provides when they are first used (as huge pages where it
//! gives them), so a large table costs nothing to make, and takes memory for what is used of it.

use medium::Memory;

use super::write_set::STRIPE_WORDS;
use crate::Error;
use crate::sync::AtomicU64;

/// Most records for each core when the program does not choose.
const RECORDS_PER_CORE: usize = 1 << 18;
/// Most records that a program can choose: 512 MiB. A read set has their numbers in 32 bits.
const RECORDS_MAX: u64 = 1 << 26;

/// Ownership records: a power of two of them.
#[derive(Debug)]
pub(super) struct Records {
    memory: Memory,
}

impl Records {
    /// Records for a heap: as [`records_of`].
    ///
    /// # Errors
    /// [`Error::NoRecords`]. Fewer records would isolate as well, but a pool would lose more
    /// transactions to false conflicts without a word.
    pub(super) fn new(heap_words: usize, wanted: u64) -> Result<Records, Error> {
        let records = records_of(heap_words, wanted);
        let bytes = 8 * records;
        match Memory::anonymous(bytes) {
            Ok(memory) => Ok(Records { memory }),
            Err(_) => Err(Error::NoRecords { records, bytes }),
        }
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn all(&self) -> &[AtomicU64] {
        self.memory.as_ref()
    }

    /// The number of a stripe's record.
    #[inline(always)]
    pub(super) fn number(&self, stripe: usize) -> usize {
        stripe & (self.all().len() - 1)
    }

    /// The record of this number.
    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> &AtomicU64 {
        &self.all()[number]
    }
}

/// How many records a heap has: as many as were asked for, rounded up to a power of two, or with 0
/// as many as suit the heap and the machine. Never more than the heap has stripes.
pub(crate) fn records_of(heap_words: usize, wanted: u64) -> u64 {
    count(heap_words, wanted, cores()) as u64
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
