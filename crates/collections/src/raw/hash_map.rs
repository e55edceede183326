//! A hash map of fixed size: open addressing with linear probing.
//!
//! ```text
//!   value in the program's object       buckets: capacity + 1, 16 to a block of 256 bytes
//!   | first bucket | buckets | seed |   | key | value | key | value | ... | 0 is there | value |
//!                                        start(key) ->  next  ->  next      the bucket of key 0
//! ```
//!
//! A bucket with key 0 is empty, as fresh blocks are. Key 0 itself therefore has a bucket of its
//! own after the others, so every `u64` is a key.
//!
//! Removal closes the gap by moving later buckets of the run back (no tombstones). The table cannot
//! grow, so piled-up tombstones could only be cleared by a transaction over the whole table. Up to
//! half full, a run has two buckets on average, and a removal moves less than one.
//!
//! Invariants:
//! - Between a key's *start*, the first bucket of its probe sequence, and its bucket no bucket is
//!   empty. No key is stored twice.
//! - A run is followed for at most `capacity` buckets.
//! - An insert protects the blocks that it passed. Under snapshot isolation a removal that opens a
//!   gap there must not commit concurrently; it writes the gap's block, so the two conflict. Every
//!   other word that decides an operation lies in a bucket that it writes.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::raw::check::{Checked, Damage};
use crate::raw::hash;

/// Buckets in one block of the array.
const PER_BLOCK: u64 = words::BLOCK_BYTES / 16;

/// The outcome of [`HashMap::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Inserted {
    /// The key is new.
    New,
    /// The key was present, with this value.
    Replaced(u64),
    /// The key is missing and no bucket is free; the map is unchanged.
    Full,
}

/// A fixed number of buckets from `u64` to `u64`; a value of three words that objects can hold.
///
/// The map keeps the capacity of its creation. Once every bucket has a key, an insert of a new key
/// returns `Ok(Inserted::Full)` and stores nothing. `?` does not stop the transaction, so match the
/// outcome. [`ChainedMap`](super::ChainedMap) and [`BTreeMap`](super::BTreeMap) hold more keys than
/// expected.
///
/// ```
/// use collections::raw::{HashMap, Inserted};
/// use words::{Stop, Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let map = mock.transact(|tx| HashMap::create(tx, 64))?;
/// let fill = mock.transact(|tx| {
///     for key in 1..=300 {
///         match map.insert(tx, key, key)? {
///             Inserted::New | Inserted::Replaced(_) => {}
///             Inserted::Full => return Ok(key),
///         }
///     }
///     Ok(300)
/// });
/// assert_eq!(fill?, 65, "64 buckets have a key");
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HashMap {
    buckets: Array<[u64; 2]>,
    seed: u64,
}

/// The end of a search for a key.
enum Probe {
    /// The key's bucket, and its place.
    Found(u64, Addr),
    /// The key is missing; the first empty bucket, and its place.
    Free(u64, Addr),
    /// The key is missing, and no bucket is empty.
    Full,
}

impl HashMap {
    /// Creates an empty map of at least `capacity` buckets (a power of two, 16 or more), in this
    /// one transaction. A good capacity is twice the number of keys.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot prepare so many. Use
    /// [`reserve`](HashMap::reserve) and [`prepare`](HashMap::prepare) in several transactions.
    pub fn create<W: Allocate>(tx: &mut W, capacity: u64) -> Result<HashMap, Stop> {
        let map = HashMap::reserve(tx, capacity, 0)?;
        map.prepare(tx, u64::MAX)?;
        Ok(map)
    }

    /// Reserves a map of at least `capacity` buckets (a power of two, 16 or more), which is usable
    /// once [`prepare`](HashMap::prepare) returns true.
    ///
    /// Store it somewhere reachable in the same transaction. With a secret `seed` an attacker
    /// cannot choose keys that collide.
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

    /// Prepares up to `most_blocks` further blocks of 16 buckets; returns whether all are prepared.
    /// The call may be repeated after a crash.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when `most_blocks` are too many for one transaction.
    pub fn prepare<W: Allocate>(self, tx: &mut W, most_blocks: u64) -> Result<bool, Stop> {
        self.buckets.prepare(tx, most_blocks)
    }

    /// Returns the number of buckets, which is the number of keys without key 0 that it can hold.
    #[inline]
    pub const fn capacity(self) -> u64 {
        self.buckets.len().saturating_sub(1)
    }

    /// Returns the bucket where the probe sequence of a key starts.
    ///
    /// The sequence continues with the following buckets and wraps round before the last bucket of
    /// the array, which belongs to key 0 alone.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when this value was never a map.
    #[inline]
    pub fn start(self, key: u64) -> Result<u64, Stop> {
        Ok(self.start_of(key, self.mask()?))
    }

    /// Returns the value of a key.
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

    /// Inserts a key or replaces its value. Writes the whole bucket either way, 2 words in one run;
    /// for a present key [`update`](HashMap::update) writes 1.
    ///
    /// # Errors
    /// As [`Words::write`]. A full map is [`Inserted::Full`], not an error.
    #[inline]
    pub fn insert<W: Words>(self, tx: &mut W, key: u64, value: u64) -> Result<Inserted, Stop> {
        let start = self.start_to_write(tx, key)?;
        match self.probe_from(tx, key, start)? {
            Probe::Found(_, at) => {
                let before = tx.read(at.plus(8))?;
                tx.write_words(at, &[self.mark(key), value])?;
                Ok(Inserted::Replaced(before))
            }
            Probe::Free(bucket, at) => {
                tx.write_words(at, &[self.mark(key), value])?;
                self.protect_passed(tx, start, bucket)?;
                Ok(Inserted::New)
            }
            Probe::Full => Ok(Inserted::Full),
        }
    }

    /// Replaces the value of a present key and returns the old one. Writes 1 word.
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
        let start = self.start_to_write(tx, key)?;
        let Probe::Found(_, at) = self.probe_from(tx, key, start)? else {
            return Ok(None);
        };
        let at = at.plus(8);
        let before = tx.read(at)?;
        tx.write(at, change(before))?;
        Ok(Some(before))
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        let start = self.start_to_write(tx, key)?;
        let Probe::Found(bucket, at) = self.probe_from(tx, key, start)? else {
            return Ok(None);
        };
        let value = tx.read(at.plus(8))?;
        let gap = if key == 0 { bucket } else { self.close(tx, bucket)? };
        tx.write_words(self.at(gap)?, &[0, 0])?;
        Ok(Some(value))
    }

    /// Hints that this key will be inserted, updated or removed soon. For many keys in one
    /// transaction, give the hint for all of them first.
    #[inline]
    pub fn will_insert<W: Words>(self, tx: &mut W, key: u64) {
        tx.compute(work::HASH);
        if let Ok(at) = self.mask().and_then(|mask| self.at(self.start_of(key, mask))) {
            tx.will_write(at, 16);
        }
    }

    /// Hints that this key will be looked up soon.
    #[inline]
    pub fn will_get<W: Words>(self, tx: &mut W, key: u64) {
        tx.compute(work::HASH);
        if let Ok(at) = self.mask().and_then(|mask| self.at(self.start_of(key, mask))) {
            tx.will_read(at, 16);
        }
    }

    /// Calls `visit` with the pairs in up to `most` buckets from bucket `from` on (the first is
    /// 0), in no order; returns the next bucket.
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

    /// Checks up to `most` buckets from bucket `from` on (the first is 0): a lookup reaches every
    /// key, and no key is stored twice. [`whole`](crate::raw::whole) checks the whole map.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let mut checked = Checked::default();
        self.mask()?;
        let end = from.saturating_add(most.max(1)).min(self.buckets.len());
        for bucket in from..end {
            let key = tx.read(self.at(bucket)?)?;
            if key == 0 {
                continue;
            }
            checked.entries += 1;
            if bucket < self.capacity() {
                self.check_run(tx, bucket, key, &mut checked)?;
            }
        }
        checked.next = (end < self.buckets.len()).then_some(end);
        Ok(checked)
    }

    /// Frees the memory. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the map was freed before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.buckets.free(tx)
    }

    /// Checks that the run from the key's start up to its bucket holds neither a gap nor the key.
    fn check_run<W: Words>(
        self,
        tx: &mut W,
        bucket: u64,
        key: u64,
        checked: &mut Checked,
    ) -> Result<(), Stop> {
        let mask = self.mask()?;
        let mut at = self.start_of(key, mask);
        while at != bucket {
            let before = tx.read(self.at(at)?)?;
            if before == 0 {
                checked.found(Damage::Unreachable { bucket, key, gap: at });
                break;
            }
            if before == key {
                checked.found(Damage::Duplicate { bucket, key, first: at });
                break;
            }
            at = (at + 1) & mask;
        }
        Ok(())
    }

    /// Closes the gap that the key in `bucket` leaves, by moving keys of its run back; returns the
    /// bucket that must be emptied instead.
    fn close<W: Words>(self, tx: &mut W, bucket: u64) -> Result<u64, Stop> {
        let mask = self.mask()?;
        let (mut gap, mut at) = (bucket, bucket);
        for _ in 0..mask {
            at = (at + 1) & mask;
            tx.compute(work::VISIT + work::HASH);
            let mut pair = [0; 2];
            tx.read_words(self.at(at)?, &mut pair)?;
            if pair[0] == 0 {
                break;
            }
            // The key may move if the gap is not before its start, going round.
            let start = self.start_of(pair[0], mask);
            if at.wrapping_sub(start) & mask >= at.wrapping_sub(gap) & mask {
                tx.write_words(self.at(gap)?, &pair)?;
                gap = at;
            }
        }
        Ok(gap)
    }

    #[inline]
    fn probe<W: Words>(self, tx: &mut W, key: u64) -> Result<Probe, Stop> {
        let start = self.start_of(key, self.mask()?);
        self.probe_from(tx, key, start)
    }

    /// Searches from the key's start on.
    #[inline(always)]
    fn probe_from<W: Words>(self, tx: &mut W, key: u64, start: u64) -> Result<Probe, Stop> {
        let (mask, mut bucket) = (self.mask()?, start);
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

    /// Protects the blocks between a new key's start and its bucket.
    #[inline]
    fn protect_passed<W: Words>(self, tx: &mut W, start: u64, bucket: u64) -> Result<(), Stop> {
        let (mask, mut at) = (self.mask()?, start);
        for _ in 0..=mask / PER_BLOCK {
            // In the start's block and after `at`: the run of a nearly full table may come round to
            // the block that it began in.
            if at / PER_BLOCK == bucket / PER_BLOCK && at <= bucket {
                break;
            }
            tx.protect(self.at(at)?)?;
            at = ((at | (PER_BLOCK - 1)) + 1) & mask;
        }
        Ok(())
    }

    /// Returns the start of a key.
    #[inline]
    fn start_of(self, key: u64, mask: u64) -> u64 {
        if key == 0 {
            return mask + 1;
        }
        hash::place(key, self.seed, mask)
    }

    /// Returns the start of a key, and announces it as soon as it is known.
    #[inline]
    fn start_to_write<W: Words>(self, tx: &mut W, key: u64) -> Result<u64, Stop> {
        let start = self.start_of(key, self.mask()?);
        tx.will_write(self.at(start)?, 16);
        Ok(start)
    }

    /// Capacity - 1.
    #[inline]
    fn mask(self) -> Result<u64, Stop> {
        hash::mask(self.capacity())
    }

    /// Returns the word that marks a bucket as holding the key.
    #[inline]
    fn mark(self, key: u64) -> u64 {
        if key == 0 { 1 } else { key }
    }

    #[inline]
    fn at(self, bucket: u64) -> Result<Addr, Stop> {
        // Beyond the array only with a value from a damaged object.
        Ok(self.buckets.at(bucket).map_err(|_| Stop::BadPointer)?.addr())
    }
}
