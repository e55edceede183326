//! Ranges of a file that have blocks, by `FIEMAP`.
//!
//! `SEEK_HOLE` does not find them: it takes blocks that are reserved and not written for holes.

use std::ops::Range;
use std::os::fd::AsRawFd;

use system::Handle;

/// `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: u32 = 0xc020_660b;
/// Write dirty pages first, so that each of them has its extent.
const SYNC: u32 = 1;
/// Extents asked for by one call.
const EXTENTS: usize = 128;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap`.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Returns the ranges of the first `bytes` bytes that have blocks, written or not, in order. `None`
/// where the file system does not report them.
pub(super) fn extents(file: &dyn Handle, bytes: u64) -> Option<Vec<Range<u64>>> {
    let file = file.queried()?;
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut start = 0;
    // Ends: each call moves `start` past the extents that it has found, or finds none.
    while start < bytes {
        let (length, count) = (bytes - start, EXTENTS as u32);
        let extents = [Extent::default(); EXTENTS];
        let mut request =
            Request { start, length, flags: SYNC, mapped: 0, count, reserved: 0, extents };
        // SAFETY: The descriptor is open. The kernel reads a `struct fiemap` and writes to it and
        // to at most `count` extents after it, all of which `request` has.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut request) };
        if done != 0 {
            return None;
        }
        let extents = &request.extents[..(request.mapped as usize).min(EXTENTS)];
        let before = start;
        for extent in extents {
            let range = extent.logical..extent.logical.saturating_add(extent.length).min(bytes);
            start = start.max(range.end);
            match found.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => found.push(range),
            }
        }
        if start == before {
            break;
        }
    }
    Some(found)
}
