//! Default values of options, and the reasons for them.

use std::time::Duration;

#[cfg(doc)]
use crate::error::Error;

/// Default size of the heap: room for a small program, and little disk for a program that only
/// tries the library.
pub(super) const HEAP_BYTES: u64 = 8 << 20;

/// Bounds of the default log, which has a quarter of the heap's size. The lower one holds a slot of
/// 64 KiB for each of 64 workers (`undo`, `redo`, `snapshot`). The upper one was the default of
/// every pool. Rates by size: docs/operating/sizing.md, "Log".
pub(super) const LOG_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=64 << 20;

/// Upper bound of the default log where pages of the heap image are written in the background. Each
/// is written once in a part of the log, so a log that grows with the heap bounds the bytes written
/// for a transaction.
pub(super) const LOG_BYTES_PAGED: u64 = 1 << 30;

/// How long a combined group waits for more transactions, unless a thread waits for it.
pub(super) const GROUP_TIME: Duration = Duration::from_millis(1);

/// How long a worker waits for another worker's transaction before its own ends with
/// [`Error::StarvationLockHeld`], [`Error::Blocked`] or [`Error::HeldUp`]. Chosen, not measured:
/// far longer than any transaction is expected to run. A body that runs longer makes others fail.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Threads that prepare groups. On two cores a second one gained nothing on files, and cost up to
/// an eighth of the rate on `emulated`: docs/operating/performance.md, "Background threads".
pub(super) const PERSIST_THREADS: usize = 1;

/// Default number of reproduce threads. On two cores two threads were sometimes better, sometimes
/// worse, and took more CPU for each word: docs/operating/performance.md, "Background threads".
pub(super) const REPRODUCE_THREADS: usize = 1;
