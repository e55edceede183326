//! Growth of the log with the heap, while transactions go on.
//!
//! A page of a large heap is written about once in two thirds of the log. So a log that stays small
//! while its heap grows costs more and more page writes. The log doubles until it has more than an
//! eighth of the heap:
//!
//! ```text
//!   1  superblock: the log's file may become longer
//!   2  file: blocks for the new bytes; its length is durable
//!   3  log: every sequence in use has the same place in a log of twice the size, and later groups
//!      get only such sequences (`CircularLog::begin_growth`)
//!   4  superblock: the log has the new bytes
//!   5  groups may use them
//! ```
//!
//! Steps 1, 2 and 4 are durable before the next one. Without 1, a file that a crash has left longer
//! would be refused. Without 3, recovery would look for groups at the places of the other size, and
//! lose them, whether the crash comes before 4 or after it. A crash before 4 leaves the log as it
//! was, and the next growth uses the longer file.
//!
//! Commits go on meanwhile, while the log has room: the thread that takes these steps
//! ([`Pipeline::double_log`](crate::pipeline::Pipeline)) reproduces nothing in that time. If the
//! sequences in use have other places in the larger log, step 3 is tried again after the next
//! reproduce step.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, try_lock};

/// The share of the heap that its log may have.
const HEAP_SHARE: u64 = 4;

/// How the log of one pool grows.
pub(crate) struct LogGrowth {
    /// The log may double up to so many bytes.
    goal: AtomicU64,
    /// Most bytes of a log that grows with the heap.
    max: u64,
    /// Most bytes of any log on this medium.
    limit: u64,
    /// The bytes that the file is known to have for the log.
    reserved: Mutex<u64>,
}

impl LogGrowth {
    /// The growth of a log up to `max` bytes with the heap; 0: only on request. `limit`: what the
    /// medium permits.
    pub(crate) fn up_to(max: u64, limit: u64) -> LogGrowth {
        LogGrowth { goal: AtomicU64::new(0), max, limit, reserved: Mutex::new(0) }
    }

    /// Notes the heap's size.
    pub(crate) fn heap_has(&self, heap_bytes: u64) {
        self.request((heap_bytes / HEAP_SHARE).min(self.max));
    }

    /// Requests a log of up to `log_bytes` bytes.
    pub(crate) fn request(&self, log_bytes: u64) {
        // Relaxed: a step that reads an old goal comes to the new one later.
        self.goal.fetch_max(log_bytes.min(self.limit), Ordering::Relaxed);
    }

    /// Cancels the requested growth.
    pub(crate) fn cancel(&self) {
        self.goal.store(0, Ordering::Relaxed);
    }

    /// Whether a log of this size is to grow.
    pub(crate) fn is_due(&self, log_bytes: u64) -> bool {
        2 * log_bytes <= self.goal.load(Ordering::Relaxed)
    }

    /// Begins a doubling, unless another thread runs one. Returns the bytes that the file is known
    /// to have for the log.
    pub(crate) fn begin(&self) -> Option<MutexGuard<'_, u64>> {
        try_lock(&self.reserved)
    }
}
