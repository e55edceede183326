//! Arrays: sequences larger than an object.
//!
//! ```text
//!   first                                   first + 272
//!   | block 0: PER_BLOCK elements, 256 bytes | header | block 1 ...      header: 16 bytes
//! ```
//!
//! An element never straddles two blocks, so it belongs to one object. Blocks are a fixed distance
//! apart and hold a constant number of elements. An element's address is therefore one
//! multiplication and one shift, without a table or a division. In a heap whose objects have no
//! headers the distance is 256 bytes. [`block_stride`] derives it from the first block's address.

use std::fmt;
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Addr, Allocate, BLOCK_BYTES, Field, Persist, Stop, Words, block_stride};

/// A fixed number of elements in blocks of 256 bytes. Objects can hold it as a value of two words.
///
/// An array never moves. An element has 1 to 256 bytes. Elements narrower than a word are packed:
/// transactions that write neighbours in one word conflict, as for fields (see [`Persist`]).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Array<T> {
    /// The first block's first byte, and the number of elements.
    parts: [u64; 2],
    element: PhantomData<fn() -> T>,
}

impl<T: Persist> Array<T> {
    /// The array without elements, which owns no memory.
    pub const EMPTY: Array<T> = Array::from_parts(0, 0);

    const PER_BLOCK: u64 = {
        assert!(size_of::<T>() > 0, "an element has at least one byte");
        assert!(size_of::<T>() as u64 <= BLOCK_BYTES, "an element fits in a block of 256 bytes");
        BLOCK_BYTES / size_of::<T>() as u64
    };

    /// Allocates an array of `len` elements, all zero bytes, in this one transaction.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when preparation needs more than one transaction. Use
    /// [`reserve`](Array::reserve) then, and [`prepare`](Array::prepare) in several transactions.
    pub fn create<W: Allocate>(tx: &mut W, len: u64) -> Result<Array<T>, Stop> {
        let array = Array::reserve(tx, len)?;
        array.prepare(tx, u64::MAX)?;
        Ok(array)
    }

    /// Reserves memory for `len` elements, which are usable once [`prepare`](Array::prepare)
    /// returns true.
    ///
    /// Store the array somewhere reachable in the same transaction: the memory belongs to the
    /// program once it commits.
    ///
    /// # Errors
    /// [`Stop::Full`].
    pub fn reserve<W: Allocate>(tx: &mut W, len: u64) -> Result<Array<T>, Stop> {
        let blocks = len.div_ceil(Self::PER_BLOCK);
        let first = if blocks == 0 { 0 } else { tx.reserve_blocks(blocks)? };
        Ok(Array::from_parts(first, len))
    }

    /// Prepares up to `most_blocks` further blocks and returns whether all are prepared.
    ///
    /// The call may be repeated after a crash.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when `most_blocks` are too many for one transaction.
    pub fn prepare<W: Allocate>(self, tx: &mut W, most_blocks: u64) -> Result<bool, Stop> {
        Ok(self.is_empty() || tx.prepare_blocks(self.first(), most_blocks)? == 0)
    }

    /// Returns the place of an element.
    ///
    /// # Errors
    /// [`Stop::BadIndex`] when `index` is not less than the length.
    #[inline]
    pub fn at(self, index: u64) -> Result<Field<T>, Stop> {
        if index >= self.len() {
            return Err(Stop::BadIndex);
        }
        // Wrapping: a length read from a damaged pool must not panic; the access is refused later.
        let block = (index / Self::PER_BLOCK).wrapping_mul(block_stride(self.first()));
        let object = self.first().wrapping_add(block);
        Ok(Field::new(Addr::new(object, index % Self::PER_BLOCK * size_of::<T>() as u64)))
    }

    /// Frees the memory. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the array was freed before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        if self.is_empty() {
            return Ok(());
        }
        let blocks = self.len().div_ceil(Self::PER_BLOCK);
        tx.retire(Addr::new(self.first(), 0), blocks.wrapping_mul(BLOCK_BYTES))
    }

    /// Makes an array over existing blocks.
    pub(crate) const fn from_parts(first: u64, len: u64) -> Array<T> {
        Array { parts: [first, len], element: PhantomData }
    }

    /// Returns the number of elements.
    #[inline]
    pub const fn len(self) -> u64 {
        self.parts[1]
    }

    /// Returns whether the array has no elements.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    const fn first(self) -> u64 {
        self.parts[0]
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Array<T> {}
impl<T> PartialEq for Array<T> {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}
impl<T> Eq for Array<T> {}
impl<T> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({:#x}, {} elements)", self.parts[0], self.parts[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::Mock;
    use crate::{Objects, Place, Transact};

    #[test]
    fn array_elements_do_not_overlap() {
        let mut mock = Mock::new(1 << 16);
        let array = mock.transact(|tx| Array::<[u64; 3]>::create(tx, 100)).unwrap();
        mock.transact(|tx| {
            for i in 0..100 {
                assert_eq!(tx.get(array.at(i)?)?, [0; 3]);
                tx.set(array.at(i)?, [i, i + 1, i + 2])?;
            }
            Ok(())
        })
        .unwrap();
        for i in 0..100 {
            let value = mock.transact(|tx| tx.get(array.at(i)?)).unwrap();
            assert_eq!(value, [i, i + 1, i + 2]);
        }
        assert_eq!(array.at(100).unwrap_err(), Stop::BadIndex);
        mock.transact(|tx| array.free(tx)).unwrap();
        assert_eq!(mock.objects(), 0);
    }

    #[test]
    fn array_is_prepared_in_steps() {
        let mut mock = Mock::new(1 << 16);
        let array = mock.transact(|tx| Array::<u64>::reserve(tx, 320)).unwrap();
        assert!(!mock.transact(|tx| array.prepare(tx, 4)).unwrap());
        assert!(mock.transact(|tx| array.prepare(tx, 6)).unwrap());
        assert!(mock.transact(|tx| array.prepare(tx, 1)).unwrap());
    }

    #[test]
    fn array_with_wild_length_is_refused() {
        let array = Array::<u64>::from_parts(64, u64::MAX);
        let mut mock = Mock::forgiving(1 << 12);
        let refused = mock.transact(|tx| tx.get(array.at(u64::MAX - 1)?)).unwrap_err();
        assert_eq!(refused.stop, Stop::BadPointer);
        let refused = mock.transact(|tx| array.free(tx)).unwrap_err();
        assert_eq!(refused.stop, Stop::BadPointer);
    }

    #[test]
    fn blocks_without_headers_leave_no_gap() {
        for (first, stride) in [(1 << 16 | 80, 272), (1 << 16 | 64, 256)] {
            let array = Array::<u64>::from_parts(first, 1000);
            let at = array.at(999).unwrap().addr();
            assert_eq!((at.object, at.offset), (first + 31 * stride, 7 * 8));
        }
    }

    #[test]
    fn array_element_never_straddles_blocks() {
        let array = Array::<[u64; 5]>::from_parts(1 << 20, 1000);
        for i in 0..1000 {
            assert!(array.at(i).unwrap().addr().offset + 40 <= BLOCK_BYTES);
        }
    }
}
