//! `lastword sim sweep`: the points of a file, each a simulation of its own.

use std::io::Write;

use papers::points::{self, PROGRAM, Ran, command};
use sim::sweep::{Listed, Point, Results, Slice, Sweep, labels};

use super::merge;
use crate::args::SimSweep;
use crate::failure::{Failure, Verdict};
use crate::report::{self, progress};

pub(super) fn run(arguments: &SimSweep) -> Result<Verdict, Failure> {
    let sweep = Sweep::from_file(&arguments.file, &PROGRAM)?;
    sweep.points().iter().try_for_each(|point| points::known_workload(&point.asked))?;
    let chosen: Vec<&Point> = match &arguments.point {
        Some(hash) => vec![sweep.point(hash)?],
        None => sweep.slice(arguments.slice.unwrap_or(Slice::ALL)).collect(),
    };
    if arguments.list {
        return list(&sweep, &chosen);
    }
    let results = arguments.out.as_deref().map(Results::create).transpose()?;
    if let Some(results) = &results {
        results.put_list(&sweep)?;
    }
    let bar = progress::bar("points", chosen.len() as u64);
    let Ran { made, there } = points::all(&chosen, results.as_ref(), &bar);
    let (mut done, mut listed, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (point, made) in chosen.iter().zip(made) {
        match made {
            Ok(record) => {
                listed.push(Listed { point: point.hash.clone(), asked: point.asked.clone() });
                done.push(record);
            }
            Err(problem) => failed.push((*point, problem)),
        }
    }
    for (point, problem) in &failed {
        let (name, command) = (named(&sweep, point), command(&point.asked));
        let _ = writeln!(std::io::stderr(), "failed: {name}: {problem} (lastword {command})");
    }
    report::print(&match &arguments.out {
        Some(_) => format!(
            "{} of {} points: {} were there, {} were run, {} failed",
            chosen.len(),
            sweep.points().len(),
            there,
            done.len() - there,
            failed.len()
        ),
        None => merge::show(arguments.format, &listed, &done),
    })?;
    Ok(Verdict::of(failed.is_empty()))
}

/// Prints a line for each point, hash first, and the points that cannot run.
fn list(sweep: &Sweep, chosen: &[&Point]) -> Result<Verdict, Failure> {
    let lines: Vec<String> = chosen.iter().map(|point| named(sweep, point)).collect();
    report::print(&lines.join("\n"))?;
    let mut verdict = Verdict::Held;
    for (point, line) in chosen.iter().zip(&lines) {
        if let Err(problem) = points::check(point) {
            let _ = writeln!(std::io::stderr(), "cannot be run: {line}: {problem}");
            verdict = Verdict::Failed;
        }
    }
    Ok(verdict)
}

/// Formats a point's hash, and the parameters in which it differs from others.
fn named(sweep: &Sweep, point: &Point) -> String {
    let labels = labels(sweep.points().iter().map(|point| &point.asked));
    let at = sweep.points().iter().position(|other| other.hash == point.hash);
    let label = at.and_then(|at| labels.get(at)).map_or("", String::as_str);
    format!("{}  {label}", point.hash)
}
