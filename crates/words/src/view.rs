//! Reading many fields of one object.
//!
//! A design that keeps versions of objects looks up, at each access, the version that the
//! transaction reads. A view does that lookup once for all fields of an object.

use std::marker::PhantomData;

use crate::part;
use crate::persist::value_words;
use crate::{Addr, Place, Ptr, Stop, Words};

/// The version of an object that a transaction reads, valid until it writes the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The object's first byte, as in [`Addr::object`].
    pub object: u64,
    /// The design's own reference to the version, or 0 where every access finds it by itself.
    pub version: u64,
}

/// An object that is read field by field, while the transaction does nothing else.
///
/// It returns the same values as [`Objects::get`](crate::Objects::get). Under `snapshot` it costs
/// less, elsewhere the same.
///
/// ```
/// use words::{Objects, Transact, field, mock::Mock};
/// # use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
/// # #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
/// # #[repr(C)]
/// # struct Account { cents: u64, transfers: u64 }
///
/// let mut mock = Mock::new(1 << 16);
/// let account = mock.transact(|tx| tx.alloc(Account { cents: 100, transfers: 3 }))?;
/// let mean = mock.transact(|tx| {
///     let mut view = tx.view(account)?;
///     let cents = view.get(field!(account, Account, cents))?;
///     Ok(cents / view.get(field!(account, Account, transfers))?)
/// })?;
/// assert_eq!(mean, 33);
/// # Ok::<(), words::mock::Refused>(())
/// ```
pub struct View<'t, W: ?Sized, T = ()> {
    tx: &'t mut W,
    seen: Seen,
    object: PhantomData<fn() -> T>,
}

impl<'t, W: Words + ?Sized, T> View<'t, W, T> {
    /// Opens the object that a pointer leads to.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline(always)]
    pub fn of(tx: &'t mut W, object: Ptr<T>) -> Result<View<'t, W, T>, Stop> {
        let seen = tx.look(object.to_bits())?;
        Ok(View { tx, seen, object: PhantomData })
    }

    /// Reads the word `offset` bytes into the object.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline(always)]
    pub fn read(&mut self, offset: u64) -> Result<u64, Stop> {
        self.tx.read_seen(self.seen, offset)
    }

    /// Returns the value at a place of this object, or of another at the cost of a lookup.
    ///
    /// # Errors
    /// As [`Objects::get`](crate::Objects::get).
    #[inline]
    pub fn get<P: Place>(&mut self, place: P) -> Result<P::Value, Stop> {
        const { value_words(size_of::<P::Value>()) };
        part::get(place.addr(), |at, words| {
            let Addr { object, offset } = at;
            if object != self.seen.object {
                return self.tx.read_words(at, words);
            }
            self.tx.read_words_seen(self.seen, offset, words)
        })
    }

    /// Counts work for a simulated machine; see [`Words::compute`].
    #[inline(always)]
    pub fn compute(&mut self, instructions: u32) {
        self.tx.compute(instructions);
    }

    /// Notes a dependent address for a simulated machine; see [`Words::after_last_read`].
    #[inline(always)]
    pub fn after_last_read(&mut self) {
        self.tx.after_last_read();
    }
}
