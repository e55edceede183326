//! Locks that programs name: granted first come, first served.
//!
//! Taking one is an atomic access of its line, which lies in volatile memory, and orders like a
//! fence: the core waits for its loads and its store buffer. Giving it up is a store, which goes
//! through the store buffer like any other.

use std::collections::VecDeque;

use super::Machine;
use crate::design::Design;

/// Who has a lock, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    holder: Option<usize>,
    waiting: VecDeque<usize>,
}

impl<D: Design> Machine<D> {
    /// A core asks for a lock. Answers whether it has it; else it is woken when it has.
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

    /// Whether a core has a lock.
    pub(crate) fn has_lock(&self, core: usize, lock: u64) -> bool {
        self.locks.get(&lock).is_some_and(|it| it.holder == Some(core))
    }

    /// The holder has given it up.
    pub(crate) fn unlock(&mut self, lock: u64) {
        let it = self.locks.get_mut(&lock).expect("it is held");
        it.holder = it.waiting.pop_front();
        if let Some(next) = it.holder {
            self.wake(next, self.now);
        }
    }
}
