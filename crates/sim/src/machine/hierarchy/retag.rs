//! Lines that get another number, and lines that are kept.

use super::super::Tell;
use super::{COHERENCE, HELD, MODIFIED, Machine, OWNED, PENDING, SHARED};
use crate::design::Design;
use crate::mutants::{Mutant, planted};

impl<D: Design> Machine<D> {
    /// A line that a core may write becomes another one, with its bytes, which it has modified from
    /// here on: a transaction of the directory that carries no data. Whoever has a copy of the
    /// other line loses it; the last cache keeps the old line, clean. Answers the new one.
    ///
    /// What was modified under the old number is written back first: it was nobody's transaction
    /// that wrote it, so it must not share the fate of one.
    pub(crate) fn retag(&mut self, core: usize, old: u32, new: u32) -> u32 {
        let dirty = self.private_state(core, old) & COHERENCE == MODIFIED;
        if dirty && !planted(Mutant::SspRetagsDirty) {
            let class = self.design.class_of(old);
            self.write_back(core, old, class, |_| {}, Tell::Nobody);
        }
        self.memory.copy_line(old, new);
        let private = self.description.l2.as_ref().unwrap_or(&self.description.l1).latency;
        let bank = new as usize % self.banks.len();
        self.banks[bank].book(self.now + private, self.description.llc.busy as u32);
        let coming = self.cores[core].core.pending(old, self.now, &self.tokens).is_some();
        self.cores[core].core.renamed(old, new);
        self.drop_private(core, old);
        self.directory[old as usize] &= !(OWNED | 1 << core);
        self.discard(new);
        self.directory[new as usize] = OWNED | 1 << core;
        self.put_llc(new, SHARED);
        self.put_private(core, new, MODIFIED | if coming { PENDING } else { 0 });
        new
    }

    /// Whether the last cache has a line.
    pub fn is_cached(&self, line: u32) -> bool {
        self.llc.find(line).is_some()
    }

    /// The last cache keeps a line until it is told otherwise. Whether it has it.
    pub fn keep(&mut self, line: u32, keep: bool) -> bool {
        let Some(slot) = self.llc.find(line) else { return false };
        let state = self.llc.state(slot);
        self.llc.set_state(slot, if keep { state | HELD } else { state & !HELD });
        true
    }
}
