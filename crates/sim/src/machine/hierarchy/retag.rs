//! Lines that change their number, and lines that the last-level cache must keep.

use super::super::Notify;
use super::super::network::Size;
use super::super::when::Time;
use super::{COHERENCE, HELD, MODIFIED, Machine, OWNED, PENDING, SHARED};
use crate::design::Design;
use crate::mutants::{Mutant, injected};

impl<D: Design> Machine<D> {
    /// Changes the number of a line that a core may write, keeping its data. The line is modified
    /// from then on. This is a directory transaction without data: all other copies of the new line
    /// are invalidated, and the last-level cache keeps the old line, clean. Returns when the home
    /// tile of the new line knows.
    ///
    /// A value that was modified under the old number is written back first. No transaction wrote
    /// it, so it must not be lost with one.
    pub fn retag(&mut self, core: usize, old: u32, new: u32) -> Time {
        let dirty = self.private_state(core, old) & COHERENCE == MODIFIED;
        if dirty && !injected(Mutant::SspRetagsDirty) {
            let class = self.design.class_of(old);
            self.write_back(core, old, class, |_| {}, Notify::None);
        }
        self.memory.copy_line(old, new);
        let known = self.notify_home_tile(core, new);
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

    /// Sends a control message from a core to the home tile of a line. Returns when its directory
    /// has it.
    pub(crate) fn notify_home_tile(&mut self, core: usize, line: u32) -> Time {
        let private = self.description.l2.as_ref().unwrap_or(&self.description.l1).latency;
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let asked = self.network.send(tile, home, Size::Control, self.now + private);
        self.book_bank(line, asked) + self.looked_up()
    }

    /// Returns whether the last-level cache holds a line.
    pub fn is_cached(&self, line: u32) -> bool {
        self.llc.find(line).is_some()
    }

    /// Holds a line in the last-level cache, or releases it. Returns whether the line is there.
    pub fn keep(&mut self, line: u32, keep: bool) -> bool {
        let Some(slot) = self.llc.find(line) else { return false };
        let state = self.llc.state(slot);
        self.llc.set_state(slot, if keep { state | HELD } else { state & !HELD });
        true
    }
}
