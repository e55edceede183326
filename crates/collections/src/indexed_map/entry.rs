//! The place of a key in a map with indexes.

use words::{Allocate, Stop};

use super::index::{Entries, Indexes};
use super::{IndexedMap, NO_ENTRIES};
use crate::btree::{Spot, Tree};
use crate::key::{Key, KeyBuf};
use crate::value::{AsValue, Value};

/// The place of a key, made by [`IndexedMap::entry`]: the key may be there or not.
#[must_use = "an entry changes nothing by itself"]
#[derive(Debug)]
pub struct Entry<'t, W, K: ?Sized, V: ?Sized, I> {
    map: IndexedMap<K, V, I>,
    tx: &'t mut W,
    records: Tree,
    key: KeyBuf,
    spot: Spot,
}

impl<'t, W, K, V, I> Entry<'t, W, K, V, I>
where
    W: Allocate,
    K: Key + ?Sized,
    V: Value + ?Sized,
    I: Indexes<K, V>,
{
    pub(super) fn of(
        map: IndexedMap<K, V, I>,
        tx: &'t mut W,
        key: KeyBuf,
    ) -> Result<Entry<'t, W, K, V, I>, Stop> {
        let records = map.records(tx)?.tree();
        let spot = records.spot(tx, key.as_bytes())?;
        Ok(Entry { map, tx, records, key, spot })
    }

    /// Returns whether the key is there.
    pub const fn is_occupied(&self) -> bool {
        self.spot.is_there()
    }

    /// Returns the key.
    ///
    /// # Errors
    /// None for the keys of this crate.
    pub fn key(&self) -> Result<K::Owned, Stop> {
        K::from_bytes(self.key.as_bytes())
    }

    /// Returns the value, if the key is there.
    ///
    /// # Errors
    /// As [`IndexedMap::get`].
    pub fn get(&mut self) -> Result<Option<V::Owned>, Stop> {
        self.records.value_at(self.tx, &self.spot, V::decode)
    }

    /// Replaces the value by the result of `change`, if the key is there.
    ///
    /// # Errors
    /// As [`IndexedMap::insert`].
    pub fn and_modify<N: AsValue<V>>(
        mut self,
        change: impl FnOnce(V::Owned) -> N,
    ) -> Result<Self, Stop> {
        let Some(old) = self.get()? else {
            self.records.protect(self.tx, &self.spot)?;
            return Ok(self);
        };
        let entries = self.entries(Some(&old))?;
        let new = change(old);
        let Entry { map, tx, key, spot, .. } = self;
        map.put_at(tx, (key.as_bytes(), spot), &entries, &new.encode()?)?;
        // The change may have moved what the old spot refers to.
        Entry::of(map, tx, key)
    }

    /// Inserts a value, if the key is not there; returns the value that is there then.
    ///
    /// # Errors
    /// As [`IndexedMap::insert`].
    pub fn or_insert(self, value: impl AsValue<V>) -> Result<V::Owned, Stop> {
        self.or_insert_with(|| value)
    }

    /// Inserts the result of `value`, if the key is not there; returns the value that is there
    /// then.
    ///
    /// # Errors
    /// As [`IndexedMap::insert`].
    pub fn or_insert_with<N: AsValue<V>>(
        mut self,
        value: impl FnOnce() -> N,
    ) -> Result<V::Owned, Stop> {
        if let Some(there) = self.get()? {
            self.records.protect(self.tx, &self.spot)?;
            return Ok(there);
        }
        let value = value();
        let value = value.encode()?;
        self.map.put_at(self.tx, (self.key.as_bytes(), self.spot), &NO_ENTRIES, &value)?;
        V::decode(value)
    }

    /// Inserts the key or replaces its value; returns the old value.
    ///
    /// # Errors
    /// As [`IndexedMap::insert`].
    pub fn insert(mut self, value: impl AsValue<V>) -> Result<Option<V::Owned>, Stop> {
        let old = self.get()?;
        let entries = self.entries(old.as_ref())?;
        self.map.put_at(self.tx, (self.key.as_bytes(), self.spot), &entries, &value.encode()?)?;
        Ok(old)
    }

    /// Removes the key, if it is there; returns its value.
    ///
    /// # Errors
    /// As [`IndexedMap::remove`].
    pub fn remove(mut self) -> Result<Option<V::Owned>, Stop> {
        let old = self.get()?;
        match &old {
            None => self.records.protect(self.tx, &self.spot)?,
            Some(old) => {
                let entries = self.entries(Some(old))?;
                self.map.remove_at(self.tx, (self.key.as_bytes(), self.spot), &entries)?;
            }
        }
        Ok(old)
    }

    /// Replaces the value, as [`IndexedMap::update`].
    pub(super) fn update<N: AsValue<V>>(
        mut self,
        change: impl FnOnce(V::Owned) -> N,
    ) -> Result<Option<N>, Stop> {
        let Some(old) = self.get()? else {
            self.records.protect(self.tx, &self.spot)?;
            return Ok(None);
        };
        let entries = self.entries(Some(&old))?;
        let new = change(old);
        self.map.put_at(self.tx, (self.key.as_bytes(), self.spot), &entries, &new.encode()?)?;
        Ok(Some(new))
    }

    /// Returns the index entries of this key with a value.
    fn entries(&self, value: Option<&V::Owned>) -> Result<Entries, Stop> {
        match value {
            None => Ok(NO_ENTRIES),
            Some(value) => IndexedMap::<K, V, I>::entries(self.key.as_bytes(), value),
        }
    }
}
