//! Scans of a range of keys in one transaction, upwards and downwards.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use words::{Addr, Stop, Words};
use zerocopy::IntoBytes;

use super::Tree;
use super::descend::Path;
use super::node::{Item, Loaded, Node};
use crate::entry::Entry;

/// Entries that are prefetched before a scan reads them.
const AHEAD: usize = 8;

/// Bytes that are prefetched of an entry.
const ENTRY_BYTES: usize = 128;

/// The bounds of a range of encoded keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) bounds: Bounds<'a>,
    /// From the greatest key to the least.
    pub(crate) is_reverse: bool,
    /// Whether values are read; else they are given as empty.
    pub(crate) reads_values: bool,
}

impl Scan<'_> {
    /// Returns whether the range ends before a key, in the direction of the scan.
    fn ends_before(&self, key: &[u8]) -> bool {
        match (self.is_reverse, self.bounds) {
            (false, (_, Bound::Included(high))) => key > high,
            (false, (_, Bound::Excluded(high))) => key >= high,
            (true, (Bound::Included(low), _)) => key < low,
            (true, (Bound::Excluded(low), _)) => key <= low,
            _ => false,
        }
    }
}

impl Tree {
    /// Calls `each` with the keys of a range and their values, until it breaks or the range ends.
    pub(crate) fn scan<W: Words>(
        self,
        tx: &mut W,
        scan: Scan<'_>,
        mut each: impl FnMut(Cow<'_, [u8]>, Cow<'_, [u8]>) -> Result<ControlFlow<()>, Stop>,
    ) -> Result<(), Stop> {
        let mut path = Path::new();
        let Some((mut leaf, mut next)) = self.start(tx, scan, &mut path)? else {
            return Ok(());
        };
        let mut guard: Option<Vec<u8>> = None;
        loop {
            let loaded = leaf.load(tx)?;
            let count = leaf.count();
            let left = if scan.is_reverse { next } else { count.saturating_sub(next) };
            // Position of the n-th entry from here on.
            let position = |n: usize| if scan.is_reverse { next - 1 - n } else { next + n };
            for n in 0..left.min(AHEAD) {
                self.announce(tx, &loaded, position(n))?;
            }
            for n in 0..left {
                if n + AHEAD < left {
                    self.announce(tx, &loaded, position(n + AHEAD))?;
                }
                let item = loaded.item(position(n))?;
                let flow = self.give(tx, &item, scan.reads_values, |key, value| {
                    if scan.ends_before(&key) {
                        return Ok(ControlFlow::Break(()));
                    }
                    if n == 0 {
                        pass(&mut guard, &key, scan.is_reverse)?;
                    }
                    each(key, value)
                })?;
                if flow.is_break() {
                    return Ok(());
                }
            }
            leaf = match self.next_leaf(tx, &mut path, scan.is_reverse)? {
                Some(leaf) => leaf,
                None => return Ok(()),
            };
            next = if scan.is_reverse { leaf.count() } else { 0 };
        }
    }

    /// Returns the first leaf of a scan, and the number of its entries that are before the start.
    fn start<W: Words>(
        self,
        tx: &mut W,
        scan: Scan<'_>,
        path: &mut Path,
    ) -> Result<Option<(Node, usize)>, Stop> {
        let bound = if scan.is_reverse { scan.bounds.1 } else { scan.bounds.0 };
        let (key, is_included) = match bound {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => {
                let Some(root) = self.root(tx)? else {
                    return Ok(None);
                };
                path.top = root.level();
                let leaf = self.edge(tx, path, root, scan.is_reverse)?;
                return Ok(Some((leaf, if scan.is_reverse { leaf.count() } else { 0 })));
            }
        };
        let leaf = self.descend(tx, key, |level, object, position| {
            path.top = path.top.max(level);
            path.steps[level] = (object, position);
        })?;
        let Some(leaf) = leaf else {
            return Ok(None);
        };
        let found = self.find(tx, &leaf, key)?;
        let passes = found.is_there && is_included == scan.is_reverse;
        Ok(Some((leaf, found.position + usize::from(passes))))
    }

    /// Descends to the first or last leaf below a node.
    fn edge<W: Words>(
        self,
        tx: &mut W,
        path: &mut Path,
        mut node: Node,
        is_last: bool,
    ) -> Result<Node, Stop> {
        while node.level() > 0 {
            let position = if is_last { node.count().saturating_sub(1) } else { 0 };
            path.steps[node.level()] = (node.object, position);
            node = self.open_child(tx, &node, position)?;
        }
        Ok(node)
    }

    /// Moves the path to the next leaf.
    fn next_leaf<W: Words>(
        self,
        tx: &mut W,
        path: &mut Path,
        is_reverse: bool,
    ) -> Result<Option<Node>, Stop> {
        let next = |node: &Node, position: usize| {
            let next = if is_reverse { position.checked_sub(1) } else { Some(position + 1) };
            next.filter(|&next| next < node.count())
        };
        for level in 1..=path.top {
            let (object, position) = path.steps[level];
            let node = self.open_at(tx, object, level)?;
            let Some(position) = next(&node, position) else {
                continue;
            };
            path.steps[level].1 = position;
            let below = self.open_child(tx, &node, position)?;
            if let Some(further) = next(&node, position) {
                let child = node.pointer_seen(tx, further)?;
                tx.will_read(Addr::new(child, 0), below.bytes());
            }
            return self.edge(tx, path, below, is_reverse).map(Some);
        }
        Ok(None)
    }

    /// Prefetches an entry.
    #[inline]
    fn announce<W: Words>(self, tx: &mut W, leaf: &Loaded, position: usize) -> Result<(), Stop> {
        if self.form.value().is_none() {
            tx.will_read(Addr::new(leaf.item(position)?.rest[0], 0), ENTRY_BYTES);
        }
        Ok(())
    }

    /// Calls `with` with the key and value of a leaf's item.
    #[inline]
    fn give<W: Words, R>(
        self,
        tx: &mut W,
        item: &Item,
        reads_values: bool,
        with: impl FnOnce(Cow<'_, [u8]>, Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let head = item.head.to_be_bytes();
        let none = Cow::Borrowed(&[][..]);
        match (self.form.key(), self.form.value()) {
            (Some(key), Some(value)) => {
                with(Cow::Borrowed(&head[..key]), Cow::Borrowed(&item.rest.as_bytes()[..value]))
            }
            (Some(key), None) if !reads_values => with(Cow::Borrowed(&head[..key]), none),
            (None, _) if !reads_values => {
                Entry::open(tx, item.rest[0])?.key(tx, |key| with(key, none))
            }
            _ => Entry::open(tx, item.rest[0])?.pair(tx, with),
        }
    }
}

/// Requires that the first key of each leaf is beyond that of the leaf before. A damaged tree may
/// have a leaf in many places; the scan of it ends by this.
fn pass(guard: &mut Option<Vec<u8>>, key: &[u8], is_reverse: bool) -> Result<(), Stop> {
    let is_beyond = match guard.as_deref() {
        None => true,
        Some(before) if is_reverse => key < before,
        Some(before) => key > before,
    };
    if !is_beyond {
        return Err(Stop::BadValue);
    }
    let before = guard.get_or_insert_default();
    before.clear();
    before.extend_from_slice(key);
    Ok(())
}
