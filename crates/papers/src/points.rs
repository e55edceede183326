//! Points of a sweep: simulations, each run once on all cores of this machine.

use std::panic::{self, AssertUnwindSafe};
use std::sync::LazyLock;

use rayon::prelude::*;
use sim::design::ALL;
use sim::sweep::{Asked, Found, Point, Record, Results};
use workloads::{Kind, Options};

use crate::error::Error;
use crate::machine;
use crate::program::Unloaded;
use crate::runner::Progress;

/// Version and commit of the simulator. A result of another version is another result.
pub static PROGRAM: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    machine::commit().map_or_else(|| version.to_owned(), |commit| format!("{version} {commit}"))
});

/// Checks that the workload of a point exists.
///
/// # Errors
/// [`Error::NoWorkload`].
pub fn known_workload(asked: &Asked) -> Result<(), Error> {
    if workloads::NAMES.contains(&asked.workload.as_str()) {
        return Ok(());
    }
    Err(Error::NoWorkload { name: asked.workload.clone(), known: workloads::NAMES.join(", ") })
}

/// Checks that a point can run, without running it.
///
/// # Errors
/// The reason why it cannot.
pub fn check(point: &Point) -> Result<(), Error> {
    Ok(sim::check(&point.setup, &program(point)?)?)
}

/// Results of points.
pub struct Ran {
    /// The results in the order of the points, or why a point has none.
    pub made: Vec<Result<Record, String>>,
    /// Number of points whose results were stored before.
    pub there: usize,
}

/// Runs points on all cores of this machine and stores each result as soon as it is known. A point
/// whose result is stored does not run again.
pub fn all(points: &[&Point], results: Option<&Results>, progress: &dyn Progress) -> Ran {
    let found = |point: &&Point| results.map_or(Found::Missing, |results| results.record(point));
    let found: Vec<Found> = points.iter().map(found).collect();
    let made: Vec<Result<Record, String>> = points
        .par_iter()
        .zip(&found)
        .map(|(point, found)| {
            let made = match found {
                Found::Whole(record) => Ok((**record).clone()),
                Found::Missing | Found::Damaged(_) => one(point, results, &|| progress.alive()),
            };
            progress.inc();
            made
        })
        .collect();
    progress.finish();
    let there = found.iter().filter(|found| matches!(found, Found::Whole(_))).count();
    Ran { made, there }
}

/// Runs one point and stores its result. A failure, a panic included, becomes the returned text, so
/// that the other points still run. The simulator calls `alive` often.
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

fn simulate(point: &Point, alive: &dyn Fn()) -> Result<sim::report::Outcome, Error> {
    Ok(sim::run(&point.setup, &program(point)?, &mut |_| alive())?)
}

/// Returns the program that a point runs.
fn program(point: &Point) -> Result<Unloaded, Error> {
    let Asked { scale, ref data, update_percent, zipf, shared, .. } = point.asked;
    let data = data.as_deref().map(str::parse).transpose();
    let options = Options {
        scale,
        seed: point.setup.seed,
        workers: point.setup.cores,
        update_percent,
        zipf,
        low_conflict: !shared,
        data: data.map_err(|problem| Error::BadData { problem })?,
    };
    let kind = Kind::by_name(&point.asked.workload).expect("its name was looked at");
    Unloaded::new(kind, options)
}

/// Returns the arguments of `lastword` that run a point alone.
pub fn command(asked: &Asked) -> String {
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

/// Returns the settings that affect the point's design. A paper's machine is described for all
/// designs at once, but `sim run` refuses a setting that has no effect.
pub fn own_settings(asked: &Asked) -> impl Iterator<Item = (&String, &String)> {
    let own = ALL.iter().find(|about| about.name == asked.design);
    asked.settings.iter().filter(move |(key, _)| own.is_none_or(|own| own.goes_by(key)))
}
