//! Reads a pool without opening it for transactions.

use std::path::Path;

use collections::catalog::{self, Types};
use collections::encoded::{EncodedMap, EncodedTypes};
use lw_alloc::Usage;
use medium::PoolFile;
use words::{ADDRESS_BITS, Stop, TxId};

use crate::error::NamedError;
use crate::in_use::{self, Interrupted};
use crate::inspect::{self, CheckOptions, Image};
use crate::recover::decide::Action;
use crate::shadow::ShadowHeap;
use crate::storage::{Damaged, Storage, Survey, heap, page_checksums, replay};
use crate::superblock::Superblock;
use crate::sync::Ordering;
use crate::{Error, Info, Options, ViewTx};

/// A pool that is only read, as of one transaction.
///
/// Any number of processes and threads may read a pool at the same time. Reading creates and
/// changes no file, so it also works on a read-only file system. The shown
/// transaction depends on the state of the pool when the reader is opened:
///
/// | the pool is | the reader shows | memory | opening the pool meanwhile |
/// |---|---|---|---|
/// | closed | its content | the page cache | fails: the reader has a shared lock |
/// | closed by a crash | the content that recovery would find | replayed pages | the same |
/// | open in a process | the last transaction in the log when the heap was read | the heap | - |
///
/// The last row is a snapshot: the reader never shows later transactions. The process that has the
/// pool open is not affected, and the pool has all transactions that were durable at the call.
///
/// The last transactions of a crashed process may be readable and not yet durable. They were not
/// acknowledged, and a power failure may still lose them; see [`Pool::open`](crate::Pool::open).
///
/// A closed pool is mapped. If the disk cannot read a page, or another program cuts the file, the
/// kernel ends the process (`SIGBUS`). [`check`](crate::check) reads every page and reports an
/// error.
///
/// ```
/// use lastword::{Objects, Options, Pool, PoolReader};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
/// let pool = Pool::create(&path, options.clone())?;
/// let done = pool.run(|tx| {
///     let count = tx.alloc(42_u64)?;
///     tx.set_root_ptr(count)
/// })?;
/// done.ticket.wait()?;
///
/// let reader = PoolReader::open(&path, options)?; // another process could do this, too
/// let count = reader.read(|tx| {
///     let count = tx.root_ptr::<u64>()?;
///     tx.get(count)
/// })?;
/// assert_eq!(count, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PoolReader {
    image: ShadowHeap,
    superblock: Superblock,
    info: Info,
    id: TxId,
    damaged: Damaged,
}

impl PoolReader {
    /// Opens a pool for reading. Of the options, those of the layout, the medium and
    /// [`without_log`](Options::without_log) count, as for [`Pool::open`](crate::Pool::open). A
    /// migration is not run.
    ///
    /// # Errors
    /// As [`Pool::open`](crate::Pool::open). [`Error::InUse`] if a process has the pool open, and
    /// its design cannot be read meanwhile, or its log is reused faster than it is read.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<PoolReader, Error> {
        PoolReader::open_with(path, options, || ())
    }

    /// Opens a pool, and calls `between` whenever a slice of the heap of a pool in use was read.
    /// For tests.
    ///
    /// # Errors
    /// As [`open`](PoolReader::open).
    #[doc(hidden)]
    pub fn open_with(
        path: impl AsRef<Path>,
        options: Options,
        mut between: impl FnMut(),
    ) -> Result<PoolReader, Error> {
        options.layout_padded()?;
        let (path, system) = (path.as_ref(), &options.system);
        let expected = CheckOptions::from(&options);
        let closed = || {
            let open = |path: &Path| PoolFile::open_shared_on(system, path);
            PoolReader::closed(Survey::of(path, &expected, open)?, &options)
        };
        in_use::read(path, closed, || {
            let survey = Survey::beside(path, &expected, system)?;
            let source = survey.source()?;
            let found = survey.found()?;
            let source = source.ok_or(Interrupted::Changed)?;
            let (image, replayed) = source.load(&mut between)?;
            let superblock = source.superblock;
            let info = inspect::info(&found, true);
            let image = ShadowHeap::of(image);
            let (id, damaged) = (replayed.last, Damaged::default());
            Ok(PoolReader { image, superblock, info, id, damaged })
        })
    }

    fn closed(survey: Survey, options: &Options) -> Result<PoolReader, Error> {
        let found = survey.found()?;
        let superblock = *found.superblocks.current();
        let mut damaged = Damaged::default();
        let compares =
            options.page_checksums.verifies != Some(false) || options.page_checksums.salvages;
        if let Some(sums) = page_checksums(&found.file, &superblock)? {
            damaged = match compares {
                true => found.damaged_pages(&sums)?,
                false => found.damaged(&sums, None, None)?,
            };
        }
        if !options.page_checksums.salvages {
            damaged.check()?;
        }
        let Superblock { heap_offset, heap_bytes, .. } = superblock;
        // The mapping keeps the file, and with it the lock.
        let image = ShadowHeap::copy_on_write(&found.file, heap_offset, heap_bytes, heap_bytes)?;
        let mut id = TxId(superblock.reproduced);
        if found.action == Action::Replay {
            let place = found.log_place();
            let log = Storage::log_reader(place, &superblock, found.medium)?;
            id = replay(&superblock, &log, &mut Image(&image), place.path())?.last;
        }
        let info = inspect::info(&found, false);
        Ok(PoolReader { image, superblock, info, id, damaged })
    }

    /// Returns the last transaction that the reader shows.
    pub fn id(&self) -> TxId {
        self.id
    }

    /// Returns the pool's description, as of the opening of the reader.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Reads from the pool. The body runs once and may take any time.
    ///
    /// # Errors
    /// The body's, as [`Worker::read`](crate::Worker::read). With [`Options::salvage`],
    /// [`MediumError::DamagedPages`](crate::MediumError::DamagedPages) if the body reads a damaged
    /// page.
    pub fn read<R>(
        &self,
        body: impl FnOnce(&mut ViewTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        let base = u64::from(self.superblock.tag()) << ADDRESS_BITS;
        let (words, heap) = (self.image.heap(), heap(&self.superblock));
        let mut tx = ViewTx::of_memory(words, &self.damaged, heap, base);
        let done = body(&mut tx);
        tx.conclude(done)
    }

    /// Opens the map of this name, if there is one, for types that are known at run time; see
    /// [`collections::encoded`]. A map of types that are known at compile time is found by
    /// [`catalog::find`] in [`read`](PoolReader::read).
    ///
    /// # Errors
    /// [`Error::Named`], and as [`read`](PoolReader::read).
    pub fn encoded_map(
        &self,
        name: &str,
        types: &EncodedTypes,
    ) -> Result<Option<EncodedMap>, Error> {
        let Some(opened) = self.read(|tx| catalog::find_encoded(tx, name, types))? else {
            return Ok(None);
        };
        let wanted = || Types::from(types).to_string();
        Ok(Some(NamedError::of(opened, &self.info.path, name, wanted)?))
    }

    /// Checks that live and free objects cover the whole heap, as [`check`](crate::check) does, and
    /// counts them.
    ///
    /// # Errors
    /// [`Error::DamagedHeap`].
    pub fn check(&self) -> Result<Usage, Error> {
        let words = self.image.heap();
        let word = |offset: u64| words[offset as usize / 8].load(Ordering::Relaxed);
        let checked = heap(&self.superblock).check(word);
        checked.map_err(|damage| Error::DamagedHeap { path: self.info.path.clone(), damage })
    }
}

impl std::fmt::Debug for PoolReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolReader").field("id", &self.id).finish_non_exhaustive()
    }
}
