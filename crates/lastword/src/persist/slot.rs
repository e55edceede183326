//! A worker's slot in the persist step: its volatile ring of redo records, and the ID that it is
//! about to assign. From all slots follows the *frontier*, the greatest transaction ID up to which
//! every record is published.
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
//!
//! Invariant: for each assigned ID, [`RingRedo`] announces it to the slot before the assignment and
//! marks the slot idle after the record is published.

use crossbeam_utils::CachePadded;
use lw_log::{RECORD_HEAD_WORDS, Ring, RingMemory, Writer};
use medium::mutants::{Mutant, injected, relax};
use words::TxId;

use crate::perform::{Redo, Space, Written};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// The worker has no commit in flight.
pub(crate) const IDLE: u64 = u64::MAX;

/// The state that a worker shares with the persist step.
#[derive(Debug)]
pub(crate) struct Slot<S> {
    committing: CachePadded<AtomicU64>,
    pub(crate) ring: Ring<S>,
    closed: AtomicBool,
    /// The ring's `taken` at the last look for idle workers. Only the holder of the step's lock
    /// uses it, so it is no part of a protocol, and the models do not explore it.
    looked_at: std::sync::atomic::AtomicU64,
}

impl<S: RingMemory> Slot<S> {
    pub(crate) fn new(ring: Ring<S>) -> Slot<S> {
        let committing = CachePadded::new(AtomicU64::new(IDLE));
        Slot { committing, ring, closed: AtomicBool::new(false), looked_at: 0.into() }
    }

    /// Step 1: announces that an ID above `clock` is about to be assigned.
    #[inline]
    pub(crate) fn assigning(&self, clock: u64) {
        // Release: b may read this value instead of the previous commit's idle mark, and must then
        // see that commit's record. Pairs with the Acquire in `frontier`. The value is visible at b
        // by the clock's order, because the locked add follows this store.
        if !injected(Mutant::CommittingNotStored) {
            let release = relax(Ordering::Release, Mutant::CommittingStoredRelaxed);
            self.committing.store(clock, release);
        }
    }

    /// Step 4: announces that the record is published.
    #[inline]
    pub(crate) fn assigned(&self) {
        // Release: a thread that sees the idle mark sees the record. Pairs with the Acquire in
        // `frontier`.
        self.committing.store(IDLE, relax(Ordering::Release, Mutant::IdleMarkStoredRelaxed));
    }

    /// Closes the slot: its worker publishes no more records.
    pub(crate) fn close(&self) {
        // Release: comes after its last record. Pairs with `is_done`.
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the slot is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the slot is closed and its ring is empty.
    pub(crate) fn is_done(&self) -> bool {
        // `closed` first: the ring's count then includes every record published before it.
        self.closed.load(Ordering::Acquire) && self.ring.pending() == 0
    }

    /// Whether the persist step has taken no record since the last call.
    pub(super) fn is_unchanged(&self) -> bool {
        let taken = self.ring.taken();
        self.looked_at.swap(taken, Ordering::Relaxed) == taken
    }
}

/// Runs steps a to c: fills `cursors` with one cursor a slot and returns the frontier.
///
/// The caller reads `now` from the clock before it collects `slots`. A worker that registers later
/// has no ID up to `now`.
pub(crate) fn frontier<S: RingMemory>(
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
    let cursors_first = injected(Mutant::CursorsReadBeforeCommitting);
    if cursors_first {
        read_cursors(cursors);
    }
    let acquire = relax(Ordering::Acquire, Mutant::CommittingReadRelaxed);
    let oldest = slots.iter().map(|slot| slot.committing.load(acquire)).min();
    let clock_last = injected(Mutant::CommittingReadBeforeClock);
    let now = if clock_last { clock.load(Ordering::Acquire) } else { now };
    if !cursors_first {
        read_cursors(cursors);
    }
    now.min(oldest.unwrap_or(IDLE))
}

/// Words for which a worker pays at a time, to the [`RateLimit`](crate::rate_limit::RateLimit):
/// a payment takes as long as a short transaction.
const PAID_WORDS: u64 = 512;

/// The redo log of one worker.
pub(crate) struct RingRedo<S> {
    pub(crate) slot: Arc<Slot<S>>,
    writer: Writer,
    /// Words of the last record that did not fit.
    pub(crate) wanted: usize,
    /// Words in the ring from which the worker checks whether it should help.
    late_at: u64,
    /// The ring's cursor up to which the worker has paid.
    paid: u64,
}

impl<S: RingMemory> RingRedo<S> {
    pub(crate) fn new(slot: Arc<Slot<S>>) -> RingRedo<S> {
        let writer = Writer::new(&slot.ring);
        RingRedo { slot, writer, wanted: 0, late_at: 0, paid: 0 }
    }

    /// Returns the words recorded since the worker paid, if they are worth a payment.
    #[inline]
    pub(crate) fn due_words(&self) -> Option<u64> {
        let words = self.writer.written() - self.paid;
        (words >= PAID_WORDS).then_some(words)
    }

    /// Marks all recorded words as paid.
    #[inline]
    pub(crate) fn paid(&mut self) {
        self.paid = self.writer.written();
    }

    /// Whether the worker should run the persist step itself, because more than the usual words
    /// wait.
    #[inline]
    pub(crate) fn is_late(&mut self, usual: impl FnOnce() -> u64) -> bool {
        self.writer.used() > self.late_at && self.is_still_late(usual())
    }

    #[cold]
    fn is_still_late(&mut self, usual: u64) -> bool {
        // Read the shared cursor only when the cached one says so, and then not again for a while.
        self.writer.refresh(&self.slot.ring);
        let used = self.writer.used();
        let usual = usual.min(self.slot.ring.capacity() as u64 / 2);
        // Early enough for a pool without a pause. (Four times as late: durable p50 21.5 instead of
        // 18.6 us; `lastword run tpcc-hash --transactions 60000 --sample every --medium emulated
        // --bandwidth-gbps 1 --pause-us 0`.)
        self.late_at = usual.max(used + usual / 8);
        used > usual
    }
}

impl<S: RingMemory> Redo for RingRedo<S> {
    #[inline]
    fn has_room(&mut self, words: usize) -> bool {
        // Plus a no-op record, so that a commit that fails after this can still record its ID.
        let fits = self.writer.has_room(&self.slot.ring, words + RECORD_HEAD_WORDS);
        if !fits {
            self.wanted = words;
        }
        fits
    }

    #[inline]
    fn assigning(&mut self, clock: u64) {
        self.slot.assigning(clock);
    }

    #[inline]
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let mut record = self.writer.record(&self.slot.ring);
        written.runs(
            &mut record,
            |record| record.skip(),
            |record, value| record.push(value),
            |record, at, head| record.set(at, head),
        );
        let idle_first = injected(Mutant::CommittingClearedBeforePublished);
        if idle_first {
            self.slot.assigned();
        }
        record.publish(id.0);
        if !idle_first {
            self.slot.assigned();
        }
    }
}
