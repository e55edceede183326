//! The timing model of one out-of-order core: dispatch, completion, retirement and the store
//! buffer.
//!
//! ```text
//!   dispatch (width a cycle) -> window of `rob` instructions -> retire, in order
//!                                  loads: complete when their bytes are there
//!                                  stores: go into the store buffer; they drain after they retire
//! ```
//!
//! Only loads take longer than the window hides, so the model represents the window by the loads in
//! flight. An instruction is dispatched when its predecessor by `rob` has retired, which is when
//! all loads before that predecessor are complete.

use std::collections::VecDeque;

use super::description::Core as Described;
use super::memory::line_of;
use super::when::{Time, Tokens, When};

/// An operation in the store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A store of a word.
    Store {
        /// The word.
        word: u64,
        /// Its new value.
        value: u64,
    },
    /// A write-back of a line.
    WriteBack {
        /// The line.
        line: u32,
        /// Completes with the acknowledgement.
        done: When,
    },
    /// A release of a lock.
    Unlock {
        /// The lock's number.
        lock: u64,
    },
    /// A store fence: it drains when all write-backs before it are acknowledged.
    Fence,
}

/// An entry of the store buffer.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The operation.
    pub op: Op,
    /// The number of its instruction.
    instr: u64,
    executed: Time,
    /// When the entry may drain; `None` while an older load is incomplete.
    ready: Option<Time>,
}

/// One simulated core.
#[derive(Debug)]
pub struct Core {
    described: Described,
    mshrs: usize,
    /// The current dispatch cycle; `slot` counts the instructions dispatched in it.
    cycle: Time,
    slot: u32,
    /// The number of dispatched instructions.
    instr: u64,
    /// Loads of unknown completion time, and all younger ones; oldest first.
    open: VecDeque<(u64, When)>,
    /// Loads with a known retirement time later than `cycle`, oldest first.
    closed: VecDeque<(u64, Time)>,
    /// When the youngest load outside of `open` retires.
    retires: Time,
    buffer: VecDeque<Entry>,
    /// A filter for store forwarding: bit `word & 63` is set for each buffered word.
    words: u64,
    /// Misses in flight, by line.
    misses: Vec<(u32, When)>,
    /// The time of its last access to shared state.
    pub shared_at: Time,
    /// A table of recent pointers and the loads that returned them: see [`Core::follow`].
    pointers: Vec<(u64, When)>,
    last_load: When,
    /// The next address depends on the last load. With serial loads, every address does.
    follows_last: bool,
}

/// Size of the pointer table. A newer pointer replaces an older one in the same slot.
const POINTERS: usize = 128;

impl Core {
    /// Returns an idle core.
    pub fn new(described: &Described, mshrs: u32) -> Core {
        Core {
            described: described.clone(),
            mshrs: mshrs as usize,
            cycle: 0,
            slot: 0,
            instr: 0,
            open: VecDeque::new(),
            closed: VecDeque::new(),
            retires: 0,
            buffer: VecDeque::new(),
            words: 0,
            misses: Vec::new(),
            shared_at: 0,
            pointers: vec![(0, When::at(0)); POINTERS],
            last_load: When::at(0),
            follows_last: described.serial_loads,
        }
    }

    /// Returns the current dispatch cycle.
    #[inline]
    pub fn cycle(&self) -> Time {
        self.cycle
    }

    /// Returns the number of dispatched instructions.
    pub fn instructions(&self) -> u64 {
        self.instr
    }

    /// Prevents dispatch before this time.
    #[inline]
    pub fn stall_until(&mut self, time: Time) {
        if time > self.cycle {
            self.cycle = time;
            self.slot = 0;
        }
    }

    /// Dispatches `left` instructions. When the window is full until an unknown time, returns the
    /// token to wait for and leaves the rest in `left`.
    #[inline]
    pub fn dispatch(&mut self, left: &mut u64, tokens: &Tokens) -> Option<When> {
        loop {
            let closed = self.closed.front().map(|load| load.0);
            let oldest = closed.or(self.open.front().map(|load| load.0));
            let full = oldest.map_or(u64::MAX, |oldest| oldest + u64::from(self.described.rob));
            let room = full - self.instr;
            if *left <= room {
                self.advance(*left);
                *left = 0;
                return None;
            }
            self.advance(room);
            *left -= room;
            if let Some(open) = self.retire_oldest(tokens) {
                return Some(open);
            }
        }
    }

    fn advance(&mut self, instructions: u64) {
        self.instr += instructions;
        let slots = u64::from(self.slot) + instructions;
        let width = u64::from(self.described.width);
        if slots < width {
            self.slot = slots as u32;
        } else {
            self.cycle += slots / width;
            self.slot = (slots % width) as u32;
        }
        while self.closed.front().is_some_and(|load| load.1 <= self.cycle) {
            self.closed.pop_front();
        }
    }

    /// Waits until the oldest load in flight has retired, or returns the token to wait for.
    fn retire_oldest(&mut self, tokens: &Tokens) -> Option<When> {
        if self.closed.is_empty() {
            self.close(tokens);
        }
        if let Some((_, retires)) = self.closed.pop_front() {
            self.stall_until(retires);
            return None;
        }
        self.open.front().map(|load| load.1)
    }

    /// Moves loads of known completion time from `open` to `closed`, and sets when the stores
    /// behind them may drain.
    pub fn close(&mut self, tokens: &Tokens) {
        while let Some(&(instr, when)) = self.open.front() {
            let Some(time) = tokens.time(when) else { break };
            self.settle(instr);
            self.open.pop_front();
            self.retires = self.retires.max(time);
            if self.retires > self.cycle {
                self.closed.push_back((instr, self.retires));
            }
        }
        let before = self.open.front().map_or(u64::MAX, |load| load.0);
        self.settle(before);
    }

    /// Sets when buffered stores before an instruction may drain.
    fn settle(&mut self, before: u64) {
        let unsettled = self.buffer.partition_point(|entry| entry.ready.is_some());
        for entry in self.buffer.range_mut(unsettled..) {
            if entry.instr >= before {
                break;
            }
            entry.ready = Some(self.retires.max(entry.executed + 1));
        }
    }

    /// Waits for a free load-queue entry, or returns the token to wait for.
    #[inline]
    pub fn load_room(&mut self, tokens: &Tokens) -> Option<When> {
        while self.open.len() + self.closed.len() >= self.described.load_queue as usize {
            if let Some(open) = self.retire_oldest(tokens) {
                return Some(open);
            }
        }
        None
    }

    /// Adds an executed load that completes with this token.
    #[inline]
    pub fn loaded(&mut self, completes: When, tokens: &Tokens) {
        self.last_load = completes;
        self.in_flight(completes, tokens);
    }

    /// Adds an executed instruction that retires no earlier than this token.
    #[inline]
    pub fn in_flight(&mut self, completes: When, tokens: &Tokens) {
        let known = if self.open.is_empty() { tokens.time(completes) } else { None };
        let Some(time) = known else {
            self.open.push_back((self.instr, completes));
            return;
        };
        self.retires = self.retires.max(time);
        if self.retires > self.cycle {
            self.closed.push_back((self.instr, self.retires));
        }
    }

    /// Records that the last load has returned this pointer.
    #[inline]
    pub fn returned(&mut self, pointer: u64) {
        self.pointers[pointer_slot(pointer)] = (pointer, self.last_load);
    }

    /// Makes the next address depend on the last load.
    pub fn follow_last(&mut self) {
        self.follows_last = true;
    }

    /// Returns the token that the address of an access to this object depends on: the youngest load
    /// that returned a pointer to it. After [`Core::follow_last`] or with serial loads, this is the
    /// last load.
    #[inline]
    pub fn follow(&mut self, object: u64) -> When {
        if std::mem::replace(&mut self.follows_last, self.described.serial_loads) {
            return self.last_load;
        }
        let (pointer, when) = self.pointers[pointer_slot(object)];
        if pointer == object { when } else { When::at(0) }
    }

    /// Returns whether the store buffer has room.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.buffer.len() < self.described.store_buffer as usize
    }

    /// Returns whether the store buffer is empty.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns when all loads are complete.
    ///
    /// # Errors
    /// The token of the oldest load whose completion time is unknown.
    pub fn all_loaded(&mut self, tokens: &Tokens) -> Result<Time, When> {
        self.close(tokens);
        match self.open.front() {
            Some(load) => Err(load.1),
            None => Ok(self.retires),
        }
    }

    /// Appends an operation executed at `time` to the store buffer.
    #[inline]
    pub fn buffer(&mut self, op: Op, time: Time) {
        debug_assert!(self.has_room(), "the core waits for room");
        if let Op::Store { word, .. } = op {
            self.words |= 1 << (word & 63);
        }
        let ready = self.open.is_empty().then(|| self.retires.max(time + 1));
        self.buffer.push_back(Entry { op, instr: self.instr, executed: time, ready });
    }

    /// Returns the youngest buffered value of a word.
    #[inline]
    pub fn forwarded(&self, wanted: u64) -> Option<u64> {
        if self.words >> (wanted & 63) & 1 == 0 {
            return None;
        }
        self.buffer.iter().rev().find_map(|entry| match entry.op {
            Op::Store { word, value } if word == wanted => Some(value),
            _ => None,
        })
    }

    /// Returns the oldest buffered operation and when it may drain; no time while an older load is
    /// incomplete.
    #[inline]
    pub fn next_drain(&self) -> Option<(Op, Option<Time>)> {
        self.buffer.front().map(|entry| (entry.op, entry.ready))
    }

    /// Iterates over the words of retired buffered stores in program order, with their retirement
    /// times.
    pub fn stored(&self) -> impl Iterator<Item = (u64, Time)> {
        self.buffer.iter().filter_map(|entry| match entry.op {
            Op::Store { word, .. } => Some((word, entry.ready?)),
            _ => None,
        })
    }

    /// Iterates over the program's lines that buffered operations access.
    pub fn buffered(&self) -> impl Iterator<Item = u32> {
        self.buffer.iter().filter_map(|entry| match entry.op {
            Op::Store { word, .. } => Some(line_of(word)),
            Op::WriteBack { line, .. } => Some(line),
            Op::Unlock { .. } | Op::Fence => None,
        })
    }

    /// Removes the oldest operation, which has drained.
    #[inline]
    pub fn drained(&mut self) {
        self.buffer.pop_front();
        if self.buffer.is_empty() {
            self.words = 0;
        }
    }

    /// Returns the number of buffered stores, lock releases included.
    pub fn stores(&self) -> usize {
        let is_store = |op: &Op| matches!(op, Op::Store { .. } | Op::Unlock { .. });
        self.buffer.iter().filter(|entry| is_store(&entry.op)).count()
    }

    /// Returns whether a miss status register is free at this time.
    pub fn may_miss(&mut self, now: Time, tokens: &Tokens) -> bool {
        if self.misses.len() >= self.mshrs {
            self.misses.retain(|miss| tokens.time(miss.1).is_none_or(|time| time > now));
        }
        self.misses.len() < self.mshrs
    }

    /// Records a miss in flight.
    pub fn missed(&mut self, line: u32, when: When) {
        self.misses.push((line, when));
    }

    /// Returns the last token in flight for a line's data or for the right to write it. Completed
    /// misses of the line are removed.
    pub fn pending(&mut self, line: u32, now: Time, tokens: &Tokens) -> Option<When> {
        let mut last: Option<When> = None;
        self.misses.retain(|&(of, when)| {
            if of != line {
                return true;
            }
            let time = tokens.time(when);
            let is_open = time.is_none_or(|time| time > now);
            let is_later =
                |last| tokens.time(last).is_some_and(|last| time.is_none_or(|it| it > last));
            if is_open && last.is_none_or(is_later) {
                last = Some(when);
            }
            is_open
        });
        last
    }

    /// Retags a line in flight: its data will be another line's.
    pub fn renamed(&mut self, line: u32, to: u32) {
        let of_line = self.misses.iter_mut().filter(|miss| miss.0 == line);
        of_line.for_each(|miss| miss.0 = to);
    }

    /// Iterates over the misses in flight.
    pub fn misses(&self) -> impl Iterator<Item = When> {
        self.misses.iter().map(|miss| miss.1)
    }
}

/// Returns the slot of a pointer: multiplicative hashing to seven bits.
#[inline]
fn pointer_slot(pointer: u64) -> usize {
    (pointer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize
}
