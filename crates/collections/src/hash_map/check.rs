//! The validator of a map: it finds broken invariants, and never loops or panics on damage.

use std::collections::HashSet;
use std::fmt;

use words::{Addr, Stop, Words};

use super::bucket::{Bucket, Pair};
use super::hash::hash;
use super::scan::{Cursor, with_pair};
use super::trie::{SLOTS, Spot, Trie};
use crate::entry::Entry;
use crate::key::KeyBuf;

/// Number of findings in one result at most; more would prove no more.
const DAMAGE_MAX: usize = 100;

/// The result of a check of a map or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Pairs seen.
    pub entries: u64,
    /// Pairs that [`clear_step`](super::HashMap::clear_step) removed and has yet to free.
    pub pending: u64,
    /// Start of the next part. `None` after the last part. A check also stops, at this cursor, when
    /// it has 100 findings.
    pub next: Option<Cursor>,
    /// Violated invariants; empty in a sound map, at most 100 findings.
    pub damage: Vec<Damage>,
}

/// A violated invariant of a map. Nodes in wrong places and wild pointers are a [`Stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// A pair that no lookup finds, because its hash belongs to another bucket.
    Stray {
        /// The bucket's object.
        bucket: u64,
        /// The least hash of the bucket.
        low: u64,
        /// The greatest hash of the bucket.
        high: u64,
        /// The hash of the pair.
        found: u64,
    },
    /// A pair whose stored hash is not that of its key.
    Hash {
        /// The bucket's object.
        bucket: u64,
        /// The hash of the key.
        expected: u64,
        /// The hash in the bucket.
        found: u64,
    },
    /// A key that is in a bucket twice.
    Duplicate {
        /// The bucket's object.
        bucket: u64,
        /// The key's hash.
        hash: u64,
    },
    /// A pair in a chain whose pairs have another hash.
    Chain {
        /// The object of the chain's first bucket.
        bucket: u64,
        /// The hash of the first pair.
        expected: u64,
        /// The hash of the pair.
        found: u64,
    },
    /// A pair whose entry, key or value has bytes that its type does not allow.
    Pair {
        /// The bucket's object.
        bucket: u64,
        /// The key's hash, as stored.
        hash: u64,
    },
    /// A slot that must have the pointer to a bucket, because the bucket's depth says so.
    Slot {
        /// The directory's object.
        directory: u64,
        /// The slot, from 0.
        slot: u64,
        /// The bucket's object.
        expected: u64,
        /// The pointer in the slot.
        found: u64,
    },
    /// A number of pairs that differs from the stored length.
    Length {
        /// Number of pairs seen.
        expected: u64,
        /// The stored length.
        found: i64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Damage::Stray { bucket, low, high, found } => {
                write!(
                    f,
                    "bucket {bucket:#x}: expected hashes {low:#x} to {high:#x}, found {found:#x}"
                )
            }
            Damage::Hash { bucket, expected, found } => {
                write!(
                    f,
                    "bucket {bucket:#x}: expected a key's hash {expected:#x}, found {found:#x}"
                )
            }
            Damage::Duplicate { bucket, hash } => {
                write!(
                    f,
                    "bucket {bucket:#x}: expected every key once, found two of hash {hash:#x}"
                )
            }
            Damage::Chain { bucket, expected, found } => {
                write!(
                    f,
                    "chain at {bucket:#x}: expected only hash {expected:#x}, found {found:#x}"
                )
            }
            Damage::Pair { bucket, hash } => {
                write!(
                    f,
                    "bucket {bucket:#x}: expected a pair of the map's types for hash {hash:#x}"
                )
            }
            Damage::Slot { directory, slot, expected, found } => write!(
                f,
                "directory {directory:#x}: expected bucket {expected:#x} in slot {slot}, \
                 found {found:#x}"
            ),
            Damage::Length { expected, found } => {
                write!(f, "length: expected {expected}, found {found}")
            }
        }
    }
}

impl Checked {
    fn found(&mut self, damage: Damage) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }

    fn is_full(&self) -> bool {
        self.damage.len() >= DAMAGE_MAX
    }
}

impl Trie {
    /// Checks buckets from a cursor on until they have `most` pairs. `is_pair` returns whether
    /// bytes are a key and a value of the map's types.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when a node is in the wrong place.
    pub(super) fn check<W: Words>(
        self,
        tx: &mut W,
        from: Cursor,
        most: u64,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        self.check_trie(tx, self.root(), from, most, is_pair)
    }

    /// Checks the live or the detached trie, whose root is in a word of the header.
    fn check_trie<W: Words>(
        self,
        tx: &mut W,
        start: Addr,
        from: Cursor,
        most: u64,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        let mut checked = Checked::default();
        let (seed, _) = self.open(tx)?;
        let root = tx.read(start)?;
        let (mut next, mut empty) = (Some(from.hash), 0);
        while let Some(at) = next {
            let Some(spot) = self.visit(tx, start, root, at)? else {
                break;
            };
            check_slots(tx, &spot, &mut checked)?;
            self.check_bucket(tx, seed, (&spot, spot.range(at)), is_pair, &mut checked)?;
            next = spot.range(at).1.checked_add(1);
            empty += u64::from(spot.bucket.head.count == 0);
            if checked.entries + empty >= most || checked.is_full() {
                checked.next = next.map(|hash| Cursor { hash });
                break;
            }
        }
        Ok(checked)
    }

    /// Checks a whole map, and its length.
    ///
    /// # Errors
    /// As [`check`](Trie::check).
    pub(super) fn check_all<W: Words>(
        self,
        tx: &mut W,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        let mut checked = self.check(tx, Cursor::START, u64::MAX, is_pair)?;
        if checked.is_full() {
            return Ok(checked);
        }
        let cleared = self.check_trie(tx, self.cleared(), Cursor::START, u64::MAX, is_pair)?;
        checked.pending = cleared.entries;
        cleared.damage.into_iter().for_each(|damage| checked.found(damage));
        let (expected, found) = (checked.entries, self.length().check(tx)?);
        if i64::try_from(expected) != Ok(found) {
            checked.found(Damage::Length { expected, found });
        }
        Ok(checked)
    }

    /// Returns the encoded key of a pair.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub(super) fn key<W: Words>(self, tx: &mut W, pair: &Pair) -> Result<KeyBuf, Stop> {
        let mut key = KeyBuf::new();
        match self.form.inline {
            Some(lengths) => key.push(pair.inline(lengths).0),
            None => Entry::open(tx, pair.entry())?.key(tx, |bytes| {
                key.push(&bytes);
                Ok(())
            })?,
        }
        Ok(key)
    }

    fn check_bucket<W: Words>(
        self,
        tx: &mut W,
        seed: u64,
        (spot, (low, high)): (&Spot, (u64, u64)),
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
        checked: &mut Checked,
    ) -> Result<(), Stop> {
        let Bucket { object: bucket, head, .. } = spot.bucket;
        let (mut keys, mut chain, mut next) = (HashSet::new(), None, Some(spot.bucket));
        while let Some(part) = next.filter(|_| !checked.is_full()) {
            for pair in part.pairs(tx, self.form, 0)? {
                checked.entries += 1;
                let found = self.form.hash_of(seed, &pair);
                let first = *chain.get_or_insert(found);
                if head.chain > 0 && found != first {
                    checked.found(Damage::Chain { bucket, expected: first, found });
                }
                if !(low..=high).contains(&found) {
                    checked.found(Damage::Stray { bucket, low, high, found });
                }
                let sound =
                    with_pair(tx, self.form, &pair, |key, value| match is_pair(&key, &value) {
                        true => Ok(KeyBuf::of::<[u8]>(&*key)),
                        false => Err(Stop::BadValue),
                    });
                match sound {
                    Ok(key) => {
                        let expected = hash(seed, key.words(), key.as_bytes().len());
                        if found != expected {
                            checked.found(Damage::Hash { bucket, expected, found });
                        }
                        if !keys.insert(key.as_bytes().to_vec()) {
                            checked.found(Damage::Duplicate { bucket, hash: found });
                        }
                    }
                    Err(Stop::BadValue) => checked.found(Damage::Pair { bucket, hash: found }),
                    Err(stop) => return Err(stop),
                }
            }
            next = part.next(tx, self.form)?;
        }
        Ok(())
    }
}

/// Checks that all slots of a bucket have its pointer.
fn check_slots<W: Words>(tx: &mut W, spot: &Spot, checked: &mut Checked) -> Result<(), Stop> {
    let Some(directory) = spot.directory else {
        return Ok(());
    };
    let ((first, slots), mut pointers) = (spot.group(directory), [0; SLOTS]);
    tx.read_words(directory.at(first), &mut pointers[..slots])?;
    let (directory, expected) = (directory.object, spot.bucket.object);
    for (slot, &found) in (first as u64..).zip(&pointers[..slots]) {
        if found != expected {
            checked.found(Damage::Slot { directory, slot, expected, found });
        }
    }
    Ok(())
}
