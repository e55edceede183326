//! How a pool is made and opened.

use std::time::Duration;

use medium::System;

use crate::Error;
use crate::persist::UNBOUNDED_WORDS;
use crate::superblock::{LAYOUT_BYTES, padded};

/// What makes a pool's bytes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// Two files, NAME and NAME.log, on any file system. Survives a power cut where the file
    /// system and the disk keep their word about flushes.
    File,
    /// Persistent memory: one mapped file on a file system mounted with `-o dax`. Survives a power
    /// cut.
    Dax,
    /// Memory that is kept with its caches when the power fails, by the machine or the device
    /// (eADR, a battery, CXL global persistent flush): one mapped file in it. That it is so is for
    /// the user to know; no program can find out.
    PersistentCache,
    /// One mapped file, best on tmpfs, with the costs of persistent memory imitated: each persist
    /// barrier takes max(latency, bytes / bandwidth). For experiments: it survives the process, not
    /// the machine.
    Emulated {
        /// Cycles of the time-stamp counter that a barrier takes at least.
        latency_cycles: u64,
        /// Bytes a second that all threads share; 0 for no bound.
        bandwidth_bytes_per_second: u64,
    },
}

impl Medium {
    /// Its name, as the superblock and the command line say it.
    pub fn name(self) -> &'static str {
        match self {
            Medium::File => "file",
            Medium::Dax => "dax",
            Medium::PersistentCache => "persistent_cache",
            Medium::Emulated { .. } => "emulated",
        }
    }

    /// The medium of that name; an emulated one without delay.
    pub(crate) fn named(name: &str) -> Option<Medium> {
        let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
        [Medium::File, Medium::Dax, Medium::PersistentCache, emulated]
            .into_iter()
            .find(|medium| medium.name() == name)
    }

    /// Whether the log is in the pool's own file, because it is mapped.
    pub(crate) fn log_inside(self) -> bool {
        self != Medium::File
    }
}

/// When a commit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// At once; the ticket tells when it is durable.
    #[default]
    Async,
    /// When it is durable. Workers that commit at the same time share a flush.
    Sync,
}

/// The memory that transactions work on, in front of the heap at home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shadow {
    /// As large as the heap, filled when the pool is opened: opening reads the whole heap, an
    /// access never waits for the disk, and a sector that cannot be read is an error of `open`.
    #[default]
    Full,
    /// A private mapping of the pool's file: opening is instant, a page is read when it is first
    /// used and copied when it is first written, and a page that was never written takes no memory
    /// of the process. A sector that cannot be read kills the process (`SIGBUS`), and so does
    /// memory that cannot be had for a copy.
    CopyOnWrite,
    /// Pages that are read when they are first used, with a table that says where they are: for
    /// [`DecoupledSoftware`](crate::DecoupledSoftware). Opening is instant. A sector that cannot be
    /// read poisons the pool.
    Software,
}

/// What a pool is like; see each method for its default.
///
/// ```
/// use lastword::Options;
///
/// let options = Options::new().bytes(1 << 30).layout("ledger", 3);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) heap_bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) ring_entries: u64,
    pub(crate) ownership_records: u64,
    pub(crate) unbounded: bool,
    pub(crate) ideal_reproduce: bool,
    pub(crate) medium: Option<Medium>,
    pub(crate) durability: Durability,
    pub(crate) layout: String,
    pub(crate) layout_version: u64,
    pub(crate) background: bool,
    pub(crate) shadow: Shadow,
    pub(crate) reproduce_threads: usize,
    pub(crate) pause: Duration,
    pub(crate) group: u64,
    pub(crate) group_time: Duration,
    pub(crate) compress: bool,
    pub(crate) persist_threads: usize,
    pub(crate) shadow_bytes: Option<u64>,
    pub(crate) observed: bool,
    pub(crate) flush_diff: bool,
    pub(crate) recycle_every: u64,
    pub(crate) unlogged: bool,
    pub(crate) patience: Duration,
    pub(crate) without_log: bool,
    pub(crate) system: System,
}

/// How long a combined group waits for more transactions, when nobody waits for it.
const GROUP_TIME: Duration = Duration::from_millis(1);

/// How long a worker of `snapshot` waits for room. Chosen, not measured: far longer than any
/// transaction that is meant to be one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Threads that make groups ready. On two cores a second one brought nothing on files and cost up
/// to an eighth of the rate on `emulated`: docs/performance.md, "Threads behind".
const PERSIST_THREADS: usize = 1;

/// Threads that bring home, unless told otherwise. On two cores two were now better, now worse,
/// and took more CPU for each word: docs/performance.md, "Threads behind".
const REPRODUCE_THREADS: usize = 1;

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The defaults: 64 MiB of heap, 64 MiB of log, on a file, asynchronous.
    pub fn new() -> Options {
        Options {
            heap_bytes: 64 << 20,
            log_bytes: 64 << 20,
            ring_entries: 1 << 20,
            ownership_records: 0,
            unbounded: false,
            ideal_reproduce: false,
            medium: None,
            durability: Durability::Async,
            layout: String::new(),
            layout_version: 0,
            background: true,
            shadow: Shadow::Full,
            reproduce_threads: REPRODUCE_THREADS,
            group: 0,
            group_time: GROUP_TIME,
            compress: false,
            persist_threads: PERSIST_THREADS,
            shadow_bytes: None,
            observed: false,
            flush_diff: true,
            recycle_every: 0,
            unlogged: false,
            patience: PATIENCE,
            without_log: false,
            pause: crate::persist::NAP,
            system: System::kernel(),
        }
    }

    /// Size of the heap in bytes, when the pool is created; rounded up to 64 KiB, at least 128 KiB.
    /// Default 64 MiB. The pool takes as much memory again, and as much disk.
    pub fn bytes(mut self, bytes: u64) -> Options {
        self.heap_bytes = bytes;
        self
    }

    /// Size of the log in bytes, when the pool is created; rounded up to 4 KiB, at least 128 KiB.
    /// Default 64 MiB. A larger log lets more writes to one page be gathered before it is written
    /// home; up to as much memory again may be in use meanwhile. It bounds a transaction: under
    /// `decoupled` to a quarter of it in written bytes (and see
    /// [`ring_entries`](Options::ring_entries)); under the other designs to a worker's slot, a 64th
    /// of 4 MiB or more, which records fill with headers of their own.
    /// Where groups are [compressed](Options::compress) the log holds as many as without: what it
    /// is spared is to be written.
    pub fn log_bytes(mut self, bytes: u64) -> Options {
        self.log_bytes = bytes;
        self
    }

    /// Entries of 16 bytes in each worker's volatile ring; rounded up to a power of two, at least
    /// 1024 and at most 2^32. Default 2^20, as in the DudeTM paper. The pages are taken when they
    /// are first used. It may differ at each opening. It bounds a transaction: 8 bytes of what it
    /// writes for each entry, 8 MiB by default; the next limit is half the
    /// [log](Options::log_bytes). Under `snapshot` so much memory keeps a worker's copies, at least
    /// 1 MiB; `undo` and `redo` have no ring.
    pub fn ring_entries(mut self, entries: u64) -> Options {
        self.ring_entries = entries;
        self
    }

    /// Ownership records: the locks of the transactional memory, each for the stripes of 512 bytes
    /// whose numbers have the same remainder. Rounded up to a power of two, at most 2^26, and never
    /// more than the heap has stripes. 0, the default: one for each stripe, at most 2^18 for each
    /// core. Transactions of w stripes meet in a record that they do not both need with a
    /// probability of about w * w / (2 * records); more records make that rarer and take 8 bytes of
    /// memory each, once they are used. (`decoupled`, `undo`, `redo`, `volatile`; `snapshot` locks
    /// objects.)
    ///
    /// ```
    /// use lastword::{Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("large.pool");
    /// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// let pool = Pool::create(&path, options.ownership_records(1 << 20))?;
    /// pool.run(|_| Ok(()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ownership_records(mut self, records: u64) -> Options {
        self.ownership_records = records;
        self
    }

    /// Volatile rings that never make a worker wait (DudeTM-Inf in the DudeTM paper, section 5.1),
    /// whatever [`ring_entries`](Options::ring_entries) says. For experiments: what is committed
    /// and not yet persisted may take all of the machine's memory, and the kernel then ends a
    /// process.
    #[doc(hidden)]
    pub fn unbounded(mut self) -> Options {
        self.unbounded = true;
        self
    }

    /// Reproduction frees the log without writing anything home (DudeTM-ideal in the Pisces paper,
    /// section 5.2). For experiments, with `decoupled` on [`Medium::Emulated`] alone: anything else
    /// is an error of `create` and `open`. What is durable in the log is gone when it is freed.
    /// Such a pool cannot be opened again, even when it was closed: that is an error that says so.
    /// A pool that was there before and is opened with this is lost too.
    #[doc(hidden)]
    pub fn ideal_reproduce(mut self) -> Options {
        self.ideal_reproduce = true;
        self
    }

    /// What makes bytes durable. Default: a new pool is on [`Medium::Dax`] where its directory is
    /// in persistent memory, else on [`Medium::File`]; an existing one on what it was last on
    /// (emulated without any delay). A pool that was made for one of the mapped media opens on any
    /// of them.
    pub fn medium(mut self, medium: Medium) -> Options {
        self.medium = Some(medium);
        self
    }

    /// When a commit returns. Default [`Durability::Async`].
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Name (up to 32 bytes) and version of what the program keeps in the pool. They are kept in
    /// the superblock; opening a pool of another layout is an error. Default: "" and 0.
    pub fn layout(mut self, name: &str, version: u64) -> Options {
        self.layout = name.into();
        self.layout_version = version;
        self
    }

    /// Whether threads of the pool's own persist and reproduce. Default true. Without them nothing
    /// is durable before somebody waits, flushes or closes: for tests that run the steps
    /// themselves, and for programs whose workers all wait.
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// What the memory that transactions work on begins as. Default [`Shadow::Full`].
    pub fn shadow(mut self, shadow: Shadow) -> Options {
        self.shadow = shadow;
        self
    }

    /// Threads (1 to 64) that bring home what is durable, each the words of its own pages. Default:
    /// one. Where the log fills because one thread cannot keep up with the workers, and cores are
    /// free, more threads bring home more; where none is free, they take it from the workers. On a
    /// mapped medium the first of them is the thread that persists. Whoever waits for room in the
    /// log brings home all parts itself if no thread takes them, so without
    /// [`background`](Options::background) this only says in how many parts it does so. (DudeTM,
    /// section 3.4, has one thread.)
    pub fn reproduce_threads(mut self, threads: usize) -> Options {
        self.reproduce_threads = threads.clamp(1, 64);
        self
    }

    /// Combines up to so many transactions, neighbours in commit order, into one group of the log:
    /// of each word only the last value is written, to the log and home. A group is durable or lost
    /// as a whole. It is closed earlier when somebody waits for one of its transactions (a ticket,
    /// a `flush`, sync mode, `close`), after [`group_time`](Options::group_time), when 16 MiB of
    /// records have come together, and when it would not fit in half the log. Default 0: groups are
    /// as they come, and nothing is combined. (DudeTM, section 3.3.)
    ///
    /// `snapshot`, with two or more: so many transactions of one worker are made durable, shown to
    /// other workers and brought home together, with one persist barrier. Then a commit returns
    /// before it is durable, and before other workers see it; its ticket tells. A group ends
    /// earlier when somebody waits for it, wants to write one of its objects, after
    /// [`group_time`](Options::group_time) at least and twice that at most, and when its worker is
    /// dropped. Isolation is *parallel* snapshot isolation then: each worker sees its own groups
    /// before others do. Without effect with [`Durability::Sync`]. (Pisces, section 4.)
    ///
    /// ```
    /// use lastword::{Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("hits.pool");
    /// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).group(1000).compress(true);
    /// let pool = Pool::create(&path, options)?;
    /// let hits = pool.run(|tx| tx.alloc(0_u64))?.value;
    /// for _ in 0..1000 {
    ///     pool.run(|tx| {
    ///         let before = tx.get(hits)?;
    ///         tx.set(hits, before + 1)
    ///     })?;
    /// }
    /// pool.flush()?;
    /// let metrics = pool.metrics();
    /// assert!(metrics.log_combined_bytes <= metrics.log_payload_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(mut self, transactions: u64) -> Options {
        self.group = transactions;
        self
    }

    /// How long a group that is combined waits for more transactions when nobody waits for it.
    /// Default 1 ms. What is committed is durable within 10 ms where the disk keeps up; a longer
    /// time lifts that: a crash may take all that was committed in so long. With [`Duration::MAX`]
    /// a group that does not fill is made durable only by somebody who waits (a ticket, a `flush`,
    /// `close`); a callback ([`Ticket::on_durable`](crate::Ticket::on_durable)) is not one. Without
    /// [`background`](Options::background) threads it is as if it was that.
    pub fn group_time(mut self, time: Duration) -> Options {
        self.group_time = time;
        self
    }

    /// How long the thread behind pauses before it looks again for something to persist, when
    /// nobody waits. Default 500 us: a commit that nobody waits for is durable some 1 ms later, and
    /// the device and a core have most of their time for others. [`Duration::ZERO`]: it does not
    /// pause, and takes a core of its own as long as transactions commit, and a few milliseconds
    /// longer. On memory it then brings little home at a time, and a worker whose commits wait for
    /// more than some microseconds persists them itself: they are durable soon even where the
    /// medium is the bottleneck, at the cost of more barriers. Without effect where each commit is
    /// waited for ([`Durability::Sync`]). (`decoupled`; the paper's persist threads do not pause,
    /// section 3.3.)
    pub fn pause(mut self, time: Duration) -> Options {
        self.pause = time;
        self
    }

    /// Whether groups are compressed with LZ4, combined or not, where that makes them take fewer
    /// blocks of the log. What goes home is taken from memory: only recovery decompresses. Default
    /// false.
    pub fn compress(mut self, compress: bool) -> Options {
        self.compress = compress;
        self
    }

    /// How many groups are combined, compressed and, where the log is mapped, stored at a time,
    /// each by a thread: as many threads of the pool's own persist, and as many that help. At least
    /// 1, at most 1024. Default 1.
    pub fn persist_threads(mut self, threads: usize) -> Options {
        self.persist_threads = threads;
        self
    }

    /// Bound of the memory that transactions work on, for pools that are larger. At least 8 pages
    /// (32 KiB, where a page is 4 KiB). Default: as large as the heap.
    ///
    /// With [`Shadow::Software`] it bounds all of that memory; a transaction that writes to more
    /// pages than fit ends with [`Error::ShadowTooSmall`].
    ///
    /// With [`Shadow::CopyOnWrite`] (then for [`DecoupledEvicting`](crate::DecoupledEvicting)) it
    /// bounds what is copied. Pages that are only read are in the page cache, which the system
    /// bounds. Running transactions may exceed the bound by what they write, however many pages
    /// that is; and a copy is dropped only when the bodies that ran when it was chosen have ended,
    /// so a body that runs long lifts the bound for what others write meanwhile. Memory that is
    /// locked (`mlock`) cannot be dropped: that poisons the pool.
    pub fn shadow_bytes(mut self, bytes: u64) -> Options {
        self.shadow_bytes = Some(bytes);
        self
    }

    /// Keeps what is forgotten of a shadow where [`Design::observe`](crate::Design::observe) finds
    /// it, so that observing a pool changes nothing: for the crash explorer.
    #[doc(hidden)]
    pub fn observed(mut self) -> Options {
        self.observed = true;
        self
    }

    /// `snapshot`: whether a transaction logs the words that it has changed, or with `false` all of
    /// every object that it has written, as a design must whose copies are themselves the log.
    /// Default: `true`. (Pisces, section 4, *flush-diff*.)
    pub fn flush_diff(mut self, on: bool) -> Options {
        self.flush_diff = on;
        self
    }

    /// `snapshot`: a worker tries to free the log behind so many of its records, of which each
    /// transaction that has written has one, or each [`group`](Options::group): of all workers'
    /// records those that are at home are forgotten, at two persist barriers. Default 0: only when
    /// its part of the log is nearly full. A small number bounds what an opening behind a crash has
    /// to replay; docs/designs/snapshot.md has what it costs. (Pisces, sections 3.2 and 3.4: 3.)
    pub fn recycle_every(mut self, records: u64) -> Options {
        self.recycle_every = records;
        self
    }

    /// `snapshot`: logs nothing and makes nothing durable, to see what durability costs. Refused
    /// but on [`Medium::Emulated`](crate::Medium::Emulated): a pool so written is lost.
    #[doc(hidden)]
    pub fn unlogged(mut self) -> Options {
        self.unlogged = true;
        self
    }

    /// Bounds two waits of a worker. One is for a transaction of another worker that runs alone
    /// after many lost attempts: [`Error::GateClosed`](crate::Error::GateClosed). The other, under
    /// `snapshot`, is for log space or an object's version that another transaction keeps:
    /// [`Error::HeldUp`](crate::Error::HeldUp). Time in which the process does not run (SIGSTOP, a
    /// debugger, a suspended machine) does not count: each stop adds at most a 64th. Default: 10 s.
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// Whether a pool opens whose log is lost: its file is missing, damaged, of another length, or
    /// of another pool or time. Default: `false`. Only a pool that was closed cleanly opens so: its
    /// heap holds every transaction. A new log is made, durable before the pool begins, and a file
    /// in its place is kept as NAME.log.lost. A pool that was not closed cleanly is refused, since
    /// its last transactions may be in that log alone; so is a log that a newer program has
    /// written. Where the pool's file is an older copy, opening it so goes back to that copy.
    /// Without effect on a pool whose log is in order, or in its own file (mapped media), and on
    /// [`create`](crate::Pool::create).
    ///
    /// ```
    /// use lastword::{Error, Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("bank.pool");
    /// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// let pool = Pool::create(&path, options.clone())?;
    /// let object = pool.run(|tx| tx.alloc(42_u64))?.value;
    /// pool.close()?;
    /// std::fs::remove_file(dir.path().join("bank.pool.log"))?;
    ///
    /// let refused = Pool::open(&path, options.clone());
    /// assert!(matches!(refused, Err(Error::LogMissing { needed_after: None, .. })));
    /// let pool = Pool::open(&path, options.without_log(true))?;
    /// assert_eq!(pool.run(|tx| tx.get(object))?.value, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_log(mut self, without_log: bool) -> Options {
        self.without_log = without_log;
        self
    }

    /// Whose files they are. Default: the kernel's. For tests: a system whose calls fail, or a
    /// recorded machine that can crash (see [`medium::recording`]).
    pub fn system(mut self, system: System) -> Options {
        self.system = system;
        self
    }

    /// The layout's name as the superblock has it.
    pub(crate) fn layout_padded(&self) -> Result<[u8; LAYOUT_BYTES], Error> {
        padded(&self.layout).filter(|_| !self.layout.contains('\0')).ok_or(Error::BadOption {
            option: "the layout name's length",
            value: self.layout.len() as u64,
            must: "a name has at most 32 bytes, none of them zero",
        })
    }

    /// Size of the heap, checked and rounded.
    pub(crate) fn heap_rounded(&self) -> Result<u64, Error> {
        rounded("bytes", self.heap_bytes, lw_alloc::HEAP_BYTES_MIN, lw_alloc::CHUNK_BYTES)
    }

    /// Size of the log, checked and rounded.
    pub(crate) fn log_rounded(&self) -> Result<u64, Error> {
        rounded("log_bytes", self.log_bytes, 128 << 10, 4096)
    }

    /// Words of a volatile ring.
    pub(crate) fn ring_words(&self) -> usize {
        if self.unbounded {
            return UNBOUNDED_WORDS;
        }
        let entries = self.ring_entries.clamp(1 << 10, 1 << 32).next_power_of_two();
        2 * entries as usize
    }
}

/// Largest heap or log: what the 48 bits of an address reach.
const BYTES_MAX: u64 = 1 << words::ADDRESS_BITS;

fn rounded(option: &'static str, value: u64, min: u64, unit: u64) -> Result<u64, Error> {
    if value < min {
        let must = "it must be at least 128 KiB";
        return Err(Error::BadOption { option, value, must });
    }
    if value > BYTES_MAX {
        let must = "it must be at most 2^48 bytes";
        return Err(Error::BadOption { option, value, must });
    }
    Ok(value.next_multiple_of(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_and_impossible_ones_refused() {
        let options = Options::new().bytes((1 << 20) + 1).log_bytes(1).ring_entries(3000);
        assert_eq!(options.heap_rounded().unwrap(), (1 << 20) + (64 << 10));
        assert!(options.log_rounded().is_err());
        assert_eq!(options.ring_words(), 8192);
        assert!(Options::new().bytes(u64::MAX).heap_rounded().is_err());
    }

    #[test]
    fn a_layout_name_has_at_most_32_bytes() {
        assert!(Options::new().layout(&"x".repeat(32), 0).layout_padded().is_ok());
        assert!(Options::new().layout(&"x".repeat(33), 0).layout_padded().is_err());
        assert!(Options::new().layout("a\0b", 0).layout_padded().is_err());
    }
}
