//! Group commit: transactions of one worker that become durable and visible together.
//!
//! ```text
//!   worker         member | not durable, its objects locked | member | ...
//!   place          empty  | group                           | empty  | group
//!   ended by       the worker, when the group is full
//!                  in between any thread: a waiter, a writer of a locked object, the timer
//! ```
//!
//! A member's commit returns before the member is durable, and before other workers see it. Its own
//! worker sees it (`dual_version::member`). Between two members the group lies in its worker's
//! *place*, under a lock that a thread holds while it ends the group. A thread that finds the place
//! empty, because a member is running, marks the group as wanted. The worker ends it after that
//! member.
//!
//! Invariants, and the failure without each:
//! - `pending` is announced before the first member is over, and cleared when the group is durable
//!   and shown. Otherwise the durable watermark would include transactions that are not durable
//!   (`dual_version::transaction_table`).
//! - A group in its place has space for its record, so ending it never waits. Otherwise a thread
//!   that waits for space or for an object could wait for a group that waits for it.
//! - A worker holds no group while it waits for space.
//!
//! Source: Pisces, section 4, *group commit*. There a thread ends its own group, at the next
//! transaction that fills it or needs one of its objects. A thread without further transactions
//! would keep its objects locked for ever.

use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected};
use words::{Stop, TxId};

use super::log::Log;
use super::waiting::Waiting;
use super::{Core, Local};
use crate::dual_version::{Attempt, Entry, LOOKS, Owned};
use crate::options::Durability;
use crate::persist::{Event, Listener, Listeners, Registration};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, fence, lock, try_lock};
#[cfg(test)]
use crate::worker::panic_injection::{Point, point};
use crate::{Error, Options};

/// State of group commit in a pool that uses it.
pub(super) struct Groups {
    /// Transactions per group.
    members: u64,
    pub(super) time: Duration,
    places: Box<[CachePadded<Mutex<Place>>]>,
    listeners: Mutex<Listeners>,
    /// Upper bound on the listeners and the threads that sleep until a group ends.
    listening: AtomicUsize,
    /// A group has ended.
    ended: Event,
    /// A group has begun; see `timer`.
    pub(super) begun: Event,
    /// Whether the timer sleeps until a group begins.
    pub(super) asleep: AtomicBool,
    pub(super) closing: AtomicBool,
}

/// Sleeping threads poll at this interval, because a failing pool does not wake them.
const NAP: Duration = Duration::from_millis(10);

/// The place where a worker's group lies between two members.
#[derive(Default)]
struct Place {
    /// Present once the slot has had a worker.
    log: Option<Log>,
    group: Option<Owned>,
    /// Transactions in the group.
    members: u64,
    /// A thread waits for the group's end.
    wanted: bool,
    /// Memory for reuse.
    spare: Vec<Entry>,
}

/// The outcome of a member's commit.
pub(super) enum Member {
    /// The member joined the group, with this ID.
    Stays(u64),
    /// The group's record would not fit with this member. Holds the words that the member needs if
    /// it is the group's first.
    NoRoom(Option<usize>),
}

impl Groups {
    /// Creates the state that the options ask for, or `None` if each transaction commits by itself.
    pub(super) fn new(slots: usize, options: &Options) -> Option<Groups> {
        let is_waited_for = options.durability == Durability::Sync;
        (options.group > 1 && !is_waited_for).then(|| Groups {
            members: options.group,
            time: options.group_time,
            places: (0..slots).map(|_| CachePadded::default()).collect(),
            listeners: Mutex::default(),
            listening: AtomicUsize::new(0),
            ended: Event::default(),
            begun: Event::default(),
            asleep: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        })
    }

    fn place(&self, number: usize) -> MutexGuard<'_, Place> {
        lock(&self.places[number])
    }

    /// Creates the log of a worker's slot, unless an earlier worker left one.
    pub(super) fn enter(&self, number: usize, log: impl FnOnce() -> Log) {
        self.place(number).log.get_or_insert_with(log);
    }

    /// Runs `work` on a worker's log, while the place is empty.
    pub(super) fn with_log<R>(
        &self,
        number: usize,
        work: impl FnOnce(&mut Log) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let log = self.place(number).log.take();
        let mut log = log.expect("an entered worker has a log");
        let done = work(&mut log);
        self.place(number).log = Some(log);
        done
    }

    /// Takes the group back from its place, so that the worker can write in it.
    #[cold]
    pub(super) fn join(&self, attempt: &mut Attempt, number: usize) -> Result<(), Stop> {
        // Another thread has ended the group. The reads of it so far belong to a later time than
        // the start.
        let Some(group) = self.place(number).group.take() else {
            return Err(attempt.lost_its_group());
        };
        attempt.join(group);
        Ok(())
    }

    /// Copies the values that words from `first` on get when the pending groups end.
    pub(super) fn written(&self, core: &Core, first: usize, out: &mut [u64]) {
        for place in &self.places {
            if let Some(group) = &lock(place).group {
                core.versions.written(group, first, out);
            }
        }
    }
}

impl Core {
    /// Takes the worker's group back before the attempt's first write.
    #[inline(always)]
    pub(super) fn join(&self, local: &mut Local) -> Result<(), Stop> {
        match &self.groups {
            Some(groups) if local.attempt.is_lent() => {
                groups.join(&mut local.attempt, local.number)
            }
            _ => Ok(()),
        }
    }

    /// Commits a member of a group, or reports that it does not fit.
    pub(super) fn commit_member(&self, groups: &Groups, local: &mut Local) -> Result<TxId, Stop> {
        let Local { number, attempt, wanted, .. } = local;
        match self.member_commits(groups, attempt, *number) {
            Member::NoRoom(words) => {
                *wanted = words.unwrap_or(1);
                Err(Stop::Conflict)
            }
            Member::Stays(id) => {
                self.versions.leave(&self.store, attempt);
                Ok(TxId(id))
            }
        }
    }

    /// Ends a member that changed nothing or rolls back. Returns the last ID that it may have seen.
    pub(super) fn leave_group(&self, groups: &Groups, local: &mut Local) -> TxId {
        let Local { number, attempt, wanted, .. } = local;
        if attempt.joins() {
            self.member_leaves(groups, attempt, *number, *wanted > 0)
        } else if attempt.is_lent() {
            self.versions.leave(&self.store, attempt);
            TxId(attempt.seen())
        } else {
            TxId(self.versions.roll_back(&self.store, attempt))
        }
    }

    /// Checks the worker's group at the beginning of an attempt. If it has ended, the attempt
    /// begins again.
    #[inline]
    pub(super) fn look_after_group(&self, groups: &Groups, attempt: &mut Attempt, number: usize) {
        if self.versions.is_over(attempt) {
            let entries = std::mem::take(&mut groups.place(number).spare);
            self.versions.group_is_over(attempt, entries);
            // The attempt may have begun before that end, and would miss its worker's own commits.
            self.versions.begin(attempt);
        }
    }

    /// Adds a committing member to its worker's group, and ends the group if it is full.
    pub(super) fn member_commits(
        &self,
        groups: &Groups,
        attempt: &mut Attempt,
        number: usize,
    ) -> Member {
        let mut place = groups.place(number);
        let Place { log, members, .. } = &mut *place;
        let log = log.as_mut().expect("an entered worker has a log");
        let (joins, has_room) = (attempt.joins(), |words| log.has_room(&self.store, words));
        // The upper bound is cheap. The exact size matters only to a group's first member.
        let stays = has_room(attempt.owned().words_max());
        if !stays {
            if joins {
                // The group ends without this member, which runs again as the first of the next
                // group.
                return Member::NoRoom(None);
            }
            log.batch.clear();
            let whole = !self.options.flush_diff;
            self.versions.changes(attempt.owned(), whole, &mut log.batch);
            if !log.has_room(&self.store, log.batch.len()) {
                return Member::NoRoom(Some(log.batch.len()));
            }
        }
        let id = match joins {
            true => self.versions.continue_group(attempt.owned()),
            false => self.versions.begin_group(attempt.owned()),
        };
        #[cfg(test)]
        point(Point::Assigned);
        *members += 1;
        // A later member could reuse the run that this one frees for other objects, so the group
        // ends here.
        let is_last = attempt.owned().gives_runs_back();
        let is_full = !stays || is_last || *members >= groups.members;
        attempt.stays(id);
        // Over before the group may end, because that waits for every running transaction.
        self.versions.over(attempt);
        let ended = self.put_back(groups, attempt, place, is_full);
        if !ended && !joins {
            if groups.asleep.load(Ordering::SeqCst) {
                groups.begun.notify();
            }
            // An early announcement of `pending` may have lowered the watermark that a listener was
            // checked against; see `pends`.
            self.notify_listeners(groups);
        }
        Member::Stays(id)
    }

    /// Puts the worker's group into its place, and ends it if `at_once` or if a thread waits for
    /// that. Returns whether it has ended.
    fn put_back(
        &self,
        groups: &Groups,
        attempt: &mut Attempt,
        place: MutexGuard<'_, Place>,
        at_once: bool,
    ) -> bool {
        let notify = NotifyOnDrop { core: self, groups }; // drops after the lock
        let mut place = place;
        place.group = Some(attempt.lend());
        // A panicking thread could panic again here, so it leaves the group to other threads.
        let ends = (at_once || place.wanted) && !std::thread::panicking();
        // The pool keeps the error, and the next transaction fails to begin with it.
        let ended = ends && self.end(&mut place).is_ok();
        drop(place);
        if !ends {
            notify.cancel();
        }
        ended
    }

    /// Removes a rolled-back member from its group. With `at_once` the group then ends.
    pub(super) fn member_leaves(
        &self,
        groups: &Groups,
        attempt: &mut Attempt,
        number: usize,
        at_once: bool,
    ) -> TxId {
        let seen = self.versions.roll_back_member(&self.store, attempt);
        self.put_back(groups, attempt, groups.place(number), at_once);
        #[cfg(test)]
        point(Point::Recorded);
        TxId(seen)
    }

    /// Makes the group in a place durable, shows it and applies it to the heap. Does nothing if
    /// there is none.
    fn end(&self, place: &mut Place) -> Result<(), Error> {
        let Place { log, group, members, wanted, spare } = place;
        let Some(owned) = group else { return Ok(()) };
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("commit");
        let log = log.as_mut().expect("an entered worker has a log");
        log.batch.clear();
        self.versions.changes(owned, !self.options.flush_diff, &mut log.batch);
        // Announced before the record's stamp is read: see `dual_version::transaction_table`.
        self.versions.group_commits(owned);
        #[cfg(test)]
        point(Point::GroupEnds);
        if injected(Mutant::GroupNotifiedFirst) {
            self.versions.group_is_shown(owned);
        }
        if !self.options.unlogged
            && let Err(error) = log.persist(self, owned.start())
        {
            guard.disarm();
            return Err(self.workers.poison.put(error));
        }
        #[cfg(test)]
        point(Point::Recorded);
        let shown = self.versions.show(&self.store, owned);
        self.finish(log.slot, owned, (shown, LOOKS), &mut log.batch);
        self.versions.group_is_shown(owned);
        guard.disarm();
        (*members, *wanted) = (0, false);
        *spare = group.take().map(Owned::into_entries).unwrap_or_default();
        if log.is_short() {
            // The group is durable whatever this returns; the pool keeps an error.
            let _ = self.look_ahead(log);
        }
        Ok(())
    }

    /// Ends the group of a worker, or marks it as wanted while a member runs. Returns whether the
    /// group was in its place.
    pub(super) fn end_group(&self, groups: &Groups, number: usize) -> Result<bool, Error> {
        let _notify = NotifyOnDrop { core: self, groups }; // drops after the lock
        let mut place = groups.place(number);
        let is_there = place.group.is_some();
        place.wanted = !is_there && self.versions.pending(number).is_some();
        self.end(&mut place).map(|()| is_there)
    }

    /// Does the same as [`end_group`](Core::end_group), unless another thread holds the place.
    pub(super) fn want_group(&self, groups: &Groups, number: usize) {
        let notify = NotifyOnDrop { core: self, groups }; // drops after the lock
        match try_lock(&groups.places[number]) {
            Some(mut place) => {
                place.wanted = place.group.is_none() && self.versions.pending(number).is_some();
                let _ = self.end(&mut place); // the pool keeps the error
            }
            None => notify.cancel(),
        }
    }

    /// Ends all groups that lie in their places and have transactions up to this ID. Marks the
    /// others as wanted.
    pub(super) fn end_groups(&self, groups: &Groups, id: u64) -> Result<(), Error> {
        for number in 0..self.versions.workers() {
            if self.versions.pending(number).is_some_and(|before| before < id) {
                self.end_group(groups, number)?;
            }
        }
        Ok(())
    }

    /// Ends or marks all groups. Returns whether there were any.
    pub(super) fn end_all_groups(&self) -> Result<bool, Error> {
        let Some(groups) = &self.groups else { return Ok(false) };
        let had = self.has_groups();
        self.end_groups(groups, u64::MAX).map(|()| had)
    }

    /// Returns the error of a poisoned pool, after notifying its listeners.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        self.workers.poison.check().inspect_err(|_| drop(self.notify_on_drop()))
    }

    /// Returns a guard that notifies the listeners when it is dropped, also after an error or a
    /// panic that has poisoned the pool. Drop it where this thread holds no lock.
    pub(super) fn notify_on_drop(&self) -> Option<NotifyOnDrop<'_>> {
        self.groups.as_ref().map(|groups| NotifyOnDrop { core: self, groups })
    }

    /// Waits until all transactions up to this ID are durable.
    pub(super) fn wait_for_groups(&self, groups: &Groups, id: u64) -> Result<(), Error> {
        let mut waiting = Waiting::begin(self);
        let is_durable = || {
            self.end_groups(groups, id)?;
            Ok(self.versions.durable() >= id)
        };
        while !is_durable()? {
            if waiting.has_spun()? {
                return self.sleep_until(groups, is_durable);
            }
        }
        Ok(())
    }

    /// Sleeps until `is_so` returns true. A member of an awaited group is running.
    #[cold]
    fn sleep_until(
        &self,
        groups: &Groups,
        is_so: impl Fn() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        groups.listening.fetch_add(1, Ordering::Relaxed);
        // `is_so` reads its state after a fence: see `notify_listeners`.
        let done = loop {
            let epoch = groups.ended.epoch();
            match is_so().and_then(|so| self.workers.poison.check().map(|()| so)) {
                Ok(false) => groups.ended.wait(epoch, Some(NAP)),
                done => break done.map(drop),
            }
        };
        groups.listening.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Notifies the listener when the outcome of `id` is known, at once if it already is.
    pub(super) fn add_listener(&self, groups: &Groups, id: u64, listener: Listener) {
        groups.listening.fetch_add(1, Ordering::Relaxed);
        lock(&groups.listeners).add(id, listener);
        self.notify_listeners(groups);
    }

    /// Registers a future's waker for the outcome of `id`, or replaces the waker that the same
    /// future has registered before.
    pub(super) fn listen(
        &self,
        groups: &Groups,
        id: u64,
        mut waker: Waker,
        registration: &mut Registration,
    ) {
        if let Some(serial) = registration.serial() {
            let replaced = lock(&groups.listeners).replace(id, serial, waker);
            match replaced {
                // No check is needed. One followed the registration, after the fence, and every
                // group that ended since then has seen the registration.
                Ok(unneeded) => return drop(unneeded),
                Err(new) => waker = new,
            }
        }
        groups.listening.fetch_add(1, Ordering::Relaxed);
        registration.set(lock(&groups.listeners).add(id, Listener::Task(waker)));
        self.notify_listeners(groups);
    }

    /// Notifies the listeners whose outcome is known, and wakes the sleeping threads.
    pub(super) fn notify_listeners(&self, groups: &Groups) {
        // Either this thread sees the listener, or the listener sees this thread's stores.
        fence(Ordering::SeqCst);
        if groups.listening.load(Ordering::Relaxed) == 0 {
            return;
        }
        groups.ended.notify();
        // Read before the failure: transactions durable before a failure stay durable.
        let durable = self.versions.durable();
        let failed = self.workers.poison.check().is_err();
        let known = lock(&groups.listeners).take(|id| failed || id <= durable);
        groups.listening.fetch_sub(known.len(), Ordering::Relaxed);
        for (id, listener) in known {
            let is_durable = id <= durable;
            listener.notify(if is_durable { Ok(()) } else { self.workers.poison.check() });
        }
    }
}

impl Groups {
    /// Removes the waker of a dropped future.
    pub(super) fn forget(&self, id: u64, registration: &Registration) {
        let Some(serial) = registration.serial() else { return };
        let removed = lock(&self.listeners).remove(id, serial);
        if removed.is_some() {
            self.listening.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of listeners that have not been notified.
    pub(super) fn listeners(&self) -> usize {
        lock(&self.listeners).len()
    }
}

/// A guard that notifies the listeners; see [`Core::notify_on_drop`].
pub(super) struct NotifyOnDrop<'c> {
    core: &'c Core,
    groups: &'c Groups,
}

impl NotifyOnDrop<'_> {
    /// Drops the guard without notifying: no group has ended.
    fn cancel(self) {
        std::mem::forget(self);
    }
}

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.core.notify_listeners(self.groups);
    }
}

#[cfg(test)]
mod panics;
