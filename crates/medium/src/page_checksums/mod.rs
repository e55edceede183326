//! Checksums of the pages of a heap image, in a table beside it.
//!
//! # Durable format: page checksums
//!
//! The table is made of lines of 64 bytes. Line n has the checksums of pages 15 n to 15 n + 14.
//!
//! ```text
//!   bytes  0..59  | 15 checksums of 4 bytes, one for each page of 4 KiB    |
//!          60..63 | CRC-32C of bytes 0..59                                 |
//! ```
//!
//! The checksum of a page is its CRC-32C. Two values stand for something else:
//!
//! - `0x6b6e750a`, *unknown*: nothing is claimed of the page, and it is never reported as damaged.
//!   A page with this or the next CRC-32C gets *unknown*, too. A line of zeros is invalid: it was
//!   never written, and its pages are unknown. So are the pages of a line whose own checksum is
//!   wrong.
//! - `0x646d6167`, *damaged*: a scrub, or the comparison before a change, found that the page
//!   differs from its checksum. No page has this checksum, so every later comparison fails.
//!
//! Each line has its own checksum. Otherwise damage to the table would make intact pages look
//! damaged. On mapped media a crash may tear a line (A1, A2); its pages are unknown then.
//!
//! # Order of writes
//!
//! Each kind of medium has its own writer of the table:
//!
//! | | [`FileChecksums`], medium `file` | [`MappedChecksums`](crate::MappedChecksums), mapped |
//! |---|---|---|
//! | a page changes | its checksum changes in memory | its checksum is unknown first, durably |
//! | the table is written | before each sync of the pages | by a *seal*: checkpoint, shutdown |
//! | after a crash, wrong for | pages that changed since the last sync | no page |
//!
//! On `file`, a page and its checksum may become durable in either order before a sync. The log
//! then holds words of every such page, which recovery replays. So recovery ignores the old
//! checksum of every page that it writes to, except *damaged*. All other pages must match.
//!
//! On mapped media a store may become durable at once. So the checksum must be durably unknown
//! before the store. To seal pages is to compute their unknown checksums. Between two seals a
//! page's checksum becomes unknown at most once.
//!
//! A page is compared with its old checksum before that is replaced or becomes unknown. Otherwise
//! damage would get a valid checksum. On `file`, pages that are overwritten completely need no
//! comparison.

mod file;

use std::ops::Range;
use std::sync::OnceLock;

use zerocopy::IntoBytes;

use crate::area::PAGE_BYTES;
use crate::error::Error;
use crate::pool_file::PoolFile;
use system::mutants::{Mutant, injected};

pub(crate) use file::CopyChecksums;
pub use file::FileChecksums;

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;
/// Checksums in a line.
pub(crate) const LINE_SUMS: usize = 15;
/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;
/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Stands for the checksum of a page of which nothing is known.
pub(crate) const UNKNOWN: u32 = 0x6b6e_750a;
/// Stands for the checksum of a page that was found damaged.
pub(crate) const DAMAGED: u32 = 0x646d_6167;

/// Pages of one read while pages are compared: 1 MiB.
const READ_PAGES: usize = 256;

/// Returns the checksum of a page's words.
pub(crate) fn page_sum(words: &[u64]) -> u32 {
    debug_assert_eq!(words.len(), PAGE_WORDS);
    match crc32c::crc32c(words.as_bytes()) {
        DAMAGED => UNKNOWN,
        sum => sum,
    }
}

/// Whether a page with this checksum differs from its known one; `None`: nothing is known of it.
pub(crate) fn differs(known: u32, sum: u32) -> Option<bool> {
    (known != UNKNOWN).then_some(known != sum)
}

/// Returns the checksum of a page of zeros.
pub(crate) fn zero_sum() -> u32 {
    static SUM: OnceLock<u32> = OnceLock::new();
    *SUM.get_or_init(|| page_sum(&[0; PAGE_WORDS]))
}

/// Returns the line of a page, and its place there.
pub(crate) fn line_of(page: usize) -> (usize, usize) {
    (page / LINE_SUMS, page % LINE_SUMS)
}

pub(crate) type Line = [u64; LINE_WORDS];

/// Returns the line with these checksums.
pub(crate) fn encode(sums: [u32; LINE_SUMS]) -> Line {
    let mut halves = [0; LINE_SUMS + 1];
    halves[..LINE_SUMS].copy_from_slice(&sums);
    halves[LINE_SUMS] = crc32c::crc32c(halves[..LINE_SUMS].as_bytes());
    std::array::from_fn(|word| u64::from(halves[2 * word]) | u64::from(halves[2 * word + 1]) << 32)
}

/// Returns the checksums of a line, if it is valid.
pub(crate) fn decode(line: &Line) -> Option<[u32; LINE_SUMS]> {
    let half = |at: usize| (line[at / 2] >> (32 * (at % 2))) as u32;
    let sums: [u32; LINE_SUMS] = std::array::from_fn(half);
    let is_valid = crc32c::crc32c(sums.as_bytes()) == half(LINE_SUMS);
    (is_valid || injected(Mutant::LineChecksumIgnored)).then_some(sums)
}

/// The place of the table in a pool's file, in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumArea {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

impl ChecksumArea {
    /// Returns the size of a table for so many bytes of heap.
    pub fn bytes_for(heap_bytes: u64) -> u64 {
        let lines = heap_bytes.div_ceil(PAGE_BYTES).div_ceil(LINE_SUMS as u64);
        (lines * LINE_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// Returns the bytes of a heap of this size whose pages have a checksum in the table.
    pub fn covers(&self, heap_bytes: u64) -> u64 {
        let pages = self.bytes / LINE_BYTES * LINE_SUMS as u64;
        heap_bytes.min(pages.saturating_mul(PAGE_BYTES))
    }

    /// Returns the part of it that a heap of this size uses.
    pub(crate) fn used(&self, heap_bytes: u64) -> ChecksumArea {
        ChecksumArea { bytes: self.bytes.min(ChecksumArea::bytes_for(heap_bytes)), ..*self }
    }

    /// Returns the number of pages of a heap of this size that have a checksum.
    pub(crate) fn pages(&self, heap_bytes: u64) -> usize {
        (self.covers(heap_bytes) / PAGE_BYTES) as usize
    }
}

/// The checksums of a heap image, as a file has them.
///
/// ```
/// use medium::{PageChecksums, PoolFile, Prewrite, ChecksumArea};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?;
/// let area = ChecksumArea { offset: 4096, bytes: 4096 };
/// let sums = PageChecksums::read(&file, area, 1 << 18)?;
/// assert_eq!(sums.unknown_pages(), 64); // nothing has written the table
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PageChecksums {
    pages: usize,
    /// The checksums of so many pages each, if one of them is known.
    blocks: Vec<Option<Box<[u32]>>>,
    damaged_lines: Vec<usize>,
}

/// Lines that are read or written together: a page of the file.
pub(crate) const BLOCK_LINES: usize = (PAGE_BYTES / LINE_BYTES) as usize;
/// Pages whose checksums they have.
pub(crate) const BLOCK_SUMS: usize = BLOCK_LINES * LINE_SUMS;
/// Words of such a block.
pub(crate) const BLOCK_WORDS: usize = BLOCK_LINES * LINE_WORDS;

impl PageChecksums {
    /// Reads the checksums of a heap of this size. Unallocated ranges of the table are not read.
    ///
    /// # Errors
    /// [`Error::Transfer`], [`Error::Truncated`].
    pub fn read(
        file: &PoolFile,
        area: ChecksumArea,
        heap_bytes: u64,
    ) -> Result<PageChecksums, Error> {
        let pages = area.pages(heap_bytes);
        let mut blocks = vec![None; pages.div_ceil(BLOCK_SUMS)];
        let (end, mut damaged_lines) = (area.offset + area.used(heap_bytes).bytes, Vec::new());
        let (mut at, mut words) = (area.offset, [0; BLOCK_WORDS]);
        while let Some(data) = file.next_data(at, end) {
            let first = ((data.start - area.offset) / PAGE_BYTES) as usize;
            at = data.end.next_multiple_of(PAGE_BYTES).min(end);
            for block in first..((at - area.offset) / PAGE_BYTES) as usize {
                file.read_at(area.offset + block as u64 * PAGE_BYTES, &mut words)?;
                let lines = (block * BLOCK_LINES..).zip(words.as_chunks::<LINE_WORDS>().0);
                let mut sums = Vec::with_capacity(BLOCK_SUMS);
                for (number, line) in lines {
                    let decoded = decode(line);
                    if decoded.is_none() && *line != [0; LINE_WORDS] && number * LINE_SUMS < pages {
                        damaged_lines.push(number);
                    }
                    sums.extend(decoded.unwrap_or([UNKNOWN; LINE_SUMS]));
                }
                if let Some(place) = blocks.get_mut(block) {
                    *place = Some(sums.into());
                }
            }
        }
        Ok(PageChecksums { pages, blocks, damaged_lines })
    }

    /// Returns the number of pages that have a place in the table.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the number of pages of which nothing is known.
    pub fn unknown_pages(&self) -> usize {
        self.pages - self.known(0..self.pages).count()
    }

    /// Whether nothing is known of a page.
    pub fn is_unknown(&self, page: usize) -> bool {
        self.sum(page) == UNKNOWN
    }

    /// Whether the table marks the page as damaged.
    pub fn is_marked_damaged(&self, page: usize) -> bool {
        self.sum(page) == DAMAGED
    }

    /// Returns the pages that the table marks as damaged, in ascending order.
    pub fn marked_pages(&self) -> Vec<usize> {
        self.known(0..self.pages).filter(|page| self.is_marked_damaged(*page)).collect()
    }

    /// Returns the pages of the range with a known checksum. Takes little time where the table is
    /// empty.
    fn known(&self, pages: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let blocks = pages.start / BLOCK_SUMS..pages.end.div_ceil(BLOCK_SUMS);
        let blocks = blocks.filter(|block| self.blocks[*block].is_some());
        let all = blocks.flat_map(|block| block * BLOCK_SUMS..(block + 1) * BLOCK_SUMS);
        all.filter(move |page| pages.contains(page) && !self.is_unknown(*page))
    }

    /// Returns the pages of each line whose own checksum is wrong.
    pub fn damaged_lines(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let line_pages = |line: &usize| line * LINE_SUMS..((line + 1) * LINE_SUMS).min(self.pages);
        self.damaged_lines.iter().map(line_pages)
    }

    /// Compares the pages of the heap at `heap_offset` in the file with their checksums. Returns
    /// those that differ, in ascending order. Unallocated ranges of the file are not read. Calls
    /// `done` with the bytes of each read.
    ///
    /// # Errors
    /// [`Error::Transfer`], [`Error::Truncated`].
    pub fn differing(
        &self,
        file: &PoolFile,
        heap_offset: u64,
        done: &dyn Fn(u64),
    ) -> Result<Vec<usize>, Error> {
        self.compare(heap_offset, file, |from, words| {
            file.read_at(heap_offset + from as u64 * PAGE_BYTES, words)?;
            done(8 * words.len() as u64);
            Ok(true)
        })
    }

    /// As [`differing`](PageChecksums::differing), but reads from the disk instead of the page
    /// cache where the file system supports it. Includes pages that the disk cannot read.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn differing_on_disk(
        &self,
        file: &PoolFile,
        heap_offset: u64,
    ) -> Result<Vec<usize>, Error> {
        file.forget_pages();
        self.compare(heap_offset, file, |from, words| {
            let at = heap_offset + from as u64 * PAGE_BYTES;
            match file.read_at(at, words) {
                Err(Error::Transfer { .. }) => Ok(false),
                read => read.map(|()| true),
            }
        })
    }

    /// Compares all pages. `read` reads neighboring pages from a page on, or returns false for
    /// pages that cannot be read; pages are then read one by one.
    fn compare(
        &self,
        heap_offset: u64,
        file: &PoolFile,
        read: impl Fn(usize, &mut [u64]) -> Result<bool, Error>,
    ) -> Result<Vec<usize>, Error> {
        let (mut found, mut next, zero) = (Vec::new(), 0, zero_sum());
        let end = heap_offset + self.pages as u64 * PAGE_BYTES;
        let mut words = vec![0; READ_PAGES * PAGE_WORDS];
        let page_of = |at: u64| ((at - heap_offset) / PAGE_BYTES) as usize;
        let differs = |page, sum| differs(self.sum(page), sum) == Some(true);
        while let Some(data) = file.next_data(heap_offset + next as u64 * PAGE_BYTES, end) {
            let first = page_of(data.start);
            found.extend(self.known(next..first).filter(|page| differs(*page, zero)));
            next = page_of(data.end.next_multiple_of(PAGE_BYTES).min(end));
            for from in (first..next).step_by(READ_PAGES) {
                let pages = from..next.min(from + READ_PAGES);
                let words = &mut words[..pages.len() * PAGE_WORDS];
                if read(from, words)? {
                    let sums = pages.zip(words.chunks_exact(PAGE_WORDS));
                    let differing = sums.filter(|(page, words)| differs(*page, page_sum(words)));
                    found.extend(differing.map(|(page, _)| page));
                    continue;
                }
                for page in pages {
                    let words = &mut words[..PAGE_WORDS];
                    if !read(page, words)? || differs(page, page_sum(words)) {
                        found.push(page);
                    }
                }
            }
        }
        found.extend(self.known(next..self.pages).filter(|page| differs(*page, zero)));
        Ok(found)
    }

    /// Returns the checksum of a page.
    pub(crate) fn sum(&self, page: usize) -> u32 {
        let block = self.blocks.get(page / BLOCK_SUMS).and_then(Option::as_ref);
        block.filter(|_| page < self.pages).map_or(UNKNOWN, |sums| sums[page % BLOCK_SUMS])
    }
}

#[cfg(test)]
mod tests;
