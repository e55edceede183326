//! Coherence of lines: private caches, the directory and the last-level cache.
//!
//! A transaction of the protocol (MESI) changes all states at once, at its time of issue, and
//! reserves the resources on its path. The model therefore has no transient states and no races
//! among them. A line whose data are in flight is flagged as pending at its destination.
//!
//! Choices where papers are silent:
//!
//! - The directory is exact: a silent eviction from a private cache removes the sharer.
//! - A non-inclusive last-level cache is filled by reads from memory and by modified lines that
//!   leave private caches.
//! - The new sole owner of a line that is modified in the last-level cache takes over its
//!   write-back.

use super::Machine;
use super::OWNED;
use super::cache::{
    COHERENCE, Cache, EXCLUSIVE, HELD, INVALID, MARKED, MODIFIED, OLDER, PENDING, SHARED, State,
};
use super::controller::{Class, Id, Write};
use super::description::Description;
use super::network::{Size, Tile};
use super::when::{Time, When};
use crate::design::Design;
use crate::mutants::{Mutant, injected};

/// The result of a lookup in a private cache.
pub(crate) enum Lookup {
    /// A hit that completes with this token.
    Hit(When),
    /// The line is absent, or the core lacks the right to write it.
    Miss,
}

impl<D: Design> Machine<D> {
    /// Returns the tile of a core.
    pub fn tile(&self, core: usize) -> Tile {
        let network = &self.description.network;
        if network.columns == 0 { 0 } else { network.first as usize + core }
    }

    /// Looks a line up in a core's first cache.
    #[inline]
    pub(crate) fn look_up(&mut self, core: usize, line: u32, write: bool, time: Time) -> Lookup {
        let l1 = &mut self.l1[core];
        let Some(slot) = l1.find(line) else { return Lookup::Miss };
        let state = l1.state(slot);
        if write && state & COHERENCE < EXCLUSIVE {
            return Lookup::Miss;
        }
        l1.touch(slot);
        let there = time + self.description.l1.latency;
        if state & PENDING == 0 {
            return Lookup::Hit(When::at(there));
        }
        match self.cores[core].core.pending(line, self.now, &self.tokens) {
            None => {
                self.l1[core].set_state(slot, state & !PENDING);
                Lookup::Hit(When::at(there))
            }
            Some(when) => match self.tokens.time(when) {
                Some(known) => Lookup::Hit(When::at(known.max(there))),
                None => Lookup::Hit(when),
            },
        }
    }

    /// Brings a line into a core's first cache, with the right to write it if `write` is set.
    /// Returns the token of its data. The caller has checked that another miss may be in flight.
    pub(crate) fn bring(&mut self, core: usize, line: u32, write: bool, time: Time) -> When {
        debug_assert!(time >= self.now, "shared accesses are in order of time");
        self.now = time;
        self.counts.l1_misses += 1;
        if let Some(state) = self.in_l2(core, line, write) {
            let there = time + self.description.l2.as_ref().map_or(0, |l2| l2.latency);
            // The data may still be in flight even though the first cache has evicted the line.
            let Some(coming) = self.cores[core].core.pending(line, time, &self.tokens) else {
                self.put_l1(core, line, state & COHERENCE);
                return When::at(there);
            };
            self.put_l1(core, line, state & COHERENCE | PENDING);
            return self.tokens.time(coming).map_or(coming, |at| When::at(at.max(there)));
        }
        let (state, done) = self.fetch(core, line, write, time);
        self.put_private(core, line, state | PENDING);
        // Drop an older, completed miss of the line, so that it is not mistaken for this one.
        self.cores[core].core.pending(line, time, &self.tokens);
        self.cores[core].core.missed(line, done);
        done
    }

    /// Returns the state of a line in the second cache, if it suffices for the access.
    fn in_l2(&mut self, core: usize, line: u32, write: bool) -> Option<State> {
        let l2 = self.l2.get_mut(core)?;
        let slot = l2.find(line)?;
        let state = l2.state(slot);
        if write && state & COHERENCE < EXCLUSIVE {
            return None;
        }
        l2.touch(slot);
        Some(state)
    }

    /// Requests a line from the directory. Returns its new state in the core and the token of its
    /// data.
    fn fetch(&mut self, core: usize, line: u32, write: bool, time: Time) -> (State, When) {
        let private = self.description.l2.as_ref().unwrap_or(&self.description.l1).latency;
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let asked = self.network.send(tile, home, Size::Control, time + private);
        let booked = self.book_bank(line, asked);
        let known = booked + self.description.llc.directory;
        let (me, entry) = (1 << core, self.directory[line as usize]);
        let others = entry & !OWNED & !me;
        let elsewhere = booked + self.looked_up();
        if entry & OWNED != 0 && others != 0 {
            let owner = others.trailing_zeros() as usize;
            return self.take(core, owner, line, write, elsewhere);
        }
        let had = entry & me != 0;
        let mut ready = known;
        if write {
            ready = self.invalidate(core, others, line, elsewhere);
            self.directory[line as usize] = me | OWNED;
        } else {
            let alone = if others == 0 { OWNED } else { 0 };
            self.directory[line as usize] = others | me | alone;
        }
        let alone = write || others == 0;
        if had {
            let reply = self.network.send(home, tile, Size::Control, elsewhere);
            // Only the core that may modify a line may have the duty to write it back.
            let moves = !injected(Mutant::DutyStays) && self.take_over(line);
            let state = if moves { MODIFIED } else { EXCLUSIVE };
            return (state, When::at(reply.max(ready)));
        }
        self.fill(core, line, alone, known, ready)
    }

    /// Reserves the last-level cache bank of a line, no earlier than this time. Returns the start.
    fn book_bank(&mut self, line: u32, asked: Time) -> Time {
        let bank = line as usize % self.banks.len();
        self.banks[bank].book(asked, self.description.llc.busy as u32)
    }

    /// Returns the latency of a response from the directory alone. A directory without a latency of
    /// its own is part of the last-level cache's access and takes as long.
    fn looked_up(&self) -> Time {
        match self.description.llc.directory {
            0 => self.description.llc.latency,
            directory => directory,
        }
    }

    /// Fills a core's cache from the last-level cache or from memory.
    fn fill(
        &mut self,
        core: usize,
        line: u32,
        alone: bool,
        known: Time,
        ready: Time,
    ) -> (State, When) {
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let found = known + self.description.llc.latency;
        let clean = if alone { EXCLUSIVE } else { SHARED };
        let Some(slot) = self.llc.find(line) else {
            self.counts.llc_misses += 1;
            let done = self.read_memory(core, line, home, found);
            self.put_llc(line, SHARED | PENDING);
            self.fills.insert(line, done);
            return (clean, done);
        };
        self.llc.touch(slot);
        let state = self.llc.state(slot);
        let moves = alone && self.take_over(line);
        let state_here = if moves { MODIFIED } else { clean };
        if state & PENDING != 0
            && let Some(&coming) = self.fills.get(&line)
        {
            return (state_here, coming);
        }
        let reply = self.network.send(home, tile, Size::Data, found);
        (state_here, When::at(reply.max(ready)))
    }

    /// Makes the last-level cache's copy of a line clean. Returns whether it was modified.
    fn take_over(&mut self, line: u32) -> bool {
        if D::LLC_IS_PERSISTENT || injected(Mutant::DutyStays) {
            return false;
        }
        let Some(slot) = self.llc.find(line) else { return false };
        let state = self.llc.state(slot);
        self.llc.set_state(slot, SHARED | state & !COHERENCE);
        state & COHERENCE == MODIFIED
    }

    /// Completes the fill of a line in the last-level cache after memory's response.
    pub(crate) fn filled(&mut self, line: u32) {
        self.fills.remove(&line);
        if let Some(slot) = self.llc.find(line) {
            self.llc.set_state(slot, self.llc.state(slot) & !PENDING);
        }
    }

    /// Takes a line from the core that owns it.
    fn take(
        &mut self,
        core: usize,
        owner: usize,
        line: u32,
        write: bool,
        known: Time,
    ) -> (State, When) {
        self.counts.transfers += 1;
        let (home, from, to) = (self.home_tile(line), self.tile(owner), self.tile(core));
        let asked = self.network.send(home, from, Size::Control, known);
        let mut replies = asked + self.description.l1.latency;
        // The owner itself may still wait for the line; the requester then waits with it.
        let coming = self.cores[owner].core.pending(line, self.now, &self.tokens);
        let coming = match coming.map(|when| (when, self.tokens.time(when))) {
            Some((_, Some(time))) => {
                replies = replies.max(time);
                None
            }
            Some((open, None)) => Some(open),
            None => None,
        };
        D::asked(self, owner, line);
        let state = self.private_state(owner, line);
        let dirty = state & COHERENCE == MODIFIED;
        let reply = self.network.send(from, to, Size::Data, replies);
        if write {
            self.drop_private(owner, line);
            self.directory[line as usize] = 1 << core | OWNED;
            let done = coming.unwrap_or(When::at(reply));
            return (if dirty { MODIFIED } else { EXCLUSIVE }, done);
        }
        self.set_private(owner, line, SHARED);
        self.directory[line as usize] = 1 << core | 1 << owner;
        if dirty {
            self.network.send(from, home, Size::Data, replies);
            self.put_llc(line, MODIFIED);
        }
        (SHARED, coming.unwrap_or(When::at(reply)))
    }

    /// Invalidates all sharers of a line. Returns when the last acknowledgement has arrived.
    fn invalidate(&mut self, core: usize, others: u32, line: u32, known: Time) -> Time {
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let mut ready = known;
        let mut left = others;
        while left != 0 {
            let other = left.trailing_zeros() as usize;
            left &= left - 1;
            let asked = self.network.send(home, self.tile(other), Size::Control, known);
            let reply = self.network.send(self.tile(other), tile, Size::Control, asked + 1);
            ready = ready.max(reply);
            self.drop_private(other, line);
        }
        ready
    }

    /// Returns the state of a line in a core's private caches; the first cache has the newest.
    pub fn private_state(&self, core: usize, line: u32) -> State {
        let of = |cache: &Cache| cache.find(line).map(|slot| cache.state(slot));
        let outer = self.l2.get(core).and_then(of).unwrap_or(INVALID);
        of(&self.l1[core]).unwrap_or(INVALID).max(outer)
    }

    fn drop_private(&mut self, core: usize, line: u32) {
        for caches in [&mut self.l1, &mut self.l2] {
            if let Some(cache) = caches.get_mut(core)
                && let Some(slot) = cache.find(line)
            {
                cache.remove(slot);
            }
        }
    }

    /// Sets the coherence state of a line in all private caches of a core that hold it.
    pub(crate) fn set_private(&mut self, core: usize, line: u32, state: State) {
        for caches in [&mut self.l1, &mut self.l2] {
            if let Some(cache) = caches.get_mut(core)
                && let Some(slot) = cache.find(line)
            {
                let flags = cache.state(slot) & !COHERENCE;
                cache.set_state(slot, state | flags);
            }
        }
    }

    /// Puts a line into all private caches of a core.
    fn put_private(&mut self, core: usize, line: u32, state: State) {
        if let Some(l2) = self.l2.get_mut(core) {
            match l2.find(line) {
                Some(slot) => l2.set_state(slot, state & COHERENCE),
                None => {
                    let slot = l2.place(line, |_, _| true).expect("any line may leave");
                    self.leave_l2(core, slot);
                    self.l2[core].put(slot, line, state & COHERENCE);
                }
            }
        }
        self.put_l1(core, line, state);
    }

    fn put_l1(&mut self, core: usize, line: u32, state: State) {
        let l1 = &mut self.l1[core];
        if let Some(slot) = l1.find(line) {
            // Upgrade the coherence state, and keep the design's mark.
            l1.set_state(slot, state | l1.state(slot) & !(COHERENCE | PENDING));
            return l1.touch(slot);
        }
        let slot = l1.place(line, |_, _| true).expect("any line may leave");
        let (left, left_state) = (l1.line(slot), l1.state(slot));
        l1.put(slot, line, state);
        if left_state == INVALID {
            return;
        }
        match self.l2.get_mut(core) {
            None => self.leave_core(core, left, left_state),
            Some(l2) => {
                let outer = l2.find(left).expect("the second cache has what the first one has");
                if left_state & COHERENCE == MODIFIED {
                    l2.set_state(outer, MODIFIED);
                }
                D::leaves_l1(self, core, left, left_state);
            }
        }
    }

    /// Evicts a slot of the second cache, and the line from the first cache with it.
    fn leave_l2(&mut self, core: usize, slot: usize) {
        let (line, mut state) = (self.l2[core].line(slot), self.l2[core].state(slot));
        if state == INVALID {
            return;
        }
        self.l2[core].remove(slot);
        if let Some(inner) = self.l1[core].find(line) {
            state = state.max(self.l1[core].state(inner));
            D::leaves_l1(self, core, line, state);
            self.l1[core].remove(inner);
        }
        self.leave_core(core, line, state);
    }

    /// Handles a line's eviction from all private caches of a core.
    fn leave_core(&mut self, core: usize, line: u32, state: State) {
        self.directory[line as usize] &= !(OWNED | 1 << core);
        if self.description.l2.is_none() {
            D::leaves_l1(self, core, line, state);
        }
        if injected(Mutant::CoreDrops) {
            return;
        }
        if state & COHERENCE == MODIFIED && !D::leaves_core(self, core, line, state) {
            let (from, home) = (self.tile(core), self.home_tile(line));
            self.network.send(from, home, Size::Data, self.now);
            self.put_llc(line, MODIFIED);
        }
    }

    /// Puts a line into the last-level cache.
    pub(crate) fn put_llc(&mut self, line: u32, state: State) {
        if let Some(slot) = self.llc.find(line) {
            let was = self.llc.state(slot);
            let coherence = (was & COHERENCE).max(state & COHERENCE);
            self.llc.set_state(slot, coherence | was & !COHERENCE);
            return self.llc.touch(slot);
        }
        let place = |may: State| self.llc.place(line, |_, state| state & may == 0);
        let Some(slot) = place(HELD | PENDING).or_else(|| place(HELD)) else {
            // Every way is held: a modified line bypasses the cache.
            if state & COHERENCE == MODIFIED {
                self.leave_llc(line, state);
            }
            return;
        };
        let (left, left_state) = (self.llc.line(slot), self.llc.state(slot));
        self.llc.put(slot, line, state);
        if left_state != INVALID {
            self.leave_llc(left, left_state);
        }
    }

    /// Puts a line that must not be evicted into the last-level cache, beside its older version if
    /// one exists. Returns whether the cache had room.
    pub fn hold(&mut self, line: u32, has_older: bool) -> bool {
        if has_older && self.llc.find(line | OLDER).is_none() {
            let place =
                |may: State| self.llc.place(line, |at, state| at != line && state & may == 0);
            let Some(slot) = place(HELD | PENDING) else { return false };
            let (left, left_state) = (self.llc.line(slot), self.llc.state(slot));
            self.llc.put(slot, line | OLDER, MODIFIED | HELD);
            if left_state != INVALID {
                self.leave_llc(left, left_state);
            }
        }
        self.put_llc(line, MODIFIED);
        let slot = self.llc.find(line);
        if let Some(slot) = slot {
            self.llc.set_state(slot, MODIFIED | HELD);
        }
        slot.is_some()
    }

    /// Makes a held line of the last-level cache evictable and drops its older version.
    pub fn release_held(&mut self, line: u32) {
        if let Some(slot) = self.llc.find(line) {
            self.llc.set_state(slot, self.llc.state(slot) & !HELD);
        }
        if let Some(slot) = self.llc.find(line | OLDER) {
            self.llc.remove(slot);
        }
    }

    /// Makes a core's copy of a line clean.
    pub fn clean_private(&mut self, core: usize, line: u32) {
        if self.private_state(core, line) & COHERENCE == MODIFIED {
            self.set_private(core, line, EXCLUSIVE);
        }
    }

    /// Drops a line from all caches without a write-back, modified or not.
    pub fn discard(&mut self, line: u32) {
        let mut left = std::mem::take(&mut self.directory[line as usize]) & !OWNED;
        while left != 0 {
            let core = left.trailing_zeros() as usize;
            left &= left - 1;
            self.drop_private(core, line);
        }
        if let Some(slot) = self.llc.find(line) {
            self.llc.remove(slot);
        }
    }

    /// Sends a line from a core to its bank of the last-level cache. Returns the time of arrival.
    pub fn to_home_tile(&mut self, core: usize, line: u32) -> Time {
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let sent = self.now + self.description.l1.latency;
        let asked = self.network.send(tile, home, Size::Data, sent);
        let booked = self.book_bank(line, asked);
        booked + self.description.llc.directory + self.description.llc.latency
    }

    /// Sends a message at the current time. Returns its time of arrival.
    pub fn send_now(&mut self, from: Tile, to: Tile, size: Size) -> Time {
        self.send_at(from, to, size, self.now)
    }

    /// Sends a message at `time`. Returns its time of arrival.
    pub fn send_at(&mut self, from: Tile, to: Tile, size: Size, time: Time) -> Time {
        self.network.send(from, to, size, time)
    }

    /// Handles a line's eviction from the last-level cache.
    fn leave_llc(&mut self, line: u32, state: State) {
        let mut dirty = state & COHERENCE == MODIFIED;
        if self.description.llc.inclusive {
            let mut left = self.directory[line as usize] & !OWNED;
            self.directory[line as usize] = 0;
            while left != 0 {
                let core = left.trailing_zeros() as usize;
                left &= left - 1;
                let private = self.private_state(core, line);
                dirty |= private & COHERENCE == MODIFIED;
                D::leaves_l1(self, core, line, private);
                self.drop_private(core, line);
            }
        }
        if dirty && !injected(Mutant::LastCacheDrops) && !D::leaves_llc(self, line) {
            let home = self.home_tile(line);
            let now = self.now;
            let class = self.design.class_of(line);
            self.write_memory(line, class, home, now, super::Notify::None);
        }
    }

    /// Makes a line clean everywhere, because its value goes to memory. Returns where it was
    /// modified: nowhere (`None`), in the last-level cache (`Some(None)`), or in a core's caches.
    fn clean(&mut self, line: u32) -> Option<Option<usize>> {
        let entry = self.directory[line as usize];
        let mut found = None;
        if self.take_over(line) {
            found = Some(None);
        }
        if entry & OWNED != 0 {
            let owner = entry.trailing_zeros() as usize;
            if self.private_state(owner, line) & COHERENCE == MODIFIED {
                self.set_private(owner, line, EXCLUSIVE);
                found = Some(Some(owner));
            }
        }
        found
    }

    /// Writes a line back for a core, wherever it is modified, through its home tile to its
    /// channel. The caches keep a clean copy. Returns when the home tile knows of the request, and
    /// the write if the line was modified.
    pub fn write_back(
        &mut self,
        core: usize,
        line: u32,
        class: Class,
        make: impl FnOnce(&mut Write),
        notify: super::Notify,
    ) -> (Time, Option<Id>) {
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let holder = self.clean(line);
        let size = if holder == Some(Some(core)) { Size::Data } else { Size::Control };
        let sent = self.now + self.description.l1.latency;
        let asked = self.network.send(tile, home, size, sent);
        let booked = self.book_bank(line, asked);
        let mut known = booked + self.description.llc.directory;
        let elsewhere = booked + self.looked_up();
        let Some(holder) = holder else { return (elsewhere, None) };
        if let Some(owner) = holder.filter(|owner| *owner != core) {
            let from = self.tile(owner);
            let asked = self.network.send(home, from, Size::Control, elsewhere);
            known = self.network.send(from, home, Size::Data, asked + self.description.l1.latency);
        }
        let written = known + self.description.llc.latency;
        (known, Some(self.write_from_home_tile(line, class, written, make, notify)))
    }

    /// Writes a line to its channel that a core's caches have evicted and that no cache holds
    /// modified. The line passes its home tile, which keeps a clean copy.
    pub fn carry(
        &mut self,
        core: usize,
        line: u32,
        class: Class,
        make: impl FnOnce(&mut Write),
        notify: super::Notify,
    ) -> Id {
        let (home, tile) = (self.home_tile(line), self.tile(core));
        let asked = self.network.send(tile, home, Size::Data, self.now);
        let booked = self.book_bank(line, asked);
        self.take_over(line);
        self.put_llc(line, if injected(Mutant::LadFlushLeavesDirty) { MODIFIED } else { SHARED });
        let Description { llc, .. } = &self.description;
        let written = booked + llc.directory + llc.latency;
        self.write_from_home_tile(line, class, written, make, notify)
    }

    fn write_from_home_tile(
        &mut self,
        line: u32,
        class: Class,
        time: Time,
        make: impl FnOnce(&mut Write),
        notify: super::Notify,
    ) -> Id {
        let mut write = Write::new(u64::from(line), self.memory.line(line), class);
        make(&mut write);
        self.write_line(write, self.home_tile(line), time, notify)
    }

    /// Sets or clears the mark of a line in a core's first cache. Returns the old mark, or `None`
    /// when the line is absent.
    pub fn mark(&mut self, core: usize, line: u32, mark: bool) -> Option<bool> {
        let slot = self.l1[core].find(line)?;
        let state = self.l1[core].state(slot);
        let marked = if mark { state | MARKED } else { state & !MARKED };
        self.l1[core].set_state(slot, marked);
        Some(state & MARKED != 0)
    }
}

mod retag;
#[cfg(test)]
mod tests;
