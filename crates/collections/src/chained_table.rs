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
//! Beside the [`ChainedMap`](crate::ChainedMap) the value is larger and stays in its place, so that
//! a program may change words of it ([`find`](ChainedTable::find)); and any number of chains will
//! do, one included, which makes it a list. There is no seed: outsiders who choose keys can make
//! them collide.
//!
//! Invariants: those of a [`Chain`]; and a key is in the chain that is its home.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::chain::Chain;
use crate::check::{Checked, Damage};
use crate::hash;

/// A fixed number of chains from `u64` to values of `WORDS` words; a value of two words that
/// objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct ChainedTable<const WORDS: usize> {
    chains: Array<u64>,
}

impl<const WORDS: usize> ChainedTable<WORDS> {
    /// Bytes of an entry's object; 16 bytes of header come on top.
    pub const ENTRY_BYTES: usize = Chain::<WORDS>::ENTRY_BYTES;

    /// Room for a table of so many chains, at least one, which may be used once
    /// [`prepare`](ChainedTable::prepare) has said so. Store it somewhere reachable in the same
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

    /// The chain where a key belongs, below [`chains`](ChainedTable::chains).
    #[inline]
    pub fn home(self, key: u64) -> u64 {
        hash::share(key, self.chains())
    }

    /// Where the value of a key is. It stays there until the key is taken out.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged table, here and in all that follows.
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        self.chain_of(tx, key)?.find(tx, key)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        self.chain_of(tx, key)?.get(tx, key)
    }

    /// Puts a key's value, whether it was there or not; answers whether it is new. Writes the value
    /// over an old key; a new one's entry and the link to it, `WORDS` + 3 words, beside what the
    /// allocator writes.
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
        self.chain_of(tx, key)?.insert(tx, key, value)
    }

    /// Takes a key out; answers its value. Its entry is given back. Writes 2 words: the link
    /// before it and its own.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<[u64; WORDS]>, Stop> {
        self.chain_of(tx, key)?.remove(tx, key)
    }

    /// A hint that this key will be looked up soon.
    #[inline]
    pub fn will_get<W: Words>(self, tx: &mut W, key: u64) {
        tx.compute(work::HASH);
        if let Ok(head) = self.head(self.home(key)) {
            tx.will_read(head, 8);
        }
    }

    /// Calls `visit` with the keys and values in up to `most` chains from chain `from` on (the
    /// first is 0); answers where to go on.
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
    /// chain, and ascends there. [`whole`](crate::whole) checks all of it.
    ///
    /// # Errors
    /// As [`Words::read`]: a wild pointer is not damage in the answer but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let mut answer = Checked::default();
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            let stray = |key| {
                let home = self.home(key);
                (home != chain).then_some(Damage::Stray { chain, key, home })
            };
            self.chain(chain)?.check(tx, &mut answer, stray)?;
        }
        answer.next = (end < self.chains()).then_some(end);
        Ok(answer)
    }

    /// Gives back up to `most` entries, each chain passed counting as one, from chain `from` on
    /// (the first is 0); answers where to go on. The array goes last, after which every copy of
    /// this value leads nowhere. The table must be prepared; between the steps it must not be used
    /// for anything else; after a crash begin at 0 again.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the table was given back before.
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

    /// The chain where a key belongs, as a list.
    #[inline]
    fn chain_of<W: Words>(self, tx: &mut W, key: u64) -> Result<Chain<WORDS>, Stop> {
        tx.compute(work::HASH);
        self.chain(self.home(key))
    }

    #[inline]
    fn chain(self, chain: u64) -> Result<Chain<WORDS>, Stop> {
        self.head(chain).map(Chain::at)
    }

    /// The word that leads to a chain's first entry.
    #[inline]
    fn head(self, chain: u64) -> Result<Addr, Stop> {
        Ok(self.chains.at(chain)?.addr())
    }
}
