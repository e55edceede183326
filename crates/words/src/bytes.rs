//! Byte strings as heap objects.
//!
//! A string of up to 1 KiB is one object, and a longer one is an array of blocks. The length
//! decides which, so the handle of a string is two words.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Addr, Allocate, Array, OBJECT_BYTES_MAX, Place, Stop, Words};

/// A byte string in the heap: a value of two words that objects can hold.
///
/// A string is immutable. To change one, make another and free the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Bytes {
    first: u64,
    len: u64,
}

impl Bytes {
    /// The empty string, which owns no memory.
    pub const EMPTY: Bytes = Bytes { first: 0, len: 0 };

    /// Allocates a string and copies `bytes` into it.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot write so much. The first
    /// limit that a long string meets depends on the design:
    /// - `decoupled`: the worker's ring, by default 8 MiB with the words of the allocator
    ///   (`Options::ring_entries`), then half the log (`Options::log_bytes`);
    /// - the other designs: a worker's slot of the log;
    /// - `snapshot`, in addition: its memory for copies.
    ///
    /// The error of the surrounding `run` names the limit and the remedy.
    pub fn new<W: Allocate>(tx: &mut W, bytes: &[u8]) -> Result<Bytes, Stop> {
        let len = bytes.len() as u64;
        let string = match bytes.len() {
            0 => Bytes::EMPTY,
            small @ 1..=OBJECT_BYTES_MAX => Bytes { first: tx.allocate(small)?, len },
            _ => {
                let first = tx.reserve_blocks(len.div_ceil(BLOCK as u64))?;
                tx.prepare_blocks(first, u64::MAX)?;
                Bytes { first, len }
            }
        };
        for (i, chunk) in bytes.chunks(BLOCK).enumerate() {
            let mut words = [0_u64; BLOCK / 8];
            words.as_mut_bytes()[..chunk.len()].copy_from_slice(chunk);
            tx.write_words(string.block(i)?, &words[..chunk.len().div_ceil(8)])?;
        }
        Ok(string)
    }

    /// Returns a copy of the string's bytes.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadPointer`] when [`Bytes::new`] did not make this value.
    pub fn read<W: Words>(self, tx: &mut W) -> Result<Vec<u8>, Stop> {
        let mut out = Vec::new(); // grows with the bytes really read: the length is not trusted
        let mut left = usize::try_from(self.len).map_err(|_| Stop::BadPointer)?;
        let mut block = 0;
        while left > 0 {
            let here = left.min(BLOCK);
            let mut words = [0_u64; BLOCK / 8];
            tx.read_words(self.block(block)?, &mut words[..here.div_ceil(8)])?;
            out.extend_from_slice(&words.as_bytes()[..here]);
            left -= here;
            block += 1;
        }
        Ok(out)
    }

    /// Frees the memory.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the string was freed before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        match self.len {
            0 => Ok(()),
            small if small <= OBJECT_BYTES_MAX as u64 => tx.retire(Addr::new(self.first, 0), small),
            large => {
                let blocks = large.div_ceil(BLOCK as u64);
                tx.retire(Addr::new(self.first, 0), blocks * BLOCK as u64)
            }
        }
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Returns whether the string has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the address of the `index`-th 256 bytes.
    fn block(self, index: usize) -> Result<Addr, Stop> {
        if self.len <= OBJECT_BYTES_MAX as u64 {
            return Ok(Addr::new(self.first, (index * BLOCK) as u64));
        }
        let blocks = Array::<[u64; BLOCK / 8]>::from_parts(self.first, self.len.div_ceil(256));
        Ok(blocks.at(index as u64)?.addr())
    }
}

const BLOCK: usize = crate::BLOCK_BYTES as usize;

/// A UTF-8 string in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Text {
    bytes: Bytes,
}

impl Text {
    /// The empty string, which owns no memory.
    pub const EMPTY: Text = Text { bytes: Bytes::EMPTY };

    /// Allocates a string and copies `text` into it.
    ///
    /// # Errors
    /// As [`Bytes::new`].
    pub fn new<W: Allocate>(tx: &mut W, text: &str) -> Result<Text, Stop> {
        Ok(Text { bytes: Bytes::new(tx, text.as_bytes())? })
    }

    /// Returns a copy of the string.
    ///
    /// # Errors
    /// As [`Bytes::read`], and [`Stop::BadValue`] when it is not UTF-8.
    pub fn read<W: Words>(self, tx: &mut W) -> Result<String, Stop> {
        String::from_utf8(self.bytes.read(tx)?).map_err(|_| Stop::BadValue)
    }

    /// Frees the memory.
    ///
    /// # Errors
    /// As [`Bytes::free`].
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.bytes.free(tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transact;
    use crate::mock::Mock;

    #[test]
    fn strings_of_every_length_round_trip() {
        let mut mock = Mock::new(1 << 20);
        for len in [0, 1, 7, 8, 9, 255, 256, 257, 1023, 1024, 1025, 5000] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let string = mock.transact(|tx| Bytes::new(tx, &bytes)).unwrap();
            assert_eq!(mock.transact(|tx| string.read(tx)).unwrap(), bytes, "length {len}");
            mock.transact(|tx| string.free(tx)).unwrap();
            assert_eq!(mock.objects(), 0, "length {len}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let mut mock = Mock::new(1 << 16);
        let text = mock.transact(|tx| Text::new(tx, "größer")).unwrap();
        assert_eq!(mock.transact(|tx| text.read(tx)).unwrap(), "größer");
        let wrong = mock.transact(|tx| Bytes::new(tx, &[0xff, 0xfe])).unwrap();
        let wrong = Text { bytes: wrong };
        assert_eq!(mock.transact(|tx| wrong.read(tx)).unwrap_err().stop, Stop::BadValue);
    }

    #[test]
    fn string_with_wild_length_is_refused() {
        let mut mock = Mock::forgiving(1 << 16);
        let wild = Bytes { first: 64, len: u64::MAX };
        assert_eq!(mock.transact(|tx| wild.read(tx)).unwrap_err().stop, Stop::BadPointer);
    }
}
