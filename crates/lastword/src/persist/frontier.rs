//! The frontier: the greatest transaction ID up to which every record is published.
//!
//! Workers publish records in private rings and in any order. The merge needs a dense prefix of
//! IDs, and the frontier gives it without a lock on the commit path.
//!
//! ```text
//!   worker                          persist step
//!   1 committing := clock seen      a read the clock
//!   2 assign ID (locked add)        b read every `committing`
//!   3 publish the record            c read every ring's cursor
//!   4 committing := idle
//! ```
//!
//! Every record up to min(clock of a, every `committing` of b) stands before the cursors of c:
//! - An ID up to the clock of a was assigned (2) before a; so 1 is visible at b.
//! - If b sees the value of 1, the minimum is below the ID: it is not claimed.
//! - Else b sees 4, or the 1 of a later commit. Both come after 3, so c sees the record.
//!
//! The order of the steps is necessary:
//! - With b before a, an ID could be assigned between the two and claimed unpublished.
//! - With c before b, a record could be published between them and claimed, but stand after the
//!   cursor.
//! - With 4 before 3, the same.
//!
//! The slot of an idle worker says idle and holds nothing back. A no-op record counts as any other
//! record.

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, planted, relax};

use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use lw_log::Ring;

/// The worker has no commit in flight.
pub(crate) const IDLE: u64 = u64::MAX;

/// The state that a worker shares with the persist step.
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

    /// Step 1: announces that an ID above `clock` is about to be assigned.
    #[inline]
    pub(crate) fn drawing(&self, clock: u64) {
        // Release: b may read this value instead of the previous commit's idle mark, and must then
        // see that commit's record. Pairs with the Acquire in `frontier`. The value is visible at b
        // by the clock's order, because the locked add follows this store.
        if !planted(Mutant::CommittingNotStored) {
            let release = relax(Ordering::Release, Mutant::CommittingStoredRelaxed);
            self.committing.store(clock, release);
        }
    }

    /// Step 4: announces that the record is published.
    #[inline]
    pub(crate) fn drawn(&self) {
        // Release: a thread that sees the idle mark sees the record. Pairs with the Acquire in
        // `frontier`.
        self.committing.store(IDLE, relax(Ordering::Release, Mutant::IdleMarkStoredRelaxed));
    }

    /// Closes the slot: its worker publishes no more records.
    pub(crate) fn close(&self) {
        // Release: comes after its last record. Pairs with `is_done`.
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the slot is closed and its ring is empty.
    pub(crate) fn is_done(&self) -> bool {
        // `closed` first: the ring's count then includes every record published before it.
        self.closed.load(Ordering::Acquire) && self.ring.pending() == 0
    }
}

/// Runs steps a to c: fills `cursors` with one cursor a slot and returns the frontier.
///
/// The caller reads `now` from the clock before it collects `slots`. A worker that registers later
/// has no ID up to `now`.
pub(crate) fn frontier<S: AsRef<[AtomicU64]>>(
    clock: &AtomicU64,
    slots: &[Arc<Slot<S>>],
    now: u64,
    cursors: &mut Vec<u64>,
) -> u64 {
    debug_assert!(now <= clock.load(Ordering::Relaxed));
    let read_cursors = |cursors: &mut Vec<u64>| {
        cursors.clear();
        cursors.extend(slots.iter().map(|slot| slot.ring.written()));
    };
    let cursors_first = planted(Mutant::CursorsReadBeforeCommitting);
    if cursors_first {
        read_cursors(cursors);
    }
    let acquire = relax(Ordering::Acquire, Mutant::CommittingReadRelaxed);
    let oldest = slots.iter().map(|slot| slot.committing.load(acquire)).min();
    let clock_last = planted(Mutant::CommittingReadBeforeClock);
    let now = if clock_last { clock.load(Ordering::Acquire) } else { now };
    if !cursors_first {
        read_cursors(cursors);
    }
    now.min(oldest.unwrap_or(IDLE))
}
