//! Which pages of a private mapping are copies, and how one is dropped without anybody's noticing.
//!
//! ```text
//!   page ->  | ID of the last transaction that has written it (62) | state (2) |
//!
//!              first write               evictor: marks it, waits until all attempts that are
//!   Cold  ------------------->  Hot  ---------------------------->  Evicting    under way end
//!     ^                          ^                                    |    |
//!     |                          +------ a writer comes first --------+    | it is at home
//!     +------------------------------- dropped ---- Dropping <------------+
//! ```
//!
//! Reads look at nothing. The first write of an attempt to a page looks at its state, and sees to
//! it that it is `Hot`; one that meets `Dropping` waits, which is for one system call. Later writes
//! of the same attempt may or may not look.
//!
//! Why it is safe to drop a page that is still `Evicting` after the grace period, when its touching
//! ID is reproduced:
//! - An attempt that had looked at the page before it was marked was under way then, or had ended.
//!   The evictor has waited for its end; its ID is in the touching ID.
//! - An attempt that has looked since has set it back to `Hot`, or found it so.
//! - So nobody has written what is not at home, nobody writes until it is dropped, and every reader
//!   finds the same words in the copy and in the file.
//!
//! Orderings. An attempt begins and ends with a locked addition to its worker's word; the evictor,
//! having marked pages, looks at that word with a locked addition too. They have an order: if the
//! evictor's came before the attempt's beginning, the attempt sees the marks; else the evictor sees
//! the attempt. So an attempt pays no fence for each page.
//!
//! Invariants:
//! - One evictor at a time; only it marks pages and drops them.
//! - A page that is `Cold` is the file's: nothing that was logged of it is not at home.

use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock, thread};
use crossbeam_utils::CachePadded;

const STATE: u64 = 3;
const COLD: u64 = 0;
const HOT: u64 = 1;
const EVICTING: u64 = 2;
const DROPPING: u64 = 3;
const STATE_BITS: u32 = 2;

/// Whether one worker's attempt is under way.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// Odd while one is; never the same for two.
    attempts: CachePadded<AtomicU64>,
}

/// One worker's attempts.
#[derive(Debug)]
pub struct Attempts {
    active: Arc<Active>,
}

impl Attempts {
    /// An attempt begins.
    #[inline]
    pub(crate) fn begin(&self) {
        // Acquire: see the module: the marks of an evictor that has looked before. Pairs with
        // `Grace::of`.
        self.active.attempts.fetch_add(1, Ordering::Acquire);
    }

    /// The attempt has ended.
    #[inline]
    pub(crate) fn end(&self) {
        // Release: its touching IDs, and all that it has stored. Pairs with `Grace::is_over`. An
        // addition, so that the next attempt's still sees what an evictor has shown by its own
        // before this one; a store would hide that.
        self.active.attempts.fetch_add(1, Ordering::Release);
    }
}

/// The attempts that were under way at one moment.
#[derive(Debug, Default)]
pub(crate) struct Grace(Vec<(Arc<Active>, u64)>);

impl Grace {
    fn of(workers: &[Arc<Active>]) -> Grace {
        let under_way = |active: &Arc<Active>| {
            // AcqRel: see the module. Release: our marks. Pairs with `Attempts::begin`. Acquire:
            // what an attempt that has ended has done. Pairs with `Attempts::end`.
            let count = active.attempts.fetch_add(0, Ordering::AcqRel);
            (count % 2 == 1).then(|| (Arc::clone(active), count))
        };
        Grace(workers.iter().filter_map(under_way).collect())
    }

    /// Whether all of them have ended.
    pub(crate) fn is_over(&mut self) -> bool {
        // Acquire: what they have done. Pairs with `Attempts::end`.
        self.0.retain(|(active, count)| active.attempts.load(Ordering::Acquire) == *count);
        self.0.is_empty()
    }
}

/// The states of all pages.
#[derive(Debug)]
pub(crate) struct Copies {
    pages: Box<[AtomicU64]>,
    /// Pages that are not `Cold`.
    copied: CachePadded<AtomicUsize>,
    workers: Mutex<Vec<Arc<Active>>>,
}

impl Copies {
    /// None of so many pages is copied.
    pub(crate) fn new(pages: usize) -> Copies {
        Copies {
            pages: (0..pages).map(|_| AtomicU64::new(COLD)).collect(),
            copied: CachePadded::new(AtomicUsize::new(0)),
            workers: Mutex::default(),
        }
    }

    /// Registers a worker.
    pub(crate) fn attempts(&self) -> Attempts {
        let active = Arc::new(Active::default());
        lock(&self.workers).push(Arc::clone(&active));
        Attempts { active }
    }

    /// The worker is gone.
    pub(crate) fn leave(&self, attempts: &Attempts) {
        lock(&self.workers).retain(|active| !Arc::ptr_eq(active, &attempts.active));
    }

    /// How many pages are copied.
    #[inline]
    pub(crate) fn copied(&self) -> usize {
        self.copied.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// An attempt that is under way will write the page: from here on it is a copy, until the
    /// attempt ends.
    #[inline]
    pub(crate) fn open(&self, page: usize) {
        // Acquire: the drop, if there was one. Pairs with `dropped`.
        if self.pages[page].load(Ordering::Acquire) & STATE != HOT {
            self.open_hard(page);
        }
    }

    #[cold]
    fn open_hard(&self, page: usize) {
        let state = &self.pages[page];
        loop {
            let now = state.load(Ordering::Acquire);
            let cold = match now & STATE {
                HOT => return,
                DROPPING => {
                    thread::yield_now();
                    continue;
                }
                state => state == COLD,
            };
            // Acquire: as above.
            let hot = now & !STATE | HOT;
            if state.compare_exchange(now, hot, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                self.copied.fetch_add(usize::from(cold), Ordering::Relaxed);
                return;
            }
        }
    }

    /// A transaction under way that has written the page has this ID.
    #[inline]
    pub(crate) fn touch(&self, page: usize, id: u64) {
        let state = &self.pages[page];
        let mut now = state.load(Ordering::Relaxed);
        // Others may have written other words of it, and be first or last.
        while now >> STATE_BITS < id {
            // Relaxed: the evictor waits for the end of the attempt, which shows it.
            let (relaxed, new) = (Ordering::Relaxed, id << STATE_BITS | now & STATE);
            match state.compare_exchange(now, new, relaxed, relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Marks a page for being dropped, if it is a copy that is at home; answers whether it was a
    /// copy, and whether it is marked.
    pub(crate) fn mark(&self, page: usize, reproduced: u64) -> (bool, bool) {
        let state = &self.pages[page];
        let now = state.load(Ordering::Relaxed);
        if now & STATE != HOT {
            return (false, false);
        }
        if now >> STATE_BITS > reproduced {
            return (true, false);
        }
        let (relaxed, marked) = (Ordering::Relaxed, now & !STATE | EVICTING);
        // Relaxed: `grace` shows it.
        (true, state.compare_exchange(now, marked, relaxed, relaxed).is_ok())
    }

    /// The attempts under way, behind the marks that this thread has made.
    pub(crate) fn grace(&self) -> Grace {
        Grace::of(&lock(&self.workers))
    }

    /// After the grace period: whether a marked page can be dropped, which nobody hinders any more.
    pub(crate) fn begin_drop(&self, page: usize, reproduced: u64) -> bool {
        let state = &self.pages[page];
        let now = state.load(Ordering::Relaxed);
        if now & STATE != EVICTING {
            return false;
        }
        if now >> STATE_BITS > reproduced {
            self.unmark(page);
            return false;
        }
        // Acquire: what was stored there comes before the drop.
        let (acquire, dropping) = (Ordering::Acquire, now & !STATE | DROPPING);
        state.compare_exchange(now, dropping, acquire, Ordering::Relaxed).is_ok()
    }

    /// A marked page stays.
    pub(crate) fn unmark(&self, page: usize) {
        let state = &self.pages[page];
        let mut now = state.load(Ordering::Relaxed);
        // Attempts under way may touch it, or have set it back themselves.
        while now & STATE == EVICTING {
            let (relaxed, hot) = (Ordering::Relaxed, now & !STATE | HOT);
            match state.compare_exchange(now, hot, relaxed, relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// A page that was being dropped stays: the system did not take it.
    pub(crate) fn stays(&self, page: usize) {
        let state = &self.pages[page];
        let touching = state.load(Ordering::Relaxed) & !STATE;
        // Release: as in `dropped`.
        state.store(touching | HOT, Ordering::Release);
    }

    /// The page is dropped.
    pub(crate) fn dropped(&self, page: usize) {
        let state = &self.pages[page];
        let touching = state.load(Ordering::Relaxed) & !STATE;
        // Release: the drop. Pairs with `open`. Nobody else changes a page that is being dropped.
        state.store(touching | COLD, Ordering::Release);
        self.copied.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks and drops a page, as if by one evictor.
    fn drop_page(copies: &Copies, page: usize, reproduced: u64) -> bool {
        let marked = copies.mark(page, reproduced).1;
        assert!(copies.grace().is_over());
        let drops = marked && copies.begin_drop(page, reproduced);
        if drops {
            copies.dropped(page);
        }
        drops
    }

    #[test]
    fn a_copy_is_dropped_when_it_is_at_home() {
        let copies = Copies::new(4);
        let attempts = copies.attempts();
        attempts.begin();
        copies.open(2);
        copies.touch(2, 7);
        copies.touch(2, 6);
        attempts.end();
        assert_eq!(copies.copied(), 1);
        assert!(!drop_page(&copies, 1, 9) && !drop_page(&copies, 2, 6));
        assert!(drop_page(&copies, 2, 7));
        assert_eq!(copies.copied(), 0);
    }

    #[test]
    fn an_attempt_under_way_keeps_what_it_has_opened() {
        let copies = Copies::new(4);
        let attempts = copies.attempts();
        attempts.begin();
        copies.open(1);
        assert_eq!(copies.mark(1, 0), (true, true));
        let mut grace = copies.grace();
        assert!(!grace.is_over());
        attempts.end();
        attempts.begin();
        assert!(grace.is_over(), "another attempt is not waited for");
        copies.open(1);
        assert!(!copies.begin_drop(1, 0), "a writer came first");
        copies.leave(&attempts);
        assert!(copies.grace().is_over());
        assert_eq!(copies.copied(), 1);
    }

    #[test]
    fn a_page_that_the_system_does_not_take_is_a_copy_that_can_be_written() {
        let copies = Copies::new(4);
        let attempts = copies.attempts();
        attempts.begin();
        copies.open(1);
        copies.touch(1, 7);
        attempts.end();
        assert!(copies.mark(1, 7).1 && copies.grace().is_over() && copies.begin_drop(1, 7));
        copies.stays(1);
        attempts.begin();
        copies.open(1);
        copies.touch(1, 8);
        attempts.end();
        assert_eq!(copies.copied(), 1);
        assert!(!drop_page(&copies, 1, 7) && drop_page(&copies, 1, 8));
    }
}
