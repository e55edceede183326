//! Damaged heaps: the check names the damage, and no operation panics or loops for ever.

use proptest::prelude::*;
use words::{Addr, Allocate, Stop, Words};

use super::free;
use crate::layout::Layout;
use crate::test_heap::{LAYOUTS, TAG, TestHeap};
use crate::{CHUNK_BYTES, Wrong};

/// Size of the objects: of neither layout's first class, and 128 apart in both.
const BYTES: u64 = 100;

/// Makes a heap: a slab with live objects 0, 1, 4 and free ones 2 -> 3, a run of three blocks (two
/// prepared), a free run, a run with no block prepared, and one never-used chunk.
fn heap(layout: Layout) -> TestHeap {
    let mut heap = TestHeap::laid_out(layout, 6);
    let objects = [(); 5].map(|()| heap.run(|tx| tx.allocate(BYTES as usize)).unwrap());
    let runs = [3, 1, 1].map(|blocks| heap.run(|tx| tx.reserve_blocks(blocks)).unwrap());
    heap.run(|tx| tx.prepare_blocks(runs[0], 2)).unwrap();
    free(&mut heap, objects[3], BYTES).unwrap();
    free(&mut heap, objects[2], BYTES).unwrap();
    free(&mut heap, runs[1], 256).unwrap();
    heap.check().unwrap();
    heap
}

/// The offsets of its parts.
struct Places {
    layout: Layout,
    root: u64,
    chunks: u64,
    /// The slab's first byte; the other parts are in the chunks after it.
    slab: u64,
    run: u64,
    free_run: u64,
    last_run: u64,
    /// Free list and cursor of the slab's class in arena 0.
    list: u64,
    cursor: u64,
}

impl Places {
    fn of(layout: Layout) -> Places {
        let own = layout.own_chunks();
        let [slab, run, free_run, last_run] = [0, 1, 2, 3].map(|i| (own + i) * CHUNK_BYTES);
        let class = layout.class_of(BYTES as usize).unwrap();
        let list = layout.arena(0) + 16 * class as u64;
        let (root, chunks, cursor) = (layout.root(), layout.chunks_object(), list + 8);
        Places { layout, root, chunks, slab, run, free_run, last_run, list, cursor }
    }

    const fn object(&self, index: u64) -> u64 {
        self.slab + self.layout.first_slot() + 128 * index
    }

    const fn block(&self, index: u64) -> u64 {
        self.layout.block(self.run / CHUNK_BYTES, index)
    }

    /// Returns the distance of arenas.
    const fn arenas(&self) -> u64 {
        self.layout.arena(1) - self.layout.arena(0)
    }

    /// Returns offsets of metadata.
    fn metadata(&self) -> [u64; 8] {
        let arena = self.layout.arena(0) / 64 * 64;
        let Places { root, chunks, slab, run, free_run, last_run, .. } = *self;
        [0, root / 64 * 64, chunks / 64 * 64, arena, slab, run, free_run, last_run]
    }
}

/// Returns every kind of damage to a heap of either layout: offset, word, kind.
fn injected(layout: Layout) -> Vec<(u64, u64, Wrong)> {
    let at = Places::of(layout);
    let Places { root, chunks, slab, run, free_run, list, cursor, .. } = at;
    let number = |place: u64| place / CHUNK_BYTES;
    vec![
        (root, 1, Wrong::Magic),
        (root + 8, 2, Wrong::Version),
        (root - 8, 0, Wrong::OwnHeader),
        (chunks - 8, 7, Wrong::OwnHeader),
        (root + 24, 1, Wrong::Reserved),
        (chunks + 40, 1, Wrong::Reserved),
        (chunks, 0, Wrong::Frontier),
        (chunks, layout.own_chunks() - 1, Wrong::Frontier),
        (chunks, layout.own_chunks() + 6, Wrong::Frontier),
        (16, 1, Wrong::ChunkHead),
        (24, 2, Wrong::ChunkHead),
        (slab + 16, 0, Wrong::ChunkHead),
        (slab + 16, 4, Wrong::ChunkHead),
        (slab + 24, 2, Wrong::ChunkHead),
        (slab + 32, layout.classes() as u64, Wrong::ChunkHead),
        (slab + 48, 1, Wrong::ChunkHead),
        (slab + 8, 0, Wrong::OwnHeader),
        (run + 24, 5, Wrong::ChunkHead),
        (run + 40, 4, Wrong::ChunkHead),
        (run + 48, 2, Wrong::ChunkHead),
        (run + 56, 1, Wrong::ChunkHead),
        (run + 8, 0, Wrong::OwnHeader),
        (free_run + 24, 0, Wrong::ChunkHead),
        (free_run + 24, u64::MAX, Wrong::ChunkHead),
        (free_run + 32, number(free_run), Wrong::ChunkHead),
        (free_run + 32, number(free_run) + 1, Wrong::FreeRuns),
        (chunks + 8, 0, Wrong::FreeRuns),
        (chunks + 8, number(run), Wrong::FreeRuns),
        (cursor, at.object(5) + 16, Wrong::Cursor),
        (cursor, at.object(5) + (1 << 40), Wrong::Cursor),
        (cursor + at.arenas(), at.block(0), Wrong::Cursor),
        (cursor + 16, at.object(5) + 16, Wrong::Cursor),
        (list, at.object(1), Wrong::FreeList),
        (list, at.object(2) + 1, Wrong::FreeList),
        (list, u64::MAX, Wrong::FreeList),
        (list - 16, at.object(2), Wrong::FreeList),
        (at.object(3), at.object(2), Wrong::FreeList),
        (list, 0, Wrong::Lost),
        (list, at.object(3), Wrong::Lost),
    ]
}

/// Returns the further kinds of damage to a heap with headers.
fn injected_headers() -> Vec<(u64, u64, Wrong)> {
    let at = Places::of(Layout::Ordinary);
    vec![
        (at.layout.arena(0) - 8, 0, Wrong::OwnHeader),
        (at.object(0) - 8, 0, Wrong::Object),
        (at.object(2) - 8, 0, Wrong::Object),
        (at.object(4) - 8, 1 << 50, Wrong::Object),
        (at.block(0) - 8, 0, Wrong::Block),
        (at.block(1) - 8, 0, Wrong::Block),
        (at.last_run + 72, 0, Wrong::Block),
    ]
}

#[test]
fn every_kind_of_damage_is_located() {
    let of = |layout| injected(layout).into_iter().map(move |one| (layout, one));
    let headers = injected_headers().into_iter().map(|one| (Layout::Ordinary, one));
    for (layout, (offset, value, wrong)) in LAYOUTS.into_iter().flat_map(of).chain(headers) {
        let mut heap = heap(layout);
        let word = &mut heap.words[offset as usize / 8];
        assert_ne!(*word, value, "damage at {offset:#x}");
        *word = value;
        let damage = heap.check().expect_err("damage is found");
        let all = heap.survey().damage;
        assert_eq!(all[0], damage);
        let both_lost = (offset, value) == (Places::of(layout).list, 0);
        let echoes = if both_lost { 1 } else { 0 };
        assert_eq!(all.len(), 1 + echoes, "{value:#x} at {offset:#x}: {all:#x?}");
        assert_eq!(damage.wrong, wrong, "{value:#x} at {offset:#x}: {damage}");
        // A list that misses an object, or a cursor that hides one, is reported at another place.
        if !matches!(wrong, Wrong::Lost | Wrong::FreeList) {
            assert_eq!((damage.offset, damage.found), (offset, value), "{damage}");
            assert_ne!(damage.expected, damage.found);
        }
        assert!(damage.to_string().contains("heap offset 0x"), "{damage}");
    }
}

#[test]
fn lost_cursor_without_headers_hides_slots() {
    let at = Places::of(Layout::LineIsolated);
    let mut heap = heap(Layout::LineIsolated);
    assert!(heap.survey().complete);
    heap.words[at.cursor as usize / 8] = 8;
    assert!(!heap.survey().complete);
}

#[test]
fn all_damage_is_found_without_echoes() {
    let at = Places::of(Layout::Ordinary);
    let damages = [
        (at.layout.arena(0) - 8, 0, Wrong::OwnHeader),
        (at.chunks + 40, 1, Wrong::Reserved),
        (at.layout.arena(1) - 8, 5, Wrong::OwnHeader),
        (at.cursor + 2 * at.arenas(), 17, Wrong::Cursor),
        (at.slab + 8, 0, Wrong::OwnHeader),
        (at.object(0) - 8, 0, Wrong::Object),
        (at.object(4) - 8, 1 << 50, Wrong::Object),
        (at.block(0) - 8, 0, Wrong::Block),
        (at.block(1) - 8, 0, Wrong::Block),
        (at.free_run + 24, 0, Wrong::ChunkHead),
        (at.last_run + 72, 0, Wrong::Block),
        (at.object(3), at.object(0), Wrong::FreeList),
    ];
    let mut heap = heap(Layout::Ordinary);
    for (offset, value, _) in damages {
        heap.words[offset as usize / 8] = value;
    }
    let survey = heap.survey();
    let mut found: Vec<_> = survey.damage.iter().map(|one| (one.offset, one.wrong)).collect();
    // The free list ends at an object with damage already known.
    let mut expected: Vec<_> = damages[..11].iter().map(|damage| (damage.0, damage.2)).collect();
    // The broken slot is a possible place of a lost cursor of its class, except for the class of
    // the slab's own cursor, which is intact.
    found.sort_by_key(|damage| damage.0);
    expected.sort_by_key(|damage| damage.0);
    assert_eq!(found, expected);
    assert!(!survey.complete);
    assert_eq!((survey.usage.runs, survey.usage.chunks_free), (2, 1));
}

#[test]
fn lost_cursor_or_head_is_reported_once() {
    for (layout, case) in LAYOUTS.into_iter().flat_map(|layout| [0, 1, 2, 3].map(|i| (layout, i))) {
        let at = Places::of(layout);
        let cases = [(at.cursor, 8), (at.slab + 32, 3), (at.slab + 16, 9), (at.run + 16, 9)];
        let (offset, value) = cases[case];
        let mut heap = heap(layout);
        heap.words[offset as usize / 8] = value;
        // Memory that was never allocated is not zero.
        heap.words[at.object(5) as usize / 8 - 1] = 0x1234_5678;
        heap.words[at.object(5) as usize / 8 + 1] = 0x1234_5678;
        heap.words[at.run as usize / 8 + 40] = 0xffff;
        let found = heap.survey().damage;
        assert_eq!(found.len(), 1, "{value} at {offset:#x}: {found:#x?}");
        assert_eq!(found[0].chunk(), offset / CHUNK_BYTES);
    }
}

#[test]
fn object_with_wrong_header_is_named() {
    let (mut heap, at) = (heap(Layout::Ordinary), Places::of(Layout::Ordinary));
    heap.words[at.object(4) as usize / 8 - 1] = 3;
    heap.words[at.object(1) as usize / 8 - 1] = 3;
    let named: Vec<_> = heap.survey().damage.iter().map(|one| one.object()).collect();
    assert_eq!(named, [Some(at.object(1)), Some(at.object(4))]);
}

#[test]
fn survey_of_garbage_ends() {
    let (mut heap, at) = (heap(Layout::Ordinary), Places::of(Layout::Ordinary));
    heap.words[at.slab as usize / 8 + 8..at.run as usize / 8].fill(7);
    heap.words[at.cursor as usize / 8] = 0;
    let survey = heap.survey();
    assert_eq!(survey.damage.len(), crate::Survey::DAMAGE_MAX);
    assert!(!survey.complete);
}

#[test]
fn cursor_shared_by_two_arenas_is_damage() {
    for layout in LAYOUTS {
        let (mut heap, at) = (heap(layout), Places::of(layout));
        heap.words[(at.cursor + at.arenas()) as usize / 8] = heap.words[at.cursor as usize / 8];
        assert_eq!(heap.check().unwrap_err().wrong, Wrong::Cursor);
    }
}

#[test]
fn heap_below_minimum_is_refused() {
    for layout in LAYOUTS {
        assert_eq!(TestHeap::zeros(layout, 1).check().unwrap_err().wrong, Wrong::Size);
        assert_eq!(TestHeap::zeros(layout, 2).check().unwrap_err().wrong, Wrong::Magic);
    }
}

#[test]
fn damaged_heap_allocates_nothing() {
    for layout in LAYOUTS {
        damage_pointers_to_memory(&Places::of(layout));
    }
}

fn damage_pointers_to_memory(places: &Places) {
    let Places { layout, root, chunks, slab, free_run, list, cursor, .. } = *places;
    let damaged = |offset: u64, value| {
        let mut heap = heap(layout);
        heap.words[offset as usize / 8] = value;
        heap
    };
    let (object, bytes) = (|index| places.object(index), BYTES as usize);
    // The words that lead to the next object: the list, then (the list empty) the cursor.
    let lists = [object(0), object(2) + 8, object(5), 8, slab, u64::MAX, 1 << 47];
    for bad in lists.into_iter().chain([layout.arena(0)]) {
        let mut heap = damaged(list, bad);
        assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::BadPointer), "list {bad:#x}");
    }
    let cursors = [1, 16, root, object(5) + 16, slab + 65536 - 32, places.block(0), 1 << 47];
    for bad in cursors.into_iter().chain([layout.arena(0) + 64, u64::MAX]) {
        let mut heap = damaged(cursor, bad);
        heap.words[list as usize / 8] = 0;
        assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::BadPointer), "cursor {bad:#x}");
    }
    // The words that lead to chunks: the list of free runs, their heads, the frontier.
    let first = chunks + 8;
    let run = free_run / CHUNK_BYTES;
    let bad = [(first, 1), (first, run + 2), (first, u64::MAX), (chunks, 0), (chunks, 1 << 60)];
    for (offset, value) in bad.into_iter().chain([
        (free_run + 16, 2),
        (free_run + 24, 0),
        (free_run + 24, u64::MAX),
        (free_run + 32, run),
        (free_run + 8, 0),
    ]) {
        let mut heap = damaged(offset, value);
        assert_eq!(heap.run(|tx| tx.reserve_blocks(1)), Err(Stop::BadPointer), "at {offset:#x}");
        assert_eq!(heap.run(|tx| tx.allocate(900)), Err(Stop::BadPointer), "at {offset:#x}");
        let last = layout.block(places.last_run / CHUNK_BYTES, 0);
        let at = Addr::new(u64::from(TAG) << 48 | last, 0);
        assert_eq!(heap.run(|tx| tx.retire(at, 256)), Err(Stop::BadPointer), "at {offset:#x}");
    }
}

/// Calls everything that a program can call, once; any result is allowed, but each call returns.
fn use_it(heap: &mut TestHeap) {
    let tag = u64::from(TAG) << 48;
    let places = Places::of(heap.layout());
    let first = places.layout.first_slot();
    let chunks = [places.run, places.free_run, places.last_run].map(|chunk| chunk + first);
    for at in [places.object(0), places.object(2)].into_iter().chain(chunks) {
        for bytes in [BYTES, 256, 768] {
            let _ = heap.run(|tx| tx.retire(Addr::new(tag | at, 0), bytes));
        }
        let _ = heap.run(|tx| tx.prepare_blocks(tag | at, 3));
    }
    for bytes in [16, BYTES as usize, BYTES as usize, BYTES as usize, 1024] {
        let _ = heap.run(|tx| tx.allocate(bytes));
    }
    for blocks in [1, 300, 1000] {
        let _ = heap.run(|tx| tx.reserve_blocks(blocks));
    }
}

/// Checks the heap by every method; their results agree.
fn check_all(heap: &TestHeap) {
    let (checked, survey) = (heap.check(), heap.survey());
    assert_eq!(checked.err(), survey.damage.first().copied());
    assert!(checked.is_err() || survey.complete);
    let _ = heap.live();
}

/// Checks and uses a heap, and then once more in its changed state.
fn look_and_use(heap: &mut TestHeap) {
    check_all(heap);
    use_it(heap);
    check_all(heap);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_damage_never_panics(
        layout in prop::sample::select(LAYOUTS.to_vec()),
        changes in proptest::collection::vec((any::<usize>(), any::<u64>()), 1..200),
        near in proptest::collection::vec((0..64_usize, 0..8_usize, 0..1_000_000_u64), 0..8),
    ) {
        let mut heap = heap(layout);
        let words = heap.words.len();
        for (index, word) in changes {
            heap.words[index % words] = word;
        }
        // Small values near the metadata get further than random words.
        for (word, place, value) in near {
            heap.words[Places::of(layout).metadata()[place] as usize / 8 + word] = value;
        }
        look_and_use(&mut heap);
    }

    #[test]
    fn moved_metadata_never_panic(
        layout in prop::sample::select(LAYOUTS.to_vec()),
        moves in proptest::collection::vec((0..4096_usize, 0..4096_usize), 1..40),
    ) {
        // Words that were valid elsewhere pass more checks than garbage does.
        let mut heap = heap(layout);
        let metadata = Places::of(layout).metadata();
        let place = |i: usize| metadata[i % 8] as usize / 8 + i / 8;
        for (from, to) in moves {
            heap.words[place(to)] = heap.words[place(from)];
        }
        look_and_use(&mut heap);
    }

    #[test]
    fn heap_of_garbage_never_panics(
        layout in prop::sample::select(LAYOUTS.to_vec()),
        seed in any::<u64>(),
    ) {
        let mut heap = TestHeap::laid_out(layout, 6);
        let mut state = seed;
        for word in &mut heap.words[(layout.own_chunks() * CHUNK_BYTES / 8) as usize..] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *word = state >> (state >> 58);
        }
        heap.words[layout.chunks_object() as usize / 8] = layout.own_chunks() - 1 + seed % 7;
        look_and_use(&mut heap);
    }
}
