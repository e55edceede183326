//! A red-black tree from `u64` to `u64`, every node one cache line.
//!
//! ```text
//!   value in the program's object   anchor, an object   node, an object of 48 bytes
//!   | anchor |                      | root |            byte  0  key
//!                                                             8  value
//!                                                            16  left: smaller keys; 0 is none
//!                                                            24  right: greater keys; 0 is none
//!                                                            32  parent; 0 in the root
//!                                                            40  colour: 0 black, 1 red
//! ```
//!
//! Compared with the [`BTreeMap`](super::BTreeMap) it reads more lines and writes fewer bytes. An
//! insertion or a removal changes two nodes, and some more when it recolours and rotates (Cormen
//! and others, chapter 13). A node never moves. Removing a key in the middle of the tree moves its
//! successor's key and value into the node, and frees the successor's node.
//!
//! Invariants:
//! - Keys ascend from left to right. No red node has a red parent. Every path from the root to a
//!   missing child has the same number of black nodes. No path is therefore longer than
//!   [`DEPTH_MAX`], and a longer walk has met damage.
//! - A child's parent pointer leads to the node above; it is checked before a rotation relies on
//!   it.
//! - Two transactions that change words that the other relied on write the same node, also under
//!   snapshot isolation. A freed node is written (marked dead), inserting a key writes its parent,
//!   and an unwritten node whose colour decided a step is protected.

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Ptr, Stop, Words, work};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

mod check;
mod insert;
mod remove;

/// Offsets of a node's words.
const KEY: u64 = 0;
const VALUE: u64 = 8;
const LEFT: u64 = 16;
const RIGHT: u64 = 24;
const PARENT: u64 = 32;
const COLOUR: u64 = 40;

const WORDS: usize = 6;
const BLACK: u64 = 0;
const RED: u64 = 1;

/// The parent pointer of a freed node, outside every heap.
const DEAD: u64 = u64::MAX;

/// Longest path: twice the logarithm of the number of nodes that 48-bit addresses can hold.
const DEPTH_MAX: usize = 2 * 43;

/// A tree; a value of one word that objects can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct RbTree {
    anchor: Ptr<u64>,
}

/// The end of a search for a key.
enum Found {
    /// The key's node.
    Here(u64),
    /// The key is missing and belongs at this side of this node, 0 in an empty tree.
    Below(u64, u64),
}

impl RbTree {
    /// Size of a node's object in bytes, without its header of 16 bytes.
    pub const NODE_BYTES: usize = 8 * WORDS;

    /// Creates an empty tree. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<RbTree, Stop> {
        let anchor = Ptr::from_bits(tx.allocate(8)?);
        let tree = RbTree { anchor };
        tx.write(tree.root(), 0)?;
        Ok(tree)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged tree, here and in all other methods.
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        match self.search(tx, key)? {
            Found::Here(node) => tx.read(word(node, VALUE)).map(Some),
            Found::Below(..) => Ok(None),
        }
    }

    /// Returns the place of a key's value, which is valid until a key is removed.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        match self.search(tx, key)? {
            Found::Here(node) => Ok(Some(word(node, VALUE))),
            Found::Below(..) => Ok(None),
        }
    }

    /// Returns the first pair whose key is not smaller.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn ceiling<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<(u64, u64)>, Stop> {
        let (mut node, mut best) = (tx.read(self.root())?, None);
        for _ in 0..DEPTH_MAX {
            if node == 0 {
                return Ok(best);
            }
            let found = tx.read(word(node, KEY))?;
            if found >= key {
                if best.is_some_and(|(best, _)| found >= best) {
                    return Err(Stop::BadValue);
                }
                best = Some((found, tx.read(word(node, VALUE))?));
            }
            node = tx.read(word(node, if found >= key { LEFT } else { RIGHT }))?;
        }
        Err(Stop::BadValue)
    }

    /// Inserts a key or replaces its value; returns the old value. Writes 1 word for a present key;
    /// for a new one its node, the link to it, and the words that recolouring and rotations change,
    /// beside the allocator's words.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    #[inline]
    pub fn insert<W: Allocate>(
        self,
        tx: &mut W,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, Stop> {
        match self.search(tx, key)? {
            Found::Here(node) => {
                let before = tx.read(word(node, VALUE))?;
                tx.write(word(node, VALUE), value)?;
                Ok(Some(before))
            }
            Found::Below(parent, side) => {
                self.add(tx, (key, value), parent, side)?;
                Ok(None)
            }
        }
    }

    /// Removes a key and frees a node; returns its value.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    pub fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        match self.search(tx, key)? {
            Found::Here(node) => {
                let value = tx.read(word(node, VALUE))?;
                self.take_out(tx, node)?;
                Ok(Some(value))
            }
            Found::Below(..) => Ok(None),
        }
    }

    /// Frees up to `most_nodes` nodes; returns whether that was the last one, and with it the tree
    /// itself. Every copy of this value dangles after that.
    ///
    /// Between the steps the tree must not be used for anything else. The progress is part of the
    /// pool, so freeing continues after a crash.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadPointer`] when the tree was freed before.
    pub fn free<W: Words>(self, tx: &mut W, most_nodes: u64) -> Result<bool, Stop> {
        for _ in 0..most_nodes {
            let mut node = tx.read(self.root())?;
            if node == 0 {
                tx.retire(self.root(), 8)?;
                return Ok(true);
            }
            let mut link = self.root();
            for depth in 0.. {
                let (left, right) = (tx.read(word(node, LEFT))?, tx.read(word(node, RIGHT))?);
                let (side, below) = if left != 0 { (LEFT, left) } else { (RIGHT, right) };
                if below == 0 {
                    break;
                }
                if depth == DEPTH_MAX {
                    return Err(Stop::BadValue);
                }
                (link, node) = (word(node, side), below);
            }
            tx.write(link, 0)?;
            discard(tx, node)?;
        }
        Ok(false)
    }

    #[inline]
    fn search<W: Words>(self, tx: &mut W, key: u64) -> Result<Found, Stop> {
        let mut node = tx.read(self.root())?;
        let (mut parent, mut side) = (0, LEFT);
        for _ in 0..DEPTH_MAX {
            if node == 0 {
                return Ok(Found::Below(parent, side));
            }
            tx.compute(work::DESCEND);
            let found = tx.read(word(node, KEY))?;
            if found == key {
                return Ok(Found::Here(node));
            }
            side = if key < found { LEFT } else { RIGHT };
            (parent, node) = (node, tx.read(word(node, side))?);
        }
        Err(Stop::BadValue)
    }

    /// Returns the link at this side of a node; the link to the root for node 0.
    #[inline]
    fn link(self, parent: u64, side: u64) -> Addr {
        if parent == 0 { self.root() } else { word(parent, side) }
    }

    /// Rotates a node down to this side; its child of the other side takes its place.
    fn rotate<W: Words>(self, tx: &mut W, down: u64, side: u64) -> Result<(), Stop> {
        let up = tx.read(word(down, other(side)))?;
        if up == 0 {
            return Err(Stop::BadValue);
        }
        let (above, between) = (tx.read(word(down, PARENT))?, tx.read(word(up, side))?);
        let above_side = if above == 0 { LEFT } else { side_of(tx, above, down)? };
        tx.write(self.link(above, above_side), up)?;
        tx.write(word(up, PARENT), above)?;
        tx.write(word(up, side), down)?;
        tx.write(word(down, PARENT), up)?;
        tx.write(word(down, other(side)), between)?;
        if between != 0 {
            tx.write(word(between, PARENT), down)?;
        }
        Ok(())
    }

    #[inline]
    fn root(self) -> Addr {
        Addr::new(self.anchor.to_bits(), 0)
    }
}

/// Returns the address of a node's word.
#[inline]
fn word(node: u64, offset: u64) -> Addr {
    Addr::new(node, offset)
}

#[inline]
fn other(side: u64) -> u64 {
    LEFT + RIGHT - side
}

/// Returns the side of a node at which its child is.
fn side_of<W: Words>(tx: &mut W, parent: u64, child: u64) -> Result<u64, Stop> {
    for side in [LEFT, RIGHT] {
        if tx.read(word(parent, side))? == child {
            return Ok(side);
        }
    }
    Err(Stop::BadValue)
}

/// Returns whether the node exists and is red.
#[inline]
fn is_red<W: Words>(tx: &mut W, node: u64) -> Result<bool, Stop> {
    if node == 0 {
        return Ok(false);
    }
    match tx.read(word(node, COLOUR))? {
        BLACK => Ok(false),
        RED => Ok(true),
        _ => Err(Stop::BadValue),
    }
}

#[inline]
fn paint<W: Words>(tx: &mut W, node: u64, colour: u64) -> Result<(), Stop> {
    tx.write(word(node, COLOUR), colour)
}

/// Protects a node, unless it is 0, whose colour decided a step and which may stay unwritten.
#[inline]
fn protect<W: Words>(tx: &mut W, node: u64) -> Result<(), Stop> {
    if node == 0 || injected(Mutant::ColourNotProtected) {
        return Ok(());
    }
    tx.protect(word(node, COLOUR))
}

/// Frees a node. It is written first, so that a concurrent transaction that changes it conflicts in
/// every design.
fn discard<W: Words>(tx: &mut W, node: u64) -> Result<(), Stop> {
    tx.write(word(node, PARENT), DEAD)?;
    tx.retire(word(node, KEY), RbTree::NODE_BYTES as u64)
}
