//! Removal of all entries, in steps.
//!
//! The first step takes the whole tree away from the header's root, and the map is empty for all
//! transactions after it. The steps then free the nodes from the end of the tree. The rest is
//! always a tree of its own, without empty nodes, so a step may follow after a crash.

use words::{Addr, Stop, Words};

use super::descend::Path;
use super::node::Node;
use super::separator::free_separator;
use super::{CLEARED, HEADER_BYTES, ROOT, Tree};
use crate::entry::Entry;

impl Tree {
    /// Frees up to `most` entries, and the nodes that have none then. A leaf that holds its values
    /// is freed whole. Returns whether the tree is empty.
    pub(crate) fn clear<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        let mut root = tx.read(self.header_at(CLEARED))?;
        let mut left = most.max(1);
        if root == 0 {
            root = self.detach(tx)?;
        }
        while root != 0 {
            if left == 0 {
                return Ok(false);
            }
            let (freed, is_last) = self.free_leaf(tx, root, left)?;
            left = left.saturating_sub(freed.max(1));
            if is_last {
                tx.write(self.header_at(CLEARED), 0)?;
                root = 0;
            }
        }
        let is_empty = tx.read(self.header_at(ROOT))? == 0;
        if is_empty {
            // Nothing was written if it was empty before.
            tx.protect(self.header_at(ROOT))?;
        }
        Ok(is_empty)
    }

    /// Returns whether entries are still to be freed.
    pub(crate) fn has_cleared<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        Ok(tx.read(self.header_at(CLEARED))? != 0)
    }

    /// Frees up to `most` entries, and the header if there were no more. Returns whether it did.
    pub(crate) fn free<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        if !self.clear(tx, most)? {
            return Ok(false);
        }
        // Written first, so that a concurrent first insertion conflicts in every design.
        tx.write(self.header_at(ROOT), 0)?;
        tx.retire(self.header_at(0), HEADER_BYTES as u64)?;
        Ok(true)
    }

    /// Takes the nodes away from the root, to be freed. Returns their root, or 0.
    ///
    /// A concurrent insertion or removal conflicts: it writes the length, whose stripes are freed
    /// here or which is in the header, or else the only leaf, which this step frees or shortens. A
    /// concurrent update may commit, and precedes.
    fn detach<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        let root = tx.read(self.header_at(ROOT))?;
        if root != 0 {
            self.clear_length(tx)?;
            tx.write_words(self.header_at(ROOT), &[0, root])?;
        }
        Ok(root)
    }

    /// Frees entries of the last leaf, and the nodes that are empty then. Returns the number of
    /// entries, and whether the root was freed.
    fn free_leaf<W: Words>(self, tx: &mut W, root: u64, most: u64) -> Result<(u64, bool), Stop> {
        let mut path = Path::new();
        let mut node = Node::open_root(tx, self.form, root)?;
        path.top = node.level();
        for level in (0..path.top).rev() {
            let last = node.count().checked_sub(1).ok_or(Stop::BadValue)?;
            path.steps[level + 1] = (node.object, last);
            node = self.open_child(tx, &node, last)?;
        }
        let count = node.count();
        let mut kept = 0;
        if self.form.value().is_none() {
            kept = count.saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
            for position in kept..count {
                let pointer = node.pointer_seen(tx, position)?;
                tx.will_read(Addr::new(pointer, 0), 64);
            }
            for position in (kept..count).rev() {
                let pointer = node.pointer_seen(tx, position)?;
                Entry::open(tx, pointer)?.free(tx)?;
            }
        }
        node.take(kept, count);
        let freed = (count - kept) as u64;
        if kept > 0 {
            node.store(tx)?;
            return Ok((freed, false));
        }
        for level in 0..path.top {
            node.discard(tx)?;
            let (parent, last) = path.steps[level + 1];
            node = self.open_at(tx, parent, level + 1)?;
            let item = node.item(tx, last)?;
            free_separator(tx, self.form, &item)?;
            node.take(last, last + 1);
            if node.count() > 0 {
                node.store(tx)?;
                return Ok((freed, false));
            }
        }
        node.discard(tx)?;
        Ok((freed, true))
    }
}
