//! `tatp-mix`: six of TATP's transactions over B+-trees of at most 32 children (Pisces, section
//! 5.3).
//!
//! | | of 100 | |
//! |---|---|---|
//! | Get Subscriber Data | 36 | a row by its id |
//! | Get New Destination | 10 | an active facility, and where calls go at an hour |
//! | Get Access Data | 36 | a row by ID and type, if present |
//! | Update Subscriber Data | 2 | a bit of a subscriber, and data of one of its facilities |
//! | Update Location | 14 | a field of a subscriber, found by its number |
//! | Insert, Delete Call Forwarding | 1 and 1 | found by the number; a pair in one tree |
//!
//! The benchmark has seven transactions: 35, 10 and 35 of 100 read, 2, 14, 2 and 2 write. The paper
//! has three that read and three that write, 18 of 100, that is all but the removal. Insertion
//! alone would fill the table, so here it alternates with removal, 2 of 100 together. The reads get
//! the remainder to 100. `--update-percent` changes the 18.
//!
//! ```text
//!   numbers (tree)             number -> id
//!   subscribers (tree, array)  id -> row of 64 bytes
//!   access (tree, array)       id, type 1 to 4 -> row of 16 bytes
//!   facilities (tree, array)   id, type 1 to 4 -> row of 16 bytes
//!   forwardings (tree)         id, type, hour 0, 8 or 16 -> where to: a stamp
//! ```
//!
//! 200 000 subscribers times the scale. One has 1 to 4 rows of access data and 1 to 4 facilities,
//! each with up to two forwardings, at 0 and 8 o'clock, never removed. Those at 16 o'clock of each
//! subscriber's first facility are inserted and removed, each a worker's own, in the order of
//! `churn.rs`. A writing transaction writes 1 word (Update Location), 2 (Update Subscriber Data) or
//! some 7 (an insertion; a removal 3).
//!
//! Snapshot isolation suffices without protection. An update's other reads (the number of a
//! subscriber, the presence of a facility) never change, and changes of the tree write the nodes
//! that they rely on.

use std::hint::black_box;
use std::ops::ControlFlow;

use collections::raw::{BTree32, whole};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::churn::{Change, Churn, NUMBERS_MIN, workers_of};
use crate::keys::{below, generator, mix};
use crate::root::{self, Build};
use crate::stamp::{Stamp, content};
use crate::tatp::number;
use crate::tree;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Subscribers at scale 1, and more than any pool holds.
const SUBSCRIBERS: u64 = 200_000;
const SUBSCRIBERS_MAX: u64 = 1 << 32;

/// Default percentage of transactions that write.
const UPDATE_PERCENT: u8 = 18;

/// Blocks that one transaction of loading prepares, subscribers that one inserts or checks, and
/// nodes that one frees.
const STEP: u64 = 64;

/// Leaves that one transaction of the check reads.
const LEAVES: u64 = 256;

/// Trees: numbers, subscribers, access, facilities, forwardings.
const TREES: usize = 5;

/// Words of a subscriber's row: the stamps of its bits and of its cell, and the fixed words.
const ROW_WORDS: usize = 8;
type Row = [u64; ROW_WORDS];

/// Indexes of the updated words.
const BITS: u64 = 0;
const CELL: u64 = 8;

/// Index of the fixed words.
const FIXED: usize = 6;

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    numbers: BTree32,
    subscribers: BTree32,
    access: BTree32,
    facilities: BTree32,
    forwardings: BTree32,
    /// By ID minus one.
    rows: Array<Row>,
    /// By [`place`].
    access_rows: Array<[u64; 2]>,
    /// By [`place`]: the stamp of the data, and the fixed word.
    facility_rows: Array<[u64; 2]>,
    /// Number of trees freed.
    freed: Array<u64>,
}

/// A network of subscribers.
#[derive(Clone, Copy, Debug)]
pub struct TatpMix {
    tables: Tables,
    count: u64,
}

/// One worker's transactions.
#[derive(Clone, Debug)]
pub struct TatpMixClient {
    rng: Xoshiro256PlusPlus,
    index: usize,
    stamp: Stamp,
    churn: Churn,
    update_percent: u64,
    task: Task,
    /// The subscriber's id; a type from 1 to 4; an hour.
    id: u64,
    kind: u64,
    hour: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    GetSubscriber,
    GetDestination,
    GetAccess,
    UpdateSubscriber,
    UpdateLocation,
    Forward(Change),
}

/// Returns the key of a row by ID and type; its place is the key minus four.
fn key(id: u64, kind: u64) -> u64 {
    id << 2 | (kind - 1)
}

fn place(key: u64) -> u64 {
    key.wrapping_sub(4)
}

/// Returns the key of a facility's forwarding at an hour.
fn forwarding(facility: u64, hour: u64) -> u64 {
    (facility << 2) | (hour / 8)
}

/// Returns a subscriber's types of access data, or of facilities: four bits, one at least.
fn kinds(id: u64, table: u64) -> u64 {
    // 1 to 4 of them, equally often: a subset of that size, rotated.
    let random = mix(id << 1 | table);
    let some = (2_u64 << (random % 4)) - 1;
    let rotation = random >> 32 & 3;
    (some << rotation | some >> (4 - rotation)) & 15
}

fn has(kinds: u64, kind: u64) -> bool {
    kinds >> (kind - 1) & 1 == 1
}

/// Returns the first facility of a subscriber.
fn first_facility(id: u64) -> u64 {
    key(id, 1 + u64::from(kinds(id, 1).trailing_zeros()))
}

/// Returns whether a facility's forwarding at this hour is loaded.
fn is_forwarded(facility: u64, hour: u64) -> bool {
    hour < 16 && mix(forwarding(facility, hour)) & 1 == 0
}

/// Returns the fixed words of access data and facilities.
fn fixed(key: u64) -> u64 {
    mix(!key)
}

/// Returns whether a facility is active: 85 of 100 are.
fn is_active(fixed: u64) -> bool {
    fixed % 100 < 85
}

impl Build for TatpMix {
    const NAME: &'static str = "tatp-mix";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        Ok(Tables {
            numbers: BTree32::create(tx)?,
            subscribers: BTree32::create(tx)?,
            access: BTree32::create(tx)?,
            facilities: BTree32::create(tx)?,
            forwardings: BTree32::create(tx)?,
            rows: Array::reserve(tx, size)?,
            access_rows: Array::reserve(tx, 4 * size)?,
            facility_rows: Array::reserve(tx, 4 * size)?,
            freed: Array::create(tx, 1)?,
        })
    }

    /// Progress 0, 1 and 2: preparing; 3 + n: subscriber n + 1 is next.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(first) = progress.checked_sub(3) else {
            let is_prepared = match progress {
                0 => tables.rows.prepare(tx, 4 * STEP)?,
                1 => tables.access_rows.prepare(tx, 4 * STEP)?,
                _ => tables.facility_rows.prepare(tx, 4 * STEP)?,
            };
            return Ok(Some(progress + u64::from(is_prepared)));
        };
        let end = (first + STEP).min(size);
        for id in first + 1..=end {
            load_subscriber(&tables, tx, id)?;
        }
        Ok((end < size).then_some(3 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let count = tx.read(freed)?;
        if let Some(tree) = tables.trees().get(count as usize) {
            let is_gone = tree.free(tx, STEP)?;
            tx.write(freed, count + u64::from(is_gone))?;
            return Ok(false);
        }
        tables.rows.free(tx)?;
        tables.access_rows.free(tx)?;
        tables.facility_rows.free(tx)?;
        tables.freed.free(tx)?;
        Ok(true)
    }
}

impl Tables {
    fn trees(&self) -> [BTree32; TREES] {
        [self.numbers, self.subscribers, self.access, self.facilities, self.forwardings]
    }
}

fn load_subscriber<W: Allocate>(tables: &Tables, tx: &mut W, id: u64) -> Result<(), Stop> {
    tables.numbers.insert(tx, number(id), id)?;
    tables.subscribers.insert(tx, id, id - 1)?;
    let loaded = Stamp::LOADED.value(id);
    tx.write_words(tables.rows.at(id - 1)?.addr(), &row(id, loaded, loaded))?;
    for kind in 1..=4 {
        let key = key(id, kind);
        if has(kinds(id, 0), kind) {
            tables.access.insert(tx, key, place(key))?;
            let at = tables.access_rows.at(place(key))?.addr();
            tx.write_words(at, &[fixed(key), fixed(!key)])?;
        }
        if has(kinds(id, 1), kind) {
            tables.facilities.insert(tx, key, place(key))?;
            let at = tables.facility_rows.at(place(key))?.addr();
            tx.write_words(at, &[Stamp::LOADED.value(key), fixed(key)])?;
            for hour in [0, 8] {
                let forwarding = forwarding(key, hour);
                if is_forwarded(key, hour) {
                    let to = Stamp::LOADED.value(forwarding);
                    tables.forwardings.insert(tx, forwarding, to)?;
                }
            }
        }
    }
    Ok(())
}

/// Makes the words of a subscriber's row.
fn row(id: u64, bits: u64, cell: u64) -> Row {
    let mut row = [bits, cell, 0, 0, 0, 0, 0, 0];
    row[ROW_WORDS - FIXED..].copy_from_slice(&content::<FIXED>(id, number(id)));
    row
}

impl Workload for TatpMix {
    const NAME: &'static str = <TatpMix as Build>::NAME;
    const ABOUT: &'static str = "TATP, six transactions over b+-trees of 32 children, 18 % write";
    const SUPPORTS: Supported = Supported { update_percent: true, ..Supported::NOTHING };
    const READS: bool = true;
    type Client = TatpMixClient;

    fn heap_bytes(options: &Options) -> u64 {
        let count = Self::count(options);
        let numbers = tree::bytes::<31>(count) + tree::bytes_ascending::<31>(count);
        let kinds = 2 * tree::bytes_ascending::<31>(4 * count);
        // Two of each facility, and one of each subscriber.
        let forwardings = tree::bytes_changing::<31>(9 * count / 2);
        let blocks = count / 4 + 2 * (count / 4) + 4;
        with_slack(numbers + kinds + forwardings + blocks * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<TatpMix, T::Error> {
        let count = Self::count(options);
        Ok(TatpMix { tables: root::load::<TatpMix, T>(worker, count)?, count })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<TatpMix>, T::Error> {
        let found = root::open::<TatpMix, T>(worker)?;
        Ok(found.map(|(count, tables)| TatpMix { tables, count: count.min(SUBSCRIBERS_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> TatpMixClient {
        let (mut rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let churn = Churn::new(index, CLIENTS_MAX, self.count, rng.next_u64());
        let update_percent = u64::from(UPDATE_PERCENT);
        let (task, id, kind, hour) = (Task::GetSubscriber, 1, 1, 0);
        TatpMixClient { rng, index, stamp, churn, update_percent, task, id, kind, hour }
    }

    fn tune(&self, client: &mut TatpMixClient, options: &Options) {
        let workers = workers_of(client.index, options);
        client.churn = Churn::new(client.index, workers, self.count, client.rng.next_u64());
        client.update_percent = u64::from(options.update_percent.unwrap_or(UPDATE_PERCENT));
    }

    #[inline]
    fn next(&self, client: &mut TatpMixClient) {
        let rng = &mut client.rng;
        client.id = 1 + below(rng, self.count);
        client.kind = 1 + below(rng, 4);
        client.hour = 8 * below(rng, 3);
        client.task = match below(rng, 100) < client.update_percent {
            true => match below(rng, 18) {
                0..2 => Task::UpdateSubscriber,
                2..4 => Task::Forward(client.churn.advance()),
                _ => Task::UpdateLocation,
            },
            false => match below(rng, 82) {
                0..36 => Task::GetSubscriber,
                36..46 => Task::GetDestination,
                _ => Task::GetAccess,
            },
        };
        if let Task::Forward(Change::In(own) | Change::Out(own)) = client.task {
            client.id = 1 + own;
        }
        client.stamp.advance();
    }

    #[inline]
    fn reads_only(&self, client: &TatpMixClient) -> bool {
        matches!(client.task, Task::GetSubscriber | Task::GetDestination | Task::GetAccess)
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &TatpMixClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(lock::ALL)?; // insertions change nodes that every other transaction passes
        let (tables, id) = (&self.tables, client.id);
        match client.task {
            Task::GetSubscriber => {
                let mut row = [0; ROW_WORDS];
                let place = tables.subscribers.get(tx, id)?.ok_or(Stop::BadValue)?;
                tx.after_last_read();
                tx.read_words(tables.rows.at(place)?.addr(), &mut row)?;
                black_box(row);
                Ok(())
            }
            Task::GetDestination => self.get_destination(client, tx),
            Task::GetAccess => {
                if let Some(place) = tables.access.get(tx, key(id, client.kind))? {
                    let mut row = [0; 2];
                    tx.after_last_read();
                    tx.read_words(tables.access_rows.at(place)?.addr(), &mut row)?;
                    black_box(row);
                }
                Ok(())
            }
            Task::UpdateSubscriber => self.update_subscriber(client, tx),
            Task::UpdateLocation => {
                let id = self.id(client, tx)?;
                let row = self.row(id, tx)?;
                tx.write(row.plus(CELL), client.stamp.value(id))
            }
            Task::Forward(change) => {
                let id = self.id(client, tx)?;
                let facility = first_facility(id);
                tables.facilities.get(tx, facility)?.ok_or(Stop::BadValue)?;
                let forwarding = forwarding(facility, 16);
                match change {
                    Change::In(_) => {
                        let to = client.stamp.value(forwarding);
                        tables.forwardings.insert(tx, forwarding, to).map(drop)
                    }
                    Change::Out(_) => {
                        let gone = tables.forwardings.remove(tx, forwarding)?;
                        gone.map(drop).ok_or(Stop::BadValue)
                    }
                }
            }
        }
    }

    fn is_present<W: Words>(&self, client: &TatpMixClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(lock::ALL)?;
        let word = match client.task {
            Task::Forward(_) => {
                return client.churn.is_done(client.stamp, |own| {
                    let forwarding = forwarding(first_facility(1 + own), 16);
                    Ok((self.tables.forwardings.get(tx, forwarding)?, forwarding))
                });
            }
            Task::UpdateLocation => CELL,
            Task::UpdateSubscriber => BITS,
            _ => return Ok(true),
        };
        let found = self.row(client.id, tx)?.plus(word);
        Ok(client.stamp.is_in(tx.read(found)?, client.id))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        self.check_all(worker)
    }
}

impl TatpMix {
    fn count(options: &Options) -> u64 {
        scaled(SUBSCRIBERS, options, NUMBERS_MIN)
    }

    /// Returns the ID of the client's subscriber, looked up by its number.
    #[inline]
    fn id<W: Words>(&self, client: &TatpMixClient, tx: &mut W) -> Result<u64, Stop> {
        let id = self.tables.numbers.get(tx, number(client.id))?.ok_or(Stop::BadValue)?;
        tx.after_last_read();
        if id == client.id { Ok(id) } else { Err(Stop::BadValue) }
    }

    /// Returns the place of a subscriber's row.
    #[inline]
    fn row<W: Words>(&self, id: u64, tx: &mut W) -> Result<Addr, Stop> {
        let place = self.tables.subscribers.get(tx, id)?.ok_or(Stop::BadValue)?;
        tx.after_last_read();
        let at = self.tables.rows.at(place)?.addr();
        tx.will_write(at, 16);
        Ok(at)
    }

    /// Returns the target of a facility's forwarding at an hour, when it is active.
    #[inline]
    fn get_destination<W: Words>(&self, client: &TatpMixClient, tx: &mut W) -> Result<(), Stop> {
        let (tables, facility) = (&self.tables, key(client.id, client.kind));
        let Some(place) = tables.facilities.get(tx, facility)? else {
            return Ok(());
        };
        tx.after_last_read();
        if !is_active(tx.read(tables.facility_rows.at(place)?.addr().plus(8))?) {
            return Ok(());
        }
        let hours = forwarding(facility, 0)..=forwarding(facility, client.hour);
        tables.forwardings.range(tx, hours, |_, to| {
            black_box(to);
            ControlFlow::Continue(())
        })
    }

    /// Writes a subscriber's bits, and the data of a facility if present.
    #[inline]
    fn update_subscriber<W: Words>(&self, client: &TatpMixClient, tx: &mut W) -> Result<(), Stop> {
        let (id, facility) = (client.id, key(client.id, client.kind));
        let row = self.row(id, tx)?;
        tx.write(row.plus(BITS), client.stamp.value(id))?;
        if let Some(place) = self.tables.facilities.get(tx, facility)? {
            tx.after_last_read();
            let at = self.tables.facility_rows.at(place)?.addr();
            tx.write(at, client.stamp.value(facility))?;
        }
        Ok(())
    }

    fn check_all<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, mut entries) = (Violations::default(), [0; TREES]);
        for (tree, entries) in self.tables.trees().iter().zip(&mut entries) {
            let answer = whole(worker, |tx, from| tree.check(tx, from, LEAVES))?;
            violations.add_damage(answer.damage);
            *entries = answer.entries;
        }
        if !violations.0.is_empty() {
            return Ok(violations.0); // a lookup would end in a less specific `Stop`
        }
        let mut expected = [self.count, self.count, 0, 0, 0];
        for first in (1..=self.count).step_by(STEP as usize) {
            let ids = first..(first + STEP).min(self.count + 1);
            let found = worker.transact(|tx| {
                let (mut violations, mut seen) = (Violations::default(), [0; TREES]);
                for id in ids.clone() {
                    self.check_subscriber(id, tx, &mut violations, &mut seen)?;
                }
                Ok((violations.0, seen))
            })?;
            found.0.into_iter().for_each(|violation| violations.add(violation));
            expected.iter_mut().zip(found.1).for_each(|(all, seen)| *all += seen);
        }
        let what = ["numbers", "subscribers", "access data", "facilities", "forwardings"];
        for ((what, expected), found) in what.into_iter().zip(expected).zip(entries) {
            violations.expect(what, expected, found);
        }
        Ok(violations.0)
    }

    /// Checks all rows of a subscriber, and counts them by tree.
    fn check_subscriber<W: Words>(
        &self,
        id: u64,
        tx: &mut W,
        violations: &mut Violations,
        seen: &mut [u64; TREES],
    ) -> Result<(), Stop> {
        let tables = &self.tables;
        let found = tables.numbers.get(tx, number(id))?;
        violations.expect("the id of a number", id, found.unwrap_or(0));
        let (at, mut words) = (self.row(id, tx)?, [0; ROW_WORDS]);
        tx.read_words(at, &mut words)?;
        for stamp in &words[..2] {
            expect_stamp(*stamp, id, violations);
        }
        for (word, expected) in row(id, words[0], words[1]).into_iter().enumerate() {
            if words[word] != expected {
                violations.add(Violation::Record { key: id, word, expected, found: words[word] });
            }
        }
        for kind in 1..=4 {
            let (key, mut pair) = (key(id, kind), [0; 2]);
            if has(kinds(id, 0), kind) {
                seen[2] += 1;
                let place = tables.access.get(tx, key)?.ok_or(Stop::BadValue)?;
                tx.read_words(tables.access_rows.at(place)?.addr(), &mut pair)?;
                violations.expect("access data", fixed(key), pair[0]);
                violations.expect("access data", fixed(!key), pair[1]);
            }
            if !has(kinds(id, 1), kind) {
                continue;
            }
            seen[3] += 1;
            let place = tables.facilities.get(tx, key)?.ok_or(Stop::BadValue)?;
            tx.read_words(tables.facility_rows.at(place)?.addr(), &mut pair)?;
            expect_stamp(pair[0], key, violations);
            violations.expect("a facility", fixed(key), pair[1]);
            for hour in [0, 8, 16] {
                let forwarding = forwarding(key, hour);
                let to = tables.forwardings.get(tx, forwarding)?;
                if let Some(to) = to {
                    expect_stamp(to, forwarding, violations);
                }
                let may_go = hour == 16 && key == first_facility(id);
                if may_go || is_forwarded(key, hour) {
                    seen[4] += u64::from(to.is_some() || !may_go);
                }
            }
        }
        Ok(())
    }
}

fn expect_stamp(found: u64, key: u64, violations: &mut Violations) {
    if Stamp::of(found, key).is_none() {
        violations.add(Violation::Value { key, found });
    }
}
