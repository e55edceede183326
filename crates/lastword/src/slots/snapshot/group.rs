//! Group commit: transactions of one worker that are made durable, shown and brought home together.
//!
//! ```text
//!   worker         member | not durable, its objects locked | member | ...
//!   place          empty  | group                           | empty  | group
//!   who ends it    the worker, when it has enough
//!                  in between anybody: who waits for it, who wants one of its objects, the timer
//! ```
//!
//! A member's commit returns before it is durable, and before other workers can see it; its own
//! worker sees it (`versions::member`). The group lies in its worker's *place* between two members,
//! under a lock that whoever ends it holds. Who finds the place empty, because a member is running,
//! says that the group is wanted, and the worker ends it when that member is over.
//!
//! Orders, and what goes wrong without them:
//! - `pending` is announced before the first member is over, and taken away when the group is
//!   durable and shown: what is said to be durable would not be. (`versions::seats`)
//! - A group that lies there has room for its record: who ends it waits for nobody. So nobody who
//!   waits, for room or for an object, waits for a group that waits for it.
//! - The worker that has wanted room holds no group meanwhile.
//!
//! (Pisces, section 4, *group commit*. There the thread itself ends its group, at the next
//! transaction that fills it or needs an object of it; one that does not come back would keep its
//! objects for ever.)

use std::task::Waker;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, planted};
use words::{Stop, TxId};

use super::log::Log;
use super::waiting::Waiting;
use super::{Core, Local};
use crate::options::Durability;
use crate::persist::{Event, Listener, Listeners, Registration};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, fence, lock, try_lock};
use crate::versions::{Attempt, Entry, LOOKS, Owned};
use crate::{Error, Options};

/// What there is for groups, where there are any.
pub(super) struct Groups {
    /// Transactions of a group.
    members: u64,
    pub(super) time: Duration,
    places: Box<[CachePadded<Mutex<Place>>]>,
    listeners: Mutex<Listeners>,
    /// How many of these there are, and of threads that sleep until a group has ended, at least.
    listening: AtomicUsize,
    ended: Event,
    /// There is a group; see `timer`.
    pub(super) begun: Event,
    /// The timer waits for the first group.
    pub(super) asleep: AtomicBool,
    pub(super) closing: AtomicBool,
}

/// Who sleeps looks again after that time: a pool that has failed wakes nobody.
const NAP: Duration = Duration::from_millis(10);

/// Where a worker's group lies.
#[derive(Default)]
struct Place {
    /// From its first worker on.
    log: Option<Log>,
    group: Option<Owned>,
    /// Transactions in the group.
    members: u64,
    /// Somebody waits for its end.
    wanted: bool,
    /// For reuse.
    spare: Vec<Entry>,
}

/// What has become of a member.
pub(super) enum Member {
    /// Its ID.
    Stays(u64),
    /// There is no room for its group's record with it. Words that it wants if it is alone.
    NoRoom(Option<usize>),
}

impl Groups {
    /// Groups as the options ask for; nothing where each transaction stands for itself.
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

    /// A worker comes.
    pub(super) fn enter(&self, number: usize, log: impl FnOnce() -> Log) {
        self.place(number).log.get_or_insert_with(log);
    }

    /// Has a worker's log for as long as no group of it lies there.
    pub(super) fn with_log<R>(
        &self,
        number: usize,
        work: impl FnOnce(&mut Log) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let log = self.place(number).log.take();
        let mut log = log.expect("a worker that has come has a log");
        let done = work(&mut log);
        self.place(number).log = Some(log);
        done
    }

    /// Takes the group back that the worker wants to write in.
    #[cold]
    pub(super) fn join(&self, attempt: &mut Attempt, number: usize) -> Result<(), Stop> {
        // Somebody has ended it: what this one has read of it is of another time than its start.
        let Some(group) = self.place(number).group.take() else {
            return Err(attempt.lost_its_group());
        };
        attempt.join(group);
        Ok(())
    }

    /// What a word will be when a group has ended that lies somewhere.
    pub(super) fn written(&self, core: &Core, index: usize) -> Option<u64> {
        let places = self.places.iter();
        places.rev().find_map(|place| core.versions.written(lock(place).group.as_ref()?, index))
    }
}

impl Core {
    /// The attempt is about to write: it has its group.
    #[inline(always)]
    pub(super) fn join(&self, local: &mut Local) -> Result<(), Stop> {
        match &self.groups {
            Some(groups) if local.attempt.is_lent() => {
                groups.join(&mut local.attempt, local.number)
            }
            _ => Ok(()),
        }
    }

    /// A transaction of a group commits, or leaves it.
    pub(super) fn commit_member(&self, groups: &Groups, local: &mut Local) -> Result<TxId, Stop> {
        let Local { number, attempt, wanted, .. } = local;
        match self.member_commits(groups, attempt, *number) {
            Member::NoRoom(words) => {
                *wanted = words.unwrap_or(1);
                Err(Stop::Conflict)
            }
            Member::Stays(id) => {
                self.versions.leave(&self.ground, attempt);
                Ok(TxId(id))
            }
        }
    }

    /// What has written nothing that counts is over. Answers the last ID that it may have seen.
    pub(super) fn leave_group(&self, groups: &Groups, local: &mut Local) -> TxId {
        let Local { number, attempt, wanted, .. } = local;
        if attempt.joins() {
            self.member_leaves(groups, attempt, *number, *wanted > 0)
        } else if attempt.is_lent() {
            self.versions.leave(&self.ground, attempt);
            TxId(attempt.seen())
        } else {
            TxId(self.versions.roll_back(&self.ground, attempt))
        }
    }

    /// The attempt goes on behind its group; begins again where that has ended meanwhile.
    #[inline]
    pub(super) fn look_after_group(&self, groups: &Groups, attempt: &mut Attempt, number: usize) {
        if self.versions.is_over(attempt) {
            let entries = std::mem::take(&mut groups.place(number).spare);
            self.versions.group_is_over(attempt, entries);
            // It may have begun before that end, and not see what this worker has committed.
            self.versions.begin(attempt);
        }
    }

    /// A transaction of a group commits.
    pub(super) fn member_commits(
        &self,
        groups: &Groups,
        attempt: &mut Attempt,
        number: usize,
    ) -> Member {
        let mut place = groups.place(number);
        let Place { log, members, .. } = &mut *place;
        let log = log.as_mut().expect("a worker that has come has a log");
        let (joins, has_room) = (attempt.joins(), |words| log.has_room(&self.ground, words));
        let stays = has_room(attempt.owned().words_max());
        if !stays {
            if joins {
                return Member::NoRoom(None);
            }
            log.batch.clear();
            let whole = !self.options.flush_diff;
            self.versions.changes(attempt.owned(), whole, &mut log.batch);
            if !log.has_room(&self.ground, log.batch.len()) {
                return Member::NoRoom(Some(log.batch.len()));
            }
        }
        let id = match joins {
            true => self.versions.goes_on(attempt.owned()),
            false => self.versions.pends(attempt.owned()),
        };
        *members += 1;
        // Another member could make other objects of the memory that comes back.
        let is_last = attempt.owned().gives_chunks_back();
        let is_full = !stays || is_last || *members >= groups.members;
        attempt.stays(id);
        // Before the group may end: that waits for all that run.
        self.versions.over(attempt);
        let ended = self.put_back(groups, attempt, place, is_full);
        if !ended && !joins {
            if groups.asleep.load(Ordering::SeqCst) {
                groups.begun.notify();
            }
            // What was announced first may have been too early for one of them.
            self.tell_listeners(groups);
        }
        Member::Stays(id)
    }

    /// The worker's group lies where others can end it; ends it if somebody has waited for that.
    /// Answers whether it has ended.
    fn put_back(
        &self,
        groups: &Groups,
        attempt: &mut Attempt,
        place: MutexGuard<'_, Place>,
        at_once: bool,
    ) -> bool {
        let told = Told { core: self, groups }; // dropped after the lock
        let mut place = place;
        place.group = Some(attempt.lend());
        // While the thread panics it could panic again: others end the group then.
        let ends = (at_once || place.wanted) && !std::thread::panicking();
        // An error is kept by the pool: the next transaction does not begin, and says why.
        let ended = ends && self.end(&mut place).is_ok();
        drop(place);
        if !ends {
            told.not_needed();
        }
        ended
    }

    /// A member that was taken back leaves its group; with `at_once` that ends.
    pub(super) fn member_leaves(
        &self,
        groups: &Groups,
        attempt: &mut Attempt,
        number: usize,
        at_once: bool,
    ) -> TxId {
        let seen = self.versions.roll_back_member(&self.ground, attempt);
        self.put_back(groups, attempt, groups.place(number), at_once);
        TxId(seen)
    }

    /// Makes a group durable, shows it and brings it home, if one lies there.
    fn end(&self, place: &mut Place) -> Result<(), Error> {
        let Place { log, group, members, wanted, spare } = place;
        let Some(owned) = group else { return Ok(()) };
        self.workers.poison.check()?;
        let guard = self.workers.poison.on_panic("commit");
        let log = log.as_mut().expect("a worker that has come has a log");
        log.batch.clear();
        self.versions.changes(owned, !self.options.flush_diff, &mut log.batch);
        self.versions.group_commits(owned);
        if planted(Mutant::GroupToldFirst) {
            self.versions.group_is_shown(owned);
        }
        if !self.options.unlogged
            && let Err(error) = log.persist(self, owned.start())
        {
            guard.disarm();
            return Err(self.workers.poison.put(error));
        }
        let end = self.versions.show(&self.ground, owned);
        self.finish(log.slot, owned, (end, LOOKS), &mut log.batch);
        self.versions.group_is_shown(owned);
        guard.disarm();
        (*members, *wanted) = (0, false);
        *spare = group.take().map(Owned::into_entries).unwrap_or_default();
        if log.is_short() {
            // The group is durable whatever comes of it; an error is kept by the pool.
            let _ = self.look_ahead(log);
        }
        Ok(())
    }

    /// Ends the group of a worker, or lets the worker know that somebody waits for that. Answers
    /// whether there is nothing to wait for.
    pub(super) fn end_group(&self, groups: &Groups, number: usize) -> Result<bool, Error> {
        let _told = Told { core: self, groups }; // dropped after the lock
        let mut place = groups.place(number);
        let is_there = place.group.is_some();
        place.wanted = !is_there && self.versions.pending(number).is_some();
        self.end(&mut place).map(|()| is_there)
    }

    /// As [`end_group`](Core::end_group), unless somebody is at it.
    pub(super) fn want_group(&self, groups: &Groups, number: usize) {
        let told = Told { core: self, groups }; // dropped after the lock
        match try_lock(&groups.places[number]) {
            Some(mut place) => {
                place.wanted = place.group.is_none() && self.versions.pending(number).is_some();
                let _ = self.end(&mut place); // an error is kept by the pool
            }
            None => told.not_needed(),
        }
    }

    /// Ends all groups of transactions up to this ID that lie somewhere; the others are wanted.
    pub(super) fn end_groups(&self, groups: &Groups, id: u64) -> Result<(), Error> {
        for number in 0..self.versions.workers() {
            if self.versions.pending(number).is_some_and(|before| before < id) {
                self.end_group(groups, number)?;
            }
        }
        Ok(())
    }

    /// As [`end_groups`](Core::end_groups), of all there are.
    pub(super) fn end_all_groups(&self) -> Result<(), Error> {
        self.groups.as_ref().map_or(Ok(()), |groups| self.end_groups(groups, u64::MAX))
    }

    /// Whether the pool can go on. If not, the listeners are notified.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        self.workers.poison.check().inspect_err(|_| drop(self.told()))
    }

    /// Notifies the listeners when it is dropped, whatever comes before: an error, or a panic, that
    /// has poisoned the pool. To be dropped where this thread holds no lock.
    pub(super) fn told(&self) -> Option<Told<'_>> {
        self.groups.as_ref().map(|groups| Told { core: self, groups })
    }

    /// Waits until all up to this ID are durable.
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

    /// Sleeps until groups have ended such that it is so: a member of one of them is running.
    #[cold]
    fn sleep_until(
        &self,
        groups: &Groups,
        is_so: impl Fn() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        groups.listening.fetch_add(1, Ordering::Relaxed);
        // What `is_so` looks at it looks at behind a fence: see `tell_listeners`.
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

    /// Notifies the listener when the outcome of `id` is known, at once if it is.
    pub(super) fn tell(&self, groups: &Groups, id: u64, listener: Listener) {
        groups.listening.fetch_add(1, Ordering::Relaxed);
        lock(&groups.listeners).add(id, listener);
        self.tell_listeners(groups);
    }

    /// Has a future's task woken when the outcome of `id` is known: registers the waker, or
    /// replaces the one that this future has registered before.
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
                // Nothing to look at: the registration was followed by a look, behind the fence,
                // and what has ended since then has seen it.
                Ok(unneeded) => return drop(unneeded),
                Err(new) => waker = new,
            }
        }
        groups.listening.fetch_add(1, Ordering::Relaxed);
        registration.set(lock(&groups.listeners).add(id, Listener::Task(waker)));
        self.tell_listeners(groups);
    }

    /// Notifies the listeners of what is known by now, and wakes the threads that sleep.
    pub(super) fn tell_listeners(&self, groups: &Groups) {
        // Either this thread sees the listener, or the listener sees what this one has done.
        fence(Ordering::SeqCst);
        if groups.listening.load(Ordering::Relaxed) == 0 {
            return;
        }
        groups.ended.notify();
        // Durable first: what was durable before a failure is durable.
        let durable = self.versions.durable();
        let failed = self.workers.poison.check().is_err();
        let known = lock(&groups.listeners).take(|id| failed || id <= durable);
        groups.listening.fetch_sub(known.len(), Ordering::Relaxed);
        for (id, listener) in known {
            let is_durable = id <= durable;
            listener.tell(if is_durable { Ok(()) } else { self.workers.poison.check() });
        }
    }
}

impl Groups {
    /// Removes a future's waker: the future is dropped.
    pub(super) fn forget(&self, id: u64, registration: &Registration) {
        let Some(serial) = registration.serial() else { return };
        let removed = lock(&self.listeners).remove(id, serial);
        if removed.is_some() {
            self.listening.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Listeners that have not been notified.
    pub(super) fn listeners(&self) -> usize {
        lock(&self.listeners).len()
    }
}

/// See [`Core::told`].
pub(super) struct Told<'c> {
    core: &'c Core,
    groups: &'c Groups,
}

impl Told<'_> {
    /// Nothing has ended.
    fn not_needed(self) {
        std::mem::forget(self);
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.core.tell_listeners(self.groups);
    }
}
