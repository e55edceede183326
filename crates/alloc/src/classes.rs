//! Size classes, the sizes of a slab's slots.
//!
//! A class has one geometry, so memory keeps its shape from one use of a slot to the next:
//! - *Object* classes hold one object with its header, of 32 to 1040 bytes together.
//! - *String* classes hold a byte string of more than 1 KiB: up to 33 pieces of 1008 bytes, each
//!   with a header, so 1024 apart. See [`words::PIECE_BYTES`].
//!
//! Sizes are multiples of 16 and grow by 16 bytes up to 192, and then by at most a sixth. String
//! classes grow by a tenth: a byte string occupies its length plus at most 12 % and 32 bytes. All
//! sizes of format 1 are among them, so a slab of that format is one of this format.
//!
//! In the line-isolated layout, objects have no headers and start at cache lines. A slot there
//! takes as many whole lines as the object needs: a class for each multiple of 64 up to 1024.
//! It has no string classes.

use words::{HEADER_BYTES, OBJECT_BYTES_MAX, PIECE_BYTES};

use crate::layout::Layout;

/// Number of classes of slots with headers.
pub(crate) const CLASSES: usize = 63;
/// Number of those that hold one object.
pub(crate) const OBJECT_CLASSES: usize = 27;

/// Step of the sizes of line-isolated slots in bytes, and number of their classes.
const LINE: u64 = 64;
const LINE_CLASSES: usize = OBJECT_BYTES_MAX / LINE as usize;

/// The most classes that any layout has.
pub(crate) const CLASSES_MAX: usize = CLASSES;

/// Size of the longest byte string in a slot.
pub(crate) const SLOT_STRING_BYTES_MAX: u64 = 32 << 10;

/// Slot size of each class in bytes, headers included.
pub(crate) const SLOT_BYTES: [u64; CLASSES] = [
    32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 288, 320, 352, 384, 432, 480, 512,
    576, 640, 704, 768, 848, 944, 1040, // objects; strings from here on
    1152, 1264, 1392, 1536, 1680, 1856, 2048, 2240, 2480, 2720, 3008, 3296, 3632, 4000, 4416, 4848,
    5344, 5888, 6480, 7136, 7856, 8656, 9536, 10496, 11552, 12720, 14000, 15424, 16976, 18704,
    20592, 22672, 24960, 27488, 30272, 33328,
];

/// The class for each number of 16-byte units that an object needs.
const CLASS_OF: [u8; OBJECT_BYTES_MAX / 16 + 1] = {
    let mut table = [0; OBJECT_BYTES_MAX / 16 + 1];
    let mut units = 1;
    while units < table.len() {
        let mut class = 0;
        while SLOT_BYTES[class] - HEADER_BYTES < 16 * units as u64 {
            class += 1;
        }
        table[units] = class as u8;
        units += 1;
    }
    table
};

/// Returns the number of pieces of a byte string of `bytes` bytes (more than 0).
pub(crate) const fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE_BYTES)
}

/// Returns the memory that the pieces of a byte string occupy, headers included.
pub(crate) const fn string_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(16) + pieces(bytes).saturating_mul(HEADER_BYTES)
}

/// Returns the class of a byte string of `bytes` bytes, if it is longer than an object and fits in
/// a slot.
pub(crate) fn string_class(bytes: u64) -> Option<usize> {
    if bytes <= OBJECT_BYTES_MAX as u64 || bytes > SLOT_STRING_BYTES_MAX {
        return None;
    }
    let needed = string_bytes(bytes);
    let class = SLOT_BYTES.partition_point(|&slot| slot < needed).max(OBJECT_CLASSES);
    (class < CLASSES).then_some(class)
}

impl Layout {
    /// Returns the number of classes.
    #[inline(always)]
    pub(crate) const fn classes(self) -> usize {
        match self {
            Layout::Ordinary => CLASSES,
            Layout::LineIsolated => LINE_CLASSES,
        }
    }

    /// Returns whether slots of this class hold byte strings in pieces.
    #[inline(always)]
    pub(crate) const fn is_string_class(self, class: usize) -> bool {
        matches!(self, Layout::Ordinary) && class >= OBJECT_CLASSES
    }

    /// Returns the class for an object of `bytes` bytes, or `None` when no object has that size.
    #[inline(always)]
    pub(crate) fn class_of(self, bytes: usize) -> Option<usize> {
        let fits = bytes != 0 && bytes <= OBJECT_BYTES_MAX;
        fits.then(|| match self {
            Layout::Ordinary => CLASS_OF[bytes.div_ceil(16)] as usize,
            Layout::LineIsolated => (bytes - 1) / LINE as usize,
        })
    }

    /// Returns the size of a slot, headers included.
    #[inline(always)]
    pub(crate) const fn slot_bytes(self, class: usize) -> u64 {
        match self {
            Layout::Ordinary => SLOT_BYTES[class],
            Layout::LineIsolated => LINE * (class as u64 + 1),
        }
    }

    /// Returns the size of the largest object that a design isolates at the start of such a slot:
    /// the whole slot without its header, or a string's first piece.
    #[inline(always)]
    pub(crate) const fn payload_bytes(self, class: usize) -> u64 {
        if self.is_string_class(class) {
            PIECE_BYTES
        } else {
            self.slot_bytes(class) - self.header_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_its_smallest_class() {
        for layout in [Layout::Ordinary, Layout::LineIsolated] {
            for bytes in 1..=OBJECT_BYTES_MAX {
                let class = layout.class_of(bytes).unwrap();
                assert!(layout.payload_bytes(class) >= bytes as u64);
                assert!(class == 0 || layout.payload_bytes(class - 1) < bytes as u64);
            }
            assert_eq!(layout.class_of(0), None);
            assert_eq!(layout.class_of(OBJECT_BYTES_MAX + 1), None);
        }
        let last = Layout::Ordinary.class_of(OBJECT_BYTES_MAX);
        assert_eq!(last, Some(OBJECT_CLASSES - 1));
        assert_eq!(Layout::LineIsolated.class_of(OBJECT_BYTES_MAX), Some(LINE_CLASSES - 1));
    }

    #[test]
    fn slot_waste_is_bounded() {
        for bytes in 1..=OBJECT_BYTES_MAX {
            let slot = |layout: Layout| layout.slot_bytes(layout.class_of(bytes).unwrap());
            let needed = (bytes as u64).next_multiple_of(16) + HEADER_BYTES;
            let waste = slot(Layout::Ordinary) - needed;
            assert!(8 * waste <= slot(Layout::Ordinary), "{bytes} bytes");
            assert_eq!(slot(Layout::LineIsolated), (bytes as u64).next_multiple_of(64));
        }
    }

    #[test]
    fn string_costs_at_most_an_eighth_and_32_bytes() {
        let longest = SLOT_STRING_BYTES_MAX as usize;
        for bytes in 1..=longest {
            let class = Layout::Ordinary.class_of(bytes).or_else(|| string_class(bytes as u64));
            let slot = Layout::Ordinary.slot_bytes(class.unwrap());
            assert!(100 * slot <= 112 * bytes as u64 + 3200, "{bytes} bytes take {slot}");
        }
        assert_eq!(string_class(longest as u64), Some(CLASSES - 1));
        assert_eq!(string_class(longest as u64 + 1), None);
        assert_eq!(string_class(OBJECT_BYTES_MAX as u64), None);
    }
}
