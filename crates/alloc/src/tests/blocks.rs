//! Arrays: runs of blocks.

use words::block_stride;
use words::{Addr, Allocate, Array, BLOCK_BYTES, BLOCK_STRIDE, Objects, Stop, Words};

use super::{fill, free};
use crate::layout::Layout;
use crate::test_heap::{LAYOUTS, TestHeap};

/// Returns the most blocks that this much memory holds.
fn most_blocks(layout: Layout, bytes: u64) -> u64 {
    (bytes - 64) / layout.block_stride()
}

/// Returns the free memory of a heap, which is one run.
fn free_bytes(heap: &TestHeap) -> u64 {
    let usage = heap.check().unwrap();
    assert_eq!(usage.free_bytes, usage.largest_free_bytes);
    usage.free_bytes
}

/// Writes every word of a prepared run, as a program.
fn scribble(heap: &mut TestHeap, first: u64, blocks: u64) {
    heap.run(|tx| {
        for block in 0..blocks {
            for offset in (0..BLOCK_BYTES).step_by(8) {
                tx.program_writes(
                    Addr::new(first + block * block_stride(first), offset),
                    u64::MAX,
                )?;
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn reused_run_is_zero_after_preparation() {
    for layout in LAYOUTS {
        use_a_run_twice(TestHeap::laid_out(layout, 5));
    }
}

fn use_a_run_twice(mut heap: TestHeap) {
    let before = free_bytes(&heap);
    let blocks = 500;
    let bytes = blocks * BLOCK_BYTES;
    let first = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    assert!(heap.run(|tx| tx.program_writes(Addr::new(first, 0), 1)).is_err(), "not prepared");
    for (most, left) in [(0, 500), (100, 400), (250, 150), (u64::MAX, 0), (5, 0)] {
        assert_eq!(heap.run(|tx| tx.prepare_blocks(first, most)), Ok(left));
        let usage = heap.check().unwrap();
        assert_eq!((usage.arrays, usage.blocks, usage.blocks_prepared), (1, 500, 500 - left));
    }
    scribble(&mut heap, first, blocks);
    heap.check().unwrap();
    free(&mut heap, first, bytes).unwrap();
    assert_eq!(free_bytes(&heap), before);
    assert!(heap.run(|tx| tx.program_writes(Addr::new(first, 0), 1)).is_err(), "freed");

    assert_eq!(heap.run(|tx| tx.reserve_blocks(blocks)), Ok(first));
    assert_eq!(heap.run(|tx| tx.prepare_blocks(first, u64::MAX)), Ok(0));
    let mut word = [0; 32];
    for block in 0..blocks {
        let at = Addr::new(first + block * block_stride(first), 0);
        heap.run(|tx| tx.read_words(at, &mut word)).unwrap();
        assert_eq!(word, [0; 32], "block {block}");
    }
    scribble(&mut heap, first, blocks);
    heap.check().unwrap();
}

#[test]
fn preparing_unused_memory_writes_only_headers() {
    let mut bare = TestHeap::laid_out(Layout::LineIsolated, 5);
    let first = bare.run(|tx| tx.reserve_blocks(100)).unwrap();
    bare.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    assert_eq!(bare.writes, 1);
    free(&mut bare, first, 100 * BLOCK_BYTES).unwrap();
    let first = bare.run(|tx| tx.reserve_blocks(100)).unwrap();
    bare.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    assert_eq!(bare.writes, 100 * 32 + 1);

    let mut heap = TestHeap::new(5);
    let first = heap.run(|tx| tx.reserve_blocks(100)).unwrap();
    heap.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    assert_eq!(heap.writes, 100 + 2);
    free(&mut heap, first, 100 * BLOCK_BYTES).unwrap();
    let first = heap.run(|tx| tx.reserve_blocks(100)).unwrap();
    heap.run(|tx| tx.prepare_blocks(first, u64::MAX)).unwrap();
    assert_eq!(heap.writes, 100 * 34 + 2);
}

#[test]
fn run_is_freed_whole_and_once() {
    for layout in LAYOUTS {
        give_back_a_run(TestHeap::laid_out(layout, 6));
    }
}

fn give_back_a_run(mut heap: TestHeap) {
    let first = heap.run(|tx| tx.reserve_blocks(3)).unwrap();
    let bytes = 3 * BLOCK_BYTES;
    for prepared in [0, 2, 3] {
        heap.run(|tx| tx.prepare_blocks(first, prepared)).unwrap();
        assert_eq!(free(&mut heap, first, BLOCK_BYTES), Err(Stop::BadPointer));
        assert_eq!(free(&mut heap, first, u64::MAX), Err(Stop::BadPointer));
        let inside = first + block_stride(first);
        assert_eq!(free(&mut heap, inside, bytes), Err(Stop::BadPointer));
        assert_eq!(free(&mut heap, inside, BLOCK_BYTES), Err(Stop::BadPointer));
        assert_eq!(heap.run(|tx| tx.prepare_blocks(inside, 1)), Err(Stop::BadPointer));
    }
    free(&mut heap, first, bytes).unwrap();
    assert_eq!(free(&mut heap, first, bytes), Err(Stop::BadPointer));
    assert_eq!(heap.run(|tx| tx.prepare_blocks(first, 1)), Err(Stop::BadPointer));
    let object = heap.run(|tx| tx.allocate(256)).unwrap();
    assert_eq!(heap.run(|tx| tx.prepare_blocks(object, 1)), Err(Stop::BadPointer));
    heap.check().unwrap();
}

#[test]
fn merged_run_cannot_be_freed_again() {
    for layout in LAYOUTS {
        merge_and_give_back(TestHeap::laid_out(layout, 6));
    }
}

fn merge_and_give_back(mut heap: TestHeap) {
    let bytes = BLOCK_BYTES;
    let runs = [(); 3].map(|()| heap.run(|tx| tx.reserve_blocks(1)).unwrap());
    free(&mut heap, runs[0], bytes).unwrap();
    free(&mut heap, runs[1], bytes).unwrap();
    assert_eq!(free(&mut heap, runs[1], bytes), Err(Stop::BadPointer));
    assert_eq!(heap.run(|tx| tx.prepare_blocks(runs[1], 1)), Err(Stop::BadPointer));
    heap.check().unwrap();
}

#[test]
fn freed_runs_merge_in_any_order() {
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2], [2, 0, 3, 1]];
    for (layout, order) in LAYOUTS.iter().flat_map(|&layout| orders.map(|order| (layout, order))) {
        let mut heap = TestHeap::laid_out(layout, 9);
        let all = free_bytes(&heap);
        let blocks = most_blocks(layout, all / 4);
        let runs = [(); 4].map(|()| heap.run(|tx| tx.reserve_blocks(blocks)).unwrap());
        assert_eq!(heap.run(|tx| tx.reserve_blocks(blocks)), Err(Stop::Full));
        for i in order {
            free(&mut heap, runs[i], blocks * BLOCK_BYTES).unwrap();
            heap.check().unwrap();
        }
        let blocks = most_blocks(layout, all);
        assert_eq!(heap.run(|tx| tx.reserve_blocks(blocks)), Ok(runs[0]));
        assert_eq!(heap.check().unwrap().free_bytes, 0);
    }
}

#[test]
fn freed_array_becomes_slabs() {
    for layout in LAYOUTS {
        make_slabs_of_a_run(TestHeap::laid_out(layout, 3));
    }
}

fn make_slabs_of_a_run(mut heap: TestHeap) {
    let layout = heap.layout();
    let all = free_bytes(&heap);
    let blocks = most_blocks(layout, all);
    let run = heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
    heap.run(|tx| tx.prepare_blocks(run, u64::MAX)).unwrap();
    scribble(&mut heap, run, blocks);
    assert_eq!(heap.run(|tx| tx.allocate(16)), Err(Stop::Full));
    free(&mut heap, run, blocks * BLOCK_BYTES).unwrap();
    let objects = fill(&mut heap, 16);
    assert!(objects.len() as u64 * layout.slot_bytes(0) >= all / 100 * 95);
    for object in objects.into_iter().filter(|_| layout.has_headers()) {
        let link = Addr::new(object, (-16_i64) as u64);
        assert_eq!(heap.run(|tx| tx.read(link)), Ok(0), "no stale link is left");
    }
    heap.check().unwrap();
}

#[test]
fn huge_run_is_refused_as_full() {
    for layout in LAYOUTS {
        ask_for_long_runs(TestHeap::laid_out(layout, 4));
    }
}

fn ask_for_long_runs(mut heap: TestHeap) {
    for blocks in [2000, 1 << 32] {
        assert_eq!(heap.run(|tx| tx.reserve_blocks(blocks)), Err(Stop::Full), "{blocks}");
    }
    for blocks in [0, (1 << 32) + 1, u64::MAX / BLOCK_STRIDE, u64::MAX] {
        assert_eq!(heap.run(|tx| tx.reserve_blocks(blocks)), Err(Stop::BadSize), "{blocks}");
    }
}

#[test]
fn arrays_live_in_the_heap() {
    for layout in LAYOUTS {
        let mut heap = TestHeap::laid_out(layout, 20);
        let array = heap.run(|tx| Array::<[u64; 3]>::create(tx, 1000)).unwrap();
        heap.run(|tx| (0..1000).try_for_each(|i| tx.set(array.at(i)?, [i; 3]))).unwrap();
        for i in 0..1000 {
            assert_eq!(heap.run(|tx| tx.get(array.at(i)?)), Ok([i; 3]));
        }
        heap.check().unwrap();
        heap.run(|tx| array.free(tx)).unwrap();
        assert_eq!(heap.check().unwrap().arrays, 0);
    }
}

#[test]
fn run_cost_is_independent_of_free_runs() {
    let layout = Layout::Ordinary;
    let mut most = 0;
    for holes in [10, 1000, 4000] {
        let mut heap = TestHeap::laid_out(layout, 200);
        let runs: Vec<_> =
            (0..2 * holes).map(|_| heap.run(|tx| tx.reserve_blocks(3)).unwrap()).collect();
        for &run in runs.iter().step_by(2) {
            free(&mut heap, run, 3 * BLOCK_BYTES).unwrap();
        }
        let count = |heap: &TestHeap| heap.reads + heap.writes;
        free(&mut heap, runs[holes | 1], 3 * BLOCK_BYTES).unwrap();
        most = most.max(count(&heap));
        for blocks in [1, 3, 10, 300] {
            heap.run(|tx| tx.reserve_blocks(blocks)).unwrap();
            most = most.max(count(&heap));
        }
        heap.check().unwrap();
    }
    assert!(most < 200, "{most} words");
}

/// The bin of 16 and 17 units has the shorter run first, and a slab for the string needs the other.
#[test]
fn slab_takes_a_run_behind_a_shorter_one() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 80);
    let mut array = |blocks| heap.run(|tx| tx.reserve_blocks(blocks));
    let (long, _, short) = (array(63).unwrap(), array(1).unwrap(), array(60).unwrap());
    while array(1).is_ok() {}
    free(&mut heap, long, 63 * BLOCK_BYTES).unwrap();
    free(&mut heap, short, 60 * BLOCK_BYTES).unwrap();
    let usage = heap.check().unwrap();
    assert_eq!((usage.free_bytes, usage.largest_free_bytes), (33 << 10, 17 << 10));
    heap.run(|tx| tx.allocate_pieces(16 << 10)).unwrap();
    assert_eq!(heap.check().unwrap().free_bytes, 16 << 10);
}
