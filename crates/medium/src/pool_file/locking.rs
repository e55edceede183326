//! Lock of a pool's file (`flock`): taken, moved to another open file, and released; and reading
//! without it.

use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::PoolFile;
use crate::error::Error;
use crate::sync::Ordering;
use system::{Handle, System};

impl PoolFile {
    /// Opens a file of a system for reading only, without a lock. Another process may write it, and
    /// change its length.
    ///
    /// # Errors
    /// As [`open`](PoolFile::open), without [`Error::InUse`].
    pub fn open_unlocked_on(system: &System, path: impl AsRef<Path>) -> Result<PoolFile, Error> {
        PoolFile::open_locked(system, path.as_ref(), OFlags::RDONLY, None)
    }

    /// Drops the file's clean pages from the page cache, so that the next reads are of the disk.
    pub fn forget_pages(&self) {
        self.file.forget_pages();
    }

    /// Returns the process that holds the exclusive lock, where the system reports it.
    pub fn owner(&self) -> Option<u32> {
        let stat = rustix::fs::fstat(self.file.queried()?).ok()?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        // As in "1: FLOCK  ADVISORY  WRITE 4711 08:02:5678 0 EOF". The process is not positive
        // where this one cannot see it.
        let mut owners = locks.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["FLOCK", _, "WRITE", process, at, ..] = words.get(1..)? else { return None };
            process.parse().ok().filter(|process| *at == place && *process > 0)
        });
        owners.next()
    }

    /// Gives up the lock before the file is closed, also where a forked child holds a copy of it. A
    /// lock that was moved goes when its file is closed, or by
    /// [`LogMedium::unlock`](crate::LogMedium::unlock). Nothing may be written afterwards.
    pub fn unlock(&self) {
        // Relaxed: the readers of this flag are dropped after the pool was closed.
        self.released.store(true, Ordering::Relaxed);
        self.file.unlock();
    }

    /// Whether the lock was given up.
    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    /// Moves the exclusive lock to another description of this file; returns whether it moved. It
    /// is released when that description is closed. The kernel keeps a description as long as
    /// writes by it are in flight, even if the process was killed. So the next owner of the lock
    /// finds no unfinished write.
    ///
    /// # Errors
    /// If neither description holds the lock any more.
    pub(crate) fn move_lock(&self, to: &dyn Handle) -> Result<bool, Error> {
        if !self.file.can_write() {
            return Ok(true); // a shared lock: this one only looks, and writes nothing
        }
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        if self.file.lock(FlockOperation::Unlock).is_err() {
            return Ok(false);
        }
        if to.lock(exclusive).is_ok() {
            return Ok(true);
        }
        // Back where it was. No other process had it in between: a pool's files are locked in one
        // order, and the first is not unlocked.
        lock_file(&*self.file, &self.path, exclusive).map(|()| false)
    }
}

/// Takes a lock, without a wait.
pub(super) fn lock_file(file: &dyn Handle, path: &Path, lock: FlockOperation) -> Result<(), Error> {
    match file.lock(lock) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(Error::InUse { path: path.to_path_buf() }),
        Err(
            errno @ (Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS),
        ) => Err(Error::NoLocks { path: path.to_path_buf(), source: errno.into() }),
        Err(errno) => Err(Error::io("locking", path)(errno)),
    }
}
