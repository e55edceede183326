//! `snapshot`: objects with two versions; readers wait neither for writers nor for the medium.
//!
//! ```text
//!   write      to a copy of the object, linked from its header (see `versions`)
//!   commit  1  record: stamp, what has changed          -> slot      barrier     durable
//!           2  all copies are visible at once
//!           3  when nobody needs what was there before: words home, links away
//!              return
//!   slot full  lines written back, of every slot        -> home      barrier     } truncation,
//!              head: up to this stamp it is at home                  barrier     } once a slot
//! ```
//!
//! A transaction is durable before anybody else can see it, so what was read is durable always, and
//! a ticket has nothing to wait for.
//!
//! *The order of records.* A record's stamp is the clock when it is made, plus one. A transaction
//! that depends on another began when that one was visible, so its stamp is larger; transactions
//! with equal stamps know nothing of each other, and have written different objects. So recovery
//! replays by stamps. (Pisces, section 3.4.)
//!
//! Orders, and what goes wrong without them:
//! - The record is durable before the copies are visible: another transaction could read and
//!   acknowledge what a crash takes back.
//! - Words are stored at home when their record is durable: on mapped media the cache may write
//!   them home at any time (A1), and a crash would leave a part of a transaction.
//! - Truncation goes by stamps, up to the smallest start of what is not at home (`seats`): a record
//!   that is forgotten too early is lost, and one that is kept when a newer one of the same object
//!   is forgotten is replayed over it. (P-2 of section 3.2. The paper's thread gives its log back
//!   after three transactions, and an idle one keeps everybody's; here whoever needs room forgets
//!   for all, which costs two barriers a slot instead of stores by everybody, all the time.)
//! - A link is stored at home like any word, and a crash may leave it. It is void then: see
//!   `versions::link`.
//!
//! On `file` transactions see an image in memory, whose words are all durable in the log.

use std::iter;
use std::path::Path;
use std::time::Instant;

use medium::mutants::{Mutant, planted};
use medium::writes::mark;
use medium::{Memory, cpu};
use words::{Stop, TxId};

use super::format::{Key, RECORD_HEAD_WORDS, SLOTS_MAX};
use super::gather::{Gather, LEADERS, Member};
use super::ground::{Ground, Words};
use super::truncation::Truncation;
use super::workers::Workers;
use crate::design::{At, Design};
use crate::metrics::Metrics;
use crate::perform::Heap;
use crate::persist::Listener;
use crate::pool::Shape;
use crate::storage::{Begun, Opened, Storage};
use crate::sync::{AtomicU64, Mutex, Ordering, lock, spin_loop, thread};
use crate::versions::{Attempt, Home, Ready, Versions};
use crate::{Error, Options};

/// Words of a record before its runs: head and mark.
const BEFORE_RUNS: usize = RECORD_HEAD_WORDS + 1;
/// Words of a worker's copies at least: enough for who frees or prepares a run of blocks.
const COPIES_MIN: usize = 1 << 17;
/// What the superblock names as its design where nothing is logged: nobody opens that.
const UNLOGGED: &str = "unlogged";
/// One grace period in so many is timed: reading the counter takes as long as a short one.
const TIMED_EVERY: u64 = 8;
/// How often a worker looks before it gives its core to others.
const SPINS: u32 = 1 << 8;

const _: () = assert!(SLOTS_MAX <= crate::versions::WORKERS_MAX);

/// Dual-version concurrency control, made durable by redo records.
///
/// Transactions are isolated as *snapshot isolation* says, which is less than serializable: each
/// reads the heap as it was when it began, and of two that write the same object at the same time
/// one is run again. But two that each read what the other writes may both commit (*write skew*).
/// Where that would break an invariant, [`protect`](words::Words::protect) what the decision rests
/// on. The collections of this project do so.
///
/// Durable on return, whatever [`Options::durability`] says: one persist barrier a transaction that
/// has changed anything.
pub struct Snapshot {
    versions: Versions<Memory>,
    ground: Ground,
    workers: Workers,
    gather: Gather,
    truncation: Mutex<Truncation>,
    /// IDs up to this one are of transactions that are durable for sure: all of them, until one was
    /// unwound while it was made durable.
    sure: AtomicU64,
    /// What the last worker of each number has left for the next one.
    kept: Box<[Mutex<Option<Attempt>>]>,
    options: Options,
}

/// What one worker owns.
pub struct Local {
    attempt: Attempt,
    log: Log,
}

/// One worker's records.
struct Log {
    slot: usize,
    key: Key,
    /// That of the next record.
    sequence: u64,
    /// Words of records that are in the slot.
    at: usize,
    /// Words of a record that found no room.
    wanted: usize,
    /// What the attempt has changed.
    batch: Vec<u64>,
    record: Vec<u64>,
    /// The commit is not over; if the attempt ends so, it was unwound or could not be made durable.
    committing: bool,
}

impl Home for Ground {
    #[inline(always)]
    fn words(&self) -> &Heap {
        self.heap()
    }

    #[inline(always)]
    fn store(&self, index: usize, value: u64) {
        Ground::store(self, index, value);
    }

    #[inline(always)]
    fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        Ground::exchange(self, index, current, new)
    }
}

impl Log {
    /// Whether so many words of runs find room in the slot.
    #[inline]
    fn has_room(&self, ground: &Ground, words: usize) -> bool {
        self.at + ground.room(BEFORE_RUNS + words) <= ground.layout.record_words()
    }

    /// Makes what the attempt has changed durable: one persist barrier, on `file` for all that
    /// commit at the same time; see `gather`.
    #[inline]
    fn persist(&mut self, snapshot: &Snapshot, attempt: &Attempt) -> Result<(), Error> {
        let Snapshot { ground, workers, versions, gather, .. } = snapshot;
        let Log { slot: number, key, sequence, at, batch, record, .. } = self;
        let slot = workers.slot(*number);
        let room = ground.layout.record_words() - *at - RECORD_HEAD_WORDS;
        let mut write = |own: &[u64], others: &[Member]| {
            // Behind everything that the attempts have read, whose stamps are no larger than the
            // clock was then, and behind their beginnings, so that while one is not at home the
            // frontier is below the stamp of all.
            let stamp = match planted(Mutant::StampTooEarly) {
                false => versions.clock().load(Ordering::Acquire) + 1,
                true => attempt.start(),
            };
            record.clear();
            record.extend([0; RECORD_HEAD_WORDS]);
            for batch in iter::once(own).chain(others.iter().map(|other| &*other.batch)) {
                record.push(mark(stamp - ground.base()));
                record.extend_from_slice(batch);
            }
            key.seal(*at, *sequence, record);
            let words = record.len();
            record.resize(ground.room(words), 0);
            slot.meter.payload(words);
            if planted(Mutant::ShownFirst) {
                crate::versions::store(ground, own);
            }
            ground.write_record(*number, *at, record, &slot.meter)?;
            *sequence += 1;
            *at += record.len();
            // Release: whoever forgets up to this stamp finds the record; see `seats`. Others whose
            // batches it has are told behind this.
            slot.filled.store(*at, Ordering::Release);
            Ok(())
        };
        match ground.is_home() {
            true => write(batch, &[]),
            false => gather.persist(&workers.poison, *number, batch, room, write),
        }
    }
}

impl Snapshot {
    fn start(opened: Opened, options: &Options) -> Result<(Snapshot, Shape), Error> {
        if options.unlogged && opened.storage.medium.name() != "emulated" {
            return Err(Error::BadOption {
                option: "unlogged",
                value: 1,
                must: "nothing of it is durable, so it is for `emulated` alone",
            });
        }
        let name = if options.unlogged { UNLOGGED } else { Self::NAME };
        let Begun { storage, words, last } =
            opened.begin(name, |storage| Words::open(storage, options), |_| ())?;
        let shape = Shape::of(&storage, options);
        let generation = storage.superblocks.current().generation;
        let ground = Ground::new(storage, words);
        let slots = ground.layout.slots;
        let truncation = Mutex::new(Truncation::new(&ground, last.0));
        let snapshot = Snapshot {
            versions: Versions::new(slots, last.0, generation),
            ground,
            workers: Workers::new(slots, last.0),
            gather: Gather::new(slots, LEADERS),
            truncation,
            sure: AtomicU64::new(u64::MAX),
            kept: (0..slots).map(|_| Mutex::default()).collect(),
            options: options.clone(),
        };
        Ok((snapshot, shape))
    }

    fn clock(&self) -> &AtomicU64 {
        self.versions.clock()
    }

    /// Waits for what an attempt could not have, holding nothing.
    #[cold]
    fn wait_until_ready(&self, attempt: &mut Attempt) -> Result<(), Error> {
        let mut waiting = Waiting::begin(self);
        loop {
            match self.versions.ready(&self.ground, attempt) {
                Ready::Yes => return Ok(()),
                Ready::NoRoom => waiting.go_on(
                    "the memory for a worker's copies is full",
                    "give each worker more (`Options::ring_entries`)",
                )?,
                Ready::Locked => waiting.go_on(
                    "an object that is to be written has a newer version that is not at home",
                    "wait longer (`Options::patience`)",
                )?,
            }
        }
    }

    /// Makes room in a worker's slot, whose records are all at home then.
    #[cold]
    fn make_room(&self, log: &mut Log) -> Result<(), Error> {
        if self.options.unlogged {
            log.at = 0;
            return Ok(());
        }
        let slot = self.workers.slot(log.slot);
        let mut waiting = Waiting::begin(self);
        loop {
            self.versions.help_all(&self.ground);
            {
                let mut truncation = lock(&self.truncation);
                if truncation.tail(log.slot) < log.at {
                    self.truncate(&mut truncation)?;
                }
                if truncation.restart(log.slot, log.at, &slot.filled) {
                    log.at = 0;
                    return Ok(());
                }
            }
            waiting
                .go_on("a worker's part of the log is full", "create the pool with a larger log")?;
        }
    }

    /// Brings home what records up to the frontier say, and forgets them: two persist barriers.
    fn truncate(&self, truncation: &mut Truncation) -> Result<(), Error> {
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("truncation");
        let last = || self.clock().load(Ordering::Acquire);
        let frontier = match planted(Mutant::FrontierOfNow) {
            false => self.versions.frontier(),
            true => last(),
        };
        let done = truncation.forget(&self.ground, &self.workers, frontier, last);
        let done = done.map_err(|error| self.workers.poison.put(error));
        guard.disarm();
        done
    }
}

/// A worker that waits for others.
struct Waiting<'s> {
    snapshot: &'s Snapshot,
    looks: u32,
    since: Option<Instant>,
}

impl<'s> Waiting<'s> {
    fn begin(snapshot: &'s Snapshot) -> Waiting<'s> {
        Waiting { snapshot, looks: 0, since: None }
    }

    fn look_again(&mut self) -> Result<(), Error> {
        self.snapshot.workers.poison.check()?;
        self.looks = self.looks.saturating_add(1);
        if self.looks < SPINS {
            spin_loop();
        } else {
            thread::yield_now();
        }
        Ok(())
    }

    /// For who cannot go on at all.
    fn go_on(&mut self, what: &'static str, instead: &'static str) -> Result<(), Error> {
        self.look_again()?;
        if self.looks < SPINS {
            return Ok(());
        }
        let Snapshot { versions, options, .. } = self.snapshot;
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited < options.patience {
            return Ok(());
        }
        Err(Error::HeldUp { what, since: TxId(versions.oldest()), waited, instead })
    }
}

impl Design for Snapshot {
    const NAME: &'static str = "snapshot";
    const DURABLE: bool = true;
    const WORKERS_MAX: usize = SLOTS_MAX;
    const BY_OBJECT: bool = true;
    const READS_PASS: bool = true;
    type Local = Local;

    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (storage, created) = Storage::create(path, options, Self::NAME)?;
        created.or_remove(|| Self::start(Opened::created(storage)?, options))
    }

    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        Self::start(Opened::open(path, options)?, options)
    }

    #[inline]
    fn words(&self) -> usize {
        self.ground.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.ground.heap()[index].load(Ordering::Relaxed)
    }

    fn observe(&self, index: usize) -> u64 {
        self.versions.observe(&self.ground, index)
    }

    fn poke(&self, index: usize, value: u64) {
        self.ground.store(index, value);
    }

    fn local(&self, number: usize) -> Result<Local, Error> {
        self.workers.enter(Self::NAME, number)?;
        let bytes = 8 * self.options.ring_words().max(COPIES_MIN) as u64;
        self.versions.enter(number, || Ok(Memory::anonymous(bytes)?))?;
        let slot = self.workers.slot(number);
        let log = Log {
            slot: number,
            key: self.ground.key(number),
            sequence: 1 + *lock(&slot.sequence),
            at: slot.filled.load(Ordering::Acquire),
            wanted: 0,
            batch: Vec::new(),
            record: Vec::new(),
            committing: false,
        };
        let kept = lock(&self.kept[number]).take();
        Ok(Local { attempt: self.versions.attempt(number, kept), log })
    }

    fn close_local(&self, local: &mut Local) {
        *lock(&self.workers.slot(local.log.slot).sequence) = local.log.sequence - 1;
        let next = self.versions.attempt_without_space(local.log.slot);
        *lock(&self.kept[local.log.slot]) = Some(std::mem::replace(&mut local.attempt, next));
    }

    fn words_max(&self) -> usize {
        let words = self.ground.layout.record_words();
        words.saturating_sub(self.ground.room(BEFORE_RUNS)) / 2 // each word a run of its own
    }

    #[inline]
    fn begin(&self, local: &mut Local, _read_only: bool) -> Result<(), Error> {
        self.workers.poison.check()?;
        let Local { attempt, log } = local;
        if log.wanted > 0 {
            // What was wanted is forgotten: another transaction may want less.
            let wanted = std::mem::take(&mut log.wanted);
            if BEFORE_RUNS + wanted > self.ground.layout.record_words() {
                // Whole objects are more than the words that were counted.
                return Err(self.ground.slot_too_small(Self::NAME));
            }
            if !log.has_room(&self.ground, wanted) {
                self.make_room(log)?;
            }
        }
        if attempt.is_blocked() {
            self.wait_until_ready(attempt)?;
        }
        self.versions.begin(attempt);
        Ok(())
    }

    #[inline(always)]
    fn read(&self, local: &mut Local, at: At) -> Result<u64, Stop> {
        Ok(self.versions.read(&self.ground, &mut local.attempt, at))
    }

    #[inline(always)]
    fn read_run(&self, local: &mut Local, at: At, out: &mut [u64]) -> Result<(), Stop> {
        self.versions.read_run(&self.ground, &mut local.attempt, at, out);
        Ok(())
    }

    #[inline(always)]
    fn look(&self, local: &mut Local, object: usize) -> u64 {
        self.versions.look(&self.ground, &mut local.attempt, object)
    }

    #[inline(always)]
    fn read_seen(&self, _local: &mut Local, version: u64, at: At) -> Result<u64, Stop> {
        Ok(self.versions.read_seen(&self.ground, version, at))
    }

    #[inline(always)]
    fn write(&self, local: &mut Local, at: At, value: u64) -> Result<(), Stop> {
        self.versions.write(&self.ground, &mut local.attempt, at, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local, at: At, values: &[u64]) -> Result<(), Stop> {
        self.versions.write_run(&self.ground, &mut local.attempt, at, values)
    }

    #[inline]
    fn protect(&self, local: &mut Local, at: At) -> Result<(), Stop> {
        self.versions.protect(&self.ground, &mut local.attempt, at.object)
    }

    #[inline]
    fn gives_chunks_back(&self, local: &mut Local) {
        local.attempt.gives_chunks_back();
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        let heap = self.ground.heap();
        let first = index.saturating_sub(2); // the link stands before an object's first word
        for line in (first..index + words).step_by(cpu::LINE_WORDS) {
            cpu::prefetch_read(heap, line);
        }
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.will_read(index, words);
    }

    #[inline]
    fn words_written(&self, local: &Local) -> usize {
        local.attempt.words_written()
    }

    fn why_too_large(&self, _local: &Local) -> Option<Error> {
        Some(self.ground.slot_too_small(Self::NAME))
    }

    #[inline]
    fn commit(&self, local: &mut Local) -> Result<TxId, Stop> {
        let Local { attempt, log } = local;
        if attempt.is_read_only() {
            self.versions.leave(&self.ground, attempt);
            return Ok(TxId(attempt.start()));
        }
        log.batch.clear();
        self.versions.changes(attempt, !self.options.flush_diff, &mut log.batch);
        if log.batch.is_empty() {
            // It has only protected: nobody can see any of it, so nothing need be told from before
            // it. It answers what it has seen.
            return Ok(TxId(self.versions.roll_back(&self.ground, attempt)));
        }
        let logs = !self.options.unlogged;
        if logs && !log.has_room(&self.ground, log.batch.len()) {
            log.wanted = log.batch.len();
            return Err(Stop::Conflict);
        }
        log.committing = true;
        let guard = self.workers.poison.on_panic("commit");
        self.versions.commits(attempt);
        if logs && let Err(error) = log.persist(self, attempt) {
            self.workers.poison.put(error);
            guard.disarm();
            return Err(Stop::Conflict); // the next attempt does not begin, and says why
        }
        let end = self.versions.show(&self.ground, attempt);
        let timed = end.is_multiple_of(TIMED_EVERY);
        let began = if timed { cpu::cycles() } else { 0 };
        self.versions.finish(&self.ground, attempt, end, &log.batch);
        if timed {
            let cycles = cpu::cycles().saturating_sub(began);
            self.workers.slot(log.slot).meter.grace(cycles);
        }
        guard.disarm();
        log.committing = false;
        Ok(TxId(end))
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        let Local { attempt, log } = local;
        if log.committing {
            // Unwound while it was made durable: nobody knows what a crash would leave. Its objects
            // stay locked, and the pool is poisoned. A tester whose machine's power went wants to
            // know what others would have seen.
            if self.ground.is_apart() {
                self.sure.fetch_min(self.committed_id().0, Ordering::Relaxed);
                self.versions.force(attempt, &log.batch);
            }
            return self.committed_id();
        }
        TxId(self.versions.roll_back(&self.ground, attempt))
    }

    fn committed_id(&self) -> TxId {
        TxId(self.clock().load(Ordering::Acquire))
    }

    fn durable_id(&self) -> TxId {
        // What has an ID was durable before.
        TxId(self.committed_id().0.min(self.sure.load(Ordering::Relaxed)))
    }

    fn reproduced_id(&self) -> TxId {
        TxId(lock(&self.truncation).head().id)
    }

    fn wait(&self, _id: TxId) -> Result<(), Error> {
        Ok(())
    }

    fn outcome(&self, _id: TxId) -> Option<Result<(), Error>> {
        Some(Ok(()))
    }

    fn tell(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        listener.tell(self.wait(id));
        Ok(())
    }

    fn bring_home(&self) -> Result<(), Error> {
        let committed = self.committed_id();
        let mut waiting = Waiting::begin(self);
        while self.reproduced_id() < committed {
            self.versions.help_all(&self.ground);
            self.truncate(&mut lock(&self.truncation))?;
            if self.reproduced_id() < committed {
                waiting.look_again()?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.workers.poison.check()?;
        if self.options.unlogged {
            return Ok(());
        }
        self.bring_home()?;
        self.ground.close(self.committed_id().0).map_err(|error| self.workers.poison.put(error))
    }

    fn settle(&self) {
        self.versions.help_all(&self.ground);
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.workers.metrics();
        lock(&self.truncation).meter().add_to(&mut metrics);
        metrics
    }
}
