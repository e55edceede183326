//! Typed access over [`Words`]: values go in and out by copy.

use crate::persist::{from_words, to_words, whole_words, with_buffer};
use crate::{Addr, Allocate, Persist, Place, Ptr, Stop, View, Words, words_in};

/// Typed access for everything that has words. In scope wherever a transaction is used.
pub trait Objects: Words {
    /// The value at a place.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] when what is there is no value of the type.
    #[inline]
    fn get<P: Place>(&mut self, place: P) -> Result<P::Value, Stop> {
        const { whole_words(size_of::<P::Value>()) };
        with_buffer::<P::Value, _>(|words| {
            self.read_words(place.addr(), words)?;
            from_words(words)
        })
    }

    /// An object of which several fields are read, one by one: [`View`].
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    fn view<T>(&mut self, object: Ptr<T>) -> Result<View<'_, Self, T>, Stop> {
        View::of(self, object)
    }

    /// Puts a value at a place.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    fn set<P: Place>(&mut self, place: P, value: P::Value) -> Result<(), Stop> {
        const { whole_words(size_of::<P::Value>()) };
        with_buffer::<P::Value, _>(|words| {
            to_words(&value, words);
            self.write_words(place.addr(), words)
        })
    }

    /// Replaces the value at a place by what `change` makes of it.
    ///
    /// # Errors
    /// As [`get`](Objects::get) and [`set`](Objects::set).
    #[inline]
    fn update<P: Place>(
        &mut self,
        place: P,
        change: impl FnOnce(P::Value) -> P::Value,
    ) -> Result<(), Stop> {
        const { whole_words(size_of::<P::Value>()) };
        let value = self.get(place)?;
        self.set(place, change(value))
    }

    /// A new object that holds `value`.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    #[inline]
    fn alloc<T: Persist>(&mut self, value: T) -> Result<Ptr<T>, Stop>
    where
        Self: Allocate,
    {
        const { whole_words(size_of::<T>()) };
        let object = Ptr::from_bits(self.allocate(8 * words_in::<T>())?);
        self.set(object, value)?;
        Ok(object)
    }

    /// The root as the object that the program knows it to be; [`Ptr::NULL`] in a new heap.
    ///
    /// # Errors
    /// As [`Allocate::root`].
    #[inline]
    fn root_ptr<T>(&mut self) -> Result<Ptr<T>, Stop>
    where
        Self: Allocate,
    {
        self.root().map(Ptr::from_bits)
    }

    /// Makes an object the root: where the program finds everything again.
    ///
    /// # Errors
    /// As [`Allocate::set_root`].
    #[inline]
    fn set_root_ptr<T>(&mut self, object: Ptr<T>) -> Result<(), Stop>
    where
        Self: Allocate,
    {
        self.set_root(object.to_bits())
    }

    /// Gives an object back. Its memory is used again after this transaction has committed.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when there is no such object (given back before, or never allocated).
    #[inline]
    fn free<T: Persist>(&mut self, object: Ptr<T>) -> Result<(), Stop> {
        const { whole_words(size_of::<T>()) };
        self.retire(Addr::new(object.to_bits(), 0), 8 * words_in::<T>() as u64)
    }
}

impl<W: Words + ?Sized> Objects for W {}
