//! Both physical pages of a page and the place of each line: the contents of a TLB entry and of a
//! slot.

use super::message::Flip;
use crate::machine::tlb::PAGE_LINES;

/// The two physical pages of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) p0: u32,
    pub(super) p1: u32,
    /// A bit for each line; 1 means that it lies in `p1`.
    pub(super) current: u64,
}

impl Pages {
    fn is_in_second(self, line: u32) -> bool {
        self.current >> (line % PAGE_LINES) & 1 != 0
    }

    fn line(self, line: u32, in_second: bool) -> u32 {
        (if in_second { self.p1 } else { self.p0 }) * PAGE_LINES + line % PAGE_LINES
    }

    /// Returns the place of a line of the page.
    #[inline]
    pub(super) fn place(self, line: u32) -> u32 {
        self.line(line, self.is_in_second(line))
    }

    /// Returns the other place of a line, and the flip that announces its move there.
    pub(super) fn other(self, line: u32) -> (u32, Flip) {
        let in_second = !self.is_in_second(line);
        (self.line(line, in_second), Flip { line, in_second })
    }

    /// Applies a flip of a line of the page.
    pub(super) fn apply(&mut self, Flip { line, in_second }: Flip) {
        let bit = 1 << (line % PAGE_LINES);
        self.current = if in_second { self.current | bit } else { self.current & !bit };
    }

    /// Applies a flip as a toggle of the bit; only for an injected bug.
    pub(super) fn toggle(&mut self, Flip { line, .. }: Flip) {
        self.current ^= 1 << (line % PAGE_LINES);
    }
}
