//! What the structural validators answer.
//!
//! A validator looks at a part of a structure in one read-only transaction and says where the next
//! part begins, so that a check of something large needs no large transaction. [`whole`] joins the
//! parts.

use std::fmt;

use words::{Stop, Transact};

/// How many findings one answer holds at most; what is damaged more than that needs no more proof.
pub(crate) const DAMAGE_MAX: usize = 100;

/// The answer of a validator about one part of a structure, or about all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Key-value pairs seen.
    pub entries: u64,
    /// Where to go on: a bucket's or chain's number, or a key. `None`: this was the last part.
    pub next: Option<u64>,
    /// What does not hold; empty in a sound structure, at most 100 findings.
    pub damage: Vec<Damage>,
}

impl Checked {
    pub(crate) fn found(&mut self, damage: Damage) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }
}

/// Something in a structure that must not be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// A hash map's key that no lookup finds: a bucket before it in its probe run is empty.
    Unreachable {
        /// The bucket that holds the key.
        bucket: u64,
        /// The key.
        key: u64,
        /// The empty bucket between the key's home and `bucket`.
        gap: u64,
    },
    /// A hash map's key that is there twice.
    Duplicate {
        /// The later bucket in probe order.
        bucket: u64,
        /// The key.
        key: u64,
        /// The earlier bucket.
        first: u64,
    },
    /// A chained map's key that no lookup finds: it is in another key's chain.
    Stray {
        /// The chain where it is.
        chain: u64,
        /// The key.
        key: u64,
        /// The chain where it belongs.
        home: u64,
    },
    /// A tree node with too few or too many entries.
    Count {
        /// The node's object.
        node: u64,
        /// Fewest entries allowed.
        least: u64,
        /// Most entries allowed.
        most: u64,
        /// Entries it says it has.
        found: u64,
    },
    /// A tree node at the wrong height.
    Level {
        /// The node's object.
        node: u64,
        /// Its parent's level less one.
        expected: u64,
        /// The level it says it has.
        found: u64,
    },
    /// A tree node whose slot order names no slot, or one slot twice.
    Order {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
        /// The slot that stands there.
        found: u64,
    },
    /// The keys of a tree's node, or of a chained map's chain, do not ascend.
    KeyOrder {
        /// The node's object; in a chain, that of the entry whose key is not greater.
        node: u64,
        /// The key before.
        previous: u64,
        /// The key that is not greater.
        found: u64,
    },
    /// A tree node's key outside of what its ancestors promise.
    Bounds {
        /// The node's object.
        node: u64,
        /// Smallest key allowed.
        low: u64,
        /// Largest key allowed.
        high: u64,
        /// The key.
        found: u64,
    },
    /// A leaf that is not linked to the leaf that follows it.
    Chain {
        /// The leaf's object.
        leaf: u64,
        /// The next leaf in key order; 0 behind the last.
        expected: u64,
        /// Where its link leads.
        found: u64,
    },
    /// A red-black tree's node that does not know who leads to it.
    Parent {
        /// The node's object.
        node: u64,
        /// The node that leads to it; 0 for the root.
        expected: u64,
        /// The parent that it names.
        found: u64,
    },
    /// A red-black tree's node that is neither black nor red, or red where a red one may not be.
    Colour {
        /// The node's object.
        node: u64,
        /// Black, which is 0.
        expected: u64,
        /// What it says.
        found: u64,
    },
    /// A way down a red-black tree that passes more or fewer black nodes than the leftmost one.
    Blacks {
        /// The last node of the way; 0 in an empty tree.
        node: u64,
        /// Black nodes of the leftmost way.
        expected: u64,
        /// Black nodes of this one.
        found: u64,
    },
    /// A queue's slot that does not say what its place demands.
    Slot {
        /// The slot, from 0.
        slot: u64,
        /// The entry's number plus 1; 0 where there is none.
        expected: u64,
        /// What stands there.
        found: u64,
    },
    /// A queue that has taken out more than was put in, or holds more than it has room for.
    Span {
        /// Entries that it has room for.
        most: u64,
        /// Entries ever taken out.
        first: u64,
        /// Entries ever put in.
        found: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Damage::Unreachable { bucket, key, gap } => {
                write!(f, "bucket {bucket}: key {key}, expected no gap before it, found {gap}")
            }
            Damage::Duplicate { bucket, key, first } => {
                write!(f, "bucket {bucket}: key {key}, expected once, found in {first} too")
            }
            Damage::Stray { chain, key, home } => {
                write!(f, "chain {chain}: key {key}, expected in chain {home}, found here")
            }
            Damage::Count { node, least, most, found } => {
                write!(f, "node {node:#x}: expected {least} to {most} entries, found {found}")
            }
            Damage::Level { node, expected, found } => {
                write!(f, "node {node:#x}: expected level {expected}, found {found}")
            }
            Damage::Order { node, position, found } => {
                write!(
                    f,
                    "node {node:#x}: position {position}, expected a free slot, found {found}"
                )
            }
            Damage::KeyOrder { node, previous, found } => {
                write!(f, "node {node:#x}: expected a key above {previous}, found {found}")
            }
            Damage::Bounds { node, low, high, found } => {
                write!(f, "node {node:#x}: expected a key in {low}..={high}, found {found}")
            }
            Damage::Chain { leaf, expected, found } => {
                write!(f, "leaf {leaf:#x}: expected a link to {expected:#x}, found {found:#x}")
            }
            Damage::Parent { node, expected, found } => {
                write!(f, "node {node:#x}: expected parent {expected:#x}, found {found:#x}")
            }
            Damage::Colour { node, expected, found } => {
                write!(f, "node {node:#x}: expected colour {expected}, found {found}")
            }
            Damage::Blacks { node, expected, found } => {
                write!(f, "way to {node:#x}: expected {expected} black nodes, found {found}")
            }
            Damage::Slot { slot, expected, found } => {
                write!(f, "slot {slot}: expected number {expected}, found {found}")
            }
            Damage::Span { most, first, found } => {
                write!(
                    f,
                    "queue: {first} taken out, expected at most {most} more put in, found {found}"
                )
            }
        }
    }
}

/// Runs a validator part by part, each in a transaction of its own, to the end.
///
/// ```
/// # use words::{Transact, mock::Mock};
/// # let mut worker = Mock::new(1 << 16);
/// # let tree = worker.transact(|tx| collections::BTreeMap::create(tx))?;
/// let answer = collections::whole(&mut worker, |tx, from| tree.check(tx, from, 1000))?;
/// assert!(answer.damage.is_empty());
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// # Errors
/// What a transaction ended with; damage that is a wild pointer ends so.
pub fn whole<T: Transact>(
    worker: &mut T,
    mut part: impl FnMut(&mut T::Tx<'_>, u64) -> Result<Checked, Stop>,
) -> Result<Checked, T::Error> {
    let mut sum = Checked { next: Some(0), ..Checked::default() };
    while let Some(from) = sum.next {
        let answer = worker.transact(|tx| part(tx, from))?;
        sum.entries += answer.entries;
        // A validator that stands still would go on for ever: parts only go forwards.
        sum.next = answer.next.filter(|&next| next > from);
        for damage in answer.damage {
            sum.found(damage);
        }
    }
    Ok(sum)
}
