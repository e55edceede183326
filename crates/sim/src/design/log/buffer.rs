//! The write-combining buffer of a core: words of a line become one entry.

use crate::machine::memory::LineWords;

/// Words of a line that a transaction has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::design) struct Slot {
    pub(in crate::design) line: u32,
    /// Which words.
    pub(in crate::design) mask: u8,
    /// What they were before the first of these stores, and are after the last.
    pub(in crate::design) old: LineWords,
    /// See `old`.
    pub(in crate::design) new: LineWords,
}

/// A core's buffer.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Oldest first.
    slots: Vec<Slot>,
    room: usize,
    coalesce: bool,
}

impl Buffer {
    pub(super) fn new(room: usize, coalesce: bool) -> Buffer {
        Buffer { slots: Vec::new(), room: room.max(1), coalesce }
    }

    /// A word was stored. Answers the slot that has to leave for it. Where entries are not
    /// coalesced each store has its own: a word that is stored again begins a new slot.
    pub(super) fn store(&mut self, line: u32, at: usize, old: u64, new: u64) -> Option<Slot> {
        let bit = 1 << at;
        let mut leaves = None;
        if let Some(found) = self.slots.iter().position(|slot| slot.line == line) {
            let slot = &mut self.slots[found];
            if self.coalesce || slot.mask & bit == 0 {
                if slot.mask & bit == 0 {
                    slot.old[at] = old;
                }
                slot.mask |= bit;
                slot.new[at] = new;
                return None;
            }
            leaves = Some(self.slots.remove(found));
        } else if self.slots.len() == self.room {
            leaves = Some(self.slots.remove(0));
        }
        let (mut olds, mut news) = ([0; 8], [0; 8]);
        (olds[at], news[at]) = (old, new);
        self.slots.push(Slot { line, mask: bit, old: olds, new: news });
        leaves
    }

    /// Whether a slot has to leave for this word.
    pub(super) fn is_full_for(&self, line: u32, at: usize) -> bool {
        match self.slots.iter().find(|slot| slot.line == line) {
            Some(slot) => !self.coalesce && slot.mask & (1 << at) != 0,
            None => self.slots.len() == self.room,
        }
    }

    /// The slot of a line leaves, if there is one.
    pub(super) fn take(&mut self, line: u32) -> Option<Slot> {
        let at = self.slots.iter().position(|slot| slot.line == line)?;
        Some(self.slots.remove(at))
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// All of them leave, oldest first.
    pub(super) fn drain(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_line_share_a_slot_and_the_oldest_line_leaves() {
        let mut buffer = Buffer::new(2, true);
        assert_eq!(buffer.store(7, 0, 1, 2), None);
        assert_eq!(buffer.store(8, 5, 3, 4), None);
        assert_eq!(buffer.store(7, 3, 5, 6), None);
        assert_eq!(buffer.store(7, 0, 2, 9), None);
        assert!(buffer.is_full_for(9, 0) && !buffer.is_full_for(8, 6));
        let left = buffer.store(9, 0, 0, 1).expect("there is room for two");
        assert_eq!((left.line, left.mask), (7, 0b1001));
        assert_eq!((left.old[0], left.new[0], left.old[3]), (1, 9, 5), "first old, last new");
        assert_eq!(buffer.take(9).map(|slot| slot.mask), Some(1));
        assert_eq!(buffer.drain().len(), 1);
    }

    #[test]
    fn without_coalescing_a_word_that_is_stored_again_begins_a_new_slot() {
        let mut buffer = Buffer::new(2, false);
        assert_eq!(buffer.store(7, 0, 1, 2), None);
        assert_eq!(buffer.store(7, 1, 1, 2), None);
        assert!(buffer.is_full_for(7, 0) && !buffer.is_full_for(7, 2));
        let left = buffer.store(7, 0, 2, 3).expect("it was there");
        assert_eq!((left.mask, left.new[0]), (0b11, 2));
    }
}
