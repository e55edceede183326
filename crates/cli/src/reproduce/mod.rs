//! `lastword reproduce`: a paper's tables and figures beside the published numbers.
//!
//! The `papers` crate plans and judges; [`runner`] runs the trials that it asks for.

mod runner;

use papers::Request;

use crate::args::{Format, Reproduce};
use crate::failure::{Failure, Verdict};
use crate::report::{self, json};
use runner::Trials;

/// Runs the experiments, prints their rows and writes the files of `--out`.
///
/// # Errors
/// An experiment could not run, or its results could not be written.
pub(crate) fn run(arguments: &Reproduce) -> Result<Verdict, Failure> {
    let request = request(arguments);
    if arguments.list {
        let listed = papers::list(&request)?;
        report::print(&match arguments.output.format {
            Format::Json => json::object(&listed),
            Format::Table => papers::list_table(&listed),
        })?;
        return Ok(Verdict::Held);
    }
    let mut reproduction = papers::reproduce(&request, &mut Trials::default())?;
    report::print(&match arguments.output.format {
        Format::Json => reproduction.results.json(),
        Format::Table => reproduction.table(),
    })?;
    // Behind the printed report, which then arrives even if the directory is full.
    reproduction.write()?;
    Ok(Verdict::of(reproduction.held))
}

fn request(arguments: &Reproduce) -> Request {
    let Reproduce { paper, ids, quick, out, comparison, seed, .. } = arguments;
    let (paper, ids, out, comparison) =
        (paper.clone(), ids.clone(), out.clone(), comparison.clone());
    Request { paper, ids, quick: *quick, out, comparison, seed: *seed }
}
