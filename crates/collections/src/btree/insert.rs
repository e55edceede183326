//! Insertion into a leaf, with splits of full nodes up the path.

use std::borrow::Cow;

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Stop, Words};

use super::descend::{Found, Path, borrowed};
use super::form::VALUE_WORDS;
use super::node::{Item, LEVELS, Node, SLOTS_LEAST, head_at};
use super::separator::{Separator, child, first_item, key_of, raised, with_skip};
use super::{ROOT, Tree, spread};
use crate::entry::Entry;
use zerocopy::IntoBytes;

/// The place of a key: its leaf, if there is one, and the path to it. It is valid until the
/// transaction changes the tree.
#[derive(Debug)]
pub(crate) struct Spot {
    path: Path,
    leaf: Option<Node>,
    found: Found,
}

impl Spot {
    /// Returns whether the key is there.
    pub(crate) const fn is_there(&self) -> bool {
        self.found.is_there
    }

    pub(super) fn into_parts(self) -> (Path, Option<Node>, Found) {
        (self.path, self.leaf, self.found)
    }
}

impl Tree {
    /// Finds the place of a key, for a change.
    #[inline(always)]
    pub(crate) fn spot<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<Spot, Stop> {
        let mut path = Path::new();
        let leaf = self.descend_to_write(tx, key, &mut path)?;
        let found = match &leaf {
            Some(leaf) => self.find(tx, leaf, key)?,
            None => Found { position: 0, is_there: false, entry: None },
        };
        Ok(Spot { path, leaf, found })
    }

    /// Calls `with` on the value at a spot, if the key is there.
    #[inline(always)]
    pub(crate) fn value_at<W: Words, R>(
        self,
        tx: &mut W,
        spot: &Spot,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        match &spot.leaf {
            Some(leaf) if spot.is_there() => self.value(tx, leaf, &spot.found, with).map(Some),
            _ => Ok(None),
        }
    }

    /// Protects the spot of a key that a change leaves as it is. A concurrent change of the key
    /// then conflicts under snapshot isolation, too.
    pub(crate) fn protect<W: Words>(self, tx: &mut W, spot: &Spot) -> Result<(), Stop> {
        if injected(Mutant::AbsentKeyNotProtected) {
            return Ok(());
        }
        match &spot.leaf {
            None => tx.protect(self.header_at(ROOT)),
            Some(leaf) if spot.is_there() && self.form.value().is_none() => {
                let entry = leaf.pointer_seen(tx, spot.found.position)?;
                tx.protect(Addr::new(entry, 0))
            }
            Some(leaf) => leaf.protect(tx),
        }
    }

    /// Protects the place of a key, and those beside it in its leaf. A concurrent insertion,
    /// removal or change of one of them then conflicts in every design.
    pub(crate) fn protect_around<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<(), Stop> {
        let spot = self.spot(tx, key)?;
        if let Some(leaf) = &spot.leaf {
            leaf.protect(tx)?;
        }
        self.protect(tx, &spot)
    }

    /// Protects an empty tree from concurrent insertions, as [`protect`](Tree::protect) does.
    pub(crate) fn protect_empty<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        if injected(Mutant::EmptyTreeNotProtected) {
            return Ok(());
        }
        match self.root(tx)? {
            None => tx.protect(self.header_at(ROOT)),
            Some(root) => root.protect(tx),
        }
    }

    /// Stores a value at the spot of its key, in place of the old value if there is one.
    ///
    /// An update writes the value, or protects what has no value to write. A new entry writes its
    /// object, one slot, and 2 to 8 words of a node that is not full.
    #[inline]
    pub(crate) fn put<W: Allocate>(
        self,
        tx: &mut W,
        spot: Spot,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Stop> {
        let Spot { path, leaf, found } = spot;
        match leaf {
            Some(leaf) if found.is_there => self.replace(tx, &leaf, found, value),
            Some(leaf) => self.add(tx, path, leaf, found.position, (key, value)),
            None => {
                let item = self.new_item(tx, 0, key, value)?;
                let root = Node::create(tx, self.form, (0, SLOTS_LEAST, 0), &[item])?;
                self.set_root(tx, root)
            }
        }
    }

    fn replace<W: Allocate>(
        self,
        tx: &mut W,
        leaf: &Node,
        found: Found,
        value: &[u8],
    ) -> Result<(), Stop> {
        let at = leaf.rest_at(found.position)?;
        if self.form.value().is_some() {
            return match self.form.width(0) {
                0 => leaf.protect(tx),
                width => tx.write_words(at, &rest_of(value)?[..width]),
            };
        }
        let entry = match found.entry {
            Some(entry) => entry,
            None => {
                let pointer = leaf.pointer_seen(tx, found.position)?;
                Entry::open(tx, pointer)?
            }
        };
        match entry.replace(tx, value)? {
            Some(moved) => tx.write(at, moved),
            None => Ok(()),
        }
    }

    /// Adds an entry whose key is not there.
    fn add<W: Allocate>(
        self,
        tx: &mut W,
        path: Path,
        mut leaf: Node,
        position: usize,
        (key, value): (&[u8], &[u8]),
    ) -> Result<(), Stop> {
        let item = self.new_item(tx, leaf.skip(), key, value)?;
        let (spread, total) = (spread(&leaf), leaf.count() as i64 + 1);
        if leaf.count() < leaf.slots() {
            leaf.put(tx, position, &item)?;
            leaf.store(tx)?;
        } else if leaf.slots() < self.form.slots(0) {
            return self.enlarge(tx, &leaf, position, &item);
        } else {
            self.split_up(tx, (&path, key), leaf, position, item)?;
            if path.top == 0 {
                return self.length().add(tx, spread, total);
            }
        }
        if path.top == 0 { Ok(()) } else { self.length().add(tx, spread, 1) }
    }

    /// Makes the item of an entry, in a leaf that skips `skip` bytes.
    fn new_item<W: Allocate>(
        self,
        tx: &mut W,
        skip: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<Item, Stop> {
        let mut rest = [0; VALUE_WORDS];
        if self.form.value().is_some() {
            rest = rest_of(value)?;
        } else {
            rest[0] = Entry::create(tx, key, value)?;
        }
        Ok(Item { head: head_at(key, skip), rest })
    }

    /// Replaces a full leaf of less than full size, the root, by a larger one with one more item.
    #[cold]
    fn enlarge<W: Allocate>(
        self,
        tx: &mut W,
        leaf: &Node,
        position: usize,
        item: &Item,
    ) -> Result<(), Stop> {
        let mut items = leaf.items(tx)?;
        items.insert(position, *item);
        let slots = self.form.larger(leaf.slots());
        let larger = Node::create(tx, self.form, (0, slots, 0), &items)?;
        self.set_root(tx, larger)?;
        leaf.discard(tx)
    }

    /// Inserts into a full leaf: splits it, and every full node above it.
    #[cold]
    fn split_up<W: Allocate>(
        self,
        tx: &mut W,
        path: (&Path, &[u8]),
        leaf: Node,
        position: usize,
        item: Item,
    ) -> Result<(), Stop> {
        let (mut node, mut position, mut item) = (leaf, position, item);
        while node.count() == node.slots() {
            let (separator, right) = self.split(tx, path, &mut node, position, item)?;
            let level = node.level() + 1;
            if level > path.0.top {
                return self.grow(tx, node.object, separator, right);
            }
            let (parent, above) = path.0.steps[level];
            node = self.open_at(tx, parent, level)?;
            position = above + 1;
            item = separator.item(tx, self.form, node.skip(), right)?;
        }
        node.put(tx, position, &item)?;
        node.store(tx)
    }

    /// Splits a full node and inserts the item into one of the halves. Returns the right half and
    /// the separator between both.
    fn split<W: Allocate>(
        self,
        tx: &mut W,
        path: (&Path, &[u8]),
        node: &mut Node,
        position: usize,
        item: Item,
    ) -> Result<(Separator, u64), Stop> {
        let (form, level, skip, slots) = (self.form, node.level(), node.skip(), node.slots());
        let mut items = node.items(tx)?;
        items.insert(position, item);
        let above = path.0.steps.get(level + 1).map_or(0, |step| step.1);
        let limits = self.limits(tx, path, level + 1, (above, above))?;
        let (low, high) = borrowed(&limits);
        let count = match position {
            // Ascending keys fill the nodes, and so do descending ones.
            last if last == slots && high.is_none() => slots,
            0 if low.is_none() => 1,
            _ => slots.div_ceil(2),
        };
        let separator = if level == 0 {
            let last = key_of(tx, form, &items[count - 1])?;
            Separator::between(form, &last, &key_of(tx, form, &items[count])?)
        } else {
            let separator = Separator::of(tx, form, &items[count], (skip, path.1))?;
            items[count] = first_item(form, child(form, &items[count]));
            separator
        };
        let left_skip = raised(form, skip, (low, Some(&separator.bytes)));
        let right_skip = raised(form, skip, (Some(&separator.bytes), high));
        let right = with_skip(tx, form, level, &items[count..], (skip, right_skip, path.1))?;
        let right = Node::create(tx, form, (level, slots, right_skip), &right)?;
        let left = with_skip(tx, form, level, &items[..count], (skip, left_skip, path.1))?;
        let is_left = position < count;
        let kept = count - usize::from(is_left);
        let kept = if injected(Mutant::SplitLeavesKey) { slots.min(kept + 1) } else { kept };
        node.take(kept, slots);
        if kept == slots {
            // Nothing moved: a concurrent removal from the full node must conflict all the same.
            node.protect(tx)?;
        }
        if is_left {
            node.put(tx, position, &left[position])?;
        }
        if left_skip != skip {
            node.set_skip(left_skip);
            for (position, changed) in items.iter().zip(&left).enumerate() {
                node.set(tx, position, changed)?;
            }
        }
        node.store(tx)?;
        Ok((separator, right))
    }

    /// Puts a new root above the two halves of the old one.
    fn grow<W: Allocate>(
        self,
        tx: &mut W,
        left: u64,
        separator: Separator,
        right: u64,
    ) -> Result<(), Stop> {
        let root = Node::open_root(tx, self.form, left)?;
        let level = root.level() + 1;
        if level == LEVELS {
            return Err(Stop::Full);
        }
        let right = separator.item(tx, self.form, 0, right)?;
        let items = [first_item(self.form, left), right];
        let slots = self.form.slots(level);
        let root = Node::create(tx, self.form, (level, slots, 0), &items)?;
        self.set_root(tx, root)
    }
}

/// Returns the words of a value that a leaf holds.
fn rest_of(value: &[u8]) -> Result<[u64; VALUE_WORDS], Stop> {
    let mut rest = [0; VALUE_WORDS];
    rest.as_mut_bytes().get_mut(..value.len()).ok_or(Stop::BadValue)?.copy_from_slice(value);
    Ok(rest)
}

/// Returns the address of an inner node's child pointer.
pub(super) fn child_at(tree: Tree, node: &Node, position: usize) -> Result<Addr, Stop> {
    let words = tree.form.width(node.level()) as u64;
    Ok(node.rest_at(position)?.plus(8 * (words - 1)))
}
