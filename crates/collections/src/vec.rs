//! A vector of any values: elements by index, which grows and shrinks at its back in small steps.
//!
//! [`Vec`] encodes elements and leaves the rest to a tree of chunks, which
//! [`VecDeque`](crate::VecDeque) shares.
//!
//! | change | words written |
//! |---|---|
//! | element | its words; of a type without a fixed length of up to 64 bytes: its object |
//! | push | the element, and one word of its chunk |
//! | push beside a full chunk, each 7th to 480th | also a word of the new chunk, and two above |
//! | pop | one word of a chunk; also one of the element's object, if it has one |
//!
//! Two transactions on elements of different chunks write no word in common, and none that the
//! other reads. A push and a pop write the last chunk, and rarely the nodes above.
//!
//! Invariants:
//! - An operation ends after a number of steps that the tree's height bounds, or the number of
//!   elements that it asks for, whatever the heap holds.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use words::{Allocate, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::sequence::{Form, Sequence, Side};
use crate::value::{AsValue, Value, is_value};

pub use crate::sequence::{Checked, Damage, Iter};

/// A vector that grows and shrinks at its back: a value of one word that objects can hold.
///
/// An empty vector takes 16 bytes. Elements of a fixed length of up to 64 bytes are stored side by
/// side, in chunks of 480 bytes: a `u64` takes 8.7 bytes in a long vector. A longer element has an
/// object of its own. No operation moves more than one chunk, so nothing takes time in proportion
/// to the length. For this reason `insert` and `remove` in the middle are missing:
/// [`swap_remove`](Vec::swap_remove) fills the gap with the last element.
///
/// ```
/// use collections::Vec;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let log = mock.transact(|tx| Vec::<str>::create(tx))?;
/// mock.transact(|tx| {
///     log.push(tx, "open")?;
///     log.push(tx, "write")?;
///     log.set(tx, 0, "create")
/// })?;
/// assert_eq!(mock.transact(|tx| log.get(tx, 0))?.as_deref(), Some("create"));
/// assert_eq!(mock.transact(|tx| log.pop(tx))?.as_deref(), Some("write"));
/// assert_eq!(mock.transact(|tx| log.len(tx))?, 1);
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// All pushes and pops of a vector conflict with each other. They rarely conflict with reads and
/// changes of elements in other chunks.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Vec<T: ?Sized> {
    header: u64,
    kind: PhantomData<fn(&T)>,
}

impl<T: Value + ?Sized> Vec<T> {
    const FORM: Form = Form::of::<T>();

    /// Creates an empty vector of 16 bytes. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<Vec<T>, Stop> {
        Ok(Vec { header: Sequence::create(tx)?, kind: PhantomData })
    }

    /// Returns the number of elements. Reads a node for each level, which most pushes and pops do
    /// not write, and the last chunk, which they do.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged vector, here and in all other methods.
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        Ok(self.sequence().bounds(tx)?.len())
    }

    /// Returns whether the vector has no elements. Reads two words, which changes of a long vector
    /// rarely write.
    ///
    /// # Errors
    /// As [`len`](Vec::len).
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.sequence().is_empty(tx)
    }

    /// Returns the element at an index; `None` when the index is not less than the length.
    ///
    /// # Errors
    /// As [`len`](Vec::len).
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, index: u64) -> Result<Option<T::Owned>, Stop> {
        let place = self.sequence().find(tx, index)?;
        place.map(|place| self.sequence().value(tx, &place, T::decode)).transpose()
    }

    /// Calls `with` on the encoded element at an index, without a copy if it is short.
    ///
    /// # Errors
    /// As [`len`](Vec::len).
    #[inline]
    pub fn get_with<W: Words, R>(
        self,
        tx: &mut W,
        index: u64,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        let place = self.sequence().find(tx, index)?;
        place.map(|place| self.sequence().value(tx, &place, |bytes| Ok(with(&bytes)))).transpose()
    }

    /// Returns the first element.
    ///
    /// # Errors
    /// As [`len`](Vec::len).
    pub fn first<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        self.get(tx, 0)
    }

    /// Returns the last element.
    ///
    /// # Errors
    /// As [`len`](Vec::len).
    pub fn last<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        let place = self.sequence().edge(tx, Side::Back)?;
        place.map(|place| self.sequence().value(tx, &place, T::decode)).transpose()
    }

    /// Replaces the element at an index, and returns the old one; `None`, and no change, when the
    /// index is not less than the length.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    pub fn set<W: Allocate>(
        self,
        tx: &mut W,
        index: u64,
        value: impl AsValue<T>,
    ) -> Result<Option<T::Owned>, Stop> {
        let Some(place) = self.sequence().find_to_change(tx, index)? else {
            return Ok(None);
        };
        let old = self.sequence().value(tx, &place, T::decode)?;
        self.sequence().replace(tx, &place, &value.encode()?)?;
        Ok(Some(old))
    }

    /// Replaces the element at an index, which it does not read. Returns false, and changes
    /// nothing, when the index is not less than the length.
    ///
    /// # Errors
    /// As [`set`](Vec::set).
    pub fn put<W: Allocate>(
        self,
        tx: &mut W,
        index: u64,
        value: impl AsValue<T>,
    ) -> Result<bool, Stop> {
        let Some(place) = self.sequence().find_to_change(tx, index)? else {
            return Ok(false);
        };
        self.sequence().replace(tx, &place, &value.encode()?)?;
        Ok(true)
    }

    /// Replaces the element at an index, if there is one, by the result of `change`. Returns that.
    ///
    /// # Errors
    /// As [`set`](Vec::set).
    pub fn update<W: Allocate, R: AsValue<T>>(
        self,
        tx: &mut W,
        index: u64,
        change: impl FnOnce(T::Owned) -> R,
    ) -> Result<Option<R>, Stop> {
        let Some(place) = self.sequence().find_to_change(tx, index)? else {
            return Ok(None);
        };
        let new = change(self.sequence().value(tx, &place, T::decode)?);
        self.sequence().replace(tx, &place, &new.encode()?)?;
        Ok(Some(new))
    }

    /// Exchanges two elements. Returns false, and changes nothing, when an index is not less than
    /// the length.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn swap<W: Words>(self, tx: &mut W, one: u64, other: u64) -> Result<bool, Stop> {
        self.sequence().swap(tx, one, other)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`set`](Vec::set).
    pub fn push<W: Allocate>(self, tx: &mut W, value: impl AsValue<T>) -> Result<(), Stop> {
        self.sequence().push(tx, Side::Back, &value.encode()?)
    }

    /// Removes the last element, and returns it. Allocates nothing.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn pop<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        self.sequence().pop(tx, Side::Back, T::decode)
    }

    /// Removes the element at an index, and returns it. The last element takes its place.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn swap_remove<W: Words>(self, tx: &mut W, index: u64) -> Result<Option<T::Owned>, Stop> {
        self.sequence().swap_remove(tx, index, T::decode)
    }

    /// Appends all values.
    ///
    /// # Errors
    /// As [`push`](Vec::push); [`Stop::TooLarge`] when they are too many for one transaction.
    pub fn extend<W: Allocate, R: AsValue<T>>(
        self,
        tx: &mut W,
        values: impl IntoIterator<Item = R>,
    ) -> Result<(), Stop> {
        for value in values {
            self.push(tx, value)?;
        }
        Ok(())
    }

    /// Returns an iterator over all elements, from both ends.
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, T> {
        self.range(tx, ..)
    }

    /// Returns an iterator over the elements of a range of indices, as far as they exist. A long
    /// scan in several transactions takes one range after the other.
    ///
    /// ```
    /// # use collections::Vec;
    /// # use words::{Transact, mock::Mock};
    /// # let mut mock = Mock::new(1 << 16);
    /// # let squares = mock.transact(|tx| Vec::<u64>::create(tx))?;
    /// mock.transact(|tx| squares.extend(tx, (0..100).map(|n| n * n)))?;
    /// let part = mock.transact(|tx| squares.range(tx, 98..).rev().collect::<Result<_, _>>());
    /// let part: std::vec::Vec<u64> = part?;
    /// assert_eq!(part, [9801, 9604]);
    /// # Ok::<(), words::mock::Refused>(())
    /// ```
    pub fn range<W: Words>(self, tx: &mut W, indices: impl RangeBounds<u64>) -> Iter<'_, W, T> {
        Iter::new(tx, self.sequence(), indices)
    }

    /// Calls `visit` with all elements.
    ///
    /// # Errors
    /// As [`len`](Vec::len).
    pub fn for_each<W: Words>(
        self,
        tx: &mut W,
        mut visit: impl FnMut(T::Owned),
    ) -> Result<(), Stop> {
        for value in self.iter(tx) {
            visit(value?);
        }
        Ok(())
    }

    /// Removes the elements from index `len` on in this one transaction, and frees their memory.
    ///
    /// # Errors
    /// As [`pop`](Vec::pop); [`Stop::TooLarge`] when they are too many for one transaction. Use
    /// [`truncate_step`](Vec::truncate_step) then.
    pub fn truncate<W: Words>(self, tx: &mut W, len: u64) -> Result<(), Stop> {
        self.sequence().truncate(tx, len, u64::MAX).map(drop)
    }

    /// Removes up to `most` elements, the last first, as long as there are more than `len`. Returns
    /// whether there are no more.
    ///
    /// # Errors
    /// As [`pop`](Vec::pop).
    pub fn truncate_step<W: Words>(self, tx: &mut W, len: u64, most: u64) -> Result<bool, Stop> {
        self.sequence().truncate(tx, len, most)
    }

    /// Removes all elements and frees their memory in this one transaction. The empty vector stays.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when they are too many. Use [`clear_step`](Vec::clear_step) then.
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.clear_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Frees up to `most` elements. Returns whether the vector is empty and all is freed.
    ///
    /// The first step makes the vector empty for all transactions after it. The progress is part of
    /// the pool: after a crash the next call continues. Elements that are pushed between the steps
    /// are removed, too.
    ///
    /// Give a step a transaction of its own under snapshot isolation: it does not conflict with
    /// concurrent changes of elements that later steps free.
    ///
    /// # Errors
    /// As [`pop`](Vec::pop).
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.sequence().clear(tx, most)
    }

    /// Frees the vector in this one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when it is too large. Use [`drop_step`](Vec::drop_step) then.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.drop_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Does a step as [`clear_step`](Vec::clear_step), and frees the vector itself when it is
    /// empty. Returns whether it did; every copy of this value dangles then. Remove the vector from
    /// its place in the transaction that returns true.
    ///
    /// # Errors
    /// As [`pop`](Vec::pop).
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.sequence().free(tx, most)
    }

    /// Checks the whole vector: every element is in its place and can be decoded. So are the
    /// elements that [`clear_step`](Vec::clear_step) has yet to free. The check ends after 100
    /// findings. The length is not stored: chunks that are lost at an end are not missed.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the pointers of damaged memory lead to a
    /// wrong place.
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        self.sequence().check_all(tx, &is_value::<T>)
    }

    /// Checks about `most` elements from an index on, without those that are yet to be freed. A
    /// check of a large vector therefore needs no large transaction.
    ///
    /// # Errors
    /// As [`check`](Vec::check).
    pub fn check_step<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        self.sequence().check(tx, from, most, &is_value::<T>)
    }

    #[inline]
    const fn sequence(self) -> Sequence {
        Sequence::vector(self.header, Self::FORM)
    }
}

impl<T: ?Sized> Clone for Vec<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Vec<T> {}
impl<T: ?Sized> PartialEq for Vec<T> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}
impl<T: ?Sized> Eq for Vec<T> {}
impl<T: ?Sized> fmt::Debug for Vec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vec({:#x})", self.header)
    }
}
