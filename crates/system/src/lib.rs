//! System layer: the one place through which every file operation passes.
//!
//! | system | what it is | for |
//! |---|---|---|
//! | [`System::kernel`] | the system calls, one by one | real pools |
//! | `faults::failing` | another system whose n-th call fails | faults of a bad disk |
//! | `faults::recording` | a machine in memory whose power can be cut | states after a crash |
//!
//! Crate `medium` and everything above it run on any of them unchanged, so a test on a simulated
//! machine runs the code of real pools. The crate stands below `medium`, and `faults` beside it, so
//! that no product code names a test double and the unit tests of `medium` still use one.
//!
//! | seam | real | simulated |
//! |---|---|---|
//! | [`Files`], [`Directory`], [`Handle`] | system calls | the same calls |
//! | [`Handle::queue`] | io_uring, by [`Handle::kernel`] | [`SimulatedQueue`] |
//! | [`Handle::memory`] | a mapping of [`Handle::map_source`] | [`SimulatedMemory`] |
//! | [`mutants::injected`] | `false` at compile time | injected bugs, by the feature `mutants` |
//!
//! Each call costs a virtual call besides the system call, which takes a hundred times as long.
//! Real memory pays nothing: `medium` asks once, when it opens an area, whether it is simulated.

pub mod mutants;

mod file_system;
mod kernel;

use std::fmt;
use std::fs::File;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, Result};

pub use file_system::FileSystem;
pub use kernel::{FIRST_FD, above_standard};

/// Provider of files: the kernel's file systems by default. Cheap to clone.
#[derive(Clone)]
pub struct System(Arc<dyn Files>);

impl System {
    /// The kernel's.
    pub fn kernel() -> System {
        System(Arc::new(kernel::Kernel))
    }

    /// A system with these operations.
    pub fn of(files: Arc<dyn Files>) -> System {
        System(files)
    }

    /// Returns its operations.
    pub fn files(&self) -> &dyn Files {
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
pub struct Stat {
    /// Whether it is a regular file.
    pub is_regular: bool,
    /// Device and number: equal for two names of one file.
    pub identity: (u64, u64),
    /// Length of the file.
    pub bytes: u64,
}

/// Operations on names.
pub trait Files: fmt::Debug + Send + Sync {
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
pub trait Directory: fmt::Debug + Send + Sync {
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
pub enum Fate {
    /// The file has it, or another that it was renamed to.
    Kept,
    /// Another file has it; this one has another name.
    Replaced,
    /// The file has no name: nothing is left of it when it is closed.
    Unlinked,
}

/// An open file.
pub trait Handle: fmt::Debug + Send + Sync {
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

    /// The kernel's file below this handle, for queries that change nothing.
    fn queried(&self) -> Option<&File> {
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

    /// Returns the kernel's file that `mmap(2)` of a part maps.
    fn map_source(&self, offset: u64, bytes: usize) -> Result<MapSource<'_>>;

    /// Whether the file system starts a transfer without waiting for its end. `block` is aligned
    /// as direct transfers want it.
    fn can_skip_waiting(&self, offset: u64, block: &mut [u8]) -> bool;

    /// The kernel's file, for io_uring.
    fn kernel(&self) -> Option<&File> {
        None
    }

    /// Durable writes that are sent and complete later, where a simulated machine has io_uring.
    fn queue(&self) -> Option<Box<dyn SimulatedQueue>> {
        None
    }

    /// Returns a part as shared memory, where a simulated machine has it mapped. `durable_cache`
    /// selects whether the processor's cache survives a power failure.
    fn memory(
        &self,
        _offset: u64,
        _bytes: usize,
        _durable_cache: bool,
    ) -> Option<Box<dyn SimulatedMemory>> {
        None
    }
}

/// The kernel's file that has the bytes of a part.
#[derive(Debug)]
pub enum MapSource<'h> {
    /// The file itself, at the part's own offset.
    Itself(&'h File),
    /// A copy of the part, from byte 0 on. The machine keeps it equal to the file, so it can be
    /// mapped copy-on-write alone.
    Copy(Arc<File>),
}

/// Durable writes of a simulated machine that are sent and complete later, in any order.
pub trait SimulatedQueue: fmt::Debug + Send + Sync {
    /// Sends a write. It completes with its number.
    fn submit(&self, number: u64, offset: u64, bytes: &[u8]);

    /// Returns a completed write: its number, and its durable bytes. `None` when none has
    /// completed and the caller does not wait, or none is in flight.
    fn completion(&self, wait: bool) -> Option<(u64, Result<usize>)>;
}

/// Shared memory of a simulated machine: a mapped part of a file, by words.
pub trait SimulatedMemory: fmt::Debug + Send + Sync {
    /// Stores words, from a word on.
    fn store(&self, first: usize, words: &[u64]);

    /// Stores words past the cache.
    fn stream(&self, first: usize, words: &[u64]);

    /// Starts to write a word's line back.
    fn write_back(&self, word: usize);

    /// Orders the thread's stores; returns whether the power was on.
    fn fence(&self) -> bool;

    /// Returns whether the power is off; later calls do nothing.
    fn is_off(&self) -> bool;

    /// Reads words, from a word on.
    fn read(&self, first: usize, out: &mut [u64]);
}

/// Kind of range to seek in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The first byte from here on that may be other than zero.
    Data(u64),
    /// The first hole from here on.
    Hole(u64),
}
