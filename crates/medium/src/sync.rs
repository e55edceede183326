//! Seam for concurrency: protocols take every primitive for communication between threads from
//! here, so that a model checker can replace the standard library's.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
pub use std::thread;

/// Locks a mutex whose data every holder leaves whole even if it panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
