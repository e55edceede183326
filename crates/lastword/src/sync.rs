//! Synchronization primitives, replaced by those of model checkers in tests; see `medium::sync`.

use std::sync::OnceLock;
use std::time::Duration;

use medium::mutants::{Mutant, injected};
pub(crate) use medium::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, TryLockError,
    fence, spin_loop, thread,
};

/// Whether a model checker runs this code. It explores all executions, so sizes are then as small
/// as the protocol allows.
pub(crate) const MODELED: bool = false;

/// Returns the number of cores that the calling thread could use at the first call. Finding it
/// takes the system several files to read.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A fence, which this bug removes.
#[inline(always)]
pub(crate) fn fence_unless(mutant: Mutant, order: Ordering) {
    if !injected(mutant) {
        fence(order);
    }
}

/// Raises an epoch before this thread loads, with `SeqCst`, whether others wait for it. A thread
/// that counts itself as waiting, fences, and loads the epoch sees the new one, or this thread sees
/// the count. This orders the epoch against the count and nothing else: a thread that waits for
/// another value loads the epoch first, with `Acquire`. On x86 the addition is one instruction,
/// where a fence is another one of 30 to 80 ns. `release` is the order of the addition without
/// that, for mutants.
#[inline(always)]
pub(crate) fn raise(epoch: &AtomicU64, release: Ordering, unfenced: Mutant) {
    let unordered = injected(unfenced) || release != Ordering::Release;
    epoch.fetch_add(1, if unordered { release } else { Ordering::SeqCst });
}

/// Locks a mutex whose data stays valid even if a holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks a mutex if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Spins for a moment, so that two workers get out of step.
pub(crate) fn pause(spins: u64) {
    (0..spins).for_each(|_| spin_loop());
}

/// Backs off between two checks of another thread's progress.
///
/// It spins, then yields, then sleeps for times that double from 16 us to half a millisecond. A
/// wait therefore ends at most half a millisecond late, and a long wait takes little processor
/// time.
pub(crate) fn rest(look: u32) {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 32;
    match look.checked_sub(SPINS + YIELDS) {
        _ if look < SPINS => spin_loop(),
        None => thread::yield_now(),
        Some(sleeps) => thread::sleep(Duration::from_micros(16 << sleeps.min(5))),
    }
}

/// Stores a word before this thread loads the words of others. Of two threads that do so with
/// different words, at least one sees the other's. Equivalent to a store and a `SeqCst` fence,
/// which take longer.
#[inline(always)]
pub(crate) fn announce(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
}
