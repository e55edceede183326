//! The pipeline of one pool: its persist and reproduce steps, and waits for their results.
//!
//! The designs run transactions in the foreground and hand redo records to the pipeline. Background
//! threads and waiting workers drive its steps.

// A path, since the models compile this file in another directory.
#[path = "pipeline/replication.rs"]
mod replication;

use std::ops::Range;

use medium::mutants::{Mutant, injected};
use medium::{FrozenImage, Scrubbed};
use words::TxId;

use crate::Error;
use crate::log_growth::LogGrowth;
use crate::metrics::{Metrics, StepTimer};
use crate::persist::{Notifiers, Persist, Step, UNPAUSED_BYTES, help_until};
use crate::reproduce::{Reproduce, Work};
use crate::superblock::{GrowthStep, is_harmless};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, rest};
use crate::write_pace::SLICE_PAGES;

/// The persist and reproduce steps of one pool, shared by the designs.
pub(crate) struct Pipeline {
    pub(crate) persist: Persist,
    pub(crate) reproduce: Reproduce,
    pub(crate) notifiers: Notifiers,
    log_growth: LogGrowth,
    /// Whether steps take groups in as they come, and write pages at the pace of the commits.
    paced: AtomicBool,
    /// Whether steps sleep in the kernel: reproduction then has a thread of its own.
    pub(crate) blocks: bool,
    /// Whether a thread that waits for log space leaves reproduction to a dedicated thread, because
    /// a step sleeps in the kernel.
    own_reproducer: bool,
    /// A thread has asked for reproduction, however little is queued.
    expedited: AtomicBool,
}

/// The heap image and the pipeline that feeds it, as a shadow sees them.
#[derive(Clone, Copy)]
pub struct PipelineView<'a> {
    pipeline: &'a Pipeline,
    clock: &'a AtomicU64,
}

impl<'a> PipelineView<'a> {
    #[inline(always)]
    pub(crate) fn new(pipeline: &'a Pipeline, clock: &'a AtomicU64) -> PipelineView<'a> {
        PipelineView { pipeline, clock }
    }

    /// Returns the last reproduced transaction.
    pub(crate) fn reproduced(self) -> u64 {
        self.pipeline.reproduce.reproduced().0
    }

    /// Returns the last transaction that has an ID.
    pub(crate) fn committed(self) -> TxId {
        TxId(self.clock.load(Ordering::Acquire))
    }

    /// Waits until a transaction is reproduced, and helps. The caller may hold ownership records
    /// and pages, but no assigned ID without its record. The wait depends only on the media and on
    /// records of assigned IDs. Workers publish those without waiting, and none of it needs the
    /// records or pages held here.
    ///
    /// # Errors
    /// The medium's.
    #[cold]
    pub(crate) fn wait_reproduced(self, id: TxId) -> Result<(), Error> {
        self.pipeline.reproduce_up_to(self.clock, id)
    }

    /// Freezes the heap image as of the last transaction committed now, or a later one. Returns its
    /// ID. Waits until it is durable and taken in. `None` if no heap image is written
    /// ([ideal](crate::ideal) reproduction).
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn freeze(self, image: &Arc<FrozenImage>) -> Result<Option<TxId>, Error> {
        let PipelineView { pipeline, clock } = self;
        let (Pipeline { persist, reproduce, .. }, id) = (pipeline, self.committed());
        pipeline.wait(clock, id)?;
        pipeline.wait_for_stream(id)?;
        let is_taken_in = || (reproduce.taken_in() >= id).then_some(());
        help_until(&persist.progress, 0, is_taken_in, || match pipeline.is_paced() {
            true => pipeline.paced_step(true),
            false => pipeline.reproduce_step(true),
        })?;
        let frozen = reproduce.freeze(persist, image);
        pipeline.notify_if_due();
        frozen
    }

    /// Copies pages of the heap image to a frozen image, after a reproduce step that is due or was
    /// refused since the last such call. So reproduction goes on however many threads copy.
    ///
    /// # Errors
    /// The medium's. A failed copy fails only the frozen image.
    pub(crate) fn copy_frozen(self, image: &FrozenImage, pages: Range<usize>) -> Result<(), Error> {
        let Pipeline { persist, reproduce, .. } = self.pipeline;
        self.let_step()?;
        reproduce.copy_frozen(persist, image, pages);
        self.pipeline.notify_if_due();
        persist.progress.check()
    }

    /// Lets a reproduce step go first, if a visitor was the last to hold its lock and a step is due
    /// or was refused. Waits for a bounded time: no thread may come for that step.
    fn let_step(self) -> Result<(), Error> {
        let Pipeline { persist, reproduce, notifiers, own_reproducer, .. } = self.pipeline;
        for look in 0..TURN_LOOKS {
            let is_due = self.pipeline.is_due();
            if !(reproduce.was_visited() && (is_due || reproduce.has_refused())) {
                return Ok(());
            }
            persist.progress.check()?;
            // A thread that has sent a group must not sleep in a sync: see `make_room`.
            let has_thread = *own_reproducer && !notifiers.is_closing();
            if is_due && has_thread {
                notifiers.notify_reproduce(true);
            } else if is_due && self.pipeline.reproduce_if_due(true)? == Step::Done {
                continue;
            }
            rest(look);
        }
        reproduce.had_turn();
        Ok(())
    }

    /// Records a step of the heap's growth in the superblock, between two steps, or poisons the
    /// pool with the error of that step.
    ///
    /// # Errors
    /// That error, and the medium's; the pool is poisoned then.
    pub(crate) fn record_growth(self, step: Result<GrowthStep, Error>) -> Result<(), Error> {
        let step = step.map_err(|error| self.poison(error))?;
        self.pipeline.reproduce.record_growth(&self.pipeline.persist, step)?;
        if let GrowthStep::Done { heap_bytes } = step {
            self.pipeline.has_grown(heap_bytes);
        }
        self.pipeline.notify_if_due();
        Ok(())
    }

    /// Requests a log of more than half of `bytes` bytes, and helps until it has that size, for
    /// about 100 ms.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn grow_log(self, bytes: u64) -> Result<(), Error> {
        let Pipeline { persist, log_growth, .. } = self.pipeline;
        log_growth.request(bytes);
        for look in 0..TURN_LOOKS {
            self.pipeline.double_log()?;
            if !log_growth.is_due(persist.log_bytes()) {
                break;
            }
            persist.progress.check()?;
            // Groups in use may lie where the log cannot grow.
            if self.pipeline.reproduce_step(true)? != Step::Done {
                rest(look);
            }
        }
        self.pipeline.notify_if_due();
        Ok(())
    }

    /// Compares pages of the heap image with their checksums, slice by slice.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn scrub(self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let Pipeline { persist, reproduce, .. } = self.pipeline;
        for first in pages.clone().step_by(SUMS_PAGES) {
            self.let_step()?;
            let slice = first..pages.end.min(first + SUMS_PAGES);
            reproduce.scrub(persist, slice, scrubbed)?;
            self.pipeline.notify_if_due();
        }
        persist.progress.check()
    }

    /// Ends a frozen image.
    pub(crate) fn thaw(self, image: &Arc<FrozenImage>) {
        let Pipeline { persist, reproduce, .. } = self.pipeline;
        reproduce.thaw(persist, image);
        self.pipeline.notify_if_due();
    }

    /// Requests reproduction of the durable groups, however few.
    pub(crate) fn expedite(self) {
        if !self.pipeline.expedited.swap(true, Ordering::Relaxed) {
            self.pipeline.notifiers.notify_reproduce(self.pipeline.blocks);
        }
    }

    /// Poisons the pool and notifies every waiter. Returns the error to report. The caller holds no
    /// lock: see [`Progress::fail`](crate::persist::Progress::fail).
    #[cold]
    pub(crate) fn poison(self, error: Error) -> Error {
        self.pipeline.persist.progress.fail(error)
    }
}

/// Log that a memory pool reproduces at a time: thousands of entries a barrier, still in the L2
/// cache.
const DUE_BYTES_MEMORY: u64 = 1 << 20;

/// Largest heap on a disk whose pages are written in one batch for half of the log. Such a batch is
/// at most the heap and ends within a second or two, and needs fewer syncs. (Measured with four
/// random words a transaction in 96 MiB and a log of 64 MiB on a busy machine: 600 k/s in batches,
/// 300 k/s at a pace, with half as long a longest call.)
const BATCHED_HEAP_BYTES: u64 = 256 << 20;

/// Pages whose checksums are computed or compared at a time: 32 MiB.
const SUMS_PAGES: usize = 8192;

/// Looks at a due step before a visitor goes on without it: about 100 ms; see [`rest`].
const TURN_LOOKS: u32 = 300;

/// Log that a paced step takes in at a time: some milliseconds of its thread, and
/// some hundred groups.
const TAKEN_BYTES: u64 = 1 << 20;

/// Parts of a small log that are taken in one after another.
const TAKEN_SHARE: u64 = 64;

/// The share of half the log that a paced step takes in at most. Pages are written between steps.
const PACED_SHARE: u64 = 8;

/// Number of steps that a long queue is divided into. A larger batch costs fewer barriers, so that
/// reproduction catches up before the log is full. (Without this, `lastword run tpcc-hash
/// --transactions 1000000 --sample every --medium emulated --bandwidth-gbps 1 --pause-us 0` had a
/// full log, 105 k/s and p50 104 ms; with it 138 k/s and 19 us.)
const BACKLOG_STEPS: u64 = 256;

impl Pipeline {
    /// `log_max`: the log may grow with the heap up to so many bytes; 0: it keeps its size.
    pub(crate) fn new(
        persist: Persist,
        reproduce: Reproduce,
        log_max: u64,
        blocks: bool,
        background: bool,
    ) -> Pipeline {
        let (notifiers, own_reproducer) = (Notifiers::default(), blocks && background);
        let (paced, expedited) = (AtomicBool::new(false), AtomicBool::new(false));
        let log_growth = LogGrowth::up_to(log_max, persist.log_bytes_max());
        let heap_bytes = reproduce.heap_bytes();
        let pipeline = Pipeline {
            persist,
            reproduce,
            notifiers,
            log_growth,
            paced,
            blocks,
            own_reproducer,
            expedited,
        };
        pipeline.has_grown(heap_bytes);
        pipeline
    }

    /// Chooses how pages are written for a heap of this size.
    fn has_grown(&self, heap_bytes: u64) {
        let paced = self.blocks && heap_bytes > BATCHED_HEAP_BYTES;
        // Relaxed: a step of the other kind does no harm.
        self.paced.store(paced, Ordering::Relaxed);
        self.reproduce.set_limits(paced && self.own_reproducer);
        self.log_growth.heap_has(heap_bytes);
    }

    #[inline]
    fn is_paced(&self) -> bool {
        self.paced.load(Ordering::Relaxed)
    }

    /// Half of the log.
    fn half(&self) -> u64 {
        self.persist.log_bytes() / 2
    }

    /// Bytes of log, or of decoded groups, that make a step due.
    fn due_bytes(&self) -> u64 {
        let half = self.half();
        match (self.is_paced(), self.blocks, self.persist.is_unpaused()) {
            // A paced step need not write, so these bytes are only worth a wake-up: few, so that
            // the memory of the queue is soon free. See `WritePace` for the pages.
            (true, ..) => (2 * half / TAKEN_SHARE).min(TAKEN_BYTES),
            // A file combines writes to one page over as much log as possible, and leaves the other
            // half of the log to the workers during the write-back.
            (_, true, _) => half,
            (_, false, true) => half.min(UNPAUSED_BYTES as u64),
            (_, false, false) => half.min(DUE_BYTES_MEMORY),
        }
    }

    /// Runs one persist step: sends a group, and acknowledges the durable ones. With `wait`, waits
    /// for one of these if no more can be sent. Notifies the reproduce thread when a step is due.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn persist_step(
        &self,
        clock: &AtomicU64,
        helped: bool,
        wait: bool,
    ) -> Result<Step, Error> {
        let timer = StepTimer { blocks: self.blocks, helped };
        let sent = self.persist.send(clock, timer)?;
        let acknowledged = self.persist.acknowledge(wait && sent != Step::More, timer)?;
        // On memory the persist thread reproduces, and checks that itself after each step. A
        // notification of itself would end its nap while another thread reproduces.
        let is_other = self.blocks || helped || injected(Mutant::PersistThreadWakesItself);
        if is_other && self.is_due() {
            self.notifiers.request_reproduce(self.blocks);
        }
        Ok(Step::of_both(sent, acknowledged, self.persist.send_end()))
    }

    /// Runs one reproduce step on the queued groups: writes a slice of the pages.
    pub(crate) fn reproduce_step(&self, helped: bool) -> Result<Step, Error> {
        let timer = StepTimer { blocks: self.blocks, helped };
        let expedited = self.expedited.swap(false, Ordering::Relaxed);
        let (usual, pages) = match self.is_paced() {
            true => (self.half(), SLICE_PAGES),
            false => (self.due_bytes(), usize::MAX),
        };
        let log_bytes = usual.max(self.persist.queued_bytes() / BACKLOG_STEPS);
        let work = Work::All { log_bytes, pages };
        let step = self.reproduce.step(&self.persist, &self.notifiers, work, timer)?;
        if expedited && (step == Step::Busy || self.is_held_back()) {
            self.expedited.store(true, Ordering::Relaxed); // not served
        }
        self.grow_log(step, helped)?;
        Ok(step)
    }

    /// Doubles the log after a step, if it is to grow. A thread that waits leaves it to the thread
    /// that reproduces.
    fn grow_log(&self, step: Step, helped: bool) -> Result<(), Error> {
        if step != Step::Done || helped && self.own_reproducer {
            return Ok(());
        }
        self.double_log()
    }

    /// Doubles the log, if it is to grow and the sequences in use permit it: see `log_growth`. The
    /// caller holds no lock. Costs five persist barriers.
    ///
    /// The end of a step, and of each record of a growth, runs callbacks of tickets. One of them
    /// may have closed the pool in this thread. Its files then belong to the next opener.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then. A disk without room is no error: the log keeps its
    /// size.
    fn double_log(&self) -> Result<(), Error> {
        let Pipeline { persist, reproduce, log_growth, notifiers, .. } = self;
        if !log_growth.is_due(persist.log_bytes()) || notifiers.is_closing() {
            return Ok(());
        }
        let Some(mut reserved) = log_growth.begin() else { return Ok(()) };
        let log_bytes = 2 * persist.log_bytes();
        if !log_growth.is_due(log_bytes / 2) {
            return Ok(()); // another thread has doubled it
        }
        if *reserved < log_bytes {
            if !injected(Mutant::LogGrowthNotAnnounced) {
                reproduce.record_growth(persist, GrowthStep::LogBegun { log_bytes })?;
            }
            if notifiers.is_closing() {
                return Ok(());
            }
            match persist.reserve_log(log_bytes) {
                Ok(()) => *reserved = log_bytes,
                Err(error) if is_harmless(&error) => {
                    log_growth.cancel();
                    return Ok(());
                }
                Err(error) => return Err(persist.progress.fail(error)),
            }
        }
        if persist.bound_log() {
            if !injected(Mutant::LogGrowthNotRecorded) {
                reproduce.record_growth(persist, GrowthStep::LogDone { log_bytes })?;
            }
            // Its lock is that of the steps: a thread that finds it taken sleeps until the
            // notification of `extend_log`.
            reproduce.log_has_grown(log_bytes);
            persist.extend_log(log_bytes);
        }
        Ok(())
    }

    /// Runs one reproduce step if one is due.
    pub(crate) fn reproduce_if_due(&self, helped: bool) -> Result<Step, Error> {
        if !self.is_due() {
            return Ok(Step::Nothing);
        }
        if self.is_paced() { self.paced_step(helped) } else { self.reproduce_step(helped) }
    }

    /// Runs one reproduce step that writes the pages that are due by its pace, and maybe none. If
    /// log space is urgent, or a thread has requested reproduction, it is a usual step.
    pub(crate) fn paced_step(&self, helped: bool) -> Result<Step, Error> {
        if self.is_urgent() {
            return self.reproduce_step(helped);
        }
        let timer = StepTimer { blocks: self.blocks, helped };
        let work = Work::Paced { log_bytes: self.half() / PACED_SHARE };
        let step = self.reproduce.step(&self.persist, &self.notifiers, work, timer)?;
        self.grow_log(step, helped)?;
        Ok(step)
    }

    /// Runs one part of a reproduce step that another thread leads.
    pub(crate) fn part_step(&self) -> Result<Step, Error> {
        let timer = StepTimer { blocks: self.blocks, helped: false };
        self.reproduce.part_step(&self.persist, timer)
    }

    /// Whether a reproduce step is due.
    pub(crate) fn is_due(&self) -> bool {
        let queued = match self.is_paced() {
            true => self.persist.queue.waiting_bytes(),
            false => self.persist.queued_bytes(),
        };
        let queued = self.persist.queue.open_bytes(queued);
        let pages_are_due = self.is_paced() && self.reproduce.pages_are_due();
        let is_due = queued >= self.due_bytes() || self.is_urgent() || pages_are_due;
        is_due && !self.is_held_back()
    }

    /// Notifies the thread that reproduces if a step is due: a visitor may have kept it from one.
    fn notify_if_due(&self) {
        if self.is_due() {
            self.notifiers.notify_reproduce(self.blocks);
        }
    }

    /// Whether a step is due that frees log space, however little.
    fn is_urgent(&self) -> bool {
        // A full log may have less in its queue than a usual step takes: a large group and the
        // space skipped at the log wrap take the other half.
        let urgent = self.persist.is_log_full() || self.expedited.load(Ordering::Relaxed);
        urgent && self.persist.queued_bytes() > 0
    }

    /// Helps until `done` returns a value, at the latest when `id` is durable (0: another
    /// condition). Runs persist steps, reproduces when the log is full, and sleeps while another
    /// thread does it.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn help_until<R>(
        &self,
        clock: &AtomicU64,
        id: TxId,
        mut done: impl FnMut() -> Option<R>,
    ) -> Result<R, Error> {
        let progress = &self.persist.progress;
        help_until(progress, id.0, &mut done, || match self.persist_step(clock, true, true)? {
            Step::LogFull => self.make_room(id),
            step => Ok(step),
        })
    }

    /// Makes room in a full log, or has another thread do it. `id`: as in `help_until`.
    fn make_room(&self, id: TxId) -> Result<Step, Error> {
        if self.is_held_back() {
            return self.wait_a_moment_for_stream(id);
        }
        // A thread that has sent a group by io_uring must not sleep in a sync of its own: its
        // writes are not reported as complete before it is back. The pool's thread reproduces.
        let has_thread = self.own_reproducer && !self.notifiers.is_closing();
        if has_thread && self.persist.queue.bytes() > 0 {
            self.notifiers.notify_reproduce(true);
            return Ok(Step::Busy);
        }
        Ok(match self.reproduce_step(true)? {
            // On memory with one persist thread, this thread's own step found the log full and
            // moved the epoch. So the thread would not sleep but spin against the thread that
            // reproduces, which needs a core.
            Step::Busy | Step::Nothing
                if self.persist.is_memory() && !injected(Mutant::FullLogSpins) =>
            {
                Step::Nothing
            }
            // Groups in flight must be acknowledged first. The thread that waits for them notifies.
            Step::Nothing => Step::Busy,
            step => step,
        })
    }

    /// Waits until `id` is durable.
    ///
    /// # Errors
    /// The medium's; also when it failed in another thread.
    pub(crate) fn wait(&self, clock: &AtomicU64, id: TxId) -> Result<(), Error> {
        self.persist.expedite(id);
        if self.persist.is_combined(id) {
            return Ok(());
        }
        self.help_until(clock, id, || (self.persist.durable() >= id).then_some(()))
    }

    /// Makes every committed transaction durable and reproduced. Later transactions may commit
    /// meanwhile.
    ///
    /// # Errors
    /// The medium's; also when it failed in another thread.
    pub(crate) fn checkpoint(&self, clock: &AtomicU64) -> Result<(), Error> {
        self.reproduce_up_to(clock, TxId(clock.load(Ordering::Acquire)))?;
        self.seal(PipelineView::new(self, clock))
    }

    /// Computes the unknown page checksums, slice by slice. Reproduction goes on meanwhile.
    fn seal(&self, view: PipelineView<'_>) -> Result<(), Error> {
        if !self.reproduce.has_checksums() {
            return Ok(());
        }
        let pages = self.reproduce.heap_pages();
        for first in (0..pages).step_by(SUMS_PAGES) {
            let slice = first..pages.min(first + SUMS_PAGES);
            if self.reproduce.seal(&self.persist, slice)? {
                self.notify_if_due();
                view.let_step()?;
            }
        }
        Ok(())
    }

    /// Makes every transaction up to `id` durable and reproduced.
    fn reproduce_up_to(&self, clock: &AtomicU64, id: TxId) -> Result<(), Error> {
        self.wait(clock, id)?;
        self.wait_for_stream(id)?;
        let reproduced = || (self.reproduce.reproduced() >= id).then_some(());
        help_until(&self.persist.progress, 0, reproduced, || self.reproduce_step(true))
    }

    /// Makes every transaction durable and reproduced. No worker and no background thread is left.
    pub(crate) fn close(&self, clock: &AtomicU64) -> Result<(), Error> {
        if injected(Mutant::CleanBeforeApplied) {
            self.mark_clean()?;
        }
        self.persist.progress.check()?;
        self.checkpoint(clock)?;
        // The clean mark skips replay, so check its condition whatever happened before.
        let (reproduced, assigned) = (self.reproduce.reproduced().0, clock.load(Ordering::Acquire));
        assert_eq!(reproduced, assigned, "a clean shutdown reproduces every transaction");
        Ok(())
    }

    /// Sets the mark of a clean shutdown, after [`close`](Pipeline::close).
    pub(crate) fn mark_clean(&self) -> Result<(), Error> {
        self.reproduce.mark_clean().map_err(|error| self.persist.progress.fail(error.into()))
    }

    /// Returns the counts of both steps. Takes no lock that a step holds while a device works.
    pub(crate) fn metrics(&self, clock: &AtomicU64) -> Metrics {
        let (log_capacity_bytes, log_used_bytes, log) = self.persist.log_use();
        let heap = self.reproduce.counts();
        let meter = &self.persist.meter;
        let [log_payload_bytes, log_combined_bytes, log_stored_bytes] = meter.log_bytes();
        let [_, padding_bytes, log_combined_words] = meter.log();
        let committed = clock.load(Ordering::Relaxed);
        Metrics {
            persist_cpu_ns: meter.persist.ns().saturating_sub(log.emulated_delay_ns),
            reproduce_cpu_ns: meter.reproduce.ns().saturating_sub(heap.emulated_delay_ns),
            helped_cpu_ns: meter.persist.helped_ns() + meter.reproduce.helped_ns(),
            emulated_delay_ns: log.emulated_delay_ns + heap.emulated_delay_ns,
            log_payload_bytes,
            log_combined_bytes,
            log_combined_words,
            log_stored_bytes,
            log_bytes: log.bytes,
            padding_bytes,
            log_wraps: self.persist.log_wraps(),
            heap_image_bytes: heap.bytes,
            device_writes: log.device_writes + heap.device_writes,
            persist_barriers: log.persist_barriers + heap.persist_barriers,
            ring_full_waits: meter.ring_full_waits.load(Ordering::Relaxed),
            room_wait_ns: meter.room_wait_ns(),
            log_used_bytes,
            log_capacity_bytes,
            unreplicated_bytes: self.persist.queue.unreplicated_bytes(),
            undurable_ns: meter.undurable.age_ns(committed, self.persist.durable().0),
            ..Metrics::default()
        }
    }
}
