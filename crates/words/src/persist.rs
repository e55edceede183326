//! Values that can live in a pool.

use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::{OBJECT_BYTES_MAX, Stop};

/// A plain value of whole words: no references, no padding, at most
/// [`OBJECT_BYTES_MAX`] bytes.
///
/// It is implemented for every `Copy` type with zerocopy's four derives; that its size is a
/// multiple of 8 is checked where it is used, at compile time. Enums and `bool`s are checked when
/// a value is read: a bit pattern that the type does not have is [`Stop::BadValue`].
///
/// ```
/// use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
///
/// #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(u64)]
/// enum Door { Open = 1, Shut = 2 }
///
/// fn is_persist<T: words::Persist>() {}
/// is_persist::<Door>();
/// is_persist::<[f64; 4]>();
/// ```
///
/// A value with padding is refused, because its bytes would not be defined:
/// ```compile_fail
/// # use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
/// #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Padded { small: u8, large: u64 }
/// ```
///
/// So is a type whose values are elsewhere:
/// ```compile_fail,E0277
/// fn is_persist<T: words::Persist>() {}
/// is_persist::<String>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in a pool",
    label = "`{Self}` is no plain value of whole words",
    note = "give it `#[repr(C)]` and \
            `#[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]`",
    note = "for text and for what grows there are `Text`, `Bytes` and `Array`"
)]
pub trait Persist: TryFromBytes + IntoBytes + Immutable + KnownLayout + Copy {}

// The error names the user's type, not the first of zerocopy's traits that it lacks.
#[diagnostic::do_not_recommend]
impl<T: TryFromBytes + IntoBytes + Immutable + KnownLayout + Copy> Persist for T {}

/// How many words a value takes. Does not compile for a type of another size than whole words.
pub const fn words_in<T>() -> usize {
    const { whole_words(size_of::<T>()) }
}

/// How many words a value of so many bytes takes, at compile time.
///
/// The compiler reports a wrong size where the function is that needs the words, and names the
/// caller of that function: so each that a program calls computes them itself, in its first line.
#[track_caller]
pub(crate) const fn whole_words(bytes: usize) -> usize {
    assert!(
        bytes.is_multiple_of(8),
        "a value in a pool is made of whole words: its size must be a multiple of 8 bytes"
    );
    assert!(bytes > 0, "a value in a pool has at least one word");
    assert!(bytes <= OBJECT_BYTES_MAX, "an object has at most 1 KiB: use an Array");
    bytes / 8
}

/// Calls `with` on a zeroed buffer of the words of `T`, no larger than it must be.
#[inline]
pub(crate) fn with_buffer<T, R>(with: impl FnOnce(&mut [u64]) -> R) -> R {
    // Stable Rust has no arrays of a length computed from a type; clearing 1 KiB for each small
    // value would cost more than the access itself. The branch is decided at compile time.
    let words = words_in::<T>();
    match words {
        0..=2 => with(&mut [0; 2][..words]),
        3..=8 => with(&mut [0; 8][..words]),
        9..=32 => with(&mut [0; 32][..words]),
        _ => with(&mut [0; OBJECT_BYTES_MAX / 8][..words]),
    }
}

/// The value that these words hold.
#[inline]
pub(crate) fn from_words<T: Persist>(words: &[u64]) -> Result<T, Stop> {
    T::try_read_from_bytes(words.as_bytes()).map_err(|_| Stop::BadValue)
}

/// Lays a value out as words.
#[inline]
pub(crate) fn to_words<T: Persist>(value: &T, words: &mut [u64]) {
    value.write_to(words.as_mut_bytes()).expect("the buffer was made for this type");
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
    fn a_value_comes_back_as_it_was() {
        let value = [1_u64, 2, 3];
        let back = with_buffer::<[u64; 3], _>(|words| {
            to_words(&value, words);
            from_words::<[u64; 3]>(words)
        });
        assert_eq!(back, Ok(value));
    }

    #[test]
    fn a_bit_pattern_that_the_type_does_not_have_is_refused() {
        assert_eq!(from_words::<Coin>(&[2]), Ok(Coin::Tails));
        assert_eq!(from_words::<Coin>(&[1]), Ok(Coin::Heads));
        assert_eq!(from_words::<Coin>(&[3]), Err(Stop::BadValue));
    }
}
