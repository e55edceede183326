//! The interface of the ordered map and set: ranges, prefixes, cursors, entries, bounded steps.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet as Model;

use collections::btree_map::Range;
use collections::{BTreeMap, BTreeSet, Key, Value};
use proptest::prelude::*;
use words::mock::Mock;
use words::{Objects, Ptr, Stop, Transact};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

fn keys<K: Key + ?Sized, V: Value + ?Sized>(mock: &mut Mock, range: &Range<K, V>) -> Vec<K::Owned> {
    mock.transact(|tx| Ok(range.collect(tx)?.into_iter().map(|(key, _)| key).collect())).unwrap()
}

/// Changes that a step of the cursor test does between two pages.
#[derive(Clone, Copy, Debug)]
enum Between {
    Insert(u64, u64),
    Remove(u64, u64),
    Clear,
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        8 => (0..4000_u64, 0..200_u64).prop_map(|(from, n)| Between::Insert(from, n)),
        8 => (0..4000_u64, 0..400_u64).prop_map(|(from, n)| Between::Remove(from, n)),
        1 => Just(Between::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40, failure_persistence: None, ..Default::default()
    })]

    /// Keys that are there from the first page to the last are given once each, in order. Others
    /// are given at most once.
    #[test]
    fn cursor_survives_splits_joins_and_clears(
        changes in proptest::collection::vec(between(), 5..60),
        page in 1..60_usize,
        is_reverse: bool,
    ) {
        let mut mock = Mock::new(32 << 20);
        let name = |n: u64| format!("cursor:{n:05}");
        let map: BTreeMap<str, u64> = mock.transact(BTreeMap::create).unwrap();
        let mut model: Model<u64> = (0..4000).step_by(3).collect();
        mock.transact(|tx| map.extend(tx, model.iter().map(|&n| (name(n), n)))).unwrap();
        let (mut always, mut ever) = (model.clone(), model.clone());
        let mut seen: Vec<u64> = Vec::new();
        let mut changes = changes.into_iter();
        let all = map.range(name(100)..=name(3900));
        let mut cursor = Some(if is_reverse { all.rev() } else { all });
        while let Some(range) = cursor {
            let (pairs, rest) = mock.transact(|tx| range.page(tx, page)).unwrap();
            prop_assert!(pairs.len() <= page);
            prop_assert!(rest.is_some() || pairs.len() < page);
            for (key, value) in pairs {
                prop_assert_eq!(&key, &name(value));
                prop_assert!(model.contains(&value));
                seen.push(value);
            }
            cursor = rest;
            let change = changes.next();
            mock.transact(|tx| match change {
                None => Ok(()),
                Some(Between::Insert(from, n)) => {
                    map.extend(tx, (from..from + n).map(|n| (name(n), n)))
                }
                Some(Between::Remove(from, n)) => {
                    map.range(name(from)..name(from + n)).remove_step(tx, 1000).map(drop)
                }
                Some(Between::Clear) => map.clear(tx),
            }).unwrap();
            match change {
                None => {}
                Some(Between::Insert(from, n)) => {
                    model.extend(from..from + n);
                    ever.extend(from..from + n);
                }
                Some(Between::Remove(from, n)) => model.retain(|k| !(from..from + n).contains(k)),
                Some(Between::Clear) => model.clear(),
            }
            always.retain(|n| model.contains(n));
        }
        let ascends = |a: &u64, b: &u64| if is_reverse { a > b } else { a < b };
        prop_assert!(seen.is_sorted_by(ascends), "{:?}", seen);
        let seen: Model<u64> = seen.into_iter().collect();
        let inside = |n: &u64| (100..=3900).contains(n);
        prop_assert!(always.into_iter().filter(inside).all(|n| seen.contains(&n)));
        prop_assert!(seen.iter().all(|n| ever.contains(n) && inside(n)));
    }
}

#[test]
fn ranges_of_std_are_bounds() {
    let mut mock = Mock::new(1 << 20);
    let map: BTreeMap<i32, ()> = mock.transact(BTreeMap::create).unwrap();
    assert_eq!(keys(&mut mock, &map.range(..)), [], "an empty map");
    mock.transact(|tx| map.extend(tx, (-3..=3).map(|n| (n, ())))).unwrap();
    assert_eq!(keys(&mut mock, &map.range(..)), [-3, -2, -1, 0, 1, 2, 3]);
    assert_eq!(keys(&mut mock, &map.range(-1..2)), [-1, 0, 1]);
    assert_eq!(keys(&mut mock, &map.range(-1..=2)), [-1, 0, 1, 2]);
    assert_eq!(keys(&mut mock, &map.range(2..)), [2, 3]);
    assert_eq!(keys(&mut mock, &map.range(..&-2)), [-3]);
    assert_eq!(keys(&mut mock, &map.range(..=-2).rev()), [-2, -3]);
    #[allow(clippy::reversed_empty_ranges, reason = "that is tested")]
    let reversed = map.range(2..-2);
    assert_eq!(keys(&mut mock, &reversed), []);
    assert_eq!(keys(&mut mock, &reversed.rev()), []);
    let names: BTreeMap<str, ()> = mock.transact(BTreeMap::create).unwrap();
    mock.transact(|tx| names.extend(tx, ["ann", "bob", "cid"].map(|name| (name, ())))).unwrap();
    assert_eq!(keys(&mut mock, &names.range("b"..)), ["bob", "cid"]);
    assert_eq!(keys(&mut mock, &names.range("ann".to_owned()..="bob".to_owned())), ["ann", "bob"]);
}

#[test]
fn prefixes_end_where_the_next_begins() {
    let mut mock = Mock::new(1 << 20);
    let names: BTreeMap<str, ()> = mock.transact(BTreeMap::create).unwrap();
    let all = ["", "a", "a\0", "ab", "abc", "b", "\u{10ffff}", "\u{10ffff}z"];
    mock.transact(|tx| names.extend(tx, all.map(|name| (name, ())))).unwrap();
    assert_eq!(keys(&mut mock, &names.prefix("")), all);
    assert_eq!(keys(&mut mock, &names.prefix("a")), ["a", "a\0", "ab", "abc"]);
    assert_eq!(keys(&mut mock, &names.prefix("ab".to_owned()).rev()), ["abc", "ab"]);
    assert_eq!(keys(&mut mock, &names.prefix("\u{10ffff}")), ["\u{10ffff}", "\u{10ffff}z"]);
    assert_eq!(keys(&mut mock, &names.prefix("x")), [""; 0]);

    let bytes: BTreeMap<[u8], ()> = mock.transact(BTreeMap::create).unwrap();
    mock.transact(|tx| bytes.extend(tx, [[0xff, 0xff], [0xff, 0], [0xfe, 9]].map(|key| (key, ()))))
        .unwrap();
    assert_eq!(keys(&mut mock, &bytes.prefix([0xff])), [[0xff, 0], [0xff, 0xff]]);
    assert_eq!(keys(&mut mock, &bytes.prefix([0xff, 0xff])), [[0xff, 0xff]]);

    type Post = (String, u32, u8);
    let posts: BTreeMap<Post, ()> = mock.transact(BTreeMap::create).unwrap();
    let all = [("ann", 1, 2), ("ann", 1, 3), ("ann", 2, 0), ("ann\0", 1, 1), ("anna", 1, 1)];
    mock.transact(|tx| posts.extend(tx, all.map(|post| (post, ())))).unwrap();
    let expected = |range: std::ops::Range<usize>| -> Vec<Post> {
        all[range].iter().map(|&(name, a, b)| (name.to_owned(), a, b)).collect()
    };
    assert_eq!(keys(&mut mock, &posts.prefix(("ann",))), expected(0..3));
    assert_eq!(keys(&mut mock, &posts.prefix(("ann", 1))), expected(0..2));
    assert_eq!(keys(&mut mock, &posts.prefix(("ann\0".to_owned(),))), expected(3..4));
    let odd: BTreeMap<(bool, u8), ()> = mock.transact(BTreeMap::create).unwrap();
    mock.transact(|tx| odd.extend(tx, [(true, 0), (false, 255), (true, 255)].map(|k| (k, ()))))
        .unwrap();
    assert_eq!(keys(&mut mock, &odd.prefix((true,))), [(true, 0), (true, 255)]);
}

#[test]
fn prefix_is_removed_in_steps() {
    let mut mock = Mock::new(1 << 20);
    let map: BTreeMap<(u32, u32), [u8; 50]> = mock.transact(BTreeMap::create).unwrap();
    for a in 0..5_u32 {
        for b in 0..100_u32 {
            mock.transact(|tx| map.put(tx, (a, b), [0; 50])).unwrap();
        }
    }
    let doomed = map.prefix((3,));
    let mut steps = 1;
    while !mock.transact(|tx| doomed.remove_step(tx, 30)).unwrap() {
        steps += 1;
    }
    assert_eq!(steps, 4);
    assert_eq!(mock.transact(|tx| map.len(tx)).unwrap(), 400);
    assert_eq!(mock.transact(|tx| doomed.first(tx)).unwrap(), None);
    assert_eq!(mock.transact(|tx| map.check(tx)).unwrap().damage, []);
}

#[test]
fn map_is_a_field_and_a_value() {
    #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    struct Shop {
        stock: BTreeMap<str, u64>,
        open: BTreeSet<u64>,
    }
    let mut mock = Mock::new(1 << 20);
    let shop: Ptr<Shop> = mock
        .transact(|tx| {
            let shop = Shop { stock: BTreeMap::create(tx)?, open: BTreeSet::create(tx)? };
            tx.alloc(shop)
        })
        .unwrap();
    mock.transact(|tx| {
        let Shop { stock, open } = tx.get(shop)?;
        stock.insert(tx, "tea", 7)?;
        open.insert(tx, 20261128)
    })
    .unwrap();
    let shops: BTreeMap<str, Shop> = mock.transact(BTreeMap::create).unwrap();
    mock.transact(|tx| {
        let shop = tx.get(shop)?;
        shops.insert(tx, "corner", shop).map(drop)
    })
    .unwrap();
    let found = mock.transact(|tx| {
        let shop = shops.get(tx, "corner")?.ok_or(Stop::BadValue)?;
        Ok((shop.stock.get(tx, "tea")?, shop.open.contains(tx, 20261128)?))
    });
    assert_eq!(found.unwrap(), (Some(7), true));
}

#[test]
fn entry_reads_and_changes_in_one_search() {
    let mut mock = Mock::new(1 << 20);
    let map: BTreeMap<str, u64> = mock.transact(BTreeMap::create).unwrap();
    mock.transact(|tx| {
        let mut entry = map.entry(tx, "a")?;
        assert_eq!(
            (entry.is_occupied(), entry.get()?, entry.key()?),
            (false, None, "a".to_owned())
        );
        assert_eq!(entry.insert(5)?, None);
        assert_eq!(map.entry(tx, "a")?.insert(6)?, Some(5));
        assert_eq!(map.entry(tx, "a")?.or_insert_with(|| -> u64 { unreachable!() })?, 6);
        assert_eq!(map.entry(tx, "b")?.or_default()?, 0);
        assert_eq!(map.entry(tx, "b")?.and_modify(|n| n + 9)?.or_insert(1)?, 9);
        assert_eq!(map.entry(tx, "c")?.and_modify(|n| n + 9)?.or_insert(1)?, 1);
        assert_eq!(map.entry(tx, "c")?.remove()?, Some(1));
        assert_eq!(map.entry(tx, "c")?.remove()?, None);
        assert_eq!(map.get_with(tx, "b", |bytes| bytes.len())?, Some(8));
        assert_eq!(map.len(tx)?, 2);
        Ok(())
    })
    .unwrap();
}

#[test]
fn set_orders_its_keys() {
    let mut mock = Mock::new(1 << 20);
    let set: BTreeSet<str> = mock.transact(BTreeSet::create).unwrap();
    mock.transact(|tx| {
        set.extend(tx, ["pear", "apple", "fig", "plum", "apple"])?;
        assert_eq!(set.len(tx)?, 4);
        assert_eq!(set.range(..).collect(tx)?, ["apple", "fig", "pear", "plum"]);
        assert_eq!(set.prefix("p").rev().collect(tx)?, ["plum", "pear"]);
        assert_eq!((set.first(tx)?, set.last(tx)?), (Some("apple".into()), Some("plum".into())));
        assert_eq!(set.range("b"..).first(tx)?.as_deref(), Some("fig"));
        let (page, rest) = set.range(..).page(tx, 3)?;
        assert_eq!((page.len(), rest.unwrap().collect(tx)?), (3, vec!["plum".to_owned()]));
        assert!(set.remove(tx, "fig")? && !set.remove(tx, "fig")?);
        set.retain(tx, |key| key != "pear")?;
        assert_eq!(set.pop_first(tx)?.as_deref(), Some("apple"));
        assert_eq!(set.pop_last(tx)?.as_deref(), Some("plum"));
        assert_eq!((set.pop_last(tx)?, set.is_empty(tx)?), (None, true));
        assert_eq!(set.check(tx)?.damage, []);
        set.clear(tx)?;
        assert!(set.drop_step(tx, 1)?);
        Ok(())
    })
    .unwrap();
    assert_eq!(mock.objects(), 0);
}

#[test]
fn clearing_continues_after_a_restart() {
    let mut mock = Mock::new(16 << 20);
    let map: BTreeMap<u64, str> = mock.transact(BTreeMap::create).unwrap();
    for n in 0..3000_u64 {
        mock.transact(|tx| map.put(tx, n * 7919 % 3001, "a value of some length")).unwrap();
    }
    let objects = mock.objects();
    assert!(!mock.transact(|tx| map.clear_step(tx, 10)).unwrap());
    assert!(objects - mock.objects() <= 10 + 2 + 9, "10 entries, a leaf, the length's stripes");
    assert_eq!(mock.transact(|tx| Ok((map.len(tx)?, map.first(tx)?))).unwrap(), (0, None));
    // A conflict in a step undoes the step and no more.
    mock.conflict_after(50);
    assert!(!mock.transact(|tx| map.clear_step(tx, 10)).unwrap());
    assert!(!mock.take_conflict());
    mock.transact(|tx| map.put(tx, 5, "between the steps")).unwrap();
    assert_eq!(mock.transact(|tx| map.len(tx)).unwrap(), 1);
    let checked = mock.transact(|tx| map.check(tx)).unwrap();
    assert_eq!((checked.entries, checked.pending, checked.damage), (1, 2980, vec![]));
    let mut steps = 2;
    while !mock.transact(|tx| map.clear_step(tx, 10)).unwrap() {
        steps += 1;
    }
    assert!((299..=302).contains(&steps), "{steps}");
    assert_eq!(mock.objects(), 1);
    assert!(mock.transact(|tx| map.drop_step(tx, 10)).unwrap());
    assert_eq!(mock.objects(), 0);
}

#[test]
fn full_heap_is_a_stop() {
    let mut mock = Mock::new(1 << 16);
    let map: BTreeMap<u64, [u8; 200]> = mock.transact(BTreeMap::create).unwrap();
    let mut n = 0;
    let stop = loop {
        match mock.transact(|tx| map.insert(tx, n, [1; 200])) {
            Ok(_) => n += 1,
            Err(refused) => break refused.stop,
        }
    };
    assert_eq!(stop, Stop::Full);
    assert!(n > 200);
    assert_eq!(mock.transact(|tx| map.check(tx)).unwrap().entries, n);
    while mock.transact(|tx| map.pop_first(tx)).unwrap().is_some() {}
    assert_eq!(mock.transact(|tx| map.len(tx)).unwrap(), 0);
}
