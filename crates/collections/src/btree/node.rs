//! A node of the tree: its layout, searches and changes.
//!
//! ```text
//!   63      48 47      32 31    24 23    16 15     8 7      0
//!   | MARK    | skip     | !slots | slots  | level  | count  |   word 0
//!   | slots of the 1st to 8th key, 8 bits each               |   order: a byte a slot
//!   ...
//!   | head of slot 0 |, | head of slot 1 |, ...                  8 bytes of a key or separator
//!   | value or pointers of slot 0 |, ...                         0 to 4 words
//! ```
//!
//! The order has each slot once: first the `count` used slots in the order of their keys, then the
//! free ones. An insert therefore writes one slot and some words of order, as in
//! [`raw`](crate::raw), whose docs have the measurements.
//!
//! A head has the 8 bytes of a key after the first `skip`, which all keys of the node share.

use std::hint::select_unpredictable;

use words::{Addr, Allocate, Seen, Stop, Words, work};

use super::form::{Form, VALUE_WORDS};

/// Marks a node: "bt".
const MARK: u64 = 0x6274;

/// The first word of a node that was freed.
const DEAD: u64 = 0;

/// Levels of a tree, leaves included. No machine holds the nodes of a full tree with more.
pub(super) const LEVELS: usize = 16;

/// Slots of the smallest leaf. Such a leaf has [`HEAD_WORDS`] words or more, which are read at
/// once.
pub(super) const SLOTS_LEAST: usize = 6;

/// Most slots of a node.
pub(super) const SLOTS_MOST: usize = 56;

/// The first word and the longest order.
const HEAD_WORDS: usize = 1 + SLOTS_MOST / 8;

/// Most words of a node.
pub(super) const WORDS_MOST: usize = 126;

const _: () = assert!(8 * WORDS_MOST + words::HEADER_BYTES as usize == words::OBJECT_BYTES_MAX);
const _: () = assert!(bytes(SLOTS_LEAST, 0) == 8 * HEAD_WORDS);

type Head = [u64; HEAD_WORDS];

/// The content of a slot, of which the node's form decides the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) head: u64,
    pub(super) rest: [u64; VALUE_WORDS],
}

/// A node whose order was read, and may be about to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// First byte of the node's object.
    pub(super) object: u64,
    /// Words of a slot after its head.
    width: usize,
    /// The version that was read.
    seen: Seen,
    /// The first words.
    head: Head,
    /// Those that changed since they were read: a bit each.
    changed: u8,
}

/// Returns the bytes of a node.
pub(super) const fn bytes(slots: usize, width: usize) -> usize {
    8 * (1 + slots.div_ceil(8) + slots * (1 + width))
}

impl Node {
    /// Opens a node that is not the root.
    #[inline(always)]
    pub(super) fn open<W: Words>(
        tx: &mut W,
        form: Form,
        object: u64,
        level: usize,
    ) -> Result<Node, Stop> {
        let node = Node::open_root(tx, form, object)?;
        if node.level() != level || node.count() == 0 || node.slots() != form.slots(level) {
            return Err(Stop::BadValue);
        }
        Ok(node)
    }

    /// Opens the root, which may be a small or an empty leaf.
    #[inline(always)]
    pub(super) fn open_root<W: Words>(tx: &mut W, form: Form, object: u64) -> Result<Node, Stop> {
        tx.compute(work::NODE);
        let mut head = [0; HEAD_WORDS];
        let seen = tx.look(object)?;
        tx.read_words_seen(seen, 0, &mut head)?;
        let mut node = Node { object, width: 0, seen, head, changed: 0 };
        let (level, slots) = (node.level(), node.slots());
        let is_sound = head[0] >> 48 == MARK
            && node.byte(2) ^ node.byte(3) == 0xff
            && level < LEVELS
            && node.count() <= slots
            && match slots.cmp(&form.slots(level)) {
                std::cmp::Ordering::Less => level == 0 && slots >= SLOTS_LEAST,
                order => order.is_eq(),
            };
        if !is_sound {
            return Err(Stop::BadValue);
        }
        node.width = form.width(level);
        Ok(node)
    }

    /// Creates a node with these items, whose heads come after `skip` bytes of their keys.
    pub(super) fn create<W: Allocate>(
        tx: &mut W,
        form: Form,
        (level, slots, skip): (usize, usize, usize),
        items: &[Item],
    ) -> Result<u64, Stop> {
        let width = form.width(level);
        let object = tx.allocate(bytes(slots, width))?;
        tx.will_write(Addr::new(object, 0), bytes(slots, width));
        let mut words = [0; WORDS_MOST];
        words[0] = MARK << 48
            | (skip as u64) << 32
            | (slots as u64 ^ 0xff) << 24
            | (slots as u64) << 16
            | (level as u64) << 8
            | items.len() as u64;
        for slot in 0..slots {
            words[1 + slot / 8] |= (slot as u64) << (8 * (slot % 8));
        }
        let heads = 1 + slots.div_ceil(8);
        let rests = heads + slots;
        for (slot, item) in items.iter().enumerate() {
            words[heads + slot] = item.head;
            words[rests + slot * width..][..width].copy_from_slice(&item.rest[..width]);
        }
        // Free slots stay unwritten.
        tx.write_words(Addr::new(object, 0), &words[..heads + items.len()])?;
        let used = items.len() * width;
        if used > 0 {
            tx.write_words(Addr::new(object, 8 * rests as u64), &words[rests..rests + used])?;
        }
        Ok(object)
    }

    /// Returns a byte of the first words.
    #[inline(always)]
    const fn byte(&self, number: usize) -> usize {
        (self.head[number / 8] >> (8 * (number % 8))) as u8 as usize
    }

    #[inline]
    pub(super) const fn count(&self) -> usize {
        self.byte(0)
    }

    #[inline]
    pub(super) const fn level(&self) -> usize {
        self.byte(1)
    }

    #[inline]
    pub(super) const fn slots(&self) -> usize {
        self.byte(2)
    }

    #[inline]
    pub(super) const fn skip(&self) -> usize {
        (self.head[0] >> 32) as u16 as usize
    }

    /// Changes the bytes that the heads skip, in memory only.
    pub(super) fn set_skip(&mut self, skip: usize) {
        self.set_word(0, self.head[0] & !(0xffff << 32) | (skip as u64) << 32);
    }

    /// Returns the fewest items of a node that is not to be joined with its neighbors.
    pub(super) const fn least(&self) -> usize {
        self.slots() / 3
    }

    /// Returns the most items of two nodes that are joined.
    pub(super) const fn joined_most(&self) -> usize {
        self.slots() * 6 / 7
    }

    pub(super) const fn bytes(&self) -> usize {
        bytes(self.slots(), self.width)
    }

    #[inline]
    const fn heads(&self) -> u64 {
        8 * (1 + self.slots().div_ceil(8)) as u64
    }

    #[inline]
    const fn head_offset(&self, slot: usize) -> u64 {
        self.heads() + 8 * slot as u64
    }

    #[inline]
    const fn rest_offset(&self, slot: usize) -> u64 {
        self.heads() + 8 * (self.slots() + slot * self.width) as u64
    }

    /// Returns the address of the words after the head of the item at a position.
    #[inline]
    pub(super) fn rest_at(&self, position: usize) -> Result<Addr, Stop> {
        Ok(Addr::new(self.object, self.rest_offset(self.slot(position)?)))
    }

    /// Returns the slot at a position of the order, checked: a write into a slot beyond the node
    /// would damage another object.
    #[inline]
    pub(super) const fn slot(&self, position: usize) -> Result<usize, Stop> {
        if position >= self.slots() {
            return Err(Stop::BadValue);
        }
        let slot = self.byte(8 + position);
        if slot < self.slots() { Ok(slot) } else { Err(Stop::BadValue) }
    }

    /// Returns the number of heads below a head, in a node that is unwritten since it was opened.
    #[inline(always)]
    pub(super) fn lower<W: Words>(&self, tx: &mut W, head: u64) -> Result<usize, Stop> {
        self.partition(tx, (0, self.count()), |found| found < head)
    }

    /// Returns the number of heads that are not above a head, in a node that is unwritten since it
    /// was opened.
    #[inline(always)]
    pub(super) fn upper<W: Words>(&self, tx: &mut W, head: u64) -> Result<usize, Stop> {
        self.partition(tx, (0, self.count()), |found| found <= head)
    }

    /// Returns the positions of the heads that equal a head, in a node that is unwritten since it
    /// was opened. Without one the range is empty, at the head's place.
    #[inline(always)]
    pub(super) fn equal<W: Words>(&self, tx: &mut W, head: u64) -> Result<(usize, usize), Stop> {
        let first = self.lower(tx, head)?;
        let mut end = first;
        // Mostly there is one or none.
        while end < self.count() && end < first + 2 {
            if self.head_seen(tx, end)? != head {
                return Ok((first, end));
            }
            end += 1;
        }
        let end = self.partition(tx, (end, self.count()), |found| found <= head)?;
        Ok((first, end))
    }

    /// Returns the first position between two where `is_before` is false.
    #[inline(always)]
    fn partition<W: Words>(
        &self,
        tx: &mut W,
        (from, to): (usize, usize),
        is_before: impl Fn(u64) -> bool,
    ) -> Result<usize, Stop> {
        let (heads, slots) = (self.heads(), self.slots());
        // Words are little-endian, in memory too: `order` has the bytes of `byte`.
        const { assert!(cfg!(target_endian = "little")) };
        let order: &[u8; 8 * HEAD_WORDS] = zerocopy::transmute_ref!(&self.head);
        let (mut rank, mut left) = (from, to - from);
        while left > 0 {
            let half = left / 2;
            // As `slot`, with nothing computed twice.
            let slot = usize::from(order[(8 + rank + half) % (8 * HEAD_WORDS)]);
            if slot >= slots {
                return Err(Stop::BadValue);
            }
            let found = tx.read_seen(self.seen, heads + 8 * slot as u64)?;
            // No branch on the key: its outcome is random.
            let below = is_before(found);
            rank = select_unpredictable(below, rank + half + 1, rank);
            left = select_unpredictable(below, left - half - 1, half);
            tx.after_last_read();
            tx.compute(work::COMPARE);
        }
        Ok(rank)
    }

    /// Returns the head at a position, in a node that is unwritten since it was opened.
    #[inline(always)]
    pub(super) fn head_seen<W: Words>(&self, tx: &mut W, position: usize) -> Result<u64, Stop> {
        tx.read_seen(self.seen, self.head_offset(self.slot(position)?))
    }

    /// Returns the last word at a position, a pointer in all nodes but leaves with values, in a
    /// node that is unwritten since it was opened.
    #[inline(always)]
    pub(super) fn pointer_seen<W: Words>(&self, tx: &mut W, position: usize) -> Result<u64, Stop> {
        let last = 8 * (self.width.max(1) - 1) as u64;
        tx.read_seen(self.seen, self.rest_offset(self.slot(position)?) + last)
    }

    /// Reads the words after the head at a position, in a node that is unwritten since it was
    /// opened.
    #[inline]
    pub(super) fn rest_seen<W: Words>(
        &self,
        tx: &mut W,
        position: usize,
    ) -> Result<[u64; VALUE_WORDS], Stop> {
        let mut rest = [0; VALUE_WORDS];
        if self.width > 0 {
            let offset = self.rest_offset(self.slot(position)?);
            tx.read_words_seen(self.seen, offset, &mut rest[..self.width])?;
        }
        Ok(rest)
    }

    /// Returns the item at a position.
    pub(super) fn item<W: Words>(&self, tx: &mut W, position: usize) -> Result<Item, Stop> {
        let slot = self.slot(position)?;
        let head = tx.read(Addr::new(self.object, self.head_offset(slot)))?;
        let mut rest = [0; VALUE_WORDS];
        if self.width > 0 {
            let at = Addr::new(self.object, self.rest_offset(slot));
            tx.read_words(at, &mut rest[..self.width])?;
        }
        Ok(Item { head, rest })
    }

    /// Returns all items in order.
    pub(super) fn items<W: Words>(&self, tx: &mut W) -> Result<Vec<Item>, Stop> {
        let mut items = Vec::with_capacity(self.slots() + 1);
        for position in 0..self.count() {
            items.push(self.item(tx, position)?);
        }
        Ok(items)
    }

    /// Inserts an item at a position, into a free slot of a node that is not full. The order
    /// changes in memory only.
    pub(super) fn put<W: Words>(
        &mut self,
        tx: &mut W,
        position: usize,
        item: &Item,
    ) -> Result<(), Stop> {
        let count = self.count();
        if count >= self.slots() || position > count {
            return Err(Stop::BadValue);
        }
        let slot = self.slot(count)?;
        tx.write(Addr::new(self.object, self.head_offset(slot)), item.head)?;
        if self.width > 0 {
            let at = Addr::new(self.object, self.rest_offset(slot));
            tx.write_words(at, &item.rest[..self.width])?;
        }
        let insert = |order: &mut [u8; SLOTS_MOST]| {
            order.copy_within(position..count, position + 1);
            order[position] = slot as u8;
        };
        self.change(insert, count + 1);
        Ok(())
    }

    /// Writes the item at a position anew, where it differs.
    pub(super) fn set<W: Words>(
        &self,
        tx: &mut W,
        position: usize,
        (old, new): (&Item, &Item),
    ) -> Result<(), Stop> {
        let slot = self.slot(position)?;
        if old.head != new.head {
            tx.write(Addr::new(self.object, self.head_offset(slot)), new.head)?;
        }
        for word in 0..self.width {
            if old.rest[word] != new.rest[word] {
                let offset = self.rest_offset(slot) + 8 * word as u64;
                tx.write(Addr::new(self.object, offset), new.rest[word])?;
            }
        }
        Ok(())
    }

    /// Removes the items of these positions and frees their slots, in memory only.
    pub(super) fn take(&mut self, from: usize, to: usize) {
        let count = self.count();
        // Move `from..to` after the items that stay, where the free slots begin.
        self.change(|order| order[from..count].rotate_left(to - from), count - (to - from));
    }

    /// Changes the order and the count, in memory only.
    fn change(&mut self, change: impl FnOnce(&mut [u8; SLOTS_MOST]), count: usize) {
        let mut order = [0; SLOTS_MOST];
        for (bytes, word) in order.as_chunks_mut().0.iter_mut().zip(&self.head[1..]) {
            *bytes = word.to_le_bytes();
        }
        change(&mut order);
        for (i, bytes) in order.as_chunks().0.iter().enumerate() {
            self.set_word(1 + i, u64::from_le_bytes(*bytes));
        }
        self.set_word(0, self.head[0] & !0xff | count as u64);
    }

    /// Changes one of the first words, in memory only.
    fn set_word(&mut self, word: usize, value: u64) {
        self.changed |= u8::from(self.head[word] != value) << word;
        self.head[word] = value;
    }

    /// Writes the first words that changed since they were read.
    pub(super) fn store<W: Words>(&mut self, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::ARRANGE);
        while self.changed != 0 {
            let word = self.changed.trailing_zeros() as usize;
            tx.write(Addr::new(self.object, 8 * word as u64), self.head[word])?;
            self.changed &= self.changed - 1;
        }
        Ok(())
    }

    /// Protects the node: a concurrent transaction that writes it conflicts in every design.
    #[inline]
    pub(super) fn protect<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        tx.protect(Addr::new(self.object, 0))
    }

    /// Frees the node. It is written first, so that a concurrent transaction that changes it
    /// conflicts in every design.
    pub(super) fn discard<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        let at = Addr::new(self.object, 0);
        tx.write(at, DEAD)?;
        tx.retire(at, self.bytes() as u64)
    }

    /// Reads the whole node, which is unwritten since it was opened.
    #[inline]
    pub(super) fn load<W: Words>(self, tx: &mut W) -> Result<Loaded, Stop> {
        let mut words = [0; WORDS_MOST];
        let heads = self.heads() as usize / 8;
        let end = self.bytes() / 8;
        // The free slots of a young node were never written, but belong to it.
        if end > heads && self.count() > 0 {
            tx.read_words_seen(self.seen, 8 * heads as u64, &mut words[heads..end])?;
        }
        Ok(Loaded { node: self, words })
    }
}

/// A node of which all words were read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) node: Node,
    words: [u64; WORDS_MOST],
}

impl Loaded {
    /// Returns the item at a position.
    #[inline]
    pub(super) fn item(&self, position: usize) -> Result<Item, Stop> {
        let (node, slot) = (&self.node, self.node.slot(position)?);
        let mut rest = [0; VALUE_WORDS];
        let from = node.rest_offset(slot) as usize / 8;
        rest[..node.width].copy_from_slice(&self.words[from..from + node.width]);
        Ok(Item { head: self.words[node.head_offset(slot) as usize / 8], rest })
    }
}

/// Returns 8 bytes of a key as a number, with zeros after the end of the key.
#[inline]
pub(super) fn head_at(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(head) = rest.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(head)
}
