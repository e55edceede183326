//! `decoupled`: runs on shadow memory, persists the redo log in the background, and reproduces it
//! in the heap image later.
//!
//! ```text
//!   perform                     persist                      reproduce
//!   worker: shadow, ring  -->   group, log, barrier   -->    heap image, barrier, superblock
//!   commit returns (async)      commit returns (sync)
//! ```
//!
//! (DudeTM, section 3.)

use std::path::Path;
use std::task::Waker;
use std::time::{Duration, Instant};

use medium::Parts;
use medium::mutants::{Mutant, injected};
use words::{Stop, TxId};

use super::{At, Design};
use crate::file_check::FileCheck;
use crate::ideal::{self, Nowhere};
use crate::metrics::Metrics;
use crate::options::Durability;
use crate::perform::{Obstacle, Redo, StarvationLock, Stm, Tm, record_words_max, records_of};
use crate::persist::{
    Background, Grouping, IDLE, Listener, NAP, Notifiers, Others, Persist, Registration, RingRedo,
    Step, Steps, Waiting,
};
use crate::pipeline::{Pipeline, PipelineView};
use crate::pool::Shape;
use crate::recover;
use crate::reproduce::Reproduce;
use crate::shadow::{ShadowCounts, ShadowHeap, ShadowMemory};
use crate::storage::{Demand, Opened, ReadyPool, Storage};
use crate::superblock::Superblock;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::{Error, Limit, Medium, Options};

/// Bound on the transactions of a group; no workload reaches it.
const GROUP_MAX: u64 = 1 << 40;
/// Bound on persist threads, beyond the cores of any machine.
const PERSIST_THREADS_MAX: usize = 1024;

/// The default design, over a transactional memory and a shadow.
pub struct Decoupled<T: Tm = Stm, S: ShadowMemory = ShadowHeap> {
    inner: Arc<Inner<T, S>>,
    background: Mutex<Option<Background>>,
    /// Whether it has threads, also after they have ended.
    has_threads: bool,
    options: Options,
    words_max: usize,
}

/// State shared by workers and background threads.
struct Inner<T, S> {
    memory: T,
    shadow: S,
    pipeline: Pipeline,
    /// See [`Options::pause`].
    pause: Duration,
    file_check: Arc<FileCheck>,
}

/// The design's part of a worker.
pub struct Local<T: Tm, S: ShadowMemory = ShadowHeap> {
    attempt: T::Attempt,
    part: S::Part,
    redo: RingRedo,
}

impl<T: Tm, S: ShadowMemory> Decoupled<T, S> {
    /// Returns the anonymous memory that a pool needs, on any medium.
    fn demand(options: &Options, _: Medium, heap_bytes: u64) -> Demand {
        let records = records_of(options.room(heap_bytes) as usize / 8, options.ownership_records);
        Demand { heap_bytes: S::memory_bytes(options, heap_bytes), records }
    }

    /// Recovers the pool, begins a new generation, and starts the threads.
    fn start(opened: Opened, options: &Options) -> Result<(Self, Shape), Error> {
        let open = |storage: &Storage| {
            let Superblock { heap_offset, heap_bytes, .. } = *storage.superblocks.current();
            let shadow = S::open(options, &storage.file, heap_offset, heap_bytes)?;
            let memory = T::sized(shadow.words(), options.ownership_records)?;
            Ok((shadow, memory))
        };
        ideal::check(options, opened.storage.medium)?;
        let name = if options.ideal_reproduce { ideal::NAME } else { Self::NAME };
        let ReadyPool { storage, words, last } = opened.begin(name, open, |now| {
            (now.group, now.compress) = (group(options), options.compress);
        })?;
        Self::run(storage, words, last, options)
    }

    fn run(
        storage: Storage,
        (shadow, memory): (S, T),
        last: TxId,
        options: &Options,
    ) -> Result<(Self, Shape), Error> {
        let shape = Shape::of::<Self>(&storage, options);
        let superblock = *storage.superblocks.current();
        let blocks = matches!(storage.medium, crate::Medium::File);
        let identity = recover::identity(&superblock);
        let mut persist = Persist::new(storage.log, identity, last, grouping(options, blocks));
        persist.queue.replicated.require(last.0, options.stream_limits());
        let heap_image =
            if options.ideal_reproduce { Parts::whole(Nowhere) } else { storage.heap_image };
        let reproduce = Reproduce::new(heap_image, storage.superblocks)
            .with_recovery_time(options.recovery_time);
        let log_max = options.log_bytes_max(superblock.heap_bytes);
        let pipeline = Pipeline::new(persist, reproduce, log_max, blocks, options.background);
        let (memory, file_check) = (memory.starting_after(last), Arc::clone(shape.file_check()));
        let inner = Inner { memory, shadow, pipeline, pause: pause(options), file_check };
        let inner = Arc::new(inner);
        let background = match options.background {
            true => Some(Background::spawn(&inner).map_err(|source| Error::Thread { source })?),
            false => None,
        };
        let words_max = Limit::words_max(superblock.log_bytes, options.ring_words());
        let (has_threads, options) = (background.is_some(), options.clone());
        let background = Mutex::new(background);
        Ok((Decoupled { inner, background, has_threads, options, words_max }, shape))
    }

    fn stop_background(&self) {
        self.inner.pipeline.notifiers.close();
        // After `close`, so that the threads it wakes see the flag.
        self.inner.pipeline.persist.more.notify();
        let background = lock(&self.background).take();
        if let Some(background) = background {
            background.join();
        }
    }

    /// Runs one persist step as a background thread would, for tests without such threads. Returns
    /// whether it did anything.
    ///
    /// # Errors
    /// An error of the medium.
    pub fn persist_step(&self) -> Result<bool, Error> {
        Ok(Steps::persist_step(&*self.inner)? != Step::Nothing)
    }

    /// Runs one reproduce step as a background thread would, for tests without such threads.
    /// Returns whether it did anything.
    ///
    /// # Errors
    /// An error of the medium.
    pub fn reproduce_step(&self) -> Result<bool, Error> {
        Ok(Steps::reproduce_step(&*self.inner)? != Step::Nothing)
    }

    /// Runs one reproduce step at the pace of the commits: takes groups in, and writes the pages
    /// that are due. Else as [`reproduce_step`](Decoupled::reproduce_step).
    pub fn paced_step(&self) -> Result<bool, Error> {
        Ok(self.inner.pipeline.paced_step(false)? != Step::Nothing)
    }

    /// Runs one part of a reproduce step that another thread leads, as a background thread would,
    /// for tests and measurements without such threads. Returns whether it did anything.
    ///
    /// # Errors
    /// An error of the medium.
    pub fn part_step(&self) -> Result<bool, Error> {
        Ok(Steps::part_step(&*self.inner)? != Step::Nothing)
    }
}

/// Returns how long the persist thread sleeps between steps.
///
/// In sync mode each committing thread persists its own group. A persist thread that polled would
/// take the group first, and the committing thread would have to sleep. So the thread polls in
/// async mode alone. Without background threads the pause does not matter.
fn pause(options: &Options) -> Duration {
    let polls = options.durability == Durability::Async && options.background;
    if options.pause.is_zero() && !polls { NAP } else { options.pause }
}

/// Returns the number of transactions in a combined group.
fn group(options: &Options) -> u64 {
    options.group.min(GROUP_MAX)
}

/// Returns the grouping for a pool. `blocks`: its steps sleep in the kernel.
fn grouping(options: &Options, blocks: bool) -> Grouping {
    Grouping {
        transactions: group(options),
        time: options.group_time,
        compress: options.compress,
        threads: options.persist_threads.clamp(1, PERSIST_THREADS_MAX),
        unpaused: pause(options).is_zero() && !blocks,
    }
}

impl<T: Tm, S: ShadowMemory> Inner<T, S> {
    /// Returns the pipeline below the shadow.
    #[inline(always)]
    fn pipeline_view(&self) -> PipelineView<'_> {
        PipelineView::new(&self.pipeline, self.memory.clock())
    }
}

impl<T: Tm, S: ShadowMemory> Steps for Inner<T, S> {
    fn persist_step(&self) -> Result<Step, Error> {
        self.pipeline.background_persist_step(self.memory.clock())
    }

    fn reproduce_if_due(&self) -> Result<Step, Error> {
        self.pipeline.reproduce_if_due(false)
    }

    fn reproduce_step(&self) -> Result<Step, Error> {
        self.pipeline.reproduce_step(false)
    }

    fn part_step(&self) -> Result<Step, Error> {
        self.pipeline.part_step()
    }

    fn reproduce_threads(&self) -> usize {
        self.pipeline.reproduce.threads()
    }

    fn enter(&self) {
        medium::signals::block_size_signal();
    }

    fn clock(&self) -> &AtomicU64 {
        self.memory.clock()
    }

    fn durable(&self) -> u64 {
        self.pipeline.persist.durable().0
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn waiting(&self) -> Option<Waiting> {
        self.pipeline.persist.waiting()
    }

    fn idle_time(&self) -> Option<Duration> {
        Some(IDLE)
    }

    fn release_idle(&self, all_idle: bool) {
        self.pipeline.persist.release_idle(all_idle);
    }

    fn check_files(&self) {
        self.file_check.check_at_times();
    }

    fn notifiers(&self) -> &Notifiers {
        &self.pipeline.notifiers
    }

    fn reproduces_apart(&self) -> bool {
        self.pipeline.blocks
    }

    fn others(&self) -> Option<Others<'_>> {
        let persist = &self.pipeline.persist;
        let others = persist.threads() - 1;
        (others > 0).then_some(Others { threads: others, more: &persist.more })
    }
}

impl<T: Tm, S: ShadowMemory> Design for Decoupled<T, S> {
    const NAME: &'static str = "decoupled";
    const DURABLE: bool = true;
    const HAS_RECORDS: bool = true;
    const WORKERS_MAX: usize = 1 << 15;
    const STEPS: &'static [&'static str] = &["persist", "reproduce", "help", "pace"];
    type Local = Local<T, S>;

    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        S::check(options)?;
        options.medium.map_or(Ok(()), |medium| ideal::check(options, medium))?;
        let (storage, created) = Storage::create(path, options, Self::NAME, Self::demand)?;
        created.or_remove(|| Self::start(Opened::created(storage)?, options))
    }

    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        S::check(options)?;
        options.medium.map_or(Ok(()), |medium| ideal::check(options, medium))?;
        Self::start(Opened::open(path, options, Self::demand)?, options)
    }

    #[inline]
    fn words(&self) -> usize {
        self.inner.shadow.words()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.inner.shadow.peek(index, self.inner.pipeline_view())
    }

    fn glance(&self, index: usize) -> u64 {
        self.inner.shadow.glance(index, self.inner.pipeline_view())
    }

    fn observe(&self, first: usize, out: &mut [u64]) {
        self.inner.shadow.observe(first, out, self.inner.pipeline_view());
    }

    fn poke(&self, index: usize, value: u64) {
        self.inner.shadow.poke(index, value, self.inner.pipeline_view());
    }

    fn local(&self, number: usize) -> Result<Local<T, S>, Error> {
        let Inner { memory, shadow, pipeline, .. } = &*self.inner;
        let slot = pipeline.persist.register(self.options.ring_words())?;
        let (attempt, part) = (memory.attempt(number), shadow.part());
        Ok(Local { attempt, part, redo: RingRedo::new(slot) })
    }

    fn close_local(&self, local: &mut Local<T, S>) {
        self.inner.shadow.leave(&mut local.part);
        self.inner.pipeline.persist.leave(&local.redo.slot);
    }

    fn words_max(&self) -> usize {
        self.words_max
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.inner.pipeline.persist.progress.check()
    }

    fn will_write_words(&self, local: &mut Local<T, S>, words: usize) {
        local.redo.wanted = record_words_max(words);
    }

    #[inline]
    fn begin(&self, local: &mut Local<T, S>, read_only: bool) -> Result<(), Error> {
        // A failed pool returns its error here, and not only when the ring is full.
        self.check()?;
        // Before any wait for room: here the worker holds nothing that another one waits for.
        match self.inner.pipeline.persist.limit.is_set() {
            false => local.redo.paid(),
            true => self.pay(&mut local.redo),
        }
        // Always reserve room for a no-op record: an attempt that rolls back may need one, and must
        // not wait.
        let wanted = std::mem::take(&mut local.redo.wanted);
        if !local.redo.has_room(wanted) {
            self.wait_for_room(&mut local.redo)?;
        }
        self.inner.shadow.begin(&mut local.part, self.inner.pipeline_view())?;
        match read_only {
            false => self.inner.memory.begin(&mut local.attempt),
            true => self.inner.memory.begin_read(&mut local.attempt),
        }
        Ok(())
    }

    fn starvation_lock(&self) -> &StarvationLock {
        self.inner.memory.starvation_lock()
    }

    fn pipeline(&self) -> Option<PipelineView<'_>> {
        Some(self.inner.pipeline_view())
    }

    fn obstacle(&self, local: &mut Local<T, S>) -> Obstacle {
        self.inner.memory.obstacle(&mut local.attempt)
    }

    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        self.inner.memory.holder(key, seen)
    }

    #[inline(always)]
    fn read(&self, local: &mut Local<T, S>, at: At) -> Result<u64, Stop> {
        let space = self.inner.shadow.space(&mut local.part, self.inner.pipeline_view());
        self.inner.memory.read(&mut local.attempt, space, at.index)
    }

    #[inline]
    fn read_run(&self, local: &mut Local<T, S>, at: At, out: &mut [u64]) -> Result<(), Stop> {
        let space = self.inner.shadow.space(&mut local.part, self.inner.pipeline_view());
        self.inner.memory.read_run(&mut local.attempt, space, at.index, out)
    }

    #[inline(always)]
    fn write(&self, local: &mut Local<T, S>, at: At, value: u64) -> Result<(), Stop> {
        let space = self.inner.shadow.space(&mut local.part, self.inner.pipeline_view());
        self.inner.memory.write(&mut local.attempt, space, at.index, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local<T, S>, at: At, values: &[u64]) -> Result<(), Stop> {
        let space = self.inner.shadow.space(&mut local.part, self.inner.pipeline_view());
        self.inner.memory.write_run(&mut local.attempt, space, at.index, values)
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        self.inner.memory.will_read(self.inner.shadow.hints(), index, words);
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.inner.memory.will_write(self.inner.shadow.hints(), index, words);
    }

    #[inline]
    fn words_written(&self, local: &Local<T, S>) -> usize {
        self.inner.memory.words_written(&local.attempt)
    }

    #[inline]
    fn commit(&self, local: &mut Local<T, S>) -> Result<TxId, Stop> {
        let Local { attempt, part, redo } = local;
        let space = self.inner.shadow.space(part, self.inner.pipeline_view());
        let id = self.inner.memory.commit(attempt, space, redo)?;
        self.inner.shadow.end(part);
        // In sync mode the caller waits next, and persists the record itself.
        if self.options.durability == Durability::Async {
            self.inner.pipeline.notifiers.committed();
            let usual = || self.inner.pipeline.persist.usual_words();
            if self.has_threads && local.redo.is_late(usual) {
                self.help();
            }
        }
        Ok(id)
    }

    fn roll_back(&self, local: &mut Local<T, S>) -> TxId {
        let Local { attempt, part, redo } = local;
        let space = self.inner.shadow.space(part, self.inner.pipeline_view());
        let seen = self.inner.memory.roll_back(attempt, space, redo);
        self.inner.shadow.end(part);
        if injected(Mutant::HoleNotRecorded) {
            self.inner.memory.clock().fetch_add(1, Ordering::Relaxed);
        }
        self.inner.pipeline.notifiers.committed();
        seen
    }

    fn end_panicked(&self, _local: &mut Local<T, S>, step: &'static str) {
        self.inner.pipeline.persist.progress.fail(Error::StepPanicked { step });
    }

    fn committed_id(&self) -> TxId {
        // Acquire: the caller may wait for this ID, and the record must be published by then.
        TxId(self.inner.memory.clock().load(Ordering::Acquire))
    }

    #[inline]
    fn durable_id(&self) -> TxId {
        self.inner.pipeline.persist.durable()
    }

    fn reproduced_id(&self) -> TxId {
        self.inner.pipeline.reproduce.reproduced()
    }

    fn wait(&self, id: TxId) -> Result<(), Error> {
        self.inner.pipeline.wait(self.inner.memory.clock(), id)
    }

    fn outcome(&self, id: TxId) -> Option<Result<(), Error>> {
        self.inner.pipeline.persist.progress.outcome(id.0)
    }

    fn notify(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        self.inner.pipeline.persist.progress.notify(id.0, listener);
        Ok(())
    }

    fn listen(
        &self,
        id: TxId,
        waker: &Waker,
        registration: &mut Registration,
    ) -> Result<(), Error> {
        self.inner.pipeline.persist.progress.listen(id.0, waker.clone(), registration);
        Ok(())
    }

    fn forget(&self, id: TxId, registration: &Registration) {
        self.inner.pipeline.persist.progress.forget(id.0, registration);
    }

    fn listeners(&self) -> usize {
        self.inner.pipeline.persist.progress.listeners()
    }

    fn expedite(&self, id: TxId) {
        self.inner.pipeline.persist.expedite(id);
        match self.has_threads {
            true => self.inner.pipeline.notifiers.expedite(),
            // The error is sticky and becomes the outcome.
            false => drop(self.wait(id)),
        }
    }

    fn checkpoint(&self) -> Result<(), Error> {
        self.inner.pipeline.checkpoint(self.inner.memory.clock())
    }

    fn close(&self) -> Result<(), Error> {
        self.stop_background();
        let Inner { pipeline, memory, .. } = &*self.inner;
        match self.options.ideal_reproduce {
            false => pipeline.close(memory.clock()),
            true => pipeline.checkpoint(memory.clock()),
        }
    }

    fn mark_clean(&self) -> Result<bool, Error> {
        // Ideal reproduction loses the heap.
        let marks = !self.options.ideal_reproduce;
        if marks {
            self.inner.pipeline.mark_clean()?;
        }
        Ok(marks)
    }

    fn fail(&self, error: Error) {
        self.inner.pipeline.persist.progress.fail(error);
    }

    fn abandon(&self) {
        self.stop_background();
    }

    fn step(&self, number: usize) -> Result<bool, Error> {
        match number {
            0 => self.persist_step(),
            1 => self.reproduce_step(),
            2 => {
                // Like a helping worker, this step waits for no device, so several groups can be in
                // flight.
                let Inner { pipeline, memory, .. } = &*self.inner;
                Ok(pipeline.persist_step(memory.clock(), true, false)? != Step::Nothing)
            }
            3 => self.paced_step(),
            _ => panic!("{} has no step {number}", Self::NAME),
        }
    }

    fn why_too_large(&self, local: &Local<T, S>) -> Option<Error> {
        self.inner.shadow.too_large(&local.part)
    }

    fn metrics(&self) -> Metrics {
        let ShadowCounts { page_ins, evictions, page_waits } = self.inner.shadow.counts();
        let Inner { pipeline, memory, .. } = &*self.inner;
        Metrics { page_ins, evictions, page_waits, ..pipeline.metrics(memory.clock()) }
    }
}

impl<T: Tm, S: ShadowMemory> Decoupled<T, S> {
    /// Runs one persist step in a worker, if the background thread does not get a core; a commit
    /// would otherwise wait for the scheduler. Waits for no device.
    #[cold]
    fn help(&self) {
        let Pipeline { persist, notifiers, .. } = &self.inner.pipeline;
        if persist.combines() {
            // Gathering and compressing a combined group takes a hundred milliseconds, too long for
            // a commit without a waiter. Wake the background thread instead. A worker whose ring is
            // full waits for that thread, and helps.
            return notifiers.expedite();
        }
        // The error is sticky: the next transaction returns it at its begin.
        let _ = self.inner.pipeline.persist_step(self.inner.memory.clock(), true, false);
    }

    /// Pays for recorded words, and sleeps if the workers are ahead of the log's reproduction.
    #[cold]
    fn pay(&self, redo: &mut RingRedo) {
        let persist = &self.inner.pipeline.persist;
        let Some(words) = redo.due_words() else { return };
        redo.paid();
        if let Some(time) = persist.limit.pay(8 * words) {
            std::thread::sleep(time);
            persist.meter.waited(time);
        }
    }

    #[cold]
    fn wait_for_room(&self, redo: &mut RingRedo) -> Result<(), Error> {
        let pipeline = &self.inner.pipeline;
        pipeline.persist.meter.ring_full_waits.fetch_add(1, Ordering::Relaxed);
        let wanted = redo.wanted;
        let (clock, begun) = (self.inner.memory.clock(), Instant::now());
        let done = pipeline.help_until(clock, TxId::NONE, || redo.has_room(wanted).then_some(()));
        pipeline.persist.meter.waited(begun.elapsed());
        redo.wanted = 0;
        done
    }
}
