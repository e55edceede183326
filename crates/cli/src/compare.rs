//! `lastword compare`: designs side by side, in interleaved rounds.
//!
//! In each round every design gets a fresh pool, the same load, and as many transactions of the
//! same clients. Loading is not timed. A ratio is taken within one round, so that what the machine
//! does from minute to minute weighs on both sides; medians are over rounds. Each round begins with
//! another design.
//!
//! CPU time is that of all threads from the first transaction until the last is durable *and at
//! home*: nothing that a transaction costs is left out. In front is what the workers took, behind
//! the rest, emulated delays and what workers did of the steps included.
//!
//! A variant (`decoupled-sync`) is a design that runs with another option.
//!
//! A design that cannot have so many workers (`plain` has one) runs the same transactions on as
//! many as it can have, and its row says how many.

use lastword::Medium;
use workloads::Workload;

use crate::args::{Compare, Format, Load};
use crate::designs::DesignName;
use crate::driver::{self, Limit, Manner};
use crate::failure::{Failure, Verdict};
use crate::latency::Sampling;
use crate::machine::process_cpu_ns;
use crate::report::{self, CompareReport, Conditions, json, progress, table};
use crate::setup::{self, Place};
use crate::shadow::{ShadowName, check_bound};
use crate::temporary::Temporary;

/// Seconds of the first design when nothing is said.
const SECONDS: f64 = 1.0;

/// What one design did in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    pub(crate) transactions: u64,
    pub(crate) workers: usize,
    pub(crate) seconds: f64,
    pub(crate) durable_seconds: f64,
    pub(crate) cpu_ns: u64,
    /// Of it, that of the workers, without what they did of the steps behind.
    pub(crate) workers_cpu_ns: u64,
    pub(crate) log_bytes: u64,
}

/// All rounds of one design.
#[derive(Clone, Debug)]
pub(crate) struct Laps {
    pub(crate) design: DesignName,
    pub(crate) laps: Vec<Lap>,
}

/// Runs it and prints the report.
///
/// # Errors
/// What kept it from being run.
pub(crate) fn run(arguments: &Compare) -> Result<Verdict, Failure> {
    let Compare { workload, designs, rounds, load } = arguments;
    let baseline = match designs[..] {
        [baseline, _, ..] => baseline,
        _ => return Err(Failure::OneDesign),
    };
    check_bound(load.shadow, load.shadow_bytes)?;
    // Designs that keep nothing have no shadow either.
    for design in designs.iter().filter(|design| design.is_durable()) {
        load.check_shadow(*design)?;
    }
    if let Some(path) = load.pool.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        return Err(Failure::NotFresh { path: path.clone() });
    }
    let name = &workload.name;
    let transactions = match load.transactions {
        Some(transactions) => transactions,
        None => {
            let limit = Limit::Seconds(load.seconds.unwrap_or(SECONDS));
            lap(name, baseline, load, limit, false)?.lap.transactions.max(1)
        }
    };
    let limit = Limit::Transactions(transactions);
    let mut all: Vec<Laps> =
        designs.iter().map(|&design| Laps { design, laps: Vec::new() }).collect();
    let bar = progress::bar("rounds", rounds * designs.len() as u64);
    let (mut held, mut medium) = (true, None);
    for round in 0..*rounds {
        let is_last = round + 1 == *rounds;
        for step in 0..all.len() {
            let laps = &mut all[(round as usize + step) % designs.len()];
            let done = lap(name, laps.design, load, limit, is_last)?;
            laps.laps.push(done.lap);
            report::complain(&done.violations);
            held &= done.violations.is_empty();
            medium = medium.or(done.medium);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let conditions = Conditions::of(load, medium);
    let report = CompareReport::new(name, &all, transactions, *rounds, conditions);
    let text = match load.output.format {
        Format::Json => json::object(&report),
        Format::Table => table::compare(&report),
    };
    report::print(&text)?;
    Ok(Verdict::of(held))
}

/// One design in one round, and what its check says, if it was checked.
struct Done {
    lap: Lap,
    medium: Option<Medium>,
    violations: Vec<String>,
}

fn lap(
    workload: &str,
    design: DesignName,
    load: &Load,
    limit: Limit,
    check: bool,
) -> Result<Done, Failure> {
    let load = &design.adjust(load);
    let visitor = ByWorkload { design, load, limit, check };
    workloads::by_name(workload, visitor).expect("the parser knows the names")
}

#[derive(Clone, Copy)]
struct ByWorkload<'a> {
    design: DesignName,
    load: &'a Load,
    limit: Limit,
    check: bool,
}

impl workloads::Visitor for ByWorkload<'_> {
    type Out = Result<Done, Failure>;

    fn visit<W: Workload>(self) -> Self::Out {
        let ByWorkload { design, load, limit, check } = self;
        let erased = design.erased::<W>(load);
        let workers = load.threads.min(erased.workers_max);
        let (shadow, shadow_bytes) = match design.is_durable() {
            true => (load.shadow, load.shadow_bytes),
            false => (ShadowName::Full, None),
        };
        let load = &Load { threads: workers, shadow, shadow_bytes, ..load.clone() };
        let place = match &load.pool {
            Some(path) => Place::Temporary(Temporary::at(path.clone())),
            None => Place::temporary(load),
        };
        let ready = setup::ready(erased, load, place)?;
        let mut positions = setup::clients(&ready.workload, load, ready.run);
        // Designs that keep nothing have nothing to wait for.
        let outstanding = load.outstanding().filter(|_| design.is_durable());
        let manner = Manner { sampling: Sampling::Off, outstanding };
        let before_ns = process_cpu_ns();
        let measured = driver::measure(&ready, &mut positions, limit, manner)?;
        if design.is_durable() {
            ready.pool.bring_home()?;
        }
        let lap = Lap {
            transactions: measured.transactions,
            workers,
            seconds: measured.seconds,
            durable_seconds: measured.durable_seconds,
            cpu_ns: process_cpu_ns() - before_ns,
            workers_cpu_ns: measured.cpu.workers,
            log_bytes: measured.metrics.log_bytes,
        };
        let mut violations = Vec::new();
        if check {
            let found = ready.workload.check(&mut ready.pool.any_worker()?.erased())?;
            violations = found.iter().map(|v| format!("{}: {v}", design.name())).collect();
        }
        let medium = ready.pool.info().medium;
        // Everything is at home and the files go: no need to close in good order.
        ready.pool.abandon();
        Ok(Done { lap, medium, violations })
    }
}
