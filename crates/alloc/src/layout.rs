//! Where things stand in the heap.
//!
//! # Durable format: heap, version 1
//! The heap is cut into chunks of 64 KiB. Every word is little-endian; offsets are in bytes from
//! the heap's first byte, without tag; chunks are numbered from 0. Each object has its header
//! before it (see the object header). The first chunk:
//! ```text
//!        0  | link, header                          | of the chunk's head
//!       16  | 4 (first chunk)                       |
//!       24  | 1 (chunk)                             |
//!       32  | 0, 0, 0, 0                            |
//!       64  | link, header                          | of the root object
//!       80  | magic: "lw-heap\n"                    |
//!       88  | version: 1                            |
//!       96  | the program's root, as it was given   |
//!      104  | 0, 0, 0                               |
//!      128  | link, header                          | of the chunks object
//!      144  | frontier: first never-used chunk      |
//!      152  | first free run: its chunk, or 0       |
//!      160  | 0, 0, 0, 0                            |
//!      192  | unused                                |
//!      256  | arena 0                               |
//!      ...  | arenas 1 to 127, 256 bytes each       |
//!    33024  | unused                                |
//! ```
//! An arena has a pair of words for each of the 15 size classes:
//! ```text
//!     +  0  | link, header                          |
//!     + 16  | free list: object, or 0               | class 0: slots of 32 bytes
//!     + 24  | cursor: object not yet given out, or 0|
//!     + 32  | free list                             | class 1: 48
//!     + 40  | cursor                                |
//!      ...  | 64 80 96 128 160 192 256 320 384 512 640 768
//!     +240  | free list                             | class 14: 1040
//!     +248  | cursor                                |
//! ```
//! Every other chunk below the frontier starts with a head, or belongs to the run that starts
//! before it:
//! ```text
//!              slab              run              free run
//!     +  0  | link            | link            | link            |
//!     +  8  | header: slab    | header: own     | header: own     |
//!     + 16  | 1               | 2               | 3               |
//!     + 24  | 1               | chunks          | chunks          |
//!     + 32  | class           | blocks          | next free run   |
//!     + 40  | 0               | prepared blocks | 0               |
//!     + 48  | 0               | 1: never used   | 0               |
//!     + 56  | 0               | 0               | 0               |
//!     + 64  | link, header    | link, header    | unused          |
//!     + 80  | object          | block of 256    |                 |
//!      ...  | slots           | 272 apart       |                 |
//! ```
//! The list of free runs is in ascending order. Blocks are prepared in order; those of a run whose
//! memory was never used before it are zero without being written.

use words::{BLOCK_STRIDE, HEADER_BYTES, Stop, Words};

use crate::classes::{CLASSES, payload_bytes, slot_bytes};
use crate::header::{self, Description, Kind};
use crate::{ARENAS, Heap};

/// Bytes of a chunk: what a heap is made of.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// The smallest heap that holds anything: the first chunk and one more.
pub const HEAP_BYTES_MIN: u64 = 2 * CHUNK_BYTES;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"lw-heap\n");
pub(crate) const VERSION: u64 = 1;

/// The root object, and the offset in it of the program's root.
pub(crate) const ROOT: u64 = 80;
pub(crate) const ROOT_USER: u64 = 16;

/// The chunks object: apart from the root, so that who reads the root meets nobody who takes a
/// chunk.
pub(crate) const CHUNKS: u64 = 144;
pub(crate) const FRONTIER: u64 = 0;
pub(crate) const FIRST_FREE: u64 = 8;

/// Payload of the objects above and of a chunk's head: with its header one cache line.
pub(crate) const LINE_PAYLOAD: u64 = 48;
pub(crate) const LINE_WORDS: usize = LINE_PAYLOAD as usize / 8;

/// The head of a chunk and its first slot or block, from the chunk's first byte.
pub(crate) const HEAD: u64 = 16;
pub(crate) const FIRST_SLOT: u64 = 80;

/// The word in a slab's head that says of which class it is.
pub(crate) const HEAD_CLASS: u64 = 16;
/// Offsets of the words in a chunk's head that are changed alone.
pub(crate) const HEAD_NEXT: u64 = 16;
pub(crate) const HEAD_PREPARED: u64 = 24;

/// Words of the first chunk that are always 0: see [`watch`].
const WATCH_FIRST: u64 = 33 << 10;
pub(crate) const WATCHES: u64 = 32;
/// The largest stripe that a design locks: a watch shares it with nothing that changes.
const WATCH_STRIDE: u64 = 512;

const ARENA_FIRST: u64 = 272;
/// A power of two: whatever stripe up to this a design locks, two arenas share none.
const ARENA_STRIDE: u64 = 256;
pub(crate) const ARENA_PAYLOAD: u64 = 16 * CLASSES as u64;

const _: () = assert!(ROOT == 64 + HEADER_BYTES && CHUNKS == 128 + HEADER_BYTES);
const _: () = assert!(HEAD + LINE_PAYLOAD == 64 && FIRST_SLOT == 64 + HEADER_BYTES);
const _: () = assert!((ARENA_FIRST - HEADER_BYTES).is_multiple_of(ARENA_STRIDE));
const _: () = assert!(ARENA_PAYLOAD + HEADER_BYTES == ARENA_STRIDE);
const _: () = assert!(ARENA_FIRST - HEADER_BYTES + ARENAS as u64 * ARENA_STRIDE == 33024);
const _: () = assert!(33024 <= WATCH_FIRST && WATCH_FIRST.is_multiple_of(WATCH_STRIDE));
const _: () = assert!(WATCH_FIRST + WATCHES * WATCH_STRIDE <= CHUNK_BYTES);
const _: () = assert!(FIRST_SLOT + slot_bytes(CLASSES - 1) <= CHUNK_BYTES);

/// The word, from the heap's first byte, that stands for the run which starts in `chunk` (and for
/// some others): whoever prepares or frees the run writes its 0 again, before anything else.
///
/// So a transaction that has it in its read set rests on the run's head without having that there.
/// The head shares its stripe with the run's first elements, which a program may write all the
/// time.
#[inline]
pub(crate) const fn watch(chunk: u64) -> u64 {
    WATCH_FIRST + chunk % WATCHES * WATCH_STRIDE
}

/// The arena's object.
#[inline]
pub(crate) const fn arena(index: usize) -> u64 {
    ARENA_FIRST + index as u64 * ARENA_STRIDE
}

/// Chunks that a run of so many blocks takes; nothing when no heap has so many.
pub(crate) fn chunks_for(blocks: u64) -> Option<u64> {
    let bytes = blocks.checked_mul(BLOCK_STRIDE)?.checked_add(FIRST_SLOT - HEADER_BYTES)?;
    Some(bytes.div_ceil(CHUNK_BYTES))
}

/// The header word of one of the allocator's own objects.
pub(crate) const fn own_header(object: u64, bytes: u64) -> u64 {
    header::encode(object, Description { kind: Kind::Own, class: 0, bytes })
}

/// Whether `object` is where a slot of a slab of this class can be.
#[inline]
pub(crate) fn is_slot(object: u64, class: usize) -> bool {
    let within = object % CHUNK_BYTES;
    // 32 bits: half the cost of a division of 64.
    within >= FIRST_SLOT
        && ((within - FIRST_SLOT) as u32).is_multiple_of(slot_bytes(class) as u32)
        && within + payload_bytes(class) <= CHUNK_BYTES
}

/// The slot behind the one at `object`, or 0 when it was the slab's last.
#[inline]
pub(crate) fn next_slot(object: u64, class: usize) -> u64 {
    let next = object % CHUNK_BYTES + slot_bytes(class);
    if next + payload_bytes(class) <= CHUNK_BYTES { object + slot_bytes(class) } else { 0 }
}

/// What a chunk's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The heap's first chunk.
    First,
    /// A chunk of objects of one class.
    Slab { class: u64 },
    /// Blocks in so many chunks; `fresh` when their memory was never used before.
    Run { chunks: u64, blocks: u64, prepared: u64, fresh: bool },
    /// So many chunks in no use; `next` is the next free run or 0.
    Free { chunks: u64, next: u64 },
}

/// A word that cannot be there: its offset in bytes in the head's object, and what could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadWord {
    pub(crate) offset: u64,
    pub(crate) expected: u64,
}

impl Head {
    /// The header word of a head so described, in this chunk.
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
            Head::First => [4, 1, 0, 0, 0, 0],
        }
    }

    /// What the words of a head in `chunk` say, when everything in them is possible in a heap whose
    /// frontier is `frontier`.
    pub(crate) fn decode(
        words: [u64; LINE_WORDS],
        chunk: u64,
        frontier: u64,
    ) -> Result<Head, BadWord> {
        let bad = |word: u64, expected| Err(BadWord { offset: 8 * word, expected });
        let [what, chunks, third, fourth, fifth, _] = words;
        let head = match what {
            1 if third < CLASSES as u64 => Head::Slab { class: third },
            1 => return bad(2, CLASSES as u64 - 1),
            2 => {
                let most = chunks_for(third);
                if third == 0 || most != Some(chunks) {
                    return bad(1, most.unwrap_or(0));
                }
                if fourth > third {
                    return bad(3, third);
                }
                Head::Run { chunks, blocks: third, prepared: fourth, fresh: fifth == 1 }
            }
            3 => {
                // Ascending, and not into this very run: so every walk ends.
                let end = chunk.saturating_add(chunks);
                if third != 0 && (third < end || third >= frontier) {
                    return bad(2, 0);
                }
                Head::Free { chunks, next: third }
            }
            4 if chunk == 0 => Head::First,
            _ => return bad(0, if chunk == 0 { 4 } else { 3 }),
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

/// The header word of the head of a slab.
#[inline]
pub(crate) const fn slab_header(object: u64, class: u64) -> u64 {
    let (kind, class, bytes) = (Kind::Slab, class as u8, LINE_PAYLOAD);
    header::encode(object, Description { kind, class, bytes })
}

impl Heap {
    /// Makes a heap of zeros an empty heap, in one transaction of about 150 words.
    ///
    /// # Errors
    /// [`Stop::Full`] when it is smaller than [`HEAP_BYTES_MIN`]; [`Stop::BadValue`] when there is
    /// something there already; else as [`Words::write`].
    pub fn format<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        if self.bytes < HEAP_BYTES_MIN {
            return Err(Stop::Full);
        }
        if tx.read(self.addr(ROOT, 0))? != 0 {
            return Err(Stop::BadValue);
        }
        self.write_head(tx, 0, Head::First)?;
        tx.write(self.header_at(ROOT), own_header(ROOT, LINE_PAYLOAD))?;
        tx.write_words(self.addr(ROOT, 0), &[MAGIC, VERSION])?;
        tx.write(self.header_at(CHUNKS), own_header(CHUNKS, LINE_PAYLOAD))?;
        tx.write(self.addr(CHUNKS, FRONTIER), 1)?;
        for index in 0..ARENAS {
            let object = arena(index);
            tx.write(self.header_at(object), own_header(object, ARENA_PAYLOAD))?;
        }
        Ok(())
    }

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

    /// What the head of a chunk says, checked.
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
        match Head::decode(words, chunk, frontier) {
            Ok(head) if head.header(chunk) == header => Ok(head),
            _ => Err(Stop::BadPointer),
        }
    }
}
