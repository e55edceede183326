//! A trace: a failing execution in one line, as its case and its choices.
//!
//! ```text
//!   design=decoupled workload=cells medium=file choices=0*12,1,0*3,2
//! ```
//!
//! `0*12` is twelve times 0. The meaning of the choices depends on the program. A trace belongs to
//! the commit that it was found at, and a regression trace says in a comment what it tests.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{BadCase, Case, Picker, Policy, Prepared, Report, choices};

/// An execution of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The case.
    pub case: Case,
    /// The choices, in order; the quiet policy follows.
    pub choices: Vec<u16>,
}

/// A line that is not a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadTrace {
    /// A part of the case is invalid.
    #[error(transparent)]
    Case(#[from] BadCase),
    /// A choice is not a number.
    #[error(
        "`{choice}` is not a choice: a trace ends with choices= and numbers, or number*times, with \
         commas between"
    )]
    Choice {
        /// The choice.
        choice: String,
    },
    /// The case names an unknown design or workload.
    #[error("no such design or workload: {case}; see `lastword crash explore --help`")]
    Unknown {
        /// The case.
        case: String,
    },
    /// The case's initial pool cannot be made.
    #[error("{0}")]
    Prepare(#[from] lastword::Error),
}

impl Trace {
    /// Runs this execution again; returns its report, and its events, a line each.
    ///
    /// # Errors
    /// [`BadTrace::Unknown`], [`BadTrace::Prepare`].
    pub fn replay(&self) -> Result<(Report, Vec<String>), BadTrace> {
        let prepared = Prepared::new(&self.case)
            .ok_or_else(|| BadTrace::Unknown { case: self.case.to_string() })??;
        let picker = Picker::new(self.choices.clone(), Policy::AllOld).recording();
        let (report, picker) = prepared.run(&self.case, picker);
        Ok((report, picker.events().to_vec()))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} choices=", self.case)?;
        choices::write(f, &self.choices)
    }
}

impl FromStr for Trace {
    type Err = BadTrace;

    fn from_str(line: &str) -> Result<Trace, BadTrace> {
        // Skip the comments of a trace file.
        let line = line.lines().map(str::trim).find(|line| !line.starts_with('#')).unwrap_or("");
        let (case, choices) = line
            .rsplit_once("choices=")
            .ok_or_else(|| BadTrace::Choice { choice: line.to_owned() })?;
        let case = case.parse()?;
        let choices = choices::parse(choices)
            .map_err(|choice| BadTrace::Choice { choice: choice.to_owned() })?;
        Ok(Trace { case, choices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MediumModel;

    #[test]
    fn trace_round_trips_as_a_line() {
        let case = Case::new("decoupled", "cells", MediumModel::File);
        for choices in [vec![], vec![1], vec![0, 0, 0, 2, 1, 1], vec![7; 1000]] {
            let trace = Trace { case: case.clone(), choices };
            assert_eq!(trace.to_string().parse::<Trace>().unwrap(), trace, "{trace}");
        }
        let commented = "# why\ndesign=decoupled workload=cells medium=file choices=0*2,1";
        assert_eq!(commented.parse::<Trace>().unwrap().choices, [0, 0, 1]);
        for bad in [
            "",
            "workload=bank",
            "choices=x",
            "choices=1*y",
            "choices=0*99999999999",
            "colour=red choices=",
        ] {
            assert!(bad.parse::<Trace>().is_err(), "{bad}");
        }
    }
}
