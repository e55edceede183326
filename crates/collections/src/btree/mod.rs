//! A B+-tree whose nodes keep their entries in slots and an order over the slots.
//!
//! The root node never moves, so a tree is one pointer that is never read again: a full root gets
//! two new children, a root with one child takes its contents.
//!
//! Why slots: an insert writes key, value and one or two words of order, where sorted arrays of the
//! same fill shift 20 words and more. Measured with 2^22 keys, two of three present (ns insert / ns
//! lookup / words written by an insert; a plain heap, then one with ownership records per line; all
//! with the node prefetched): 28 slots in 512 bytes 582 / 600 / 3.7 and 698 / 711; sorted arrays of
//! 30 in 512 bytes 531 / 472 / 11.9 and 679 / 579; 14 slots in 256 bytes 641 / 639 / 2.9 and 819 /
//! 834; sorted arrays of 14 640 / 608 / 7.0 and 820 / 762. What the sorted ones save in front, a
//! durable design pays again for three times the words in log and home. Sorted inner nodes above
//! slotted leaves were not faster than one format for both. A descent announces each node before it
//! searches it, and only the leaf of a change as one that will be written: otherwise the others
//! would travel between cores.
//!
//! Invariants:
//! - A node's level is its parent's less one, leaves are level 0; so a descent ends, whatever the
//!   heap holds.
//! - A node other than the root has [`LEAST`](BTree::LEAST) entries or more; only the root may be
//!   empty, and only as a leaf.
//! - Child i of an inner node holds the keys from entry i - 1's key up to, not including, entry
//!   i's; the link is child 0.
//! - A leaf's link leads to the leaf with the next greater keys. A scan wants ascending keys, so a
//!   cycle of links stops it.
//! - Two transactions that change what the other relied on write the same node, also under
//!   snapshot isolation: what is merged away is written (marked dead) before it is given back.

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

/// An ordered map from `u64` to `u64` whose nodes hold so many entries (7 to 38), or one child
/// more; a value of one word that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct BTree<const SLOTS: usize> {
    root: Ptr<BTree<SLOTS>>,
}

/// The tree to use: nodes of 512 bytes with their headers.
pub type BTreeMap = BTree<28>;

/// At most 16 children: nodes of 288 bytes with their headers, in the allocator's class of 320.
pub type BTree16 = BTree<15>;

/// At most 32 children: nodes of 560 bytes with their headers, in the allocator's class of 640.
pub type BTree32 = BTree<31>;

/// Where a descent passed: at each level the node and how many of its keys are not above the key.
type Path = [(Addr, usize); LEVELS];

impl<const SLOTS: usize> BTree<SLOTS> {
    /// Bytes of a node's object; 16 bytes of header come on top.
    pub const NODE_BYTES: usize = Node::<SLOTS>::BYTES;

    /// Fewest entries of a node that is not the root.
    pub const LEAST: usize = Node::<SLOTS>::LEAST;

    /// An empty tree. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<BTree<SLOTS>, Stop> {
        Ok(BTree { root: Ptr::from_bits(Node::<SLOTS>::create(tx, 0, 0, &[])?.object) })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged tree, here and in all that follows.
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

    /// Where the value of a key is. It stays there until a key is put in or taken out.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        let (leaf, _) = self.descend(tx, key)?;
        let found = leaf.search(tx, key)?;
        Ok(found.exact.then(|| leaf.value_at(found.slot)))
    }

    /// Descends to the leaf where a key belongs, for a change; answers it and the path above.
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
