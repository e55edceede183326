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
//! barrier waits for all of them: see [`board`]. Values in the log are absolute and a page has one
//! part, so parts need no order between them. The superblock holds the ID that all parts have
//! reached. With one part, the thread that takes the step does all of it.
//!
//! Invariants:
//! - `reproduced <= durable`: only durable groups are in the queue.
//! - The heap image holds exactly the writes of the transactions up to some ID, plus whole or
//!   partial writes of later transactions whose records are all still in the log. Replaying those
//!   gives the same result again.
//!
//! (DudeTM, section 3.4: one barrier a batch instead of one a transaction.)

mod board;

use crossbeam_utils::CachePadded;
use medium::Parts;
use medium::mutants::{Mutant, planted, relax};
use words::TxId;

use crate::Error;
use crate::metrics::StepTimer;
use crate::persist::{Bells, InTurn, Persist, Queued, Step, Turn, in_turn, take_turn};
use crate::superblock::Superblocks;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock, try_lock};
use board::ShardQueue;

/// Bytes of writes worth waking other threads for. The leader applies all parts of a smaller batch.
const SHARED_BYTES: u64 = 16 << 10;

/// The reproduce step of one pool.
pub(crate) struct Reproduce {
    reproduced: CachePadded<AtomicU64>,
    /// Held by the leader: takes batches, writes the superblock, recycles.
    superblocks: Mutex<Superblocks>,
    shards: ShardQueue,
    /// Whether a batch is off the queue and not yet applied.
    working: AtomicBool,
}

impl Reproduce {
    pub(crate) fn new(home: Parts, superblocks: Superblocks) -> Reproduce {
        let reproduced = superblocks.current().reproduced;
        Reproduce {
            reproduced: CachePadded::new(AtomicU64::new(reproduced)),
            superblocks: Mutex::new(superblocks),
            shards: ShardQueue::new(home),
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

    /// Reproduces durable groups: at least one if any is queued, up to `log_bytes` of the log. Two
    /// persist barriers, however many transactions.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn step(
        &self,
        persist: &Persist,
        bells: &Bells,
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
        let early = planted(Mutant::BatchTakenBeforeLock).then(|| {
            let batch = persist.queue.take(log_bytes);
            drop(try_lock(&self.superblocks)); // another thread may come first
            batch
        });
        take_turn(&self.superblocks, &persist.progress, Turn::Awaited, |superblocks, turn| {
            self.working.store(true, Ordering::Release);
            let batch = early.unwrap_or_else(|| persist.queue.take(log_bytes));
            if batch.is_empty() {
                self.working.store(false, Ordering::Release);
                return Ok(Step::Nothing);
            }
            let panic = turn.on_panic("reproduce");
            let batch = Batch::new(batch, self.reproduced.load(Ordering::Relaxed));
            self.shards.post(Arc::clone(&batch.groups));
            // An unpaused thread reproduces small batches, not worth waking others for.
            if self.threads() > 1 && !(persist.is_unpaused() && batch.bytes() < SHARED_BYTES) {
                bells.notify_parts();
            }
            let done = self.apply(superblocks, &batch, (persist, turn), timer);
            panic.disarm();
            self.working.store(false, Ordering::Release);
            done?;
            // Release: a thread that sees the reproduced ID may read the heap image.
            self.reproduced
                .store(batch.last, relax(Ordering::Release, Mutant::ReproducedStoredRelaxed));
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
        in_turn(&persist.progress, Turn::Passing, |turn| {
            let started = timer.start();
            let done = claim.apply(turn);
            persist.meter.reproduce.add(&started);
            done.map(|()| Step::Done)
        })
    }

    fn apply(
        &self,
        superblocks: &mut Superblocks,
        batch: &Batch,
        (persist, turn): (&Persist, &InTurn<'_>),
        timer: StepTimer,
    ) -> Result<(), Error> {
        if planted(Mutant::HeadBeforeHome) {
            batch.mark(superblocks)?;
        }
        while let Some(claim) = self.shards.claim() {
            let (started, is_first) = (timer.start(), claim.is_first());
            // The pool keeps an error. It is returned below, when no part is at work any more.
            let _ = claim.apply(turn);
            persist.meter.reproduce.add(&started);
            if is_first && planted(Mutant::MarkedAtFirstPart) {
                batch.mark(superblocks)?;
            }
            if is_first && planted(Mutant::SyncedAtFirstPart) {
                self.shards.sync()?;
            }
        }
        if !self.shards.wait() {
            let failure = persist.progress.check();
            return Err(failure.expect_err("a part that fails poisons the pool"));
        }
        let started = timer.start();
        let synced = match planted(Mutant::SyncedAtFirstPart) {
            true => Ok(()),
            false => self.shards.sync(),
        };
        let done = synced.and_then(|()| batch.mark(superblocks));
        persist.meter.reproduce.add(&started);
        done.map_err(|error| turn.fail(error.into()))
    }

    /// Marks the pool as cleanly shut down, so that recovery has nothing to replay. The queue is
    /// empty.
    pub(crate) fn close(&self) -> Result<(), medium::Error> {
        lock(&self.superblocks).update(|now| now.clean = true)
    }

    /// Returns the counts of the heap image and the superblocks.
    pub(crate) fn counts(&self) -> medium::Counts {
        let marks = lock(&self.superblocks).counts();
        self.shards.counts().plus(marks)
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
