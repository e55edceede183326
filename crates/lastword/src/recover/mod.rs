//! Recovery: turns the state after a crash into a state from which transactions can start.
//!
//! ```text
//!   both files: made durable as they are             } a barrier each, before anything is read
//!   mapped media: scan the log, and refuse damage
//!   scan the log from the superblock's sequence
//!     whole groups in ID order  ->  heap image       } one barrier in the end
//!   log head: generation + 1                         } two barriers
//!   superblock: generation + 1, reproduced ID        } two barriers
//!   log head: its generation is entered              } two barriers
//!   only then: new records
//! ```
//!
//! This order makes recovery idempotent, so a crash during recovery is a crash like any other.
//! Until the superblock is written, every record to replay still exists: no new record has
//! overwritten it. Redo values are absolute, so replaying twice is replaying once. The new
//! generation separates old records from new ones, because the lost IDs are assigned again.
//!
//! Recovery must act only on durable state (A11). Readable bytes may not be durable: the process
//! before may have been killed, or its write may have failed, between the page cache and the disk.
//! Two failures would follow:
//! - A crash loses a group from the log after its words were applied. The heap image would then
//!   hold writes that no record describes.
//! - A crash loses a superblock that recovery has used. The log's head would then be two
//!   generations ahead of the superblock that comes back, or the only good copy would be
//!   overwritten.
//!
//! So recovery syncs the files when it opens them, and reads them anew from the disk. After a
//! failed sync the page cache may show bytes that the disk does not have (A8).
//!
//! The decisions are in tables; see [`decide`].
//!
//! (DudeTM, section 3.5.)

pub(crate) mod decide;

use lw_log::{Found, Identity, Scan, WitnessKey};
use medium::mutants::{Mutant, injected};
use medium::{HeapMedium, ReadLog};
use words::TxId;

use crate::error::{Error, LogDamage, ReplicationError};
use crate::superblock::Superblock;
use decide::{Next, decide_next};

/// The log's stream number; a pool has one stream.
pub(crate) const STREAM: u16 = 0;

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The last transaction such that its record and all before it are whole.
    pub(crate) last: TxId,
    /// Transactions replayed.
    pub(crate) transactions: u64,
    /// Whether the log ended in a torn write.
    pub(crate) torn: bool,
}

/// Returns the identity of the log that a superblock describes.
pub(crate) fn identity(superblock: &Superblock) -> Identity {
    Identity { pool: superblock.pool, generation: superblock.generation, stream: STREAM }
}

/// The end of a scan of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The end of the log.
    End,
    /// The group that ends with this transaction: an earlier scan found the log's end after it.
    Found(TxId),
    /// This transaction, or the end of a log that ends before it. The rest of the log is not read.
    Kept(TxId),
}

impl Until {
    /// Whether a scan that has reached the transaction `last` is over.
    fn is_reached(self, last: TxId) -> bool {
        match self {
            Until::End => false,
            Until::Found(end) | Until::Kept(end) => last >= end,
        }
    }

    /// Returns the last transaction that the scan must find, if the log's witnesses have this one.
    fn least(self, witnessed: TxId) -> TxId {
        match self {
            Until::End => witnessed,
            Until::Found(end) => witnessed.max(end),
            Until::Kept(end) => witnessed.min(end),
        }
    }
}

/// Applies the log's transactions after the reproduced ID to the heap image. The caller has made
/// the readable log durable. The heap image is durable on return, for one persist barrier, or none
/// when nothing was replayed.
///
/// # Errors
/// A medium that cannot be read or written; a log that no crash leaves. After the latter the heap
/// image is as before.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    heap_image: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    replay_until(Until::End, superblock, log, heap_image, log_path)
}

/// Replays the log as [`replay`] does, up to the transaction `last` if the log has it. The caller
/// begins a new generation, which drops the rest of the log.
///
/// # Errors
/// As [`replay`]; [`ReplicationError::Inside`]: the heap image is as before.
pub(crate) fn replay_up_to(
    last: TxId,
    superblock: &Superblock,
    log: &dyn ReadLog,
    heap_image: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    let until = if injected(Mutant::SuffixReplayed) { Until::End } else { Until::Kept(last) };
    replay_until(until, superblock, log, heap_image, log_path)
}

fn replay_until(
    until: Until,
    superblock: &Superblock,
    log: &dyn ReadLog,
    heap_image: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    // A mapped heap image has each write at once, so the whole log is checked before the first one.
    // The image of a pool with two files only gathers writes up to the barrier.
    let checked = match superblock.log_inside && !injected(Mutant::AppliedBeforeChecked) {
        true => Some(follow(superblock, log, log_path, until, |_, _| Ok(()))?),
        false => None,
    };
    let until = match (checked, until) {
        (None, until) => until,
        // The witnesses may have transactions that are dropped.
        (Some(checked), Until::Kept(_)) => Until::Kept(checked.last),
        (Some(checked), _) => Until::Found(checked.last),
    };
    let mut replayed = follow(superblock, log, log_path, until, |_, scan| {
        Ok(heap_image.write_back(scan.payload())?)
    })?;
    replayed.torn |= checked.is_some_and(|checked| checked.torn);
    if replayed.transactions > 0 && !injected(Mutant::ReplayBarrierSkipped) {
        heap_image.barrier()?;
    }
    Ok(replayed)
}

/// Applies the groups before the damage to a copy of the heap image.
///
/// # Errors
/// As [`replay`], but it has applied these groups.
pub(crate) fn salvage(
    superblock: &Superblock,
    log: &dyn ReadLog,
    copy: &mut dyn HeapMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    let apply = |_, scan: &Scan<'_>| Ok(copy.write_back(scan.payload())?);
    follow(superblock, log, log_path, Until::End, apply)
}

/// Passes the transactions of each group, and the scan that has its writes, to `apply`.
///
/// # Errors
/// As [`replay`], and those of `apply`.
pub(crate) fn follow(
    superblock: &Superblock,
    log: &dyn ReadLog,
    log_path: &std::path::Path,
    until: Until,
    mut apply: impl FnMut((TxId, TxId), &Scan<'_>) -> Result<(), Error>,
) -> Result<Replayed, Error> {
    let heap_words = superblock.heap_bytes / 8;
    let reproduced = TxId(superblock.reproduced);
    let mut replayed = Replayed { last: reproduced, transactions: 0, torn: false };
    let mut scan =
        Scan::new(log, identity(superblock), superblock.log_sequence, reproduced, heap_words);
    while !until.is_reached(replayed.last) {
        let found = scan.next_group()?;
        match (decide_next(&found), found) {
            (Next::Apply, Found::Group { first, last }) => {
                if let Until::Kept(kept) = until
                    && kept < last
                {
                    let last_of_group = last;
                    return Err(ReplicationError::Inside { first, last_of_group, kept }.into());
                }
                apply((first, last), &scan)?;
                replayed.transactions += last.0 - first.0 + 1;
                replayed.last = last;
            }
            (Next::Refuse, Found::Damaged { at }) => {
                let at = superblock.log_offset + at;
                let why = LogDamage::Unexpected;
                return Err(Error::DamagedLog { path: log_path.into(), at, why });
            }
            (_, found) => {
                replayed.torn = matches!(found, Found::Torn { .. });
                break;
            }
        }
    }
    let durable = until.least(witnessed(superblock, log)?);
    if durable > replayed.last {
        let at = superblock.log_offset + scan.sequence() % log.bytes();
        let why = LogDamage::EndLost { first: TxId(replayed.last.0 + 1), last: durable };
        return Err(Error::DamagedLog { path: log_path.into(), at, why });
    }
    Ok(replayed)
}

/// Returns the last transaction that was durable by the log's witnesses; 0 if they say nothing.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn witnessed(superblock: &Superblock, log: &dyn ReadLog) -> Result<TxId, Error> {
    if injected(Mutant::GroupWitnessIgnored) {
        return Ok(TxId(0));
    }
    let key = WitnessKey::new(identity(superblock));
    let ids = log.witnesses()?;
    Ok(TxId(ids.iter().filter_map(|witness| key.open(witness)).max().unwrap_or(0)))
}
