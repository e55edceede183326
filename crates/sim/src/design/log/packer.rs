//! The packer at the controller, which turns entries into records in order of arrival and reuses
//! log space before Log Start.

use std::collections::VecDeque;

use super::record::{Content, Layout, MOST_HEADS, MOST_TAILS, Meta};
use super::write_combining::Slot;
use crate::machine::controller::Class;
use crate::machine::memory::LineWords;
use crate::mutants::{Mutant, injected};
use crate::persist::Persistent;

/// A line of the log to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) line: u32,
    pub(super) words: LineWords,
    pub(super) class: Class,
    /// The record whose head this line is. Tails made before the head are durable before it.
    pub(super) head: Option<u64>,
}

/// A sealed record.
#[derive(Clone, Debug)]
struct Record {
    first_tail: u64,
    durable: bool,
    /// Lines that its entries describe.
    lines: Vec<u32>,
}

/// The record to which entries are added.
#[derive(Clone, Debug, Default)]
struct Open {
    metas: Vec<u64>,
    /// Words that no tail has yet.
    words: Vec<u64>,
    first_tail: u64,
    lines: Vec<u32>,
    /// Whether it has an entry, and not commit words alone.
    has_entry: bool,
}

/// State of the log's space and records.
#[derive(Debug)]
pub(super) struct Packer {
    layout: Layout,
    /// Records from Log Start on, and the number of the first.
    records: VecDeque<Record>,
    start: u64,
    /// First head and first tail of the log when it was empty.
    began: (u64, u64),
    open: Open,
    /// The number of the open record, and of the next tail.
    next: u64,
    next_tail: u64,
    /// All records before this one are durable.
    frontier: u64,
    /// The durable Log Start with its tail, and the one in flight to memory.
    mirrored: (u64, u64),
    in_flight: Option<(u64, u64)>,
    /// The applied watermark: the wanted one, the one in flight to memory, and the durable one.
    watermark: [u64; 3],
    /// Lines to write.
    lines: Vec<Line>,
}

impl Packer {
    pub(super) fn new(layout: Layout) -> Packer {
        Packer {
            layout,
            records: VecDeque::new(),
            start: 0,
            began: (0, 0),
            open: Open::default(),
            next: 0,
            next_tail: 0,
            frontier: 0,
            mirrored: (0, 0),
            in_flight: None,
            watermark: [0; 3],
            lines: Vec::new(),
        }
    }

    /// Continues with the empty log that recovery has left, from the durable Log Start.
    pub(super) fn resume(&mut self, state: &Persistent) {
        if injected(Mutant::LogBeginsAnew) {
            return;
        }
        let [head, tail, ..] = state.line(self.layout.start_line());
        (self.start, self.next, self.frontier) = (head, head, head);
        self.next_tail = tail;
        (self.mirrored, self.began) = ((head, tail), (head, tail));
    }

    /// Returns the lines to write, in order.
    pub(super) fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Returns the number of the open record.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the first record that may not be durable.
    pub(super) fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Whether the durable Log Start equals the current one and no write of it is in flight.
    pub(super) fn is_mirrored(&self) -> bool {
        self.mirrored.0 == self.start && self.in_flight.is_none()
    }

    /// Heads and tails that may be written.
    fn room(&self) -> (u64, u64) {
        let (head, tail) = match injected(Mutant::LogReusedEarly) {
            true => (self.start, self.tail_of(self.start)),
            false => self.mirrored,
        };
        let Layout { heads, tails, .. } = self.layout;
        (heads - (self.next - head), tails - (self.next_tail - tail))
    }

    /// Whether any single log message has room.
    pub(super) fn has_room(&self) -> bool {
        let (heads, tails) = self.room();
        heads > MOST_HEADS && tails > MOST_TAILS
    }

    /// Whether `slots` slots and `ends` transaction ends have room, whatever seals occur between
    /// them.
    pub(super) fn can_take(&self, slots: u64, ends: u64) -> bool {
        let (free, most) = (self.room(), self.layout.most(slots));
        // The last message needs room for the largest one, beside the open record.
        free.0 > most.0 + ends + MOST_HEADS && free.1 > most.1 + ends + MOST_TAILS
    }

    /// Whether `of` quarters of the log are free.
    pub(super) fn is_free(&self, of: u64) -> bool {
        let (heads, tails) = self.room();
        4 * heads >= of * self.layout.heads && 4 * tails >= of * self.layout.tails
    }

    /// Whether half of the log lies after a record.
    pub(super) fn is_old(&self, record: u64) -> bool {
        let (heads, tails) = (self.next - record, self.next_tail - self.tail_of(record));
        2 * heads >= self.layout.heads || 2 * tails >= self.layout.tails
    }

    /// Whether a ring has wrapped since its start, or the log is empty.
    pub(super) fn has_wrapped(&self) -> bool {
        let Layout { heads, tails, .. } = self.layout;
        let written = (self.next - self.began.0, self.next_tail - self.began.1);
        written.0 >= heads || written.1 >= tails || written == (0, 0)
    }

    fn tail_of(&self, record: u64) -> u64 {
        match self.records.get((record - self.start) as usize) {
            Some(record) => record.first_tail,
            None if self.open.metas.is_empty() => self.next_tail,
            None => self.open.first_tail,
        }
    }

    /// Appends the entries of a slot; `places` receives the log lines that retirement reads.
    /// Returns the number of entries and of their words.
    pub(super) fn append(&mut self, id: u32, slot: &Slot, places: &mut Vec<u32>) -> (u32, u64) {
        let bits = (0..8).map(|at| 1_u8 << at).filter(|bit| slot.mask & bit != 0);
        let masks: Vec<u8> = if self.layout.coalesce { vec![slot.mask] } else { bits.collect() };
        let each = self.layout.each();
        let words = each as u32 * slot.mask.count_ones();
        if self.layout.pack {
            for mask in &masks {
                self.pack(id, slot, *mask, places);
            }
        } else {
            // One-word entries share a head with others of their line.
            let share = if self.layout.coalesce { 1 } else { 8 / (1 + each) };
            for masks in masks.chunks(share) {
                self.write_alone(id, slot, masks, places);
            }
        }
        (masks.len() as u32, u64::from(words))
    }

    fn meta(&self, id: u32, line: u32, mask: u8) -> u64 {
        Meta { line, mask, id, wrap: self.layout.wrap(self.next) }.word()
    }

    /// Returns the words of an entry.
    fn words(&self, slot: &Slot, mask: u8) -> Vec<u64> {
        let of = |line: &LineWords| {
            let words = line.iter().enumerate().filter(|(at, _)| mask >> at & 1 != 0);
            words.map(|(_, word)| *word).collect::<Vec<_>>()
        };
        match self.layout.content {
            Content::Old => of(&slot.old),
            Content::New => of(&slot.new),
            Content::Both => [of(&slot.old), of(&slot.new)].concat(),
        }
    }

    /// Adds an entry to the open record.
    fn pack(&mut self, id: u32, slot: &Slot, mask: u8, places: &mut Vec<u32>) {
        let meta = self.meta(id, slot.line, mask);
        self.add_meta(meta);
        self.open.has_entry = true;
        self.open.lines.push(slot.line);
        let words = self.words(slot, mask);
        let last = self.next_tail + ((self.open.words.len() + words.len() - 1) / 8) as u64;
        places.push(self.layout.head_line(self.next));
        places.extend((self.next_tail..=last).map(|tail| self.layout.tail_line(tail)));
        self.open.words.extend(words);
        while self.open.words.len() >= 8 {
            let rest = self.open.words.split_off(8);
            let full = std::mem::replace(&mut self.open.words, rest);
            self.write_tail(&full);
        }
        if !self.layout.gather && !self.open.words.is_empty() {
            let rest = std::mem::take(&mut self.open.words);
            self.write_tail(&rest);
        }
        if self.open.metas.len() == 8 {
            self.seal();
        }
    }

    fn add_meta(&mut self, meta: u64) {
        if self.open.metas.is_empty() {
            self.open.first_tail = self.next_tail;
        }
        self.open.metas.push(meta);
    }

    fn write_tail(&mut self, words: &[u64]) {
        let line = self.layout.tail_line(self.next_tail);
        self.next_tail += 1;
        let class = Class::LogData;
        self.lines.push(Line { line, words: padded(words), class, head: None });
    }

    /// Seals the open record, if it has any entry or commit word, by writing its head.
    pub(super) fn seal(&mut self) {
        if self.open.metas.is_empty() {
            return;
        }
        let open = std::mem::take(&mut self.open);
        if !open.words.is_empty() {
            self.write_tail(&open.words);
        }
        let class = if open.has_entry { Class::LogMeta } else { Class::CommitRecord };
        self.write_head(&open.metas, class, open.first_tail, open.lines);
    }

    fn write_head(&mut self, words: &[u64], class: Class, first_tail: u64, lines: Vec<u32>) {
        let (line, head) = (self.layout.head_line(self.next), Some(self.next));
        self.lines.push(Line { line, words: padded(words), class, head });
        self.records.push_back(Record { first_tail, durable: false, lines });
        self.next += 1;
    }

    /// Writes entries of one line as a record of their own.
    fn write_alone(&mut self, id: u32, slot: &Slot, masks: &[u8], places: &mut Vec<u32>) {
        let first_tail = self.next_tail;
        let mut words = Vec::new();
        for mask in masks {
            words.push(self.meta(id, slot.line, *mask));
            words.extend(self.words(slot, *mask));
        }
        for tail in words.get(8..).unwrap_or_default().chunks(8) {
            places.push(self.layout.tail_line(self.next_tail));
            self.write_tail(tail);
        }
        places.push(self.layout.head_line(self.next));
        let head = &words[..words.len().min(8)];
        self.write_head(head, Class::LogData, first_tail, vec![slot.line]);
    }

    /// Adds a commit word or drop word and seals its record. Returns the record's number.
    pub(super) fn commit(&mut self, id: u32, entries: u32) -> u64 {
        if injected(Mutant::CommitBeforeMeta) && !self.open.metas.is_empty() {
            // The commit word takes the open record's number, and the open record follows it.
            let open = std::mem::take(&mut self.open);
            let record = self.commit(id, entries);
            let wrap = self.layout.wrap(self.next);
            let metas = open.metas.iter().map(|word| Meta { wrap, ..Meta::of(*word) }.word());
            self.open = Open { metas: metas.collect(), ..open };
            return record;
        }
        let word = self.meta(id, entries, 0);
        if !self.layout.pack {
            self.write_head(&[word], Class::CommitRecord, self.next_tail, Vec::new());
            return self.next - 1;
        }
        self.add_meta(word);
        self.seal();
        self.next - 1
    }

    /// Whether the open record has an entry for a line.
    pub(super) fn is_open(&self, line: u32) -> bool {
        self.open.lines.contains(&line)
    }

    /// Marks the head of a record as durable. Returns the lines of records that became durable
    /// together with all before them, and whether an older record is still missing.
    pub(super) fn durable(&mut self, record: u64) -> (Vec<(u64, u32)>, bool) {
        let at = |record: u64| (record - self.start) as usize;
        self.records[at(record)].durable = true;
        let is_ahead = record != self.frontier;
        let mut lines = Vec::new();
        while let Some(first) = self.records.get((self.frontier - self.start) as usize)
            && first.durable
        {
            lines.extend(first.lines.iter().map(|line| (self.frontier, *line)));
            self.frontier += 1;
        }
        (lines, is_ahead)
    }

    /// Moves Log Start up to this record, but not past a record that is not durable.
    pub(super) fn move_start(&mut self, record: u64) {
        let record = record.min(self.frontier);
        while self.start < record {
            self.records.pop_front();
            self.start += 1;
        }
    }

    /// Starts a write of Log Start. Returns its line and words.
    pub(super) fn mirror(&mut self) -> (u32, LineWords) {
        let at = (self.start, self.tail_of(self.start));
        self.in_flight = Some(at);
        self.watermark[1] = self.watermark[0];
        (self.layout.start_line(), [at.0, at.1, self.watermark[1], 0, 0, 0, 0, 0])
    }

    /// Whether a write of Log Start is in flight.
    pub(super) fn is_mirroring(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Completes the write of Log Start. Returns the durable position.
    pub(super) fn has_mirrored(&mut self) -> u64 {
        self.mirrored = self.in_flight.take().expect("a write of Log Start was in flight");
        self.watermark[2] = self.watermark[1];
        self.mirrored.0
    }

    /// Raises the wanted applied watermark.
    pub(super) fn raise_watermark(&mut self, record: u64) {
        self.watermark[0] = self.watermark[0].max(record);
    }

    /// Returns the durable applied watermark.
    pub(super) fn watermark(&self) -> u64 {
        self.watermark[2]
    }
}

fn padded(words: &[u64]) -> LineWords {
    let mut line = [0; 8];
    line[..words.len()].copy_from_slice(words);
    line
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::machine::description::Description;

    /// Appends a slot of a line with random stored words, and leaves its record open.
    fn append(packer: &mut Packer, random: &mut SmallRng) {
        let (line, mask) = (random.random_range(0..100), random.random_range(1..=u8::MAX));
        let slot = Slot { line, mask, old: [1; 8], new: [2; 8] };
        packer.append(1, &slot, &mut Vec::new());
    }

    /// Returns the heads and tails that slots and commits have taken with seals between them, and
    /// the number of commits.
    fn taken(layout: Layout, slots: u64, random: &mut SmallRng) -> (u64, u64, u64) {
        let mut packer = Packer::new(layout);
        (0..random.random_range(0..10)).for_each(|_| append(&mut packer, random));
        let (heads, tails, mut commits) = (packer.next, packer.next_tail, 0);
        for _ in 0..slots {
            append(&mut packer, random);
            match random.random_range(0..8) {
                0 => {
                    packer.commit(1, 1);
                    commits += 1;
                }
                // No line waits for entries with new words.
                1..4 if layout.content != Content::New => packer.seal(),
                _ => {}
            }
        }
        packer.seal();
        (packer.next - heads, packer.next_tail - tails, commits)
    }

    #[test]
    fn slots_fit_reserved_log_space_under_any_seals() {
        let mut random = SmallRng::seed_from_u64(1);
        let mut tight = 0;
        for bits in 0..8 {
            let mut description = Description::builtin("redu").unwrap();
            for (at, key) in ["pack", "coalesce", "gather"].iter().enumerate() {
                description.set(&format!("log.{key}={}", bits >> at & 1)).unwrap();
            }
            for content in [Content::Old, Content::New, Content::Both] {
                let layout = Layout::of(&description, 1000, content);
                for slots in (1..30).cycle().take(3000) {
                    let (heads, tails, commits) = taken(layout, slots, &mut random);
                    let most = layout.most(slots);
                    let (left, right) = (most.0 + commits + 1, most.1 + commits + 1);
                    assert!(
                        heads <= left && tails <= right,
                        "{bits} {content:?} {slots}: {most:?}"
                    );
                    tight += u64::from(heads + 1 >= left || tails + 1 >= right);
                }
            }
        }
        assert!(tight > 1000, "the bound is rarely tight: {tight}");
    }
}
