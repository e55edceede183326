//! Hash maps under conflicts: at every access of an operation, and between two transactions.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;

use collections::hash_map::Damage;
use collections::{AsValue, Counter, HashMap, Value};
use common::{
    Change, Recorder, UNITS, changes, conflict_everywhere, conflicts, footprint, random_below,
    redo, written,
};
use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact};

const SEED: u64 = 42;

type Integers = HashMap<u64, u64>;
type Strings = HashMap<str, str>;

fn integers(pairs: u64) -> impl Fn(&mut Mock) -> Integers {
    move |mock| {
        mock.transact(|tx| {
            let map = Integers::with_seed(tx, SEED)?;
            map.extend(tx, (0..pairs).map(|n| (n, n)))?;
            Ok(map)
        })
        .unwrap()
    }
}

fn strings(pairs: u64) -> impl Fn(&mut Mock) -> Strings {
    move |mock| {
        mock.transact(|tx| {
            let map = Strings::with_seed(tx, SEED)?;
            map.extend(tx, (0..pairs).map(|n| (n.to_string(), "value")))?;
            Ok(map)
        })
        .unwrap()
    }
}

fn check_integers(mock: &mut Mock, map: Integers) -> u64 {
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!(checked.damage, []);
    checked.entries
}

fn check_strings(mock: &mut Mock, map: Strings) -> u64 {
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!(checked.damage, []);
    checked.entries
}

#[test]
fn conflicting_insertion_is_atomic() {
    let mut most = 0;
    // The map's first buckets, splits, the first directories, and stripes for the length.
    for pairs in (0..70).chain(508..514) {
        let insert = |tx: &mut Mock, map: Integers| map.insert(tx, pairs, 1);
        most = most.max(conflict_everywhere(integers(pairs), insert, check_integers));
    }
    assert!(most > 30, "{most}");
    for pairs in 0..20 {
        let insert = |tx: &mut Mock, map: Strings| map.insert(tx, pairs.to_string(), "new");
        conflict_everywhere(strings(pairs), insert, check_strings);
        let update = |tx: &mut Mock, map: Strings| map.insert(tx, "0", "long".repeat(900));
        conflict_everywhere(strings(pairs), update, check_strings);
    }
}

#[test]
fn conflicting_removal_is_atomic() {
    let mut most = 0;
    for pairs in 1..60 {
        // All keys but the last go first, so that removals merge buckets and directories.
        let setup = |mock: &mut Mock| {
            let map = integers(60)(mock);
            mock.transact(|tx| {
                for key in pairs..60 {
                    map.delete(tx, key)?;
                }
                Ok(())
            })
            .unwrap();
            map
        };
        let remove = |tx: &mut Mock, map: Integers| map.remove(tx, pairs - 1);
        most = most.max(conflict_everywhere(setup, remove, check_integers));
    }
    assert!(most > 40, "{most}");
    for most in [1, 3, 10, 100] {
        let clear = |tx: &mut Mock, map: Strings| map.clear_step(tx, most);
        conflict_everywhere(strings(30), clear, check_strings);
        let retain = |tx: &mut Mock, map: Integers| map.retain(tx, |key, _| key % most == 0);
        conflict_everywhere(integers(40), retain, check_integers);
    }
}

#[test]
fn transactions_on_other_keys_rarely_conflict() {
    const PAIRS: u64 = 30_000;
    for (name, unit) in UNITS {
        let mut mock = Mock::new(1 << 24);
        let map = integers(PAIRS)(&mut mock);
        let mut of = |body: &dyn Fn(&mut Recorder<'_>, u64) -> Result<(), Stop>| {
            let keys = (0..200).map(|n| n * 149);
            let footprints: Vec<_> =
                keys.map(|key| footprint(&mut mock, unit, |tx| body(tx, key))).collect();
            conflicts(&footprints)
        };
        let update = of(&|tx, key| map.update(tx, key, |value| value + 1).map(drop));
        let mixed = of(&|tx, key| match key % 2 {
            0 => map.get(tx, key).map(drop),
            _ => map.insert(tx, PAIRS + key, key).map(drop),
        });
        let insert = of(&|tx, key| map.insert(tx, PAIRS + key, key).map(drop));
        let remove = of(&|tx, key| map.remove(tx, key).map(drop));
        // Of 64 stripes of the length, two changes take the same in 16 of 1000 pairs.
        assert!(update <= 5, "{update} of 1000 pairs of updates conflict in {name}");
        assert!(mixed <= 25, "{mixed} of 1000 pairs of reads and insertions conflict in {name}");
        assert!((1..=50).contains(&insert), "{insert} of 1000 pairs of insertions: {name}");
        assert!((1..=50).contains(&remove), "{remove} of 1000 pairs of removals: {name}");
    }
}

#[test]
fn transactions_on_one_key_conflict() {
    let mut mock = Mock::new(1 << 22);
    let map = strings(1000)(&mut mock);
    let unit = UNITS[0].1;
    for key in ["7", "new"] {
        let mut of = |body: &dyn Fn(&mut Recorder<'_>) -> Result<(), Stop>| {
            footprint(&mut mock, unit, body).written
        };
        let all = [
            of(&|tx| map.put(tx, key, "other").map(drop)),
            of(&|tx| map.put(tx, key, "long".repeat(100)).map(drop)),
            of(&|tx| map.delete(tx, key).map(drop)),
            of(&|tx| map.update(tx, key, |value| value + "x").map(drop)),
        ];
        // Written words alone: this must hold under snapshot isolation too.
        for (n, one) in all.iter().enumerate() {
            for other in &all[n..] {
                let is_change = !one.is_empty() && !other.is_empty();
                assert!(!is_change || !one.is_disjoint(other), "{n}: {one:?} and {other:?}");
            }
        }
        assert!(!all[0].is_empty());
    }
}

#[test]
fn workers_of_a_counter_do_not_conflict() {
    let mut mock = Mock::new(1 << 20);
    let counter = mock.transact(Counter::create).unwrap();
    // A pool has objects of so different sizes in different slabs.
    mock.transact(|tx| tx.allocate(1024)).unwrap();
    for _ in 0..100 {
        mock.transact(|tx| counter.add(tx, 1)).unwrap();
    }
    for (name, unit) in UNITS {
        let footprints: Vec<_> = (0..8)
            .map(|worker| footprint(&mut mock, unit, |tx| counter.add_at(tx, worker, 1)))
            .collect();
        let clashes = |n: usize| footprints[..n].iter().any(|one| one.conflicts(&footprints[n]));
        assert!(!(0..footprints.len()).any(clashes), "{name}");
    }
}

/// One operation of a transaction, on a key and with the number of a value.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64, u64),
    OrInsert(u64, u64),
    Remove(u64),
    Update(u64, u64),
    Clear(u64),
}

/// Returns the result of an operation on a map: the old value, or the present value.
fn run<W, V>(
    tx: &mut W,
    map: HashMap<u64, V>,
    step: Step,
    value: fn(u64) -> V::Owned,
) -> Result<Option<V::Owned>, Stop>
where
    W: Allocate,
    V: Value<Owned: AsValue<V>> + ?Sized,
{
    match step {
        Step::Insert(key, n) => map.insert(tx, key, value(n)),
        Step::OrInsert(key, n) => map.entry(tx, key)?.or_insert(value(n)).map(Some),
        Step::Remove(key) => map.remove(tx, key),
        Step::Update(key, n) => {
            let mut before = None;
            map.update(tx, key, |old| {
                before = Some(old);
                value(n)
            })?;
            Ok(before)
        }
        Step::Clear(most) => map.clear_step(tx, most).map(|_| None),
    }
}

/// Returns the result of an operation on the model.
fn apply<T: Clone>(model: &mut BTreeMap<u64, T>, step: Step, value: fn(u64) -> T) -> Option<T> {
    match step {
        Step::Insert(key, n) => model.insert(key, value(n)),
        Step::OrInsert(key, n) => Some(model.entry(key).or_insert_with(|| value(n)).clone()),
        Step::Remove(key) => model.remove(&key),
        Step::Update(key, n) => model.get_mut(&key).map(|old| std::mem::replace(old, value(n))),
        Step::Clear(_) => {
            model.clear();
            None
        }
    }
}

/// Returns the operations of a transaction, on some of these keys.
fn steps(below: &mut impl FnMut(u64) -> u64, keys: &[u64; 3]) -> Vec<Step> {
    if below(12) == 0 {
        return vec![Step::Clear(1 + below(8))];
    }
    let mut one = || {
        let key = keys[below(3) as usize];
        match below(5) {
            0 => Step::Insert(key, below(500)),
            1 => Step::OrInsert(key, below(500)),
            2 => Step::Update(key, below(500)),
            _ => Step::Remove(key),
        }
    };
    vec![one(), one()]
}

/// Runs two transactions on one state, as under snapshot isolation, and commits both if they write
/// no object in common. Results and state must be those of one after the other, in one order or the
/// other.
fn pairs_are_serializable<V>(value: fn(u64) -> V::Owned, trials: usize)
where
    V: Value<Owned: AsValue<V> + Clone + PartialEq + Debug> + ?Sized,
{
    let mut below = random_below();
    let (mut both, mut conflicts) = (0, 0);
    for _ in 0..trials {
        let mut mock = Mock::new(1 << 19);
        let map = mock.transact(|tx| HashMap::<u64, V>::with_seed(tx, below(9))).unwrap();
        // The header, the first object, has the root in word 1 and the length in word 3.
        let count = Addr::new(mock.live()[0].0, 24);
        let mut model = BTreeMap::new();
        let keys = 4 + below(120);
        for n in 0..keys {
            mock.transact(|tx| map.put(tx, n, value(n))).unwrap();
            model.insert(n, value(n));
        }
        for _ in 0..below(keys) {
            let key = below(keys);
            mock.transact(|tx| map.delete(tx, key)).unwrap();
            model.remove(&key);
        }
        // Few keys, so that each transaction often relies on keys that the other one changes.
        let chosen = [below(2 * keys), below(keys), below(keys)];
        let (one, other) = (steps(&mut below, &chosen), steps(&mut below, &chosen));
        let all = |tx: &mut Recorder<'_>, steps: &[Step]| {
            steps.iter().map(|&step| run(tx, map, step, value)).collect::<Result<Vec<_>, _>>()
        };
        // Both read the same state, as under snapshot isolation.
        let (of_one, changes_one) = changes(&mut mock, 1, |tx| all(tx, &one));
        let (of_other, mut changes_other) = changes(&mut mock, 40, |tx| all(tx, &other));
        // The common count hides that other words are written. Each bucket of a large map has
        // another one. Only a step that clears the map relies on it.
        let clears = [&one, &other].iter().any(|steps| matches!(steps[0], Step::Clear(_)));
        let ignored = (!clears).then_some(count);
        if !written(&changes_one, ignored).is_disjoint(&written(&changes_other, ignored)) {
            conflicts += 1;
            continue;
        }
        both += 1;
        changes_other.retain(|c| !matches!(c, Change::Write(at, _) if Some(*at) == ignored));
        redo(&mut mock, &changes_one);
        redo(&mut mock, &changes_other);
        let mut damage = mock.transact(|tx| map.check(tx)).unwrap().damage;
        damage.retain(|damage| clears || !matches!(damage, Damage::Length { .. }));
        assert_eq!(damage, [], "{one:?} and {other:?}");
        let found: BTreeMap<_, _> =
            mock.transact(|tx| map.iter(tx).collect::<Result<_, _>>()).unwrap();
        let serial = |first: &[Step], second: &[Step]| {
            let mut state = model.clone();
            let mut of = |steps: &[Step]| -> Vec<_> {
                steps.iter().map(|&step| apply(&mut state, step, value)).collect()
            };
            let (of_first, of_second) = (of(first), of(second));
            (of_first, of_second, state)
        };
        let (a, b, state) = serial(&one, &other);
        let is_first = (&a, &b, &state) == (&of_one, &of_other, &found);
        let (b, a, state) = serial(&other, &one);
        let is_second = (&a, &b, &state) == (&of_one, &of_other, &found);
        assert!(is_first || is_second, "{one:?} and {other:?} on {model:?}");
        mock.transact(|tx| map.free(tx)).unwrap();
        assert_eq!(mock.objects(), 0, "{one:?} and {other:?}");
    }
    assert!(both > trials / 8 && conflicts > trials / 8, "{both} both, {conflicts} conflicts");
}

#[test]
fn concurrent_pairs_on_strings_are_serializable() {
    pairs_are_serializable::<str>(|n| format!("{n:x<0$}", n as usize % 40), 3000);
}

#[test]
fn concurrent_pairs_on_integers_are_serializable() {
    pairs_are_serializable::<u64>(|n| n, 3000);
}

#[test]
fn concurrent_pairs_on_a_set_are_serializable() {
    pairs_are_serializable::<()>(|_| (), 3000);
}

/// Returns one of many keys with equal hashes, by the hash function and [`SEED`].
fn colliding(number: u64) -> [u8; 16] {
    let product = u128::from(SEED ^ number) * 0x243f_6a88_85a3_08d3;
    let second = (product as u64) ^ (product >> 64) as u64;
    [number.to_ne_bytes(), second.to_ne_bytes()].concat().try_into().unwrap()
}

#[test]
fn chain_growth_conflicts_with_next_bucket() {
    let mut mock = Mock::new(1 << 16);
    let map = mock.transact(|tx| HashMap::<[u8; 16], u64>::with_seed(tx, SEED)).unwrap();
    let length = Some(Addr::new(mock.live()[0].0, 24));
    mock.transact(|tx| map.extend(tx, (0..8).map(|n| (colliding(n), n)))).unwrap();
    let objects = mock.objects();
    let (_, insert) = changes(&mut mock, 1, |tx| map.put(tx, colliding(8), 8).map(drop));
    let (_, remove) = changes(&mut mock, 40, |tx| map.delete(tx, colliding(3)).map(drop));
    assert!(!written(&insert, length).is_disjoint(&written(&remove, length)));
    mock.transact(|tx| map.put(tx, colliding(8), 8)).unwrap();
    assert_eq!(mock.objects(), objects + 1, "one more bucket: the hashes are equal");
}

#[test]
fn no_op_changes_prevent_write_skew() {
    // Each transaction relies on one key and removes or inserts the other one.
    type Step = fn(&mut Recorder<'_>, HashMap<u64, ()>, u64) -> Result<(), Stop>;
    let insert: Step = |tx, set, key| set.put(tx, key, ()).map(drop);
    let entry: Step = |tx, set, key| set.entry(tx, key)?.or_insert(());
    let remove: Step = |tx, set, key| set.delete(tx, key).map(drop);
    let update: Step = |tx, set, key| set.update(tx, key, |()| ()).map(drop);
    for pairs in [0, 2, 2000] {
        let mut mock = Mock::new(1 << 20);
        let new_set = |mock: &mut Mock| {
            let set = mock.transact(|tx| HashMap::<u64, ()>::with_seed(tx, SEED)).unwrap();
            mock.transact(|tx| set.extend(tx, (0..pairs).map(|n| (n, ())))).unwrap();
            set
        };
        let sets = [new_set(&mut mock), new_set(&mut mock)];
        // Keys that are there, and keys that are not.
        let (there, absent) = (0, pairs + 1);
        let mut cases = vec![(remove, insert, absent), (update, insert, absent)];
        if pairs > 0 {
            cases.extend([insert, entry, update].map(|relies| (relies, remove, there)));
        }
        for (n, (relies, changes, key)) in cases.into_iter().enumerate() {
            let mut of = |one: usize| {
                footprint(&mut mock, UNITS[0].1, |tx| {
                    relies(tx, sets[one], key)?;
                    changes(tx, sets[1 - one], key)
                })
            };
            let (one, other) = (of(0), of(1));
            assert!(!one.written.is_disjoint(&other.written), "case {n} of {pairs} pairs");
        }
    }
}
