//! `hashtable`: inserts a random key or overwrites it, one a transaction (DudeTM, section 5.1).
//!
//! The table has 2^22 buckets times the scale and a key space half that size, of which every second
//! key is loaded. A quarter of the buckets are used at first, and never more than a half. The
//! paper's table only takes new keys. This one is stationary, and writes a bucket's two words
//! either way. Transactions that only read (`--update-percent`) look a key up.

use std::hint::black_box;

use collections::raw::{HashMap, Inserted, whole};
use words::{Allocate, BLOCK_STRIDE, LockId, Stop, Transact, Words, work};

use crate::keys::{self, KeyClient};
use crate::lock::{self, Locks};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{Options, Supported, Violation, Workload, scaled, with_slack};

/// Buckets at scale 1.
const BUCKETS: u64 = 1 << 22;

/// Blocks that one transaction of loading prepares: 70 KB.
const BLOCKS: u64 = 256;

/// Buckets that a lock guards. It is more than the longest run can pass when all keys are present,
/// since a run that begins in one lock's buckets may end in the next one's. Keys are never removed,
/// so none gets longer than `longest_run_is_below_the_lock_stripe` computes: 16 up to scale 1.
const LOCKED: u64 = 4096;
const RUN_MAX: u64 = 256;

/// Buckets that one transaction of the check reads.
const CHECKED: u64 = 4096;

/// A hash table.
#[derive(Clone, Copy, Debug)]
pub struct HashTable {
    map: HashMap,
    /// Keys are below this.
    end: u64,
}

impl HashTable {
    /// Locks the buckets that a search for the key may visit.
    #[inline]
    fn lock<W: Words>(&self, key: u64, tx: &mut W) -> Result<(), Stop> {
        let start = self.map.start(key)?;
        let end = (start + RUN_MAX) % self.map.capacity();
        let ids = [start, end].map(|bucket| LockId::of(lock::ROWS, bucket / LOCKED));
        Locks::<2>::of(ids).take(tx)
    }
}

fn buckets(options: &Options) -> u64 {
    let wanted = scaled(BUCKETS, options, 64);
    // The nearest power of two on the way up from three quarters.
    (wanted - wanted / 4).next_power_of_two()
}

impl Build for HashTable {
    const NAME: &'static str = "hashtable";
    type Parts = HashMap;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<HashMap, Stop> {
        HashMap::reserve(tx, size, 0)
    }

    /// Progress 0: preparing; 1 + n: the n-th key is next.
    fn step<W: Allocate>(
        map: HashMap,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(at) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(map.prepare(tx, BLOCKS)?)));
        };
        let (keys, next) = keys::batch(at, size / 2, 0);
        for &key in &keys {
            map.will_insert(tx, key);
        }
        for &key in &keys {
            if map.insert(tx, key, Stamp::LOADED.value(key))? == Inserted::Full {
                return Err(Stop::BadValue);
            }
        }
        Ok(next.map(|next| 1 + next))
    }

    fn free<W: Allocate>(map: HashMap, tx: &mut W) -> Result<bool, Stop> {
        map.free(tx).map(|()| true)
    }
}

impl Workload for HashTable {
    const NAME: &'static str = <HashTable as Build>::NAME;
    const ABOUT: &'static str = "hash table: insert or overwrite a random key, one a transaction";
    const SUPPORTS: Supported = KeyClient::SUPPORTS;
    const READS: bool = true;
    type Client = KeyClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack((buckets(options) / 16 + 1) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<HashTable, T::Error> {
        let size = buckets(options);
        let map = root::load::<HashTable, T>(worker, size)?;
        Ok(HashTable { map, end: size / 2 })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<HashTable>, T::Error> {
        let found = root::open::<HashTable, T>(worker)?;
        Ok(found.map(|(size, map)| HashTable { map, end: size / 2 }))
    }

    fn client(&self, index: usize, seed: u64) -> KeyClient {
        KeyClient::new(index, seed)
    }

    fn tune(&self, client: &mut KeyClient, options: &Options) {
        client.tune(options, self.end);
    }

    #[inline]
    fn next(&self, client: &mut KeyClient) {
        client.advance(self.end);
    }

    #[inline]
    fn reads_only(&self, client: &KeyClient) -> bool {
        client.reads
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &KeyClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        self.lock(client.key, tx)?;
        if client.reads {
            black_box(self.map.get(tx, client.key)?);
            return Ok(());
        }
        match self.map.insert(tx, client.key, client.value())? {
            // Half of the buckets are always free, unless the table is damaged.
            Inserted::Full => Err(Stop::BadValue),
            Inserted::New | Inserted::Replaced(_) => Ok(()),
        }
    }

    fn is_present<W: Words>(&self, client: &KeyClient, tx: &mut W) -> Result<bool, Stop> {
        self.lock(client.key, tx)?;
        Ok(client.is_in(self.map.get(tx, client.key)?))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        let answer = whole(worker, |tx, from| self.map.check(tx, from, CHECKED))?;
        violations.add_damage(answer.damage);
        let (mut loaded, mut from) = (0, Some(0));
        while let Some(bucket) = from {
            let (pairs, next) = worker.transact(|tx| {
                let mut pairs = Vec::new();
                let next = self.map.scan(tx, bucket, CHECKED, |key, value| {
                    pairs.push((key, value));
                })?;
                Ok((pairs, next))
            })?;
            loaded += keys::check_pairs(&pairs, self.end, &mut violations);
            from = next;
        }
        violations.expect("keys that were loaded", keys::loaded(self.end), loaded);
        Ok(violations.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_run_is_below_the_lock_stripe() {
        for log2 in 6..=22 {
            let buckets = 1_u64 << log2;
            let mut mock = words::mock::Mock::new(8 * buckets as usize * 3 + 4096);
            let map = mock.transact(|tx| HashMap::reserve(tx, buckets, 0)).unwrap();
            // Simulate linear probing of all keys; their order changes no run.
            let mut taken = vec![false; buckets as usize];
            let mut longest = 0;
            for key in 1..buckets / 2 {
                let start = map.start(key).unwrap();
                let free = (0..).find(|passed| {
                    let bucket = (start + passed) % buckets;
                    !std::mem::replace(&mut taken[bucket as usize], true)
                });
                longest = longest.max(1 + free.unwrap());
            }
            assert!(longest <= 16, "{buckets} buckets: {longest}");
        }
    }
}
