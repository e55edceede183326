//! What can go wrong in a simulation.

use std::path::PathBuf;

use thiserror::Error;
use words::Stop;

use crate::machine::describe::DescribeError;
use crate::program::Ended;

/// Bytes of a heap at most: its lines, and what designs keep behind them, are numbered by 32 bits.
pub const HEAP_BYTES_MAX: u64 = 64 << 30;

/// Why a simulation could not be done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody can go on.
    #[error("deadlock at cycle {cycle}: {waits}")]
    Deadlock {
        /// When the last thing happened.
        cycle: u64,
        /// What each core waits for.
        waits: String,
    },
    /// There is no such design.
    #[error("there is no design `{name}`; there are: {known}")]
    NoDesign {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The trace of requests could not be written.
    #[error("cannot write the trace {}: {source}", path.display())]
    Trace {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The design cannot run on the machine.
    #[error("`{design}` cannot run on the machine `{machine}`: {problem}")]
    Misfit {
        /// The design's name.
        design: &'static str,
        /// The machine's.
        machine: String,
        /// What must be otherwise.
        problem: &'static str,
    },
    /// Power was to be cut under a design that makes nothing durable.
    #[error("`{design}` makes nothing durable: cut power under another design")]
    NothingDurable {
        /// The design's name.
        design: &'static str,
    },
    /// The program's data have more lines than the machine can number.
    #[error(
        "{program} takes {gib} GiB, of at most {}: give it a smaller scale",
        HEAP_BYTES_MAX >> 30
    )]
    TooLarge {
        /// The program's name.
        program: String,
        /// What its heap takes.
        gib: u64,
    },
    /// The machine cannot be.
    #[error(transparent)]
    Description(#[from] DescribeError),
    /// The program could not be loaded or checked.
    #[error(transparent)]
    Program(#[from] Ended),
    /// The design could not go on.
    #[error("the design cannot go on: {why}")]
    Failed {
        /// Why, and what to do.
        why: &'static str,
    },
    /// A transaction could not be done.
    #[error("a transaction ended with: {stop}")]
    Stopped {
        /// What it ended with.
        stop: Stop,
    },
}
