//! Describes and checks a pool without changing it.
//!
//! Several checks may run at the same time. Opening a pool fails during a check of it. A pool that
//! needs recovery is replayed in memory, so a check sees the content that opening the pool would
//! show. A pool that a process has open is read [beside it](crate::in_use).

mod catalog;
mod check;
mod check_options;
mod convert;
mod copy;
mod finding;
mod heads;
mod heap_at_rest;
mod repair;
mod replayed;
mod scrub;

use std::collections::BTreeMap;
use std::path::Path;

use lw_alloc::Usage;
use medium::writes::{Piece, Pieces};
use medium::{Counts, FileLog, HeapMedium, PoolFile, System};
use words::{ADDRESS_BITS, Stop, TxId};

pub use catalog::CollectionInfo;
pub use check_options::CheckOptions;
pub use convert::convert;
pub use copy::{Copied, CopyOptions, copy, copy_undamaged};
pub use finding::{CollectionDamage, Finding, Problem, Severity};
pub use heap_at_rest::{CollectionAtRest, HeapAtRest};
pub use repair::{Repair, repair, repair_with};
pub use scrub::{Scrub, scrub};

use self::heads::{HeadReader, Heads};
use self::replayed::ReplayedWords;
use crate::in_use::{self, Interrupted, Tail};
use crate::recover::decide::Action;
use crate::shadow::ShadowHeap;
use crate::storage::{Damaged, Found, Survey, heap};
use crate::superblock::{FORMAT_VERSION, Superblock};
use crate::sync::{Arc, Ordering};
use crate::{Error, Info, Medium, ViewTx};

/// Walks of the heads of a pool in use until the owner has changed too many of them.
const WALKS: usize = 100;

/// Describes a pool. Reads its superblocks, a block of its log (to find out whether direct reads
/// work), and after an unclean shutdown the log that opening would replay. If a process has the
/// pool open ([`Info::in_use`]), the log is not read.
///
/// # Errors
/// The error of opening a pool of any layout; see [`Pool::open`](crate::Pool::open).
pub fn inspect(path: impl AsRef<Path>) -> Result<Info, Error> {
    inspect_with(path, &CheckOptions::new())
}

/// Describes a pool against expectations; see [`inspect`].
///
/// # Errors
/// The error of opening the pool with these expectations.
pub fn inspect_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Info, Error> {
    let path = path.as_ref();
    let closed = || {
        let survey = survey(path, expected)?;
        if survey.refusal.is_none() {
            check::check_groups(&survey)?;
        }
        Ok(info(&survey.found()?, false))
    };
    in_use::read(path, closed, || {
        Ok(info(&Survey::beside(path, expected, &System::kernel())?.found()?, true))
    })
}

/// Returns the live and free memory of a pool's heap, as opening it would show, in total and for
/// each size class. Never writes. Reads a page for each slab, array and long string, and after an
/// unclean shutdown the log.
///
/// Objects are not read: [`Usage::object_bytes`] is 0, and damage to them is not found
/// ([`check`](crate::check)). [`Usage::unknown_bytes`] is not 0 if heads are damaged. If a process
/// has the pool open, the use is that of one transaction, the last in its log or an earlier one.
///
/// ```
/// use lastword::{Objects, Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// pool.run(|tx| tx.alloc([42_u64, 7]))?;
/// pool.close()?;
/// let usage = lastword::heap_usage(&path)?;
/// assert_eq!((usage.objects, usage.live_bytes()), (1, 32)); // with a header of 16 bytes
/// assert!(usage.fragmentation() < 0.1 && usage.largest_free_bytes > 900 << 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`inspect`](crate::inspect), and [`Error::InUse`].
pub fn heap_usage(path: impl AsRef<Path>) -> Result<Usage, Error> {
    heap_usage_with(path, &CheckOptions::new())
}

/// Returns the use of a pool's heap against expectations; see [`heap_usage`].
///
/// # Errors
/// As [`inspect_with`](crate::inspect_with).
pub fn heap_usage_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Usage, Error> {
    let path = path.as_ref();
    let beside = || usage_beside(path, expected);
    in_use::read(path, || usage_at_rest(path, expected), beside)
}

fn usage_at_rest(path: &Path, expected: &CheckOptions) -> Result<Usage, Error> {
    let survey = survey(path, expected)?;
    let mut heads = Heads::default();
    if survey.refusal.is_none() {
        check::replay_into(&survey, &mut heads)?;
    }
    let found = survey.found()?;
    let superblock = *found.superblocks.current();
    let mut image = HeadReader::new(&found.file, superblock.heap_offset);
    let word = |offset| heads.get(offset).unwrap_or_else(|| image.word(offset));
    let usage = heap(&superblock).usage_now(word);
    image.error.map_or(Ok(usage), |error| Err(error.into()))
}

/// Returns the use of the heap of a pool in use.
///
/// The heads that a walk reads may be of different transactions. So the heads are walked again with
/// the log up to the end, until a walk reads no further word of the file.
fn usage_beside(path: &Path, expected: &CheckOptions) -> Result<Usage, Interrupted> {
    let survey = Survey::beside(path, expected, &System::kernel())?;
    let source = survey.source()?;
    survey.found()?;
    let source = source.ok_or(Interrupted::Changed)?;
    let (heap, mut heads) = (heap(&source.superblock), Heads::default());
    let mut image = HeadReader::new(&source.file, source.superblock.heap_offset);
    let (mut read, mut tail) = (BTreeMap::new(), Tail::new(&source));
    for _ in 0..WALKS {
        source.forget_pages();
        tail.read_on(&mut heads)?;
        let before = read.len();
        let usage = heap.usage_now(|offset| {
            let replayed = heads.get(offset);
            replayed.unwrap_or_else(|| *read.entry(offset).or_insert_with(|| image.word(offset)))
        });
        if let Some(error) = image.error.take() {
            return Err(error.into());
        }
        if read.len() == before {
            return Ok(usage);
        }
    }
    Err(Interrupted::Changed)
}

/// Returns the collections with names of a closed pool, in order of their names, as opening the
/// pool would show them. `None` if the pool has no catalog: it has no root, or its root is an
/// object of the program. Never writes. Reads the catalog, some words of each collection, and after
/// an unclean shutdown the log.
///
/// ```
/// use lastword::{Options, Pool};
/// use lastword::collections::encoded::Size;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// let stock = pool.hash_map::<str, u64>("stock")?;
/// pool.run(|tx| stock.insert(tx, "apple", 100))?;
/// pool.close()?;
/// let found = lastword::list_collections(&path)?.expect("the pool has a catalog");
/// assert_eq!((&*found[0].name, found[0].key.as_deref()), ("stock", Some("str")));
/// assert_eq!(found[0].size, Some(Size::Entries(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`inspect`](crate::inspect). [`MediumError::InUse`](crate::MediumError::InUse) if a process
/// has the pool open: [`check`](crate::check) lists its collections. [`Error::BadPointer`],
/// [`Error::BadValue`] and [`Error::Stopped`] if the catalog is damaged.
pub fn list_collections(path: impl AsRef<Path>) -> Result<Option<Vec<CollectionInfo>>, Error> {
    list_collections_with(path, &CheckOptions::new())
}

/// Returns the collections of a pool against expectations; see [`list_collections`].
///
/// # Errors
/// As [`list_collections`] and [`inspect_with`](crate::inspect_with).
pub fn list_collections_with(
    path: impl AsRef<Path>,
    expected: &CheckOptions,
) -> Result<Option<Vec<CollectionInfo>>, Error> {
    let survey = survey(path.as_ref(), expected)?;
    let mut replayed = ReplayedWords::default();
    if survey.refusal.is_none() {
        check::replay_into(&survey, &mut replayed)?;
    }
    let found = survey.found()?;
    let superblock = *found.superblocks.current();
    let mut image = HeadReader::new(&found.file, superblock.heap_offset);
    let word = |index: u64| {
        let word = replayed.get(index).unwrap_or_else(|| image.word(8 * index));
        image.error.take().map_or(Ok(word), |error| Err(error.into()))
    };
    let base = u64::from(superblock.tag()) << ADDRESS_BITS;
    catalog::list(&mut Closed { word, heap: heap(&superblock), base })
}

/// The heap of a closed pool in its file.
struct Closed<F> {
    /// Returns the word of an index.
    word: F,
    heap: lw_alloc::Heap,
    base: u64,
}

impl<F: FnMut(u64) -> Result<u64, Error>> catalog::Heap for Closed<F> {
    type Tx<'t> = ViewTx<'t>;

    fn read<R>(
        &mut self,
        body: impl FnOnce(&mut ViewTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        let mut tx = ViewTx::of_words(&mut self.word, self.heap, self.base);
        let done = body(&mut tx);
        tx.conclude(done)
    }
}

/// Surveys the files under shared locks: other checks may run, and no process opens the pool.
fn survey(path: &Path, expected: &CheckOptions) -> Result<Survey, Error> {
    Survey::of(path, expected, |path| PoolFile::open_shared(path))
}

pub(crate) fn info(found: &Found, in_use: bool) -> Info {
    let (superblock, medium) = (found.superblocks.current(), found.medium);
    // A lost log cannot be described.
    let is_there = medium == Medium::File && found.action != Action::Renew;
    let written = is_there.then(|| {
        let place = Arc::clone(found.log_place());
        FileLog::new(place, superblock.log_offset, superblock.log_bytes).ok()
    });
    let log = written.flatten().map(|log| (&**found.log_place(), log.path()));
    let owner = if in_use { found.file.owner() } else { None };
    Info { in_use, owner, ..Info::of(&found.file, superblock, medium, log) }
}

/// The content of a pool, as opening it would show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The pool's description, as stored.
    pub info: Info,
    /// Whether the pool was not closed, so that opening it recovers. Also true while it is open.
    pub needs_recovery: bool,
    /// Number of transactions that recovery will replay from the log.
    pub transactions_to_replay: u64,
    /// The last transaction after recovery: the content is as of this transaction.
    pub durable_id: TxId,
    /// Whether the log ends in a torn write, which is no damage.
    pub torn_end: bool,
    /// The content of the heap.
    pub usage: Usage,
    /// The collections with names; `None` if the pool has no catalog, or a damaged one.
    pub collections: Option<Vec<CollectionInfo>>,
}

/// The result of a check.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "the report holds the damage found"]
pub struct Report {
    /// All findings, harmless ones included.
    pub findings: Vec<Finding>,
    /// The pool's description; `None` if the pool does not open.
    pub info: Option<Info>,
    /// The content of the pool; `None` if it does not open. With a damaged heap, `usage` covers the
    /// part that was checked.
    pub checked: Option<Checked>,
    /// The error of opening the pool; `None` if it opens.
    pub refusal: Option<Error>,
    /// Name and version of the pool's layout; `None` if no superblock is valid.
    pub layout: Option<(String, u64)>,
}

impl Report {
    /// Returns the severity of the worst finding.
    pub fn severity(&self) -> Severity {
        let all = self.findings.iter().map(Finding::severity);
        all.max().unwrap_or(Severity::Harmless)
    }

    /// Whether the pool is free of damage, in both copies.
    pub fn is_sound(&self) -> bool {
        self.severity() <= Severity::Harmless
    }

    /// Whether the pool opens. It may still be damaged.
    pub fn opens(&self) -> bool {
        self.refusal.is_none()
    }

    /// Returns the content of the pool, if it opens and its heap is sound.
    ///
    /// # Errors
    /// The error of opening the pool, or the first damage of its heap.
    pub fn sound(self) -> Result<Checked, Error> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        for finding in self.findings {
            if let Problem::Heap(damage) = finding.problem {
                return Err(Error::DamagedHeap { path: finding.path, damage });
            }
        }
        Ok(self.checked.expect("a pool that opens was checked"))
    }
}

/// Checks a pool: its superblocks, its log, the coverage of the heap by live and free objects, the
/// root, and the collections with names. Reports all damage that it finds, each with its effect and
/// a remedy. Never writes. Takes as much memory as the heap.
///
/// If a process has the pool open ([`Info::in_use`]), the check is of the state after one
/// transaction, [`Checked::durable_id`]: the last one in the log when the heap was read. It has all
/// transactions that were durable at the call. The process is not affected.
///
/// Also verifies the [page checksums](crate::Options::page_checksums) of a closed pool.
///
/// Some damage is **not detected**:
/// - a changed value in a program's object on a page without a checksum, or beside a process that
///   has the pool open;
/// - a change in the last groups of a log that waits for recovery, as many as were in flight: it
///   looks like a torn write.
///
/// ```
/// use lastword::{Options, Pool, Problem};
/// use std::os::unix::fs::FileExt;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?.close()?;
/// assert!(lastword::check(&path)?.is_sound());
///
/// let file = std::fs::File::options().write(true).open(&path)?;
/// file.write_all_at(b"oops", 100)?; // in the first superblock
/// file.write_all_at(b"oops", (2 << 20) + 16)?; // in the heap
/// let report = lastword::check(&path)?;
/// assert!(!report.opens() && !report.is_sound());
/// assert_eq!(report.findings[0].problem, Problem::Superblock { copy: 0 });
/// assert!(matches!(report.findings[1].problem, Problem::DamagedPages { pages: 1, .. }));
/// assert!(matches!(report.findings[2].problem, Problem::Heap(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The pool cannot be checked: it does not exist, or cannot be read. [`Error::InUse`]: it cannot be
/// read while a process has it open. Damage is reported, not returned as an error.
pub fn check(path: impl AsRef<Path>) -> Result<Report, Error> {
    check_with(path, &CheckOptions::new())
}

/// Checks a pool against expectations; see [`check`]. With the expectations of [`Options`]
/// (`CheckOptions::from`) the report shows whether [`Pool::open`](crate::Pool::open) succeeds, and
/// if not, its error.
///
/// # Errors
/// As [`check`].
///
/// [`Options`]: crate::Options
pub fn check_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Report, Error> {
    let (mut report, contents) = look(path.as_ref(), expected, &System::kernel())?;
    if let Some(contents) = contents {
        contents.check_collections(&mut report)?;
    }
    Ok(report)
}

/// The heap of a pool in memory.
#[derive(Debug)]
struct Contents {
    image: ShadowHeap,
    heap: lw_alloc::Heap,
    superblock: Superblock,
    /// The last transaction in it.
    last: TxId,
    /// The medium, if this program knows it.
    medium: Option<Medium>,
    damaged: Damaged,
}

impl catalog::Heap for &Contents {
    type Tx<'t> = ViewTx<'t>;

    fn read<R>(
        &mut self,
        body: impl FnOnce(&mut ViewTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        Contents::read(self, body)
    }
}

impl Contents {
    /// Reads from the heap image. A read of a damaged page is an error.
    fn read<R>(&self, body: impl FnOnce(&mut ViewTx<'_>) -> Result<R, Stop>) -> Result<R, Error> {
        let base = u64::from(self.superblock.tag()) << ADDRESS_BITS;
        let mut tx = ViewTx::of_memory(self.image.heap(), &self.damaged, self.heap, base);
        let done = body(&mut tx);
        tx.conclude(done)
    }

    /// Checks the collections with names, and adds the findings to a report.
    fn check_collections(&self, report: &mut Report) -> Result<(), Error> {
        let Superblock { version, heap_offset, heap_bytes, .. } = self.superblock;
        // Pointers are followed from a root that leads to an object, in the current format.
        let is_root = |finding: &Finding| matches!(finding.problem, Problem::Root { .. });
        if version != FORMAT_VERSION || report.findings.iter().any(is_root) {
            return Ok(());
        }
        let catalog::Collections { problems, infos } = catalog::check(&mut &*self)?;
        for (header, problem) in problems {
            let offset = header.map(|header| header & ((1 << ADDRESS_BITS) - 1));
            let offset = offset.filter(|offset| *offset < heap_bytes);
            let (path, at) =
                (self.damaged.path().into(), offset.map(|offset| heap_offset + offset));
            report.findings.push(Finding { path, at, problem });
        }
        if let Some(checked) = &mut report.checked {
            checked.collections = infos;
        }
        Ok(())
    }
}

/// Returns the report, and the heap if it could be recovered in memory, damaged or not.
fn look(
    path: &Path,
    expected: &CheckOptions,
    system: &System,
) -> Result<(Report, Option<Contents>), Error> {
    let examined = check::examine_any(path, expected, system)?;
    let check::Examined { mut survey, image, replayed, usage, in_use, damaged } = examined;
    let findings = std::mem::take(&mut survey.findings);
    let layout = survey.layout_found();
    let medium = survey.medium;
    let contents = image.zip(survey.superblock).map(|(image, superblock)| {
        let last = replayed.map_or(TxId(superblock.reproduced), |replayed| replayed.last);
        let damaged = Damaged::new(&survey.file, &superblock, damaged);
        Contents { image, heap: heap(&superblock), superblock, last, medium, damaged }
    });
    // The survey holds the refusal. One from the log's groups was added after it.
    let found = match survey.found() {
        Ok(found) => found,
        Err(refusal) => {
            let refusal = Some(refusal);
            return Ok((Report { findings, info: None, checked: None, refusal, layout }, contents));
        }
    };
    let (info, superblock) = (info(&found, in_use), *found.superblocks.current());
    let checked = Checked {
        info: info.clone(),
        needs_recovery: found.action == Action::Replay,
        transactions_to_replay: replayed.map_or(0, |replayed| replayed.transactions),
        durable_id: replayed.map_or(TxId(superblock.reproduced), |replayed| replayed.last),
        torn_end: replayed.is_some_and(|replayed| replayed.torn),
        usage,
        collections: None,
    };
    let report =
        Report { findings, info: Some(info), checked: Some(checked), refusal: None, layout };
    Ok((report, contents))
}

/// Returns the word at an offset in bytes.
fn word(image: &ShadowHeap, offset: u64) -> u64 {
    image.heap()[offset as usize / 8].load(Ordering::Relaxed)
}

/// A heap image in memory.
pub(crate) struct Image<'a>(pub(crate) &'a ShadowHeap);

impl HeapMedium for Image<'_> {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        for piece in Pieces::new(writes) {
            if let Piece::Run(index, words) = piece {
                // The scan checked that every run is inside the heap.
                for (word, value) in self.0.heap()[index as usize..].iter().zip(words) {
                    word.store(*value, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), medium::Error> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
