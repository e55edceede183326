//! Tests that run on every design, medium and transactional memory.
//!
//! | suite | checks |
//! |---|---|
//! | `Models` | the collections against those of the standard library |
//! | `Consistency` | every workload's invariants, with several workers, before and after recovery |
//! | `UseAfterFree` | writes to freed objects |
//! | [`forgotten`] | transactions and workers that a program forgets |
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "suite/forgotten.rs"]
mod forgotten;

use std::path::Path;
use std::sync::Mutex;

use lastword::perform::{Serial, Stm, Tm};
use lastword::{
    Array, CopyOptions, Decoupled, DecoupledEvicting, DecoupledSoftware, Design, DesignInfo,
    Durability, Erased, ErasedTx, Error, LogFormat, Medium, Objects, Options, Pool, Promise,
    Shadow, Snapshot, Stop, TxId, Volatile, Worker,
};
use workloads::{AnyClient, AnyWorkload, Kind};

/// Checks a pool without changing it and expects that it is sound.
fn checked(path: &Path) -> Result<lastword::Checked, lastword::Error> {
    lastword::check(path)?.sound()
}

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
const SCALE: f64 = 0.002;

fn options() -> Options {
    Options::new().bytes(16 << 20).log_bytes(256 << 10).ring_entries(1 << 12)
}

/// A suite on one combination of design, medium, memory and durability.
type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Calls `one_design` for the type of each design in the registry.
macro_rules! registered {
    (
        [$suite:ident $tasks:ident]
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        registered!($suite $tasks: $($volatile)* $($durable)* $($research)*);
    };
    ($suite:ident $tasks:ident: $($name:ident $(= $number:literal)?: $design:ty
        { $($fact:tt)* } [$($types:tt)*])*) => {
        $(one_design::<$design>($suite, $tasks, |options| options);)*
    };
}

/// Runs each suite on every combination of design, medium, transactional memory and durability,
/// `at_once` of them at the same time.
fn every_design<S: Suite + Sync>(suites: &[S], at_once: usize) {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for suite in suites {
        let tasks = &mut tasks;
        lastword::for_each_design!([registered] suite tasks);
        one_design::<Volatile<Serial>>(suite, tasks, |options| options);
        one_design::<Decoupled<Serial>>(suite, tasks, |options| options.background(false));
        paged(suite, tasks);
    }
    let tasks = Mutex::new(tasks.into_iter());
    let next = || tasks.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| std::iter::from_fn(next).for_each(|task| task()));
        }
    });
}

/// Number of combinations that run at the same time in tests that do not depend on time. Most of
/// them wait for a disk.
const AT_ONCE: usize = 4;

/// Adds a task for each medium and durability of a design.
fn one_design<'a, D: Design>(
    suite: &'a (impl Suite + Sync),
    tasks: &mut Vec<Task<'a>>,
    change: impl Fn(Options) -> Options,
) {
    let design = DesignInfo::of::<D>();
    if !design.is_durable {
        let options = change(options());
        return tasks.push(Box::new(move || suite.run::<D>(options, Durability::Async)));
    }
    let mut combinations = 0..;
    let mut add = |options: Options, durability| {
        if combinations.next().is_some_and(|combination| suite.includes(combination)) {
            let options = change(options);
            tasks.push(Box::new(move || suite.run::<D>(options, durability)));
        }
    };
    let durabilities = match design.durability {
        // Durable on return, whatever is asked for.
        Promise::OnReturn | Promise::Never => &[Durability::Async][..],
        Promise::InBackground => &[Durability::Async, Durability::Sync],
    };
    let mapped = options().medium(Medium::PersistentCache).shadow(Shadow::CopyOnWrite);
    for options in [options(), options().medium(EMULATED), mapped] {
        for durability in durabilities {
            add(options.clone().durability(*durability), *durability);
        }
    }
    if design.log == (LogFormat::Slots { grouped: true }) {
        add(options().medium(EMULATED).group(3), Durability::Async);
    }
}

/// Adds tasks with shadows smaller than the heap: 64 pages and 1 MiB.
fn paged<'a>(suite: &'a (impl Suite + Sync), tasks: &mut Vec<Task<'a>>) {
    let durability = Durability::Async;
    for (options, pages) in [(options(), 64), (options().medium(EMULATED), 256)] {
        let options = options.shadow_bytes(pages * 4096);
        let software = options.clone().shadow(Shadow::Software);
        tasks.push(Box::new(move || suite.run::<DecoupledSoftware>(software, durability)));
        let evicting = options.shadow(Shadow::CopyOnWrite);
        tasks.push(Box::new(move || suite.run::<DecoupledEvicting>(evicting, durability)));
    }
}

trait Suite {
    /// Whether the suite runs on the combination of this number, of those of each durable design.
    fn includes(&self, _combination: usize) -> bool {
        true
    }

    fn run<D: Design>(&self, options: Options, durability: Durability);
}

struct Models;

impl Suite for Models {
    fn run<D: Design>(&self, options: Options, durability: Durability) {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::<D>::create_as(dir.path().join("pool"), options.clone()).unwrap();
        let operations = if durability == Durability::Sync { 300 } else { 3000 };
        models(&mut Erased::new(&mut pool.worker().unwrap()), 7, operations).unwrap();
    }
}

/// A write to an object that its own transaction freed is an error.
///
/// The designs keep a transaction's writes in different places: in the heap, in the shadow, in a
/// write set. Each of them must notice that the allocation ended.
struct UseAfterFree;

impl Suite for UseAfterFree {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        if !D::ROLLS_BACK {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
        let array = pool.run(|tx| Array::<[u64; 32]>::create(tx, 300)).unwrap().value;
        let mut worker = pool.worker().unwrap();
        // This write caches the array's head: later accesses read no block header, so the block
        // header cannot be the check that refuses the write below.
        let _ = worker.run(|tx| tx.set(array.at(299)?, [1; 32])).unwrap();
        let written = worker.run(|tx| {
            array.free(tx)?;
            tx.set(array.at(150)?, [2; 32])
        });
        assert!(matches!(written, Err(Error::BadPointer { .. })), "{}: {written:?}", D::NAME);
        drop(worker);
        assert_eq!(pool.run(|tx| tx.get(array.at(299)?)).unwrap().value, [1; 32]);
    }
}

fn models(worker: &mut Erased<'_, Error>, seed: u64, operations: usize) -> Result<(), Error> {
    collections::raw::model::hash_map(worker, seed, operations)?;
    collections::raw::model::chained_map(worker, seed, operations)?;
    collections::raw::model::btree_map(worker, seed, operations)?;
    collections::raw::model::rb_tree(worker, seed, operations)?;
    collections::raw::model::queue(worker, seed, operations)
}

#[test]
fn use_after_free_is_bad_pointer_on_every_design() {
    every_design(&[UseAfterFree], AT_ONCE);
}

#[test]
fn collections_match_std_on_every_design() {
    every_design(&[Models], AT_ONCE);
}

/// One workload, run and checked on every design.
///
/// It runs on a third of each design's combinations of medium and durability. Three workloads in
/// succession run on all of them.
struct Consistency {
    kind: Kind,
    number: usize,
}

impl Suite for Consistency {
    fn includes(&self, combination: usize) -> bool {
        (self.number + combination).is_multiple_of(3)
    }

    fn run<D: Design>(&self, options: Options, durability: Durability) {
        let kind = self.kind;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let workers = D::WORKERS_MAX.min(3);
        let parameters = workloads::Options { scale: SCALE, workers, ..Default::default() };
        // In designs with one log slot per worker, loading is one transaction that fills a slot.
        let slots = matches!(DesignInfo::of::<D>().log, LogFormat::Slots { .. });
        let log_bytes = if slots { 16 << 20 } else { 256 << 10 };
        let options = options.bytes(kind.heap_bytes(&parameters)).log_bytes(log_bytes);
        let pool = Pool::<D>::create_as(&path, options.clone()).unwrap();
        let workload =
            kind.load(&mut Erased::any(&mut pool.worker().unwrap()), &parameters).unwrap();
        let waits = slots || durability == Durability::Sync;
        let transactions = if waits { 30 } else { 1000 };
        let ran = run_workers(&pool, &workload, workers, 1, transactions);
        check(&pool, &workload, &ran);
        if D::DURABLE {
            pool.flush().unwrap();
            let durable = pool.durable_id();
            // `abandon` may lose any of these: no flush follows them.
            run_workers(&pool, &workload, workers, 2, transactions);
            pool.abandon();
            recovered::<D>(kind, &path, &options, &ran, durable);
        }
    }
}

fn transact<D: Design>(
    worker: &mut Worker<'_, D>,
    reads_only: bool,
    body: &mut dyn FnMut(&mut ErasedTx<'_>) -> Result<(), Stop>,
) -> Result<(), Error> {
    let done = match reads_only {
        true => worker.read(|tx| body(&mut ErasedTx::new(tx))),
        false => worker.run(|tx| body(&mut ErasedTx::new(tx))),
    };
    done.map(drop)
}

/// Runs the client's transaction and expects the outcome that the workload predicts.
fn run_one<D: Design>(worker: &mut Worker<'_, D>, workload: &AnyWorkload, client: &AnyClient) {
    if workload.gives_up(client) && !D::ROLLS_BACK {
        return;
    }
    let reads_only = workload.reads_only(client);
    match transact(worker, reads_only, &mut |tx| workload.run(client, tx)) {
        Ok(()) => assert!(!workload.gives_up(client)),
        Err(Error::Stopped { stop: Stop::Aborted }) => assert!(workload.gives_up(client)),
        Err(error) => panic!("{:?} on {}: {error}", workload.kind(), D::NAME),
    }
}

/// Runs `workers` threads. Returns each thread's client as of its last transaction.
fn run_workers<D: Design>(
    pool: &Pool<D>,
    workload: &AnyWorkload,
    workers: usize,
    run: u64,
    transactions: usize,
) -> Vec<AnyClient> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|index| {
                scope.spawn(move || {
                    let mut worker = pool.worker().unwrap();
                    let mut client = workload.client(index, run);
                    for _ in 0..transactions {
                        workload.next(&mut client);
                        run_one(&mut worker, workload, &client);
                    }
                    client
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

fn check<D: Design>(pool: &Pool<D>, workload: &AnyWorkload, ran: &[AnyClient]) {
    let (mut worker, kind) = (pool.worker().unwrap(), workload.kind());
    for client in ran {
        let mut present = false;
        let looked = transact(&mut worker, true, &mut |tx| {
            present = workload.is_present(client, tx)?;
            Ok(())
        });
        assert!(
            looked.is_ok() && present,
            "{kind:?} on {}: a committed transaction is missing",
            D::NAME
        );
    }
    let violations = workload.check(&mut Erased::any(&mut worker)).unwrap();
    assert!(violations.is_empty(), "{kind:?} on {}: {violations:?}", D::NAME);
}

fn recovered<D: Design>(
    kind: Kind,
    path: &Path,
    options: &Options,
    ran: &[AnyClient],
    durable: TxId,
) {
    let shown = checked(path).unwrap();
    assert!(shown.needs_recovery && shown.durable_id >= durable);
    let pool = Pool::<D>::open_as(path, options.clone()).unwrap();
    assert!(pool.committed_id() == shown.durable_id, "recovery and check disagree");
    let workload = kind.open(&mut Erased::any(&mut pool.worker().unwrap())).unwrap();
    check(&pool, &workload.expect("the workload is in the pool"), ran);
    pool.close().unwrap();
    assert_eq!(checked(path).unwrap().usage, shown.usage, "recovery leaks objects");
}

#[test]
fn every_workload_is_consistent_on_every_design() {
    let one = |(number, kind)| Consistency { kind, number };
    let suites: Vec<_> = Kind::all().enumerate().map(one).collect();
    every_design(&suites, AT_ONCE);
}

/// A compacted pool has the workload's data at other addresses.
fn compacts<D: Design>(kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let (path, small) = (dir.path().join("pool"), dir.path().join("small"));
    let parameters = workloads::Options { scale: SCALE, ..Default::default() };
    // Loading is one transaction that fills a slot of the log.
    let heap_bytes = kind.heap_bytes(&parameters);
    let options = options().bytes(heap_bytes).log_bytes(16 << 20).medium(EMULATED);
    let pool = Pool::<D>::create_as(&path, options).unwrap();
    let workload = kind.load(&mut Erased::any(&mut pool.worker().unwrap()), &parameters).unwrap();
    let ran = run_workers(&pool, &workload, 1, 1, 500);
    pool.close().unwrap();
    // Workloads that check themselves by transactions need some room.
    let form = CopyOptions::new().bytes(heap_bytes);
    let moved = lastword::compact(&path, &small, &form).unwrap();
    let usage = checked(&small).unwrap().usage;
    assert_eq!(usage.objects + usage.arrays, moved.allocations);
    let pool = Pool::<D>::open_as(&small, Options::new()).unwrap();
    let workload = kind.open(&mut Erased::any(&mut pool.worker().unwrap())).unwrap();
    check(&pool, &workload.expect("the workload is in the pool"), &ran);
}

#[test]
fn every_workload_survives_compaction() {
    for kind in Kind::all() {
        compacts::<Decoupled>(kind);
        compacts::<Snapshot>(kind);
    }
}

/// The same seeded transactions leave equal heaps in both memories.
#[test]
fn stm_and_serial_produce_equal_heaps() {
    fn heap<T: Tm>() -> Vec<u64> {
        let pool = Pool::<Volatile<T>>::create_as("", options()).unwrap();
        let parameters = workloads::Options { scale: SCALE, ..Default::default() };
        let btree = Kind::by_name("btree").unwrap();
        let workload =
            btree.load(&mut Erased::any(&mut pool.worker().unwrap()), &parameters).unwrap();
        run_workers(&pool, &workload, 1, 1, 5000);
        models(&mut Erased::new(&mut pool.worker().unwrap()), 3, 2000).unwrap();
        (0..pool.design().words()).map(|index| pool.design().peek(index)).collect()
    }
    assert!(heap::<Stm>() == heap::<Serial>());
}
