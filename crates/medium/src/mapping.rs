//! Mapping: a range of memory as atomic words, anonymous or backed by a file.
//!
//! Invariants:
//! - The words stay mapped, readable and writable, at one address, until the mapping is dropped.
//! - All accesses are atomics or instructions that act like atomics ([`cpu`](crate::cpu)), so a
//!   race yields a stale value, never undefined behaviour. The one exception is `bytes_mut`, for
//!   memory that is exclusively ours.
//! - Each mapping is unmapped exactly as one call of `mmap(2)` returned it. `MAP_FIXED` is never
//!   used. Where the kernel refuses such a call, as for a synchronous mapping on ext4 and xfs, it
//!   has already unmapped the old range, and another thread may have mapped it since.

use std::ffi::c_void;
use std::fs::File;
use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::sync::AtomicU64;

mod kept;

pub use kept::KeptMemory;

/// The size and alignment of a huge page.
const HUGE_BYTES: usize = 2 << 20;

/// How many places of memory are proposed for a file that should lie at a huge page. Each fails
/// when another thread maps something there first.
const PLACES: usize = 16;

/// `fstatfs(2)`'s type number of tmpfs.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// How a file's part is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Shared with every process that maps or reads the file.
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
        Mapping::anonymous_with(bytes, MapFlags::PRIVATE, 0)
    }

    /// The same, without huge pages in its first `small` bytes.
    pub(crate) fn growing(bytes: usize, small: usize) -> io::Result<Mapping> {
        Mapping::anonymous_with(bytes, MapFlags::PRIVATE, small.next_multiple_of(HUGE_BYTES))
    }

    /// The same; it may be larger than memory, and only pages that are touched count.
    pub(crate) fn anonymous_unreserved(bytes: usize) -> io::Result<Mapping> {
        Mapping::anonymous_with(bytes, MapFlags::PRIVATE | MapFlags::NORESERVE, 0)
    }

    fn anonymous_with(bytes: usize, flags: MapFlags, small: usize) -> io::Result<Mapping> {
        let slack = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let length = bytes.max(1).checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut kept = if slack == 0 { kept::take(length) } else { None };
        kept.iter_mut().for_each(Map::clear);
        let map = kept.map_or_else(|| Map::anonymous(length, flags, slack == 0), Ok)?;
        let skip = if slack == 0 { 0 } else { map.start.cast::<u8>().align_offset(HUGE_BYTES) };
        let mapping = Mapping { map, skip, words: bytes / 8, own: true };
        if slack != 0 && small < bytes {
            // A kernel without huge pages refuses; then it is slower, and right.
            // SAFETY: the bytes are inside the mapping, and the advice changes no content.
            let _ = unsafe {
                let start = mapping.first().wrapping_add(small);
                rustix::mm::madvise(start.cast(), bytes - small, Advice::LinuxHugepage)
            };
        }
        Ok(mapping)
    }

    /// Memory as [`anonymous`](Mapping::anonymous) has it, with any content: for callers that do
    /// not access it.
    pub(crate) fn unused(bytes: usize) -> io::Result<Mapping> {
        match kept::take(bytes) {
            Some(map) => Ok(Mapping { map, skip: 0, words: 0, own: true }),
            None => Mapping::anonymous(bytes),
        }
    }

    /// A part of a file. The caller keeps the file's length at `offset + bytes` or more: behind its
    /// end an access kills the process (`SIGBUS`).
    ///
    /// A part that begins at 2 MiB of the file lies at 2 MiB of memory, so that it can be huge
    /// pages, unless other threads take every place that is found for it; and on tmpfs it is made
    /// of them here and now. The first time that takes a second for a GiB or two, and then they
    /// belong to the file.
    pub(crate) fn of_file(
        file: &File,
        offset: u64,
        bytes: usize,
        sharing: Sharing,
    ) -> io::Result<Mapping> {
        // Mappings start at the system's pages, which are larger than ours on some processors.
        let skip = offset as usize % page_bytes();
        let length = bytes.max(1).checked_add(skip).ok_or(io::ErrorKind::OutOfMemory)?;
        let is_aligned = bytes >= HUGE_BYTES && offset.is_multiple_of(HUGE_BYTES as u64);
        if sharing == Sharing::CopyOnWrite || !is_aligned {
            let start = std::ptr::null_mut();
            let map = Map::of_file(start, file, offset - skip as u64, length, sharing)?;
            map.keep_from_children(sharing)?;
            return Ok(Mapping { map, skip, words: bytes / 8, own: false });
        }
        let map = Map::of_file_at_huge(file, offset, length, sharing)?;
        map.keep_from_children(sharing)?;
        let mapping = Mapping { map, skip, words: bytes / 8, own: false };
        if rustix::fs::fstatfs(file)?.f_type == TMPFS_MAGIC {
            mapping.collapse();
        }
        Ok(mapping)
    }

    /// Requests huge pages in place of the present small ones. If the kernel refuses, accesses are
    /// slower and still correct.
    fn collapse(&self) {
        for advice in [libc::MADV_POPULATE_WRITE, libc::MADV_COLLAPSE] {
            // SAFETY: the bytes are inside the mapping, and neither advice changes their content.
            unsafe { libc::madvise(self.first().cast(), 8 * self.words, advice) };
        }
    }

    /// The words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `skip + 8 * words` bytes are mapped readable and writable for as long as `self`
        // lives; they start at a page or a multiple of 8 in one, so the first word is aligned;
        // any bits are a u64, and all access is atomic.
        unsafe { std::slice::from_raw_parts(self.first().cast::<AtomicU64>(), self.words) }
    }

    /// Returns the memory as bytes if it is exclusively ours: a file's memory has other writers.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: in range and alive as in `words`. `own` says that nothing else maps the memory,
        // and `&mut self` excludes every other borrow of it.
        self.own.then(|| unsafe { std::slice::from_raw_parts_mut(self.first(), 8 * self.words) })
    }

    /// Returns whole pages to the system; their next access reads the backing file anew.
    pub(crate) fn forget(&self, first: usize, words: usize) -> io::Result<()> {
        let bytes = self.words().get(first..).and_then(|rest| rest.get(..words)).map(size_of_val);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let start = self.first().wrapping_add(8 * first);
        // SAFETY: the bytes are inside the mapping, which stays mapped; the kernel refuses a range
        // that begins inside a page. The bytes are borrowed only as atomics, for which other
        // contents are like stores by another thread: `bytes_mut` borrows the mapping alone.
        unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxDontNeed) }?;
        Ok(())
    }

    fn first(&self) -> *mut u8 {
        self.map.start.cast::<u8>().wrapping_add(self.skip)
    }
}

/// Range mapped by the system; dropping it unmaps it.
#[derive(Debug)]
struct Map {
    start: *mut c_void,
    bytes: usize,
    /// Anonymous memory without any advice, which a thread may keep.
    is_plain: bool,
}

impl Map {
    /// Fills kept memory with zeros.
    fn clear(&mut self) {
        assert!(self.is_plain, "only anonymous memory is kept");
        // SAFETY: so many bytes are mapped readable and writable, and only `self` leads to them.
        unsafe { std::ptr::write_bytes(self.start.cast::<u8>(), 0, self.bytes) };
    }

    fn anonymous(bytes: usize, flags: MapFlags, is_plain: bool) -> io::Result<Map> {
        let start = std::ptr::null_mut();
        // SAFETY: a mapping at an address that the system chooses touches no other.
        let start = unsafe { rustix::mm::mmap_anonymous(start, bytes, READ_WRITE, flags)? };
        Ok(Map { start, bytes, is_plain })
    }

    /// A part of a file, at `start` if that is free, else where the system likes.
    fn of_file(
        start: *mut c_void,
        file: &File,
        offset: u64,
        bytes: usize,
        sharing: Sharing,
    ) -> io::Result<Map> {
        let flags = flags_of(sharing);
        // SAFETY: an address without `MAP_FIXED` is a proposal: no other mapping is touched.
        let start = unsafe { rustix::mm::mmap(start, bytes, READ_WRITE, flags, file, offset)? };
        Ok(Map { start, bytes, is_plain: false })
    }

    /// A part of a file, at a huge page of memory if one of a few proposals is taken.
    fn of_file_at_huge(
        file: &File,
        offset: u64,
        bytes: usize,
        sharing: Sharing,
    ) -> io::Result<Map> {
        // Some systems find such a place themselves, and a refusal here is a refusal anywhere.
        let mut map = Map::of_file(std::ptr::null_mut(), file, offset, bytes, sharing)?;
        for _ in 0..PLACES {
            if map.start.addr().is_multiple_of(HUGE_BYTES) {
                break;
            }
            let Ok(free) = Map::reserved(bytes.saturating_add(HUGE_BYTES)) else { break };
            let start = free.start.cast::<u8>();
            let start = start.wrapping_add(start.align_offset(HUGE_BYTES)).cast();
            drop(free);
            let Ok(there) = Map::of_file(start, file, offset, bytes, sharing) else { break };
            map = there;
        }
        Ok(map)
    }

    /// Excludes a shared mapping from forked children. A child that continues a transaction of its
    /// parent would write into the parent's pool, past all locks, and no call could refuse it.
    /// Without the mapping the access ends the child (`SIGSEGV`). A private mapping stays, because
    /// the child's writes to it are its own.
    fn keep_from_children(&self, sharing: Sharing) -> io::Result<()> {
        if sharing != Sharing::CopyOnWrite {
            // SAFETY: a whole mapping, whose content the advice does not change.
            unsafe { rustix::mm::madvise(self.start, self.bytes, Advice::LinuxDontFork) }?;
        }
        Ok(())
    }

    /// Addresses with nothing behind them.
    fn reserved(bytes: usize) -> io::Result<Map> {
        let (start, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a mapping at an address that the system chooses touches no other.
        let start = unsafe { rustix::mm::mmap_anonymous(start, bytes, ProtFlags::empty(), flags)? };
        Ok(Map { start, bytes, is_plain: false })
    }
}

fn flags_of(sharing: Sharing) -> MapFlags {
    match sharing {
        Sharing::Shared => MapFlags::SHARED,
        // Validated: older kernels ignore unknown flags in a `SHARED` mapping.
        Sharing::Synchronous => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
        // Not reserved: the mapping may be larger than memory, for few pages are copied.
        Sharing::CopyOnWrite => MapFlags::PRIVATE | MapFlags::NORESERVE,
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.is_plain && kept::keep(self.start, self.bytes) {
            return;
        }
        // SAFETY: exactly the range that was mapped, and no borrow of it is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start, self.bytes) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

// SAFETY: mapped memory belongs to the process, not to a thread.
unsafe impl Send for Map {}
// SAFETY: a shared `Map` is only an address and a length.
unsafe impl Sync for Map {}

/// Bytes of a page. (Not `rustix`'s: that reads the program's own head, which is not where valgrind
/// says.)
pub(crate) fn page_bytes() -> usize {
    // SAFETY: it has no conditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::suite::or_skip;

    /// On ext4 and xfs the kernel refuses a synchronous mapping after it has cleared the range for
    /// it. A mapping that another thread makes there meanwhile must stay that thread's.
    #[test]
    fn refused_mapping_keeps_other_threads_memory() {
        let file = tempfile::tempfile().unwrap();
        let bytes = 16 * HUGE_BYTES;
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let neighbour = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Many at once, so that they fill the gaps that are there and come into others.
                    let held: Vec<_> = (0..100)
                        .map(|_| Mapping::anonymous_unreserved(HUGE_BYTES).unwrap())
                        .collect();
                    for mapping in held {
                        // The kernel refuses advice about an unmapped range.
                        mapping.forget(0, mapping.words().len()).unwrap();
                    }
                }
            });
            for _ in 0..20_000 {
                drop(Mapping::of_file(&file, 0, bytes, Sharing::Synchronous));
            }
            done.store(true, Ordering::Relaxed);
            neighbour.join().unwrap();
        });
    }

    /// In memory where there is a tmpfs, and in files of the temporary folder.
    #[test]
    fn mapping_keeps_huge_page_alignment() {
        for folder in [std::path::Path::new("/dev/shm"), &std::env::temp_dir()] {
            let file = tempfile::tempfile_in(folder);
            let Some(file) = or_skip(file, &folder.display().to_string()) else { continue };
            let (offset, bytes) = (HUGE_BYTES as u64, 2 * HUGE_BYTES + 4096);
            rustix::fs::ftruncate(&file, offset + bytes as u64).unwrap();
            let last = offset + bytes as u64 - 8;
            rustix::io::pwrite(&file, &7_u64.to_le_bytes(), last).unwrap();
            let of_file = || Mapping::of_file(&file, offset, bytes, Sharing::Shared).unwrap();
            let is_at_huge = |mapping: &Mapping| mapping.first().addr().is_multiple_of(HUGE_BYTES);
            // Other tests' threads may take every place that is found; not time and again.
            let mapping = std::iter::repeat_with(of_file).take(5).find(is_at_huge);
            let mapping = mapping.expect("a place at a huge page");
            let words = mapping.words();
            assert_eq!(words.last().unwrap().load(Ordering::Relaxed), 7);
            words[0].store(9, Ordering::Relaxed);
            let again = of_file();
            drop(mapping);
            assert_eq!(again.words()[0].load(Ordering::Relaxed), 9);
            assert_eq!(again.words().len(), bytes / 8);
        }
    }
}
