//! The layout of the heap, in one form for pools and one for simulated machines.
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
//!       96  | the program's root, unchecked         |
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
//!     + 24  | cursor: next unused object, or 0      |
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
//! The list of free runs is in ascending order. Blocks are prepared in order. Blocks in never-used
//! memory are zero without being written.
//!
//! # The line-isolated layout, version 1
//! For simulated machines that isolate whole cache lines: two concurrent transactions must not
//! write one line. No pool has it, and it never leaves the memory of a simulated machine. Its own
//! magic keeps either layout from being read as the other. The differences:
//! - Objects have neither header nor link. The head of their chunk holds their class, and they
//!   start at multiples of 64 bytes: an object shares no line with another one.
//! - Two words of a slot mark it free, both on the line that freeing it writes anyway.
//! - The words that two arenas write are on separate pages, as are the root and the chunks object.
//! - Watches do not exist: no transaction relies on them, and arenas would share their lines.
//! ```text
//!        0  | link, header                          | of the chunk's head
//!       16  | 4 (first chunk)                       |
//!       24  | 9 (chunks)                            |
//!       32  | 0, 0, 0, 0                            |
//!       64  | unused                                |
//!     4096  | link, header                          | of the root object
//!     4112  | magic: "lw-line\n"                    |
//!     4120  | version: 1                            |
//!     4128  | the program's root, unchecked         |
//!     4136  | 0, 0, 0                               |
//!     4160  | unused                                |
//!     8192  | link, header                          | of the chunks object
//!     8208  | frontier: first never-used chunk      |
//!     8216  | first free run: its chunk, or 0       |
//!     8224  | 0, 0, 0, 0                            |
//!     8256  | unused                                |
//!    65536  | arena 0: free list                    | class 0: slots of 64 bytes
//!    65544  | cursor                                |
//!    65552  | free list                             | class 1: 128
//!      ...  | each 64 bytes more                    |
//!    65784  | cursor                                | class 15: 1024
//!    65792  | unused                                |
//!    69952  | arena 1, 320 bytes into its page      | each 320 more than the one before, up to
//!      ...  | arenas 2 to 127, a page each          | 2240, and from the page's beginning again
//!   589824  | chunk 9                               |
//! ```
//! Every other chunk has the head above. A slab's first slot and a run's first block start at +64,
//! and blocks are 256 apart. A slot on a free list:
//! ```text
//!     +  0  | next one of the list, or 0            |
//!     +  8  | object header: free                   | in a live object a word of the program's
//! ```
//! Taking a slot writes 0 to its second word, which so is a header only while the slot is free. A
//! second free is recognised by that word, as long as the slot is not allocated again. A bitmap of
//! live slots in the chunk's head would hold the same information, and also the slots that were
//! never allocated. But it would put a line that arenas share into the write set of every
//! transaction that allocates or frees. This layout needs two lines: the arena's and the object's
//! first.

use words::{BLOCK_BYTES, HEADER_BYTES, Stop, Words};

use crate::classes::CLASSES;
use crate::head::{Head, own_header};
use crate::header::{Description, Kind, decode, encode};
use crate::{ARENAS, Heap};

/// Size of a chunk, the unit that a heap consists of, in bytes.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// Size of the smallest usable heap: the first chunk and one more.
pub const HEAP_BYTES_MIN: u64 = 2 * CHUNK_BYTES;

/// Size of the smallest usable [line-isolated](Heap::line_isolated) heap: nine chunks of the
/// allocator's own and one more.
pub const LINE_ISOLATED_BYTES_MIN: u64 = 10 * CHUNK_BYTES;

pub(crate) const VERSION: u64 = 1;

/// The offset in the root object of the program's root.
pub(crate) const ROOT_USER: u64 = 16;

/// Offsets in the chunks object. It is apart from the root, so that transactions that read the root
/// do not conflict with transactions that take a chunk.
pub(crate) const FRONTIER: u64 = 0;
pub(crate) const FIRST_FREE: u64 = 8;

/// Payload of the objects above and of a chunk's head: with its header one cache line.
pub(crate) const LINE_PAYLOAD: u64 = 48;
pub(crate) const LINE_WORDS: usize = LINE_PAYLOAD as usize / 8;

/// Offset of a chunk's head from the chunk's first byte.
pub(crate) const HEAD: u64 = 16;
/// Size of the head with its header.
const HEAD_LINE: u64 = 64;

/// Start of the words of the first chunk that are always 0: see [`watch`].
const WATCH_FIRST: u64 = 33 << 10;
pub(crate) const WATCHES: u64 = 32;
/// Distance of watches: the largest stripe that a design locks, so that no other word of a watch's
/// stripe ever changes.
const WATCH_STRIDE: u64 = 512;

const ARENA_FIRST: u64 = 272;
/// Distance of arenas. It is a power of two, so that two arenas share no stripe of any size up to
/// this that a design locks.
const ARENA_STRIDE: u64 = 256;
pub(crate) const ARENA_PAYLOAD: u64 = 16 * CLASSES as u64;

/// The largest unit that a simulated machine isolates or tracks, which is its page.
const PAGE: u64 = 4096;

/// Returns an arena's offset in its page. Every transaction that allocates writes its arena's first
/// line, and memory channels interleave lines. At one common offset all arenas would share one
/// channel.
const fn colour(arena: usize) -> u64 {
    (arena % 8) as u64 * 5 * 64
}

const ORDINARY: Layout = Layout::Ordinary;
const LINE_ISOLATED: Layout = Layout::LineIsolated;

const _: () = assert!(ORDINARY.root() == 64 + HEADER_BYTES);
const _: () = assert!(ORDINARY.chunks_object() == 128 + HEADER_BYTES);
const _: () = assert!(HEAD + LINE_PAYLOAD == HEAD_LINE);
const _: () = assert!((ARENA_FIRST - HEADER_BYTES).is_multiple_of(ARENA_STRIDE));
const _: () = assert!(ARENA_PAYLOAD + HEADER_BYTES == ARENA_STRIDE);
const _: () = assert!(ARENA_FIRST - HEADER_BYTES + ARENAS as u64 * ARENA_STRIDE == 33024);
const _: () = assert!(33024 <= WATCH_FIRST && WATCH_FIRST.is_multiple_of(WATCH_STRIDE));
const _: () = assert!(WATCH_FIRST + WATCHES * WATCH_STRIDE <= CHUNK_BYTES);
const _: () = assert!(ORDINARY.first_slot() + ORDINARY.slot_bytes(CLASSES - 1) <= CHUNK_BYTES);
const _: () = assert!(HEAP_BYTES_MIN == (ORDINARY.own_chunks() + 1) * CHUNK_BYTES);

const _: () = assert!(LINE_ISOLATED.arena(ARENAS) == LINE_ISOLATED.own_chunks() * CHUNK_BYTES);
const _: () = assert!(colour(7) + 16 * LINE_ISOLATED.classes() as u64 <= PAGE);
const _: () = assert!(LINE_ISOLATED.chunks_object() < LINE_ISOLATED.arena(0));
const _: () = assert!(LINE_ISOLATED_BYTES_MIN == (LINE_ISOLATED.own_chunks() + 1) * CHUNK_BYTES);

/// Returns the offset of the watch of the run which starts in `chunk`. Several runs share one.
///
/// Preparing or freeing the run writes the watch's 0 again, before anything else. A transaction
/// with the watch in its read set therefore relies on the run's head without having the head there.
/// The head shares its stripe with the run's first elements, which a program may write all the
/// time. Only an ordinary heap has watches.
#[inline]
pub(crate) const fn watch(chunk: u64) -> u64 {
    WATCH_FIRST + chunk % WATCHES * WATCH_STRIDE
}

/// One of the two layouts, and all that depends on it. The size classes are in their own module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A pool's: every object has a header.
    Ordinary,
    /// A simulated machine's: objects have no headers and start at their own cache lines.
    LineIsolated,
}

impl Layout {
    /// Returns whether a program's objects have headers.
    #[inline(always)]
    pub(crate) const fn has_headers(self) -> bool {
        matches!(self, Layout::Ordinary)
    }

    /// Returns the first word of the root object.
    pub(crate) const fn magic(self) -> u64 {
        match self {
            Layout::Ordinary => u64::from_le_bytes(*b"lw-heap\n"),
            Layout::LineIsolated => u64::from_le_bytes(*b"lw-line\n"),
        }
    }

    /// Returns the number of chunks at the heap's start that are the allocator's own.
    pub(crate) const fn own_chunks(self) -> u64 {
        match self {
            Layout::Ordinary => 1,
            Layout::LineIsolated => 1 + ARENAS as u64 * PAGE / CHUNK_BYTES,
        }
    }

    /// Returns the heap offset of the root object.
    #[inline]
    pub(crate) const fn root(self) -> u64 {
        match self {
            Layout::Ordinary => 80,
            Layout::LineIsolated => PAGE + HEADER_BYTES,
        }
    }

    /// Returns the heap offset of the chunks object.
    #[inline]
    pub(crate) const fn chunks_object(self) -> u64 {
        match self {
            Layout::Ordinary => 144,
            Layout::LineIsolated => 2 * PAGE + HEADER_BYTES,
        }
    }

    /// Returns the heap offset of the arena's pairs of words.
    #[inline(always)]
    pub(crate) const fn arena(self, index: usize) -> u64 {
        match self {
            Layout::Ordinary => ARENA_FIRST + index as u64 * ARENA_STRIDE,
            Layout::LineIsolated => CHUNK_BYTES + index as u64 * PAGE + colour(index),
        }
    }

    /// Returns the number of arenas that are objects with a header. Where each arena has a page,
    /// headers would make formatting write all those pages, more than some machines hold of a
    /// transaction.
    pub(crate) const fn arenas_with_header(self) -> usize {
        match self {
            Layout::Ordinary => ARENAS,
            Layout::LineIsolated => 0,
        }
    }

    /// Returns the bytes in front of a program's object that belong to it.
    #[inline(always)]
    pub(crate) const fn header_bytes(self) -> u64 {
        match self {
            Layout::Ordinary => HEADER_BYTES,
            Layout::LineIsolated => 0,
        }
    }

    /// Returns the offset of the first slot or block of a chunk, from the chunk's first byte.
    #[inline(always)]
    pub(crate) const fn first_slot(self) -> u64 {
        HEAD_LINE + self.header_bytes()
    }

    /// Returns the offset of a block of the run that starts in `chunk`.
    #[inline(always)]
    pub(crate) const fn block(self, chunk: u64, index: u64) -> u64 {
        chunk * CHUNK_BYTES + self.first_slot() + index * self.block_stride()
    }

    /// Returns the distance of neighbouring blocks: [`words::block_stride`] of the first.
    #[inline(always)]
    pub(crate) const fn block_stride(self) -> u64 {
        BLOCK_BYTES + self.header_bytes()
    }

    /// Returns the number of chunks of a run of `blocks` blocks, or `None` beyond every heap.
    pub(crate) fn chunks_for(self, blocks: u64) -> Option<u64> {
        let bytes = blocks.checked_mul(self.block_stride())?.checked_add(HEAD_LINE)?;
        Some(bytes.div_ceil(CHUNK_BYTES))
    }

    /// Returns whether `object` is a possible place of a slot in a slab of this class.
    #[inline(always)]
    pub(crate) fn is_slot(self, object: u64, class: usize) -> bool {
        let within = object % CHUNK_BYTES;
        // Divide in 32 bits, at half the cost of a division in 64.
        within >= self.first_slot()
            && ((within - self.first_slot()) as u32).is_multiple_of(self.slot_bytes(class) as u32)
            && within + self.payload_bytes(class) <= CHUNK_BYTES
    }

    /// Returns the slot after the one at `object`, or 0 after the slab's last.
    #[inline(always)]
    pub(crate) const fn next_slot(self, object: u64, class: usize) -> u64 {
        let next = object % CHUNK_BYTES + self.slot_bytes(class);
        if next + self.payload_bytes(class) <= CHUNK_BYTES {
            object + self.slot_bytes(class)
        } else {
            0
        }
    }

    /// Returns the offset of a slot's label from the slot's first byte, wrapping. The label is the
    /// word that says whether the slot is free.
    #[inline(always)]
    pub(crate) const fn label(self) -> u64 {
        match self {
            Layout::Ordinary => (-8_i64) as u64,
            Layout::LineIsolated => 8,
        }
    }

    /// Returns the label of a slot on a free list.
    #[inline(always)]
    pub(crate) const fn free_label(self, object: u64, class: usize) -> u64 {
        let bytes = self.payload_bytes(class);
        encode(object, Description { kind: Kind::Free, class: class as u8, bytes })
    }

    /// Returns the label of an allocated object.
    #[inline(always)]
    pub(crate) const fn live_label(self, object: u64, class: usize, bytes: usize) -> u64 {
        let (kind, class, bytes) = (Kind::Object, class as u8, bytes as u64);
        match self {
            Layout::Ordinary => encode(object, Description { kind, class, bytes }),
            Layout::LineIsolated => 0,
        }
    }

    /// Returns the size of the live object in a slot with this label, in a slab of this class: the
    /// requested size, as far as it is known. `None` when the slot is not live.
    pub(crate) fn live_bytes(self, label: u64, object: u64, class: usize) -> Option<u64> {
        let all = self.payload_bytes(class);
        match self {
            Layout::Ordinary => {
                let live = decode(label, object).filter(|live| live.kind == Kind::Object)?;
                let fits = live.class as usize == class && (1..=all).contains(&live.bytes);
                fits.then_some(live.bytes)
            }
            Layout::LineIsolated => (label != self.free_label(object, class)).then_some(all),
        }
    }
}

impl Heap {
    /// Formats a heap of zeros as an empty heap, in one transaction of about 150 words; of 13 words
    /// on three cache lines when it is [line-isolated](Heap::line_isolated).
    ///
    /// # Errors
    /// [`Stop::Full`] when it is smaller than [`HEAP_BYTES_MIN`] ([`LINE_ISOLATED_BYTES_MIN`]);
    /// [`Stop::BadValue`] when the heap is formatted already. Otherwise as [`Words::write`].
    pub fn format<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        let (layout, root, chunks) = (self.layout, self.layout.root(), self.layout.chunks_object());
        if !self.has_room() {
            return Err(Stop::Full);
        }
        if tx.read(self.addr(root, 0))? != 0 {
            return Err(Stop::BadValue);
        }
        self.write_head(tx, 0, Head::First { chunks: layout.own_chunks() })?;
        tx.write(self.header_at(root), own_header(root, LINE_PAYLOAD))?;
        tx.write_words(self.addr(root, 0), &[layout.magic(), VERSION])?;
        tx.write(self.header_at(chunks), own_header(chunks, LINE_PAYLOAD))?;
        tx.write(self.addr(chunks, FRONTIER), layout.own_chunks())?;
        for index in 0..layout.arenas_with_header() {
            let object = layout.arena(index);
            tx.write(self.header_at(object), own_header(object, ARENA_PAYLOAD))?;
        }
        Ok(())
    }
}
