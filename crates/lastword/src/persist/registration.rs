//! Registration of workers with the persist step, the step's copy of their list, and the words that
//! each may leave to the step.

use super::known_slots::KnownSlots;
use super::rings::{self, UNBOUNDED_WORDS};
use super::{Persist, Slot, Step, try_step};
use crate::Error;
use crate::sync::{Arc, Ordering, lock};

/// Usual words that wait while the persist thread has a core: the output of the fastest worker in a
/// few naps. More words mean that the thread gets no core.
const USUAL_WORDS: u64 = 512 * 1024 / 8;

/// Usual words with as many workers as cores. The persist thread then runs at the cost of a worker,
/// so workers persist inline, and early: the work is the same, and commits are durable sooner.
/// Measured with two workers on two cores, `lastword run tatp-hash --threads 2 --medium emulated`,
/// three runs each, with 16, 64, 512 and 4096 KiB: 5.5, 5.5, 6.1 and 5.9 M/s, durable in p50 0.09,
/// 0.37, 0.72 and 0.73 ms, p99 1.7, 2.9, 5.7 and 7.1 ms; hashtable 5.2, 5.3, 5.4, 5.4 M/s.
const CROWDED_WORDS: u64 = 64 * 1024 / 8;

impl Persist {
    /// Registers a worker with a ring of `ring_words`, or returns [`Error::NoRing`].
    pub(crate) fn register(&self, ring_words: usize) -> Result<Arc<Slot>, Error> {
        let ring = rings::new_ring(ring_words).map_err(|bytes| Error::NoRing { bytes })?;
        let slot = Arc::new(Slot::new(ring));
        let mut slots = lock(&self.slots);
        // Steps without work do not look at slots. Without this, workers that come and go between
        // two commits would accumulate.
        slots.retain(|slot| !slot.is_done());
        slots.push(Arc::clone(&slot));
        // Before the worker's first ID, and under the lock: see `known_slots`.
        self.slots_version.fetch_add(1, Ordering::Release);
        self.workers.fetch_add(1, Ordering::Relaxed);
        Ok(slot)
    }

    /// Closes a worker's slot. Records that it has published are still persisted.
    pub(crate) fn leave(&self, slot: &Slot) {
        slot.close();
        self.slots_version.fetch_add(1, Ordering::Release);
        self.workers.fetch_sub(1, Ordering::Relaxed);
        // A ring that was drained before it was closed: no later commit may come whose step drops
        // it. `gather` drops the others.
        lock(&self.slots).retain(|slot| !slot.is_done());
    }

    /// Releases memory of the rings of idle workers. With `all_idle`, each worker counts as idle,
    /// else those without a record since the last call.
    pub(crate) fn release_idle(&self, all_idle: bool) {
        // As a step: a thread that finds `sending` taken sleeps until a step ends. A busy step
        // means that a worker is not idle.
        let _ = try_step(&self.sending, &self.progress, self.send_end(), |sending, running| {
            let panic = running.on_panic("persist");
            self.forget_old_slots(&mut sending.slots);
            let mut slots = lock(&self.slots);
            slots.retain(|slot| !slot.is_done());
            for slot in slots.iter() {
                if slot.is_unchanged() || all_idle {
                    slot.ring.release_unclaimed();
                }
            }
            drop(slots);
            panic.disarm();
            Ok::<_, Error>(Step::Nothing)
        });
    }

    /// Words of a worker that may wait for the persist step. With more, the worker helps.
    pub(crate) fn usual_words(&self) -> u64 {
        let is_crowded = self.workers.load(Ordering::Relaxed) >= self.cores;
        match self.grouping.unpaused {
            // The persist thread is reproducing, or does not keep up. Records that this worker
            // sends itself are durable at once, and that thread can go on.
            true => self.grouping.words() as u64,
            false if is_crowded => CROWDED_WORDS,
            false => USUAL_WORDS,
        }
    }

    /// Copies the list if a worker has come or left. The caller has read the clock.
    #[inline]
    pub(super) fn look_at_slots(&self, known: &mut KnownSlots<Slot>) {
        // Acquire: pairs with the addition in `register`.
        let version = self.slots_version.load(Ordering::Acquire);
        if version != known.version {
            // A worker that comes in between is in the copy, and makes another copy.
            known.version = version;
            known.copy(&lock(&self.slots), Slot::is_closed);
        }
    }

    /// Drops the drained rings of workers that have left.
    #[cold]
    pub(super) fn drop_done(&self, known: &mut KnownSlots<Slot>) {
        let mut list = lock(&self.slots);
        list.retain(|slot| !slot.is_done());
        known.copy(&list, Slot::is_closed);
    }

    /// Drops a copy of the list that has changed, in a step without work: no later one may have
    /// any, and the copy may have the last reference to the ring of a worker that has left.
    pub(super) fn forget_old_slots(&self, known: &mut KnownSlots<Slot>) {
        // Relaxed: a step that reads an old version leaves it to the next one.
        if self.slots_version.load(Ordering::Relaxed) != known.version {
            *known = KnownSlots::default();
        }
    }

    /// Returns the unbounded rings and their `taken` cursors.
    pub(super) fn without_bound(slots: &[Arc<Slot>]) -> Vec<(Arc<Slot>, u64)> {
        let unbounded = slots.iter().filter(|slot| slot.ring.capacity() == UNBOUNDED_WORDS);
        unbounded.map(|slot| (Arc::clone(slot), slot.ring.taken())).collect()
    }
}
