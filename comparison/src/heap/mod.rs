//! `comparison heap`: random writes to a store much larger than its log, on a disk.
//!
//! ```text
//!   records  | 0 | 1 | 2 | ...                                  | N - 1 |     N * bytes = GiB
//!                  ^        ^              ^              ^
//!                  one transaction replaces four at random (script.rs)
//! ```
//!
//! Each transaction dirties up to four pages anywhere, so a store writes far more to the device
//! than a transaction changes, and it must bound its log meanwhile. The comparison measures the
//! throughput, its evenness, the time to durability, and the bytes written. Systems and their
//! configurations are in `store.rs`. All store the same records (`record.rs`) and run the same
//! transactions. Each run makes, loads and syncs a store of its own before the clock starts
//! (`run.rs`).
//!
//! Bytes written are those that the kernel sent to the device, from the whole machine. They are
//! divided by the bytes of the replaced records. During the timed part a system may owe writes:
//! LMDB leaves all of them to the kernel, and Lastword and RocksDB have a log. The second figure
//! therefore includes the close and a sync of the file system. RocksDB then still owes compactions.
//!
//! A close makes every commit durable: LMDB syncs its file, RocksDB its log, and SQLite runs a
//! checkpoint. Each run ends with a check of records in the store, opened again.

mod graph;
mod kill;
mod lmdb;
mod ours;
mod progress;
mod rates;
mod record;
mod report;
#[cfg(rocksdb)]
mod rocksdb;
mod run;
mod script;
mod sqlite;
mod store;
mod tally;

use std::path::{Path, PathBuf};

use clap::{Args, value_parser};
use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};

pub(crate) use graph::{GraphOptions, graph};
pub(crate) use kill::{ChildOptions, child};

use crate::failure::Failure;
use crate::report::{Conditions, Format, short};
use rates::{Rates, RatesFile};
use report::{Report, Row};
use script::WRITES;
use store::{System, with_store};

/// Free space that a run needs, as a multiple of its records. The stores themselves take up to
/// twice the records' bytes, with their logs and with tables that a compaction replaces.
const ROOM: u64 = 3;

/// Options of `comparison heap`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Sizes of a store: GiB of records.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 3.0, 8.0], value_parser = gib)]
    gib: Vec<f64>,
    /// Length of a run in seconds, after loading.
    #[arg(long, default_value_t = 120.0, value_parser = seconds)]
    seconds: f64,
    /// Exponents of Zipf's law for the records that transactions replace; 0 for uniform.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.99], value_parser = exponent)]
    zipf: Vec<f64>,
    /// Numbers of threads that run transactions.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2],
          value_parser = value_parser!(u64).range(1..=record::WORKERS_MAX as u64))]
    workers: Vec<u64>,
    /// Systems to compare.
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [System::Lastword, System::Lmdb, System::Rocksdb, System::Sqlite])]
    systems: Vec<System>,
    /// Bytes of a record: a power of two, 8 to 4096.
    #[arg(long, default_value_t = 64, value_parser = record_bytes)]
    record_bytes: u64,
    /// Number of rounds; each begins with another system.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Directory that the stores are made in, and removed from.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Seed of the random records.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For people or for programs.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// CSV file for the transactions of each second.
    #[arg(long, value_name = "PATH")]
    rates: Option<PathBuf>,
    /// Seconds that a recovery of Lastword should take at most; no limit by default.
    #[arg(long, value_parser = seconds)]
    recovery_seconds: Option<f64>,
    /// MiB of Lastword's heap at its creation: it grows while it is loaded, and its log with it.
    #[arg(long)]
    grown_from: Option<u64>,
    /// With --grown-from, the log keeps the size that it has at its creation.
    #[arg(long, requires = "grown_from")]
    fixed_log: bool,
    /// Kill each run's process (SIGKILL) instead of closing the store, and measure its recovery.
    #[arg(long)]
    kill: bool,
}

/// The arguments of one run, equal for all systems.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    gib: f64,
    zipf: f64,
    workers: usize,
    seconds: f64,
    records: u64,
    record_words: usize,
    seed: u64,
    round: usize,
    recovery_seconds: Option<f64>,
    grown_from: Option<u64>,
    fixed_log: bool,
}

impl Setup {
    /// Returns the arguments of round 0.
    fn new(options: &Options, gib: f64, zipf: f64, workers: usize) -> Setup {
        let records = (gib * (1_u64 << 30) as f64) as u64 / options.record_bytes;
        Setup {
            gib,
            zipf,
            workers,
            seconds: options.seconds,
            records: records.max(WRITES as u64),
            record_words: options.record_bytes as usize / 8,
            seed: options.seed,
            round: 0,
            recovery_seconds: options.recovery_seconds,
            grown_from: options.grown_from,
            fixed_log: options.fixed_log,
        }
    }

    #[cfg(test)]
    fn for_tests() -> Setup {
        Setup {
            gib: 0.0,
            zipf: 0.0,
            workers: 1,
            seconds: 0.0,
            records: 4,
            record_words: 1,
            seed: 1,
            round: 0,
            recovery_seconds: None,
            grown_from: None,
            fixed_log: false,
        }
    }

    /// Returns the words of all records.
    fn words(&self) -> u64 {
        self.records * self.record_words as u64
    }

    /// Returns the difference of two counts of bytes, divided by the bytes that so many
    /// transactions changed.
    fn by_changed(
        &self,
        before: Option<u64>,
        after: Option<u64>,
        transactions: u64,
    ) -> Option<f64> {
        let changed = transactions * (8 * WRITES * self.record_words) as u64;
        Some(after?.saturating_sub(before?) as f64 / changed as f64)
    }
}

/// Results of one run.
#[derive(Clone, Debug)]
struct Slice {
    timed: run::Timed,
    /// `None`: the process was killed.
    closed: Option<run::Closed>,
    /// Seconds until the first record was read, after the close or the kill.
    open_seconds: f64,
}

/// Makes the comparison and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let (systems, left_out) = options.systems.iter().partition(|system| system.is_built());
    let (systems, left_out): (Vec<System>, Vec<System>) = (systems, left_out);
    if systems.is_empty() {
        return Err(Failure::NotBuilt { system: System::Rocksdb.name() });
    }
    for &gib in &options.gib {
        check_room(&options.dir, gib)?;
    }
    let mut rates = options.rates.as_deref().map(Rates::create).transpose()?;
    let mut rows = Vec::new();
    for &gib in &options.gib {
        for &zipf in &options.zipf {
            for &workers in &options.workers {
                let setup = Setup::new(options, gib, zipf, workers as usize);
                rows.extend(compare(options, &systems, &setup, rates.as_mut())?);
            }
        }
    }
    Report {
        conditions: Conditions::new(options.rounds as usize, options.seed),
        record_bytes: options.record_bytes,
        seconds: options.seconds,
        is_killed: options.kill,
        left_out,
        rows,
    }
    .print(options.format)
}

/// Runs all systems in interleaved rounds. Returns a row for each.
fn compare(
    options: &Options,
    systems: &[System],
    setup: &Setup,
    mut rates: Option<&mut RatesFile>,
) -> Result<Vec<Row>, Failure> {
    let mut slices = vec![Vec::new(); systems.len()];
    for round in 0..options.rounds as usize {
        let setup = Setup { round, ..setup.clone() };
        for i in 0..systems.len() {
            let place = (round + i) % systems.len();
            let slice = slice(options, systems[place], &setup)?;
            if let Some(rates) = &mut rates {
                rates.add(systems[place], &setup, &slice.timed.by_second)?;
            }
            slices[place].push(slice);
        }
    }
    let all = systems.iter().zip(&slices);
    Ok(all.map(|(&system, slices)| Row::new(system, setup, slices)).collect())
}

/// Makes one run in a directory of its own.
fn slice(options: &Options, system: System, setup: &Setup) -> Result<Slice, Failure> {
    let Setup { gib, zipf, workers, round, .. } = setup;
    let (name, round) = (system.name(), round + 1);
    eprintln!("{name}: {gib} GiB, zipf {zipf}, workers {workers}, round {round}");
    check_room(&options.dir, setup.gib)?;
    let place = tempfile::Builder::new().prefix("comparison-").tempdir_in(&options.dir);
    let place = place.map_err(Failure::io("making a directory for a store"))?;
    let dir = place.path();
    let (timed, closed) = if options.kill {
        (kill::killed(system, dir, setup)?, None)
    } else {
        let (timed, closed) = with_store!(system, S => run::closed::<S>(dir, setup))?;
        (timed, Some(closed))
    };
    let open_seconds = with_store!(system, S => run::reopened::<S>(dir, setup, &timed))?;
    eprintln!("  {} tx/s; opened again in {open_seconds:.2} s", short(timed.rate));
    Ok(Slice { timed, closed, open_seconds })
}

/// Checks that the file system of a directory has room for a run.
fn check_room(dir: &Path, gib: f64) -> Result<(), Failure> {
    let system = statvfs(dir).map_err(|error| Failure::Io {
        what: "reading the free space of the directory",
        error: error.into(),
    })?;
    let free = system.f_bavail * system.f_frsize;
    let needed = (gib * (ROOM << 30) as f64) as u64;
    if free < needed {
        let [needed_mib, free_mib] = [needed, free].map(|bytes| bytes >> 20);
        return Err(Failure::NoRoom { dir: dir.to_owned(), gib, needed_mib, free_mib });
    }
    Ok(())
}

/// Parses a number that is at least `least`.
fn number(text: &str, least: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let fits = number.is_finite() && number >= least;
    if fits { Ok(number) } else { Err(format!("must be at least {least}")) }
}

fn gib(text: &str) -> Result<f64, String> {
    number(text, 1.0 / 1024.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.1)
}

fn exponent(text: &str) -> Result<f64, String> {
    number(text, 0.0)
}

fn record_bytes(text: &str) -> Result<u64, String> {
    let bytes: u64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let fits = bytes.is_power_of_two() && (8..=4096).contains(&bytes);
    if fits { Ok(bytes) } else { Err("must be a power of two from 8 to 4096".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(record_words: usize, workers: usize) -> Setup {
        let (zipf, seconds, records) = (0.99, 0.3, 2000);
        Setup { zipf, workers, seconds, records, record_words, ..Setup::for_tests() }
    }

    /// Runs small stores of a system, closed and opened again.
    fn runs(system: System) {
        for (record_words, workers) in [(1, 1), (8, 2), (64, 1)] {
            let (place, setup) = (tempfile::tempdir().unwrap(), setup(record_words, workers));
            let dir = place.path();
            let closed = with_store!(system, S => run::closed::<S>(dir, &setup));
            let (timed, closed) = closed.unwrap();
            assert!(timed.transactions > 100, "{} transactions", timed.transactions);
            assert_eq!(timed.by_worker.iter().sum::<u64>(), timed.transactions);
            assert_eq!(timed.durable_ms.is_some(), system == System::Lastword);
            assert!(closed.seconds > 0.0);
            let opened = with_store!(system, S => run::reopened::<S>(dir, &setup, &timed));
            assert!(opened.unwrap() > 0.0);
            if workers > 1 {
                continue; // one of two may have had the write lock all the time
            }
            with_store!(system, S => undo::<S>(dir, &setup)).unwrap();
            let lost = with_store!(system, S => run::reopened::<S>(dir, &setup, &timed));
            assert!(matches!(lost, Err(Failure::Wrong { .. })), "{system:?}: {lost:?}");
        }
    }

    /// Overwrites records with those of the first transactions, as if later ones were lost.
    fn undo<S: store::Store>(dir: &Path, setup: &Setup) -> Result<(), Failure> {
        use store::Session;
        let store = S::open(dir, setup)?;
        let (mut session, mut script) = (store.session()?, script::Script::new(setup, 0));
        for _ in 0..20 {
            session.replace(script.next())?;
        }
        drop(session);
        store.close()
    }

    #[test]
    fn lastword_runs_and_passes_the_check() {
        runs(System::Lastword);
    }

    #[test]
    fn lmdb_runs_and_passes_the_check() {
        runs(System::Lmdb);
    }

    #[cfg(rocksdb)]
    #[test]
    fn rocksdb_runs_and_passes_the_check() {
        runs(System::Rocksdb);
    }

    #[test]
    fn sqlite_runs_and_passes_the_check() {
        runs(System::Sqlite);
    }

    #[test]
    fn amplification_divides_by_the_bytes_of_four_records() {
        let setup = Setup { record_words: 8, ..Setup::for_tests() };
        assert_eq!(setup.by_changed(Some(1000), Some(1000 + 512 * 10), 10), Some(2.0));
        assert_eq!(setup.by_changed(None, Some(1000), 10), None);
    }

    #[test]
    fn disk_without_room_is_refused() {
        let refused = check_room(Path::new("/"), 1e9);
        assert!(matches!(refused, Err(Failure::NoRoom { .. })), "{refused:?}");
    }

    #[test]
    fn record_bytes_are_a_power_of_two() {
        assert_eq!(record_bytes("64"), Ok(64));
        assert!(["0", "4", "12", "8192", "x"].iter().all(|text| record_bytes(text).is_err()));
    }
}
