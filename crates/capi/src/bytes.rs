//! The content of new objects, which consist of words.

use std::slice;

use lastword::{Addr, OBJECT_BYTES_MAX, Stop, Words};

/// Runs the work on a zeroed buffer of words. Most objects are small, so a small buffer saves most
/// of the zeroing.
#[inline(always)]
fn with_words<R>(words: usize, work: impl FnOnce(&mut [u64]) -> R) -> R {
    const FEW: usize = 9;
    const MOST: usize = OBJECT_BYTES_MAX / 8;
    match words {
        0..=FEW => work(&mut [0; FEW][..words]),
        _ => work(&mut [0; MOST][..words]),
    }
}

/// Returns the words as bytes.
fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    let bytes = size_of_val(words);
    // SAFETY: words have no padding, and any bytes are valid words.
    unsafe { slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) }
}

/// Writes the content of a new object, and zeros up to its end.
pub(crate) fn fill(
    tx: &mut impl Words,
    object: u64,
    bytes: usize,
    content: Option<&[u8]>,
) -> Result<(), Stop> {
    with_words(bytes.div_ceil(8), |words| {
        if let Some(content) = content {
            bytes_of(words)[..bytes].copy_from_slice(content);
        }
        tx.write_words(Addr::new(object, 0), words)
    })
}
