//! `rbtree`, `bptree`, `hash`: searches a random key and removes it if present, else inserts it
//! (SSP, table 3); `rbtree-zipf`, `bptree-zipf`, `hash-zipf`: the same with skewed keys.
//!
//! ```text
//!   a copy   header | number of keys | stamp of the last transaction |          trees
//!                     a line in a page of its own
//!            bucket | first entry | stamp of the last transaction on it |       hash tables
//! ```
//!
//! Keys and values have 8 bytes. Of a million keys times the scale every second one is loaded, and
//! about as many are present at any time. The zipfian workloads draw keys from a Zipf distribution
//! in which 15 of 100 keys get 80 of 100 draws, whatever their number (`--zipf` sets another
//! exponent). The smallest keys are the hottest, so hot keys are neighbours. With `--low-conflict`
//! each worker has its own copy, up to 32; else all share one, under one lock.
//!
//! A stamp shows whether a transaction committed, also when it removed a key. It is beside the
//! number of keys that a tree keeps; in a hash table it is beside the link of the key's bucket,
//! where it takes no additional line.
//!
//! The check: structures, values under their keys, numbers of keys.

use std::fmt::Debug;
use std::marker::PhantomData;

use collections::raw::RbTree;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::buckets::Buckets;
use crate::copies::{COPIES, Shape, lock_copy};
use crate::keys::{self, KeyClient};
use crate::leaves::Leaves;
use crate::root::{self, Build};
use crate::slab::Line;
use crate::stamp::Stamp;
use crate::ticket_map::TicketMap;
use crate::violation::Violations;
use crate::zipf::exponent;
use crate::{Options, Supported, Violation, Workload, scaled, with_slack};

/// Keys at scale 1.
const KEYS: u64 = 1_000_000;

/// The share of keys that is hot, and the share of draws that it gets.
const HOT: f64 = 0.15;
const DRAWN: f64 = 0.8;

/// Lines from one copy's header to the next one's: a page.
const HEADER_LINES: u64 = 64;

/// Blocks that one transaction prepares.
const STEP: u64 = 256;

/// The structure of a workload's keys.
pub trait Kind: Copy + Debug + Send + Sync + 'static {
    /// The structure.
    type Map: TicketMap;
    /// The command-line names, with uniform and with Zipf-distributed keys.
    const NAMES: [&'static str; 2];
    /// A description of each of one line.
    const ABOUT: [&'static str; 2];
}

/// A red-black tree.
#[derive(Clone, Copy, Debug)]
pub struct InRbTree;

/// A B+-tree of sorted leaves of 1 KiB.
#[derive(Clone, Copy, Debug)]
pub struct InBpTree;

/// A hash table.
#[derive(Clone, Copy, Debug)]
pub struct InHash;

impl Kind for InRbTree {
    type Map = RbTree;
    const NAMES: [&'static str; 2] = ["rbtree", "rbtree-zipf"];
    const ABOUT: [&'static str; 2] = [
        "a red-black tree: remove a random key, or insert it",
        "a red-black tree: remove a key or insert it, 80 % on 15 % of them",
    ];
}

impl Kind for InBpTree {
    type Map = Leaves;
    const NAMES: [&'static str; 2] = ["bptree", "bptree-zipf"];
    const ABOUT: [&'static str; 2] = [
        "a b+-tree: remove a random key, or insert it",
        "a b+-tree: remove a key or insert it, 80 % on 15 % of them",
    ];
}

impl Kind for InHash {
    type Map = Buckets;
    const NAMES: [&'static str; 2] = ["hash", "hash-zipf"];
    const ABOUT: [&'static str; 2] = [
        "a hash table: remove a random key, or insert it",
        "a hash table: remove a key or insert it, 80 % on 15 % of them",
    ];
}

/// Uniform keys of a red-black tree.
pub type RbTreeRand = Toggles<InRbTree, false>;
/// Zipf-distributed keys of a red-black tree.
pub type RbTreeZipf = Toggles<InRbTree, true>;
/// Uniform keys of a B+-tree.
pub type BpTreeRand = Toggles<InBpTree, false>;
/// Zipf-distributed keys of a B+-tree.
pub type BpTreeZipf = Toggles<InBpTree, true>;
/// Uniform keys of a hash table.
pub type HashRand = Toggles<InHash, false>;
/// Zipf-distributed keys of a hash table.
pub type HashZipf = Toggles<InHash, true>;

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    headers: Array<Line>,
    /// Number of copies freed.
    freed: Array<u64>,
    maps: [[u64; 3]; COPIES],
}

/// Keys that are inserted and removed, in copies.
#[derive(Debug)]
pub struct Toggles<K, const SKEWED: bool> {
    tables: Tables,
    shape: Shape,
    kind: PhantomData<fn() -> K>,
}

impl<K, const SKEWED: bool> Clone for Toggles<K, SKEWED> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, const SKEWED: bool> Copy for Toggles<K, SKEWED> {}

/// One worker's transactions.
#[derive(Clone, Debug)]
pub struct ToggleClient {
    index: usize,
    keys: KeyClient,
}

impl Tables {
    #[inline]
    fn map_of<K: Kind>(&self, copy: u64) -> K::Map {
        K::Map::from_words(self.maps[copy as usize % COPIES])
    }

    /// Returns the place of a tree's number of keys; its stamp follows.
    #[inline]
    fn header(&self, copy: u64) -> Result<Addr, Stop> {
        Ok(self.headers.at(copy * HEADER_LINES)?.addr())
    }

    /// Returns the place of the stamp of the last transaction on a key, or a later one on others.
    #[inline]
    fn stamp<K: Kind>(&self, copy: u64, key: u64) -> Result<Addr, Stop> {
        match self.map_of::<K>(copy).mark(key)? {
            Some(mark) => Ok(mark),
            None => Ok(self.header(copy)?.plus(8)),
        }
    }
}

impl<K: Kind, const SKEWED: bool> Build for Toggles<K, SKEWED> {
    const NAME: &'static str = K::NAMES[SKEWED as usize];
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let shape = Shape::decode(size);
        let headers = Array::reserve(tx, shape.copies * HEADER_LINES)?;
        let mut maps = [[0; 3]; COPIES];
        for map in &mut maps[..shape.copies as usize] {
            *map = K::Map::reserve(tx, shape.keys)?.to_words();
        }
        Ok(Tables { headers, freed: Array::create(tx, 1)?, maps })
    }

    /// Progress 0: preparing; 1 + n: loading's position, a multiple of the keys for each copy.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let shape = Shape::decode(size);
        let Some(first) = progress.checked_sub(1) else {
            for copy in 0..shape.copies {
                if !tables.map_of::<K>(copy).prepare(tx)? {
                    return Ok(Some(0));
                }
            }
            return Ok(Some(u64::from(tables.headers.prepare(tx, STEP)?)));
        };
        let (copy, at) = (first / shape.keys, first % shape.keys);
        let (keys, next) = keys::batch(at, shape.keys, 0);
        let map = tables.map_of::<K>(copy);
        for &key in &keys {
            map.insert(tx, key, Stamp::LOADED.value(key))?;
        }
        let count = tables.header(copy)?;
        let before = tx.read(count)?;
        tx.write(count, before + keys.len() as u64)?;
        let end = next.unwrap_or(shape.keys);
        let is_last = end == shape.keys && copy + 1 == shape.copies;
        Ok((!is_last).then_some(1 + copy * shape.keys + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let count = tx.read(freed)?;
        let is_copy = tables.maps.get(count as usize).is_some_and(|words| *words != [0; 3]);
        if !is_copy {
            tables.headers.free(tx)?;
            return tables.freed.free(tx).map(|()| true);
        }
        let is_gone = tables.map_of::<K>(count).free(tx)?;
        tx.write(freed, count + u64::from(is_gone))?;
        Ok(false)
    }
}

impl<K: Kind, const SKEWED: bool> Workload for Toggles<K, SKEWED> {
    const NAME: &'static str = K::NAMES[SKEWED as usize];
    const ABOUT: &'static str = K::ABOUT[SKEWED as usize];
    const SUPPORTS: Supported = Supported { zipf: true, low_conflict: true, ..Supported::NOTHING };
    type Client = ToggleClient;

    fn heap_bytes(options: &Options) -> u64 {
        let shape = Self::shape(options);
        let headers = shape.copies * HEADER_LINES / 4 * BLOCK_STRIDE;
        with_slack(headers + shape.copies * K::Map::heap_bytes(shape.keys))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let shape = Self::shape(options);
        let tables = root::load::<Self, T>(worker, shape.encode())?;
        Ok(Toggles { tables, shape, kind: PhantomData })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(size, tables)| Toggles {
            tables,
            shape: Shape::decode(size),
            kind: PhantomData,
        }))
    }

    fn client(&self, index: usize, seed: u64) -> ToggleClient {
        let keys = KeyClient::new(index, seed).in_order();
        let mut client = ToggleClient { index, keys };
        self.tune(&mut client, &Options::default());
        client
    }

    fn tune(&self, client: &mut ToggleClient, options: &Options) {
        let skewed = SKEWED.then(|| exponent(self.shape.keys, HOT, DRAWN));
        let zipf = options.zipf.or(skewed);
        client.keys.tune(&Options { zipf, update_percent: None, ..*options }, self.shape.keys);
    }

    #[inline]
    fn next(&self, client: &mut ToggleClient) {
        client.keys.advance(self.shape.keys);
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &ToggleClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let copy = self.shape.copy(client.index);
        lock_copy(tx, copy)?;
        let mark = self.tables.stamp::<K>(copy, client.keys.key)?;
        let count = self.tables.header(copy)?;
        toggle(self.tables.map_of::<K>(copy), (mark, count), &client.keys, tx)
    }

    fn is_present<W: Words>(&self, client: &ToggleClient, tx: &mut W) -> Result<bool, Stop> {
        let (copy, key) = (self.shape.copy(client.index), client.keys.key);
        lock_copy(tx, copy)?;
        let mark = tx.read(self.tables.stamp::<K>(copy, key)?)?;
        Ok(client.keys.stamp.is_in(mark, MARK))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, end) = (Violations::default(), self.shape.keys);
        for copy in 0..self.shape.copies {
            let map = self.tables.map_of::<K>(copy);
            let Some(pairs) = map.pairs(worker, &mut violations.0)? else {
                continue;
            };
            keys::check_pairs(&pairs, end, &mut violations);
            let marks: Vec<Addr> = match map.mark(0) {
                Ok(None) => self.tables.stamp::<K>(copy, 0).into_iter().collect(),
                _ => (0..end).filter_map(|key| map.mark(key).ok().flatten()).collect(),
            };
            let count = self.tables.header(copy);
            let (count, found) = worker.transact(|tx| {
                let found: Result<Vec<u64>, Stop> = marks.iter().map(|&at| tx.read(at)).collect();
                Ok((tx.read(count?)?, found?))
            })?;
            if map.mark(0) == Ok(None) {
                violations.expect("keys that a tree counts", pairs.len() as u64, count);
            }
            for found in found.into_iter().filter(|&found| found != 0) {
                if Stamp::of(found, MARK).is_none() {
                    violations.add(Violation::Value { key: MARK, found });
                }
            }
        }
        Ok(violations.0)
    }
}

/// The key of the stamps.
const MARK: u64 = 0;

impl<K: Kind, const SKEWED: bool> Toggles<K, SKEWED> {
    fn shape(options: &Options) -> Shape {
        let copies = if options.low_conflict { options.workers.clamp(1, COPIES) as u64 } else { 1 };
        let keys = scaled(KEYS, options, 128).min(u64::from(u32::MAX));
        Shape { keys, copies, lines: 1, objects: 1 }
    }
}

/// Searches the key; removes it if present, else inserts it.
#[inline(never)]
fn toggle<F: TicketMap, W: Allocate>(
    map: F,
    (mark, count): (Addr, Addr),
    client: &KeyClient,
    tx: &mut W,
) -> Result<(), Stop> {
    let is_there = map.find(tx, client.key)?.is_some();
    if is_there {
        map.remove(tx, client.key)?.ok_or(Stop::BadValue)?;
    } else {
        map.insert(tx, client.key, client.value())?;
    }
    // A structure with a stamp for each key keeps no count.
    if mark == count.plus(8) {
        let before = tx.read(count)?;
        let change = if is_there { u64::MAX } else { 1 };
        tx.write(count, before.wrapping_add(change))?;
    }
    tx.write(mark, client.stamp.value(MARK))
}
