//! Errors of simulations.

use std::path::PathBuf;

use thiserror::Error;
use words::Stop;

use crate::machine::named::DescribeError;
use crate::program::Ended;

/// The largest heap: its lines, and those of designs after it, have 32-bit numbers.
pub const HEAP_BYTES_MAX: u64 = 64 << 30;

/// A reason why a simulation failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No core can continue.
    #[error("deadlock at cycle {cycle}: {waits}")]
    Deadlock {
        /// The time of the last event.
        cycle: u64,
        /// The reason for each core's wait.
        waits: String,
    },
    /// The design does not exist.
    #[error("there is no design `{name}`; there are: {known}")]
    NoDesign {
        /// The name.
        name: String,
        /// The existing designs.
        known: String,
    },
    /// The trace of requests cannot be written.
    #[error("cannot write the trace {}: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The design does not support the machine.
    #[error("`{design}` cannot run on the machine `{machine}`: {problem}")]
    Misfit {
        /// The design's name.
        design: &'static str,
        /// The machine's.
        machine: String,
        /// The requirement that the machine violates.
        problem: &'static str,
    },
    /// Power cuts were requested for a design that makes nothing durable.
    #[error("`{design}` makes nothing durable: cut power under another design")]
    NothingDurable {
        /// The design's name.
        design: &'static str,
    },
    /// The program's heap exceeds the machine's line numbers.
    #[error(
        "{program} takes {gib} GiB, of at most {}: give it a smaller scale",
        HEAP_BYTES_MAX >> 30
    )]
    TooLarge {
        /// The program's name.
        program: String,
        /// The size of its heap.
        gib: u64,
    },
    /// The machine is invalid.
    #[error(transparent)]
    Description(#[from] DescribeError),
    /// The program failed to load or to check its data.
    #[error(transparent)]
    Program(#[from] Ended),
    /// The design failed.
    #[error("the design failed: {why}")]
    Failed {
        /// The reason, and the remedy.
        why: &'static str,
    },
    /// A transaction failed.
    #[error("a transaction ended with: {stop}")]
    Stopped {
        /// The reason.
        stop: Stop,
    },
}
