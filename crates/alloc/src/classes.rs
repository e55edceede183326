//! Size classes, the sizes of a slab's slots.
//!
//! With its header of 16 bytes a slot takes 32 to 1040 bytes. Sizes are multiples of 16, as objects
//! are aligned to 16 bytes. Sizes from 128 bytes on are multiples of 32 or 64, so that slots start
//! at the same few offsets of a cache line; 80 and 96 touch two lines wherever they start. The last
//! size is not 1024 + 64: an object of 1024 bytes touches 17 lines either way, and two more slots
//! fit in a slab. Beyond rounding an object to 16 bytes a slot wastes at most a quarter (784 in
//! 1040).
//!
//! In the line-isolated layout, objects have no headers and start at cache lines. A slot there
//! takes as many whole lines as the object needs: a class for each multiple of 64 up to 1024.

use words::{HEADER_BYTES, OBJECT_BYTES_MAX};

use crate::layout::Layout;

/// Number of size classes of slots with headers.
pub(crate) const CLASSES: usize = 15;

/// Step of the sizes of line-isolated slots in bytes, and number of their classes.
const LINE: u64 = 64;
const LINE_CLASSES: usize = OBJECT_BYTES_MAX / LINE as usize;

/// The most classes that any layout has.
pub(crate) const CLASSES_MAX: usize = LINE_CLASSES;

/// Slot size of each class in bytes, header included.
const SLOT_BYTES: [u64; CLASSES] =
    [32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1040];

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

impl Layout {
    /// Returns the number of classes.
    #[inline(always)]
    pub(crate) const fn classes(self) -> usize {
        match self {
            Layout::Ordinary => CLASSES,
            Layout::LineIsolated => LINE_CLASSES,
        }
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

    /// Returns the size of a slot, header included.
    #[inline(always)]
    pub(crate) const fn slot_bytes(self, class: usize) -> u64 {
        match self {
            Layout::Ordinary => SLOT_BYTES[class],
            Layout::LineIsolated => LINE * (class as u64 + 1),
        }
    }

    /// Returns the largest object that fits in a slot of this class, in bytes.
    #[inline(always)]
    pub(crate) const fn payload_bytes(self, class: usize) -> u64 {
        self.slot_bytes(class) - self.header_bytes()
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
            let last = layout.class_of(OBJECT_BYTES_MAX).unwrap();
            assert_eq!(last, layout.classes() - 1);
            assert!(last < CLASSES_MAX);
        }
    }

    #[test]
    fn slot_waste_is_bounded() {
        for bytes in 1..=OBJECT_BYTES_MAX {
            let slot = |layout: Layout| layout.slot_bytes(layout.class_of(bytes).unwrap());
            let with_header = slot(Layout::Ordinary);
            let needed = (bytes as u64).next_multiple_of(16) + HEADER_BYTES;
            assert!(4 * (with_header - needed) <= with_header, "{bytes} bytes");
            let without = slot(Layout::LineIsolated);
            assert_eq!(without, (bytes as u64).next_multiple_of(64));
            assert!(without <= 2 * with_header, "{bytes} bytes");
        }
    }
}
