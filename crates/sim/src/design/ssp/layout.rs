//! Where SSP's metadata lie in persistent memory, and what their lines say.
//!
//! ```text
//!   heap | spare pages, one a slot | journal | SSP cache | tail | log in software | page table
//! ```
//! ```text
//!   SSP cache   a slot: | P0 + 1 | P1 + 1 | committed | version |    two a line
//!   journal     a record: | P0 (40) slot (12) last (1) lap (3) number (8) | committed |    four
//!   tail        | number of the first line of the journal that is still needed |
//!   page table  an entry: | physical page + 1 |    eight a line
//! ```
//! What is 0 is as it was in the beginning: a slot has no page, and its own spare page; a page lies
//! where its number says. A record has the 128 bits of the paper.
//!
//! Lines of the journal are numbered for ever, and a record says in which lap it was written: so
//! recovery knows the journal's end. The version of a slot is the place in the journal of the
//! record that made it what it is: older records say nothing to it.

use super::super::soft_log::SoftLog;
use super::super::striped::Striped;
use crate::machine::description::Description;
use crate::machine::memory::LineWords;
use crate::machine::tlb::PAGE_LINES;
use crate::persist::{Cut, Persistent};

/// Records of a line of the journal.
pub(super) const RECORDS: usize = 4;

/// Laps that a record can tell apart; 0 is none.
const LAPS: u64 = 7;

/// Slots that a record can tell apart.
pub(super) const SLOTS_MAX: u32 = 1 << 12;

/// Entries of a line of the page table.
const ENTRIES: u32 = 8;

/// Where everything lies.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Pages of the heap.
    pub(super) pages: u32,
    /// Slots of the SSP cache.
    pub(super) slots: u32,
    pub(super) journal: Striped,
    cache: Striped,
    pub(super) tail: u32,
    /// The first line of the log in software.
    pub(super) soft: u32,
    table: u32,
}

impl Layout {
    /// Behind a heap of so many lines.
    pub(super) fn new(description: &Description, heap: u32) -> Layout {
        let parameter = |key| description.parameter("ssp", key);
        let slots = parameter("cache_entries") as u32;
        // It is checkpointed when half of it is used.
        let journal = 2 * (parameter("journal_bytes") / 64.0).ceil() as u32;
        let journal = Striped::new(description, heap + slots * PAGE_LINES, journal.max(2));
        let cache = Striped::new(description, journal.end(), slots.div_ceil(2));
        let (pages, tail) = (heap / PAGE_LINES, cache.end());
        let (soft, table) = (tail + 1, tail + 1 + SoftLog::lines(description));
        Layout { pages, slots, journal, cache, tail, soft, table }
    }

    /// Lines that it takes besides the page table.
    pub(super) fn lines(description: &Description) -> u32 {
        Layout::new(description, 0).table
    }

    /// Lines of the page table of a heap of so many lines.
    pub(super) fn table_lines(heap: u32) -> u32 {
        (heap / PAGE_LINES).div_ceil(ENTRIES)
    }

    /// The spare page that a slot has in the beginning.
    pub(super) fn spare(&self, slot: u32) -> u32 {
        self.pages + slot
    }

    /// The line of the SSP cache in which a slot is.
    pub(super) fn slot_line(&self, slot: u32) -> u32 {
        self.cache.line(u64::from(slot / 2))
    }

    /// The line of the page table in which a page's entry is.
    pub(super) fn table_line(&self, page: u32) -> u32 {
        self.table + page / ENTRIES
    }

    /// The pages whose entries are in the same line, as far as there are such.
    pub(super) fn neighbours(page: u32) -> std::ops::Range<u32> {
        let first = page / ENTRIES * ENTRIES;
        first..first + ENTRIES
    }

    /// Where a page lies by the persistent page table.
    pub(super) fn page_in(&self, state: &Persistent, page: u32) -> u32 {
        let line = state.line(self.table_line(page));
        (line[(page % ENTRIES) as usize] as u32).checked_sub(1).unwrap_or(page)
    }

    /// Where a line of the program lies by the persistent page table.
    pub(super) fn place_in(&self, state: &Persistent, line: u32) -> u32 {
        self.page_in(state, line / PAGE_LINES) * PAGE_LINES + line % PAGE_LINES
    }

    /// Writes into the persistent page table where a page lies: one step.
    pub(super) fn set_page(
        &self,
        state: &mut Persistent,
        page: u32,
        physical: u32,
    ) -> Result<(), Cut> {
        let at = self.table_line(page);
        let mut line = state.line(at);
        line[(page % ENTRIES) as usize] = u64::from(physical) + 1;
        state.set_line(at, line)
    }

    /// A slot in the persistent SSP cache.
    pub(super) fn slot_in(&self, state: &Persistent, slot: u32) -> Lasting {
        let line = state.line(self.slot_line(slot));
        let [p0, p1, committed, version] =
            line[slot as usize % 2 * 4..][..4].try_into().expect("a slot has four words");
        Lasting {
            p0: (p0 as u32).checked_sub(1),
            p1: (p1 as u32).checked_sub(1).unwrap_or(self.spare(slot)),
            committed,
            version,
        }
    }
}

/// What is persistent of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasting {
    pub(super) p0: Option<u32>,
    pub(super) p1: u32,
    pub(super) committed: u64,
    /// Of the record that made it so; none is 0.
    pub(super) version: u64,
}

impl Lasting {
    /// Its words.
    pub(super) fn words(&self) -> [u64; 4] {
        let p0 = self.p0.map_or(0, |page| u64::from(page) + 1);
        [p0, u64::from(self.p1) + 1, self.committed, self.version]
    }

    /// What a record makes of it. Pages that change places are told by the record's page being the
    /// spare one; any other page is that of another virtual page, and the spare one stays.
    pub(super) fn apply(&mut self, record: &Record, version: u64) {
        if Some(record.p0) != self.p0 {
            if record.p0 == self.p1 {
                self.p1 = self.p0.expect("pages that change places are two");
            }
            self.p0 = Some(record.p0);
        }
        self.committed = record.committed;
        self.version = version;
    }
}

/// A record of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) slot: u32,
    pub(super) p0: u32,
    pub(super) committed: u64,
    /// It is the last one of its transaction.
    pub(super) last: bool,
    /// Of the transaction, as far as there is room.
    pub(super) number: u8,
}

impl Record {
    /// Its words in a line of this number.
    pub(super) fn words(&self, line: u64, capacity: u32) -> [u64; 2] {
        let Record { slot, p0, committed, last, number } = *self;
        let head = u64::from(p0)
            | u64::from(slot) << 40
            | u64::from(last) << 52
            | lap(line, capacity) << 53
            | u64::from(number) << 56;
        [head, committed]
    }

    /// The record that these words of a line of this number are, if they are one.
    pub(super) fn of(words: [u64; 2], line: u64, capacity: u32) -> Option<Record> {
        let [head, committed] = words;
        (head >> 53 & 7 == lap(line, capacity)).then_some(Record {
            slot: (head >> 40 & 0xfff) as u32,
            p0: head as u32,
            committed,
            last: head >> 52 & 1 != 0,
            number: (head >> 56) as u8,
        })
    }
}

/// The records of a line, up to the first place that has none.
pub(super) fn records(words: &LineWords, line: u64, capacity: u32) -> Vec<Record> {
    let pairs = words.chunks(2).map(|pair| Record::of([pair[0], pair[1]], line, capacity));
    pairs.map_while(|record| record).collect()
}

/// The lap in which a line is written.
fn lap(line: u64, capacity: u32) -> u64 {
    line / u64::from(capacity) % LAPS + 1
}

/// The first line of the lap behind the one of this line.
pub(super) fn next_lap(line: u64, capacity: u32) -> u64 {
    (line / u64::from(capacity) + 1) * u64::from(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_in_its_lap_and_in_no_other_that_may_lie_there() {
        let record = Record { slot: 4095, p0: 77, committed: !5, last: true, number: 200 };
        let words = record.words(35, 16);
        assert_eq!(Record::of(words, 35, 16), Some(record));
        for other in [3, 19, 51, next_lap(35, 16) + 3] {
            assert_eq!(Record::of(words, other, 16), None, "{other}");
        }
        assert_eq!(records(&[0; 8], 0, 16), vec![]);
        let [a, b] = words;
        assert_eq!(records(&[a, b, a, b, 0, 0, a, b], 35, 16), vec![record, record]);
    }

    #[test]
    fn a_record_with_the_spare_page_lets_the_pages_change_places() {
        let record = |p0| Record { slot: 0, p0, committed: 3, last: true, number: 0 };
        let mut slot = Lasting { p0: None, p1: 90, committed: 0, version: 0 };
        slot.apply(&record(7), 1);
        assert_eq!((slot.p0, slot.p1), (Some(7), 90));
        slot.apply(&record(90), 2);
        assert_eq!((slot.p0, slot.p1), (Some(90), 7));
        slot.apply(&record(8), 3);
        assert_eq!((slot.p0, slot.p1, slot.version), (Some(8), 7, 3));
    }
}
