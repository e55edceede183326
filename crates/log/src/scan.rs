//! Reading a log back: which groups are whole, in order.
//!
//! The scan starts where the superblock says that everything before is at home, and follows the
//! sequence: a group is accepted only at the very place and sequence where the one before ended
//! (or at the next lap's start), with this pool's identity, the ID that follows, and its checksum.
//! The first that fails ends the log: what was acknowledged lies before it, because groups are
//! acknowledged in order. A whole group behind that end that was sealed when what is missing was
//! acknowledged already is a proof of damage, and not passed over.
//!
//! What is read may have been written by anybody. So nothing is believed before it is bounded, and
//! the search behind the end, which may meet a header at every block and each of them with a length
//! up to the log's end, reads so many bytes and no more.

use std::ops::ControlFlow;

use medium::mutants::{Mutant, planted};
use medium::writes::{Piece, Pieces};
use medium::{Buffer, ReadLog};
use words::TxId;

use crate::compress;
use crate::group::{COMBINED, COMPRESSED, Header};
use crate::persistent::lap_for;
use crate::{GROUP_HEADER_WORDS, Identity, Transactions};

/// What lies behind the last group that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A whole group, the next in order; see [`Scan::payload`].
    Group {
        /// ID of its first transaction.
        first: TxId,
        /// ID of its last transaction.
        last: TxId,
    },
    /// The log's end: nothing that belongs there.
    End,
    /// A header that belongs there with a payload that does not: a write cut short.
    Torn {
        /// Place in the log area, in bytes.
        at: u64,
    },
    /// A whole group that names words outside the heap, or IDs that do not follow; or the end of
    /// the log, and a whole group behind it that says that more was acknowledged: no crash does
    /// this, the file was damaged.
    Damaged {
        /// Place in the log area, in bytes.
        at: u64,
    },
}

/// Bytes of the log read at a time in search of a later group.
const PIECE_BYTES: usize = 1 << 20;
/// How many times the log's bytes are read at most to find out which of the headers that a search
/// meets belong to whole groups. Groups do not overlap, so a log that we have written needs one;
/// only data that imitate headers need more.
const SEARCH_READS: u64 = 8;

/// A whole group of the log that a replay does not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// Place in the log area, in bytes.
    pub at: u64,
    /// ID of its first transaction.
    pub first: TxId,
    /// ID of its last transaction.
    pub last: TxId,
    /// Whether it was sealed when what is missing before it was acknowledged.
    pub proves_damage: bool,
}

/// What stands at a place of the log.
enum Place {
    /// No group of this log and sequence.
    Nothing,
    /// The header of one, and not the rest.
    Torn,
    /// One, and the bytes that it takes.
    Whole(Header, u64),
}

/// Whether a mutant takes a group whose predecessor is missing.
fn holes_are_skipped() -> bool {
    planted(Mutant::HoleSkipped) || planted(Mutant::BadRecordSkipped)
}

/// A position in a log that is read back.
pub struct Scan<'a> {
    medium: &'a dyn ReadLog,
    identity: Identity,
    sequence: u64,
    last: u64,
    heap_words: u64,
    buffer: Buffer,
    /// What a compressed payload decodes to.
    decoded: Buffer,
    payload: Payload,
    /// Words that were decoded since a search asked last.
    decoded_words: u64,
}

/// Where the payload of the group that was read last is.
#[derive(Clone, Copy, Default)]
struct Payload {
    words: usize,
    first: u64,
    combined: bool,
    decoded: bool,
}

impl<'a> Scan<'a> {
    /// Reads from `sequence` on, where the transaction after `reproduced` is expected.
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

    /// Looks at what comes next.
    ///
    /// # Errors
    /// The medium's own, when the log cannot be read.
    pub fn next_group(&mut self) -> Result<Found, medium::Error> {
        let mut found = self.follow()?;
        if planted(Mutant::BadRecordSkipped) && matches!(found, Found::End | Found::Torn { .. }) {
            found = self.behind(found)?;
        }
        if matches!(found, Found::End | Found::Torn { .. })
            && let Some(at) = self.later_group()?
        {
            return Ok(Found::Damaged { at });
        }
        Ok(found)
    }

    fn follow(&mut self) -> Result<Found, medium::Error> {
        let here = self.group_at(self.sequence)?;
        if here != Found::End {
            return Ok(here);
        }
        // A group that did not fit before the lap's end stands at the next lap's start.
        // Only the ID that follows makes it that group, and not one whose predecessor was lost.
        let next_lap = lap_for(self.sequence, self.medium.bytes(), self.medium.bytes());
        if next_lap == self.sequence {
            return Ok(Found::End);
        }
        let (sequence, last) = (self.sequence, self.last);
        let found = self.group_at(next_lap)?;
        let follows = |found: &Found| match found {
            Found::Group { first, .. } => first.0 == last.wrapping_add(1) || holes_are_skipped(),
            // Whole, and it names words outside the heap: no other group is looked for.
            Found::Damaged { .. } => Header::read(self.buffer.words())
                .is_some_and(|header| header.first == last.wrapping_add(1)),
            Found::End | Found::Torn { .. } => false,
        };
        if follows(&found) {
            return Ok(found);
        }
        (self.sequence, self.last) = (sequence, last);
        Ok(Found::End)
    }

    /// The runs and marks of the group that was found last.
    pub fn payload(&self) -> &[u64] {
        let Payload { words, decoded, .. } = self.payload;
        match decoded {
            true => &self.decoded.words()[..words],
            false => &self.buffer.words()[GROUP_HEADER_WORDS..GROUP_HEADER_WORDS + words],
        }
    }

    /// The whole groups of this log that lie behind the place that is looked at, in ID order: what
    /// a replay does not reach, because something before it is missing or wrong. For tools that say
    /// what was lost. Reads the whole log.
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

    /// The place of a whole group of this log that was sealed when the place that is looked at was
    /// acknowledged.
    ///
    /// Several groups are under way at a time, so a crash may leave a later one whole. But one that
    /// says that what is missing here was acknowledged before it was sealed proves that the log was
    /// damaged, or that the superblock led to a place that has been overwritten since. Reads the
    /// whole log, once, when its end is reached.
    fn later_group(&mut self) -> Result<Option<u64>, medium::Error> {
        let mut later = None;
        let gave_up = self.search(
            |header, here| header.acknowledged > here && !planted(Mutant::AcknowledgedIgnored),
            |group| {
                later = Some(group.at);
                ControlFlow::Break(())
            },
        )?;
        Ok(later.or(gave_up))
    }

    /// Finds the whole groups whose header is wanted, in the order of their places. Answers the
    /// place where it gave up: there are more headers than groups could be, so they are data that
    /// imitate them. Nobody's log has that but who means to keep us busy.
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

    /// Words that were decoded since this was asked last: to decode is to read.
    fn take_decoded_words(&mut self) -> u64 {
        std::mem::take(&mut self.decoded_words)
    }

    /// The group at this place, if it is the one that follows.
    fn group_at(&mut self, sequence: u64) -> Result<Found, medium::Error> {
        let at = sequence % self.medium.bytes();
        match self.read_group(sequence)? {
            Place::Nothing => Ok(Found::End),
            Place::Torn => Ok(Found::Torn { at }),
            Place::Whole(header, total) => {
                let follows = header.first == self.last.wrapping_add(1) || holes_are_skipped();
                if !follows || !header.has_bounded_ids() || !self.is_inside_heap() {
                    return Ok(Found::Damaged { at });
                }
                self.sequence = sequence + total;
                self.last = header.last;
                Ok(Found::Group { first: TxId(header.first), last: TxId(header.last) })
            }
        }
    }

    /// For a mutant: a group in the blocks behind a bad one.
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

    /// Reads what stands where a group of this sequence would.
    fn read_group(&mut self, sequence: u64) -> Result<Place, medium::Error> {
        let (bytes, block) = (self.medium.bytes(), self.medium.block_bytes());
        let at = sequence % bytes;
        let words = self.buffer.words_mut();
        self.medium.read(at, &mut words[..block.max(64) / 8])?;
        let Some(header) = Header::read(words) else { return Ok(Place::Nothing) };
        if !header.is_at(self.identity, sequence) {
            return Ok(Place::Nothing);
        }
        // The length is believed only once the checksum holds; until then it is just bounded.
        let total = header.bytes().next_multiple_of(block as u64);
        if total > bytes - at && !planted(Mutant::LengthTrusted) {
            return Ok(Place::Torn);
        }
        self.buffer.grow(total as usize / 8);
        self.medium.read(at, &mut self.buffer.words_mut()[..total as usize / 8])?;
        Ok(match self.read_payload(&header, total) {
            true => Place::Whole(header, total),
            false => Place::Torn,
        })
    }

    /// Whether the group whose `total` bytes have been read is as it was written; its payload is
    /// there then, decoded if it is compressed.
    fn read_payload(&mut self, header: &Header, total: u64) -> bool {
        let Some(stored) = header.stored(&self.buffer.words()[..total as usize / 8]) else {
            return false;
        };
        let combined = header.flags & COMBINED != 0;
        let decoded = header.flags & COMPRESSED != 0 && !planted(Mutant::CompressedTakenPlain);
        let words = match decoded {
            // A payload fits in the log before it is compressed.
            true => compress::decode(stored, self.medium.bytes() as usize / 8, &mut self.decoded),
            false => Some(stored.len()),
        };
        let Some(words) = words else { return false };
        self.decoded_words += if decoded { words as u64 } else { 0 };
        self.payload = Payload { words, first: header.first, combined, decoded };
        header.is_well_formed(self.payload())
    }

    /// Whether the group's IDs are dense and its runs stay in the heap.
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
            Piece::Run(index, words) => index + words.len() as u64 <= self.heap_words,
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

    /// A log of one combined group of these IDs.
    fn combined(first: u64, last: u64) -> Words {
        let mut combiner = Combiner::default();
        combiner.add(&[run(10, 1), 77]);
        let group = combiner.finish(TxId(first), TxId(first), Buffer::new(64));
        let mut packed = Packed::plain(group, 8);
        packed.seal(IDENTITY, 0, 0);
        let mut words = packed.image().to_vec();
        assert_eq!(words[0], MAGIC);
        // As whoever forges a pool would.
        words[5] = last;
        let payload = words[2] as u32 as usize;
        let crc = crc32c::crc32c(words[GROUP_HEADER_WORDS..][..payload].as_bytes());
        let head = *words.first_chunk().expect("a group has a header");
        words[7] = words[7] >> 32 << 32 | u64::from(checksum(crc, head));
        words.resize(512, 0);
        Words(words)
    }

    #[test]
    fn a_combined_group_of_more_ids_than_a_group_can_have_is_damage() {
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
