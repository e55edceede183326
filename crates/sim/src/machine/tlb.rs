//! Address translation: the TLB of a core.

use super::description::Tlb as Described;

/// Lines per page of 4 KiB.
pub const PAGE_LINES: u32 = 64;

/// A fully associative TLB with least-recently-used replacement.
#[derive(Clone, Debug)]
pub struct Tlb {
    entries: usize,
    pages: Vec<u32>,
    /// The time of each page's last use; 0 when the page is absent.
    used: Vec<u32>,
    clock: u32,
}

impl Tlb {
    /// Returns an empty TLB for a memory of this many lines.
    pub fn new(described: &Described, lines: u32) -> Tlb {
        let pages = if described.entries == 0 { 0 } else { lines.div_ceil(PAGE_LINES) };
        Tlb {
            entries: described.entries as usize,
            pages: Vec::new(),
            used: vec![0; pages as usize],
            clock: 0,
        }
    }

    /// Translates a line: returns whether its page was present, and the page that was evicted for
    /// it.
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

/// The result of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// The page was in the TLB.
    Known,
    /// The page table was walked.
    Walked {
        /// The evicted page.
        left: Option<u32>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_page_is_evicted() {
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
