//! Who runs, and since when: what old versions are kept for.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};

/// Workers at a time.
pub(super) const WORKERS_MAX: usize = 1024;

/// No transaction runs here.
const IDLE: u64 = u64::MAX;

/// The clock, and for each worker a time at which its transaction had not started.
pub(super) struct Running {
    clock: CachePadded<AtomicU64>,
    since: Box<[CachePadded<AtomicU64>]>,
    /// Workers with higher numbers have never been.
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

    /// There is such a worker.
    pub(super) fn enter(&self, worker: usize) {
        self.workers.fetch_max(worker + 1, Ordering::SeqCst);
    }

    /// A transaction starts; answers its time.
    #[inline]
    pub(super) fn start(&self, worker: usize) -> u64 {
        // Release: whoever sees it may write over what the transactions before this have read.
        self.since[worker].store(self.clock.load(Ordering::Relaxed), Ordering::Release);
        // Pairs with the fence of `oldest`: who has not seen this worker's time has read the clock
        // before, and this transaction starts then or later. Without it a version could go that it
        // is about to read.
        fence(Ordering::SeqCst);
        // Acquire: whatever committed until then has locked what it writes, and this sees it.
        self.clock.load(Ordering::Acquire)
    }

    /// The transaction has ended.
    #[inline]
    pub(super) fn end(&self, worker: usize) {
        // Release: as in `start`.
        self.since[worker].store(IDLE, Ordering::Release);
    }

    /// The time of the next commit, whose objects are locked.
    #[inline]
    pub(super) fn draw(&self) -> u64 {
        // Release: who starts at this time or later sees the locks. Acquire: and those of whoever
        // has drawn before.
        self.clock.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The time of the last commit.
    pub(super) fn now(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// No transaction runs that started before, and none will start.
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
    fn the_oldest_is_the_first_that_started() {
        let running = Running::new();
        running.enter(3);
        assert_eq!(running.oldest(), 0);
        assert_eq!((running.draw(), running.start(3)), (1, 1));
        assert_eq!((running.draw(), running.start(0)), (2, 2));
        assert_eq!((running.draw(), running.oldest()), (3, 1));
        running.end(3);
        assert_eq!(running.oldest(), 2);
        running.end(0);
        assert_eq!(running.oldest(), 3);
    }
}
