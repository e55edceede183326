//! One run: load a store, let the workers run for a time, and check what they wrote.
//!
//! ```text
//!   load, sync | workers run for so many seconds        | close | open, check, close
//!              | device, own counts, CPU, tally, samples| clock | clock
//!
//!   with --kill:                                        | workers go on, SIGKILL | open, check ...
//! ```
//!
//! Every worker reads the clock once a transaction, for every system. Once a millisecond it offers
//! its last transaction as a sample of the time to durability, which only Lastword reports.

use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::syncfs;
use serde::{Deserialize, Serialize};

use super::Setup;
use super::progress::Progress;
use super::record::{self, Stamp};
use super::script::{Script, WRITES};
use super::store::{Session, Store};
use super::tally::{Tally, Total, percentile};
use crate::disk::cpu_ns;
use crate::disk::device::Counter;
use crate::draw::Draw;
use crate::failure::Failure;

/// Time between two samples of a worker.
const SAMPLED_EVERY: Duration = Duration::from_millis(1);

/// Records that a check reads at random.
const CHECKED_RECORDS: u64 = 10_000;

/// Transactions of each worker whose records a check reads: as many first and as many last ones.
const CHECKED_TRANSACTIONS: u64 = 2500;

/// Results of the timed part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Timed {
    /// Transactions of all workers.
    pub(crate) transactions: u64,
    /// The same for each worker.
    pub(crate) by_worker: Vec<u64>,
    /// The same for each whole second.
    pub(crate) by_second: Vec<u64>,
    /// Transactions by the time until the last worker's last transaction ended.
    pub(crate) rate: f64,
    /// The longest call of all workers.
    pub(crate) longest_ms: f64,
    /// The time from commit to durability that 99.9 % of the samples do not exceed.
    pub(crate) durable_ms: Option<f64>,
    /// CPU time of all threads for a transaction, the kernel's own threads left out.
    pub(crate) cpu_us: f64,
    /// Bytes to the device by bytes changed.
    pub(crate) device: Option<f64>,
    /// Bytes of the store's log by bytes changed.
    pub(crate) own_log: Option<f64>,
    /// Bytes of the store's heap image by bytes changed.
    pub(crate) own_heap: Option<f64>,
    /// Bytes that the device had written when loading ended, by the kernel's count.
    device_before: Option<u64>,
}

#[cfg(test)]
impl Timed {
    /// Returns the results of a run with these transactions alone.
    pub(crate) fn for_tests(transactions: u64, seconds: f64, by_second: Vec<u64>) -> Timed {
        Timed {
            transactions,
            by_worker: vec![transactions],
            by_second,
            rate: transactions as f64 / seconds,
            longest_ms: 0.0,
            durable_ms: None,
            cpu_us: 0.0,
            device: None,
            own_log: None,
            own_heap: None,
            device_before: None,
        }
    }
}

/// Results of closing a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    pub(crate) seconds: f64,
    /// Bytes to the device by bytes changed, from the end of loading until the file system was
    /// synced after the close.
    pub(crate) device: Option<f64>,
}

/// Loads a store, runs the workers, and closes it.
pub(crate) fn closed<S: Store>(dir: &Path, setup: &Setup) -> Result<(Timed, Closed), Failure> {
    let store = loaded::<S>(dir, setup)?;
    let (mut timed, _) = measured(&store, dir, setup)?;
    let start = Instant::now();
    // Within the clock: it waits for the last commits, as the close would.
    timed.durable_ms = durable_ms(&store)?;
    store.close()?;
    let seconds = start.elapsed().as_secs_f64();
    sync(dir)?;
    let written = Counter::of(dir).bytes_written();
    let device = setup.by_changed(timed.device_before, written, timed.transactions);
    Ok((timed, Closed { seconds, device }))
}

/// Loads a store and runs the workers. Passes the results on and lets the workers run until the
/// process is killed.
pub(crate) fn endless<S: Store>(
    dir: &Path,
    setup: &Setup,
    report: impl FnOnce(&Timed) -> Result<(), Failure>,
) -> Result<Infallible, Failure> {
    let store = loaded::<S>(dir, setup)?;
    let (mut timed, scripts) = measured(&store, dir, setup)?;
    timed.durable_ms = durable_ms(&store)?;
    report(&timed)?;
    let (_, _) = workers(&store, scripts, None)?;
    Err(Failure::Child { what: "the workers ended by themselves".into() })
}

/// Opens a store again and checks it. Returns the seconds until its first record was read.
pub(crate) fn reopened<S: Store>(dir: &Path, setup: &Setup, timed: &Timed) -> Result<f64, Failure> {
    let start = Instant::now();
    let store = S::open(dir, setup)?;
    let mut session = store.session()?;
    stamp::<S>(&mut session, setup, 0)?;
    let seconds = start.elapsed().as_secs_f64();
    check::<S>(&mut session, setup, &timed.by_worker)?;
    drop(session);
    store.close()?;
    Ok(seconds)
}

/// Returns a new store with all records in place, and the file system synced.
fn loaded<S: Store>(dir: &Path, setup: &Setup) -> Result<S, Failure> {
    let store = S::create(dir, setup)?;
    let mut progress = Progress::new(setup.records);
    store.load(setup, &mut progress)?;
    sync(dir)?;
    progress.done();
    Ok(store)
}

/// Runs the workers for the time of the setup. Returns their scripts to go on from.
fn measured<S: Store>(
    store: &S,
    dir: &Path,
    setup: &Setup,
) -> Result<(Timed, Vec<Script>), Failure> {
    let scripts = (0..setup.workers).map(|worker| Script::new(setup, worker)).collect();
    let (counter, own_before) = (Counter::of(dir), store.own_bytes());
    let (device_before, cpu_before) = (counter.bytes_written(), cpu_ns());
    let (tallies, scripts) = workers(store, scripts, Some(setup.seconds))?;
    let (cpu, device_after) = (cpu_ns() - cpu_before, counter.bytes_written());
    let (own_after, total) = (store.own_bytes(), Total::of(&tallies, setup.seconds));
    let own = |of: fn(super::store::OwnBytes) -> u64| {
        setup.by_changed(own_before.map(of), own_after.map(of), total.transactions)
    };
    let timed = Timed {
        transactions: total.transactions,
        by_worker: tallies.iter().map(Tally::count).collect(),
        rate: total.transactions as f64 / total.seconds,
        longest_ms: total.longest_ms,
        durable_ms: None,
        cpu_us: cpu as f64 / 1e3 / total.transactions as f64,
        device: setup.by_changed(device_before, device_after, total.transactions),
        own_log: own(|bytes| bytes.log),
        own_heap: own(|bytes| bytes.heap),
        by_second: total.by_second,
        device_before,
    };
    Ok((timed, scripts))
}

fn durable_ms<S: Store>(store: &S) -> Result<Option<f64>, Failure> {
    Ok(store.durable_ms()?.and_then(|mut samples| percentile(&mut samples, 0.999)))
}

/// Writes everything that the kernel holds for the file system of a directory.
fn sync(dir: &Path) -> Result<(), Failure> {
    let synced = File::open(dir).and_then(|dir| Ok(syncfs(dir)?));
    synced.map_err(Failure::io("syncing the file system"))
}

/// Runs one worker for each script, for so many seconds or without an end.
fn workers<S: Store>(
    store: &S,
    scripts: Vec<Script>,
    seconds: Option<f64>,
) -> Result<(Vec<Tally>, Vec<Script>), Failure> {
    let (barrier, start) = (Barrier::new(scripts.len()), OnceLock::new());
    let worker = |mut script: Script| -> Result<(Tally, Script), Failure> {
        let session = store.session();
        barrier.wait();
        let start = *start.get_or_init(Instant::now);
        let end = seconds.map(|seconds| start + Duration::from_secs_f64(seconds));
        let worked = work(&mut session?, &mut script, start, end);
        if let (Err(failure), None) = (&worked, seconds) {
            // The other workers have no end, so no thread would see this one's error.
            eprintln!("comparison: {failure}");
            std::process::exit(2);
        }
        Ok((worked?, script))
    };
    std::thread::scope(|scope| {
        let worker = &worker;
        let spawn = |script| scope.spawn(move || worker(script));
        let threads: Vec<_> = scripts.into_iter().map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(Tally, Script), Failure>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// The timed loop, the same for every system.
fn work<S: Session>(
    session: &mut S,
    script: &mut Script,
    start: Instant,
    end: Option<Instant>,
) -> Result<Tally, Failure> {
    let mut tally = Tally::new(start, Instant::now());
    let mut sampled = start;
    loop {
        session.replace(script.next())?;
        let now = Instant::now();
        tally.ended(now);
        if now - sampled >= SAMPLED_EVERY {
            sampled = now;
            session.sample(now)?;
            tally.begins(Instant::now());
        }
        if end.is_some_and(|end| now >= end) {
            return Ok(tally);
        }
    }
}

/// Checks records at random, and those of each worker's first and last transactions: all are whole,
/// and no commit is lost. The timed part ended with all of its commits durable, or in the page cache,
/// which outlives the process.
fn check<S: Store>(
    session: &mut S::Session<'_>,
    setup: &Setup,
    by_worker: &[u64],
) -> Result<(), Failure> {
    let mut draw = Draw::new(setup.seed, setup.round, record::WORKERS_MAX);
    for _ in 0..CHECKED_RECORDS {
        let (index, workers) = (draw.below(setup.records), setup.workers);
        let stamp = stamp::<S>(session, setup, index)?;
        if stamp.worker().is_some_and(|worker| worker >= workers) {
            return Err(wrong::<S>(index, &format!("of {stamp}, and there is no such worker")));
        }
    }
    for (worker, transactions) in by_worker.iter().enumerate() {
        let mut script = Script::new(setup, worker);
        for number in 0..*transactions {
            let (indices, committed): ([u64; WRITES], Stamp) = script.advance();
            let is_checked =
                number < CHECKED_TRANSACTIONS || number + CHECKED_TRANSACTIONS >= *transactions;
            for index in indices.into_iter().filter(|_| is_checked) {
                let found = stamp::<S>(session, setup, index)?;
                if !found.may_follow(committed) {
                    let what = format!("of {found}, after a commit of {committed}");
                    return Err(wrong::<S>(index, &what));
                }
            }
        }
    }
    Ok(())
}

/// Reads a record and returns its stamp.
fn stamp<S: Store>(
    session: &mut S::Session<'_>,
    setup: &Setup,
    index: u64,
) -> Result<Stamp, Failure> {
    let mut words = vec![0; setup.record_words];
    let is_there = session.read(index, &mut words)?;
    let stamp = if is_there { record::read(&words, index) } else { None };
    stamp.ok_or_else(|| wrong::<S>(index, "missing, torn, or of another index"))
}

fn wrong<S: Store>(index: u64, what: &str) -> Failure {
    Failure::Wrong { system: S::SYSTEM.name(), what: format!("record {index}: {what}") }
}
