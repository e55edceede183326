//! The metadata journal: durable records of pages' committed bits, written a line at a time.
//!
//! ```text
//!   tail ... | A A A' - | B B B B | B' - - - | ... head       ' the last record of a transaction
//! ```
//! The controller appends all records of a transaction at once and starts to write their lines.
//! They share the last line if it has room for all of them and is not being written. Otherwise they
//! take new lines. No commit therefore waits for another one's line, and none takes more lines than
//! its records need.
//!
//! Records of consolidated pages have no waiter. They stay in the controller's buffer until a
//! commit's line has room for them, they fill a line, or a core requests one of their pages. At
//! most three are buffered, whatever the transactions do. (In the paper, records are written when
//! their buffer is full, or on request.)
//!
//! Invariants:
//! - Groups complete in the order of their appends, each when its own lines and those of all
//!   earlier groups are durable. Recovery reads up to the first missing line.
//! - A group's number is its predecessor's plus one. A rewritten line may survive in its older
//!   version while the next line is durable; the numbers then show the missing group.
//! - A record holds the full state of a slot, including earlier transactions' changes. Groups are
//!   therefore never interleaved: recovery would find a part of one group in another.
//! - A line is reused only after the tail has passed it.

use std::collections::VecDeque;

use super::Ssp;
use super::layout::{RECORDS, Record};
use super::{COMMIT_TAG, ROOM, finished};
use crate::machine::controller::{Class, Write};
use crate::machine::memory::LineWords;
use crate::machine::when::Time;
use crate::machine::{Machine, Notify};
use crate::mutants::{Mutant, injected};

/// The origin of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A core's transaction.
    Core(usize),
    /// Consolidated pages.
    Pages,
}

/// A record and its position.
pub(super) type Placed = (Record, u64);

/// A group of records that become durable together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) origin: Origin,
    /// The records with their positions.
    pub(super) records: Vec<Placed>,
    /// The time of the append, and the lines that it took.
    pub(super) since: Time,
    pub(super) lines: usize,
    /// Lines that are being written.
    left: usize,
}

/// State of the journal.
#[derive(Debug)]
pub(super) struct Journal {
    /// Lines of the journal.
    capacity: u32,
    /// The first line that is needed, and the first unused one.
    pub(super) tail: u64,
    pub(super) head: u64,
    /// The contents and the records of the line before `head`, if more records may be added.
    begun: Option<(LineWords, usize)>,
    /// Groups that are not durable, oldest first, and the number of the first.
    groups: VecDeque<Group>,
    first: u64,
    /// Records that wait for room, and since when.
    pub(super) waiting: VecDeque<(Origin, Vec<Record>, Time)>,
    /// Buffered records of consolidated pages, too few for a line.
    buffered: VecDeque<Record>,
    number: u8,
}

impl Journal {
    pub(super) fn new(capacity: u32) -> Journal {
        Journal {
            capacity,
            tail: 0,
            head: 0,
            begun: None,
            groups: VecDeque::new(),
            first: 0,
            waiting: VecDeque::new(),
            buffered: VecDeque::new(),
            number: 0,
        }
    }

    /// Lines in use.
    pub(super) fn used(&self) -> u64 {
        self.head - self.tail
    }

    /// Returns the number of the next group.
    pub(super) fn next_group(&self) -> u64 {
        self.first + self.groups.len() as u64
    }

    /// Whether all groups before this one are durable.
    pub(super) fn is_durable(&self, group: u64) -> bool {
        self.first >= group
    }

    /// Closes the last line, so that the next records take a new one.
    pub(super) fn end_line(&mut self) {
        self.begun = None;
    }

    /// Whether records wait for room.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiting.front().is_some_and(|(_, records, _)| !self.has_room(records.len()))
    }

    /// Whether `records` records have room.
    fn has_room(&self, records: usize) -> bool {
        self.used() + records.div_ceil(RECORDS) as u64 <= u64::from(self.capacity)
    }

    /// Places records in lines. Returns their positions, and the lines with their numbers.
    fn fill(&mut self, records: &[Record]) -> (Vec<Placed>, Vec<(u64, LineWords)>) {
        let may = |(_, used): &(LineWords, usize)| used + records.len() <= RECORDS;
        // A line that is being written must not change.
        let is_written = !self.groups.is_empty();
        let (mut words, mut used) = match self.begun.take().filter(|it| may(it) && !is_written) {
            Some(begun) => begun,
            None => {
                self.head += 1;
                ([0; 8], 0)
            }
        };
        let (mut placed, mut lines) = (Vec::new(), Vec::new());
        for record in records {
            if used == RECORDS {
                lines.push((self.head - 1, words));
                self.head += 1;
                (words, used) = ([0; 8], 0);
            }
            let line = self.head - 1;
            words[2 * used..][..2].copy_from_slice(&record.words(line, self.capacity));
            used += 1;
            placed.push((*record, line * RECORDS as u64 + used as u64));
        }
        lines.push((self.head - 1, words));
        self.begun = Some((words, used));
        (placed, lines)
    }

    /// Adds buffered records of consolidated pages to the room in the last line. Returns their
    /// positions.
    fn fill_up(&mut self) -> Vec<Placed> {
        let room = self.begun.map_or(0, |(_, used)| RECORDS - used);
        let records = self.buffered.drain(..room.min(self.buffered.len())).collect();
        let records = self.mark(records);
        let (line, capacity) = (self.head.saturating_sub(1), self.capacity);
        let mut placed = Vec::new();
        for record in records {
            let (words, used) = self.begun.as_mut().expect("the last line has room");
            words[2 * *used..][..2].copy_from_slice(&record.words(line, capacity));
            *used += 1;
            placed.push((record, line * RECORDS as u64 + *used as u64));
        }
        placed
    }

    /// Numbers the records of a group, and marks the last one.
    fn mark(&mut self, mut records: Vec<Record>) -> Vec<Record> {
        let count = records.len();
        self.number = self.number.wrapping_add(u8::from(count > 0));
        for (at, record) in records.iter_mut().enumerate() {
            (record.last, record.number) = (at + 1 == count, self.number);
        }
        records
    }
}

/// Appends a group of records. [`finished`] runs when they are durable.
pub(super) fn append(machine: &mut Machine<Ssp>, origin: Origin, records: Vec<Record>) {
    if records.len().div_ceil(RECORDS) > machine.design.journal.capacity as usize {
        return machine.fail("a transaction's records do not fit into the journal: make it larger");
    }
    let now = machine.now();
    machine.design.journal.waiting.push_back((origin, records, now));
    append_waiting(machine);
}

/// Appends records of consolidated pages once they fill a line. Each append forms a group, with one
/// mark. Every record could stand alone, since it holds the full state of an unused slot.
/// [`finished`] runs once per group.
pub(super) fn append_buffered(machine: &mut Machine<Ssp>, records: Vec<Record>) {
    let journal = &mut machine.design.journal;
    journal.buffered.extend(records);
    let full = journal.buffered.len() / RECORDS * RECORDS;
    append_pages(machine, full);
}

/// Appends all buffered records of consolidated pages, because a core waits for one of the pages.
pub(super) fn expedite(machine: &mut Machine<Ssp>) {
    let all = machine.design.journal.buffered.len();
    append_pages(machine, all);
}

/// Appends `count` buffered records of consolidated pages.
fn append_pages(machine: &mut Machine<Ssp>, count: usize) {
    if count > 0 {
        let records = machine.design.journal.buffered.drain(..count).collect();
        append(machine, Origin::Pages, records);
    }
}

/// Appends the groups that wait for room, as far as room allows.
pub(super) fn append_waiting(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    loop {
        let journal = &mut machine.design.journal;
        let Some((_, records, _)) = journal.waiting.front() else { return };
        if !journal.has_room(records.len()) {
            return super::checkpoint::begin_if_due(machine);
        }
        let (origin, records, waited) =
            journal.waiting.pop_front().expect("the queue is not empty");
        let records = journal.mark(records);
        let (records, mut lines) = journal.fill(&records);
        let tag = COMMIT_TAG | journal.next_group();
        let (since, left) = (now, lines.len());
        journal.groups.push_back(Group { origin, records, since, lines: left, left });
        let records = journal.fill_up();
        if let (Some(line), Some((words, _))) = (lines.last_mut(), journal.begun)
            && !records.is_empty()
        {
            // The group before them waits for the same line, so they need no write of their own.
            line.1 = words;
            journal.groups.push_back(Group {
                origin: Origin::Pages,
                records,
                since,
                lines: 0,
                left: 0,
            });
        }
        if waited < now {
            machine.rare(ROOM, waited, now);
        }
        machine.counts.add("journal_lines", left as u64);
        for (line, words) in lines {
            let line = machine.design.layout.journal.line(line);
            let write = Write::new(u64::from(line), words, Class::Journal);
            machine.log(0, write, Notify::Design(0, tag));
        }
        super::checkpoint::begin_if_due(machine);
    }
}

/// Notes that a line of this group is durable, and completes groups in order.
pub(super) fn is_written(machine: &mut Machine<Ssp>, group: u64) {
    let journal = &mut machine.design.journal;
    // Only an injected bug completes a group before its lines are written.
    let Some(at) = group.checked_sub(journal.first).map(|at| at as usize) else { return };
    journal.groups[at].left -= 1;
    if journal.groups[at].left == 0 && injected(Mutant::SspOwnLinesOnly) {
        journal.groups.range_mut(..at).for_each(|before| before.left = 0);
    }
    while machine.design.journal.groups.front().is_some_and(|group| group.left == 0) {
        let group = machine.design.journal.groups.pop_front().expect("the queue is not empty");
        machine.design.journal.first += 1;
        finished(machine, group);
    }
    super::checkpoint::go_on(machine);
}
