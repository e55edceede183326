//! A walk over the live objects of a heap, in address order.
//!
//! It serves tools that show a heap at rest. It trusts the words that it reads as far as every step
//! goes forward and stays inside the heap; the check verifies them.

use std::collections::BTreeMap;

use words::BLOCK_BYTES;

use crate::head::Head;
use crate::header::{Kind, decode};
use crate::layout::{CHUNK_BYTES, FRONTIER, HEAD, LINE_WORDS, ROOT_USER};
use crate::{ARENAS, Heap};

/// A live object, or a prepared block of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Its pointer, as the program holds it.
    pub object: u64,
    /// Its first byte, as an offset in the heap.
    pub offset: u64,
    /// [`Kind::Object`] or [`Kind::Block`].
    pub kind: Kind,
    /// Requested bytes; in a line-isolated heap, the capacity of its slot.
    pub bytes: u64,
    /// Bytes that it occupies: its slot of a size class, or its share of a run; header included.
    pub taken_bytes: u64,
}

/// The iterator of [`Heap::live`].
#[derive(Clone, Debug)]
pub struct Walk<F> {
    heap: Heap,
    word: F,
    /// The first chunk that was never used.
    frontier: u64,
    /// Slab's chunk to its cursor: slots from there on were never allocated.
    cursors: BTreeMap<u64, u64>,
    /// The chunk whose head is read next.
    chunk: u64,
    place: Place,
}

/// The position of the walk.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Before a chunk's head.
    Head,
    /// Before this slot of a slab, unless it is the end.
    Slab { class: usize, slot: u64, end: u64 },
    /// Before this block of a run.
    Run { first: u64, index: u64, prepared: u64 },
}

impl Heap {
    /// Walks a heap in which no transaction runs: every live object and prepared block, in address
    /// order. `word` is called only for words inside the heap, by their offset in bytes. The heap
    /// should have passed [`check`](Heap::check); in another the walk ends where it cannot go on.
    pub fn live<F: FnMut(u64) -> u64>(&self, mut word: F) -> Walk<F> {
        let mut cursors = BTreeMap::new();
        let (layout, is_heap) = (self.layout, self.has_room());
        for index in 0..if is_heap { ARENAS } else { 0 } {
            for class in 0..layout.classes() {
                let cursor = word(layout.arena(index) + 16 * class as u64 + 8);
                if layout.is_slot(cursor, class) {
                    cursors.insert(cursor / CHUNK_BYTES, cursor);
                }
            }
        }
        let used = if is_heap { word(layout.chunks_object() + FRONTIER) } else { 0 };
        let frontier = used.min(self.chunks());
        Walk { heap: *self, word, frontier, cursors, chunk: 0, place: Place::Head }
    }

    /// Returns the program's root in a heap in which no transaction runs; `word` as for
    /// [`live`](Heap::live).
    pub fn root_at_rest(&self, word: impl FnOnce(u64) -> u64) -> u64 {
        word(self.layout.root() + ROOT_USER)
    }
}

impl<F: FnMut(u64) -> u64> Walk<F> {
    /// Reads the next chunk's head; `None` at the end.
    fn enter(&mut self) -> Option<()> {
        let chunk = self.chunk;
        if chunk >= self.frontier {
            return None;
        }
        let head = chunk * CHUNK_BYTES + HEAD;
        let words: [u64; LINE_WORDS] = std::array::from_fn(|i| (self.word)(head + 8 * i as u64));
        let head = Head::decode(self.heap.layout, words, chunk, self.frontier).ok()?;
        let first = chunk * CHUNK_BYTES + self.heap.layout.first_slot();
        self.place = match head {
            Head::Slab { class } => {
                let end = (chunk + 1) * CHUNK_BYTES;
                let end = self.cursors.get(&chunk).map_or(end, |&cursor| cursor);
                Place::Slab { class: class as usize, slot: first, end }
            }
            Head::Run { prepared, .. } => Place::Run { first: chunk, index: 0, prepared },
            Head::First { .. } | Head::Free { .. } => Place::Head,
        };
        self.chunk += match head {
            Head::First { chunks } | Head::Run { chunks, .. } | Head::Free { chunks, .. } => chunks,
            Head::Slab { .. } => 1,
        };
        Some(())
    }

    /// Returns the object in a slot, if it is live.
    fn object(&mut self, offset: u64, class: usize) -> Option<Live> {
        let layout = self.heap.layout;
        let label = (self.word)(offset.wrapping_add(layout.label()));
        let bytes = layout.live_bytes(label, offset, class)?;
        let taken_bytes = layout.slot_bytes(class);
        Some(Live {
            object: self.heap.tag | offset,
            offset,
            kind: Kind::Object,
            bytes,
            taken_bytes,
        })
    }

    /// Returns the block of a run, if its header confirms it.
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
}

impl<F: FnMut(u64) -> u64> Iterator for Walk<F> {
    type Item = Live;

    fn next(&mut self) -> Option<Live> {
        let layout = self.heap.layout;
        loop {
            let found = match self.place {
                Place::Slab { class, slot, end } if slot != 0 && slot < end => {
                    self.place = Place::Slab { class, slot: layout.next_slot(slot, class), end };
                    self.object(slot, class)
                }
                Place::Run { first, index, prepared } if index < prepared => {
                    self.place = Place::Run { first, index: index + 1, prepared };
                    self.block(layout.block(first, index))
                }
                _ => {
                    self.enter()?;
                    None
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }
}
