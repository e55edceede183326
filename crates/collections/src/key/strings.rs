//! Strings and byte strings as keys.
//!
//! ```text
//!   last component    | bytes |
//!   else              | bytes, with 0 as 01 01 and 1 as 01 02 | 00 |
//! ```
//!
//! An end of 0 is less than every byte that can follow it in a longer string, so a string is before
//! those that it begins. Text hardly ever has the two escaped bytes, and then costs one byte more.

use words::Stop;

use super::{AsKey, Key, KeyBuf};

/// The byte after a string.
const END: u8 = 0;

/// The byte before an escaped byte plus 1.
const ESCAPE: u8 = 1;

fn encode(string: &[u8], out: &mut KeyBuf, is_last: bool) {
    if is_last {
        return out.push(string);
    }
    let mut rest = string;
    while let Some(at) = rest.iter().position(|&byte| byte <= ESCAPE) {
        out.push(&rest[..at]);
        out.push(&[ESCAPE, rest[at] + 1]);
        rest = &rest[at + 1..];
    }
    out.push(rest);
    out.push(&[END]);
}

fn decode(bytes: &mut &[u8], is_last: bool) -> Result<Vec<u8>, Stop> {
    if is_last {
        return Ok(std::mem::take(bytes).to_vec());
    }
    let end = bytes.iter().position(|&byte| byte == END).ok_or(Stop::BadValue)?;
    let (mut rest, after) = (&bytes[..end], &bytes[end + 1..]);
    let mut string = Vec::with_capacity(rest.len());
    while let Some(at) = rest.iter().position(|&byte| byte == ESCAPE) {
        string.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            Some(&escaped @ 1..=2) => string.push(escaped - 1),
            _ => return Err(Stop::BadValue),
        }
        rest = &rest[at + 2..];
    }
    string.extend_from_slice(rest);
    *bytes = after;
    Ok(string)
}

/// Implements [`Key`] for a type of strings, and [`AsKey`] for the types that stand for one.
macro_rules! strings {
    ($owned:ty, $name:literal, $from:expr; $($type:ty),*; $query:tt) => {$(
        impl Key for $type {
            type Owned = $owned;
            const FIXED: Option<usize> = None;

            fn name() -> String {
                $name.to_owned()
            }

            #[inline]
            fn decode(bytes: &mut &[u8], is_last: bool) -> Result<$owned, Stop> {
                decode(bytes, is_last).and_then($from)
            }
        }

        strings!(@as $type; $query);
    )*};
    (@as $type:ty; [$($query:ty),*]) => {$(
        impl AsKey<$type> for $query {
            #[inline]
            fn encode(&self, out: &mut KeyBuf, is_last: bool) {
                encode(self.as_ref(), out, is_last);
            }
        }
    )*};
}

fn text(bytes: Vec<u8>) -> Result<String, Stop> {
    String::from_utf8(bytes).map_err(|_| Stop::BadValue)
}

strings!(String, "str", text; str, String; [str, String]);
strings!(Vec<u8>, "[u8]", Ok; [u8], Vec<u8>; [[u8], Vec<u8>]);

impl<const N: usize> AsKey<[u8]> for [u8; N] {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, is_last: bool) {
        encode(self, out, is_last);
    }
}

impl<const N: usize> AsKey<Vec<u8>> for [u8; N] {
    #[inline]
    fn encode(&self, out: &mut KeyBuf, is_last: bool) {
        encode(self, out, is_last);
    }
}
