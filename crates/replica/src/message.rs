//! The messages of a stream.
//!
//! ```text
//!   byte  0   "lwstream"
//!         8   CRC-32C of all bytes after it
//!        12   kind: 1 part of a group, 2 term, 3 mark
//!        13   1 if the payload is compressed by LZ4
//!        14   version of this format
//!        16   writer: pool ID, generation
//!        32   term, and the position of the message that began it
//!        48   part: first and last transaction of the group; else: the last complete transaction,
//!             twice
//!        64   part: its index, and the count of parts
//!        72   part: size of the heap of the primary in bytes
//!        80   bytes of words of all groups from the beginning of the stream to this message
//!        88   time when it was sent, in milliseconds since 1970
//!        96   bytes of the payload before compression
//!       104   payload: part: words of the group; term: see `Previous`
//! ```
//!
//! A group is a message, or several parts one after the other if it is larger than a message of the
//! stream may be. The parts of a group have the same term. A group counts only when all its parts
//! are in the stream: a term message among them voids those before it.
//!
//! Numbers are little-endian. A stream outlives a program, so a change of the format needs another
//! version.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lastword::TxId;
use lastword::replication::Group;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Damage;

const MAGIC: [u8; 8] = *b"lwstream";
const VERSION: u16 = 1;

/// Bytes of a message before its payload.
pub const HEADER_BYTES: usize = size_of::<Header>();

/// The bytes before the checksum's range.
const UNCHECKED_BYTES: usize = 12;

/// The smallest payload that is compressed.
const COMPRESSED_BYTES_MIN: usize = 256;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    crc: U32,
    kind: u8,
    compressed: u8,
    version: U16,
    pool: U64,
    generation: U64,
    term: U64,
    term_at: U64,
    first: U64,
    last: U64,
    part: U32,
    parts: U32,
    heap_bytes: U64,
    total_bytes: U64,
    sent_ms: U64,
    payload_bytes: U64,
}

/// A writer of a stream: a pool in one of its openings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// The pool's ID.
    pub pool: u64,
    /// The generation of the opening.
    pub generation: u64,
}

impl Writer {
    /// Whether this pool, in this opening or a later one, has begun the term. Its message may
    /// arrive late, after the pool was opened as a follower again.
    pub(crate) fn is_before(&self, term: &Term) -> bool {
        term.writer.pool == self.pool && term.writer.generation >= self.generation
    }
}

/// The time in which one writer appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its number: 1, 2, and so on.
    pub number: u64,
    /// The position of its first message.
    pub at: u64,
    /// Its writer.
    pub writer: Writer,
}

/// The term before another one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
struct PreviousBytes {
    number: U64,
    at: U64,
    pool: U64,
    generation: U64,
}

/// The kind of a message, with the fields that it alone has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a group.
    Part {
        /// Its index, from 0.
        part: u32,
        /// The count of parts of the group.
        parts: u32,
        /// The first transaction of the group.
        first: TxId,
        /// The last transaction of the group.
        last: TxId,
        /// The size of the primary's heap.
        heap_bytes: u64,
        /// The words of the group that are in this part.
        words: Vec<u64>,
    },
    /// The beginning of a term.
    Term {
        /// The last complete transaction before it.
        last: TxId,
        /// The term before it, if there is one.
        previous: Option<Term>,
    },
    /// A message without content, which shows that its writer is the only one.
    Mark {
        /// The last complete transaction before it.
        last: TxId,
    },
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The term that it belongs to, or begins.
    pub term: Term,
    /// Bytes of words of all groups up to this message.
    pub total_bytes: u64,
    /// When it was sent.
    pub sent: SystemTime,
    /// The rest.
    pub kind: Kind,
}

impl Message {
    /// Returns the last transaction that is complete in the stream before this message.
    pub fn complete_before(&self) -> TxId {
        match self.kind {
            Kind::Part { first, .. } => TxId(first.0 - 1),
            Kind::Term { last, .. } | Kind::Mark { last } => last,
        }
    }

    /// Returns the last transaction that is complete in the stream with this message.
    pub fn complete(&self) -> TxId {
        match self.kind {
            Kind::Part { part, parts, last, .. } if part + 1 == parts => last,
            _ => self.complete_before(),
        }
    }

    /// Returns the bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, part, parts, heap_bytes) = match self.kind {
            Kind::Part { part, parts, heap_bytes, .. } => (1, part, parts, heap_bytes),
            Kind::Term { .. } => (2, 0, 0, 0),
            Kind::Mark { .. } => (3, 0, 0, 0),
        };
        let (first, last) = match self.kind {
            Kind::Part { first, last, .. } => (first, last),
            Kind::Term { last, .. } | Kind::Mark { last } => (last, last),
        };
        let plain = match &self.kind {
            Kind::Part { words, .. } => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Kind::Term { previous, .. } => previous.map(previous_bytes).unwrap_or_default(),
            Kind::Mark { .. } => Vec::new(),
        };
        let packed = (plain.len() >= COMPRESSED_BYTES_MIN).then(|| lz4_flex::compress(&plain));
        let packed = packed.filter(|packed| packed.len() < plain.len());
        let payload = packed.as_ref().unwrap_or(&plain);
        let mut header = Header {
            magic: MAGIC,
            crc: U32::ZERO,
            kind,
            compressed: u8::from(packed.is_some()),
            version: U16::new(VERSION),
            pool: U64::new(self.term.writer.pool),
            generation: U64::new(self.term.writer.generation),
            term: U64::new(self.term.number),
            term_at: U64::new(self.term.at),
            first: U64::new(first.0),
            last: U64::new(last.0),
            part: U32::new(part),
            parts: U32::new(parts),
            heap_bytes: U64::new(heap_bytes),
            total_bytes: U64::new(self.total_bytes),
            sent_ms: U64::new(since_1970(self.sent).as_millis() as u64),
            payload_bytes: U64::new(plain.len() as u64),
        };
        let crc = crc32c::crc32c(&header.as_bytes()[UNCHECKED_BYTES..]);
        header.crc = U32::new(crc32c::crc32c_append(crc, payload));
        [header.as_bytes(), payload].concat()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn decode(bytes: &[u8]) -> Result<Message, Damage> {
        let Ok((header, payload)) = Header::read_from_prefix(bytes) else {
            return Err(Damage::NoMessage);
        };
        if header.magic != MAGIC {
            return Err(Damage::NoMessage);
        }
        if crc32c::crc32c(&bytes[UNCHECKED_BYTES..]) != header.crc.get() {
            return Err(Damage::Checksum);
        }
        let version = header.version.get();
        if version != VERSION {
            return Err(Damage::Version { found: version, expected: VERSION });
        }
        let plain = match header.compressed {
            0 => payload.to_vec(),
            _ => unpack(payload, header.payload_bytes.get())?,
        };
        if plain.len() as u64 != header.payload_bytes.get() {
            return Err(Damage::Malformed);
        }
        Ok(Message {
            term: Term {
                number: header.term.get(),
                at: header.term_at.get(),
                writer: Writer { pool: header.pool.get(), generation: header.generation.get() },
            },
            total_bytes: header.total_bytes.get(),
            sent: UNIX_EPOCH + Duration::from_millis(header.sent_ms.get()),
            kind: kind_of(&header, &plain)?,
        })
    }
}

fn kind_of(header: &Header, plain: &[u8]) -> Result<Kind, Damage> {
    let (first, last) = (TxId(header.first.get()), TxId(header.last.get()));
    let (part, parts) = (header.part.get(), header.parts.get());
    // A later term or transaction has a number, too.
    if header.term.get() == u64::MAX || last.0 == u64::MAX || header.compressed > 1 {
        return Err(Damage::Malformed);
    }
    match header.kind {
        1 if part < parts && first.0 > 0 && first <= last && plain.len().is_multiple_of(8) => {
            let words = plain.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            let heap_bytes = header.heap_bytes.get();
            Ok(Kind::Part { part, parts, first, last, heap_bytes, words: words.collect() })
        }
        2 if plain.is_empty() => Ok(Kind::Term { last, previous: None }),
        2 => {
            let read = PreviousBytes::read_from_bytes(plain).map_err(|_| Damage::Malformed)?;
            let (pool, generation) = (read.pool.get(), read.generation.get());
            let writer = Writer { pool, generation };
            let previous = Term { number: read.number.get(), at: read.at.get(), writer };
            Ok(Kind::Term { last, previous: Some(previous) })
        }
        3 if plain.is_empty() => Ok(Kind::Mark { last }),
        _ => Err(Damage::Malformed),
    }
}

fn previous_bytes(term: Term) -> Vec<u8> {
    let bytes = PreviousBytes {
        number: U64::new(term.number),
        at: U64::new(term.at),
        pool: U64::new(term.writer.pool),
        generation: U64::new(term.writer.generation),
    };
    bytes.as_bytes().to_vec()
}

/// The largest ratio that LZ4 reaches is 255. A message of a wrong size allocates no more.
fn unpack(packed: &[u8], bytes: u64) -> Result<Vec<u8>, Damage> {
    if bytes > 255 * packed.len() as u64 {
        return Err(Damage::Malformed);
    }
    lz4_flex::decompress(packed, bytes as usize).map_err(|_| Damage::Malformed)
}

/// Splits a group into parts, each of which fits in a message of `message_bytes_max` bytes.
pub fn parts_of(group: &Group, message_bytes_max: usize) -> impl Iterator<Item = Kind> + '_ {
    // LZ4 is used only where it makes the payload smaller.
    let words_max = (message_bytes_max.saturating_sub(HEADER_BYTES) / 8).max(1);
    // A group has at least the mark of one transaction.
    let parts = group.words.len().div_ceil(words_max) as u32;
    group.words.chunks(words_max).zip(0..).map(move |(words, part)| {
        let Group { first, last, heap_bytes, .. } = *group;
        Kind::Part { part, parts, first, last, heap_bytes, words: words.to_vec() }
    })
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let writer = Writer { pool: 7, generation: 3 };
        let term = Term { number: 2, at: 5, writer };
        let group = Group {
            first: TxId(9),
            last: TxId(10),
            heap_bytes: 1 << 20,
            words: (0..1000).map(|index| index / 3).collect(),
        };
        let mut kinds: Vec<Kind> = parts_of(&group, 4000).collect();
        assert_eq!(kinds.len(), 3);
        kinds.extend(parts_of(&group, 1 << 20));
        kinds.push(Kind::Term { last: TxId(8), previous: None });
        kinds.push(Kind::Term { last: TxId(8), previous: Some(Term { at: 1, ..term }) });
        kinds.push(Kind::Mark { last: TxId(8) });
        let sent = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let message = |kind| Message { term, total_bytes: 80, sent, kind };
        kinds.into_iter().map(message).collect()
    }

    #[test]
    fn message_is_read_as_written() {
        for message in messages() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn changed_byte_is_damage() {
        for message in messages() {
            let bytes = message.encode();
            for at in (0..bytes.len()).step_by(7) {
                let mut changed = bytes.clone();
                changed[at] ^= 0x20;
                assert!(Message::decode(&changed).is_err(), "byte {at} of {message:?}");
                assert!(Message::decode(&bytes[..at]).is_err());
            }
        }
    }
}
