//! Pages with words, and the order in which they leave: a hand goes round over the heap.
//!
//! ```text
//!   page          0 ............................ hand ............................ last
//!   words since   half a round ago ....... now   |   a round ago ....... half a round ago
//! ```
//!
//! The hand takes pages in the order of their numbers, so neighbours are written together, however
//! few pages leave at a time. Behind the last page it begins again. The words that wait at a place
//! came after the hand was there, so the oldest words are ahead of the hand, and each slice frees
//! log. If a round freed log only at its end, the log would have to hold two rounds.
//!
//! The sweep knows the oldest word of each *region*: 64 pages, and more in heaps above 4 GiB.
//!
//! Pages that are filled one after another may keep the hand from the end of its round for long.
//! So it goes to another region whose words are more than twice as old as those at the hand.
//!
//! Invariants:
//! - A page has a bit in `waiting` if and only if it has words.
//! - `Region::pages` counts the bits of a region. No waiting page of it has a word before its
//!   `oldest`.
//! - The waiting pages of the hand's region that are behind the hand have no word before `entered`.

use system::mutants::{Mutant, injected};

use crate::traits::{Ahead, Unwritten};

/// Least pages of a region: those of one word of bits.
const REGION_PAGES_LOG2: u32 = 6;

/// Most regions. Each step reads all of them, so in a larger heap neighbours are joined.
const REGIONS_MAX: usize = 1 << 14;

/// The pages that have words.
#[derive(Debug)]
pub(super) struct Sweep {
    waiting: Vec<u64>,
    len: usize,
    regions: Vec<Region>,
    region_pages_log2: u32,
    /// The page from which on the next one is taken.
    hand: usize,
    /// The log sequence at which the hand entered its region.
    entered: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    pages: u32,
    /// The log sequence before the oldest word; undefined without pages.
    oldest: u64,
}

impl Region {
    fn oldest(&self) -> Option<u64> {
        (self.pages > 0).then_some(self.oldest)
    }
}

impl Sweep {
    /// For a heap of so many pages at first.
    pub(super) fn new(pages: usize) -> Sweep {
        let (waiting, regions) = (Vec::new(), Vec::new());
        let region_pages_log2 = REGION_PAGES_LOG2;
        let mut sweep = Sweep { waiting, len: 0, regions, region_pages_log2, hand: 0, entered: 0 };
        sweep.grow(pages);
        sweep
    }

    /// Makes room for a heap of so many pages.
    pub(super) fn grow(&mut self, pages: usize) {
        let words = pages.div_ceil(64).max(self.waiting.len());
        self.waiting.resize(words, 0);
        while (64 * words) >> self.region_pages_log2 > REGIONS_MAX {
            self.join_regions();
        }
        self.regions.resize((64 * words).div_ceil(1 << self.region_pages_log2), Region::default());
    }

    fn join_regions(&mut self) {
        let hand = self.hand >> self.region_pages_log2;
        if hand % 2 == 1 {
            // The first half of the hand's region is behind the hand.
            let behind = self.regions[hand - 1].oldest();
            self.entered = self.entered.min(behind.unwrap_or(self.entered));
        }
        let join = |pair: &[Region]| Region {
            pages: pair.iter().map(|region| region.pages).sum(),
            oldest: pair.iter().filter_map(Region::oldest).min().unwrap_or(0),
        };
        self.regions = self.regions.chunks(2).map(join).collect();
        self.region_pages_log2 += 1;
    }

    /// Returns the number of pages with words.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a page that had no words. `start`: the log sequence before its first word, which never
    /// decreases.
    pub(super) fn add(&mut self, page: usize, start: u64) {
        self.waiting[page / 64] |= 1 << (page % 64);
        self.len += 1;
        let region = &mut self.regions[page >> self.region_pages_log2];
        if region.pages == 0 {
            region.oldest = start;
        }
        region.pages += 1;
    }

    /// Takes the next pages, at most so many, and adds them to `out`. `start`: the log sequence
    /// before the words that are added next.
    pub(super) fn take(&mut self, pages: usize, start: u64, out: &mut Vec<u32>) {
        let mut left = pages.min(self.len);
        self.len -= left;
        if left > 0 {
            self.hand = self.next(start);
        }
        while left > 0 {
            let number = self.hand >> self.region_pages_log2;
            let (first, end) =
                (number << self.region_pages_log2, (number + 1) << self.region_pages_log2);
            if self.hand == first {
                self.entered = start;
            }
            left -= self.take_of_region(number, end, left, out);
            if self.hand < end {
                return;
            }
            // All words from before the hand came here are gone.
            self.regions[number].oldest = match injected(Mutant::RegionOldestTooNew) {
                true => start,
                false => self.entered,
            };
            if number + 1 == self.regions.len() {
                self.hand = 0;
            }
        }
    }

    /// Takes pages from the hand on, at most so many. Moves the hand behind the last one, or to the
    /// end of its region if there are no more. Returns how many it took.
    fn take_of_region(
        &mut self,
        number: usize,
        end: usize,
        most: usize,
        out: &mut Vec<u32>,
    ) -> usize {
        let region = &mut self.regions[number];
        let mut taken = 0;
        while region.pages > 0 && self.hand < end {
            let Some(word) = self.waiting.get_mut(self.hand / 64) else { break };
            let ahead = *word >> (self.hand % 64) << (self.hand % 64);
            if ahead == 0 {
                self.hand = (self.hand / 64 + 1) * 64;
                continue;
            }
            if taken == most {
                return taken;
            }
            let bit = ahead.trailing_zeros();
            *word &= !(1 << bit);
            self.hand = self.hand / 64 * 64 + bit as usize;
            out.push(self.hand as u32);
            self.hand += 1;
            region.pages -= 1;
            taken += 1;
        }
        self.hand = end;
        taken
    }

    /// Returns the page from which on pages are taken next: the hand's, or the first page of a
    /// region with much older words than the pages at the hand.
    ///
    /// A region that the hand leaves in the middle keeps its `oldest` until a whole pass.
    fn next(&self, start: u64) -> usize {
        let mut oldest: Option<(usize, u64)> = None;
        let (mut at_hand, mut pages) = (u64::MAX, 0);
        let here = self.hand >> self.region_pages_log2;
        for number in (here..self.regions.len()).chain(0..here) {
            let region = &self.regions[number];
            if region.pages == 0 {
                continue;
            }
            if pages * Unwritten::GROUPS <= self.len {
                at_hand = at_hand.min(region.oldest);
                pages += region.pages as usize;
            }
            if oldest.is_none_or(|(_, oldest)| region.oldest < oldest) {
                oldest = Some((number, region.oldest));
            }
        }
        let age = |sequence| start.saturating_sub(sequence);
        match oldest {
            Some((number, oldest)) if age(oldest) / 2 > age(at_hand) => {
                number << self.region_pages_log2
            }
            _ => self.hand,
        }
    }

    /// Returns the pages that wait, in the order in which they leave, with the ages of their words.
    /// `start`: the log sequence before the words that are added next.
    pub(super) fn unwritten(&self, start: u64) -> Unwritten {
        let mut unwritten = Unwritten { pages: self.len, ..Unwritten::default() };
        if self.len == 0 {
            return unwritten;
        }
        let next = self.next(start);
        let (regions_behind, ahead) = self.regions.split_at(next >> self.region_pages_log2);
        // Of the first region, the pages behind the hand leave last.
        let behind = self.waiting_behind(next);
        let mut pages = 0;
        let mut add = |more: u32, oldest| {
            if more > 0 {
                pages += more as usize;
                let group = (pages * Unwritten::GROUPS).div_ceil(self.len) - 1;
                let group = &mut unwritten.ahead[group];
                *group = Ahead { pages, oldest: group.oldest.min(oldest) };
            }
        };
        add(ahead[0].pages - behind, ahead[0].oldest);
        for region in ahead[1..].iter().chain(regions_behind) {
            add(region.pages, region.oldest);
        }
        add(behind, self.entered);
        unwritten
    }

    /// Returns how many pages wait in the region of this page and before it.
    fn waiting_behind(&self, page: usize) -> u32 {
        let first = (page >> self.region_pages_log2 << self.region_pages_log2) / 64;
        let whole: u32 = self.waiting[first..page / 64].iter().map(|word| word.count_ones()).sum();
        whole + (self.waiting[page / 64] & ((1 << (page % 64)) - 1)).count_ones()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn taken(sweep: &mut Sweep, pages: usize, start: u64) -> Vec<u32> {
        let mut out = Vec::new();
        sweep.take(pages, start, &mut out);
        out
    }

    #[test]
    fn hand_goes_round_and_knows_the_oldest_words() {
        let mut sweep = Sweep::new(200);
        for (page, start) in [(7, 0), (2, 100), (70, 100), (199, 200)] {
            sweep.add(page, start);
        }
        let oldest = |sweep: &Sweep| sweep.unwritten(600).oldest();
        assert_eq!((sweep.len(), oldest(&sweep)), (4, Some(0)));
        assert_eq!(taken(&mut sweep, 1, 300), [2]);
        assert_eq!(oldest(&sweep), Some(0));
        // A page that has left waits for the next round. One ahead of the hand keeps its place.
        sweep.add(2, 400);
        sweep.add(60, 400);
        assert_eq!(taken(&mut sweep, 2, 400), [7, 60]);
        assert_eq!(oldest(&sweep), Some(100), "of page 70");
        assert_eq!(taken(&mut sweep, 2, 500), [70, 199]);
        assert_eq!(oldest(&sweep), Some(300), "since the hand was at the first region");
        sweep.add(65, 600);
        assert_eq!(taken(&mut sweep, 9, 600), [2, 65]);
        assert_eq!((sweep.len(), oldest(&sweep)), (0, None));
    }

    #[test]
    fn hand_goes_to_much_older_words() {
        let mut sweep = Sweep::new(6400);
        sweep.add(0, 0);
        assert_eq!(taken(&mut sweep, 1, 0), [0]);
        // Page 0 has words again, and each step fills as many pages ahead as it takes.
        sweep.add(0, 1);
        let mut step = |region: u32| {
            let (pages, start) = (64 * region..64 * (region + 1), 100 * u64::from(region));
            pages.clone().for_each(|page| sweep.add(page as usize, start));
            (taken(&mut sweep, 64, start + 100), pages)
        };
        let (found, pages) = step(1);
        assert!(found.into_iter().eq(pages), "words of 199 beside words of 100");
        let (found, pages) = step(2);
        assert!(found.into_iter().eq([0].into_iter().chain(pages).take(64)), "299 beside 100");
    }

    #[test]
    fn joined_region_keeps_the_words_behind_the_hand() {
        let mut sweep = Sweep::new(64 * REGIONS_MAX);
        [3, 70, 71, 100_000].into_iter().for_each(|page| sweep.add(page, 10));
        assert_eq!(taken(&mut sweep, 1, 20), [3]);
        sweep.add(1, 25);
        assert_eq!(taken(&mut sweep, 1, 30), [70]);
        // The hand is at page 71, in the second half of a region now.
        sweep.grow(2 * 64 * REGIONS_MAX);
        assert_eq!(sweep.region_pages_log2, REGION_PAGES_LOG2 + 1);
        assert_eq!(taken(&mut sweep, 2, 40), [71, 100_000]);
        assert_eq!(sweep.unwritten(40).oldest(), Some(25));
    }

    #[test]
    fn groups_ahead_bound_the_words_of_their_pages() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let (mut sweep, mut pages) = (Sweep::new(100), 100_usize);
        // The first word of each page that waits, with the step as its sequence.
        let mut model: BTreeMap<usize, u64> = BTreeMap::new();
        let mut exact = 0;
        for step in 0..20_000_u64 {
            // The heap grows until its regions are joined.
            if step % 500 == 499 && pages < 5 << 20 {
                pages = (pages * 14 / 10).next_multiple_of(64);
                sweep.grow(pages);
            }
            let page = random.random_range(0..pages);
            if model.contains_key(&page) {
                continue;
            }
            model.insert(page, step);
            sweep.add(page, step);
            if random.random_range(0..50) > 0 {
                continue;
            }
            let (unwritten, next) = (sweep.unwritten(step + 1), sweep.next(step + 1));
            assert_eq!((sweep.len(), unwritten.pages), (model.len(), model.len()));
            let order: Vec<(usize, u64)> = model
                .range(next..)
                .chain(model.range(..next))
                .map(|(at, first)| (*at, *first))
                .collect();
            let mut before = 0;
            for group in unwritten.groups() {
                let oldest = order[before..group.pages].iter().map(|(_, first)| *first).min();
                assert!(group.oldest <= oldest.unwrap(), "{group:?}: {oldest:?}");
                exact += u64::from(Some(group.oldest) == oldest);
                before = group.pages;
            }
            assert_eq!(before, model.len());
            let count = random.random_range(0..80);
            let found = taken(&mut sweep, count, step + 1);
            let leave: Vec<usize> = order.iter().map(|(page, _)| *page).take(count).collect();
            assert!(found.iter().map(|page| *page as usize).eq(leave.iter().copied()));
            leave.iter().for_each(|page| assert!(model.remove(page).is_some()));
        }
        assert!(sweep.region_pages_log2 > REGION_PAGES_LOG2, "regions were joined");
        assert!(exact > 1_000, "{exact}");
    }
}
