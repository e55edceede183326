//! Contention management: backoff, and a starvation lock with a limited reach.
//!
//! A transaction that meets a conflict rolls back, waits and retries. The [`Obstacle`] determines
//! the wait:
//!
//! | obstacle | cause | the transaction waits | counts as a loss |
//! |---|---|---|---|
//! | `Held` | a running transaction holds the record | until that one has ended | then |
//! | `Changed`, `Untracked` | a record that was read is newer | a random pause | yes |
//! | `Reserved` | a starving transaction reserved the record | until that one has ended | then |
//! | `Room` | the worker's own log is full | at the next begin | no |
//! | `Unknown` | an obstacle without a record: a frame of the shadow | a random pause | yes |
//!
//! Each loss is therefore due to a transaction that ended. A long-running body causes one loss,
//! however often others meet its records, and waiting for it does not affect unrelated workers.
//!
//! After [`PATIENCE`] losses a transaction starves and joins the queue. The first in the queue
//! holds the starvation lock, which has two levels:
//! 1. It *reserves* each record that it loses on. No other transaction takes a reserved record, and
//!    current holders end on their own. All other work continues.
//! 2. After [`RESERVATIONS`] more losses, or at an obstacle without a record, it *closes* the lock:
//!    no other transaction of the pool begins until this one has ended.
//!
//! No livelock: suppose that the first in the queue loses repeatedly. Each loss is on an unreserved
//! record (at most `RESERVATIONS` times), or due to an attempt that took its records before it
//! could see the reservation (at most once for each worker and record). Then the lock closes, the
//! running attempts end, and the transaction runs alone. An ended transaction leaves the queue, so
//! every starving transaction reaches its head.
//!
//! No starvation: each ended obstacle is a loss, including the reservation of another starving
//! transaction. A transaction that keeps failing therefore joins the queue. At most one transaction
//! of each worker precedes it. Ended reservations bring it no further: only losses as the first in
//! the queue close the lock.
//!
//! Attempts end, since no attempt waits for another to commit or roll back. With a bounded shadow
//! (`shadow`) a running attempt waits in two cases, and neither depends on the end of an attempt:
//! - For reproduction up to an assigned ID. The worker of that ID records it without waiting, the
//!   media do the rest, and the waiting thread helps.
//! - For a thread that moves the page it needs. That thread waits only as above, for the device, or
//!   for one system call. It needs no other page meanwhile, so no cycle forms.
//!
//! An attempt never waits for an ownership record or a frame: it rolls back, which releases its
//! records and pins. This module waits only between attempts, when a worker has no record, no pin
//! and no assigned ID. No wait here can be part of a cycle.
//!
//! A wait for one transaction is bounded, since a program may forget a transaction. The caller
//! counts the time over all attempts that met the same holder, or the same first in the queue, and
//! gives up in the end ([`GaveUp`]).
//!
//! One cost of a long-running body remains: transactions that need its records wait for it. If a
//! transaction has closed the lock, which takes `PATIENCE` losses and `RESERVATIONS` more as the
//! first in the queue, the whole pool waits.
//!
//! All accesses are relaxed. Isolation never depends on the lock: a reservation that is seen late
//! costs one more conflict. The queue's mutex orders the stores.

use std::collections::VecDeque;

use medium::mutants::{Mutant, injected};

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock, pause, rest, thread};

/// Losses after which a transaction starves and joins the queue. Chosen, not measured: large enough
/// that short conflicts resolve on their own, small enough that a starving transaction waits
/// microseconds.
const PATIENCE: u32 = 24;

/// Losses of the first in the queue after which it closes the lock. Chosen, not measured: more
/// records than transactions contend for in practice. Few enough that the reservations, in a filter
/// of 1024 bits, rarely hit other records.
const RESERVATIONS: u32 = 64;

/// Conflicts up to which a transaction retries at once.
const SHORT: u32 = 2;

/// Looks at an obstacle before the transaction retries anyway, so that its begin notices a failed
/// pool. About 2 ms; see [`rest`].
const LOOKS: u32 = 104;

/// The bit of [`StarvationLock::epoch`] that is set while the lock is closed.
const CLOSED: u64 = 1;

/// Added to [`StarvationLock::epoch`] when the first leaves the queue.
const EPOCH: u64 = 2;

/// Words of the filter.
const FILTER_WORDS: usize = 16;

/// The reason why an attempt ended with a conflict. A key is the number of an ownership record, or
/// the index of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Obstacle {
    /// An obstacle without a key.
    #[default]
    Unknown,
    /// The worker's own log has no room; the next attempt waits for it.
    Room,
    /// A running transaction holds the record.
    Held {
        /// The record.
        key: u64,
        /// The value of the record at that time.
        seen: u64,
    },
    /// A transaction has committed a newer version of a word that the attempt read or wrote.
    Changed {
        /// The record.
        key: u64,
    },
    /// As `Changed`, in an attempt that does not track its reads.
    Untracked,
    /// A starving transaction has reserved the record.
    Reserved {
        /// The record.
        key: u64,
    },
}

/// The starvation lock of one transactional memory.
#[derive(Debug)]
pub struct StarvationLock {
    /// How often the first has left the queue, times [`EPOCH`], plus [`CLOSED`] while only the
    /// first may begin. One word: two equal loads saw the same first, however short the time
    /// between two closings of the lock.
    epoch: AtomicU64,
    /// Whether the filter has any bit set.
    reserving: AtomicBool,
    /// The worker that owns the reservations.
    owner: AtomicUsize,
    /// A Bloom filter with one hash function: the keys that only the owner may take.
    filter: [AtomicU64; FILTER_WORDS],
    /// The workers whose transactions starve, in order.
    queue: Mutex<VecDeque<usize>>,
}

/// Another worker's transaction did not end for longer than the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GaveUp {
    /// It closed the starvation lock.
    Closed {
        /// Its worker.
        worker: usize,
    },
    /// It holds or reserves a record.
    Blocked {
        /// Its worker.
        worker: usize,
    },
}

/// The end for which a transaction waits, over several attempts. Each kind has a clock of its own:
/// a closed lock met between two waits for one record must not restart the wait for that record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Of the transaction that is the first in the queue.
    Starving,
    /// Of the transaction that holds a record.
    Record,
}

/// Conflicts and losses of a worker's running transaction.
#[derive(Debug)]
pub(crate) struct Backoff {
    worker: usize,
    conflicts: u32,
    /// Losses that bring the transaction into the queue, at most [`PATIENCE`].
    losses: u32,
    /// Losses as the first in the queue, which close the lock. Ended reservations of others are no
    /// part of them.
    losses_as_first: u32,
    /// The epoch that was not over after the last wait for one.
    awaited_epoch: Option<u64>,
    /// The record, with its value, that was still held after the last wait for one.
    awaited_record: Option<(u64, u64)>,
    seed: u64,
}

/// A starving transaction's place in the queue, until it ends.
#[derive(Debug)]
pub(crate) struct QueuePlace<'g> {
    starvation_lock: &'g StarvationLock,
    worker: usize,
    /// Losses as the first in the queue.
    losses: u32,
}

impl Default for StarvationLock {
    fn default() -> StarvationLock {
        StarvationLock {
            epoch: AtomicU64::new(0),
            reserving: AtomicBool::new(false),
            owner: AtomicUsize::new(usize::MAX),
            filter: std::array::from_fn(|_| AtomicU64::new(0)),
            queue: Mutex::new(VecDeque::new()),
        }
    }
}

impl Backoff {
    pub(crate) fn new(worker: usize) -> Backoff {
        let seed = (worker as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (awaited_epoch, awaited_record) = (None, None);
        let (conflicts, losses, losses_as_first) = (0, 0, 0);
        Backoff { worker, conflicts, losses, losses_as_first, awaited_epoch, awaited_record, seed }
    }

    /// Whether the running transaction has met few conflicts.
    #[inline]
    pub(crate) fn has_few_conflicts(&self) -> bool {
        self.conflicts < 2
    }

    /// Resets the counts at the end of a transaction. The losses count from the next conflict, so
    /// that a commit stores nothing for them.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.conflicts = 0;
    }

    /// Pauses after a conflict, for a random time that grows with their number.
    #[cold]
    pub(crate) fn give_way(&mut self) {
        if self.conflicts == 0 {
            (self.losses, self.losses_as_first) = (0, 0);
            (self.awaited_epoch, self.awaited_record) = (None, None);
        }
        self.conflicts = self.conflicts.saturating_add(1);
        // xorshift64: random enough to desynchronize two workers.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let longest = 16_u64 << self.conflicts.min(8);
        pause(self.seed % longest);
        if self.conflicts > SHORT {
            // The other thread may not be running: with more threads than cores, spinning would
            // only keep it from its core.
            thread::yield_now();
        }
    }

    /// Waits for an obstacle, for a bounded time. Returns the worker that is still in the way.
    fn wait_while(&self, in_the_way: impl Fn() -> Option<usize>) -> Option<usize> {
        let looks = if self.conflicts > SHORT { LOOKS } else { 0 };
        for look in 0..looks {
            in_the_way()?;
            rest(look);
        }
        in_the_way()
    }

    /// Records that this epoch is not over. Returns whether the last look saw another epoch.
    fn awaits_epoch(&mut self, epoch: u64) -> bool {
        self.awaited_epoch.replace(epoch) != Some(epoch)
    }
}

impl StarvationLock {
    /// Passes the lock before an attempt, and after a conflict first waits for the obstacle. `met`
    /// returns the obstacle, and `holder` the worker that still holds a record with a value. A
    /// starving transaction gets a `place` in the queue, which it keeps until it ends.
    ///
    /// `gives_up` is called after each wait that was in vain, and at each look at a closed lock. It
    /// gets the kind of the wait, and whether it was for another transaction than the last one of
    /// that kind; `true` ends it.
    ///
    /// # Errors
    /// [`GaveUp`] after `gives_up` returned `true`. The attempt has not begun.
    #[inline]
    pub(crate) fn pass<'g>(
        &'g self,
        backoff: &mut Backoff,
        place: &mut Option<QueuePlace<'g>>,
        met: impl FnOnce() -> Obstacle,
        holder: impl Fn(u64, u64) -> Option<usize>,
        mut gives_up: impl FnMut(Wait, bool) -> bool,
    ) -> Result<(), GaveUp> {
        if backoff.conflicts > 0 {
            self.wait_after(met(), backoff, place, holder, &mut gives_up)?;
        }
        if self.is_closed() {
            return self.wait_until_open(backoff, place.as_ref(), gives_up);
        }
        Ok(())
    }

    /// Whether a starving transaction excludes all others.
    #[doc(hidden)]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) & CLOSED != 0
    }

    #[cold]
    fn wait_after<'g>(
        &'g self,
        met: Obstacle,
        backoff: &mut Backoff,
        place: &mut Option<QueuePlace<'g>>,
        holder: impl Fn(u64, u64) -> Option<usize>,
        gives_up: &mut impl FnMut(Wait, bool) -> bool,
    ) -> Result<(), GaveUp> {
        if place.is_none() && backoff.losses >= PATIENCE {
            lock(&self.queue).push_back(backoff.worker);
            // A transaction in parts leaves the queue at each conflict. Its losses as the first
            // carry over, so it eventually closes the lock, too, and then runs alone until it ends.
            // Losses behind another, and ended reservations, do not: it would close the lock before
            // it had reserved anything.
            let forgets = injected(Mutant::LossesInPartsForgotten);
            let losses = if forgets { 0 } else { backoff.losses_as_first };
            *place = Some(QueuePlace { starvation_lock: self, worker: backoff.worker, losses });
        }
        // Reserve before the wait, so that the record is reserved when its holder releases it.
        let is_first = match place {
            Some(place) if !injected(Mutant::StarvingReservesNothing) => place.reserve(met),
            place => place.is_some(),
        };
        let epoch = self.epoch.load(Ordering::Relaxed) / EPOCH;
        let is_reserved = matches!(met, Obstacle::Reserved { .. });
        if is_reserved && injected(Mutant::EndedReservationsAreNoLosses) {
            return Ok(());
        }
        // A program may forget a transaction together with its worker, and nothing then ends it. So
        // the caller bounds the sum of the waits for one transaction.
        let goes_on = match met {
            Obstacle::Held { key, seen } => {
                let worker = backoff.wait_while(|| holder(key, seen));
                let last = backoff.awaited_record;
                let is_another = last != Some((key, seen));
                if worker.is_some() {
                    backoff.awaited_record = Some((key, seen));
                } else if !is_another {
                    // The value may return under `snapshot`: a later wait for it begins anew.
                    backoff.awaited_record = None;
                }
                worker.map(|worker| (worker, Wait::Record, is_another))
            }
            // Must count as a loss: a stream of starving transactions on one record could otherwise
            // exclude this one from their queue forever.
            Obstacle::Reserved { key } => {
                let worker = backoff.wait_while(|| self.reserver(key, epoch, backoff.worker));
                worker.map(|worker| (worker, Wait::Starving, backoff.awaits_epoch(epoch)))
            }
            Obstacle::Unknown | Obstacle::Untracked | Obstacle::Changed { .. } => None,
            Obstacle::Room => return Ok(()),
        };
        if let Some((worker, wait, is_another)) = goes_on {
            return if gives_up(wait, is_another) {
                Err(GaveUp::Blocked { worker })
            } else {
                Ok(())
            };
        }
        backoff.losses = PATIENCE.min(backoff.losses + 1);
        let counts = match injected(Mutant::EndedReservationsCloseLock) {
            false => is_first && !is_reserved,
            true => is_first || is_reserved,
        };
        let losses = backoff.losses_as_first.saturating_add(u32::from(counts));
        backoff.losses_as_first = losses;
        Ok(())
    }

    /// Waits for an open lock. The worker that closed it opens it at the end of its transaction. A
    /// program may forget that transaction and its worker, and a body may run without end, so the
    /// caller bounds the wait for each closing. The sum has no bound and needs none: a transaction
    /// closes the lock after losses, and those are due to transactions that passed it in between.
    #[cold]
    fn wait_until_open(
        &self,
        backoff: &mut Backoff,
        place: Option<&QueuePlace<'_>>,
        mut gives_up: impl FnMut(Wait, bool) -> bool,
    ) -> Result<(), GaveUp> {
        if backoff.conflicts == 0 {
            backoff.awaited_epoch = None; // of the transaction before
        }
        let mut look = 0;
        loop {
            let epoch = self.epoch.load(Ordering::Relaxed);
            if epoch & CLOSED == 0 || place.is_some_and(QueuePlace::is_first) {
                return Ok(());
            }
            // Not the worker's number: a worker that closes the lock again and again, each time for
            // a moment, would look as if it kept the lock closed.
            let is_another = backoff.awaits_epoch(epoch / EPOCH);
            if gives_up(Wait::Starving, is_another) {
                // The owner was stored before the lock was closed, but the store may become visible
                // later: the message may then name the owner before.
                return Err(GaveUp::Closed { worker: self.owner.load(Ordering::Relaxed) });
            }
            rest(look);
            look = LOOKS.min(look + 1);
        }
    }

    /// Removes a worker from the queue. Identified by number, not by a guard on a stack: a program
    /// may forget a guard, and its reservations would remain.
    pub(crate) fn leave(&self, worker: usize) {
        let mut queue = lock(&self.queue);
        if queue.front() == Some(&worker) {
            self.reserving.store(false, Ordering::Relaxed);
            let epoch = self.epoch.load(Ordering::Relaxed);
            let next = if injected(Mutant::ClosingsLookAlike) { 0 } else { EPOCH };
            self.epoch.store((epoch & !CLOSED) + next, Ordering::Relaxed);
            for word in &self.filter {
                word.store(0, Ordering::Relaxed);
            }
        }
        queue.retain(|other| *other != worker);
    }

    /// Whether only another worker, whose transaction starves, may take the record.
    #[inline(always)]
    pub(crate) fn is_reserved(&self, key: u64, worker: usize) -> bool {
        self.reserving.load(Ordering::Relaxed) && self.is_in_filter(key, worker)
    }

    /// Returns the worker that reserves the record in this epoch. If the next in the queue has
    /// reserved it, too, then this reservation has ended all the same.
    fn reserver(&self, key: u64, epoch: u64, worker: usize) -> Option<usize> {
        let is_over = self.epoch.load(Ordering::Relaxed) / EPOCH != epoch;
        (!is_over && self.is_reserved(key, worker)).then(|| self.owner.load(Ordering::Relaxed))
    }

    #[cold]
    fn is_in_filter(&self, key: u64, worker: usize) -> bool {
        let (word, bit) = filter_bit(key);
        let is_set = self.filter[word].load(Ordering::Relaxed) & bit != 0;
        is_set && self.owner.load(Ordering::Relaxed) != worker
    }
}

/// Returns the filter's word and bit for a key.
fn filter_bit(key: u64) -> (usize, u64) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (hash as usize % FILTER_WORDS, 1 << (hash / FILTER_WORDS as u64 % 64))
}

impl QueuePlace<'_> {
    fn is_first(&self) -> bool {
        lock(&self.starvation_lock.queue).front() == Some(&self.worker)
    }

    /// Reserves the record that the first in the queue lost, or closes the lock. Returns whether
    /// this transaction is the first.
    fn reserve(&mut self, met: Obstacle) -> bool {
        let starvation_lock = self.starvation_lock;
        let queue = lock(&starvation_lock.queue);
        if queue.front() != Some(&self.worker) {
            return false;
        }
        starvation_lock.owner.store(self.worker, Ordering::Relaxed);
        match met {
            Obstacle::Held { key, .. } | Obstacle::Changed { key } => {
                let (word, bit) = filter_bit(key);
                let before = starvation_lock.filter[word].load(Ordering::Relaxed);
                starvation_lock.filter[word].store(before | bit, Ordering::Relaxed);
                starvation_lock.reserving.store(true, Ordering::Relaxed);
                // Waiting for a reserved record is not another loss.
                let is_waiting = before & bit != 0 && matches!(met, Obstacle::Held { .. });
                self.losses += u32::from(!is_waiting);
            }
            Obstacle::Untracked => self.losses += 1,
            Obstacle::Unknown | Obstacle::Room | Obstacle::Reserved { .. } => {}
        }
        let closes = self.losses > RESERVATIONS && !injected(Mutant::StarvingInPartsNeverAlone);
        if met == Obstacle::Unknown || closes {
            let epoch = starvation_lock.epoch.load(Ordering::Relaxed);
            starvation_lock.epoch.store(epoch | CLOSED, Ordering::Relaxed);
        }
        true
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.starvation_lock.leave(self.worker);
    }
}

#[cfg(test)]
mod tests;
