//! The words of a closed pool's heap that its use is computed from: the heads of runs.
//!
//! A check reads all of the heap. Its use needs only the heads, one line in each slab, array and
//! long string, which are read a page at a time. After an unclean shutdown the log is replayed in
//! memory. The replay keeps only the words of heads and of the allocator's first run.

use std::collections::BTreeMap;

use medium::writes::{Piece, Pieces};
use medium::{Counts, HeapMedium, PoolFile};

/// The replayed words that are read, by their offsets in bytes.
#[derive(Default)]
pub(super) struct Heads(BTreeMap<u64, u64>);

impl Heads {
    /// Returns the word at a heap offset, if the log has it.
    pub(super) fn get(&self, offset: u64) -> Option<u64> {
        self.0.get(&offset).copied()
    }
}

impl HeapMedium for Heads {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        for piece in Pieces::new(writes) {
            let Piece::Run(index, words) = piece else { continue };
            let words = (8 * index..).step_by(8).zip(words);
            let kept = words.filter(|&(offset, _)| lw_alloc::Heap::may_be_head(offset));
            self.0.extend(kept.map(|(offset, &word)| (offset, word)));
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

/// Words in one read of the file.
const PAGE_WORDS: usize = 512;

/// The heap image in its file, read a page at a time: heads are read in ascending order.
pub(super) struct HeadReader<'f> {
    file: &'f PoolFile,
    begin: u64,
    /// The page in `words`, in bytes from the heap's first.
    page: Option<u64>,
    words: [u64; PAGE_WORDS],
    /// The first failed read.
    pub(super) error: Option<medium::Error>,
}

impl HeadReader<'_> {
    /// Reads the heap that begins at this offset of the file.
    pub(super) fn new(file: &PoolFile, begin: u64) -> HeadReader<'_> {
        HeadReader { file, begin, page: None, words: [0; PAGE_WORDS], error: None }
    }

    /// Returns a word; 0 after a failed read.
    pub(super) fn word(&mut self, offset: u64) -> u64 {
        let page_bytes = 8 * PAGE_WORDS as u64;
        let page = offset / page_bytes * page_bytes;
        if self.page != Some(page) {
            // A heap's size is a multiple of a page.
            let read = self.file.read_at(self.begin + page, &mut self.words);
            if let Err(error) = read {
                self.error.get_or_insert(error);
                self.words.fill(0);
            }
            self.page = Some(page);
        }
        self.words[((offset - page) / 8) as usize]
    }
}
