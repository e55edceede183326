//! Lock of a pool's file (`flock`): taken, moved to another open file, and released.

use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::PoolFile;
use crate::error::Error;
use crate::sync::Ordering;
use system::Handle;

impl PoolFile {
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
