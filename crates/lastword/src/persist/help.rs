//! Steps that one thread at a time runs, and that whoever waits for their outcome helps with.
//!
//! ```text
//!   one that helps                       one in the step
//!   1 epoch                              a lock
//!   2 what I wait for? done              b work on what is there
//!   3 try the step: done, or busy        c unlock
//!   4 busy: sleep until the epoch moves  d the epoch moves, sleepers wake
//! ```
//!
//! Invariant: whoever finds the step taken sleeps only until the turn that it has found is over.
//! That turn may have looked before the sleeper's record was published, so it ends the sleep
//! whatever it has done, and the sleeper tries again. It cannot be missed: its d comes after its c,
//! which comes after 3, and 1 came before. Were 1 after 3, c and d could fall between the two, and
//! with nobody else at work the sleep would never end.

use super::Event;
use crate::sync::{Mutex, thread, try_lock};

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something.
    Done,
    /// Something, and as much as one step can do: more is waiting.
    More,
    /// There was nothing to do.
    Nothing,
    /// Another thread is in it.
    Busy,
    /// The log has no room until something is reproduced.
    LogFull,
}

/// Runs a step on `state`, unless another thread is in it, and tells who has found it taken.
///
/// # Errors
/// The step's.
pub(crate) fn take_turn<T, E>(
    state: &Mutex<T>,
    progress: &Event,
    step: impl FnOnce(&mut T) -> Result<Step, E>,
) -> Result<Step, E> {
    let _panic = TellOnPanic(progress); // dropped after the lock
    let Some(mut state) = try_lock(state) else { return Ok(Step::Busy) };
    let step = step(&mut state);
    drop(state);
    // After the lock is free, and whatever was done: see the module.
    progress.notify();
    step
}

/// Wakes the sleepers when a step panics: they try it themselves, and meet the same.
struct TellOnPanic<'e>(&'e Event);

impl Drop for TellOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify();
        }
    }
}

/// Helps until `done` answers something: runs `step`, and sleeps while another thread does.
///
/// # Errors
/// The step's.
pub(crate) fn help_until<R, E>(
    progress: &Event,
    mut done: impl FnMut() -> Option<R>,
    mut step: impl FnMut() -> Result<Step, E>,
) -> Result<R, E> {
    loop {
        let epoch = progress.epoch();
        if let Some(answer) = done() {
            return Ok(answer);
        }
        match step()? {
            Step::Busy => progress.wait(epoch, None),
            // A worker has drawn an ID and not published it yet: it needs its core.
            Step::Nothing => thread::yield_now(),
            Step::Done | Step::More | Step::LogFull => {}
        }
    }
}
