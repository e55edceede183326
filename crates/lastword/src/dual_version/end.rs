//! The end of a transaction: one word that makes all of its copies visible at once.
//!
//! ```text
//!   RUNNING --> IN_CRITICAL --> timestamp
//!               |          |
//!               +- the clock is advanced
//! ```
//!
//! All copies of a transaction refer to the same word, so one store shows all of them or none. A
//! reader whose snapshot includes the timestamp must find it there. That reader has loaded the
//! clock after it was advanced. The word held `IN_CRITICAL` before that, so the reader finds
//! `IN_CRITICAL` or the timestamp, never `RUNNING`. At `IN_CRITICAL` it waits for one store.
//! Without this state it could miss a transaction that its snapshot includes.
//!
//! The paper sets a flag, loads the clock, stores the timestamp, clears the flag, then advances the
//! clock. Those are four steps and a fence, and several transactions may share a timestamp. Here
//! one addition advances the clock and assigns the timestamp, so timestamps are the dense IDs of
//! the pool's interface. The flag is a value of the same word. A reader waits for one addition
//! more.
//!
//! Source: Pisces, section 3.1, algorithm 1, lines 14 and 42 to 47.

use crate::sync::{AtomicU64, Ordering, spin_loop, thread};
use medium::mutants::{Mutant, injected, weaken};

/// The transaction has not committed.
pub(crate) const RUNNING: u64 = u64::MAX;
/// Its timestamp is being assigned.
const IN_CRITICAL: u64 = u64::MAX - 1;
/// Polls before a waiting thread yields its core.
const SPINS: u32 = 100;

/// Shows all copies that refer to this word, and returns the timestamp.
#[inline]
pub(crate) fn show(end: &AtomicU64, clock: &AtomicU64) -> u64 {
    if !injected(Mutant::StampWithoutMark) {
        end.store(IN_CRITICAL, Ordering::Relaxed);
    }
    // Release: a thread that later loads the clock with Acquire sees `IN_CRITICAL`, also through
    // later additions, which continue this release sequence. Acquire: work at this timestamp comes
    // after everything that was shown before it.
    let acq_rel = weaken(Ordering::AcqRel, Ordering::Acquire, Mutant::StampWithoutRelease);
    let time = clock.fetch_add(1, acq_rel) + 1;
    // Release: a thread that sees the timestamp sees the words of the copies. (A thread that may
    // read them has also seen a clock that includes them.)
    end.store(time, Ordering::Release);
    time
}

/// Returns when the transaction ended, or [`RUNNING`].
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
    fn end_is_the_assigned_timestamp() {
        let (end, clock) = (AtomicU64::new(RUNNING), AtomicU64::new(41));
        assert_eq!(when(&end), RUNNING);
        assert_eq!((show(&end, &clock), when(&end)), (42, 42));
        assert_eq!(clock.load(Ordering::Relaxed), 42);
    }
}
