//! `comparison disk`: throughput of an ordered, durable store beside the fastest store without
//! either.
//!
//! Lastword's `decoupled` design, asynchronous, on an ordinary file, keeps the order of commits and
//! reports durability by tickets. LMDB with `MDB_NOSYNC | MDB_WRITEMAP` stores into the page cache
//! and leaves it to the kernel. The work is the same: the same keys and records in the same order
//! (`records.rs`), one thread, an ordered index on both sides. For each slice a store is created
//! and loaded in one directory, and synced before the clock starts.
//!
//! Lastword's clock runs until everything is reproduced (`checkpoint`), and the log of 64 MiB must
//! wrap three times. LMDB's rate is taken both ways: until its last commit, with nothing synced,
//! and until `mdb_env_sync` returns. `by LMDB` divides Lastword's rate until everything is
//! reproduced by LMDB's until the last commit: the comparison hardest on Lastword.
//!
//! Bytes written are those that the kernel sent to the device, from the whole machine; Lastword's
//! own count is shown beside it. A slice ends with every record read and compared.

pub(crate) mod device;
pub(crate) mod lmdb;
mod ours;
mod records;
mod stalls;
pub(crate) mod sync;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, value_parser};
use lastword::Durability;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::draw::Draw;
use crate::failure::Failure;
use crate::report::{self, Conditions, Figure, Format, short, times};
use device::Counter;
use lmdb::{Commit, Lmdb};
use records::{Put, RECORDS, Record, Script, Work};
use stalls::Stalls;

/// Minimum number of log wraps.
const WRAPS_LEAST: f64 = 3.0;

/// How many times LMDB's rate DESIGN asks for.
const TARGET: f64 = 3.0;

/// Options of `comparison disk`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Make each commit durable on return, instead of in the background.
    #[arg(long)]
    pub(crate) sync: bool,
    /// Work to run (not with --sync, which runs updates).
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [Work::Update, Work::Mixed])]
    work: Vec<Work>,
    /// Directory that the stores are made in, and removed from.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Rounds: in each one all run, beginning with another one.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Length of a slice: with --sync in seconds; else in transactions, 2 000 000 updates or
    /// 100 000 of the others for each.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Seed of keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For people or for programs.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Options {
    /// A directory for one slice; it goes when it is dropped.
    fn place(&self) -> Result<tempfile::TempDir, Failure> {
        let made = tempfile::Builder::new().prefix("comparison-").tempdir_in(&self.dir);
        made.map_err(Failure::io("making a directory for a store"))
    }
}

/// One thread's way to a store of records.
pub(crate) trait Store {
    /// For the report.
    const NAME: &'static str;

    /// Writes these records in one transaction.
    fn run(&mut self, puts: &[Put]) -> Result<(), Failure>;

    /// On return everything is where it belongs, on the disk.
    fn drain(&mut self) -> Result<(), Failure>;

    /// Reads a record.
    fn get(&mut self, key: u64) -> Result<Option<Record>, Failure>;

    /// Returns the store's own counters.
    fn counts(&self) -> Counts;
}

/// Counters of a store since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Bytes sent to the device.
    pub(crate) bytes: Option<u64>,
    /// Log wraps.
    pub(crate) log_wraps: Option<f64>,
}

/// Results of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    commit_rate: f64,
    drained_rate: f64,
    cpu_us: f64,
    device_amplification: Option<f64>,
    own_amplification: Option<f64>,
    log_wraps: Option<f64>,
    worst_window: Option<f64>,
    longest_ms: f64,
}

/// One row of the report.
#[derive(Debug, Serialize)]
struct Row {
    work: Work,
    system: &'static str,
    transactions: u64,
    /// Until the last commit.
    commits_per_second: Figure,
    /// Until all data are durable in place: applied to the heap image, or synced.
    drained_per_second: Figure,
    /// Drained rate by LMDB's commit rate of the same round.
    by_lmdb: Figure,
    /// Drained rate by LMDB's drained rate of the same round.
    by_lmdb_drained: Figure,
    target: Option<f64>,
    /// CPU time of all threads for a transaction, the drain included, in microseconds.
    cpu_us: Figure,
    /// Bytes that the device was sent by bytes of changed user data.
    device_amplification: Option<Figure>,
    /// The same by the store's own count.
    own_amplification: Option<Figure>,
    log_wraps: Option<Figure>,
    /// Fewest transactions in any 100 ms, of all rounds.
    worst_window: Option<f64>,
    /// Longest time without a commit, of all rounds, in milliseconds.
    longest_stall_ms: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    conditions: Conditions,
    log_bytes: u64,
    rows: Vec<Row>,
}

/// Makes the comparisons and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for &work in &options.work {
        rows.extend(compare(options, work)?);
    }
    let conditions = Conditions::new(options.rounds as usize, options.seed);
    let report = Report { conditions, log_bytes: ours::LOG_BYTES, rows };
    report::print(options.format, &report, || text(&report))
}

fn compare(options: &Options, work: Work) -> Result<[Row; 2], Failure> {
    let transactions = (work.per_second() * options.seconds).max(1.0) as u64;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..options.rounds as usize {
        let script = Script::new(work, Draw::new(options.seed, round, 0));
        for i in 0..2 {
            let place = options.place()?;
            if (round + i) % 2 == 0 {
                ours.push(lastword_slice(place.path(), script.clone(), work, transactions)?);
            } else {
                let mut store = Lmdb::create(place.path(), Commit::Unsynced)?;
                theirs.push(slice(&mut store, place.path(), script.clone(), work, transactions)?);
            }
        }
    }
    let row = |system, slices: &[Slice]| Row::new(work, system, transactions, slices, &theirs);
    let lastword = row("lastword decoupled", &ours);
    Ok([Row { target: Some(TARGET), ..lastword }, row("LMDB NOSYNC WRITEMAP", &theirs)])
}

fn lastword_slice(
    dir: &Path,
    script: Script,
    work: Work,
    transactions: u64,
) -> Result<Slice, Failure> {
    let records = RECORDS + work.puts().1 * transactions;
    let pool = ours::create(dir, records, Durability::Async)?;
    let tree = ours::create_tree(&pool)?;
    let mut session = ours::Session::new(&pool, tree)?;
    let slice = slice(&mut session, dir, script, work, transactions)?;
    drop(session);
    pool.close()?;
    match slice.log_wraps {
        Some(wraps) if wraps < WRAPS_LEAST => Err(Failure::ShortRun { wraps }),
        _ => Ok(slice),
    }
}

/// Loads, runs, drains and checks one store.
fn slice<S: Store>(
    store: &mut S,
    dir: &Path,
    script: Script,
    work: Work,
    transactions: u64,
) -> Result<Slice, Failure> {
    records::load(|puts| store.run(puts))?;
    store.drain()?;
    let (device, before) = (Counter::of(dir), store.counts());
    let (bytes_before, cpu_before) = (device.bytes_written(), cpu_ns());
    // Looking at the clock for one transaction of a few hundred nanoseconds would be a part of it.
    let stride = if work == Work::Update { 8 } else { 1 };
    let (mut running, mut puts) = (script.clone(), Vec::new());
    let mut stalls = Stalls::begin();
    let (start, mut left) = (Instant::now(), transactions);
    while left > 0 {
        let run = left.min(stride);
        for _ in 0..run {
            running.next(&mut puts);
            store.run(&puts)?;
        }
        left -= run;
        stalls.committed(run as u32);
    }
    let committed = start.elapsed().as_secs_f64();
    store.drain()?;
    let drained = start.elapsed().as_secs_f64();
    let (cpu, bytes, after) = (cpu_ns() - cpu_before, device.bytes_written(), store.counts());
    check(store, &script.stamps_after(transactions))?;
    let user = (work.user_bytes() * transactions) as f64;
    let by_user = |before: Option<u64>, after: Option<u64>| Some((after? - before?) as f64 / user);
    Ok(Slice {
        commit_rate: transactions as f64 / committed,
        drained_rate: transactions as f64 / drained,
        cpu_us: cpu as f64 / 1e3 / transactions as f64,
        device_amplification: by_user(bytes_before, bytes),
        own_amplification: by_user(before.bytes, after.bytes),
        log_wraps: after.log_wraps.zip(before.log_wraps).map(|(after, before)| after - before),
        worst_window: stalls.worst_window().map(|count| count as f64),
        longest_ms: stalls.longest_ms(),
    })
}

/// Checks that every record is the last writer's.
fn check<S: Store>(store: &mut S, stamps: &[u64]) -> Result<(), Failure> {
    for (index, stamp) in (0..).zip(stamps) {
        let key = records::key(index);
        let (found, expected) = (store.get(key)?, records::record(key, *stamp));
        if found != Some(expected) {
            let what = format!("record {index}: found {found:?}, expected {expected:?}");
            return Err(Failure::Wrong { system: S::NAME, what });
        }
    }
    Ok(())
}

/// CPU time of all threads of this process.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Row {
    fn new(
        work: Work,
        system: &'static str,
        transactions: u64,
        slices: &[Slice],
        lmdb: &[Slice],
    ) -> Row {
        let figure = |of: fn(&Slice) -> f64| Figure::of(slices.iter().map(of));
        let option = |of: fn(&Slice) -> Option<f64>| {
            let found: Option<Vec<f64>> = slices.iter().map(of).collect();
            found.map(Figure::of)
        };
        let by = |of: fn(&Slice) -> f64| {
            Figure::of(slices.iter().zip(lmdb).map(|(slice, lmdb)| slice.drained_rate / of(lmdb)))
        };
        Row {
            work,
            system,
            transactions,
            commits_per_second: figure(|slice| slice.commit_rate),
            drained_per_second: figure(|slice| slice.drained_rate),
            by_lmdb: by(|lmdb| lmdb.commit_rate),
            by_lmdb_drained: by(|lmdb| lmdb.drained_rate),
            target: None,
            cpu_us: figure(|slice| slice.cpu_us),
            device_amplification: option(|slice| slice.device_amplification),
            own_amplification: option(|slice| slice.own_amplification),
            log_wraps: option(|slice| slice.log_wraps),
            worst_window: option(|slice| slice.worst_window).map(|figure| figure.min),
            longest_stall_ms: figure(|slice| slice.longest_ms).max,
        }
    }

    /// Returns the printed cells, a line for each figure.
    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let option = |figure: Option<Figure>, unit: &str| {
            figure.map_or_else(none, |f| f.text(|n| format!("{n:.2}{unit}")))
        };
        vec![
            self.work.name().to_owned(),
            self.system.to_owned(),
            self.commits_per_second.text(short),
            self.drained_per_second.text(short),
            self.by_lmdb.text(times),
            self.by_lmdb_drained.text(times),
            self.target.map_or_else(none, |target| format!(">= {}", times(target))),
            self.cpu_us.text(|n| format!("{n:.2} us")),
            option(self.device_amplification, "x"),
            option(self.own_amplification, "x"),
            option(self.log_wraps, ""),
            self.worst_window.map_or_else(none, short),
            format!("{:.1} ms", self.longest_stall_ms),
        ]
    }
}

/// Figures are rows here, and the systems columns: there are many of the one and few of the other.
fn text(report: &Report) -> String {
    let names = [
        "transaction",
        "system",
        "tx/s until the last commit",
        "tx/s until all data are in place",
        "  by LMDB until the last commit",
        "  by LMDB synced as well",
        "target",
        "CPU for a transaction",
        "bytes to device / user data",
        "the same, own count",
        "log wraps",
        "worst 100 ms, tx",
        "longest stall",
    ];
    let columns: Vec<Vec<String>> = report.rows.iter().map(Row::cells).collect();
    let line = |i: usize| columns.iter().map(move |column| column[i].clone());
    let rows = (1..names.len()).map(|i| [names[i].to_owned()].into_iter().chain(line(i)).collect());
    let header: Vec<String> = [names[0].to_owned()].into_iter().chain(line(0)).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let table = report::table(&header, 1, rows.collect());
    let log = report.log_bytes >> 20;
    format!("{}\nlog {log} MiB; figures are median (min to max)\n{table}", report.conditions.text())
}
