//! Line-isolated heaps: sharing of cache lines, and checks without headers.

use std::collections::{BTreeMap, BTreeSet};

use words::{ADDRESS_BITS, Addr, Allocate, Array, BLOCK_BYTES, OBJECT_BYTES_MAX, Place, Stop};

use super::free;
use crate::layout::Layout;
use crate::test_heap::{TAG, TestHeap};
use crate::{CHUNK_BYTES, Heap, Runs, Wrong};

const LINE: u64 = 64;
const TAG_BITS: u64 = (TAG as u64) << ADDRESS_BITS;

fn heap(chunks: u64) -> TestHeap {
    TestHeap::laid_out(Layout::LineIsolated, chunks)
}

/// Returns whether arenas share this line: those of the root, the page object, the owners, the bins
/// and the lists, and heads of runs.
fn is_shared(line: u64) -> bool {
    line < CHUNK_BYTES / LINE || line.is_multiple_of(CHUNK_BYTES / LINE)
}

#[test]
fn arenas_never_share_an_object_line() {
    let arenas = [0, 1, 2, 31];
    let mut heap = heap(150);
    // The owner of each line, by allocated objects and by the allocator's writes.
    let mut owners: BTreeMap<u64, usize> = BTreeMap::new();
    let mut own = |arena: usize, line: u64| {
        let owner = *owners.entry(line).or_insert(arena);
        assert!(owner == arena || is_shared(line), "line {line:#x} of {owner} and {arena}");
    };
    let mut live: BTreeMap<usize, Vec<(u64, usize)>> = BTreeMap::new();
    for round in 0..1200_usize {
        let arena = arenas[round * 7 % 4];
        heap.arena = arena;
        let bytes = 1 + round * 37 % OBJECT_BYTES_MAX;
        let mine = live.entry(arena).or_default();
        match round % 5 {
            0 if mine.len() > 3 => {
                let (object, bytes) = mine.swap_remove(round % mine.len());
                free(&mut heap, object, bytes as u64).unwrap();
            }
            1 if round % 40 == 1 => {
                let array = heap.run(|tx| Array::<u64>::create(tx, 100)).unwrap();
                let first = array.at(0).unwrap().addr().object - TAG_BITS;
                (0..4 * BLOCK_BYTES / LINE).for_each(|line| own(arena, first / LINE + line));
            }
            _ => {
                let object = heap.run(|tx| tx.allocate(bytes)).unwrap();
                let first = (object - TAG_BITS) / LINE;
                (0..(bytes as u64).div_ceil(LINE)).for_each(|line| own(arena, first + line));
                mine.push((object, bytes));
            }
        }
        heap.written().into_iter().for_each(|offset| own(arena, offset / LINE));
        if round % 100 == 0 {
            heap.check().unwrap();
        }
    }
    let seen = |arena| owners.values().filter(|&&owner| owner == arena).count();
    assert!(arenas.into_iter().all(|arena| seen(arena) > 1000));
    assert!(owners.keys().any(|&line| is_shared(line)), "an arena took a chunk");
}

#[test]
fn objects_start_at_cache_lines() {
    let mut heap = heap(40);
    for bytes in [1, 8, 63, 64, 65, 100, 128, 200, 1000, 1024] {
        let object = heap.run(|tx| tx.allocate(bytes)).unwrap();
        let next = heap.run(|tx| tx.allocate(bytes)).unwrap();
        assert!(object.is_multiple_of(LINE));
        assert_eq!(next - object, (bytes as u64).next_multiple_of(LINE), "{bytes} bytes");
    }
    let array = heap.run(|tx| Array::<u64>::create(tx, 2000)).unwrap();
    for i in 0..2000 {
        let at = array.at(i).unwrap().addr();
        let first = array.at(0).unwrap().addr().object;
        assert_eq!(at.byte() - first, 8 * i, "blocks leave no gap");
        assert!(at.object.is_multiple_of(LINE));
    }
    // All units of an array after its first hold blocks only: 255 in the first, 256 in each other.
    let (one, two) = (heap.layout().units_for_blocks(255), heap.layout().units_for_blocks(256));
    assert_eq!((one, two), (Some(1), Some(2)));
}

#[test]
fn common_allocation_writes_two_lines() {
    let mut heap = heap(8);
    heap.arena = 3;
    let pairs = heap.layout().arena(3);
    assert_eq!(pairs % 4096, 3 * 320, "at a line of its own in its page");
    let kept = heap.run(|tx| tx.allocate(200)).unwrap();
    let lines = |heap: &TestHeap| -> BTreeSet<u64> {
        heap.written().into_iter().map(|offset| offset / LINE).collect()
    };
    let expected = |object: u64| {
        // 200 bytes are class 3: the fourth pair of words, on the arena's first line.
        BTreeSet::from([pairs / LINE, (object - TAG_BITS) / LINE])
    };
    let carved = heap.run(|tx| tx.allocate(200)).unwrap();
    assert_eq!((heap.reads, heap.writes), (4, 2), "from the slab");
    assert_eq!(lines(&heap), expected(carved));
    free(&mut heap, carved, 200).unwrap();
    assert_eq!((heap.reads, heap.writes), (3, 3), "freed");
    assert_eq!(lines(&heap), expected(carved));
    assert_eq!(heap.run(|tx| tx.allocate(200)), Ok(carved));
    assert_eq!((heap.reads, heap.writes), (3, 2), "from the cache");
    assert_eq!(lines(&heap), expected(carved));
    free(&mut heap, kept, 200).unwrap();
}

#[test]
fn formatting_writes_four_lines_on_four_pages() {
    let mut heap = TestHeap::zeros(Layout::LineIsolated, 2);
    heap.run(|tx| tx.format()).unwrap();
    let lines: BTreeSet<u64> = heap.written().into_iter().map(|offset| offset / LINE).collect();
    assert_eq!(lines, BTreeSet::from([0, 1, 2, 3].map(|page| page * 4096 / LINE)));
    assert_eq!(heap.writes, 15);
}

#[test]
fn allocation_clears_the_free_label() {
    // The second word marked the slot free; taking the slot must clear it.
    let mut heap = heap(4);
    let object = heap.run(|tx| tx.allocate(64)).unwrap();
    for _ in 0..3 {
        free(&mut heap, object, 64).unwrap();
        assert_eq!(free(&mut heap, object, 64), Err(Stop::BadPointer), "freed twice");
        assert_eq!(heap.run(|tx| tx.allocate(64)), Ok(object));
        assert_eq!(heap.check().unwrap().objects, 1);
    }
}

#[test]
fn check_finds_free_of_a_never_allocated_slot() {
    let mut heap = heap(4);
    let object = heap.run(|tx| tx.allocate(64)).unwrap();
    free(&mut heap, object + 64, 64).unwrap();
    assert_eq!(heap.check().unwrap_err().wrong, Wrong::FreeList);
}

#[test]
fn program_writes_slots_and_prepared_blocks_only() {
    let mut heap = heap(8);
    let object = heap.run(|tx| tx.allocate(20)).unwrap();
    let write = |heap: &mut TestHeap, object, offset| {
        heap.run(|tx| tx.program_writes(Addr::new(object, offset), 1)).is_ok()
    };
    assert!((0..64).all(|offset| write(&mut heap, object, offset) == (offset % 8 == 0)));
    for offset in [64, 72, (-8_i64) as u64] {
        assert!(!write(&mut heap, object, offset), "offset {offset}");
    }
    let layout = heap.layout();
    let head = object / CHUNK_BYTES * CHUNK_BYTES + 16;
    let own = [layout.root(), layout.pages(), layout.arena(0), layout.arena(30), 0, 16];
    for own in own.map(|own| TAG_BITS | own).into_iter().chain([head, head + 16]) {
        assert!(!write(&mut heap, own, 0), "at {own:#x}");
    }
    free(&mut heap, object, 20).unwrap();
    assert!((0..64).all(|offset| !write(&mut heap, object, offset)), "freed");

    // Its last blocks are in chunks without a head.
    let first = heap.run(|tx| tx.reserve_blocks(700)).unwrap();
    assert!(!write(&mut heap, first, 0));
    assert_eq!(heap.run(|tx| tx.prepare_blocks(first, 600)), Ok(100));
    let at_rest =
        |heap: &TestHeap, object| heap.heap.is_live_at_rest(object, |offset| heap.word(offset));
    for (block, is_there) in [(0, true), (254, true), (255, true), (599, true), (600, false)] {
        let object = first + block * BLOCK_BYTES;
        assert_eq!(write(&mut heap, object, 248), is_there, "block {block}");
        assert_eq!(at_rest(&heap, object), is_there, "block {block}");
        assert!(!write(&mut heap, object, 256), "past the block");
        assert!(!write(&mut heap, object + 64, 0), "inside a block");
        assert!(!at_rest(&heap, object + 64));
    }
    free(&mut heap, first, 700 * BLOCK_BYTES).unwrap();
    assert!(!write(&mut heap, first, 0), "freed");
    assert!(!at_rest(&heap, first));
}

#[test]
fn layouts_are_not_confused() {
    let chunks = 20;
    for (made, other) in [
        (TestHeap::new(chunks), Heap::line_isolated(TAG, chunks * CHUNK_BYTES)),
        (heap(chunks), Heap::new(TAG, (chunks + 4) * CHUNK_BYTES)),
    ] {
        made.check().unwrap();
        let damage = other.check(|offset| made.word(offset)).unwrap_err();
        assert_eq!(damage.wrong, Wrong::Magic);
        let survey = other.survey(|offset| made.word(offset));
        assert!(!survey.complete && survey.usage.objects == 0);
    }
}

#[test]
#[should_panic(expected = "blocks without headers need no index")]
fn runs_refuse_a_heap_without_headers() {
    Runs::new(&heap(4).heap);
}
