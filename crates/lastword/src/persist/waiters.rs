//! Waiters: threads, tasks and callbacks that wait for the durable watermark, and threads that wait
//! for a step or an event.
//!
//! | waits for | type | a waiting thread |
//! |---|---|---|
//! | a durable ID, room, the end of a step | [`Progress`], [`help_until`] | runs the step |
//! | work, or another thread's work | [`Event`](super::Event) | sleeps |
//!
//! All follow one rule: a waiter reads an epoch before the state; a thread that changes the state
//! raises the epoch afterwards. The waiter sleeps only while the epoch has not moved.
//!
//! # The durable watermark
//!
//! Threads wait here for commits to become durable. A step stores its effects, frees its lock, and
//! then *ends*: it moves the epoch, notifies the waiters it has served, and wakes one more thread.
//!
//! ```text
//!   a thread that sleeps                   a thread that ends a step
//!   1 epoch                                a its effects are stored, its lock is free
//!   2 check the condition, try the step    b epoch + 1, in one order with c
//!   3 busy: waiting + 1, fence             c any waiting?
//!   4 lock, epoch as in 1? onto the list   d lock, off the list: all served, and one more
//! ```
//!
//! Invariants:
//! - `durable` only grows, and only after the barrier for every record up to it.
//! - The first step that serves a listed waiter takes it off the list. If c does not see its 3, its
//!   4 sees b, and it does not sleep.
//! - While threads sleep, a step is running, or one of them is awake and about to try the step.
//!   Each end wakes one thread beyond those served (the one with the lowest ID). If that thread
//!   finds the step taken again, it sleeps until that step ends.
//!
//! An end wakes one thread and not all: of a hundred threads that wait for the next group, one can
//! send it.
//!
//! # Failures
//!
//! A failure is stored before the end of a step, so it reaches every waiter as durability does.
//!
//! In a step, the failure is stored while the step's lock is held: no other thread may send a group
//! after a failed one. The end of that step notifies, after the unlock ([`RunningStep::fail`]).
//!
//! A failure outside of any step (a shadow page that cannot be read) runs b to d itself
//! ([`Progress::fail`]). It is stored before b, so
//! - a thread between 1 and 4 finds the epoch moved, does not sleep, and finds the failure when it
//!   tries the step again;
//! - a sleeping thread is on the list and is woken, because a failure serves all IDs;
//! - a listener that registers at the same time sees the failure after its own fence, or c sees the
//!   listener waiting.
//!
//! No other code can store a failure: the field is private, and a `RunningStep` exists only while a
//! step runs.
//!
//! # Helping
//!
//! One thread at a time runs a step, and every waiting thread helps with it. A thread that waits
//! for an outcome runs the step itself if it is free, so progress needs no background thread (flat
//! combining).
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
//! the end of a step wakes that sleeper, or another one, to try again.
//!
//! The sleeper cannot miss d: d comes after c, which comes after 3, and 1 came before. With 1 after
//! 3, c and d could fall between the two. Without other work the sleep would then never end.
//!
//! On memory a step takes less time than a sleep. There the thread looks at the epoch for a while
//! before 4, and goes on with 1 if it moves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax};

use super::listeners::{Listener, Listeners, Registration};
use crate::error::Error;
use crate::poison::{OnPanic, Poison};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, MODELED, Mutex, Ordering, cores, fence_unless, lock,
    raise, spin_loop, thread, try_lock,
};

/// Looks at the end of another thread's step before a thread sleeps: some microseconds, less than
/// the sleep and the wake-up take.
const SPINS: u32 = 100;

/// The durable watermark, failure state and waiters of a pool.
#[derive(Default)]
pub(crate) struct Progress {
    durable: CachePadded<AtomicU64>,
    /// Number of ends so far.
    epoch: AtomicU64,
    /// At least the number of waiters on the lists.
    waiting: AtomicUsize,
    lists: Mutex<Lists>,
    /// Set by `fail` alone.
    poison: Poison,
    /// Looks at the epoch before a thread sleeps on it.
    spins: u32,
}

/// The waiters, lowest ID first.
#[derive(Default)]
struct Lists {
    sleepers: BinaryHeap<Reverse<For<Arc<Sleeper>>>>,
    listeners: Listeners,
}

/// A waiter, ordered by the ID that it waits for.
struct For<T> {
    id: u64,
    waiter: T,
}

/// A sleeping thread.
struct Sleeper {
    thread: thread::Thread,
    awake: AtomicBool,
}

impl Progress {
    pub(crate) fn new(durable: u64) -> Progress {
        Progress { durable: CachePadded::new(AtomicU64::new(durable)), ..Progress::default() }
    }

    /// Lets threads that find a step taken look for its end for a while before they sleep, where
    /// steps take no longer than that.
    pub(crate) fn spinning(self) -> Progress {
        // On one core, the thread in the step runs when this one sleeps. A model has no time.
        let spins = if cores() > 1 && !MODELED { SPINS } else { 0 };
        Progress { spins, ..self }
    }

    /// Whether the epoch moves within a short while.
    fn moves_soon(&self, epoch: u64) -> bool {
        (0..self.spins).any(|_| {
            spin_loop();
            self.epoch() != epoch
        })
    }

    /// The largest ID such that it and all before it survive a crash.
    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`.
        self.durable.load(relax(Ordering::Acquire, Mutant::DurableIdReadRelaxed))
    }

    /// Advances the durable watermark to `id`. Wakes no waiter: the end of the step does.
    pub(crate) fn advance(&self, id: u64) {
        // Release: a thread that sees `durable >= id` also sees the effects that led to it (the
        // group in the queue). Pairs with `durable`.
        self.durable.store(id, relax(Ordering::Release, Mutant::DurableIdStoredRelaxed));
    }

    /// Returns the outcome of `id`: durable, failed, or neither yet.
    pub(crate) fn outcome(&self, id: u64) -> Option<Result<(), Error>> {
        // Durable first: a later failure does not undo durability.
        if self.durable() >= id {
            return Some(Ok(()));
        }
        self.check().err().map(Err)
    }

    /// Returns the pool's failure, if there was one.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.poison.check()
    }

    /// Stores the failure if it is the first, notifies every waiter, and returns the error to
    /// report. For callers outside of any step. They hold no lock that a step or a call into the
    /// pool needs: callbacks run here, unless this thread is in a body.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> Error {
        if injected(Mutant::FailureStoredAfterEnd) {
            self.step_is_over();
            return self.poison.put(error);
        }
        let error = self.poison.put(error);
        if !injected(Mutant::FailureEndsNoStep) {
            self.step_is_over();
        }
        error
    }

    /// Returns the guard of a step that begins.
    fn running_step(&self) -> RunningStep<'_> {
        RunningStep(self)
    }

    /// Returns the epoch for [`sleep`](Progress::sleep). Read it before the state that is waited
    /// for.
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: the caller checks the state after this. Pairs with the Release in
        // `step_is_over`.
        self.epoch.load(Ordering::Acquire)
    }

    /// Sleeps until a step that ended after `epoch` was read has made `id` durable, or has chosen
    /// this thread to try the step. With `id` 0 the thread waits for another condition, and every
    /// end wakes it. Wakes spuriously at times.
    pub(crate) fn sleep(&self, epoch: u64, id: u64) {
        let thread = thread::current();
        let sleeper = Arc::new(Sleeper { thread, awake: AtomicBool::new(false) });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // SeqCst fence: either the thread that ends a step sees this thread waiting, or this thread
        // sees the new epoch. Pairs with `raise` in `step_is_over`; without both, each could miss
        // the other's store.
        fence_unless(Mutant::NoFenceInSleep, Ordering::SeqCst);
        {
            let mut lists = lock(&self.lists);
            let looks = !injected(Mutant::SleepWithoutSecondLook);
            if looks && self.epoch.load(Ordering::Acquire) != epoch {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            lists.sleepers.push(Reverse(For { id, waiter: Arc::clone(&sleeper) }));
        }
        // Acquire: pairs with the Release in `wake`. `unpark` before `park` is not lost.
        while !sleeper.awake.load(Ordering::Acquire) {
            thread::park();
        }
    }

    /// Notifies the listener when the outcome of `id` is known; at once if it already is.
    pub(crate) fn notify(&self, id: u64, listener: Listener) {
        if let Err((listener, outcome)) = self.register(id, listener) {
            listener.notify(outcome);
        }
    }

    /// Wakes a future's task when the outcome of `id` is known. Registers the waker, or replaces
    /// the waker that this future registered before. The future must check the outcome afterwards:
    /// if it is known by then, this may have registered nothing.
    pub(crate) fn listen(&self, id: u64, mut waker: Waker, registration: &mut Registration) {
        if let Some(serial) = registration.serial() {
            let replaced = lock(&self.lists).listeners.replace(id, serial, waker);
            match replaced {
                Ok(unneeded) => return drop(unneeded),
                Err(new) => waker = new,
            }
        }
        if let Ok(serial) = self.register(id, Listener::Task(waker)) {
            registration.set(serial);
        }
    }

    /// Removes the waker of a dropped future.
    pub(crate) fn forget(&self, id: u64, registration: &Registration) {
        let Some(serial) = registration.serial() else { return };
        let removed = lock(&self.lists).listeners.remove(id, serial);
        if removed.is_some() != injected(Mutant::ForgottenListenerCounts) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Wakes all tasks, although none has an outcome. Each checks its other reasons to end.
    pub(crate) fn wake_tasks(&self) {
        let tasks = {
            let mut lists = lock(&self.lists);
            let tasks = lists.listeners.take_tasks();
            self.waiting.fetch_sub(tasks.len(), Ordering::Relaxed);
            tasks
        };
        // A task ignores the result: `notify` only wakes it.
        tasks.into_iter().for_each(|task| task.notify(Ok(())));
    }

    /// Number of listeners not yet notified.
    pub(crate) fn listeners(&self) -> usize {
        lock(&self.lists).listeners.len()
    }

    /// Whether the end of a step looks for waiters.
    #[cfg(test)]
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Registers a listener, unless the outcome is known. Then returns both.
    fn register(&self, id: u64, listener: Listener) -> Result<u64, (Listener, Result<(), Error>)> {
        let before = injected(Mutant::RegisterLooksFirst).then(|| self.outcome(id));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // As in `sleep`: either the end of a step sees the listener waiting, or the listener sees
        // the step's effects.
        fence_unless(Mutant::NoFenceInRegister, Ordering::SeqCst);
        // The outcome is no part of the order between the count and the epoch. If a step has not
        // seen the count, this load sees its epoch, and so the look below sees its effects.
        self.epoch.load(Ordering::Acquire);
        let mut lists = lock(&self.lists);
        let looks = !injected(Mutant::RegisterWithoutLook) || id == 0;
        let outcome = before.unwrap_or_else(|| self.outcome(id)).filter(|_| looks);
        if let Some(outcome) = outcome {
            drop(lists);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err((listener, outcome));
        }
        Ok(lists.listeners.add(id, listener))
    }

    /// Ends a step: wakes the waiters that it has served, and one more thread to take the next
    /// step. The caller has released the step's lock.
    pub(crate) fn step_is_over(&self) {
        // Release: a sleeper that sees the epoch sees the step's effects. Pairs with the fences in
        // `sleep` and `register`; SeqCst belongs to it.
        raise(&self.epoch, Ordering::Release, Mutant::NoFenceAtEndOfStep);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let failed = self.check().is_err() && !injected(Mutant::FailureServesDurableAlone);
        let mut sleepers = Vec::new();
        let listeners = {
            let mut lists = lock(&self.lists);
            let durable = self.durable();
            let served = |id: u64| failed || id <= durable;
            while lists.sleepers.peek().is_some_and(|Reverse(first)| served(first.id)) {
                sleepers.extend(lists.sleepers.pop());
            }
            if !injected(Mutant::OnlyServedAreWoken) {
                sleepers.extend(lists.sleepers.pop()); // one more
            }
            let listeners = lists.listeners.take(served);
            self.waiting.fetch_sub(sleepers.len() + listeners.len(), Ordering::Relaxed);
            listeners
        };
        for Reverse(For { waiter, .. }) in sleepers {
            waiter.awake.store(true, Ordering::Release);
            waiter.thread.unpark();
        }
        for (id, listener) in listeners {
            listener.notify(self.outcome(id).expect("a served ID keeps its outcome"));
        }
    }
}

/// The guard of a running step. A failure stored through it needs no notification of its own,
/// because the end notifies, whether the step returns or panics.
pub(crate) struct RunningStep<'p>(&'p Progress);

impl RunningStep<'_> {
    /// Stores a failure if it is the first; returns the error to report.
    pub(crate) fn fail(&self, error: Error) -> Error {
        self.0.poison.put(error)
    }

    /// See [`Poison::on_panic`].
    pub(crate) fn on_panic(&self, step: &'static str) -> OnPanic<'_> {
        self.0.poison.on_panic(step)
    }

    /// Drops the guard without a notification. The step has not panicked, and its thread notifies
    /// if other threads may be waiting.
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for RunningStep<'_> {
    /// Ends a step that panics. The sleepers try the step themselves and find the failure.
    fn drop(&mut self) {
        self.0.step_is_over();
    }
}

impl<T> PartialEq for For<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl<T> Eq for For<T> {}
impl<T> PartialOrd for For<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for For<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(&other.id)
    }
}

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
    /// A group is held back by groups in flight, or by earlier groups that other threads still
    /// pack.
    HeldBack,
    /// The log is full until a batch is reproduced.
    LogFull,
    /// Other threads do the remaining work, and notify when it is over.
    Working,
}

impl Step {
    /// Combines the results of sending a group and of acknowledging groups in flight. `send_end`
    /// says whether threads sleep until a send ends.
    pub(crate) fn of_both(sent: Step, acknowledged: Step, send_end: StepEnd) -> Step {
        match (sent, acknowledged) {
            (Step::More, _) => Step::More,
            // The acknowledgement made room for a group that waits for it.
            (Step::HeldBack, Step::Done) => Step::More,
            (Step::LogFull, acknowledged) if acknowledged != Step::Done => Step::LogFull,
            (Step::Done, _) | (_, Step::Done) => Step::Done,
            (Step::Working, _) => Step::Busy,
            // Another thread is sending. That is soon over and ends without a notification, so the
            // caller must not sleep on it.
            (Step::Busy, Step::Nothing) if send_end == StepEnd::Unawaited => Step::Nothing,
            (Step::Busy, _) | (_, Step::Busy) => Step::Busy,
            (sent, _) => sent,
        }
    }
}

/// Whether threads sleep until the step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnd {
    /// A thread that finds the step taken sleeps.
    Awaited,
    /// A thread that finds the step taken has other work, sleeps on another event, or tries again.
    /// Only a failure notifies. Work after the step has [its own notification](run_part).
    Unawaited,
}

/// Runs a step on `state`, unless another thread holds it, and wakes the sleepers at its end.
///
/// # Errors
/// The step's.
pub(crate) fn try_step<T, E>(
    state: &Mutex<T>,
    progress: &Progress,
    end: StepEnd,
    step: impl FnOnce(&mut T, &RunningStep<'_>) -> Result<Step, E>,
) -> Result<Step, E> {
    let running = progress.running_step(); // dropped after the lock
    let Some(mut state) = try_lock(state) else {
        running.disarm();
        return Ok(Step::Busy);
    };
    let step = step(&mut state, &running);
    // Unlocks here.
    let held = injected(Mutant::StepNotifiesBeforeUnlock).then_some(state);
    running.disarm();
    // After the unlock, and whatever the result: see the module.
    if notifies(end, &step) {
        progress.step_is_over();
    }
    drop(held);
    step
}

/// Whether the end of a step with this result notifies.
fn notifies<E>(end: StepEnd, step: &Result<Step, E>) -> bool {
    if injected(Mutant::OnlyWorkNotifies) {
        return matches!(step, Ok(Step::Done));
    }
    if injected(Mutant::FailureNotNotified) {
        return step.is_ok();
    }
    end == StepEnd::Awaited && !injected(Mutant::StepNotifiesOfFailureAlone) || step.is_err()
}

/// Runs a part of a step that holds no lock of its own, and wakes the sleepers at its end.
///
/// # Errors
/// The part's.
pub(crate) fn run_part<R, E>(
    progress: &Progress,
    end: StepEnd,
    part: impl FnOnce(&RunningStep<'_>) -> Result<R, E>,
) -> Result<R, E> {
    let running = progress.running_step();
    let done = part(&running);
    running.disarm();
    if end == StepEnd::Awaited || done.is_err() {
        progress.step_is_over();
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
            Step::Busy if injected(Mutant::EpochReadAfterStep) => {
                progress.sleep(progress.epoch(), id);
            }
            Step::Busy if progress.moves_soon(epoch) => {}
            Step::Busy => progress.sleep(epoch, id),
            // A worker has an ID and has not published its record yet: it needs its core.
            Step::Nothing => thread::yield_now(),
            // Nothing is in flight, or the step would have waited for it. Other threads pack the
            // earlier groups: they need their core.
            Step::HeldBack => thread::yield_now(),
            Step::Done | Step::More | Step::LogFull => {}
            Step::Working => unreachable!("`Step::of_both` reports `Working` as `Busy`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that is never polled; its count of owners counts the wakers.
    struct Idle;

    impl std::task::Wake for Idle {
        fn wake(self: std::sync::Arc<Self>) {}
    }

    #[test]
    fn polled_future_leaves_one_waker_and_dropped_none() {
        let progress = Progress::new(0);
        let tasks = [std::sync::Arc::new(Idle), std::sync::Arc::new(Idle)];
        let wakers = || tasks.iter().map(std::sync::Arc::strong_count).sum::<usize>() - 2;
        let (mut first, mut second) = (Registration::default(), Registration::default());
        for poll in 0..100_000 {
            progress.listen(1, std::sync::Arc::clone(&tasks[poll % 2]).into(), &mut first);
        }
        progress.listen(1, std::sync::Arc::clone(&tasks[0]).into(), &mut second);
        assert_eq!((progress.listeners(), wakers()), (2, 2));
        progress.forget(1, &first);
        progress.forget(1, &first);
        assert_eq!((progress.listeners(), wakers()), (1, 1));
        progress.advance(1);
        progress.step_is_over();
        assert_eq!((progress.listeners(), wakers(), progress.has_waiters()), (0, 0, false));
        // A step has taken the listener.
        progress.listen(1, std::sync::Arc::clone(&tasks[0]).into(), &mut second);
        progress.forget(1, &second);
        assert_eq!((progress.listeners(), wakers(), progress.has_waiters()), (0, 0, false));
    }
}
