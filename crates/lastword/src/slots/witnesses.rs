//! Witnesses of the records in slots on mapped media: when each is stored, and where.
//!
//! A witness proves that a record was durable. Each record leaves one in the cache, which survives
//! the end of the process; a power failure may lose it. So the first record that reaches a new page
//! of its slot is due for a second witness. The next record of any slot stores it past the cache,
//! and the fence of that record makes both durable. The medium's `mapped/witnesses` does the same
//! for the groups of a shared log.
//!
//! ```text
//!   record, the first on its page          -> slot     fence     witness -> cache; due
//!   next record, second witness of that    -> slot     fence     witness -> cache
//! ```
//!
//! **Truncation.** The witness of a record that the heap image has proves nothing. So before a head
//! frees records, the truncation writes the witnesses in the cache back. The first record of each
//! slot after it is due for a second witness, as on a new page. A record that is acknowledged
//! during the truncation may miss that; the slot's next record then does not.
//!
//! **`undo`.** A witness is void once its transaction has ended. So only the transaction's own next
//! record stores it, and the last record of an unfinished transaction has no durable witness.
//!
//! Each slot has two lines for each kind, because a power failure may tear the line that was stored
//! last. The other one has the witness before it, which a truncation may have written back.

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected};

use super::format::WITNESSES;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// Unit of loss that a power failure leaves provable.
const PAGE_WORDS: usize = 512;

/// The first two words of a witness; see [`Key::witness`](super::format::Key::witness).
pub(super) type Says = (u64, u64);

/// The witnesses of all slots.
#[derive(Debug)]
pub(super) struct Witnesses {
    slots: Box<[CachePadded<Slot>]>,
    /// Sets of slots whose second witness is due, as bits: one set, or under `undo` one per slot.
    due: Box<[CachePadded<AtomicU64>]>,
    /// The heap image has the records up to this ID or stamp.
    freed: AtomicU64,
}

/// The witnesses of one slot.
#[derive(Debug, Default)]
struct Slot {
    /// Number of witnesses in the cache so far.
    records: AtomicUsize,
    /// Word behind the last record that was due for a second one, and its ID, stamp or sequence.
    /// Only the slot's worker uses these, and the slot orders its workers, so accesses are relaxed.
    end: AtomicUsize,
    id: AtomicU64,
    /// The second witness to store, and the number of its line.
    next: Mutex<(Says, usize)>,
}

impl Witnesses {
    /// `early`: those of `undo`.
    pub(super) fn new(slots: usize, early: bool) -> Witnesses {
        let due = if early { slots } else { 1 };
        Witnesses {
            slots: (0..slots).map(|_| CachePadded::default()).collect(),
            due: (0..due).map(|_| CachePadded::default()).collect(),
            freed: AtomicU64::new(0),
        }
    }

    fn due(&self, slot: usize) -> &AtomicU64 {
        &self.due[slot % self.due.len()]
    }

    /// Returns the number of the line for the next witness in the cache.
    #[inline]
    pub(super) fn next_line(&self, slot: usize) -> usize {
        let records = &self.slots[slot].records;
        let number = records.load(Ordering::Relaxed);
        records.store(number.wrapping_add(1), Ordering::Relaxed);
        number % WITNESSES
    }

    /// Notes that the record at these words of a slot is durable. Only the slot's worker calls it.
    #[inline]
    pub(super) fn durable(&self, slot: usize, (first, end): (usize, usize), says: Says) {
        let its = &self.slots[slot];
        let before = its.end.load(Ordering::Relaxed);
        let is_first = first == 0 || end.div_ceil(PAGE_WORDS) > before.div_ceil(PAGE_WORDS);
        if (is_first || self.is_freed(its)) && !injected(Mutant::SlotPageWitnessLeftOut) {
            its.end.store(end, Ordering::Relaxed);
            its.id.store(says.0, Ordering::Relaxed);
            let (next, number) = &mut *lock(&its.next);
            (*next, *number) = (says, *number + 1);
            // Release: a thread that takes the bit locks a later witness than the one before.
            self.due(slot).fetch_or(1 << slot, Ordering::Release);
        }
    }

    #[inline]
    fn is_freed(&self, its: &Slot) -> bool {
        // Relaxed: see the module's documentation.
        its.id.load(Ordering::Relaxed) <= self.freed.load(Ordering::Relaxed)
            && !injected(Mutant::TruncationVoidsWitness)
    }

    /// Passes the due witnesses to `store`, each with its slot and the number of its line: the
    /// caller is about to write the record at word `at` of `slot`. Returns their number.
    #[inline]
    pub(super) fn take(
        &self,
        (slot, at): (usize, usize),
        store: impl FnMut(usize, usize, Says),
    ) -> u64 {
        // Relaxed: an acknowledgement before this record happens before it. A bit of a concurrent
        // one may be seen later.
        let is_due = self.due(slot).load(Ordering::Relaxed) != 0;
        // Under `undo` a record at word 0 begins another transaction.
        if is_due && !(at == 0 && self.due.len() > 1) { self.take_all(slot, store) } else { 0 }
    }

    #[cold]
    fn take_all(&self, slot: usize, mut store: impl FnMut(usize, usize, Says)) -> u64 {
        let mut slots = self.due(slot).swap(0, Ordering::Acquire);
        let taken = u64::from(slots.count_ones());
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let (says, number) = *lock(&self.slots[slot].next);
            store(slot, number % WITNESSES, says);
        }
        taken
    }

    /// Notes that a head is about to free the records up to this ID or stamp.
    pub(super) fn freeing(&self, frontier: u64) {
        self.freed.store(frontier, Ordering::Relaxed);
    }
}
