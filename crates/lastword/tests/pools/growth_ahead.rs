//! Heaps that grow before they are full.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::growth::{Chain, MIB};
use crate::names::EMULATED;
use faults::{Call, Failing, Fault, Faults};
use lastword::{
    Allocate, Array, Bytes, DecoupledEvicting, DecoupledSoftware, Design, Error, Medium,
    MediumError, Objects, Options, Pool, Shadow, Stop, System, Tx,
};

fn options(medium: Medium) -> Options {
    Options::new().bytes(MIB).log_bytes(MIB).medium(medium).max_bytes(32 * MIB)
}

/// Sizes of allocations: objects, strings, arrays.
const SIZES: [u64; 5] = [40, 1000, 100, 20_000, 3000];

/// Fills a heap. The heap grows when it is nearly full, and so early that no body finds it full.
fn grows_before_it_is_full<D: Design>(medium: Medium, change: fn(Options) -> Options) {
    let dir = tempfile::tempdir().unwrap();
    let options = change(options(medium)).background(false);
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
    let (mut full, mut commits, mut growths) = (0, 0, 0);
    while pool.info().heap_bytes < 8 * MIB {
        let bytes = SIZES[commits % SIZES.len()];
        let _ = pool
            .run(|tx| {
                let made = match bytes {
                    20_000 => Array::<u64>::create(tx, bytes / 8).map(drop),
                    3000 => Bytes::new(tx, &[7; 3000]).map(drop),
                    bytes => tx.allocate(bytes as usize).map(drop),
                };
                full += u32::from(made == Err(Stop::Full));
                made
            })
            .unwrap();
        commits += 1;
        let (free, before) = (pool.heap_usage().free_bytes, pool.info().heap_bytes);
        let step = MIB.max(before / 8);
        if pool.growth_step(Instant::now()).unwrap() {
            growths += 1;
            assert!(free < step / 2, "{free} of {before} are free");
            let bytes = pool.info().heap_bytes;
            assert!(bytes >= before + step && bytes <= before + step + 65_536, "{bytes}");
        }
    }
    assert_eq!(full, 0, "{} on {medium:?}", D::NAME);
    assert!(growths >= 6, "{growths}");
    pool.check_heap().unwrap();
}

#[test]
fn heap_grows_before_it_is_full() {
    every_durable!(grows_on_every_medium());
    for medium in [Medium::File, EMULATED] {
        grows_before_it_is_full::<DecoupledSoftware>(medium, |options| {
            options.shadow(Shadow::Software).shadow_bytes(MIB / 2)
        });
        grows_before_it_is_full::<DecoupledEvicting>(medium, |options| {
            options.shadow(Shadow::CopyOnWrite).shadow_bytes(MIB / 2)
        });
    }
}

fn grows_on_every_medium<D: Design>() {
    for medium in [Medium::File, EMULATED, Medium::PersistentCache] {
        grows_before_it_is_full::<D>(medium, |options| options);
    }
}

#[test]
fn thread_grows_nearly_full_heap_of_idle_pool() {
    every_durable!(grows_while_idle());
}

fn grows_while_idle<D: Design>() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = Pool::<D>::create_as(&path, options(medium)).unwrap();
        let chain = Chain::create(&pool);
        let mut count = 0;
        // Less than half a step is free, and nothing is full.
        while pool.heap_usage().free_bytes > MIB / 3 && pool.info().heap_bytes == MIB {
            count = chain.push(&pool).unwrap();
        }
        let begin = Instant::now();
        while pool.info().heap_bytes == MIB {
            assert!(begin.elapsed() < Duration::from_secs(60), "the heap does not grow");
            thread::yield_now();
        }
        assert_eq!(chain.check(&pool), count);
        let bytes = pool.info().heap_bytes;
        pool.close().unwrap();
        let pool = Pool::<D>::open_as(&path, Options::new().medium(medium)).unwrap();
        assert_eq!(pool.info().heap_bytes, bytes);
        assert_eq!(Chain::open(&pool).check(&pool), count);
    }
}

/// A pool ends in each way while its thread may be growing it.
#[test]
fn pool_ends_while_its_heap_grows() {
    every_durable!(ends_while_growing());
}

fn ends_while_growing<D: Design>() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = Pool::<D>::create_as(&path, options(medium)).unwrap();
        let mut count = 0;
        Chain::create(&pool);
        pool.close().unwrap();
        for round in 0..12 {
            let options = options(medium).grow_step(128 << 10).max_bytes(64 * MIB);
            let pool = Pool::<D>::open_as(&path, options).unwrap();
            let chain = Chain::open(&pool);
            assert_eq!(chain.check(&pool), count);
            for _ in 0..200 + 17 * round {
                count = chain.push(&pool).unwrap();
            }
            pool.flush().unwrap();
            match round % 4 {
                0 => pool.close().unwrap(),
                1 => pool.abandon(),
                2 => pool.close_shared().unwrap(),
                _ => drop(pool),
            }
            assert!(lastword::check(&path).unwrap().is_sound(), "round {round}");
        }
    }
}

#[test]
fn full_disk_ends_no_transaction_before_heap_is_full() {
    let dir = tempfile::tempdir().unwrap();
    for background in [false, true] {
        let path = dir.path().join(format!("pool{background}"));
        Pool::create(&path, options(Medium::File)).unwrap().close().unwrap();
        let faults = Faults::nth(0, Fault::NoBlocks, true);
        let options = options(Medium::File).system(System::kernel().failing(faults.clone()));
        let pool = Pool::open(&path, options.background(background)).unwrap();
        let chain = Chain::create(&pool);
        let mut count = 0;
        let error = loop {
            match chain.push(&pool) {
                Ok(pushed) => count = pushed,
                Err(error) => break error,
            }
            pool.growth_step(Instant::now()).unwrap();
        };
        assert!(matches!(error, Error::Medium(MediumError::NoSpace { .. })), "{error}");
        let free = pool.heap_usage().free_bytes;
        assert!(free < 32 << 10, "{free} bytes were free");
        assert!(faults.failed().iter().all(|call| *call == Call::Allocate));
        // The pool goes on.
        assert_eq!(chain.check(&pool), count);
        pool.flush().unwrap();
        pool.close().unwrap();
        let pool = Pool::open(&path, Options::new()).unwrap();
        assert_eq!(Chain::open(&pool).check(&pool), count);
    }
}

/// A pool on a full disk, whose heap is nearly full. Also returns the calls that have failed: a
/// further growth fails at its first one.
fn full_disk(dir: &Path, background: bool) -> (Pool, Arc<Faults>, usize) {
    let path = dir.join("pool");
    Pool::create(&path, options(Medium::File)).unwrap().close().unwrap();
    let faults = Faults::nth(0, Fault::NoBlocks, true);
    let options = options(Medium::File).system(System::kernel().failing(faults.clone()));
    let pool = Pool::open(&path, options.background(background)).unwrap();
    assert!(pool.grow(2 * MIB).is_err());
    let calls = faults.failed().len();
    let _rest = pool.run(|tx| Array::<u64>::create(tx, 75_000)).unwrap();
    (pool, faults, calls)
}

#[test]
fn failed_growth_is_not_repeated_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, faults, calls) = full_disk(dir.path(), false);
    let begin = Instant::now();
    let failed = || faults.failed().len() - calls;
    // Arrays come and go in the last quarter of the heap.
    let churn = || {
        let array = pool.run(|tx| Array::<u64>::create(tx, 4000)).unwrap().value;
        let _ = pool.run(|tx| array.free(tx)).unwrap();
    };
    for (millis, expected) in [(0, 1), (99, 1), (100, 2), (299, 2), (300, 3), (699, 3), (700, 4)] {
        for _ in 0..50 {
            churn();
            pool.growth_step(begin + Duration::from_millis(millis)).unwrap();
        }
        assert_eq!(failed(), expected, "after {millis} ms");
    }
    assert_eq!(pool.metrics().failed_growths, 5);
    // A growth that succeeds ends the pauses.
    faults.lift();
    assert_eq!(pool.grow(MIB + 65_536).unwrap(), MIB + 65_536);
    let grows = |_| {
        churn();
        pool.growth_step(begin + Duration::from_millis(700)).unwrap()
    };
    assert!((0..50).any(grows), "the pause goes on");
}

/// No transaction runs after the failure: only the pause wakes the thread.
#[test]
fn failed_growth_is_repeated_after_its_pause() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, faults, calls) = full_disk(dir.path(), true);
    while faults.failed().len() == calls {
        thread::yield_now();
    }
    faults.lift();
    while pool.info().heap_bytes == MIB {
        thread::yield_now();
    }
    pool.check_heap().unwrap();
}

/// As much is freed as is allocated, some bodies roll back, and some meet conflicts.
fn does_not_grow<D: Design>() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(medium).bytes(4 * MIB);
        let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
        let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
        thread::scope(|scope| {
            for number in 0..2 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut worker = pool.worker().unwrap();
                    for round in 0..150 {
                        let make = |tx: &mut Tx<'_, D>| {
                            tx.update(count, |count: u64| count + 1)?;
                            let array = Array::<u64>::create(tx, 4000 + 100 * number)?;
                            let small = tx.alloc([round; 20])?;
                            if round % 4 == 3 { Err(Stop::Aborted) } else { Ok((array, small)) }
                        };
                        let Ok(made) = worker.run(make) else { continue };
                        let (array, small) = made.value;
                        let _ = worker
                            .run(|tx| {
                                array.free(tx)?;
                                tx.free(small)
                            })
                            .unwrap();
                    }
                });
            }
        });
        pool.growth_step(Instant::now()).unwrap();
        assert_eq!(pool.info().heap_bytes, 4 * MIB, "{} on {medium:?}", D::NAME);
        pool.check_heap().unwrap();
    }
}

#[test]
fn churn_does_not_grow_heap() {
    every_durable!(does_not_grow());
}

/// The allocation of blocks waits until the pool closes.
fn closes_during_growth<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::<D>::create_as(&path, options(Medium::File)).unwrap().close().unwrap();
    let faults = Faults::latched();
    let latch = faults.latch();
    latch.open();
    let system = System::kernel().failing(faults.clone());
    let pool = Pool::<D>::open_as(&path, options(Medium::File).system(system)).unwrap();
    latch.close();
    let chain = Chain::create(&pool);
    let mut count = 0;
    while latch.waiting() == 0 && pool.heap_usage().free_bytes > MIB / 8 {
        count = chain.push(&pool).unwrap();
    }
    latch.wait_for_call();
    // Transactions go on meanwhile.
    count = count.max(chain.push(&pool).unwrap());
    thread::scope(|scope| {
        let closes = scope.spawn(|| pool.close_shared());
        while !matches!(pool.run(|_| Ok(())), Err(Error::Closed { .. })) {
            thread::yield_now();
        }
        assert_eq!(latch.waiting(), 1, "no growth is in progress");
        assert!(!closes.is_finished());
        latch.open();
        closes.join().unwrap().unwrap();
    });
    drop(pool);
    assert!(lastword::check(&path).unwrap().is_sound());
    let pool = Pool::<D>::open_as(&path, options(Medium::File)).unwrap();
    assert_eq!(pool.info().heap_bytes, MIB, "the growth did not give up");
    assert_eq!(Chain::open(&pool).check(&pool), count);
    assert_eq!(pool.grow(2 * MIB).unwrap(), 2 * MIB);
}

#[test]
fn closing_pool_gives_growth_up() {
    every_durable!(closes_during_growth());
}
