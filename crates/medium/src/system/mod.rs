//! System layer: the one place through which every file operation passes.
//!
//! | system | what it is | for |
//! |---|---|---|
//! | [`System::kernel`] | the system calls, one by one | real pools |
//! | [`System::failing`] | another system whose n-th call fails | faults of a bad disk |
//! | [`Recorder::system`] | a machine in memory whose power can be cut | states after a crash |
//!
//! [`PoolFile`](crate::PoolFile) and everything above it run on any of them unchanged, so a test on
//! a recorded machine runs the code of real pools. Each call costs a virtual call besides the
//! system call, which takes a hundred times as long. Mapped memory has no calls: there the seam is
//! `mapped::stores`, at no cost for real memory.
//!
//! [`Recorder::system`]: crate::recording::Recorder::system

mod extents;
mod failing;
mod kernel;
mod retry;

use std::fmt;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, Result};

use crate::FileSystem;
use crate::mapping::{Mapping, Sharing};
use crate::recording::{Queue, RecordedFile};
use crate::sync::Arc;

pub use self::failing::{Call, Fault, Faults};
pub(crate) use self::kernel::{FIRST_FD, above_standard};
pub(crate) use self::retry::{ATTEMPTS_MAX, uninterrupted, write_durably};

/// Provider of files: the kernel's file systems by default. Cheap to clone.
#[derive(Clone)]
pub struct System(Arc<dyn Files>);

impl System {
    /// The kernel's.
    pub fn kernel() -> System {
        System(Arc::new(kernel::Kernel))
    }

    /// This system, but for the calls that `faults` lets fail.
    pub fn failing(&self, faults: Arc<Faults>) -> System {
        System(Arc::new(failing::Failing::new(self.clone(), faults)))
    }

    pub(crate) fn of(files: Arc<dyn Files>) -> System {
        System(files)
    }

    pub(crate) fn files(&self) -> &dyn Files {
        &*self.0
    }

    /// A number that is different every time, where the system has such: a pool's name for itself.
    pub fn random(&self) -> u64 {
        self.0.random()
    }
}

impl Default for System {
    fn default() -> System {
        System::kernel()
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kind of a name or an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) is_regular: bool,
    /// Device and number: equal for two names of one file.
    pub(crate) identity: (u64, u64),
    pub(crate) bytes: u64,
}

/// Operations on names.
pub(crate) trait Files: fmt::Debug + Send + Sync {
    /// `open(2)`.
    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<Box<dyn Handle>>;

    /// `lstat(2)`: of the name itself.
    fn stat(&self, path: &Path) -> Result<Stat>;

    /// Renames, but never over an existing name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Renames, over an existing name.
    fn replace(&self, from: &Path, to: &Path) -> Result<()>;

    /// `link(2)`.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// `unlink(2)`.
    fn unlink(&self, path: &Path) -> Result<()>;

    /// Opens a directory.
    fn directory(&self, path: &Path) -> Result<Box<dyn Directory>>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.directory(path)?.sync()
    }

    /// See [`System::random`].
    fn random(&self) -> u64;
}

/// An open directory.
pub(crate) trait Directory: fmt::Debug + Send + Sync {
    /// Makes the names in it durable.
    fn sync(&self) -> Result<()>;

    /// Returns the attribute that keeps names from being made or changed in it, by its character in
    /// `lsattr`. A failure of the system is not reported as an attribute.
    fn is_fixed(&self) -> Option<char> {
        None
    }

    /// Bytes of the longest name in it, where the file system counts bytes and says so.
    fn name_bytes_max(&self) -> Option<usize> {
        None
    }
}

/// State of the name that a file was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The file has it, or another that it was renamed to.
    Kept,
    /// Another file has it; this one has another name.
    Replaced,
    /// The file has no name: nothing is left of it when it is closed.
    Unlinked,
}

/// An open file.
pub(crate) trait Handle: fmt::Debug + Send + Sync {
    /// `fstat(2)`.
    fn stat(&self) -> Result<Stat>;

    /// `flock(2)`.
    fn lock(&self, operation: FlockOperation) -> Result<()>;

    /// Releases the lock early. An error has no effect: closing the file releases it.
    fn unlock(&self) {
        let _ = self.lock(FlockOperation::Unlock);
    }

    /// `pread(2)`: may read less.
    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize>;

    /// `pwritev2(2)`: may write less.
    fn write(&self, slices: &[IoSlice<'_>], offset: u64, flags: ReadWriteFlags) -> Result<usize>;

    /// `fdatasync(2)`.
    fn sync_data(&self) -> Result<()>;

    /// `fsync(2)`.
    fn sync_all(&self) -> Result<()>;

    /// `fallocate(2)` of a part: reserves the blocks that it lacks, and makes the file longer where
    /// the part ends behind it. Contents stay.
    fn allocate(&self, offset: u64, bytes: u64) -> Result<()>;

    /// Bytes that the file system counts as allocated to the file, some of its own data included;
    /// where the number of holes is not to be learned, the length.
    fn allocated(&self) -> Result<u64>;

    /// Returns the ranges of the first `bytes` bytes that have blocks, written or not; `None` where
    /// the file system does not report them.
    fn extents(&self, _bytes: u64) -> Option<Vec<Range<u64>>> {
        None
    }

    /// `fallocate(2)` that frees the blocks of a part, which then reads as zeros.
    fn punch(&self, _offset: u64, _bytes: u64) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }

    /// Bytes that the file system has for us; `None` when it does not say.
    fn available(&self) -> Option<u64>;

    /// `lseek(2)` to data or to a hole from `at` on.
    fn seek(&self, at: Seek) -> Result<u64>;

    /// The pages in the page cache are needed no longer.
    fn forget_pages(&self);

    /// The file again, for writes past the page cache, where there are such; with the access
    /// rights of this one. `name` is the file's, unless it was renamed.
    fn reopen_direct(&self, name: &Path) -> Result<Box<dyn Handle>>;

    /// The byte that this process may write files up to, if there is a bound (`RLIMIT_FSIZE`). A
    /// write behind it sends `SIGXFSZ`, which ends a process that does not ignore it.
    fn size_limit(&self) -> Option<u64> {
        None
    }

    /// Returns the state of the file's name, and the file's length by the same `fstat(2)`. A
    /// failure of the system is not reported as a loss.
    fn fate(&self, _name: &Path) -> (Fate, Option<u64>) {
        (Fate::Kept, None)
    }

    /// A second descriptor that stays open until the process ends, so that the file's content can
    /// be copied through it.
    fn keep_open(&self) -> Option<i32> {
        None
    }

    /// Whether it is open for writing.
    fn can_write(&self) -> bool;

    /// The file system below.
    fn file_system(&self) -> Result<FileSystem>;

    /// Whether it lies in persistent memory.
    fn is_dax(&self) -> bool;

    /// `mmap(2)` of a part.
    fn map(&self, offset: u64, bytes: usize, sharing: Sharing) -> Result<Mapping>;

    /// Whether the file system starts a transfer without waiting for its end. `block` is aligned
    /// as direct transfers want it.
    fn can_skip_waiting(&self, offset: u64, block: &mut [u8]) -> bool;

    /// The kernel's file, for io_uring.
    fn kernel(&self) -> Option<&File> {
        None
    }

    /// Writes that are sent and complete later, where a recorded machine plays io_uring.
    fn queue(&self) -> Option<Queue> {
        None
    }

    /// Returns the recorded machine's file, for simulated mapped memory.
    fn recorded(&self) -> Option<&RecordedFile> {
        None
    }
}

/// Kind of range to seek in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// The first byte from here on that may be other than zero.
    Data(u64),
    /// The first hole from here on.
    Hole(u64),
}
