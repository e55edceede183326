//! The budget of a heap that grows before it is full, and the end of its thread.

use super::growth_budget::{Budget, Look};
use super::persist::event::Event;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Ordering, thread};

/// Free memory below which the heap grows, in runs.
const MARGIN: u64 = 1;

struct Shared {
    budget: Budget,
    free: AtomicU64,
    grown: Event,
}

/// Looks as the pool's thread does: it grows an almost full heap, and counts.
fn look(shared: &Shared) -> Look {
    // An addition reads the last value. In a pool a look may miss the runs of open transactions.
    let mut free = shared.free.fetch_add(0, Ordering::Relaxed);
    if free < MARGIN {
        free = 2 + shared.free.fetch_add(2, Ordering::Relaxed);
        shared.grown.notify();
    }
    Look { bytes: free.saturating_sub(MARGIN).max(1), at: None }
}

/// A worker takes all the memory, waits until the thread has noticed that, and closes the pool.
fn run(runs: u64, preemptions: Option<usize>) {
    explore(preemptions, move || {
        let shared =
            Shared { budget: Budget::new(), free: AtomicU64::new(runs), grown: Event::default() };
        let shared = Arc::new(shared);
        let theirs = Arc::clone(&shared);
        let grows = thread::spawn(move || theirs.budget.serve(|| look(&theirs)));
        for _ in 0..runs {
            shared.free.fetch_sub(1, Ordering::Relaxed);
            shared.budget.took_run(1);
        }
        loop {
            let epoch = shared.grown.epoch();
            if shared.free.fetch_add(0, Ordering::Relaxed) >= MARGIN {
                break;
            }
            shared.grown.wait(epoch, None);
        }
        shared.budget.close();
        grows.join().expect("the thread ends");
    });
}

pub(crate) fn full_heap_is_noticed() {
    run(2, Some(3));
    run(3, Some(2));
}
