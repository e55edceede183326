//! The verification of a closed pool's page checksums.

use std::path::{Path, PathBuf};

use medium::PoolFile;

use super::CheckOptions;
use crate::Error;
use crate::shadow::PAGE_BYTES;
use crate::storage::{Survey, lost_checksums, page_checksums};

/// The result of a scrub.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the result names the damaged pages"]
pub struct Scrub {
    /// The pool's file.
    pub path: PathBuf,
    /// Pages of 4 KiB in the heap.
    pub pages: usize,
    /// Pages that were compared. The others have no checksum: on mapped media they changed since
    /// the last checkpoint, or the table has no room for them; see
    /// [`Options::page_checksums`](crate::Options::page_checksums).
    pub compared: usize,
    /// Pages whose checksums are damaged in the table: damage to them would not be found. 0 for an
    /// open pool.
    pub lost_checksums: usize,
    /// The damaged pages, each by the offset of its first byte in the file.
    pub damaged: Vec<u64>,
}

/// Verifies every page of a closed pool's heap image against its checksum. Reads the heap image,
/// from the disk instead of the page cache where the file system supports it. A page that the disk
/// cannot read counts as damaged. Takes little memory and never writes.
///
/// [`check`](crate::check) also verifies the pages, through the page cache and with the whole heap
/// in memory, and names the objects on damaged pages.
///
/// ```
/// use lastword::{Options, Pool};
/// use std::os::unix::fs::FileExt;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?.close()?;
/// let file = std::fs::File::options().write(true).open(&path)?;
/// file.write_all_at(b"oops", (2 << 20) + 5000)?;
/// assert_eq!(lastword::scrub(&path)?.damaged, [(2 << 20) + 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A failed read. [`MediumError::InUse`](crate::MediumError::InUse) if a process has the pool open:
/// call [`Pool::scrub`](crate::Pool::scrub) there. The error of opening the pool, except damaged
/// pages.
pub fn scrub(path: impl AsRef<Path>) -> Result<Scrub, Error> {
    let expected = CheckOptions { migrates: true, ..CheckOptions::new().without_log(true) };
    let survey = Survey::of(path.as_ref(), &expected, |path| PoolFile::open_shared(path))?;
    let found = survey.found()?;
    let superblock = *found.superblocks.current();
    let path = found.file.path().to_path_buf();
    let pages = (superblock.heap_bytes / PAGE_BYTES) as usize;
    let Some(sums) = page_checksums(&found.file, &superblock)? else {
        return Ok(Scrub { path, pages, compared: 0, lost_checksums: 0, damaged: Vec::new() });
    };
    let damaged = found.damaged_pages_on_disk(&sums)?;
    let damaged = damaged.pages().iter();
    let damaged = damaged.map(|page| superblock.heap_offset + *page as u64 * PAGE_BYTES);
    let compared = sums.pages() - sums.unknown_pages();
    let lost = lost_checksums(&found.file, &sums, &superblock)?;
    let lost_checksums = lost.iter().map(ExactSizeIterator::len).sum();
    Ok(Scrub { path, pages, compared, lost_checksums, damaged: damaged.collect() })
}
