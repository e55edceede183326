//! The layout of the heap, in one form for pools and one for simulated machines.
//!
//! # Durable format: heap, version 2
//! The heap is cut into units of 1 KiB, numbered from 0; its size is a multiple of 64 KiB. Every
//! word is little-endian; offsets are in bytes from the heap's first byte, without tag. Each object
//! has its header before it (see the object header). The first run, of 64 units:
//! ```text
//!        0  | link, header                          | of the run's head
//!       16  | 4 (first run), 64 (units), 0, 0, 0, 0 |
//!       64  | link, header                          | of the root object
//!       80  | magic: "lw-heap\n"                    |
//!       88  | version: 2                            |
//!       96  | the program's root, unchecked         |
//!      104  | layout version that the last migration has reached, or 0
//!      112  | progress of the next migration, or 0  |
//!      120  | 0                                     |
//!      128  | link, header                          | of the page object
//!      144  | frontier: unit after the last run     |
//!      152  | first unit that was never used        |
//!      160  | bitmap: bins that hold a run          | 5 words
//!      200  | 0                                     |
//!      208  | unused                                |
//!      512  | link, header                          | of the owners object
//!      528  | bitmap: arenas with a slab or slots   |
//!      536  | 0, 0, 0, 0, 0                         |
//!      576  | unused                                |
//!     1024  | link, header                          | of the first bins object
//!     1040  | bins 0 to 5: first free run, or 0     |
//!      ...  | bins 6 to 287, in 47 more objects     |
//!     4096  | link, header                          | of the list of size class 0
//!     4112  | first partly used slab, or 0          |
//!     4120  | first slab with few free slots, or 0  |
//!     4128  | 0, 0, 0, 0                            |
//!      ...  | lists of classes 1 to 62, each 64 more|
//!     8128  | unused                                |
//!     8192  | watches: 16 words of 0, each 512 more |
//!    16384  | arena 0                               |
//!      ...  | arenas 1 to 31, 1536 bytes each       |
//!    65536  | unit 64                               |
//! ```
//! A run is named by its first unit. An arena has a pair of words for each of the 63 size classes,
//! in objects of three pairs:
//! ```text
//!     +  0  | link, header                          |
//!     + 16  | cache: its free slots                 | class 0: slots of 32 bytes
//!     + 24  | the slab that it owns, or 0           |
//!     + 32  | the same                              | class 1: slots of 48 bytes
//!     + 48  | the same                              | class 2: slots of 64 bytes
//!      ...  | 20 more objects                       | classes 3 to 62
//!     +1344 | unused                                |
//! ```
//! Every other unit below the frontier belongs to one run, which starts with a head:
//! ```text
//!              slab           array            string          free run
//!     +  0  | link         | link           | link           | link         |
//!     +  8  | header: slab | header: own    | header: own    | header: own  |
//!     + 16  | 1            | 2              | 5              | 3            |
//!     + 24  | units        | units          | units          | units        |
//!     + 32  | before       | before         | before         | 0            |
//!     + 40  | state        | blocks         | bytes          | next         |
//!     + 48  | next         | prepared       | 0              | previous     |
//!     + 56  | previous     | 1: never used  | 0              | 0            |
//!     + 64  | link, header | link, header   | link, header   | unused       |
//!     + 80  | slot         | block of 256   | piece of 1008  |              |
//!      ...  | slots        | 272 apart      | 1024 apart     |              |
//! ```
//! `before` is the length of the free run that ends where this run begins, or 0. Two free runs
//! never touch, and no free run touches the frontier. `next` and `previous` link the slabs of one
//! of a class's two lists, or the free runs of a bin. The slab's state, the cache and the arena's
//! slab are one word each:
//! ```text
//!              63      62      50 49        38 37    36 35     24 23       12 11      0
//!   state    | 0                             | status | count    | carved   | first   |
//!   slab     | 0                | carved     | first unit                              |
//!
//!              63       62          44 43                                             0
//!   cache    | listed | count        | offset of the first slot's object / 16         |
//! ```
//! `first` is the number of the slab's first free slot plus 1, or 0, and `count` is the number of
//! free slots. Slots from `carved` on were never used. `status` is 0 for a slab without free
//! slots, 1 on the list of partly used slabs, and 3 on the list of slabs with few free slots. It is
//! 2 while an arena owns the slab, whose word then has `carved`. A free slot begins with the heap
//! offset of the next free slot in its list, or 0. The list is the slab's or a cache's. If `listed`
//! is 1, the bitmap of arenas has the arena.
//!
//! Bin b < 8 holds the free runs of b units. From 8 on each power of two has eight bins: a run of u
//! units, 2^f <= u < 2^(f + 1), is in bin 8 (f - 2) + (u / 2^(f - 3)) mod 8.
//!
//! Blocks of an array are prepared in order. Blocks in never-used memory are zero without being
//! written. A string in a slot or a run consists of pieces of 1008 bytes, of which the last may be
//! shorter.
//!
//! # The line-isolated layout, version 2
//! For simulated machines that isolate whole cache lines: two concurrent transactions must not
//! write one line. No pool has it, and it never leaves the memory of a simulated machine. Its own
//! magic keeps either layout from being read as the other. The differences:
//! - A unit has 64 KiB. A slab is one unit, so that an object's address leads to its slab.
//! - Objects have neither header nor link. The head of their run holds their class, and they start
//!   at multiples of 64 bytes: an object shares no line with another one.
//! - Two words of a slot mark it free, both on the line that freeing it writes anyway.
//! - The words that two arenas write are on separate pages, as are the root and the page object.
//!   Arenas, bins and lists have no headers, and an arena's pairs are one after the other.
//! - Watches do not exist: no transaction relies on them, and arenas would share their lines.
//! ```text
//!        0  | link, header                          | of the run's head
//!       16  | 4 (first run), 3 (units), 0, 0, 0, 0  |
//!       64  | unused                                |
//!     4096  | link, header                          | of the root object
//!     4112  | magic: "lw-line\n"                    |
//!     4120  | version: 2                            |
//!     4128  | the program's root, unchecked         |
//!     4136  | version reached, progress, 0          | as above
//!     4160  | unused                                |
//!     8192  | link, header                          | of the page object
//!     8208  | frontier, first unit never used, bins | as above
//!     8272  | unused                                |
//!    12288  | link, header                          | of the owners object
//!    12304  | 0, 0, 0, 0, 0, 0                      |
//!    12352  | unused                                |
//!    16384  | bins 0 to 287                         |
//!    18688  | unused                                |
//!    20480  | list of class 0: slots of 64 bytes    |
//!      ...  | classes 1 to 15, each 64 bytes more   |
//!    21504  | unused                                |
//!    65536  | arena 0: its cache, and its slab      | class 0
//!      ...  | each 16 bytes more                    | up to class 15: 1024
//!    65792  | unused                                |
//!    69952  | arena 1, 320 bytes into its page      | each 320 more than the one before, up to
//!      ...  | arenas 2 to 31, a page each           | 2240, and from the page's beginning again
//!   196608  | unit 3                                |
//! ```
//! Every other run has a head as above. A slab's first slot, an array's first block and a string's
//! first piece start at +64. Blocks are 256 apart, pieces 1024. A free slot:
//! ```text
//!     +  0  | heap offset of the next one, or 0     |
//!     +  8  | object header: free                   | in a live object a word of the program's
//! ```
//! Taking a slot writes 0 to its second word, which so is a header only while the slot is free. A
//! second free is recognised by that word, as long as the slot is not allocated again.

use words::{ADDRESS_BITS, BLOCK_BYTES, HEADER_BYTES, PIECE_BYTES, Stop, Words};

use crate::classes::{CLASSES, pieces, string_bytes};
use crate::head::{Head, Run, own_header};
use crate::header::{Description, Kind, Slot, decode, encode};
use crate::state::SLOTS_MAX;
use crate::{ARENAS, Heap};

/// A heap's size is a multiple of this many bytes.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// Size of the smallest usable heap: the first run, and 64 KiB of others.
pub const HEAP_BYTES_MIN: u64 = 2 * CHUNK_BYTES;

/// Size of the smallest usable [line-isolated](Heap::line_isolated) heap: the first run and one
/// more.
pub const LINE_ISOLATED_BYTES_MIN: u64 = 4 * CHUNK_BYTES;

pub(crate) const VERSION: u64 = 2;

/// The offset in the root object of the program's root.
pub(crate) const ROOT_USER: u64 = 16;
/// The layout version that the last migration has reached, and the progress of the next one.
pub(crate) const ROOT_REACHED: u64 = 24;
pub(crate) const ROOT_PROGRESS: u64 = 32;

/// Offsets in the page object. It is apart from the root, so that transactions that read the root
/// do not conflict with transactions that take a run.
pub(crate) const FRONTIER: u64 = 0;
pub(crate) const NEVER_USED: u64 = 8;
pub(crate) const BIN_MAP: u64 = 16;
/// Payload of the page object.
pub(crate) const PAGES_PAYLOAD: u64 = 64;

/// Offsets in the object with the lists of a class.
pub(crate) const LIST_PARTIAL: u64 = 0;
pub(crate) const LIST_SPARSE: u64 = 8;

/// Number of bins of free runs.
pub(crate) const BINS: usize = 288;
/// Bins of one object: a design that isolates objects copies few words.
const BINS_PER_OBJECT: u64 = 6;

/// Payload of small objects of the allocator's own and of a run's head: with its header one cache
/// line.
pub(crate) const LINE_PAYLOAD: u64 = 48;
pub(crate) const LINE_WORDS: usize = LINE_PAYLOAD as usize / 8;

/// Offset of a run's head from the run's first byte.
pub(crate) const HEAD: u64 = 16;
/// Size of the head with its header.
pub(crate) const HEAD_LINE: u64 = 64;

/// Blocks of an array, or pieces of a string, whose headers are cleared when it is freed: a write
/// through a dangling pointer is then refused. Clearing every header of a long array could outgrow
/// the log. Later headers look live until their memory is reused, so a write to a later block of an
/// array reads the array's head, too (see
/// [`Runs::begin_of_late_block`](crate::Runs::begin_of_late_block)).
pub(crate) const HEADERS_CLEARED: u64 = 240;

/// Start of the words of the first run that are always 0: see [`watch`].
const WATCH_FIRST: u64 = 8 << 10;
pub(crate) const WATCHES: u64 = 16;
/// Distance of watches: the largest stripe that a design locks, so that no other word of a watch's
/// stripe ever changes.
const WATCH_STRIDE: u64 = 512;

const ARENA_FIRST: u64 = (16 << 10) + HEADER_BYTES;
/// Distance of arenas: a multiple of the largest stripe that a design locks.
const ARENA_STRIDE: u64 = 1536;
/// Pairs of words in one object of an arena: a design that isolates objects copies few words.
pub(crate) const PAIRS: usize = 3;

/// The largest unit that a simulated machine isolates or tracks, which is its page.
const PAGE: u64 = 4096;

/// Bytes of a slab of small slots, unless the heap is small.
const SLAB_BYTES: u64 = 32 << 10;
/// The fewest slots that a slab of large slots has, unless the heap is small.
const SLAB_SLOTS_MIN: u64 = 4;
/// A slab takes at most this share of the heap, or one slot. A worker that allocates objects of
/// many sizes therefore does not fill a small heap with slabs of its own.
const SLAB_SHARE: u64 = 128;

/// Returns an arena's offset in its page. Every transaction that allocates writes its arena's first
/// line, and memory channels interleave lines. At one common offset all arenas would share one
/// channel.
const fn colour(arena: usize) -> u64 {
    (arena % 8) as u64 * 5 * 64
}

const ORDINARY: Layout = Layout::Ordinary;

/// Heap offset of the page object in a pool's heap. A transaction locks it to take or free a run.
pub const PAGE_OBJECT: u64 = ORDINARY.pages();

const LINE_ISOLATED: Layout = Layout::LineIsolated;

const _: () = assert!(ORDINARY.root() == 64 + HEADER_BYTES);
const _: () = assert!(ORDINARY.pages() == 128 + HEADER_BYTES);
const _: () = assert!(HEAD + LINE_PAYLOAD == HEAD_LINE);
const _: () = assert!(BIN_MAP + 8 * BINS.div_ceil(64) as u64 <= PAGES_PAYLOAD);
const _: () = assert!(ORDINARY.bin(BINS - 1).0 < ORDINARY.list(0));
const _: () = assert!(8 * BINS_PER_OBJECT == LINE_PAYLOAD);
const _: () = assert!(ORDINARY.list(CLASSES) <= WATCH_FIRST);
const _: () = assert!(WATCH_FIRST + WATCHES * WATCH_STRIDE <= ARENA_FIRST - HEADER_BYTES);
const _: () = assert!(16 * PAIRS as u64 == LINE_PAYLOAD);
const _: () = assert!(64 * CLASSES.div_ceil(PAIRS) as u64 <= ARENA_STRIDE);
const _: () = assert!(ORDINARY.arena(ARENAS) - HEADER_BYTES == 64 << 10);
const _: () = assert!(ORDINARY.own_units() == 64);
const _: () = assert!(HEAP_BYTES_MIN > ORDINARY.own_units() * ORDINARY.unit_bytes());

const _: () = assert!(LINE_ISOLATED.arena(ARENAS) == LINE_ISOLATED.own_units() * CHUNK_BYTES);
const _: () = assert!(colour(7) + 16 * LINE_ISOLATED.classes() as u64 <= PAGE);
const _: () = assert!(LINE_ISOLATED.list(LINE_ISOLATED.classes()) < LINE_ISOLATED.arena(0));
const _: () = assert!(LINE_ISOLATED_BYTES_MIN == (LINE_ISOLATED.own_units() + 1) * CHUNK_BYTES);
const _: () = assert!((CHUNK_BYTES - HEAD_LINE) / LINE_ISOLATED.slot_bytes(0) <= SLOTS_MAX);
const _: () = assert!((SLAB_BYTES - HEAD_LINE) / ORDINARY.slot_bytes(0) <= SLOTS_MAX);

/// Returns the offset of the watch of the run that starts with `unit`. Several runs share one.
///
/// Preparing or freeing an array writes the watch's 0 again, before anything else. A transaction
/// with the watch in its read set therefore relies on the run's head without having the head there.
/// The head shares its stripe with the array's first elements, which a program may write all the
/// time. Only an ordinary heap has watches.
#[inline]
pub(crate) const fn watch(unit: u64) -> u64 {
    WATCH_FIRST + unit % WATCHES * WATCH_STRIDE
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

    /// Returns the size of a unit, of which runs consist.
    #[inline(always)]
    pub(crate) const fn unit_bytes(self) -> u64 {
        match self {
            Layout::Ordinary => 1 << 10,
            Layout::LineIsolated => CHUNK_BYTES,
        }
    }

    /// Returns the heap offset of a unit.
    #[inline(always)]
    pub(crate) const fn offset(self, unit: u64) -> u64 {
        unit * self.unit_bytes()
    }

    /// Returns the number of units of the first run, the allocator's own.
    pub(crate) const fn own_units(self) -> u64 {
        match self {
            Layout::Ordinary => 64,
            Layout::LineIsolated => 1 + ARENAS as u64 * PAGE / CHUNK_BYTES,
        }
    }

    /// Returns the heap offset of the root object.
    #[inline]
    pub(crate) const fn root(self) -> u64 {
        match self {
            Layout::Ordinary => 64 + HEADER_BYTES,
            Layout::LineIsolated => PAGE + HEADER_BYTES,
        }
    }

    /// Returns the heap offset of the page object.
    #[inline]
    pub(crate) const fn pages(self) -> u64 {
        match self {
            Layout::Ordinary => 128 + HEADER_BYTES,
            Layout::LineIsolated => 2 * PAGE + HEADER_BYTES,
        }
    }

    /// Returns the heap offset of the owners object.
    #[inline]
    pub(crate) const fn owners(self) -> u64 {
        match self {
            Layout::Ordinary => 512 + HEADER_BYTES,
            Layout::LineIsolated => 3 * PAGE + HEADER_BYTES,
        }
    }

    /// Returns the place of a bin's word: the heap offset of its object, and its offset in there.
    #[inline]
    pub(crate) const fn bin(self, bin: usize) -> (u64, u64) {
        let bin = bin as u64;
        match self {
            Layout::Ordinary => {
                let object = 1024 + 64 * (bin / BINS_PER_OBJECT) + HEADER_BYTES;
                (object, 8 * (bin % BINS_PER_OBJECT))
            }
            Layout::LineIsolated => (4 * PAGE, 8 * bin),
        }
    }

    /// Returns the heap offset of the object with the lists of partly used slabs of a class.
    #[inline]
    pub(crate) const fn list(self, class: usize) -> u64 {
        match self {
            Layout::Ordinary => 4096 + HEADER_BYTES + 64 * class as u64,
            Layout::LineIsolated => 5 * PAGE + 64 * class as u64,
        }
    }

    /// Returns the place of the arena's pair of words for a class: the heap offset of its object,
    /// and its offset in there.
    #[inline(always)]
    pub(crate) const fn pair(self, arena: usize, class: usize) -> (u64, u64) {
        let object = self.arena(arena);
        match self {
            Layout::Ordinary => (object + 64 * (class / PAIRS) as u64, 16 * (class % PAIRS) as u64),
            Layout::LineIsolated => (object, 16 * class as u64),
        }
    }

    /// Returns the objects of an arena, each with its header.
    pub(crate) fn arena_objects(self, arena: usize) -> impl Iterator<Item = u64> {
        let all = if self.has_headers() { usize::MAX } else { 0 };
        (0..CLASSES).step_by(PAIRS).take(all).map(move |class| self.pair(arena, class).0)
    }

    /// Returns the heap offset of an arena's first pair of words.
    #[inline(always)]
    pub(crate) const fn arena(self, index: usize) -> u64 {
        match self {
            Layout::Ordinary => ARENA_FIRST + index as u64 * ARENA_STRIDE,
            Layout::LineIsolated => CHUNK_BYTES + index as u64 * PAGE + colour(index),
        }
    }

    /// Returns the allocator's own objects in the first run that have a header, with their payload:
    /// all in an ordinary heap. Headers on the arenas' pages would make formatting a line-isolated
    /// heap write all those pages, more than some machines hold of a transaction.
    pub(crate) fn own_objects(self) -> impl Iterator<Item = (u64, u64)> {
        let few = [
            (self.root(), LINE_PAYLOAD),
            (self.pages(), PAGES_PAYLOAD),
            (self.owners(), LINE_PAYLOAD),
        ];
        let all = if self.has_headers() { usize::MAX } else { 0 };
        let bins = (0..BINS).step_by(BINS_PER_OBJECT as usize).take(all);
        let bins = bins.map(move |bin| (self.bin(bin).0, LINE_PAYLOAD));
        let lists =
            (0..self.classes()).take(all).map(move |class| (self.list(class), LINE_PAYLOAD));
        let arenas = (0..ARENAS).flat_map(move |arena| self.arena_objects(arena));
        let arenas = arenas.map(|object| (object, LINE_PAYLOAD));
        few.into_iter().chain(bins).chain(lists).chain(arenas)
    }

    /// Returns the bytes in front of a program's object that belong to it.
    #[inline(always)]
    pub(crate) const fn header_bytes(self) -> u64 {
        match self {
            Layout::Ordinary => HEADER_BYTES,
            Layout::LineIsolated => 0,
        }
    }

    /// Returns the offset of the first slot, block or piece of a run, from the run's first byte.
    #[inline(always)]
    pub(crate) const fn first_object(self) -> u64 {
        HEAD_LINE + self.header_bytes()
    }

    /// Returns the number of slots of a slab.
    #[inline]
    pub(crate) const fn slots(self, units: u64, class: usize) -> u64 {
        let bytes = units.saturating_mul(self.unit_bytes()).saturating_sub(HEAD_LINE);
        let slots = bytes / self.slot_bytes(class);
        if slots < SLOTS_MAX { slots } else { SLOTS_MAX }
    }

    /// Returns the number of units of a new slab in a heap of `heap_units` units.
    pub(crate) const fn slab_units(self, class: usize, heap_units: u64) -> u64 {
        let slot = self.slot_bytes(class);
        let wanted =
            if SLAB_SLOTS_MIN * slot > SLAB_BYTES { SLAB_SLOTS_MIN * slot } else { SLAB_BYTES };
        let share = heap_units * self.unit_bytes() / SLAB_SHARE;
        let bytes = if wanted < share { wanted } else { share };
        let slots = bytes.saturating_sub(HEAD_LINE) / slot;
        let slots = if slots == 0 { 1 } else { slots };
        (HEAD_LINE + slots * slot).div_ceil(self.unit_bytes())
    }

    /// Returns the fewest units that hold a slab of this class.
    pub(crate) const fn slab_units_min(self, class: usize) -> u64 {
        (HEAD_LINE + self.slot_bytes(class)).div_ceil(self.unit_bytes())
    }

    /// Returns the object in a slot of the slab that begins with `unit`.
    #[inline(always)]
    pub(crate) const fn slot(self, unit: u64, class: usize, number: u64) -> u64 {
        self.offset(unit) + self.first_object() + number * self.slot_bytes(class)
    }

    /// Returns the first unit of the slab that has `object` in this slot, if there can be one.
    #[inline(always)]
    pub(crate) const fn slab_of(self, object: u64, class: usize, number: u64) -> Option<u64> {
        let begin = object.wrapping_sub(self.first_object() + number * self.slot_bytes(class));
        if begin < object && begin.is_multiple_of(self.unit_bytes()) {
            Some(begin / self.unit_bytes())
        } else {
            None
        }
    }

    /// Returns the offset of a block of the array that starts with `unit`.
    #[inline(always)]
    pub(crate) const fn block(self, unit: u64, index: u64) -> u64 {
        self.offset(unit) + self.first_object() + index * self.block_stride()
    }

    /// Returns the distance of neighboring blocks: [`words::block_stride`] of the first.
    #[inline(always)]
    pub(crate) const fn block_stride(self) -> u64 {
        BLOCK_BYTES + self.header_bytes()
    }

    /// Returns the number of units of an array of `blocks` blocks, or `None` beyond every heap.
    pub(crate) fn units_for_blocks(self, blocks: u64) -> Option<u64> {
        let bytes = blocks.checked_mul(self.block_stride())?.checked_add(HEAD_LINE)?;
        Some(bytes.div_ceil(self.unit_bytes()))
    }

    /// Returns the number of units of a string of `bytes` bytes in a run of its own, or `None`
    /// beyond every heap.
    pub(crate) fn units_for_string(self, bytes: u64) -> Option<u64> {
        // Beyond every heap; below, the sums do not overflow.
        (bytes <= 1 << ADDRESS_BITS)
            .then(|| (string_bytes(bytes) + HEAD_LINE).div_ceil(self.unit_bytes()))
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

    /// Returns the label of a free slot.
    #[inline(always)]
    pub(crate) const fn free_label(self, object: u64, class: usize, number: u64) -> u64 {
        let bytes = self.payload_bytes(class);
        let position = Slot { class, number, pieces: 0 }.encode();
        encode(object, Description { kind: Kind::Free, bytes, position })
    }

    /// Returns the label of an allocated object.
    #[inline(always)]
    pub(crate) const fn live_label(
        self,
        object: u64,
        class: usize,
        number: u64,
        bytes: usize,
    ) -> u64 {
        let (kind, bytes) = (Kind::Object, bytes as u64);
        let position = Slot { class, number, pieces: 0 }.encode();
        match self {
            Layout::Ordinary => encode(object, Description { kind, bytes, position }),
            Layout::LineIsolated => 0,
        }
    }

    /// Returns the label of the first piece of a string of `bytes` bytes in a slot.
    pub(crate) const fn string_label(
        self,
        object: u64,
        class: usize,
        number: u64,
        bytes: u64,
    ) -> u64 {
        let position = Slot { class, number, pieces: pieces(bytes) }.encode();
        let bytes = if bytes < PIECE_BYTES { bytes } else { PIECE_BYTES };
        encode(object, Description { kind: Kind::SlotString, bytes, position })
    }

    /// Returns the size of the live object in a slot with this label, in a slab of this class: the
    /// requested size, if it is known. For a string it returns the size of the first piece. Returns
    /// `None` when the slot is not live.
    pub(crate) fn live_bytes(
        self,
        label: u64,
        object: u64,
        class: usize,
        number: u64,
    ) -> Option<u64> {
        let all = self.payload_bytes(class);
        match self {
            Layout::Ordinary => {
                let kind =
                    if self.is_string_class(class) { Kind::SlotString } else { Kind::Object };
                let live = decode(label, object).filter(|live| live.kind == kind)?;
                let slot = Slot::decode(live.position);
                let here = slot.class == class && slot.number == number;
                (here && (1..=all).contains(&live.bytes)).then_some(live.bytes)
            }
            Layout::LineIsolated => {
                (label != self.free_label(object, class, number)).then_some(all)
            }
        }
    }
}

impl Heap {
    /// Formats a heap of zeros as an empty heap, in one transaction. It writes about 800 words. In
    /// a [line-isolated](Heap::line_isolated) heap it writes 15 words on four cache lines.
    ///
    /// # Errors
    /// [`Stop::Full`] when it is smaller than [`HEAP_BYTES_MIN`] ([`LINE_ISOLATED_BYTES_MIN`]);
    /// [`Stop::BadValue`] when the heap is formatted already. Otherwise as [`Words::write`].
    pub fn format<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        let (layout, root, pages) = (self.layout, self.layout.root(), self.layout.pages());
        if !self.has_room() {
            return Err(Stop::Full);
        }
        if tx.read(self.addr(root, 0))? != 0 {
            return Err(Stop::BadValue);
        }
        let units = layout.own_units();
        self.write_head(tx, 0, Head { units, before: 0, kind: Run::First })?;
        for (object, payload) in layout.own_objects() {
            tx.write(self.header_at(object), own_header(object, payload))?;
        }
        tx.write_words(self.addr(root, 0), &[layout.magic(), VERSION])?;
        tx.write_words(self.addr(pages, 0), &[units, units])
    }
}
