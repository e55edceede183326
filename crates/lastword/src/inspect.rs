//! Looking at a pool without changing it.
//!
//! Others may look at the same time; a pool that is in use, or is used by another process
//! meanwhile, is refused. A pool that needs recovery is replayed in memory, so what is checked is
//! what opening it would show.

use std::path::Path;

use lw_alloc::{Live, Usage};
use medium::writes::{Piece, Pieces};
use medium::{Counts, FileLog, HomeMedium, LogReader};
use words::TxId;

use crate::recover::{self, decide::Action};
use crate::shadow::ShadowHeap;
use crate::storage::{Found, Storage, heap};
use crate::superblock::Superblock;
use crate::sync::{Arc, Ordering};
use crate::{Error, Info, Medium};

/// Describes a pool; reads its superblocks, and a block of its log to see whether that works past
/// the page cache.
///
/// # Errors
/// What keeps a pool from being opened; see [`Pool::open`](crate::Pool::open).
pub fn inspect(path: impl AsRef<Path>) -> Result<Info, Error> {
    Ok(info(&Found::open_shared(path.as_ref())?))
}

fn info(found: &Found) -> Info {
    let (superblock, medium) = (found.superblocks.current(), found.medium);
    let written = (medium == Medium::File).then(|| {
        let place = Arc::clone(found.log_place());
        FileLog::new(place, superblock.log_offset, superblock.log_bytes).ok()
    });
    let written = written.flatten().map(|log| log.path());
    Info::of(&found.file, superblock, medium, written)
}

/// What a check has found, when it has found no damage.
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

/// Checks a pool: its superblocks, its log, and that live and free objects make up the whole heap.
/// Never writes. Takes as much memory as the heap.
///
/// # Errors
/// What keeps the pool from being opened, or the first damage found in its heap.
pub fn check(path: impl AsRef<Path>) -> Result<Checked, Error> {
    Ok(Snapshot::load(path)?.checked)
}

/// What opening a pool would show, in memory: for tools that look at objects. It has been checked,
/// so it is sound.
///
/// ```
/// use lastword::{Objects, Options, Pool, Snapshot};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// let object = pool.run(|tx| tx.alloc([42_u64, 7]))?.value;
/// pool.close()?;
///
/// let snapshot = Snapshot::load(&path)?;
/// let found = snapshot.objects().next().expect("one object is live");
/// assert_eq!((found.object, found.bytes), (object.to_bits(), 16));
/// assert!(snapshot.words(&found).eq([42, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    checked: Checked,
    image: ShadowHeap,
    heap: lw_alloc::Heap,
}

impl Snapshot {
    /// Takes one, as [`check`] does; never writes. Takes as much memory as the heap.
    ///
    /// # Errors
    /// As [`check`].
    pub fn load(path: impl AsRef<Path>) -> Result<Snapshot, Error> {
        let found = Found::open_shared(path.as_ref())?;
        let superblock = *found.superblocks.current();
        let image = ShadowHeap::load(&found.file, superblock.heap_offset, superblock.heap_bytes)?;
        let mut replayed = None;
        if found.action == Action::Replay {
            let log_file = found.log_place();
            let Superblock { log_offset, log_bytes, .. } = superblock;
            let block_bytes = Storage::block_bytes(found.medium);
            let log = LogReader::new(Arc::clone(log_file), log_offset, log_bytes, block_bytes)?;
            let mut home = Image(&image);
            let path = log_file.path();
            // Nothing is written, so nothing that is read needs to be durable.
            let settle = &mut |_, _: &[u64]| Ok(());
            replayed = Some(recover::replay(&superblock, &log, settle, &mut home, path)?);
        }
        let heap = heap(&superblock);
        let usage = heap
            .check(|offset| word(&image, offset))
            .map_err(|damage| Error::DamagedHeap { path: path.as_ref().into(), damage })?;
        let checked = Checked {
            info: info(&found),
            needs_recovery: found.action == Action::Replay,
            transactions_to_replay: replayed.map_or(0, |replayed| replayed.transactions),
            durable_id: replayed.map_or(TxId(superblock.reproduced), |replayed| replayed.last),
            torn_end: replayed.is_some_and(|replayed| replayed.torn),
            usage,
        };
        Ok(Snapshot { checked, image, heap })
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
