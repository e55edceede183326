//! Recover: what a crash left becomes a state that transactions can start from.
//!
//! ```text
//!   the log: durable as it is read                  } one barrier
//!   scan it from the superblock's sequence, to its end
//!     whole groups in ID order  ->  home           } one barrier in the end
//!   superblock, as it was read                      } two barriers, if the log is a file
//!   log head: generation + 1                        } of its own,
//!                                                   } and two
//!   superblock: generation + 1, reproduced ID       } two barriers
//!   only then: new records
//! ```
//!
//! The order is what makes a crash during recovery a crash like any other: until the superblock is
//! written, everything that was to be replayed still is (redo values are absolute, so replaying
//! twice is replaying once), and no new record has overwritten it. The new generation keeps what is
//! left of the old log from being taken for new: the IDs that were lost will be drawn again.
//!
//! What is brought home must be durable in the log before. A group that can be read need not be:
//! the process may have been killed, or its write may have failed, between the page cache or the
//! processor's cache and the disk. Were such a group brought home and its like lost from the log by
//! a crash, home would hold what no log tells of. So a file is synced, and then read anew from the
//! disk: after a sync that failed the page cache may show what the disk does not have. In mapped
//! memory the groups that were not acknowledged for certain (later groups say how far that went)
//! are written again, as they are, where they are. Not so on a disk: a sector that may have been
//! acknowledged is never written again.
//!
//! The superblock is written again for the same reason: one that can be read need not be durable.
//! Were the log's head two generations ahead of the one that a crash brings back, the two would
//! look like files of different times.
//!
//! What to do when is decided by tables; see [`decide`].
//!
//! (DudeTM, section 3.5.)

pub(crate) mod decide;

use lw_log::{Found, Identity, Scan};
use medium::mutants::{Mutant, planted};
use medium::{Buffer, HomeMedium, LogMedium, ReadLog};
use words::TxId;

use crate::Error;
use crate::superblock::Superblock;
use decide::{Next, decide_next};

/// The log's stream; there is one.
pub(crate) const STREAM: u16 = 0;

/// What a replay has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The last transaction whose record is whole, and all before it.
    pub(crate) last: TxId,
    /// Transactions replayed.
    pub(crate) transactions: u64,
    /// Whether the log ended in a write cut short.
    pub(crate) torn: bool,
}

/// The log that a superblock describes.
pub(crate) fn identity(superblock: &Superblock) -> Identity {
    Identity { pool: superblock.pool, generation: superblock.generation, stream: STREAM }
}

/// Makes sure that a group is durable where it stands.
pub(crate) type Settle<'a> = &'a mut dyn FnMut(u64, &[u64]) -> Result<(), medium::Error>;

/// Brings home what the log holds and home does not. Durable on return: one persist barrier and one
/// for each group that is settled; none when there was nothing to replay. Without `settle`, what
/// can be read of the log is durable.
///
/// # Errors
/// A medium that cannot be read or written; a log that no crash leaves.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    mut settle: Option<Settle<'_>>,
    home: &mut dyn HomeMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    let scan = || {
        let (identity, start) = (identity(superblock), superblock.log_sequence);
        let (reproduced, heap_words) = (TxId(superblock.reproduced), superblock.heap_bytes / 8);
        Scan::new(log, identity, start, reproduced, heap_words)
    };
    let certain = if settle.is_some() { certain(scan())? } else { u64::MAX };
    let last = TxId(superblock.reproduced);
    let mut replayed = Replayed { last, transactions: 0, torn: false };
    let mut scan = scan();
    loop {
        let found = scan.next_group()?;
        match (decide_next(&found), found) {
            (Next::Apply, Found::Group { first, last }) => {
                if let Some(settle) = &mut settle
                    && scan.sequence() >= certain
                    && !planted(Mutant::LogNotSettled)
                {
                    let (at, group) = scan.group();
                    settle(at, group)?;
                }
                home.write_back(scan.payload())?;
                replayed.transactions += last.0 - first.0 + 1;
                replayed.last = last;
            }
            (Next::Refuse, Found::Damaged { at }) => {
                let at = superblock.log_offset + at;
                return Err(Error::DamagedLog { path: log_path.into(), at });
            }
            (_, found) => {
                replayed.torn = matches!(found, Found::Torn { .. });
                break;
            }
        }
    }
    if replayed.transactions > 0 && !planted(Mutant::ReplayBarrierSkipped) {
        home.barrier()?;
    }
    Ok(replayed)
}

/// Up to which sequence groups are durable for certain: later ones say that they were acknowledged.
fn certain(mut scan: Scan<'_>) -> Result<u64, medium::Error> {
    let mut certain = 0;
    while let Found::Group { .. } = scan.next_group()? {
        certain = scan.acknowledged().max(certain);
    }
    Ok(certain)
}

/// Writes a group again, durably: one persist barrier. For memory, where words are whole and those
/// that are written are those that are there: on a disk a crash could leave neither.
pub(crate) fn settle(log: &dyn LogMedium, at: u64, group: &[u64]) -> Result<(), medium::Error> {
    let mut buffer = Buffer::new(group.len());
    buffer.words_mut()[..group.len()].copy_from_slice(group);
    if log.append(at, buffer, group.len())?.is_none() {
        log.acknowledge(true)?;
    }
    Ok(())
}
