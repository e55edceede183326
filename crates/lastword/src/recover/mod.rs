//! Recover: what a crash left becomes a state that transactions can start from.
//!
//! ```text
//!   both files: durable as they are read             } a barrier each, before anything is read
//!   scan the log from the superblock's sequence
//!     whole groups in ID order  ->  home             } one barrier in the end
//!   log head: generation + 1                         } two barriers
//!   superblock: generation + 1, reproduced ID        } two barriers
//!   only then: new records
//! ```
//!
//! The order is what makes a crash during recovery a crash like any other: until the superblock is
//! written, everything that was to be replayed still is (redo values are absolute, so replaying
//! twice is replaying once), and no new record has overwritten it. The new generation keeps what is
//! left of the old log from being taken for new: the IDs that were lost will be drawn again.
//!
//! What recovery acts on must be durable before (A11). What can be read need not be: the process
//! before may have been killed, or its write may have failed, between the cache and the disk. Were
//! a group brought home and then lost from the log by a crash, home would hold what no log tells
//! of; were a superblock believed and then lost, the log's head would get two generations ahead of
//! the one that comes back, or the only good copy would be written over. So the files are synced
//! when they are opened, and read anew from the disk: after a sync that failed, the page cache may
//! show what the disk does not have (A8).
//!
//! What to do when is decided by tables; see [`decide`].
//!
//! (DudeTM, section 3.5.)

pub(crate) mod decide;

use lw_log::{Found, Identity, Scan};
use medium::mutants::{Mutant, planted};
use medium::{HomeMedium, ReadLog};
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

/// Brings home what the log holds and home does not; what can be read of the log is durable.
/// Durable on return: one persist barrier, none when there was nothing to replay.
///
/// # Errors
/// A medium that cannot be read or written; a log that no crash leaves.
pub(crate) fn replay(
    superblock: &Superblock,
    log: &dyn ReadLog,
    home: &mut dyn HomeMedium,
    log_path: &std::path::Path,
) -> Result<Replayed, Error> {
    let heap_words = superblock.heap_bytes / 8;
    let reproduced = TxId(superblock.reproduced);
    let mut replayed = Replayed { last: reproduced, transactions: 0, torn: false };
    let mut scan =
        Scan::new(log, identity(superblock), superblock.log_sequence, reproduced, heap_words);
    loop {
        let found = scan.next_group()?;
        match (decide_next(&found), found) {
            (Next::Apply, Found::Group { first, last }) => {
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
