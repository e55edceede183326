//! The use of a heap, and the error of a full one: its numbers are true, each remedy makes room.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc;

use lastword::{
    Addr, Allocate, Array, Design, Error, Medium, Options, Pool, Shortage, Snapshot, Stop, Tx,
    Words, Worker,
};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
const HEAP_BYTES: u64 = 1 << 20;
const FIRST_RUN_BYTES: u64 = 64 << 10;

fn options(heap_bytes: u64) -> Options {
    Options::new().bytes(heap_bytes).log_bytes(16 << 20).ring_entries(1 << 16).medium(EMULATED)
}

fn create<D: Design>(dir: &tempfile::TempDir, heap_bytes: u64) -> Pool<D> {
    Pool::create_as(dir.path().join(format!("{}.{heap_bytes}", D::NAME)), options(heap_bytes))
        .unwrap()
}

/// A pool that may grow up to `max_bytes`.
fn growing<D: Design>(dir: &tempfile::TempDir, max_bytes: u64) -> Pool<D> {
    let path = dir.path().join(format!("{}.up to {max_bytes}", D::NAME));
    Pool::create_as(path, options(HEAP_BYTES).max_bytes(max_bytes)).unwrap()
}

/// Returns the shortage and the text of a transaction that meets a full heap.
fn full<D: Design, R: std::fmt::Debug>(
    worker: &mut Worker<'_, D>,
    body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
) -> (Shortage, String) {
    let error = worker.run(body).map(|done| done.value).unwrap_err();
    let text = error.to_string();
    match error {
        Error::Full { shortage, .. } => (shortage, text),
        error => panic!("{}: {error}", D::NAME),
    }
}

/// Allocates objects of one size until the heap is full.
fn fill<D: Design>(worker: &mut Worker<'_, D>, bytes: usize) -> Vec<u64> {
    let mut objects = Vec::new();
    loop {
        match worker.run(|tx| tx.allocate(bytes)) {
            Ok(done) => objects.push(done.value),
            Err(Error::Full { .. }) => return objects,
            Err(error) => panic!("{}: {error}", D::NAME),
        }
    }
}

fn free<D: Design>(worker: &mut Worker<'_, D>, objects: &[u64], bytes: u64) {
    for objects in objects.chunks(25) {
        let free = |tx: &mut Tx<'_, D>| {
            objects.iter().try_for_each(|&object| tx.retire(Addr::new(object, 0), bytes))
        };
        let _ = worker.run(free).unwrap();
    }
}

#[test]
fn full_heap_of_one_size_names_frees_that_make_room() {
    every_durable!(one_size());
}

fn one_size<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(&dir, HEAP_BYTES);
    let mut worker = pool.worker().unwrap();
    let mut objects = fill(&mut worker, 100);
    let count = objects.len();

    // The same size: nothing is free.
    let (shortage, text) = full(&mut worker, |tx| tx.allocate(100));
    assert!(text.starts_with("the pool is full: its heap of 1048576 bytes has no room for 100"));
    assert!(text.contains("too little is free: 0 bytes are free"), "{}: {text}", D::NAME);
    assert!(text.contains(&format!("free one of the {count} objects of about")), "{text}");
    assert_eq!((shortage.equal_live, shortage.class), (count as u64, None), "{text}");
    free(&mut worker, &objects[..1], 100);
    objects[0] = worker.run(|tx| tx.allocate(100)).unwrap().value;

    // Another size: no object of it is live, so all of the others must go.
    let (shortage, text) = full(&mut worker, |tx| tx.allocate(500));
    assert_eq!((shortage.equal_live, shortage.class), (0, Some((128, count as u64))), "{text}");
    let remedy = format!("free all {count} objects in slots of 128 bytes");
    assert!(text.contains(&remedy) && !text.contains("about this size"), "{}: {text}", D::NAME);

    // Every other object is freed: enough is free, but in pieces.
    let every_other = |from: usize| objects[from..].iter().step_by(2).copied().collect::<Vec<_>>();
    let (freed, kept) = (every_other(0), every_other(1));
    free(&mut worker, &freed, 100);
    let (shortage, text) = full(&mut worker, |tx| tx.allocate(500));
    assert!(text.contains("enough is free, but in pieces"), "{}: {text}", D::NAME);
    assert_eq!(shortage.class, Some((128, kept.len() as u64)));
    let usage = pool.heap_usage();
    assert!(text.contains(&format!("{} bytes in free slots", usage.free_slot_bytes())), "{text}");
    assert!(usage.fragmentation() > 0.9, "{usage:?}");
    free(&mut worker, &kept, 100);
    let _ = worker.run(|tx| tx.allocate(500)).unwrap();
}

#[test]
fn larger_pool_of_full_error_holds_request() {
    every_durable!(larger_pool());
}

fn larger_pool<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(&dir, HEAP_BYTES);
    let mut worker = pool.worker().unwrap();
    let reserve = |tx: &mut Tx<'_, D>| Array::<u64>::reserve(tx, 1 << 18);
    let (shortage, text) = full(&mut worker, reserve);
    let least = shortage.heap_bytes_min;
    assert!(text.contains(&format!("`max_bytes` of at least {least}")), "{text}");
    for (bytes, fits) in [(least - (64 << 10), false), (least, true)] {
        for pool in [create::<D>(&dir, bytes), growing::<D>(&dir, bytes)] {
            let reserved = pool.worker().unwrap().run(reserve).map(|_| ());
            assert_eq!(reserved.is_ok(), fits, "{}, {bytes} bytes: {reserved:?}", D::NAME);
        }
    }

    // A second array: the pool needs the memory of the first once more.
    let half = |tx: &mut Tx<'_, D>| Array::<u64>::reserve(tx, 1 << 16);
    let first = worker.run(half).unwrap().value;
    let (shortage, text) = full(&mut worker, half);
    assert!(shortage.long_run_live && text.contains("free an array"), "{text}");
    let named = text.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let pool = create::<D>(&dir, named);
    let mut other = pool.worker().unwrap();
    let _ = other.run(half).unwrap();
    let _ = other.run(half).unwrap();
    let _ = worker.run(|tx| first.free(tx)).unwrap();
    let _ = worker.run(half).unwrap();
}

#[test]
fn transaction_that_fills_heap_is_named_as_cause() {
    every_durable!(one_transaction());
}

fn one_transaction<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(&dir, 256 << 10);
    let mut worker = pool.worker().unwrap();
    let (shortage, text) = full(&mut worker, |tx| {
        // More objects than the heap holds. The roll-back frees all of them.
        (0..300).try_for_each(|_| tx.allocate(1000).map(drop))
    });
    assert!(shortage.fits && text.contains("allocate less in one transaction"), "{text}");
    assert_eq!(pool.heap_usage().objects, 0);
    let _ = worker.run(|tx| tx.allocate(1000)).unwrap();
}

#[test]
fn heap_usage_beside_workers_counts_each_run_once() {
    every_durable!(beside_workers());
}

/// The slabs that a worker needs for three sizes, one of which it uses at a time: two for each.
const SLABS_BYTES: u64 = 6 * (32 << 10);

/// An estimate beside running transactions differs by a slab at most from the memory in use.
fn beside_workers<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(&dir, 4 * HEAP_BYTES);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut worker = pool.worker().unwrap();
            for round in 0..60 {
                let bytes = [100, 700, 1000][round % 3];
                let make = |tx: &mut Tx<'_, D>| {
                    (0..40).map(|_| tx.allocate(bytes)).collect::<Result<Vec<_>, _>>()
                };
                let objects = worker.run(make).unwrap().value;
                free(&mut worker, &objects, bytes as u64);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut estimates = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) || estimates == 0 {
            let usage = pool.heap_usage();
            let slabs = usage.live_bytes() + usage.free_slot_bytes();
            assert!(slabs <= SLABS_BYTES, "{}: {slabs} in {usage:?}", D::NAME);
            let rest = usage.free_bytes + usage.unknown_bytes;
            let least = usage.heap_bytes - FIRST_RUN_BYTES - SLABS_BYTES;
            assert!(rest >= least, "{}: {rest} in {usage:?}", D::NAME);
            estimates += 1;
        }
    });
    let usage = pool.heap_usage();
    assert_eq!((usage.objects, usage.unknown_bytes), (0, 0));
}

#[test]
fn heap_usage_after_reader_ends_is_exact() {
    every_durable!(after_reader());
}

/// A reader that is open during a commit keeps its versions from the heap.
fn after_reader<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(&dir, HEAP_BYTES);
    let mut worker = pool.worker().unwrap();
    let root = worker.run(|tx| tx.allocate(100)).unwrap().value;
    let (begun, has_begun) = mpsc::channel();
    let (end, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        let pool = &pool;
        scope.spawn(move || {
            let mut reader = pool.worker().unwrap();
            let mut open = reader.begin(true).unwrap();
            open.tx().read(Addr::new(root, 0)).unwrap();
            begun.send(()).unwrap();
            ends.recv().unwrap();
            let _ = open.commit().unwrap().unwrap();
        });
        has_begun.recv().unwrap();
        // The class of the first has a slab, that of the second none.
        let _ = worker.run(|tx| Ok([tx.allocate(100)?, tx.allocate(500)?])).unwrap();
        end.send(()).unwrap();
    });
    let usage = pool.heap_usage();
    assert_eq!(usage.objects, 3, "{}", D::NAME);
    let mut checked = pool.check_heap().unwrap();
    checked.object_bytes = 0;
    assert_eq!(usage, checked, "{}", D::NAME);
}

#[test]
fn flush_makes_heap_usage_of_open_group_exact() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(HEAP_BYTES).group(100).background(false);
    let pool = Pool::<Snapshot>::create_as(dir.path().join("pool"), options).unwrap();
    let mut worker = pool.worker().unwrap();
    for _ in 0..3 {
        let _ = worker.run(|tx| tx.allocate(100)).unwrap();
    }
    pool.flush().unwrap();
    assert_eq!(pool.heap_usage().objects, 3);
}

fn small_options() -> Options {
    options(HEAP_BYTES).log_bytes(8 << 20).medium(Medium::File)
}

/// Allocates objects of many sizes, an array and strings, and frees some of them.
fn allocate_all_kinds<D: Design>(pool: &Pool<D>) {
    let mut worker = pool.worker().unwrap();
    for bytes in (16..=1024).step_by(24) {
        let _ = worker
            .run(|tx| {
                let freed = tx.allocate(bytes)?;
                tx.allocate(bytes)?;
                tx.allocate_pieces(1100 + 9 * bytes as u64)?;
                tx.retire(Addr::new(freed, 0), bytes as u64)
            })
            .unwrap();
    }
    let _ = worker.run(|tx| tx.reserve_blocks(30)).unwrap();
    let _ = worker.run(|tx| tx.allocate_pieces(40_000)).unwrap();
}

#[test]
fn heap_usage_of_closed_or_crashed_pool_equals_check() {
    every_durable!(closed_or_crashed());
}

fn closed_or_crashed<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<D>::create_as(&path, small_options()).unwrap();
    allocate_all_kinds(&pool);
    pool.flush().unwrap();
    let open = pool.heap_usage();
    pool.abandon();
    for state in ["crashed", "closed"] {
        let mut checked = lastword::check(&path).unwrap().sound().unwrap().usage;
        let usage = lastword::heap_usage(&path).unwrap();
        assert_eq!(usage, open, "{}, {state}", D::NAME);
        assert!(checked.object_bytes > 0);
        checked.object_bytes = 0;
        assert_eq!(usage, checked, "{}, {state}", D::NAME);
        assert_eq!((usage.arrays, usage.long_strings, usage.unknown_bytes), (1, 1, 0));
        Pool::<D>::open_as(&path, small_options()).unwrap().close().unwrap();
    }
}
