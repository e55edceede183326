//! The cost of page checksums: pools with and without, in interleaved rounds.
//!
//! `page_checksums [MIB] [SECONDS] [ROUNDS]` measures one worker that sets four random words of an
//! array in each transaction, on medium `file` and on emulated memory without delay, and then the
//! checkpoint, the clean shutdown and the next opening. It prints the medians, and the median of
//! the rounds' ratios.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use lastword::{Array, Decoupled, Design, Medium, Objects, Options, Pool, Undo};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Words that one transaction sets.
const WRITES: u64 = 4;

/// The result of a round: transactions and CPU seconds of the process, and the later steps.
#[derive(Clone, Copy, Debug)]
struct Round {
    per_second: f64,
    cpu_us: f64,
    checkpoint: f64,
    close: f64,
    open: f64,
}

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn main() -> Outcome<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let mut next = |default| numbers.next().unwrap_or(default);
    let (mib, seconds, rounds) = (next(256), next(5), next(5));
    println!("heap of {mib} MiB, {rounds} rounds of {seconds} s; without and with checksums");
    println!("| pool | tx/s | CPU, us/tx | checkpoint, s | close, s | open, s |");
    println!("|---|---|---|---|---|---|");
    let (size, time) = (mib << 20, Duration::from_secs(seconds));
    compare::<Decoupled>("decoupled, file", (size, time, rounds), Medium::File)?;
    compare::<Decoupled>("decoupled, emulated", (size, time, rounds), EMULATED)?;
    compare::<Undo>("undo, emulated", (size, time, rounds), EMULATED)
}

/// Measures a design on a medium, and prints a row.
fn compare<D: Design>(
    name: &str,
    (size, time, rounds): (u64, Duration, u64),
    medium: Medium,
) -> Outcome<()> {
    let dir = match medium {
        Medium::File => tempfile::tempdir_in(".")?,
        _ => tempfile::tempdir_in("/dev/shm")?,
    };
    let paths = [false, true].map(|sums| dir.path().join(if sums { "with" } else { "without" }));
    let options = Options::new().bytes(size).medium(medium);
    for (path, sums) in paths.iter().zip([false, true]) {
        let pool = Pool::<D>::create_as(path, options.clone().page_checksums(sums))?;
        // An array takes 272 bytes for each 256, and the allocator some more.
        let len = size / 8 / 10 * 9;
        let array = pool.run(|tx| Array::<u64>::reserve(tx, len))?.value;
        while !pool.run(|tx| array.prepare(tx, 1000))?.value {}
        let _ = pool.run(|tx| {
            let root = tx.alloc(array)?;
            tx.set_root_ptr(root)
        })?;
        pool.close()?;
    }
    let mut pairs = Vec::new();
    for round in 0..rounds {
        let both = [0, 1].map(|turn| (turn + round) % 2 == 0);
        let mut pair = [None; 2];
        for first in both {
            let which = usize::from(first);
            pair[which] = Some(measure::<D>(&paths[which], time)?);
        }
        pairs.push(pair.map(|round| round.expect("both were measured")));
    }
    let column = |field: fn(&Round) -> f64, digits: usize| {
        let of = |which: usize| median(pairs.iter().map(|pair| field(&pair[which])));
        let ratio = median(pairs.iter().map(|pair| field(&pair[1]) / field(&pair[0])));
        format!("{:.digits$}, {:.digits$} ({ratio:.3})", of(0), of(1))
    };
    let columns = [
        column(|round| round.per_second, 0),
        column(|round| round.cpu_us, 2),
        column(|round| round.checkpoint, 3),
        column(|round| round.close, 3),
        column(|round| round.open, 3),
    ];
    println!("| {name} | {} |", columns.join(" | "));
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Opens the pool, writes random words for a time, and closes it.
fn measure<D: Design>(path: &Path, time: Duration) -> Outcome<Round> {
    let begin = Instant::now();
    let pool = Pool::<D>::open_as(path, Options::new())?;
    let open = begin.elapsed().as_secs_f64();
    let array = pool.run(|tx| {
        let root = tx.root_ptr::<Array<u64>>()?;
        tx.get(root)
    })?;
    let array = array.value;
    let mut worker = pool.worker()?;
    let (begin, cpu, mut done) = (Instant::now(), cpu_time(), 0_u64);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    while begin.elapsed() < time {
        for _ in 0..64 {
            let from = seed;
            let _ = worker.run(|tx| {
                seed = from;
                for _ in 0..WRITES {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    tx.set(array.at(seed % array.len())?, seed)?;
                }
                Ok(())
            })?;
        }
        done += 64;
    }
    let written = begin.elapsed().as_secs_f64();
    drop(worker);
    let begin = Instant::now();
    pool.checkpoint()?;
    let checkpoint = begin.elapsed().as_secs_f64();
    let cpu_us = 1e6 * (cpu_time() - cpu) / done as f64;
    let begin = Instant::now();
    pool.close()?;
    let close = begin.elapsed().as_secs_f64();
    Ok(Round { per_second: done as f64 / written, cpu_us, checkpoint, close, open })
}

/// Returns the CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // The fields 14 and 15, in ticks of 10 ms.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
