//! Admission of workers and calls to a pool that closes: the shutdown has the pool for itself.

use crate::admission::Admission;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use std::time::Duration;

/// The pool, and the uses of it that have begun and ended.
#[derive(Default)]
struct Pool {
    admission: Admission,
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Pool {
    /// Uses the pool. Relaxed: only the admission orders it.
    fn use_it(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A worker, a call and a shutdown at the same time.
pub(crate) fn closed_pool_has_no_users() {
    explore(Some(2), || {
        let pool = Arc::new(Pool::default());
        let (calling, working) = (Arc::clone(&pool), Arc::clone(&pool));
        let caller = thread::spawn(move || {
            let call = calling.admission.try_call();
            call.as_ref().inspect(|_| calling.use_it());
            call.is_some()
        });
        let worker = thread::spawn(move || {
            let number = working.admission.enter("a design", 1);
            if let Ok(number) = number {
                working.use_it();
                working.admission.leave(number, true);
            }
            number.is_ok()
        });
        let closing = pool.admission.drain(Duration::MAX, || ()).expect("all users leave");
        let (begun, ended) =
            (pool.begun.load(Ordering::Relaxed), pool.ended.load(Ordering::Relaxed));
        assert_eq!(begun, ended, "in use");
        drop(closing);
        assert!(pool.admission.is_closed() && pool.admission.try_call().is_none());
        let users = [caller, worker].map(|user| user.join().expect("the thread does not panic"));
        let admitted = users.iter().filter(|admitted| **admitted).count() as u64;
        assert_eq!(ended, admitted, "in use");
    });
}
