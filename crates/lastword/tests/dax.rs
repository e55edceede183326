//! Pools in persistent memory, and refusals where a file system has none.
//!
//! | variable | value |
//! |---|---|
//! | `LASTWORD_DAX_DIR` | a directory of a file system mounted with `-o dax` |
//! | `LASTWORD_NO_DAX_DIRS` | directories of other file systems, separated by colons |
//!
//! A test whose variable is unset prints that it is skipped. The guest of `tests/dax` sets both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use lastword::{
    Durability, Erased, ErasedTx, Error, Medium, MediumError, Objects, Options, Pool, Ptr, Shadow,
};
use tempfile::TempDir;
use workloads::{AnyClient, AnyWorkload, Kind};

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12)
}

fn given(name: &str) -> Option<OsString> {
    let given = std::env::var_os(name);
    if given.is_none() {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let _ =
            writeln!(std::io::stderr(), "skipped: dax: {name} is not set; tests/dax/run sets it");
    }
    given
}

/// A temporary directory in persistent memory.
fn persistent_memory() -> Option<TempDir> {
    given("LASTWORD_DAX_DIR").map(|dir| tempfile::tempdir_in(dir).unwrap())
}

/// Temporary directories on file systems without persistent memory.
fn elsewhere() -> Vec<TempDir> {
    let dirs = given("LASTWORD_NO_DAX_DIRS").unwrap_or_default();
    let dirs = std::env::split_paths(&dirs).filter(|dir| !dir.as_os_str().is_empty());
    dirs.map(|dir| tempfile::tempdir_in(dir).unwrap()).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Expects `NoDax` for this path, with the kernel's EOPNOTSUPP as its source.
fn assert_no_dax(result: Result<Pool, Error>, path: &Path) {
    const EOPNOTSUPP: i32 = 95;
    match result.expect_err("there is no persistent memory") {
        Error::Medium(MediumError::NoDax { path: named, source }) => {
            assert_eq!(named, path);
            assert_eq!(source.raw_os_error(), Some(EOPNOTSUPP), "{source}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn pool_in_persistent_memory_uses_dax_by_default() {
    let Some(dir) = persistent_memory() else { return };
    let path = dir.path().join("test.pool");
    let pool = Pool::create(&path, options()).unwrap();
    let cell = pool.run(|tx| tx.alloc(7_u64)).unwrap();
    cell.ticket.wait().unwrap();
    let info = pool.info().clone();
    assert_eq!((info.medium, info.log_path), (Some(Medium::Dax), None));
    assert!(info.survives_power_loss, "{info:?}");
    pool.close().unwrap();
    assert_eq!(files(dir.path()), std::slice::from_ref(&path), "a DAX pool has no log file");
    let inspected = lastword::inspect(&path).unwrap();
    assert_eq!(inspected.medium, Some(Medium::Dax));
    assert!(inspected.survives_power_loss && inspected.clean, "{inspected:?}");
    // A medium that is named overrides the default.
    let file = dir.path().join("file.pool");
    let pool = Pool::create(&file, options().medium(Medium::File)).unwrap();
    assert_eq!(pool.info().medium, Some(Medium::File));
}

#[test]
fn dax_without_persistent_memory_leaves_no_file() {
    for dir in elsewhere() {
        let path = dir.path().join("test.pool");
        assert_no_dax(Pool::create(&path, options().medium(Medium::Dax)), &path);
        assert_eq!(files(dir.path()), [] as [PathBuf; 0]);
        let pool = Pool::create(&path, options()).unwrap();
        assert_eq!(pool.info().medium, Some(Medium::File));
    }
}

#[test]
fn pool_copied_from_dax_needs_named_medium() {
    let Some(dir) = persistent_memory() else { return };
    let path = dir.path().join("test.pool");
    let pool = Pool::create(&path, options()).unwrap();
    let number = |tx: &mut lastword::Tx<'_>| {
        let root: Ptr<u64> = tx.root_ptr()?;
        tx.get(root)
    };
    let wrote = pool.run(|tx| {
        let cell = tx.alloc(42_u64)?;
        tx.set_root_ptr(cell)
    });
    wrote.unwrap().ticket.wait().unwrap();
    // Without a clean shutdown, opening the copy has to recover it.
    pool.abandon();
    let whole = fs::read(&path).unwrap();
    for dir in elsewhere() {
        let copy = dir.path().join("copy.pool");
        fs::write(&copy, &whole).unwrap();
        assert_no_dax(Pool::open(&copy, options()), &copy);
        assert!(fs::read(&copy).unwrap() == whole, "a refused open changed the file");
        let cached = options().medium(Medium::PersistentCache);
        let pool = Pool::open(&copy, cached).unwrap();
        assert!(!pool.info().survives_power_loss);
        assert_eq!(pool.run(number).unwrap().value, 42);
    }
}

/// Runs a workload in persistent memory, abandons the pool, then recovers and checks it.
fn survives(kind: Kind, path: &Path, options: &Options) {
    let parameters = workloads::Options { scale: 0.002, workers: 2, ..Default::default() };
    let options = options.clone().bytes(kind.heap_bytes(&parameters));
    let pool = Pool::create(path, options.clone()).unwrap();
    let workload = kind.load(&mut Erased::any(&mut pool.worker().unwrap()), &parameters).unwrap();
    let clients = run_two(&pool, &workload);
    pool.flush().unwrap();
    let durable = pool.durable_id();
    pool.abandon();
    let checked = lastword::check(path).unwrap().sound().unwrap();
    assert!(checked.needs_recovery && checked.durable_id >= durable);
    let pool = Pool::open(path, options).unwrap();
    assert_eq!(pool.info().medium, Some(Medium::Dax));
    let mut worker = pool.worker().unwrap();
    for client in &clients {
        let present =
            |tx: &mut lastword::Tx<'_>| workload.is_present(client, &mut ErasedTx::new(tx));
        let present = worker.run(present).unwrap().value;
        assert!(present, "{kind:?}: an acknowledged transaction is missing");
    }
    let violations = workload.check(&mut Erased::any(&mut worker)).unwrap();
    assert!(violations.is_empty(), "{kind:?}: {violations:?}");
    drop(worker);
    pool.close().unwrap();
    assert_eq!(
        lastword::check(path).unwrap().sound().unwrap().usage,
        checked.usage,
        "recovery leaks objects"
    );
    fs::remove_file(path).unwrap();
}

/// Runs two workers concurrently. Returns each worker's client as of its last transaction.
fn run_two(pool: &Pool, workload: &AnyWorkload) -> Vec<AnyClient> {
    let run = |index| {
        let mut worker = pool.worker().unwrap();
        let mut client = workload.client(index, 1);
        for _ in 0..1000 {
            workload.next(&mut client);
            let done = worker.run(|tx| workload.run(&client, &mut ErasedTx::new(tx))).map(drop);
            assert!(done.is_ok() || workload.gives_up(&client), "{:?}: {done:?}", workload.kind());
        }
        client
    };
    std::thread::scope(|scope| {
        let workers = [0, 1].map(|index| scope.spawn(move || run(index)));
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn every_workload_recovers_in_persistent_memory() {
    let Some(dir) = persistent_memory() else { return };
    let path = dir.path().join("test.pool");
    for kind in Kind::all() {
        for shadow in [Shadow::Full, Shadow::CopyOnWrite] {
            for durability in [Durability::Async, Durability::Sync] {
                let options = options().shadow(shadow).durability(durability);
                survives(kind, &path, &options.medium(Medium::Dax));
            }
        }
    }
}
