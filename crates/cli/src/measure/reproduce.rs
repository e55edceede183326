//! Question: how many entries a second does one thread persist from the workers' rings to the log,
//! and how many does it reproduce, alone or with others?
//!
//! An entry is a word written by a transaction; a transaction writes four. First all workers fill
//! their rings, while no thread runs the background steps. Then one thread runs the steps until
//! nothing is left, as the background thread does: it merges groups by transaction ID, appends them
//! to the log, and runs a reproduce step after every megabyte of log. The emulated medium has no
//! latency and no bound on its bandwidth. So the benchmark measures the processor's work: merge,
//! checksum, copies, stores, write-backs and fences. Only the steps are timed.
//!
//! Times are CPU times of that thread. With `--reproduce-threads` other threads reproduce parts,
//! and the time is wall-clock time. They poll for parts without sleeping, so no wake-up is
//! measured. The CPU time then covers all threads, without polls that found nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use lastword::{Allocate, Array, Decoupled, Error, Medium, Objects, Options, Pool, Stop, Worker};
use medium::cpu;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use serde::Serialize;
use words::{BLOCK_BYTES, BLOCK_STRIDE};

use super::Origin;
use crate::args::{Format, MeasureReproduce};
use crate::failure::Failure;
use crate::report::{OverRounds, json, print, progress, ratio, table};
use crate::temporary::Temporary;

const QUESTION: &str =
    "how many entries a second does one thread persist to the log, and reproduce?";

/// Words that a transaction writes.
const WORDS: u64 = 4;

/// Maximum ring words of a transaction: its record's header, and a header for each word.
const RING_WORDS: u64 = 4 + 2 * WORDS;

/// Bytes of log between two reproduce steps: the pool's own threshold on this medium.
const DUE_BYTES: u64 = 1 << 20;

/// Blocks that one transaction initializes.
const BLOCKS: u64 = 4096;

/// Words in a block.
const BLOCK_WORDS: u64 = BLOCK_BYTES / 8;

/// Bytes of a full group.
const GROUP_BYTES: u64 = 256 << 10;

/// Result of the benchmark.
#[derive(Debug, Serialize)]
struct Report {
    question: &'static str,
    #[serde(flatten)]
    origin: Origin,
    entries: u64,
    words_per_transaction: u64,
    heap_bytes: u64,
    log_bytes: u64,
    /// The Zipf exponent; `None`: uniform.
    zipf: Option<f64>,
    threads: usize,
    reproduce_threads: usize,
    rounds: u64,
    /// Merge and log.
    persist_entries_per_second: OverRounds,
    reproduce_entries_per_second: OverRounds,
    both_entries_per_second: OverRounds,
    /// CPU time of all threads for one reproduced entry.
    reproduce_cpu_ns_per_entry: OverRounds,
}

pub(super) fn run(arguments: &MeasureReproduce) -> Result<(), Failure> {
    let MeasureReproduce { bytes, log_bytes, zipf, threads, rounds, output, .. } = *arguments;
    let transactions = arguments.entries.div_ceil(WORDS * threads as u64);
    let place = Temporary::new(true);
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new()
        .bytes(bytes)
        .log_bytes(log_bytes)
        .ring_entries(transactions * RING_WORDS / 2 + BLOCKS * RING_WORDS)
        .medium(medium)
        .reproduce_threads(arguments.reproduce_threads)
        .background(false);
    let pool = Pool::create(place.path(), options)?;
    let mut workers = (0..threads).map(|_| pool.worker()).collect::<Result<Vec<_>, _>>()?;
    let array = array(&pool, &mut workers[0])?;
    let mut times = Vec::new();
    let bar = progress::bar("rounds", rounds);
    for round in 0..rounds {
        fill(&mut workers, array, transactions, zipf, round)?;
        times.push(drain_with(pool.design(), arguments.reproduce_threads)?);
        bar.inc();
    }
    bar.finish();
    let entries = transactions * WORDS * threads as u64;
    let rate = |ns: &dyn Fn(&Times) -> u64| {
        OverRounds::of(times.iter().map(|t| ratio(1e9 * entries as f64, ns(t) as f64)).collect())
    };
    let report = Report {
        question: QUESTION,
        origin: Origin::this(),
        entries,
        words_per_transaction: WORDS,
        heap_bytes: pool.info().heap_bytes,
        log_bytes: pool.info().log_bytes,
        zipf,
        threads,
        reproduce_threads: arguments.reproduce_threads,
        rounds,
        persist_entries_per_second: rate(&|times| times.persist_ns),
        reproduce_entries_per_second: rate(&|times| times.reproduce_ns),
        both_entries_per_second: rate(&|times| times.persist_ns + times.reproduce_ns),
        reproduce_cpu_ns_per_entry: OverRounds::of(
            times.iter().map(|t| ratio(t.reproduce_cpu_ns as f64, entries as f64)).collect(),
        ),
    };
    drop(workers);
    pool.abandon();
    print(&match output.format {
        Format::Json => json::object(&report),
        Format::Table => show(&report),
    })
}

/// Creates an array that fills the heap, fully reproduced.
fn array(pool: &Pool, worker: &mut Worker<'_>) -> Result<Array<u64>, Error> {
    // The first 80 KiB belong to the allocator.
    let blocks = pool.info().heap_bytes.saturating_sub(2 * (64 << 10)) / BLOCK_STRIDE;
    let words = blocks.max(1) * BLOCK_WORDS;
    let array = worker.run(|tx| Array::<u64>::reserve(tx, words))?.value;
    while !worker.run(|tx| array.prepare(tx, BLOCKS))?.value {
        pool.checkpoint()?;
    }
    pool.checkpoint()?;
    Ok(array)
}

/// Runs every worker's transactions, one thread each.
fn fill(
    workers: &mut [Worker<'_>],
    array: Array<u64>,
    transactions: u64,
    zipf: Option<f64>,
    round: u64,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (index, worker) in workers.iter_mut().enumerate() {
            let mut addresses = Addresses::new(array.len(), zipf, round << 16 | index as u64);
            handles.push(crate::start_barrier::spawn(scope, move || {
                for number in 0..transactions {
                    let places: [u64; WORDS as usize] = std::array::from_fn(|_| addresses.draw());
                    let _ = worker.run(|tx| write(tx, array, &places, number))?;
                }
                Ok(())
            })?);
        }
        handles.into_iter().try_for_each(|handle| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn write<T: Allocate>(
    tx: &mut T,
    array: Array<u64>,
    places: &[u64],
    value: u64,
) -> Result<(), Stop> {
    places.iter().try_for_each(|&place| tx.set(array.at(place)?, value))
}

/// Times of the steps.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    persist_ns: u64,
    reproduce_ns: u64,
    reproduce_cpu_ns: u64,
}

/// Runs the steps until nothing is left, beside threads that reproduce parts.
fn drain_with(design: &Decoupled, threads: usize) -> Result<Times, Error> {
    let (over, cpu_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut times = std::thread::scope(|scope| {
        for _ in 1..threads {
            // A refused thread is no error: its parts are left to this thread.
            let _ = crate::start_barrier::spawn(scope, || {
                while !over.load(Ordering::Relaxed) {
                    let before = cpu::thread_cpu_ns();
                    match design.part_step() {
                        Ok(true) => {
                            let ns = cpu::thread_cpu_ns() - before;
                            cpu_ns.fetch_add(ns, Ordering::Relaxed);
                        }
                        // The error is sticky, and the leading thread reports it.
                        Ok(false) | Err(_) => std::hint::spin_loop(),
                    }
                }
            });
        }
        let times = drain(design);
        over.store(true, Ordering::Relaxed);
        times
    })?;
    times.reproduce_cpu_ns += cpu_ns.into_inner();
    if threads == 1 {
        times.reproduce_ns = times.reproduce_cpu_ns;
    }
    Ok(times)
}

/// Runs the steps until nothing is left.
fn drain(design: &Decoupled) -> Result<Times, Error> {
    let mut times = Times::default();
    let mut due = 0;
    let mut at = (Instant::now(), cpu::thread_cpu_ns());
    let mut since_last = || {
        let now = (Instant::now(), cpu::thread_cpu_ns());
        let before = std::mem::replace(&mut at, now);
        ((now.0 - before.0).as_nanos() as u64, now.1 - before.1)
    };
    loop {
        let persisted = design.persist_step()?;
        times.persist_ns += since_last().1;
        due += 1;
        let mut reproduced = false;
        if !persisted || due >= DUE_BYTES / GROUP_BYTES {
            reproduced = design.reproduce_step()?;
            let (ns, cpu_ns) = since_last();
            times.reproduce_ns += ns;
            times.reproduce_cpu_ns += cpu_ns;
            due = 0;
        }
        if !persisted && !reproduced {
            return Ok(times);
        }
    }
}

/// A generator of word addresses.
struct Addresses {
    rng: StdRng,
    words: u64,
    zipf: Option<Zipf<f64>>,
}

impl Addresses {
    fn new(words: u64, exponent: Option<f64>, seed: u64) -> Addresses {
        let zipf = exponent.map(|exponent| {
            Zipf::new(words as f64, exponent).expect("a positive number of words and exponent")
        });
        Addresses { rng: StdRng::seed_from_u64(seed), words, zipf }
    }

    fn draw(&mut self) -> u64 {
        match &self.zipf {
            None => self.rng.random_range(0..self.words),
            // Frequent words are scattered, so that they do not share pages.
            Some(zipf) => scatter(zipf.sample(&mut self.rng) as u64) % self.words,
        }
    }
}

/// Returns a hash of the number (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn show(report: &Report) -> String {
    let rate = |entries: f64| format!("{:.1} M/s", entries / 1e6);
    let skew = report.zipf.map_or("uniform".into(), |exponent| format!("Zipf {exponent}"));
    let row = |name: &str, rates: &OverRounds| {
        [name.to_owned(), rate(rates.median), rate(rates.min), rate(rates.max)]
    };
    let rows = [
        row("merge and log", &report.persist_entries_per_second),
        row("reproduce", &report.reproduce_entries_per_second),
        row("both", &report.both_entries_per_second),
    ];
    let cpu = report.reproduce_cpu_ns_per_entry.show(|ns| format!("{ns:.1} ns"));
    format!(
        "{}\n{} entries, {skew}, {} a transaction, {} rings; heap {}, log {}; {} rounds\n{}\n{}\n\
         {} reproduce threads, {cpu} of CPU an entry",
        report.question,
        table::grouped(report.entries),
        report.words_per_transaction,
        report.threads,
        table::bytes(report.heap_bytes),
        table::bytes(report.log_bytes),
        report.rounds,
        report.origin.show(),
        table::sheet(["entries", "median", "min", "max"], &rows),
        report.reproduce_threads,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_addresses_are_skewed_and_scattered() {
        let count = |exponent| {
            let mut addresses = Addresses::new(1 << 20, exponent, 7);
            let mut places: Vec<u64> = (0..10_000).map(|_| addresses.draw()).collect();
            assert!(places.iter().all(|&place| place < 1 << 20));
            places.sort_unstable();
            places.dedup();
            let neighbours = places.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
            assert!(neighbours < places.len() / 20, "{neighbours}");
            places.len()
        };
        assert!(count(None) > 9_900);
        assert!(count(Some(0.99)) < 7_500);
    }
}
