//! The traits of an index and of a map's tuple of indexes.
//!
//! ```text
//!   entry    | index key, as a component that is not the last | key of the record |
//! ```
//!
//! An entry is a key of a set: the pair of an index key and the record's key. Entries with equal
//! index keys are therefore in the order of the records' keys. The encoding of the index key says
//! where it ends, so all entries of an index key begin with the same bytes, and no others do.

use std::any::type_name;
use std::marker::PhantomData;

use words::Stop;

use crate::definitions::{Definitions, short_name};
use crate::key::{AsKey, Key, KeyBuf, derived};
use crate::value::Value;

/// The greatest number of indexes of a map.
pub(super) const INDEXES_MAX: usize = 4;

/// The encoded entries of one record, one for each index that has it.
pub(super) type Entries = [Option<KeyBuf>; INDEXES_MAX];

/// An index of an [`IndexedMap`](super::IndexedMap): a function from a record to an index key.
///
/// It is a unit struct. [`IndexedMap::by`](super::IndexedMap::by) takes it as a value.
///
/// ```
/// use collections::Index;
///
/// struct ByCity;
///
/// impl Index<u64, str> for ByCity {
///     type Key = str;
///
///     fn key(_: &u64, address: &String) -> Option<String> {
///         Some(address.rsplit_once(", ")?.1.to_owned()) // no city: not in this index
///     }
/// }
/// # let key = ByCity::key(&1, &"Hauptstrasse 1, Berlin".to_owned());
/// # assert_eq!(key.as_deref(), Some("Berlin"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index of records of `{K}` and `{V}`",
    note = "implement `Index<{K}, {V}>` for it"
)]
pub trait Index<K: Key + ?Sized, V: Value + ?Sized> {
    /// The type of the index keys.
    type Key: Key<Owned: AsKey<Self::Key>> + ?Sized;

    /// Returns the index key of a record, or `None` for a record that is not in the index. It
    /// depends on nothing but its arguments.
    fn key(key: &K::Owned, value: &V::Owned) -> Option<<Self::Key as Key>::Owned>;

    /// Returns the name in the catalog; by default that of the type, without its module. Change it
    /// when [`key`](Index::key) changes: a pool with the old index then refuses the new one. Two
    /// types with one name and one type of keys pass as the same index.
    fn name() -> String {
        short_name(type_name::<Self>())
    }
}

/// The indexes of a map: a tuple of one to four [`Index`] types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of indexes of records of `{K}` and `{V}`",
    note = "write one to four types that implement `Index`, for example `(ByCity,)`"
)]
pub trait Indexes<K: Key + ?Sized, V: Value + ?Sized> {
    /// The lengths of the encoded entries, where they are fixed.
    #[doc(hidden)]
    const LENGTHS: &'static [Option<usize>];

    /// Returns the name of each index and of its key's type.
    #[doc(hidden)]
    fn names() -> Vec<String>;

    /// Adds the definitions of the index keys.
    #[doc(hidden)]
    fn define(definitions: &mut Definitions);

    /// Returns the entries of a record. `encoded` is its encoded key.
    #[doc(hidden)]
    fn entries(key: &K::Owned, value: &V::Owned, encoded: &[u8]) -> Entries;

    /// Returns the encoded key of the record of an entry.
    #[doc(hidden)]
    fn record_of(at: usize, entry: &[u8]) -> Result<&[u8], Stop>;
}

/// A tuple that has the index `X`, at position `AT`.
#[diagnostic::on_unimplemented(
    message = "`{X}` is not an index of this map",
    note = "the map has the indexes `{Self}`"
)]
pub trait HasIndex<X, const AT: usize> {}

/// An entry, as a key of a set.
#[doc(hidden)]
pub struct IndexEntry<A: ?Sized, K: ?Sized> {
    types: PhantomData<fn(&A, &K)>,
}

impl<A: Key + ?Sized, K: Key + ?Sized> Key for IndexEntry<A, K> {
    type Owned = (A::Owned, K::Owned);
    const FIXED: Option<usize> = derived::length(&[A::FIXED, K::FIXED]);

    fn name() -> String {
        format!("({}, {})", A::name(), K::name())
    }

    fn decode(bytes: &mut &[u8], is_last: bool) -> Result<Self::Owned, Stop> {
        Ok((A::decode(bytes, false)?, K::decode(bytes, is_last)?))
    }
}

/// Returns the entry of a record.
fn entry_of<X, K, V>(key: &K::Owned, value: &V::Owned, encoded: &[u8]) -> Option<KeyBuf>
where
    X: Index<K, V>,
    K: Key + ?Sized,
    V: Value + ?Sized,
{
    let mut entry = KeyBuf::new();
    X::key(key, value)?.encode(&mut entry, false);
    entry.push(encoded);
    Some(entry)
}

/// Implements [`Indexes`] for a tuple.
macro_rules! indexes {
    ($($index:ident $at:literal),*) => {
        impl<K: Key + ?Sized, V: Value + ?Sized, $($index: Index<K, V>),*> Indexes<K, V>
            for ($($index,)*)
        {
            const LENGTHS: &'static [Option<usize>] =
                &[$(<IndexEntry<$index::Key, K> as Key>::FIXED),*];

            fn names() -> Vec<String> {
                vec![$(format!("{}: {}", $index::name(), <$index::Key as Key>::name())),*]
            }

            fn define(definitions: &mut Definitions) {
                $(<$index::Key as Key>::define(definitions);)*
            }

            fn entries(key: &K::Owned, value: &V::Owned, encoded: &[u8]) -> Entries {
                let mut entries = [const { None }; INDEXES_MAX];
                $(entries[$at] = entry_of::<$index, K, V>(key, value, encoded);)*
                entries
            }

            fn record_of(at: usize, mut entry: &[u8]) -> Result<&[u8], Stop> {
                match at {
                    $($at => drop(<$index::Key as Key>::decode(&mut entry, false)?),)*
                    _ => return Err(Stop::BadValue),
                }
                Ok(entry)
            }
        }
    };
}

indexes!(A 0);
indexes!(A 0, B 1);
indexes!(A 0, B 1, C 2);
indexes!(A 0, B 1, C 2, D 3);

/// Implements [`HasIndex`] for a tuple and one of its positions.
macro_rules! has {
    ($(($($all:ident)*) $index:ident $at:literal;)*) => {$(
        impl<$($all),*> HasIndex<$index, $at> for ($($all,)*) {}
    )*};
}

has! {
    (A) A 0;
    (A B) A 0; (A B) B 1;
    (A B C) A 0; (A B C) B 1; (A B C) C 2;
    (A B C D) A 0; (A B C D) B 1; (A B C D) C 2; (A B C D) D 3;
}
