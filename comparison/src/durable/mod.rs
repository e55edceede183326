//! `comparison durable`: the cost of durability on fast memory, beside libpmemobj.
//!
//! One thread, because libpmemobj has no isolation. Structures and work are those of
//! `comparison stm`, in memory on tmpfs with no delay. Every system really writes lines back and
//! fences, at DRAM's latency. libpmemobj's transactions add old values to its undo log before they write
//! (`c/pmem.c`). It is configured to treat the mapping as persistent memory, so that it writes back
//! lines instead of calling `msync`.
//!
//! The clock of `decoupled`, which persists asynchronously, runs until everything is reproduced.
//! All other systems are durable when each call returns. A slice ends with a check of all contents.

mod pmem;

use std::path::Path;
use std::time::Instant;

use clap::{Args, value_parser};
use lastword::{Decoupled, Design, Durability, Medium, Redo, Undo};
use serde::Serialize;

use crate::draw::Draw;
use crate::failure::Failure;
use crate::report::{self, Conditions, Figure, Format, short, times};
use crate::stm::ours::Ours;
use crate::stm::work::{BATCH, Call, Content, Source, Work};
use crate::stm::{Runner, Subject};

/// Options of `comparison durable`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Work to run: hash, tatp.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Work::Hash, Work::Tatp])]
    work: Vec<Work>,
    /// Directory in memory that the pools are made in, and removed from.
    #[arg(long, default_value = "/dev/shm")]
    dir: std::path::PathBuf,
    /// Rounds: in each one all systems run, beginning with another one.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Transactions of a slice.
    #[arg(long, default_value_t = 2_000_000, value_parser = value_parser!(u64).range(1..))]
    transactions: u64,
    /// Seed of keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For people or for programs.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Systems under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum System {
    Decoupled,
    DecoupledSync,
    Undo,
    Redo,
    Libpmemobj,
}

/// The last one is the baseline of the others.
const SYSTEMS: [System; 5] =
    [System::Decoupled, System::DecoupledSync, System::Undo, System::Redo, System::Libpmemobj];

impl System {
    fn name(self) -> &'static str {
        match self {
            System::Decoupled => "decoupled",
            System::DecoupledSync => "decoupled, sync",
            System::Undo => "undo",
            System::Redo => "redo",
            System::Libpmemobj => "libpmemobj",
        }
    }

    /// The goal, as a multiple of libpmemobj's rate.
    fn target(self, work: Work) -> Option<f64> {
        match self {
            System::Decoupled => Some(5.0),
            System::DecoupledSync => (work == Work::Hash).then_some(4.0),
            System::Undo => Some(2.0),
            System::Redo => Some(1.5),
            System::Libpmemobj => None,
        }
    }
}

/// One row of the report.
#[derive(Debug, Serialize)]
struct Row {
    work: Work,
    system: System,
    transactions: u64,
    transactions_per_second: Figure,
    /// Rate by libpmemobj's in the same round.
    by_libpmemobj: Figure,
    target: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    conditions: Conditions,
    rows: Vec<Row>,
}

/// Makes the comparisons and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    pmem::believe_in_memory();
    let mut rows = Vec::new();
    for &work in &options.work {
        if !matches!(work, Work::Hash | Work::Tatp) {
            return Err(Failure::Unsupported { work: work.name() });
        }
        rows.extend(compare(options, work)?);
    }
    let conditions = Conditions::new(options.rounds as usize, options.seed);
    let report = Report { conditions, rows };
    report::print(options.format, &report, || text(&report))
}

fn compare(options: &Options, work: Work) -> Result<Vec<Row>, Failure> {
    let mut rates: [Vec<f64>; SYSTEMS.len()] = Default::default();
    for round in 0..options.rounds as usize {
        for i in 0..SYSTEMS.len() {
            let index = (round + i) % SYSTEMS.len();
            let source = Source::new(work, 1, Draw::new(options.seed, round, 0));
            rates[index].push(slice(SYSTEMS[index], work, &source, options)?);
        }
    }
    let base = rates[SYSTEMS.len() - 1].clone();
    let row = |(system, rates): (System, Vec<f64>)| Row {
        work,
        system,
        transactions: options.transactions,
        by_libpmemobj: Figure::of(rates.iter().zip(&base).map(|(rate, base)| rate / base)),
        transactions_per_second: Figure::of(rates),
        target: system.target(work),
    };
    Ok(SYSTEMS.into_iter().zip(rates).map(row).collect())
}

/// One system on a structure made for it; transactions a second.
fn slice(system: System, work: Work, source: &Source, options: &Options) -> Result<f64, Failure> {
    let dir = tempfile::Builder::new().prefix("comparison-").tempdir_in(&options.dir);
    let dir = dir.map_err(Failure::io("making a directory for a pool"))?;
    let path = dir.path().join("pool");
    let count = options.transactions;
    let (seconds, found) = match system {
        System::Decoupled => ours::<Decoupled>(&path, work, Durability::Async, source, count)?,
        System::DecoupledSync => ours::<Decoupled>(&path, work, Durability::Sync, source, count)?,
        System::Undo => ours::<Undo>(&path, work, Durability::Sync, source, count)?,
        System::Redo => ours::<Redo>(&path, work, Durability::Sync, source, count)?,
        System::Libpmemobj => {
            let pool = pmem::Pool::new(&path, work)?;
            (time(source, count, |calls| pool.run(calls), || Ok(()))?, pool.content())
        }
    };
    let expected = Content::expected(work, 1, std::slice::from_ref(source), count);
    if found != expected {
        let what = format!("{}: found {found:?}, expected {expected:?}", work.name());
        return Err(Failure::Wrong { system: system.name(), what });
    }
    Ok(count as f64 / seconds)
}

/// A design of ours; the drain is timed.
fn ours<D: Design>(
    path: &Path,
    work: Work,
    durability: Durability,
    source: &Source,
    count: u64,
) -> Result<(f64, Content), Failure> {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = lastword::Options::new().medium(medium).durability(durability);
    let options = options.log_bytes(64 << 20);
    let ours = Ours::<D>::new(path, options, work)?;
    ours.checkpoint()?; // what was loaded is not timed
    let seconds = {
        let mut runner: Runner<'_> = ours.runner(0)?;
        time(source, count, |calls| runner(calls), || Ok(ours.checkpoint()?))?
    };
    let content = ours.contents()?.pop().expect("one structure");
    Ok((seconds, content))
}

fn time(
    source: &Source,
    count: u64,
    mut run: impl FnMut(&[Call]) -> Result<(), Failure>,
    end: impl FnOnce() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let (mut source, mut calls, mut left) = (source.clone(), [Call::default(); BATCH], count);
    let start = Instant::now();
    while left > 0 {
        let batch = &mut calls[..left.min(BATCH as u64) as usize];
        source.fill(batch);
        run(batch)?;
        left -= batch.len() as u64;
    }
    end()?;
    Ok(start.elapsed().as_secs_f64())
}

fn text(report: &Report) -> String {
    let header = ["work", "system", "tx/s (min to max)", "by libpmemobj", "target"];
    let rows = report.rows.iter().map(|row| {
        vec![
            row.work.name().to_owned(),
            row.system.name().to_owned(),
            row.transactions_per_second.text(short),
            row.by_libpmemobj.text(times),
            row.target.map_or_else(|| "-".into(), |target| format!(">= {}", times(target))),
        ]
    });
    format!("{}\n\n{}", report.conditions.text(), report::table(&header, 2, rows.collect()))
}
