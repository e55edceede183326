//! A core: when its instructions are dispatched, complete and retire, and what it still has to do.
//!
//! ```text
//!   dispatch (width a cycle) -> window of `rob` instructions -> retire, in order
//!                                  loads: complete when their bytes are there
//!                                  stores: go into the store buffer; they drain after they retire
//! ```
//!
//! Only loads take longer than the window hides, so it is kept as the loads in flight: an
//! instruction is dispatched when the one that is `rob` before it has retired, which is when all
//! loads before that one are complete.

use std::collections::VecDeque;

use super::description::Core as Described;
use super::memory::line_of;
use super::when::{Time, Tokens, When};

/// What a store buffer holds, in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A word that is stored.
    Store {
        /// Which word.
        word: u64,
        /// What it becomes.
        value: u64,
    },
    /// A line that is written back.
    WriteBack {
        /// Which line.
        line: u32,
        /// Told when that is acknowledged.
        done: When,
    },
    /// A lock that is given up.
    Unlock {
        /// Its number.
        lock: u64,
    },
}

/// An operation of the store buffer.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it is.
    pub op: Op,
    /// The number of its instruction.
    instr: u64,
    /// When it was executed.
    executed: Time,
    /// When it may drain; `None` while an older load is not complete.
    ready: Option<Time>,
}

/// One core.
#[derive(Debug)]
pub struct Core {
    described: Described,
    mshrs: usize,
    /// The cycle in which instructions are dispatched, and how many were in it.
    cycle: Time,
    slot: u32,
    /// Instructions dispatched.
    instr: u64,
    /// Loads whose completion is not known, or stands behind one whose is not; oldest first.
    open: VecDeque<(u64, When)>,
    /// Loads that are complete at a known time, but later than `cycle`, oldest first: the time is
    /// when they retire.
    closed: VecDeque<(u64, Time)>,
    /// When the youngest load that is not in `open` retires.
    retires: Time,
    buffer: VecDeque<Entry>,
    /// A bit for each word that may be in the buffer, by its number's lowest six.
    words: u64,
    /// Misses in flight.
    misses: Vec<(u32, When)>,
    /// When it last accessed what others share.
    pub shared_at: Time,
    /// Which load returned which pointer: see [`Core::follow`].
    pointers: Vec<(u64, When)>,
    last_load: When,
    /// The next address waits for the last load, as each does where loads are serial.
    follows_last: bool,
}

/// Pointers that are remembered; an older one is forgotten when a younger one takes its place.
const POINTERS: usize = 128;

impl Core {
    /// A core that has done nothing.
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

    /// The cycle in which it dispatches.
    #[inline]
    pub fn cycle(&self) -> Time {
        self.cycle
    }

    /// Instructions that it has dispatched.
    pub fn instructions(&self) -> u64 {
        self.instr
    }

    /// It dispatches nothing before this time.
    #[inline]
    pub fn stall_until(&mut self, time: Time) {
        if time > self.cycle {
            self.cycle = time;
            self.slot = 0;
        }
    }

    /// Dispatches `left` instructions. Some are left when the window is full and nobody knows for
    /// how long: the answer is what to wait for.
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

    /// Waits until the oldest load in flight has retired, or answers what to wait for.
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

    /// Moves loads that are known to be complete from `open` to `closed`, and tells the stores
    /// behind them when they may drain.
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

    /// Stores before an instruction may drain once all that has retired has.
    fn settle(&mut self, before: u64) {
        let unsettled = self.buffer.partition_point(|entry| entry.ready.is_some());
        for entry in self.buffer.range_mut(unsettled..) {
            if entry.instr >= before {
                break;
            }
            entry.ready = Some(self.retires.max(entry.executed + 1));
        }
    }

    /// Waits for room for a load in flight, or answers what to wait for.
    #[inline]
    pub fn load_room(&mut self, tokens: &Tokens) -> Option<When> {
        while self.open.len() + self.closed.len() >= self.described.load_queue as usize {
            if let Some(open) = self.retire_oldest(tokens) {
                return Some(open);
            }
        }
        None
    }

    /// A load was executed; it completes then.
    #[inline]
    pub fn loaded(&mut self, completes: When, tokens: &Tokens) {
        self.last_load = completes;
        self.in_flight(completes, tokens);
    }

    /// What was executed and does not retire before then.
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

    /// Remembers which load has returned this pointer.
    #[inline]
    pub fn returned(&mut self, pointer: u64) {
        self.pointers[pointer_slot(pointer)] = (pointer, self.last_load);
    }

    /// The address that comes next was computed from what the last load returns.
    pub fn follow_last(&mut self) {
        self.follows_last = true;
    }

    /// What the address of an access to this object waits for: the youngest load that returned a
    /// pointer to it, or the last one when the program or the machine has said so.
    #[inline]
    pub fn follow(&mut self, object: u64) -> When {
        if std::mem::replace(&mut self.follows_last, self.described.serial_loads) {
            return self.last_load;
        }
        let (pointer, when) = self.pointers[pointer_slot(object)];
        if pointer == object { when } else { When::at(0) }
    }

    /// Whether the store buffer has room.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.buffer.len() < self.described.store_buffer as usize
    }

    /// Whether the store buffer is empty.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether all loads are complete at a known time, and when. `Err`: what to wait for.
    pub fn all_loaded(&mut self, tokens: &Tokens) -> Result<Time, When> {
        self.close(tokens);
        match self.open.front() {
            Some(load) => Err(load.1),
            None => Ok(self.retires),
        }
    }

    /// Puts an operation that is executed at `time` into the store buffer.
    #[inline]
    pub fn buffer(&mut self, op: Op, time: Time) {
        debug_assert!(self.has_room(), "the core waits for room");
        if let Op::Store { word, .. } = op {
            self.words |= 1 << (word & 63);
        }
        let ready = self.open.is_empty().then(|| self.retires.max(time + 1));
        self.buffer.push_back(Entry { op, instr: self.instr, executed: time, ready });
    }

    /// The value of a word that has not drained.
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

    /// What drains next, and when; no time while an older load is not complete.
    #[inline]
    pub fn next_drain(&self) -> Option<(Op, Option<Time>)> {
        self.buffer.front().map(|entry| (entry.op, entry.ready))
    }

    /// The words that retired stores in the buffer write, in their order, and when they retired.
    pub fn stored(&self) -> impl Iterator<Item = (u64, Time)> {
        self.buffer.iter().filter_map(|entry| match entry.op {
            Op::Store { word, .. } => Some((word, entry.ready?)),
            _ => None,
        })
    }

    /// The lines of the program that operations in the buffer access when they drain.
    pub fn buffered(&self) -> impl Iterator<Item = u32> {
        self.buffer.iter().filter_map(|entry| match entry.op {
            Op::Store { word, .. } => Some(line_of(word)),
            Op::WriteBack { line, .. } => Some(line),
            Op::Unlock { .. } => None,
        })
    }

    /// It has drained.
    #[inline]
    pub fn drained(&mut self) {
        self.buffer.pop_front();
        if self.buffer.is_empty() {
            self.words = 0;
        }
    }

    /// Stores that have not drained; giving a lock up is one.
    pub fn stores(&self) -> usize {
        self.buffer.iter().filter(|entry| !matches!(entry.op, Op::WriteBack { .. })).count()
    }

    /// Whether another miss may be in flight at this time.
    pub fn may_miss(&mut self, now: Time, tokens: &Tokens) -> bool {
        if self.misses.len() >= self.mshrs {
            self.misses.retain(|miss| tokens.time(miss.1).is_none_or(|time| time > now));
        }
        self.misses.len() < self.mshrs
    }

    /// A miss is in flight.
    pub fn missed(&mut self, line: u32, when: When) {
        self.misses.push((line, when));
    }

    /// When the bytes of a line come that is in flight, or the right to write it: the last of them,
    /// as far as it is known. What is over is forgotten.
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

    /// The bytes of a line that is in flight will be another line's.
    pub fn renamed(&mut self, line: u32, to: u32) {
        let of_line = self.misses.iter_mut().filter(|miss| miss.0 == line);
        of_line.for_each(|miss| miss.0 = to);
    }

    /// The misses in flight.
    pub fn misses(&self) -> impl Iterator<Item = When> {
        self.misses.iter().map(|miss| miss.1)
    }
}

/// Where a pointer is remembered.
#[inline]
fn pointer_slot(pointer: u64) -> usize {
    (pointer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize
}
