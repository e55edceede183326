//! Insertion into the leaf, with splits of full nodes up the path.

use words::{Allocate, Stop, Words};

use super::node::{Entry, LEVELS, Node, SLOTS_MOST};
use super::{BTree, Path};

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Inserts a key or replaces its value; returns the old value. Writes 1 word for a present key;
    /// for a new one key, value and 1 to 4 words of order, when no node is split.
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
        let (mut leaf, path) = self.descend(tx, key)?;
        let found = leaf.search(tx, key)?;
        if found.exact {
            let at = leaf.value_at(found.slot);
            let before = tx.read(at)?;
            tx.write(at, value)?;
            return Ok(Some(before));
        }
        if leaf.count() < SLOTS {
            leaf.put(tx, found.rank, (key, value))?;
            leaf.store(tx)?;
        } else {
            self.split_up(tx, leaf, found.rank, path, (key, value))?;
        }
        Ok(None)
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
        let (leaf, _) = self.descend(tx, key)?;
        let found = leaf.search(tx, key)?;
        if !found.exact {
            return Ok(None);
        }
        let at = leaf.value_at(found.slot);
        let before = tx.read(at)?;
        tx.write(at, change(before))?;
        Ok(Some(before))
    }

    /// Inserts into a full leaf: splits it, and every full node above it.
    #[cold]
    fn split_up<W: Allocate>(
        self,
        tx: &mut W,
        leaf: Node<SLOTS>,
        rank: usize,
        path: Path,
        mut entry: Entry,
    ) -> Result<(), Stop> {
        let (mut node, mut rank) = (leaf, rank);
        while node.count() == SLOTS {
            if node.object == self.root.to_bits() {
                return grow(tx, node, rank, entry);
            }
            entry = split(tx, node, rank, entry)?;
            let level = node.level() + 1;
            let (parent, above) = *path.get(level).ok_or(Stop::BadValue)?;
            (node, rank) = (Node::open(tx, parent, level)?, above);
        }
        node.put(tx, rank, entry)?;
        node.store(tx)
    }
}

/// Returns the entries of a full node with a new one at its place, `SLOTS + 1` in total.
fn with_entry<const SLOTS: usize, W: Words>(
    tx: &mut W,
    node: &Node<SLOTS>,
    rank: usize,
    entry: Entry,
) -> Result<[Entry; SLOTS_MOST + 1], Stop> {
    let mut entries = [entry; SLOTS_MOST + 1];
    for position in 0..SLOTS {
        entries[position + usize::from(position >= rank)] = node.entry(tx, position)?;
    }
    Ok(entries)
}

/// Returns how many entries stay on the left when a full node gets a new one at this place. It is
/// half of them. If the new entry is the last, more stay: ascending keys then fill nodes to two
/// thirds, and the right node has the minimum.
fn left_count<const SLOTS: usize>(rank: usize) -> usize {
    if rank == SLOTS { SLOTS - Node::<SLOTS>::LEAST } else { SLOTS.div_ceil(2) }
}

/// Splits a full node and inserts the entry into one of the halves; returns the entry that leads to
/// the new right half.
fn split<const SLOTS: usize, W: Allocate>(
    tx: &mut W,
    mut node: Node<SLOTS>,
    rank: usize,
    entry: Entry,
) -> Result<Entry, Stop> {
    let entries = with_entry(tx, &node, rank, entry)?;
    let left = left_count::<SLOTS>(rank);
    let right = create_right(tx, &node, &entries[..=SLOTS], left)?;
    if rank < left {
        node.take(left - 1, SLOTS);
        node.put(tx, rank, entry)?;
    } else {
        node.take(left, SLOTS);
    }
    if node.level() == 0 {
        node.store_link(tx, right)?;
    }
    node.store(tx)?;
    Ok((entries[left].0, right))
}

/// Creates a node of the right half of a full node; returns its object.
fn create_right<const SLOTS: usize, W: Allocate>(
    tx: &mut W,
    node: &Node<SLOTS>,
    entries: &[Entry],
    left: usize,
) -> Result<u64, Stop> {
    let right = if node.level() == 0 {
        Node::<SLOTS>::create(tx, 0, node.link, &entries[left..])?
    } else {
        // The middle key moves up, and its child becomes the leftmost of the right half.
        Node::<SLOTS>::create(tx, node.level(), entries[left].1, &entries[left + 1..])?
    };
    Ok(right.object)
}

/// Splits the full root: both halves become new nodes, and the root keeps its place.
fn grow<const SLOTS: usize, W: Allocate>(
    tx: &mut W,
    mut root: Node<SLOTS>,
    rank: usize,
    entry: Entry,
) -> Result<(), Stop> {
    let level = root.level() + 1;
    if level == LEVELS {
        return Err(Stop::Full);
    }
    let entries = with_entry(tx, &root, rank, entry)?;
    let left = left_count::<SLOTS>(rank);
    let right = create_right(tx, &root, &entries[..=SLOTS], left)?;
    let link = if level == 1 { right } else { root.link };
    let left_node = Node::<SLOTS>::create(tx, level - 1, link, &entries[..left])?;
    root.take(0, SLOTS);
    root.set_level(level);
    root.put(tx, 0, (entries[left].0, right))?;
    root.store_link(tx, left_node.object)?;
    root.store(tx)
}
