//! The memory of the workers' rings: its allocation for a new worker, and its release.
//!
//! A ring takes the memory of its worker's backlog, which the worker cannot give back while it is
//! idle. The persist thread therefore releases memory when no worker has committed for a while, and
//! looks for idle workers now and then while others keep it busy.
//!
//! | ring | its memory is released |
//! |---|---|
//! | with regions | as the worker leaves a region, and while the worker is idle |
//! | unbounded | as its records are taken |
//! | of one region, or without a persist thread | with its worker |
//!
//! Invariant: the memory of a ring is released by the holder of `sending`.

use lw_log::{REGION_WORDS, Ring, RingMemory};
use medium::Memory;

use super::slot::given_back;
use super::{Persist, Slot, Step, UNBOUNDED_WORDS, try_step};
use crate::Error;
use crate::sync::{Arc, Ordering, lock};

/// Persist steps that had work, between two looks for idle workers: half a second with naps.
/// Chosen: a look costs less than a step, and a burst that comes after a shorter pause finds its
/// memory in place.
pub(crate) const STEPS_BETWEEN_LOOKS: u32 = 1024;

impl Persist {
    /// Registers a worker with a ring of `ring_words`.
    pub(crate) fn register(&self, ring_words: usize) -> Result<Arc<Slot>, Error> {
        let least = least_region(ring_words);
        let bytes = ring_bytes_max(8 * ring_words as u64);
        let memory = match ring_words {
            UNBOUNDED_WORDS => Memory::unreserved(bytes)?,
            // The regions before the largest one are an eighth of it.
            _ => Memory::growing(bytes, 8 * (ring_words / 8) as u64)?,
        };
        let slot = Arc::new(Slot::new(Ring::with_regions(memory, ring_words, least)));
        let mut slots = lock(&self.slots);
        // Steps without work do not look at slots. Without this, workers that come and go between
        // two commits would accumulate.
        slots.retain(|slot| !slot.is_done());
        slots.push(Arc::clone(&slot));
        self.workers.fetch_add(1, Ordering::Relaxed);
        Ok(slot)
    }

    /// Closes a worker's slot. Records that it has published are still persisted.
    pub(crate) fn leave(&self, slot: &Slot) {
        slot.close();
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
        let _ = try_step(&self.sending, &self.progress, self.send_end(), |_, running| {
            let panic = running.on_panic("persist");
            for slot in lock(&self.slots).iter() {
                if slot.is_unchanged() || all_idle {
                    slot.ring.release_unclaimed();
                }
            }
            panic.disarm();
            Ok::<_, Error>(Step::Nothing)
        });
    }
}

/// Returns the memory that a ring for `bytes` bytes of records takes at most.
pub(crate) fn ring_bytes_max(bytes: u64) -> u64 {
    let words = bytes as usize / 8;
    8 * Ring::<Memory>::words_of(words, least_region(words)) as u64
}

/// Returns the words of the least region of a ring. A small ring is one region.
fn least_region(ring_words: usize) -> usize {
    match ring_words {
        UNBOUNDED_WORDS => ring_words,
        _ if ring_words < 16 * REGION_WORDS => ring_words,
        _ => REGION_WORDS,
    }
}

/// Returns the unbounded rings and their `taken` cursors.
pub(super) fn without_bound(slots: &[Arc<Slot>]) -> Vec<(Arc<Slot>, u64)> {
    let unbounded = slots.iter().filter(|slot| slot.ring.capacity() == UNBOUNDED_WORDS);
    unbounded.map(|slot| (Arc::clone(slot), slot.ring.taken())).collect()
}

/// Releases the words that unbounded rings have returned since these cursors. No thread reads them
/// any more, and the worker is a wrap away.
pub(super) fn release_consumed(unbounded: Vec<(Arc<Slot>, u64)>) {
    for (slot, before) in unbounded {
        let words = given_back(before, slot.ring.taken());
        words.for_each(|words| RingMemory::release(slot.ring.storage(), words));
    }
}
