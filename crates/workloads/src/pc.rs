//! `pc`: overwrites eight values of a hash table in one transaction (LAD, table 2: 8 cache blocks
//! written).
//!
//! 2^18 keys times the scale, in as many chains. An entry is key, link and a value of 32 bytes,
//! which with its header is a cache line: 16 MiB, twice the target machines' last-level cache,
//! beside 2 MiB of links. Keys are 0, 1, 2, ..., all of them always present, drawn uniformly;
//! entries never move. A transaction first finds all eight, then announces them, and then writes 32
//! words.

use collections::raw::{ChainedTable, whole};
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, BLOCK_STRIDE, Stop, Transact, Words, work};

use crate::keys::{below, generator};
use crate::lock::{self, Locks};
use crate::root::{self, Build};
use crate::stamp::{Stamp, content};
use crate::violation::Violations;
use crate::{Options, Violation, Workload, scaled, with_slack};

/// Keys at scale 1.
const KEYS: u64 = 1 << 18;

/// Values of a transaction.
const VALUES: usize = 8;

/// Words of a value.
const WORDS: usize = 4;
type Value = [u64; WORDS];

/// Size of an entry in the heap: its size class, header included.
const SLOT_BYTES: u64 = 64;

/// Blocks that one transaction of loading prepares, and keys that one inserts.
const STEP: u64 = 256;

/// Chains that one transaction of the check reads.
const CHECKED: u64 = 1024;

/// Entries that one transaction frees, each chain passed counting as one.
const FREED: u64 = 1024;

const _: () =
    assert!(ChainedTable::<WORDS>::ENTRY_BYTES as u64 + words::HEADER_BYTES == SLOT_BYTES);

/// A hash table.
#[derive(Clone, Copy, Debug)]
pub struct Pc {
    table: ChainedTable<WORDS>,
    /// Keys are below this.
    end: u64,
}

/// One worker's transactions on a hash table.
#[derive(Clone, Debug)]
pub struct PcClient {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    keys: [u64; VALUES],
    locks: Locks<VALUES>,
}

fn value(stamp: Stamp, key: u64) -> Value {
    content(stamp.value(key), key)
}

impl Build for Pc {
    const NAME: &'static str = "pc";
    type Parts = ChainedTable<WORDS>;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<ChainedTable<WORDS>, Stop> {
        ChainedTable::reserve(tx, size)
    }

    /// Progress 0: preparing; 1 + n: key n is next.
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
        for key in first..end {
            table.insert(tx, key, &value(Stamp::LOADED, key))?;
        }
        Ok((end < size).then_some(1 + end))
    }

    fn free<W: Allocate>(table: ChainedTable<WORDS>, tx: &mut W) -> Result<bool, Stop> {
        // Unprepared blocks cannot be read. Each chain passed counts as an entry.
        Ok(table.prepare(tx, STEP)? && table.free(tx, 0, FREED + table.chains())?.is_none())
    }
}

impl Workload for Pc {
    const NAME: &'static str = <Pc as Build>::NAME;
    const ABOUT: &'static str = "overwrite 8 values of 32 bytes in a hash table, a transaction";
    const ANNOUNCES: bool = true;
    type Client = PcClient;

    fn heap_bytes(options: &Options) -> u64 {
        let keys = scaled(KEYS, options, 64);
        with_slack(keys * SLOT_BYTES + (keys / 32 + 1) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Pc, T::Error> {
        let end = scaled(KEYS, options, 64);
        Ok(Pc { table: root::load::<Pc, T>(worker, end)?, end })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Pc>, T::Error> {
        Ok(root::open::<Pc, T>(worker)?.map(|(end, table)| Pc { table, end }))
    }

    fn client(&self, index: usize, seed: u64) -> PcClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        PcClient { rng, stamp, keys: [0; VALUES], locks: Locks::NONE }
    }

    #[inline]
    fn next(&self, client: &mut PcClient) {
        client.keys = std::array::from_fn(|_| below(&mut client.rng, self.end));
        client.locks = Locks::of(client.keys.map(lock::stripe));
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &PcClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        client.locks.take(tx)?;
        client.keys.iter().for_each(|&key| self.table.will_get(tx, key));
        let mut places = [Addr::new(0, 0); VALUES];
        for (place, &key) in places.iter_mut().zip(&client.keys) {
            *place = self.table.find(tx, key)?.ok_or(Stop::BadValue)?;
            tx.will_write(*place, size_of::<Value>());
        }
        for (place, &key) in places.into_iter().zip(&client.keys) {
            tx.write_words(place, &value(client.stamp, key))?;
        }
        Ok(())
    }

    fn is_present<W: Words>(&self, client: &PcClient, tx: &mut W) -> Result<bool, Stop> {
        client.locks.take(tx)?;
        for &key in &client.keys {
            let place = self.table.find(tx, key)?.ok_or(Stop::BadValue)?;
            if !client.stamp.is_in(tx.read(place)?, key) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, table) = (Violations::default(), self.table);
        let answer = whole(worker, |tx, from| table.check(tx, from, CHECKED))?;
        violations.add_damage(answer.damage);
        violations.expect("keys", self.end, answer.entries);
        let mut from = Some(0);
        while let Some(chain) = from {
            let (entries, next) = worker.transact(|tx| {
                let mut entries = Vec::new();
                let next = table.scan(tx, chain, CHECKED, |key, value| {
                    entries.push((key, *value));
                })?;
                Ok((entries, next))
            })?;
            for (key, value) in &entries {
                check_value(*key, value, self.end, &mut violations);
            }
            from = next;
        }
        Ok(violations.0)
    }
}

fn check_value(key: u64, found: &Value, end: u64, violations: &mut Violations) {
    if key >= end {
        violations.add(Violation::Key { end, found: key });
    }
    let Some(stamp) = Stamp::of(found[0], key) else {
        violations.add(Violation::Value { key, found: found[0] });
        return;
    };
    let expected = value(stamp, key);
    if let Some(word) = (0..WORDS).find(|&word| found[word] != expected[word]) {
        let (expected, found) = (expected[word], found[word]);
        violations.add(Violation::Record { key, word, expected, found });
    }
}
