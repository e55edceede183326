//! Options with which a pool is created and opened.

mod defaults;
mod growth;
mod layout;
mod migrations;
mod opening;
mod page_checksums;
mod replication;

use std::time::Duration;

use medium::System;

use crate::Error;
use crate::opening::OnOpening;
use crate::persist::UNBOUNDED_WORDS;
use crate::role::ReplicationRole;
use defaults::{
    GROUP_TIME, HEAP_BYTES, LOG_BYTES, LOG_BYTES_PAGED, PATIENCE, PERSIST_THREADS,
    REPRODUCE_THREADS,
};
use migrations::Migrations;
use page_checksums::PageOptions;

/// The medium: the storage that makes a pool's bytes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// Two files, NAME and NAME.log, on any file system. A commit survives a power failure where
    /// the file system and the disk honor flushes.
    File,
    /// Persistent memory: one mapped file on a file system mounted with `-o dax`. A commit survives
    /// a power failure.
    Dax,
    /// One mapped file in memory that the machine or the device preserves at a power failure,
    /// caches included (eADR, a battery, CXL global persistent flush). No program can verify that:
    /// the user asserts it.
    PersistentCache,
    /// One mapped file, best on tmpfs, with the costs of persistent memory emulated: each persist
    /// barrier takes max(latency, bytes / bandwidth). For experiments: a commit survives the
    /// process, not the machine.
    Emulated {
        /// The least duration of a barrier, in cycles of the time-stamp counter.
        latency_cycles: u64,
        /// Bytes per second, shared by all threads; 0 for no limit.
        bandwidth_bytes_per_second: u64,
    },
}

impl Medium {
    /// Returns its name in the superblock and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Medium::File => "file",
            Medium::Dax => "dax",
            Medium::PersistentCache => "persistent_cache",
            Medium::Emulated { .. } => "emulated",
        }
    }

    /// Returns the medium with this name; an emulated one has no delay.
    pub(crate) fn named(name: &str) -> Option<Medium> {
        let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
        [Medium::File, Medium::Dax, Medium::PersistentCache, emulated]
            .into_iter()
            .find(|medium| medium.name() == name)
    }

    /// Whether the pool's own file holds the log, because it is mapped.
    pub(crate) fn log_inside(self) -> bool {
        self != Medium::File
    }
}

/// The moment at which a commit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// At once. The [`Ticket`](crate::Ticket) reports durability.
    #[default]
    Async,
    /// When it is durable. Workers that commit at the same time share a flush (group commit).
    Sync,
}

/// The memory that transactions work on, in front of the heap image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shadow {
    /// A copy as large as the heap, filled when the pool is opened. Opening reads the whole heap,
    /// and no access waits for the disk. A sector that cannot be read is an error of `open`.
    #[default]
    Full,
    /// A private mapping of the pool's file. Opening is instant. The first access to a page reads
    /// it, and the first write copies it; a page that was never written takes no memory of the
    /// process. A sector that cannot be read kills the process (`SIGBUS`), and so does a lack of
    /// memory for a copy.
    CopyOnWrite,
    /// Pages that are read at the first access, with a page table in software, for
    /// [`DecoupledSoftware`](crate::DecoupledSoftware). Opening is instant. A sector that cannot be
    /// read poisons the pool.
    Software,
}

/// The options of a pool; each method states its default.
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
    /// 0: the heap does not grow.
    pub(crate) max_bytes: u64,
    /// 0: by the heap.
    pub(crate) grow_step: u64,
    /// `None`: by the heap.
    pub(crate) log_bytes: Option<u64>,
    pub(crate) max_log_bytes: Option<u64>,
    pub(crate) ring_entries: u64,
    pub(crate) ownership_records: u64,
    pub(crate) unbounded: bool,
    pub(crate) ideal_reproduce: bool,
    pub(crate) medium: Option<Medium>,
    pub(crate) durability: Durability,
    pub(crate) layout: String,
    pub(crate) layout_version: u64,
    pub(crate) migrations: Migrations,
    /// Whether the pool is opened to migrate its content.
    pub(crate) migrates: bool,
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
    pub(crate) max_lag: u64,
    pub(crate) without_log: bool,
    pub(crate) page_checksums: PageOptions,
    /// `None`: no limit.
    pub(crate) recovery_time: Option<Duration>,
    pub(crate) view_bytes: Option<u64>,
    /// `None`: by the log.
    pub(crate) gather_bytes: Option<u64>,
    pub(crate) on_opening: OnOpening,
    pub(crate) replication: ReplicationRole,
    pub(crate) system: System,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// Returns the defaults: a heap of 8 MiB, a log of 4 MiB, on a file, asynchronous commits.
    pub fn new() -> Options {
        Options {
            heap_bytes: HEAP_BYTES,
            max_bytes: 0,
            grow_step: 0,
            log_bytes: None,
            max_log_bytes: None,
            ring_entries: 1 << 20,
            ownership_records: 0,
            unbounded: false,
            ideal_reproduce: false,
            medium: None,
            durability: Durability::Async,
            layout: String::new(),
            layout_version: 0,
            migrations: Migrations::default(),
            migrates: false,
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
            max_lag: u64::MAX,
            without_log: false,
            page_checksums: PageOptions::default(),
            recovery_time: None,
            view_bytes: None,
            gather_bytes: None,
            on_opening: OnOpening::default(),
            replication: ReplicationRole::default(),
            pause: crate::persist::NAP,
            system: System::kernel(),
        }
    }

    /// Sets the size of the heap in bytes, at creation. Rounded up to 64 KiB, at least 128 KiB.
    /// Default 8 MiB. The heap takes this amount of disk from the creation on, and up to the same
    /// amount of memory while the pool is open.
    pub fn bytes(mut self, bytes: u64) -> Options {
        self.heap_bytes = bytes;
        self
    }

    /// Sets the size of the log in bytes, at creation. Rounded up to 4 KiB, at least 128 KiB.
    /// Default: a quarter of the [heap](Options::bytes), 4 to 64 MiB; for `decoupled` on
    /// [`Medium::File`] up to 1 GiB.
    ///
    /// A larger log lets more writes to one page be combined before the page is written to the heap
    /// image. Up to the log's size in memory may be in use meanwhile. The log also bounds a
    /// transaction:
    /// - `decoupled`: a transaction writes at most a quarter of the log in bytes (see also
    ///   [`ring_entries`](Options::ring_entries)).
    /// - Other designs: its records, headers included, fit in a worker's slot, which is a 64th of a
    ///   log of 4 MiB or more, less 8 KiB. `redo` and `snapshot` write up to half of the slot.
    ///
    /// [Compression](Options::compress) does not raise the number of groups that the log holds; it
    /// only reduces the bytes written.
    pub fn log_bytes(mut self, bytes: u64) -> Options {
        self.log_bytes = Some(bytes);
        self
    }

    /// Sets the number of entries, of 16 bytes each, in each worker's volatile ring. Rounded up to
    /// a power of two, at least 1024 and at most 2^32. Default 2^20, as in the DudeTM paper. May
    /// differ at each opening. The ring takes memory for its largest recent backlog: 64 KiB while
    /// the worker's commits are persisted promptly, or while it is idle.
    ///
    /// The ring bounds a transaction: it writes at most 8 bytes for each entry, 8 MiB by default.
    /// So does a quarter of the [log](Options::log_bytes). Under `snapshot` the same amount of
    /// memory, at least 1 MiB, holds a worker's copies. `undo` and `redo` have no ring.
    pub fn ring_entries(mut self, entries: u64) -> Options {
        self.ring_entries = entries;
        self
    }

    /// Sets the number of ownership records, the locks of the transactional memory. Each record
    /// guards the stripes of 512 bytes whose numbers have the same remainder. Rounded up to a power
    /// of two, at most 2^26, and never more than the heap has stripes. Default 0: one for each
    /// stripe, at most 2^18 for each core.
    ///
    /// Two transactions of w stripes meet in a record without a true conflict with a probability of
    /// about w * w / (2 * records). More records make that rarer; each takes 8 bytes once it is
    /// used. Applies to `decoupled`, `undo`, `redo` and `volatile`; `snapshot` locks objects.
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

    /// Makes volatile rings unbounded, so that no worker waits for room (DudeTM-Inf in the DudeTM
    /// paper, section 5.1). Overrides [`ring_entries`](Options::ring_entries). For experiments:
    /// commits that are not yet persisted may fill the machine's memory, and the kernel then kills
    /// a process.
    #[doc(hidden)]
    pub fn unbounded(mut self) -> Options {
        self.unbounded = true;
        self
    }

    /// Makes reproduction free the log without writing the heap image (DudeTM-ideal in the Pisces
    /// paper, section 5.2). For experiments, with `decoupled` on [`Medium::Emulated`] alone:
    /// `create` and `open` return an error for anything else. Freed log records are lost, so such a
    /// pool cannot be opened again, not even after a clean shutdown: `open` returns
    /// [`Error::Ideal`]. An existing pool that is opened with this option is lost, too.
    #[doc(hidden)]
    pub fn ideal_reproduce(mut self) -> Options {
        self.ideal_reproduce = true;
        self
    }

    /// Sets the medium. Default for a new pool: [`Medium::Dax`] where its directory is in
    /// persistent memory, else [`Medium::File`]. Default for an existing pool: its last medium (an
    /// emulated one without delay). A pool created on one of the mapped media opens on any of them.
    pub fn medium(mut self, medium: Medium) -> Options {
        self.medium = Some(medium);
        self
    }

    /// Sets the moment at which a commit returns. Default [`Durability::Async`].
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Sets whether the pool starts threads that persist and reproduce, and a thread that grows
    /// the heap if it [may grow](Options::max_bytes). Default true. Without them nothing becomes
    /// durable until a thread waits, flushes or closes, and a heap grows when it is full. For tests
    /// that run the steps themselves, and for programs whose workers all wait.
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// Sets the kind of memory that transactions work on. Default [`Shadow::Full`].
    pub fn shadow(mut self, shadow: Shadow) -> Options {
        self.shadow = shadow;
        self
    }

    /// Sets the number of reproduce threads, 1 to 64. Default 1. Each applies the words of its own
    /// pages to the heap image.
    ///
    /// More threads help where cores are free and the log fills, because one thread cannot keep up
    /// with the workers. Without free cores they take time from the workers. On a mapped medium
    /// the persist thread is the first of them. A thread that waits for room in the log runs all
    /// parts itself if no thread takes them, so without [`background`](Options::background) this
    /// only sets the number of parts. (DudeTM, section 3.4, has one thread.)
    pub fn reproduce_threads(mut self, threads: usize) -> Options {
        self.reproduce_threads = threads.clamp(1, 64);
        self
    }

    /// Combines up to this many transactions, neighbors in commit order, into one group of the log.
    /// Of each word only the last value is written, both to the log and to the heap image. A group
    /// is durable or lost as a whole. Default 0: nothing is combined. (DudeTM, section 3.3.) A
    /// group closes earlier in these cases:
    /// - A thread waits for one of its transactions (a ticket, a `flush`, sync mode, `close`).
    /// - [`group_time`](Options::group_time) has passed.
    /// - Its records reach 16 MiB, or would not fit in half the log.
    ///
    /// `snapshot`, with two or more: this many transactions of one worker become durable, become
    /// visible to other workers and are applied to the heap image together, with one persist
    /// barrier. A commit then returns before it is durable and before other workers see it; its
    /// ticket reports durability. A group ends earlier when a thread waits for it or writes one of
    /// its objects, when its worker is dropped, and after one to two
    /// [`group_time`](Options::group_time)s. Isolation is then *parallel* snapshot isolation: each
    /// worker sees its own groups before others do. No effect with [`Durability::Sync`]. (Pisces,
    /// section 4.)
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

    /// Sets how long a combined group waits for more transactions while no thread waits for it.
    /// Default 1 ms: a commit is durable within 10 ms where the disk keeps up. A longer time
    /// extends the window of commits that a crash may lose. With [`Duration::MAX`] a group that
    /// does not fill becomes durable only through a thread that waits (a ticket, a `flush`,
    /// `close`); a callback ([`Ticket::on_durable`](crate::Ticket::on_durable)) does not count.
    /// Without [`background`](Options::background) threads every value acts as [`Duration::MAX`].
    pub fn group_time(mut self, time: Duration) -> Options {
        self.group_time = time;
        self
    }

    /// Sets how long the persist thread sleeps before it looks for new commits, while no thread
    /// waits. Default 500 us: a commit is durable about 1 ms later, and the device and a core are
    /// mostly free. Applies to `decoupled`; the paper's persist threads do not pause (section 3.3).
    /// No effect with [`Durability::Sync`].
    ///
    /// With [`Duration::ZERO`] the thread does not sleep. It occupies a core while transactions
    /// commit, and for a few milliseconds after. On memory it then reproduces little at a time, and
    /// a worker whose commits wait for more than some microseconds persists them itself. Commits
    /// become durable soon even where the medium is the bottleneck, at the cost of more barriers.
    pub fn pause(mut self, time: Duration) -> Options {
        self.pause = time;
        self
    }

    /// Sets whether groups, combined or not, are compressed with LZ4 where that saves blocks of the
    /// log. Default false. Reproduction uses the uncompressed copy in memory, so only recovery
    /// decompresses.
    pub fn compress(mut self, compress: bool) -> Options {
        self.compress = compress;
        self
    }

    /// Sets how many groups are combined, compressed and, where the log is mapped, stored at the
    /// same time. Each takes a thread: as many background threads persist, and as many threads may
    /// help. 1 to 1024. Default 1.
    pub fn persist_threads(mut self, threads: usize) -> Options {
        self.persist_threads = threads;
        self
    }

    /// Bounds the memory that transactions work on, for a pool larger than memory. At least 8 pages
    /// (32 KiB with pages of 4 KiB). Default: the size of the heap.
    ///
    /// With [`Shadow::Software`] the bound covers all of that memory. A transaction that writes to
    /// more pages than fit ends with [`Error::ShadowTooSmall`].
    ///
    /// With [`Shadow::CopyOnWrite`], for [`DecoupledEvicting`](crate::DecoupledEvicting), the bound
    /// covers copied pages. Pages that are only read are in the page cache, which the system
    /// bounds. Two cases exceed the bound:
    /// - Running transactions exceed it by the pages that they write.
    /// - A copy is dropped only after the bodies have ended that ran when it was chosen. A
    ///   long-running body therefore retains what others write meanwhile.
    ///
    /// Locked memory (`mlock`) cannot be dropped, which poisons the pool.
    pub fn shadow_bytes(mut self, bytes: u64) -> Options {
        self.shadow_bytes = Some(bytes);
        self
    }

    /// Keeps the values that a shadow evicts where [`Design::observe`](crate::Design::observe)
    /// finds them, so that observing a pool has no side effect. For the crash explorer.
    #[doc(hidden)]
    pub fn observed(mut self) -> Options {
        self.observed = true;
        self
    }

    /// `snapshot`: with `true`, the default, a transaction logs the words that it changed. With
    /// `false` it logs all words of every object that it wrote, as required where the copies
    /// themselves are the log. (Pisces, section 4, *flush-diff*.)
    pub fn flush_diff(mut self, on: bool) -> Options {
        self.flush_diff = on;
        self
    }

    /// `snapshot`: sets the number of records after which a worker tries to truncate the log. A
    /// transaction that wrote has one record, or each [`group`](Options::group). Truncation
    /// discards the records of all workers that are in the heap image, at two persist barriers.
    /// Default 0: only when the worker's part of the log is nearly full. A small number bounds the
    /// records that recovery replays; docs/designs/snapshot.md has the cost. (Pisces, sections 3.2
    /// and 3.4: 3.)
    pub fn recycle_every(mut self, records: u64) -> Options {
        self.recycle_every = records;
        self
    }

    /// `snapshot`: logs nothing and makes nothing durable, to measure the cost of durability. Only
    /// on [`Medium::Emulated`]: the content of such a pool is lost.
    #[doc(hidden)]
    pub fn unlogged(mut self) -> Options {
        self.unlogged = true;
        self
    }

    /// Sets how long a worker waits for one transaction of another worker. Default 10 s. A pool
    /// with longer bodies needs more, or runs the transactions again that end with an error: they
    /// had no effect. A worker waits in three cases:
    /// - A starving transaction runs alone. The wait ends with [`Error::StarvationLockHeld`].
    /// - A transaction holds a word that this one needs, or has reserved it. The wait ends with
    ///   [`Error::Blocked`].
    /// - `snapshot`: a long-running transaction retains room or an old version. The wait ends
    ///   with [`Error::HeldUp`].
    ///
    /// Time in which the process does not run (stopped by a signal or a debugger, or the machine
    /// suspended) does not count: each stop adds at most a 64th of this value.
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// Sets whether a pool opens whose log is lost: missing, damaged, of another length, or of
    /// another pool or generation. Default false.
    ///
    /// Only a pool that was closed cleanly opens in this way: its heap holds every transaction. A
    /// new log is made durable before the pool starts, and a file in its place is kept as
    /// NAME.log.lost. Two cases are refused:
    /// - The pool was not closed cleanly: its last transactions may be in that log alone.
    /// - A newer program wrote the log.
    ///
    /// If the pool's file is an older backup, opening it returns the pool to that state. The option
    /// has no effect on a pool with an intact log, on [`create`](crate::Pool::create), and on
    /// mapped media, where the log is in the pool's own file.
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

    /// Sets the time that a recovery should take at most. Default: no limit.
    ///
    /// `decoupled` on [`Medium::File`] writes the pages of a heap above 256 MiB beside the commits.
    /// With this limit it uses a smaller part of the log, so that fewer pages are left to a
    /// recovery, and each page is written more often. It estimates the time from the speed of its
    /// own writes to the heap image: pages that wait, and log to read. Another machine may take
    /// longer. A 64th of the log always stays in use. Reading the heap into a [`Shadow::Full`] is
    /// not included. Other designs, other media and smaller heaps ignore it.
    pub fn recovery_time(mut self, time: Duration) -> Options {
        self.recovery_time = Some(time);
        self
    }

    /// Sets the memory for words on the way to the heap image, on [`Medium::File`]. When it is used
    /// up, pages are written early. Default: 256 MiB, or the log's size if that is more.
    pub fn gather_bytes(mut self, bytes: u64) -> Options {
        self.gather_bytes = Some(bytes);
        self
    }

    /// Sets the system that the files belong to. Default: the kernel. Tests use a system whose
    /// calls fail, or a recorded machine that can crash.
    pub fn system(mut self, system: System) -> Options {
        self.system = system;
        self
    }

    /// Returns the size of the heap, checked and rounded.
    pub(crate) fn heap_rounded(&self) -> Result<u64, Error> {
        rounded("bytes", self.heap_bytes, lw_alloc::HEAP_BYTES_MIN, lw_alloc::CHUNK_BYTES)
    }

    /// Returns the size of the log, checked and rounded. `is_paged`: pages of the heap image are
    /// written in the background.
    pub(crate) fn log_rounded(&self, is_paged: bool) -> Result<u64, Error> {
        let most = if is_paged { LOG_BYTES_PAGED } else { *LOG_BYTES.end() };
        let by_heap = (self.heap_bytes / 4).clamp(*LOG_BYTES.start(), most);
        rounded("log_bytes", self.log_bytes.unwrap_or(by_heap), 128 << 10, 4096)
    }

    /// Returns up to how many bytes the log of a pool with such a heap grows; 0: it keeps its size.
    pub(crate) fn log_bytes_max(&self, heap_bytes: u64) -> u64 {
        let grows = self.log_bytes.is_none() && self.room(heap_bytes) > heap_bytes;
        self.max_log_bytes.unwrap_or(if grows { LOG_BYTES_PAGED } else { 0 })
    }

    /// Returns the number of words in a volatile ring.
    pub(crate) fn ring_words(&self) -> usize {
        if self.unbounded {
            return UNBOUNDED_WORDS;
        }
        let entries = self.ring_entries.clamp(1 << 10, 1 << 32).next_power_of_two();
        2 * entries as usize
    }
}

/// The largest heap or log: the range of a 48-bit address.
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
mod tests;
