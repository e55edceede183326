//! The seam for concurrency: everything that protocols take from the standard library to talk
//! between threads comes through here, so that a model checker can stand in for it.

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
