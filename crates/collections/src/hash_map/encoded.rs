//! The map of encoded keys and values, whose lengths are known at run time.

use std::borrow::Cow;

use words::{Allocate, Stop, Words};

use super::bucket::Form;
use super::check::Checked;
use super::hash::hash;
use super::random_seed;
use super::scan::with_pair;
use super::trie::Trie;
use crate::key::KeyBuf;

/// A trie and the lengths of its keys and values.
///
/// A key or value of a fixed length must have that length, which the caller checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedTrie(Trie);

impl EncodedTrie {
    /// Returns the map with this header.
    pub(crate) const fn at(header: u64, key: Option<usize>, value: Option<usize>) -> EncodedTrie {
        EncodedTrie(Trie::new(header, Form::of_lengths(key, value)))
    }

    /// Creates an empty map with a random seed, and returns its header.
    pub(crate) fn create<W: Allocate>(tx: &mut W) -> Result<u64, Stop> {
        Trie::create(tx, random_seed())
    }

    /// Calls `with` on the value of a key.
    pub(crate) fn get<W: Words, R>(
        self,
        tx: &mut W,
        key: &[u8],
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        self.0.get(tx, &encoded(key), with)
    }

    /// Returns whether the key is there.
    pub(crate) fn contains<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        Ok(self.0.search(tx, &encoded(key))?.found.is_some())
    }

    /// Inserts a key or replaces its value. Returns whether the key is new.
    pub(crate) fn put<W: Allocate>(
        self,
        tx: &mut W,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, Stop> {
        let key = encoded(key);
        let mut search = self.0.search(tx, &key)?;
        match search.found.take() {
            Some(found) => self.0.replace(tx, found, value).map(|()| false),
            None => self.0.add(tx, search, &key, value).map(|()| true),
        }
    }

    /// Inserts a key unless it is there. Returns whether it did. The key stays there until the
    /// transaction commits, as by [`Search::protect`](super::trie::Search::protect).
    pub(crate) fn insert_new<W: Allocate>(
        self,
        tx: &mut W,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, Stop> {
        let key = encoded(key);
        let search = self.0.search(tx, &key)?;
        if search.found.is_some() {
            return search.protect(tx, self.0).map(|()| false);
        }
        self.0.add(tx, search, &key, value).map(|()| true)
    }

    /// Removes a key. Returns whether it was there.
    pub(crate) fn delete<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        let search = self.0.search(tx, &encoded(key))?;
        let is_there = search.found.is_some();
        self.0.remove(tx, search)?;
        Ok(is_there)
    }

    /// Returns the number of pairs.
    pub(crate) fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        self.0.length().get(tx)
    }

    /// Frees up to `most` pairs. Returns whether the map is empty and all is freed.
    pub(crate) fn clear<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.0.clear(tx, most)
    }

    /// Does the same, and frees the header if there were no more. Returns whether it did.
    pub(crate) fn free<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.0.free(tx, most)
    }

    /// Checks the whole map; see [`HashMap::check`](super::HashMap::check). `is_pair` returns
    /// whether bytes are a key and a value of the map's types.
    pub(crate) fn check<W: Words>(
        self,
        tx: &mut W,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        self.0.check_all(tx, is_pair)
    }

    /// Returns the hash of a key.
    pub(crate) fn hash_of<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<u64, Stop> {
        let (seed, _) = self.0.open(tx)?;
        Ok(hash(seed, encoded(key).words(), key.len()))
    }

    /// Calls `visit` with the hash, the key and the value of each pair from a hash on in the bucket
    /// for it, in the order of the hashes. Returns the least hash of the next bucket.
    pub(crate) fn visit_bucket<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        mut visit: impl FnMut(u64, Cow<'_, [u8]>, Cow<'_, [u8]>),
    ) -> Result<Option<u64>, Stop> {
        let batch = self.0.batch(tx, from)?;
        for item in batch.items {
            with_pair(tx, self.0.form, &item.pair, |key, value| {
                visit(item.hash, key, value);
                Ok(())
            })?;
        }
        Ok(batch.next)
    }
}

fn encoded(key: &[u8]) -> KeyBuf {
    KeyBuf::of::<[u8]>(key)
}
