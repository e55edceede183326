//! `tatp-hash`, `tatp-btree`: Update Location of the TATP benchmark, over a hash map and over a
//! B+-tree (DudeTM, section 5.1).
//!
//! A mobile phone network records the cell of each subscriber. The transaction gets the dialled
//! number, looks up the subscriber, and writes one field of its record. 100 000 subscribers times
//! the scale, drawn uniformly.

use collections::raw::{BTreeMap, HashMap, whole};
use words::{
    Allocate, Array, BLOCK_STRIDE, Field, LockId, Objects, Place, Stop, Transact, Words, field,
    work,
};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::index::Index;
use crate::keys::KeyClient;
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Subscribers at scale 1.
const SUBSCRIBERS: u64 = 100_000;

/// Blocks that one transaction of loading prepares, and subscribers that one inserts or checks.
const STEP: u64 = 256;

/// A subscriber, a row of 64 bytes.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Subscriber {
    /// 1, 2, ...
    id: u64,
    /// The phone number.
    number: u64,
    /// Ten flags, ten half bytes and ten bytes of the benchmark's table.
    flags: [u8; 24],
    /// The exchange, which this transaction does not change.
    exchange: u64,
    /// The cell of the subscriber, which is updated.
    cell: u64,
    /// Unused.
    reserved: u64,
}

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    /// The index from phone number to ID.
    by_number: [u64; 3],
    /// By ID minus one.
    subscribers: Array<Subscriber>,
}

/// A network of subscribers, found by their numbers through this index.
#[derive(Clone, Copy, Debug)]
pub struct Tatp<I> {
    by_number: I,
    subscribers: Array<Subscriber>,
}

/// A network of subscribers in a hash map.
pub type TatpHash = Tatp<HashMap>;

/// A network of subscribers in a B+-tree.
pub type TatpBtree = Tatp<BTreeMap>;

/// Returns the phone number of a subscriber: 15 digits, without a pattern, one for each ID.
pub(crate) fn number(id: u64) -> u64 {
    // An odd factor permutes the numbers of 49 bits.
    id.wrapping_mul(0x1_2345_6789_abcd) & ((1 << 49) - 1)
}

impl<I: Index> Build for Tatp<I> {
    const NAME: &'static str = I::TATP_NAME;
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let by_number = I::reserve(tx, size)?.to_words();
        Ok(Tables { by_number, subscribers: Array::reserve(tx, size)? })
    }

    /// Progress 0 and 1: preparing; 2 + n: subscriber n is next.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Tatp { by_number, subscribers } = Tatp::<I>::of(tables);
        let Some(first) = progress.checked_sub(2) else {
            let prepared = match progress {
                0 => by_number.prepare(tx)?,
                _ => subscribers.prepare(tx, STEP)?,
            };
            return Ok(Some(progress + u64::from(prepared)));
        };
        let end = (first + STEP).min(size);
        for id in first + 1..=end {
            let number = number(id);
            let cell = Stamp::LOADED.value(id - 1);
            let row = Subscriber { id, number, flags: [0; 24], exchange: id, cell, reserved: 0 };
            tx.set(subscribers.at(id - 1)?, row)?;
            by_number.insert(tx, number, id)?;
        }
        Ok((end < size).then_some(2 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let Tatp { by_number, subscribers } = Tatp::<I>::of(tables);
        let done = by_number.free(tx)?;
        if done {
            subscribers.free(tx)?;
        }
        Ok(done)
    }
}

impl<I: Index> Workload for Tatp<I> {
    const NAME: &'static str = I::TATP_NAME;
    const ABOUT: &'static str = I::TATP_ABOUT;
    const SUPPORTS: Supported = Supported { zipf: true, ..Supported::NOTHING };
    const ANNOUNCES: bool = true;
    type Client = KeyClient;

    fn heap_bytes(options: &Options) -> u64 {
        let count = scaled(SUBSCRIBERS, options, 16);
        with_slack(I::heap_bytes(count) + (count.div_ceil(4) + 1) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Tatp<I>, T::Error> {
        let count = scaled(SUBSCRIBERS, options, 16);
        Ok(Tatp::of(root::load::<Tatp<I>, T>(worker, count)?))
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Tatp<I>>, T::Error> {
        Ok(root::open::<Tatp<I>, T>(worker)?.map(|(_, tables)| Tatp::of(tables)))
    }

    fn client(&self, index: usize, seed: u64) -> KeyClient {
        KeyClient::new(index, seed)
    }

    fn tune(&self, client: &mut KeyClient, options: &Options) {
        client.tune(options, self.subscribers.len());
    }

    #[inline]
    fn next(&self, client: &mut KeyClient) {
        client.advance(self.subscribers.len());
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &KeyClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(LockId::of(lock::ROWS, client.key))?;
        let place = self.cell(client, tx)?;
        tx.set(place, client.value())
    }

    fn is_present<W: Words>(&self, client: &KeyClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(LockId::of(lock::ROWS, client.key))?;
        let place = self.cell(client, tx)?;
        let found = tx.get(place)?;
        Ok(client.is_in(Some(found)))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        let count = self.subscribers.len();
        let answer = whole(worker, |tx, from| self.by_number.check(tx, from))?;
        violations.add_damage(answer.damage);
        violations.expect("numbers in the index", count, answer.entries);
        for first in (0..count).step_by(STEP as usize) {
            let rows = worker.transact(|tx| {
                let mut rows = Vec::new();
                for index in first..(first + STEP).min(count) {
                    let found = self.by_number.get(tx, number(index + 1))?;
                    rows.push((tx.get(self.subscribers.at(index)?)?, found));
                }
                Ok(rows)
            })?;
            for (index, (row, found)) in (first..).zip(rows) {
                violations.expect("id in a subscriber's row", index + 1, row.id);
                violations.expect("a subscriber's number", number(index + 1), row.number);
                violations.expect("a subscriber's exchange", index + 1, row.exchange);
                violations.expect("id in the index", index + 1, found.unwrap_or(0));
                if Stamp::of(row.cell, index).is_none() {
                    violations.add(Violation::Value { key: index, found: row.cell });
                }
            }
        }
        Ok(violations.0)
    }
}

impl<I: Index> Tatp<I> {
    fn of(tables: Tables) -> Tatp<I> {
        let Tables { by_number, subscribers } = tables;
        Tatp { by_number: I::from_words(by_number), subscribers }
    }

    /// Looks the client's number up; returns the place of the subscriber's cell.
    #[inline]
    fn cell<W: Words>(&self, client: &KeyClient, tx: &mut W) -> Result<Field<u64>, Stop> {
        let id = self.by_number.get(tx, number(client.key + 1))?.unwrap_or(0);
        tx.after_last_read();
        // An ID of 0 wraps round, and is refused as too large.
        let row = self.subscribers.at(id.wrapping_sub(1))?;
        let cell = field!(row, Subscriber, cell);
        tx.will_write(cell.addr(), 8);
        Ok(cell)
    }
}
