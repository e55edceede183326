//! Functions that `#[derive(lastword::Key)]` calls.
//!
//! ```text
//!   struct S { a: A, b: B }           | A | B |, as a tuple
//!   enum E { .., V { a: A, b: B } }   | discriminant of V | A | B |
//! ```

use words::Stop;

use super::Key;

/// Returns the length of fields one after the other, if each has one.
pub const fn length(fields: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut at) = (0, 0);
    while at < fields.len() {
        match fields[at] {
            Some(length) => sum += length,
            None => return None,
        }
        at += 1;
    }
    Some(sum)
}

/// Returns the length of an enum, if its variants have one length.
pub const fn length_of_enum(tag: usize, variants: &[Option<usize>]) -> Option<usize> {
    let mut at = 0;
    let Some(Some(first)) = variants.first().copied() else { return None };
    while at < variants.len() {
        match variants[at] {
            Some(length) if length == first => at += 1,
            _ => return None,
        }
    }
    Some(tag + first)
}

/// Decodes a field. A type of which the map returns another one is no field.
///
/// # Errors
/// As [`Key::decode`].
#[inline]
pub fn decode<F: Key<Owned = F>>(bytes: &mut &[u8], is_last: bool) -> Result<F, Stop> {
    F::decode(bytes, is_last)
}
