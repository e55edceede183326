//! Heap image in parts, so that several threads write words to it at the same time.
//!
//! ```text
//!   heap    | piece 0 | piece 1 | piece 2 | piece 3 | ...     64 pages each
//!   part         0         1         0         1              by a hash of the piece's number
//! ```
//!
//! Each part is a medium of its own over the same area. It receives every batch and takes the words
//! of its own pieces. A run that crosses from one piece to the next is split there.
//!
//! Invariants:
//! - Every word has one part, and a page has the part of its words. So no two parts write the same
//!   place, and the order of two writes to a word is the order in which its part takes them. Parts
//!   need no order among each other. On files a page is read, patched and written: if two parts
//!   shared it, one would overwrite the other's latest write with stale words.
//! - A piece is many pages, so that neighbours are still written together.

use std::ops::Range;

use crate::error::Error;
use crate::frozen::FrozenImage;
use crate::sync::Arc;
use crate::traits::{Counts, HeapMedium, Scrubbed, Unwritten};
use crate::writes::{self, Piece, Pieces};
use system::mutants::{Mutant, injected};

/// Words of a page, the least that a piece has.
const PAGE_WORDS: u64 = 512;

/// Maximum words of a piece: 64 pages, twice the most that a file's heap image writes at once.
const PIECE_WORDS: u64 = 64 * PAGE_WORDS;

/// Pieces that each part has at least, if the heap has the pages: a small heap is dealt out in
/// smaller pieces.
const PIECES_MIN: u64 = 4;

/// A longer stretch of another part's words is skipped; a shorter one is copied and then
/// overwritten. An unpredictable branch costs as much as copying this many words.
const COPIED_WORDS: usize = 16;

/// All parts of a heap image. As one medium, it performs each operation on every part in order.
pub struct Parts(Vec<Box<dyn HeapMedium>>);

impl Parts {
    /// Wraps a heap image as a single part.
    pub fn whole(heap_image: impl HeapMedium + 'static) -> Parts {
        Parts(vec![Box::new(heap_image)])
    }

    /// The parts, to be used by a thread each.
    pub fn into_parts(self) -> Vec<Box<dyn HeapMedium>> {
        self.0
    }
}

impl<H: HeapMedium + 'static> FromIterator<H> for Parts {
    fn from_iter<I: IntoIterator<Item = H>>(parts: I) -> Parts {
        Parts(
            parts
                .into_iter()
                .map(|heap_image| Box::new(heap_image) as Box<dyn HeapMedium>)
                .collect(),
        )
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parts({})", self.0.len())
    }
}

impl HeapMedium for Parts {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error> {
        self.0.iter_mut().try_for_each(|part| part.write_back(writes))
    }

    fn write_out(&mut self) -> Result<(), Error> {
        self.0.iter_mut().try_for_each(|part| part.write_out())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.0.first_mut().map_or(Ok(()), |part| part.sync())
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.write_out()?;
        self.sync()
    }

    fn starts_at(&mut self, sequence: u64) {
        self.0.iter_mut().for_each(|part| part.starts_at(sequence));
    }

    fn unwritten(&self) -> Unwritten {
        self.0.iter().fold(Unwritten::default(), |sum, part| sum.plus(part.unwritten()))
    }

    fn write_next(&mut self, pages: usize) -> Result<(), Error> {
        let each = pages.div_ceil(self.0.len().max(1));
        self.0.iter_mut().try_for_each(|part| part.write_next(each))
    }

    fn freeze(&mut self, image: &Arc<FrozenImage>) -> bool {
        self.0.iter_mut().all(|part| part.freeze(image))
    }

    fn copy_frozen(&mut self, image: &FrozenImage, pages: Range<usize>) {
        self.0.iter_mut().for_each(|part| part.copy_frozen(image, pages.clone()));
    }

    fn thaw(&mut self, image: &Arc<FrozenImage>) {
        self.0.iter_mut().for_each(|part| part.thaw(image));
    }

    fn seal(&mut self, pages: Range<usize>) -> Result<bool, Error> {
        self.0.first_mut().map_or(Ok(false), |part| part.seal(pages))
    }

    fn scrub(&mut self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        self.0.iter_mut().try_for_each(|part| part.scrub(pages.clone(), scrubbed))
    }

    fn counts(&self) -> Counts {
        self.0.iter().fold(Counts::default(), |sum, part| sum.plus(part.counts()))
    }
}

/// The words of one part.
#[derive(Debug)]
pub(crate) struct Share {
    part: u64,
    parts: u64,
    heap_words: u64,
    /// A piece has two to the power of this words.
    shift: u32,
    /// Runs picked from a batch.
    picked: Vec<u64>,
}

impl Share {
    /// One for each of so many parts of a heap; `None` for a part that is all of it.
    pub(crate) fn all(parts: usize, heap_words: u64) -> impl Iterator<Item = Option<Share>> {
        let parts = (parts as u64).clamp(1, u64::from(u32::MAX));
        let piece = (heap_words / (PIECES_MIN * parts)).clamp(PAGE_WORDS, PIECE_WORDS);
        let share =
            move |part| Share { part, parts, heap_words, shift: piece.ilog2(), picked: Vec::new() };
        (0..parts).map(move |part| (parts > 1).then(|| share(part)))
    }

    /// Whether a word is of this part.
    #[inline]
    pub(crate) fn has(&self, word: u64) -> bool {
        let shift =
            if injected(Mutant::PageOfTwoParts) { PAGE_WORDS.ilog2() - 1 } else { self.shift };
        // The golden ratio deals neighbours out evenly, and no stride of a program meets one part
        // alone; the product's upper half is below `parts`.
        let hash = (word >> shift).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash * self.parts) >> 32 == self.part
    }

    /// Of a batch, the words of this part, as a batch. Checks all of it, as
    /// [`writes::check`] does, in the same pass.
    ///
    /// # Errors
    /// Those of [`writes::check`].
    pub(crate) fn pick(&mut self, writes: &[u64]) -> Result<&[u64], Error> {
        let mut picked = std::mem::take(&mut self.picked);
        // A run of n words is at most n runs of one.
        if picked.len() < 2 * writes.len() {
            picked.resize(2 * writes.len(), 0);
        }
        let (mut end, mut pieces) = (0, Pieces::new(writes));
        for piece in pieces.by_ref() {
            let Piece::Run(index, words) = piece else { continue };
            writes::check_run(index, words, self.heap_words)?;
            if let [value] = words {
                // Without a branch: half of all words are another part's, and which are is chance.
                picked[end] = writes::run(index, 1);
                picked[end + 1] = *value;
                end += 2 * usize::from(self.has(index));
            } else {
                end = self.pick_run(index, words, &mut picked, end);
            }
        }
        writes::check_end(&pieces, writes)?;
        self.picked = picked;
        Ok(&self.picked[..end])
    }

    /// Splits a run at the borders of pieces; returns the end of the picked runs.
    #[inline]
    fn pick_run(
        &self,
        mut index: u64,
        mut words: &[u64],
        picked: &mut [u64],
        mut end: usize,
    ) -> usize {
        let piece_words = 1 << self.shift;
        while !words.is_empty() {
            let here = words.len().min((piece_words - index % piece_words) as usize);
            let (these, rest) = words.split_at(here);
            let has = self.has(index);
            if has || here <= COPIED_WORDS {
                picked[end] = writes::run(index, here);
                picked[end + 1..end + 1 + here].copy_from_slice(these);
                end += (1 + here) * usize::from(has);
            }
            if injected(Mutant::RestOfRunLost) {
                break;
            }
            (index, words) = (index + here as u64, rest);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::writes::{mark, run};

    /// The words of a batch in order, with the run that each was in.
    fn words(batch: &[u64]) -> Vec<(u64, u64)> {
        let runs = Pieces::new(batch).filter_map(|piece| match piece {
            Piece::Run(index, words) => Some((index, words)),
            Piece::Mark(_) => None,
        });
        runs.flat_map(|(index, words)| (index..).zip(words.iter().copied())).collect()
    }

    #[test]
    fn each_word_is_picked_by_one_part() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for (parts, heap_words) in [(2, 1 << 14), (2, 1 << 20), (3, 100 * 512), (7, 1 << 13)] {
            let mut shares: Vec<Share> = Share::all(parts, heap_words).flatten().collect();
            assert_eq!(shares.len(), parts);
            let mut owners = vec![None; (heap_words / PAGE_WORDS) as usize];
            for _ in 0..200 {
                let mut batch = Vec::new();
                for _ in 0..random.random_range(0..20) {
                    let count = [1, 2, 20, 700, 5000][random.random_range(0..5)];
                    batch.extend([mark(7), run(random.random_range(0..heap_words - count), 1), 5]);
                    batch.push(run(random.random_range(0..=heap_words - count), count as usize));
                    batch.extend((0..count).map(|_| random.random::<u64>()));
                }
                let mut all: Vec<(u64, u64)> = Vec::new();
                for (part, share) in shares.iter_mut().enumerate() {
                    let picked = share.pick(&batch).unwrap();
                    assert!(writes::check(picked, heap_words).is_ok());
                    for (word, value) in words(picked) {
                        let owner = &mut owners[(word / PAGE_WORDS) as usize];
                        assert_eq!(*owner.get_or_insert(part), part, "word {word}");
                        all.push((word, value));
                    }
                }
                // Each word's writes in their order, which one part has kept.
                let mut expected = words(&batch);
                expected.sort_by_key(|(word, _)| *word);
                all.sort_by_key(|(word, _)| *word);
                assert!(all == expected, "{parts} parts");
            }
            assert!((0..parts).all(|part| owners.contains(&Some(part))), "a part with no page");
        }
    }

    #[test]
    fn parts_have_about_as_many_pages() {
        for parts in [2, 3, 4, 8] {
            let shares: Vec<Share> = Share::all(parts, 1 << 26).flatten().collect();
            for share in shares {
                let pieces = (0..2048).filter(|piece| share.has(piece << share.shift)).count();
                let even = 2048 / parts;
                assert!(pieces.abs_diff(even) <= even / 20, "{pieces} of {even}");
            }
        }
        assert!(Share::all(1, 1 << 20).all(|share| share.is_none()), "all of it needs no picking");
    }
}
