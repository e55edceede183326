//! The index of arrays, which replaces reads of block headers.

use words::{Addr, Allocate, BLOCK_BYTES, BLOCK_STRIDE, Words};

use super::free;
use crate::test_heap::{TAG, TestHeap};
use crate::{CHUNK_BYTES, Prepared, Runs};

/// Makes a prepared array of `blocks` blocks; returns the heap offset of its first.
fn run(heap: &mut TestHeap, blocks: u64) -> u64 {
    let first = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    heap.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    first - (u64::from(TAG) << words::ADDRESS_BITS)
}

/// Returns whether the index proves an object live.
fn prepared(heap: &TestHeap, runs: &Runs, object: u64) -> bool {
    runs.begin(object).is_some_and(|begin| Prepared::of(begin, |at| heap.word(at)).has(object))
}

/// Notes the array of the block at this heap offset.
fn learn(heap: &TestHeap, runs: &Runs, object: u64) {
    runs.learn(object, heap.word(object - 8), |at| heap.word(at));
}

#[test]
fn long_array_is_indexed_by_parts() {
    let mut heap = TestHeap::new(110);
    run(&mut heap, 1); // so that the array does not start at 64 KiB
    let (blocks, ready) = (100 * CHUNK_BYTES / BLOCK_STRIDE, 98 * CHUNK_BYTES / BLOCK_STRIDE);
    let tagged = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    assert_eq!(heap.run(|tx| tx.prepare_blocks(tagged, ready)), Ok(blocks - ready));
    let first = tagged - (u64::from(TAG) << words::ADDRESS_BITS);
    let runs = Runs::new(&heap.heap);
    let last = first + (ready - 1) * BLOCK_STRIDE;
    assert!(!prepared(&heap, &runs, last), "the new index is empty");
    for block in 0..ready {
        let object = first + block * BLOCK_STRIDE;
        learn(&heap, &runs, object);
        let is_inside = object / CHUNK_BYTES > first / CHUNK_BYTES;
        assert_eq!(prepared(&heap, &runs, object), is_inside, "block {block}");
        assert!((1..17).all(|words| !prepared(&heap, &runs, object + 16 * words)), "inside");
    }
    assert!(!prepared(&heap, &runs, last + BLOCK_STRIDE), "not prepared");
    assert!(!prepared(&heap, &runs, first - BLOCK_STRIDE), "before the first");
    for wild in [0, 8, u64::MAX, u64::MAX - 15, 1 << 47] {
        assert!(!prepared(&heap, &runs, wild), "{wild}");
        assert!(!Prepared::NONE.has(wild));
        runs.learn(wild, 77, |_| 0);
    }
    assert_eq!(heap.run(|tx| tx.prepare_blocks(tagged, 1)), Ok(blocks - ready - 1));
    assert!(prepared(&heap, &runs, last + BLOCK_STRIDE), "prepared meanwhile");
}

#[test]
fn index_forgets_freed_arrays() {
    let mut heap = TestHeap::new(12);
    let per_chunk = CHUNK_BYTES / BLOCK_STRIDE;
    let (one, two) = (run(&mut heap, 4 * per_chunk), run(&mut heap, 4 * per_chunk));
    let runs = Runs::new(&heap.heap);
    let inside = two + (2 * per_chunk + 1) * BLOCK_STRIDE;
    learn(&heap, &runs, inside);
    assert!(prepared(&heap, &runs, inside));
    let tag = u64::from(TAG) << words::ADDRESS_BITS;
    let bytes = 4 * per_chunk * BLOCK_BYTES;
    for first in [one, two] {
        free(&mut heap, tag | first, bytes).unwrap();
    }
    assert!(!prepared(&heap, &runs, inside), "freed");
    // One array replaces two: the begin known for its second half is stale.
    let whole = run(&mut heap, 8 * per_chunk);
    assert_eq!(whole, one);
    let block = whole + (inside - whole) / BLOCK_STRIDE * BLOCK_STRIDE;
    learn(&heap, &runs, block);
    assert!(prepared(&heap, &runs, block));
}

#[test]
fn watch_is_written_before_the_head_of_an_array() {
    let mut heap = TestHeap::new(8);
    let first = heap.run(|tx| tx.reserve_blocks(3)).unwrap();
    let begin = (first & ((1 << words::ADDRESS_BITS) - 1)) / 1024;
    let watch = Runs::watch(begin);
    heap.check().unwrap();
    assert_eq!(heap.word(watch), 0);
    for step in ["prepare", "free"] {
        heap.run(|tx| match step {
            "prepare" => tx.prepare_blocks(first, 3).map(drop),
            _ => tx.retire(Addr::new(first, 0), 3 * BLOCK_BYTES),
        })
        .unwrap();
        let written = heap.written();
        let watched = written.iter().position(|&at| at == watch).expect("the watch is written");
        let head = begin * 1024..begin * 1024 + 64;
        let changed = written.iter().position(|at| head.contains(at)).expect("the head is written");
        assert!(watched < changed, "{step}");
        assert_eq!(heap.word(watch), 0);
    }
}
