//! Workers that make their own transactions durable, and a thread that reads the durable ID.

use super::workers::Workers;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;

/// One transaction of each of two workers.
const COMMITS: usize = 2;

struct Shared {
    clock: AtomicU64,
    workers: Workers,
    /// Whether each transaction is durable. Accesses are relaxed, so only the steps can order them.
    log: [AtomicU64; COMMITS],
}

impl Shared {
    /// Commits a transaction of this slot's worker, as `undo` and `redo` do it.
    fn commit(&self, slot: usize) {
        let slot = self.workers.slot(slot);
        slot.assigning(self.clock.load(Ordering::Relaxed));
        let id = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        slot.assigned(id);
        self.log[id as usize - 1].store(1, Ordering::Relaxed);
        slot.idle();
        self.workers.acknowledge(slot, &self.clock, id).expect("nothing fails");
        assert!(self.durable() >= id, "acknowledged, and no longer durable");
    }

    /// Returns the durable ID, after checking that all transactions up to it are durable.
    fn durable(&self) -> u64 {
        let durable = self.workers.durable(&self.clock);
        let mut reported = self.log.iter().take(durable as usize);
        assert!(reported.all(|one| one.load(Ordering::Relaxed) == 1), "reported durable too early");
        durable
    }
}

pub(crate) fn reported_durable_id_is_durable_and_stays() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(1), move || {
        let shared = Arc::new(Shared {
            clock: AtomicU64::new(0),
            workers: Workers::new(2, 0),
            log: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        for number in 0..2 {
            shared.workers.enter("a design", number).expect("there is a slot");
        }
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.commit(1));
        shared.commit(0);
        seen.saw(shared.durable());
        other.join().expect("it ends");
        assert_eq!(shared.durable(), COMMITS as u64, "all are durable in the end");
    });
    met.are(1..=COMMITS as u64);
}
