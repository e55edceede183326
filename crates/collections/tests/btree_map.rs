//! The ordered map and set against std's: random operations on every kind of key and value.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap as Model;
use std::fmt::Debug;
use std::ops::Bound;

use collections::{AsKey, AsValue, BTreeMap, Key, Value};
use proptest::prelude::*;
use words::mock::Mock;
use words::{Objects, Stop, Transact};

/// Pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A kind of keys or values: a function from numbers.
trait Sample {
    type Owned: Clone + Debug + PartialEq;
    fn sample(random: &mut Random) -> Self::Owned;
}

/// Numbers of a small range, so that they recur.
struct Small;
impl Sample for Small {
    type Owned = u64;
    fn sample(random: &mut Random) -> u64 {
        random.below(6000)
    }
}

/// Any numbers, and the ends of their range.
struct Wide;
impl Sample for Wide {
    type Owned = i64;
    fn sample(random: &mut Random) -> i64 {
        match random.below(50) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => -1,
            _ => (random.below(3000).cast_signed() - 1500) << 50,
        }
    }
}

/// Strings of 0 to 200 bytes; many share a start with each other.
struct Names;
impl Sample for Names {
    type Owned = String;
    fn sample(random: &mut Random) -> String {
        let n = random.below(2000);
        match random.below(8) {
            0 => format!("user:{n:08}"),
            1 => format!("a shared start of more than thirty bytes {n}"),
            2 => format!("a shared start of more than thirty bytes, and another {}", n % 50),
            3 => "\0".repeat(random.below(30) as usize),
            4 => format!("zeros{}{}", "\0".repeat(n as usize % 3), n % 7),
            5 => "x".repeat(random.below(200) as usize),
            6 => format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            _ => n.to_string(),
        }
    }
}

/// Strings so long that some keys are strings of their own.
struct Long;
impl Sample for Long {
    type Owned = Vec<u8>;
    fn sample(random: &mut Random) -> Vec<u8> {
        let same = [0, 5, 300, 511, 512, 600, 1500][random.below(7) as usize];
        [vec![7; same], random.below(300).to_be_bytes().to_vec()].concat()
    }
}

/// A string and a number.
struct Dated;
impl Sample for Dated {
    type Owned = (String, u64);
    fn sample(random: &mut Random) -> (String, u64) {
        let name = ["", "ann", "anna", "a\0", "a\u{1}", "bob"][random.below(6) as usize];
        (name.to_owned(), random.below(600))
    }
}

struct Optional;
impl Sample for Optional {
    type Owned = (Option<u8>, i32, [u8; 3]);
    fn sample(random: &mut Random) -> Self::Owned {
        let first = random.below(5) as u8;
        let n = random.below(400);
        ((first > 0).then_some(first), n as i32 - 200, [n as u8; 3])
    }
}

/// Text of 0 to 5000 bytes, mostly short.
struct Text;
impl Sample for Text {
    type Owned = String;
    fn sample(random: &mut Random) -> String {
        let len = [5, 20, 90, 1100, 5000][(random.below(21) / 5) as usize];
        "t".repeat(random.below(len) as usize)
    }
}

struct Block;
impl Sample for Block {
    type Owned = [u8; 100];
    fn sample(random: &mut Random) -> [u8; 100] {
        [random.next() as u8; 100]
    }
}

struct Odd;
impl Sample for Odd {
    type Owned = [u8; 11];
    fn sample(random: &mut Random) -> [u8; 11] {
        [random.next() as u8; 11]
    }
}

struct Nothing;
impl Sample for Nothing {
    type Owned = ();
    fn sample(_: &mut Random) {}
}

/// A map beside its model.
struct Both<K: Key + ?Sized, V: Value + ?Sized> {
    mock: Mock,
    map: BTreeMap<K, V>,
    model: Model<K::Owned, V::Owned>,
    random: Random,
}

/// The types that a test needs of a map.
trait Kind {
    type K: Key<Owned: AsKey<Self::K> + Ord + Clone + Debug> + ?Sized;
    type V: Value<Owned: AsValue<Self::V> + Clone + PartialEq + Debug> + ?Sized;
    fn key(random: &mut Random) -> <Self::K as Key>::Owned;
    fn value(random: &mut Random) -> <Self::V as Value>::Owned;
}

macro_rules! kinds {
    ($($kind:ident: $key:ty as $keys:ident, $value:ty as $values:ident;)*) => {$(
        struct $kind;
        impl Kind for $kind {
            type K = $key;
            type V = $value;
            fn key(random: &mut Random) -> <$key as Key>::Owned {
                $keys::sample(random)
            }
            fn value(random: &mut Random) -> <$value as Value>::Owned {
                $values::sample(random)
            }
        }
    )*};
}

kinds! {
    Numbers: u64 as Small, u64 as Small;
    NumbersToTexts: u64 as Small, str as Text;
    NumbersToBlocks: i64 as Wide, [u8; 100] as Block;
    NumberSet: u64 as Small, () as Nothing;
    NamesToNumbers: str as Names, u64 as Small;
    NamesToOdd: String as Names, [u8; 11] as Odd;
    LongToBlocks: [u8] as Long, [u8; 100] as Block;
    DatedToTexts: (String, u64) as Dated, str as Text;
    OptionalToBlocks: (Option<u8>, i32, [u8; 3]) as Optional, [u8; 100] as Block;
}

type OwnedKey<T> = <<T as Kind>::K as Key>::Owned;

fn both<T: Kind>(seed: u64) -> Both<T::K, T::V> {
    let mut mock = Mock::new(200 << 20);
    let map = mock.transact(BTreeMap::create).unwrap();
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 32));
    Both { mock, map, model: Model::new(), random: Random(seed) }
}

/// Returns a key, which mostly is there.
fn some_key<T: Kind>(both: &mut Both<T::K, T::V>) -> OwnedKey<T> {
    let key = T::key(&mut both.random);
    let next = both.model.range(&key..).next().map(|(key, _)| key.clone());
    if both.random.below(4) == 0 { key } else { next.unwrap_or(key) }
}

/// Does one random operation on both. A conflict may interrupt it.
fn operate<T: Kind>(both: &mut Both<T::K, T::V>, grows: bool) {
    let map = both.map;
    if both.random.below(4) == 0 {
        let after = both.random.below(120);
        both.mock.conflict_after(after);
    }
    let kind = both.random.below(if grows { 24 } else { 32 });
    let value = T::value(&mut both.random);
    let new = T::key(&mut both.random);
    let key = some_key::<T>(both);
    let Both { mock, model, .. } = both;
    match kind {
        0 => assert_eq!(mock.transact(|tx| map.get(tx, &key)).unwrap().as_ref(), model.get(&key)),
        1 => {
            let found = mock.transact(|tx| map.contains_key(tx, &new)).unwrap();
            assert_eq!(found, model.contains_key(&new));
        }
        2 => {
            let done = mock.transact(|tx| map.update(tx, &key, |_| value.clone())).unwrap();
            assert_eq!(
                done.as_ref(),
                model.get_mut(&key).map(|old| {
                    *old = value;
                    &*old
                })
            );
        }
        3 => {
            let is_new = mock.transact(|tx| map.put(tx, &key, value.clone())).unwrap();
            assert_eq!(is_new, model.insert(key, value).is_none());
        }
        4 => {
            let there = mock.transact(|tx| {
                map.entry(tx, &new)?.and_modify(|_| value.clone())?.or_insert(value.clone())
            });
            assert_eq!(there.unwrap(), value);
            model.insert(new, value);
        }
        5 => {
            let there = mock.transact(|tx| map.entry(tx, &new)?.or_insert(value.clone())).unwrap();
            assert_eq!(there, *model.entry(new).or_insert(value));
        }
        6 => {
            let found = mock.transact(|tx| map.entry(tx, &key)?.remove()).unwrap();
            assert_eq!(found, model.remove(&key));
        }
        7 if grows => {
            let found = mock.transact(|tx| map.pop_first(tx)).unwrap();
            assert_eq!(found, model.pop_first());
        }
        7 => {
            let found = mock.transact(|tx| map.pop_last(tx)).unwrap();
            assert_eq!(found, model.pop_last());
        }
        8 => {
            let done = mock.transact(|tx| map.delete(tx, &key)).unwrap();
            assert_eq!(done, model.remove(&key).is_some());
        }
        9 => abort::<T>(both),
        10 => compare_range::<T>(both, new, key),
        11..=23 if grows => {
            let old = mock.transact(|tx| map.insert(tx, &new, value.clone())).unwrap();
            assert_eq!(old, model.insert(new, value));
        }
        _ => remove_run::<T>(both, &key),
    }
    both.mock.take_conflict();
}

/// Removes neighbors; sometimes so many that whole leaves go.
fn remove_run<T: Kind>(both: &mut Both<T::K, T::V>, from: &OwnedKey<T>) {
    let Both { mock, model, random, map } = both;
    let most = if random.below(10) == 0 { 60 } else { 2 };
    let range = map.range(from..);
    mock.transact(|tx| range.remove_step(tx, most)).unwrap();
    let removed: Vec<_> = model.range(from..).take(most).map(|(key, _)| key.clone()).collect();
    removed.iter().for_each(|key| drop(model.remove(key)));
}

/// Does several operations in a transaction that does not commit.
fn abort<T: Kind>(both: &mut Both<T::K, T::V>) {
    let keys: Vec<_> = (0..20).map(|_| some_key::<T>(both)).collect();
    let values: Vec<_> = (0..20).map(|_| T::value(&mut both.random)).collect();
    let (map, objects) = (both.map, both.mock.objects());
    let refused = both.mock.transact(|tx| {
        for (i, key) in keys.iter().enumerate() {
            if i % 3 == 0 {
                map.remove(tx, key)?;
            } else {
                map.insert(tx, key, values[i].clone())?;
            }
        }
        if keys.len().is_multiple_of(2) { Err::<(), Stop>(Stop::Aborted) } else { Ok(()) }
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    assert_eq!(both.mock.objects(), objects);
}

fn compare_range<T: Kind>(both: &mut Both<T::K, T::V>, a: OwnedKey<T>, b: OwnedKey<T>) {
    let (map, random) = (both.map, &mut both.random);
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    let bounds = match random.below(5) {
        0 => (Bound::Included(&low), Bound::Included(&high)),
        1 => (Bound::Excluded(&low), Bound::Unbounded),
        2 => (Bound::Unbounded, Bound::Excluded(&high)),
        3 => (Bound::Included(&low), Bound::Excluded(&high)),
        _ if low < high => (Bound::Excluded(&low), Bound::Excluded(&high)),
        _ => (Bound::Included(&low), Bound::Unbounded),
    };
    let range = map.range(bounds);
    let found = both.mock.transact(|tx| range.collect(tx)).unwrap();
    let expected: Vec<_> = both.model.range::<OwnedKey<T>, _>(bounds).collect();
    assert!(found.iter().map(|(key, value)| (key, value)).eq(expected.iter().copied()));
    let back: Result<Vec<_>, _> =
        both.mock.transact(|tx| Ok(range.clone().rev().iter(tx).collect())).unwrap();
    let back = back.unwrap();
    assert!(back.iter().rev().eq(&found));
    assert_eq!(both.mock.transact(|tx| range.count(tx)).unwrap(), found.len() as u64);
    if low > high {
        return;
    }
    let none = both
        .mock
        .transact(|tx| map.range((Bound::Excluded(&high), Bound::Excluded(&low))).collect(tx));
    assert_eq!(none.unwrap(), []);
}

/// Compares everything.
fn compare<T: Kind>(both: &mut Both<T::K, T::V>) {
    let (map, model) = (both.map, &both.model);
    let all = both.mock.transact(|tx| map.range(..).collect(tx)).unwrap();
    assert!(all.iter().map(|(key, value)| (key, value)).eq(model));
    let ends = both.mock.transact(|tx| Ok((map.first(tx)?, map.last(tx)?))).unwrap();
    let pair = |(key, value): (&OwnedKey<T>, &_)| (key.clone(), Clone::clone(value));
    assert_eq!(ends, (model.first_key_value().map(pair), model.last_key_value().map(pair)));
    let (len, is_empty) = both.mock.transact(|tx| Ok((map.len(tx)?, map.is_empty(tx)?))).unwrap();
    assert_eq!((len, is_empty), (model.len() as u64, model.is_empty()));
    let checked = both.mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.damage, checked.next), (len, vec![], None));
    let (mut from, mut entries) = (None, 0);
    loop {
        let part = both.mock.transact(|tx| map.check_step(tx, from.as_deref(), 3)).unwrap();
        assert_eq!(part.damage, []);
        entries += part.entries;
        from = part.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(entries, len);
}

/// Empties the map and looks for leaks.
fn empty<T: Kind>(both: &mut Both<T::K, T::V>) {
    let map = both.map;
    match both.random.below(3) {
        0 => both.mock.transact(|tx| map.clear(tx)).unwrap(),
        1 => {
            let mut steps = 0;
            while !both.mock.transact(|tx| map.clear_step(tx, 100)).unwrap() {
                steps += 1;
                assert!(both.mock.transact(|tx| map.is_empty(tx)).unwrap());
                assert_eq!(both.mock.transact(|tx| map.len(tx)).unwrap(), 0);
            }
            assert!(steps <= both.model.len() / 100, "{steps}");
        }
        _ => both.mock.transact(|tx| map.retain(tx, |_, _| false)).unwrap(),
    }
    both.model.clear();
    compare::<T>(both);
    // `retain` leaves one leaf.
    assert!(both.mock.objects() <= 2, "{} objects", both.mock.objects());
}

fn model<T: Kind>(seed: u64, operations: usize) {
    let mut both = both::<T>(seed);
    for round in 0..2 {
        for operation in 0..operations {
            operate::<T>(&mut both, operation < operations * 2 / 3);
            if operation % 1000 == 999 {
                compare::<T>(&mut both);
            }
            if operation % 100 == 0 {
                // As after a restart: the handle from its stored bytes.
                let map = both.map;
                let stored = both.mock.transact(|tx| {
                    let object = tx.alloc(map)?;
                    let stored = tx.get(object)?;
                    tx.free(object)?;
                    Ok(stored)
                });
                both.map = stored.unwrap();
            }
        }
        compare::<T>(&mut both);
        let map = both.map;
        both.mock
            .transact(|tx| {
                let mut n = 0;
                map.retain(tx, |_, _| {
                    n += 1;
                    n % 3 == 0
                })
            })
            .unwrap();
        let mut n = 0;
        both.model.retain(|_, _| {
            n += 1;
            n % 3 == 0
        });
        compare::<T>(&mut both);
        if round == 0 {
            empty::<T>(&mut both);
        }
    }
    let map = both.map;
    while !both.mock.transact(|tx| map.drop_step(tx, 50)).unwrap() {}
    assert_eq!(both.mock.objects(), 0);
}

macro_rules! model_tests {
    ($($name:ident: $kind:ident, $operations:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig {
                cases: 2, failure_persistence: None, ..Default::default()
            })]
            $(
                #[test]
                fn $name(seed: u64) {
                    model::<$kind>(seed, $operations);
                }
            )*
        }
    };
}

model_tests! {
    numbers_map_is_the_model: Numbers, 9000;
    numbers_to_texts_map_is_the_model: NumbersToTexts, 5000;
    numbers_to_blocks_map_is_the_model: NumbersToBlocks, 5000;
    number_set_is_the_model: NumberSet, 9000;
    names_to_numbers_map_is_the_model: NamesToNumbers, 9000;
    names_to_odd_values_map_is_the_model: NamesToOdd, 5000;
    long_keys_map_is_the_model: LongToBlocks, 4000;
    dated_texts_map_is_the_model: DatedToTexts, 4000;
    optional_keys_map_is_the_model: OptionalToBlocks, 5000;
}
