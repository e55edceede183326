//! A recurring event that threads wait for, such as work for a background thread.
//!
//! A waiter reads the epoch before the state that it waits for. A thread that changes the state
//! raises the epoch afterwards.
//!
//! Invariants:
//! - A waiter sleeps only while the epoch has not moved since it was read.
//! - While a waiter sleeps, `awaited` is set, or a notification that has cleared it is about to
//!   wake the waiter.

use std::time::Duration;

use medium::mutants::{Mutant, injected, relax};

use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence_unless, lock, raise};

/// A recurring event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    epoch: AtomicU64,
    /// Whether a thread sleeps, or is about to. The thread that wakes it clears this, so that of
    /// many notifications before it runs only the first makes a system call.
    awaited: AtomicBool,
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
        let mut guard = lock(&self.mutex);
        let mut first = true;
        loop {
            // Before each sleep: a notification that raised the epoch before this call may clear
            // it, and wake this thread for nothing. It must not sleep uncounted after that.
            if first || !injected(Mutant::EventAwaitedOnce) {
                self.awaited.store(true, Ordering::Relaxed);
            }
            first = false;
            // SeqCst fence: either the notifier sees this waiter, or this waiter sees the new
            // epoch. Pairs with `raise` in `notify`; without both, each could miss the other's
            // store.
            fence_unless(Mutant::NoFenceInEventWait, Ordering::SeqCst);
            if self.epoch.load(Ordering::Acquire) != epoch {
                return;
            }
            match longest {
                None => {
                    guard =
                        self.condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                Some(longest) => {
                    let _ = self.condvar.wait_timeout(guard, longest);
                    return;
                }
            }
        }
    }

    /// Wakes all waiters.
    pub(crate) fn notify(&self) {
        // Release: a waiter that sees the epoch sees the state. Pairs with the Acquire loads above.
        let release = relax(Ordering::Release, Mutant::EventEpochRaisedRelaxed);
        // Pairs with the fence in `wait`; SeqCst belongs to it.
        raise(&self.epoch, release, Mutant::NoFenceInEventNotify);
        if self.awaited.load(Ordering::SeqCst) && self.awaited.swap(false, Ordering::Relaxed) {
            // A waiter holds this lock from its last check of the epoch until it sleeps. Taking the
            // lock therefore waits until the notification can reach it.
            if !injected(Mutant::EventNotifiesWithoutLock) {
                drop(lock(&self.mutex));
            }
            self.condvar.notify_all();
        }
    }
}
