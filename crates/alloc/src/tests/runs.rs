//! Runs that are known without their blocks' headers.

use words::{Addr, Allocate, BLOCK_BYTES, BLOCK_STRIDE, Words};

use super::free;
use crate::test_heap::{TAG, TestHeap};
use crate::{CHUNK_BYTES, Prepared, Runs};

/// A run of so many blocks, prepared, and the heap offset of its first one.
fn run(heap: &mut TestHeap, blocks: u64) -> u64 {
    let first = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    heap.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    first - (u64::from(TAG) << words::ADDRESS_BITS)
}

/// What follows for an object from its begin.
fn prepared(heap: &TestHeap, runs: &Runs, object: u64) -> bool {
    runs.begin(object).is_some_and(|begin| Prepared::of(begin, |at| heap.word(at)).has(object))
}

#[test]
fn a_run_however_long_is_known_in_the_end_and_only_its_prepared_blocks_pass() {
    let mut heap = TestHeap::new(110);
    let (blocks, ready) = (100 * CHUNK_BYTES / BLOCK_STRIDE, 98 * CHUNK_BYTES / BLOCK_STRIDE);
    let tagged = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    assert_eq!(heap.run(|tx| tx.prepare_blocks(tagged, ready)), Ok(blocks - ready));
    let first = tagged - (u64::from(TAG) << words::ADDRESS_BITS);
    let runs = Runs::new(&heap.heap);
    let last = first + (ready - 1) * BLOCK_STRIDE;
    assert!(!prepared(&heap, &runs, last), "nothing is known at first");
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
fn a_freed_run_is_none_and_what_takes_its_place_is_learned() {
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
    // One run where there were two: its second half is known by a begin that is none any more.
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
fn whoever_prepares_or_frees_a_run_touches_its_watch_before_the_head() {
    let mut heap = TestHeap::new(8);
    let first = heap.run(|tx| tx.reserve_blocks(3)).unwrap();
    let begin = (first & ((1 << words::ADDRESS_BITS) - 1)) / CHUNK_BYTES;
    let watch = Runs::watch(begin);
    heap.check().unwrap();
    assert_eq!(heap.word(watch), 0);
    for what in ["prepare", "free"] {
        heap.run(|tx| match what {
            "prepare" => tx.prepare_blocks(first, 3).map(drop),
            _ => tx.retire(Addr::new(first, 0), 3 * BLOCK_BYTES),
        })
        .unwrap();
        let written = heap.written();
        let watched = written.iter().position(|&at| at == watch).expect("it is written");
        let head = begin * CHUNK_BYTES..begin * CHUNK_BYTES + 64;
        let changed = written.iter().position(|at| head.contains(at)).expect("so is the head");
        assert!(watched < changed, "{what}");
        assert_eq!(heap.word(watch), 0);
    }
}
