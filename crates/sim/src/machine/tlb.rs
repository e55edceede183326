//! Translation of addresses: which pages a core knows.

use super::description::Tlb as Described;

/// Lines of a page of 4 KiB.
pub const PAGE_LINES: u32 = 64;

/// A core's fully associative buffer of translations; the page that was not used for longest
/// leaves.
#[derive(Clone, Debug)]
pub struct Tlb {
    entries: usize,
    pages: Vec<u32>,
    /// When each page was last used, 0: it is not known.
    used: Vec<u32>,
    clock: u32,
}

impl Tlb {
    /// One that knows no page of a memory of so many lines.
    pub fn new(described: &Described, lines: u32) -> Tlb {
        let pages = if described.entries == 0 { 0 } else { lines.div_ceil(PAGE_LINES) };
        Tlb {
            entries: described.entries as usize,
            pages: Vec::new(),
            used: vec![0; pages as usize],
            clock: 0,
        }
    }

    /// Uses the page of a line. Answers whether it was known, and which page has left for it.
    #[inline]
    pub fn translate(&mut self, line: u32) -> Translation {
        if self.entries == 0 {
            return Translation::Known;
        }
        let page = line / PAGE_LINES;
        self.clock += 1;
        let used = &mut self.used[page as usize];
        let known = *used != 0;
        *used = self.clock;
        if known { Translation::Known } else { self.miss(page) }
    }

    #[cold]
    fn miss(&mut self, page: u32) -> Translation {
        if self.pages.len() < self.entries {
            self.pages.push(page);
            return Translation::Walked { left: None };
        }
        let oldest = (0..self.pages.len()).min_by_key(|at| self.used[self.pages[*at] as usize]);
        let left = std::mem::replace(&mut self.pages[oldest.expect("it has entries")], page);
        self.used[left as usize] = 0;
        Translation::Walked { left: Some(left) }
    }
}

/// How an address was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// The page was known.
    Known,
    /// The page table was walked.
    Walked {
        /// The page that is not known any more.
        left: Option<u32>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_was_not_used_for_longest_leaves() {
        let mut tlb = Tlb::new(&Described { entries: 2, walk: 30 }, 1000);
        let walked = |left| Translation::Walked { left };
        assert_eq!(tlb.translate(0), walked(None));
        assert_eq!(tlb.translate(64), walked(None));
        assert_eq!(tlb.translate(63), Translation::Known);
        assert_eq!(tlb.translate(128), walked(Some(1)));
        assert_eq!(tlb.translate(1), Translation::Known);
        assert_eq!(tlb.translate(64), walked(Some(2)));
    }
}
