//! `lastword crash`: exploration of the states that a crash may leave, on a recorded machine. See
//! the `crash` crate and docs/internals/crash-model.md.

use std::num::NonZero;
use std::time::{Duration, Instant};

use crash::{
    BadTrace, Case, Found, Limits, MediumModel, Outcome, Prepared, Statistics, Tier, Trace,
    Violation, explore, shrink,
};
use serde::Serialize;

use crate::args::{CrashCommand, CrashExplore, CrashReplay, Format, MediumModelName, TierName};
use crate::failure::{Failure, Verdict};
use crate::kill;
use crate::report::{json, print, progress};

/// Default time limit.
const SECONDS: f64 = 10.0;

/// Contents in which an execution of tier B may deviate from the policy.
const DEVIATIONS: u32 = 2;

pub(crate) fn run(command: &CrashCommand) -> Result<Verdict, Failure> {
    match command {
        CrashCommand::Explore(arguments) => run_explore(arguments),
        CrashCommand::Replay(arguments) => run_replay(arguments),
        CrashCommand::Kill(arguments) => kill::run(arguments),
    }
}

/// Result of an exploration.
#[derive(Debug, Serialize)]
struct Report<'a> {
    design: &'a str,
    workload: &'a str,
    medium_model: &'a str,
    tier: &'a str,
    /// The case in one line, as at the head of traces.
    case: String,
    seconds: f64,
    executions: u64,
    executions_per_second: f64,
    distinct_images: u64,
    recoveries: u64,
    nested_crashes: u64,
    failed_calls: u64,
    outcomes: Outcomes,
    /// Every execution was explored (tiers a and b).
    complete: bool,
    violations: u64,
    violation: Option<String>,
    trace: Option<String>,
}

/// Fate of transactions that were committed and not acknowledged, counted by crash.
#[derive(Debug, Serialize)]
struct Outcomes {
    all_present: u64,
    some_lost: u64,
    none: u64,
}

fn run_explore(arguments: &CrashExplore) -> Result<Verdict, Failure> {
    let case = case(arguments)?;
    let prepared = prepare(&case)?;
    let bounded = arguments.executions.is_some();
    let seconds = arguments.seconds.or((!bounded).then_some(SECONDS));
    let limits = Limits {
        executions: arguments.executions.unwrap_or(u64::MAX),
        time: seconds.map(Duration::from_secs_f64),
        threads: arguments.threads.map_or_else(cores, |threads| threads as usize),
    };
    let tier = match arguments.tier {
        TierName::A => Tier::A,
        TierName::B => Tier::B { deviations: DEVIATIONS },
        TierName::C => Tier::C { seed: arguments.seed },
    };
    let started = Instant::now();
    let Found { statistics, violation } = {
        let _spinner = progress::spinner("cutting the power");
        explore(&case, &prepared, tier, limits)
    };
    let seconds = started.elapsed().as_secs_f64();
    let violation = violation.map(|(violation, trace)| {
        let _spinner = progress::spinner("shrinking the trace");
        (shrink(&trace, &prepared, &violation), violation)
    });
    let found = violation.as_ref();
    let report = report(&case, arguments.tier, seconds, &statistics, found);
    match arguments.output.format {
        Format::Json => print(&json::object(&report))?,
        Format::Table => print(&text(&report, found.map(|(trace, _)| trace))?)?,
    }
    Ok(Verdict::of(report.violations == 0))
}

fn run_replay(arguments: &CrashReplay) -> Result<Verdict, Failure> {
    let trace: Trace = arguments.trace.parse().map_err(Failure::Trace)?;
    known_mutant(trace.case.inject.as_deref())?;
    let (report, heard) = trace.replay().map_err(Failure::Trace)?;
    for line in heard {
        print(&line)?;
    }
    match &report.violation {
        Some(violation) => print(&format!("violation: {violation}"))?,
        None => print("no violation")?,
    }
    Ok(Verdict::of(report.violation.is_none()))
}

/// Builds the case that the flags describe.
fn case(arguments: &CrashExplore) -> Result<Case, Failure> {
    let medium = match arguments.medium_model {
        MediumModelName::Memory => MediumModel::Memory,
        MediumModelName::Cache => MediumModel::Cache,
        MediumModelName::File => MediumModel::File,
    };
    let mut case = Case::new(&arguments.design, &arguments.workload, medium);
    if arguments.tier != TierName::A {
        (case.transactions, case.moves) = (8, 24);
        (case.workers, case.all_moves, case.model.crashes) = (2, true, 3);
    }
    if let Some(crashes) = arguments.crashes {
        case.model.crashes = crashes as usize;
    }
    let with = arguments.with.join(" ");
    case.change(&with).map_err(|error| Failure::Trace(BadTrace::Case(error)))?;
    case.inject = arguments.inject.clone().or(case.inject);
    known_mutant(case.inject.as_deref())?;
    Ok(case)
}

fn known_mutant(name: Option<&str>) -> Result<(), Failure> {
    match name {
        Some(_) if !cfg!(feature = "mutants") => Err(Failure::NoMutants),
        Some(name) if crash::mutants::by_name(name).is_none() => {
            let all = crash::mutants::ALL.iter().map(|entry| entry.name);
            let known = all.collect::<Vec<_>>().join(", ");
            Err(Failure::UnknownMutant { name: name.into(), known })
        }
        _ => Ok(()),
    }
}

fn prepare(case: &Case) -> Result<Prepared, Failure> {
    let unknown = || BadTrace::Unknown { case: case.to_string() };
    Ok(Prepared::new(case).ok_or_else(unknown).map_err(Failure::Trace)??)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn report<'a>(
    case: &'a Case,
    tier: TierName,
    seconds: f64,
    statistics: &Statistics,
    found: Option<&(Trace, Violation)>,
) -> Report<'a> {
    let Outcome { all_present, some_lost, none } = statistics.outcome;
    Report {
        design: &case.design,
        workload: &case.workload,
        medium_model: case.medium.name(),
        tier: tier.name(),
        case: case.to_string(),
        seconds,
        executions: statistics.executions,
        executions_per_second: statistics.executions as f64 / seconds,
        distinct_images: statistics.distinct_images,
        recoveries: statistics.recoveries,
        nested_crashes: statistics.nested_crashes,
        failed_calls: statistics.faults,
        outcomes: Outcomes { all_present, some_lost, none },
        complete: statistics.complete,
        violations: u64::from(found.is_some()),
        violation: found.map(|(_, violation)| violation.to_string()),
        trace: found.map(|(trace, _)| trace.to_string()),
    }
}

/// Formats the report as a table.
fn text(report: &Report<'_>, trace: Option<&Trace>) -> Result<String, Failure> {
    let Report { tier, executions, seconds, executions_per_second, .. } = report;
    let Outcomes { all_present, some_lost, none } = report.outcomes;
    let whole = if report.complete { " (complete)" } else { "" };
    let mut lines = vec![
        format!("case            {}, tier {tier}", report.case),
        format!(
            "executions      {executions}{whole}, in {seconds:.1} s ({executions_per_second:.0}/s)"
        ),
        format!("distinct images {}", report.distinct_images),
        format!(
            "recoveries      {}, and {} crashes while opening",
            report.recoveries, report.nested_crashes
        ),
        format!("unacknowledged  all kept {all_present} times, some {some_lost}, none {none}"),
    ];
    if report.failed_calls > 0 {
        lines.push(format!("failed calls    {}", report.failed_calls));
    }
    match (&report.violation, trace) {
        (Some(violation), Some(trace)) => {
            lines.push(format!("violation       {violation}\n\nlastword crash replay '{trace}'\n"));
            lines.extend(trace.replay().map_err(Failure::Trace)?.1);
        }
        _ => lines.push("violations      0".into()),
    }
    Ok(lines.join("\n"))
}
