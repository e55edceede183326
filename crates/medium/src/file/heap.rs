//! Heap image in a file: words are gathered by page, and each page is written once.
//!
//! ```text
//!   write_back      run -> its pages' words          memory alone: see `page_index`
//!   write_next      the next pages of a sweep in order of their numbers, neighbours together:
//!                     one run of words    written as it is
//!                     else                read, the words laid over, written
//!   sync            one fdatasync
//! ```
//!
//! A barrier writes all pages and syncs.
//!
//! Invariants:
//! - The last value of each word written back is in the page index or in the file.
//! - After a failure in any part, no part writes again. A failed sync may have dropped pages that
//!   the kernel then treats as clean, so the next sync would succeed without making them durable.
//!
//! In [parts](crate::Parts), each part writes its own pages and one sync covers all parts.
//!
//! The file is not read before the barrier, because reads in page order are cheaper. CPU time in us
//! a page, for 20 000 pages of 1 GiB in the page cache:
//!
//! | operation | us a page |
//! |---|---|
//! | read, in order of the writes | 3.9 |
//! | read, in order of the pages | 1.4 |
//! | write a page | 4.3 |
//! | write one word of a page | 3.5 |
//! | sync | 2.7 more |
//!
//! One word is cheaper to write than a page, so a page with a single run is never read. Batches of
//! 32 by io_uring take as long for reads. For writes they take more than twice as long, because
//! io_uring passes them to kernel workers. Reading sparse neighbours together does not pay either.
//!
//! A page may be written long before the sync, and with words of later groups than the oldest. All
//! these words are already durable in the log. They stay there until the sync, and then the
//! reproduced ID, are durable. Replay writes them again whatever the page holds. The page's other
//! words are written with their old values, so even a torn page loses nothing (assuming that a torn
//! sector mixes only old and new bytes).
//!
//! A shared mapping with `msync` is not used: the page cache works in folios of up to 1 MiB, and
//! one dirty byte in a mapping writes the whole folio.

use std::io::IoSlice;
use std::ops::Range;

use rustix::io::ReadWriteFlags;
use zerocopy::IntoBytes;

use crate::area::{Area, PAGE_BYTES};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::file::mask::{Mask, PAGE_WORDS};
use crate::file::page_index::{PageIndex, PageWords};
use crate::frozen::{FrozenImage, FrozenImages};
use crate::parts::{Parts, Share};
use crate::pool_file::PoolFile;
use crate::pool_file::write_all;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::traits::{Counts, HeapMedium, Unwritten};
use crate::writes::{self, Piece, Pieces};
use system::mutants::{Mutant, injected};

/// Pages in one write. Those that are read first take 128 KiB: they stay in the processor's cache.
const WRITE_PAGES: usize = 32;

/// The share of the pages that is written when memory runs short. The rest may gather more words.
const SHORT_SHARE: usize = 8;

/// The heap in a file. A barrier costs one `fdatasync`, and none when nothing was written.
///
/// ```
/// use medium::{FileHeap, HeapMedium, PoolFile, Prewrite, sync::Arc, writes};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?;
/// let file = Arc::new(file);
/// let mut heap = FileHeap::new(file.clone(), 4096, (1 << 20) - 4096)?;
/// heap.write_back(&[writes::run(10, 2), 42, 43])?; // words 10 and 11 of the heap
/// heap.barrier()?; // durable
/// let mut words = [0; 2];
/// file.read_at(4096 + 80, &mut words)?;
/// assert_eq!(words, [42, 43]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileHeap {
    area: Area,
    /// Subset of each batch that this part writes; `None`: all of it.
    share: Option<Share>,
    /// The words that are not yet written.
    index: PageIndex,
    /// Most memory of the index.
    bytes_max: u64,
    /// The pages that are being written.
    writing: Vec<u32>,
    /// The words of neighbouring pages that are being written.
    taken: Vec<PageWords>,
    /// Buffer for pages that are read before they are written.
    scratch: Buffer,
    state: Arc<State>,
    counts: Counts,
    frozen: FrozenImages,
}

/// State shared by the parts of one heap image. All accesses are relaxed: one thread at a time
/// uses a part, and the thread that syncs for all parts has waited for them.
#[derive(Debug, Default)]
struct State {
    /// Pages were written since the last sync.
    unsynced: AtomicBool,
    poisoned: AtomicBool,
}

/// Poisons the heap image when it is dropped, unless its step has succeeded.
struct Failed {
    state: Arc<State>,
    is_so: bool,
}

impl Drop for Failed {
    fn drop(&mut self) {
        if self.is_so {
            self.state.poisoned.store(true, Ordering::Relaxed);
        }
    }
}

impl FileHeap {
    /// Default memory for gathered words. With less memory than the words of a batch take, a page
    /// may be written several times in the batch. Measured with `lastword run hashtable` (uniform
    /// writes to 68 MiB, a log of 64 MiB): 1 540 bytes a transaction written to the heap image with
    /// a quarter of the memory that the pages take, 71 with enough.
    pub const GATHER_BYTES: u64 = 256 << 20;

    /// The heap of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`].
    pub fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHeap, Error> {
        FileHeap::growing(file, offset, bytes, bytes)
    }

    /// The same for a heap that [grows](PoolFile::grow) with the file up to `room` bytes. The
    /// caller writes no word that the file does not have.
    ///
    /// # Errors
    /// As [`new`](FileHeap::new).
    pub fn growing(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        room: u64,
    ) -> Result<FileHeap, Error> {
        let area = Area::with_room(file, offset, bytes, room)?;
        if room / PAGE_BYTES > u64::from(u32::MAX) {
            let (path, file_bytes) = (area.file().path().to_path_buf(), area.file().len());
            return Err(Error::BadArea { path, offset, bytes, unit: PAGE_BYTES, file_bytes });
        }
        let memory = (FileHeap::GATHER_BYTES, FileHeap::GATHER_BYTES);
        Ok(FileHeap::part(&area, None, memory, &Arc::default()))
    }

    /// `dense_max`: the largest heap whose pages all have memory in the index.
    fn part(
        area: &Area,
        share: Option<Share>,
        (bytes_max, dense_max): (u64, u64),
        state: &Arc<State>,
    ) -> FileHeap {
        let pages = |bytes: u64| usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX);
        FileHeap {
            index: PageIndex::new(pages(area.present_bytes()), pages(dense_max)),
            area: area.clone(),
            share,
            bytes_max,
            writing: Vec::new(),
            taken: Vec::new(),
            scratch: Buffer::new(WRITE_PAGES * PAGE_WORDS),
            state: Arc::clone(state),
            counts: Counts::default(),
            frozen: FrozenImages::default(),
        }
    }

    /// Splits this heap image into parts, one for each thread, that share its memory for gathered
    /// words. Nothing may have been written to it yet.
    pub fn in_parts(self, parts: usize) -> Parts {
        let memory = (self.bytes_max / parts.max(1) as u64, self.bytes_max);
        let part = |share| FileHeap::part(&self.area, share, memory, &self.state);
        Share::all(parts, self.area.bytes() / 8).map(part).collect()
    }

    /// Bounds the memory for gathered words (default 256 MiB). When it is used up, some
    /// pages are written before the barrier; their sync still waits for it. Nothing may have been
    /// written yet.
    pub fn with_gather_bytes_max(self, bytes: u64) -> FileHeap {
        FileHeap::part(&self.area, self.share, (bytes, bytes), &self.state)
    }

    /// Runs a step that must not fail; when it does, nothing runs ever after.
    fn or_poison(
        &mut self,
        step: impl FnOnce(&mut FileHeap) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.state.poisoned.load(Ordering::Relaxed) {
            return Err(self.area.poisoned());
        }
        // A panic fails it, too: words may be neither in the index nor in the file.
        let mut failed = Failed { state: Arc::clone(&self.state), is_so: true };
        let result = step(self);
        failed.is_so = result.is_err();
        result
    }

    fn gather(&mut self, writes: &[u64]) -> Result<(), Error> {
        if !self.frozen.is_empty() {
            let FileHeap { area, index, frozen, .. } = self;
            frozen.before_writes(writes, |page, out| now(area, index, page, out));
        }
        for piece in Pieces::new(writes) {
            let Piece::Run(index, mut words) = piece else { continue };
            let mut index = index as usize; // checked: inside the heap, whose size is a usize
            while !words.is_empty() {
                let (page, first) = (index / PAGE_WORDS, index % PAGE_WORDS);
                let here = words.len().min(PAGE_WORDS - first);
                let (these, rest) = words.split_at(here);
                if !self.index.insert_dense(page, first, these) {
                    if self.index.bytes() >= self.bytes_max {
                        self.write_pages(self.index.len().div_ceil(SHORT_SHARE))?;
                    }
                    self.index.insert(page, first, these);
                }
                (index, words) = (index + here, rest);
            }
        }
        Ok(())
    }

    /// Writes the next pages of the sweep, at most so many, without syncing.
    fn write_pages(&mut self, pages: usize) -> Result<(), Error> {
        if self.index.len() == 0 || pages == 0 {
            return Ok(());
        }
        self.check_length()?;
        self.state.unsynced.store(true, Ordering::Relaxed);
        let mut writing = std::mem::take(&mut self.writing);
        self.index.take_swept(pages, &mut writing);
        // In order of their numbers: reads and writes of neighbours are cheaper.
        writing.sort_unstable();
        let neighbours = writing.chunk_by(|page, next| page + 1 == *next);
        let mut groups = neighbours.flat_map(|pages| pages.chunks(WRITE_PAGES));
        groups.try_for_each(|pages| self.write_neighbours(pages))?;
        writing.clear();
        self.writing = writing;
        self.index.release_unused();
        Ok(())
    }

    /// Drops the pages instead of writing them. For a mutant.
    fn forget_pages(&mut self, pages: usize) -> Result<(), Error> {
        let mut forgotten = Vec::new();
        self.index.take_swept(pages, &mut forgotten);
        for page in forgotten {
            let taken = self.index.take(page as usize);
            self.index.release(taken);
        }
        Ok(())
    }

    fn sync_file(&self) -> Result<(), Error> {
        let synced = self.area.file().sync();
        if injected(Mutant::FailedSyncRetried) && synced.is_err() {
            return self.area.file().sync();
        }
        synced
    }

    /// Words are written without being read first, and would make a file that was cut short longer
    /// again, with nothing in between.
    fn check_length(&self) -> Result<(), Error> {
        let path = self.area.file().path();
        let found = self.area.handle().stat().map_err(Error::io("inspecting", path))?.bytes;
        let offset = self.area.offset(0);
        let expected = self.area.present_bytes();
        if found < offset + expected {
            let (path, found) = (path.to_path_buf(), found.saturating_sub(offset));
            return Err(Error::Truncated { path, offset, expected, found });
        }
        Ok(())
    }

    /// Writes neighbouring pages.
    fn write_neighbours(&mut self, pages: &[u32]) -> Result<(), Error> {
        self.taken.extend(pages.iter().map(|page| self.index.take(*page as usize)));
        let words = || self.taken.iter().map(|taken| self.index.words(taken));
        let mut slices = [IoSlice::new(&[]); WRITE_PAGES];
        let mut first = 0;
        let slices = if let Some(start) = one_run(words().map(|(mask, _)| mask)) {
            first = start;
            for (slice, (mask, words)) in slices.iter_mut().zip(words()) {
                *slice = IoSlice::new(words[mask.span()].as_bytes());
            }
            &mut slices[..pages.len()]
        } else {
            let scratch = &mut self.scratch.words_mut()[..pages.len() * PAGE_WORDS];
            let at = u64::from(pages[0]) * PAGE_BYTES;
            self.area.file().read_at(self.area.offset(at), scratch)?;
            for (out, (mask, words)) in scratch.chunks_exact_mut(PAGE_WORDS).zip(words()) {
                mask.lay_over(words, out);
            }
            slices[0] = IoSlice::new(scratch.as_bytes());
            &mut slices[..1]
        };
        let at = u64::from(pages[0]) * PAGE_BYTES + 8 * first as u64;
        self.counts.device_writes += write(&self.area, at, slices)?;
        // The device gets whole pages.
        self.counts.bytes += pages.len() as u64 * PAGE_BYTES;
        self.taken.drain(..).for_each(|taken| self.index.release(taken));
        Ok(())
    }
}

impl HeapMedium for FileHeap {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error> {
        let Some(mut share) = self.share.take() else {
            writes::check(writes, self.area.bytes() / 8)?;
            return self.or_poison(|heap_image| heap_image.gather(writes));
        };
        let result = match share.pick(writes) {
            Ok(own) => self.or_poison(|heap_image| heap_image.gather(own)),
            Err(error) => Err(error),
        };
        self.share = Some(share);
        result
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.write_out()?;
        self.sync()
    }

    fn write_out(&mut self) -> Result<(), Error> {
        self.write_next(usize::MAX)
    }

    fn starts_at(&mut self, sequence: u64) {
        self.index.starts_at(sequence);
    }

    fn unwritten(&self) -> Unwritten {
        Unwritten {
            pages: self.index.len(),
            oldest: self.index.oldest(),
            sweep_pages: self.index.sweep_len(),
            next_oldest: self.index.next_oldest(),
        }
    }

    fn write_next(&mut self, pages: usize) -> Result<(), Error> {
        self.or_poison(|heap_image| match injected(Mutant::HeapPagesForgotten) {
            true => heap_image.forget_pages(pages),
            false => heap_image.write_pages(pages),
        })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.or_poison(|heap_image| {
            let unsynced = heap_image.state.unsynced.load(Ordering::Relaxed);
            if unsynced && !injected(Mutant::HeapBarrierSkipped) {
                heap_image.sync_file()?;
                heap_image.state.unsynced.store(false, Ordering::Relaxed);
                heap_image.counts.persist_barriers += 1;
            }
            Ok(())
        })
    }

    fn freeze(&mut self, image: &Arc<FrozenImage>) -> bool {
        self.frozen.add(image);
        true
    }

    fn copy_frozen(&mut self, image: &FrozenImage, pages: Range<usize>) {
        let FileHeap { area, index, share, state, .. } = self;
        // After a failed write or sync, the file may lack words that the index has not either.
        if state.poisoned.load(Ordering::Relaxed) {
            return image.fail(area.poisoned());
        }
        let owns = |page| share.as_ref().is_none_or(|share| share.has((page * PAGE_WORDS) as u64));
        image.copy(pages, owns, |first, out| now(area, index, first, out));
    }

    fn thaw(&mut self, image: &Arc<FrozenImage>) {
        self.frozen.remove(image);
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// Reads the current content of neighbouring pages: that of the file, with the gathered words.
fn now(area: &Area, index: &PageIndex, first: usize, out: &mut [u64]) -> Result<(), Error> {
    area.file().read_at(area.offset(first as u64 * PAGE_BYTES), out)?;
    if !injected(Mutant::FrozenWordsIgnored) {
        for (page, out) in (first..).zip(out.chunks_exact_mut(PAGE_WORDS)) {
            index.lay_over(page, out);
        }
    }
    Ok(())
}

/// If the words of neighbouring pages are one run, where it starts in the first page.
fn one_run<'a>(masks: impl ExactSizeIterator<Item = &'a Mask>) -> Option<usize> {
    let last = masks.len() - 1;
    let mut start = 0;
    for (i, mask) in masks.enumerate() {
        let span = mask.span();
        let starts = i == 0 || span.start == 0;
        let ends = i == last || span.end == PAGE_WORDS;
        if span.len() != mask.count() || !starts || !ends {
            return None;
        }
        if i == 0 {
            start = span.start;
        }
    }
    Some(start)
}

/// Writes to an offset of the heap; returns the number of system calls.
fn write(area: &Area, at: u64, slices: &mut [IoSlice<'_>]) -> Result<u64, Error> {
    let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
    write_all(area.handle(), slices, area.offset(at), ReadWriteFlags::empty())
        .map_err(area.transfer("writing", at, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::writes::run;

    fn small(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHeap, Error> {
        FileHeap::new(file, offset, bytes).map(|heap_image| heap_image.with_gather_bytes_max(96))
    }

    #[test]
    fn heap_image_keeps_every_write() {
        suite::heap_image_keeps_every_write(FileHeap::new);
    }

    #[test]
    fn heap_image_short_of_memory_keeps_every_write() {
        suite::heap_image_keeps_every_write(small);
        suite::heap_image_keeps_every_write(|file, offset, bytes| {
            FileHeap::new(file, offset, bytes).map(|heap_image| heap_image.with_gather_bytes_max(0))
        });
    }

    #[test]
    fn heap_image_in_parts_keeps_every_write() {
        for parts in [2, 5] {
            let in_parts = |heap_image: FileHeap| heap_image.in_parts(parts);
            suite::heap_image_keeps_every_write(|file, offset, bytes| {
                FileHeap::new(file, offset, bytes).map(in_parts)
            });
            suite::heap_image_keeps_every_write(|file, offset, bytes| {
                small(file, offset, bytes).map(in_parts)
            });
        }
    }

    #[test]
    fn parts_share_one_sync_and_one_failure() {
        let (_dir, file) = suite::pool();
        let all: Vec<u64> =
            (0..HEAP_BYTES / PAGE_BYTES).flat_map(|page| [run(page * 512, 1), page + 1]).collect();
        let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap().in_parts(2);
        heap_image.write_back(&all).unwrap();
        heap_image.barrier().unwrap();
        heap_image.barrier().unwrap();
        let counts = heap_image.counts();
        assert_eq!((counts.bytes, counts.persist_barriers), (HEAP_BYTES, 1));
        let (_dir, file) = suite::pool_for_reading();
        let heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap().in_parts(2);
        let mut parts = heap_image.into_parts();
        parts.iter_mut().for_each(|part| part.write_back(&all).unwrap());
        assert!(matches!(parts[1].write_out(), Err(Error::Transfer { .. })));
        assert!(matches!(parts[0].write_out(), Err(Error::Poisoned { .. })));
        assert!(matches!(parts[0].sync(), Err(Error::Poisoned { .. })));
    }

    #[test]
    fn a_wrong_batch_writes_nothing() {
        suite::heap_image_refuses_wrong_batches(FileHeap::new);
        suite::heap_image_refuses_wrong_batches(small);
        suite::heap_image_refuses_wrong_batches(|file, offset, bytes| {
            small(file, offset, bytes).map(|heap_image| heap_image.in_parts(3))
        });
    }

    #[test]
    fn neighbouring_pages_are_written_together_and_an_idle_barrier_is_free() {
        let (_dir, file) = suite::pool();
        let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        heap_image.barrier().unwrap();
        assert_eq!(heap_image.counts(), Counts::default());
        let page = PAGE_WORDS as u64;
        for index in [3 * page, 5 * page, 4 * page + 7, 9 * page, 4 * page + 6] {
            heap_image.write_back(&[run(index, 1), index]).unwrap();
        }
        assert_eq!(heap_image.counts(), Counts::default());
        heap_image.barrier().unwrap();
        heap_image.barrier().unwrap();
        let counts = heap_image.counts();
        assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (16384, 2, 1));
    }

    #[test]
    fn gather_memory_exhausted_writes_early_syncs_at_barrier() {
        let (_dir, file) = suite::pool();
        // Memory for three words in pages of their own.
        let mut heap_image = small(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        for page in 0..7 {
            heap_image.write_back(&[run(2 * page * PAGE_WORDS as u64, 1), 1]).unwrap();
        }
        let counts = heap_image.counts();
        assert_eq!((counts.device_writes, counts.persist_barriers), (4, 0));
        assert_eq!(heap_image.unwritten().pages, 3);
        heap_image.barrier().unwrap();
        let counts = heap_image.counts();
        assert_eq!((counts.device_writes, counts.persist_barriers), (7, 1));
    }

    #[test]
    fn swept_pages_are_written_with_their_last_words() {
        let (_dir, file) = suite::pool();
        let mut heap_image = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
        let put = |heap_image: &mut FileHeap, sequence, page: u64| {
            heap_image.starts_at(sequence);
            heap_image.write_back(&[run(page * PAGE_WORDS as u64, 1), sequence + 1]).unwrap();
        };
        for (sequence, page) in [(0, 9), (4096, 2), (8192, 9), (8192, 5)] {
            put(&mut heap_image, sequence, page);
        }
        let word = |page: u64| {
            let mut word = [0];
            file.read_at(HEAP_OFFSET + page * PAGE_BYTES, &mut word).unwrap();
            word[0]
        };
        let waits = |heap_image: &FileHeap| {
            let Unwritten { pages, oldest, sweep_pages, next_oldest } = heap_image.unwritten();
            (pages, oldest, sweep_pages, next_oldest)
        };
        heap_image.write_next(1).unwrap();
        assert_eq!(waits(&heap_image), (2, Some(0), 2, None));
        assert_eq!([2, 5, 9].map(word), [4097, 0, 0]);
        put(&mut heap_image, 12288, 2);
        heap_image.write_next(2).unwrap();
        assert_eq!(waits(&heap_image), (1, Some(12288), 0, Some(12288)));
        assert_eq!([2, 5, 9].map(word), [4097, 8193, 8193]);
        heap_image.barrier().unwrap();
        assert_eq!(heap_image.unwritten(), Unwritten::default());
        assert_eq!([2, 5, 9].map(word), [12289, 8193, 8193]);
    }

    #[test]
    fn a_failed_write_ends_everything() {
        let (_dir, file) = suite::pool_for_reading();
        let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        heap_image.write_back(&[run(7, 1), 42]).unwrap();
        assert!(matches!(heap_image.barrier(), Err(Error::Transfer { operation: "writing", .. })));
        for _ in 0..2 {
            assert!(matches!(heap_image.barrier(), Err(Error::Poisoned { .. })));
            assert!(matches!(heap_image.write_back(&[run(7, 1), 42]), Err(Error::Poisoned { .. })));
        }
        assert_eq!(heap_image.counts(), Counts::default());
    }

    #[test]
    fn truncated_file_is_detected_and_not_extended() {
        let (dir, file) = suite::pool();
        let path = dir.path().join("pool");
        let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(HEAP_OFFSET).unwrap();
        heap_image.write_back(&[run(7, 1), 42]).unwrap();
        let cut = heap_image.barrier();
        assert!(matches!(cut, Err(Error::Truncated { found: 0, .. })), "{cut:?}");
        assert_eq!(std::fs::metadata(path).unwrap().len(), HEAP_OFFSET);
        assert!(matches!(heap_image.barrier(), Err(Error::Poisoned { .. })));
    }
}
