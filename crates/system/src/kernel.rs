//! Kernel system: one system call for each method.
//!
//! Invariants:
//! - No descriptor that a pool keeps is 0, 1 or 2. A process may start with these closed. The
//!   kernel then gives their numbers to the next files that it opens, and the process's output
//!   would be written into them. So every file comes from [`open`] or [`above_standard`], which
//!   also close it in programs that the process starts.
//! - No call relies on a file's offset, which all descriptors of one description share: reads and
//!   writes pass their position. `SEEK_DATA` and `SEEK_HOLE` move the offset; nothing reads it.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    SeekFrom, StatxAttributes, StatxFlags,
};
use rustix::io::{Errno, ReadWriteFlags, Result};

use crate::file_system::FileSystem;
use crate::mutants::{Mutant, injected};
use crate::{Directory, Fate, Files, Handle, MapSource, Seek, Stat};

/// How long a process may be between its fork and its program, on a machine that is busy.
const FORKED: Duration = Duration::from_millis(250);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The first descriptor that is neither standard input, nor output, nor errors.
pub const FIRST_FD: i32 = 3;

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

/// Returns the same file on a descriptor from [`FIRST_FD`] on.
///
/// # Errors
/// The system's, when it has no descriptor left.
pub fn above_standard(file: OwnedFd) -> Result<OwnedFd> {
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

    fn replace(&self, from: &Path, to: &Path) -> Result<()> {
        rustix::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        rustix::fs::unlink(path)
    }

    fn directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Box::new(File::from(open(path, flags, Mode::empty())?)))
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

impl Directory for File {
    fn sync(&self) -> Result<()> {
        if injected(Mutant::KernelDirectoryNotSynced) {
            return Ok(());
        }
        match rustix::fs::fsync(self) {
            // The file system syncs no directories one by one.
            Err(Errno::INVAL) => rustix::fs::syncfs(self),
            synced => synced,
        }
    }

    fn is_fixed(&self) -> Option<char> {
        let found = rustix::fs::statx(self, c"", AtFlags::EMPTY_PATH, StatxFlags::empty()).ok()?;
        let has = |attribute| found.stx_attributes.contains(attribute);
        let immutable = has(StatxAttributes::IMMUTABLE).then_some('i');
        immutable.or(has(StatxAttributes::APPEND).then_some('a'))
    }

    fn name_bytes_max(&self) -> Option<usize> {
        rustix::fs::fstatvfs(self).ok().and_then(|found| found.f_namemax.try_into().ok())
    }
}

fn stat(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        is_regular: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        identity: (stat.st_dev, stat.st_ino),
        bytes: stat.st_size as u64,
    }
}

/// Returns a path to an open file that is valid whatever its name.
fn descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Whether a file system without open files that have no name has renamed this one when it was
/// removed: NFS and FUSE do, and remove it when it is closed.
fn is_hidden(file: &File) -> bool {
    let Ok(path) = std::fs::read_link(descriptor(file)) else { return false };
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".nfs") || name.starts_with(b".fuse_hidden")
}

impl Handle for File {
    fn stat(&self) -> Result<Stat> {
        Ok(stat(&rustix::fs::fstat(self)?))
    }

    /// A process that another thread of the last owner has just forked holds a copy of the file,
    /// and with it the lock, until it runs its program. So a lock that is held is tried again for
    /// `FORKED`: a program that closes a file and opens it at once finds it free.
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
        match flags.is_empty() || injected(Mutant::KernelWriteNotDurable) {
            true => rustix::io::pwritev(self, slices, offset),
            false => rustix::io::pwritev2(self, slices, offset, flags),
        }
    }

    fn sync_data(&self) -> Result<()> {
        if injected(Mutant::KernelDataNotSynced) { Ok(()) } else { rustix::fs::fdatasync(self) }
    }

    fn sync_all(&self) -> Result<()> {
        if injected(Mutant::KernelFileNotSynced) { Ok(()) } else { rustix::fs::fsync(self) }
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        rustix::fs::fallocate(self, FallocateFlags::empty(), offset, bytes)
    }

    fn queried(&self) -> Option<&File> {
        Some(self)
    }

    fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self, flags, offset, bytes)
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
        if !injected(Mutant::KernelPagesKept) {
            let _ = rustix::fs::fadvise(self, 0, None, Advice::DontNeed);
        }
    }

    /// Reopens by `/proc`, so that it is this very file whatever its name leads to meanwhile. Where
    /// `/proc` is not mounted, as in some containers, it uses the name, if that leads to this file.
    /// A flag set by `fcntl` would not do: it applies to the description, which the page cache's
    /// writes use too.
    fn reopen_direct(&self, name: &Path) -> Result<Box<dyn Handle>> {
        let flags = rustix::fs::fcntl_getfl(self)? & OFlags::RWMODE | OFlags::DIRECT;
        match open(descriptor(self).as_ref(), flags, Mode::empty()) {
            Ok(file) => return Ok(Box::new(File::from(file))),
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno),
        }
        // NONBLOCK: a named pipe that has taken the name must not keep this thread waiting.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(open(name, flags, Mode::empty())?);
        let is_same = Handle::stat(&file)?.identity == Handle::stat(self)?.identity;
        if is_same { Ok(Box::new(file)) } else { Err(Errno::STALE) }
    }

    fn size_limit(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Fsize).current
    }

    fn fate(&self, name: &Path) -> (Fate, Option<u64>) {
        let Ok(own) = rustix::fs::fstat(self) else { return (Fate::Kept, None) };
        let bytes = Some(stat(&own).bytes);
        if own.st_nlink == 0 {
            return (Fate::Unlinked, bytes);
        }
        let named = rustix::fs::lstat(name);
        let fate = match named {
            Ok(named) if stat(&named).identity == stat(&own).identity => Fate::Kept,
            Ok(_) | Err(Errno::NOENT) if is_hidden(self) => Fate::Unlinked,
            Ok(_) => Fate::Replaced,
            Err(_) => Fate::Kept,
        };
        (fate, bytes)
    }

    fn keep_open(&self) -> Option<i32> {
        let kept = rustix::io::fcntl_dupfd_cloexec(self, FIRST_FD).ok()?;
        Some(kept.into_raw_fd())
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

    fn map_source(&self, _offset: u64, _bytes: usize) -> Result<MapSource<'_>> {
        Ok(MapSource::Itself(self))
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
