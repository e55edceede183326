//! The address of a word: an object and an offset inside it.
//!
//! ```text
//!   63        48 47                                    0
//!   | pool tag  |  byte offset of the object in the heap |     `Addr::object`
//! ```
//!
//! The *tag* is a random non-zero number, chosen when the pool is created. A pointer of another
//! pool, a small integer or garbage lacks the tag. It therefore falls outside the heap in the one
//! comparison that also checks the bound. A design that works on words adds `object` and `offset`.
//! A design that versions objects keeps them apart, because it needs the object of each field.

/// Width of an address's heap offset in bits. The pool's tag fills the bits above.
pub const ADDRESS_BITS: u32 = 48;

/// Bytes before each object that belong to the allocator and the design: two words.
///
/// The first word is a link that only designs with versioned objects use. The second describes the
/// object (size, state, check), so that a write through a wrong pointer is refused.
pub const HEADER_BYTES: u64 = 16;

/// The size limit of an object in bytes. Larger data is an [`Array`](crate::Array).
pub const OBJECT_BYTES_MAX: usize = 1024;

/// Bytes of data in one block of an [`Array`](crate::Array).
pub const BLOCK_BYTES: u64 = 256;

/// Distance between the first bytes of neighbouring blocks: each is an object with its header.
pub const BLOCK_STRIDE: u64 = BLOCK_BYTES + HEADER_BYTES;

/// Size of a piece of a byte string that is longer than an object. The last piece may be shorter.
pub const PIECE_BYTES: u64 = 1008;

/// Distance of neighboring pieces of a byte string.
pub const PIECE_STRIDE: u64 = PIECE_BYTES + HEADER_BYTES;

/// Returns the distance between the first bytes of neighbouring blocks of the run at `first`.
///
/// `first` may carry the pool's tag or not. An array multiplies by this at every access, so the
/// distance is computed from the address alone:
/// - a run whose blocks have headers starts after one, 16 bytes past a multiple of 32:
///   [`BLOCK_STRIDE`];
/// - without headers (heaps of simulated machines that isolate whole cache lines) a run starts at a
///   multiple of 64: [`BLOCK_BYTES`].
#[inline]
pub const fn block_stride(first: u64) -> u64 {
    BLOCK_BYTES + (first & HEADER_BYTES)
}

/// Returns how many bytes of a string each piece of the run at `first` holds; the last may hold
/// fewer.
///
/// As [`block_stride`] does, it follows from the address alone: pieces with headers hold
/// [`PIECE_BYTES`], and those without hold [`PIECE_STRIDE`].
#[inline]
pub const fn piece_bytes(first: u64) -> u64 {
    PIECE_STRIDE - (first & HEADER_BYTES)
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
    /// Makes an address from its parts. Only its accesses check it.
    #[inline]
    pub const fn new(object: u64, offset: u64) -> Addr {
        Addr { object, offset }
    }

    /// Returns the tagged byte address, for designs that work on words.
    #[inline]
    pub const fn byte(self) -> u64 {
        self.object.wrapping_add(self.offset)
    }

    /// Returns the address `bytes` further on in the same object.
    #[inline]
    pub const fn plus(self, bytes: u64) -> Addr {
        Addr { object: self.object, offset: self.offset.wrapping_add(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_stride_follows_from_run_address() {
        assert_eq!(block_stride(0x1234_0000_0001_0050), BLOCK_STRIDE, "after a header");
        assert_eq!(block_stride(0x1234_0000_0001_0040), BLOCK_BYTES, "at a cache line");
        assert_eq!(piece_bytes(0x1234_0000_0001_0050), PIECE_BYTES);
        assert_eq!(piece_bytes(0x1234_0000_0001_0040), PIECE_STRIDE);
    }

    #[test]
    fn address_arithmetic_wraps_without_panic() {
        let wild = Addr::new(u64::MAX, 16);
        assert_eq!(wild.byte(), 15);
        assert_eq!(wild.plus(u64::MAX).byte(), 14);
    }
}
