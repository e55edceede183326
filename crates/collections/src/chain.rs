//! A singly linked list of entries in ascending order of their keys: what hash tables chain.
//!
//! ```text
//!   a word of the program's   an object of 16 + 8 WORDS bytes
//!   | link |               -> | 3 | next | value: WORDS words | -> | 7 | next | value | -> 0
//! ```
//!
//! Ascending keys: then a key is there once, the search for one that is not there ends half way,
//! and a cycle of links breaks the order and is found.
//!
//! Invariants:
//! - Keys ascend strictly; so a walk ends, whatever the heap holds.
//! - Two transactions that change what the other relied on write the same object, also under
//!   snapshot isolation (the anomaly is write skew: two neighbours removed, or one removed and a
//!   key put behind it, and the second change is lost with the entry that it was made in). A
//!   key is put in, or taken out, by a write to the link before it, and what is taken out is
//!   written too (it is marked dead before it is given back). What lies before that link decides
//!   nothing, so nothing needs protection.

use words::{Addr, Allocate, Seen, Stop, Words, work};

use crate::check::{Checked, Damage};

const NEXT: u64 = 8;
const VALUE: u64 = 16;

/// The link of an entry that was taken out: it leads into no heap.
const DEAD: u64 = u64::MAX;

/// The list that begins at a link; a new one is a link of 0. Each entry holds a value of so many
/// words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain<const WORDS: usize> {
    link: Addr,
}

/// An entry's address and the words in front of its value.
#[derive(Clone, Copy)]
struct Entry {
    at: Addr,
    /// Which version of it was read.
    seen: Seen,
    key: u64,
    /// The entry behind it; 0 is none.
    next: u64,
}

/// Where the search for a key ended.
struct Found {
    /// The word that leads, or must lead, to the key's entry.
    link: Addr,
    /// The entry of the first key that is not smaller.
    entry: Option<Entry>,
    /// Whether that key is the one.
    exact: bool,
}

impl<const WORDS: usize> Chain<WORDS> {
    /// Bytes of an entry's object; 16 bytes of header come on top.
    pub const ENTRY_BYTES: usize = VALUE as usize + 8 * WORDS;

    /// The list that begins at this word.
    #[inline]
    pub const fn at(link: Addr) -> Chain<WORDS> {
        Chain { link }
    }

    /// Where the value of a key is. It stays there until the key is taken out.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged list, here and in all that follows.
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        Ok(self.search_exact(tx, key)?.map(|entry| entry.at.plus(VALUE)))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        let found = self.search_exact(tx, key)?;
        found.map(|entry| entry.value(tx)).transpose()
    }

    /// The smallest key, and its value.
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

    /// Puts a key's value, whether it was there or not; answers whether it is new. Writes the value
    /// over an old key; a new one's entry and the link to it beside what the allocator writes.
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

    /// As [`insert`](Chain::insert); answers the value before.
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

    /// Takes a key out; answers its value. Its entry is given back.
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

    /// Gives back up to `most` of the first entries; answers how many. Fewer than `most`: the list
    /// is empty.
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

    /// Checks that keys ascend; `stray` says what is wrong with a key that does not belong here.
    ///
    /// # Errors
    /// As [`Words::read`]: a wild pointer is not damage in the answer but [`Stop::BadPointer`].
    pub(crate) fn check<W: Words>(
        self,
        tx: &mut W,
        answer: &mut Checked,
        stray: impl Fn(u64) -> Option<Damage>,
    ) -> Result<(), Stop> {
        let (mut next, mut last) = (tx.read(self.link)?, None);
        while next != 0 {
            let entry = Entry::open(tx, next)?;
            let (node, key) = (entry.at.object, entry.key);
            if let Some(previous) = last.filter(|&previous| previous >= key) {
                // What follows may be a cycle.
                answer.found(Damage::KeyOrder { node, previous, found: key });
                break;
            }
            answer.entries += 1;
            if let Some(damage) = stray(key) {
                answer.found(damage);
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
            // Ascending keys are what makes a walk along a damaged chain end.
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
    /// Puts a new entry where the search ended.
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
    /// Reads what stands in front of the value of the entry that a link leads to.
    #[inline]
    fn open<W: Words>(tx: &mut W, object: u64) -> Result<Entry, Stop> {
        tx.after_last_read();
        let (at, seen, mut words) = (Addr::new(object, 0), tx.look(object)?, [0; 2]);
        tx.read_words_seen(seen, 0, &mut words)?;
        Ok(Entry { at, seen, key: words[0], next: words[1] })
    }

    /// Reads the value, as long as nothing was written to the entry.
    #[inline]
    fn value<W: Words, const WORDS: usize>(self, tx: &mut W) -> Result<[u64; WORDS], Stop> {
        let mut value = [0; WORDS];
        tx.read_words_seen(self.seen, VALUE, &mut value)?;
        Ok(value)
    }

    /// Gives the entry back. It is written first, so that a transaction which changes it at the
    /// same time conflicts in every design.
    #[inline]
    fn discard<W: Words>(self, tx: &mut W, bytes: usize) -> Result<(), Stop> {
        tx.write(self.at.plus(NEXT), DEAD)?;
        tx.retire(self.at, bytes as u64)
    }
}
