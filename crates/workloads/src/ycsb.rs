//! `ycsb-a` to `ycsb-f`: the core workloads of the Yahoo! Cloud Serving Benchmark, over a B+-tree
//! of records.
//!
//! | | transactions, of 100 | keys |
//! |---|---|---|
//! | a | 50 read, 50 update | Zipf 0.99, scattered |
//! | b | 95 read, 5 update | Zipf 0.99, scattered |
//! | c | 100 read | Zipf 0.99, scattered |
//! | d | 95 read, 5 insert | read: the latest, Zipf 0.99 from the newest back |
//! | e | 95 scan 1 to 100 records, 5 insert | scan from: Zipf 0.99, scattered |
//! | f | 50 read, 50 read, modify and write | Zipf 0.99, scattered |
//!
//! `--update-percent` is the percentage of the workload's writes; `--zipf` sets another exponent, 0
//! for uniform. Records are those of `records`: 100 bytes that follow from a stamp and the key; 1
//! 000 000 times the scale. YCSB's own have ten fields of 100 bytes, of which an update writes one:
//! here the record is that field. A key is its number spread over all keys, as YCSB's hashed ones,
//! so that records inserted one after another are not neighbours in the tree.
//!
//! ```text
//!   numbers   ... | newest - count ... newest - 1 |          the number of records is constant
//!                   the next insert removes this     and adds number `newest`
//! ```
//!
//! An insert removes the oldest record and reuses its memory for the new one, so that the store is
//! stationary. The number of the newest is a word of the pool. Every insert writes it, and in
//! `ycsb-d` and `ycsb-e` every other transaction reads it. Each worker has its own word with the
//! stamp of its last insert.

use std::hint::black_box;
use std::ops::ControlFlow;

use collections::raw::BTreeMap;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, LockId, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::keys::{below, generator};
use crate::records::{
    GATHER, SLOT_BYTES, WORDS, check_record, free_records, is_written, key, put, read_all,
};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::tree;
use crate::violation::Violations;
use crate::zipf::Zipf;
use crate::{CLIENTS_MAX, Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Records at scale 1.
const COUNT: u64 = 1_000_000;

/// YCSB's exponent.
const ZIPF: f64 = 0.99;

/// Most records that one transaction scans.
const SCANNED: usize = 100;

/// Records that one transaction of loading inserts.
const STEP: u64 = 128;

/// Records that one transaction of the check reads.
const CHECKED: u64 = 1024;

/// A word in a block of its own, which avoids false sharing.
type Alone = [u64; 32];

/// The used block of [`Tables::newest`], between two unused ones.
const NEWEST: u64 = 1;

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    tree: BTreeMap,
    /// End of the numbers of records.
    newest: Array<Alone>,
    /// Stamps of the workers' last inserts.
    inserted: Array<Alone>,
}

/// A store of records.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb<const LETTER: char> {
    tables: Tables,
    count: u64,
}

/// Half reads, half updates.
pub type YcsbA = Ycsb<'a'>;
/// Reads, few updates.
pub type YcsbB = Ycsb<'b'>;
/// Reads.
pub type YcsbC = Ycsb<'c'>;
/// Reads of the latest records, few inserts.
pub type YcsbD = Ycsb<'d'>;
/// Short scans, few inserts.
pub type YcsbE = Ycsb<'e'>;
/// Half reads, half read-modify-writes.
pub type YcsbF = Ycsb<'f'>;

/// One worker's transactions on a store.
#[derive(Clone, Debug)]
pub struct YcsbClient {
    rng: Xoshiro256PlusPlus,
    index: u64,
    stamp: Stamp,
    update_percent: u64,
    /// `None`: uniform.
    zipf: Option<Zipf>,
    /// Whether the current transaction writes.
    writes: bool,
    /// Its record: from the oldest on, or in `ycsb-d` from the newest back.
    place: u64,
    /// Number of records to scan.
    length: usize,
}

impl<const LETTER: char> Build for Ycsb<LETTER> {
    const NAME: &'static str = match LETTER {
        'a' => "ycsb-a",
        'b' => "ycsb-b",
        'c' => "ycsb-c",
        'd' => "ycsb-d",
        'e' => "ycsb-e",
        _ => "ycsb-f",
    };
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<Tables, Stop> {
        let (tree, newest) = (BTreeMap::create(tx)?, Array::create(tx, 2 * NEWEST + 1)?);
        Ok(Tables { tree, newest, inserted: Array::reserve(tx, CLIENTS_MAX as u64)? })
    }

    /// Progress 0: preparing; 1 + n: the n-th record is next.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        load(tables, tx, size, progress)
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let is_gone = free_records(tables.tree, tx)?;
        if is_gone {
            tables.newest.free(tx)?;
            tables.inserted.free(tx)?;
        }
        Ok(is_gone)
    }
}

impl<const LETTER: char> Workload for Ycsb<LETTER> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = match LETTER {
        'a' => "YCSB A: read or update a record of 100 bytes, half and half",
        'b' => "YCSB B: read a record, or update it, 5 in 100",
        'c' => "YCSB C: read a record",
        'd' => "YCSB D: read one of the latest records, or insert one, 5 in 100",
        'e' => "YCSB E: scan up to 100 records, or insert one, 5 in 100",
        _ => "YCSB F: read a record, or read, modify and write it, half and half",
    };
    const SUPPORTS: Supported =
        Supported { update_percent: true, zipf: true, ..Supported::NOTHING };
    const READS: bool = true;
    type Client = YcsbClient;

    fn heap_bytes(options: &Options) -> u64 {
        let count = scaled(COUNT, options, 32);
        let nodes = if Self::INSERTS { tree::bytes_changing::<28> } else { tree::bytes::<28> };
        let blocks = CLIENTS_MAX as u64 + 2 * NEWEST + 1;
        with_slack((count + 1) * SLOT_BYTES + nodes(count) + blocks * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let count = scaled(COUNT, options, 32);
        Ok(Ycsb { tables: root::load::<Self, T>(worker, count)?, count })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(count, tables)| Ycsb { tables, count }))
    }

    fn client(&self, index: usize, seed: u64) -> YcsbClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let mut client = YcsbClient {
            rng,
            index: index as u64,
            stamp,
            update_percent: 0,
            zipf: None,
            writes: false,
            place: 0,
            length: 0,
        };
        self.tune(&mut client, &Options::default());
        client
    }

    fn tune(&self, client: &mut YcsbClient, options: &Options) {
        let own = match LETTER {
            'a' | 'f' => 50,
            'c' => 0,
            _ => 5,
        };
        client.update_percent = u64::from(options.update_percent.unwrap_or(own));
        let exponent = options.zipf.unwrap_or(ZIPF);
        client.zipf = (exponent > 0.0).then(|| Zipf::new(self.count, exponent));
    }

    #[inline]
    fn next(&self, client: &mut YcsbClient) {
        let rng = &mut client.rng;
        client.place = match &client.zipf {
            None => below(rng, self.count),
            Some(zipf) if LETTER == 'd' => zipf.rank(rng),
            Some(zipf) => zipf.scattered(rng),
        };
        client.writes = below(rng, 100) < client.update_percent;
        if LETTER == 'e' {
            client.length = 1 + below(rng, SCANNED as u64) as usize;
        }
        client.stamp.advance();
    }

    #[inline]
    fn reads_only(&self, client: &YcsbClient) -> bool {
        !client.writes
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &YcsbClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(Self::lock(client))?;
        let Ycsb { tables, count } = *self;
        match (client.writes, LETTER) {
            (true, 'd' | 'e') => insert(tables, count, client, tx),
            (true, _) => update(tables, client, LETTER == 'f', tx),
            (false, 'e') => scan(tables, count, client, tx),
            (false, _) => look_up(tables, client, LETTER == 'd', tx),
        }
    }

    fn is_present<W: Words>(&self, client: &YcsbClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(Self::lock(client))?;
        if !client.writes {
            return Ok(true);
        }
        if Self::INSERTS {
            let found = tx.read(inserted(self.tables, client.index)?)?;
            return Ok(client.stamp.is_in(found, client.index));
        }
        is_written(tx, self.tables.tree, client.stamp, key(client.place))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        check(self.tables, self.count, worker)
    }
}

impl<const LETTER: char> Ycsb<LETTER> {
    /// Whether writing transactions insert.
    const INSERTS: bool = LETTER == 'd' || LETTER == 'e';

    /// Locks the whole store: inserts change nodes that every other transaction passes.
    #[inline]
    fn lock(client: &YcsbClient) -> LockId {
        if Self::INSERTS { lock::ALL } else { LockId::of(lock::ROWS, client.place) }
    }
}

// Six workloads share these functions: each is compiled once for a design, and a call costs little
// beside a lookup.

#[inline(never)]
fn load<W: Allocate>(
    tables: Tables,
    tx: &mut W,
    size: u64,
    progress: u64,
) -> Result<Option<u64>, Stop> {
    let Some(first) = progress.checked_sub(1) else {
        return Ok(Some(u64::from(tables.inserted.prepare(tx, STEP)?)));
    };
    let end = (first + STEP).min(size);
    for number in first..end {
        let (key, object) = (key(number), tx.allocate(8 * WORDS)?);
        put(tx, object, Stamp::LOADED, key)?;
        tables.tree.insert(tx, key, object)?;
    }
    tx.write(tables.newest.at(NEWEST)?.addr(), end)?;
    Ok((end < size).then_some(1 + end))
}

/// Reads a record; in `ycsb-d` one of the latest.
#[inline(never)]
fn look_up<W: Words>(
    tables: Tables,
    client: &YcsbClient,
    latest: bool,
    tx: &mut W,
) -> Result<(), Stop> {
    let mut number = client.place;
    if latest {
        number = tx.read(tables.newest.at(NEWEST)?.addr())?.wrapping_sub(1 + number);
    }
    let object = tables.tree.get(tx, key(number))?.ok_or(Stop::BadValue)?;
    black_box(read(tx, object)?);
    Ok(())
}

/// Overwrites a record; in `ycsb-f` after reading it.
#[inline(never)]
fn update<W: Words>(
    tables: Tables,
    client: &YcsbClient,
    reads: bool,
    tx: &mut W,
) -> Result<(), Stop> {
    let key = key(client.place);
    let object = tables.tree.get(tx, key)?.ok_or(Stop::BadValue)?;
    tx.will_write(Addr::new(object, 0), 8 * WORDS);
    if reads {
        black_box(read(tx, object)?);
    }
    put(tx, object, client.stamp, key)
}

/// Inserts a record in the place of the oldest.
#[inline(never)]
fn insert<W: Allocate>(
    tables: Tables,
    count: u64,
    client: &YcsbClient,
    tx: &mut W,
) -> Result<(), Stop> {
    let (tree, newest) = (tables.tree, tables.newest.at(NEWEST)?.addr());
    let number = tx.read(newest)?;
    tx.write(newest, number.wrapping_add(1))?;
    let oldest = key(number.wrapping_sub(count));
    let object = tree.remove(tx, oldest)?.ok_or(Stop::BadValue)?;
    put(tx, object, client.stamp, key(number))?;
    tree.insert(tx, key(number), object)?;
    tx.write(inserted(tables, client.index)?, client.stamp.value(client.index))
}

#[inline(never)]
fn scan<W: Words>(tables: Tables, count: u64, client: &YcsbClient, tx: &mut W) -> Result<(), Stop> {
    let newest = tx.read(tables.newest.at(NEWEST)?.addr())?;
    let from = key(newest.wrapping_sub(count).wrapping_add(client.place));
    let (mut objects, mut found) = ([0; SCANNED], 0);
    tables.tree.range(tx, from.., |_, object| {
        objects[found] = object;
        found += 1;
        let more = found < client.length;
        if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for &object in &objects[..found] {
        tx.will_read(Addr::new(object, 0), 8 * WORDS);
    }
    for &object in &objects[..found] {
        black_box(read(tx, object)?);
    }
    Ok(())
}

#[inline(never)]
fn check<T: Transact>(
    tables: Tables,
    count: u64,
    worker: &mut T,
) -> Result<Vec<Violation>, T::Error> {
    let newest = tables.newest.at(NEWEST);
    let newest = worker.transact(|tx| tx.read(newest?.addr()))?;
    let (mut violations, mut records) = (Violations::default(), 0);
    let visit = |worker: &mut T, pairs: &[(u64, u64)], violations: &mut Violations| {
        let found = worker.transact(|tx| read_all(tx, pairs))?;
        for (&(key, _), record) in pairs.iter().zip(found) {
            let number = key.wrapping_mul(GATHER);
            if newest.wrapping_sub(number).wrapping_sub(1) >= count {
                violations.add(Violation::Key { end: newest, found: number });
            }
            check_record(key, &record, violations);
            records += 1;
        }
        Ok(())
    };
    if tree::check(worker, tables.tree, CHECKED, &mut violations, visit)? {
        violations.expect("records", count, records);
    }
    for index in 0..CLIENTS_MAX as u64 {
        let place = inserted(tables, index);
        let found = worker.transact(|tx| tx.read(place?))?;
        if found != 0 && Stamp::of(found, index).is_none() {
            violations.add(Violation::Value { key: index, found });
        }
    }
    Ok(violations.0)
}

/// Returns the place of a worker's last insert; neighbours in number are far apart.
fn inserted(tables: Tables, index: u64) -> Result<Addr, Stop> {
    let place = index.reverse_bits() >> (u64::BITS - CLIENTS_MAX.trailing_zeros());
    Ok(tables.inserted.at(place)?.addr())
}

#[inline]
fn read<W: Words>(tx: &mut W, object: u64) -> Result<[u64; WORDS], Stop> {
    let mut record = [0; WORDS];
    tx.read_words(Addr::new(object, 0), &mut record)?;
    Ok(record)
}
