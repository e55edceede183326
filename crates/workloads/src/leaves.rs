//! A B+-tree with sorted leaves, as in textbooks: a change shifts the keys after it.
//!
//! ```text
//! inner nodes: a B+-tree      not a leaf's least key -> leaf      the least of the first one is 0
//! leaf, an object             | count | 63 keys, ascending | their values |
//! ```
//!
//! The [`BTreeMap`]'s own leaves have an order over slots, so that a change writes few words. SSP's
//! benchmark writes several lines of a page, as sorted leaves do. A full leaf is split in halves.
//! An empty leaf is removed, except the first. Others are not joined: under random inserts and
//! removals each gets as many of either.
//!
//! Invariant: each leaf but the first began as a half of a full one, and its range only gets
//! smaller by further halving. Each therefore has room for [`HALF`] keys in its range.

use std::ops::ControlFlow;

use collections::raw::BTreeMap;
use words::{Addr, Allocate, Stop, Transact, Words, work};
use zerocopy::transmute;

use crate::keys::{mix, unmix};
use crate::ticket_map::TicketMap;
use crate::tree;
use crate::violation::{Violation, Violations};

/// Keys of a full leaf, and of the smaller half.
const SLOTS: usize = 63;
const HALF: usize = SLOTS / 2;

/// Offset of the keys, in bytes.
const KEYS: u64 = 8;
const VALUES: u64 = KEYS + 8 * SLOTS as u64;
const BYTES: usize = VALUES as usize + 8 * SLOTS;

/// Bytes of a leaf in the heap, header included.
const SLOT_BYTES: u64 = 1040;

/// Leaves that one transaction frees.
const STEP: usize = 64;

/// Pairs of the inner nodes that one transaction of a check reads.
const CHECKED: u64 = 1024;

/// A tree.
#[derive(Clone, Copy, Debug)]
pub struct Leaves {
    inner: BTreeMap,
}

/// A leaf that was read.
struct Leaf {
    object: u64,
    /// Lower bound of its keys.
    least: u64,
    count: usize,
}

impl Leaf {
    fn create<W: Allocate>(tx: &mut W, least: u64) -> Result<Leaf, Stop> {
        let object = tx.allocate(BYTES)?;
        // Write every word: a split reads the whole leaf.
        tx.write_words(Addr::new(object, 0), &[0; BYTES / 8])?;
        Ok(Leaf { object, least, count: 0 })
    }

    fn key(&self, slot: usize) -> Addr {
        Addr::new(self.object, KEYS + 8 * slot as u64)
    }

    fn value(&self, slot: usize) -> Addr {
        Addr::new(self.object, VALUES + 8 * slot as u64)
    }

    /// Returns how many keys are smaller, and whether the next one is this.
    fn search<W: Words>(&self, tx: &mut W, key: u64) -> Result<(usize, bool), Stop> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let half = from.midpoint(to);
            tx.compute(work::COMPARE);
            match tx.read(self.key(half))? {
                found if found == key => return Ok((half, true)),
                found if found < key => from = half + 1,
                _ => to = half,
            }
        }
        Ok((from, false))
    }

    /// Moves the slots from `from` on to `to`.
    fn shift<W: Words>(&self, tx: &mut W, from: usize, to: usize) -> Result<(), Stop> {
        let (mut words, len) = ([0; SLOTS], self.count - from);
        if len == 0 {
            return Ok(()); // designs refuse a run of no words
        }
        for place in [Leaf::key, Leaf::value] {
            tx.read_words(place(self, from), &mut words[..len])?;
            tx.write_words(place(self, to), &words[..len])?;
        }
        Ok(())
    }

    fn set_count<W: Words>(&mut self, tx: &mut W, count: usize) -> Result<(), Stop> {
        self.count = count;
        tx.write(Addr::new(self.object, 0), count as u64)
    }

    /// Inserts a pair at its place; the leaf has room.
    fn put<W: Words>(&mut self, tx: &mut W, key: u64, value: u64) -> Result<(), Stop> {
        tx.compute(work::LINK);
        let (rank, _) = self.search(tx, key)?;
        self.shift(tx, rank, rank + 1)?;
        tx.write(self.key(rank), key)?;
        tx.write(self.value(rank), value)?;
        self.set_count(tx, self.count + 1)
    }

    /// Moves the greater half to a new leaf.
    fn split<W: Allocate>(&mut self, tx: &mut W) -> Result<Leaf, Stop> {
        let least = tx.read(self.key(SLOTS - HALF))?;
        let mut right = Leaf::create(tx, least)?;
        let mut words = [0; HALF];
        for place in [Leaf::key, Leaf::value] {
            tx.read_words(place(self, SLOTS - HALF), &mut words)?;
            tx.write_words(place(&right, 0), &words)?;
        }
        right.set_count(tx, HALF)?;
        self.set_count(tx, SLOTS - HALF)?;
        Ok(right)
    }
}

impl Leaves {
    /// Returns the leaf where a key belongs.
    fn leaf<W: Words>(self, tx: &mut W, key: u64) -> Result<Leaf, Stop> {
        let mut found = None;
        self.inner.range(tx, !key.., |not_least, object| {
            found = Some((!not_least, object));
            ControlFlow::Break(())
        })?;
        let (least, object) = found.ok_or(Stop::BadValue)?;
        tx.compute(work::NODE);
        let count = tx.read(Addr::new(object, 0))?;
        if count > SLOTS as u64 {
            return Err(Stop::BadValue);
        }
        Ok(Leaf { object, least, count: count as usize })
    }
}

impl TicketMap for Leaves {
    fn heap_bytes(end: u64) -> u64 {
        let leaves = end / HALF as u64 + 2;
        leaves * SLOT_BYTES + tree::bytes_changing::<28>(leaves)
    }

    fn reserve<W: Allocate>(tx: &mut W, _end: u64) -> Result<Leaves, Stop> {
        let inner = BTreeMap::create(tx)?;
        let first = Leaf::create(tx, 0)?;
        inner.insert(tx, !0, first.object)?;
        Ok(Leaves { inner })
    }

    fn prepare<W: Allocate>(self, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }

    fn find<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<Addr>, Stop> {
        let key = mix(number);
        let leaf = self.leaf(tx, key)?;
        let (rank, is_there) = leaf.search(tx, key)?;
        Ok(is_there.then(|| leaf.value(rank)))
    }

    fn insert<W: Allocate>(self, tx: &mut W, number: u64, value: u64) -> Result<Option<u64>, Stop> {
        let key = mix(number);
        let mut leaf = self.leaf(tx, key)?;
        let (rank, is_there) = leaf.search(tx, key)?;
        if is_there {
            let before = tx.read(leaf.value(rank))?;
            tx.write(leaf.value(rank), value)?;
            return Ok(Some(before));
        }
        if leaf.count == SLOTS {
            let right = leaf.split(tx)?;
            self.inner.insert(tx, !right.least, right.object)?;
            if key >= right.least {
                leaf = right;
            }
        }
        leaf.put(tx, key, value)?;
        Ok(None)
    }

    fn remove<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        let key = mix(number);
        let mut leaf = self.leaf(tx, key)?;
        let (rank, is_there) = leaf.search(tx, key)?;
        if !is_there {
            return Ok(None);
        }
        tx.compute(work::LINK);
        let value = tx.read(leaf.value(rank))?;
        leaf.shift(tx, rank + 1, rank)?;
        leaf.set_count(tx, leaf.count - 1)?;
        if leaf.count == 0 && leaf.least > 0 {
            self.inner.remove(tx, !leaf.least)?;
            tx.retire(Addr::new(leaf.object, 0), BYTES as u64)?;
        }
        Ok(Some(value))
    }

    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error> {
        let (mut leaves, mut found) = (Vec::new(), Violations::default());
        let visit = |_: &mut T, pairs: &[(u64, u64)], _: &mut Violations| {
            leaves.extend(pairs.iter().map(|&(not_least, object)| (!not_least, object)));
            Ok(())
        };
        let is_sound = tree::check(worker, self.inner, CHECKED, &mut found, visit)?;
        violations.extend(found.0);
        if !is_sound {
            return Ok(None);
        }
        let (mut all, mut end) = (Vec::new(), u64::MAX);
        // From the greatest down: the first leaf is in no inner node.
        for (least, object) in leaves {
            let pairs = worker.transact(|tx| {
                let mut words = [0; BYTES / 8];
                tx.read_words(Addr::new(object, 0), &mut words)?;
                let count = words[0] as usize;
                if count > SLOTS {
                    return Err(Stop::BadValue);
                }
                let (keys, values) = words[1..].split_at(SLOTS);
                Ok(keys.iter().copied().zip(values.iter().copied()).take(count).collect::<Vec<_>>())
            })?;
            let mut from = least;
            for &(key, _) in &pairs {
                if key < from || key > end {
                    violations.push(Violation::Key { end, found: key });
                }
                from = key.saturating_add(1);
            }
            all.extend(pairs.into_iter().map(|(key, value)| (unmix(key), value)));
            end = least.wrapping_sub(1);
        }
        Ok(Some(all))
    }

    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        let mut leaves = Vec::new();
        self.inner.range(tx, .., |key, object| {
            leaves.push((key, object));
            if leaves.len() < STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        for &(key, object) in &leaves {
            tx.retire(Addr::new(object, 0), BYTES as u64)?;
            self.inner.remove(tx, key)?;
        }
        if leaves.is_empty() { self.inner.free(tx, STEP as u64) } else { Ok(false) }
    }

    fn to_words(self) -> [u64; 3] {
        [transmute!(self.inner), 0, 0]
    }

    fn from_words([root, ..]: [u64; 3]) -> Leaves {
        Leaves { inner: transmute!(root) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap as Model;

    use words::mock::Mock;

    use super::*;

    #[test]
    fn sorted_leaves_match_std() {
        let mut mock = Mock::new(1 << 22);
        let tree = mock.transact(|tx| Leaves::reserve(tx, 0)).unwrap();
        let (mut model, mut random) = (Model::new(), 7_u64);
        for step in 0..6000_u64 {
            random = mix(random);
            let number = random % 900;
            // It grows, shrinks to nothing, and grows again.
            if random >> 40 & 3 > u64::from(step / 2000 == 1) * 3 || step / 2000 == 2 {
                let before = mock.transact(|tx| tree.insert(tx, number, step)).unwrap();
                assert_eq!(before, model.insert(number, step));
            } else {
                let number = model.range(number..).next().map_or(number, |(&number, _)| number);
                let before = mock.transact(|tx| tree.remove(tx, number)).unwrap();
                assert_eq!(before, model.remove(&number));
            }
            let found = mock.transact(|tx| {
                let at = tree.find(tx, number)?;
                at.map(|at| tx.read(at)).transpose()
            });
            assert_eq!(found.unwrap(), model.get(&number).copied());
        }
        let mut violations = Vec::new();
        let mut pairs = tree.pairs(&mut mock, &mut violations).unwrap().unwrap();
        pairs.sort_unstable();
        assert_eq!(violations, []);
        assert_eq!(pairs, model.into_iter().collect::<Vec<_>>());
        while !mock.transact(|tx| tree.free(tx)).unwrap() {}
        assert_eq!(mock.objects(), 0);
    }
}
