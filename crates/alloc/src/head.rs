//! The head of a run: its kind and its bookkeeping.
//!
//! A head is one cache line, pictured with the layouts and the same in both: an object of the
//! allocator's own, with its header. Decoding returns a head only if every word in it is possible.

use words::{Stop, Words};

use crate::Heap;
use crate::header::{self, Description, Kind, Slot};
use crate::layout::{HEAD, LINE_PAYLOAD, LINE_WORDS, Layout};
use crate::state::{State, Status};

/// Offsets of the words in a head that are changed alone.
pub(crate) const HEAD_UNITS: u64 = 8;
pub(crate) const HEAD_BEFORE: u64 = 16;
pub(crate) const HEAD_STATE: u64 = 24;
pub(crate) const HEAD_NEXT: u64 = 32;
pub(crate) const HEAD_PREVIOUS: u64 = 40;
pub(crate) const HEAD_BIN_NEXT: u64 = 24;
pub(crate) const HEAD_BIN_PREVIOUS: u64 = 32;
pub(crate) const HEAD_BLOCKS: u64 = 24;
pub(crate) const HEAD_STRING: u64 = 24;
pub(crate) const HEAD_PREPARED: u64 = 32;

/// The first word of an array's head.
pub(crate) const ARRAY: u64 = 2;

/// The decoded head of a run. Runs are named by their first unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Length of the run.
    pub(crate) units: u64,
    /// Length of the free run that ends where this run begins, or 0.
    pub(crate) before: u64,
    pub(crate) kind: Run,
}

/// The kinds of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// The allocator's own, at the heap's start.
    First,
    /// Slots of one class. A slab on a list of its class has its neighbors there, else 0.
    Slab { class: usize, state: State, next: u64, previous: u64 },
    /// An array of blocks; `fresh` when their memory was never used before.
    Array { blocks: u64, prepared: u64, fresh: bool },
    /// A byte string of `bytes` bytes.
    String { bytes: u64 },
    /// Free, with its neighbors in its bin, or 0.
    Free { next: u64, previous: u64 },
    /// Freed by a transaction that has not given it back yet. Never committed.
    Detached,
}

/// An impossible word: its offset in bytes in the head's object, and a possible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadWord {
    pub(crate) offset: u64,
    pub(crate) expected: u64,
}

impl Run {
    /// A free run in no bin.
    pub(crate) const NO_LINKS: Run = Run::Free { next: 0, previous: 0 };

    /// Decodes the words of a head that depend on the kind. The caller has checked the others.
    fn decode(
        layout: Layout,
        words: [u64; LINE_WORDS],
        class: Option<usize>,
        unit: u64,
        frontier: u64,
    ) -> Result<Run, BadWord> {
        let bad = |word: u64, expected| Err(BadWord { offset: 8 * word, expected });
        let [kind, units, _, fourth, fifth, sixth] = words;
        let is_first = unit == 0;
        let linked = |number: u64| number == 0 || layout.own_units() <= number && number < frontier;
        Ok(match (kind, class) {
            (1, Some(class)) => {
                if units != 1 && !layout.has_headers() {
                    return bad(1, 1);
                }
                let slots = layout.slots(units, class);
                let state = State::decode(fourth).filter(|state| {
                    let counts = match state.status {
                        Status::Owned => state.carved == 0,
                        Status::Full => state.carved == slots && state.count == 0,
                        _ => state.count <= state.carved,
                    };
                    state.first <= slots && counts && state.carved <= slots && state.count <= slots
                });
                let Some(state) = state else { return bad(3, State::OWNED.encode()) };
                let listed = matches!(state.status, Status::Partial | Status::Sparse);
                if !linked(fifth) || !listed && fifth != 0 {
                    return bad(4, 0);
                }
                if !linked(sixth) || !listed && sixth != 0 {
                    return bad(5, 0);
                }
                Run::Slab { class, state, next: fifth, previous: sixth }
            }
            (ARRAY, None) => {
                let needed = layout.units_for_blocks(fourth);
                if fourth == 0 || needed != Some(units) {
                    return bad(1, needed.unwrap_or(0));
                }
                if fifth > fourth {
                    return bad(4, fourth);
                }
                Run::Array { blocks: fourth, prepared: fifth, fresh: sixth == 1 }
            }
            (3, None) => {
                if !linked(fourth) {
                    return bad(3, 0);
                }
                if !linked(fifth) {
                    return bad(4, 0);
                }
                Run::Free { next: fourth, previous: fifth }
            }
            (4, None) if is_first => {
                if units != layout.own_units() {
                    return bad(1, layout.own_units());
                }
                Run::First
            }
            (5, None) => {
                if fourth == 0 || layout.units_for_string(fourth) != Some(units) {
                    return bad(3, 0);
                }
                Run::String { bytes: fourth }
            }
            (6, None) => Run::Detached,
            _ => return bad(0, 3),
        })
    }
}

impl Head {
    /// Returns the header word of such a head at the heap offset of its object.
    pub(crate) const fn header(self, object: u64) -> u64 {
        match self.kind {
            Run::Slab { class, .. } => slab_header(object, class),
            _ => own_header(object, LINE_PAYLOAD),
        }
    }

    pub(crate) const fn encode(self) -> [u64; LINE_WORDS] {
        let Head { units, before, kind } = self;
        match kind {
            Run::Slab { state, next, previous, .. } => {
                [1, units, before, state.encode(), next, previous]
            }
            Run::Array { blocks, prepared, fresh } => {
                [ARRAY, units, before, blocks, prepared, fresh as u64]
            }
            Run::Free { next, previous } => [3, units, before, next, previous, 0],
            Run::First => [4, units, before, 0, 0, 0],
            Run::String { bytes } => [5, units, before, bytes, 0, 0],
            Run::Detached => [6, units, before, 0, 0, 0],
        }
    }

    /// Decodes the head of the run that begins with `unit`, of a slab of this class if its header
    /// says so. Every word must be possible in a heap of this layout whose frontier is `frontier`.
    pub(crate) fn decode(
        layout: Layout,
        words: [u64; LINE_WORDS],
        class: Option<usize>,
        unit: u64,
        frontier: u64,
    ) -> Result<Head, BadWord> {
        let bad = |word: u64, expected| Err(BadWord { offset: 8 * word, expected });
        let [kind, units, before, ..] = words;
        if unit >= frontier || units == 0 || units > frontier - unit {
            return bad(1, frontier.saturating_sub(unit));
        }
        let is_first = unit == 0;
        if is_first && (kind != 4 || before != 0) {
            return if kind != 4 { bad(0, 4) } else { bad(2, 0) };
        }
        if before > unit.saturating_sub(layout.own_units()) || kind == 3 && before != 0 {
            return bad(2, 0);
        }
        let kind = Run::decode(layout, words, class, unit, frontier)?;
        let head = Head { units, before, kind };
        let whole = head.encode();
        match (0..LINE_WORDS).find(|&i| words[i] != whole[i]) {
            Some(i) => bad(i as u64, whole[i]),
            None => Ok(head),
        }
    }
}

/// Returns the header word of one of the allocator's own objects.
pub(crate) const fn own_header(object: u64, bytes: u64) -> u64 {
    header::encode(object, Description { kind: Kind::Own, bytes, position: 0 })
}

/// Returns the header word of the head of a slab.
#[inline]
pub(crate) const fn slab_header(object: u64, class: usize) -> u64 {
    let position = Slot { class, number: 0, pieces: 0 }.encode();
    header::encode(object, Description { kind: Kind::Slab, bytes: LINE_PAYLOAD, position })
}

/// Returns whether a header word is that of the head of a slab of this class.
#[inline(always)]
pub(crate) const fn is_slab(header: u64, object: u64, class: usize) -> bool {
    header == slab_header(object, class)
}

/// Returns whether a header word is that of a head.
pub(crate) fn is_header(header: u64, object: u64) -> bool {
    header == own_header(object, LINE_PAYLOAD) || class_in(header, object).is_some()
}

/// Returns the class in the header word of a head, or `None` for a head that is no slab's.
pub(crate) fn class_in(header: u64, object: u64) -> Option<usize> {
    let found = header::decode(header, object).filter(|found| found.kind == Kind::Slab)?;
    Some(Slot::decode(found.position).class)
}

impl Heap {
    /// Returns the heap offset of the head of the run that begins with `unit`.
    #[inline(always)]
    pub(crate) const fn head(&self, unit: u64) -> u64 {
        self.layout.offset(unit) + HEAD
    }

    /// Writes the whole head of a run, its header included.
    pub(crate) fn write_head<W: Words>(
        &self,
        tx: &mut W,
        unit: u64,
        head: Head,
    ) -> Result<(), Stop> {
        let object = self.head(unit);
        tx.write(self.link_at(object), 0)?;
        tx.write(self.header_at(object), head.header(object))?;
        tx.write_words(self.addr(object, 0), &head.encode())
    }

    /// Reads and checks the head of the run that begins with `unit`.
    pub(crate) fn read_head<W: Words>(
        &self,
        tx: &mut W,
        unit: u64,
        frontier: u64,
    ) -> Result<Head, Stop> {
        if unit >= frontier {
            return Err(Stop::BadPointer);
        }
        let object = self.head(unit);
        let header = tx.read(self.header_at(object))?;
        let mut words = [0; LINE_WORDS];
        tx.read_words(self.addr(object, 0), &mut words)?;
        let class = class_in(header, object).filter(|&class| class < self.layout.classes());
        match Head::decode(self.layout, words, class, unit, frontier) {
            Ok(head) if head.header(object) == header => Ok(head),
            _ => Err(Stop::BadPointer),
        }
    }
}
