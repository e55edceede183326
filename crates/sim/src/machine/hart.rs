//! A hart (hardware thread): the program of one core, which executes transactions.
//!
//! A hart is a coroutine that owns the machine while it runs. It suspends and hands the machine
//! over when another event is due earlier, or when the end of its wait is unknown. [`Hart`] offers
//! the core's instructions; data structures use a
//! [`Transaction`](super::transaction::Transaction) of it.

use corosensei::Yielder;
use lw_alloc::Heap;
use words::{Addr, Stop};

use super::attempt::Old;
use super::core::Op;
use super::counts::Phase;
use super::hierarchy::Lookup;
use super::memory::line_of;
use super::tlb::{PAGE_LINES, Translation};
use super::when::{NEVER, Time, When};
use super::{Machine, Step, Why};
use crate::design::Design;

/// The bits of an address that hold its offset in the heap.
const OFFSET_BITS: u32 = words::ADDRESS_BITS;

/// A hart while it runs.
pub struct Hart<'y, D: Design> {
    /// `None` only while the hart is suspended.
    machine: Option<Box<Machine<D>>>,
    yielder: &'y Yielder<Box<Machine<D>>, Box<Machine<D>>>,
    core: usize,
    pub(super) heap: Heap,
    /// The size of the heap in bytes.
    bytes: u64,
    /// The tag of the heap's pointers, in its bit position.
    tag: u64,
    phase: Phase,
    since: Time,
    /// Distinct lines that the transaction has written.
    pub(super) lines: Vec<u32>,
    /// Locks that the transaction holds.
    pub(super) locks: Vec<u64>,
    /// The undo list, oldest entry first.
    pub(super) undo: Vec<Old>,
    /// The transaction runs on the software log, because the hardware could not hold it.
    pub(super) soft: bool,
}

impl<'y, D: Design> Hart<'y, D> {
    pub(crate) fn new(
        machine: Box<Machine<D>>,
        yielder: &'y Yielder<Box<Machine<D>>, Box<Machine<D>>>,
        core: usize,
        (heap, tag, bytes): (Heap, u16, u64),
    ) -> Hart<'y, D> {
        Hart {
            machine: Some(machine),
            yielder,
            core,
            heap,
            bytes,
            tag: u64::from(tag) << OFFSET_BITS,
            phase: Phase::Outside,
            since: 0,
            lines: Vec::new(),
            locks: Vec::new(),
            undo: Vec::new(),
            soft: false,
        }
    }

    pub(crate) fn into_machine(self) -> Box<Machine<D>> {
        self.machine.expect("a hart that runs owns the machine")
    }

    /// Returns the machine.
    #[inline]
    pub fn machine(&mut self) -> &mut Machine<D> {
        self.machine.as_mut().expect("a hart that runs owns the machine")
    }

    /// Returns the hart's core.
    pub fn core(&self) -> usize {
        self.core
    }

    /// Returns the current dispatch cycle, or the machine's time if that is later.
    pub fn cycle(&mut self) -> Time {
        let core = self.core;
        let machine = self.machine();
        machine.cores[core].core.cycle().max(machine.now)
    }

    /// Returns the lines that the running transaction has written.
    pub fn lines(&self) -> &[u32] {
        &self.lines
    }

    /// Runs the events that are due earlier, until this core is next.
    fn others_act(&mut self) {
        let core = self.core;
        loop {
            let machine = self.machine();
            match machine.step() {
                Step::Done => continue,
                Step::Core(next) if next == core => return,
                Step::Core(next) => machine.next_core = Some(next),
                // The kernel finds no event either, and ends the run.
                Step::None => {}
            }
            let machine = self.machine.take().expect("a hart that runs owns the machine");
            self.machine = Some(self.yielder.suspend(machine));
            return;
        }
    }

    /// Runs all events before this time.
    pub fn until(&mut self, time: Time) {
        let core = self.core;
        while time > self.limit() {
            let machine = self.machine();
            let source = machine.core_source(core);
            machine.sources.set(source, time);
            machine.cores[core].why = Why::Events;
            self.others_act();
        }
        let machine = self.machine();
        machine.now = machine.now.max(time);
    }

    /// Returns the time of the next other event: this hart may run ahead of it no further.
    #[inline]
    fn limit(&mut self) -> Time {
        self.machine().sources.first().0
    }

    /// Suspends the hart until an event wakes its core.
    fn park(&mut self, why: Why) {
        let core = self.core;
        let running = &mut self.machine().cores[core];
        running.parked = true;
        running.why = why;
        self.others_act();
        self.machine().cores[core].parked = false;
    }

    /// Returns the time of a token, after waiting until it is known.
    #[inline]
    pub fn time_of(&mut self, when: When) -> Time {
        loop {
            let core = self.core;
            if let Some(time) = self.machine().time_for(core, when) {
                return time;
            }
            self.park(Why::Line);
        }
    }

    /// Advances the core to this time.
    pub fn at(&mut self, time: Time) {
        let core = self.core;
        self.machine().cores[core].core.stall_until(time);
        self.until(time);
    }

    /// Waits until the time of a token.
    pub fn wait_for(&mut self, token: When) {
        let time = self.time_of(token);
        self.at(time);
    }

    /// Waits until the earliest time of several tokens.
    pub fn wait_for_first(&mut self, tokens: &[When]) {
        let core = self.core;
        loop {
            let machine = self.machine();
            let known = tokens.iter().filter_map(|token| machine.time_for(core, *token));
            match known.min() {
                None => self.park(Why::Answer),
                // An earlier event may still complete another token before `first`.
                Some(first) if first > self.limit() => self.until(first),
                Some(first) => return self.at(first),
            }
        }
    }

    /// Dispatches instructions.
    #[inline]
    pub fn instructions(&mut self, count: u64) {
        let (mut left, core) = (count, self.core);
        loop {
            let machine = self.machine();
            let Some(open) = machine.cores[core].core.dispatch(&mut left, &machine.tokens) else {
                return;
            };
            self.time_of(open);
        }
    }

    /// Dispatches the instructions that a program reports between its accesses.
    pub fn compute(&mut self, instructions: u32) {
        let factor = self.machine().description.core.compute_factor;
        self.instructions((f64::from(instructions) * factor).round() as u64);
    }

    /// Loads a word for a log record and returns its payload: in a tagged run the number of its
    /// last store ([`memory`](crate::machine::memory)), so that recovery restores that too. The
    /// payload does not include a store that has not drained.
    pub fn load_for_log(&mut self, word: u64, object: u64) -> u64 {
        self.load(word, object);
        let core = self.core;
        let machine = self.machine();
        machine.memory.payload(machine.place_of(core, word))
    }

    /// Loads a word. The load waits for the load that returned the pointer to its object, if known.
    pub fn load(&mut self, word: u64, object: u64) -> u64 {
        self.instructions(1);
        let core = self.core;
        loop {
            let machine = self.machine();
            match machine.cores[core].core.load_room(&machine.tokens) {
                None => break,
                Some(open) => drop(self.time_of(open)),
            }
        }
        let follows = self.machine().cores[core].core.follow(object);
        let known = self.time_of(follows);
        let machine = self.machine();
        machine.counts.accesses += 1;
        let running = &mut machine.cores[core].core;
        let time = running.cycle().max(known);
        if let Some(value) = running.forwarded(word) {
            running.loaded(When::at(time + 1), &machine.tokens);
            return self.returned(value);
        }
        let line = line_of(word);
        let time = time + self.translate(line, time);
        let completes = self.reach(line, false, time);
        let machine = self.machine();
        machine.cores[core].core.loaded(completes, &machine.tokens);
        let value = machine.word(core, word);
        self.returned(value)
    }

    #[inline]
    fn returned(&mut self, value: u64) -> u64 {
        if value >> OFFSET_BITS == self.tag >> OFFSET_BITS {
            let core = self.core;
            self.machine().cores[core].core.returned(value);
        }
        value
    }

    /// Returns the latency of a line's address translation at this time.
    #[inline]
    pub(crate) fn translate(&mut self, line: u32, time: Time) -> Time {
        let core = self.core;
        let machine = self.machine();
        match machine.cores[core].tlb.translate(line) {
            Translation::Known => 0,
            Translation::Walked { left } => {
                machine.counts.tlb_misses += 1;
                let walk = machine.walk();
                walk + D::walked(self, line / PAGE_LINES, left, time + walk)
            }
        }
    }

    /// Translates the line of the next store, which does not retire earlier. Returns when the
    /// translation is complete.
    pub(crate) fn translate_store(&mut self, line: u32) -> Time {
        let core = self.core;
        let time = self.machine().cores[core].core.cycle();
        let takes = self.translate(line, time);
        if takes > 0 {
            let machine = self.machine();
            machine.cores[core].core.in_flight(When::at(time + takes), &machine.tokens);
        }
        time + takes
    }

    /// Accesses a line of the program no earlier than this time. Returns the token of its data.
    fn reach(&mut self, line: u32, write: bool, time: Time) -> When {
        let core = self.core;
        loop {
            let limit = self.limit();
            let machine = self.machine();
            if time > limit.saturating_add(machine.lookahead) {
                self.until(time);
                continue;
            }
            // An event in between may have moved the line.
            let line = machine.design.place(core, line);
            if let Lookup::Hit(completes) = machine.look_up(core, line, write, time) {
                return completes;
            }
            let time = time.max(machine.cores[core].core.shared_at).max(machine.now);
            if time > limit {
                self.until(time);
                continue;
            }
            machine.now = time;
            if !machine.cores[core].core.may_miss(time, &machine.tokens) {
                // Misses of known time must wake this core too, and a wake-up reaches only a parked
                // core. Therefore the core is parked before it registers.
                machine.cores[core].parked = true;
                machine.ask_misses(core);
                self.park(Why::Miss);
                continue;
            }
            machine.cores[core].core.shared_at = time;
            return machine.bring(core, line, write, time);
        }
    }

    /// Stores a word. The store reaches the cache when it drains from the store buffer.
    pub fn store(&mut self, word: u64, object: u64, value: u64) {
        let translated = self.translate_store(line_of(word));
        let core = self.core;
        let machine = self.machine();
        machine.counts.accesses += 1;
        let follows = machine.cores[core].core.follow(object);
        let is_known = machine.tokens.time(follows).is_some();
        self.buffer(Op::Store { word, value });
        // An address that still depends on a load cannot be prefetched.
        if is_known {
            self.prefetch(line_of(word), translated);
        }
    }

    /// Requests a line that a buffered store will write, no earlier than its address translation.
    fn prefetch(&mut self, line: u32, translated: Time) {
        let core = self.core;
        loop {
            let limit = self.limit();
            let machine = self.machine();
            let time = machine.cores[core].core.cycle().max(translated);
            if time > limit.saturating_add(machine.lookahead) {
                self.until(time);
                continue;
            }
            let line = machine.design.place(core, line);
            if let Lookup::Hit(_) = machine.look_up(core, line, true, time) {
                return;
            }
            let time = time.max(machine.cores[core].core.shared_at).max(machine.now);
            if time > limit {
                self.until(time);
                continue;
            }
            machine.now = time;
            // Without a free miss register, the drain requests the line.
            if machine.cores[core].core.may_miss(time, &machine.tokens) {
                machine.cores[core].core.shared_at = time;
                machine.bring(core, line, true, time);
            }
            return;
        }
    }

    /// Puts an operation into the store buffer, after waiting for room.
    pub(super) fn buffer(&mut self, op: Op) {
        self.instructions(1);
        let core = self.core;
        while !self.machine().cores[core].core.has_room() {
            self.park(Why::Room);
            let now = self.machine().now;
            self.machine().cores[core].core.stall_until(now);
        }
        let machine = self.machine();
        let running = &mut machine.cores[core].core;
        let time = running.cycle();
        running.buffer(op, time);
        if let Some((_, ready)) = running.next_drain() {
            let source = machine.buffer_source(core);
            // Without a known time, the drain registers for it.
            let ready = ready.unwrap_or(machine.now).max(machine.now);
            machine.sources.lower(source, ready);
        }
    }

    /// Writes a line back after all earlier stores (`clwb`). A [`fence`](Hart::fence) waits for the
    /// acknowledgement.
    pub fn write_back(&mut self, line: u32) {
        self.machine().counts.accesses += 1;
        let core = self.core;
        let done = self.machine().tokens.open();
        self.machine().cores[core].flushes.push(done);
        self.buffer(Op::WriteBack { line, done });
    }

    /// Orders stores: those behind this `sfence` drain when all write-backs before it are
    /// acknowledged. The core goes on, and its loads do not wait.
    pub fn store_fence(&mut self) {
        self.buffer(Op::Fence);
    }

    /// Waits until all loads are complete, all stores have drained, and all write-backs are
    /// acknowledged. This is an `sfence` that also empties the instruction window, as `mfence`.
    pub fn fence(&mut self) {
        self.instructions(1);
        self.settle();
        let core = self.core;
        self.machine().cores[core].sent.clear();
        while let Some(flush) = self.machine().cores[core].flushes.pop() {
            let time = self.time_of(flush);
            self.machine().cores[core].core.stall_until(time);
        }
        let cycle = self.machine().cores[core].core.cycle();
        self.until(cycle);
    }

    /// Waits until all loads are complete and all stores have drained.
    pub fn settle(&mut self) {
        let core = self.core;
        loop {
            let machine = self.machine();
            match machine.cores[core].core.all_loaded(&machine.tokens) {
                Ok(time) => {
                    machine.cores[core].core.stall_until(time);
                    break;
                }
                Err(open) => drop(self.time_of(open)),
            }
        }
        while !self.machine().is_drained(core) {
            self.park(Why::Stores);
            let now = self.machine().now;
            self.machine().cores[core].core.stall_until(now);
        }
    }

    /// Acquires a lock, after waiting for it.
    pub(super) fn take_lock(&mut self, lock: u64) {
        if self.locks.contains(&lock) {
            return;
        }
        self.instructions(1);
        self.settle();
        let (core, word) = (self.core, self.machine().memory.lock_word(lock));
        let cycle = self.machine().cores[core].core.cycle();
        self.until(cycle);
        let mut reached = self.access_now(line_of(word));
        if !self.machine().ask_lock(core, lock) {
            let phase = self.phase;
            self.enter(Phase::Lock);
            while !self.machine().has_lock(core, lock) {
                self.park(Why::Lock(lock));
            }
            reached = self.access_now(line_of(word));
            self.machine().cores[core].core.stall_until(reached);
            self.enter(phase);
        }
        self.machine().cores[core].core.stall_until(reached);
        self.locks.push(lock);
    }

    /// Fetches a line for writing and waits for it.
    fn access_now(&mut self, line: u32) -> Time {
        let core = self.core;
        let time = self.machine().cores[core].core.cycle().max(self.machine().now);
        let done = self.reach(line, true, time);
        self.time_of(done)
    }

    /// Starts a phase of a transaction, for the cycle counters.
    pub fn enter(&mut self, phase: Phase) {
        let core = self.core;
        let cycle = self.machine().cores[core].core.cycle();
        let (before, spent) = (self.phase, cycle - self.since);
        self.machine().counts.phases.add(before, spent);
        self.phase = phase;
        self.since = cycle;
    }

    /// Returns whether the transaction aborts: its stores then restore old values.
    pub fn gives_up(&self) -> bool {
        self.phase == Phase::Abort
    }

    /// Returns the index of the word at an address.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the address is outside of the heap or unaligned.
    #[inline]
    pub(super) fn word(&self, at: Addr) -> Result<u64, Stop> {
        let offset = at.byte().wrapping_sub(self.tag);
        if offset >= self.bytes || !offset.is_multiple_of(8) {
            return Err(Stop::BadPointer);
        }
        Ok(offset / 8)
    }

    /// Makes the next address depend on the last load.
    pub(super) fn follow_last(&mut self) {
        let core = self.core;
        self.machine().cores[core].core.follow_last();
    }

    /// Ends the program, after its stores have reached the cache.
    pub(crate) fn finish(&mut self) {
        self.fence();
        let core = self.core;
        let machine = self.machine();
        let source = machine.core_source(core);
        machine.sources.set(source, NEVER);
    }
}
