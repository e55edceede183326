//! Insertion: a full bucket grows, splits, or gets a chain.
//!
//! ```text
//!   the first bucket of a map      doubles, up to 8 pairs
//!   bucket with several slots      its slots are divided between it and a new bucket
//!   bucket with one slot           the directory is replaced by one of twice the size first
//!     of less than 64
//!   bucket with one slot of 64,    a directory of two slots takes its place, for it and a new
//!     or without directory         bucket
//!   all hashes equal               a new bucket in front of it
//! ```
//!
//! A split moves the pairs of one bucket, at most 8, and writes at most 64 slots. All 9 pairs may
//! be on the same side of it. Then that side is split again, at most once for each bit of a hash.
//!
//! Write skew: every change of the trie writes or frees the buckets whose ranges it changes. An
//! insertion writes its bucket, so it conflicts with a split of it, and with another insertion of
//! the same key. The first insertion into an empty map writes the root.

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Stop, work};

use super::bucket::{
    BITS, Bucket, CAPACITY, CAPACITY_FIRST, Head, Pair, discard, write, write_next,
};
use super::trie::{DIRECTORY_WORDS, Directory, SLOTS, Search, Spot, Trie};
use crate::entry::Entry;
use crate::key::KeyBuf;

impl Trie {
    /// Inserts a key that a search did not find.
    ///
    /// # Errors
    /// As [`Allocate::allocate`], and [`Stop::BadValue`] for damage.
    pub(super) fn add<W: Allocate>(
        self,
        tx: &mut W,
        search: Search,
        key: &KeyBuf,
        value: &[u8],
    ) -> Result<(), Stop> {
        tx.compute(work::LINK);
        let Search { seed, hash, mut spot, .. } = search;
        let pair = if self.form.inline.is_some() {
            self.form.pair(hash, key, value)
        } else {
            let entry = Entry::create(tx, key.as_bytes(), value)?;
            self.form.pair(hash, key, &entry.to_ne_bytes())
        };
        self.length().add(tx, hash, 1)?;
        // One split for each bit of a hash, and the insertion.
        for _ in 0..=u64::BITS {
            let Some(full) = spot else {
                let bucket = self.new_bucket(tx, Head::empty(CAPACITY_FIRST, 0), &[pair])?;
                return tx.write(self.root(), bucket);
            };
            if self.add_to(tx, seed, hash, full, pair)? {
                return Ok(());
            }
            self.split(tx, seed, hash, full)?;
            let (_, root) = self.open(tx)?;
            spot = self.descend(tx, root, hash)?;
        }
        Err(Stop::BadValue)
    }

    /// Inserts a pair into this bucket or its chain. Returns false when the bucket must be split.
    fn add_to<W: Allocate>(
        self,
        tx: &mut W,
        seed: u64,
        hash: u64,
        spot: Spot,
        pair: Pair,
    ) -> Result<bool, Stop> {
        let Bucket { object, head, .. } = spot.bucket;
        let has_room = head.count < head.capacity;
        if has_room && head.chain == 0 {
            let grown = Head { count: head.count + 1, ..head };
            write(tx, self.form, object, grown, head.count, &[pair])?;
            return Ok(true);
        }
        let mut pairs = spot.bucket.pairs(tx, self.form, 0)?;
        if head.capacity < CAPACITY {
            // At least the first capacity, should damage have left none.
            let capacity = (2 * head.capacity).clamp(CAPACITY_FIRST, CAPACITY);
            pairs.push(pair);
            let bucket = self.new_bucket(tx, Head { capacity, ..head }, &pairs)?;
            spot.relink(tx, bucket)?;
            discard(tx, object, self.form.bytes(head))?;
            return Ok(true);
        }
        if pairs.iter().any(|pair| self.form.hash_of(seed, pair) != hash) {
            return Ok(false);
        }
        if has_room {
            let grown = Head { count: head.count + 1, ..head };
            write(tx, self.form, object, grown, head.count, &[pair])?;
            return Ok(true);
        }
        let front = head.in_front()?;
        let bucket = self.new_bucket(tx, front, &[pair])?;
        write_next(tx, self.form, bucket, front, object)?;
        spot.relink(tx, bucket)?;
        // The old bucket is written, so that a concurrent insertion into it conflicts.
        tx.write(Addr::new(object, 0), head.to_word())?;
        Ok(true)
    }

    /// Allocates a bucket of these pairs.
    fn new_bucket<W: Allocate>(self, tx: &mut W, head: Head, pairs: &[Pair]) -> Result<u64, Stop> {
        let head = Head { count: pairs.len(), ..head };
        let object = tx.allocate(self.form.bytes(head))?;
        write(tx, self.form, object, head, 0, pairs)?;
        Ok(object)
    }

    /// Splits a bucket by the next bit of its hashes.
    fn split<W: Allocate>(self, tx: &mut W, seed: u64, hash: u64, spot: Spot) -> Result<(), Stop> {
        let Bucket { object, head, .. } = spot.bucket;
        if spot.bits() == u64::BITS {
            // Pairs of different hashes, which agree in all bits: they are in the wrong bucket.
            return Err(Stop::BadValue);
        }
        let has_bit = |hash: u64| hash << spot.bits() >> (u64::BITS - 1) == 1;
        let within = spot.directory.filter(|_| head.depth < BITS);
        let depth = within.map_or(1, |_| head.depth + 1);
        let pairs = spot.bucket.pairs(tx, self.form, 0)?;
        let (upper, lower): (Vec<Pair>, Vec<Pair>) =
            pairs.iter().partition(|pair| has_bit(self.form.hash_of(seed, pair)));
        let kept = Head { depth, ..head };
        let (low, high) = if head.chain > 0 || lower.is_empty() || upper.is_empty() {
            // The bucket stays whole on one side, with its chain, whose hashes are all equal.
            tx.write(Addr::new(object, 0), kept.to_word())?;
            let other = self.new_bucket(tx, Head::empty(CAPACITY, depth), &[])?;
            if lower.is_empty() { (other, object) } else { (object, other) }
        } else {
            write(tx, self.form, object, Head { count: lower.len(), ..kept }, 0, &lower)?;
            (object, self.new_bucket(tx, Head::empty(CAPACITY, depth), &upper)?)
        };
        let Some(directory) = within else {
            let new = Directory { object: 0, level: spot.level(), bits: 1, freed: 0 };
            let object = new_directory(tx, new, hash, &[low, high])?;
            let place = spot.directory.map_or(spot.above, |directory| directory.at(spot.slot));
            return tx.write(place, object);
        };
        let (first, slots) = spot.group(directory);
        if slots == 1 {
            return Trie::double(tx, directory, hash, spot, [low, high]);
        }
        let half = slots / 2;
        let (from, bucket) = if low == object { (first + half, high) } else { (first, low) };
        tx.write_words(directory.at(from), &[bucket; SLOTS][..half])
    }

    /// Replaces a directory by one of twice the size, and the slot of a bucket by two.
    fn double<W: Allocate>(
        tx: &mut W,
        directory: Directory,
        hash: u64,
        spot: Spot,
        halves: [u64; 2],
    ) -> Result<(), Stop> {
        let (mut old, mut new) = ([0; SLOTS / 2], [0; SLOTS]);
        let old = &mut old[..directory.slots()];
        tx.read_words(directory.at(0), old)?;
        for (pair, &bucket) in new.chunks_mut(2).zip(&*old) {
            pair.fill(bucket);
        }
        if !injected(Mutant::DoublingSkipsBucket) {
            new[2 * spot.slot..][..2].copy_from_slice(&halves);
        }
        let larger = Directory { bits: directory.bits + 1, ..directory };
        let object = new_directory(tx, larger, hash, &new[..larger.slots()])?;
        tx.write(spot.above, object)?;
        // The slots were read, and the head is written: a concurrent change of a slot conflicts.
        discard(tx, directory.object, directory.bytes())
    }
}

/// Allocates a directory with these slots, at the place for a hash.
fn new_directory<W: Allocate>(
    tx: &mut W,
    directory: Directory,
    hash: u64,
    slots: &[u64],
) -> Result<u64, Stop> {
    let object = tx.allocate(directory.bytes())?;
    let mut words = [0; DIRECTORY_WORDS + SLOTS];
    words[..DIRECTORY_WORDS].copy_from_slice(&[directory.head(), directory.last(hash)]);
    words[DIRECTORY_WORDS..][..slots.len()].copy_from_slice(slots);
    tx.write_words(Addr::new(object, 0), &words[..DIRECTORY_WORDS + slots.len()])?;
    Ok(object)
}
