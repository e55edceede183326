//! The use of the heap of a closed pool, from the heads of its runs.
//!
//! A check reads all of the heap. The heads suffice for this: one line in each slab, array and long
//! string, read a page at a time. After an unclean shutdown the log is replayed in memory, of which
//! only the words of heads and of the allocator's first run are kept.

use std::collections::BTreeMap;
use std::path::Path;

use lw_alloc::Usage;
use medium::writes::{Piece, Pieces};
use medium::{Counts, HeapMedium, PoolFile};

use super::{CheckOptions, check, survey};
use crate::storage::heap;
use crate::{Error, superblock::Superblock};

/// Returns the live and free memory of a pool's heap, as opening it would show, in total and for
/// each size class. Never writes. Reads a page for each slab, array and long string, and after an
/// unclean shutdown the log.
///
/// Objects are not read: [`Usage::object_bytes`] is 0, and damage to them is not found
/// ([`check`](crate::check)). [`Usage::unknown_bytes`] is not 0 if heads are damaged.
///
/// ```
/// use lastword::{Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// pool.run(|tx| tx.alloc([42_u64, 7]))?;
/// pool.close()?;
/// let usage = lastword::heap_usage(&path)?;
/// assert_eq!((usage.objects, usage.live_bytes()), (1, 32)); // with a header of 16 bytes
/// assert!(usage.fragmentation() < 0.1 && usage.largest_free_bytes > 900 << 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`inspect`](crate::inspect).
pub fn heap_usage(path: impl AsRef<Path>) -> Result<Usage, Error> {
    heap_usage_with(path, &CheckOptions::new())
}

/// Returns the use of a pool's heap against expectations; see [`heap_usage`].
///
/// # Errors
/// As [`inspect_with`](crate::inspect_with).
pub fn heap_usage_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Usage, Error> {
    let survey = survey(path.as_ref(), expected)?;
    let mut heads = Heads::default();
    if survey.refusal.is_none() {
        check::replay_into(&survey, &mut heads)?;
    }
    let found = survey.found()?;
    let superblock = *found.superblocks.current();
    let mut image = Image::new(&found.file, &superblock);
    let usage = heap(&superblock)
        .usage_now(|offset| heads.0.get(&offset).copied().unwrap_or_else(|| image.word(offset)));
    image.error.map_or(Ok(usage), |error| Err(error.into()))
}

/// The replayed words that are read, by their offsets in bytes.
#[derive(Default)]
struct Heads(BTreeMap<u64, u64>);

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
struct Image<'f> {
    file: &'f PoolFile,
    begin: u64,
    /// The page in `words`, in bytes from the heap's first.
    page: Option<u64>,
    words: [u64; PAGE_WORDS],
    /// The first failed read.
    error: Option<medium::Error>,
}

impl Image<'_> {
    fn new<'f>(file: &'f PoolFile, superblock: &Superblock) -> Image<'f> {
        let begin = superblock.heap_offset;
        Image { file, begin, page: None, words: [0; PAGE_WORDS], error: None }
    }

    /// Returns a word; 0 after a failed read.
    fn word(&mut self, offset: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use words::{Allocate, Words};

    use super::*;
    use crate::{Options, Pool, Snapshot, Undo};

    fn options() -> Options {
        Options::new().bytes(1 << 20).log_bytes(8 << 20).ring_entries(1 << 14)
    }

    /// Allocates objects of many sizes, arrays and long strings, and frees some of them.
    fn fill<D: crate::Design>(pool: &Pool<D>) {
        let mut worker = pool.worker().unwrap();
        for bytes in (16..=1024).step_by(24) {
            let _ = worker
                .run(|tx| {
                    let freed = tx.allocate(bytes)?;
                    tx.allocate(bytes)?;
                    tx.allocate_pieces(1100 + 9 * bytes as u64)?;
                    tx.retire(words::Addr::new(freed, 0), bytes as u64)
                })
                .unwrap();
        }
        let _ = worker.run(|tx| tx.reserve_blocks(30)).unwrap();
        let _ = worker.run(|tx| tx.allocate_pieces(40_000)).unwrap();
    }

    fn agrees_with_check<D: crate::Design>() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pool");
        let pool = Pool::<D>::create_as(&path, options()).unwrap();
        fill(&pool);
        pool.flush().unwrap();
        let open = pool.heap_usage();
        pool.abandon();
        for state in ["crashed", "closed"] {
            let mut checked = crate::check(&path).unwrap().sound().unwrap().usage;
            let usage = heap_usage(&path).unwrap();
            assert_eq!(usage, open, "{}, {state}", D::NAME);
            checked.object_bytes = 0;
            assert_eq!(usage, checked, "{}, {state}", D::NAME);
            assert_eq!((usage.arrays, usage.long_strings), (1, 1));
            assert_eq!(usage.unknown_bytes, 0);
            Pool::<D>::open_as(&path, options()).unwrap().close().unwrap();
        }
    }

    #[test]
    fn heap_usage_of_closed_or_crashed_pool_equals_check() {
        agrees_with_check::<crate::Decoupled>();
        agrees_with_check::<Snapshot>();
        agrees_with_check::<Undo>();
        agrees_with_check::<crate::Redo>();
    }
}
