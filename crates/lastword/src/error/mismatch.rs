//! The reasons for which a file does not belong to a pool or a program.

use std::path::Path;

use thiserror::Error;
use words::TxId;

use super::commands;

/// Returns a layout as it is printed; `none` for a pool that was created without one.
pub(crate) fn layout(name: &str, version: u64) -> String {
    match (name, version) {
        ("", 0) => "none".into(),
        _ => format!("{name:?} version {version}"),
    }
}

/// Returns why a program cannot open a pool with this layout.
pub(super) fn other_layout(
    (found, found_version): (&str, u64),
    (expected, expected_version): (&str, u64),
    migrating: bool,
) -> String {
    let has = layout(found, found_version);
    if migrating {
        return format!(
            "a migration from layout {has} is unfinished: open it with a program that has this \
             `Options::migrate` and all later ones up to its own version"
        );
    }
    let expected = layout(expected, expected_version);
    format!(
        "it has layout {has}, not {expected}: open it with the program that created it, or add \
         `Options::migrate`"
    )
}

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

impl LogMismatch {
    /// Returns whether the log is of a later opening of the pool, so the pool's file is an older
    /// copy.
    pub(crate) fn is_later(self) -> bool {
        matches!(self, LogMismatch::Generation { found, expected } if found > expected)
    }
}

/// Returns the remedy for a pool without its log.
pub(super) fn without(path: &Path, needed_after: Option<TxId>) -> String {
    let Some(last) = needed_after else {
        return format!(
            "; the pool was closed cleanly, so its heap is whole: put the log back, or open the \
             pool with the option `without_log` (`{}`), which makes a new log",
            commands::repair_without_log(path)
        );
    };
    format!(
        ", and the pool was not closed cleanly: transactions after {last} may be in its log alone; \
         put the log back, or restore both files from the same backup"
    )
}

/// Returns the remedy for a pool whose log file is another file.
pub(super) fn not_ours(path: &Path, why: &LogMismatch, needed_after: Option<TxId>) -> String {
    match why {
        LogMismatch::Version { .. } => {
            ": open the pool with the version of Lastword that wrote it".into()
        }
        LogMismatch::Length { found, expected } if found > expected => format!(
            ": remove the appended bytes (`{}`){}",
            commands::truncate(path, *expected),
            without(path, needed_after)
        ),
        LogMismatch::Generation { found, expected } if found > expected => {
            ": the pool's file is an older copy; put back the file that belongs to this log, or \
             restore both files from the same backup"
                .into()
        }
        _ => without(path, needed_after),
    }
}
