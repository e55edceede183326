//! The use of a heap's memory, and an estimate of it while transactions run.
//!
//! ```text
//!   heap = the allocator's first run + slabs + arrays + long strings + free runs
//!                                        |
//!                                        live slots + free slots + head and rest
//! ```
//!
//! The estimate reads one cache line of each run, and the arenas. No worker waits for it, and it
//! takes no lock, so words change while it reads them. A head that makes no sense was being
//! written, or its run has just been merged: the walk goes on at the next head that does, and the
//! part between is *unknown*. At rest the estimate equals the result of a check.

use std::collections::BTreeMap;

use crate::head::Run;
use crate::layout::{FRONTIER, HEAD_LINE, Layout};
use crate::state::{State, Status};
use crate::{ARENAS, Heap};

/// The objects and the free memory of a heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Size of the heap.
    pub heap_bytes: u64,
    /// Free runs and memory that was never used. It serves objects, strings and arrays of every
    /// size. Free slots of slabs are not in it.
    pub free_bytes: u64,
    /// The longest free run: an array or a long byte string needs one.
    pub largest_free_bytes: u64,
    /// Live objects and byte strings, without arrays.
    pub objects: u64,
    /// Requested bytes of live objects and byte strings, which only a check counts; in a
    /// line-isolated heap, bytes of an object's slot.
    pub object_bytes: u64,
    /// Live byte strings in runs of their own, which count as objects too.
    pub long_strings: u64,
    /// Memory of their runs.
    pub long_string_bytes: u64,
    /// Arrays.
    pub arrays: u64,
    /// Memory of their runs.
    pub array_bytes: u64,
    /// Blocks of arrays, prepared or not.
    pub blocks: u64,
    /// Prepared blocks.
    pub blocks_prepared: u64,
    /// The longest run of an array or a byte string.
    pub largest_live_bytes: u64,
    /// Memory of runs that the estimate could not read, because they were changing or because the
    /// heap is damaged.
    pub unknown_bytes: u64,
    /// Size classes that have a slab, in ascending order.
    pub classes: Vec<ClassUsage>,
}

/// The slabs of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassUsage {
    /// Size of a slot, headers included.
    pub slot_bytes: u64,
    /// Slabs of the class, of whatever length.
    pub slabs: u64,
    /// Their slots.
    pub slots: u64,
    /// Slots with a live object or byte string.
    pub live: u64,
    /// The longest slab: a run of this length becomes free when its objects are freed.
    pub largest_slab_bytes: u64,
}

impl ClassUsage {
    /// Returns the memory of live slots.
    pub fn live_bytes(&self) -> u64 {
        self.live * self.slot_bytes
    }

    /// Returns the memory of free slots, which serve this class until their slab is empty.
    pub fn free_bytes(&self) -> u64 {
        self.slots.saturating_sub(self.live) * self.slot_bytes
    }
}

impl Usage {
    /// Returns the memory that live objects, byte strings and arrays occupy, headers and rounding
    /// included.
    pub fn live_bytes(&self) -> u64 {
        let slots: u64 = self.classes.iter().map(ClassUsage::live_bytes).sum();
        slots + self.long_string_bytes + self.array_bytes
    }

    /// Returns the memory of free slots, which serve their own class until their slab is empty.
    pub fn free_slot_bytes(&self) -> u64 {
        self.classes.iter().map(ClassUsage::free_bytes).sum()
    }

    /// Returns the share of the free memory that is not in the longest free run, from 0 to 1:
    /// `1 - largest_free_bytes / (free_bytes + free_slot_bytes)`; 0 when no memory is free.
    pub fn fragmentation(&self) -> f64 {
        let free = self.free_bytes + self.free_slot_bytes();
        if free == 0 { 0.0 } else { 1.0 - self.largest_free_bytes as f64 / free as f64 }
    }

    /// Counts a slab of `bytes` bytes with `slots` slots, of which `live` are live.
    pub(crate) fn add_slab(&mut self, bytes: u64, slot_bytes: u64, slots: u64, live: u64) {
        let at = self.classes.partition_point(|class| class.slot_bytes < slot_bytes);
        if self.classes.get(at).is_none_or(|class| class.slot_bytes != slot_bytes) {
            self.classes.insert(at, ClassUsage { slot_bytes, ..ClassUsage::default() });
        }
        let class = &mut self.classes[at];
        class.slabs += 1;
        class.slots += slots;
        class.live += live;
        class.largest_slab_bytes = class.largest_slab_bytes.max(bytes);
    }

    /// Counts a free run, or the memory behind the frontier.
    pub(crate) fn add_free(&mut self, bytes: u64) {
        self.free_bytes += bytes;
        self.largest_free_bytes = self.largest_free_bytes.max(bytes);
    }

    /// Counts an array in a run of `bytes` bytes.
    pub(crate) fn add_array(&mut self, bytes: u64, blocks: u64, prepared: u64) {
        self.arrays += 1;
        self.array_bytes += bytes;
        self.largest_live_bytes = self.largest_live_bytes.max(bytes);
        self.blocks += blocks;
        self.blocks_prepared += prepared;
    }

    /// Counts a byte string in a run of `bytes` bytes.
    pub(crate) fn add_long_string(&mut self, bytes: u64) {
        self.objects += 1;
        self.long_strings += 1;
        self.long_string_bytes += bytes;
        self.largest_live_bytes = self.largest_live_bytes.max(bytes);
    }
}

impl Heap {
    /// Returns the live and free memory and the slots of each class, without the sizes of objects:
    /// [`Usage::object_bytes`] is 0. Exact in a heap in which no transaction runs. `word` is called
    /// only for words inside the heap, in ascending order of their runs, by their offset in bytes.
    pub fn usage_now(&self, mut word: impl FnMut(u64) -> u64) -> Usage {
        let mut usage = Usage { heap_bytes: self.bytes, ..Usage::default() };
        if !self.has_room() {
            return usage;
        }
        let layout = self.layout;
        let owned = self.owned(&mut word);
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
                    let mine = owned.get(&unit).filter(|_| state.status == Status::Owned);
                    let mine = mine.filter(|(of, _)| *of == class).map(|(_, mine)| *mine);
                    let carved = mine.unwrap_or(state).carved;
                    let count = state.count + mine.map_or(0, |mine| mine.count);
                    // Another transaction may have changed one of the words meanwhile.
                    let slots = layout.slots(head.units, class);
                    let live = carved.saturating_sub(count).min(slots);
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
        usage
    }

    /// Returns whether [`usage_now`](Heap::usage_now) may read the word at this heap offset of an
    /// ordinary heap: it is in the first run, or in the first line of a unit.
    pub const fn may_be_head(offset: u64) -> bool {
        let layout = Layout::Ordinary;
        offset < layout.offset(layout.own_units()) || offset % layout.unit_bytes() < HEAD_LINE
    }

    /// Returns the class and the state of each slab that an arena owns, by its first unit.
    pub(crate) fn owned(&self, word: &mut impl FnMut(u64) -> u64) -> BTreeMap<u64, (usize, State)> {
        let classes = 0..self.layout.classes();
        let pairs = (0..ARENAS).flat_map(|arena| classes.clone().map(move |class| (arena, class)));
        let mut owned = BTreeMap::new();
        for (arena, class) in pairs {
            let (object, offset) = self.layout.pair(arena, class);
            let (unit, state) = (word(object + offset), word(object + offset + 8));
            if let Some(state) = State::decode(state).filter(|_| unit != 0) {
                owned.insert(unit, (class, state));
            }
        }
        owned
    }
}

#[cfg(test)]
mod tests {
    use words::{Addr, Allocate, Words};

    use super::*;
    use crate::test_heap::{LAYOUTS, TestHeap};

    /// A head that another worker is just writing looks like a damaged one.
    #[test]
    fn estimate_continues_behind_a_senseless_head() {
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
            // The frontier is one word, so a senseless one is that of a damaged heap.
            let frontier = (layout.pages() + FRONTIER) as usize / 8;
            heap.words[frontier] = u64::MAX;
            let all = usage(&heap);
            let counted = all.live_bytes() + all.free_bytes + all.unknown_bytes;
            assert!(counted <= all.heap_bytes, "{all:?}");
        }
    }
}
