//! The files of a pool in use, and the changes by its owner that interrupt a reader.

use std::path::PathBuf;

use medium::{LogReader, PoolFile};

use crate::error::{Error, LogDamage};
use crate::superblock::{PairedBlock, Superblock};
use crate::sync::{Arc, Ordering, fence, thread};

/// Reads of a superblock until both copies count as damaged. A read beside a write finds one of
/// them damaged, and seldom both.
const SUPERBLOCK_READS: u32 = 100;

/// The reason why an attempt to read has ended.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The owner has overtaken the reader.
    Overtaken {
        log_bytes: u64,
    },
    /// The pool was opened or closed meanwhile, or changed its size.
    Changed,
    /// An acknowledged group is missing.
    Damaged {
        /// The file that holds the log.
        path: PathBuf,
        /// Byte offset in it.
        at: u64,
        /// The proof.
        why: LogDamage,
    },
    Failed(Error),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Interrupted {
        Interrupted::Failed(error)
    }
}

impl From<medium::Error> for Interrupted {
    fn from(error: medium::Error) -> Interrupted {
        Interrupted::Failed(error.into())
    }
}

/// The files of a pool in use, and the superblock from which the reader starts.
pub(crate) struct Source {
    pub(crate) file: Arc<PoolFile>,
    pub(crate) log: LogReader,
    /// The file that holds the log.
    pub(crate) log_place: Arc<PoolFile>,
    pub(crate) superblock: Superblock,
    /// Whether a sync makes the log's records durable that its owner has only stored yet. Where the
    /// processor's cache is durable, or durability is emulated, it would write the whole pool back
    /// in vain.
    pub(crate) syncs: bool,
}

impl Drop for Source {
    /// The owner writes past the page cache. A page there would make the kernel hand its next write
    /// to a thread.
    fn drop(&mut self) {
        if !self.superblock.log_inside {
            self.log_place.forget_pages();
        }
    }
}

impl Source {
    /// Makes later reads of the log find the groups whose words were read in the heap image.
    pub(crate) fn forget_pages(&self) {
        // The owner's fence between group and words has its counterpart here.
        fence(Ordering::SeqCst);
        // Pages may have been read ahead before the owner wrote past the page cache.
        if !self.superblock.log_inside {
            self.log_place.forget_pages();
        }
    }

    /// Checks that the pool is still as in the superblock, but for its progress, and that no log
    /// from this sequence on was reused.
    pub(super) fn check_unchanged(&self, sequence: u64) -> Result<(), Interrupted> {
        let now = self.now()?;
        let Superblock { edition, reproduced, log_sequence, clean, growing, log_growing, .. } = now;
        let progress = Superblock { edition, reproduced, log_sequence, clean, ..self.superblock };
        if (Superblock { growing, log_growing, ..progress }) != now {
            return Err(Interrupted::Changed);
        }
        match log_sequence > sequence {
            true => Err(Interrupted::Overtaken { log_bytes: now.log_bytes }),
            false => Ok(()),
        }
    }

    /// Reads the current superblock.
    pub(super) fn now(&self) -> Result<Superblock, Interrupted> {
        for _ in 0..SUPERBLOCK_READS {
            if let Ok(now) = PairedBlock::<Superblock>::read(&self.file)?.current() {
                return Ok(now);
            }
            thread::yield_now();
        }
        Err(Interrupted::Changed)
    }
}
