//! A node of the tree: a chunk with the slots of elements, or an inner node with those of children.
//!
//! ```text
//!   63      32 31   28 27  26 25   20 19   10 9     0
//!   |   MARK   | level |     | words | to    | from  |   head
//!   | number of a chunk; 0 in an inner node          |
//!   | slots: `words` words                           |
//! ```
//!
//! Invariants:
//! - The slots from `from` up to, not including, `to` are in use. The bytes of the others are
//!   undefined.
//! - A head that breaks the rules for its numbers is [`Stop::BadValue`]. So no slot lies outside
//!   of its object.
//! - A slot of whole words lies at a multiple of 8: see [`Entry`](crate::entry::Entry).

use words::{Addr, Allocate, Seen, Stop, Words, work};
use zerocopy::IntoBytes;

use super::{Form, Side};

/// The upper half of a head: "slot".
const MARK: u64 = 0x736c_6f74;

/// The first word of a freed node.
const DEAD: u64 = 0;

/// Sizes of a root in words of slots. All other nodes have the last.
const SIZES: [usize; 5] = [4, 8, 16, 32, WORDS];

/// Words of the slots of a node that is not the root. With its head and the allocator's header the
/// node takes 512 bytes, a size class.
pub(super) const WORDS: usize = 60;

/// Words in front of the slots.
const HEAD_WORDS: usize = 2;

/// Children of an inner node that is not the root.
pub(super) const CHILDREN: usize = WORDS;

/// The greatest level. No machine holds the nodes of a full tree with more, and a position in such
/// a tree is less than 2^63.
pub(super) const LEVEL_MAX: usize = 9;

/// A node that was read. Its slots can be read until the transaction writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// First byte of the object.
    pub(super) object: u64,
    /// Nodes below it on each path. 0 for a chunk.
    pub(super) level: usize,
    /// The first slot in use.
    pub(super) from: usize,
    /// The slot behind the last in use.
    pub(super) to: usize,
    /// Words of all slots.
    words: usize,
    /// Bytes of a slot.
    stride: usize,
    seen: Seen,
}

impl Node {
    /// Opens a root, which may be of any level and size.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when no node is there.
    #[inline]
    pub(super) fn open_root<W: Words>(tx: &mut W, form: Form, object: u64) -> Result<Node, Stop> {
        tx.after_last_read();
        tx.compute(work::VISIT);
        let seen = tx.look(object)?;
        let word = tx.read_seen(seen, 0)?;
        let bits = |shift: u32, bits: u32| (word >> shift & ((1 << bits) - 1)) as usize;
        let level = bits(28, 4);
        let stride = if level == 0 { form.stride } else { 8 };
        let node = Node {
            object,
            level,
            from: bits(0, 10),
            to: bits(10, 10),
            words: bits(20, 6),
            stride,
            seen,
        };
        let is_sound = word == node.head()
            && level <= LEVEL_MAX
            && SIZES.contains(&node.words)
            && node.to <= node.capacity()
            && (node.from < node.to || level == 0 && node.from == node.to);
        if is_sound { Ok(node) } else { Err(Stop::BadValue) }
    }

    /// Opens a node of this level that is not the root.
    ///
    /// # Errors
    /// As [`open_root`](Node::open_root).
    #[inline]
    pub(super) fn open<W: Words>(
        tx: &mut W,
        form: Form,
        object: u64,
        level: usize,
    ) -> Result<Node, Stop> {
        let node = Node::open_root(tx, form, object)?;
        if node.level == level && node.words == WORDS { Ok(node) } else { Err(Stop::BadValue) }
    }

    /// Allocates a node of full size with one slot in use, and room at a side.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub(super) fn create<W: Allocate>(
        tx: &mut W,
        form: Form,
        (level, number): (usize, u64),
        side: Side,
        slot: &[u8],
    ) -> Result<u64, Stop> {
        Node::create_sized(tx, form, (level, number, WORDS), side, slot)
    }

    /// Allocates a root of the smallest size with one slot in use, and room at a side.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub(super) fn create_root<W: Allocate>(
        tx: &mut W,
        form: Form,
        level: usize,
        side: Side,
        slot: &[u8],
    ) -> Result<u64, Stop> {
        let has_room = |words: &&usize| 8 * **words >= slot.len();
        let words = SIZES.iter().find(has_room).copied().unwrap_or(WORDS);
        Node::create_sized(tx, form, (level, 0, words), side, slot)
    }

    fn create_sized<W: Allocate>(
        tx: &mut W,
        form: Form,
        (level, number, words): (usize, u64, usize),
        side: Side,
        slot: &[u8],
    ) -> Result<u64, Stop> {
        let object = tx.allocate(8 * (HEAD_WORDS + words))?;
        let stride = if level == 0 { form.stride } else { 8 };
        let seen = Seen { object, version: 0 };
        let node = Node { object, level, from: 0, to: 0, words, stride, seen };
        tx.write(Addr::new(object, 8), number)?;
        node.fill(tx, side, 1, slot)?;
        Ok(object)
    }

    /// Allocates a root of the next size with these slots, room at a side, and this one's number.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub(super) fn enlarged<W: Allocate>(self, tx: &mut W, side: Side) -> Result<u64, Stop> {
        let larger = |words: &&usize| **words > self.words;
        let words = SIZES.iter().find(larger).copied().ok_or(Stop::BadValue)?;
        let number = self.number(tx)?;
        self.with_slots(tx, self.from, self.to, |tx, bytes| {
            let object = tx.allocate(8 * (HEAD_WORDS + words))?;
            tx.write(Addr::new(object, 8), number)?;
            Node { object, words, ..self }.fill(tx, side, self.count(), bytes)?;
            Ok(object)
        })
    }

    /// Moves the slots in use to one end, so that the other side has room.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub(super) fn slide<W: Words>(self, tx: &mut W, side: Side) -> Result<(), Stop> {
        self.with_slots(tx, self.from, self.to, |tx, bytes| {
            self.fill(tx, side, self.count(), bytes)
        })
    }

    /// Writes the head and the bytes of `count` slots, all that are in use from then on, at the end
    /// that leaves room at a side.
    fn fill<W: Words>(
        self,
        tx: &mut W,
        side: Side,
        count: usize,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let from = match side {
            Side::Back => 0,
            Side::Front => self.capacity().saturating_sub(count),
        };
        let node = Node { from, to: from + count, ..self };
        node.write_head(tx)?;
        let (first, skip) = node.word_of(from);
        with_words(skip + bytes.len(), |words| {
            words.as_mut_bytes()[skip..skip + bytes.len()].copy_from_slice(bytes);
            tx.write_words(node.at(first), words)
        })
    }

    /// Returns the number of slots in use.
    #[inline]
    pub(super) const fn count(&self) -> usize {
        self.to - self.from
    }

    /// Returns the number of all slots.
    #[inline]
    pub(super) const fn capacity(&self) -> usize {
        capacity(self.stride, self.words)
    }

    /// Returns whether a root of the next size exists.
    pub(super) const fn is_small(&self) -> bool {
        self.words < WORDS
    }

    /// Returns whether there is a free slot at a side.
    #[inline]
    pub(super) const fn has_room(&self, side: Side) -> bool {
        match side {
            Side::Front => self.from > 0,
            Side::Back => self.to < self.capacity(),
        }
    }

    /// Returns the slot in use at a side.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when none is in use.
    #[inline]
    pub(super) fn last(&self, side: Side) -> Result<usize, Stop> {
        match side {
            _ if self.from == self.to => Err(Stop::BadValue),
            Side::Front => Ok(self.from),
            Side::Back => Ok(self.to - 1),
        }
    }

    /// Returns the node without `count` of the slots at a side.
    pub(super) const fn without(self, side: Side, count: usize) -> Node {
        match side {
            Side::Front => Node { from: self.from + count, ..self },
            Side::Back => Node { to: self.to - count, ..self },
        }
    }

    /// Returns a chunk's number, or 0.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub(super) fn number<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        tx.read_seen(self.seen, 8)
    }

    /// Returns the pointer in a slot.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub(super) fn pointer<W: Words>(&self, tx: &mut W, slot: usize) -> Result<u64, Stop> {
        tx.read_seen(self.seen, 8 * (HEAD_WORDS + slot) as u64)
    }

    /// Calls `with` on the bytes of the slots from `from` up to, not including, `to`.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    #[inline]
    pub(super) fn with_slots<W: Words, R>(
        &self,
        tx: &mut W,
        from: usize,
        to: usize,
        with: impl FnOnce(&mut W, &[u8]) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let (first, skip) = self.word_of(from);
        let end = skip + self.stride * (to - from);
        with_words(end, |words| {
            if !words.is_empty() {
                tx.read_words_seen(self.seen, self.at(first).offset, words)?;
            }
            with(tx, &words.as_bytes()[skip..end])
        })
    }

    /// Writes a slot. The other slots in use keep their bytes.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub(super) fn write<W: Words>(
        &self,
        tx: &mut W,
        slot: usize,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        debug_assert_eq!(bytes.len(), self.stride, "a slot has this many bytes");
        let ((first, skip), end) = (self.word_of(slot), self.stride * (slot + 1));
        with_words(skip + self.stride, |words| {
            let Some(last) = words.len().checked_sub(1) else { return Ok(()) };
            // A word that also has bytes of a slot in use is read. Free slots keep nothing.
            let (low, high) = (self.stride * self.from, self.stride * self.to);
            let before = skip > 0 && 8 * first < high && low < 8 * first + skip;
            let behind = end < high && low < 8 * (first + last + 1) && !end.is_multiple_of(8);
            if before {
                words[0] = tx.read_seen(self.seen, self.at(first).offset)?;
            }
            if behind && !(before && last == 0) {
                words[last] = tx.read_seen(self.seen, self.at(first + last).offset)?;
            }
            words.as_mut_bytes()[skip..skip + self.stride].copy_from_slice(bytes);
            tx.write_words(self.at(first), words)
        })
    }

    /// Writes a free slot at a side, which is in use from then on.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] when there is no room.
    pub(super) fn add<W: Words>(&self, tx: &mut W, side: Side, bytes: &[u8]) -> Result<(), Stop> {
        if !self.has_room(side) {
            return Err(Stop::BadValue);
        }
        let (slot, grown) = match side {
            Side::Front => (self.from - 1, Node { from: self.from - 1, ..*self }),
            Side::Back => (self.to, Node { to: self.to + 1, ..*self }),
        };
        self.write(tx, slot, bytes)?;
        grown.write_head(tx)
    }

    /// Writes the head.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub(super) fn write_head<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        tx.write(Addr::new(self.object, 0), self.head())
    }

    /// Adds the node to the write set: see [`Words::protect`].
    ///
    /// # Errors
    /// As [`Words::protect`].
    pub(super) fn protect<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        tx.protect(Addr::new(self.object, 0))
    }

    /// Frees the node. It is written first, so that a concurrent change of it conflicts in every
    /// design.
    ///
    /// # Errors
    /// As [`Words::retire`].
    pub(super) fn discard<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        tx.write(Addr::new(self.object, 0), DEAD)?;
        tx.retire(Addr::new(self.object, 0), 8 * (HEAD_WORDS + self.words) as u64)
    }

    fn head(&self) -> u64 {
        MARK << 32
            | (self.level as u64) << 28
            | (self.words as u64) << 20
            | (self.to as u64) << 10
            | self.from as u64
    }

    /// Returns the word in which a slot begins, of those of all slots, and the bytes before it
    /// there.
    #[inline]
    const fn word_of(&self, slot: usize) -> (usize, usize) {
        let byte = self.stride * slot;
        (byte / 8, byte % 8)
    }

    #[inline]
    const fn at(&self, word: usize) -> Addr {
        Addr::new(self.object, 8 * (HEAD_WORDS + word) as u64)
    }
}

/// Returns the number of slots of so many bytes in so many words. Slots without bytes are counted
/// as bytes.
pub(super) const fn capacity(stride: usize, words: usize) -> usize {
    8 * words / if stride == 0 { 1 } else { stride }
}

/// Calls `with` on a zeroed buffer of the words of `bytes` bytes.
#[inline]
fn with_words<R>(bytes: usize, with: impl FnOnce(&mut [u64]) -> R) -> R {
    // Most slots have a word, and clearing 480 bytes would cost more than the access.
    const FEW: usize = 9;
    match bytes.div_ceil(8) {
        few @ 0..=FEW => with(&mut [0; FEW][..few]),
        many => with(&mut [0; WORDS][..many]),
    }
}

#[cfg(test)]
mod tests {
    use words::Transact;
    use words::mock::Mock;

    use super::*;

    #[test]
    fn node_of_every_form_is_sound() {
        let mut mock = Mock::new(1 << 20);
        for stride in 0..=64 {
            let form = Form { inline: Some(stride), stride };
            assert!((7..=480).contains(&form.slots()), "{stride}");
            for (level, words) in [(0, WORDS), (0, 8), (1, WORDS), (LEVEL_MAX, 4)] {
                let slot = vec![7; if level == 0 { stride } else { 8 }];
                mock.transact(|tx| {
                    let sizes = (level, 3, words);
                    let object = Node::create_sized(tx, form, sizes, Side::Front, &slot)?;
                    let node = Node::open_root(tx, form, object)?;
                    assert_eq!((node.level, node.number(tx)?, node.words), (level, 3, words));
                    assert_eq!((node.count(), node.to), (1, node.capacity()));
                    node.with_slots(tx, node.from, node.to, |_, found| {
                        assert_eq!(found, slot);
                        Ok(())
                    })
                })
                .unwrap();
            }
        }
    }

    #[test]
    fn head_with_wrong_numbers_is_refused() {
        let mut mock = Mock::forgiving(1 << 12);
        let form = Form { inline: Some(8), stride: 8 };
        let object =
            mock.transact(|tx| Node::create_root(tx, form, 0, Side::Back, &[0; 8])).unwrap();
        let node = mock.transact(|tx| Node::open_root(tx, form, object)).unwrap();
        let inner = Node { level: 1, ..node };
        for wrong in [
            0,
            u64::MAX,
            node.head() ^ 1 << 32,
            node.head() | 1 << 26,
            Node { from: 2, ..node }.head(),
            Node { to: 5, ..node }.head(),
            Node { words: 5, ..node }.head(),
            Node { words: 0, ..node }.head(),
            Node { level: LEVEL_MAX + 1, ..node }.head(),
            Node { from: 1, ..inner }.head(),
        ] {
            let found = mock.transact(|tx| {
                tx.write(Addr::new(object, 0), wrong)?;
                Node::open_root(tx, form, object).map(drop)
            });
            assert_eq!(found.unwrap_err().stop, Stop::BadValue, "{wrong:#x}");
        }
        assert!(mock.transact(|tx| Node::open(tx, form, object, 0)).is_err(), "it is small");
    }

    #[test]
    fn written_slot_keeps_its_neighbors() {
        for stride in [1, 2, 3, 5, 7, 8, 11, 12, 64] {
            let mut mock = Mock::new(1 << 12);
            let form = Form { inline: Some(stride), stride };
            let bytes = |n: usize| vec![n.wrapping_add(1) as u8; stride];
            let object =
                mock.transact(|tx| Node::create(tx, form, (0, 0), Side::Back, &bytes(0))).unwrap();
            let mut model = vec![bytes(0)];
            for n in 1..form.slots() {
                mock.transact(|tx| {
                    let node = Node::open(tx, form, object, 0)?;
                    node.add(tx, Side::Back, &bytes(n))?;
                    Node::open(tx, form, object, 0)?.write(tx, n / 2, &bytes(n + 1))
                })
                .unwrap();
                model.push(bytes(n));
                model[n / 2] = bytes(n + 1);
            }
            mock.transact(|tx| {
                let node = Node::open(tx, form, object, 0)?;
                assert_eq!((node.count(), node.has_room(Side::Back)), (form.slots(), false));
                node.with_slots(tx, 0, node.to, |_, found| {
                    assert_eq!(found, model.concat());
                    Ok(())
                })?;
                node.without(Side::Back, 5).slide(tx, Side::Front)?;
                let node = Node::open(tx, form, object, 0)?;
                assert_eq!((node.from, node.to), (5, form.slots()));
                node.with_slots(tx, 5, node.to, |_, found| {
                    assert_eq!(found, model[..model.len() - 5].concat());
                    Ok(())
                })
            })
            .unwrap();
        }
    }
}
