//! A volatile index from blocks to their runs, which replaces a read of each block's header.
//!
//! ```text
//!   object / 64 KiB -> begin: chunk of the run's head -> head: number of prepared blocks
//!                      in DRAM, 4 bytes a chunk          in the heap, one line for all of the run
//! ```
//!
//! A block of 256 bytes has its header in another cache line than most of its words. A program that
//! writes one word here and one there would miss twice for each write. The head of a run holds for
//! all of its blocks the facts that their headers hold.
//!
//! Invariants:
//! - A begin is a hint: 0 or a wrong one does no harm, and it is never made durable. Its user
//!   checks that a head is there and that the block is among the prepared blocks.
//! - The index proves only that a block is live. When it does not, the block's header decides.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use words::BLOCK_STRIDE;

use crate::Heap;
use crate::head::{HEAD_PREPARED, Head, own_header};
use crate::layout::{self, CHUNK_BYTES, HEAD, LINE_PAYLOAD, Layout, WATCHES};

/// Chunks that one call of [`Runs::learn`] searches backwards at most. Chosen, not measured: a call
/// is inside a transaction, and each step is a cache miss.
const STEPS: usize = 32;

/// The blocks of a run that are prepared.
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

    /// Returns the prepared blocks of the run whose head is in `begin`, a result of
    /// [`Runs::begin`]; `None` when no run begins there. `load` reads the word at a heap offset.
    #[inline]
    pub fn of(begin: u64, mut load: impl FnMut(u64) -> u64) -> Prepared {
        let head = begin * CHUNK_BYTES + HEAD;
        let (blocks, prepared) = (load(head + HEAD_BLOCKS), load(head + HEAD_PREPARED));
        let is_run = load(head - 8) == own_header(head, LINE_PAYLOAD) && load(head) == RUN;
        if is_run && prepared <= blocks {
            let first = Layout::Ordinary.block(begin, 0);
            Prepared { first, bytes: prepared.saturating_mul(BLOCK_STRIDE) }
        } else {
            Prepared::NONE
        }
    }

    /// Returns the chunk that the run begins in.
    #[inline]
    pub const fn begin(self) -> u64 {
        self.first / CHUNK_BYTES
    }

    /// Returns whether the object at this heap offset is one of the blocks.
    #[inline]
    pub const fn has(self, object: u64) -> bool {
        let from_first = object.wrapping_sub(self.first);
        from_first < self.bytes && from_first.is_multiple_of(BLOCK_STRIDE)
    }
}

/// The first word of a run's head.
const RUN: u64 = Head::Run { chunks: 0, blocks: 0, prepared: 0, fresh: false }.encode()[0];
const HEAD_BLOCKS: u64 = 16;

/// For each chunk of a heap, the chunk in which its run begins, as far as it is known.
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
        assert!(heap.layout.has_headers(), "blocks without headers need no index of runs");
        let begins = (0..heap.chunks()).map(|_| AtomicU32::new(0)).collect();
        Runs { begins, changes: [const { AtomicU64::new(0) }; WATCHES as usize] }
    }

    /// Returns the chunk in which the run of the block at this heap offset may begin.
    #[inline]
    pub fn begin(&self, object: u64) -> Option<u64> {
        let begin = self.begins.get((object / CHUNK_BYTES) as usize)?.load(Ordering::Relaxed);
        (begin != 0).then_some(u64::from(begin))
    }

    /// Returns the heap offset of the watch of a run in `begin`, which is written before the run's
    /// head is: a result of [`Prepared::of`] holds as long as the watch is not written.
    #[inline]
    pub const fn watch(begin: u64) -> u64 {
        layout::watch(begin)
    }

    /// Returns whether the object is where the first block of a run starts.
    #[inline]
    pub const fn may_begin_with(object: u64) -> bool {
        object == Layout::Ordinary.block(object / CHUNK_BYTES, 0)
    }

    /// Returns how often the watch of a run in `begin` was written.
    ///
    /// A transaction reads this after the watch. If the number is the same as when
    /// [`Prepared::of`] was called, that result is still valid.
    #[inline]
    pub fn changes(&self, begin: u64) -> u64 {
        // Relaxed: the watch's ownership record, released after `changed`, brings the number.
        self.changes[(begin % WATCHES) as usize].load(Ordering::Relaxed)
    }

    /// Counts a change of the run of the block at this heap offset. The transaction that prepares
    /// or frees the run calls this after it writes the watch, before that write is visible.
    pub fn changed(&self, object: u64) {
        let watch = object / CHUNK_BYTES % WATCHES;
        self.changes[watch as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Searches for the run of the live block at this heap offset, a bounded number of chunks at a
    /// time. Repeated calls find every run, however long it is.
    #[cold]
    pub fn learn(&self, object: u64, load: impl Fn(u64) -> u64) {
        let chunk = object / CHUNK_BYTES;
        let mut at = self.begin(object).unwrap_or(chunk);
        for _ in 0..STEPS {
            if at == 0 {
                break; // the first chunk belongs to no run
            }
            if Prepared::of(at, &load).has(object) {
                return self.learned(at, load(at * CHUNK_BYTES + HEAD + 8));
            }
            let head = at * CHUNK_BYTES + HEAD;
            // A stale begin, of an earlier run or a free one: search again from the start.
            at = if is_head(load(head - 8), head) { 0 } else { at - 1 };
        }
        if let Some(begin) = self.begins.get(chunk as usize) {
            begin.store(at as u32, Ordering::Relaxed);
        }
    }

    /// Records the begin of all chunks of a run at once.
    fn learned(&self, begin: u64, chunks: u64) {
        let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
        for hint in self.begins.iter().skip(begin as usize).take(chunks) {
            hint.store(begin as u32, Ordering::Relaxed);
        }
    }
}

/// Returns whether a chunk's head has this header word.
fn is_head(header: u64, head: u64) -> bool {
    header == own_header(head, LINE_PAYLOAD)
}
