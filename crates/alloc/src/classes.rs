//! Size classes: how large the slots of a slab are.
//!
//! With its header of 16 bytes a slot takes 32 to 1040 bytes. Sizes are multiples of 16, because
//! objects are; those from 128 bytes on are multiples of 32 or 64, so that slots start at the same
//! few places of a cache line (80 and 96 touch two lines wherever they start). The last is not
//! 1024 + 64: an object of 1024 bytes touches 17 lines either way, and two more fit in a slab.
//! Beyond rounding an object to 16 bytes a slot wastes at most a quarter (784 in 1040).

use words::{HEADER_BYTES, OBJECT_BYTES_MAX};

/// Number of classes.
pub(crate) const CLASSES: usize = 15;

/// Bytes of a slot of each class, header included.
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

/// The class for an object of so many bytes; nothing when no object has that size.
#[inline]
pub(crate) fn class_of(bytes: usize) -> Option<usize> {
    let fits = bytes != 0 && bytes <= OBJECT_BYTES_MAX;
    fits.then(|| CLASS_OF[bytes.div_ceil(16)] as usize)
}

/// Bytes of a slot, header included.
#[inline]
pub(crate) const fn slot_bytes(class: usize) -> u64 {
    SLOT_BYTES[class]
}

/// Bytes that an object in such a slot can have.
#[inline]
pub(crate) const fn payload_bytes(class: usize) -> u64 {
    SLOT_BYTES[class] - HEADER_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it_and_wastes_at_most_a_quarter() {
        for bytes in 1..=OBJECT_BYTES_MAX {
            let class = class_of(bytes).unwrap();
            assert!(payload_bytes(class) >= bytes as u64);
            assert!(class == 0 || payload_bytes(class - 1) < bytes as u64);
            let needed = (bytes as u64).next_multiple_of(16) + HEADER_BYTES;
            assert!(4 * (slot_bytes(class) - needed) <= slot_bytes(class), "{bytes} bytes");
        }
        assert_eq!(class_of(0), None);
        assert_eq!(class_of(OBJECT_BYTES_MAX + 1), None);
    }
}
