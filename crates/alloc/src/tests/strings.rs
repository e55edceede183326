//! Byte strings that are longer than an object.

use words::{Addr, Allocate, PIECE_BYTES, PIECE_STRIDE, Stop, Words};

use super::free;
use crate::classes::SLOT_STRING_BYTES_MAX;
use crate::layout::Layout;
use crate::test_heap::{LAYOUTS, TestHeap};

/// Returns whether the program may write exactly the string's bytes, rounded to words.
fn is_writable(heap: &mut TestHeap, first: u64, bytes: u64) -> bool {
    let mut write = |at| heap.run(|tx| tx.program_writes(at, 1)).is_ok();
    let at =
        |offset: u64| Addr::new(first + offset / PIECE_BYTES * PIECE_STRIDE, offset % PIECE_BYTES);
    (0..bytes).step_by(8).all(|offset| write(at(offset)))
        && !write(at(bytes.next_multiple_of(8)))
        && !write(Addr::new(first, PIECE_BYTES))
}

#[test]
fn string_is_writable_up_to_its_length() {
    for layout in LAYOUTS {
        let mut heap = TestHeap::laid_out(layout, 20);
        for bytes in [1025, 2016, 2017, 5000, 32 << 10, (32 << 10) + 1, 100_000] {
            let string = heap.run(|tx| tx.allocate_pieces(bytes)).unwrap();
            assert!(is_writable(&mut heap, string, bytes), "{bytes} bytes");
            assert_eq!(free(&mut heap, string, bytes - 1), Err(Stop::BadPointer));
            free(&mut heap, string, bytes).unwrap();
            assert_eq!(free(&mut heap, string, bytes), Err(Stop::BadPointer), "freed twice");
            assert!(heap.run(|tx| tx.program_writes(Addr::new(string, 0), 1)).is_err(), "freed");
            heap.check().unwrap();
        }
        for bytes in [0, 1, 1024] {
            assert_eq!(heap.run(|tx| tx.allocate_pieces(bytes)), Err(Stop::BadSize));
        }
        for bytes in [1 << 40, u64::MAX / 2, u64::MAX] {
            assert_eq!(heap.run(|tx| tx.allocate_pieces(bytes)), Err(Stop::Full));
        }
    }
}

#[test]
fn string_is_resized_within_its_memory() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 20);
    // 2 240 bytes of slot serve three pieces with 2 192 bytes.
    let string = heap.run(|tx| tx.allocate_pieces(2100)).unwrap();
    let mut from = 2100;
    for to in [2192, 1025, 2017, 2016, 2100] {
        assert_eq!(heap.run(|tx| tx.resize(string, from, to)), Ok(true), "{from} to {to}");
        assert!(is_writable(&mut heap, string, to), "{from} to {to}");
        assert_eq!(heap.run(|tx| tx.resize(string, from, 1500)), Err(Stop::BadPointer));
        from = to;
        heap.check().unwrap();
    }
    for to in [2193, 40_000, 1024, 1] {
        assert_eq!(heap.run(|tx| tx.resize(string, from, to)), Ok(false), "{to} bytes");
    }
    assert_eq!(heap.run(|tx| tx.resize(string, from, 0)), Err(Stop::BadSize));
    free(&mut heap, string, from).unwrap();

    let long = SLOT_STRING_BYTES_MAX + 10;
    let string = heap.run(|tx| tx.allocate_pieces(long)).unwrap();
    assert_eq!(heap.run(|tx| tx.resize(string, long, long + 100)), Ok(true));
    assert!(is_writable(&mut heap, string, long + 100));
    assert_eq!(heap.run(|tx| tx.resize(string, long + 100, long + 5000)), Ok(false));
    heap.check().unwrap();
    free(&mut heap, string, long + 100).unwrap();
}

#[test]
fn object_is_resized_within_its_slot() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 20);
    let object = heap.run(|tx| tx.allocate(100)).unwrap();
    assert_eq!(heap.run(|tx| tx.resize(object, 100, 112)), Ok(true));
    assert_eq!(heap.run(|tx| tx.resize(object, 112, 113)), Ok(false));
    assert_eq!(heap.run(|tx| tx.resize(object, 112, 1)), Ok(true));
    assert_eq!(heap.run(|tx| tx.resize(object, 112, 5)), Err(Stop::BadPointer));
    assert_eq!(heap.run(|tx| tx.resize(object, 1, 2000)), Ok(false), "a string");
    assert!(heap.run(|tx| tx.program_writes(Addr::new(object, 8), 1)).is_err());
    free(&mut heap, object, 1).unwrap();
    heap.check().unwrap();
}

#[test]
fn stale_links_are_cleared_where_pieces_begin() {
    let mut heap = TestHeap::new(3);
    let run = heap.run(|tx| tx.reserve_blocks(100)).unwrap();
    heap.run(|tx| tx.prepare_blocks(run, 100)).unwrap();
    for block in 0..100 {
        let words = [u64::MAX; 32];
        heap.run(|tx| tx.write_words(Addr::new(run + block * 272, 0), &words)).unwrap();
    }
    free(&mut heap, run, 25_600).unwrap();
    let string = heap.run(|tx| tx.allocate_pieces(5000)).unwrap();
    for piece in 0..5 {
        let link = Addr::new(string + piece * PIECE_STRIDE, (-16_i64) as u64);
        assert_eq!(heap.run(|tx| tx.read(link)), Ok(0), "piece {piece}");
    }
}

#[test]
fn string_resized_across_longest_slot_moves() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 20);
    for (from, to) in [(0, 1), (1, 0)] {
        let [from, to] = [from, to].map(|more| SLOT_STRING_BYTES_MAX + more);
        let string = heap.run(|tx| tx.allocate_pieces(from)).unwrap();
        assert_eq!(heap.run(|tx| tx.resize(string, from, to)), Ok(false), "{from} to {to}");
        free(&mut heap, string, from).unwrap();
        heap.check().unwrap();
    }
}
