//! Maps with indexes in pools: rebuilt beside other transactions, after a crash, and compacted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use lastword::collections::{BTreeMap, Index, IndexedMap};
use lastword::{CopyOptions, Design, Error, NamedError, Options, Pool, Tx};

use crate::names::EMULATED;

const MIB: u64 = 1 << 20;
const RECORDS: u64 = 200;

struct ByCity;
impl Index<u64, str> for ByCity {
    type Key = str;
    fn key(_: &u64, city: &String) -> Option<String> {
        (!city.is_empty()).then(|| city.clone())
    }
}

type Cities = IndexedMap<u64, str, (ByCity,)>;

fn options() -> Options {
    Options::new().bytes(2 * MIB).log_bytes(8 * MIB).medium(EMULATED)
}

fn city(number: u64) -> String {
    "city".repeat((number % 7) as usize)
}

fn open<D: Design>(path: &Path) -> (Pool<D>, Cities) {
    let pool = Pool::<D>::open_as(path, options()).unwrap();
    let index = |tx: &mut Tx<'_, D>, old: BTreeMap<u64, str>| Cities::from_map(tx, old);
    let cities = pool.named_or_replace("cities", index).unwrap();
    (pool, cities)
}

fn check<D: Design>(pool: &Pool<D>, cities: Cities) {
    let checked = pool.run(|tx| {
        let all = cities.by(ByCity).range(..).count(tx)? + cities.by(ByCity).get("").count(tx)?;
        let mut expected = 0;
        cities.for_each(tx, |_, city| expected += u64::from(!city.is_empty()))?;
        assert_eq!(all, expected);
        cities.check(tx)
    });
    let checked = checked.unwrap().value;
    assert_eq!((checked.damage, checked.is_rebuilding), (vec![], false), "{}", D::NAME);
    assert!(checked.records > RECORDS / 2);
}

/// Changes the records of one thread, whose neighbors in the tree belong to the other one.
fn change<D: Design>(pool: &Pool<D>, cities: Cities, thread: u64) {
    for step in 0..150 {
        let number = 2 * (step * 37 % RECORDS) + thread;
        let _ = pool
            .run(|tx| match step % 3 {
                0 => cities.remove(tx, number).map(drop),
                1 => cities.update(tx, number, |old| old + "x").map(drop),
                _ => cities.insert(tx, number, city(number + step)).map(drop),
            })
            .unwrap();
    }
}

fn indexes_are_rebuilt<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let (path, small) = (dir.path().join("cities.pool"), dir.path().join("small.pool"));
    let pool = Pool::<D>::create_as(&path, options()).unwrap();
    let records = pool.btree_map::<u64, str>("cities").unwrap();
    let filled = pool.run(|tx| records.extend(tx, (0..2 * RECORDS).map(|n| (n, city(n)))));
    let _ = filled.unwrap();
    pool.close().unwrap();

    let (pool, cities) = open::<D>(&path);
    let done = pool.run(|tx| cities.rebuild_step(tx, 50)).unwrap();
    done.ticket.wait().unwrap();
    assert!(!done.value);
    // Leaves the files as a crash would.
    pool.abandon();

    let (pool, cities) = open::<D>(&path);
    assert!(pool.run(|tx| cities.by(ByCity).last(tx)).is_err(), "the index is not complete");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let pool = &pool;
            scope.spawn(move || change(pool, cities, thread));
        }
        while !pool.run(|tx| cities.rebuild_step(tx, 10)).unwrap().value {}
    });
    check(&pool, cities);
    pool.close().unwrap();
    lastword::compact(&path, &small, &CopyOptions::new().bytes(2 * MIB)).unwrap();
    let (pool, cities) = open::<D>(&small);
    check(&pool, cities);
}

#[test]
fn indexes_are_rebuilt_during_changes() {
    every_durable!(indexes_are_rebuilt());
}

#[test]
fn other_indexes_are_refused_with_both_names() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("cities.pool"), options()).unwrap();
    let _ = pool.indexed_map::<u64, str, (ByCity,)>("cities").unwrap();

    struct BySize;
    impl Index<u64, str> for BySize {
        type Key = u32;
        fn key(_: &u64, city: &String) -> Option<u32> {
            u32::try_from(city.len()).ok()
        }
    }
    let error = pool.indexed_map::<u64, str, (ByCity, BySize)>("cities").unwrap_err();
    assert!(matches!(error, Error::Named(NamedError::OtherTypes { .. })));
    let both = "is IndexedMap<u64, str, (ByCity: str)> (keys of 8 bytes), not \
                IndexedMap<u64, str, (ByCity: str, BySize: u32)> (keys of 8 bytes)";
    assert!(error.to_string().contains(both), "{error}");
    let index = |tx: &mut Tx<'_, _>, old: Cities| old.with_indexes(tx);
    let opened = pool.named_or_replace("cities", index);
    let cities: IndexedMap<u64, str, (ByCity, BySize)> = opened.unwrap();
    while !pool.run(|tx| cities.rebuild_step(tx, 10)).unwrap().value {}
    assert_eq!(pool.run(|tx| cities.by(BySize).last(tx)).unwrap().value, None);
}
