//! `lastword compare`: designs side by side, in interleaved rounds.
//!
//! In each round every design gets a fresh pool, the same load, and as many transactions of the
//! same clients, and makes a [lap](crate::lap). A ratio is taken within one round, so that what the
//! machine does from minute to minute weighs on both sides; medians are over rounds. Each round
//! begins with another design.
//!
//! A variant (`decoupled-sync`) is a design that runs with another option.
//!
//! A design that cannot have so many workers (`plain` has one) runs the same transactions on as
//! many as it can have, and its row says how many.

use crate::args::{Compare, Format};
use crate::driver::Limit;
use crate::failure::{Failure, Verdict};
use crate::lap::{How, lap};
use crate::latency::Sampling;
use crate::report::{self, CompareReport, Conditions, Laps, json, progress, table};
use crate::shadow::check_bound;

/// Seconds of the first design when nothing is said.
const SECONDS: f64 = 1.0;

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
    let how = |limit, check| How { limit, sampling: Sampling::Off, check, stays: false };
    let transactions = match load.transactions {
        Some(transactions) => transactions,
        None => {
            let limit = Limit::Seconds(load.seconds.unwrap_or(SECONDS));
            lap(name, baseline, load, how(limit, false))?.trial.transactions.max(1)
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
            let done = lap(name, laps.design, load, how(limit, is_last))?;
            laps.laps.push(done.trial);
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
