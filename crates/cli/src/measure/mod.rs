//! `lastword measure`: what other figures are judged by, each in a file of its own that begins with
//! the question it answers.

mod disk;
mod reproduce;

use serde::Serialize;

use crate::args::MeasureCommand;
use crate::failure::{Failure, Verdict};
use crate::machine::{self, Machine};

/// Where it was measured, and from which source.
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

/// Measures and prints the answer.
///
/// # Errors
/// What kept it from being measured.
pub(crate) fn run(command: &MeasureCommand) -> Result<Verdict, Failure> {
    match command {
        MeasureCommand::Disk(arguments) => disk::run(arguments)?,
        MeasureCommand::Reproduce(arguments) => reproduce::run(arguments)?,
    }
    Ok(Verdict::Held)
}
