//! A hash map of fixed size: open addressing with linear probing.
//!
//! ```text
//!   value in the program's object       buckets: capacity + 1, 16 to a block of 256 bytes
//!   | first bucket | buckets | seed |   | key | value | key | value | ... | 0 is there | value |
//!                                         home(key) ->  next  ->  next      the bucket of key 0
//! ```
//!
//! A bucket whose key is 0 is empty, which is how fresh blocks come; key 0 itself therefore has a
//! bucket of its own behind the others, so every `u64` is a key.
//!
//! A removed key's bucket is closed by moving later ones of the run back (no tombstones): the table
//! can never grow, so tombstones that pile up could only be cleared by a transaction over the whole
//! table. Up to half full, a run has two buckets on average, and a removal moves less than one.
//!
//! Invariants:
//! - Between a key's home and its bucket no bucket is empty, and no key is there twice.
//! - A run is followed for at most `capacity` buckets.
//! - A new key protects the blocks that it passed: under snapshot isolation a removal that opens a
//!   gap there must not commit beside it (the removal writes the gap's block, so the two collide).
//!   Everything else that decides an operation lies in a bucket that it writes.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::check::{Checked, Damage};
use crate::hash;

/// Buckets in one block of the array.
const PER_BLOCK: u64 = words::BLOCK_BYTES / 16;

/// What [`HashMap::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Inserted {
    /// The key was not there.
    New,
    /// The key was there, with this value.
    Replaced(u64),
    /// The key is not there and no bucket is free: nothing was written.
    Full,
}

/// A fixed number of buckets from `u64` to `u64`; a value of three words that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HashMap {
    buckets: Array<[u64; 2]>,
    seed: u64,
}

/// Where the search for a key ended.
enum Probe {
    /// In this bucket, which is here.
    Found(u64, Addr),
    /// Nowhere; this bucket is the first empty one.
    Free(u64, Addr),
    /// Nowhere, and no bucket is empty.
    Full,
}

impl HashMap {
    /// An empty map of at least `capacity` buckets (a power of two, 16 or more), in this one
    /// transaction. Give it twice as many buckets as keys.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot prepare so many: then
    /// [`reserve`](HashMap::reserve) and [`prepare`](HashMap::prepare) it step by step.
    pub fn create<W: Allocate>(tx: &mut W, capacity: u64) -> Result<HashMap, Stop> {
        let map = HashMap::reserve(tx, capacity, 0)?;
        map.prepare(tx, u64::MAX)?;
        Ok(map)
    }

    /// Room for a map of at least `capacity` buckets (a power of two, 16 or more), which may be
    /// used once [`prepare`](HashMap::prepare) has said so. Store it somewhere reachable in the
    /// same transaction. A `seed` that outsiders do not know keeps them from choosing keys that
    /// collide.
    ///
    /// # Errors
    /// [`Stop::Full`].
    pub fn reserve<W: Allocate>(tx: &mut W, capacity: u64, seed: u64) -> Result<HashMap, Stop> {
        if capacity > hash::PLACES_MAX {
            return Err(Stop::Full);
        }
        let capacity = capacity.max(PER_BLOCK).next_power_of_two();
        Ok(HashMap { buckets: Array::reserve(tx, capacity + 1)?, seed })
    }

    /// Makes up to `most_blocks` further blocks of 16 buckets ready; answers whether all are. May
    /// be repeated after a crash.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when `most_blocks` are too many for one transaction.
    pub fn prepare<W: Allocate>(self, tx: &mut W, most_blocks: u64) -> Result<bool, Stop> {
        self.buckets.prepare(tx, most_blocks)
    }

    /// Number of buckets: keys that it can hold, 0 excepted.
    #[inline]
    pub const fn capacity(self) -> u64 {
        self.buckets.len().saturating_sub(1)
    }

    /// The bucket where the search for a key begins; it ends in one of those that follow, round the
    /// end, before the last but one, which is key 0's own.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when this is no map that was ever made.
    #[inline]
    pub fn home(self, key: u64) -> Result<u64, Stop> {
        Ok(self.home_of(key, self.mask()?))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        match self.probe(tx, key)? {
            Probe::Found(_, at) => tx.read(at.plus(8)).map(Some),
            Probe::Free(..) | Probe::Full => Ok(None),
        }
    }

    /// Puts a key's value, whether it was there or not. Writes the bucket whole, 2 words in one
    /// run either way; over a key that is there [`update`](HashMap::update) writes 1.
    ///
    /// # Errors
    /// As [`Words::write`]. That no bucket is free is [`Inserted::Full`], not an error.
    #[inline]
    pub fn insert<W: Words>(self, tx: &mut W, key: u64, value: u64) -> Result<Inserted, Stop> {
        let home = self.home_to_write(tx, key)?;
        match self.probe_from(tx, key, home)? {
            Probe::Found(_, at) => {
                let before = tx.read(at.plus(8))?;
                tx.write_words(at, &[self.mark(key), value])?;
                Ok(Inserted::Replaced(before))
            }
            Probe::Free(bucket, at) => {
                tx.write_words(at, &[self.mark(key), value])?;
                self.protect_passed(tx, home, bucket)?;
                Ok(Inserted::New)
            }
            Probe::Full => Ok(Inserted::Full),
        }
    }

    /// Replaces the value of a key that is there: 1 word. Answers the value before.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn update<W: Words>(
        self,
        tx: &mut W,
        key: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<Option<u64>, Stop> {
        let home = self.home_to_write(tx, key)?;
        let Probe::Found(_, at) = self.probe_from(tx, key, home)? else {
            return Ok(None);
        };
        let at = at.plus(8);
        let before = tx.read(at)?;
        tx.write(at, change(before))?;
        Ok(Some(before))
    }

    /// Takes a key out; answers its value.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        let home = self.home_to_write(tx, key)?;
        let Probe::Found(bucket, at) = self.probe_from(tx, key, home)? else {
            return Ok(None);
        };
        let value = tx.read(at.plus(8))?;
        let hole = if key == 0 { bucket } else { self.close(tx, bucket)? };
        tx.write_words(self.at(hole)?, &[0, 0])?;
        Ok(Some(value))
    }

    /// A hint that this key will be inserted, updated or removed soon: for many keys in one
    /// transaction, give it for all of them first.
    #[inline]
    pub fn will_insert<W: Words>(self, tx: &mut W, key: u64) {
        tx.compute(work::HASH);
        if let Ok(at) = self.mask().and_then(|mask| self.at(self.home_of(key, mask))) {
            tx.will_write(at, 16);
        }
    }

    /// A hint that this key will be looked up soon.
    #[inline]
    pub fn will_get<W: Words>(self, tx: &mut W, key: u64) {
        tx.compute(work::HASH);
        if let Ok(at) = self.mask().and_then(|mask| self.at(self.home_of(key, mask))) {
            tx.will_read(at, 16);
        }
    }

    /// Calls `visit` with the pairs in up to `most` buckets from bucket `from` on (the first is
    /// 0), in no order; answers where to go on.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        most: u64,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop> {
        self.mask()?;
        let end = from.saturating_add(most.max(1)).min(self.buckets.len());
        for bucket in from..end {
            let mut pair = [0; 2];
            tx.read_words(self.at(bucket)?, &mut pair)?;
            if pair[0] != 0 {
                visit(if bucket == self.capacity() { 0 } else { pair[0] }, pair[1]);
            }
        }
        Ok((end < self.buckets.len()).then_some(end))
    }

    /// Checks up to `most` buckets from bucket `from` on (the first is 0): every key can be found
    /// from its home, and is there once. [`whole`](crate::whole) checks all of it.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let mut answer = Checked::default();
        self.mask()?;
        let end = from.saturating_add(most.max(1)).min(self.buckets.len());
        for bucket in from..end {
            let key = tx.read(self.at(bucket)?)?;
            if key == 0 {
                continue;
            }
            answer.entries += 1;
            if bucket < self.capacity() {
                self.check_run(tx, bucket, key, &mut answer)?;
            }
        }
        answer.next = (end < self.buckets.len()).then_some(end);
        Ok(answer)
    }

    /// Gives the memory back. Every copy of this value leads nowhere from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when it was given back before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.buckets.free(tx)
    }

    /// The run from the key's home up to its bucket holds neither a gap nor the same key.
    fn check_run<W: Words>(
        self,
        tx: &mut W,
        bucket: u64,
        key: u64,
        answer: &mut Checked,
    ) -> Result<(), Stop> {
        let mask = self.mask()?;
        let mut at = self.home_of(key, mask);
        while at != bucket {
            let before = tx.read(self.at(at)?)?;
            if before == 0 {
                answer.found(Damage::Unreachable { bucket, key, gap: at });
                break;
            }
            if before == key {
                answer.found(Damage::Duplicate { bucket, key, first: at });
                break;
            }
            at = (at + 1) & mask;
        }
        Ok(())
    }

    /// Closes the gap that the key in `bucket` leaves, by moving keys of its run back; answers the
    /// bucket that must be emptied instead.
    fn close<W: Words>(self, tx: &mut W, bucket: u64) -> Result<u64, Stop> {
        let mask = self.mask()?;
        let (mut hole, mut at) = (bucket, bucket);
        for _ in 0..mask {
            at = (at + 1) & mask;
            tx.compute(work::VISIT + work::HASH);
            let mut pair = [0; 2];
            tx.read_words(self.at(at)?, &mut pair)?;
            if pair[0] == 0 {
                break;
            }
            // It may move when the hole is not before its home, going round.
            let home = self.home_of(pair[0], mask);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                tx.write_words(self.at(hole)?, &pair)?;
                hole = at;
            }
        }
        Ok(hole)
    }

    #[inline]
    fn probe<W: Words>(self, tx: &mut W, key: u64) -> Result<Probe, Stop> {
        let home = self.home_of(key, self.mask()?);
        self.probe_from(tx, key, home)
    }

    /// Searches from the key's home on.
    #[inline(always)]
    fn probe_from<W: Words>(self, tx: &mut W, key: u64, home: u64) -> Result<Probe, Stop> {
        let (mask, mut bucket) = (self.mask()?, home);
        if key == 0 {
            let at = self.at(bucket)?;
            let there = tx.read(at)? != 0;
            return Ok(if there { Probe::Found(bucket, at) } else { Probe::Free(bucket, at) });
        }
        tx.compute(work::HASH + work::SEARCH);
        for _ in 0..=mask {
            let at = self.at(bucket)?;
            let found = tx.read(at)?;
            tx.compute(work::VISIT);
            if found == key {
                return Ok(Probe::Found(bucket, at));
            }
            if found == 0 {
                return Ok(Probe::Free(bucket, at));
            }
            bucket = (bucket + 1) & mask;
        }
        Ok(Probe::Full)
    }

    /// Protects the blocks between a new key's home and the bucket that it was put into.
    #[inline]
    fn protect_passed<W: Words>(self, tx: &mut W, home: u64, bucket: u64) -> Result<(), Stop> {
        let (mask, mut at) = (self.mask()?, home);
        for _ in 0..=mask / PER_BLOCK {
            // In its block and behind `at`: a nearly full table's run may come round to the block
            // that it began in.
            if at / PER_BLOCK == bucket / PER_BLOCK && at <= bucket {
                break;
            }
            tx.protect(self.at(at)?)?;
            at = ((at | (PER_BLOCK - 1)) + 1) & mask;
        }
        Ok(())
    }

    /// The bucket where the search for a key begins.
    #[inline]
    fn home_of(self, key: u64, mask: u64) -> u64 {
        if key == 0 {
            return mask + 1;
        }
        hash::home(key, self.seed, mask)
    }

    /// The bucket where the search for a key begins, announced as soon as it is known.
    #[inline]
    fn home_to_write<W: Words>(self, tx: &mut W, key: u64) -> Result<u64, Stop> {
        let home = self.home_of(key, self.mask()?);
        tx.will_write(self.at(home)?, 16);
        Ok(home)
    }

    /// Capacity - 1.
    #[inline]
    fn mask(self) -> Result<u64, Stop> {
        hash::mask(self.capacity())
    }

    /// What stands in the key word of a bucket that holds the key.
    #[inline]
    fn mark(self, key: u64) -> u64 {
        if key == 0 { 1 } else { key }
    }

    #[inline]
    fn at(self, bucket: u64) -> Result<Addr, Stop> {
        Ok(self.buckets.at(bucket)?.addr())
    }
}
