//! A watch over pages that many threads store to: a step precedes the first store to a page.
//!
//! ```text
//!   a thread that stores       bit clear: stores                                one load
//!                              bit set: locks the page's group
//!                                       runs the step, then clears the bit      once for a page
//!                                       stores
//!   the thread that watches    locks one group after another, and sets its bits
//! ```
//!
//! The step copies the page for a [`FrozenImage`](crate::FrozenImage), or marks its checksum. A
//! group is 64 pages: one word of bits.
//!
//! Invariants:
//! - A bit is set and cleared under its group's lock alone. So a thread that clears a bit has run
//!   its step after the bit was last set, and no watch gets lost.
//! - A bit is cleared after its step, with Release. A thread that finds it clear, with Acquire,
//!   stores after the step, whichever thread has run that. So the step reads the page as it was.
//!
//! A store that found its bit clear just before the bit was set is not held back. The caller of
//! [`watch`](PageWatch::watch) excludes such stores, or knows what they store: see the designs.

use std::ops::Range;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use system::mutants::{Mutant, injected};

/// Pages of a group.
const GROUP: usize = 64;

/// Groups with the same remainder share a lock. Chosen, not measured: a copy of one group rarely
/// holds up a store to another.
const LOCKS: usize = 64;

/// The watch over the pages of a heap. An empty one watches nothing.
#[derive(Debug, Default)]
pub(crate) struct PageWatch {
    /// Bit p: page p is watched.
    bits: Box<[AtomicU64]>,
    locks: Box<[Mutex<()>]>,
}

impl PageWatch {
    /// Returns a watch that can watch so many pages, and watches none.
    pub(crate) fn new(pages: usize) -> PageWatch {
        let groups = pages.div_ceil(GROUP);
        PageWatch {
            bits: (0..groups).map(|_| AtomicU64::new(0)).collect(),
            locks: (0..groups.min(LOCKS)).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Whether a step must precede a store to the page.
    #[inline(always)]
    pub(crate) fn is_watched(&self, page: usize) -> bool {
        // Acquire: pairs with the Release in `leave`. The step has read the page by then.
        let bits = self.bits.get(page / GROUP).map_or(0, |bits| bits.load(Ordering::Acquire));
        bits & 1 << (page % GROUP) != 0
    }

    /// Watches all pages.
    pub(crate) fn watch(&self) {
        for group in 0..self.bits.len() {
            let _group = lock(&self.locks[group % LOCKS]);
            // Relaxed: a thread that stores learns of the watch from the caller, or by this lock.
            self.bits[group].store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Runs the step of a page, unless another thread has, and ends the watch over the page.
    #[cold]
    pub(crate) fn leave(&self, page: usize, step: impl FnOnce()) {
        let (group, bit) = (page / GROUP, 1 << (page % GROUP));
        let _group = lock(&self.locks[group % LOCKS]);
        let bits = &self.bits[group];
        // Relaxed, as below: only holders of the lock change the bit.
        if bits.load(Ordering::Relaxed) & bit == 0 {
            return;
        }
        let early = injected(Mutant::WatchEndsBeforeStep);
        if early {
            bits.fetch_and(!bit, Ordering::Release);
        }
        step();
        // Release: see the invariants.
        bits.fetch_and(!bit, Ordering::Release);
    }

    /// Visits the pages of each group under its lock. No thread makes its first store to a watched
    /// page meanwhile.
    pub(crate) fn visit(&self, pages: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
        let mut page = pages.start;
        while page < pages.end {
            let end = pages.end.min((page / GROUP + 1) * GROUP);
            if let Some(group) = self.locks.get(page / GROUP % LOCKS) {
                let _group = lock(group);
                visit(page..end);
            }
            page = end;
        }
    }
}
