//! A volatile index from blocks to their arrays, which replaces a read of each block's header.
//!
//! ```text
//!   object / 64 KiB -> unit of the array's head -> head: number of prepared blocks
//!                      in DRAM, 4 bytes            in the heap, one line for all of the array
//! ```
//!
//! A block of 256 bytes has its header in another cache line than most of its words. A program that
//! writes single words of many blocks would miss twice for each write. The head of an array
//! replaces the headers of all of its blocks. The index knows the parts of 64 KiB that are within
//! one array: writes to other memory do not look for an array.
//!
//! Invariants:
//! - A begin is a hint: 0 or a wrong one does no harm, and it is never made durable. Its user
//!   checks that a head is there and that the block is among the prepared blocks.
//! - The index proves only that a block is live. When it does not, the block's header decides.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use words::BLOCK_STRIDE;

use crate::Heap;
use crate::head::{ARRAY, HEAD_BLOCKS, HEAD_PREPARED, HEAD_UNITS, own_header};
use crate::header::{Kind, decode};
use crate::layout::{self, CHUNK_BYTES, HEAD, HEADERS_CLEARED, LINE_PAYLOAD, Layout, WATCHES};

const LAYOUT: Layout = Layout::Ordinary;

/// The blocks of an array that are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Heap offset of the first one.
    first: u64,
    /// Distance to the first block that is not prepared.
    bytes: u64,
}

impl Prepared {
    /// The empty range.
    pub const NONE: Prepared = Prepared { first: 0, bytes: 0 };

    /// Returns the prepared blocks of the array whose head is at unit `begin`, a result of
    /// [`Runs::begin`]; [`Prepared::NONE`] when no array begins there. `load` reads the word at a
    /// heap offset.
    #[inline]
    pub fn of(begin: u64, mut load: impl FnMut(u64) -> u64) -> Prepared {
        let head = LAYOUT.offset(begin) + HEAD;
        let (blocks, prepared) = (load(head + HEAD_BLOCKS), load(head + HEAD_PREPARED));
        let is_array = load(head - 8) == own_header(head, LINE_PAYLOAD) && load(head) == ARRAY;
        if is_array && prepared <= blocks {
            let first = LAYOUT.block(begin, 0);
            Prepared { first, bytes: prepared.saturating_mul(BLOCK_STRIDE) }
        } else {
            Prepared::NONE
        }
    }

    /// Returns the unit that the array begins in.
    #[inline]
    pub const fn begin(self) -> u64 {
        self.first / LAYOUT.unit_bytes()
    }

    /// Returns whether the object at this heap offset is one of the blocks.
    #[inline]
    pub const fn has(self, object: u64) -> bool {
        let from_first = object.wrapping_sub(self.first);
        from_first < self.bytes && from_first.is_multiple_of(BLOCK_STRIDE)
    }
}

/// For each 64 KiB of a heap, the first unit of an array that has a block there, if one is known.
#[derive(Debug)]
pub struct Runs {
    /// 0: unknown. Relaxed throughout: a hint publishes no other data.
    begins: Box<[AtomicU32]>,
    /// For each watch, the number of its writes since the pool was opened.
    changes: [AtomicU64; WATCHES as usize],
}

impl Runs {
    /// Makes an empty index, of 4 bytes for every 64 KiB of the heap.
    ///
    /// # Panics
    /// When the heap is line-isolated, because its blocks have no headers to avoid.
    pub fn new(heap: &Heap) -> Runs {
        assert!(heap.layout.has_headers(), "blocks without headers need no index");
        let begins = (0..heap.bytes / CHUNK_BYTES).map(|_| AtomicU32::new(0)).collect();
        Runs { begins, changes: [const { AtomicU64::new(0) }; WATCHES as usize] }
    }

    /// Returns the unit in which the array of the block at this heap offset may begin.
    #[inline]
    pub fn begin(&self, object: u64) -> Option<u64> {
        let begin = self.begins.get((object / CHUNK_BYTES) as usize)?.load(Ordering::Relaxed);
        (begin != 0).then_some(u64::from(begin))
    }

    /// Returns the heap offset of the watch of an array in `begin`. The watch is written before the
    /// array's head, so a result of [`Prepared::of`] is valid until the watch is written.
    #[inline]
    pub const fn watch(begin: u64) -> u64 {
        layout::watch(begin)
    }

    /// Returns the unit in which the array of the block with this header begins, if only the
    /// array's head shows whether the block is live. Freeing a long array clears only the headers
    /// of its first blocks.
    #[inline]
    pub fn begin_of_late_block(object: u64, header: u64) -> Option<u64> {
        let block = decode(header, object).filter(|found| found.kind == Kind::Block)?;
        let first = object.checked_sub(block.position.checked_mul(BLOCK_STRIDE)?)?;
        (block.position >= HEADERS_CLEARED).then_some(first / LAYOUT.unit_bytes())
    }

    /// Returns whether the object is where the first block of an array starts.
    #[inline]
    pub const fn may_begin_with(object: u64) -> bool {
        object == LAYOUT.block(object / LAYOUT.unit_bytes(), 0)
    }

    /// Returns how often the watch of an array in `begin` was written.
    ///
    /// A transaction reads this after the watch. If the number is the same as when
    /// [`Prepared::of`] was called, that result is still valid.
    #[inline]
    pub fn changes(&self, begin: u64) -> u64 {
        // Relaxed: the watch's ownership record, released after `changed`, brings the number.
        self.changes[(begin % WATCHES) as usize].load(Ordering::Relaxed)
    }

    /// Counts a change of the array of the block at this heap offset. The transaction that prepares
    /// or frees the array calls this after it writes the watch, before that write is visible.
    pub fn changed(&self, object: u64) {
        let watch = object / LAYOUT.unit_bytes() % WATCHES;
        self.changes[watch as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the array of the live block with this header at this heap offset, for the 64 KiB
    /// around it, if the array has all of them. `load` reads the word at a heap offset.
    #[cold]
    pub fn learn(&self, object: u64, header: u64, load: impl Fn(u64) -> u64) {
        let Some(block) = decode(header, object).filter(|found| found.kind == Kind::Block) else {
            return;
        };
        let first = object.checked_sub(block.position * BLOCK_STRIDE);
        let Some(first) = first.filter(|&first| Runs::may_begin_with(first)) else { return };
        let begin = first / LAYOUT.unit_bytes();
        let begins_before = LAYOUT.offset(begin) <= object / CHUNK_BYTES * CHUNK_BYTES;
        let units = load(LAYOUT.offset(begin) + HEAD + HEAD_UNITS);
        let end = begin.saturating_add(units).saturating_mul(LAYOUT.unit_bytes());
        let is_whole = begins_before && end >= (object / CHUNK_BYTES + 1) * CHUNK_BYTES;
        let hint = self.begins.get((object / CHUNK_BYTES) as usize);
        if let (true, Ok(begin), Some(hint)) = (is_whole, u32::try_from(begin), hint) {
            hint.store(begin, Ordering::Relaxed);
        }
    }
}
