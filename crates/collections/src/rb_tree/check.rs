//! The validator: order, colours, black nodes on every way, parents.

use words::{Stop, Words};

use super::{BLACK, COLOUR, DEPTH_MAX, LEFT, RED, RbTree, WORDS, word};
use crate::check::{Checked, Damage};

/// A node with what its ancestors promise.
struct Place {
    node: u64,
    words: [u64; WORDS],
    /// Greatest key allowed.
    high: u64,
    /// Black nodes on the way to it, itself included.
    blacks: u64,
}

/// Where a walk is to go down to.
#[derive(Clone, Copy)]
struct Way {
    to: u64,
    low: u64,
    high: u64,
    /// The node that leads there, its colour, and black nodes so far.
    from: u64,
    from_colour: u64,
    blacks: u64,
}

impl RbTree {
    /// Checks up to `most` nodes, in the order of their keys, from key `from` on: keys lie between
    /// their ancestors', a red node's parent is black, every way down passes as many black nodes,
    /// and parents are those that lead to their children. [`whole`](crate::whole) checks all of it.
    ///
    /// # Errors
    /// As [`Words::read`]: a wild pointer is not damage in the answer but [`Stop::BadPointer`].
    pub fn check<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        let (mut answer, mut stack) = (Checked::default(), Vec::new());
        let expected = self.blacks(tx)?;
        let root = tx.read(self.root())?;
        // What a red root would be: the child of a red node.
        let mut way =
            Way { to: root, low: 0, high: u64::MAX, from: 0, from_colour: RED, blacks: 0 };
        loop {
            if !descend(tx, way, from, expected, &mut stack, &mut answer)? {
                return Ok(answer); // what follows may be a cycle
            }
            let Some(place) = stack.pop() else {
                return Ok(answer);
            };
            let [key, _, _, right, _, colour] = place.words;
            if answer.entries == most.max(1) {
                answer.next = Some(key);
                return Ok(answer);
            }
            answer.entries += 1;
            way = match key.checked_add(1) {
                // No key is greater: there is no room for a child.
                None if right != 0 => {
                    let (low, high) = (key, key);
                    answer.found(Damage::Bounds { node: right, low, high, found: key });
                    return Ok(answer);
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

    /// Black nodes on the leftmost way.
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

/// Goes down to the node of the least key that is not below `from`; those that come after it on the
/// way are on the stack. Whether all lay where it may.
fn descend<W: Words>(
    tx: &mut W,
    way: Way,
    from: u64,
    expected: u64,
    stack: &mut Vec<Place>,
    answer: &mut Checked,
) -> Result<bool, Stop> {
    let mut way = way;
    while way.to != 0 {
        let (node, mut words) = (way.to, [0; WORDS]);
        tx.read_words(word(node, 0), &mut words)?;
        let [key, _, left, right, parent, colour] = words;
        if key < way.low || key > way.high {
            let (low, high) = (way.low, way.high);
            answer.found(Damage::Bounds { node, low, high, found: key });
            return Ok(false);
        }
        if parent != way.from {
            answer.found(Damage::Parent { node, expected: way.from, found: parent });
        }
        if colour > RED || colour == RED && way.from_colour != BLACK {
            answer.found(Damage::Colour { node, expected: BLACK, found: colour });
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
                answer.found(Damage::Bounds { node: left, low: 0, high: 0, found: key });
                return Ok(false);
            }
        };
    }
    if way.blacks != expected {
        let (node, found) = (way.from, way.blacks);
        answer.found(Damage::Blacks { node, expected, found });
    }
    Ok(true)
}
