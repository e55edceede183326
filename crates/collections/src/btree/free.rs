//! Giving a whole tree back, in steps.

use words::{Addr, Stop, Words};

use super::BTree;
use super::node::{LEVELS, Node};

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Gives up to `most_nodes` nodes back; answers whether that was the last one, after which
    /// every copy of this value leads nowhere. Between the steps the tree must not be used for
    /// anything else; how far it has come is part of the pool, so it goes on after a crash.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the tree was given back before.
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
                // Its last child is gone: it is an empty leaf, and the next to be given back.
                0 => parent.set_level(0),
                count => parent.take(count - 1, count),
            }
            parent.store(tx)?;
        }
        Ok(false)
    }
}

/// A node somewhere below `level`: in a tree that is given back, inner nodes become leaves.
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
