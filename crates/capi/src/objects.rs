//! The functions that allocate and free objects and arrays.

use std::ffi::{c_int, c_void};
use std::slice;

use lastword::{Addr, Allocate, OBJECT_BYTES_MAX, Words};

use crate::bytes::fill;
use crate::status;
use crate::worker::{lw_worker, within};

/// Allocates an object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_alloc(
    worker: *mut lw_worker,
    bytes: u64,
    content: *const c_void,
    object: *mut u64,
) -> c_int {
    if object.is_null() || bytes == 0 || bytes > OBJECT_BYTES_MAX as u64 {
        return status::INVALID;
    }
    let bytes = bytes as usize;
    // SAFETY: `content` is NULL, or the header requires `bytes` readable bytes.
    let content = unsafe {
        let is_given = !content.is_null();
        is_given.then(|| slice::from_raw_parts(content.cast::<u8>(), bytes))
    };
    within!(worker, tx => tx.allocate(bytes).and_then(|new| {
        fill(tx, new, bytes, content)?;
        // SAFETY: `object` is not NULL, and the header requires a valid pointer.
        unsafe { object.write(new) };
        Ok(())
    }))
}

/// Frees an object or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_free(worker: *mut lw_worker, object: u64, bytes: u64) -> c_int {
    within!(worker, tx => tx.retire(Addr::new(object, 0), bytes))
}

/// Protects an object from writes of others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_protect(worker: *mut lw_worker, object: u64) -> c_int {
    within!(worker, tx => tx.protect(Addr::new(object, 0)))
}

/// Reserves an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_array_reserve(
    worker: *mut lw_worker,
    blocks: u64,
    first: *mut u64,
) -> c_int {
    if first.is_null() || blocks == 0 {
        return status::INVALID;
    }
    // SAFETY: `first` is not NULL, and the header requires a valid pointer.
    within!(worker, tx => tx.reserve_blocks(blocks).map(|found| unsafe { first.write(found) }))
}

/// Prepares blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_array_prepare(
    worker: *mut lw_worker,
    first: u64,
    most: u64,
    left: *mut u64,
) -> c_int {
    if left.is_null() {
        return status::INVALID;
    }
    // SAFETY: `left` is not NULL, and the header requires a valid pointer.
    within!(worker, tx => tx.prepare_blocks(first, most).map(|found| unsafe { left.write(found) }))
}
