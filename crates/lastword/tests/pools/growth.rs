//! Heaps that grow while the pool is open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::names::{EMULATED, with_suffix};
use faults::{Call, Failing, Fault, Faults};
use lastword::{
    Array, Decoupled, DecoupledEvicting, DecoupledSoftware, Design, Error, Medium, MediumError,
    Objects, Options, Pool, Ptr, Redo, Shadow, Snapshot, Stop, System, Undo, Volatile,
};

pub(crate) const MIB: u64 = 1 << 20;

fn options(medium: Medium) -> Options {
    Options::new().bytes(MIB).log_bytes(MIB).medium(medium).max_bytes(32 * MIB)
}

/// Words of a value: 1000 bytes.
const WORDS: usize = 125;

/// A list of values, each with the one before.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    head: Ptr<u64>,
}

impl Chain {
    pub(crate) fn create<D: Design>(pool: &Pool<D>) -> Chain {
        let made = pool.run(|tx| {
            let head = tx.alloc(0_u64)?;
            tx.set_root_ptr(head)?;
            Ok(Chain { head })
        });
        made.unwrap().value
    }

    pub(crate) fn open<D: Design>(pool: &Pool<D>) -> Chain {
        Chain { head: pool.run(|tx| tx.root_ptr()).unwrap().value }
    }

    /// Adds a value; returns the count.
    pub(crate) fn push<D: Design>(self, pool: &Pool<D>) -> Result<u64, Error> {
        let pushed = pool.run(|tx| {
            let before: u64 = tx.get(self.head)?;
            let count = match before {
                0 => 0,
                before => tx.get(Ptr::<[u64; 3]>::from_bits(before))?[2],
            };
            let value = tx.alloc([count; WORDS])?;
            let link = tx.alloc([value.to_bits(), before, count + 1])?;
            tx.set(self.head, link.to_bits())?;
            Ok(count + 1)
        });
        Ok(pushed?.value)
    }

    /// Checks every value, and returns the count.
    pub(crate) fn check<D: Design>(self, pool: &Pool<D>) -> u64 {
        let checked = pool.run(|tx| {
            let mut link: u64 = tx.get(self.head)?;
            let (mut left, mut count) = (None, 0);
            while link != 0 {
                let [value, before, number] = tx.get(Ptr::<[u64; 3]>::from_bits(link))?;
                assert_eq!(number, left.unwrap_or(number));
                let value = tx.get(Ptr::<[u64; WORDS]>::from_bits(value))?;
                assert_eq!(value, [number - 1; WORDS]);
                (link, left, count) = (before, Some(number - 1), count.max(number));
            }
            assert_eq!(left.unwrap_or(0), 0);
            Ok(count)
        });
        checked.unwrap().value
    }
}

fn full_heap_grows<D: Design>(medium: Medium, change: fn(Options) -> Options) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    // Without threads the heap grows only when it is full.
    let full = change(options(medium)).background(false);
    let pool = Pool::<D>::create_as(&path, full).unwrap();
    let chain = Chain::create(&pool);
    let mut count = 0;
    while pool.info().heap_bytes < 3 * MIB {
        count = chain.push(&pool).unwrap();
        assert!(count < 9000, "{}", pool.info().heap_bytes);
    }
    assert_eq!(chain.check(&pool), count);
    let usage = pool.check_heap().unwrap();
    let (heap_bytes, live) = (pool.info().heap_bytes, 8 * WORDS as u64 * count);
    assert!(usage.heap_bytes == heap_bytes && live > heap_bytes / 2, "{live} of {heap_bytes}");
    if !D::DURABLE {
        return;
    }
    pool.close().unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length > heap_bytes && length < heap_bytes + 6 * MIB, "{length}");
    // Without the limit it opens, and keeps its size.
    let pool = Pool::<D>::open_as(&path, change(Options::new().medium(medium))).unwrap();
    let chain = Chain::open(&pool);
    assert_eq!((chain.check(&pool), pool.info().heap_bytes), (count, heap_bytes));
    pool.abandon();
    let _ = lastword::check(&path).unwrap();
    let pool = Pool::<D>::open_as(&path, change(options(medium))).unwrap();
    let chain = Chain::open(&pool);
    while pool.info().heap_bytes == heap_bytes {
        count = chain.push(&pool).unwrap();
    }
    assert_eq!(chain.check(&pool), count);
}

#[test]
fn full_heap_grows_and_keeps_its_content() {
    let same = |options| options;
    for medium in [Medium::File, EMULATED, Medium::PersistentCache] {
        full_heap_grows::<Decoupled>(medium, same);
        full_heap_grows::<Decoupled>(medium, |options| {
            options.shadow(Shadow::CopyOnWrite).reproduce_threads(2)
        });
        full_heap_grows::<Undo>(medium, same);
        full_heap_grows::<Redo>(medium, same);
        full_heap_grows::<Snapshot>(medium, same);
        full_heap_grows::<DecoupledSoftware>(medium, |options| {
            options.shadow(Shadow::Software).shadow_bytes(MIB / 2)
        });
        full_heap_grows::<DecoupledEvicting>(medium, |options| {
            options.shadow(Shadow::CopyOnWrite).shadow_bytes(MIB / 2)
        });
    }
    full_heap_grows::<Volatile>(Medium::File, same);
}

#[test]
fn heap_grows_up_to_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = options(Medium::File).max_bytes(3 * MIB + 70_000).grow_step(MIB);
    let pool = Pool::<Decoupled>::create_as(&path, options).unwrap();
    let max_bytes = 3 * MIB + 65_536;
    let chain = Chain::create(&pool);
    let full = loop {
        if let Err(error) = chain.push(&pool) {
            break error;
        }
    };
    assert!(matches!(full, Error::Full { heap_bytes, .. } if heap_bytes == max_bytes), "{full}");
    assert!(full.to_string().contains("`max_bytes`"), "{full}");
    let beyond = pool.grow(4 * MIB);
    let Err(Error::NoGrowth { wanted, max_bytes: max }) = beyond else { panic!("{beyond:?}") };
    assert_eq!((wanted, max), (4 * MIB, max_bytes));
    assert_eq!(pool.grow(0).unwrap(), max_bytes);
    // A request that fits in no heap of the limit makes none larger.
    pool.close().unwrap();
    // Without the thread, which would grow a nearly full heap by a step of its own.
    let options = Options::new().max_bytes(8 * MIB).background(false);
    let pool = Pool::open(&path, options).unwrap();
    let huge = pool.run(|tx| Array::<u64>::create(tx, MIB)).map(|made| made.value);
    assert!(matches!(huge, Err(Error::Full { .. })), "{huge:?}");
    assert_eq!(pool.info().heap_bytes, max_bytes);
    // A smaller one makes the heap as large as needed, in one step.
    let large = pool.run(|tx| Array::<u64>::create(tx, MIB / 4)).unwrap().value;
    let bytes = pool.info().heap_bytes;
    assert!(bytes > 5 * MIB && bytes < 6 * MIB, "{bytes}");
    let _ = pool.run(|tx| tx.set(large.at(MIB / 4 - 1)?, 7)).unwrap();
}

#[test]
fn workers_use_new_memory_while_others_run() {
    every_durable!(grows_beside_workers());
}

fn grows_beside_workers<D: Design>() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(medium).grow_step(64 << 10);
        let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
        let chain = Chain::create(&pool);
        let pushed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        chain.push(&pool).unwrap();
                        pushed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Views and backups of a heap that grows.
            for number in 0..4 {
                let view = pool.view().unwrap();
                view.check().unwrap();
                // A reader beside the owner.
                match lastword::check(dir.path().join("pool")) {
                    Err(Error::InUse(_)) => {}
                    report => assert!(report.unwrap().is_sound()),
                }
                let copy = dir.path().join(format!("copy{number}"));
                let id = pool.backup(&copy).unwrap();
                let copy = Pool::<D>::open_as(&copy, Options::new()).unwrap();
                assert_eq!(copy.committed_id(), id);
                Chain::open(&copy).check(&copy);
            }
        });
        assert_eq!(chain.check(&pool), pushed.into_inner());
        pool.check_heap().unwrap();
    }
}

#[test]
fn failed_growth_leaves_pool_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for fault in [Fault::Io, Fault::NoSpace] {
        let created = |faults| {
            for file in [path.clone(), with_suffix(&path, ".log")] {
                let _ = std::fs::remove_file(file);
            }
            let options = options(Medium::File).system(System::kernel().failing(faults));
            let pool = Pool::create(&path, options.background(false)).unwrap();
            let chain = Chain::create(&pool);
            chain.push(&pool).unwrap();
            pool.flush().unwrap();
            (pool, chain)
        };
        let calls = Faults::none();
        let (pool, _) = created(calls.clone());
        let first = calls.calls();
        pool.grow(2 * MIB).unwrap();
        let last = calls.calls();
        drop(pool);
        assert!(last > first + 4);
        let mut poisoned = 0;
        for nth in first..last {
            let (pool, chain) = created(Faults::nth(nth, fault, false));
            let grown = pool.grow(2 * MIB);
            // Of a pool with a longer file, too, others read all.
            assert!(lastword::check(&path).unwrap().checked.is_some(), "{grown:?}");
            match chain.push(&pool) {
                Err(Error::Poisoned { .. }) => poisoned += 1,
                // A failed read or write leaves no doubt about pages that were written before.
                pushed => {
                    assert_eq!(pushed.unwrap(), 2, "{grown:?}");
                    assert!(grown.is_ok() || fault == Fault::NoSpace, "{grown:?}");
                }
            }
            pool.abandon();
            let _ = lastword::check(&path).unwrap();
            reopened(&path, grown.is_ok());
        }
        assert!(poisoned < last - first, "{poisoned}");
    }
}

/// Opens the pool after a growth that may have failed, and makes it larger again.
fn reopened(path: &Path, is_grown: bool) {
    let pool = Pool::open(path, options(Medium::File)).unwrap();
    assert!(!is_grown || pool.info().heap_bytes == 2 * MIB);
    let chain = Chain::open(&pool);
    let count = chain.check(&pool);
    pool.grow(4 * MIB).unwrap();
    pool.check_heap().unwrap();
    for _ in 0..2700 {
        chain.push(&pool).unwrap();
    }
    pool.close().unwrap();
    let pool = Pool::open(path, Options::new()).unwrap();
    assert_eq!(chain.check(&pool), count + 2700);
    let length = std::fs::metadata(path).unwrap().len();
    assert_eq!(length, 2 * MIB + 4 * MIB);
}

#[test]
fn transaction_in_parts_grows_at_second_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("pool"), options(Medium::File)).unwrap();
    let mut worker = pool.worker().unwrap();
    let mut attempts = 0;
    let array = loop {
        attempts += 1;
        let mut open = worker.begin(false).unwrap();
        match Array::<u64>::create(open.tx(), MIB / 4) {
            Ok(array) => break open.commit().unwrap().map(|_| array).unwrap(),
            Err(stop) => assert_eq!(stop, Stop::Full),
        }
    };
    assert_eq!(attempts, 2);
    // A transaction that began before the heap grew, and meets the new memory, has a conflict.
    let mut open = worker.begin(false).unwrap();
    let grown = std::thread::scope(|scope| {
        let create = || pool.run(|tx| Array::<u64>::create(tx, MIB / 2)).unwrap().value;
        scope.spawn(create).join().unwrap()
    });
    assert_eq!(open.tx().get(grown.at(MIB / 2 - 1).unwrap()), Err(Stop::Conflict));
    assert!(open.commit().unwrap().is_none());
    assert_eq!(worker.run(|tx| tx.get(array.at(0)?)).unwrap().value, 0);
}

#[test]
fn unrelated_stop_does_not_grow_heap() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("pool"), options(Medium::File)).unwrap();
    let own = pool.run(|_| Err::<(), Stop>(Stop::Full)).map(|done| done.value);
    assert!(matches!(own, Err(Error::Full { wanted_bytes: 0, .. })), "{own:?}");
    let mut worker = pool.worker().unwrap();
    let read_only = worker.read(|tx| Array::<u64>::create(tx, MIB / 4)).map(|done| done.value);
    assert!(read_only.is_err(), "{read_only:?}");
    assert_eq!(pool.info().heap_bytes, MIB);
}

#[test]
fn impossible_growth_leaves_pool_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path, options(Medium::File)).unwrap().close().unwrap();
    let before = std::fs::read(&path).unwrap();
    for bytes in [16 << 40, 1 << 48] {
        let grown = lastword::grow(&path, bytes);
        assert!(matches!(grown, Err(Error::NoGrowth { .. })), "{grown:?}");
        assert!(std::fs::read(&path).unwrap() == before);
    }
    assert!(matches!(lastword::grow(&path, u64::MAX), Err(Error::BadOption { .. })));
    Pool::open(&path, Options::new()).unwrap();
}

#[test]
fn file_that_was_cut_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options(Medium::File).background(false)).unwrap();
    let chain = Chain::create(&pool);
    chain.push(&pool).unwrap();
    let cut = 2 * MIB + MIB / 2;
    std::fs::File::options().write(true).open(&path).unwrap().set_len(cut).unwrap();
    let grown = pool.grow(2 * MIB);
    assert!(matches!(grown, Err(Error::Medium(MediumError::Truncated { .. }))), "{grown:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), cut);
    assert!(matches!(pool.close(), Err(Error::Cut { .. })));
}

#[test]
fn system_without_fallocate_grows_by_writing_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::without(&[Call::Allocate], u64::MAX, Fault::Io, false);
    let options = options(Medium::File).system(System::kernel().failing(faults));
    let pool = Pool::create(dir.path().join("pool"), options).unwrap();
    let chain = Chain::create(&pool);
    for _ in 0..2700 {
        chain.push(&pool).unwrap();
    }
    assert_eq!(chain.check(&pool), 2700);
}

/// Set in the child process: the path of its pool.
const CHILD: &str = "LASTWORD_TEST_GROWTH";

/// Number of rounds over all media.
pub(crate) const ROUNDS: &str = "LASTWORD_KILL_ROUNDS";

/// Pushes values to a heap that grows by little steps, and prints the count of durable ones.
fn push_until_killed(path: &Path, medium: Medium) {
    let options = options(medium).grow_step(64 << 10).max_bytes(256 * MIB);
    let pool = Pool::open(path, options).unwrap();
    let chain = Chain::open(&pool);
    loop {
        let mut count = 0;
        for _ in 0..20 {
            count = chain.push(&pool).unwrap();
        }
        pool.flush().unwrap();
        println!("{PUSHED}{count}");
    }
}

pub(crate) const PUSHED: &str = "pushed ";

fn kill_while_growing(test: &str, medium: Medium) {
    if let Some(path) = std::env::var_os(CHILD) {
        return push_until_killed(Path::new(&path), medium);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options(medium).bytes(128 << 10)).unwrap();
    Chain::create(&pool);
    pool.close().unwrap();
    let rounds = std::env::var(ROUNDS).map_or(10, |rounds| rounds.parse().unwrap());
    let (mut heap_bytes, mut grown) = (128 << 10, 0);
    for round in 0..rounds / 2 {
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
        for _ in 0..3 + round * 7 % 11 {
            acknowledged = counts().unwrap();
        }
        std::thread::sleep(Duration::from_micros(round * 739 % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(count) = counts() {
            acknowledged = count;
        }
        let _ = lastword::check(&path).unwrap();
        let pool = Pool::open(&path, Options::new()).unwrap();
        let found = Chain::open(&pool).check(&pool);
        assert!(found >= acknowledged, "{found} of {acknowledged}");
        pool.check_heap().unwrap();
        let now = pool.info().heap_bytes;
        assert!(now >= heap_bytes);
        grown += (now - heap_bytes) / (64 << 10);
        heap_bytes = now;
    }
    assert!(grown * 2 >= rounds / 2, "{grown} growths");
}

#[test]
fn killed_process_leaves_grown_file_whole() {
    kill_while_growing("growth::killed_process_leaves_grown_file_whole", Medium::File);
}

#[test]
fn killed_process_leaves_grown_mapping_whole() {
    kill_while_growing("growth::killed_process_leaves_grown_mapping_whole", EMULATED);
}
