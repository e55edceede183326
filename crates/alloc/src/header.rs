//! The header of an object, which makes a write through a wrong pointer an error.
//!
//! # Durable format: object header
//! ```text
//!            63      48 47       20 19   16 15  12 11          0
//!   - 16    | link: 0; designs with versioned objects use it     |
//!   -  8    | check    | 0         | class | kind | bytes        |
//!   object  | payload: as many words as `bytes` needs ...        |
//! ```
//! Objects are aligned to 16 bytes. `class` is the size class of a slab's slot and 0 elsewhere.
//! `bytes` is the requested size, or of a free object the capacity of its slot. `check` is the
//! upper 16 bits of (object's heap offset * 2^16 + the lower 20 bits) * 0x9e3779b97f4a7c15,
//! modulo 2^64. The kinds:
//! ```text
//!   1  free: on a free list, the next one's heap offset in its first word, 0 at the end
//!   2  first block of a run that is not prepared yet
//!   3  the allocator's own
//!   4  the allocator's own: head of a slab of size class `class`
//!   8  live object of a program
//!   9  live block of a run
//! ```
//! # Detected errors
//! The offset is part of the check. Neither data that resembles a header at another place nor a
//! copied header passes. A random word passes once in 2^16. A program that computes headers itself
//! is not stopped.

use words::OBJECT_BYTES_MAX;

use crate::classes::CLASSES;
use crate::layout::Layout;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// On a free list.
    Free = 1,
    /// The first block of a run, before it is prepared.
    Reserved = 2,
    /// The allocator's own.
    Own = 3,
    /// The head of a slab, the allocator's own.
    Slab = 4,
    /// A live object of a program.
    Object = 8,
    /// A live block of a program's run.
    Block = 9,
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The object's kind.
    pub kind: Kind,
    /// Its size class in a slab, else 0.
    pub class: u8,
    /// Its size in bytes.
    pub bytes: u64,
}

const BYTES: u64 = 0xfff;
const KIND_SHIFT: u32 = 12;
const CLASS_SHIFT: u32 = 16;
const DESCRIPTION: u64 = 0xf_ffff;
/// The bit set in those kinds that a program may write.
const WRITABLE: u64 = 8 << KIND_SHIFT;
/// 2^64 / golden ratio, odd: the usual multiplicative hash, whose upper bits depend on every bit.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

const _: () = assert!(OBJECT_BYTES_MAX as u64 <= BYTES && words::BLOCK_BYTES <= BYTES);
const _: () = assert!(words::HEADER_BYTES == 16);

/// Returns the header word of the object at heap offset `object_offset` (without tag).
#[inline]
pub const fn encode(object_offset: u64, description: Description) -> u64 {
    let Description { kind, class, bytes } = description;
    seal(object_offset, (class as u64) << CLASS_SHIFT | (kind as u64) << KIND_SHIFT | bytes)
}

/// Decodes a header word, if it is valid for the object at this heap offset.
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
        _ => return None,
    };
    let class = (description >> CLASS_SHIFT) as u8;
    Some(Description { kind, class, bytes: description & BYTES })
}

/// Returns whether a program may write the word `offset` bytes into an object.
///
/// `object_offset` is the object's heap offset without tag, `header` its header's second word. Only
/// words of live objects and prepared blocks pass: never a header word, a free object or one of the
/// allocator's own.
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
/// These are the whole words of a live object or prepared block. `None` for all else.
#[inline]
pub const fn writable_bytes(header: u64, object_offset: u64) -> Option<u64> {
    let description = header & DESCRIPTION;
    if header == seal(object_offset, description) && description & WRITABLE != 0 {
        Some((description & BYTES).next_multiple_of(8))
    } else {
        None
    }
}

/// Returns the largest size that an object may ever have under this header: the capacity of its
/// slot in a slab, whatever its requested size; else the size in the header. `None` when the
/// header is not the object's. Arguments as for [`permits`].
#[inline]
pub fn extent_bytes(header: u64, object_offset: u64) -> Option<u64> {
    let Description { kind, class, bytes } = decode(header, object_offset)?;
    match kind {
        Kind::Object | Kind::Free if (class as usize) < CLASSES => {
            Some(Layout::Ordinary.payload_bytes(class as usize))
        }
        _ => Some(bytes),
    }
}

/// Returns whether a header that [`writable_bytes`] lets pass is that of a block of a run.
#[inline]
pub const fn is_block(header: u64) -> bool {
    (header >> KIND_SHIFT) & 0xf == Kind::Block as u64
}

#[inline]
const fn seal(object_offset: u64, description: u64) -> u64 {
    // Offsets are multiples of 16, so the two do not overlap, and one multiplication mixes both.
    let check = (object_offset << 16 ^ description).wrapping_mul(MULTIPLIER) >> 48;
    check << 48 | description
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: Description = Description { kind: Kind::Object, class: 3, bytes: 60 };

    #[test]
    fn header_round_trips() {
        let header = encode(4096, LIVE);
        assert_eq!(decode(header, 4096), Some(LIVE));
        assert_eq!(decode(header, 4112), None);
        assert_eq!(decode(header ^ 1 << 30, 4096), None);
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
        assert!(!permits(0, 4096, 0));
        assert_eq!(writable_bytes(0, 4096), None);
    }

    #[test]
    fn extent_is_the_whole_slot() {
        let of = |kind, class, bytes| {
            extent_bytes(encode(4096, Description { kind, class, bytes }), 4096)
        };
        assert_eq!(of(Kind::Object, 3, 50), Some(64));
        assert_eq!(of(Kind::Free, 3, 64), Some(64));
        assert_eq!(of(Kind::Block, 0, 256), Some(256));
        assert_eq!(of(Kind::Slab, 3, 48), Some(48), "class 3 is that of the slab's slots");
        assert_eq!(of(Kind::Object, 15, 50), Some(50), "no such class");
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
