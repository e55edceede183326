//! Ways down the tree: to an end, to a position, to the neighbor of a chunk.

use words::{Stop, Words};

use super::node::{CHILDREN, Node};
use super::{Form, Sequence, Side};

/// A chunk, and the position of its first slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) chunk: Node,
    pub(super) base: u64,
}

/// An end of a sequence that has a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The chunk at the end.
    pub(super) outer: Spot,
    /// Its neighbor, if the chunk at the end is empty and not alone.
    pub(super) inner: Option<Spot>,
    /// Whether the chunk at the end is the root.
    pub(super) is_alone: bool,
}

/// The positions of all elements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// Position of the first element.
    pub(super) first: u64,
    /// Position behind the last element.
    pub(super) last: u64,
    /// Number of a chunk at position 0, whether or not there is such a chunk.
    pub(super) label: u64,
}

impl Bounds {
    /// Returns the number of elements.
    pub(crate) const fn len(&self) -> u64 {
        self.last - self.first
    }
}

impl End {
    /// Returns the chunk in which the elements end.
    pub(super) fn used(&self) -> Spot {
        self.inner.unwrap_or(self.outer)
    }

    /// Returns the position of the first element, or the position behind the last one.
    fn position(&self, side: Side) -> u64 {
        let Spot { chunk, base } = self.used();
        base + match side {
            Side::Front => chunk.from as u64,
            Side::Back => chunk.to as u64,
        }
    }

    /// Protects the chunks on which an operation relied to find this end.
    ///
    /// # Errors
    /// As [`Words::protect`].
    pub(super) fn protect<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        self.outer.chunk.protect(tx)?;
        self.inner.map_or(Ok(()), |inner| inner.chunk.protect(tx))
    }
}

impl Spot {
    /// Returns the number of a chunk at position 0, by the number of this one.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub(super) fn label<W: Words>(&self, tx: &mut W, form: Form) -> Result<u64, Stop> {
        Ok(self.chunk.number(tx)?.wrapping_sub(self.base / form.slots() as u64))
    }
}

impl Sequence {
    /// Returns an end; `None` when there is no chunk.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] for damage.
    #[inline]
    pub(super) fn end<W: Words>(self, tx: &mut W, side: Side) -> Result<Option<End>, Stop> {
        let Some((outer, is_alone)) = self.outermost(tx, side)? else {
            return Ok(None);
        };
        let mut end = End { outer, inner: None, is_alone };
        if outer.chunk.count() == 0 && !is_alone {
            let neighbor = self.neighbor(tx, outer, side)?;
            if neighbor.chunk.count() == 0 {
                return Err(Stop::BadValue);
            }
            end.inner = Some(neighbor);
        }
        Ok(Some(end))
    }

    /// Returns the chunk at an end, which may be empty, and whether it is the root.
    ///
    /// # Errors
    /// As [`end`](Sequence::end).
    #[inline]
    pub(super) fn outermost<W: Words>(
        self,
        tx: &mut W,
        side: Side,
    ) -> Result<Option<(Spot, bool)>, Stop> {
        let Some(root) = self.root(tx)? else {
            return Ok(None);
        };
        let mut spot = Spot { chunk: root, base: 0 };
        while spot.chunk.level > 0 {
            spot = self.child(tx, spot, spot.chunk.last(side)?)?;
        }
        Ok(Some((spot, root.level == 0)))
    }

    /// Returns the inner nodes above the chunk at an end, the root first.
    ///
    /// # Errors
    /// As [`end`](Sequence::end).
    pub(super) fn path<W: Words>(self, tx: &mut W, side: Side) -> Result<Vec<Node>, Stop> {
        let (mut path, mut next) = (Vec::new(), self.root(tx)?);
        while let Some(node) = next.filter(|node| node.level > 0) {
            path.push(node);
            next = match node.level {
                1 => None,
                _ => Some(self.child(tx, Spot { chunk: node, base: 0 }, node.last(side)?)?.chunk),
            };
        }
        Ok(path)
    }

    /// Returns the chunk of a position, if the tree reaches so far. Its slot there may be free.
    ///
    /// # Errors
    /// As [`end`](Sequence::end).
    #[inline]
    pub(super) fn seek<W: Words>(self, tx: &mut W, position: u64) -> Result<Option<Spot>, Stop> {
        let Some(root) = self.root(tx)? else {
            return Ok(None);
        };
        let mut spot = Spot { chunk: root, base: 0 };
        while spot.chunk.level > 0 {
            let slot = (position - spot.base) / span(self.form, spot.chunk.level - 1);
            if slot < spot.chunk.from as u64 || slot >= spot.chunk.to as u64 {
                return Ok(None);
            }
            spot = self.child(tx, spot, slot as usize)?;
        }
        // Only a root that is a chunk can begin so far before the position.
        Ok((position - spot.base < self.form.slots() as u64).then_some(spot))
    }

    /// Returns the neighbor of the chunk at an end.
    ///
    /// # Errors
    /// As [`end`](Sequence::end).
    pub(super) fn neighbor<W: Words>(
        self,
        tx: &mut W,
        spot: Spot,
        side: Side,
    ) -> Result<Spot, Stop> {
        let position = match side {
            Side::Front => spot.base.checked_add(self.form.slots() as u64),
            Side::Back => spot.base.checked_sub(1),
        };
        self.seek(tx, position.ok_or(Stop::BadValue)?)?.ok_or(Stop::BadValue)
    }

    /// Returns the positions of all elements. The numbers of the chunks at both ends must agree, so
    /// that the result is no more than a damaged heap can hold.
    ///
    /// # Errors
    /// As [`end`](Sequence::end).
    pub(crate) fn bounds<W: Words>(self, tx: &mut W) -> Result<Bounds, Stop> {
        let Some(back) = self.end(tx, Side::Back)? else {
            return Ok(Bounds::default());
        };
        let (mut first, mut label) = (0, 0);
        if self.is_queue {
            let front = self.end(tx, Side::Front)?.ok_or(Stop::BadValue)?;
            (first, label) = (front.position(Side::Front), front.outer.label(tx, self.form)?);
        }
        let last = back.position(Side::Back);
        if first > last || back.outer.label(tx, self.form)? != label {
            return Err(Stop::BadValue);
        }
        Ok(Bounds { first, last, label })
    }

    /// Returns the position of an index, whether or not it has an element.
    ///
    /// # Errors
    /// As [`end`](Sequence::end).
    #[inline]
    pub(super) fn position<W: Words>(self, tx: &mut W, index: u64) -> Result<Option<u64>, Stop> {
        if !self.is_queue {
            return Ok(Some(index));
        }
        let front = self.end(tx, Side::Front)?;
        Ok(front.and_then(|front| front.position(Side::Front).checked_add(index)))
    }

    /// Opens a child of an inner node.
    #[inline]
    fn child<W: Words>(self, tx: &mut W, parent: Spot, slot: usize) -> Result<Spot, Stop> {
        let level = parent.chunk.level - 1;
        let object = parent.chunk.pointer(tx, slot)?;
        let chunk = Node::open(tx, self.form, object, level)?;
        Ok(Spot { chunk, base: parent.base + slot as u64 * span(self.form, level) })
    }
}

/// Returns the number of positions in a node of this level.
#[inline]
fn span(form: Form, level: usize) -> u64 {
    (0..level).fold(form.slots() as u64, |span, _| span * CHILDREN as u64)
}
