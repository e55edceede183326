//! `btree`: insert a random key, or overwrite it, one a transaction (DudeTM, section 5.1).
//!
//! Keys from a space of 2^22 times the scale, every second one there from the beginning. At first
//! every second transaction inserts a new key (about 7 words with its share of splits); when all
//! keys are there, after some times 2^22 transactions, each overwrites (1 word). Those that only
//! read (`--update-percent`) look a key up.

use std::hint::black_box;

use collections::BTreeMap;
use words::{Allocate, LockId, Stop, Transact, Words};

use crate::keys::{self, KeyClient};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::tree;
use crate::violation::Violations;
use crate::{Heeds, Options, Violation, Workload, scaled, with_slack};

/// Keys at scale 1.
const KEYS: u64 = 1 << 22;

/// Rounds of loading, as a power of two: later rounds split the leaves that the first one made.
const ROUNDS_LOG2: u32 = 2;

/// Nodes that one transaction gives back.
const FREED: u64 = 256;

/// Pairs that one transaction of the check reads.
const CHECKED: u64 = 4096;

/// A B+-tree.
#[derive(Clone, Copy, Debug)]
pub struct Btree {
    tree: BTreeMap,
    /// Keys are below this.
    end: u64,
}

impl Build for Btree {
    const NAME: &'static str = "btree";
    type Parts = BTreeMap;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<BTreeMap, Stop> {
        BTreeMap::create(tx)
    }

    /// Progress: that of the keys.
    fn step<W: Allocate>(
        tree: BTreeMap,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let (keys, next) = keys::batch(progress, size, ROUNDS_LOG2);
        for key in keys {
            tree.insert(tx, key, Stamp::LOADED.value(key))?;
        }
        Ok(next)
    }

    fn free<W: Allocate>(tree: BTreeMap, tx: &mut W) -> Result<bool, Stop> {
        tree.free(tx, FREED)
    }
}

impl Workload for Btree {
    const NAME: &'static str = <Btree as Build>::NAME;
    const ABOUT: &'static str = "b+-tree: insert or overwrite a random key, one a transaction";
    const HEEDS: Heeds = KeyClient::HEEDS;
    const READS: bool = true;
    type Client = KeyClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(tree::bytes(scaled(KEYS, options, 64)))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Btree, T::Error> {
        let end = scaled(KEYS, options, 64);
        Ok(Btree { tree: root::load::<Btree, T>(worker, end)?, end })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Btree>, T::Error> {
        let found = root::open::<Btree, T>(worker)?;
        Ok(found.map(|(end, tree)| Btree { tree, end }))
    }

    fn client(&self, index: usize, seed: u64) -> KeyClient {
        KeyClient::new(index, seed)
    }

    fn tune(&self, client: &mut KeyClient, options: &Options) {
        client.tune(options, self.end);
    }

    #[inline]
    fn next(&self, client: &mut KeyClient) {
        client.advance(self.end);
    }

    #[inline]
    fn reads_only(&self, client: &KeyClient) -> bool {
        client.reads
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &KeyClient, tx: &mut W) -> Result<(), Stop> {
        tx.lock(LockId(0))?;
        if client.reads {
            black_box(self.tree.get(tx, client.key)?);
            return Ok(());
        }
        self.tree.insert(tx, client.key, client.value()).map(drop)
    }

    fn is_present<W: Words>(&self, client: &KeyClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(LockId(0))?;
        Ok(client.is_in(self.tree.get(tx, client.key)?))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, mut loaded) = (Violations::default(), 0);
        let visit = |_: &mut T, pairs: &[(u64, u64)], violations: &mut Violations| {
            loaded += keys::check_pairs(pairs, self.end, violations);
            Ok(())
        };
        if tree::check(worker, self.tree, CHECKED, &mut violations, visit)? {
            violations.expect("keys that were loaded", keys::loaded(self.end), loaded);
        }
        Ok(violations.0)
    }
}
