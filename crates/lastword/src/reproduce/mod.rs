//! Reproduce: applies durable groups to the heap image, advances the reproduced ID, recycles the
//! log.
//!
//! [`Reproduce::step`] takes a batch of durable groups from memory (never from the medium) and
//! gives their words to the heap image in transaction ID order. Any thread may call it; one at a
//! time is in it.
//!
//! The heap image of a large heap on a disk gathers the words by page. So *taking groups in* is
//! apart from *writing pages*: a step takes in all groups that wait, and writes a slice of the
//! pages, the next ones of a round over the heap. Commits go on beside it. Elsewhere a step writes
//! all words that it takes in.
//!
//! ```text
//!   log          | pages written | their oldest words wait |  taken in  | queued |  free
//!                tail            reached                   taken               end
//! ```
//!
//! The log is recycled up to *reached*: the end of the last batch such that no page waits with a
//! word of it or of an earlier one. A page is written with the last values of its words, which may
//! be of later groups. Those are durable in the log and stay there.
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
//!
//! | file | contents |
//! |---|---|
//! | `state` | the batches taken in, and how far they are written |
//! | `frozen` | the heap image as of one transaction, for views and backups |
//! | `checksums` | the checksums of pages, between two steps |
//!
//! (DudeTM, section 3.4: one barrier a batch instead of one a transaction.)

mod checksums;
mod frozen;
mod state;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax};
use medium::{Counts, HeapMedium, Parts, Unwritten};
use words::TxId;

use crate::Error;
use crate::metrics::{PublishedCounts, StepTimer};
use crate::persist::{
    Event, Notifiers, Persist, Queued, RunningStep, Step, StepEnd, run_part, try_step,
};
use crate::superblock::{Superblock, Superblocks};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock, try_lock};
use crate::write_pace::WritePace;
use state::{State, Taken};

/// Bytes of writes worth waking other threads for. The leader applies all parts of a smaller batch.
const SHARED_BYTES: u64 = 16 << 10;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// How much one step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Takes in at least one group if any is queued, up to so many bytes of the log. Writes at most
    /// so many pages, however little of the log is in use.
    All { log_bytes: u64, pages: usize },
    /// Takes in as much, and writes the pages that are due by then.
    Paced { log_bytes: u64 },
}

/// The reproduce step of one pool.
pub(crate) struct Reproduce {
    reproduced: CachePadded<AtomicU64>,
    /// Held by the leader: takes batches, writes the superblock, recycles.
    state: Mutex<State>,
    superblock_counts: PublishedCounts,
    shards: ShardQueue,
    /// Whether a batch is off the queue and not yet applied.
    working: AtomicBool,
    /// Whether groups are taken in that are not yet reproduced.
    gathered: AtomicBool,
    /// Whether more pages are due by the pace than the last step wrote.
    pages_due: AtomicBool,
    /// The last transaction taken in.
    taken_in: AtomicU64,
    /// Threads that wait for the lock of `state` [between steps](frozen).
    visitors: AtomicUsize,
    /// Whether a visitor was the last to hold it, and no step has looked for work since.
    visited: AtomicBool,
    /// Whether a step has been refused since the last one ran.
    refused: AtomicBool,
    /// Whether workers are slowed while much log is in use.
    limits: AtomicBool,
    sums: bool,
}

impl Reproduce {
    pub(crate) fn new(heap_image: Parts, superblocks: Superblocks) -> Reproduce {
        let Superblock { reproduced, log_bytes, page_checksums, .. } = *superblocks.current();
        let superblock_counts = PublishedCounts::of(superblocks.counts());
        let pace = WritePace::new(log_bytes);
        // A generation begins with an empty log.
        let (taken, last, end) = (VecDeque::new(), reproduced, 0);
        let unwritten = Unwritten::default();
        Reproduce {
            reproduced: CachePadded::new(AtomicU64::new(reproduced)),
            state: Mutex::new(State { superblocks, taken, last, end, pace, unwritten }),
            superblock_counts,
            shards: ShardQueue::new(heap_image),
            working: AtomicBool::new(false),
            gathered: AtomicBool::new(false),
            pages_due: AtomicBool::new(false),
            taken_in: AtomicU64::new(reproduced),
            visitors: AtomicUsize::new(0),
            visited: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            limits: AtomicBool::new(false),
            sums: page_checksums,
        }
    }

    /// Slows workers while much log is in use. For pools with paced steps in a thread of their own.
    pub(crate) fn set_limits(&self, limits: bool) {
        // Relaxed: a step more or less without a limit.
        self.limits.store(limits, Ordering::Relaxed);
    }

    /// Limits the time that a recovery should take.
    pub(crate) fn with_recovery_time(self, time: Option<Duration>) -> Reproduce {
        lock(&self.state).pace.limit_recovery(time);
        self
    }

    /// Returns the last transaction that is durable in the heap image.
    pub(crate) fn reproduced(&self) -> TxId {
        // Acquire: pairs with the Release in `step`.
        TxId(self.reproduced.load(relax(Ordering::Acquire, Mutant::ReproducedReadRelaxed)))
    }

    /// Returns the size of the heap.
    pub(crate) fn heap_bytes(&self) -> u64 {
        lock(&self.state).superblocks.current().heap_bytes
    }

    /// Threads that may reproduce at the same time.
    pub(crate) fn threads(&self) -> usize {
        self.shards.parts()
    }

    /// Takes durable groups in and writes pages. If it writes, the persist barriers are one for the
    /// heap image (on memory one for each part) and two for the superblock, however many
    /// transactions.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn step(
        &self,
        persist: &Persist,
        notifiers: &Notifiers,
        work: Work,
        timer: StepTimer,
    ) -> Result<Step, Error> {
        persist.progress.check()?;
        // Return without a notification. A thread that polls while groups in flight fill the log
        // would otherwise wake others to do the same.
        if !persist.queue.has_open() && !self.is_gathered(work) {
            // Acquire: pairs with the Release below. A thread that sees the flag sleeps until the
            // running step ends. The flag is cleared before that step notifies.
            let working = self.working.load(Ordering::Acquire);
            if !working {
                self.visited.store(false, Ordering::Relaxed);
            }
            return Ok(if working { Step::Busy } else { Step::Nothing });
        }
        // See `frozen`.
        if self.visitors.load(Ordering::Relaxed) > 0 {
            self.refused.store(true, Ordering::Relaxed);
            return Ok(Step::Busy);
        }
        let (Work::All { log_bytes, .. } | Work::Paced { log_bytes }) = work;
        // The lock before the queue: otherwise two threads could take batches and apply them out of
        // order.
        let early = injected(Mutant::BatchTakenBeforeLock).then(|| {
            let batch = persist.queue.take(log_bytes);
            drop(try_lock(&self.state)); // another thread may come first
            batch
        });
        let step = try_step(&self.state, &persist.progress, StepEnd::Awaited, |state, running| {
            // A step may have failed since the look above, and none may follow it.
            persist.progress.check()?;
            self.working.store(true, Ordering::Release);
            self.had_turn();
            let groups = early.unwrap_or_else(|| persist.queue.take(log_bytes));
            let batch = state.take_in(groups, work, (persist.queued_bytes(), persist.queue.end()));
            if batch.groups.is_empty() && batch.pages == 0 {
                self.pages_due.store(false, Ordering::Relaxed);
                self.working.store(false, Ordering::Release);
                return Ok(Step::Nothing);
            }
            let panic = running.on_panic("reproduce");
            let done = self.run(state, Arc::new(batch), (persist, notifiers, running), timer);
            self.superblock_counts.publish(state.superblocks.counts());
            panic.disarm();
            // Release: a thread that sees the ID may freeze the heap image as of it.
            self.taken_in.store(state.last, Ordering::Release);
            self.working.store(false, Ordering::Release);
            done.map(|()| Step::Done)
        });
        if matches!(step, Ok(Step::Busy)) {
            self.refused.store(true, Ordering::Relaxed);
        }
        step
    }

    /// Whether pages wait that this work would write, whatever is queued.
    fn is_gathered(&self, work: Work) -> bool {
        // Relaxed: set and cleared by the holder of the step. A thread that reads an old value
        // either tries the step in vain, or sees it running: see `working`.
        match work {
            Work::All { .. } => self.gathered.load(Ordering::Relaxed),
            Work::Paced { .. } => self.pages_are_due(),
        }
    }

    /// Whether pages are to be written however little is taken in.
    pub(crate) fn pages_are_due(&self) -> bool {
        self.pages_due.load(Ordering::Relaxed)
    }

    /// Applies a batch. If that advances the reproduced ID, recycles the log up to there.
    fn run(
        &self,
        state: &mut State,
        batch: Arc<Batch>,
        (persist, notifiers, running): (&Persist, &Notifiers, &RunningStep<'_>),
        timer: StepTimer,
    ) -> Result<(), Error> {
        self.shards.post(Arc::clone(&batch));
        // An unpaused thread reproduces small batches, not worth waking others for.
        if self.threads() > 1 && !(persist.is_unpaused() && batch.bytes() < SHARED_BYTES) {
            notifiers.notify_parts();
        }
        let begun = Instant::now();
        let (reached, written) = self.apply(state, batch.pages > 0, (persist, running), timer)?;
        if batch.pages > 0 {
            state.pace.wrote(written, begun.elapsed());
        }
        if let Some(reached) = reached {
            // Release: a thread that sees the reproduced ID may read the heap image.
            self.reproduced
                .store(reached.last, relax(Ordering::Release, Mutant::ReproducedStoredRelaxed));
            // Last, because the log space is reused from here on.
            persist.queue.recycle(reached.end, 8 * reached.words);
        }
        if self.limits.load(Ordering::Relaxed) {
            persist.limit_log(state.pace.rate_max(persist.queue.end(), &state.unwritten));
        }
        self.gathered.store(!state.taken.is_empty(), Ordering::Relaxed);
        let pages_due = state.pages_are_due(persist.queued_bytes());
        self.pages_due.store(pages_due, Ordering::Relaxed);
        let batch = Arc::into_inner(batch).expect("every claim has dropped the batch");
        persist.queue.keep(batch.groups.into_iter().map(Queued::into_memory));
        Ok(())
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

    /// Applies the posted batch. If pages are written, makes them durable and marks the batches
    /// whose words are all in the heap image. Returns these, as one, and the pages written.
    fn apply(
        &self,
        state: &mut State,
        writes: bool,
        (persist, running): (&Persist, &RunningStep<'_>),
        timer: StepTimer,
    ) -> Result<(Option<Taken>, u64), Error> {
        let before = self.shards.counts().bytes;
        if injected(Mutant::HeadBeforeHeap) {
            state.mark_all()?;
        }
        while let Some(claim) = self.shards.claim() {
            let (started, is_first) = (timer.start(), claim.is_first());
            // The pool keeps an error. It is returned below, when no part is at work any more.
            let _ = claim.apply(running);
            persist.meter.reproduce.add(&started);
            if is_first && injected(Mutant::MarkedAtFirstPart) {
                state.mark_all()?;
            }
            if is_first && injected(Mutant::SyncedAtFirstPart) {
                self.shards.sync()?;
            }
        }
        let Some(unwritten) = self.shards.wait() else {
            let failure = persist.progress.check();
            return Err(failure.expect_err("a part that fails poisons the pool"));
        };
        let written = (self.shards.counts().bytes - before) / PAGE_BYTES;
        state.unwritten = unwritten;
        if !writes {
            return Ok((None, written));
        }
        // One sync for all parts, and the superblock last. Its log sequence permits workers to
        // overwrite the log up to there, and only the heap image has the writes then.
        let started = timer.start();
        let synced = match injected(Mutant::SyncedAtFirstPart) {
            true => Ok(()),
            false => self.shards.sync(),
        };
        let reached = state.reach(unwritten.oldest());
        let mark = |reached: Taken| {
            persist.keep_witness(reached.end);
            state.mark(reached)
        };
        let done = synced.and_then(|()| reached.map_or(Ok(()), mark));
        persist.meter.reproduce.add(&started);
        done.map_err(|error| running.fail(error.into()))?;
        Ok((reached, written))
    }

    /// Marks the pool as cleanly shut down, so that recovery has nothing to replay. The queue is
    /// empty.
    pub(crate) fn mark_clean(&self) -> Result<(), medium::Error> {
        let superblocks = &mut lock(&self.state).superblocks;
        let marked = superblocks.update(|now| now.clean = true);
        self.superblock_counts.publish(superblocks.counts());
        marked
    }

    /// Returns the counts of the heap image and the superblocks, without a lock.
    pub(crate) fn counts(&self) -> medium::Counts {
        self.shards.counts().plus(self.superblock_counts.read())
    }
}

/// The durable groups that one step takes in, and the pages that it writes.
pub(crate) struct Batch {
    pub(crate) groups: Vec<Queued>,
    /// The log sequence before the groups.
    pub(crate) start: u64,
    /// Most pages to write; 0: the groups are only taken in. On memory, which has no pages to wait
    /// with, every other number stands for all.
    pub(crate) pages: usize,
}

impl Batch {
    /// Returns the bytes of its writes.
    pub(crate) fn bytes(&self) -> u64 {
        self.groups.iter().map(|queued| 8 * queued.writes().len() as u64).sum()
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

    /// Calls `call` for each part until it returns false. Returns whether all calls returned true.
    /// No batch may be open.
    pub(crate) fn for_each(&self, mut call: impl FnMut(&mut dyn HeapMedium) -> bool) -> bool {
        self.parts.iter().all(|part| call(&mut **lock(part)))
    }

    /// Gives pages of all parts a checksum; returns whether one had none. No batch may be open.
    pub(crate) fn seal(&self, pages: Range<usize>) -> Result<bool, medium::Error> {
        let mut first = lock(&self.parts[0]);
        let sealed = first.seal(pages)?;
        self.counts[0].publish(first.counts());
        Ok(sealed)
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
