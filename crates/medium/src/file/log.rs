//! Log in a file: each group bypasses the page cache and is durable when its write completes.
//!
//! | [`LogPath`] | groups in flight | used when |
//! |---|---|---|
//! | io_uring, direct | 8 | the file system is on a disk |
//! | pwritev2, direct | 1 | io_uring is denied, may start no thread, or blocks on the file system |
//! | pwritev2, page cache | 1 | the file system refuses direct writes, or is in memory |
//! | io_uring, page cache | 8 | requested explicitly: the kernel still writes one at a time |
//!
//! Invariants:
//! - Groups are acknowledged in the order of their appends, each once it is durable.
//! - A group covers whole blocks. No block of an acknowledged record is written again before the
//!   log is recycled.
//! - The description that io_uring writes through holds the file's lock. The lock lasts as long as
//!   any group is in flight, even if the process is killed.
//! - After the first failure no group is accepted. Groups sent before it may still be written, as
//!   after a crash.
//!
//! `RWF_DSYNC` makes the write itself durable (by the device's forced unit access, or a flush).
//! This saves the second system call. On a prewritten file it also saves every metadata write.
//!
//! io_uring is not the default through the page cache, because its workers write one group of a
//! file at a time. Measured with 4 KiB, one / eight in flight, ext4 on a virtual disk: 5 900 /
//! 5 500 groups/s, `pwritev2` 5 600. On tmpfs: 77 us a group, `pwritev2` 0.6.

use zerocopy::IntoBytes;

use super::blocking::{self, Blocking};
use super::in_flight::{Failure, Taken};
use super::simulated_queue::Queued;
use super::target::Target;
use super::uring::{self, Uring};
use crate::area::{Area, PAGE_BYTES, group_words};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::traits::{Counts, LogMedium, LogPath, ReadLog};
use system::Handle;

const BLOCK_BYTES: u64 = PAGE_BYTES;

/// The log in a file. A group costs one durable write.
///
/// ```
/// use medium::{Buffer, FileLog, LogMedium, PoolFile, Prewrite, ReadLog, sync::Arc};
///
/// let dir = tempfile::tempdir()?;
/// let file = PoolFile::create(dir.path().join("bank.log"), 1 << 20, Prewrite::Zeros)?;
/// let log = FileLog::new(Arc::new(file), 4096, (1 << 20) - 4096)?;
/// println!("{}", log.path()); // io_uring, direct
/// let mut group = Buffer::new(512);
/// group.words_mut()[0] = 42;
/// log.append(8192, group, 512)?;
/// assert!(log.acknowledge(true)?.is_some()); // durable
/// let mut words = [0; 2];
/// log.read(8192, &mut words)?;
/// assert_eq!(words, [42, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Any number of threads may append and request acknowledgements. An append never waits for a
/// thread that waits for the device. Dropping the log waits for groups in flight.
#[derive(Debug)]
pub struct FileLog {
    /// First field, because dropping it waits for groups in flight.
    writer: Writer,
    target: Target,
    /// Bytes of the area that the log uses; more after a growth.
    bytes: AtomicU64,
    counts: Mutex<Counts>,
    poisoned: AtomicBool,
}

#[derive(Debug)]
enum Writer {
    Uring(Box<Uring>),
    Blocking(Blocking),
    Queued(Queued),
}

impl FileLog {
    /// The log of `bytes` bytes at `offset` in the file, both in whole pages of 4 KiB, by the
    /// fastest path that system and file system allow.
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::Io`] or [`Error::InUse`] when the file's lock was lost.
    pub fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileLog, Error> {
        // Through the page cache io_uring gains nothing, and memory has nothing beside its cache.
        let in_memory = file.file_system().is_ok_and(|system| system.is_in_memory());
        let log = FileLog::blocking(area(file, offset, bytes)?, bytes, !in_memory);
        let area = log.area();
        let waits = log.target.direct().is_none_or(|direct| !can_skip_waiting(direct, area));
        if waits { Ok(log) } else { log.with_uring() }
    }

    /// As [`new`](FileLog::new), by this path, or by the nearest one below it that system and file
    /// system allow: to measure it, or where the fastest one has trouble.
    ///
    /// # Errors
    /// As [`new`](FileLog::new).
    pub fn with_path(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        path: LogPath,
    ) -> Result<FileLog, Error> {
        let log = FileLog::blocking(area(file, offset, bytes)?, bytes, path.direct);
        if path.io_uring { log.with_uring() } else { Ok(log) }
    }

    fn blocking(area: Area, bytes: u64, direct: bool) -> FileLog {
        let direct = if direct { area.file().reopen_direct() } else { None };
        let direct = direct.filter(|direct| can_read_direct(&**direct, &area));
        FileLog {
            target: Target::new(area, direct),
            writer: Writer::Blocking(Blocking::new()),
            bytes: AtomicU64::new(bytes),
            counts: Mutex::default(),
            poisoned: AtomicBool::new(false),
        }
    }

    fn with_uring(mut self) -> Result<FileLog, Error> {
        if let Some(queue) = self.target.handle().queue() {
            self.writer = Writer::Queued(Queued::new(queue));
        }
        if self.target.handle().kernel().is_none() {
            return Ok(self); // a system that stands for the kernel has no io_uring
        }
        // io_uring writes that a killed process has submitted may complete after its end. If
        // the lock were released by then, such a write could overwrite data that the next
        // opener has acknowledged.
        let is_safe = match self.target.direct() {
            Some(direct) => self.area().file().move_lock(direct)?,
            None => true,
        };
        if let Some(uring) = Uring::new().filter(|_| is_safe) {
            self.writer = Writer::Uring(Box::new(uring));
        }
        Ok(self)
    }

    /// How groups get to the file. Another path than at first when the system did not write a group
    /// by that one: by `pwritev2` where io_uring finds no thread, through the page cache where the
    /// file system refuses a direct write.
    pub fn path(&self) -> LogPath {
        let io_uring = match &self.writer {
            Writer::Blocking(_) => false,
            Writer::Uring(uring) => !uring.is_blocking(),
            Writer::Queued(queued) => !queued.is_blocking(),
        };
        LogPath { io_uring, direct: self.target.direct().is_some() }
    }

    /// Whether groups go past the page cache. Where the file system refuses that they are as
    /// durable, but slower.
    pub fn direct(&self) -> bool {
        self.path().direct
    }

    fn area(&self) -> &Area {
        self.target.area()
    }

    /// Checks that so many words, in whole units, lie in the log at `at`.
    fn check_place(&self, at: u64, words: usize, unit: u64) -> Result<(), Error> {
        let (bytes, log_bytes) = ((words as u64).saturating_mul(8), self.bytes());
        if at.saturating_add(bytes) > log_bytes {
            return Err(Error::OutOfLog { at, bytes, log_bytes, unit });
        }
        self.area().check_log(at, words, unit)
    }

    fn check(&self) -> Result<(), Error> {
        // Relaxed: the flag carries nothing with it.
        if self.poisoned.load(Ordering::Relaxed) { Err(self.area().poisoned()) } else { Ok(()) }
    }

    fn poison_if<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.poisoned.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl ReadLog for FileLog {
    fn bytes(&self) -> u64 {
        // Relaxed: a thread that places a group has seen the growth under the lock of its log.
        self.bytes.load(Ordering::Relaxed)
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES as usize
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        self.check_place(at, out.len(), 8)?;
        self.check()?;
        // By way of the page cache: a direct write leaves nothing stale in it.
        self.poison_if(self.area().file().read_at(self.area().offset(at), out))
    }
}

impl LogMedium for FileLog {
    fn written(&self) -> Option<LogPath> {
        Some(self.path())
    }

    fn unlock(&self) {
        self.target.unlock();
    }

    fn depth(&self) -> usize {
        match &self.writer {
            Writer::Uring(_) | Writer::Queued(_) => uring::DEPTH,
            Writer::Blocking(_) => blocking::DEPTH,
        }
    }

    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error> {
        self.check_place(at, words, BLOCK_BYTES)?;
        group_words(&group, words)?;
        self.check()?;
        let offset = self.area().offset(at);
        match &self.writer {
            Writer::Uring(uring) => uring.append(&self.target, offset, group, words),
            Writer::Blocking(blocking) => blocking.append(offset, group, words),
            Writer::Queued(queued) => queued.append(&self.target, offset, group, words),
        }
        Ok(None)
    }

    fn acknowledge(&self, wait: bool) -> Result<Option<Buffer>, Error> {
        self.check()?;
        let taken = match &self.writer {
            Writer::Uring(uring) => uring.acknowledge(&self.target, wait),
            Writer::Blocking(blocking) => blocking.acknowledge(&self.target, wait),
            Writer::Queued(queued) => queued.acknowledge(&self.target, wait),
        };
        let failed = |Failure { offset, bytes, source }| match source {
            Some(source) => self.area().file().transfer("writing", offset, bytes)(source),
            None => self.area().poisoned(),
        };
        let Some(taken) = self.poison_if(taken.map_err(failed))? else { return Ok(None) };
        let Taken { buffer, bytes, writes } = taken;
        let mut counts = lock(&self.counts);
        counts.bytes += bytes;
        counts.device_writes += writes;
        counts.persist_barriers += 1;
        Ok(Some(buffer))
    }

    fn counts(&self) -> Counts {
        *lock(&self.counts)
    }

    fn bytes_max(&self) -> u64 {
        self.area().bytes()
    }

    fn reserve(&self, bytes: u64) -> Result<(), Error> {
        self.check()?;
        let (used, end) = (self.area().offset(self.bytes()), self.area().offset(bytes));
        self.area().file().grow(used, end)
    }

    fn extend(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Most bytes of a log that grows: 1 TiB.
const GROWN_BYTES_MAX: u64 = 1 << 40;

/// Returns the log's area, with room for its growth.
fn area(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<Area, Error> {
    Area::with_room(file, offset, bytes, bytes.max(GROWN_BYTES_MAX))
}

/// Some file systems take the flag and refuse the transfer; ask before it matters. Only a write
/// shows whether writes are taken, and the first one of a group does (see `target`).
fn can_read_direct(direct: &dyn Handle, area: &Area) -> bool {
    let mut block = Buffer::new(BLOCK_BYTES as usize / 8);
    direct.read(block.words_mut().as_mut_bytes(), area.offset(0)).is_ok()
}

/// Returns whether the file system starts a transfer without waiting for its end. A file system
/// that cannot blocks a kernel thread for each group, which is slower than blocking the caller.
/// A read tests this: the kernel keeps one flag for both directions (`FMODE_NOWAIT`), and a wrong
/// result costs only time.
fn can_skip_waiting(direct: &dyn Handle, area: &Area) -> bool {
    let mut block = Buffer::new(BLOCK_BYTES as usize / 8);
    direct.can_skip_waiting(area.offset(0), block.words_mut().as_mut_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::sync::thread;
    use crate::{Prewrite, System};
    use faults::{Call, Failing, Fault, Faults};

    const PATHS: [LogPath; 4] = [
        LogPath { io_uring: true, direct: true },
        LogPath { io_uring: true, direct: false },
        LogPath { io_uring: false, direct: true },
        LogPath { io_uring: false, direct: false },
    ];

    fn by(path: LogPath) -> impl Fn(Arc<PoolFile>, u64, u64) -> Result<FileLog, Error> {
        move |file, offset, bytes| FileLog::with_path(file, offset, bytes, path)
    }

    /// As if the device wrote no more than a block at a time.
    fn in_pieces(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileLog, Error> {
        let mut log = by(PATHS[0])(file, offset, bytes)?;
        if let Some(uring) = Uring::new() {
            log.writer = Writer::Uring(Box::new(uring.with_write_bytes_max(4096)));
        }
        Ok(log)
    }

    #[test]
    fn appended_groups_are_read_back_unchanged() {
        PATHS.into_iter().for_each(|path| suite::log_keeps_every_group(by(path)));
        suite::log_keeps_every_group(FileLog::new);
        suite::log_keeps_every_group(in_pieces);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        PATHS.into_iter().for_each(|path| suite::log_refuses_wrong_ranges(by(path)));
    }

    #[test]
    fn a_group_is_one_write_and_one_barrier() {
        for path in PATHS {
            let (_dir, file) = suite::pool();
            let log = by(path)(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
            assert!(log.acknowledge(true).unwrap().is_none());
            log.append(0, Buffer::new(1024), 1024).unwrap();
            assert!(log.acknowledge(true).unwrap().is_some());
            let counts = log.counts();
            assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (8192, 1, 1));
            assert_eq!(counts.emulated_delay_ns, 0);
        }
    }

    #[test]
    fn a_failed_write_ends_everything() {
        let (_dir, file) = suite::pool_for_reading();
        for log in PATHS.map(|path| by(path)(file.clone(), 0, 8192).unwrap()) {
            let mut word = [0];
            log.read(0, &mut word).unwrap();
            log.append(0, Buffer::new(512), 512).unwrap();
            let error = log.acknowledge(true).unwrap_err();
            assert!(matches!(error, Error::Transfer { operation: "writing", .. }), "{error}");
            for _ in 0..2 {
                let append = log.append(0, Buffer::new(512), 512).map(drop);
                let acknowledge = log.acknowledge(true).map(drop);
                for result in [append, acknowledge, log.read(0, &mut word)] {
                    assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
                }
            }
            assert_eq!(log.counts(), Counts::default());
        }
    }

    #[test]
    fn requested_log_path_is_an_upper_bound() {
        let (_dir, file) = suite::pool();
        let best = by(PATHS[0])(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap().path();
        for path in PATHS {
            let taken = by(path)(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap().path();
            assert_eq!(taken.io_uring, path.io_uring && best.io_uring);
            assert_eq!(taken.direct, path.direct && best.direct);
        }
        let names = PATHS.map(|path| path.to_string());
        let [uring, cached, blocking, plain] = names.each_ref().map(String::as_str);
        assert_eq!([uring, cached], ["io_uring, direct", "io_uring, page cache"]);
        assert_eq!([blocking, plain], ["pwritev2, direct", "pwritev2, page cache"]);
    }

    #[test]
    fn files_in_memory_are_written_without_detours() {
        let dir = tempfile::tempdir_in("/dev/shm");
        let Some(dir) = suite::or_skip(dir, "/dev/shm") else { return };
        let file = PoolFile::create(dir.path().join("log"), 1 << 16, Prewrite::Zeros).unwrap();
        if file.file_system().unwrap().is_in_memory() {
            let log = FileLog::new(Arc::new(file), 0, 1 << 16).unwrap();
            assert_eq!(log.path(), PATHS[3]);
        }
    }

    #[test]
    fn groups_outlive_the_thread_that_sent_them() {
        for path in PATHS {
            let (_dir, file) = suite::pool();
            let log = by(path)(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
            for wrap in 1..=8 {
                let send = |at: usize| {
                    let mut group = Buffer::new(4096);
                    group.words_mut().fill(wrap * 100 + at as u64);
                    log.append(at as u64 * 32768, group, 4096).unwrap();
                };
                // The thread ends with its writes in flight; some systems cancel them then.
                thread::scope(|scope| scope.spawn(|| (0..log.depth()).for_each(send)).join())
                    .unwrap();
                for at in 0..log.depth() {
                    let group = log.acknowledge(true).unwrap().unwrap();
                    let mut back = vec![0; 4096];
                    log.read(at as u64 * 32768, &mut back).unwrap();
                    assert!(group.words() == back && back == [wrap * 100 + at as u64; 4096]);
                }
            }
        }
    }

    /// Returns a log on a system that refuses a fault's calls from the first write on, and the
    /// system's counters.
    fn refused(fault: Fault, path: LogPath) -> (FileLog, Arc<Faults>) {
        let (dir, file) = suite::pool();
        drop(file);
        let faults = Faults::nth(0, fault, true);
        let system = System::kernel().failing(Arc::clone(&faults));
        let file = Arc::new(PoolFile::open_on(&system, dir.path().join("pool")).unwrap());
        let log = by(path)(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        assert_eq!(log.path(), LogPath { io_uring: false, ..log.path() });
        for number in 0..3 {
            let mut group = Buffer::new(512);
            group.words_mut().fill(number + 1);
            log.append(number * 4096, group, 512).unwrap();
            assert!(log.acknowledge(true).unwrap().is_some());
            let mut found = [0; 512];
            log.read(number * 4096, &mut found).unwrap();
            assert!(found == [number + 1; 512]);
        }
        (log, faults)
    }

    #[test]
    fn refused_direct_write_goes_through_page_cache() {
        let (log, faults) = refused(Fault::NoDirectWrites, PATHS[2]);
        assert!(!log.direct(), "{}", log.path());
        // One with and one without `RWF_DSYNC`, of the first group; none of the others.
        let tried = faults.failed();
        assert!(tried.is_empty() || tried == [Call::Write; 2], "{tried:?}");
        assert_eq!(faults.passed(Call::Write), 3);
        assert_eq!(faults.passed(Call::SyncData), 0);
    }

    #[test]
    fn refused_dsync_is_a_write_and_a_sync() {
        for path in [PATHS[2], PATHS[3]] {
            let (log, faults) = refused(Fault::NoDurableWrites, path);
            assert_eq!(log.path(), by(path)(suite::pool().1, 0, 4096).unwrap().path());
            assert_eq!(faults.failed(), [Call::Write; 3]);
            assert_eq!((faults.passed(Call::Write), faults.passed(Call::SyncData)), (3, 3));
        }
    }

    #[test]
    fn endless_interruption_of_a_group_is_an_error() {
        let (dir, file) = suite::pool();
        drop(file);
        // open, stat, lock, stat are not counted where they cannot be interrupted: the lock is.
        let faults = Faults::nth(1, Fault::Interrupted, true);
        let system = System::kernel().failing(Arc::clone(&faults));
        let file = Arc::new(PoolFile::open_on(&system, dir.path().join("pool")).unwrap());
        let log = by(PATHS[3])(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
        log.append(0, Buffer::new(512), 512).unwrap();
        let error = log.acknowledge(true).unwrap_err();
        assert!(error.to_string().contains("keep signals from"), "{error}");
        assert_eq!(faults.failed(), [Call::Write; 1000]);
        assert!(matches!(log.acknowledge(true), Err(Error::Poisoned { .. })));
    }

    #[test]
    fn dropped_log_leaves_groups_in_flight_whole() {
        for path in PATHS {
            let (_dir, file) = suite::pool();
            let log = by(path)(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap();
            for at in 0..log.depth() as u64 {
                let mut group = Buffer::new(4096);
                group.words_mut().fill(at + 1);
                log.append(at * 32768, group, 4096).unwrap();
            }
            let sent = log.path().io_uring;
            let depth = log.depth() as u64;
            drop(log);
            for at in 0..depth {
                let mut back = vec![0; 4096];
                file.read_at(HEAP_OFFSET + at * 32768, &mut back).unwrap();
                assert!(back == [if sent { at + 1 } else { 0 }; 4096]);
            }
        }
    }

    /// A killed process's last writes may complete after its end. The next owner of the lock must
    /// come after them.
    #[test]
    fn lock_lasts_until_writes_complete() {
        let (_dir, file) = suite::pool();
        let log = FileLog::new(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap();
        let relock = || {
            let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            rustix::fs::flock(file.handle().kernel().unwrap(), lock)
        };
        // The lock belongs to the open file description of the writes, not to the one of `open`.
        let elsewhere = log.path() == LogPath { io_uring: true, direct: true };
        assert_eq!(relock().is_err(), elsewhere, "{}", log.path());
        drop(log);
        relock().unwrap();
    }

    #[test]
    fn threads_append_and_acknowledge_at_the_same_time() {
        for path in PATHS {
            let (_dir, file) = suite::pool();
            let log = by(path)(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
            let in_flight = Mutex::new(0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0..400_u64 {
                        while *lock(&in_flight) == log.depth() {
                            thread::yield_now();
                        }
                        *lock(&in_flight) += 1;
                        let mut group = Buffer::new(512);
                        group.words_mut()[0] = number;
                        log.append(number % 16 * 4096, group, 512).unwrap();
                    }
                });
                for number in 0..400 {
                    let group = loop {
                        match log.acknowledge(number % 3 > 0).unwrap() {
                            Some(group) => break group,
                            None => thread::yield_now(),
                        }
                        if let Some(group) = log.acknowledge(true).unwrap() {
                            break group;
                        }
                    };
                    assert_eq!(group.words()[0], number);
                    *lock(&in_flight) -= 1;
                }
            });
            assert_eq!(log.counts().persist_barriers, 400);
        }
    }
}
