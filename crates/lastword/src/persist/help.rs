//! Steps that one thread at a time runs, and that every waiting thread helps with.
//!
//! A thread that waits for an outcome runs the step itself if it is free, so progress needs no
//! background thread (flat combining).
//!
//! ```text
//!   a thread that waits                  the thread in the step
//!   1 epoch                              a lock
//!   2 is my condition true?              b process the queued work
//!   3 try the step: done, or busy        c unlock
//!   4 busy: sleep on that epoch          d end: the epoch moves, sleepers wake
//! ```
//!
//! The step that a sleeper found busy may have looked before the sleeper's record was published. So
//! the end of a step wakes that sleeper, or another one, to try again; see
//! [`progress`](super::progress).
//!
//! The sleeper cannot miss d: d comes after c, which comes after 3, and 1 came before. With 1 after
//! 3, c and d could fall between the two. Without other work the sleep would then never end.

use super::Progress;
use super::progress::InTurn;
use crate::sync::{Mutex, thread, try_lock};
use medium::mutants::{Mutant, planted};

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Some work was done.
    Done,
    /// One step's worth of work was done, and more is waiting.
    More,
    /// No work was available.
    Nothing,
    /// Another thread holds the step.
    Busy,
    /// A group waits until one in flight is acknowledged.
    Deep,
    /// The log is full until a batch is reproduced.
    LogFull,
    /// Other threads do the remaining work, and notify when it is over.
    Working,
}

impl Step {
    /// Combines the results of sending and of acknowledging groups in flight. `turn` is that of the
    /// send.
    pub(crate) fn of_both(sent: Step, acknowledged: Step, turn: Turn) -> Step {
        match (sent, acknowledged) {
            (Step::More, _) => Step::More,
            // The acknowledgement made room for a group that waits for it.
            (Step::Deep, Step::Done) => Step::More,
            (Step::LogFull, acknowledged) if acknowledged != Step::Done => Step::LogFull,
            (Step::Done, _) | (_, Step::Done) => Step::Done,
            (Step::Working, _) => Step::Busy,
            // Another thread is sending. That is soon over and ends without a notification, so the
            // caller must not sleep on it.
            (Step::Busy, Step::Nothing) if turn == Turn::Passing => Step::Nothing,
            (Step::Busy, _) | (_, Step::Busy) => Step::Busy,
            (sent, _) => sent,
        }
    }
}

/// Whether threads sleep until the step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A thread that finds the step taken sleeps.
    Awaited,
    /// A thread that finds the step taken has other work, sleeps on another event, or tries again.
    /// Only a failure notifies. Work after the step has [its own notification](in_turn).
    Passing,
}

/// Runs a step on `state`, unless another thread holds it, and wakes the sleepers at its end.
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
    // Unlocks here.
    let held = planted(Mutant::StepNotifiesBeforeUnlock).then_some(state);
    in_turn.disarm();
    // After the unlock, and whatever the result: see the module.
    if notifies(turn, &step) {
        progress.turn_is_over();
    }
    drop(held);
    step
}

/// Whether the end of a step with this result notifies.
fn notifies<E>(turn: Turn, step: &Result<Step, E>) -> bool {
    if planted(Mutant::OnlyWorkNotifies) {
        return matches!(step, Ok(Step::Done));
    }
    if planted(Mutant::FailureNotNotified) {
        return step.is_ok();
    }
    turn == Turn::Awaited && !planted(Mutant::StepNotifiesOfFailureAlone) || step.is_err()
}

/// Runs a part of a step that holds no lock of its own, and wakes the sleepers at its end.
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

/// Helps until `done` returns a value, at the latest when `id` is durable (0: another condition).
/// Runs `step`, and sleeps while another thread runs it.
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
        if let Some(value) = done() {
            return Ok(value);
        }
        match step()? {
            Step::Busy if planted(Mutant::EpochReadAfterStep) => {
                progress.sleep(progress.epoch(), id);
            }
            Step::Busy => progress.sleep(epoch, id),
            // A worker has an ID and has not published its record yet: it needs its core.
            Step::Nothing => thread::yield_now(),
            // Other threads pack earlier groups, and nothing is in flight: they need their core.
            Step::Deep => thread::yield_now(),
            Step::Done | Step::More | Step::LogFull => {}
            Step::Working => unreachable!("`Step::of_both` reports `Working` as `Busy`"),
        }
    }
}
