//! Maps with indexes: against std, under concurrent transactions, and in damaged heaps.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod recorder;

use std::collections::BTreeMap as Model;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use collections::catalog::{self, Converted, Opened};
use collections::indexed_map::{Checked, Damage};
use collections::{BTreeMap, Index, IndexedMap};
use words::mock::{Mock, Refused};
use words::{Addr, Allocate, Stop, Transact, Words};
use zerocopy::IntoBytes;

use recorder::{APART, Recorder, commit, conflict, random_below, taken, trace};

/// A score, and the number of a group.
type Player = [u16; 2];

/// The index that leaves out some scores.
struct ByScore;
impl Index<str, Player> for ByScore {
    type Key = u16;
    fn key(_: &String, &[score, _]: &Player) -> Option<u16> {
        (score % 5 > 0).then_some(score)
    }
}

/// The names of the groups: each begins with the one before, and has bytes that are escaped.
const GROUPS: [&str; 5] = ["", "\0", "\0\u{1}", "a", "aa"];

struct ByGroup;
impl Index<str, Player> for ByGroup {
    type Key = str;
    fn key(_: &String, &[_, group]: &Player) -> Option<String> {
        Some(GROUPS[usize::from(group) % 5].to_owned())
    }
}

struct ByBoth;
impl Index<str, Player> for ByBoth {
    type Key = (String, u16);
    fn key(name: &String, player: &Player) -> Option<(String, u16)> {
        Some((ByGroup::key(name, player)?, player[0]))
    }
}

type Players = IndexedMap<str, Player, (ByScore, ByGroup, ByBoth)>;

/// An index whose entries are whole in the heads of a set's nodes.
struct ByHalf;
impl Index<u32, u64> for ByHalf {
    type Key = u8;
    fn key(_: &u32, &value: &u64) -> Option<u8> {
        u8::try_from(value / 2).ok()
    }
}

type Numbers = IndexedMap<u32, u64, (ByHalf,)>;

/// Returns the index keys of a model, each with its record.
fn indexed<K: Ord + Clone, V: Copy, X: Ord>(
    model: &Model<K, V>,
    key: impl Fn(&K, &V) -> Option<X>,
) -> Vec<(X, K, V)> {
    let entry = |(k, v): (&K, &V)| Some((key(k, v)?, k.clone(), *v));
    let mut all: Vec<_> = model.iter().filter_map(entry).collect();
    all.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    all
}

/// Returns the records of a model in a range of an index.
fn within<K: Clone, V: Copy, X: PartialOrd>(
    all: &[(X, K, V)],
    range: impl RangeBounds<X>,
) -> Vec<(K, V)> {
    let is_inside = |entry: &&(X, K, V)| range.contains(&entry.0);
    all.iter().filter(is_inside).map(|(_, key, value)| (key.clone(), *value)).collect()
}

fn sound(checked: &Checked, records: usize) {
    assert_eq!(checked.damage, []);
    assert_eq!((checked.records, checked.is_rebuilding), (records as u64, false));
}

#[test]
fn map_of_strings_matches_std() {
    let mut below = random_below();
    let mut mock = Mock::new(8 << 20);
    let map: Players = mock.transact(IndexedMap::create).unwrap();
    let mut model: Model<String, Player> = Model::new();
    for step in 0..3000 {
        let name = format!("{}", below(400));
        let value = [below(40) as u16, below(5) as u16];
        match below(if step < 1500 { 8 } else { 12 }) {
            0..=3 => {
                let old = mock.transact(|tx| map.insert(tx, &name, value)).unwrap();
                assert_eq!(old, model.insert(name, value));
            }
            4 => {
                let there = mock.transact(|tx| map.entry(tx, &name)?.or_insert(value)).unwrap();
                assert_eq!(there, *model.entry(name).or_insert(value));
            }
            5 | 6 => {
                let change = |[score, group]: Player| [score + 1, group ^ value[1]];
                let new = mock.transact(|tx| match step % 2 {
                    0 => map.update(tx, &name, change),
                    _ => map.entry(tx, &name)?.and_modify(change)?.get(),
                });
                let there = model.get_mut(&name);
                assert_eq!(new.unwrap(), there.map(|there| *there).map(change));
                model.entry(name).and_modify(|there| *there = change(*there));
            }
            _ => {
                let old = mock.transact(|tx| map.remove(tx, &name)).unwrap();
                assert_eq!(old, model.remove(&name));
            }
        }
        if step % 50 == 0 {
            sound(&mock.transact(|tx| map.check(tx)).unwrap(), model.len());
            strings_are_found(&mut mock, map, &model, &mut below);
        }
    }
    mock.transact(|tx| map.free(tx)).unwrap();
    assert_eq!(mock.objects(), 0);
}

/// Compares look-ups with the model.
fn strings_are_found(
    mock: &mut Mock,
    map: Players,
    model: &Model<String, Player>,
    below: &mut impl FnMut(u64) -> u64,
) {
    let scores = indexed(model, ByScore::key);
    let groups = indexed(model, ByGroup::key);
    let both = indexed(model, ByBoth::key);
    let (low, high) = (below(40) as u16, below(40) as u16);
    let (group, other) = (GROUPS[below(5) as usize], GROUPS[below(5) as usize]);
    mock.transact(|tx| {
        let by = map.by(ByScore);
        assert_eq!(by.range(low..high).collect(tx)?, within(&scores, low..high));
        assert_eq!(by.get(low).collect(tx)?, within(&scores, low..=low));
        let above = (Bound::Excluded(low), Bound::Included(high));
        assert_eq!(by.range(above).count(tx)?, within(&scores, above).len() as u64);
        assert_eq!(by.first(tx)?, within(&scores, ..).first().cloned());
        assert_eq!(by.last(tx)?, within(&scores, ..).last().cloned());
        let mut reverse = within(&scores, ..);
        reverse.reverse();
        assert_eq!(by.range(..).rev().collect(tx)?, reverse);
        let keys: Vec<_> = scores.iter().map(|(score, name, _)| (*score, name.clone())).collect();
        assert_eq!(by.range(..).collect_keys(tx)?, keys);

        let by = map.by(ByGroup);
        let of = |range: (Bound<&str>, Bound<&str>)| {
            within(&groups, (range.0.map(str::to_owned), range.1.map(str::to_owned)))
        };
        for bounds in [
            (Bound::Included(group), Bound::Excluded(other)),
            (Bound::Excluded(group), Bound::Included(other)),
            (Bound::Unbounded, Bound::Included(other)),
        ] {
            assert_eq!(by.range(bounds).collect(tx)?, of(bounds), "{bounds:?}");
        }
        let only = (Bound::Included(group), Bound::Included(group));
        assert_eq!(by.get(group).collect(tx)?, of(only));
        let begins = |(key, name, player): &(String, String, Player)| {
            key.starts_with(group).then(|| (name.clone(), *player))
        };
        let expected: Vec<_> = groups.iter().filter_map(begins).collect();
        assert_eq!(by.prefix(group).collect(tx)?, expected);
        let tuples =
            both.iter().filter(|((of, _), ..)| of == group).map(|(_, n, p)| (n.clone(), *p));
        assert_eq!(map.by(ByBoth).prefix((group,)).collect(tx)?, tuples.collect::<Vec<_>>());

        let (mut pages, mut rest) = (Vec::new(), Some(by.range(..).rev()));
        while let Some(range) = rest {
            let (page, next) = range.page(tx, 7)?;
            pages.extend(page);
            rest = next;
        }
        pages.reverse();
        assert_eq!(pages, within(&groups, ..));
        Ok(())
    })
    .unwrap();
}

#[test]
fn map_of_numbers_matches_std() {
    let mut below = random_below();
    let mut mock = Mock::new(8 << 20);
    let map: Numbers = mock.transact(IndexedMap::create).unwrap();
    let mut model = Model::new();
    for step in 0..2000 {
        // Often a record with the greatest index key, sometimes a record without one.
        let (key, value) = (below(600) as u32, if below(3) == 0 { 510 } else { below(530) });
        match below(3) {
            0 => assert_eq!(mock.transact(|tx| map.remove(tx, key)).unwrap(), model.remove(&key)),
            _ => {
                let old = mock.transact(|tx| map.insert(tx, key, value)).unwrap();
                assert_eq!(old, model.insert(key, value));
            }
        }
        if step % 100 > 0 {
            continue;
        }
        sound(&mock.transact(|tx| map.check(tx)).unwrap(), model.len());
        let all = indexed(&model, ByHalf::key);
        let by = map.by(ByHalf);
        for (low, high) in [(0, 255), (255, 255), (254, 255), (below(256) as u8, below(256) as u8)]
        {
            let bounds = (Bound::Excluded(low), Bound::Included(high));
            if low < high {
                let found = mock.transact(|tx| by.range(bounds).collect(tx)).unwrap();
                assert_eq!(found, within(&all, bounds));
            } else {
                assert_eq!(mock.transact(|tx| by.range(bounds).rev().count(tx)).unwrap(), 0);
            }
            let found = mock.transact(|tx| by.range(low..).collect(tx)).unwrap();
            assert_eq!(found, within(&all, low..));
        }
        let range = by.range(250..);
        while !mock.transact(|tx| range.remove_step(tx, 9)).unwrap() {}
        model.retain(|key, value| ByHalf::key(key, value).is_none_or(|half| half < 250));
    }
}

#[test]
fn cleared_map_and_indexes_agree() {
    let mut mock = Mock::new(8 << 20);
    let map: Players = mock.transact(IndexedMap::create).unwrap();
    for n in 0..500_u16 {
        mock.transact(|tx| map.insert(tx, n.to_string(), [n, n])).unwrap();
    }
    let mut steps = 0;
    while !mock.transact(|tx| map.clear_step(tx, 60)).unwrap() {
        let (len, count) =
            mock.transact(|tx| Ok((map.len(tx)?, map.by(ByGroup).range(..).count(tx)?))).unwrap();
        assert!(len == count && len < 20, "{len} records, {count} entries");
        // The index of scores has fewer entries to free, and is ready first.
        mock.transact(|tx| map.insert(tx, steps.to_string(), [1, 1])).unwrap();
        let checked = mock.transact(|tx| map.check(tx)).unwrap();
        assert_eq!(checked.damage, []);
        if steps % 2 == 0 {
            mock.transact(|tx| map.remove(tx, steps.to_string())).unwrap();
        }
        steps += 1;
        if steps > 12 {
            mock.transact(|tx| map.clear(tx)).unwrap();
        }
    }
    assert!(steps > 5);
    sound(&mock.transact(|tx| map.check(tx)).unwrap(), 0);
}

#[test]
fn indexes_are_added_to_a_named_map() {
    type One = IndexedMap<str, Player, (ByScore,)>;
    let mut mock = Mock::new(8 << 20);
    let opened = mock.transact(|tx| catalog::open::<BTreeMap<str, Player>, _>(tx, "players"));
    let Opened::Created(records) = opened.unwrap() else { panic!("it is new") };
    for n in 0..300_u16 {
        mock.transact(|tx| records.put(tx, n.to_string(), [n % 40, n])).unwrap();
    }
    let refused = mock.transact(|tx| catalog::open::<One, _>(tx, "players")).unwrap();
    assert!(matches!(refused, Opened::Other(_)));
    let from_map = |tx: &mut Mock, old| One::from_map(tx, old);
    let opened = mock.transact(|tx| catalog::open_or_replace(tx, "players", from_map));
    let Opened::Found(one) = opened.unwrap() else { panic!("it is there") };
    assert!(!mock.transact(|tx| one.rebuild_step(tx, 50)).unwrap());
    let unread = mock.transact(|tx| one.by(ByScore).last(tx)).unwrap_err();
    assert_eq!(unread.stop, Stop::BadValue, "the index is not complete");

    let refused = mock.transact(|tx| catalog::open::<Players, _>(tx, "players")).unwrap();
    let Opened::Other(stored) = refused else { panic!("the indexes differ") };
    let shown = "IndexedMap<str, [u16; 2], (ByScore: u16)> (values of 4 bytes)";
    assert_eq!(stored.to_string(), shown);
    let convert = |tx: &mut Mock, old: One| old.with_indexes(tx);
    for _ in 0..2 {
        // The second time it has the indexes.
        let opened = mock.transact(|tx| catalog::open_or_replace(tx, "players", convert)).unwrap();
        let Opened::Found::<Players>(players) = opened else { panic!("it is there") };
        let mut steps = 0;
        while !mock.transact(|tx| players.rebuild_step(tx, 50)).unwrap() {
            steps += 1;
            // Before and after the progress.
            let (first, last) = (format!("1{steps}"), format!("9{steps}"));
            mock.transact(|tx| players.insert(tx, &first, [steps, 1])).unwrap();
            mock.transact(|tx| players.remove(tx, &last)).unwrap();
            let checked = mock.transact(|tx| players.check(tx)).unwrap();
            assert_eq!(checked.damage, []);
        }
        let checked = mock.transact(|tx| players.check(tx)).unwrap();
        sound(&checked, checked.records as usize);
    }
    let removed = mock.transact(|tx| catalog::remove::<Players, _>(tx, "players")).unwrap();
    let before = mock.objects();
    mock.transact(|tx| {
        // In the middle of a rebuild.
        let again: One = removed.unwrap().with_indexes(tx)?;
        again.rebuild_step(tx, 10)?;
        again.free(tx)
    })
    .unwrap();
    assert!(mock.objects() < before && mock.objects() < 10, "{}", mock.objects());
}

/// A change of a map, or a step of a rebuild.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u64, Player),
    Regroup(u64),
    Remove(u64),
    Rebuild,
}

fn run<W: Allocate>(
    tx: &mut W,
    map: Players,
    operation: Operation,
) -> Result<Option<Player>, Stop> {
    match operation {
        Operation::Insert(n, player) => map.insert(tx, n.to_string(), player),
        Operation::Regroup(n) => map.update(tx, n.to_string(), |[s, group]| [s, group + 1]),
        Operation::Remove(n) => map.remove(tx, n.to_string()),
        Operation::Rebuild => map.rebuild_step(tx, 40).map(|_| None),
    }
}

fn apply(model: &mut Model<String, Player>, operation: Operation) -> Option<Player> {
    match operation {
        Operation::Insert(n, player) => model.insert(n.to_string(), player),
        Operation::Regroup(n) => model.get_mut(&n.to_string()).map(|player| {
            player[1] += 1;
            *player
        }),
        Operation::Remove(n) => model.remove(&n.to_string()),
        Operation::Rebuild => None,
    }
}

/// Runs two transactions on one state, as under snapshot isolation, and commits both if they write
/// no object in common. The indexes must then have exactly the entries of the records.
#[test]
fn concurrent_changes_and_rebuilds_are_serializable() {
    let mut below = random_below();
    let mut mock = Mock::new(256 << 20);
    let mut map: Players = mock.transact(IndexedMap::create).unwrap();
    let mut model = Model::new();
    let (mut conflicts, mut both, mut rebuilds) = (0, 0, 0);
    for trial in 0..900 {
        if trial % 12 == 0 {
            map = mock.transact(|tx| map.with_indexes(tx)).unwrap();
        }
        let mut operation = |n| match below(8) {
            0..=2 => Operation::Insert(n, [below(9) as u16, below(5) as u16]),
            3 | 4 => Operation::Regroup(n),
            5 | 6 => Operation::Remove(n),
            _ => Operation::Rebuild,
        };
        let (n, apart) = (trial * 7919 % 500, [0, 1, 90, 200][trial as usize % 4]);
        let (a, b) = (operation(n), operation((n + apart) % 500));
        let (of_a, trace_a) = trace(&mut mock, 0, |tx| run(tx, map, a));
        let (of_b, trace_b) = trace(&mut mock, APART, |tx| run(tx, map, b));
        commit(&mut mock, 0, &trace_a);
        assert_eq!(of_a, apply(&mut model, a));
        if trace_a.writes.is_disjoint(&trace_b.writes) {
            both += 1;
            rebuilds +=
                usize::from(matches!((a, b), (Operation::Rebuild, _) | (_, Operation::Rebuild)));
            commit(&mut mock, APART - taken(&trace_a), &trace_b);
            assert_eq!(of_b, apply(&mut model, b), "trial {trial}: {a:?} and {b:?}");
        } else {
            conflicts += 1;
        }
        if trial % 12 == 11 {
            while !mock.transact(|tx| map.rebuild_step(tx, 100)).unwrap() {}
            sound(&mock.transact(|tx| map.check(tx)).unwrap(), model.len());
        }
    }
    assert!(conflicts > 100 && both > 200 && rebuilds > 20, "{conflicts}, {both}, {rebuilds}");
}

/// Returns a map of 300 equal players.
fn equal_players() -> (Mock, Players) {
    let mut mock = Mock::new(8 << 20);
    let map: Players = mock.transact(IndexedMap::create).unwrap();
    for n in 0..300_u16 {
        mock.transact(|tx| map.insert(tx, n.to_string(), [1, 1])).unwrap();
    }
    (mock, map)
}

#[test]
fn absent_key_is_protected() {
    let (mut mock, map) = equal_players();
    let insert = |tx: &mut Recorder<'_>| map.insert(tx, "x", [1, 1]);
    assert!(conflict(&mut mock, |tx| map.remove(tx, "x"), insert));
    assert!(conflict(&mut mock, |tx| map.update(tx, "x", |player| player), insert));
}

#[test]
fn changes_without_effect_conflict() {
    let (mut mock, map) = equal_players();
    // Neither changes an entry.
    let same = |tx: &mut Recorder<'_>| map.update(tx, "7", |player| player);
    let other = |tx: &mut Recorder<'_>| map.update(tx, "7", |[score, _]| [score, 6]);
    assert!(conflict(&mut mock, same, other));
    assert!(conflict(&mut mock, |tx| map.entry(tx, "7")?.or_insert([0, 0]), same));
    // A step of a rebuild, and a removal of an entry that it inserts.
    let map: Players = mock.transact(|tx| map.with_indexes(tx)).unwrap();
    let regroup = |tx: &mut Recorder<'_>| map.update(tx, "7", |[score, group]| [score, group + 1]);
    assert!(conflict(&mut mock, |tx| map.rebuild_step(tx, 1000), regroup));
    assert!(conflict(&mut mock, |tx| map.rebuild_step(tx, 1000), |tx| map.rebuild_step(tx, 10)));
}

#[test]
fn check_finds_inconsistent_entries() {
    let mut mock = Mock::new(8 << 20);
    let map: Players = mock.transact(IndexedMap::create).unwrap();
    for n in 0..200_u16 {
        mock.transact(|tx| map.insert(tx, n.to_string(), [n, n])).unwrap();
    }
    let records = mock.transact(|tx| map.records(tx)).unwrap();
    // Three records: one not indexed, one still indexed after its removal, one whose score
    // changed.
    mock.transact(|tx| records.put(tx, "x", [1, 1])).unwrap();
    mock.transact(|tx| records.delete(tx, "7")).unwrap();
    mock.transact(|tx| records.put(tx, "11", [12, 16])).unwrap();
    let damage = mock.transact(|tx| map.check(tx)).unwrap().damage;
    let count = |is: fn(&Damage) -> Option<usize>, at| {
        damage.iter().filter(|damage| is(damage) == Some(at)).count()
    };
    let missing = |damage: &Damage| match damage {
        Damage::Missing { index, .. } => Some(*index),
        _ => None,
    };
    let stray = |damage: &Damage| match damage {
        Damage::Stray { index, .. } => Some(*index),
        _ => None,
    };
    assert_eq!([0, 1, 2].map(|at| count(missing, at)), [2, 1, 2], "{damage:?}");
    assert_eq!([0, 1, 2].map(|at| count(stray, at)), [2, 1, 2], "{damage:?}");
    assert!(damage[0].to_string().starts_with("index 0: expected entry ["), "{}", damage[0]);
    let dangling = mock.transact(|tx| map.by(ByScore).get(7).first(tx)).unwrap_err();
    assert_eq!(dangling.stop, Stop::BadValue);
    mock.transact(|tx| map.reset_indexes(tx)).unwrap();
    assert!(mock.transact(|tx| map.is_rebuilding(tx)).unwrap());
    while !mock.transact(|tx| map.rebuild_step(tx, 70)).unwrap() {}
    sound(&mock.transact(|tx| map.check(tx)).unwrap(), 200);
    assert!(!mock.transact(|tx| map.is_rebuilding(tx)).unwrap());
}

#[test]
fn damaged_index_is_replaced() {
    let mut mock = Mock::forgiving(8 << 20);
    let map: Players = mock.transact(IndexedMap::create).unwrap();
    for n in 0..200_u16 {
        mock.transact(|tx| map.insert(tx, n.to_string(), [n, n])).unwrap();
    }
    // The header of the first index, behind the three words of the map, leads nowhere.
    let header = map.as_bytes().try_into().map(u64::from_ne_bytes).unwrap();
    let index = mock.transact(|tx| tx.read(Addr::new(header, 24))).unwrap();
    mock.transact(|tx| tx.write(Addr::new(index, 0), u64::MAX)).unwrap();
    assert!(mock.transact(|tx| map.by(ByScore).last(tx)).is_err());
    mock.transact(|tx| map.reset_indexes(tx)).unwrap();
    let mut steps = 0;
    while mock.transact(|tx| map.rebuild_step(tx, 70)).is_ok_and(|is_complete| !is_complete) {
        steps += 1;
        assert!(steps < 100, "the rebuild ends");
    }
    // All but the damaged index is freed.
    assert!(mock.transact(|tx| map.rebuild_step(tx, 70)).is_err());
    mock.transact(|tx| map.leak_replaced(tx)).unwrap();
    assert!(mock.transact(|tx| map.rebuild_step(tx, 70)).unwrap());
    sound(&mock.transact(|tx| map.check(tx)).unwrap(), 200);
}

#[test]
fn rebuild_conflicts_with_changes_from_before_it() {
    type Change = fn(&mut Recorder<'_>, Players) -> Result<(), Stop>;
    let changes: [Change; 3] = [
        |tx, map| map.update(tx, "7", |[score, group]| [score, group + 1]).map(drop),
        |tx, map| map.insert(tx, "new", [1, 1]).map(drop),
        |tx, map| map.remove(tx, "9").map(drop),
    ];
    for change in changes {
        let (mut mock, map) = equal_players();
        let (_, before) = trace(&mut mock, APART, |tx| change(tx, map));
        let map: Players = mock.transact(|tx| map.with_indexes(tx)).unwrap();
        let (_, step) = trace(&mut mock, 0, |tx| map.rebuild_step(tx, 1000));
        assert!(!before.writes.is_disjoint(&step.writes));
    }
}

struct BySum;
impl Index<str, u32> for BySum {
    type Key = u32;
    fn key(_: &String, sum: &u32) -> Option<u32> {
        Some(*sum)
    }
}

#[test]
fn converted_map_has_its_new_indexes() {
    type Sums = IndexedMap<str, u32, (BySum,)>;
    let mut mock = Mock::new(8 << 20);
    let opened = mock.transact(|tx| catalog::open::<Players, _>(tx, "players")).unwrap();
    let Opened::Created(players) = opened else { panic!("it is new") };
    for n in 0..200_u16 {
        mock.transact(|tx| players.insert(tx, n.to_string(), [n, 3])).unwrap();
    }
    let mut sum = |[score, group]: Player| u32::from(score + group);
    let sums = loop {
        let step = mock
            .transact(|tx| catalog::convert_step::<Players, Sums, _>(tx, "players", 30, &mut sum));
        match step.unwrap() {
            Converted::Unfinished => {}
            Converted::Finished(sums) => break sums,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(mock.transact(|tx| sums.by(BySum).last(tx)).unwrap(), Some(("199".into(), 202)));
    let checked = mock.transact(|tx| sums.check(tx)).unwrap();
    assert_eq!((checked.records, checked.damage), (200, vec![]));
    let left = mock.objects();
    mock.transact(|tx| catalog::remove::<Sums, _>(tx, "players")?.expect("it is there").free(tx))
        .unwrap();
    assert!(mock.objects() < left && mock.objects() < 10, "{}", mock.objects());
}

/// Counts a result, which is a value or a known [`Stop`].
fn count<R: Debug>(refused: &mut u64, result: Result<R, Refused>) {
    if let Err(Refused { stop }) = result {
        let known = [Stop::BadValue, Stop::BadPointer, Stop::BadSize, Stop::BadRange];
        assert!(known.contains(&stop), "{stop}");
        *refused += 1;
    }
}

#[test]
fn damaged_map_never_hangs_or_panics() {
    let (mut refused, mut found) = (0, 0);
    let mut below = random_below();
    for round in 0..60_u64 {
        let mut mock = Mock::forgiving(1 << 20);
        let mut map: Players = mock.transact(IndexedMap::create).unwrap();
        for n in 0..120_u16 {
            mock.transact(|tx| map.insert(tx, n.to_string(), [n, n])).unwrap();
        }
        if round % 2 == 0 {
            map = mock.transact(|tx| map.with_indexes(tx)).unwrap();
            mock.transact(|tx| map.rebuild_step(tx, 50)).unwrap();
        }
        let live = mock.live();
        // The header and the nodes, and their first words, in most cases.
        let large: Vec<_> = live.iter().filter(|(_, bytes)| *bytes > 40).collect();
        for _ in 0..1 + below(3) {
            let &(object, bytes) = large[below(large.len() as u64) as usize];
            let end = bytes.div_ceil(8).min(1 + below(20));
            let at = Addr::new(object, 8 * below(end));
            let other = live[below(live.len() as u64) as usize].0;
            let value = [other, below(300), below(u64::MAX), 0][below(4) as usize];
            mock.transact(|tx| tx.write(at, value)).unwrap();
        }
        let checked = mock.transact(|tx| map.check(tx));
        found += u64::from(!matches!(checked, Ok(checked) if checked.damage.is_empty()));
        for _ in 0..20 {
            let (n, score) = (below(150).to_string(), below(150) as u16);
            count(&mut refused, mock.transact(|tx| map.insert(tx, &n, [score, score])));
            count(&mut refused, mock.transact(|tx| map.remove(tx, &n)));
            count(&mut refused, mock.transact(|tx| map.update(tx, &n, |[s, g]| [g, s])));
            count(&mut refused, mock.transact(|tx| map.by(ByBoth).get(("a", score)).first(tx)));
        }
        count(&mut refused, mock.transact(|tx| map.by(ByGroup).range(..).rev().collect(tx)));
        count(&mut refused, mock.transact(|tx| map.by(ByScore).range(..9).remove_step(tx, 5)));
        let ends = |_| !matches!(mock.transact(|tx| map.rebuild_step(tx, 20)), Ok(false));
        assert!((0..100).any(ends), "a rebuild ends");
        count(&mut refused, mock.transact(|tx| map.with_indexes::<(ByGroup,), _>(tx)?.free(tx)));
    }
    assert!(refused > 60 && found > 30, "{refused} refused, {found} found");
}
