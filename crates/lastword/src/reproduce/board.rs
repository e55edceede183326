//! The shard queue: one batch, applied to the heap image by several threads. Each thread claims a
//! part of the heap image and applies that part's words.
//!
//! ```text
//!   the leader                               any other thread
//!   1 post the batch, notify
//!   2 claim parts until none is left         claim a part, if one is left
//!   3 wait for the parts of others           apply it, with its own barrier
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
//! - A part ends after its own barrier. So a thread that has seen the batch complete may sync and
//!   write the superblock. The lock of `round` shows it the effects of the parts.

use medium::mutants::{Mutant, planted};
use medium::{Counts, HomeMedium, Parts};

use crate::Error;
use crate::persist::{Event, InTurn, Queued};
use crate::sync::{Arc, Mutex, lock};

/// The parts of the heap image, and the claims on the current batch.
pub(crate) struct ShardQueue {
    /// A part is locked by the thread that claimed it, or to read its counts.
    parts: Vec<Mutex<Box<dyn HomeMedium>>>,
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
    pub(crate) fn new(home: Parts) -> ShardQueue {
        let parts = home.into_parts().into_iter().map(Mutex::new).collect();
        ShardQueue { parts, round: Mutex::default(), through: Event::default() }
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
        Some(Claim { board: self, number, batch: Some(batch) })
    }

    fn leaves_one_out(&self) -> bool {
        planted(Mutant::LastPartLeftOut) && self.parts.len() > 1
    }

    /// Waits until no part is at work, after all have been claimed. Returns whether all of them
    /// succeeded.
    pub(crate) fn wait(&self) -> bool {
        loop {
            let epoch = self.through.epoch();
            let round = lock(&self.round);
            let claimed = planted(Mutant::PartsAtWorkNotAwaited) && round.claimed > 0;
            if round.at_work == 0 || claimed {
                return !round.failed;
            }
            drop(round);
            self.through.wait(epoch, None);
        }
    }

    /// Makes the writes of all parts durable.
    pub(crate) fn sync(&self) -> Result<(), medium::Error> {
        lock(&self.parts[0]).sync()?;
        Ok(())
    }

    pub(crate) fn counts(&self) -> Counts {
        self.parts.iter().fold(Counts::default(), |sum, part| sum.plus(lock(part).counts()))
    }
}

/// A claim on a part of a batch.
pub(crate) struct Claim<'b> {
    board: &'b ShardQueue,
    number: usize,
    /// `None` after the claim has ended.
    batch: Option<Arc<Vec<Queued>>>,
}

impl Claim<'_> {
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Applies the part's words to the heap image, up to its own barrier.
    ///
    /// # Errors
    /// The medium's. The pool is then poisoned, and no more parts of the batch are claimed.
    pub(crate) fn apply(mut self, turn: &InTurn<'_>) -> Result<(), Error> {
        // Poison before the claim ends: the end wakes the leader, which then checks the poison.
        let panic = turn.on_panic("reproduce");
        if planted(Mutant::PartEndsBeforeBarrier) {
            lock(&self.board.round).at_work -= 1;
            self.board.through.notify();
        }
        let done = self.write_out();
        if planted(Mutant::PartEndsBeforeBarrier) {
            lock(&self.board.round).at_work += 1;
        }
        panic.disarm();
        if planted(Mutant::FailedPartPoisonsLast) {
            self.end(done.is_err());
            return done.map_err(|error| turn.fail(error.into()));
        }
        let done = done.map_err(|error| turn.fail(error.into()));
        self.end(done.is_err());
        done
    }

    fn write_out(&self) -> Result<(), medium::Error> {
        let mut home = lock(&self.board.parts[self.number]);
        let batch = self.batch.as_ref().expect("the claim is open");
        batch.iter().try_for_each(|queued| home.write_back(queued.writes()))?;
        let is_last = self.number + 1 == self.board.parts.len();
        if is_last && !self.is_first() && planted(Mutant::LastPartNotWrittenOut) {
            return Ok(());
        }
        home.write_out()?;
        Ok(())
    }

    fn end(&mut self, failed: bool) {
        self.batch = None;
        let mut round = lock(&self.board.round);
        round.at_work -= 1;
        if failed {
            (round.failed, round.batch) = (!planted(Mutant::FailedPartCountsAsDone), None);
        }
        let through = round.at_work == 0 && round.batch.is_none();
        drop(round);
        // After the unlock: the leader checks the round again. No thread waits for an only part.
        if through && self.board.parts.len() > 1 && !planted(Mutant::LastPartNotNotified) {
            self.board.through.notify();
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
