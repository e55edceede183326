//! The memory of the workers' rings: its allocation for a new worker, and its release.
//!
//! A ring takes the memory of its worker's backlog, which the worker cannot give back while it is
//! idle. The persist thread therefore releases memory when no worker has committed for a while, and
//! sometimes looks for idle workers while others keep it busy (`Persist::release_idle`).
//!
//! | ring | its memory is released |
//! |---|---|
//! | with regions | as the worker leaves a region, and while the worker is idle |
//! | unbounded | as its records are taken |
//! | of one region, or without a persist thread | with its worker |
//!
//! Invariant: only the holder of the persist step's lock releases the memory of a ring.

use std::ops::Range;

use lw_log::{REGION_WORDS, Ring, RingMemory};
use medium::Memory;

/// Words of a ring that is never full: 128 GiB of addresses, more than the machine's memory. The
/// persist step returns consumed pages to the system, so a worker whose records are taken promptly
/// uses little memory. (DudeTM, section 5.1: DudeTM-Inf.)
pub(crate) const UNBOUNDED_WORDS: usize = 1 << 34;

/// Words that such a ring returns at a time: a huge page.
const PIECE_WORDS: u64 = (2 << 20) / 8;

/// The words that an unbounded ring returns after its `taken` cursor has moved.
fn given_back(before: u64, after: u64) -> impl Iterator<Item = Range<usize>> {
    let pieces = before / PIECE_WORDS..after / PIECE_WORDS;
    pieces.map(|piece| {
        let first = (piece * PIECE_WORDS) as usize % UNBOUNDED_WORDS;
        first..first + PIECE_WORDS as usize
    })
}

/// Makes the ring of a worker.
///
/// # Errors
/// The bytes for which the system has no memory.
pub(super) fn new_ring(ring_words: usize) -> Result<Ring<Memory>, u64> {
    let bytes = bytes_max(8 * ring_words as u64);
    let memory = match ring_words {
        UNBOUNDED_WORDS => Memory::unreserved(bytes),
        // The regions before the largest one are an eighth of it.
        _ => Memory::growing(bytes, 8 * (ring_words / 8) as u64),
    };
    let memory = memory.map_err(|_| bytes)?;
    Ok(Ring::with_regions(memory, ring_words, least_region(ring_words)))
}

/// Returns the memory that a ring for `bytes` bytes of records takes at most.
pub(crate) fn bytes_max(bytes: u64) -> u64 {
    let words = bytes as usize / 8;
    8 * Ring::<Memory>::words_of(words, least_region(words)) as u64
}

/// Returns the words of the least region of a ring. A small ring is one region.
fn least_region(ring_words: usize) -> usize {
    match ring_words {
        UNBOUNDED_WORDS => ring_words,
        _ if ring_words < 16 * REGION_WORDS => ring_words,
        _ => REGION_WORDS,
    }
}

/// Releases the words that an unbounded ring has returned since its `taken` was `before`. No thread
/// reads them any more, and the worker is a wrap away.
pub(super) fn release_consumed(ring: &Ring<Memory>, before: u64) {
    let words = given_back(before, ring.taken());
    words.for_each(|words| RingMemory::release(ring.storage(), words));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbounded_ring_releases_each_piece_once() {
        let wrap = UNBOUNDED_WORDS as u64;
        let mut at = wrap - 3 * PIECE_WORDS - 5;
        let mut next = (at / PIECE_WORDS * PIECE_WORDS) as usize % UNBOUNDED_WORDS;
        for step in [7, PIECE_WORDS, 1, 5 * PIECE_WORDS / 2, 0, 3 * PIECE_WORDS] {
            for words in given_back(at, at + step) {
                assert_eq!((words.start, words.len() as u64), (next, PIECE_WORDS));
                next = words.end % UNBOUNDED_WORDS;
            }
            at += step;
            let end = (at % wrap) as usize;
            assert!(next <= end && end - next < PIECE_WORDS as usize, "{next} {end}");
        }
    }
}
