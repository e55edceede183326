//! Shadow memory: the DRAM that transactions work on.
//!
//! A shadow is a copy of the heap image plus all committed writes that are not yet reproduced.
//! Transactions run at DRAM speed, and their writes reach the heap image only through the log.
//!
//! | [`ShadowMemory`] | opening | a page that is only read | a page that is written | memory |
//! |---|---|---|---|---|
//! | [`ShadowHeap`], `Full` | reads the heap | memory | memory | the heap |
//! | [`ShadowHeap`], `CopyOnWrite` | maps it | the page cache | copied by the 1st write | copies |
//! | [`Evicting`] | maps it | the page cache | copied, dropped when reproduced | a bound |
//! | [`Software`] | reads nothing | paged in, looked up | paged in, pinned | a bound |
//!
//! The last two are for pools that are larger than their memory, and follow the same rule. The
//! *last-writer ID* of a page is the ID of the last transaction that has written it (DudeTM:
//! touching ID). A page in memory differs from the heap image only by writes of transactions up to
//! its last-writer ID, and by those of running ones. Therefore:
//! - A page is evicted only while no running transaction has written it.
//! - It is read from the heap image again only when its last-writer ID is reproduced.
//! - A shadow never writes to the heap image. The log does.
//!
//! A thread that waits for reproduction may hold ownership records. Persist and reproduce steps
//! need none, and a worker publishes the record of an assigned ID without waiting. So the wait ends
//! when the medium has done its work. See `PipelineView::wait_reproduced`.
//!
//! (DudeTM, section 3.1: one shadow shared by all transactions, not one of each; 4.3.)

pub(crate) mod copied_pages;
mod cow;
mod cow_bounded;
mod full;
mod software;
pub(crate) mod software_table;

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{Memory, PoolFile};
use words::TxId;

use crate::opening::OpeningStep;
use crate::perform::{Heap, Space};
use crate::pipeline::PipelineView;
use crate::sync::Ordering;
use crate::{Error, Options, Shadow};

pub use cow_bounded::Evicting;
pub use software::Software;

/// The memory that transactions read from and write to. It is a type parameter of
/// [`Decoupled`](crate::Decoupled), so that access to a word is compiled for one kind.
///
/// An attempt of a worker is `begin`, accesses through `space`, `end`.
pub trait ShadowMemory: Send + Sync + Sized + 'static {
    /// The state of one worker.
    type Part: Send;

    /// Checks that the options ask for this type.
    ///
    /// # Errors
    /// [`Error::OtherShadow`]; a size that it cannot have.
    fn check(options: &Options) -> Result<(), Error>;

    /// Returns the bytes of anonymous memory that [`open`](ShadowMemory::open) allocates, or most
    /// of them.
    fn memory_bytes(options: &Options, heap_bytes: u64) -> u64;

    /// Opens the heap image at `offset` in a file. Every logged transaction is reproduced there.
    /// The heap may grow up to [`Options::max_bytes`].
    ///
    /// # Errors
    /// The medium's.
    fn open(
        options: &Options,
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<Self, Error>;

    /// Returns the most words that the heap may have.
    fn words(&self) -> usize;

    /// Creates the state of a worker.
    fn part(&self) -> Self::Part;

    /// Removes a worker.
    fn leave(&self, part: &mut Self::Part) {
        let _ = part;
    }

    /// Begins an attempt. If it waits, it holds nothing meanwhile.
    ///
    /// # Errors
    /// When the pool cannot go on.
    #[inline(always)]
    fn begin(&self, part: &mut Self::Part, pipeline: PipelineView<'_>) -> Result<(), Error> {
        let _ = (part, pipeline);
        Ok(())
    }

    /// Returns the words as an attempt sees them.
    fn space<'a>(&'a self, part: &'a mut Self::Part, pipeline: PipelineView<'a>)
    -> impl Space + 'a;

    /// Returns the words for prefetch hints only.
    fn hints(&self) -> impl Space;

    /// Ends an attempt, after its last-writer IDs are set and its ownership records released.
    #[inline(always)]
    fn end(&self, part: &mut Self::Part) {
        let _ = part;
    }

    /// Returns a word without isolation. An unreadable word is 0, and the pool is poisoned.
    fn peek(&self, index: usize, pipeline: PipelineView<'_>) -> u64;

    /// Returns a word for an estimate: an old value, or 0, where `peek` would page in, wait or
    /// poison the pool.
    fn glance(&self, index: usize, pipeline: PipelineView<'_>) -> u64 {
        self.peek(index, pipeline)
    }

    /// Reads words from `first` on without paging, for tests that observe the pool.
    fn observe(&self, first: usize, out: &mut [u64], pipeline: PipelineView<'_>) {
        out.iter_mut().zip(first..).for_each(|(out, index)| *out = self.peek(index, pipeline));
    }

    /// Changes a word without isolation or logging.
    fn poke(&self, index: usize, value: u64, pipeline: PipelineView<'_>);

    /// Returns the error if the attempt was too large for this memory.
    fn too_large(&self, part: &Self::Part) -> Option<Error> {
        let _ = part;
        None
    }

    /// Returns the counts of its work.
    fn counts(&self) -> ShadowCounts {
        ShadowCounts::default()
    }
}

/// Counts of a shadow since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Pages read from the heap image.
    pub page_ins: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Waits until a page's last-writer ID was reproduced.
    pub page_waits: u64,
}

/// The heap of transactions in one piece, without a bound.
#[derive(Debug)]
pub struct ShadowHeap {
    memory: Memory,
}

impl ShadowHeap {
    /// Returns the memory of the words.
    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    /// Returns the words.
    #[inline]
    pub(crate) fn heap(&self) -> &Heap {
        self.memory.words()
    }
}

impl ShadowMemory for ShadowHeap {
    type Part = ();

    fn check(options: &Options) -> Result<(), Error> {
        let design = design_for(options);
        match (options.shadow, options.shadow_bytes) {
            (Shadow::Software, _) => Err(Error::OtherShadow { asked: "software", design }),
            (Shadow::CopyOnWrite, Some(_)) => {
                Err(Error::OtherShadow { asked: "cow with a bound", design })
            }
            (Shadow::Full, Some(value)) => Err(Error::BadOption {
                option: "shadow_bytes",
                value,
                must: "a full shadow is as large as the heap: ask for `CopyOnWrite` or `Software`",
            }),
            (Shadow::Full | Shadow::CopyOnWrite, None) => Ok(()),
        }
    }

    fn memory_bytes(options: &Options, heap_bytes: u64) -> u64 {
        if options.shadow == Shadow::CopyOnWrite { 0 } else { heap_bytes }
    }

    fn open(
        options: &Options,
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<ShadowHeap, Error> {
        let room = options.room(bytes);
        Ok(match options.shadow {
            Shadow::CopyOnWrite => ShadowHeap::copy_on_write(file, offset, bytes, room)?,
            Shadow::Full | Shadow::Software => {
                let progress = options.on_opening.begin(OpeningStep::ReadHeap, bytes);
                ShadowHeap::load(file, offset, bytes, room, &|bytes| progress.add(bytes))?
            }
        })
    }

    #[inline]
    fn words(&self) -> usize {
        self.heap().len()
    }

    fn part(&self) {}

    #[inline(always)]
    fn space<'a>(&'a self, _part: &'a mut (), _pipeline: PipelineView<'a>) -> impl Space + 'a {
        self.heap()
    }

    #[inline(always)]
    fn hints(&self) -> impl Space {
        self.heap()
    }

    #[inline]
    fn peek(&self, index: usize, _pipeline: PipelineView<'_>) -> u64 {
        self.heap()[index].load(Ordering::Relaxed)
    }

    fn observe(&self, first: usize, out: &mut [u64], _pipeline: PipelineView<'_>) {
        medium::cpu::load(&self.heap()[first..first + out.len()], out);
    }

    fn poke(&self, index: usize, value: u64, _pipeline: PipelineView<'_>) {
        self.heap()[index].store(value, Ordering::Relaxed);
    }
}

/// Returns the design for the requested shadow, to name in an error.
fn design_for(options: &Options) -> &'static str {
    match (options.shadow, options.shadow_bytes) {
        (Shadow::Software, _) => "DecoupledSoftware",
        (Shadow::CopyOnWrite, Some(_)) => "DecoupledEvicting",
        (Shadow::Full | Shadow::CopyOnWrite, _) => "Decoupled",
    }
}

/// Returns the last-writer ID to set for a transaction; `None` for a mutant.
#[inline(always)]
fn last_writer_id(id: TxId) -> Option<u64> {
    if injected(Mutant::LastWriterNotNotified) {
        return None;
    }
    Some(id.0.saturating_sub(u64::from(injected(Mutant::LastWriterTooEarly))))
}

/// Bytes of a page of the software shadow, and of a heap image in a file.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Fewest pages of a bounded shadow. Chosen: transactions of the smallest programs fit, and crash
/// tests evict all the time.
pub(crate) const PAGES_MIN: u64 = 8;

/// Returns the number of pages within a bound.
fn pages_in(shadow_bytes: u64, page_bytes: u64) -> Result<usize, Error> {
    let pages = shadow_bytes / page_bytes;
    let fits = pages >= PAGES_MIN && pages <= software_table::FRAMES_MAX as u64;
    if fits {
        return Ok(pages as usize);
    }
    let must = "it must be at least 8 pages (32 KiB, where a page is 4 KiB) and at most 1 TiB";
    Err(Error::BadOption { option: "shadow_bytes", value: shadow_bytes, must })
}
