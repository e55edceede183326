//! Numbers by Zipf's law: rank k is drawn in proportion to 1 / (k + 1)^s.
//!
//! ```text
//!   ranks     0 1 2 ... 255 | 256 ... 259 | 260 ... 263 | ...          | ... n - 1
//!   buckets   one each        the rest, each some 1.5 % longer than the one before
//! ```
//!
//! The sampler draws a bucket by its share (an alias table: one random number, one comparison), and
//! in it a rank uniformly. The law is therefore exact for the hottest ranks and for each later
//! bucket. Inside a bucket, where the law falls by some 1.5 %, it is a step. No power is computed,
//! and no branch depends on an outcome. A scattered draw takes 10 to 16 ns more than a uniform one,
//! which with the stamp takes 6 to 8; branches would add 40 to 50 (`cargo bench -p
//! lastword-workloads --bench draws`, on a busy machine).

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::keys::below;

/// Buckets, as a power of two: their tables fit in the second-level cache with room to spare.
const BUCKETS_LOG2: u32 = 10;
const BUCKETS: usize = 1 << BUCKETS_LOG2;

/// Ranks that have a bucket of their own.
const SINGLE: u64 = 256;

/// A sampler of ranks under Zipf's law; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Zipf {
    tables: Arc<Tables>,
}

#[derive(Debug)]
struct Tables {
    slots: Vec<Slot>,
    /// First rank and number of ranks.
    buckets: Vec<(u64, u64)>,
    /// The factor of [`Zipf::scattered`].
    factor: u64,
    ranks: u64,
}

/// A slot of the alias table: its own bucket below the cut, another one from there on.
#[derive(Clone, Copy, Debug)]
struct Slot {
    cut: u64,
    other: u64,
}

/// 1 as a cut.
const WHOLE: f64 = (1_u64 << 32) as f64;

impl Zipf {
    /// Returns the sampler over so many ranks, at least one, with this exponent above 0.
    pub fn new(ranks: u64, exponent: f64) -> Zipf {
        let buckets = buckets(ranks.max(1));
        let mut shares: Vec<f64> = buckets
            .iter()
            .map(|&(first, len)| match len {
                0 => 0.0,
                1 => ((first + 1) as f64).powf(-exponent),
                _ => integral(first as f64 + 0.5, (first + len) as f64 + 0.5, exponent),
            })
            .collect();
        let all: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share *= BUCKETS as f64 / all);
        let (slots, factor) = (alias(shares), scattering(ranks.max(1)));
        Zipf { tables: Arc::new(Tables { slots, buckets, factor, ranks: ranks.max(1) }) }
    }

    /// Draws a rank; 0 is the hottest.
    #[inline]
    pub fn rank(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let tables = &*self.tables;
        let random = rng.next_u64();
        let own = random >> (64 - BUCKETS_LOG2);
        let slot = tables.slots[own as usize];
        // No branch on the draw: its outcome is random.
        let is_own = u64::from(random & 0xffff_ffff < slot.cut).wrapping_neg();
        let bucket = (slot.other ^ ((own ^ slot.other) & is_own)) as usize;
        let (first, len) = tables.buckets[bucket & (BUCKETS - 1)];
        first + below(rng, len)
    }

    /// Draws a number below the number of ranks. Hot numbers are not neighbours: each rank maps to
    /// one number, far from those of the ranks beside it.
    #[inline]
    pub fn scattered(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        scatter(self.rank(rng), self.tables.factor, self.tables.ranks)
    }
}

/// Returns the exponent by which the hottest `hot` of the ranks get `share` of the draws, of 1.
pub(crate) fn exponent(ranks: u64, hot: f64, share: f64) -> f64 {
    let first = (hot * ranks as f64) as u64;
    let weight = |ranks: u64, exponent: f64| {
        let single = ranks.min(SINGLE);
        let hottest: f64 = (1..=single).map(|rank| (rank as f64).powf(-exponent)).sum();
        let rest = ranks > single;
        hottest
            + if rest { integral(single as f64 + 0.5, ranks as f64 + 0.5, exponent) } else { 0.0 }
    };
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        let is_enough = weight(first, middle) >= share * weight(ranks, middle);
        if is_enough { high = middle } else { low = middle }
    }
    high
}

/// Permutes the numbers below `end`; `factor` is [`scattering`]'s.
#[inline]
pub(crate) fn scatter(place: u64, factor: u64, end: u64) -> u64 {
    if end <= 1 << 32 {
        place * factor % end
    } else {
        (u128::from(place) * u128::from(factor) % u128::from(end)) as u64
    }
}

/// Returns a factor that permutes the numbers below `end`. It has no common divisor with `end` and
/// is near its golden section, whose multiples are as far apart as possible.
pub(crate) fn scattering(end: u64) -> u64 {
    let golden = (end as f64 * 0.618_033_988_749_894_9) as u64;
    (golden.max(1)..).find(|&factor| divisor(factor, end) == 1).unwrap_or(1)
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Returns first rank and number of ranks of every bucket; surplus buckets have none.
fn buckets(ranks: u64) -> Vec<(u64, u64)> {
    let single = ranks.min(SINGLE);
    let mut buckets: Vec<(u64, u64)> = (0..single).map(|rank| (rank, 1)).collect();
    let mut first = single;
    while buckets.len() < BUCKETS {
        let left = (BUCKETS - buckets.len()) as f64;
        // The ratio that reaches the end with the remaining buckets.
        let end = first as f64 * (ranks as f64 / first as f64).powf(left.recip());
        let end = if left <= 1.0 { ranks } else { (end as u64).max(first + 1).min(ranks) };
        let len = end.saturating_sub(first);
        buckets.push((first.min(ranks - 1), len));
        first += len;
    }
    buckets
}

/// Returns the integral of x^-s.
fn integral(from: f64, to: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    if power.abs() < 1e-9 {
        return (to / from).ln();
    }
    (to.powf(power) - from.powf(power)) / power
}

/// Returns the alias table of shares whose mean is 1 (Vose's method): one bucket with a larger
/// share fills each slot up to 1.
fn alias(mut shares: Vec<f64>) -> Vec<Slot> {
    let mut slots: Vec<Slot> =
        (0..shares.len()).map(|own| Slot { cut: WHOLE as u64, other: own as u64 }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..shares.len()).partition(|&bucket| shares[bucket] < 1.0);
    while let (Some(&less), Some(&more)) = (small.last(), large.last()) {
        small.pop();
        slots[less] = Slot { cut: (shares[less] * WHOLE) as u64, other: more as u64 };
        shares[more] -= 1.0 - shares[less];
        if shares[more] < 1.0 {
            large.pop();
            small.push(more);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::generator;

    #[test]
    fn ranks_follow_zipfs_law() {
        const DRAWS: u64 = 2_000_000;
        for (ranks, exponent) in [(10_u64, 0.99), (3000, 1.0), (100_000, 0.99), (100_000, 1.07)] {
            let zipf = Zipf::new(ranks, exponent);
            let mut rng = generator(0, 7);
            let mut drawn = vec![0_u64; ranks as usize];
            (0..DRAWS).for_each(|_| drawn[zipf.rank(&mut rng) as usize] += 1);
            let law: Vec<f64> = (1..=ranks).map(|k| (k as f64).powf(-exponent)).collect();
            let all: f64 = law.iter().sum();
            // Ranges of ranks, each twice as long as the one before.
            let mut from = 0;
            while from < ranks as usize {
                let to = (2 * from + 1).min(ranks as usize);
                let expected = DRAWS as f64 * law[from..to].iter().sum::<f64>() / all;
                let found = drawn[from..to].iter().sum::<u64>() as f64;
                let spread = 5.0 * expected.sqrt() + 0.002 * expected;
                assert!((found - expected).abs() < spread, "{ranks}, {from}: {found}, {expected}");
                from = to;
            }
        }
    }

    #[test]
    fn exponent_gives_hot_ranks_their_share() {
        const DRAWS: u64 = 400_000;
        for ranks in [128, 8192, 1_000_000] {
            let zipf = Zipf::new(ranks, exponent(ranks, 0.15, 0.8));
            let mut rng = generator(0, ranks);
            let hot = (0..DRAWS).filter(|_| zipf.rank(&mut rng) < ranks * 15 / 100).count();
            let share = hot as f64 / DRAWS as f64;
            assert!((share - 0.8).abs() < 0.005, "{ranks} ranks: {share}");
        }
    }

    #[test]
    fn zipf_over_few_ranks_stays_in_range() {
        for ranks in 1..=600 {
            let zipf = Zipf::new(ranks, 0.99);
            let mut rng = generator(0, ranks);
            assert!((0..2000).all(|_| zipf.rank(&mut rng) < ranks), "{ranks}");
            assert!((0..200).all(|_| zipf.scattered(&mut rng) < ranks), "{ranks}");
        }
    }

    #[test]
    fn scattering_permutes_and_separates_hot_ranks() {
        for end in [1, 2, 3, 64, 97, 10_000] {
            let factor = scattering(end);
            let mut all: Vec<u64> = (0..end).map(|place| scatter(place, factor, end)).collect();
            let mut hot: Vec<u64> = all.iter().copied().take(20).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..end), "{end}");
            hot.sort_unstable();
            let near = hot.windows(2).map(|two| two[1] - two[0]).min();
            assert!(near.is_none_or(|near| near >= end / 60), "{end}: {hot:?}");
        }
        let end = (1 << 40) - 87;
        let factor = scattering(end);
        assert!(scatter(end - 1, factor, end) < end && divisor(factor, end) == 1);
    }
}
