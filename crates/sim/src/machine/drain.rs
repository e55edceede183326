//! Draining of store buffers: executed operations reach the core's cache in program order, one per
//! cycle.
//!
//! A store takes effect when it drains. If the core may write the line, that is at once. Otherwise
//! it is when the directory grants the line to the core; the stores behind it then wait for the
//! data. Effects therefore follow program order. Two cores that contend for a line alternate in
//! writing it.

use super::Machine;
use super::Notify;
use super::cache::{MODIFIED, PENDING, State};
use super::core::Op;
use super::hierarchy::Lookup;
use super::memory::line_of;
use super::network::Size;
use super::when::{Time, When};
use crate::design::Design;

impl<D: Design> Machine<D> {
    /// Drains as much of a core's store buffer as may drain at the current time.
    pub(crate) fn drain(&mut self, core: usize) {
        let source = self.buffer_source(core);
        if let Some(done) = self.cores[core].draining {
            match self.time_for(core, done) {
                None => return D::oldest_waits(self, core),
                Some(time) if time > self.now => {
                    D::oldest_waits(self, core);
                    return self.sources.set(source, time);
                }
                Some(_) => self.cores[core].draining = None,
            }
            self.wake(core, self.now);
        }
        let running = &mut self.cores[core].core;
        running.close(&self.tokens);
        let (op, ready) = match running.next_drain() {
            None => return,
            Some((op, Some(ready))) => (op, ready),
            Some((_, None)) => {
                let open = running.all_loaded(&self.tokens).expect_err("a load is open");
                self.tokens.ask(open, core);
                return;
            }
        };
        if ready > self.now {
            return self.sources.set(source, ready);
        }
        let drained = match op {
            Op::Store { word, value } => self.drain_store(core, word, value),
            Op::Unlock { lock } => {
                let word = self.memory.lock_word(lock);
                let drained = self.drain_store(core, word, 0);
                if drained {
                    self.unlock(lock);
                }
                drained
            }
            Op::WriteBack { line, done } => {
                self.cores[core].sent.push(done);
                self.drain_write_back(core, line, done);
                true
            }
            Op::Fence => self.drain_fence(core),
        };
        if drained {
            self.cores[core].core.drained();
            self.wake(core, self.now);
            if self.cores[core].draining.is_some() || !self.cores[core].core.is_drained() {
                self.sources.lower(source, self.now + 1);
            }
        }
    }

    /// Returns whether all executed operations of a core have reached its cache.
    pub(crate) fn is_drained(&self, core: usize) -> bool {
        self.cores[core].core.is_drained() && self.cores[core].draining.is_none()
    }

    /// Returns the number of a core's stores that have not taken effect.
    pub(crate) fn stores_left(&self, core: usize) -> usize {
        self.cores[core].core.stores()
    }

    /// Iterates over the program's lines that a core's store buffer will access.
    pub fn buffered(&self, core: usize) -> impl Iterator<Item = u32> {
        self.cores[core].core.buffered()
    }

    /// Iterates over the words of a core's retired stores that have not taken effect, with their
    /// retirement times.
    pub fn stored(&self, core: usize) -> impl Iterator<Item = (u64, Time)> {
        self.cores[core].core.stored()
    }

    /// Lets a store take effect and returns true, or schedules the next attempt and returns false.
    fn drain_store(&mut self, core: usize, word: u64, value: u64) -> bool {
        let (named, source) = (line_of(word), self.buffer_source(core));
        let line = self.design.place(core, named);
        let mut there = When::at(self.now);
        match self.look_up(core, line, true, self.now) {
            Lookup::Hit(when) => match self.time_for(core, when) {
                None => return false,
                // The lookup hits, but a time beyond the hit latency means that the line is still
                // in flight.
                Some(time) if time > self.now + self.description.l1.latency => {
                    self.sources.set(source, time);
                    return false;
                }
                Some(_) => {}
            },
            Lookup::Miss => {
                if !self.may_miss_or_wait(core) {
                    return false;
                }
                let done = self.bring(core, line, true, self.now);
                self.cores[core].draining = Some(done);
                there = done;
            }
        }
        if let Some(wait) = D::waits(self, core, word, there) {
            self.cores[core].draining = Some(wait);
            self.sources.set(source, self.now + 1);
            return false;
        }
        let line = D::moves(self, core, named, line);
        let slot = self.l1[core].find(line).expect("it was brought");
        let state: State = self.l1[core].state(slot);
        self.l1[core].set_state(slot, MODIFIED | state & !super::cache::COHERENCE);
        let place = self.place_of(core, word);
        let old = self.memory.store(place, word, value);
        D::drained(self, core, word, old);
        true
    }

    /// Returns whether the core has a free miss register. If not, its store buffer tries again when
    /// a miss completes.
    fn may_miss_or_wait(&mut self, core: usize) -> bool {
        let now = self.now;
        if self.cores[core].core.may_miss(now, &self.tokens) {
            return true;
        }
        self.ask_misses(core);
        false
    }

    /// Wakes the store buffer and the hart of a core when a miss completes.
    pub(crate) fn ask_misses(&mut self, core: usize) {
        let misses: Vec<When> = self.cores[core].core.misses().collect();
        for miss in misses {
            if let Some(time) = self.time_for(core, miss) {
                self.sources.lower(self.buffer_source(core), time.max(self.now + 1));
                self.wake(core, time.max(self.now + 1));
            }
        }
    }

    /// Drains a store fence and returns true, or schedules the next attempt and returns false.
    fn drain_fence(&mut self, core: usize) -> bool {
        while let Some(&done) = self.cores[core].sent.last() {
            match self.time_for(core, done) {
                None => return false,
                Some(time) if time > self.now => {
                    self.sources.set(self.buffer_source(core), time);
                    return false;
                }
                Some(_) => self.cores[core].sent.pop(),
            };
        }
        true
    }

    fn drain_write_back(&mut self, core: usize, line: u32, done: When) {
        let notify = Notify::Core(core, done);
        let line = self.design.place(core, line);
        let (known, write) =
            self.write_back(core, line, self.design.class_of(line), |_| {}, notify);
        if write.is_none() && !self.wait_for_write(core, line, done) {
            let (home, tile) = (self.home_tile(line), self.tile(core));
            let there = self.network.send(home, tile, Size::Control, known);
            self.notify(done, there);
        }
    }

    /// Returns when a core's first cache has the data of a line. Returns `None` when the cache has
    /// not requested them or the time is unknown.
    pub fn comes(&mut self, core: usize, line: u32) -> Option<Time> {
        let slot = self.l1[core].find(line)?;
        if self.l1[core].state(slot) & PENDING == 0 {
            return Some(self.now);
        }
        match self.cores[core].core.pending(line, self.now, &self.tokens) {
            Some(open) => self.tokens.time(open),
            None => Some(self.now),
        }
    }

    /// Returns whether a line's data are in flight to a core.
    pub fn is_pending(&self, core: usize, line: u32) -> bool {
        let slot = self.l1[core].find(line);
        slot.is_some_and(|slot| self.l1[core].state(slot) & PENDING != 0)
    }
}
