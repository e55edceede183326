//! Contention management that cannot livelock.
//!
//! A transaction that meets a conflict gives way: it rolls back and tries again after a short
//! random pause. One that has given way too often closes the *gate*: no other transaction of the
//! pool begins until it is through. Those that were running end by themselves, so before long it
//! runs alone and nothing can be in its way.
//!
//! They end because none of them waits for another to commit or roll back. With a bound on the
//! shadow (`shadow`) an attempt may wait while it runs, in two ways, and neither ends with an
//! attempt:
//! - For reproduction up to an ID that was drawn. Whoever has drawn it records it without a wait;
//!   the rest is the media's, and the one who waits helps.
//! - For another thread that moves the page that it wants. That one waits, if at all, as above, or
//!   for the device or one system call; it wants no other page meanwhile, so there is no circle.
//!
//! What it cannot have otherwise (an ownership record, a frame where all are pinned) it does not
//! wait for: it rolls back, which gives up its pins, and comes to the gate.
//!
//! Nobody who waits at the gate holds a lock of the transactional memory, a pin or a drawn ID.

use std::sync::PoisonError;

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, lock, spin_loop, thread};

/// Attempts after which a transaction closes the gate. Chosen, not measured: large enough that
/// short conflicts pass by themselves, small enough that a starving transaction waits microseconds.
const PATIENCE: u32 = 24;

/// The gate of one transactional memory.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    /// The number of the worker that has closed it. The worker's state, not a guard on a stack, is
    /// what says whose it is: a program may forget a guard, and the gate would stay closed.
    holder: Mutex<Option<usize>>,
    opened: Condvar,
}

/// How one worker fares with its running transaction.
#[derive(Debug)]
pub(crate) struct Fortune {
    worker: usize,
    conflicts: u32,
    seed: u64,
}

/// Held by the one that closed the gate, until its transaction ends.
#[derive(Debug)]
pub(crate) struct Turn<'g> {
    gate: &'g Gate,
    worker: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.open(self.worker);
    }
}

impl Fortune {
    pub(crate) fn new(worker: usize) -> Fortune {
        let seed = (worker as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fortune { worker, conflicts: 0, seed }
    }

    /// Whether the running transaction has met few conflicts so far.
    #[inline]
    pub(crate) fn is_good(&self) -> bool {
        self.conflicts < 2
    }

    /// The transaction is through, or is given up.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.conflicts = 0;
    }

    /// The attempt met a conflict: pauses, longer and longer.
    #[cold]
    pub(crate) fn give_way(&mut self) {
        self.conflicts = self.conflicts.saturating_add(1);
        // xorshift64: enough to keep two workers out of step.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let longest = 16_u64 << self.conflicts.min(8);
        for _ in 0..self.seed % longest {
            spin_loop();
        }
        if self.conflicts > 2 {
            // The other side may not be running: with more threads than cores, spinning would only
            // keep it from its core.
            thread::yield_now();
        }
    }
}

impl Gate {
    /// Passes the gate, waiting while another holds it closed; closes it for a transaction that has
    /// given way too often.
    #[inline]
    pub(crate) fn pass(&self, fortune: &Fortune) -> Option<Turn<'_>> {
        // Relaxed: the gate only speeds the starving one up; missing a closing is one more
        // conflict.
        if fortune.conflicts < PATIENCE && !self.closed.load(Ordering::Relaxed) {
            return None;
        }
        self.wait(fortune)
    }

    #[cold]
    fn wait(&self, fortune: &Fortune) -> Option<Turn<'_>> {
        let mut holder = lock(&self.holder);
        while holder.is_some() {
            holder = self.opened.wait(holder).unwrap_or_else(PoisonError::into_inner);
        }
        if fortune.conflicts < PATIENCE {
            return None;
        }
        self.closed.store(true, Ordering::Relaxed);
        *holder = Some(fortune.worker);
        Some(Turn { gate: self, worker: fortune.worker })
    }

    /// Opens the gate if this worker has closed it.
    pub(crate) fn open(&self, worker: usize) {
        let mut holder = lock(&self.holder);
        if *holder == Some(worker) {
            *holder = None;
            // Relaxed: threads that wait are woken behind the mutex. A thread that does not look
            // needs no order, because isolation never rests on the gate.
            self.closed.store(false, Ordering::Relaxed);
            drop(holder);
            self.opened.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlucky_transaction_closes_the_gate_until_it_is_through() {
        let gate = Gate::default();
        let mut fortune = Fortune::new(0);
        for _ in 0..PATIENCE {
            assert!(gate.pass(&fortune).is_none());
            fortune.give_way();
        }
        let turn = gate.pass(&fortune);
        assert!(turn.is_some() && gate.closed.load(Ordering::Relaxed));
        drop(turn);
        assert!(!gate.closed.load(Ordering::Relaxed));
        fortune.reset();
        assert!(gate.pass(&fortune).is_none());
    }

    #[test]
    fn gate_of_forgotten_turn_is_opened_by_its_worker() {
        let gate = Gate::default();
        let mut unlucky = Fortune::new(3);
        (0..PATIENCE).for_each(|_| unlucky.give_way());
        std::mem::forget(gate.pass(&unlucky));
        gate.open(2);
        assert!(gate.closed.load(Ordering::Relaxed), "another worker's");
        gate.open(3);
        assert!(!gate.closed.load(Ordering::Relaxed));
        assert!(gate.pass(&unlucky).is_some(), "it can be closed again");
    }
}
