//! Fields narrower than a word, of which several share one, in all durable designs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lastword::{Array, Design, Error, Objects, Options, Place, Pool, Ptr, field};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

#[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Counters {
    small: u8,
    flag: bool,
    middle: u16,
    wide: f32,
    name: [u8; 8],
}

const NEW: Counters = Counters { small: 0, flag: false, middle: 0, wide: 0.0, name: *b"the name" };

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).ring_entries(1 << 12)
}

/// Changes a place 200 times, each in a transaction of its own.
fn change<D: Design, P: Place + Send>(pool: &Pool<D>, at: P, by: fn(P::Value) -> P::Value) {
    let mut worker = pool.worker().unwrap();
    for _ in 0..200 {
        let _ = worker.run(|tx| tx.update(at, by)).unwrap();
    }
}

fn share_a_word<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<D>::create_as(&path, options()).unwrap();
    let made = pool.run(|tx| {
        let counters = tx.alloc(NEW)?;
        tx.set_root_ptr(counters)?;
        Ok((counters, Array::<u8>::create(tx, 16)?))
    });
    let (at, array) = made.unwrap().value;
    std::thread::scope(|scope| {
        let pool = &pool;
        scope.spawn(move || change(pool, field!(at, Counters, small), |n| n + 1));
        scope.spawn(move || change(pool, field!(at, Counters, middle), |n| n + 3));
        scope.spawn(move || change(pool, field!(at, Counters, wide), |n| n + 0.5));
        scope.spawn(move || change(pool, array.at(6).unwrap(), |n| n + 1));
        change(pool, array.at(7).unwrap(), |n: u8| n.wrapping_add(2));
    });
    let expected = Counters { small: 200, middle: 600, wide: 100.0, ..NEW };
    assert_eq!(pool.run(|tx| tx.get(at)).unwrap().value, expected, "{}", D::NAME);
    let elements = pool.run(|tx| Ok([tx.get(array.at(6)?)?, tx.get(array.at(7)?)?]));
    assert_eq!(elements.unwrap().value, [200, 144], "{}", D::NAME);

    pool.close().unwrap();
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    let found = pool.run(|tx| {
        let root = tx.root_ptr::<Counters>()?;
        tx.get(root)
    });
    assert_eq!(found.unwrap().value, expected, "{}", D::NAME);
}

#[test]
fn concurrent_narrow_updates_lose_no_neighbour() {
    every_durable!(share_a_word());
}

fn refuse_wrong_places<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options()).unwrap();
    let at = pool.run(|tx| tx.alloc(NEW)).unwrap().value;
    let past: Ptr<[u8; 16]> = at.cast();
    // The object has 16 bytes.
    let refused = pool.run(|tx| tx.set(past.field_at::<u8>(16), 1)).unwrap_err();
    assert!(matches!(refused, Error::BadPointer { .. }), "{}: {refused}", D::NAME);
    let _ = pool.run(|tx| tx.set(past.field_at::<u8>(1), 2)).unwrap();
    let flag = pool.run(|tx| tx.get(field!(at, Counters, flag))).unwrap_err();
    assert!(matches!(flag, Error::BadValue), "{}: {flag}", D::NAME);
    let freed = pool.run(|tx| {
        tx.free(at)?;
        tx.set(field!(at, Counters, small), 1)
    });
    assert!(matches!(freed.unwrap_err(), Error::BadPointer { .. }), "{}", D::NAME);
}

#[test]
fn wrong_narrow_place_is_refused() {
    every_durable!(refuse_wrong_places());
}
