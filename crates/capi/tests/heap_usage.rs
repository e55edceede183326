//! The use of a heap and the status of a full one, through the C functions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{CStr, CString};
use std::ptr;

use lastword::DesignInfo;
use lastword_c::objects::*;
use lastword_c::options::{lw_options, lw_options_default};
use lastword_c::pool::*;
use lastword_c::usage::*;
use lastword_c::worker::*;
use lastword_c::{lw_strerror, status};

const HEAP_BYTES: u64 = 512 << 10;

fn create(dir: &tempfile::TempDir, design: u32) -> *mut lw_pool {
    let path = CString::new(dir.path().join("pool").to_str().unwrap()).unwrap();
    let mut pool = ptr::null_mut();
    // SAFETY: any bytes are values of the options' fields, and all pointers are valid.
    unsafe {
        let mut options: lw_options = std::mem::zeroed();
        assert_eq!(lw_options_default(&mut options, size_of::<lw_options>() as u64), 0);
        (options.design, options.bytes, options.log_bytes) = (design, HEAP_BYTES, 8 << 20);
        options.medium = 4; // LW_EMULATED: thousands of commits, without a disk
        assert_eq!(lw_pool_create(path.as_ptr(), &options, &mut pool), 0);
    }
    pool
}

fn usage(pool: *mut lw_pool) -> lw_heap_usage {
    let size = size_of::<lw_heap_usage>() as u64;
    let mut usage = lw_heap_usage { size, ..lw_heap_usage::default() };
    // SAFETY: the pool is open, and the struct has its size.
    assert_eq!(unsafe { lw_pool_heap_usage(pool, &mut usage) }, 0);
    usage
}

/// Allocates an object of this many bytes in a transaction.
///
/// # Safety
/// The worker is open.
unsafe fn allocate(worker: *mut lw_worker, bytes: u64) -> Result<u64, i32> {
    let mut object = 0;
    loop {
        // SAFETY: the caller's worker is open, and the other pointers are valid.
        unsafe {
            assert_eq!(lw_begin(worker, 0), 0);
            let allocated = lw_alloc(worker, bytes, ptr::null(), &mut object);
            if allocated != status::OK {
                assert_eq!(lw_abort(worker), 0);
                return Err(allocated);
            }
            match lw_commit(worker, ptr::null_mut()) {
                status::OK => return Ok(object),
                // The worker's part of the log was full: the next begin makes room.
                failed => assert_eq!(failed, status::CONFLICT),
            }
            assert_eq!(lw_abort(worker), 0);
        }
    }
}

/// Frees objects of 100 bytes in a transaction, also after conflicts.
///
/// # Safety
/// The worker is open.
unsafe fn free(worker: *mut lw_worker, objects: &[u64]) {
    loop {
        // SAFETY: the caller's worker is open.
        unsafe {
            assert_eq!(lw_begin(worker, 0), 0);
            for &object in objects {
                assert_eq!(lw_free(worker, object, 100), 0);
            }
            match lw_commit(worker, ptr::null_mut()) {
                status::OK => return,
                failed => assert_eq!(failed, status::CONFLICT),
            }
            assert_eq!(lw_abort(worker), 0);
        }
    }
}

#[test]
fn heap_usage_of_full_pool_shows_where_memory_is() {
    for design in DesignInfo::ALL.iter().filter_map(|design| design.number) {
        let dir = tempfile::tempdir().unwrap();
        let pool = create(&dir, design);
        let empty = usage(pool);
        assert_eq!((empty.heap_bytes, empty.live_bytes, empty.objects), (HEAP_BYTES, 0, 0));
        assert_eq!(empty.largest_free_bytes, empty.free_bytes);
        let mut worker = ptr::null_mut();
        // SAFETY: all pointers and handles are valid.
        unsafe {
            assert_eq!(lw_worker_open(pool, &mut worker), 0);
            let mut objects = Vec::new();
            let failed = loop {
                match allocate(worker, 100) {
                    Ok(object) => objects.push(object),
                    Err(failed) => break failed,
                }
            };
            assert_eq!(failed, status::FULL, "design {design}");
            let full = usage(pool);
            assert_eq!(full.objects, objects.len() as u64);
            assert_eq!(full.live_bytes, 128 * full.objects);
            assert!(full.free_bytes < 1024 && full.largest_free_bytes <= full.free_bytes);
            let text = CStr::from_ptr(lw_strerror(failed)).to_str().unwrap();
            assert!(text.contains("lw_pool_heap_usage") && text.contains("pieces"), "{text}");

            // The remedies of the text: an object of the same size, and all of another size.
            free(worker, &objects[..1]);
            assert_eq!(usage(pool).free_slot_bytes, full.free_slot_bytes + 128);
            objects[0] = allocate(worker, 100).unwrap();
            assert_eq!(allocate(worker, 500), Err(status::FULL));
            for some in objects.chunks(50) {
                free(worker, some);
            }
            allocate(worker, 500).unwrap();
            assert_eq!(lw_worker_close(worker), 0);
            assert_eq!(lw_pool_close(pool), 0);
            let mut closed = lw_heap_usage { size: 56, ..lw_heap_usage::default() };
            assert_eq!(lw_pool_heap_usage(pool, &mut closed), status::CLOSED);
        }
    }
}

#[test]
fn heap_usage_fills_structs_of_other_versions() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create(&dir, 0);
    // SAFETY: the pool is open, and each struct has its size.
    unsafe {
        // An older program has fewer fields. The word after its struct is not written.
        let mut older = [24_u64, 1, 1, 1];
        assert_eq!(lw_pool_heap_usage(pool, older.as_mut_ptr().cast()), 0);
        assert_eq!(older, [24, HEAP_BYTES, 0, 1]);
        // A newer one has more.
        let mut newer = [1_u64; 10];
        newer[0] = 72;
        assert_eq!(lw_pool_heap_usage(pool, newer.as_mut_ptr().cast()), 0);
        assert_eq!((newer[0], newer[1], newer[7], newer[8]), (72, HEAP_BYTES, 0, 0));
        assert_eq!(newer[9], 1);
        for size in [0, 8, 60, 5000] {
            let mut wrong = lw_heap_usage { size, ..lw_heap_usage::default() };
            assert_eq!(lw_pool_heap_usage(pool, &mut wrong), status::INVALID, "{size} bytes");
        }
        assert_eq!(lw_pool_heap_usage(pool, ptr::null_mut()), status::INVALID);
        assert_eq!(lw_pool_heap_usage(ptr::null_mut(), &mut usage(pool)), status::INVALID);
        assert_eq!(lw_pool_close(pool), 0);
    }
}
