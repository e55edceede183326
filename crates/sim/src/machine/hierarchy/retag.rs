//! Lines that get another number, and lines that are kept.

use super::super::Tell;
use super::super::network::Size;
use super::super::when::Time;
use super::{COHERENCE, HELD, MODIFIED, Machine, OWNED, PENDING, SHARED};
use crate::design::Design;
use crate::mutants::{Mutant, planted};

impl<D: Design> Machine<D> {
    /// A line that a core may write becomes another one, with its bytes, which it has modified from
    /// here on: a transaction of the directory that carries no data. Whoever has a copy of the
    /// other line loses it; the last cache keeps the old line, clean. Answers when the home of the
    /// new one knows of it.
    ///
    /// What was modified under the old number is written back first: it was nobody's transaction
    /// that wrote it, so it must not share the fate of one.
    pub fn retag(&mut self, core: usize, old: u32, new: u32) -> Time {
        let dirty = self.private_state(core, old) & COHERENCE == MODIFIED;
        if dirty && !planted(Mutant::SspRetagsDirty) {
            let class = self.design.class_of(old);
            self.write_back(core, old, class, |_| {}, Tell::Nobody);
        }
        self.memory.copy_line(old, new);
        let known = self.tell_home(core, new);
        let coming = self.cores[core].core.pending(old, self.now, &self.tokens).is_some();
        self.cores[core].core.renamed(old, new);
        self.drop_private(core, old);
        self.directory[old as usize] &= !(OWNED | 1 << core);
        self.discard(new);
        self.directory[new as usize] = OWNED | 1 << core;
        self.put_llc(new, SHARED);
        self.put_private(core, new, MODIFIED | if coming { PENDING } else { 0 });
        known
    }

    /// A core tells the home of a line something that carries no data. Answers when it is known
    /// there.
    pub(crate) fn tell_home(&mut self, core: usize, line: u32) -> Time {
        let private = self.description.l2.as_ref().unwrap_or(&self.description.l1).latency;
        let (home, tile) = (self.home(line), self.tile(core));
        let asked = self.network.send(tile, home, Size::Control, self.now + private);
        self.book_bank(line, asked) + self.looked_up()
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
