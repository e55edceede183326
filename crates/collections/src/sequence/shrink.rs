//! Pops: from the chunk at an end, or from its neighbor when that chunk is empty.
//!
//! A pop allocates nothing: a full pool can be emptied. Half a chunk lies between the pop that
//! frees a chunk and the push that adds one.

use system::mutants::{Mutant, injected};
use words::{Stop, Words};

use super::descend::End;
use super::node::Node;
use super::{Sequence, Side};

impl Sequence {
    /// Removes the slots of up to `count` elements at an end, of those in one chunk. Their entries
    /// stay.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] for damage.
    pub(super) fn remove<W: Words>(
        self,
        tx: &mut W,
        side: Side,
        end: &End,
        count: usize,
    ) -> Result<(), Stop> {
        let used = end.used().chunk;
        let rest = used.without(side, count.min(used.count()));
        rest.write_head(tx)?;
        let half = self.form.slots() / 2;
        if end.inner.is_some() {
            if rest.count() > half && injected(Mutant::EmptyChunkNotProtected) {
                return Ok(());
            }
            if rest.count() > half {
                // A concurrent push may write into the empty chunk, since the neighbor was full.
                return end.outer.chunk.protect(tx);
            }
            self.unlink(tx, side, end.outer.chunk)?;
        }
        if rest.count() > 0 {
            return Ok(());
        }
        let (emptied, is_alone) = self.outermost(tx, side)?.ok_or(Stop::BadValue)?;
        if is_alone {
            return Ok(());
        }
        let neighbor = self.neighbor(tx, emptied, side)?.chunk;
        // A concurrent pop at the other end may empty it: two empty chunks would remain.
        if !injected(Mutant::LastChunkNotProtected) {
            neighbor.protect(tx)?;
        }
        match neighbor.count() > half {
            true => Ok(()),
            false => self.unlink(tx, side, emptied.chunk),
        }
    }

    /// Frees the empty chunk at an end, and the nodes above that have no other child.
    #[cold]
    fn unlink<W: Words>(self, tx: &mut W, side: Side, chunk: Node) -> Result<(), Stop> {
        let mut path = self.path(tx, side)?;
        chunk.discard(tx)?;
        while let Some(node) = path.pop() {
            if node.count() == 1 {
                node.discard(tx)?;
                continue;
            }
            let rest = node.without(side, 1);
            if path.is_empty() && rest.count() == 1 {
                return self.collapse(tx, rest);
            }
            return rest.write_head(tx);
        }
        // The root had one child.
        Err(Stop::BadValue)
    }

    /// Replaces a root of one child by the first node below that has several, or by the chunk.
    fn collapse<W: Words>(self, tx: &mut W, root: Node) -> Result<(), Stop> {
        let mut root = root;
        while root.level > 0 && root.count() == 1 {
            let child = root.pointer(tx, root.from)?;
            root.discard(tx)?;
            root = Node::open(tx, self.form, child, root.level - 1)?;
        }
        // A concurrent pop at the other end may leave it one child.
        root.protect(tx)?;
        self.set_root(tx, root.object)
    }
}
