//! Damaged heaps: the check names the damage, and nothing panics or runs for ever.

use proptest::prelude::*;
use words::{Addr, Allocate, Stop, Words};

use super::free;
use crate::test_heap::{TAG, TestHeap};
use crate::{CHUNK_BYTES, Wrong};

const SLAB: u64 = CHUNK_BYTES;
const RUN: u64 = 2 * CHUNK_BYTES;
const FREE_RUN: u64 = 3 * CHUNK_BYTES;
/// Free list and cursor of class 2 (48 bytes) in arena 0.
const LIST: u64 = 272 + 32;
const CURSOR: u64 = LIST + 8;

/// A slab with live objects 0, 1, 4 and free ones 2 -> 3, a run of three blocks (two prepared), a
/// free run, a run with nothing prepared; one chunk never used.
fn heap() -> TestHeap {
    let mut heap = TestHeap::new(6);
    let objects = [(); 5].map(|()| heap.run(|tx| tx.allocate(48)).unwrap());
    let runs = [3, 1, 1].map(|blocks| heap.run(|tx| tx.reserve_blocks(blocks)).unwrap());
    heap.run(|tx| tx.prepare_blocks(runs[0], 2)).unwrap();
    free(&mut heap, objects[3], 48).unwrap();
    free(&mut heap, objects[2], 48).unwrap();
    free(&mut heap, runs[1], 256).unwrap();
    heap.check().unwrap();
    heap
}

const fn object(index: u64) -> u64 {
    SLAB + 80 + 64 * index
}

#[test]
fn every_kind_of_damage_is_named_with_its_place() {
    let planted = [
        (80, 1, Wrong::Magic),
        (88, 2, Wrong::Version),
        (72, 0, Wrong::OwnHeader),
        (136, 7, Wrong::OwnHeader),
        (264, 0, Wrong::OwnHeader),
        (104, 1, Wrong::Reserved),
        (184, 1, Wrong::Reserved),
        (144, 0, Wrong::Frontier),
        (144, 7, Wrong::Frontier),
        (16, 1, Wrong::ChunkHead),
        (24, 2, Wrong::ChunkHead),
        (SLAB + 16, 0, Wrong::ChunkHead),
        (SLAB + 16, 4, Wrong::ChunkHead),
        (SLAB + 24, 2, Wrong::ChunkHead),
        (SLAB + 32, 15, Wrong::ChunkHead),
        (SLAB + 48, 1, Wrong::ChunkHead),
        (SLAB + 8, 0, Wrong::OwnHeader),
        (RUN + 24, 5, Wrong::ChunkHead),
        (RUN + 40, 4, Wrong::ChunkHead),
        (RUN + 48, 2, Wrong::ChunkHead),
        (RUN + 56, 1, Wrong::ChunkHead),
        (RUN + 8, 0, Wrong::OwnHeader),
        (FREE_RUN + 24, 0, Wrong::ChunkHead),
        (FREE_RUN + 24, u64::MAX, Wrong::ChunkHead),
        (FREE_RUN + 32, 3, Wrong::ChunkHead),
        (FREE_RUN + 32, 4, Wrong::FreeRuns),
        (152, 0, Wrong::FreeRuns),
        (152, 2, Wrong::FreeRuns),
        (CURSOR, object(5) + 16, Wrong::Cursor),
        (CURSOR, object(5) + (1 << 40), Wrong::Cursor),
        (CURSOR + 256, RUN + 80, Wrong::Cursor),
        (LIST + 24, object(5) + 16, Wrong::Cursor),
        (object(0) - 8, 0, Wrong::Object),
        (object(2) - 8, 0, Wrong::Object),
        (object(4) - 8, 1 << 50, Wrong::Object),
        (RUN + 80 - 8, 0, Wrong::Block),
        (RUN + 80 + 272 - 8, 0, Wrong::Block),
        (4 * CHUNK_BYTES + 72, 0, Wrong::Block),
        (LIST, object(1), Wrong::FreeList),
        (LIST, object(2) + 1, Wrong::FreeList),
        (LIST, u64::MAX, Wrong::FreeList),
        (LIST - 16, object(2), Wrong::FreeList),
        (object(3), object(2), Wrong::FreeList),
        (LIST, 0, Wrong::Lost),
        (LIST, object(3), Wrong::Lost),
    ];
    for (offset, value, wrong) in planted {
        let mut heap = heap();
        let word = &mut heap.words[offset as usize / 8];
        assert_ne!(*word, value, "damage at {offset:#x}");
        *word = value;
        let damage = heap.check().expect_err("damage is found");
        let all = heap.survey().damage;
        assert_eq!(all[0], damage);
        let echoes = if (offset, value) == (LIST, 0) { 1 } else { 0 }; // two objects are lost
        assert_eq!(all.len(), 1 + echoes, "{value:#x} at {offset:#x}: {all:#x?}");
        assert_eq!(damage.wrong, wrong, "{value:#x} at {offset:#x}: {damage}");
        // A list that does not reach an object, or a cursor that hides one, shows elsewhere.
        if !matches!(wrong, Wrong::Lost | Wrong::FreeList) {
            assert_eq!((damage.offset, damage.found), (offset, value), "{damage}");
            assert_ne!(damage.expected, damage.found);
        }
        assert!(damage.to_string().contains("heap offset 0x"), "{damage}");
    }
}

#[test]
fn damage_in_many_places_is_all_found_and_nothing_else_is() {
    let planted = [
        (264, 0, Wrong::OwnHeader),
        (184, 1, Wrong::Reserved),
        (272 + 256 - 8, 5, Wrong::OwnHeader),
        (CURSOR + 512, 17, Wrong::Cursor),
        (SLAB + 8, 0, Wrong::OwnHeader),
        (object(0) - 8, 0, Wrong::Object),
        (object(4) - 8, 1 << 50, Wrong::Object),
        (RUN + 80 - 8, 0, Wrong::Block),
        (RUN + 80 + 272 - 8, 0, Wrong::Block),
        (FREE_RUN + 24, 0, Wrong::ChunkHead),
        (4 * CHUNK_BYTES + 72, 0, Wrong::Block),
        (object(3), object(0), Wrong::FreeList),
    ];
    let mut heap = heap();
    for (offset, value, _) in planted {
        heap.words[offset as usize / 8] = value;
    }
    let survey = heap.survey();
    let mut found: Vec<_> = survey.damage.iter().map(|one| (one.offset, one.wrong)).collect();
    // The free list ends at an object whose damage is known already.
    let mut expected: Vec<_> = planted[..11].iter().map(|one| (one.0, one.2)).collect();
    // The broken slot is where a lost cursor of its class may have stood, but for the class of the
    // slab's own cursor, which is there.
    found.sort_by_key(|one| one.0);
    expected.sort_by_key(|one| one.0);
    assert_eq!(found, expected);
    assert!(!survey.complete);
    assert_eq!((survey.usage.runs, survey.usage.chunks_free), (2, 1));
}

#[test]
fn a_lost_cursor_or_head_is_found_once_and_makes_up_nothing_else() {
    for (offset, value) in [(CURSOR, 8), (SLAB + 32, 3), (SLAB + 16, 9), (RUN + 16, 9)] {
        let mut heap = heap();
        heap.words[offset as usize / 8] = value;
        // What was never given out is not zero.
        heap.words[object(5) as usize / 8 - 1] = 0x1234_5678;
        heap.words[RUN as usize / 8 + 40] = 0xffff;
        let found = heap.survey().damage;
        assert_eq!(found.len(), 1, "{value} at {offset:#x}: {found:#x?}");
        assert_eq!(found[0].chunk(), offset / CHUNK_BYTES);
    }
}

#[test]
fn the_object_whose_header_is_wrong_is_named() {
    let mut heap = heap();
    heap.words[object(4) as usize / 8 - 1] = 3;
    heap.words[object(1) as usize / 8 - 1] = 3;
    let named: Vec<_> = heap.survey().damage.iter().map(|one| one.object()).collect();
    assert_eq!(named, [Some(object(1)), Some(object(4))]);
}

#[test]
fn a_survey_of_garbage_ends() {
    let mut heap = heap();
    heap.words[SLAB as usize / 8 + 8..RUN as usize / 8].fill(7);
    heap.words[CURSOR as usize / 8] = 0;
    let survey = heap.survey();
    assert_eq!(survey.damage.len(), crate::Survey::DAMAGE_MAX);
    assert!(!survey.complete);
}

#[test]
fn a_cursor_that_two_arenas_share_is_damage() {
    let mut heap = heap();
    heap.words[(CURSOR as usize + 256) / 8] = heap.words[CURSOR as usize / 8];
    assert_eq!(heap.check().unwrap_err().wrong, Wrong::Cursor);
}

#[test]
fn a_heap_that_is_too_small_is_none() {
    assert_eq!(TestHeap::zeros(1).check().unwrap_err().wrong, Wrong::Size);
    assert_eq!(TestHeap::zeros(2).check().unwrap_err().wrong, Wrong::Magic);
}

#[test]
fn a_damaged_heap_gives_nothing_away() {
    let damaged = |offset: u64, value| {
        let mut heap = heap();
        heap.words[offset as usize / 8] = value;
        heap
    };
    // What leads to the next object of 48 bytes: the list, then (the list empty) the cursor.
    for list in [object(0), object(2) + 8, object(5), 8, SLAB, u64::MAX, 1 << 47, 272] {
        let mut heap = damaged(LIST, list);
        assert_eq!(heap.run(|tx| tx.allocate(48)), Err(Stop::BadPointer), "list {list:#x}");
    }
    for cursor in [1, 16, 80, 336, object(5) + 16, SLAB + 65536 - 32, RUN + 80, 1 << 47, u64::MAX] {
        let mut heap = damaged(CURSOR, cursor);
        heap.words[LIST as usize / 8] = 0;
        assert_eq!(heap.run(|tx| tx.allocate(48)), Err(Stop::BadPointer), "cursor {cursor:#x}");
    }
    // What leads to chunks: list of free runs, their heads, the frontier.
    let bad = [(152, 1), (152, 5), (152, u64::MAX), (144, 0), (144, 1 << 60), (FREE_RUN + 16, 2)];
    for (offset, value) in bad.into_iter().chain([
        (FREE_RUN + 24, 0),
        (FREE_RUN + 24, u64::MAX),
        (FREE_RUN + 32, 3),
        (FREE_RUN + 8, 0),
    ]) {
        let mut heap = damaged(offset, value);
        assert_eq!(heap.run(|tx| tx.reserve_blocks(1)), Err(Stop::BadPointer), "at {offset:#x}");
        assert_eq!(heap.run(|tx| tx.allocate(900)), Err(Stop::BadPointer), "at {offset:#x}");
        let at = Addr::new(u64::from(TAG) << 48 | (4 * CHUNK_BYTES + 80), 0);
        assert_eq!(heap.run(|tx| tx.retire(at, 256)), Err(Stop::BadPointer), "at {offset:#x}");
    }
}

/// Everything that a program can ask for, once; answers may be anything, but must come.
fn use_it(heap: &mut TestHeap) {
    let tag = u64::from(TAG) << 48;
    for at in [object(0), object(2), RUN + 80, FREE_RUN + 80, 4 * CHUNK_BYTES + 80] {
        for bytes in [48, 256, 768] {
            let _ = heap.run(|tx| tx.retire(Addr::new(tag | at, 0), bytes));
        }
        let _ = heap.run(|tx| tx.prepare_blocks(tag | at, 3));
    }
    for bytes in [16, 48, 48, 48, 1024] {
        let _ = heap.run(|tx| tx.allocate(bytes));
    }
    for blocks in [1, 300, 1000] {
        let _ = heap.run(|tx| tx.reserve_blocks(blocks));
    }
}

/// Looks at all of it in every way; the ways agree.
fn check_all(heap: &TestHeap) {
    let (checked, survey) = (heap.check(), heap.survey());
    assert_eq!(checked.err(), survey.damage.first().copied());
    assert!(checked.is_err() || survey.complete);
    let _ = heap.live();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_heap_with_random_words_changed_is_checked_and_used_without_a_panic(
        changes in proptest::collection::vec((0..6 * 8192_usize, any::<u64>()), 1..200),
        near in proptest::collection::vec((0..64_usize, 0..6_u64, 0..400_000_u64), 0..8),
    ) {
        let mut heap = heap();
        for (index, word) in changes {
            heap.words[index] = word;
        }
        // Small values where the metadata are get further than any random word.
        for (word, chunk, value) in near {
            heap.words[chunk as usize * 8192 + word] = value;
        }
        check_all(&heap);
        use_it(&mut heap);
        check_all(&heap);
    }

    #[test]
    fn metadata_moved_about_is_checked_and_used_without_a_panic(
        moves in proptest::collection::vec((0..4096_usize, 0..4096_usize), 1..40),
    ) {
        // Words that were valid somewhere pass more checks than garbage does.
        let mut heap = heap();
        let place = |i: usize| i % 6 * 8192 + i / 6;
        for (from, to) in moves {
            heap.words[place(to)] = heap.words[place(from)];
        }
        check_all(&heap);
        use_it(&mut heap);
        check_all(&heap);
    }

    #[test]
    fn a_heap_of_garbage_is_checked_without_a_panic(seed in any::<u64>()) {
        let mut heap = TestHeap::new(6);
        let mut state = seed;
        for word in &mut heap.words[8192..] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *word = state >> (state >> 58);
        }
        heap.words[144 / 8] = seed % 7;
        check_all(&heap);
        use_it(&mut heap);
        check_all(&heap);
    }
}
