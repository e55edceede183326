//! Property tests of operation sequences, shrunk to the shortest failure, and longer model runs.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap as StdTree;
use std::ops::ControlFlow;

use collections::raw::{
    BTree, BTreeMap, ChainedMap, ChainedTable, HashMap, Inserted, model, whole,
};
use proptest::prelude::*;
use words::mock::Mock;
use words::{Allocate, Stop, Transact};

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
    Range(u64, u64),
}

fn op(keys: u64) -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..keys, any::<u64>()).prop_map(|(key, value)| Op::Insert(key, value)),
        3 => (0..keys).prop_map(Op::Remove),
        1 => (0..keys).prop_map(Op::Get),
        1 => (0..keys, 0..keys).prop_map(|(from, to)| Op::Range(from, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hash_map_matches_std(ops in prop::collection::vec(op(24), 0..120)) {
        let mut mock = Mock::new(1 << 14);
        let map = mock.transact(|tx| HashMap::create(tx, 16)).unwrap();
        let mut expected = StdTree::new();
        for op in ops {
            match op {
                Op::Insert(key, value) => {
                    let full = key != 0
                        && !expected.contains_key(&key)
                        && expected.keys().filter(|&&key| key != 0).count() == 16;
                    let done = mock.transact(|tx| map.insert(tx, key, value)).unwrap();
                    prop_assert_eq!(done == Inserted::Full, full);
                    if !full {
                        expected.insert(key, value);
                    }
                }
                Op::Remove(key) => {
                    let found = mock.transact(|tx| map.remove(tx, key)).unwrap();
                    prop_assert_eq!(found, expected.remove(&key));
                }
                Op::Get(key) | Op::Range(key, _) => {
                    let found = mock.transact(|tx| map.get(tx, key)).unwrap();
                    prop_assert_eq!(found, expected.get(&key).copied());
                }
            }
            let checked = whole(&mut mock, |tx, from| map.check(tx, from, 5)).unwrap();
            prop_assert_eq!(checked.damage, []);
            prop_assert_eq!(checked.entries, expected.len() as u64);
        }
    }

    #[test]
    fn chained_map_matches_std(ops in prop::collection::vec(op(300), 0..300)) {
        let mut mock = Mock::new(1 << 16);
        let map = mock.transact(|tx| ChainedMap::create(tx, 32)).unwrap();
        let mut expected = StdTree::new();
        for op in ops {
            match op {
                Op::Insert(key, value) => {
                    let found = mock.transact(|tx| map.insert(tx, key, value)).unwrap();
                    prop_assert_eq!(found, expected.insert(key, value));
                }
                Op::Remove(key) => {
                    let found = mock.transact(|tx| map.remove(tx, key)).unwrap();
                    prop_assert_eq!(found, expected.remove(&key));
                }
                Op::Get(key) | Op::Range(key, _) => {
                    let found = mock.transact(|tx| map.get(tx, key)).unwrap();
                    prop_assert_eq!(found, expected.get(&key).copied());
                }
            }
            prop_assert_eq!(mock.objects(), 1 + expected.len());
        }
        let checked = whole(&mut mock, |tx, from| map.check(tx, from, 5)).unwrap();
        prop_assert_eq!(checked.damage, []);
        prop_assert_eq!(checked.entries, expected.len() as u64);
    }

    #[test]
    fn chained_table_matches_std(
        chains in 1..20_u64,
        ops in prop::collection::vec(op(300), 0..300),
    ) {
        let mut mock = Mock::new(1 << 16);
        let table = mock.transact(|tx| {
            let table = ChainedTable::<3>::reserve(tx, chains)?;
            assert!(table.prepare(tx, 1)?);
            Ok(table)
        });
        let (table, mut expected) = (table.unwrap(), StdTree::new());
        for op in ops {
            match op {
                Op::Insert(key, value) => {
                    let value = [value, key, !value];
                    let new = mock.transact(|tx| table.insert(tx, key, &value)).unwrap();
                    prop_assert_eq!(new, expected.insert(key, value).is_none());
                }
                Op::Remove(key) => {
                    let found = mock.transact(|tx| table.remove(tx, key)).unwrap();
                    prop_assert_eq!(found, expected.remove(&key));
                }
                Op::Get(key) | Op::Range(key, _) => {
                    let found = mock.transact(|tx| table.get(tx, key)).unwrap();
                    prop_assert_eq!(found, expected.get(&key).copied());
                }
            }
            prop_assert_eq!(mock.objects(), 1 + expected.len());
        }
        let checked = whole(&mut mock, |tx, from| table.check(tx, from, 3)).unwrap();
        prop_assert_eq!((checked.damage, checked.entries), (vec![], expected.len() as u64));
        let (mut found, mut from) = (StdTree::new(), Some(0));
        while let Some(chain) = from {
            let visit = |tx: &mut Mock| table.scan(tx, chain, 2, |key, value| {
                found.insert(key, *value);
            });
            from = mock.transact(visit).unwrap();
        }
        prop_assert_eq!(found, expected);
        let mut from = Some(0);
        while let Some(chain) = from {
            from = mock.transact(|tx| table.free(tx, chain, 7)).unwrap();
        }
        prop_assert_eq!(mock.objects(), 0);
    }

    #[test]
    fn btree_matches_std(ops in prop::collection::vec(op(300), 0..600)) {
        tree_matches_std::<15>(&ops)?;
        tree_matches_std::<28>(&ops)?;
        tree_matches_std::<31>(&ops)?;
    }
}

fn tree_matches_std<const SLOTS: usize>(ops: &[Op]) -> Result<(), TestCaseError> {
    let mut mock = Mock::new(1 << 18);
    let tree = mock.transact(BTree::<SLOTS>::create).unwrap();
    let mut expected = StdTree::new();
    for op in ops.iter().cloned() {
        match op {
            Op::Insert(key, value) => {
                let found = mock.transact(|tx| tree.insert(tx, key, value)).unwrap();
                prop_assert_eq!(found, expected.insert(key, value));
            }
            Op::Remove(key) => {
                let found = mock.transact(|tx| tree.remove(tx, key)).unwrap();
                prop_assert_eq!(found, expected.remove(&key));
            }
            Op::Get(key) => {
                let found = mock.transact(|tx| tree.get(tx, key)).unwrap();
                prop_assert_eq!(found, expected.get(&key).copied());
            }
            Op::Range(a, b) => {
                let bounds = a.min(b)..a.max(b);
                let found = mock.transact(|tx| {
                    let mut keys = Vec::new();
                    tree.range(tx, bounds.clone(), |key, _| {
                        keys.push(key);
                        ControlFlow::Continue(())
                    })?;
                    Ok(keys)
                });
                let keys: Vec<u64> = expected.range(bounds).map(|(&key, _)| key).collect();
                prop_assert_eq!(found.unwrap(), keys);
            }
        }
    }
    let checked = whole(&mut mock, |tx, from| tree.check(tx, from, 2)).unwrap();
    prop_assert_eq!(checked.damage, []);
    prop_assert_eq!(checked.entries, expected.len() as u64);
    Ok(())
}

#[test]
fn model_runs_leave_no_garbage() {
    let mut mock = Mock::new(1 << 26);
    for seed in 0..8 {
        model::hash_map(&mut mock, seed, 3000).unwrap();
        model::chained_map(&mut mock, seed, 3000).unwrap();
        model::btree_map(&mut mock, seed, 6000).unwrap();
        model::rb_tree(&mut mock, seed, 6000).unwrap();
        model::queue(&mut mock, seed, 3000).unwrap();
        assert_eq!(mock.objects(), 0, "seed {seed}");
        assert_eq!(mock.transact(|tx| tx.root()).unwrap(), 0, "seed {seed}");
    }
}

#[test]
fn btree_shrinks_to_an_empty_root() {
    shrinks::<7>();
    shrinks::<15>();
    shrinks::<28>();
    shrinks::<31>();
}

fn shrinks<const SLOTS: usize>() {
    let mut mock = Mock::new(1 << 24);
    let tree = mock.transact(BTree::<SLOTS>::create).unwrap();
    let keys: Vec<u64> = (0..3000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    for &key in &keys {
        mock.transact(|tx| tree.insert(tx, key, !key)).unwrap();
    }
    assert!(mock.objects() > 28 * 3, "three levels");
    for (i, &key) in keys.iter().enumerate() {
        assert_eq!(mock.transact(|tx| tree.remove(tx, key)).unwrap(), Some(!key));
        if i % 97 == 0 {
            let checked = whole(&mut mock, |tx, from| tree.check(tx, from, 20)).unwrap();
            assert_eq!((checked.entries, checked.damage), (2999 - i as u64, vec![]));
        }
    }
    assert_eq!(mock.objects(), 1);
}

#[test]
fn ascending_keys_fill_nodes_to_two_thirds() {
    let mut mock = Mock::new(1 << 22);
    let tree = mock.transact(BTreeMap::create).unwrap();
    for key in 0..1900 {
        mock.transact(|tx| tree.insert(tx, key, key)).unwrap();
    }
    assert!(mock.objects() < 1900 / 17, "{} nodes", mock.objects());
    let checked = whole(&mut mock, |tx, from| tree.check(tx, from, 7)).unwrap();
    assert_eq!((checked.entries, checked.damage), (1900, vec![]));
}

#[test]
fn large_hash_map_is_prepared_in_steps() {
    let mut mock = Mock::new(1 << 20);
    let map = mock.transact(|tx| HashMap::reserve(tx, 1000, 77)).unwrap();
    assert_eq!(map.capacity(), 1024);
    let mut steps = 1;
    while !mock.transact(|tx| map.prepare(tx, 10)).unwrap() {
        steps += 1;
    }
    assert_eq!(steps, 7);
    for key in 0..=1024 {
        assert_eq!(mock.transact(|tx| map.insert(tx, key, key)).unwrap(), Inserted::New);
    }
    assert_eq!(mock.transact(|tx| map.insert(tx, 5000, 0)).unwrap(), Inserted::Full);
    assert_eq!(mock.transact(|tx| map.insert(tx, 5, 6)).unwrap(), Inserted::Replaced(5));
    assert_eq!(mock.transact(|tx| map.get(tx, 5000)).unwrap(), None);
    for key in 0..=1024 {
        let expected = if key == 5 { 6 } else { key };
        assert_eq!(mock.transact(|tx| map.remove(tx, key)).unwrap(), Some(expected));
    }
    let checked = whole(&mut mock, |tx, from| map.check(tx, from, 100)).unwrap();
    assert_eq!((checked.entries, checked.damage), (0, vec![]));
}

#[test]
fn large_chained_map_is_prepared_and_freed_in_steps() {
    let mut mock = Mock::new(1 << 20);
    let map = mock.transact(|tx| ChainedMap::reserve(tx, 1000, 77)).unwrap();
    assert_eq!(map.chains(), 1024);
    let mut steps = 1;
    while !mock.transact(|tx| map.prepare(tx, 10)).unwrap() {
        steps += 1;
    }
    assert_eq!(steps, 4);
    for key in 0..4000 {
        assert_eq!(mock.transact(|tx| map.insert(tx, key, key)).unwrap(), None);
    }
    let (mut from, mut steps) = (Some(0), 0);
    while let Some(at) = from {
        let before = mock.objects();
        from = mock.transact(|tx| map.free(tx, at, 100)).unwrap();
        // As after a crash: from the beginning, where all chains are empty.
        from = if steps == 20 { Some(0) } else { from };
        assert!(from.is_none() || before - mock.objects() <= 100);
        steps += 1;
    }
    assert_eq!(mock.objects(), 0);
    assert!(steps > 40, "{steps}");
    let huge = mock.transact(|tx| ChainedMap::reserve(tx, u64::MAX, 0));
    assert_eq!(huge.unwrap_err().stop, Stop::Full);
}

#[test]
fn strided_keys_spread_over_chains() {
    // As many keys as chains: a lookup passes 0.5 entries on average before it finds a key.
    for shift in [0, 1, 4, 8, 16, 20, 24, 32, 43, 51] {
        let mut mock = Mock::new(1 << 20);
        let map = mock.transact(|tx| ChainedMap::create(tx, 2048)).unwrap();
        for i in 1..=2048_u64 {
            mock.transact(|tx| map.insert(tx, i << shift, i)).unwrap();
        }
        let mut passed = 0;
        for i in 1..=2048_u64 {
            mock.transact(|tx| {
                let mut watching = common::Watching::new(tx);
                assert_eq!(map.get(&mut watching, i << shift)?, Some(i));
                // A chain's head; key and link of each entry; the value.
                passed += (watching.read.len() - 4) / 2;
                Ok(())
            })
            .unwrap();
        }
        assert!(passed < 2048, "stride 2^{shift}: {passed} entries passed by 2048 lookups");
    }
}

/// Snapshot isolation ignores reads and detects only writes of one object.
#[test]
fn neighbouring_chain_changes_write_one_object() {
    // 32 chains, some 300 keys. Every second one is present: neighbours come in all kinds.
    let mut mock = Mock::new(1 << 20);
    let map = mock.transact(|tx| ChainedMap::create(tx, 32)).unwrap();
    for key in (0..600).step_by(2) {
        mock.transact(|tx| map.insert(tx, key, key)).unwrap();
    }
    let mut order = Vec::new();
    mock.transact(|tx| map.scan(tx, 0, 32, |key, _| order.push(key))).unwrap();
    let written = |mock: &mut Mock, change: &dyn Fn(&mut common::Watching<'_, Mock>)| {
        let mut written = Vec::new();
        let refused = mock.transact(|tx| {
            let mut watching = common::Watching::new(tx);
            change(&mut watching);
            written = watching.written;
            Err::<(), Stop>(Stop::Aborted) // the map stays unchanged
        });
        assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
        written
    };
    let (mut pairs, mut inserts) = (0, 0);
    for (&key, &behind) in order.iter().zip(&order[1..]) {
        let removed = written(&mut mock, &|tx| {
            let _ = map.remove(tx, key);
        });
        let updated = written(&mut mock, &|tx| {
            let _ = map.update(tx, key, |old| old + 1);
        });
        assert!(updated.iter().any(|object| removed.contains(object)), "{key}: update, removal");
        if key > behind {
            continue; // the next chain begins
        }
        let other = written(&mut mock, &|tx| {
            let _ = map.remove(tx, behind);
        });
        assert!(other.iter().any(|object| removed.contains(object)), "{key}, {behind}: removals");
        pairs += 1;
        // Missing keys that belong between the two.
        for between in (key + 1..behind).step_by(2) {
            let new = written(&mut mock, &|tx| {
                let _ = map.insert(tx, between, 0);
            });
            // An insert elsewhere meets neither. One here meets the removal of the key before it.
            let here = mock.transact(|tx| neighbours(tx, map, between)).unwrap() == (key, behind);
            if here {
                assert!(new.iter().any(|object| removed.contains(object)), "{key}, {between}");
                inserts += 1;
            }
        }
    }
    assert!(pairs > 200 && inserts > 100, "{pairs} pairs, {inserts} inserts");
}

/// Returns the keys before and after a missing key in its chain; the key itself at the ends.
fn neighbours(tx: &mut Mock, map: ChainedMap, key: u64) -> Result<(u64, u64), Stop> {
    map.insert(tx, key, 0)?;
    let mut order = Vec::new();
    map.scan(tx, 0, 32, |key, _| order.push(key))?;
    map.remove(tx, key)?;
    let at = order.iter().position(|&found| found == key).unwrap();
    Ok((order[at.saturating_sub(1)], order[(at + 1).min(order.len() - 1)]))
}

#[test]
fn strided_keys_spread_over_buckets() {
    // Half full, linear probing passes 0.5 buckets on average before it finds a key.
    for shift in [0, 1, 4, 8, 16, 20, 24, 32, 43, 51] {
        let mut mock = Mock::new(1 << 20);
        let map = mock.transact(|tx| HashMap::create(tx, 4096)).unwrap();
        let mut passed = 0;
        mock.transact(|tx| {
            for i in 1..=2048_u64 {
                let done = map.insert(tx, i << shift, i)?;
                assert_eq!(done, Inserted::New);
            }
            Ok(())
        })
        .unwrap();
        for i in 1..=2048_u64 {
            mock.transact(|tx| {
                let mut watching = common::Watching::new(tx);
                assert_eq!(map.get(&mut watching, i << shift)?, Some(i));
                passed += watching.read.len() - 2;
                Ok(())
            })
            .unwrap();
        }
        assert!(passed < 2048, "stride 2^{shift}: {passed} buckets passed by 2048 lookups");
    }
}

#[test]
fn insert_protects_passed_blocks() {
    let mut mock = Mock::new(1 << 16);
    let map = mock.transact(|tx| HashMap::create(tx, 32)).unwrap();
    let mut passing = 0;
    for key in 1..=32 {
        mock.transact(|tx| {
            let mut watching = common::Watching::new(tx);
            assert_eq!(map.insert(&mut watching, key * key * 77, 0)?, Inserted::New);
            watching.read.dedup();
            watching.read.retain(|object| !watching.written.contains(object));
            watching.protected.retain(|object| !watching.written.contains(object));
            assert_eq!(watching.protected, watching.read);
            passing += watching.protected.len();
            Ok(())
        })
        .unwrap();
    }
    assert!(passing > 0, "some key is not in the block of its start");
}

mod common {
    use words::{Addr, Allocate, Stop, Words};

    /// Remembers the objects of all accesses.
    pub(crate) struct Watching<'a, W> {
        inner: &'a mut W,
        pub(crate) read: Vec<u64>,
        pub(crate) written: Vec<u64>,
        pub(crate) protected: Vec<u64>,
    }

    impl<'a, W> Watching<'a, W> {
        pub(crate) fn new(inner: &'a mut W) -> Watching<'a, W> {
            Watching { inner, read: vec![], written: vec![], protected: vec![] }
        }
    }

    impl<W: Words> Words for Watching<'_, W> {
        fn read(&mut self, at: Addr) -> Result<u64, Stop> {
            self.read.push(at.object);
            self.inner.read(at)
        }
        fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
            self.written.push(at.object);
            self.inner.write(at, value)
        }
        fn protect(&mut self, at: Addr) -> Result<(), Stop> {
            self.protected.push(at.object);
            Ok(())
        }
        fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
            self.inner.retire(at, bytes)
        }
    }

    /// Not recorded: the allocator's own writes.
    impl<W: Allocate> Allocate for Watching<'_, W> {
        fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
            self.inner.allocate(bytes)
        }
        fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
            self.inner.reserve_blocks(blocks)
        }
        fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
            self.inner.prepare_blocks(first, most)
        }
        fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
            self.inner.allocate_pieces(bytes)
        }
        fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
            self.inner.resize(first, from, to)
        }
        fn root(&mut self) -> Result<u64, Stop> {
            self.inner.root()
        }
        fn set_root(&mut self, object: u64) -> Result<(), Stop> {
            self.inner.set_root(object)
        }
    }
}
