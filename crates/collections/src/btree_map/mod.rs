//! An ordered map from any key to any value.
//!
//! [`BTreeMap`] encodes keys and values and leaves the rest to a B+-tree of byte strings. A key's
//! bytes compare as the key does (see [`Key`]), so the tree knows no types.
//!
//! | change | words written |
//! |---|---|
//! | value of a present key | the value, and the pointer to its object if that has to move |
//! | new key | an object for key and value, 3 to 9 words of a leaf, one of the length |
//! | new key of up to 8 bytes with a value of up to 32 | 2 to 12 of a leaf, one of the length |
//! | split, each 10th to 28th new key | a node of 512 bytes, and 3 to 9 words of its parent |
//! | removal | one word of the object, 1 to 8 of a leaf, one of the length |
//!
//! Invariants:
//! - An operation ends after a number of steps that the tree's height bounds, or the number of
//!   entries that it asks for, whatever the heap holds.
//! - Operations on keys in different leaves write no word in common, and none that the other reads,
//!   unless a node is split or joined, or both meet in one of the 64 words of the length.
//! - Write skew: the module of the tree says why an operation need not protect its path.

mod entry;
mod range;

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use words::{Allocate, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::btree::{Form, Tree};
use crate::key::{AsKey, Key, KeyBuf};
use crate::value::{AsValue, Value, is_pair};

pub use crate::btree::{Checked, Damage};
pub use entry::Entry;
pub use range::{AsPrefix, Iter, KeyRange, Pair, Range};
pub(crate) use range::{Bounds, after_prefix, bounds_of_prefix_within};

/// Entries that [`BTreeMap::retain`] reads before it removes some of them.
const RETAINED: usize = 256;

/// An ordered map; a value of one word that objects can hold.
///
/// ```
/// use collections::BTreeMap;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let scores: BTreeMap<str, u64> = mock.transact(|tx| BTreeMap::create(tx))?;
/// mock.transact(|tx| {
///     scores.insert(tx, "ann", 7)?;
///     scores.insert(tx, "bob", 9)?;
///     scores.update(tx, "ann", |score| score + 1)
/// })?;
/// assert_eq!(mock.transact(|tx| scores.get(tx, "ann"))?, Some(8));
/// assert_eq!(mock.transact(|tx| scores.last(tx))?, Some(("bob".to_owned(), 9)));
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// Every method takes the transaction, and its changes commit or roll back with the rest of it.
/// The order is that of std's [`Ord`] for the key's type.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct BTreeMap<K: ?Sized, V: ?Sized> {
    header: u64,
    types: PhantomData<fn(&K, &V)>,
}

impl<K: ?Sized, V: ?Sized> Clone for BTreeMap<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: ?Sized, V: ?Sized> Copy for BTreeMap<K, V> {}
impl<K: ?Sized, V: ?Sized> PartialEq for BTreeMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}
impl<K: ?Sized, V: ?Sized> Eq for BTreeMap<K, V> {}
impl<K: ?Sized, V: ?Sized> fmt::Debug for BTreeMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BTreeMap({:#x})", self.header)
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> BTreeMap<K, V> {
    const FORM: Form = Form::of::<K, V>();

    /// Creates an empty map of 32 bytes. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<Self, Stop> {
        Ok(BTreeMap { header: Tree::create(tx)?, types: PhantomData })
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged map, here and in all other methods.
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<Option<V::Owned>, Stop> {
        self.tree().get(tx, KeyBuf::of(key).as_bytes(), V::decode)
    }

    /// Calls `with` on the encoded value of a key, without a copy of a value of up to 1 KiB.
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    #[inline]
    pub fn get_with<W: Words, R>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        self.tree().get(tx, KeyBuf::of(key).as_bytes(), |value| Ok(with(&value)))
    }

    /// Returns whether the map has a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn contains_key<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.tree().contains(tx, KeyBuf::of(key).as_bytes())
    }

    /// Inserts a key or replaces its value; returns the old value.
    ///
    /// # Errors
    /// As [`Allocate::allocate`] and [`Words::write`].
    #[inline]
    pub fn insert<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<Option<V::Owned>, Stop> {
        let (key, value) = (KeyBuf::of(key), value.encode()?);
        let spot = self.tree().spot(tx, key.as_bytes())?;
        let old = self.tree().value_at(tx, &spot, V::decode)?;
        self.tree().put(tx, spot, key.as_bytes(), &value)?;
        Ok(old)
    }

    /// Inserts a key or replaces its value, which it does not read. Returns whether the key is new.
    ///
    /// # Errors
    /// As [`insert`](BTreeMap::insert).
    #[inline]
    pub fn put<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<bool, Stop> {
        let (key, value) = (KeyBuf::of(key), value.encode()?);
        let spot = self.tree().spot(tx, key.as_bytes())?;
        let is_new = !spot.is_there();
        self.tree().put(tx, spot, key.as_bytes(), &value)?;
        Ok(is_new)
    }

    /// Replaces the value of a key, if it is there, by the result of `change`. Returns that.
    ///
    /// # Errors
    /// As [`insert`](BTreeMap::insert).
    #[inline]
    pub fn update<W: Allocate, N: AsValue<V>>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        change: impl FnOnce(V::Owned) -> N,
    ) -> Result<Option<N>, Stop> {
        let key = KeyBuf::of(key);
        let spot = self.tree().spot(tx, key.as_bytes())?;
        let Some(old) = self.tree().value_at(tx, &spot, V::decode)? else {
            self.tree().protect(tx, &spot)?;
            return Ok(None);
        };
        let new = change(old);
        self.tree().put(tx, spot, key.as_bytes(), &new.encode()?)?;
        Ok(Some(new))
    }

    /// Returns the place of a key, to be read and changed after one search.
    ///
    /// ```
    /// # use collections::BTreeMap;
    /// # use words::{Transact, mock::Mock};
    /// # let mut mock = Mock::new(1 << 16);
    /// # let words: BTreeMap<str, u64> = mock.transact(|tx| BTreeMap::create(tx))?;
    /// for word in ["one", "two", "one"] {
    ///     mock.transact(|tx| words.entry(tx, word)?.and_modify(|n| n + 1)?.or_insert(1))?;
    /// }
    /// assert_eq!(mock.transact(|tx| words.get(tx, "one"))?, Some(2));
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    pub fn entry<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
    ) -> Result<Entry<'_, W, K, V>, Stop> {
        Entry::of(self, tx, KeyBuf::of(key))
    }

    /// Removes a key; returns its value.
    ///
    /// # Errors
    /// As [`Words::write`]. In a full pool a removal may be [`Stop::Full`], which is rare: some
    /// joins of nodes allocate an object for a long separator.
    pub fn remove<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
    ) -> Result<Option<V::Owned>, Stop> {
        self.tree().remove(tx, KeyBuf::of(key).as_bytes(), V::decode)
    }

    /// Removes a key whose value is not read; returns whether it was there.
    ///
    /// # Errors
    /// As [`remove`](BTreeMap::remove).
    pub fn delete<W: Allocate>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.delete_encoded(tx, KeyBuf::of(key).as_bytes())
    }

    fn delete_encoded<W: Allocate>(self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        let spot = self.tree().spot(tx, key)?;
        let is_there = spot.is_there();
        match is_there {
            true => self.tree().remove_at(tx, spot, key)?,
            false => self.tree().protect(tx, &spot)?,
        }
        Ok(is_there)
    }

    /// Returns the least key and its value.
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    pub fn first<W: Words>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.range(..).first(tx)
    }

    /// Returns the greatest key and its value.
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    pub fn last<W: Words>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.range(..).rev().first(tx)
    }

    /// Removes the least key and returns it with its value.
    ///
    /// # Errors
    /// As [`remove`](BTreeMap::remove).
    pub fn pop_first<W: Allocate>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.pop(tx, &self.range(..))
    }

    /// Removes the greatest key and returns it with its value.
    ///
    /// # Errors
    /// As [`remove`](BTreeMap::remove).
    pub fn pop_last<W: Allocate>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.pop(tx, &self.range(..).rev())
    }

    fn pop<W: Allocate>(self, tx: &mut W, range: &Range<K, V>) -> Result<Option<Pair<K, V>>, Stop> {
        let mut first = None;
        range.scan(tx, false, |key, _| {
            first = Some(key.into_owned());
            Ok(ControlFlow::Break(()))
        })?;
        let Some(key) = first else {
            self.tree().protect_empty(tx)?;
            return Ok(None);
        };
        let value = self.tree().remove(tx, &key, V::decode)?.ok_or(Stop::BadValue)?;
        Ok(Some((K::from_bytes(&key)?, value)))
    }

    /// Returns the entries of a range of keys, to be read in either direction, in one transaction
    /// or several.
    ///
    /// Every range of std can be the bounds, such as `..`, `"a".."b"` or `(5, 0)..=(5, 9)`. A range
    /// whose start is above its end has no entries.
    pub fn range(self, bounds: impl KeyRange<K>) -> Range<K, V> {
        Range::of(self, bounds.bounds(true))
    }

    /// Returns the entries whose keys begin with a string, or with the first components of a tuple.
    ///
    /// ```
    /// # use collections::BTreeMap;
    /// # use words::{Transact, mock::Mock};
    /// # let mut mock = Mock::new(1 << 16);
    /// let tags: BTreeMap<(String, u32), ()> = mock.transact(|tx| BTreeMap::create(tx))?;
    /// mock.transact(|tx| {
    ///     tags.extend(tx, [(("red", 1), ()), (("red", 7), ()), (("redder", 3), ())])?;
    ///     let mut ids = Vec::new();
    ///     tags.prefix(("red",)).for_each(tx, |(_, id), ()| ids.push(id))?;
    ///     assert_eq!(ids, [1, 7]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    pub fn prefix(self, prefix: impl AsPrefix<K>) -> Range<K, V> {
        Range::of(self, range::bounds_of_prefix(&prefix))
    }

    /// Returns an iterator over all entries in ascending order; see [`Range::iter`].
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, K, V> {
        self.range(..).iter(tx)
    }

    /// Calls `visit` with all entries in ascending order.
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    pub fn for_each<W: Words>(
        self,
        tx: &mut W,
        visit: impl FnMut(K::Owned, V::Owned),
    ) -> Result<(), Stop> {
        self.range(..).for_each(tx, visit)
    }

    /// Keeps the entries for which `keep` returns true and removes the others, in one transaction.
    ///
    /// # Errors
    /// As [`remove`](BTreeMap::remove); [`Stop::TooLarge`] when one transaction cannot remove so
    /// many. Use [`Range::retain_step`] then.
    pub fn retain<W: Allocate>(
        self,
        tx: &mut W,
        mut keep: impl FnMut(K::Owned, V::Owned) -> bool,
    ) -> Result<(), Stop> {
        let mut rest = Some(self.range(..));
        while let Some(range) = rest {
            rest = range.retain_step(tx, RETAINED, &mut keep)?;
        }
        Ok(())
    }

    /// Inserts all pairs, each in place of an older value of its key.
    ///
    /// # Errors
    /// As [`insert`](BTreeMap::insert).
    pub fn extend<W: Allocate, Q: AsKey<K>, N: AsValue<V>>(
        self,
        tx: &mut W,
        pairs: impl IntoIterator<Item = (Q, N)>,
    ) -> Result<(), Stop> {
        for (key, value) in pairs {
            self.put(tx, key, value)?;
        }
        Ok(())
    }

    /// Returns the number of entries. It is exact, from up to 64 words.
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        self.tree().len(tx)
    }

    /// Returns whether the map has no entries.
    ///
    /// # Errors
    /// As [`get`](BTreeMap::get).
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.tree().is_empty(tx)
    }

    /// Removes all entries in one transaction. For a large map see
    /// [`clear_step`](BTreeMap::clear_step).
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::TooLarge`] when one transaction cannot free so much.
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.tree().clear(tx, u64::MAX)? {}
        Ok(())
    }

    /// Frees up to `most` entries, or a whole leaf of up to 54 entries that have no objects.
    /// Returns whether the map is empty and all is freed.
    ///
    /// The first step makes the map empty for all transactions after it. The progress is part of
    /// the pool: after a crash the next call continues. Entries that are inserted between the steps
    /// are removed, too.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.tree().clear(tx, most)
    }

    /// Frees the map in one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// As [`clear`](BTreeMap::clear).
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.drop_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Does a step as [`clear_step`](BTreeMap::clear_step), and frees the map itself when it is
    /// empty. Returns whether it did; every copy of this value dangles then.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.tree().free(tx, most)
    }

    /// Checks the whole map in one transaction: its structure, keys, values and length, and the
    /// entries that [`clear_step`](BTreeMap::clear_step) has still to free.
    ///
    /// # Errors
    /// As [`Words::read`]. A wild pointer is not reported as damage but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        self.tree().check_whole(tx, &is_pair::<K, V>)
    }

    /// Checks up to `most_leaves` leaves from that of an encoded key on, and the nodes above them.
    /// Pass the result's `next` to continue, in the same transaction or a later one. The length and
    /// entries that are still to be freed are not checked.
    ///
    /// # Errors
    /// As [`check`](BTreeMap::check).
    pub fn check_step<W: Words>(
        self,
        tx: &mut W,
        from: Option<&[u8]>,
        most_leaves: u64,
    ) -> Result<Checked, Stop> {
        self.tree().check(tx, from, most_leaves, &is_pair::<K, V>)
    }

    /// Returns the map with this header.
    pub(crate) const fn at(header: u64) -> Self {
        BTreeMap { header, types: PhantomData }
    }

    pub(crate) const fn header(self) -> u64 {
        self.header
    }

    #[inline]
    pub(crate) const fn tree(self) -> Tree {
        Tree::at(self.header, Self::FORM)
    }
}
