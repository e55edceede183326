//! The page table of `software` paging: each page's frame, pins and last writer.
//!
//! ```text
//!   map       page ->  | times paged in (35) | used (1) | frame + 1 (28) |    0: not in memory
//!   uses      page ->  | moving (1) | attempts that write it (63) |  ID of its last writer |
//!   pages     frame -> page + 1                                               0: free
//! ```
//!
//! A bounded shadow looks up every access here, so a read of a page in memory must write nothing.
//!
//! One thread at a time *moves* a page (pages it in, evicts it), and only while the page is not
//! pinned: the pin count and the mark of the move are one word. A writer pins a page until its
//! attempt ends, so a pinned page stays in its frame. A reader pins nothing: it reads the map,
//! reads the frame, and reads the map again.
//!
//! Invariants:
//! - The `uses` word owns the map entry, the last-writer ID and the frame of a page. A mover has it
//!   alone; pins share it.
//! - A frame belongs to at most one page, and only a page that is not moving has a readable frame.
//! - A map word is never the same before and after a move: it counts the times paged in.
//! - The last-writer ID of a page is not below that of any transaction that has written it and
//!   ended.
//!
//! Orderings. Reader: load `map` with Acquire, load the value, `fence(Acquire)`, load `map` again.
//! Mover: take the frame from its page's map, `fence(Release)`, store the words, store the new
//! page's `map` with Release.
//! - If the reader saw a word of the new page in a frame that it found under the old one, the two
//!   fences make it see that the old page has lost the frame.
//! - If it found the frame under the new page, it sees the words.
//!
//! (As the ownership records in `perform/stm.rs`.)
//!
//! (DudeTM, section 4.3: a table with a reference count and a last-writer ID for each page. There
//! every access counts. Here reads are checked afterwards, as the transactional memory does anyway,
//! so they need no count.)

use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence_unless, lock};
use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax};

const FRAME_BITS: u32 = 28;
const FRAME: u64 = (1 << FRAME_BITS) - 1;
const USED: u64 = 1 << FRAME_BITS;
const TIME: u64 = USED << 1;
const MOVING: u64 = 1 << 63;

/// Most frames of a table.
pub(crate) const FRAMES_MAX: usize = FRAME as usize - 1;

/// Frames checked for a reproduced page before an unreproduced page is evicted. The next page-in of
/// the latter has to wait for reproduction. Chosen: longer than runs of pages that were written
/// together, and at most a few microseconds, as much as reading a page.
const LOOKS: usize = 64;

/// The location of a page, as of one load of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns its frame, if it has one.
    #[inline(always)]
    pub(crate) fn frame(self) -> Option<usize> {
        ((self.0 & FRAME) as usize).checked_sub(1)
    }
}

/// The pins and the last writer of a page.
#[derive(Debug, Default)]
struct Use {
    pins: AtomicU64,
    last_writer: AtomicU64,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    map: Box<[AtomicU64]>,
    uses: Box<[Use]>,
    pages: Box<[AtomicU64]>,
    /// Free frames.
    free: Mutex<Vec<usize>>,
    /// The frame to check next for eviction.
    hand: CachePadded<AtomicUsize>,
}

/// The exclusive right to move a page. Dropping it ends the move and leaves the page where it is.
#[derive(Debug)]
pub(crate) struct Moving<'t> {
    table: &'t Table,
    page: usize,
}

/// A free frame. Dropping it returns it to the table.
#[derive(Debug)]
pub(crate) struct Frame<'t> {
    table: &'t Table,
    number: usize,
    /// The evicted page, and whether some of its writes are not reproduced.
    pub(crate) evicted: Option<(usize, bool)>,
}

/// Returns the number that a pin adds to the count of its page.
#[inline(always)]
fn one_pin() -> u64 {
    u64::from(!injected(Mutant::PinCountsNothing))
}

impl Table {
    /// Creates a table of `pages` pages, none of them in memory.
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

    /// Returns the location of a page in memory; `None` also when the page has not been used for a
    /// while.
    #[inline(always)]
    pub(crate) fn look(&self, page: usize) -> Option<(Place, usize)> {
        // Acquire: the words in the frame. Pairs with `settle`.
        let acquire = relax(Ordering::Acquire, Mutant::PlaceReadRelaxed);
        let place = Place(self.map[page].load(acquire));
        if place.0 & USED == 0 { None } else { place.frame().map(|frame| (place, frame)) }
    }

    /// Whether the page has been in this place ever since it was looked up.
    #[inline(always)]
    pub(crate) fn holds(&self, page: usize, place: Place) -> bool {
        // See the module: pairs with the Release fence in `settle`.
        fence_unless(Mutant::PlaceCheckedWithoutFence, Ordering::Acquire);
        injected(Mutant::PlaceNotChecked)
            || (self.map[page].load(Ordering::Relaxed) ^ place.0) & !USED == 0
    }

    /// Marks a page as used, which defers its eviction.
    pub(crate) fn mark_used(&self, page: usize) {
        let now = self.map[page].load(Ordering::Relaxed);
        if now & FRAME != 0 && now & USED == 0 {
            // Fails when the page is moved at this moment.
            let (relaxed, used) = (Ordering::Relaxed, now | USED);
            let _ = self.map[page].compare_exchange(now, used, relaxed, relaxed);
        }
    }

    /// Pins a page in its frame until `unpin`; returns the frame. `None`: the page is not in
    /// memory, or is being moved.
    #[inline]
    pub(crate) fn pin(&self, page: usize) -> Option<usize> {
        // Acquire: the effects of the last mover. Pairs with the end of `Moving`.
        let acquire = relax(Ordering::Acquire, Mutant::PinTakenRelaxed);
        if self.uses[page].pins.fetch_add(one_pin(), acquire) & MOVING == 0
            && let Some(frame) = self.place(page).frame()
        {
            return Some(frame);
        }
        self.unpin(page);
        None
    }

    #[inline]
    pub(crate) fn unpin(&self, page: usize) {
        // Release: our stores to the frame and the last-writer ID come before the next move of the
        // page. Pairs with `begin_move`.
        let release = relax(Ordering::Release, Mutant::PinReturnedRelaxed);
        self.uses[page].pins.fetch_sub(one_pin(), release);
    }

    /// Returns the map entry of a page that is pinned, or that this thread moves.
    #[inline(always)]
    pub(crate) fn place(&self, page: usize) -> Place {
        Place(self.map[page].load(Ordering::Relaxed))
    }

    /// Raises the last-writer ID of a pinned page that a transaction has written.
    #[inline]
    pub(crate) fn touch(&self, page: usize, id: u64) {
        let last_writer = &self.uses[page].last_writer;
        let mut now = last_writer.load(Ordering::Relaxed);
        // Other threads with a pin may have written other words of the page, and be first or last.
        while now < id {
            // Relaxed: a mover has seen us unpin the page.
            let relaxed = Ordering::Relaxed;
            match last_writer.compare_exchange(now, id, relaxed, relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Returns the last transaction that has written the page; exact only for the thread that moves
    /// it.
    pub(crate) fn last_writer(&self, page: usize) -> u64 {
        self.uses[page].last_writer.load(Ordering::Relaxed)
    }

    /// Takes a page for a move, unless it is pinned or another thread moves it.
    pub(crate) fn begin_move(&self, page: usize) -> Option<Moving<'_>> {
        let pins = &self.uses[page].pins;
        // Acquire: the effects of earlier pins and moves.
        let acquire = relax(Ordering::Acquire, Mutant::MoveTakenRelaxed);
        pins.compare_exchange(0, MOVING, acquire, Ordering::Relaxed).ok()?;
        Some(Moving { table: self, page })
    }

    /// Returns a frame for another page. In order of preference: a free one, that of an unused page
    /// reproduced up to `reproduced`, that of an unreproduced one. `None`: all are pinned. `leave`
    /// receives an evicted page and its frame before the page loses it.
    pub(crate) fn frame(&self, reproduced: u64, leave: impl Fn(usize, usize)) -> Option<Frame<'_>> {
        if let Some(number) = lock(&self.free).pop() {
            return Some(Frame { table: self, number, evicted: None });
        }
        // Three rounds: the first may only clear the used bits, and the last takes used pages too.
        let (mut later, mut since) = (None, 0);
        for look in 0..3 * self.frames() {
            let number = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames();
            let Some(page) = self.unused_page(number, look >= 2 * self.frames()) else { continue };
            if self.last_writer(page) <= reproduced {
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

    /// Returns the page in a frame, if it is not pinned and either unused since the last check or
    /// `used_too` is set.
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

    /// Takes a frame from its page, if the page has not been pinned meanwhile.
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
        let waits = self.last_writer(page) > reproduced;
        if !injected(Mutant::EvictedKept) {
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
        // See the module: a reader that sees a word stored here also sees that the frame's old page
        // has lost it, also where another thread has taken the frame from it.
        fence_unless(Mutant::FrameFilledWithoutFence, Ordering::Release);
        fill(number);
        let time = if injected(Mutant::PlaceRepeats) { 0 } else { TIME };
        let times = table.place(page).0.wrapping_add(time) & !(FRAME | USED);
        // Release: the words. Pairs with `look`.
        let release = relax(Ordering::Release, Mutant::PlaceStoredRelaxed);
        table.map[page].store(times | USED | (number as u64 + 1), release);
        table.pages[number].store(page as u64 + 1, Ordering::Relaxed);
        std::mem::forget((self, frame));
        // Turns the move into a pin without a gap. Release: pairs with `pin` and `begin_move`.
        table.uses[page].pins.fetch_sub(MOVING - one_pin(), Ordering::Release);
        number
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // Release: pairs with `pin` and `begin_move`. A subtraction and not a store: threads that
        // failed to pin the page may not have taken their counts back yet.
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
    fn pinned_page_is_never_evicted() {
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
    fn reproduced_page_is_evicted_first() {
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
        // The returned frame is used first, then that of an unreproduced page.
        page_in(&table, 6, 4).unwrap();
        let frame = table.frame(4, |_, _| ()).unwrap();
        assert!(matches!(frame.evicted, Some((0 | 2, true))), "{frame:?}");
        assert_eq!(table.last_writer(0), 9);
    }

    #[test]
    fn page_place_never_repeats() {
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
