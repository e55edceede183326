//! What is in the log area of a pool that was last written by `undo`, `redo` or
//! `snapshot`.
//!
//! # Durable format: slots
//!
//! The log area is cut into equal slots, one for each worker: as many as there are pieces of
//! 64 KiB in it, at least 4 and at most 64, each a whole number of pages. A slot has two copies of
//! its head, in pages of their own, and then records:
//!
//! ```text
//!   bytes  0          | slot head, copy 0                                 |
//!          4096       | slot head, copy 1                                 |
//!          8192..     | record | record | ...                             |
//! ```
//!
//! # Durable format: slot head
//!
//! Each change goes to the copy that is its sequence modulo 2; the valid copy with the higher
//! sequence counts. A head of another pool, generation or slot is none: sequence 0, transaction 0.
//!
//! ```text
//!   word   0      | "LWSLOTHD"                                         |
//!          1      | pool ID                                            |
//!          2      | generation                                         |
//!          3      | slot                                               |
//!          4      | sequence                                           |
//!          5      | transaction ID                                     |
//!          6      | `snapshot`: last ID; else 0                        |
//!          7      | 0 (32)                 | CRC-32C of words 0..6     |
//! ```
//!
//! `undo`: all records with this sequence or a lower one are of transactions that are over, of
//! which the last one of this slot was `transaction ID`. `redo`: only the head of slot 0 is used;
//! of all slots, every record of a transaction up to `transaction ID` is at home. `snapshot`: the
//! same by the records' stamps; no transaction whose record is at home has an ID above `last ID`.
//!
//! # Durable format: slot record
//!
//! A record begins at a multiple of 64 bytes, and of 4096 in a log of its own; what is left of the
//! last such block is undefined.
//!
//! ```text
//!   word   0      | generation (low 16)    | sequence (48)             |
//!          1      | words of the batch (32)| CRC-32C (32)              |
//!          2..    | a batch of writes                                  |
//! ```
//!
//! The checksum covers pool ID, generation, slot, the record's place, word 0, and the batch.
//! `undo`: the batch holds what words were before the transaction; its sequence is one more than
//! that of the head. `redo`: the batch begins with a mark that carries the transaction's ID less
//! the superblock's reproduced ID, and holds what words become; the sequence is one more than that
//! of the record before. `snapshot`: as `redo`, with the record's stamp in place of an ID; on
//! `file` a record may have several workers' transactions, and that mark before the words of each.

use medium::mutants::{Mutant, planted};
use zerocopy::IntoBytes;

/// Slots at most: workers at a time.
pub(super) const SLOTS_MAX: usize = 64;
/// Slots at least: the smallest log has 128 KiB.
const SLOTS_MIN: usize = 4;
/// No slot is smaller than this, where there are more.
const SLOT_BYTES_MIN: u64 = 64 << 10;
/// What the copies of a head are aligned to, so that no device write holds two.
const HEAD_BYTES: u64 = 4096;
/// Where records begin in a slot.
const RECORDS_AT: u64 = 2 * HEAD_BYTES;
/// Words of a head.
pub(super) const HEAD_WORDS: usize = 8;
/// Words of a record before its batch.
pub(super) const RECORD_HEAD_WORDS: usize = 2;
/// Records begin at multiples of this.
pub(super) const UNIT_WORDS: usize = 8;

const MAGIC: u64 = u64::from_le_bytes(*b"LWSLOTHD");
const SEQUENCE_BITS: u32 = 48;

/// How a log area is cut into slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slots: usize,
    slot_bytes: u64,
}

impl Layout {
    pub(super) fn of(log_bytes: u64) -> Layout {
        let slots = (log_bytes / SLOT_BYTES_MIN).clamp(SLOTS_MIN as u64, SLOTS_MAX as u64);
        Layout { slots: slots as usize, slot_bytes: (log_bytes / slots) & !(HEAD_BYTES - 1) }
    }

    /// Where a copy of a slot's head is in the log area.
    pub(super) fn head_at(self, slot: usize, sequence: u64) -> u64 {
        slot as u64 * self.slot_bytes + sequence % 2 * HEAD_BYTES
    }

    /// Where a slot's records are in the log area.
    pub(super) fn records_at(self, slot: usize) -> u64 {
        slot as u64 * self.slot_bytes + RECORDS_AT
    }

    /// Words of a slot for records.
    pub(super) fn record_words(self) -> usize {
        (self.slot_bytes.saturating_sub(RECORDS_AT) / 8) as usize
    }
}

/// What a slot's head says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) sequence: u64,
    pub(super) id: u64,
    pub(super) last: u64,
}

/// What every head and record of a slot is sealed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pool: u64,
    generation: u64,
    slot: u64,
    /// CRC-32C of the three.
    seed: u32,
}

impl Key {
    pub(super) fn new(pool: u64, generation: u64, slot: usize) -> Key {
        let slot = slot as u64;
        Key { pool, generation, slot, seed: crc32c::crc32c([pool, generation, slot].as_bytes()) }
    }

    pub(super) fn head(&self, head: Head) -> [u64; HEAD_WORDS] {
        let Key { pool, generation, slot, .. } = *self;
        let Head { sequence, id, last } = head;
        let mut words = [MAGIC, pool, generation, slot, sequence, id, last, 0];
        words[7] = u64::from(crc32c::crc32c(words[..7].as_bytes()));
        words
    }

    pub(super) fn open_head(&self, words: &[u64; HEAD_WORDS]) -> Option<Head> {
        let head = Head { sequence: words[4], id: words[5], last: words[6] };
        (*words == self.head(head)).then_some(head)
    }

    fn first_word(&self, sequence: u64) -> u64 {
        self.generation << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
    }

    fn crc(&self, at: usize, first: u64, batch: &[u64]) -> u32 {
        let crc = crc32c::crc32c_append(self.seed, [at as u64, first].as_bytes());
        crc32c::crc32c_append(crc, batch.as_bytes())
    }

    /// Seals a record that begins at word `at` of the slot's records; its batch stands behind two
    /// words that are filled in here.
    #[inline]
    pub(super) fn seal(&self, at: usize, sequence: u64, record: &mut [u64]) {
        let (head, batch) = record.split_at_mut(RECORD_HEAD_WORDS);
        let first = self.first_word(sequence);
        let crc = self.crc(at, first, batch);
        head.copy_from_slice(&[first, (batch.len() as u64) << 32 | u64::from(crc)]);
    }

    /// The record that is said to begin at word `at` of a slot's records, if one of this key is;
    /// nothing of it is checked.
    pub(super) fn claimed<'r>(&self, at: usize, records: &'r [u64]) -> Option<Record<'r>> {
        let [first, second, rest @ ..] = records.get(at..)? else { return None };
        let batch = rest.get(..(second >> 32) as usize)?;
        if first >> SEQUENCE_BITS != self.generation & 0xffff || batch.is_empty() {
            return None;
        }
        Some(Record { sequence: first & ((1 << SEQUENCE_BITS) - 1), batch })
    }

    /// The record at word `at` of a slot's records, if one of this key is there, whole.
    pub(super) fn open<'r>(&self, at: usize, records: &'r [u64]) -> Option<Record<'r>> {
        self.open_part(0, at, records)
    }

    /// The same, where `records` begin at word `first` of the slot's.
    pub(super) fn open_part<'r>(
        &self,
        first: usize,
        at: usize,
        records: &'r [u64],
    ) -> Option<Record<'r>> {
        let record = self.claimed(at, records)?;
        let whole = self.crc(first + at, records[at], record.batch) == records[at + 1] as u32
            || planted(Mutant::ChecksumIgnored);
        whole.then_some(record)
    }

    /// Whether a record of this key was begun at word `at`, with this sequence.
    pub(super) fn is_begun(&self, at: usize, sequence: u64, records: &[u64]) -> bool {
        records.get(at).is_some_and(|&first| first == self.first_word(sequence))
    }
}

/// A whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'r> {
    pub(super) sequence: u64,
    pub(super) batch: &'r [u64],
}

impl Record<'_> {
    /// Its words, head included.
    pub(super) fn words(&self) -> usize {
        RECORD_HEAD_WORDS + self.batch.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use medium::writes::{mark, run};

    const POOL: u64 = 0x1234_5678_9abc_def0;

    #[test]
    fn slots_cover_a_log_and_lie_apart() {
        for log_bytes in [128 << 10, 4 << 20, 64 << 20, (1 << 30) + 4096] {
            let layout = Layout::of(log_bytes);
            assert!(layout.slots >= 4 && layout.record_words() >= 2048, "{layout:?}");
            let end = |slot| layout.records_at(slot) + 8 * layout.record_words() as u64;
            for slot in 1..layout.slots {
                assert!(end(slot - 1) <= layout.head_at(slot, 0));
                assert_eq!(layout.head_at(slot, 3) - layout.head_at(slot, 2), 4096);
            }
            assert!(end(layout.slots - 1) <= log_bytes);
        }
    }

    /// The words as they were when format 3 was set: another result is another format.
    #[test]
    fn heads_and_records_are_laid_out_as_format_3_says() {
        let key = Key::new(POOL, 3, 2);
        let golden = [
            0x4448_544f_4c53_574c,
            0x1234_5678_9abc_def0,
            0x0000_0000_0000_0003,
            0x0000_0000_0000_0002,
            0x0000_0000_0000_0007,
            0x0000_0000_0000_0063,
            0x0000_0000_0000_0000,
            0x0000_0000_0ab2_6211,
        ];
        assert_eq!(key.head(Head { sequence: 7, id: 99, last: 0 }), golden);
        assert_eq!(key.open_head(&golden), Some(Head { sequence: 7, id: 99, last: 0 }));
        let mut record = [0, 0, mark(99), run(5, 2), 42, 43];
        key.seal(16, 8, &mut record);
        assert_eq!(record[..2], [0x0003_0000_0000_0008, 0x0000_0004_5165_8442]);
    }

    #[test]
    fn a_record_or_head_with_any_bit_changed_or_of_anything_else_is_none() {
        let key = Key::new(POOL, 3, 2);
        let mut records = [0; 16];
        records[10..13].copy_from_slice(&[mark(99), run(5, 1), 42]);
        key.seal(8, 7, &mut records[8..13]);
        let record = key.open(8, &records).expect("it is whole");
        assert_eq!((record.sequence, record.batch.len(), record.words()), (7, 3, 5));
        assert!(key.is_begun(8, 7, &records) && !key.is_begun(8, 8, &records));
        for bit in 0..5 * 64 {
            let mut changed = records;
            changed[8 + bit / 64] ^= 1 << (bit % 64);
            assert_eq!(key.open(8, &changed), None, "bit {bit}");
        }
        let moved: Vec<u64> = records[8..].to_vec();
        assert_eq!(key.open(0, &moved), None);
        let head = key.head(Head { sequence: 7, id: 99, last: 0 });
        for bit in 0..8 * 64 {
            let mut changed = head;
            changed[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(key.open_head(&changed), None, "bit {bit}");
        }
        for other in [Key::new(1, 3, 2), Key::new(POOL, 4, 2), Key::new(POOL, 3, 1)] {
            assert_eq!(other.open(8, &records), None);
            assert_eq!(other.open_head(&head), None);
        }
        // A generation that has the same low bits.
        assert_eq!(Key::new(POOL, 3 + (1 << 16), 2).open(8, &records), None);
    }
}
