//! The budget of a heap that grows before it is full, between the workers and one thread.
//!
//! A worker subtracts the bytes of each run that it takes. When the budget is used up (0 or less),
//! the thread looks at the heap, grows it if need be, and adds to the budget.
//!
//! Invariants:
//! - Each run is subtracted once. Runs that are taken during a look count for the next one, since
//!   the thread adds the difference to the budget that it saw before the look.
//! - While the budget is used up, the thread looks, or is about to: the worker that uses it up
//!   notifies, and the thread does not wait before the budget is positive.
//!
//! A worker subtracts a run before its transaction commits, so a look that begins in between counts
//! the run as free. The budget is then too large by the runs of the transactions that are open at
//! that moment. The thread looks later by so many bytes, and the next look counts them.

use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected};

use crate::persist::event::Event;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// The result of a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Bytes of runs that may be taken between the start of this look and the next one. 0: look
    /// again at once.
    pub(super) bytes: u64,
    /// When to look at the latest, whatever was taken.
    pub(super) at: Option<Instant>,
}

impl Look {
    /// No further look.
    pub(super) const LAST: Look = Look { bytes: u64::MAX, at: None };

    /// Whether a look is due that waits for no run.
    pub(super) fn is_due(at: Option<Instant>, now: impl Fn() -> Instant) -> bool {
        at.is_some_and(|at| at <= now())
    }
}

/// The greatest budget. Adding it to a budget that is used up does not overflow.
const BYTES_MAX: u64 = 1 << 62;

/// State that the workers and the thread share.
#[derive(Debug)]
pub(super) struct Budget {
    /// A signed number in two's complement. On cache lines of its own: workers write it, and the
    /// fields beside the `Budget` are read by every transaction.
    ///
    /// Relaxed throughout: it publishes no other data. The event orders it for the thread. A thread
    /// that reads the new epoch sees the budget of the worker that raised it.
    bytes: CachePadded<AtomicU64>,
    /// Notified when the budget is used up, and when the pool closes.
    due: CachePadded<Event>,
    closing: AtomicBool,
}

impl Budget {
    /// A budget that the first run uses up, so that the thread counts.
    pub(super) fn new() -> Budget {
        let bytes = CachePadded::new(AtomicU64::new(1));
        let due = CachePadded::new(Event::default());
        Budget { bytes, due, closing: AtomicBool::new(false) }
    }

    /// Subtracts a run that a transaction has taken.
    #[inline]
    pub(super) fn took_run(&self, bytes: u64) {
        let bytes = bytes.min(BYTES_MAX);
        if injected(Mutant::HeapNearlyFullUnnoticed) {
            return;
        }
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed) as i64;
        if before > 0 && before <= bytes as i64 {
            self.used_up();
        }
    }

    #[cold]
    fn used_up(&self) {
        self.due.notify();
    }

    /// Whether the thread has to look.
    pub(super) fn is_used_up(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) as i64 <= 0
    }

    /// Looks, and adds to the budget. Looks again while it is used up: the runs that are taken
    /// meanwhile cause no notification.
    pub(super) fn renew(&self, mut look: impl FnMut() -> Look) -> Option<Instant> {
        loop {
            // Before the look, which may miss runs that are taken after this.
            let seen = self.bytes.load(Ordering::Relaxed);
            let Look { bytes, at } = look();
            let bytes = bytes.min(BYTES_MAX);
            if injected(Mutant::BudgetStored) {
                self.bytes.store(bytes.max(1), Ordering::Relaxed);
                return at;
            }
            let added = bytes.wrapping_sub(seen);
            let sum = self.bytes.fetch_add(added, Ordering::Relaxed).wrapping_add(added);
            if sum as i64 > 0 || self.is_closing() {
                return at;
            }
        }
    }

    /// Looks whenever the budget is used up, until the pool closes.
    pub(super) fn serve(&self, mut look: impl FnMut() -> Look) {
        let mut at = None;
        loop {
            // Before the flag and the budget: a change of either after this raises the epoch.
            let epoch = self.due.epoch();
            if self.is_closing() {
                return;
            }
            if self.is_used_up() || Look::is_due(at, Instant::now) {
                at = self.renew(&mut look);
            }
            let longest = at.map(|at| at.saturating_duration_since(Instant::now()));
            if longest != Some(Duration::ZERO) {
                self.due.wait(epoch, longest);
            }
        }
    }

    /// Ends [`serve`](Budget::serve), once its look is over.
    pub(super) fn close(&self) {
        let early = injected(Mutant::GrowthThreadWokenEarly);
        if early {
            self.due.notify();
        }
        // Release, and before the notification: the thread that it wakes sees the flag.
        self.closing.store(true, Ordering::Release);
        if !early {
            self.due.notify();
        }
    }

    /// Whether the pool closes, so that a look should end soon.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
