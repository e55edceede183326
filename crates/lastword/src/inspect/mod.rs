//! Looking at a pool without changing it.
//!
//! Others may look at the same time; a pool that is in use, or is used by another process
//! meanwhile, is refused. A pool that needs recovery is replayed in memory, so what is checked is
//! what opening it would show.

mod check;
mod check_options;
mod finding;
mod repair;

use std::path::Path;

use lw_alloc::{Live, Usage};
use medium::writes::{Piece, Pieces};
use medium::{Counts, FileLog, HomeMedium, PoolFile};
use words::TxId;

pub use check_options::CheckOptions;
pub use finding::{Finding, Problem, Severity};
pub use repair::{Repair, repair, repair_with};

use crate::recover::decide::Action;
use crate::shadow::ShadowHeap;
use crate::storage::{Found, Survey, heap};
use crate::sync::{Arc, Ordering};
use crate::{Error, Info, Medium};

/// Describes a pool; reads its superblocks, a block of its log to see whether that works past the
/// page cache, and of a pool that was not closed cleanly the log that opening it would replay.
///
/// # Errors
/// What keeps a pool of any layout from being opened; see [`Pool::open`](crate::Pool::open).
pub fn inspect(path: impl AsRef<Path>) -> Result<Info, Error> {
    inspect_with(path, &CheckOptions::new())
}

/// Describes a pool of which something is expected; see [`inspect`].
///
/// # Errors
/// What keeps the pool from being opened as it is expected.
pub fn inspect_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Info, Error> {
    let survey = survey(path.as_ref(), expected)?;
    if survey.refusal.is_none() {
        check::check_groups(&survey)?;
    }
    Ok(info(&survey.found()?))
}

/// Others may look at the same time, none may go on.
fn survey(path: &Path, expected: &CheckOptions) -> Result<Survey, Error> {
    Survey::of(path, expected, |path| PoolFile::open_shared(path))
}

fn info(found: &Found) -> Info {
    let (superblock, medium) = (found.superblocks.current(), found.medium);
    // Of a log that is lost nothing can be said.
    let is_there = medium == Medium::File && found.action != Action::Renew;
    let written = is_there.then(|| {
        let place = Arc::clone(found.log_place());
        FileLog::new(place, superblock.log_offset, superblock.log_bytes).ok()
    });
    let log = written.flatten().map(|log| (&**found.log_place(), log.path()));
    Info::of(&found.file, superblock, medium, log)
}

/// What opening a pool would show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The pool's description, as it is on the medium.
    pub info: Info,
    /// Whether the pool was left without being closed: opening it recovers.
    pub needs_recovery: bool,
    /// Transactions in the log that recovery will bring home.
    pub transactions_to_replay: u64,
    /// The last transaction that opening the pool will show.
    pub durable_id: TxId,
    /// Whether the log ends in a write that was cut short; that is no damage.
    pub torn_end: bool,
    /// What is in the heap.
    pub usage: Usage,
}

/// What a check has found.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "damage is in the report"]
pub struct Report {
    /// Everything found, harmless things too. Empty when there is nothing to say.
    pub findings: Vec<Finding>,
    /// The pool's description; nothing when it does not open.
    pub info: Option<Info>,
    /// What opening the pool shows; nothing when it does not open. `usage` is what is known of it
    /// when the heap is damaged.
    pub checked: Option<Checked>,
    /// What opening the pool answers when it does not open.
    pub refusal: Option<Error>,
    /// Name and version of the layout that the pool has; nothing when no superblock is valid.
    pub layout: Option<(String, u64)>,
}

impl Report {
    /// How bad the worst finding is.
    pub fn severity(&self) -> Severity {
        let all = self.findings.iter().map(Finding::severity);
        all.max().unwrap_or(Severity::Harmless)
    }

    /// Whether there is no damage, not even of one of two copies.
    pub fn is_sound(&self) -> bool {
        self.severity() == Severity::Harmless
    }

    /// Whether the pool opens; it may be damaged all the same.
    pub fn opens(&self) -> bool {
        self.refusal.is_none()
    }

    /// What opening the pool shows, when it opens and its heap is sound.
    ///
    /// # Errors
    /// What opening it answers, or the first damage of its heap.
    pub fn sound(self) -> Result<Checked, Error> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        for finding in self.findings {
            if let Problem::Heap(damage) = finding.problem {
                return Err(Error::DamagedHeap { path: finding.path, damage });
            }
        }
        Ok(self.checked.expect("what opens was looked at"))
    }
}

/// Checks a pool: its superblocks, its log, that live and free objects make up the whole heap, and
/// where the root leads. Finds all damage that it can, and says of each what is affected and what
/// can be done. Never writes. Takes as much memory as the heap.
///
/// Values in a program's objects carry no checksum: a change of them at home is **not detected**.
/// Nor is one in the last groups of a log that waits to be replayed, as many as were under way: it
/// looks like a write that a crash has cut short.
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
/// assert!(report.opens() && !report.is_sound());
/// assert_eq!(report.findings[0].problem, Problem::Superblock { copy: 0 });
/// assert!(matches!(report.findings[1].problem, Problem::Heap(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What keeps the pool from being looked at: it is not there, in use, or cannot be read. Damage is
/// no error: it is in the report.
pub fn check(path: impl AsRef<Path>) -> Result<Report, Error> {
    check_with(path, &CheckOptions::new())
}

/// Checks a pool of which something is expected; see [`check`]. With what [`Options`] expect
/// (`CheckOptions::from`) the report says whether [`Pool::open`](crate::Pool::open) opens the pool,
/// and if not, its error.
///
/// # Errors
/// As [`check`].
///
/// [`Options`]: crate::Options
pub fn check_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Report, Error> {
    Ok(look(path.as_ref(), expected)?.0)
}

/// The report, and the heap of a pool that opens.
fn look(
    path: &Path,
    expected: &CheckOptions,
) -> Result<(Report, Option<(ShadowHeap, lw_alloc::Heap)>), Error> {
    let examined = check::examine(path, expected, |path| PoolFile::open_shared(path))?;
    let check::Examined { mut survey, image, replayed, usage } = examined;
    let findings = std::mem::take(&mut survey.findings);
    let layout = survey.layout_found();
    // What opens, and what it shows. A log that cannot be replayed is found after the rest.
    let found = match survey.found() {
        Ok(found) => found,
        Err(refusal) => {
            let refusal = Some(refusal);
            return Ok((Report { findings, info: None, checked: None, refusal, layout }, None));
        }
    };
    let image = image.expect("the heap of a pool that opens was looked at");
    let (info, superblock) = (info(&found), *found.superblocks.current());
    let checked = Checked {
        info: info.clone(),
        needs_recovery: found.action == Action::Replay,
        transactions_to_replay: replayed.map_or(0, |replayed| replayed.transactions),
        durable_id: replayed.map_or(TxId(superblock.reproduced), |replayed| replayed.last),
        torn_end: replayed.is_some_and(|replayed| replayed.torn),
        usage,
    };
    let report =
        Report { findings, info: Some(info), checked: Some(checked), refusal: None, layout };
    Ok((report, Some((image, heap(&superblock)))))
}

/// What opening a pool would show, in memory: for tools that look at objects. It has been checked,
/// so it is sound.
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
    checked: Checked,
    image: ShadowHeap,
    heap: lw_alloc::Heap,
}

impl HeapAtRest {
    /// Takes one, as [`check`] does; never writes. Takes as much memory as the heap. A pool that
    /// was closed cleanly needs no log for that: its heap is whole.
    ///
    /// # Errors
    /// As [`check`] and [`Report::sound`].
    pub fn load(path: impl AsRef<Path>) -> Result<HeapAtRest, Error> {
        let (report, contents) = look(path.as_ref(), &CheckOptions::new().without_log(true))?;
        let checked = report.sound()?;
        let (image, heap) = contents.expect("a pool that opens has a heap");
        Ok(HeapAtRest { checked, image, heap })
    }

    /// What its check has found.
    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// The program's root, as it was given; 0 when there is none.
    pub fn root(&self) -> u64 {
        self.heap.root_at_rest(|offset| word(&self.image, offset))
    }

    /// Every live object and every block of an array that is prepared, in address order.
    pub fn objects(&self) -> impl Iterator<Item = Live> + '_ {
        self.heap.live(|offset| word(&self.image, offset))
    }

    /// The words of an object.
    ///
    /// # Panics
    /// When it is an object of another snapshot that this one's heap has no room for.
    pub fn words(&self, object: &Live) -> impl Iterator<Item = u64> + '_ {
        let first = object.offset as usize / 8;
        let words = object.bytes.div_ceil(8) as usize;
        self.image.heap()[first..first + words].iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// The word at an offset in bytes.
fn word(image: &ShadowHeap, offset: u64) -> u64 {
    image.heap()[offset as usize / 8].load(Ordering::Relaxed)
}

/// A home in memory.
struct Image<'a>(&'a ShadowHeap);

impl HomeMedium for Image<'_> {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        for piece in Pieces::new(writes) {
            if let Piece::Run(index, words) = piece {
                // The scan has checked that every run is inside the heap.
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
