//! `lastword crash kill`: kills a workload and recovers its pool, round after round.
//!
//! A kill loses no write that the operating system has accepted. `crash explore` models power
//! failure, which does.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use lastword::{Decoupled, Options, Pool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use workloads::Kind;

use crate::args::{CrashKill, Format};
use crate::erased::{AnyDesign, own};
use crate::failure::{Failure, Verdict};
use crate::kill_round::{Ended, Outcome, When, kill, look};
use crate::report::table::grouped;
use crate::report::{complain, json, print};
use crate::setup::{self, Place, Ready};
use crate::shadow::check_bound;

/// Default bound on a round, in seconds.
const SECONDS: f64 = 1.0;

/// Number of arguments before the options: `lastword crash kill`.
const OWN_ARGUMENTS: usize = 3;

/// Runs the rounds and prints the report.
///
/// # Errors
/// A pool or process cannot be created, or a transaction fails.
pub(crate) fn run(arguments: &CrashKill) -> Result<Verdict, Failure> {
    let load = &arguments.load;
    if load.transactions.is_some() {
        return Err(Failure::NotForKills { option: "--transactions" });
    }
    if load.outstanding.is_some() {
        return Err(Failure::NotForKills { option: "--outstanding" });
    }
    if load.readers.is_some() {
        return Err(Failure::NotForKills { option: "--readers" });
    }
    check_bound(load.shadow, load.shadow_bytes)?;
    if let Some(option) = load.bounded_by() {
        return Err(Failure::KillsNoBound { option });
    }
    let kind = Kind::by_name(&arguments.workload).expect("the parser knows the names");
    let Ready { pool, options, place, .. } =
        setup::ready(kind, AnyDesign::of::<Decoupled>(), load, Place::of(load))?;
    pool.close()?;
    let report = rounds(arguments, kind, place.path(), &options)?;
    let text = match load.output.format {
        Format::Json => json::object(&report),
        Format::Table => report.text(),
    };
    print(&text)?;
    Ok(Verdict::of(report.lost_acknowledged == 0 && report.violations == 0))
}

/// Runs one round on a pool that no process has open: a writer runs and is killed, then this
/// process recovers and checks the pool.
pub(crate) fn round(
    kind: Kind,
    path: &Path,
    arguments: &[OsString],
    when: When,
    (options, workload): (&Options, &workloads::Options),
) -> Result<Outcome, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let ended = kill(&program, path, arguments, when);
    let seen = match ended.map_err(Failure::io("running the writer"))? {
        Ended::Killed(seen) => seen,
        Ended::ByItself(status) => return Err(Failure::WriterEnded { status }),
    };
    let pool = Pool::open(path, options.clone())?;
    let outcome = look(kind, &pool, workload, &seen).map_err(own)?;
    let outcome = outcome.ok_or_else(|| Failure::NoWorkload { path: path.into() })?;
    pool.close()?;
    let violations: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
    complain(&violations);
    Ok(outcome)
}

/// Totals of all rounds.
#[derive(Debug, Serialize)]
struct Report {
    workload: &'static str,
    durability: &'static str,
    threads: usize,
    seed: u64,
    rounds: u64,
    /// A lower bound: a writer may commit more after its last message.
    committed: u64,
    acknowledged: u64,
    recovered: u64,
    /// Acknowledged and lost.
    lost_acknowledged: u64,
    /// Committed, not acknowledged, and lost.
    lost_unacknowledged: u64,
    /// Runs of the workload's own check, and its violations.
    checks: u64,
    violations: u64,
}

impl Report {
    fn add(&mut self, outcome: &Outcome) {
        self.rounds += 1;
        self.committed += outcome.committed;
        self.acknowledged += outcome.acknowledged;
        self.recovered += outcome.recovered;
        self.lost_acknowledged += outcome.lost_acknowledged;
        self.lost_unacknowledged += outcome.lost;
        self.checks += 1;
        self.violations += outcome.violations.len() as u64;
    }

    fn text(&self) -> String {
        format!(
            "{} rounds: committed {}   acknowledged {}   recovered {}   lost acknowledged {}   \
             lost unacknowledged {}   checks {}, violations {}   (seed {})",
            self.rounds,
            grouped(self.committed),
            grouped(self.acknowledged),
            grouped(self.recovered),
            grouped(self.lost_acknowledged),
            grouped(self.lost_unacknowledged),
            self.checks,
            self.violations,
            self.seed,
        )
    }
}

fn rounds(
    arguments: &CrashKill,
    kind: Kind,
    path: &Path,
    options: &Options,
) -> Result<Report, Failure> {
    let CrashKill { rounds, load, .. } = arguments;
    let mut report = Report {
        workload: kind.name,
        durability: load.durability.name(),
        threads: load.threads,
        seed: load.seed,
        rounds: 0,
        committed: 0,
        acknowledged: 0,
        recovered: 0,
        lost_acknowledged: 0,
        lost_unacknowledged: 0,
        checks: 0,
        violations: 0,
    };
    // The writer gets this command's arguments: every pool option has the same meaning in both.
    let arguments: Vec<OsString> = std::env::args_os().skip(OWN_ARGUMENTS).collect();
    let (mut rng, tuning) = (StdRng::seed_from_u64(load.seed), load.workload_options());
    for number in 1..=*rounds {
        let seconds = load.seconds.unwrap_or(SECONDS) * rng.random_range(0.0..1.0);
        // Kill only after the first message: `tests/kill.rs` covers a kill while the pool opens.
        let when = When { messages: 1, pause: Duration::from_secs_f64(seconds) };
        let outcome = round(kind, path, &arguments, when, (options, &tuning))?;
        if load.output.format == Format::Table {
            print(&line(kind.name, number, seconds, &outcome))?;
        }
        report.add(&outcome);
    }
    Ok(report)
}

fn line(workload: &str, round: u64, seconds: f64, outcome: &Outcome) -> String {
    format!(
        "round {round}  {workload}, kill -9 after {seconds:.2} s   committed {}   \
         acknowledged {}   recovered {}   lost acknowledged {}   {}",
        grouped(outcome.committed),
        grouped(outcome.acknowledged),
        grouped(outcome.recovered),
        grouped(outcome.lost_acknowledged),
        if outcome.violations.is_empty() { "check held" } else { "CHECK FAILED" },
    )
}
