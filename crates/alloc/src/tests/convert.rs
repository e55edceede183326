//! A heap of format 1 becomes one of format 2.

use words::{Addr, Allocate, Words};

use super::free;
use crate::header::Kind;
use crate::layout::Layout;
use crate::test_heap::{TAG, TestHeap};
use crate::{CHUNK_BYTES, Heap, Wrong};

/// A heap that format 1 wrote: its non-zero words by offset. Objects of 40, 33 and 1024 bytes and a
/// free one, an array of five blocks (three prepared), a free run, a root, in six chunks.
const IMAGE: &str = include_str!("golden-v1.txt");
const CHUNKS: u64 = 6;

fn old() -> TestHeap {
    TestHeap::of_image(IMAGE, CHUNKS)
}

#[test]
fn objects_of_format_1_keep_their_places() {
    let mut heap = old();
    assert!(Heap::is_format_1(|at| heap.word(at)));
    let whole = heap.heap;
    whole.convert_format_1(&mut heap.words).unwrap();
    assert!(!Heap::is_format_1(|at| heap.word(at)));
    let usage = heap.check().unwrap();
    assert_eq!((usage.objects, usage.object_bytes), (3, 40 + 33 + 1024));
    assert_eq!((usage.arrays, usage.blocks, usage.blocks_prepared), (1, 5, 3));
    let root = heap.run(|tx| tx.root()).unwrap();
    let word = heap.run(|tx| tx.read(Addr::new(root, 8)));
    assert_eq!(word, Ok(0x0123_4567_89ab_cdef));
    // Everything can be freed and used again.
    let array = heap.live().into_iter().find(|live| live.kind == Kind::Block).unwrap();
    heap.run(|tx| tx.prepare_blocks(array.object, 9)).unwrap();
    free(&mut heap, array.object, 5 * 256).unwrap();
    for object in heap.live() {
        free(&mut heap, object.object, object.bytes).unwrap();
    }
    heap.reclaim();
    let usage = heap.check().unwrap();
    let own = Layout::Ordinary.offset(Layout::Ordinary.own_units());
    assert_eq!(usage.free_bytes, usage.heap_bytes - own);
    heap.run(|tx| tx.reserve_blocks(1000)).unwrap();
    heap.check().unwrap();
}

#[test]
fn damage_of_format_1_is_reported() {
    let mut heap = old();
    let whole = heap.heap;
    let root = heap.word(96) - (u64::from(TAG) << words::ADDRESS_BITS);
    for (offset, value, wrong) in [
        (80, 1, Wrong::Magic),
        (88, 7, Wrong::Version),
        (144, 0, Wrong::Frontier),
        (144, 7, Wrong::Frontier),
        (CHUNK_BYTES + 16, 9, Wrong::RunHead),
        (CHUNK_BYTES + 24, 90, Wrong::RunHead),
        (CHUNK_BYTES + 32, 15, Wrong::RunHead),
        (root - 8, 0, Wrong::Object),
    ] {
        let mut words = heap.words.clone();
        words[offset as usize / 8] = value;
        let damage = whole.convert_format_1(&mut words).unwrap_err();
        assert_eq!((damage.wrong, damage.offset), (wrong, offset));
    }
    whole.convert_format_1(&mut heap.words).unwrap();
    assert_eq!(whole.convert_format_1(&mut heap.words).unwrap_err().wrong, Wrong::Version);
}

#[test]
fn garbage_of_format_1_never_panics() {
    let heap = old();
    let mut state = 1_u64;
    for _ in 0..3000 {
        let mut words = heap.words.clone();
        for _ in 0..1 + state % 5 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place =
                [0, 8192, 16_384, 24_576][(state >> 60) as usize % 4] + (state >> 40) as usize % 64;
            words[place] = state >> (state >> 58);
        }
        let _ = heap.heap.convert_format_1(&mut words);
    }
}
