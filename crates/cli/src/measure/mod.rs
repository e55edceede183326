//! `lastword measure`: baselines for other figures. Each is a file that begins with its question.

mod disk;
mod reproduce;

use serde::Serialize;

use crate::args::MeasureCommand;
use crate::failure::{Failure, Verdict};
use crate::machine::{self, Machine};

/// The machine and commit of a measurement.
#[derive(Debug, Serialize)]
struct Origin {
    machine: Machine,
    commit: Option<&'static str>,
}

impl Origin {
    fn this() -> Origin {
        Origin { machine: Machine::this(), commit: machine::commit() }
    }

    fn show(&self) -> String {
        let Machine { cpu, cores } = &self.machine;
        format!("{cpu}, {cores} cores; commit {}", self.commit.unwrap_or("unknown"))
    }
}

/// Runs the measurement and prints the report.
///
/// # Errors
/// A file or pool cannot be created or written, or a transaction fails.
pub(crate) fn run(command: &MeasureCommand) -> Result<Verdict, Failure> {
    match command {
        MeasureCommand::Disk(arguments) => disk::run(arguments)?,
        MeasureCommand::Reproduce(arguments) => reproduce::run(arguments)?,
    }
    Ok(Verdict::Held)
}
