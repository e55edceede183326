//! Target file of the log's groups: written directly while its file system accepts direct writes,
//! and through the page cache afterwards.
//!
//! The first direct write decides. A read is no test: some file systems (mergerfs, other FUSE)
//! accept direct reads and refuse direct writes. A trial write at open is not possible, because
//! rewriting a block in use could tear it. A write refused with EINVAL has written nothing. It is
//! repeated through the page cache with `RWF_DSYNC`, and so is every later write.
//!
//! Direct writes in flight during the switch are harmless. No two groups share a page, and a
//! direct write neither reads nor drops other pages in the page cache.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, Result};

use super::in_flight::GroupFile;
use crate::area::Area;
use crate::retry::write_durably;
use crate::sync::{AtomicBool, Ordering};
use system::Handle;
use system::mutants::{Mutant, injected};

/// The file below a log.
#[derive(Debug)]
pub(super) struct Target {
    /// A second description of the file, for direct writes; with io_uring it has the file's lock,
    /// so it stays open also when it is not written through any more.
    direct: Option<Box<dyn Handle>>,
    /// A direct write was refused. Relaxed: a thread that does not see it yet is refused once more.
    refused: AtomicBool,
    area: Area,
}

impl Target {
    pub(super) fn new(area: Area, direct: Option<Box<dyn Handle>>) -> Target {
        Target { direct, refused: AtomicBool::new(false), area }
    }

    pub(super) fn area(&self) -> &Area {
        &self.area
    }

    /// The description for writes past the page cache.
    pub(super) fn direct(&self) -> Option<&dyn Handle> {
        self.direct.as_deref().filter(|_| !self.refused.load(Ordering::Relaxed))
    }

    /// Gives up the file's lock, if it was moved here.
    pub(super) fn unlock(&self) {
        if let Some(direct) = self.direct.as_deref() {
            direct.unlock();
        }
    }

    /// The description that groups are written through.
    pub(super) fn handle(&self) -> &dyn Handle {
        self.direct().unwrap_or(self.area.handle())
    }
}

impl Drop for Target {
    /// Closing it gives up a lock that was moved here, but not where a forked child has a copy.
    fn drop(&mut self) {
        if self.area.file().is_released() {
            self.unlock();
        }
    }
}

impl GroupFile for Target {
    fn fd(&self) -> BorrowedFd<'_> {
        self.handle().kernel().expect("io_uring is for files of the kernel").as_fd()
    }

    fn write_blocking(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        let slices = [IoSlice::new(bytes)];
        if injected(Mutant::GroupNotSynced) {
            return self.handle().write(&slices, offset, rustix::io::ReadWriteFlags::empty());
        }
        if let Some(direct) = self.direct() {
            match write_durably(direct, &slices, offset) {
                Err(Errno::INVAL) => self.refused.store(true, Ordering::Relaxed),
                written => return written,
            }
        }
        write_durably(self.area.handle(), &slices, offset)
    }
}
