//! A range of memory as atomic words, whoever backs it.
//!
//! Invariants:
//! - The words stay mapped, readable and writable, at one address, until the mapping is dropped.
//! - Everybody reaches them through atomics or through instructions that act like atomics
//!   ([`cpu`](crate::cpu)), so a race is a stale value, never undefined behaviour. The one
//!   exception is `bytes_mut`, for memory that nobody else can reach.

use std::ffi::c_void;
use std::fs::File;
use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::sync::AtomicU64;

/// The size and alignment of a huge page.
const HUGE_BYTES: usize = 2 << 20;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// How a file's part is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// With everybody who maps or reads the file.
    Shared,
    /// The same, and a page can be stored to only when the file system's own data that leads to it
    /// is durable (`MAP_SYNC`), so that a store which is written back is durable without asking the
    /// kernel. Only file systems on persistent memory can.
    Synchronous,
    /// A page is this process's own from its first write on, and until then the file's.
    CopyOnWrite,
}

/// Mapped words.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: Map,
    /// Bytes of `map` before the first word; the first word is aligned to 8.
    skip: usize,
    /// `skip + 8 * words` is at most the length of `map`.
    words: usize,
    /// Nothing but this mapping reaches the memory.
    own: bool,
}

impl Mapping {
    /// Zeroed memory of this process, page-aligned; from 2 MiB on aligned to 2 MiB and advised to
    /// be huge pages, which halves the cost of random access.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Mapping> {
        Mapping::anonymous_with(bytes, MapFlags::PRIVATE)
    }

    /// The same; it may be larger than memory, and only pages that are touched count.
    pub(crate) fn anonymous_unreserved(bytes: usize) -> io::Result<Mapping> {
        Mapping::anonymous_with(bytes, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    fn anonymous_with(bytes: usize, flags: MapFlags) -> io::Result<Mapping> {
        let slack = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let length = bytes.max(1).checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = Map::anonymous(length, flags)?;
        let skip = if slack == 0 { 0 } else { map.start.cast::<u8>().align_offset(HUGE_BYTES) };
        let mapping = Mapping { map, skip, words: bytes / 8, own: true };
        if slack != 0 {
            // A kernel without huge pages refuses; then it is slower, and right.
            // SAFETY: the bytes are inside the mapping, and the advice changes no content.
            let _ = unsafe {
                rustix::mm::madvise(mapping.first().cast(), bytes, Advice::LinuxHugepage)
            };
        }
        Ok(mapping)
    }

    /// A part of a file. The caller keeps the file's length at `offset + bytes` or more: behind its
    /// end an access kills the process (`SIGBUS`).
    pub(crate) fn of_file(
        file: &File,
        offset: u64,
        bytes: usize,
        sharing: Sharing,
    ) -> io::Result<Mapping> {
        // Mappings start at the system's pages, which are larger than ours on some processors.
        let skip = offset as usize % rustix::param::page_size();
        let length = bytes.max(1).checked_add(skip).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = Map::of_file(file, offset - skip as u64, length, sharing)?;
        Ok(Mapping { map, skip, words: bytes / 8, own: false })
    }

    /// The words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `skip + 8 * words` bytes are mapped readable and writable for as long as `self`
        // lives; they start at a page or a multiple of 8 in one, so the first word is aligned;
        // any bits are a u64, and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.first().cast::<AtomicU64>(), self.words) }
    }

    /// The memory as bytes, if nobody else can change it: a file's memory has other writers.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: in range and alive as in `words`; `own` says that nothing else maps the memory,
        // and nobody has borrowed it from us, because we hold `&mut self`.
        self.own.then(|| unsafe { std::slice::from_raw_parts_mut(self.first(), 8 * self.words) })
    }

    /// Gives whole pages back to the system, so that their next access finds what is behind them.
    pub(crate) fn forget(&self, first: usize, words: usize) -> io::Result<()> {
        let bytes = self.words().get(first..).and_then(|rest| rest.get(..words)).map(size_of_val);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let start = self.first().wrapping_add(8 * first);
        // SAFETY: the bytes are inside the mapping, which stays mapped; the kernel refuses what
        // begins in the middle of a page. Nobody has borrowed them but as atomics, for which other
        // contents are like stores by another thread: `bytes_mut` borrows the mapping alone.
        unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxDontNeed) }?;
        Ok(())
    }

    fn first(&self) -> *mut u8 {
        self.map.start.cast::<u8>().wrapping_add(self.skip)
    }
}

/// What the system mapped, until it is dropped.
#[derive(Debug)]
struct Map {
    start: *mut c_void,
    bytes: usize,
}

impl Map {
    fn anonymous(bytes: usize, flags: MapFlags) -> io::Result<Map> {
        let start = std::ptr::null_mut();
        // SAFETY: a mapping at an address that the system chooses touches no other.
        let start = unsafe { rustix::mm::mmap_anonymous(start, bytes, READ_WRITE, flags)? };
        Ok(Map { start, bytes })
    }

    fn of_file(file: &File, offset: u64, bytes: usize, sharing: Sharing) -> io::Result<Map> {
        let flags = match sharing {
            Sharing::Shared => MapFlags::SHARED,
            // Validated: older kernels ignore what they do not know in a `SHARED` mapping.
            Sharing::Synchronous => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            // Not reserved: the mapping may be larger than memory, for few pages are copied.
            Sharing::CopyOnWrite => MapFlags::PRIVATE | MapFlags::NORESERVE,
        };
        let start = std::ptr::null_mut();
        // SAFETY: a mapping at an address that the system chooses touches no other.
        let start = unsafe { rustix::mm::mmap(start, bytes, READ_WRITE, flags, file, offset)? };
        Ok(Map { start, bytes })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and whoever borrowed from it is gone.
        let unmapped = unsafe { rustix::mm::munmap(self.start, self.bytes) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

// SAFETY: mapped memory belongs to the process, not to a thread.
unsafe impl Send for Map {}
// SAFETY: a shared `Map` is only an address and a length.
unsafe impl Sync for Map {}
