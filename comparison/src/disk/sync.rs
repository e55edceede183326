//! `comparison disk --sync`: the cost of durability on return.
//!
//! One-record updates (`records.rs`), each durable when its call returns: Lastword's sync mode with
//! 1, 16 and 64 threads that share flushes, LMDB with its default flags and one thread (it has one
//! writer), and the disk itself: 4 KiB written with `O_DIRECT` and `RWF_DSYNC`, one at a time. All
//! in one directory, in interleaved slices of so many seconds.
//!
//! A slice ends with every record read: one thread's are the last written; several threads' records
//! must each be whole, as one of the transactions wrote it.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lastword::Durability;
use serde::Serialize;

use super::device;
use super::lmdb::{Commit, Lmdb};
use super::ours::{self, Session};
use super::records::{self, RECORDS, Script, Work};
use super::{Options, Store, check};
use crate::draw::Draw;
use crate::failure::Failure;
use crate::report::{self, Conditions, Figure, short, times};

/// Rows of the comparison: the disk, LMDB, and Lastword with these numbers of threads.
const THREADS: [usize; 3] = [1, 16, 64];

/// Results of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    rate: f64,
    /// Acknowledged transactions for each write to the device.
    shared: Option<f64>,
}

/// One row of the report.
#[derive(Debug, Serialize)]
struct Row {
    system: String,
    threads: usize,
    transactions_per_second: Figure,
    /// Threads by rate: how long one call takes, in microseconds.
    call_us: Figure,
    /// That by the time of the disk's own write in the same round.
    by_disk: Figure,
    transactions_per_device_write: Option<Figure>,
}

#[derive(Debug, Serialize)]
struct Report {
    conditions: Conditions,
    rows: Vec<Row>,
}

/// Makes the comparison and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let systems = 2 + THREADS.len();
    let mut slices = vec![Vec::new(); systems];
    for round in 0..options.rounds as usize {
        for i in 0..systems {
            let system = (round + i) % systems;
            let place = options.place()?;
            slices[system].push(slice(options, place.path(), system, round)?);
        }
    }
    let disk = slices[0].clone();
    let mut rows = vec![Row::new("4 KiB O_DIRECT + RWF_DSYNC", 1, &slices[0], &disk)];
    rows.push(Row::new("LMDB, synced", 1, &slices[1], &disk));
    for (threads, slices) in THREADS.into_iter().zip(&slices[2..]) {
        rows.push(Row::new("lastword decoupled, sync", threads, slices, &disk));
    }
    let conditions = Conditions::new(options.rounds as usize, options.seed);
    let report = Report { conditions, rows };
    report::print(options.format, &report, || text(&report))
}

fn slice(options: &Options, dir: &Path, system: usize, round: usize) -> Result<Slice, Failure> {
    let script = |thread| Script::new(Work::Update, Draw::new(options.seed, round, thread));
    match system {
        0 => {
            let us = device::write_us(dir, options.seconds)?;
            Ok(Slice { rate: 1e6 / us, shared: None })
        }
        1 => lmdb_slice(dir, script(0), options.seconds),
        _ => {
            let scripts: Vec<Script> = (0..THREADS[system - 2]).map(script).collect();
            lastword_slice(dir, &scripts, options.seconds)
        }
    }
}

fn lmdb_slice(dir: &Path, script: Script, seconds: f64) -> Result<Slice, Failure> {
    let mut store = Lmdb::create(dir, Commit::Synced)?;
    records::load(|puts| store.run(puts))?;
    let (mut running, mut puts) = (script.clone(), Vec::new());
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        running.next(&mut puts);
        store.run(&puts)?;
        count += 1;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    check(&mut store, &script.stamps_after(count))?;
    Ok(Slice { rate, shared: None })
}

fn lastword_slice(dir: &Path, scripts: &[Script], seconds: f64) -> Result<Slice, Failure> {
    // Loading waits for a flush every 100 records.
    let pool = ours::create(dir, RECORDS, Durability::Sync)?;
    let tree = ours::create_tree(&pool)?;
    let mut session = Session::new(&pool, tree)?;
    records::load(|puts| session.run(puts))?;
    session.drain()?;
    let before = pool.metrics().device_writes;
    let (barrier, stop) = (Barrier::new(scripts.len() + 1), AtomicBool::new(false));
    let client = |script: &Script| -> Result<u64, Failure> {
        let session = Session::new(&pool, tree);
        barrier.wait();
        let (mut session, mut running, mut puts) = (session?, script.clone(), Vec::new());
        let mut count = 0;
        // Relaxed: the flag carries nothing with it.
        while !stop.load(Ordering::Relaxed) {
            running.next(&mut puts);
            session.run(&puts)?;
            count += 1;
        }
        Ok(count)
    };
    let (counts, elapsed) = std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> =
            scripts.iter().map(|script| scope.spawn(move || client(script))).collect();
        barrier.wait();
        let start = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<u64, Failure>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let counts = threads.into_iter().map(join).collect::<Result<Vec<u64>, Failure>>();
        counts.map(|counts| (counts, start.elapsed().as_secs_f64()))
    })?;
    let count: u64 = counts.iter().sum();
    let writes = pool.metrics().device_writes - before;
    match scripts {
        [script] => check(&mut session, &script.clone().stamps_after(count))?,
        _ => check_whole(&mut session, counts.iter().copied().max().unwrap_or(0))?,
    }
    drop(session);
    pool.close()?;
    let shared = (writes > 0).then(|| count as f64 / writes as f64);
    Ok(Slice { rate: count as f64 / elapsed, shared })
}

/// Checks that every record is from one of the first `most` transactions of a thread for its key.
fn check_whole<S: Store>(store: &mut S, most: u64) -> Result<(), Failure> {
    for index in 0..RECORDS {
        let key = records::key(index);
        let found = store.get(key)?;
        let is_whole =
            |found: records::Record| found[1] <= most && found == records::record(key, found[1]);
        if !found.is_some_and(is_whole) {
            let what = format!("record {index}: {found:?} is none that was written");
            return Err(Failure::Wrong { system: S::NAME, what });
        }
    }
    Ok(())
}

impl Row {
    fn new(system: &str, threads: usize, slices: &[Slice], disk: &[Slice]) -> Row {
        let call = |slice: &Slice| threads as f64 * 1e6 / slice.rate;
        let by = slices.iter().zip(disk).map(|(slice, disk)| call(slice) * disk.rate / 1e6);
        let shared: Option<Vec<f64>> = slices.iter().map(|slice| slice.shared).collect();
        Row {
            system: system.to_owned(),
            threads,
            transactions_per_second: Figure::of(slices.iter().map(|slice| slice.rate)),
            call_us: Figure::of(slices.iter().map(call)),
            by_disk: Figure::of(by),
            transactions_per_device_write: shared.map(Figure::of),
        }
    }
}

fn text(report: &Report) -> String {
    let header = ["system", "threads", "tx/s (min to max)", "us a call", "by the disk", "tx/write"];
    let rows = report.rows.iter().map(|row| {
        let shared = row.transactions_per_device_write;
        vec![
            row.system.clone(),
            row.threads.to_string(),
            row.transactions_per_second.text(short),
            row.call_us.text(|us| format!("{us:.0}")),
            row.by_disk.text(times),
            shared.map_or_else(|| "-".into(), |shared| shared.text(|n| format!("{n:.2}"))),
        ]
    });
    let table = report::table(&header, 1, rows.collect());
    format!("{}\n{table}", report.conditions.text())
}
