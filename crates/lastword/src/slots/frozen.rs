//! Frozen images of a slot store: the heap as of one transaction, while workers go on.
//!
//! | medium | design | frozen | a page is copied by |
//! |---|---|---|---|
//! | mapped | all | the heap image | the worker that first stores to it, before it does |
//! | `file` | `redo`, `snapshot` | the copy of the heap in memory | the same |
//! | `file` | `undo` | the heap image in the file | the commit that first writes to it |
//!
//! No truncation is needed, since the first two kinds freeze what transactions read. The design
//! chooses a moment at which this is the state after a transaction:
//!
//! | design | moment | words that are not as of the moment |
//! |---|---|---|
//! | `redo` | a `boundary` | none: words are stored between a commit's ID and its end |
//! | `undo` on `file` | a boundary | none: pages are written there, too |
//! | `undo`, mapped | a boundary | those of running transactions, which their records restore |
//! | `snapshot` | no transaction ends or is written back | those of ended transactions in queues |
//!
//! Under `undo` on `file` the memory has words of running transactions, and no other thread can
//! read their records. The heap image has words of committed transactions alone.

use std::ops::Range;

use medium::{FrozenImage, FrozenMemory, HeapMedium, Scrubbed, read_pages};

use super::store::{Place, SlotStore};
use crate::error::Error;
use crate::sync::{Arc, Ordering, lock, rest, thread};

/// Pages that are copied or compared while commits wait for the heap image: 1 MiB.
const TOGETHER: usize = 256;

/// Looks at commits that wait for the heap image before the next pages are copied all the same:
/// about 50 ms; see [`rest`].
const LOOKS: u32 = 200;

impl SlotStore {
    /// Begins a frozen image as of now; see the module.
    pub(super) fn freeze(&self, image: &Arc<FrozenImage>) {
        match &self.place {
            Place::Mapped { heap, .. } => heap.freeze(image),
            Place::Files { memory: Some(memory), .. } => memory.freeze(image),
            Place::Files { .. } => self.at_once(|pages| {
                pages.freeze(image);
            }),
        }
    }

    /// Copies pages to a frozen image. `lay_over` gets neighboring pages of a mapped heap image
    /// and replaces the words that are not as of the moment.
    pub(super) fn copy_frozen(
        &self,
        image: &FrozenImage,
        pages: Range<usize>,
        lay_over: &dyn Fn(usize, &mut [u64]),
    ) {
        match &self.place {
            Place::Mapped { heap, .. } => heap.copy_frozen(image, pages, lay_over),
            Place::Files { memory: Some(memory), .. } => {
                memory.copy(image, pages, &|first, out| self.now(first, out));
            }
            Place::Files { .. } => {
                let copy = |pages| self.with_image(|image_of| image_of.copy_frozen(image, pages));
                some_at_a_time(pages).for_each(copy);
            }
        }
    }

    /// Ends a frozen image.
    pub(super) fn thaw(&self, image: &Arc<FrozenImage>) {
        match &self.place {
            Place::Mapped { heap, .. } => heap.thaw(image),
            Place::Files { memory: Some(memory), .. } => memory.thaw(image),
            Place::Files { .. } => self.at_once(|pages| pages.thaw(image)),
        }
    }

    /// Copies the page of a word in memory to the frozen images that lack it.
    #[cold]
    pub(super) fn first_store(&self, memory: &FrozenMemory, index: usize) {
        memory.first_store(index, &|first, out| self.now(first, out));
    }

    #[allow(clippy::unnecessary_wraps, reason = "the copy of another heap may fail")]
    fn now(&self, first: usize, out: &mut [u64]) -> Result<(), medium::Error> {
        read_pages(self.heap(), first, out);
        Ok(())
    }

    /// Compares pages of the heap image with their checksums, some at a time.
    pub(super) fn scrub(&self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        for pages in some_at_a_time(pages) {
            match &self.place {
                Place::Mapped { heap, .. } => {
                    heap.scrub(pages, scrubbed);
                    // A first store may wait for the table of checksums.
                    thread::yield_now();
                }
                Place::Files { .. } => self.with_image(|image| image.scrub(pages, scrubbed))?,
            }
        }
        Ok(())
    }

    /// Uses the heap image in a file for a moment. Announced as a commit is, so that
    /// [`with_image`](SlotStore::with_image) lets it go first: commits wait while a view begins.
    fn at_once(&self, work: impl FnOnce(&mut medium::Parts)) {
        let Place::Files { image, waiting, .. } = &self.place else {
            unreachable!("a mapped heap image has no lock");
        };
        // Relaxed: as in `with_image`.
        waiting.fetch_add(1, Ordering::Relaxed);
        work(&mut lock(image));
        waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Uses the heap image in a file. Lets commits that wait for it go first, for a bounded time.
    fn with_image<R>(&self, work: impl FnOnce(&mut medium::Parts) -> R) -> R {
        let Place::Files { image, waiting, .. } = &self.place else {
            unreachable!("a mapped heap image has no lock");
        };
        for look in 0..LOOKS {
            // Relaxed: a commit that is seen late waits for some more pages.
            if waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            rest(look);
        }
        work(&mut lock(image))
    }
}

/// Divides a range of pages.
fn some_at_a_time(pages: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = pages.end;
    pages.step_by(TOGETHER).map(move |first| first..end.min(first + TOGETHER))
}
