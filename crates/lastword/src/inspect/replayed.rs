//! The words of a log that waits for replay, by the pages of the heap.

use std::collections::BTreeMap;

use medium::writes::{Piece, Pieces};
use medium::{Counts, HeapMedium};

/// Words of a page.
const PAGE_WORDS: u64 = 512;

/// Replayed words. Takes memory for the pages that the log writes to.
#[derive(Default)]
pub(super) struct ReplayedWords(BTreeMap<u64, Box<Page>>);

/// The words of a page, and a bit for each word: whether the log has it.
struct Page {
    words: [u64; PAGE_WORDS as usize],
    has: [u64; PAGE_WORDS as usize / 64],
}

impl ReplayedWords {
    /// Returns the word of an index, if the log has it.
    pub(super) fn get(&self, index: u64) -> Option<u64> {
        let page = self.0.get(&(index / PAGE_WORDS))?;
        let at = (index % PAGE_WORDS) as usize;
        (page.has[at / 64] >> (at % 64) & 1 == 1).then(|| page.words[at])
    }

    fn put(&mut self, index: u64, word: u64) {
        let empty = || Box::new(Page { words: [0; PAGE_WORDS as usize], has: [0; 8] });
        let page = self.0.entry(index / PAGE_WORDS).or_insert_with(empty);
        let at = (index % PAGE_WORDS) as usize;
        page.words[at] = word;
        page.has[at / 64] |= 1 << (at % 64);
    }
}

impl HeapMedium for ReplayedWords {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        for piece in Pieces::new(writes) {
            let Piece::Run(index, words) = piece else { continue };
            for (index, &word) in (index..).zip(words) {
                self.put(index, word);
            }
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), medium::Error> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
