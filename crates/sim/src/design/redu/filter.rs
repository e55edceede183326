//! Which lines may be in the DRAM cache: Bloom filters.
//!
//! Eager write-back keeps few lines there for a short time: *counters*, of which none is too small as
//! long as a line is there, so an answer of "no" is sure. (One that is full stays so: nobody knows
//! how many lines it stands for.) Least recently used keeps many: *bits*, which are set and never
//! cleared one by one, but all together when too many answers of "yes" were wrong; so "no" may be
//! wrong, too.

use crate::machine::description::Description;
use crate::mutants::{Mutant, planted};

/// Answers of "yes" from which a share is told.
const SAMPLE: u64 = 256;

/// A filter.
#[derive(Debug)]
pub(super) struct Filter {
    counters: Vec<u8>,
    most: u8,
    hashes: u64,
    /// Lines are taken out again.
    counts: bool,
    reset: f64,
    /// Answers of "yes" since the last reset, and those that were wrong.
    answers: u64,
    wrong: u64,
}

impl Filter {
    /// The filter of a policy.
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
            answers: 0,
            wrong: 0,
        }
    }

    /// The counters of a line.
    fn places(&self, line: u32) -> impl Iterator<Item = usize> + use<> {
        let (entries, line) = (self.counters.len() as u64, u64::from(line) + 1);
        // Odd multipliers, one for each hash.
        (0..self.hashes).map(move |hash| {
            let by = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * hash + 1);
            ((line.wrapping_mul(by) >> 32) * entries >> 32) as usize
        })
    }

    /// A line is there from here on.
    pub(super) fn insert(&mut self, line: u32) {
        for at in self.places(line) {
            let counter = &mut self.counters[at];
            *counter = (*counter + 1).min(self.most);
        }
    }

    /// A line is there no longer.
    pub(super) fn remove(&mut self, line: u32) {
        let times = if planted(Mutant::FilterTwice) { 2 } else { 1 };
        for at in self.places(line).filter(|_| self.counts) {
            let counter = &mut self.counters[at];
            if *counter < self.most {
                *counter = counter.saturating_sub(times);
            }
        }
    }

    /// Whether a line may be there.
    pub(super) fn may_have(&self, line: u32) -> bool {
        self.places(line).all(|at| self.counters[at] > 0)
    }

    /// Whether its "yes" was right. Bits are cleared when too many were not. Answers whether they
    /// were.
    pub(super) fn judge(&mut self, was_right: bool) -> bool {
        self.answers += 1;
        self.wrong += u64::from(!was_right);
        let resets = !self.counts
            && self.answers >= SAMPLE
            && self.wrong as f64 > self.reset * self.answers as f64;
        if resets {
            self.counters.fill(0);
        }
        if resets || self.answers == 4 * SAMPLE {
            (self.answers, self.wrong) = (0, 0);
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
    fn what_is_there_is_never_denied_by_counters_though_some_are_full() {
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
    fn a_line_that_has_left_is_denied_by_counters_and_not_by_bits() {
        for lazy in [false, true] {
            let mut filter = filter(lazy);
            filter.insert(77);
            filter.insert(78);
            filter.remove(77);
            assert_eq!((filter.may_have(77), filter.may_have(78)), (lazy, true));
        }
    }

    #[test]
    fn bits_are_cleared_when_more_than_half_of_their_answers_are_wrong() {
        let mut filter = filter(true);
        filter.insert(77);
        let resets = (0..SAMPLE).map(|at| filter.judge(at % 2 == 0)).filter(|it| *it).count();
        assert_eq!((resets, filter.may_have(77)), (0, true), "half is not more than half");
        assert!((0..SAMPLE).any(|_| filter.judge(false)));
        assert!(!filter.may_have(77));
    }
}
