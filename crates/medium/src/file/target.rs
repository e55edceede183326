//! The file that groups of the log are written to: past the page cache while its file system takes
//! such writes, else through it.
//!
//! Direct reads work on some file systems that refuse direct writes (mergerfs, other FUSE), and no
//! write can be tried when a pool is opened: rewriting a block that holds something could tear it.
//! So the first direct write decides. A write refused with EINVAL has written nothing; it is
//! repeated through the page cache with `RWF_DSYNC`, and so is every later one.
//!
//! Direct writes that are in flight meanwhile do no harm: no two groups share a page, and a direct
//! write of other pages neither reads nor drops those that the page cache has.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, Result};

use super::under_way::GroupFile;
use crate::area::Area;
use crate::mutants::{Mutant, planted};
use crate::sync::{AtomicBool, Ordering};
use crate::system::{Handle, write_durably};

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

    /// The description that groups are written through.
    pub(super) fn handle(&self) -> &dyn Handle {
        self.direct().unwrap_or(self.area.handle())
    }
}

impl Drop for Target {
    /// Closing it gives up a lock that was moved here, but not where a forked child has a copy.
    fn drop(&mut self) {
        if let Some(direct) = self.direct.as_deref().filter(|_| self.area.file().is_released()) {
            direct.unlock();
        }
    }
}

impl GroupFile for Target {
    fn fd(&self) -> BorrowedFd<'_> {
        self.handle().kernel().expect("io_uring is for files of the kernel").as_fd()
    }

    fn write_blocking(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        let slices = [IoSlice::new(bytes)];
        if planted(Mutant::GroupNotSynced) {
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
