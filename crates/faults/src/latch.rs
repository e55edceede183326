//! A latch at which calls wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A latch at which calls wait until it is opened.
#[derive(Debug, Default)]
pub struct Latch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    waiting: u64,
}

impl Latch {
    /// Waits until the latch is open.
    pub(crate) fn pass(&self) {
        let mut state = self.state();
        state.waiting += 1;
        self.changed.notify_all();
        state = self.until(state, |state| state.is_open);
        state.waiting -= 1;
    }

    /// Waits until a call waits at the closed latch.
    pub fn wait_for_call(&self) {
        drop(self.until(self.state(), |state| state.waiting > 0));
    }

    /// Returns the number of calls that wait.
    pub fn waiting(&self) -> u64 {
        self.state().waiting
    }

    /// Lets all calls pass.
    pub fn open(&self) {
        self.state().is_open = true;
        self.changed.notify_all();
    }

    /// Lets no further call pass.
    pub fn close(&self) {
        self.state().is_open = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until<'a>(
        &self,
        state: MutexGuard<'a, State>,
        ends: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waits = |state: &mut State| !ends(state);
        self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
    }
}
