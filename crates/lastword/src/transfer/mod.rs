//! Transfers of a pool's objects into a new pool: by an export and an import, or by a compaction.
//!
//! ```text
//!   export    pool -> objects -> stream
//!   import                       stream -> objects -> new pool
//!   compact   pool -> objects ----------------------> new pool
//! ```
//!
//! The new heap has no free memory between its objects, and need not have the layout of the old
//! one. Objects get new addresses, so pointers to them are translated. No type is known: a pointer
//! is recognized by its value (see [`stream`]).

pub(crate) mod content;
mod rebuild;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::path::Path;

use lw_alloc::{Allocation, HEAP_BYTES_MIN};
use words::TxId;

pub use self::content::Exported;
use self::rebuild::Rebuilt;
use self::stream::{Header, Reader};
use crate::design::Design;
use crate::error::{Error, TransferError};
use crate::inspect::{CopyOptions, HeapAtRest};
use crate::pool::PoolView;
use crate::registry::DesignInfo;
use crate::storage::{Demand, Storage, plan};
use crate::superblock::{Superblock, exact_name};
use crate::sync::Arc;
use crate::{Medium, Options};

/// The result of [`compact`] or [`import`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transferred {
    /// The last transaction in the new pool.
    pub last: TxId,
    /// Size of its heap in bytes.
    pub heap_bytes: u64,
    /// Number of objects, byte strings and arrays.
    pub allocations: u64,
    /// Words that were recognized as pointers, and translated.
    pub pointers: u64,
    /// Whether it has a root.
    pub has_root: bool,
    /// Whether the content is a salvage: the pool was damaged, objects may be missing, and it may
    /// not be as of one transaction.
    pub salvaged: bool,
    /// Words that look like pointers into the heap, but not to the first byte of an object, such as
    /// pointers to freed objects. They are copied unchanged.
    pub unmatched: u64,
}

impl HeapAtRest {
    /// Writes the objects, byte strings and arrays as a stream from which [`import`] makes a pool,
    /// also with a later version of Lastword. After a [salvage](HeapAtRest::salvage), without those
    /// on damaged pages: pointers to them lead to an error in the new pool.
    ///
    /// The format is in the book's page of durable formats. It has a checksum every 64 KiB and is
    /// not compressed. Each write has 64 KiB, so a `BufWriter` gains nothing.
    ///
    /// ```
    /// use lastword::{CopyOptions, HeapAtRest, Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let (path, other) = (dir.path().join("bank.pool"), dir.path().join("other.pool"));
    /// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
    /// pool.run(|tx| {
    ///     let count = tx.alloc(42_u64)?;
    ///     tx.set_root_ptr(count)
    /// })?;
    /// pool.close()?;
    ///
    /// let mut stream = Vec::new();
    /// HeapAtRest::load(&path)?.export(&mut stream)?;
    /// lastword::import(&stream[..], &other, &CopyOptions::new())?;
    /// let other = Pool::open(&other, Options::new())?;
    /// let count = other.run(|tx| {
    ///     let count = tx.root_ptr::<u64>()?;
    ///     tx.get(count)
    /// })?;
    /// assert_eq!(count.value, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Transfer`] if the stream cannot be written.
    pub fn export(&self, out: impl Write) -> Result<Exported, Error> {
        let writer = self.content().write(out, |allocation| self.holds(allocation))?;
        Ok(writer.finish()?)
    }
}

impl<D: Design> PoolView<'_, D> {
    /// Writes the view as a stream, while transactions go on; see [`HeapAtRest::export`]. Checks
    /// the heap before.
    ///
    /// # Errors
    /// [`Error::Transfer`] if the stream cannot be written. As [`check`](PoolView::check).
    pub fn export(&self, out: impl Write) -> Result<Exported, Error> {
        self.check()?;
        let writer = self.with_content(|mut content| content.write(out, |_| true))?;
        // A failed read of the view is reported only here. The last frame is written after it, so a
        // failed export stays incomplete.
        Ok(writer?.finish()?)
    }
}

/// Creates a pool at `to` from an export. By default its heap is a quarter larger than its used
/// part, and its medium is the best for its directory. It appears whole or not at all, and is
/// durable on return.
///
/// Objects get new addresses, and pointers to them are translated; see [`compact`]. The new pool
/// keeps the layout and an unfinished migration, and its transaction IDs continue. Takes as much
/// memory as the new heap, and 40 bytes for each object.
///
/// # Errors
/// [`Error::Transfer`] if the export is damaged or incomplete, or the heap too small. As
/// [`Pool::create`](crate::Pool::create) for the new pool.
pub fn import(
    input: impl Read,
    to: impl AsRef<Path>,
    form: &CopyOptions,
) -> Result<Transferred, Error> {
    let mut reader = Reader::new(input)?;
    let (count, words) = (reader.header.allocations, reader.header.words);
    let (mut allocations, mut least, mut found) = (Vec::new(), 0, 0);
    for _ in 0..count {
        let allocation = reader.allocation(least)?;
        least = allocation.offset + allocation.size.bytes_min();
        found += allocation.size.words();
        allocations.push(allocation);
    }
    if found != words {
        return Err(reader.damaged().into());
    }
    let mut rebuilt = Rebuilt::place(reader.header.clone(), allocations.into(), form.heap_bytes)?;
    let plan = Plan::new(to.as_ref(), &rebuilt, form.medium, form)?;
    rebuilt.fill(plan.first.tag(), || Ok(reader.word()?))?;
    reader.finish()?;
    plan.create(to.as_ref(), &rebuilt)
}

/// Copies the objects of a pool into a new pool at `to`, without free memory between them. By
/// default its heap is a quarter larger than its used part. The pool is only read, also while a
/// process has it open, as by [`copy`](crate::copy). Takes as much memory as both heaps, and 40
/// bytes for each object.
///
/// Objects get new addresses, and pointers to them are translated. **A pointer is recognized by its
/// value**: a word of an object or an array that is equal to a pointer to an object, a byte string
/// or an array of the pool. A byte string of up to 1 KiB counts as an object here. This has
/// consequences:
/// - A pointer in another encoding is not recognized: inside a byte string of more than 1 KiB, at
///   an unaligned place, with other bits in it, or into the middle of an object. While it has the
///   old tag, its use is [`Error::BadPointer`], because the new pool has another tag. **A stored
///   offset without a tag, or a difference of pointers, is not detected**: it may lead to another
///   object.
/// - A number that is not a pointer is translated if it is equal to one in all 64 bits. For a
///   random number the probability is n / 2^64 with n objects: about 1 in 14 000 for a gigabyte of
///   random numbers and 10 million objects. No small number is equal to a pointer, because the
///   upper 16 bits of every pointer are the pool's tag, which is random and not 0.
/// - A hash table or an ordered structure whose keys are pointers does not find them any more:
///   their places follow from the old values. Other keys, and pointers as values, are not affected.
///
/// ```
/// use lastword::{CopyOptions, Objects, Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let (path, small) = (dir.path().join("bank.pool"), dir.path().join("small.pool"));
/// let pool = Pool::create(&path, Options::new().bytes(64 << 20).log_bytes(1 << 20))?;
/// pool.run(|tx| {
///     let count = tx.alloc(42_u64)?;
///     let root = tx.alloc(count)?;
///     tx.set_root_ptr(root)
/// })?;
/// pool.close()?;
/// let moved = lastword::compact(&path, &small, &CopyOptions::new())?;
/// assert_eq!((moved.allocations, moved.pointers), (2, 2));
/// assert!(moved.heap_bytes < 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`copy`](crate::copy). [`Error::Transfer`] if the heap in `form` is too small.
pub fn compact(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    form: &CopyOptions,
) -> Result<Transferred, Error> {
    let pool = {
        let system = form.system.clone().unwrap_or_default();
        HeapAtRest::load_with(from.as_ref(), form.without_log, &system)?
    };
    let mut content = pool.content();
    let stopped = |stop| Error::Stopped { stop };
    let allocations: Arc<[Allocation]> = content.survey(|_| true).map_err(stopped)?.into();
    let mut rebuilt =
        Rebuilt::place(content.header.clone(), Arc::clone(&allocations), form.heap_bytes)?;
    let plan = Plan::new(to.as_ref(), &rebuilt, form.medium.or(pool.medium()), form)?;
    let mut words = content.words(&allocations);
    let next = || words.next().expect("as many as there are").map_err(stopped);
    rebuilt.fill(plan.first.tag(), next)?;
    plan.create(to.as_ref(), &rebuilt)
}

/// The creation of a new pool.
struct Plan {
    options: Options,
    first: Superblock,
    medium: Medium,
}

impl Plan {
    /// Plans a pool at `path` for these objects.
    fn new(
        path: &Path,
        rebuilt: &Rebuilt,
        medium: Option<Medium>,
        form: &CopyOptions,
    ) -> Result<Plan, Error> {
        let (header, needed) = (&rebuilt.header, rebuilt.needed_bytes());
        let roomy = (needed + needed / 4).max(HEAP_BYTES_MIN);
        let options = form.options(roomy, header.log_bytes, header.checksummed_bytes);
        let options = options.layout(&exact_name(&header.layout), header.layout_version);
        let medium = medium.unwrap_or_else(|| Storage::probe(&options.system, path));
        let first = plan(&options, "", medium)?;
        if first.heap_bytes < needed {
            let (heap_bytes, needed_bytes) = (first.heap_bytes, needed);
            return Err(TransferError::HeapTooSmall { heap_bytes, needed_bytes }.into());
        }
        let design = exact_name(&header.design);
        if !design.is_empty() && DesignInfo::by_name(&design).is_none() {
            return Err(Error::UnknownDesign { path: path.into(), found: design });
        }
        let Header { design, migrating, last, .. } = *header;
        let first = Superblock { design, migrating, reproduced: last, ..first };
        let first = first.with_other_tag_than(header.tag);
        Ok(Plan { options, first, medium })
    }

    /// Creates the pool. It is durable on return.
    fn create(self, path: &Path, rebuilt: &Rebuilt) -> Result<Transferred, Error> {
        let Plan { options, first, medium } = self;
        let content = rebuilt.content(first.heap_bytes);
        // The words are in memory already, and no design runs.
        let none = |_: &Options, _: Medium, _: u64| Demand { heap_bytes: 0, records: 0 };
        let (_, created) = Storage::create_with(path, &options, (first, medium), none, content)?;
        drop(created);
        Ok(Transferred {
            last: TxId(rebuilt.header.last),
            heap_bytes: first.heap_bytes,
            allocations: rebuilt.from.len() as u64,
            pointers: rebuilt.pointers,
            has_root: rebuilt.header.root != 0,
            salvaged: rebuilt.header.salvaged,
            unmatched: rebuilt.unmatched,
        })
    }
}
