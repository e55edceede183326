//! The write-combining buffer of a core, which merges the stores to a line into one entry.

use crate::machine::memory::LineWords;

/// Words of a line that a transaction has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::design) struct Slot {
    pub(in crate::design) line: u32,
    /// The stored words.
    pub(in crate::design) mask: u8,
    /// Their values before the first of these stores.
    pub(in crate::design) old: LineWords,
    /// Their values after the last of these stores.
    pub(in crate::design) new: LineWords,
}

/// The buffer of a core.
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

    /// Adds a stored word. Returns the slot that the word displaces. Without coalescing each store
    /// has its own entry, so a repeated store to a word begins a new slot.
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

    /// Whether a store of this word would displace a slot.
    pub(super) fn is_full_for(&self, line: u32, at: usize) -> bool {
        match self.slots.iter().find(|slot| slot.line == line) {
            Some(slot) => !self.coalesce && slot.mask & (1 << at) != 0,
            None => self.slots.len() == self.room,
        }
    }

    /// Removes the slot of a line, if the buffer has one.
    pub(super) fn take(&mut self, line: u32) -> Option<Slot> {
        let at = self.slots.iter().position(|slot| slot.line == line)?;
        Some(self.slots.remove(at))
    }

    /// The number of slots.
    pub(super) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Removes all slots, oldest first.
    pub(super) fn drain(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_buffer_displaces_oldest_line() {
        let mut buffer = Buffer::new(2, true);
        assert_eq!(buffer.store(7, 0, 1, 2), None);
        assert_eq!(buffer.store(8, 5, 3, 4), None);
        assert_eq!(buffer.store(7, 3, 5, 6), None);
        assert_eq!(buffer.store(7, 0, 2, 9), None);
        assert!(buffer.is_full_for(9, 0) && !buffer.is_full_for(8, 6));
        let left = buffer.store(9, 0, 0, 1).expect("a third line displaces one");
        assert_eq!((left.line, left.mask), (7, 0b1001));
        assert_eq!((left.old[0], left.new[0], left.old[3]), (1, 9, 5), "first old, last new");
        assert_eq!(buffer.take(9).map(|slot| slot.mask), Some(1));
        assert_eq!(buffer.drain().len(), 1);
    }

    #[test]
    fn repeated_store_without_coalescing_begins_new_slot() {
        let mut buffer = Buffer::new(2, false);
        assert_eq!(buffer.store(7, 0, 1, 2), None);
        assert_eq!(buffer.store(7, 1, 1, 2), None);
        assert!(buffer.is_full_for(7, 0) && !buffer.is_full_for(7, 2));
        let left = buffer.store(7, 0, 2, 3).expect("the second store displaces the slot");
        assert_eq!((left.mask, left.new[0]), (0b11, 2));
    }
}
