//! Structs that begin with their size, so that later versions can add fields.
//!
//! The program sets `size` to that of the struct that it was compiled with. All fields have 8
//! bytes. An older program gets and sets the first fields. A newer one gets 0 in fields that this
//! library does not have, and must leave them 0 in options.

use std::mem::size_of;
use std::ptr;

use crate::{Status, status};

/// A bound on the size of every version of a struct. A program with a larger size has not set it.
const SIZE_MAX: usize = 4096;

/// Returns the size of a program's struct.
///
/// # Safety
/// `of` is not NULL, and points to a struct that begins with its size.
unsafe fn size<T>(of: *const T) -> Result<usize, Status> {
    // SAFETY: the caller guarantees the first field.
    let bytes = unsafe { of.cast::<u64>().read() } as usize;
    let is_size = (16..=SIZE_MAX).contains(&bytes) && bytes.is_multiple_of(8);
    if is_size { Ok(bytes) } else { Err(status::INVALID) }
}

/// Fails if a program has not set the size of its struct. Passes NULL.
///
/// # Safety
/// `out` is NULL or points to a struct that begins with its size.
pub(crate) unsafe fn check<T>(out: *const T) -> Result<(), Status> {
    // SAFETY: the caller guarantees the struct.
    if out.is_null() { Ok(()) } else { unsafe { size(out) }.map(drop) }
}

/// Writes the fields that the program's struct has, but its size. Writes nothing to NULL.
///
/// # Safety
/// `out` is NULL or points to a struct of its size. `T` consists of words.
pub(crate) unsafe fn write<T>(out: *mut T, value: &T) -> Result<(), Status> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees the struct.
    let bytes = unsafe { size(out) }?;
    let known = bytes.min(size_of::<T>());
    // SAFETY: the program's struct has `bytes` bytes, and both begin with a word for the size.
    unsafe {
        ptr::write_bytes(out.cast::<u8>().add(8), 0, bytes - 8);
        let from = ptr::from_ref(value).cast::<u8>();
        ptr::copy_nonoverlapping(from.add(8), out.cast::<u8>().add(8), known - 8);
    }
    Ok(())
}

/// Reads the fields that the program's struct has over the default values in `into`. Reads nothing
/// from NULL.
///
/// # Safety
/// `from` is NULL or points to a struct of its size. Any words are a value of `T`.
pub(crate) unsafe fn read<T>(from: *const T, into: &mut T) -> Result<(), Status> {
    if from.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees the struct.
    let bytes = unsafe { size(from) }?;
    let known = bytes.min(size_of::<T>());
    // SAFETY: the program's struct has `bytes` bytes, and any words are a value of `T`.
    let rest = unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), ptr::from_mut(into).cast(), known);
        std::slice::from_raw_parts(from.cast::<u8>().add(known), bytes - known)
    };
    // An option of a later version has no effect here, which the program must learn.
    if rest.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(status::INVALID) }
}
