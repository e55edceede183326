//! An estimate of the free memory while transactions run.
//!
//! It reads one line for each run and the arenas, so a heap of 1 GiB of small objects takes some
//! milliseconds. Other transactions may change the words meanwhile: where a head makes no sense,
//! the walk ends, and the runs so far are the estimate.

use std::collections::BTreeMap;

use crate::head::Run;
use crate::layout::FRONTIER;
use crate::state::{State, Status};
use crate::survey::Usage;
use crate::{ARENAS, Heap};

impl Heap {
    /// Returns the free memory and the slots of each class, without the sizes of objects: they are
    /// [`Usage::object_bytes`] 0. Exact in a heap in which no transaction runs. `word` is called
    /// only for words inside the heap, by their offset in bytes.
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
            let Some(head) = self.head_below(unit, frontier, &mut word) else { break };
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
                    usage.add_slab(layout.slot_bytes(class), slots, live);
                }
                Run::Array { blocks, prepared, .. } => {
                    usage.arrays += 1;
                    usage.blocks += blocks;
                    usage.blocks_prepared += prepared;
                }
                Run::String { .. } => {
                    usage.objects += 1;
                    usage.long_strings += 1;
                }
                Run::Free { .. } => usage.add_free(head.units * layout.unit_bytes()),
                Run::First | Run::Detached => {}
            }
            unit += head.units;
        }
        usage
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
