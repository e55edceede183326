//! The checksums of a mapped heap image: a page is marked unknown before it changes.

use std::ops::Range;
use std::path::PathBuf;

use super::{Domain, InPlace};
use crate::area::PAGE_BYTES;
use crate::error::Error;
use crate::page_checksums::{
    ChecksumArea, DAMAGED, LINE_SUMS, LINE_WORDS, PAGE_WORDS, PageChecksums, UNKNOWN, decode,
    differs, encode, line_of, page_sum, zero_sum,
};
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::traits::Scrubbed;
use system::mutants::{Mutant, injected};

/// The page checksums of an open heap image on a mapped medium.
///
/// Invariants:
/// - While a page's bit in `known` is set, no store to the page has happened since its checksum was
///   computed. A thread that is about to store clears the bit first.
/// - The bit is cleared after the mark in the table is durable. So a thread that finds it clear may
///   store at once, whichever thread has cleared it.
/// - Only the holder of `lines` writes to the table, and clears or sets bits. Two pages of a line
///   share its checksum.
#[derive(Debug)]
pub struct MappedChecksums {
    path: PathBuf,
    heap_offset: u64,
    /// The part of the table that is in use.
    table: InPlace,
    lines: Mutex<()>,
    /// Bit p: page p has a checksum in the table.
    known: Box<[AtomicU64]>,
    /// Pages with a place in the table.
    pages: usize,
    /// Whether some page was found damaged before it changed. It has no checksum since then.
    has_damage: AtomicBool,
}

impl MappedChecksums {
    /// The checksums of the heap at `heap_offset` in the file, which has `heap_bytes` bytes and
    /// room for `room`. `known` are those that the file has. `None`: the file is new, and its heap
    /// is zeros; its table is written, durably.
    ///
    /// # Errors
    /// [`Error::BadArea`]; as [`InPlace::new`].
    pub fn new(
        file: Arc<PoolFile>,
        area: ChecksumArea,
        (heap_offset, heap_bytes, room): (u64, u64, u64),
        domain: &Domain,
        known: Option<&PageChecksums>,
    ) -> Result<MappedChecksums, Error> {
        let (used, path) = (area.used(room), file.path().to_path_buf());
        let table = InPlace::new(file, used.offset, used.bytes, domain)?;
        let pages = area.pages(room);
        let bits = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let lines = Mutex::new(());
        let sums = MappedChecksums {
            path,
            heap_offset,
            table,
            lines,
            known: bits,
            pages,
            has_damage: AtomicBool::new(false),
        };
        let zeros = area.pages(heap_bytes);
        if known.is_none() {
            let lines = zeros.div_ceil(LINE_SUMS);
            for line in 0..lines {
                let of_zeros = |place| line * LINE_SUMS + place < zeros;
                let sum = |place| if of_zeros(place) { zero_sum() } else { UNKNOWN };
                sums.write_line(line, std::array::from_fn(sum));
            }
            if !injected(Mutant::NewChecksumsNotAwaited) {
                sums.table.barrier(lines as u64)?;
            }
        }
        let is_known = |page: &usize| match known {
            None => *page < zeros,
            Some(known) => ![UNKNOWN, DAMAGED].contains(&known.sum(*page)),
        };
        (0..pages).filter(is_known).for_each(|page| sums.set_known(page));
        Ok(sums)
    }

    /// Marks the page of a word as unknown, durably, if it has a checksum. Called before the word
    /// is stored. `read` reads the page: if that differs from the checksum, it is marked as
    /// damaged, and the next seal fails.
    #[inline(always)]
    pub(crate) fn before_store(&self, word: usize, read: impl FnMut(usize, &mut [u64])) {
        let page = word / PAGE_WORDS;
        if self.is_known(page) {
            self.forget(std::iter::once(page..page + 1), read);
        }
    }

    /// Marks pages as unknown, durably, that have a checksum. Called before they change. `read`
    /// reads a page. Returns the number of persist barriers, 0 or 1.
    ///
    /// # Errors
    /// [`Error::DamagedPages`]: some differ from their checksums, and are marked as damaged.
    #[inline]
    pub(crate) fn before_changes(
        &self,
        pages: impl Iterator<Item = Range<usize>> + Clone,
        read: impl FnMut(usize, &mut [u64]),
    ) -> Result<u64, Error> {
        if !pages.clone().flatten().any(|page| self.is_known(page)) {
            return Ok(0);
        }
        match self.forget(pages, read).as_slice() {
            [] => Ok(1),
            [first, ..] => Err(self.damage(*first, 1)),
        }
    }

    /// Marks pages; returns the damaged ones.
    #[cold]
    fn forget(
        &self,
        pages: impl Iterator<Item = Range<usize>>,
        mut read: impl FnMut(usize, &mut [u64]),
    ) -> Vec<usize> {
        if injected(Mutant::ChangedPageNotMarked) {
            return Vec::new();
        }
        let _lines = lock(&self.lines);
        let mut known: Vec<usize> = pages.flatten().filter(|page| self.is_known(*page)).collect();
        known.sort_unstable();
        known.dedup();
        if known.is_empty() {
            return Vec::new(); // another thread was here
        }
        let (mut words, mut damaged, mut lost) = ([0; PAGE_WORDS], Vec::new(), Vec::new());
        let mut written = 0;
        for pages in known.chunk_by(|page, next| line_of(*page).0 == line_of(*next).0) {
            let (line, _) = line_of(pages[0]);
            let mut sums = self.line(line).unwrap_or_else(|| {
                // Damaged since the opening: none of its pages has a checksum any more.
                lost.extend(line * LINE_SUMS..((line + 1) * LINE_SUMS).min(self.pages));
                [UNKNOWN; LINE_SUMS]
            });
            for page in pages {
                let sum = &mut sums[line_of(*page).1];
                // The bit is set, so no thread changes the page meanwhile.
                read(*page, &mut words);
                let is_damaged = differs(*sum, page_sum(&words)) == Some(true)
                    && !injected(Mutant::PageNotCompared);
                *sum = if is_damaged { DAMAGED } else { UNKNOWN };
                damaged.extend(is_damaged.then_some(*page));
            }
            self.write_line(line, sums);
            written += 1;
        }
        if !injected(Mutant::PageMarkNotAwaited) {
            // An error is that of a simulated machine without power. It loses every later store.
            let _ = self.table.barrier(written);
        }
        if !damaged.is_empty() {
            // Relaxed: published by the bits.
            self.has_damage.store(true, Ordering::Relaxed);
        }
        for page in known.into_iter().chain(lost) {
            // Release: see the invariants.
            self.known[page / 64].fetch_and(!(1 << (page % 64)), Ordering::Release);
        }
        damaged
    }

    /// Checks neighboring pages, which no thread changes meanwhile. A page that was damaged before
    /// it changed stays damaged.
    ///
    /// # Errors
    /// [`Error::DamagedPages`].
    pub(crate) fn check(&self, first: usize, words: &[u64]) -> Result<(), Error> {
        for (page, words) in (first..).zip(words.chunks_exact(PAGE_WORDS)) {
            let is_intact = match self.is_known(page) {
                true => self.differs(page, words) == Some(false),
                false => !self.may_be_marked(page),
            };
            if is_intact {
                continue;
            }
            // The line may be half written: it has checksums of pages that change meanwhile, too.
            let _lines = lock(&self.lines);
            if self.differs(page, words) == Some(true) {
                return Err(self.damage(page, 1));
            }
        }
        Ok(())
    }

    /// Computes the checksums of the pages in the range that have none. No thread stores to the
    /// heap meanwhile. `settle` makes a page durable with the next barrier of this thread,
    /// `barrier` is such a barrier, and `read` reads the page. Two persist barriers, or none
    /// without such pages.
    ///
    /// # Errors
    /// [`Error::DamagedPages`] of pages that were found damaged before they changed.
    pub(crate) fn seal(
        &self,
        pages: Range<usize>,
        mut settle: impl FnMut(usize) -> u64,
        barrier: impl FnOnce(u64) -> Result<(), Error>,
        mut read: impl FnMut(usize, &mut [u64]),
    ) -> Result<bool, Error> {
        let _lines = lock(&self.lines);
        let pages = pages.start..pages.end.min(self.pages);
        let unknown: Vec<usize> = pages.filter(|page| !self.is_known(*page)).collect();
        if unknown.is_empty() {
            return Ok(false);
        }
        // A page that is not durable could differ from its durable checksum after a crash.
        if !injected(Mutant::SealedPageNotDurable) {
            barrier(unknown.iter().map(|page| settle(*page)).sum())?;
        }
        let (mut words, mut written, mut damaged) = ([0; PAGE_WORDS], 0, Vec::new());
        for pages in unknown.chunk_by(|page, next| line_of(*page).0 == line_of(*next).0) {
            let (line, _) = line_of(pages[0]);
            let mut sums = self.line(line).unwrap_or([UNKNOWN; LINE_SUMS]);
            for page in pages {
                let sum = &mut sums[line_of(*page).1];
                if *sum == DAMAGED {
                    damaged.push(*page);
                } else {
                    read(*page, &mut words);
                    *sum = page_sum(&words);
                }
            }
            self.write_line(line, sums);
            written += 1;
        }
        if !injected(Mutant::SealNotAwaited) {
            self.table.barrier(written)?;
        }
        if let [first, ..] = damaged.as_slice() {
            return Err(self.damage(*first, damaged.len()));
        }
        unknown.into_iter().for_each(|page| self.set_known(page));
        Ok(true)
    }

    /// Compares pages with their checksums, and adds the result. Damaged pages are marked. No
    /// thread stores to the heap meanwhile; `read` reads a page.
    pub(crate) fn scrub(
        &self,
        pages: impl Iterator<Item = usize>,
        scrubbed: &mut Scrubbed,
        mut read: impl FnMut(usize, &mut [u64]),
    ) {
        let _lines = lock(&self.lines);
        let mut words = [0; PAGE_WORDS];
        for page in pages.filter(|page| self.is_known(*page) || self.may_be_marked(*page)) {
            read(page, &mut words);
            let Some(differs) = self.differs(page, &words) else { continue };
            scrubbed.compared += 1;
            if differs {
                scrubbed.damaged.push(page);
                let (line, place) = line_of(page);
                if let Some(mut sums) = self.line(line) {
                    sums[place] = DAMAGED;
                    self.write_line(line, sums);
                    if !injected(Mutant::ScrubMarkNotAwaited) {
                        // An error, as above, is that of a machine without power.
                        let _ = self.table.barrier(1);
                    }
                }
            }
        }
    }

    /// Whether a page without a checksum may be marked as damaged in the table.
    fn may_be_marked(&self, page: usize) -> bool {
        self.has_damage.load(Ordering::Relaxed) && page < self.pages
    }

    fn differs(&self, page: usize, words: &[u64]) -> Option<bool> {
        let (line, place) = line_of(page);
        differs(self.line(line)?[place], page_sum(words))
    }

    fn damage(&self, first: usize, pages: usize) -> Error {
        let at = self.heap_offset + first as u64 * PAGE_BYTES;
        Error::DamagedPages { path: self.path.clone(), at, pages }
    }

    #[inline(always)]
    fn is_known(&self, page: usize) -> bool {
        // Acquire: pairs with the Release in `forget`.
        let bits = self.known.get(page / 64).map_or(0, |bits| bits.load(Ordering::Acquire));
        bits & 1 << (page % 64) != 0
    }

    fn set_known(&self, page: usize) {
        self.known[page / 64].fetch_or(1 << (page % 64), Ordering::Release);
    }

    /// Returns the checksums of a line, if it is valid.
    fn line(&self, line: usize) -> Option<[u32; LINE_SUMS]> {
        let words = &self.table.words()[line * LINE_WORDS..][..LINE_WORDS];
        // Relaxed: only the holder of the lock stores to the table.
        decode(&std::array::from_fn(|word| words[word].load(Ordering::Relaxed)))
    }

    fn write_line(&self, line: usize, sums: [u32; LINE_SUMS]) {
        let (first, words) = (line * LINE_WORDS, encode(sums));
        match injected(Mutant::ChecksumsIntoCache) {
            true => self.table.leave(first, &words),
            false => self.table.stream(first, &words),
        }
    }
}
