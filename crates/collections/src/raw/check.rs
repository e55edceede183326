//! The results of the structural validators.
//!
//! A validator checks a part of a structure in one read-only transaction and returns the start of
//! the next part. A check of a large structure therefore needs no large transaction. [`whole`]
//! joins the parts.

use std::fmt;

use words::{Stop, Transact};

/// Number of findings in one result at most; more would prove no more.
pub(crate) const DAMAGE_MAX: usize = 100;

/// The result of a validator for one part of a structure, or for all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Key-value pairs seen.
    pub entries: u64,
    /// Start of the next part: a bucket's or chain's number, or a key. `None` after the last part.
    pub next: Option<u64>,
    /// Violated invariants; empty in a sound structure, at most 100 findings.
    pub damage: Vec<Damage>,
}

impl Checked {
    pub(crate) fn found(&mut self, damage: Damage) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }
}

/// A violated invariant of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// A hash map's key that no lookup finds, because a bucket before it in its probe run is empty.
    Unreachable {
        /// The bucket that holds the key.
        bucket: u64,
        /// The key.
        key: u64,
        /// The empty bucket between the key's start and `bucket`.
        gap: u64,
    },
    /// A hash map's key that is stored twice.
    Duplicate {
        /// The later bucket in probe order.
        bucket: u64,
        /// The key.
        key: u64,
        /// The earlier bucket.
        first: u64,
    },
    /// A chained map's key that no lookup finds, because it is in another key's chain.
    Stray {
        /// The chain that holds it.
        chain: u64,
        /// The key.
        key: u64,
        /// The key's own chain.
        expected: u64,
    },
    /// A tree node with too few or too many entries.
    Count {
        /// The node's object.
        node: u64,
        /// Fewest entries allowed.
        least: u64,
        /// Most entries allowed.
        most: u64,
        /// The count in its head.
        found: u64,
    },
    /// A tree node at the wrong height.
    Level {
        /// The node's object.
        node: u64,
        /// Its parent's level less one.
        expected: u64,
        /// The level in its head.
        found: u64,
    },
    /// A tree node whose slot order has an invalid slot, or one slot twice.
    Order {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
        /// The slot at that position.
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
    /// A tree node's key outside the bounds that its ancestors set.
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
        /// The next leaf in key order; 0 after the last.
        expected: u64,
        /// The target of its link.
        found: u64,
    },
    /// A red-black tree's node with a wrong parent pointer.
    Parent {
        /// The node's object.
        node: u64,
        /// The node whose child it is; 0 for the root.
        expected: u64,
        /// The target of its parent pointer.
        found: u64,
    },
    /// A red-black tree's node that is neither black nor red, or red where a red one may not be.
    Colour {
        /// The node's object.
        node: u64,
        /// Black, which is 0.
        expected: u64,
        /// The colour in its word.
        found: u64,
    },
    /// A path of a red-black tree with more or fewer black nodes than the leftmost path.
    Blacks {
        /// The last node of the path; 0 in an empty tree.
        node: u64,
        /// Black nodes of the leftmost path.
        expected: u64,
        /// Black nodes of this one.
        found: u64,
    },
    /// A queue's slot whose number does not fit its place.
    Slot {
        /// The slot, from 0.
        slot: u64,
        /// The entry's number plus 1; 0 for a free slot.
        expected: u64,
        /// The number in the slot.
        found: u64,
    },
    /// A queue with more entries popped than pushed, or with more entries than its capacity.
    Span {
        /// The capacity.
        most: u64,
        /// Entries ever popped.
        first: u64,
        /// Entries ever pushed.
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
            Damage::Stray { chain, key, expected } => {
                write!(f, "chain {chain}: key {key}, expected in chain {expected}, found here")
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
                write!(f, "path to {node:#x}: expected {expected} black nodes, found {found}")
            }
            Damage::Slot { slot, expected, found } => {
                write!(f, "slot {slot}: expected number {expected}, found {found}")
            }
            Damage::Span { most, first, found } => {
                write!(
                    f,
                    "queue: {first} popped, expected at most {most} more pushed, found {found}"
                )
            }
        }
    }
}

/// Runs a validator part by part, each in its own transaction, to the end.
///
/// ```
/// # use words::{Transact, mock::Mock};
/// # let mut worker = Mock::new(1 << 16);
/// # let tree = worker.transact(|tx| collections::raw::BTreeMap::create(tx))?;
/// let checked = collections::raw::whole(&mut worker, |tx, from| tree.check(tx, from, 1000))?;
/// assert!(checked.damage.is_empty());
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// # Errors
/// The error of a transaction. Damage that is a wild pointer is such an error.
pub fn whole<T: Transact>(
    worker: &mut T,
    mut part: impl FnMut(&mut T::Tx<'_>, u64) -> Result<Checked, Stop>,
) -> Result<Checked, T::Error> {
    let mut sum = Checked { next: Some(0), ..Checked::default() };
    while let Some(from) = sum.next {
        let checked = worker.transact(|tx| part(tx, from))?;
        sum.entries += checked.entries;
        // Parts only go forwards: a validator that does not advance would loop for ever.
        sum.next = checked.next.filter(|&next| next > from);
        for damage in checked.damage {
            sum.found(damage);
        }
    }
    Ok(sum)
}
