//! What a crash left in the slots of a log.
//!
//! `undo`: a slot has the records of at most one transaction that is not over; they are taken back,
//! newest first. Transactions that are not over have taken different ownership records, so slots
//! need no order. `redo`: whole records are replayed in the order of their IDs, over all slots,
//! from the first that the head of slot 0 does not say to be at home.
//!
//! Both write what words are to be, whatever they are: a crash meanwhile is a crash like any other.
//! The log is emptied by who calls this: the superblock's next generation makes every record and
//! head void at once, when home is durable.
//!
//! What is found at a place decides by tables. (DudeTM, section 2.2.)

use std::path::Path;

use medium::mutants::{Mutant, planted};
use medium::writes::{Piece, Pieces, check};
use medium::{HomeMedium, ReadLog};
use words::TxId;

use super::format::{HEAD_WORDS, Head, Key, Layout, Record, UNIT_WORDS};
use crate::Error;
use crate::recover::Replayed;
use crate::superblock::{Superblock, can_begin_behind};

/// How many times a slot's words are read at most to find out which of the records that a search
/// meets are whole. Records do not overlap, so a slot that we have written needs one; only data
/// that imitate records need more.
const SEARCH_READS: usize = 8;

/// What lies where the next record would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    /// A whole record with the sequence that follows, of words of the heap.
    Next,
    /// The begin of one, and not the end.
    Begun,
    /// Anything else, but a whole record that follows later stands behind it.
    Gap,
    /// Anything else: nothing, or what is older.
    Nothing,
    /// A whole record that says what none says.
    Nonsense,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Take it, and look further.
    Take,
    /// The slot ends here.
    End,
    /// The slot ends here, in a write cut short: its barrier did not return, so no word that it is
    /// about was stored, and nobody was told.
    Torn,
    /// No crash leaves this.
    Refuse,
}

const TABLE: [(Lies, Then); 5] = [
    (Lies::Next, Then::Take),
    (Lies::Begun, Then::Torn),
    (Lies::Nothing, Then::End),
    // A record is written when the one before is durable: something that was is not.
    (Lies::Gap, Then::Refuse),
    (Lies::Nonsense, Then::Refuse),
];

fn decide(lies: Lies) -> Then {
    let row = TABLE.iter().find(|(row, _)| *row == lies);
    row.map_or(Then::Refuse, |(_, then)| *then)
}

/// A slot as it was read.
struct Slot {
    key: Key,
    head: Head,
    records: Vec<u64>,
    /// Bytes of the log before its records.
    at: u64,
    /// What a record takes is rounded up to this.
    unit: usize,
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
        if !can_begin_behind(head.id) || !can_begin_behind(head.last) {
            return Err(damaged(layout.head_at(slot, head.sequence)));
        }
        let (at, mut records) = (layout.records_at(slot), vec![0; layout.record_words()]);
        log.read(at, &mut records)?;
        let unit = (log.block_bytes() / 8).max(UNIT_WORDS);
        Ok(Slot { key, head, records, at, unit })
    }

    /// The records from this sequence on, `None` for whatever the first one has, and whether they
    /// end in a torn one. `counts` says of a whole record that it must not be missed.
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
            let lies = match record {
                Some(record) if record.sequence == sequence => match is_sound(&record) {
                    true => Lies::Next,
                    false => Lies::Nonsense,
                },
                _ if self.follows(at, &counts) => Lies::Gap,
                _ if next.is_some() && self.key.is_begun(at, sequence, &self.records) => {
                    Lies::Begun
                }
                _ => Lies::Nothing,
            };
            match (decide(lies), record) {
                (Then::Take, Some(record)) => {
                    taken.push(record);
                    at += record.words().next_multiple_of(self.unit);
                    // Records of one transaction of `undo` have one sequence.
                    next = Some(if from.is_some() { sequence } else { sequence + 1 });
                }
                (Then::Torn, _) => return Ok((taken, true)),
                (Then::End, _) => return Ok((taken, false)),
                _ => return Err(damaged(self.at + 8 * at as u64)),
            }
        }
    }

    /// Whether a whole record that must not be missed stands at word `at` or behind it; also when
    /// there are more that say so than records could be: they are data that imitate them. Nobody's
    /// slot has that but who means to keep us busy.
    fn follows(&self, at: usize, counts: impl Fn(&Record<'_>) -> bool) -> bool {
        let mut left = SEARCH_READS * self.records.len();
        for at in (at..self.records.len()).step_by(self.unit) {
            // What need not be there is not read: of what was overwritten, most is left.
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

/// For errors: where the log is damaged.
fn damaged<'a>(superblock: &'a Superblock, path: &'a Path) -> impl Fn(u64) -> Error + 'a {
    |at| Error::DamagedLog { path: path.into(), at: superblock.log_offset + at }
}

/// `undo`: takes back what transactions that were not over have written. Durable on return: one
/// persist barrier, none when there was nothing to take back.
pub(crate) fn take_back(
    superblock: &Superblock,
    log: &dyn ReadLog,
    home: &mut dyn HomeMedium,
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
        replayed.torn |= torn;
        replayed.transactions += u64::from(!records.is_empty());
        if !planted(Mutant::OldestFirst) {
            records.reverse();
        }
        for record in records {
            home.write_back(&newest_first(record.batch))?;
        }
    }
    if replayed.transactions > 0 && !planted(Mutant::ReplayBarrierSkipped) {
        home.barrier()?;
    }
    Ok(replayed)
}

/// A batch with its runs in reverse: on `file` all of a transaction's are in one record.
fn newest_first(batch: &[u64]) -> Vec<u64> {
    let pieces: Vec<Piece<'_>> = Pieces::new(batch).collect();
    let mut reversed = Vec::with_capacity(batch.len());
    let put = |piece: &Piece<'_>| {
        if let Piece::Run(index, words) = piece {
            reversed.push(medium::writes::run(*index, words.len()));
            reversed.extend_from_slice(words);
        }
    };
    match planted(Mutant::OldestFirst) {
        false => pieces.iter().rev().for_each(put),
        true => pieces.iter().for_each(put),
    }
    reversed
}

/// `redo`, `snapshot`: brings home what records say that are not known to be there. Durable on
/// return: one persist barrier, none when there was nothing to replay.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    home: &mut dyn HomeMedium,
    path: &Path,
) -> Result<Replayed, Error> {
    let (heap_words, damaged) = (superblock.heap_bytes / 8, damaged(superblock, path));
    let base = superblock.reproduced;
    let (mut known, mut last) = (base, base);
    let mut torn = false;
    // The batches of what is replayed, and ID and place of each record: not all slots at a time.
    let (mut batches, mut places) = (Vec::new(), Vec::new());
    for number in 0..Layout::of(superblock.log_bytes).slots {
        let slot = Slot::read(superblock, log, number, &damaged)?;
        if number == 0 {
            // The others have none.
            (known, last) = (known.max(slot.head.id), last.max(slot.head.last));
        }
        let is_sound = |record: &Record<'_>| {
            id_of(record, base).is_some_and(can_begin_behind)
                && check(record.batch, heap_words).is_ok()
        };
        let counts = |record: &Record<'_>| is_missed(record, base, known);
        let (taken, is_torn) = slot.taken(None, is_sound, counts, &damaged)?;
        torn |= is_torn;
        for record in taken {
            let Some(id) = id_of(&record, base).filter(|id| *id > known) else { continue };
            let at = batches.len();
            batches.extend_from_slice(record.batch);
            places.push((id, at..batches.len()));
        }
    }
    if !planted(Mutant::SlotOrder) {
        places.sort_unstable_by_key(|(id, _)| *id);
    }
    let mut replayed = Replayed { last: TxId(known), transactions: 0, torn };
    for (id, place) in places {
        let batch = &batches[place];
        home.write_back(batch)?;
        replayed.last = replayed.last.max(TxId(id));
        // `snapshot`: of several workers.
        let marks = Pieces::new(batch).filter(|piece| matches!(piece, Piece::Mark(_)));
        replayed.transactions += marks.count() as u64;
    }
    // `snapshot`: a stamp is no larger than its transaction's ID, and may be less.
    replayed.last = replayed.last.max(TxId(last.saturating_add(replayed.transactions)));
    if replayed.transactions > 0 && !planted(Mutant::ReplayBarrierSkipped) {
        home.barrier()?;
    }
    Ok(replayed)
}

/// Whether a record that was not reached is one to replay. All of ours begin with an ID: without
/// that condition a row of keys passes for records without end. (In `tpcc-btree` the lines of
/// district 1 have keys that begin as records of generation 1 do.)
fn is_missed(record: &Record<'_>, base: u64, known: u64) -> bool {
    id_of(record, base).is_some_and(|id| id > known)
}

/// The ID that a record of `redo` carries, over that of the superblock.
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

    /// A sound pool was refused after a crash, for what its objects held.
    #[test]
    fn keys_that_begin_as_records_do_are_no_missing_records() {
        let (key, unit, words) = (Key::new(7, 1, 0), UNIT_WORDS, 1 << 18);
        let mut records: Vec<u64> = (0..words).map(|n| 1 << 48 | n).collect();
        records[..6].copy_from_slice(&[0, 0, mark(9), run(5, 2), 42, 43]);
        key.seal(0, 3, &mut records[..6]);
        let slot = Slot { key, head: Head::default(), records, at: 0, unit };
        let damaged = |at| Error::DamagedLog { path: "pool".into(), at };
        let counts = |record: &Record<'_>| is_missed(record, 0, 8);
        let (taken, torn) = slot.taken(None, |_| true, counts, &damaged).unwrap();
        assert_eq!((taken.len(), torn), (1, false));
    }

    #[test]
    fn a_record_with_an_id_to_replay_is_missed_behind_a_gap() {
        let (key, unit) = (Key::new(7, 1, 0), UNIT_WORDS);
        let mut records = vec![0; 64];
        records[32..38].copy_from_slice(&[0, 0, mark(9), run(5, 2), 42, 43]);
        key.seal(32, 3, &mut records[32..38]);
        let slot = Slot { key, head: Head::default(), records, at: 0, unit };
        let damaged = |at| Error::DamagedLog { path: "pool".into(), at };
        let of = |known| {
            let counts = |record: &Record<'_>| is_missed(record, 0, known);
            slot.taken(None, |_| true, counts, &damaged).map(|(taken, _)| taken.len())
        };
        assert!(matches!(of(8), Err(Error::DamagedLog { .. })));
        assert_eq!(of(9).unwrap(), 0, "what is known to be at home may be gone");
    }

    #[test]
    fn a_search_gives_up_when_more_says_that_it_is_a_record_than_could_be() {
        let (key, unit, words) = (Key::new(7, 3, 0), UNIT_WORDS, 1 << 12);
        let mut slot = Slot { key, head: Head::default(), records: vec![0; words], at: 0, unit };
        let counts = |record: &Record<'_>| record.sequence >= 5;
        // So many that begin somewhere and say that they fill the rest of the slot.
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
        // What need not be there costs nothing.
        assert!(!imitate(4, words));
        assert!(imitate(5, 9) && imitate(5, words));
    }
}
