//! A system whose n-th call fails.
//!
//! It stands before any other system, so the very calls of a pool on a real disk can be made to
//! fail one after the other. Groups of the log go by `pwritev2` then: io_uring makes no calls that
//! could be made to fail here.

use std::fmt;
use std::io::IoSlice;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, Result};

use super::{Files, Handle, Seek, Stat, System};
use crate::FileSystem;
use crate::mapping::{Mapping, Sharing};
use crate::recording::RecordedFile;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// `open`.
    Open,
    /// `fstat`, `lstat`.
    Stat,
    /// `rename`, `link`.
    Rename,
    /// `unlink`.
    Unlink,
    /// `fsync` of a directory.
    SyncDirectory,
    /// `flock`.
    Lock,
    /// `pread`.
    Read,
    /// `pwritev2`.
    Write,
    /// `fdatasync`.
    SyncData,
    /// `fsync`.
    SyncAll,
    /// `fallocate`.
    Allocate,
    /// `mmap`.
    Map,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk cannot.
    Io,
    /// The disk is full.
    NoSpace,
    /// A write ends early; other calls are not harmed.
    Short,
}

/// Which calls fail, and which were made.
#[derive(Debug)]
pub struct Faults {
    fault: Fault,
    /// The call that fails, from 0 on.
    nth: u64,
    /// All later ones fail too.
    sticky: bool,
    calls: AtomicU64,
    failed: Mutex<Vec<Call>>,
}

impl Faults {
    /// The `nth` call from here on fails (0: the next), and all after it if `sticky`.
    pub fn nth(nth: u64, fault: Fault, sticky: bool) -> Arc<Faults> {
        let (calls, failed) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Faults { fault, nth, sticky, calls, failed })
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Which calls failed, in order.
    pub fn failed(&self) -> Vec<Call> {
        lock(&self.failed).clone()
    }

    /// Counts a call; whether it fails.
    fn fault(&self, call: Call) -> Option<Fault> {
        // Relaxed: a number, whoever comes first.
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = number == self.nth || self.sticky && number > self.nth;
        let fails = fails && (self.fault != Fault::Short || call == Call::Write);
        fails.then(|| {
            lock(&self.failed).push(call);
            self.fault
        })
    }

    fn check(&self, call: Call) -> Result<()> {
        match self.fault(call) {
            None => Ok(()),
            Some(Fault::NoSpace) => Err(Errno::NOSPC),
            Some(_) => Err(Errno::IO),
        }
    }
}

pub(super) struct Failing {
    system: System,
    faults: Arc<Faults>,
}

impl Failing {
    pub(super) fn new(system: System, faults: Arc<Faults>) -> Failing {
        Failing { system, faults }
    }

    fn call(&self, call: Call) -> Result<&dyn Files> {
        self.faults.check(call).map(|()| self.system.files())
    }
}

impl fmt::Debug for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failing").field(&self.system).field(&self.faults).finish()
    }
}

impl Files for Failing {
    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<Box<dyn Handle>> {
        let file = self.call(Call::Open)?.open(path, flags, mode)?;
        Ok(Box::new(FailingFile { file, faults: Arc::clone(&self.faults) }))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.call(Call::Stat)?.stat(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Rename)?.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Rename)?.link(from, to)
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.call(Call::Unlink)?.unlink(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.call(Call::SyncDirectory)?.sync_directory(path)
    }

    fn random(&self) -> u64 {
        self.system.random()
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Box<dyn Handle>,
    faults: Arc<Faults>,
}

impl FailingFile {
    fn call(&self, call: Call) -> Result<&dyn Handle> {
        self.faults.check(call).map(|()| &*self.file)
    }
}

impl Handle for FailingFile {
    fn stat(&self) -> Result<Stat> {
        self.call(Call::Stat)?.stat()
    }

    fn lock(&self, operation: FlockOperation) -> Result<()> {
        self.call(Call::Lock)?.lock(operation)
    }

    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        self.call(Call::Read)?.read(out, offset)
    }

    fn write(&self, slices: &[IoSlice<'_>], offset: u64, flags: ReadWriteFlags) -> Result<usize> {
        match self.faults.fault(Call::Write) {
            None => self.file.write(slices, offset, flags),
            Some(Fault::NoSpace) => Err(Errno::NOSPC),
            Some(Fault::Io) => Err(Errno::IO),
            Some(Fault::Short) => {
                let longest = slices.iter().max_by_key(|slice| slice.len());
                let first = slices.iter().find(|slice| !slice.is_empty()).or(longest);
                let Some(first) = first else { return Ok(0) };
                // Direct writes are of whole blocks.
                let bytes = if slices.len() > 1 { first.len() } else { half(first.len()) };
                self.file.write(&[IoSlice::new(&first[..bytes])], offset, flags)
            }
        }
    }

    fn sync_data(&self) -> Result<()> {
        self.call(Call::SyncData)?.sync_data()
    }

    fn sync_all(&self) -> Result<()> {
        self.call(Call::SyncAll)?.sync_all()
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.call(Call::Allocate)?.allocate(bytes)
    }

    fn available(&self) -> Option<u64> {
        self.file.available()
    }

    fn seek(&self, at: Seek) -> Result<u64> {
        self.file.seek(at)
    }

    fn forget_pages(&self) {
        self.file.forget_pages();
    }

    fn reopen_direct(&self) -> Option<Box<dyn Handle>> {
        let file = self.file.reopen_direct()?;
        Some(Box::new(FailingFile { file, faults: Arc::clone(&self.faults) }))
    }

    fn can_write(&self) -> bool {
        self.file.can_write()
    }

    fn file_system(&self) -> Result<FileSystem> {
        self.file.file_system()
    }

    fn is_dax(&self) -> bool {
        self.file.is_dax()
    }

    fn map(&self, offset: u64, bytes: usize, sharing: Sharing) -> Result<Mapping> {
        self.call(Call::Map)?.map(offset, bytes, sharing)
    }

    fn can_skip_waiting(&self, _offset: u64, _block: &mut [u8]) -> bool {
        false
    }

    fn recorded(&self) -> Option<&RecordedFile> {
        self.file.recorded()
    }
}

/// Half of a write, in whole blocks of 4 KiB where it has several.
fn half(bytes: usize) -> usize {
    if bytes >= 8192 { bytes / 8192 * 4096 } else { bytes / 16 * 8 }
}
