//! `snapshot`: dual-version concurrency control (Pisces), made durable by redo records.
//!
//! Each object has at most two versions. Readers wait neither for writers nor for the medium.
//!
//! ```text
//!   write      to a copy of the object, linked from its header (`dual_version`)
//!   commit  1  record: stamp, new values             -> slot          barrier     durable
//!           2  all copies become visible at once
//!           3  after the grace period: words to the heap, links removed
//!              return
//!   slot full  lines written back, of every slot     -> heap image    barrier     } truncation,
//!              head: the image has all up to this stamp               barrier     } once per slot
//! ```
//!
//! A transaction is durable before any other worker sees it. So every value read is durable, and a
//! ticket has nothing to wait for, unless transactions form groups (`group`).
//!
//! *Order of records.* A record's stamp is the clock when the record is made, plus one. A
//! transaction that depends on another began after that one was visible, so its stamp is larger.
//! Transactions with equal stamps are independent and have written different objects. So recovery
//! replays by stamps (section 3.4).
//!
//! Write orders, and the failure without each:
//! - The record is durable before the copies are visible. Otherwise another transaction could read
//!   and acknowledge values that a crash loses.
//! - The record is durable before its words are stored in the heap. On mapped media the cache may
//!   write them back at any time (A1), and a crash would leave a part of a transaction.
//! - Truncation goes by stamps, up to the smallest start of a transaction that the heap image does
//!   not have (`dual_version::transaction_table`). A record freed too early is lost. If a record
//!   outlives a newer record of the same object, recovery replays the old one over the new words.
//!   (P-2 of section 3.2.)
//! - A link is stored in the heap like any word, and a crash may leave it there. It is void then:
//!   see `dual_version::link`.
//!
//! The paper's threads reclaim their own logs after three transactions, and an idle one keeps every
//! log. Here the worker that needs space truncates all slots. That costs two barriers per slot
//! instead of constant stores by every worker.
//!
//! On `file` transactions work on a copy of the heap image in memory, whose words are all durable
//! in the log.
//!
//! Source: Pisces, sections 3 and 4.

mod core;
mod group;
mod log;
mod room;
mod timer;
mod view;
mod waiting;

use std::ops::Range;
use std::path::Path;
use std::task::Waker;

use medium::{FrozenImage, Scrubbed, cpu};
use words::{Stop, TxId};

use self::core::Core;
use self::group::Groups;
use self::log::Log;
use self::timer::Timer;
use self::waiting::Waiting;
use super::format::SLOTS_MAX;
use super::gather::{Gather, LEADERS};
use super::store::{SlotStore, Words};
use super::truncation::Truncation;
use super::workers::Workers;
use crate::design::{At, Design};
use crate::dual_version::{Attempt, Versions};
use crate::metrics::Metrics;
use crate::perform::{Obstacle, StarvationLock};
use crate::persist::{Listener, Registration};
use crate::pool::Shape;
use crate::storage::{Opened, ReadyPool, Storage};
use crate::superblock::GrowthStep;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
#[cfg(test)]
use crate::worker::panic_injection::{self, Point};
use crate::{Error, Options};

/// Minimum words of a worker's copies: enough to free or prepare a run of blocks in one
/// transaction.
const COPIES_MIN: usize = 1 << 17;
/// The design name in the superblock of an unlogged pool. No design has it, so the pool cannot be
/// reopened.
const UNLOGGED: &str = "unlogged";

/// Dual-version concurrency control, made durable by redo records.
///
/// Isolation is *snapshot isolation*, which is weaker than serializable. Each transaction reads the
/// heap as it was when it began. If two transactions write the same object at the same time, one of
/// them runs again. If each reads an object that the other writes, both may commit (*write skew*).
/// Where that would break an invariant, [`protect`](words::Words::protect) the objects that the
/// decision rests on. The collections of this project do so.
///
/// Durable on return, whatever [`Options::durability`] says: one persist barrier for each
/// transaction that changes anything. With [`Options::group`] of two or more, a commit returns
/// earlier. The ticket reports durability, and other workers see the transaction only from then on:
/// one persist barrier per group. Isolation is then *parallel* snapshot isolation: a worker sees
/// its own transactions before others do, so two workers may see concurrent transactions in
/// different orders.
pub struct Snapshot {
    core: Arc<Core>,
    timer: Mutex<Option<Timer>>,
}

/// State of one worker.
pub struct Local {
    number: usize,
    attempt: Attempt,
    /// `None` with groups, which keep it in the worker's place.
    log: Option<Log>,
    /// Words of runs that did not fit.
    wanted: usize,
    /// Whether a commit has begun and not finished. An attempt that ends in this state was unwound
    /// or could not be made durable.
    committing: bool,
}

impl Snapshot {
    fn start(opened: Opened, options: &Options) -> Result<(Snapshot, Shape), Error> {
        if options.unlogged && opened.storage.medium.name() != "emulated" {
            return Err(Error::BadOption {
                option: "unlogged",
                value: 1,
                must: "supported by medium `emulated` alone, because nothing is durable",
            });
        }
        let name = if options.unlogged { UNLOGGED } else { Self::NAME };
        let ReadyPool { storage, words, last } =
            opened.begin(name, |storage| Words::open(storage, options), |_| ())?;
        let shape = Shape::of::<Self>(&storage, options);
        let generation = storage.superblocks.current().generation;
        let store = SlotStore::new(storage, words, false);
        let slots = store.layout.slots;
        let truncation = Mutex::new(Truncation::new(&store, last.0));
        let core = Arc::new(Core {
            versions: Versions::new(slots, last.0, generation),
            store,
            workers: Workers::new(slots, last.0),
            gather: Gather::new(slots, LEADERS),
            truncation,
            sure: AtomicU64::new(u64::MAX),
            kept: (0..slots).map(|_| Mutex::default()).collect(),
            groups: Groups::new(slots, options),
            options: options.clone(),
        });
        let is_timed = timer::is_wanted(core.groups.as_ref(), options.background);
        let timer = if is_timed { Some(Timer::start(&core)?) } else { None };
        Ok((Snapshot { core, timer: Mutex::new(timer) }, shape))
    }
}

impl Design for Snapshot {
    const NAME: &'static str = "snapshot";
    const DURABLE: bool = true;
    const READS_LOG: bool = true;
    const WORKERS_MAX: usize = SLOTS_MAX;
    const BY_OBJECT: bool = true;
    const READS_PASS: bool = true;
    const STEPS: &'static [&'static str] = &["end groups"];
    type Local = Local;

    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (storage, created) = Storage::create(path, options, Self::NAME, Words::demand::<Self>)?;
        created.or_remove(|| Self::start(Opened::created(storage)?, options))
    }

    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        Self::start(Opened::open(path, options, Words::demand::<Self>)?, options)
    }

    fn record_growth(&self, step: Result<GrowthStep, Error>) -> Result<(), Error> {
        let recorded = step.and_then(|step| self.core.store.record_growth(step));
        recorded.map_err(|error| self.core.workers.poison.put(error))
    }

    #[inline]
    fn words(&self) -> usize {
        self.core.store.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.core.store.heap()[index].load(Ordering::Relaxed)
    }

    fn observe(&self, first: usize, out: &mut [u64]) {
        let core = &*self.core;
        core.versions.observe(&core.store, first, out);
        core.groups.iter().for_each(|groups| groups.written(core, first, out));
    }

    fn poke(&self, index: usize, value: u64) {
        self.core.store.store(index, value);
    }

    fn local(&self, number: usize) -> Result<Local, Error> {
        let core = &*self.core;
        core.workers.enter(Self::NAME, number)?;
        core.versions.enter(number, || core.copies())?;
        let log = || Log::new(core, number);
        let log = match &core.groups {
            Some(groups) => {
                groups.enter(number, log);
                None
            }
            None => Some(log()),
        };
        let kept = lock(&core.kept[number]).take();
        let attempt = core.versions.attempt(number, kept);
        Ok(Local { number, attempt, log, wanted: 0, committing: false })
    }

    fn close_local(&self, local: &mut Local) {
        let Local { number, attempt, log, .. } = local;
        if let Some(log) = log {
            log.close(&self.core);
        }
        if let Some(groups) = &self.core.groups
            && !std::thread::panicking()
        {
            // The pool keeps an error. A panicking thread could panic again here, so it leaves the
            // group to other workers or the timer.
            let _ = self.core.end_group(groups, *number);
        }
        let next = self.core.versions.attempt_without_space(*number);
        *lock(&self.core.kept[*number]) = Some(std::mem::replace(attempt, next));
    }

    fn words_max(&self) -> usize {
        self.core.words_max()
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.core.check()
    }

    #[inline]
    fn begin(&self, local: &mut Local, read_only: bool) -> Result<(), Error> {
        let core = &*self.core;
        core.check()?;
        if let Some(log) = &mut local.log
            && log.is_short()
            && !read_only
        {
            core.look_ahead(log)?;
        }
        if !read_only && (local.wanted > 0 || local.attempt.has_met_others()) {
            core.let_it_begin(local)?;
        }
        core.versions.begin(&mut local.attempt);
        if local.attempt.is_lent()
            && let Some(groups) = &core.groups
        {
            core.look_after_group(groups, &mut local.attempt, local.number);
        }
        Ok(())
    }

    fn starvation_lock(&self) -> &StarvationLock {
        self.core.versions.starvation_lock()
    }

    fn obstacle(&self, local: &mut Local) -> Obstacle {
        let Local { attempt, wanted, .. } = local;
        if *wanted > 0 {
            return Obstacle::Room;
        }
        // Before the wait, so that a group that holds the object ends soon.
        if let Some(groups) = &self.core.groups
            && let Some(holder) = attempt.was_held_by()
        {
            self.core.want_group(groups, holder);
        }
        attempt.obstacle()
    }

    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        self.core.versions.holder(&self.core.store, key, seen)
    }

    #[inline(always)]
    fn read(&self, local: &mut Local, at: At) -> Result<u64, Stop> {
        Ok(self.core.versions.read(&self.core.store, &mut local.attempt, at))
    }

    #[inline(always)]
    fn read_run(&self, local: &mut Local, at: At, out: &mut [u64]) -> Result<(), Stop> {
        self.core.versions.read_run(&self.core.store, &mut local.attempt, at, out);
        Ok(())
    }

    #[inline(always)]
    fn look(&self, local: &mut Local, object: usize) -> u64 {
        self.core.versions.look(&self.core.store, &mut local.attempt, object)
    }

    #[inline(always)]
    fn read_seen(&self, _local: &mut Local, version: u64, at: At) -> Result<u64, Stop> {
        Ok(self.core.versions.read_seen(&self.core.store, version, at))
    }

    #[inline(always)]
    fn read_run_seen(
        &self,
        _local: &mut Local,
        version: u64,
        at: At,
        out: &mut [u64],
    ) -> Result<(), Stop> {
        self.core.versions.read_run_seen(&self.core.store, version, at, out);
        Ok(())
    }

    #[inline(always)]
    fn write(&self, local: &mut Local, at: At, value: u64) -> Result<(), Stop> {
        self.core.join(local)?;
        self.core.versions.write(&self.core.store, &mut local.attempt, at, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local, at: At, values: &[u64]) -> Result<(), Stop> {
        self.core.join(local)?;
        self.core.versions.write_run(&self.core.store, &mut local.attempt, at, values)
    }

    #[inline]
    fn protect(&self, local: &mut Local, at: At) -> Result<(), Stop> {
        self.core.join(local)?;
        self.core.versions.protect(&self.core.store, &mut local.attempt, at.object)
    }

    #[inline]
    fn gives_runs_back(&self, local: &mut Local) {
        local.attempt.gives_runs_back();
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        let heap = self.core.store.heap();
        let first = index.saturating_sub(2); // the link precedes an object's header word
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

    fn why_too_large(&self, local: &Local) -> Option<Error> {
        // Each write checks its words against the slot. Before that limit only the memory for
        // copies ends an attempt.
        Some(match local.attempt.words_written() > self.words_max() {
            true => self.core.store.slot_too_small(Self::NAME, self.words_max()),
            false => Error::CopiesTooSmall { copies_bytes: self.core.copies_bytes() },
        })
    }

    #[inline]
    fn commit(&self, local: &mut Local) -> Result<TxId, Stop> {
        #[cfg(test)]
        panic_injection::point(Point::Begun);
        let core = &*self.core;
        if local.attempt.is_read_only() {
            core.versions.leave(&core.store, &mut local.attempt);
            return Ok(TxId(local.attempt.seen()));
        }
        if local.attempt.only_protects() {
            return Ok(core.commit_protected(local));
        }
        if let Some(groups) = &core.groups {
            return core.commit_member(groups, local);
        }
        let Local { attempt, log, wanted, committing, .. } = local;
        let log = log.as_mut().expect("without groups a worker has its log");
        log.batch.clear();
        core.versions.changes(attempt.owned(), !core.options.flush_diff, &mut log.batch);
        let logs = !core.options.unlogged;
        if logs && !log.has_room(&core.store, log.batch.len()) {
            *wanted = log.batch.len();
            return Err(Stop::Conflict);
        }
        *committing = true;
        let guard = core.workers.poison.on_panic("commit");
        core.versions.commits(attempt);
        #[cfg(test)]
        panic_injection::point(Point::Assigned);
        if logs && let Err(error) = log.persist(core, attempt.start()) {
            core.workers.poison.put(error);
            guard.disarm();
            return Err(Stop::Conflict); // the next attempt fails to begin, with the error
        }
        #[cfg(test)]
        panic_injection::point(Point::Recorded);
        let shown = core.versions.show(&core.store, attempt.owned());
        let (end, ends) = (shown.end, (shown, attempt.looks()));
        let finished = core.finish(log.slot, attempt.owned(), ends, &mut log.batch);
        core.versions.ended(attempt, end, finished);
        guard.disarm();
        *committing = false;
        Ok(TxId(end))
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        #[cfg(test)]
        [Point::Begun, Point::Assigned].into_iter().for_each(panic_injection::point);
        let core = &*self.core;
        if let Some(groups) = &core.groups {
            return core.leave_group(groups, local);
        }
        if local.committing {
            self.core.leave_undecided(local);
            return self.committed_id();
        }
        let seen = TxId(core.versions.roll_back(&core.store, &mut local.attempt));
        #[cfg(test)]
        panic_injection::point(Point::Recorded);
        seen
    }

    fn end_panicked(&self, local: &mut Local, step: &'static str) {
        self.core.workers.poison.put(Error::StepPanicked { step });
        drop(self.core.notify_on_drop());
        if local.committing {
            self.core.leave_undecided(local);
        }
    }

    fn committed_id(&self) -> TxId {
        TxId(match &self.core.groups {
            Some(_) => self.core.versions.last_assigned(),
            None => self.core.clock().load(Ordering::Acquire),
        })
    }

    fn durable_id(&self) -> TxId {
        let durable = match &self.core.groups {
            Some(_) => self.core.versions.durable(),
            // A transaction is durable before it is assigned its ID.
            None => self.core.clock().load(Ordering::Acquire),
        };
        TxId(durable.min(self.core.sure.load(Ordering::Relaxed)))
    }

    fn reproduced_id(&self) -> TxId {
        let forgotten = TxId(lock(&self.core.truncation).head().id);
        match &self.core.groups {
            // A durable transaction beside a pending group has a later ID than the group's members.
            Some(_) => forgotten.min(self.durable_id()),
            None => forgotten,
        }
    }

    fn wait(&self, id: TxId) -> Result<(), Error> {
        match &self.core.groups {
            Some(groups) => self.core.wait_for_groups(groups, id.0),
            // Durable on return, unless a commit failed or panicked with this ID.
            None if self.durable_id() >= id => Ok(()),
            None => self.core.workers.poison.check(),
        }
    }

    fn outcome(&self, id: TxId) -> Option<Result<(), Error>> {
        if self.durable_id() >= id {
            return Some(Ok(()));
        }
        self.core.workers.poison.check().err().map(Err)
    }

    fn notify(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        match &self.core.groups {
            Some(groups) => self.core.add_listener(groups, id.0, listener),
            None => listener.notify(self.wait(id)),
        }
        Ok(())
    }

    fn listen(
        &self,
        id: TxId,
        waker: &Waker,
        registration: &mut Registration,
    ) -> Result<(), Error> {
        if let Some(groups) = &self.core.groups {
            self.core.listen(groups, id.0, waker.clone(), registration);
        }
        Ok(())
    }

    fn forget(&self, id: TxId, registration: &Registration) {
        if let Some(groups) = &self.core.groups {
            groups.forget(id.0, registration);
        }
    }

    fn listeners(&self) -> usize {
        self.core.groups.as_ref().map_or(0, Groups::listeners)
    }

    fn expedite(&self, id: TxId) {
        if let Some(groups) = &self.core.groups {
            let _ = self.core.end_groups(groups, id.0); // the pool keeps the error
        }
    }

    fn checkpoint(&self) -> Result<(), Error> {
        let core = &*self.core;
        let _notify = core.notify_on_drop(); // drops after the truncation lock
        let committed = self.committed_id();
        self.wait(committed)?;
        let mut waiting = Waiting::begin(core);
        while self.reproduced_id() < committed {
            core.versions.help_all(&core.store);
            core.truncate(&mut lock(&core.truncation))?;
            if self.reproduced_id() < committed {
                core.end_all_groups()?;
                waiting.look_again()?;
            }
        }
        Ok(())
    }

    fn freeze(&self, image: &Arc<FrozenImage>) -> Result<TxId, Error> {
        self.wait(self.committed_id()).and_then(|()| self.core.freeze(image))
    }

    fn copy_frozen(&self, image: &FrozenImage, pages: Range<usize>) -> Result<(), Error> {
        self.core.store.copy_frozen(image, pages, &|_, _| ());
        self.check()
    }

    fn thaw(&self, image: &Arc<FrozenImage>) {
        self.core.store.thaw(image);
    }

    fn scrub(&self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        self.core.scrub(pages, scrubbed)
    }

    fn close(&self) -> Result<(), Error> {
        timer::stop(&self.timer, self.core.groups.as_ref());
        let core = &*self.core;
        core.check()?;
        if core.options.unlogged {
            return Ok(());
        }
        core.versions.forget_running();
        core.end_all_groups()?;
        if core.has_groups() {
            return Err(Error::WorkerForgotten { durable: TxId(core.versions.durable()) });
        }
        self.checkpoint().and_then(|()| core.seal())
    }

    fn mark_clean(&self) -> Result<bool, Error> {
        let core = &*self.core;
        if core.options.unlogged {
            return Ok(false);
        }
        let marked = core.store.mark_clean(self.committed_id().0);
        marked.map(|()| true).map_err(|error| core.workers.poison.put(error))
    }

    fn fail(&self, error: Error) {
        self.core.workers.poison.put(error);
        drop(self.core.notify_on_drop());
    }

    fn abandon(&self) {
        timer::stop(&self.timer, self.core.groups.as_ref());
    }

    fn step(&self, number: usize) -> Result<bool, Error> {
        match number {
            0 => self.core.end_all_groups(),
            _ => panic!("{} has no step {number}", Self::NAME),
        }
    }

    fn catch_up(&self) {
        // As a worker does at a lock: no running transaction reads the versions written over.
        self.core.versions.help_all(&self.core.store);
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.core.workers.metrics();
        lock(&self.core.truncation).meter().add_to(&mut metrics);
        metrics
    }
}
