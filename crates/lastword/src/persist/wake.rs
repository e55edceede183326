//! An event that threads wait for: no lost wake-ups, and no system call without waiters.
//!
//! Invariant: a waiter that read the epoch before the state sleeps only while the epoch is
//! unchanged. A thread that changes the state raises the epoch afterwards.

use std::time::Duration;

use medium::mutants::{Mutant, planted, relax};

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence_unless, lock};

/// A recurring event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    epoch: AtomicU64,
    waiters: AtomicUsize,
    mutex: Mutex<()>,
    condvar: Condvar,
}

impl Event {
    /// Returns the epoch for [`wait`](Event::wait). Read it before the state that is waited for.
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: the waiter checks the state after this.
        self.epoch.load(Ordering::Acquire)
    }

    /// Sleeps until the event has happened since `epoch` was read, or for `longest`.
    pub(crate) fn wait(&self, epoch: u64, longest: Option<Duration>) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // SeqCst fence: either the notifier sees this waiter, or this waiter sees the new epoch.
        // Pairs with the fence in `notify`; without both, each could miss the other's store.
        fence_unless(Mutant::NoFenceInEventWait, Ordering::SeqCst);
        let mut guard = lock(&self.mutex);
        while self.epoch.load(Ordering::Acquire) == epoch {
            match longest {
                None => {
                    guard =
                        self.condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                Some(longest) => {
                    let _ = self.condvar.wait_timeout(guard, longest);
                    break;
                }
            }
        }
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all waiters.
    pub(crate) fn notify(&self) {
        // Release: a waiter that sees the epoch sees the state. Pairs with the Acquire loads above.
        self.epoch.fetch_add(1, relax(Ordering::Release, Mutant::EventEpochRaisedRelaxed));
        fence_unless(Mutant::NoFenceInEventNotify, Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            // A waiter holds this lock from its last check of the epoch until it sleeps. Taking the
            // lock therefore waits until the notification can reach it.
            if !planted(Mutant::EventNotifiesWithoutLock) {
                drop(lock(&self.mutex));
            }
            self.condvar.notify_all();
        }
    }
}
