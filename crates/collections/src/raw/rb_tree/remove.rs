//! Removal of a node with at most one child, and the repairs that restore the red-black rules.

use words::{Stop, Words, work};

use super::{
    BLACK, COLOUR, DEPTH_MAX, KEY, LEFT, PARENT, RED, RIGHT, RbTree, discard, is_red, other, paint,
    protect, side_of, word,
};

impl RbTree {
    /// Removes a node's key: frees the node, or its successor after moving key and value here.
    pub(super) fn take_out<W: Words>(self, tx: &mut W, node: u64) -> Result<(), Stop> {
        let (left, right) = (tx.read(word(node, LEFT))?, tx.read(word(node, RIGHT))?);
        if left == 0 || right == 0 {
            return self.unlink(tx, node, if left == 0 { right } else { left });
        }
        let mut next = right;
        for _ in 0..DEPTH_MAX {
            tx.compute(work::DESCEND);
            let below = tx.read(word(next, LEFT))?;
            if below == 0 {
                let mut pair = [0; 2];
                tx.read_words(word(next, KEY), &mut pair)?;
                tx.write_words(word(node, KEY), &pair)?;
                let child = tx.read(word(next, RIGHT))?;
                return self.unlink(tx, next, child);
            }
            next = below;
        }
        Err(Stop::BadValue)
    }

    /// Replaces a node by its only child, or by none.
    fn unlink<W: Words>(self, tx: &mut W, node: u64, child: u64) -> Result<(), Stop> {
        tx.compute(work::REPAIR);
        let parent = tx.read(word(node, PARENT))?;
        let side = if parent == 0 { LEFT } else { side_of(tx, parent, node)? };
        let was_red = is_red(tx, node)?;
        tx.write(self.link(parent, side), child)?;
        if child != 0 {
            // An only child is red and its parent black: the child takes the colour too.
            if was_red || !is_red(tx, child)? {
                return Err(Stop::BadValue);
            }
            tx.write_words(word(child, PARENT), &[parent, BLACK])?;
        }
        discard(tx, node)?;
        if child == 0 && !was_red { self.repair_black(tx, parent, side) } else { Ok(()) }
    }

    /// Repairs paths through this side of a node that miss one black node, the only violation.
    fn repair_black<W: Words>(self, tx: &mut W, parent: u64, side: u64) -> Result<(), Stop> {
        let (mut parent, mut side) = (parent, side);
        for _ in 0..DEPTH_MAX {
            if parent == 0 {
                return Ok(()); // all paths miss it: the tree is balanced
            }
            let mut beside = self.sibling(tx, parent, side)?;
            if is_red(tx, beside)? {
                paint(tx, beside, BLACK)?;
                paint(tx, parent, RED)?;
                self.rotate(tx, parent, side)?;
                beside = self.sibling(tx, parent, side)?;
            }
            let near = tx.read(word(beside, side))?;
            let far = tx.read(word(beside, other(side)))?;
            let (near_is_red, far_is_red) = (is_red(tx, near)?, is_red(tx, far)?);
            if near_is_red || far_is_red {
                protect(tx, far)?;
                return self.rotate_sibling(tx, parent, side, beside, far_is_red);
            }
            protect(tx, near)?;
            protect(tx, far)?;
            paint(tx, beside, RED)?;
            if is_red(tx, parent)? {
                return paint(tx, parent, BLACK);
            }
            protect(tx, parent)?;
            let above = tx.read(word(parent, PARENT))?;
            side = if above == 0 { LEFT } else { side_of(tx, above, parent)? };
            parent = above;
        }
        Err(Stop::BadValue)
    }

    /// Rotates at the end: the sibling is black, and its red child replaces the missing black node.
    fn rotate_sibling<W: Words>(
        self,
        tx: &mut W,
        parent: u64,
        side: u64,
        beside: u64,
        far_is_red: bool,
    ) -> Result<(), Stop> {
        let mut beside = beside;
        if !far_is_red {
            self.rotate(tx, beside, other(side))?;
            paint(tx, beside, RED)?;
            beside = self.sibling(tx, parent, side)?;
        }
        let far = tx.read(word(beside, other(side)))?;
        let colour = tx.read(word(parent, COLOUR))?;
        paint(tx, beside, colour)?;
        paint(tx, parent, BLACK)?;
        paint(tx, far, BLACK)?;
        self.rotate(tx, parent, side)
    }

    /// Returns the child at the other side of a node; it must exist where a black node is missing.
    fn sibling<W: Words>(self, tx: &mut W, parent: u64, side: u64) -> Result<u64, Stop> {
        let beside = tx.read(word(parent, other(side)))?;
        if beside == 0 { Err(Stop::BadValue) } else { Ok(beside) }
    }
}
