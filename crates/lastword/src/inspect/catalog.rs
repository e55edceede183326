//! The collections of a pool by name, without their types in Rust.
//!
//! | function of the crate | reads | of each collection |
//! |---|---|---|
//! | `list_collections` | the catalog, and the headers of collections | name, types, length |
//! | `check` | all | the same, and its damage |
//!
//! Invariants:
//! - A damaged collection hides no other one: each is read by a transaction of its own.

use collections::catalog::{self, Listed};
use collections::encoded::{self, EncodedCollection, Kind, Size};
use words::{Allocate, Stop};

use super::finding::{CollectionDamage, Problem};
use crate::error::Error;

/// A collection with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionInfo {
    /// The name. It may have any characters: see [`printable`](crate::printable).
    pub name: String,
    /// The kind; `None` if the record is damaged or this program does not know the types.
    pub kind: Option<Kind>,
    /// The name of the type of keys, if it has keys.
    pub key: Option<String>,
    /// The name of the type of values or elements, if it has them.
    pub value: Option<String>,
    /// The size; `None` if it is damaged or of unknown types.
    pub size: Option<Size>,
    /// The first damage found. A list has damage to the record or to the length alone.
    pub damage: Option<CollectionDamage>,
}

/// A description, and the collection if its types are known.
pub(super) type Opened = (CollectionInfo, Option<EncodedCollection>);

/// A heap that is read by one transaction after another.
pub(super) trait Heap {
    /// A transaction that only reads.
    type Tx<'t>: Allocate;

    /// Runs the body in a transaction.
    ///
    /// # Errors
    /// The body's, and a failed read of the pool's file.
    fn read<R>(
        &mut self,
        body: impl FnOnce(&mut Self::Tx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error>;
}

/// Returns the descriptions of the collections, if the pool has a catalog.
///
/// # Errors
/// The catalog is damaged, or a read failed.
pub(super) fn list(heap: &mut impl Heap) -> Result<Option<Vec<CollectionInfo>>, Error> {
    let Some(opened) = open(heap)? else { return Ok(None) };
    Ok(Some(opened.into_iter().map(|(info, _)| info).collect()))
}

/// Returns the descriptions of the collections, if the pool has a catalog, and those collections
/// whose types are known.
///
/// # Errors
/// As [`list`].
pub(super) fn open(heap: &mut impl Heap) -> Result<Option<Vec<Opened>>, Error> {
    if !has_catalog(heap) {
        return Ok(None);
    }
    let Some(listed) = heap.read(|tx| catalog::collections(tx))? else { return Ok(None) };
    listed.iter().map(|listed| described(heap, listed)).collect::<Result<_, _>>().map(Some)
}

/// Returns whether the pool has a catalog. If the root cannot be read, that is unknown: it may be
/// an object of the program.
fn has_catalog(heap: &mut impl Heap) -> bool {
    matches!(heap.read(|tx| catalog::has_root(tx)), Ok(true))
}

/// Returns a collection's description, and the collection if its types are known.
///
/// # Errors
/// A failed read of the file.
fn described(heap: &mut impl Heap, listed: &Listed) -> Result<Opened, Error> {
    let name = listed.name().to_owned();
    let mut info =
        CollectionInfo { name, kind: None, key: None, value: None, size: None, damage: None };
    let collection = match heap.read(|tx| listed.open(tx)) {
        Ok(Some(collection)) => collection,
        Ok(None) => return Ok((info, None)),
        Err(error) => {
            info.damage = Some(CollectionDamage::of(error)?);
            return Ok((info, None));
        }
    };
    info.kind = Some(collection.kind());
    (info.key, info.value) =
        (collection.key().map(str::to_owned), collection.value().map(str::to_owned));
    match heap.read(|tx| collection.size(tx)) {
        Ok(size) => info.size = Some(size),
        Err(error) => info.damage = Some(CollectionDamage::of(error)?),
    }
    Ok((info, Some(collection)))
}

/// The result of a check of the catalog and its collections.
#[derive(Default)]
pub(super) struct Collections {
    /// The problems, each with the header of the collection.
    pub(super) problems: Vec<(Option<u64>, Problem)>,
    /// The descriptions; `None` without a catalog.
    pub(super) infos: Option<Vec<CollectionInfo>>,
}

/// Checks the catalog and all collections in it.
///
/// # Errors
/// A failed read.
pub(super) fn check(heap: &mut impl Heap) -> Result<Collections, Error> {
    let mut found = Collections::default();
    if !has_catalog(heap) {
        return Ok(found);
    }
    let (damage, listed) = catalog_of(heap)?;
    found.problems.extend(damage.map(|damage| (None, Problem::Catalog(damage))));
    let Some(listed) = listed else { return Ok(found) };
    let mut infos = Vec::with_capacity(listed.len());
    for listed in &listed {
        let (mut info, collection) = described(heap, listed)?;
        let name = info.name.clone();
        if let Some(collection) = collection {
            let first = |checked: encoded::Checked| checked.damage.first().copied();
            let damage = match heap.read(|tx| collection.check(tx).map(first)) {
                Ok(found) => found.map(CollectionDamage::Invariant),
                Err(error) => Some(CollectionDamage::of(error)?),
            };
            info.damage = damage.or(info.damage);
        } else if info.damage.is_none() {
            let types = heap.read(|tx| listed.types(tx))?.to_string();
            found.problems.push((None, Problem::CollectionUnchecked { name: name.clone(), types }));
        }
        if let Some(damage) = info.damage {
            found.problems.push((Some(listed.header()), Problem::Collection { name, damage }));
        }
        infos.push(info);
    }
    found.infos = Some(infos);
    Ok(found)
}

/// Returns the damage of the catalog, and the collections in it, as far as it can be read.
///
/// # Errors
/// As [`check`].
fn catalog_of(
    heap: &mut impl Heap,
) -> Result<(Option<CollectionDamage>, Option<Vec<Listed>>), Error> {
    let damage = match heap.read(|tx| catalog::check(tx)) {
        Ok(checked) => {
            let first = checked.and_then(|checked| checked.damage.first().copied());
            first.map(|damage| CollectionDamage::Invariant(encoded::Damage::BTreeMap(damage)))
        }
        Err(error) => Some(CollectionDamage::of(error)?),
    };
    Ok(match heap.read(|tx| catalog::collections(tx)) {
        Ok(listed) => (damage, listed),
        Err(error) => (Some(damage.map_or_else(|| CollectionDamage::of(error), Ok)?), None),
    })
}
