//! Removal: two buckets merge when half of one has room for both.
//!
//! The *buddy* of a bucket has the same depth, and differs from it in the last bit that selects
//! them. A removal that leaves at most 2 pairs looks at the buddy. If both have at most 4 pairs
//! together, one takes the pairs of the other, and the slots of both. Two buckets of depth 1 are
//! alone in their directory, so the merged bucket replaces it. Its buddy is looked at next. A
//! directory in which every bucket has an even number of slots is replaced by one of half the size.
//!
//! Half a bucket is empty after a merge, and after a split on average. So 4 insertions or more lie
//! between a merge and the next split, and a map does not swing between both.
//!
//! Write skew: a merge writes the bucket that it keeps, and writes and frees the other. A removed
//! directory has no other buckets, and a transaction that changes a slot of it writes one of these.

use words::{Addr, Allocate, Stop, Words, work};

use super::bucket::{BITS, Bucket, CAPACITY, Found, Head, discard, write, write_pairs};
use super::grow::new_directory;
use super::trie::{Directory, HEADER_BYTES, SLOTS, Search, Spot, Trie, is_directory};
use crate::entry::Entry;

/// Most pairs of a bucket whose removal looks at the buddy: half of those of a merged bucket.
const FEW: usize = MERGED_MAX / 2;

/// Most pairs of a merged bucket.
const MERGED_MAX: usize = CAPACITY / 2;

/// The rule for a merge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Both buckets together are at most half full.
    HalfFull,
    /// So, or one of them is empty: when the others will be emptied too.
    Empty,
}

impl Trie {
    /// Removes a pair that a search found.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] for damage.
    pub(super) fn remove<W: Allocate>(self, tx: &mut W, search: Search) -> Result<(), Stop> {
        tx.compute(work::LINK);
        let Search { hash, spot: Some(spot), found: Some(found), .. } = search else {
            return Ok(());
        };
        let Found { bucket, index, entry } = found;
        let front = spot.bucket;
        let Some(last) = front.head.count.checked_sub(1) else {
            return Err(Stop::BadValue); // a chain whose first bucket is empty
        };
        if (bucket.object, index) != (front.object, last) {
            // The last pair fills the gap. Only the first bucket of a chain has room.
            let pairs = front.pairs(tx, self.form, last)?;
            write_pairs(tx, self.form, bucket.object, bucket.head, index, &pairs)?;
        }
        if let Some(entry) = entry {
            entry.free(tx)?;
        }
        self.length().add(tx, hash, -1)?;
        self.set_count(tx, spot, last)?;
        if last <= FEW && front.head.chain == 0 {
            self.merge(tx, hash, When::HalfFull)?;
        }
        Ok(())
    }

    /// Removes and frees up to `most` pairs, the first in hash order first. Returns whether the map
    /// is empty.
    ///
    /// # Errors
    /// As [`remove`](Trie::remove).
    pub(super) fn clear<W: Allocate>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        let (mut left, mut at) = (most.max(1), 0);
        loop {
            let (_, root) = self.open(tx)?;
            let Some(spot) = self.descend(tx, root, at)? else {
                self.length().fold(tx)?;
                return Ok(true);
            };
            let Bucket { object, head, .. } = spot.bucket;
            if head.count > 0 {
                if left == 0 {
                    return Ok(false);
                }
                left -= self.clear_bucket(tx, at, spot, left)?;
                continue;
            }
            if spot.directory.is_none() {
                tx.write(self.root(), 0)?;
                discard(tx, object, self.form.bytes(head))?;
                continue;
            }
            if self.merge(tx, at, When::Empty)? {
                continue;
            }
            // The buddy is divided: it has pairs, and becomes one bucket when it has fewer.
            let (_, greatest) = spot.range(at);
            at = greatest.checked_add(1).ok_or(Stop::BadValue)?;
        }
    }

    /// Frees the header of an empty map.
    ///
    /// # Errors
    /// As [`Words::retire`].
    pub(super) fn free_header<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        // The root is written, so that a concurrent first insertion conflicts.
        tx.write(self.root(), 0)?;
        tx.retire(Addr::new(self.header(), 0), HEADER_BYTES as u64)
    }

    /// Removes up to `most` pairs of one bucket, the last first, and returns their number.
    fn clear_bucket<W: Allocate>(
        self,
        tx: &mut W,
        hash: u64,
        spot: Spot,
        most: u64,
    ) -> Result<u64, Stop> {
        let count = spot.bucket.head.count;
        let kept = count.saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        let pairs = spot.bucket.pairs(tx, self.form, kept)?;
        if self.form.inline.is_none() {
            for pair in &pairs {
                Entry::open(tx, pair.entry())?.free(tx)?;
            }
        }
        let removed = pairs.len();
        self.length().add(tx, hash, -(removed as i64))?;
        self.set_count(tx, spot, kept)?;
        Ok(removed as u64)
    }

    /// Writes the count of a bucket whose last pairs left. An empty bucket of a chain leaves it.
    fn set_count<W: Words>(self, tx: &mut W, spot: Spot, count: usize) -> Result<(), Stop> {
        let Bucket { object, head, .. } = spot.bucket;
        if count > 0 || head.chain == 0 {
            return tx.write(Addr::new(object, 0), Head { count, ..head }.to_word());
        }
        let next = spot.bucket.next(tx, self.form)?.ok_or(Stop::BadValue)?;
        let front = Head { depth: head.depth, ..next.head };
        tx.write(Addr::new(next.object, 0), front.to_word())?;
        spot.relink(tx, next.object)?;
        discard(tx, object, self.form.bytes(head))
    }

    /// Merges the bucket of a hash with its buddy as often as the rule allows. Returns whether it
    /// did.
    #[cold]
    fn merge<W: Allocate>(self, tx: &mut W, hash: u64, when: When) -> Result<bool, Stop> {
        let mut merged = false;
        loop {
            let (_, root) = self.open(tx)?;
            let Some(spot) = self.descend(tx, root, hash)? else {
                return Ok(merged);
            };
            let (Some(directory), Some(buddy)) = (spot.directory, self.buddy(tx, &spot, when)?)
            else {
                return Ok(merged);
            };
            self.join(tx, directory, spot, buddy)?;
            merged = true;
        }
    }

    /// Returns the buddy of a bucket, if both are to be merged.
    fn buddy<W: Words>(self, tx: &mut W, spot: &Spot, when: When) -> Result<Option<Bucket>, Stop> {
        let own = spot.bucket;
        let Some(directory) = spot.directory else {
            return Ok(None);
        };
        if when == When::HalfFull && own.head.count > FEW {
            return Ok(None);
        }
        let (first, slots) = spot.group(directory);
        let object = tx.read(directory.at(first ^ slots))?;
        tx.after_last_read();
        let seen = tx.look(object)?;
        let word = tx.read_seen(seen, 0)?;
        if is_directory(word) {
            return Ok(None);
        }
        let head = Head::from_word(word).ok_or(Stop::BadValue)?;
        if object == own.object || head.capacity != CAPACITY {
            return Err(Stop::BadValue);
        }
        let is_plain = head.chain == 0 && own.head.chain == 0;
        let is_half_full = is_plain && head.count + own.head.count <= MERGED_MAX;
        let is_empty = head.count.min(own.head.count) == 0;
        let may = is_half_full || (when == When::Empty && is_empty);
        Ok((head.depth == own.head.depth && may).then(|| Bucket::new(seen, head)))
    }

    /// Moves the pairs of one of two buddies to the other, and frees it.
    fn join<W: Allocate>(
        self,
        tx: &mut W,
        directory: Directory,
        spot: Spot,
        buddy: Bucket,
    ) -> Result<(), Stop> {
        let own = spot.bucket;
        // The one with a chain stays; the other is empty then.
        let own_stays = (own.head.chain, own.head.count) >= (buddy.head.chain, buddy.head.count);
        let (kept, left) = if own_stays { (own, buddy) } else { (buddy, own) };
        let is_alone = kept.head.depth == 1;
        let depth = match (is_alone, directory.level) {
            (true, 0) => 0,
            (true, _) => BITS,
            (false, _) => kept.head.depth - 1,
        };
        let pairs = left.pairs(tx, self.form, 0)?;
        let head = Head { count: kept.head.count + pairs.len(), depth, ..kept.head };
        write(tx, self.form, kept.object, head, kept.head.count, &pairs)?;
        discard(tx, left.object, self.form.bytes(left.head))?;
        if is_alone {
            tx.write(spot.above, kept.object)?;
            discard(tx, directory.object, directory.bytes())?;
            // The map is small again.
            return if directory.level == 0 { self.length().fold(tx) } else { Ok(()) };
        }
        let (first, slots) = spot.group(directory);
        let from = if own_stays { first ^ slots } else { first };
        Spot { slot: from, ..spot }.relink(tx, kept.object)?;
        if slots == 1 { halve(tx, directory, spot.above) } else { Ok(()) }
    }
}

/// Replaces a directory by one of half the size, if no bucket needs its last bit.
fn halve<W: Allocate>(tx: &mut W, directory: Directory, above: Addr) -> Result<(), Stop> {
    let mut slots = [0; SLOTS];
    let slots = &mut slots[..directory.slots()];
    tx.read_words(directory.at(0), slots)?;
    if slots.chunks(2).any(|pair| pair[0] != pair[1]) {
        return Ok(());
    }
    for slot in 0..slots.len() / 2 {
        slots[slot] = slots[2 * slot];
    }
    let smaller = Directory { bits: directory.bits - 1, ..directory };
    let object = new_directory(tx, smaller, &slots[..smaller.slots()])?;
    tx.write(above, object)?;
    discard(tx, directory.object, directory.bytes())
}
