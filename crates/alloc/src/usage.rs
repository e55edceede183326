//! The use of a heap's memory, estimated while transactions run.
//!
//! ```text
//!   heap = the allocator's first run + slabs + arrays + long strings + free runs
//!                                        |
//!                                        live slots + free slots + head and rest
//! ```
//!
//! The estimate reads one cache line of each run, and the arenas. No worker waits for it, and it
//! takes no lock, so words change while it reads them. A worker may be writing a head, or may just
//! have merged its run, so that the head is impossible. The walk then continues at the next intact
//! head, and the part between is *unknown*. At rest the estimate equals the result of a check.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::classes::CLASSES_MAX;
use crate::head::Run;
use crate::layout::{BINS, FRONTIER, HEAD_LINE, Layout};
use crate::state::{Cache, OwnSlab, Status};
use crate::survey::Usage;
use crate::{ARENAS, Heap};

/// Free runs that [`Heap::free_run_bytes`] counts.
const LISTED_MAX: u32 = 4096;

impl Heap {
    /// Returns the bytes behind the frontier. `word` is as in [`usage_now`](Heap::usage_now).
    pub fn bytes_behind_frontier(&self, mut word: impl FnMut(u64) -> u64) -> u64 {
        if !self.has_room() {
            return 0;
        }
        let frontier = word(self.layout.pages() + FRONTIER).min(self.units());
        (self.units() - frontier) * self.layout.unit_bytes()
    }

    /// Returns the bytes of free runs, the longest first, or as soon as it has counted `enough`.
    /// It counts too few bytes if it meets 4096 runs before that, and if another thread changes a
    /// list meanwhile. An estimate, as in [`usage_now`](Heap::usage_now), which also says how
    /// `word` is called; in another order here.
    pub fn free_run_bytes(&self, mut word: impl FnMut(u64) -> u64, enough: u64) -> u64 {
        if !self.has_room() {
            return 0;
        }
        let layout = self.layout;
        let frontier = word(layout.pages() + FRONTIER).min(self.units());
        let mut heads = LISTED_MAX;
        let mut units = 0;
        for bin in (0..BINS).rev() {
            let (object, offset) = layout.bin(bin);
            let mut unit = word(object + offset);
            // A list that changes meanwhile may lead anywhere, or round.
            while heads > 0 && unit >= layout.own_units() && unit < frontier {
                if units * layout.unit_bytes() >= enough {
                    return units * layout.unit_bytes();
                }
                heads -= 1;
                let Some(head) = self.head_below(unit, frontier, &mut word) else { break };
                let Run::Free { next, .. } = head.kind else { break };
                units += head.units;
                unit = next;
            }
        }
        units * layout.unit_bytes()
    }

    /// Returns the memory of a heap at rest that holds neither an object nor a word of the
    /// allocator, in ascending order. `None` if a head is damaged. `word` is as in
    /// [`usage_now`](Heap::usage_now).
    pub fn unused_extents(&self, mut word: impl FnMut(u64) -> u64) -> Option<Vec<Range<u64>>> {
        if !self.has_room() {
            return None;
        }
        let layout = self.layout;
        let frontier = word(layout.pages() + FRONTIER).min(self.units());
        let (mut unit, mut extents) = (layout.own_units(), Vec::new());
        while unit < frontier {
            let head = self.head_below(unit, frontier, &mut word)?;
            let end = unit + head.units;
            if let Run::Free { .. } = head.kind {
                extents.push(layout.offset(unit) + HEAD_LINE..layout.offset(end));
            }
            unit = end;
        }
        extents.push(layout.offset(frontier)..self.bytes);
        Some(extents)
    }

    /// Returns the bytes of free slots that workers keep in their caches.
    pub fn cached_bytes(&self, mut word: impl FnMut(u64) -> u64) -> u64 {
        if !self.has_room() {
            return 0;
        }
        let cached = self.read_arenas(&mut word).cached;
        let classes = cached.iter().enumerate().take(self.layout.classes());
        classes.map(|(class, slots)| slots * self.layout.slot_bytes(class)).sum()
    }

    /// Returns the live and free memory and the slots of each class, without the sizes of objects:
    /// [`Usage::object_bytes`] is 0. Exact in a heap in which no transaction runs. `word` is called
    /// only for words inside the heap, in ascending order of their runs, by their offset in bytes.
    pub fn usage_now(&self, mut word: impl FnMut(u64) -> u64) -> Usage {
        let mut usage = Usage { heap_bytes: self.bytes, ..Usage::default() };
        if !self.has_room() {
            return usage;
        }
        let layout = self.layout;
        let arenas = self.read_arenas(&mut word);
        let frontier = word(layout.pages() + FRONTIER).min(self.units());
        usage.add_free((self.units() - frontier) * layout.unit_bytes());
        let mut unit = layout.own_units();
        while unit < frontier {
            let Some(head) = self.head_below(unit, frontier, &mut word) else {
                usage.unknown_bytes += layout.unit_bytes();
                unit += 1;
                continue;
            };
            let bytes = head.units * layout.unit_bytes();
            match head.kind {
                Run::Slab { class, state, .. } => {
                    let mine = arenas.owned.get(&unit).filter(|(of, _)| *of == class);
                    let mine = mine.filter(|_| state.status == Status::Owned);
                    let carved = mine.map_or(state.carved, |(_, carved)| *carved);
                    // Another transaction may have changed one of the words meanwhile.
                    let slots = layout.slots(head.units, class);
                    let live = carved.saturating_sub(state.count).min(slots);
                    usage.objects += live;
                    usage.add_slab(bytes, layout.slot_bytes(class), slots, live);
                }
                Run::Array { blocks, prepared, .. } => usage.add_array(bytes, blocks, prepared),
                Run::String { .. } => usage.add_long_string(bytes),
                Run::Free { .. } => usage.add_free(bytes),
                // A transaction that has not ended frees the run.
                Run::First | Run::Detached => usage.unknown_bytes += bytes,
            }
            unit += head.units;
        }
        for (class, &cached) in arenas.cached.iter().enumerate() {
            usage.remove_cached(layout.slot_bytes(class), cached);
        }
        usage
    }

    /// Returns whether [`usage_now`](Heap::usage_now) may read the word at this heap offset of an
    /// ordinary heap. Such a word is in the first run, or in the first line of a unit.
    pub const fn may_be_head(offset: u64) -> bool {
        let layout = Layout::Ordinary;
        offset < layout.offset(layout.own_units()) || offset % layout.unit_bytes() < HEAD_LINE
    }

    /// Reads which slab each arena owns, and the size of each cache.
    pub(crate) fn read_arenas(&self, word: &mut impl FnMut(u64) -> u64) -> Arenas {
        let mut arenas = Arenas { owned: BTreeMap::new(), cached: [0; CLASSES_MAX] };
        for arena in 0..ARENAS {
            for class in 0..self.layout.classes() {
                let (object, offset) = self.layout.pair(arena, class);
                let cache = Cache::decode(word(object + offset));
                arenas.cached[class] += cache.count;
                if let Some(own) = OwnSlab::decode(word(object + offset + 8)) {
                    arenas.owned.insert(own.unit, (class, own.carved));
                }
            }
        }
        arenas
    }
}

/// The slabs and the free slots of all arenas.
pub(crate) struct Arenas {
    /// The class, and the number of used slots, of each slab that an arena owns, by its first unit.
    pub(crate) owned: BTreeMap<u64, (usize, u64)>,
    /// Free slots of each class in caches.
    cached: [u64; CLASSES_MAX],
}

#[cfg(test)]
mod tests {
    use words::{Addr, Allocate, Words};

    use super::*;
    use crate::test_heap::{LAYOUTS, TestHeap};

    #[test]
    fn free_runs_are_counted_without_a_walk() {
        for layout in LAYOUTS {
            let mut heap = TestHeap::laid_out(layout, 64);
            let blocks = |units: u64| (units * layout.unit_bytes() - HEAD_LINE) / 272;
            let arrays: Vec<(u64, u64)> = (0..12)
                .map(|n| (heap.run(|tx| tx.reserve_blocks(blocks(1 + n % 4))).unwrap(), n))
                .collect();
            for (array, n) in arrays.into_iter().step_by(3) {
                let bytes = blocks(1 + n % 4) * words::BLOCK_BYTES;
                heap.run(|tx| tx.retire(Addr::new(array, 0), bytes)).unwrap();
                let word = |offset| heap.word(offset);
                let usage = heap.heap.usage_now(word);
                let runs = heap.heap.free_run_bytes(word, u64::MAX);
                assert_eq!(runs + heap.heap.bytes_behind_frontier(word), usage.free_bytes);
                assert!(runs > 0);
                // The longest run is enough for its first byte.
                let mut words = 0;
                let count = |offset| {
                    words += 1;
                    heap.word(offset)
                };
                let some = heap.heap.free_run_bytes(count, 1);
                assert!(some > 0 && some <= runs && words < 2 * BINS, "{words} words");
            }
        }
    }

    /// A head that another worker is writing looks like a damaged one.
    #[test]
    fn estimate_continues_after_impossible_head() {
        for layout in LAYOUTS {
            let mut heap = TestHeap::laid_out(layout, 16);
            let blocks = |units: u64| (units * layout.unit_bytes() - HEAD_LINE) / 272;
            let arrays: Vec<u64> =
                (0..4).map(|_| heap.run(|tx| tx.reserve_blocks(blocks(2))).unwrap()).collect();
            let bytes = blocks(2) * words::BLOCK_BYTES;
            heap.run(|tx| tx.retire(Addr::new(arrays[2], 0), bytes)).unwrap();
            let usage = |heap: &TestHeap| heap.heap.usage_now(|offset| heap.word(offset));
            let before = usage(&heap);
            assert_eq!((before.arrays, before.unknown_bytes), (3, 0));
            let two = 2 * layout.unit_bytes();
            assert_eq!((before.array_bytes, before.largest_live_bytes), (3 * two, two));

            let unit = (arrays[1] & ((1 << 48) - 1)) / layout.unit_bytes();
            let length = heap.heap.head(unit) as usize / 8 + 1;
            heap.words[length] = 1 << 40;
            let after = usage(&heap);
            assert_eq!((after.arrays, after.unknown_bytes), (2, two), "{layout:?}");
            assert_eq!(after.free_bytes, before.free_bytes);
            // The frontier is one word, so an impossible one means a damaged heap.
            let frontier = (layout.pages() + FRONTIER) as usize / 8;
            heap.words[frontier] = u64::MAX;
            let all = usage(&heap);
            let counted = all.live_bytes() + all.free_bytes + all.unknown_bytes;
            assert!(counted <= all.heap_bytes, "{all:?}");
        }
    }
}
