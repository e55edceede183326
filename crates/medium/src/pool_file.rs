//! One file of a pool: locked, allocated, read and written by position.
//!
//! Invariants:
//! - An exclusive lock (`flock`) is held from before the first read until the file is closed and
//!   all io_uring writes have ended. Readers of tools hold a shared one. Renaming keeps the lock,
//!   because it belongs to the open file.
//! - The length never shrinks while the file is locked, and [`PoolFile::grow`] alone extends it.
//!   Processes that honour the lock do not change it, and no write goes beyond it. With every block
//!   allocated, this makes mapping the file safe: an access beyond the end, or to a block that a
//!   full disk cannot supply, would kill the process.
//! - A name appears only when its file is whole and durable.

mod allocate;
mod claim;
mod create;
mod extents;
mod grow;
mod locking;
mod name;
mod report;

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use zerocopy::IntoBytes;

pub use self::create::Prewrite;
use self::locking::lock_file;
use crate::error::Error;
use crate::retry::{uninterrupted, write_durably};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use system::mutants::{Mutant, injected};
use system::{Directory, Fate, Files, Handle, Seek, System};

/// File of a pool, shared by the owners of its areas: heap, log and superblocks.
///
/// ```
/// use medium::{PoolFile, Prewrite};
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("bank.pool");
/// let file = PoolFile::create(&path, 1 << 20, Prewrite::No)?;
/// file.write_at(4096, &[42])?;
/// file.publish()?; // now it has its name, and is durable
/// drop(file);
///
/// let file = PoolFile::open(&path)?;
/// let mut word = [0];
/// file.read_at(4096, &mut word)?;
/// assert_eq!(word, [42]);
/// assert!(PoolFile::open(&path).is_err()); // in use
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PoolFile {
    system: System,
    file: Box<dyn Handle>,
    path: PathBuf,
    /// Relaxed: an owner of an area learns of new bytes through the pool, after they are there.
    bytes: AtomicU64,
    /// The name that the file has until it is published.
    temporary: Mutex<Option<PathBuf>>,
    /// The directory that it is in, while it is created: the last steps open nothing, so that a
    /// limit on descriptors stops the creation before anything has its name.
    directory: Mutex<Option<Box<dyn Directory>>>,
    prewritten: bool,
    /// The lock is given up wherever it is: nothing is written any more.
    released: AtomicBool,
    /// Why the last try to write past the page cache was refused.
    indirect: Mutex<Option<Errno>>,
}

impl PoolFile {
    /// Opens a file of the kernel's for reading and writing, and keeps others out.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotFound`], [`Error::NotAFile`] (a symbolic link too),
    /// [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<PoolFile, Error> {
        PoolFile::open_on(&System::kernel(), path)
    }

    /// Opens a file of a system for reading and writing, and keeps others out.
    ///
    /// # Errors
    /// As [`open`](PoolFile::open).
    pub fn open_on(system: &System, path: impl AsRef<Path>) -> Result<PoolFile, Error> {
        let lock = FlockOperation::NonBlockingLockExclusive;
        PoolFile::open_locked(system, path.as_ref(), OFlags::RDWR, Some(lock))
    }

    /// Opens a file of the kernel for reading only; other readers may open it too. Every write to
    /// it fails.
    ///
    /// # Errors
    /// As [`open`](PoolFile::open).
    pub fn open_shared(path: impl AsRef<Path>) -> Result<PoolFile, Error> {
        PoolFile::open_shared_on(&System::kernel(), path)
    }

    /// Opens a file of a system for reading only; other readers may open it too.
    ///
    /// # Errors
    /// As [`open`](PoolFile::open).
    pub fn open_shared_on(system: &System, path: impl AsRef<Path>) -> Result<PoolFile, Error> {
        let lock = FlockOperation::NonBlockingLockShared;
        PoolFile::open_locked(system, path.as_ref(), OFlags::RDONLY, Some(lock))
    }

    fn open_locked(
        system: &System,
        path: &Path,
        flags: OFlags,
        lock: Option<FlockOperation>,
    ) -> Result<PoolFile, Error> {
        let file = open_regular(system.files(), path, flags)?;
        lock.map_or(Ok(()), |lock| lock_file(&*file, path, lock))?;
        let stat = file.stat().map_err(Error::io("inspecting", path))?;
        if stat.bytes == 0 && name::is_interrupted(system.files(), path) {
            return Err(Error::NotFound { path: path.to_path_buf() });
        }
        Ok(PoolFile {
            system: system.clone(),
            file,
            path: path.to_path_buf(),
            bytes: AtomicU64::new(stat.bytes),
            temporary: Mutex::new(None),
            directory: Mutex::new(None),
            prewritten: false,
            released: AtomicBool::new(false),
            indirect: Mutex::new(None),
        })
    }

    /// Where the file is, or will be once it is published.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads words.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the file ends before, [`Error::Transfer`].
    pub fn read_at(&self, offset: u64, out: &mut [u64]) -> Result<(), Error> {
        self.read_bytes_at(offset, out.as_mut_bytes())
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// As [`read_at`](PoolFile::read_at).
    pub fn read_bytes_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let bytes = out.len() as u64;
        self.check_range(offset, bytes)?;
        let mut found = 0;
        while found < out.len() {
            // Ends: each turn reads a byte or returns.
            match uninterrupted(|| self.file.read(&mut out[found..], offset + found as u64)) {
                Ok(0) => {
                    let (path, found) = (self.path.clone(), found as u64);
                    return Err(Error::Truncated { path, offset, expected: bytes, found });
                }
                Ok(more) => found += more,
                Err(errno) => return Err(self.transfer("reading", offset, bytes)(errno.into())),
            }
        }
        Ok(())
    }

    /// Returns whether all bytes from `offset` on are zero. Reads only ranges that the file system
    /// does not report as empty.
    ///
    /// # Errors
    /// As [`read_at`](PoolFile::read_at).
    pub fn is_zero(&self, offset: u64) -> Result<bool, Error> {
        let (mut at, mut words) = (offset, vec![0; 1 << 17]);
        // Ends: data that is found is not empty, and ends behind `at`.
        while let Some(data) = self.next_data(at, self.len()) {
            for start in data.clone().step_by(8 * words.len()) {
                let piece = ((data.end - start) as usize / 8).min(words.len());
                self.read_at(start, &mut words[..piece])?;
                if words[..piece].iter().any(|word| *word != 0) {
                    return Ok(false);
                }
            }
            at = data.end;
        }
        Ok(true)
    }

    /// Writes words. Durable after [`sync`](PoolFile::sync) or [`publish`](PoolFile::publish).
    ///
    /// # Errors
    /// [`Error::Truncated`] when the file ends before, [`Error::Transfer`].
    pub fn write_at(&self, offset: u64, words: &[u64]) -> Result<(), Error> {
        self.write_flagged(offset, words, ReadWriteFlags::empty())
    }

    /// Writes a few words, durable on return; one persist barrier. A crash before that may tear the
    /// words, so they need a checksum of their own.
    ///
    /// # Errors
    /// As [`write_at`](PoolFile::write_at); then the contents of the disk are unknown, and the pool
    /// must not go on.
    pub fn write_durable_at(&self, offset: u64, words: &[u64]) -> Result<(), Error> {
        self.write_flagged(offset, words, ReadWriteFlags::DSYNC)
    }

    /// Makes everything written before durable; one persist barrier.
    ///
    /// # Errors
    /// [`Error::Io`]; then the contents of the disk are unknown, and the pool must not go on.
    pub fn sync(&self) -> Result<(), Error> {
        uninterrupted(|| self.file.sync_data()).map_err(Error::io("syncing", &self.path))
    }

    /// Ensures that everything read from here on is durable; one persist barrier. Needed when a
    /// file is opened after another process. Its writes may still be only in the page cache.
    /// If its sync failed, the kernel treats them as written, so they are read anew.
    ///
    /// # Errors
    /// As [`sync`](PoolFile::sync).
    pub fn settle(&self) -> Result<(), Error> {
        self.sync()?;
        self.file.forget_pages();
        Ok(())
    }

    fn write_flagged(
        &self,
        offset: u64,
        words: &[u64],
        flags: ReadWriteFlags,
    ) -> Result<(), Error> {
        let bytes = words.as_bytes();
        self.check_range(offset, bytes.len() as u64)?;
        write_all(&*self.file, &mut [IoSlice::new(bytes)], offset, flags)
            .map(drop)
            .map_err(self.transfer("writing", offset, bytes.len() as u64))
    }

    /// Checks that the file contains this range; returns its end.
    pub(crate) fn check_range(&self, offset: u64, bytes: u64) -> Result<u64, Error> {
        offset.checked_add(bytes).filter(|&end| end <= self.len()).ok_or_else(|| {
            let found = self.len().saturating_sub(offset);
            Error::Truncated { path: self.path.clone(), offset, expected: bytes, found }
        })
    }

    /// Returns the next range in `at..end` that may be other than zero. Where the file system does
    /// not report holes, that is the whole range.
    pub fn next_data(&self, at: u64, end: u64) -> Option<Range<u64>> {
        if at >= end {
            return None;
        }
        let start = match self.file.seek(Seek::Data(at)) {
            Ok(start) => start.max(at),
            Err(Errno::NXIO) => return None,
            Err(_) => return Some(at..end),
        };
        let hole = self.file.seek(Seek::Hole(start)).unwrap_or(end);
        let stop = if hole > start { hole.min(end) } else { end };
        (start < end).then_some(start..stop)
    }

    /// The file behind a second description that writes past the page cache, where the file system
    /// can. The lock stays with the first, unless it is [moved](PoolFile::move_lock).
    pub(crate) fn reopen_direct(&self) -> Option<Box<dyn Handle>> {
        let reopened = match lock(&self.temporary).as_deref() {
            Some(temporary) => self.file.reopen_direct(temporary),
            None => self.file.reopen_direct(&self.path),
        };
        *lock(&self.indirect) = reopened.as_ref().err().copied();
        reopened.ok()
    }

    /// Why the file could not be opened for writes past the page cache when that was last tried;
    /// `None`: it could, or was not tried.
    pub fn why_indirect(&self) -> Option<io::Error> {
        lock(&self.indirect).map(io::Error::from)
    }

    /// That this process may write the file up to here: a write behind the limit on the size of
    /// files (`ulimit -f`) is a signal that ends the process unless it is ignored.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`].
    pub fn check_size_limit(&self, end: u64) -> Result<(), Error> {
        match self.file.size_limit() {
            Some(limit) if limit < end => {
                let (path, limit) = (self.path.clone(), Some(limit));
                Err(Error::FileTooLarge { path, bytes: end, limit, option: None })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the file lost its name, if that was `name` (renaming keeps it), and the
    /// length that the file was cut to, if it was. Two system calls.
    pub fn lost(&self, name: &Path) -> (Option<LostName>, Option<u64>) {
        // Before the file's length: a growth between the two would pass for a cut. Acquire: pairs
        // with the end of a growth, so the file has this length.
        let known = self.bytes.load(Ordering::Acquire);
        let (fate, bytes) = self.file.fate(name);
        let lost = match fate {
            Fate::Kept => None,
            Fate::Replaced => Some(LostName::Replaced),
            Fate::Unlinked => {
                let descriptor = self.file.kernel().map(AsRawFd::as_raw_fd);
                Some(LostName::Unlinked { descriptor })
            }
        };
        (lost, bytes.filter(|bytes| *bytes < known))
    }

    /// Keeps a descriptor of the file open until the process ends, and with it the content of a
    /// file that has no name. Returns its number.
    pub fn keep_open(&self) -> Option<i32> {
        self.file.keep_open()
    }

    /// Whether it was opened for writing.
    pub(crate) fn can_write(&self) -> bool {
        self.file.can_write()
    }

    pub(crate) fn handle(&self) -> &dyn Handle {
        &*self.file
    }

    /// The system that the file is on.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// For `map_err`: moving bytes failed.
    pub(crate) fn transfer(
        &self,
        operation: &'static str,
        offset: u64,
        bytes: u64,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::Transfer { operation, path, offset, bytes, source }
    }
}

/// How a file lost its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostName {
    /// Another file has it; this one was renamed.
    Replaced,
    /// The file was removed, or another was renamed over it.
    Unlinked {
        /// A descriptor through which its content can be copied while the pool is open.
        descriptor: Option<i32>,
    },
}

/// Writes all of the slices consecutively; resumes short writes. Returns the number of system
/// calls.
pub(crate) fn write_all(
    file: &dyn Handle,
    mut slices: &mut [IoSlice<'_>],
    mut offset: u64,
    flags: ReadWriteFlags,
) -> io::Result<u64> {
    let mut calls = 0;
    IoSlice::advance_slices(&mut slices, 0); // skips empty ones, so that 0 written means stuck
    // Ends: each turn writes a byte or returns.
    while !slices.is_empty() {
        let written = match flags.contains(ReadWriteFlags::DSYNC) {
            true => write_durably(file, slices, offset),
            false => uninterrupted(|| file.write(slices, offset, flags)),
        };
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut slices, written);
                offset += written as u64;
                calls += 1;
                if injected(Mutant::ShortWriteNotResumed) {
                    break;
                }
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(calls)
}

/// Opens a regular file; refuses any other kind without waiting for it.
fn open_regular(files: &dyn Files, path: &Path, flags: OFlags) -> Result<Box<dyn Handle>, Error> {
    let not_a_file = || Error::NotAFile { path: path.to_path_buf() };
    // NONBLOCK: a named pipe must not keep us waiting for its other end.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match files.open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(Error::NotFound { path: path.to_path_buf() }),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => return Err(not_a_file()),
        Err(errno) => return Err(Error::io("opening", path)(errno)),
    };
    let stat = file.stat().map_err(Error::io("inspecting", path))?;
    if stat.is_regular { Ok(file) } else { Err(not_a_file()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::os::unix::fs::symlink;

    fn published(path: &Path, bytes: u64) -> PoolFile {
        let file = PoolFile::create(path, bytes, Prewrite::No).unwrap();
        file.publish().unwrap();
        file
    }

    #[test]
    fn second_opener_is_refused_while_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let first = published(&path, 4096);
        for _ in 0..2 {
            assert!(matches!(PoolFile::open(&path), Err(Error::InUse { .. })));
            assert!(matches!(PoolFile::open_shared(&path), Err(Error::InUse { .. })));
        }
        drop(first);
        let shared = PoolFile::open_shared(&path).unwrap();
        let beside = PoolFile::open_shared(&path).unwrap();
        assert!(matches!(PoolFile::open(&path), Err(Error::InUse { .. })));
        drop((shared, beside));
        assert_eq!(PoolFile::open(&path).unwrap().len(), 4096);
    }

    #[test]
    fn open_waits_for_brief_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let first = published(&path, 4096);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                drop(first);
            });
            assert_eq!(PoolFile::open(&path).unwrap().len(), 4096);
        });
    }

    #[test]
    fn write_of_no_byte_is_an_error() {
        use faults::{Failing, Fault, Faults};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        drop(published(&path, 4096));
        let system = System::kernel().failing(Faults::nth(0, Fault::Nothing, true));
        let file = PoolFile::open_on(&system, &path).unwrap();
        for written in [file.write_at(0, &[7; 9]), file.write_durable_at(0, &[7; 9])] {
            let Err(Error::Transfer { source, .. }) = &written else { panic!("{written:?}") };
            assert_eq!(source.kind(), io::ErrorKind::WriteZero);
        }
    }

    #[test]
    fn lock_that_cannot_move_stays() {
        use faults::{Failing, Fault, Faults};
        for sticky in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pool");
            drop(published(&path, 4096));
            // open, stat, lock, stat; open; unlock, lock there, lock here.
            let system = System::kernel().failing(Faults::nth(6, Fault::Io, sticky));
            let file = PoolFile::open_on(&system, &path).unwrap();
            let to = system.files().open(&path, OFlags::RDWR, Mode::empty()).unwrap();
            let moved = file.move_lock(&*to);
            let in_use = matches!(PoolFile::open(&path), Err(Error::InUse { .. }));
            match sticky {
                false => assert!(!moved.unwrap() && in_use),
                true => assert!(matches!(moved, Err(Error::Io { .. })) && !in_use),
            }
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        drop(published(&path, 4096));
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        for path in [dir.path(), &link, &pipe, Path::new("/dev/null"), Path::new("/")] {
            for open in [PoolFile::open(path), PoolFile::open_shared(path)] {
                assert!(matches!(open, Err(Error::NotAFile { .. })), "{} {open:?}", path.display());
            }
        }
        let missing = PoolFile::open(dir.path().join("nothing"));
        assert!(matches!(missing, Err(Error::NotFound { .. })));
    }

    #[test]
    fn words_written_are_read_by_the_next_opener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let file = published(&path, 8192);
        file.write_at(8, &[1, 2]).unwrap();
        file.write_durable_at(8184, &[3]).unwrap();
        file.sync().unwrap();
        drop(file);
        let file = PoolFile::open(&path).unwrap();
        let mut words = [9; 4];
        file.read_at(0, &mut words).unwrap();
        assert_eq!(words, [0, 1, 2, 0]);
        file.read_at(8184, &mut words[..1]).unwrap();
        assert_eq!(words[0], 3);
    }

    #[test]
    fn nothing_is_read_or_written_beyond_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let file = published(&path, 4096);
        for offset in [4089, 4096, 1 << 40, u64::MAX] {
            let found = 4096_u64.saturating_sub(offset);
            let read = file.read_at(offset, &mut [0]);
            let write = file.write_at(offset, &[1]);
            let durable = file.write_durable_at(offset, &[1]);
            for result in [read, write, durable] {
                let Err(Error::Truncated { found: reported, expected: 8, .. }) = result else {
                    panic!("{result:?}");
                };
                assert_eq!(reported, found);
            }
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
        // Another process ignores the lock and cuts the file off.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
        let cut = file.read_at(96, &mut [0]);
        assert!(matches!(cut, Err(Error::Truncated { found: 4, .. })), "{cut:?}");
    }

    #[test]
    fn read_only_file_refuses_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        drop(published(&path, 4096));
        let file = PoolFile::open_shared(&path).unwrap();
        assert!(matches!(file.write_at(0, &[1]), Err(Error::Transfer { .. })));
        assert!(matches!(file.write_durable_at(0, &[1]), Err(Error::Transfer { .. })));
    }

    #[test]
    fn holes_are_found_between_data() {
        let dir = tempfile::tempdir().unwrap();
        let file = published(&dir.path().join("pool"), 16 << 20);
        file.write_at(8 << 20, &[1; 512]).unwrap();
        let mut at = 0;
        let mut data = Vec::new();
        while let Some(range) = file.next_data(at, 16 << 20) {
            assert!(range.start < range.end && range.start >= at && range.end <= 16 << 20);
            at = range.end;
            data.push(range);
        }
        assert!(data.iter().any(|range| range.contains(&(8 << 20))), "{data:?}");
        assert_eq!(file.next_data(16 << 20, 16 << 20), None);
    }
}
