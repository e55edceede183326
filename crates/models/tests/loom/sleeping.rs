//! The sleep of the persist thread, and workers that commit.

use super::persist::background::Notifiers;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Ordering, thread};

struct Shared {
    clock: AtomicU64,
    notifiers: Notifiers,
}

/// The loop of the persist thread without its naps, over a step that makes every commit durable.
fn persist(shared: &Shared, last: u64) {
    loop {
        let epoch = shared.notifiers.persist.epoch();
        let durable = shared.clock.load(Ordering::Acquire);
        if durable == last {
            return;
        }
        shared.notifiers.sleep(epoch, &shared.clock, durable, None);
    }
}

fn run(workers: u64, commits: u64, preemptions: Option<usize>) {
    explore(preemptions, move || {
        let shared = Arc::new(Shared { clock: AtomicU64::new(0), notifiers: Notifiers::default() });
        let theirs = Arc::clone(&shared);
        let mut threads = vec![thread::spawn(move || persist(&theirs, workers * commits))];
        for _ in 0..workers {
            let theirs = Arc::clone(&shared);
            threads.push(thread::spawn(move || {
                for _ in 0..commits {
                    theirs.clock.fetch_add(1, Ordering::AcqRel);
                    theirs.notifiers.committed();
                }
            }));
        }
        for thread in threads {
            thread.join().expect("a thread ends");
        }
    });
}

pub(crate) fn commit_wakes_the_sleeping_thread() {
    run(1, 1, None);
    run(1, 2, Some(4));
    run(2, 1, Some(2));
}
