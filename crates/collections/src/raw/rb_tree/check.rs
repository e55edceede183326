//! The validator of order, colours, black heights and parents.

use words::{Stop, Words};

use super::{BLACK, COLOUR, DEPTH_MAX, LEFT, RED, RbTree, WORDS, word};
use crate::raw::check::{Checked, Damage};

/// A node with the bounds that its ancestors set.
struct Place {
    node: u64,
    words: [u64; WORDS],
    /// Greatest key allowed.
    high: u64,
    /// Black nodes on the path to it, itself included.
    blacks: u64,
}

/// The target of a descent.
#[derive(Clone, Copy)]
struct Way {
    to: u64,
    low: u64,
    high: u64,
    /// The node above, its colour, and the black nodes so far.
    from: u64,
    from_colour: u64,
    blacks: u64,
}

impl RbTree {
    /// Checks up to `most` nodes in key order, from key `from` on. Keys must lie within their
    /// ancestors' bounds, a red node's parent must be black, every path must have the same number
    /// of black nodes, and parent pointers must match. [`whole`](crate::raw::whole) checks the
    /// whole tree.
    ///
    /// # Errors
    /// As [`Words::read`]. A wild pointer is not reported as damage but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let (mut checked, mut stack) = (Checked::default(), Vec::new());
        let expected = self.blacks(tx)?;
        let root = tx.read(self.root())?;
        // Start below an imaginary red node: a red root is then damage.
        let mut way =
            Way { to: root, low: 0, high: u64::MAX, from: 0, from_colour: RED, blacks: 0 };
        loop {
            if !descend(tx, way, from, expected, &mut stack, &mut checked)? {
                return Ok(checked); // the rest may be a cycle
            }
            let Some(place) = stack.pop() else {
                return Ok(checked);
            };
            let [key, _, _, right, _, colour] = place.words;
            if checked.entries == most.max(1) {
                checked.next = Some(key);
                return Ok(checked);
            }
            checked.entries += 1;
            way = match key.checked_add(1) {
                // No key is greater, so the node can have no right child.
                None if right != 0 => {
                    let (low, high) = (key, key);
                    checked.found(Damage::Bounds { node: right, low, high, found: key });
                    return Ok(checked);
                }
                low => Way {
                    to: right,
                    low: low.unwrap_or(key),
                    high: place.high,
                    from: place.node,
                    from_colour: colour,
                    blacks: place.blacks,
                },
            };
        }
    }

    /// Counts the black nodes on the leftmost path.
    fn blacks<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        let (mut node, mut blacks) = (tx.read(self.root())?, 0);
        for _ in 0..=DEPTH_MAX {
            if node == 0 {
                return Ok(blacks);
            }
            blacks += u64::from(tx.read(word(node, COLOUR))? != RED);
            node = tx.read(word(node, LEFT))?;
        }
        Err(Stop::BadValue)
    }
}

/// Descends to the node of the least key that is not below `from`, and stacks the nodes of greater
/// keys on the path. Returns whether all are within their bounds.
fn descend<W: Words>(
    tx: &mut W,
    way: Way,
    from: u64,
    expected: u64,
    stack: &mut Vec<Place>,
    checked: &mut Checked,
) -> Result<bool, Stop> {
    let mut way = way;
    while way.to != 0 {
        let (node, mut words) = (way.to, [0; WORDS]);
        tx.read_words(word(node, 0), &mut words)?;
        let [key, _, left, right, parent, colour] = words;
        if key < way.low || key > way.high {
            let (low, high) = (way.low, way.high);
            checked.found(Damage::Bounds { node, low, high, found: key });
            return Ok(false);
        }
        if parent != way.from {
            checked.found(Damage::Parent { node, expected: way.from, found: parent });
        }
        if colour > RED || colour == RED && way.from_colour != BLACK {
            checked.found(Damage::Colour { node, expected: BLACK, found: colour });
        }
        let blacks = way.blacks + u64::from(colour != RED);
        let below = Way { from: node, from_colour: colour, blacks, ..way };
        if key < from {
            way = Way { to: right, low: key + 1, ..below };
            continue;
        }
        stack.push(Place { node, words, high: way.high, blacks });
        way = match key.checked_sub(1) {
            Some(high) => Way { to: left, high, ..below },
            None if left == 0 => Way { to: 0, ..below },
            None => {
                checked.found(Damage::Bounds { node: left, low: 0, high: 0, found: key });
                return Ok(false);
            }
        };
    }
    if way.blacks != expected {
        let (node, found) = (way.from, way.blacks);
        checked.found(Damage::Blacks { node, expected, found });
    }
    Ok(true)
}
