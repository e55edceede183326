//! Reproduce: applies durable groups to the heap image, advances the reproduced ID, recycles the
//! log.
//!
//! [`Reproduce::step`] takes a batch of durable groups from memory (never from the medium), applies
//! their words in transaction ID order, and recycles their log space. Any thread may call it; one
//! at a time is in it.
//!
//! The order of recycling; each arrow is a persist barrier:
//!
//! ```text
//!   words in the heap image  -->  reproduced ID in the superblock  -->  log space overwritten
//! ```
//!
//! - Without the first barrier, a crash could leave an ID that covers words missing from the heap
//!   image.
//! - Without the second, recovery would look for records in space that holds others.
//!
//! The heap image is in [parts](medium::Parts), one for each thread that reproduces. The first
//! barrier waits for all of them: see [below](#the-shard-queue). Values in the log are absolute and
//! a page has one part, so parts need no order between them. The superblock holds the ID that all
//! parts have reached. With one part, the thread that takes the step does all of it.
//!
//! Invariants:
//! - `reproduced <= durable`: only durable groups are in the queue.
//! - The heap image holds exactly the writes of the transactions up to some ID, plus whole or
//!   partial writes of later transactions whose records are all still in the log. Replaying those
//!   gives the same result again.
//!
//! # The shard queue
//!
//! Several threads apply one batch to the heap image. Each claims a part of it and applies
//! that part's words.
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
//!
//! (DudeTM, section 3.4: one barrier a batch instead of one a transaction.)

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax};
use medium::{Counts, HeapMedium, Parts};
use words::TxId;

use crate::Error;
use crate::metrics::{PublishedCounts, StepTimer};
use crate::persist::{
    Event, Notifiers, Persist, Queued, RunningStep, Step, StepEnd, run_part, try_step,
};
use crate::superblock::Superblocks;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock, try_lock};

/// Bytes of writes worth waking other threads for. The leader applies all parts of a smaller batch.
const SHARED_BYTES: u64 = 16 << 10;

/// The reproduce step of one pool.
pub(crate) struct Reproduce {
    reproduced: CachePadded<AtomicU64>,
    /// Held by the leader: takes batches, writes the superblock, recycles.
    superblocks: Mutex<Superblocks>,
    superblock_counts: PublishedCounts,
    shards: ShardQueue,
    /// Whether a batch is off the queue and not yet applied.
    working: AtomicBool,
}

impl Reproduce {
    pub(crate) fn new(heap_image: Parts, superblocks: Superblocks) -> Reproduce {
        let reproduced = superblocks.current().reproduced;
        Reproduce {
            reproduced: CachePadded::new(AtomicU64::new(reproduced)),
            superblock_counts: PublishedCounts::of(superblocks.counts()),
            superblocks: Mutex::new(superblocks),
            shards: ShardQueue::new(heap_image),
            working: AtomicBool::new(false),
        }
    }

    /// Returns the last transaction that is durable in the heap image.
    pub(crate) fn reproduced(&self) -> TxId {
        // Acquire: pairs with the Release in `step`.
        TxId(self.reproduced.load(relax(Ordering::Acquire, Mutant::ReproducedReadRelaxed)))
    }

    /// Threads that may reproduce at the same time.
    pub(crate) fn threads(&self) -> usize {
        self.shards.parts()
    }

    /// Reproduces durable groups: at least one if any is queued, up to `log_bytes` of the log. The
    /// persist barriers are one for the heap image (on memory one for each part) and two for the
    /// superblock, however many transactions.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn step(
        &self,
        persist: &Persist,
        notifiers: &Notifiers,
        log_bytes: u64,
        timer: StepTimer,
    ) -> Result<Step, Error> {
        persist.progress.check()?;
        // Return without a notification. A thread that polls while groups in flight fill the log
        // would otherwise wake others to do the same.
        if persist.queue.is_empty() {
            // Acquire: pairs with the Release below. A thread that sees the flag sleeps until the
            // running step ends. The flag is cleared before that step notifies.
            let working = self.working.load(Ordering::Acquire);
            return Ok(if working { Step::Busy } else { Step::Nothing });
        }
        // The lock before the queue: otherwise two threads could take batches and apply them out of
        // order.
        let early = injected(Mutant::BatchTakenBeforeLock).then(|| {
            let batch = persist.queue.take(log_bytes);
            drop(try_lock(&self.superblocks)); // another thread may come first
            batch
        });
        try_step(&self.superblocks, &persist.progress, StepEnd::Awaited, |superblocks, running| {
            self.working.store(true, Ordering::Release);
            let batch = early.unwrap_or_else(|| persist.queue.take(log_bytes));
            if batch.is_empty() {
                self.working.store(false, Ordering::Release);
                return Ok(Step::Nothing);
            }
            let panic = running.on_panic("reproduce");
            let batch = Batch::new(batch, self.reproduced.load(Ordering::Relaxed));
            self.shards.post(Arc::clone(&batch.groups));
            // An unpaused thread reproduces small batches, not worth waking others for.
            if self.threads() > 1 && !(persist.is_unpaused() && batch.bytes() < SHARED_BYTES) {
                notifiers.notify_parts();
            }
            let done = self.apply(superblocks, &batch, (persist, running), timer);
            self.superblock_counts.publish(superblocks.counts());
            panic.disarm();
            self.working.store(false, Ordering::Release);
            done?;
            // Release: a thread that sees the reproduced ID may read the heap image.
            self.reproduced
                .store(batch.last, relax(Ordering::Release, Mutant::ReproducedStoredRelaxed));
            // Last, because the log space of the batch is reused from here on.
            let groups = Arc::into_inner(batch.groups).expect("every claim has dropped the batch");
            persist.queue.recycle(groups, batch.end);
            Ok(Step::Done)
        })
    }

    /// Applies one part of a batch that another thread leads, if one is left.
    ///
    /// # Errors
    /// The medium's. The pool is poisoned then, and the leader notified.
    pub(crate) fn part_step(&self, persist: &Persist, timer: StepTimer) -> Result<Step, Error> {
        persist.progress.check()?;
        let Some(claim) = self.shards.claim() else { return Ok(Step::Nothing) };
        // A failed part notifies, and ends its claim, so the leader's step fails too.
        run_part(&persist.progress, StepEnd::Unawaited, |running| {
            let started = timer.start();
            let done = claim.apply(running);
            persist.meter.reproduce.add(&started);
            done.map(|()| Step::Done)
        })
    }

    fn apply(
        &self,
        superblocks: &mut Superblocks,
        batch: &Batch,
        (persist, running): (&Persist, &RunningStep<'_>),
        timer: StepTimer,
    ) -> Result<(), Error> {
        if injected(Mutant::HeadBeforeHeap) {
            batch.mark(superblocks)?;
        }
        while let Some(claim) = self.shards.claim() {
            let (started, is_first) = (timer.start(), claim.is_first());
            // The pool keeps an error. It is returned below, when no part is at work any more.
            let _ = claim.apply(running);
            persist.meter.reproduce.add(&started);
            if is_first && injected(Mutant::MarkedAtFirstPart) {
                batch.mark(superblocks)?;
            }
            if is_first && injected(Mutant::SyncedAtFirstPart) {
                self.shards.sync()?;
            }
        }
        if !self.shards.wait() {
            let failure = persist.progress.check();
            return Err(failure.expect_err("a part that fails poisons the pool"));
        }
        // One sync for all parts, and the superblock last. Its log sequence permits workers to
        // overwrite this batch's log, and only the heap image has the writes then.
        let started = timer.start();
        let synced = match injected(Mutant::SyncedAtFirstPart) {
            true => Ok(()),
            false => self.shards.sync(),
        };
        let done = synced.and_then(|()| batch.mark(superblocks));
        persist.meter.reproduce.add(&started);
        done.map_err(|error| running.fail(error.into()))
    }

    /// Marks the pool as cleanly shut down, so that recovery has nothing to replay. The queue is
    /// empty.
    pub(crate) fn mark_clean(&self) -> Result<(), medium::Error> {
        let mut superblocks = lock(&self.superblocks);
        let marked = superblocks.update(|now| now.clean = true);
        self.superblock_counts.publish(superblocks.counts());
        marked
    }

    /// Returns the counts of the heap image and the superblocks, without a lock.
    pub(crate) fn counts(&self) -> medium::Counts {
        self.shards.counts().plus(self.superblock_counts.read())
    }
}

/// The groups that one step applies.
struct Batch {
    groups: Arc<Vec<Queued>>,
    /// The last transaction.
    last: u64,
    /// The log sequence after it.
    end: u64,
}

impl Batch {
    /// Creates a batch of the groups that follow the reproduced ID.
    fn new(groups: Vec<Queued>, reproduced: u64) -> Batch {
        let (mut last, mut end) = (reproduced, 0);
        for queued in &groups {
            let group = queued.group;
            assert_eq!(group.first, last + 1, "transactions are reproduced in ID order");
            (last, end) = (group.last, group.end);
        }
        Batch { groups: Arc::new(groups), last, end }
    }

    /// Returns the bytes of its writes.
    fn bytes(&self) -> u64 {
        self.groups.iter().map(|queued| 8 * queued.writes().len() as u64).sum()
    }

    /// Records durably in the superblock that the batch is applied.
    fn mark(&self, superblocks: &mut Superblocks) -> Result<(), medium::Error> {
        superblocks.update(|now| {
            now.reproduced = self.last;
            now.log_sequence = self.end;
        })
    }
}

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
    batch: Option<Arc<Vec<Queued>>>,
    claimed: usize,
    at_work: usize,
    failed: bool,
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

    /// Offers a batch. The one before must be complete.
    pub(crate) fn post(&self, batch: Arc<Vec<Queued>>) {
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

    /// Waits until no part is at work, after all have been claimed. Returns whether all of them
    /// succeeded.
    pub(crate) fn wait(&self) -> bool {
        loop {
            let epoch = self.through.epoch();
            let round = lock(&self.round);
            let claimed = injected(Mutant::PartsAtWorkNotAwaited) && round.claimed > 0;
            if round.at_work == 0 || claimed {
                return !round.failed;
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
    batch: Option<Arc<Vec<Queued>>>,
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
            self.end(done.is_err());
            return done.map_err(|error| running.fail(error.into()));
        }
        let done = done.map_err(|error| running.fail(error.into()));
        self.end(done.is_err());
        done
    }

    fn write_out(&self) -> Result<(), medium::Error> {
        let mut heap_image = lock(&self.shard_queue.parts[self.number]);
        let batch = self.batch.as_ref().expect("the claim is open");
        batch.iter().try_for_each(|queued| heap_image.write_back(queued.writes()))?;
        let is_last = self.number + 1 == self.shard_queue.parts.len();
        if is_last && !self.is_first() && injected(Mutant::LastPartNotWrittenOut) {
            return Ok(());
        }
        heap_image.write_out()?;
        self.shard_queue.counts[self.number].publish(heap_image.counts());
        Ok(())
    }

    fn end(&mut self, failed: bool) {
        self.batch = None;
        let mut round = lock(&self.shard_queue.round);
        round.at_work -= 1;
        if failed {
            (round.failed, round.batch) = (!injected(Mutant::FailedPartCountsAsDone), None);
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
            self.end(true);
        }
    }
}
