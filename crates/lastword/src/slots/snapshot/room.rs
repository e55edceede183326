//! What a worker waits for before it begins: room in its slot or for copies, an object's old
//! version that somebody needs. It holds nothing meanwhile.

use medium::mutants::{Mutant, planted};

use super::log::{BEFORE_RUNS, Log};
use super::waiting::Waiting;
use super::{COPIES_MIN, Core, Local, Snapshot};
use crate::Error;
use crate::design::Design;
use crate::slots::truncation::Truncation;
use crate::sync::{Ordering, lock};
use crate::versions::{Attempt, Ready};

impl Core {
    /// Bytes of a worker's memory for copies.
    pub(super) fn copies_bytes(&self) -> u64 {
        8 * self.options.ring_words().max(COPIES_MIN) as u64
    }

    /// Waits for what an attempt could not have, holding nothing.
    #[cold]
    fn wait_until_ready(&self, attempt: &mut Attempt) -> Result<(), Error> {
        let mut waiting = Waiting::begin(self);
        loop {
            match self.versions.ready(&self.ground, attempt) {
                Ready::Yes => return Ok(()),
                Ready::NoRoom => waiting.go_on(
                    "the memory for a worker's copies is full",
                    Some(self.copies_bytes()),
                    "open the pool with more `ring_entries` (16 bytes each)",
                )?,
                Ready::Locked => waiting.go_on(
                    "an object that is to be written has a newer version that is not at home",
                    None,
                    "open the pool with more `patience`",
                )?,
            }
        }
    }

    /// Makes room in a worker's slot, whose records are all at home then.
    #[cold]
    fn make_room(&self, log: &mut Log) -> Result<(), Error> {
        if self.options.unlogged {
            log.at = 0;
            return Ok(());
        }
        let mut waiting = Waiting::begin(self);
        let bytes = 8 * self.ground.layout.record_words() as u64;
        while !self.empties(log)? {
            waiting.go_on(
                "a worker's part of the log is full",
                Some(bytes),
                "create the pool with more `log_bytes`",
            )?;
        }
        Ok(())
    }

    /// Empties a worker's slot, if all that it says may be forgotten.
    fn empties(&self, log: &mut Log) -> Result<bool, Error> {
        self.versions.help_all(&self.ground);
        let mut truncation = lock(&self.truncation);
        if truncation.tail(log.slot) < log.at {
            self.truncate(&mut truncation)?;
        }
        let is_empty = truncation.restart(log.slot, log.at, &self.workers.slot(log.slot).filled);
        if is_empty {
            log.begin_again(&self.ground);
        }
        Ok(is_empty)
    }

    /// Empties a slot in which the next transaction is likely to find no room, before it runs in
    /// vain. Waits for no transaction.
    #[cold]
    pub(super) fn look_ahead(&self, log: &mut Log) -> Result<(), Error> {
        if !self.empties(log)? {
            log.has_tried();
        }
        Ok(())
    }

    /// Brings home what records up to the frontier say, and forgets them: two persist barriers.
    pub(super) fn truncate(&self, truncation: &mut Truncation) -> Result<(), Error> {
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("truncation");
        let last = || self.clock().load(Ordering::Acquire);
        let frontier = match planted(Mutant::FrontierOfNow) {
            false => self.versions.frontier(),
            true => last(),
        };
        let done = truncation.forget(&self.ground, &self.workers, frontier, last);
        let done = done.map_err(|error| self.workers.poison.put(error));
        guard.disarm();
        done
    }

    /// What did not find room has room in a log now, or never.
    #[cold]
    fn room_for(&self, log: &mut Log, wanted: usize) -> Result<(), Error> {
        if BEFORE_RUNS + wanted > self.ground.layout.record_words() {
            // Whole objects are more than the words that were counted.
            return Err(self.ground.slot_too_small(Snapshot::NAME));
        }
        if log.has_room(&self.ground, wanted) { Ok(()) } else { self.make_room(log) }
    }

    /// What an attempt could not have is there now; the worker holds nothing meanwhile.
    #[cold]
    pub(super) fn let_it_begin(&self, local: &mut Local) -> Result<(), Error> {
        // What makes room may fail, or panic, and poison the pool.
        let _told = self.told();
        let Local { number, attempt, log, wanted, .. } = local;
        // What was wanted is forgotten: another transaction may want less.
        let (wanted, holder) = (std::mem::take(wanted), attempt.was_held_by());
        if let Some(groups) = &self.groups {
            if let Some(holder) = holder {
                self.want_group(groups, holder);
            }
            if wanted > 0 || attempt.is_blocked() {
                self.end_group(groups, *number)?;
                if attempt.is_lent() {
                    self.look_after_group(groups, attempt, *number);
                    self.versions.leave(&self.ground, attempt);
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
