//! Several persist threads over memory. Each stores its own group, in any order, and no group is
//! acknowledged before all earlier groups are complete.

use super::persist::Progress;
use super::persist::in_flight::InFlight;
use super::persist::queue::LogGroup;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, thread};
use models::outcomes::Outcomes;
use real_medium::Buffer;

const GROUPS: usize = 3;

struct Shared {
    /// The number of groups that have their places.
    placed: Mutex<u64>,
    in_flight: InFlight,
    progress: Progress,
    /// Whether each group is in the log. Accesses are relaxed, so only the steps can order them.
    log: [AtomicU64; GROUPS],
}

impl Shared {
    /// Persists one group, from its place to its acknowledgement.
    fn persist(&self) {
        let (number, last) = {
            let mut placed = lock(&self.placed);
            *placed += 1;
            let last = *placed;
            let group = LogGroup { first: last, last, words: 8, end: 64 * last };
            (self.in_flight.place(group, None), last)
        };
        self.log[last as usize - 1].store(1, Ordering::Relaxed);
        let memory = (Buffer::new(0), None);
        self.in_flight.complete(number, memory, |_, group| {
            assert!(self.progress.durable() < group.last, "the durable ID went back");
            self.progress.advance(group.last);
        });
    }
}

pub(crate) fn groups_are_acknowledged_in_order() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared {
            placed: Mutex::new(0),
            in_flight: InFlight::default(),
            progress: Progress::new(0),
            log: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            theirs.persist();
            theirs.persist();
        });
        shared.persist();
        let durable = shared.progress.durable();
        let whole = shared.log.iter().take(durable as usize);
        assert!(whole.clone().all(|group| group.load(Ordering::Relaxed) == 1), "not whole");
        seen.saw(durable);
        other.join().expect("it ends");
        assert_eq!(shared.progress.durable(), GROUPS as u64, "all are acknowledged in the end");
        assert!(shared.in_flight.is_empty());
    });
    met.are(0..=GROUPS as u64);
}
