//! The event: a thread waits for a state, and another thread brings it about.

use super::persist::Event;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Ordering, thread};

/// Both sides access the state relaxed, so only the event can order the accesses.
pub(crate) fn no_wake_up_is_lost() {
    run(1, 1, None);
    run(2, 1, Some(3));
    run(1, 2, Some(4));
}

fn run(waiters: u64, changes: u64, preemptions: Option<usize>) {
    explore(preemptions, move || {
        let shared = Arc::new((Event::default(), AtomicU64::new(0)));
        let waiters: Vec<_> = (0..waiters)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || wait_for(&shared.0, &shared.1, changes))
            })
            .collect();
        for change in 1..=changes {
            shared.1.store(change, Ordering::Relaxed);
            shared.0.notify();
        }
        for waiter in waiters {
            waiter.join().expect("a waiter ends");
        }
    });
}

fn wait_for(event: &Event, state: &AtomicU64, wanted: u64) {
    loop {
        let epoch = event.epoch();
        if state.load(Ordering::Relaxed) == wanted {
            return;
        }
        event.wait(epoch, None);
    }
}
