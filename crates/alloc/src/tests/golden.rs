//! A golden heap of format version 2, which every later program must read.

use std::fmt::Write as _;

use words::{Addr, Allocate, Words};

use super::free;
use crate::test_heap::TestHeap;

/// One line for each non-zero word: its offset and its value, hexadecimal.
const IMAGE: &str = include_str!("golden-v2.txt");
const CHUNKS: u64 = 6;

/// Builds a heap with a root and with objects that are live and free in two arenas. Another arena
/// freed one of them. The heap also has a half-prepared array, byte strings in a slot and in a run,
/// a free run, and a slab on the list.
fn build() -> TestHeap {
    let mut heap = TestHeap::new(CHUNKS);
    let objects = [40, 48, 33].map(|bytes| heap.run(|tx| tx.allocate(bytes)).unwrap());
    heap.run(|tx| tx.write(Addr::new(objects[0], 8), 0x0123_4567_89ab_cdef)).unwrap();
    heap.arena = 31;
    heap.run(|tx| tx.allocate(1024)).unwrap();
    free(&mut heap, objects[1], 48).unwrap();
    let runs = [5, 1].map(|blocks| heap.run(|tx| tx.reserve_blocks(blocks)).unwrap());
    heap.run(|tx| tx.prepare_blocks(runs[0], 3)).unwrap();
    free(&mut heap, runs[1], 256).unwrap();
    heap.run(|tx| tx.allocate_pieces(1500)).unwrap();
    heap.run(|tx| tx.allocate_pieces(33_000)).unwrap();
    let many: Vec<_> = (0..40).map(|_| heap.run(|tx| tx.allocate(300)).unwrap()).collect();
    many[..20].iter().for_each(|&object| free(&mut heap, object, 300).unwrap());
    heap.run(|tx| tx.set_root(objects[0])).unwrap();
    heap
}

fn dump(heap: &TestHeap) -> String {
    let mut text = String::new();
    for (index, word) in heap.words.iter().enumerate().filter(|(_, word)| **word != 0) {
        writeln!(text, "{:x} {word:x}", 8 * index).expect("a string takes everything");
    }
    text
}

fn load() -> TestHeap {
    TestHeap::of_image(IMAGE, CHUNKS)
}

#[test]
fn version_2_is_read_and_used() {
    let mut heap = load();
    let usage = heap.check().unwrap();
    let bytes = 40 + 33 + 1024 + 1500 + 33_000 + 20 * 300;
    assert_eq!((usage.objects, usage.object_bytes), (25, bytes));
    assert_eq!((usage.arrays, usage.blocks, usage.blocks_prepared), (1, 5, 3));
    let root = heap.run(|tx| tx.root()).unwrap();
    let word = heap.run(|tx| tx.read(Addr::new(root, 8)));
    assert_eq!(word, Ok(0x0123_4567_89ab_cdef));
    free(&mut heap, root, 40).unwrap();
    heap.run(|tx| tx.allocate(1000)).unwrap();
    heap.check().unwrap();
}

#[test]
fn heap_image_is_unchanged() {
    // A difference is a format change: it needs a new version and an image of its own.
    assert_eq!(dump(&build()), IMAGE);
}

#[test]
#[ignore = "writes the image of a new format version: run it by name, then commit the file"]
fn write_the_image() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/golden-v2.txt");
    std::fs::write(path, dump(&build())).unwrap();
}
