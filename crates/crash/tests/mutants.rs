//! Mutation tests: every injectable bug is found, and without it the same tests find no violation.
//!
//! A row of the table in `kills` names a bug and a cheap way to find it: a case with a tier,
//! searched for at most [`EXECUTIONS`] executions, or a unit test of one part. The last lines of
//! output list each bug with the row that killed it. docs/internals/mutants.md has them, and the
//! arguments about the rest.
#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "mutants/hostile.rs"]
mod hostile;
#[path = "mutants/kills.rs"]
mod kills;
#[path = "mutants/parts.rs"]
mod parts;
#[path = "mutants/snapshots.rs"]
mod snapshots;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crash::{Case, Found, Limits, Prepared, Tier, explore};
use kills::{KILLS, Kill, Method};
use libtest_mimic::{Arguments, Failed, Trial};
use medium::mutants::Mutant;

/// Limit of executions of a case.
const EXECUTIONS: u64 = 5000;

/// The rows of the table that have killed, by their place in `KILLS`.
type Rows = Arc<Mutex<BTreeMap<usize, String>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let rows = Rows::default();
    let mut trials = vec![Trial::test("every_bug_is_in_the_table", every_bug_is_in_the_table)];
    for (number, kill) in KILLS.iter().enumerate() {
        let (name, rows) = (kill.mutant.name(), Arc::clone(&rows));
        trials.push(Trial::test(format!("killed::{name}::{number}"), move || dies(number, &rows)));
    }
    hush();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list && arguments.filter.is_none() {
        report(&rows.lock().unwrap_or_else(PoisonError::into_inner));
    }
    conclusion.exit_code()
}

/// Silences panics, which are the usual result of an injected bug; the tests report them.
fn hush() {
    std::panic::set_hook(Box::new(|_| ()));
}

/// Prints the table, and the number of dead mutants: those that every row for them has found.
fn report(rows: &BTreeMap<usize, String>) {
    println!("| number | name | what it breaks | found by | after | as |");
    println!("|---|---|---|---|---|---|");
    rows.values().for_each(|row| println!("{row}"));
    let survives = |mutant: &&Mutant| {
        let mut kills = KILLS.iter().enumerate().filter(|(_, kill)| kill.mutant == **mutant);
        kills.any(|(number, _)| !rows.contains_key(&number))
    };
    let survived = Mutant::ALL.iter().filter(survives).count();
    println!("mutants: {} killed, {survived} survived", Mutant::ALL.len() - survived);
}

fn every_bug_is_in_the_table() -> Result<(), Failed> {
    let missing = Mutant::ALL.iter().find(|mutant| !KILLS.iter().any(|k| k.mutant == **mutant));
    missing.map_or(Ok(()), |mutant| Err(format!("{mutant:?} is not in `KILLS`").into()))
}

fn search(case: &str, tier: Tier, injected: Option<Mutant>, executions: u64) -> Found {
    let mut case: Case = case.parse().unwrap();
    case.plant = injected.map(|mutant| mutant.name().to_owned());
    let prepared = Prepared::new(&case).expect("the design and workload are known").unwrap();
    explore(&case, &prepared, tier, Limits { executions, ..Limits::default() })
}

/// Returns the findings of a row with the bug and without it, and the number of executions.
fn found(method: &Method, mutant: Mutant) -> (Option<String>, Option<String>, u64) {
    match method {
        Method::Case(case, tier) => {
            let Found { statistics, violation } = search(case, *tier, Some(mutant), EXECUTIONS);
            let violation = violation.map(|(violation, _)| violation.to_string());
            // The same executions without the bug: it was the injected bug that was found.
            let clean = search(case, *tier, None, statistics.executions).violation;
            let clean = clean.map(|(violation, trace)| format!("{violation}\n{trace}"));
            (violation, clean, statistics.executions)
        }
        Method::Part(_, find) => (find(Some(mutant.name())), find(None), 1),
    }
}

fn dies(number: usize, rows: &Rows) -> Result<(), Failed> {
    let Kill { mutant, method } = &KILLS[number];
    let by = match method {
        Method::Case(case, tier) => format!("{case}; {}", named(*tier)),
        Method::Part(name, _) => (*name).to_owned(),
    };
    let (violation, clean, after) = found(method, *mutant);
    if let Some(wrong) = clean {
        return Err(format!("without the bug {by} finds: {wrong}").into());
    }
    let Some(violation) = violation else {
        return Err(format!("{mutant:?} survives {after} executions of {by}").into());
    };
    let (number_of, name, what) = (mutant.number(), mutant.name(), mutant.what());
    let kind = violation.split(':').next().unwrap_or_default();
    let row = format!("| {number_of} | {name} | {what} | {by} | {after} | {kind} |");
    rows.lock().unwrap_or_else(PoisonError::into_inner).insert(number, row);
    Ok(())
}

fn named(tier: Tier) -> String {
    match tier {
        Tier::A => "tier A".to_owned(),
        Tier::B { deviations } => format!("tier B, deviations {deviations}"),
        Tier::C { seed } => format!("tier C, seed {seed}"),
    }
}
