//! Commands that errors and findings advise, ready for a shell.

use std::path::Path;

use medium::quoted;

/// Returns the command that cuts a file to its length. Option `-c` makes no file where the path
/// leads to none.
pub(crate) fn truncate(path: &Path, bytes: u64) -> String {
    format!("truncate -c -s {bytes} -- {}", quoted(path))
}

/// Returns the command that makes a new log for a pool that lost its own. A log has its pool's
/// path and the suffix `.log`.
pub(crate) fn repair_without_log(log: &Path) -> String {
    format!("lastword pool check --repair --without-log -- {}", quoted(&log.with_extension("")))
}
