//! Heap image in a file: writes are gathered by page; the barrier builds and writes the pages.
//!
//! ```text
//!   write_back   run -> page number -> slot -> page buffer and mask of the words that are in it
//!   barrier      dirty pages in order of their numbers, neighbours together:
//!                  one run of words    written as it is
//!                  else                read, the words laid over, written
//!                one fdatasync
//! ```
//!
//! Invariants:
//! - `slots[page]` is 0, or 1 + the index in `dirty` that holds `page`. `dirty` and `masks` are as
//!   long as the page buffers in use.
//! - Where its mask has a bit, a page buffer holds the last value of that word written since the
//!   page was last written. Other words of the buffer are undefined.
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
//! When memory runs short, pages may be written before the barrier. Their words are already durable
//! in the log and stay there until the barrier, and then the reproduced ID, are durable. Replay
//! writes these words again whatever the page holds. The page's other words are written with their
//! old values, so even a torn page loses nothing (assuming that a torn sector mixes only old and
//! new bytes).
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
use crate::parts::{Parts, Share};
use crate::pool_file::PoolFile;
use crate::pool_file::write_all;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::traits::{Counts, HeapMedium};
use crate::writes::{self, Piece, Pieces};
use system::mutants::{Mutant, injected};

const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// Pages in one write, which are built in 128 KiB of memory that stays in the processor's cache.
const WRITE_PAGES: usize = 32;

/// Pages in one piece of buffer memory.
const PIECE_PAGES: usize = 16;

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
    /// Per page of the heap, 0 or 1 + its slot.
    slots: Vec<u32>,
    /// Per slot in use, the page.
    dirty: Vec<u32>,
    /// Per slot in use, which words of its buffer are to be written.
    masks: Vec<Mask>,
    /// The page buffers, slot by slot; pieces are allocated when first used and kept.
    pieces: Vec<Buffer>,
    dirty_max: usize,
    /// Buffer for pages that are read before they are written.
    scratch: Buffer,
    state: Arc<State>,
    counts: Counts,
}

/// State shared by the parts of one heap image. All accesses are relaxed: one thread at a time
/// uses a part, and the thread that syncs for all parts has waited for them.
#[derive(Debug, Default)]
struct State {
    /// Pages were written since the last sync.
    unsynced: AtomicBool,
    poisoned: AtomicBool,
}

impl FileHeap {
    /// Default memory for gathered pages. A batch that touches more pages than fit writes some of
    /// them many times. Measured with `lastword run hashtable` (uniform writes to 68 MiB, a log of
    /// 64 MiB): 1 540 bytes a transaction written to the heap image with 64 MiB of memory, 71 with
    /// enough.
    pub const GATHER_BYTES: u64 = 256 << 20;

    /// The heap of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`].
    pub fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHeap, Error> {
        let area = Area::new(file, offset, bytes)?;
        let pages = bytes / PAGE_BYTES;
        if pages > u64::from(u32::MAX) {
            let (path, file_bytes) = (area.file().path().to_path_buf(), area.file().len());
            return Err(Error::BadArea { path, offset, bytes, unit: PAGE_BYTES, file_bytes });
        }
        let dirty_max = (FileHeap::GATHER_BYTES / PAGE_BYTES) as usize;
        Ok(FileHeap::part(&area, None, dirty_max, &Arc::default()))
    }

    fn part(area: &Area, share: Option<Share>, dirty_max: usize, state: &Arc<State>) -> FileHeap {
        FileHeap {
            slots: vec![0; (area.bytes() / PAGE_BYTES) as usize],
            area: area.clone(),
            share,
            dirty: Vec::new(),
            masks: Vec::new(),
            pieces: Vec::new(),
            dirty_max,
            scratch: Buffer::new(WRITE_PAGES * PAGE_WORDS),
            state: Arc::clone(state),
            counts: Counts::default(),
        }
    }

    /// Splits this heap image into parts, one for each thread, that share its memory for gathered
    /// pages. Nothing may have been written to it yet.
    pub fn in_parts(self, parts: usize) -> Parts {
        let dirty_max = (self.dirty_max / parts.max(1)).max(1);
        let part = |share| FileHeap::part(&self.area, share, dirty_max, &self.state);
        Share::all(parts, self.area.bytes() / 8).map(part).collect()
    }

    /// Bounds the memory for gathered pages (default 256 MiB, at least one page). When it is used
    /// up, pages are written before the barrier; their sync still waits for it.
    pub fn with_gather_bytes_max(mut self, bytes: u64) -> FileHeap {
        let pages = (bytes / PAGE_BYTES).clamp(1, u64::from(u32::MAX) - 1);
        self.dirty_max = pages as usize;
        self
    }

    /// Runs a step that must not fail; when it does, nothing runs ever after.
    fn or_poison(
        &mut self,
        step: impl FnOnce(&mut FileHeap) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.state.poisoned.load(Ordering::Relaxed) {
            return Err(self.area.poisoned());
        }
        let result = step(self);
        if result.is_err() {
            self.state.poisoned.store(true, Ordering::Relaxed);
        }
        result
    }

    fn gather(&mut self, writes: &[u64]) -> Result<(), Error> {
        for piece in Pieces::new(writes) {
            let Piece::Run(index, mut words) = piece else { continue };
            let mut index = index as usize; // checked: inside the heap, whose size is a usize
            while !words.is_empty() {
                let (page, first) = (index / PAGE_WORDS, index % PAGE_WORDS);
                let here = words.len().min(PAGE_WORDS - first);
                let slot = match self.slots[page] {
                    0 => self.take_slot(page)?,
                    slot => slot as usize - 1,
                };
                let (these, rest) = words.split_at(here);
                page_mut(&mut self.pieces, slot)[first..first + here].copy_from_slice(these);
                self.masks[slot].set(first, here);
                (index, words) = (index + here, rest);
            }
        }
        Ok(())
    }

    /// A page buffer for a page that has none.
    #[cold]
    fn take_slot(&mut self, page: usize) -> Result<usize, Error> {
        if self.dirty.len() >= self.dirty_max {
            self.write_pages()?;
        }
        let slot = self.dirty.len();
        if slot == self.pieces.len() * PIECE_PAGES {
            self.pieces.push(Buffer::new(PIECE_PAGES * PAGE_WORDS));
        }
        self.dirty.push(page as u32);
        self.masks.push(Mask::default());
        self.slots[page] = slot as u32 + 1;
        Ok(slot)
    }

    /// Writes every dirty page, without syncing; then none is dirty.
    fn write_pages(&mut self) -> Result<(), Error> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        self.check_length()?;
        self.state.unsynced.store(true, Ordering::Relaxed);
        self.dirty.sort_unstable();
        let dirty = std::mem::take(&mut self.dirty);
        let neighbours = dirty.chunk_by(|page, next| page + 1 == *next);
        let mut groups = neighbours.flat_map(|pages| pages.chunks(WRITE_PAGES));
        groups.try_for_each(|pages| self.write_neighbours(pages))?;
        for &page in &dirty {
            self.slots[page as usize] = 0;
        }
        self.dirty = dirty;
        self.dirty.clear();
        self.masks.clear();
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
        let (offset, expected) = (self.area.offset(0), self.area.bytes());
        if found < offset + expected {
            let (path, found) = (path.to_path_buf(), found.saturating_sub(offset));
            return Err(Error::Truncated { path, offset, expected, found });
        }
        Ok(())
    }

    /// Writes neighbouring pages.
    fn write_neighbours(&mut self, pages: &[u32]) -> Result<(), Error> {
        let slot = |page: &u32| self.slots[*page as usize] as usize - 1;
        let masks = || pages.iter().map(|page| &self.masks[slot(page)]);
        let mut slices = [IoSlice::new(&[]); WRITE_PAGES];
        let mut first = 0;
        let slices = if let Some(start) = one_run(masks()) {
            first = start;
            for (slice, page) in slices.iter_mut().zip(pages) {
                let words = self.masks[slot(page)].span();
                *slice = IoSlice::new(self::page(&self.pieces, slot(page))[words].as_bytes());
            }
            &mut slices[..pages.len()]
        } else {
            let scratch = &mut self.scratch.words_mut()[..pages.len() * PAGE_WORDS];
            let at = u64::from(pages[0]) * PAGE_BYTES;
            self.area.file().read_at(self.area.offset(at), scratch)?;
            for (out, page) in scratch.chunks_exact_mut(PAGE_WORDS).zip(pages) {
                let slot = self.slots[*page as usize] as usize - 1;
                self.masks[slot].lay_over(self::page(&self.pieces, slot), out);
            }
            slices[0] = IoSlice::new(scratch.as_bytes());
            &mut slices[..1]
        };
        let at = u64::from(pages[0]) * PAGE_BYTES + 8 * first as u64;
        self.counts.device_writes += write(&self.area, at, slices)?;
        // The device gets whole pages.
        self.counts.bytes += pages.len() as u64 * PAGE_BYTES;
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
        self.or_poison(|heap_image| match injected(Mutant::HeapPagesForgotten) {
            true => Ok(()),
            false => heap_image.write_pages(),
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

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// Which words of a page are to be written, a bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Mask([u64; PAGE_WORDS / 64]);

impl Mask {
    #[inline]
    fn set(&mut self, mut first: usize, mut count: usize) {
        while count > 0 {
            let here = count.min(64 - first % 64);
            self.0[first / 64] |= (u64::MAX >> (64 - here)) << (first % 64);
            (first, count) = (first + here, count - here);
        }
    }

    fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// From the first word to the last.
    fn span(&self) -> Range<usize> {
        let some = |bits: &u64| *bits != 0;
        let Some(first) = self.0.iter().position(some) else { return 0..0 };
        let last = self.0.iter().rposition(some).unwrap_or(first);
        let start = first * 64 + self.0[first].trailing_zeros() as usize;
        start..last * 64 + 64 - self.0[last].leading_zeros() as usize
    }

    /// Copies these words.
    fn lay_over(&self, from: &[u64], to: &mut [u64]) {
        let parts = from.chunks_exact(64).zip(to.chunks_exact_mut(64));
        for (&bits, (from, to)) in self.0.iter().zip(parts) {
            if bits == u64::MAX {
                to.copy_from_slice(from);
                continue;
            }
            let mut rest = bits;
            while rest != 0 {
                let word = rest.trailing_zeros() as usize;
                to[word] = from[word];
                rest &= rest - 1;
            }
        }
    }
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

fn page(pieces: &[Buffer], slot: usize) -> &[u64] {
    &pieces[slot / PIECE_PAGES].words()[slot % PIECE_PAGES * PAGE_WORDS..][..PAGE_WORDS]
}

fn page_mut(pieces: &mut [Buffer], slot: usize) -> &mut [u64] {
    let first = slot % PIECE_PAGES * PAGE_WORDS;
    &mut pieces[slot / PIECE_PAGES].words_mut()[first..first + PAGE_WORDS]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::writes::run;

    fn small(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHeap, Error> {
        FileHeap::new(file, offset, bytes)
            .map(|heap_image| heap_image.with_gather_bytes_max(3 * PAGE_BYTES))
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
        let mut heap_image = small(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        for page in 0..7 {
            heap_image.write_back(&[run(2 * page * PAGE_WORDS as u64, 1), 1]).unwrap();
        }
        assert_eq!(
            (heap_image.counts().device_writes, heap_image.counts().persist_barriers),
            (6, 0)
        );
        heap_image.barrier().unwrap();
        assert_eq!(
            (heap_image.counts().device_writes, heap_image.counts().persist_barriers),
            (7, 1)
        );
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
