//! `btree`, `btree-16`, `btree-32`: insert a random key, or overwrite it, or look it up, one a
//! transaction (DudeTM, section 5.1; Pisces, section 5.2).
//!
//! | | keys at scale 1 | children, at most | bytes of a node | write, of 100 |
//! |---|---|---|---|---|
//! | `btree` | 2^22 | 29 | 512 | 100 |
//! | `btree-16` | 2 000 000 | 16 | 288 | 20 |
//! | `btree-32` | 2 000 000 | 32 | 560 | 20 |
//!
//! Every second key is loaded. At first every second transaction that writes inserts a new key
//! (about 7 words with its share of splits). Once all keys are present, after some times as many,
//! each overwrites (1 word). Transactions that only read (`--update-percent`) look a key up.
//! Pisces' nodes of 16 children have 256 bytes; these have an order of slots beside keys and
//! children, and a header.

use std::hint::black_box;

use collections::raw::BTree;
use words::{Allocate, Stop, Transact, Words, work};

use crate::keys::{self, KeyClient};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::tree;
use crate::violation::Violations;
use crate::{Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Keys at scale 1, from DudeTM.
const KEYS: u64 = 1 << 22;

/// Keys at scale 1 with at most 16 or 32 children; half of them are Pisces' million.
const KEYS_PISCES: u64 = 2_000_000;

/// Rounds of loading, as a power of two: later rounds split the leaves that the first one made.
const ROUNDS_LOG2: u32 = 2;

/// Nodes that one transaction frees.
const FREED: u64 = 256;

/// Pairs that one transaction of the check reads.
const CHECKED: u64 = 4096;

/// A B+-tree whose nodes hold `SLOTS` entries.
#[derive(Clone, Copy, Debug)]
pub struct Tree<const SLOTS: usize> {
    tree: BTree<SLOTS>,
    /// Keys are below this.
    end: u64,
}

/// The tree of the other workloads.
pub type Btree = Tree<28>;

/// Nodes of at most 16 children.
pub type Btree16 = Tree<15>;

/// Nodes of at most 32 children.
pub type Btree32 = Tree<31>;

impl<const SLOTS: usize> Build for Tree<SLOTS> {
    const NAME: &'static str = match SLOTS {
        15 => "btree-16",
        28 => "btree",
        _ => "btree-32",
    };
    type Parts = BTree<SLOTS>;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<BTree<SLOTS>, Stop> {
        BTree::create(tx)
    }

    /// Progress counts batches of keys.
    fn step<W: Allocate>(
        tree: BTree<SLOTS>,
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

    fn free<W: Allocate>(tree: BTree<SLOTS>, tx: &mut W) -> Result<bool, Stop> {
        tree.free(tx, FREED)
    }
}

impl<const SLOTS: usize> Workload for Tree<SLOTS> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = match SLOTS {
        15 => "b+-tree, 16 children: look a random key up, or insert or overwrite it",
        28 => "b+-tree: insert or overwrite a random key, one a transaction",
        _ => "b+-tree, 32 children: look a random key up, or insert or overwrite it",
    };
    const SUPPORTS: Supported = KeyClient::SUPPORTS;
    const READS: bool = true;
    type Client = KeyClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(tree::bytes::<SLOTS>(Self::keys(options)))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let end = Self::keys(options);
        Ok(Tree { tree: root::load::<Self, T>(worker, end)?, end })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(end, tree)| Tree { tree, end }))
    }

    fn client(&self, index: usize, seed: u64) -> KeyClient {
        let mut client = KeyClient::new(index, seed);
        self.tune(&mut client, &Options::default());
        client
    }

    fn tune(&self, client: &mut KeyClient, options: &Options) {
        let share = if Self::IS_PISCES { 20 } else { 100 };
        let update_percent = options.update_percent.or(Some(share));
        client.tune(&Options { update_percent, ..*options }, self.end);
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
        tx.compute(work::FRAME);
        tx.lock(lock::ALL)?; // splits may reach the root
        if client.reads {
            black_box(self.tree.get(tx, client.key)?);
            return Ok(());
        }
        self.tree.insert(tx, client.key, client.value()).map(drop)
    }

    fn is_present<W: Words>(&self, client: &KeyClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(lock::ALL)?; // splits may reach the root
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

impl<const SLOTS: usize> Tree<SLOTS> {
    const IS_PISCES: bool = SLOTS != 28;

    fn keys(options: &Options) -> u64 {
        scaled(if Self::IS_PISCES { KEYS_PISCES } else { KEYS }, options, 64)
    }
}
