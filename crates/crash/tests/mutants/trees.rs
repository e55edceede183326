//! Pairs of changes of a red-black tree under snapshot isolation. The second one commits between
//! the snapshot and the change of the first. The tree must be sound and have the effects of both.
//! Takes the name of the injected bug and returns the violation.

use std::collections::BTreeSet;

use faults::mutants::{Mutant, inject};
use lastword::collections::raw::RbTree;
use lastword::{Medium, Options, Pool, Snapshot, Stop, Tx};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const KEYS: u64 = 40;
const TRIALS: usize = 500;

/// Inserts the key if it is absent, else removes it.
fn change(tx: &mut Tx<'_, Snapshot>, tree: RbTree, key: u64) -> Result<(), Stop> {
    match tree.get(tx, key)? {
        Some(_) => tree.remove(tx, key).map(drop),
        None => tree.insert(tx, key, key).map(drop),
    }
}

pub(crate) fn concurrent_changes_of_a_tree(bug: Option<Mutant>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    let path = dir.path().join("pool");
    let pool = Pool::<Snapshot>::create_as(path, options.medium(emulated)).unwrap();
    let tree = pool.run(|tx| RbTree::create(tx)).unwrap().value;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut keys, mut conflicts) = (BTreeSet::new(), 0);
    let _injected = inject(bug);
    let mut first = pool.worker().unwrap();
    for trial in 0..TRIALS {
        let one = random.next_u64() % KEYS;
        let other = (one + 1 + random.next_u64() % (KEYS - 1)) % KEYS;
        let mut attempts = 0;
        let done = first.run(|tx| {
            attempts += 1;
            // A read takes the snapshot.
            tree.get(tx, one)?;
            if attempts == 1 {
                // A thread runs one transaction at a time.
                std::thread::scope(|scope| {
                    let run = || {
                        let _injected = inject(bug);
                        let _ = pool.run(|tx| change(tx, tree, other)).unwrap();
                    };
                    scope.spawn(run).join().unwrap();
                });
            }
            change(tx, tree, one)
        });
        let pair = format!("of keys {one} and {other} in trial {trial}");
        if let Err(error) = done {
            return Some(format!("failed: {error}, by changes {pair}"));
        }
        conflicts += usize::from(attempts > 1);
        for key in [one, other] {
            if !keys.remove(&key) {
                keys.insert(key);
            }
        }
        let checked = first.run(|tx| {
            let mut found = Vec::new();
            for key in 0..KEYS {
                found.extend(tree.get(tx, key)?);
            }
            Ok((tree.check(tx, 0, u64::MAX)?.damage, found))
        });
        let (damage, found) = checked.unwrap().value;
        if !damage.is_empty() || !found.iter().eq(&keys) {
            return Some(format!("damaged: {damage:?} after changes {pair}"));
        }
    }
    assert!((TRIALS / 20..TRIALS / 20 * 19).contains(&conflicts), "{conflicts} conflicts");
    None
}
