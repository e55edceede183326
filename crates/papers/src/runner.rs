//! The interface between the harness and the program that measures.
//!
//! The harness plans commands as arguments of `lastword run`; the program parses them, runs them
//! and returns the measurements. The dependency points from the program to this crate, so a plan
//! names designs, media and workloads only as text.

use crate::error::Error;
use crate::trial::Trial;

/// A trial that the harness asks for.
#[derive(Clone, Copy, Debug)]
pub struct TrialRequest<'a> {
    /// Arguments of `lastword run`.
    pub command: &'a str,
    /// Arguments of the `lastword run` that creates the pool of this trial. Trials that name the
    /// same command share the pool. Without one the trial runs on a fresh pool.
    pub pool: Option<&'a str>,
    /// Seed of the shared pool, which stays the same over rounds.
    pub pool_seed: u64,
    /// Seed of the clients.
    pub seed: u64,
    /// Whether the workload's own check runs after the trial.
    pub check: bool,
}

/// The result of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TrialResult {
    /// The measurements.
    pub trial: Trial,
    /// Whether the check held; true where none ran. The program reports violations itself.
    pub held: bool,
}

/// A program that runs trials and shows progress.
pub trait Runner {
    /// The program's own error.
    type Error: From<Error>;

    /// Runs one trial.
    ///
    /// # Errors
    /// The trial could not run.
    ///
    /// # Panics
    /// The command is not one of `lastword run`: a bug in a plan.
    fn run(&mut self, request: TrialRequest<'_>) -> Result<TrialResult, Self::Error>;

    /// Begins to show the progress of `length` steps named `doing`.
    fn progress(&self, doing: &'static str, length: u64) -> Box<dyn Progress>;
}

/// Progress of one long piece of work. Threads share it.
pub trait Progress: Sync {
    /// Names the current step.
    fn begins(&self, step: &str);

    /// Counts a completed step.
    fn inc(&self);

    /// Shows that the current step still runs.
    fn alive(&self);

    /// Ends the display.
    fn finish(&self);
}
