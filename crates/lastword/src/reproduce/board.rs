//! One batch, brought home by several threads: each claims a part of home and takes that part's
//! words there.
//!
//! ```text
//!   one that leads                           any other
//!   1 post the batch, ring
//!   2 claim parts, while there are any       claim, if there is one
//!   3 wait for the parts that others have    bring it home, its own barrier
//!   4 one sync, superblock, recycle          through: the last one tells
//! ```
//!
//! Who leads has the turn of the reproduce step, so there is one batch at a time. It waits for
//! nobody to come: what nobody else claims it does itself, so nothing depends on other threads
//! being there. It waits for those that have claimed: they are in the middle of a part, and end
//! with it done, failed or panicked; a claim that is dropped says so.
//!
//! Invariants:
//! - Parts are claimed once a batch, and only until one has failed.
//! - `at_work` counts claims that have not ended. A batch is through when all is claimed (or
//!   nothing more may be) and none is at work. Then no claim holds the batch any more.
//! - A part ends after its own barrier. So who has seen the batch through may sync and write the
//!   superblock: what it needs to see of the parts comes with the lock of `round`.

use medium::mutants::{Mutant, planted};
use medium::{Counts, HomeMedium, Parts};

use crate::Error;
use crate::persist::{Event, InTurn, Queued};
use crate::sync::{Arc, Mutex, lock};

/// Where the parts of a batch are claimed.
pub(crate) struct Board {
    /// A part is locked by who has claimed it, and by who counts.
    parts: Vec<Mutex<Box<dyn HomeMedium>>>,
    round: Mutex<Round>,
    /// The last part that was at work is through.
    through: Event,
}

/// How far a batch is.
#[derive(Default)]
struct Round {
    /// As long as parts of it may be claimed.
    batch: Option<Arc<Vec<Queued>>>,
    claimed: usize,
    at_work: usize,
    failed: bool,
}

impl Board {
    pub(crate) fn new(home: Parts) -> Board {
        let parts = home.into_parts().into_iter().map(Mutex::new).collect();
        Board { parts, round: Mutex::default(), through: Event::default() }
    }

    /// How many threads find something to do.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Offers a batch; the one before is through.
    pub(crate) fn post(&self, batch: Arc<Vec<Queued>>) {
        *lock(&self.round) = Round { batch: Some(batch), ..Round::default() };
    }

    /// A part that nobody has claimed.
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

    /// Waits until no part is at work; nothing is left to be claimed. Answers whether all of them
    /// came home.
    pub(crate) fn wait(&self) -> bool {
        loop {
            let epoch = self.through.epoch();
            let round = lock(&self.round);
            if round.at_work == 0 {
                return !round.failed;
            }
            drop(round);
            self.through.wait(epoch, None);
        }
    }

    /// Makes durable what all parts have written out.
    pub(crate) fn sync(&self) -> Result<(), medium::Error> {
        lock(&self.parts[0]).sync()?;
        Ok(())
    }

    pub(crate) fn counts(&self) -> Counts {
        self.parts.iter().fold(Counts::default(), |sum, part| sum.plus(lock(part).counts()))
    }
}

/// A part of a batch, until it is at home.
pub(crate) struct Claim<'b> {
    board: &'b Board,
    number: usize,
    /// `None` when it has ended.
    batch: Option<Arc<Vec<Queued>>>,
}

impl Claim<'_> {
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Takes the part's words home, up to its own barrier.
    ///
    /// # Errors
    /// The medium's; then the pool is poisoned, and nothing more of the batch is claimed.
    pub(crate) fn bring_home(mut self, turn: &InTurn<'_>) -> Result<(), Error> {
        // Poison before the claim ends, which tells who leads: that one looks for the poison.
        let panic = turn.on_panic("reproduce");
        let done = self.write_out();
        panic.disarm();
        let done = done.map_err(|error| turn.fail(error.into()));
        self.end(done.is_err());
        done
    }

    fn write_out(&self) -> Result<(), medium::Error> {
        let mut home = lock(&self.board.parts[self.number]);
        let batch = self.batch.as_ref().expect("it has not ended");
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
            (round.failed, round.batch) = (true, None);
        }
        let through = round.at_work == 0 && round.batch.is_none();
        drop(round);
        // After the lock: who waits looks at the round again. Nobody waits for the only part.
        if through && self.board.parts.len() > 1 {
            self.board.through.notify();
        }
    }
}

impl Drop for Claim<'_> {
    /// Of a claim that has panicked.
    fn drop(&mut self) {
        if self.batch.is_some() {
            self.end(true);
        }
    }
}
