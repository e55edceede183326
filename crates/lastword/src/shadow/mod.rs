//! Shadow memory: the DRAM that transactions work on, a copy of the heap at home plus everything
//! that is committed and not yet there.
//!
//! | [`ShadowMemory`] | opening | a page that is only read | a page that is written | memory |
//! |---|---|---|---|---|
//! | [`ShadowHeap`], `Full` | reads the heap | memory | memory | the heap |
//! | [`ShadowHeap`], `CopyOnWrite` | maps it | the page cache | copied by the 1st write | copies |
//! | [`Evicting`] | maps it | the page cache | copied, and dropped when it is at home | a bound |
//! | [`Software`] | reads nothing | paged in, looked up | paged in, pinned | a bound |
//!
//! The last two are for pools that are larger than the memory that they are given. The rule that
//! makes that safe is the same for both. The *touching ID* of a page is the last transaction that
//! has written it. What memory has of a page and home has not is what transactions up to its
//! touching ID wrote and what running ones write; so a page is forgotten only while no running
//! transaction has written it, and read from home again only when its touching ID is reproduced.
//! Nothing is ever written home from here: the log is what goes home.
//!
//! Who waits for reproduction meanwhile may hold ownership records. Nobody who persists or
//! reproduces wants any, and an ID that was drawn is published without a wait, so the wait ends
//! when the medium has done its work. See `Behind::bring_home`.
//!
//! (DudeTM, section 3.1: one shadow shared by all transactions, not one of each; 4.3.)

pub(crate) mod copies;
mod cow;
mod evicting;
mod full;
mod software;
pub(crate) mod table;

use medium::mutants::{Mutant, planted};
use medium::sync::Arc;
use medium::{Memory, PoolFile};
use words::TxId;

use crate::perform::{Heap, Space};
use crate::pipeline::Behind;
use crate::sync::Ordering;
use crate::{Error, Options, Shadow};

pub use evicting::Evicting;
pub use software::Software;

/// What one transaction's words are read from and written to: a type parameter of
/// [`Decoupled`](crate::Decoupled), because the way to a word is the same for all of them.
///
/// An attempt of a worker is `begin`, accesses through `space`, `end`.
pub trait ShadowMemory: Send + Sync + Sized + 'static {
    /// What one worker owns of it.
    type Part: Send;

    /// That this type is what the options ask for.
    ///
    /// # Errors
    /// [`Error::OtherShadow`]; a size that it cannot have.
    fn check(options: &Options) -> Result<(), Error>;

    /// Bytes of anonymous memory that [`open`](ShadowMemory::open) asks for, or most of them.
    fn memory_bytes(options: &Options, heap_bytes: u64) -> u64;

    /// The heap at `offset` in a file; everything that was logged is at home there.
    ///
    /// # Errors
    /// The medium's.
    fn open(
        options: &Options,
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<Self, Error>;

    /// Words of the heap.
    fn words(&self) -> usize;

    /// A worker's part.
    fn part(&self) -> Self::Part;

    /// The worker is gone.
    fn leave(&self, part: &mut Self::Part) {
        let _ = part;
    }

    /// An attempt begins. Waits holding nothing, if it waits.
    ///
    /// # Errors
    /// When the pool cannot go on.
    #[inline(always)]
    fn begin(&self, part: &mut Self::Part, behind: Behind<'_>) -> Result<(), Error> {
        let _ = (part, behind);
        Ok(())
    }

    /// The words, as an attempt sees them.
    fn space<'a>(&'a self, part: &'a mut Self::Part, behind: Behind<'a>) -> impl Space + 'a;

    /// The words for who only gives hints.
    fn hints(&self) -> impl Space;

    /// The attempt has ended, its touching IDs told and its ownership records released.
    #[inline(always)]
    fn end(&self, part: &mut Self::Part) {
        let _ = part;
    }

    /// A word, past all isolation. What cannot be read is 0, and the pool is poisoned.
    fn peek(&self, index: usize, behind: Behind<'_>) -> u64;

    /// A word, without any effect on what is in memory: for who observes the pool in a test.
    fn observe(&self, index: usize, behind: Behind<'_>) -> u64 {
        self.peek(index, behind)
    }

    /// Changes a word past all isolation and logging.
    fn poke(&self, index: usize, value: u64, behind: Behind<'_>);

    /// Why the attempt was too large, if it was for this memory.
    fn too_large(&self, part: &Self::Part) -> Option<Error> {
        let _ = part;
        None
    }

    /// What it has done.
    fn counts(&self) -> ShadowCounts {
        ShadowCounts::default()
    }
}

/// What a shadow has done since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Pages read from home.
    pub page_ins: u64,
    /// Pages forgotten.
    pub evictions: u64,
    /// Waits until a page's touching ID was reproduced.
    pub page_waits: u64,
}

/// The heap that transactions see, in one piece and without a bound.
#[derive(Debug)]
pub struct ShadowHeap {
    memory: Memory,
}

impl ShadowHeap {
    /// The memory that has them.
    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    /// The words.
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
        Ok(match options.shadow {
            Shadow::CopyOnWrite => ShadowHeap::copy_on_write(file, offset, bytes)?,
            Shadow::Full | Shadow::Software => ShadowHeap::load(file, offset, bytes)?,
        })
    }

    #[inline]
    fn words(&self) -> usize {
        self.heap().len()
    }

    fn part(&self) {}

    #[inline(always)]
    fn space<'a>(&'a self, _part: &'a mut (), _behind: Behind<'a>) -> impl Space + 'a {
        self.heap()
    }

    #[inline(always)]
    fn hints(&self) -> impl Space {
        self.heap()
    }

    #[inline]
    fn peek(&self, index: usize, _behind: Behind<'_>) -> u64 {
        self.heap()[index].load(Ordering::Relaxed)
    }

    fn poke(&self, index: usize, value: u64, _behind: Behind<'_>) {
        self.heap()[index].store(value, Ordering::Relaxed);
    }
}

/// The design over what was asked for, for who has asked another.
fn design_for(options: &Options) -> &'static str {
    match (options.shadow, options.shadow_bytes) {
        (Shadow::Software, _) => "DecoupledSoftware",
        (Shadow::CopyOnWrite, Some(_)) => "DecoupledEvicting",
        (Shadow::Full | Shadow::CopyOnWrite, _) => "Decoupled",
    }
}

/// What a page is told of the transaction that has written it.
#[inline(always)]
fn touching_id(id: TxId) -> Option<u64> {
    if planted(Mutant::TouchingNotTold) {
        return None;
    }
    Some(id.0.saturating_sub(u64::from(planted(Mutant::TouchingTooEarly))))
}

/// Bytes of a page of the software shadow, and of a home that is a file.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Fewest pages of a shadow with a bound. Chosen: transactions of the smallest programs fit, and
/// crash tests evict all the time.
pub(crate) const PAGES_MIN: u64 = 8;

/// The pages that a bound has room for.
fn pages_in(shadow_bytes: u64, page_bytes: u64) -> Result<usize, Error> {
    let pages = shadow_bytes / page_bytes;
    let fits = pages >= PAGES_MIN && pages <= table::FRAMES_MAX as u64;
    if fits {
        return Ok(pages as usize);
    }
    let must = "it must be at least 8 pages (32 KiB, where a page is 4 KiB) and at most 1 TiB";
    Err(Error::BadOption { option: "shadow_bytes", value: shadow_bytes, must })
}
