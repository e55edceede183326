//! The durable format of the log area under `undo`, `redo` and `snapshot`.
//!
//! # Durable format: slots
//!
//! The log area is divided into equal slots, one for each worker. Their number is the log's size in
//! pieces of 64 KiB, at least 4 and at most 64. Each slot is a whole number of pages. A slot holds
//! two copies of its head, each in a page of its own, followed by records:
//!
//! ```text
//!   bytes  0          | slot head, copy 0                                 |
//!          4096       | slot head, copy 1                                 |
//!          8192..     | record | record | ...                             |
//! ```
//!
//! # Durable format: slot head
//!
//! Each change is written to the copy whose index is its sequence modulo 2. The valid copy with the
//! higher sequence counts. A head of another pool, generation or slot is invalid; without a valid
//! head the slot has sequence 0 and transaction 0.
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
//! | design | meaning of a head |
//! |---|---|
//! | `undo` | records up to this sequence are finished; `transaction ID` is the slot's last |
//! | `redo` | in slot 0 alone: the heap image has all slots' records up to `transaction ID` |
//! | `snapshot` | as `redo`, by stamps; `last ID` bounds the IDs of applied transactions |
//!
//! On mapped media each head is stored twice, for one barrier. The second copy lies 128 bytes into
//! the page of the other first copy, so the loss of one page loses no head.
//!
//! # Durable format: slot witness
//!
//! On mapped media the pages of the heads also have witnesses, each in a line of its own. A witness
//! says that a record was durable, and lies in another page. So recovery detects a last record that
//! was damaged after its barrier, which would otherwise look like a torn one. A witness is stored
//! after that barrier; see `witnesses`. After a power failure it may be older, or torn, and so
//! invalid. An invalid witness says nothing.
//!
//! ```text
//!   bytes  64         | witness of one of the last two records            |
//!          192        | witness of the first record that reaches a page   |
//!
//!   word   0      | `undo`: sequence; else ID or stamp              |
//!          1      | `undo`: end of the record, in words; else its sequence |
//!          2      | check (32)             | generation (low 32)       |
//! ```
//!
//! `check` is the upper half of (((a ^ p) * m ^ b) * m) modulo 2^64. Here a and b are words 0 and
//! 1, p is the CRC-32C of pool ID, generation and slot, and m is 0x9e3779b97f4a7c15. A program
//! that knows no witnesses neither reads nor writes these bytes.
//!
//! # Durable format: slot record
//!
//! A record begins at a multiple of 64 bytes, or of 4096 in a log file of its own. The rest of its
//! last block is undefined.
//!
//! ```text
//!   word   0      | generation (low 16)    | sequence (48)             |
//!          1      | words of the batch (32)| CRC-32C (32)              |
//!          2..    | a batch of writes                                  |
//! ```
//!
//! The checksum covers pool ID, generation, slot, the record's place, word 0, and the batch.
//!
//! | design | batch | sequence |
//! |---|---|---|
//! | `undo` | the old values of words | one more than the head's |
//! | `redo` | a mark, then the new values | one more than the previous record's |
//! | `snapshot` | as `redo`, with the record's stamp in place of the ID | as `redo` |
//!
//! A mark contains the transaction's ID minus the superblock's reproduced ID. On `file` a record of
//! `snapshot` may hold transactions of several workers, each preceded by that mark.

use medium::mutants::{Mutant, injected};
use zerocopy::IntoBytes;

/// Maximum slots, and so workers at a time.
pub(super) const SLOTS_MAX: usize = 64;
/// Minimum slots: the smallest log has 128 KiB.
const SLOTS_MIN: usize = 4;
/// Minimum size of a slot in a log of more than [`SLOTS_MIN`] slots.
const SLOT_BYTES_MIN: u64 = 64 << 10;
/// Alignment of the copies of a head, so that no device write covers both.
pub(super) const HEAD_BYTES: u64 = 4096;
/// Offsets in the page of a head.
const RECORD_WITNESS_AT: u64 = 64;
const SECOND_COPY_AT: u64 = 128;
const PAGE_WITNESS_AT: u64 = 192;
pub(super) const WITNESS_WORDS: usize = 3;
/// Witnesses of each kind in a slot.
pub(super) const WITNESSES: usize = 2;
/// Offset of the records in a slot.
const RECORDS_AT: u64 = 2 * HEAD_BYTES;
pub(super) const HEAD_WORDS: usize = 8;
/// Words of a record before its batch.
pub(super) const RECORD_HEAD_WORDS: usize = 2;
/// Alignment of records.
pub(super) const UNIT_WORDS: usize = 8;

const MAGIC: u64 = u64::from_le_bytes(*b"LWSLOTHD");
const SEQUENCE_BITS: u32 = 48;

/// The division of a log area into slots.
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

    /// Returns the offset in the log area of the copy of a slot's head that this sequence uses.
    pub(super) fn head_at(self, slot: usize, sequence: u64) -> u64 {
        slot as u64 * self.slot_bytes + sequence % 2 * HEAD_BYTES
    }

    /// Returns the offset in the log area of a witness of one of the last records of a slot.
    pub(super) fn record_witness_at(self, slot: usize, number: usize) -> u64 {
        self.head_at(slot, number as u64) + RECORD_WITNESS_AT
    }

    /// Returns the offset in the log area of the second copy of that head on mapped media: in the
    /// other page.
    pub(super) fn second_head_at(self, slot: usize, sequence: u64) -> u64 {
        self.head_at(slot, sequence.wrapping_add(1)) + SECOND_COPY_AT
    }

    /// Returns the offset in the log area of a witness of a page.
    pub(super) fn page_witness_at(self, slot: usize, number: usize) -> u64 {
        self.head_at(slot, number as u64) + PAGE_WITNESS_AT
    }

    /// Returns the offset of a slot's records in the log area.
    pub(super) fn records_at(self, slot: usize) -> u64 {
        slot as u64 * self.slot_bytes + RECORDS_AT
    }

    /// Returns the words for records in a slot.
    pub(super) fn record_words(self) -> usize {
        (self.slot_bytes.saturating_sub(RECORDS_AT) / 8) as usize
    }
}

/// The fields of a slot's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) sequence: u64,
    pub(super) id: u64,
    pub(super) last: u64,
}

/// The identity that seals every head and record of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pool: u64,
    generation: u64,
    slot: u64,
    /// CRC-32C of the three fields above.
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

    /// Returns the words of a witness.
    #[inline]
    pub(super) fn witness(&self, a: u64, b: u64) -> [u64; WITNESS_WORDS] {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (a ^ u64::from(self.seed)).wrapping_mul(SPREAD) ^ b;
        let check = mixed.wrapping_mul(SPREAD) >> 32 << 32;
        [a, b, check | self.generation & 0xffff_ffff]
    }

    /// Returns what a witness of this key says.
    pub(super) fn open_witness(&self, words: &[u64; WITNESS_WORDS]) -> Option<(u64, u64)> {
        let [a, b, _] = *words;
        (*words == self.witness(a, b)).then_some((a, b))
    }

    fn first_word(&self, sequence: u64) -> u64 {
        self.generation << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
    }

    fn crc(&self, at: usize, first: u64, batch: &[u64]) -> u32 {
        let crc = crc32c::crc32c_append(self.seed, [at as u64, first].as_bytes());
        crc32c::crc32c_append(crc, batch.as_bytes())
    }

    /// Seals a record at word `at` of the slot's records: fills in the two words before its batch.
    #[inline]
    pub(super) fn seal(&self, at: usize, sequence: u64, record: &mut [u64]) {
        let (head, batch) = record.split_at_mut(RECORD_HEAD_WORDS);
        let first = self.first_word(sequence);
        let crc = self.crc(at, first, batch);
        head.copy_from_slice(&[first, (batch.len() as u64) << 32 | u64::from(crc)]);
    }

    /// Returns the record that claims to begin at word `at` of a slot's records and to be of this
    /// generation. Verifies nothing else.
    pub(super) fn claimed<'r>(&self, at: usize, records: &'r [u64]) -> Option<Record<'r>> {
        let [first, second, rest @ ..] = records.get(at..)? else { return None };
        let batch = rest.get(..(second >> 32) as usize)?;
        if first >> SEQUENCE_BITS != self.generation & 0xffff || batch.is_empty() {
            return None;
        }
        Some(Record { sequence: first & ((1 << SEQUENCE_BITS) - 1), batch })
    }

    /// Returns the record at word `at` of a slot's records, if a whole one with this key is there.
    pub(super) fn open<'r>(&self, at: usize, records: &'r [u64]) -> Option<Record<'r>> {
        self.open_part(0, at, records)
    }

    /// Returns the record with this sequence at word `at` of `records`, which begin at word `first`
    /// of the slot's.
    pub(super) fn open_next<'r>(
        &self,
        first: usize,
        at: usize,
        sequence: u64,
        records: &'r [u64],
    ) -> Option<Record<'r>> {
        let record = self.open_part(first, at, records)?;
        self.is_begun(at, sequence, records).then_some(record)
    }

    fn open_part<'r>(&self, first: usize, at: usize, records: &'r [u64]) -> Option<Record<'r>> {
        let record = self.claimed(at, records)?;
        let whole = self.crc(first + at, records[at], record.batch) == records[at + 1] as u32
            || injected(Mutant::ChecksumIgnored);
        whole.then_some(record)
    }

    /// Whether word `at` holds the first word of a record with this key and sequence.
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
    /// Returns the record's words, head included.
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
    fn slots_fit_the_log_without_overlap() {
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

    /// Golden words of format 3: any other result is another format.
    #[test]
    fn heads_and_records_match_format_3() {
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
    fn flipped_bit_or_foreign_key_is_rejected() {
        let key = Key::new(POOL, 3, 2);
        let mut records = [0; 16];
        records[10..13].copy_from_slice(&[mark(99), run(5, 1), 42]);
        key.seal(8, 7, &mut records[8..13]);
        let record = key.open(8, &records).expect("the record is intact");
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
        // A generation with the same low 16 bits.
        assert_eq!(Key::new(POOL, 3 + (1 << 16), 2).open(8, &records), None);
    }
}
