//! A hash table of linked lists, each entry an object that holds key, link and a value of several
//! words.
//!
//! ```text
//!   value in the program's object     chains: 32 to a block of 256 bytes, any number of them
//!   | first chain | chains |          | entry | 0 | entry | ...         0: no entry
//!                                        |
//!                                        v
//!                                     | key | next | value: WORDS words | -> ...
//! ```
//!
//! Compared with the [`ChainedMap`](super::ChainedMap) the value is larger and never moves, so that
//! a program may change words of it ([`find`](ChainedTable::find)). Any number of chains is
//! allowed; one chain makes a list. The table has no seed, so an attacker can choose keys that
//! collide.
//!
//! Invariants: those of a [`Chain`], and every key is in the chain of its hash.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::raw::chain::Chain;
use crate::raw::check::{Checked, Damage};
use crate::raw::hash;

/// A fixed number of chains from `u64` to values of `WORDS` words; a value of two words that
/// objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct ChainedTable<const WORDS: usize> {
    chains: Array<u64>,
}

impl<const WORDS: usize> ChainedTable<WORDS> {
    /// Size of an entry's object in bytes, without its header of 16 bytes.
    pub const ENTRY_BYTES: usize = Chain::<WORDS>::ENTRY_BYTES;

    /// Reserves a table of `chains` chains, at least one, which is usable once
    /// [`prepare`](ChainedTable::prepare) returns true. Store it somewhere reachable in the same
    /// transaction.
    ///
    /// # Errors
    /// [`Stop::Full`].
    pub fn reserve<W: Allocate>(tx: &mut W, chains: u64) -> Result<ChainedTable<WORDS>, Stop> {
        if chains > hash::PLACES_MAX {
            return Err(Stop::Full);
        }
        Ok(ChainedTable { chains: Array::reserve(tx, chains.max(1))? })
    }

    /// Prepares up to `most_blocks` further blocks of 32 chains; returns whether all are prepared.
    /// The call may be repeated after a crash.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when `most_blocks` are too many for one transaction.
    pub fn prepare<W: Allocate>(self, tx: &mut W, most_blocks: u64) -> Result<bool, Stop> {
        self.chains.prepare(tx, most_blocks)
    }

    /// Returns the number of chains.
    #[inline]
    pub const fn chains(self) -> u64 {
        self.chains.len()
    }

    /// Returns the number of a key's chain, below [`chains`](ChainedTable::chains).
    #[inline]
    pub fn chain_of(self, key: u64) -> u64 {
        hash::share(key, self.chains())
    }

    /// Returns the place of a key's value, which is valid until the key is removed.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged table, here and in all other methods.
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        self.list_of(tx, key)?.find(tx, key)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        self.list_of(tx, key)?.get(tx, key)
    }

    /// Inserts a key or replaces its value; returns whether the key is new. Writes the value of a
    /// present key; for a new one its entry and the link to it, `WORDS` + 3 words, beside the
    /// allocator's words.
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
        self.list_of(tx, key)?.insert(tx, key, value)
    }

    /// Removes a key and frees its entry; returns its value. Writes 2 words: the link before it and
    /// its own.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        self.list_of(tx, key)?.remove(tx, key)
    }

    /// Hints that this key will be looked up soon.
    #[inline]
    pub fn will_get<W: Words>(self, tx: &mut W, key: u64) {
        tx.compute(work::HASH);
        if let Ok(head) = self.head(self.chain_of(key)) {
            tx.will_read(head, 8);
        }
    }

    /// Calls `visit` with the keys and values in up to `most` chains from chain `from` on (the
    /// first is 0); returns the next chain.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        most: u64,
        mut visit: impl FnMut(u64, &[u64; WORDS]),
    ) -> Result<Option<u64>, Stop> {
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            self.chain(chain)?.scan(tx, &mut visit)?;
        }
        Ok((end < self.chains()).then_some(end))
    }

    /// Checks up to `most` chains from chain `from` on (the first is 0): every key is in its own
    /// chain, and keys ascend. [`whole`](crate::raw::whole) checks the whole table.
    ///
    /// # Errors
    /// As [`Words::read`]. A wild pointer is not reported as damage but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let mut checked = Checked::default();
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            let stray = |key| {
                let expected = self.chain_of(key);
                (expected != chain).then_some(Damage::Stray { chain, key, expected })
            };
            self.chain(chain)?.check(tx, &mut checked, stray)?;
        }
        checked.next = (end < self.chains()).then_some(end);
        Ok(checked)
    }

    /// Frees up to `most` entries, each chain passed counting as one, from chain `from` on (the
    /// first is 0); returns the next chain. The array is freed last; every copy of this value
    /// dangles after that.
    ///
    /// The table must be prepared. Between the steps it must not be used for anything else. After a
    /// crash begin at 0 again.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the table was freed before.
    pub fn free<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Option<u64>, Stop> {
        let (mut chain, mut left) = (from, most.max(1));
        while chain < self.chains() {
            let freed = self.chain(chain)?.free(tx, left)?;
            if freed == left {
                return Ok(Some(chain));
            }
            (chain, left) = (chain + 1, left - freed - 1);
            if left == 0 && chain < self.chains() {
                return Ok(Some(chain));
            }
        }
        self.chains.free(tx)?;
        Ok(None)
    }

    /// Returns a key's chain as a list.
    #[inline]
    fn list_of<W: Words>(self, tx: &mut W, key: u64) -> Result<Chain<WORDS>, Stop> {
        tx.compute(work::HASH);
        self.chain(self.chain_of(key))
    }

    #[inline]
    fn chain(self, chain: u64) -> Result<Chain<WORDS>, Stop> {
        self.head(chain).map(Chain::at)
    }

    /// Returns the word that leads to a chain's first entry.
    #[inline]
    fn head(self, chain: u64) -> Result<Addr, Stop> {
        // Beyond the array only with a value from a damaged object.
        Ok(self.chains.at(chain).map_err(|_| Stop::BadPointer)?.addr())
    }
}
