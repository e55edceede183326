//! A hash map without a limit of keys, whose chains are lists of entries.
//!
//! ```text
//!   value in the program's object      chains: 32 to a block of 256 bytes, a power of two
//!   | first chain | chains | seed |    | entry | 0 | entry | entry | ...         0: no entry
//!                                         |
//!   an object of 24 bytes                 v
//!   | key | next | value |             | 3 | next | value | -> | 7 | next | value | -> 0
//! ```
//!
//! The number of chains is fixed, the number of keys is not. With as many keys as chains a lookup
//! passes half an entry on average, with four times as many two. Compared with the
//! [`HashMap`](super::HashMap) it cannot get full, and pays for each key with an object and one
//! more cache miss.
//!
//! Invariants: those of a [`Chain`], and every key is in the chain of its hash.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::raw::chain::Chain;
use crate::raw::check::{Checked, Damage};
use crate::raw::hash;

/// Chains in one block of the array.
const PER_BLOCK: u64 = words::BLOCK_BYTES / 8;

/// Size of an entry's object in bytes, without its header of 16 bytes.
pub const ENTRY_BYTES: usize = Chain::<1>::ENTRY_BYTES;

/// A fixed number of chains from `u64` to `u64`; a value of three words that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ChainedMap {
    chains: Array<u64>,
    seed: u64,
}

impl ChainedMap {
    /// Creates an empty map of at least `chains` chains (a power of two, 32 or more), in this one
    /// transaction. A good number is the number of keys.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot prepare so many. Use
    /// [`reserve`](ChainedMap::reserve) and [`prepare`](ChainedMap::prepare) then.
    pub fn create<W: Allocate>(tx: &mut W, chains: u64) -> Result<ChainedMap, Stop> {
        let map = ChainedMap::reserve(tx, chains, 0)?;
        map.prepare(tx, u64::MAX)?;
        Ok(map)
    }

    /// Reserves a map of at least `chains` chains (a power of two, 32 or more), which is usable
    /// once [`prepare`](ChainedMap::prepare) returns true.
    ///
    /// Store it somewhere reachable in the same transaction. With a secret `seed` an attacker
    /// cannot choose keys that collide.
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

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged map, here and in all other methods.
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        Ok(self.list_of(tx, key)?.get(tx, key)?.map(|[value]| value))
    }

    /// Returns the place of a key's value, which is valid until the key is removed.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        self.list_of(tx, key)?.find(tx, key)
    }

    /// Inserts a key or replaces its value; returns the old value. Writes 1 word for a present key;
    /// for a new one its entry and the link to it, 4 words, beside the allocator's words.
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
        let before = self.list_of(tx, key)?.replace(tx, key, &[value])?;
        Ok(before.map(|[value]| value))
    }

    /// Replaces the value of a present key and returns the old one. Writes 1 word.
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
        let Some(at) = self.list_of(tx, key)?.find(tx, key)? else {
            return Ok(None);
        };
        let before = tx.read(at)?;
        tx.write(at, change(before))?;
        Ok(Some(before))
    }

    /// Removes a key and frees its entry; returns its value.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        self.will_insert(tx, key);
        Ok(self.list_of(tx, key)?.remove(tx, key)?.map(|[value]| value))
    }

    /// Hints that this key will be inserted or removed soon. For many keys in one transaction, give
    /// the hint for all of them first.
    #[inline]
    pub fn will_insert<W: Words>(self, tx: &mut W, key: u64) {
        if let Ok(head) = self.chain_of(key).and_then(|chain| self.head(chain)) {
            tx.will_write(head, 8);
        }
    }

    /// Calls `visit` with the pairs in up to `most` chains from chain `from` on (the first is 0),
    /// in no order; returns the next chain.
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
            self.chain(chain)?.scan(tx, |key, &[value]| visit(key, value))?;
        }
        Ok((end < self.chains()).then_some(end))
    }

    /// Checks up to `most` chains from chain `from` on (the first is 0): every key is in its own
    /// chain, and keys ascend. [`whole`](crate::raw::whole) checks the whole map.
    ///
    /// # Errors
    /// As [`Words::read`]. A wild pointer is not reported as damage but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let mut checked = Checked::default();
        let mask = hash::mask(self.chains())?;
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            let stray = |key| {
                let expected = hash::place(key, self.seed, mask);
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
    /// Between the steps the map must not be used for anything else. After a crash begin at 0
    /// again.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the map was freed before.
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

    /// Returns the number of a key's chain.
    #[inline]
    fn chain_of(self, key: u64) -> Result<u64, Stop> {
        Ok(hash::place(key, self.seed, hash::mask(self.chains())?))
    }

    /// Returns a key's chain as a list.
    #[inline]
    fn list_of<W: Words>(self, tx: &mut W, key: u64) -> Result<Chain<1>, Stop> {
        tx.compute(work::HASH);
        self.chain(self.chain_of(key)?)
    }

    #[inline]
    fn chain(self, chain: u64) -> Result<Chain<1>, Stop> {
        self.head(chain).map(Chain::at)
    }

    /// Returns the word that leads to a chain's first entry.
    #[inline]
    fn head(self, chain: u64) -> Result<Addr, Stop> {
        // Beyond the array only with a value from a damaged object.
        Ok(self.chains.at(chain).map_err(|_| Stop::BadPointer)?.addr())
    }
}
