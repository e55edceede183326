//! When a transaction ended: one word that makes all of its copies visible at once.
//!
//! ```text
//!   RUNNING --> IN_CRITICAL --> timestamp
//!               |          |
//!               +- clock + 1 is drawn
//! ```
//!
//! All copies of a transaction name the same word, so setting it shows them all, or none, to
//! whoever looks. A reader whose snapshot is not older than the timestamp must find it there. It
//! has loaded the clock after it was moved; the word said `IN_CRITICAL` before that, so the reader
//! finds that or the timestamp, never `RUNNING`. If it finds `IN_CRITICAL` it waits for a store.
//! Without that mark it could pass by a transaction that its snapshot has.
//!
//! The paper sets a flag, loads the clock, stores the timestamp, clears the flag, then moves the
//! clock: four steps and a fence, and several transactions may share a timestamp. Here the addition
//! that moves the clock is also what draws the timestamp, so that timestamps are the dense IDs that
//! the pool's interface speaks of, and the flag is a value of the same word. A reader waits for one
//! addition more. (Pisces, section 3.1, algorithm 1, lines 14 and 42 to 47.)

use crate::sync::{AtomicU64, Ordering, spin_loop, thread};

/// The transaction has not committed.
pub(crate) const RUNNING: u64 = u64::MAX;
/// It is drawing its timestamp.
const IN_CRITICAL: u64 = u64::MAX - 1;
/// Looks before the core is given to the one that is waited for.
const SPINS: u32 = 100;

/// Shows all copies that name this word; answers the timestamp.
#[inline]
pub(crate) fn show(end: &AtomicU64, clock: &AtomicU64) -> u64 {
    end.store(IN_CRITICAL, Ordering::Relaxed);
    // Release: who loads the clock from here on, with Acquire, sees the mark; so does who loads it
    // after later additions, which continue this one's release sequence. Acquire: what is done at
    // this time comes after what was shown before it.
    let time = clock.fetch_add(1, Ordering::AcqRel) + 1;
    // Release: who sees the timestamp sees what was written to the copies. (Whoever may read them
    // has seen the clock behind them, too.)
    end.store(time, Ordering::Release);
    time
}

/// When the transaction ended; [`RUNNING`] when it has not.
#[inline]
pub(crate) fn when(end: &AtomicU64) -> u64 {
    let mut spins = 0;
    loop {
        let found = end.load(Ordering::Acquire);
        if found != IN_CRITICAL {
            return found;
        }
        if spins < SPINS {
            spins += 1;
            spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_ends_at_the_time_that_it_has_drawn() {
        let (end, clock) = (AtomicU64::new(RUNNING), AtomicU64::new(41));
        assert_eq!(when(&end), RUNNING);
        assert_eq!((show(&end, &clock), when(&end)), (42, 42));
        assert_eq!(clock.load(Ordering::Relaxed), 42);
    }
}
