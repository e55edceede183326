//! Named locks of programs, granted first come, first served.
//!
//! Acquiring a lock is an atomic access to its line in volatile memory, and orders like a fence:
//! the core first waits for its loads and its store buffer. Releasing it is an ordinary buffered
//! store.

use std::collections::VecDeque;

use super::Machine;
use crate::design::Design;

/// A lock's holder and its waiting cores, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    holder: Option<usize>,
    waiting: VecDeque<usize>,
}

impl<D: Design> Machine<D> {
    /// Requests a lock for a core. Returns whether the core has it; otherwise the core is woken
    /// later.
    pub(crate) fn ask_lock(&mut self, core: usize, lock: u64) -> bool {
        let it = self.locks.entry(lock).or_default();
        match it.holder {
            None => it.holder = Some(core),
            Some(holder) if holder == core => {}
            Some(_) => {
                it.waiting.push_back(core);
                return false;
            }
        }
        true
    }

    /// Returns whether a core holds a lock.
    pub(crate) fn has_lock(&self, core: usize, lock: u64) -> bool {
        self.locks.get(&lock).is_some_and(|it| it.holder == Some(core))
    }

    /// Releases a lock and grants it to the oldest waiter.
    pub(crate) fn unlock(&mut self, lock: u64) {
        let it = self.locks.get_mut(&lock).expect("it is held");
        it.holder = it.waiting.pop_front();
        if let Some(next) = it.holder {
            self.wake(next, self.now);
        }
    }
}
