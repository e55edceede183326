//! A sequence of elements that grows and shrinks at both ends: the vector and the queue are typed
//! faces of it.
//!
//! ```text
//!   header   | root | cleared |                        16 bytes, all of an empty sequence
//!                |
//!                v
//!   node     | level, range | 0 | child x 60 |
//!                                     |
//!                                     v
//!   chunk    | level 0, range | number | slot x n |    480 bytes of slots, see `node.rs`
//! ```
//!
//! A radix tree of chunks. A *position* is a slot's place among all slots below the root, as if
//! each node were full. It selects a slot at each level, so an element is found without a search.
//! No word has the length: the length is the difference of the positions at the two ends. So a
//! change at one end writes its chunk alone, and the nodes above once for each chunk.
//!
//! The root begins small, with 4 words of slots, and doubles. A root that is full at one side and
//! at most half full slides its slots to the other side. Every other node has its full size. An
//! operation moves the slots of one node at most.
//!
//! A slot has the bytes of an element of a fixed length of up to 64 bytes, else the pointer to an
//! entry with an empty key: see [`entry`](crate::entry).
//!
//! Invariants:
//! - Elements are contiguous. All chunks but those at the ends are full, and so are the inner
//!   nodes but those above the ends.
//! - A chunk at an end may be empty, if its neighbor is not: then the elements end in the neighbor.
//!   A pop that leaves at most half of the neighbor frees the empty chunk. So pushes and pops
//!   around the border of two chunks allocate nothing. An inner node is never empty.
//! - A root that is no chunk has two children or more.
//! - Chunks are numbered from left to right without gaps, and a number never changes. So a walk
//!   through a damaged tree, in which many slots lead to one chunk, ends at once.
//! - A vector grows at its back only: its first position is 0, and so is the number of its first
//!   chunk.
//! - Write skew: an operation at an end writes a chunk there, and protects the other chunk if it
//!   relies on it. A pop from the neighbor of an empty chunk protects the empty one, into which a
//!   concurrent push may write. A push that adds a chunk protects the full one beside it, from
//!   which a concurrent pop may take. A pop that empties a chunk protects the neighbor, which a pop
//!   at the other end may empty. A change of an element writes or protects its chunk. In a queue it
//!   also protects the front, which gives the indices their meaning. A change that finds no element
//!   protects the ends. The path to a chunk needs no protection: a change of a node's range writes
//!   the node, and a change of the root's pointer writes the header.

mod check;
mod clear;
mod descend;
mod element;
mod grow;
mod iter;
mod node;
mod shrink;

use words::{Addr, Allocate, Stop, Words};

use crate::value::Value;
use node::{Node, WORDS, capacity};

pub use check::{Checked, Damage};
pub use iter::Iter;
pub(crate) use iter::Slots;

/// Offsets in the header.
const ROOT: u64 = 0;
const CLEARED: u64 = 8;

/// Bytes of the header.
const HEADER_BYTES: usize = 16;

/// Most bytes of an element in a slot.
const INLINE_BYTES: usize = 64;

/// An end of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Front,
    Back,
}

impl Side {
    const fn other(self) -> Side {
        match self {
            Side::Front => Side::Back,
            Side::Back => Side::Front,
        }
    }
}

/// The form of a sequence's slots, which the type of its elements decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Bytes of an element, if slots have the elements themselves.
    inline: Option<usize>,
    /// Bytes of a slot.
    stride: usize,
}

impl Form {
    pub(crate) const fn of<T: Value + ?Sized>() -> Form {
        Form::of_length(T::FIXED)
    }

    /// Returns the form for elements of this length, or of any.
    pub(crate) const fn of_length(fixed: Option<usize>) -> Form {
        match fixed {
            Some(bytes) if bytes <= INLINE_BYTES => Form { inline: Some(bytes), stride: bytes },
            _ => Form { inline: None, stride: 8 },
        }
    }

    /// Returns the number of slots of a chunk that is not the root.
    const fn slots(self) -> usize {
        capacity(self.stride, WORDS)
    }
}

/// A sequence: the pointer of its header, which never changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    header: u64,
    /// The offset of the word that has the root: that of a cleared tree while it is being freed.
    start: u64,
    form: Form,
    /// Whether both ends grow.
    is_queue: bool,
}

impl Sequence {
    /// Returns the sequence with this header, which grows at its back only.
    #[inline]
    pub(crate) const fn vector(header: u64, form: Form) -> Sequence {
        Sequence { header, start: ROOT, form, is_queue: false }
    }

    /// Returns the sequence with this header, which grows at both ends.
    #[inline]
    pub(crate) const fn queue(header: u64, form: Form) -> Sequence {
        Sequence { header, start: ROOT, form, is_queue: true }
    }

    /// Allocates the header of an empty sequence.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub(crate) fn create<W: Allocate>(tx: &mut W) -> Result<u64, Stop> {
        let header = tx.allocate(HEADER_BYTES)?;
        tx.write_words(Addr::new(header, 0), &[0, 0])?;
        Ok(header)
    }

    /// Returns whether there is no element. Reads two words, which changes of a long sequence
    /// rarely write.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub(crate) fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        // An inner node is never empty, nor are two chunks.
        Ok(self.root(tx)?.is_none_or(|root| root.count() == 0))
    }

    /// Opens the root; `None` in an empty sequence.
    #[inline]
    fn root<W: Words>(self, tx: &mut W) -> Result<Option<Node>, Stop> {
        match tx.read(self.start())? {
            0 => Ok(None),
            object => Node::open_root(tx, self.form, object).map(Some),
        }
    }

    fn set_root<W: Words>(self, tx: &mut W, object: u64) -> Result<(), Stop> {
        tx.write(self.start(), object)
    }

    #[inline]
    const fn start(self) -> Addr {
        Addr::new(self.header, self.start)
    }
}
