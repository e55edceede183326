//! The threads behind: they only call steps, in a loop, and sleep when there is nothing to do.
//!
//! | state | until | costs |
//! |---|---|---|
//! | working | a step has nothing to do | |
//! | napping | its pause is over, the pool closes | 2 000 wake-ups a second with [`NAP`] |
//! | looking | there is something, if it has no pause | a core |
//! | asleep | the next commit, or the time of a group is over that waits for more | nothing |
//!
//! A worker wakes a sleeping thread with one load a commit. Neither can miss the other: the thread
//! first says that it sleeps and then looks at the clock with a locked instruction, the worker
//! first draws its ID with a locked instruction and then looks whether the thread sleeps. The
//! two locked instructions on the clock have an order: the later one sees what came before the
//! other.

use std::time::Duration;

use super::{Event, Step};
use crate::Error;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, spin_loop, thread};

/// Pause between groups when nobody waits: larger groups cost fewer barriers, and a commit is
/// durable soon. Chosen: 2 000 groups a second leave the device and a core their time.
pub(crate) const NAP: Duration = Duration::from_micros(500);

/// Naps without work before a thread goes to sleep.
const IDLE_NAPS: u32 = 4;

/// Looks without work before a thread that does not nap goes to sleep: some milliseconds. In a
/// model each is a step of the schedule.
const IDLE_LOOKS: u32 = if cfg!(test) { 2 } else { 50_000 };

/// What the background threads call. Any other thread may call the same.
pub(crate) trait Steps: Send + Sync + 'static {
    /// Runs one persist step.
    fn persist_step(&self) -> Result<Step, Error>;
    /// Runs one reproduce step, if enough has come together for one.
    fn reproduce_if_due(&self) -> Result<Step, Error>;
    /// Runs one reproduce step on whatever there is.
    fn reproduce_step(&self) -> Result<Step, Error>;
    /// Brings one part home of what another thread reproduces.
    fn part_step(&self) -> Result<Step, Error>;
    /// Threads that may reproduce at the same time, who leads included.
    fn reproduce_threads(&self) -> usize;
    /// Called once by each background thread before its first step.
    fn enter(&self) {}
    /// The clock that IDs are drawn from.
    fn clock(&self) -> &AtomicU64;
    /// The last durable ID.
    fn durable(&self) -> u64;
    /// How long a nap is.
    fn pause(&self) -> Duration {
        NAP
    }
    /// The group that waits for more transactions, if nothing else is left to do.
    fn waiting(&self) -> Option<Waiting> {
        None
    }
    /// Where the threads are woken.
    fn bells(&self) -> &Bells;
    /// Whether reproduce steps want a thread of their own: they sleep in the kernel.
    fn reproduces_apart(&self) -> bool;
    /// The persist threads beside the first.
    fn others(&self) -> Option<Others<'_>> {
        None
    }
}

/// A group that waits for more transactions, with nothing to do until they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The last transaction in it.
    pub(crate) last: u64,
    /// When it waits no longer; `None`: it waits for as long as nobody does.
    pub(crate) rest: Option<Duration>,
}

/// Persist threads that only come when the first is busy with a full group: then there is likely
/// more. They neither nap nor look after the last commit; the first does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'s> {
    /// How many.
    pub(crate) threads: usize,
    /// Happens when there is a group for one of them, and after the pool said that it closes.
    pub(crate) more: &'s Event,
}

/// How background threads are woken.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// The persist thread sleeps until it is rung.
    asleep: AtomicBool,
    pub(crate) persist: Event,
    reproduce: Event,
    /// Parts of what is reproduced can be claimed.
    parts: Event,
    closing: AtomicBool,
}

impl Bells {
    /// Called by a worker after each commit that nobody waits for.
    #[inline]
    pub(crate) fn committed(&self) {
        // Relaxed: the drawing of the ID ordered it; see the module.
        if self.asleep.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Called when somebody waits who cannot help, or does not: ends a nap too.
    #[cold]
    pub(crate) fn hurry(&self) {
        self.ring();
    }

    #[cold]
    fn ring(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        self.persist.notify();
    }

    /// Sleeps until the next commit, or for so long, unless something is committed after `last`, up
    /// to which nothing is to be done. `epoch` is that of `persist`, read before the last step.
    pub(crate) fn sleep(
        &self,
        epoch: u64,
        clock: &AtomicU64,
        last: u64,
        longest: Option<Duration>,
    ) {
        self.asleep.store(true, Ordering::Relaxed);
        // AcqRel: Release shows `asleep` to whoever draws after this; Acquire and the fact that an
        // addition always sees the latest value show whoever drew before. See the module.
        let last_drawn = clock.fetch_add(0, Ordering::AcqRel);
        if last_drawn == last {
            self.persist.wait(epoch, longest);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Enough has come together to be reproduced, by a thread of its own or by the persist thread.
    pub(crate) fn reproduce_is_due(&self, own_thread: bool) {
        if own_thread { self.reproduce.notify() } else { self.ring() }
    }

    /// Who reproduces has parts that others can claim.
    pub(crate) fn part_is_there(&self) {
        self.parts.notify();
    }

    /// The pool closes: the threads end.
    pub(crate) fn close(&self) {
        // Release and then notify: a thread that wakes sees it. Pairs with `is_closing`.
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
    /// Starts them.
    pub(crate) fn spawn(steps: &Arc<impl Steps>) -> Result<Background, std::io::Error> {
        let mut background = Background::default();
        let started = background.start_all(steps);
        if started.is_err() {
            steps.bells().close();
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
        // Whoever reproduces leads; these others bring home what it deals out.
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

    /// Waits for their end; the bells have said that the pool closes.
    pub(crate) fn join(self) {
        for thread in self.threads {
            // A callback that dropped the pool: this thread ends when it is through with it.
            if thread.thread().id() == thread::current().id() {
                continue;
            }
            // A step that panicked has left the pool unable to go on; the panic was printed, and
            // the close that follows runs the steps itself and meets the same.
            let _ = thread.join();
        }
    }
}

fn persist_loop<S: Steps>(steps: &S) {
    let bells = steps.bells();
    let mut idle = 0;
    loop {
        let epoch = bells.persist.epoch();
        if bells.is_closing() {
            break;
        }
        let step = match steps.persist_step() {
            // An error is kept by the pool and told to every later call; nothing is left to do
            // here.
            Err(_) => break,
            Ok(step) => step,
        };
        // Without a pause what is committed comes first, and what is durable waits in the log.
        let unpaused = steps.pause().is_zero();
        let mut reproduced = Step::Nothing;
        if !steps.reproduces_apart() && (!unpaused || step != Step::More) {
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
        // Without a pause it looks on, but for what the device or the other thread has to do first.
        let is_held_up = matches!(step, Step::Deep | Step::LogFull);
        let (pause, looks) = match unpaused {
            true => (NAP, !is_held_up),
            false => (steps.pause(), false),
        };
        if looks && idle <= IDLE_LOOKS {
            // Who is at it may be waiting for this very core.
            if step == Step::Busy {
                thread::yield_now()
            } else {
                spin_loop()
            }
            continue;
        }
        if !looks && idle <= IDLE_NAPS {
            bells.persist.wait(epoch, Some(pause));
            continue;
        }
        // A group that waits: the next commit may fill it, and whoever waits for it closes it or
        // rings.
        let durable = || Waiting { last: steps.durable(), rest: None };
        let Waiting { last, rest } = steps.waiting().unwrap_or_else(durable);
        bells.sleep(epoch, steps.clock(), last, rest);
        idle = 0;
    }
}

fn others_loop<S: Steps>(steps: &S) {
    let Some(Others { more, .. }) = steps.others() else { return };
    loop {
        let epoch = more.epoch();
        if steps.bells().is_closing() {
            break;
        }
        match steps.persist_step() {
            Err(_) => break,
            Ok(Step::More) => {}
            // Also after a group that was not full: the next is to grow while the first thread
            // naps, and whoever takes off a full one calls.
            Ok(_) => more.wait(epoch, None),
        }
    }
}

fn reproduce_loop<S: Steps>(steps: &S) {
    let bells = steps.bells();
    loop {
        let epoch = bells.reproduce.epoch();
        if bells.is_closing() {
            break;
        }
        match steps.reproduce_if_due() {
            Err(_) => break,
            Ok(Step::Done) => {}
            Ok(_) => bells.reproduce.wait(epoch, None),
        }
    }
}

fn parts_loop<S: Steps>(steps: &S) {
    let bells = steps.bells();
    loop {
        let epoch = bells.parts.epoch();
        if bells.is_closing() {
            break;
        }
        match steps.part_step() {
            Err(_) => break,
            Ok(Step::Done) => {}
            Ok(_) => bells.parts.wait(epoch, None),
        }
    }
}
