//! Whether a transaction's body runs on this thread.
//!
//! A body may run again, and it holds locks of the transactional memory: running another
//! transaction inside it, or waiting for durability, would repeat effects or wait for itself. So
//! such calls are refused, and callbacks, which may make them, run when the body has ended.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

thread_local! {
    /// The mark of the transaction that is open on this thread, with [`AWAITED`], or [`NONE`].
    static INSIDE: Cell<u64> = const { Cell::new(NONE) };
    static DEFERRED: RefCell<Deferred> = const { RefCell::new(Deferred(Vec::new())) };
}

/// No transaction.
const NONE: u64 = 0;

/// Work waits for the end of this thread's transaction. A bit that no mark has.
const AWAITED: u64 = 1;

/// Work that waits for the end of a body.
struct Deferred(Vec<Box<dyn FnOnce() + Send>>);

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
        static NEXT: AtomicU64 = AtomicU64::new(NONE + 2);
        Mark(NEXT.fetch_add(2, Ordering::Relaxed)) // only its being unique counts
    }

    /// The transaction of this mark was forgotten, and has been rolled back by this thread.
    pub(crate) fn ended(&mut self) {
        let Mark(mark) = std::mem::replace(self, Mark::new());
        if INSIDE.get() & !AWAITED == mark {
            leave();
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
        if before != NONE {
            leave_ended(call, before)?;
            INSIDE.set(mark.0);
        }
        Ok(Inside(PhantomData))
    }

    /// Refuses a call that may not be made inside.
    #[inline]
    pub(crate) fn refuse(call: &'static str) -> Result<(), Error> {
        let mark = INSIDE.get();
        if mark == NONE { Ok(()) } else { leave_ended(call, mark) }
    }

    /// Runs `work` at once, or when the transaction that is open on this thread has ended, all its
    /// attempts included. It must not panic.
    pub(crate) fn after(work: impl FnOnce() + Send + 'static) {
        if Inside::refuse("callback").is_ok() {
            return work();
        }
        let mut work = Some(work);
        let kept = DEFERRED.try_with(|deferred| {
            deferred.borrow_mut().0.extend(work.take().map(|work| Box::new(work) as Box<_>));
        });
        match (kept, work) {
            // The thread is ending, and has forgotten the transaction.
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
    /// The thread ends and has forgotten a transaction that it had begun. The work runs outside of
    /// it, as it does elsewhere; what rolls the transaction back may still come.
    fn drop(&mut self) {
        let inside = INSIDE.replace(NONE);
        std::mem::take(&mut self.0).into_iter().for_each(|work| work());
        INSIDE.set(inside & !AWAITED);
    }
}

/// This thread's transaction is over.
#[inline]
fn leave() {
    if INSIDE.replace(NONE) & AWAITED != 0 {
        run_deferred();
    }
}

#[cold]
fn run_deferred() {
    // Taken first: the work may run transactions, whose ends come here too.
    let deferred = DEFERRED.try_with(|deferred| std::mem::take(&mut deferred.borrow_mut().0));
    // An error: the thread ends, and has run them.
    deferred.into_iter().flatten().for_each(|work| work());
}

/// Leaves a transaction that another thread has ended, and refuses `call` in one that is open.
#[cold]
#[inline(never)]
fn leave_ended(call: &'static str, inside: u64) -> Result<(), Error> {
    // `enter` has replaced it.
    INSIDE.set(inside);
    if is_open(inside & !AWAITED) {
        return Err(Error::InsideTransaction { call });
    }
    leave();
    Ok(())
}

/// Whether this thread's transaction is still open: another thread may have ended it.
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

    #[test]
    fn deferred_work_runs_outside_of_the_body() {
        let (told, ear) = mpsc::channel();
        let work = |name: &'static str| {
            let told = told.clone();
            move || told.send((name, Inside::enter("run", &Mark::new()).is_ok())).unwrap()
        };
        Inside::after(work("no body"));
        let inside = Inside::enter("run", &Mark::new()).unwrap();
        Inside::after(work("first"));
        Inside::after(work("second"));
        assert_eq!(ear.try_iter().collect::<Vec<_>>(), [("no body", true)]);
        drop(inside);
        assert_eq!(ear.try_iter().collect::<Vec<_>>(), [("first", true), ("second", true)]);
        drop(Inside::enter("run", &Mark::new()).unwrap());
        assert!(ear.try_recv().is_err(), "it runs once");
    }

    #[test]
    fn deferred_work_of_a_forgotten_body_runs_when_its_thread_ends() {
        let (told, ear) = mpsc::channel();
        let forgets = move || {
            std::mem::forget(Inside::enter("run", &Mark::new()).unwrap());
            Inside::after(move || told.send(Inside::refuse("wait").is_ok()).unwrap());
        };
        std::thread::spawn(forgets).join().unwrap();
        assert_eq!(ear.recv(), Ok(true));
    }
}
