//! The struct `lw_heap_usage` of C programs.

use std::ffi::c_int;
use std::mem::offset_of;

use crate::design::on;
use crate::pool::{self, lw_pool};
use crate::{Status, guard, message, sized, status};

/// `lw_heap_usage`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_heap_usage {
    pub size: u64,
    pub heap_bytes: u64,
    pub live_bytes: u64,
    pub objects: u64,
    pub free_bytes: u64,
    pub largest_free_bytes: u64,
    pub free_slot_bytes: u64,
}

/// The offset of each field, which the header must have, too.
pub const FIELDS: [(&str, usize); 7] = [
    ("size", offset_of!(lw_heap_usage, size)),
    ("heap_bytes", offset_of!(lw_heap_usage, heap_bytes)),
    ("live_bytes", offset_of!(lw_heap_usage, live_bytes)),
    ("objects", offset_of!(lw_heap_usage, objects)),
    ("free_bytes", offset_of!(lw_heap_usage, free_bytes)),
    ("largest_free_bytes", offset_of!(lw_heap_usage, largest_free_bytes)),
    ("free_slot_bytes", offset_of!(lw_heap_usage, free_slot_bytes)),
];

/// Returns the use of the pool's heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_heap_usage(
    pool: *mut lw_pool,
    usage: *mut lw_heap_usage,
) -> c_int {
    // SAFETY: the header has the same requirements.
    guard(|| unsafe { find(pool, usage) })
}

/// Writes the use of the pool's heap.
///
/// # Safety
/// The arguments are as the header requires.
unsafe fn find(pool: *mut lw_pool, out: *mut lw_heap_usage) -> Result<(), Status> {
    // SAFETY: the header requires a handle.
    let open = unsafe { pool::of(pool) }?;
    if out.is_null() {
        return Err(status::INVALID);
    }
    // SAFETY: the header requires a struct of its size.
    unsafe { sized::check(out) }?;
    if on!(&open.pool, pool => pool.is_forked(); _reader => false) {
        return Err(status::FORKED);
    }
    let found = on!(&open.pool, pool => pool.heap_usage(); reader => {
        reader.check().map_err(|error| message::of(&error))?
    });
    let usage = lw_heap_usage {
        size: 0, // the program's own stays
        heap_bytes: found.heap_bytes,
        live_bytes: found.live_bytes(),
        objects: found.objects,
        free_bytes: found.free_bytes,
        largest_free_bytes: found.largest_free_bytes,
        free_slot_bytes: found.free_slot_bytes(),
    };
    // SAFETY: as above.
    unsafe { sized::write(out, &usage) }
}
