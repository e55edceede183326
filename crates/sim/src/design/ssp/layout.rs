//! Placement and formats of SSP's metadata in persistent memory.
//!
//! ```text
//!   heap | spare pages, one a slot | journal | SSP cache | tail | log in software | page table
//! ```
//! ```text
//!   SSP cache   a slot: | P0 + 1 | P1 + 1 | committed | version |    two a line
//!   journal     a record: | P0 (40) slot (12) last (1) wrap (3) number (8) | committed |   four
//!   tail        | number of the first line of the journal that is still needed |
//!   page table  an entry: | physical page + 1 |    eight a line
//! ```
//! Zero means the initial state: a slot has no page and its own spare page, and a page lies where
//! its number says. A record has the 128 bits of the paper.
//!
//! Journal lines are numbered without end, and a record holds the wrap in which it was written.
//! Recovery finds the journal's end by that. The version of a slot is the journal position of the
//! record that last changed it; older records do not affect it.

use super::super::soft_log::SoftLog;
use super::super::striped::Striped;
use crate::machine::description::Description;
use crate::machine::memory::LineWords;
use crate::machine::tlb::PAGE_LINES;
use crate::persist::{Cut, Persistent};

/// Records in a journal line.
pub(super) const RECORDS: usize = 4;

/// Wraps that a record can distinguish; 0 means none.
const WRAPS: u64 = 7;

/// Slots that a record can address.
pub(super) const SLOTS_MAX: u32 = 1 << 12;

/// Entries in a line of the page table.
const ENTRIES: u32 = 8;

/// Placement of all metadata.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Pages of the heap.
    pub(super) pages: u32,
    /// Slots of the SSP cache.
    pub(super) slots: u32,
    pub(super) journal: Striped,
    cache: Striped,
    pub(super) tail: u32,
    /// First line of the software log.
    pub(super) soft: u32,
    table: u32,
}

impl Layout {
    /// Returns the layout after a heap of `heap` lines.
    pub(super) fn new(description: &Description, heap: u32) -> Layout {
        let parameter = |key| description.parameter("ssp", key);
        let slots = parameter("cache_entries") as u32;
        // A checkpoint starts when half of the journal is used, so it has twice the parameter's
        // lines.
        let journal = 2 * (parameter("journal_bytes") / 64.0).ceil() as u32;
        let journal = Striped::new(description, heap + slots * PAGE_LINES, journal.max(2));
        let cache = Striped::new(description, journal.end(), slots.div_ceil(2));
        let (pages, tail) = (heap / PAGE_LINES, cache.end());
        let (soft, table) = (tail + 1, tail + 1 + SoftLog::lines(description));
        Layout { pages, slots, journal, cache, tail, soft, table }
    }

    /// Lines of the metadata except the page table.
    pub(super) fn lines(description: &Description) -> u32 {
        Layout::new(description, 0).table
    }

    /// Lines of the page table for a heap of `heap` lines.
    pub(super) fn table_lines(heap: u32) -> u32 {
        (heap / PAGE_LINES).div_ceil(ENTRIES)
    }

    /// Returns the initial spare page of a slot.
    pub(super) fn spare(&self, slot: u32) -> u32 {
        self.pages + slot
    }

    /// Returns the line of the SSP cache that holds a slot.
    pub(super) fn slot_line(&self, slot: u32) -> u32 {
        self.cache.line(u64::from(slot / 2))
    }

    /// Returns the line of the page table that holds a page's entry.
    pub(super) fn table_line(&self, page: u32) -> u32 {
        self.table + page / ENTRIES
    }

    /// Returns the pages whose entries share the line of this page. Some may not exist.
    pub(super) fn neighbours(page: u32) -> std::ops::Range<u32> {
        let first = page / ENTRIES * ENTRIES;
        first..first + ENTRIES
    }

    /// Returns the place of a page in the persistent page table.
    pub(super) fn page_in(&self, state: &Persistent, page: u32) -> u32 {
        let line = state.line(self.table_line(page));
        (line[(page % ENTRIES) as usize] as u32).checked_sub(1).unwrap_or(page)
    }

    /// Returns the place of a program line in the persistent page table.
    pub(super) fn place_in(&self, state: &Persistent, line: u32) -> u32 {
        self.page_in(state, line / PAGE_LINES) * PAGE_LINES + line % PAGE_LINES
    }

    /// Writes a page's place to the persistent page table, in one step.
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

    /// Returns a slot of the persistent SSP cache.
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

/// The persistent state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasting {
    pub(super) p0: Option<u32>,
    pub(super) p1: u32,
    pub(super) committed: u64,
    /// Position of the record that last changed it, or 0.
    pub(super) version: u64,
}

impl Lasting {
    /// Returns the words of the slot.
    pub(super) fn words(&self) -> [u64; 4] {
        let p0 = self.p0.map_or(0, |page| u64::from(page) + 1);
        [p0, u64::from(self.p1) + 1, self.committed, self.version]
    }

    /// Applies a record. If the record's page is the slot's spare page, the two pages change
    /// places. Otherwise another virtual page takes the slot, and the spare page stays.
    pub(super) fn apply(&mut self, record: &Record, version: u64) {
        if Some(record.p0) != self.p0 {
            if record.p0 == self.p1 {
                self.p1 = self.p0.expect("a slot that swaps its pages has two");
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
    /// Whether it is the last record of its group.
    pub(super) last: bool,
    /// The low bits of the group's number.
    pub(super) number: u8,
}

impl Record {
    /// Returns the record's words in a journal line of this number.
    pub(super) fn words(&self, line: u64, capacity: u32) -> [u64; 2] {
        let Record { slot, p0, committed, last, number } = *self;
        let head = u64::from(p0)
            | u64::from(slot) << 40
            | u64::from(last) << 52
            | wrap(line, capacity) << 53
            | u64::from(number) << 56;
        [head, committed]
    }

    /// Decodes the words of a line of this number. Returns `None` for another wrap.
    pub(super) fn of(words: [u64; 2], line: u64, capacity: u32) -> Option<Record> {
        let [head, committed] = words;
        (head >> 53 & 7 == wrap(line, capacity)).then_some(Record {
            slot: (head >> 40 & 0xfff) as u32,
            p0: head as u32,
            committed,
            last: head >> 52 & 1 != 0,
            number: (head >> 56) as u8,
        })
    }
}

/// Returns the records of a line, up to the first unused position.
pub(super) fn records(words: &LineWords, line: u64, capacity: u32) -> Vec<Record> {
    let pairs = words.chunks(2).map(|pair| Record::of([pair[0], pair[1]], line, capacity));
    pairs.map_while(|record| record).collect()
}

/// Returns the wrap in which a line is written.
fn wrap(line: u64, capacity: u32) -> u64 {
    line / u64::from(capacity) % WRAPS + 1
}

/// Returns the first line of the wrap after that of this line.
pub(super) fn next_wrap(line: u64, capacity: u32) -> u64 {
    (line / u64::from(capacity) + 1) * u64::from(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_decodes_only_in_its_wrap() {
        let record = Record { slot: 4095, p0: 77, committed: !5, last: true, number: 200 };
        let words = record.words(35, 16);
        assert_eq!(Record::of(words, 35, 16), Some(record));
        for other in [3, 19, 51, next_wrap(35, 16) + 3] {
            assert_eq!(Record::of(words, other, 16), None, "{other}");
        }
        assert_eq!(records(&[0; 8], 0, 16), vec![]);
        let [a, b] = words;
        assert_eq!(records(&[a, b, a, b, 0, 0, a, b], 35, 16), vec![record, record]);
    }

    #[test]
    fn record_with_spare_page_swaps_pages() {
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
