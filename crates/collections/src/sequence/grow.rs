//! Pushes: into the chunk at an end, its neighbor, or a new chunk.
//!
//! ```text
//!   root that is full at the side
//!     at most half full        slides its slots to the other side
//!     small                    is replaced by a root of twice the size
//!     of full size             becomes a child of a new root
//!   other full chunk           a new chunk beside it, below the lowest node with room
//! ```
//!
//! A slide moves at most half of the slots, and leaves room for as many. So a push moves less than
//! two slots on average.

use system::mutants::{Mutant, injected};
use words::{Allocate, Stop};

use super::descend::End;
use super::node::{LEVEL_MAX, Node};
use super::{Sequence, Side};

impl Sequence {
    /// Adds a slot at an end.
    ///
    /// # Errors
    /// As [`Allocate::allocate`], and [`Stop::BadValue`] for damage.
    pub(super) fn add<W: Allocate>(self, tx: &mut W, side: Side, slot: &[u8]) -> Result<(), Stop> {
        // A root that grew has room.
        for _ in 0..2 {
            let Some(end) = self.end(tx, side)? else {
                let root = Node::create_root(tx, self.form, 0, side, slot)?;
                return self.set_root(tx, root);
            };
            if self.add_at(tx, side, &end, slot)? {
                return Ok(());
            }
            self.grow_root(tx, side)?;
        }
        Err(Stop::BadValue)
    }

    /// Adds a slot at an end. Returns false when the root must grow first.
    fn add_at<W: Allocate>(
        self,
        tx: &mut W,
        side: Side,
        end: &End,
        slot: &[u8],
    ) -> Result<bool, Stop> {
        let chunk = end.used().chunk;
        if chunk.has_room(side) {
            chunk.add(tx, side, slot)?;
            return Ok(true);
        }
        let outer = end.outer.chunk;
        if end.inner.is_some() {
            outer.add(tx, side, slot)?;
            return Ok(true);
        }
        if end.is_alone {
            return Ok(false);
        }
        let path = self.path(tx, side)?;
        let Some(node) = path.iter().rfind(|node| node.has_room(side)) else {
            return Ok(false);
        };
        // A concurrent pop would leave a gap before the new chunk.
        if !injected(Mutant::FullChunkNotProtected) {
            outer.protect(tx)?;
        }
        let number = match side {
            Side::Front => outer.number(tx)?.wrapping_sub(1),
            Side::Back => outer.number(tx)?.wrapping_add(1),
        };
        let mut object = Node::create(tx, self.form, (0, number), side, slot)?;
        for level in 1..node.level {
            object = Node::create(tx, self.form, (level, 0), side, &object.to_ne_bytes())?;
        }
        node.add(tx, side, &object.to_ne_bytes())?;
        Ok(true)
    }

    /// Gives the root room at a side.
    #[cold]
    fn grow_root<W: Allocate>(self, tx: &mut W, side: Side) -> Result<(), Stop> {
        let root = self.root(tx)?.ok_or(Stop::BadValue)?;
        if 2 * root.count() <= root.capacity() {
            return root.slide(tx, side);
        }
        if root.is_small() {
            let larger = root.enlarged(tx, side)?;
            self.set_root(tx, larger)?;
            return root.discard(tx);
        }
        if root.level == LEVEL_MAX {
            return Err(Stop::Full);
        }
        let (level, pointer) = (root.level + 1, root.object.to_ne_bytes());
        let above = Node::create_root(tx, self.form, level, side, &pointer)?;
        self.set_root(tx, above)
    }
}
