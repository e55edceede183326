//! Addition of indexes to an existing map, in steps, while other transactions use the map.
//!
//! The records are indexed in the order of their keys, and `from` is the key of the next. Changes
//! of records update the indexes before and after `from`. A step therefore may insert an entry that
//! is already there, and a change may remove an entry that is missing.
//!
//! Write skew: a step reads a record and inserts its entry. A concurrent change of the record to
//! another index key removes that entry. If it finds none, it protects the place where the step
//! inserts, and one of the two transactions aborts. A step does not see a record that is inserted
//! after its snapshot. The insertion of that record adds its entries.
//!
//! A change that began before the indexes were replaced writes the old ones. A step therefore
//! protects the records that it reads and the places between them: either it sees the change, or
//! one of both aborts.

use std::ops::Bound;

use words::{Addr, Allocate, Bytes, Objects, Ptr, Stop, Words};

use super::index::Indexes;
use super::{Header, INDEX, IndexedMap, NO_ENTRIES, REBUILD, REPLACED};
use crate::btree::{Form, Tree};
use crate::btree_map::{BTreeMap, Range};
use crate::key::{Key, KeyBuf};
use crate::value::Value;

/// A set to be freed: the next one, its header, and the length of its keys plus 1, or 0.
type Replaced = [u64; 3];

impl<K: Key + ?Sized, V: Value + ?Sized, I: Indexes<K, V>> IndexedMap<K, V, I> {
    /// Adds indexes to a map. Call [`rebuild_step`](IndexedMap::rebuild_step) until it returns
    /// true: the indexes cannot be read before. The map belongs to the result, so no transaction
    /// may change it through another handle from then on.
    ///
    /// [`catalog::open_or_replace`](crate::catalog::open_or_replace) does this with a map that has
    /// a name.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn from_map<W: Allocate>(tx: &mut W, records: BTreeMap<K, V>) -> Result<Self, Stop> {
        let rebuild = new_progress(tx)?;
        Self::assembled(tx, records, rebuild, 0)
    }

    /// Replaces the indexes by others, which are rebuilt from the records as after
    /// [`from_map`](IndexedMap::from_map). Every copy of the old value dangles from then on.
    ///
    /// A map with a name must be replaced there, too: call this in
    /// [`catalog::open_or_replace`](crate::catalog::open_or_replace). For the same indexes see
    /// [`reset_indexes`](IndexedMap::reset_indexes).
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn with_indexes<J: Indexes<K, V>, W: Allocate>(
        self,
        tx: &mut W,
    ) -> Result<IndexedMap<K, V, J>, Stop> {
        let header = self.header(tx)?;
        let replaced = Self::replaced(tx, &header)?;
        free_progress(tx, header.rebuild)?;
        self.free_header(tx)?;
        let rebuild = new_progress(tx)?;
        IndexedMap::assembled(tx, BTreeMap::at(header.records), rebuild, replaced)
    }

    /// Empties the indexes, which are then rebuilt from the records as after
    /// [`from_map`](IndexedMap::from_map): for indexes that are damaged. The map keeps its name,
    /// and copies of this value stay valid.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn reset_indexes<W: Allocate>(self, tx: &mut W) -> Result<(), Stop> {
        let header = self.header(tx)?;
        let replaced = Self::replaced(tx, &header)?;
        free_progress(tx, header.rebuild)?;
        let rebuild = new_progress(tx)?;
        tx.write_words(self.at(REBUILD), &[rebuild, replaced])?;
        self.write_empty_indexes(tx)
    }

    /// Returns whether a rebuild has yet to index some records. The indexes cannot be read then:
    /// call [`rebuild_step`](IndexedMap::rebuild_step).
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn is_rebuilding<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        Ok(tx.read(self.at(REBUILD))? != 0)
    }

    /// Gives up the memory of replaced indexes. Only for damaged ones, which
    /// [`rebuild_step`](IndexedMap::rebuild_step) and [`drop_step`](IndexedMap::drop_step) refuse
    /// to free: the memory is lost until the pool is compacted.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn leak_replaced<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        tx.write(self.at(REPLACED), 0)
    }

    /// Adds the indexes to the list of the replaced ones, and returns its first member.
    fn replaced<W: Allocate>(tx: &mut W, header: &Header) -> Result<u64, Stop> {
        let mut first = header.replaced;
        for (at, length) in I::LENGTHS.iter().enumerate() {
            let length = length.map_or(0, |length| length as u64 + 1);
            first = tx.alloc::<Replaced>([first, header.indexes[at], length])?.to_bits();
        }
        Ok(first)
    }

    /// Does a step of a rebuild, if there is one: adds the entries of up to `most` records to the
    /// indexes, or frees as many entries of indexes that were replaced. Returns whether nothing is
    /// left to do.
    ///
    /// The progress is part of the pool: after a crash the next call continues. Other transactions
    /// may change the map between the steps, and at the same time.
    ///
    /// # Errors
    /// As [`insert`](IndexedMap::insert). [`Stop::BadValue`] also if a replaced index is damaged:
    /// see [`leak_replaced`](IndexedMap::leak_replaced).
    pub fn rebuild_step<W: Allocate>(self, tx: &mut W, most: usize) -> Result<bool, Stop> {
        let rebuild = tx.read(self.at(REBUILD))?;
        if rebuild == 0 {
            return free_replaced(tx, self.header, most as u64);
        }
        let progress = Ptr::<Bytes>::from_bits(rebuild);
        let from = tx.get(progress)?;
        let first = from.read(tx)?;
        let mut start = KeyBuf::new();
        start.push(&first);
        let bounds = (Bound::Included(start), Bound::Unbounded);
        let mut all = Vec::new();
        let records = self.records(tx)?;
        let rest = Range::of(records, bounds).read_encoded(tx, most, |key, value| {
            let entries = Self::entries(&key, &V::decode(value)?)?;
            all.push((key.into_owned(), entries));
            Ok(())
        })?;
        let header = self.header(tx)?;
        records.tree().protect_around(tx, &first)?;
        for (key, entries) in &all {
            records.tree().protect_around(tx, key)?;
            Self::change_entries(tx, &header, &NO_ENTRIES, entries)?;
        }
        match (rest, all.pop()) {
            (Some(_), Some((mut last, _))) => {
                last.push(0); // the least key above
                let from = from.replaced(tx, &last)?;
                tx.set(progress, from)?;
                Ok(false)
            }
            _ => {
                tx.write(self.at(REBUILD), 0)?;
                free_progress(tx, rebuild)?;
                Ok(header.replaced == 0)
            }
        }
    }

    /// Makes a map of records, with empty indexes.
    pub(super) fn assembled<W: Allocate>(
        tx: &mut W,
        records: BTreeMap<K, V>,
        rebuild: u64,
        replaced: u64,
    ) -> Result<Self, Stop> {
        let object = tx.allocate(Self::HEADER_BYTES)?;
        tx.write_words(Addr::new(object, 0), &[records.header(), rebuild, replaced])?;
        let map = IndexedMap { header: object, types: std::marker::PhantomData };
        map.write_empty_indexes(tx)?;
        Ok(map)
    }

    fn write_empty_indexes<W: Allocate>(self, tx: &mut W) -> Result<(), Stop> {
        for at in 0..I::LENGTHS.len() {
            let tree = Tree::create(tx)?;
            tx.write(self.at(INDEX + 8 * at as u64), tree)?;
        }
        Ok(())
    }
}

/// Allocates the progress of a rebuild that begins with the first record.
fn new_progress<W: Allocate>(tx: &mut W) -> Result<u64, Stop> {
    let from = Bytes::new(tx, &[])?;
    Ok(tx.alloc(from)?.to_bits())
}

pub(super) fn free_progress<W: Words>(tx: &mut W, rebuild: u64) -> Result<(), Stop> {
    if rebuild != 0 {
        let progress = Ptr::<Bytes>::from_bits(rebuild);
        let from = tx.get(progress)?;
        // Written first, so that a concurrent step conflicts in every design.
        tx.set(progress, from)?;
        from.free(tx)?;
        tx.free(progress)?;
    }
    Ok(())
}

/// Frees up to `most` entries of the replaced sets of a map. Returns whether there are no more.
pub(super) fn free_replaced<W: Words>(tx: &mut W, header: u64, most: u64) -> Result<bool, Stop> {
    let first = tx.read(Addr::new(header, REPLACED))?;
    if first == 0 {
        return Ok(true);
    }
    let replaced = Ptr::<Replaced>::from_bits(first);
    let [next, set, length] = tx.get(replaced)?;
    let length = length.checked_sub(1).map(|length| length as usize);
    if Tree::at(set, Form::of_lengths(length, Some(0))).free(tx, most)? {
        tx.write(Addr::new(header, REPLACED), next)?;
        tx.free(replaced)?;
        return Ok(next == 0);
    }
    Ok(false)
}
