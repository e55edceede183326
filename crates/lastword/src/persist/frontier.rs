//! The frontier: up to which transaction ID every record is published.
//!
//! ```text
//!   worker                          persist step
//!   1 committing := clock seen      a read the clock
//!   2 draw ID (locked add)          b read every `committing`
//!   3 publish the record            c read every ring's cursor
//!   4 committing := idle
//! ```
//!
//! Everything up to min(clock of a, every `committing` of b) stands before the cursors of c:
//! - An ID up to the clock of a was drawn (2) before a; so 1 is visible at b.
//! - If b sees the value of 1, the minimum is below the ID: it is not claimed.
//! - Else b sees 4, or the 1 of a later commit; both come after 3, so c sees the record.
//!
//! Were b before a, an ID could be drawn between the two and claimed unpublished. Were c before b,
//! a record could be published between them and claimed, but stand behind the cursor. Were 4 before
//! 3, the same. An idle worker's slot says idle and holds nothing back; a hole is a record like
//! others.

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use lw_log::Ring;

/// No commit is under way.
pub(crate) const IDLE: u64 = u64::MAX;

/// What a worker shows to the persist step.
#[derive(Debug)]
pub(crate) struct Slot<S> {
    committing: CachePadded<AtomicU64>,
    pub(crate) ring: Ring<S>,
    closed: AtomicBool,
}

impl<S: AsRef<[AtomicU64]>> Slot<S> {
    pub(crate) fn new(ring: Ring<S>) -> Slot<S> {
        let committing = CachePadded::new(AtomicU64::new(IDLE));
        Slot { committing, ring, closed: AtomicBool::new(false) }
    }

    /// Step 1: an ID above `clock` is about to be drawn.
    #[inline]
    pub(crate) fn drawing(&self, clock: u64) {
        // Release: this may be what b sees instead of the idle mark of the commit before; it must
        // show that commit's record too. Pairs with the Acquire in `frontier`. That it is seen at
        // all follows from the clock's own order: the locked add comes after it.
        self.committing.store(clock, Ordering::Release);
    }

    /// Step 4: the record is published.
    #[inline]
    pub(crate) fn drawn(&self) {
        // Release: whoever sees the idle mark sees the record. Pairs with the Acquire in
        // `frontier`.
        self.committing.store(IDLE, Ordering::Release);
    }

    /// The worker is gone and will publish nothing more.
    pub(crate) fn close(&self) {
        // Release: comes after its last record. Pairs with `is_done`.
        self.closed.store(true, Ordering::Release);
    }

    /// Whether nothing is left in the ring and nothing will come.
    pub(crate) fn is_done(&self) -> bool {
        // `closed` first: what was published before it is then counted.
        self.closed.load(Ordering::Acquire) && self.ring.pending() == 0
    }
}

/// Steps a to c: fills `cursors` with one cursor a slot and answers the frontier.
///
/// `slots` is called after the clock was read: a worker that is registered later has drawn nothing
/// up to that clock.
pub(crate) fn frontier<S: AsRef<[AtomicU64]>>(
    clock: &AtomicU64,
    slots: &[Arc<Slot<S>>],
    now: u64,
    cursors: &mut Vec<u64>,
) -> u64 {
    debug_assert!(now <= clock.load(Ordering::Relaxed));
    let oldest = slots.iter().map(|slot| slot.committing.load(Ordering::Acquire)).min();
    cursors.clear();
    cursors.extend(slots.iter().map(|slot| slot.ring.written()));
    now.min(oldest.unwrap_or(IDLE))
}
