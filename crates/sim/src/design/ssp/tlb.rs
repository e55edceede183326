//! The TLB entries of a core as SSP widens them: both physical pages of each page that it knows,
//! and for each line in which of them the core finds it.
//!
//! The machine's [`Tlb`](crate::machine::tlb::Tlb) says which pages those are, and which one
//! leaves; this is what their entries have besides.
//!
//! An entry stands from the request on that fetches it, with what the SSP cache had then, and
//! broadcasts reach it from then on (see [`flips`](super::flips)).

use super::cache::Slot;
use super::message::Flip;
use crate::machine::tlb::PAGE_LINES;

/// No entry.
const NONE: u16 = u16::MAX;

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    p0: u32,
    p1: u32,
    current: u64,
}

impl Entry {
    fn is_in_second(&self, line: u32) -> bool {
        self.current >> (line % PAGE_LINES) & 1 != 0
    }

    fn place(&self, line: u32, in_second: bool) -> u32 {
        (if in_second { self.p1 } else { self.p0 }) * PAGE_LINES + line % PAGE_LINES
    }
}

/// What a core knows of pages.
#[derive(Clone, Debug)]
pub(super) struct Tlb {
    entries: Vec<Entry>,
    /// The entry of each page of the heap.
    entry_of: Vec<u16>,
}

impl Tlb {
    /// One that knows no page of a heap of so many.
    pub(super) fn new(pages: u32) -> Tlb {
        Tlb { entries: Vec::new(), entry_of: vec![NONE; pages as usize] }
    }

    fn at(&self, page: u32) -> Option<usize> {
        let at = *self.entry_of.get(page as usize)?;
        (at != NONE).then_some(usize::from(at))
    }

    /// Where a line lies; nothing when its page is not known.
    #[inline]
    pub(super) fn place(&self, line: u32) -> Option<u32> {
        let entry = &self.entries[self.at(line / PAGE_LINES)?];
        Some(entry.place(line, entry.is_in_second(line)))
    }

    /// Whether a line lies in the second one of its page's two; nothing when its page is not known.
    pub(super) fn is_in_second(&self, line: u32) -> Option<bool> {
        Some(self.entries[self.at(line / PAGE_LINES)?].is_in_second(line))
    }

    /// The other place of a line of a page that is known, and what is to be said when it gets
    /// there.
    pub(super) fn other(&self, line: u32) -> (u32, Flip) {
        let entry = &self.entries[self.at(line / PAGE_LINES).expect("its page is known")];
        let in_second = !entry.is_in_second(line);
        (entry.place(line, in_second), Flip { line, in_second })
    }

    /// A page is known from here on.
    pub(super) fn enters(&mut self, page: u32, slot: &Slot) {
        let Slot { p0, p1, current, .. } = *slot;
        debug_assert!(self.at(page).is_none(), "a page has one entry");
        self.entry_of[page as usize] = self.entries.len() as u16;
        self.entries.push(Entry { page, p0, p1, current });
    }

    /// A page is known no more.
    pub(super) fn leaves(&mut self, page: u32) {
        let at = std::mem::replace(&mut self.entry_of[page as usize], NONE);
        self.entries.swap_remove(usize::from(at));
        if let Some(moved) = self.entries.get(usize::from(at)) {
            self.entry_of[moved.page as usize] = at;
        }
    }

    /// A line lies elsewhere from here on, which matters if its page is known.
    pub(super) fn hears(&mut self, Flip { line, in_second }: Flip) {
        if let Some(at) = self.at(line / PAGE_LINES) {
            let bit = 1 << (line % PAGE_LINES);
            let current = &mut self.entries[at].current;
            *current = if in_second { *current | bit } else { *current & !bit };
        }
    }
}
