//! Home in a file: writes are gathered by page, pages are written at the barrier.
//!
//! ```text
//!   write_back   run -> page number -> slot -> page buffer, read on first use, patched
//!   barrier      dirty pages in order of their numbers; neighbours together, up to 1 MiB a write;
//!                one fdatasync
//! ```
//!
//! Invariants:
//! - `slots[page]` is 0, or 1 + the place in `dirty` that holds `page`; `dirty` is as long as the
//!   page buffers in use.
//! - A page buffer holds the page as of the last barrier or early write, and every write since.
//! - Once something failed, nothing is written any more: a failed sync may have dropped pages that
//!   the kernel takes for clean, so the next one would succeed and mean nothing.
//!
//! Why pages may be written before the barrier when memory runs short: what comes home is durable
//! in the log already, and stays there until the barrier and then the reproduced ID are durable.
//! Replay writes these words again whatever the page holds, and the other words of the page are
//! written with the values they had, so even a torn page loses nothing (assuming that a sector is
//! torn between old and new bytes only).
//!
//! Why not a shared mapping and `msync`: the page cache works in folios of up to 1 MiB, and one
//! dirty byte in a mapping writes all of one.

use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::ReadWriteFlags;
use zerocopy::IntoBytes;

use crate::area::{Area, PAGE_BYTES};
use crate::pool_file::write_all;
use crate::sync::Arc;
use crate::writes::{self, Piece, Pieces};
use crate::{Buffer, Counts, Error, HomeMedium, PoolFile};

const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// Pages in one write: 1 MiB, from which on a disk gains little from larger ones.
const WRITE_PAGES: usize = 256;

/// Pages in one piece of buffer memory.
const PIECE_PAGES: usize = 256;

/// The heap in a file. A barrier costs one `fdatasync`, and none when nothing was written.
///
/// ```
/// use medium::{FileHome, HomeMedium, PoolFile, Prewrite, sync::Arc, writes};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.pool"), 1 << 20, Prewrite::No)?;
/// let file = Arc::new(file);
/// let mut home = FileHome::new(file.clone(), 4096, (1 << 20) - 4096)?;
/// home.write_back(&[writes::run(10, 2), 42, 43])?; // words 10 and 11 of the heap
/// home.barrier()?; // durable
/// let mut words = [0; 2];
/// file.read_at(4096 + 80, &mut words)?;
/// assert_eq!(words, [42, 43]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileHome {
    area: Area,
    /// Per page of the heap, 0 or 1 + its slot.
    slots: Vec<u32>,
    /// Per slot in use, the page.
    dirty: Vec<u32>,
    /// The page buffers, slot by slot; pieces are allocated when first used and kept.
    pieces: Vec<Buffer>,
    dirty_max: usize,
    /// Pages were written since the last sync.
    unsynced: bool,
    poisoned: bool,
    counts: Counts,
}

impl FileHome {
    /// Memory for gathered pages unless told otherwise. A batch that touches more pages than fit
    /// writes some of them many times. Measured with `lastword run hashtable` (uniform writes to
    /// 68 MiB, a log of 64 MiB): 1 540 bytes home a transaction with 64 MiB of memory, 71 with
    /// enough.
    pub const GATHER_BYTES: u64 = 256 << 20;

    /// The heap of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`].
    pub fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHome, Error> {
        let area = Area::new(file, offset, bytes)?;
        let pages = bytes / PAGE_BYTES;
        if pages > u64::from(u32::MAX) {
            let (path, file_bytes) = (area.file().path().to_path_buf(), area.file().len());
            return Err(Error::BadArea { path, offset, bytes, unit: PAGE_BYTES, file_bytes });
        }
        Ok(FileHome {
            area,
            slots: vec![0; pages as usize],
            dirty: Vec::new(),
            pieces: Vec::new(),
            dirty_max: (FileHome::GATHER_BYTES / PAGE_BYTES) as usize,
            unsynced: false,
            poisoned: false,
            counts: Counts::default(),
        })
    }

    /// Bounds the memory for gathered pages (default 256 MiB, at least one page). When it is used
    /// up, pages are written before the barrier; their sync still waits for it.
    pub fn with_gather_bytes_max(mut self, bytes: u64) -> FileHome {
        let pages = (bytes / PAGE_BYTES).clamp(1, u64::from(u32::MAX) - 1);
        self.dirty_max = pages as usize;
        self
    }

    /// Runs a step that must not fail; when it does, nothing runs ever after.
    fn or_poison(
        &mut self,
        step: impl FnOnce(&mut FileHome) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.poisoned {
            return Err(self.area.poisoned());
        }
        let result = step(self);
        self.poisoned = result.is_err();
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
                    0 => self.take_slot(page, here == PAGE_WORDS)?,
                    slot => slot as usize - 1,
                };
                let (these, rest) = words.split_at(here);
                page_mut(&mut self.pieces, slot)[first..first + here].copy_from_slice(these);
                (index, words) = (index + here, rest);
            }
        }
        Ok(())
    }

    /// A page buffer for a page that has none, holding what the file holds, unless all of it will
    /// be overwritten.
    #[cold]
    fn take_slot(&mut self, page: usize, overwritten: bool) -> Result<usize, Error> {
        if self.dirty.len() >= self.dirty_max {
            self.write_pages()?;
        }
        let slot = self.dirty.len();
        if slot == self.pieces.len() * PIECE_PAGES {
            self.pieces.push(Buffer::new(PIECE_PAGES * PAGE_WORDS));
        }
        if !overwritten {
            let offset = self.area.offset(page as u64 * PAGE_BYTES);
            self.area.file().read_at(offset, page_mut(&mut self.pieces, slot))?;
        }
        self.dirty.push(page as u32);
        self.slots[page] = slot as u32 + 1;
        Ok(slot)
    }

    /// Writes every dirty page, without syncing; then none is dirty.
    fn write_pages(&mut self) -> Result<(), Error> {
        self.dirty.sort_unstable();
        self.unsynced |= !self.dirty.is_empty();
        let neighbours = self.dirty.chunk_by(|page, next| page + 1 == *next);
        for pages in neighbours.flat_map(|pages| pages.chunks(WRITE_PAGES)) {
            let mut slices = [IoSlice::new(&[]); WRITE_PAGES];
            for (slice, page) in slices.iter_mut().zip(pages) {
                let slot = self.slots[*page as usize] as usize - 1;
                *slice = IoSlice::new(self::page(&self.pieces, slot).as_bytes());
            }
            let at = u64::from(pages[0]) * PAGE_BYTES;
            let bytes = pages.len() as u64 * PAGE_BYTES;
            let offset = self.area.offset(at);
            let slices = &mut slices[..pages.len()];
            let flags = ReadWriteFlags::empty();
            self.counts.device_writes += write_all(self.area.fd().as_fd(), slices, offset, flags)
                .map_err(self.area.transfer("writing", at, bytes))?;
            self.counts.bytes += bytes;
        }
        for page in self.dirty.drain(..) {
            self.slots[page as usize] = 0;
        }
        Ok(())
    }
}

impl HomeMedium for FileHome {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error> {
        writes::check(writes, self.area.bytes() / 8)?;
        self.or_poison(|home| home.gather(writes))
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.or_poison(|home| {
            home.write_pages()?;
            if home.unsynced {
                home.area.file().sync()?;
                home.unsynced = false;
                home.counts.persist_barriers += 1;
            }
            Ok(())
        })
    }

    fn counts(&self) -> Counts {
        self.counts
    }
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

    fn small(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHome, Error> {
        FileHome::new(file, offset, bytes).map(|home| home.with_gather_bytes_max(3 * PAGE_BYTES))
    }

    #[test]
    fn every_write_comes_home() {
        suite::home_keeps_every_write(FileHome::new);
    }

    #[test]
    fn every_write_comes_home_when_memory_runs_short() {
        suite::home_keeps_every_write(small);
        suite::home_keeps_every_write(|file, offset, bytes| {
            FileHome::new(file, offset, bytes).map(|home| home.with_gather_bytes_max(0))
        });
    }

    #[test]
    fn a_wrong_batch_writes_nothing() {
        suite::home_refuses_wrong_batches(FileHome::new);
        suite::home_refuses_wrong_batches(small);
    }

    #[test]
    fn neighbouring_pages_are_written_together_and_an_idle_barrier_is_free() {
        let (_dir, file) = suite::pool();
        let mut home = FileHome::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        home.barrier().unwrap();
        assert_eq!(home.counts(), Counts::default());
        let page = PAGE_WORDS as u64;
        for index in [3 * page, 5 * page, 4 * page + 7, 9 * page, 4 * page + 6] {
            home.write_back(&[run(index, 1), index]).unwrap();
        }
        assert_eq!(home.counts(), Counts::default());
        home.barrier().unwrap();
        home.barrier().unwrap();
        let counts = home.counts();
        assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (16384, 2, 1));
    }

    #[test]
    fn a_home_that_runs_short_of_memory_writes_early_and_syncs_at_the_barrier() {
        let (_dir, file) = suite::pool();
        let mut home = small(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        for page in 0..7 {
            home.write_back(&[run(2 * page * PAGE_WORDS as u64, 1), 1]).unwrap();
        }
        assert_eq!((home.counts().device_writes, home.counts().persist_barriers), (6, 0));
        home.barrier().unwrap();
        assert_eq!((home.counts().device_writes, home.counts().persist_barriers), (7, 1));
    }

    #[test]
    fn a_failed_write_ends_everything() {
        let (_dir, file) = suite::pool_for_reading();
        let mut home = FileHome::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        home.write_back(&[run(7, 1), 42]).unwrap();
        assert!(matches!(home.barrier(), Err(Error::Transfer { operation: "writing", .. })));
        for _ in 0..2 {
            assert!(matches!(home.barrier(), Err(Error::Poisoned { .. })));
            assert!(matches!(home.write_back(&[run(7, 1), 42]), Err(Error::Poisoned { .. })));
        }
        assert_eq!(home.counts(), Counts::default());
    }

    #[test]
    fn a_page_that_cannot_be_read_ends_everything() {
        let (dir, file) = suite::pool();
        let path = dir.path().join("pool");
        let mut home = FileHome::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_len(HEAP_OFFSET).unwrap();
        let cut = home.write_back(&[run(7, 1), 42]);
        assert!(matches!(cut, Err(Error::Truncated { found: 0, .. })), "{cut:?}");
        assert!(matches!(home.barrier(), Err(Error::Poisoned { .. })));
    }
}
