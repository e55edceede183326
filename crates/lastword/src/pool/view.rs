//! Views: a pool as of one transaction, while other transactions go on.

use std::ops::Range;

use medium::{ChecksumArea, FrozenImage, PoolFile};
use words::{Addr, Allocate, Stop, TxId, Words};

use super::Pool;
use super::view_space::Reserved;
use crate::Error;
use crate::design::{Decoupled, Design};
use crate::perform::Heap;
use crate::storage::Damaged;
use crate::sync::{Arc, Ordering};
use crate::transfer::content::Content;
use crate::transfer::stream::Header;

/// Pages of one slice of a backup: 32 MiB. Reproduction waits while it is copied.
const SLICE_PAGES: usize = 8192;

/// Pages that are copied when one of them is read: 128 KiB.
const READ_PAGES: usize = 32;

/// Bytes and words of a page.
const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = 512;

/// Pages that a [`ViewTx`] keeps in memory: 256 KiB.
const KEPT_PAGES: usize = 64;

/// A pool as of one transaction, while other transactions go on: for long scans, checks and
/// exports. Made by [`Pool::view`].
///
/// Transactions never invalidate a view. Each page is copied to a file of the view before the page
/// first changes. A read copies the pages that it needs, 128 KiB at a time. The file is on the disk
/// of the pool, without a name and as large as the heap. Its disk space is reserved when the view
/// begins, within [`Options::view_bytes`](crate::Options::view_bytes). The log is truncated, and
/// freed memory is used again, as without a view. Dropping the view ends it and removes the file.
///
/// | design | a page is copied by | a read, while it copies, holds up |
/// |---|---|---|
/// | `decoupled` | reproduction | reproduction |
/// | `snapshot`, `redo` | the worker that first stores to it | first stores to the same 64 pages |
/// | `undo`, mapped | the worker that first stores to it | first stores to the same 64 pages |
/// | `undo` on `file` | the commit that first writes it | commits |
///
/// Under `decoupled`, transactions wait only for room in the log that reproduction frees, or for a
/// page of a bounded shadow.
pub struct PoolView<'p, D: Design = Decoupled> {
    // Dropped in this order: the file is removed before its space is released.
    frozen: Frozen<'p, D>,
    _space: Reserved<'p>,
}

/// A frozen image of a pool's heap. Dropping it ends it.
pub(super) struct Frozen<'p, D: Design> {
    pool: &'p Pool<D>,
    image: Arc<FrozenImage>,
    id: TxId,
}

impl<D: Design> Pool<D> {
    /// Returns a view of the pool as of one transaction: the last one committed now, or a later
    /// one. Waits for no running body, except with groups.
    ///
    /// - Under [`Decoupled`], waits until the transaction is durable and reproduction has taken it
    ///   in.
    /// - Under [`Undo`](crate::Undo) and [`Redo`](crate::Redo), waits for the commits in flight.
    ///   Later commits wait until these have ended and the view has begun.
    /// - Under [`Snapshot`](crate::Snapshot), commits wait some microseconds while the view begins.
    ///   With [groups](crate::Options::group), the view has all transactions up to its ID, and may
    ///   have later ones. It then waits as [`flush`](Pool::flush) does: for the body that runs in a
    ///   group with a committed transaction.
    ///
    /// ```
    /// use lastword::{Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// # let pool = Pool::create(dir.path().join("view.pool"), options)?;
    /// let count = pool.run(|tx| tx.alloc(1_u64))?.value;
    /// let view = pool.view()?;
    /// pool.run(|tx| tx.set(count, 2))?;
    /// assert_eq!(view.read(|tx| tx.get(count))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ViewLimit`] by [`Options::view_bytes`](crate::Options::view_bytes).
    /// [`Error::Medium`] if the disk has no space for a file as large as the heap.
    /// [`Error::NotDurable`]. [`Error::NoView`] under ideal reproduction. As
    /// [`flush`](Pool::flush).
    pub fn view(&self) -> Result<PoolView<'_, D>, Error> {
        let _call = self.call("view")?;
        self.has_heap_image()?;
        // Ends: a heap grows a finite number of times.
        loop {
            let bytes = self.shape.heap_bytes();
            let space = self.view_space.reserve(bytes)?;
            let file = Arc::new(PoolFile::create_unnamed(&self.system, &self.home, bytes)?);
            let image = Arc::new(FrozenImage::new(file, 0, bytes)?);
            if let Some(frozen) = self.freeze(image)? {
                return Ok(PoolView { frozen, _space: space });
            }
        }
    }

    /// Returns an error if the design has no heap image.
    pub(super) fn has_heap_image(&self) -> Result<(), Error> {
        if D::DURABLE { Ok(()) } else { Err(Error::NotDurable { design: D::NAME }) }
    }

    /// Freezes the heap. `None` if it has grown: the image has not all of it.
    pub(super) fn freeze(&self, image: Arc<FrozenImage>) -> Result<Option<Frozen<'_, D>>, Error> {
        let id = self.design().freeze(&image)?;
        let frozen = Frozen { pool: self, image, id };
        // A transaction in the image that uses new memory began after the growth ended.
        Ok((frozen.heap_bytes() == self.shape.heap_bytes()).then_some(frozen))
    }
}

impl<D: Design> Frozen<'_, D> {
    pub(super) fn id(&self) -> TxId {
        self.id
    }

    /// Returns the size of the frozen heap.
    fn heap_bytes(&self) -> u64 {
        self.image.pages() as u64 * PAGE_BYTES
    }

    /// Returns the frozen heap's description.
    fn heap(&self) -> lw_alloc::Heap {
        self.pool.shape.heap().with_bytes(self.heap_bytes())
    }

    /// Writes the checksums of all pages, which are copied.
    ///
    /// # Errors
    /// The file's.
    pub(super) fn write_checksums(&self, area: ChecksumArea) -> Result<(), Error> {
        Ok(self.image.write_checksums(area)?)
    }

    /// Copies all pages, slice by slice. Transactions go on, and reproduction between the slices.
    ///
    /// # Errors
    /// Those of [`copy`](Frozen::copy).
    pub(super) fn copy_all(&self) -> Result<(), Error> {
        let pages = self.image.pages();
        for first in (0..pages).step_by(SLICE_PAGES) {
            self.copy(first..pages.min(first + SLICE_PAGES))?;
            // A little at a time: at once, the disk would be busy with it for long.
            self.image.sync()?;
        }
        // A file that was cut has lost content. If it only lost its name, the copy rescues it.
        match self.pool.file_check().check(self.id) {
            Err(error @ Error::Cut { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Copies pages.
    ///
    /// # Errors
    /// An I/O error of the copy. The pool's sticky error: its heap may then be incomplete.
    fn copy(&self, pages: Range<usize>) -> Result<(), Error> {
        self.pool.design().copy_frozen(&self.image, pages)?;
        Ok(self.image.check()?)
    }
}

impl<D: Design> Drop for Frozen<'_, D> {
    fn drop(&mut self) {
        // A forked child has none of the parent's threads, and its locks may be taken for ever.
        if !self.pool.is_forked() {
            self.pool.design().thaw(&self.image);
        }
    }
}

impl<D: Design> PoolView<'_, D> {
    /// Returns the last transaction in the view.
    pub fn id(&self) -> TxId {
        self.frozen.id()
    }

    /// Reads from the view. The body runs once and may take any time.
    ///
    /// # Errors
    /// The body's, as [`Worker::read`](crate::Worker::read). An I/O error of the view's file, or
    /// the pool's sticky error: every later read fails, too.
    pub fn read<R>(
        &self,
        body: impl FnOnce(&mut ViewTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        let _call = self.frozen.pool.call("read")?;
        let copy = |pages| self.frozen.copy(pages);
        let shape = &self.frozen.pool.shape;
        let mut tx = ViewTx::of_pages(&self.frozen.image, &copy, self.frozen.heap(), shape.base());
        let done = body(&mut tx);
        let done = tx.conclude(done)?;
        self.frozen.pool.design().check()?;
        Ok(done)
    }

    /// Checks that live and free objects cover the whole heap of the view, as
    /// [`check`](crate::check) does for a closed pool, and counts them.
    ///
    /// # Errors
    /// [`Error::DamagedHeap`]; as [`read`](PoolView::read).
    pub fn check(&self) -> Result<lw_alloc::Usage, Error> {
        let shape = &self.frozen.pool.shape;
        let found = self.read(|tx| {
            let word = |offset| tx.word(offset / 8).unwrap_or(0);
            Ok(self.frozen.heap().check(word))
        })?;
        found.map_err(|damage| Error::DamagedHeap { path: shape.info().path.clone(), damage })
    }
}

impl<D: Design> PoolView<'_, D> {
    /// Calls the body with the content, to export it.
    pub(crate) fn with_content<R>(
        &self,
        body: impl FnOnce(Content<&mut dyn FnMut(u64) -> Result<u64, Stop>>) -> R,
    ) -> Result<R, Error> {
        let heap = self.frozen.heap();
        let header = Header::of(&self.frozen.pool.plan_of_copy()?, self.id());
        // The pool's heap may have grown since the view began.
        let header = Header { heap_bytes: heap.bytes(), ..header };
        self.read(|tx| {
            let word = &mut |offset: u64| tx.word(offset / 8);
            Ok(body(Content { header, heap, word, has_root: true }))
        })
    }
}

impl<D: Design> std::fmt::Debug for PoolView<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolView").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Reader of a [`PoolView`], a [`PoolReader`](crate::PoolReader) or a
/// [`HeapAtRest`](crate::HeapAtRest). A write or an allocation ends it with [`Stop::ReadOnly`].
pub struct ViewTx<'v> {
    source: Source<'v>,
    heap: lw_alloc::Heap,
    base: u64,
    /// Words of the heap; 0 after a stop.
    bound: u64,
    stop: Option<Stop>,
    /// The refused address.
    wild: Addr,
    error: Option<Error>,
}

/// The words of a [`ViewTx`].
enum Source<'v> {
    Pages(Box<Pages<'v>>),
    /// Memory, and its damaged pages.
    Memory(&'v Heap, &'v Damaged),
    /// A function that returns the word of an index.
    Words(&'v mut dyn FnMut(u64) -> Result<u64, Error>),
}

/// Pages of a frozen image.
struct Pages<'v> {
    image: &'v FrozenImage,
    copy: &'v dyn Fn(Range<usize>) -> Result<(), Error>,
    /// The page in each place of `words`.
    kept: [usize; KEPT_PAGES],
    words: Vec<u64>,
}

impl Pages<'_> {
    #[inline]
    fn word(&mut self, index: u64) -> Result<u64, Error> {
        let (page, word) = (index as usize / PAGE_WORDS, index as usize % PAGE_WORDS);
        let place = page % KEPT_PAGES;
        if self.kept[place] != page {
            self.load(page)?;
        }
        Ok(self.words[place * PAGE_WORDS + word])
    }

    fn load(&mut self, page: usize) -> Result<(), Error> {
        if !self.image.is_copied(page) {
            let first = page - page % READ_PAGES;
            (self.copy)(first..first + READ_PAGES)?;
        }
        let place = page % KEPT_PAGES;
        self.kept[place] = usize::MAX;
        let words = &mut self.words[place * PAGE_WORDS..][..PAGE_WORDS];
        self.image.read(page as u64 * PAGE_BYTES, words)?;
        self.kept[place] = page;
        Ok(())
    }
}

impl<'v> ViewTx<'v> {
    fn of_pages(
        image: &'v FrozenImage,
        copy: &'v dyn Fn(Range<usize>) -> Result<(), Error>,
        heap: lw_alloc::Heap,
        base: u64,
    ) -> ViewTx<'v> {
        let (kept, words) = ([usize::MAX; KEPT_PAGES], vec![0; KEPT_PAGES * PAGE_WORDS]);
        let bound = (image.pages() * PAGE_WORDS) as u64;
        let pages = Box::new(Pages { image, copy, kept, words });
        ViewTx::new(Source::Pages(pages), bound, heap, base)
    }

    /// Returns a reader of a heap in memory.
    pub(crate) fn of_memory(
        words: &'v Heap,
        damaged: &'v Damaged,
        heap: lw_alloc::Heap,
        base: u64,
    ) -> ViewTx<'v> {
        ViewTx::new(Source::Memory(words, damaged), words.len() as u64, heap, base)
    }

    /// Returns a reader of a heap whose words `word` returns by their indices.
    pub(crate) fn of_words(
        word: &'v mut dyn FnMut(u64) -> Result<u64, Error>,
        heap: lw_alloc::Heap,
        base: u64,
    ) -> ViewTx<'v> {
        ViewTx::new(Source::Words(word), heap.bytes() / 8, heap, base)
    }

    fn new(source: Source<'v>, bound: u64, heap: lw_alloc::Heap, base: u64) -> ViewTx<'v> {
        let wild = Addr::new(0, 0);
        ViewTx { source, heap, base, bound, stop: None, wild, error: None }
    }

    #[cold]
    fn end(&mut self, stop: Stop) -> Stop {
        self.bound = 0;
        *self.stop.get_or_insert(stop)
    }

    #[cold]
    fn refuse(&mut self, at: Addr) -> Stop {
        if self.stop.is_none() {
            self.wild = at;
        }
        self.end(Stop::BadPointer)
    }

    /// Returns the index of an address, if so many words from there on are in the heap.
    #[inline]
    fn index(&mut self, at: Addr, words: usize) -> Result<u64, Stop> {
        // A foreign tag, a negative offset or an odd byte come out far above the bound.
        let index = at.byte().wrapping_sub(self.base).rotate_right(3);
        match index.saturating_add(words as u64) <= self.bound {
            true => Ok(index),
            false => Err(self.refuse(at)),
        }
    }

    /// Returns the word of an index, which is inside the heap.
    #[inline]
    fn word(&mut self, index: u64) -> Result<u64, Stop> {
        let word = match &mut self.source {
            Source::Memory(words, damaged) => {
                let word = words[index as usize].load(Ordering::Relaxed);
                damaged.check_word(index as usize).map(|()| word)
            }
            Source::Pages(pages) => pages.word(index),
            Source::Words(word) => word(index),
        };
        word.map_err(|error| {
            self.error.get_or_insert(error);
            self.end(Stop::Aborted)
        })
    }

    /// Returns the result of a body.
    pub(crate) fn conclude<R>(self, done: Result<R, Stop>) -> Result<R, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        // A stop is sticky, even if the body swallows it.
        let stop = match (self.stop, done) {
            (None, Ok(value)) => return Ok(value),
            (Some(stop), _) | (None, Err(stop)) => stop,
        };
        Err(match stop {
            Stop::BadPointer => {
                Error::BadPointer { object: self.wild.object, offset: self.wild.offset }
            }
            Stop::BadSize => Error::BadSize,
            Stop::BadValue => Error::BadValue,
            Stop::ReadOnly => Error::ReadOnly,
            stop => Error::Stopped { stop },
        })
    }
}

impl Words for ViewTx<'_> {
    #[inline]
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        let index = self.index(at, 1)?;
        self.word(index)
    }

    fn read_words(&mut self, at: Addr, out: &mut [u64]) -> Result<(), Stop> {
        let index = self.index(at, out.len())?;
        for (out, index) in out.iter_mut().zip(index..) {
            *out = self.word(index)?;
        }
        Ok(())
    }

    fn write(&mut self, _at: Addr, _value: u64) -> Result<(), Stop> {
        Err(self.end(Stop::ReadOnly))
    }

    fn retire(&mut self, _at: Addr, _bytes: u64) -> Result<(), Stop> {
        Err(self.end(Stop::ReadOnly))
    }
}

impl Allocate for ViewTx<'_> {
    fn allocate(&mut self, _bytes: usize) -> Result<u64, Stop> {
        Err(self.end(Stop::ReadOnly))
    }

    fn reserve_blocks(&mut self, _blocks: u64) -> Result<u64, Stop> {
        Err(self.end(Stop::ReadOnly))
    }

    fn prepare_blocks(&mut self, _first: u64, _most: u64) -> Result<u64, Stop> {
        Err(self.end(Stop::ReadOnly))
    }

    fn allocate_pieces(&mut self, _bytes: u64) -> Result<u64, Stop> {
        Err(self.end(Stop::ReadOnly))
    }

    fn resize(&mut self, _first: u64, _from: u64, _to: u64) -> Result<bool, Stop> {
        Err(self.end(Stop::ReadOnly))
    }

    fn root(&mut self) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.root(self)
    }

    fn set_root(&mut self, _object: u64) -> Result<(), Stop> {
        Err(self.end(Stop::ReadOnly))
    }
}
