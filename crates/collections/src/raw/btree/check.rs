//! The structural validator.

use words::{Addr, Stop, Words};

use super::BTree;
use super::node::{LEVELS, Node};
use crate::raw::check::{Checked, Damage};

/// A leaf and the bounds of its keys.
struct Place<const SLOTS: usize> {
    leaf: Node<SLOTS>,
    low: u64,
    high: u64,
}

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Checks up to `most_leaves` leaves, beginning at the leaf of key `from` (the first is 0), and
    /// the path to each: order, counts, levels, bounds, links.
    ///
    /// Each result holds for the state that its transaction saw, so the tree may change between the
    /// parts. [`whole`](crate::raw::whole) checks the whole tree.
    ///
    /// # Errors
    /// As [`Words::read`]. A wild pointer is not reported as damage but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most_leaves: u64) -> Result<Checked, Stop> {
        let mut checked = Checked::default();
        let mut place = self.place(tx, from, &mut checked)?;
        for _ in 0..most_leaves.max(1) {
            let Some(here) = place else {
                return Ok(checked); // damage above: the descent cannot continue
            };
            checked.entries += count_from(tx, &here, from)?;
            checked.next = here.high.checked_add(1);
            let next = match checked.next {
                None => None,
                Some(key) => self.place(tx, key, &mut checked)?,
            };
            let expected = next.as_ref().map_or(0, |next| next.leaf.object);
            if here.leaf.link != expected && (next.is_some() || checked.next.is_none()) {
                let (leaf, found) = (here.leaf.object, here.leaf.link);
                checked.found(Damage::Chain { leaf, expected, found });
            }
            place = next;
            if place.is_none() {
                checked.next = None;
            }
        }
        Ok(checked)
    }

    /// Descends to the leaf of a key and checks each node on the path.
    fn place<W: Words>(
        self,
        tx: &mut W,
        key: u64,
        checked: &mut Checked,
    ) -> Result<Option<Place<SLOTS>>, Stop> {
        let (mut low, mut high) = (0, u64::MAX);
        let mut node = Node::<SLOTS>::peek(tx, self.root.to_bits())?;
        let mut level = node.level();
        let mut least = usize::from(level > 0);
        if level >= LEVELS {
            let (node, expected) = (node.object, LEVELS as u64 - 1);
            checked.found(Damage::Level { node, expected, found: level as u64 });
            return Ok(None);
        }
        loop {
            if !check_node(tx, &node, level, least, (low, high), checked)? {
                return Ok(None);
            }
            if level == 0 {
                return Ok(Some(Place { leaf: node, low, high }));
            }
            let found = node.search(tx, key)?;
            if found.rank > 0 {
                low = node.entry(tx, found.rank - 1)?.0;
            }
            if found.rank < node.count() {
                high = node.entry(tx, found.rank)?.0 - 1; // above `key`, so above 0
            }
            let child: Addr = node.child(tx, &found)?;
            (level, least) = (level - 1, Node::<SLOTS>::LEAST);
            node = Node::peek(tx, child.object)?;
        }
    }
}

/// Counts the entries of a leaf from a key on. A part may begin inside a leaf, because the tree has
/// changed since the part before.
fn count_from<const SLOTS: usize, W: Words>(
    tx: &mut W,
    place: &Place<SLOTS>,
    from: u64,
) -> Result<u64, Stop> {
    let all = place.leaf.count();
    if from <= place.low {
        return Ok(all as u64);
    }
    let found = place.leaf.search(tx, from)?;
    Ok((all - found.rank + usize::from(found.exact)) as u64)
}

/// Checks one node; returns false when a descent cannot continue through it.
fn check_node<const SLOTS: usize, W: Words>(
    tx: &mut W,
    node: &Node<SLOTS>,
    level: usize,
    least: usize,
    (low, high): (u64, u64),
    checked: &mut Checked,
) -> Result<bool, Stop> {
    let object = node.object;
    let count = node.count();
    if node.level() != level {
        let (expected, found) = (level as u64, node.level() as u64);
        checked.found(Damage::Level { node: object, expected, found });
        return Ok(false);
    }
    if count < least || count > SLOTS {
        let (least, most, found) = (least as u64, SLOTS as u64, count as u64);
        checked.found(Damage::Count { node: object, least, most, found });
        return Ok(false);
    }
    let mut seen = 0_u64;
    for position in 0..SLOTS {
        let slot = node.raw_slot(position);
        if slot >= SLOTS || seen & (1 << slot) != 0 {
            let (position, found) = (position as u64, slot as u64);
            checked.found(Damage::Order { node: object, position, found });
            return Ok(false);
        }
        seen |= 1 << slot;
    }
    let mut previous = None;
    for position in 0..count {
        let (found, _) = node.entry(tx, position)?;
        if let Some(previous) = previous.filter(|&previous| previous >= found) {
            checked.found(Damage::KeyOrder { node: object, previous, found });
            return Ok(false);
        }
        if found < low || found > high {
            checked.found(Damage::Bounds { node: object, low, high, found });
            return Ok(false);
        }
        previous = Some(found);
    }
    Ok(true)
}
