//! The header of an object, which makes a write through a wrong pointer an error.
//!
//! # Durable format: object header
//! ```text
//!            63      48 47                    16 15  12 11          0
//!   - 16    | link: 0; designs with versioned objects use it        |
//!   -  8    | check    | position                | kind | bytes      |
//!   object  | payload: as many words as `bytes` needs ...           |
//! ```
//! Objects are aligned to 16 bytes. `bytes` is the requested size, or of a free slot the largest
//! that an object there may have. `check` is the upper 16 bits of (r ^ the lower 48 bits) *
//! 0x9e3779b97f4a7c15 modulo 2^64, where r is the object's heap offset rotated left by 32 bits. The
//! kinds, and the position of each:
//! ```text
//!                                              47..40  39..34   33..22   21..16
//!    1  free slot of a slab                  | 0      | 0      | slot   | class |
//!    2  first block of an unprepared array   | 0                                |
//!    3  the allocator's own                  | 0                                |
//!    4  the allocator's own: head of a slab  | 0                        | class |
//!    8  live object                          | 0      | 0      | slot   | class |
//!    9  live block of an array               | its number in the array (32)     |
//!   10  first piece of a string in a slot    | 0      | pieces | slot   | class |
//!   11  later piece of a string              | its number in the string (32)    |
//!   12  first piece of a string in a run     | 0                                |
//! ```
//! A slot's number leads to its slab, and a block's or piece's number to the first one. This needs
//! no search and works at every alignment.
//!
//! # Detected errors
//! The offset is part of the check. Neither data that resembles a header at another place nor a
//! copied header passes. A random word passes once in 2^16. A program that computes headers itself
//! is not stopped.

use words::{OBJECT_BYTES_MAX, PIECE_BYTES};

use crate::classes::{CLASSES, CLASSES_MAX};
use crate::layout::Layout;
use crate::state::SLOTS_MAX;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// A free slot of a slab.
    Free = 1,
    /// The first block of an array, before it is prepared.
    Reserved = 2,
    /// The allocator's own.
    Own = 3,
    /// The head of a slab, the allocator's own.
    Slab = 4,
    /// A live object of a program.
    Object = 8,
    /// A live block of a program's array.
    Block = 9,
    /// The first piece of a byte string that lies in a slot.
    SlotString = 10,
    /// A later piece of a byte string.
    Piece = 11,
    /// The first piece of a byte string that lies in a run of its own.
    RunString = 12,
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The object's kind.
    pub kind: Kind,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its position, whose meaning depends on the kind.
    pub position: u64,
}

const BYTES: u64 = 0xfff;
const KIND_SHIFT: u32 = 12;
const POSITION_SHIFT: u32 = 16;
const DESCRIPTION: u64 = (1 << 48) - 1;
/// The bit set in those kinds that a program may write.
const WRITABLE: u64 = 8 << KIND_SHIFT;
/// 2^64 / golden ratio, odd: the usual multiplicative hash, whose upper bits depend on every bit.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

const CLASS_BITS: u32 = 6;
const SLOT_BITS: u32 = 12;
const COUNT_SHIFT: u32 = CLASS_BITS + SLOT_BITS;

const _: () = assert!(OBJECT_BYTES_MAX as u64 <= BYTES && PIECE_BYTES <= BYTES);
const _: () = assert!(words::BLOCK_BYTES <= BYTES && words::HEADER_BYTES == 16);
const _: () = assert!(CLASSES_MAX < 1 << CLASS_BITS && SLOTS_MAX < 1 << SLOT_BITS);

/// The position of a slot: its class, its number in its slab, and the number of a string's pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) class: usize,
    pub(crate) number: u64,
    pub(crate) pieces: u64,
}

impl Slot {
    #[inline(always)]
    pub(crate) const fn encode(self) -> u64 {
        self.class as u64 | self.number << CLASS_BITS | self.pieces << COUNT_SHIFT
    }

    #[inline(always)]
    pub(crate) const fn decode(position: u64) -> Slot {
        Slot {
            class: (position & ((1 << CLASS_BITS) - 1)) as usize,
            number: position >> CLASS_BITS & ((1 << SLOT_BITS) - 1),
            pieces: position >> COUNT_SHIFT,
        }
    }
}

/// Returns the header word of the object at heap offset `object_offset` (without tag).
#[inline]
pub const fn encode(object_offset: u64, description: Description) -> u64 {
    let Description { kind, bytes, position } = description;
    seal(object_offset, position << POSITION_SHIFT | (kind as u64) << KIND_SHIFT | bytes)
}

/// Decodes a header word, if it is valid for the object at this heap offset.
#[inline]
pub const fn decode(header: u64, object_offset: u64) -> Option<Description> {
    let description = header & DESCRIPTION;
    if header != seal(object_offset, description) {
        return None;
    }
    let kind = match (description >> KIND_SHIFT) & 0xf {
        1 => Kind::Free,
        2 => Kind::Reserved,
        3 => Kind::Own,
        4 => Kind::Slab,
        8 => Kind::Object,
        9 => Kind::Block,
        10 => Kind::SlotString,
        11 => Kind::Piece,
        12 => Kind::RunString,
        _ => return None,
    };
    let position = description >> POSITION_SHIFT;
    Some(Description { kind, bytes: description & BYTES, position })
}

/// Returns whether a program may write the word `offset` bytes into an object.
///
/// `object_offset` is the object's heap offset without tag, `header` its header's second word. Only
/// words of live objects, prepared blocks and pieces pass. Header words, free slots and the
/// allocator's own objects do not.
#[inline]
pub const fn permits(header: u64, object_offset: u64, offset: u64) -> bool {
    let description = header & DESCRIPTION;
    header == seal(object_offset, description)
        && description & WRITABLE != 0
        && offset.is_multiple_of(8)
        && offset < description & BYTES
}

/// Returns how many bytes of an object a program may write. The arguments are those of [`permits`].
///
/// These are the whole words of a live object, prepared block or piece. Returns `None` for every
/// other object.
#[inline]
pub const fn writable_bytes(header: u64, object_offset: u64) -> Option<u64> {
    let description = header & DESCRIPTION;
    if header == seal(object_offset, description) && description & WRITABLE != 0 {
        Some((description & BYTES).next_multiple_of(8))
    } else {
        None
    }
}

/// Returns the largest size that an object may ever have under this header. For a slot that is its
/// capacity, and for a string's slot one piece. Otherwise it is the size in the header. A string's
/// last piece may grow, and its new header then has the new size. Returns `None` when the header is
/// not the object's. Arguments as for [`permits`].
#[inline]
pub fn extent_bytes(header: u64, object_offset: u64) -> Option<u64> {
    let Description { kind, bytes, position } = decode(header, object_offset)?;
    let class = Slot::decode(position).class;
    match kind {
        Kind::Object | Kind::Free | Kind::SlotString if class < CLASSES => {
            Some(Layout::Ordinary.payload_bytes(class))
        }
        _ => Some(bytes),
    }
}

/// Returns whether a header that [`writable_bytes`] lets pass is that of a block of an array.
#[inline]
pub const fn is_block(header: u64) -> bool {
    (header >> KIND_SHIFT) & 0xf == Kind::Block as u64
}

#[inline]
const fn seal(object_offset: u64, description: u64) -> u64 {
    // The rotation moves the bits in which nearby objects differ onto the bits of the position. One
    // multiplication then mixes both.
    let check = (object_offset.rotate_left(32) ^ description).wrapping_mul(MULTIPLIER);
    check >> 48 << 48 | description
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot { class: 3, number: 77, pieces: 0 };
    const LIVE: Description =
        Description { kind: Kind::Object, bytes: 60, position: SLOT.encode() };

    #[test]
    fn header_round_trips() {
        let header = encode(4096, LIVE);
        assert_eq!(decode(header, 4096), Some(LIVE));
        assert_eq!(decode(header, 4112), None);
        assert_eq!(decode(header ^ 1 << 30, 4096), None);
        let string = Slot { class: CLASSES - 1, number: SLOTS_MAX, pieces: 33 };
        assert_eq!(Slot::decode(string.encode()), string);
        let block = Description { kind: Kind::Block, bytes: 256, position: u32::MAX.into() };
        assert_eq!(decode(encode(1 << 47, block), 1 << 47), Some(block));
    }

    #[test]
    fn only_whole_words_of_live_objects_are_writable() {
        let header = encode(4096, LIVE);
        for offset in 0..80 {
            assert_eq!(permits(header, 4096, offset), offset % 8 == 0 && offset < 60, "{offset}");
        }
        for before in 1..=64_u64 {
            assert!(!permits(header, 4096, before.wrapping_neg()));
        }
        assert_eq!(writable_bytes(header, 4096), Some(64), "60 bytes are 8 words");
        assert_eq!(writable_bytes(header, 4112), None, "another object's header");
        for kind in [Kind::Free, Kind::Reserved, Kind::Own, Kind::Slab] {
            let header = encode(4096, Description { kind, ..LIVE });
            assert!(!permits(header, 4096, 0), "{kind:?}");
            assert_eq!(writable_bytes(header, 4096), None, "{kind:?}");
        }
        for kind in [Kind::Block, Kind::SlotString, Kind::Piece, Kind::RunString] {
            assert!(permits(encode(4096, Description { kind, ..LIVE }), 4096, 0), "{kind:?}");
        }
        assert!(!permits(0, 4096, 0));
        assert_eq!(writable_bytes(0, 4096), None);
    }

    #[test]
    fn extent_is_the_whole_slot() {
        let of = |kind, class, bytes| {
            let position = Slot { class, ..SLOT }.encode();
            extent_bytes(encode(4096, Description { kind, bytes, position }), 4096)
        };
        assert_eq!(of(Kind::Object, 3, 50), Some(64));
        assert_eq!(of(Kind::Free, 3, 64), Some(64));
        assert_eq!(of(Kind::Free, 40, 1008), Some(1008), "one piece of a string");
        assert_eq!(of(Kind::SlotString, 40, 1008), Some(1008));
        assert_eq!(of(Kind::Block, 0, 256), Some(256));
        assert_eq!(of(Kind::Slab, 3, 48), Some(48), "class 3 is that of the slab's slots");
        assert_eq!(of(Kind::Object, 63, 50), Some(50), "no such class");
        assert_eq!(extent_bytes(encode(4096, LIVE), 4112), None);
        assert_eq!(extent_bytes(0, 4096), None);
    }

    #[test]
    fn wrong_header_rarely_passes() {
        // Every header of one heap of 16 MiB, tried at the 64 places around its own: a check of 16
        // bits accepts about one in 65 536.
        let mut passed = 0_u64;
        let mut tried = 0_u64;
        for object in (64..16 << 20).step_by(272) {
            let header = encode(object, LIVE);
            for wrong in (object.saturating_sub(512)..object + 512).step_by(16) {
                if wrong != object {
                    tried += 1;
                    passed += u64::from(permits(header, wrong, 0));
                }
            }
        }
        assert!(passed * 65_536 < 2 * tried, "{passed} of {tried} passed");
    }
}
