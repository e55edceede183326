//! The calls of workers while a heap grows from 16 MiB.
//!
//! `growth [MIB] [RATE] [ROUNDS] [DESIGN] [emulated]`: one worker allocates values of 1000 bytes
//! at RATE MiB/s (0: as fast as it can) until the heap has MIB MiB, on medium `file` in this
//! directory or on `emulated` in /dev/shm. Beside it, another worker changes a word again and again
//! and waits each time until that is durable. For both it prints the longest call and the 99.9th
//! percentile: the median, least and greatest of the rounds. Calls that found the heap full have a
//! row of their own. The log has a fixed size, so that only the heap grows.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lastword::{
    Decoupled, Design, Medium, Objects, Options, Pool, Ptr, Redo, Snapshot, Stop, Undo,
};

const MIB: u64 = 1 << 20;

/// Words of a value.
const WORDS: usize = 125;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is = |name: &str| arguments.iter().any(|argument| argument == name);
    match () {
        () if is("snapshot") => measure::<Snapshot>(&arguments, is("emulated")),
        () if is("redo") => measure::<Redo>(&arguments, is("emulated")),
        () if is("undo") => measure::<Undo>(&arguments, is("emulated")),
        () => measure::<Decoupled>(&arguments, is("emulated")),
    }
}

/// The calls of one worker, sorted.
type Calls = Vec<Duration>;

fn measure<D: Design>(arguments: &[String], emulated: bool) -> Outcome<()> {
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let mut next = |default| numbers.next().unwrap_or(default);
    let (mib, rate, rounds) = (next(1024), next(0), next(5));
    let medium = match emulated {
        true => {
            Medium::Emulated { latency_cycles: 1000, bandwidth_bytes_per_second: 16_000_000_000 }
        }
        false => Medium::File,
    };
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(round::<D>(medium, mib, rate)?);
    }
    println!("{}, {medium:?}, 16 to {mib} MiB at {rate} MiB/s, {rounds} rounds", D::NAME);
    println!("| | calls | longest call, ms | p99.9, ms |");
    println!("|---|---|---|---|");
    let rows = ["allocates", "of these, found the heap full", "waits until durable"];
    for (which, name) in rows.into_iter().enumerate() {
        let calls = |measure: fn(&Calls) -> f64| all.iter().map(move |r| measure(&r[which]));
        let longest = spread(calls(|calls| millis(calls, 1.0)), 2);
        let p999 = spread(calls(|calls| millis(calls, 0.999)), 3);
        let count = spread(calls(|calls| calls.len() as f64), 0);
        println!("| {name} | {count} | {longest} | {p999} |");
    }
    Ok(())
}

fn millis(calls: &Calls, share: f64) -> f64 {
    let at = ((calls.len() as f64 * share) as usize).min(calls.len().saturating_sub(1));
    calls.get(at).map_or(0.0, |call| 1e3 * call.as_secs_f64())
}

/// Returns the median, and the least and the greatest.
fn spread(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => "-".into(),
        [least, .., most] | [least @ most] => {
            let median = values[values.len() / 2];
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        }
    }
}

/// Lets a pool grow. Returns the calls of the rows.
fn round<D: Design>(medium: Medium, mib: u64, rate: u64) -> Outcome<[Calls; 3]> {
    let dir = tempfile::tempdir_in(if medium == Medium::File { "." } else { "/dev/shm" })?;
    let options = Options::new().bytes(16 * MIB).log_bytes(64 * MIB).max_bytes(2 * mib * MIB);
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options.medium(medium))?;
    let [head, word] = pool.run(|tx| Ok([tx.alloc(0_u64)?, tx.alloc(0_u64)?]))?.value;
    let ends = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let waits = scope.spawn(|| wait(&pool, word, &ends));
        let allocates = allocate(&pool, head, mib * MIB, rate);
        ends.store(true, Ordering::Relaxed);
        let waits = waits.join().expect("the worker does not panic");
        let (all, full) = allocates?;
        Outcome::Ok([all, full, waits?])
    })?;
    pool.close()?;
    Ok(calls.map(|mut calls| {
        calls.sort_unstable();
        calls
    }))
}

/// Returns all calls, and those that found the heap full.
fn allocate<D: Design>(
    pool: &Pool<D>,
    head: Ptr<u64>,
    bytes: u64,
    rate: u64,
) -> Outcome<(Calls, Calls)> {
    let (mut worker, mut calls, mut full) = (pool.worker()?, Vec::new(), Vec::new());
    let begin = Instant::now();
    while pool.info().heap_bytes < bytes {
        // A batch between two looks at the clock and at the size.
        for _ in 0..64 {
            let (call, mut is_full) = (Instant::now(), false);
            let _ = worker.run(|tx| {
                let before: u64 = tx.get(head)?;
                let value = tx.alloc([before; WORDS]);
                is_full |= value.err() == Some(Stop::Full);
                tx.set(head, value?.to_bits())
            })?;
            calls.push(call.elapsed());
            full.extend(calls.last().filter(|_| is_full));
        }
        if rate > 0 {
            let due = Duration::from_secs_f64(calls.len() as f64 * 1000.0 / (rate * MIB) as f64);
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
    }
    Ok((calls, full))
}

fn wait<D: Design>(pool: &Pool<D>, word: Ptr<u64>, ends: &AtomicBool) -> Outcome<Calls> {
    let (mut worker, mut calls) = (pool.worker()?, Vec::new());
    while !ends.load(Ordering::Relaxed) {
        let call = Instant::now();
        worker.run(|tx| tx.update(word, |value: u64| value + 1))?.ticket.wait()?;
        calls.push(call.elapsed());
    }
    Ok(calls)
}
