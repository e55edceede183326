//! Recovery of `undo`, `redo` and `snapshot` from the slots of a log.
//!
//! | design | recovery |
//! |---|---|
//! | `undo` | rolls back the unfinished transaction of each slot, newest record first |
//! | `redo`, `snapshot` | replays whole records of all slots by ID or stamp, from slot 0's head |
//!
//! Under `undo` a slot has records of at most one unfinished transaction. Unfinished transactions
//! hold different ownership records, so the slots need no order among themselves.
//!
//! Both write absolute values, so recovery is idempotent: it may crash and run again. The caller
//! empties the log afterwards. When the heap image is durable, the superblock's next generation
//! voids every record and head at once.
//!
//! A table decides about each place where a record may begin.
//!
//! Source: DudeTM, section 2.2.

use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, check};
use medium::{HeapMedium, ReadLog};
use words::TxId;

use super::format::{HEAD_BYTES, HEAD_WORDS, Head, Key, Layout, Record, UNIT_WORDS, WITNESS_WORDS};
use crate::error::Error;
use crate::recover::Replayed;
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
struct Slot {
    key: Key,
    head: Head,
    records: Vec<u64>,
    /// Offset of its records in the log.
    at: u64,
    /// Records are rounded up to this many words.
    unit: usize,
    /// The two words of the last record's witness.
    witness: Option<(u64, u64)>,
}

impl Slot {
    fn read(
        superblock: &Superblock,
        log: &dyn ReadLog,
        slot: usize,
        damaged: &dyn Fn(u64) -> Error,
    ) -> Result<Slot, Error> {
        let layout = Layout::of(superblock.log_bytes);
        let key = Key::new(superblock.pool, superblock.generation, slot);
        let mut head = Head::default();
        for copy in 0..2 {
            let mut words = [0; HEAD_WORDS];
            log.read(layout.head_at(slot, copy), &mut words)?;
            let found = key.open_head(&words).filter(|found| found.sequence % 2 == copy);
            head = found.filter(|found| found.sequence > head.sequence).unwrap_or(head);
        }
        // Only a mapped log has witnesses.
        let is_mapped = log.block_bytes() < HEAD_BYTES as usize;
        let says = |at| -> Result<_, Error> {
            let mut words = [0; WITNESS_WORDS];
            if is_mapped && !injected(Mutant::WitnessIgnored) {
                log.read(at, &mut words)?;
            }
            Ok(key.open_witness(&words))
        };
        // A witness of a later head: that head was durable, so it is damaged.
        for sequence in [head.sequence.wrapping_add(1), head.sequence.wrapping_add(2)] {
            let witness = says(layout.head_witness_at(slot, sequence))?;
            if witness.is_some_and(|(durable, _)| durable > head.sequence) {
                return Err(damaged(layout.head_at(slot, sequence)));
            }
        }
        let witness = says(layout.record_witness_at(slot))?;
        if !can_begin_behind(head.id) || !can_begin_behind(head.last) {
            return Err(damaged(layout.head_at(slot, head.sequence)));
        }
        let (at, mut records) = (layout.records_at(slot), vec![0; layout.record_words()]);
        log.read(at, &mut records)?;
        let unit = (log.block_bytes() / 8).max(UNIT_WORDS);
        Ok(Slot { key, head, records, at, unit, witness })
    }

    /// Returns the slot's records from sequence `from` on, and whether a torn record ends them.
    /// `None` accepts the sequence of the first record. `counts` says whether a whole record must
    /// not be missed.
    fn taken(
        &self,
        from: Option<u64>,
        is_sound: impl Fn(&Record<'_>) -> bool,
        counts: impl Fn(&Record<'_>) -> bool,
        damaged: &dyn Fn(u64) -> Error,
    ) -> Result<(Vec<Record<'_>>, bool), Error> {
        let (mut taken, mut at, mut next) = (Vec::new(), 0, from);
        loop {
            let record = self.key.open(at, &self.records);
            let sequence = next.or(record.map(|record| record.sequence)).unwrap_or(0);
            let finding = match record {
                Some(record) if record.sequence == sequence => match is_sound(&record) {
                    true => Finding::Next,
                    false => Finding::Invalid,
                },
                _ if self.follows(at, &counts) => Finding::Gap,
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
                (Action::Torn, _) => return Ok((taken, true)),
                (Action::End, _) => return Ok((taken, false)),
                _ => return Err(damaged(self.at + 8 * at as u64)),
            }
        }
    }

    /// Returns the words that a record occupies.
    fn room(&self, record: &Record<'_>) -> usize {
        record.words().next_multiple_of(self.unit)
    }

    /// Whether a whole record that must not be missed begins at word `at` or later. Also true if
    /// more places claim to be records than records could be. Only a crafted log has that, and it
    /// must not keep recovery busy.
    fn follows(&self, at: usize, counts: impl Fn(&Record<'_>) -> bool) -> bool {
        let mut left = SEARCH_READS * self.records.len();
        for at in (at..self.records.len()).step_by(self.unit) {
            // Old records fill most of the slot. Recovery does not need them, so it does not
            // compute their checksums.
            let Some(claimed) = self.key.claimed(at, &self.records).filter(&counts) else {
                continue;
            };
            let Some(rest) = left.checked_sub(claimed.words()) else { return true };
            left = rest;
            if self.key.open(at, &self.records).is_some() {
                return true;
            }
        }
        false
    }
}

/// Returns the error for damage at an offset of the log.
fn damaged<'a>(superblock: &'a Superblock, path: &'a Path) -> impl Fn(u64) -> Error + 'a {
    |at| Error::DamagedLog { path: path.into(), at: superblock.log_offset + at }
}

/// Rolls back the unfinished transactions of `undo`. Durable on return: one persist barrier, or
/// none if every transaction was finished.
pub(crate) fn take_back(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    path: &Path,
) -> Result<Replayed, Error> {
    let (heap_words, damaged) = (superblock.heap_bytes / 8, damaged(superblock, path));
    let last = TxId(superblock.reproduced);
    let mut replayed = Replayed { last, transactions: 0, torn: false };
    for slot in 0..Layout::of(superblock.log_bytes).slots {
        let slot = Slot::read(superblock, log, slot, &damaged)?;
        replayed.last = replayed.last.max(TxId(slot.head.id));
        let is_sound = |record: &Record<'_>| check(record.batch, heap_words).is_ok();
        let next = slot.head.sequence + 1;
        let counts = |record: &Record<'_>| record.sequence >= next;
        let (mut records, torn) = slot.taken(Some(next), is_sound, counts, &damaged)?;
        let end: usize = records.iter().map(|record| slot.room(record)).sum();
        // Of a later sequence: its head was durable, and is lost.
        let is_lost = |(of, to)| of > next || of == next && to > end as u64;
        if slot.witness.is_some_and(is_lost) {
            return Err(damaged(slot.at + 8 * end as u64));
        }
        replayed.torn |= torn;
        replayed.transactions += u64::from(!records.is_empty());
        if !injected(Mutant::OldestFirst) {
            // Newest first: a granule's oldest record has the value from before the transaction.
            records.reverse();
        }
        for record in records {
            image.write_back(&newest_first(record.batch))?;
        }
    }
    if replayed.transactions > 0 && !injected(Mutant::ReplayBarrierSkipped) {
        image.barrier()?;
    }
    Ok(replayed)
}

/// Returns a batch with its runs reversed. On `file` one record holds all runs of a transaction.
fn newest_first(batch: &[u64]) -> Vec<u64> {
    let pieces: Vec<Piece<'_>> = Pieces::new(batch).collect();
    let mut reversed = Vec::with_capacity(batch.len());
    let put = |piece: &Piece<'_>| {
        if let Piece::Run(index, words) = piece {
            reversed.push(medium::writes::run(*index, words.len()));
            reversed.extend_from_slice(words);
        }
    };
    match injected(Mutant::OldestFirst) {
        false => pieces.iter().rev().for_each(put),
        true => pieces.iter().for_each(put),
    }
    reversed
}

/// Replays the records of `redo` that the heap image may lack. Durable on return: one persist
/// barrier, or none if no record was replayed.
///
/// Every ID has a record, and a commit returns when all IDs up to its own are durable. So the next
/// record of its slot proves that the records of all these IDs were there.
pub(crate) fn replay_all(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    path: &Path,
) -> Result<Replayed, Error> {
    replay_with(superblock, log, image, path, !injected(Mutant::GapsIgnored))
}

/// Replays the records of `snapshot` in the same way. Their stamps have gaps.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    path: &Path,
) -> Result<Replayed, Error> {
    replay_with(superblock, log, image, path, false)
}

fn replay_with(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    path: &Path,
    is_gapless: bool,
) -> Result<Replayed, Error> {
    let (heap_words, damaged) = (superblock.heap_bytes / 8, damaged(superblock, path));
    let base = superblock.reproduced;
    let (mut known, mut last) = (base, base);
    let mut torn = false;
    let mut proved = None;
    // Only batches to replay are kept, with the ID and place of each, so one slot's records are in
    // memory at a time.
    let (mut batches, mut places) = (Vec::new(), Vec::new());
    for number in 0..Layout::of(superblock.log_bytes).slots {
        let slot = Slot::read(superblock, log, number, &damaged)?;
        if number == 0 {
            // Only slot 0 has a head.
            (known, last) = (known.max(slot.head.id), last.max(slot.head.last));
        }
        let is_sound = |record: &Record<'_>| {
            id_of(record, base).is_some_and(can_begin_behind)
                && check(record.batch, heap_words).is_ok()
        };
        let counts = |record: &Record<'_>| is_missed(record, base, known);
        let (taken, is_torn) = slot.taken(None, is_sound, counts, &damaged)?;
        // A record that the heap image has may be gone: its slot has restarted.
        let last_sequence = taken.last().map_or(0, |record| record.sequence);
        if slot.witness.is_some_and(|(id, sequence)| id > known && sequence > last_sequence) {
            let end: usize = taken.iter().map(|record| slot.room(record)).sum();
            return Err(damaged(slot.at + 8 * end as u64));
        }
        torn |= is_torn;
        // The last record but one. A record without runs is that of a rollback, which waits for no
        // other transaction.
        let mut followed = taken.iter().rev().skip(1);
        let id = followed.find(|record| record.batch.len() > 1);
        let id = id.and_then(|record| id_of(record, base));
        proved = proved.max(id.map(|id| (id, slot.at)));
        for record in taken {
            let Some(id) = id_of(&record, base).filter(|id| *id > known) else { continue };
            let at = batches.len();
            batches.extend_from_slice(record.batch);
            places.push((id, at..batches.len()));
        }
    }
    if is_gapless && let Some((id, at)) = proved {
        let found = places.iter().filter(|(of, _)| *of <= id).count() as u64;
        if found < id.saturating_sub(known) {
            return Err(damaged(at));
        }
    }
    if !injected(Mutant::SlotOrder) {
        // Over all slots: a word's newest value must be stored last.
        places.sort_unstable_by_key(|(id, _)| *id);
    }
    let mut replayed = Replayed { last: TxId(known), transactions: 0, torn };
    for (id, place) in places {
        let batch = &batches[place];
        image.write_back(batch)?;
        replayed.last = replayed.last.max(TxId(id));
        // A record of `snapshot` may hold transactions of several workers, one mark each.
        let marks = Pieces::new(batch).filter(|piece| matches!(piece, Piece::Mark(_)));
        replayed.transactions += marks.count() as u64;
    }
    // The head's `last` matters under `snapshot`: a stamp may be less than its transaction's ID,
    // never more.
    replayed.last = replayed.last.max(TxId(last.saturating_add(replayed.transactions)));
    if replayed.transactions > 0 && !injected(Mutant::ReplayBarrierSkipped) {
        image.barrier()?;
    }
    Ok(replayed)
}

/// Whether a record that the scan did not reach should have been replayed. Every real record begins
/// with an ID. Without that condition a row of keys passes for any number of records: in
/// `tpcc-btree` the order lines of district 1 have keys that begin like records of generation 1.
fn is_missed(record: &Record<'_>, base: u64, known: u64) -> bool {
    id_of(record, base).is_some_and(|id| id > known)
}

/// Returns the absolute ID that a record of `redo` carries.
fn id_of(record: &Record<'_>, base: u64) -> Option<u64> {
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
        let slot = Slot { key, head: Head::default(), records, at: 0, unit, witness: None };
        let damaged = |at| Error::DamagedLog { path: "pool".into(), at };
        let counts = |record: &Record<'_>| is_missed(record, 0, 8);
        let (taken, torn) = slot.taken(None, |_| true, counts, &damaged).unwrap();
        assert_eq!((taken.len(), torn), (1, false));
    }

    #[test]
    fn replayable_record_after_gap_is_damage() {
        let (key, unit) = (Key::new(7, 1, 0), UNIT_WORDS);
        let mut records = vec![0; 64];
        records[32..38].copy_from_slice(&[0, 0, mark(9), run(5, 2), 42, 43]);
        key.seal(32, 3, &mut records[32..38]);
        let slot = Slot { key, head: Head::default(), records, at: 0, unit, witness: None };
        let damaged = |at| Error::DamagedLog { path: "pool".into(), at };
        let of = |known| {
            let counts = |record: &Record<'_>| is_missed(record, 0, known);
            slot.taken(None, |_| true, counts, &damaged).map(|(taken, _)| taken.len())
        };
        assert!(matches!(of(8), Err(Error::DamagedLog { .. })));
        assert_eq!(of(9).unwrap(), 0, "a record in the heap image may be missing");
    }

    /// A log in memory, with blocks of a file.
    struct Log(Vec<u64>);

    impl ReadLog for Log {
        fn bytes(&self) -> u64 {
            8 * self.0.len() as u64
        }

        fn block_bytes(&self) -> usize {
            4096
        }

        fn read(&self, at: u64, out: &mut [u64]) -> Result<(), medium::Error> {
            out.copy_from_slice(&self.0[at as usize / 8..][..out.len()]);
            Ok(())
        }
    }

    /// Refuses every word: nothing of these logs may be written.
    struct NoImage;

    impl HeapMedium for NoImage {
        fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
            panic!("recovery writes {writes:?}");
        }

        fn barrier(&mut self) -> Result<(), medium::Error> {
            Ok(())
        }

        fn counts(&self) -> medium::Counts {
            medium::Counts::default()
        }
    }

    #[test]
    fn record_beyond_the_heap_is_damage() {
        let (heap_bytes, log_bytes) = (1 << 20, 128 << 10);
        let superblock = crate::superblock::tests::superblock();
        let superblock = Superblock { heap_bytes, log_bytes, ..superblock };
        let layout = Layout::of(superblock.log_bytes);
        let at = layout.records_at(0) as usize / 8;
        let key = Key::new(superblock.pool, superblock.generation, 0);
        let last = (1 << 20) / 8 - 1;
        let all: [crate::registry::Replay; 3] = [take_back, replay, replay_all];
        for recover in all {
            for batch in [[mark(1), run(last, 2), 7, 8], [mark(1), run(last + 1, 2), 7, 8]] {
                let mut log = Log(vec![0; 128 << 7]);
                key.seal(0, 1, {
                    let record = &mut log.0[at..at + 6];
                    record[2..].copy_from_slice(&batch);
                    record
                });
                let recovered = recover(&superblock, &log, &mut NoImage, "log".as_ref());
                assert!(matches!(recovered, Err(Error::DamagedLog { .. })), "{recovered:?}");
            }
        }
    }

    #[test]
    fn search_stops_at_too_many_imitated_records() {
        let (key, unit, words) = (Key::new(7, 3, 0), UNIT_WORDS, 1 << 12);
        let (head, records) = (Head::default(), vec![0; words]);
        let mut slot = Slot { key, head, records, at: 0, unit, witness: None };
        let counts = |record: &Record<'_>| record.sequence >= 5;
        // Writes heads that claim a record as long as the rest of the slot.
        let mut imitate = |sequence, most| {
            for at in (0..words).step_by(unit).take(most) {
                let mut record = vec![1; words - at];
                key.seal(at, sequence, &mut record);
                slot.records[at..at + 2].copy_from_slice(&[record[0], !record[1] as u32 as u64]);
                slot.records[at + 1] |= record[1] >> 32 << 32;
            }
            slot.follows(0, counts)
        };
        assert!(!imitate(5, 8));
        // Claims that need not be there cost no checksum.
        assert!(!imitate(4, words));
        assert!(imitate(5, 9) && imitate(5, words));
    }
}
