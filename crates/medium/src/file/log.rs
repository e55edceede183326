//! The log in a file: each group is written past the page cache and durable when it is written.
//!
//! Invariants:
//! - One group is under way at a time, so groups are durable in the order in which they came.
//! - A group is written from whole blocks to whole blocks: no block of an acknowledged record is
//!   written again before the log is recycled.
//! - Once something failed, nothing is written any more.
//!
//! `RWF_DSYNC` makes the write itself durable (by the device's forced unit access, or a flush),
//! which saves the second system call and, on a file that was prewritten, every write of metadata.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::ReadWriteFlags;
use zerocopy::IntoBytes;

use crate::area::{Area, PAGE_BYTES, group_words};
use crate::pool_file::write_all;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::{Buffer, Counts, Error, LogMedium, PoolFile, ReadLog};

const BLOCK_BYTES: u64 = PAGE_BYTES;

/// The log in a file. A group costs one durable write.
///
/// ```
/// use medium::{Buffer, FileLog, LogMedium, PoolFile, Prewrite, ReadLog, sync::Arc};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.log"), 1 << 20, Prewrite::Zeros)?;
/// let log = FileLog::new(Arc::new(file), 4096, (1 << 20) - 4096)?;
/// let mut group = Buffer::new(512);
/// group.words_mut()[0] = 42;
/// log.append(8192, group, 512)?;
/// assert!(log.acknowledge(true)?.is_some()); // durable
/// let mut words = [0; 2];
/// log.read(8192, &mut words)?;
/// assert_eq!(words, [42, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileLog {
    area: Area,
    /// A second descriptor of the file, for direct writes.
    direct: Option<File>,
    /// The group under way, until it is written.
    staged: Mutex<Option<Staged>>,
    /// What it has cost; held while a group is written, so that one thread at a time does.
    counts: Mutex<Counts>,
    poisoned: AtomicBool,
}

/// A group that is to be written.
#[derive(Debug)]
struct Staged {
    at: u64,
    group: Buffer,
    words: usize,
}

impl FileLog {
    /// The log of `bytes` bytes at `offset` in the file; both in whole pages of 4 KiB.
    ///
    /// # Errors
    /// [`Error::BadArea`].
    pub fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileLog, Error> {
        let area = Area::new(file, offset, bytes)?;
        let direct = area.file().reopen_direct().filter(|direct| can_read_direct(direct, &area));
        Ok(FileLog {
            area,
            direct,
            staged: Mutex::default(),
            counts: Mutex::default(),
            poisoned: AtomicBool::new(false),
        })
    }

    /// Whether groups go past the page cache. Where the file system refuses that they are as
    /// durable, but slower.
    pub fn direct(&self) -> bool {
        self.direct.is_some()
    }

    fn check(&self) -> Result<(), Error> {
        // Relaxed: the flag carries nothing with it.
        if self.poisoned.load(Ordering::Relaxed) { Err(self.area.poisoned()) } else { Ok(()) }
    }

    fn poison_if<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.poisoned.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Writes a group; answers how many system calls it took.
    fn write(&self, at: u64, group: &[u64]) -> Result<u64, Error> {
        let file = self.direct.as_ref().unwrap_or(self.area.fd()).as_fd();
        let bytes = group.len() as u64 * 8;
        let mut slices = [IoSlice::new(group.as_bytes())];
        let offset = self.area.offset(at);
        write_all(file, &mut slices, offset, ReadWriteFlags::DSYNC)
            .map_err(self.area.transfer("writing", at, bytes))
    }
}

impl ReadLog for FileLog {
    fn bytes(&self) -> u64 {
        self.area.bytes()
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES as usize
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        self.area.check_log(at, out.len(), 8)?;
        self.check()?;
        // By way of the page cache: a direct write leaves nothing stale in it.
        self.poison_if(self.area.file().read_at(self.area.offset(at), out))
    }
}

impl LogMedium for FileLog {
    fn depth(&self) -> usize {
        1
    }

    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error> {
        self.area.check_log(at, words, BLOCK_BYTES)?;
        group_words(&group, words)?;
        self.check()?;
        let before = lock(&self.staged).replace(Staged { at, group, words });
        assert!(before.is_none(), "one group is under way at a time");
        Ok(None)
    }

    fn acknowledge(&self, wait: bool) -> Result<Option<Buffer>, Error> {
        self.check()?;
        if !wait {
            return Ok(None);
        }
        let mut counts = lock(&self.counts);
        let Some(Staged { at, group, words }) = lock(&self.staged).take() else { return Ok(None) };
        counts.device_writes += self.poison_if(self.write(at, &group.words()[..words]))?;
        counts.bytes += 8 * words as u64;
        counts.persist_barriers += 1;
        Ok(Some(group))
    }

    fn counts(&self) -> Counts {
        *lock(&self.counts)
    }
}

/// Some file systems take the flag and refuse the transfer; ask before it matters.
fn can_read_direct(direct: &File, area: &Area) -> bool {
    let mut block = Buffer::new(BLOCK_BYTES as usize / 8);
    rustix::io::pread(direct, block.words_mut().as_mut_bytes(), area.offset(0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};

    #[test]
    fn groups_come_back_and_no_other_block_changes() {
        suite::log_keeps_every_group(FileLog::new);
        suite::log_keeps_every_group(buffered);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        suite::log_refuses_wrong_ranges(FileLog::new);
    }

    #[test]
    fn a_group_is_one_write_and_one_barrier() {
        let (_dir, file) = suite::pool();
        let log = FileLog::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        assert!(log.acknowledge(true).unwrap().is_none());
        log.append(0, Buffer::new(1024), 1024).unwrap();
        assert!(log.acknowledge(true).unwrap().is_some());
        let counts = log.counts();
        assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (8192, 1, 1));
        assert_eq!(counts.emulated_delay_ns, 0);
    }

    #[test]
    fn a_failed_write_ends_everything() {
        let (_dir, file) = suite::pool_for_reading();
        for log in [FileLog::new, buffered].map(|new| new(file.clone(), 0, 8192).unwrap()) {
            let mut word = [0];
            log.read(0, &mut word).unwrap();
            log.append(0, Buffer::new(512), 512).unwrap();
            let error = log.acknowledge(true).unwrap_err();
            assert!(matches!(error, Error::Transfer { operation: "writing", .. }), "{error}");
            for _ in 0..2 {
                let append = log.append(0, Buffer::new(512), 512).map(drop);
                let acknowledge = log.acknowledge(true).map(drop);
                for result in [append, acknowledge, log.read(0, &mut word)] {
                    assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
                }
            }
            assert_eq!(log.counts(), Counts::default());
        }
    }

    fn buffered(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileLog, Error> {
        FileLog::new(file, offset, bytes).map(|log| FileLog { direct: None, ..log })
    }
}
