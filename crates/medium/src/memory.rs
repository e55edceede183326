//! DRAM that a pool runs on: the shadow of its heap and the rings of its workers.
//!
//! A shadow is filled from the heap image at once ([`Memory::fill_from`]) or page by page
//! ([`Memory::copy_on_write`]). The second opens a pool of any size instantly, and an unwritten
//! page takes no memory of its own. In exchange, pages are read when they are first touched. If the
//! disk cannot read one, the kernel has no call to fail and kills the process (`SIGBUS`).
//! Acknowledged transactions survive that as they survive `kill -9`.
//!
//! A page that is not copied is the page of the page cache through which the heap image is written.
//! Reads of it therefore see concurrent writes to the heap image. These change nothing, because:
//! - A transaction first writes each word here, and the first write to a page copies it. So every
//!   logged write to an uncopied page is already in the heap image. The heap image writes none of
//!   its words, or writes them with their present values (as the rest of a whole page).
//! - Replay after a crash ends before the memory is mapped, and the superblock is another area.
//! - A copied page never sees the file again, until it is forgotten ([`Memory::forget`]). The
//!   caller of `forget` guarantees that all its words are in the heap image and that no thread
//!   writes it meanwhile. Then the file's page has the same words, and the page is uncopied again.
//! - The lock on the file lasts as long as the mapping. It keeps others from writing to the file or
//!   changing its length. A process that ignores the lock and cuts the file off kills this process
//!   as above.
//!
//! So the heap image must be written through the page cache, never past it.

use std::io;
use std::ops::Range;

use zerocopy::FromBytes;

use crate::area::Area;
use crate::error::Error;
use crate::mapping::{Mapping, Sharing, page_bytes};
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicU64};

/// Bytes of one read while filling: large enough to keep a fast disk busy.
const READ_BYTES: usize = 8 << 20;

/// Memory of this process, seen as atomic words. Nothing in it is durable. It starts at a page.
///
/// ```
/// use medium::Memory;
/// use medium::sync::Ordering::Relaxed;
///
/// let memory = Memory::anonymous(4096)?;
/// assert_eq!(memory.words().len(), 512);
/// memory.words()[7].store(42, Relaxed);
/// assert_eq!(memory.words()[7].load(Relaxed), 42);
/// # Ok::<(), medium::Error>(())
/// ```
#[derive(Debug)]
pub struct Memory {
    mapping: Mapping,
    /// Keeps the file that is mapped locked, and so its length.
    area: Option<Area>,
}

/// Memory that is allocated and not used: it shows that the system has so much.
#[derive(Debug)]
pub struct Room {
    _mapping: Mapping,
}

impl Memory {
    /// Allocates memory that is not accessed.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn room(bytes: u64) -> Result<Room, Error> {
        let mapping = usize::try_from(bytes)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(Mapping::unused)
            .map_err(|_| Error::NoMemory { bytes })?;
        Ok(Room { _mapping: mapping })
    }

    /// Allocates zeroed memory of `bytes` bytes; bytes after the last whole word are unreachable.
    /// From 2 MiB on it is aligned to 2 MiB and made of huge pages where the system provides them.
    /// Untouched pages cost nothing.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn anonymous(bytes: u64) -> Result<Memory, Error> {
        let mapping = usize::try_from(bytes)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(Mapping::anonymous)
            .map_err(|_| Error::NoMemory { bytes })?;
        Ok(Memory { mapping, area: None })
    }

    /// Allocates zeroed memory that may exceed the machine's: only pages touched, and not
    /// [released](Memory::release) since, take any. When the machine runs out, the kernel kills a
    /// process. For large and mostly empty memory in experiments.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the address space is exhausted.
    pub fn unreserved(bytes: u64) -> Result<Memory, Error> {
        let mapping = usize::try_from(bytes)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(Mapping::anonymous_unreserved)
            .map_err(|_| Error::NoMemory { bytes })?;
        Ok(Memory { mapping, area: None })
    }

    /// Allocates memory, as [`anonymous`](Memory::anonymous), of which often only the start is
    /// used. Its first `small` bytes have no huge pages.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn growing(bytes: u64, small: u64) -> Result<Memory, Error> {
        let mapping = usize::try_from(bytes)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(|bytes| Mapping::growing(bytes, small as usize))
            .map_err(|_| Error::NoMemory { bytes })?;
        Ok(Memory { mapping, area: None })
    }

    /// Gives memory back to the system, of words that start and end at a page of 4 KiB. They are
    /// zero when they are read again, or keep their values where the system does not take them
    /// (locked memory, or pages of the system that are larger and not whole).
    ///
    /// # Panics
    /// When they are outside, or the memory is a file's.
    pub fn release(&self, words: Range<usize>) {
        assert!(self.area.is_none() && words.end <= self.words().len(), "own memory is released");
        // The kernel would take all of a page that only begins among these words.
        if !is_whole_pages(words.start) || !is_whole_pages(words.len()) {
            return;
        }
        // Advice: a refusal only costs memory.
        let _ = self.mapping.forget(words.start, words.len());
    }

    /// A part of a file, in whole pages of 4 KiB, read page by page when it is first touched.
    /// Writes stay in this process: the first to a page copies it. The
    /// module's documentation describes the failure of a page read (`SIGBUS`), and why the file's
    /// other writers do no harm.
    ///
    /// ```
    /// use medium::sync::{Arc, Ordering::Relaxed};
    /// use medium::{Memory, PoolFile, Prewrite};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let file = Arc::new(PoolFile::create(dir.path().join("bank.pool"), 8192, Prewrite::No)?);
    /// file.write_at(4096, &[42])?;
    /// let memory = Memory::copy_on_write(file.clone(), 4096, 4096)?;
    /// assert_eq!(memory.words()[0].swap(43, Relaxed), 42);
    /// let mut in_file = [0];
    /// file.read_at(4096, &mut in_file)?;
    /// assert_eq!(in_file, [42]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadArea`]; [`Error::NoMemory`] or [`Error::Io`] when it cannot be mapped.
    pub fn copy_on_write(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<Memory, Error> {
        Memory::copy_on_write_growing(file, offset, bytes, bytes)
    }

    /// The same for a part that [grows](PoolFile::grow) with the file up to `room` bytes. An access
    /// to words that the file does not have kills the process (`SIGBUS`).
    ///
    /// # Errors
    /// As [`copy_on_write`](Memory::copy_on_write).
    pub fn copy_on_write_growing(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        room: u64,
    ) -> Result<Memory, Error> {
        let area = Area::with_room(file, offset, bytes, room)?;
        Ok(Memory { mapping: area.map(Sharing::CopyOnWrite)?, area: Some(area) })
    }

    /// Returns the bytes that are copied at once, and forgotten at once: the system's page, 4 KiB
    /// on most processors. Large folios of the page cache are copied page by page too.
    pub fn page_bytes() -> u64 {
        page_bytes() as u64
    }

    /// Forgets the copies of some pages: `words` words from the word `first` on, both multiples of
    /// a page. The next access reads the file's page. Writes to them that are not in the file are
    /// lost.
    ///
    /// # Errors
    /// [`Error::Kept`] when the system refuses to forget them, as it does for locked memory
    /// (`mlock`). Each page may then be a copy or not.
    ///
    /// # Panics
    /// If the memory is no [`copy_on_write`](Memory::copy_on_write) one, or the words are no whole
    /// pages of it.
    pub fn forget(&self, first: usize, words: usize) -> Result<(), Error> {
        assert!(self.area.is_some(), "only a file's memory is read again when it was forgotten");
        let end = first.checked_add(words).filter(|end| *end <= self.words().len());
        let is_whole = end.is_some() && is_whole_pages(first) && is_whole_pages(words);
        assert!(is_whole, "whole pages of the memory are forgotten");
        let bytes = 8 * words as u64;
        self.mapping.forget(first, words).map_err(|source| Error::Kept { bytes, source })
    }

    /// A mapped area; keeps its file locked.
    pub(crate) fn of_area(mapping: Mapping, area: Area) -> Memory {
        Memory { mapping, area: Some(area) }
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// Returns the words of unshared memory.
    ///
    /// # Panics
    /// If the memory is a file's own.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        let bytes = self.mapping.bytes_mut().expect("anonymous memory is not shared");
        <[u64]>::mut_from_bytes(bytes).expect("a mapping consists of words")
    }

    /// Copies `bytes` bytes of a file, from `file_offset` on, to the start of unwritten memory. It
    /// reads instead of mapping, so a bad sector is an error here and not a signal later. Ranges
    /// that the file system knows to be empty are not read, so a sparse or just allocated pool
    /// opens at once. Calls `done` with the bytes of each read.
    ///
    /// # Errors
    /// [`Error::Transfer`]; [`Error::Truncated`] when the file ends before;
    /// [`Error::NoMemory`] when the memory is smaller than `bytes`.
    ///
    /// # Panics
    /// If the memory is a file's own, which needs no filling.
    pub fn fill_from(
        &mut self,
        file: &PoolFile,
        file_offset: u64,
        bytes: u64,
        done: &dyn Fn(u64),
    ) -> Result<(), Error> {
        let memory = self.mapping.bytes_mut().expect("only anonymous memory is filled");
        let memory = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| memory.get_mut(..bytes))
            .ok_or(Error::NoMemory { bytes })?;
        let end = file.check_range(file_offset, bytes)?;
        let mut at = file_offset;
        while let Some(data) = file.next_data(at, end) {
            for start in data.clone().step_by(READ_BYTES) {
                let stop = data.end.min(start + READ_BYTES as u64);
                let (from, to) = ((start - file_offset) as usize, (stop - file_offset) as usize);
                file.read_bytes_at(start, &mut memory[from..to])?;
                done(stop - start);
            }
            at = data.end;
        }
        Ok(())
    }
}

/// Whether so many words are pages of the system.
fn is_whole_pages(words: usize) -> bool {
    words.is_multiple_of(Memory::page_bytes() as usize / 8)
}

impl AsRef<[AtomicU64]> for Memory {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_file::Prewrite;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn memory_is_zero_aligned_and_as_long_as_asked() {
        for (bytes, align) in
            [(0, 8), (8, 4096), (4096, 4096), (2 << 20, 2 << 20), (5 << 20, 2 << 20)]
        {
            let memory = Memory::anonymous(bytes).unwrap();
            let words = memory.words();
            assert_eq!(words.len() as u64, bytes / 8);
            assert_eq!(words.as_ptr().addr() % align, 0);
            assert!(words.iter().step_by(511).all(|word| word.load(Relaxed) == 0));
            for (i, word) in words.iter().enumerate() {
                word.store(i as u64, Relaxed);
            }
        }
    }

    #[test]
    fn memory_that_is_released_is_zero_and_its_neighbours_stay() {
        let memory = Memory::unreserved(1 << 40).unwrap();
        let words = memory.words();
        let last = words.len() - 1;
        for word in [0, 511, 512, 1023, 1024, last] {
            words[word].store(7, Relaxed);
        }
        memory.release(512..1024);
        let found = [0, 511, 512, 1023, 1024, last].map(|word| words[word].load(Relaxed));
        assert_eq!(found, [7, 7, 0, 0, 7, 7]);
        // A partial page stays whole: the kernel would drop all of the last page.
        memory.release(1024..1032);
        memory.release(1032..1536);
        assert_eq!(words[1024].load(Relaxed), 7);
        assert!(Memory::unreserved(u64::MAX).is_err());
    }

    #[test]
    fn exhausted_memory_is_an_error() {
        for bytes in [u64::MAX, u64::MAX / 2, 1 << 60] {
            assert!(matches!(Memory::anonymous(bytes), Err(Error::NoMemory { .. })));
        }
    }

    #[test]
    fn memory_is_filled_with_a_files_data_and_its_holes() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 40 << 20, Prewrite::No).unwrap();
        // Some data behind a hole, a piece longer than one read, and the last word.
        let places: Vec<u64> = (1..5_000).map(|i| 8 * (i * 499 + (1 << 20))).collect();
        for &at in &places {
            file.write_at(at, &[at]).unwrap();
        }
        file.write_at((40 << 20) - 8, &[7]).unwrap();
        let (offset, bytes) = (4096, (40 << 20) - 4096);
        let mut memory = Memory::anonymous(bytes).unwrap();
        memory.fill_from(&file, offset, bytes, &|_| ()).unwrap();
        let mut model = vec![0; bytes as usize / 8];
        places.iter().for_each(|&at| model[(at - offset) as usize / 8] = at);
        *model.last_mut().unwrap() = 7;
        assert!(memory.words().iter().zip(&model).all(|(a, b)| a.load(Relaxed) == *b));
    }

    #[test]
    fn filling_beyond_the_file_or_the_memory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 8192, Prewrite::No).unwrap();
        let mut memory = Memory::anonymous(16384).unwrap();
        let error = memory.fill_from(&file, 4096, 8192, &|_| ()).unwrap_err();
        assert!(matches!(error, Error::Truncated { found: 4096, .. }), "{error}");
        assert!(memory.fill_from(&file, u64::MAX, 8192, &|_| ()).is_err());
        let error = memory.fill_from(&file, 0, 32768, &|_| ()).unwrap_err();
        assert!(matches!(error, Error::NoMemory { bytes: 32768 }), "{error}");
    }

    const PAGE: u64 = 4096;

    /// Page i of the file begins with i.
    fn numbered_pages(pages: u64) -> (tempfile::TempDir, Arc<PoolFile>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let file = PoolFile::create(path, pages * PAGE, Prewrite::Zeros).unwrap();
        (0..pages).for_each(|page| file.write_at(page * PAGE, &[page]).unwrap());
        (dir, Arc::new(file))
    }

    #[test]
    fn writes_to_copied_pages_stay_here_and_writes_to_the_file_stay_out_of_them() {
        let (_dir, file) = numbered_pages(64);
        let memory = Memory::copy_on_write(file.clone(), 8 * PAGE, 56 * PAGE).unwrap();
        let words = memory.words();
        assert_eq!(words.len() as u64, 56 * PAGE / 8);
        for page in 0..56 {
            assert_eq!(words[512 * page].load(Relaxed), page as u64 + 8);
        }
        // Every other page gets a word of its own.
        for page in (0..56).step_by(2) {
            words[512 * page + 7].store(1000 + page as u64, Relaxed);
        }
        let mut heap_image = vec![0; 64 * PAGE as usize / 8];
        file.read_at(0, &mut heap_image).unwrap();
        assert!(
            heap_image
                .iter()
                .enumerate()
                .all(|(i, word)| *word == [0, i as u64 / 512][usize::from(i % 512 == 0)])
        );
        // The heap image writes each of these words, and with it the page around it.
        for page in (0..56).step_by(2) {
            heap_image[512 * (page + 8) + 7] = 1000 + page as u64;
            file.write_at((page as u64 + 8) * PAGE, &heap_image[512 * (page + 8)..][..512])
                .unwrap();
        }
        // Later writes to the heap image, or to other pages, never appear in a copied page.
        file.write_at(8 * PAGE, &[77; 512]).unwrap();
        for page in 0..56 {
            let own = if page % 2 == 0 { 1000 + page as u64 } else { 0 };
            assert_eq!(words[512 * page].load(Relaxed), page as u64 + 8);
            assert_eq!(words[512 * page + 7].load(Relaxed), own);
            assert_eq!(words[512 * page + 8].load(Relaxed), 0);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_written_pages_take_memory() {
        let (_dir, file) = numbered_pages(256);
        let memory = Memory::copy_on_write(file, 0, 256 * PAGE).unwrap();
        let words = memory.words();
        let own_kib = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let start = format!("{:x}-", words.as_ptr().addr());
            let mut map = maps.lines().skip_while(|line| !line.starts_with(&start));
            let line = map.find(|line| line.starts_with("Anonymous:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(own_kib(), 0);
        assert_eq!((0..256).map(|page| words[512 * page].load(Relaxed)).sum::<u64>(), 255 * 128);
        assert_eq!(own_kib(), 0);
        for page in [3, 100, 255] {
            words[512 * page].store(0, Relaxed);
        }
        let page_kib = page_bytes() as u64 / 1024;
        assert_eq!(own_kib(), 3 * page_kib);
    }

    #[test]
    fn a_forgotten_page_is_the_files_again() {
        let (_dir, file) = numbered_pages(16);
        let page_words = (Memory::page_bytes() / 8) as usize;
        let memory = Memory::copy_on_write(file.clone(), 0, 16 * PAGE).unwrap();
        let words = memory.words();
        for page in 0..4 {
            words[page_words * page].store(100, Relaxed);
            words[page_words * page + 1].store(200, Relaxed);
        }
        file.write_at(Memory::page_bytes() + 8, &[7]).unwrap();
        memory.forget(page_words, 2 * page_words).unwrap();
        let now = |page: usize| [0, 1].map(|word| words[page_words * page + word].load(Relaxed));
        let number = |page: u64| page * Memory::page_bytes() / PAGE;
        assert_eq!([now(0), now(1), now(2)], [[100, 200], [number(1), 7], [number(2), 0]]);
        assert_eq!(now(3), [100, 200]);
        words[page_words].store(5, Relaxed);
        assert_eq!(now(1), [5, 7]);
        for (first, words) in
            [(0, 17 * page_words), (0, page_words + 8), (8, page_words), (usize::MAX, page_words)]
        {
            let wrong = std::panic::AssertUnwindSafe(|| memory.forget(first, words));
            assert!(std::panic::catch_unwind(wrong).is_err(), "{first} {words}");
        }
        assert_eq!([now(0), now(3)], [[100, 200], [100, 200]]);
        let anonymous = Memory::anonymous(16 * PAGE).unwrap();
        let own = std::panic::AssertUnwindSafe(|| anonymous.forget(0, page_words));
        assert!(std::panic::catch_unwind(own).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn locked_pages_are_kept_and_that_is_an_error() {
        let (_dir, file) = numbered_pages(16);
        let page_words = (Memory::page_bytes() / 8) as usize;
        let memory = Memory::copy_on_write(file, 0, 16 * PAGE).unwrap();
        let word = &memory.words()[page_words];
        word.store(100, Relaxed);
        let page: *mut std::ffi::c_void = word.as_ptr().cast();
        // SAFETY: a page that stays mapped; locking changes no content.
        unsafe { rustix::mm::mlock(page, 8 * page_words) }.unwrap();
        let error = memory.forget(page_words, page_words).unwrap_err();
        assert!(matches!(error, Error::Kept { .. }) && error.to_string().contains("mlock"));
        assert_eq!(word.load(Relaxed), 100);
        // SAFETY: as above.
        unsafe { rustix::mm::munlock(page, 8 * page_words) }.unwrap();
        memory.forget(page_words, page_words).unwrap();
        assert_eq!(word.load(Relaxed), Memory::page_bytes() / PAGE);
    }

    #[test]
    fn copy_of_read_only_file_keeps_its_lock() {
        let (dir, file) = numbered_pages(4);
        file.publish().unwrap();
        drop(file);
        let file = Arc::new(PoolFile::open_shared(dir.path().join("pool")).unwrap());
        let memory = Memory::copy_on_write(file, PAGE, 3 * PAGE).unwrap();
        assert_eq!(memory.words()[512].swap(9, Relaxed), 2);
        assert_eq!(memory.words()[512].load(Relaxed), 9);
        let writer = PoolFile::open(dir.path().join("pool"));
        assert!(matches!(writer, Err(Error::InUse { .. })), "{writer:?}");
        drop(memory);
        assert!(PoolFile::open(dir.path().join("pool")).is_ok());
    }

    #[test]
    fn mapping_outside_file_or_pages_is_refused() {
        let (_dir, file) = numbered_pages(4);
        for (offset, bytes) in
            [(PAGE, 4 * PAGE), (4 * PAGE, PAGE), (8, PAGE), (0, 8), (u64::MAX - 4095, PAGE)]
        {
            let memory = Memory::copy_on_write(file.clone(), offset, bytes);
            assert!(matches!(memory, Err(Error::BadArea { .. })), "{offset} {bytes} {memory:?}");
        }
        assert!(Memory::copy_on_write(file, 4 * PAGE, 0).unwrap().words().is_empty());
    }

    #[test]
    #[should_panic(expected = "only anonymous memory is filled")]
    fn a_files_own_memory_is_not_filled() {
        let (_dir, file) = numbered_pages(1);
        let mut memory = Memory::copy_on_write(file.clone(), 0, PAGE).unwrap();
        drop(memory.fill_from(&file, 0, PAGE, &|_| ()));
    }
}
