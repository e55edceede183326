//! The content of a closed pool, for tools.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use collections::encoded::{Decoded, EncodedCollection};
use lw_alloc::{Allocation, Live};
use medium::System;
use words::Stop;

use super::catalog::{self, CollectionInfo};
use super::{CheckOptions, Checked, Contents, Report, look, word};
use crate::shadow::PAGE_BYTES;
use crate::sync::Ordering;
use crate::transfer::content::Content;
use crate::transfer::stream::Header;
use crate::{Error, Medium, ViewTx};

/// The content of a pool in memory, as opening it would show, for tools that read objects.
/// [`load`](HeapAtRest::load) accepts only a sound heap; [`salvage`](HeapAtRest::salvage) also
/// accepts a damaged one.
///
/// ```
/// use lastword::{Objects, Options, Pool, HeapAtRest};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// let object = pool.run(|tx| tx.alloc([42_u64, 7]))?.value;
/// pool.close()?;
///
/// let heap = HeapAtRest::load(&path)?;
/// let found = heap.objects().next().expect("one object is live");
/// assert_eq!((found.object, found.bytes), (object.to_bits(), 16));
/// assert!(heap.words(&found).eq([42, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HeapAtRest {
    /// `None` after a salvage.
    checked: Option<Checked>,
    contents: Contents,
}

impl HeapAtRest {
    /// Loads the content of a pool, and checks it as [`check`](crate::check) does, except for the
    /// collections with names. Works also while a process has it open. Never writes. Takes as much
    /// memory as the heap. A pool that was closed cleanly needs no log: its heap is whole. A log of
    /// a later opening of the same pool is refused, because the pool's file is then an older copy.
    ///
    /// # Errors
    /// As [`check`](crate::check) and [`Report::sound`].
    pub fn load(path: impl AsRef<Path>) -> Result<HeapAtRest, Error> {
        let (path, system) = (path.as_ref(), System::kernel());
        match HeapAtRest::load_with(path, false, &system) {
            Err(Error::LogMissing { needed_after: None, .. }) => {
                HeapAtRest::load_with(path, true, &system)
            }
            Err(Error::WrongLog { needed_after: None, why, .. }) if !why.is_later() => {
                HeapAtRest::load_with(path, true, &system)
            }
            loaded => loaded,
        }
    }

    /// Loads the content. Without its log a cleanly closed pool is accepted only on request.
    pub(crate) fn load_with(
        path: &Path,
        without_log: bool,
        system: &System,
    ) -> Result<HeapAtRest, Error> {
        let expected = CheckOptions { migrates: true, ..CheckOptions::new() };
        let (report, contents) = look(path, &expected.without_log(without_log), system)?;
        let checked = report.sound()?;
        let contents = contents.expect("a pool that opens has a heap");
        Ok(HeapAtRest { checked: Some(checked), contents })
    }

    /// Loads what is left of a damaged pool, with the report of its check. Never writes. Objects
    /// behind a damaged head of a run may be missing. [`is_whole`](HeapAtRest::is_whole) returns
    /// whether an object lies on damaged pages.
    ///
    /// If the log cannot be used (missing, cut, of another pool, with a damaged head), the heap
    /// image is read as it is. If a record or group is damaged, `decoupled` replays the groups
    /// before it, `redo` and `snapshot` replay none, and `undo` rolls back the transactions of the
    /// slots before it. In all these cases **the content may not be as of one transaction**: some
    /// words may be older than others, and those of `undo` may be of a transaction that was never
    /// committed. The report has the damage of the log.
    ///
    /// # Errors
    /// As [`check`](crate::check); the error of opening the pool if its superblocks are damaged or
    /// its file is cut.
    pub fn salvage(path: impl AsRef<Path>) -> Result<(HeapAtRest, Report), Error> {
        let expected = CheckOptions { migrates: true, salvages: true, ..CheckOptions::new() };
        let (report, contents) = look(path.as_ref(), &expected, &System::kernel())?;
        match (contents, report.refusal) {
            (Some(contents), refusal) => {
                let report = Report { refusal, ..report };
                Ok((HeapAtRest { checked: None, contents }, report))
            }
            (None, Some(refusal)) => Err(refusal),
            (None, None) => unreachable!("a pool that opens has a heap"),
        }
    }

    /// Returns the result of the check; `None` after a salvage.
    pub fn checked(&self) -> Option<&Checked> {
        self.checked.as_ref()
    }

    /// Returns whether every page of an object matches its checksum or has none.
    pub fn is_whole(&self, object: &Live) -> bool {
        self.are_whole(object.extent())
    }

    /// Returns whether the page of the root and of the migration progress is intact.
    fn has_whole_root(&self) -> bool {
        self.are_whole(0..PAGE_BYTES)
    }

    /// Returns whether every page of this part of the heap matches its checksum or has none.
    fn are_whole(&self, extent: Range<u64>) -> bool {
        let damaged = self.contents.damaged.pages();
        let first = extent.start / PAGE_BYTES;
        let next = damaged.partition_point(|page| (*page as u64) < first);
        damaged.get(next).is_none_or(|page| *page as u64 * PAGE_BYTES >= extent.end)
    }

    /// Returns the program's root as it was set; 0 without one, and in a salvage if the root's page
    /// is damaged.
    pub fn root(&self) -> u64 {
        if !self.has_whole_root() {
            return 0;
        }
        self.contents.heap.root_at_rest(|offset| word(&self.contents.image, offset))
    }

    /// Returns every live object and every prepared block of an array, in address order.
    pub fn objects(&self) -> impl Iterator<Item = Live> + '_ {
        self.contents.heap.live(|offset| word(&self.contents.image, offset))
    }

    /// Returns the words of an object; those inside the heap, if it is damaged.
    ///
    /// # Panics
    /// If the object belongs to another snapshot and lies outside this heap.
    pub fn words(&self, object: &Live) -> impl Iterator<Item = u64> + '_ {
        let first = object.offset as usize / 8;
        let words = object.bytes.div_ceil(8) as usize;
        let all = self.contents.image.heap();
        let end = all.len().min(first + words);
        all[first..end].iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Returns the collections with names, in order of their names. `None` if the pool has no
    /// catalog.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use lastword::{HeapAtRest, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("shop.pool");
    /// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
    /// let stock = pool.hash_map::<(u8, String), u64>("stock")?;
    /// pool.run(|tx| stock.insert(tx, (7, "apple"), 100))?;
    /// pool.close()?;
    ///
    /// let heap = HeapAtRest::load(&path)?;
    /// let stock = &heap.collections()?.expect("the pool has a catalog")[0];
    /// stock.for_each(|key, value| {
    ///     assert_eq!(key.unwrap().to_string(), "(7, \"apple\")");
    ///     assert_eq!(value.unwrap().to_string(), "100");
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadPointer`], [`Error::BadValue`] and [`Error::Stopped`] if the catalog is damaged;
    /// as [`read`](HeapAtRest::read).
    pub fn collections(&self) -> Result<Option<Vec<CollectionAtRest<'_>>>, Error> {
        let contents = &self.contents;
        let Some(opened) = catalog::open(&mut &*contents)? else { return Ok(None) };
        let at_rest = |(info, collection)| CollectionAtRest { contents, info, collection };
        Ok(Some(opened.into_iter().map(at_rest).collect()))
    }

    /// Reads from the content. The body runs once.
    ///
    /// # Errors
    /// The body's, as [`Worker::read`](crate::Worker::read). After a salvage
    /// [`MediumError::DamagedPages`](crate::MediumError::DamagedPages) if the body reads a damaged
    /// page.
    pub fn read<R>(
        &self,
        body: impl FnOnce(&mut ViewTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        self.contents.read(body)
    }

    /// Returns the content, to compact or export it.
    pub(crate) fn content(&self) -> Content<impl Fn(u64) -> Result<u64, Stop> + '_> {
        let Contents { heap, superblock, last, image, .. } = &self.contents;
        let word = |offset| {
            let words = image.heap();
            words.get(offset as usize / 8).map_or(Ok(0), |word| Ok(word.load(Ordering::Relaxed)))
        };
        let salvaged = self.checked.is_none();
        let header = Header { salvaged, ..Header::of(superblock, *last) };
        Content { header, heap: *heap, word, has_root: self.has_whole_root() }
    }

    /// Returns the medium of the pool.
    pub(crate) fn medium(&self) -> Option<Medium> {
        self.contents.medium
    }

    /// Returns whether an allocation lies inside the heap and on no damaged page.
    pub(crate) fn holds(&self, allocation: &Allocation) -> bool {
        let extent = allocation.extent();
        extent.end <= self.contents.superblock.heap_bytes && self.are_whole(extent)
    }
}

/// A collection with a name, in a pool at rest.
#[derive(Debug)]
pub struct CollectionAtRest<'h> {
    contents: &'h Contents,
    info: CollectionInfo,
    /// `None` if the record is damaged or the types are unknown.
    collection: Option<EncodedCollection>,
}

impl CollectionAtRest<'_> {
    /// Returns the description. Its damage is that of the record and of the length alone.
    pub fn info(&self) -> &CollectionInfo {
        &self.info
    }

    /// Calls `each` with the key and the value of each entry, until it breaks: those that the kind
    /// of the collection has. A counter has no entries, and neither has a collection of unknown
    /// types.
    ///
    /// # Errors
    /// Damage of the collection, after the entries before it: [`Error::BadValue`],
    /// [`Error::BadPointer`], [`Error::Stopped`]; after a salvage
    /// [`MediumError::DamagedPages`](crate::MediumError::DamagedPages).
    pub fn for_each(
        &self,
        mut each: impl FnMut(Option<Decoded<'_>>, Option<Decoded<'_>>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let Some(collection) = &self.collection else { return Ok(()) };
        let mut entries = collection.entries();
        self.contents.read(|tx| {
            while entries.next(tx)? {
                let key = entries.key().map(|key| collection.decode_key(key));
                let value = entries.value().map(|value| collection.decode_value(value));
                if each(key, value).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}
