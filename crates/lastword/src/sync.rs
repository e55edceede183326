//! The seam for concurrency; see `medium::sync`.

use std::time::Duration;

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

/// Keeps this core for a moment, so that two workers get out of step.
pub(crate) fn pause(spins: u64) {
    (0..spins).for_each(|_| spin_loop());
}

/// Rests between two looks at what another thread will do: spins, then gives its core to others,
/// then sleeps, for as long as it has slept so far and at most half a millisecond. So a wait ends
/// at most half as late again as it could, and a long one takes hardly any processor time.
pub(crate) fn rest(look: u32) {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 32;
    match look.checked_sub(SPINS + YIELDS) {
        _ if look < SPINS => spin_loop(),
        None => thread::yield_now(),
        Some(sleeps) => thread::sleep(Duration::from_micros(16 << sleeps.min(5))),
    }
}

/// Stores what others look for before this thread looks at what they have stored: of two that do
/// so with different words, at least one sees the other. As a store and a `SeqCst` fence, which
/// order the same and take longer.
#[inline(always)]
pub(crate) fn announce(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
}
