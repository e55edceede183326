//! The head of a chunk: its kind and its bookkeeping.
//!
//! A head is one cache line, pictured with the layouts and the same in both: an object of the
//! allocator's own, with its header. Decoding returns a head only if every word in it is possible.

use words::{Stop, Words};

use crate::Heap;
use crate::header::{self, Description, Kind};
use crate::layout::{CHUNK_BYTES, HEAD, LINE_PAYLOAD, LINE_WORDS, Layout};

/// The word in a slab's head that holds its class.
pub(crate) const HEAD_CLASS: u64 = 16;
/// Offsets of the words in a chunk's head that are changed alone.
pub(crate) const HEAD_NEXT: u64 = 16;
pub(crate) const HEAD_PREPARED: u64 = 24;

/// The decoded head of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The first of the `chunks` chunks at the heap's start that are the allocator's own.
    First { chunks: u64 },
    /// A chunk of objects of one class.
    Slab { class: u64 },
    /// A run of blocks in `chunks` chunks; `fresh` when their memory was never used before.
    Run { chunks: u64, blocks: u64, prepared: u64, fresh: bool },
    /// A run of `chunks` free chunks; `next` is the next free run or 0.
    Free { chunks: u64, next: u64 },
}

/// An impossible word: its offset in bytes in the head's object, and a possible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadWord {
    pub(crate) offset: u64,
    pub(crate) expected: u64,
}

impl Head {
    /// Returns the header word of such a head in this chunk.
    pub(crate) const fn header(self, chunk: u64) -> u64 {
        let object = chunk * CHUNK_BYTES + HEAD;
        match self {
            Head::Slab { class } => slab_header(object, class),
            _ => own_header(object, LINE_PAYLOAD),
        }
    }

    pub(crate) const fn encode(self) -> [u64; LINE_WORDS] {
        match self {
            Head::Slab { class } => [1, 1, class, 0, 0, 0],
            Head::Run { chunks, blocks, prepared, fresh } => {
                [2, chunks, blocks, prepared, fresh as u64, 0]
            }
            Head::Free { chunks, next } => [3, chunks, next, 0, 0, 0],
            Head::First { chunks } => [4, chunks, 0, 0, 0, 0],
        }
    }

    /// Decodes the head of `chunk`. Every word must be possible in a heap of this layout whose
    /// frontier is `frontier`.
    pub(crate) fn decode(
        layout: Layout,
        words: [u64; LINE_WORDS],
        chunk: u64,
        frontier: u64,
    ) -> Result<Head, BadWord> {
        let bad = |word: u64, expected| Err(BadWord { offset: 8 * word, expected });
        let [kind, chunks, third, fourth, fifth, _] = words;
        let head = match kind {
            _ if chunk == 0 && kind != 4 => return bad(0, 4),
            1 if third < layout.classes() as u64 => Head::Slab { class: third },
            1 => return bad(2, layout.classes() as u64 - 1),
            2 => {
                let most = layout.chunks_for(third);
                if third == 0 || most != Some(chunks) {
                    return bad(1, most.unwrap_or(0));
                }
                if fourth > third {
                    return bad(3, third);
                }
                Head::Run { chunks, blocks: third, prepared: fourth, fresh: fifth == 1 }
            }
            3 => {
                // Ascending, and not into this very run: every walk of the list ends.
                let end = chunk.saturating_add(chunks);
                if third != 0 && (third < end || third >= frontier) {
                    return bad(2, 0);
                }
                Head::Free { chunks, next: third }
            }
            4 if chunk == 0 => Head::First { chunks: layout.own_chunks() },
            _ => return bad(0, 3),
        };
        if chunks == 0 || chunk >= frontier || chunks > frontier - chunk {
            return bad(1, frontier.saturating_sub(chunk));
        }
        let whole = head.encode();
        match (0..LINE_WORDS).find(|&i| words[i] != whole[i]) {
            Some(i) => bad(i as u64, whole[i]),
            None => Ok(head),
        }
    }
}

/// Returns the header word of one of the allocator's own objects.
pub(crate) const fn own_header(object: u64, bytes: u64) -> u64 {
    header::encode(object, Description { kind: Kind::Own, class: 0, bytes })
}

/// Returns the header word of the head of a slab.
#[inline]
pub(crate) const fn slab_header(object: u64, class: u64) -> u64 {
    let (kind, class, bytes) = (Kind::Slab, class as u8, LINE_PAYLOAD);
    header::encode(object, Description { kind, class, bytes })
}

impl Heap {
    /// Writes the whole head of a chunk, its header included.
    pub(crate) fn write_head<W: Words>(
        &self,
        tx: &mut W,
        chunk: u64,
        head: Head,
    ) -> Result<(), Stop> {
        let object = chunk * CHUNK_BYTES + HEAD;
        tx.write(self.link_at(object), 0)?;
        tx.write(self.header_at(object), head.header(chunk))?;
        tx.write_words(self.addr(object, 0), &head.encode())
    }

    /// Reads and checks the head of a chunk.
    pub(crate) fn read_head<W: Words>(
        &self,
        tx: &mut W,
        chunk: u64,
        frontier: u64,
    ) -> Result<Head, Stop> {
        if chunk >= frontier {
            return Err(Stop::BadPointer);
        }
        let object = chunk * CHUNK_BYTES + HEAD;
        let header = tx.read(self.header_at(object))?;
        let mut words = [0; LINE_WORDS];
        tx.read_words(self.addr(object, 0), &mut words)?;
        match Head::decode(self.layout, words, chunk, frontier) {
            Ok(head) if head.header(chunk) == header => Ok(head),
            _ => Err(Stop::BadPointer),
        }
    }
}
