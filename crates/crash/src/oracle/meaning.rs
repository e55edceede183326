//! The meaning of a heap's words: what is live, where, and the words of the root object.
//!
//! The content of other objects is left to the workload's check: words that no transaction has
//! written since their memory was used for something else mean nothing.

use std::ops::Range;

use lw_alloc::{CHUNK_BYTES, Heap};
use words::ADDRESS_BITS;

/// Any tag: only offsets are compared.
const TAG: u16 = 1;

/// Returns the first word by which the heaps differ: one of the allocator's own words, of the root
/// object, or of a live object that only one of them has.
pub(super) fn difference(a: &[u64], b: &[u64]) -> Option<usize> {
    let (mut mine, mut others) = (parts(a), parts(b));
    loop {
        let (one, other) = match (mine.next(), others.next()) {
            (None, None) => return None,
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.or(other).map(|part| part.at),
        };
        if one != other {
            return Some(one.at.min(other.at));
        }
        let differs = one.compared.clone().find(|&word| a.get(word) != b.get(word));
        if differs.is_some() {
            return differs;
        }
    }
}

/// A part of a heap that means something.
#[derive(PartialEq, Eq)]
struct Part {
    /// The word at which it begins.
    at: usize,
    bytes: u64,
    /// The words of it that are compared.
    compared: Range<usize>,
}

/// Returns the first run, with the allocator's own words, and each live object.
fn parts(words: &[u64]) -> impl Iterator<Item = Part> {
    let heap = Heap::new(TAG, 8 * words.len() as u64);
    let word = |offset: u64| words[offset as usize / 8];
    let root = heap.root_at_rest(word) & ((1 << ADDRESS_BITS) - 1);
    let own = Part { at: 0, bytes: CHUNK_BYTES, compared: 0..CHUNK_BYTES as usize / 8 };
    std::iter::once(own).chain(heap.live(word).map(move |live| {
        let at = live.offset as usize / 8;
        let is_root = live.offset == root;
        let compared = if is_root { live.bytes.div_ceil(8) as usize } else { 0 };
        Part { at, bytes: live.bytes, compared: at..at + compared }
    }))
}
