//! `records`, `records-20`: records of 100 bytes, as embedded stores are measured with.
//!
//! ```text
//!   b+-tree: key -> address       record, an object of 13 words
//!                                 | stamp | 92 bytes that follow from it and the key | 4 zeros |
//!
//!   numbers of keys   0 ... count - 1                 records that are updated, always present
//!                     count + 2 s, count + 2 s + 1    slot s: one of the two is present
//! ```
//!
//! `records` overwrites the value of one key, drawn uniformly, a transaction. `records-20`
//! overwrites ten and inserts ten: each of the next ten slots, going round, loses its key and gets
//! its other one. The store keeps its size, and beside 10 updates and 10 inserts a transaction does
//! 10 removals, which the stores' own benchmarks do not. 100 000 records times the scale, in
//! `records-20` as many slots.
//!
//! The index is a tree, not a hash map, because the stores in the comparison (LMDB, redb, SQLite,
//! RocksDB) keep their records in key order. A key is its number times an odd constant: neighbours
//! in number are far apart in the tree, and the number can be computed back.

use std::ops::ControlFlow;

use collections::raw::BTreeMap;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, LockId, Stop, Transact, Words, work};

use crate::keys::{below, generator};
use crate::root::{self, Build};
use crate::stamp::{self, SPREAD, Stamp};
use crate::tree;
use crate::violation::Violations;
use crate::{Options, Violation, Workload, lock, scaled, with_slack};

/// Records at scale 1, and slots.
const COUNT: u64 = 100_000;

/// Words of a record: 100 bytes and 4 more.
pub(crate) const WORDS: usize = 13;

/// Size of a record in the heap: its size class, header included.
pub(crate) const SLOT_BYTES: u64 = 128;

/// Records that one transaction of loading inserts, or that one frees.
const STEP: u64 = 128;

/// Records that one transaction of the check reads.
const CHECKED: u64 = 1024;

/// The factor from a key back to its number.
pub(crate) const GATHER: u64 = 0xf1de_83e1_9937_733d;

const _: () = assert!(SPREAD.wrapping_mul(GATHER) == 1);

/// A store of records with so many updates and so many inserts a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Store<const UPDATES: usize, const INSERTS: usize> {
    tree: BTreeMap,
    count: u64,
}

/// A store with one update a transaction.
pub type Records = Store<1, 0>;

/// A store with 10 updates and 10 inserts a transaction.
pub type Records20 = Store<10, 10>;

/// One worker's transactions on a store.
#[derive(Clone, Debug)]
pub struct StoreClient<const UPDATES: usize> {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    /// Keys to update.
    updated: [u64; UPDATES],
    /// The slot where the client began, and how many it has passed since.
    first: u64,
    passed: u64,
}

pub(crate) fn key(number: u64) -> u64 {
    number.wrapping_mul(SPREAD)
}

/// Returns a record's words.
#[inline]
fn content(stamp: u64, key: u64) -> [u64; WORDS] {
    let mut words = stamp::content::<WORDS>(stamp, key);
    words[WORDS - 1] >>= 32; // the last half word is not part of the record
    words
}

#[inline]
pub(crate) fn put<W: Words>(tx: &mut W, object: u64, stamp: Stamp, key: u64) -> Result<(), Stop> {
    tx.write_words(Addr::new(object, 0), &content(stamp.value(key), key))
}

pub(crate) fn is_written<W: Words>(
    tx: &mut W,
    tree: BTreeMap,
    stamp: Stamp,
    key: u64,
) -> Result<bool, Stop> {
    let Some(object) = tree.get(tx, key)? else {
        return Ok(false);
    };
    Ok(stamp.is_in(tx.read(Addr::new(object, 0))?, key))
}

impl<const UPDATES: usize, const INSERTS: usize> Build for Store<UPDATES, INSERTS> {
    const NAME: &'static str = if INSERTS == 0 { "records" } else { "records-20" };
    type Parts = BTreeMap;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<BTreeMap, Stop> {
        BTreeMap::create(tx)
    }

    /// Progress n: the n-th record is next; the slots follow the records.
    fn step<W: Allocate>(
        tree: BTreeMap,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let total = Self::total(size);
        let end = (progress + STEP).min(total);
        for n in progress..end {
            let number = if n < size { n } else { size + 2 * (n - size) };
            let (key, object) = (key(number), tx.allocate(8 * WORDS)?);
            put(tx, object, Stamp::LOADED, key)?;
            tree.insert(tx, key, object)?;
        }
        Ok((end < total).then_some(end))
    }

    fn free<W: Allocate>(tree: BTreeMap, tx: &mut W) -> Result<bool, Stop> {
        free_records(tree, tx)
    }
}

impl<const UPDATES: usize, const INSERTS: usize> Workload for Store<UPDATES, INSERTS> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = if INSERTS == 0 {
        "a store of 100-byte records: overwrite one, drawn uniformly"
    } else {
        "a store of 100-byte records: overwrite 10 and insert 10 (10 others are removed)"
    };
    type Client = StoreClient<UPDATES>;

    fn heap_bytes(options: &Options) -> u64 {
        let total = Self::total(Self::count(options));
        let nodes = if INSERTS == 0 { tree::bytes::<28> } else { tree::bytes_changing::<28> };
        with_slack(total * SLOT_BYTES + nodes(total))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let count = Self::count(options);
        Ok(Store { tree: root::load::<Self, T>(worker, count)?, count })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(count, tree)| Store { tree, count }))
    }

    fn client(&self, index: usize, seed: u64) -> StoreClient<UPDATES> {
        let (mut rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let first = below(&mut rng, self.count);
        StoreClient { rng, stamp, updated: [0; UPDATES], first, passed: 0 }
    }

    #[inline]
    fn next(&self, client: &mut StoreClient<UPDATES>) {
        client.updated = std::array::from_fn(|_| key(below(&mut client.rng, self.count)));
        client.passed += INSERTS as u64;
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &StoreClient<UPDATES>, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(Self::lock(client))?;
        let mut objects = [0; UPDATES];
        for (object, &key) in objects.iter_mut().zip(&client.updated) {
            *object = self.tree.get(tx, key)?.ok_or(Stop::BadValue)?;
            tx.will_write(Addr::new(*object, 0), 8 * WORDS);
        }
        for (&object, &key) in objects.iter().zip(&client.updated) {
            put(tx, object, client.stamp, key)?;
        }
        for n in 0..INSERTS as u64 {
            let [expected, other] = self.slot(client, n);
            // The removed key's object becomes the inserted key's.
            let (object, comes) = match self.tree.remove(tx, expected)? {
                Some(object) => (object, other),
                None => (self.tree.remove(tx, other)?.ok_or(Stop::BadValue)?, expected),
            };
            put(tx, object, client.stamp, comes)?;
            self.tree.insert(tx, comes, object)?;
        }
        Ok(())
    }

    fn is_present<W: Words>(
        &self,
        client: &StoreClient<UPDATES>,
        tx: &mut W,
    ) -> Result<bool, Stop> {
        tx.lock(Self::lock(client))?;
        for &key in &client.updated {
            if !is_written(tx, self.tree, client.stamp, key)? {
                return Ok(false);
            }
        }
        for n in 0..INSERTS as u64 {
            let [one, other] = self.slot(client, n);
            let written = is_written(tx, self.tree, client.stamp, one)?
                || is_written(tx, self.tree, client.stamp, other)?;
            if !written {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, mut updated) = (Violations::default(), 0);
        let mut slots = std::collections::HashSet::new();
        let end = self.count + 2 * (Self::total(self.count) - self.count);
        let visit = |worker: &mut T, pairs: &[(u64, u64)], violations: &mut Violations| {
            let records = worker.transact(|tx| read_all(tx, pairs))?;
            for (&(key, _), record) in pairs.iter().zip(records) {
                let number = key.wrapping_mul(GATHER);
                if number >= end {
                    violations.add(Violation::Key { end, found: number });
                    continue;
                }
                match number.checked_sub(self.count) {
                    None => updated += 1,
                    Some(slot) => drop(slots.insert(slot / 2)),
                }
                check_record(key, &record, violations);
            }
            Ok(())
        };
        if tree::check(worker, self.tree, CHECKED, &mut violations, visit)? {
            violations.expect("records that are updated", self.count, updated);
            let (all, found) = (Self::total(self.count) - self.count, slots.len() as u64);
            violations.expect("slots that have a record", all, found);
        }
        Ok(violations.0)
    }
}

impl<const UPDATES: usize, const INSERTS: usize> Store<UPDATES, INSERTS> {
    fn count(options: &Options) -> u64 {
        scaled(COUNT, options, 32)
    }

    /// Locks the whole store: inserts change nodes that every other transaction passes.
    #[inline]
    fn lock(client: &StoreClient<UPDATES>) -> LockId {
        if INSERTS == 0 { LockId::of(lock::ROWS, client.updated[0]) } else { lock::ALL }
    }

    /// Returns the records in a store of this size, slots included.
    fn total(count: u64) -> u64 {
        if INSERTS == 0 { count } else { 2 * count }
    }

    /// Returns the keys of the n-th slot of a client's transaction, the one expected in it first.
    /// The expectation holds as long as this client alone has gone round.
    #[inline]
    fn slot(&self, client: &StoreClient<UPDATES>, n: u64) -> [u64; 2] {
        let passed = client.passed - INSERTS as u64 + n;
        let slot = (client.first + passed) % self.count;
        let parity = (passed / self.count) & 1;
        [parity, parity ^ 1].map(|parity| key(self.count + 2 * slot + parity))
    }
}

/// Frees some records and their entries in the tree; returns whether all are freed.
pub(crate) fn free_records<W: Allocate>(tree: BTreeMap, tx: &mut W) -> Result<bool, Stop> {
    let mut pairs = Vec::new();
    tree.range(tx, .., |key, object| {
        pairs.push((key, object));
        let more = (pairs.len() as u64) < STEP;
        if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for &(key, object) in &pairs {
        tx.retire(Addr::new(object, 0), 8 * WORDS as u64)?;
        tree.remove(tx, key)?;
    }
    if pairs.is_empty() { tree.free(tx, STEP) } else { Ok(false) }
}

pub(crate) fn read_all<W: Words>(
    tx: &mut W,
    pairs: &[(u64, u64)],
) -> Result<Vec<[u64; WORDS]>, Stop> {
    let mut records = Vec::with_capacity(pairs.len());
    for &(_, object) in pairs {
        let mut record = [0; WORDS];
        tx.read_words(Addr::new(object, 0), &mut record)?;
        records.push(record);
    }
    Ok(records)
}

pub(crate) fn check_record(key: u64, record: &[u64; WORDS], violations: &mut Violations) {
    if Stamp::of(record[0], key).is_none() {
        violations.add(Violation::Value { key, found: record[0] });
        return;
    }
    let expected = content(record[0], key);
    if let Some(word) = (0..WORDS).find(|&word| record[word] != expected[word]) {
        let (expected, found) = (expected[word], record[word]);
        violations.add(Violation::Record { key, word, expected, found });
    }
}
