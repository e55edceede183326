//! The thread that ends groups which nobody fills or waits for.
//!
//! | state | until | costs |
//! |---|---|---|
//! | asleep | the next group begins, the pool closes | nothing |
//! | looking | there is no group | a wake-up each `Options::group_time` |
//!
//! A group that lies there at two looks is ended: after the time at least, twice the time at most.
//! It is known by its `pending`, which no other group of its worker has: its end moves the clock.
//!
//! A worker wakes a sleeping timer with one load a group. Neither can miss the other: the timer
//! says that it sleeps and then looks for groups, the worker announces its group and then looks
//! whether the timer sleeps, all in one order.

use std::time::Duration;

use super::Core;
use super::group::Groups;
use crate::Error;
use crate::sync::{Arc, Ordering, fence, thread};

/// The thread of one pool.
pub(super) struct Timer {
    thread: thread::JoinHandle<()>,
}

impl Timer {
    /// Starts it.
    pub(super) fn start(core: &Arc<Core>) -> Result<Timer, Error> {
        let core = Arc::clone(core);
        let builder = thread::Builder::new().name("lastword-groups".into());
        let thread = builder.spawn(move || {
            medium::signals::block_size_signal();
            if let Some(groups) = &core.groups {
                look_on(&core, groups);
            }
        });
        Ok(Timer { thread: thread.map_err(|source| Error::Thread { source })? })
    }

    /// Stops it, and waits for its end.
    pub(super) fn stop(self, groups: &Groups) {
        // Release and then notify: a thread that wakes sees it.
        groups.closing.store(true, Ordering::Release);
        groups.begun.notify();
        // A callback that dropped the pool: this thread ends when it is through with it.
        if self.thread.thread().id() != thread::current().id() {
            // What it panicked with was printed, and has poisoned the pool.
            let _ = self.thread.join();
        }
    }
}

fn look_on(core: &Core, groups: &Groups) {
    let mut seen = Vec::new();
    loop {
        let epoch = groups.begun.epoch();
        if groups.closing.load(Ordering::Acquire) || core.check().is_err() {
            return;
        }
        match core.end_old_groups(groups, &mut seen) {
            // The pool keeps it. The next look notifies the listeners and ends this thread.
            Err(_) => continue,
            Ok(true) => groups.begun.wait(epoch, Some(groups.time)),
            Ok(false) => {
                groups.asleep.store(true, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if !core.has_groups() {
                    groups.begun.wait(epoch, None);
                }
                groups.asleep.store(false, Ordering::Relaxed);
            }
        }
    }
}

impl Core {
    /// Whether there is a group.
    pub(super) fn has_groups(&self) -> bool {
        (0..self.versions.workers()).any(|number| self.versions.pending(number).is_some())
    }

    /// Ends groups that were `seen` before; answers whether there are others.
    fn end_old_groups(&self, groups: &Groups, seen: &mut Vec<Option<u64>>) -> Result<bool, Error> {
        let mut others = false;
        seen.resize(self.versions.workers(), None);
        for (number, seen) in seen.iter_mut().enumerate() {
            let pending = self.versions.pending(number);
            if pending.is_some() && pending == *seen {
                self.end_group(groups, number)?;
            }
            others |= pending.is_some();
            *seen = pending;
        }
        Ok(others)
    }
}

/// Whether groups end by themselves.
pub(super) fn is_wanted(groups: Option<&Groups>, background: bool) -> bool {
    background && groups.is_some_and(|groups| groups.time < Duration::MAX)
}
