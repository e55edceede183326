//! Write permission for a program's words, in either layout.
//!
//! In an ordinary heap an object's header decides. Without headers, the head of the run and
//! arithmetic decide everything except whether a slot was ever allocated.

use words::{Addr, BLOCK_BYTES, PIECE_BYTES, PIECE_STRIDE};

use crate::Heap;
use crate::head::{Head, Run, class_in};
use crate::header::{self, Kind, decode};
use crate::layout::{LINE_WORDS, Layout};

impl Heap {
    /// Returns whether a program may write the word at `at`: a whole word of a live object, of a
    /// prepared block or of a byte string. `word` is called only for words inside the heap, by
    /// their offset in bytes; it must return the word that the program's transaction would read.
    pub fn permits(&self, at: Addr, mut word: impl FnMut(u64) -> u64) -> bool {
        let Ok(object) = self.untag(at.object) else { return false };
        match self.layout {
            Layout::Ordinary => header::permits(word(object - 8), object, at.offset),
            Layout::LineIsolated => {
                let writable = self.placed(object, &mut word).map_or(0, |(_, bytes)| bytes);
                at.offset.is_multiple_of(8) && at.offset < writable
            }
        }
    }

    /// Returns whether a pointer leads to a live object, to a block of an array or to a byte
    /// string. No transaction may run in the heap. `word` is as for [`live`](Heap::live).
    ///
    /// In an ordinary heap the header before the object decides. In a line-isolated heap the head
    /// of the run decides, which cannot exclude slots that were never allocated.
    pub fn is_live_at_rest(&self, object: u64, mut word: impl FnMut(u64) -> u64) -> bool {
        let Ok(offset) = self.untag(object) else { return false };
        let live = |kind| !matches!(kind, Kind::Free | Kind::Own | Kind::Slab | Kind::Piece);
        match self.layout {
            Layout::Ordinary => {
                decode(word(offset - 8), offset).is_some_and(|found| live(found.kind))
            }
            Layout::LineIsolated => {
                self.placed(offset, &mut word).is_some_and(|(kind, _)| live(kind))
            }
        }
    }

    /// Returns the kind of object at this offset of a line-isolated heap, and its writable bytes.
    fn placed(&self, object: u64, word: &mut impl FnMut(u64) -> u64) -> Option<(Kind, u64)> {
        let layout = self.layout;
        // After the first unit of a run no unit has a head. Data pass for one very rarely.
        let units = (0..=object / layout.unit_bytes()).rev();
        let mut heads = units.map(|unit| Some((unit, self.head_at_rest(unit, word)?)));
        let (unit, head) = heads.find_map(|found| found)?;
        let from_first = object.checked_sub(layout.offset(unit) + layout.first_object())?;
        match head.kind {
            Run::Slab { class, .. } if unit == object / layout.unit_bytes() => {
                let number = from_first / layout.slot_bytes(class);
                let is_slot = from_first.is_multiple_of(layout.slot_bytes(class))
                    && number < layout.slots(head.units, class);
                if !is_slot {
                    return None;
                }
                let label = word(object.wrapping_add(layout.label()));
                let bytes = layout.live_bytes(label, object, class, number)?;
                Some((Kind::Object, bytes))
            }
            Run::Array { prepared, .. } => {
                let index = from_first / layout.block_stride();
                match from_first.is_multiple_of(layout.block_stride()) {
                    true if index < prepared => Some((Kind::Block, BLOCK_BYTES)),
                    true if index == 0 => Some((Kind::Reserved, 0)),
                    _ => None,
                }
            }
            Run::String { bytes } => {
                let index = from_first / PIECE_STRIDE;
                let left = bytes.saturating_sub(index * PIECE_BYTES).min(PIECE_BYTES);
                let kind = if index == 0 { Kind::RunString } else { Kind::Piece };
                let is_piece = from_first.is_multiple_of(PIECE_STRIDE) && left > 0;
                is_piece.then(|| (kind, left.next_multiple_of(8)))
            }
            _ => None,
        }
    }

    /// Decodes the head of a run, if one begins with this unit.
    pub(crate) fn head_at_rest(
        &self,
        unit: u64,
        word: &mut impl FnMut(u64) -> u64,
    ) -> Option<Head> {
        self.head_below(unit, self.units(), word)
    }

    /// The same in a heap with this frontier.
    pub(crate) fn head_below(
        &self,
        unit: u64,
        frontier: u64,
        word: &mut impl FnMut(u64) -> u64,
    ) -> Option<Head> {
        let object = self.head(unit);
        let header = word(object - 8);
        let words: [u64; LINE_WORDS] = std::array::from_fn(|i| word(object + 8 * i as u64));
        let class = class_in(header, object).filter(|&class| class < self.layout.classes());
        let head = Head::decode(self.layout, words, class, unit, frontier).ok()?;
        (head.header(object) == header).then_some(head)
    }
}
