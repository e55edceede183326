//! Removal of all pairs, in steps that allocate nothing.
//!
//! The first step takes the whole trie away from the header's root, and the map is empty for all
//! transactions after it. The steps then free the buckets, the last first. A detached directory
//! counts the slots at its end whose buckets are freed, so a step may follow after a crash.
//!
//! Write skew: a concurrent insertion or removal writes the length, as the first step does. Each
//! step writes what it frees, so a concurrent change of that conflicts. A change of a value in the
//! rest of the trie, or a change that writes nothing, may commit and precedes.

use system::mutants::{Mutant, injected};
use words::{Addr, Stop, Words};

use super::bucket::{Bucket, Head, discard};
use super::trie::{Directory, HEADER_BYTES, LEVELS_MAX, Spot, Trie};
use crate::entry::Entry;
use crate::length::Length;

/// The last bucket of a detached trie.
struct Last {
    /// The directories above, the root first.
    path: Vec<Directory>,
    spot: Spot,
}

impl Trie {
    /// Frees up to `most` pairs. Returns whether the map is empty and all is freed.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] for damage.
    pub(super) fn clear<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        let mut root = tx.read(self.cleared())?;
        if root == 0 {
            root = self.detach(tx)?;
        }
        let mut left = most.max(1);
        while root != 0 {
            if left == 0 {
                return Ok(false);
            }
            let (freed, is_last) = self.free_last(tx, root, left)?;
            // A bucket without pairs counts too, since a step is bounded.
            left = left.saturating_sub(freed.max(1));
            if is_last {
                tx.write(self.cleared(), 0)?;
                root = 0;
            }
        }
        let is_empty = tx.read(self.root())? == 0;
        if is_empty {
            // Nothing was written if it was empty before.
            tx.protect(self.root())?;
        }
        Ok(is_empty)
    }

    /// Frees up to `most` pairs, and the header if there were no more. Returns whether it did.
    ///
    /// # Errors
    /// As [`clear`](Trie::clear).
    pub(super) fn free<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        if !self.clear(tx, most)? {
            return Ok(false);
        }
        // The root is written, so that a concurrent first insertion conflicts.
        tx.write(self.root(), 0)?;
        tx.retire(Addr::new(self.header(), 0), HEADER_BYTES as u64)?;
        Ok(true)
    }

    /// Takes the trie away from the root, to be freed. Returns its root, or 0.
    fn detach<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        let root = tx.read(self.root())?;
        if root != 0 {
            self.length().free(tx)?;
            let [count, pointer] = Length::ZERO;
            // From the root on: the cleared trie, and the length.
            tx.write_words(self.root(), &[0, root, count, pointer])?;
        }
        Ok(root)
    }

    /// Frees pairs of the last bucket, and the nodes that are empty then. Returns the number of
    /// pairs, and whether the root was freed.
    fn free_last<W: Words>(self, tx: &mut W, root: u64, most: u64) -> Result<(u64, bool), Stop> {
        let Last { mut path, spot } = self.last(tx, root)?;
        let Bucket { object, head, .. } = spot.bucket;
        let kept = head.count.saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        let freed = (head.count - kept) as u64;
        if self.form.inline.is_none() {
            for pair in spot.bucket.pairs(tx, self.form, kept)? {
                Entry::open(tx, pair.entry())?.free(tx)?;
            }
        }
        if kept > 0 || head.chain > 0 {
            self.set_count(tx, spot, kept)?;
            return Ok((freed, false));
        }
        discard(tx, object, self.form.bytes(head))?;
        let mut slots = spot.directory.map_or(0, |directory| spot.group(directory).1);
        while let Some(mut directory) = path.pop() {
            directory.freed += slots;
            if directory.freed < directory.slots() {
                if !injected(Mutant::FreedSlotsForgotten) {
                    tx.write(Addr::new(directory.object, 0), directory.head())?;
                }
                return Ok((freed, false));
            }
            discard(tx, directory.object, directory.bytes())?;
            // A directory has one slot of the one above.
            slots = 1;
        }
        Ok((freed, true))
    }

    /// Returns the last bucket of a detached trie that is not freed.
    fn last<W: Words>(self, tx: &mut W, root: u64) -> Result<Last, Stop> {
        let (mut path, mut object) = (Vec::new(), root);
        let (mut slot, mut link, mut above) = (0, self.cleared(), self.cleared());
        for level in 0..=LEVELS_MAX {
            tx.after_last_read();
            let seen = tx.look(object)?;
            let word = tx.read_seen(seen, 0)?;
            let Some(next) = Directory::from_word(object, level, word) else {
                let bucket = Bucket::new(seen, Head::from_word(word).ok_or(Stop::BadValue)?);
                let spot = Spot { bucket, directory: path.last().copied(), slot, above };
                return if spot.is_sound() { Ok(Last { path, spot }) } else { Err(Stop::BadValue) };
            };
            slot = next.slots() - 1 - next.freed;
            (above, link) = (link, next.at(slot));
            object = tx.read_seen(seen, link.offset)?;
            path.push(next);
        }
        Err(Stop::BadValue)
    }
}
