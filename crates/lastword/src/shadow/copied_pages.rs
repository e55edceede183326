//! The copied pages of a private mapping, and the protocol that drops a copy unnoticed.
//!
//! ```text
//!   page ->  | ID of the last transaction that has written it (62) | state (2) |
//!
//!              first write               evictor: marks it, waits until all attempts
//!   Cold  ------------------->  Hot  ---------------------------->  Evicting    in progress end
//!     ^                          ^                                    |    |
//!     |                          +------ a writer comes first --------+    | it is reproduced
//!     +------------------------------- dropped ---- Dropping <------------+
//! ```
//!
//! A bound on copies needs a way to drop one while transactions run, without a cost on reads.
//!
//! Reads check nothing. An attempt's first write to a page makes the page `Hot`. A write that meets
//! `Dropping` waits for one system call. Later writes of the same attempt may skip the check.
//!
//! A page that is still `Evicting` after the grace period may be dropped when its last-writer ID is
//! reproduced:
//! - An attempt that checked the page before the mark was in progress then, or had ended. The
//!   evictor has waited for its end, and its ID is in the last-writer ID.
//! - An attempt that checked the page since has set it back to `Hot`, or found it so.
//! - So the page has no unreproduced write, and no writer until it is dropped. Every reader finds
//!   the same words in the copy and in the file.
//!
//! Orderings. An attempt begins and ends with a locked addition to its worker's word. The evictor
//! marks pages and then reads that word with a locked addition too. These additions are ordered: if
//! the evictor's came before the attempt's beginning, the attempt sees the marks; else the evictor
//! sees the attempt. So an attempt pays no fence for each page.
//!
//! Invariants:
//! - One evictor at a time; only it marks and drops pages.
//! - A `Cold` page is the file's: every logged write to it is reproduced.

use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock, thread};
use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax, weaken};

const STATE: u64 = 3;
const COLD: u64 = 0;
const HOT: u64 = 1;
const EVICTING: u64 = 2;
const DROPPING: u64 = 3;
const STATE_BITS: u32 = 2;

/// The attempt counter of one worker.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// Odd while an attempt is in progress; never the same for two attempts.
    attempts: CachePadded<AtomicU64>,
}

/// A worker's handle to its attempt counter.
#[derive(Debug)]
pub struct Attempts {
    active: Arc<Active>,
}

impl Attempts {
    /// Begins an attempt.
    #[inline]
    pub(crate) fn begin(&self) {
        // Acquire: the marks of an evictor that has read the counter before; see the module. Pairs
        // with `Grace::of`.
        let acquire = relax(Ordering::Acquire, Mutant::AttemptBeginsRelaxed);
        if !injected(Mutant::AttemptNotCounted) {
            self.active.attempts.fetch_add(1, acquire);
        }
    }

    /// Ends the attempt.
    #[inline]
    pub(crate) fn end(&self) {
        // Release: its last-writer IDs and stores. Pairs with `Grace::is_over`. An addition, so
        // that the next attempt's beginning still sees the marks that an evictor published by its
        // own addition before this one. A store would hide them.
        if !injected(Mutant::AttemptNotCounted) {
            self.active.attempts.fetch_add(1, Ordering::Release);
        }
    }
}

/// The attempts that were in progress at one moment.
#[derive(Debug, Default)]
pub(crate) struct Grace(Vec<(Arc<Active>, u64)>);

impl Grace {
    fn of(workers: &[Arc<Active>]) -> Grace {
        let under_way = |active: &Arc<Active>| {
            // AcqRel: see the module. Release: our marks. Pairs with `Attempts::begin`. Acquire:
            // the effects of an attempt that has ended. Pairs with `Attempts::end`.
            let acq_rel = weaken(Ordering::AcqRel, Ordering::Acquire, Mutant::MarksNotReleased);
            let count = active.attempts.fetch_add(0, acq_rel);
            (count % 2 == 1).then(|| (Arc::clone(active), count))
        };
        Grace(workers.iter().filter_map(under_way).collect())
    }

    /// Whether all of them have ended.
    pub(crate) fn is_over(&mut self) -> bool {
        // Acquire: their effects. Pairs with `Attempts::end`.
        self.0.retain(|(active, count)| active.attempts.load(Ordering::Acquire) == *count);
        self.0.is_empty() || injected(Mutant::GracePeriodSkipped)
    }
}

/// The states of all pages.
#[derive(Debug)]
pub(crate) struct CopiedPages {
    pages: Box<[AtomicU64]>,
    /// Number of pages that are not `Cold`.
    copied: CachePadded<AtomicUsize>,
    workers: Mutex<Vec<Arc<Active>>>,
}

impl CopiedPages {
    /// Creates the states of `pages` pages, none of them copied.
    pub(crate) fn new(pages: usize) -> CopiedPages {
        CopiedPages {
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

    /// Removes a worker.
    pub(crate) fn leave(&self, attempts: &Attempts) {
        lock(&self.workers).retain(|active| !Arc::ptr_eq(active, &attempts.active));
    }

    /// Number of copied pages.
    #[inline]
    pub(crate) fn copied(&self) -> usize {
        self.copied.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Makes a page a copy until the calling attempt, which will write it, has ended.
    #[inline]
    pub(crate) fn open(&self, page: usize) {
        // Acquire: an earlier drop. Pairs with `dropped`.
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
                EVICTING if injected(Mutant::WriterKeepsMark) => return,
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

    /// Raises the last-writer ID of a page that a running transaction has written.
    #[inline]
    pub(crate) fn touch(&self, page: usize, id: u64) {
        let state = &self.pages[page];
        let mut now = state.load(Ordering::Relaxed);
        // Other transactions may have written other words of the page, and be first or last.
        while now >> STATE_BITS < id {
            // Relaxed: the evictor waits for the end of the attempt, which publishes this.
            let (relaxed, new) = (Ordering::Relaxed, id << STATE_BITS | now & STATE);
            match state.compare_exchange(now, new, relaxed, relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Marks a page to be dropped if it is a reproduced copy. Returns whether it is a copy, and
    /// whether it is marked.
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
        // Relaxed: `grace` publishes it.
        (true, state.compare_exchange(now, marked, relaxed, relaxed).is_ok())
    }

    /// Returns the attempts in progress after the marks of this thread.
    pub(crate) fn grace(&self) -> Grace {
        Grace::of(&lock(&self.workers))
    }

    /// Begins to drop a marked page after the grace period. Returns false if a writer has set it
    /// back, or its writes are not reproduced.
    pub(crate) fn begin_drop(&self, page: usize, reproduced: u64) -> bool {
        let state = &self.pages[page];
        let now = state.load(Ordering::Relaxed);
        if now & STATE != EVICTING {
            return false;
        }
        if now >> STATE_BITS > reproduced && !injected(Mutant::DropIgnoresLastWriter) {
            self.unmark(page);
            return false;
        }
        // Acquire: the stores to the page come before the drop.
        let (acquire, dropping) = (Ordering::Acquire, now & !STATE | DROPPING);
        state.compare_exchange(now, dropping, acquire, Ordering::Relaxed).is_ok()
    }

    /// Removes the mark of a page.
    pub(crate) fn unmark(&self, page: usize) {
        let state = &self.pages[page];
        let mut now = state.load(Ordering::Relaxed);
        // Attempts in progress may touch the page, or have set it back themselves.
        while now & STATE == EVICTING {
            let (relaxed, hot) = (Ordering::Relaxed, now & !STATE | HOT);
            match state.compare_exchange(now, hot, relaxed, relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Keeps a page whose drop the system refused.
    pub(crate) fn stays(&self, page: usize) {
        let state = &self.pages[page];
        let last_writer = state.load(Ordering::Relaxed) & !STATE;
        // Release: as in `dropped`.
        state.store(last_writer | HOT, Ordering::Release);
    }

    /// Completes the drop of a page.
    pub(crate) fn dropped(&self, page: usize) {
        let state = &self.pages[page];
        let last_writer = state.load(Ordering::Relaxed) & !STATE;
        // Release: the drop. Pairs with `open`. No other thread changes a page that is being
        // dropped.
        state.store(last_writer | COLD, Ordering::Release);
        self.copied.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks and drops a page, as the evictor does.
    fn drop_page(copies: &CopiedPages, page: usize, reproduced: u64) -> bool {
        let marked = copies.mark(page, reproduced).1;
        assert!(copies.grace().is_over());
        let drops = marked && copies.begin_drop(page, reproduced);
        if drops {
            copies.dropped(page);
        }
        drops
    }

    #[test]
    fn copy_is_dropped_after_reproduction() {
        let copies = CopiedPages::new(4);
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
    fn running_attempt_keeps_opened_page() {
        let copies = CopiedPages::new(4);
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
    fn refused_drop_leaves_writable_copy() {
        let copies = CopiedPages::new(4);
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
