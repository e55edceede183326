//! A cancellable start barrier for the threads of a measurement.
//!
//! A process limit may refuse one of the threads. At a plain barrier the other threads would then
//! wait forever.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use lastword::Error;

#[derive(Debug, Default)]
pub(crate) struct StartBarrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    /// Whether the waiting threads start; `None` until decided.
    start: Option<bool>,
}

impl StartBarrier {
    /// Waits with the other threads. Returns whether to start.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        let undecided = |state: &mut State| state.start.is_none();
        let decided = self.changed.wait_while(state, undecided);
        decided.unwrap_or_else(PoisonError::into_inner).start == Some(true)
    }

    /// Waits for this many threads, and starts them all at once.
    pub(crate) fn release(&self, threads: usize) {
        let state = self.lock();
        let missing = |state: &mut State| state.waiting < threads;
        let there = self.changed.wait_while(state, missing);
        there.unwrap_or_else(PoisonError::into_inner).start = Some(true);
        self.changed.notify_all();
    }

    /// Releases the waiting threads without a start, because a thread is missing.
    pub(crate) fn cancel(&self) {
        self.lock().start = Some(false);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a worker's thread.
///
/// # Errors
/// [`Error::Thread`]: a process limit, or no memory. The scope joins the threads that have started,
/// so they must end by themselves.
pub(crate) fn spawn<'scope, 'env, R: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    run: impl FnOnce() -> R + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, R>, Error> {
    let refused = |source: io::Error| Error::Thread { source };
    Builder::new().name("worker".into()).spawn_scoped(scope, run).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_starts_threads_when_all_wait() {
        let barrier = StartBarrier::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| barrier.wait())).collect();
            barrier.release(3);
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        });
    }

    #[test]
    fn cancelled_barrier_releases_threads() {
        let barrier = StartBarrier::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| barrier.wait())).collect();
            barrier.cancel();
            assert!(threads.into_iter().all(|thread| !thread.join().unwrap()));
        });
    }
}
