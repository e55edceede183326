//! Model tests for designs: random operations on a collection of this crate and on the standard
//! library's, compared step by step.
//!
//! They work on any [`Transact`]. A design shows with one call that reads, writes, allocation and
//! retirement work together:
//!
//! ```
//! # let mut worker = words::mock::Mock::new(1 << 20);
//! collections::raw::model::hash_map(&mut worker, 42, 500)?;
//! collections::raw::model::chained_map(&mut worker, 42, 500)?;
//! collections::raw::model::btree_map(&mut worker, 42, 500)?;
//! collections::raw::model::rb_tree(&mut worker, 42, 500)?;
//! collections::raw::model::queue(&mut worker, 42, 500)?;
//! # Ok::<(), words::mock::Refused>(())
//! ```
//!
//! A test reaches its map through a root of its own. At the end it restores the old root and frees
//! every object, so that the caller can check the heap for leaks. A difference panics with the seed
//! and the operation.

use std::collections::{BTreeMap as StdTree, HashMap as StdHash, VecDeque};
use std::ops::{Bound, ControlFlow};

use words::{Allocate, Objects, Persist, Ptr, Stop, Transact, Words};

use crate::raw::{
    BTreeMap, ChainedMap, Checked, HashMap, Inserted, QUEUE_WORDS, Queue, RbTree, whole,
};

/// Operations between two comparisons of the whole map.
const STRETCH: usize = 64;

/// Buckets of the hash map: few, so that it gets full. Twice as many keys are used.
const CAPACITY: u64 = 64;

/// Chains of the chained map: few, so that they get long.
const CHAINS: u64 = 32;

/// Pseudo-random numbers, the same on every machine (splitmix64).
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

/// Runs `ops` random operations on a [`HashMap`] of 64 buckets, one or a few a transaction, and
/// compares every result with the standard library's. The map alternately fills up and empties, and
/// is sometimes reopened from the root.
///
/// # Errors
/// The error of a transaction.
///
/// # Panics
/// When a result differs from the standard library's.
pub fn hash_map<T: Transact>(worker: &mut T, seed: u64, ops: usize) -> Result<(), T::Error> {
    unordered::<HashMap, T>(worker, seed, ops)
}

/// Runs `ops` random operations on a [`ChainedMap`] of 32 chains, one a transaction, and compares
/// every result with the standard library's. Chains alternately grow to four entries and shrink;
/// the map is sometimes reopened from the root.
///
/// # Errors
/// The error of a transaction.
///
/// # Panics
/// When a result differs from the standard library's.
pub fn chained_map<T: Transact>(worker: &mut T, seed: u64, ops: usize) -> Result<(), T::Error> {
    unordered::<ChainedMap, T>(worker, seed, ops)
}

/// The common interface of the two hash maps.
trait Unordered: Persist {
    /// Largest number of keys other than 0, if it is bounded.
    const ROOM: Option<u64>;

    fn create<W: Allocate>(tx: &mut W) -> Result<Self, Stop>;
    fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop>;
    fn insert<W: Allocate>(self, tx: &mut W, key: u64, value: u64) -> Result<Inserted, Stop>;
    fn flip<W: Words>(self, tx: &mut W, key: u64, bits: u64) -> Result<Option<u64>, Stop>;
    fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop>;
    fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        most: u64,
        visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop>;
    fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop>;
    fn free<W: Words>(self, tx: &mut W, from: u64) -> Result<Option<u64>, Stop>;
}

/// Forwards the methods of a map that have the same name and type as the trait's.
macro_rules! same {
    () => {
        fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
            self.get(tx, key)
        }
        fn flip<W: Words>(self, tx: &mut W, key: u64, bits: u64) -> Result<Option<u64>, Stop> {
            self.update(tx, key, |old| old ^ bits)
        }
        fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
            self.remove(tx, key)
        }
        fn scan<W: Words>(
            self,
            tx: &mut W,
            from: u64,
            most: u64,
            visit: impl FnMut(u64, u64),
        ) -> Result<Option<u64>, Stop> {
            self.scan(tx, from, most, visit)
        }
        fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
            self.check(tx, from, most)
        }
    };
}

impl Unordered for HashMap {
    const ROOM: Option<u64> = Some(CAPACITY);
    same!();

    fn create<W: Allocate>(tx: &mut W) -> Result<HashMap, Stop> {
        HashMap::create(tx, CAPACITY)
    }
    fn insert<W: Allocate>(self, tx: &mut W, key: u64, value: u64) -> Result<Inserted, Stop> {
        self.insert(tx, key, value)
    }
    fn free<W: Words>(self, tx: &mut W, _from: u64) -> Result<Option<u64>, Stop> {
        self.free(tx).map(|()| None)
    }
}

impl Unordered for ChainedMap {
    const ROOM: Option<u64> = None;
    same!();

    fn create<W: Allocate>(tx: &mut W) -> Result<ChainedMap, Stop> {
        ChainedMap::create(tx, CHAINS)
    }
    fn insert<W: Allocate>(self, tx: &mut W, key: u64, value: u64) -> Result<Inserted, Stop> {
        Ok(self.insert(tx, key, value)?.map_or(Inserted::New, Inserted::Replaced))
    }
    fn free<W: Words>(self, tx: &mut W, from: u64) -> Result<Option<u64>, Stop> {
        self.free(tx, from, 5)
    }
}

fn unordered<M: Unordered, T: Transact>(
    worker: &mut T,
    seed: u64,
    ops: usize,
) -> Result<(), T::Error> {
    let mut random = Random(seed);
    let mut model = StdHash::new();
    let before = worker.transact(|tx| tx.root())?;
    let mut map = publish(worker, |tx| M::create(tx))?;
    for op in 0..ops {
        let context = format!("{}, seed {seed}, operation {op}", std::any::type_name::<M>());
        // Growing and shrinking alternate: 3 inserts to 1 removal, then the reverse.
        let grows = (op / 300).is_multiple_of(2);
        let (key, value) = (random.below(2 * CAPACITY), random.next());
        match (random.below(8), grows) {
            (0, _) => {
                let found = worker.transact(|tx| map.get(tx, key))?;
                assert_eq!(found, model.get(&key).copied(), "{context}: get {key}");
            }
            (1, _) => {
                let found = worker.transact(|tx| map.flip(tx, key, value))?;
                let expected = model.get_mut(&key).map(|old| std::mem::replace(old, *old ^ value));
                assert_eq!(found, expected, "{context}: update {key}");
            }
            (2..=5, true) | (2..=3, false) => {
                let done = worker.transact(|tx| map.insert(tx, key, value))?;
                let others = model.keys().filter(|&&key| key != 0).count() as u64;
                let full = key != 0 && M::ROOM == Some(others) && !model.contains_key(&key);
                let expected = match (full, model.get(&key)) {
                    (true, _) => Inserted::Full,
                    (false, Some(&old)) => Inserted::Replaced(old),
                    (false, None) => Inserted::New,
                };
                assert_eq!(done, expected, "{context}: insert {key}");
                if !full {
                    model.insert(key, value);
                }
            }
            _ => {
                let found = worker.transact(|tx| map.remove(tx, key))?;
                assert_eq!(found, model.remove(&key), "{context}: remove {key}");
            }
        }
        if op % STRETCH == STRETCH - 1 || op + 1 == ops {
            map = reopen(worker)?;
            compare_unordered(worker, map, &model, &context)?;
        }
    }
    let mut from = Some(0);
    while let Some(at) = from {
        from = worker.transact(|tx| map.free(tx, at))?;
    }
    worker.transact(|tx| retract::<M, _>(tx, before))
}

/// Compares all pairs, a few buckets or chains at a time.
fn compare_unordered<M: Unordered, T: Transact>(
    worker: &mut T,
    map: M,
    model: &StdHash<u64, u64>,
    context: &str,
) -> Result<(), T::Error> {
    let pairs = worker.transact(|tx| {
        let (mut pairs, mut from) = (StdHash::new(), Some(0));
        while let Some(at) = from {
            from = map.scan(tx, at, 10, |key, value| {
                pairs.insert(key, value);
            })?;
        }
        Ok(pairs)
    })?;
    assert_eq!(pairs, *model, "{context}: all pairs");
    let checked = whole(worker, |tx, from| map.check(tx, from, 16))?;
    assert_eq!(checked.damage, [], "{context}");
    assert_eq!(checked.entries, model.len() as u64, "{context}: entries");
    Ok(())
}

/// Runs `ops` random operations on a [`BTreeMap`], one a transaction, and compares every result
/// with the standard library's. The tree grows and shrinks in phases of 700, so that nodes split,
/// share and join; it is sometimes reopened from the root.
///
/// # Errors
/// The error of a transaction.
///
/// # Panics
/// When a result differs from the standard library's.
pub fn btree_map<T: Transact>(worker: &mut T, seed: u64, ops: usize) -> Result<(), T::Error> {
    let mut random = Random(seed);
    let mut model = StdTree::new();
    let before = worker.transact(|tx| tx.root())?;
    let mut tree = publish(worker, |tx| BTreeMap::create(tx))?;
    for op in 0..ops {
        let context = format!("b+-tree, seed {seed}, operation {op}");
        let grows = (op / 700).is_multiple_of(2);
        let (key, value) = (tree_key(&mut random, op), random.next());
        match (random.below(16), grows) {
            (0, _) => {
                let found = worker.transact(|tx| tree.get(tx, key))?;
                assert_eq!(found, model.get(&key).copied(), "{context}: get {key}");
            }
            (1, _) => {
                let found = worker.transact(|tx| tree.update(tx, key, |old| old ^ value))?;
                let expected = model.get_mut(&key).map(|old| std::mem::replace(old, *old ^ value));
                assert_eq!(found, expected, "{context}: update {key}");
            }
            (2, _) => {
                compare_range(worker, tree, &model, key, tree_key(&mut random, op), &context)?
            }
            (3..=12, true) | (3..=5, false) => {
                let found = worker.transact(|tx| tree.insert(tx, key, value))?;
                assert_eq!(found, model.insert(key, value), "{context}: insert {key}");
            }
            _ => {
                // Prefer a present key: else a tree of many keys would never shrink.
                let key = model.range(key..).next().map_or(key, |(&there, _)| there);
                let found = worker.transact(|tx| tree.remove(tx, key))?;
                assert_eq!(found, model.remove(&key), "{context}: remove {key}");
            }
        }
        if op % STRETCH == STRETCH - 1 || op + 1 == ops {
            tree = reopen(worker)?;
            let checked = whole(worker, |tx, from| tree.check(tx, from, 3))?;
            assert_eq!(checked.damage, [], "{context}");
            assert_eq!(checked.entries, model.len() as u64, "{context}: entries");
            compare_all(worker, tree, &model, &context)?;
        }
    }
    while !worker.transact(|tx| tree.free(tx, 5))? {}
    worker.transact(|tx| retract::<BTreeMap, _>(tx, before))
}

/// Returns mostly keys from a small range, so that they recur; sometimes ascending ones and the
/// ends of the range of all keys.
fn tree_key(random: &mut Random, op: usize) -> u64 {
    match random.below(32) {
        0 => u64::MAX - random.below(2),
        1 => random.below(2),
        2..=9 => 4000 + op as u64,
        _ => 100 + random.below(2000),
    }
}

fn compare_range<T: Transact>(
    worker: &mut T,
    tree: BTreeMap,
    model: &StdTree<u64, u64>,
    a: u64,
    b: u64,
    context: &str,
) -> Result<(), T::Error> {
    let bounds = (Bound::Excluded(a.min(b)), Bound::Included(a.max(b)));
    let found = worker.transact(|tx| {
        let mut found = Vec::new();
        tree.range(tx, bounds, |key, value| {
            found.push((key, value));
            if found.len() < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(found)
    })?;
    let expected: Vec<(u64, u64)> = if a == b {
        Vec::new() // the standard library would panic
    } else {
        model.range(bounds).take(100).map(|(&key, &value)| (key, value)).collect()
    };
    assert_eq!(found, expected, "{context}: range {bounds:?}");
    Ok(())
}

/// Compares all pairs through a cursor, a few a transaction.
fn compare_all<T: Transact>(
    worker: &mut T,
    tree: BTreeMap,
    model: &StdTree<u64, u64>,
    context: &str,
) -> Result<(), T::Error> {
    let mut found = Vec::new();
    let mut cursor = tree.cursor(..);
    while let Some(here) = cursor {
        let (pairs, next) = worker.transact(|tx| {
            let mut pairs = Vec::new();
            let next = here.read(tx, 50, |key, value| pairs.push((key, value)))?;
            Ok((pairs, next))
        })?;
        found.extend(pairs);
        cursor = next;
    }
    let expected: Vec<(u64, u64)> = model.iter().map(|(&key, &value)| (key, value)).collect();
    assert_eq!(found, expected, "{context}: all pairs");
    Ok(())
}

/// Runs `ops` random operations on a [`RbTree`], one a transaction, and compares every result with
/// the standard library's. The tree grows and shrinks in phases of 700 and is sometimes reopened
/// from the root.
///
/// # Errors
/// The error of a transaction.
///
/// # Panics
/// When a result differs from the standard library's.
pub fn rb_tree<T: Transact>(worker: &mut T, seed: u64, ops: usize) -> Result<(), T::Error> {
    let mut random = Random(seed);
    let mut model = StdTree::new();
    let before = worker.transact(|tx| tx.root())?;
    let mut tree = publish(worker, |tx| RbTree::create(tx))?;
    for op in 0..ops {
        let context = format!("red-black tree, seed {seed}, operation {op}");
        let grows = (op / 700).is_multiple_of(2);
        let (key, value) = (tree_key(&mut random, op), random.next());
        match (random.below(16), grows) {
            (0, _) => {
                let found = worker.transact(|tx| tree.get(tx, key))?;
                assert_eq!(found, model.get(&key).copied(), "{context}: get {key}");
            }
            (1, _) => {
                let found = worker.transact(|tx| tree.ceiling(tx, key))?;
                let expected = model.range(key..).next().map(|(&key, &value)| (key, value));
                assert_eq!(found, expected, "{context}: ceiling {key}");
            }
            (2..=11, true) | (2..=4, false) => {
                let found = worker.transact(|tx| tree.insert(tx, key, value))?;
                assert_eq!(found, model.insert(key, value), "{context}: insert {key}");
            }
            _ => {
                // Prefer a present key: else a tree of many keys would never shrink.
                let key = model.range(key..).next().map_or(key, |(&there, _)| there);
                let found = worker.transact(|tx| tree.remove(tx, key))?;
                assert_eq!(found, model.remove(&key), "{context}: remove {key}");
            }
        }
        if op % STRETCH == STRETCH - 1 || op + 1 == ops {
            tree = reopen(worker)?;
            let checked = whole(worker, |tx, from| tree.check(tx, from, 50))?;
            assert_eq!(checked.damage, [], "{context}");
            assert_eq!(checked.entries, model.len() as u64, "{context}: entries");
            let (mut left, mut from) = (model.iter(), Some(0));
            while let Some(key) = from {
                let found = worker.transact(|tx| tree.ceiling(tx, key))?;
                assert_eq!(found, left.next().map(|(&key, &value)| (key, value)), "{context}");
                from = found.and_then(|(key, _)| key.checked_add(1));
            }
            assert_eq!(left.next(), None, "{context}: all pairs");
        }
    }
    while !worker.transact(|tx| tree.free(tx, 5))? {}
    worker.transact(|tx| retract::<RbTree, _>(tx, before))
}

/// Runs `ops` random operations on a [`Queue`] for 20 entries, one or two a transaction, and
/// compares every result with the standard library's. The queue alternately fills up and empties,
/// and is sometimes reopened from the root.
///
/// # Errors
/// The error of a transaction.
///
/// # Panics
/// When a result differs from the standard library's.
pub fn queue<T: Transact>(worker: &mut T, seed: u64, ops: usize) -> Result<(), T::Error> {
    const CAPACITY: u64 = 20;
    let mut random = Random(seed);
    let mut model: VecDeque<[u64; QUEUE_WORDS]> = VecDeque::new();
    let before = worker.transact(|tx| tx.root())?;
    let mut queue = publish(worker, |tx| Queue::create(tx, CAPACITY))?;
    for op in 0..ops {
        let context = format!("queue, seed {seed}, operation {op}");
        let share = if (op / 100).is_multiple_of(2) { 5 } else { 3 };
        let (pushes, value) = (random.below(8) < share, [random.next(); QUEUE_WORDS]);
        if pushes {
            let is_in = worker.transact(|tx| queue.push(tx, &value))?;
            assert_eq!(is_in, (model.len() as u64) < CAPACITY, "{context}: push");
            if is_in {
                model.push_back(value);
            }
        } else {
            // A push and a pop of one transaction may meet in the same slot.
            let (is_in, found) =
                worker.transact(|tx| Ok((queue.push(tx, &value)?, queue.pop(tx)?)))?;
            assert_eq!(is_in, (model.len() as u64) < CAPACITY, "{context}: push");
            if is_in {
                model.push_back(value);
            }
            assert_eq!(found, model.pop_front(), "{context}: pop");
            let found = worker.transact(|tx| queue.pop(tx))?;
            assert_eq!(found, model.pop_front(), "{context}: pop again");
        }
        if op % STRETCH == STRETCH - 1 || op + 1 == ops {
            queue = reopen(worker)?;
            let checked = whole(worker, |tx, from| queue.check(tx, from, 7))?;
            assert_eq!(checked.damage, [], "{context}");
            assert_eq!(checked.entries, model.len() as u64, "{context}: entries");
            let (mut found, mut from) = (VecDeque::new(), Some(0));
            while let Some(number) = from {
                let (values, next) = worker.transact(|tx| {
                    let mut values = Vec::new();
                    let next = queue.scan(tx, number, 6, |_, value| values.push(*value))?;
                    Ok((values, next))
                })?;
                found.extend(values);
                from = next;
            }
            assert_eq!(found, model, "{context}: all entries");
        }
    }
    worker.transact(|tx| queue.free(tx))?;
    worker.transact(|tx| retract::<Queue, _>(tx, before))
}

/// Creates a map and an object that holds it, the root.
fn publish<T: Transact, M: Persist>(
    worker: &mut T,
    mut create: impl FnMut(&mut T::Tx<'_>) -> Result<M, Stop>,
) -> Result<M, T::Error> {
    worker.transact(|tx| {
        let map = create(tx)?;
        let root = tx.alloc(map)?;
        tx.set_root(root.to_bits())?;
        Ok(map)
    })
}

fn reopen<T: Transact, M: Persist>(worker: &mut T) -> Result<M, T::Error> {
    worker.transact(|tx| {
        let root = tx.root()?;
        tx.get(Ptr::<M>::from_bits(root))
    })
}

/// Frees the root object and restores the root before it.
fn retract<M: Persist, W: Allocate>(tx: &mut W, before: u64) -> Result<(), Stop> {
    let root = tx.root()?;
    tx.free(Ptr::<M>::from_bits(root))?;
    tx.set_root(before)
}
