//! Collections of any kind whose types are known from the catalog alone, for tools.

use std::fmt;

use words::{Stop, Words};

use super::decode::Fault;
use super::decoded::Decoded;
use super::entries::{Entries, Walk};
use super::shape::Shape;
use super::syntax::{split, within};
use super::{EncodedMap, EncodedTypes, Encoding, MapKind, Rule};
use crate::counter::Counter;
use crate::definitions::Definitions;
use crate::sequence::{self, Sequence};
use crate::{btree_map, hash_map};

/// The kind of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A [`HashMap`](crate::HashMap).
    HashMap,
    /// A [`BTreeMap`](crate::BTreeMap).
    BTreeMap,
    /// The records of an [`IndexedMap`](crate::IndexedMap).
    IndexedMap,
    /// A [`HashSet`](crate::HashSet).
    HashSet,
    /// A [`BTreeSet`](crate::BTreeSet).
    BTreeSet,
    /// A [`Vec`](crate::Vec).
    Vec,
    /// A [`VecDeque`](crate::VecDeque).
    VecDeque,
    /// A [`Counter`](crate::Counter).
    Counter,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::HashMap,
        Kind::BTreeMap,
        Kind::IndexedMap,
        Kind::HashSet,
        Kind::BTreeSet,
        Kind::Vec,
        Kind::VecDeque,
        Kind::Counter,
    ];

    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::HashMap => "HashMap",
            Kind::BTreeMap => "BTreeMap",
            Kind::IndexedMap => "IndexedMap",
            Kind::HashSet => "HashSet",
            Kind::BTreeSet => "BTreeSet",
            Kind::Vec => "Vec",
            Kind::VecDeque => "VecDeque",
            Kind::Counter => "Counter",
        }
    }

    /// Returns whether a collection has keys, and whether it has values or elements.
    const fn has(self) -> (bool, bool) {
        match self {
            Kind::HashMap | Kind::BTreeMap | Kind::IndexedMap => (true, true),
            Kind::HashSet | Kind::BTreeSet => (true, false),
            Kind::Vec | Kind::VecDeque => (false, true),
            Kind::Counter => (false, false),
        }
    }
}

/// The size of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The number of its pairs, keys or elements.
    Entries(u64),
    /// The sum of a counter.
    Sum(i64),
}

/// A collection of any kind whose types are known from the catalog alone.
///
/// ```
/// use collections::catalog::{self, Opened};
/// use collections::{BTreeMap, encoded::Size};
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let opened = mock.transact(|tx| catalog::open::<BTreeMap<(u16, String), bool>, _>(tx, "ages"))?;
/// let Opened::Created(ages) = opened else { panic!("it is new") };
/// mock.transact(|tx| ages.put(tx, (40, "ann"), true))?;
///
/// let listed = mock.transact(|tx| catalog::collections(tx))?.expect("the pool has a catalog");
/// let found = mock.transact(|tx| listed[0].open(tx))?.expect("this version knows the types");
/// assert_eq!((found.kind().name(), found.key()), ("BTreeMap", Some("(u16, str)")));
/// assert_eq!(mock.transact(|tx| found.size(tx))?, Size::Entries(1));
/// let mut entries = found.entries();
/// assert!(mock.transact(|tx| entries.next(tx))?);
/// assert_eq!(found.decode_key(entries.key().unwrap()).to_string(), "(40, \"ann\")");
/// assert_eq!(found.decode_value(entries.value().unwrap()).to_string(), "true");
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncodedCollection {
    kind: Kind,
    header: u64,
    key: Option<Typed>,
    value: Option<Typed>,
    walk: Walk,
}

/// The keys of a collection, or its values.
#[derive(Clone, Debug)]
struct Typed {
    name: String,
    rule: Rule,
    shape: Shape,
}

impl Typed {
    /// Returns whether bytes are sound, as far as the record shows the type.
    fn accepts(&self, bytes: &[u8], decode: fn(&Shape, &[u8]) -> Result<(), Fault>) -> bool {
        self.rule.accepts(bytes) && decode(&self.shape, bytes) != Err(Fault::Wrong)
    }
}

impl EncodedCollection {
    /// Returns the collection of a record. `None` if this version does not know the types.
    pub(crate) fn of_record(
        header: u64,
        types: &str,
        (key_bytes, value_bytes): (Option<usize>, Option<usize>),
        definitions: &Definitions,
    ) -> Option<EncodedCollection> {
        let (name, inner) = match types.split_once('<') {
            Some((name, inner)) => (name, within(inner, "", '>')?),
            None => (types, ""),
        };
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
        let mut names = split(inner, ", ")?.into_iter();
        let (has_keys, has_values) = kind.has();
        let key = match has_keys {
            true => Some(Encoding::new(names.next()?, key_bytes)?),
            false => None,
        };
        let value = match has_values {
            true => Some(Encoding::new(names.next()?, value_bytes)?),
            false => None,
        };
        // The indexes of a map are not read.
        let rest = names.count();
        if rest != usize::from(kind == Kind::IndexedMap) {
            return None;
        }
        let walk = walk_of(kind, header, key.as_ref(), value.as_ref())?;
        let key = key.map(|key| {
            let (name, rule) = (key.name().to_owned(), key.rule());
            Typed { shape: Shape::of_key(&name, definitions), name, rule }
        });
        let value = match value {
            Some(value) => {
                let (name, rule) = (value.name().to_owned(), value.value_rule()?);
                Some(Typed { shape: Shape::of_value(&name, definitions), name, rule })
            }
            None => None,
        };
        Some(EncodedCollection { kind, header, key, value, walk })
    }

    /// Returns the kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the address of the collection's header.
    pub const fn header(&self) -> u64 {
        self.header
    }

    /// Returns the name of the type of keys; `None` without keys.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| &*key.name)
    }

    /// Returns the name of the type of values or elements; `None` without these.
    pub fn value(&self) -> Option<&str> {
        self.value.as_ref().map(|value| &*value.name)
    }

    /// Returns the size.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged collection.
    pub fn size<W: Words>(&self, tx: &mut W) -> Result<Size, Stop> {
        match self.walk {
            Walk::Map(map) => map.len(tx).map(Size::Entries),
            Walk::List(sequence, _) => Ok(Size::Entries(sequence.bounds(tx)?.len())),
            Walk::Counter(counter) => counter.get(tx).map(Size::Sum),
        }
    }

    /// Returns a cursor before the first entry.
    pub fn entries(&self) -> Entries {
        Entries::new(self.walk, self.value.is_some())
    }

    /// Decodes a key. Bytes that are no key are [`Decoded::Unknown`].
    pub fn decode_key(&self, key: &[u8]) -> Decoded<'_> {
        let decoded = self.key.as_ref().and_then(|side| side.shape.key(key).ok());
        decoded.unwrap_or_else(|| Decoded::Unknown(key.to_vec()))
    }

    /// Decodes a value or element. Bytes that are no value are [`Decoded::Unknown`].
    pub fn decode_value(&self, value: &[u8]) -> Decoded<'_> {
        let decoded = self.value.as_ref().and_then(|side| side.shape.value(value).ok());
        decoded.unwrap_or_else(|| Decoded::Unknown(value.to_vec()))
    }

    /// Checks the whole collection, as [`HashMap::check`](crate::HashMap::check) does. The bytes of
    /// a type that the catalog does not describe are not checked.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the pointers of damaged memory lead to a
    /// wrong place.
    pub fn check<W: Words>(&self, tx: &mut W) -> Result<Checked, Stop> {
        let is_key = |bytes: &[u8]| {
            let is_key = |side: &Typed| side.accepts(bytes, |shape, key| shape.key(key).map(drop));
            self.key.as_ref().is_none_or(is_key)
        };
        let is_value = |bytes: &[u8]| {
            let decode = |shape: &Shape, value: &[u8]| shape.value(value).map(drop);
            self.value.as_ref().is_none_or(|side| side.accepts(bytes, decode))
        };
        let is_pair = |key: &[u8], value: &[u8]| is_key(key) && is_value(value);
        match self.walk {
            Walk::Map(map) => map.check(tx, &is_pair),
            Walk::List(sequence, _) => {
                let found = sequence.check_all(tx, &is_value)?;
                let damage = found.damage.into_iter().map(Damage::List).collect();
                Ok(Checked { entries: found.entries, pending: found.pending, damage })
            }
            Walk::Counter(counter) => counter.get(tx).map(|_| Checked::default()),
        }
    }
}

/// Returns the untyped collection. `None` if the values of a fixed length are too long.
fn walk_of(
    kind: Kind,
    header: u64,
    key: Option<&Encoding>,
    value: Option<&Encoding>,
) -> Option<Walk> {
    // A set is a map of values without bytes.
    let map = |kind| {
        let value = value.cloned().or_else(|| Encoding::new("()", Some(0)))?;
        Some(Walk::Map(EncodedTypes::new(kind, key?.clone(), value)?.map_at(header)))
    };
    match kind {
        Kind::HashMap | Kind::HashSet => map(MapKind::Hash),
        Kind::BTreeMap | Kind::BTreeSet | Kind::IndexedMap => map(MapKind::Ordered),
        Kind::Vec | Kind::VecDeque => {
            let rule = value?.value_rule()?;
            let form = sequence::Form::of_length(rule.fixed());
            Some(Walk::List(
                match kind {
                    Kind::Vec => Sequence::vector(header, form),
                    _ => Sequence::queue(header, form),
                },
                rule,
            ))
        }
        Kind::Counter => Some(Walk::Counter(Counter::at_object(header))),
    }
}

impl EncodedMap {
    /// Checks the whole map. `is_pair` returns whether bytes are a key and a value.
    fn check<W: Words>(
        self,
        tx: &mut W,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        match self.of_kind() {
            super::Inner::Hash(trie) => {
                let hash_map::Checked { entries, pending, damage, .. } = trie.check(tx, is_pair)?;
                let damage = damage.into_iter().map(Damage::HashMap).collect();
                Ok(Checked { entries, pending, damage })
            }
            super::Inner::Ordered(tree) => {
                let found = tree.check_whole(tx, is_pair)?;
                let btree_map::Checked { entries, pending, damage, .. } = found;
                let damage = damage.into_iter().map(Damage::BTreeMap).collect();
                Ok(Checked { entries, pending, damage })
            }
        }
    }
}

/// The result of a check of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Entries seen.
    pub entries: u64,
    /// Entries that a `clear_step` removed and has yet to free.
    pub pending: u64,
    /// Violated invariants; empty in a sound collection, at most 100 findings.
    pub damage: Vec<Damage>,
}

/// A violated invariant of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// Of a hash map or hash set.
    HashMap(hash_map::Damage),
    /// Of an ordered map or set.
    BTreeMap(btree_map::Damage),
    /// Of a vector or queue.
    List(sequence::Damage),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::HashMap(damage) => damage.fmt(f),
            Damage::BTreeMap(damage) => damage.fmt(f),
            Damage::List(damage) => damage.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
