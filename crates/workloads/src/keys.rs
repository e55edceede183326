//! Key generators, and the set of keys that loading inserts.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::options::{Options, Supported};
use crate::stamp::Stamp;
use crate::violation::{Violation, Violations};
use crate::zipf::Zipf;

/// Keys that one transaction of loading inserts.
const BATCH: usize = 256;

/// One worker's transactions on single keys.
#[derive(Clone, Debug)]
pub struct KeyClient {
    rng: Xoshiro256PlusPlus,
    pub(crate) stamp: Stamp,
    pub(crate) key: u64,
    /// Whether the current transaction only reads.
    pub(crate) reads: bool,
    /// Percentage of transactions that write.
    update_percent: u8,
    /// `None`: keys are uniform.
    zipf: Option<Zipf>,
    /// Whether hot keys are neighbours.
    in_order: bool,
}

impl KeyClient {
    /// The options that most workloads on single keys support.
    pub(crate) const SUPPORTS: Supported =
        Supported { update_percent: true, zipf: true, ..Supported::NOTHING };

    /// Makes the client of a worker whose every transaction writes, with uniform keys.
    pub(crate) fn new(index: usize, seed: u64) -> KeyClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let (zipf, in_order) = (None, false);
        KeyClient { rng, stamp, key: 0, reads: false, update_percent: 100, zipf, in_order }
    }

    /// Makes the smallest keys the hottest under a Zipf distribution.
    pub(crate) fn in_order(self) -> KeyClient {
        KeyClient { in_order: true, ..self }
    }

    /// Applies the options, for keys below `end`.
    pub(crate) fn tune(&mut self, options: &Options, end: u64) {
        self.update_percent = options.update_percent.unwrap_or(self.update_percent).min(100);
        if let Some(exponent) = options.zipf {
            self.zipf = (exponent > 0.0).then(|| Zipf::new(end, exponent));
        }
    }

    /// Generates the next transaction, on a key below `end`.
    #[inline]
    pub(crate) fn advance(&mut self, end: u64) {
        self.key = match &self.zipf {
            None => below(&mut self.rng, end),
            Some(zipf) if self.in_order => zipf.rank(&mut self.rng),
            Some(zipf) => zipf.scattered(&mut self.rng),
        };
        if self.update_percent < 100 {
            self.reads = below(&mut self.rng, 100) >= u64::from(self.update_percent);
        }
        self.stamp.advance();
    }

    /// Returns the value that the current transaction writes under its key.
    #[inline]
    pub(crate) fn value(&self) -> u64 {
        self.stamp.value(self.key)
    }

    /// Returns whether a value found under its key is the current transaction's or a later one's;
    /// true for a transaction that only reads.
    pub(crate) fn is_in(&self, found: Option<u64>) -> bool {
        self.reads || found.is_some_and(|found| self.stamp.is_in(found, self.key))
    }
}

/// Returns the random generator of one worker in one run.
pub(crate) fn generator(index: usize, seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(mix(seed).wrapping_add(index as u64))
}

/// Draws a number below `end`. It rejects no draw; the bias is below one in a million for 2^44.
#[inline]
pub(crate) fn below(rng: &mut Xoshiro256PlusPlus, end: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(end)) >> 64) as u64
}

/// Returns whether loading inserts this key: about every second one, without a pattern.
pub(crate) fn is_loaded(key: u64) -> bool {
    mix(key) & 1 == 0
}

/// Returns how many of the keys below `end` loading inserts.
pub(crate) fn loaded(end: u64) -> u64 {
    (0..end).filter(|&key| is_loaded(key)).count() as u64
}

/// Returns the keys of one transaction of loading, from this progress on, and the next progress,
/// `None` at the end.
///
/// Keys are inserted in `1 << rounds_log2` rounds, each an ascending sweep through a pseudo-random
/// share of them. Sweeps are quick, and the tree that they fill has leaves as full as random order
/// would leave them.
pub(crate) fn batch(progress: u64, end: u64, rounds_log2: u32) -> (Vec<u64>, Option<u64>) {
    let rounds = 1_u64 << rounds_log2;
    let mut keys = Vec::with_capacity(BATCH);
    let mut at = progress;
    while at < rounds * end && keys.len() < BATCH {
        let (round, key) = (at / end, at % end);
        if is_loaded(key) && (mix(key) >> 1) & (rounds - 1) == round {
            keys.push(key);
        }
        at += 1;
    }
    (keys, (at < rounds * end).then_some(at))
}

/// Checks pairs of a table of stamped values; returns how many of their keys loading inserted.
pub(crate) fn check_pairs(pairs: &[(u64, u64)], end: u64, violations: &mut Violations) -> u64 {
    let mut loaded = 0;
    for &(key, value) in pairs {
        if key >= end {
            violations.add(Violation::Key { end, found: key });
        } else if Stamp::of(value, key).is_none() {
            violations.add(Violation::Value { key, found: value });
        } else {
            loaded += u64::from(is_loaded(key));
        }
    }
    loaded
}

/// Permutes all numbers, pseudo-randomly (the finalizer of splitmix64).
pub(crate) fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// Inverts [`mix`].
pub(crate) fn unmix(mixed: u64) -> u64 {
    let key = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let key = (key ^ (key >> 27) ^ (key >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    (key ^ (key >> 30) ^ (key >> 60)).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loaded_key_is_loaded_once() {
        for rounds_log2 in [0, 2] {
            let (mut keys, mut progress) = (Vec::new(), Some(0));
            while let Some(at) = progress {
                let (batch, next) = batch(at, 5000, rounds_log2);
                assert!(batch.len() <= BATCH);
                keys.extend(batch);
                progress = next;
            }
            keys.sort_unstable();
            let expected: Vec<u64> = (0..5000).filter(|&key| is_loaded(key)).collect();
            assert_eq!(keys, expected);
            assert_eq!(loaded(5000), keys.len() as u64);
            assert!((2300..2700).contains(&keys.len()));
        }
    }

    #[test]
    fn unmix_inverts_mix() {
        for n in 0..10_000_u64 {
            let number = n.wrapping_mul(0x1234_5678_9abc_def1);
            assert_eq!(unmix(mix(number)), number);
        }
    }

    #[test]
    fn update_percent_sets_the_share_of_writes() {
        let mut client = KeyClient::new(0, 1);
        client.tune(&Options { update_percent: Some(30), ..Options::default() }, 1000);
        let mut writes = 0;
        for _ in 0..10_000 {
            client.advance(1000);
            assert!(client.key < 1000);
            writes += usize::from(!client.reads);
        }
        assert!((2800..3200).contains(&writes), "{writes}");
    }

    #[test]
    fn drawn_keys_are_uniform_below_the_end() {
        let mut rng = generator(0, 1);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[below(&mut rng, 10) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| (800..1200).contains(&times)), "{seen:?}");
    }
}
