//! The cost of views and backups to a worker that writes.
//!
//! `views [MIB] [SECONDS] [ROUNDS] [DESIGN] [cache]` measures one worker that sets four random
//! words of an array in each transaction, on medium `file`, or `persistent-cache` with `cache`. It
//! runs four phases in interleaved rounds: the worker alone, beside an open view, beside a view
//! that is read repeatedly, and beside repeated backups. It prints the median, least and greatest
//! of the rounds.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lastword::{Array, Decoupled, Design, Medium, Objects, Options, Pool, Redo, Snapshot, Undo};

/// Words that one transaction sets.
const WRITES: u64 = 4;

/// The companion of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    OpenView,
    ReadView,
    Backup,
}

const ALL: [(Beside, &str); 4] = [
    (Beside::Nothing, "alone"),
    (Beside::OpenView, "an open view"),
    (Beside::ReadView, "a view that is read"),
    (Beside::Backup, "backups"),
];

/// The result of one phase.
#[derive(Clone, Copy, Debug)]
struct Phase {
    per_second: f64,
    longest: Duration,
    /// The mean time of a backup, or of reading a view.
    each: Option<Duration>,
}

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is = |name: &str| arguments.iter().any(|argument| argument == name);
    match () {
        () if is("snapshot") => measure::<Snapshot>(&arguments, is("cache")),
        () if is("redo") => measure::<Redo>(&arguments, is("cache")),
        () if is("undo") => measure::<Undo>(&arguments, is("cache")),
        () => measure::<Decoupled>(&arguments, is("cache")),
    }
}

fn measure<D: Design>(arguments: &[String], in_cache: bool) -> Outcome<()> {
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let mut next = |default| numbers.next().unwrap_or(default);
    let (mib, seconds, rounds) = (next(256), next(5), next(5));
    let dir = tempfile::tempdir_in(".")?;
    let medium = if in_cache { Medium::PersistentCache } else { Medium::File };
    let options = Options::new().bytes(mib << 20).medium(medium);
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options)?;
    // An array takes 272 bytes for each 256, and the allocator some more.
    let len = (mib << 20) / 8 / 10 * 9;
    let array = pool.run(|tx| Array::<u64>::reserve(tx, len))?.value;
    while !pool.run(|tx| array.prepare(tx, 200))?.value {}
    pool.checkpoint()?;
    let mut phases = ALL.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((beside, _), phases) in ALL.iter().zip(&mut phases) {
            phases.push(phase(&pool, array, dir.path(), *beside, seconds)?);
            pool.checkpoint()?;
        }
    }
    println!("{}, {medium:?}, heap of {mib} MiB, {rounds} rounds of {seconds} s", D::NAME);
    println!("| beside the worker | transactions/s | longest call, ms | each took, s |");
    println!("|---|---|---|---|");
    for ((_, name), phases) in ALL.iter().zip(phases) {
        let rates = spread(phases.iter().map(|phase| phase.per_second), 0);
        let longest = spread(phases.iter().map(|phase| 1e3 * phase.longest.as_secs_f64()), 1);
        let each = spread(phases.iter().filter_map(|phase| Some(phase.each?.as_secs_f64())), 2);
        println!("| {name} | {rates} | {longest} | {each} |");
    }
    Ok(())
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

fn phase<D: Design>(
    pool: &Pool<D>,
    array: Array<u64>,
    dir: &Path,
    beside: Beside,
    seconds: u64,
) -> Outcome<Phase> {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let companion = scope.spawn(|| companion(pool, array, dir, beside, &ends));
        let written = write(pool, array, Duration::from_secs(seconds));
        ends.store(true, Ordering::Relaxed);
        let each = companion.join().expect("the companion does not panic")?;
        let (per_second, longest) = written?;
        Ok(Phase { per_second, longest, each })
    })
}

/// Writes random words for a time. Returns the rate, and the longest call.
fn write<D: Design>(pool: &Pool<D>, array: Array<u64>, time: Duration) -> Outcome<(f64, Duration)> {
    let mut worker = pool.worker()?;
    let (begin, mut longest, mut done) = (Instant::now(), Duration::ZERO, 0_u64);
    let mut last = begin;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    while last - begin < time {
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
        done += 1;
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    Ok((done as f64 / (last - begin).as_secs_f64(), longest))
}

/// Runs beside the worker until it ends. Returns the mean time of a repetition.
fn companion<D: Design>(
    pool: &Pool<D>,
    array: Array<u64>,
    dir: &Path,
    beside: Beside,
    ends: &AtomicBool,
) -> Outcome<Option<Duration>> {
    let view = match beside {
        Beside::OpenView | Beside::ReadView => Some(pool.view()?),
        Beside::Nothing | Beside::Backup => None,
    };
    let (begin, mut times) = (Instant::now(), 0);
    while !ends.load(Ordering::Relaxed) {
        match (beside, &view) {
            (Beside::ReadView, Some(view)) => {
                view.read(|tx| {
                    (0..array.len()).step_by(512).try_for_each(|n| tx.get(array.at(n)?).map(drop))
                })?;
            }
            (Beside::Backup, _) => {
                let copy = dir.join("copy");
                pool.backup(&copy)?;
                std::fs::remove_file(&copy)?;
                let _ = std::fs::remove_file(dir.join("copy.log")); // of medium `file`
            }
            _ => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        }
        times += 1;
    }
    Ok((times > 0).then(|| begin.elapsed() / times))
}
