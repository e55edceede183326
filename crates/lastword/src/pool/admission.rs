//! Workers and calls in flight, and the stages in which a shared pool closes.
//!
//! [`Pool::close_shared`](super::Pool::close_shared) closes a pool that other handles still refer
//! to. It begins the shutdown only when no worker is registered and no call is in flight, and keeps
//! later ones out.
//!
//! ```text
//!   open --> closing --> draining --> closed
//!               ^            |
//!               +------------+   patience is over: `StillUsed`
//! ```
//!
//! | stage | `worker`, `run` | registered workers | other calls |
//! |---|---|---|---|
//! | open | run | run | run |
//! | closing | refused | run | run |
//! | draining | refused | none | refused; waits for a ticket wait for the end of the stage |
//! | closed | refused | none | refused; each ticket has its outcome |
//!
//! A pool that was asked to close never opens again, so a program that begins transactions without
//! end cannot keep it open. Reads of counters and watermarks are loads, and no call in this sense.
//! Callbacks run while the pool shuts down, in the thread that shuts it down, too. So no call waits
//! for that thread, but for waits, which a callback must not make.
//!
//! Invariants:
//! - A worker is registered under the lock of `numbers`, and closing begins under it. So a worker
//!   is counted before `closing`, or refused.
//! - Stage and calls share a word. A call adds itself to the word and looks at the stage with one
//!   instruction. So the thread that drains sees the call, or the call sees `DRAINING`. It then
//!   takes itself off, and waits.
//! - A call that ends and a worker that leaves notify under the lock, so that the thread which
//!   drains does not miss them between its look and its sleep.
//!
//! A transaction costs nothing here: its worker is registered.

use std::time::Duration;

use medium::Patience;
use medium::mutants::{Mutant, injected, relax};

use crate::error::{Error, StillUsed};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, lock};

/// No worker is registered any more.
const CLOSING: u64 = 1;
/// No call begins.
const DRAINING: u64 = 2;
/// The pool is shut down.
const CLOSED: u64 = 4;
/// One call in flight.
const CALL: u64 = 8;

/// Longest sleep between two looks at the clock.
const LOOK: Duration = Duration::from_millis(5);

/// The users of a pool, and its stage.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// The stage, and the calls in flight.
    word: AtomicU64,
    numbers: Mutex<Numbers>,
    /// Notified, while the pool closes, when a user leaves or the stage changes.
    changed: Condvar,
}

/// Numbers of workers. The smallest free one is assigned next.
#[derive(Debug, Default)]
struct Numbers {
    used: Vec<bool>,
    /// Registered workers. A number may stay in use without one.
    live: usize,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct Call<'a>(&'a Admission);

/// The exclusive use of a pool that shuts down. Its drop ends the last stage.
#[derive(Debug)]
pub(super) struct Closing<'a>(&'a Admission);

impl Admission {
    /// Registers a worker; returns its number.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::TooManyWorkers`].
    pub(super) fn enter(&self, design: &'static str, max: usize) -> Result<usize, Error> {
        let early = injected(Mutant::WorkerAdmittedBeforeLock).then(|| self.check_open("worker"));
        let mut numbers = lock(&self.numbers);
        early.unwrap_or_else(|| self.check_open("worker"))?;
        let Numbers { used, live } = &mut *numbers;
        if used.iter().filter(|used| **used).count() >= max {
            return Err(Error::TooManyWorkers { design, max, instead: "use another design" });
        }
        *live += 1;
        let number = used.iter().position(|used| !used).unwrap_or(used.len());
        match used.get_mut(number) {
            Some(used) => *used = true,
            None => used.push(true),
        }
        Ok(number)
    }

    /// Unregisters a worker. `is_free`: another may have its number.
    pub(super) fn leave(&self, number: usize, is_free: bool) {
        let mut numbers = lock(&self.numbers);
        numbers.used[number] = !is_free;
        numbers.live -= 1;
        self.notify_if(self.is_closing());
    }

    /// Checks that new workers may register.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(super) fn check_open(&self, call: &'static str) -> Result<(), Error> {
        if self.is_closing() { Err(Error::Closed { call }) } else { Ok(()) }
    }

    /// Whether the pool was asked to close.
    pub(super) fn is_closing(&self) -> bool {
        self.word.load(Ordering::Acquire) & (CLOSING | CLOSED) != 0
    }

    /// Whether the pool is shut down.
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: the caller sees the effects of the shutdown. Pairs with the drop of `Closing`.
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Begins a call, if the pool is not in one of its last two stages.
    pub(super) fn try_call(&self) -> Option<Call<'_>> {
        // Acquire: pairs with the end of a failed drain.
        let early =
            injected(Mutant::CallAdmittedBeforeCounted).then(|| self.word.load(Ordering::Acquire));
        let before = self.word.fetch_add(CALL, Ordering::Acquire);
        let before = early.unwrap_or(before);
        let call = Call(self); // a drop takes it off again
        (before & (DRAINING | CLOSED) == 0).then_some(call)
    }

    /// Begins a call.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(super) fn call(&self, call: &'static str) -> Result<Call<'_>, Error> {
        self.try_call().ok_or(Error::Closed { call })
    }

    /// Waits a while for the end of a drain: the pool is closed then, or lets calls in again. The
    /// caller waits for something that may come before, too.
    pub(super) fn wait_for_drain(&self) {
        let numbers = lock(&self.numbers);
        if self.word.load(Ordering::Acquire) & DRAINING != 0 {
            let _ = self.changed.wait_timeout(numbers, LOOK);
        }
    }

    /// Keeps new workers out, waits until all have left, keeps calls out, and waits until none is
    /// in flight. `leave_kept` unregisters the workers that are idle.
    ///
    /// # Errors
    /// [`Error::StillUsed`] after `limit`: calls are let in again, workers are not.
    /// [`Error::Closed`] if the pool is closed.
    pub(super) fn drain(
        &self,
        limit: Duration,
        leave_kept: impl FnOnce(),
    ) -> Result<Closing<'_>, Error> {
        let numbers = lock(&self.numbers);
        self.word.fetch_or(CLOSING, Ordering::AcqRel);
        drop(numbers);
        leave_kept();
        let (mut patience, mut drains) = (Patience::new(limit), false);
        let mut numbers = lock(&self.numbers);
        loop {
            // Acquire: pairs with the ends of the calls.
            let word = self.word.load(Ordering::Acquire);
            let (workers, calls) = (numbers.live, word / CALL);
            if word & CLOSED != 0 {
                return Err(Error::Closed { call: "close_shared" });
            }
            if drains && calls == 0 {
                return Ok(Closing(self));
            }
            if workers == 0 && word & DRAINING == 0 {
                self.word.fetch_or(DRAINING, Ordering::AcqRel);
                drains = true;
                continue;
            }
            if patience.is_over() {
                if drains {
                    self.word.fetch_sub(DRAINING, Ordering::Release);
                    self.notify_if(true);
                }
                return Err(StillUsed { workers, calls, waited: limit }.into());
            }
            let _ = self.changed.wait_timeout(numbers, LOOK);
            numbers = lock(&self.numbers);
        }
    }

    #[cfg(test)]
    pub(super) fn workers(&self) -> usize {
        lock(&self.numbers).live
    }

    /// Notifies the threads that wait for a user to leave, or for the end of a stage. The caller
    /// holds the lock.
    fn notify_if(&self, closes: bool) {
        if closes {
            self.changed.notify_all();
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Call(admission) = self;
        // Release: the thread that shuts down sees the effects of the call.
        let release = relax(Ordering::Release, Mutant::CallEndsRelaxed);
        let before = admission.word.fetch_sub(CALL, release);
        if before & (CLOSING | DRAINING) != 0 {
            let _numbers = lock(&admission.numbers);
            admission.notify_if(true);
        }
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let Closing(admission) = self;
        let _numbers = lock(&admission.numbers);
        // Release: pairs with `is_closed`. At once, so that no call begins in between.
        admission.word.fetch_add(CLOSED - DRAINING, Ordering::Release);
        admission.notify_if(true);
    }
}
