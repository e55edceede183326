//! The memory controller of one channel: it decides, event by event, what its banks do next.
//!
//! ```text
//!   read   ------------------------------> reads  --\
//!                                                     one of them at a time -> bank, bus
//!   write  -> waiting, if there is no room -> writes --/
//!             accepted: it has a slot                          durable: the array has it
//! ```
//!
//! Nothing is booked ahead. A bank or the bus is taken when a request starts, and what starts is
//! chosen then, among the requests that could start at that moment: first those that find their row
//! open, then the oldest. (Booking the bus for a write whose bank is busy makes a convoy: other
//! banks stand still behind it. Booking it at the write's end lets through more than there is.)
//!
//! Reads go first. Writes go when there is no read; when four fifths of the queue are full, until
//! half of it is; and while one of them is older than a bound, so that none waits for ever. While
//! writes are preferred and none can start, reads go on; and a read that is older than the bound
//! goes before them, for a bank that is written without end would never be read.
//!
//! Invariants:
//! - Writes of one line go in the order in which they came, and a read sees the youngest that came
//!   before it, and none that came after it.
//! - A write that depends on others goes when those are durable.
//! - Slots are given to the oldest write first, whatever it is for. But the last eighth of them is
//!   kept for log and journal that depend on nothing: or data would fill the queue while the log
//!   that they wait for stood outside. What frees a log or a journal (Log Start, a checkpoint)
//!   counts as one: data wait for their log, that for room, and room for this.
//! - A write that is held (speculative) goes when it is released, and starts no draining. A younger
//!   one of the same line and owner takes its place. One without an owner waits for its log, and
//!   has no slot before it is released: where slots have a battery, it would survive a power cut
//!   that its log does not.
//! - A write does not go before a read of its line that came before it.
//!
//! Whoever drives it calls [`Controller::run`] at the times that [`Controller::next`] names, and
//! nothing later in between. (Rixner and others, *Memory Access Scheduling*, ISCA 2000.)

use std::collections::VecDeque;

use super::agenda::Agenda;
use super::memory::LineWords;
use super::when::Time;
use crate::mutants::{Mutant, planted};
use banks::{Banks, Place};

/// A line of memory, by its number.
pub type Line = u64;

/// Names a request; younger ones have larger numbers.
pub type Id = u64;

/// How long a channel's banks take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Banks.
    pub banks: u64,
    /// Lines of a row.
    pub row_lines: u64,
    /// Neighbouring lines that lie in one bank before those of the next: of one row.
    pub interleave_lines: u64,
    /// From the start of a read to its burst, when its row is open.
    pub read_hit: Time,
    /// The same when it is not.
    pub read_miss: Time,
    /// From the end of a write's burst until the array has it, when its row is open.
    pub write_hit: Time,
    /// The same when it is not.
    pub write_miss: Time,
    /// A line on the bus.
    pub burst: Time,
    /// A read that finds its line among the writes.
    pub forward: Time,
}

/// What a controller's queue of writes is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Slots.
    pub slots: usize,
    /// A write that is older makes the controller write; a read that is older goes before writes.
    pub age: Time,
}

/// What is written, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Lines of the program.
    Data,
    /// Records of a log.
    LogData,
    /// Which records they are.
    LogMeta,
    /// That a transaction is committed.
    CommitRecord,
    /// A journal of metadata.
    Journal,
    /// Copies that bring a page's lines together.
    Consolidation,
    /// Metadata that a journal need not keep any longer.
    Checkpoint,
    /// What lines were, from a controller that has no room for what they become.
    UndoFallback,
    /// Anything else.
    Other,
}

/// Classes of writes.
pub const CLASSES: usize = Class::Other as usize + 1;

impl Class {
    /// Whether other writes wait for such ones, or for the room that they make.
    fn is_log(self) -> bool {
        matches!(
            self,
            Class::LogData
                | Class::LogMeta
                | Class::CommitRecord
                | Class::Journal
                | Class::Checkpoint
                | Class::UndoFallback
        )
    }
}

/// A write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its line.
    pub line: Line,
    /// What is written.
    pub payload: LineWords,
    /// What it is for.
    pub class: Class,
    /// Writes that are durable before it starts.
    pub after: Vec<Id>,
    /// It starts when it has been [released](Controller::release), and has no slot before if it is
    /// nobody's.
    pub held: bool,
    /// The transaction whose write it is, if that matters; 0: nobody's.
    pub owner: u64,
}

impl Write {
    /// A plain write.
    pub fn new(line: Line, payload: LineWords, class: Class) -> Write {
        Write { line, payload, class, after: Vec::new(), held: false, owner: 0 }
    }

    /// Whether it may have one of the slots that are kept.
    fn may_have_kept(&self) -> bool {
        self.class.is_log() && self.after.is_empty()
    }

    /// Whether it has no slot yet, however many are free.
    fn stays_outside(&self) -> bool {
        self.held && self.owner == 0 && !planted(Mutant::HeldHasSlot)
    }
}

/// What a controller tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read's line is there; with what a write has that is still in the queue.
    Read {
        /// Which read.
        id: Id,
        /// `None`: what the array has.
        forwarded: Option<LineWords>,
    },
    /// A write has a slot.
    Accepted {
        /// Which write.
        id: Id,
    },
    /// A write has taken the place of one that was held for the same line and owner.
    Merged {
        /// Which write.
        id: Id,
        /// Whose place.
        into: Id,
    },
    /// The array has a write, and its slot is free.
    Durable {
        /// Which write.
        id: Id,
        /// Its line.
        line: Line,
        /// What the array has by now.
        payload: LineWords,
        /// What it was for.
        class: Class,
    },
}

/// A read that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: Id,
    line: Line,
    place: Place,
    arrived: Time,
}

/// A write that has a slot, or waits for one.
#[derive(Clone, Debug)]
struct Entry {
    id: Id,
    place: Place,
    arrived: Time,
    /// It is on its way to the array.
    started: bool,
    /// No older write of its line has a slot.
    is_first: bool,
    write: Write,
}

impl Entry {
    fn is_ready(&self) -> bool {
        let is_first = self.is_first || planted(Mutant::LinesOutOfOrder);
        !self.started && is_first && !self.write.held && self.write.after.is_empty()
    }
}

/// Requests are started by this: whether its row has to be opened, its age; and where it is.
type Rank = (bool, (Time, Id), usize);

/// The writes that may start.
#[derive(Default)]
struct Survey {
    ready: usize,
    /// One of them is older than the bound.
    old: bool,
    /// The one to start now.
    first: Option<Rank>,
    /// When the first bank is free that another one waits for.
    free: Option<Time>,
}

/// What a channel has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of the array, and those that the queue answered.
    pub reads: u64,
    /// See `reads`.
    pub forwarded: u64,
    /// Writes of the array.
    pub writes: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
}

/// A memory controller.
#[derive(Clone, Debug)]
pub struct Controller {
    timing: Timing,
    queue: Queue,
    banks: Banks,
    reads: Vec<Waiting>,
    writes: VecDeque<Entry>,
    /// Writes without a slot, in their order.
    outside: VecDeque<Entry>,
    /// What is under way, by when it is over, and then by age.
    under_way: Agenda<(Time, Id), ()>,
    /// Writes that took another's place, and whose.
    merged: Vec<(Id, Id)>,
    /// What finished reads have seen in the queue.
    seen: Vec<(Id, Option<LineWords>)>,
    /// When it decides next; `None`: when something arrives.
    decides: Option<Time>,
    bus_free: Time,
    draining: bool,
    counts: Counts,
}

impl Controller {
    /// An idle one.
    ///
    /// # Panics
    /// Without a bank, a line in a row, or eight slots.
    pub fn new(timing: Timing, queue: Queue) -> Controller {
        assert!(queue.slots >= 8, "an eighth of the slots are kept for logs");
        Controller {
            timing,
            queue,
            banks: Banks::new(&timing),
            reads: Vec::new(),
            writes: VecDeque::new(),
            outside: VecDeque::new(),
            under_way: Agenda::new(),
            merged: Vec::new(),
            seen: Vec::new(),
            decides: None,
            bus_free: 0,
            draining: false,
            counts: Counts::default(),
        }
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes that have a slot, and those that wait for one.
    pub fn queued(&self) -> (usize, usize) {
        (self.writes.len(), self.outside.len())
    }

    /// A read arrives.
    pub fn read(&mut self, now: Time, id: Id, line: Line) {
        let youngest = self.youngest(line).filter(|_| !planted(Mutant::ForwardingOff));
        if let Some(payload) = youngest {
            self.counts.forwarded += 1;
            self.seen.push((id, Some(payload)));
            self.under_way.add((now + self.timing.forward, id), ());
            return;
        }
        self.reads.push(Waiting { id, line, place: self.banks.place(line), arrived: now });
        self.wake(now);
    }

    /// What the youngest write of a line has that is not over.
    pub fn youngest(&self, line: Line) -> Option<LineWords> {
        // What has no slot has left its sender all the same: the channel keeps the order.
        let mut youngest = self.outside.iter().rev().chain(self.writes.iter().rev());
        youngest.find(|entry| entry.write.line == line).map(|entry| entry.write.payload)
    }

    /// A read of what the array has, whatever is queued, arrives.
    pub fn read_array(&mut self, now: Time, id: Id, line: Line) {
        self.reads.push(Waiting { id, line, place: self.banks.place(line), arrived: now });
        self.wake(now);
    }

    /// A write arrives; [`Event::Accepted`] or [`Event::Merged`] tells when it has a slot.
    pub fn write(&mut self, now: Time, id: Id, write: Write) {
        // Only the youngest of its line: what came between would otherwise be written later.
        let of_line = |entry: &&mut Entry| entry.write.line == write.line;
        let waits = self.outside.iter().any(|entry| entry.write.line == write.line);
        let youngest = self.writes.iter_mut().rev().find(of_line).filter(|_| !waits);
        let may_merge = |entry: &&mut Entry| {
            let Entry { started, write: Write { held, owner, .. }, .. } = **entry;
            held && !started && owner == write.owner && owner != 0
        };
        if write.held
            && let Some(entry) = youngest.filter(may_merge)
        {
            entry.write.payload = write.payload;
            self.merged.push((id, entry.id));
        } else {
            let (place, started, is_first) = (self.banks.place(write.line), false, false);
            self.outside.push_back(Entry { id, place, arrived: now, started, is_first, write });
        }
        self.wake(now);
    }

    /// Writes of an owner are no longer held.
    pub fn release_owner(&mut self, now: Time, owner: u64) {
        let entries = self.writes.iter_mut().chain(&mut self.outside);
        entries.filter(|it| it.write.owner == owner).for_each(|it| it.write.held = false);
        self.wake(now);
    }

    /// A write that has a slot.
    pub fn queued_write(&self, id: Id) -> Option<&Write> {
        self.writes.iter().find(|entry| entry.id == id).map(|entry| &entry.write)
    }

    /// Slots whose writes are held.
    pub fn held(&self) -> usize {
        self.writes.iter().filter(|entry| entry.write.held).count()
    }

    /// Held writes that wait for a slot.
    pub fn held_outside(&self) -> usize {
        self.outside.iter().filter(|entry| entry.write.held).count()
    }

    /// The oldest write that is held, has no older one of its line before it, and is none of these.
    pub fn oldest_held(&self, but: &[Id]) -> Option<(Id, &Write)> {
        let mut held = self.writes.iter().filter(|entry| entry.write.held && entry.is_first);
        let oldest = held.find(|entry| !but.contains(&entry.id));
        oldest.map(|entry| (entry.id, &entry.write))
    }

    /// A write is no longer held.
    pub fn release(&mut self, now: Time, id: Id) {
        let entries = self.writes.iter_mut().chain(&mut self.outside);
        entries.filter(|entry| entry.id == id).for_each(|entry| entry.write.held = false);
        self.wake(now);
    }

    /// A write is durable in another channel.
    pub fn durable_elsewhere(&mut self, now: Time, id: Id) {
        self.resolve(id);
        self.wake(now);
    }

    /// It decides when the bus is free.
    fn wake(&mut self, now: Time) {
        let soon = now.max(self.bus_free);
        self.decides = Some(self.decides.map_or(soon, |at| at.min(soon)));
    }

    /// When it has something to do or to tell.
    pub fn next(&self) -> Option<Time> {
        let told = self.under_way.first().map(|(at, _)| at);
        told.into_iter().chain(self.decides).min()
    }

    /// Does and tells what there is at this moment, which [`next`](Controller::next) has named.
    pub fn run(&mut self, now: Time, tell: &mut impl FnMut(Event)) {
        while let Some((at, id)) = self.under_way.first()
            && at <= now
        {
            self.under_way.take_first();
            self.is_over(id, tell);
            // What has waited for it, or for its slot, may go.
            self.wake(now);
        }
        for (id, into) in self.merged.drain(..) {
            tell(Event::Merged { id, into });
        }
        self.let_in(now, tell);
        if self.decides.is_some_and(|at| at <= now) {
            self.decides = self.decide(now);
        }
    }

    /// What was under way is over.
    fn is_over(&mut self, id: Id, tell: &mut impl FnMut(Event)) {
        if let Some(at) = self.seen.iter().position(|(read, _)| *read == id) {
            let (id, forwarded) = self.seen.swap_remove(at);
            return tell(Event::Read { id, forwarded });
        }
        let at = self.writes.iter().position(|entry| entry.id == id);
        let entry = at.and_then(|at| self.writes.remove(at)).expect("a write is over once");
        let Write { line, payload, class, .. } = entry.write;
        if let Some(next) = self.writes.iter_mut().find(|entry| entry.write.line == line) {
            next.is_first = true;
        }
        self.resolve(id);
        tell(Event::Durable { id, line, payload, class });
    }

    fn resolve(&mut self, durable: Id) {
        for entry in self.writes.iter_mut().chain(&mut self.outside) {
            entry.write.after.retain(|id| *id != durable);
        }
    }

    /// Gives slots to writes that wait, oldest first. Where all but the kept slots are taken, what
    /// may have one of these passes what may not, and nothing else passes anything.
    fn let_in(&mut self, now: Time, tell: &mut impl FnMut(Event)) {
        if self.outside.is_empty() {
            return;
        }
        let Queue { slots, .. } = self.queue;
        let unkept = super::description::unkept(slots);
        let others = self.writes.iter().filter(|entry| !entry.write.may_have_kept());
        let (mut others, before) = (others.count(), self.writes.len());
        let mut at = 0;
        while at < self.outside.len() && self.writes.len() < slots {
            let write = &self.outside[at].write;
            let (line, is_other) = (write.line, !write.may_have_kept());
            let is_oldest = |other: &Entry| other.write.line != line;
            if write.stays_outside()
                || is_other && others >= unkept
                || !self.outside.range(..at).all(is_oldest)
            {
                at += 1;
                continue;
            }
            let mut entry = self.outside.remove(at).expect("it is there");
            entry.is_first = self.writes.iter().all(|other| other.write.line != line);
            tell(Event::Accepted { id: entry.id });
            self.writes.push_back(entry);
            others += usize::from(is_other);
        }
        if self.writes.len() > before {
            self.wake(now);
        }
    }

    /// Starts a request, if one can start. Answers when to decide again.
    fn decide(&mut self, now: Time) -> Option<Time> {
        let writes = self.survey_writes(now);
        let slots = self.queue.slots;
        self.draining = match self.draining {
            true => 2 * writes.ready > slots,
            false => 5 * writes.ready >= 4 * slots,
        };
        let writes_first = self.draining || self.reads.is_empty() || writes.old;
        let (read, reads_free) = self.first_read(now);
        let starves = |(_, (arrived, _), _): &Rank| arrived + self.queue.age <= now;
        match (writes.first, read) {
            (_, Some(read)) if starves(&read) => self.start_read(now, read.2),
            (Some((_, _, write)), _) if writes_first => self.start_write(now, write),
            (_, Some((_, _, read))) => self.start_read(now, read),
            _ => {
                let writes_free = writes.free.filter(|_| writes_first);
                return reads_free.into_iter().chain(writes_free).min();
            }
        }
        self.bus_free = now + self.timing.burst;
        Some(self.bus_free)
    }

    /// What there is to write.
    fn survey_writes(&self, now: Time) -> Survey {
        let mut survey = Survey::default();
        for (at, entry) in self.writes.iter().enumerate() {
            let Entry { id, place, arrived, .. } = *entry;
            if !entry.is_ready() || self.is_read_before(entry.write.line, id) {
                continue;
            }
            survey.ready += 1;
            survey.old |= arrived + self.queue.age <= now;
            let free = self.banks.free(place);
            if free <= now {
                let age = match planted(Mutant::LinesOutOfOrder) {
                    true => (0, Id::MAX - id),
                    false => (arrived, id),
                };
                let rank = (!self.banks.is_open(place), age, at);
                survey.first = Some(survey.first.map_or(rank, |first| first.min(rank)));
            } else {
                survey.free = Some(survey.free.map_or(free, |first| first.min(free)));
            }
        }
        survey
    }

    /// Whether a read of the line waits that came before this write.
    fn is_read_before(&self, line: Line, write: Id) -> bool {
        let is_before = |read: &Waiting| read.line == line && read.id < write;
        !planted(Mutant::WriteOvertakes) && self.reads.iter().any(is_before)
    }

    /// The read to start now, and when the first bank is free that another one waits for.
    fn first_read(&self, now: Time) -> (Option<Rank>, Option<Time>) {
        let (mut first, mut earliest): (Option<Rank>, Option<Time>) = (None, None);
        for (at, &Waiting { id, place, arrived, .. }) in self.reads.iter().enumerate() {
            let free = self.banks.free(place);
            if free <= now {
                let rank = (!self.banks.is_open(place), (arrived, id), at);
                first = Some(first.map_or(rank, |first| first.min(rank)));
            } else {
                earliest = Some(earliest.map_or(free, |first| first.min(free)));
            }
        }
        (first, earliest)
    }

    fn start_read(&mut self, now: Time, at: usize) {
        let Waiting { id, place, .. } = self.reads.swap_remove(at);
        let Timing { read_hit, read_miss, burst, .. } = self.timing;
        let is_open = self.banks.is_open(place);
        let there = now + if is_open { read_hit } else { read_miss };
        self.banks.take(place, there);
        self.counts.row_hits += u64::from(is_open);
        self.counts.reads += 1;
        self.seen.push((id, None));
        self.under_way.add((there + burst, id), ());
    }

    fn start_write(&mut self, now: Time, at: usize) {
        let entry = &mut self.writes[at];
        entry.started = true;
        let Entry { id, place, .. } = *entry;
        let Timing { burst, write_hit, write_miss, .. } = self.timing;
        let is_open = self.banks.is_open(place);
        let over = now + burst + if is_open { write_hit } else { write_miss };
        self.banks.take(place, over);
        self.counts.row_hits += u64::from(is_open);
        self.counts.writes += 1;
        self.under_way.add((over, id), ());
    }
}

mod banks;
#[cfg(test)]
mod tests;
