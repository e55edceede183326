//! What workers show each other, and what follows from it: who may still need an old version, and
//! what is not at home yet.
//!
//! ```text
//!   worker             begins      commits              all of it is at home
//!   active      idle | start .................. | idle
//!   committing  idle           | start ........ | idle       until it is in `waiting`
//!   waiting     idle                      | start ..... | idle
//! ```
//!
//! A value stands in the next word before it leaves the one before, and who looks goes from left to
//! right, so nobody is missed.
//!
//! *The grace period.* Who has committed at time `end` may overwrite home when every transaction
//! that began before `end` is over. Either it sees that one's `active`, or that one sees a clock of
//! `end` at least: both store, then a `SeqCst` fence, then load what the other has stored. A
//! transaction that does not see `end` yet needs home as it is; one that does reads the copy.
//! (Pisces, section 3.1, algorithm 1, lines 2 to 4 and 52 to 54.)
//!
//! *Groups.* (See `member`.)
//!
//! ```text
//!   first member       begins      commits                    ends
//!   active      idle | start ... | idle
//!   grouped     idle           | start ....................... | idle
//!   committing  idle                              | start .... | idle
//!   pending     idle              | clock ....................... | idle    it is shown
//! ```
//!
//! A member's ID is the clock when it commits, plus one: no more than the time at which its group
//! will end, and more than that of all that it may have seen of others. So IDs of different workers
//! are equal only where neither knows of the other. What is durable is everything up to the clock,
//! but no more than any `pending`: either whoever asks sees `pending`, or the first member's ID was
//! read from the clock later than what is answered, by the same fences as below.
//!
//! *The frontier.* A record's stamp is above the start of its transaction. So every record up to
//! the smallest start of what is not at home, and up to the clock as it was before looking, is at
//! home: a transaction that was not seen has loaded the clock later, by the same fences. So has a
//! group, which announces `committing` before its stamp is read. (P-2 of
//! section 3.2; a worker with nothing unfinished does not count, however long it is idle.)

use crossbeam_utils::CachePadded;

use super::link::WORKERS_MAX;
use super::write_back::Waiting;
use crate::Error;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, announce, fence};
use std::sync::OnceLock;

/// No transaction.
pub(super) const IDLE: u64 = u64::MAX;

/// What one worker shows.
pub(super) struct Seat<M> {
    /// Where the running attempt began; a little earlier while it begins.
    active: AtomicU64,
    committing: AtomicU64,
    /// Where the first of those began that are in `queue`.
    waiting: AtomicU64,
    /// Where the first transaction of its group began that has not ended.
    grouped: AtomicU64,
    /// The clock before that one committed, or a little earlier.
    pending: AtomicU64,
    /// The last ID that a member of its groups was given.
    given: AtomicU64,
    /// Its committed transactions that are not at home, in their order.
    pub(super) queue: Mutex<Waiting>,
    /// The words of its copies, from its first worker on.
    pub(super) copies: OnceLock<M>,
}

impl<M> Seat<M> {
    fn new() -> Seat<M> {
        Seat {
            active: AtomicU64::new(IDLE),
            committing: AtomicU64::new(IDLE),
            waiting: AtomicU64::new(IDLE),
            grouped: AtomicU64::new(IDLE),
            pending: AtomicU64::new(IDLE),
            given: AtomicU64::new(0),
            queue: Mutex::default(),
            copies: OnceLock::new(),
        }
    }

    /// A transaction begins; answers where.
    #[inline(always)]
    pub(super) fn begin(&self, clock: &AtomicU64) -> u64 {
        let early = clock.load(Ordering::Relaxed);
        announce(&self.active, early);
        // SeqCst, as what is announced: see the module.
        let start = clock.load(Ordering::SeqCst);
        if start != early {
            // Nobody is kept longer than needed; who has seen the earlier time looks again.
            self.active.store(start, Ordering::Release);
        }
        start
    }

    /// It reads no more, and changes nothing.
    #[inline(always)]
    pub(super) fn over(&self) {
        // Release: what it has read was loaded before home may be overwritten.
        self.active.store(IDLE, Ordering::Release);
    }

    /// It reads no more, and commits what it has changed.
    #[inline(always)]
    pub(super) fn commit(&self, start: u64) {
        self.committing.store(start, Ordering::Release);
        self.over();
    }

    /// The first transaction of a group commits, which began at `start`. Answers its ID: see the
    /// module.
    #[inline]
    pub(super) fn pends(&self, start: u64, clock: &AtomicU64) -> u64 {
        // Before it leaves `active`.
        self.grouped.store(start, Ordering::Release);
        let early = clock.load(Ordering::Relaxed);
        announce(&self.pending, early);
        // SeqCst, as what is announced.
        let now = clock.load(Ordering::SeqCst);
        if now != early {
            self.pending.store(now, Ordering::Release);
        }
        self.gives(now + 1)
    }

    /// The ID of a later member of the group.
    #[inline]
    pub(super) fn goes_on(&self, clock: &AtomicU64) -> u64 {
        self.gives(clock.load(Ordering::SeqCst) + 1)
    }

    #[inline]
    fn gives(&self, id: u64) -> u64 {
        self.given.store(id, Ordering::Release);
        id
    }

    /// A group commits that began at `start`, whosever thread this is.
    #[inline]
    pub(super) fn commit_apart(&self, start: u64, clock: &AtomicU64) {
        announce(&self.committing, start);
        // SeqCst: the stamp, which is read from the clock later, is above every frontier that does
        // not count this one, as in `begin`.
        clock.load(Ordering::SeqCst);
    }

    /// The group is durable, and shown.
    #[inline]
    pub(super) fn group_is_shown(&self) {
        self.grouped.store(IDLE, Ordering::Release);
        // Release: who counts on what is durable sees what it was.
        self.pending.store(IDLE, Ordering::Release);
    }

    /// The ID before the first one of its group, if there is one that is not durable.
    #[inline]
    pub(super) fn pending(&self) -> Option<u64> {
        Some(self.pending.load(Ordering::SeqCst)).filter(|pending| *pending != IDLE)
    }

    /// It stands in the queue, or will never be at home by itself.
    #[inline(always)]
    pub(super) fn committed(&self) {
        self.committing.store(IDLE, Ordering::Release);
    }

    /// Where the first transaction in the queue began. Called by who has the queue.
    #[inline(always)]
    pub(super) fn waits_from(&self, start: Option<u64>) {
        self.waiting.store(start.unwrap_or(IDLE), Ordering::Release);
    }

    /// Whether nothing stands in its queue.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == IDLE
    }

    /// Whether it runs nothing and has left something in its queue.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        !self.is_empty()
            && self.active.load(Ordering::Relaxed) == IDLE
            && self.committing.load(Ordering::Relaxed) == IDLE
    }

    /// The smallest start of what is not at home.
    fn unfinished(&self) -> u64 {
        // Acquire, in this order: see the module.
        let active = self.active.load(Ordering::Acquire);
        let committing = self.committing.load(Ordering::Acquire);
        active.min(committing).min(self.waiting.load(Ordering::Acquire))
    }
}

impl<M> Seat<M> {
    /// As `unfinished`, and what waits in a group.
    fn unfinished_or_grouped(&self) -> u64 {
        // Acquire, and in the order in which a group goes: see the module.
        let active = self.active.load(Ordering::Acquire);
        let grouped = self.grouped.load(Ordering::Acquire);
        active.min(grouped).min(self.unfinished())
    }
}

/// All workers.
pub(super) struct Seats<M> {
    seats: Box<[CachePadded<Seat<M>>]>,
    /// Seats from this one on were never used.
    used: AtomicUsize,
    /// The largest ID that was ever said to be durable.
    told: AtomicU64,
}

impl<M> Seats<M> {
    pub(super) fn new(seats: usize) -> Seats<M> {
        let seats = (0..seats.min(WORKERS_MAX)).map(|_| CachePadded::new(Seat::new()));
        Seats { seats: seats.collect(), used: AtomicUsize::new(0), told: AtomicU64::new(0) }
    }

    /// A worker takes the seat of its number; `copies` makes its memory, once.
    pub(super) fn enter(
        &self,
        number: usize,
        copies: impl FnOnce() -> Result<M, Error>,
    ) -> Result<(), Error> {
        let seat = &self.seats[number];
        if seat.copies.get().is_none() {
            // One worker has this number at a time, so nobody else has set it since.
            let _ = seat.copies.set(copies()?);
        }
        // Before its first transaction announces itself: who looks after that counts it. SeqCst, as
        // what is announced.
        self.used.fetch_max(number + 1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> Option<&Seat<M>> {
        self.seats.get(number).map(|seat| &**seat)
    }

    #[inline(always)]
    pub(super) fn seat(&self, number: usize) -> &Seat<M> {
        &self.seats[number]
    }

    /// The seats that a worker has ever had.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = &Seat<M>> {
        self.seats[..self.used.load(Ordering::Acquire)].iter().map(|seat| &**seat)
    }

    /// Where the oldest running transaction began: who ended at this time or before may overwrite
    /// home. Called behind the addition that drew that time.
    #[inline]
    pub(super) fn oldest(&self) -> u64 {
        fence(Ordering::SeqCst);
        // Acquire: pairs with `over`.
        let active = self.used().map(|seat| seat.active.load(Ordering::Acquire));
        active.min().unwrap_or(IDLE)
    }

    /// No worker is left, so an attempt that still shows as running was forgotten by its program.
    /// It would keep old versions, and records from its beginning on, for ever.
    pub(super) fn forget_running(&self) {
        self.used().for_each(Seat::over);
    }

    /// The largest stamp such that all records up to it are at home.
    pub(super) fn frontier(&self, clock: &AtomicU64) -> u64 {
        let now = clock.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        self.used().map(Seat::unfinished).min().unwrap_or(IDLE).min(now)
    }

    /// Where the oldest transaction began that is not over with all that it does, of all workers
    /// but this one.
    pub(super) fn oldest_beside(&self, number: usize) -> u64 {
        fence(Ordering::SeqCst);
        let others = self.used().enumerate().filter(|(other, _)| *other != number);
        others.map(|(_, seat)| seat.unfinished_or_grouped()).min().unwrap_or(IDLE)
    }

    /// The largest ID that anybody was given. Those of members that are pending are not drawn from
    /// the clock yet; when their group has ended the clock is there, too.
    pub(super) fn given(&self, clock: &AtomicU64) -> u64 {
        let given = self.used().map(|seat| seat.given.load(Ordering::Acquire)).max();
        given.unwrap_or(0).max(clock.load(Ordering::Acquire))
    }

    /// The largest ID such that it and all before it are durable.
    pub(super) fn durable(&self, clock: &AtomicU64) -> u64 {
        let now = clock.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        // Acquire: pairs with `group_is_shown`.
        let pending = self.used().map(|seat| seat.pending.load(Ordering::Acquire));
        let known = pending.min().unwrap_or(IDLE).min(now);
        // What is announced first may be earlier than what was told before.
        self.told.fetch_max(known, Ordering::AcqRel).max(known)
    }
}
