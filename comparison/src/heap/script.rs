//! The transactions of one worker, the same for every system.
//!
//! Each replaces four records at random. Indices are uniform, or by Zipf's law over a permutation
//! of the records, so that popular records are scattered over the whole store. An index may come up
//! twice in one transaction. A second script with the same arguments yields the same transactions.

use workloads::Zipf;

use super::Setup;
use super::record::{self, Stamp};
use crate::draw::Draw;

/// Records that a transaction replaces.
pub(crate) const WRITES: usize = 4;

/// One transaction: indices and records.
#[derive(Clone, Debug)]
pub(crate) struct Writes {
    indices: [u64; WRITES],
    words: Vec<u64>,
    record_words: usize,
}

impl Writes {
    /// Returns each index with its new record.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.indices.iter().copied().zip(self.words.chunks_exact(self.record_words))
    }
}

/// The transactions of one worker, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    draw: Draw,
    records: u64,
    /// `None`: indices are uniform.
    zipf: Option<Zipf>,
    stamp: Stamp,
    writes: Writes,
}

impl Script {
    /// Returns the script of one worker from its first transaction on.
    pub(crate) fn new(setup: &Setup, worker: usize) -> Script {
        let (records, record_words) = (setup.records, setup.record_words);
        let words = vec![0; WRITES * record_words];
        Script {
            draw: Draw::new(setup.seed, setup.round, worker),
            records,
            zipf: (setup.zipf > 0.0).then(|| Zipf::new(records, setup.zipf)),
            stamp: Stamp::before_first(worker),
            writes: Writes { indices: [0; WRITES], words, record_words },
        }
    }

    /// Returns the next transaction.
    #[inline]
    pub(crate) fn next(&mut self) -> &Writes {
        let (indices, stamp) = self.advance();
        let Writes { words, record_words, .. } = &mut self.writes;
        for (record, index) in words.chunks_exact_mut(*record_words).zip(indices) {
            record::fill(record, index, stamp);
        }
        self.writes.indices = indices;
        &self.writes
    }

    /// Returns the indices and the stamp of the next transaction, without its records.
    #[inline]
    pub(crate) fn advance(&mut self) -> ([u64; WRITES], Stamp) {
        let mut indices = [0; WRITES];
        indices.fill_with(|| match &self.zipf {
            Some(zipf) => zipf.scattered(self.draw.generator()),
            None => self.draw.below(self.records),
        });
        self.stamp.advance();
        (indices, self.stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(zipf: f64) -> Setup {
        Setup { records: 100_000, record_words: 8, zipf, ..Setup::for_tests() }
    }

    #[test]
    fn script_repeats_with_equal_arguments() {
        for zipf in [0.0, 0.99] {
            let (mut one, mut other) = (Script::new(&setup(zipf), 0), Script::new(&setup(zipf), 0));
            let mut another = Script::new(&setup(zipf), 1);
            let mut equal = 0;
            for transaction in 1..=1000 {
                let (indices, stamp) = other.advance();
                for ((index, record), expected) in one.next().iter().zip(indices) {
                    assert_eq!(index, expected);
                    assert_eq!(record::read(record, index), Some(stamp));
                }
                assert_eq!((stamp.worker(), stamp.transaction()), (Some(0), transaction));
                equal += usize::from(another.advance().0 == indices);
            }
            assert!(equal < 10, "{equal} transactions of two workers are equal");
        }
    }

    #[test]
    fn zipf_makes_few_records_popular() {
        let popular = |zipf| {
            let (mut script, mut counts) = (Script::new(&setup(zipf), 0), vec![0_u32; 100_000]);
            for _ in 0..25_000 {
                script.advance().0.iter().for_each(|index| counts[*index as usize] += 1);
            }
            counts.sort_unstable_by(|one, other| other.cmp(one));
            counts[..1000].iter().sum::<u32>()
        };
        let (uniform, skewed) = (popular(0.0), popular(0.99));
        assert!(uniform < 7000, "{uniform} of 100 000 writes to the 1000 most popular records");
        assert!(skewed > 50_000, "{skewed} of 100 000 writes to the 1000 most popular records");
    }
}
