//! System calls of a recorded machine.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, Result};
use system::{
    Directory, FileSystem, Files, Handle, MapSource, Seek, SimulatedMemory, SimulatedQueue, Stat,
};

use super::lines::Way;
use super::machine::{Ask, Halt, Machine, Model};
use super::{Recorder, cut};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A machine in one of its boots.
#[derive(Clone)]
struct Boot {
    recorder: Recorder,
    boot: u64,
}

impl Boot {
    /// Does something with the machine, if it is still this boot; unwinds when the power goes.
    fn with<R, H: Into<Halt>>(
        &self,
        call: impl FnOnce(&mut Machine) -> std::result::Result<R, H>,
    ) -> Result<R> {
        let answer = {
            let mut machine = lock(&self.recorder.machine);
            if machine.boot() != self.boot {
                return Err(Errno::IO); // the machine that asks is off
            }
            call(&mut machine).map_err(Into::into)
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(Halt::Errno(errno)) => Err(errno),
            Err(Halt::Crash) => cut(),
        }
    }
}

/// The names of a recorded machine.
pub(super) struct Recorded(Boot);

impl Recorded {
    pub(super) fn new(recorder: Recorder) -> Recorded {
        let boot = recorder.boots();
        Recorded(Boot { recorder, boot })
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded")
    }
}

impl Files for Recorded {
    fn open(&self, path: &Path, flags: OFlags, _mode: Mode) -> Result<Box<dyn Handle>> {
        let can_write = flags & OFlags::RWMODE == OFlags::RDWR;
        let (inode, handle) = self.0.with(|machine| {
            machine.may_fail()?;
            let inode = match machine.find(path) {
                Some(_) if flags.contains(OFlags::EXCL) => Err(Errno::EXIST),
                Some(inode) => Ok(inode),
                None if flags.contains(OFlags::CREATE) => Ok(machine.create(path)),
                None => Err(Errno::NOENT),
            };
            inode.map(|inode| (inode, machine.handle()))
        })?;
        Ok(Box::new(RecordedFile { boot: self.0.clone(), inode, handle, can_write, direct: false }))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.0.with(|machine| {
            machine.find(path).map(|inode| stat(machine, inode)).ok_or(Errno::NOENT)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.with(|machine| machine.may_fail().and_then(|()| machine.rename(from, to)))
    }

    fn replace(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.with(|machine| machine.may_fail().and_then(|()| machine.replace(from, to)))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.with(|machine| machine.may_fail().and_then(|()| machine.link(from, to)))
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.0.with(|machine| machine.may_fail().and_then(|()| machine.unlink(path)))
    }

    fn directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        Ok(Box::new(RecordedDirectory { boot: self.0.clone(), path: path.into() }))
    }

    fn random(&self) -> u64 {
        lock(&self.0.recorder.machine).random()
    }
}

/// An open directory of a recorded machine.
struct RecordedDirectory {
    boot: Boot,
    path: PathBuf,
}

impl fmt::Debug for RecordedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordedDirectory").field(&self.path).finish()
    }
}

impl Directory for RecordedDirectory {
    fn sync(&self) -> Result<()> {
        self.boot.with(|machine| -> std::result::Result<(), Halt> {
            machine.before_barrier()?;
            machine.may_fail()?;
            machine.sync_names(&self.path);
            Ok(())
        })
    }
}

fn stat(machine: &Machine, inode: usize) -> Stat {
    let bytes = machine.inode(inode).bytes();
    Stat { is_regular: true, identity: (0, inode as u64), bytes }
}

/// An open file of a recorded machine.
struct RecordedFile {
    boot: Boot,
    inode: usize,
    handle: u64,
    can_write: bool,
    /// Writes past the page cache.
    direct: bool,
}

impl fmt::Debug for RecordedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedFile").field("inode", &self.inode).finish_non_exhaustive()
    }
}

impl RecordedFile {
    /// Returns the file system's error for an unsupported write, which has no effect.
    fn refusal(&self, model: &Model, durable: bool) -> Option<Errno> {
        match () {
            () if self.direct && !model.direct => Some(Errno::INVAL),
            () if durable && !model.dsync => Some(Errno::OPNOTSUPP),
            () => None,
        }
    }

    fn sync(&self) -> Result<()> {
        self.boot.with(|machine| -> std::result::Result<(), Halt> {
            machine.before_barrier()?;
            machine.trace(|say| say(format_args!("sync file {}", self.inode)));
            let failed = machine.may_fail();
            machine.with_inode(self.inode, |machine, inode| match failed {
                Ok(()) => {
                    inode.see(machine);
                    inode.settle(machine, 0..u64::MAX);
                }
                Err(_) => inode.fail_sync(0..u64::MAX),
            });
            failed?;
            machine.settle_lines(self.inode);
            Ok(())
        })
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        let _ = self.boot.with(|machine| -> Result<()> {
            machine.with_inode(self.inode, |_, inode| inode.unlock(self.handle));
            Ok(())
        });
    }
}

impl Handle for RecordedFile {
    fn stat(&self) -> Result<Stat> {
        self.boot.with(|machine| machine.may_fail().map(|()| stat(machine, self.inode)))
    }

    fn lock(&self, operation: FlockOperation) -> Result<()> {
        self.boot.with(|machine| {
            machine.with_inode(self.inode, |_, inode| match operation {
                FlockOperation::NonBlockingLockExclusive => inode.lock(self.handle, true),
                FlockOperation::NonBlockingLockShared => inode.lock(self.handle, false),
                _ => {
                    inode.unlock(self.handle);
                    Ok(())
                }
            })
        })
    }

    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        self.boot.with(|machine| {
            machine.may_fail()?;
            let read = |machine: &mut Machine, inode: &mut super::sectors::Inode| {
                inode.read(machine, offset, out)
            };
            Ok::<_, Errno>(machine.with_inode(self.inode, read))
        })
    }

    fn write(&self, slices: &[IoSlice<'_>], offset: u64, flags: ReadWriteFlags) -> Result<usize> {
        if !self.can_write {
            return Err(Errno::BADF);
        }
        // By slices: byte by byte this copy took half of the time of a crash test of creation.
        let mut bytes = Vec::with_capacity(slices.iter().map(|slice| slice.len()).sum());
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        self.boot.with(|machine| -> std::result::Result<usize, Halt> {
            let durable = flags.contains(ReadWriteFlags::DSYNC);
            if let Some(errno) = self.refusal(&machine.model, durable) {
                return Err(errno.into());
            }
            let fault = machine.fault(if bytes.len() < 1024 { 2 } else { 3 });
            if fault == 2 {
                bytes.truncate(half(bytes.len()));
            } else if fault == 1 {
                // A8: none, half or all of it is written.
                let mut left = vec![0, half(bytes.len()), bytes.len()];
                left.dedup();
                bytes.truncate(left[machine.choose(Ask::Content, left.len())]);
            }
            let end = offset + bytes.len() as u64;
            machine.trace(|say| {
                let how = if durable { "durably " } else { "" };
                say(format_args!("{how}write file {}, {offset}..{end}", self.inode));
            });
            let write = |machine: &mut Machine, inode: &mut super::sectors::Inode| {
                inode.write(machine, offset, &bytes, durable)
            };
            machine.with_inode(self.inode, write);
            machine.after_store()?;
            if durable {
                machine.before_barrier()?;
            }
            if durable {
                machine.with_inode(self.inode, |machine, inode| {
                    inode.land(offset..end);
                    if fault == 1 {
                        inode.fail_sync(offset..end);
                    } else {
                        inode.settle(machine, offset..end);
                    }
                });
            }
            if fault == 1 {
                return Err(Errno::IO.into());
            }
            Ok(bytes.len())
        })
    }

    fn sync_data(&self) -> Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> Result<()> {
        self.sync()
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        let end = offset + bytes;
        self.boot.with(|machine| -> std::result::Result<(), Halt> {
            if machine.fault(2) != 0 {
                return Err(Errno::NOSPC.into());
            }
            machine.with_inode(self.inode, |_, inode| inode.allocate(end));
            machine.changed();
            machine.after_store()
        })
    }

    /// Its files have no holes: a page that holds nothing is zeros that are allocated.
    fn allocated(&self) -> Result<u64> {
        self.boot.with(|machine| Ok::<_, Errno>(machine.inode(self.inode).bytes()))
    }

    fn available(&self) -> Option<u64> {
        None
    }

    fn seek(&self, at: Seek) -> Result<u64> {
        let (at, data) = match at {
            Seek::Data(at) => (at, true),
            Seek::Hole(at) => (at, false),
        };
        self.boot.with(|machine| {
            let found = machine.inode(self.inode).next_page(at, data);
            found.ok_or(Errno::NXIO)
        })
    }

    fn forget_pages(&self) {
        let _ = self.boot.with(|machine| -> Result<()> {
            machine.with_inode(self.inode, |machine, inode| inode.forget(machine));
            Ok(())
        });
    }

    fn reopen_direct(&self, _name: &Path) -> Result<Box<dyn Handle>> {
        let handle = self.boot.with(|machine| Ok::<_, Errno>(machine.handle()))?;
        let (boot, inode) = (self.boot.clone(), self.inode);
        let can_write = self.can_write;
        Ok(Box::new(RecordedFile { boot, inode, handle, can_write, direct: true }))
    }

    fn can_write(&self) -> bool {
        self.can_write
    }

    fn file_system(&self) -> Result<FileSystem> {
        Ok(FileSystem::simulated())
    }

    fn is_dax(&self) -> bool {
        true
    }

    fn map_source(&self, offset: u64, bytes: usize) -> Result<MapSource<'_>> {
        let copy = self.boot.with(|machine| {
            machine.with_inode(self.inode, |machine, inode| {
                inode.mirror(machine, offset, bytes as u64)
            })
        })?;
        Ok(MapSource::Copy(copy))
    }

    fn can_skip_waiting(&self, _offset: u64, _block: &mut [u8]) -> bool {
        self.boot.with(|machine| Ok::<_, Errno>(machine.model.queue)).unwrap_or(false)
    }

    fn queue(&self) -> Option<Box<dyn SimulatedQueue>> {
        let file = RecordedFile {
            boot: self.boot.clone(),
            inode: self.inode,
            handle: 0,
            can_write: true,
            direct: self.direct,
        };
        Some(Box::new(Queue { file, in_flight: Mutex::default() }))
    }

    fn memory(
        &self,
        offset: u64,
        bytes: usize,
        durable_cache: bool,
    ) -> Option<Box<dyn SimulatedMemory>> {
        let (boot, inode) = (self.boot.clone(), self.inode);
        Some(Box::new(RecordedArea { boot, inode, offset, words: bytes / 8, durable_cache }))
    }
}

/// Where a write that is cut short ends: between sectors.
fn half(bytes: usize) -> usize {
    bytes / 1024 * 512
}

/// Write in flight.
#[derive(Debug)]
struct Write {
    number: u64,
    offset: u64,
    bytes: u64,
    /// The file system does not know such a write, and does nothing of it.
    refusal: Option<Errno>,
}

/// Durable writes that are sent and complete later, in any order (A6).
#[derive(Debug)]
struct Queue {
    file: RecordedFile,
    in_flight: Mutex<VecDeque<Write>>,
}

impl SimulatedQueue for Queue {
    fn submit(&self, number: u64, offset: u64, bytes: &[u8]) {
        let RecordedFile { boot, inode, .. } = &self.file;
        let refusal = boot.with(|machine| Ok::<_, Errno>(self.file.refusal(&machine.model, true)));
        let refusal = refusal.unwrap_or(None);
        // A machine that is off completes nothing.
        let _ = boot.with(|machine| {
            if refusal.is_some() {
                return Ok(());
            }
            machine.trace(|say| {
                let end = offset + bytes.len() as u64;
                say(format_args!("send write {number} to file {inode}, {offset}..{end}"));
            });
            machine.with_inode(*inode, |machine, inode| inode.write(machine, offset, bytes, true));
            machine.after_store()
        });
        let bytes = bytes.len() as u64;
        lock(&self.in_flight).push_back(Write { number, offset, bytes, refusal });
    }

    fn completion(&self, wait: bool) -> Option<(u64, Result<usize>)> {
        let mut in_flight = lock(&self.in_flight);
        let oldest = in_flight.front()?.number;
        let RecordedFile { boot, inode, .. } = &self.file;
        let completed = boot.with(|machine| -> std::result::Result<_, Halt> {
            machine.before_barrier()?;
            let options = in_flight.len() + usize::from(!wait);
            let which = machine.choose(Ask::Completion, options);
            let Some(write) = in_flight.get(which) else { return Ok(None) };
            let number = write.number;
            if let Some(errno) = write.refusal {
                in_flight.remove(which);
                return Ok(Some((number, Err(errno))));
            }
            let fault = machine.fault(if write.bytes < 1024 { 2 } else { 3 });
            let Some(write) = in_flight.get(which) else { return Ok(None) };
            machine.trace(|say| say(format_args!("write {number} completes, fault {fault}")));
            let bytes = if fault == 0 { write.bytes } else { half(write.bytes as usize) as u64 };
            let sent = write.offset..write.offset + write.bytes;
            in_flight.remove(which);
            machine.with_inode(*inode, |machine, inode| {
                inode.land(sent.clone());
                match fault {
                    1 => inode.fail_sync(sent),
                    _ => inode.settle(machine, sent.start..sent.start + bytes),
                }
            });
            let result = if fault == 1 { Err(Errno::IO) } else { Ok(bytes as usize) };
            Ok(Some((number, result)))
        });
        completed.unwrap_or(Some((oldest, Err(Errno::IO))))
    }
}

impl Drop for Queue {
    /// Completes the writes in flight; nothing is reported.
    fn drop(&mut self) {
        let in_flight = std::mem::take(&mut *lock(&self.in_flight));
        let RecordedFile { boot, inode, .. } = &self.file;
        let _ = boot.with(|machine| -> Result<()> {
            machine.with_inode(*inode, |_, inode| {
                for Write { offset, bytes, refusal, .. } in in_flight {
                    if refusal.is_some() {
                        continue;
                    }
                    inode.land(offset..offset + bytes);
                }
            });
            Ok(())
        });
    }
}

/// Numbers of threads: a fence is a thread's own (A3).
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    std::thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// A part of a file as memory.
struct RecordedArea {
    boot: Boot,
    inode: usize,
    offset: u64,
    words: usize,
    /// The cache survives a power failure (A4).
    durable_cache: bool,
}

impl fmt::Debug for RecordedArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedArea").field("inode", &self.inode).finish_non_exhaustive()
    }
}

impl RecordedArea {
    fn at(&self, first: usize, words: usize) -> u64 {
        assert!(first + words <= self.words, "a store leaves the mapping");
        self.offset + 8 * first as u64
    }

    /// Checks that the machine is on; unwinds the thread that cuts the power. Memory returns no
    /// errors: a store on a machine that is off is lost. Other threads may still see the store, as
    /// on a processor whose power is failing. No thread takes it for durable, because none returns
    /// from a fence.
    fn with<H: Into<Halt>>(
        &self,
        call: impl FnOnce(&mut Machine) -> std::result::Result<(), H>,
    ) -> bool {
        self.boot.with(call).is_ok()
    }

    /// The same for destructors, which cannot unwind. Returns whether the machine is on.
    fn with_power<H: Into<Halt>>(
        &self,
        call: impl FnOnce(&mut Machine) -> std::result::Result<(), H>,
    ) -> bool {
        let is_on = self.with(call);
        if !is_on && !std::thread::panicking() {
            cut();
        }
        is_on
    }

    fn put(&self, first: usize, words: &[u64], way: Way) {
        let at = self.at(first, words.len());
        self.with(|machine| {
            machine.trace(|say| {
                let end = at + 8 * words.len() as u64;
                say(format_args!("{way:?} store to file {}, {at}..{end}", self.inode));
            });
            machine.with_inode(self.inode, |machine, inode| {
                machine.store(inode, at, words, way, thread());
            });
            machine.after_store()
        });
    }
}

impl SimulatedMemory for RecordedArea {
    fn store(&self, first: usize, words: &[u64]) {
        self.put(first, words, if self.durable_cache { Way::Durable } else { Way::Cached });
    }

    fn stream(&self, first: usize, words: &[u64]) {
        self.put(first, words, Way::Streamed);
    }

    fn write_back(&self, word: usize) {
        let at = self.at(word, 0);
        self.with(|machine| -> Result<()> {
            machine.write_back(self.inode, at, thread());
            Ok(())
        });
    }

    fn fence(&self) -> bool {
        self.with_power(|machine| {
            machine.trace(|say| say(format_args!("fence")));
            machine.fence(thread())
        })
    }

    fn is_off(&self) -> bool {
        self.boot.with(|_| Ok::<(), Errno>(())).is_err()
    }

    fn read(&self, first: usize, out: &mut [u64]) {
        use zerocopy::IntoBytes;
        let at = self.at(first, out.len());
        self.with_power(|machine| -> Result<()> {
            machine.with_inode(self.inode, |machine, inode| {
                inode.read(machine, at, out.as_mut_bytes())
            });
            Ok(())
        });
    }
}
