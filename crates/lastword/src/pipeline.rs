//! The two steps behind a transactional memory, put together: persist, reproduce, and waiting.

use medium::mutants::{Mutant, planted};
use words::TxId;

use crate::Error;
use crate::metrics::{Metrics, StepTimer};
use crate::persist::{Bells, Persist, Step, UNPAUSED_BYTES, help_until};
use crate::reproduce::Reproduce;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Persist and reproduce of one pool, whatever runs in front.
pub(crate) struct Pipeline {
    pub(crate) persist: Persist,
    pub(crate) reproduce: Reproduce,
    pub(crate) bells: Bells,
    /// Bytes of log, or of what they decode to, that make a reproduce step worth its barriers.
    due_bytes: u64,
    /// Whether steps sleep in the kernel: reproduce steps then want a thread of their own.
    pub(crate) blocks: bool,
    /// Whether whoever waits for room leaves it to a thread that does nothing but reproduce: a step
    /// sleeps in the kernel.
    own_reproducer: bool,
    /// Somebody could use what waits to be reproduced at home.
    hastened: AtomicBool,
}

/// What stands behind a shadow: home, and the way there.
#[derive(Clone, Copy)]
pub struct Behind<'a> {
    pipeline: &'a Pipeline,
    clock: &'a AtomicU64,
}

impl<'a> Behind<'a> {
    #[inline(always)]
    pub(crate) fn new(pipeline: &'a Pipeline, clock: &'a AtomicU64) -> Behind<'a> {
        Behind { pipeline, clock }
    }

    /// The last transaction that is at home.
    pub(crate) fn reproduced(self) -> u64 {
        self.pipeline.reproduce.reproduced().0
    }

    /// The last transaction that has an ID.
    pub(crate) fn committed(self) -> TxId {
        TxId(self.clock.load(Ordering::Acquire))
    }

    /// Waits until a transaction is at home, and helps. The caller may hold ownership records and
    /// pages, but no ID that it has drawn and not recorded: all that is waited for is that drawn
    /// IDs are recorded, which nobody waits with, and the media; neither wants any of these.
    ///
    /// # Errors
    /// The medium's.
    #[cold]
    pub(crate) fn bring_home(self, id: TxId) -> Result<(), Error> {
        self.pipeline.home(self.clock, id)
    }

    /// Has what is durable brought home soon, whether or not it is much.
    pub(crate) fn hasten(self) {
        if !self.pipeline.hastened.swap(true, Ordering::Relaxed) {
            self.pipeline.bells.reproduce_is_due(self.pipeline.blocks);
        }
    }

    /// The pool cannot go on: poisons it and notifies every waiter. Returns what to report. The
    /// caller holds no lock: see [`Progress::fail`](crate::persist::Progress::fail).
    #[cold]
    pub(crate) fn poison(self, error: Error) -> Error {
        self.pipeline.persist.progress.fail(error)
    }
}

/// Log that memory brings home at a time: thousands of entries a barrier, still in the L2 cache.
const DUE_BYTES_MEMORY: u64 = 1 << 20;

/// Steps that what waits for home is brought there in, when it is much: more at a time costs fewer
/// barriers, so that reproduction catches up before the log is full. (Without this, `lastword run
/// tpcc-hash --transactions 1000000 --sample every --medium emulated --bandwidth-gbps 1 --pause-us
/// 0` had a full log, 105 k/s and p50 104 ms; with it 138 k/s and 19 us.)
const BACKLOG_STEPS: u64 = 256;

impl Pipeline {
    pub(crate) fn new(
        persist: Persist,
        reproduce: Reproduce,
        log_bytes: u64,
        blocks: bool,
        background: bool,
    ) -> Pipeline {
        // A file gathers writes to one page over as much log as it can and still leaves the other
        // half of the log to the workers while it writes home.
        let half = log_bytes / 2;
        let due_bytes = match (blocks, persist.is_unpaused()) {
            (true, _) => half,
            (false, true) => half.min(UNPAUSED_BYTES as u64),
            (false, false) => half.min(DUE_BYTES_MEMORY),
        };
        let (bells, own_reproducer) = (Bells::default(), blocks && background);
        let hastened = AtomicBool::new(false);
        Pipeline { persist, reproduce, bells, due_bytes, blocks, own_reproducer, hastened }
    }

    /// One persist step: sends a group, and acknowledges what is durable, waiting for that if
    /// `wait` says so and there is nothing more to send. Rings for reproduction when it is due.
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
        // On memory the thread that would be rung is the persist thread, which looks by itself
        // after each of its steps: ringing for itself it would not nap while another brings home.
        if (self.blocks || helped) && self.is_due() {
            self.bells.reproduce_is_due(self.blocks);
        }
        Ok(Step::of_both(sent, acknowledged, self.persist.turn()))
    }

    /// One reproduce step on whatever there is.
    pub(crate) fn reproduce_step(&self, helped: bool) -> Result<Step, Error> {
        let timer = StepTimer { blocks: self.blocks, helped };
        self.hastened.store(false, Ordering::Relaxed);
        let bytes = self.due_bytes.max(self.persist.queued_bytes() / BACKLOG_STEPS);
        self.reproduce.step(&self.persist, &self.bells, bytes, timer)
    }

    /// One part of a reproduce step that another thread leads.
    pub(crate) fn part_step(&self) -> Result<Step, Error> {
        let timer = StepTimer { blocks: self.blocks, helped: false };
        self.reproduce.part_step(&self.persist, timer)
    }

    /// Whether enough has come together for a reproduce step.
    pub(crate) fn is_due(&self) -> bool {
        let queued = self.persist.queued_bytes();
        // A full log may have less than that in its queue: a large group and the rest of a lap that
        // it skips take the other half.
        let hastened = || self.hastened.load(Ordering::Relaxed);
        queued >= self.due_bytes || (queued > 0 && (self.persist.is_log_full() || hastened()))
    }

    /// Helps until `done` answers something, at the latest when `id` is durable (0: something
    /// else): runs persist steps, reproduces when the log is full, and sleeps while another thread
    /// does it.
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
            Step::LogFull => self.make_room(),
            step => Ok(step),
        })
    }

    /// Sees to it that a full log gets room.
    fn make_room(&self) -> Result<Step, Error> {
        // A thread that has sent a group by io_uring must not sleep in a sync of its own: what it
        // has sent is not reported as written before it is back. The pool's thread reproduces.
        let has_thread = self.own_reproducer && !self.bells.is_closing();
        if has_thread && !self.persist.queue.is_empty() {
            self.bells.reproduce_is_due(true);
            return Ok(Step::Busy);
        }
        Ok(match self.reproduce_step(true)? {
            // On memory this thread's own turn, the one that found the log full, has moved the
            // epoch (with one persist thread), so it would not sleep but run on against the thread
            // that brings home: that one needs a core.
            Step::Busy | Step::Nothing if self.persist.is_memory() => Step::Nothing,
            // What is under way has to come back first: whoever waits for it tells.
            Step::Nothing => Step::Busy,
            step => step,
        })
    }

    /// Waits until `id` is durable.
    ///
    /// # Errors
    /// The medium's; also when it failed in another thread.
    pub(crate) fn wait(&self, clock: &AtomicU64, id: TxId) -> Result<(), Error> {
        self.persist.hurry(id);
        self.help_until(clock, id, || (self.persist.durable() >= id).then_some(()))
    }

    /// Makes everything committed before durable and brings it home. Others may go on meanwhile.
    ///
    /// # Errors
    /// The medium's; also when it failed in another thread.
    pub(crate) fn bring_home(&self, clock: &AtomicU64) -> Result<(), Error> {
        self.home(clock, TxId(clock.load(Ordering::Acquire)))
    }

    /// Makes everything up to `id` durable and brings it home.
    fn home(&self, clock: &AtomicU64, id: TxId) -> Result<(), Error> {
        self.wait(clock, id)?;
        let home = || (self.reproduce.reproduced() >= id).then_some(());
        help_until(&self.persist.progress, 0, home, || self.reproduce_step(true))
    }

    /// Makes everything committed durable and brings it home, and marks the pool as left in good
    /// order. No worker is left, and no background thread.
    pub(crate) fn close(&self, clock: &AtomicU64) -> Result<(), Error> {
        if planted(Mutant::CleanBeforeHome) {
            self.reproduce.close().map_err(|error| self.persist.progress.fail(error.into()))?;
        }
        self.bring_home(clock)?;
        // The mark says that nothing needs to be replayed: it must be so, whatever went wrong.
        let (home, drawn) = (self.reproduce.reproduced().0, clock.load(Ordering::Acquire));
        assert_eq!(home, drawn, "a pool is closed when everything is at home");
        self.reproduce.close().map_err(|error| self.persist.progress.fail(error.into()))
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let (log, padding_bytes, log_laps, log_combined_words) = self.persist.log_counts();
        let home = self.reproduce.counts();
        // Both have held what a step holds: who found it taken meanwhile sleeps until a turn ends.
        self.persist.progress.turn_is_over();
        let meter = &self.persist.meter;
        let [log_payload_bytes, log_combined_bytes, log_stored_bytes] = meter.log_bytes();
        Metrics {
            persist_cpu_ns: meter.persist.ns().saturating_sub(log.emulated_delay_ns),
            reproduce_cpu_ns: meter.reproduce.ns().saturating_sub(home.emulated_delay_ns),
            helped_cpu_ns: meter.persist.helped_ns() + meter.reproduce.helped_ns(),
            emulated_delay_ns: log.emulated_delay_ns + home.emulated_delay_ns,
            log_payload_bytes,
            log_combined_bytes,
            log_combined_words,
            log_stored_bytes,
            log_bytes: log.bytes,
            padding_bytes,
            log_laps,
            home_bytes: home.bytes,
            device_writes: log.device_writes + home.device_writes,
            persist_barriers: log.persist_barriers + home.persist_barriers,
            ring_full_waits: meter.ring_full_waits.load(Ordering::Relaxed),
            ..Metrics::default()
        }
    }
}

#[cfg(test)]
mod tests;
