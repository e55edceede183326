//! Tests of the heap image in a file.

use super::*;
use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
use crate::writes::run;

fn small(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FileHeap, Error> {
    FileHeap::new(file, offset, bytes).map(|heap_image| heap_image.with_gather_bytes_max(96))
}

#[test]
fn heap_image_keeps_every_write() {
    suite::heap_image_keeps_every_write(FileHeap::new);
}

#[test]
fn heap_image_short_of_memory_keeps_every_write() {
    suite::heap_image_keeps_every_write(small);
    suite::heap_image_keeps_every_write(|file, offset, bytes| {
        FileHeap::new(file, offset, bytes).map(|heap_image| heap_image.with_gather_bytes_max(0))
    });
}

#[test]
fn heap_image_in_parts_keeps_every_write() {
    for parts in [2, 5] {
        let in_parts = |heap_image: FileHeap| heap_image.in_parts(parts);
        suite::heap_image_keeps_every_write(|file, offset, bytes| {
            FileHeap::new(file, offset, bytes).map(in_parts)
        });
        suite::heap_image_keeps_every_write(|file, offset, bytes| {
            small(file, offset, bytes).map(in_parts)
        });
    }
}

#[test]
fn parts_share_one_sync_and_one_failure() {
    let (_dir, file) = suite::pool();
    let all: Vec<u64> =
        (0..HEAP_BYTES / PAGE_BYTES).flat_map(|page| [run(page * 512, 1), page + 1]).collect();
    let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap().in_parts(2);
    heap_image.write_back(&all).unwrap();
    heap_image.barrier().unwrap();
    heap_image.barrier().unwrap();
    let counts = heap_image.counts();
    assert_eq!((counts.bytes, counts.persist_barriers), (HEAP_BYTES, 1));
    let (_dir, file) = suite::pool_for_reading();
    let heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap().in_parts(2);
    let mut parts = heap_image.into_parts();
    parts.iter_mut().for_each(|part| part.write_back(&all).unwrap());
    assert!(matches!(parts[1].write_out(), Err(Error::Transfer { .. })));
    assert!(matches!(parts[0].write_out(), Err(Error::Poisoned { .. })));
    assert!(matches!(parts[0].sync(), Err(Error::Poisoned { .. })));
}

#[test]
fn a_wrong_batch_writes_nothing() {
    suite::heap_image_refuses_wrong_batches(FileHeap::new);
    suite::heap_image_refuses_wrong_batches(small);
    suite::heap_image_refuses_wrong_batches(|file, offset, bytes| {
        small(file, offset, bytes).map(|heap_image| heap_image.in_parts(3))
    });
}

#[test]
fn neighbouring_pages_are_written_together_and_an_idle_barrier_is_free() {
    let (_dir, file) = suite::pool();
    let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
    heap_image.barrier().unwrap();
    assert_eq!(heap_image.counts(), Counts::default());
    let page = PAGE_WORDS as u64;
    for index in [3 * page, 5 * page, 4 * page + 7, 9 * page, 4 * page + 6] {
        heap_image.write_back(&[run(index, 1), index]).unwrap();
    }
    assert_eq!(heap_image.counts(), Counts::default());
    heap_image.barrier().unwrap();
    heap_image.barrier().unwrap();
    let counts = heap_image.counts();
    assert_eq!((counts.bytes, counts.device_writes, counts.persist_barriers), (16384, 2, 1));
}

#[test]
fn gather_memory_exhausted_writes_early_syncs_at_barrier() {
    let (_dir, file) = suite::pool();
    // Memory for three words in pages of their own.
    let mut heap_image = small(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
    for page in 0..7 {
        heap_image.write_back(&[run(2 * page * PAGE_WORDS as u64, 1), 1]).unwrap();
    }
    let counts = heap_image.counts();
    assert_eq!((counts.device_writes, counts.persist_barriers), (4, 0));
    assert_eq!(heap_image.unwritten().pages, 3);
    heap_image.barrier().unwrap();
    let counts = heap_image.counts();
    assert_eq!((counts.device_writes, counts.persist_barriers), (7, 1));
}

#[test]
fn swept_pages_are_written_with_their_last_words() {
    let (_dir, file) = suite::pool();
    let mut heap_image = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
    let put = |heap_image: &mut FileHeap, sequence, page: u64| {
        heap_image.starts_at(sequence);
        heap_image.write_back(&[run(page * PAGE_WORDS as u64, 1), sequence + 1]).unwrap();
    };
    for (sequence, page) in [(0, 9), (4096, 2), (8192, 9), (8192, 5)] {
        put(&mut heap_image, sequence, page);
    }
    let word = |page: u64| {
        let mut word = [0];
        file.read_at(HEAP_OFFSET + page * PAGE_BYTES, &mut word).unwrap();
        word[0]
    };
    let waits = |heap_image: &FileHeap| {
        let unwritten = heap_image.unwritten();
        (unwritten.pages, unwritten.oldest())
    };
    heap_image.write_next(1).unwrap();
    assert_eq!(waits(&heap_image), (2, Some(0)));
    assert_eq!([2, 5, 9].map(word), [4097, 0, 0]);
    put(&mut heap_image, 12288, 2);
    heap_image.write_next(2).unwrap();
    assert_eq!(waits(&heap_image), (1, Some(8192)), "since the first of the three was written");
    assert_eq!([2, 5, 9].map(word), [4097, 8193, 8193]);
    heap_image.barrier().unwrap();
    assert_eq!(heap_image.unwritten(), Unwritten::default());
    assert_eq!([2, 5, 9].map(word), [12289, 8193, 8193]);
}

#[test]
fn a_failed_write_ends_everything() {
    let (_dir, file) = suite::pool_for_reading();
    let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
    heap_image.write_back(&[run(7, 1), 42]).unwrap();
    assert!(matches!(heap_image.barrier(), Err(Error::Transfer { operation: "writing", .. })));
    for _ in 0..2 {
        assert!(matches!(heap_image.barrier(), Err(Error::Poisoned { .. })));
        assert!(matches!(heap_image.write_back(&[run(7, 1), 42]), Err(Error::Poisoned { .. })));
    }
    assert_eq!(heap_image.counts(), Counts::default());
}

#[test]
fn truncated_file_is_detected_and_not_extended() {
    let (dir, file) = suite::pool();
    let path = dir.path().join("pool");
    let mut heap_image = FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(HEAP_OFFSET).unwrap();
    heap_image.write_back(&[run(7, 1), 42]).unwrap();
    let cut = heap_image.barrier();
    assert!(matches!(cut, Err(Error::Truncated { found: 0, .. })), "{cut:?}");
    assert_eq!(std::fs::metadata(path).unwrap().len(), HEAP_OFFSET);
    assert!(matches!(heap_image.barrier(), Err(Error::Poisoned { .. })));
}
