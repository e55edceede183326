//! Descents to the leaf of a key, and the bounds of the nodes on the path.

use std::borrow::Cow;
use std::cmp::Ordering;

use words::{Addr, Stop, Words};
use zerocopy::IntoBytes;

use super::Tree;
use super::node::{LEVELS, Node, bytes, head_at};
use super::separator::Separator;
use crate::entry::Entry;

/// The path of a descent.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The root's level.
    pub(super) top: usize,
    /// At each level above the leaf: the node, and the position of the child below.
    pub(super) steps: [(u64, usize); LEVELS],
}

/// The place of a key in its leaf.
#[derive(Debug)]
pub(super) struct Found {
    /// Number of the leaf's keys that are below the key.
    pub(super) position: usize,
    /// Whether the next one is the key.
    pub(super) is_there: bool,
    /// Its entry, if it was opened already.
    pub(super) entry: Option<Entry>,
}

/// The bounds of a node's keys: the least one, and the first that is above all.
pub(super) type Limits = (Option<Vec<u8>>, Option<Vec<u8>>);

impl Path {
    pub(super) const fn new() -> Path {
        Path { top: 0, steps: [(0, 0); LEVELS] }
    }
}

/// Borrows bounds.
pub(super) fn borrowed(limits: &Limits) -> (Option<&[u8]>, Option<&[u8]>) {
    (limits.0.as_deref(), limits.1.as_deref())
}

impl Tree {
    /// Calls `with` on the value of a key.
    #[inline]
    pub(crate) fn get<W: Words, R>(
        self,
        tx: &mut W,
        key: &[u8],
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        let Some(leaf) = self.descend(tx, key, |_, _, _| ())? else {
            return Ok(None);
        };
        if self.form.is_exact() {
            let found = self.find(tx, &leaf, key)?;
            return found.is_there.then(|| self.value(tx, &leaf, &found, with)).transpose();
        }
        let (first, end) = leaf.equal(tx, head_at(key, leaf.skip()))?;
        match end - first {
            0 => Ok(None),
            1 => {
                let entry = leaf.pointer_seen(tx, first)?;
                Entry::open(tx, entry)?.find(tx, key, with)
            }
            _ => {
                let found = self.find_among(tx, &leaf, key, (first, end))?;
                found.is_there.then(|| self.value(tx, &leaf, &found, with)).transpose()
            }
        }
    }

    /// Returns whether the key is there.
    pub(crate) fn contains<W: Words>(self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        match self.descend(tx, key, |_, _, _| ())? {
            None => Ok(false),
            Some(leaf) => Ok(self.find(tx, &leaf, key)?.is_there),
        }
    }

    /// Descends to a key's leaf; `None` in a tree without nodes. Calls `step` with the level, the
    /// node and the position of the child, for each inner node.
    #[inline(always)]
    pub(super) fn descend<W: Words>(
        self,
        tx: &mut W,
        key: &[u8],
        mut step: impl FnMut(usize, u64, usize),
    ) -> Result<Option<Node>, Stop> {
        tx.after_last_read();
        let Some(mut node) = self.root(tx)? else {
            return Ok(None);
        };
        for level in (0..node.level()).rev() {
            let position = self.child_of(tx, &node, key)?;
            step(level + 1, node.object, position);
            node = self.open_child(tx, &node, position)?;
        }
        Ok(Some(node))
    }

    /// Descends to a key's leaf, for a change of it.
    #[inline(always)]
    pub(super) fn descend_to_write<W: Words>(
        self,
        tx: &mut W,
        key: &[u8],
        path: &mut Path,
    ) -> Result<Option<Node>, Stop> {
        let leaf = self.descend(tx, key, |level, object, position| {
            path.top = path.top.max(level);
            path.steps[level] = (object, position);
        })?;
        if let Some(leaf) = &leaf {
            tx.will_write(Addr::new(leaf.object, 0), leaf.bytes());
        }
        Ok(leaf)
    }

    /// Opens a child of an inner node that is unwritten since it was opened.
    #[inline(always)]
    pub(super) fn open_child<W: Words>(
        self,
        tx: &mut W,
        node: &Node,
        position: usize,
    ) -> Result<Node, Stop> {
        let child = node.pointer_seen(tx, position)?;
        let level = node.level().checked_sub(1).ok_or(Stop::BadValue)?;
        tx.after_last_read();
        // A search reads few words after the heads of an inner node.
        let width = if level == 0 { self.form.width(0) } else { 0 };
        tx.will_read(Addr::new(child, 0), bytes(self.form.slots(level), width));
        Node::open(tx, self.form, child, level)
    }

    /// Returns the position of the child where a key belongs.
    #[inline(always)]
    fn child_of<W: Words>(self, tx: &mut W, node: &Node, key: &[u8]) -> Result<usize, Stop> {
        let head = head_at(key, node.skip());
        if self.form.is_exact() {
            return node.upper(tx, head)?.checked_sub(1).ok_or(Stop::BadValue);
        }
        let (mut first, mut end) = node.equal(tx, head)?;
        while first < end {
            let middle = first.midpoint(end);
            let object = node.rest_seen(tx, middle)?[0];
            let is_above = object != 0 && {
                tx.after_last_read();
                Entry::open(tx, object)?.compare(tx, key)? == Ordering::Greater
            };
            (first, end) = if is_above { (first, middle) } else { (middle + 1, end) };
        }
        first.checked_sub(1).ok_or(Stop::BadValue)
    }

    /// Finds a key in a leaf that is unwritten since it was opened.
    #[inline(always)]
    pub(super) fn find<W: Words>(self, tx: &mut W, leaf: &Node, key: &[u8]) -> Result<Found, Stop> {
        let head = head_at(key, leaf.skip());
        if self.form.is_exact() {
            let position = leaf.lower(tx, head)?;
            let is_there = position < leaf.count() && leaf.head_seen(tx, position)? == head;
            return Ok(Found { position, is_there, entry: None });
        }
        let equal = leaf.equal(tx, head)?;
        self.find_among(tx, leaf, key, equal)
    }

    /// Finds a key among the entries whose heads equal its own.
    fn find_among<W: Words>(
        self,
        tx: &mut W,
        leaf: &Node,
        key: &[u8],
        (mut first, mut end): (usize, usize),
    ) -> Result<Found, Stop> {
        while first < end {
            let middle = first.midpoint(end);
            let pointer = leaf.pointer_seen(tx, middle)?;
            let entry = Entry::open(tx, pointer)?;
            (first, end) = match entry.compare(tx, key)? {
                Ordering::Less => (middle + 1, end),
                Ordering::Greater => (first, middle),
                Ordering::Equal => {
                    return Ok(Found { position: middle, is_there: true, entry: Some(entry) });
                }
            };
        }
        Ok(Found { position: first, is_there: false, entry: None })
    }

    /// Calls `with` on the value of a key that was found, in a leaf that is unwritten since it was
    /// opened.
    #[inline]
    pub(super) fn value<W: Words, R>(
        self,
        tx: &mut W,
        leaf: &Node,
        found: &Found,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        if let Some(bytes) = self.form.value() {
            let rest = leaf.rest_seen(tx, found.position)?;
            return with(Cow::Borrowed(&rest.as_bytes()[..bytes]));
        }
        if let Some(entry) = &found.entry {
            return entry.value(tx, with);
        }
        let pointer = leaf.pointer_seen(tx, found.position)?;
        Entry::open(tx, pointer)?.value(tx, with)
    }

    /// Returns the bounds of the children from position `left` to `right` of the node at a level of
    /// the path, whose descent was for `key`. Above the root there are none.
    pub(super) fn limits<W: Words>(
        self,
        tx: &mut W,
        (path, key): (&Path, &[u8]),
        level: usize,
        (mut left, mut right): (usize, usize),
    ) -> Result<Limits, Stop> {
        let mut limits: Limits = (None, None);
        for level in level..=path.top {
            let node = self.open_at(tx, path.steps[level].0, level)?;
            let of = |tx: &mut W, position| {
                let item = node.item(tx, position)?;
                let separator = Separator::of(tx, self.form, &item, (node.skip(), key))?;
                Ok::<_, Stop>(Some(separator.bytes))
            };
            if limits.0.is_none() && left > 0 {
                limits.0 = of(tx, left)?;
            }
            if limits.1.is_none() && right + 1 < node.count() {
                limits.1 = of(tx, right + 1)?;
            }
            left = path.steps.get(level + 1).map_or(0, |step| step.1);
            right = left;
        }
        Ok(limits)
    }

    /// Opens a node of the path, which may be the root.
    pub(super) fn open_at<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        level: usize,
    ) -> Result<Node, Stop> {
        let node = Node::open_root(tx, self.form, object)?;
        if node.level() == level && node.count() > 0 { Ok(node) } else { Err(Stop::BadValue) }
    }
}
