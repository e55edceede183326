//! The workers of a slot store: their commit state, the durable watermark, and their counters.
//!
//! Each worker makes its own transactions durable, so durability is known per worker. A commit may
//! return only when every earlier ID is durable too. This module computes that watermark from one
//! word per worker.
//!
//! ```text
//!   committing worker                         thread that reads the watermark
//!   1 committing := clock seen                a read the clock
//!   2 assign the ID (locked add)              b read every `committing`
//!   3 committing := ID - 1
//!   4 the transaction is durable
//!   5 ownership records released
//!   6 committing := idle
//! ```
//!
//! Invariants:
//! - Every ID up to min(clock of a, every `committing` of b) is durable; `persist/slot.rs` has
//!   the argument. An ID up to the clock of a was assigned before a, so step 1 is visible at b. If
//!   b sees 1 or 3, the minimum is below the ID. Otherwise b sees 6 or a later 1, and both come
//!   after 4.
//! - The reported watermark never decreases. The minimum itself can: a worker may pause between
//!   reading the clock and step 1. So [`Workers::durable`] returns the largest value that was ever
//!   reported or that a worker has acknowledged.
//! - The durable transactions are closed under dependencies. Step 5 comes after 4, so a value that
//!   another transaction reads is durable before that transaction is assigned its ID.

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax};

use super::boundary::Boundary;
use super::format::SLOTS_MAX;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::poison::Poison;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence_unless, spin_loop, thread};

/// No commit is in flight.
const IDLE: u64 = u64::MAX;
/// Polls before a waiting worker yields its core.
const SPINS: u32 = 1 << 10;

/// The state of one slot's worker that other threads read.
#[derive(Debug)]
pub(super) struct Slot {
    committing: AtomicU64,
    /// The last ID that this worker has acknowledged as durable, with all before it.
    acknowledged: AtomicU64,
    /// Words of durable records; see `redo`. Under `undo`, those of the running transaction.
    pub(super) filled: AtomicUsize,
    /// The last sequence used in the slot, from which the next worker continues.
    pub(super) sequence: Mutex<u64>,
    pub(super) meter: Meter,
}

/// All workers of a pool.
#[derive(Debug)]
pub(super) struct Workers {
    slots: Box<[CachePadded<Slot>]>,
    /// Slots from this one on were never used.
    used: AtomicUsize,
    durable: CachePadded<AtomicU64>,
    pub(super) poison: Poison,
    /// Read at each commit and seldom written.
    pub(super) boundary: CachePadded<Boundary>,
}

impl Workers {
    pub(super) fn new(slots: usize, last: u64) -> Workers {
        let slot = || Slot {
            committing: AtomicU64::new(IDLE),
            acknowledged: AtomicU64::new(0),
            filled: AtomicUsize::new(0),
            sequence: Mutex::new(0),
            meter: Meter::default(),
        };
        Workers {
            slots: (0..slots.min(SLOTS_MAX)).map(|_| CachePadded::new(slot())).collect(),
            used: AtomicUsize::new(0),
            durable: CachePadded::new(AtomicU64::new(last)),
            poison: Poison::default(),
            boundary: CachePadded::default(),
        }
    }

    /// Registers the worker with this number.
    pub(super) fn enter(&self, design: &'static str, number: usize) -> Result<(), Error> {
        if number >= self.slots.len() {
            // The pool has already refused numbers beyond the design's limit, so the log is too
            // small here.
            let instead = "create the pool with a larger log (`log_bytes`: 64 KiB for each worker)";
            return Err(Error::TooManyWorkers { design, max: self.slots.len(), instead });
        }
        // Release: a thread that sees an ID assigned after this also counts this worker; see
        // `frontier`.
        self.used.fetch_max(number + 1, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn slot(&self, number: usize) -> &Slot {
        &self.slots[number]
    }

    /// Returns the slots that ever had a worker.
    pub(super) fn used(&self) -> impl Iterator<Item = &Slot> {
        self.slots[..self.used.load(Ordering::Acquire)].iter().map(|slot| &**slot)
    }

    /// Returns the filled words of each slot, with its number, after words that transactions store
    /// in place were read: the records of these words are among them.
    pub(super) fn live(&self) -> impl Iterator<Item = (usize, usize)> {
        // Pairs with the fence in `Slot::publish_record`.
        fence_unless(Mutant::NoFenceAfterPageRead, Ordering::Acquire);
        self.used().enumerate().map(|(number, slot)| (number, slot.filled.load(Ordering::Acquire)))
    }

    /// Steps a and b.
    #[inline]
    pub(super) fn frontier(&self, clock: &AtomicU64) -> u64 {
        // Acquire: pairs with the addition that assigns an ID, which comes after step 1.
        let now = clock.load(Ordering::Acquire);
        // Acquire: pairs with steps 1 and 6; the worker's previous step 4 comes before either.
        let committing = self.used().map(|slot| slot.committing.load(Ordering::Acquire));
        let first = committing.min().unwrap_or(IDLE);
        let clock_last = injected(Mutant::SlotsReadBeforeClock);
        first.min(if clock_last { clock.load(Ordering::Acquire) } else { now })
    }

    /// Returns the durable watermark: the largest ID such that it and all before it are durable.
    pub(super) fn durable(&self, clock: &AtomicU64) -> u64 {
        // Acquire: a caller that learns of a durable transaction also sees its effects.
        let acknowledged = self.used().map(|slot| slot.acknowledged.load(Ordering::Acquire)).max();
        let known = self.frontier(clock).max(acknowledged.unwrap_or(0));
        self.durable.fetch_max(known, Ordering::AcqRel).max(known)
    }

    /// Waits until `id`, of this slot's worker, and all before it are durable. Afterwards
    /// [`durable`](Workers::durable) returns at least `id`. That costs a store to the worker's own
    /// line; one shared watermark would move from core to core with each commit.
    pub(super) fn acknowledge(&self, slot: &Slot, clock: &AtomicU64, id: u64) -> Result<(), Error> {
        self.wait_for(id, || self.frontier(clock))?;
        if !injected(Mutant::SlotAcknowledgementNotStored) {
            slot.acknowledged.store(id, Ordering::Release);
        }
        Ok(())
    }

    /// Waits until `id` and all before it are durable.
    pub(super) fn wait(&self, clock: &AtomicU64, id: u64) -> Result<(), Error> {
        self.wait_for(id, || self.durable(clock))
    }

    fn wait_for(&self, id: u64, durable: impl Fn() -> u64) -> Result<(), Error> {
        let mut spins = 0;
        while durable() < id {
            self.poison.check()?;
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else {
                thread::yield_now();
            }
        }
        Ok(())
    }

    pub(super) fn metrics(&self) -> Metrics {
        let mut sum = Metrics::default();
        self.slots.iter().for_each(|slot| slot.meter.add_to(&mut sum));
        sum
    }
}

impl Slot {
    /// Publishes a record of old values, up to this word of the slot. Stores in place to the words
    /// of the record follow; see `undo`.
    #[inline]
    pub(super) fn publish_record(&self, filled: usize) {
        // Release: a thread that sees the number sees the record.
        self.filled.store(filled, Ordering::Release);
        // Pairs with the fence in `Workers::live`: a thread that has read a word of the stores that
        // follow sees the number.
        fence_unless(Mutant::NoFenceAfterRecord, Ordering::Release);
    }

    /// Step 1.
    #[inline(always)]
    pub(super) fn assigning(&self, clock: u64) {
        // Release: a reader may see this store instead of the idle mark before it, so it must
        // publish everything that the mark publishes.
        if !injected(Mutant::SlotCommittingNotStored) {
            self.committing.store(clock, Ordering::Release);
        }
    }

    /// Step 3: other workers need not wait for more than this ID.
    #[inline(always)]
    pub(super) fn assigned(&self, id: u64) {
        let early = u64::from(injected(Mutant::SlotIdCountsAsDurable));
        self.committing.store(id - 1 + early, Ordering::Release);
    }

    /// Step 6.
    #[inline(always)]
    pub(super) fn idle(&self) {
        self.committing.store(IDLE, relax(Ordering::Release, Mutant::SlotIdleStoredRelaxed));
    }
}

/// Counters of one worker. Only that worker writes them, so a load and a store suffice.
#[derive(Debug, Default)]
pub(super) struct Meter {
    log_payload: AtomicU64,
    log_bytes: AtomicU64,
    heap_image_bytes: AtomicU64,
    device_writes: AtomicU64,
    persist_barriers: AtomicU64,
    delay_cycles: AtomicU64,
    grace_periods: AtomicU64,
    grace_cycles: AtomicU64,
}

#[inline(always)]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Meter {
    #[inline(always)]
    pub(super) fn logged(&self, words: usize) {
        add(&self.log_bytes, 8 * words as u64);
    }

    #[inline(always)]
    pub(super) fn payload(&self, words: usize) {
        add(&self.log_payload, 8 * words as u64);
    }

    #[inline(always)]
    pub(super) fn applied(&self, bytes: u64) {
        add(&self.heap_image_bytes, bytes);
    }

    /// Counts a barrier and the lines that it waited for.
    #[inline(always)]
    pub(super) fn barrier(&self, lines: u64, delay_cycles: u64) {
        add(&self.device_writes, lines);
        add(&self.persist_barriers, 1);
        add(&self.delay_cycles, delay_cycles);
    }

    /// Counts a timed grace period.
    #[inline(always)]
    pub(super) fn grace(&self, cycles: u64) {
        add(&self.grace_periods, 1);
        add(&self.grace_cycles, cycles);
    }

    pub(super) fn device(&self, writes: u64) {
        add(&self.device_writes, writes);
    }

    pub(super) fn barriers(&self, barriers: u64) {
        add(&self.persist_barriers, barriers);
    }

    pub(super) fn add_to(&self, sum: &mut Metrics) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.log_payload_bytes += of(&self.log_payload);
        sum.log_bytes += of(&self.log_bytes);
        sum.heap_image_bytes += of(&self.heap_image_bytes);
        sum.device_writes += of(&self.device_writes);
        sum.persist_barriers += of(&self.persist_barriers);
        sum.grace_periods += of(&self.grace_periods);
        sum.grace_cycles += of(&self.grace_cycles);
        let delay_ns = medium::cpu::cycles_to_ns(of(&self.delay_cycles));
        sum.emulated_delay_ns += delay_ns;
        // Workers spin while the emulated device is busy: that is no CPU work.
        sum.helped_cpu_ns += delay_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_id_stays_durable_when_a_commit_starts() {
        let workers = Workers::new(2, 0);
        (0..2).for_each(|number| workers.enter("a design", number).unwrap());
        let clock = AtomicU64::new(6);
        workers.acknowledge(workers.slot(0), &clock, 6).unwrap();
        // This worker has read the clock before the commits above and stores it only here.
        workers.slot(1).assigning(5);
        assert_eq!((workers.frontier(&clock), workers.durable(&clock)), (5, 6));
        workers.wait(&clock, 6).unwrap();
    }
}
