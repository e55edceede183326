//! The index of runs, which replaces reads of block headers.

use words::{Addr, Allocate, BLOCK_BYTES, BLOCK_STRIDE, Words};

use super::free;
use crate::test_heap::{TAG, TestHeap};
use crate::{CHUNK_BYTES, Prepared, Runs};

/// Makes a prepared run of `blocks` blocks; returns the heap offset of its first.
fn run(heap: &mut TestHeap, blocks: u64) -> u64 {
    let first = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    heap.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    first - (u64::from(TAG) << words::ADDRESS_BITS)
}

/// Returns whether the index proves an object live.
fn prepared(heap: &TestHeap, runs: &Runs, object: u64) -> bool {
    runs.begin(object).is_some_and(|begin| Prepared::of(begin, |at| heap.word(at)).has(object))
}

#[test]
fn long_run_is_learned_in_steps() {
    let mut heap = TestHeap::new(110);
    let (blocks, ready) = (100 * CHUNK_BYTES / BLOCK_STRIDE, 98 * CHUNK_BYTES / BLOCK_STRIDE);
    let tagged = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    assert_eq!(heap.run(|tx| tx.prepare_blocks(tagged, ready)), Ok(blocks - ready));
    let first = tagged - (u64::from(TAG) << words::ADDRESS_BITS);
    let runs = Runs::new(&heap.heap);
    let last = first + (ready - 1) * BLOCK_STRIDE;
    assert!(!prepared(&heap, &runs, last), "the new index is empty");
    let looks = (1..).find(|_| {
        runs.learn(last, |at| heap.word(at));
        prepared(&heap, &runs, last)
    });
    assert!(looks.is_some_and(|looks| (2..=4).contains(&looks)), "{looks:?}");
    for block in 0..ready {
        let object = first + block * BLOCK_STRIDE;
        assert!(prepared(&heap, &runs, object), "block {block}");
        assert!((1..17).all(|words| !prepared(&heap, &runs, object + 16 * words)), "inside");
    }
    assert!(!prepared(&heap, &runs, last + BLOCK_STRIDE), "not prepared");
    assert!(!prepared(&heap, &runs, first - BLOCK_STRIDE), "before the first");
    for wild in [0, 8, u64::MAX, u64::MAX - 15, 1 << 47] {
        assert!(!prepared(&heap, &runs, wild), "{wild}");
        assert!(!Prepared::NONE.has(wild));
    }
    assert_eq!(heap.run(|tx| tx.prepare_blocks(tagged, 1)), Ok(blocks - ready - 1));
    assert!(prepared(&heap, &runs, last + BLOCK_STRIDE), "prepared meanwhile");
}

#[test]
fn index_forgets_freed_runs() {
    let mut heap = TestHeap::new(8);
    let per_chunk = CHUNK_BYTES / BLOCK_STRIDE;
    let (one, two) = (run(&mut heap, 2 * per_chunk), run(&mut heap, 2 * per_chunk));
    let runs = Runs::new(&heap.heap);
    let inside = two + (per_chunk + 1) * BLOCK_STRIDE;
    runs.learn(inside, |at| heap.word(at));
    assert!(prepared(&heap, &runs, inside));
    let tag = u64::from(TAG) << words::ADDRESS_BITS;
    let bytes = 2 * per_chunk * BLOCK_BYTES;
    for first in [one, two] {
        free(&mut heap, tag | first, bytes).unwrap();
        assert!(!prepared(&heap, &runs, first), "freed");
    }
    assert!(!prepared(&heap, &runs, inside), "freed");
    // One run replaces two: the begin known for its second half is stale.
    let whole = run(&mut heap, 4 * per_chunk);
    assert_eq!(whole, one);
    let last = whole + (4 * per_chunk - 1) * BLOCK_STRIDE;
    let looks = (1..4).find(|_| {
        runs.learn(last, |at| heap.word(at));
        prepared(&heap, &runs, last)
    });
    assert!(looks.is_some());
    assert!(prepared(&heap, &runs, whole));
}

#[test]
fn watch_is_written_before_the_run_head() {
    let mut heap = TestHeap::new(8);
    let first = heap.run(|tx| tx.reserve_blocks(3)).unwrap();
    let begin = (first & ((1 << words::ADDRESS_BITS) - 1)) / CHUNK_BYTES;
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
        let head = begin * CHUNK_BYTES..begin * CHUNK_BYTES + 64;
        let changed = written.iter().position(|at| head.contains(at)).expect("the head is written");
        assert!(watched < changed, "{step}");
        assert_eq!(heap.word(watch), 0);
    }
}
