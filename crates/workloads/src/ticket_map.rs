//! Indexes from a key's number to the ticket of its object, over which one workload can run.

use collections::raw::{BTree, ChainedMap, RbTree, whole};
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words};
use zerocopy::transmute;

use crate::keys::{mix, unmix};
use crate::tree;
use crate::violation::{Violation, Violations};

/// Blocks or nodes that one transaction prepares or frees.
const STEP: u64 = 256;

/// Chains, leaves or nodes that one transaction of a check reads.
const CHECKED: u64 = 1024;

/// A node of a B-tree of order 8: at most 8 children.
pub(crate) type Order8 = BTree<7>;

/// A map from numbers to tickets, which are never 0.
pub trait TicketMap: Copy + Send + Sync + 'static {
    /// Returns the heap bytes for numbers below `end`, headers included.
    fn heap_bytes(end: u64) -> u64;

    /// Reserves an index for numbers below `end`.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn reserve<W: Allocate>(tx: &mut W, end: u64) -> Result<Self, Stop>;

    /// Prepares it by one step; returns whether it is ready.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop>;

    /// Returns the place of a number's ticket, which is valid until the next change; a ticket of 0
    /// means that the number is missing.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn find<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<Addr>, Stop>;

    /// Returns the place of an unused word, on a line that each change of this number writes
    /// anyway; `None` without such a line.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] in a damaged structure.
    #[inline]
    fn mark(self, number: u64) -> Result<Option<Addr>, Stop> {
        let _ = number;
        Ok(None)
    }

    /// Hints that this number will be inserted or removed soon.
    #[inline]
    fn will_change<W: Words>(self, tx: &mut W, number: u64) {
        let _ = (tx, number);
    }

    /// Inserts a number's ticket; returns the old one.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    fn insert<W: Allocate>(self, tx: &mut W, number: u64, ticket: u64)
    -> Result<Option<u64>, Stop>;

    /// Removes a number; returns its ticket.
    ///
    /// # Errors
    /// As [`Words::write`].
    fn remove<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop>;

    /// Checks the structure; returns all numbers and tickets, `None` for a damaged one.
    ///
    /// # Errors
    /// The error of a transaction.
    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error>;

    /// Frees a part, prepared or not; returns whether that was all.
    ///
    /// # Errors
    /// As [`Words::write`].
    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop>;

    /// Encodes it for the workload's tables, which have one layout for every structure.
    fn to_words(self) -> [u64; 3];

    /// Decodes it from the workload's tables.
    fn from_words(words: [u64; 3]) -> Self;
}

/// A vector: a number is an index into it.
impl TicketMap for Array<u64> {
    fn heap_bytes(end: u64) -> u64 {
        end.div_ceil(32) * BLOCK_STRIDE
    }

    fn reserve<W: Allocate>(tx: &mut W, end: u64) -> Result<Array<u64>, Stop> {
        Array::reserve(tx, end)
    }

    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.prepare(tx, STEP)
    }

    #[inline]
    fn find<W: Words>(self, _tx: &mut W, number: u64) -> Result<Option<Addr>, Stop> {
        Ok(Some(self.at(number)?.addr()))
    }

    #[inline]
    fn will_change<W: Words>(self, tx: &mut W, number: u64) {
        if let Ok(place) = self.at(number) {
            tx.will_write(place.addr(), 8);
        }
    }

    #[inline]
    fn insert<W: Allocate>(
        self,
        tx: &mut W,
        number: u64,
        ticket: u64,
    ) -> Result<Option<u64>, Stop> {
        let at = self.at(number)?.addr();
        let before = tx.read(at)?;
        tx.write(at, ticket)?;
        Ok((before != 0).then_some(before))
    }

    #[inline]
    fn remove<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        let at = self.at(number)?.addr();
        let before = tx.read(at)?;
        tx.write(at, 0)?;
        Ok((before != 0).then_some(before))
    }

    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        _violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error> {
        let mut pairs = Vec::new();
        for first in (0..self.len()).step_by(CHECKED as usize) {
            let found = worker.transact(|tx| {
                let numbers = first..(first + CHECKED).min(self.len());
                numbers.map(|number| Ok((number, tx.read(self.at(number)?.addr())?))).collect()
            });
            let found: Vec<(u64, u64)> = found?;
            pairs.extend(found.into_iter().filter(|&(_, ticket)| ticket != 0));
        }
        Ok(Some(pairs))
    }

    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.free(tx).map(|()| true)
    }

    fn to_words(self) -> [u64; 3] {
        let [first, len]: [u64; 2] = transmute!(self);
        [first, len, 0]
    }

    fn from_words([first, len, _]: [u64; 3]) -> Array<u64> {
        transmute!([first, len])
    }
}

/// A hash table of chains.
impl TicketMap for ChainedMap {
    fn heap_bytes(end: u64) -> u64 {
        let chains = end.next_power_of_two().max(32);
        chains / 32 * BLOCK_STRIDE + end * 64
    }

    fn reserve<W: Allocate>(tx: &mut W, end: u64) -> Result<ChainedMap, Stop> {
        ChainedMap::reserve(tx, end, 0)
    }

    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.prepare(tx, STEP)
    }

    #[inline]
    fn find<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<Addr>, Stop> {
        self.find(tx, number)
    }

    #[inline]
    fn will_change<W: Words>(self, tx: &mut W, number: u64) {
        self.will_insert(tx, number);
    }

    #[inline]
    fn insert<W: Allocate>(
        self,
        tx: &mut W,
        number: u64,
        ticket: u64,
    ) -> Result<Option<u64>, Stop> {
        self.insert(tx, number, ticket)
    }

    #[inline]
    fn remove<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.remove(tx, number)
    }

    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error> {
        let answer = whole(worker, |tx, from| self.check(tx, from, CHECKED))?;
        if !answer.damage.is_empty() {
            violations.extend(answer.damage.into_iter().map(Violation::Structure));
            return Ok(None); // a scan may end in a less specific `Stop`
        }
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(chain) = from {
            let (pairs, next) = worker.transact(|tx| {
                let mut pairs = Vec::new();
                let visit = |key, value| pairs.push((key, value));
                let next = self.scan(tx, chain, CHECKED, visit)?;
                Ok((pairs, next))
            })?;
            all.extend(pairs);
            from = next;
        }
        Ok(Some(all))
    }

    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        // Unprepared blocks cannot be read. Each chain passed counts as an entry.
        Ok(self.prepare(tx, STEP)? && self.free(tx, 0, STEP + self.chains())?.is_none())
    }

    fn to_words(self) -> [u64; 3] {
        transmute!(self)
    }

    fn from_words(words: [u64; 3]) -> ChainedMap {
        transmute!(words)
    }
}

/// A B+-tree. Its keys are numbers mixed, so that neighbours in number are far apart.
impl<const SLOTS: usize> TicketMap for BTree<SLOTS> {
    fn heap_bytes(end: u64) -> u64 {
        tree::bytes_changing::<SLOTS>(end)
    }

    fn reserve<W: Allocate>(tx: &mut W, _end: u64) -> Result<BTree<SLOTS>, Stop> {
        BTree::create(tx)
    }

    fn prepare<W: Allocate>(self, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }

    #[inline]
    fn find<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<Addr>, Stop> {
        self.find(tx, mix(number))
    }

    #[inline]
    fn insert<W: Allocate>(
        self,
        tx: &mut W,
        number: u64,
        ticket: u64,
    ) -> Result<Option<u64>, Stop> {
        self.insert(tx, mix(number), ticket)
    }

    #[inline]
    fn remove<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.remove(tx, mix(number))
    }

    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error> {
        let (mut all, mut found) = (Vec::new(), Violations::default());
        let visit = |_: &mut T, pairs: &[(u64, u64)], _: &mut Violations| {
            all.extend(pairs.iter().map(|&(key, ticket)| (unmix(key), ticket)));
            Ok(())
        };
        let is_sound = tree::check(worker, self, CHECKED, &mut found, visit)?;
        violations.extend(found.0);
        Ok(is_sound.then_some(all))
    }

    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.free(tx, STEP)
    }

    fn to_words(self) -> [u64; 3] {
        [transmute!(self), 0, 0]
    }

    fn from_words([root, ..]: [u64; 3]) -> BTree<SLOTS> {
        transmute!(root)
    }
}

/// A red-black tree. Its keys are numbers mixed.
impl TicketMap for RbTree {
    fn heap_bytes(end: u64) -> u64 {
        end * 64
    }

    fn reserve<W: Allocate>(tx: &mut W, _end: u64) -> Result<RbTree, Stop> {
        RbTree::create(tx)
    }

    fn prepare<W: Allocate>(self, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }

    #[inline]
    fn find<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<Addr>, Stop> {
        self.find(tx, mix(number))
    }

    #[inline]
    fn insert<W: Allocate>(
        self,
        tx: &mut W,
        number: u64,
        ticket: u64,
    ) -> Result<Option<u64>, Stop> {
        self.insert(tx, mix(number), ticket)
    }

    #[inline]
    fn remove<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.remove(tx, mix(number))
    }

    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error> {
        let answer = whole(worker, |tx, from| self.check(tx, from, CHECKED))?;
        if !answer.damage.is_empty() {
            violations.extend(answer.damage.into_iter().map(Violation::Structure));
            return Ok(None);
        }
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let (pairs, next) = worker.transact(|tx| {
                let (mut pairs, mut next) = (Vec::new(), Some(first));
                while let Some(key) = next.filter(|_| (pairs.len() as u64) < CHECKED) {
                    let found = self.ceiling(tx, key)?;
                    pairs.extend(found.map(|(key, ticket)| (unmix(key), ticket)));
                    next = found.and_then(|(key, _)| key.checked_add(1));
                }
                Ok((pairs, next))
            })?;
            all.extend(pairs);
            from = next;
        }
        Ok(Some(all))
    }

    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.free(tx, STEP)
    }

    fn to_words(self) -> [u64; 3] {
        [transmute!(self), 0, 0]
    }

    fn from_words([anchor, ..]: [u64; 3]) -> RbTree {
        transmute!(anchor)
    }
}
