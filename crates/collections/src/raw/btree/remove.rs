//! Removal from the leaf, with joins and shares up the path.

use words::{Stop, Words};

use super::node::Node;
use super::{BTree, Path};

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Removes a key; returns its value. Nodes that are no longer needed are freed.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        let (mut leaf, path) = self.descend(tx, key)?;
        let found = leaf.search(tx, key)?;
        if !found.exact {
            return Ok(None);
        }
        let value = tx.read(leaf.value_at(found.slot))?;
        leaf.take(found.rank - 1, found.rank);
        leaf.store(tx)?;
        if leaf.count() < Node::<SLOTS>::LEAST && leaf.object != self.root.to_bits() {
            self.fill_up(tx, path)?;
        }
        Ok(Some(value))
    }

    /// Refills nodes that have too few entries from a neighbour, from the leaf upwards.
    #[cold]
    fn fill_up<W: Words>(self, tx: &mut W, path: Path) -> Result<(), Stop> {
        for (level, (parent, rank)) in path.into_iter().enumerate().skip(1) {
            let mut parent = Node::<SLOTS>::open(tx, parent, level)?;
            if parent.count() == 0 || rank > parent.count() {
                return Err(Stop::BadValue);
            }
            // The entry between the node and its left neighbour, or its right one at rank 0.
            let between = rank.saturating_sub(1);
            let left = parent.child_at(tx, between)?;
            let right = parent.child_at(tx, between + 1)?;
            let left = Node::open(tx, left, level - 1)?;
            let right = Node::open(tx, right, level - 1)?;
            if left.count() + right.count() > Node::<SLOTS>::JOINED_MOST {
                return share(tx, parent, between, left, right);
            }
            join(tx, &mut parent, between, left, right)?;
            if parent.object == self.root.to_bits() {
                return if parent.count() == 0 { shrink(tx, parent) } else { Ok(()) };
            }
            if parent.count() >= Node::<SLOTS>::LEAST {
                return Ok(());
            }
        }
        Err(Stop::BadValue) // a path ends at the root
    }
}

/// Moves all entries of `right` to `left`, and removes it from the parent.
fn join<const SLOTS: usize, W: Words>(
    tx: &mut W,
    parent: &mut Node<SLOTS>,
    between: usize,
    mut left: Node<SLOTS>,
    right: Node<SLOTS>,
) -> Result<(), Stop> {
    if left.level() == 0 {
        left.store_link(tx, right.link)?;
    } else {
        let (key, _) = parent.entry(tx, between)?;
        left.put(tx, left.count(), (key, right.link))?;
    }
    for position in 0..right.count() {
        let entry = right.entry(tx, position)?;
        left.put(tx, left.count(), entry)?;
    }
    left.store(tx)?;
    right.discard(tx)?;
    parent.take(between, between + 1);
    parent.store(tx)
}

/// Moves entries between neighbours until both have the same number.
fn share<const SLOTS: usize, W: Words>(
    tx: &mut W,
    parent: Node<SLOTS>,
    between: usize,
    mut left: Node<SLOTS>,
    mut right: Node<SLOTS>,
) -> Result<(), Stop> {
    let (mut key, _) = parent.entry(tx, between)?;
    while left.count() + 1 < right.count() {
        let first = right.entry(tx, 0)?;
        if left.level() == 0 {
            left.put(tx, left.count(), first)?;
            key = right.entry(tx, 1)?.0;
        } else {
            left.put(tx, left.count(), (key, right.link))?;
            right.link = first.1;
            key = first.0;
        }
        right.take(0, 1);
    }
    while right.count() + 1 < left.count() {
        let last = left.entry(tx, left.count() - 1)?;
        if left.level() == 0 {
            right.put(tx, 0, last)?;
        } else {
            right.put(tx, 0, (key, right.link))?;
            right.link = last.1;
        }
        key = last.0;
        left.take(left.count() - 1, left.count());
    }
    tx.write(parent.key_at(parent.slot(between)?), key)?;
    left.store(tx)?;
    right.store(tx)?;
    if right.level() > 0 { right.store_link(tx, right.link) } else { Ok(()) }
}

/// Moves the contents of the root's only child into the root.
fn shrink<const SLOTS: usize, W: Words>(tx: &mut W, mut root: Node<SLOTS>) -> Result<(), Stop> {
    let child = root.child_at(tx, 0)?;
    let child = Node::<SLOTS>::open(tx, child, root.level() - 1)?;
    root.set_level(child.level());
    for position in 0..child.count() {
        let entry = child.entry(tx, position)?;
        root.put(tx, position, entry)?;
    }
    root.store_link(tx, child.link)?;
    root.store(tx)?;
    child.discard(tx)
}
