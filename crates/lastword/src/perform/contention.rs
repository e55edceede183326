//! Contention management: backoff, and a starvation lock that reaches only as far as it must.
//!
//! A transaction that meets a conflict rolls back, waits and tries again. What it waits for
//! depends on the [`Obstacle`]:
//!
//! | obstacle | what happened | the transaction waits | a loss |
//! |---|---|---|---|
//! | `Held` | a running transaction has taken the record | until it has ended | then |
//! | `Changed`, `Untracked` | a record that was read is newer | a random pause | yes |
//! | `Reserved` | a starving transaction needs the record | until it has ended | then |
//! | `Room` | the worker's own log is full | in its design's begin | no |
//! | `Unknown` | something without a record: a frame of the shadow | a random pause | yes |
//!
//! So a loss is a transaction that ended. A body that runs for long causes one loss, however often
//! others meet its records meanwhile, and waiting for it takes nothing from unrelated workers.
//!
//! After [`PATIENCE`] losses a transaction starves and joins the queue. The first of the queue has
//! the starvation lock, in two degrees:
//! 1. It *reserves* each record that it loses on. No other transaction takes a reserved record;
//!    all others go on. Current holders end by themselves.
//! 2. When it has lost [`RESERVATIONS`] records, or an obstacle has no record, it *closes the
//!    gate*: no other transaction of the pool begins until it has ended.
//!
//! No livelock: let the first of the queue lose again and again. Each loss is on a record that was
//! not reserved (at most `RESERVATIONS` of them), or is caused by an attempt that took its records
//! before it could see the reservation (at most one for each worker and record). Then the gate
//! closes, the attempts that were running end, and it runs alone. A transaction that ends leaves
//! the queue, so every starving transaction becomes the first of it.
//!
//! No starvation: a transaction that fails for ever comes into the queue, since each obstacle that
//! ends is a loss, the reservation of another starving transaction included. Those before it in the
//! queue are at most one for each worker.
//!
//! The attempts end because none of them waits for another to commit or roll back. With a bound on
//! the shadow (`shadow`) an attempt may wait while it runs, in two ways, and neither ends with an
//! attempt:
//! - For reproduction up to an assigned ID. Its worker records it without a wait; the rest is
//!   the media's, and the thread that waits helps.
//! - For another thread that moves the page that it wants. That thread waits, if at all, as above,
//!   or for the device or one system call; it wants no other page meanwhile, so there is no circle.
//!
//! An attempt never waits for an ownership record or a frame: it rolls back, which gives up its
//! records and pins. All waits of this module are between two attempts, when a worker has no
//! record, no pin and no assigned ID. So no wait here can be part of a circle.
//!
//! What remains of a long body: transactions that need its records wait for it. So does the whole
//! pool where a transaction has closed the gate, which takes `PATIENCE + RESERVATIONS` losses.
//!
//! All accesses are relaxed. Isolation never rests on the gate: a reservation that is seen late is
//! one more conflict. The queue's mutex orders the stores.

use std::collections::VecDeque;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock, pause, rest, thread};

/// Losses after which a transaction joins the queue of starving ones. Chosen, not measured:
/// large enough that short conflicts pass by themselves, small enough that a starving transaction
/// waits microseconds.
const PATIENCE: u32 = 24;

/// Losses of the first of the queue after which it closes the gate. Chosen, not measured: more
/// records than transactions contend for in practice, and few enough that the reservations, of
/// which the filter has 1024 places, hardly touch other records.
const RESERVATIONS: u32 = 64;

/// Conflicts up to which a transaction tries again at once.
const SHORT: u32 = 2;

/// Looks at what is in the way before the transaction tries again in any case: its begin notices a
/// pool that has failed. About 2 ms; see [`rest`].
const LOOKS: u32 = 104;

/// Words of the filter.
const FILTER_WORDS: usize = 16;

/// Why an attempt ended with a conflict. A key is the number of an ownership record, or the index
/// of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Obstacle {
    /// Something that has no key.
    #[default]
    Unknown,
    /// The worker's own log has no room; the next attempt waits for it.
    Room,
    /// A running transaction has taken the record, which had this value then.
    Held {
        /// Which record.
        key: u64,
        /// What it was.
        seen: u64,
    },
    /// A transaction has committed a newer version of what was read or written.
    Changed {
        /// Which record.
        key: u64,
    },
    /// The same, of an attempt that does not track its reads.
    Untracked,
    /// A starving transaction has reserved the record.
    Reserved {
        /// Which record.
        key: u64,
    },
}

/// The starvation lock of one transactional memory.
#[derive(Debug)]
pub struct Gate {
    /// Only the first of the queue begins.
    closed: AtomicBool,
    /// Whether anything is in the filter.
    reserving: AtomicBool,
    /// The worker for which the filter reserves.
    owner: AtomicUsize,
    /// A Bloom filter with one hash: keys that only the owner may take.
    filter: [AtomicU64; FILTER_WORDS],
    /// The workers whose transactions starve.
    queue: Mutex<VecDeque<usize>>,
}

/// The gate has stayed closed for longer than the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The worker whose transaction has closed it.
    pub(crate) worker: usize,
}

/// Conflicts and losses of one worker's running transaction.
#[derive(Debug)]
pub(crate) struct Fortune {
    worker: usize,
    conflicts: u32,
    losses: u32,
    seed: u64,
}

/// The place in the queue of a transaction that starves, until it ends.
#[derive(Debug)]
pub(crate) struct Turn<'g> {
    gate: &'g Gate,
    worker: usize,
    /// Losses as the first of the queue.
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

    /// Whether the running transaction has met few conflicts so far.
    #[inline]
    pub(crate) fn is_good(&self) -> bool {
        self.conflicts < 2
    }

    /// The transaction has ended.
    #[inline]
    pub(crate) fn reset(&mut self) {
        (self.conflicts, self.losses) = (0, 0);
    }

    /// Pauses after a conflict, longer and longer.
    #[cold]
    pub(crate) fn give_way(&mut self) {
        self.conflicts = self.conflicts.saturating_add(1);
        // xorshift64: enough to keep two workers out of step.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let longest = 16_u64 << self.conflicts.min(8);
        pause(self.seed % longest);
        if self.conflicts > SHORT {
            // The other side may not be running: with more threads than cores, spinning would only
            // keep it from its core.
            thread::yield_now();
        }
    }

    /// Waits while something is in the way, within bounds. Returns whether it is no longer.
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
    /// Passes the gate before an attempt. After a conflict it waits for what was in the way; `met`
    /// returns that, and `is_held` whether a record still has a value. A transaction that starves
    /// gets a `turn`, which it keeps until it ends. While the gate is closed it asks `gives_up`
    /// with the worker that has closed it, at each look; a `true` ends the wait.
    ///
    /// # Errors
    /// [`Closed`], when it has given up. Nothing was begun.
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

    /// Whether a starving transaction keeps all others from beginning.
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
            // A transaction in parts gives its turn up at each conflict. Its losses stay, so that
            // it comes to close the gate all the same, and then runs alone until it ends.
            let losses = fortune.losses - PATIENCE;
            *turn = Some(Turn { gate: self, worker: fortune.worker, losses });
        }
        // Before the wait: the record is reserved when its holder releases it.
        if let Some(turn) = turn {
            turn.reserve(met);
        }
        let is_lost = match met {
            Obstacle::Unknown | Obstacle::Untracked | Obstacle::Changed { .. } => true,
            Obstacle::Held { key, seen } => fortune.wait_while(|| is_held(key, seen)),
            // Not counted, a stream of starving transactions that need one record could keep
            // this one from it for ever: it would never join their queue.
            Obstacle::Reserved { key } => {
                fortune.wait_while(|| self.is_reserved(key, fortune.worker))
            }
            Obstacle::Room => false,
        };
        fortune.losses = fortune.losses.saturating_add(u32::from(is_lost));
    }

    /// Ends: the worker that has closed the gate opens it at the end of its transaction. A program
    /// may forget that transaction and its worker, and a body may run without end; so the caller
    /// says when the wait was long enough.
    #[cold]
    fn wait_until_open(
        &self,
        turn: Option<&Turn<'_>>,
        mut gives_up: impl FnMut(usize) -> bool,
    ) -> Result<(), Closed> {
        let mut look = 0;
        while self.closed.load(Ordering::Relaxed) && !turn.is_some_and(Turn::is_first) {
            // Stored before the gate was closed, by a thread whose store may be seen later: then
            // it is an earlier owner, and the wait is counted anew when the right one shows.
            let worker = self.owner.load(Ordering::Relaxed);
            if gives_up(worker) {
                return Err(Closed { worker });
            }
            rest(look);
            look = LOOKS.min(look + 1);
        }
        Ok(())
    }

    /// A worker's transaction no longer starves. The worker's number, not a guard on a stack, says
    /// whose place it is: a program may forget a guard, and its reservations would stay.
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

    /// Whether the record may be taken only by another worker, whose transaction starves.
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

/// The filter's bit for a key.
fn place(key: u64) -> (usize, u64) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (hash as usize % FILTER_WORDS, 1 << (hash / FILTER_WORDS as u64 % 64))
}

impl Turn<'_> {
    fn is_first(&self) -> bool {
        lock(&self.gate.queue).front() == Some(&self.worker)
    }

    /// Reserves what the first of the queue has lost, or closes the gate.
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
                // A record that is reserved and still held is only waited for.
                let is_waiting = before & bit != 0 && matches!(met, Obstacle::Held { .. });
                self.losses += u32::from(!is_waiting);
            }
            Obstacle::Untracked => self.losses += 1,
            Obstacle::Unknown | Obstacle::Room | Obstacle::Reserved { .. } => {}
        }
        if met == Obstacle::Unknown || self.losses > RESERVATIONS {
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
