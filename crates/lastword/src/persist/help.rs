//! Steps that one thread at a time runs, and that whoever waits for their outcome helps with.
//!
//! ```text
//!   one that helps                       one in the step
//!   1 epoch                              a lock
//!   2 what I wait for? done              b work on what is there
//!   3 try the step: done, or busy        c unlock
//!   4 busy: sleep on that epoch          d the turn is over: the epoch moves, sleepers wake
//! ```
//!
//! What a sleeper misses, and how it is woken, is the matter of [`progress`](super::progress): the
//! turn that it has found may have looked before its record was published, so the end of that turn
//! wakes it, or another that sleeps, to try again. It cannot be missed: d comes after c, which
//! comes after 3, and 1 came before. Were 1 after 3, c and d could fall between the two, and with
//! nobody else at work the sleep would never end.

use super::Progress;
use super::progress::InTurn;
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
    /// A group waits until one under way is acknowledged.
    Deep,
    /// The log has no room until something is reproduced.
    LogFull,
    /// What there is to do other threads are at, and tell when it is over.
    Working,
}

impl Step {
    /// What sending, and then acknowledging what is under way, amount to. `turn`: of who sends.
    pub(crate) fn of_both(sent: Step, acknowledged: Step, turn: Turn) -> Step {
        match (sent, acknowledged) {
            (Step::More, _) => Step::More,
            // Room for a group that waits for it.
            (Step::Deep, Step::Done) => Step::More,
            (Step::LogFull, acknowledged) if acknowledged != Step::Done => Step::LogFull,
            (Step::Done, _) | (_, Step::Done) => Step::Done,
            (Step::Working, _) => Step::Busy,
            // Somebody is sending, which is soon over and not told: nothing to sleep on.
            (Step::Busy, Step::Nothing) if turn == Turn::Passing => Step::Nothing,
            (Step::Busy, _) | (_, Step::Busy) => Step::Busy,
            (sent, _) => sent,
        }
    }
}

/// Whether anybody sleeps until a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Whoever finds the step taken sleeps.
    Awaited,
    /// A thread that finds the step taken has something else to do or to sleep on, or tries it
    /// again: only a failure notifies. What is done when the turn is over has [a turn of its
    /// own](in_turn).
    Passing,
}

/// Runs a step on `state`, unless another thread is in it, and wakes the sleepers when it is over.
///
/// # Errors
/// The step's.
pub(crate) fn take_turn<T, E>(
    state: &Mutex<T>,
    progress: &Progress,
    turn: Turn,
    step: impl FnOnce(&mut T, &InTurn<'_>) -> Result<Step, E>,
) -> Result<Step, E> {
    let in_turn = progress.turn(); // dropped after the lock
    let Some(mut state) = try_lock(state) else {
        in_turn.disarm();
        return Ok(Step::Busy);
    };
    let step = step(&mut state, &in_turn);
    drop(state);
    in_turn.disarm();
    // After the lock is free, and whatever was done: see the module.
    if turn == Turn::Awaited || step.is_err() {
        progress.turn_is_over();
    }
    step
}

/// Runs a part of a step that holds no lock of its own, and wakes the sleepers when it is over.
///
/// # Errors
/// The part's.
pub(crate) fn in_turn<R, E>(
    progress: &Progress,
    turn: Turn,
    part: impl FnOnce(&InTurn<'_>) -> Result<R, E>,
) -> Result<R, E> {
    let in_turn = progress.turn();
    let done = part(&in_turn);
    in_turn.disarm();
    if turn == Turn::Awaited || done.is_err() {
        progress.turn_is_over();
    }
    done
}

/// Helps until `done` answers something, at the latest when `id` is durable (0: something else):
/// runs `step`, and sleeps while another thread does.
///
/// # Errors
/// The step's.
pub(crate) fn help_until<R, E>(
    progress: &Progress,
    id: u64,
    mut done: impl FnMut() -> Option<R>,
    mut step: impl FnMut() -> Result<Step, E>,
) -> Result<R, E> {
    loop {
        let epoch = progress.epoch();
        if let Some(answer) = done() {
            return Ok(answer);
        }
        match step()? {
            Step::Busy => progress.sleep(epoch, id),
            // A worker has drawn an ID and not published it yet: it needs its core.
            Step::Nothing => thread::yield_now(),
            // Other threads pack what comes first, and nothing is in flight: they need their core.
            Step::Deep => thread::yield_now(),
            Step::Done | Step::More | Step::LogFull => {}
            Step::Working => unreachable!("a whole step says that it is busy"),
        }
    }
}
