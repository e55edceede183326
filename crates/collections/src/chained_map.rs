//! A hash map of any number of keys: each chain is a singly linked list of entries.
//!
//! ```text
//!   value in the program's object      chains: 32 to a block of 256 bytes, a power of two
//!   | first chain | chains | seed |    | entry | 0 | entry | entry | ...         0: no entry
//!                                         |
//!   an object of 24 bytes                 v
//!   | key | next | value |             | 3 | next | value | -> | 7 | next | value | -> 0
//! ```
//!
//! The number of chains is fixed, that of the keys is not: with as many keys as chains a lookup
//! passes one entry in two on average, with four times as many two. Beside the
//! [`HashMap`](crate::HashMap) it has room for what was not foreseen and pays with an object, and
//! one miss more, for each key.
//!
//! The keys of a chain ascend: then a key is there once, the search for one that is not there ends
//! half way, and a cycle of links breaks the order and is found.
//!
//! Invariants:
//! - A chain holds the keys whose home it is, in strictly ascending order; so a walk ends, whatever
//!   the heap holds.
//! - Two transactions that change what the other relied on write the same entry or the same head,
//!   also under snapshot isolation: a new key writes the link before it, which a removal of that
//!   entry writes too (it marks it dead before it gives it back). What lies before that link
//!   decides nothing, so nothing needs protection.

use words::{Addr, Allocate, Array, Place, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::check::{Checked, Damage};
use crate::hash;

/// Chains in one block of the array.
const PER_BLOCK: u64 = words::BLOCK_BYTES / 8;

/// Bytes of an entry's object; 16 bytes of header come on top.
pub const ENTRY_BYTES: usize = 24;

const NEXT: u64 = 8;
const VALUE: u64 = 16;

/// The link of an entry that was taken out: it leads into no heap.
const DEAD: u64 = u64::MAX;

/// A fixed number of chains from `u64` to `u64`; a value of three words that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ChainedMap {
    chains: Array<u64>,
    seed: u64,
}

/// An entry's address and the words in front of its value.
#[derive(Clone, Copy)]
struct Entry {
    at: Addr,
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

impl ChainedMap {
    /// An empty map of at least `chains` chains (a power of two, 32 or more), in this one
    /// transaction. Give it as many chains as keys.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot prepare so many: then
    /// [`reserve`](ChainedMap::reserve) and [`prepare`](ChainedMap::prepare) it step by step.
    pub fn create<W: Allocate>(tx: &mut W, chains: u64) -> Result<ChainedMap, Stop> {
        let map = ChainedMap::reserve(tx, chains, 0)?;
        map.prepare(tx, u64::MAX)?;
        Ok(map)
    }

    /// Room for a map of at least `chains` chains (a power of two, 32 or more), which may be used
    /// once [`prepare`](ChainedMap::prepare) has said so. Store it somewhere reachable in the same
    /// transaction. A `seed` that outsiders do not know keeps them from choosing keys that collide.
    ///
    /// # Errors
    /// [`Stop::Full`].
    pub fn reserve<W: Allocate>(tx: &mut W, chains: u64, seed: u64) -> Result<ChainedMap, Stop> {
        if chains > hash::PLACES_MAX {
            return Err(Stop::Full);
        }
        let chains = chains.max(PER_BLOCK).next_power_of_two();
        Ok(ChainedMap { chains: Array::reserve(tx, chains)?, seed })
    }

    /// Makes up to `most_blocks` further blocks of 32 chains ready; answers whether all are. May be
    /// repeated after a crash.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when `most_blocks` are too many for one transaction.
    pub fn prepare<W: Allocate>(self, tx: &mut W, most_blocks: u64) -> Result<bool, Stop> {
        self.chains.prepare(tx, most_blocks)
    }

    /// Number of chains.
    #[inline]
    pub const fn chains(self) -> u64 {
        self.chains.len()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged map, here and in all that follows.
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        match self.find(tx, key)? {
            Found { entry: Some(entry), exact: true, .. } => {
                tx.read(entry.at.plus(VALUE)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Puts a key's value, whether it was there or not; answers the value before. Writes 1 word
    /// over an old key; a new one's entry and the link to it, 4 words, beside what the allocator
    /// writes.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    #[inline]
    pub fn insert<W: Allocate>(
        self,
        tx: &mut W,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, Stop> {
        self.will_insert(tx, key);
        let found = self.find(tx, key)?;
        match found.entry {
            Some(entry) if found.exact => {
                let at = entry.at.plus(VALUE);
                let before = tx.read(at)?;
                tx.write(at, value)?;
                Ok(Some(before))
            }
            behind => {
                let next = behind.map_or(0, |entry| entry.at.object);
                let object = tx.allocate(ENTRY_BYTES)?;
                tx.write_words(Addr::new(object, 0), &[key, next, value])?;
                tx.write(found.link, object)?;
                Ok(None)
            }
        }
    }

    /// Replaces the value of a key that is there: 1 word. Answers the value before.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn update<W: Words>(
        self,
        tx: &mut W,
        key: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<Option<u64>, Stop> {
        let Found { entry: Some(entry), exact: true, .. } = self.find(tx, key)? else {
            return Ok(None);
        };
        let at = entry.at.plus(VALUE);
        let before = tx.read(at)?;
        tx.write(at, change(before))?;
        Ok(Some(before))
    }

    /// Takes a key out; answers its value. Its entry is given back.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        self.will_insert(tx, key);
        let Found { entry: Some(entry), exact: true, link } = self.find(tx, key)? else {
            return Ok(None);
        };
        let value = tx.read(entry.at.plus(VALUE))?;
        tx.write(link, entry.next)?;
        entry.discard(tx)?;
        Ok(Some(value))
    }

    /// A hint that this key will be inserted or removed soon: for many keys in one transaction,
    /// give it for all of them first.
    #[inline]
    pub fn will_insert<W: Words>(self, tx: &mut W, key: u64) {
        if let Ok(head) = self.home(key).and_then(|chain| self.head(chain)) {
            tx.will_write(head, 8);
        }
    }

    /// Calls `visit` with the pairs in up to `most` chains from chain `from` on (the first is 0),
    /// in no order; answers where to go on.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        most: u64,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop> {
        hash::mask(self.chains())?;
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            let (mut next, mut previous) = (tx.read(self.head(chain)?)?, None);
            while next != 0 {
                let entry = Entry::open(tx, next)?;
                if previous >= Some(entry.key) {
                    return Err(Stop::BadValue);
                }
                visit(entry.key, tx.read(entry.at.plus(VALUE))?);
                (next, previous) = (entry.next, Some(entry.key));
            }
        }
        Ok((end < self.chains()).then_some(end))
    }

    /// Checks up to `most` chains from chain `from` on (the first is 0): every key is in its own
    /// chain, and ascends there. [`whole`](crate::whole) checks all of it.
    ///
    /// # Errors
    /// As [`Words::read`]: a wild pointer is not damage in the answer but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let mut answer = Checked::default();
        hash::mask(self.chains())?;
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            self.check_chain(tx, chain, &mut answer)?;
        }
        answer.next = (end < self.chains()).then_some(end);
        Ok(answer)
    }

    /// Gives back up to `most` entries, each chain passed counting as one, from chain `from` on
    /// (the first is 0); answers where to go on. The array goes last, after which every copy of
    /// this value leads nowhere. Between the steps the map must not be used for anything else;
    /// after a crash begin at 0 again.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the map was given back before.
    pub fn free<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Option<u64>, Stop> {
        let (mut chain, mut left) = (from, most.max(1));
        while chain < self.chains() {
            if left == 0 {
                return Ok(Some(chain));
            }
            let head = self.head(chain)?;
            let mut next = tx.read(head)?;
            if next == 0 {
                (chain, left) = (chain + 1, left - 1);
                continue;
            }
            while next != 0 && left > 0 {
                let entry = Entry::open(tx, next)?;
                entry.discard(tx)?;
                (next, left) = (entry.next, left - 1);
            }
            tx.write(head, next)?;
        }
        self.chains.free(tx)?;
        Ok(None)
    }

    /// The keys of a chain ascend and belong there.
    fn check_chain<W: Words>(
        self,
        tx: &mut W,
        chain: u64,
        answer: &mut Checked,
    ) -> Result<(), Stop> {
        let (mut next, mut last) = (tx.read(self.head(chain)?)?, None);
        while next != 0 {
            let entry = Entry::open(tx, next)?;
            let (node, key) = (entry.at.object, entry.key);
            if let Some(previous) = last.filter(|&previous| previous >= key) {
                // What follows may be a cycle.
                answer.found(Damage::KeyOrder { node, previous, found: key });
                break;
            }
            answer.entries += 1;
            let home = self.home(key)?;
            if home != chain {
                answer.found(Damage::Stray { chain, key, home });
            }
            (next, last) = (entry.next, Some(key));
        }
        Ok(())
    }

    #[inline]
    fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Found, Stop> {
        let mut link = self.head(self.home(key)?)?;
        tx.compute(10);
        let (mut next, mut least) = (tx.read(link)?, 0);
        while next != 0 {
            let entry = Entry::open(tx, next)?;
            tx.compute(6);
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

    /// The chain where a key belongs.
    #[inline]
    fn home(self, key: u64) -> Result<u64, Stop> {
        Ok(hash::home(key, self.seed, hash::mask(self.chains())?))
    }

    /// The word that leads to a chain's first entry.
    #[inline]
    fn head(self, chain: u64) -> Result<Addr, Stop> {
        Ok(self.chains.at(chain)?.addr())
    }
}

impl Entry {
    /// Reads what stands in front of the value of the entry that a link leads to.
    #[inline]
    fn open<W: Words>(tx: &mut W, object: u64) -> Result<Entry, Stop> {
        tx.after_last_read();
        let (at, mut words) = (Addr::new(object, 0), [0; 2]);
        tx.read_words(at, &mut words)?;
        Ok(Entry { at, key: words[0], next: words[1] })
    }

    /// Gives the entry back. It is written first, so that a transaction which changes it at the
    /// same time conflicts in every design.
    #[inline]
    fn discard<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        tx.write(self.at.plus(NEXT), DEAD)?;
        tx.retire(self.at, ENTRY_BYTES as u64)
    }
}
