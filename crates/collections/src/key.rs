//! Keys as byte strings, in the order of their values.
//!
//! The maps keep and compare bytes only. The encoding of a key therefore keeps std's [`Ord`]: the
//! bytes of two keys compare as the keys do. FoundationDB's tuple layer does the same with a type
//! code before each element. Here the map's type determines each component's type, so no code is
//! stored.
//!
//! ```text
//!   u8 ... u128, char     big-endian; a char as its number
//!   i8 ... i128           big-endian, with the sign bit flipped
//!   bool                  one byte, 0 or 1
//!   [u8; N]               its bytes
//!   str, [u8]             the bytes, as the last component of a key
//!                         else | bytes, with 0 as 01 01 and 1 as 01 02 | 00 |
//!   Option<T>             | 00 |, or | 01 | T |
//!   (A, B, ...)           | A | B | ... |
//! ```
//!
//! Invariants:
//! - `a < b` exactly if the bytes of `a` are before those of `b`.
//! - A component that is not the last says where it ends: no encoding is the start of another. The
//!   end of a string is 0. An escaped byte is greater than that, and less than all others.
//! - Decoding accepts only bytes that encoding produces, and never panics.

pub mod derived;
mod strings;
mod tuples;

use words::Stop;
use zerocopy::IntoBytes;

use crate::definitions::Definitions;

/// Bytes of a key that need no memory of their own.
const INLINE: usize = 64;

/// A type that keys of a map can have.
///
/// Implemented for integers, `bool`, `char`, `[u8; N]`, `str`, `[u8]`, tuples of two to four of
/// these, and `Option`s. A program's own structs and enums have `#[derive(lastword::Key)]`. The
/// strings of a tuple, struct or `Option` are written `String` and `Vec<u8>`, since they must have
/// a size. [`AsKey`] encodes, and this trait decodes:
///
/// ```
/// use collections::{Key, KeyBuf};
///
/// let key = KeyBuf::of::<(String, u32)>(("ann", 7));
/// assert_eq!(key.as_bytes(), b"ann\0\0\0\0\x07");
/// assert_eq!(<(String, u32)>::from_bytes(key.as_bytes())?, ("ann".to_owned(), 7));
/// assert!(key < KeyBuf::of::<(String, u32)>(("anna", 0)));
/// # Ok::<(), words::Stop>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    note = "keys are integers, `bool`, `char`, `[u8; N]`, `str`, `[u8]`, and tuples and `Option`s \
            of these, with `String` and `Vec<u8>` for their strings",
    note = "put `#[derive(lastword::Key)]` on a struct or enum of your own"
)]
pub trait Key {
    /// The type in which a map returns its keys.
    type Owned;

    /// The length of every encoded key, if all have one length.
    const FIXED: Option<usize>;

    /// Returns the name of the type, to be compared when a stored map is opened. Types with the
    /// same encoding, such as `str` and `String`, have the same name.
    fn name() -> String;

    /// Adds the definitions of the type and of its components, to be compared, too. Types without a
    /// macro have none.
    #[doc(hidden)]
    fn define(_: &mut Definitions) {}

    /// Takes the key from the front of `bytes`. `is_last` says that no component follows.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when the bytes begin with no encoded key.
    fn decode(bytes: &mut &[u8], is_last: bool) -> Result<Self::Owned, Stop>;

    /// Decodes a whole key.
    ///
    /// # Errors
    /// [`Stop::BadValue`] when the bytes are no encoded key.
    #[inline]
    fn from_bytes(mut bytes: &[u8]) -> Result<Self::Owned, Stop> {
        let key = Self::decode(&mut bytes, true)?;
        if bytes.is_empty() { Ok(key) } else { Err(Stop::BadValue) }
    }
}

/// A value that stands for a key of type `K`, such as `&str` and `String` for `str`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a key of type `{K}`")]
pub trait AsKey<K: Key + ?Sized> {
    /// Appends the encoded key. `is_last` says that no component follows.
    fn encode(&self, out: &mut KeyBuf, is_last: bool);
}

impl<K: Key + ?Sized, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, is_last: bool) {
        (**self).encode(out, is_last);
    }
}

/// An encoded key. Up to 64 bytes are on the stack.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    len: usize,
    /// The first bytes, and zeros.
    inline: [u64; INLINE / 8],
    /// All bytes, and zeros, of a key that is longer than `inline`.
    long: Vec<u64>,
}

impl KeyBuf {
    /// Makes the buffer of a key without bytes.
    #[inline]
    pub const fn new() -> KeyBuf {
        KeyBuf { len: 0, inline: [0; INLINE / 8], long: Vec::new() }
    }

    /// Encodes a key.
    #[inline]
    pub fn of<K: Key + ?Sized>(key: impl AsKey<K>) -> KeyBuf {
        let mut encoded = KeyBuf::new();
        key.encode(&mut encoded, true);
        encoded
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if end > INLINE {
            return self.push_long(bytes);
        }
        self.inline.as_mut_bytes()[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Returns the encoded key.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.all().as_bytes()[..self.len]
    }

    /// Returns the encoded key as words in little-endian order. The last is filled up with zeros.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.all()[..self.len.div_ceil(8)]
    }

    /// Returns the first 8 bytes as a number, with zeros after a shorter key.
    ///
    /// Keys with different prefixes compare as these do. Equal prefixes decide nothing, unless the
    /// keys have one length of at most 8 bytes: `"a"` and `"a\0"` share theirs.
    #[inline]
    pub const fn prefix(&self) -> u64 {
        u64::from_be(self.inline[0])
    }

    #[inline]
    fn all(&self) -> &[u64] {
        if self.len <= INLINE { &self.inline } else { &self.long }
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.len <= INLINE {
            self.long.extend_from_slice(&self.inline);
        }
        self.long.resize(end.div_ceil(8), 0);
        self.long.as_mut_bytes()[self.len..end].copy_from_slice(bytes);
        if self.len < 8 {
            // The prefix is read from here, whatever the key's length.
            self.inline[0] = self.long[0];
        }
        self.len = end;
    }
}

impl Default for KeyBuf {
    fn default() -> KeyBuf {
        KeyBuf::new()
    }
}

impl PartialEq for KeyBuf {
    fn eq(&self, other: &KeyBuf) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
impl Eq for KeyBuf {}
impl PartialOrd for KeyBuf {
    fn partial_cmp(&self, other: &KeyBuf) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for KeyBuf {
    fn cmp(&self, other: &KeyBuf) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// Takes `N` bytes from the front.
#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Stop> {
    let (first, rest) = bytes.split_first_chunk().ok_or(Stop::BadValue)?;
    *bytes = rest;
    Ok(*first)
}

/// Implements both traits for integers.
macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Key for $type {
            type Owned = $type;
            const FIXED: Option<usize> = Some(size_of::<$type>());

            fn name() -> String {
                stringify!($type).to_owned()
            }

            #[inline]
            fn decode(bytes: &mut &[u8], _: bool) -> Result<$type, Stop> {
                Ok($type::from_be_bytes(take(bytes)?) ^ $type::MIN)
            }
        }

        impl AsKey<$type> for $type {
            #[inline]
            fn encode(&self, out: &mut KeyBuf, _: bool) {
                // The least number is the sign bit alone, and 0 in a type without one.
                out.push(&(*self ^ $type::MIN).to_be_bytes());
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

impl Key for bool {
    type Owned = bool;
    const FIXED: Option<usize> = Some(1);

    fn name() -> String {
        "bool".to_owned()
    }

    #[inline]
    fn decode(bytes: &mut &[u8], _: bool) -> Result<bool, Stop> {
        match take(bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Stop::BadValue),
        }
    }
}

impl AsKey<bool> for bool {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, _: bool) {
        out.push(&[u8::from(*self)]);
    }
}

impl Key for char {
    type Owned = char;
    const FIXED: Option<usize> = Some(4);

    fn name() -> String {
        "char".to_owned()
    }

    #[inline]
    fn decode(bytes: &mut &[u8], _: bool) -> Result<char, Stop> {
        char::from_u32(u32::from_be_bytes(take(bytes)?)).ok_or(Stop::BadValue)
    }
}

impl AsKey<char> for char {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, _: bool) {
        out.push(&u32::from(*self).to_be_bytes());
    }
}

impl<const N: usize> Key for [u8; N] {
    type Owned = [u8; N];
    const FIXED: Option<usize> = Some(N);

    fn name() -> String {
        format!("[u8; {N}]")
    }

    #[inline]
    fn decode(bytes: &mut &[u8], _: bool) -> Result<[u8; N], Stop> {
        take(bytes)
    }
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, _: bool) {
        out.push(self);
    }
}

impl<T: Key> Key for Option<T> {
    type Owned = Option<T::Owned>;
    const FIXED: Option<usize> = None;

    fn name() -> String {
        format!("Option<{}>", T::name())
    }

    fn define(definitions: &mut Definitions) {
        T::define(definitions);
    }

    #[inline]
    fn decode(bytes: &mut &[u8], is_last: bool) -> Result<Self::Owned, Stop> {
        if bool::decode(bytes, false)? { T::decode(bytes, is_last).map(Some) } else { Ok(None) }
    }
}

impl<T: Key, Q: AsKey<T>> AsKey<Option<T>> for Option<Q> {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, is_last: bool) {
        self.is_some().encode(out, false);
        if let Some(some) = self {
            some.encode(out, is_last);
        }
    }
}
