//! Workers that share records: each batch is in one, a worker is told when that one is durable,
//! nobody sleeps for ever, and a write that fails is told to all whom it concerns.

use super::gather::{Gather, Member};
use crate::Error;
use crate::explore::explore;
use crate::poison::Poison;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering, thread};
use models::outcomes::Outcomes;

struct Shared {
    gather: Gather,
    poison: Poison,
    /// As that of `snapshot`: moved when a transaction is shown.
    clock: AtomicU64,
    /// In how many records each worker's batch is; stored and loaded relaxed, so that what must be
    /// seen of it is shown by the steps alone.
    log: Vec<AtomicU64>,
    /// Records.
    written: AtomicUsize,
    under_way: AtomicUsize,
    leaders: usize,
    fails: bool,
}

impl Shared {
    /// The record of some batches, which say whose they are and where they began.
    fn write(&self, own: &[u64], others: &[Member]) -> Result<(), Error> {
        let leading = self.under_way.fetch_add(1, Ordering::Relaxed);
        assert!(leading < self.leaders, "more lead than may");
        let before = self.written.fetch_add(1, Ordering::Relaxed);
        assert!(!self.fails || before == 0, "written behind a failure");
        let stamp = self.clock.load(Ordering::Acquire) + 1;
        for batch in std::iter::once(own).chain(others.iter().map(|other| &*other.batch)) {
            assert!(batch[1] < stamp, "a stamp that is not above a beginning");
            let log = &self.log[batch[0] as usize];
            log.store(1 + log.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        match self.fails {
            true => Err(Error::InsideTransaction { call: "a write" }),
            false => Ok(()),
        }
    }

    /// A transaction of this worker, in whose slot there is so much room.
    fn commit(&self, worker: usize, room: usize) {
        let mut batch = vec![worker as u64, self.clock.load(Ordering::Acquire)];
        let write = |own: &[u64], others: &[Member]| self.write(own, others);
        let done = self.gather.persist(&self.poison, worker, &mut batch, room, write);
        assert_eq!(batch[0], worker as u64, "its batch comes back");
        assert_eq!(done.is_err(), self.fails, "told durable, and it failed");
        if !self.fails {
            let written = self.log[worker].load(Ordering::Relaxed);
            assert!(written > 0, "told, and not written");
            self.clock.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Words of a batch in a record.
const BATCH: usize = 3;

/// A transaction of each worker, in threads; answers in how many records they are.
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
            under_way: AtomicUsize::new(0),
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

pub(crate) fn a_failure_is_told_to_all_whom_it_concerns() {
    run(true, (2, 1), 2 * BATCH, Some(4)).are([1]);
    run(true, (3, 1), 3 * BATCH, Some(2)).are([1]);
}
