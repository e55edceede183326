//! The place of a key in a map.

use words::{Allocate, Stop};

use super::BTreeMap;
use crate::btree::Spot;
use crate::key::{Key, KeyBuf};
use crate::value::{AsValue, Value};

/// The place of a key, made by [`BTreeMap::entry`]: the key may be there or not.
#[must_use = "an entry changes nothing by itself"]
#[derive(Debug)]
pub struct Entry<'t, W, K: ?Sized, V: ?Sized> {
    map: BTreeMap<K, V>,
    tx: &'t mut W,
    key: KeyBuf,
    spot: Spot,
}

impl<'t, W: Allocate, K: Key + ?Sized, V: Value + ?Sized> Entry<'t, W, K, V> {
    pub(super) fn of(
        map: BTreeMap<K, V>,
        tx: &'t mut W,
        key: KeyBuf,
    ) -> Result<Entry<'t, W, K, V>, Stop> {
        let spot = map.tree().spot(tx, key.as_bytes())?;
        Ok(Entry { map, tx, key, spot })
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
    /// As [`BTreeMap::get`].
    pub fn get(&mut self) -> Result<Option<V::Owned>, Stop> {
        self.map.tree().value_at(self.tx, &self.spot, V::decode)
    }

    /// Replaces the value by the result of `change`, if the key is there.
    ///
    /// # Errors
    /// As [`BTreeMap::insert`].
    pub fn and_modify<N: AsValue<V>>(
        mut self,
        change: impl FnOnce(V::Owned) -> N,
    ) -> Result<Self, Stop> {
        match self.get()? {
            None => {
                self.map.tree().protect(self.tx, &self.spot)?;
                Ok(self)
            }
            Some(old) => {
                let new = change(old);
                let Entry { map, tx, key, spot } = self;
                map.tree().put(tx, spot, key.as_bytes(), &new.encode()?)?;
                // The change may have moved what the old spot refers to.
                Entry::of(map, tx, key)
            }
        }
    }

    /// Inserts a value, if the key is not there; returns the value that is there then.
    ///
    /// # Errors
    /// As [`BTreeMap::insert`].
    pub fn or_insert(self, value: impl AsValue<V>) -> Result<V::Owned, Stop> {
        self.or_insert_with(|| value)
    }

    /// Inserts the result of `value`, if the key is not there; returns the value that is there
    /// then.
    ///
    /// # Errors
    /// As [`BTreeMap::insert`].
    pub fn or_insert_with<N: AsValue<V>>(
        mut self,
        value: impl FnOnce() -> N,
    ) -> Result<V::Owned, Stop> {
        if let Some(there) = self.get()? {
            self.map.tree().protect(self.tx, &self.spot)?;
            return Ok(there);
        }
        let value = value();
        let value = value.encode()?;
        self.map.tree().put(self.tx, self.spot, self.key.as_bytes(), &value)?;
        V::decode(value)
    }

    /// Inserts the default value, if the key is not there; returns the value that is there then.
    ///
    /// # Errors
    /// As [`BTreeMap::insert`].
    pub fn or_default(self) -> Result<V::Owned, Stop>
    where
        V::Owned: Default + AsValue<V>,
    {
        self.or_insert_with(V::Owned::default)
    }

    /// Inserts the key or replaces its value; returns the old value.
    ///
    /// # Errors
    /// As [`BTreeMap::insert`].
    pub fn insert(mut self, value: impl AsValue<V>) -> Result<Option<V::Owned>, Stop> {
        let old = self.get()?;
        self.map.tree().put(self.tx, self.spot, self.key.as_bytes(), &value.encode()?)?;
        Ok(old)
    }

    /// Removes the key, if it is there; returns its value.
    ///
    /// # Errors
    /// As [`BTreeMap::remove`].
    pub fn remove(mut self) -> Result<Option<V::Owned>, Stop> {
        let old = self.get()?;
        match old {
            Some(_) => self.map.tree().remove_at(self.tx, self.spot, self.key.as_bytes())?,
            None => self.map.tree().protect(self.tx, &self.spot)?,
        }
        Ok(old)
    }
}
