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
//! of each worker precedes it.
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
//! One cost of a long-running body remains: transactions that need its records wait for it. If a
//! transaction has closed the lock, which takes `PATIENCE + RESERVATIONS` losses, the whole pool
//! waits.
//!
//! All accesses are relaxed. Isolation never depends on the lock: a reservation that is seen late
//! costs one more conflict. The queue's mutex orders the stores.

use std::collections::VecDeque;

use medium::mutants::{Mutant, planted};

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
pub struct Gate {
    /// Only the first in the queue may begin.
    closed: AtomicBool,
    /// Whether the filter has any bit set.
    reserving: AtomicBool,
    /// The worker that owns the reservations.
    owner: AtomicUsize,
    /// A Bloom filter with one hash function: the keys that only the owner may take.
    filter: [AtomicU64; FILTER_WORDS],
    /// The workers whose transactions starve, in order.
    queue: Mutex<VecDeque<usize>>,
}

/// The starvation lock stayed closed for longer than the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The worker whose transaction closed it.
    pub(crate) worker: usize,
}

/// Conflicts and losses of a worker's running transaction.
#[derive(Debug)]
pub(crate) struct Fortune {
    worker: usize,
    conflicts: u32,
    losses: u32,
    seed: u64,
}

/// A starving transaction's place in the queue, until it ends.
#[derive(Debug)]
pub(crate) struct Turn<'g> {
    gate: &'g Gate,
    worker: usize,
    /// Losses as the first in the queue.
    losses: u32,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            closed: AtomicBool::new(false),
            reserving: AtomicBool::new(false),
            owner: AtomicUsize::new(usize::MAX),
            filter: std::array::from_fn(|_| AtomicU64::new(0)),
            queue: Mutex::new(VecDeque::new()),
        }
    }
}

impl Fortune {
    pub(crate) fn new(worker: usize) -> Fortune {
        let seed = (worker as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fortune { worker, conflicts: 0, losses: 0, seed }
    }

    /// Whether the running transaction has met few conflicts.
    #[inline]
    pub(crate) fn is_good(&self) -> bool {
        self.conflicts < 2
    }

    /// Resets the counts at the end of a transaction.
    #[inline]
    pub(crate) fn reset(&mut self) {
        (self.conflicts, self.losses) = (0, 0);
    }

    /// Pauses after a conflict, for a random time that grows with their number.
    #[cold]
    pub(crate) fn give_way(&mut self) {
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

    /// Waits for an obstacle, for a bounded time. Returns whether it is gone.
    fn wait_while(&self, is_in_the_way: impl Fn() -> bool) -> bool {
        let looks = if self.conflicts > SHORT { LOOKS } else { 0 };
        for look in 0..looks {
            if !is_in_the_way() {
                return true;
            }
            rest(look);
        }
        !is_in_the_way()
    }
}

impl Gate {
    /// Passes the lock before an attempt, and after a conflict first waits for the obstacle. `met`
    /// returns the obstacle, and `is_held` whether a record still has a value. A starving
    /// transaction gets a `turn`, which it keeps until it ends. While the lock is closed, each look
    /// calls `gives_up` with the worker that closed it; `true` ends the wait.
    ///
    /// # Errors
    /// [`Closed`] after `gives_up` returned `true`. The attempt has not begun.
    #[inline]
    pub(crate) fn pass<'g>(
        &'g self,
        fortune: &mut Fortune,
        turn: &mut Option<Turn<'g>>,
        met: impl FnOnce() -> Obstacle,
        is_held: impl Fn(u64, u64) -> bool,
        gives_up: impl FnMut(usize) -> bool,
    ) -> Result<(), Closed> {
        if fortune.conflicts > 0 {
            self.wait_after(met(), fortune, turn, is_held);
        }
        if self.closed.load(Ordering::Relaxed) {
            return self.wait_until_open(turn.as_ref(), gives_up);
        }
        Ok(())
    }

    /// Whether a starving transaction excludes all others.
    #[doc(hidden)]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait_after<'g>(
        &'g self,
        met: Obstacle,
        fortune: &mut Fortune,
        turn: &mut Option<Turn<'g>>,
        is_held: impl Fn(u64, u64) -> bool,
    ) {
        if turn.is_none() && fortune.losses >= PATIENCE {
            lock(&self.queue).push_back(fortune.worker);
            // A transaction in parts leaves the queue at each conflict. Its losses carry over, so
            // it eventually closes the lock, too, and then runs alone until it ends.
            let losses = fortune.losses - PATIENCE;
            let losses = if planted(Mutant::LossesInPartsForgotten) { 0 } else { losses };
            *turn = Some(Turn { gate: self, worker: fortune.worker, losses });
        }
        // Reserve before the wait, so that the record is reserved when its holder releases it.
        if let Some(turn) = turn
            && !planted(Mutant::StarvingReservesNothing)
        {
            turn.reserve(met);
        }
        let is_lost = match met {
            Obstacle::Unknown | Obstacle::Untracked | Obstacle::Changed { .. } => true,
            Obstacle::Held { key, seen } => fortune.wait_while(|| is_held(key, seen)),
            // Must count as a loss: a stream of starving transactions on one record could otherwise
            // exclude this one from their queue forever.
            Obstacle::Reserved { key } => {
                fortune.wait_while(|| self.is_reserved(key, fortune.worker))
            }
            Obstacle::Room => false,
        };
        fortune.losses = fortune.losses.saturating_add(u32::from(is_lost));
    }

    /// Waits for an open lock. The worker that closed it opens it at the end of its transaction. A
    /// program may forget that transaction and its worker, and a body may run without end, so the
    /// caller bounds the wait.
    #[cold]
    fn wait_until_open(
        &self,
        turn: Option<&Turn<'_>>,
        mut gives_up: impl FnMut(usize) -> bool,
    ) -> Result<(), Closed> {
        let mut look = 0;
        while self.closed.load(Ordering::Relaxed) && !turn.is_some_and(Turn::is_first) {
            // The owner was stored before the lock was closed, but the store may become visible
            // later. An earlier owner only restarts the caller's count.
            let worker = self.owner.load(Ordering::Relaxed);
            if gives_up(worker) {
                return Err(Closed { worker });
            }
            rest(look);
            look = LOOKS.min(look + 1);
        }
        Ok(())
    }

    /// Removes a worker from the queue. Identified by number, not by a guard on a stack: a program
    /// may forget a guard, and its reservations would remain.
    pub(crate) fn leave(&self, worker: usize) {
        let mut queue = lock(&self.queue);
        if queue.front() == Some(&worker) {
            self.reserving.store(false, Ordering::Relaxed);
            self.closed.store(false, Ordering::Relaxed);
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

    #[cold]
    fn is_in_filter(&self, key: u64, worker: usize) -> bool {
        let (word, bit) = place(key);
        let is_set = self.filter[word].load(Ordering::Relaxed) & bit != 0;
        is_set && self.owner.load(Ordering::Relaxed) != worker
    }
}

/// Returns the filter's word and bit for a key.
fn place(key: u64) -> (usize, u64) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (hash as usize % FILTER_WORDS, 1 << (hash / FILTER_WORDS as u64 % 64))
}

impl Turn<'_> {
    fn is_first(&self) -> bool {
        lock(&self.gate.queue).front() == Some(&self.worker)
    }

    /// Reserves the record that the first in the queue lost, or closes the lock.
    fn reserve(&mut self, met: Obstacle) {
        let gate = self.gate;
        let queue = lock(&gate.queue);
        if queue.front() != Some(&self.worker) {
            return;
        }
        gate.owner.store(self.worker, Ordering::Relaxed);
        match met {
            Obstacle::Held { key, .. } | Obstacle::Changed { key } => {
                let (word, bit) = place(key);
                let before = gate.filter[word].load(Ordering::Relaxed);
                gate.filter[word].store(before | bit, Ordering::Relaxed);
                gate.reserving.store(true, Ordering::Relaxed);
                // Waiting for a reserved record is not another loss.
                let is_waiting = before & bit != 0 && matches!(met, Obstacle::Held { .. });
                self.losses += u32::from(!is_waiting);
            }
            Obstacle::Untracked => self.losses += 1,
            Obstacle::Unknown | Obstacle::Room | Obstacle::Reserved { .. } => {}
        }
        let closes = self.losses > RESERVATIONS && !planted(Mutant::StarvingInPartsNeverAlone);
        if met == Obstacle::Unknown || closes {
            gate.closed.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.leave(self.worker);
    }
}

#[cfg(test)]
mod tests;
