//! A set: a hash map whose values have no bytes.

use std::fmt;

use words::{Allocate, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hash_map::{self, Checked, Cursor, HashMap};
use crate::key::{AsKey, Key};

/// A set of keys that grows and shrinks: a value of one word that objects can hold.
///
/// It is a [`HashMap`] with the values `()`. A set of integers takes 20 bytes for each, on average.
///
/// ```
/// use collections::HashSet;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let online = mock.transact(|tx| HashSet::<str>::create(tx))?;
/// assert!(mock.transact(|tx| online.insert(tx, "ann"))?);
/// assert!(mock.transact(|tx| online.contains(tx, "ann"))?);
/// assert!(mock.transact(|tx| online.remove(tx, "ann"))?);
/// assert!(mock.transact(|tx| online.is_empty(tx))?);
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct HashSet<K: ?Sized> {
    map: HashMap<K, ()>,
}

impl<K: Key + ?Sized> HashSet<K> {
    /// Creates an empty set with a random seed.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<HashSet<K>, Stop> {
        Ok(HashSet { map: HashMap::create(tx)? })
    }

    /// Creates an empty set with this seed: see [`HashMap::with_seed`].
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn with_seed<W: Allocate>(tx: &mut W, seed: u64) -> Result<HashSet<K>, Stop> {
        Ok(HashSet { map: HashMap::with_seed(tx, seed)? })
    }

    /// Returns the number of keys, which is exact: see [`HashMap::len`].
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        self.map.len(tx)
    }

    /// Returns whether the set has no keys.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.map.is_empty(tx)
    }

    /// Returns whether the set has a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn contains<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.map.contains_key(tx, key)
    }

    /// Inserts a key. Returns whether it is new.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    pub fn insert<W: Allocate>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.map.put(tx, key, ())
    }

    /// Removes a key. Returns whether it was in the set.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.map.delete(tx, key)
    }

    /// Inserts all keys.
    ///
    /// # Errors
    /// As [`insert`](HashSet::insert); [`Stop::TooLarge`] when they are too many for one
    /// transaction.
    pub fn extend<W: Allocate, Q: AsKey<K>>(
        self,
        tx: &mut W,
        keys: impl IntoIterator<Item = Q>,
    ) -> Result<(), Stop> {
        for key in keys {
            self.insert(tx, key)?;
        }
        Ok(())
    }

    /// Returns an iterator over all keys.
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, K> {
        Iter { pairs: self.map.iter(tx) }
    }

    /// Calls `visit` with all keys.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn for_each<W: Words>(
        self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned),
    ) -> Result<(), Stop> {
        self.map.for_each(tx, |key, ()| visit(key))
    }

    /// Calls `visit` with about `most` keys from a cursor on: see [`HashMap::scan`].
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
        mut visit: impl FnMut(K::Owned),
    ) -> Result<Option<Cursor>, Stop> {
        self.map.scan(tx, from, most, |key, ()| visit(key))
    }

    /// Removes the keys for which `keep` returns false.
    ///
    /// # Errors
    /// As [`HashMap::retain`].
    pub fn retain<W: Words>(
        self,
        tx: &mut W,
        mut keep: impl FnMut(K::Owned) -> bool,
    ) -> Result<(), Stop> {
        self.map.retain(tx, |key, ()| keep(key))
    }

    /// Calls `keep` with about `most` keys from a cursor on, and removes those for which it returns
    /// false: see [`HashMap::retain_step`].
    ///
    /// # Errors
    /// As [`HashMap::retain_step`].
    pub fn retain_step<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
        mut keep: impl FnMut(K::Owned) -> bool,
    ) -> Result<Option<Cursor>, Stop> {
        self.map.retain_step(tx, from, most, |key, ()| keep(key))
    }

    /// Removes all keys and frees their memory in this one transaction. The empty set stays.
    ///
    /// # Errors
    /// As [`HashMap::clear`].
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.map.clear(tx)
    }

    /// Frees up to `most` keys. Returns whether the set is empty and all is freed. The first step
    /// makes it empty: see [`HashMap::clear_step`].
    ///
    /// # Errors
    /// As [`HashMap::clear_step`].
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.map.clear_step(tx, most)
    }

    /// Frees the set in this one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// As [`HashMap::free`].
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.map.free(tx)
    }

    /// Frees up to `most` keys, and the set itself when it is empty. Returns whether all is freed:
    /// see [`HashMap::drop_step`].
    ///
    /// # Errors
    /// As [`HashMap::drop_step`].
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.map.drop_step(tx, most)
    }

    /// Checks the whole set: see [`HashMap::check`].
    ///
    /// # Errors
    /// As [`HashMap::check`].
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        self.map.check(tx)
    }

    /// Checks about `most` keys from a cursor on: see [`HashMap::check_step`].
    ///
    /// # Errors
    /// As [`HashMap::check`].
    pub fn check_step<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
    ) -> Result<Checked, Stop> {
        self.map.check_step(tx, from, most)
    }
}

/// The keys of a set, in no order that a program can predict: see
/// [`hash_map::Iter`].
#[derive(Debug)]
pub struct Iter<'t, W, K: ?Sized> {
    pairs: hash_map::Iter<'t, W, K, ()>,
}

impl<W: Words, K: Key + ?Sized> Iterator for Iter<'_, W, K> {
    type Item = Result<K::Owned, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.pairs.next()?.map(|(key, ())| key))
    }
}

impl<K: ?Sized> Clone for HashSet<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: ?Sized> Copy for HashSet<K> {}
impl<K: ?Sized> PartialEq for HashSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}
impl<K: ?Sized> Eq for HashSet<K> {}
impl<K: ?Sized> fmt::Debug for HashSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}
