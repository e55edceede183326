//! The page table of `software` paging: where a page is, who keeps it there, who wrote it last.
//!
//! ```text
//!   map       page ->  | times paged in (35) | used (1) | frame + 1 (28) |    0: nowhere in memory
//!   uses      page ->  | moving (1) | attempts that write it (63) |  ID of the last one that has |
//!   pages     frame -> page + 1                                               0: no page's
//! ```
//!
//! A page is *moved* (paged in, evicted) by one thread at a time, and only while nobody has it
//! pinned: the count of pins and the mark of the move are one word. Who writes a page pins it until
//! the attempt ends, so a pinned page stays where it is. Who only reads pins nothing: it looks at
//! the map, reads the frame, and looks at the map again.
//!
//! Invariants:
//! - `map`, the touching ID and the frame of a page change hands with its `uses` word: a mover has
//!   it alone, pins share it.
//! - A frame is at most one page's, and only a page that is not moving has one that may be read.
//! - A map word is never the same before and after a move: it counts the times paged in.
//! - The touching ID of a page is not below that of any transaction that has written it and ended.
//!
//! Orderings. Reader: load `map` with Acquire, load the value, `fence(Acquire)`, load `map` again.
//! Mover: take the frame from its page's map, `fence(Release)`, store the words, store the new
//! page's `map` with Release. If the reader saw a word of the new page in a frame that it found
//! under the old one, the two fences make it see that the old page has lost it. And if it found the
//! frame under the new page, it sees the words. (As the ownership records in `perform/stm.rs`.)
//!
//! (DudeTM, section 4.3: a table with a reference count and a touching ID for each page. There
//! every access counts; here reads are checked afterwards, as the transactional memory checks them
//! anyway, so a read of a page in memory writes nothing.)

use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence, lock};
use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, planted};

const FRAME_BITS: u32 = 28;
const FRAME: u64 = (1 << FRAME_BITS) - 1;
const USED: u64 = 1 << FRAME_BITS;
const TIME: u64 = USED << 1;
const MOVING: u64 = 1 << 63;

/// Most frames that there can be.
pub(crate) const FRAMES_MAX: usize = FRAME as usize - 1;

/// Frames looked at for one whose page is at home, before one is taken whose page is not: its next
/// page-in waits. Chosen: longer than runs of pages that were written together, and at most a few
/// microseconds, as much as reading a page.
const LOOKS: usize = 64;

/// Where a page is, as of one look at the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Its frame, if it has one.
    #[inline(always)]
    pub(crate) fn frame(self) -> Option<usize> {
        ((self.0 & FRAME) as usize).checked_sub(1)
    }
}

/// Who keeps a page, and who wrote it.
#[derive(Debug, Default)]
struct Use {
    pins: AtomicU64,
    touching: AtomicU64,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    map: Box<[AtomicU64]>,
    uses: Box<[Use]>,
    pages: Box<[AtomicU64]>,
    /// Frames of no page.
    free: Mutex<Vec<usize>>,
    /// The frame that is looked at next when one is wanted.
    hand: CachePadded<AtomicUsize>,
}

/// A page that this thread alone may move. Dropping it ends the move, with the page where it is.
#[derive(Debug)]
pub(crate) struct Moving<'t> {
    table: &'t Table,
    page: usize,
}

/// A frame that is no page's. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Frame<'t> {
    table: &'t Table,
    number: usize,
    /// The page that was there, and whether not all of it is at home.
    pub(crate) evicted: Option<(usize, bool)>,
}

impl Table {
    /// A table of so many pages, none of them in memory.
    pub(crate) fn new(pages: usize, frames: usize) -> Table {
        assert!(frames <= FRAMES_MAX, "a map word holds the frame's number");
        Table {
            map: (0..pages).map(|_| AtomicU64::new(0)).collect(),
            uses: (0..pages).map(|_| Use::default()).collect(),
            pages: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            free: Mutex::new((0..frames).rev().collect()),
            hand: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn frames(&self) -> usize {
        self.pages.len()
    }

    /// Where a page is in memory; `None` also when it has not been used for a while.
    #[inline(always)]
    pub(crate) fn look(&self, page: usize) -> Option<(Place, usize)> {
        // Acquire: the words in the frame. Pairs with `settle`.
        let place = Place(self.map[page].load(Ordering::Acquire));
        if place.0 & USED == 0 { None } else { place.frame().map(|frame| (place, frame)) }
    }

    /// Whether the page was in this place all the time since it was looked at.
    #[inline(always)]
    pub(crate) fn holds(&self, page: usize, place: Place) -> bool {
        // See the module: pairs with the Release fence in `settle`.
        fence(Ordering::Acquire);
        (self.map[page].load(Ordering::Relaxed) ^ place.0) & !USED == 0
    }

    /// The page has been used: it is not the first to go.
    pub(crate) fn mark_used(&self, page: usize) {
        let now = self.map[page].load(Ordering::Relaxed);
        if now & FRAME != 0 && now & USED == 0 {
            // In vain when the page is moved at this moment.
            let (relaxed, used) = (Ordering::Relaxed, now | USED);
            let _ = self.map[page].compare_exchange(now, used, relaxed, relaxed);
        }
    }

    /// Keeps a page where it is until `unpin`; answers its frame. `None`: it is not in memory, or
    /// is moved at this moment.
    #[inline]
    pub(crate) fn pin(&self, page: usize) -> Option<usize> {
        // Acquire: what the last mover has done. Pairs with the end of `Moving`.
        if self.uses[page].pins.fetch_add(1, Ordering::Acquire) & MOVING == 0
            && let Some(frame) = self.place(page).frame()
        {
            return Some(frame);
        }
        self.unpin(page);
        None
    }

    #[inline]
    pub(crate) fn unpin(&self, page: usize) {
        // Release: our stores to the frame and the touching ID come before whoever moves the page.
        // Pairs with `begin_move`.
        self.uses[page].pins.fetch_sub(1, Ordering::Release);
    }

    /// What the map says of a page that is pinned, or that this thread moves.
    #[inline(always)]
    pub(crate) fn place(&self, page: usize) -> Place {
        Place(self.map[page].load(Ordering::Relaxed))
    }

    /// A transaction that has written the pinned page has this ID.
    #[inline]
    pub(crate) fn touch(&self, page: usize, id: u64) {
        let touching = &self.uses[page].touching;
        let mut now = touching.load(Ordering::Relaxed);
        // Others that have it pinned may have written other words of it, and be first or last.
        while now < id {
            // Relaxed: who moves the page has seen us unpin it.
            let relaxed = Ordering::Relaxed;
            match touching.compare_exchange(now, id, relaxed, relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// The last transaction that has written the page; true for who moves it.
    pub(crate) fn touching(&self, page: usize) -> u64 {
        self.uses[page].touching.load(Ordering::Relaxed)
    }

    /// Takes a page for moving it, unless somebody has it pinned or moves it.
    pub(crate) fn begin_move(&self, page: usize) -> Option<Moving<'_>> {
        let pins = &self.uses[page].pins;
        // Acquire: what those who had it pinned, or moved it, have done.
        pins.compare_exchange(0, MOVING, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Moving { table: self, page })
    }

    /// A frame for another page: a free one, or that of a page that has not been used for a while
    /// and is at home up to `reproduced`, or else of one that is not. `None`: all are pinned.
    /// `leave` is told of a page that goes, with its frame, while it still has it.
    pub(crate) fn frame(&self, reproduced: u64, leave: impl Fn(usize, usize)) -> Option<Frame<'_>> {
        if let Some(number) = lock(&self.free).pop() {
            return Some(Frame { table: self, number, evicted: None });
        }
        // Twice round: the first time may only have found that all were used. Then whoever comes.
        let (mut later, mut since) = (None, 0);
        for look in 0..3 * self.frames() {
            let number = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames();
            let Some(page) = self.unused_page(number, look >= 2 * self.frames()) else { continue };
            if self.touching(page) <= reproduced {
                if let Some(frame) = self.take(page, number, reproduced, &leave) {
                    return Some(frame);
                }
            } else if later.is_none() {
                later = Some((page, number));
            }
            since += usize::from(later.is_some());
            if since >= LOOKS {
                break;
            }
        }
        let (page, number) = later?;
        self.take(page, number, reproduced, &leave)
    }

    /// The page in a frame, if nobody has it pinned and it was not used since the last look, or
    /// that is no matter.
    fn unused_page(&self, frame: usize, used_too: bool) -> Option<usize> {
        let page = (self.pages[frame].load(Ordering::Relaxed) as usize).checked_sub(1)?;
        let place = self.place(page);
        if place.frame() != Some(frame) || self.uses[page].pins.load(Ordering::Relaxed) != 0 {
            return None;
        }
        if place.0 & USED != 0 && !used_too {
            let (relaxed, unused) = (Ordering::Relaxed, place.0 & !USED);
            let _ = self.map[page].compare_exchange(place.0, unused, relaxed, relaxed);
            return None;
        }
        Some(page)
    }

    /// Takes a frame from its page, if nobody has come to pin it.
    fn take(
        &self,
        page: usize,
        frame: usize,
        reproduced: u64,
        leave: impl Fn(usize, usize),
    ) -> Option<Frame<'_>> {
        let moving = self.begin_move(page)?;
        let place = self.place(page);
        if place.frame() != Some(frame) {
            return None;
        }
        leave(page, frame);
        let waits = self.touching(page) > reproduced;
        if !planted(Mutant::EvictedKept) {
            self.map[page].store(place.0 & !(FRAME | USED), Ordering::Relaxed);
        }
        self.pages[frame].store(0, Ordering::Relaxed);
        drop(moving);
        Some(Frame { table: self, number: frame, evicted: Some((page, waits)) })
    }
}

impl Moving<'_> {
    /// Puts the page into a frame, whose words `fill` stores, and pins it there for this thread.
    pub(crate) fn settle(self, frame: Frame<'_>, fill: impl FnOnce(usize)) -> usize {
        let (table, page, number) = (self.table, self.page, frame.number);
        // See the module: whoever sees a word that we store sees that the page that was here has
        // gone, also where another thread has taken the frame from it.
        fence(Ordering::Release);
        fill(number);
        let times = table.place(page).0.wrapping_add(TIME) & !(FRAME | USED);
        // Release: the words. Pairs with `look`.
        table.map[page].store(times | USED | (number as u64 + 1), Ordering::Release);
        table.pages[number].store(page as u64 + 1, Ordering::Relaxed);
        std::mem::forget((self, frame));
        // From mover to pin without a gap. Release: pairs with `pin` and `begin_move`.
        table.uses[page].pins.fetch_sub(MOVING - 1, Ordering::Release);
        number
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // Release: pairs with `pin` and `begin_move`. Those who have tried to pin it in vain may
        // not have taken that back yet.
        self.table.uses[self.page].pins.fetch_sub(MOVING, Ordering::Release);
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        lock(&self.table.free).push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_in(table: &Table, page: usize, reproduced: u64) -> Option<usize> {
        let moving = table.begin_move(page)?;
        let frame = table.frame(reproduced, |_, _| ())?;
        Some(moving.settle(frame, |_| ()))
    }

    #[test]
    fn a_pinned_page_stays_and_another_goes() {
        let table = Table::new(8, 2);
        assert!(table.look(3).is_none() && table.pin(3).is_none());
        let frame = page_in(&table, 3, 0).unwrap();
        assert_eq!(table.look(3).unwrap().1, frame);
        assert_eq!(page_in(&table, 4, 0), Some(1 - frame));
        assert_eq!(page_in(&table, 5, 0), None, "both frames are pinned");
        table.unpin(4);
        assert_eq!(page_in(&table, 5, 0), Some(1 - frame));
        assert!(table.pin(4).is_none());
        assert_eq!(table.pin(3), Some(frame));
    }

    #[test]
    fn a_page_that_is_at_home_goes_before_one_that_is_not() {
        let table = Table::new(8, 3);
        for (page, id) in [(0, 9), (1, 4), (2, 8)] {
            page_in(&table, page, 0).unwrap();
            table.touch(page, id);
            table.touch(page, id - 1);
            table.unpin(page);
        }
        let moving = table.begin_move(5).unwrap();
        let frame = table.frame(4, |_, _| ()).unwrap();
        assert_eq!(frame.evicted, Some((1, false)));
        drop((moving, frame));
        // The one that was given back, and then one that is not at home.
        page_in(&table, 6, 4).unwrap();
        let frame = table.frame(4, |_, _| ()).unwrap();
        assert!(matches!(frame.evicted, Some((0 | 2, true))), "{frame:?}");
        assert_eq!(table.touching(0), 9);
    }

    #[test]
    fn a_place_is_never_the_same_again() {
        let table = Table::new(2, 1);
        page_in(&table, 0, 0).unwrap();
        table.unpin(0);
        let (place, _) = table.look(0).unwrap();
        assert!(table.holds(0, place));
        page_in(&table, 1, 0).unwrap();
        assert!(!table.holds(0, place));
        table.unpin(1);
        page_in(&table, 0, 0).unwrap();
        assert!(!table.holds(0, place), "the same frame, at another time");
    }
}
