//! The catalog: collections by name.
//!
//! ```text
//!   root of the pool -> | MAGIC | BTreeMap<str, Record> |
//!                                  "scores" -> | collection | lengths | types: Text |
//!                                  "users"  -> | collection | lengths | types: Text |
//! ```
//!
//! The record has the names of the collection's types, and the lengths of its keys and values where
//! they are fixed. An element of a vector or queue is a value. The lines after the first are the
//! definitions of types that have a macro. A program that opens a collection with another name,
//! length or definition gets an error. The fields of a struct without a macro are not compared, nor
//! the types of a collection that is a value. A program that changes them without the length
//! changes its layout version (`Options::layout`).
//!
//! ```text
//!   HashMap<str, User>
//!   struct User { id: u64 at 0, age: u64 at 8 }
//! ```
//!
//! [`convert_step`] gives a collection other types: see `catalog/convert.rs`.
//!
//! Invariants:
//! - A catalog takes the root only of a pool without one. The root of a program is never replaced.
//! - Write skew: two transactions that create the first collection both write the root. Two that
//!   create the same name both write the map's entry for it.

mod convert;
mod listed;

use std::fmt;

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Objects, Persist, Ptr, Stop, Text, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::btree_map::BTreeMap;
use crate::btree_set::BTreeSet;
use crate::counter::Counter;
use crate::definitions::Definitions;
use crate::encoded::{EncodedMap, EncodedTypes};
use crate::hash_map::HashMap;
use crate::hash_set::HashSet;
use crate::indexed_map::{IndexedMap, Indexes};
use crate::key::Key;
use crate::value::Value;
use crate::vec_deque::VecDeque;

pub use convert::{Convert, Converted, convert_step};
pub use listed::{Listed, check, collections};

/// The first word of the catalog's object.
const MAGIC: u64 = u64::from_le_bytes(*b"LWNAMES1");

/// The object that the pool's root leads to.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    magic: u64,
    names: BTreeMap<str, Record>,
}

/// A collection in the catalog.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Record {
    collection: u64,
    lengths: Lengths,
    types: Text,
}

/// The lengths of the keys and values of a collection: a fixed length plus 1, or 0 if it varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Lengths {
    key: u32,
    value: u32,
}

impl Lengths {
    const fn of(key: Option<usize>, value: Option<usize>) -> Lengths {
        Lengths { key: Lengths::one(key), value: Lengths::one(value) }
    }

    const fn one(fixed: Option<usize>) -> u32 {
        match fixed {
            Some(bytes) => bytes as u32 + 1,
            None => 0,
        }
    }
}

/// The types of a collection, to be compared when it is opened.
///
/// `Display` prints Rust's names without modules: `HashMap<str, User>`. Where keys or values have a
/// fixed length, the length is compared, too, because a struct may change under the same name. So
/// are the fields of structs and the variants of enums that have a macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Types {
    name: String,
    lengths: Lengths,
    definitions: Definitions,
}

impl Types {
    /// Returns those of a collection without keys and values.
    fn plain(kind: &str) -> Types {
        let (name, lengths) = (kind.to_owned(), Lengths::of(None, None));
        Types { name, lengths, definitions: Definitions::default() }
    }

    fn of_set<K: Key + ?Sized>(kind: &str) -> Types {
        let name = format!("{kind}<{}>", K::name());
        let mut definitions = Definitions::default();
        K::define(&mut definitions);
        Types { name, lengths: Lengths::of(K::FIXED, None), definitions }
    }

    fn of_list<T: Value + ?Sized>(kind: &str) -> Types {
        let name = format!("{kind}<{}>", T::name());
        let mut definitions = Definitions::default();
        T::define(&mut definitions);
        Types { name, lengths: Lengths::of(None, T::FIXED), definitions }
    }

    fn of_map<K: Key + ?Sized, V: Value + ?Sized>(kind: &str) -> Types {
        let name = format!("{kind}<{}, {}>", K::name(), V::name());
        let mut definitions = Definitions::default();
        K::define(&mut definitions);
        V::define(&mut definitions);
        Types { name, lengths: Lengths::of(K::FIXED, V::FIXED), definitions }
    }

    fn of_indexed<K, V, I>() -> Types
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
        I: Indexes<K, V>,
    {
        let Types { lengths, mut definitions, .. } = Types::of_map::<K, V>("IndexedMap");
        I::define(&mut definitions);
        // A name with a line break would end the first line of the types.
        let indexes = I::names().join(", ").replace('\n', " ");
        let name = format!("IndexedMap<{}, {}, ({indexes})>", K::name(), V::name());
        Types { name, lengths, definitions }
    }

    /// Returns whether a collection with these stored types may be opened with the types `wanted`.
    fn agree(&self, wanted: &Types) -> bool {
        let has_lengths = self.lengths == wanted.lengths || injected(Mutant::StoredLengthsIgnored);
        let is_same = self.name == wanted.name && has_lengths;
        is_same && self.definitions.agree(&wanted.definitions)
    }

    /// Returns these stored types with the definitions that only `wanted` has, if there are any. A
    /// type may get its macro, and an enum a variant, after the collection was created.
    fn completed(&self, wanted: &Types) -> Option<Types> {
        let definitions = self.definitions.completed(&wanted.definitions)?;
        self.agree(wanted).then(|| Types { definitions, ..self.clone() })
    }

    /// Returns the text in a record.
    fn text(&self) -> String {
        let lines = [self.name.as_str()].into_iter().chain(self.definitions.lines());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn from_text(text: &str, lengths: Lengths) -> Types {
        let mut lines = text.split('\n');
        let name = lines.next().unwrap_or_default().to_owned();
        Types { name, lengths, definitions: Definitions::from_lines(lines) }
    }
}

impl From<&EncodedTypes> for Types {
    fn from(types: &EncodedTypes) -> Types {
        let (key, value) = types.lengths();
        let definitions = Definitions::default();
        Types { name: types.name(), lengths: Lengths::of(key, value), definitions }
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let Lengths { key, value } = self.lengths;
        match (key, value) {
            (0, 0) => Ok(()),
            (key, 0) => write!(f, " (keys of {} bytes)", key - 1),
            (0, value) => write!(f, " (values of {} bytes)", value - 1),
            (key, value) => write!(f, " (keys of {}, values of {} bytes)", key - 1, value - 1),
        }?;
        self.definitions.lines().enumerate().try_for_each(|(number, line)| {
            write!(f, "{} {line}", if number == 0 { " with" } else { "," })
        })
    }
}

/// A collection that the catalog can hold: a value of one word.
pub trait Named: Persist {
    /// Returns the collection's types.
    fn types() -> Types;

    /// Creates an empty collection.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn create_empty<W: Allocate>(tx: &mut W) -> Result<Self, Stop>;
}

/// Implements [`Named`] for collections with a `create`.
macro_rules! named {
    ($([$($generics:tt)*] $collection:ty: $types:expr;)*) => {$(
        impl<$($generics)*> Named for $collection {
            fn types() -> Types {
                $types
            }

            fn create_empty<W: Allocate>(tx: &mut W) -> Result<Self, Stop> {
                Self::create(tx)
            }
        }
    )*};
}

named! {
    [K: Key + ?Sized + 'static, V: Value + ?Sized + 'static] HashMap<K, V>:
        Types::of_map::<K, V>("HashMap");
    [K: Key + ?Sized + 'static, V: Value + ?Sized + 'static] BTreeMap<K, V>:
        Types::of_map::<K, V>("BTreeMap");
    [K: Key + ?Sized + 'static, V: Value + ?Sized + 'static, I: Indexes<K, V> + 'static]
        IndexedMap<K, V, I>: Types::of_indexed::<K, V, I>();
    [K: Key + ?Sized + 'static] HashSet<K>: Types::of_set::<K>("HashSet");
    [K: Key + ?Sized + 'static] BTreeSet<K>: Types::of_set::<K>("BTreeSet");
    [T: Value + ?Sized + 'static] crate::Vec<T>: Types::of_list::<T>("Vec");
    [T: Value + ?Sized + 'static] VecDeque<T>: Types::of_list::<T>("VecDeque");
    [] Counter: Types::plain("Counter");
}

/// The result of [`open`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Opened<C> {
    /// The collection was there.
    Found(C),
    /// The collection is new.
    Created(C),
    /// The name belongs to a collection of other types.
    Other(Types),
    /// The conversion of the collection is unfinished; see [`convert_step`].
    Converting {
        /// Its old types.
        from: Types,
        /// Its new types.
        to: Types,
    },
    /// The pool's root is an object of the program, so the pool has no catalog.
    OwnRoot,
}

impl<C> Opened<C> {
    /// Replaces a collection that was found or created.
    fn map<T>(self, with: impl FnOnce(C) -> T) -> Opened<T> {
        match self {
            Opened::Found(found) => Opened::Found(with(found)),
            Opened::Created(created) => Opened::Created(with(created)),
            Opened::Other(types) => Opened::Other(types),
            Opened::Converting { from, to } => Opened::Converting { from, to },
            Opened::OwnRoot => Opened::OwnRoot,
        }
    }
}

/// Opens the collection of this name, or creates it.
///
/// ```
/// use collections::HashMap;
/// use collections::catalog::{self, Opened};
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let opened = mock.transact(|tx| catalog::open::<HashMap<str, u64>, _>(tx, "users"))?;
/// assert!(matches!(opened, Opened::Created(_)));
/// let other = mock.transact(|tx| catalog::open::<HashMap<str, str>, _>(tx, "users"))?;
/// let Opened::Other(stored) = other else { panic!("the types differ") };
/// assert_eq!(stored.to_string(), "HashMap<str, u64> (values of 8 bytes)");
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// # Errors
/// As [`Allocate::allocate`]. [`Stop::BadPointer`] if the pool's root leads to no object.
pub fn open<C: Named, W: Allocate>(tx: &mut W, name: &str) -> Result<Opened<C>, Stop> {
    let create = |tx: &mut W| word_of(&C::create_empty(tx)?);
    of_word(open_word(tx, name, &C::types(), create)?)
}

/// Opens the collection of this name, or creates it. If the name belongs to a collection of type
/// `Old`, `replace` builds the new collection from it in the same transaction. The new collection
/// takes over the memory of the old one.
///
/// ```
/// # use collections::{BTreeMap, Index, IndexedMap};
/// # use collections::catalog::{self, Opened};
/// # use words::{Transact, mock::Mock};
/// # struct ByAge;
/// # impl Index<str, u32> for ByAge {
/// #     type Key = u32;
/// #     fn key(_: &String, age: &u32) -> Option<u32> {
/// #         Some(*age)
/// #     }
/// # }
/// type Ages = IndexedMap<str, u32, (ByAge,)>;
///
/// # let mut mock = Mock::new(1 << 16);
/// # let opened = mock.transact(|tx| catalog::open::<BTreeMap<str, u32>, _>(tx, "ages"))?;
/// # let Opened::Created(old) = opened else { panic!("it is new") };
/// # mock.transact(|tx| old.put(tx, "ann", 40))?;
/// let opened = mock.transact(|tx| {
///     // An earlier version of the program had no index.
///     let index = |tx: &mut _, old: BTreeMap<str, u32>| Ages::from_map(tx, old);
///     catalog::open_or_replace(tx, "ages", index)
/// })?;
/// let Opened::Found(ages) = opened else { panic!("it is there") };
/// while !mock.transact(|tx| ages.rebuild_step(tx, 100))? {}
/// # assert_eq!(mock.transact(|tx| ages.by(ByAge).last(tx))?, Some(("ann".to_owned(), 40)));
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// # Errors
/// As [`open`].
pub fn open_or_replace<Old: Named, New: Named, W: Allocate>(
    tx: &mut W,
    name: &str,
    replace: impl FnOnce(&mut W, Old) -> Result<New, Stop>,
) -> Result<Opened<New>, Stop> {
    let opened = match find::<New, W>(tx, name)? {
        Some(Opened::Other(types)) => Opened::Other(types),
        _ => return open(tx, name),
    };
    let Some(old) = remove::<Old, W>(tx, name)? else { return Ok(opened) };
    let new = replace(tx, old)?;
    let Place::Catalog(names) = names(tx)? else { return Err(Stop::BadValue) };
    insert(tx, names, name, &New::types(), word_of(&new)?)?;
    Ok(Opened::Found(new))
}

/// Opens the map of this name whose types are known at run time, or creates it. See
/// [`encoded`](crate::encoded).
///
/// # Errors
/// As [`open`].
pub fn open_encoded<W: Allocate>(
    tx: &mut W,
    name: &str,
    types: &EncodedTypes,
) -> Result<Opened<EncodedMap>, Stop> {
    let create = |tx: &mut W| Ok(types.create(tx)?.header());
    let opened = open_word(tx, name, &types.into(), create)?;
    Ok(opened.map(|header| types.map_at(header)))
}

/// Opens the collection of this name, if there is one. Writes nothing, so a view can do it.
///
/// # Errors
/// As [`open`].
pub fn find<C: Named, W: Allocate>(tx: &mut W, name: &str) -> Result<Option<Opened<C>>, Stop> {
    find_word(tx, name, &C::types())?.map(of_word).transpose()
}

/// Opens the map of this name whose types are known at run time, if there is one. Writes nothing.
///
/// # Errors
/// As [`open`].
pub fn find_encoded<W: Allocate>(
    tx: &mut W,
    name: &str,
    types: &EncodedTypes,
) -> Result<Option<Opened<EncodedMap>>, Stop> {
    let found = find_word(tx, name, &types.into())?;
    Ok(found.map(|opened| opened.map(|header| types.map_at(header))))
}

/// Opens the collection of this name and returns its word, or creates it.
fn open_word<W: Allocate>(
    tx: &mut W,
    name: &str,
    types: &Types,
    create: impl FnOnce(&mut W) -> Result<u64, Stop>,
) -> Result<Opened<u64>, Stop> {
    let names = match names(tx)? {
        Place::Catalog(names) => names,
        Place::OwnRoot => return Ok(Opened::OwnRoot),
        Place::Free => {
            let names = BTreeMap::create(tx)?;
            let root = tx.alloc(Root { magic: MAGIC, names })?;
            tx.set_root(root.to_bits())?;
            names
        }
    };
    if let Some(record) = names.get(tx, name)? {
        let stored = record.types(tx)?;
        if let Some(types) = stored.completed(types) {
            let types = Text::new(tx, &types.text())?;
            names.put(tx, name, Record { types, ..record })?;
            if !injected(Mutant::ReplacedTypesLeak) {
                record.types.free(tx)?;
            }
        }
        return record.opened(tx, stored, types);
    }
    let collection = create(tx)?;
    insert(tx, names, name, types, collection)?;
    Ok(Opened::Created(collection))
}

/// Stores the word of a collection under a name.
fn insert<W: Allocate>(
    tx: &mut W,
    names: BTreeMap<str, Record>,
    name: &str,
    types: &Types,
    collection: u64,
) -> Result<(), Stop> {
    let (lengths, types) = (types.lengths, Text::new(tx, &types.text())?);
    names.put(tx, name, Record { collection, lengths, types })?;
    Ok(())
}

fn find_word<W: Allocate>(
    tx: &mut W,
    name: &str,
    types: &Types,
) -> Result<Option<Opened<u64>>, Stop> {
    match names(tx)? {
        Place::Free => Ok(None),
        Place::OwnRoot => Ok(Some(Opened::OwnRoot)),
        Place::Catalog(names) => match names.get(tx, name)? {
            Some(record) => {
                let stored = record.types(tx)?;
                record.opened(tx, stored, types).map(Some)
            }
            None => Ok(None),
        },
    }
}

/// Returns whether the pool's root leads to a catalog.
///
/// # Errors
/// As [`open`].
pub fn has_root<W: Allocate>(tx: &mut W) -> Result<bool, Stop> {
    Ok(matches!(names(tx)?, Place::Catalog(_)))
}

/// Removes a name, and returns its collection. The collection keeps its content. Free it, else its
/// memory leaks. Returns `None` if the name is unknown or has other types, or if its conversion is
/// unfinished.
///
/// # Errors
/// As [`open`].
pub fn remove<C: Named, W: Allocate>(tx: &mut W, name: &str) -> Result<Option<C>, Stop> {
    let Place::Catalog(names) = names(tx)? else { return Ok(None) };
    let Some(record) = names.get(tx, name)? else { return Ok(None) };
    let stored = record.types(tx)?;
    let opened = of_word(record.opened(tx, stored, &C::types())?)?;
    let Opened::Found(collection) = opened else { return Ok(None) };
    names.delete(tx, name)?;
    record.types.free(tx)?;
    Ok(Some(collection))
}

/// Frees up to about `most` pairs of the map of this name, as [`EncodedMap::clear_step`] does. When
/// it is empty, frees the map itself, and removes the name. Returns whether it did; every copy of
/// the map dangles then. Returns `None` if the name is unknown, or belongs to another collection or
/// to one whose kind or lengths of keys and values are not those of `map`.
///
/// # Errors
/// As [`open`].
pub fn drop_encoded<W: Allocate>(
    tx: &mut W,
    name: &str,
    map: EncodedMap,
    most: u64,
) -> Result<Option<bool>, Stop> {
    let Place::Catalog(names) = names(tx)? else { return Ok(None) };
    let Some(record) = names.get(tx, name)? else { return Ok(None) };
    // A map of other types at this address would free another structure.
    let stored = record.types(tx)?;
    let lengths = Lengths::of(map.key_rule().fixed(), map.value_rule().fixed());
    let is_kind = stored.name.starts_with(&format!("{}<", map.kind().name()));
    if record.collection != map.header() || !is_kind || stored.lengths != lengths {
        return Ok(None);
    }
    let is_dropped = map.drop_step(tx, most)?;
    if is_dropped {
        names.delete(tx, name)?;
        record.types.free(tx)?;
    }
    Ok(Some(is_dropped))
}

/// Returns all names and their types, in order of the names.
///
/// # Errors
/// As [`open`].
pub fn list<W: Allocate>(tx: &mut W) -> Result<Vec<(String, Types)>, Stop> {
    let Place::Catalog(names) = names(tx)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    names.for_each(tx, |name, record| found.push((name, record)))?;
    found.into_iter().map(|(name, record)| Ok((name, record.types(tx)?))).collect()
}

/// Where the root leads.
enum Place {
    /// The pool has no root.
    Free,
    OwnRoot,
    Catalog(BTreeMap<str, Record>),
}

fn names<W: Allocate>(tx: &mut W) -> Result<Place, Stop> {
    let root = tx.root()?;
    if root == 0 {
        return Ok(Place::Free);
    }
    // The first word alone: an object of the program may be shorter than a catalog's.
    if tx.read(Addr::new(root, 0))? != MAGIC {
        let is_replaced = injected(Mutant::OwnRootReplaced);
        return Ok(if is_replaced { Place::Free } else { Place::OwnRoot });
    }
    Ok(Place::Catalog(tx.get(Ptr::<Root>::from_bits(root))?.names))
}

impl Record {
    /// Returns the collection's word, if its stored types agree with these.
    fn opened<W: Words>(
        self,
        tx: &mut W,
        stored: Types,
        types: &Types,
    ) -> Result<Opened<u64>, Stop> {
        if stored.agree(types) {
            return Ok(Opened::Found(self.collection));
        }
        Ok(match self.unfinished(tx, &stored)? {
            Some((from, to)) => Opened::Converting { from, to },
            None => Opened::Other(stored),
        })
    }

    fn types<W: Words>(self, tx: &mut W) -> Result<Types, Stop> {
        Ok(Types::from_text(&self.types.read(tx)?, self.lengths))
    }
}

/// Returns the collection of a word.
fn of_word<C: Named>(opened: Opened<u64>) -> Result<Opened<C>, Stop> {
    Ok(match opened {
        Opened::Found(word) => Opened::Found(read_word(word)?),
        Opened::Created(word) => Opened::Created(read_word(word)?),
        Opened::Other(types) => Opened::Other(types),
        Opened::Converting { from, to } => Opened::Converting { from, to },
        Opened::OwnRoot => Opened::OwnRoot,
    })
}

fn read_word<C: Named>(word: u64) -> Result<C, Stop> {
    C::try_read_from_bytes(word.as_bytes()).map_err(|_| Stop::BadValue)
}

fn word_of<C: Named>(collection: &C) -> Result<u64, Stop> {
    u64::read_from_bytes(collection.as_bytes()).map_err(|_| Stop::BadValue)
}

#[cfg(test)]
mod tests;
