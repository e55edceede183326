//! Records that prove their own content.
//!
//! ```text
//!   63        40 39        34 33                    0
//!   | check      | worker     | transaction          |   word 0: the stamp, with check bits
//!   | word i = word 0 + i * step                     |   the other words
//! ```
//!
//! The check bits depend on the record's index and on the stamp. A record that belongs to another
//! index, or that mixes two writes, is detected, except once in 2^24. Worker 0 is loading. The step
//! is a hash of word 0, so a store that compresses its files gains little: the low bytes of word 0
//! are those of all loaded records. With records of 8 bytes it gains more.

use std::fmt;

use crate::draw::mix;

const TRANSACTION_BITS: u32 = 34;
const CHECK_SHIFT: u32 = 40;

/// The greatest number of workers with stamps of their own.
pub(crate) const WORKERS_MAX: usize = (1 << (CHECK_SHIFT - TRANSACTION_BITS)) - 1;

/// The identity of a transaction: its worker and its place in that worker's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// The stamp of loading.
    pub(crate) const LOADED: Stamp = Stamp(0);

    /// Returns the stamp before the first transaction of a worker.
    pub(crate) fn before_first(worker: usize) -> Stamp {
        assert!(worker < WORKERS_MAX, "worker {worker} of {WORKERS_MAX}");
        Stamp((worker as u64 + 1) << TRANSACTION_BITS)
    }

    /// Advances to the worker's next transaction.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.0 += 1;
    }

    /// Returns the transaction's place in its worker's sequence, from 1.
    pub(crate) fn transaction(self) -> u64 {
        self.0 & ((1 << TRANSACTION_BITS) - 1)
    }

    /// Returns the worker, or `None` for loading.
    pub(crate) fn worker(self) -> Option<usize> {
        (self.0 >> TRANSACTION_BITS).checked_sub(1).map(|worker| worker as usize)
    }

    /// Returns whether a record with this stamp may follow a commit of `earlier` to it: the stamp
    /// is of that transaction, of a later one of its worker, or of another worker.
    pub(crate) fn may_follow(self, earlier: Stamp) -> bool {
        match self.worker() {
            None => false,
            worker if worker == earlier.worker() => self.0 >= earlier.0,
            Some(_) => true,
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worker() {
            None => f.write_str("loading"),
            Some(worker) => write!(f, "transaction {} of worker {worker}", self.transaction()),
        }
    }
}

/// Fills a record.
#[inline]
pub(crate) fn fill(record: &mut [u64], index: u64, stamp: Stamp) {
    let mut word = sealed(index, stamp);
    let step = mix(word) | 1;
    for place in record {
        *place = word;
        word = word.wrapping_add(step);
    }
}

/// Returns the stamp of a record, or `None` if it is not whole or belongs to another index.
pub(crate) fn read(record: &[u64], index: u64) -> Option<Stamp> {
    let first = *record.first()?;
    let stamp = Stamp(first & ((1 << CHECK_SHIFT) - 1));
    let step = mix(first) | 1;
    let follows = |pair: &[u64]| pair[1] == pair[0].wrapping_add(step);
    (first == sealed(index, stamp) && record.windows(2).all(follows)).then_some(stamp)
}

/// Returns word 0.
#[inline]
fn sealed(index: u64, stamp: Stamp) -> u64 {
    mix(mix(index) ^ stamp.0) >> CHECK_SHIFT << CHECK_SHIFT | stamp.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(worker: usize, transaction: u64) -> Stamp {
        let mut stamp = Stamp::before_first(worker);
        (0..transaction).for_each(|_| stamp.advance());
        stamp
    }

    #[test]
    fn record_returns_its_stamp() {
        for words in [1, 2, 8, 512] {
            let mut record = vec![0; words];
            for stamp in [Stamp::LOADED, stamp(0, 1), stamp(WORKERS_MAX - 1, 300)] {
                fill(&mut record, 77, stamp);
                assert_eq!(read(&record, 77), Some(stamp));
            }
        }
        assert_eq!(stamp(3, 300).worker(), Some(3));
        assert_eq!(stamp(3, 300).transaction(), 300);
        assert_eq!(Stamp::LOADED.worker(), None);
    }

    #[test]
    fn record_of_another_index_is_refused() {
        let mut record = [0; 1];
        fill(&mut record, 5, stamp(0, 9));
        assert!((0..1000).filter(|index| *index != 5).all(|index| read(&record, index).is_none()));
        assert_eq!(read(&[0], 5), None, "a record that was never written");
        assert_eq!(read(&[], 5), None);
    }

    #[test]
    fn torn_record_is_refused() {
        let (mut one, mut other) = ([0; 8], [0; 8]);
        fill(&mut one, 5, stamp(0, 9));
        fill(&mut other, 5, stamp(0, 10));
        for cut in 1..8 {
            let mut torn = one;
            torn[cut..].copy_from_slice(&other[cut..]);
            assert_eq!(read(&torn, 5), None, "cut before word {cut}");
        }
    }

    #[test]
    fn lost_write_is_detected() {
        assert!(stamp(1, 7).may_follow(stamp(1, 7)));
        assert!(stamp(1, 8).may_follow(stamp(1, 7)));
        assert!(stamp(0, 1).may_follow(stamp(1, 7)));
        assert!(!stamp(1, 6).may_follow(stamp(1, 7)));
        assert!(!Stamp::LOADED.may_follow(stamp(1, 7)));
    }
}
