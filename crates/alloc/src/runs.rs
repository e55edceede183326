//! Which run a block belongs to, found without the block's header.
//!
//! ```text
//!   object / 64 KiB -> begin: chunk of the run's head -> head: so many blocks are prepared
//!                      in DRAM, 4 bytes a chunk          in the heap, one line for all of the run
//! ```
//!
//! A block of 256 bytes has its header in another cache line than most of its words: who writes one
//! word here and one there would miss twice each time. The head of a run says for all of its blocks
//! what their headers say.
//!
//! Invariants:
//! - A begin is a hint: 0 or wrong does no harm, and it is never made durable. Whoever follows one
//!   checks that a head is there and that the block is among those it has prepared.
//! - Only *live* follows from here. Whoever finds nothing looks at the block's header.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use words::BLOCK_STRIDE;

use crate::Heap;
use crate::head::{HEAD_PREPARED, Head, own_header};
use crate::layout::{self, CHUNK_BYTES, HEAD, LINE_PAYLOAD, Layout, WATCHES};

/// Chunks that one call of [`Runs::learn`] goes back at most. Chosen, not measured: it runs inside
/// a transaction, and each step is a cache miss.
const STEPS: usize = 32;

/// The blocks of a run that are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Heap offset of the first one.
    first: u64,
    /// Up to the first one that is not.
    bytes: u64,
}

impl Prepared {
    /// No block at all.
    pub const NONE: Prepared = Prepared { first: 0, bytes: 0 };

    /// What the head of a run in `begin` says, a chunk that [`Runs::begin`] answered; nothing when
    /// no run begins there. `load` gives the word so many bytes into the heap.
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

    /// The chunk that the run begins in.
    #[inline]
    pub const fn begin(self) -> u64 {
        self.first / CHUNK_BYTES
    }

    /// Whether the object at this heap offset is one of them.
    #[inline]
    pub const fn has(self, object: u64) -> bool {
        let from_first = object.wrapping_sub(self.first);
        from_first < self.bytes && from_first.is_multiple_of(BLOCK_STRIDE)
    }
}

/// The first word of a run's head, and the offset of the number of its blocks.
const RUN: u64 = Head::Run { chunks: 0, blocks: 0, prepared: 0, fresh: false }.encode()[0];
const HEAD_BLOCKS: u64 = 16;

/// For each chunk of a heap the one in which its run begins, as far as that is known.
#[derive(Debug)]
pub struct Runs {
    /// 0: not known. Relaxed throughout: a hint carries nothing with it.
    begins: Box<[AtomicU32]>,
    /// For each watch, how often it was written since the pool was opened.
    changes: [AtomicU64; WATCHES as usize],
}

impl Runs {
    /// Nothing is known: 4 bytes for every 64 KiB of the heap.
    ///
    /// # Panics
    /// When the heap is line-isolated: its blocks have no headers that one could do without.
    pub fn new(heap: &Heap) -> Runs {
        assert!(heap.layout.has_headers(), "blocks without headers need no runs");
        let begins = (0..heap.chunks()).map(|_| AtomicU32::new(0)).collect();
        Runs { begins, changes: [const { AtomicU64::new(0) }; WATCHES as usize] }
    }

    /// The chunk in which the run of the block at this heap offset may begin.
    #[inline]
    pub fn begin(&self, object: u64) -> Option<u64> {
        let begin = self.begins.get((object / CHUNK_BYTES) as usize)?.load(Ordering::Relaxed);
        (begin != 0).then_some(u64::from(begin))
    }

    /// The word, by its offset in the heap, that is written before the head of a run in `begin`
    /// is: [`Prepared::of`] holds as long as nobody has written it.
    #[inline]
    pub const fn watch(begin: u64) -> u64 {
        layout::watch(begin)
    }

    /// Whether the object is where the first block of a run stands.
    #[inline]
    pub const fn may_begin_with(object: u64) -> bool {
        object == Layout::Ordinary.block(object / CHUNK_BYTES, 0)
    }

    /// How often the watch of a run in `begin` was written. Whoever reads it after the watch, in a
    /// transaction, and finds what it was when [`Prepared::of`] was asked, need not ask again.
    #[inline]
    pub fn changes(&self, begin: u64) -> u64 {
        // Relaxed: the watch's ownership record, released behind `changed`, brings the number.
        self.changes[(begin % WATCHES) as usize].load(Ordering::Relaxed)
    }

    /// The run of the block at this heap offset was prepared or freed: called by the transaction
    /// that does it, behind the writing of the watch, before anybody can see it.
    pub fn changed(&self, object: u64) {
        let watch = object / CHUNK_BYTES % WATCHES;
        self.changes[watch as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Looks for the run of the live block at this heap offset, some chunks at a time: a run is
    /// known in the end, however long it is.
    #[cold]
    pub fn learn(&self, object: u64, load: impl Fn(u64) -> u64) {
        let chunk = object / CHUNK_BYTES;
        let mut at = self.begin(object).unwrap_or(chunk);
        for _ in 0..STEPS {
            if at == 0 {
                break; // the first chunk is of no run
            }
            if Prepared::of(at, &load).has(object) {
                return self.learned(at, load(at * CHUNK_BYTES + HEAD + 8));
            }
            let head = at * CHUNK_BYTES + HEAD;
            // Another run's that was there before, or a free one's: from the start the next time.
            at = if is_head(load(head - 8), head) { 0 } else { at - 1 };
        }
        if let Some(begin) = self.begins.get(chunk as usize) {
            begin.store(at as u32, Ordering::Relaxed);
        }
    }

    /// All chunks of the run are known at once.
    fn learned(&self, begin: u64, chunks: u64) {
        let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
        for hint in self.begins.iter().skip(begin as usize).take(chunks) {
            hint.store(begin as u32, Ordering::Relaxed);
        }
    }
}

/// Whether a chunk's head has this header word.
fn is_head(header: u64, head: u64) -> bool {
    header == own_header(head, LINE_PAYLOAD)
}
