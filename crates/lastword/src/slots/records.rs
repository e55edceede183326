//! The records of a slot as recovery finds them.
//!
//! A table decides about each place where a record may begin.

use medium::ReadLog;
use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces};

use super::format::{
    HEAD_BYTES, HEAD_WORDS, Head, Key, Layout, Record, UNIT_WORDS, WITNESS_WORDS, WITNESSES,
};
use super::witnesses::Says;
use crate::error::{Error, LogDamage};
use crate::superblock::{Superblock, can_begin_behind};

/// Bound on the words that a search for later records checksums, in multiples of the slot's size.
/// Records do not overlap, so one pass suffices for a slot that this program has written. Only data
/// that imitate records need more.
const SEARCH_READS: usize = 8;

/// The finding at the place where the next record may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// A whole record with the next sequence, and a sound batch.
    Next,
    /// The first word of that record without the rest.
    Partial,
    /// No such record, but a later record that must not be missed.
    Gap,
    /// No such record and no later one: unwritten space or old data.
    Nothing,
    /// A whole record with contents that no design writes.
    Invalid,
}

/// The decision about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Take the record and continue.
    Take,
    /// The slot ends here.
    End,
    /// The slot ends here, in a torn write. Its barrier did not return, so none of its words was
    /// stored and no caller was notified.
    Torn,
    /// No crash leaves this state.
    Reject,
}

const TABLE: [(Finding, Action); 5] = [
    (Finding::Next, Action::Take),
    (Finding::Partial, Action::Torn),
    (Finding::Nothing, Action::End),
    // A record is written after the previous one is durable, so a durable record is missing.
    // Behind the last record only a witness shows that; see `format`.
    (Finding::Gap, Action::Reject),
    (Finding::Invalid, Action::Reject),
];

fn decide(finding: Finding) -> Action {
    let row = TABLE.iter().find(|(row, _)| *row == finding);
    row.map_or(Action::Reject, |(_, action)| *action)
}

/// A slot as read from the log.
pub(super) struct Slot {
    pub(super) key: Key,
    pub(super) head: Head,
    pub(super) records: Vec<u64>,
    /// Offset of its records in the log.
    pub(super) at: u64,
    /// Records are rounded up to this many words.
    pub(super) unit: usize,
    /// The first two words of the witnesses of records.
    pub(super) witnesses: Vec<Says>,
}

/// Damage of a log, at an offset in it.
pub(super) type Damage = (u64, LogDamage);

/// The end of a slot's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// No crash was in a write there.
    Clean,
    /// A torn record.
    Torn,
    /// A state that no crash leaves.
    Damaged(Damage),
}

impl Slot {
    /// Reads a slot. Returns the damage of its head, too.
    pub(super) fn read(
        superblock: &Superblock,
        log: &dyn ReadLog,
        slot: usize,
    ) -> Result<(Slot, Option<Damage>), Error> {
        let layout = Layout::of(superblock.log_bytes);
        let key = Key::new(superblock.pool, superblock.generation, slot);
        // Only a mapped log has second copies and witnesses.
        let is_mapped = log.block_bytes() < HEAD_BYTES as usize;
        let mut head = Head::default();
        for copy in 0..2 {
            let places = [layout.head_at(slot, copy), layout.second_head_at(slot, copy)];
            for at in &places[..1 + usize::from(is_mapped)] {
                let mut words = [0; HEAD_WORDS];
                log.read(*at, &mut words)?;
                let found = key.open_head(&words).filter(|found| found.sequence % 2 == copy);
                head = found.filter(|found| found.sequence > head.sequence).unwrap_or(head);
            }
        }
        let mut witnesses = Vec::new();
        if is_mapped && !injected(Mutant::WitnessIgnored) {
            for number in 0..WITNESSES {
                let page = layout.page_witness_at(slot, number);
                for at in [page, layout.record_witness_at(slot, number)] {
                    let mut words = [0; WITNESS_WORDS];
                    log.read(at, &mut words)?;
                    witnesses.extend(key.open_witness(&words));
                }
            }
        }
        let mut damage = None;
        if !can_begin_behind(head.id) || !can_begin_behind(head.last) {
            damage = Some((layout.head_at(slot, head.sequence), LogDamage::Unexpected));
        }
        let (at, mut records) = (layout.records_at(slot), vec![0; layout.record_words()]);
        log.read(at, &mut records)?;
        let unit = (log.block_bytes() / 8).max(UNIT_WORDS);
        Ok((Slot { key, head, records, at, unit, witnesses }, damage))
    }

    /// Returns the slot's records from sequence `from` on, and their end. `None` accepts the
    /// sequence of the first record. `counts` says whether a whole record must not be missed.
    pub(super) fn taken(
        &self,
        from: Option<u64>,
        is_sound: impl Fn(&Record<'_>) -> bool,
        counts: impl Fn(&Record<'_>) -> bool,
    ) -> (Vec<Record<'_>>, End) {
        let (mut taken, mut at, mut next) = (Vec::new(), 0, from);
        loop {
            let record = self.key.open(at, &self.records);
            let sequence = next.or(record.map(|record| record.sequence)).unwrap_or(0);
            let mut why = LogDamage::Unexpected;
            let finding = match record {
                Some(record) if record.sequence == sequence => match is_sound(&record) {
                    true => Finding::Next,
                    false => Finding::Invalid,
                },
                _ if let Some(later) = self.later(at, &counts) => {
                    why = LogDamage::RecordLost { proof: self.at + 8 * later as u64 };
                    Finding::Gap
                }
                _ if next.is_some() && self.key.is_begun(at, sequence, &self.records) => {
                    Finding::Partial
                }
                _ => Finding::Nothing,
            };
            match (decide(finding), record) {
                (Action::Take, Some(record)) => {
                    taken.push(record);
                    at += self.room(&record);
                    // All records of a transaction of `undo` have the same sequence.
                    next = Some(if from.is_some() { sequence } else { sequence + 1 });
                }
                (Action::Torn, _) => return (taken, End::Torn),
                (Action::End, _) => return (taken, End::Clean),
                _ => return (taken, End::Damaged((self.at + 8 * at as u64, why))),
            }
        }
    }

    /// Returns the words that a record occupies.
    fn room(&self, record: &Record<'_>) -> usize {
        record.words().next_multiple_of(self.unit)
    }

    /// Returns the offset in the log of the place after these records, the first of the slot.
    pub(super) fn end_of(&self, records: &[Record<'_>]) -> u64 {
        self.at + 8 * records.iter().map(|record| self.room(record)).sum::<usize>() as u64
    }

    /// Returns the place of a whole record that must not be missed and begins at word `at` or
    /// later. Also returns a place if more places claim to be records than records could be. Only a
    /// crafted log has that, and it must not keep recovery busy.
    fn later(&self, at: usize, counts: impl Fn(&Record<'_>) -> bool) -> Option<usize> {
        let mut left = SEARCH_READS * self.records.len();
        for at in (at..self.records.len()).step_by(self.unit) {
            // Old records fill most of the slot. Recovery does not need them, so it does not
            // compute their checksums.
            let Some(claimed) = self.key.claimed(at, &self.records).filter(&counts) else {
                continue;
            };
            let Some(rest) = left.checked_sub(claimed.words()) else { return Some(at) };
            left = rest;
            if self.key.open(at, &self.records).is_some() {
                return Some(at);
            }
        }
        None
    }
}

/// Whether a record that the scan did not reach should have been replayed. Every real record begins
/// with an ID. Without that condition a row of keys passes for any number of records: in
/// `tpcc-btree` the order lines of district 1 have keys that begin like records of generation 1.
pub(super) fn is_missed(record: &Record<'_>, base: u64, known: u64) -> bool {
    id_of(record, base).is_some_and(|id| id > known)
}

/// Returns the absolute ID that a record of `redo` carries.
pub(super) fn id_of(record: &Record<'_>, base: u64) -> Option<u64> {
    match Pieces::new(record.batch).next() {
        Some(Piece::Mark(id)) => base.checked_add(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use medium::writes::{mark, run};

    use super::*;

    /// Regression test: recovery rejected a sound pool because of keys in its objects.
    #[test]
    fn keys_that_imitate_records_are_ignored() {
        let (key, unit, words) = (Key::new(7, 1, 0), UNIT_WORDS, 1 << 18);
        let mut records: Vec<u64> = (0..words).map(|n| 1 << 48 | n).collect();
        records[..6].copy_from_slice(&[0, 0, mark(9), run(5, 2), 42, 43]);
        key.seal(0, 3, &mut records[..6]);
        let slot = Slot { key, head: Head::default(), records, at: 0, unit, witnesses: Vec::new() };
        let counts = |record: &Record<'_>| is_missed(record, 0, 8);
        let (taken, end) = slot.taken(None, |_| true, counts);
        assert_eq!((taken.len(), end), (1, End::Clean));
    }

    #[test]
    fn replayable_record_after_gap_is_damage() {
        let (key, unit) = (Key::new(7, 1, 0), UNIT_WORDS);
        let mut records = vec![0; 64];
        records[32..38].copy_from_slice(&[0, 0, mark(9), run(5, 2), 42, 43]);
        key.seal(32, 3, &mut records[32..38]);
        let slot = Slot { key, head: Head::default(), records, at: 0, unit, witnesses: Vec::new() };
        let of = |known| {
            let counts = |record: &Record<'_>| is_missed(record, 0, known);
            slot.taken(None, |_| true, counts).1
        };
        assert_eq!(of(8), End::Damaged((0, LogDamage::RecordLost { proof: 256 })));
        assert_eq!(of(9), End::Clean, "a record in the heap image may be missing");
    }

    #[test]
    fn search_stops_at_too_many_imitated_records() {
        let (key, unit, words) = (Key::new(7, 3, 0), UNIT_WORDS, 1 << 12);
        let (head, records) = (Head::default(), vec![0; words]);
        let mut slot = Slot { key, head, records, at: 0, unit, witnesses: Vec::new() };
        let counts = |record: &Record<'_>| record.sequence >= 5;
        // Writes heads that claim a record as long as the rest of the slot.
        let mut imitate = |sequence, most| {
            for at in (0..words).step_by(unit).take(most) {
                let mut record = vec![1; words - at];
                key.seal(at, sequence, &mut record);
                slot.records[at..at + 2].copy_from_slice(&[record[0], !record[1] as u32 as u64]);
                slot.records[at + 1] |= record[1] >> 32 << 32;
            }
            slot.later(0, counts).is_some()
        };
        assert!(!imitate(5, 8));
        // Claims that need not be there cost no checksum.
        assert!(!imitate(4, words));
        assert!(imitate(5, 9) && imitate(5, words));
    }
}
