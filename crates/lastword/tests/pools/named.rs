//! Collections that are opened by name are found again after closing, a crash and compaction.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap as Model;

use lastword::collections::catalog::{self, Opened};
use lastword::collections::encoded::{EncodedTypes, Encoding, MapKind};
use lastword::collections::{self, BTreeMap, BTreeSet, Counter, HashMap, VecDeque};
use lastword::{
    CopyOptions, Decoupled, Design, Error, NamedError, Objects, Options, Pool, PoolReader, Ptr,
    Snapshot,
};

use crate::names::EMULATED;

const MIB: u64 = 1 << 20;
const NAMES: u64 = 2000;

fn options() -> Options {
    Options::new().bytes(8 * MIB).log_bytes(16 * MIB).medium(EMULATED)
}

fn name(number: u64) -> String {
    format!("{}-{number}", "n".repeat((number % 40) as usize))
}

fn text(number: u64) -> String {
    "text ".repeat((number % 300) as usize)
}

/// A map whose values are maps, of which each has pointers to objects.
type Groups = BTreeMap<(String, u64), HashMap<str, Ptr<u64>>>;

/// A vector of pointers to objects.
type Objects64 = collections::Vec<Ptr<u64>>;

fn fill<D: Design>(pool: &Pool<D>) {
    let texts = pool.hash_map::<str, str>("texts").unwrap();
    let groups: Groups = pool.named("groups").unwrap();
    let count: Counter = pool.named("count").unwrap();
    let objects: Objects64 = pool.named("objects").unwrap();
    let lines: VecDeque<str> = pool.named("lines").unwrap();
    for first in (0..NAMES).step_by(20) {
        let filled = pool.run(|tx| {
            for number in first..first + 20 {
                texts.put(tx, name(number), text(number))?;
                count.add(tx, 1)?;
                let object = tx.alloc(number)?;
                objects.push(tx, object)?;
                lines.push_front(tx, text(number))?;
            }
            let group = HashMap::create(tx)?;
            let object = tx.alloc(first)?;
            group.put(tx, name(first), object)?;
            groups.put(tx, (name(first), first), group)
        });
        assert!(filled.unwrap().value, "the group is new");
    }
}

fn check<D: Design>(pool: &Pool<D>) {
    let texts = pool.hash_map::<str, str>("texts").unwrap();
    let groups: Groups = pool.named("groups").unwrap();
    let count: Counter = pool.named("count").unwrap();
    let objects: Objects64 = pool.named("objects").unwrap();
    let lines: VecDeque<str> = pool.named("lines").unwrap();
    let found = pool.run(|tx| {
        assert_eq!(texts.check(tx)?.damage, []);
        assert_eq!(groups.check(tx)?.damage, []);
        let mut found = Model::new();
        texts.for_each(tx, |name, text| drop(found.insert(name, text)))?;
        assert_eq!(texts.len(tx)?, NAMES);
        assert_eq!(count.get(tx)?, NAMES as i64);
        let mut all = Vec::new();
        groups.for_each(tx, |(_, first), group| all.push((first, group)))?;
        assert_eq!(all.len() as u64, NAMES / 20);
        for (first, group) in all {
            let object = group.get(tx, name(first))?.expect("the group has its object");
            assert_eq!(tx.get(object)?, first);
        }
        assert_eq!(objects.check(tx)?.damage, []);
        assert_eq!(lines.check(tx)?.damage, []);
        assert_eq!((objects.len(tx)?, lines.len(tx)?), (NAMES, NAMES));
        for number in 0..NAMES {
            let object = objects.get(tx, number)?.expect("the vector has its object");
            assert_eq!(tx.get(object)?, number);
            assert_eq!(lines.get(tx, NAMES - 1 - number)?, Some(text(number)));
        }
        Ok(found)
    });
    let expected: Model<_, _> = (0..NAMES).map(|n| (name(n), text(n))).collect();
    assert!(found.unwrap().value == expected);
}

fn is_found_again<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("named.pool");
    let pool = Pool::<D>::create_as(&path, options()).unwrap();
    fill(&pool);
    pool.close().unwrap();
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    check(&pool);
    let scores = pool.btree_map::<u64, u64>("scores").unwrap();
    pool.run(|tx| scores.put(tx, 7, 49)).unwrap().ticket.wait().unwrap();
    // Leaves the files as a crash would.
    pool.abandon();
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    check(&pool);
    let scores = pool.btree_map::<u64, u64>("scores").unwrap();
    assert_eq!(pool.run(|tx| scores.get(tx, 7)).unwrap().value, Some(49));
}

#[test]
fn named_collections_are_found_again_in_every_design() {
    every_durable!(is_found_again());
}

/// Compaction translates the pointers in buckets, nodes, entries and records.
#[test]
fn named_collections_survive_compaction() {
    fn compacted<D: Design>() {
        let dir = tempfile::tempdir().unwrap();
        let (path, small) = (dir.path().join("named.pool"), dir.path().join("small.pool"));
        let pool = Pool::<D>::create_as(&path, options()).unwrap();
        fill(&pool);
        pool.close().unwrap();
        let form = CopyOptions::new().bytes(8 * MIB);
        lastword::compact(&path, &small, &form).unwrap();
        let pool = Pool::<D>::open_as(&small, options()).unwrap();
        check(&pool);
        // The new pool's heap is written to, too.
        let texts = pool.hash_map::<str, str>("texts").unwrap();
        let done = pool.run(|tx| {
            texts.clear(tx)?;
            texts.is_empty(tx)
        });
        assert!(done.unwrap().value);
    }
    compacted::<Decoupled>();
    compacted::<Snapshot>();
}

/// Producers and consumers at once: each number leaves the queue once, those of one producer in
/// order.
fn queue_passes_each_element_once<D: Design>() {
    const EACH: u64 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::<D>::create_as(dir.path().join("queue.pool"), options()).unwrap();
    let queue: VecDeque<[u64; 2]> = pool.named("queue").unwrap();
    let seen: collections::Vec<[u64; 2]> = pool.named("seen").unwrap();
    std::thread::scope(|scope| {
        let (pool, queue, seen) = (&pool, &queue, &seen);
        for producer in 0..2 {
            scope.spawn(move || {
                for number in 0..EACH {
                    let _ = pool.run(|tx| queue.push_back(tx, [producer, number])).unwrap();
                }
            });
            scope.spawn(move || {
                let mut left = EACH;
                while left > 0 {
                    let popped = pool.run(|tx| {
                        let Some(pair) = queue.pop_front(tx)? else { return Ok(false) };
                        seen.push(tx, pair)?;
                        Ok(true)
                    });
                    left -= u64::from(popped.unwrap().value);
                }
            });
        }
    });
    let next = pool.run(|tx| {
        assert_eq!((queue.len(tx)?, queue.check(tx)?.damage), (0, vec![]));
        let mut next = [0; 2];
        for pair in seen.iter(tx) {
            let [producer, number] = pair?;
            assert_eq!(number, next[producer as usize]);
            next[producer as usize] += 1;
        }
        Ok(next)
    });
    assert_eq!(next.unwrap().value, [EACH; 2]);
}

#[test]
fn queue_passes_each_element_once_in_every_design() {
    every_durable!(queue_passes_each_element_once());
}

#[test]
fn view_finds_a_collection_without_writing() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("named.pool"), options()).unwrap();
    fill(&pool);
    let view = pool.view().unwrap();
    let texts = pool.hash_map::<str, str>("texts").unwrap();
    let _ = pool.run(|tx| texts.clear(tx)).unwrap();
    let seen = view.read(|tx| {
        let found = catalog::find::<HashMap<str, str>, _>(tx, "texts")?;
        let Some(Opened::Found(texts)) = found else { panic!("the map is there") };
        assert_eq!(catalog::find::<Counter, _>(tx, "of nothing")?, None);
        texts.iter(tx).try_fold(0, |count, pair| pair.map(|_| count + 1))
    });
    assert_eq!(seen.unwrap(), NAMES);
    assert!(pool.run(|tx| texts.is_empty(tx)).unwrap().value);
}

#[test]
fn encoded_map_is_the_typed_map_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("named.pool");
    let pool = Pool::create(&path, options()).unwrap();
    let ages = pool.btree_map::<str, u32>("ages").unwrap();
    let _ = pool.run(|tx| ages.put(tx, "ann", 40)).unwrap();
    let types = |value: &str, bytes| {
        let (key, value) = (Encoding::new("str", None), Encoding::new(value, Some(bytes)));
        EncodedTypes::new(MapKind::Ordered, key.unwrap(), value.unwrap()).unwrap()
    };
    let encoded = pool.encoded_map("ages", &types("u32", 4)).unwrap();
    let _ = pool.run(|tx| encoded.put(tx, b"bob", &50_u32.to_ne_bytes())).unwrap();
    assert_eq!(pool.run(|tx| ages.get(tx, "bob")).unwrap().value, Some(50));
    let other = pool.encoded_map("ages", &types("u64", 8)).unwrap_err();
    assert!(other.to_string().contains("is BTreeMap<str, u32> (values of 4 bytes), not "));
    let made = pool.encoded_map("weights", &types("f64", 8)).unwrap();
    pool.close().unwrap();

    let reader = PoolReader::open(&path, options()).unwrap();
    let found = reader.encoded_map("ages", &types("u32", 4)).unwrap().unwrap();
    let age = reader.read(|tx| found.get_with(tx, b"bob", <[u8]>::to_vec));
    assert_eq!(age.unwrap(), Some(50_u32.to_ne_bytes().to_vec()));
    assert_eq!(reader.encoded_map("weights", &types("f64", 8)).unwrap(), Some(made));
    assert_eq!(reader.encoded_map("heights", &types("f64", 8)).unwrap(), None);
    let other = reader.encoded_map("ages", &types("u64", 8)).unwrap_err();
    assert!(matches!(other, Error::Named(NamedError::OtherTypes { .. })));
}

#[test]
fn name_with_other_types_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("named.pool"), options()).unwrap();
    let _ = pool.hash_map::<str, u64>("users").unwrap();
    let error = pool.hash_map::<str, u32>("users").unwrap_err();
    assert!(matches!(error, Error::Named(NamedError::OtherTypes { .. })));
    let text = error.to_string();
    assert!(text.contains("is HashMap<str, u64> (values of 8 bytes), not HashMap<str, u32>"));
    let set = pool.named::<BTreeSet<str>>("users").unwrap_err();
    assert!(set.to_string().contains("not BTreeSet<str>"), "{set}");
}

#[test]
fn root_of_a_program_excludes_names() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("named.pool"), options()).unwrap();
    let object = pool.run(|tx| {
        let object = tx.alloc(1_u64)?;
        tx.set_root_ptr(object)?;
        Ok(object)
    });
    let error = pool.named::<Counter>("visits").unwrap_err();
    assert!(matches!(error, Error::Named(NamedError::OwnRoot { .. })), "{error}");
    let object = object.unwrap().value;
    assert_eq!(pool.run(|tx| tx.root_ptr::<u64>()).unwrap().value, object);
}

/// Threads that open one name at the same time get one collection.
#[test]
fn threads_that_create_one_name_share_it() {
    fn shared<D: Design>() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::<D>::create_as(dir.path().join("named.pool"), options()).unwrap();
        for round in 0..20 {
            let name = format!("round {round}");
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let count: Counter = pool.named(&name).unwrap();
                        let _ = pool.run(|tx| count.add(tx, 1)).unwrap();
                    });
                }
            });
            let count: Counter = pool.named(&name).unwrap();
            assert_eq!(pool.run(|tx| count.get(tx)).unwrap().value, 4, "{}", D::NAME);
        }
    }
    shared::<Decoupled>();
    shared::<Snapshot>();
}
