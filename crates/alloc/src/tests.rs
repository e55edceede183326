//! The allocator's contract, on a heap that rolls back, injects conflicts and counts accesses.

use words::{Addr, Allocate, Stop, Words};

use crate::layout::Layout;
use crate::state::Cache;
use crate::test_heap::{LAYOUTS, TestHeap};
use crate::{Plan, Reclaimed, Step};

mod blocks;
mod convert;
mod damage;
mod golden;
mod line_isolated;
mod model;
mod runs;
mod strings;

/// Fills the heap with objects of one size, by one arena.
fn fill(heap: &mut TestHeap, bytes: usize) -> Vec<u64> {
    let mut objects = Vec::new();
    let mut reclaimed = false;
    loop {
        match heap.run(|tx| tx.allocate(bytes)) {
            Ok(object) => objects.push(object),
            Err(stop) => {
                assert_eq!(stop, Stop::Full);
                if std::mem::replace(&mut reclaimed, true) {
                    return objects;
                }
                heap.reclaim();
            }
        }
    }
}

/// Returns the most freed slots of a class that a cache keeps.
fn cached_max(heap: &TestHeap, class: usize) -> u64 {
    (heap.heap.bytes / 256).div_ceil(heap.layout().slot_bytes(class))
}

fn free(heap: &mut TestHeap, object: u64, bytes: u64) -> Result<(), Stop> {
    heap.run(|tx| tx.retire(Addr::new(object, 0), bytes))
}

#[test]
fn new_heap_is_empty_and_formatted_once() {
    for layout in LAYOUTS {
        let mut heap = TestHeap::laid_out(layout, 4);
        let usage = heap.check().unwrap();
        let own = layout.offset(layout.own_units());
        assert_eq!(usage.heap_bytes, 8 * heap.words.len() as u64);
        assert_eq!((usage.free_bytes, usage.objects), (usage.heap_bytes - own, 0));
        assert_eq!(usage.largest_free_bytes, usage.free_bytes);
        assert_eq!(heap.run(|tx| tx.root()), Ok(0));
        assert_eq!(heap.run(|tx| tx.format()), Err(Stop::BadValue));
        heap.run(|tx| tx.set_root(77)).unwrap();
        assert_eq!(heap.run(|tx| tx.root()), Ok(77));
        assert_eq!(heap.heap.root_at_rest(|offset| heap.words[offset as usize / 8]), 77);
        assert_eq!(heap.live(), []);
        heap.check().unwrap();
    }
}

#[test]
fn heap_below_minimum_is_full() {
    let least = [crate::HEAP_BYTES_MIN, crate::LINE_ISOLATED_BYTES_MIN];
    for (layout, least) in LAYOUTS.into_iter().zip(least) {
        let mut heap = TestHeap::zeros_of(layout, least - crate::CHUNK_BYTES);
        assert_eq!(heap.run(|tx| tx.format()), Err(Stop::Full));
        assert_eq!(heap.live(), []);
        let mut heap = TestHeap::zeros_of(layout, least);
        heap.run(|tx| tx.format()).unwrap();
        heap.run(|tx| tx.allocate(1024)).unwrap();
    }
}

#[test]
fn object_size_is_1_to_1024_bytes() {
    for layout in LAYOUTS {
        let mut heap = TestHeap::laid_out(layout, 4);
        for bytes in [0, 1025, usize::MAX] {
            assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::BadSize));
        }
    }
}

#[test]
fn common_allocation_touches_only_its_arena() {
    let mut heap = TestHeap::new(80);
    let first = heap.run(|tx| tx.allocate(64)).unwrap();
    let slab = first % (1 << 48) / 1024 * 1024;
    let arena = heap.layout().arena(0);
    let own = |offset: &u64| (arena..arena + 1344).contains(offset) || *offset >= slab;

    let carved = heap.run(|tx| tx.allocate(64)).unwrap();
    assert_eq!((heap.reads, heap.writes), (4, 3), "from the slab");
    assert!(heap.touched.iter().all(own), "{:x?}", heap.touched);

    heap.run(|tx| tx.retire(Addr::new(carved, 0), 64)).unwrap();
    assert_eq!((heap.reads, heap.writes), (2, 3), "freed");
    assert!(heap.touched.iter().all(own));

    assert_eq!(heap.run(|tx| tx.allocate(64)), Ok(carved));
    assert_eq!((heap.reads, heap.writes), (3, 2), "from the cache");
    assert!(heap.touched.iter().all(own));
}

#[test]
fn freed_heap_serves_every_size_again() {
    for (layout, bytes) in LAYOUTS.iter().flat_map(|&l| [1, 64, 100, 1024].map(|b| (l, b))) {
        let mut heap = TestHeap::laid_out(layout, 20);
        let objects = fill(&mut heap, bytes);
        assert_eq!(heap.check().unwrap().objects, objects.len() as u64);
        for (number, &object) in objects.iter().enumerate() {
            heap.arena = number % 7;
            free(&mut heap, object, bytes as u64).unwrap();
        }
        heap.reclaim();
        let usage = heap.check().unwrap();
        assert_eq!(usage.objects, 0);
        heap.arena = 9;
        let mut kept = 0;
        for other in [900, 200, 16] {
            // Nothing calls `reclaim` in this layout, so the class before keeps two slabs: the
            // arena's, and the last one of its list.
            kept += if layout.has_headers() { 0 } else { 2 * layout.offset(1) };
            let others = fill(&mut heap, other);
            let class = layout.class_of(other).unwrap();
            let taken = others.len() as u64 * layout.slot_bytes(class);
            assert!(
                100 * taken >= 90 * (usage.free_bytes - kept),
                "{other} after {bytes}: {taken}"
            );
            others.iter().for_each(|&object| free(&mut heap, object, other as u64).unwrap());
            heap.check().unwrap();
        }
        let again = fill(&mut heap, bytes).len();
        let class = layout.class_of(bytes).unwrap();
        // The seven caches keep their slots in this layout, too.
        let cached = if layout.has_headers() { 0 } else { 7 * cached_max(&heap, class) };
        let others = kept / layout.slot_bytes(class) + cached;
        assert!(again + others as usize >= objects.len(), "{bytes}: {again} of {}", objects.len());
        heap.check().unwrap();
    }
}

#[test]
fn slots_freed_by_another_arena_are_reused() {
    for layout in LAYOUTS {
        let mut heap = TestHeap::laid_out(layout, 8);
        let free_bytes = |heap: &TestHeap| heap.check().unwrap().free_bytes;
        let own = layout.offset(layout.own_units() + layout.slab_units(6, heap.heap.units()));
        for round in 0..20_000 {
            heap.arena = 1;
            let object = heap.run(|tx| tx.allocate(100)).unwrap();
            if round % 500 == 0 {
                let free = free_bytes(&heap);
                let all = 8 * heap.words.len() as u64;
                assert!(free + own >= all, "round {round}: {free} bytes are free");
            }
            heap.arena = 2;
            free(&mut heap, object, 100).unwrap();
        }
    }
}

#[test]
fn full_heap_takes_slots_freed_by_another_arena() {
    for layout in LAYOUTS {
        let mut heap = TestHeap::laid_out(layout, 3);
        let objects = fill(&mut heap, 200);
        // The line-isolated layout has no reclaim: a slot returns to its slab only when the cache
        // is full.
        let cached = cached_max(&heap, layout.class_of(200).unwrap()) as usize;
        let cached = if layout.has_headers() { 0 } else { cached };
        heap.arena = 20;
        for &object in &objects[..=cached] {
            free(&mut heap, object, 200).unwrap();
        }
        heap.check().unwrap();
        heap.arena = 0;
        assert_eq!(heap.run_reclaiming(|tx| tx.allocate(200)), Ok(objects[cached]));
        assert_eq!(heap.run_reclaiming(|tx| tx.allocate(200)), Err(Stop::Full));
    }
}

#[test]
fn full_heap_takes_cached_and_larger_slots() {
    let mut heap = TestHeap::new(3);
    let bytes = 600;
    heap.arena = 3;
    let objects = fill(&mut heap, bytes);
    // The last slab belongs to arena 3, with one free slot.
    let last = *objects.last().unwrap();
    free(&mut heap, last, bytes as u64).unwrap();
    heap.arena = 5;
    assert_eq!(heap.run(|tx| tx.allocate(bytes)), Err(Stop::Full));
    assert_eq!(heap.run_reclaiming(|tx| tx.allocate(bytes)), Ok(last), "another arena's slot");
    free(&mut heap, last, bytes as u64).unwrap();
    let smaller = 550;
    assert_ne!(heap.layout().class_of(smaller), heap.layout().class_of(bytes));
    assert_eq!(heap.run(|tx| tx.allocate(smaller)), Ok(last), "a larger slot");
    assert_eq!(heap.run(|tx| tx.allocate(16)), Err(Stop::Full), "no slot of twice the size");
    heap.check().unwrap();
}

/// A cache keeps the first slots that a worker frees, and the others return to their slab.
#[test]
fn cache_size_is_bounded() {
    for (layout, bytes) in LAYOUTS.iter().flat_map(|&layout| [16, 1000].map(|b| (layout, b))) {
        let mut heap = TestHeap::laid_out(layout, 80);
        let class = layout.class_of(bytes).unwrap();
        let most = cached_max(&heap, class);
        let objects: Vec<_> =
            (0..2 * most).map(|_| heap.run(|tx| tx.allocate(bytes)).unwrap()).collect();
        heap.arena = 1;
        for (freed, &object) in (1..).zip(&objects) {
            free(&mut heap, object, bytes as u64).unwrap();
            let (pair, offset) = layout.pair(1, class);
            let cache = Cache::decode(heap.word(pair + offset));
            assert_eq!(cache.count, most.min(freed), "{bytes} bytes");
        }
        heap.check().unwrap();
        // The worker takes its own slots first, the last one before the others.
        let taken = heap.run(|tx| tx.allocate(bytes)).unwrap();
        assert_eq!(taken, objects[most as usize - 1]);
    }
}

#[test]
fn full_cache_free_touches_one_slab() {
    let mut heap = TestHeap::new(80);
    let class = heap.layout().class_of(64).unwrap();
    let cached = cached_max(&heap, class) as usize;
    let slots = heap.layout().slots(heap.layout().slab_units(class, heap.heap.units()), class);
    // Three slabs whose slots are all live, and a full cache.
    let count = cached + 3 * slots as usize;
    let objects: Vec<_> = (0..count).map(|_| heap.run(|tx| tx.allocate(64)).unwrap()).collect();
    objects[..cached].iter().for_each(|&object| free(&mut heap, object, 64).unwrap());
    let second = &objects[slots as usize..];
    free(&mut heap, second[0], 64).unwrap();
    assert_eq!((heap.reads, heap.writes), (10, 6), "the slab joins an empty list");
    free(&mut heap, second[1], 64).unwrap();
    assert_eq!((heap.reads, heap.writes), (9, 3), "the slab stays on its list");
    heap.check().unwrap();
}

#[test]
fn reclaim_returns_cached_slots_in_steps() {
    let mut heap = TestHeap::new(400);
    let all = heap.check().unwrap().free_bytes;
    let objects: Vec<_> = (0..1000).map(|_| heap.run(|tx| tx.allocate(16)).unwrap()).collect();
    for &object in &objects {
        free(&mut heap, object, 16).unwrap();
    }
    let shared = heap.heap;
    let owners = heap.run(|tx| shared.owners(tx)).unwrap();
    let mut plan = Plan::new(shared.classes(), owners);
    let (mut steps, mut too_large) = (0, 0);
    while let Some(step) = plan.step() {
        // Refuse large steps of the first arena, as a design with a size limit does.
        if step.arena == heap.arena && (step.classes.len() > 20 || step.slots_max > 16) {
            plan.too_large();
            too_large += 1;
            continue;
        }
        plan.done(Some(heap.run(|tx| shared.reclaim(tx, step)).unwrap()));
        heap.check().unwrap();
        steps += 1;
    }
    assert!(plan.gained());
    assert_eq!(heap.check().unwrap().free_bytes, all);
    assert!(steps > 1000 / 16 && too_large > 2, "{steps} steps, {too_large} too large");
}

/// The plan ends even if every transaction loses its conflicts or exceeds a size limit.
#[test]
fn reclaim_plan_ends() {
    let heap = TestHeap::new(20).heap;
    let mut plan = Plan::new(heap.classes(), 0b101);
    let mut refused = 0;
    while plan.step().is_some() {
        plan.too_large();
        refused += 1;
    }
    assert!(refused > 3 * heap.classes() && !plan.gained());
    let mut plan = Plan::new(heap.classes(), 0b101);
    let mut arenas = Vec::new();
    while let Some(step) = plan.step() {
        arenas.push(step.arena);
        // The cache never becomes smaller.
        plan.done(Some(Reclaimed { gained: false, left: 9, next: step.classes.start }));
    }
    assert_eq!(arenas, [0, 0, 2, 2, crate::ARENAS, crate::ARENAS]);
    let mut plan = Plan::new(heap.classes(), 0b101);
    let mut arenas = Vec::new();
    while let Some(step) = plan.step() {
        arenas.push(step.arena);
        plan.done(None);
    }
    assert_eq!(arenas, [0, 2, crate::ARENAS], "each arena loses once");
}

/// The empty slab is second on its list: the reclaim puts an arena's slab before it.
#[test]
fn reclaim_frees_empty_slab_behind_another() {
    let mut heap = TestHeap::new(400);
    let layout = heap.layout();
    let slots = layout.slots(layout.slab_units(0, heap.heap.units()), 0) as usize;
    let all = heap.check().unwrap().free_bytes;
    let objects: Vec<_> = (0..2 * slots).map(|_| heap.run(|tx| tx.allocate(16)).unwrap()).collect();
    let slab = all - heap.check().unwrap().free_bytes;
    for &object in objects[slots..slots + 100].iter().chain(&objects[..slots]) {
        free(&mut heap, object, 16).unwrap();
    }
    heap.reclaim();
    assert_eq!(heap.check().unwrap().free_bytes, all - slab / 2);
}

#[test]
fn failed_allocation_reads_few_words() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 40);
    for arena in 0..crate::ARENAS {
        heap.arena = arena;
        heap.run(|tx| tx.allocate(32 + arena)).unwrap();
    }
    fill(&mut heap, 1024);
    fill(&mut heap, 16);
    assert_eq!(heap.run(|tx| tx.allocate(1024)), Err(Stop::Full));
    let (reads, writes) = (heap.reads, heap.writes);
    assert!(reads < 200 && writes == 0, "{reads} words read, {writes} written");
}

#[test]
fn reclaimed_heap_serves_arrays_and_every_class() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 20);
    let all = heap.check().unwrap().free_bytes;
    for arena in 0..crate::ARENAS {
        heap.arena = arena;
        let object = heap.run(|tx| tx.allocate(32 + 16 * arena)).unwrap();
        free(&mut heap, object, 32 + 16 * arena as u64).unwrap();
    }
    assert!(heap.check().unwrap().free_bytes < all);
    heap.reclaim();
    assert_eq!(heap.check().unwrap().free_bytes, all);
    heap.run(|tx| tx.reserve_blocks((all - 64) / words::BLOCK_STRIDE)).unwrap();
    heap.check().unwrap();
}

/// A small transaction takes some classes of an arena, which owns the others until then.
#[test]
fn reclaim_of_some_classes_keeps_arena_in_bitmap() {
    let mut heap = TestHeap::laid_out(Layout::Ordinary, 20);
    let all = heap.check().unwrap().free_bytes;
    for bytes in [16, 1000] {
        let object = heap.run(|tx| tx.allocate(bytes)).unwrap();
        free(&mut heap, object, bytes as u64).unwrap();
    }
    let (shared, arena, classes) = (heap.heap, heap.arena, heap.heap.classes());
    let half = heap.layout().class_of(1000).unwrap();
    for (classes, owners) in [(0..half, 1 << arena), (half..classes, 0)] {
        let step = Step { arena, classes, slots_max: 9 };
        let done = heap.run(|tx| shared.reclaim(tx, step)).unwrap();
        assert_eq!(done, Reclaimed { gained: true, left: 0, next: 0 });
        heap.check().unwrap();
        assert_eq!(heap.run(|tx| shared.owners(tx)), Ok(owners));
    }
    assert_eq!(heap.check().unwrap().free_bytes, all);
}

#[test]
fn free_of_unallocated_memory_is_refused() {
    for layout in LAYOUTS {
        free_unallocated_memory(TestHeap::laid_out(layout, 4));
    }
}

fn free_unallocated_memory(mut heap: TestHeap) {
    let layout = heap.layout();
    let kept = heap.run(|tx| tx.allocate(100)).unwrap();
    let object = heap.run(|tx| tx.allocate(100)).unwrap();
    let tag = u64::from(crate::test_heap::TAG) << 48;
    let unused = tag | (layout.offset(layout.own_units()) + (128 << 10));
    let slab = object - layout.slot_bytes(layout.class_of(100).unwrap()) - layout.first_object();
    let end = tag | (8 * heap.words.len() as u64);
    let other_tag = object ^ 1 << 50;
    let wild = [
        (Addr::new(object, 0), 0, "no bytes"),
        (Addr::new(object, 0), 256, "a block's size"),
        (Addr::new(object, 0), u64::MAX, "any size"),
        (Addr::new(object, 16), 100, "inside the object"),
        (Addr::new(object + 16, 0), 100, "inside the object"),
        (Addr::new(object + 64, 0), 100, "inside the object"),
        (Addr::new(object + 8, 0), 100, "not aligned"),
        (Addr::new(other_tag, 0), 100, "another pool's"),
        (Addr::new(object & 0xffff_ffff, 0), 100, "without tag"),
        (Addr::new(0, 0), 100, "nothing"),
        (Addr::new(tag, 0), 100, "the heap's first byte"),
        (Addr::new(tag | layout.arena(0), 0), 240, "an arena"),
        (Addr::new(tag | layout.arena(31), 0), 64, "an arena"),
        (Addr::new(tag | layout.root(), 0), 48, "the root object"),
        (Addr::new(slab + 16, 0), 48, "the slab's head"),
        (Addr::new(unused, 0), 100, "never used"),
        (Addr::new(unused + 64, 0), 100, "never used"),
        (Addr::new(end, 0), 100, "past the heap"),
        (Addr::new(u64::MAX - 15, 0), 100, "past the address space"),
    ];
    // A header holds more: the requested size, and that a slot was never allocated.
    let with_header = [
        (Addr::new(object, 0), 99, "a smaller size"),
        (Addr::new(object, 0), 112, "the slot's size"),
        (Addr::new(object + 128, 0), 100, "never allocated"),
    ];
    let with_header = with_header.iter().filter(|_| layout.has_headers());
    for &(at, bytes, case) in wild.iter().chain(with_header) {
        assert_eq!(heap.run(|tx| tx.retire(at, bytes)), Err(Stop::BadPointer), "{case}");
    }
    free(&mut heap, object, 100).unwrap();
    assert_eq!(free(&mut heap, object, 100), Err(Stop::BadPointer), "freed twice");
    assert_eq!(heap.run(|tx| tx.retire(Addr::new(object, 0), 112)), Err(Stop::BadPointer));
    free(&mut heap, kept, 100).unwrap();
    assert_eq!(free(&mut heap, object, 100), Err(Stop::BadPointer), "freed twice");
    heap.check().unwrap();
}

#[test]
fn program_writes_live_objects_only() {
    let mut heap = TestHeap::new(4);
    let object = heap.run(|tx| tx.allocate(20)).unwrap();
    let write = |heap: &mut TestHeap, at| heap.run(|tx| tx.program_writes(at, 1)).is_ok();
    for offset in [0, 8, 16] {
        assert!(write(&mut heap, Addr::new(object, offset)));
    }
    for offset in [24, 32, 4, (-8_i64) as u64, (-16_i64) as u64] {
        assert!(!write(&mut heap, Addr::new(object, offset)), "offset {offset}");
    }
    let tag = u64::from(crate::test_heap::TAG) << 48;
    for own in [16, 80, 144, 528, 1040, 4112, 16400, 16464, object - tag - 64, object - tag + 48] {
        assert!(!write(&mut heap, Addr::new(tag | own, 0)), "at {own:#x}");
    }
    free(&mut heap, object, 20).unwrap();
    assert!(!write(&mut heap, Addr::new(object, 8)));
}

#[test]
fn abort_at_any_access_restores_the_heap() {
    for (layout, least) in [(Layout::Ordinary, 300), (Layout::LineIsolated, 200)] {
        let attempts = abort_at_any_access(TestHeap::laid_out(layout, 20));
        assert!(attempts > least, "{attempts}");
    }
}

/// Returns how many attempts were aborted.
fn abort_at_any_access(mut heap: TestHeap) -> u32 {
    // Each case takes another path: a slot of the cache, a slab's next slot, a new slab, a full
    // heap, frees to a cache and while it is full, runs that split and merge, a reclaim.
    let objects: Vec<_> = (0..20).map(|_| heap.run(|tx| tx.allocate(100)).unwrap()).collect();
    let runs: Vec<_> = (0..3).map(|_| heap.run(|tx| tx.reserve_blocks(300)).unwrap()).collect();
    for &run in &runs {
        heap.run(|tx| tx.prepare_blocks(run, 3)).unwrap();
    }
    let blocks = 300 * words::BLOCK_BYTES;
    free(&mut heap, objects[0], 100).unwrap();
    free(&mut heap, runs[1], blocks).unwrap();
    let mut attempts = 0;
    let mut attack = |heap: &mut TestHeap, body: &dyn Fn(&mut TestHeap) -> Result<(), Stop>| {
        let before = heap.words.clone();
        for accesses in 0.. {
            if !heap.run_with_conflict(accesses, body) {
                return heap.check().unwrap();
            }
            assert!(heap.words == before, "access {accesses}");
            heap.check().unwrap();
            attempts += 1;
        }
        unreachable!("every transaction ends")
    };
    attack(&mut heap, &|tx| tx.allocate(100).map(drop));
    attack(&mut heap, &|tx| tx.allocate(100).map(drop));
    attack(&mut heap, &|tx| tx.retire(Addr::new(objects[1], 0), 100));
    attack(&mut heap, &|tx| tx.retire(Addr::new(objects[2], 0), 100));
    attack(&mut heap, &|tx| tx.allocate(900).map(drop));
    attack(&mut heap, &|tx| tx.reserve_blocks(1).map(drop));
    attack(&mut heap, &|tx| tx.prepare_blocks(runs[0], 2).map(drop));
    attack(&mut heap, &|tx| tx.retire(Addr::new(runs[2], 0), blocks));
    attack(&mut heap, &|tx| tx.retire(Addr::new(runs[0], 0), blocks));
    attack(&mut heap, &|tx| {
        let object = tx.allocate(50)?;
        tx.write(Addr::new(object, 0), 1)?;
        tx.retire(Addr::new(object, 0), 50)
    });
    // Frees while the cache is full: to a slab that an arena owns, then to a slab without an
    // owner.
    let cached = cached_max(&heap, heap.layout().class_of(100).unwrap()) as usize;
    let more: Vec<_> = (0..400).map(|_| heap.run(|tx| tx.allocate(100)).unwrap()).collect();
    more[..=cached].iter().for_each(|&object| free(&mut heap, object, 100).unwrap());
    attack(&mut heap, &|tx| tx.retire(Addr::new(more[200], 0), 100));
    attack(&mut heap, &|tx| tx.retire(Addr::new(more[399], 0), 100));
    let shared = heap.heap;
    let owners = heap.run(|tx| shared.owners(tx)).unwrap();
    let mut plan = Plan::new(shared.classes(), owners);
    while let Some(step) = plan.step() {
        attack(&mut heap, &|tx| shared.reclaim(tx, step.clone()).map(drop));
        plan.done(None);
    }
    fill(&mut heap, 1000);
    attack(&mut heap, &|tx| tx.allocate(16).map(drop));
    attempts
}
