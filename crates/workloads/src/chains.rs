//! `chains`, `chains-sparse`, `list`: values of 64 bytes in linked lists, searched, inserted and
//! removed, one a transaction (Pisces, section 5.2 and figure 9c).
//!
//! | | pairs at scale 1 | lists |
//! |---|---|---|
//! | `chains` | 100 000 | 10 000: ten entries each |
//! | `chains-sparse` | 7 500 | 10 000: most hold one or none |
//! | `list` | 1000 | 1 |
//!
//! ```text
//!   numbers of keys   0 ... pairs - 1        loaded, never removed
//!                     pairs ... 2 pairs - 1  each a worker's own: inserted and removed again
//! ```
//!
//! A search draws a uniform number, so about half of the searches succeed, and reads the whole
//! value. Of 100 transactions 20 write (`--update-percent`), half of them inserts and half
//! removals, in the order of `churn.rs`. Beside the loaded pairs up to 1024 more are present for
//! each worker. An insert writes 11 words (key, link, value, and the link to it), a removal 2,
//! beside the allocator's words. A key is its number mixed, so that numbers do not determine
//! places.
//!
//! Snapshot isolation suffices without protection. Two neighbouring changes of one list write the
//! same entry, since a removal writes the removed entry (see `collections::raw::Chain`).

use std::hint::black_box;

use collections::raw::{ChainedTable, whole};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use words::{Allocate, BLOCK_STRIDE, Stop, Transact, Words, work};

use crate::churn::{Change, Churn, NUMBERS_MIN, workers_of};
use crate::keys::{below, generator, mix, unmix};
use crate::root::{self, Build};
use crate::stamp::{Stamp, content};
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Words of a value: 64 bytes.
const WORDS: usize = 8;

/// Size of an entry in the heap: its size class, header included.
const SLOT_BYTES: u64 = 96;

/// Default percentage of transactions that write.
const UPDATE_PERCENT: u8 = 20;

/// More pairs than any pool holds, doubled without overflow.
const PAIRS_MAX: u64 = 1 << 40;

/// Blocks that one transaction of loading prepares, and pairs that one inserts.
const STEP: u64 = 256;

/// Lists that one transaction of the check reads.
const CHECKED: u64 = 256;

/// Entries that one transaction frees.
const FREED: u64 = 1024;

const _: () =
    assert!(ChainedTable::<WORDS>::ENTRY_BYTES as u64 + words::HEADER_BYTES == SLOT_BYTES);

/// Lists with a number of pairs and of lists at scale 1.
#[derive(Clone, Copy, Debug)]
pub struct Lists<const PAIRS: u64, const LISTS: u64> {
    table: ChainedTable<WORDS>,
    pairs: u64,
}

/// A hash table of long chains.
pub type Chains = Lists<100_000, 10_000>;

/// A hash table of short chains.
pub type ChainsSparse = Lists<7_500, 10_000>;

/// A list.
pub type List = Lists<1000, 1>;

/// One worker's transactions on lists.
#[derive(Clone, Debug)]
pub struct ListsClient {
    rng: Xoshiro256PlusPlus,
    index: usize,
    stamp: Stamp,
    churn: Churn,
    update_percent: u64,
    /// `None`: the current transaction searches for `number`.
    change: Option<Change>,
    number: u64,
}

impl<const PAIRS: u64, const LISTS: u64> Build for Lists<PAIRS, LISTS> {
    const NAME: &'static str = match (LISTS, PAIRS > LISTS) {
        (1, _) => "list",
        (_, true) => "chains",
        (_, false) => "chains-sparse",
    };
    type Parts = ChainedTable<WORDS>;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<ChainedTable<WORDS>, Stop> {
        ChainedTable::reserve(tx, Self::lists(size))
    }

    /// Progress 0: preparing; 1 + n: pair n is next.
    fn step<W: Allocate>(
        table: ChainedTable<WORDS>,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(first) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(table.prepare(tx, STEP)?)));
        };
        let end = (first + STEP).min(size);
        for number in first..end {
            put(table, tx, number, Stamp::LOADED)?;
        }
        Ok((end < size).then_some(1 + end))
    }

    fn free<W: Allocate>(table: ChainedTable<WORDS>, tx: &mut W) -> Result<bool, Stop> {
        // Unprepared blocks cannot be read. Each list passed counts as an entry.
        Ok(table.prepare(tx, STEP)? && table.free(tx, 0, FREED + table.chains())?.is_none())
    }
}

impl<const PAIRS: u64, const LISTS: u64> Workload for Lists<PAIRS, LISTS> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = match (LISTS, PAIRS > LISTS) {
        (1, _) => "one linked list of 1000 values of 64 bytes: search, insert or remove",
        (_, true) => "hash table, chains of ten values of 64 bytes: search, insert or remove",
        (_, false) => "the same with 7500 values: chains of one or none",
    };
    const SUPPORTS: Supported = Supported { update_percent: true, ..Supported::NOTHING };
    const READS: bool = true;
    type Client = ListsClient;

    fn heap_bytes(options: &Options) -> u64 {
        let pairs = Self::pairs(options);
        // Every number may be present: each run may leave some.
        with_slack(2 * pairs * SLOT_BYTES + (Self::lists(pairs) / 32 + 1) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let pairs = Self::pairs(options);
        Ok(Lists { table: root::load::<Self, T>(worker, pairs)?, pairs })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(pairs, table)| Lists { table, pairs: pairs.min(PAIRS_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> ListsClient {
        let (mut rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let churn = Churn::new(index, CLIENTS_MAX, self.pairs, rng.next_u64());
        let update_percent = u64::from(UPDATE_PERCENT);
        ListsClient { rng, index, stamp, churn, update_percent, change: None, number: 0 }
    }

    fn tune(&self, client: &mut ListsClient, options: &Options) {
        let workers = workers_of(client.index, options);
        client.churn = Churn::new(client.index, workers, self.pairs, client.rng.next_u64());
        client.update_percent = u64::from(options.update_percent.unwrap_or(UPDATE_PERCENT));
    }

    #[inline]
    fn next(&self, client: &mut ListsClient) {
        let updates = below(&mut client.rng, 100) < client.update_percent;
        client.change = updates.then(|| client.churn.advance());
        client.number = match client.change {
            None => below(&mut client.rng, 2 * self.pairs),
            Some(Change::In(number) | Change::Out(number)) => self.pairs + number,
        };
        client.stamp.advance();
    }

    #[inline]
    fn reads_only(&self, client: &ListsClient) -> bool {
        client.change.is_none()
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &ListsClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let (table, key) = (self.table, mix(client.number));
        tx.lock(lock::chain(lock::ROWS, table.chain_of(key)))?;
        match client.change {
            None => drop(black_box(table.get(tx, key)?)),
            Some(Change::In(_)) => put(table, tx, client.number, client.stamp)?,
            Some(Change::Out(_)) => drop(table.remove(tx, key)?.ok_or(Stop::BadValue)?),
        }
        Ok(())
    }

    fn is_present<W: Words>(&self, client: &ListsClient, tx: &mut W) -> Result<bool, Stop> {
        if client.change.is_none() {
            return Ok(true);
        }
        tx.lock(lock::chain(lock::ROWS, self.table.chain_of(mix(client.number))))?;
        client.churn.is_done(client.stamp, |number| {
            let key = mix(self.pairs + number);
            let at = self.table.find(tx, key)?;
            Ok((at.map(|at| tx.read(at)).transpose()?, key))
        })
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, table) = (Violations::default(), self.table);
        let answer = whole(worker, |tx, from| table.check(tx, from, CHECKED))?;
        violations.add_damage(answer.damage);
        let (mut loaded, mut from) = (0, Some(0));
        while let Some(list) = from {
            let (entries, next) = worker.transact(|tx| {
                let mut entries = Vec::new();
                let next = table.scan(tx, list, CHECKED, |key, value| {
                    entries.push((key, *value));
                })?;
                Ok((entries, next))
            })?;
            for (key, value) in &entries {
                let number = unmix(*key);
                if number >= 2 * self.pairs {
                    violations.add(Violation::Key { end: 2 * self.pairs, found: number });
                }
                loaded += u64::from(number < self.pairs);
                check_value(*key, value, &mut violations);
            }
            from = next;
        }
        violations.expect("pairs that were loaded", self.pairs, loaded);
        Ok(violations.0)
    }
}

impl<const PAIRS: u64, const LISTS: u64> Lists<PAIRS, LISTS> {
    fn pairs(options: &Options) -> u64 {
        scaled(PAIRS, options, NUMBERS_MIN)
    }

    /// Returns the number of lists for so many pairs.
    fn lists(pairs: u64) -> u64 {
        if LISTS == 1 { 1 } else { (pairs * LISTS / PAIRS).max(1) }
    }
}

#[inline]
fn put<W: Allocate>(
    table: ChainedTable<WORDS>,
    tx: &mut W,
    number: u64,
    stamp: Stamp,
) -> Result<(), Stop> {
    let key = mix(number);
    table.insert(tx, key, &content(stamp.value(key), key)).map(drop)
}

fn check_value(key: u64, value: &[u64; WORDS], violations: &mut Violations) {
    if Stamp::of(value[0], key).is_none() {
        violations.add(Violation::Value { key, found: value[0] });
        return;
    }
    let expected = content::<WORDS>(value[0], key);
    if let Some(word) = (0..WORDS).find(|&word| value[word] != expected[word]) {
        let (expected, found) = (expected[word], value[word]);
        violations.add(Violation::Record { key, word, expected, found });
    }
}
