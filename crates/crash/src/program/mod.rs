//! Crash tests of a program that uses Lastword: the explorer that a user's crate has as its one
//! dev-dependency.
//!
//! ```text
//!   Explorer (steps, invariants) --> explore: which executions? --> boots: one execution
//!                                       |                             |      |
//!                                       v                             v      v
//!                               shortest failure, trace           process   world
//!                                                              (pool, state) (notes)
//! ```
//!
//! The program is the user's own code, with the library's public interface. It runs on the recorded
//! machine of `faults`, below the pool, so the bytes after a crash are those that the library's own
//! crash tests explore. The steps of one worker run in order, and those of several workers in every
//! order that the search picks. A transaction never runs beside another: the library's own tests
//! cover conflicts, and a body has no effect before it commits.
//!
//! The parts are not generic over the user's closures. A pool of one design and the user's state
//! are behind trait objects, so a test compiles its own code and little more. Only this module and
//! the picker are compiled for a user; the feature `explorer` adds the library's own tests.
//!
//! | file | content |
//! |---|---|
//! | `mod` | the builder |
//! | `world` | the notes of replies and messages |
//! | `process` | a pool of any design, and the state of the program |
//! | `boots` | one execution: boots, steps, power failures, checks |
//! | `explore` | the search, and the shortening of a failure |
//! | `line` | a failing execution in one line |
//! | `failure` | the report |
//! | `caught` | panics of the program |
//!
//! Invariants:
//! - Equal choices give equal executions. A program that breaks that is reported, not explored.
//! - Each execution begins with the bytes that the set-up left, which are durable.

mod boots;
mod caught;
mod explore;
mod failure;
mod line;
mod process;
mod world;

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use lastword::{Design, Medium, Options, Pool};
use medium::sync::Arc;

use boots::{Place, Selected};
use process::{Opener, Typed};

pub use failure::{Cause, Failure};
pub use world::World;

/// The environment variable with the trace of the one execution to run.
const VARIABLE: &str = "LASTWORD_CRASH_TRACE";

/// Default limit of executions: about 2 s for a small program without optimization (`shop`).
const EXECUTIONS: u64 = 1000;

/// The result of a step, the set-up or an invariant: `?` takes errors of any type.
pub type StepResult = Result<(), Box<dyn StdError>>;

type Call = Box<dyn Fn(&mut dyn Any, &World) -> StepResult>;

/// A part of the program with a name.
struct Named {
    name: String,
    call: Call,
}

struct Worker {
    name: String,
    steps: Vec<Named>,
}

/// The program and the limits, without the type of the program's state.
struct Plan {
    opener: Box<dyn Opener>,
    set_up: Option<Call>,
    workers: Vec<Worker>,
    invariants: Vec<Named>,
    adjust: Box<dyn Fn(Options) -> Options>,
    medium: Medium,
    crashes: usize,
    repeats: bool,
    executions: u64,
    time: Option<Duration>,
    seed: u64,
}

impl Plan {
    /// Selects every step.
    fn all(&self) -> Selected {
        self.workers.iter().map(|worker| (0..worker.steps.len()).collect()).collect()
    }

    /// Returns the name of a part of an execution.
    fn name(&self, place: Place) -> String {
        match place {
            Place::Start => "start".to_owned(),
            Place::Step { worker, step } => {
                let Worker { name, steps } = &self.workers[worker];
                let step = &steps[step].name;
                if name.is_empty() { step.clone() } else { format!("{name}: {step}") }
            }
            Place::Background(step) => step.to_owned(),
            Place::Close => "close".to_owned(),
        }
    }
}

/// Explores the power failures of a program.
///
/// `S` is the program's state in memory. Each boot makes it anew, as a process does when it starts.
/// A state that is the pool itself does for programs that keep nothing.
///
/// ```
/// use lastword::collections::HashMap;
/// use lastword_crash::Explorer;
///
/// Explorer::new(|pool, _| Ok(pool))
///     .step("register ann", |pool, world| {
///         let users: HashMap<str, u64> = pool.named("users")?;
///         pool.run(|tx| users.put(tx, "ann", 7))?.ticket.wait()?;
///         world.show("ann is registered");
///         Ok(())
///     })
///     .invariant("registered users are there", |pool, world| {
///         let users: HashMap<str, u64> = pool.named("users")?;
///         let number = pool.run(|tx| users.get(tx, "ann"))?.value;
///         assert!(number.is_some() || world.shown::<&str>().is_empty());
///         Ok(())
///     })
///     .run();
/// ```
///
/// # Limits
/// A step runs in the thread of the test, and the pool has no threads of its own. Waiting for a
/// ticket, flushing and closing work. A step must not wait for a callback or for another thread. It
/// must do the same each time that it runs: no clock, no random numbers. The explorer compares
/// executions, and names a step that differs.
#[must_use = "an explorer does nothing until `run` or `explore`"]
pub struct Explorer<S> {
    plan: Plan,
    state: PhantomData<fn(S)>,
}

impl<S> fmt::Debug for Explorer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.plan.workers.iter().flat_map(|worker| &worker.steps);
        let names: Vec<&String> = steps.map(|step| &step.name).collect();
        f.debug_struct("Explorer").field("steps", &names).finish_non_exhaustive()
    }
}

impl<S: 'static> Explorer<S> {
    /// Makes an explorer of a program, whose state `start` makes from an open pool. It runs at each
    /// boot, so it includes the program's recovery.
    pub fn new(
        start: impl Fn(Arc<Pool>, &World) -> Result<S, Box<dyn StdError>> + 'static,
    ) -> Explorer<S> {
        Explorer::new_as(start)
    }

    /// The same for pools of any durable design.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use lastword::{Allocate, Pool, Snapshot};
    /// use lastword_crash::Explorer;
    ///
    /// Explorer::new_as(|pool: Arc<Pool<Snapshot>>, _| Ok(pool))
    ///     .step("write", |pool, _| Ok(pool.run(|tx| tx.set_root(7)).map(drop)?))
    ///     .run();
    /// ```
    ///
    /// # Panics
    /// If the design is not durable.
    pub fn new_as<D: Design>(
        start: impl Fn(Arc<Pool<D>>, &World) -> Result<S, Box<dyn StdError>> + 'static,
    ) -> Explorer<S> {
        assert!(D::DURABLE, "design `{}` keeps nothing after a crash", D::NAME);
        let start = move |pool: Arc<Pool<D>>, world: &World| {
            Ok(Box::new(start(pool, world)?) as Box<dyn Any>)
        };
        let plan = Plan {
            opener: Box::new(Typed::<D>(Box::new(start))),
            set_up: None,
            workers: Vec::new(),
            invariants: Vec::new(),
            adjust: Box::new(|options| options),
            medium: Medium::File,
            crashes: 2,
            repeats: false,
            executions: EXECUTIONS,
            time: None,
            seed: 1,
        };
        Explorer { plan, state: PhantomData }
    }

    /// Sets the set-up. It runs once, without power failures, and all that it commits is durable.
    pub fn set_up(
        mut self,
        set_up: impl Fn(&mut S, &World) -> StepResult + 'static,
    ) -> Explorer<S> {
        self.plan.set_up = Some(call(set_up));
        self
    }

    /// Adds a worker: the following steps are its own. The steps of several workers run in every
    /// order that keeps each worker's own. A program with one worker needs no call.
    pub fn worker(mut self, name: impl Into<String>) -> Explorer<S> {
        self.plan.workers.push(Worker { name: name.into(), steps: Vec::new() });
        self
    }

    /// Adds a step to the last worker. After a power failure the program starts again and goes on
    /// with the next step; see [`repeat_interrupted`](Explorer::repeat_interrupted).
    pub fn step(
        mut self,
        name: impl Into<String>,
        step: impl Fn(&mut S, &World) -> StepResult + 'static,
    ) -> Explorer<S> {
        if self.plan.workers.is_empty() {
            self = self.worker("");
        }
        let worker = self.plan.workers.last_mut().expect("there is a worker");
        worker.steps.push(Named { name: name.into(), call: call(step) });
        self
    }

    /// Adds an invariant: it holds after the set-up, after each start that follows a crash, and at
    /// the end. It compares the pool with itself and with the [notes](World::shown). It fails by
    /// an error or by a panic, as of `assert_eq!`. It must not write to the pool.
    pub fn invariant(
        mut self,
        name: impl Into<String>,
        check: impl Fn(&mut S, &World) -> StepResult + 'static,
    ) -> Explorer<S> {
        self.plan.invariants.push(Named { name: name.into(), call: call(check) });
        self
    }

    /// Changes the pool's options. The given ones have a heap of 256 KiB and a log of 128 KiB (1
    /// MiB for `snapshot`, `undo` and `redo`): a larger pool makes every execution slower. The
    /// explorer sets the medium and the system, and starts no threads.
    pub fn options(mut self, change: impl Fn(Options) -> Options + 'static) -> Explorer<S> {
        self.plan.adjust = Box::new(change);
        self
    }

    /// Sets the medium. Default [`Medium::File`].
    ///
    /// # Panics
    /// For [`Medium::Emulated`], which survives no power failure.
    pub fn medium(mut self, medium: Medium) -> Explorer<S> {
        let is_emulated = matches!(medium, Medium::Emulated { .. });
        assert!(!is_emulated, "medium `{}` survives no power failure", medium.name());
        self.plan.medium = medium;
        self
    }

    /// Sets the limit of power failures in an execution. Default 2, so that the power also fails
    /// while the pool recovers, and while the program starts again.
    pub fn power_failures(mut self, crashes: usize) -> Explorer<S> {
        self.plan.crashes = crashes;
        self
    }

    /// Runs a step again that a power failure has interrupted, as for a client that repeats its
    /// request until it has the reply. Default: the program goes on with the next step.
    pub fn repeat_interrupted(mut self) -> Explorer<S> {
        self.plan.repeats = true;
        self
    }

    /// Sets the limit of executions. Default 1000. A failure that is found is then shortened, in up
    /// to 4000 more.
    pub fn executions(mut self, executions: u64) -> Explorer<S> {
        self.plan.executions = executions;
        self
    }

    /// Sets a limit of time. Default none, so that each run explores the same executions.
    pub fn time(mut self, time: Duration) -> Explorer<S> {
        self.plan.time = Some(time);
        self
    }

    /// Sets the seed of the random executions. Default 1.
    pub fn seed(mut self, seed: u64) -> Explorer<S> {
        self.plan.seed = seed;
        self
    }

    /// [Explores](Explorer::explore), and prints the counts.
    ///
    /// # Panics
    /// On a failure, with its report.
    pub fn run(&self) {
        match self.explore() {
            Ok(explored) => println!("{explored}"),
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Explores; returns the counts, or the failure. If the environment variable
    /// `LASTWORD_CRASH_TRACE` has a trace of this explorer, only that execution runs.
    ///
    /// # Errors
    /// The first failure found, shortened.
    pub fn explore(&self) -> Result<Explored, Box<Failure>> {
        if let Ok(trace) = std::env::var(VARIABLE) {
            if let Some(replayed) = explore::replay(&self.plan, &trace) {
                return replayed;
            }
            eprintln!("{VARIABLE} is of another explorer: exploring");
        }
        explore::explore(&self.plan)
    }

    /// Runs the one execution of a trace.
    ///
    /// # Errors
    /// Its failure.
    ///
    /// # Panics
    /// If the trace is of another program: of other steps, another design or other options.
    pub fn replay(&self, trace: &str) -> Result<Explored, Box<Failure>> {
        let replayed = explore::replay(&self.plan, trace);
        replayed.unwrap_or_else(|| panic!("not a trace of this explorer: {trace}"))
    }
}

fn call<S: 'static>(call: impl Fn(&mut S, &World) -> StepResult + 'static) -> Call {
    Box::new(move |state, world| {
        call(state.downcast_mut().expect("the state that `start` has made"), world)
    })
}

/// The counts of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// Executions.
    pub executions: u64,
    /// Points of the plain execution at which the power may fail.
    pub crash_points: u64,
    /// Power failures, over all executions.
    pub power_failures: u64,
    /// Different contents of the medium that recovery has left.
    pub states: u64,
    /// Power failures that kept all transactions that were committed and not yet durable.
    pub kept: u64,
    /// Power failures that lost some of those.
    pub lost: u64,
    /// Executions with one power failure that the limits left out.
    pub skipped: u64,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explored { executions, crash_points, power_failures, states, kept, lost, skipped } =
            self;
        write!(
            f,
            "explored: {executions} executions, {crash_points} crash points, {power_failures} \
             power failures, {states} states; unacknowledged transactions kept {kept} times, lost \
             {lost} times"
        )?;
        match skipped {
            0 => Ok(()),
            _ => write!(
                f,
                "\n{skipped} executions with one power failure were not run: raise `executions`"
            ),
        }
    }
}
