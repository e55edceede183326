//! Values as byte strings.
//!
//! | type of values or elements | bytes | given as | returned as |
//! |---|---|---|---|
//! | any [`Persist`] type `T` | its own | `T`, `&T` | `T` |
//! | `str` | UTF-8 | `&str`, `String` | `String` |
//! | `[u8]` | themselves | `&[u8]`, `Vec<u8>`, `[u8; N]` | `Vec<u8>` |
//! | `Postcard<T>`, with the feature `serde` | postcard's | `T`, `&T` | `T` |
//!
//! A set is a map whose values are `()`, which has no bytes.
//!
//! Invariants:
//! - Decoding accepts only bytes of a value of the type, and never panics.
//! - Only `Postcard` allocates to encode a value.

use std::borrow::Cow;

use words::{OBJECT_BYTES_MAX, Persist, Stop};

use crate::definitions::{Definitions, stored_name};
use crate::key::Key;

/// A type that values of a map can have, and elements of a vector or queue.
///
/// ```
/// use collections::{AsValue, Value};
///
/// let bytes = AsValue::<u32>::encode(&7)?;
/// assert_eq!(*bytes, [7, 0, 0, 0]);
/// assert_eq!(<u32 as Value>::decode(bytes)?, 7);
/// let bytes = AsValue::<str>::encode("ann")?;
/// assert_eq!(<str as Value>::decode(bytes)?, "ann");
/// # Ok::<(), words::Stop>(())
/// ```
///
/// A struct has `#[lastword::persist]` or zerocopy's derives, as [`Persist`] says, and at most 1024
/// bytes. `String` and
/// `Vec` own memory outside of the pool and are no values:
/// ```compile_fail,E0277
/// # use collections::Value;
/// let name = <String as Value>::name();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of a map",
    note = "write `str` for text and `[u8]` for bytes of any length",
    note = "put `#[lastword::persist]` on a struct of your own",
    note = "with the feature `serde`, `Postcard<T>` holds any type that serde knows"
)]
pub trait Value {
    /// The type in which a map returns its values.
    type Owned;

    /// The length of every encoded value, if all have one length.
    const FIXED: Option<usize>;

    /// Returns the name of the type without its modules, to be compared when a stored map is
    /// opened.
    fn name() -> String;

    /// Adds the definitions of the type and of its fields' types, to be compared, too. Types
    /// without a macro have none.
    #[doc(hidden)]
    fn define(_: &mut Definitions) {}

    /// Decodes a value. A string takes over the memory of owned bytes.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when the bytes are no encoded value.
    fn decode(bytes: Cow<'_, [u8]>) -> Result<Self::Owned, Stop>;
}

/// Returns whether bytes are an encoded value of a type.
pub(crate) fn is_value<V: Value + ?Sized>(bytes: &[u8]) -> bool {
    V::decode(Cow::Borrowed(bytes)).is_ok()
}

/// Returns whether bytes are an encoded key and value of these types.
pub(crate) fn is_pair<K: Key + ?Sized, V: Value + ?Sized>(key: &[u8], value: &[u8]) -> bool {
    K::from_bytes(key).is_ok() && is_value::<V>(value)
}

/// A value that stands for one of type `V`, such as `&str` and `String` for `str`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a value of type `{V}`")]
pub trait AsValue<V: Value + ?Sized> {
    /// Returns the encoded value.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when serde cannot serialize the value; none for other types.
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop>;
}

// Without this the error names the traits of `Persist` and not the types that are allowed.
#[diagnostic::do_not_recommend]
impl<T: Persist> Value for T {
    type Owned = T;
    const FIXED: Option<usize> = {
        // A longer one would be a byte string, in which compaction translates no pointers.
        assert!(size_of::<T>() <= OBJECT_BYTES_MAX, "a value of a fixed size has up to 1024 bytes");
        Some(size_of::<T>())
    };

    fn name() -> String {
        stored_name::<T>()
    }

    fn define(definitions: &mut Definitions) {
        T::DEFINITION.into_iter().for_each(|definition| definitions.add_all(definition));
    }

    #[inline]
    fn decode(bytes: Cow<'_, [u8]>) -> Result<T, Stop> {
        T::try_read_from_bytes(&bytes).map_err(|_| Stop::BadValue)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Persist> AsValue<T> for T {
    #[inline]
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
        Ok(Cow::Borrowed(self.as_bytes()))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Persist> AsValue<T> for &T {
    #[inline]
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
        Ok(Cow::Borrowed(self.as_bytes()))
    }
}

impl Value for str {
    type Owned = String;
    const FIXED: Option<usize> = None;

    fn name() -> String {
        "str".to_owned()
    }

    #[inline]
    fn decode(bytes: Cow<'_, [u8]>) -> Result<String, Stop> {
        String::from_utf8(bytes.into_owned()).map_err(|_| Stop::BadValue)
    }
}

impl Value for [u8] {
    type Owned = Vec<u8>;
    const FIXED: Option<usize> = None;

    fn name() -> String {
        "[u8]".to_owned()
    }

    #[inline]
    fn decode(bytes: Cow<'_, [u8]>) -> Result<Vec<u8>, Stop> {
        Ok(bytes.into_owned())
    }
}

/// Implements [`AsValue`] for types that have the bytes of a string.
macro_rules! strings {
    ($($value:ty: $($query:ty)*;)*) => {$($(
        impl AsValue<$value> for $query {
            #[inline]
            fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
                Ok(Cow::Borrowed(self.as_ref()))
            }
        }
    )*)*};
}

strings! {
    str: str &str String &String;
    [u8]: [u8] &[u8] Vec<u8> &Vec<u8>;
}

impl<const N: usize> AsValue<[u8]> for [u8; N] {
    #[inline]
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
        Ok(Cow::Borrowed(self))
    }
}

impl<const N: usize> AsValue<[u8]> for &[u8; N] {
    #[inline]
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
        Ok(Cow::Borrowed(*self))
    }
}

#[cfg(feature = "serde")]
mod postcard;

#[cfg(feature = "serde")]
pub use postcard::Postcard;
