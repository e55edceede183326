//! Words that wait to be written to the heap image, by page.
//!
//! A log holds many more words than pages in memory could take: 32 MiB of it may write 700 000
//! pages. So the words of a page are few, and kept as a chain of small blocks. Each page is written
//! once, whatever the order in which its words came.
//!
//! ```text
//!   pages[page] --> block --> block --> block         sparse: newest block first
//!               --> words and mask                    dense: more than 192 words
//!   sweep       one bit for each page with words      the order in which they leave
//!
//!   a block: | 0 | place of word 3, 2, 1 (9 bits each) | next + 1 (32 bits) |  3 values  |
//! ```
//!
//! A page whose words are written again and again would have a long chain. After as many words as
//! it had different ones (48 at least) its chain is rebuilt from the last value of each word.
//!
//! Invariants:
//! - `sweep` has exactly the pages with words.
//! - A page's chain has `count` words. All blocks but the first are full. A later word is before an
//!   earlier one on the way through the chain, so the first value found is the last one written.
//! - A block is in one chain or in the free list.

use super::mask::{Mask, PAGE_WORDS};
use super::sweep::Sweep;
use crate::traits::Unwritten;
use system::mutants::{Mutant, injected};

/// Words of a block of a chain. Half a cache line: the word with the places has room for three.
const BLOCK_VALUES: usize = 3;

type Block = [u64; 1 + BLOCK_VALUES];

/// Blocks that are allocated together: 1 MiB.
const CHUNK_BLOCKS: usize = 1 << 15;

/// Least words of a chain after which it is rebuilt.
const CHAIN_WORDS: u16 = 48;

/// Different words above which a page is dense: its chain would take half as much as the page.
const SPARSE_WORDS: usize = 192;

/// Words of a run that makes its page dense at once.
const DENSE_RUN: usize = 256;

/// The limit of a dense page.
const DENSE: u16 = u16::MAX;

/// Pages that are added at a time when the heap grows: 16 MiB.
const GROWN_PAGES: usize = 1 << 12;

/// Memory that is kept while no page has words.
const KEPT_CHUNKS: usize = 16;
const KEPT_PIECES: usize = 256;

/// Dense pages whose words are allocated together.
const PIECE_PAGES: usize = 16;

/// The words of a heap's pages that are not yet written.
#[derive(Debug)]
pub(super) struct PageIndex {
    pages: Vec<PageEntry>,
    /// The pages with words.
    sweep: Sweep,
    /// The log sequence before the words that are added next.
    start: u64,
    blocks: Blocks,
    dense: DensePages,
    /// Memory for the words of chains that are rebuilt or taken.
    spare: Vec<Box<Dense>>,
    /// The most pages that can all be dense.
    dense_max: usize,
    /// Whether every page is dense.
    all_dense: bool,
}

/// The words of one page.
#[derive(Clone, Copy, Debug, Default)]
struct PageEntry {
    /// The first block of the chain, plus 1, or the number of the dense page.
    place: u32,
    /// Words in the chain; 0: the page has no words. For a dense page 1.
    count: u16,
    /// Words after which the chain is rebuilt, or `DENSE`.
    limit: u16,
}

/// The words of a page that has left. They must be [released](PageIndex::release).
#[derive(Debug)]
pub(super) enum PageWords {
    /// In the dense page of this number.
    Dense(u32),
    Sparse(Box<Dense>),
}

/// All words of a page, of which a mask selects some. The others are undefined.
#[derive(Debug)]
pub(super) struct Dense {
    mask: Mask,
    words: [u64; PAGE_WORDS],
}

impl Default for Dense {
    fn default() -> Dense {
        Dense { mask: Mask::default(), words: [0; PAGE_WORDS] }
    }
}

impl PageIndex {
    /// An index for a heap of so many pages at first, without words. While the heap has at most
    /// `dense_max` pages, the index has memory for all of them, and no page is sparse: dense pages
    /// take less time.
    pub(super) fn new(pages: usize, dense_max: usize) -> PageIndex {
        PageIndex {
            pages: vec![PageEntry::default(); pages],
            sweep: Sweep::new(pages),
            start: 0,
            blocks: Blocks::default(),
            dense: DensePages::default(),
            spare: Vec::new(),
            dense_max,
            all_dense: pages <= dense_max,
        }
    }

    /// Returns the number of pages with words.
    pub(super) fn len(&self) -> usize {
        self.sweep.len()
    }

    /// Returns the pages with words, in the order in which they leave, with the ages of the words.
    pub(super) fn unwritten(&self) -> Unwritten {
        self.sweep.unwritten(self.start)
    }

    /// Notes that the words from here on are of log groups after this sequence.
    pub(super) fn starts_at(&mut self, sequence: u64) {
        debug_assert!(sequence >= self.start, "words come in the order of the log");
        self.start = sequence;
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        let dense = self.dense.masks.len() - self.dense.free.len();
        (self.blocks.used * size_of::<Block>() + dense * size_of::<Dense>()) as u64
    }

    /// Adds words of a page, from word `first` on, if it is dense. They replace earlier ones and
    /// take no more memory. Returns false, and adds nothing, if the page is not dense.
    #[inline]
    pub(super) fn insert_dense(&mut self, page: usize, first: usize, words: &[u64]) -> bool {
        let Some(entry) = self.pages.get(page) else { return false };
        let is_dense = entry.limit == DENSE;
        if is_dense {
            self.dense.insert(entry.place, first, words);
        }
        is_dense
    }

    /// Adds words of a page, from word `first` on. They replace earlier ones.
    pub(super) fn insert(&mut self, page: usize, first: usize, words: &[u64]) {
        if page >= self.pages.len() {
            self.grow(page);
        }
        let mut entry = self.pages[page];
        if entry.count == 0 {
            self.sweep.add(page, self.start);
            entry = PageEntry { place: 0, count: 0, limit: CHAIN_WORDS };
        }
        if entry.limit != DENSE && (self.all_dense || words.len() >= DENSE_RUN) {
            entry = self.rebuild(entry, 0);
        }
        if entry.limit == DENSE {
            self.dense.insert(entry.place, first, words);
        } else {
            for (place, &value) in (first..).zip(words) {
                self.append(&mut entry, place, value);
                if entry.count >= entry.limit {
                    entry = self.rebuild(entry, SPARSE_WORDS);
                    if entry.limit == DENSE {
                        self.pages[page] = entry;
                        return self.insert(page, place + 1, &words[place + 1 - first..]);
                    }
                }
            }
        }
        self.pages[page] = entry;
    }

    /// Makes room for a page of a heap that has grown.
    #[cold]
    fn grow(&mut self, page: usize) {
        self.pages.resize((page + 1).next_multiple_of(GROWN_PAGES), PageEntry::default());
        self.sweep.grow(self.pages.len());
        // Pages that are dense stay so.
        self.all_dense = self.pages.len() <= self.dense_max;
    }

    #[inline]
    fn append(&mut self, entry: &mut PageEntry, place: usize, value: u64) {
        let at = usize::from(entry.count) % BLOCK_VALUES;
        if at == 0 {
            entry.place = 1 + self.blocks.take(entry.place);
        }
        let block = self.blocks.get_mut(entry.place - 1);
        block[0] |= (place as u64) << (32 + 9 * at);
        block[1 + at] = value;
        entry.count += 1;
    }

    /// Rebuilds a chain from its different words, or makes it a dense page if these are more than
    /// `sparse_max`.
    #[cold]
    fn rebuild(&mut self, entry: PageEntry, sparse_max: usize) -> PageEntry {
        if entry.count == 0 {
            return PageEntry { place: self.dense.take(), count: 1, limit: DENSE };
        }
        let mut rebuilt = self.spare.pop().unwrap_or_default();
        rebuilt.mask = Mask::default();
        self.drain(entry, &mut rebuilt);
        let count = rebuilt.mask.count();
        let next = if count > sparse_max || sparse_max == 0 {
            let place = self.dense.take();
            self.dense.masks[place as usize] = rebuilt.mask;
            rebuilt.mask.lay_over(&rebuilt.words, self.dense.words_mut(place));
            PageEntry { place, count: 1, limit: DENSE }
        } else {
            let limit = CHAIN_WORDS.max(2 * count as u16);
            let mut sparse = PageEntry { place: 0, count: 0, limit };
            rebuilt.mask.for_each(|place| self.append(&mut sparse, place, rebuilt.words[place]));
            sparse
        };
        self.spare.push(rebuilt);
        next
    }

    /// Moves the words of a chain to `out`, whose mask is empty, and frees its blocks.
    fn drain(&mut self, entry: PageEntry, out: &mut Dense) {
        let (mut next, mut left) = (entry.place, usize::from(entry.count));
        while left > 0 {
            let number = next - 1;
            let block = *self.blocks.get_mut(number);
            let here = (left - 1) % BLOCK_VALUES + 1;
            for at in (0..here).rev() {
                let place = (block[0] >> (32 + 9 * at)) as usize % PAGE_WORDS;
                if !out.mask.has(place) || injected(Mutant::OldestWordOfPageWins) {
                    out.mask.set(place, 1);
                    out.words[place] = block[1 + at];
                }
            }
            (next, left) = (block[0] as u32, left - here);
            self.blocks.give_back(number);
        }
    }

    /// Takes the next pages of the sweep, at most so many, and adds them to `out`. Each page must
    /// be [taken](PageIndex::take) next.
    pub(super) fn take_swept(&mut self, pages: usize, out: &mut Vec<u32>) {
        self.sweep.take(pages, self.start, out);
    }

    /// Lays the words of a page over its content.
    pub(super) fn lay_over(&self, page: usize, out: &mut [u64]) {
        let Some(&entry) = self.pages.get(page) else { return };
        if entry.limit == DENSE {
            let mask = &self.dense.masks[entry.place as usize];
            return mask.lay_over(self.dense.words(entry.place), out);
        }
        // The first value found is the last one written.
        let (mut seen, mut next, mut left) =
            (Mask::default(), entry.place, usize::from(entry.count));
        while left > 0 {
            let block = self.blocks.get(next - 1);
            let here = (left - 1) % BLOCK_VALUES + 1;
            for at in (0..here).rev() {
                let place = (block[0] >> (32 + 9 * at)) as usize % PAGE_WORDS;
                if !seen.has(place) {
                    seen.set(place, 1);
                    out[place] = block[1 + at];
                }
            }
            (next, left) = (block[0] as u32, left - here);
        }
    }

    /// Takes the words of a page that has left. Those of a dense page are not copied.
    pub(super) fn take(&mut self, page: usize) -> PageWords {
        let entry = std::mem::take(&mut self.pages[page]);
        if entry.limit == DENSE {
            return PageWords::Dense(entry.place);
        }
        let mut sparse = self.spare.pop().unwrap_or_default();
        sparse.mask = Mask::default();
        self.drain(entry, &mut sparse);
        PageWords::Sparse(sparse)
    }

    /// Returns which words were taken, and all words of the page: the others are undefined.
    pub(super) fn words<'a>(&'a self, taken: &'a PageWords) -> (&'a Mask, &'a [u64]) {
        match taken {
            PageWords::Dense(number) => {
                (&self.dense.masks[*number as usize], self.dense.words(*number))
            }
            PageWords::Sparse(sparse) => (&sparse.mask, &sparse.words),
        }
    }

    /// Releases the memory of words that were taken.
    pub(super) fn release(&mut self, taken: PageWords) {
        match taken {
            PageWords::Dense(number) => self.dense.free.push(number),
            PageWords::Sparse(sparse) => self.spare.push(sparse),
        }
    }

    /// Releases unused memory, if no page has words. The next batch would fault the memory of dense
    /// pages in again, so an index for them keeps it.
    pub(super) fn release_unused(&mut self) {
        if self.len() > 0 || self.all_dense {
            return;
        }
        self.blocks.reset();
        self.dense.reset();
        self.spare.clear();
    }
}

/// The dense pages. Masks are apart from words: they are few enough to stay in the cache.
#[derive(Debug, Default)]
struct DensePages {
    masks: Vec<Mask>,
    pieces: Vec<Box<[u64]>>,
    free: Vec<u32>,
}

impl DensePages {
    #[inline]
    fn words_mut(&mut self, number: u32) -> &mut [u64] {
        let (piece, page) = (number as usize / PIECE_PAGES, number as usize % PIECE_PAGES);
        &mut self.pieces[piece][page * PAGE_WORDS..][..PAGE_WORDS]
    }

    #[inline]
    fn words(&self, number: u32) -> &[u64] {
        let (piece, page) = (number as usize / PIECE_PAGES, number as usize % PIECE_PAGES);
        &self.pieces[piece][page * PAGE_WORDS..][..PAGE_WORDS]
    }

    #[inline(always)]
    fn insert(&mut self, number: u32, first: usize, words: &[u64]) {
        let page = self.words_mut(number);
        if let [word] = words {
            // Most runs are one word, and a copy of variable length is a call.
            page[first] = *word;
            self.masks[number as usize].0[first / 64] |= 1 << (first % 64);
        } else {
            page[first..first + words.len()].copy_from_slice(words);
            self.masks[number as usize].set(first, words.len());
        }
    }

    /// Takes a page without words.
    fn take(&mut self) -> u32 {
        if let Some(number) = self.free.pop() {
            self.masks[number as usize] = Mask::default();
            return number;
        }
        if self.masks.len() == self.pieces.len() * PIECE_PAGES {
            self.pieces.push(vec![0; PIECE_PAGES * PAGE_WORDS].into_boxed_slice());
        }
        self.masks.push(Mask::default());
        self.masks.len() as u32 - 1
    }

    /// Frees all pages.
    fn reset(&mut self) {
        self.pieces.truncate(KEPT_PIECES);
        self.masks.clear();
        self.free.clear();
    }
}

/// The blocks of all chains.
#[derive(Debug, Default)]
struct Blocks {
    chunks: Vec<Box<[Block]>>,
    /// The first free block, plus 1. Each names the next one.
    free: u32,
    /// Blocks that were taken once.
    touched: u32,
    /// Blocks in chains.
    used: usize,
}

impl Blocks {
    #[inline]
    fn get_mut(&mut self, number: u32) -> &mut Block {
        &mut self.chunks[number as usize / CHUNK_BLOCKS][number as usize % CHUNK_BLOCKS]
    }

    #[inline]
    fn get(&self, number: u32) -> &Block {
        &self.chunks[number as usize / CHUNK_BLOCKS][number as usize % CHUNK_BLOCKS]
    }

    /// Takes a block before the block `next`.
    #[inline]
    fn take(&mut self, next: u32) -> u32 {
        self.used += 1;
        let number = match self.free {
            0 => self.touch(),
            free => free - 1,
        };
        if self.free != 0 {
            self.free = self.get_mut(number)[0] as u32;
        }
        self.get_mut(number)[0] = u64::from(next);
        number
    }

    /// Takes a block that was in no chain yet: neighbours in memory are taken one after another.
    fn touch(&mut self) -> u32 {
        if self.touched as usize == self.chunks.len() * CHUNK_BLOCKS {
            self.chunks.push(vec![Block::default(); CHUNK_BLOCKS].into_boxed_slice());
        }
        self.touched += 1;
        self.touched - 1
    }

    #[inline]
    fn give_back(&mut self, number: u32) {
        self.used -= 1;
        let free = self.free;
        self.get_mut(number)[0] = u64::from(free);
        self.free = number + 1;
    }

    /// Frees all blocks.
    fn reset(&mut self) {
        debug_assert_eq!(self.used, 0, "no page has words");
        self.chunks.truncate(KEPT_CHUNKS);
        (self.free, self.touched) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Takes the next pages and returns each with its words, by place.
    fn taken(index: &mut PageIndex, pages: usize) -> Vec<(u32, HashMap<usize, u64>)> {
        let mut numbers = Vec::new();
        index.take_swept(pages, &mut numbers);
        let mut take = |page| {
            let (taken, mut by_place) = (index.take(page as usize), HashMap::new());
            let (mask, words) = index.words(&taken);
            mask.for_each(|place| by_place.extend([(place, words[place])]));
            index.release(taken);
            (page, by_place)
        };
        numbers.into_iter().map(&mut take).collect()
    }

    #[test]
    fn last_value_of_each_word_is_taken() {
        [false, true].into_iter().for_each(last_values);
    }

    fn last_values(all_dense: bool) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        // Some pages are of a heap that has grown.
        let mut index = PageIndex::new(16, if all_dense { usize::MAX } else { 0 });
        let mut model: HashMap<u32, HashMap<usize, u64>> = HashMap::new();
        let (mut sparse, mut dense) = (0, 0);
        for step in 0..20_000_u64 {
            // Few pages with hot words, others with all kinds of runs.
            let page = random.random_range(0..64_usize);
            let length = [1, 1, 2, 7, 40, 300, 512][random.random_range(0..7_usize).min(page / 8)];
            let places = if page < 8 { 4 } else { PAGE_WORDS - length + 1 };
            let first = random.random_range(0..places);
            let run: Vec<u64> = (0..length as u64).map(|word| 1000 * step + word).collect();
            index.insert(page, first, &run);
            model.entry(page as u32).or_default().extend((first..).zip(run));
            if random.random_range(0..40) == 0 {
                let count = random.random_range(0..10);
                for (page, found) in taken(&mut index, count) {
                    let expected = model.remove(&page).expect("a page with words");
                    assert_eq!(found, expected, "page {page}");
                    if found.len() > SPARSE_WORDS { dense += 1 } else { sparse += 1 }
                }
            }
            assert_eq!(index.len(), model.len());
        }
        assert!(sparse > 100 && dense > 100, "{sparse} sparse, {dense} dense");
        let rest = taken(&mut index, usize::MAX);
        assert!(rest.into_iter().all(|(page, found)| model.remove(&page) == Some(found)));
        assert_eq!((model.len(), index.bytes(), index.unwritten().oldest()), (0, 0, None));
        index.release_unused();
        index.insert(5, 511, &[9]);
        assert_eq!(taken(&mut index, 1), [(5, HashMap::from([(511, 9)]))]);
    }

    #[test]
    fn hot_words_take_constant_memory() {
        let mut index = PageIndex::new(2, 0);
        for value in 0..1_000_000_u64 {
            index.insert(1, value as usize % 20, &[value]);
        }
        assert!(index.bytes() <= 17 * size_of::<Block>() as u64, "{} bytes", index.bytes());
    }
}
