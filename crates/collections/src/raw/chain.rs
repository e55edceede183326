//! A sorted singly linked list, the chain of the hash tables.
//!
//! ```text
//!   a word of the program's   an object of 16 + 8 WORDS bytes
//!   | link |               -> | 3 | next | value: WORDS words | -> | 7 | next | value | -> 0
//! ```
//!
//! Keys ascend, so a key occurs once, the search for a missing key ends half way, and a cycle of
//! links breaks the order and is found.
//!
//! Invariants:
//! - Keys ascend strictly. A walk therefore ends, whatever the heap holds.
//! - Two transactions that change words that the other relied on write the same object, also under
//!   snapshot isolation. The anomaly is write skew: two neighbours are removed, or one is removed
//!   and a key inserted after it, and the second change is lost with the entry that it was made in.
//!   To prevent it, inserting and removing a key write the link before it, and a removed entry is
//!   written too (marked dead) before it is freed. Words before that link decide no outcome, so
//!   none needs protection.

use words::{Addr, Allocate, Seen, Stop, Words, work};

use crate::raw::check::{Checked, Damage};

const NEXT: u64 = 8;
const VALUE: u64 = 16;

/// The link of a removed entry, outside every heap.
const DEAD: u64 = u64::MAX;

/// The list that begins at a link; an empty one is a link of 0. Each entry holds a value of `WORDS`
/// words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain<const WORDS: usize> {
    link: Addr,
}

/// An entry's address and the words in front of its value.
#[derive(Clone, Copy)]
struct Entry {
    at: Addr,
    /// The version that was read.
    seen: Seen,
    key: u64,
    /// The next entry; 0 is none.
    next: u64,
}

/// The end of a search for a key.
struct Found {
    /// The word that leads, or must lead, to the key's entry.
    link: Addr,
    /// The entry of the first key that is not smaller.
    entry: Option<Entry>,
    /// Whether that key is the searched key.
    exact: bool,
}

impl<const WORDS: usize> Chain<WORDS> {
    /// Size of an entry's object in bytes, without its header of 16 bytes.
    pub const ENTRY_BYTES: usize = VALUE as usize + 8 * WORDS;

    /// Makes the list that begins at this word.
    #[inline]
    pub const fn at(link: Addr) -> Chain<WORDS> {
        Chain { link }
    }

    /// Returns the place of a key's value, which is valid until the key is removed.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged list, here and in all other methods.
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        Ok(self.search_exact(tx, key)?.map(|entry| entry.at.plus(VALUE)))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        let found = self.search_exact(tx, key)?;
        found.map(|entry| entry.value(tx)).transpose()
    }

    /// Returns the smallest key and its value.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn first<W: Words>(self, tx: &mut W) -> Result<Option<(u64, [u64; WORDS])>, Stop> {
        let next = tx.read(self.link)?;
        if next == 0 {
            return Ok(None);
        }
        let entry = Entry::open(tx, next)?;
        Ok(Some((entry.key, entry.value(tx)?)))
    }

    /// Inserts a key or replaces its value; returns whether the key is new. Writes the value of a
    /// present key; for a new one its entry and the link to it, beside the allocator's words.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    #[inline]
    pub fn insert<W: Allocate>(
        self,
        tx: &mut W,
        key: u64,
        value: &[u64; WORDS],
    ) -> Result<bool, Stop> {
        let found = self.search(tx, key)?;
        match found.entry {
            Some(entry) if found.exact => tx.write_words(entry.at.plus(VALUE), value)?,
            _ => found.add(tx, key, value)?,
        }
        Ok(!found.exact)
    }

    /// Inserts as [`insert`](Chain::insert) does; returns the old value.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    #[inline]
    pub fn replace<W: Allocate>(
        self,
        tx: &mut W,
        key: u64,
        value: &[u64; WORDS],
    ) -> Result<Option<[u64; WORDS]>, Stop> {
        let found = self.search(tx, key)?;
        match found.entry {
            Some(entry) if found.exact => {
                let before = entry.value(tx)?;
                tx.write_words(entry.at.plus(VALUE), value)?;
                Ok(Some(before))
            }
            _ => found.add(tx, key, value).map(|()| None),
        }
    }

    /// Removes a key and frees its entry; returns its value.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        let Found { entry: Some(entry), exact: true, link } = self.search(tx, key)? else {
            return Ok(None);
        };
        tx.compute(work::LINK);
        let value = entry.value(tx)?;
        tx.write(link, entry.next)?;
        entry.discard(tx, Self::ENTRY_BYTES)?;
        Ok(Some(value))
    }

    /// Calls `visit` with the keys and values, in ascending order.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        mut visit: impl FnMut(u64, &[u64; WORDS]),
    ) -> Result<(), Stop> {
        let (mut next, mut previous) = (tx.read(self.link)?, None);
        while next != 0 {
            let entry = Entry::open(tx, next)?;
            if previous >= Some(entry.key) {
                return Err(Stop::BadValue);
            }
            visit(entry.key, &entry.value(tx)?);
            (next, previous) = (entry.next, Some(entry.key));
        }
        Ok(())
    }

    /// Frees up to `most` of the first entries; returns how many. Fewer than `most` means that the
    /// list is empty.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn free<W: Words>(self, tx: &mut W, most: u64) -> Result<u64, Stop> {
        let first = tx.read(self.link)?;
        let (mut next, mut freed) = (first, 0);
        while next != 0 && freed < most {
            let entry = Entry::open(tx, next)?;
            entry.discard(tx, Self::ENTRY_BYTES)?;
            (next, freed) = (entry.next, freed + 1);
        }
        if next != first {
            tx.write(self.link, next)?;
        }
        Ok(freed)
    }

    /// Checks that keys ascend; `stray` returns the damage of a key that does not belong here.
    ///
    /// # Errors
    /// As [`Words::read`]. A wild pointer is not reported as damage but [`Stop::BadPointer`].
    pub(crate) fn check<W: Words>(
        self,
        tx: &mut W,
        checked: &mut Checked,
        stray: impl Fn(u64) -> Option<Damage>,
    ) -> Result<(), Stop> {
        let (mut next, mut last) = (tx.read(self.link)?, None);
        while next != 0 {
            let entry = Entry::open(tx, next)?;
            let (node, key) = (entry.at.object, entry.key);
            if let Some(previous) = last.filter(|&previous| previous >= key) {
                // The rest may be a cycle.
                checked.found(Damage::KeyOrder { node, previous, found: key });
                break;
            }
            checked.entries += 1;
            if let Some(damage) = stray(key) {
                checked.found(damage);
            }
            (next, last) = (entry.next, Some(key));
        }
        Ok(())
    }

    #[inline]
    fn search_exact<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Entry>, Stop> {
        let found = self.search(tx, key)?;
        Ok(found.entry.filter(|_| found.exact))
    }

    #[inline]
    fn search<W: Words>(self, tx: &mut W, key: u64) -> Result<Found, Stop> {
        let mut link = self.link;
        tx.compute(work::SEARCH);
        let (mut next, mut least) = (tx.read(link)?, 0);
        while next != 0 {
            let entry = Entry::open(tx, next)?;
            tx.compute(work::VISIT);
            // Require ascending keys: a walk along a damaged chain ends by that.
            if entry.key < least {
                return Err(Stop::BadValue);
            }
            if entry.key >= key {
                return Ok(Found { link, entry: Some(entry), exact: entry.key == key });
            }
            (link, next, least) = (entry.at.plus(NEXT), entry.next, entry.key + 1);
        }
        Ok(Found { link, entry: None, exact: false })
    }
}

impl Found {
    /// Inserts a new entry where the search ended.
    #[inline]
    fn add<W: Allocate>(&self, tx: &mut W, key: u64, value: &[u64]) -> Result<(), Stop> {
        tx.compute(work::LINK);
        let next = self.entry.map_or(0, |entry| entry.at.object);
        let object = tx.allocate(VALUE as usize + 8 * value.len())?;
        tx.write_words(Addr::new(object, 0), &[key, next])?;
        tx.write_words(Addr::new(object, VALUE), value)?;
        tx.write(self.link, object)
    }
}

impl Entry {
    /// Reads the words in front of the value of the entry that a link leads to.
    #[inline]
    fn open<W: Words>(tx: &mut W, object: u64) -> Result<Entry, Stop> {
        tx.after_last_read();
        let (at, seen, mut words) = (Addr::new(object, 0), tx.look(object)?, [0; 2]);
        tx.read_words_seen(seen, 0, &mut words)?;
        Ok(Entry { at, seen, key: words[0], next: words[1] })
    }

    /// Reads the value; the entry must be unwritten since it was found.
    #[inline]
    fn value<W: Words, const WORDS: usize>(self, tx: &mut W) -> Result<[u64; WORDS], Stop> {
        let mut value = [0; WORDS];
        tx.read_words_seen(self.seen, VALUE, &mut value)?;
        Ok(value)
    }

    /// Frees the entry. It is written first, so that a concurrent transaction that changes it
    /// conflicts in every design.
    #[inline]
    fn discard<W: Words>(self, tx: &mut W, bytes: usize) -> Result<(), Stop> {
        tx.write(self.at.plus(NEXT), DEAD)?;
        tx.retire(self.at, bytes as u64)
    }
}
