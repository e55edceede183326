//! The choice of the next commands: see the rules at the head of [`controller`](super).

use super::banks::Place;
use super::timing::Line;
use super::{Controller, Entry, Id, Waiting};
use crate::machine::when::Time;
use crate::mutants::{Mutant, injected};

/// A request that waits for a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its index among the reads or the writes.
    at: usize,
    /// The smallest goes first.
    age: (Time, Id),
    arrived: Time,
    place: Place,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Write,
}

/// The priority of a command (row closed, then age), and its request; the smallest goes first.
type Command = ((bool, (Time, Id)), (Kind, usize));

/// The commands to issue now, and the earliest times of others.
#[derive(Debug, Default)]
struct Choice {
    column: Option<Command>,
    activation: Option<Command>,
    next_column: Option<Time>,
    next_activation: Option<Time>,
    /// A request of the first kind waits for no more than the channel's turnaround. A column
    /// command of the other kind would postpone it again.
    turns: bool,
}

fn earlier(time: Option<Time>, other: Time) -> Option<Time> {
    Some(time.map_or(other, |time| time.min(other)))
}

/// Buffers of a decision, which are reused.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    reads: Vec<Candidate>,
    writes: Vec<Candidate>,
    /// The last note that a decision has attached to banks.
    note: u64,
}

impl Controller {
    /// Issues a column command and an activation, if they can be issued now. Returns the time of
    /// the next decision.
    pub(super) fn decide(&mut self, now: Time) -> Option<Time> {
        self.banks.refresh(now);
        let mut scratch = std::mem::take(&mut self.scratch);
        let has_old = self.survey_writes(now, &mut scratch.writes);
        let (ready, slots) = (scratch.writes.len(), self.queue.slots);
        // Hysteresis: draining starts at four fifths of the slots and stops at half of them.
        self.draining = match self.draining {
            true => 2 * ready > slots,
            false => 5 * ready >= 4 * slots,
        };
        scratch.reads.clear();
        let reads = self.reads.iter().enumerate();
        scratch.reads.extend(reads.map(|(at, read)| {
            let Waiting { id, arrived, place, .. } = *read;
            Candidate { at, age: (arrived, id), arrived, place }
        }));
        let mut choice = Choice::default();
        let writes_first = self.draining || self.reads.is_empty() || has_old;
        let starves = || self.reads.iter().any(|read| read.arrived + self.queue.age <= now);
        let order: &[Kind] = match writes_first {
            true if starves() => &[Kind::Read, Kind::Write],
            true => &[Kind::Write, Kind::Read],
            false => &[Kind::Read],
        };
        let mut wanted = u64::MAX;
        let mut closing = [None; 2];
        for kind in order {
            let candidates = match kind {
                Kind::Read => &scratch.reads,
                Kind::Write => &scratch.writes,
            };
            scratch.note += 2;
            // The second kind leaves alone what an old request of the first waits for, too.
            closing = [closing[1], self.closing(now, *kind, candidates)];
            let notes = (wanted, scratch.note);
            self.choose(now, (*kind, candidates), closing, notes, &mut choice);
            if order.len() > 1 {
                wanted = scratch.note + 1;
                candidates.iter().for_each(|candidate| self.banks.note(candidate.place, wanted));
            }
        }
        self.scratch = scratch;
        self.issue(now, &choice)
    }

    /// Collects the writes that may start as far as the queue is concerned. Returns whether one of
    /// them is older than the bound.
    fn survey_writes(&self, now: Time, found: &mut Vec<Candidate>) -> bool {
        found.clear();
        let mut has_old = false;
        for (at, entry) in self.writes.iter().enumerate() {
            let Entry { id, place, arrived, .. } = *entry;
            if !entry.is_ready() || self.is_read_before(entry.write.line, id) {
                continue;
            }
            has_old |= arrived + self.queue.age <= now;
            let age = match injected(Mutant::LinesOutOfOrder) {
                true => (0, Id::MAX - id),
                false => (arrived, id),
            };
            found.push(Candidate { at, age, arrived, place });
        }
        has_old
    }

    /// Chooses commands for requests of a kind, where none has been chosen. The open rows of the
    /// banks `closing` are not accessed any more. `wanted` is the note of banks for which requests
    /// of the first kind wait; `hits` becomes the note of banks whose open row a request waits for.
    fn choose(
        &mut self,
        now: Time,
        (kind, candidates): (Kind, &[Candidate]),
        closing: [Option<u32>; 2],
        (wanted, hits): (u64, u64),
        choice: &mut Choice,
    ) {
        let is_whole = kind == Kind::Write && self.timing.write_keeps_bank;
        let (mut column, mut activation) = (None, None);
        let take = |command: &mut Option<Command>, next: &mut Option<Time>, from, new| {
            if from > now {
                *next = earlier(*next, from);
            } else if command.is_none_or(|old| new < old) {
                *command = Some(new);
            }
        };
        // The bank in which the first kind opens a row now. The row that was open there is closed.
        let opening = choice.activation.map(|(_, (kind, at))| self.place_of(kind, at).bank);
        let (turns, is_drained) = (choice.turns, kind == Kind::Write && self.draining);
        let mut has_closed = false;
        for candidate in candidates {
            let Candidate { at, age, place, arrived } = *candidate;
            let is_open = self.banks.is_open(place);
            // A whole write would close the row that a request of the first kind waits for.
            if opening == Some(place.bank) || is_whole && self.banks.noted(place) == wanted {
                continue;
            }
            let is_closing = !is_whole && closing.contains(&Some(place.bank));
            if is_closing || !is_open && !is_whole {
                has_closed = true;
                continue;
            }
            let from = match is_whole {
                true => self.banks.whole_write(place),
                false => self.banks.column(place, kind == Kind::Write),
            };
            let is_urgent = is_drained || arrived + self.queue.age <= now;
            choice.turns |= is_urgent && from > now && self.banks.is_ready(now, place, is_whole);
            take(&mut column, &mut choice.next_column, from, ((!is_open, age), (kind, at)));
            if !is_whole && self.banks.noted(place) != wanted {
                self.banks.note(place, hits);
            }
        }
        choice.column = choice.column.or(column.filter(|_| !turns));
        if !has_closed {
            return;
        }
        for candidate in candidates {
            let Candidate { at, age, place, .. } = *candidate;
            // A row stays open while a request waits for it.
            let is_busy = [wanted, hits].contains(&self.banks.noted(place));
            if is_busy || self.banks.is_open(place) {
                continue;
            }
            let from = self.banks.activation(place);
            let new = ((true, age), (kind, at));
            take(&mut activation, &mut choice.next_activation, from, new);
        }
        choice.activation = choice.activation.or(activation);
    }

    /// Returns the bank whose open row must not be accessed any more, because the oldest request is
    /// older than the bound and waits for another row of it, or for all of the bank.
    fn closing(&self, now: Time, kind: Kind, candidates: &[Candidate]) -> Option<u32> {
        let is_whole = kind == Kind::Write && self.timing.write_keeps_bank;
        let oldest = candidates.iter().min_by_key(|candidate| candidate.age)?;
        let is_old = oldest.arrived + self.queue.age <= now;
        let waits = is_whole || !self.banks.is_open(oldest.place);
        (is_old && waits).then_some(oldest.place.bank)
    }

    fn place_of(&self, kind: Kind, at: usize) -> Place {
        match kind {
            Kind::Read => self.reads[at].place,
            Kind::Write => self.writes[at].place,
        }
    }

    /// Issues the chosen commands. Returns the time of the next decision.
    fn issue(&mut self, now: Time, choice: &Choice) -> Option<Time> {
        let Choice { column, activation, mut next_column, mut next_activation, .. } = *choice;
        // The activation is first, because a column command removes its read from the list.
        if let Some((_, (kind, at))) = activation {
            match kind {
                Kind::Read => self.reads[at].opened = true,
                Kind::Write => self.writes[at].opened = true,
            }
            self.banks.activate(now, self.place_of(kind, at));
            self.counts.activations += 1;
            next_column = earlier(next_column, now + self.timing.activation());
            next_activation = Some(self.banks.next_activation().max(now + 1));
        }
        if let Some((_, (kind, at))) = column {
            match kind {
                Kind::Read => self.start_read(now, at),
                Kind::Write => self.start_write(now, at),
            }
            // No column command follows within a burst.
            next_column = Some(now + self.timing.burst);
        }
        next_column.into_iter().chain(next_activation).min()
    }

    fn start_read(&mut self, now: Time, at: usize) {
        let Waiting { id, place, opened, .. } = self.reads.swap_remove(at);
        let there = self.banks.read(now, place);
        self.counts.row_hits += u64::from(!opened);
        self.counts.reads += 1;
        self.counts.banks[place.bank as usize].reads += 1;
        self.seen.push((id, None));
        self.in_flight.add((there, id), ());
    }

    fn start_write(&mut self, now: Time, at: usize) {
        let entry = &mut self.writes[at];
        entry.started = true;
        let Entry { id, place, opened, .. } = *entry;
        let was_open = self.banks.is_open(place) && !opened;
        let over = self.banks.write(now, place);
        self.counts.row_hits += u64::from(was_open);
        self.counts.writes += 1;
        self.counts.banks[place.bank as usize].writes += 1;
        self.in_flight.add((over, id), ());
    }

    /// Returns whether a read of the line waits that arrived before this write.
    fn is_read_before(&self, line: Line, write: Id) -> bool {
        let is_before = |read: &Waiting| read.line == line && read.id < write;
        !injected(Mutant::WriteOvertakes) && self.reads.iter().any(is_before)
    }
}
