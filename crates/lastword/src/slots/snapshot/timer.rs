//! The timer thread: ends groups that have waited for [`Options::group_time`](crate::Options).
//!
//! | state | until | cost |
//! |---|---|---|
//! | asleep | the next group begins, the pool closes | none |
//! | polling | no group is left | a wake-up each `Options::group_time` |
//!
//! A group that two polls in a row find is ended: after `group_time` at least, twice that at most.
//! The timer identifies a group by its `pending` value. No other group of the same worker has it,
//! because a group's end moves the clock.
//!
//! A worker wakes a sleeping timer with one load per group. No wake-up is lost: the timer announces
//! that it sleeps and then looks for groups; the worker announces its group and then looks whether
//! the timer sleeps. A `SeqCst` fence and `SeqCst` accesses put all four in one order.

use std::time::Duration;

use super::Core;
use super::group::Groups;
use crate::Error;
use crate::sync::{Arc, Mutex, Ordering, fence, lock, thread};

/// The timer thread of one pool.
pub(super) struct Timer {
    thread: thread::JoinHandle<()>,
}

impl Timer {
    /// Starts the thread.
    pub(super) fn start(core: &Arc<Core>) -> Result<Timer, Error> {
        let core = Arc::clone(core);
        let builder = thread::Builder::new().name("lastword-groups".into());
        let thread = builder.spawn(move || {
            medium::signals::block_size_signal();
            if let Some(groups) = &core.groups {
                poll_groups(&core, groups);
            }
        });
        Ok(Timer { thread: thread.map_err(|source| Error::Thread { source })? })
    }

    fn stop(self, groups: &Groups) {
        // Release, and before the notification, so that the woken thread sees it.
        groups.closing.store(true, Ordering::Release);
        groups.begun.notify();
        // A callback may drop the pool on this thread. The thread then ends by itself after the
        // callback.
        if self.thread.thread().id() != thread::current().id() {
            // The panic message was printed, and the panic has poisoned the pool.
            let _ = self.thread.join();
        }
    }
}

/// Stops the thread of a pool, if it has one, and joins it.
pub(super) fn stop(timer: &Mutex<Option<Timer>>, groups: Option<&Groups>) {
    let timer = lock(timer).take();
    if let (Some(timer), Some(groups)) = (timer, groups) {
        timer.stop(groups);
    }
}

fn poll_groups(core: &Core, groups: &Groups) {
    let mut seen = Vec::new();
    loop {
        let epoch = groups.begun.epoch();
        if groups.closing.load(Ordering::Acquire) || core.check().is_err() {
            return;
        }
        match core.end_old_groups(groups, &mut seen) {
            // The pool keeps the error. The next poll notifies the listeners and ends this thread.
            Err(_) => continue,
            Ok(true) => groups.begun.wait(epoch, Some(groups.time)),
            Ok(false) => {
                // Announced before the search for groups: see the module.
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
    /// Whether any worker has a group.
    pub(super) fn has_groups(&self) -> bool {
        (0..self.versions.workers()).any(|number| self.versions.pending(number).is_some())
    }

    /// Ends the groups that the last poll has `seen`. Returns whether any group was pending.
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

/// Whether groups end by time.
pub(super) fn is_wanted(groups: Option<&Groups>, background: bool) -> bool {
    background && groups.is_some_and(|groups| groups.time < Duration::MAX)
}
