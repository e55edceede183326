//! Ordered iteration.

use std::ops::{Bound, ControlFlow, RangeBounds};

use words::{Addr, Stop, Words};

use super::BTree;
use super::node::Node;

/// A position in a scan that takes several transactions: the range of keys still to visit.
///
/// It holds a key, not a node, so it stays valid whatever changes in the tree. It is a plain copy:
/// a body that runs again starts again at the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor<const SLOTS: usize = 28> {
    tree: BTree<SLOTS>,
    from: u64,
    to: u64,
}

impl<const SLOTS: usize> Cursor<SLOTS> {
    /// Calls `visit` with up to `most` further pairs, in ascending order; returns the position
    /// after them, or `None` at the end.
    ///
    /// # Errors
    /// As [`BTree::range`].
    pub fn read<W: Words>(
        self,
        tx: &mut W,
        most: u64,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<Option<Cursor<SLOTS>>, Stop> {
        let (mut left, mut from) = (most.max(1), None);
        self.tree.range(tx, self.from..=self.to, |key, value| {
            visit(key, value);
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            from = key.checked_add(1).filter(|&next| next <= self.to);
            ControlFlow::Break(())
        })?;
        Ok(from.map(|from| Cursor { from, ..self }))
    }
}

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Calls `visit` with the pairs whose keys lie in `bounds`, in ascending order, until it breaks
    /// or the pairs end. For a long scan in several transactions see [`cursor`](BTree::cursor).
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn range<W: Words>(
        self,
        tx: &mut W,
        bounds: impl RangeBounds<u64>,
        mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let Some((from, to)) = closed(&bounds) else {
            return Ok(());
        };
        let (mut leaf, mut position) = self.first_from(tx, from)?;
        let mut least = from;
        loop {
            while position < leaf.count() {
                let (key, value) = leaf.entry(tx, position)?;
                // Require ascending keys: a scan over a damaged chain ends by that.
                if key < least {
                    return Err(Stop::BadValue);
                }
                if key > to || visit(key, value).is_break() || key == u64::MAX {
                    return Ok(());
                }
                least = key + 1;
                position += 1;
            }
            if leaf.link == 0 {
                return Ok(());
            }
            tx.after_last_read();
            leaf = Node::open(tx, Addr::new(leaf.link, 0), 0)?;
            if leaf.count() == 0 {
                return Err(Stop::BadValue);
            }
            position = 0;
        }
    }

    /// Returns a scan over the keys in `bounds` that may take several transactions; `None` when the
    /// range is empty.
    pub fn cursor(self, bounds: impl RangeBounds<u64>) -> Option<Cursor<SLOTS>> {
        closed(&bounds).map(|(from, to)| Cursor { tree: self, from, to })
    }

    /// Finds the leaf of `from`, and the position of the first key that is not below it.
    fn first_from<W: Words>(self, tx: &mut W, from: u64) -> Result<(Node<SLOTS>, usize), Stop> {
        let mut node = Node::open_root(tx, self.root())?;
        for level in (0..node.level()).rev() {
            let found = node.search(tx, from)?;
            let child = node.child(tx, &found)?;
            node = Node::open(tx, child, level)?;
        }
        let found = node.search(tx, from)?;
        Ok((node, found.rank - usize::from(found.exact)))
    }
}

/// Returns the first and last key of a range; `None` when it is empty.
fn closed(bounds: &impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let from = match bounds.start_bound() {
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match bounds.end_bound() {
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (from <= to).then_some((from, to))
}
