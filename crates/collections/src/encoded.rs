//! Collections whose types are known at run time, for other languages and for tools.
//!
//! [`EncodedMap`] is a [`HashMap`](crate::HashMap) or a [`BTreeMap`](crate::BTreeMap) whose keys
//! and values are given as they are stored. It is the same collection as the typed map of the same
//! types: each language can open a map of another one. The catalog compares the names of the types.
//! [`EncodedCollection`] is a collection of any kind, by the types in the catalog.
//!
//! ```
//! use collections::BTreeMap;
//! use collections::catalog::{self, Opened};
//! use collections::encoded::{EncodedTypes, Encoding, MapKind};
//! use words::{Transact, mock::Mock};
//!
//! let mut mock = Mock::new(1 << 16);
//! let opened = mock.transact(|tx| catalog::open::<BTreeMap<str, u16>, _>(tx, "ages"))?;
//! let Opened::Created(ages) = opened else { panic!("it is new") };
//! mock.transact(|tx| ages.put(tx, "ann", 40))?;
//!
//! let (text, number) = (Encoding::new("str", None), Encoding::new("u16", Some(2)));
//! let types = EncodedTypes::new(MapKind::Ordered, text.unwrap(), number.unwrap()).unwrap();
//! let opened = mock.transact(|tx| catalog::open_encoded(tx, "ages", &types))?;
//! let Opened::Found(encoded) = opened else { panic!("the types are equal") };
//! let age = mock.transact(|tx| encoded.get_with(tx, b"ann", <[u8]>::to_vec))?;
//! assert_eq!(age, Some(vec![40, 0]));
//! # Ok::<(), words::mock::Refused>(())
//! ```
//!
//! Invariants:
//! - No key or value of another length than the type's reaches the map. Other bytes that are no
//!   value of the type are refused where the name shows it, as for `str`. Rust's decoding refuses
//!   the rest.

mod collection;
mod cursor;
mod decode;
mod decoded;
mod entries;
mod shape;
mod syntax;
mod types;

use std::borrow::Cow;

use words::{Allocate, Stop, Words};

use crate::btree::{Form, Tree};
use crate::hash_map::EncodedTrie;

pub use collection::{Checked, Damage, EncodedCollection, Kind, Size};
pub use cursor::Cursor;
pub use decoded::{Decoded, Field};
pub use entries::Entries;
pub use types::{Encoding, Rule};

/// The kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// A [`HashMap`](crate::HashMap).
    Hash,
    /// A [`BTreeMap`](crate::BTreeMap).
    Ordered,
}

impl MapKind {
    /// Returns the name of the type of maps.
    pub const fn name(self) -> &'static str {
        match self {
            MapKind::Hash => "HashMap",
            MapKind::Ordered => "BTreeMap",
        }
    }
}

/// The types of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTypes {
    kind: MapKind,
    key: Encoding,
    value: Encoding,
    value_rule: Rule,
}

impl EncodedTypes {
    /// Returns the types of a map. `None` if values of a fixed length have more than 1024 bytes.
    pub fn new(kind: MapKind, key: Encoding, value: Encoding) -> Option<EncodedTypes> {
        let value_rule = value.value_rule()?;
        Some(EncodedTypes { kind, key, value, value_rule })
    }

    pub(crate) fn name(&self) -> String {
        format!("{}<{}, {}>", self.kind.name(), self.key.name(), self.value.name())
    }

    /// Returns the lengths of keys and values.
    pub(crate) fn lengths(&self) -> (Option<usize>, Option<usize>) {
        (self.key.rule().fixed(), self.value_rule.fixed())
    }

    /// Returns the map with this header.
    pub(crate) fn map_at(&self, header: u64) -> EncodedMap {
        let (kind, key, value) = (self.kind, self.key.rule(), self.value_rule);
        EncodedMap { header, kind, key, value }
    }

    pub(crate) fn create<W: Allocate>(&self, tx: &mut W) -> Result<EncodedMap, Stop> {
        let header = match self.kind {
            MapKind::Hash => EncodedTrie::create(tx)?,
            MapKind::Ordered => Tree::create(tx)?,
        };
        Ok(self.map_at(header))
    }
}

/// A map of encoded keys and values, opened by [`catalog::open_encoded`].
///
/// Bytes that are no key or value of the map's types are [`Stop::BadValue`] in all methods, and
/// change nothing.
///
/// [`catalog::open_encoded`]: crate::catalog::open_encoded
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedMap {
    header: u64,
    kind: MapKind,
    key: Rule,
    value: Rule,
}

/// The map of one kind.
enum Inner {
    Hash(EncodedTrie),
    Ordered(Tree),
}

impl EncodedMap {
    /// Returns the kind.
    pub const fn kind(self) -> MapKind {
        self.kind
    }

    /// Returns the address of the map's header.
    pub const fn header(self) -> u64 {
        self.header
    }

    /// Returns the rule for keys.
    pub const fn key_rule(self) -> Rule {
        self.key
    }

    /// Returns the rule for values.
    pub const fn value_rule(self) -> Rule {
        self.value
    }

    /// Returns the map as words, for languages without types.
    pub const fn to_words(self) -> [u64; 3] {
        let kind = match self.kind {
            MapKind::Hash => 0,
            MapKind::Ordered => 1,
        };
        [self.header, self.key.to_word() << 1 | kind, self.value.to_word()]
    }

    /// Returns the map that [`to_words`](EncodedMap::to_words) wrote. `None` for words that it
    /// never writes.
    pub fn from_words([header, key, value]: [u64; 3]) -> Option<EncodedMap> {
        let kind = if key & 1 == 0 { MapKind::Hash } else { MapKind::Ordered };
        let (key, value) = (Rule::from_word(key >> 1)?, Rule::from_word(value)?);
        Some(EncodedMap { header, kind, key, value })
    }

    /// Calls `with` on the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged map, here and in all other methods.
    pub fn get_with<W: Words, R>(
        self,
        tx: &mut W,
        key: &[u8],
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let rule = self.value;
        // As a typed map, whose decoding refuses a damaged value.
        let with = |value: Cow<'_, [u8]>| match rule.accepts(&value) {
            true => Ok(with(&value)),
            false => Err(Stop::BadValue),
        };
        match self.inner(key)? {
            Inner::Hash(trie) => trie.get(tx, key, with),
            Inner::Ordered(tree) => tree.get(tx, key, with),
        }
    }

    /// Returns whether the map has a key.
    ///
    /// # Errors
    /// As [`get_with`](EncodedMap::get_with).
    pub fn contains_key<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        match self.inner(key)? {
            Inner::Hash(trie) => trie.contains(tx, key),
            Inner::Ordered(tree) => tree.contains(tx, key),
        }
    }

    /// Inserts a key or replaces its value. Returns whether the key is new.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    pub fn put<W: Allocate>(self, tx: &mut W, key: &[u8], value: &[u8]) -> Result<bool, Stop> {
        if !self.value.accepts(value) {
            return Err(Stop::BadValue);
        }
        match self.inner(key)? {
            Inner::Hash(trie) => trie.put(tx, key, value),
            Inner::Ordered(tree) => {
                let spot = tree.spot(tx, key)?;
                let is_new = !spot.is_there();
                tree.put(tx, spot, key, value)?;
                Ok(is_new)
            }
        }
    }

    /// Inserts a key unless it is there. Returns whether it did. A key that is there stays there
    /// until the transaction commits, also under snapshot isolation.
    ///
    /// # Errors
    /// As [`put`](EncodedMap::put).
    pub fn insert_new<W: Allocate>(
        self,
        tx: &mut W,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, Stop> {
        if !self.value.accepts(value) {
            return Err(Stop::BadValue);
        }
        match self.inner(key)? {
            Inner::Hash(trie) => trie.insert_new(tx, key, value),
            Inner::Ordered(tree) => {
                let spot = tree.spot(tx, key)?;
                if spot.is_there() {
                    return tree.protect(tx, &spot).map(|()| false);
                }
                tree.put(tx, spot, key, value).map(|()| true)
            }
        }
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// # Errors
    /// As [`BTreeMap::remove`](crate::BTreeMap::remove).
    pub fn delete<W: Allocate>(self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        match self.inner(key)? {
            Inner::Hash(trie) => trie.delete(tx, key),
            Inner::Ordered(tree) => {
                let spot = tree.spot(tx, key)?;
                let is_there = spot.is_there();
                match is_there {
                    true => tree.remove_at(tx, spot, key)?,
                    false => tree.protect(tx, &spot)?,
                }
                Ok(is_there)
            }
        }
    }

    /// Returns the number of pairs, as [`BTreeMap::len`](crate::BTreeMap::len) does.
    ///
    /// # Errors
    /// As [`get_with`](EncodedMap::get_with).
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        match self.of_kind() {
            Inner::Hash(trie) => trie.len(tx),
            Inner::Ordered(tree) => tree.len(tx),
        }
    }

    /// Frees up to about `most` pairs. Returns whether the map is empty and all is freed. The first
    /// step makes the map empty for all transactions after it:
    /// see [`BTreeMap::clear_step`](crate::BTreeMap::clear_step).
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        match self.of_kind() {
            Inner::Hash(trie) => trie.clear(tx, most),
            Inner::Ordered(tree) => tree.clear(tx, most),
        }
    }

    /// Does a step as [`clear_step`](EncodedMap::clear_step), and frees the map itself when it is
    /// empty. Returns whether it did; every copy of this value dangles then.
    pub(crate) fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        match self.of_kind() {
            Inner::Hash(trie) => trie.free(tx, most),
            Inner::Ordered(tree) => tree.free(tx, most),
        }
    }

    /// Returns the map for an operation on a key, once the key is one of its type.
    fn inner(self, key: &[u8]) -> Result<Inner, Stop> {
        if self.key.accepts(key) { Ok(self.of_kind()) } else { Err(Stop::BadValue) }
    }

    fn of_kind(self) -> Inner {
        let (key, value) = (self.key.fixed(), self.value.fixed());
        match self.kind {
            MapKind::Hash => Inner::Hash(EncodedTrie::at(self.header, key, value)),
            MapKind::Ordered => Inner::Ordered(Tree::at(self.header, Form::of_lengths(key, value))),
        }
    }
}

#[cfg(test)]
mod tests;
