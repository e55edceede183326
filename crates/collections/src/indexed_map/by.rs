//! Records found by an index, and positions in it that outlast a transaction.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

use words::{Allocate, Stop, Words};

use super::index::{Index, IndexEntry, Indexes};
use super::{Entry, INDEX, IndexedMap};
use crate::btree_map::{
    AsPrefix, BTreeMap, Bounds, KeyRange, Pair, Range, after_prefix, bounds_of_prefix_within,
};
use crate::key::{AsKey, Key, KeyBuf};
use crate::value::Value;

/// Entries that `for_each` reads at a time.
const PAGE: usize = 64;

/// An index of a map, made by [`IndexedMap::by`].
pub struct By<K: ?Sized, V: ?Sized, I, X> {
    map: IndexedMap<K, V, I>,
    at: usize,
    index: PhantomData<fn(&X)>,
}

impl<K: ?Sized, V: ?Sized, I, X> Clone for By<K, V, I, X> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: ?Sized, V: ?Sized, I, X> Copy for By<K, V, I, X> {}
impl<K: ?Sized, V: ?Sized, I, X> fmt::Debug for By<K, V, I, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "By({:?}, index {})", self.map, self.at)
    }
}

/// An index key and the key of its record.
type EntryPair<K, V, X> = (<<X as Index<K, V>>::Key as Key>::Owned, <K as Key>::Owned);

/// The set of an index.
type Set<K, V, X> = BTreeMap<IndexEntry<<X as Index<K, V>>::Key, K>, ()>;

impl<K, V, I, X> By<K, V, I, X>
where
    K: Key + ?Sized,
    V: Value + ?Sized,
    I: Indexes<K, V>,
    X: Index<K, V>,
{
    pub(super) const fn of(map: IndexedMap<K, V, I>, at: usize) -> By<K, V, I, X> {
        By { map, at, index: PhantomData }
    }

    /// Returns the records with an index key, in the order of their keys.
    pub fn get(self, key: impl AsKey<X::Key>) -> IndexRange<K, V, I, X> {
        self.range_of((Bound::Included(encoded(&key)), after(encoded(&key))))
    }

    /// Returns the records with an index key in a range, in the order of index keys, and of their
    /// keys where these are equal. The bounds are as for [`BTreeMap::range`].
    pub fn range(self, bounds: impl KeyRange<X::Key>) -> IndexRange<K, V, I, X> {
        let (low, high) = bounds.bounds(false);
        let low = match low {
            Bound::Excluded(key) => match after(key.clone()) {
                Bound::Excluded(next) => Bound::Included(next),
                // Nothing is above the greatest key.
                _ => return self.range_of((Bound::Excluded(key.clone()), Bound::Excluded(key))),
            },
            low => low,
        };
        let high = match high {
            Bound::Included(key) => after(key),
            high => high,
        };
        self.range_of((low, high))
    }

    /// Returns the records whose index keys begin with a string, or with the first components of a
    /// tuple.
    pub fn prefix(self, prefix: impl AsPrefix<X::Key>) -> IndexRange<K, V, I, X> {
        self.range_of(bounds_of_prefix_within(&prefix))
    }

    /// Returns the record with the least index key.
    ///
    /// # Errors
    /// As [`IndexRange::first`].
    pub fn first<W: Words>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.range(..).first(tx)
    }

    /// Returns the record with the greatest index key.
    ///
    /// # Errors
    /// As [`IndexRange::first`].
    pub fn last<W: Words>(self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        self.range(..).rev().first(tx)
    }

    const fn range_of(self, bounds: Bounds) -> IndexRange<K, V, I, X> {
        IndexRange { by: self, bounds, is_reverse: false }
    }
}

/// Encodes an index key as the first part of an entry.
fn encoded<X: Key + ?Sized>(key: &impl AsKey<X>) -> KeyBuf {
    let mut out = KeyBuf::new();
    key.encode(&mut out, false);
    out
}

fn after(key: KeyBuf) -> Bound<KeyBuf> {
    after_prefix(key.as_bytes())
}

/// The records of a map in a range of an index, made by [`By`].
///
/// Like a [`Range`], it holds keys and stays valid when the map changes. It is also the cursor of a
/// scan in several transactions. If a record gets another index key between two of them, the scan
/// may return it twice or not at all.
///
/// All methods that read return [`Stop::BadValue`] while
/// [`rebuild_step`](IndexedMap::rebuild_step) has entries to add.
///
/// ```
/// # use collections::{Index, IndexedMap};
/// # use words::{Transact, mock::Mock};
/// # struct ByAge;
/// # impl Index<str, u32> for ByAge {
/// #     type Key = u32;
/// #     fn key(_: &String, age: &u32) -> Option<u32> {
/// #         Some(*age)
/// #     }
/// # }
/// # let mut mock = Mock::new(1 << 16);
/// # let ages: IndexedMap<str, u32, (ByAge,)> = mock.transact(|tx| IndexedMap::create(tx))?;
/// mock.transact(|tx| ages.extend(tx, [("ann", 40), ("bob", 17), ("eve", 5)]))?;
/// let mut rest = Some(ages.by(ByAge).range(..18));
/// let mut minors = Vec::new();
/// while let Some(range) = rest {
///     let (page, next) = mock.transact(|tx| range.page(tx, 100))?;
///     minors.extend(page.into_iter().map(|(name, _)| name));
///     rest = next;
/// }
/// assert_eq!(minors, ["eve", "bob"]);
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[must_use = "a range reads nothing by itself"]
pub struct IndexRange<K: ?Sized, V: ?Sized, I, X> {
    by: By<K, V, I, X>,
    bounds: Bounds,
    is_reverse: bool,
}

impl<K: ?Sized, V: ?Sized, I, X> Clone for IndexRange<K, V, I, X> {
    fn clone(&self) -> Self {
        IndexRange { by: self.by, bounds: self.bounds.clone(), is_reverse: self.is_reverse }
    }
}
impl<K: ?Sized, V: ?Sized, I, X> fmt::Debug for IndexRange<K, V, I, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexRange { by, bounds, is_reverse } = self;
        f.debug_tuple("IndexRange").field(by).field(bounds).field(is_reverse).finish()
    }
}

impl<K, V, I, X> IndexRange<K, V, I, X>
where
    K: Key + ?Sized,
    V: Value + ?Sized,
    I: Indexes<K, V>,
    X: Index<K, V>,
{
    /// Turns the direction: from the greatest index key to the least, or back.
    pub fn rev(self) -> IndexRange<K, V, I, X> {
        IndexRange { is_reverse: !self.is_reverse, ..self }
    }

    /// Calls `visit` with each record.
    ///
    /// # Errors
    /// As [`IndexedMap::get`], and as [`IndexRange`] says.
    pub fn for_each<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned, V::Owned),
    ) -> Result<(), Stop> {
        self.try_for_each(tx, |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        })
    }

    /// Calls `visit` with each record until it breaks.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    pub fn try_for_each<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned, V::Owned) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let mut rest = Some(self.clone());
        while let Some(range) = rest {
            let (page, next) = range.page(tx, PAGE)?;
            for (key, value) in page {
                if visit(key, value).is_break() {
                    return Ok(());
                }
            }
            rest = next;
        }
        Ok(())
    }

    /// Calls `visit` with each index key and the key of its record until it breaks. Records are not
    /// read.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    pub fn try_for_each_key<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(<X::Key as Key>::Owned, K::Owned) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        self.entries(tx)?.try_for_each_key(tx, |(index_key, key)| visit(index_key, key))
    }

    /// Returns the first record in this direction.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    pub fn first<W: Words>(&self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        Ok(self.page(tx, 1)?.0.pop())
    }

    /// Returns all records.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    pub fn collect<W: Words>(&self, tx: &mut W) -> Result<Vec<Pair<K, V>>, Stop> {
        let mut all = Vec::new();
        self.for_each(tx, |key, value| all.push((key, value)))?;
        Ok(all)
    }

    /// Returns all index keys and the keys of their records, which are not read.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    pub fn collect_keys<W: Words>(&self, tx: &mut W) -> Result<Vec<EntryPair<K, V, X>>, Stop> {
        let mut all = Vec::new();
        self.entries(tx)?.for_each(tx, |pair, ()| all.push(pair))?;
        Ok(all)
    }

    /// Returns the number of records. It visits all entries, and reads no record.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    pub fn count<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        self.entries(tx)?.count(tx)
    }

    /// Returns up to `most` records, and the rest of the range if there may be more.
    ///
    /// # Errors
    /// As [`for_each`](IndexRange::for_each).
    #[allow(clippy::type_complexity, reason = "a page and the rest")]
    pub fn page<W: Words>(
        &self,
        tx: &mut W,
        most: usize,
    ) -> Result<(Vec<Pair<K, V>>, Option<IndexRange<K, V, I, X>>), Stop> {
        let (keys, rest) = self.encoded_page(tx, most)?;
        let records = self.by.map.records(tx)?.tree();
        let mut page = Vec::with_capacity(keys.len());
        for key in keys {
            // An entry without its record is damage.
            let value = records.get(tx, &key, V::decode)?.ok_or(Stop::BadValue)?;
            page.push((K::from_bytes(&key)?, value));
        }
        Ok((page, rest))
    }

    /// Removes up to `most` records, and their entries in all indexes. Returns whether the range
    /// has no more.
    ///
    /// # Errors
    /// As [`IndexedMap::remove`], and as [`IndexRange`] says.
    pub fn remove_step<W: Allocate>(&self, tx: &mut W, most: usize) -> Result<bool, Stop> {
        let (keys, rest) = self.encoded_page(tx, most)?;
        for key in keys {
            let mut encoded = KeyBuf::new();
            encoded.push(&key);
            // An entry without its record would be found again by the next step.
            Entry::of(self.by.map, tx, encoded)?.remove()?.ok_or(Stop::BadValue)?;
        }
        Ok(rest.is_none())
    }

    /// Returns the encoded keys of up to `most` records, and the rest of the range.
    #[allow(clippy::type_complexity, reason = "a page and the rest")]
    fn encoded_page<W: Words>(
        &self,
        tx: &mut W,
        most: usize,
    ) -> Result<(Vec<Vec<u8>>, Option<IndexRange<K, V, I, X>>), Stop> {
        let mut keys = Vec::new();
        let rest = self.entries(tx)?.read_encoded(tx, most, |entry, _| {
            let mut key = &*entry;
            <X::Key as Key>::decode(&mut key, false)?;
            keys.push(key.to_vec());
            Ok(())
        })?;
        let is_reverse = self.is_reverse;
        let rest =
            rest.map(|rest| IndexRange { by: self.by, bounds: rest.into_bounds(), is_reverse });
        Ok((keys, rest))
    }

    /// Returns the range of the set, once the set is complete.
    fn entries<W: Words>(&self, tx: &mut W) -> Result<Range<IndexEntry<X::Key, K>, ()>, Stop> {
        let By { map, at, .. } = self.by;
        if map.is_rebuilding(tx)? {
            return Err(Stop::BadValue);
        }
        let set: Set<K, V, X> = BTreeMap::at(tx.read(map.at(INDEX + 8 * at as u64))?);
        let range = Range::of(set, self.bounds.clone());
        Ok(if self.is_reverse { range.rev() } else { range })
    }
}
