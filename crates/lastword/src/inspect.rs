//! Looking at a pool without changing it.
//!
//! Others may look at the same time; a pool that is in use, or is used by another process
//! meanwhile, is refused. A pool that needs recovery is replayed in memory, so what is checked is
//! what opening it would show.

use std::path::Path;

use lw_alloc::Usage;
use medium::writes::{Piece, Pieces};
use medium::{Counts, HomeMedium, LogReader};
use words::TxId;

use crate::recover::{self, decide::Action};
use crate::shadow::Full;
use crate::storage::{Found, Storage, heap};
use crate::superblock::Superblock;
use crate::sync::{Arc, Ordering};
use crate::{Error, Info};

/// Describes a pool; reads its superblocks only.
///
/// # Errors
/// What keeps a pool from being opened; see [`Pool::open`](crate::Pool::open).
pub fn inspect(path: impl AsRef<Path>) -> Result<Info, Error> {
    Ok(info(&Found::open_shared(path.as_ref())?))
}

fn info(found: &Found) -> Info {
    Info::of(&found.file, found.superblocks.current(), found.medium, None)
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
    let found = Found::open_shared(path.as_ref())?;
    let superblock = *found.superblocks.current();
    let image = Full::load(&found.file, superblock.heap_offset, superblock.heap_bytes)?;
    let mut replayed = None;
    if found.action == Action::Replay {
        let log_file = found.log_place();
        let Superblock { log_offset, log_bytes, .. } = superblock;
        let block_bytes = Storage::block_bytes(found.medium);
        let log = LogReader::new(Arc::clone(log_file), log_offset, log_bytes, block_bytes)?;
        let mut home = Image(&image);
        replayed = Some(recover::replay(&superblock, &log, &mut home, log_file.path())?);
    }
    let word = |offset: u64| image.heap()[offset as usize / 8].load(Ordering::Relaxed);
    let usage = heap(&superblock)
        .check(word)
        .map_err(|damage| Error::DamagedHeap { path: path.as_ref().into(), damage })?;
    Ok(Checked {
        info: info(&found),
        needs_recovery: found.action == Action::Replay,
        transactions_to_replay: replayed.map_or(0, |replayed| replayed.transactions),
        durable_id: replayed.map_or(TxId(superblock.reproduced), |replayed| replayed.last),
        torn_end: replayed.is_some_and(|replayed| replayed.torn),
        usage,
    })
}

/// A home in memory.
struct Image<'a>(&'a Full);

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
