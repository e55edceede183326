//! Whether a transaction's body runs on this thread.
//!
//! A body may run again, and it holds locks of the transactional memory: running another
//! transaction inside it, or waiting for durability, would repeat effects or wait for itself.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

thread_local! {
    /// The mark of the transaction that is open on this thread, or [`NONE`].
    static INSIDE: Cell<u64> = const { Cell::new(NONE) };
}

/// No transaction.
const NONE: u64 = 0;

/// Marks of forgotten transactions that another thread has ended, so that the thread that forgot
/// them still has them in `INSIDE`. A mark stays until that thread begins or waits again; one of a
/// thread that never does so costs eight bytes.
static ENDED_ELSEWHERE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// What `INSIDE` holds while a worker's transaction is open. No two workers of the process share
/// one, and a worker takes another when a transaction that it has begun was forgotten.
#[derive(Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn new() -> Mark {
        static NEXT: AtomicU64 = AtomicU64::new(NONE + 1);
        Mark(NEXT.fetch_add(1, Ordering::Relaxed)) // only its being unique counts
    }

    /// The transaction of this mark was forgotten, and has been rolled back by this thread.
    pub(crate) fn ended(&mut self) {
        let Mark(mark) = std::mem::replace(self, Mark::new());
        if INSIDE.get() == mark {
            INSIDE.set(NONE);
        } else {
            ENDED_ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        }
    }
}

/// Held while a transaction is open. Not `Send`: another thread's drop would leave this thread
/// inside.
#[derive(Debug)]
pub(crate) struct Inside(PhantomData<*const ()>);

impl Inside {
    /// Enters, unless a transaction is open already. `call` is named in the error.
    #[inline]
    pub(crate) fn enter(call: &'static str, mark: &Mark) -> Result<Inside, Error> {
        let before = INSIDE.replace(mark.0);
        if before != NONE && is_open(before) {
            INSIDE.set(before);
            return Err(Error::InsideTransaction { call });
        }
        Ok(Inside(PhantomData))
    }

    /// Refuses a call that may not be made inside.
    #[inline]
    pub(crate) fn refuse(call: &'static str) -> Result<(), Error> {
        let mark = INSIDE.get();
        if mark == NONE {
            return Ok(());
        }
        if is_open(mark) {
            return Err(Error::InsideTransaction { call });
        }
        INSIDE.set(NONE);
        Ok(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.set(NONE);
    }
}

/// Whether this thread's transaction is still open: another thread may have ended it.
#[cold]
#[inline(never)]
fn is_open(mark: u64) -> bool {
    let mut ended = ENDED_ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = ended.iter().position(|other| *other == mark);
    found.map(|at| ended.swap_remove(at)).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_inside_another_is_refused() {
        let (outer, inner) = (Mark::new(), Mark::new());
        let held = Inside::enter("run", &outer).unwrap();
        assert!(Inside::enter("run", &inner).is_err());
        assert!(Inside::enter("run", &outer).is_err());
        assert!(Inside::refuse("wait").is_err());
        drop(held);
        assert!(Inside::refuse("wait").is_ok());
    }

    #[test]
    fn forgotten_transaction_ended_elsewhere_frees_its_thread() {
        let mut mark = Mark::new();
        std::mem::forget(Inside::enter("begin", &mark).unwrap());
        std::thread::scope(|scope| {
            let end = || mark.ended();
            scope.spawn(end).join().unwrap();
        });
        assert!(Inside::refuse("wait").is_ok());
        // The next one has another mark: this thread's is not taken for the one that has ended.
        std::mem::forget(Inside::enter("begin", &mark).unwrap());
        assert!(Inside::refuse("wait").is_err());
        mark.ended();
        assert!(Inside::refuse("wait").is_ok());
    }
}
