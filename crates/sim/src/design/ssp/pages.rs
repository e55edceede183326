//! A page's two physical ones, and for each line in which of them it is: what an entry of a TLB and
//! a slot of the SSP cache know.

use super::message::Flip;
use crate::machine::tlb::PAGE_LINES;

/// Both pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) p0: u32,
    pub(super) p1: u32,
    /// A bit for each line: 1, it lies in `p1`.
    pub(super) current: u64,
}

impl Pages {
    fn is_in_second(self, line: u32) -> bool {
        self.current >> (line % PAGE_LINES) & 1 != 0
    }

    fn line(self, line: u32, in_second: bool) -> u32 {
        (if in_second { self.p1 } else { self.p0 }) * PAGE_LINES + line % PAGE_LINES
    }

    /// Where a line of the page lies.
    #[inline]
    pub(super) fn place(self, line: u32) -> u32 {
        self.line(line, self.is_in_second(line))
    }

    /// Where it does not, and what is to be said when it gets there.
    pub(super) fn other(self, line: u32) -> (u32, Flip) {
        let in_second = !self.is_in_second(line);
        (self.line(line, in_second), Flip { line, in_second })
    }

    /// A line of the page lies elsewhere from here on.
    pub(super) fn hear(&mut self, Flip { line, in_second }: Flip) {
        let bit = 1 << (line % PAGE_LINES);
        self.current = if in_second { self.current | bit } else { self.current & !bit };
    }

    /// The same, if the message turned the bit over.
    pub(super) fn turn(&mut self, Flip { line, .. }: Flip) {
        self.current ^= 1 << (line % PAGE_LINES);
    }
}
