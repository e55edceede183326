//! Typed access over [`Words`]: values are copied in and out.

use crate::part;
use crate::persist::{to_bytes, value_words, with_buffer};
use crate::{Addr, Allocate, Persist, Place, Ptr, Stop, View, Words, words_in};

/// Typed access for every type with words. Import it wherever a transaction is used.
pub trait Objects: Words {
    /// Returns the value at a place.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the bits there are no value of the type.
    #[inline]
    fn get<P: Place>(&mut self, place: P) -> Result<P::Value, Stop> {
        const { value_words(size_of::<P::Value>()) };
        part::get(place.addr(), |at, words| self.read_words(at, words))
    }

    /// Opens an object of which several fields are read one by one; see [`View`].
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    fn view<T>(&mut self, object: Ptr<T>) -> Result<View<'_, Self, T>, Stop> {
        View::of(self, object)
    }

    /// Writes a value at a place. A value that does not consist of whole words is written into the
    /// words that hold it, whose other bytes stay: see [`Persist`].
    ///
    /// # Errors
    /// As [`Words::write`].
    #[inline]
    fn set<P: Place>(&mut self, place: P, value: P::Value) -> Result<(), Stop> {
        const { value_words(size_of::<P::Value>()) };
        part::set(self, place.addr(), &value)
    }

    /// Replaces the value at a place by the result of `change`.
    ///
    /// # Errors
    /// As [`get`](Objects::get) and [`set`](Objects::set).
    #[inline]
    fn update<P: Place>(
        &mut self,
        place: P,
        change: impl FnOnce(P::Value) -> P::Value,
    ) -> Result<(), Stop> {
        const { value_words(size_of::<P::Value>()) };
        part::update(self, place.addr(), change)
    }

    /// Reads bytes of one object from `at` on, which need not be a multiple of 8.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn read_bytes(&mut self, at: Addr, out: &mut [u8]) -> Result<(), Stop> {
        part::read_bytes(self, at, out)
    }

    /// Writes bytes of one object from `at` on, which need not be a multiple of 8. The other bytes
    /// of the first and the last word stay.
    ///
    /// # Errors
    /// As [`Words::write`].
    fn write_bytes(&mut self, at: Addr, bytes: &[u8]) -> Result<(), Stop> {
        part::write_bytes(self, at, bytes, part::After::Kept)
    }

    /// Allocates an object that holds `value`.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    #[inline]
    fn alloc<T: Persist>(&mut self, value: T) -> Result<Ptr<T>, Stop>
    where
        Self: Allocate,
    {
        const { value_words(size_of::<T>()) };
        let object = Ptr::from_bits(self.allocate(8 * words_in::<T>())?);
        // Not `set`: the words of a new object have no content that a narrow value could keep.
        with_buffer::<T, _>(|words| {
            to_bytes(&value, words, 0);
            self.write_words(Addr::new(object.to_bits(), 0), words)
        })?;
        Ok(object)
    }

    /// Returns the root, typed by the caller, or [`Ptr::NULL`] in a new heap.
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

    /// Makes an object the root, from which the program reaches all its data after a restart.
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

    /// Frees an object. Its memory is reused after this transaction has committed.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the object is not live: freed before, or never allocated.
    #[inline]
    fn free<T: Persist>(&mut self, object: Ptr<T>) -> Result<(), Stop> {
        const { value_words(size_of::<T>()) };
        self.retire(Addr::new(object.to_bits(), 0), 8 * words_in::<T>() as u64)
    }
}

impl<W: Words + ?Sized> Objects for W {}
