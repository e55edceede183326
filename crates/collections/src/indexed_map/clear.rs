//! Removal of all records, in steps.

use words::{Stop, Words};

use super::index::Indexes;
use super::rebuild::{free_progress, free_replaced};
use super::{Header, IndexedMap, REBUILD};
use crate::btree::Tree;
use crate::btree_map::BTreeMap;
use crate::key::Key;
use crate::value::Value;

impl<K: Key + ?Sized, V: Value + ?Sized, I: Indexes<K, V>> IndexedMap<K, V, I> {
    /// Removes all records in one transaction. For a large map see
    /// [`clear_step`](IndexedMap::clear_step).
    ///
    /// # Errors
    /// As [`BTreeMap::clear`].
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.clear_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Frees up to `most` records, and as many entries of each index. Returns whether the map is
    /// empty and all their memory is freed. The first step makes the map empty for all transactions
    /// after it: see [`BTreeMap::clear_step`].
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        let header = self.header(tx)?;
        let mut was_cleared = false;
        for tree in Self::trees(&header) {
            if tree.has_cleared(tx)? {
                was_cleared = true;
                tree.clear(tx, most)?;
            }
        }
        if was_cleared {
            // All trees lose their entries in one transaction. A tree whose entries are all freed
            // would also lose entries inserted since the last step, while the other trees kept
            // theirs.
            return Ok(false);
        }
        let mut is_empty = true;
        for tree in Self::trees(&header) {
            is_empty &= tree.clear(tx, most)?;
        }
        Ok(is_empty)
    }

    /// Frees the map in one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// As [`clear`](IndexedMap::clear).
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.drop_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Does a step as [`clear_step`](IndexedMap::clear_step), and frees the map itself when it is
    /// empty. Returns whether it did; every copy of this value dangles then.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        if !self.clear_step(tx, most)? || !free_replaced(tx, self.header, most)? {
            return Ok(false);
        }
        let header = self.header(tx)?;
        for tree in Self::trees(&header) {
            if !tree.free(tx, most)? {
                return Err(Stop::BadValue); // it was empty
            }
        }
        free_progress(tx, header.rebuild)?;
        self.free_header(tx)?;
        Ok(true)
    }

    pub(super) fn free_header<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        // Written first, so that a concurrent step of a rebuild conflicts in every design.
        tx.write_words(self.at(REBUILD), &[0, 0])?;
        tx.retire(self.at(0), Self::HEADER_BYTES as u64)
    }

    /// Returns the trees of the records and of the indexes.
    fn trees(header: &Header) -> impl Iterator<Item = Tree> {
        let records = BTreeMap::<K, V>::at(header.records).tree();
        let indexes = (0..I::LENGTHS.len()).map(|at| Self::tree(header, at));
        std::iter::once(records).chain(indexes)
    }
}
