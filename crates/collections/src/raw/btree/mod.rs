//! A B+-tree whose nodes keep their entries in slots and an order over the slots.
//!
//! The root node never moves, so a tree is one pointer that no operation rereads. A full root gets
//! two new children, and a root with one child takes its contents.
//!
//! Slots exist because an insert then writes key, value and one or two words of order. Sorted
//! arrays of the same fill shift 20 words and more. Measured with 2^22 keys, two of three present,
//! the node prefetched, on a plain heap and on one with ownership records per line:
//!
//! | node | plain: ns insert / lookup, words per insert | ownership records: ns insert / lookup |
//! |---|---|---|
//! | 28 slots, 512 bytes | 582 / 600, 3.7 | 698 / 711 |
//! | sorted 30, 512 bytes | 531 / 472, 11.9 | 679 / 579 |
//! | 14 slots, 256 bytes | 641 / 639, 2.9 | 819 / 834 |
//! | sorted 14 | 640 / 608, 7.0 | 820 / 762 |
//!
//! The foreground time that sorted arrays save, a durable design pays again: it writes three times
//! the words to the log and the heap image. Sorted inner nodes above slotted leaves were not faster
//! than one format for both. A descent prefetches each node before it searches it, but only the
//! leaf of a change for writing. Otherwise the other nodes would move between the cores' caches.
//!
//! Invariants:
//! - A node's level is its parent's less one, and leaves are level 0. A descent therefore ends,
//!   whatever the heap holds.
//! - A node other than the root has [`LEAST`](BTree::LEAST) entries or more. Only the root may be
//!   empty, and only as a leaf.
//! - Child i of an inner node holds the keys from entry i - 1's key up to, not including, entry
//!   i's; the link is child 0.
//! - A leaf's link leads to the leaf with the next greater keys. A scan requires ascending keys, so
//!   a cycle of links stops it.
//! - Two transactions that change words that the other relied on write the same node, also under
//!   snapshot isolation: a node merged away is written (marked dead) before it is freed.

mod check;
mod free;
mod insert;
mod node;
mod range;
mod remove;

use words::{Addr, Allocate, Ptr, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use node::{LEVELS, Node};
pub use range::Cursor;

/// An ordered map from `u64` to `u64`; a value of one word that objects can hold. Its nodes hold
/// `SLOTS` entries (7 to 38), or one more child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct BTree<const SLOTS: usize> {
    root: Ptr<BTree<SLOTS>>,
}

/// The default tree, with nodes of 512 bytes including their headers.
pub type BTreeMap = BTree<28>;

/// A tree of at most 16 children a node, in 288 bytes with its header (allocator class 320).
pub type BTree16 = BTree<15>;

/// A tree of at most 32 children a node, in 560 bytes with its header (allocator class 640).
pub type BTree32 = BTree<31>;

/// The path of a descent: at each level the node, and how many of its keys are not above the key.
type Path = [(Addr, usize); LEVELS];

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Size of a node's object in bytes, without its header of 16 bytes.
    pub const NODE_BYTES: usize = Node::<SLOTS>::BYTES;

    /// Fewest entries of a node that is not the root.
    pub const LEAST: usize = Node::<SLOTS>::LEAST;

    /// Creates an empty tree. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<BTree<SLOTS>, Stop> {
        Ok(BTree { root: Ptr::from_bits(Node::<SLOTS>::create(tx, 0, 0, &[])?.object) })
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged tree, here and in all other methods.
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        let mut node = Node::<SLOTS>::open_root(tx, self.root())?;
        for level in (0..node.level()).rev() {
            let found = node.search(tx, key)?;
            let child = node.child(tx, &found)?;
            tx.will_read(child, Self::NODE_BYTES);
            node = Node::open(tx, child, level)?;
        }
        let found = node.search(tx, key)?;
        if found.exact { node.value(tx, &found).map(Some) } else { Ok(None) }
    }

    /// Returns the place of a key's value, which is valid until a key is inserted or removed.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        let (leaf, _) = self.descend(tx, key)?;
        let found = leaf.search(tx, key)?;
        Ok(found.exact.then(|| leaf.value_at(found.slot)))
    }

    /// Descends to a key's leaf, for a change; returns it and the path above.
    #[inline]
    fn descend<W: Words>(self, tx: &mut W, key: u64) -> Result<(Node<SLOTS>, Path), Stop> {
        let mut path: Path = [(Addr::new(0, 0), 0); LEVELS];
        let mut node = Node::<SLOTS>::open_root(tx, self.root())?;
        for level in (0..node.level()).rev() {
            let found = node.search(tx, key)?;
            path[level + 1] = (node.addr(), found.rank);
            let child = node.child(tx, &found)?;
            if level == 0 {
                tx.will_write(child, Self::NODE_BYTES);
            } else {
                tx.will_read(child, Self::NODE_BYTES);
            }
            node = Node::open(tx, child, level)?;
        }
        Ok((node, path))
    }

    #[inline]
    fn root(self) -> Addr {
        Addr::new(self.root.to_bits(), 0)
    }
}
