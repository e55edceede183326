//! A hash map of any number of keys: each chain is a list of entries.
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
//! Invariants: those of a [`Chain`]; and a key is in the chain that is its home.

use words::{Addr, Allocate, Array, Place, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::chain::Chain;
use crate::check::{Checked, Damage};
use crate::hash;

/// Chains in one block of the array.
const PER_BLOCK: u64 = words::BLOCK_BYTES / 8;

/// Bytes of an entry's object; 16 bytes of header come on top.
pub const ENTRY_BYTES: usize = Chain::<1>::ENTRY_BYTES;

/// A fixed number of chains from `u64` to `u64`; a value of three words that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ChainedMap {
    chains: Array<u64>,
    seed: u64,
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
        Ok(self.chain_of(tx, key)?.get(tx, key)?.map(|[value]| value))
    }

    /// Where the value of a key is. It stays there until the key is taken out.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        self.chain_of(tx, key)?.find(tx, key)
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
        let before = self.chain_of(tx, key)?.replace(tx, key, &[value])?;
        Ok(before.map(|[value]| value))
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
        let Some(at) = self.chain_of(tx, key)?.find(tx, key)? else {
            return Ok(None);
        };
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
        Ok(self.chain_of(tx, key)?.remove(tx, key)?.map(|[value]| value))
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
            self.chain(chain)?.scan(tx, |key, &[value]| visit(key, value))?;
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
        let mask = hash::mask(self.chains())?;
        let end = from.saturating_add(most.max(1)).min(self.chains());
        for chain in from..end {
            let stray = |key| {
                let home = hash::home(key, self.seed, mask);
                (home != chain).then_some(Damage::Stray { chain, key, home })
            };
            self.chain(chain)?.check(tx, &mut answer, stray)?;
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

    /// The chain where a key belongs.
    #[inline]
    fn home(self, key: u64) -> Result<u64, Stop> {
        Ok(hash::home(key, self.seed, hash::mask(self.chains())?))
    }

    /// The chain where a key belongs, as a list.
    #[inline]
    fn chain_of<W: Words>(self, tx: &mut W, key: u64) -> Result<Chain<1>, Stop> {
        tx.compute(work::HASH);
        self.chain(self.home(key)?)
    }

    #[inline]
    fn chain(self, chain: u64) -> Result<Chain<1>, Stop> {
        self.head(chain).map(Chain::at)
    }

    /// The word that leads to a chain's first entry.
    #[inline]
    fn head(self, chain: u64) -> Result<Addr, Stop> {
        Ok(self.chains.at(chain)?.addr())
    }
}
