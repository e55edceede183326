//! The combiner: the thread that took the step last, of the threads that wait for their commits on
//! memory.
//!
//! The state of the step (its lock, the pending group, the log's head, the queue) is a dozen cache
//! lines. If each thread took the step for its own record, they would move to another core for each
//! commit. So a waiting thread first leaves its record to the combiner, which comes back with its
//! own next commit and sends both with one persist barrier. A thread that waits in vain takes the
//! step, and is the combiner then.
//!
//! | | looks at the durable watermark before the thread takes the step |
//! |---|---|
//! | combiner, or the only thread | none |
//! | another thread | [`LOOKS`] |
//! | another thread, if the combiner mostly does not come | none; one commit in [`TRIES`] looks |
//!
//! Nothing depends on these numbers but time: each thread ends its looks, and then helps as on any
//! other medium.
//!
//! (Flat combining: Hendler, Incze, Shavit, Tzafrir, SPAA 2010.)

// Part of no protocol, so the models do not explore it.
use std::sync::atomic::AtomicUsize;

use words::TxId;

use crate::sync::{MODELED, Ordering, cores, spin_loop};

/// Looks at the watermark: longer than a step and a short transaction. A thread that waits in vain
/// loses one to two microseconds. (Two workers, medians of `hashtable`, `tatp-hash` and `btree` on
/// `emulated` without delay: with 40 looks 1.19, 1.15 and .88 M/s, with 100 looks 1.42, 1.43 and
/// 1.04, with 200 looks 1.42, 1.40 and 1.08.)
const LOOKS: u32 = 100;

/// Credit of a pool whose combiner comes. A wait in vain costs one; another wait earns two, because
/// it saves a barrier and the move of the cache lines.
const CREDIT: usize = 16;

/// One in so many waits looks for the combiner when the pool has no credit.
const TRIES: u64 = 64;

std::thread_local! {
    /// Its address identifies the thread.
    static TAG: u8 = const { 0 };
}

/// See the module.
#[derive(Debug)]
pub(super) struct Combiner {
    /// The tag of the thread; 0: no thread has waited.
    thread: AtomicUsize,
    credit: AtomicUsize,
    looks: u32,
}

impl Combiner {
    pub(super) fn new() -> Combiner {
        let alone = cores() == 1 || MODELED;
        let looks = if alone { 0 } else { LOOKS };
        Combiner { thread: AtomicUsize::new(0), credit: AtomicUsize::new(CREDIT), looks }
    }

    /// Waits for a moment until `done`. If that does not come, the calling thread is the combiner.
    #[inline]
    pub(super) fn serves(&self, id: TxId, done: impl Fn() -> bool) -> bool {
        // Relaxed throughout: hints.
        let tag = TAG.with(|tag| std::ptr::from_ref(tag).addr());
        if self.thread.load(Ordering::Relaxed) == tag {
            return false;
        }
        self.waits(id, done, tag)
    }

    fn waits(&self, id: TxId, done: impl Fn() -> bool, tag: usize) -> bool {
        let is_first = self.thread.load(Ordering::Relaxed) == 0;
        let credit = self.credit.load(Ordering::Relaxed);
        if !is_first && (credit > 0 || id.0.is_multiple_of(TRIES)) {
            for look in 0..self.looks {
                if done() {
                    // An ID that was durable before the wait is no service of the combiner.
                    let earned = if look == 0 { 0 } else { 2 };
                    self.credit.store((credit + earned).min(CREDIT), Ordering::Relaxed);
                    return true;
                }
                spin_loop();
            }
            self.credit.store(credit.saturating_sub(1), Ordering::Relaxed);
        }
        self.thread.store(tag, Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Returns whether a thread of its own was served, and its looks.
    fn other(combiner: &Combiner, id: u64, served_at: u32) -> (bool, u32) {
        let wait = || {
            let looks = Cell::new(0);
            let done = || {
                looks.set(looks.get() + 1);
                looks.get() >= served_at
            };
            (combiner.serves(TxId(id), done), looks.get())
        };
        std::thread::scope(|scope| scope.spawn(wait).join().unwrap())
    }

    #[test]
    fn combiner_that_does_not_come_is_not_awaited_for_long() {
        let combiner = Combiner { looks: 7, ..Combiner::new() };
        let never = || false;
        assert!(!combiner.serves(TxId(1), never), "the first thread takes the step");
        assert_eq!(other(&combiner, 2, 3), (true, 3));
        // The thread that was served has not become the combiner.
        assert!(!combiner.serves(TxId(3), || panic!("the combiner does not look")));
        // No thread has this tag.
        let leave = || combiner.thread.store(1, Ordering::Relaxed);
        for credit in (0..CREDIT).rev() {
            leave();
            assert_eq!(other(&combiner, 3, u32::MAX), (false, 7));
            assert_eq!(combiner.credit.load(Ordering::Relaxed), credit);
        }
        leave();
        assert_eq!(other(&combiner, TRIES - 1, 1), (false, 0));
        leave();
        assert_eq!(other(&combiner, TRIES, 1), (true, 1));
        assert_eq!(combiner.credit.load(Ordering::Relaxed), 0, "it was durable before");
        assert_eq!(other(&combiner, TRIES, 2), (true, 2));
        assert_eq!(combiner.credit.load(Ordering::Relaxed), 2);
    }
}
