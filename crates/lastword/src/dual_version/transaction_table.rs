//! The transaction table: the state of each worker's transactions, readable by every thread.
//!
//! Grace periods, the durable watermark and the frontier of truncation follow from it. Each worker
//! writes its own entry, and a search loads all of them.
//!
//! ```text
//!   worker             begins      commits              the heap has all of it
//!   active      idle | start .................. | idle
//!   committing  idle           | start ........ | idle       until it is in `waiting`
//!   waiting     idle                      | start ..... | idle
//! ```
//!
//! A transaction sets its next word before it clears the previous one. Readers of the table load
//! the words from left to right, so they miss no transaction.
//!
//! *Grace period.* A transaction that committed at time `end` may overwrite the heap when every
//! transaction that began before `end` is over. Either it sees such a transaction's `active`, or
//! that transaction sees a clock of `end` or later. Each side stores, runs a `SeqCst` fence, then
//! loads the word that the other stored. A transaction that does not see `end` yet needs the heap
//! unchanged. A transaction that sees it reads the copy. (Section 3.1, algorithm 1, lines 2 to 4
//! and 52 to 54.)
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
//! A member's ID is the clock when it commits, plus one. It is at most the timestamp at which the
//! group will end, and above the IDs of all that the member may have seen of others. So IDs of
//! different workers are equal only for independent transactions.
//!
//! *Durable watermark.* Everything up to the clock is durable, but nothing above any `pending`.
//! Either a reader of the table sees `pending`, or the first member's ID was read from the clock
//! later than the reader's result. The same fences order them.
//!
//! *Frontier.* A record's stamp is above the start of its transaction. Take the smallest start of a
//! transaction that the heap lacks, and the clock from before the search. The heap has every record
//! up to the lesser of them: a transaction that the search missed has loaded the clock later, by
//! the same fences. A group announces `committing` before its stamp is read, so the same holds for
//! it. A worker without unfinished transactions does not count, however long it is idle. (P-2 of
//! section 3.2.)
//!
//! Source: Pisces, sections 3.1, 3.2 and 4.

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected};

use super::link::WORKERS_MAX;
use super::write_back::Waiting;
use crate::Error;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, announce, fence, fence_unless};
use std::sync::OnceLock;

/// No transaction.
pub(super) const IDLE: u64 = u64::MAX;

/// The state of one worker: its entry of the table.
pub(super) struct WorkerState<M> {
    /// Start of the running attempt; slightly earlier while it begins.
    active: AtomicU64,
    committing: AtomicU64,
    /// Start of the first transaction in `queue`.
    waiting: AtomicU64,
    /// Start of the first transaction of its pending group.
    grouped: AtomicU64,
    /// The clock when the group's first member committed, or slightly earlier.
    pending: AtomicU64,
    /// The last ID assigned to a member of its groups.
    assigned: AtomicU64,
    /// Its committed transactions that the heap lacks, in commit order.
    pub(super) queue: Mutex<Waiting>,
    /// Memory for its copies, from the first worker with this number on.
    pub(super) copies: OnceLock<M>,
}

impl<M> WorkerState<M> {
    fn new() -> WorkerState<M> {
        WorkerState {
            active: AtomicU64::new(IDLE),
            committing: AtomicU64::new(IDLE),
            waiting: AtomicU64::new(IDLE),
            grouped: AtomicU64::new(IDLE),
            pending: AtomicU64::new(IDLE),
            assigned: AtomicU64::new(0),
            queue: Mutex::default(),
            copies: OnceLock::new(),
        }
    }

    /// Announces a transaction and returns its start.
    #[inline(always)]
    pub(super) fn begin(&self, clock: &AtomicU64) -> u64 {
        let early = clock.load(Ordering::Relaxed);
        announce_unless(Mutant::StartNotAnnounced, &self.active, early);
        // SeqCst, like the announcement: see the module.
        let start = match injected(Mutant::StartReadBeforeAnnounced) {
            true => early,
            false => clock.load(Ordering::SeqCst),
        };
        if start != early {
            // The later time releases old versions sooner. A thread that read the earlier time
            // retains too many versions, never too few, until it looks again.
            self.active.store(start, Ordering::Release);
        }
        start
    }

    /// Ends the attempt's reads; it changes nothing.
    #[inline(always)]
    pub(super) fn end_reads(&self) {
        // Release: its loads come before the heap is overwritten.
        self.active.store(IDLE, Ordering::Release);
    }

    /// Ends the attempt's reads and starts the commit of its changes.
    #[inline(always)]
    pub(super) fn commit(&self, start: u64) {
        if injected(Mutant::ActiveClearedBeforeCommitting) {
            self.end_reads();
        }
        self.committing.store(start, Ordering::Release);
        self.end_reads();
    }

    /// Announces a group whose first member began at `start` and commits. Returns the member's ID:
    /// see the module.
    #[inline]
    pub(super) fn begin_group(&self, start: u64, clock: &AtomicU64) -> u64 {
        // Before `end_reads` clears `active`.
        self.grouped.store(start, Ordering::Release);
        let early = clock.load(Ordering::Relaxed);
        announce_unless(Mutant::GroupNotAnnounced, &self.pending, early);
        // SeqCst, like the announcement.
        let now = match injected(Mutant::GroupIdReadBeforeAnnounced) {
            true => early,
            false => clock.load(Ordering::SeqCst),
        };
        if now != early {
            self.pending.store(now, Ordering::Release);
        }
        self.assign(now + 1)
    }

    /// Returns the ID of a later member of the group.
    #[inline]
    pub(super) fn continue_group(&self, clock: &AtomicU64) -> u64 {
        self.assign(clock.load(Ordering::SeqCst) + 1)
    }

    #[inline]
    fn assign(&self, id: u64) -> u64 {
        self.assigned.store(id, Ordering::Release);
        id
    }

    /// Starts the commit of a group that began at `start`, on any thread.
    #[inline]
    pub(super) fn commit_apart(&self, start: u64, clock: &AtomicU64) {
        announce_unless(Mutant::GroupCommitNotAnnounced, &self.committing, start);
        // SeqCst: the stamp, read from the clock later, is above every frontier that does not count
        // this group, as in `begin`.
        clock.load(Ordering::SeqCst);
    }

    /// Ends the group, which is durable and shown.
    #[inline]
    pub(super) fn group_is_shown(&self) {
        self.grouped.store(IDLE, Ordering::Release);
        // Release: a thread that relies on durability sees the group's effects.
        self.pending.store(IDLE, Ordering::Release);
    }

    /// Returns the ID before the first one of its group, if it has a group that is not durable.
    #[inline]
    pub(super) fn pending(&self) -> Option<u64> {
        Some(self.pending.load(Ordering::SeqCst)).filter(|pending| *pending != IDLE)
    }

    /// Ends the commit: the transaction is in the queue, or will never be applied to the heap.
    #[inline(always)]
    pub(super) fn committed(&self) {
        self.committing.store(IDLE, Ordering::Release);
    }

    /// Publishes the start of the first transaction in the queue. The caller holds the queue's
    /// lock.
    #[inline(always)]
    pub(super) fn publish_waiting(&self, start: Option<u64>) {
        self.waiting.store(start.unwrap_or(IDLE), Ordering::Release);
    }

    /// Whether its queue is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == IDLE
    }

    /// Whether it runs nothing and its queue is not empty.
    #[inline]
    pub(super) fn has_unattended_queue(&self) -> bool {
        !self.is_empty()
            && self.active.load(Ordering::Relaxed) == IDLE
            && self.committing.load(Ordering::Relaxed) == IDLE
    }

    /// Returns the smallest start of a transaction that the heap lacks.
    fn unfinished(&self) -> u64 {
        // Acquire, in this order: see the module.
        if injected(Mutant::UnfinishedReadBackwards) {
            let waiting = self.waiting.load(Ordering::Acquire);
            let committing = self.committing.load(Ordering::Acquire);
            return waiting.min(committing).min(self.active.load(Ordering::Acquire));
        }
        let active = self.active.load(Ordering::Acquire);
        let committing = self.committing.load(Ordering::Acquire);
        active.min(committing).min(self.waiting.load(Ordering::Acquire))
    }
}

impl<M> WorkerState<M> {
    /// Does the same as `unfinished`, and includes the pending group.
    fn unfinished_or_grouped(&self) -> u64 {
        // Acquire, in the order in which a group moves: see the module.
        let active = self.active.load(Ordering::Acquire);
        let grouped = self.grouped.load(Ordering::Acquire);
        let grouped = if injected(Mutant::ChunksFreedBesideGroups) { IDLE } else { grouped };
        active.min(grouped).min(self.unfinished())
    }
}

/// Announces a value; if this bug is injected, only stores it.
#[inline(always)]
fn announce_unless(mutant: Mutant, word: &AtomicU64, value: u64) {
    if injected(mutant) {
        word.store(value, Ordering::Release);
    } else {
        announce(word, value);
    }
}

/// The transaction table of a heap.
pub(super) struct TransactionTable<M> {
    workers: Box<[CachePadded<WorkerState<M>>]>,
    /// Entries from this one on were never used.
    used: AtomicUsize,
    /// The largest durable watermark ever reported.
    reported: AtomicU64,
}

impl<M> TransactionTable<M> {
    pub(super) fn new(workers: usize) -> TransactionTable<M> {
        let workers = (0..workers.min(WORKERS_MAX)).map(|_| CachePadded::new(WorkerState::new()));
        TransactionTable {
            workers: workers.collect(),
            used: AtomicUsize::new(0),
            reported: AtomicU64::new(0),
        }
    }

    /// Registers a worker in the entry of its number. `copies` makes the entry's memory, once.
    pub(super) fn register(
        &self,
        number: usize,
        copies: impl FnOnce() -> Result<M, Error>,
    ) -> Result<(), Error> {
        let state = &self.workers[number];
        if state.copies.get().is_none() {
            // One worker at a time has this number, so no other has set it meanwhile.
            let _ = state.copies.set(copies()?);
        }
        // Before the first transaction announces itself, so that a later search includes it.
        // SeqCst, like the announcement.
        self.used.fetch_max(number + 1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn get(&self, number: usize) -> Option<&WorkerState<M>> {
        self.workers.get(number).map(|state| &**state)
    }

    #[inline(always)]
    pub(super) fn entry(&self, number: usize) -> &WorkerState<M> {
        &self.workers[number]
    }

    /// Iterates over all entries.
    pub(super) fn all(&self) -> impl Iterator<Item = &WorkerState<M>> {
        self.workers.iter().map(|state| &**state)
    }

    /// Iterates over the entries that ever had a worker.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = &WorkerState<M>> {
        self.workers[..self.used.load(Ordering::Acquire)].iter().map(|state| &**state)
    }

    /// Returns the start of the oldest running transaction. A transaction that ended at this time
    /// or earlier may overwrite the heap. Called after the addition that assigned that time.
    #[inline]
    pub(super) fn oldest(&self) -> u64 {
        fence_unless(Mutant::NoFenceBeforeOldest, Ordering::SeqCst);
        // Acquire: pairs with `end_reads`.
        let active = self.used().map(|state| state.active.load(Ordering::Acquire));
        active.min().unwrap_or(IDLE)
    }

    /// Ends the attempts that still appear to run although no worker is left: the program has
    /// leaked them. They would keep old versions, and the records after their start, for ever.
    pub(super) fn forget_running(&self) {
        self.used().for_each(WorkerState::end_reads);
    }

    /// Returns the frontier: the largest stamp such that the heap has all records up to it.
    pub(super) fn frontier(&self, clock: &AtomicU64) -> u64 {
        let now = clock.load(Ordering::Acquire);
        fence_unless(Mutant::NoFenceBeforeUnfinished, Ordering::SeqCst);
        let first = self.used().map(WorkerState::unfinished).min().unwrap_or(IDLE);
        first.min(match injected(Mutant::FrontierReadsClockLast) {
            true => clock.load(Ordering::Acquire).max(now),
            false => now,
        })
    }

    /// Returns the start of the oldest transaction of other workers that is not entirely finished.
    pub(super) fn oldest_beside(&self, number: usize) -> u64 {
        fence(Ordering::SeqCst);
        let others = self.used().enumerate().filter(|(other, _)| *other != number);
        others.map(|(_, state)| state.unfinished_or_grouped()).min().unwrap_or(IDLE)
    }

    /// Returns the largest ID ever assigned. IDs of pending members are ahead of the clock; the
    /// clock catches up when their group ends.
    pub(super) fn last_assigned(&self, clock: &AtomicU64) -> u64 {
        if injected(Mutant::GivenIdGuessed) {
            let before = clock.load(Ordering::Acquire);
            let is_ahead = self.used().any(|state| state.pending().is_some());
            return clock.load(Ordering::Acquire).max(before + u64::from(is_ahead));
        }
        let assigned = self.used().map(|state| state.assigned.load(Ordering::Acquire)).max();
        assigned.unwrap_or(0).max(clock.load(Ordering::Acquire))
    }

    /// Returns the durable watermark: the largest ID such that it and all before it are durable.
    pub(super) fn durable(&self, clock: &AtomicU64) -> u64 {
        let now = clock.load(Ordering::Acquire);
        fence_unless(Mutant::NoFenceBeforePending, Ordering::SeqCst);
        // Acquire: pairs with `group_is_shown`.
        let pending = self.used().map(|state| state.pending.load(Ordering::Acquire));
        let first = pending.min().unwrap_or(IDLE);
        let known = first.min(match injected(Mutant::DurableReadsClockLast) {
            true => clock.load(Ordering::Acquire).max(now),
            false => now,
        });
        if injected(Mutant::ReportedDurableForgotten) {
            return known;
        }
        // A first announcement may be earlier than a watermark that was already reported.
        self.reported.fetch_max(known, Ordering::AcqRel).max(known)
    }
}
