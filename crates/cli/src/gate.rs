//! A start barrier for the threads of a measurement, which can be called off.
//!
//! A process limit may refuse one of the threads. The other threads would wait at a plain barrier
//! forever.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use lastword::Error;

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    /// Whether the waiting threads go on; `None` until decided.
    goes: Option<bool>,
}

impl Gate {
    /// Waits with the others. Returns whether to go on.
    pub(crate) fn pass(&self) -> bool {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        let undecided = |state: &mut State| state.goes.is_none();
        let decided = self.changed.wait_while(state, undecided);
        decided.unwrap_or_else(PoisonError::into_inner).goes == Some(true)
    }

    /// Waits for this many threads, and starts them at once.
    pub(crate) fn open(&self, threads: usize) {
        let state = self.lock();
        let missing = |state: &mut State| state.waiting < threads;
        let there = self.changed.wait_while(state, missing);
        there.unwrap_or_else(PoisonError::into_inner).goes = Some(true);
        self.changed.notify_all();
    }

    /// Releases the waiting threads without a start: a thread is missing.
    pub(crate) fn call_off(&self) {
        self.lock().goes = Some(false);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a worker's thread.
///
/// # Errors
/// [`Error::Thread`]: a limit of processes, or no memory. The threads that were started before are
/// joined by the scope, so they must end by themselves.
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
    fn threads_pass_when_all_are_there() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.pass())).collect();
            gate.open(3);
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        });
    }

    #[test]
    fn threads_end_when_it_is_called_off() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.pass())).collect();
            gate.call_off();
            assert!(threads.into_iter().all(|thread| !thread.join().unwrap()));
        });
    }
}
