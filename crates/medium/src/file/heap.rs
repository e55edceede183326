//! Heap image in a file: words are gathered by page, and each page is written once.
//!
//! ```text
//!   write_back      run -> its pages' words          memory alone: see `page_index`
//!   write_next      the next pages in the order of their numbers, neighbours together:
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
//! One word is cheaper to write than a page, so a page with a single run is not read, unless it has
//! a [checksum](crate::FileChecksums). Batches of 32 by io_uring take as long for reads. For writes
//! they take more than twice as long, because io_uring passes them to kernel workers. Reading
//! sparse neighbours together does not pay either.
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

use rustix::io::{Errno, ReadWriteFlags};
use zerocopy::IntoBytes;

use crate::area::{Area, PAGE_BYTES};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::file::mask::{Mask, PAGE_WORDS};
use crate::file::page_index::{PageIndex, PageWords};
use crate::frozen::{FrozenImage, FrozenImages};
use crate::page_checksums::FileChecksums;
use crate::parts::{Parts, Share};
use crate::pool_file::PoolFile;
use crate::pool_file::write_all;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::traits::{Counts, HeapMedium, Scrubbed, Unwritten};
use crate::writes::{self, Piece, Pieces};
use system::Handle;
use system::mutants::{Mutant, injected};

/// Pages in one write. Those that are read first take 128 KiB: they stay in the processor's cache.
const WRITE_PAGES: usize = 32;

/// The share of the pages that is written when memory runs short, and most of them: 32 MiB. The
/// rest may gather more words.
const SHORT_SHARE: usize = 8;
const SHORT_PAGES: usize = 8 << 10;

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
    /// The checksums of the pages, if the pool has them.
    sums: Option<Arc<FileChecksums>>,
}

impl State {
    /// Checks neighboring pages, as the file has them.
    fn check(&self, first: usize, words: &[u64]) -> Result<(), Error> {
        self.sums.as_ref().map_or(Ok(()), |sums| sums.check(first, words))
    }
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

    /// Keeps the checksums of the pages that it writes. Nothing may have been written yet.
    pub fn with_checksums(self, sums: Arc<FileChecksums>) -> FileHeap {
        let state = Arc::new(State { sums: Some(sums), ..State::default() });
        FileHeap { state, ..self }
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
            let FileHeap { area, index, frozen, state, .. } = self;
            frozen.before_writes(writes, |page, out| now(area, index, state, page, out));
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
                        let share = self.index.len().div_ceil(SHORT_SHARE);
                        self.write_pages(share.min(SHORT_PAGES))?;
                    }
                    self.index.insert(page, first, these);
                }
                (index, words) = (index + here, rest);
            }
        }
        Ok(())
    }

    /// Writes the next pages with words, at most so many, without syncing.
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

    /// Reads neighboring pages at once and compares them with their checksums. Suspect pages are
    /// read again one by one.
    fn scrub_neighbors(
        &mut self,
        pages: &[usize],
        direct: Option<&dyn Handle>,
        sums: &FileChecksums,
        scrubbed: &mut Scrubbed,
    ) {
        let FileHeap { area, scratch, .. } = self;
        let read = |page: usize, out: &mut [u64]| {
            let (at, whole) = (area.offset(page as u64 * PAGE_BYTES), 8 * out.len());
            match direct.map(|file| file.read(out.as_mut_bytes(), at)) {
                Some(Ok(bytes)) if bytes == whole => true,
                // Only these mean that the file takes no such read.
                None | Some(Ok(_) | Err(Errno::INVAL | Errno::OPNOTSUPP)) => {
                    area.file().read_at(at, out).is_ok()
                }
                Some(Err(_)) => false,
            }
        };
        let words = &mut scratch.words_mut()[..pages.len() * PAGE_WORDS];
        let is_read = read(pages[0], words);
        let mut again = Buffer::new(PAGE_WORDS);
        for (page, words) in pages.iter().zip(words.chunks_exact(PAGE_WORDS)) {
            let Some(differs) = sums.differs(*page, words) else { continue };
            scrubbed.compared += 1;
            if is_read && !differs {
                continue;
            }
            let words = &mut again.words_mut()[..PAGE_WORDS];
            // A page that cannot be read now may be intact, so it is not marked.
            if !read(*page, words) {
                scrubbed.damaged.push(*page);
            } else if sums.differs(*page, words) == Some(true) {
                sums.mark_damaged(*page);
                scrubbed.damaged.push(*page);
            }
        }
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
    ///
    /// A page with a checksum is read unless all its words are new. It is compared with its old
    /// checksum first: otherwise damage beside the new words would get a valid checksum.
    fn write_neighbours(&mut self, pages: &[u32]) -> Result<(), Error> {
        self.taken.extend(pages.iter().map(|page| self.index.take(*page as usize)));
        let words = || self.taken.iter().map(|taken| self.index.words(taken));
        let run = one_run(words().map(|(mask, _)| mask));
        let first_page = pages[0] as usize;
        let sums = self.state.sums.as_deref().filter(|sums| sums.has_place(first_page));
        let are_whole = || words().all(|(mask, _)| mask.count() == PAGE_WORDS);
        let scratch = &mut self.scratch.words_mut()[..pages.len() * PAGE_WORDS];
        if run.is_none() || sums.is_some() && !are_whole() {
            let at = first_page as u64 * PAGE_BYTES;
            self.area.file().read_at(self.area.offset(at), scratch)?;
            if let Err(error) = self.state.check(first_page, scratch) {
                sums.inspect(|sums| sums.write_after_failure());
                return Err(error);
            }
            for (out, (mask, words)) in scratch.chunks_exact_mut(PAGE_WORDS).zip(words()) {
                mask.lay_over(words, out);
            }
            if let Some(sums) = sums {
                let pages = (first_page..).zip(scratch.chunks_exact(PAGE_WORDS));
                pages.for_each(|(page, words)| sums.set(page, words));
            }
        } else if let Some(sums) = sums {
            (first_page..).zip(words()).for_each(|(page, (_, words))| sums.set(page, words));
        }
        let mut slices = [IoSlice::new(&[]); WRITE_PAGES];
        let mut first = 0;
        let slices = if let Some(start) = run {
            first = start;
            for (slice, (mask, words)) in slices.iter_mut().zip(words()) {
                *slice = IoSlice::new(words[mask.span()].as_bytes());
            }
            &mut slices[..pages.len()]
        } else {
            slices[0] = IoSlice::new(scratch.as_bytes());
            &mut slices[..1]
        };
        let at = first_page as u64 * PAGE_BYTES + 8 * first as u64;
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
        self.index.unwritten()
    }

    fn write_next(&mut self, pages: usize) -> Result<(), Error> {
        self.or_poison(|heap_image| match injected(Mutant::HeapPagesForgotten) {
            true => heap_image.forget_pages(pages),
            false => heap_image.write_pages(pages),
        })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.or_poison(|heap_image| {
            let sums = heap_image.state.sums.clone();
            let changed = sums.filter(|sums| sums.has_dirty());
            let unsynced = heap_image.state.unsynced.load(Ordering::Relaxed) || changed.is_some();
            if unsynced && !injected(Mutant::HeapBarrierSkipped) {
                // Before the sync: after it the log is recycled, and a difference could no longer
                // be explained.
                if let Some(sums) = changed {
                    let (bytes, writes) = sums.write()?;
                    heap_image.counts.bytes += bytes;
                    heap_image.counts.device_writes += writes;
                }
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
        image.copy(pages, owns, |first, out| now(area, index, state, first, out));
    }

    fn thaw(&mut self, image: &Arc<FrozenImage>) {
        self.frozen.remove(image);
    }

    fn seal(&mut self, pages: Range<usize>) -> Result<bool, Error> {
        let Some(sums) = self.state.sums.clone() else { return Ok(false) };
        let mut unknown = sums.unknown_in(pages).peekable();
        if unknown.peek().is_none() && !sums.has_dirty() {
            return Ok(false);
        }
        self.or_poison(|heap_image| {
            let mut words = [0; PAGE_WORDS];
            for page in unknown {
                let at = heap_image.area.offset(page as u64 * PAGE_BYTES);
                heap_image.area.file().read_at(at, &mut words)?;
                sums.set(page, &words);
            }
            Ok(())
        })?;
        self.sync()?;
        Ok(true)
    }

    fn scrub(&mut self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let Some(sums) = self.state.sums.clone() else { return Ok(()) };
        let share = self.share.as_ref();
        let owns = |page| share.is_none_or(|share| share.has((page * PAGE_WORDS) as u64));
        let own: Vec<usize> = sums.present_in(pages).filter(|page| owns(*page)).collect();
        // Bypasses the page cache, which may hide damage on the disk.
        let direct = self.area.file().reopen_direct();
        for together in own.chunk_by(|page, next| page + 1 == *next) {
            for pages in together.chunks(WRITE_PAGES) {
                self.scrub_neighbors(pages, direct.as_deref(), &sums, scrubbed);
            }
        }
        // Makes the marks durable. A failed sync poisons, as always: the kernel reports it once.
        if sums.has_dirty() { self.sync() } else { Ok(()) }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// Reads the current content of neighbouring pages: that of the file, with the gathered words.
fn now(
    area: &Area,
    index: &PageIndex,
    state: &State,
    first: usize,
    out: &mut [u64],
) -> Result<(), Error> {
    area.file().read_at(area.offset(first as u64 * PAGE_BYTES), out)?;
    state.check(first, out)?;
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
mod tests;
