//! What must be in a heap after a power cut.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::memory::{LineWords, line_of};
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::Time;
use crate::persist::history::Transaction;
use crate::persist::{History, Persistent};

/// What recovery has left, as a program sees it.
pub(super) struct Heap<'s> {
    pub(super) state: &'s Persistent,
    /// Where it has a line of the program.
    pub(super) found_at: &'s dyn Fn(u32) -> u32,
    /// Whether that may be elsewhere than under its own number; then pages move as a whole.
    pub(super) moves: bool,
}

impl Heap<'_> {
    /// A line of the program.
    pub(super) fn line(&self, line: u32) -> LineWords {
        self.state.line((self.found_at)(line))
    }

    /// Lines of the program, of which there are so many, that were changed since power was cut.
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

/// The lines of a page.
fn lines_of(page: u32) -> std::ops::Range<u32> {
    page * PAGE_LINES..(page + 1) * PAGE_LINES
}

/// The heap as it must be, from cut to cut.
pub(super) struct Oracle<'h> {
    /// What all acknowledged transactions have left.
    heap: Vec<u64>,
    /// All transactions in the order in which they were acknowledged, and how many have been.
    acknowledged: Vec<&'h Transaction>,
    done: usize,
    /// Each core's transactions, and how many of those are acknowledged.
    cores: Vec<(Vec<&'h Transaction>, usize)>,
    /// Lines that were written since all was compared.
    touched: FxHashSet<u32>,
    at: Time,
}

/// What a comparison has shown.
#[derive(Default)]
pub(super) struct Found {
    /// Transactions that were ending and are there, and are not.
    pub(super) there: u64,
    pub(super) gone: u64,
    pub(super) violation: Option<String>,
}

impl<'h> Oracle<'h> {
    pub(super) fn new(heap: Vec<u64>, history: &'h History) -> Oracle<'h> {
        let mut acknowledged: Vec<&Transaction> = history.transactions().iter().collect();
        // Stable: those of one moment stay in the order in which they were noted.
        acknowledged.sort_by_key(|it| it.acknowledged);
        let count = acknowledged.iter().map(|it| it.core + 1).max().unwrap_or(0);
        let mut cores = vec![(Vec::new(), 0); count];
        for it in &acknowledged {
            cores[it.core].0.push(*it);
        }
        Oracle { heap, acknowledged, done: 0, cores, touched: FxHashSet::default(), at: 0 }
    }

    /// Time goes on.
    pub(super) fn goes_to(&mut self, at: Time) {
        self.at = at;
        while let Some(it) = self.acknowledged.get(self.done)
            && it.acknowledged <= at
        {
            for (word, value) in &it.words {
                self.heap[*word as usize] = *value;
                self.touched.insert(line_of(*word));
            }
            self.cores[it.core].1 += 1;
            self.done += 1;
        }
    }

    /// Compares a recovered heap with what must be there: all of it, or what may be wrong.
    pub(super) fn compare(&mut self, heap: &Heap<'_>, whole: bool) -> Found {
        let mut found = Found::default();
        // Words of transactions that are there although nobody was told.
        let mut there: FxHashMap<u64, u64> = FxHashMap::default();
        let mut lines: FxHashSet<u32> = self.touched.clone();
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
                        "a part of the transaction of core {core} that ended at {ends} and was \
                         acknowledged at {acknowledged} is there, and a part is not"
                    ));
                    return found;
                }
            }
        }
        let last = (self.heap.len() / 8) as u32;
        if heap.moves {
            // A page may have been copied whole since, or have got another place.
            let pages: FxHashSet<u32> = lines.iter().map(|line| line / PAGE_LINES).collect();
            lines = pages.into_iter().flat_map(lines_of).filter(|line| *line < last).collect();
        }
        lines.extend(heap.changed(last));
        let wrong = match whole {
            true => (0..last).find_map(|line| self.wrong(line, heap, &there)),
            false => lines.iter().filter_map(|line| self.wrong(*line, heap, &there)).min(),
        };
        if let Some((word, has, must)) = wrong {
            let (line, within) = (word / 8, word % 8);
            found.violation = Some(format!(
                "word {within} of line {line} is {has:#x} and must be {must:#x}{}",
                self.who_wrote(word, has)
            ));
        }
        if whole {
            self.touched.clear();
        }
        found
    }

    /// Whether a transaction that was ending is there; nothing when only a part of it is.
    fn is_there(&self, it: &Transaction, heap: &Heap<'_>) -> Option<bool> {
        let has = |word: u64| heap.line(line_of(word))[word as usize % 8];
        if it.words.iter().all(|(word, value)| has(*word) == *value) {
            return Some(true);
        }
        let gone = it.words.iter().all(|(word, _)| has(*word) == self.heap[*word as usize]);
        gone.then_some(false)
    }

    /// The first word of a line that is wrong: which, what it is, what it must be.
    fn wrong(
        &self,
        line: u32,
        heap: &Heap<'_>,
        there: &FxHashMap<u64, u64>,
    ) -> Option<(u64, u64, u64)> {
        let words = (u64::from(line) * 8..).zip(heap.line(line));
        let must = |word: u64| there.get(&word).copied().unwrap_or(self.heap[word as usize]);
        let mut wrong = words.filter(|(word, has)| *has != must(*word));
        wrong.next().map(|(word, has)| (word, has, must(word)))
    }

    /// Whose value that is, for people.
    fn who_wrote(&self, word: u64, has: u64) -> String {
        let wrote = |it: &&&Transaction| it.words.contains(&(word, has));
        match self.acknowledged.iter().find(wrote) {
            None => ", which no transaction has left there".to_owned(),
            Some(it) => {
                let Transaction { core, ends, acknowledged, .. } = it;
                format!(", which core {core} left there at {ends} to {acknowledged}")
            }
        }
    }
}
