//! Write combining: a line that is stored to again soon is written back once.
//!
//! Combining pays where few lines take most of the writes, and costs where each write has its own
//! line ([`heap`](super::heap) has the figures). Each batch therefore counts the write-backs that
//! combining would save, and the next batch follows that count.

use crate::cpu::LINE_WORDS;

/// Lines that wait. With their numbers they fill half of a first-level cache; four times as many
/// save a tenth more write-backs and cost more than that.
const SLOT_BITS: u32 = 12;

/// Whether lines of a batch wait, so that a line that is stored to again is written back once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combining {
    /// When the last batch, or a probe, says that it pays.
    WhenSkewed,
    /// Never, for comparison.
    Never,
    /// Always, for comparison.
    Always,
}

/// When to combine.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Begin when this many of 100 lines of a batch were waiting already.
    begin_percent: u64,
    /// Percentage of saved lines below which combining stops. It is less than the starting
    /// percentage, so a batch in between changes nothing.
    stop_percent: u64,
    /// While not combining, one batch in this many is combined to measure its savings.
    probe_batches: u32,
    /// A batch of fewer lines says nothing about the next, which is not combined.
    lines_min: u64,
}

/// Combining saves lines, not time on memory. It loses a tenth where four of five lines are saved,
/// and a quarter where not quite half are. A device of 1 GB/s is twice as fast in the first case
/// (figures in `heap`). A combined batch of uniform writes costs half more, so one in 64 costs less
/// than a hundredth.
const WHEN_SKEWED: Rules =
    Rules { begin_percent: 50, stop_percent: 40, probe_batches: 64, lines_min: 1024 };

impl Combining {
    fn rules(self) -> Rules {
        match self {
            Combining::WhenSkewed => WHEN_SKEWED,
            Combining::Never => Rules { lines_min: u64::MAX, ..WHEN_SKEWED },
            Combining::Always => {
                Rules { begin_percent: 0, stop_percent: 0, lines_min: 0, ..WHEN_SKEWED }
            }
        }
    }
}

/// The lines that wait, and whether lines are to wait at all in this batch.
#[derive(Debug)]
pub(super) struct Combiner {
    kind: Combining,
    rules: Rules,
    /// The line that waits, at the place that its number hashes to.
    slots: Box<[usize]>,
    combining: bool,
    /// Lines that came in this batch, and those of them that were waiting already.
    lines: u64,
    hits: u64,
    since_probe: u32,
}

/// No line has this number: the words of a heap have 48-bit numbers.
const NONE: usize = usize::MAX;

impl Combiner {
    pub(super) fn new(combining: Combining) -> Combiner {
        Combiner {
            kind: combining,
            rules: combining.rules(),
            slots: vec![NONE; 1 << SLOT_BITS].into_boxed_slice(),
            combining: combining == Combining::Always,
            lines: 0,
            hits: 0,
            // The first batch that counts is followed by a probe.
            since_probe: combining.rules().probe_batches - 1,
        }
    }

    /// Returns an empty combiner with the same rules, for another part of the heap image.
    pub(super) fn anew(&self) -> Combiner {
        Combiner::new(self.kind)
    }

    /// Whether this batch is combined; the same from one barrier to the next.
    pub(super) fn is_combining(&self) -> bool {
        self.combining
    }

    /// That no line came since the last batch ended.
    pub(super) fn is_idle(&self) -> bool {
        self.lines == 0
    }

    /// Records a store to a line. Returns the line that it evicts, which must be written back.
    #[inline(always)]
    pub(super) fn touch(&mut self, line: usize) -> Option<usize> {
        let hash = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.slots[(hash >> (64 - SLOT_BITS)) as usize];
        self.lines += 1;
        if *slot == line {
            self.hits += 1;
            return None;
        }
        Some(std::mem::replace(slot, line)).filter(|&line| line != NONE)
    }

    /// That so many lines were stored to and not combined.
    pub(super) fn pass(&mut self, lines: u64) {
        self.lines += lines;
    }

    /// Ends the batch: hands out each line that waits and decides about the next batch.
    pub(super) fn end(&mut self, mut write_back: impl FnMut(usize)) {
        if self.combining {
            for line in &mut self.slots {
                if *line != NONE {
                    write_back(std::mem::replace(line, NONE));
                }
            }
        }
        self.combining = self.decide();
        (self.lines, self.hits) = (0, 0);
    }

    fn decide(&mut self) -> bool {
        if self.lines < self.rules.lines_min {
            return false;
        }
        if !self.combining {
            self.since_probe += 1;
            return self.since_probe >= self.rules.probe_batches;
        }
        let probe = self.since_probe != 0;
        let least = if probe { self.rules.begin_percent } else { self.rules.stop_percent };
        self.since_probe = 0;
        100 * self.hits >= least * self.lines
    }
}

/// The first word of a line.
pub(super) fn first_word(line: usize) -> usize {
    line * LINE_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combiner(probe_batches: u32) -> Combiner {
        let rules = Rules { begin_percent: 60, stop_percent: 40, probe_batches, lines_min: 1024 };
        Combiner { rules, since_probe: 0, ..Combiner::new(Combining::WhenSkewed) }
    }

    /// A batch in which so many of 100 lines wait already, or are said to.
    fn batch(combiner: &mut Combiner, percent: u64) -> bool {
        let combining = combiner.is_combining();
        for i in 0..10_000 {
            match combining {
                true => drop(combiner.touch(if i % 100 < percent { 7 } else { i as usize + 100 })),
                false => combiner.pass(1),
            }
        }
        combiner.end(|_| ());
        combining
    }

    #[test]
    fn pending_line_is_written_back_on_eviction_or_end() {
        let mut combiner = Combiner::new(Combining::Always);
        let mut waiting = std::collections::BTreeSet::new();
        let mut handed_out = 0;
        for i in 0..40_000 {
            let line = i * i % 9973;
            if let Some(other) = combiner.touch(line) {
                assert!(other != line && waiting.remove(&other));
                handed_out += 1;
            }
            waiting.insert(line);
            assert_eq!(combiner.touch(line), None);
        }
        assert!(handed_out > 0 && !waiting.is_empty());
        combiner.end(|line| assert!(waiting.remove(&line)));
        assert!(waiting.is_empty());
        combiner.end(|line| panic!("line {line} was written back already"));
    }

    #[test]
    fn combining_starts_and_stops_by_measured_savings() {
        let mut combiner = combiner(3);
        let did: Vec<bool> = [0, 0, 0, 50, 0, 0, 0, 90, 50, 50, 10, 10, 10]
            .map(|percent| batch(&mut combiner, percent))
            .into();
        let expected = [0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0].map(|did| did == 1);
        assert_eq!(did, expected);
    }

    #[test]
    fn small_batches_are_not_combined() {
        let mut combiner = combiner(1);
        for _ in 0..10 {
            combiner.pass(1023);
            combiner.end(|_| ());
            assert!(!combiner.is_combining());
        }
        combiner.pass(1024);
        combiner.end(|_| ());
        assert!(combiner.is_combining());
    }

    #[test]
    fn always_and_never_are_what_they_say() {
        for (combining, percent) in [(Combining::Always, 0), (Combining::Never, 100)] {
            let mut combiner = Combiner::new(combining);
            for _ in 0..100 {
                assert_eq!(batch(&mut combiner, percent), combining == Combining::Always);
            }
        }
    }
}
