//! Removal: two buckets merge when half of one has room for both.
//!
//! The *buddy* of a bucket has the same depth, and differs from it in the last bit that selects
//! them. A removal that leaves at most 2 pairs looks at the buddy. If both have at most 4 pairs
//! together, one takes the pairs of the other, and the slots of both. Two buckets of depth 1 are
//! alone in their directory, so the merged bucket replaces it. Its buddy is looked at next.
//!
//! A removal allocates nothing: a full pool can be emptied. So a directory keeps its size until its
//! last two buckets merge.
//!
//! A directory is never empty. The removal of its last pair leaves a bucket without pairs. The
//! bucket's buddy has none either, so it is no divided range, and both merge. The merged bucket's
//! buddy is looked at next, up to the merge that replaces the directory.
//!
//! Half a bucket is empty after a merge, and after a split on average. So 4 insertions or more lie
//! between a merge and the next split, and a map does not swing between both.
//!
//! Write skew: a merge writes the bucket that it keeps, and writes and frees the other. A removed
//! directory has no other buckets, and a transaction that changes a slot of it writes one of these.

use system::mutants::{Mutant, injected};
use words::{Addr, Stop, Words, work};

use super::bucket::{BITS, Bucket, CAPACITY, Found, Head, discard, write, write_pairs};
use super::trie::{Directory, Search, Spot, Trie, is_directory};

/// Most pairs of a bucket whose removal looks at the buddy: half of those of a merged bucket.
const FEW: usize = MERGED_MAX / 2;

/// Most pairs of a merged bucket.
const MERGED_MAX: usize = CAPACITY / 2;

impl Trie {
    /// Removes the pair that a search found. Protects an absent key.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] for damage.
    pub(super) fn remove<W: Words>(self, tx: &mut W, search: Search) -> Result<(), Stop> {
        tx.compute(work::LINK);
        let Search { hash, spot: Some(spot), found: Some(found), .. } = search else {
            return search.protect(tx, self);
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
        self.length().subtract(tx, hash)?;
        self.set_count(tx, spot, last)?;
        if last <= FEW && front.head.chain == 0 {
            self.merge(tx, hash)?;
        }
        Ok(())
    }

    /// Writes the count of a bucket whose last pairs left. An empty bucket of a chain leaves it.
    pub(super) fn set_count<W: Words>(
        self,
        tx: &mut W,
        spot: Spot,
        count: usize,
    ) -> Result<(), Stop> {
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

    /// Merges the bucket of a hash with its buddy as often as the rule allows.
    #[cold]
    fn merge<W: Words>(self, tx: &mut W, hash: u64) -> Result<(), Stop> {
        loop {
            let (_, root) = self.open(tx)?;
            let Some(spot) = self.descend(tx, root, hash)? else {
                return Ok(());
            };
            let (Some(directory), Some(buddy)) = (spot.directory, self.buddy(tx, &spot)?) else {
                return Ok(());
            };
            self.join(tx, directory, spot, buddy)?;
        }
    }

    /// Returns the buddy of a bucket, if both are to be merged.
    fn buddy<W: Words>(self, tx: &mut W, spot: &Spot) -> Result<Option<Bucket>, Stop> {
        let own = spot.bucket;
        let Some(directory) = spot.directory else {
            return Ok(None);
        };
        if own.head.count > FEW {
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
        let may =
            is_plain && head.depth == own.head.depth && head.count + own.head.count <= MERGED_MAX;
        Ok(may.then(|| Bucket::new(seen, head)))
    }

    /// Moves the pairs of one of two buddies to the other, and frees it.
    fn join<W: Words>(
        self,
        tx: &mut W,
        directory: Directory,
        spot: Spot,
        buddy: Bucket,
    ) -> Result<(), Stop> {
        let own = spot.bucket;
        // Fewer pairs move.
        let own_stays = own.head.count >= buddy.head.count;
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
        if injected(Mutant::MergedSlotsKept) {
            return Ok(());
        }
        let from = if own_stays { first ^ slots } else { first };
        Spot { slot: from, ..spot }.relink(tx, kept.object)
    }
}
