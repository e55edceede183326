//! One worker's records.

use std::iter;

use medium::mutants::{Mutant, planted};
use medium::writes::mark;

use super::Core;
use crate::Error;
use crate::slots::format::{Key, RECORD_HEAD_WORDS};
use crate::slots::gather::Member;
use crate::slots::ground::Ground;
use crate::sync::Ordering;

/// Words of a record before its runs: head and mark.
pub(super) const BEFORE_RUNS: usize = RECORD_HEAD_WORDS + 1;

/// One worker's records.
pub(super) struct Log {
    pub(super) slot: usize,
    key: Key,
    /// That of the next record.
    sequence: u64,
    /// Words of records that are in the slot.
    pub(super) at: usize,
    /// The most words of a batch so far, and how far the slot may be filled before one of these is
    /// likely to find no room.
    likely: usize,
    enough: usize,
    /// Records since room was last looked for, and how many there may be.
    since: u64,
    every: u64,
    /// What is to be made durable: runs of words.
    pub(super) batch: Vec<u64>,
    record: Vec<u64>,
}

impl Log {
    /// A worker comes to a slot, behind what others have left there.
    pub(super) fn new(core: &Core, number: usize) -> Log {
        let slot = core.workers.slot(number);
        Log {
            slot: number,
            key: core.ground.key(number),
            sequence: 1 + *crate::sync::lock(&slot.sequence),
            at: slot.filled.load(Ordering::Acquire),
            likely: 0,
            enough: core.ground.layout.record_words(),
            since: 0,
            every: core.options.recycle_every,
            batch: Vec::new(),
            record: Vec::new(),
        }
    }

    /// The worker leaves.
    pub(super) fn close(&self, core: &Core) {
        *crate::sync::lock(&core.workers.slot(self.slot).sequence) = self.sequence - 1;
    }

    /// Whether so many words of runs find room in the slot.
    #[inline]
    pub(super) fn has_room(&self, ground: &Ground, words: usize) -> bool {
        self.at + ground.room(BEFORE_RUNS + words) <= ground.layout.record_words()
    }

    /// Whether the next batch is likely to find no room, or it is time to recycle.
    #[inline(always)]
    pub(super) fn is_short(&self) -> bool {
        self.at > self.enough
    }

    /// Room is made only when it is needed, until then, or when there are as many records again.
    pub(super) fn has_tried(&mut self) {
        (self.enough, self.since) = (usize::MAX, 0);
    }

    /// The slot is empty.
    pub(super) fn begin_again(&mut self, ground: &Ground) {
        (self.at, self.since) = (0, 0);
        self.expect(ground);
    }

    /// Leaves room for a batch such as there were, where that is not too much of the slot.
    #[cold]
    fn expect(&mut self, ground: &Ground) {
        let words = ground.layout.record_words();
        self.enough = words - ground.room(BEFORE_RUNS + self.likely).min(words / 8);
    }

    /// Makes the batch durable, of an attempt that began at `start`: one persist barrier, on `file`
    /// for all that commit at the same time; see `gather`.
    #[inline]
    pub(super) fn persist(&mut self, core: &Core, start: u64) -> Result<(), Error> {
        let Core { ground, workers, versions, gather, .. } = core;
        if self.batch.len() > self.likely {
            self.likely = self.batch.len();
            self.expect(ground);
        }
        let Log { slot: number, key, sequence, at, since, every, enough, batch, record, .. } = self;
        let slot = workers.slot(*number);
        let room = ground.layout.record_words() - *at - RECORD_HEAD_WORDS;
        let mut write = |own: &[u64], others: &[Member]| {
            // Behind everything that the attempts have read, whose stamps are no larger than the
            // clock was then, and behind their beginnings, so that while one is not at home the
            // frontier is below the stamp of all.
            let stamp = match planted(Mutant::StampTooEarly) {
                false => versions.clock().load(Ordering::Acquire) + 1,
                true => start,
            };
            record.clear();
            record.extend([0; RECORD_HEAD_WORDS]);
            for batch in iter::once(own).chain(others.iter().map(|other| &*other.batch)) {
                record.push(mark(stamp - ground.base()));
                record.extend_from_slice(batch);
            }
            key.seal(*at, *sequence, record);
            let words = record.len();
            record.resize(ground.room(words), 0);
            slot.meter.payload(words);
            if planted(Mutant::ShownFirst) {
                crate::versions::store(ground, own);
            }
            ground.write_record(*number, *at, record, &slot.meter)?;
            *sequence += 1;
            *at += record.len();
            *since += 1;
            if since == every {
                *enough = 0;
            }
            // Release: whoever forgets up to this stamp finds the record; see `seats`. Others whose
            // batches it has are told behind this.
            slot.filled.store(*at, Ordering::Release);
            Ok(())
        };
        match ground.is_home() {
            true => write(batch, &[]),
            false => gather.persist(&workers.poison, *number, batch, room, write),
        }
    }
}
