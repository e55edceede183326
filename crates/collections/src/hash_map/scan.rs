//! Iteration in the order of the keys' hashes.
//!
//! A cursor is a hash: the scan has returned all pairs below it. It stays valid whatever other
//! transactions do, because neither a split nor a merge changes the hash of a key. Pairs of one
//! hash are given together.

use std::borrow::Cow;
use std::vec::IntoIter;

use words::{Addr, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::bucket::{ENTRY_BYTES, Form, Pair};
use super::trie::Trie;
use crate::entry::Entry;
use crate::key::Key;
use crate::value::Value;

/// A position in a map between two pairs, in the order of the hashes of their keys.
///
/// It stays valid across transactions and restarts: it can be stored in the pool. Splits and merges
/// do not matter to it. A scan that continues at a cursor gives every pair that was in the map all
/// the time exactly once. Pairs inserted meanwhile are given, or not.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
#[repr(transparent)]
pub struct Cursor {
    pub(super) hash: u64,
}

impl Cursor {
    /// The position before the first pair.
    pub const START: Cursor = Cursor { hash: 0 };
}

/// A pair, and its key's hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) hash: u64,
    pub(super) pair: Pair,
}

/// The pairs of one bucket.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of their hashes.
    pub(super) items: IntoIter<Item>,
    /// The least hash of the next bucket.
    pub(super) next: Option<u64>,
}

impl Trie {
    /// Returns the pairs from a hash on in the bucket for it.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] for damage.
    pub(super) fn batch<W: Words>(self, tx: &mut W, from: u64) -> Result<Batch, Stop> {
        let (seed, root) = self.open(tx)?;
        let Some(spot) = self.visit(tx, self.root(), root, from)? else {
            return Ok(Batch::default());
        };
        let (least, greatest) = spot.range(from);
        let (mut items, mut bucket) = (Vec::with_capacity(spot.bucket.head.count), spot.bucket);
        loop {
            for pair in bucket.pairs(tx, self.form, 0)? {
                let hash = self.form.hash_of(seed, &pair);
                // Two ranges never lead to one bucket with pairs: a scan ends.
                if !(least..=greatest).contains(&hash) {
                    return Err(Stop::BadValue);
                }
                if hash >= from {
                    items.push(Item { hash, pair });
                }
            }
            match bucket.next(tx, self.form)? {
                Some(next) => bucket = next,
                None => break,
            }
        }
        items.sort_by_key(|item| item.hash);
        if self.form.inline.is_none() {
            for item in &items {
                tx.will_read(Addr::new(item.pair.entry(), 0), ENTRY_BYTES);
            }
        }
        Ok(Batch { items: items.into_iter(), next: greatest.checked_add(1) })
    }
}

/// Decodes a pair.
///
/// # Errors
/// As [`Words::read`], and [`Stop::BadValue`] for bytes that are no key or value.
pub(super) fn decode<W: Words, K: Key + ?Sized, V: Value + ?Sized>(
    tx: &mut W,
    form: Form,
    pair: &Pair,
) -> Result<(K::Owned, V::Owned), Stop> {
    with_pair(tx, form, pair, |key, value| Ok((K::from_bytes(&key)?, V::decode(value)?)))
}

/// Calls `with` on the bytes of a key and its value.
///
/// # Errors
/// As [`Words::read`], [`Stop::BadValue`] when there is no entry, and those of `with`.
#[inline]
pub(super) fn with_pair<W: Words, R>(
    tx: &mut W,
    form: Form,
    pair: &Pair,
    with: impl FnOnce(Cow<'_, [u8]>, Cow<'_, [u8]>) -> Result<R, Stop>,
) -> Result<R, Stop> {
    match form.inline {
        Some(lengths) => {
            let (key, value) = pair.inline(lengths);
            with(key.into(), value.into())
        }
        None => Entry::open(tx, pair.entry())?.pair(tx, with),
    }
}

/// The pairs of a map, in no order that a program can predict.
///
/// It borrows the transaction, which therefore writes nothing meanwhile. It ends after the first
/// [`Stop`].
/// [`HashMap::scan`](super::HashMap::scan) and cursors divide an iteration among transactions.
#[derive(Debug)]
pub struct Iter<'t, W, K: ?Sized, V: ?Sized> {
    tx: &'t mut W,
    trie: Trie,
    batch: Batch,
    kind: super::Kind<K, V>,
}

impl<'t, W: Words, K: Key + ?Sized, V: Value + ?Sized> Iter<'t, W, K, V> {
    pub(super) fn new(tx: &'t mut W, trie: Trie) -> Iter<'t, W, K, V> {
        let batch = Batch { next: Some(0), ..Batch::default() };
        Iter { tx, trie, batch, kind: super::Kind::default() }
    }
}

impl<W: Words, K: Key + ?Sized, V: Value + ?Sized> Iterator for Iter<'_, W, K, V> {
    type Item = Result<(K::Owned, V::Owned), Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.batch.items.next() {
                let pair = decode::<W, K, V>(self.tx, self.trie.form, &item.pair);
                if pair.is_err() {
                    self.batch = Batch::default();
                }
                return Some(pair);
            }
            let from = self.batch.next.take()?;
            match self.trie.batch(self.tx, from) {
                Ok(batch) => self.batch = batch,
                Err(stop) => return Some(Err(stop)),
            }
        }
    }
}
