//! The steps of a growth in the superblock and the file: see `pool/growth.rs` for the order of the
//! heap's, and `log_growth.rs` for that of the log's.

use medium::PoolFile;
use medium::mutants::{Mutant, injected};

use super::Superblock;
use crate::error::Error;

/// The greatest end of a heap in its file: a page has a number of 32 bits.
const HEAP_END_MAX: u64 = u32::MAX as u64 * 4096;

/// A step of the heap's or the log's growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthStep {
    /// The file may become longer, for a heap of so many bytes.
    Begun {
        /// The heap's bytes after the growth.
        heap_bytes: u64,
    },
    /// The file has the bytes: transactions may use them.
    Done {
        /// The heap's bytes.
        heap_bytes: u64,
    },
    /// The log's file may become longer, for a log of so many bytes.
    LogBegun {
        /// The log's bytes after the growth.
        log_bytes: u64,
    },
    /// The log has the bytes: groups may use them.
    LogDone {
        /// The log's bytes.
        log_bytes: u64,
    },
}

impl Superblock {
    /// Whether an update leaves two copies with these sizes of heap and log: a growth announces the
    /// next size first.
    pub(super) fn has_sizes_beside(&self, other: &Superblock) -> bool {
        let (old, new) = if self.edition < other.edition { (self, other) } else { (other, self) };
        let fits = |old: u64, new: u64, announced: u64| new == old || new > old && new <= announced;
        fits(old.heap_bytes, new.heap_bytes, old.growing)
            && fits(old.log_bytes, new.log_bytes, old.log_growing)
    }

    /// Records a step of a growth.
    pub(crate) fn record_growth(&mut self, step: GrowthStep) {
        match step {
            GrowthStep::Begun { heap_bytes } => self.growing = self.growing.max(heap_bytes),
            GrowthStep::Done { heap_bytes } => {
                self.heap_bytes = heap_bytes;
                // The file stays longer after an earlier growth that failed.
                self.growing = if self.growing > heap_bytes { self.growing } else { 0 };
            }
            GrowthStep::LogBegun { log_bytes } => {
                self.log_growing = self.log_growing.max(log_bytes);
            }
            GrowthStep::LogDone { log_bytes } => {
                self.log_bytes = log_bytes;
                self.log_growing = if self.log_growing > log_bytes { self.log_growing } else { 0 };
            }
        }
    }
}

/// Whether a growth has failed before it changed anything that the pool relies on.
pub(crate) fn is_harmless(error: &Error) -> bool {
    use medium::Error::{FileTooLarge, NoSpace, Truncated};
    let harmless = matches!(error, Error::Medium(NoSpace { .. } | FileTooLarge { .. }));
    // A file that another program has cut: the checks of the files report it.
    harmless || matches!(error, Error::Medium(Truncated { .. }) | Error::NoGrowth { .. })
}

/// Makes room for a heap of `to` bytes at `heap_offset` in the file, where the heap has `from`
/// bytes now. `record` writes a step to the superblock, durably. In every layout of the files the
/// heap is the last area of its file. Returns whether the heap has the bytes: before they are
/// durable in the file, `gives_up` may end the growth, which leaves the files as an error would.
pub(crate) fn extend(
    file: &PoolFile,
    heap_offset: u64,
    (from, to): (u64, u64),
    mut record: impl FnMut(GrowthStep) -> Result<(), Error>,
    gives_up: &dyn Fn() -> bool,
) -> Result<bool, Error> {
    // Before the superblock is written: no later opening would accept such a size.
    if heap_offset.saturating_add(to) > HEAP_END_MAX {
        let max_bytes = HEAP_END_MAX - heap_offset;
        return Err(Error::NoGrowth { wanted: to, max_bytes });
    }
    if gives_up() {
        return Ok(false);
    }
    if !injected(Mutant::GrowthNotAnnounced) {
        record(GrowthStep::Begun { heap_bytes: to })?;
    }
    if !file.grow_unless(heap_offset + from, heap_offset + to, gives_up)? {
        return Ok(false);
    }
    // From here on it takes one barrier to the end, and giving up would waste the blocks.
    if !injected(Mutant::GrowthNotRecorded) {
        record(GrowthStep::Done { heap_bytes: to })?;
    }
    Ok(true)
}
