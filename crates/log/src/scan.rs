//! Reading a log back: the scan returns its intact groups in order.
//!
//! The scan starts at the sequence in the superblock, up to which the heap image is complete, and
//! follows the sequence. It accepts a group only at the exact place and sequence where the one
//! before ended, or at the start of the next wrap. The group must have this pool's identity, the
//! next ID, and a valid checksum.
//!
//! The first group that fails ends the log. Every acknowledged group lies before that end, because
//! groups are acknowledged in order. An intact group after the end proves damage if it was sealed
//! when the missing part was acknowledged already. The scan reports it and does not skip it.
//!
//! The log is untrusted input. No value is used before it is bounded. The search after the end may
//! meet a header at every block, each with a length up to the log's end, so a byte budget bounds
//! its reads.

use std::ops::ControlFlow;

use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces};
use medium::{Buffer, ReadLog};
use words::TxId;

use crate::circular::wrap_for;
use crate::compress;
use crate::group::{COMBINED, COMPRESSED, Header};
use crate::{GROUP_HEADER_WORDS, Identity, Transactions};

/// The next part of the log, after the group that was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A whole group, the next in order; see [`Scan::payload`].
    Group {
        /// ID of its first transaction.
        first: TxId,
        /// ID of its last transaction.
        last: TxId,
    },
    /// The log's end: no group of this log at the place.
    End,
    /// A group whose header belongs there and whose payload does not: a torn write.
    Torn {
        /// Place in the log area, in bytes.
        at: u64,
    },
    /// Damage, which no crash produces. Either an intact group writes outside the heap or has IDs
    /// that do not follow, or an intact group after the log's end proves that more was
    /// acknowledged.
    Damaged {
        /// Place in the log area, in bytes.
        at: u64,
    },
}

/// Bytes of the log read at a time in search of a later group.
const PIECE_BYTES: usize = 1 << 20;
/// Byte budget of a search for intact groups, in multiples of the log's size. Groups do not
/// overlap, so a log that Lastword has written needs one. Only data that imitate headers need
/// more.
const SEARCH_READS: u64 = 8;

/// An intact group of the log that a replay does not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// Place in the log area, in bytes.
    pub at: u64,
    /// ID of its first transaction.
    pub first: TxId,
    /// ID of its last transaction.
    pub last: TxId,
    /// Whether it was sealed when the missing part before it was acknowledged already.
    pub proves_damage: bool,
}

/// The result of reading one place of the log.
enum Place {
    /// No group of this log and sequence.
    Nothing,
    /// The header of such a group without an intact payload.
    Torn,
    /// An intact group, and its size in bytes.
    Whole(Header, u64),
}

/// Whether a mutant accepts a group whose predecessor is missing.
fn gaps_are_skipped() -> bool {
    injected(Mutant::HoleSkipped) || injected(Mutant::BadRecordSkipped)
}

/// A read position in a log.
pub struct Scan<'a> {
    medium: &'a dyn ReadLog,
    identity: Identity,
    sequence: u64,
    last: u64,
    heap_words: u64,
    buffer: Buffer,
    /// The decoded form of a compressed payload.
    decoded: Buffer,
    payload: Payload,
    /// Words decoded since [`Scan::take_decoded_words`] was called last.
    decoded_words: u64,
}

/// Size and encoding of the payload that was read last.
#[derive(Clone, Copy, Default)]
struct Payload {
    words: usize,
    first: u64,
    combined: bool,
    decoded: bool,
}

impl<'a> Scan<'a> {
    /// Makes a scan from `sequence`, where the transaction after `reproduced` is expected.
    pub fn new(
        medium: &'a dyn ReadLog,
        identity: Identity,
        sequence: u64,
        reproduced: TxId,
        heap_words: u64,
    ) -> Scan<'a> {
        let (buffer, decoded) = (Buffer::new(8192), Buffer::new(0));
        let (last, payload) = (reproduced.0, Payload::default());
        Scan {
            medium,
            identity,
            sequence,
            last,
            heap_words,
            buffer,
            decoded,
            payload,
            decoded_words: 0,
        }
    }

    /// Reads the next group.
    ///
    /// # Errors
    /// The medium's own, when the log cannot be read.
    pub fn next_group(&mut self) -> Result<Found, medium::Error> {
        let mut found = self.follow()?;
        if injected(Mutant::BadRecordSkipped) && matches!(found, Found::End | Found::Torn { .. }) {
            found = self.behind(found)?;
        }
        if matches!(found, Found::End | Found::Torn { .. })
            && let Some(at) = self.later_group()?
        {
            return Ok(Found::Damaged { at });
        }
        Ok(found)
    }

    /// Reads the next group of a log that another process is writing. The end of such a log is the
    /// end for the moment, and a torn group may be in flight: the next call looks there again.
    ///
    /// # Errors
    /// As [`next_group`](Scan::next_group).
    pub fn next_written(&mut self) -> Result<Found, medium::Error> {
        self.follow()
    }

    /// Returns the sequence after the group that was read last.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    fn follow(&mut self) -> Result<Found, medium::Error> {
        let here = self.group_at(self.sequence)?;
        if here != Found::End {
            return Ok(here);
        }
        // A group that did not fit before the log's end is at the start of the next wrap. The
        // ID distinguishes it from a group whose predecessor was lost.
        let next_wrap = wrap_for(self.sequence, self.medium.bytes(), self.medium.bytes());
        if next_wrap == self.sequence {
            return Ok(Found::End);
        }
        let (sequence, last) = (self.sequence, self.last);
        let found = self.group_at(next_wrap)?;
        let follows = |found: &Found| match found {
            Found::Group { first, .. } => first.0 == last.wrapping_add(1) || gaps_are_skipped(),
            // An intact group that writes outside the heap: report it, and search for no other.
            Found::Damaged { .. } => Header::read(self.buffer.words())
                .is_some_and(|header| header.first == last.wrapping_add(1)),
            Found::End | Found::Torn { .. } => false,
        };
        if follows(&found) {
            return Ok(found);
        }
        // Not the next group: go back to the end of the last one.
        (self.sequence, self.last) = (sequence, last);
        Ok(Found::End)
    }

    /// Returns the runs and marks of the group that was found last.
    pub fn payload(&self) -> &[u64] {
        let Payload { words, decoded, .. } = self.payload;
        match decoded {
            true => &self.decoded.words()[..words],
            false => &self.buffer.words()[GROUP_HEADER_WORDS..GROUP_HEADER_WORDS + words],
        }
    }

    /// Returns whether the group that was found last has only the last value of each word.
    pub fn is_combined(&self) -> bool {
        self.payload.combined
    }

    /// Returns the intact groups of this log after the current position, in ID order.
    ///
    /// A replay does not reach them, because a part before them is missing or damaged. Tools report
    /// them as lost. Reads the whole log.
    ///
    /// # Errors
    /// The medium's own.
    pub fn unreached(&mut self) -> Result<Vec<Unreached>, medium::Error> {
        let mut found = Vec::new();
        self.search(
            |header, here| header.sequence >= here,
            |group| {
                found.push(group);
                ControlFlow::Continue(())
            },
        )?;
        found.sort_unstable_by_key(|group| group.first);
        Ok(found)
    }

    /// Returns the place of an intact group that was sealed when the current position was
    /// acknowledged already.
    ///
    /// Several groups are in flight at a time, so a crash may leave a later one intact. But a group
    /// sealed after the acknowledgement of the missing part proves damage: the log was changed, or
    /// the superblock pointed to a place that has been overwritten since. The scan reads the whole
    /// log for this once, at its end.
    ///
    /// # Errors
    /// The medium's own.
    pub fn later_group(&mut self) -> Result<Option<u64>, medium::Error> {
        let mut later = None;
        let gave_up = self.search(
            |header, here| header.acknowledged > here && !injected(Mutant::AcknowledgedIgnored),
            |group| {
                later = Some(group.at);
                ControlFlow::Break(())
            },
        )?;
        Ok(later.or(gave_up))
    }

    /// Visits the intact groups whose header is `wanted`, in the order of their places.
    ///
    /// Returns the place where the byte budget ran out. The log then has more headers than groups
    /// could be, so they are data that imitate headers, as an attacker would write.
    fn search(
        &mut self,
        wanted: impl Fn(&Header, u64) -> bool,
        mut found: impl FnMut(Unreached) -> ControlFlow<()>,
    ) -> Result<Option<u64>, medium::Error> {
        let (bytes, block) = (self.medium.bytes(), self.medium.block_bytes());
        let mut left = bytes.saturating_mul(SEARCH_READS);
        let mut piece = vec![0; PIECE_BYTES.min(bytes as usize) / 8];
        for start in (0..bytes).step_by(PIECE_BYTES) {
            let length = (bytes - start).min(PIECE_BYTES as u64) as usize;
            let piece = &mut piece[..length / 8];
            self.medium.read(start, piece)?;
            for offset in (0..length).step_by(block) {
                let Some(header) = Header::read(&piece[offset / 8..]) else { continue };
                let at = start + offset as u64;
                let is_here = header.is_at(self.identity, header.sequence)
                    && header.sequence % bytes == at
                    && wanted(&header, self.sequence);
                if !is_here {
                    continue;
                }
                let (first, last) = (TxId(header.first), TxId(header.last));
                let proves_damage = header.acknowledged > self.sequence;
                let group = Unreached { at, first, last, proves_damage };
                let costs = header.bytes().min(bytes - at);
                // Charge the budget before the read: the length is the header's claim.
                if costs > left {
                    return Ok(Some(at));
                }
                left -= costs;
                let is_whole = matches!(self.read_group(header.sequence)?, Place::Whole(..));
                left = left.saturating_sub(8 * self.take_decoded_words());
                if is_whole && found(group).is_break() {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Returns the words decoded since the last call; decoding counts as reading.
    fn take_decoded_words(&mut self) -> u64 {
        std::mem::take(&mut self.decoded_words)
    }

    /// Reads the group at this place, and accepts it if it is the next in order.
    fn group_at(&mut self, sequence: u64) -> Result<Found, medium::Error> {
        let at = sequence % self.medium.bytes();
        match self.read_group(sequence)? {
            Place::Nothing => Ok(Found::End),
            Place::Torn => Ok(Found::Torn { at }),
            Place::Whole(header, total) => {
                let follows = header.first == self.last.wrapping_add(1) || gaps_are_skipped();
                if !follows || !header.has_bounded_ids() || !self.is_inside_heap() {
                    return Ok(Found::Damaged { at });
                }
                self.sequence = sequence + total;
                self.last = header.last;
                Ok(Found::Group { first: TxId(header.first), last: TxId(header.last) })
            }
        }
    }

    /// For a mutant: finds a group in the blocks after a bad one.
    fn behind(&mut self, bad: Found) -> Result<Found, medium::Error> {
        let block = self.medium.block_bytes() as u64;
        let left = self.medium.bytes() - self.sequence % self.medium.bytes();
        for sequence in (self.sequence..self.sequence + left).step_by(block as usize).skip(1) {
            if let found @ Found::Group { .. } = self.group_at(sequence)? {
                return Ok(found);
            }
        }
        Ok(bad)
    }

    /// Reads the place where a group of this sequence would be.
    fn read_group(&mut self, sequence: u64) -> Result<Place, medium::Error> {
        let (bytes, block) = (self.medium.bytes(), self.medium.block_bytes());
        let at = sequence % bytes;
        let words = self.buffer.words_mut();
        self.medium.read(at, &mut words[..block.max(64) / 8])?;
        let Some(header) = Header::read(words) else { return Ok(Place::Nothing) };
        if !header.is_at(self.identity, sequence) {
            return Ok(Place::Nothing);
        }
        // The length is untrusted until the checksum holds: here it is only bounded.
        let total = header.bytes().next_multiple_of(block as u64);
        if total > bytes - at && !injected(Mutant::LengthTrusted) {
            return Ok(Place::Torn);
        }
        self.buffer.grow(total as usize / 8);
        self.medium.read(at, &mut self.buffer.words_mut()[..total as usize / 8])?;
        Ok(match self.read_payload(&header, total) {
            true => Place::Whole(header, total),
            false => Place::Torn,
        })
    }

    /// Checks the group whose `total` bytes have been read, and decodes its payload if compressed.
    fn read_payload(&mut self, header: &Header, total: u64) -> bool {
        let Some(stored) = header.stored(&self.buffer.words()[..total as usize / 8]) else {
            return false;
        };
        let combined = header.flags & COMBINED != 0;
        let decoded = header.flags & COMPRESSED != 0 && !injected(Mutant::CompressedTakenPlain);
        let words = match decoded {
            // Bound by the log's size: every payload fits in the log before compression.
            true => compress::decode(stored, self.medium.bytes() as usize / 8, &mut self.decoded),
            false => Some(stored.len()),
        };
        let Some(words) = words else { return false };
        self.decoded_words += if decoded { words as u64 } else { 0 };
        self.payload = Payload { words, first: header.first, combined, decoded };
        header.is_well_formed(self.payload())
    }

    /// Returns whether the group's IDs are dense and its runs stay in the heap.
    fn is_inside_heap(&self) -> bool {
        if self.payload.combined {
            return self.stays_inside(self.payload());
        }
        let mut expected = self.payload.first;
        Transactions::new(self.payload(), expected).all(|(id, runs)| {
            let dense = id.0 == expected;
            expected = expected.wrapping_add(1);
            dense && self.stays_inside(runs)
        })
    }

    fn stays_inside(&self, runs: &[u64]) -> bool {
        Pieces::new(runs).all(|piece| match piece {
            Piece::Run(index, words) => {
                index + words.len() as u64 <= self.heap_words || injected(Mutant::RunBoundsIgnored)
            }
            Piece::Mark(_) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{MAGIC, checksum};
    use crate::{Combiner, Packed};
    use medium::writes::run;
    use zerocopy::IntoBytes;

    const IDENTITY: Identity = Identity { pool: 9, generation: 3, stream: 0 };

    struct Words(Vec<u64>);

    impl ReadLog for Words {
        fn bytes(&self) -> u64 {
            8 * self.0.len() as u64
        }

        fn block_bytes(&self) -> usize {
            64
        }

        fn read(&self, at: u64, out: &mut [u64]) -> Result<(), medium::Error> {
            let first = (at / 8) as usize;
            out.copy_from_slice(&self.0[first..first + out.len()]);
            Ok(())
        }
    }

    /// Makes a log of one combined group of these IDs.
    fn combined(first: u64, last: u64) -> Words {
        let mut combiner = Combiner::default();
        combiner.add(&[run(10, 1), 77]);
        let group = combiner.finish(TxId(first), TxId(first), Buffer::new(64));
        let mut packed = Packed::plain(group, 8);
        packed.seal(IDENTITY, 0, 0);
        let mut words = packed.image().to_vec();
        assert_eq!(words[0], MAGIC);
        // Forge the last ID, with a valid checksum.
        words[5] = last;
        let payload = words[2] as u32 as usize;
        let crc = crc32c::crc32c(words[GROUP_HEADER_WORDS..][..payload].as_bytes());
        let head = *words.first_chunk().expect("a group has a header");
        words[7] = words[7] >> 32 << 32 | u64::from(checksum(crc, head));
        words.resize(512, 0);
        Words(words)
    }

    #[test]
    fn combined_group_with_too_many_ids_is_damage() {
        let found = |last| {
            let log = combined(5, last);
            Scan::new(&log, IDENTITY, 0, TxId(4), 1000).next_group().expect("memory can be read")
        };
        let longest = 5 + (1 << 24) - 1;
        for last in [5, 6, longest] {
            assert_eq!(found(last), Found::Group { first: TxId(5), last: TxId(last) });
        }
        for last in [longest + 1, 1 << 61, u64::MAX] {
            assert_eq!(found(last), Found::Damaged { at: 0 }, "{last}");
        }
    }
}
