//! Atomics behind the loom seam; see `medium::sync`.

pub(crate) use medium::cpu::prefetch_write;
pub(crate) use medium::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Locks a mutex whose data stays valid even if a holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
