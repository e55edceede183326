//! A group: the unit of one append, which is durable or lost as a whole.
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
//!          | bytes of the LZ4 block (32)   | words when decoded (32)    |
//!          | the LZ4 block, zeros up to a whole word                   |
//!
//!   mark   | words of the runs (24) | ID - first ID (24) | 0 (16)      |
//!   run    | index of first word (48)                    | count (16)  |   then `count` words
//! ```
//!
//! The checksum covers first the payload as stored, then the header, with zeros in the checksum's
//! own place. It is the commit mark of all transactions in the group. A group of an earlier wrap or
//! generation fails by its sequence or generation before any other word of it is used. A
//! transaction without writes is a *no-op record*: an ID that was assigned and then not used.
//!
//! A *combined* group holds the last value of each word that its transactions have written. Its IDs
//! are all from the first to the last. It does not record the writer of each word, because it is
//! replayed as a whole or not at all. The last ID of any group is at most 2^24 - 1 above the first.
//!
//! *Not acknowledged* counts units of 64 bytes of the log right before the group that were still in
//! flight when it was sealed. After a crash one of several groups in flight may be missing and a
//! later one intact. A group that was acknowledged before the later one was sealed cannot be
//! missing: then the log was damaged.

use medium::Buffer;
use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, mark};
use words::TxId;
use zerocopy::IntoBytes;

/// Words before the payload.
pub const GROUP_HEADER_WORDS: usize = 8;

/// Unit of the *not acknowledged* field.
pub(crate) const UNIT_BYTES: u64 = 64;
/// The field's largest value, which stands for any larger count.
pub(crate) const UNKNOWN: u64 = u32::MAX as u64;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"LWGROUP3");
/// The payload has no marks.
pub(crate) const COMBINED: u64 = 1;
/// The payload is an LZ4 block.
pub(crate) const COMPRESSED: u64 = 2;
const DELTA_BITS: u32 = 24;
const DELTA_MASK: u64 = (1 << DELTA_BITS) - 1;
/// Largest distance of a group's last ID from its first, the limit of a mark. Combined groups keep
/// to it too, as they are made of groups with marks.
const SPAN_MAX: u64 = DELTA_MASK;

/// The log that a group belongs to. A group of another pool, stream or generation is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The pool's ID.
    pub pool: u64,
    /// The pool's generation: one more at every open, because lost IDs are assigned again.
    pub generation: u64,
    /// The number of the stream.
    pub stream: u16,
}

/// Transactions that are written to the log together; also the volatile copy that is reproduced.
/// The default is an empty group without memory, which takes some when it gets a transaction.
#[derive(Debug, Default)]
pub struct Group {
    pub(crate) buffer: Buffer,
    /// Words in use, header included; 0 before the first transaction.
    pub(crate) used: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) combined: bool,
}

impl Group {
    /// Makes an empty group in this memory.
    pub fn new(mut buffer: Buffer) -> Group {
        buffer.grow(GROUP_HEADER_WORDS);
        Group { buffer, used: 0, first: 0, last: 0, combined: false }
    }

    /// Returns whether it has no transactions.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the ID of its first transaction.
    pub fn first(&self) -> TxId {
        TxId(self.first)
    }

    /// Returns the ID of its last transaction.
    pub fn last(&self) -> TxId {
        TxId(self.last)
    }

    /// Returns the words in use, header included and padding not.
    pub fn words(&self) -> usize {
        self.used
    }

    /// Returns marks, runs and values, as in [`medium::writes`].
    pub fn payload(&self) -> &[u64] {
        &self.buffer.words()[GROUP_HEADER_WORDS.min(self.used)..self.used]
    }

    /// Returns the ID and runs of each transaction; none for a combined group.
    pub fn transactions(&self) -> Transactions<'_> {
        Transactions::new(self.payload(), self.first)
    }

    /// Returns its memory for reuse.
    pub fn into_memory(self) -> Buffer {
        self.buffer
    }

    /// Removes its transactions and keeps the memory.
    pub fn clear(&mut self) {
        (self.used, self.first, self.last, self.combined) = (0, 0, 0, false);
    }

    /// Returns whether a mark of this group can express this transaction ID.
    pub fn can_take(&self, id: TxId) -> bool {
        self.used == 0 || id.0 - self.first <= DELTA_MASK
    }

    /// See [`Header::has_bounded_ids`].
    pub(crate) fn has_bounded_ids(&self) -> bool {
        are_bounded(self.first, self.last)
    }

    /// Adds a transaction; returns the space for its runs of `words` words.
    ///
    /// # Panics
    /// When IDs do not ascend. The persist step merges records before it writes.
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

/// A group's header as read back; no field is trusted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    pub(crate) sequence: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) payload_words: usize,
    pub(crate) flags: u64,
    /// The end of the groups that were acknowledged when it was sealed.
    pub(crate) acknowledged: u64,
    checksum: u32,
}

impl Header {
    /// Decodes the header at the start of these words, if it is one.
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
                UNKNOWN => 0, // less damage is detected, but none is invented
                units => head[3].saturating_sub(units * UNIT_BYTES),
            },
            checksum: head[7] as u32,
        })
    }

    /// Returns the bytes of the group without padding, as its header states; not bounded yet.
    pub(crate) fn bytes(&self) -> u64 {
        8 * (GROUP_HEADER_WORDS + self.payload_words) as u64
    }

    /// Returns whether the span of IDs is within the limit. A combined payload does not hold its
    /// IDs, so no other check bounds the IDs that transactions continue from.
    pub(crate) fn has_bounded_ids(&self) -> bool {
        are_bounded(self.first, self.last)
    }

    /// Returns whether this is the group at `sequence` of that log.
    pub(crate) fn is_at(&self, identity: Identity, sequence: u64) -> bool {
        let Identity { pool, generation, stream } = self.identity;
        let same_generation =
            generation == identity.generation || injected(Mutant::GenerationIgnored);
        let same_sequence = self.sequence == sequence || injected(Mutant::SequenceIgnored);
        let same_log = pool == identity.pool && stream == identity.stream;
        same_log && same_generation && same_sequence && self.first <= self.last
    }

    /// Returns the payload as stored, if the checksum over header and payload holds.
    pub(crate) fn stored<'a>(&self, words: &'a [u64]) -> Option<&'a [u64]> {
        let (head, rest) = words.split_first_chunk::<GROUP_HEADER_WORDS>()?;
        let payload = rest.get(..self.payload_words)?;
        let holds = checksum(crc32c::crc32c(payload.as_bytes()), *head) == self.checksum;
        (holds || injected(Mutant::ChecksumIgnored)).then_some(payload)
    }

    /// Returns whether a decoded payload is well formed for this header. Asserted in pairs: what
    /// was written must read back so.
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

/// Returns whether a payload is disjoint runs in ascending order of address.
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

/// Returns a group's checksum, from the checksum of its stored payload and its header.
pub(crate) fn checksum(payload: u32, mut head: [u64; GROUP_HEADER_WORDS]) -> u32 {
    head[7] &= !u64::from(u32::MAX);
    crc32c::crc32c_append(payload, head.as_bytes())
}

/// An iterator over a payload's transactions: ID and runs of each.
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

    /// Returns whether all words so far were well formed.
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
    fn group_round_trips() {
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

    /// The bytes of format 3. A different result is a different format.
    #[test]
    fn group_layout_is_format_3() {
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
    fn group_with_unknown_flag_is_refused() {
        for flag in 2..16 {
            let mut words = sealed();
            words[2] |= 1 << (32 + flag);
            assert!(Header::read(&words).is_none(), "flag {flag}");
        }
    }

    #[test]
    fn group_with_any_bit_flipped_is_refused() {
        let words = sealed();
        let used = GROUP_HEADER_WORDS + Header::read(&words).unwrap().payload_words;
        for bit in 0..used * 64 {
            let mut torn = words.clone();
            torn[bit / 64] ^= 1 << (bit % 64);
            assert!(!accepts(&torn), "bit {bit}");
        }
    }

    #[test]
    fn truncated_group_is_refused() {
        let words = sealed();
        for length in 0..GROUP_HEADER_WORDS + 8 {
            assert!(!accepts(&words[..length]), "{length} words");
        }
    }

    #[test]
    fn group_of_another_log_or_wrap_is_refused() {
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
    fn group_refuses_ids_out_of_order() {
        let mut group = Group::new(Buffer::new(64));
        group.push(TxId(5), 0);
        group.push(TxId(5), 0);
    }
}
