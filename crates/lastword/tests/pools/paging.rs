//! Pools that are larger than their shadow.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use faults::{Failing, Fault, Faults};
use lastword::{
    Array, DecoupledEvicting, DecoupledSoftware, Design, Error, Medium, Objects, Options, Pool,
    Shadow, Stop, System, Volatile,
};

use crate::pages::{APART, COUNTERS, counters, options, place};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
/// Each on both kinds of media.
fn both(shadow: Shadow, pages: u64) -> [Options; 2] {
    [options(shadow, pages), options(shadow, pages).medium(EMULATED)]
}

/// Two workers move between counters; their sum stays.
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
                        // Some are taken back after they have written.
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

fn goes_on<D: Design>(options: &Options) {
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
    assert!(all(&pool, array) == before, "what was acknowledged is there");
    pool.check_heap().unwrap();
    pool.close().unwrap();
    let pool = Pool::open(&path, Options::new().medium(own(options))).unwrap();
    assert!(all(&pool, array) == before, "and without a bound");
}

fn own(options: &Options) -> Medium {
    if format!("{options:?}").contains("Emulated") { EMULATED } else { Medium::File }
}

#[test]
fn a_pool_larger_than_its_page_table_holds_keeps_everything() {
    for options in both(Shadow::Software, 64) {
        goes_on::<DecoupledSoftware>(&options);
        goes_on::<DecoupledSoftware>(&options.background(false));
    }
}

#[test]
fn a_pool_larger_than_its_copies_keeps_everything() {
    for options in both(Shadow::CopyOnWrite, 64) {
        goes_on::<DecoupledEvicting>(&options);
        goes_on::<DecoupledEvicting>(&options.background(false));
    }
}

/// A page that cannot be read ends the attempt that wants it, and the pool: no panic, no signal.
#[test]
fn a_page_that_cannot_be_read_poisons_the_pool() {
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

/// Writes a word of each of so many pages.
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
fn a_transaction_that_writes_more_pages_than_there_are_frames_says_so() {
    let (_dir, path) = place();
    let options = options(Shadow::Software, 16);
    let pool = Pool::<DecoupledSoftware>::create_as(&path, options).unwrap();
    let array = counters(&pool);
    for _ in 0..3 {
        let error = wide(&pool, array, 32).unwrap_err();
        assert!(matches!(error, Error::ShadowTooSmall { shadow_bytes: 65_536 }), "{error}");
        assert!(all(&pool, array).iter().all(|n| *n == 0), "it had an effect");
    }
    wide(&pool, array, 12).unwrap();
    assert_eq!(all(&pool, array).iter().sum::<u64>(), 12);
}

#[test]
fn a_transaction_may_copy_more_than_the_bound_and_the_next_one_drops_it() {
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

/// One body runs long while another worker writes all other pages: next to nothing is dropped and
/// nobody waits for it for ever; when it has ended, the bound holds again.
#[test]
fn a_body_that_runs_long_lifts_the_bound_and_stops_nobody() {
    let (_dir, path) = place();
    let pool = Pool::<DecoupledEvicting>::create_as(&path, options(Shadow::CopyOnWrite, 32));
    let pool = pool.unwrap();
    let array = counters(&pool);
    let before = pool.metrics().evictions;
    let mut is_first = true;
    let write = |at: u64| pool.run(|tx| add_one(tx, array, at)).unwrap().value;
    let long = pool.run(|tx| {
        // It holds nothing that others want, and they do their work once.
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
    assert!(during < before + 64, "{before} {during}: copies were dropped meanwhile");
    write(1);
    let after = pool.metrics().evictions;
    assert!(after > during + 128, "{during} {after}: the bound does not hold again");
    assert_eq!(all(&pool, array).iter().sum::<u64>(), COUNTERS);
    pool.check_heap().unwrap();
}

fn add_one<T: Objects>(tx: &mut T, array: Array<u64>, at: u64) -> Result<(), Stop> {
    tx.update(array.at(at * APART)?, |n: u64| n + 1)
}

#[test]
fn a_shadow_is_asked_of_the_design_that_has_it() {
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
