//! `memcached`: a least-recently-used cache of values of 64 to 1024 bytes; 90 of 100 operations set
//! (SSP, section 5.1: memslap, four clients).
//!
//! ```text
//!   a copy   buckets: key -> ticket of an item     (the hash table of `hash`)
//!            recent   | first | last | stamp | misses |          a line in a page of its own
//!            items    | stamp of the value | key | newer | older | lines | 3 words |      17 lines
//!                     | 8 words of the value | up to 16 such lines |
//! ```
//!
//! 50 000 items times the scale, all used at any time, and 51 keys for each 50 of them, uniform
//! (`--zipf` sets an exponent). A value has 1, 2, 4, 8 or 16 lines: of 31 of them 16, 8, 4, 2 and
//! 1. An operation is a transaction:
//!
//! | | of 100 | |
//! |---|---|---|
//! | set, the key is present | 88 | overwrites the value in its item |
//! | set, the key is missing | 2 | takes over the least recently used item, whose key is evicted |
//! | get | 9 | reads the value |
//! | get with renewal | 1 | makes its item the first of the list, as memcached does once a minute |
//!
//! With `--low-conflict` each worker has a copy and its share of the items; else all share one copy
//! under one lock. Between two operations 3000 instructions stand for a server's work on requests.
//!
//! The check: the hash table and the list have the same items, each once, with whole values.

use std::hint::black_box;

use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::buckets::Buckets;
use crate::copies::{COPIES, Shape, lock_copy};
use crate::keys::{below, generator};
use crate::root::{self, Build};
use crate::slab::{Line, WORDS};
use crate::stamp::{Stamp, content};
use crate::ticket_map::TicketMap;
use crate::violation::Violations;
use crate::zipf::Zipf;
use crate::{Options, Supported, Violation, Workload, scaled, with_slack};

/// Items at scale 1.
const ITEMS: u64 = 50_000;

/// One key in so many is missing.
const MISSING: u64 = 51;

/// Percentage of operations that set, and of gets that make their item the first.
const SETS_PERCENT: u64 = 90;
const BUMPS_PERCENT: u64 = 10;

/// Range from which a value's length is drawn, and the lines of the longest item.
const LENGTHS: u64 = 32;
const ITEM_LINES: u64 = 1 + LENGTHS / 2;

/// Lines from one copy's list to the next one's: a page.
const RECENT_LINES: u64 = 64;

/// Instructions between two operations.
const OUTSIDE: u32 = 3000;

/// Blocks that one transaction prepares, items that one loads, and items that one of a check reads.
const STEP: u64 = 128;

/// Offsets in an item's first line, and in the list's.
const KEY: u64 = 8;
const NEWER: u64 = 16;
const OLDER: u64 = 24;
const FIRST: u64 = 0;
const LAST: u64 = 8;
const CHANGED: u64 = 16;
const MISSES: u64 = 24;

/// The key for the list's stamp.
const MARK: u64 = 0;

/// First bit of the line's number in the key of a value's line.
const PART_SHIFT: u32 = 48;

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    items: Array<Line>,
    recent: Array<Line>,
    /// Number of copies freed.
    freed: Array<u64>,
    buckets: [[u64; 3]; COPIES],
}

/// Caches.
#[derive(Clone, Copy, Debug)]
pub struct Memcached {
    tables: Tables,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A set of a value of so many lines.
    Set(u64),
    Get,
    Bump,
}

/// One worker's operations.
#[derive(Clone, Debug)]
pub struct MemcachedClient {
    rng: Xoshiro256PlusPlus,
    index: usize,
    stamp: Stamp,
    zipf: Option<Zipf>,
    task: Task,
    key: u64,
}

/// A copy.
#[derive(Clone, Copy)]
struct Cache {
    tables: Tables,
    buckets: Buckets,
    shape: Shape,
    copy: u64,
}

/// Returns the number of keys of a copy with so many items.
fn keys(shape: Shape) -> u64 {
    shape.keys + shape.keys / (MISSING - 1) + 1
}

/// Makes a line of a value; line 0 has the stamp of all.
fn line_of(stamp: Stamp, key: u64, line: u64) -> Line {
    let part = key | line << PART_SHIFT;
    content(stamp.value(part), part)
}

impl Cache {
    #[inline]
    fn item(&self, ticket: u64, line: u64) -> Result<Addr, Stop> {
        let number = ticket.wrapping_sub(1);
        if number >= self.shape.keys {
            return Err(Stop::BadValue);
        }
        let first = (self.copy * self.shape.keys + number) * ITEM_LINES;
        Ok(self.tables.items.at(first + line)?.addr())
    }

    #[inline]
    fn recent(&self, field: u64) -> Result<Addr, Stop> {
        Ok(self.tables.recent.at(self.copy * RECENT_LINES)?.addr().plus(field))
    }

    /// Returns the address of an item's link, or of the list's end for item 0.
    #[inline]
    fn link(&self, ticket: u64, field: u64) -> Result<Addr, Stop> {
        match (ticket, field) {
            (0, NEWER) => self.recent(LAST),
            (0, _) => self.recent(FIRST),
            (ticket, field) => Ok(self.item(ticket, 0)?.plus(field)),
        }
    }

    #[inline]
    fn find<W: Words>(&self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        let Some(at) = self.buckets.find(tx, key)? else {
            return Ok(None);
        };
        let ticket = tx.read(at)?;
        tx.after_last_read();
        Ok(Some(ticket))
    }

    /// Writes a value and its item's header.
    #[inline]
    fn put<W: Words>(
        &self,
        tx: &mut W,
        ticket: u64,
        (stamp, key, lines): (Stamp, u64, u64),
    ) -> Result<(), Stop> {
        let first = line_of(stamp, key, 0);
        for line in 0..=lines {
            tx.will_write(self.item(ticket, line)?, 8 * WORDS);
        }
        tx.write_words(self.item(ticket, 0)?, &[first[0], key])?;
        tx.write_words(self.item(ticket, 0)?.plus(32), &[lines, first[5], first[6], first[7]])?;
        for line in 1..=lines {
            tx.write_words(self.item(ticket, line)?, &line_of(stamp, key, line))?;
        }
        Ok(())
    }

    /// Moves an item to the front of the list.
    #[inline(never)]
    fn make_first<W: Words>(&self, tx: &mut W, ticket: u64) -> Result<(), Stop> {
        let first = tx.read(self.recent(FIRST)?)?;
        if first == ticket {
            return Ok(());
        }
        let mut links = [0; 2];
        tx.read_words(self.item(ticket, 0)?.plus(NEWER), &mut links)?;
        let [newer, older] = links;
        tx.write(self.link(newer, OLDER)?, older)?;
        tx.write(self.link(older, NEWER)?, newer)?;
        tx.write_words(self.item(ticket, 0)?.plus(NEWER), &[0, first])?;
        tx.write(self.link(first, NEWER)?, ticket)?;
        tx.write(self.recent(FIRST)?, ticket)
    }

    /// Sets a missing key: takes over the last item of the list.
    #[inline(never)]
    fn set_new<W: Allocate>(&self, tx: &mut W, value: (Stamp, u64, u64)) -> Result<(), Stop> {
        let (stamp, key, _) = value;
        let ticket = tx.read(self.recent(LAST)?)?;
        tx.after_last_read();
        let old = tx.read(self.item(ticket, 0)?.plus(KEY))?;
        self.buckets.remove(tx, old)?.ok_or(Stop::BadValue)?;
        self.buckets.insert(tx, key, ticket)?;
        self.put(tx, ticket, value)?;
        self.make_first(tx, ticket)?;
        tx.write(self.recent(CHANGED)?, stamp.value(MARK))
    }

    /// Moves the item of a key to the front of the list; counts a missing key.
    #[inline(never)]
    fn bump<W: Words>(&self, tx: &mut W, stamp: Stamp, key: u64) -> Result<(), Stop> {
        match self.find(tx, key)? {
            Some(ticket) => {
                self.read(tx, ticket)?;
                self.make_first(tx, ticket)?;
            }
            None => {
                let misses = tx.read(self.recent(MISSES)?)?;
                tx.write(self.recent(MISSES)?, misses.wrapping_add(1))?;
            }
        }
        tx.write(self.recent(CHANGED)?, stamp.value(MARK))
    }

    /// Reads a value.
    #[inline]
    fn read<W: Words>(&self, tx: &mut W, ticket: u64) -> Result<(), Stop> {
        let mut words = [0; WORDS];
        tx.read_words(self.item(ticket, 0)?, &mut words)?;
        let lines = words[4];
        if lines >= ITEM_LINES {
            return Err(Stop::BadValue);
        }
        for line in 1..=lines {
            tx.read_words(self.item(ticket, line)?, &mut words)?;
            black_box(words);
        }
        Ok(())
    }

    /// Checks an item; returns its key.
    fn check<W: Words>(
        &self,
        tx: &mut W,
        ticket: u64,
        violations: &mut Violations,
    ) -> Result<u64, Stop> {
        let mut head = [0; WORDS];
        tx.read_words(self.item(ticket, 0)?, &mut head)?;
        let [stamped, key, _, _, lines, words @ ..] = head;
        let Some(stamp) = Stamp::of(stamped, key).filter(|_| lines < ITEM_LINES) else {
            violations.add(Violation::Value { key, found: stamped });
            return Ok(key);
        };
        let mut check = |line: u64, from: usize, found: &[u64]| {
            let expected = line_of(stamp, key, line);
            let pairs = found.iter().zip(&expected[from..]).enumerate();
            for (word, (&found, &expected)) in pairs {
                if found != expected {
                    let word = line as usize * WORDS + from + word;
                    violations.add(Violation::Record { key, word, expected, found });
                }
            }
        };
        check(0, 5, &words);
        for line in 1..=lines {
            let mut found = [0; WORDS];
            tx.read_words(self.item(ticket, line)?, &mut found)?;
            check(line, 0, &found);
        }
        Ok(key)
    }
}

impl Build for Memcached {
    const NAME: &'static str = "memcached";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let shape = Shape::decode(size);
        let items = Array::reserve(tx, shape.copies * shape.keys * ITEM_LINES)?;
        let recent = Array::reserve(tx, shape.copies * RECENT_LINES)?;
        let mut buckets = [[0; 3]; COPIES];
        for buckets in &mut buckets[..shape.copies as usize] {
            *buckets = Buckets::reserve(tx, keys(shape))?.to_words();
        }
        Ok(Tables { items, recent, freed: Array::create(tx, 1)?, buckets })
    }

    /// Progress 0: preparing; 1 + n: item n is next, counted through all copies.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let shape = Shape::decode(size);
        let cache = |copy| Memcached { tables, shape }.cache(copy);
        let Some(first) = progress.checked_sub(1) else {
            for copy in 0..shape.copies {
                if !cache(copy).buckets.prepare(tx)? {
                    return Ok(Some(0));
                }
            }
            let ready = tables.items.prepare(tx, 2 * STEP)? && tables.recent.prepare(tx, STEP)?;
            return Ok(Some(u64::from(ready)));
        };
        let total = shape.copies * shape.keys;
        let end = (first + STEP).min(total);
        for item in first..end {
            let (cache, key) = (cache(item / shape.keys), item % shape.keys);
            let older = if key + 1 < shape.keys { key + 2 } else { 0 };
            cache.buckets.insert(tx, key, 1 + key)?;
            cache.put(tx, 1 + key, (Stamp::LOADED, key, 1))?;
            tx.write_words(cache.item(1 + key, 0)?.plus(NEWER), &[key, older])?;
            tx.write_words(cache.recent(FIRST)?, &[1, 1 + key])?;
        }
        Ok((end < total).then_some(1 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let count = tx.read(freed)?;
        let buckets = tables.buckets.get(count as usize).filter(|words| **words != [0; 3]);
        let Some(&buckets) = buckets else {
            tables.items.free(tx)?;
            tables.recent.free(tx)?;
            return tables.freed.free(tx).map(|()| true);
        };
        let is_gone = Buckets::from_words(buckets).free(tx)?;
        tx.write(freed, count + u64::from(is_gone))?;
        Ok(false)
    }
}

impl Workload for Memcached {
    const NAME: &'static str = <Memcached as Build>::NAME;
    const ABOUT: &'static str = "a cache of values of 64 to 1024 bytes: 90 sets, 10 gets of 100";
    const SUPPORTS: Supported = Supported { zipf: true, low_conflict: true, ..Supported::NOTHING };
    const READS: bool = true;
    type Client = MemcachedClient;

    fn heap_bytes(options: &Options) -> u64 {
        let shape = Self::shape(options);
        let lines = (shape.keys * ITEM_LINES).div_ceil(4) + RECENT_LINES / 4;
        let buckets = Buckets::heap_bytes(keys(shape));
        with_slack(shape.copies * (lines * BLOCK_STRIDE + buckets))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Memcached, T::Error> {
        let shape = Self::shape(options);
        Ok(Memcached { tables: root::load::<Memcached, T>(worker, shape.encode())?, shape })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Memcached>, T::Error> {
        let found = root::open::<Memcached, T>(worker)?;
        Ok(found.map(|(size, tables)| Memcached { tables, shape: Shape::decode(size) }))
    }

    fn client(&self, index: usize, seed: u64) -> MemcachedClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        MemcachedClient { rng, index, stamp, zipf: None, task: Task::Get, key: 0 }
    }

    fn tune(&self, client: &mut MemcachedClient, options: &Options) {
        let exponent = options.zipf.filter(|&exponent| exponent > 0.0);
        client.zipf = exponent.map(|exponent| Zipf::new(keys(self.shape), exponent));
    }

    #[inline]
    fn next(&self, client: &mut MemcachedClient) {
        let rng = &mut client.rng;
        let (sets, bumps) = (below(rng, 100) < SETS_PERCENT, below(rng, 100) < BUMPS_PERCENT);
        // A number from 1 to 31: half of them have five bits, a quarter four.
        let lines = 1 << (1 + below(rng, LENGTHS - 1)).leading_zeros().saturating_sub(59);
        client.task = match (sets, bumps) {
            (true, _) => Task::Set(lines),
            (false, false) => Task::Get,
            (false, true) => Task::Bump,
        };
        client.key = match &client.zipf {
            None => below(rng, keys(self.shape)),
            Some(zipf) => zipf.scattered(rng),
        };
        client.stamp.advance();
    }

    #[inline]
    fn reads_only(&self, client: &MemcachedClient) -> bool {
        client.task == Task::Get
    }

    fn outside_instructions(&self) -> u32 {
        OUTSIDE
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &MemcachedClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let cache = self.cache(self.shape.copy(client.index));
        lock_copy(tx, cache.copy)?;
        let (stamp, key) = (client.stamp, client.key);
        match (client.task, cache.find(tx, key)?) {
            (Task::Set(lines), Some(ticket)) => cache.put(tx, ticket, (stamp, key, lines)),
            (Task::Set(lines), None) => cache.set_new(tx, (stamp, key, lines)),
            (Task::Get, Some(ticket)) => cache.read(tx, ticket),
            (Task::Get, None) => Ok(()),
            (Task::Bump, _) => cache.bump(tx, stamp, key),
        }
    }

    fn is_present<W: Words>(&self, client: &MemcachedClient, tx: &mut W) -> Result<bool, Stop> {
        let cache = self.cache(self.shape.copy(client.index));
        lock_copy(tx, cache.copy)?;
        if client.task == Task::Get {
            return Ok(true);
        }
        match cache.find(tx, client.key)? {
            Some(ticket) if client.task != Task::Bump => {
                let found = tx.read(cache.item(ticket, 0)?)?;
                Ok(client.stamp.is_in(found, client.key))
            }
            // If another key took over the item, the list has changed since.
            _ => Ok(client.stamp.is_in(tx.read(cache.recent(CHANGED)?)?, MARK)),
        }
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        for copy in 0..self.shape.copies {
            self.check_copy(worker, self.cache(copy), &mut violations)?;
        }
        Ok(violations.0)
    }
}

impl Memcached {
    fn shape(options: &Options) -> Shape {
        let copies = if options.low_conflict { options.workers.clamp(1, COPIES) as u64 } else { 1 };
        let keys = (scaled(ITEMS, options, 128) / copies).clamp(128, u64::from(u32::MAX));
        Shape { keys, copies, lines: 1, objects: 1 }
    }

    fn cache(self, copy: u64) -> Cache {
        let words = self.tables.buckets[copy as usize % COPIES];
        let buckets = Buckets::from_words(words);
        Cache { tables: self.tables, buckets, shape: self.shape, copy }
    }

    fn check_copy<T: Transact>(
        &self,
        worker: &mut T,
        cache: Cache,
        violations: &mut Violations,
    ) -> Result<(), T::Error> {
        let Some(pairs) = cache.buckets.pairs(worker, &mut violations.0)? else {
            return Ok(());
        };
        let items = self.shape.keys;
        violations.expect("keys that have an item", items, pairs.len() as u64);
        for pairs in pairs.chunks(STEP as usize) {
            let found = worker.transact(|tx| {
                let mut found = Violations::default();
                for &(key, ticket) in pairs {
                    let has = cache.check(tx, ticket, &mut found)?;
                    found.expect("the key of an item", key, has);
                }
                Ok(found.0)
            })?;
            found.into_iter().for_each(|violation| violations.add(violation));
        }
        // Each item names the one before it: so none is linked twice.
        let (mut newer, mut counted) = (0, 0);
        let mut next = worker.transact(|tx| tx.read(cache.recent(FIRST)?))?;
        while next != 0 && counted < items {
            let links = worker.transact(|tx| {
                let mut links = [0; 2];
                tx.read_words(cache.item(next, 0)?.plus(NEWER), &mut links)?;
                Ok(links)
            })?;
            violations.expect("the newer item of one", newer, links[0]);
            (newer, next, counted) = (next, links[1], counted + 1);
        }
        let (last, changed) = worker
            .transact(|tx| Ok((tx.read(cache.recent(LAST)?)?, tx.read(cache.recent(CHANGED)?)?)))?;
        violations.expect("items of the list", items, counted);
        violations.expect("the last item of the list", newer, last);
        if changed != 0 && Stamp::of(changed, MARK).is_none() {
            violations.add(Violation::Value { key: MARK, found: changed });
        }
        Ok(())
    }
}
