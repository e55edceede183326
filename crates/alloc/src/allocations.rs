//! The allocations of a heap at rest, and the same allocations in another heap.
//!
//! An allocation serves one request of a program: an object, a byte string, or an array with all
//! its blocks. A second heap may have the same allocations at other places, each with the same
//! size and kind.

use std::ops::Range;

use words::{BLOCK_BYTES, BLOCK_STRIDE, OBJECT_BYTES_MAX, PIECE_BYTES, PIECE_STRIDE};

/// An allocation of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its first byte, as an offset in the heap.
    pub offset: u64,
    /// The requested size.
    pub size: Size,
}

/// The size of an allocation, as it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// An object of this many bytes, at most [`OBJECT_BYTES_MAX`].
    Object(u64),
    /// A byte string of this many bytes, more than [`OBJECT_BYTES_MAX`].
    String(u64),
    /// An array.
    Array {
        /// Its blocks.
        blocks: u64,
        /// The blocks that are prepared: the first ones, or all.
        prepared: u64,
    },
}

impl Size {
    /// Returns whether a heap can have such an allocation.
    pub fn is_valid(&self) -> bool {
        let object_max = OBJECT_BYTES_MAX as u64;
        match *self {
            Size::Object(bytes) => (1..=object_max).contains(&bytes),
            Size::String(bytes) => (object_max + 1..=1 << words::ADDRESS_BITS).contains(&bytes),
            Size::Array { blocks, prepared } => {
                (1..=1 << 32).contains(&blocks) && prepared <= blocks
            }
        }
    }

    /// Returns the fewest bytes that the allocation takes in a heap.
    pub fn bytes_min(&self) -> u64 {
        match *self {
            Size::Object(bytes) | Size::String(bytes) => bytes,
            Size::Array { blocks, .. } => blocks.saturating_mul(BLOCK_BYTES),
        }
    }

    /// Returns the number of words of the content: those of the prepared blocks of an array.
    pub fn words(&self) -> u64 {
        match *self {
            Size::Object(bytes) | Size::String(bytes) => bytes.div_ceil(8),
            Size::Array { prepared, .. } => prepared * (BLOCK_BYTES / 8),
        }
    }
}

impl Allocation {
    /// Returns the byte range of the allocation in an ordinary heap: its first header, its content,
    /// and the headers between.
    pub fn extent(&self) -> Range<u64> {
        let (bytes, part, stride) = self.form();
        let last = bytes.div_ceil(part).saturating_sub(1);
        let end = last.saturating_mul(stride).saturating_add(bytes - last * part);
        self.offset.saturating_sub(8)..self.offset.saturating_add(end.next_multiple_of(8).max(8))
    }

    /// Returns the places of the content in an ordinary heap, as ranges of words: an object, the
    /// pieces of a string, or the prepared blocks of an array.
    pub fn parts(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (bytes, part, stride) = self.form();
        let first = self.offset;
        (0..bytes.div_ceil(part)).map(move |index| {
            let begin = (first + index * stride) / 8;
            begin..begin + (bytes - index * part).min(part).div_ceil(8)
        })
    }

    /// Returns the bytes of the content, the bytes of a part of it, and the distance of two parts.
    fn form(&self) -> (u64, u64, u64) {
        match self.size {
            Size::Object(bytes) => (bytes, OBJECT_BYTES_MAX as u64, OBJECT_BYTES_MAX as u64),
            Size::String(bytes) => (bytes, PIECE_BYTES, PIECE_STRIDE),
            Size::Array { prepared, .. } => {
                (prepared.saturating_mul(BLOCK_BYTES), BLOCK_BYTES, BLOCK_STRIDE)
            }
        }
    }
}
