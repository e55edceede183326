//! The metadata journal: what pages' committed bits become, a line at a time, and who waits for it.
//!
//! ```text
//!   tail ... | A A A' - | B B B B | B' - - - | ... head       ' the last record of a transaction
//! ```
//! The controller appends all records of a transaction at once, and begins to write their lines.
//! They go into the line that is begun if that has room for all of them and is not being written;
//! else into lines of their own: no commit waits for another one's line, and none takes more lines
//! than its records need.
//!
//! Nobody waits for the records of pages that were brought together: they stay in the controller's
//! buffer until a commit's line has room for them, a line is full of them, or somebody asks for one
//! of their pages. So there are three at most, whatever transactions are like: pages are brought
//! together while the records of others wait. (The paper: records are written when their buffer is
//! full, or when asked for.)
//!
//! Invariants:
//! - Groups of records are done in the order in which they were appended, each when its own lines
//!   and those of all before it are durable: recovery reads up to the first line that is not there.
//!   A group's number is that of the one before it plus one: where a line that was written again is
//!   there as it was before, and the next line is too, recovery sees that one is missing.
//! - A record says all of a slot, of transactions before it too. So a group is never split by
//!   another one: recovery would find a part of the first in the second.
//! - A line is written again when the tail has passed it.

use std::collections::VecDeque;

use super::Ssp;
use super::layout::{RECORDS, Record};
use super::{COMMIT_TAG, ROOM, finished};
use crate::machine::controller::{Class, Write};
use crate::machine::memory::LineWords;
use crate::machine::when::Time;
use crate::machine::{Machine, Tell};
use crate::mutants::{Mutant, planted};

/// Whose records they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A core's transaction.
    Core(usize),
    /// Pages that were brought together.
    Pages,
}

/// A record and its place.
pub(super) type Placed = (Record, u64);

/// Records that belong together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) whose: Whose,
    /// The records with their places.
    pub(super) records: Vec<Placed>,
    /// When they were appended, and how many lines they took.
    pub(super) since: Time,
    pub(super) lines: usize,
    /// Lines that are being written.
    left: usize,
}

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    /// Lines that there is room for.
    capacity: u32,
    /// The first line that is needed, and the first one that is not begun.
    pub(super) tail: u64,
    pub(super) head: u64,
    /// The line before `head`, as far as it was filled, if more may be added; and its records.
    begun: Option<(LineWords, usize)>,
    /// Groups that are not durable, oldest first; the first one's number.
    groups: VecDeque<Group>,
    first: u64,
    /// Records that wait for room, and since when.
    pub(super) waiting: VecDeque<(Whose, Vec<Record>, Time)>,
    /// Records of pages that nobody waits for: too few for a line.
    patient: VecDeque<Record>,
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
            patient: VecDeque::new(),
            number: 0,
        }
    }

    /// Lines that are in use.
    pub(super) fn used(&self) -> u64 {
        self.head - self.tail
    }

    /// The number of the next group.
    pub(super) fn next_group(&self) -> u64 {
        self.first + self.groups.len() as u64
    }

    /// Whether all groups before this one are durable.
    pub(super) fn is_durable(&self, group: u64) -> bool {
        self.first >= group
    }

    /// What comes next goes into a line of its own.
    pub(super) fn end_line(&mut self) {
        self.begun = None;
    }

    /// Whether records wait for room.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiting.front().is_some_and(|(_, records, _)| !self.has_room(records.len()))
    }

    /// Whether so many records have room.
    fn has_room(&self, records: usize) -> bool {
        self.used() + records.div_ceil(RECORDS) as u64 <= u64::from(self.capacity)
    }

    /// Puts records into lines. Answers their places, and the lines with their numbers.
    fn fill(&mut self, records: &[Record]) -> (Vec<Placed>, Vec<(u64, LineWords)>) {
        let may = |(_, used): &(LineWords, usize)| used + records.len() <= RECORDS;
        // A line that is being written stays as it is.
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

    /// Puts records that nobody waits for where the line that is begun has room. Answers their
    /// places.
    fn fill_up(&mut self) -> Vec<Placed> {
        let room = self.begun.map_or(0, |(_, used)| RECORDS - used);
        let records = self.patient.drain(..room.min(self.patient.len())).collect();
        let records = self.mark(records);
        let (line, capacity) = (self.head.saturating_sub(1), self.capacity);
        let mut placed = Vec::new();
        for record in records {
            let (words, used) = self.begun.as_mut().expect("it has room");
            words[2 * *used..][..2].copy_from_slice(&record.words(line, capacity));
            *used += 1;
            placed.push((record, line * RECORDS as u64 + *used as u64));
        }
        placed
    }

    /// Marks the last one of records that belong together, and all of them as such.
    fn mark(&mut self, mut records: Vec<Record>) -> Vec<Record> {
        let count = records.len();
        self.number = self.number.wrapping_add(u8::from(count > 0));
        for (at, record) in records.iter_mut().enumerate() {
            (record.last, record.number) = (at + 1 == count, self.number);
        }
        records
    }
}

/// Appends records that belong together; the last one of them is marked so. When they are durable
/// [`finished`] is told.
pub(super) fn append(machine: &mut Machine<Ssp>, whose: Whose, records: Vec<Record>) {
    if records.len().div_ceil(RECORDS) > machine.design.journal.capacity as usize {
        return machine.fail("a transaction's records do not fit into the journal: make it larger");
    }
    let now = machine.now();
    machine.design.journal.waiting.push_back((whose, records, now));
    append_waiting(machine);
}

/// Appends records of pages that were brought together, when there is a line for them. Those that
/// are appended at a time are a group, with one mark; any of them could stand alone, since each
/// says all of a slot that nobody uses. [`finished`] is told of a group at a time.
pub(super) fn append_patiently(machine: &mut Machine<Ssp>, records: Vec<Record>) {
    let journal = &mut machine.design.journal;
    journal.patient.extend(records);
    let full = journal.patient.len() / RECORDS * RECORDS;
    append_pages(machine, full);
}

/// Somebody waits for pages that are being brought together.
pub(super) fn hurry(machine: &mut Machine<Ssp>) {
    let all = machine.design.journal.patient.len();
    append_pages(machine, all);
}

/// Appends as many records of pages.
fn append_pages(machine: &mut Machine<Ssp>, count: usize) {
    if count > 0 {
        let records = machine.design.journal.patient.drain(..count).collect();
        append(machine, Whose::Pages, records);
    }
}

/// Appends what has waited, as far as there is room.
pub(super) fn append_waiting(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    loop {
        let journal = &mut machine.design.journal;
        let Some((_, records, _)) = journal.waiting.front() else { return };
        if !journal.has_room(records.len()) {
            return super::checkpoint::begin_if_due(machine);
        }
        let (whose, records, waited) = journal.waiting.pop_front().expect("it is there");
        let records = journal.mark(records);
        let (records, mut lines) = journal.fill(&records);
        let tag = COMMIT_TAG | journal.next_group();
        let (since, left) = (now, lines.len());
        journal.groups.push_back(Group { whose, records, since, lines: left, left });
        let records = journal.fill_up();
        if let (Some(line), Some((words, _))) = (lines.last_mut(), journal.begun)
            && !records.is_empty()
        {
            // They are in the line that is waited for by those before them.
            line.1 = words;
            journal.groups.push_back(Group {
                whose: Whose::Pages,
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
            machine.log(0, write, Tell::Design(0, tag));
        }
        super::checkpoint::begin_if_due(machine);
    }
}

/// A line of this group is durable.
pub(super) fn is_written(machine: &mut Machine<Ssp>, group: u64) {
    let journal = &mut machine.design.journal;
    // Only a planted bug ends a group before its lines are written.
    let Some(at) = group.checked_sub(journal.first).map(|at| at as usize) else { return };
    journal.groups[at].left -= 1;
    if journal.groups[at].left == 0 && planted(Mutant::SspOwnLinesOnly) {
        journal.groups.range_mut(..at).for_each(|before| before.left = 0);
    }
    while machine.design.journal.groups.front().is_some_and(|group| group.left == 0) {
        let group = machine.design.journal.groups.pop_front().expect("it is there");
        machine.design.journal.first += 1;
        finished(machine, group);
    }
    super::checkpoint::go_on(machine);
}
