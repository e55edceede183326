//! A node of the B+-tree: its layout, searches and changes.
//!
//! ```text
//!   slots    15  28  31
//!   byte      0   0   0  count (8 bits) | level (8) | slots of the 1st to 6th key, 8 bits each
//!             8   8   8  slots of the 7th to 14th key
//!            16  16  16  slots of the 15th to 22nd
//!                24  24  slots of the 23rd to 30th
//!                    32  slot of the 31st
//!            24  32  40  link: the next leaf (0: none), or the leftmost child
//!                40      0
//!            32  48  48  key of slot 0, 1, ...
//!           152 272 296  value, or child to the right of the key, of slot 0, 1, ...
//!           272 496 544  end
//! ```
//!
//! The order is padded with 0. With its 16-byte header a node of 28 slots takes 512 bytes, and its
//! keys begin at a cache line when the allocator aligns it so. A node of 15 takes 288 (allocator
//! class 320), one of 31 takes 560 (640). The order holds every slot once: first the `count` used
//! slots in the order of their keys, then the free ones.

use std::hint::select_unpredictable;

use words::{Addr, Allocate, Seen, Stop, Words, work};

/// Words of the longest head, without the link.
const HEAD_MOST: usize = 5;

/// Entries in the largest full node.
pub(super) const SLOTS_MOST: usize = 8 * HEAD_MOST - FIRST;

/// Levels of a tree, leaves included. No machine holds the 6^14 nodes of the smallest tree of 15
/// slots with more. A tree of 7 slots may reach the limit at 2 * 3^14 leaves, ten million, where
/// insertion reports that it is full; random keys, which fill nodes to two thirds, reach 10^10.
pub(super) const LEVELS: usize = 16;

const _: () = assert!(Node::<28>::BYTES + words::HEADER_BYTES as usize == 512);

/// Index of the order's first byte in the head, after count and level.
const FIRST: usize = 2;

/// The count that marks a node that was merged away.
const DEAD: u64 = 255;

/// A key and its value, or its right child.
pub(super) type Entry = (u64, u64);

/// A node's head, read or about to be written; keys and values are read one by one.
#[derive(Clone, Copy)]
pub(super) struct Node<const SLOTS: usize> {
    /// First byte of the node's object.
    pub(super) object: u64,
    /// The next leaf, or the leftmost child; 0 is none.
    pub(super) link: u64,
    /// The version that was read.
    seen: Seen,
    /// The head as read.
    before: Head,
    head: Head,
}

/// The words of a head, of which the first [`Node::HEAD`] are in the node.
type Head = [u64; HEAD_MOST];

/// The bytes of a head.
type Order = [u8; 8 * HEAD_MOST];

/// The place of a key in a node.
pub(super) struct Found {
    /// Number of the node's keys that are not above the key.
    pub(super) rank: usize,
    /// The slot of the last of them; meaningless when there is none.
    pub(super) slot: usize,
    /// Whether that key is the searched key.
    pub(super) exact: bool,
}

impl<const SLOTS: usize> Node<SLOTS> {
    /// Words of the head, without the link.
    const HEAD: usize = {
        assert!(SLOTS <= SLOTS_MOST, "slots are numbered in five words at most");
        assert!(SLOTS >= 7, "a node of the fewest entries still has a neighbour to share with");
        (FIRST + SLOTS).div_ceil(8)
    };
    const LINK: u64 = 8 * Self::HEAD as u64;
    const KEYS: u64 = (Self::LINK + 8).next_multiple_of(16);
    const VALUES: u64 = Self::KEYS + 8 * SLOTS as u64;

    /// Size of a node's object in bytes, without its header of 16 bytes.
    pub(super) const BYTES: usize = Self::VALUES as usize + 8 * SLOTS;

    /// Fewest entries of a node that is not the root. A node below that is joined with a neighbour
    /// when both have at most [`JOINED_MOST`](Self::JOINED_MOST); else the two share evenly. Either
    /// way several operations pass before the same nodes are rebuilt again.
    pub(super) const LEAST: usize = SLOTS / 3;

    /// Most entries of two nodes that are joined into one.
    pub(super) const JOINED_MOST: usize = SLOTS * 6 / 7;

    /// Reads the head of the node at `at`, which must be at `level`.
    #[inline(always)]
    pub(super) fn open<W: Words>(tx: &mut W, at: Addr, level: usize) -> Result<Self, Stop> {
        let node = Self::peek(tx, at.object)?;
        if node.count() > SLOTS || node.level() != level {
            return Err(Stop::BadValue);
        }
        Ok(node)
    }

    /// Reads the head of the root, which holds the tree's height.
    #[inline(always)]
    pub(super) fn open_root<W: Words>(tx: &mut W, at: Addr) -> Result<Self, Stop> {
        let node = Self::peek(tx, at.object)?;
        if node.count() > SLOTS || node.level() >= LEVELS {
            return Err(Stop::BadValue);
        }
        Ok(node)
    }

    /// Reads a head and trusts no byte of it. Inlined, so that a search copies no head.
    #[inline(always)]
    pub(super) fn peek<W: Words>(tx: &mut W, object: u64) -> Result<Self, Stop> {
        tx.compute(work::NODE);
        let (mut words, mut head) = ([0; HEAD_MOST + 1], [0; HEAD_MOST]);
        let seen = tx.look(object)?;
        tx.read_words_seen(seen, 0, &mut words[..=Self::HEAD])?;
        head[..Self::HEAD].copy_from_slice(&words[..Self::HEAD]);
        Ok(Node { object, link: words[Self::HEAD], seen, before: head, head })
    }

    /// Creates a node with these entries, at most `SLOTS`, in slots 0, 1, ...
    pub(super) fn create<W: Allocate>(
        tx: &mut W,
        level: usize,
        link: u64,
        entries: &[Entry],
    ) -> Result<Self, Stop> {
        let object = tx.allocate(Self::BYTES)?;
        let mut order = [0; 8 * HEAD_MOST];
        order[0] = entries.len() as u8;
        order[1] = level as u8;
        for slot in 0..SLOTS {
            order[FIRST + slot] = slot as u8;
        }
        let head = head_of(order);
        let seen = Seen { object, version: 0 };
        let mut node = Node { object, link, seen, before: head, head };
        tx.will_write(node.addr(), Self::BYTES);
        let mut words = [0; HEAD_MOST + 1];
        words[..Self::HEAD].copy_from_slice(&head[..Self::HEAD]);
        words[Self::HEAD] = link;
        tx.write_words(node.addr(), &words[..Self::KEYS as usize / 8])?;
        node.seen = tx.look(object)?;
        if entries.is_empty() {
            return Ok(node); // designs refuse a run of no words
        }
        let (mut keys, mut values) = ([0; SLOTS], [0; SLOTS]);
        for (i, (key, value)) in entries.iter().enumerate() {
            (keys[i], values[i]) = (*key, *value);
        }
        tx.write_words(node.key_at(0), &keys[..entries.len()])?;
        tx.write_words(node.value_at(0), &values[..entries.len()])?;
        Ok(node)
    }

    /// Returns a byte of the head.
    #[inline(always)]
    fn byte(&self, number: usize) -> usize {
        (self.head[number / 8] >> (8 * (number % 8))) as u8 as usize
    }

    /// Changes the head's bytes, in memory only.
    fn change(&mut self, change: impl FnOnce(&mut Order)) {
        let mut order = order_of(self.head);
        change(&mut order);
        self.head = head_of(order);
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.byte(0)
    }

    #[inline]
    pub(super) fn level(&self) -> usize {
        self.byte(1)
    }

    #[inline]
    pub(super) fn addr(&self) -> Addr {
        Addr::new(self.object, 0)
    }

    #[inline]
    pub(super) fn key_at(&self, slot: usize) -> Addr {
        Addr::new(self.object, Self::KEYS + 8 * slot as u64)
    }

    #[inline]
    pub(super) fn value_at(&self, slot: usize) -> Addr {
        Addr::new(self.object, Self::VALUES + 8 * slot as u64)
    }

    /// Returns the slot at a position of the order, unchecked.
    #[inline]
    pub(super) fn raw_slot(&self, position: usize) -> usize {
        if position < SLOTS_MOST { self.byte(FIRST + position) } else { SLOTS_MOST }
    }

    /// Returns the slot at a position of the order, checked: a write into a slot beyond the node
    /// would damage another object.
    #[inline]
    pub(super) fn slot(&self, position: usize) -> Result<usize, Stop> {
        let slot = self.raw_slot(position);
        if slot < SLOTS { Ok(slot) } else { Err(Stop::BadValue) }
    }

    /// Binary search: reads 5 keys of a full node of 28. The node must be unwritten since its head
    /// was read.
    #[inline]
    pub(super) fn search<W: Words>(&self, tx: &mut W, key: u64) -> Result<Found, Stop> {
        let (mut rank, mut slot, mut exact) = (0, 0, false);
        let mut left = self.count();
        while left > 0 {
            let half = left / 2;
            let here = self.slot(rank + half)?;
            let found = tx.read_seen(self.seen, self.key_at(here).offset)?;
            // No branch on the key: its outcome is random.
            let not_above = found <= key;
            rank = select_unpredictable(not_above, rank + half + 1, rank);
            left = select_unpredictable(not_above, left - half - 1, half);
            slot = select_unpredictable(not_above, here, slot);
            exact |= found == key;
            tx.after_last_read();
            tx.compute(work::COMPARE);
        }
        Ok(Found { rank, slot, exact })
    }

    /// Returns the child where a searched key belongs.
    #[inline]
    pub(super) fn child<W: Words>(&self, tx: &mut W, found: &Found) -> Result<Addr, Stop> {
        let object = if found.rank == 0 { self.link } else { self.value(tx, found)? };
        tx.after_last_read();
        Ok(Addr::new(object, 0))
    }

    /// Returns the value, or the right child, of the entry that a search has found, in a node that
    /// is unwritten since.
    #[inline]
    pub(super) fn value<W: Words>(&self, tx: &mut W, found: &Found) -> Result<u64, Stop> {
        tx.read_seen(self.seen, self.value_at(found.slot).offset)
    }

    /// Returns the child before entry `index`; `index == count` is the last child.
    pub(super) fn child_at<W: Words>(&self, tx: &mut W, index: usize) -> Result<Addr, Stop> {
        match index.checked_sub(1) {
            None => Ok(Addr::new(self.link, 0)),
            Some(before) => Ok(Addr::new(tx.read(self.value_at(self.slot(before)?))?, 0)),
        }
    }

    pub(super) fn entry<W: Words>(&self, tx: &mut W, position: usize) -> Result<Entry, Stop> {
        let slot = self.slot(position)?;
        Ok((tx.read(self.key_at(slot))?, tx.read(self.value_at(slot))?))
    }

    /// Inserts an entry at a position of the order, into a free slot of a node that is not full.
    /// The head changes in memory only.
    pub(super) fn put<W: Words>(
        &mut self,
        tx: &mut W,
        position: usize,
        entry: Entry,
    ) -> Result<(), Stop> {
        let count = self.count();
        if count >= SLOTS || position > count {
            return Err(Stop::BadValue);
        }
        let slot = self.slot(count)?;
        tx.write(self.key_at(slot), entry.0)?;
        tx.write(self.value_at(slot), entry.1)?;
        self.change(|order| {
            order.copy_within(FIRST + position..FIRST + count, FIRST + position + 1);
            order[FIRST + position] = slot as u8;
            order[0] += 1;
        });
        Ok(())
    }

    /// Removes the entries of these positions and frees their slots, in memory only.
    pub(super) fn take(&mut self, from: usize, to: usize) {
        let count = self.count();
        // Move `from..to` after the entries that stay, where the free slots begin.
        self.change(|order| {
            order[FIRST + from..FIRST + count].rotate_left(to - from);
            order[0] = (count - (to - from)) as u8;
        });
    }

    /// Turns a leaf into an inner node, in memory only.
    pub(super) fn set_level(&mut self, level: usize) {
        self.change(|order| order[1] = level as u8);
    }

    /// Writes the words of the head that changed since it was read.
    pub(super) fn store<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::ARRANGE);
        for (i, (new, old)) in self.head.iter().zip(self.before).enumerate() {
            if *new != old {
                tx.write(self.addr().plus(8 * i as u64), *new)?;
            }
        }
        Ok(())
    }

    /// Writes a new link.
    pub(super) fn store_link<W: Words>(&mut self, tx: &mut W, link: u64) -> Result<(), Stop> {
        self.link = link;
        tx.write(self.addr().plus(Self::LINK), link)
    }

    /// Frees the node. It is written first, so that a concurrent transaction that changes it
    /// conflicts in every design.
    pub(super) fn discard<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        tx.write(self.addr(), DEAD)?;
        tx.retire(self.addr(), Self::BYTES as u64)
    }
}

#[inline]
fn order_of(head: Head) -> Order {
    let mut order = [0; 8 * HEAD_MOST];
    for (i, word) in head.into_iter().enumerate() {
        order[8 * i..][..8].copy_from_slice(&word.to_le_bytes());
    }
    order
}

#[inline]
fn head_of(order: Order) -> Head {
    let (words, _) = order.as_chunks();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}
