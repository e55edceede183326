//! `rbt`: alternately inserts a key into a red-black tree and removes one, one a transaction (LAD,
//! table 2: 2 to 10 cache blocks written).
//!
//! ```text
//!   32 trees; worker w has tree w modulo 32 to itself, up to 32 workers
//!   numbers of a tree's keys   0 ... nodes - 1           loaded, never removed
//!                              nodes ... 2 nodes - 1     inserted, and removed again
//! ```
//!
//! 1024 nodes of a cache line each times the scale stay in a tree. Up to a sixteenth as many more
//! are inserted and removed, in the order of `churn.rs`. 15 workers' trees are 1 MiB: resident in
//! the last-level cache of the target machines. A key is its number mixed, so that numbers do not
//! determine places.

use collections::raw::{RbTree, whole};
use rand_xoshiro::rand_core::Rng;
use words::{Allocate, Array, LockId, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::churn::{Change, Churn, workers_of};
use crate::keys::{generator, mix, unmix};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Options, Violation, Workload, lock, scaled, with_slack};

/// Trees: their handles fit in an object, and no target machine has more cores.
const TREES: usize = 32;

/// Nodes of a tree at scale 1; fewest, such that workers of one tree can share its numbers; and
/// more than any pool holds.
const NODES: u64 = 1024;
const NODES_MIN: u64 = 32;
const NODES_MAX: u64 = 1 << 40;

/// Size of a node in the heap: its size class, header included.
const SLOT_BYTES: u64 = 64;

/// Keys that one transaction of loading inserts, and nodes that one frees.
const STEP: u64 = 128;

/// Nodes that one transaction of the check reads.
const CHECKED: u64 = 256;

const _: () = assert!(RbTree::NODE_BYTES as u64 + words::HEADER_BYTES == SLOT_BYTES);

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    trees: [RbTree; TREES],
    /// Number of trees freed.
    freed: Array<u64>,
}

/// Trees.
#[derive(Clone, Copy, Debug)]
pub struct Rbt {
    trees: [RbTree; TREES],
    /// Nodes of each tree that stay.
    nodes: u64,
}

/// One worker's updates of its tree.
#[derive(Clone, Debug)]
pub struct RbtClient {
    index: usize,
    stamp: Stamp,
    random: u64,
    churn: Churn,
    change: Change,
}

impl Build for Rbt {
    const NAME: &'static str = "rbt";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<Tables, Stop> {
        let mut trees = [RbTree::create(tx)?; TREES];
        for tree in &mut trees[1..] {
            *tree = RbTree::create(tx)?;
        }
        Ok(Tables { trees, freed: Array::create(tx, 1)? })
    }

    /// Progress n: the n-th key is next, counted through all trees.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let total = size * TREES as u64;
        let end = (progress + STEP).min(total);
        for n in progress..end {
            let key = mix(n % size);
            tables.trees[(n / size) as usize].insert(tx, key, Stamp::LOADED.value(key))?;
        }
        Ok((end < total).then_some(end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let count = tx.read(freed)?;
        let Some(tree) = tables.trees.get(count as usize) else {
            return tables.freed.free(tx).map(|()| true);
        };
        let is_gone = tree.free(tx, STEP)?;
        tx.write(freed, count + u64::from(is_gone))?;
        Ok(false)
    }
}

impl Workload for Rbt {
    const NAME: &'static str = <Rbt as Build>::NAME;
    const ABOUT: &'static str = "red-black trees, one a worker: insert or remove a key";
    type Client = RbtClient;

    fn heap_bytes(options: &Options) -> u64 {
        // Every number may be present: each run may leave some.
        with_slack(2 * Self::nodes(options) * TREES as u64 * SLOT_BYTES)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Rbt, T::Error> {
        let nodes = Self::nodes(options);
        Ok(Rbt { trees: root::load::<Rbt, T>(worker, nodes)?.trees, nodes })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Rbt>, T::Error> {
        let found = root::open::<Rbt, T>(worker)?;
        Ok(found.map(|(nodes, tables)| Rbt { trees: tables.trees, nodes: nodes.min(NODES_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> RbtClient {
        let (random, stamp) = (generator(index, seed).next_u64(), Stamp::first(index, seed));
        let churn = self.churn(index, CLIENTS_MAX, random);
        RbtClient { index, stamp, random, churn, change: Change::In(0) }
    }

    fn tune(&self, client: &mut RbtClient, options: &Options) {
        client.churn = self.churn(client.index, workers_of(client.index, options), client.random);
    }

    #[inline]
    fn next(&self, client: &mut RbtClient) {
        client.change = client.churn.advance();
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &RbtClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let tree = self.tree(client, tx)?;
        match client.change {
            Change::In(number) => {
                let key = mix(self.nodes + number);
                tree.insert(tx, key, client.stamp.value(key))?;
            }
            Change::Out(number) => {
                tree.remove(tx, mix(self.nodes + number))?.ok_or(Stop::BadValue)?;
            }
        }
        Ok(())
    }

    fn is_present<W: Words>(&self, client: &RbtClient, tx: &mut W) -> Result<bool, Stop> {
        let tree = self.tree(client, tx)?;
        client.churn.is_done(client.stamp, |number| {
            let key = mix(self.nodes + number);
            Ok((tree.get(tx, key)?, key))
        })
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        for tree in self.trees {
            let answer = whole(worker, |tx, from| tree.check(tx, from, CHECKED))?;
            if !answer.damage.is_empty() {
                // A scan of a damaged tree may end in a less specific `Stop`.
                violations.add_damage(answer.damage);
                continue;
            }
            self.check_pairs(worker, tree, &mut violations)?;
        }
        Ok(violations.0)
    }
}

impl Rbt {
    fn nodes(options: &Options) -> u64 {
        scaled(NODES, options, NODES_MIN)
    }

    /// Returns the order in which a worker's keys are inserted and removed, with so many workers.
    fn churn(&self, index: usize, workers: usize, random: u64) -> Churn {
        Churn::new(index / TREES, workers.div_ceil(TREES), self.nodes, random)
    }

    /// Returns the client's tree, locked.
    #[inline]
    fn tree<W: Words>(&self, client: &RbtClient, tx: &mut W) -> Result<RbTree, Stop> {
        let tree = client.index % TREES;
        tx.lock(LockId::of(lock::ROWS, tree as u64))?;
        Ok(self.trees[tree])
    }

    fn check_pairs<T: Transact>(
        &self,
        worker: &mut T,
        tree: RbTree,
        violations: &mut Violations,
    ) -> Result<(), T::Error> {
        let (mut loaded, mut from) = (0, Some(0));
        while let Some(first) = from {
            let (pairs, next) = worker.transact(|tx| {
                let (mut pairs, mut next) = (Vec::new(), Some(first));
                while let Some(key) = next.filter(|_| (pairs.len() as u64) < CHECKED) {
                    let found = tree.ceiling(tx, key)?;
                    pairs.extend(found);
                    next = found.and_then(|(key, _)| key.checked_add(1));
                }
                Ok((pairs, next))
            })?;
            for (key, found) in pairs {
                let (number, end) = (unmix(key), 2 * self.nodes);
                if number >= end {
                    violations.add(Violation::Key { end, found: number });
                } else if Stamp::of(found, key).is_none() {
                    violations.add(Violation::Value { key, found });
                }
                loaded += u64::from(number < self.nodes);
            }
            from = next;
        }
        violations.expect("keys that were loaded", self.nodes, loaded);
        Ok(())
    }
}
