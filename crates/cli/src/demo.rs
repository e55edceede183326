//! `lastword demo`: crash safety and its cost, shown in half a minute.
//!
//! ```text
//!   five rounds   a process runs bank; kill -9; open here, look up acknowledged transactions
//!   the rest      TATP: volatile and durable alternate, a second each; then crash and check
//! ```
//!
//! Every number is measured by this run.

use std::path::Path;
use std::time::{Duration, Instant};

use lastword::{Decoupled, Erased, Medium, Options, Pool, Volatile};
use medium::PoolFile;
use rand::RngExt;
use workloads::{AnyClient, Bank, Kind, TatpHash, Workload};

use crate::args::{Command, CommandLine, Demo};
use crate::driver::{Measured, Position};
use crate::erased::{AnyDesign, own};
use crate::failure::{Failure, Verdict};
use crate::kill;
use crate::kill_round::{Outcome, When};
use crate::latency::Latencies;
use crate::load::Load;
use crate::presence;
use crate::report::table::{grouped, short};
use crate::report::{complain, median, print, progress, ratio};
use crate::run::slice;
use crate::setup::{self, Place, Ready};
use crate::temporary::{self, Temporary};

const POOL: &str = "lastword-demo.pool";
/// Distinguishes the pool of an interrupted demo from a user's pool.
const LAYOUT: &str = "lastword-demo";
const ROUNDS: usize = 5;
/// Small, so that the log wraps a few times in each round: half of it is reproduced at a time.
const LOG_BYTES: u64 = 16 << 20;
/// Time reserved for the last crash and its check.
const CHECK_SECONDS: f64 = 1.0;

/// Runs the demo.
///
/// # Errors
/// A pool or process cannot be created, or a transaction fails.
pub(crate) fn run(arguments: &Demo) -> Result<Verdict, Failure> {
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let held = kill_rounds(arguments.seconds / 30.0)?;
    let tatp_held = tatp(end)?;
    Ok(Verdict::of(held && tatp_held))
}

/// Runs the five rounds; returns whether every acknowledged transaction survived.
fn kill_rounds(round_seconds: f64) -> Result<bool, Failure> {
    let path = Path::new(POOL);
    clear(path)?;
    let place = Temporary::at(path.into());
    let options = Options::new().layout(LAYOUT, 1).log_bytes(LOG_BYTES);
    let bank = workloads::Options { workers: 2, ..workloads::Options::default() };
    let kind = Kind::by_name(Bank::NAME).expect("bank is a known workload");
    let pool = Pool::create(path, options.clone().bytes(kind.heap_bytes(&bank)))?;
    kind.load(&mut Erased::any(&mut pool.worker()?), &bank).map_err(own)?;
    pool.close()?;
    print(&format!("lastword demo: bank, 2 workers, ./{POOL} ({})", describe(path)?))?;
    let arguments = ["--threads".into(), "2".into()];
    let (mut held, mut rng) = (true, rand::rng());
    for round in 1..=ROUNDS {
        let seconds = round_seconds * rng.random_range(0.5..1.0);
        let when = When { messages: 1, pause: Duration::from_secs_f64(seconds) };
        let outcome = kill::round(kind, path, &arguments, when, (&options, &bank))?;
        print(&round_line(round, seconds, &outcome))?;
        held &= outcome.lost_acknowledged == 0 && outcome.violations.is_empty();
    }
    drop(place);
    Ok(held)
}

fn round_line(round: usize, seconds: f64, outcome: &Outcome) -> String {
    let total = if outcome.violations.is_empty() { "balanced" } else { "NOT BALANCED" };
    format!(
        "  round {round}  kill -9 after {seconds:.1} s   committed {}   acknowledged {}   \
         recovered {}   lost acknowledged {}   total {total}",
        grouped(outcome.committed),
        grouped(outcome.acknowledged),
        grouped(outcome.recovered),
        grouped(outcome.lost_acknowledged),
    )
}

/// Removes the pool of an interrupted demo.
fn clear(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() {
        let ours = lastword::inspect(path).is_ok_and(|info| info.layout.0 == LAYOUT);
        if !ours {
            return Err(Failure::DemoInTheWay { path: path.into() });
        }
        temporary::remove(path);
    }
    Ok(())
}

/// Describes the medium of a pool that is not open: `file on ext4, flush 0.10 ms`, `dax on ext4`.
fn describe(path: &Path) -> Result<String, Failure> {
    let medium = lastword::inspect(path)?.medium;
    let file = PoolFile::open_shared(path)?;
    let place = format!("{} on {}", medium.map_or("none", Medium::name), file.file_system()?);
    if medium != Some(Medium::File) {
        return Ok(place); // mapped memory is not flushed to a disk
    }
    Ok(format!("{place}, flush {:.2} ms", file.measure_flush()? as f64 / 1e6))
}

/// Runs volatile and durable alternately; returns whether every acknowledged transaction survived.
fn tatp(end: Instant) -> Result<bool, Failure> {
    let load = defaults();
    let spinner = progress::spinner("TATP");
    let kind = Kind::by_name(TatpHash::NAME).expect("tatp-hash is a known workload");
    let ready = |design| setup::ready(kind, design, &load, Place::temporary(&load));
    let volatile = ready(AnyDesign::of::<Volatile>())?;
    let durable = ready(AnyDesign::of::<Decoupled>())?;
    drop(spinner);
    let mut volatile_at = setup::clients(&volatile.workload, &load, volatile.run);
    let mut durable_at = setup::clients(&durable.workload, &load, durable.run);
    let left = end.saturating_duration_since(Instant::now()).as_secs_f64() - CHECK_SECONDS;
    let turns = (left / 2.0).clamp(1.0, 100.0) as usize;
    let seconds = (left / (2 * turns) as f64).max(0.05);
    let mut pairs = Vec::new();
    for _ in 0..turns {
        let volatile = slice(&volatile, &mut volatile_at, seconds)?;
        pairs.push((volatile, slice(&durable, &mut durable_at, seconds)?));
    }
    drop(volatile);
    report(&pairs, crash(durable, &durable_at)?)
}

fn crash(durable: Ready, positions: &[Position<AnyClient>]) -> Result<bool, Failure> {
    debug_assert_eq!(durable.pool.info().medium, Some(Medium::File));
    let losses = presence::crash_and_check(durable, positions)?;
    complain(&losses.lines());
    Ok(losses.is_empty())
}

/// Prints the two lines about TATP; returns whether the check held.
fn report(pairs: &[(Measured, Measured)], held: bool) -> Result<bool, Failure> {
    let rate = |m: &Measured| ratio(m.transactions as f64, m.seconds);
    let durable_rate = |m: &Measured| ratio(m.transactions as f64, m.durable_seconds);
    let middle = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        median(&values).unwrap_or_default()
    };
    let volatile = middle(pairs.iter().map(|(v, _)| rate(v)).collect());
    let durable = middle(pairs.iter().map(|(_, d)| durable_rate(d)).collect());
    let mut latencies = Latencies::new();
    pairs.iter().for_each(|(_, durable)| latencies.add(&durable.latencies));
    let ms = |quantile| latencies.durable.value_at_quantile(quantile) as f64 / 1e6;
    print(&format!(
        "  TATP     {}   commit-to-durable p50 {:.1} ms p99 {:.1} ms",
        rates(volatile, durable),
        ms(0.5),
        ms(0.99),
    ))?;
    let sum = |value: &dyn Fn(&Measured) -> f64| pairs.iter().map(|(_, d)| value(d)).sum::<f64>();
    let count = sum(&|m| m.transactions as f64);
    print(&format!(
        "  per CPU-second, all threads: {} tx     log {:.0} B/tx   heap image {:.0} B/tx   \
         log wraps {:.0}     {}",
        short(ratio(count, sum(&|m| m.cpu.total as f64) / 1e9)),
        ratio(sum(&|m| m.metrics.log_bytes as f64), count),
        ratio(sum(&|m| m.metrics.heap_image_bytes as f64), count),
        sum(&|m| m.metrics.log_wraps),
        if held { "CHECKED" } else { "FAILED" },
    ))?;
    Ok(held)
}

/// Shows the rates, and the difference between these two numbers. The median of the rounds' ratios
/// is less noisy, but would contradict the rates beside it.
fn rates(volatile: f64, durable: f64) -> String {
    let percent = 100.0 * (ratio(durable, volatile) - 1.0);
    let (volatile, durable) = (short(volatile), short(durable));
    format!("volatile {volatile} tx/s   durable (async) {durable} tx/s ({percent:+.0} %)")
}

/// Returns the default load of `lastword run`.
fn defaults() -> Load {
    use clap::Parser;
    match CommandLine::parse_from(["lastword", "run", TatpHash::NAME]).command {
        Command::Run(run) => run.load,
        _ => unreachable!("`run` is parsed as run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_is_of_printed_rates() {
        let shown = rates(1.51e6, 1.26e6);
        assert_eq!(shown, "volatile 1.51 M tx/s   durable (async) 1.26 M tx/s (-17 %)");
    }
}
