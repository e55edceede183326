//! Fault injection: a system whose n-th call fails, as badly as on a bad disk.
//!
//! It wraps any other system, so each call of a pool on a real disk can be made to fail.
//!
//! | call that fails | effect |
//! |---|---|
//! | a write | none, half or all of its bytes are in the file, in rotation |
//! | a sync | writes since the last one are lost, as where the kernel drops dirty pages |
//! | any other, or a call that is interrupted or not supported | none |
//!
//! So a sync that fails and then succeeds on retry has lost data, and the bytes of a failed write
//! may be in the file. Four things never fail here:
//! - `fcntl` of an open file, because only a closed file makes it fail.
//! - The check of a file's name, whose failures are ignored.
//! - The query of extents and the return of blocks after an allocation failed, as well.
//! - io_uring, whose writes are not calls of ours. Groups of the log use `pwritev2` here; limits of
//!   the process make them fail on both paths.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, Result};

use crate::latch::Latch;
use system::{
    Directory, Fate, FileSystem, Files, Handle, MapSource, Seek, SimulatedMemory, Stat, System,
};

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// `open`.
    Open,
    /// `fstat`, `lstat`.
    Stat,
    /// `rename` without overwriting.
    Rename,
    /// `link`.
    Link,
    /// `rename` over an existing name.
    Replace,
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
    /// `fstatfs`, `fstatvfs`, `statx`.
    FileSystem,
    /// `lseek`.
    Seek,
    /// `fadvise`.
    Advise,
    /// `FIEMAP`. It is neither counted nor fails, but a file system may lack it.
    Extents,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk cannot.
    Io,
    /// The disk is full.
    NoSpace,
    /// The quota is used up.
    Quota,
    /// Another program cuts the file to this length just before a write, which is not harmed. Other
    /// calls are not counted.
    Cut(u64),
    /// A write ends early. Other calls are not harmed, and not counted.
    Short,
    /// A write takes no byte, and as above.
    Nothing,
    /// A signal interrupts the call before it has done anything.
    Interrupted,
    /// The file system takes no direct writes. Other calls are not harmed, and not counted.
    NoDirectWrites,
    /// No write has `RWF_DSYNC`. Other calls are not harmed, and not counted.
    NoDurableWrites,
    /// The file system cannot reserve blocks. Other calls are not harmed, and not counted.
    NoAllocation,
    /// The disk has no block left to reserve. Other calls are not harmed, and not counted.
    NoBlocks,
}

/// Which calls fail, and which were made.
#[derive(Debug)]
pub struct Faults {
    fault: Fault,
    /// The call that fails, from 0 on.
    nth: u64,
    /// All later ones fail too.
    sticky: bool,
    /// Calls that the file system does not have.
    missing: Vec<Call>,
    /// No further call fails.
    lifted: AtomicBool,
    /// Holds calls that allocate.
    latch: Option<Latch>,
    calls: AtomicU64,
    failed: Mutex<Vec<Call>>,
    passed: Mutex<BTreeMap<Call, u64>>,
}

/// Effect of a write that fails.
#[derive(Clone, Copy, Debug)]
enum Left {
    Nothing,
    Half,
    All,
}

impl Faults {
    /// The `nth` call from here on fails (0: the next), and all after it if `sticky`.
    pub fn nth(nth: u64, fault: Fault, sticky: bool) -> Arc<Faults> {
        Faults::without(&[], nth, fault, sticky)
    }

    /// As [`nth`](Faults::nth), on a file system that does not have these calls: each of them fails
    /// as the kernel says so, and does not count.
    pub fn without(missing: &[Call], nth: u64, fault: Fault, sticky: bool) -> Arc<Faults> {
        Arc::new(Faults::new(missing, nth, fault, sticky))
    }

    fn new(missing: &[Call], nth: u64, fault: Fault, sticky: bool) -> Faults {
        let (calls, failed, passed) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        let (missing, lifted, latch) = (missing.to_vec(), AtomicBool::new(false), None);
        Faults { fault, nth, sticky, missing, lifted, latch, calls, failed, passed }
    }

    /// No call fails, and those that allocate wait at the [latch](Faults::latch).
    pub fn latched() -> Arc<Faults> {
        let faults = Faults::new(&[], u64::MAX, Fault::Io, false);
        Arc::new(Faults { latch: Some(Latch::default()), ..faults })
    }

    /// Returns the latch of [`latched`](Faults::latched).
    ///
    /// # Panics
    /// Without a latch.
    pub fn latch(&self) -> &Latch {
        self.latch.as_ref().expect("there is a latch")
    }

    /// Lets all further calls succeed.
    pub fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
    }

    /// No call fails.
    pub fn none() -> Arc<Faults> {
        Faults::nth(u64::MAX, Fault::Io, false)
    }

    /// How many calls were made of those that can fail.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Which calls failed, in order.
    pub fn failed(&self) -> Vec<Call> {
        lock(&self.failed).clone()
    }

    /// How many calls of a kind were let through.
    pub fn passed(&self, call: Call) -> u64 {
        lock(&self.passed).get(&call).copied().unwrap_or(0)
    }

    /// Counts a call; returns its fault, if any, and the effect of a failed write.
    fn fault(&self, call: Call) -> Option<(Fault, Left)> {
        let concerned = match self.fault {
            Fault::Io | Fault::NoSpace | Fault::Quota => true,
            Fault::Short | Fault::Nothing | Fault::Cut(_) => call == Call::Write,
            Fault::Interrupted => CAN_BE_INTERRUPTED.contains(&call),
            Fault::NoAllocation | Fault::NoBlocks => call == Call::Allocate,
            // `write` decides, because it knows the kind of the write.
            Fault::NoDirectWrites | Fault::NoDurableWrites => false,
        };
        self.fault_if(concerned, call)
    }

    fn fault_if(&self, concerned: bool, call: Call) -> Option<(Fault, Left)> {
        if concerned {
            // Relaxed: a counter; any order of the threads is valid.
            let number = self.calls.fetch_add(1, Ordering::Relaxed);
            let fails = number == self.nth || self.sticky && number > self.nth;
            if fails && !self.lifted.load(Ordering::Relaxed) {
                lock(&self.failed).push(call);
                // Another for each way to fail, so that all of them leave each of a write.
                let way = 2 * u64::from(self.fault == Fault::NoSpace) + u64::from(self.sticky);
                let left = [Left::Nothing, Left::Half, Left::All][((number + way) % 3) as usize];
                return Some((self.fault, left));
            }
        }
        *lock(&self.passed).entry(call).or_default() += 1;
        None
    }

    fn check(&self, call: Call) -> Result<()> {
        if self.missing.contains(&call) {
            return Err(not_there(call));
        }
        self.fault(call).map_or(Ok(()), |(fault, _)| Err(errno(fault)))
    }
}

/// Calls that wait for a device; `open` and `rename` may, and are not tried again.
const CAN_BE_INTERRUPTED: [Call; 5] =
    [Call::Read, Call::Write, Call::SyncData, Call::Allocate, Call::Lock];

fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::NoSpace | Fault::NoBlocks => Errno::NOSPC,
        Fault::Quota => Errno::DQUOT,
        Fault::Io | Fault::Short | Fault::Nothing | Fault::Cut(_) => Errno::IO,
        Fault::Interrupted => Errno::INTR,
        Fault::NoDirectWrites => Errno::INVAL,
        Fault::NoDurableWrites | Fault::NoAllocation => Errno::OPNOTSUPP,
    }
}

/// The kernel's error for a call that a file system does not have.
fn not_there(call: Call) -> Errno {
    match call {
        Call::Rename => Errno::INVAL,
        Call::Link => Errno::PERM,
        Call::Lock => Errno::NOLCK,
        _ => Errno::OPNOTSUPP,
    }
}

/// Wraps a system in faults.
pub trait Failing {
    /// Returns this system, but for the calls that `faults` lets fail.
    #[must_use]
    fn failing(&self, faults: Arc<Faults>) -> System;
}

impl Failing for System {
    fn failing(&self, faults: Arc<Faults>) -> System {
        System::of(Arc::new(FailingFiles { system: self.clone(), faults }))
    }
}

struct FailingFiles {
    system: System,
    faults: Arc<Faults>,
}

impl FailingFiles {
    fn call(&self, call: Call) -> Result<&dyn Files> {
        self.faults.check(call).map(|()| self.system.files())
    }
}

impl fmt::Debug for FailingFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failing").field(&self.system).field(&self.faults).finish()
    }
}

impl Files for FailingFiles {
    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<Box<dyn Handle>> {
        let file = self.call(Call::Open)?.open(path, flags, mode)?;
        Ok(FailingFile::boxed(file, &self.faults, false))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.call(Call::Stat)?.stat(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Rename)?.rename(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Replace)?.replace(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Call::Link)?.link(from, to)
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.call(Call::Unlink)?.unlink(path)
    }

    fn directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let directory = self.call(Call::Open)?.directory(path)?;
        Ok(Box::new(FailingDirectory { directory, faults: Arc::clone(&self.faults) }))
    }

    fn random(&self) -> u64 {
        self.system.random()
    }
}

#[derive(Debug)]
struct FailingDirectory {
    directory: Box<dyn Directory>,
    faults: Arc<Faults>,
}

impl Directory for FailingDirectory {
    fn sync(&self) -> Result<()> {
        self.faults.check(Call::SyncDirectory)?;
        self.directory.sync()
    }

    fn is_fixed(&self) -> Option<char> {
        self.directory.is_fixed()
    }

    fn name_bytes_max(&self) -> Option<usize> {
        self.directory.name_bytes_max()
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Box<dyn Handle>,
    faults: Arc<Faults>,
    /// Written past the page cache: in whole blocks.
    direct: bool,
    /// Bytes that this description's writes replaced and has not synced yet.
    unsynced: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl FailingFile {
    fn boxed(file: Box<dyn Handle>, faults: &Arc<Faults>, direct: bool) -> Box<dyn Handle> {
        let (faults, unsynced) = (Arc::clone(faults), Mutex::default());
        Box::new(FailingFile { file, faults, direct, unsynced })
    }

    fn call(&self, call: Call) -> Result<&dyn Handle> {
        self.faults.check(call).map(|()| &*self.file)
    }

    /// Writes the first bytes of a write.
    fn write_part(
        &self,
        slices: &[IoSlice<'_>],
        mut bytes: usize,
        offset: u64,
        flags: ReadWriteFlags,
    ) -> Result<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        let mut part = Vec::new();
        for slice in slices {
            let here = slice.len().min(bytes);
            part.push(IoSlice::new(&slice[..here]));
            bytes -= here;
        }
        self.remember(&part, offset, flags);
        self.file.write(&part, offset, flags)
    }

    /// Saves the bytes that a write without its own durability will replace.
    fn remember(&self, slices: &[IoSlice<'_>], offset: u64, flags: ReadWriteFlags) {
        if flags.contains(ReadWriteFlags::DSYNC) {
            return;
        }
        let mut old = vec![0; slices.iter().map(|slice| slice.len()).sum()];
        let mut found = 0;
        while let Ok(more @ 1..) = self.file.read(&mut old[found..], offset + found as u64) {
            found += more;
        }
        lock(&self.unsynced).push((offset, old));
    }

    /// Syncs; on failure the file reverts to its state after the last sync.
    fn sync(&self, call: Call) -> Result<&dyn Handle> {
        let checked = self.faults.check(call);
        if checked == Err(Errno::INTR) {
            return Err(Errno::INTR); // nothing was done, and nothing is lost
        }
        let unsynced = std::mem::take(&mut *lock(&self.unsynced));
        let Err(error) = checked else { return Ok(&*self.file) };
        for (offset, old) in unsynced.iter().rev() {
            self.file.write(&[IoSlice::new(old)], *offset, ReadWriteFlags::empty())?;
        }
        Err(error)
    }
}

impl Handle for FailingFile {
    fn stat(&self) -> Result<Stat> {
        self.call(Call::Stat)?.stat()
    }

    fn lock(&self, operation: FlockOperation) -> Result<()> {
        self.call(Call::Lock)?.lock(operation)
    }

    /// Not a call that may fail: its failure would change nothing.
    fn unlock(&self) {
        self.file.unlock();
    }

    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        self.call(Call::Read)?.read(out, offset)
    }

    fn write(&self, slices: &[IoSlice<'_>], offset: u64, flags: ReadWriteFlags) -> Result<usize> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let half = half(bytes, if self.direct { 4096 } else { 8 });
        let failed = match self.faults.fault {
            Fault::NoDirectWrites => self.faults.fault_if(self.direct, Call::Write),
            Fault::NoDurableWrites => {
                let durable = flags.contains(ReadWriteFlags::DSYNC);
                self.faults.fault_if(durable, Call::Write)
            }
            _ => self.faults.fault(Call::Write),
        };
        let Some((fault, left)) = failed else {
            return self.write_part(slices, bytes, offset, flags);
        };
        if fault == Fault::Nothing {
            return Ok(0);
        }
        if fault == Fault::Short {
            return self.write_part(slices, half, offset, flags);
        }
        if let (Fault::Cut(bytes), Some(file)) = (fault, self.file.queried()) {
            rustix::fs::ftruncate(file, bytes)?;
            return self.file.write(slices, offset, flags);
        }
        let left = match left {
            _ if !matches!(fault, Fault::Io | Fault::NoSpace | Fault::Quota) => 0,
            Left::Nothing => 0,
            Left::Half if half < bytes => half,
            Left::Half => 0,
            Left::All => bytes,
        };
        self.write_part(slices, left, offset, flags)?;
        Err(errno(fault))
    }

    fn sync_data(&self) -> Result<()> {
        self.sync(Call::SyncData)?.sync_data()
    }

    fn sync_all(&self) -> Result<()> {
        self.sync(Call::SyncAll)?.sync_all()
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        if let Some(latch) = &self.faults.latch {
            latch.pass();
        }
        self.call(Call::Allocate)?.allocate(offset, bytes)
    }

    fn allocated(&self) -> Result<u64> {
        self.call(Call::Stat)?.allocated()
    }

    fn queried(&self) -> Option<&File> {
        let lists_extents = !self.faults.missing.contains(&Call::Extents);
        if lists_extents { self.file.queried() } else { None }
    }

    fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        self.file.punch(offset, bytes)
    }

    fn available(&self) -> Option<u64> {
        self.call(Call::FileSystem).ok()?.available()
    }

    fn seek(&self, at: Seek) -> Result<u64> {
        self.call(Call::Seek)?.seek(at)
    }

    fn forget_pages(&self) {
        if let Ok(file) = self.call(Call::Advise) {
            file.forget_pages();
        }
    }

    fn reopen_direct(&self, name: &Path) -> Result<Box<dyn Handle>> {
        let file = self.call(Call::Open)?.reopen_direct(name)?;
        Ok(FailingFile::boxed(file, &self.faults, true))
    }

    fn size_limit(&self) -> Option<u64> {
        self.file.size_limit()
    }

    fn fate(&self, name: &Path) -> (Fate, Option<u64>) {
        self.file.fate(name)
    }

    fn keep_open(&self) -> Option<i32> {
        self.file.keep_open()
    }

    fn can_write(&self) -> bool {
        self.file.can_write()
    }

    fn file_system(&self) -> Result<FileSystem> {
        self.call(Call::FileSystem)?.file_system()
    }

    fn is_dax(&self) -> bool {
        self.call(Call::FileSystem).is_ok_and(|file| file.is_dax())
    }

    fn map_source(&self, offset: u64, bytes: usize) -> Result<MapSource<'_>> {
        self.call(Call::Map)?.map_source(offset, bytes)
    }

    fn can_skip_waiting(&self, _offset: u64, _block: &mut [u8]) -> bool {
        false
    }

    fn memory(
        &self,
        offset: u64,
        bytes: usize,
        durable_cache: bool,
    ) -> Option<Box<dyn SimulatedMemory>> {
        self.file.memory(offset, bytes, durable_cache)
    }
}

/// Returns half of a write in whole blocks, but at least one; all of it if it has no two blocks.
fn half(bytes: usize, block: usize) -> usize {
    (bytes / 2 / block * block).max(block).min(bytes)
}

#[cfg(test)]
mod tests;
