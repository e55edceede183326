//! A hash map of any keys and values that grows and shrinks in small steps.
//!
//! ```text
//!   header               directory: 2, 4, ... or 64 slots
//!   | seed          |    | head | last hash | slot 0 | slot 1 | ... | slot 63 |
//!   | root          | ->                        |        |             |
//!   | cleared       |                           +---+----+             v
//!   | length: 2     |                               v              directory for the next 6 bits
//!   |   words       |                             bucket
//!
//!   bucket     | head | tag x 8 | payload x 8 |        see `hash_map/bucket.rs`
//!   length     count, pointer                          see `length.rs`
//! ```
//!
//! A trie of directories, each an extendible hash table (Fagin et al., TODS 1979) of its own. The
//! upper bits of a hash select slots, up to 6 bits at each level. A bucket of *depth* `d` holds all
//! keys that agree in the first `d` of these bits, so `slots >> d` neighboring slots have its
//! pointer. A full bucket splits by its next bit, and the directory doubles if it does not use that
//! bit. At depth 6 a directory of two slots takes the bucket's place. A map of up to 8 pairs is one
//! bucket, and an empty map is the header alone.
//!
//! A lookup in a map of a million pairs visits two or three directories and a bucket. No operation
//! on one key does work in proportion to the size, and no word is written by all of them.
//!
//! Invariants:
//! - A directory has its number of directories above in its head, and the greatest hash that leads
//!   there. So a damaged trie has no cycles, and a scan visits each directory once.
//! - A directory has at least two buckets. Two buddies without pairs merge, so it also has pairs:
//!   see `hash_map/shrink.rs`. Directories are only in single slots of directories with 64.
//! - The header's `cleared` leads to a trie whose pairs are removed and not yet freed: see
//!   `hash_map/clear.rs`.
//! - All slots of a bucket's group have its pointer, and no other slots do. A bucket of depth `d`
//!   begins at a slot whose number is a multiple of `slots >> d`.
//! - A pair is in the bucket for its key's hash, and no key is there twice.
//! - Only pairs of one hash are in a chain, and all buckets of a chain but the first are full.
//! - Each pointer is a word of its own.
//! - Write skew: see `hash_map/grow.rs`, `hash_map/shrink.rs`, `hash_map/clear.rs` and
//!   `Trie::replace`. No operation relies on a word that it neither writes nor reaches through an
//!   object that it writes. A change that writes nothing protects its bucket: see
//!   `Search::protect`.

mod bucket;
mod check;
mod clear;
mod encoded;
mod entry;
mod grow;
mod hash;
mod scan;
mod shrink;
#[cfg(test)]
mod tests;
mod trie;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;

use words::{Allocate, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use self::check::{Checked, Damage};
pub(crate) use self::encoded::EncodedTrie;
pub use self::entry::Entry;
pub use self::scan::{Cursor, Iter};

use self::bucket::Form;
use self::scan::decode;
use self::trie::{Search, Trie};
use crate::key::{AsKey, Key, KeyBuf};
use crate::value::{AsValue, Value, is_pair};

/// The types of a map.
type Kind<K, V> = PhantomData<fn(&K, &V)>;

/// A map from keys to values that grows and shrinks: a value of one word that objects can hold.
///
/// Keys are of any type with [`Key`], values of any with [`Value`]. An empty map takes 40 bytes. A
/// pair of `u64` takes 20 to 36 bytes in a large map, with the allocator's headers (a test holds it
/// there). A longer pair has an object of its own.
///
/// ```
/// use collections::HashMap;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let ages = mock.transact(|tx| HashMap::<str, u32>::create(tx))?;
/// mock.transact(|tx| {
///     ages.insert(tx, "ann", 40)?;
///     ages.insert(tx, "bob", 50)?;
///     ages.update(tx, "ann", |age| age + 1)
/// })?;
/// assert_eq!(mock.transact(|tx| ages.get(tx, "ann"))?, Some(41));
/// assert_eq!(mock.transact(|tx| ages.len(tx))?, 2);
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// The order of iteration is that of the keys' hashes. These depend on a random seed, so that keys
/// from outside cannot be chosen to collide. The seed is in the pool: see
/// [`with_seed`](HashMap::with_seed).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct HashMap<K: ?Sized, V: ?Sized> {
    header: u64,
    kind: Kind<K, V>,
}

impl<K: Key + ?Sized, V: Value + ?Sized> HashMap<K, V> {
    const FORM: Form = Form::of::<K, V>();

    /// Creates an empty map with a random seed.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<HashMap<K, V>, Stop> {
        HashMap::with_seed(tx, random_seed())
    }

    /// Creates an empty map with this seed. Two maps with one seed and the same history have the
    /// same form, which repeatable tests need.
    ///
    /// An attacker that knows the seed, and chooses keys, can make operations on them slow.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn with_seed<W: Allocate>(tx: &mut W, seed: u64) -> Result<HashMap<K, V>, Stop> {
        Ok(HashMap { header: Trie::create(tx, seed)?, kind: PhantomData })
    }

    /// Returns the number of pairs, which is exact. Reads up to 65 words, which every concurrent
    /// insertion or removal changes one of.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        self.trie().length().get(tx)
    }

    /// Returns whether the map has no pairs. Reads two words, which changes of a large map do not
    /// write.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.trie().is_empty(tx)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the stored bytes are no value.
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<Option<V::Owned>, Stop> {
        self.trie().get(tx, &KeyBuf::of(key), V::decode)
    }

    /// Calls `with` on the encoded value of a key, without a copy if it is short.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn get_with<W: Words, R>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        self.trie().get(tx, &KeyBuf::of(key), |value| Ok(with(&value)))
    }

    /// Returns whether the map has a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn contains_key<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        Ok(self.trie().search(tx, &KeyBuf::of(key))?.found.is_some())
    }

    /// Inserts a key or replaces its value, and returns the old value.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    pub fn insert<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<Option<V::Owned>, Stop> {
        self.entry(tx, key)?.insert(value)
    }

    /// Inserts a key or replaces its value, which it does not read. Returns whether the key is new.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    pub fn put<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<bool, Stop> {
        let key = KeyBuf::of(key);
        let search = self.trie().search(tx, &key)?;
        let is_new = search.found.is_none();
        self.set(tx, search, &key, &value.encode()?)?;
        Ok(is_new)
    }

    /// Returns the entry of a key, which may be vacant.
    ///
    /// ```
    /// # use collections::HashMap;
    /// # use words::{Transact, mock::Mock};
    /// # let mut mock = Mock::new(1 << 16);
    /// let words = mock.transact(|tx| HashMap::<str, u64>::create(tx))?;
    /// mock.transact(|tx| {
    ///     for word in ["to", "be", "or", "not", "to", "be"] {
    ///         words.entry(tx, word)?.and_modify(|count| count + 1)?.or_insert(1)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(mock.transact(|tx| words.get(tx, "be"))?, Some(2));
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn entry<W: Allocate>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
    ) -> Result<Entry<'_, W, K, V>, Stop> {
        Entry::new(tx, self, KeyBuf::of(key))
    }

    /// Replaces the value of a key, if it is in the map, by the result of `change`. Returns that.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    pub fn update<W: Allocate, R: AsValue<V>>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
        change: impl FnOnce(V::Owned) -> R,
    ) -> Result<Option<R>, Stop> {
        let trie = self.trie();
        let mut search = trie.search(tx, &KeyBuf::of(key))?;
        let Some(found) = search.found.take() else {
            search.protect(tx, trie)?;
            return Ok(None);
        };
        let new = change(trie.value(tx, &found, V::decode)?);
        trie.replace(tx, found, &new.encode()?)?;
        Ok(Some(new))
    }

    /// Removes a key, and returns its value.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(
        self,
        tx: &mut W,
        key: impl AsKey<K>,
    ) -> Result<Option<V::Owned>, Stop> {
        let trie = self.trie();
        let search = trie.search(tx, &KeyBuf::of(key))?;
        let found = search.found.as_ref();
        let old = found.map(|found| trie.value(tx, found, V::decode)).transpose()?;
        trie.remove(tx, search)?;
        Ok(old)
    }

    /// Removes a key without reading its value. Returns whether it was in the map.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn delete<W: Words>(self, tx: &mut W, key: impl AsKey<K>) -> Result<bool, Stop> {
        self.delete_encoded(tx, &KeyBuf::of(key))
    }

    /// Inserts all pairs, or replaces the values of their keys.
    ///
    /// # Errors
    /// As [`put`](HashMap::put); [`Stop::TooLarge`] when they are too many for one transaction.
    pub fn extend<W: Allocate, Q: AsKey<K>, R: AsValue<V>>(
        self,
        tx: &mut W,
        pairs: impl IntoIterator<Item = (Q, R)>,
    ) -> Result<(), Stop> {
        for (key, value) in pairs {
            self.put(tx, key, value)?;
        }
        Ok(())
    }

    /// Returns an iterator over all pairs.
    ///
    /// ```
    /// # use collections::HashMap;
    /// # use words::{Transact, mock::Mock};
    /// # let mut mock = Mock::new(1 << 16);
    /// # let ages = mock.transact(|tx| HashMap::<str, u32>::create(tx))?;
    /// # mock.transact(|tx| ages.insert(tx, "ann", 40))?;
    /// let mut pairs = mock.transact(|tx| ages.iter(tx).collect::<Result<Vec<_>, _>>())?;
    /// pairs.sort();
    /// assert_eq!(pairs, [("ann".to_owned(), 40)]);
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, K, V> {
        Iter::new(tx, self.trie())
    }

    /// Calls `visit` with all pairs.
    ///
    /// # Errors
    /// As [`get`](HashMap::get).
    pub fn for_each<W: Words>(
        self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned, V::Owned),
    ) -> Result<(), Stop> {
        for pair in self.iter(tx) {
            let (key, value) = pair?;
            visit(key, value);
        }
        Ok(())
    }

    /// Calls `visit` with about `most` pairs from a cursor on, and returns the cursor behind them;
    /// `None` after the last pair. Pairs of one hash, which are rare, are not divided. The part may
    /// have no pairs: buckets without pairs count as one.
    ///
    /// # Errors
    /// As [`get`](HashMap::get).
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
        mut visit: impl FnMut(K::Owned, V::Owned),
    ) -> Result<Option<Cursor>, Stop> {
        let (mut left, mut last) = (most.max(1), None);
        let mut next = Some(from.hash);
        while let Some(from) = next {
            let batch = self.trie().batch(tx, from)?;
            next = batch.next;
            if batch.items.len() == 0 {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(next.map(|hash| Cursor { hash }));
                }
            }
            for item in batch.items {
                if left == 0 && last != Some(item.hash) {
                    return Ok(Some(Cursor { hash: item.hash }));
                }
                let (key, value) = decode::<W, K, V>(tx, Self::FORM, &item.pair)?;
                visit(key, value);
                (left, last) = (left.saturating_sub(1), Some(item.hash));
            }
        }
        Ok(None)
    }

    /// Removes the pairs for which `keep` returns false.
    ///
    /// # Errors
    /// As [`remove`](HashMap::remove); [`Stop::TooLarge`] when these are too many for one
    /// transaction. Use [`retain_step`](HashMap::retain_step) then.
    pub fn retain<W: Words>(
        self,
        tx: &mut W,
        mut keep: impl FnMut(K::Owned, V::Owned) -> bool,
    ) -> Result<(), Stop> {
        let mut next = Some(Cursor::START);
        while let Some(from) = next {
            next = self.retain_step(tx, from, u64::MAX, &mut keep)?;
        }
        Ok(())
    }

    /// Calls `keep` with about `most` pairs from a cursor on, and removes those for which it
    /// returns false. Returns the cursor behind them; `None` after the last pair.
    ///
    /// # Errors
    /// As [`remove`](HashMap::remove).
    pub fn retain_step<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
        mut keep: impl FnMut(K::Owned, V::Owned) -> bool,
    ) -> Result<Option<Cursor>, Stop> {
        let mut left = most.max(1);
        let mut next = Some(from.hash);
        while let Some(from) = next {
            let batch = self.trie().batch(tx, from)?;
            left = left.saturating_sub(u64::from(batch.items.len() == 0));
            for item in batch.items {
                let key = self.trie().key(tx, &item.pair)?;
                let (owned, value) = decode::<W, K, V>(tx, Self::FORM, &item.pair)?;
                if !keep(owned, value) {
                    self.delete_encoded(tx, &key)?;
                }
                left = left.saturating_sub(1);
            }
            next = batch.next;
            if left == 0 {
                break;
            }
        }
        Ok(next.map(|hash| Cursor { hash }))
    }

    /// Removes all pairs and frees their memory in this one transaction. The empty map stays.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when they are too many. Use [`clear_step`](HashMap::clear_step) then.
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.clear_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Frees up to `most` pairs. Returns whether the map is empty and all is freed.
    ///
    /// The first step makes the map empty for all transactions after it. The progress is part of
    /// the pool: after a crash the next call continues. Pairs that are inserted between the steps
    /// are removed, too.
    ///
    /// Give a step a transaction of its own under snapshot isolation: it does not conflict with
    /// concurrent updates of pairs that later steps free.
    ///
    /// # Errors
    /// As [`remove`](HashMap::remove).
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.trie().clear(tx, most)
    }

    /// Frees the map in this one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when it is too large. Use [`drop_step`](HashMap::drop_step) then.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.drop_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Does a step as [`clear_step`](HashMap::clear_step), and frees the map itself when it is
    /// empty. Returns whether it did; every copy of this value dangles then. Remove the map from
    /// its place in the transaction that returns true.
    ///
    /// # Errors
    /// As [`remove`](HashMap::remove).
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.trie().free(tx, most)
    }

    /// Checks the whole map: every pair is found under its key and can be decoded, no key is stored
    /// twice, and the length is right. So are the pairs that [`clear_step`](HashMap::clear_step)
    /// has yet to free. The check ends after 100 findings.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the pointers of damaged memory lead to a
    /// wrong place.
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        self.trie().check_all(tx, &is_pair::<K, V>)
    }

    /// Checks about `most` pairs from a cursor on, without the length and the pairs that are yet to
    /// be freed. A check of a large map
    /// therefore needs no large transaction.
    ///
    /// # Errors
    /// As [`check`](HashMap::check).
    pub fn check_step<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
    ) -> Result<Checked, Stop> {
        self.trie().check(tx, from, most, &is_pair::<K, V>)
    }

    fn delete_encoded<W: Words>(self, tx: &mut W, key: &KeyBuf) -> Result<bool, Stop> {
        let search = self.trie().search(tx, key)?;
        let is_there = search.found.is_some();
        self.trie().remove(tx, search)?;
        Ok(is_there)
    }

    /// Stores the value of a key that was searched.
    fn set<W: Allocate>(
        self,
        tx: &mut W,
        mut search: Search,
        key: &KeyBuf,
        value: &[u8],
    ) -> Result<(), Stop> {
        match search.found.take() {
            Some(found) => self.trie().replace(tx, found, value),
            None => self.trie().add(tx, search, key, value),
        }
    }

    #[inline]
    const fn trie(self) -> Trie {
        Trie::new(self.header, Self::FORM)
    }
}

fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl<K: ?Sized, V: ?Sized> Clone for HashMap<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: ?Sized, V: ?Sized> Copy for HashMap<K, V> {}
impl<K: ?Sized, V: ?Sized> PartialEq for HashMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}
impl<K: ?Sized, V: ?Sized> Eq for HashMap<K, V> {}
impl<K: ?Sized, V: ?Sized> fmt::Debug for HashMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashMap({:#x})", self.header)
    }
}
