//! The objects that an attempt has locked: their copies, and the words written in each.

use medium::writes::run;

use super::copy_memory::{COPY_HEAD_WORDS, COPY_WORDS_MAX};
use super::write_back::PAGE_OBJECT;
use super::{Versions, header_of};
use crate::sync::{AtomicU64, MODELED, Ordering};

/// Words of a bitmap over a copy's words.
pub(super) const MASKS: usize = COPY_WORDS_MAX.div_ceil(64);

/// The locked objects of an attempt, or of a group of one worker's transactions that end together.
///
/// They stay locked until they are applied to the heap or rolled back.
pub(crate) struct Owned {
    /// The worker.
    pub(super) number: usize,
    /// The number of its attempt; see `Attempt`.
    pub(super) attempt: u64,
    /// Start of the attempt, or of the first one of its group.
    pub(super) start: u64,
    /// Place of its end word, from the first write on.
    pub(super) end: Option<usize>,
    pub(super) entries: Vec<Entry>,
    pub(super) gives_runs_back: bool,
}

/// A locked object.
pub(crate) struct Entry {
    pub(super) object: usize,
    /// Place of its copy's header word.
    pub(super) at: usize,
    pub(super) words: usize,
    /// Whether the object is new and has no link yet.
    pub(super) fresh: bool,
    /// Whether its state before this transaction is saved; see `member`.
    pub(super) is_saved: bool,
    /// Bit i: word i of the copy was written.
    pub(super) mask: [u64; MASKS],
}

impl Owned {
    pub(super) fn nothing(number: usize, attempt: u64, entries: Vec<Entry>) -> Owned {
        Owned { number, attempt, start: 0, end: None, entries, gives_runs_back: false }
    }

    /// Returns the start of the attempt, or of the first one of its group.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Whether it frees a run, so that later objects in it may begin at other offsets.
    pub(crate) fn gives_runs_back(&self) -> bool {
        self.gives_runs_back
    }

    /// Returns the memory of its entries for reuse.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        let mut entries = self.entries;
        entries.clear();
        entries
    }

    /// Whether it frees a run. A step of a reclaim may find no run to free, and then has not locked
    /// the page object. Such a transaction must not wait for older ones: only the lock ensures that
    /// no two transactions wait for each other.
    pub(super) fn frees_runs(&self) -> bool {
        // The models' heaps have no page object.
        let is_page_object = |entry: &Entry| entry.object == PAGE_OBJECT;
        self.gives_runs_back && (MODELED || self.entries.iter().any(is_page_object))
    }

    /// Returns an upper bound on the words of runs that make all of it durable.
    pub(crate) fn words_max(&self) -> usize {
        // Worst case: one run of all words, or every second word a run of its own.
        self.entries.iter().map(|entry| 1 + entry.words).sum()
    }
}

impl Entry {
    /// Returns the place that its link leads to.
    #[inline(always)]
    pub(super) fn place(&self) -> usize {
        self.at - COPY_HEAD_WORDS
    }

    /// Calls `take` with each run of written words: the first word, counted from the header, and
    /// the length.
    #[inline]
    fn runs(&self, mut take: impl FnMut(usize, usize)) {
        let mut at = 0;
        while let Some(first) = self.next(at, true) {
            at = self.next(first, false).unwrap_or(self.words);
            take(first, at - first);
        }
    }

    /// Returns the first word from `at` on that was written, or was not.
    #[inline]
    fn next(&self, at: usize, written: bool) -> Option<usize> {
        let mut word = at / 64;
        let mut from = u64::MAX << (at % 64);
        while word < MASKS {
            let found = if written { self.mask[word] } else { !self.mask[word] } & from;
            if found != 0 {
                let at = 64 * word + found.trailing_zeros() as usize;
                return Some(at).filter(|at| *at < self.words);
            }
            (word, from) = (word + 1, u64::MAX);
        }
        None
    }

    /// Marks words as written. Returns how many were not marked before.
    #[inline(always)]
    pub(super) fn note(&mut self, first: usize, words: usize) -> usize {
        if words == 1 {
            let (mask, bit) = (&mut self.mask[first / 64], 1 << (first % 64));
            let new = usize::from(*mask & bit == 0);
            *mask |= bit;
            return new;
        }
        self.note_run(first, words)
    }

    #[inline]
    fn note_run(&mut self, mut first: usize, mut words: usize) -> usize {
        let mut new = 0;
        while words > 0 {
            let here = words.min(64 - first % 64);
            let bits = u64::MAX >> (64 - here) << (first % 64);
            let mask = &mut self.mask[first / 64];
            new += (bits & !*mask).count_ones() as usize;
            *mask |= bits;
            (first, words) = (first + here, words - here);
        }
        new
    }
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Appends the changed words to a batch, or with `whole` all words of every object.
    #[inline]
    pub(crate) fn changes(&self, owned: &Owned, whole: bool, batch: &mut Vec<u64>) {
        let memory = self.memory(owned.number);
        for entry in &owned.entries {
            let mut take = |first: usize, words: usize| {
                batch.push(run((header_of(entry.object) + first) as u64, words));
                let copy = &memory[entry.at + first..entry.at + first + words];
                batch.extend(copy.iter().map(|word| word.load(Ordering::Relaxed)));
            };
            match whole {
                true => take(0, entry.words),
                false => entry.runs(take),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_without_page_object_frees_no_run() {
        let entry = |object| {
            let (fresh, is_saved, mask) = (false, false, [0; MASKS]);
            Entry { object, at: 0, words: 1, fresh, is_saved, mask }
        };
        let frees = |gives_runs_back, entries| {
            Owned { gives_runs_back, ..Owned::nothing(0, 0, entries) }.frees_runs()
        };
        assert!(frees(true, vec![entry(4), entry(PAGE_OBJECT)]));
        assert!(!frees(true, vec![entry(4)]));
        assert!(!frees(false, vec![entry(PAGE_OBJECT)]));
    }

    #[test]
    fn runs_cover_exactly_written_words() {
        let (fresh, is_saved, mask) = (false, false, [0; MASKS]);
        let mut entry = Entry { object: 2, at: 0, words: 129, fresh, is_saved, mask };
        let runs = |entry: &Entry| {
            let mut found = Vec::new();
            entry.runs(|first, words| found.push((first, words)));
            found
        };
        assert_eq!(runs(&entry), []);
        assert_eq!(entry.note(3, 1), 1);
        assert_eq!(entry.note(3, 1), 0);
        assert_eq!(entry.note(60, 10), 10);
        assert_eq!(entry.note(58, 4), 2);
        assert_eq!(entry.note(128, 1), 1);
        assert_eq!(runs(&entry), [(3, 1), (58, 12), (128, 1)]);
        assert_eq!(entry.note(0, 129), 129 - 14);
        assert_eq!(runs(&entry), [(0, 129)]);
    }
}
