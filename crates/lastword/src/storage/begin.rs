//! Takes an opened pool to the point where transactions can start: recovers it and begins a new
//! generation under the current design.
//!
//! Recovery follows the rules of the design that wrote the pool last. The next edition of the
//! superblock sets the new generation and the new design's name together. The new generation
//! empties the log, so no design ever reads the records of another one.

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{HeapMedium, ReadLog};
use words::TxId;

use super::watched::{WatchedHeap, WatchedLog};
use super::{Opened, Storage};
use crate::Error;
use crate::error::ReplicationError;
use crate::opening::{OnOpening, OpeningStep};
use crate::recover::decide::Action;
use crate::recover::{self, Replayed};
use crate::registry::{DesignInfo, LogFormat, Recovery};
use crate::superblock::{LogHead, Superblock, name, padded};

/// A pool that is ready for transactions.
pub(crate) struct ReadyPool<W> {
    pub(crate) storage: Storage,
    /// The memory that transactions work on.
    pub(crate) words: W,
    /// The last recovered transaction.
    pub(crate) last: TxId,
}

/// Whether this program can recover the log of this design.
pub(super) fn is_known(superblock: &Superblock) -> bool {
    rules(superblock).is_some()
}

fn rules(superblock: &Superblock) -> Option<Recovery> {
    DesignInfo::in_superblock(superblock)?.recovery
}

/// Applies the transactions in the log to the heap image, by the rules of the design that wrote
/// them. Durable on return, at one persist barrier, or none if nothing was to do.
///
/// # Errors
/// A medium that cannot be read or written; a log that no crash leaves.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    heap_image: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    let Some(rules) = rules(superblock) else {
        let found = name(&superblock.design);
        return Err(Error::UnknownDesign { path: log_path.into(), found });
    };
    (rules.replay)(superblock, log, heap_image, log_path)
}

/// Does the same up to the transaction `keep`, if there is one: see [`recover::replay_up_to`].
///
/// # Errors
/// As [`replay`] and [`recover::replay_up_to`].
pub(super) fn replay_kept(
    keep: Option<TxId>,
    superblock: &Superblock,
    log: &dyn ReadLog,
    heap_image: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    match keep {
        // `check_kept` has found that the log has groups.
        Some(last) => recover::replay_up_to(last, superblock, log, heap_image, log_path),
        None => replay(superblock, log, heap_image, log_path),
    }
}

/// Checks that an opening can drop all transactions after this one.
///
/// # Errors
/// [`ReplicationError::Ahead`]; [`Error::BadOption`] for the log of another design.
pub(super) fn check_kept(last: TxId, superblock: &Superblock, action: Action) -> Result<(), Error> {
    let reproduced = TxId(superblock.reproduced);
    if reproduced > last {
        return Err(ReplicationError::Ahead { reproduced, last }.into());
    }
    let log = DesignInfo::in_superblock(superblock).map(|design| design.log);
    if action == Action::Replay && log != Some(LogFormat::Groups) {
        let must = "the log of another design keeps all transactions; open the pool without it";
        return Err(Error::BadOption { option: "rejoining", value: last.0, must });
    }
    Ok(())
}

/// Applies what is whole of a damaged log to a copy of the heap image.
///
/// # Errors
/// A log that cannot be read.
pub(crate) fn salvage(
    superblock: &Superblock,
    log: &dyn ReadLog,
    copy: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<(), Error> {
    let salvaged = rules(superblock).map(|rules| (rules.salvage)(superblock, log, copy, log_path));
    match salvaged {
        // Groups follow each other, so all before the damage are applied.
        None | Some(Ok(_) | Err(Error::DamagedLog { .. })) => Ok(()),
        Some(Err(error)) => Err(error),
    }
}

impl Opened {
    /// Returns a pool that was just created.
    pub(crate) fn created(storage: Storage) -> Result<Opened, Error> {
        let (action, log_head) = (Action::Start, storage.log_head()?);
        Ok(Opened { storage, action, log_head, keep: None, on_opening: OnOpening::default() })
    }

    /// Recovers the pool and begins a new generation under this design. `open` opens the memory of
    /// transactions after the heap image is recovered. `mark` sets the design's fields in the
    /// superblock. Costs two persist barriers beyond recovery's, or six if the log has its own
    /// file.
    pub(crate) fn begin<W>(
        self,
        design: &'static str,
        open: impl Fn(&Storage) -> Result<W, Error>,
        mark: impl Fn(&mut Superblock),
    ) -> Result<ReadyPool<W>, Error> {
        let Opened { mut storage, action, log_head, keep, on_opening } = self;
        let before = *storage.superblocks.current();
        let mut last = TxId(before.reproduced);
        let generation =
            before.generation.wrapping_add(u64::from(!injected(Mutant::GenerationKept)));
        let stale = injected(Mutant::ShadowBeforeReplay).then(|| open(&storage));
        if injected(Mutant::ClearedBeforeApplied) {
            storage.superblocks.update(|now| now.generation = generation)?;
        }
        if action == Action::Replay {
            let path = storage.log_path().to_path_buf();
            let Storage { log, heap_image, .. } = &mut storage;
            let progress = on_opening.begin(OpeningStep::ReadLog, log.bytes());
            let log = WatchedLog { log: &**log, progress };
            let mut heap_image = WatchedHeap { heap_image, on_opening: &on_opening };
            last = replay_kept(keep, &before, &log, &mut heap_image, &path)?.last;
        }
        storage.sums.has_recovered();
        // The heap image is complete. Open before the next write, so that a read error leaves the
        // pool unchanged.
        let words = stale.unwrap_or_else(|| open(&storage))?;
        let medium = storage.medium;
        let head = match (&storage.log_file, log_head) {
            (Some(file), Some(head)) => {
                let edition = head.edition + 1;
                let entered = injected(Mutant::LogEnteredFirst);
                let head = LogHead { edition, pool: before.pool, generation, entered };
                Some((head, Arc::clone(file), LogHead::counts(file)?))
            }
            _ => None,
        };
        // The order matters: see `recover`.
        if let Some((head, file, counts)) = &head
            && !injected(Mutant::LogHeadLast)
        {
            head.write(file, *counts)?;
        }
        storage.superblocks.update(|now| {
            now.generation = generation;
            now.clean = now.clean && injected(Mutant::CleanKept);
            now.reproduced = last.0;
            now.log_sequence = if injected(Mutant::SequenceKept) { now.log_sequence } else { 0 };
            now.design = padded(design).expect("a design's name is short");
            now.medium = padded(medium.name()).expect("a medium's name is short");
            (now.group, now.compress) = (0, false);
            mark(now);
        })?;
        if let Some((head, file, counts)) = &head
            && injected(Mutant::LogHeadLast)
        {
            head.write(file, *counts)?;
        }
        // Before the first record: with the superblock of an earlier opening in its place, this log
        // is refused. Without the mark it would pass for the log of an opening that crashed above,
        // and its records would be lost.
        if let Some((head, file, counts)) = head
            && !injected(Mutant::LogNeverEntered)
        {
            LogHead { edition: head.edition + 1, entered: true, ..head }.write(&file, counts)?;
        }
        Ok(ReadyPool { storage, words, last })
    }
}
