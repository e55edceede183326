//! Bloom filters for the lines that may be in the DRAM cache.
//!
//! Eager write-back keeps few lines in the cache for a short time. Its filter has *counters*, which
//! never underestimate the present lines, so a negative result is certain. A saturated counter
//! stays saturated, since its true count is unknown. The policy of least recent use keeps many
//! lines. Its filter has *bits*, which are set and never cleared individually. All bits are cleared
//! together when too many positive results were wrong, so a negative result may be wrong too.

use crate::machine::description::Description;
use crate::mutants::{Mutant, injected};

/// Positive results after which their error rate counts.
const SAMPLE: u64 = 256;

/// A Bloom filter.
#[derive(Debug)]
pub(super) struct Filter {
    counters: Vec<u8>,
    most: u8,
    hashes: u64,
    /// Whether lines are removed again.
    counts: bool,
    reset: f64,
    /// Positive results since the last reset, and the wrong ones.
    positives: u64,
    wrong: u64,
}

impl Filter {
    /// Returns the filter of a policy.
    pub(super) fn new(description: &Description, lazy: bool) -> Filter {
        let of = |key| description.parameter("redu", key);
        let entries = of(if lazy { "bloom_entries_lru" } else { "bloom_entries" });
        let bits = if lazy { 1 } else { of("bloom_bits") as u32 };
        Filter {
            counters: vec![0; (entries as usize).max(1)],
            most: ((1_u32 << bits.clamp(1, 8)) - 1) as u8,
            hashes: of("bloom_hashes") as u64,
            counts: !lazy,
            reset: of("bloom_reset"),
            positives: 0,
            wrong: 0,
        }
    }

    /// Returns the positions of a line's counters.
    fn places(&self, line: u32) -> impl Iterator<Item = usize> + use<> {
        let (entries, line) = (self.counters.len() as u64, u64::from(line) + 1);
        // One odd multiplier per hash.
        (0..self.hashes).map(move |hash| {
            let by = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * hash + 1);
            (((line.wrapping_mul(by) >> 32) * entries) >> 32) as usize
        })
    }

    /// Adds a line.
    pub(super) fn insert(&mut self, line: u32) {
        for at in self.places(line) {
            let counter = &mut self.counters[at];
            *counter = (*counter + 1).min(self.most);
        }
    }

    /// Removes a line.
    pub(super) fn remove(&mut self, line: u32) {
        let times = if injected(Mutant::FilterTwice) { 2 } else { 1 };
        for at in self.places(line).filter(|_| self.counts) {
            let counter = &mut self.counters[at];
            if *counter < self.most {
                *counter = counter.saturating_sub(times);
            }
        }
    }

    /// Whether a line may be present.
    pub(super) fn may_have(&self, line: u32) -> bool {
        self.places(line).all(|at| self.counters[at] > 0)
    }

    /// Records whether a positive result was right. Clears the bits when too many were wrong.
    /// Returns whether it has.
    pub(super) fn judge(&mut self, was_right: bool) -> bool {
        self.positives += 1;
        self.wrong += u64::from(!was_right);
        let resets = !self.counts
            && self.positives >= SAMPLE
            && self.wrong as f64 > self.reset * self.positives as f64;
        if resets {
            self.counters.fill(0);
        }
        if resets || self.positives == 4 * SAMPLE {
            (self.positives, self.wrong) = (0, 0);
        }
        resets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(lazy: bool) -> Filter {
        Filter::new(&Description::builtin("redu").unwrap(), lazy)
    }

    #[test]
    fn saturated_counters_have_no_false_negatives() {
        let mut filter = filter(false);
        for line in 0..40_000 {
            filter.insert(line);
        }
        assert!((0..40_000).all(|line| filter.may_have(line)));
        for line in 100..40_000 {
            filter.remove(line);
        }
        assert!((0..100).all(|line| filter.may_have(line)));
    }

    #[test]
    fn removed_line_clears_counters_and_not_bits() {
        for lazy in [false, true] {
            let mut filter = filter(lazy);
            filter.insert(77);
            filter.insert(78);
            filter.remove(77);
            assert_eq!((filter.may_have(77), filter.may_have(78)), (lazy, true));
        }
    }

    #[test]
    fn bits_are_cleared_above_half_false_positives() {
        let mut filter = filter(true);
        filter.insert(77);
        let resets = (0..SAMPLE).map(|at| filter.judge(at % 2 == 0)).filter(|it| *it).count();
        assert_eq!((resets, filter.may_have(77)), (0, true), "half is not more than half");
        assert!((0..SAMPLE).any(|_| filter.judge(false)));
        assert!(!filter.may_have(77));
    }
}
