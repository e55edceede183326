//! Write permission for a program's words, in either layout.
//!
//! In an ordinary heap an object's header decides. Without headers, the head of the chunk and
//! arithmetic decide everything except whether a slot was ever allocated.

use words::{Addr, BLOCK_BYTES};

use crate::Heap;
use crate::head::Head;
use crate::header::{self, Kind, decode};
use crate::layout::{CHUNK_BYTES, HEAD, LINE_WORDS, Layout};

impl Heap {
    /// Returns whether a program may write the word at `at`: a whole word of a live object or of a
    /// prepared block. `word` is called only for words inside the heap, by their offset in bytes;
    /// it must return the word that the program's transaction would read.
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

    /// Returns whether a pointer leads to a live object or to a block of an array, in a heap in
    /// which no transaction runs; `word` as for [`live`](Heap::live).
    ///
    /// In an ordinary heap the header before the object decides. In a line-isolated heap the head
    /// of the chunk decides, which cannot exclude slots that were never allocated.
    pub fn is_live_at_rest(&self, object: u64, mut word: impl FnMut(u64) -> u64) -> bool {
        let Ok(offset) = self.untag(object) else { return false };
        let live = |kind| matches!(kind, Kind::Object | Kind::Block | Kind::Reserved);
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
        // After the first chunk of a run no chunk has a head. Data pass for one very rarely.
        let chunks = (0..=object / CHUNK_BYTES).rev();
        let mut heads = chunks.map(|chunk| Some((chunk, self.head_at_rest(chunk, word)?)));
        let (chunk, head) = heads.find_map(|found| found)?;
        match head {
            Head::Slab { class } if chunk == object / CHUNK_BYTES => {
                let class = class as usize;
                if !layout.is_slot(object, class) {
                    return None;
                }
                let label = word(object.wrapping_add(layout.label()));
                let bytes = layout.live_bytes(label, object, class)?;
                Some((Kind::Object, bytes))
            }
            Head::Run { prepared, .. } => {
                let from_first = object.checked_sub(layout.block(chunk, 0))?;
                let index = from_first / layout.block_stride();
                match from_first.is_multiple_of(layout.block_stride()) {
                    true if index < prepared => Some((Kind::Block, BLOCK_BYTES)),
                    true if index == 0 => Some((Kind::Reserved, 0)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Decodes the head of a chunk, if it is one.
    fn head_at_rest(&self, chunk: u64, word: &mut impl FnMut(u64) -> u64) -> Option<Head> {
        let object = chunk * CHUNK_BYTES + HEAD;
        let header = word(object - 8);
        let words: [u64; LINE_WORDS] = std::array::from_fn(|i| word(object + 8 * i as u64));
        let head = Head::decode(self.layout, words, chunk, self.chunks()).ok()?;
        (head.header(chunk) == header).then_some(head)
    }
}
