//! What an attempt has to itself: copies of objects, and which of their words it has written.

use medium::writes::run;

use super::copies::{COPY_HEAD_WORDS, COPY_WORDS_MAX};
use super::{Versions, header_of};
use crate::sync::{AtomicU64, Ordering};

/// Words of a set of a copy's words.
pub(super) const MASKS: usize = COPY_WORDS_MAX.div_ceil(64);

/// What an attempt has to itself, until it is home or taken back: of one transaction, or of a group
/// of one worker's that end together.
pub(crate) struct Owned {
    /// Whose it is.
    pub(super) number: usize,
    /// The number of its attempt; see `Attempt`.
    pub(super) attempt: u64,
    /// Where it began, or the first of its group.
    pub(super) start: u64,
    /// The place of its end, once it writes.
    pub(super) end: Option<usize>,
    pub(super) entries: Vec<Entry>,
    pub(super) gives_chunks_back: bool,
}

/// An object that the attempt has to itself.
pub(crate) struct Entry {
    pub(super) object: usize,
    /// The place of its copy's header word.
    pub(super) at: usize,
    pub(super) words: usize,
    /// It has no link yet.
    pub(super) fresh: bool,
    /// What it was before this transaction is kept; see `member`.
    pub(super) is_saved: bool,
    /// Bit i: word i of the copy was written.
    pub(super) mask: [u64; MASKS],
}

impl Owned {
    pub(super) fn nothing(number: usize, attempt: u64, entries: Vec<Entry>) -> Owned {
        Owned { number, attempt, start: 0, end: None, entries, gives_chunks_back: false }
    }

    /// Where it began, or the first of its group.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Whether memory comes back in which objects may begin elsewhere.
    pub(crate) fn gives_chunks_back(&self) -> bool {
        self.gives_chunks_back
    }

    /// The memory of its entries, for reuse.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        let mut entries = self.entries;
        entries.clear();
        entries
    }

    /// Words of runs that make all of it durable, at most.
    pub(crate) fn words_max(&self) -> usize {
        // Every second word is a run of its own, or all of them are one.
        self.entries.iter().map(|entry| 1 + entry.words).sum()
    }
}

impl Entry {
    /// The place that its link leads to.
    #[inline(always)]
    pub(super) fn place(&self) -> usize {
        self.at - COPY_HEAD_WORDS
    }

    /// Calls `take` with each run of neighbouring words that were written: the first, counted from
    /// the header, and how many.
    #[inline]
    fn runs(&self, mut take: impl FnMut(usize, usize)) {
        let mut at = 0;
        while let Some(first) = self.next(at, true) {
            at = self.next(first, false).unwrap_or(self.words);
            take(first, at - first);
        }
    }

    /// The first word from `at` on that was written, or was not.
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

    /// Notes that words were written; answers how many were not before.
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
    /// Appends what was changed, or with `whole` all of every object.
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
    fn runs_are_what_was_written() {
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
