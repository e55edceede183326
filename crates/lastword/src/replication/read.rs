//! The groups of a closed pool that are in its log alone.

use std::path::Path;

use medium::PoolFile;
use medium::mutants::{Mutant, injected};
use words::TxId;

use super::Group;
use crate::error::{Error, ReplicationError};
use crate::inspect::CheckOptions;
use crate::recover::decide::Action;
use crate::recover::{Until, follow};
use crate::registry::{DesignInfo, LogFormat};
use crate::storage::{Storage, Survey};

/// The state of a closed pool and of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The pool's ID and the generation of its last opening, which together name one writer: see
    /// [`Feed::writer`](super::Feed::writer).
    pub writer: (u64, u64),
    /// The heap image has all transactions up to this one.
    pub reproduced: TxId,
    /// The log has all transactions between that and this one.
    pub last: TxId,
}

/// Passes the groups of a closed pool's log that its heap image may lack to `visit`, in order.
/// Changes no byte of the pool. A primary sends these groups after a crash, before it opens the
/// pool: recovery applies them to the heap image. Before the first group, one persist barrier makes
/// each file durable: a group that this machine can lose must not reach the stream.
///
/// # Errors
/// As [`Pool::open`](crate::Pool::open), [`ReplicationError::Combined`], and those of `visit`. A
/// pool whose last design has no groups has none to pass.
pub fn read_log(
    path: impl AsRef<Path>,
    mut visit: impl FnMut(Group) -> Result<(), Error>,
) -> Result<Log, Error> {
    let expected = CheckOptions { migrates: true, ..CheckOptions::new() };
    let survey = Survey::of(path.as_ref(), &expected, |path| {
        let file = PoolFile::open_shared(path)?;
        if !injected(Mutant::LogReadUnsettled) {
            file.settle()?;
        }
        Ok(file)
    })?;
    let log_place = survey.log_place().clone();
    let found = survey.found()?;
    let superblock = *found.superblocks.current();
    let reproduced = TxId(superblock.reproduced);
    let writer = (superblock.pool, superblock.generation);
    let mut log = Log { writer, reproduced, last: reproduced };
    let has_groups = DesignInfo::in_superblock(&superblock)
        .is_some_and(|design| design.log == LogFormat::Groups);
    if found.action != Action::Replay || !has_groups {
        return Ok(log);
    }
    let reader = Storage::log_reader(&log_place, &superblock, found.medium)?;
    let heap_bytes = superblock.heap_bytes;
    let replayed =
        follow(&superblock, &reader, log_place.path(), Until::End, |(first, last), scan| {
            if scan.is_combined() {
                return Err(ReplicationError::Combined { first, last }.into());
            }
            visit(Group { first, last, heap_bytes, words: scan.payload().to_vec() })
        })?;
    log.last = replayed.last;
    Ok(log)
}
