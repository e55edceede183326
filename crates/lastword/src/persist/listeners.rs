//! Listeners: the callbacks and tasks that a pool notifies of a transaction's outcome. The moment
//! is decided in [`waiters`](super::waiters).
//!
//! A future registers the waker of its task once. When another task polls it, it replaces that
//! waker; when dropped, it removes it. So a pool holds one waker for each living future, however
//! often it is polled. A callback stays until its outcome is known and cannot be withdrawn.
//!
//! Invariants:
//! - A registration is an ID and a serial number; no other registration of the pool has both.
//! - A listener leaves the set once: the step that notifies it takes it, or its future removes it.
//!
//! The owner keeps the set under a lock. The lock orders the end of a step against a future that
//! replaces its waker at the same time:
//! - If the future comes first, the step takes the new waker.
//! - If the step comes first, the future finds its registration missing and registers anew. A step
//!   takes only listeners whose outcome is known. The lock shows that outcome to the future, which
//!   checks it again before it returns `Pending`.
//!
//! Wakers run code of an executor, callbacks code of the program. None of it (call, clone, drop)
//! runs under that lock.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use medium::mutants::{Mutant, injected};

use crate::error::Error;
use crate::inside::Inside;

/// A receiver of a transaction's outcome.
pub enum Listener {
    /// A task, to be polled again.
    Task(Waker),
    /// A callback.
    Callback(Box<dyn FnOnce(Result<(), Error>) + Send>),
}

/// A future's registration with a pool. It belongs to one transaction ID.
#[derive(Debug, Default)]
pub struct Registration {
    serial: Option<u64>,
}

impl Registration {
    /// The serial number, if the future has registered.
    pub(crate) fn serial(&self) -> Option<u64> {
        self.serial
    }

    /// Stores the serial number of the registration.
    pub(crate) fn set(&mut self, serial: u64) {
        self.serial = Some(serial);
    }
}

/// Listeners by the ID that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    by_id: BTreeMap<(u64, u64), Listener>,
    last_serial: u64,
}

impl Listeners {
    /// Adds a listener; returns its serial number.
    pub(crate) fn add(&mut self, id: u64, listener: Listener) -> u64 {
        self.last_serial += 1;
        self.by_id.insert((id, self.last_serial), listener);
        self.last_serial
    }

    /// Replaces a future's waker. Returns the waker that is no longer needed, to be dropped after
    /// the unlock.
    ///
    /// # Errors
    /// The new waker, if a step has taken the old one.
    pub(crate) fn replace(&mut self, id: u64, serial: u64, waker: Waker) -> Result<Waker, Waker> {
        match self.by_id.get_mut(&(id, serial)) {
            Some(Listener::Task(current))
                if !current.will_wake(&waker) && !injected(Mutant::WakerNotReplaced) =>
            {
                Ok(std::mem::replace(current, waker))
            }
            Some(_) => Ok(waker),
            None => Err(waker),
        }
    }

    /// Removes a future's waker, unless a step has taken it.
    pub(crate) fn remove(&mut self, id: u64, serial: u64) -> Option<Listener> {
        self.by_id.remove(&(id, serial))
    }

    /// Removes and returns the listeners whose IDs are served. Serving an ID serves all smaller
    /// ones.
    pub(crate) fn take(&mut self, served: impl Fn(u64) -> bool) -> Vec<(u64, Listener)> {
        let mut taken = Vec::new();
        while let Some(first) = self.by_id.first_entry()
            && served(first.key().0)
        {
            let ((id, _), listener) = first.remove_entry();
            taken.push((id, listener));
        }
        taken
    }

    /// Removes and returns all tasks.
    pub(crate) fn take_tasks(&mut self) -> Vec<Listener> {
        let is_task = |listener: &Listener| matches!(listener, Listener::Task(_));
        let (tasks, rest) =
            std::mem::take(&mut self.by_id).into_iter().partition(|(_, it)| is_task(it));
        self.by_id = rest;
        let tasks: BTreeMap<(u64, u64), Listener> = tasks;
        tasks.into_values().collect()
    }

    /// Number of listeners.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

impl Listener {
    /// Wakes the task, or calls the callback. A callback that comes due inside a transaction's body
    /// runs when the body has ended: the body holds ownership records, and calls into the pool are
    /// refused in it. A task is woken in a body too. That only schedules it, and the body may be
    /// waiting for the task's next action.
    pub(crate) fn notify(self, outcome: Result<(), Error>) {
        match self {
            Listener::Task(waker) => shielded(|| waker.wake()),
            Listener::Callback(callback) => {
                Inside::after(move || shielded(|| callback(outcome)));
            }
        }
    }
}

/// Contains a panic of a listener, which must not take a step or other listeners down with it. The
/// panic hook has printed it.
fn shielded(notify: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(notify));
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Listener::Task(_) => "Task",
            Listener::Callback(_) => "Callback",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Listener {
        Listener::Task(Waker::noop().clone())
    }

    #[test]
    fn served_listeners_are_taken_in_id_order() {
        let mut listeners = Listeners::default();
        let serials = [3, 1, 2, 1].map(|id| listeners.add(id, task()));
        assert!(listeners.remove(1, serials[1]).is_some());
        assert!(listeners.remove(1, serials[1]).is_none());
        let ids = |taken: Vec<(u64, Listener)>| taken.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(listeners.take(|id| id <= 2)), [1, 2]);
        assert_eq!(listeners.len(), 1);
        assert_eq!(ids(listeners.take(|_| true)), [3]);
    }
}
