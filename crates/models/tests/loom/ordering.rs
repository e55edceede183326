//! Several persist threads over memory. Each stores its own group, in any order, and no group is
//! acknowledged before all earlier groups are complete.

use super::persist::Progress;
use super::persist::flights::Flights;
use super::persist::queue::Flight;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, thread};
use models::outcomes::Outcomes;
use real_medium::Buffer;

const GROUPS: usize = 3;

struct Shared {
    /// The number of groups that have their places.
    placed: Mutex<u64>,
    flights: Flights,
    progress: Progress,
    /// Whether each group is in the log. Accesses are relaxed, so only the steps can order them.
    log: [AtomicU64; GROUPS],
}

impl Shared {
    /// Persists one group, from its place to its acknowledgement.
    fn persist(&self) {
        let number = {
            let mut placed = lock(&self.placed);
            *placed += 1;
            let last = *placed;
            self.flights.begin(Flight { first: last, last, words: 8, end: 64 * last }, None);
            last
        };
        self.log[number as usize - 1].store(1, Ordering::Relaxed);
        let memory = (Buffer::new(0), None);
        self.flights.land(64 * number, memory, |_, flight| {
            assert!(self.progress.durable() < flight.last, "the durable ID went back");
            self.progress.advance(flight.last);
        });
    }
}

pub(crate) fn groups_are_acknowledged_in_order() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared {
            placed: Mutex::new(0),
            flights: Flights::default(),
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
        assert!(shared.flights.is_empty());
    });
    met.are(0..=GROUPS as u64);
}
