//! The background threads: loops that call steps and sleep when nothing is left to do.
//!
//! Background threads take the persist and reproduce steps off the workers' path. They hold no
//! state of their own, so any thread that waits can run the same steps.
//!
//! | state | until | costs |
//! |---|---|---|
//! | working | a step has nothing to do | |
//! | napping | its pause is over, the pool closes | 2 000 wake-ups a second with [`NAP`] |
//! | polling | work arrives (only without a pause) | a core |
//! | asleep | the next commit, or the deadline of a pending group | one wake-up, after [`IDLE`] |
//!
//! A worker wakes a sleeping thread with one load a commit. Neither side can miss the other:
//! - The thread sets `asleep`, then reads the clock with a locked instruction.
//! - The worker assigns its ID with a locked instruction, then reads `asleep`.
//! - The two locked instructions on the clock are ordered. The later one sees every store before
//!   the earlier one.

use std::time::Duration;

use medium::mutants::{Mutant, injected, weaken};

use super::{Event, Step};
use crate::Error;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, spin_loop, thread};

/// Pause between groups while no thread waits. Larger groups cost fewer barriers, and a commit is
/// still durable soon. Chosen: 2 000 groups a second leave the device and a core their time.
pub(crate) const NAP: Duration = Duration::from_micros(500);

/// Naps without work before a thread goes to sleep.
const IDLE_NAPS: u32 = 4;

/// Polls without work before an unpaused thread goes to sleep: some milliseconds. In a model each
/// poll is a step of the schedule.
const IDLE_LOOKS: u32 = if cfg!(test) { 2 } else { 50_000 };

/// Time without a commit after which the workers' unused memory is released. With this value a
/// burst of commits finds its pages released at most ten times a second.
pub(crate) const IDLE: Duration = Duration::from_millis(100);

/// Persist steps that had work, between two looks for idle workers: half a second if the thread
/// sleeps after each step. A look costs less than a step, and a burst after a shorter pause finds
/// its memory in place.
const STEPS_BETWEEN_LOOKS: u32 = 1024;

/// The steps that background threads run. Any other thread may run them too.
pub(crate) trait Steps: Send + Sync + 'static {
    /// Runs one persist step.
    fn persist_step(&self) -> Result<Step, Error>;
    /// Runs one reproduce step if enough log is queued for one.
    fn reproduce_if_due(&self) -> Result<Step, Error>;
    /// Runs one reproduce step on all that is queued.
    fn reproduce_step(&self) -> Result<Step, Error>;
    /// Applies one part of a batch that another thread reproduces.
    fn part_step(&self) -> Result<Step, Error>;
    /// Threads that may reproduce at the same time, including the leader.
    fn reproduce_threads(&self) -> usize;
    /// Called once by each background thread before its first step.
    fn enter(&self) {}
    /// The clock that assigns IDs.
    fn clock(&self) -> &AtomicU64;
    /// The last durable ID.
    fn durable(&self) -> u64;
    /// The length of a nap.
    fn pause(&self) -> Duration {
        NAP
    }
    /// The pending group that waits for more transactions, if no other work is left.
    fn waiting(&self) -> Option<Waiting> {
        None
    }
    /// Time without a commit after which the persist thread releases memory of all workers.
    /// `None`: it does not.
    fn idle_time(&self) -> Option<Duration> {
        None
    }
    /// Releases memory that idle workers do not need: all workers, or those without a commit since
    /// the last call.
    fn release_idle(&self, all_idle: bool) {
        let _ = all_idle;
    }
    /// Checks at times that the pool's files keep their names. Called before a persist step, after
    /// a step that had work or a sleep.
    fn check_files(&self) {}
    /// The notifier of the threads.
    fn notifiers(&self) -> &Notifiers;
    /// Whether reproduction has a thread of its own, because its steps sleep in the kernel.
    fn reproduces_apart(&self) -> bool;
    /// The persist threads beside the first.
    fn others(&self) -> Option<Others<'_>> {
        None
    }
}

/// A pending group that waits for more transactions while the persist thread has no other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The last transaction in it.
    pub(crate) last: u64,
    /// Time left to its deadline; `None`: no deadline, it waits until a thread requests it.
    pub(crate) rest: Option<Duration>,
}

/// Persist threads that run only while the first one packs a full group: more work is likely then.
/// They neither nap nor poll after the last commit; the first thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'s> {
    /// Number of these threads.
    pub(crate) threads: usize,
    /// Notified when a group is ready for one of them, and after the pool starts to close.
    pub(crate) more: &'s Event,
}

/// The notifier that wakes background threads.
#[derive(Debug, Default)]
pub(crate) struct Notifiers {
    /// The persist thread sleeps until it is notified.
    asleep: AtomicBool,
    pub(crate) persist: Event,
    reproduce: Event,
    /// Notified when parts of a batch can be claimed.
    parts: Event,
    /// A step has requested reproduction, and the persist thread has not looked for a batch since.
    requested: AtomicBool,
    closing: AtomicBool,
}

impl Notifiers {
    /// Wakes the persist thread if it sleeps. Workers call it after each commit that no thread
    /// waits for.
    #[inline]
    pub(crate) fn committed(&self) {
        // Relaxed: the assignment of the ID orders it; see the module.
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the persist thread for a waiter that does not help. Ends a nap too.
    #[cold]
    pub(crate) fn expedite(&self) {
        self.wake();
    }

    #[cold]
    fn wake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.persist.notify();
    }

    /// Sleeps until the next commit or the timeout, unless a transaction after `last` has
    /// committed. Up to `last` nothing is left to do. `epoch` is that of `persist`, read before the
    /// last step.
    pub(crate) fn sleep(
        &self,
        epoch: u64,
        clock: &AtomicU64,
        last: u64,
        longest: Option<Duration>,
    ) {
        let asleep_last = injected(Mutant::ClockReadBeforeAsleep);
        if !asleep_last {
            self.asleep.store(true, Ordering::Relaxed);
        }
        // AcqRel: Release shows `asleep` to every worker that assigns an ID after this. Acquire
        // shows the workers that assigned one before: a read-modify-write always reads the latest
        // value. See the module.
        let acq_rel = weaken(Ordering::AcqRel, Ordering::Acquire, Mutant::ClockReadWithoutRelease);
        let last_assigned = match injected(Mutant::ClockReadWithoutAddition) {
            true => clock.load(Ordering::Acquire),
            false => clock.fetch_add(0, acq_rel),
        };
        if asleep_last {
            self.asleep.store(true, Ordering::Relaxed);
        }
        if last_assigned == last || injected(Mutant::ClockNotReadBeforeSleep) {
            self.persist.wait(epoch, longest);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Notifies the thread that reproduces: a thread of its own, or the persist thread.
    pub(crate) fn notify_reproduce(&self, own_thread: bool) {
        if own_thread { self.reproduce.notify() } else { self.wake() }
    }

    /// Notifies the thread that reproduces, as a step does whose end makes a batch due. The persist
    /// thread is notified once until it looks for a batch: on memory such a step takes less time
    /// than a notification. A request that it misses is repeated by the next step that finds a
    /// batch due. A thread that waits for log space reproduces itself.
    pub(crate) fn request_reproduce(&self, own_thread: bool) {
        // Relaxed: see above.
        if own_thread || !self.requested.load(Ordering::Relaxed) {
            self.requested.store(true, Ordering::Relaxed);
            self.notify_reproduce(own_thread);
        }
    }

    /// Accepts the requests so far: the caller looks for a batch next.
    fn accept_requests(&self) {
        if self.requested.load(Ordering::Relaxed) {
            self.requested.store(false, Ordering::Relaxed);
        }
    }

    /// Notifies the other reproduce threads of parts that they can claim.
    pub(crate) fn notify_parts(&self) {
        self.parts.notify();
    }

    /// Ends the threads.
    pub(crate) fn close(&self) {
        // Release, then notify: a thread that wakes sees the flag. Pairs with `is_closing`.
        self.closing.store(true, Ordering::Release);
        self.persist.notify();
        self.reproduce.notify();
        self.parts.notify();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// The background threads of one pool.
#[derive(Debug, Default)]
pub(crate) struct Background {
    threads: Vec<thread::JoinHandle<()>>,
}

impl Background {
    /// Starts the threads of a pool.
    ///
    /// # Errors
    /// The system's, if it cannot start one of them. The others end again.
    pub(crate) fn spawn(steps: &Arc<impl Steps>) -> Result<Background, std::io::Error> {
        let mut background = Background::default();
        let started = background.start_all(steps);
        if started.is_err() {
            steps.notifiers().close();
            if let Some(others) = steps.others() {
                others.more.notify();
            }
            std::mem::take(&mut background).join();
        }
        started.map(|()| background)
    }

    fn start_all(&mut self, steps: &Arc<impl Steps>) -> Result<(), std::io::Error> {
        match steps.others() {
            None => self.start("lastword-persist", steps, persist_loop)?,
            Some(Others { threads, .. }) => {
                self.start("lastword-persist-1", steps, persist_loop)?;
                for number in 2..threads + 2 {
                    self.start(&format!("lastword-persist-{number}"), steps, others_loop)?;
                }
            }
        }
        if steps.reproduces_apart() {
            self.start("lastword-reproduce", steps, reproduce_loop)?;
        }
        // The thread that takes the reproduce step leads. These threads apply the parts that it
        // offers.
        for number in 2..=steps.reproduce_threads() {
            self.start(&format!("lastword-reproduce-{number}"), steps, parts_loop)?;
        }
        Ok(())
    }

    fn start<S: Steps>(
        &mut self,
        name: &str,
        steps: &Arc<S>,
        run: impl FnOnce(&S) + Send + 'static,
    ) -> Result<(), std::io::Error> {
        let steps = Arc::clone(steps);
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            steps.enter();
            run(&steps);
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits until the threads end, after [`Notifiers::close`].
    pub(crate) fn join(self) {
        for thread in self.threads {
            // A callback on this thread dropped the pool. A thread cannot join itself; it ends
            // after the callback.
            if thread.thread().id() == thread::current().id() {
                continue;
            }
            // The panic was printed, and the pool is poisoned. The close that follows runs the
            // steps itself and reports the same failure.
            let _ = thread.join();
        }
    }
}

fn persist_loop<S: Steps>(steps: &S) {
    let notifiers = steps.notifiers();
    let (mut idle, mut busy_steps, mut released_at) = (0, 0_u32, None);
    let mut checks = true;
    loop {
        let epoch = notifiers.persist.epoch();
        if notifiers.is_closing() {
            break;
        }
        // Not in each turn: a thread without a pause polls, and each check reads the clock.
        if checks {
            steps.check_files();
        }
        let step = match steps.persist_step() {
            // The pool keeps the error and returns it from every later call. This thread can do no
            // more.
            Err(_) => break,
            Ok(step) => step,
        };
        checks = step != Step::Nothing;
        if checks {
            busy_steps += 1;
            if busy_steps == STEPS_BETWEEN_LOOKS {
                busy_steps = 0;
                steps.release_idle(false);
            }
        }
        // Without a pause, commits come first: durable groups can wait in the log.
        let unpaused = steps.pause().is_zero();
        let mut reproduced = Step::Nothing;
        if !steps.reproduces_apart() && (!unpaused || step != Step::More) {
            notifiers.accept_requests();
            reproduced = match steps.reproduce_if_due() {
                Err(_) => break,
                Ok(step) => step,
            };
        }
        if step == Step::More || (step, reproduced) == (Step::LogFull, Step::Done) {
            idle = 0;
            continue;
        }
        idle = if step == Step::Nothing { idle + 1 } else { 0 };
        // Without a pause the thread polls, except while the device or another thread must act
        // first.
        let is_held_up = matches!(step, Step::HeldBack | Step::LogFull);
        let (pause, looks) = match unpaused {
            true => (NAP, !is_held_up),
            false => (steps.pause(), false),
        };
        if looks && idle <= IDLE_LOOKS {
            // The thread that holds the step may need this very core.
            if step == Step::Busy {
                thread::yield_now()
            } else {
                spin_loop()
            }
            continue;
        }
        if !looks && idle <= IDLE_NAPS {
            notifiers.persist.wait(epoch, Some(pause));
            continue;
        }
        sleep(steps, epoch, &mut released_at);
        (idle, checks) = (0, true);
    }
}

/// Sleeps until the next commit or the deadline of a pending group. Releases memory of idle workers
/// if neither comes for a while.
fn sleep<S: Steps>(steps: &S, epoch: u64, released_at: &mut Option<u64>) {
    // A pending group remains. The next commit may fill it, and a waiter closes it or wakes this
    // thread.
    let durable = || Waiting { last: steps.durable(), rest: None };
    let Waiting { last, rest } = steps.waiting().unwrap_or_else(durable);
    // Not at once: a worker whose pauses are short would fault its pages in after each of them.
    let idle_time = steps.idle_time().filter(|_| *released_at != Some(last));
    let longest = rest.into_iter().chain(idle_time).min();
    steps.notifiers().sleep(epoch, steps.clock(), last, longest);
    // Relaxed: memory that is released in vain costs time and loses nothing.
    if longest != rest && steps.clock().load(Ordering::Relaxed) == last {
        steps.release_idle(true);
        *released_at = Some(last);
    }
}

fn others_loop<S: Steps>(steps: &S) {
    let Some(Others { more, .. }) = steps.others() else { return };
    loop {
        let epoch = more.epoch();
        if steps.notifiers().is_closing() {
            break;
        }
        match steps.persist_step() {
            Err(_) => break,
            Ok(Step::More) => {}
            // Sleep also after a group that was not full. The next group grows while the first
            // thread naps, and the thread that takes off a full group notifies `more`.
            Ok(_) => more.wait(epoch, None),
        }
    }
}

fn reproduce_loop<S: Steps>(steps: &S) {
    let notifiers = steps.notifiers();
    loop {
        let epoch = notifiers.reproduce.epoch();
        if notifiers.is_closing() {
            break;
        }
        match steps.reproduce_if_due() {
            Err(_) => break,
            Ok(Step::Done) => {}
            Ok(_) => notifiers.reproduce.wait(epoch, None),
        }
    }
}

fn parts_loop<S: Steps>(steps: &S) {
    let notifiers = steps.notifiers();
    loop {
        let epoch = notifiers.parts.epoch();
        if notifiers.is_closing() {
            break;
        }
        match steps.part_step() {
            Err(_) => break,
            Ok(Step::Done) => {}
            Ok(_) => notifiers.parts.wait(epoch, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Steps without work, which report each release.
    struct Idle {
        notifiers: Notifiers,
        clock: AtomicU64,
        released: Sender<bool>,
    }

    impl Steps for Idle {
        fn persist_step(&self) -> Result<Step, Error> {
            Ok(Step::Nothing)
        }
        fn reproduce_if_due(&self) -> Result<Step, Error> {
            Ok(Step::Nothing)
        }
        fn reproduce_step(&self) -> Result<Step, Error> {
            Ok(Step::Nothing)
        }
        fn part_step(&self) -> Result<Step, Error> {
            Ok(Step::Nothing)
        }
        fn reproduce_threads(&self) -> usize {
            1
        }
        fn clock(&self) -> &AtomicU64 {
            &self.clock
        }
        fn durable(&self) -> u64 {
            self.clock.load(Ordering::Relaxed)
        }
        fn idle_time(&self) -> Option<Duration> {
            Some(Duration::from_millis(1))
        }
        fn release_idle(&self, all_idle: bool) {
            self.released.send(all_idle).expect("the test waits");
        }
        fn notifiers(&self) -> &Notifiers {
            &self.notifiers
        }
        fn reproduces_apart(&self) -> bool {
            false
        }
    }

    /// Waits until the thread sleeps, with or without a timeout.
    fn wait_for_sleep(steps: &Idle) {
        while !steps.notifiers.asleep.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }

    fn release(released: &Receiver<bool>) -> bool {
        released.recv_timeout(Duration::from_secs(60)).expect("an idle thread releases memory")
    }

    #[test]
    fn idle_persist_thread_releases_memory_once() {
        let (sender, released) = channel();
        let (notifiers, clock) = (Notifiers::default(), AtomicU64::new(7));
        let steps = Arc::new(Idle { notifiers, clock, released: sender });
        let background = Background::spawn(&steps).expect("the thread is spawned");
        assert!(release(&released), "all workers are idle");
        for _ in 0..20 {
            steps.notifiers.expedite();
            wait_for_sleep(&steps);
        }
        assert!(released.try_recv().is_err(), "no worker has committed since the release");
        steps.clock.fetch_add(1, Ordering::Relaxed);
        steps.notifiers.committed();
        assert!(release(&released));
        steps.notifiers.close();
        background.join();
    }
}
