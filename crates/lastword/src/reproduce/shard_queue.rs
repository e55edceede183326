//! The parts of the heap image, and the threads that apply one batch to them.
//!
//! Several threads apply one batch to the heap image. Each claims a part of it and applies that
//! part's words.
//!
//! ```text
//!   the leader                               any other thread
//!   1 post the batch, notify
//!   2 claim parts until none is left         claim a part, if one is left
//!   3 wait for the parts of others           apply it, write it out
//!   4 one sync, superblock, recycle          end: the last one notifies
//! ```
//!
//! The leader holds the reproduce step, so one batch at a time is open. It never waits for another
//! thread to start: it claims every part that is left, so progress does not depend on other
//! threads. It waits for the threads that hold claims. Those are in the middle of a part, and end
//! with it applied, failed or panicked; dropping a claim ends it.
//!
//! Invariants:
//! - A part is claimed once a batch, and only while no part has failed.
//! - `at_work` counts open claims. A batch is complete when all parts are claimed (or no more may
//!   be) and none is at work. Then no claim holds the batch any more.
//! - A part ends when its words are written out. On memory each part has a fence of its own, and
//!   they are durable then. On `file` the sync of step 4 makes all parts durable. So a thread that
//!   has seen the batch complete may sync and write the superblock. The lock of `round` shows it
//!   the effects of the parts.

use medium::mutants::{Mutant, injected};
use medium::{Counts, HeapMedium, Parts, Unwritten};

use super::Batch;
use crate::Error;
use crate::metrics::PublishedCounts;
use crate::persist::{Event, RunningStep};
use crate::sync::{Arc, Mutex, lock};

/// The parts of the heap image, and the claims on the current batch.
pub(crate) struct ShardQueue {
    /// A part is locked by the thread that claimed it, or that syncs for all of them.
    parts: Vec<Mutex<Box<dyn HeapMedium>>>,
    /// Per part, its counts after its last write.
    counts: Vec<PublishedCounts>,
    round: Mutex<Round>,
    /// Notified when the last claim ends.
    through: Event,
}

/// The progress of a batch.
#[derive(Default)]
struct Round {
    /// `None` when no more parts may be claimed.
    batch: Option<Arc<Batch>>,
    claimed: usize,
    at_work: usize,
    failed: bool,
    /// Writes that the parts whose claims have ended keep in memory.
    unwritten: Unwritten,
}

impl ShardQueue {
    pub(crate) fn new(heap_image: Parts) -> ShardQueue {
        let parts = heap_image.into_parts();
        let counts = parts.iter().map(|part| PublishedCounts::of(part.counts())).collect();
        let parts = parts.into_iter().map(Mutex::new).collect();
        ShardQueue { parts, counts, round: Mutex::default(), through: Event::default() }
    }

    /// Number of parts: most threads that find work.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Calls `call` for each part, until it returns false; returns whether it never did. No batch
    /// is open.
    pub(crate) fn for_each(&self, mut call: impl FnMut(&mut dyn HeapMedium) -> bool) -> bool {
        self.parts.iter().all(|part| call(&mut **lock(part)))
    }

    /// Offers a batch. The one before must be complete.
    pub(crate) fn post(&self, batch: Arc<Batch>) {
        *lock(&self.round) = Round { batch: Some(batch), ..Round::default() };
    }

    /// Claims a part, if one is left.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let mut round = lock(&self.round);
        let batch = Arc::clone(round.batch.as_ref()?);
        let number = round.claimed;
        round.claimed += 1;
        round.at_work += 1;
        let all = self.parts.len() - usize::from(self.leaves_one_out());
        if round.claimed == all {
            round.batch = None;
        }
        Some(Claim { shard_queue: self, number, batch: Some(batch) })
    }

    fn leaves_one_out(&self) -> bool {
        injected(Mutant::LastPartLeftOut) && self.parts.len() > 1
    }

    /// Waits until no part is at work, after all have been claimed. Returns the writes that they
    /// keep in memory, or `None` if a part failed.
    pub(crate) fn wait(&self) -> Option<Unwritten> {
        loop {
            let epoch = self.through.epoch();
            let round = lock(&self.round);
            let claimed = injected(Mutant::PartsAtWorkNotAwaited) && round.claimed > 0;
            if round.at_work == 0 || claimed {
                return (!round.failed).then_some(round.unwritten);
            }
            drop(round);
            self.through.wait(epoch, None);
        }
    }

    /// Makes the writes of all parts durable.
    pub(crate) fn sync(&self) -> Result<(), medium::Error> {
        let mut first = lock(&self.parts[0]);
        first.sync()?;
        self.counts[0].publish(first.counts());
        Ok(())
    }

    /// Returns the counts of all parts as last published.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.iter().fold(Counts::default(), |sum, part| sum.plus(part.read()))
    }
}

/// A claim on a part of a batch.
pub(crate) struct Claim<'b> {
    shard_queue: &'b ShardQueue,
    number: usize,
    /// `None` after the claim has ended.
    batch: Option<Arc<Batch>>,
}

impl Claim<'_> {
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Applies the part's words to the heap image and writes them out: the first half of a barrier,
    /// and on memory all of it.
    ///
    /// # Errors
    /// The medium's. The pool is then poisoned, and no more parts of the batch are claimed.
    pub(crate) fn apply(mut self, running: &RunningStep<'_>) -> Result<(), Error> {
        // Poison before the claim ends: the end wakes the leader, which then checks the poison.
        let panic = running.on_panic("reproduce");
        if injected(Mutant::PartEndsBeforeBarrier) {
            lock(&self.shard_queue.round).at_work -= 1;
            self.shard_queue.through.notify();
        }
        let done = self.write_out();
        if injected(Mutant::PartEndsBeforeBarrier) {
            lock(&self.shard_queue.round).at_work += 1;
        }
        panic.disarm();
        if injected(Mutant::FailedPartPoisonsLast) {
            self.end(done.as_ref().ok().copied());
            return done.map(drop).map_err(|error| running.fail(error.into()));
        }
        let done = done.map_err(|error| running.fail(error.into()));
        self.end(done.as_ref().ok().copied());
        done.map(drop)
    }

    /// Returns the writes that the part keeps in memory.
    fn write_out(&self) -> Result<Unwritten, medium::Error> {
        let mut heap_image = lock(&self.shard_queue.parts[self.number]);
        let batch = self.batch.as_ref().expect("the claim is open");
        heap_image.starts_at(batch.start);
        batch.groups.iter().try_for_each(|queued| heap_image.write_back(queued.writes()))?;
        let is_last = self.number + 1 == self.shard_queue.parts.len();
        if is_last && !self.is_first() && injected(Mutant::LastPartNotWrittenOut) {
            return Ok(Unwritten::default());
        }
        if batch.pages > 0 {
            heap_image.write_next(batch.pages.div_ceil(self.shard_queue.parts.len()))?;
        }
        self.shard_queue.counts[self.number].publish(heap_image.counts());
        Ok(heap_image.unwritten())
    }

    /// Ends the claim; `None`: the part has failed.
    fn end(&mut self, unwritten: Option<Unwritten>) {
        self.batch = None;
        let mut round = lock(&self.shard_queue.round);
        round.at_work -= 1;
        match unwritten {
            Some(unwritten) => round.unwritten = round.unwritten.plus(unwritten),
            None => (round.failed, round.batch) = (!injected(Mutant::FailedPartCountsAsDone), None),
        }
        let through = round.at_work == 0 && round.batch.is_none();
        drop(round);
        // After the unlock: the leader checks the round again. No thread waits for an only part.
        if through && self.shard_queue.parts.len() > 1 && !injected(Mutant::LastPartNotNotified) {
            self.shard_queue.through.notify();
        }
    }
}

impl Drop for Claim<'_> {
    /// Ends the claim of a thread that panics, as failed.
    fn drop(&mut self) {
        if self.batch.is_some() {
            self.end(None);
        }
    }
}
