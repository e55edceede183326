//! Waits before an attempt begins: for space in the slot or for copies, or for an object's old
//! version.
//!
//! A waiting worker holds no object and no group, so waits cannot form a cycle.

use medium::Memory;
use medium::mutants::{Mutant, injected};

use super::log::{BEFORE_RUNS, Log};
use super::waiting::Waiting;
use super::{COPIES_MIN, Core, Local, Snapshot};
use crate::Error;
use crate::design::Design;
use crate::dual_version::{Attempt, Ready};
use crate::slots::truncation::Truncation;
use crate::sync::{Ordering, lock};

impl Core {
    /// Returns the bytes of a worker's memory for copies.
    pub(super) fn copies_bytes(&self) -> u64 {
        8 * self.options.ring_words().max(COPIES_MIN) as u64
    }

    /// Allocates a worker's memory for copies.
    ///
    /// # Errors
    /// [`Error::NoRing`].
    pub(super) fn copies(&self) -> Result<Memory, Error> {
        let bytes = self.copies_bytes();
        Memory::anonymous(bytes).map_err(|_| Error::NoRing { bytes })
    }

    /// Waits until the obstacle of the last attempt is gone. The worker holds nothing meanwhile.
    #[cold]
    fn wait_until_ready(&self, attempt: &mut Attempt) -> Result<(), Error> {
        let mut waiting = Waiting::begin(self);
        loop {
            match self.versions.ready(&self.store, attempt) {
                Ready::Yes => return Ok(()),
                Ready::NoRoom => waiting.go_on(
                    "the memory for a worker's copies is full",
                    Some(self.copies_bytes()),
                    "open the pool with more `ring_entries` (16 bytes each)",
                )?,
                Ready::Locked => waiting.go_on(
                    "an object to be written has a newer version that is not in the heap yet",
                    None,
                    "open the pool with more `patience`",
                )?,
            }
        }
    }

    /// Frees a worker's slot by truncation, and waits for transactions whose records are still
    /// needed.
    #[cold]
    fn make_room(&self, log: &mut Log) -> Result<(), Error> {
        if self.options.unlogged {
            // Without records the slot is always empty.
            log.at = 0;
            return Ok(());
        }
        let mut waiting = Waiting::begin(self);
        let bytes = 8 * self.store.layout.record_words() as u64;
        while !self.try_empty(log)? {
            waiting.go_on(
                "a worker's part of the log is full",
                Some(bytes),
                "create the pool with more `log_bytes`",
            )?;
        }
        Ok(())
    }

    /// Frees a worker's slot if truncation can free all of its records. Returns whether it did.
    fn try_empty(&self, log: &mut Log) -> Result<bool, Error> {
        // Transactions in the queues hold the frontier back, so they are applied first.
        self.versions.help_all(&self.store);
        let mut truncation = lock(&self.truncation);
        if truncation.tail(log.slot) < log.at {
            self.truncate(&mut truncation)?;
        }
        let is_empty = truncation.restart(log.slot, log.end(), &self.workers.slot(log.slot).filled);
        if is_empty {
            log.restart(&self.store);
        }
        Ok(is_empty)
    }

    /// Frees a slot in which the next batch may not fit, before a transaction runs in vain. Does
    /// not wait for other transactions.
    #[cold]
    pub(super) fn look_ahead(&self, log: &mut Log) -> Result<(), Error> {
        if !self.try_empty(log)? {
            log.freeing_failed();
        }
        Ok(())
    }

    /// Truncates the records of all slots up to the frontier. Two persist barriers.
    pub(super) fn truncate(&self, truncation: &mut Truncation) -> Result<(), Error> {
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("truncation");
        let last = || self.clock().load(Ordering::Acquire);
        let frontier = match injected(Mutant::FrontierOfNow) {
            false => self.versions.frontier(),
            true => last(),
        };
        let done = truncation.forget(&self.store, &self.workers, frontier, last);
        let done = done.map_err(|error| self.workers.poison.put(error));
        guard.disarm();
        done
    }

    /// Returns the most words that a transaction may write so that its batch fits into a slot if
    /// each word is a run of its own.
    pub(super) fn words_max(&self) -> usize {
        let words = self.store.layout.record_words();
        words.saturating_sub(self.store.room(BEFORE_RUNS)) / 2
    }

    /// Frees space in a log for a batch that did not fit. Fails if it never can.
    #[cold]
    fn room_for(&self, log: &mut Log, wanted: usize) -> Result<(), Error> {
        if BEFORE_RUNS + wanted > self.store.layout.record_words() {
            // A batch has whole objects, while `words_max` counts written words.
            return Err(self.store.slot_too_small(Snapshot::NAME, self.words_max()));
        }
        if log.has_room(&self.store, wanted) { Ok(()) } else { self.make_room(log) }
    }

    /// Waits until an attempt that could not go on can begin again. The worker holds nothing
    /// meanwhile.
    #[cold]
    pub(super) fn let_it_begin(&self, local: &mut Local) -> Result<(), Error> {
        // Freeing space may fail, or panic, and poison the pool.
        let _notify = self.notify_on_drop();
        let Local { number, attempt, log, wanted, .. } = local;
        // `wanted` is reset: the next transaction may be smaller.
        let (wanted, holder) = (std::mem::take(wanted), attempt.was_held_by());
        if let Some(groups) = &self.groups {
            if let Some(holder) = holder {
                self.want_group(groups, holder);
            }
            if wanted > 0 || attempt.is_blocked() {
                // Other workers may wait for the group's objects while this one waits.
                self.end_group(groups, *number)?;
                if attempt.is_lent() {
                    // Notes the group's end. That begins an attempt, which `leave` ends at once.
                    self.look_after_group(groups, attempt, *number);
                    self.versions.leave(&self.store, attempt);
                }
            }
            if wanted > 0 {
                groups.with_log(*number, |log| self.room_for(log, wanted))?;
            }
        } else if wanted > 0 {
            let log = log.as_mut().expect("without groups a worker has its log");
            self.room_for(log, wanted)?;
        }
        if !attempt.is_blocked() {
            return Ok(());
        }
        self.wait_until_ready(attempt).inspect_err(|_| attempt.gives_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Medium, Options, Pool};

    /// Two transactions with one stamp have two IDs. A frontier may be their stamp, while both are
    /// in the heap image and acknowledged.
    #[test]
    fn recovery_continues_above_ids_of_truncated_records() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let options = Options::new().bytes(1 << 20).log_bytes(256 << 10);
        let options = options.medium(Medium::PersistentCache);
        let pool = Pool::<Snapshot>::create_as(&path, options.clone()).unwrap();
        let _durable = pool.run(|tx| words::Allocate::allocate(tx, 64)).unwrap();
        let core = &pool.design().core;
        let frontier = core.clock().load(Ordering::Acquire);
        let last = || frontier + 1;
        lock(&core.truncation).forget(&core.store, &core.workers, frontier, last).unwrap();
        pool.abandon();
        let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
        assert_eq!(pool.committed_id().0, frontier + 1);
    }

    #[test]
    fn batch_fills_its_slot() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().bytes(1 << 20).log_bytes(256 << 10);
        for medium in [Medium::File, Medium::PersistentCache] {
            let path = dir.path().join(medium.name());
            let pool = Pool::<Snapshot>::create_as(&path, options.clone().medium(medium)).unwrap();
            let core = &pool.design().core;
            let (mut log, end) = (Log::new(core, 0), core.store.layout.record_words());
            for at in [0, end - 2 * core.store.room(BEFORE_RUNS)] {
                log.at = at;
                let most = end - at - BEFORE_RUNS;
                assert!(log.has_room(&core.store, most));
                assert!(!log.has_room(&core.store, most + 1));
            }
        }
    }
}
