//! A simulated hardware thread: a program's transactions, executed on a core.
//!
//! It runs as a coroutine that owns the machine while it runs, and hands it on whenever it must
//! not go on: because something else happens before, or because it does not know yet how long it
//! waits. [`Hart`] has the core's instructions; data structures see a `Transaction` of it.

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
use super::{Machine, Turn, Why};
use crate::design::Design;

/// Bits of an address that say where in the heap it is.
const OFFSET_BITS: u32 = words::ADDRESS_BITS;

/// A hardware thread, while it runs.
pub struct Hart<'y, D: Design> {
    /// Always there, except while somebody else runs.
    machine: Option<Box<Machine<D>>>,
    yielder: &'y Yielder<Box<Machine<D>>, Box<Machine<D>>>,
    core: usize,
    pub(super) heap: Heap,
    /// Bytes of the heap.
    bytes: u64,
    /// The tag of its pointers, at its place.
    tag: u64,
    phase: Phase,
    /// When the phase began.
    since: Time,
    /// Distinct lines that the transaction has written.
    pub(super) lines: Vec<u32>,
    /// Locks that it holds.
    pub(super) locks: Vec<u64>,
    /// What it has overwritten, oldest first.
    pub(super) undo: Vec<Old>,
    /// The hardware could not hold it: a log in software makes it durable.
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
        self.machine.expect("it runs")
    }

    /// The machine.
    #[inline]
    pub fn machine(&mut self) -> &mut Machine<D> {
        self.machine.as_mut().expect("it runs")
    }

    /// Which core it is.
    pub fn core(&self) -> usize {
        self.core
    }

    /// The cycle in which it dispatches; no less than what has happened.
    pub fn cycle(&mut self) -> Time {
        let core = self.core;
        let machine = self.machine();
        machine.cores[core].core.cycle().max(machine.now)
    }

    /// Lines that the running transaction has written.
    pub fn lines(&self) -> &[u32] {
        &self.lines
    }

    /// Lets everything act that is first, until it is this core's turn.
    fn others_act(&mut self) {
        let core = self.core;
        loop {
            let machine = self.machine();
            match machine.step() {
                Turn::Done => continue,
                Turn::Core(next) if next == core => return,
                Turn::Core(next) => machine.turn = Some(next),
                // The kernel finds the same.
                Turn::Nobody => {}
            }
            let machine = self.machine.take().expect("it runs");
            self.machine = Some(self.yielder.suspend(machine));
            return;
        }
    }

    /// Lets everything happen that happens before this time.
    pub fn until(&mut self, time: Time) {
        let core = self.core;
        while time > self.limit() {
            let machine = self.machine();
            let source = machine.core_source(core);
            machine.sources.set(source, time);
            machine.cores[core].why = Why::Turn;
            self.others_act();
        }
        let machine = self.machine();
        machine.now = machine.now.max(time);
    }

    /// What others do next, they do then.
    #[inline]
    fn limit(&mut self) -> Time {
        self.machine().sources.first().0
    }

    /// Waits until something happens to this core.
    fn park(&mut self, why: Why) {
        let core = self.core;
        let running = &mut self.machine().cores[core];
        running.parked = true;
        running.why = why;
        self.others_act();
        self.machine().cores[core].parked = false;
    }

    /// The time of a token; waits until it is known.
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

    /// Goes on at this time.
    pub fn at(&mut self, time: Time) {
        let core = self.core;
        self.machine().cores[core].core.stall_until(time);
        self.until(time);
    }

    /// Waits until a token's time.
    pub fn wait_for(&mut self, token: When) {
        let time = self.time_of(token);
        self.at(time);
    }

    /// Waits until the time of the first of some tokens.
    pub fn wait_for_first(&mut self, tokens: &[When]) {
        let core = self.core;
        loop {
            let machine = self.machine();
            let known = tokens.iter().filter_map(|token| machine.time_for(core, *token));
            match known.min() {
                None => self.park(Why::Answer),
                // Until then another one may be told that is earlier.
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

    /// Executes what a program says it executes between its accesses.
    pub fn compute(&mut self, instructions: u32) {
        let factor = self.machine().description.core.compute_factor;
        self.instructions((f64::from(instructions) * factor).round() as u64);
    }

    /// Loads a word to put it into a log. Answers what a payload has of it: what recovery stores
    /// back is compared by who wrote it, too ([`memory`](crate::machine::memory)). A store of it
    /// that has not drained yet is not in that.
    pub fn load_for_log(&mut self, word: u64, object: u64) -> u64 {
        self.load(word, object);
        let core = self.core;
        let machine = self.machine();
        machine.memory.payload(machine.place_of(core, word))
    }

    /// Loads a word. Where its object is known from a load, it waits for that.
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

    /// Cycles that a line's translation takes from this time on.
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

    /// Translates the line of a store that comes next: it does not retire before that is done.
    /// Answers when that is.
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

    /// Accesses a line of the program not before this time. Answers when its bytes are there.
    fn reach(&mut self, line: u32, write: bool, time: Time) -> When {
        let core = self.core;
        loop {
            let limit = self.limit();
            let machine = self.machine();
            if time > limit.saturating_add(machine.lookahead) {
                self.until(time);
                continue;
            }
            // Whoever acted meanwhile may have moved it.
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
                // Times that are known wake it too, and only who is parked is woken.
                machine.cores[core].parked = true;
                machine.ask_misses(core);
                self.park(Why::Miss);
                continue;
            }
            machine.cores[core].core.shared_at = time;
            return machine.bring(core, line, write, time);
        }
    }

    /// Stores a word: it reaches the cache when it drains from the store buffer.
    pub fn store(&mut self, word: u64, object: u64, value: u64) {
        let translated = self.translate_store(line_of(word));
        let core = self.core;
        let machine = self.machine();
        machine.counts.accesses += 1;
        let follows = machine.cores[core].core.follow(object);
        let is_known = machine.tokens.time(follows).is_some();
        self.buffer(Op::Store { word, value });
        // Where the address still waits for a load nothing can be asked for.
        if is_known {
            self.prefetch(line_of(word), translated);
        }
    }

    /// Asks for a line that a store in the buffer will write, if it is not there; its page is
    /// translated then.
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
            // Without room it is fetched when it drains.
            if machine.cores[core].core.may_miss(time, &machine.tokens) {
                machine.cores[core].core.shared_at = time;
                machine.bring(core, line, true, time);
            }
            return;
        }
    }

    /// Puts an operation into the store buffer.
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
            // Without a time the buffer asks for one.
            let ready = ready.unwrap_or(machine.now).max(machine.now);
            machine.sources.hasten(source, ready);
        }
    }

    /// Writes a line back, behind all stores before it (`clwb`): a [`fence`](Hart::fence) waits
    /// until that is acknowledged.
    pub fn write_back(&mut self, line: u32) {
        self.machine().counts.accesses += 1;
        let core = self.core;
        let done = self.machine().tokens.open();
        self.machine().cores[core].flushes.push(done);
        self.buffer(Op::WriteBack { line, done });
    }

    /// Waits until all loads are complete, all stores have drained, and all write-backs are
    /// acknowledged (`sfence`, as the end of a window that holds nothing younger).
    pub fn fence(&mut self) {
        self.instructions(1);
        self.settle();
        let core = self.core;
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

    /// Takes a lock; waits until it has it.
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

    /// Gets a line for writing, and waits for it.
    fn access_now(&mut self, line: u32) -> Time {
        let core = self.core;
        let time = self.machine().cores[core].core.cycle().max(self.machine().now);
        let done = self.reach(line, true, time);
        self.time_of(done)
    }

    /// What follows belongs to this phase of a transaction.
    pub fn enter(&mut self, phase: Phase) {
        let core = self.core;
        let cycle = self.machine().cores[core].core.cycle();
        let (before, spent) = (self.phase, cycle - self.since);
        self.machine().counts.phases.add(before, spent);
        self.phase = phase;
        self.since = cycle;
    }

    /// Whether its transaction gives up: what is stored is what was there before.
    pub fn gives_up(&self) -> bool {
        self.phase == Phase::Abort
    }

    /// The place of a word in memory.
    #[inline]
    pub(super) fn word(&self, at: Addr) -> Result<u64, Stop> {
        let offset = at.byte().wrapping_sub(self.tag);
        if offset >= self.bytes || !offset.is_multiple_of(8) {
            return Err(Stop::BadPointer);
        }
        Ok(offset / 8)
    }

    /// The address that comes next was computed from what the last load returns.
    pub(super) fn follow_last(&mut self) {
        let core = self.core;
        self.machine().cores[core].core.follow_last();
    }

    /// The program is over: what it has stored reaches the cache.
    pub(crate) fn finish(&mut self) {
        self.fence();
        let core = self.core;
        let machine = self.machine();
        let source = machine.core_source(core);
        machine.sources.set(source, NEVER);
    }
}
