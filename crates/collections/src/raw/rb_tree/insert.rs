//! Insertion of a red leaf, and the repairs that restore the red-black rules.

use words::{Allocate, Stop, Words, work};

use super::{BLACK, DEPTH_MAX, PARENT, RED, RbTree, is_red, other, paint, protect, side_of, word};

impl RbTree {
    /// Adds a new node at this side of a node, or to the empty tree.
    pub(super) fn add<W: Allocate>(
        self,
        tx: &mut W,
        (key, value): (u64, u64),
        parent: u64,
        side: u64,
    ) -> Result<(), Stop> {
        tx.compute(work::REPAIR);
        let node = tx.allocate(Self::NODE_BYTES)?;
        let colour = if parent == 0 { BLACK } else { RED };
        tx.write_words(word(node, 0), &[key, value, 0, 0, parent, colour])?;
        tx.write(self.link(parent, side), node)?;
        self.repair_red(tx, node, parent)
    }

    /// Repairs a red node whose parent may be red, the only violation.
    fn repair_red<W: Words>(self, tx: &mut W, node: u64, parent: u64) -> Result<(), Stop> {
        let (mut node, mut parent) = (node, parent);
        for _ in 0..DEPTH_MAX {
            if parent == 0 {
                return Ok(()); // the parent is the root, and black
            }
            if !is_red(tx, parent)? {
                return protect(tx, parent);
            }
            let top = tx.read(word(parent, PARENT))?;
            if top == 0 {
                return Err(Stop::BadValue); // a root is black
            }
            let side = side_of(tx, top, parent)?;
            let uncle = tx.read(word(top, other(side)))?;
            if !is_red(tx, uncle)? {
                protect(tx, uncle)?;
                return self.rotate_above(tx, node, parent, top, side);
            }
            paint(tx, parent, BLACK)?;
            paint(tx, uncle, BLACK)?;
            let above = tx.read(word(top, PARENT))?;
            if above == 0 {
                // Read, and left black.
                return protect(tx, top);
            }
            paint(tx, top, RED)?;
            (node, parent) = (top, above);
        }
        Err(Stop::BadValue)
    }

    /// Rotates at the end: `parent` is at this side of `top`, and the other child is black.
    fn rotate_above<W: Words>(
        self,
        tx: &mut W,
        node: u64,
        parent: u64,
        top: u64,
        side: u64,
    ) -> Result<(), Stop> {
        let mut parent = parent;
        if side_of(tx, parent, node)? != side {
            self.rotate(tx, parent, side)?;
            parent = node;
        }
        self.rotate(tx, top, other(side))?;
        paint(tx, parent, BLACK)?;
        paint(tx, top, RED)
    }
}
