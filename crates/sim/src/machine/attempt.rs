//! Transactions of a [`Hart`]: the body runs between the design's `begin` and `commit`, and the
//! hart keeps an undo list of every word that the body stores.
//!
//! An abort restores the old values by storing them back. A transaction that exceeds the hardware's
//! capacity is undone at once, outside of simulated time. If the design has a software log, the
//! body then runs again on that log. The retry keeps the locks of the first attempt.

use rustc_hash::FxHashSet;

use words::Stop;

use super::core::Op;
use super::counts::Phase;
use super::hart::Hart;
use super::memory::line_of;
use super::tlb::PAGE_LINES;
use super::transaction::Transaction;
use super::when::Time;
use crate::design::{Design, soft_log};
use crate::error::Error;
use crate::persist::history;

/// One entry of the undo list: the word, its value before the store, and its old payload.
pub(super) struct Old {
    word: u64,
    value: u64,
    /// The word's payload before the store: for the first store of a transaction, the last writer.
    payload: u64,
}

impl<'y, D: Design> Hart<'y, D> {
    /// Runs a body as one transaction.
    ///
    /// # Errors
    /// - [`Error::Stopped`] with the reason that the body returned. Its stores have been undone.
    /// - [`Error::Failed`] when the design has reported a failure of the machine.
    pub fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut Transaction<'_, 'y, D>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        let mut done = self.attempt(&mut body);
        if let Err(Stop::TooLarge) = done {
            self.drop_attempt();
            if self.machine().design.soft_log().is_some() {
                self.machine().counts.fallbacks += 1;
                self.soft = true;
                done = self.attempt(&mut body);
            }
        }
        if done.is_err() {
            self.take_back();
        }
        self.end();
        if let Some(why) = self.machine().failed {
            return Err(Error::Failed { why });
        }
        done.map_err(|stop| Error::Stopped { stop })
    }

    fn attempt<R>(
        &mut self,
        body: &mut impl FnMut(&mut Transaction<'_, 'y, D>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.begin();
        let mut tx = Transaction { hart: self, stopped: None };
        let done = body(&mut tx);
        let done = match tx.stopped {
            Some(stop) => Err(stop),
            None => done,
        }?;
        self.executed().map(|()| done)
    }

    /// Asks the design whether its hardware holds the complete transaction.
    fn executed(&mut self) -> Result<(), Stop> {
        if self.soft { Ok(()) } else { D::executed(self) }
    }

    /// Undoes an attempt that exceeds the hardware's capacity.
    fn drop_attempt(&mut self) {
        self.enter(Phase::Abort);
        // The store buffer must drain first: memory is restored directly, and a buffered store
        // would otherwise reach it later.
        self.settle();
        D::falls_back(self);
        let (core, lines) = (self.core(), std::mem::take(&mut self.lines));
        let undo = std::mem::take(&mut self.undo);
        let machine = self.machine();
        // Newest first, so that a word that was stored twice ends with its oldest value.
        for Old { word, value, payload } in undo.into_iter().rev() {
            let place = machine.place_of(core, word);
            machine.memory.restore(place, value, payload);
        }
        for line in &lines {
            let place = machine.design.place(core, *line);
            machine.discard(place);
        }
        if let Some(isolation) = &mut machine.isolation {
            isolation.ends(core, &lines);
        }
    }

    /// Iterates over the words that the running attempt has overwritten, each word once, as the
    /// triple of word, value and payload before the first store.
    pub fn overwritten(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut known = FxHashSet::default();
        let first = self.undo.iter().filter(move |old| known.insert(old.word));
        first.map(|Old { word, value, payload }| (*word, *value, *payload))
    }

    fn begin(&mut self) {
        self.enter(Phase::Begin);
        self.lines.clear();
        self.undo.clear();
        match self.soft {
            true => soft_log::begin(self),
            false => D::begin(self),
        }
        self.enter(Phase::Body);
    }

    /// Passes on the program's announcement that it will write these words.
    pub(super) fn announced(&mut self, first: u64, words: u64) {
        match self.soft {
            true => soft_log::announced(self, first, words),
            false => D::announced(self, first, words),
        }
    }

    /// Stores a word within the transaction.
    #[inline]
    pub(super) fn store_durably(&mut self, word: u64, at: u64, value: u64) -> Result<(), Stop> {
        if self.soft {
            soft_log::store(self, word, at, value);
            return Ok(());
        }
        D::store(self, word, at, value)
    }

    fn end(&mut self) {
        let ends = self.machine().now;
        match std::mem::take(&mut self.soft) {
            true => soft_log::commit(self),
            false => D::commit(self),
        }
        // Cores must finish in the order of their times, so other cores catch up to this cycle
        // first.
        let cycle = self.cycle();
        self.until(cycle);
        self.enter(Phase::Outside);
        self.count(ends);
        // Unlocks go through the store buffer, after the stores that they protect.
        for lock in std::mem::take(&mut self.locks) {
            self.buffer(Op::Unlock { lock });
        }
    }

    /// Counts a finished transaction and appends its written words to the history.
    fn count(&mut self, ends: Time) {
        let (core, acknowledged) = (self.core(), self.cycle());
        let lines = std::mem::take(&mut self.lines);
        let mut pages: Vec<u32> = lines.iter().map(|line| line / PAGE_LINES).collect();
        pages.sort_unstable();
        pages.dedup();
        let written = std::mem::take(&mut self.undo);
        let machine = self.machine();
        if let Some(isolation) = &mut machine.isolation {
            isolation.ends(core, &lines);
        }
        machine.counts.transactions += 1;
        machine.counts.lines.add(lines.len() as u64);
        machine.counts.pages.add(pages.len() as u64);
        let mut history = machine.history.take();
        if let Some(history) = &mut history
            && !written.is_empty()
        {
            let mut words: Vec<u64> = written.iter().map(|old| old.word).collect();
            words.sort_unstable();
            words.dedup();
            let running = &machine.cores[core].core;
            debug_assert!(running.is_drained(), "what is durable has drained");
            let of = |word| machine.memory.payload(machine.place_of(core, word));
            let words = words.into_iter().map(|word| (word, of(word))).collect();
            history.push(history::Transaction { core, ends, acknowledged, words });
        }
        machine.history = history;
        self.lines = lines;
        self.undo = written;
    }

    /// Aborts a transaction: stores the old values back, newest first.
    fn take_back(&mut self) {
        self.enter(Phase::Abort);
        for at in (0..self.undo.len()).rev() {
            let Old { word, value, .. } = self.undo[at];
            if self.store_durably(word, 0, value).is_err() {
                // The hardware cannot hold the restoring stores either.
                return self.drop_attempt();
            }
        }
        if self.executed().is_err() {
            self.drop_attempt();
        }
    }

    /// Removes the newest undo entry: the hardware could not hold its store.
    pub(super) fn forget_write(&mut self, word: u64) {
        let (core, line) = (self.core(), line_of(word));
        self.undo.pop();
        if self.undo.iter().any(|old| line_of(old.word) == line) {
            return;
        }
        self.lines.retain(|written| *written != line);
        if let Some(isolation) = &mut self.machine().isolation {
            isolation.ends(core, &[line]);
        }
    }

    /// Records the old value of a word before the transaction stores it, and the word's line.
    pub(super) fn note_write(&mut self, word: u64) {
        let (core, line) = (self.core(), line_of(word));
        // Most stores hit the line of the previous store, so compare with that before searching.
        if self.lines.last() != Some(&line) && !self.lines.contains(&line) {
            self.lines.push(line);
            if let Some(isolation) = &mut self.machine().isolation {
                isolation.writes(core, line);
            }
        }
        let machine = self.machine();
        // The core's newest value may still be in its store buffer.
        let waiting = machine.cores[core].core.forwarded(word);
        let value = waiting.unwrap_or_else(|| machine.word(core, word));
        let payload = machine.memory.payload(machine.place_of(core, word));
        self.undo.push(Old { word, value, payload });
    }
}
