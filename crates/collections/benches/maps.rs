//! How fast are the maps when nothing stands below them, and how many words do they read and write?
//!
//! A plain heap: a vector, no isolation, nothing durable. What a design adds comes on top of this.
//! `cargo bench -p lastword-collections`
#![allow(missing_docs)] // a program, not a library

mod plain;

use std::time::Instant;

use collections::{BTreeMap, HashMap, Inserted};
use plain::Plain;
use words::{Stop, Transact};

const OPS: u64 = 1 << 20;
const ROUNDS: usize = 5;

/// Random numbers (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Runs `op` with random keys; prints median, least and most ns, and words read and written.
fn measure(
    name: &str,
    heap: &mut Plain,
    keys: u64,
    op: impl Fn(&mut Plain, u64) -> Result<(), Stop>,
) {
    let mut state = 1;
    let mut rounds = Vec::new();
    let before = heap.counts();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..OPS {
            let key = random(&mut state) % keys;
            heap.transact(|tx| op(tx, key)).expect("the heap is large enough");
        }
        rounds.push(start.elapsed().as_nanos() as f64 / OPS as f64);
    }
    rounds.sort_by(f64::total_cmp);
    let (reads, writes) = heap.counts();
    let of = |now: u64, before: u64| (now - before) as f64 / (OPS as usize * ROUNDS) as f64;
    println!(
        "{name:34} {:6.0} ns ({:.0} to {:.0})  {:5.1} words read  {:5.2} written",
        rounds[ROUNDS / 2],
        rounds[0],
        rounds[ROUNDS - 1],
        of(reads, before.0),
        of(writes, before.1),
    );
}

fn hash_map() {
    let mut heap = Plain::new(128 << 20);
    let map = heap.transact(|tx| HashMap::create(tx, 1 << 22)).expect("room");
    let start = Instant::now();
    for batch in 0..(1 << 20) / 256 {
        heap.transact(|tx| {
            for key in batch * 256..(batch + 1) * 256 {
                let _ = map.insert(tx, key, key)?;
            }
            Ok(())
        })
        .expect("room");
    }
    println!("1 M hash map inserts, 256 a transaction: {:.3} s", start.elapsed().as_secs_f64());
    measure("hash map insert", &mut heap, 1 << 21, |tx, key| match map.insert(tx, key, key)? {
        Inserted::Full => Err(Stop::Full),
        _ => Ok(()),
    });
    measure("hash map update", &mut heap, 1 << 21, |tx, key| {
        map.update(tx, key, |v| v + 1).map(drop)
    });
    measure("hash map get", &mut heap, 1 << 21, |tx, key| map.get(tx, key).map(drop));
    measure("hash map remove, insert", &mut heap, 1 << 21, |tx, key| {
        let _ = map.remove(tx, key)?;
        map.insert(tx, key ^ 1, key).map(drop)
    });
}

fn btree_map() {
    let mut heap = Plain::new(256 << 20);
    let tree = heap.transact(BTreeMap::create).expect("room");
    measure("b+-tree insert, nearly all new", &mut heap, 1 << 44, |tx, key| {
        tree.insert(tx, key, key).map(drop)
    });
    let mut heap = Plain::new(256 << 20);
    let tree = heap.transact(BTreeMap::create).expect("room");
    let (mut state, keys) = (7, 1 << 22);
    for _ in 0..keys / 2 {
        let key = random(&mut state) % keys;
        heap.transact(|tx| tree.insert(tx, key, key)).expect("room");
    }
    measure("b+-tree insert or overwrite", &mut heap, keys, |tx, key| {
        tree.insert(tx, key, key).map(drop)
    });
    measure("b+-tree get", &mut heap, keys, |tx, key| tree.get(tx, key).map(drop));
    measure("b+-tree remove, insert", &mut heap, keys, |tx, key| {
        tree.remove(tx, key)?;
        tree.insert(tx, key ^ 1, key).map(drop)
    });
    measure("b+-tree range of 50", &mut heap, keys, |tx, key| {
        tree.range(tx, key..key + 50, |_, _| std::ops::ControlFlow::Continue(()))
    });
}

fn main() {
    hash_map();
    btree_map();
}
