//! `lastword compare`: designs side by side, in interleaved rounds.
//!
//! In each round every design gets a fresh pool, the same load and the same number of transactions
//! of the same clients, and runs in one [trial](crate::trial). Ratios are taken within a round, so
//! that a change in the machine's speed affects both sides. Medians are over rounds. The order of
//! designs rotates from round to round.
//!
//! The first design runs once for the requested time, and the number of its transactions is the
//! number of each trial. A trial ends early after [`PATIENCE`] times that time. Else a design with
//! a durable write in each transaction, beside one without, would take hours. A rate is that of the
//! transactions that ran, and the report has their number.
//!
//! A variant (`decoupled-sync`) is a design with another option.
//!
//! A design with a limit on workers (`plain` has one) runs the same transactions on as many workers
//! as it supports, and its row shows the number.

use crate::args::{Compare, Format};
use crate::driver::Limit;
use crate::failure::{Failure, Verdict};
use crate::latency::Sampling;
use crate::report::{self, CompareReport, Conditions, Trials, json, progress, table};
use crate::shadow::check_bound;
use crate::trial::{self, How};

/// Duration of the first design without `--seconds`.
const SECONDS: f64 = 1.0;

/// Bound on a trial, as a multiple of the first design's duration. Designs within this factor of
/// each other run the same transactions.
const PATIENCE: f64 = 10.0;

/// Runs it and prints the report.
///
/// # Errors
/// A pool cannot be created, or a transaction fails.
pub(crate) fn run(arguments: &Compare) -> Result<Verdict, Failure> {
    let Compare { workload, designs, rounds, load } = arguments;
    let baseline = match designs[..] {
        [baseline, _, ..] => baseline,
        _ => return Err(Failure::OneDesign),
    };
    check_bound(load.shadow, load.shadow_bytes)?;
    // A design without a pool has no shadow.
    for design in designs.iter().filter(|design| design.is_durable()) {
        load.check_shadow(*design)?;
    }
    if let Some(path) = load.pool.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        return Err(Failure::NotFresh { path: path.clone() });
    }
    let name = &workload.name;
    let how = |limit, check| How { limit, sampling: Sampling::Off, check, stays: false };
    let (transactions, limit) = match load.transactions {
        // The number was requested, so each design runs it.
        Some(transactions) => (transactions, Limit::Transactions(transactions)),
        None => {
            let seconds = load.seconds.unwrap_or(SECONDS);
            let timed = trial::run(name, baseline, load, how(Limit::Seconds(seconds), false))?;
            let transactions = timed.trial.transactions.max(1);
            (transactions, Limit::TransactionsWithin(transactions, PATIENCE * seconds))
        }
    };
    let mut all: Vec<Trials> =
        designs.iter().map(|&design| Trials { design, trials: Vec::new() }).collect();
    let bar = progress::bar("rounds", rounds * designs.len() as u64);
    let (mut held, mut medium) = (true, None);
    for round in 0..*rounds {
        let is_last = round + 1 == *rounds;
        for step in 0..all.len() {
            let row = &mut all[(round as usize + step) % designs.len()];
            let done = trial::run(name, row.design, load, how(limit, is_last))?;
            row.trials.push(done.trial);
            report::complain(&done.violations);
            held &= done.violations.is_empty();
            medium = medium.or(done.medium);
            bar.inc();
        }
    }
    bar.finish();
    let conditions = Conditions::of(load, medium);
    let report = CompareReport::new(name, &all, transactions, *rounds, conditions);
    let text = match load.output.format {
        Format::Json => json::object(&report),
        Format::Table => table::compare(&report),
    };
    report::print(&text)?;
    Ok(Verdict::of(held))
}
