//! Transactions of a [`Hart`]: a body runs between the design's `begin` and `commit`; what it has
//! overwritten and written is noted.
//!
//! A transaction that the hardware cannot hold runs again, with the design's log in software if it
//! has one: its locks are kept, and nothing of the first attempt has happened.

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

/// What a store has overwritten.
pub(super) struct Old {
    word: u64,
    value: u64,
    /// What a payload had of it: of a transaction's first store to the word, who wrote it before.
    payload: u64,
}

impl<'y, D: Design> Hart<'y, D> {
    /// Runs a body as one transaction.
    ///
    /// # Errors
    /// [`Error::Stopped`] with what the body ended with; then what it stored was stored back.
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

    /// All of the transaction has been executed: does the hardware hold it?
    fn executed(&mut self) -> Result<(), Stop> {
        if self.soft { Ok(()) } else { D::executed(self) }
    }

    /// The hardware cannot hold the transaction: from here on nothing of it has happened.
    fn drop_attempt(&mut self) {
        self.enter(Phase::Abort);
        self.settle();
        D::falls_back(self);
        let (core, lines) = (self.core(), std::mem::take(&mut self.lines));
        let undo = std::mem::take(&mut self.undo);
        let machine = self.machine();
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

    /// What the running attempt has overwritten: each word once, with what it was before the first
    /// store, and what a payload had of it.
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

    /// The program says that it will write these words.
    pub(super) fn announced(&mut self, first: u64, words: u64) {
        match self.soft {
            true => soft_log::announced(self, first, words),
            false => D::announced(self, first, words),
        }
    }

    /// The transaction stores a word.
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
        // Cores finish in the order of their times.
        let cycle = self.cycle();
        self.until(cycle);
        self.enter(Phase::Outside);
        self.count(ends);
        for lock in std::mem::take(&mut self.locks) {
            self.buffer(Op::Unlock { lock });
        }
    }

    /// Counts a transaction that is over, and notes what it has left.
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

    /// A transaction gives up: what it has stored is stored back.
    fn take_back(&mut self) {
        self.enter(Phase::Abort);
        for at in (0..self.undo.len()).rev() {
            let Old { word, value, .. } = self.undo[at];
            if self.store_durably(word, 0, value).is_err() {
                // The hardware cannot hold even this.
                return self.drop_attempt();
            }
        }
        if self.executed().is_err() {
            self.drop_attempt();
        }
    }

    /// The store that was noted last has not happened, for the hardware cannot hold it.
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

    /// The transaction is about to store a word: what it was, and its line, are noted.
    pub(super) fn note_write(&mut self, word: u64) {
        let (core, line) = (self.core(), line_of(word));
        // Mostly it is the line of the store before.
        if self.lines.last() != Some(&line) && !self.lines.contains(&line) {
            self.lines.push(line);
            if let Some(isolation) = &mut self.machine().isolation {
                isolation.writes(core, line);
            }
        }
        let machine = self.machine();
        let waiting = machine.cores[core].core.forwarded(word);
        let value = waiting.unwrap_or_else(|| machine.word(core, word));
        let payload = machine.memory.payload(machine.place_of(core, word));
        self.undo.push(Old { word, value, payload });
    }
}
