//! The kernel: a method, a system call.
//!
//! Invariants:
//! - No descriptor that a pool keeps is 0, 1 or 2. A process may start with these closed; then the
//!   kernel gives their numbers to the next files that it opens, and what the process prints is
//!   written into them. So every file comes from [`open`] or [`above_standard`], which also close
//!   it in programs that the process starts.
//! - No call relies on a file's offset, which all descriptors of one description share: reads and
//!   writes name their place. `SEEK_DATA` and `SEEK_HOLE` move the offset; nothing reads it.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    SeekFrom, StatxAttributes, StatxFlags,
};
use rustix::io::{Errno, ReadWriteFlags, Result};

use super::{Files, Handle, Seek, Stat};
use crate::FileSystem;
use crate::mapping::{Mapping, Sharing};

/// How long a process may be between its fork and its program, on a machine that is busy.
const FORKED: Duration = Duration::from_millis(250);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The first descriptor that is neither standard input, nor output, nor errors.
pub(crate) const FIRST_FD: i32 = 3;

/// Opens a file on a descriptor from [`FIRST_FD`] on, closed in programs that the process starts.
fn open(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    // Numbers below it that are free are taken while the file opens: were the file opened on one
    // and then moved, another thread could print into it in between. A descriptor of a path alone
    // takes no writes.
    let free = free_standard();
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, mode);
    drop(free);
    // Another thread may have closed one meanwhile.
    above_standard(file?)
}

/// Takes the standard descriptors that are closed.
fn free_standard() -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    while let Ok(next) = rustix::fs::open("/", flags, Mode::empty()) {
        if next.as_raw_fd() >= FIRST_FD {
            break;
        }
        taken.push(next);
    }
    taken
}

/// The same file on a descriptor from [`FIRST_FD`] on.
pub(crate) fn above_standard(file: OwnedFd) -> Result<OwnedFd> {
    match file.as_raw_fd() {
        ..FIRST_FD => rustix::io::fcntl_dupfd_cloexec(&file, FIRST_FD),
        _ => Ok(file),
    }
}

#[derive(Debug)]
pub(super) struct Kernel;

impl Files for Kernel {
    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<Box<dyn Handle>> {
        Ok(Box::new(File::from(open(path, flags, mode)?)))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        Ok(stat(&rustix::fs::lstat(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        rustix::fs::unlink(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        rustix::fs::fsync(open(path, flags, Mode::empty())?)
    }

    /// The standard library's own per-process random keys, over time.
    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        hasher.write_u128(now.map(|since| since.as_nanos()).unwrap_or_default());
        hasher.write_u32(std::process::id());
        hasher.finish()
    }
}

fn stat(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        is_regular: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        identity: (stat.st_dev, stat.st_ino),
        bytes: stat.st_size as u64,
    }
}

impl Handle for File {
    fn stat(&self) -> Result<Stat> {
        Ok(stat(&rustix::fs::fstat(self)?))
    }

    /// A process that another thread of the last owner has just forked holds a copy of the file,
    /// and with it the lock, until it runs its program. So a lock that is held is tried again for
    /// [`FORKED`]: a program that closes a file and opens it at once finds it free.
    fn lock(&self, operation: FlockOperation) -> Result<()> {
        let end = Instant::now() + FORKED;
        loop {
            match rustix::fs::flock(self, operation) {
                Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(PAUSE),
                locked => return locked,
            }
        }
    }

    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        rustix::io::pread(self, out, offset)
    }

    fn write(&self, slices: &[IoSlice<'_>], offset: u64, flags: ReadWriteFlags) -> Result<usize> {
        // Without flags by the call that every system knows.
        match flags.is_empty() {
            true => rustix::io::pwritev(self, slices, offset),
            false => rustix::io::pwritev2(self, slices, offset, flags),
        }
    }

    fn sync_data(&self) -> Result<()> {
        rustix::fs::fdatasync(self)
    }

    fn sync_all(&self) -> Result<()> {
        rustix::fs::fsync(self)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        rustix::fs::fallocate(self, FallocateFlags::empty(), offset, bytes)
    }

    fn allocated(&self) -> Result<u64> {
        Ok(512 * rustix::fs::fstat(self)?.st_blocks as u64)
    }

    fn available(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(self).ok()?;
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn seek(&self, at: Seek) -> Result<u64> {
        let at = match at {
            Seek::Data(at) => SeekFrom::Data(at),
            Seek::Hole(at) => SeekFrom::Hole(at),
        };
        rustix::fs::seek(self, at)
    }

    fn forget_pages(&self) {
        let _ = rustix::fs::fadvise(self, 0, None, Advice::DontNeed);
    }

    /// By `/proc`, so that it is this very file whatever its name leads to meanwhile.
    fn reopen_direct(&self) -> Option<Box<dyn Handle>> {
        let access = rustix::fs::fcntl_getfl(self).ok()? & OFlags::RWMODE;
        let itself = format!("/proc/self/fd/{}", self.as_raw_fd());
        let file = open(itself.as_ref(), access | OFlags::DIRECT, Mode::empty()).ok()?;
        Some(Box::new(File::from(file)))
    }

    fn can_write(&self) -> bool {
        let access = rustix::fs::fcntl_getfl(self);
        access.is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
    }

    fn file_system(&self) -> Result<FileSystem> {
        Ok(FileSystem::numbered(rustix::fs::fstatfs(self)?.f_type as u64))
    }

    fn is_dax(&self) -> bool {
        let (flags, mask) = (AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
        let stat = rustix::fs::statx(self, "", flags, mask);
        stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::DAX))
    }

    fn map(&self, offset: u64, bytes: usize, sharing: Sharing) -> Result<Mapping> {
        // What is not the system's cannot happen: the length was checked to fit.
        Mapping::of_file(self, offset, bytes, sharing)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))
    }

    fn can_skip_waiting(&self, offset: u64, block: &mut [u8]) -> bool {
        let mut slices = [std::io::IoSliceMut::new(block)];
        let read = rustix::io::preadv2(self, &mut slices, offset, ReadWriteFlags::NOWAIT);
        matches!(read, Ok(_) | Err(Errno::AGAIN))
    }

    fn kernel(&self) -> Option<&File> {
        Some(self)
    }
}
