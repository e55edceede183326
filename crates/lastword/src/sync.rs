//! The seam for concurrency; see `medium::sync`.

pub(crate) use medium::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, TryLockError,
    fence, spin_loop, thread,
};

/// Locks a mutex whose data every holder leaves whole even if it panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks a mutex if nobody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Stores what others look for before this thread looks at what they have stored: of two that do
/// so with different words, at least one sees the other. As a store and a `SeqCst` fence, which
/// order the same and take longer.
#[inline(always)]
pub(crate) fn announce(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
}
