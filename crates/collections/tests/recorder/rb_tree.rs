//! Pairs of operations on one red-black tree under snapshot isolation: if they write and protect no
//! common object, both may commit, and the tree must be sound and have both changes.

use std::collections::BTreeMap as Model;

use collections::raw::{RbTree, whole};
use words::mock::Mock;
use words::{Stop, Transact};

use crate::recorder::{APART, Recorder, commit, random_below, taken, trace};

/// Inserts the key, or removes it if it is there.
fn toggle(tx: &mut Recorder<'_>, tree: RbTree, key: u64, is_there: bool) -> Result<(), Stop> {
    match is_there {
        true => tree.remove(tx, key).map(drop),
        false => tree.insert(tx, key, key).map(drop),
    }
}

fn toggle_model(model: &mut Model<u64, u64>, key: u64) {
    if model.remove(&key).is_none() {
        model.insert(key, key);
    }
}

#[test]
fn concurrent_pairs_on_rb_trees_keep_them_sound() {
    let mut below = random_below();
    let mut mock = Mock::new(512 << 20);
    let tree = mock.transact(RbTree::create).unwrap();
    let mut model = Model::new();
    let (mut conflicts, mut both) = (0, 0);
    for trial in 0..6000_u64 {
        let keys = 12 << (trial / 1000 % 3);
        let a = below(keys);
        let b = (a + 1 + below(keys - 1)) % keys;
        let there = [a, b].map(|key| model.contains_key(&key));
        let (_, trace_a) = trace(&mut mock, 0, |tx| toggle(tx, tree, a, there[0]));
        let (_, trace_b) = trace(&mut mock, APART, |tx| toggle(tx, tree, b, there[1]));
        commit(&mut mock, 0, &trace_a);
        toggle_model(&mut model, a);
        if trace_a.writes.is_disjoint(&trace_b.writes) {
            commit(&mut mock, APART - taken(&trace_a), &trace_b);
            toggle_model(&mut model, b);
            both += 1;
        } else {
            conflicts += 1;
        }
        let checked = whole(&mut mock, |tx, from| tree.check(tx, from, 64)).unwrap();
        assert_eq!(checked.damage, [], "trial {trial}: {a} and {b}");
        assert_eq!(checked.entries, model.len() as u64, "trial {trial}: {a} and {b}");
    }
    let found = |key| mock.transact(|tx| tree.get(tx, key)).unwrap();
    assert!((0..48).map(found).eq((0..48).map(|key| model.get(&key).copied())));
    assert!(conflicts > 500 && both > 500, "{conflicts} and {both}");
}
