//! Bounds of nodes that change: emptied inner nodes are joined with their neighbors, and the nodes
//! on the edge of a neighbor then have other bounds.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap as Model, VecDeque};

use collections::BTreeMap;
use words::Transact;
use words::mock::Mock;

/// A map, and a model of it.
struct Pair {
    mock: Mock,
    map: BTreeMap<[u8], u64>,
    model: Model<Vec<u8>, u64>,
    /// Changes of the tree's nodes.
    structural: usize,
}

impl Pair {
    fn new() -> Pair {
        let mut mock = Mock::new(64 << 20);
        let map = mock.transact(BTreeMap::create).unwrap();
        Pair { mock, map, model: Model::new(), structural: 0 }
    }

    /// Inserts a key, and checks the map if its nodes changed.
    fn put(&mut self, key: Vec<u8>, value: u64) {
        let (map, before) = (self.map, self.mock.objects());
        let is_new = self.mock.transact(|tx| map.put(tx, &key[..], value)).unwrap();
        assert_eq!(is_new, self.model.insert(key, value).is_none());
        self.check_after(before + usize::from(is_new));
    }

    /// Removes a key, and checks the map if its nodes changed.
    fn remove(&mut self, key: &[u8]) {
        let (map, before) = (self.map, self.mock.objects());
        let old = self.mock.transact(|tx| map.remove(tx, key)).unwrap();
        assert_eq!(old, self.model.remove(key), "{}", key.escape_ascii());
        self.check_after(before - usize::from(old.is_some()));
    }

    fn check_after(&mut self, objects: usize) {
        if self.mock.objects() != objects || self.model.len() < 3 {
            self.structural += 1;
            self.check();
        }
    }

    fn check(&mut self) {
        let map = self.map;
        let checked = self.mock.transact(|tx| map.check(tx)).unwrap();
        assert_eq!(checked.damage, []);
        assert_eq!(checked.entries, self.model.len() as u64);
    }

    /// Compares all entries with the model's, each also by a search.
    fn compare(&mut self) {
        self.check();
        let map = self.map;
        let all = self.mock.transact(|tx| map.range(..).collect(tx)).unwrap();
        assert!(all.iter().map(|(key, value)| (key, value)).eq(&self.model));
        for (key, value) in &self.model {
            assert_eq!(self.mock.transact(|tx| map.get(tx, &key[..])).unwrap(), Some(*value));
        }
    }

    /// Inserts keys that share few bytes with the others, compares, and removes them.
    fn insert_foreign(&mut self) {
        let foreign = ["", "a", "user", "user:0", "user:00000", "user:1", "user:z", "zeta"];
        for (n, key) in foreign.into_iter().enumerate() {
            self.put(key.into(), n as u64);
        }
        self.compare();
        for key in foreign {
            self.remove(key.as_bytes());
        }
        self.compare();
    }
}

fn user(n: u64) -> Vec<u8> {
    format!("user:{n:08}").into_bytes()
}

fn random_below() -> impl FnMut(u64) -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    }
}

#[test]
fn removed_last_leaf_widens_the_leaf_before() {
    let mut pair = Pair::new();
    // 40 full leaves of 28, and a leaf alone in an inner node.
    for n in 0..=1120 {
        pair.put(user(n), n);
    }
    pair.remove(&user(1120));
    pair.insert_foreign();
}

#[test]
fn removed_first_leaves_widen_the_leaf_behind() {
    for count in [1121, 2241, 2500] {
        let mut pair = Pair::new();
        for n in 0..count {
            pair.put(user(n), n);
        }
        for n in 0..count {
            pair.remove(&user(n));
            if n % 560 == 0 {
                pair.insert_foreign();
            }
        }
        assert_eq!(pair.mock.objects(), 2);
    }
}

#[test]
fn removed_last_leaves_widen_the_leaf_before() {
    for is_descending in [false, true] {
        let mut pair = Pair::new();
        for n in 0..2500 {
            pair.put(user(if is_descending { 2499 - n } else { n }), n);
        }
        for n in (0..2500).rev() {
            pair.remove(&user(n));
            if n % 560 == 0 {
                pair.insert_foreign();
            }
        }
        assert_eq!(pair.mock.objects(), 2);
    }
}

#[test]
fn emptied_node_between_full_nodes_widens_one() {
    for (from, to) in [(1120, 2240), (1100, 2260), (0, 1120), (2240, 3360)] {
        for is_reverse in [false, true] {
            let mut pair = Pair::new();
            for n in 0..3400 {
                pair.put(user(n), n);
            }
            for n in from..to {
                pair.remove(&user(if is_reverse { from + to - 1 - n } else { n }));
            }
            pair.compare();
            for n in [from, to - 1, (from + to) / 2] {
                pair.put(user(n), n);
            }
            pair.insert_foreign();
        }
    }
}

#[test]
fn queue_of_strings_is_the_model() {
    let mut pair = Pair::new();
    let (mut queue, mut next) = (VecDeque::new(), 0);
    let mut below = random_below();
    for round in 0..6 {
        for _ in 0..800 + below(1600) {
            queue.push_back(next);
            pair.put(user(next), next);
            next += 1;
        }
        let left = if round == 5 { 0 } else { below(1200) as usize };
        while queue.len() > left {
            let first = queue.pop_front().unwrap();
            pair.remove(&user(first));
        }
        pair.insert_foreign();
    }
    assert_eq!(pair.mock.objects(), 2);
}

#[test]
fn random_interleavings_of_strings_are_the_model() {
    let keys: [fn(u64) -> Vec<u8>; 4] = [
        user,
        |n| format!("{}:shared by some:{n:06}", char::from(b'a' + (n / 280) as u8)).into_bytes(),
        |n| format!("{}/{}/{n:05}", "dir".repeat(1 + n as usize / 1500), n / 300).into_bytes(),
        |n| [vec![0; 5 + n as usize / 97 % 9], n.to_be_bytes().to_vec()].concat(),
    ];
    let mut below = random_below();
    for key in keys {
        let mut pair = Pair::new();
        for _ in 0..6 {
            let is_descending = below(2) == 0;
            for n in 0..3600 {
                pair.put(key(if is_descending { 3599 - n } else { n }), n);
            }
            // Runs of removals empty nodes beside full ones; runs of insertions fill some again.
            for _ in 0..5 {
                let (from, count) = (below(3600), 100 + below(2400));
                let (is_reverse, is_removal) = (below(2) == 0, below(4) > 0);
                for step in 0..count {
                    let n = if is_reverse { from + count - 1 - step } else { from + step };
                    match is_removal {
                        true => pair.remove(&key(n)),
                        false if n % 3 == 0 => pair.put(key(n), step),
                        false => (),
                    }
                }
                pair.insert_foreign();
            }
            for n in 0..6100 {
                pair.remove(&key(n));
            }
            assert_eq!(pair.mock.objects(), 2);
        }
        assert!(pair.structural > 300, "{}", pair.structural);
    }
}
