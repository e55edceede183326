//! The checksums of a heap image in a file: changed with each page in memory, written before each
//! sync.

use std::ops::Range;
use std::sync::OnceLock;

use super::{
    BLOCK_LINES, BLOCK_SUMS, BLOCK_WORDS, ChecksumArea, DAMAGED, LINE_BYTES, LINE_SUMS, PAGE_WORDS,
    PageChecksums, UNKNOWN, differs, encode, page_sum, zero_sum,
};
use crate::area::PAGE_BYTES;
use crate::error::Error;
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use system::mutants::{Mutant, injected};

/// Blocks in one write: 256 KiB.
const WRITE_BLOCKS: usize = 64;

/// The page checksums of an open heap image on medium `file`, shared by its parts.
///
/// All accesses are relaxed: a part changes the checksums of its own pages only, one thread at a
/// time uses a part, and the thread that syncs for all parts has waited for them.
#[derive(Debug)]
pub struct FileChecksums {
    file: Arc<PoolFile>,
    area: ChecksumArea,
    heap_offset: u64,
    /// Pages with a place in the table, with those of a heap that grows.
    room: usize,
    /// The checksums of `BLOCK_SUMS` pages each. A block that is missing is one of zeros, as the
    /// pages of a new file and new pages of a heap that grows.
    blocks: Box<[OnceLock<Box<[AtomicU32]>>]>,
    /// Bit b: block b differs from the file.
    dirty: Box<[AtomicU64]>,
    /// Pages of the heap at the last write of the table.
    pages: AtomicUsize,
    /// Whether pages are compared before they change.
    compares: AtomicBool,
}

impl FileChecksums {
    /// The checksums of the heap at `heap_offset` in the file, which has `heap_bytes` bytes and
    /// grows up to `room`. `known` are those that the file has; `None` for a new file of zeros.
    pub fn new(
        file: Arc<PoolFile>,
        area: ChecksumArea,
        (heap_offset, heap_bytes, room): (u64, u64, u64),
        known: Option<&PageChecksums>,
    ) -> FileChecksums {
        let blocks = area.pages(room).div_ceil(BLOCK_SUMS);
        let sums = FileChecksums {
            file,
            area,
            heap_offset,
            room: area.pages(room),
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            dirty: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            pages: AtomicUsize::new(if known.is_some() { area.pages(heap_bytes) } else { 0 }),
            compares: AtomicBool::new(known.is_none()),
        };
        if let Some(known) = known {
            for page in 0..known.pages().min(sums.room) {
                sums.put(page, known.sum(page));
            }
        }
        sums
    }

    /// Starts to compare pages before they change. Called after recovery, which may find a page
    /// older or newer than its checksum.
    pub fn compare(&self) {
        self.compares.store(true, Ordering::Relaxed);
    }

    /// Whether a page has a place in the table.
    pub(crate) fn has_place(&self, page: usize) -> bool {
        page < self.room
    }

    /// Compares neighboring pages, as the file has them, with their checksums. Pages that differ
    /// are marked as damaged. Otherwise the next recovery could give them a valid checksum.
    ///
    /// # Errors
    /// [`Error::DamagedPages`].
    pub(crate) fn check(&self, first: usize, words: &[u64]) -> Result<(), Error> {
        if !self.compares.load(Ordering::Relaxed) || injected(Mutant::PageNotCompared) {
            return Ok(());
        }
        let pages = (first..).zip(words.chunks_exact(PAGE_WORDS));
        let differing = pages.filter(|(page, words)| self.differs(*page, words) == Some(true));
        let damaged: Vec<usize> = differing.map(|(page, _)| page).collect();
        damaged.iter().for_each(|page| self.mark_damaged(*page));
        let Some(first) = damaged.first() else { return Ok(()) };
        let at = self.heap_offset + *first as u64 * PAGE_BYTES;
        let (path, pages) = (self.file.path().to_path_buf(), damaged.len());
        Err(Error::DamagedPages { path, at, pages })
    }

    /// Makes marks durable, as far as the disk allows it, when the pool has failed: an opening
    /// whose log writes to the page would miss the damage.
    pub(crate) fn write_after_failure(&self) {
        let written = self.write();
        if !injected(Mutant::FailureMarkNotSynced) {
            let _ = written.and_then(|_| self.file.sync());
        }
    }

    /// Marks a page as damaged. It is durable after the next write and sync.
    pub(crate) fn mark_damaged(&self, page: usize) {
        if !injected(Mutant::DamagedPageNotMarked) {
            self.put(page, DAMAGED);
            self.set_dirty(page / BLOCK_SUMS);
        }
    }

    /// Whether a page, as the file has it, differs from its checksum. `None`: it has none.
    pub(crate) fn differs(&self, page: usize, words: &[u64]) -> Option<bool> {
        match self.sum(page) {
            UNKNOWN => None,
            known => differs(known, page_sum(words)),
        }
    }

    /// Returns the part of the range that is in the file and in the table.
    pub(crate) fn present_in(&self, pages: Range<usize>) -> Range<usize> {
        pages.start..pages.end.min(self.present())
    }

    /// Sets the checksum of a page that is about to be written.
    pub(crate) fn set(&self, page: usize, words: &[u64]) {
        if self.has_place(page) {
            self.put(page, page_sum(words));
            self.set_dirty(page / BLOCK_SUMS);
        }
    }

    /// Returns the pages of the range whose checksum is unknown.
    pub(crate) fn unknown_in(&self, pages: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        self.present_in(pages).filter(|page| self.sum(*page) == UNKNOWN)
    }

    /// Whether the table in the file differs from this one.
    pub(crate) fn has_dirty(&self) -> bool {
        self.pages.load(Ordering::Relaxed) != self.present()
            || self.dirty.iter().any(|bits| bits.load(Ordering::Relaxed) != 0)
    }

    /// Writes the changed part of the table; returns the bytes and the system calls. No part may be
    /// at work, unless the pool has failed.
    pub(crate) fn write(&self) -> Result<(u64, u64), Error> {
        let present = self.present();
        let before = self.pages.swap(present, Ordering::Relaxed);
        if before < present {
            (before / BLOCK_SUMS..present.div_ceil(BLOCK_SUMS))
                .for_each(|block| self.set_dirty(block));
        }
        if injected(Mutant::PageChecksumsNotWritten) {
            return Ok((0, 0));
        }
        let (mut bytes, mut calls, mut words) = (0, 0, Vec::new());
        let mut next = 0;
        while let Some(blocks) = self.next_dirty(next) {
            words.clear();
            blocks.clone().for_each(|block| self.encode(block, &mut words));
            self.file.write_at(self.area.offset + blocks.start as u64 * PAGE_BYTES, &words)?;
            (bytes, calls) = (bytes + 8 * words.len() as u64, calls + 1);
            next = blocks.end;
        }
        self.dirty.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
        Ok((bytes, calls))
    }

    /// Returns the checksum of a page, also behind the end of the file.
    fn sum(&self, page: usize) -> u32 {
        if !self.has_place(page) {
            return UNKNOWN;
        }
        let block = self.blocks[page / BLOCK_SUMS].get();
        block.map_or_else(zero_sum, |sums| sums[page % BLOCK_SUMS].load(Ordering::Relaxed))
    }

    fn put(&self, page: usize, sum: u32) {
        let zeros = || (0..BLOCK_SUMS).map(|_| AtomicU32::new(zero_sum())).collect();
        let block = self.blocks[page / BLOCK_SUMS].get_or_init(zeros);
        block[page % BLOCK_SUMS].store(sum, Ordering::Relaxed);
    }

    /// Returns the number of pages that the file has, of those with a place in the table.
    fn present(&self) -> usize {
        let pages = self.file.len().saturating_sub(self.heap_offset) / PAGE_BYTES;
        self.room.min(pages as usize)
    }

    fn set_dirty(&self, block: usize) {
        self.dirty[block / 64].fetch_or(1 << (block % 64), Ordering::Relaxed);
    }

    fn is_dirty(&self, block: usize) -> bool {
        let bits = self.dirty.get(block / 64).map_or(0, |bits| bits.load(Ordering::Relaxed));
        bits & 1 << (block % 64) != 0
    }

    /// Returns the next changed blocks that lie side by side, from a block on.
    fn next_dirty(&self, from: usize) -> Option<Range<usize>> {
        let blocks = self.blocks.len();
        let start = (from..blocks).find(|block| self.is_dirty(*block))?;
        let most = blocks.min(start + WRITE_BLOCKS);
        let end = (start..most).find(|block| !self.is_dirty(*block)).unwrap_or(most);
        Some(start..end)
    }

    fn encode(&self, block: usize, out: &mut Vec<u64>) {
        encode_block(block, |page| self.sum(page), out);
    }
}

/// Adds the lines of a block.
fn encode_block(block: usize, sum: impl Fn(usize) -> u32, out: &mut Vec<u64>) {
    let first = block * BLOCK_SUMS;
    for line in 0..BLOCK_LINES {
        let first = first + line * LINE_SUMS;
        out.extend(encode(std::array::from_fn(|place| sum(first + place))));
    }
    debug_assert!(out.len().is_multiple_of(BLOCK_WORDS));
}

/// The checksums of a copy of a heap, page by page as they are copied.
#[derive(Debug)]
pub(crate) struct CopyChecksums(Box<[AtomicU32]>);

impl CopyChecksums {
    /// Returns unknown checksums for so many pages.
    pub(crate) fn new(pages: usize) -> CopyChecksums {
        CopyChecksums((0..pages).map(|_| AtomicU32::new(UNKNOWN)).collect())
    }

    /// Sets the checksums of neighboring pages. Relaxed: `write` is called when all are copied.
    pub(crate) fn set(&self, first: usize, words: &[u64]) {
        let sums = self.0.iter().skip(first).zip(words.chunks_exact(PAGE_WORDS));
        sums.for_each(|(sum, words)| sum.store(page_sum(words), Ordering::Relaxed));
    }

    /// Writes the table, not durably.
    pub(crate) fn write(&self, file: &PoolFile, area: ChecksumArea) -> Result<(), Error> {
        let heap_bytes = self.0.len() as u64 * PAGE_BYTES;
        let (sums, used) = (&self.0[..area.pages(heap_bytes)], area.used(heap_bytes));
        let sum = |page: usize| sums.get(page).map_or(UNKNOWN, |sum| sum.load(Ordering::Relaxed));
        let blocks = (used.bytes / LINE_BYTES) as usize / BLOCK_LINES;
        let mut words = Vec::with_capacity(WRITE_BLOCKS * BLOCK_WORDS);
        for first in (0..blocks).step_by(WRITE_BLOCKS) {
            words.clear();
            let several = first..blocks.min(first + WRITE_BLOCKS);
            several.for_each(|block| encode_block(block, sum, &mut words));
            file.write_at(used.offset + first as u64 * PAGE_BYTES, &words)?;
        }
        Ok(())
    }
}
