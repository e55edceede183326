//! All collections of a catalog, whatever their types.

use words::{Allocate, Stop, Words};

use super::{Lengths, Place, Record, Types, names};
use crate::btree_map;
use crate::encoded::EncodedCollection;
use crate::indexed_map;

/// A collection in the catalog.
#[derive(Clone, Debug)]
pub struct Listed {
    name: String,
    record: Record,
}

impl Listed {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of the collection's header.
    pub fn header(&self) -> u64 {
        self.record.collection
    }

    /// Returns the stored types.
    ///
    /// # Errors
    /// As [`open`](super::open).
    pub fn types<W: Words>(&self, tx: &mut W) -> Result<Types, Stop> {
        self.record.types(tx)
    }

    /// Opens the collection by its stored types. `None` if this version does not know them.
    ///
    /// # Errors
    /// As [`open`](super::open).
    pub fn open<W: Words>(&self, tx: &mut W) -> Result<Option<EncodedCollection>, Stop> {
        let types = self.types(tx)?;
        let Lengths { key, value } = types.lengths;
        let lengths = (fixed(key), fixed(value));
        let header = match types.name.starts_with("IndexedMap<") {
            true => indexed_map::records_at(tx, self.record.collection)?,
            false => self.record.collection,
        };
        Ok(EncodedCollection::of_record(header, &types.name, lengths, &types.definitions))
    }
}

/// Returns the fixed length that a record has.
const fn fixed(length: u32) -> Option<usize> {
    match length {
        0 => None,
        length => Some(length as usize - 1),
    }
}

/// Returns all collections, in order of their names. `None` if the pool has no catalog.
///
/// # Errors
/// As [`open`](super::open); [`Stop::BadValue`] in a damaged catalog.
pub fn collections<W: Allocate>(tx: &mut W) -> Result<Option<Vec<Listed>>, Stop> {
    let Place::Catalog(names) = names(tx)? else { return Ok(None) };
    let mut found = Vec::new();
    names.for_each(tx, |name, record| found.push(Listed { name, record }))?;
    Ok(Some(found))
}

/// Checks the catalog, without the collections in it. `None` if the pool has none.
///
/// # Errors
/// As [`open`](super::open).
pub fn check<W: Allocate>(tx: &mut W) -> Result<Option<btree_map::Checked>, Stop> {
    match names(tx)? {
        Place::Catalog(names) => names.check(tx).map(Some),
        Place::Free | Place::OwnRoot => Ok(None),
    }
}
