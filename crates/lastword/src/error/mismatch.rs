//! The reasons for which a log file does not belong to a pool.

use thiserror::Error;

/// The reason why a log file does not belong to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogMismatch {
    /// Neither copy of its head is valid.
    #[error("both copies of its head are damaged")]
    Damaged,
    /// Both copies of its head have valid checksums, and no update leaves such a pair.
    #[error("the copies of its head contradict each other")]
    Contradiction,
    /// It has the format of another version of Lastword.
    #[error("it has format version {found:#x}, and this program reads version {expected}")]
    Version {
        /// The version and feature bits in the file.
        found: u64,
        /// The version that this program reads.
        expected: u64,
    },
    /// It belongs to another pool.
    #[error("it belongs to pool {found:016x}, and this is pool {expected:016x}")]
    OtherPool {
        /// The pool ID in the log head.
        found: u64,
        /// The ID of this pool.
        expected: u64,
    },
    /// It belongs to another generation of the pool.
    #[error("it has generation {found}, and the pool has generation {expected}")]
    Generation {
        /// The log's generation.
        found: u64,
        /// The pool's generation.
        expected: u64,
    },
    /// Its length differs from the superblock's.
    #[error("it has {found} bytes, not {expected}")]
    Length {
        /// The actual length in bytes.
        found: u64,
        /// The required length in bytes.
        expected: u64,
    },
}
