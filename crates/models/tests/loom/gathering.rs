//! Workers that share records. Each batch is in one record, a worker returns when its record is
//! durable, no worker sleeps forever, and a failed write fails all workers whose batches it has.

use super::gather::{Gather, Member};
use crate::Error;
use crate::explore::explore;
use crate::poison::Poison;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering, thread};
use models::outcomes::Outcomes;

struct Shared {
    gather: Gather,
    poison: Poison,
    /// The clock of `snapshot`, which advances when a transaction becomes visible.
    clock: AtomicU64,
    /// The number of records that have each worker's batch. Accesses are relaxed, so only the steps
    /// can order them.
    log: Vec<AtomicU64>,
    /// The number of records written.
    written: AtomicUsize,
    in_flight: AtomicUsize,
    leaders: usize,
    fails: bool,
}

impl Shared {
    /// Writes a record of several batches. Each batch has its worker's number and its start.
    fn write(&self, own: &[u64], others: &[Member]) -> Result<(), Error> {
        let leading = self.in_flight.fetch_add(1, Ordering::Relaxed);
        assert!(leading < self.leaders, "too many leaders");
        let before = self.written.fetch_add(1, Ordering::Relaxed);
        assert!(!self.fails || before == 0, "written after a failure");
        let stamp = self.clock.load(Ordering::Acquire) + 1;
        for batch in std::iter::once(own).chain(others.iter().map(|other| &*other.batch)) {
            assert!(batch[1] < stamp, "the stamp must exceed each batch's start");
            let log = &self.log[batch[0] as usize];
            log.store(1 + log.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        match self.fails {
            true => Err(Error::InsideTransaction { call: "a write" }),
            false => Ok(()),
        }
    }

    /// Commits a transaction of this worker, whose slot has this much room.
    fn commit(&self, worker: usize, room: usize) {
        let mut batch = vec![worker as u64, self.clock.load(Ordering::Acquire)];
        let write = |own: &[u64], others: &[Member]| self.write(own, others);
        let done = self.gather.persist(&self.poison, worker, &mut batch, room, write);
        assert_eq!(batch[0], worker as u64, "the worker gets its own batch back");
        assert_eq!(done.is_err(), self.fails, "reported durable, and it failed");
        if !self.fails {
            let written = self.log[worker].load(Ordering::Relaxed);
            assert!(written > 0, "reported durable, and not written");
            self.clock.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Words of a batch in a record.
const BATCH: usize = 3;

/// Runs a transaction of each worker, each in a thread. The outcomes are the numbers of records.
fn run(
    fails: bool,
    (workers, leaders): (usize, usize),
    room: usize,
    preemptions: Option<usize>,
) -> Outcomes {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(preemptions, move || {
        let shared = Arc::new(Shared {
            gather: Gather::new(workers, leaders),
            poison: Poison::default(),
            clock: AtomicU64::new(0),
            log: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            leaders,
            fails,
        });
        let others = (1..workers).map(|worker| {
            let theirs = Arc::clone(&shared);
            thread::spawn(move || theirs.commit(worker, room))
        });
        let others: Vec<_> = others.collect();
        shared.commit(0, room);
        others.into_iter().for_each(|other| other.join().expect("it ends"));
        if !fails {
            let once = |log: &AtomicU64| log.load(Ordering::Relaxed) == 1;
            assert!(shared.log.iter().all(once), "every batch is in one record");
        }
        seen.saw(shared.written.load(Ordering::Relaxed) as u64);
    });
    met
}

pub(crate) fn every_batch_is_in_one_record() {
    run(false, (2, 1), 2 * BATCH, Some(4)).are([1, 2]);
    run(false, (3, 1), 2 * BATCH, Some(2)).are([2, 3]);
    run(false, (3, 2), 3 * BATCH, Some(2)).are([2, 3]);
}

pub(crate) fn failed_write_fails_all_its_batches() {
    run(true, (2, 1), 2 * BATCH, Some(4)).are([1]);
    run(true, (3, 1), 3 * BATCH, Some(2)).are([1]);
}
