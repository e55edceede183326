//! The memory controller of one channel: it decides at each event which request its banks serve
//! next.
//!
//! ```text
//!   read   ------------------------------> reads  --\
//!                                                     one of them at a time -> bank, bus
//!   write  -> waiting, if there is no room -> writes --/
//!             accepted: it has a slot                          durable: the array has it
//! ```
//!
//! The controller reserves nothing in advance. It chooses among the commands that could be issued
//! now, and only then takes the bank and the bus. A request needs its row to be open: an activation
//! opens it. Then a column command transfers the line. Requests to an open row come first, then the
//! oldest. A row stays open while a request waits for it, but no longer than the age bound of a
//! request for another row of its bank. The module `banks` has the constraints between commands.
//!
//! - Reserving the bus for a write whose bank is busy makes a convoy: other banks idle after it.
//! - Reserving the bus at the write's end admits more than the bus can carry.
//!
//! Reads have priority over writes. Writes have priority in three cases:
//!
//! - No read is waiting.
//! - The queue has reached four fifths of its slots, until it has fallen to half of them.
//! - A write is older than a bound, so that no write waits forever.
//!
//! While writes have priority and none can start, reads continue in banks without a waiting write.
//! Reads stop when a write waits for nothing but the channel's turnaround, because each read would
//! postpone it.
//! A read older than the bound goes before writes, because a bank under an endless stream of writes
//! would never serve it.
//!
//! Invariants:
//! - Writes of one line start in the order of arrival. A read returns the youngest write that
//!   arrived before it, and none that arrived after it.
//! - A write with dependencies starts when those are durable.
//! - Slots go to the oldest write first, of whatever class. The last eighth of them is reserved for
//!   log and journal writes without dependencies. Otherwise data would fill the queue while the log
//!   that they wait for stood outside. A write that frees log or journal space (Log Start, a
//!   checkpoint) counts as one: data wait for their log, the log for space, and the space for it.
//! - A held (speculative) write starts after its release, and never triggers draining. A younger
//!   write of the same line and owner replaces it. A held write without an owner waits for its log
//!   and has no slot before its release: with battery-backed slots, the write would survive a power
//!   failure that its log does not.
//! - A write does not start before a read of its line that arrived earlier.
//!
//! The caller runs [`Controller::run`] at each time that [`Controller::next`] returns, and skips
//! none. (Rixner and others, *Memory Access Scheduling*, ISCA 2000.)

use std::collections::VecDeque;

use super::agenda::Agenda;
use super::memory::LineWords;
use super::when::Time;
use crate::mutants::{Mutant, injected};
use banks::{Banks, Place};
pub use counts::{BankCounts, Counts, QueueCounts};
use schedule::Scratch;
pub use timing::{Line, Timing};

/// A request identifier. Younger requests have larger identifiers.
pub type Id = u64;

/// The parameters of a controller's write queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The number of slots.
    pub slots: usize,
    /// The age bound. An older write gives writes priority; an older read goes before writes.
    pub age: Time,
}

/// The purpose of a write, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Lines of the program.
    Data,
    /// Records of a log.
    LogData,
    /// Metadata that identifies the records.
    LogMeta,
    /// A commit record.
    CommitRecord,
    /// A metadata journal.
    Journal,
    /// Copies that consolidate a page's lines.
    Consolidation,
    /// Metadata that the journal need not keep after this write.
    Checkpoint,
    /// Old values of lines, from a controller without room for the new ones.
    UndoFallback,
    /// Any other purpose.
    Other,
}

/// The number of write classes.
pub const CLASSES: usize = Class::Other as usize + 1;

impl Class {
    /// Returns the name in reports and traces.
    pub fn name(self) -> &'static str {
        match self {
            Class::Data => "data",
            Class::LogData => "log_data",
            Class::LogMeta => "log_meta",
            Class::CommitRecord => "commit_record",
            Class::Journal => "journal",
            Class::Consolidation => "consolidation",
            Class::Checkpoint => "checkpoint",
            Class::UndoFallback => "undo_fallback",
            Class::Other => "other",
        }
    }

    /// Returns whether other writes depend on this class, or on the log space that it frees.
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

/// A write request.
#[derive(Clone, Debug)]
pub struct Write {
    /// The target line.
    pub line: Line,
    /// The value.
    pub payload: LineWords,
    /// The purpose.
    pub class: Class,
    /// Writes that must be durable before this one starts.
    pub after: Vec<Id>,
    /// The write starts only after its [release](Controller::release). Without an owner, it has no
    /// slot before that.
    pub held: bool,
    /// The transaction of the write, if that matters; 0 for none.
    pub owner: u64,
}

impl Write {
    /// Returns a write without dependencies or owner.
    pub fn new(line: Line, payload: LineWords, class: Class) -> Write {
        Write { line, payload, class, after: Vec::new(), held: false, owner: 0 }
    }

    /// Returns whether the write may use a reserved slot.
    fn may_have_kept(&self) -> bool {
        self.class.is_log() && self.after.is_empty()
    }

    /// Returns whether the write waits outside even when slots are free.
    fn stays_outside(&self) -> bool {
        self.held && self.owner == 0 && !injected(Mutant::HeldHasSlot)
    }
}

/// A notification from a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read has completed, with the value of a queued write if one was forwarded.
    Read {
        /// The read.
        id: Id,
        /// The forwarded value; `None` for the array's value.
        forwarded: Option<LineWords>,
    },
    /// A write has a slot.
    Accepted {
        /// The write.
        id: Id,
    },
    /// A write has replaced a held one of the same line and owner.
    Merged {
        /// The write.
        id: Id,
        /// The replaced write, whose slot it takes.
        into: Id,
    },
    /// The array has the write, and its slot is free.
    Durable {
        /// The write.
        id: Id,
        /// The line.
        line: Line,
        /// The value that the array has.
        payload: LineWords,
        /// The purpose.
        class: Class,
    },
}

/// A waiting read.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: Id,
    line: Line,
    place: Place,
    arrived: Time,
    /// A row was opened for the read.
    opened: bool,
}

/// A write in a slot or waiting for one.
#[derive(Clone, Debug)]
struct Entry {
    id: Id,
    place: Place,
    arrived: Time,
    /// A row was opened for the write.
    opened: bool,
    /// The write is in flight to the array.
    started: bool,
    /// No older write of its line has a slot.
    is_first: bool,
    write: Write,
}

impl Entry {
    fn is_ready(&self) -> bool {
        let is_first = self.is_first || injected(Mutant::LinesOutOfOrder);
        !self.started && is_first && !self.write.held && self.write.after.is_empty()
    }
}

/// A memory controller.
#[derive(Clone, Debug)]
pub struct Controller {
    timing: Timing,
    queue: Queue,
    banks: Banks,
    reads: Vec<Waiting>,
    writes: VecDeque<Entry>,
    /// Writes without a slot, in order of arrival.
    outside: VecDeque<Entry>,
    /// Accesses in flight, by completion time and then by age.
    in_flight: Agenda<(Time, Id), ()>,
    /// Writes that replaced a held one, and the replaced write.
    merged: Vec<(Id, Id)>,
    /// Values that completed reads return: a forwarded value, or `None` for the array's.
    seen: Vec<(Id, Option<LineWords>)>,
    /// The time of the next decision; `None` until a request arrives.
    decides: Option<Time>,
    draining: bool,
    counts: Counts,
    /// The time up to which `counts` has the queue's cycles.
    counted: Time,
    scratch: Scratch,
}

impl Controller {
    /// Returns an idle controller.
    ///
    /// # Panics
    /// When the timing has no banks or no lines per row, or the queue has fewer than eight slots.
    pub fn new(timing: Timing, queue: Queue) -> Controller {
        assert!(queue.slots >= 8, "an eighth of the slots is reserved for logs");
        Controller {
            timing,
            queue,
            banks: Banks::new(&timing),
            reads: Vec::new(),
            writes: VecDeque::new(),
            outside: VecDeque::new(),
            in_flight: Agenda::new(),
            merged: Vec::new(),
            seen: Vec::new(),
            decides: None,
            draining: false,
            counts: Controller::no_counts(&timing),
            counted: 0,
            scratch: Scratch::default(),
        }
    }

    fn no_counts(timing: &Timing) -> Counts {
        Counts { banks: vec![BankCounts::default(); timing.banks as usize], ..Counts::default() }
    }

    /// Returns the counters since the last restart.
    pub fn counts(&self, now: Time) -> Counts {
        let mut counts = self.counts.clone();
        counts.queue.pass(now - self.counted, self.queued(), self.draining);
        counts.refreshes = self.banks.refreshes() - self.counts.refreshes;
        counts
    }

    /// Restarts the counters.
    pub fn restart_counts(&mut self, now: Time) {
        let refreshes = self.banks.refreshes();
        self.counts = Counts { refreshes, ..Controller::no_counts(&self.timing) };
        self.counts.queue.most = self.writes.len() as u64;
        self.counted = now;
    }

    /// Counts the cycles since the queue's last change.
    fn pass(&mut self, now: Time) {
        let cycles = now - self.counted;
        self.counts.queue.pass(cycles, self.queued(), self.draining);
        self.counted = now;
    }

    /// Returns the number of writes in slots, and of those that wait for one.
    pub fn queued(&self) -> (usize, usize) {
        (self.writes.len(), self.outside.len())
    }

    /// Accepts a read.
    pub fn read(&mut self, now: Time, id: Id, line: Line) {
        let youngest = self.youngest(line).filter(|_| !injected(Mutant::ForwardingOff));
        if let Some(payload) = youngest {
            self.counts.forwarded += 1;
            self.seen.push((id, Some(payload)));
            self.in_flight.add((now + self.timing.forward, id), ());
            return;
        }
        self.add_read(now, id, line);
    }

    fn add_read(&mut self, now: Time, id: Id, line: Line) {
        let place = self.banks.place(line);
        self.reads.push(Waiting { id, line, place, arrived: now, opened: false });
        self.wake(now);
    }

    /// Returns the value of a line's youngest write that is not yet durable.
    pub fn youngest(&self, line: Line) -> Option<LineWords> {
        // A write without a slot counts too: the channel keeps its order of arrival.
        let mut youngest = self.outside.iter().rev().chain(self.writes.iter().rev());
        youngest.find(|entry| entry.write.line == line).map(|entry| entry.write.payload)
    }

    /// Accepts a read of the array's value, regardless of queued writes.
    pub fn read_array(&mut self, now: Time, id: Id, line: Line) {
        self.add_read(now, id, line);
    }

    /// Accepts a write; [`Event::Accepted`] or [`Event::Merged`] reports its slot.
    pub fn write(&mut self, now: Time, id: Id, write: Write) {
        self.pass(now);
        // Only the youngest write of the line may be replaced. Replacing an older one would let a
        // write in between overwrite the newer value.
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
            let (place, opened) = (self.banks.place(write.line), false);
            let (started, is_first) = (false, false);
            let entry = Entry { id, place, arrived: now, opened, started, is_first, write };
            self.outside.push_back(entry);
        }
        self.wake(now);
    }

    /// Releases all held writes of an owner.
    pub fn release_owner(&mut self, now: Time, owner: u64) {
        let entries = self.writes.iter_mut().chain(&mut self.outside);
        entries.filter(|it| it.write.owner == owner).for_each(|it| it.write.held = false);
        self.wake(now);
    }

    /// Returns a write that has a slot.
    pub fn queued_write(&self, id: Id) -> Option<&Write> {
        self.writes.iter().find(|entry| entry.id == id).map(|entry| &entry.write)
    }

    /// The number of slots with held writes.
    pub fn held(&self) -> usize {
        self.writes.iter().filter(|entry| entry.write.held).count()
    }

    /// The number of held writes that wait for a slot.
    pub fn held_outside(&self) -> usize {
        self.outside.iter().filter(|entry| entry.write.held).count()
    }

    /// Returns the oldest held write that is the first of its line and is not in `but`.
    pub fn oldest_held(&self, but: &[Id]) -> Option<(Id, &Write)> {
        let mut held = self.writes.iter().filter(|entry| entry.write.held && entry.is_first);
        let oldest = held.find(|entry| !but.contains(&entry.id));
        oldest.map(|entry| (entry.id, &entry.write))
    }

    /// Releases a held write.
    pub fn release(&mut self, now: Time, id: Id) {
        let entries = self.writes.iter_mut().chain(&mut self.outside);
        entries.filter(|entry| entry.id == id).for_each(|entry| entry.write.held = false);
        self.wake(now);
    }

    /// Resolves the dependencies on a write that is durable in another channel.
    pub fn durable_elsewhere(&mut self, now: Time, id: Id) {
        self.resolve(id);
        self.wake(now);
    }

    /// Schedules the next decision.
    fn wake(&mut self, now: Time) {
        self.decides = Some(self.decides.map_or(now, |at| at.min(now)));
    }

    /// Returns the time of the next completion or decision.
    pub fn next(&self) -> Option<Time> {
        let completes = self.in_flight.first().map(|(at, _)| at);
        completes.into_iter().chain(self.decides).min()
    }

    /// Completes accesses, admits writes and starts a request at `now`, a time that
    /// [`next`](Controller::next) has returned.
    pub fn run(&mut self, now: Time, notify: &mut impl FnMut(Event)) {
        self.pass(now);
        while let Some((at, id)) = self.in_flight.first()
            && at <= now
        {
            self.in_flight.take_first();
            self.is_over(now, id, notify);
        }
        for (id, into) in self.merged.drain(..) {
            self.counts.queue.merged += 1;
            notify(Event::Merged { id, into });
        }
        self.let_in(now, notify);
        if self.decides.is_some_and(|at| at <= now) {
            self.decides = self.decide(now);
        }
    }

    /// Completes an access.
    fn is_over(&mut self, now: Time, id: Id, notify: &mut impl FnMut(Event)) {
        if let Some(at) = self.seen.iter().position(|(read, _)| *read == id) {
            let (id, forwarded) = self.seen.swap_remove(at);
            return notify(Event::Read { id, forwarded });
        }
        let at = self.writes.iter().position(|entry| entry.id == id);
        let entry = at.and_then(|at| self.writes.remove(at)).expect("a write completes once");
        let Write { line, payload, class, .. } = entry.write;
        if let Some(next) = self.writes.iter_mut().find(|entry| entry.write.line == line) {
            next.is_first = true;
        }
        self.resolve(id);
        // Writes that wait for this one or for its slot may start.
        self.wake(now);
        notify(Event::Durable { id, line, payload, class });
    }

    fn resolve(&mut self, durable: Id) {
        for entry in self.writes.iter_mut().chain(&mut self.outside) {
            entry.write.after.retain(|id| *id != durable);
        }
    }

    /// Gives slots to waiting writes, oldest first. When only reserved slots are free, a write that
    /// may use them passes the others; otherwise no write passes another.
    fn let_in(&mut self, now: Time, notify: &mut impl FnMut(Event)) {
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
            // A write must not pass an older one of its line.
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
            self.counts.queue.waited += u64::from(entry.arrived < now);
            notify(Event::Accepted { id: entry.id });
            self.writes.push_back(entry);
            others += usize::from(is_other);
        }
        if self.writes.len() > before {
            self.counts.queue.most = self.counts.queue.most.max(self.writes.len() as u64);
            self.wake(now);
        }
    }
}

#[cfg(test)]
mod against_dramsim3;
mod banks;
mod counts;
mod schedule;
#[cfg(test)]
mod tests;
mod timing;
