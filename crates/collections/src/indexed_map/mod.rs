//! An ordered map with secondary indexes.
//!
//! [`IndexedMap`] keeps a map of records and, for each index, a set of pairs of an index key and a
//! record's key. A change of a record changes the sets in the same transaction, so a program cannot
//! forget an index.
//!
//! ```text
//!   header   | records | rebuild | replaced | index 0 | ... |
//!                 |         |          |          |
//!                 |         |          |          +-> set of (index key, key): see `index`
//!                 |         |          +-> | next | set | length |   sets to be freed, or 0
//!                 |         +-> | from: Bytes |       the next key to be indexed, or 0
//!                 +-> BTreeMap<K, V>
//! ```
//!
//! | change | words written besides the record's |
//! |---|---|
//! | record whose index keys stay | none |
//! | record with another index key | an entry of that index removed, another inserted, its length |
//! | new or removed record | an entry of each index that has the record, and its length |
//!
//! Invariants:
//! - Without a rebuild, each index has an entry for each record with an index key, and no others.
//! - During a rebuild this holds for the records before `from`. Changes of all records update every
//!   index, so an index may also have entries of records from `from` on.
//! - The header is written only by a rebuild, and never by a change of a record.
//! - Write skew: an entry belongs to one record, and a transaction that changes the entry writes
//!   the record, too. Two transactions that change entries of one record therefore conflict in the
//!   map of records. Entries of different records are different keys of the set, which protects its
//!   own structure. A change that keeps an entry relies only on the record's old value, which it
//!   writes or protects. A removal or update of an absent key protects the place of the key.

mod by;
mod check;
mod clear;
mod entry;
mod index;
mod rebuild;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use words::{Addr, Allocate, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::btree::{Form, Spot, Tree};
use crate::btree_map::{BTreeMap, Pair};
use crate::key::{AsKey, Key, KeyBuf};
use crate::value::{AsValue, Value};

pub use by::{By, IndexRange};
pub use check::{Checked, Damage};
pub use entry::Entry;
#[doc(hidden)]
pub use index::IndexEntry;
pub use index::{HasIndex, Index, Indexes};

use index::{Entries, INDEXES_MAX};

/// Offsets in the header.
const RECORDS: u64 = 0;
const REBUILD: u64 = 8;
const REPLACED: u64 = 16;
const INDEX: u64 = 24;

/// The entries of an absent record.
const NO_ENTRIES: Entries = [const { None }; INDEXES_MAX];

/// An ordered map with secondary indexes; a value of one word that objects can hold.
///
/// `I` is a tuple of one to four types that implement [`Index`].
///
/// ```
/// use collections::{Index, IndexedMap};
/// use words::{Transact, mock::Mock};
///
/// struct ByScore;
/// impl Index<str, u64> for ByScore {
///     type Key = u64;
///     fn key(_: &String, score: &u64) -> Option<u64> {
///         Some(*score)
///     }
/// }
///
/// let mut mock = Mock::new(1 << 16);
/// let players: IndexedMap<str, u64, (ByScore,)> = mock.transact(|tx| IndexedMap::create(tx))?;
/// mock.transact(|tx| {
///     players.insert(tx, "ann", 7)?;
///     players.insert(tx, "bob", 9)?;
///     players.update(tx, "ann", |score| score + 5)
/// })?;
/// let best = mock.transact(|tx| players.by(ByScore).last(tx))?;
/// assert_eq!(best, Some(("ann".to_owned(), 12)));
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct IndexedMap<K: ?Sized, V: ?Sized, I> {
    header: u64,
    types: PhantomData<fn(&K, &V, &I)>,
}

impl<K: ?Sized, V: ?Sized, I> Clone for IndexedMap<K, V, I> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: ?Sized, V: ?Sized, I> Copy for IndexedMap<K, V, I> {}
impl<K: ?Sized, V: ?Sized, I> PartialEq for IndexedMap<K, V, I> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}
impl<K: ?Sized, V: ?Sized, I> Eq for IndexedMap<K, V, I> {}
impl<K: ?Sized, V: ?Sized, I> fmt::Debug for IndexedMap<K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexedMap({:#x})", self.header)
    }
}

/// Returns the header of the records of a map of any types.
///
/// # Errors
/// As [`Words::read`].
pub(crate) fn records_at<W: Words>(tx: &mut W, header: u64) -> Result<u64, Stop> {
    tx.read(Addr::new(header, RECORDS))
}

/// The words of the header.
#[derive(Clone, Copy, Debug)]
struct Header {
    records: u64,
    rebuild: u64,
    replaced: u64,
    indexes: [u64; INDEXES_MAX],
}

impl<K: Key + ?Sized, V: Value + ?Sized, I: Indexes<K, V>> IndexedMap<K, V, I> {
    const HEADER_BYTES: usize = INDEX as usize + 8 * I::LENGTHS.len();

    /// Creates an empty map of 56 bytes and 40 for each index. Store it somewhere reachable in the
    /// same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<Self, Stop> {
        let records = BTreeMap::create(tx)?;
        Self::assembled(tx, records, 0, 0)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged map, here and in all other methods.
    pub fn get<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<Option<V::Owned>, Stop> {
        self.records(tx)?.get(tx, key)
    }

    /// Returns whether the map has a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn contains_key<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.records(tx)?.contains_key(tx, key)
    }

    /// Inserts a key or replaces its value; returns the old value.
    ///
    /// # Errors
    /// As [`Allocate::allocate`] and [`Words::write`].
    pub fn insert<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<Option<V::Owned>, Stop> {
        self.entry(tx, key)?.insert(value)
    }

    /// Replaces the value of a key with the result of `change`, and returns the new value; `None`
    /// if the key is absent.
    ///
    /// # Errors
    /// As [`insert`](IndexedMap::insert).
    pub fn update<W: Allocate, N: AsValue<V>>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        change: impl FnOnce(V::Owned) -> N,
    ) -> Result<Option<N>, Stop> {
        self.entry(tx, key)?.update(change)
    }

    /// Returns the entry of a key. One search serves several reads and a change.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn entry<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
    ) -> Result<Entry<'_, W, K, V, I>, Stop> {
        Entry::of(self, tx, KeyBuf::of(key))
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// As [`BTreeMap::remove`].
    pub fn remove<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
    ) -> Result<Option<V::Owned>, Stop> {
        self.entry(tx, key)?.remove()
    }

    /// Inserts all pairs, each in place of an older value of its key.
    ///
    /// # Errors
    /// As [`insert`](IndexedMap::insert).
    pub fn extend<W: Allocate, Q: AsKey<K>, N: AsValue<V>>(
        self,
        tx: &mut W,
        pairs: impl IntoIterator<Item = (Q, N)>,
    ) -> Result<(), Stop> {
        for (key, value) in pairs {
            self.insert(tx, key, value)?;
        }
        Ok(())
    }

    /// Returns an index, to find records by it.
    ///
    /// ```
    /// # use collections::{Index, IndexedMap};
    /// # use words::{Transact, mock::Mock};
    /// struct ByLength;
    /// impl Index<u32, str> for ByLength {
    ///     type Key = u32;
    ///     fn key(_: &u32, name: &String) -> Option<u32> {
    ///         Some(name.len() as u32)
    ///     }
    /// }
    ///
    /// # let mut mock = Mock::new(1 << 16);
    /// # type Names = IndexedMap<u32, str, (ByLength,)>;
    /// # let names: Names = mock.transact(|tx| IndexedMap::create(tx))?;
    /// mock.transact(|tx| {
    ///     names.extend(tx, [(1, "Ann"), (2, "Bob"), (3, "Robert")])?;
    ///     let short = names.by(ByLength).range(..4).collect(tx)?;
    ///     assert_eq!(short, [(1, "Ann".to_owned()), (2, "Bob".to_owned())]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    #[allow(clippy::needless_pass_by_value, reason = "a unit struct, which selects the index")]
    pub fn by<X: Index<K, V>, const AT: usize>(self, _index: X) -> By<K, V, I, X>
    where
        I: HasIndex<X, AT>,
    {
        By::of(self, AT)
    }

    /// Returns the map of the records, for its ranges and other reads. A change through it would
    /// leave the indexes behind.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn records<W: Words>(self, tx: &mut W) -> Result<BTreeMap<K, V>, Stop> {
        records_at(tx, self.header).map(BTreeMap::at)
    }

    /// Returns the least key and its value.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn first<W: Words>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.records(tx)?.first(tx)
    }

    /// Returns the greatest key and its value.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn last<W: Words>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.records(tx)?.last(tx)
    }

    /// Calls `visit` with all records in ascending order of their keys.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn for_each<W: Words>(
        self,
        tx: &mut W,
        visit: impl FnMut(K::Owned, V::Owned),
    ) -> Result<(), Stop> {
        self.records(tx)?.for_each(tx, visit)
    }

    /// Returns the number of records. It is exact, and reads up to 64 words.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        self.records(tx)?.len(tx)
    }

    /// Returns whether the map has no records.
    ///
    /// # Errors
    /// As [`get`](IndexedMap::get).
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.records(tx)?.is_empty(tx)
    }

    /// Stores a value at the spot of its key, in place of one with the index entries `old`.
    fn put_at<W: Allocate>(
        self,
        tx: &mut W,
        (key, spot): (&[u8], Spot),
        old: &Entries,
        value: &[u8],
    ) -> Result<(), Stop> {
        let header = self.header(tx)?;
        let new = Self::entries(key, &V::decode(Cow::Borrowed(value))?)?;
        BTreeMap::<K, V>::at(header.records).tree().put(tx, spot, key, value)?;
        Self::change_entries(tx, &header, old, &new)
    }

    /// Removes the record at a spot, which has the index entries `old`.
    fn remove_at<W: Allocate>(
        self,
        tx: &mut W,
        (key, spot): (&[u8], Spot),
        old: &Entries,
    ) -> Result<(), Stop> {
        let header = self.header(tx)?;
        BTreeMap::<K, V>::at(header.records).tree().remove_at(tx, spot, key)?;
        Self::change_entries(tx, &header, old, &NO_ENTRIES)
    }

    /// Replaces the entries of a record in each index where they differ. During a rebuild the old
    /// entry may be missing, and the new one may be there.
    fn change_entries<W: Allocate>(
        tx: &mut W,
        header: &Header,
        old: &Entries,
        new: &Entries,
    ) -> Result<(), Stop> {
        for at in 0..I::LENGTHS.len() {
            if old[at] == new[at] {
                continue;
            }
            let tree = Self::tree(header, at);
            if let Some(old) = &old[at] {
                let spot = tree.spot(tx, old.as_bytes())?;
                match spot.is_there() {
                    true => tree.remove_at(tx, spot, old.as_bytes())?,
                    // A concurrent step of a rebuild must not insert it.
                    false => tree.protect(tx, &spot)?,
                }
            }
            if let Some(new) = &new[at] {
                let spot = tree.spot(tx, new.as_bytes())?;
                tree.put(tx, spot, new.as_bytes(), &[])?;
            }
        }
        Ok(())
    }

    /// Returns the entries of a record with this encoded key.
    fn entries(key: &[u8], value: &V::Owned) -> Result<Entries, Stop> {
        Ok(I::entries(&K::from_bytes(key)?, value, key))
    }

    fn header<W: Words>(self, tx: &mut W) -> Result<Header, Stop> {
        let mut words = [0; INDEX as usize / 8 + INDEXES_MAX];
        tx.read_words(self.at(0), &mut words[..Self::HEADER_BYTES / 8])?;
        let [records, rebuild, replaced, indexes @ ..] = words;
        Ok(Header { records, rebuild, replaced, indexes })
    }

    /// Returns the set of an index.
    const fn tree(header: &Header, at: usize) -> Tree {
        Tree::at(header.indexes[at], Form::of_lengths(I::LENGTHS[at], Some(0)))
    }

    const fn at(self, offset: u64) -> Addr {
        Addr::new(self.header, offset)
    }
}
