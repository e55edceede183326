//! Concurrent transactions on the ordered map: they conflict where they must, also under snapshot
//! isolation, and nowhere else.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "recorder/rb_tree.rs"]
mod rb_tree;
mod recorder;

use std::collections::BTreeMap as Model;
use std::fmt::Debug;

use collections::{AsKey, AsValue, BTreeMap, Key, Value};
use words::mock::Mock;
use words::{Allocate, Stop, Transact};

use recorder::{APART, Change, Recorder, Trace, commit, conflict, random_below, taken, trace};

/// An operation on a map, to which keys are numbers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u64, u64),
    OrInsert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    PopFirst,
    PopLast,
    Clear,
}

/// A value that stands for a number: nothing, in a set.
trait Number: Value<Owned = Self> + AsValue<Self> + Copy + Debug {
    fn of(n: u64) -> Self;
    fn number(self) -> u64;
}

impl Number for u64 {
    fn of(n: u64) -> u64 {
        n
    }
    fn number(self) -> u64 {
        self
    }
}

impl Number for () {
    fn of(_: u64) {}
    fn number(self) -> u64 {
        0
    }
}

/// Returns the result of an operation on the model: the old value, or that which is there then.
fn apply<Q: Ord, V: Number>(
    state: &mut Model<Q, V>,
    key: fn(u64) -> Q,
    operation: Operation,
) -> Option<u64> {
    let result = match operation {
        Operation::Insert(n, value) => state.insert(key(n), V::of(value)),
        Operation::OrInsert(n, value) => Some(*state.entry(key(n)).or_insert(V::of(value))),
        Operation::Update(n, value) => {
            state.get_mut(&key(n)).map(|old| std::mem::replace(old, V::of(value)))
        }
        Operation::Remove(n) => state.remove(&key(n)),
        Operation::PopFirst => state.pop_first().map(|(_, value)| value),
        Operation::PopLast => state.pop_last().map(|(_, value)| value),
        Operation::Clear => {
            state.clear();
            None
        }
    };
    result.map(V::number)
}

fn run<W: Allocate, K: Key + ?Sized, V: Number>(
    tx: &mut W,
    map: BTreeMap<K, V>,
    key: fn(u64) -> K::Owned,
    operation: Operation,
) -> Result<Option<u64>, Stop>
where
    K::Owned: AsKey<K>,
{
    let result = match operation {
        Operation::Insert(n, value) => map.insert(tx, key(n), V::of(value))?,
        Operation::OrInsert(n, value) => Some(map.entry(tx, key(n))?.or_insert(V::of(value))?),
        Operation::Update(n, value) => {
            let mut before = None;
            map.update(tx, key(n), |old| {
                before = Some(old);
                V::of(value)
            })?;
            before
        }
        Operation::Remove(n) => map.remove(tx, key(n))?,
        Operation::PopFirst => map.pop_first(tx)?.map(|(_, value)| value),
        Operation::PopLast => map.pop_last(tx)?.map(|(_, value)| value),
        Operation::Clear => {
            map.clear(tx)?;
            None
        }
    };
    Ok(result.map(V::number))
}

/// Fills a map with every second key, and returns its model: so many entries that the length has
/// stripes, in full nodes. The last entry may be alone in its leaf, and the leaf in an inner node.
fn refilled<K: Key + ?Sized, V: Number>(
    mock: &mut Mock,
    map: BTreeMap<K, V>,
    key: fn(u64) -> K::Owned,
    keys: u64,
) -> Model<K::Owned, V>
where
    K::Owned: AsKey<K> + Ord,
{
    mock.transact(|tx| map.clear(tx)).unwrap();
    let mut model = Model::new();
    for n in (1..keys).step_by(2) {
        mock.transact(|tx| map.put(tx, key(n), V::of(n))).unwrap();
        model.insert(key(n), V::of(n));
    }
    model
}

fn are_same<Q: Ord, V: Number>(a: &Model<Q, V>, b: &Model<Q, V>) -> bool {
    let number = |&value: &V| value.number();
    a.keys().eq(b.keys()) && a.values().map(number).eq(b.values().map(number))
}

/// Returns an operation on one of two keys that are there, or on the key after it.
fn meeting_operation(mut below: impl FnMut(u64) -> u64, keys: [u64; 2]) -> Operation {
    let n = keys[below(2) as usize];
    match below(8) {
        0..=2 => Operation::Insert(n, below(1000)),
        3..=5 => Operation::Remove(n + below(2)),
        6 => Operation::OrInsert(n + below(2), below(1000)),
        _ => Operation::Update(n + below(2), below(1000)),
    }
}

/// Returns an operation on a key, on the nearest present key, or on an end of the map.
fn random_operation(
    mut below: impl FnMut(u64) -> u64,
    n: u64,
    nearest: u64,
    grows: bool,
) -> Operation {
    match below(if grows { 12 } else { 16 }) {
        0 => Operation::Update(nearest, below(1000)),
        1 => Operation::PopFirst,
        2 => Operation::PopLast,
        3 if below(100) == 0 => Operation::Clear,
        3..=10 if grows => Operation::Insert(n, below(1000)),
        4 => Operation::Insert(n, below(1000)),
        _ => Operation::Remove(nearest),
    }
}

/// Runs two transactions of one or two operations on one state, as under snapshot isolation, and
/// commits both if they write no object in common. The result must be that of one after the other,
/// in one order or the other.
fn pairs_are_serializable<K: Key + ?Sized, V: Number>(
    key: fn(u64) -> K::Owned,
    entries: u64,
    trials: usize,
) where
    K::Owned: AsKey<K> + Ord + Clone + Debug,
{
    let keys = 2 * entries;
    let mut below = random_below();
    let mut mock = Mock::new(512 << 20);
    let map: BTreeMap<K, V> = mock.transact(BTreeMap::create).unwrap();
    let mut model = Model::new();
    let (mut conflicts, mut both, mut structural) = (0, 0, 0);
    for trial in 0..trials {
        if trial % 300 == 0 {
            model = refilled(&mut mock, map, key, keys);
        }
        let grows = trial / 450 % 2 == 0;
        // Mostly near each other, so that they meet in neighboring leaves, and often at the end.
        let first = if below(3) == 0 { keys - 1 - below(90) } else { below(keys) };
        let second = if below(4) == 0 { below(keys) } else { (first + below(80)) % keys };
        let meeting = [first, (first + 150) % keys];
        let meets = below(2) == 0;
        let mut operation = |n: u64| {
            let nearest = |n: u64| {
                let there = (n..keys).find(|&n| model.contains_key(&key(n)));
                there.unwrap_or(n)
            };
            match meets {
                true => meeting_operation(&mut below, meeting.map(nearest)),
                false => random_operation(&mut below, n, nearest(n), grows),
            }
        };
        let count = if meets { 2 } else { 1 + trial % 3 / 2 };
        let a: Vec<_> = (0..count).map(|_| operation(first)).collect();
        let b: Vec<_> = (0..count).map(|_| operation(second)).collect();
        let run_all = |tx: &mut Recorder<'_>, operations: &[Operation]| {
            let results = operations.iter().map(|&operation| run(tx, map, key, operation));
            results.collect::<Result<Vec<_>, Stop>>()
        };
        let (of_a, trace_a) = trace(&mut mock, 0, |tx| run_all(tx, &a));
        let (of_b, trace_b) = trace(&mut mock, APART, |tx| run_all(tx, &b));
        let moves = |trace: &Trace| {
            trace.changes.iter().any(|c| matches!(c, Change::Retire(_, 488))) || taken(trace) > 400
        };
        let apply_all = |state: &mut Model<K::Owned, V>, operations: &[Operation]| {
            let results = operations.iter().map(|&operation| apply(state, key, operation));
            results.collect::<Vec<_>>()
        };
        if trace_a.writes.is_disjoint(&trace_b.writes) && taken(&trace_a) < APART {
            both += 1;
            structural += usize::from(moves(&trace_a) || moves(&trace_b));
            commit(&mut mock, 0, &trace_a);
            commit(&mut mock, APART - taken(&trace_a), &trace_b);
            let (mut a_first, mut b_first) = (model.clone(), model.clone());
            let results_a = (apply_all(&mut a_first, &a), apply_all(&mut a_first, &b));
            let mut results_b = (apply_all(&mut b_first, &b), apply_all(&mut b_first, &a));
            std::mem::swap(&mut results_b.0, &mut results_b.1);
            let all = mock.transact(|tx| map.range(..).collect(tx)).unwrap();
            let all = Model::from_iter(all);
            let is_a = (&of_a, &of_b) == (&results_a.0, &results_a.1) && are_same(&a_first, &all);
            let is_b = (&of_a, &of_b) == (&results_b.0, &results_b.1) && are_same(&b_first, &all);
            assert!(is_a || is_b, "trial {trial}: {a:?} and {b:?}");
            model = all;
        } else {
            conflicts += 1;
            commit(&mut mock, 0, &trace_a);
            apply_all(&mut model, &a);
        }
        let checked = mock.transact(|tx| map.check(tx)).unwrap();
        assert_eq!(checked.damage, [], "trial {trial}: {a:?} and {b:?}");
        assert_eq!(checked.entries, model.len() as u64);
    }
    assert!(conflicts > trials / 20 && both > trials / 5, "{conflicts} and {both}");
    assert!(structural > trials / 200, "{structural} with a change of nodes");
}

fn user(n: u64) -> Vec<u8> {
    format!("user:{n:07}").into_bytes()
}

#[test]
fn concurrent_pairs_on_strings_are_serializable() {
    // 40 full leaves of 28 fill an inner node.
    pairs_are_serializable::<[u8], u64>(user, 28 * 40 + 1, 1500);
}

#[test]
fn concurrent_pairs_on_sets_are_serializable() {
    pairs_are_serializable::<[u8], ()>(user, 28 * 40 + 1, 1500);
    pairs_are_serializable::<u64, ()>(|n| n, 54 * 28 + 1, 1500);
}

#[test]
fn concurrent_pairs_on_numbers_are_serializable() {
    pairs_are_serializable::<u64, u64>(|n| n, 28 * 28 + 1, 1500);
}

#[test]
fn concurrent_zero_key_operations_are_serializable() {
    pairs_are_serializable::<[u8], u64>(
        |n| [vec![0; 10 + n as usize / 97 % 9], n.to_be_bytes().to_vec()].concat(),
        1200,
        2000,
    );
}

/// Tests that each change that finds nothing to do conflicts with a change that would give it
/// something to do.
fn changes_without_effect_conflict<K: Key + ?Sized, V: Number>(key: fn(u64) -> K::Owned)
where
    K::Owned: AsKey<K>,
{
    let value = V::of(7);
    let mut mock = Mock::new(64 << 20);
    let map: BTreeMap<K, V> = mock.transact(BTreeMap::create).unwrap();
    // Without a root; an empty leaf; a leaf; several levels.
    for entries in [None, Some(0), Some(5), Some(2000)] {
        if let Some(entries) = entries {
            for n in 0..=2 * entries {
                mock.transact(|tx| map.put(tx, key(2 * n), value)).unwrap();
            }
            for n in entries..=2 * entries {
                mock.transact(|tx| map.remove(tx, key(2 * n))).unwrap();
            }
        }
        let insert = |tx: &mut Recorder<'_>| map.put(tx, key(101), value);
        assert!(conflict(&mut mock, |tx| map.remove(tx, key(101)), insert), "{entries:?}");
        assert!(conflict(&mut mock, |tx| map.delete(tx, key(101)), insert), "{entries:?}");
        assert!(conflict(&mut mock, |tx| map.update(tx, key(101), |old| old), insert));
        assert!(conflict(&mut mock, |tx| map.entry(tx, key(101))?.remove(), insert));
        let modify = |tx: &mut Recorder<'_>| {
            map.entry(tx, key(101))?.and_modify(|old| old).map(|entry| entry.is_occupied())
        };
        assert!(conflict(&mut mock, modify, insert));
        if entries.unwrap_or(0) == 0 {
            assert!(conflict(&mut mock, |tx| map.pop_first(tx), insert), "{entries:?}");
            assert!(conflict(&mut mock, |tx| map.pop_last(tx), insert), "{entries:?}");
            assert!(conflict(&mut mock, |tx| map.clear(tx), insert), "{entries:?}");
            continue;
        }
        let remove = |tx: &mut Recorder<'_>| map.remove(tx, key(2));
        assert!(conflict(&mut mock, |tx| map.put(tx, key(2), value), remove), "{entries:?}");
        assert!(conflict(&mut mock, |tx| map.insert(tx, key(2), value), remove));
        assert!(conflict(&mut mock, |tx| map.update(tx, key(2), |old| old), remove));
        assert!(conflict(&mut mock, |tx| map.entry(tx, key(2))?.or_insert(value), remove));
        let update = |tx: &mut Recorder<'_>| map.put(tx, key(2), V::of(8));
        assert!(conflict(&mut mock, |tx| map.entry(tx, key(2))?.or_insert(value), update));
    }
}

#[test]
fn changes_without_effect_conflict_in_all_forms() {
    changes_without_effect_conflict::<[u8], u64>(user);
    changes_without_effect_conflict::<[u8], ()>(user);
    changes_without_effect_conflict::<u64, u64>(|n| n);
    changes_without_effect_conflict::<u64, ()>(|n| n);
}

/// Tests that an insertion above a full last leaf, which moves nothing, conflicts with changes of
/// the leaf.
fn append_beside_full_leaf_conflicts<K: Key + ?Sized, V: Number>(
    slots: u64,
    key: fn(u64) -> K::Owned,
) where
    K::Owned: AsKey<K>,
{
    let value = V::of(7);
    // The leaf is the root, and one of several.
    for leaves in [1, 3] {
        let mut mock = Mock::new(64 << 20);
        let map: BTreeMap<K, V> = mock.transact(BTreeMap::create).unwrap();
        for n in 0..leaves * slots {
            mock.transact(|tx| map.put(tx, key(n), value)).unwrap();
        }
        let nodes = mock.objects();
        let append = |tx: &mut Recorder<'_>| map.put(tx, key(9000), value);
        let last = leaves * slots - 1;
        assert!(conflict(&mut mock, |tx| map.remove(tx, key(last)), append), "{leaves} leaves");
        assert!(conflict(&mut mock, |tx| map.remove(tx, key(last - 3)), append));
        assert!(conflict(&mut mock, |tx| map.remove(tx, key(9000)), append));
        assert!(conflict(&mut mock, |tx| map.update(tx, key(9000), |old| old), append));
        mock.transact(|tx| map.put(tx, key(9000), value)).unwrap();
        assert!(mock.objects() > nodes, "the last leaf was not full");
    }
}

#[test]
fn append_beside_full_leaf_conflicts_in_all_forms() {
    append_beside_full_leaf_conflicts::<[u8], ()>(28, user);
    append_beside_full_leaf_conflicts::<u64, u64>(28, |n| n);
    append_beside_full_leaf_conflicts::<u64, ()>(54, |n| n);
}

#[test]
fn split_conflicts_with_a_join_that_moves_its_bound() {
    let mut mock = Mock::new(64 << 20);
    let map: BTreeMap<[u8], u64> = mock.transact(BTreeMap::create).unwrap();
    // The last leaf is alone in an inner node, and the one before is full.
    for n in 0..=28 * 40 {
        mock.transact(|tx| map.put(tx, user(10 * n), n)).unwrap();
    }
    let end = 10 * 28 * 40;
    let join = |tx: &mut Recorder<'_>| map.remove(tx, user(end));
    assert!(conflict(&mut mock, join, |tx| map.put(tx, user(end - 5), 0)));
}

#[test]
fn far_away_keys_do_not_conflict() {
    let mut mock = Mock::new(128 << 20);
    let numbers: BTreeMap<u64, u64> = mock.transact(BTreeMap::create).unwrap();
    let names: BTreeMap<str, [u8; 100]> = mock.transact(BTreeMap::create).unwrap();
    let name = |n: u64| format!("user:{n:09}");
    // In no order, so that not all nodes are full.
    for n in (0..20_000).map(|n| n * 7919 % 20_000) {
        mock.transact(|tx| {
            numbers.put(tx, 10 * n, n)?;
            names.put(tx, name(10 * n), [0; 100])
        })
        .unwrap();
    }
    let mut below = random_below();
    let mut of_inserts = 0;
    for trial in 0..2000_u64 {
        let (a, b) = (10 * below(10_000), 10 * (10_100 + below(9900)));
        let meets = |a: &Trace, b: &Trace| {
            let meets = |a: &Trace, b: &Trace| {
                !a.writes.is_disjoint(&b.writes) || !a.writes.is_disjoint(&b.reads)
            };
            meets(a, b) || meets(b, a)
        };
        let update = |mock: &mut Mock, after, n| {
            trace(mock, after, |tx| {
                numbers.put(tx, n, trial)?;
                names.put(tx, name(n), [trial as u8; 100])
            })
        };
        let (_, one) = update(&mut mock, 0, a);
        let (_, other) = update(&mut mock, APART, b);
        assert!(!meets(&one, &other), "updates of {a} and {b}");
        let insert = |mock: &mut Mock, after, n| {
            trace(mock, after, |tx| {
                assert!(names.put(tx, name(n), [1; 100])?);
                Ok(())
            })
        };
        let ((), one) = insert(&mut mock, 0, a + 1 + below(9));
        let ((), other) = insert(&mut mock, APART, b + 1 + below(9));
        of_inserts += usize::from(meets(&one, &other));
    }
    // One in 64 shares a stripe of the length, and some split a node whose parent the other reads.
    assert!(of_inserts < 120, "{of_inserts} of 2000 pairs of insertions");
}
