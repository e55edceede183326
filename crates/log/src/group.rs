//! A group: what one append writes, and what is durable or lost together.
//!
//! # Durable format: a group of the log
//!
//! ```text
//!   word   63            48 47           32 31                         0
//!   0      | "LWGROUP3"                                                |
//!   1      | generation of the pool                                    |
//!   2      | stream         | flags        | words of the payload       |
//!   3      | sequence: bytes of the log used in this generation before |
//!   4      | first transaction ID                                      |
//!   5      | last transaction ID                                       |
//!   6      | pool ID                                                   |
//!   7      | not acknowledged              | CRC-32C                    |
//!   8..    | payload                                                   |
//!          | zeros up to a whole block of the medium                   |
//!
//!   flags: 1 combined, 2 compressed; the others are 0
//!
//!   payload               for each transaction a mark, then its runs
//!   payload, combined     runs by address, apart from each other: no marks
//!   payload, compressed   one of these two as an LZ4 block:
//!          | bytes of the LZ4 block (32)   | words it decodes to (32)   |
//!          | the LZ4 block, zeros up to a whole word                   |
//!
//!   mark   | words of the runs (24) | ID - first ID (24) | 0 (16)      |
//!   run    | index of first word (48)                    | count (16)  |   then `count` words
//! ```
//!
//! The checksum covers first the payload as it is stored, then the header, with zeros in the
//! checksum's own place: it is the commit mark of all
//! the transactions in the group, and an old lap's or an earlier generation's group fails by its
//! sequence or generation before anything in it is believed. A transaction without writes is a
//! *hole*: an ID that was drawn and then not used.
//!
//! A *combined* group holds the last value of each word that its transactions have written. Its IDs
//! are all from the first to the last; which of them wrote what it does not tell, and need not: it
//! is replayed whole or not at all. The last ID of any group is at most 2^24 - 1 above the first.
//!
//! *Not acknowledged* counts units of 64 bytes of the log right before the group that were still
//! under way when it was sealed. After a crash one of several groups under way may be missing and a
//! later one whole; what was acknowledged before the later one can not: then the log was damaged.

use medium::Buffer;
use medium::mutants::{Mutant, planted};
use medium::writes::{Piece, Pieces, mark};
use words::TxId;
use zerocopy::IntoBytes;

/// Words before the payload.
pub const GROUP_HEADER_WORDS: usize = 8;

/// What is not acknowledged is counted in.
pub(crate) const UNIT_BYTES: u64 = 64;
/// Units that stand for any higher number too.
pub(crate) const UNKNOWN: u64 = u32::MAX as u64;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"LWGROUP3");
/// The payload has no marks.
pub(crate) const COMBINED: u64 = 1;
/// The payload is an LZ4 block.
pub(crate) const COMPRESSED: u64 = 2;
const DELTA_BITS: u32 = 24;
const DELTA_MASK: u64 = (1 << DELTA_BITS) - 1;
/// How far the last ID of a group is from its first at most: what a mark can say. Combined groups
/// are made of groups with marks, so they keep to it too.
const SPAN_MAX: u64 = DELTA_MASK;

/// Which log a group belongs to: a group of another pool, stream or generation is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The pool's ID.
    pub pool: u64,
    /// The pool's generation: one more at every open, because lost IDs are drawn again.
    pub generation: u64,
    /// The stream.
    pub stream: u16,
}

/// Transactions that are written to the log together; also the volatile copy that is reproduced.
#[derive(Debug)]
pub struct Group {
    pub(crate) buffer: Buffer,
    /// Words in use, header included; 0 before the first transaction.
    pub(crate) used: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) combined: bool,
}

impl Group {
    /// An empty group in this memory.
    pub fn new(mut buffer: Buffer) -> Group {
        buffer.grow(GROUP_HEADER_WORDS);
        Group { buffer, used: 0, first: 0, last: 0, combined: false }
    }

    /// Whether it has no transactions.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// ID of its first transaction.
    pub fn first(&self) -> TxId {
        TxId(self.first)
    }

    /// ID of its last transaction.
    pub fn last(&self) -> TxId {
        TxId(self.last)
    }

    /// Words in use, header included, padding not.
    pub fn words(&self) -> usize {
        self.used
    }

    /// Marks, runs and values, as [`medium::writes`].
    pub fn payload(&self) -> &[u64] {
        &self.buffer.words()[GROUP_HEADER_WORDS.min(self.used)..self.used]
    }

    /// Its transactions: ID and runs of each. A combined group has none.
    pub fn transactions(&self) -> Transactions<'_> {
        Transactions::new(self.payload(), self.first)
    }

    /// Its memory, to be used again.
    pub fn into_memory(self) -> Buffer {
        self.buffer
    }

    /// Forgets its transactions; the memory stays.
    pub fn clear(&mut self) {
        (self.used, self.first, self.last, self.combined) = (0, 0, 0, false);
    }

    /// Whether a transaction's ID and length can be expressed in this group.
    pub fn can_take(&self, id: TxId) -> bool {
        self.used == 0 || id.0 - self.first <= DELTA_MASK
    }

    /// See [`Header::has_bounded_ids`].
    pub(crate) fn has_bounded_ids(&self) -> bool {
        are_bounded(self.first, self.last)
    }

    /// Adds a transaction; answers where its runs of `words` words are to be put.
    ///
    /// # Panics
    /// When IDs do not ascend: the persist step merges before it writes.
    #[inline]
    pub fn push(&mut self, id: TxId, words: usize) -> &mut [u64] {
        if self.used == 0 {
            self.first = id.0;
            self.used = GROUP_HEADER_WORDS;
        } else {
            assert!(id.0 > self.last, "a group holds transactions in ID order");
        }
        let behind = self.used + 1 + words;
        if behind > self.buffer.words().len() {
            self.buffer.grow(behind.next_power_of_two());
        }
        let at = self.used;
        self.last = id.0;
        self.used = behind;
        let buffer = self.buffer.words_mut();
        buffer[at] = mark((words as u64) << DELTA_BITS | (id.0 - self.first));
        &mut buffer[at + 1..behind]
    }
}

/// A group's header, as read back; nothing in it is trusted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    pub(crate) sequence: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) payload_words: usize,
    pub(crate) flags: u64,
    /// The sequence behind what was acknowledged when it was sealed.
    pub(crate) acknowledged: u64,
    checksum: u32,
}

impl Header {
    /// The header in these words, if they begin one.
    pub(crate) fn read(words: &[u64]) -> Option<Header> {
        let head: &[u64; GROUP_HEADER_WORDS] = words.first_chunk()?;
        let flags = head[2] >> 32 & 0xffff;
        if head[0] != MAGIC || flags & !(COMBINED | COMPRESSED) != 0 {
            return None;
        }
        Some(Header {
            identity: Identity {
                pool: head[6],
                generation: head[1],
                stream: (head[2] >> 48) as u16,
            },
            sequence: head[3],
            first: head[4],
            last: head[5],
            payload_words: head[2] as u32 as usize,
            flags,
            acknowledged: match head[7] >> 32 {
                UNKNOWN => 0, // less damage is found, and none is made up
                units => head[3].saturating_sub(units * UNIT_BYTES),
            },
            checksum: head[7] as u32,
        })
    }

    /// Bytes of the group that it says it begins, padding not; not bounded by anything.
    pub(crate) fn bytes(&self) -> u64 {
        8 * (GROUP_HEADER_WORDS + self.payload_words) as u64
    }

    /// Whether a group can have these IDs. A combined payload does not tell them, so nothing else
    /// bounds what transactions would go on from.
    pub(crate) fn has_bounded_ids(&self) -> bool {
        are_bounded(self.first, self.last)
    }

    /// Whether this is the group that belongs at `sequence` of that log.
    pub(crate) fn is_at(&self, identity: Identity, sequence: u64) -> bool {
        let Identity { pool, generation, stream } = self.identity;
        let same_generation =
            generation == identity.generation || planted(Mutant::GenerationIgnored);
        let same_sequence = self.sequence == sequence || planted(Mutant::SequenceIgnored);
        let same_log = pool == identity.pool && stream == identity.stream;
        same_log && same_generation && same_sequence && self.first <= self.last
    }

    /// The payload as it is stored, if the whole group (header and payload) is as it was written.
    pub(crate) fn stored<'a>(&self, words: &'a [u64]) -> Option<&'a [u64]> {
        let (head, rest) = words.split_first_chunk::<GROUP_HEADER_WORDS>()?;
        let payload = rest.get(..self.payload_words)?;
        let holds = checksum(crc32c::crc32c(payload.as_bytes()), *head) == self.checksum;
        (holds || planted(Mutant::ChecksumIgnored)).then_some(payload)
    }

    /// Whether a payload is what these transactions are written as, when it is not compressed (any
    /// more). Asserted in pairs: what was written must read back so.
    pub(crate) fn is_well_formed(&self, payload: &[u64]) -> bool {
        if self.flags & COMBINED != 0 {
            return is_combined(payload);
        }
        let mut transactions = Transactions::new(payload, self.first);
        let (mut first, mut last) = (None, 0);
        for (id, _) in transactions.by_ref() {
            if first.is_some() && id.0 <= last {
                return false;
            }
            first.get_or_insert(id.0);
            last = id.0;
        }
        transactions.is_whole() && first == Some(self.first) && last == self.last
    }
}

fn are_bounded(first: u64, last: u64) -> bool {
    last.checked_sub(first).is_some_and(|span| span <= SPAN_MAX)
}

/// Whether these are runs by address, apart from each other.
fn is_combined(payload: &[u64]) -> bool {
    let mut behind = 0;
    let mut pieces = Pieces::new(payload);
    let ascends = pieces.by_ref().all(|piece| match piece {
        Piece::Run(index, words) => {
            let follows = index >= behind;
            behind = index + words.len() as u64;
            follows
        }
        Piece::Mark(_) => false,
    });
    ascends && pieces.is_whole()
}

/// The checksum of a group: over its payload as it is stored, whose own is given, and its header.
pub(crate) fn checksum(payload: u32, mut head: [u64; GROUP_HEADER_WORDS]) -> u32 {
    head[7] &= !u64::from(u32::MAX);
    crc32c::crc32c_append(payload, head.as_bytes())
}

/// The transactions of a payload: ID and runs of each.
#[derive(Debug)]
pub struct Transactions<'a> {
    rest: &'a [u64],
    first: u64,
    whole: bool,
}

impl<'a> Transactions<'a> {
    /// Reads the payload of a group whose first transaction is `first`.
    pub fn new(payload: &'a [u64], first: u64) -> Transactions<'a> {
        Transactions { rest: payload, first, whole: true }
    }

    /// Whether everything so far was well formed.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    fn broken(&mut self) -> Option<(TxId, &'a [u64])> {
        self.whole = false;
        self.rest = &[];
        None
    }
}

impl<'a> Iterator for Transactions<'a> {
    type Item = (TxId, &'a [u64]);

    fn next(&mut self) -> Option<(TxId, &'a [u64])> {
        let (&head, rest) = self.rest.split_first()?;
        let Some(Piece::Mark(bits)) = Pieces::new(&[head]).next() else {
            return self.broken();
        };
        let Some((runs, rest)) = rest.split_at_checked((bits >> DELTA_BITS) as usize) else {
            return self.broken();
        };
        let mut pieces = Pieces::new(runs);
        if pieces.any(|piece| matches!(piece, Piece::Mark(_))) || !pieces.is_whole() {
            return self.broken();
        }
        self.rest = rest;
        Some((TxId(self.first.wrapping_add(bits & DELTA_MASK)), runs))
    }
}

const _: () = assert!(GROUP_HEADER_WORDS * 8 == 64, "a header is one cache line");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packed;
    use medium::writes::run;

    const IDENTITY: Identity = Identity { pool: 9, generation: 3, stream: 0 };

    fn sealed() -> Vec<u64> {
        let mut group = Group::new(Buffer::new(64));
        group.push(TxId(5), 2).copy_from_slice(&[run(10, 1), 77]);
        group.push(TxId(6), 0);
        group.push(TxId(9), 3).copy_from_slice(&[run(20, 2), 1, 2]);
        let mut packed = Packed::plain(group, 8);
        packed.seal(IDENTITY, 4096, 3072);
        assert_eq!(packed.words(), 16);
        packed.image().to_vec()
    }

    fn accepts(words: &[u64]) -> bool {
        Header::read(words).is_some_and(|header| {
            let payload = header.stored(words);
            header.is_at(IDENTITY, 4096)
                && payload.is_some_and(|words| header.is_well_formed(words))
        })
    }

    #[test]
    fn a_group_reads_back_as_it_was_written() {
        let words = sealed();
        assert!(accepts(&words));
        let header = Header::read(&words).unwrap();
        assert_eq!(header.acknowledged, 3072);
        let payload = &words[GROUP_HEADER_WORDS..GROUP_HEADER_WORDS + header.payload_words];
        let all: Vec<_> = Transactions::new(payload, header.first).collect();
        let expected: [(TxId, &[u64]); 3] =
            [(TxId(5), &[run(10, 1), 77]), (TxId(6), &[]), (TxId(9), &[run(20, 2), 1, 2])];
        assert_eq!(all, expected);
    }

    /// The bytes as they were when format 3 was set: another result is another format.
    #[test]
    fn a_group_is_laid_out_as_format_3_says() {
        let golden: [u64; 16] = [
            0x3350_554f_5247_574c,
            0x0000_0000_0000_0003,
            0x0000_0000_0000_0008,
            0x0000_0000_0000_1000,
            0x0000_0000_0000_0005,
            0x0000_0000_0000_0009,
            0x0000_0000_0000_0009,
            0x0000_0010_3538_e53a,
            0x0000_0200_0000_0000,
            0x0000_0000_000a_0001,
            0x0000_0000_0000_004d,
            0x0000_0000_0001_0000,
            0x0000_0300_0004_0000,
            0x0000_0000_0014_0002,
            0x0000_0000_0000_0001,
            0x0000_0000_0000_0002,
        ];
        assert_eq!(sealed(), golden);
    }

    #[test]
    fn a_flag_that_nobody_knows_is_no_group() {
        for flag in 2..16 {
            let mut words = sealed();
            words[2] |= 1 << (32 + flag);
            assert!(Header::read(&words).is_none(), "flag {flag}");
        }
    }

    #[test]
    fn a_group_with_any_bit_changed_never_happened() {
        let words = sealed();
        let used = GROUP_HEADER_WORDS + Header::read(&words).unwrap().payload_words;
        for bit in 0..used * 64 {
            let mut torn = words.clone();
            torn[bit / 64] ^= 1 << (bit % 64);
            assert!(!accepts(&torn), "bit {bit}");
        }
    }

    #[test]
    fn a_group_cut_short_never_happened() {
        let words = sealed();
        for length in 0..GROUP_HEADER_WORDS + 8 {
            assert!(!accepts(&words[..length]), "{length} words");
        }
    }

    #[test]
    fn a_group_of_another_log_or_lap_is_not_taken() {
        let words = sealed();
        let header = Header::read(&words).unwrap();
        for other in [
            Identity { pool: 8, ..IDENTITY },
            Identity { generation: 2, ..IDENTITY },
            Identity { stream: 1, ..IDENTITY },
        ] {
            assert!(!header.is_at(other, 4096));
        }
        assert!(!header.is_at(IDENTITY, 0));
    }

    #[test]
    #[should_panic(expected = "in ID order")]
    fn a_group_refuses_ids_out_of_order() {
        let mut group = Group::new(Buffer::new(64));
        group.push(TxId(5), 0);
        group.push(TxId(5), 0);
    }
}
