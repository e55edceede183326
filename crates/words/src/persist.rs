//! Values that can be stored in a pool.

use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::addr::OBJECT_BYTES_MAX;
use crate::definition::Definition;
use crate::stop::Stop;

/// A plain value: no references, no padding, 1 to [`OBJECT_BYTES_MAX`] bytes.
///
/// A struct or enum with `#[lastword::persist]` implements it, and so does every `Copy` type with
/// zerocopy's four derives. A value with no bytes or with too many does not compile where it is
/// used. Reading checks enums and `bool`s: a bit pattern that the type does not have is
/// [`Stop::BadValue`].
///
/// A heap consists of words of 8 bytes. An object takes whole words, and the bytes after its value
/// are zero. A field may be narrower than a word. Two transactions that write different fields of
/// one word conflict, so fields that different threads write often belong in different words.
///
/// ```
/// use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
///
/// #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(u8)]
/// enum Door { Open = 1, Shut = 2 }
///
/// fn is_persist<T: words::Persist>() {}
/// is_persist::<Door>();
/// is_persist::<[f64; 4]>();
/// is_persist::<[u8; 13]>();
/// ```
///
/// A type with padding is refused, because its padding bytes are undefined:
/// ```compile_fail
/// # use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
/// #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Padded { small: u8, large: u64 }
/// ```
///
/// A type that owns memory elsewhere is refused too:
/// ```compile_fail,E0277
/// fn is_persist<T: words::Persist>() {}
/// is_persist::<String>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in a pool",
    label = "`{Self}` is not a plain value",
    note = "put `#[lastword::persist]` on a struct of your own",
    note = "for text and for data that grows use `Text`, `Bytes` and `Array`"
)]
pub trait Persist: TryFromBytes + IntoBytes + Immutable + Copy {
    /// The type's fields or variants, if `#[lastword::persist]` made it. A collection with a name
    /// stores and compares them.
    #[doc(hidden)]
    const DEFINITION: Option<&'static Definition> = None;
}

// `KnownLayout` is no condition of the trait. A type without it may have a definition of its own.
// Without this the error names the first missing zerocopy trait instead of the user's type.
#[diagnostic::do_not_recommend]
impl<T: TryFromBytes + IntoBytes + Immutable + KnownLayout + Copy> Persist for T {}

/// Returns the definition of a type that can be stored, if it has one.
///
/// Generated code calls it, because a wrong type as the argument of a function is one error. A path
/// to an associated constant of it would be an error for each trait that it lacks.
#[doc(hidden)]
pub const fn definition_of<T: Persist>() -> Option<&'static Definition> {
    T::DEFINITION
}

/// Panics unless a stored value may have so many bytes.
#[doc(hidden)]
#[track_caller]
pub const fn size_allowed(bytes: usize) {
    value_words(bytes);
}

/// Returns the number of words that hold a value. Fails to compile for a value without bytes, and
/// for one of more than [`OBJECT_BYTES_MAX`].
pub const fn words_in<T>() -> usize {
    const { value_words(size_of::<T>()) }
}

/// Returns the number of words that hold a value of `bytes` bytes, at compile time.
///
/// The compiler reports a wrong size inside the function that evaluates this, and names that
/// function's caller. Each public function therefore evaluates it itself, in its first line.
#[track_caller]
pub(crate) const fn value_words(bytes: usize) -> usize {
    assert!(bytes > 0, "a value in a pool has at least one byte");
    assert!(bytes <= OBJECT_BYTES_MAX, "an object has at most 1 KiB: use an Array");
    bytes.div_ceil(8)
}

/// Calls `with` on a zeroed buffer of the words of `T`, as small as one of four sizes allows.
#[inline]
pub(crate) fn with_buffer<T, R>(with: impl FnOnce(&mut [u64]) -> R) -> R {
    // Stable Rust has no arrays of a length computed from a type, and clearing 1 KiB for each small
    // value would cost more than the access itself. The branch is decided at compile time.
    let words = words_in::<T>();
    match words {
        0..=2 => with(&mut [0; 2][..words]),
        3..=8 => with(&mut [0; 8][..words]),
        9..=32 => with(&mut [0; 32][..words]),
        _ => with(&mut [0; OBJECT_BYTES_MAX / 8][..words]),
    }
}

/// Calls `with` on a zeroed buffer of the words that hold a `T` which begins `skip` < 8 bytes into
/// the first.
#[inline]
pub(crate) fn with_span<T, R>(skip: usize, with: impl FnOnce(&mut [u64]) -> R) -> R {
    let words = (skip + size_of::<T>()).div_ceil(8);
    match const { (7 + size_of::<T>()).div_ceil(8) } {
        0..=2 => with(&mut [0; 2][..words]),
        3..=8 => with(&mut [0; 8][..words]),
        9..=32 => with(&mut [0; 32][..words]),
        _ => with(&mut [0; OBJECT_BYTES_MAX / 8 + 1][..words]),
    }
}

/// Decodes a value from its words.
#[inline]
pub(crate) fn from_words<T: Persist>(words: &[u64]) -> Result<T, Stop> {
    T::try_read_from_bytes(words.as_bytes()).map_err(|_| Stop::BadValue)
}

/// Encodes a value as words.
#[inline]
pub(crate) fn to_words<T: Persist>(value: &T, words: &mut [u64]) {
    value.write_to(words.as_mut_bytes()).expect("the buffer has the size of this type");
}

/// Decodes the value that begins `skip` bytes into the words.
#[inline]
pub(crate) fn from_bytes<T: Persist>(words: &[u64], skip: usize) -> Result<T, Stop> {
    let bytes = &words.as_bytes()[skip..skip + size_of::<T>()];
    T::try_read_from_bytes(bytes).map_err(|_| Stop::BadValue)
}

/// Encodes a value into the bytes from `skip` on.
#[inline]
pub(crate) fn to_bytes<T: Persist>(value: &T, words: &mut [u64], skip: usize) {
    let bytes = &mut words.as_mut_bytes()[skip..skip + size_of::<T>()];
    value.write_to(bytes).expect("the range has the size of this type");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(u64)]
    enum Coin {
        Heads = 1,
        Tails = 2,
    }

    #[test]
    fn value_round_trips_through_words() {
        let value = [1_u64, 2, 3];
        let back = with_buffer::<[u64; 3], _>(|words| {
            to_words(&value, words);
            from_words::<[u64; 3]>(words)
        });
        assert_eq!(back, Ok(value));
    }

    #[test]
    fn unknown_bit_pattern_is_refused() {
        assert_eq!(from_words::<Coin>(&[2]), Ok(Coin::Tails));
        assert_eq!(from_words::<Coin>(&[1]), Ok(Coin::Heads));
        assert_eq!(from_words::<Coin>(&[3]), Err(Stop::BadValue));
    }
}
