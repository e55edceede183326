//! Ranges of keys, and positions in them that outlast a transaction.

use std::borrow::Cow;
use std::ops::{
    Bound, ControlFlow, Range as StdRange, RangeBounds, RangeFrom, RangeFull, RangeInclusive,
    RangeTo, RangeToInclusive,
};

use words::{Allocate, Stop, Words};

use super::BTreeMap;
use crate::btree::Scan;
use crate::key::{AsKey, Key, KeyBuf};
use crate::value::Value;

/// Entries that an iterator reads at once.
const PAGE: usize = 64;

/// The encoded bounds of a range.
pub(crate) type Bounds = (Bound<KeyBuf>, Bound<KeyBuf>);

/// A key and its value, as maps return them.
pub type Pair<K, V> = (<K as Key>::Owned, <V as Value>::Owned);

/// The keys between two bounds: all ranges of std, with any [`AsKey`] as their ends.
///
/// A trait of its own, as [`RangeBounds`] would leave the type of the keys of `..` open.
pub trait KeyRange<K: Key + ?Sized> {
    /// Returns the encoded bounds. `is_last` says that no component follows them in a key.
    fn bounds(&self, is_last: bool) -> (Bound<KeyBuf>, Bound<KeyBuf>);
}

impl<K: Key + ?Sized> KeyRange<K> for RangeFull {
    fn bounds(&self, _: bool) -> Bounds {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// Implements [`KeyRange`] for ranges of std.
macro_rules! ranges {
    ($($range:ty)*) => {$(
        impl<K: Key + ?Sized, Q: AsKey<K>> KeyRange<K> for $range {
            fn bounds(&self, is_last: bool) -> Bounds {
                let encoded = |key: &Q| {
                    let mut out = KeyBuf::new();
                    key.encode(&mut out, is_last);
                    out
                };
                (self.start_bound().map(encoded), self.end_bound().map(encoded))
            }
        }
    )*};
}

ranges! {
    StdRange<Q> RangeInclusive<Q> RangeFrom<Q> RangeTo<Q> RangeToInclusive<Q> (Bound<Q>, Bound<Q>)
}

/// A start of keys of type `K`: a string for keys that are strings, and a tuple of the first
/// components for keys that are tuples.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prefix of keys of type `{K}`",
    note = "give a string for strings, and a tuple of the first components for tuples, as `(7,)`"
)]
pub trait AsPrefix<K: Key + ?Sized> {
    /// Appends the bytes with which the encoded keys begin.
    fn encode_prefix(&self, out: &mut KeyBuf);

    /// Appends the bytes with which the encoded keys begin where another component follows them.
    /// Strings are encoded in another way there.
    fn encode_prefix_within(&self, out: &mut KeyBuf) {
        self.encode_prefix(out);
    }
}

/// Implements [`AsPrefix`] for strings.
macro_rules! strings {
    ($($key:ty)*) => {$(
        impl<Q: AsKey<$key>> AsPrefix<$key> for Q {
            fn encode_prefix(&self, out: &mut KeyBuf) {
                self.encode(out, true);
            }

            fn encode_prefix_within(&self, out: &mut KeyBuf) {
                let mut whole = KeyBuf::new();
                self.encode(&mut whole, false);
                // Without the byte that ends the string.
                if let Some((_, prefix)) = whole.as_bytes().split_last() {
                    out.push(prefix);
                }
            }
        }
    )*};
}

strings!(str String [u8] Vec<u8>);

/// Implements [`AsPrefix`] for the first components of a tuple.
macro_rules! tuple {
    ($($key:ident $query:ident $at:tt),*; $($rest:ident)*) => {
        impl<$($key: Key, $query: AsKey<$key>,)* $($rest: Key),*> AsPrefix<($($key,)* $($rest),*)>
            for ($($query,)*)
        {
            fn encode_prefix(&self, out: &mut KeyBuf) {
                $(self.$at.encode(out, false);)*
            }
        }
    };
}

tuple!(A QueryA 0; B);
tuple!(A QueryA 0; B C);
tuple!(A QueryA 0, B QueryB 1; C);
tuple!(A QueryA 0; B C D);
tuple!(A QueryA 0, B QueryB 1; C D);
tuple!(A QueryA 0, B QueryB 1, C QueryC 2; D);

/// Returns the bounds of the keys that begin with a prefix.
pub(crate) fn bounds_of_prefix<K: Key + ?Sized>(prefix: &impl AsPrefix<K>) -> Bounds {
    let mut low = KeyBuf::new();
    prefix.encode_prefix(&mut low);
    let high = after_prefix(low.as_bytes());
    (Bound::Included(low), high)
}

/// Returns the same bounds where another component follows the keys.
pub(crate) fn bounds_of_prefix_within<K: Key + ?Sized>(prefix: &impl AsPrefix<K>) -> Bounds {
    let mut low = KeyBuf::new();
    prefix.encode_prefix_within(&mut low);
    let high = after_prefix(low.as_bytes());
    (Bound::Included(low), high)
}

/// Returns the upper bound of the byte strings that begin with `prefix`.
pub(crate) fn after_prefix(prefix: &[u8]) -> Bound<KeyBuf> {
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        None => Bound::Unbounded,
        Some(last) => {
            let mut high = KeyBuf::new();
            high.push(&prefix[..last]);
            high.push(&[prefix[last] + 1]);
            Bound::Excluded(high)
        }
    }
}

/// The entries of a map in a range of keys, made by [`BTreeMap::range`] and [`BTreeMap::prefix`].
///
/// It holds keys and no nodes, so it stays valid whatever changes in the map, and it is the cursor
/// of a scan that takes several transactions. The methods change nothing of it: a body that runs
/// again starts again at the same position.
///
/// ```
/// # use collections::BTreeMap;
/// # use words::{Transact, mock::Mock};
/// # let mut mock = Mock::new(1 << 16);
/// # let map: BTreeMap<u64, u64> = mock.transact(|tx| BTreeMap::create(tx))?;
/// mock.transact(|tx| map.extend(tx, (0..100).map(|n| (n, n * n))))?;
/// let mut sum = 0;
/// let mut rest = Some(map.range(50..).rev());
/// while let Some(range) = rest {
///     let (page, next) = mock.transact(|tx| range.page(tx, 20))?;
///     sum += page.into_iter().map(|(_, square)| square).sum::<u64>();
///     rest = next;
/// }
/// assert_eq!(sum, (50..100).map(|n| n * n).sum());
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[must_use = "a range reads nothing by itself"]
#[derive(Debug)]
pub struct Range<K: ?Sized, V: ?Sized> {
    map: BTreeMap<K, V>,
    low: Bound<KeyBuf>,
    high: Bound<KeyBuf>,
    is_reverse: bool,
}

impl<K: ?Sized, V: ?Sized> Clone for Range<K, V> {
    fn clone(&self) -> Self {
        let (low, high) = (self.low.clone(), self.high.clone());
        Range { map: self.map, low, high, is_reverse: self.is_reverse }
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> Range<K, V> {
    pub(crate) fn of(map: BTreeMap<K, V>, (low, high): Bounds) -> Range<K, V> {
        Range { map, low, high, is_reverse: false }
    }

    pub(crate) fn into_bounds(self) -> Bounds {
        (self.low, self.high)
    }

    /// Turns the direction: from the greatest key to the least, or back.
    pub fn rev(self) -> Range<K, V> {
        Range { is_reverse: !self.is_reverse, ..self }
    }

    /// Returns an iterator over the entries, which reads them in pages. It gives all entries before
    /// a [`Stop`], then the [`Stop`], and ends.
    ///
    /// ```
    /// # use collections::BTreeMap;
    /// # use words::{Transact, mock::Mock};
    /// # let mut mock = Mock::new(1 << 16);
    /// # let map: BTreeMap<u64, u64> = mock.transact(|tx| BTreeMap::create(tx))?;
    /// # mock.transact(|tx| map.extend(tx, (0..100).map(|n| (n, n * n))))?;
    /// let first = mock.transact(|tx| {
    ///     let mut pairs = map.range(50..).iter(tx);
    ///     pairs.find(|pair| !matches!(pair, Ok((_, n)) if n % 7 > 0)).transpose()
    /// })?;
    /// assert_eq!(first, Some((56, 3136)));
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, K, V> {
        Iter { tx, page: Vec::new().into_iter(), rest: Ok(Some(self)) }
    }

    /// Calls `visit` with each key and value.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
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

    /// Calls `visit` with each key and value until it breaks.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    pub fn try_for_each<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned, V::Owned) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        self.scan(tx, true, |key, value| Ok(visit(K::from_bytes(&key)?, V::decode(value)?)))
    }

    /// Calls `visit` with each key until it breaks. Values are not read.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    pub fn try_for_each_key<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(K::Owned) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        self.scan(tx, false, |key, _| Ok(visit(K::from_bytes(&key)?)))
    }

    /// Calls `visit` with the bytes of each key and value until it breaks, without a copy of pairs
    /// of up to 1 KiB.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    pub fn try_for_each_encoded<W: Words>(
        &self,
        tx: &mut W,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        self.scan(tx, true, |key, value| Ok(visit(&key, &value)))
    }

    /// Returns the first entry in this direction.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    pub fn first<W: Words>(&self, tx: &mut W) -> Result<Option<Pair<K, V>>, Stop> {
        let mut first = None;
        self.try_for_each(tx, |key, value| {
            first = Some((key, value));
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// Returns all entries.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    pub fn collect<W: Words>(&self, tx: &mut W) -> Result<Vec<Pair<K, V>>, Stop> {
        let mut all = Vec::new();
        self.for_each(tx, |key, value| all.push((key, value)))?;
        Ok(all)
    }

    /// Returns the number of entries, all of which it visits.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    pub fn count<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        let mut count = 0;
        self.scan(tx, false, |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// Returns up to `most` entries, and the rest of the range if there may be more.
    ///
    /// # Errors
    /// As [`BTreeMap::get`].
    #[allow(clippy::type_complexity, reason = "a page and the rest")]
    pub fn page<W: Words>(
        &self,
        tx: &mut W,
        most: usize,
    ) -> Result<(Vec<Pair<K, V>>, Option<Range<K, V>>), Stop> {
        let mut page = Vec::new();
        let rest = self.read_encoded(tx, most, |key, value| {
            page.push((K::from_bytes(&key)?, V::decode(value)?));
            Ok(())
        })?;
        Ok((page, rest))
    }

    /// Removes up to `most` entries. Returns whether the range has no more.
    ///
    /// # Errors
    /// As [`BTreeMap::remove`].
    pub fn remove_step<W: Allocate>(&self, tx: &mut W, most: usize) -> Result<bool, Stop> {
        let mut keys = Vec::new();
        let most = most.max(1);
        self.scan(tx, false, |key, _| {
            keys.push(key.into_owned());
            let is_full = keys.len() == most;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        for key in &keys {
            self.map.delete_encoded(tx, key)?;
        }
        Ok(keys.len() < most)
    }

    /// Calls `keep` with up to `most` entries, and removes those for which it returns false.
    /// Returns the rest of the range.
    ///
    /// # Errors
    /// As [`BTreeMap::remove`].
    pub fn retain_step<W: Allocate>(
        &self,
        tx: &mut W,
        most: usize,
        mut keep: impl FnMut(K::Owned, V::Owned) -> bool,
    ) -> Result<Option<Range<K, V>>, Stop> {
        let mut removed = Vec::new();
        let rest = self.read_encoded(tx, most, |key, value| {
            if !keep(K::from_bytes(&key)?, V::decode(value)?) {
                removed.push(key.into_owned());
            }
            Ok(())
        })?;
        for key in removed {
            self.map.delete_encoded(tx, &key)?;
        }
        Ok(rest)
    }

    /// Calls `visit` with up to `most` encoded entries, and returns the rest of the range.
    pub(crate) fn read_encoded<W: Words>(
        &self,
        tx: &mut W,
        most: usize,
        mut visit: impl FnMut(Cow<'_, [u8]>, Cow<'_, [u8]>) -> Result<(), Stop>,
    ) -> Result<Option<Range<K, V>>, Stop> {
        let mut left = most.max(1);
        let mut last = None;
        self.scan(tx, true, |key, value| {
            left -= 1;
            if left == 0 {
                let mut at = KeyBuf::new();
                at.push(&key);
                last = Some(at);
            }
            visit(key, value)?;
            Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        last.map(|last| self.after(last)).transpose()
    }

    /// Returns the range after a key, which must lie in this one: in a damaged map the scan could
    /// else begin for ever at the same key.
    fn after(&self, last: KeyBuf) -> Result<Range<K, V>, Stop> {
        let is_inside = (self.low.as_ref(), self.high.as_ref()).contains(&last);
        if !is_inside {
            return Err(Stop::BadValue);
        }
        let mut rest = self.clone();
        let end = if self.is_reverse { &mut rest.high } else { &mut rest.low };
        *end = Bound::Excluded(last);
        Ok(rest)
    }

    pub(crate) fn scan<W: Words>(
        &self,
        tx: &mut W,
        reads_values: bool,
        each: impl FnMut(Cow<'_, [u8]>, Cow<'_, [u8]>) -> Result<ControlFlow<()>, Stop>,
    ) -> Result<(), Stop> {
        let bounds =
            (self.low.as_ref().map(KeyBuf::as_bytes), self.high.as_ref().map(KeyBuf::as_bytes));
        let scan = Scan { bounds, is_reverse: self.is_reverse, reads_values };
        self.map.tree().scan(tx, scan, each)
    }
}

/// An iterator over entries, made by [`BTreeMap::iter`] and [`Range::iter`].
pub struct Iter<'t, W, K: Key + ?Sized, V: Value + ?Sized> {
    tx: &'t mut W,
    page: std::vec::IntoIter<Pair<K, V>>,
    /// The end of the page: the rest of the range, or the error that ended the reading.
    rest: Result<Option<Range<K, V>>, Stop>,
}

impl<W: Words, K: Key + ?Sized, V: Value + ?Sized> Iterator for Iter<'_, W, K, V> {
    type Item = Result<Pair<K, V>, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.page.next() {
                return Some(Ok(pair));
            }
            let range = match std::mem::replace(&mut self.rest, Ok(None)) {
                Ok(range) => range?,
                Err(stop) => return Some(Err(stop)),
            };
            // As `Range::page`, which would lose the pairs before an error.
            let mut page = Vec::new();
            self.rest = range.read_encoded(self.tx, PAGE, |key, value| {
                page.push((K::from_bytes(&key)?, V::decode(value)?));
                Ok(())
            });
            self.page = page.into_iter();
        }
    }
}
