//! The reasons for which a log file does not belong to a pool.

use thiserror::Error;

/// Why a log file does not belong to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogMismatch {
    /// Neither copy of the log's head is valid.
    #[error("both copies of its head are damaged")]
    Damaged,
    /// Both copies of its head are whole, but no update leaves one beside the other.
    #[error("the copies of its head contradict each other")]
    Contradiction,
    /// Another version of Lastword wrote its format.
    #[error("it has format version {found:#x}, this program reads version {expected}")]
    Version {
        /// The version and features in the log's head.
        found: u64,
        /// The version that this program reads.
        expected: u64,
    },
    /// The log belongs to another pool.
    #[error("it belongs to pool {found:016x}, this is pool {expected:016x}")]
    OtherPool {
        /// The pool in the log's head.
        found: u64,
        /// This pool.
        expected: u64,
    },
    /// The log is older or newer than the pool.
    #[error("it is of generation {found}, the pool is of generation {expected}")]
    Generation {
        /// The log's generation.
        found: u64,
        /// The pool's generation.
        expected: u64,
    },
    /// The log is shorter or longer than the pool's superblock says.
    #[error("it has {found} bytes, not {expected}")]
    Length {
        /// The log's length.
        found: u64,
        /// The length in the superblock.
        expected: u64,
    },
}
