//! Migrations of a pool's layout.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::names::EMULATED;
use lastword::{
    Array, CheckOptions, CopyOptions, Decoupled, Design, Error, Medium, MediumError, Objects,
    Options, Pool, Problem, Stop, Volatile,
};

/// A pool of numbers. A migration makes `2 n + 1` of each.
struct Numbers {
    _dir: tempfile::TempDir,
    path: PathBuf,
    medium: Medium,
    elements: Array<u64>,
    len: u64,
    /// Elements that one step changes.
    step: u64,
}

impl Numbers {
    /// Creates it with version 0 of its layout, in which element `n` is `n`.
    fn new<D: Design>(medium: Medium, len: u64) -> Numbers {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = Pool::<D>::create_as(&path, options(medium, 0)).unwrap();
        let elements = pool.run(|tx| Array::reserve(tx, len)).unwrap().value;
        while !pool.run(|tx| elements.prepare(tx, 10)).unwrap().value {}
        // Under `undo`, a transaction that changes more exceeds its slot of the log.
        let step = if medium == Medium::File { 1000.min(len / 3) } else { 100 };
        for first in (0..len).step_by(step as usize) {
            let put =
                pool.run(|tx| (first..first + step).try_for_each(|n| tx.set(elements.at(n)?, n)));
            let _ = put.unwrap();
        }
        pool.close().unwrap();
        Numbers { _dir: dir, path, medium, elements, len, step }
    }

    fn options(&self, version: u64) -> Options {
        options(self.medium, version)
    }

    /// Adds a migration of which only so many steps succeed.
    fn doubling(&self, options: Options, from: u64, steps: u64) -> Options {
        let Numbers { elements, len, step, .. } = *self;
        let left = Arc::new(AtomicU64::new(steps));
        options.migrate(from, move |tx, first| {
            for number in first..first + step {
                tx.update(elements.at(number)?, |n| 2 * n + 1)?;
            }
            // Relaxed: a migration runs in one thread.
            if left.load(Ordering::Relaxed) == 0 {
                return Err(Stop::Aborted);
            }
            left.fetch_sub(1, Ordering::Relaxed);
            Ok(Some(first + step).filter(|next| *next < len))
        })
    }

    /// Checks that the numbers were doubled so many times.
    fn check<D: Design>(&self, pool: &Pool<D>, times: u32) {
        for number in 0..self.len {
            let found = pool.run(|tx| tx.get(self.elements.at(number)?)).unwrap().value;
            assert_eq!(found, (number + 1) * 2_u64.pow(times) - 1, "element {number}");
        }
    }

    /// Opens it by a program that has no migration.
    fn refused<D: Design>(&self, version: u64) -> (u64, u64) {
        match Pool::<D>::open_as(&self.path, self.options(version)) {
            Err(Error::Layout { found_version, expected_version, .. }) => {
                (found_version, expected_version)
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("version {version} was opened"),
        }
    }
}

fn options(medium: Medium, version: u64) -> Options {
    // The log of a file is small, so that a migration takes many transactions.
    let log_bytes = if medium == Medium::File { 128 << 10 } else { 1 << 20 };
    let options = Options::new().bytes(1 << 20).log_bytes(log_bytes).medium(medium);
    options.layout("numbers", version)
}

#[test]
fn interrupted_migration_continues() {
    every_durable!(ended_at_every_step(EMULATED, 600));
    // Ten times as large as a transaction, with a log of 128 KiB.
    ended_at_every_step::<Decoupled>(Medium::File, 20_000);
}

fn ended_at_every_step<D: Design>(medium: Medium, len: u64) {
    let numbers = Numbers::new::<D>(medium, len);
    for step in 1..len / numbers.step {
        // One more step succeeds, and the next fails after its writes.
        let options = numbers.doubling(numbers.options(1), 0, 1);
        let error = Pool::<D>::open_as(&numbers.path, options).unwrap_err();
        let Error::Migration { from: 0, source } = error else { panic!("step {step}: {error}") };
        assert!(matches!(*source, Error::Stopped { stop: Stop::Aborted }), "{source}");
    }
    assert_eq!(numbers.refused::<D>(0), (0, 0));
    assert_eq!(numbers.refused::<D>(1), (0, 1));
    let options = numbers.doubling(numbers.options(1), 0, u64::MAX);
    let pool = Pool::<D>::open_as(&numbers.path, options.clone()).unwrap();
    numbers.check(&pool, 1);
    drop(pool);
    // It runs once, and then any program of version 1 opens the pool.
    numbers.check(&Pool::<D>::open_as(&numbers.path, options).unwrap(), 1);
    assert_eq!(numbers.refused::<D>(0), (1, 0));
    numbers.check(&Pool::<D>::open_as(&numbers.path, numbers.options(1)).unwrap(), 1);
}

#[test]
fn migrations_run_one_after_another() {
    let numbers = Numbers::new::<Decoupled>(Medium::File, 300);
    let all =
        (0..5).fold(numbers.options(5), |options, from| numbers.doubling(options, from, u64::MAX));
    // Up to the version that the program asks for.
    let pool = Pool::open(&numbers.path, all.clone().layout("numbers", 3)).unwrap();
    numbers.check(&pool, 3);
    drop(pool);
    numbers.check(&Pool::open(&numbers.path, all.clone()).unwrap(), 5);
    // Never back, and never across a gap.
    let back = Pool::open(&numbers.path, all.clone().layout("numbers", 4)).unwrap_err();
    assert!(matches!(back, Error::Layout { found_version: 5, .. }), "{back}");
    let gap = numbers.doubling(numbers.doubling(numbers.options(8), 5, u64::MAX), 7, u64::MAX);
    let gap = Pool::open(&numbers.path, gap).unwrap_err();
    assert!(matches!(gap, Error::Layout { found_version: 5, .. }), "{gap}");
    let other = all.clone().layout("letters", 9);
    let other = Pool::open(&numbers.path, other).unwrap_err();
    assert!(matches!(other, Error::Layout { found_version: 5, .. }), "{other}");
    numbers.check(&Pool::open(&numbers.path, all).unwrap(), 5);
}

#[test]
fn commands_report_unfinished_migration() {
    let numbers = Numbers::new::<Decoupled>(Medium::File, 300);
    let options = numbers.doubling(numbers.options(1), 0, 1);
    Pool::open(&numbers.path, options).unwrap_err();
    for version in [0, 1] {
        let expected = CheckOptions::new().layout("numbers", version);
        let report = lastword::check_with(&numbers.path, &expected).unwrap();
        assert!(!report.opens());
        let problem = &report.findings[0].problem;
        assert!(matches!(problem, Problem::Layout { found_version: 0, .. }), "{problem:?}");
        let described = lastword::inspect_with(&numbers.path, &expected).unwrap_err();
        assert!(matches!(described, Error::Layout { found_version: 0, .. }), "{described}");
        assert!(described.to_string().contains("unfinished"), "{described}");
    }
    // Also without an expected layout. Its content can be read and copied, and the copy goes on.
    assert!(!lastword::check(&numbers.path).unwrap().opens());
    assert!(lastword::HeapAtRest::load(&numbers.path).is_ok());
    let copy = Numbers { path: numbers.path.with_extension("copy"), ..numbers };
    lastword::copy(copy.path.with_extension(""), &copy.path, &CopyOptions::new()).unwrap();
    assert_eq!(copy.refused::<Decoupled>(1), (0, 1));
    let options = copy.doubling(copy.options(1), 0, u64::MAX);
    copy.check(&Pool::open(&copy.path, options).unwrap(), 1);
}

#[test]
fn migration_continues_after_panic() {
    let numbers = Numbers::new::<Decoupled>(Medium::File, 300);
    let panics = numbers.options(1).migrate(0, |_, _| panic!("the step's own"));
    let open = || Pool::open(&numbers.path, panics).map(drop);
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(open));
    assert!(opened.is_err());
    let options = numbers.doubling(numbers.options(1), 0, u64::MAX);
    numbers.check(&Pool::open(&numbers.path, options).unwrap(), 1);
}

/// Two threads open the pool, as two processes would: each has a descriptor of its own.
#[test]
fn concurrent_openings_migrate_once() {
    for _ in 0..5 {
        let numbers = Numbers::new::<Decoupled>(Medium::File, 3000);
        let open = || loop {
            let all = (0..3).fold(numbers.options(3), |options, from| {
                numbers.doubling(options, from, u64::MAX)
            });
            match Pool::open(&numbers.path, all) {
                Ok(pool) => return numbers.check(&pool, 3),
                Err(Error::Medium(MediumError::InUse { .. })) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(open);
            scope.spawn(open);
        });
    }
}

#[test]
fn new_pool_needs_no_migration() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(Medium::File, 3).migrate(2, |_, _| panic!("it is not needed"));
    let path = dir.path().join("pool");
    Pool::open_or_create(&path, options.clone()).unwrap().close().unwrap();
    Pool::open_or_create(&path, options.clone()).unwrap();
    let missing = Pool::open(dir.path().join("none"), options.clone()).unwrap_err();
    assert!(matches!(missing, Error::Medium(MediumError::NotFound { .. })), "{missing}");
    assert!(Pool::<Volatile>::open_as(Path::new(""), options).is_err());
}
