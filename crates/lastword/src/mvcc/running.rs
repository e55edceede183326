//! The clock and the start times of running transactions, which bound the versions that must be
//! kept.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of workers at a time.
pub(super) const WORKERS_MAX: usize = 1024;

/// No transaction runs on this worker.
const IDLE: u64 = u64::MAX;

/// The clock, and per worker a lower bound on the start of its transaction.
pub(super) struct Running {
    clock: CachePadded<AtomicU64>,
    since: Box<[CachePadded<AtomicU64>]>,
    /// Workers from this number on have never run.
    workers: AtomicUsize,
}

impl Running {
    pub(super) fn new() -> Running {
        let idle = || CachePadded::new(AtomicU64::new(IDLE));
        Running {
            clock: CachePadded::new(AtomicU64::new(0)),
            since: (0..WORKERS_MAX).map(|_| idle()).collect(),
            workers: AtomicUsize::new(0),
        }
    }

    /// Registers a worker.
    pub(super) fn enter(&self, worker: usize) {
        self.workers.fetch_max(worker + 1, Ordering::SeqCst);
    }

    /// Starts a transaction and returns its start time.
    #[inline]
    pub(super) fn start(&self, worker: usize) -> u64 {
        // Release: a thread that sees it may reuse versions that this worker's earlier transactions
        // read.
        self.since[worker].store(self.clock.load(Ordering::Relaxed), Ordering::Release);
        // Pairs with the fence of `oldest`. A thread that misses this worker's bound has read the
        // clock before, so this transaction starts at that clock or later. Without the fence that
        // thread could free a version that this transaction is about to read.
        fence(Ordering::SeqCst);
        // Acquire: commits up to this time have locked the objects they write, and this thread sees
        // the locks.
        self.clock.load(Ordering::Acquire)
    }

    /// Ends the transaction.
    #[inline]
    pub(super) fn end(&self, worker: usize) {
        // Release: as in `start`.
        self.since[worker].store(IDLE, Ordering::Release);
    }

    /// Assigns the timestamp of a commit whose objects are locked.
    #[inline]
    pub(super) fn next_time(&self) -> u64 {
        // Release: a transaction that starts at this time or later sees the locks. Acquire: so that
        // it also sees those of earlier commits.
        self.clock.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the timestamp of the last commit.
    pub(super) fn now(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// Returns a time such that no transaction that started before it runs or will run.
    pub(super) fn oldest(&self) -> u64 {
        let now = self.clock.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let workers = self.workers.load(Ordering::SeqCst);
        // Acquire: pairs with `start` and `end`.
        let since = self.since[..workers].iter().map(|since| since.load(Ordering::Acquire));
        since.fold(now, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_is_earliest_running_start() {
        let running = Running::new();
        running.enter(3);
        assert_eq!(running.oldest(), 0);
        assert_eq!((running.next_time(), running.start(3)), (1, 1));
        assert_eq!((running.next_time(), running.start(0)), (2, 2));
        assert_eq!((running.next_time(), running.oldest()), (3, 1));
        running.end(3);
        assert_eq!(running.oldest(), 2);
        running.end(0);
        assert_eq!(running.oldest(), 3);
    }
}
