//! The heap image as of one moment, while the heap image goes on changing.
//!
//! ```text
//!   heap image    | page | page | page | ...    before the first change of a page
//!                    |                          since the moment, the page is copied
//!                    v
//!   copy          | page |  -   | page | ...    a file of its own; one bit a page: copied or not
//! ```
//!
//! A part of a heap image copies each of its pages at most once, before the page changes or on
//! request. So a page without a copy has not changed since the moment, and its content can be
//! copied later. On files, the content of a page is the page in the file, overlaid with the
//! gathered words that are not yet written. So writing these words does not change it.
//!
//! Invariants:
//! - The part that owns a page is the only writer of its copy and of its bit. One thread at a time
//!   uses a part, so no two threads decide about one page. In [memory](crate::FrozenMemory) that
//!   many threads store to, the holder of a lock stands for the part.
//! - The bit is set after the copy is written. A thread that sees the bit reads the copy from the
//!   file.
//! - The copy takes no part in the durability of the heap image. If it cannot be written, the
//!   frozen image has failed, and the heap image goes on without it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::area::{Area, PAGE_BYTES};
use crate::error::Error;
use crate::page_checksums::{ChecksumArea, CopyChecksums};
use crate::pool_file::PoolFile;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::writes::{Piece, Pieces};
use system::mutants::{Mutant, injected};

/// Words of a page.
pub const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// Neighbouring pages that are copied together: 128 KiB stay in the processor's cache.
const TOGETHER: usize = 32;

/// A heap image as of one moment; see [`HeapMedium::freeze`](crate::HeapMedium::freeze).
#[derive(Debug)]
pub struct FrozenImage {
    area: Area,
    /// The checksums of the copied pages, if they are wanted.
    sums: Option<CopyChecksums>,
    /// Words that the copy has in place of those of the heap image.
    laid_over: OnceLock<BTreeMap<usize, u64>>,
    /// Bit p: page p is copied.
    copied: Box<[AtomicU64]>,
    /// Number of pages that are not copied.
    left: AtomicUsize,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl FrozenImage {
    /// A frozen image whose copy is `bytes` bytes at `offset` in the file, both in whole pages of
    /// 4 KiB. The file's blocks should be allocated, since a full disk fails the frozen image.
    ///
    /// # Errors
    /// [`Error::BadArea`].
    pub fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<FrozenImage, Error> {
        let area = Area::new(file, offset, bytes)?;
        let pages = (bytes / PAGE_BYTES) as usize;
        Ok(FrozenImage {
            area,
            sums: None,
            laid_over: OnceLock::new(),
            copied: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            left: AtomicUsize::new(pages),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// Computes the checksums of the pages that are copied.
    pub fn with_checksums(self) -> FrozenImage {
        FrozenImage { sums: Some(CopyChecksums::new(self.pages())), ..self }
    }

    /// Gives words, by their index, values other than those of the heap image. Called at most once,
    /// before the image begins.
    pub fn lay_over(&self, words: BTreeMap<usize, u64>) {
        let _ = self.laid_over.set(words);
    }

    /// Writes the checksums of all pages, not durably. All are copied.
    ///
    /// # Errors
    /// The file's.
    pub fn write_checksums(&self, area: ChecksumArea) -> Result<(), Error> {
        self.sums.as_ref().map_or(Ok(()), |sums| sums.write(self.area.file(), area))
    }

    /// Returns the number of pages of 4 KiB.
    pub fn pages(&self) -> usize {
        (self.area.bytes() / PAGE_BYTES) as usize
    }

    /// Returns the number of pages that are not copied.
    pub fn pages_left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether a page is copied, so that [`read`](FrozenImage::read) returns its content.
    pub fn is_copied(&self, page: usize) -> bool {
        // Acquire: pairs with the Release in `put`. The copy is in the file by then.
        self.copied[page / 64].load(Ordering::Acquire) & 1 << (page % 64) != 0
    }

    /// Reads words of the copy, from byte `at` on.
    ///
    /// # Errors
    /// The file's.
    pub fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        self.area.file().read_at(self.area.offset(at), out)
    }

    /// Makes the copies so far durable.
    ///
    /// # Errors
    /// The file's.
    pub fn sync(&self) -> Result<(), Error> {
        self.area.file().sync()
    }

    /// Returns the error of the copy, if it has failed. The first call returns the cause.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<(), Error> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(lock(&self.failure).take().unwrap_or_else(|| self.area.poisoned()))
    }

    /// Notes that the copy has failed. The first error counts.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// Whether the part that owns a page must copy it before it changes. A heap image that has
    /// grown has pages that the frozen one has not.
    fn wants(&self, page: usize) -> bool {
        if page >= self.pages() {
            return false;
        }
        // Relaxed: the part's own bit. A failure that is seen late costs a copy in vain.
        let bits = self.copied[page / 64].load(Ordering::Relaxed);
        bits & 1 << (page % 64) == 0 && !self.failed.load(Ordering::Relaxed)
    }

    /// Copies the content of neighbouring pages. Called by the part that owns them.
    fn put(&self, first: usize, words: &mut [u64]) {
        let (from, len) = (first * PAGE_WORDS, words.len());
        let laid_over = self.laid_over.get().into_iter();
        for (word, value) in laid_over.flat_map(|words| words.range(from..from + len)) {
            words[word - from] = *value;
        }
        let at = self.area.offset(first as u64 * PAGE_BYTES);
        if let Err(error) = self.area.file().write_at(at, words) {
            return self.fail(error);
        }
        if let Some(sums) = &self.sums {
            sums.set(first, words);
        }
        for page in first..first + words.len() / PAGE_WORDS {
            // Release: see `is_copied`. Other parts set other bits of the word.
            self.copied[page / 64].fetch_or(1 << (page % 64), Ordering::Release);
        }
        self.left.fetch_sub(words.len() / PAGE_WORDS, Ordering::Relaxed);
    }

    /// Copies the pages of the range that a part owns and that have no copy yet. `now` reads the
    /// current content of neighbouring pages.
    pub(crate) fn copy(
        &self,
        pages: Range<usize>,
        owns: impl Fn(usize) -> bool,
        mut now: impl FnMut(usize, &mut [u64]) -> Result<(), Error>,
    ) {
        let mut words = vec![0; TOGETHER * PAGE_WORDS];
        let (mut page, end) = (pages.start, pages.end.min(self.pages()));
        while page < end {
            let is_next = |next: &usize| self.wants(*next) && owns(*next);
            let count = (page..end.min(page + TOGETHER)).take_while(is_next).count();
            if count > 0 {
                let words = &mut words[..count * PAGE_WORDS];
                match now(page, words) {
                    Ok(()) => self.put(page, words),
                    Err(error) => return self.fail(error),
                }
            }
            page += count.max(1);
        }
    }
}

/// The frozen images that a part of a heap image keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrozenImages(Vec<Arc<FrozenImage>>);

impl FrozenImages {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, image: &Arc<FrozenImage>) {
        self.0.push(Arc::clone(image));
    }

    pub(crate) fn remove(&mut self, image: &Arc<FrozenImage>) {
        self.0.retain(|other| !Arc::ptr_eq(other, image));
    }

    /// Copies the pages that a batch is about to change. `now` is that of [`FrozenImage::copy`].
    pub(crate) fn before_writes(
        &self,
        writes: &[u64],
        mut now: impl FnMut(usize, &mut [u64]) -> Result<(), Error>,
    ) {
        if injected(Mutant::FrozenPageNotCopied) {
            return;
        }
        for piece in Pieces::new(writes) {
            let Piece::Run(index, words) = piece else { continue };
            let first = index as usize;
            for page in first / PAGE_WORDS..(first + words.len()).div_ceil(PAGE_WORDS) {
                self.before_change(page, &mut now);
            }
        }
    }

    /// Copies a page that is about to change.
    #[inline]
    pub(crate) fn before_change(
        &self,
        page: usize,
        mut now: impl FnMut(usize, &mut [u64]) -> Result<(), Error>,
    ) {
        for image in self.0.iter().filter(|image| image.wants(page)) {
            let mut words = [0; PAGE_WORDS];
            match now(page, &mut words) {
                Ok(()) => image.put(page, &mut words),
                Err(error) => image.fail(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::suite::{self, HEAP_BYTES, HEAP_OFFSET};
    use crate::{FileHeap, HeapMedium, MappedHeap, Parts, Prewrite};

    const PAGES: usize = (HEAP_BYTES / PAGE_BYTES) as usize;

    fn file_heap(file: Arc<PoolFile>) -> FileHeap {
        FileHeap::new(file, HEAP_OFFSET, HEAP_BYTES).unwrap()
    }

    /// Makes a heap image in a file.
    type Backend = Box<dyn Fn(Arc<PoolFile>) -> Parts>;

    fn backends() -> Vec<Backend> {
        let mut backends: Vec<Backend> = vec![
            Box::new(|file| file_heap(file).in_parts(1)),
            Box::new(|file| file_heap(file).in_parts(3)),
            // Pages with few words are chains, and the memory for them runs short.
            Box::new(|file| file_heap(file).with_gather_bytes_max(20 << 10).in_parts(1)),
            Box::new(|file| file_heap(file).with_gather_bytes_max(20 << 10).in_parts(3)),
        ];
        for domain in suite::domains() {
            for parts in [1, 3] {
                let domain = domain.clone();
                backends.push(Box::new(move |file| {
                    let heap = MappedHeap::new(file, HEAP_OFFSET, HEAP_BYTES, &domain);
                    heap.unwrap().in_parts(parts)
                }));
            }
        }
        backends
    }

    /// A frozen image in a file of its own, and the words that it should have.
    struct Frozen {
        image: Arc<FrozenImage>,
        expected: Vec<u64>,
        _dir: tempfile::TempDir,
    }

    impl Frozen {
        fn new(heap_image: &mut Parts, model: &[u64]) -> Frozen {
            let dir = tempfile::tempdir().unwrap();
            let file = PoolFile::create(dir.path().join("copy"), HEAP_BYTES, Prewrite::No).unwrap();
            let image = Arc::new(FrozenImage::new(Arc::new(file), 0, HEAP_BYTES).unwrap());
            assert!(heap_image.freeze(&image));
            Frozen { image, expected: model.to_vec(), _dir: dir }
        }

        fn check(&self, heap_image: &mut Parts) {
            heap_image.copy_frozen(&self.image, 0..PAGES);
            self.image.check().unwrap();
            assert_eq!(self.image.pages_left(), 0);
            let mut words = vec![0; HEAP_BYTES as usize / 8];
            self.image.read(0, &mut words).unwrap();
            assert!(words == self.expected);
        }
    }

    #[test]
    fn frozen_image_has_words_of_its_moment() {
        for (number, backend) in backends().iter().enumerate() {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(number as u64);
            let (_dir, file) = suite::pool();
            let mut heap_image = backend(file);
            let mut model = vec![0; HEAP_BYTES as usize / 8];
            let (mut frozen, mut checked) = (Vec::<Frozen>::new(), 0);
            for _ in 0..400 {
                match random.random_range(0..10) {
                    0 if frozen.len() < 2 => frozen.push(Frozen::new(&mut heap_image, &model)),
                    1 if !frozen.is_empty() && random.random_bool(0.3) => {
                        let one = frozen.remove(random.random_range(0..frozen.len()));
                        one.check(&mut heap_image);
                        heap_image.thaw(&one.image);
                        checked += 1;
                    }
                    2 => {
                        for one in &frozen {
                            let first = random.random_range(0..PAGES);
                            heap_image.copy_frozen(&one.image, first..first + 5);
                        }
                    }
                    3 => heap_image.write_next(random.random_range(1..20)).unwrap(),
                    4 if random.random_bool(0.2) => heap_image.barrier().unwrap(),
                    _ => {
                        let batch = suite::random_batch(&mut random, &mut model, 0);
                        heap_image.write_back(&batch).unwrap();
                    }
                }
            }
            frozen.iter().for_each(|one| one.check(&mut heap_image));
            assert!(checked > 2, "{checked}");
        }
    }

    #[test]
    fn failed_copy_fails_only_frozen_image() {
        let (_dir, file) = suite::pool();
        let mut heap_image = file_heap(file).in_parts(2);
        let (_copy_dir, copy) = suite::pool_for_reading();
        let image = Arc::new(FrozenImage::new(copy, HEAP_OFFSET, HEAP_BYTES).unwrap());
        assert!(heap_image.freeze(&image));
        heap_image.write_back(&[crate::writes::run(7, 1), 42]).unwrap();
        let cause = image.check().unwrap_err();
        assert!(!matches!(cause, Error::Poisoned { .. }), "{cause}");
        assert!(matches!(image.check(), Err(Error::Poisoned { .. })), "the cause is reported once");
        heap_image.copy_frozen(&image, 0..PAGES);
        assert_eq!(image.pages_left(), PAGES);
        heap_image.write_back(&[crate::writes::run(8, 1), 43]).unwrap();
        heap_image.barrier().unwrap();
    }
}
