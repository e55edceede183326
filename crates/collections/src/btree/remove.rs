//! Removal from a leaf, with joins of small nodes up the path.

use std::borrow::Cow;

use system::mutants::{Mutant, injected};
use words::{Allocate, Stop, Words};

use super::descend::{Limits, Path, borrowed};
use super::insert::{Spot, child_at};
use super::node::{Item, Node};
use super::separator::{Separator, child, skip_most, with_skip};
use super::{Tree, spread};
use crate::entry::Entry;
use crate::length::Length;

/// A node that lost items, and the position of its parent's child that leads to it.
type Place = (Node, usize);

impl Tree {
    /// Removes a key and returns the result of `with` for its value.
    pub(crate) fn remove<W: Allocate, R>(
        self,
        tx: &mut W,
        key: &[u8],
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        let spot = self.spot(tx, key)?;
        let value = self.value_at(tx, &spot, with)?;
        match value {
            Some(_) => self.remove_at(tx, spot, key)?,
            None => self.protect(tx, &spot)?,
        }
        Ok(value)
    }

    /// Removes the key at its spot, where it must be.
    pub(crate) fn remove_at<W: Allocate>(
        self,
        tx: &mut W,
        spot: Spot,
        key: &[u8],
    ) -> Result<(), Stop> {
        let (path, leaf, found) = spot.into_parts();
        let mut leaf = leaf.ok_or(Stop::BadValue)?;
        if self.form.value().is_none() {
            let entry = match found.entry {
                Some(entry) => entry,
                None => {
                    let pointer = leaf.pointer_seen(tx, found.position)?;
                    Entry::open(tx, pointer)?
                }
            };
            entry.free(tx)?;
        }
        leaf.take(found.position, found.position + 1);
        leaf.store(tx)?;
        if path.top == 0 {
            return Ok(());
        }
        self.length().add(tx, spread(&leaf), -1)?;
        if leaf.count() < leaf.least() { self.join_up(tx, (&path, key), leaf) } else { Ok(()) }
    }

    /// Joins nodes that have few items with a neighbor, from the leaf upwards.
    #[cold]
    fn join_up<W: Allocate>(
        self,
        tx: &mut W,
        path: (&Path, &[u8]),
        leaf: Node,
    ) -> Result<(), Stop> {
        let mut node = leaf;
        for level in 1..=path.0.top {
            let (object, position) = path.0.steps[level];
            let mut parent = self.open_at(tx, object, level)?;
            if position >= parent.count() {
                return Err(Stop::BadValue);
            }
            if parent.count() == 1 {
                if node.count() > 0 {
                    return Ok(());
                }
                // The parent is empty without this node.
                node.discard(tx)?;
                parent.take(0, 1);
                node = parent;
                continue;
            }
            let Some((left, right)) = self.neighbors(tx, &parent, (node, position))? else {
                return Ok(());
            };
            self.join(tx, path, &mut parent, left, right)?;
            if level == path.0.top {
                return if parent.count() == 1 { self.shrink(tx, parent) } else { Ok(()) };
            }
            if parent.count() >= parent.least() {
                return Ok(());
            }
            node = parent;
        }
        Err(Stop::BadValue) // a root has two children
    }

    /// Returns the node and a neighbor that it can be joined with, the left one first.
    fn neighbors<W: Words>(
        self,
        tx: &mut W,
        parent: &Node,
        (node, position): Place,
    ) -> Result<Option<(Place, Place)>, Stop> {
        let fits =
            |other: &Node| node.count() == 0 || node.count() + other.count() <= node.joined_most();
        if let Some(before) = position.checked_sub(1) {
            let left = self.open_child(tx, parent, before)?;
            if fits(&left) {
                return Ok(Some(((left, before), (node, position))));
            }
        }
        if position + 1 < parent.count() {
            let right = self.open_child(tx, parent, position + 1)?;
            if fits(&right) {
                return Ok(Some(((node, position), (right, position + 1))));
            }
        }
        Ok(None)
    }

    /// Moves the items of one node to its neighbor, the one with more, and frees the other.
    fn join<W: Allocate>(
        self,
        tx: &mut W,
        path: (&Path, &[u8]),
        parent: &mut Node,
        (left, at): Place,
        (right, right_at): Place,
    ) -> Result<(), Stop> {
        let (form, level) = (self.form, left.level());
        let item = parent.item(tx, right_at)?;
        let separator = Separator::of(tx, form, &item, (parent.skip(), path.1))?;
        let limits = self.limits(tx, path, level + 1, (at, right_at))?;
        let keeps_left = left.count() >= right.count();
        let (mut kept, other) = if keeps_left { (left, right) } else { (right, left) };
        let skip = kept.skip().min(skip_most(form, borrowed(&limits)));
        // The separator is a bound of both, so it begins with the bytes that they skip.
        let changed = |tx: &mut W, node: &Node| {
            let items = node.items(tx)?;
            let skips = (node.skip(), skip, separator.bytes.as_slice());
            let changed = with_skip(tx, form, level, &items, skips)?;
            Ok::<_, Stop>((items, changed))
        };
        let (before, left_items) = changed(tx, &left)?;
        let (before_right, mut right_items) = changed(tx, &right)?;
        let before = if keeps_left { before } else { before_right };
        // The separator goes away, and it is not only a bound of the node that is kept.
        let is_emptied = level > 0 && other.count() == 0;
        let bound = is_emptied.then(|| separator.bytes.clone());
        if level > 0 && left.count() > 0 && right.count() > 0 {
            right_items[0] = separator.item(tx, form, skip, child(form, &right_items[0]))?;
        } else {
            separator.free(tx)?;
        }
        let (now, moved, from) = if keeps_left {
            (&left_items, &right_items, left.count())
        } else {
            (&right_items, &left_items, 0)
        };
        self.merge(tx, &mut kept, (&before, now), (moved, from), skip)?;
        // Its bounds change, even if nothing moves into it.
        kept.protect(tx)?;
        if !keeps_left {
            tx.write(child_at(self, parent, at)?, kept.object)?;
        }
        parent.take(right_at, right_at + 1);
        parent.store(tx)?;
        if !injected(Mutant::JoinedNodeLeaks) {
            other.discard(tx)?;
        }
        match bound {
            Some(bound) => self.widen(tx, kept, keeps_left, &bound, limits),
            None => Ok(()),
        }
    }

    /// Adapts the nodes on one edge below an inner node. `separator` was their bound on that side,
    /// and the node's; now it is that of `limits`, the node's new bounds.
    ///
    /// Each node of the edge is written or protected, down to the leaf: a concurrent transaction
    /// may split one of them and rely on the old bound.
    fn widen<W: Allocate>(
        self,
        tx: &mut W,
        mut node: Node,
        is_last: bool,
        separator: &[u8],
        mut limits: Limits,
    ) -> Result<(), Stop> {
        let form = self.form;
        if form.is_exact() {
            return Ok(()); // without skips, so nothing depends on bounds
        }
        while node.level() > 0 {
            let last = node.count().checked_sub(1).ok_or(Stop::BadValue)?;
            if last > 0 {
                // The child's bound on the other side. All these nodes had the old separator as a
                // bound, so it begins with the bytes that they skip.
                let item = node.item(tx, if is_last { last } else { 1 })?;
                let other = Separator::of(tx, form, &item, (node.skip(), separator))?;
                let bound = if is_last { &mut limits.0 } else { &mut limits.1 };
                *bound = Some(other.bytes);
            }
            let level = node.level() - 1;
            let item = node.item(tx, if is_last { last } else { 0 })?;
            node = Node::open(tx, form, child(form, &item), level)?;
            let (from, to) = (node.skip(), skip_most(form, borrowed(&limits)));
            if from <= to {
                node.protect(tx)?;
                continue;
            }
            let before = node.items(tx)?;
            let now = with_skip(tx, form, level, &before, (from, to, separator))?;
            self.merge(tx, &mut node, (&before, &now), (&[], 0), to)?;
        }
        Ok(())
    }

    /// Writes the changed items of a node, and those that move into it from a position on.
    fn merge<W: Allocate>(
        self,
        tx: &mut W,
        kept: &mut Node,
        (before, now): (&[Item], &[Item]),
        (moved, from): (&[Item], usize),
        skip: usize,
    ) -> Result<(), Stop> {
        for (position, pair) in before.iter().zip(now).enumerate() {
            kept.set(tx, position, pair)?;
        }
        for (i, item) in moved.iter().enumerate() {
            kept.put(tx, from + i, item)?;
        }
        kept.set_skip(skip);
        kept.store(tx)
    }

    /// Makes the root's only child the root.
    fn shrink<W: Words>(self, tx: &mut W, root: Node) -> Result<(), Stop> {
        let mut root = root;
        while root.level() > 0 && root.count() == 1 {
            let item = root.item(tx, 0)?;
            root.discard(tx)?;
            root = Node::open(tx, self.form, child(self.form, &item), root.level() - 1)?;
        }
        if root.level() == 0 {
            self.clear_length(tx)?;
        }
        self.set_root(tx, root.object)
    }

    /// Frees the length's stripes, and makes the length zero.
    pub(super) fn clear_length<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.length().free(tx)?;
        tx.write_words(self.header_at(super::LENGTH), &Length::ZERO)
    }
}
