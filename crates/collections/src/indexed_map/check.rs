//! The validator: the records, the indexes, and each against the other.

use std::fmt;
use std::ops::{Bound, ControlFlow};

use words::{Stop, Words};

use super::index::Indexes;
use super::{Header, IndexedMap};
use crate::btree::{self, Scan};
use crate::btree_map::BTreeMap;
use crate::key::Key;
use crate::value::Value;

/// The greatest number of findings in one result. More would not help a repair.
const DAMAGE_MAX: usize = 100;

/// Entries of an index that are read before their records are.
const PAGE: usize = 64;

/// The result of the validator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Records seen.
    pub records: u64,
    /// Records and entries that [`clear_step`](IndexedMap::clear_step) has still to free.
    pub pending: u64,
    /// Whether [`rebuild_step`](IndexedMap::rebuild_step) has entries to add. The indexes are then
    /// not compared with the records.
    pub is_rebuilding: bool,
    /// Violated invariants; empty in a sound map, at most 100 findings.
    pub damage: Vec<Damage>,
}

/// A violated invariant of a map with indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// Damage of the map of records.
    Records(btree::Damage),
    /// Damage of an index, without regard to the records.
    Index {
        /// The index, from 0.
        index: usize,
        /// The damage.
        damage: btree::Damage,
    },
    /// A record that an index lacks.
    Missing {
        /// The index, from 0.
        index: usize,
        /// The encoded entry: the index key and the record's key.
        entry: Vec<u8>,
    },
    /// An entry of an index without a record, or one whose record has another index key.
    Stray {
        /// The index, from 0.
        index: usize,
        /// The encoded entry: the index key and the record's key.
        entry: Vec<u8>,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Records(damage) => write!(f, "records: {damage}"),
            Damage::Index { index, damage } => write!(f, "index {index}: {damage}"),
            Damage::Missing { index, entry } => {
                write!(f, "index {index}: expected entry {entry:02x?}, found none")
            }
            Damage::Stray { index, entry } => {
                write!(f, "index {index}: entry {entry:02x?}, expected a record with its index key")
            }
        }
    }
}

impl Checked {
    fn found(&mut self, damage: Damage) {
        if !self.is_full() {
            self.damage.push(damage);
        }
    }

    const fn is_full(&self) -> bool {
        self.damage.len() >= DAMAGE_MAX
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized, I: Indexes<K, V>> IndexedMap<K, V, I> {
    /// Checks the whole map in one transaction: the records and the indexes as
    /// [`BTreeMap::check`], each record's entries, and each entry's record.
    ///
    /// # Errors
    /// As [`BTreeMap::check`].
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        let header = self.header(tx)?;
        let records = BTreeMap::<K, V>::at(header.records);
        let checked = records.check(tx)?;
        let mut all = Checked {
            records: checked.entries,
            pending: checked.pending,
            is_rebuilding: header.rebuild != 0,
            damage: checked.damage.into_iter().map(Damage::Records).collect(),
        };
        for index in 0..I::LENGTHS.len() {
            let is_entry = |entry: &[u8], _: &[u8]| {
                I::record_of(index, entry).is_ok_and(|key| K::from_bytes(key).is_ok())
            };
            let checked = Self::tree(&header, index).check_whole(tx, &is_entry)?;
            all.pending += checked.pending;
            for damage in checked.damage {
                all.found(Damage::Index { index, damage });
            }
        }
        // A damaged tree is not searched: in a tree with a wrong order, a search would report sound
        // entries as missing.
        if all.damage.is_empty() && !all.is_rebuilding {
            Self::find_missing(tx, &header, &mut all)?;
            for index in 0..I::LENGTHS.len() {
                Self::find_stray(tx, &header, index, &mut all)?;
            }
        }
        Ok(all)
    }

    /// Finds entries that the records have and the indexes lack.
    fn find_missing<W: Words>(tx: &mut W, header: &Header, all: &mut Checked) -> Result<(), Stop> {
        let mut rest = Some(BTreeMap::<K, V>::at(header.records).range(..));
        while let Some(range) = rest.filter(|_| !all.is_full()) {
            let mut page = Vec::new();
            rest = range.read_encoded(tx, PAGE, |key, value| {
                page.push(Self::entries(&key, &V::decode(value)?)?);
                Ok(())
            })?;
            for entries in page {
                for (index, entry) in entries.into_iter().enumerate() {
                    let Some(entry) = entry else { continue };
                    if !Self::tree(header, index).contains(tx, entry.as_bytes())? {
                        let entry = entry.as_bytes().to_vec();
                        all.found(Damage::Missing { index, entry });
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds entries of an index that no record has.
    fn find_stray<W: Words>(
        tx: &mut W,
        header: &Header,
        index: usize,
        all: &mut Checked,
    ) -> Result<(), Stop> {
        let records = BTreeMap::<K, V>::at(header.records).tree();
        let mut last: Option<Vec<u8>> = None;
        while !all.is_full() {
            let low = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let bounds = (low, Bound::Unbounded);
            let scan = Scan { bounds, is_reverse: false, reads_values: false };
            let mut page = Vec::new();
            Self::tree(header, index).scan(tx, scan, |entry, _| {
                page.push(entry.into_owned());
                let is_full = page.len() == PAGE;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            for entry in &page {
                let key = I::record_of(index, entry)?;
                let entries =
                    records.get(tx, key, |value| Self::entries(key, &V::decode(value)?))?;
                let expected = entries.as_ref().and_then(|entries| entries[index].as_ref());
                if expected.is_none_or(|expected| expected.as_bytes() != entry) {
                    all.found(Damage::Stray { index, entry: entry.clone() });
                }
            }
            last = match page.pop() {
                Some(entry) => Some(entry),
                None => return Ok(()),
            };
        }
        Ok(())
    }
}
