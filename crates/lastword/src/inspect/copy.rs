//! The copy of a pool into a new pool, which may be larger or on another medium.

use std::path::Path;

use medium::System;
use words::TxId;

use super::check::{Examined, examine_any};
use super::{CheckOptions, Finding, Problem, Severity, word};
use crate::shadow::PAGE_BYTES;
use crate::storage::{Demand, Storage, heap, plan};
use crate::superblock::{Superblock, exact_name};
use crate::{Error, Medium, Options};

/// Options of [`copy`], [`compact`](crate::compact) and [`import`](crate::import): sizes and medium
/// of the new pool.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CopyOptions {
    pub(crate) heap_bytes: Option<u64>,
    log_bytes: Option<u64>,
    pub(crate) medium: Option<Medium>,
    page_checksums: Option<bool>,
    pub(crate) without_log: bool,
    pub(crate) system: Option<System>,
}

impl CopyOptions {
    /// Returns the defaults: `copy` keeps the pool's sizes and medium.
    pub fn new() -> CopyOptions {
        CopyOptions::default()
    }

    /// Sets the size of the heap; see [`Options::bytes`]. For `copy`: at least the pool's, which is
    /// the default. For `compact` and `import`: at least the memory that the objects need. The
    /// default is a quarter more.
    pub fn bytes(mut self, bytes: u64) -> CopyOptions {
        self.heap_bytes = Some(bytes);
        self
    }

    /// Sets the size of the log; see [`Options::log_bytes`].
    pub fn log_bytes(mut self, bytes: u64) -> CopyOptions {
        self.log_bytes = Some(bytes);
        self
    }

    /// Sets the medium of the copy. Any medium is allowed, even one on which the pool itself cannot
    /// be opened.
    pub fn medium(mut self, medium: Medium) -> CopyOptions {
        self.medium = Some(medium);
        self
    }

    /// Sets whether the copy has [page checksums](Options::page_checksums). Default: as the pool.
    pub fn page_checksums(mut self, page_checksums: bool) -> CopyOptions {
        self.page_checksums = Some(page_checksums);
        self
    }

    /// Accepts a cleanly closed pool whose log is lost; see [`Options::without_log`].
    pub fn without_log(mut self, without_log: bool) -> CopyOptions {
        self.without_log = without_log;
        self
    }

    /// Returns the options of the new pool, with these sizes by default. `checksummed_bytes` is the
    /// largest heap that the pool's checksum table covers, or 0.
    pub(crate) fn options(
        &self,
        heap_bytes: u64,
        log_bytes: u64,
        checksummed_bytes: u64,
    ) -> Options {
        let options = Options::new().system(self.system.clone().unwrap_or_default());
        let options = options.bytes(self.heap_bytes.unwrap_or(heap_bytes));
        let options = options.log_bytes(self.log_bytes.unwrap_or(log_bytes));
        let options = options.page_checksums(self.page_checksums.unwrap_or(checksummed_bytes > 0));
        // The new pool's table covers as large a heap as the pool's.
        options.max_bytes(checksummed_bytes)
    }

    /// Replaces the kernel's files, for tests.
    #[doc(hidden)]
    pub fn system(mut self, system: System) -> CopyOptions {
        self.system = Some(system);
        self
    }
}

/// Copies a pool to a new pool at `to`. The copy has the content that opening the pool would
/// recover. Returns the last transaction in the copy.
///
/// If a process has the pool open, the copy is as of a transaction that is durable in its log: the
/// last one when the heap had been read. It has all transactions that were durable at the call.
///
/// The pool is recovered in memory and never written. The copy appears whole or not at all, and is
/// durable on return. Objects keep their addresses, and transaction IDs continue. The copy has its
/// own pool ID, so opening refuses the log of the other pool. A root that leads to no object is
/// copied as it is. Takes as much memory as the heap. [`Pool::backup`](crate::Pool::backup), in the
/// process that has the pool open, does not.
///
/// ```
/// use lastword::{CopyOptions, Objects, Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let (path, larger) = (dir.path().join("bank.pool"), dir.path().join("larger.pool"));
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// let count = pool.run(|tx| tx.alloc(42_u64))?.value;
/// pool.close()?;
/// lastword::copy(&path, &larger, &CopyOptions::new().bytes(64 << 20))?;
/// let pool = Pool::open(&larger, Options::new())?;
/// assert_eq!(pool.run(|tx| tx.get(count))?.value, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`check`](crate::check) for the pool ([`Error::InUse`]), [`Error::DamagedHeap`] if its heap
/// is damaged, [`MediumError::DamagedPages`](crate::MediumError::DamagedPages) if a page is
/// ([`copy_undamaged`] may copy the rest), and as [`Pool::create`](crate::Pool::create) for the
/// copy. [`Error::BadOption`] if the copy's heap would be smaller.
pub fn copy(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    form: &CopyOptions,
) -> Result<TxId, Error> {
    copy_pages(from.as_ref(), to.as_ref(), form, false).map(|copied| copied.last)
}

/// The result of [`copy_undamaged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// The last transaction in the copy.
    pub last: TxId,
    /// Damaged pages that the copy does not have. If there are any, the disk may fail: replace it.
    pub left_out: usize,
}

/// Copies a pool as [`copy`] does, and leaves out damaged pages that have no content: neither an
/// object nor a word of the allocator. They are zeros in the copy. For a pool that is to be saved
/// from a bad disk. Do not use it for regular backups, which should fail on such a disk.
///
/// # Errors
/// As [`copy`]. [`MediumError::DamagedPages`](crate::MediumError::DamagedPages) if a damaged page
/// has content.
pub fn copy_undamaged(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    form: &CopyOptions,
) -> Result<Copied, Error> {
    copy_pages(from.as_ref(), to.as_ref(), form, true)
}

fn copy_pages(
    path: &Path,
    to: &Path,
    form: &CopyOptions,
    leaves_out: bool,
) -> Result<Copied, Error> {
    let system = form.system.clone().unwrap_or_default();
    let expected = CheckOptions::new().without_log(form.without_log);
    let expected = CheckOptions { migrates: true, ..expected };
    let examined = examine_any(path, &expected, &system)?;
    let without = leaves_out.then(|| pages_without_content(&examined)).flatten();
    let Examined { mut survey, image, replayed, .. } = examined;
    if without.is_some() {
        survey.refusal = None;
    }
    let findings = std::mem::take(&mut survey.findings);
    let found = survey.found()?;
    for finding in findings {
        if let Problem::Heap(damage) = finding.problem {
            return Err(Error::DamagedHeap { path: finding.path, damage });
        }
    }
    let superblock = *found.superblocks.current();
    let last = replayed.map_or(TxId(superblock.reproduced), |replayed| replayed.last);
    let image = image.expect("the heap of a pool that opens was read");
    let without = without.unwrap_or_default();
    // Zeros: the allocator relies on them in memory that was never used.
    let is_left_out =
        |index: u64| without.binary_search(&((8 * index / PAGE_BYTES) as usize)).is_ok();
    let words = (0..superblock.heap_bytes / 8)
        .filter(|&index| without.is_empty() || !is_left_out(index))
        .map(|index| (index, word(&image, 8 * index)));
    let medium = form.medium.unwrap_or(found.medium);
    // Everything is read: a process may open the pool while the copy is written.
    drop(found);
    let Superblock { heap_bytes, log_bytes, .. } = superblock;
    let options = form.options(heap_bytes, log_bytes, superblock.checksums_reach()).medium(medium);
    let content = words.filter(|&(_, word)| word != 0);
    create_like(&superblock, last, to, (&options, medium), content)?;
    Ok(Copied { last, left_out: without.len() })
}

/// Returns the damaged pages if nothing but them refuses the pool, and they hold no content:
/// neither an object, nor a word of the allocator. `None` if no page is damaged.
fn pages_without_content(examined: &Examined) -> Option<Vec<usize>> {
    let Examined { survey, image: Some(image), damaged, .. } = examined else { return None };
    let refusal = survey.refusal.as_ref()?;
    let is_by_pages = matches!(refusal, Error::Medium(medium::Error::DamagedPages { .. }));
    // A finding about the heap may be a consequence of the damage.
    let is_alone = survey.findings.iter().all(|finding| {
        let Finding { problem, .. } = finding;
        matches!(problem, Problem::DamagedPages { objects, .. } if objects.is_empty())
            || matches!(problem.severity(), Severity::Harmless | Severity::Spare)
    });
    if !is_by_pages || !is_alone || damaged.is_empty() {
        return None;
    }
    let unused = heap(survey.superblock.as_ref()?).unused_extents(|offset| word(image, offset))?;
    let has_no_content = |page: &usize| {
        let begin = *page as u64 * PAGE_BYTES;
        let next = unused.partition_point(|extent| extent.end < begin + PAGE_BYTES);
        unused.get(next).is_some_and(|extent| extent.start <= begin)
    };
    damaged.iter().all(has_no_content).then(|| damaged.clone())
}

/// Creates a pool with another pool's design, layout and tag, and these words.
fn create_like(
    like: &Superblock,
    last: TxId,
    to: &Path,
    (options, medium): (&Options, Medium),
    content: impl Iterator<Item = (u64, u64)>,
) -> Result<(), Error> {
    let layout = exact_name(&like.layout);
    let options = options.clone().layout(&layout, like.layout_version);
    let first = plan(&options, "", medium)?.for_copy_of(like.pool, like.generation);
    if first.heap_bytes < like.heap_bytes {
        let (option, value) = ("bytes", first.heap_bytes);
        let must = "a copy's heap must be at least as large as the pool's";
        return Err(Error::BadOption { option, value, must });
    }
    let Superblock { design, migrating, .. } = *like;
    let first = Superblock { design, migrating, reproduced: last.0, ..first };
    // The words are in memory already, and no design starts.
    let none = |_: &Options, _: Medium, _: u64| Demand { heap_bytes: 0, records: 0 };
    let (_, created) = Storage::create_with(to, &options, (first, medium), none, content)?;
    drop(created);
    Ok(())
}
