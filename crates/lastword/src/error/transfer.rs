//! The errors of an export, an import or a compaction.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason why an export, an import or a compaction failed. A failed import or compaction leaves
/// no pool.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The export cannot be written.
    #[error("cannot write the export: {source}; discard the incomplete output, and export again")]
    Write {
        /// The system's reason.
        source: io::Error,
    },

    /// The export cannot be read.
    #[error("cannot read the export at byte {at}: {source}; import it again from a readable copy")]
    Read {
        /// The byte in the export.
        at: u64,
        /// The system's reason.
        source: io::Error,
    },

    /// The input does not begin as an export does.
    #[error("the input is not an export: create one with `lastword pool export`")]
    NotAnExport,

    /// An export was opened, checked or copied as if it were a pool.
    #[error("{path} is an export, not a pool: make a pool from it with `lastword pool import`")]
    IsAnExport {
        /// The file.
        path: PathBuf,
    },

    /// The export has another version of the format.
    #[error(
        "the export has format version {found:#x}, and this program reads version {expected:#x}: \
         import it with the version of Lastword that wrote it, or with a later one"
    )]
    Version {
        /// The version and feature bits in the export.
        found: u64,
        /// The version that this program reads.
        expected: u64,
    },

    /// The export ends too early.
    #[error("the export ends at byte {at}, before its content does: export the pool again")]
    Incomplete {
        /// The byte in the export.
        at: u64,
    },

    /// A checksum is wrong, the export describes objects that no pool has, or bytes follow its end.
    #[error("the export is damaged near byte {at}: use another copy, or export the pool again")]
    Damaged {
        /// The byte in the export.
        at: u64,
    },

    /// The requested heap has no room for the objects.
    #[error(
        "a heap of {heap_bytes} bytes is too small: the objects need {needed_bytes} bytes; request \
         at least that"
    )]
    HeapTooSmall {
        /// The requested size.
        heap_bytes: u64,
        /// The memory that the objects take, and the allocator's own.
        needed_bytes: u64,
    },
}
