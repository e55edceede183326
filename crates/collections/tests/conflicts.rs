//! Conflicts at every single access of an operation: it runs again, and leaves no half-done change.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use collections::raw::{BTreeMap, ChainedMap, HashMap, Inserted, whole};
use words::mock::Mock;
use words::{Stop, Transact};

/// Builds a state with `setup`, then runs `operation` with a conflict at its n-th access, for every
/// n, and then `check`. Returns the number of accesses.
fn conflict_everywhere<S: Copy, R: PartialEq + std::fmt::Debug>(
    setup: impl Fn(&mut Mock) -> S,
    operation: impl Fn(&mut Mock, S) -> Result<R, Stop>,
    expected: R,
    check: impl Fn(&mut Mock, S) -> usize,
) -> u64 {
    let mut undisturbed = Mock::new(1 << 20);
    let state = setup(&mut undisturbed);
    let checked = undisturbed.transact(|tx| operation(tx, state)).unwrap();
    assert_eq!(checked, expected);
    let objects = check(&mut undisturbed, state);
    assert_eq!(undisturbed.objects(), objects, "every object is reachable");
    for access in 0.. {
        let mut mock = Mock::new(1 << 20);
        let state = setup(&mut mock);
        mock.conflict_after(access);
        let mut attempts = 0;
        let checked = mock.transact(|tx| {
            attempts += 1;
            operation(tx, state)
        });
        assert_eq!(checked.unwrap(), expected, "conflict at access {access}");
        if mock.take_conflict() {
            assert_eq!(attempts, 1);
            return access;
        }
        assert_eq!(attempts, 2, "conflict at access {access}");
        assert_eq!(check(&mut mock, state), objects, "conflict at access {access}");
        assert_eq!(mock.objects(), objects, "conflict at access {access}");
    }
    unreachable!("an operation has a last access");
}

fn tree_with(keys: impl Iterator<Item = u64> + Clone) -> impl Fn(&mut Mock) -> BTreeMap {
    move |mock| {
        mock.transact(|tx| {
            let tree = BTreeMap::create(tx)?;
            for key in keys.clone() {
                tree.insert(tx, key, key)?;
            }
            Ok(tree)
        })
        .unwrap()
    }
}

/// Checks that the tree is sound and has `entries` entries; returns how many nodes it has.
fn tree_of(entries: u64) -> impl Fn(&mut Mock, BTreeMap) -> usize {
    move |mock, tree| {
        let checked = whole(mock, |tx, from| tree.check(tx, from, 2)).unwrap();
        assert_eq!((checked.entries, checked.damage), (entries, vec![]));
        let objects = mock.objects();
        let mut undone = 0;
        // Count in a transaction that aborts, so that the heap stays unchanged.
        let refused = mock.transact(|tx| {
            undone = 0;
            while !tree.free(tx, 1)? {
                undone += 1;
            }
            undone += 1;
            assert_eq!(tx.objects(), objects - undone);
            Err::<(), Stop>(Stop::Aborted)
        });
        assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
        undone
    }
}

#[test]
fn conflicting_tree_insert_is_atomic() {
    let one_leaf = || tree_with((0..20).map(|i| 10 * i));
    let accesses =
        conflict_everywhere(one_leaf(), |tx, tree| tree.insert(tx, 55, 1), None, tree_of(21));
    assert!(accesses >= 10, "{accesses}");
    conflict_everywhere(one_leaf(), |tx, tree| tree.insert(tx, 50, 1), Some(50), tree_of(20));
    conflict_everywhere(one_leaf(), |tx, tree| tree.update(tx, 50, |v| v), Some(50), tree_of(20));
}

#[test]
fn conflicting_split_is_atomic() {
    // 28 keys fill the root; the next splits it.
    let accesses = conflict_everywhere(
        tree_with((0..28).map(|i| 10 * i)),
        |tx, tree| tree.insert(tx, 55, 1),
        None,
        tree_of(29),
    );
    assert!(accesses > 100, "{accesses}");
    // Ascending keys leave 19 in a leaf, so 28 full separators come with 28 * 19 + 28 keys.
    conflict_everywhere(
        tree_with(0..28 * 19 + 28),
        |tx, tree| tree.insert(tx, 100_000, 1),
        None,
        tree_of(28 * 19 + 29),
    );
}

#[test]
fn conflicting_join_and_share_are_atomic() {
    // Leaves of 19 and 10; the second has 9 left, and the neighbour has enough to share.
    let share = |tx: &mut Mock, tree: BTreeMap| tree.remove(tx, 28);
    let setup = tree_with((0..29).chain([])); // 19 + 10
    conflict_everywhere(
        move |mock| {
            let tree = setup(mock);
            mock.transact(|tx| tree.remove(tx, 27)).unwrap();
            tree
        },
        share,
        Some(28),
        tree_of(27),
    );
    // Two leaves of 14 and 9: the next removal joins them, and the root takes their entries.
    let setup = tree_with((0..29).map(|i| if i == 28 { 5 } else { 10 * i }));
    let accesses = conflict_everywhere(
        move |mock| {
            let tree = setup(mock);
            for key in [0, 5, 10, 20, 30, 140] {
                mock.transact(|tx| tree.remove(tx, key)).unwrap();
            }
            assert_eq!(mock.objects(), 3);
            tree
        },
        |tx, tree| {
            tree.remove(tx, 40)?;
            tree.remove(tx, 150)?;
            tree.remove(tx, 160)?;
            tree.remove(tx, 170)?;
            tree.remove(tx, 180)?;
            tree.remove(tx, 190)
        },
        Some(190),
        |mock, tree| {
            assert_eq!(tree_of(17)(mock, tree), 1, "joined into one node");
            1
        },
    );
    assert!(accesses > 100, "{accesses}");
}

#[test]
fn conflicting_hash_map_operation_is_atomic() {
    let setup = |mock: &mut Mock| {
        mock.transact(|tx| {
            let map = HashMap::create(tx, 16)?;
            for key in 0..14 {
                assert_eq!(map.insert(tx, key, key)?, Inserted::New);
            }
            Ok(map)
        })
        .unwrap()
    };
    let holds = |entries: u64| {
        move |mock: &mut Mock, map: HashMap| {
            let checked = whole(mock, |tx, from| map.check(tx, from, 100)).unwrap();
            assert_eq!((checked.entries, checked.damage), (entries, vec![]));
            2
        }
    };
    conflict_everywhere(setup, |tx, map| map.insert(tx, 20, 1), Inserted::New, holds(15));
    conflict_everywhere(setup, |tx, map| map.insert(tx, 0, 1), Inserted::Replaced(0), holds(14));
    conflict_everywhere(setup, |tx, map| map.update(tx, 7, |v| v + 1), Some(7), holds(14));
    let mut most = 0;
    for key in 0..14 {
        let operation = |tx: &mut Mock, map: HashMap| map.remove(tx, key);
        most = most.max(conflict_everywhere(setup, operation, Some(key), holds(13)));
    }
    assert!(most > 10, "some removal moves a bucket: {most}");
}

#[test]
fn conflicting_chained_map_operation_is_atomic() {
    let setup = |mock: &mut Mock| {
        mock.transact(|tx| {
            let map = ChainedMap::create(tx, 32)?;
            for key in 0..100 {
                map.insert(tx, 2 * key, key)?;
            }
            Ok(map)
        })
        .unwrap()
    };
    let holds = |entries: u64| {
        move |mock: &mut Mock, map: ChainedMap| {
            let checked = whole(mock, |tx, from| map.check(tx, from, 10)).unwrap();
            assert_eq!((checked.entries, checked.damage), (entries, vec![]));
            1 + entries as usize
        }
    };
    conflict_everywhere(setup, |tx, map| map.insert(tx, 20, 1), Some(10), holds(100));
    conflict_everywhere(setup, |tx, map| map.update(tx, 7, |v| v + 1), None, holds(100));
    let mut most = 0;
    for key in 80..100 {
        let insert = |tx: &mut Mock, map: ChainedMap| map.insert(tx, 2 * key + 1, 1);
        most = most.max(conflict_everywhere(setup, insert, None, holds(101)));
        let update = |tx: &mut Mock, map: ChainedMap| map.update(tx, 2 * key, |v| v + 1);
        conflict_everywhere(setup, update, Some(key), holds(100));
        let remove = |tx: &mut Mock, map: ChainedMap| map.remove(tx, 2 * key);
        most = most.max(conflict_everywhere(setup, remove, Some(key), holds(99)));
    }
    assert!(most > 10, "some chain is long: {most}");
}
