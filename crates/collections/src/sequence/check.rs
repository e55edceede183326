//! The validator of a sequence: it finds broken invariants, and never loops or panics on damage.

use std::fmt;

use words::{Stop, Words};

use super::descend::{Bounds, Spot};
use super::iter::element;
use super::{Sequence, Side};

/// Number of findings in one result at most; more would prove no more.
const DAMAGE_MAX: usize = 100;

/// The result of a check of a vector or queue, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Elements seen.
    pub entries: u64,
    /// Elements that `clear_step` removed and has yet to free.
    pub pending: u64,
    /// Index with which the next part starts. `None` after the last part. A check also stops, at
    /// this index, when it has 100 findings.
    pub next: Option<u64>,
    /// Violated invariants; empty in a sound collection, at most 100 findings.
    pub damage: Vec<Damage>,
}

/// A violated invariant of a vector or queue. Nodes in wrong places and wild pointers are a
/// [`Stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// A root that is an inner node with a single child.
    Root {
        /// The node's object.
        node: u64,
    },
    /// A chunk whose slots in use are not those between its neighbors.
    Range {
        /// The chunk's object.
        chunk: u64,
        /// The first slot in use, and the slot behind the last.
        expected: (u64, u64),
        /// Those that the chunk has.
        found: (u64, u64),
    },
    /// A chunk whose number does not follow that of its neighbor.
    Number {
        /// The chunk's object.
        chunk: u64,
        /// The number that follows.
        expected: u64,
        /// The number of the chunk.
        found: u64,
    },
    /// An element whose bytes or entry its type does not allow.
    Element {
        /// The chunk's object.
        chunk: u64,
        /// The slot, from 0.
        slot: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Damage::Root { node } => {
                write!(f, "root {node:#x}: expected two children or more, found one")
            }
            Damage::Range { chunk, expected: (from, to), found } => write!(
                f,
                "chunk {chunk:#x}: expected slots {from} to {to} in use, found {} to {}",
                found.0, found.1
            ),
            Damage::Number { chunk, expected, found } => {
                write!(f, "chunk {chunk:#x}: expected number {expected}, found {found}")
            }
            Damage::Element { chunk, slot } => {
                write!(f, "chunk {chunk:#x}: expected an element of the type in slot {slot}")
            }
        }
    }
}

impl Checked {
    fn found(&mut self, damage: Damage) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }

    fn is_full(&self) -> bool {
        self.damage.len() >= DAMAGE_MAX
    }
}

impl Sequence {
    /// Checks the chunks from that of an index on, until they have `most` elements. `is_value`
    /// returns whether bytes are an element of the type.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when a node is in the wrong place.
    pub(crate) fn check<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        most: u64,
        is_value: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        let mut checked = Checked::default();
        let Some(root) = self.root(tx)? else {
            return Ok(checked);
        };
        if root.level > 0 && root.count() == 1 {
            checked.found(Damage::Root { node: root.object });
        }
        let (bounds, chunk) = (self.bounds(tx)?, self.form.slots() as u64);
        let base = |end: Option<super::descend::End>| end.map(|end| end.outer.base);
        let last = base(self.end(tx, Side::Back)?).ok_or(Stop::BadValue)?;
        let mut next = match bounds.first.checked_add(from).ok_or(Stop::BadValue)? / chunk * chunk {
            first if from > 0 => first,
            _ if !self.is_queue => 0,
            _ => base(self.end(tx, Side::Front)?).ok_or(Stop::BadValue)?,
        };
        while next <= last {
            let spot = self.seek(tx, next)?.ok_or(Stop::BadValue)?;
            self.check_chunk(tx, (bounds, from), spot, is_value, &mut checked)?;
            next += chunk;
            if checked.entries >= most.max(1) || checked.is_full() {
                checked.next = (next <= last).then(|| next.saturating_sub(bounds.first));
                break;
            }
        }
        Ok(checked)
    }

    /// Checks all, and the tree that is being freed.
    ///
    /// # Errors
    /// As [`check`](Sequence::check).
    pub(crate) fn check_all<W: Words>(
        self,
        tx: &mut W,
        is_value: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        let mut checked = self.check(tx, 0, u64::MAX, is_value)?;
        if checked.is_full() {
            return Ok(checked);
        }
        let root = tx.read(self.start())?;
        if root != 0 && tx.read(self.cleared().start())? == root {
            return Err(Stop::BadValue);
        }
        let cleared = self.cleared().check(tx, 0, u64::MAX, is_value)?;
        checked.pending = cleared.entries;
        cleared.damage.into_iter().for_each(|damage| checked.found(damage));
        Ok(checked)
    }

    /// Checks a chunk, and counts its elements from an index on.
    fn check_chunk<W: Words>(
        self,
        tx: &mut W,
        (bounds, from): (Bounds, u64),
        spot: Spot,
        is_value: &dyn Fn(&[u8]) -> bool,
        checked: &mut Checked,
    ) -> Result<(), Stop> {
        let (node, slots) = (spot.chunk, self.form.slots() as u64);
        let chunk = node.object;
        let slot = |position: u64| position.saturating_sub(spot.base).min(slots);
        let expected = (slot(bounds.first), slot(bounds.last));
        let found = (node.from as u64, node.to as u64);
        if found != expected {
            checked.found(Damage::Range { chunk, expected, found });
        }
        let expected = bounds.label.wrapping_add(spot.base / slots);
        let found = node.number(tx)?;
        if found != expected {
            checked.found(Damage::Number { chunk, expected, found });
        }
        for slot in node.from..node.to {
            let is_sound = node.with_slots(tx, slot, slot + 1, |tx, slot| {
                element(tx, self, slot, |bytes| Ok(is_value(&bytes)))
            });
            match is_sound {
                Ok(true) => {}
                Ok(false) | Err(Stop::BadValue) => {
                    checked.found(Damage::Element { chunk, slot: slot as u64 });
                }
                Err(stop) => return Err(stop),
            }
        }
        let begin = slot(bounds.first.saturating_add(from)).max(node.from as u64);
        checked.entries += (node.to as u64).saturating_sub(begin);
        Ok(())
    }
}
