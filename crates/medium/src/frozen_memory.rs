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
        // Before the watch: a thread that finds a page watched also finds the image. Otherwise it
        // would end the watch without a copy, and the image would get the page as it is later.
        let late = injected(Mutant::WatchedBeforeImage);
        if late {
            self.watch.watch();
        }
        lock(&self.images).add(image);
        self.count.fetch_add(1, Ordering::Relaxed);
        if !late {
            self.watch.watch();
        }
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
