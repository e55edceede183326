//! The items of `crate::sync` over shuttle.

use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use real_medium::mutants::{Mutant, injected};

pub(crate) use shuttle::hint::spin_loop;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, TryLockError};
pub(crate) use shuttle::thread;

/// Sizes are small.
pub(crate) const MODELED: bool = true;

/// Returns the number of cores of the modeled machine.
pub(crate) fn cores() -> usize {
    2
}

/// A fence, which this bug removes.
pub(crate) fn fence_unless(mutant: Mutant, order: Ordering) {
    if !injected(mutant) {
        fence(order);
    }
}

/// Raises an epoch before this thread loads whether others wait for it. The model checker takes
/// `SeqCst` operations for `AcqRel`, so a fence is in their place here. It orders more than they
/// do. The product's `raise` says which order a waiter may rely on.
pub(crate) fn raise(epoch: &AtomicU64, release: Ordering, unfenced: Mutant) {
    epoch.fetch_add(1, release);
    fence_unless(unfenced, Ordering::SeqCst);
}

/// A prefetch has no effect that a schedule could see.
pub(crate) fn prefetch_write<T>(_words: &[T], _index: usize) {}

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Models have no time, so a pause does nothing.
pub(crate) fn pause(_spins: u64) {}

/// Lets other threads run.
pub(crate) fn rest(_look: u32) {
    thread::yield_now();
}

/// A condition variable whose timed waits time out at once.
#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        self.0.wait(guard)
    }

    /// Returns whether the wait has timed out, which it always has.
    pub(crate) fn wait_timeout<T>(&self, guard: MutexGuard<'_, T>, _longest: Duration) -> bool {
        drop(guard);
        thread::yield_now();
        true
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
