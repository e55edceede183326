//! A queue of any values, which grows and shrinks at both ends in small steps.
//!
//! [`VecDeque`] encodes elements and leaves the rest to a tree of chunks, which
//! [`Vec`](crate::Vec) shares. The words that a change writes are those of a vector's.
//!
//! | two transactions | conflict |
//! |---|---|
//! | pushes or pops at one end | always |
//! | at different ends, up to 2 chunks | often: both write one chunk |
//! | at different ends, 3 to 60 chunks | when one adds or frees a chunk |
//! | at different ends, more chunks | when one adds or frees a chunk of the same 3600, or a node |
//! | `get`, `set` and iteration, and a pop or push at the front | always, as indices change |
//! | `get` and `set`, and a pop or push at the back | in one chunk; rarely else |
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

/// A queue that grows and shrinks at both ends: a value of one word that objects can hold.
///
/// An empty queue takes 16 bytes. Elements are stored as those of a [`Vec`](crate::Vec), and the
/// index of the first is 0. A queue of about constant length keeps its size, however many elements
/// pass through it.
///
/// ```
/// use collections::VecDeque;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let jobs = mock.transact(|tx| VecDeque::<str>::create(tx))?;
/// mock.transact(|tx| {
///     jobs.push_back(tx, "build")?;
///     jobs.push_back(tx, "test")?;
///     jobs.push_front(tx, "fetch")
/// })?;
/// assert_eq!(mock.transact(|tx| jobs.pop_front(tx))?.as_deref(), Some("fetch"));
/// assert_eq!(mock.transact(|tx| jobs.back(tx))?.as_deref(), Some("test"));
/// assert_eq!(mock.transact(|tx| jobs.len(tx))?, 2);
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// The ends of a long queue rarely conflict: producers at one end do not stop consumers at the
/// other. The [module](crate::vec_deque) has the table of conflicts.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct VecDeque<T: ?Sized> {
    header: u64,
    kind: PhantomData<fn(&T)>,
}

impl<T: Value + ?Sized> VecDeque<T> {
    const FORM: Form = Form::of::<T>();

    /// Creates an empty queue of 16 bytes. Store it somewhere reachable in the same transaction.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<VecDeque<T>, Stop> {
        Ok(VecDeque { header: Sequence::create(tx)?, kind: PhantomData })
    }

    /// Returns the number of elements. Reads both ends, and conflicts with every concurrent push
    /// and pop.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged queue, here and in all other methods.
    pub fn len<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        Ok(self.sequence().bounds(tx)?.len())
    }

    /// Returns whether the queue has no elements. Reads two words, which changes of a long queue
    /// rarely write.
    ///
    /// # Errors
    /// As [`len`](VecDeque::len).
    pub fn is_empty<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.sequence().is_empty(tx)
    }

    /// Returns the element at an index, counted from the front; `None` when the index is not less
    /// than the length.
    ///
    /// # Errors
    /// As [`len`](VecDeque::len).
    #[inline]
    pub fn get<W: Words>(self, tx: &mut W, index: u64) -> Result<Option<T::Owned>, Stop> {
        let place = self.sequence().find(tx, index)?;
        place.map(|place| self.sequence().value(tx, &place, T::decode)).transpose()
    }

    /// Returns the first element.
    ///
    /// # Errors
    /// As [`len`](VecDeque::len).
    pub fn front<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        self.edge(tx, Side::Front)
    }

    /// Returns the last element.
    ///
    /// # Errors
    /// As [`len`](VecDeque::len).
    pub fn back<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        self.edge(tx, Side::Back)
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

    /// Exchanges two elements. Returns false, and changes nothing, when an index is not less than
    /// the length.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn swap<W: Words>(self, tx: &mut W, one: u64, other: u64) -> Result<bool, Stop> {
        self.sequence().swap(tx, one, other)
    }

    /// Adds an element before the first.
    ///
    /// # Errors
    /// As [`set`](VecDeque::set).
    pub fn push_front<W: Allocate>(self, tx: &mut W, value: impl AsValue<T>) -> Result<(), Stop> {
        self.sequence().push(tx, Side::Front, &value.encode()?)
    }

    /// Adds an element after the last.
    ///
    /// # Errors
    /// As [`set`](VecDeque::set).
    pub fn push_back<W: Allocate>(self, tx: &mut W, value: impl AsValue<T>) -> Result<(), Stop> {
        self.sequence().push(tx, Side::Back, &value.encode()?)
    }

    /// Removes the first element, and returns it. Allocates nothing.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn pop_front<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        self.sequence().pop(tx, Side::Front, T::decode)
    }

    /// Removes the last element, and returns it. Allocates nothing.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn pop_back<W: Words>(self, tx: &mut W) -> Result<Option<T::Owned>, Stop> {
        self.sequence().pop(tx, Side::Back, T::decode)
    }

    /// Adds all values after the last element.
    ///
    /// # Errors
    /// As [`push_back`](VecDeque::push_back); [`Stop::TooLarge`] when they are too many for one
    /// transaction.
    pub fn extend<W: Allocate, R: AsValue<T>>(
        self,
        tx: &mut W,
        values: impl IntoIterator<Item = R>,
    ) -> Result<(), Stop> {
        for value in values {
            self.push_back(tx, value)?;
        }
        Ok(())
    }

    /// Returns an iterator over all elements, from both ends.
    pub fn iter<W: Words>(self, tx: &mut W) -> Iter<'_, W, T> {
        self.range(tx, ..)
    }

    /// Returns an iterator over the elements of a range of indices, as far as they exist.
    pub fn range<W: Words>(self, tx: &mut W, indices: impl RangeBounds<u64>) -> Iter<'_, W, T> {
        Iter::new(tx, self.sequence(), indices)
    }

    /// Calls `visit` with all elements, the first first.
    ///
    /// # Errors
    /// As [`len`](VecDeque::len).
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

    /// Removes all elements and frees their memory in this one transaction. The empty queue stays.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when they are too many. Use [`clear_step`](VecDeque::clear_step) then.
    pub fn clear<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.clear_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Frees up to `most` elements. Returns whether the queue is empty and all is freed.
    ///
    /// The first step makes the queue empty for all transactions after it. The progress is part of
    /// the pool: after a crash the next call continues. Elements that are pushed between the steps
    /// are removed, too.
    ///
    /// Give a step a transaction of its own under snapshot isolation: it does not conflict with
    /// concurrent changes of elements that later steps free.
    ///
    /// # Errors
    /// As [`pop_back`](VecDeque::pop_back).
    pub fn clear_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.sequence().clear(tx, most)
    }

    /// Frees the queue in this one transaction. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when it is too large. Use [`drop_step`](VecDeque::drop_step) then.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        while !self.drop_step(tx, u64::MAX)? {}
        Ok(())
    }

    /// Does a step as [`clear_step`](VecDeque::clear_step), and frees the queue itself when it is
    /// empty. Returns whether it did; every copy of this value dangles then. Remove the queue from
    /// its place in the transaction that returns true.
    ///
    /// # Errors
    /// As [`pop_back`](VecDeque::pop_back).
    pub fn drop_step<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        self.sequence().free(tx, most)
    }

    /// Checks the whole queue: every element is in its place and can be decoded. So are the
    /// elements that [`clear_step`](VecDeque::clear_step) has yet to free. The check ends after 100
    /// findings. The length is not stored: chunks that are lost at an end are not missed.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the pointers of damaged memory lead to a
    /// wrong place.
    pub fn check<W: Words>(self, tx: &mut W) -> Result<Checked, Stop> {
        self.sequence().check_all(tx, &is_value::<T>)
    }

    /// Checks about `most` elements from an index on, without those that are yet to be freed. A
    /// check of a large queue therefore needs no large transaction.
    ///
    /// # Errors
    /// As [`check`](VecDeque::check).
    pub fn check_step<W: Words>(self, tx: &mut W, from: u64, most: u64) -> Result<Checked, Stop> {
        self.sequence().check(tx, from, most, &is_value::<T>)
    }

    fn edge<W: Words>(self, tx: &mut W, side: Side) -> Result<Option<T::Owned>, Stop> {
        let place = self.sequence().edge(tx, side)?;
        place.map(|place| self.sequence().value(tx, &place, T::decode)).transpose()
    }

    #[inline]
    const fn sequence(self) -> Sequence {
        Sequence::queue(self.header, Self::FORM)
    }
}

impl<T: ?Sized> Clone for VecDeque<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for VecDeque<T> {}
impl<T: ?Sized> PartialEq for VecDeque<T> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}
impl<T: ?Sized> Eq for VecDeque<T> {}
impl<T: ?Sized> fmt::Debug for VecDeque<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VecDeque({:#x})", self.header)
    }
}
