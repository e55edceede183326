//! `lastword run`: measures one workload on one design; then crashes, recovers and checks it.

use workloads::{AnyClient, Kind};

use crate::args::{Format, Run};
use crate::designs::DesignName;
use crate::driver::{self, Limit, Manner, Measured, Position};
use crate::failure::{Failure, Verdict};
use crate::latency::Sampling;
use crate::load::Load;
use crate::machine;
use crate::presence;
use crate::report::watch::Watch;
use crate::report::{self, Conditions, HeapUse, RunReport, json, progress, table};
use crate::setup::{self, Place, Ready};

/// Default duration of a run, in seconds.
const SECONDS: f64 = 3.0;

/// Runs the workload and prints the report.
///
/// # Errors
/// A pool cannot be created, a transaction fails, or the check cannot run.
pub(crate) fn run(arguments: &Run) -> Result<Verdict, Failure> {
    let Run { workload, design, sample, watch, load } = arguments;
    let mut load = design.adjust(load);
    load.check_shadow(*design)?;
    if load.pool.as_ref().is_some_and(|path| path.symlink_metadata().is_ok()) {
        load.scale = None; // an existing pool keeps the scale that it was loaded with
    }
    let load = &load;
    let (pool, medium) = (load.pool.is_some(), load.medium.is_some());
    let option = match design.is_durable() {
        true => (pool && !load.keeps()).then_some("--pool"),
        false => pool.then_some("--pool").or(medium.then_some("--medium")),
    };
    if let Some(option) = option {
        return Err(Failure::KeepsNothing { design: design.name(), option });
    }
    let kind = Kind::by_name(&workload.name).expect("the parser knows the names");
    let sampling = sample.sampling(load.durability);
    let (report, unchecked) = measured(kind, *design, sampling, *watch, load)?;
    let text = match load.output.format {
        Format::Json => json::object(&report),
        Format::Table => table::run(&report),
    };
    report::print(&text)?;
    match unchecked {
        Some(error) => Err(error),
        None => Ok(Verdict::of(report.checked == Some(true))),
    }
}

/// A report, and the error that kept its check from running.
type Reported = Result<(RunReport, Option<Failure>), Failure>;

fn measured(
    kind: Kind,
    design: DesignName,
    sampling: Sampling,
    watch: bool,
    load: &Load,
) -> Reported {
    let ready = setup::ready(kind, design.erased(load), load, Place::of(load))?;
    let mut positions = setup::clients(&ready.workload, load, ready.run);
    let limit = match (load.transactions, load.seconds) {
        (Some(transactions), _) => Limit::Transactions(transactions),
        (None, seconds) => Limit::Seconds(seconds.unwrap_or(SECONDS)),
    };
    let readers = load.readers.unwrap_or(0);
    let manner = Manner { sampling, outstanding: load.outstanding(), readers };
    {
        let _spinner = load.warm_up.map(|_| progress::spinner("warming up"));
        driver::warm_up(&ready, &mut positions, load.warm_up)?;
    }
    let measured = watched(&ready, &mut positions, limit, manner, watch)?;
    let conditions = Conditions::of(load, ready.pool.info().medium);
    // Read before the check reopens the pool, which could raise the peak.
    let peak_rss_bytes = machine::peak_rss_bytes();
    let heap = HeapUse::of(&ready.pool.heap_usage());
    let (checked, unchecked) = {
        let _spinner = progress::spinner("checking");
        crash_and_check(ready, &positions)
    };
    let names = (kind.name, design);
    let report = RunReport::new(names, &measured, conditions, peak_rss_bytes, checked);
    Ok((RunReport { heap: Some(heap), ..report }, unchecked))
}

/// Measures, and shows the progress on a terminal, or with `lines` a line a second.
fn watched(
    ready: &Ready,
    positions: &mut Vec<Position<AnyClient>>,
    limit: Limit,
    manner: Manner,
    lines: bool,
) -> Result<Measured, Failure> {
    let state = || (ready.pool.metrics(), ready.pool.committed_id().0);
    if lines {
        let (before, committed) = state();
        let mut lines = Watch::new(before, committed);
        let mut watch = |elapsed| lines.at(elapsed, state);
        return Ok(driver::measure_watched(ready, positions, limit, manner, &mut watch)?);
    }
    let all = match limit {
        Limit::Seconds(seconds) => progress::Whole::Seconds(seconds),
        Limit::Transactions(transactions) | Limit::TransactionsWithin(transactions, _) => {
            progress::Whole::Transactions(transactions)
        }
    };
    let before = ready.pool.committed_id().0;
    let line = progress::RunLine::new(all);
    let mut watch = |elapsed| line.at(elapsed, ready.pool.committed_id().0.saturating_sub(before));
    Ok(driver::measure_watched(ready, positions, limit, manner, &mut watch)?)
}

/// Returns whether the check held, and the error that kept it from running.
fn crash_and_check(
    ready: Ready,
    positions: &[Position<AnyClient>],
) -> (Option<bool>, Option<Failure>) {
    match presence::crash_and_check(ready, positions) {
        Ok(losses) => {
            report::complain(&losses.lines());
            (Some(losses.is_empty()), None)
        }
        Err(error) => (None, Some(error.into())),
    }
}

/// A pool that the demo measures repeatedly.
pub(crate) fn slice(
    ready: &Ready,
    positions: &mut Vec<Position<AnyClient>>,
    seconds: f64,
) -> Result<Measured, Failure> {
    let limit = Limit::Seconds(seconds);
    let manner = Manner { sampling: Sampling::Some, outstanding: None, readers: 0 };
    let measured = driver::measure(ready, positions, limit, manner)?;
    if ready.design.is_durable {
        // Complete the background work, so that it does not disturb the next measurement.
        ready.pool.checkpoint()?;
    }
    Ok(measured)
}
