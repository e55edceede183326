//! `cq`: pops the first entry of a queue and pushes one after the last, a transaction (LAD, table
//! 2: 4 cache blocks written).
//!
//! 256 queues times the scale, chosen uniformly, each with a capacity of 1024 entries of 64 bytes
//! and 512 of them in it at any time: 16 MiB, twice the last-level cache of the target machines.
//! A transaction writes the new entry, the mark of the old one, and both cursors, each in a line of
//! its own: 11 words.
//!
//! The check covers each queue's structure and length, the integrity of its entries, and the order
//! of each worker's entries.

use std::collections::HashMap;
use std::hint::black_box;

use collections::raw::{QUEUE_WORDS, Queue, Ring, whole};
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Array, BLOCK_STRIDE, LockId, Stop, Transact, Words, work};

use crate::keys::{below, generator};
use crate::lock;
use crate::root::{self, Build};
use crate::stamp::{Stamp, content};
use crate::violation::Violations;
use crate::{Options, Violation, Workload, scaled, with_slack};

/// Queues at scale 1, fewest, and more than any pool holds.
const QUEUES: u64 = 256;
const QUEUES_MIN: u64 = 2;
const QUEUES_MAX: u64 = 1 << 40;

/// Capacity of a queue, and its entries.
const CAPACITY: u64 = 1024;
const ENTRIES: u64 = CAPACITY / 2;

/// Ring elements of a queue.
const ELEMENTS: u64 = match Queue::elements(CAPACITY) {
    Some(elements) => elements,
    None => panic!("a ring of this capacity exceeds every heap"),
};

/// Blocks that one transaction of loading prepares, and entries that one pushes.
const STEP: u64 = 256;

/// Entries that one transaction of the check reads.
const CHECKED: u64 = 512;

/// Queues.
#[derive(Clone, Copy, Debug)]
pub struct Cq {
    ring: Ring,
    queues: u64,
}

/// One worker's transactions on queues.
#[derive(Clone, Debug)]
pub struct CqClient {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    queue: u64,
}

/// Makes an entry of a queue.
fn entry(stamp: Stamp, queue: u64) -> [u64; QUEUE_WORDS] {
    content(stamp.value(queue), queue)
}

fn queue(ring: Ring, number: u64) -> Queue {
    Queue::part(ring, number, CAPACITY)
}

impl Build for Cq {
    const NAME: &'static str = "cq";
    type Parts = Ring;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Ring, Stop> {
        Array::reserve(tx, size * ELEMENTS)
    }

    /// Progress 0: preparing; 1 + n: entry n is next, counted through all queues.
    fn step<W: Allocate>(
        ring: Ring,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(first) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(ring.prepare(tx, STEP)?)));
        };
        let end = (first + STEP).min(size * ENTRIES);
        for number in first..end {
            let number = number / ENTRIES;
            if !queue(ring, number).push(tx, &entry(Stamp::LOADED, number))? {
                return Err(Stop::BadValue);
            }
        }
        Ok((end < size * ENTRIES).then_some(1 + end))
    }

    fn free<W: Allocate>(ring: Ring, tx: &mut W) -> Result<bool, Stop> {
        ring.free(tx).map(|()| true)
    }
}

impl Workload for Cq {
    const NAME: &'static str = <Cq as Build>::NAME;
    const ABOUT: &'static str = "queues of 64-byte entries: pop the first, push one";
    type Client = CqClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(Self::queues(options) * ELEMENTS / 4 * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Cq, T::Error> {
        let queues = Self::queues(options);
        Ok(Cq { ring: root::load::<Cq, T>(worker, queues)?, queues })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Cq>, T::Error> {
        let found = root::open::<Cq, T>(worker)?;
        Ok(found.map(|(queues, ring)| Cq { ring, queues: queues.min(QUEUES_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> CqClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        CqClient { rng, stamp, queue: 0 }
    }

    #[inline]
    fn next(&self, client: &mut CqClient) {
        client.queue = below(&mut client.rng, self.queues);
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &CqClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(LockId::of(lock::ROWS, client.queue))?;
        let queue = queue(self.ring, client.queue);
        black_box(queue.pop(tx)?.ok_or(Stop::BadValue)?);
        let is_in = queue.push(tx, &entry(client.stamp, client.queue))?;
        if is_in { Ok(()) } else { Err(Stop::BadValue) }
    }

    fn is_present<W: Words>(&self, client: &CqClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(LockId::of(lock::ROWS, client.queue))?;
        let (queue, mut found) = (queue(self.ring, client.queue), Vec::new());
        queue.scan(tx, 0, u64::MAX, |_, value| found.push(value[0]))?;
        // The entry is present, or a later entry of the same worker.
        let is_passed = |&stamp: &u64| client.stamp.is_passed_by(stamp, client.queue);
        // Or other workers pushed so many later entries that it was popped again.
        let is_later = |&stamp: &u64| client.stamp.is_in(stamp, client.queue);
        Ok(found.iter().any(is_passed) || found.iter().all(is_later))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        for number in 0..self.queues {
            let queue = queue(self.ring, number);
            let answer = whole(worker, |tx, from| queue.check(tx, from, CHECKED))?;
            violations.expect("entries of a queue", ENTRIES, answer.entries);
            if !answer.damage.is_empty() {
                violations.add_damage(answer.damage);
                continue; // a scan of a damaged queue may end in a less specific `Stop`
            }
            check_entries(worker, queue, number, &mut violations)?;
        }
        Ok(violations.0)
    }
}

impl Cq {
    fn queues(options: &Options) -> u64 {
        scaled(QUEUES, options, QUEUES_MIN)
    }
}

fn check_entries<T: Transact>(
    worker: &mut T,
    queue: Queue,
    number: u64,
    violations: &mut Violations,
) -> Result<(), T::Error> {
    // The last entry of each worker and run.
    let (mut last, mut from) = (HashMap::new(), Some(0));
    while let Some(first) = from {
        let (entries, next) = worker.transact(|tx| {
            let mut entries = Vec::new();
            let next = queue.scan(tx, first, CHECKED, |_, value| entries.push(*value))?;
            Ok((entries, next))
        })?;
        for found in &entries {
            let Some(stamp) = Stamp::of(found[0], number) else {
                violations.add(Violation::Value { key: number, found: found[0] });
                continue;
            };
            let expected = entry(stamp, number);
            if let Some(word) = (0..QUEUE_WORDS).find(|&word| found[word] != expected[word]) {
                let (expected, found) = (expected[word], found[word]);
                violations.add(Violation::Record { key: number, word, expected, found });
            }
            if let Some((before, found)) = last
                .insert(stamp.author(), stamp.sequence())
                .map(|before| (before, stamp.sequence()))
                .filter(|&(before, found)| stamp.author() != 0 && found <= before)
            {
                violations.expect("the least transaction that may follow", before + 1, found);
            }
        }
        from = next;
    }
    Ok(())
}
