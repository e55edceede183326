//! Pools larger than their shadow, which evicts pages and reads them back from the heap image.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use faults::{Failing, Fault, Faults};
use lastword::{
    Array, DecoupledEvicting, DecoupledSoftware, Design, Error, Medium, Objects, Options, Pool,
    Shadow, Stop, System, Volatile,
};

use crate::pages::{APART, COUNTERS, counters, options, place};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
/// Returns the options for a file and for a mapped medium.
fn both(shadow: Shadow, pages: u64) -> [Options; 2] {
    [options(shadow, pages), options(shadow, pages).medium(EMULATED)]
}

/// Two workers transfer units between counters. The counters' sum is invariant.
fn moves<D: Design>(pool: &Pool<D>, array: Array<u64>, rounds: u64) {
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                let mut seed = number + 1;
                for _ in 0..rounds {
                    seed = u64::wrapping_mul(seed, 6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let (from, to) = (seed >> 20 & 255, seed >> 40 & 255);
                    let moved = worker.run(|tx| {
                        tx.update(array.at(from * APART)?, |n: u64| n.wrapping_sub(1))?;
                        tx.update(array.at(to * APART)?, |n: u64| n.wrapping_add(1))?;
                        // An eighth of the transactions abort after their writes.
                        if seed % 8 == 0 { tx.abort("as asked") } else { Ok(()) }
                    });
                    assert!(matches!(moved, Ok(_) | Err(Error::Aborted { .. })), "{moved:?}");
                }
            });
        }
    });
}

fn all<D: Design>(pool: &Pool<D>, array: Array<u64>) -> Vec<u64> {
    let read = |at| pool.run(|tx| tx.get(array.at(at * APART)?)).unwrap().value;
    (0..COUNTERS).map(read).collect()
}

fn keeps_everything<D: Design>(options: &Options) {
    let (_dir, path) = place();
    let pool = Pool::<D>::create_as(&path, options.clone()).unwrap();
    let array = counters(&pool);
    let mut before = all(&pool, array);
    for round in 0..4 {
        moves(&pool, array, 1000);
        let after = all(&pool, array);
        assert!(after != before, "nothing moved");
        assert_eq!(after.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n)), 0, "round {round}");
        before = after;
    }
    let metrics = pool.metrics();
    assert!(metrics.evictions > 0, "{metrics:?}");
    pool.check_heap().unwrap();
    pool.flush().unwrap();
    pool.abandon();
    let pool = Pool::<D>::open_as(&path, options.clone()).unwrap();
    assert!(all(&pool, array) == before, "recovery lost acknowledged transactions");
    pool.check_heap().unwrap();
    pool.close().unwrap();
    let pool = Pool::open(&path, Options::new().medium(own(options))).unwrap();
    assert!(all(&pool, array) == before, "a full shadow shows other values");
}

fn own(options: &Options) -> Medium {
    if format!("{options:?}").contains("Emulated") { EMULATED } else { Medium::File }
}

#[test]
fn pool_larger_than_software_shadow_keeps_everything() {
    for options in both(Shadow::Software, 64) {
        keeps_everything::<DecoupledSoftware>(&options);
        keeps_everything::<DecoupledSoftware>(&options.background(false));
    }
}

#[test]
fn pool_larger_than_evicting_shadow_keeps_everything() {
    for options in both(Shadow::CopyOnWrite, 64) {
        keeps_everything::<DecoupledEvicting>(&options);
        keeps_everything::<DecoupledEvicting>(&options.background(false));
    }
}

/// An unreadable page ends the attempt that needs it and poisons the pool, without panic or signal.
#[test]
fn unreadable_page_poisons_the_pool() {
    let (_dir, path) = place();
    let options = options(Shadow::Software, 16).background(false);
    let pool = Pool::<DecoupledSoftware>::create_as(&path, options.clone()).unwrap();
    let array = counters(&pool);
    wide(&pool, array, 8).unwrap();
    pool.close().unwrap();
    let (mut refused, mut poisoned) = (0, 0);
    for nth in (0..).step_by(9) {
        let faults = Faults::nth(nth, Fault::Io, true);
        let system = System::kernel().failing(Arc::clone(&faults));
        let opened = Pool::<DecoupledSoftware>::open_as(&path, options.clone().system(system));
        let Ok(pool) = opened else {
            refused += 1;
            continue;
        };
        let sum = (0..COUNTERS).try_fold(0, |sum, at| {
            Ok::<u64, Error>(sum + pool.run(|tx| tx.get(array.at(at * APART)?))?.value)
        });
        match sum {
            Err(Error::Poisoned { .. }) => poisoned += 1,
            sum => assert_eq!(sum.unwrap(), 8, "call {nth} fails"),
        }
        pool.abandon();
        if faults.failed().is_empty() {
            break;
        }
    }
    assert!(refused > 0 && poisoned > 0, "{refused} refused, {poisoned} poisoned");
}

/// Writes one word of each of the first `pages` pages.
fn wide<D: Design>(pool: &Pool<D>, array: Array<u64>, pages: u64) -> Result<(), Error> {
    let done = pool.run(|tx| {
        for page in 0..pages {
            tx.update(array.at(page * APART)?, |n: u64| n.wrapping_add(1))?;
        }
        Ok(())
    });
    done.map(|done| done.value)
}

#[test]
fn transaction_over_all_frames_is_shadow_too_small() {
    let (_dir, path) = place();
    let options = options(Shadow::Software, 16);
    let pool = Pool::<DecoupledSoftware>::create_as(&path, options).unwrap();
    let array = counters(&pool);
    for _ in 0..3 {
        let error = wide(&pool, array, 32).unwrap_err();
        assert!(matches!(error, Error::ShadowTooSmall { shadow_bytes: 65_536 }), "{error}");
        assert!(all(&pool, array).iter().all(|n| *n == 0), "the failed transaction had an effect");
    }
    wide(&pool, array, 12).unwrap();
    assert_eq!(all(&pool, array).iter().sum::<u64>(), 12);
}

#[test]
fn next_transaction_evicts_pages_over_the_bound() {
    let (_dir, path) = place();
    let options = options(Shadow::CopyOnWrite, 8).background(false);
    let pool = Pool::<DecoupledEvicting>::create_as(&path, options).unwrap();
    let array = counters(&pool);
    wide(&pool, array, 200).unwrap();
    let before = pool.metrics();
    wide(&pool, array, 1).unwrap();
    let after = pool.metrics();
    assert!(after.evictions >= before.evictions + 190, "{before:?} {after:?}");
    assert!(after.page_waits > before.page_waits && pool.reproduced_id() > lastword::TxId::NONE);
    assert_eq!(all(&pool, array).iter().sum::<u64>(), 201);
}

/// A long body runs while another worker writes all other pages.
///
/// Eviction waits for attempts in progress, so hardly any page is evicted meanwhile. The copies
/// exceed the bound instead of blocking the writer, and the bound holds again after the body.
#[test]
fn long_body_lifts_shadow_bound_without_blocking() {
    let (_dir, path) = place();
    let pool = Pool::<DecoupledEvicting>::create_as(&path, options(Shadow::CopyOnWrite, 32));
    let pool = pool.unwrap();
    let array = counters(&pool);
    let before = pool.metrics().evictions;
    let mut is_first = true;
    let write = |at: u64| pool.run(|tx| add_one(tx, array, at)).unwrap().value;
    let long = pool.run(|tx| {
        // The body reads a word that the writer leaves alone, so it does not conflict. A retry
        // would not spawn the writer again.
        tx.get(array.at(0)?)?;
        if std::mem::take(&mut is_first) {
            std::thread::scope(|scope| {
                scope.spawn(|| (1..COUNTERS).for_each(write));
            });
        }
        Ok(())
    });
    long.unwrap().ticket.wait().unwrap();
    let during = pool.metrics().evictions;
    assert!(during < before + 64, "{before} {during}: pages were evicted during the body");
    write(1);
    let after = pool.metrics().evictions;
    assert!(after > during + 128, "{during} {after}: the bound is not restored");
    assert_eq!(all(&pool, array).iter().sum::<u64>(), COUNTERS);
    pool.check_heap().unwrap();
}

fn add_one<T: Objects>(tx: &mut T, array: Array<u64>, at: u64) -> Result<(), Stop> {
    tx.update(array.at(at * APART)?, |n: u64| n + 1)
}

#[test]
fn shadow_of_another_design_is_refused() {
    let (_dir, path) = place();
    for (shadow, pages) in [(Shadow::Software, 64), (Shadow::CopyOnWrite, 64)] {
        let error = Pool::create(&path, options(shadow, pages)).unwrap_err();
        assert!(matches!(error, Error::OtherShadow { .. }), "{error}");
        assert!(!path.exists());
    }
    let full = Pool::create(&path, options(Shadow::Full, 64)).unwrap_err();
    assert!(matches!(full, Error::BadOption { option: "shadow_bytes", .. }), "{full}");
    let small = Pool::<DecoupledSoftware>::create_as(&path, options(Shadow::Software, 7));
    assert!(matches!(small, Err(Error::BadOption { option: "shadow_bytes", .. })));
    let crossed = Pool::<DecoupledEvicting>::create_as(&path, options(Shadow::Software, 64));
    assert!(matches!(crossed, Err(Error::OtherShadow { design: "DecoupledSoftware", .. })));
    let volatile = Pool::<Volatile>::create_as("", options(Shadow::Software, 64));
    assert!(matches!(volatile, Err(Error::OtherShadow { .. })));
}
