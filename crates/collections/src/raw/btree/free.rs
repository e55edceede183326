//! Freeing a whole tree in steps.

use words::{Addr, Stop, Words};

use super::BTree;
use super::node::{LEVELS, Node};

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Frees up to `most_nodes` nodes; returns whether that was the last one. Every copy of this
    /// value dangles after that.
    ///
    /// Between the steps the tree must not be used for anything else. The progress is part of the
    /// pool, so freeing continues after a crash.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the tree was freed before.
    pub fn free<W: Words>(self, tx: &mut W, most_nodes: u64) -> Result<bool, Stop> {
        for _ in 0..most_nodes {
            let mut parent: Option<Node<SLOTS>> = None;
            let mut node = open_any(tx, self.root(), LEVELS)?;
            while node.level() > 0 {
                let last = node.child_at(tx, node.count())?;
                let below = node.level();
                parent = Some(node);
                node = open_any(tx, last, below)?;
            }
            node.discard(tx)?;
            let Some(mut parent) = parent else {
                return Ok(true);
            };
            match parent.count() {
                // Its last child is freed: it becomes an empty leaf, the next node to free.
                0 => parent.set_level(0),
                count => parent.take(count - 1, count),
            }
            parent.store(tx)?;
        }
        Ok(false)
    }
}

/// Opens a node somewhere below `level`: while a tree is freed, inner nodes become leaves.
fn open_any<const SLOTS: usize, W: Words>(
    tx: &mut W,
    at: Addr,
    level: usize,
) -> Result<Node<SLOTS>, Stop> {
    let node = Node::<SLOTS>::peek(tx, at.object)?;
    if node.count() > SLOTS || node.level() >= level {
        return Err(Stop::BadValue);
    }
    Ok(node)
}
