//! Byte access to objects, which consist of words.

use std::slice;

use lastword::{Addr, OBJECT_BYTES_MAX, Stop, Words};

/// Runs the work on a zeroed buffer of words. Most objects are small, so a small buffer saves most
/// of the zeroing.
#[inline(always)]
fn with_words<R>(words: usize, work: impl FnOnce(&mut [u64]) -> R) -> R {
    const FEW: usize = 9;
    const MOST: usize = OBJECT_BYTES_MAX / 8 + 1; // bytes may begin inside a word
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

pub(crate) fn read_bytes(
    tx: &mut impl Words,
    object: u64,
    at: u64,
    out: &mut [u8],
) -> Result<(), Stop> {
    let (first, from) = (at & !7, (at & 7) as usize);
    with_words((from + out.len()).div_ceil(8), |words| {
        tx.read_words(Addr::new(object, first), words)?;
        out.copy_from_slice(&bytes_of(words)[from..from + out.len()]);
        Ok(())
    })
}

pub(crate) fn write_bytes(
    tx: &mut impl Words,
    object: u64,
    at: u64,
    bytes: &[u8],
) -> Result<(), Stop> {
    let (first, from) = (at & !7, (at & 7) as usize);
    let end = from + bytes.len();
    with_words(end.div_ceil(8), |words| {
        // The bytes beside the written ones stay, so read the first and the last word.
        if let [head, ..] = words
            && from > 0
        {
            *head = tx.read(Addr::new(object, first))?;
        }
        // The last word needs a read only if the bytes end inside it. If it is also the first word,
        // the read above may have covered it.
        let last = words.len().saturating_sub(1);
        if !end.is_multiple_of(8) && (last > 0 || from == 0) {
            words[last] = tx.read(Addr::new(object, first.wrapping_add(8 * last as u64)))?;
        }
        bytes_of(words)[from..end].copy_from_slice(bytes);
        tx.write_words(Addr::new(object, first), words)
    })
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
