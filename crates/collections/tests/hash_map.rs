//! Hash maps of several types beside std's, under random operations, conflicts and aborts.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use collections::hash_map::Cursor;
use collections::{AsKey, AsValue, HashMap, HashSet, Key, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use words::mock::Mock;
use words::{Objects, Ptr, Stop, Transact};

/// One step of a history. Keys and values are numbers that a kind of map makes its own of.
#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Put(u64, u64),
    Remove(u64),
    Delete(u64),
    Update(u64, u64),
    Entry(u64, u64),
    Get(u64),
    /// Inserts a number of keys from one on.
    Many(u64, u64),
    /// Removes every key from one on, up to a number.
    Fewer(u64, u64),
    /// Continues the iteration by so many pairs.
    Scan(u64),
    Retain(u64),
    RetainStep(u64),
    Clear(u64),
    /// Inserts and removes keys in a transaction that aborts.
    Abort(u64),
}

fn op(keys: u64) -> impl Strategy<Value = Op> {
    let key = 0..keys;
    prop_oneof![
        8 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Op::Insert(key, value)),
        4 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Op::Put(key, value)),
        6 => key.clone().prop_map(Op::Remove),
        3 => key.clone().prop_map(Op::Delete),
        4 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Op::Update(key, value)),
        4 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Op::Entry(key, value)),
        4 => key.clone().prop_map(Op::Get),
        4 => (key.clone(), 0..keys).prop_map(|(from, most)| Op::Many(from, most)),
        3 => (key.clone(), 0..keys).prop_map(|(from, most)| Op::Fewer(from, most)),
        8 => (1..keys).prop_map(Op::Scan),
        1 => (2..5_u64).prop_map(Op::Retain),
        2 => (1..keys).prop_map(Op::RetainStep),
        1 => (1..keys).prop_map(Op::Clear),
        2 => key.prop_map(Op::Abort),
    ]
}

/// A type of map, with keys and values for numbers.
trait Kind {
    type K: Key<Owned: AsKey<Self::K> + Ord + Clone + Debug> + ?Sized;
    type V: Value<Owned: AsValue<Self::V> + PartialEq + Clone + Debug> + ?Sized;
    fn key(n: u64) -> <Self::K as Key>::Owned;
    fn value(n: u64) -> <Self::V as Value>::Owned;
}

struct Small;
impl Kind for Small {
    type K = u64;
    type V = u64;
    fn key(n: u64) -> u64 {
        n
    }
    fn value(n: u64) -> u64 {
        n
    }
}

/// Keys of 0 to 200 bytes, values of 0 to 5000.
struct Strings;
impl Kind for Strings {
    type K = str;
    type V = str;
    fn key(n: u64) -> String {
        // The first has no bytes, and the filling has no digits.
        let number = if n == 0 { String::new() } else { n.to_string() };
        format!("{number:x<0$}", if n == 0 { 0 } else { (n * 37 % 201) as usize })
    }
    fn value(n: u64) -> String {
        let len = if n.is_multiple_of(9) { n / 9 % 5001 } else { n % 60 };
        format!("{:y<1$.1$}", n, len as usize)
    }
}

struct Pairs;
impl Kind for Pairs {
    type K = (String, u64);
    type V = [u8; 100];
    fn key(n: u64) -> (String, u64) {
        (format!("group\0{}", n % 7), n)
    }
    fn value(n: u64) -> [u8; 100] {
        [n as u8; 100]
    }
}

/// Keys of several words, and values that end within a word.
struct Wide;
impl Kind for Wide {
    type K = [u8; 21];
    type V = [u8; 13];
    fn key(n: u64) -> [u8; 21] {
        let mut key = [7; 21];
        key[13..].copy_from_slice(&n.to_be_bytes());
        key
    }
    fn value(n: u64) -> [u8; 13] {
        [n as u8; 13]
    }
}

struct Set;
impl Kind for Set {
    type K = u32;
    type V = ();
    fn key(n: u64) -> u32 {
        n as u32
    }
    fn value(_: u64) {}
}

type Map<T> = HashMap<<T as Kind>::K, <T as Kind>::V>;
type OwnedKey<T> = <<T as Kind>::K as Key>::Owned;
type Model<T> = BTreeMap<OwnedKey<T>, <<T as Kind>::V as Value>::Owned>;

/// A map beside its model, and an iteration that goes on while both change.
struct Pair<T: Kind> {
    mock: Mock,
    /// The object that holds the map.
    place: Ptr<Map<T>>,
    model: Model<T>,
    cursor: Cursor,
    /// Keys given by the iteration, and keys that were there since its begin.
    given: BTreeSet<OwnedKey<T>>,
    stayed: BTreeSet<OwnedKey<T>>,
    rounds: usize,
}

impl<T: Kind> Pair<T> {
    fn new(seed: u64) -> Pair<T> {
        let mut mock = Mock::new(1 << 25);
        let place = mock.transact(|tx| {
            let map = Map::<T>::with_seed(tx, seed)?;
            tx.alloc(map)
        });
        Pair {
            mock,
            place: place.unwrap(),
            model: BTreeMap::new(),
            cursor: Cursor::START,
            given: BTreeSet::new(),
            stayed: BTreeSet::new(),
            rounds: 0,
        }
    }

    /// Runs a transaction on the map, which each reads from its place again.
    fn run<R>(&mut self, mut body: impl FnMut(&mut Mock, Map<T>) -> Result<R, Stop>) -> R {
        let place = self.place;
        self.mock
            .transact(|tx| {
                let map = tx.get(place)?;
                body(tx, map)
            })
            .unwrap()
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(key, value) => {
                let old = self.run(|tx, map| map.insert(tx, T::key(key), T::value(value)));
                assert_eq!(old, self.model.insert(T::key(key), T::value(value)));
            }
            Op::Put(key, value) => {
                let is_new = self.run(|tx, map| map.put(tx, T::key(key), T::value(value)));
                assert_eq!(is_new, self.model.insert(T::key(key), T::value(value)).is_none());
            }
            Op::Remove(key) => {
                let old = self.run(|tx, map| map.remove(tx, T::key(key)));
                assert_eq!(old, self.model.remove(&T::key(key)));
            }
            Op::Delete(key) => {
                let was = self.run(|tx, map| map.delete(tx, T::key(key)));
                assert_eq!(was, self.model.remove(&T::key(key)).is_some());
            }
            Op::Update(key, value) => {
                let old = self.model.get(&T::key(key)).cloned();
                let new = self.run(|tx, map| {
                    map.update(tx, T::key(key), |found| {
                        assert_eq!(Some(found), old);
                        T::value(value)
                    })
                });
                assert_eq!(new.is_some(), old.is_some());
                self.model.entry(T::key(key)).and_modify(|old| *old = T::value(value));
            }
            Op::Entry(key, value) => self.entry(key, value),
            Op::Get(key) => {
                let found = self.run(|tx, map| {
                    let found = map.get(tx, T::key(key))?;
                    assert_eq!(map.contains_key(tx, T::key(key))?, found.is_some());
                    Ok(found)
                });
                assert_eq!(found.as_ref(), self.model.get(&T::key(key)));
            }
            Op::Many(from, most) => {
                let pairs = || (from..from + most).map(|n| (T::key(n), T::value(n)));
                self.run(|tx, map| map.extend(tx, pairs()));
                self.model.extend(pairs());
            }
            Op::Fewer(from, most) => {
                for key in from..from + most {
                    let was = self.run(|tx, map| map.delete(tx, T::key(key)));
                    assert_eq!(was, self.model.remove(&T::key(key)).is_some());
                }
            }
            Op::Abort(key) => {
                let place = self.place;
                let refused = self.mock.transact(|tx| {
                    let map = tx.get(place)?;
                    for key in key..key + 100 {
                        map.put(tx, T::key(key), T::value(key + 1))?;
                        map.delete(tx, T::key(key / 2))?;
                    }
                    Err::<(), Stop>(Stop::Aborted)
                });
                assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
            }
            Op::Scan(_) | Op::Retain(_) | Op::RetainStep(_) | Op::Clear(_) => self.many(op),
        }
        let model = &self.model;
        self.stayed.retain(|key| model.contains_key(key));
    }

    fn entry(&mut self, key: u64, value: u64) {
        let found = self.run(|tx, map| {
            let entry = map.entry(tx, T::key(key))?.and_modify(|_| T::value(value))?;
            let is_occupied = entry.is_occupied();
            let found = entry.or_insert(T::value(value + 1))?;
            Ok((is_occupied, found))
        });
        let expected = self.model.entry(T::key(key)).and_modify(|old| *old = T::value(value));
        let is_occupied = matches!(expected, std::collections::btree_map::Entry::Occupied(_));
        let expected = expected.or_insert_with(|| T::value(value + 1));
        assert_eq!(found, (is_occupied, expected.clone()));
    }

    /// Applies a step over many pairs.
    fn many(&mut self, op: &Op) {
        match *op {
            Op::Scan(most) => {
                let from = self.cursor;
                let (part, next) = self.run(|tx, map| {
                    let mut part = Vec::new();
                    let next = map.scan(tx, from, most, |key, value| part.push((key, value)))?;
                    Ok((part, next))
                });
                assert!(part.len() as u64 <= most, "no two keys have one hash");
                self.give(part, next);
            }
            Op::Retain(n) => {
                let keys = |kept: &BTreeSet<OwnedKey<T>>, key: &OwnedKey<T>| kept.contains(key);
                let kept: BTreeSet<_> = self
                    .model
                    .keys()
                    .cloned()
                    .enumerate()
                    .filter(|(i, _)| (*i as u64).is_multiple_of(n))
                    .map(|(_, key)| key)
                    .collect();
                self.run(|tx, map| map.retain(tx, |key, _| keys(&kept, &key)));
                self.model.retain(|key, _| keys(&kept, key));
            }
            Op::RetainStep(most) => {
                let from = self.cursor;
                let (removed, part, next) = self.run(|tx, map| {
                    let (mut removed, mut part) = (Vec::new(), Vec::new());
                    let next = map.retain_step(tx, from, most, |key, value| {
                        let keep = (removed.len() + part.len()) % 3 != 0;
                        if keep {
                            part.push((key, value))
                        } else {
                            removed.push((key, value))
                        }
                        keep
                    })?;
                    Ok((removed, part, next))
                });
                for (key, value) in removed {
                    assert_eq!(self.model.remove(&key), Some(value));
                    assert!(self.given.insert(key.clone()));
                    self.stayed.remove(&key);
                }
                self.give(part, next);
            }
            Op::Clear(most) => {
                let before = self.model.len() as u64;
                let pending = self.run(|tx, map| map.check(tx)).pending;
                let is_done = self.run(|tx, map| map.clear_step(tx, most));
                if pending == 0 {
                    self.model.clear();
                    assert!(!is_done || before <= most);
                } else {
                    // The step goes on with the pairs of an earlier one.
                    assert!(!is_done || (pending <= most && before == 0));
                }
            }
            _ => unreachable!("a step over many pairs"),
        }
    }

    /// Notes pairs that the iteration gave, and checks a whole iteration at its end.
    fn give(&mut self, part: Vec<(OwnedKey<T>, <T::V as Value>::Owned)>, next: Option<Cursor>) {
        for (key, value) in part {
            assert_eq!(self.model.get(&key), Some(&value));
            assert!(self.given.insert(key), "a pair was given twice");
        }
        if let Some(next) = next {
            assert!(next > self.cursor);
            self.cursor = next;
            return;
        }
        let model = &self.model;
        self.stayed.retain(|key| model.contains_key(key));
        assert!(self.stayed.is_subset(&self.given), "a pair was not given");
        self.cursor = Cursor::START;
        self.given.clear();
        self.stayed = self.model.keys().cloned().collect();
        self.rounds += 1;
    }

    /// Checks the map against its model, pair by pair.
    fn check(&mut self) {
        let checked = self.run(|tx, map| map.check(tx));
        assert_eq!((checked.entries, checked.damage), (self.model.len() as u64, vec![]));
        let (len, is_empty) = self.run(|tx, map| Ok((map.len(tx)?, map.is_empty(tx)?)));
        assert_eq!((len, is_empty), (self.model.len() as u64, self.model.is_empty()));
        let found: Vec<_> = self.run(|tx, map| map.iter(tx).collect());
        let found = found.into_iter();
        let mut entries = 0;
        for (key, value) in found {
            assert_eq!(self.model.get(&key), Some(&value));
            entries += 1;
        }
        assert_eq!(entries, self.model.len());
    }

    /// Frees the map in steps, and checks that nothing leaks.
    fn free(mut self, most: u64) {
        let place = self.place;
        loop {
            let left = self.mock.bytes_live();
            let is_done = self.run(|tx, map| {
                let is_done = map.drop_step(tx, most)?;
                if is_done {
                    tx.free(place)?;
                }
                Ok(is_done)
            });
            if is_done {
                break;
            }
            assert!(self.mock.bytes_live() <= left);
        }
        assert_eq!(self.mock.objects(), 0);
    }
}

fn compare<T: Kind>(seed: u64, ops: &[Op], conflict: u64) {
    let mut pair = Pair::<T>::new(seed);
    pair.mock.conflict_after(conflict);
    for (n, op) in ops.iter().enumerate() {
        pair.apply(op);
        if n % 8 == 0 {
            pair.check();
        }
    }
    pair.check();
    pair.free(1 + seed % 50);
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn small_map_matches_std(seed: u64, ops in vec(op(30), 0..200), conflict in 0..20_000_u64) {
        compare::<Small>(seed, &ops, conflict);
        compare::<Set>(seed, &ops, conflict);
        compare::<Wide>(seed, &ops, conflict);
        compare::<Strings>(seed, &ops, conflict);
    }

    #[test]
    fn map_of_integers_matches_std(
        seed: u64, ops in vec(op(2500), 0..60), conflict in 0..90_000_u64,
    ) {
        compare::<Small>(seed, &ops, conflict);
    }

    #[test]
    fn map_of_strings_matches_std(
        seed: u64, ops in vec(op(700), 0..60), conflict in 0..90_000_u64,
    ) {
        compare::<Strings>(seed, &ops, conflict);
    }

    #[test]
    fn map_of_pairs_matches_std(
        seed: u64, ops in vec(op(700), 0..60), conflict in 0..90_000_u64,
    ) {
        compare::<Pairs>(seed, &ops, conflict);
    }

    #[test]
    fn map_of_wide_keys_matches_std(
        seed: u64, ops in vec(op(700), 0..60), conflict in 0..90_000_u64,
    ) {
        compare::<Wide>(seed, &ops, conflict);
        compare::<Set>(seed, &ops, conflict);
    }
}

#[test]
fn iteration_survives_splits_and_merges() {
    let mut pair = Pair::<Small>::new(3);
    // The map grows to thousands of pairs and shrinks, while the iteration takes small steps.
    let (mut key, mut largest) = (0, 0);
    for wave in 0..6 {
        for n in 0..1500 {
            let op = if wave % 2 == 0 { Op::Insert(key, n) } else { Op::Delete(key) };
            pair.apply(&op);
            key = (key + 7) % 6000;
            pair.apply(&Op::Scan(1 + n % 3));
        }
        largest = largest.max(pair.model.len());
        if wave % 2 == 0 {
            key = (key + 6000 - 1500 * 7 % 6000) % 6000; // the same keys again
        }
    }
    assert!(largest >= 1500 && pair.model.len() < 100, "{largest}, {}", pair.model.len());
    assert!(pair.rounds > 5, "{} rounds", pair.rounds);
    pair.check();
    pair.free(1000);
}

#[test]
fn map_is_a_value_of_a_map() {
    let mut mock = Mock::new(1 << 20);
    let (outer, inner) = mock
        .transact(|tx| {
            let outer = HashMap::<str, HashSet<u64>>::create(tx)?;
            let inner = HashSet::create(tx)?;
            outer.insert(tx, "set", inner)?;
            inner.insert(tx, 7)?;
            Ok((outer, inner))
        })
        .unwrap();
    let found = mock.transact(|tx| outer.get(tx, "set")).unwrap().unwrap();
    assert_eq!(found, inner);
    assert!(mock.transact(|tx| found.contains(tx, 7)).unwrap());
}

#[test]
fn set_matches_std() {
    let (mut mock, mut model) = (Mock::new(1 << 20), BTreeSet::new());
    let set = mock.transact(HashSet::<str>::create).unwrap();
    for n in 0..2000_u64 {
        let key = (n * 7919 % 300).to_string();
        if n % 3 == 0 {
            let was = mock.transact(|tx| set.remove(tx, &key)).unwrap();
            assert_eq!(was, model.remove(&key));
        } else {
            let is_new = mock.transact(|tx| set.insert(tx, &key)).unwrap();
            assert_eq!(is_new, model.insert(key.clone()));
        }
        assert_eq!(mock.transact(|tx| set.contains(tx, &key)).unwrap(), model.contains(&key));
    }
    assert_eq!(mock.transact(|tx| set.len(tx)).unwrap(), model.len() as u64);
    mock.transact(|tx| set.retain(tx, |key| key.len() < 3)).unwrap();
    model.retain(|key| key.len() < 3);
    let mut found = BTreeSet::new();
    mock.transact(|tx| {
        set.for_each(tx, |key| {
            found.insert(key);
        })
    })
    .unwrap();
    assert_eq!(found, model);
    assert_eq!(mock.transact(|tx| set.check(tx)).unwrap().damage, []);
    while !mock.transact(|tx| set.drop_step(tx, 10)).unwrap() {}
    assert_eq!(mock.objects(), 0);
}

#[test]
fn same_seed_and_history_give_the_same_order() {
    let order = |seed| {
        let mut mock = Mock::new(1 << 20);
        mock.transact(|tx| {
            let set = HashSet::<u64>::with_seed(tx, seed)?;
            set.extend(tx, 0..1000_u64)?;
            set.iter(tx).collect::<Result<Vec<_>, _>>()
        })
        .unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn value_is_read_without_a_copy() {
    let mut mock = Mock::new(1 << 20);
    let len = mock.transact(|tx| {
        let map = HashMap::<u32, [u8]>::create(tx)?;
        map.insert(tx, 1, [1, 2, 3])?;
        map.insert(tx, 2, vec![0; 5000])?;
        let len = |bytes: &[u8]| bytes.len();
        Ok((map.get_with(tx, 1, len)?, map.get_with(tx, 2, len)?, map.get_with(tx, 3, len)?))
    });
    assert_eq!(len.unwrap(), (Some(3), Some(5000), None));
}

#[test]
fn entry_inserts_and_removes() {
    let mut mock = Mock::new(1 << 20);
    let map = mock.transact(HashMap::<str, str>::create).unwrap();
    mock.transact(|tx| {
        assert_eq!(map.entry(tx, "a")?.insert("1")?, None);
        assert_eq!(map.entry(tx, "a")?.insert("2")?, Some("1".to_owned()));
        assert_eq!(map.entry(tx, "a")?.get()?, Some("2".to_owned()));
        assert_eq!(map.entry(tx, "a")?.or_insert_with(|| "3")?, "2");
        assert_eq!(map.entry(tx, "b")?.or_insert_with(|| "3")?, "3");
        assert_eq!(map.entry(tx, "a")?.remove()?, Some("2".to_owned()));
        assert_eq!(map.entry(tx, "a")?.remove()?, None);
        assert_eq!(map.len(tx)?, 1);
        map.free(tx)
    })
    .unwrap();
    assert_eq!(mock.objects(), 0);
}
