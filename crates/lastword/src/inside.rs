//! Detects calls from inside a transaction's body.
//!
//! A body may run again, and it holds locks of the transactional memory. A nested transaction or a
//! wait for durability inside it would repeat its effects or deadlock. Such calls return an error.
//! Callbacks, which may make them, are deferred until the body has ended.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

thread_local! {
    /// The mark of this thread's open transaction, combined with [`AWAITED`], or [`NONE`].
    static INSIDE: Cell<u64> = const { Cell::new(NONE) };
    static DEFERRED: RefCell<Deferred> = const { RefCell::new(Deferred(Vec::new())) };
}

/// No transaction.
const NONE: u64 = 0;

/// Deferred work waits for the end of this thread's transaction. No mark uses this bit.
const AWAITED: u64 = 1;

/// Work that waits for the end of a body.
struct Deferred(Vec<Box<dyn FnOnce() + Send>>);

/// Marks of forgotten transactions that another thread ended, while `INSIDE` of the forgetting
/// thread still holds them. A mark is removed when that thread begins or waits again; a thread that
/// never does leaks eight bytes.
static ENDED_ELSEWHERE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// The value of `INSIDE` during a worker's transaction. Unique in the process; a worker takes a new
/// one after a forgotten transaction.
#[derive(Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn new() -> Mark {
        static NEXT: AtomicU64 = AtomicU64::new(NONE + 2);
        Mark(NEXT.fetch_add(2, Ordering::Relaxed)) // only uniqueness matters
    }

    /// Records that this thread rolled back the forgotten transaction of this mark.
    pub(crate) fn ended(&mut self) {
        let Mark(mark) = std::mem::replace(self, Mark::new());
        if INSIDE.get() & !AWAITED == mark {
            leave();
        } else {
            ENDED_ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        }
    }
}

/// A guard for the duration of a transaction. Not `Send`: a drop on another thread would leave this
/// thread inside.
#[derive(Debug)]
pub(crate) struct Inside(PhantomData<*const ()>);

impl Inside {
    /// Enters, unless a transaction is open. `call` appears in the error.
    #[inline]
    pub(crate) fn enter(call: &'static str, mark: &Mark) -> Result<Inside, Error> {
        let before = INSIDE.replace(mark.0);
        if before != NONE {
            leave_ended(call, before)?;
            INSIDE.set(mark.0);
        }
        Ok(Inside(PhantomData))
    }

    /// Refuses a call that is not allowed inside a transaction.
    #[inline]
    pub(crate) fn refuse(call: &'static str) -> Result<(), Error> {
        let mark = INSIDE.get();
        if mark == NONE { Ok(()) } else { leave_ended(call, mark) }
    }

    /// Runs `work` now, or after this thread's open transaction with all its attempts. `work` must
    /// not panic.
    pub(crate) fn after(work: impl FnOnce() + Send + 'static) {
        if Inside::refuse("callback").is_ok() {
            return work();
        }
        let mut work = Some(work);
        let kept = DEFERRED.try_with(|deferred| {
            deferred.borrow_mut().0.extend(work.take().map(|work| Box::new(work) as Box<_>));
        });
        match (kept, work) {
            // The thread is ending and forgot the transaction: run now.
            (Err(_), Some(work)) => work(),
            _ => INSIDE.set(INSIDE.get() | AWAITED),
        }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        leave();
    }
}

impl Drop for Deferred {
    /// Runs when the thread ends with a forgotten transaction. The work runs as if outside it; the
    /// roll-back of the transaction may follow later.
    fn drop(&mut self) {
        let inside = INSIDE.replace(NONE);
        std::mem::take(&mut self.0).into_iter().for_each(|work| work());
        INSIDE.set(inside & !AWAITED);
    }
}

/// Ends this thread's transaction.
#[inline]
fn leave() {
    if INSIDE.replace(NONE) & AWAITED != 0 {
        run_deferred();
    }
}

#[cold]
fn run_deferred() {
    // Take the list first: the work may run transactions, and their ends reach this function, too.
    let deferred = DEFERRED.try_with(|deferred| std::mem::take(&mut deferred.borrow_mut().0));
    // On an error the thread is ending, and its destructor ran the work.
    deferred.into_iter().flatten().for_each(|work| work());
}

/// Leaves a transaction that another thread ended; refuses `call` if it is still open.
#[cold]
#[inline(never)]
fn leave_ended(call: &'static str, inside: u64) -> Result<(), Error> {
    // `enter` has replaced the mark: restore it.
    INSIDE.set(inside);
    if is_open(inside & !AWAITED) {
        return Err(Error::InsideTransaction { call });
    }
    leave();
    Ok(())
}

/// Whether this thread's transaction is still open; another thread may have ended it.
fn is_open(mark: u64) -> bool {
    let mut ended = ENDED_ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = ended.iter().position(|other| *other == mark);
    found.map(|at| ended.swap_remove(at)).is_none()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

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
    fn transaction_ended_elsewhere_frees_its_thread() {
        let mut mark = Mark::new();
        std::mem::forget(Inside::enter("begin", &mark).unwrap());
        std::thread::scope(|scope| {
            let end = || mark.ended();
            scope.spawn(end).join().unwrap();
        });
        assert!(Inside::refuse("wait").is_ok());
        // The next transaction has a new mark, so the thread is not taken out of it.
        std::mem::forget(Inside::enter("begin", &mark).unwrap());
        assert!(Inside::refuse("wait").is_err());
        mark.ended();
        assert!(Inside::refuse("wait").is_ok());
    }

    #[test]
    fn deferred_work_runs_after_the_body() {
        let (sender, results) = mpsc::channel();
        let work = |name: &'static str| {
            let sender = sender.clone();
            move || sender.send((name, Inside::enter("run", &Mark::new()).is_ok())).unwrap()
        };
        Inside::after(work("no body"));
        let inside = Inside::enter("run", &Mark::new()).unwrap();
        Inside::after(work("first"));
        Inside::after(work("second"));
        assert_eq!(results.try_iter().collect::<Vec<_>>(), [("no body", true)]);
        drop(inside);
        assert_eq!(results.try_iter().collect::<Vec<_>>(), [("first", true), ("second", true)]);
        drop(Inside::enter("run", &Mark::new()).unwrap());
        assert!(results.try_recv().is_err(), "work runs once");
    }

    #[test]
    fn deferred_work_runs_at_thread_exit() {
        let (sender, results) = mpsc::channel();
        let forgets = move || {
            std::mem::forget(Inside::enter("run", &Mark::new()).unwrap());
            Inside::after(move || sender.send(Inside::refuse("wait").is_ok()).unwrap());
        };
        std::thread::spawn(forgets).join().unwrap();
        assert_eq!(results.recv(), Ok(true));
    }
}
