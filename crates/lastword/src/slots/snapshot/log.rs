//! The redo records of one worker in its slot.

use std::iter;

use medium::mutants::{Mutant, injected};
use medium::writes::mark;

use super::Core;
use crate::Error;
use crate::slots::format::{Key, RECORD_HEAD_WORDS};
use crate::slots::gather::Member;
use crate::slots::store::SlotStore;
use crate::sync::Ordering;

/// Words of a record before its runs: head and mark.
pub(super) const BEFORE_RUNS: usize = RECORD_HEAD_WORDS + 1;

/// The redo records of one worker.
pub(super) struct Log {
    pub(super) slot: usize,
    key: Key,
    /// The sequence of the next record.
    sequence: u64,
    /// Words of records in the slot.
    pub(super) at: usize,
    /// The largest batch so far, and the fill level of the slot above which such a batch may not
    /// fit.
    likely: usize,
    enough: usize,
    /// Records since the last attempt to free the slot, and how many may accumulate
    /// (`recycle_every`).
    since: u64,
    every: u64,
    /// The batch to make durable: runs of words.
    pub(super) batch: Vec<u64>,
    record: Vec<u64>,
}

impl Log {
    /// Continues a slot after the records of its earlier workers.
    pub(super) fn new(core: &Core, number: usize) -> Log {
        let slot = core.workers.slot(number);
        Log {
            slot: number,
            key: core.store.key(number),
            sequence: 1 + *crate::sync::lock(&slot.sequence),
            at: slot.filled.load(Ordering::Acquire),
            likely: 0,
            enough: core.store.layout.record_words(),
            since: 0,
            every: core.options.recycle_every,
            batch: Vec::new(),
            record: Vec::new(),
        }
    }

    /// Leaves the slot's last sequence to its next worker.
    pub(super) fn close(&self, core: &Core) {
        *crate::sync::lock(&core.workers.slot(self.slot).sequence) = self.sequence - 1;
    }

    /// Returns the word after the slot's last record, and that record's sequence.
    pub(super) fn end(&self) -> (usize, u64) {
        (self.at, self.sequence - 1)
    }

    /// Whether `words` words of runs fit in the slot.
    #[inline]
    pub(super) fn has_room(&self, store: &SlotStore, words: usize) -> bool {
        self.at + store.room(BEFORE_RUNS + words) <= store.layout.record_words()
    }

    /// Whether the next batch may not fit, or the slot is due for recycling.
    #[inline(always)]
    pub(super) fn is_short(&self) -> bool {
        self.at > self.enough
    }

    /// Notes a failed attempt to free the slot. The next one comes when a batch does not fit, or
    /// after as many records again.
    pub(super) fn freeing_failed(&mut self) {
        (self.enough, self.since) = (usize::MAX, 0);
    }

    /// Restarts the slot, which is empty.
    pub(super) fn restart(&mut self, store: &SlotStore) {
        (self.at, self.since) = (0, 0);
        self.expect(store);
    }

    /// Sets the fill level that leaves space for the largest batch so far, up to an eighth of the
    /// slot.
    #[cold]
    fn expect(&mut self, store: &SlotStore) {
        let words = store.layout.record_words();
        self.enough = words - store.room(BEFORE_RUNS + self.likely).min(words / 8);
    }

    /// Makes the batch of an attempt that began at `start` durable. One persist barrier, on `file`
    /// shared by all concurrent commits; see `gather`.
    #[inline]
    pub(super) fn persist(&mut self, core: &Core, start: u64) -> Result<(), Error> {
        let Core { store, workers, versions, gather, .. } = core;
        if self.batch.len() > self.likely {
            self.likely = self.batch.len();
            self.expect(store);
        }
        let Log { slot: number, key, sequence, at, since, every, enough, batch, record, .. } = self;
        let slot = workers.slot(*number);
        let room = store.layout.record_words() - *at - RECORD_HEAD_WORDS;
        let mut write = |own: &[u64], others: &[Member]| {
            // The clock is read here, after everything that the attempts of this record have read,
            // so the stamp is larger than the stamps of all that they depend on. It is also larger
            // than their starts: until the heap image has them, the frontier stays below this
            // stamp.
            let stamp = match injected(Mutant::StampTooEarly) {
                false => versions.clock().load(Ordering::Acquire) + 1,
                true => start,
            };
            record.clear();
            record.extend([0; RECORD_HEAD_WORDS]);
            for batch in iter::once(own).chain(others.iter().map(|other| &*other.batch)) {
                record.push(mark(stamp - store.base()));
                record.extend_from_slice(batch);
            }
            key.seal(*at, *sequence, record);
            let words = record.len();
            record.resize(store.room(words), 0);
            slot.meter.payload(words);
            if injected(Mutant::ShownFirst) {
                crate::dual_version::store(store, own);
            }
            let says = (stamp, *sequence);
            store.write_record((*number, key), *at, record, says, &slot.meter)?;
            *sequence += 1;
            *at += record.len();
            *since += 1;
            if since == every {
                // Makes `is_short` true, so that the next transaction truncates first.
                *enough = 0;
            }
            // Release: a thread that truncates up to this stamp finds the record; see
            // `dual_version::transaction_table`. Workers with a batch in this record are notified
            // after this store.
            slot.filled.store(*at, Ordering::Release);
            Ok(())
        };
        match store.is_in_place() {
            true => write(batch, &[]),
            false => gather.persist(&workers.poison, *number, batch, room, write),
        }
    }
}
