//! An ordered set: a map whose values take no bytes.
//!
//! Keys of up to 8 bytes and one length take 9 bytes of a leaf each. Other keys take an object of
//! their own.
//!
//! Invariants: those of [`btree_map`].

use std::fmt;
use std::ops::ControlFlow;

use words::{Allocate, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::btree_map::{self, AsPrefix, BTreeMap, Checked, KeyRange, Range};
use crate::key::{AsKey, Key};

/// An ordered set; a value of one word that objects can hold.
///
/// ```
/// use collections::BTreeSet;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let names: BTreeSet<str> = mock.transact(|tx| BTreeSet::create(tx))?;
/// mock.transact(|tx| {
///     assert!(names.insert(tx, "bob")?);
///     assert!(names.insert(tx, "ann")?);
///     assert!(!names.insert(tx, "bob")?, "it is there");
///     names.range(..).for_each(tx, |name| println!("{name}"))
/// })?;
/// assert_eq!(mock.transact(|tx| names.first(tx))?.as_deref(), Some("ann"));
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct BTreeSet<K: ?Sized> {
    map: BTreeMap<K, ()>,
}

impl<K: ?Sized> Clone for BTreeSet<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: ?Sized> Copy for BTreeSet<K> {}
impl<K: ?Sized> PartialEq for BTreeSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}
impl<K: ?Sized> Eq for BTreeSet<K> {}
impl<K: ?Sized> fmt::Debug for BTreeSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BTreeSet").field(&self.map).finish()
    }
}

impl<K: Key + ?Sized> BTreeSet<K> {
    /// Creates an empty set of 32 bytes. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<Self, Stop> {
        Ok(BTreeSet { map: BTreeMap::create(tx)? })
    }

    /// Returns whether the set has a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged set, here and in all other methods.
    #[inline]
    pub fn contains<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.map.contains_key(tx, key)
    }

    /// Inserts a key; returns whether it is new.
    ///
    /// # Errors
    /// As [`BTreeMap::insert`].
    #[inline]
    pub fn insert<W: Allocate>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.map.put(tx, key, ())
    }

    /// Removes a key; returns whether it was there.
    ///
    /// # Errors
    /// As [`BTreeMap::remove`].
    pub fn remove<W: Allocate>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.map.delete(tx, key)
    }

    /// Returns the least key.
    ///
    /// # Errors
    /// As [`contains`](BTreeSet::contains).
    pub fn first<W: Words>(self, tx: &mut W) -> Result<Option<K::Owned>, Stop> {
        Ok(self.map.first(tx)?.map(|(key, ())| key))
    }

    /// Returns the greatest key.
    ///
    /// # Errors
    /// As [`contains`](BTreeSet::contains).
    pub fn last<W: Words>(self, tx: &mut W) -> Result<Option<K::Owned>, Stop> {
        Ok(self.map.last(tx)?.map(|(key, ())| key))
    }

    /// Removes the least key and returns it.
    ///
    /// # Errors
    /// As [`remove`](BTreeSet::remove).
    pub fn pop_first<W: Allocate>(self, tx: &mut W) -> Result<Option<K::Owned>, Stop> {
        Ok(self.map.pop_first(tx)?.map(|(key, ())| key))
    }

    /// Removes the greatest key and returns it.
    ///
    /// # Errors
    /// As [`remove`](BTreeSet::remove).
    pub fn pop_last<W: Allocate>(self, tx: &mut W) -> Result<Option<K::Owned>, Stop> {
        Ok(self.map.pop_last(tx)?.map(|(key, ())| key))
    }

    /// Returns the keys of a range; see [`BTreeMap::range`].
    pub fn range(self, bounds: impl KeyRange<K>) -> Keys<K> {
        Keys { range: self.map.range(bounds) }
    }

    /// Returns the keys with a prefix; see [`BTreeMap::prefix`].
    pub fn prefix(self, prefix: impl AsPrefix<K>) -> Keys<K> {
        Keys { range: self.map.prefix(prefix) }
    }

    /// Returns an iterator over all keys in ascending order.
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, K> {
        Iter { pairs: self.map.iter(tx) }
    }

    /// Calls `visit` with all keys in ascending order.
    ///
    /// # Errors
    /// As [`contains`](BTreeSet::contains).
    pub fn for_each<W: Words>(self, tx: &mut W, visit: impl FnMut(K::Owned)) -> Result<(), Stop> {
        self.range(..).for_each(tx, visit)
    }

    /// Keeps the keys for which `keep` returns true and removes the others, in one transaction.
    ///
    /// # Errors
    /// As [`BTreeMap::retain`].
    pub fn retain<W: Allocate>(
        self,
        tx: &mut W,
        mut keep: impl FnMut(K::Owned) -> bool,
    ) -> Result<(), Stop> {
        self.map.retain(tx, |key, ()| keep(key))
    }

    /// Inserts all keys.
    ///
    /// # Errors
    /// As [`insert`](BTreeSet::insert).
    pub fn extend<W: Allocate, Q: AsKey<K>>(
        self,
        tx: &mut W,
        keys: impl IntoIterator<Item = Q>,
    ) -> Result<(), Stop> {
        self.map.extend(tx, keys.into_iter().map(|key| (key, ())))
    }

    /// Returns the exact number of keys.
    ///
    /// # Errors
    /// As [`contains`](BTreeSet::contains).
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        self.map.len(tx)
    }

    /// Returns whether the set has no keys.
    ///
    /// # Errors
    /// As [`contains`](BTreeSet::contains).
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.map.is_empty(tx)
    }

    /// Removes all keys in one transaction.
    ///
    /// # Errors
    /// As [`BTreeMap::clear`].
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.map.clear(tx)
    }

    /// Does a step of a removal of all keys; see [`BTreeMap::clear_step`].
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.map.clear_step(tx, most)
    }

    /// Frees the set in one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// As [`BTreeMap::free`].
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.map.free(tx)
    }

    /// Does a step of freeing the set; see [`BTreeMap::drop_step`].
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.map.drop_step(tx, most)
    }

    /// Checks the whole set in one transaction; see [`BTreeMap::check`].
    ///
    /// # Errors
    /// As [`BTreeMap::check`].
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        self.map.check(tx)
    }

    /// Checks a part of the set; see [`BTreeMap::check_step`].
    ///
    /// # Errors
    /// As [`BTreeMap::check`].
    pub fn check_step<W: Words>(
        self,
        tx: &mut W,
        from: Option<&[u8]>,
        most_leaves: u64,
    ) -> Result<Checked, Stop> {
        self.map.check_step(tx, from, most_leaves)
    }
}

/// The keys of a set in a range, made by [`BTreeSet::range`]: as [`Range`], without values.
#[must_use = "a range reads nothing by itself"]
#[derive(Debug)]
pub struct Keys<K: ?Sized> {
    range: Range<K, ()>,
}

impl<K: ?Sized> Clone for Keys<K> {
    fn clone(&self) -> Self {
        Keys { range: self.range.clone() }
    }
}

impl<K: Key + ?Sized> Keys<K> {
    /// Turns the direction; see [`Range::rev`].
    pub fn rev(self) -> Keys<K> {
        Keys { range: self.range.rev() }
    }

    /// Returns an iterator over the keys; see [`Range::iter`].
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, K> {
        Iter { pairs: self.range.iter(tx) }
    }

    /// Calls `visit` with each key.
    ///
    /// # Errors
    /// As [`Range::for_each`].
    pub fn for_each<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned),
    ) -> Result<(), Stop> {
        self.range.for_each(tx, |key, ()| visit(key))
    }

    /// Calls `visit` with each key until it breaks.
    ///
    /// # Errors
    /// As [`Range::for_each`].
    pub fn try_for_each<W: Words>(
        &self,
        tx: &mut W,
        visit: impl FnMut(K::Owned) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        self.range.try_for_each_key(tx, visit)
    }

    /// Returns the first key in this direction.
    ///
    /// # Errors
    /// As [`Range::first`].
    pub fn first<W: Words>(&self, tx: &mut W) -> Result<Option<K::Owned>, Stop> {
        Ok(self.range.first(tx)?.map(|(key, ())| key))
    }

    /// Returns all keys.
    ///
    /// # Errors
    /// As [`Range::collect`].
    pub fn collect<W: Words>(&self, tx: &mut W) -> Result<Vec<K::Owned>, Stop> {
        let mut all = Vec::new();
        self.for_each(tx, |key| all.push(key))?;
        Ok(all)
    }

    /// Returns the number of keys, all of which it visits.
    ///
    /// # Errors
    /// As [`Range::count`].
    pub fn count<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        self.range.count(tx)
    }

    /// Returns up to `most` keys, and the rest of the range if there may be more.
    ///
    /// # Errors
    /// As [`Range::page`].
    #[allow(clippy::type_complexity, reason = "a page and the rest")]
    pub fn page<W: Words>(
        &self,
        tx: &mut W,
        most: usize,
    ) -> Result<(Vec<K::Owned>, Option<Keys<K>>), Stop> {
        let (page, rest) = self.range.page(tx, most)?;
        let keys = page.into_iter().map(|(key, ())| key).collect();
        Ok((keys, rest.map(|range| Keys { range })))
    }

    /// Removes up to `most` keys. Returns whether the range has no more.
    ///
    /// # Errors
    /// As [`Range::remove_step`].
    pub fn remove_step<W: Allocate>(&self, tx: &mut W, most: usize) -> Result<bool, Stop> {
        self.range.remove_step(tx, most)
    }
}

/// An iterator over keys, made by [`BTreeSet::iter`] and [`Keys::iter`].
pub struct Iter<'t, W, K: Key + ?Sized> {
    pairs: btree_map::Iter<'t, W, K, ()>,
}

impl<W: Words, K: Key + ?Sized> Iterator for Iter<'_, W, K> {
    type Item = Result<K::Owned, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.pairs.next()?.map(|(key, ())| key))
    }
}
