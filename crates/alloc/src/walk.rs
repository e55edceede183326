//! A walk over the live objects of a heap, in address order.
//!
//! It serves tools that show a heap at rest. It trusts the words that it reads as far as every step
//! goes forward and stays inside the heap; the check verifies them.

use std::collections::BTreeMap;
use std::ops::Range;

use words::BLOCK_BYTES;

use crate::allocations::{Allocation, Size};
use crate::classes::string_bytes;
use crate::head::Run;
use crate::header::{Kind, decode};
use crate::layout::{FRONTIER, ROOT_PROGRESS, ROOT_REACHED, ROOT_USER};
use crate::strings::string_length;
use crate::{Heap, Migrated};

/// A live object, a byte string, or a prepared block of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Its pointer, as the program holds it.
    pub object: u64,
    /// Its first byte, as an offset in the heap.
    pub offset: u64,
    /// [`Kind::Object`], [`Kind::Block`], or that of a string's first piece.
    pub kind: Kind,
    /// Requested bytes, of a string the whole length; in a line-isolated heap, the capacity of an
    /// object's slot.
    pub bytes: u64,
    /// Bytes that it occupies: its slot of a size class, or its share of a run; headers included.
    pub taken_bytes: u64,
}

impl Live {
    /// Returns the byte range in the heap that holds the object: its header, its content, and the
    /// headers between the pieces of a string.
    pub fn extent(&self) -> Range<u64> {
        let bytes = match self.kind {
            Kind::SlotString | Kind::RunString => string_bytes(self.bytes),
            _ => self.bytes,
        };
        self.offset.saturating_sub(8)..self.offset.saturating_add(bytes.max(8))
    }
}

/// The iterator of [`Heap::live`].
#[derive(Clone, Debug)]
pub struct Walk<F> {
    heap: Heap,
    word: F,
    /// The unit after the last run.
    frontier: u64,
    /// The class, and the number of used slots, of each slab that an arena owns.
    owned: BTreeMap<u64, (usize, u64)>,
    /// The unit whose head is read next.
    unit: u64,
    place: Place,
}

/// The position of the walk.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Before a run's head.
    Head,
    /// Before this slot of the slab that begins with `unit`.
    Slab { unit: u64, class: usize, number: u64, end: u64 },
    /// Before this block of the array that begins with `unit`.
    Array { unit: u64, index: u64, prepared: u64, blocks: u64 },
    /// Before the string in the run that begins with `unit`.
    String { unit: u64, units: u64, bytes: u64 },
}

impl Heap {
    /// Walks a heap in which no transaction runs: every live object, byte string and prepared
    /// block, in address order. `word` is called only for words inside the heap, by their offset in
    /// bytes. In a heap that has not passed [`check`](Heap::check), a run with a damaged head is
    /// left out.
    pub fn live<F: FnMut(u64) -> u64>(&self, mut word: F) -> Walk<F> {
        let (layout, is_heap) = (self.layout, self.has_room());
        let owned = if is_heap { self.read_arenas(&mut word).owned } else { BTreeMap::new() };
        let used = if is_heap { word(layout.pages() + FRONTIER) } else { 0 };
        let frontier =
            if used < layout.own_units() { self.units() } else { used.min(self.units()) };
        Walk { heap: *self, word, frontier, owned, unit: 0, place: Place::Head }
    }

    /// Returns the program's root in a heap in which no transaction runs; `word` as for
    /// [`live`](Heap::live).
    pub fn root_at_rest(&self, word: impl FnOnce(u64) -> u64) -> u64 {
        word(self.layout.root() + ROOT_USER)
    }
}

impl Heap {
    /// Walks an ordinary heap in which no transaction runs: every allocation, in address order.
    /// `word` as for [`live`](Heap::live).
    pub fn allocations<F: FnMut(u64) -> u64>(&self, word: F) -> Allocations<F> {
        Allocations(self.live(word))
    }

    /// Returns the end of the last run of a heap in which no transaction runs: the smallest size
    /// that holds all its allocations. `word` as for [`live`](Heap::live).
    pub fn used_bytes(&self, word: impl FnOnce(u64) -> u64) -> u64 {
        self.layout.offset(word(self.layout.pages() + FRONTIER))
    }

    /// Returns the migration progress of the program's data, in a heap in which no transaction
    /// runs.
    /// `word` as for [`live`](Heap::live).
    pub fn migrated_at_rest(&self, mut word: impl FnMut(u64) -> u64) -> Migrated {
        let root = self.layout.root();
        let version = word(root + ROOT_REACHED);
        Migrated { version, progress: word(root + ROOT_PROGRESS) }
    }
}

impl<F: FnMut(u64) -> u64> Walk<F> {
    /// Reads the next run's head; `None` at the end.
    fn enter(&mut self) -> Option<()> {
        let unit = self.unit;
        if unit >= self.frontier {
            return None;
        }
        let Some(head) = self.heap.head_below(unit, self.frontier, &mut self.word) else {
            // Skip one unit and look for the next head. Data is as unlikely to look like a head as
            // like a header.
            self.unit += 1;
            return Some(());
        };
        self.place = match head.kind {
            Run::Slab { class, state, .. } => {
                // Later slots were never allocated.
                let carved = self.owned.get(&unit).map_or(state.carved, |(_, carved)| *carved);
                let end = carved.min(self.heap.layout.slots(head.units, class));
                Place::Slab { unit, class, number: 0, end }
            }
            Run::Array { blocks, prepared, .. } => {
                Place::Array { unit, index: 0, prepared, blocks }
            }
            Run::String { bytes } => Place::String { unit, units: head.units, bytes },
            Run::First | Run::Free { .. } | Run::Detached => Place::Head,
        };
        self.unit += head.units;
        Some(())
    }

    /// Returns the object or string in a slot, if it is live.
    fn slot(&mut self, unit: u64, class: usize, number: u64) -> Option<Live> {
        let layout = self.heap.layout;
        let offset = layout.slot(unit, class, number);
        let label = (self.word)(offset.wrapping_add(layout.label()));
        let first = layout.live_bytes(label, offset, class, number)?;
        let (kind, bytes) = match layout.is_string_class(class) {
            true => (Kind::SlotString, string_length(label, offset, class, &mut self.word)?),
            false => (Kind::Object, first),
        };
        let taken_bytes = layout.slot_bytes(class);
        Some(Live { object: self.heap.tag | offset, offset, kind, bytes, taken_bytes })
    }

    /// Returns the block of an array, if its header confirms it.
    fn block(&mut self, offset: u64) -> Option<Live> {
        let layout = self.heap.layout;
        let bytes = if layout.has_headers() {
            let header = decode((self.word)(offset - 8), offset);
            header.filter(|found| found.kind == Kind::Block)?.bytes
        } else {
            BLOCK_BYTES
        };
        let taken_bytes = layout.block_stride();
        Some(Live { object: self.heap.tag | offset, offset, kind: Kind::Block, bytes, taken_bytes })
    }

    /// Skips an array before its first block, and returns its first unit, its blocks and its
    /// prepared blocks. At any other place it returns `None` and does not move.
    fn enter_array(&mut self) -> Option<(u64, u64, u64)> {
        let Place::Array { unit, index: 0, prepared, blocks } = self.place else { return None };
        self.place = Place::Head;
        Some((unit, blocks, prepared.min(blocks)))
    }

    /// Goes one step; `None` at the end. Returns the object, string or block that it passes.
    fn step(&mut self) -> Option<Option<Live>> {
        let layout = self.heap.layout;
        match self.place {
            Place::Slab { unit, class, number, end } if number < end => {
                self.place = Place::Slab { unit, class, number: number + 1, end };
                Some(self.slot(unit, class, number))
            }
            Place::Array { unit, index, prepared, blocks } if index < prepared => {
                self.place = Place::Array { unit, index: index + 1, prepared, blocks };
                Some(self.block(layout.block(unit, index)))
            }
            Place::String { unit, units, bytes } => {
                self.place = Place::Head;
                let offset = layout.offset(unit) + layout.first_object();
                let taken_bytes = units * layout.unit_bytes();
                let (object, kind) = (self.heap.tag | offset, Kind::RunString);
                Some(Some(Live { object, offset, kind, bytes, taken_bytes }))
            }
            _ => self.enter().map(|()| None),
        }
    }
}

impl<F: FnMut(u64) -> u64> Iterator for Walk<F> {
    type Item = Live;

    fn next(&mut self) -> Option<Live> {
        loop {
            if let Some(found) = self.step()? {
                return Some(found);
            }
        }
    }
}

/// The iterator of [`Heap::allocations`].
#[derive(Clone, Debug)]
pub struct Allocations<F>(Walk<F>);

impl<F: FnMut(u64) -> u64> Iterator for Allocations<F> {
    type Item = Allocation;

    fn next(&mut self) -> Option<Allocation> {
        loop {
            if let Some((unit, blocks, prepared)) = self.0.enter_array() {
                let offset = self.0.heap.layout.block(unit, 0);
                return Some(Allocation { offset, size: Size::Array { blocks, prepared } });
            }
            match self.0.step()? {
                None => {}
                Some(Live { offset, kind, bytes, .. }) => {
                    let is_object = kind == Kind::Object;
                    let size = if is_object { Size::Object(bytes) } else { Size::String(bytes) };
                    return Some(Allocation { offset, size });
                }
            }
        }
    }
}
