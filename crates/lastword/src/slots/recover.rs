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
//! Source: DudeTM, section 2.2.

use std::ops::Range;
use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, check};
use medium::{HeapMedium, ReadLog};
use words::TxId;

use super::format::{Layout, Record};
use super::records::{Damage, End, Slot, id_of, is_missed};
use super::witnesses::Says;
use crate::error::{Error, LogDamage};
use crate::recover::Replayed;
use crate::superblock::{Superblock, can_begin_behind};

/// The treatment of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damaged<'a> {
    /// An error about the log at this offset in this file.
    Refused(u64, &'a Path),
    /// The damaged slot is left out, as far as it is damaged. For a salvage.
    LeftOut,
}

impl Damaged<'_> {
    /// # Errors
    /// The damage, unless it is left out.
    fn take(self, found: Option<Damage>) -> Result<(), Error> {
        let (Some((at, why)), Damaged::Refused(offset, path)) = (found, self) else {
            return Ok(());
        };
        let why = match why {
            LogDamage::RecordLost { proof } => LogDamage::RecordLost { proof: offset + proof },
            LogDamage::Gap { missing, proof } => LogDamage::Gap { missing, proof: offset + proof },
            why => why,
        };
        Err(Error::DamagedLog { path: path.into(), at: offset + at, why })
    }
}

/// Rolls back the unfinished transactions of `undo`. Durable on return: one persist barrier, or
/// none if every transaction was finished.
pub(crate) fn take_back(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    path: &Path,
) -> Result<Replayed, Error> {
    take_back_with(superblock, log, image, Damaged::Refused(superblock.log_offset, path))
}

/// Rolls back the unfinished transactions of intact slots, in a copy of the heap image.
pub(crate) fn salvage_undo(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    _path: &Path,
) -> Result<Replayed, Error> {
    take_back_with(superblock, log, image, Damaged::LeftOut)
}

fn take_back_with(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    damaged: Damaged<'_>,
) -> Result<Replayed, Error> {
    let heap_words = superblock.heap_bytes / 8;
    let last = TxId(superblock.reproduced);
    let mut replayed = Replayed { last, transactions: 0, torn: false };
    // Applied after all slots are read, so damage of a later slot leaves the heap image unchanged.
    let mut batches: Vec<Vec<u64>> = Vec::new();
    for slot in 0..Layout::of(superblock.log_bytes).slots {
        let (slot, mut damage) = Slot::read(superblock, log, slot)?;
        damaged.take(damage)?;
        let is_sound = |record: &Record<'_>| check(record.batch, heap_words).is_ok();
        let next = slot.head.sequence + 1;
        let counts = |record: &Record<'_>| record.sequence >= next;
        let (mut records, found) = slot.taken(Some(next), is_sound, counts);
        let end = slot.end_of(&records);
        // Of a later sequence: its head was durable, and is lost.
        let is_lost = |&(of, to): &Says| of > next || of == next && slot.at + 8 * to > end;
        match found {
            End::Damaged(found) => damage = Some(found),
            _ if slot.witnesses.iter().any(is_lost) => damage = Some((end, LogDamage::SlotEndLost)),
            _ => {}
        }
        damaged.take(damage)?;
        if damage.is_some() {
            continue; // without all its records a transaction cannot be rolled back
        }
        replayed.last = replayed.last.max(TxId(slot.head.id));
        replayed.torn |= found == End::Torn;
        replayed.transactions += u64::from(!records.is_empty());
        if !injected(Mutant::OldestFirst) {
            // Newest first: a granule's oldest record has the value from before the transaction.
            records.reverse();
        }
        batches.extend(records.iter().map(|record| newest_first(record.batch)));
        if injected(Mutant::AppliedBeforeChecked) {
            batches.drain(..).try_for_each(|batch| image.write_back(&batch))?;
        }
    }
    batches.iter().try_for_each(|batch| image.write_back(batch))?;
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
    let damaged = Damaged::Refused(superblock.log_offset, path);
    replay_with(superblock, log, image, damaged, !injected(Mutant::GapsIgnored))
}

/// Replays the records of `snapshot` in the same way. Their stamps have gaps.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    path: &Path,
) -> Result<Replayed, Error> {
    let damaged = Damaged::Refused(superblock.log_offset, path);
    replay_with(superblock, log, image, damaged, false)
}

/// Replays the whole records of a damaged log of `redo` or `snapshot` in a copy of the heap image.
pub(crate) fn salvage(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    _path: &Path,
) -> Result<Replayed, Error> {
    replay_with(superblock, log, image, Damaged::LeftOut, false)
}

/// Records to replay, of all slots.
#[derive(Default)]
struct Found {
    batches: Vec<u64>,
    /// The ID or stamp of each batch, and its place in `batches`.
    places: Vec<(u64, Range<usize>)>,
    torn: bool,
    /// The place of a torn record.
    torn_at: Option<u64>,
    /// The last ID that a later record of its slot proves, and the place of that record.
    proved: Option<(u64, u64)>,
}

impl Found {
    /// Takes a slot's records with an ID above `known`. Returns the slot's damage.
    fn add(&mut self, slot: &Slot, base: u64, known: u64, heap_words: u64) -> Option<Damage> {
        let is_sound = |record: &Record<'_>| {
            id_of(record, base).is_some_and(can_begin_behind)
                && check(record.batch, heap_words).is_ok()
        };
        let counts = |record: &Record<'_>| is_missed(record, base, known);
        let (taken, found) = slot.taken(None, is_sound, counts);
        let end = slot.end_of(&taken);
        // A record that the heap image has may be gone: its slot has restarted.
        let last_sequence = taken.last().map_or(0, |record| record.sequence);
        let is_lost = |&(id, sequence): &Says| id > known && sequence > last_sequence;
        let damage = match found {
            End::Damaged(damage) => Some(damage),
            _ => slot.witnesses.iter().any(is_lost).then_some((end, LogDamage::SlotEndLost)),
        };
        if found == End::Torn {
            (self.torn, self.torn_at) = (true, Some(end));
        }
        // The last record but one. A record without runs is that of a rollback, which waits for no
        // other transaction.
        let is_proof = |count: &usize| taken[*count - 1].batch.len() > 1;
        if let Some(count) = (1..taken.len()).rfind(is_proof)
            && let Some(id) = id_of(&taken[count - 1], base)
        {
            self.proved = self.proved.max(Some((id, slot.end_of(&taken[..count]))));
        }
        for record in taken {
            let Some(id) = id_of(&record, base).filter(|id| *id > known) else { continue };
            let at = self.batches.len();
            self.batches.extend_from_slice(record.batch);
            self.places.push((id, at..self.batches.len()));
        }
        damage
    }

    /// Returns the damage of a log without gaps in its IDs whose slots lack a proved one.
    fn gap(&self, known: u64) -> Option<Damage> {
        let (last, proof) = self.proved?;
        let mut ids: Vec<u64> = self.places.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let missing = (known + 1..).zip(&ids).find(|(next, id)| next != *id);
        let missing = missing.map_or(known + 1 + ids.len() as u64, |(next, _)| next);
        let at = self.torn_at.unwrap_or(proof);
        (missing <= last).then_some((at, LogDamage::Gap { missing: TxId(missing), proof }))
    }
}

fn replay_with(
    superblock: &Superblock,
    log: &dyn ReadLog,
    image: &mut dyn HeapMedium,
    damaged: Damaged<'_>,
    is_gapless: bool,
) -> Result<Replayed, Error> {
    let (base, heap_words) = (superblock.reproduced, superblock.heap_bytes / 8);
    let (mut known, mut last) = (base, base);
    // Only batches to replay are kept, with the ID and place of each, so one slot's records are in
    // memory at a time.
    let mut found = Found::default();
    for number in 0..Layout::of(superblock.log_bytes).slots {
        let (slot, damage) = Slot::read(superblock, log, number)?;
        damaged.take(damage)?;
        if damage.is_some() && number == 0 {
            // The head says which records the heap image has. Others would overwrite newer words.
            return Ok(Replayed { last: TxId(base), transactions: 0, torn: false });
        }
        if number == 0 {
            // Only slot 0 has a head.
            (known, last) = (known.max(slot.head.id), last.max(slot.head.last));
        }
        damaged.take(found.add(&slot, base, known, heap_words))?;
    }
    if is_gapless {
        damaged.take(found.gap(known))?;
    }
    let Found { batches, mut places, torn, .. } = found;
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

#[cfg(test)]
mod tests {
    use medium::writes::{mark, run};

    use super::*;
    use crate::slots::format::Key;

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
}
