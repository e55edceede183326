//! The trie of directories that leads from a hash to its bucket.
//!
//! Searches are here, [`grow`](super::grow) inserts and [`shrink`](super::shrink) removes. All of
//! it works on encoded keys and values, and `HashMap` encodes and decodes them.

use std::borrow::Cow;

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Stop, Words, work};

use super::bucket::{BITS, Bucket, CAPACITY, Form, Found, Head, write_payload};
use super::hash::hash;
use crate::key::KeyBuf;
use crate::length::Length;

/// The upper half of a directory's head: "dirs".
const MARK: u64 = 0x6469_7273;

/// Slots of the largest directory.
pub(super) const SLOTS: usize = 1 << BITS;

/// Most directories above a bucket: together they consume a hash.
pub(super) const LEVELS_MAX: u32 = u64::BITS.div_ceil(BITS);

/// Offsets in the header.
const SEED: u64 = 0;
const ROOT: u64 = 8;
const CLEARED: u64 = 16;
const LENGTH: u64 = 24;

/// Words of the header.
const HEADER_WORDS: usize = 3 + Length::WORDS;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 8 * HEADER_WORDS;

/// Offset of a directory's greatest hash.
const LAST: u64 = 8;

/// Words in front of a directory's slots.
pub(super) const DIRECTORY_WORDS: usize = 2;

/// The head of a bucket in a directory.
const FULL: Head = Head::empty(CAPACITY, 1);

/// A map of encoded keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trie {
    header: u64,
    pub(super) form: Form,
}

/// A directory: two words as its head, and a slot for each value of the next `bits` hash bits.
///
/// ```text
///    63      32        23   16 15   8 7     0
///   |   MARK   |      | freed | bits | level |    then the greatest hash
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) object: u64,
    /// Number of directories above it.
    pub(super) level: u32,
    /// 1 to 6.
    pub(super) bits: u32,
    /// Slots at the end whose buckets are freed. Only a detached directory has them.
    pub(super) freed: usize,
}

/// The place of a bucket in the trie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) bucket: Bucket,
    /// The directory that holds the bucket, unless the bucket is the root.
    pub(super) directory: Option<Directory>,
    /// A slot that holds the bucket.
    pub(super) slot: usize,
    /// The word with the pointer to the directory; without one, to the bucket.
    pub(super) above: Addr,
}

/// The result of a search for a key.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) seed: u64,
    pub(super) hash: u64,
    /// The place of the key's bucket; `None` when the map has no bucket.
    pub(super) spot: Option<Spot>,
    pub(super) found: Option<Found>,
}

impl Trie {
    /// Returns the map with this header.
    #[inline]
    pub(super) const fn new(header: u64, form: Form) -> Trie {
        Trie { header, form }
    }

    /// Allocates the header of an empty map.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub(super) fn create<W: Allocate>(tx: &mut W, seed: u64) -> Result<u64, Stop> {
        let header = tx.allocate(HEADER_BYTES)?;
        let [count, slots] = Length::ZERO;
        let words: [u64; HEADER_WORDS] = [seed, 0, 0, count, slots];
        tx.write_words(Addr::new(header, 0), &words)?;
        Ok(header)
    }

    /// Returns the number of pairs.
    pub(super) const fn length(self) -> Length {
        Length::at(Addr::new(self.header, LENGTH))
    }

    /// Returns the word with the pointer to the root: a bucket or directory, or 0.
    pub(super) const fn root(self) -> Addr {
        Addr::new(self.header, ROOT)
    }

    /// Returns the word with the pointer to the detached trie, which has yet to be freed, or 0.
    pub(super) const fn cleared(self) -> Addr {
        Addr::new(self.header, CLEARED)
    }

    /// Returns the object of the header.
    pub(super) const fn header(self) -> u64 {
        self.header
    }

    /// Reads the seed and the root.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub(super) fn open<W: Words>(self, tx: &mut W) -> Result<(u64, u64), Stop> {
        let mut words = [0; 2];
        tx.read_words(Addr::new(self.header, SEED), &mut words)?;
        Ok((words[0], words[1]))
    }

    /// Returns whether there are no pairs. A directory is never empty.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the root is no node.
    pub(super) fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        let root = tx.read(self.root())?;
        if root == 0 {
            return Ok(true);
        }
        tx.after_last_read();
        let word = tx.read(Addr::new(root, 0))?;
        if is_directory(word) {
            return Ok(false);
        }
        let head = Head::from_word(word).ok_or(Stop::BadValue)?;
        Ok(head.count == 0)
    }

    /// Returns the place of the bucket for a hash; `None` when there is no bucket.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when a node is in the wrong place.
    #[inline]
    pub(super) fn descend<W: Words>(
        self,
        tx: &mut W,
        root: u64,
        hash: u64,
    ) -> Result<Option<Spot>, Stop> {
        self.descend_from::<W, false>(tx, self.root(), root, hash)
    }

    /// Returns the place of the bucket for a hash, as a scan needs it: every directory on the way
    /// has the range of hashes that leads there. So a scan of a damaged trie visits no directory
    /// twice.
    ///
    /// The trie is that of `root`, the word at `start`. In a detached one, `None` is also the place
    /// of a bucket that is freed, behind which all are freed.
    ///
    /// # Errors
    /// As [`descend`](Trie::descend).
    pub(super) fn visit<W: Words>(
        self,
        tx: &mut W,
        start: Addr,
        root: u64,
        hash: u64,
    ) -> Result<Option<Spot>, Stop> {
        self.descend_from::<W, true>(tx, start, root, hash)
    }

    #[inline]
    fn descend_from<W: Words, const VERIFY: bool>(
        self,
        tx: &mut W,
        start: Addr,
        root: u64,
        hash: u64,
    ) -> Result<Option<Spot>, Stop> {
        let (mut link, mut above) = (start, start);
        let (mut directory, mut slot, mut object) = (None, 0, root);
        if object == 0 {
            return Ok(None);
        }
        for level in 0..=LEVELS_MAX {
            tx.after_last_read();
            tx.compute(work::VISIT);
            // As of a bucket, whose columns are in several cache lines.
            tx.will_read(Addr::new(object, 0), self.form.bytes(FULL));
            let seen = tx.look(object)?;
            let word = tx.read_seen(seen, 0)?;
            let Some(next) = Directory::from_word(object, level, word) else {
                let head = Head::from_word(word).ok_or(Stop::BadValue)?;
                let spot = Spot { bucket: Bucket::new(seen, head), directory, slot, above };
                return if spot.is_sound() { Ok(Some(spot)) } else { Err(Stop::BadValue) };
            };
            if VERIFY && tx.read_seen(seen, LAST)? != next.last(hash) {
                return Err(Stop::BadValue);
            }
            (directory, slot, above) = (Some(next), next.slot_of(hash), link);
            if next.freed > 0 {
                if start != self.cleared() {
                    return Err(Stop::BadValue);
                }
                if slot >= next.slots() - next.freed {
                    return Ok(None);
                }
            }
            link = next.at(slot);
            object = tx.read_seen(seen, link.offset)?;
        }
        Err(Stop::BadValue)
    }

    /// Searches for a key.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] for damage.
    #[inline]
    pub(super) fn search<W: Words>(self, tx: &mut W, key: &KeyBuf) -> Result<Search, Stop> {
        let (seed, root) = self.open(tx)?;
        tx.compute(work::HASH);
        let hash = hash(seed, key.words(), key.as_bytes().len());
        let spot = self.descend(tx, root, hash)?;
        let mut search = Search { seed, hash, spot, found: None };
        let mut next = spot.map(|spot| spot.bucket);
        while let Some(bucket) = next {
            search.found = bucket.find(tx, self.form, hash, key)?;
            if search.found.is_some() {
                break;
            }
            next = bucket.next(tx, self.form)?;
        }
        Ok(search)
    }

    /// Calls `with` on the value of a key, most often after one read of it.
    ///
    /// # Errors
    /// As [`search`](Trie::search), and those of `with`.
    #[inline]
    pub(super) fn get<W: Words, R>(
        self,
        tx: &mut W,
        key: &KeyBuf,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        let (seed, root) = self.open(tx)?;
        tx.compute(work::HASH);
        let hash = hash(seed, key.words(), key.as_bytes().len());
        let mut next = self.descend(tx, root, hash)?.map(|spot| spot.bucket);
        let mut with = Some(with);
        let mut with = |value: Cow<'_, [u8]>| {
            let with = with.take().expect("the search ends with the first result");
            with(value)
        };
        while let Some(bucket) = next {
            let mut from = 0;
            while let Some(index) = bucket.candidate(tx, self.form, hash, key, from)? {
                if self.form.inline.is_some() {
                    let value = |value: &[u8]| with(Cow::Borrowed(value));
                    return bucket.value(tx, self.form, index, value).map(Some);
                }
                let entry = bucket.entry(tx, self.form, index)?;
                let result = entry.find(tx, key.as_bytes(), &mut with)?;
                if result.is_some() {
                    return Ok(result);
                }
                from = index + 1;
            }
            next = bucket.next(tx, self.form)?;
        }
        Ok(None)
    }

    /// Calls `with` on the value of a pair that was found.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    pub(super) fn value<W: Words, R>(
        self,
        tx: &mut W,
        found: &Found,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        match &found.entry {
            Some(entry) => entry.value(tx, with),
            None => {
                let with = |value: &[u8]| with(Cow::Borrowed(value));
                found.bucket.value(tx, self.form, found.index, with)
            }
        }
    }

    /// Replaces the value of a pair that was found.
    ///
    /// An inline value is in the bucket, which every split, merge and removal of its pairs writes.
    /// An entry is written itself, or its pointer in the bucket is. Only an inline value without
    /// bytes needs protection: it writes nothing.
    ///
    /// # Errors
    /// As [`Entry::replace`](crate::entry::Entry::replace).
    pub(super) fn replace<W: Allocate>(
        self,
        tx: &mut W,
        found: Found,
        value: &[u8],
    ) -> Result<(), Stop> {
        let Found { bucket, index, entry } = found;
        let Some(entry) = entry else {
            if value.is_empty() {
                return bucket.protect(tx);
            }
            return write_payload(tx, self.form, bucket, index, value);
        };
        match entry.replace(tx, value)? {
            Some(moved) => write_payload(tx, self.form, bucket, index, &moved.to_ne_bytes()),
            None => Ok(()),
        }
    }
}

impl Search {
    /// Protects the result, for a change that writes nothing because of it: an absent key stays
    /// absent, and a pair stays as it is, until the transaction commits.
    ///
    /// An insertion of an absent key writes its first bucket, or without a bucket the root. An
    /// entry is freed, or its value replaced, by a write of it. The pieces of a long value's string
    /// are not protected.
    ///
    /// # Errors
    /// As [`Words::protect`].
    pub(super) fn protect<W: Words>(&self, tx: &mut W, trie: Trie) -> Result<(), Stop> {
        if injected(Mutant::AbsentPairNotProtected) {
            return Ok(());
        }
        if let Some(Found { bucket, index, entry }) = &self.found {
            bucket.protect(tx)?;
            return match entry {
                Some(_) => bucket.protect_entry(tx, trie.form, *index),
                None => Ok(()),
            };
        }
        match &self.spot {
            Some(spot) => spot.bucket.protect(tx),
            None => tx.protect(trie.root()),
        }
    }
}

impl Directory {
    /// Decodes the head of a directory with so many directories above it.
    #[inline]
    pub(super) fn from_word(object: u64, level: u32, word: u64) -> Option<Directory> {
        let (bits, freed) = (word as u32 >> 8 & 0xff, (word >> 16 & 0xff) as usize);
        let directory = Directory { object, level, bits, freed };
        let is_sound =
            word == directory.head() && (1..=BITS).contains(&bits) && freed < directory.slots();
        is_sound.then_some(directory)
    }

    /// Returns the first word.
    pub(super) fn head(self) -> u64 {
        MARK << 32 | (self.freed as u64) << 16 | u64::from(self.bits) << 8 | u64::from(self.level)
    }

    /// Returns the greatest hash of this directory, which `hash` is one of. It is odd and no
    /// pointer.
    pub(super) fn last(self, hash: u64) -> u64 {
        hash | u64::MAX.checked_shr(BITS * self.level).unwrap_or(0)
    }

    /// Returns the number of slots.
    pub(super) const fn slots(self) -> usize {
        1 << self.bits
    }

    /// Returns the size of the object.
    pub(super) const fn bytes(self) -> usize {
        8 * (DIRECTORY_WORDS + self.slots())
    }

    /// Returns the place of a slot.
    pub(super) const fn at(self, slot: usize) -> Addr {
        Addr::new(self.object, 8 * (DIRECTORY_WORDS + slot) as u64)
    }

    /// Returns the slot of a hash.
    fn slot_of(self, hash: u64) -> usize {
        let rest = hash.checked_shl(BITS * self.level).unwrap_or(0);
        (rest >> (u64::BITS - self.bits)) as usize
    }
}

impl Spot {
    /// Returns the number of directories above.
    pub(super) fn level(&self) -> u32 {
        self.directory.map_or(0, |directory| directory.level + 1)
    }

    /// Returns the number of hash bits that all keys of this bucket have in common.
    pub(super) fn bits(&self) -> u32 {
        self.directory.map_or(0, |directory| BITS * directory.level + self.bucket.head.depth)
    }

    /// Returns the least and the greatest hash of this bucket, which `hash` is one of.
    pub(super) fn range(&self, hash: u64) -> (u64, u64) {
        let free = u64::MAX.checked_shr(self.bits()).unwrap_or(0);
        (hash & !free, hash | free)
    }

    /// Returns the slots of the directory that hold this bucket: the first, and their number.
    pub(super) const fn group(&self, directory: Directory) -> (usize, usize) {
        let slots = 1 << (directory.bits - self.bucket.head.depth);
        (self.slot & !(slots - 1), slots)
    }

    /// Writes a pointer in place of the one to this bucket.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub(super) fn relink<W: Words>(&self, tx: &mut W, object: u64) -> Result<(), Stop> {
        let Some(directory) = self.directory else {
            return tx.write(self.above, object);
        };
        let (first, slots) = self.group(directory);
        tx.write_words(directory.at(first), &[object; SLOTS][..slots])
    }

    /// Returns whether the bucket's depth fits its place.
    pub(super) fn is_sound(&self) -> bool {
        let Head { depth, capacity, .. } = self.bucket.head;
        match self.directory {
            None => depth == 0,
            Some(directory) => {
                (1..=directory.bits).contains(&depth)
                    && capacity == CAPACITY
                    && self.bits() <= u64::BITS
            }
        }
    }
}

/// Returns whether a word is the head of a directory.
pub(super) const fn is_directory(word: u64) -> bool {
    word >> 32 == MARK
}
