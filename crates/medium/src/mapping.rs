//! A range of memory as atomic words, whoever backs it.
//!
//! Invariants:
//! - The words stay mapped, readable and writable, at one address, until the mapping is dropped.
//! - Everybody reaches them through atomics or through instructions that act like atomics
//!   ([`cpu`](crate::cpu)), so a race is a stale value, never undefined behaviour.

use std::fs::File;
use std::io;

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::sync::AtomicU64;

/// The size and alignment of a huge page.
const HUGE_BYTES: usize = 2 << 20;

/// Mapped words.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: MmapRaw,
    /// Bytes of `map` before the first word; the first word is aligned to 8.
    skip: usize,
    /// `skip + 8 * words` is at most the length of `map`.
    words: usize,
}

impl Mapping {
    /// Zeroed memory of this process, page-aligned; from 2 MiB on aligned to 2 MiB and advised to
    /// be huge pages, which halves the cost of random access.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Mapping> {
        let slack = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let length = bytes.max(1).checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapRaw::from(MmapOptions::new().len(length).map_anon()?);
        let skip = if slack == 0 { 0 } else { map.as_ptr().align_offset(HUGE_BYTES) };
        if slack != 0 {
            // A kernel without huge pages refuses; then it is slower, and right.
            let _ = map.advise_range(Advice::HugePage, skip, bytes);
        }
        Ok(Mapping { map, skip, words: bytes / 8 })
    }

    /// A part of a file, shared with everybody who maps or reads it. The caller keeps the file's
    /// length at `offset + bytes` or more: behind its end an access kills the process (`SIGBUS`).
    pub(crate) fn shared(file: &File, offset: u64, bytes: usize) -> io::Result<Mapping> {
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(file)?;
        Ok(Mapping { map, skip: 0, words: bytes / 8 })
    }

    /// The words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let first = self.map.as_ptr().wrapping_add(self.skip);
        // SAFETY: `skip + 8 * words` bytes are mapped readable and writable for as long as `self`
        // lives; they start at a page or a multiple of 4096 in one, so the first word is aligned;
        // any bits are a u64, and all access is atomic.
        unsafe { std::slice::from_raw_parts(first.cast::<AtomicU64>(), self.words) }
    }

    /// The memory as bytes, for a mapping that nobody else has.
    ///
    /// # Safety
    /// The mapping is anonymous: a shared one can be written by others meanwhile.
    #[inline]
    pub(crate) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        let first = self.map.as_mut_ptr().wrapping_add(self.skip);
        // SAFETY: in range and alive as in `words`; private by this function's contract, and
        // borrowed by nobody else, because we hold `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(first, 8 * self.words) }
    }
}
