//! `lastword sim sweep`: the points of a file, each a simulation of its own.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::sync::LazyLock;

use rayon::prelude::*;
use sim::design::ALL;
use sim::sweep::{Asked, Found, Listed, Point, Record, Results, Slice, Sweep, labels};
use workloads::{Kind, Options};

use super::merge;
use super::program::Unloaded;
use crate::args::SimSweep;
use crate::failure::{Failure, Verdict};
use crate::machine;
use crate::report::{self, progress};

/// What simulates: results of another version are others.
pub(crate) static PROGRAM: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    machine::commit().map_or_else(|| version.to_owned(), |commit| format!("{version} {commit}"))
});

pub(super) fn run(arguments: &SimSweep) -> Result<Verdict, Failure> {
    let sweep = Sweep::from_file(&arguments.file, &PROGRAM)?;
    sweep.points().iter().try_for_each(|point| known_workload(&point.asked))?;
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
    let Ran { made, there } = all(&chosen, results.as_ref());
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

/// A line for each point, its hash first; and which of them cannot be run.
fn list(sweep: &Sweep, chosen: &[&Point]) -> Result<Verdict, Failure> {
    let lines: Vec<String> = chosen.iter().map(|point| named(sweep, point)).collect();
    report::print(&lines.join("\n"))?;
    let check = |point: &Point| Ok(sim::check(&point.setup, &program(point)?)?);
    let mut verdict = Verdict::Held;
    for (point, line) in chosen.iter().zip(&lines) {
        let checked: Result<(), Failure> = check(point);
        if let Err(problem) = checked {
            let _ = writeln!(std::io::stderr(), "cannot be run: {line}: {problem}");
            verdict = Verdict::Failed;
        }
    }
    Ok(verdict)
}

/// A point's hash, and what it differs by from others.
fn named(sweep: &Sweep, point: &Point) -> String {
    let labels = labels(sweep.points().iter().map(|point| &point.asked));
    let at = sweep.points().iter().position(|other| other.hash == point.hash);
    let label = at.and_then(|at| labels.get(at)).map_or("", String::as_str);
    format!("{}  {label}", point.hash)
}

/// Whether there is such a workload.
pub(crate) fn known_workload(asked: &Asked) -> Result<(), Failure> {
    if workloads::NAMES.contains(&asked.workload.as_str()) {
        return Ok(());
    }
    Err(Failure::NoSuchWorkload {
        name: asked.workload.clone(),
        known: workloads::NAMES.join(", "),
    })
}

/// What came of points.
pub(crate) struct Ran {
    /// Each, in their order; or why there is nothing.
    pub(crate) made: Vec<Result<Record, String>>,
    /// How many of them there were before.
    pub(crate) there: usize,
}

/// Runs points, on all of this machine's cores, but for those whose results are there; each result
/// is kept as soon as it is known.
pub(crate) fn all(points: &[&Point], results: Option<&Results>) -> Ran {
    let found = |point: &&Point| results.map_or(Found::Missing, |results| results.record(point));
    let found: Vec<Found> = points.iter().map(found).collect();
    let bar = progress::bar("points", points.len() as u64);
    let made: Vec<Result<Record, String>> = points
        .par_iter()
        .zip(&found)
        .map(|(point, found)| {
            let made = match found {
                Found::Whole(record) => Ok((**record).clone()),
                Found::Missing | Found::Damaged(_) => one(point, results, &|| bar.alive()),
            };
            bar.inc();
            made
        })
        .collect();
    bar.finish();
    let there = found.iter().filter(|found| matches!(found, Found::Whole(_))).count();
    Ran { made, there }
}

/// Runs one point and keeps its result; what is wrong is told and keeps no other one from running.
/// `alive` is called often while it runs.
pub(crate) fn one(
    point: &Point,
    results: Option<&Results>,
    alive: &dyn Fn(),
) -> Result<Record, String> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| simulate(point, alive)))
        .map_err(|_| "it panicked, see above".to_owned())?
        .map_err(|error| error.to_string())?;
    if outcome.checked == Some(false) {
        return Err(format!("check failed: {}", outcome.complaints.join("; ")));
    }
    let record = Record::new(point, &PROGRAM, outcome);
    if let Some(results) = results {
        results.put_record(&record).map_err(|error| error.to_string())?;
    }
    Ok(record)
}

fn simulate(point: &Point, alive: &dyn Fn()) -> Result<sim::report::Outcome, Failure> {
    Ok(sim::run(&point.setup, &program(point)?, &mut |_| alive())?)
}

/// The program that a point runs.
fn program(point: &Point) -> Result<Unloaded, Failure> {
    let Asked { scale, ref data, update_percent, zipf, shared, .. } = point.asked;
    let data = data.as_deref().map(str::parse).transpose();
    let options = Options {
        scale,
        seed: point.setup.seed,
        workers: point.setup.cores,
        update_percent,
        zipf,
        low_conflict: !shared,
        data: data.map_err(|problem| Failure::BadData { problem })?,
    };
    let kind = Kind::by_name(&point.asked.workload).expect("its name was looked at");
    Unloaded::new(kind, options)
}

/// What runs a point alone, as behind `lastword`.
pub(crate) fn command(asked: &Asked) -> String {
    let Asked { workload, design, machine, cores, transactions, seed, scale, .. } = asked;
    let Asked { data, update_percent, zipf, shared, check, power_cuts, .. } = asked;
    let mut text = format!("sim run {workload} --design {design} --transactions {transactions}");
    if let Some(machine) = machine {
        text += &format!(" --machine {machine}");
    }
    if let Some(cores) = cores {
        text += &format!(" --cores {cores}");
    }
    if *seed != 1 {
        text += &format!(" --seed {seed}");
    }
    if *scale != 1.0 {
        text += &format!(" --scale {scale}");
    }
    if let Some(data) = data {
        text += &format!(" --data {data}");
    }
    if let Some(percent) = update_percent {
        text += &format!(" --update-percent {percent}");
    }
    if let Some(exponent) = zipf {
        text += &format!(" --zipf {exponent}");
    }
    if *shared {
        text += " --shared";
    }
    if *check {
        text += " --check";
    }
    if *power_cuts != 0 {
        text += &format!(" --power-cuts {power_cuts}");
    }
    for (key, value) in own_settings(asked) {
        text += &format!(" --set {key}={value}");
    }
    text
}

/// The settings that its design goes by. A paper's machine is described for all designs at once,
/// but `sim run` refuses what would change nothing.
pub(crate) fn own_settings(asked: &Asked) -> impl Iterator<Item = (&String, &String)> {
    let own = ALL.iter().find(|about| about.name == asked.design);
    asked.settings.iter().filter(move |(key, _)| own.is_none_or(|own| own.goes_by(key)))
}
