//! A B+-tree of byte strings: the map and the set are typed faces of it.
//!
//! ```text
//!   header   | root | cleared | length, pointer |       32 bytes, all of an empty map
//!                |
//!                v
//!   inner    | level, count, skip | order | heads | separators | children |
//!                                                                   |
//!                                                                   v
//!   leaf     | level, count, skip | order | heads | values, or entries |
//! ```
//!
//! A node has 8 bytes of each key, the *head*, so most comparisons touch no other object. All keys
//! of a node lie between two separators, and the heads skip the bytes that these two share. The
//! heads of keys such as `user:0012345` therefore differ. Heads of the first 8 bytes would all be
//! `user:001`, and each step of a search would read an entry. [`form`] says where keys and values
//! are, [`node`] draws a node, and [`separator`] has the rules of separators.
//!
//! A leaf has no link to its neighbors. A scan keeps its path, and finds the next leaf of either
//! direction in the parent. Links forwards would be one more word to write at each split, and links
//! backwards one more leaf. A scan over links also learns the address of a leaf only when it reads
//! the leaf before, too late for a prefetch. The parent has all addresses.
//!
//! Invariants:
//! - A node's level is its parent's less one, and leaves are level 0. A descent therefore ends,
//!   whatever the heap holds.
//! - Child i of an inner node holds the keys from separator i up to, not including, separator
//!   i + 1. The first separator is not stored.
//! - Only a root is empty, and then it is a leaf. An inner root has two children or more. A leaf
//!   that is the root starts with 6 slots and grows; every other node has its full size.
//! - A node with less than a third of its slots used is joined with a neighbor, if both together
//!   fill at most 6/7 of a node. Nothing is shared among neighbors. A removal allocates an object
//!   only for a separator that a join moves to a node which skips less.
//! - While the root is a leaf, its count is the length, and the header's is zero.
//! - A separator goes away only when two leaves are joined, or when an emptied inner node is joined
//!   with a neighbor. It was then also a bound of the nodes on an edge below the neighbor. These
//!   get new heads if they skip more bytes than their new bounds share.
//! - Write skew: a change of a key writes the key's leaf or its entry. A change that finds nothing
//!   to do protects the entry, else the leaf, else the header. A change of a node's bounds writes
//!   or protects the node: a split writes the node, a join writes both nodes, and one of them is
//!   marked as dead before it is freed. So the path that led to a leaf needs no protection, and
//!   neither do the bounds that a split reads in the nodes above. The header is read by all, and
//!   written only when the root changes: then the old root is written or freed too, or the length
//!   is.

mod check;
mod clear;
mod descend;
mod form;
mod insert;
mod node;
mod remove;
mod scan;
mod separator;

use words::{Addr, Allocate, Stop, Words};

pub use check::{Checked, Damage};
pub(crate) use form::Form;
pub(crate) use insert::Spot;
pub(crate) use scan::Scan;

use crate::length::Length;
use node::Node;

/// Offsets in the header.
const ROOT: u64 = 0;
const CLEARED: u64 = 8;
const LENGTH: u64 = 16;

/// Bytes of the header.
const HEADER_BYTES: usize = LENGTH as usize + 8 * Length::WORDS;

/// A tree: the pointer of its header, which never changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    header: u64,
    form: Form,
}

impl Tree {
    #[inline]
    pub(crate) const fn at(header: u64, form: Form) -> Tree {
        Tree { header, form }
    }

    /// Creates an empty tree and returns its header.
    pub(crate) fn create<W: Allocate>(tx: &mut W) -> Result<u64, Stop> {
        let header = tx.allocate(HEADER_BYTES)?;
        let [count, stripes] = Length::ZERO;
        tx.write_words(Addr::new(header, 0), &[0, 0, count, stripes])?;
        Ok(header)
    }

    /// Returns the number of entries.
    pub(crate) fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        match self.root(tx)? {
            None => Ok(0),
            Some(root) if root.level() == 0 => Ok(root.count() as u64),
            Some(_) => self.length().get(tx),
        }
    }

    /// Returns whether there is no entry, without the words of the length.
    pub(crate) fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        Ok(self.root(tx)?.is_none_or(|root| root.count() == 0))
    }

    #[inline(always)]
    fn root<W: Words>(self, tx: &mut W) -> Result<Option<Node>, Stop> {
        match tx.read(self.header_at(ROOT))? {
            0 => Ok(None),
            root => Node::open_root(tx, self.form, root).map(Some),
        }
    }

    fn set_root<W: Words>(self, tx: &mut W, root: u64) -> Result<(), Stop> {
        tx.write(self.header_at(ROOT), root)
    }

    #[inline]
    const fn header_at(self, offset: u64) -> Addr {
        Addr::new(self.header, offset)
    }

    const fn length(self) -> Length {
        Length::at(self.header_at(LENGTH))
    }
}

/// Returns the number whose upper bits select a stripe of the length: one for all keys of a leaf.
/// Changes in a leaf conflict anyway, and a transaction on neighboring keys takes one stripe.
const fn spread(leaf: &Node) -> u64 {
    (leaf.object >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
