//! The oracle: the heap that must be present after a power failure.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::memory::{LineWords, line_of};
use crate::machine::sparse::{PAGE_WORDS, Pages, Sparse};
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::Time;
use crate::persist::history::Transaction;
use crate::persist::{History, Persistent};

/// The recovered state as a program sees it.
pub(super) struct Heap<'s> {
    pub(super) state: &'s Persistent,
    /// Maps a line of the program to its place.
    pub(super) found_at: &'s dyn Fn(u32) -> u32,
    /// Lines may be in other places than their numbers; pages then move as a whole.
    pub(super) moves: bool,
}

impl Heap<'_> {
    /// Returns a line of the program.
    pub(super) fn line(&self, line: u32) -> LineWords {
        self.state.line((self.found_at)(line))
    }

    /// Returns the lines of the program, out of `lines`, except for pages that are at their own
    /// place and not in `used`.
    pub(super) fn used_lines(&self, used: &Pages, lines: u32) -> Vec<u32> {
        const { assert!(PAGE_WORDS == 8 * PAGE_LINES as usize) };
        let firsts = (0..lines).step_by(PAGE_LINES as usize);
        let is_used = |first: &u32| {
            used.has_word(*first as usize * 8) || self.moves && (self.found_at)(*first) != *first
        };
        let pages = firsts.filter(is_used).map(|first| first..lines.min(first + PAGE_LINES));
        pages.flatten().collect()
    }

    /// Returns the lines of the program, out of `lines`, that changed after the power failure.
    fn changed(&self, lines: u32) -> Vec<u32> {
        if !self.moves {
            return self.state.changed().filter(|line| *line < lines).collect();
        }
        let changed: FxHashSet<u32> = self.state.changed().collect();
        let pages: FxHashSet<u32> = changed.iter().map(|line| line / PAGE_LINES).collect();
        let mut found = Vec::new();
        for first in (0..lines).step_by(PAGE_LINES as usize) {
            let physical = (self.found_at)(first);
            if pages.contains(&(physical / PAGE_LINES)) {
                let lines = (0..PAGE_LINES).filter(|at| changed.contains(&(physical + at)));
                found.extend(lines.map(|at| first + at));
            }
        }
        found
    }
}

/// Returns the lines of a page.
fn lines_of(page: u32) -> std::ops::Range<u32> {
    page * PAGE_LINES..(page + 1) * PAGE_LINES
}

/// The expected heap, advanced from cut to cut.
pub(super) struct Oracle<'h> {
    /// The result of all acknowledged transactions.
    heap: Sparse,
    /// All transactions in the order of acknowledgement; the first `done` are acknowledged.
    acknowledged: Vec<&'h Transaction>,
    done: usize,
    /// The transactions of each core, and the number of acknowledged ones.
    cores: Vec<(Vec<&'h Transaction>, usize)>,
    /// Lines that were written since the last whole comparison.
    touched: FxHashSet<u32>,
    at: Time,
}

/// The result of a comparison.
#[derive(Clone, Default)]
pub(super) struct Found {
    /// The numbers of ending transactions that are present and absent.
    pub(super) there: u64,
    pub(super) gone: u64,
    pub(super) violation: Option<String>,
}

impl<'h> Oracle<'h> {
    pub(super) fn new(heap: Sparse, history: &'h History) -> Oracle<'h> {
        let mut acknowledged: Vec<&Transaction> = history.transactions().iter().collect();
        // The sort is stable: transactions acknowledged at the same time stay in order.
        acknowledged.sort_by_key(|it| it.acknowledged);
        let count = acknowledged.iter().map(|it| it.core + 1).max().unwrap_or(0);
        let mut cores = vec![(Vec::new(), 0); count];
        for it in &acknowledged {
            cores[it.core].0.push(*it);
        }
        Oracle { heap, acknowledged, done: 0, cores, touched: FxHashSet::default(), at: 0 }
    }

    /// Advances the expected heap to a time.
    pub(super) fn goes_to(&mut self, at: Time) {
        self.at = at;
        while let Some(it) = self.acknowledged.get(self.done)
            && it.acknowledged <= at
        {
            for (word, value) in &it.words {
                self.heap.replace(*word as usize, *value);
                self.touched.insert(line_of(*word));
            }
            self.cores[it.core].1 += 1;
            self.done += 1;
        }
    }

    /// Compares a recovered heap with the expected one: as a whole, or the lines that may differ.
    pub(super) fn compare(&mut self, heap: &Heap<'_>, whole: bool) -> Found {
        let mut found = Found::default();
        // Words of transactions that are present before their acknowledgement.
        let mut there: FxHashMap<u64, u64> = FxHashMap::default();
        let mut lines: FxHashSet<u32> = FxHashSet::default();
        for (transactions, done) in &self.cores {
            let Some(it) = transactions.get(*done) else { continue };
            lines.extend(it.words.iter().map(|(word, _)| line_of(*word)));
            if it.ends > self.at {
                continue;
            }
            match self.is_there(it, heap) {
                Some(true) => {
                    found.there += 1;
                    there.extend(it.words.iter().copied());
                }
                Some(false) => found.gone += 1,
                None => {
                    let Transaction { core, ends, acknowledged, .. } = it;
                    found.violation.get_or_insert(format!(
                        "torn transaction of core {core} (ended at {ends}, acknowledged at \
                         {acknowledged}): some of its words are present, others are not"
                    ));
                    return found;
                }
            }
        }
        let last = (self.heap.length() / 8) as u32;
        if heap.moves {
            // Since then, recovery or the design may have copied the whole page or moved it.
            let touched = self.touched.iter().chain(&lines);
            let pages: FxHashSet<u32> = touched.map(|line| line / PAGE_LINES).collect();
            lines = pages.into_iter().flat_map(lines_of).filter(|line| *line < last).collect();
        }
        lines.extend(heap.changed(last));
        let wrong = match whole {
            true => {
                // Pages that are blank here and there are equal.
                let mut used = heap.state.used();
                used.add_all(self.heap.used());
                let mut lines = heap.used_lines(&used, last).into_iter();
                lines.find_map(|line| self.wrong(line, heap, &there))
            }
            false => {
                let lines = self.touched.iter().chain(&lines);
                lines.filter_map(|line| self.wrong(*line, heap, &there)).min()
            }
        };
        if let Some((word, has, must)) = wrong {
            let (line, within) = (word / 8, word % 8);
            found.violation = Some(format!(
                "word {within} of line {line} is {has:#x} and must be {must:#x}{}",
                self.writer_of(word, has)
            ));
        }
        if whole {
            self.touched.clear();
        }
        found
    }

    /// Returns whether an ending transaction is present, or `None` when only a part of it is.
    fn is_there(&self, it: &Transaction, heap: &Heap<'_>) -> Option<bool> {
        let has = |word: u64| heap.line(line_of(word))[word as usize % 8];
        if it.words.iter().all(|(word, value)| has(*word) == *value) {
            return Some(true);
        }
        let gone = it.words.iter().all(|(word, _)| has(*word) == self.heap.word(*word as usize));
        gone.then_some(false)
    }

    /// Returns the first wrong word of a line, with its actual and its expected value.
    fn wrong(
        &self,
        line: u32,
        heap: &Heap<'_>,
        there: &FxHashMap<u64, u64>,
    ) -> Option<(u64, u64, u64)> {
        let has = heap.line(line);
        if there.is_empty() && self.heap.line(line) == Some(has) {
            return None; // most lines are equal
        }
        let words = (u64::from(line) * 8..).zip(has);
        let must =
            |word: u64| there.get(&word).copied().unwrap_or_else(|| self.heap.word(word as usize));
        let mut wrong = words.filter(|(word, has)| *has != must(*word));
        wrong.next().map(|(word, has)| (word, has, must(word)))
    }

    /// Describes the transaction that wrote a value, for the message of a violation.
    fn writer_of(&self, word: u64, has: u64) -> String {
        let wrote = |it: &&&Transaction| it.words.contains(&(word, has));
        match self.acknowledged.iter().find(wrote) {
            None => ", a value that no transaction wrote".to_owned(),
            Some(it) => {
                let Transaction { core, ends, acknowledged, .. } = it;
                format!(", written by core {core} in the transaction of {ends} to {acknowledged}")
            }
        }
    }
}
