//! Logs that grow while the pool is open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use faults::{Failing, Fault, Faults};
use lastword::{Decoupled, Design, Error, Medium, Objects, Options, Pool, Redo, System, Undo};

use crate::growth::{Chain, MIB, PUSHED, ROUNDS};
use crate::names::{EMULATED, with_suffix};

/// The smallest log.
const LOG: u64 = 128 << 10;

/// Bytes of the log's file before the log.
const HEAD: u64 = 8192;

fn options() -> Options {
    Options::new().bytes(MIB).log_bytes(LOG).medium(Medium::File)
}

fn log_file_bytes(path: &Path) -> u64 {
    std::fs::metadata(with_suffix(path, ".log")).unwrap().len()
}

#[test]
fn log_grows_with_heap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path, options()).unwrap().close().unwrap();
    // Without a size for this opening the log follows the heap.
    let pool = Pool::open(&path, Options::new().max_bytes(32 * MIB)).unwrap();
    let chain = Chain::create(&pool);
    let mut count = 0;
    while pool.info().heap_bytes < 16 * MIB || pool.info().log_bytes <= MIB {
        count = chain.push(&pool).unwrap();
        assert!(count < 40_000, "{:?}", pool.info());
    }
    pool.flush().unwrap();
    let (log_bytes, heap_bytes) = (pool.info().log_bytes, pool.info().heap_bytes);
    assert!(log_bytes <= heap_bytes / 4);
    assert!(pool.metrics().log_capacity_bytes >= log_bytes && pool.metrics().log_wraps >= 1.0);
    assert!(log_file_bytes(&path) >= HEAD + log_bytes);
    pool.abandon();
    assert!(lastword::check(&path).unwrap().is_sound());
    let pool = Pool::open(&path, Options::new()).unwrap();
    assert!(pool.info().log_bytes >= log_bytes);
    assert_eq!(Chain::open(&pool).check(&pool), count);
    pool.close().unwrap();
    assert!(lastword::check(&path).unwrap().is_sound());
}

#[test]
fn log_of_fixed_size_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("fixed", options().max_bytes(32 * MIB)),
        ("limited", options().max_bytes(32 * MIB).max_log_bytes(2 * LOG - 1)),
        ("heap", options().bytes(32 * MIB)),
    ] {
        let pool = Pool::create(dir.path().join(name), options).unwrap();
        let chain = Chain::create(&pool);
        while chain.push(&pool).unwrap() < 500 || pool.info().heap_bytes < 4 * MIB {}
        assert_eq!(pool.info().log_bytes, LOG, "{name}");
    }
}

#[test]
fn log_grows_on_request() {
    let dir = tempfile::tempdir().unwrap();
    for background in [true, false] {
        let path = dir.path().join(format!("pool{background}"));
        let pool = Pool::create(&path, options().bytes(4 * MIB).background(background)).unwrap();
        let chain = Chain::create(&pool);
        assert_eq!(pool.grow_log(LOG).unwrap(), LOG);
        // Halves of the log that a growth must not begin in come and go.
        let mut log_bytes = LOG;
        for count in 1..1200 {
            assert_eq!(chain.push(&pool).unwrap(), count);
            if count % 10 == 0 {
                pool.flush().unwrap();
            }
            if count % 240 == 0 {
                log_bytes *= 2;
                assert_eq!(pool.grow_log(log_bytes).unwrap(), log_bytes);
                assert_eq!(log_file_bytes(&path), HEAD + log_bytes);
            }
        }
        pool.flush().unwrap();
        pool.abandon();
        assert!(lastword::check(&path).unwrap().is_sound());
        let pool = Pool::open(&path, Options::new()).unwrap();
        assert_eq!(pool.info().log_bytes, 16 * LOG);
        assert_eq!(Chain::open(&pool).check(&pool), 1199);
    }
}

fn keeps_its_log<D: Design>(path: &Path, medium: Medium) {
    let with_room = options().log_bytes(MIB).medium(medium).bytes(16 * MIB).max_bytes(32 * MIB);
    let pool = Pool::<D>::create_as(path, with_room).unwrap();
    Chain::create(&pool);
    assert_eq!(pool.grow_log(4 * MIB).unwrap(), MIB);
    pool.flush().unwrap();
    pool.abandon();
    // Without a size of the log for this opening.
    for _ in 0..2 {
        let with_room = Options::new().medium(medium).max_bytes(64 * MIB);
        let pool = Pool::<D>::open_as(path, with_room).unwrap();
        let chain = Chain::open(&pool);
        let before = chain.check(&pool);
        assert_eq!(chain.push(&pool).unwrap(), before + 1);
        pool.checkpoint().unwrap();
        assert_eq!(pool.info().log_bytes, MIB);
        pool.close().unwrap();
        assert!(lastword::check(path).unwrap().is_sound());
    }
}

#[test]
fn other_logs_keep_their_size() {
    let dir = tempfile::tempdir().unwrap();
    keeps_its_log::<Decoupled>(&dir.path().join("mapped"), EMULATED);
    for (name, medium) in [("file", Medium::File), ("emulated", EMULATED)] {
        keeps_its_log::<Undo>(&dir.path().join(format!("undo-{name}")), medium);
        keeps_its_log::<Redo>(&dir.path().join(format!("redo-{name}")), medium);
    }
}

/// A pool whose log has grown is read, backed up, copied and compacted as any other one.
#[test]
fn grown_log_is_read_and_copied() {
    let dir = tempfile::tempdir().unwrap();
    let [path, backup, copy] = ["pool", "backup", "copy"].map(|name| dir.path().join(name));
    let pool = Pool::create(&path, options().bytes(4 * MIB)).unwrap();
    let chain = Chain::create(&pool);
    for log_bytes in [LOG, 2 * LOG, 4 * LOG] {
        assert_eq!(pool.grow_log(log_bytes).unwrap(), log_bytes);
        for _ in 0..200 {
            chain.push(&pool).unwrap();
        }
        pool.flush().unwrap();
        // Another process sees it, while it is open.
        let checked = lastword::check(&path).unwrap();
        assert!(checked.is_sound(), "{checked:?}");
    }
    pool.backup(&backup).unwrap();
    pool.abandon();
    lastword::copy(&path, &copy, &lastword::CopyOptions::new()).unwrap();
    for path in [&backup, &copy] {
        let pool = Pool::open(path, Options::new()).unwrap();
        assert_eq!((pool.info().log_bytes, Chain::open(&pool).check(&pool)), (4 * LOG, 600));
    }
}

/// The callback of a ticket closes the pool, maybe in the thread that is about to double the log.
/// The next opener, which doubles it too, must find it whole.
#[test]
fn pool_closed_by_a_callback_writes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path, options().bytes(8 * MIB)).unwrap().close().unwrap();
    let (mut count, mut log_bytes) = (0, LOG);
    let open = |log_bytes| loop {
        match Pool::open(&path, Options::new().max_log_bytes(log_bytes)) {
            Err(Error::Medium(lastword::MediumError::InUse { .. })) => std::thread::yield_now(),
            opened => break Arc::new(opened.unwrap()),
        }
    };
    for round in 0..40 {
        log_bytes = if round % 8 == 7 { 2 * log_bytes } else { log_bytes };
        let pool = open(log_bytes);
        let chain = if round == 0 { Chain::create(&pool) } else { Chain::open(&pool) };
        assert_eq!(chain.check(&pool), count);
        for _ in 0..40 {
            count = chain.push(&pool).unwrap();
            pool.flush().unwrap();
        }
        let changed = pool.run(|tx| {
            let root = tx.root_ptr::<u64>()?;
            tx.set_root_ptr(root)
        });
        let ticket = changed.unwrap().ticket;
        let last = Arc::clone(&pool);
        ticket.on_durable(move |_| drop(last)).unwrap();
    }
    drop(open(log_bytes));
    assert!(lastword::check(&path).unwrap().is_sound());
}

#[test]
fn failed_growth_of_log_leaves_pool_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for fault in [Fault::Io, Fault::NoSpace] {
        let created = |faults| {
            for file in [path.clone(), with_suffix(&path, ".log")] {
                let _ = std::fs::remove_file(file);
            }
            let options = options().system(System::kernel().failing(faults));
            let pool = Pool::create(&path, options.background(false)).unwrap();
            let chain = Chain::create(&pool);
            chain.push(&pool).unwrap();
            pool.flush().unwrap();
            (pool, chain)
        };
        let calls = Faults::none();
        let (pool, _) = created(calls.clone());
        let first = calls.calls();
        pool.grow_log(2 * LOG).unwrap();
        let last = calls.calls();
        drop(pool);
        assert!(last > first + 4);
        let (mut poisoned, mut kept) = (0, 0);
        for nth in first..last {
            let (pool, chain) = created(Faults::nth(nth, fault, false));
            let grown = pool.grow_log(2 * LOG);
            kept += u32::from(grown.as_ref().is_ok_and(|&bytes| bytes == LOG));
            match chain.push(&pool) {
                Err(Error::Poisoned { .. }) => poisoned += 1,
                pushed => assert_eq!(pushed.unwrap(), 2, "{grown:?}"),
            }
            pool.abandon();
            // A failed write may have torn one copy of the superblock.
            assert!(lastword::check(&path).unwrap().checked.is_some(), "{grown:?}");
            let pool = Pool::open(&path, Options::new()).unwrap();
            let is_grown = grown.is_ok_and(|bytes| bytes == 2 * LOG);
            assert!(!is_grown || pool.info().log_bytes == 2 * LOG);
            let count = Chain::open(&pool).check(&pool);
            assert!((1..=2).contains(&count));
            assert!(pool.grow_log(4 * LOG).unwrap() == 4 * LOG);
            pool.close().unwrap();
        }
        assert!(poisoned < last - first, "{poisoned}");
        assert_eq!(kept > 0, fault == Fault::NoSpace, "{kept}");
    }
}

/// Set in the child process: the path of its pool.
const CHILD: &str = "LASTWORD_TEST_LOG_GROWTH";

/// Pushes values while the log doubles, and prints the count of durable ones.
fn push_until_killed(path: &Path) {
    let pool = Pool::open(path, Options::new().max_bytes(256 * MIB).log_bytes(LOG)).unwrap();
    let chain = Chain::open(&pool);
    loop {
        let mut count = 0;
        for _ in 0..20 {
            count = chain.push(&pool).unwrap();
        }
        pool.flush().unwrap();
        println!("{PUSHED}{count}");
        if pool.info().log_bytes < 64 * MIB {
            pool.grow_log(2 * pool.info().log_bytes).unwrap();
        }
    }
}

#[test]
fn killed_process_leaves_grown_log_whole() {
    if let Some(path) = std::env::var_os(CHILD) {
        return push_until_killed(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options().max_bytes(256 * MIB)).unwrap();
    Chain::create(&pool);
    pool.close().unwrap();
    let rounds = std::env::var(ROUNDS).map_or(10, |rounds| rounds.parse().unwrap());
    let mut log_bytes = LOG;
    for round in 0..rounds / 2 {
        let test = "log_growth::killed_process_leaves_grown_log_whole";
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", test, "--nocapture"]).env(CHILD, &path).stdout(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut counts = || {
            let pushed =
                lines.by_ref().find_map(|line| Some(line.split_once(PUSHED)?.1.to_owned()));
            pushed.map(|count| count.parse::<u64>().unwrap())
        };
        let mut acknowledged = 0;
        for _ in 0..4 + round * 7 % 11 {
            acknowledged = counts().unwrap();
        }
        std::thread::sleep(Duration::from_micros(round * 739 % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(count) = counts() {
            acknowledged = count;
        }
        assert!(lastword::check(&path).unwrap().is_sound());
        let pool = Pool::open(&path, Options::new()).unwrap();
        let found = Chain::open(&pool).check(&pool);
        assert!(found >= acknowledged, "{found} of {acknowledged}");
        pool.check_heap().unwrap();
        assert!(pool.info().log_bytes >= log_bytes);
        log_bytes = pool.info().log_bytes;
    }
    assert!(log_bytes >= 4 * LOG, "{log_bytes}");
}
