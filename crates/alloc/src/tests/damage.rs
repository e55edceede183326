//! Damaged heaps: the check names the damage, and no operation panics or loops for ever.

use proptest::prelude::*;
use words::{Addr, Allocate, Stop, Words};

use super::free;
use crate::head::own_header;
use crate::layout::Layout;
use crate::pages::bin_of;
use crate::state::{Cache, OwnSlab, SLOTS_MAX, State};
use crate::test_heap::{LAYOUTS, TAG, TestHeap};
use crate::{Plan, Wrong};

/// Size of the objects: of neither layout's first class, and 128 apart in both.
const BYTES: u64 = 100;

/// Makes a heap. Arena 0 owns a slab with live objects 0, 1, 4 and has the free ones 2 -> 3 in its
/// cache. Arena 1 has 5 in its cache, and 6 is live. The heap also has an array of three blocks
/// (two prepared) and one without a prepared block. Other memory is a free run, a long string, and
/// a slab of 1000 bytes on the partial list.
fn heap(layout: Layout) -> TestHeap {
    let mut heap = TestHeap::laid_out(layout, 40);
    let objects = [(); 7].map(|()| heap.run(|tx| tx.allocate(BYTES as usize)).unwrap());
    let arrays = [3, 1, 1].map(|blocks| heap.run(|tx| tx.reserve_blocks(blocks)).unwrap());
    heap.run(|tx| tx.prepare_blocks(arrays[0], 2)).unwrap();
    heap.run(|tx| tx.allocate_pieces(STRING)).unwrap();
    free(&mut heap, objects[3], BYTES).unwrap();
    free(&mut heap, objects[2], BYTES).unwrap();
    heap.arena = 1;
    free(&mut heap, objects[5], BYTES).unwrap();
    heap.arena = 2;
    // Two slabs: when the second begins, the first is full.
    let class = layout.class_of(1000).unwrap();
    let slots = layout.slots(layout.slab_units(class, heap.heap.units()), class);
    let listed: Vec<_> = (0..=slots).map(|_| heap.run(|tx| tx.allocate(1000)).unwrap()).collect();
    for &object in &listed[..slots as usize - 1] {
        free(&mut heap, object, 1000).unwrap();
    }
    free(&mut heap, arrays[1], 256).unwrap();
    heap.arena = 0;
    heap.check().unwrap();
    heap
}

/// Size of the long string, in a run of its own.
const STRING: u64 = 40_000;

/// The offsets of its parts.
struct Places {
    layout: Layout,
    root: u64,
    pages: u64,
    owners: u64,
    /// The first bytes of the runs.
    slab: u64,
    array: u64,
    free_run: u64,
    last_array: u64,
    string: u64,
    listed: u64,
    /// Arena 0's pair of words: its cache, and the slab.
    pair: u64,
}

impl Places {
    fn of(layout: Layout) -> Places {
        let heap = heap(layout);
        let class = layout.class_of(BYTES as usize).unwrap();
        let (object, offset) = layout.pair(0, class);
        let pair = object + offset;
        let mut unit = OwnSlab::decode(heap.word(pair + 8)).unwrap().unit;
        let mut next = || {
            let begin = layout.offset(unit);
            unit += heap.word(begin + 24);
            begin
        };
        let [slab, array, free_run, last_array, string, listed] = [(); 6].map(|()| next());
        let (root, pages, owners) = (layout.root(), layout.pages(), layout.owners());
        Places {
            layout,
            root,
            pages,
            owners,
            slab,
            array,
            free_run,
            last_array,
            string,
            listed,
            pair,
        }
    }

    fn unit(&self, place: u64) -> u64 {
        place / self.layout.unit_bytes()
    }

    fn object(&self, index: u64) -> u64 {
        self.slab + self.layout.first_object() + 128 * index
    }

    fn block(&self, index: u64) -> u64 {
        self.layout.block(self.unit(self.array), index)
    }

    /// Returns the place of the list of the listed slab's class.
    fn list(&self) -> u64 {
        let class = self.layout.class_of(1000).unwrap();
        self.layout.list(class)
    }

    /// Returns the place of the bin of the free run, and the number of the bin.
    fn bin(&self) -> (u64, usize) {
        let bin = bin_of(self.unit(self.last_array - self.free_run));
        let (object, offset) = self.layout.bin(bin);
        (object + offset, bin)
    }

    /// Returns the distance of arenas.
    fn arenas(&self) -> u64 {
        self.layout.arena(1) - self.layout.arena(0)
    }

    /// Returns offsets of metadata.
    fn metadata(&self) -> [u64; 8] {
        let Places { pages, slab, array, free_run, string, listed, pair, .. } = *self;
        [0, pages / 64 * 64, pair / 64 * 64, slab, array, free_run, string, listed]
    }
}

/// Returns every kind of damage to a heap of either layout: offset, word, kind.
fn injected(layout: Layout) -> Vec<(u64, u64, Wrong)> {
    let at = Places::of(layout);
    let Places { root, pages, owners, slab, array, free_run, last_array, listed, pair, .. } = at;
    let units = heap(layout).heap.units();
    let cache = Cache::decode(heap(layout).word(pair));
    let own = OwnSlab::decode(heap(layout).word(pair + 8)).unwrap();
    let list = State::decode(heap(layout).word(listed + 40)).unwrap();
    let (bin, bin_number) = at.bin();
    vec![
        (root, 1, Wrong::Magic),
        (root + 8, 3, Wrong::Version),
        (root - 8, 0, Wrong::OwnHeader),
        (pages - 8, 7, Wrong::OwnHeader),
        (owners - 8, 7, Wrong::OwnHeader),
        (root + 40, 1, Wrong::Reserved),
        (pages + 56, 1, Wrong::Reserved),
        (owners + 8, 1, Wrong::Reserved),
        (at.list() + 16, 1, Wrong::Reserved),
        (pages, 0, Wrong::Frontier),
        (pages, layout.own_units() - 1, Wrong::Frontier),
        (pages, units + 1, Wrong::Frontier),
        (pages + 8, layout.own_units(), Wrong::Frontier),
        (pages + 8, units + 1, Wrong::Frontier),
        (pages + 16, 1 << bin_number | 1 << 9, Wrong::BinMap),
        (pages + 16, 0, Wrong::BinMap),
        (owners, heap(layout).word(owners) ^ 1, Wrong::Owners),
        (owners, heap(layout).word(owners) | 1 << 32, Wrong::Owners),
        (16, 1, Wrong::RunHead),
        (24, 2, Wrong::RunHead),
        (slab + 16, 0, Wrong::RunHead),
        (slab + 16, 4, Wrong::RunHead),
        (slab + 24, 0, Wrong::RunHead),
        (slab + 40, 1 << 50, Wrong::RunHead),
        (slab + 48, 1, Wrong::RunHead),
        (array + 24, 50, Wrong::RunHead),
        (array + 48, 4, Wrong::RunHead),
        (array + 56, 2, Wrong::RunHead),
        (array + 8, 0, Wrong::OwnHeader),
        (array + 32, 1, Wrong::Before),
        (last_array + 32, 0, Wrong::Before),
        (free_run + 24, 0, Wrong::RunHead),
        (free_run + 24, u64::MAX, Wrong::RunHead),
        (free_run + 40, at.unit(array), Wrong::Bin),
        (free_run + 48, at.unit(array), Wrong::Bin),
        (free_run + 40, units, Wrong::RunHead),
        (bin, at.unit(array), Wrong::Bin),
        (bin, 0, Wrong::BinMap),
        (at.list(), at.unit(slab), Wrong::SlabList),
        (at.list(), 0, Wrong::LostSlab),
        (listed + 56, at.unit(slab), Wrong::SlabList),
        (listed + 40, State { count: 1, ..list }.encode(), Wrong::State),
        (listed + 40, State { first: 0, ..list }.encode(), Wrong::State),
        (listed + 40, State { first: list.carved, ..list }.encode(), Wrong::FreeList),
        (pair + 8, OwnSlab { unit: at.unit(array), ..own }.encode(), Wrong::Owner),
        (pair + 8, OwnSlab { unit: units + 5, ..own }.encode(), Wrong::Owner),
        (pair + 8, 1 << 50, Wrong::Owner),
        (pair + 8, 0, Wrong::Ownerless),
        (pair + 8, OwnSlab { carved: SLOTS_MAX, ..own }.encode(), Wrong::State),
        (pair, Cache { count: 1, ..cache }.encode(), Wrong::State),
        (pair, Cache { first: 0, ..cache }.encode(), Wrong::State),
        (pair, Cache { first: at.object(1), ..cache }.encode(), Wrong::FreeList),
        (pair, Cache { first: 8 * units, ..cache }.encode(), Wrong::FreeList),
        (pair, Cache { first: 0, count: 0, ..cache }.encode(), Wrong::Lost),
        (at.object(2), 1, Wrong::FreeList),
        (at.object(3), at.object(2), Wrong::FreeList),
    ]
}

/// Returns the further kinds of damage to a heap with headers.
fn injected_headers() -> Vec<(u64, u64, Wrong)> {
    let at = Places::of(Layout::Ordinary);
    let piece = at.string + 80 + words::PIECE_STRIDE;
    vec![
        (at.pair / 64 * 64 + 8, 0, Wrong::OwnHeader),
        (at.list() - 8, 0, Wrong::OwnHeader),
        (at.slab + 8, 0, Wrong::OwnHeader),
        (at.object(0) - 8, 0, Wrong::Object),
        (at.object(2) - 8, 0, Wrong::Object),
        (at.object(4) - 8, 1 << 50, Wrong::Object),
        (at.block(0) - 8, 0, Wrong::Block),
        (at.block(1) - 8, 0, Wrong::Block),
        (at.last_array + 72, 0, Wrong::Block),
        (at.string + 72, 0, Wrong::Object),
        (piece - 8, 0, Wrong::Piece),
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
        // Both free objects of the arena's list are lost, or the run of an empty bin.
        let empty = (offset, value) == (Places::of(layout).bin().0, 0);
        let echoes = usize::from(wrong == Wrong::Lost || empty);
        assert_eq!(all.len(), 1 + echoes, "{value:#x} at {offset:#x}: {all:#x?}");
        assert_eq!(damage.wrong, wrong, "{value:#x} at {offset:#x}: {damage}");
        // A list that misses an object or a slab is reported at another place.
        let elsewhere =
            [Wrong::Lost, Wrong::FreeList, Wrong::LostSlab, Wrong::OwnHeader, Wrong::Ownerless];
        if !elsewhere.contains(&wrong) && !empty {
            assert_eq!((damage.offset, damage.found), (offset, value), "{damage}");
            assert_ne!(damage.expected, damage.found);
        }
        assert!(damage.to_string().contains("heap offset 0x"), "{damage}");
    }
}

#[test]
fn all_damage_is_found_without_echoes() {
    let at = Places::of(Layout::Ordinary);
    let damages = [
        (at.layout.pair(1, 0).0 - 8, 5, Wrong::OwnHeader),
        (at.pages + 56, 1, Wrong::Reserved),
        (at.layout.owners(), 5, Wrong::Owners),
        (at.layout.pair(1, 8).0 + 8, u64::MAX, Wrong::Owner),
        (at.object(0) - 8, 0, Wrong::Object),
        (at.object(4) - 8, 1 << 50, Wrong::Object),
        (at.block(0) - 8, 0, Wrong::Block),
        (at.block(1) - 8, 0, Wrong::Block),
        (at.free_run + 24, 0, Wrong::RunHead),
        (at.last_array + 72, 0, Wrong::Block),
    ];
    let mut heap = heap(Layout::Ordinary);
    for (offset, value, _) in damages {
        heap.words[offset as usize / 8] = value;
    }
    // The header of the arena's object that has a pair now.
    let object = at.layout.pair(1, 8).0;
    heap.words[object as usize / 8 - 1] = own_header(object, 48);
    let survey = heap.survey();
    let mut found: Vec<_> = survey.damage.iter().map(|one| (one.offset, one.wrong)).collect();
    let mut expected: Vec<_> = damages.iter().map(|damage| (damage.0, damage.2)).collect();
    found.sort_by_key(|damage| damage.0);
    expected.sort_by_key(|damage| damage.0);
    assert_eq!(found, expected);
    assert!(!survey.complete);
    assert_eq!(survey.usage.arrays, 2);
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
    let own = OwnSlab { unit: at.unit(at.slab), carved: 100 };
    heap.words[at.pair as usize / 8 + 1] = own.encode();
    heap.words[at.slab as usize / 8 + 8..at.array as usize / 8].fill(7);
    heap.words[at.listed as usize / 8 + 8..at.listed as usize / 8 + 8 * 1024].fill(7);
    let survey = heap.survey();
    assert!(survey.damage.len() > 20 && survey.damage.len() <= crate::Survey::DAMAGE_MAX);
    assert!(!survey.complete);
}

#[test]
fn slab_of_two_arenas_is_damage() {
    for layout in LAYOUTS {
        let (mut heap, at) = (heap(layout), Places::of(layout));
        for word in 0..2 {
            let pair = at.pair as usize / 8 + word;
            heap.words[pair + at.arenas() as usize / 8] = heap.words[pair];
        }
        if layout.has_headers() {
            let object = (at.pair + at.arenas()) / 64 * 64 + 16;
            heap.words[object as usize / 8 - 1] = own_header(object, 48);
        }
        assert_eq!(heap.check().unwrap_err().wrong, Wrong::Owner);
    }
}

#[test]
fn heap_below_minimum_is_refused() {
    for layout in LAYOUTS {
        let small = TestHeap::zeros_of(layout, layout.offset(layout.own_units()));
        assert_eq!(small.check().unwrap_err().wrong, Wrong::Size);
        assert_eq!(TestHeap::zeros(layout, 2).check().unwrap_err().wrong, Wrong::Magic);
    }
}

#[test]
fn damaged_heap_allocates_nothing() {
    for layout in LAYOUTS {
        let places = Places::of(layout);
        damage_arena(&places);
        damage_pointers_to_memory(&places);
    }
}

/// Returns the heap with one wrong word.
fn damaged(layout: Layout, offset: u64, value: u64) -> TestHeap {
    let mut heap = heap(layout);
    heap.words[offset as usize / 8] = value;
    heap
}

/// Damages the words that lead to the next object: the arena's cache and its slab.
fn damage_arena(places: &Places) {
    let Places { layout, array, pair, .. } = *places;
    let damaged = |offset, value| damaged(layout, offset, value);
    let (bytes, units) = (BYTES as usize, heap(layout).heap.units());
    let cache = Cache::decode(heap(layout).word(pair));
    let own = OwnSlab::decode(heap(layout).word(pair + 8)).unwrap();
    for bad in [
        Cache { first: places.object(1), ..cache },
        Cache { first: places.object(2) + 16, ..cache },
        Cache { first: 16, ..cache },
        Cache { count: 0, ..cache },
        Cache { count: 1, ..cache },
        Cache::decode(u64::MAX),
    ] {
        let mut heap = damaged(pair, bad.encode());
        assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::BadPointer), "{bad:?}");
    }
    // The link of the next object. Neither the heap's end nor an offset between objects is a valid
    // link.
    for bad in [8, 1 << 47, u64::MAX, 8 * heap(layout).words.len() as u64, 0] {
        let mut heap = damaged(places.object(2), bad);
        assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::BadPointer), "link {bad:#x}");
    }
    let bad_unit = [1, places.unit(array), units - 1, units].map(|unit| OwnSlab { unit, ..own });
    let bad_unit = bad_unit.map(OwnSlab::encode).into_iter();
    let none_left = OwnSlab { carved: SLOTS_MAX, ..own }.encode();
    for bad in bad_unit.chain([u64::MAX, 1 << 50, none_left]) {
        let mut heap = damaged(pair + 8, bad);
        heap.words[pair as usize / 8] = 0;
        assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::BadPointer), "slab {bad:#x}");
    }
}

fn damage_pointers_to_memory(places: &Places) {
    let Places { layout, pages, slab, array, free_run, listed, .. } = *places;
    let damaged = |offset, value| damaged(layout, offset, value);
    let units = heap(layout).heap.units();
    // The words that lead to runs: bins, their bitmap, heads, the frontier.
    let blocks = 3;
    let (bin, number) = places.bin();
    for (offset, value) in [
        (pages, 0),
        (pages, 1 << 60),
        (pages + 8, 0),
        (bin, places.unit(array)),
        (bin, units),
        (bin, u64::MAX),
        (free_run + 16, 2),
        (free_run + 24, 0),
        (free_run + 24, u64::MAX),
        (free_run + 8, 0),
        (free_run + 40, places.unit(slab)),
        (free_run + 48, places.unit(slab)),
    ] {
        let mut heap = damaged(offset, value);
        let taken = heap.run(|tx| tx.reserve_blocks(blocks));
        assert_eq!(taken, Err(Stop::BadPointer), "{value:#x} at {offset:#x}");
    }
    let mut heap = damaged(pages + 16, 1 << (number + 2));
    heap.words[bin as usize / 8] = 0;
    assert_eq!(heap.run(|tx| tx.reserve_blocks(blocks)), Err(Stop::BadPointer), "bitmap");
    // The words that lead to partly used slabs.
    for (offset, value) in [
        (places.list(), places.unit(slab)),
        (places.list(), u64::MAX),
        (listed + 8, 0),
        (listed + 40, 1 << 50),
        (listed + 48, places.unit(array)),
        (listed + 56, places.unit(array)),
    ] {
        let mut heap = damaged(offset, value);
        heap.arena = 7;
        assert_eq!(
            heap.run(|tx| tx.allocate(1000)),
            Err(Stop::BadPointer),
            "{value:#x} at {offset:#x}"
        );
    }
}

/// Calls everything that a program can call, once; any result is allowed, but each call returns.
fn use_it(heap: &mut TestHeap) {
    let tag = u64::from(TAG) << 48;
    let places = Places::of(heap.layout());
    let first = places.layout.first_object();
    let Places { array, free_run, last_array, string, listed, .. } = places;
    let runs = [array, free_run, last_array, string, listed].map(|run| run + first);
    for at in [places.object(0), places.object(2)].into_iter().chain(runs) {
        for bytes in [BYTES, 256, 768, 1000, STRING] {
            let _ = heap.run(|tx| tx.resize(tag | at, bytes, bytes + 10));
            let _ = heap.run(|tx| tx.retire(Addr::new(tag | at, 0), bytes));
        }
        let _ = heap.run(|tx| tx.prepare_blocks(tag | at, 3));
    }
    for bytes in [1025, 3000, 50_000, 10_000_000] {
        let _ = heap.run(|tx| tx.allocate_pieces(bytes));
    }
    heap.arena = 7;
    let _ = heap.run(|tx| tx.allocate(1000));
    for bytes in [16, BYTES as usize, BYTES as usize, BYTES as usize, 1024] {
        let _ = heap.run(|tx| tx.allocate(bytes));
    }
    for blocks in [1, 300, 1000, 100_000] {
        let _ = heap.run(|tx| tx.reserve_blocks(blocks));
    }
    // The cache cannot keep all of them, so some return to their slab.
    let objects: Vec<_> = (0..100).filter_map(|_| heap.run(|tx| tx.allocate(200)).ok()).collect();
    for object in objects {
        let _ = free(heap, object, 200);
    }
    let shared = heap.heap;
    let owners = heap.run(|tx| shared.owners(tx)).unwrap_or(u64::MAX);
    let mut plan = Plan::new(shared.classes(), owners);
    while let Some(step) = plan.step() {
        plan.done(heap.run(|tx| shared.reclaim(tx, step)).ok());
    }
}

/// Checks the heap by every method; their results agree.
fn check_all(heap: &TestHeap) {
    let (checked, survey) = (heap.check(), heap.survey());
    assert_eq!(checked.as_ref().err(), survey.damage.first());
    assert!(checked.is_err() || survey.complete);
    let _ = heap.live();
    let _ = heap.heap.usage_now(|offset| heap.word(offset));
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
        for word in &mut heap.words[layout.offset(layout.own_units()) as usize / 8..] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *word = state >> (state >> 58);
        }
        heap.words[layout.pages() as usize / 8] = layout.own_units() - 1 + seed % 7;
        look_and_use(&mut heap);
    }
}
