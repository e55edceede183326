//! Frozen images of memory that many threads store to: a mapped heap image, or a copy in DRAM.
//!
//! A [`HeapMedium`](crate::HeapMedium) has one owner for each page, which copies the page before it
//! changes. Here the thread that first stores to a page copies it, under a [`PageWatch`].
//!
//! The caller freezes memory at a moment when each word has its value of the frozen image, or gives
//! the values of all other words: with [`FrozenImage::lay_over`] at the beginning, or at each copy.

use std::ops::Range;

use crate::error::Error;
use crate::frozen::{FrozenImage, FrozenImages, PAGE_WORDS};
use crate::page_watch::PageWatch;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use system::mutants::{Mutant, injected};

/// Reads the current content of neighboring pages: gets the first page, and fills the words.
pub type ReadPages<'a> = dyn Fn(usize, &mut [u64]) -> Result<(), Error> + 'a;

/// The frozen images of memory, and the pages to copy for them.
#[derive(Debug, Default)]
pub struct FrozenMemory {
    watch: PageWatch,
    images: Mutex<FrozenImages>,
    /// Number of images.
    count: AtomicUsize,
}

impl FrozenMemory {
    /// Returns the frozen images of so many words: none. Takes one bit for each page of 4 KiB.
    pub fn new(words: usize) -> FrozenMemory {
        let watch = PageWatch::new(words.div_ceil(PAGE_WORDS));
        FrozenMemory { watch, ..FrozenMemory::default() }
    }

    /// Whether [`first_store`](FrozenMemory::first_store) must precede a store to the word.
    #[inline(always)]
    pub fn is_watched(&self, word: usize) -> bool {
        self.watch.is_watched(word / PAGE_WORDS)
    }

    /// Whether there are any frozen images.
    #[inline]
    pub(crate) fn has_images(&self) -> bool {
        // Relaxed: the caller has learned of the last one, if there is one, as of the watch.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Copies the page of a word to the frozen images that lack it. `now` reads it.
    ///
    /// An error fails only the frozen image: see [`FrozenImage::check`].
    #[cold]
    pub fn first_store(&self, word: usize, now: &ReadPages<'_>) {
        self.first_store_then(word, now, || ());
    }

    /// Does the same, and runs another step.
    #[cold]
    pub(crate) fn first_store_then(&self, word: usize, now: &ReadPages<'_>, then: impl FnOnce()) {
        let page = word / PAGE_WORDS;
        self.watch.leave(page, || {
            // Read under the group's lock: `freeze` adds an image before it watches the group.
            let images = lock(&self.images).clone();
            if !injected(Mutant::WatchedPageNotCopied) {
                images.before_change(page, now);
            }
            then();
        });
    }

    /// Watches all pages, for a step that a caller has besides the copies.
    pub(crate) fn watch(&self) {
        self.watch.watch();
    }

    /// Begins a frozen image: its pages are copied before they change.
    pub fn freeze(&self, image: &Arc<FrozenImage>) {
        // Before the watch: a thread that finds a page watched also finds the image.
        lock(&self.images).add(image);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.watch.watch();
    }

    /// Copies to a frozen image those pages of the range that have no copy yet. Stores to 64 pages
    /// at a time wait.
    pub fn copy(&self, image: &FrozenImage, pages: Range<usize>, now: &ReadPages<'_>) {
        self.watch.visit(pages, |pages| image.copy(pages, |_| true, now));
    }

    /// Ends a frozen image. A thread may still copy a page to it.
    pub fn thaw(&self, image: &Arc<FrozenImage>) {
        lock(&self.images).remove(image);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads neighboring pages of memory.
pub fn read_pages(memory: &[AtomicU64], first: usize, out: &mut [u64]) {
    // Relaxed: a store to these pages comes after this read, by the watch, or is laid over.
    let words = &memory[first * PAGE_WORDS..][..out.len()];
    out.iter_mut().zip(words).for_each(|(out, word)| *out = word.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PoolFile, Prewrite};

    const PAGES: usize = 200;

    /// Memory with its frozen images.
    struct Frozen {
        words: Vec<AtomicU64>,
        memory: FrozenMemory,
        dir: tempfile::TempDir,
    }

    impl Frozen {
        fn new() -> Frozen {
            let words: Vec<_> = (0..PAGES * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
            let memory = FrozenMemory::new(words.len());
            Frozen { words, memory, dir: tempfile::tempdir().unwrap() }
        }

        fn freeze(&self, name: &str) -> Arc<FrozenImage> {
            let bytes = 8 * self.words.len() as u64;
            let file = PoolFile::create(self.dir.path().join(name), bytes, Prewrite::No).unwrap();
            let image = Arc::new(FrozenImage::new(Arc::new(file), 0, bytes).unwrap());
            self.memory.freeze(&image);
            image
        }

        fn store(&self, word: usize, value: u64) {
            if self.memory.is_watched(word) {
                self.memory.first_store(word, &|page, out| self.now(page, out));
            }
            self.words[word].store(value, Ordering::Relaxed);
        }

        fn now(&self, first: usize, out: &mut [u64]) -> Result<(), Error> {
            read_pages(&self.words, first, out);
            Ok(())
        }

        fn copied(&self, image: &FrozenImage) -> Vec<u64> {
            self.memory.copy(image, 0..PAGES, &|page, out| self.now(page, out));
            image.check().unwrap();
            assert_eq!(image.pages_left(), 0);
            let mut words = vec![0; self.words.len()];
            image.read(0, &mut words).unwrap();
            words
        }
    }

    #[test]
    fn images_of_two_moments_have_their_words() {
        let frozen = Frozen::new();
        let last = PAGES * PAGE_WORDS - 1;
        frozen.store(7, 1);
        let first = frozen.freeze("first");
        assert!(frozen.memory.is_watched(7) && frozen.memory.is_watched(last));
        frozen.store(7, 2);
        assert!(!frozen.memory.is_watched(7) && frozen.memory.is_watched(last));
        assert!(first.is_copied(0) && !first.is_copied(1));
        let second = frozen.freeze("second");
        frozen.store(7, 3);
        frozen.store(last, 4);
        for (image, value) in [(&first, 1), (&second, 2)] {
            let words = frozen.copied(image);
            assert_eq!((words[7], words[last]), (value, 0));
            assert_eq!(words.iter().filter(|word| **word != 0).count(), 1);
        }
        frozen.memory.thaw(&first);
        frozen.memory.thaw(&second);
        frozen.store(PAGE_WORDS, 5);
        assert!(!frozen.memory.is_watched(PAGE_WORDS));
    }

    #[test]
    fn laid_over_words_replace_those_of_memory() {
        let frozen = Frozen::new();
        (0..3 * PAGE_WORDS).for_each(|word| frozen.store(word, 1));
        let image = frozen.freeze("image");
        image.lay_over([(5, 50), (PAGE_WORDS, 60), (last_of(2), 70)].into());
        frozen.store(6, 2);
        let words = frozen.copied(&image);
        let found = [words[4], words[5], words[6], words[PAGE_WORDS], words[last_of(2)]];
        assert_eq!(found, [1, 50, 1, 60, 70]);
        assert_eq!(words.iter().filter(|word| **word > 1).count(), 3);
    }

    fn last_of(page: usize) -> usize {
        (page + 1) * PAGE_WORDS - 1
    }

    #[test]
    fn stores_of_several_threads_miss_no_copy() {
        let frozen = Frozen::new();
        for round in 1..20 {
            let image = frozen.freeze(&format!("image{round}"));
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let frozen = &frozen;
                    scope.spawn(move || {
                        for page in 0..PAGES {
                            frozen.store(page * PAGE_WORDS + thread, round);
                        }
                    });
                }
                let words = frozen.copied(&image);
                let is_old = |page: &[u64]| page[..3] == [round - 1; 3];
                assert!(words.chunks(PAGE_WORDS).all(is_old), "round {round}");
            });
            frozen.memory.thaw(&image);
        }
    }
}
