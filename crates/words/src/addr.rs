//! Where a word is: an object and an offset inside it.
//!
//! ```text
//!   63        48 47                                    0
//!   | pool tag  |  byte offset of the object in the heap |     `Addr::object`
//! ```
//!
//! The *tag* is a non-zero number drawn when the pool was created. A pointer of another pool, a
//! small integer or garbage does not carry it, so it falls outside the heap in the one comparison
//! that also checks the bound. Designs that work on words add `object` and `offset`; a design that
//! versions objects needs to know which object a field belongs to.

/// Bits of an address that hold the offset in the heap; the pool's tag stands above them.
pub const ADDRESS_BITS: u32 = 48;

/// Bytes before each object that belong to the allocator and the design: two words.
///
/// The first is a link that only designs with versioned objects use; the second describes the
/// object (size, whether it is allocated, a check), so that a write through a wrong pointer is
/// refused.
pub const HEADER_BYTES: u64 = 16;

/// The largest object. What is larger is an [`Array`](crate::Array).
pub const OBJECT_BYTES_MAX: usize = 1024;

/// Bytes of data in one block of an [`Array`](crate::Array).
pub const BLOCK_BYTES: u64 = 256;

/// Distance between the first bytes of neighbouring blocks: each is an object with its header.
pub const BLOCK_STRIDE: u64 = BLOCK_BYTES + HEADER_BYTES;

/// Distance between the first bytes of neighbouring blocks of the run that starts at `first`, with
/// or without its tag; what an array multiplies with at every access.
///
/// The place says it: a run whose blocks have headers starts behind one, 16 bytes past a multiple
/// of 32, and they are [`BLOCK_STRIDE`] apart. Where objects have no headers (heaps of simulated
/// machines that isolate whole cache lines) a run starts at a multiple of 64, and its blocks are
/// [`BLOCK_BYTES`] apart.
#[inline]
pub const fn block_stride(first: u64) -> u64 {
    BLOCK_BYTES + (first & HEADER_BYTES)
}

/// The place of a word: the first byte of an object, and a byte offset inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addr {
    /// The object's first byte: pool tag and offset in the heap, in bytes.
    pub object: u64,
    /// Offset inside the object, in bytes.
    pub offset: u64,
}

impl Addr {
    /// An address from its parts. Nothing is checked here; every access checks.
    #[inline]
    pub const fn new(object: u64, offset: u64) -> Addr {
        Addr { object, offset }
    }

    /// The tagged byte address, for designs that work on words.
    #[inline]
    pub const fn byte(self) -> u64 {
        self.object.wrapping_add(self.offset)
    }

    /// The address `bytes` further on in the same object.
    #[inline]
    pub const fn plus(self, bytes: u64) -> Addr {
        Addr { object: self.object, offset: self.offset.wrapping_add(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_run_starts_says_how_far_apart_its_blocks_are() {
        assert_eq!(block_stride(0x1234_0000_0001_0050), BLOCK_STRIDE, "behind a header");
        assert_eq!(block_stride(0x1234_0000_0001_0040), BLOCK_BYTES, "at a line");
    }

    #[test]
    fn an_address_wraps_and_never_panics() {
        let wild = Addr::new(u64::MAX, 16);
        assert_eq!(wild.byte(), 15);
        assert_eq!(wild.plus(u64::MAX).byte(), 14);
    }
}
