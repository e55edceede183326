//! The entry of one key, which may be vacant, for changes that depend on its value.

use std::borrow::Cow;

use words::{Allocate, Stop};

use super::HashMap;
use super::trie::Search;
use crate::key::{Key, KeyBuf};
use crate::value::{AsValue, Value};

/// The place of one key in a map, made by [`HashMap::entry`].
#[must_use = "an entry changes nothing by itself"]
#[derive(Debug)]
pub struct Entry<'t, W, K: ?Sized, V: ?Sized> {
    tx: &'t mut W,
    map: HashMap<K, V>,
    key: KeyBuf,
    search: Search,
}

impl<'t, W: Allocate, K: Key + ?Sized, V: Value + ?Sized> Entry<'t, W, K, V> {
    pub(super) fn new(
        tx: &'t mut W,
        map: HashMap<K, V>,
        key: KeyBuf,
    ) -> Result<Entry<'t, W, K, V>, Stop> {
        let search = map.trie().search(tx, &key)?;
        Ok(Entry { tx, map, key, search })
    }

    /// Returns whether the key is in the map.
    pub const fn is_occupied(&self) -> bool {
        self.search.found.is_some()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// As [`HashMap::get`].
    pub fn get(&mut self) -> Result<Option<V::Owned>, Stop> {
        let Some(found) = &self.search.found else {
            return Ok(None);
        };
        self.map.trie().value(self.tx, found, V::decode).map(Some)
    }

    /// Replaces the value, if the key is in the map, by the result of `change`.
    ///
    /// # Errors
    /// As [`HashMap::update`].
    pub fn and_modify<R: AsValue<V>>(
        mut self,
        change: impl FnOnce(V::Owned) -> R,
    ) -> Result<Entry<'t, W, K, V>, Stop> {
        if let Some(found) = self.search.found.take() {
            let trie = self.map.trie();
            let old = trie.value(self.tx, &found, V::decode)?;
            trie.replace(self.tx, found, &change(old).encode()?)?;
            self.search = trie.search(self.tx, &self.key)?;
        } else {
            self.search.protect(self.tx, self.map.trie())?;
        }
        Ok(self)
    }

    /// Inserts a value, if the key is not in the map, and returns the key's value.
    ///
    /// # Errors
    /// As [`HashMap::insert`].
    pub fn or_insert(self, value: impl AsValue<V>) -> Result<V::Owned, Stop> {
        self.or_insert_with(|| value)
    }

    /// Inserts the result of `value`, if the key is not in the map, and returns the key's value.
    ///
    /// # Errors
    /// As [`HashMap::insert`].
    pub fn or_insert_with<R: AsValue<V>>(
        mut self,
        value: impl FnOnce() -> R,
    ) -> Result<V::Owned, Stop> {
        if let Some(old) = self.get()? {
            self.search.protect(self.tx, self.map.trie())?;
            return Ok(old);
        }
        let value = value();
        let bytes = value.encode()?;
        self.map.trie().add(self.tx, self.search, &self.key, &bytes)?;
        V::decode(Cow::Borrowed(&bytes))
    }

    /// Inserts or replaces the value, and returns the old one.
    ///
    /// # Errors
    /// As [`HashMap::insert`].
    pub fn insert(mut self, value: impl AsValue<V>) -> Result<Option<V::Owned>, Stop> {
        let old = self.get()?;
        self.map.set(self.tx, self.search, &self.key, &value.encode()?)?;
        Ok(old)
    }

    /// Removes the key, and returns its value.
    ///
    /// # Errors
    /// As [`HashMap::remove`].
    pub fn remove(mut self) -> Result<Option<V::Owned>, Stop> {
        let old = self.get()?;
        self.map.trie().remove(self.tx, self.search)?;
        Ok(old)
    }
}
