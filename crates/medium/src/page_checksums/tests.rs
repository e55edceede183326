//! Tests of the checksums of pages.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET, random_batch};
use crate::sync::Arc;
use crate::traits::{HeapMedium, Scrubbed};
use crate::writes::run;
use crate::{FileHeap, InPlace, MappedChecksums, MappedHeap};

/// Before the heap of the suite's files.
const AREA: ChecksumArea = ChecksumArea { offset: 0, bytes: 4096 };
const PAGES: usize = (HEAP_BYTES / PAGE_BYTES) as usize;

fn read(file: &PoolFile) -> PageChecksums {
    PageChecksums::read(file, AREA, HEAP_BYTES).unwrap()
}

/// Returns the pages that differ from their checksums.
fn differing(file: &PoolFile) -> Vec<usize> {
    read(file).differing(file, HEAP_OFFSET, &|_| ()).unwrap()
}

fn file_sums(file: &Arc<PoolFile>, known: Option<&PageChecksums>) -> Arc<FileChecksums> {
    let sizes = (HEAP_OFFSET, HEAP_BYTES, HEAP_BYTES);
    Arc::new(FileChecksums::new(Arc::clone(file), AREA, sizes, known))
}

#[test]
fn flipped_bit_invalidates_line() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..100 {
        let sums = std::array::from_fn(|_| random.random());
        let line = encode(sums);
        assert_eq!(decode(&line), Some(sums));
        for bit in 0..512 {
            let mut changed = line;
            changed[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(decode(&changed), None, "bit {bit}");
        }
    }
    assert_eq!(decode(&[0; LINE_WORDS]), None);
}

#[test]
fn table_has_room_for_the_heap() {
    for pages in [1, 15, 16, 960, 961, 5000] {
        let heap_bytes = pages * PAGE_BYTES;
        let area = ChecksumArea { offset: 0, bytes: ChecksumArea::bytes_for(heap_bytes) };
        assert_eq!(area.covers(heap_bytes), heap_bytes);
        assert!(area.bytes < heap_bytes / 900 + 2 * PAGE_BYTES);
    }
    let area = ChecksumArea { offset: 0, bytes: 4096 };
    assert_eq!(area.covers(1 << 30), 960 * PAGE_BYTES);
}

#[test]
fn damaged_page_is_refused_before_write() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for (parts, gather_bytes) in [(1, 1 << 20), (3, 1 << 20), (2, 96)] {
        let (_dir, file) = suite::pool();
        let sums = file_sums(&file, None);
        let heap = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
        let heap = heap.with_checksums(sums).with_gather_bytes_max(gather_bytes);
        let mut heap = heap.in_parts(parts);
        let mut model = vec![0; (HEAP_OFFSET + HEAP_BYTES) as usize / 8];
        for round in 0..20 {
            let batch = random_batch(&mut random, &mut model, HEAP_OFFSET);
            heap.write_back(&batch).unwrap();
            heap.barrier().unwrap();
            assert_eq!(differing(&file), [], "round {round}");
            assert_eq!(read(&file).unknown_pages(), 0);
        }
        let page = random.random_range(0..PAGES);
        let at = HEAP_OFFSET + page as u64 * PAGE_BYTES + 8 * random.random_range(0..512);
        let mut word = [0];
        file.read_at(at, &mut word).unwrap();
        file.write_at(at, &[word[0] ^ 1]).unwrap();
        assert_eq!(differing(&file), [page]);
        let mut scrubbed = Scrubbed::default();
        heap.scrub(0..PAGES + 9, &mut scrubbed).unwrap();
        assert_eq!(scrubbed, Scrubbed { compared: PAGES, damaged: vec![page] });
        // The rest of the page would get a valid checksum.
        heap.write_back(&[run(page as u64 * 512 + 7, 1), 3]).unwrap();
        let written = heap.barrier();
        assert!(matches!(written, Err(Error::DamagedPages { pages: 1, .. })), "{written:?}");
        assert!(read(&file).is_marked_damaged(page));
    }
}

#[test]
fn changed_words_reach_the_file_with_their_checksum() {
    let (_dir, file) = suite::pool();
    let mut heap = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
    heap = heap.with_checksums(file_sums(&file, None));
    heap.barrier().unwrap();
    let table = heap.counts();
    assert_eq!((table.bytes, table.device_writes, table.persist_barriers), (4096, 1, 1));
    heap.barrier().unwrap();
    assert_eq!(heap.counts(), table, "nothing has changed");
    heap.write_back(&[run(3, 2), 8, 9, run(512, 1), 7]).unwrap();
    heap.barrier().unwrap();
    let known = read(&file);
    assert_eq!(known.differing(&file, HEAP_OFFSET, &|_| ()).unwrap(), []);
    assert_eq!(known.differing_on_disk(&file, HEAP_OFFSET).unwrap(), []);
    // In the next process; recovery writes to a page that differs.
    file.write_at(HEAP_OFFSET, &[5]).unwrap();
    let sums = file_sums(&file, Some(&known));
    let heap = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
    let mut heap = heap.with_checksums(Arc::clone(&sums));
    heap.write_back(&[run(0, 1), 6]).unwrap();
    heap.barrier().unwrap();
    sums.compare();
    assert_eq!(differing(&file), []);
    heap.write_back(&[run(1, 1), 6]).unwrap();
    heap.barrier().unwrap();
    assert_eq!(differing(&file), []);
}

#[test]
fn pages_of_damaged_line_are_unknown_until_sealed() {
    let (_dir, file) = suite::pool();
    let mut heap = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
    heap = heap.with_checksums(file_sums(&file, None));
    heap.write_back(&[run(512 * 16, 1), 7]).unwrap();
    heap.barrier().unwrap();
    drop(heap);
    let mut word = [0];
    file.read_at(64 + 8, &mut word).unwrap();
    file.write_at(64 + 8, &[word[0] ^ 1 << 40]).unwrap();
    let known = read(&file);
    assert!(known.damaged_lines().eq(std::iter::once(15..30)));
    assert_eq!((known.unknown_pages(), differing(&file)), (15, vec![]));
    let heap = FileHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES).unwrap();
    let mut heap = heap.with_checksums(file_sums(&file, Some(&known)));
    heap.seal(0..PAGES).unwrap();
    let known = read(&file);
    assert_eq!((known.unknown_pages(), known.damaged_lines().count()), (0, 0));
    assert_eq!(differing(&file), []);
}

#[test]
fn new_pages_of_grown_heap_have_checksums() {
    let (_dir, file) = suite::pool();
    let room = 4 * HEAP_BYTES;
    let sizes = (HEAP_OFFSET, HEAP_BYTES, room);
    let sums = Arc::new(FileChecksums::new(Arc::clone(&file), AREA, sizes, None));
    let heap = FileHeap::growing(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES, room).unwrap();
    let mut heap = heap.with_checksums(sums);
    heap.barrier().unwrap();
    file.grow(HEAP_OFFSET + HEAP_BYTES, HEAP_OFFSET + 2 * HEAP_BYTES).unwrap();
    heap.write_back(&[run(HEAP_BYTES / 8, 1), 7]).unwrap();
    heap.barrier().unwrap();
    let known = PageChecksums::read(&file, AREA, 2 * HEAP_BYTES).unwrap();
    assert_eq!((known.pages(), known.unknown_pages()), (2 * PAGES, 0));
    assert_eq!(known.differing(&file, HEAP_OFFSET, &|_| ()).unwrap(), []);
}

#[test]
fn changed_mapped_page_is_unknown_until_seal() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for domain in suite::domains() {
        for parts in [1, 3] {
            let (_dir, file) = suite::pool();
            let sizes = (HEAP_OFFSET, HEAP_BYTES, HEAP_BYTES);
            let sums = MappedChecksums::new(Arc::clone(&file), AREA, sizes, &domain, None).unwrap();
            assert_eq!(read(&file).unknown_pages(), 0);
            let heap = MappedHeap::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES, &domain);
            let mut heap = heap.unwrap().with_checksums(Arc::new(sums)).in_parts(parts);
            let mut model = vec![0; (HEAP_OFFSET + HEAP_BYTES) as usize / 8];
            for _ in 0..10 {
                let batch = random_batch(&mut random, &mut model, HEAP_OFFSET);
                heap.write_back(&batch).unwrap();
                heap.barrier().unwrap();
                assert_eq!(differing(&file), []);
                if random.random_bool(0.3) {
                    let first = random.random_range(0..PAGES);
                    heap.seal(first..PAGES).unwrap();
                    assert_eq!(differing(&file), []);
                }
            }
            heap.write_back(&[run(512 * 3, 1), 1]).unwrap();
            heap.barrier().unwrap();
            assert!(read(&file).unknown_pages() > 0);
            heap.seal(0..PAGES).unwrap();
            assert_eq!(read(&file).unknown_pages(), 0);
            let mut word = [0];
            file.read_at(HEAP_OFFSET + 5 * PAGE_BYTES, &mut word).unwrap();
            file.write_at(HEAP_OFFSET + 5 * PAGE_BYTES, &[word[0] ^ 1]).unwrap();
            assert_eq!(differing(&file), [5]);
            let mut scrubbed = Scrubbed::default();
            heap.scrub(0..PAGES, &mut scrubbed).unwrap();
            assert_eq!(scrubbed, Scrubbed { compared: PAGES, damaged: vec![5] });
            // The rest of the page would get a valid checksum by the next seal.
            file.write_at(HEAP_OFFSET + 5 * PAGE_BYTES, &word).unwrap();
            let written = heap.write_back(&[run(512 * 5 + 7, 1), 9]);
            assert!(matches!(written, Err(Error::DamagedPages { .. })), "{written:?}");
            assert_eq!(differing(&file), [5]);
        }
    }
}

#[test]
fn threads_change_pages_of_one_line() {
    for domain in suite::domains() {
        let (_dir, file) = suite::pool();
        let sizes = (HEAP_OFFSET, HEAP_BYTES, HEAP_BYTES);
        let sums = MappedChecksums::new(Arc::clone(&file), AREA, sizes, &domain, None).unwrap();
        let heap = InPlace::new(Arc::clone(&file), HEAP_OFFSET, HEAP_BYTES, &domain).unwrap();
        let heap = heap.as_heap(Some(Arc::new(sums)));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let heap = &heap;
                scope.spawn(move || {
                    for page in (thread..PAGES - 1).step_by(4) {
                        heap.store(512 * page + 9, 1 + page as u64);
                        heap.write_back(512 * page + 9);
                        heap.barrier(1).unwrap();
                    }
                });
            }
        });
        let known = read(&file);
        assert_eq!((known.unknown_pages(), known.damaged_lines().count()), (PAGES - 1, 0));
        heap.seal(HEAP_BYTES).unwrap();
        let known = read(&file);
        assert_eq!((known.unknown_pages(), differing(&file)), (0, vec![]));
    }
}
