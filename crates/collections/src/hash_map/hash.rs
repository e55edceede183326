//! The hash of an encoded key.
//!
//! Each word of the key is mixed in by a folded multiplication, as foldhash does: the two halves of
//! the 128-bit product, combined by exclusive or. Every bit of the word then reaches every bit of
//! the hash, and its upper bits, which select a directory's slots, are as good as the lower ones.
//!
//! Attack model: the seed is random and stored in the map. Keys from outside, chosen without
//! knowledge of the seed, collide as rarely as random keys. The function is not cryptographic. An
//! attacker that reads the pool, or that learns hashes from many exact timings, can construct keys
//! that collide. These make operations on them slow, as those on a list, and break nothing.

/// Digits of pi after the point, odd.
pub(super) const FIRST: u64 = 0x243f_6a88_85a3_08d3;

/// The digits from the 32nd on, odd.
const LAST: u64 = 0xa409_3822_299f_31d1;

/// Hashes a key of `bytes` bytes, whose last word is filled up with zeros.
#[inline]
pub(super) fn hash(seed: u64, words: &[u64], bytes: usize) -> u64 {
    let mut state = seed;
    for &word in words {
        state = fold(state ^ word, FIRST);
    }
    // The length distinguishes keys that differ in zeros at the end.
    fold(state ^ bytes as u64, LAST)
}

#[inline]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::key::{AsKey, Key, KeyBuf};

    fn hash_of<K: Key + ?Sized>(seed: u64, key: impl AsKey<K>) -> u64 {
        let key = KeyBuf::of::<K>(key);
        hash(seed, key.words(), key.as_bytes().len())
    }

    /// Returns the largest share of any 12 neighboring bits' values, relative to an even spread.
    fn worst_share(hashes: &[u64]) -> f64 {
        (0..=52)
            .step_by(4)
            .map(|shift| {
                let mut counts = vec![0_u32; 1 << 12];
                for hash in hashes {
                    counts[(hash >> shift) as usize & 0xfff] += 1;
                }
                let most = counts.iter().max().copied().unwrap_or(0);
                f64::from(most) * 4096.0 / hashes.len() as f64
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn regular_keys_spread_evenly_in_all_bits() {
        // 16 to each of 4096 values; the most of random keys are 40.
        const KEYS: u64 = 1 << 16;
        for seed in [0, 1, 0x0123_4567_89ab_cdef] {
            type Family = fn(u64, u64) -> u64;
            let families: [(&str, Family); 6] = [
                ("ascending", |seed, n| hash_of::<u64>(seed, n)),
                ("upper half", |seed, n| hash_of::<u64>(seed, n << 32)),
                ("multiples", |seed, n| hash_of::<u64>(seed, n * 4096)),
                ("pairs", |seed, n| hash_of::<(u32, u32)>(seed, (n as u32 & 255, (n >> 8) as u32))),
                ("names", |seed, n| hash_of::<str>(seed, format!("user-{n}"))),
                ("long", |seed, n| hash_of::<str>(seed, format!("{n:>70}"))),
            ];
            for (name, family) in families {
                let hashes: Vec<u64> = (0..KEYS).map(|n| family(seed, n)).collect();
                let worst = worst_share(&hashes);
                assert!(worst < 2.6, "{name} keys, seed {seed:#x}: {worst}");
                let different: HashSet<u64> = hashes.iter().copied().collect();
                assert_eq!(different.len(), hashes.len(), "{name}");
            }
        }
    }

    #[test]
    fn zeros_at_the_end_change_the_hash() {
        let keys: HashSet<u64> = (0..40).map(|n| hash_of::<[u8]>(7, vec![0; n])).collect();
        assert_eq!(keys.len(), 40);
    }

    #[test]
    fn seed_changes_every_hash() {
        for n in 0..1000 {
            assert_ne!(hash_of::<u64>(1, n), hash_of::<u64>(2, n));
        }
    }
}
