//! Group commit across workers: concurrent commits share one record and one durable write.
//!
//! On `file` a durable write takes far longer than a commit's other work. Workers that commit while
//! a write is in flight queue their batches, and a leader writes the queued batches in one record.
//!
//! ```text
//!   a worker with a batch
//!   1 fewer leaders than the limit?  the worker leads: step 3
//!   2 otherwise its batch joins the queue, and it sleeps until it is notified:
//!     "durable" or "failed" ends its wait; "lead" makes it a leader
//!
//!   a leader, with its own batch
//!   3 takes batches from the queue, oldest first, while they fit after its own
//!   4 writes one record of all of them                                               barrier
//!   5 returns the batches and notifies their workers: "durable" or "failed"
//!   6 makes the oldest waiting worker a leader in its place, or steps down
//! ```
//!
//! Invariants:
//! - A batch has one owner: its worker, the queue, or the leader that has taken it. It is moved
//!   between them, so it is in exactly one record.
//! - While a batch waits, the number of leaders is at its limit. Steps 1 and 2 are one critical
//!   section of the queue's lock, and so is 6. Every leader reaches 6, whatever its write does. So
//!   no worker sleeps for ever, and the queue is served in order: a new leader's own batch is in
//!   the next record.
//! - "Durable" follows the write that contained the batch. If the write fails or panics, the pool
//!   is poisoned before any worker is notified, and later leaders write nothing.
//! - All batches of a record passed step 1 before the record is made, because 3 comes before 4. So
//!   the leader sees everything that their workers saw or published before.
//!
//! A record is whole or absent, so its batches become durable together. Their transactions hold
//! locks on all that they write and none is visible before its notification. They are independent
//! of each other, so their order in the record does not matter.
//!
//! A worker that commits alone leads at once, writes its own batch and never waits. It pays for two
//! uncontended locks. Batches are moved and returned, so a worker allocates nothing after its
//! largest group.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected};

use crate::error::Error;
use crate::poison::Poison;
use crate::sync::{Condvar, Mutex, lock};

/// Records in flight at a time.
///
/// Measured with `lastword run tatp-hash --design snapshot --medium file --threads T` on two busy
/// cores, relative to one record per transaction:
///
/// | leaders | 2 and 4 workers | 16 and 64 workers |
/// |---|---|---|
/// | 1 | 0.77 of the rate | 1.5 to 3.2 |
/// | 2 | 0.9 to 1.1 | 1.5 to 3.2 |
///
/// With four leaders, four workers share no record.
pub(super) const LEADERS: usize = 2;
/// Maximum words of a record, unless its leader's own batch has more. Other leaders' records become
/// durable earlier than batches at the end of one long write would.
const RECORD_WORDS: usize = 1 << 17;
/// Words that a batch takes in a record besides its own.
const BESIDES: usize = 1;

/// The queue of batches whose workers are committing.
#[derive(Debug)]
pub(super) struct Gather {
    queue: CachePadded<Mutex<Queue>>,
    places: Box<[CachePadded<Place>]>,
    leaders: usize,
}

/// The batch of a worker other than the leader.
#[derive(Debug)]
pub(super) struct Member {
    worker: usize,
    pub(super) batch: Vec<u64>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Member>,
    /// Workers that lead at present.
    leading: usize,
}

/// The place where one worker sleeps.
#[derive(Debug, Default)]
struct Place {
    outcome: Mutex<Option<(Outcome, Vec<u64>)>>,
    decided: Condvar,
    /// The batches it has taken as a leader; only this worker uses it.
    taken: Mutex<Vec<Member>>,
}

/// The outcome that a waiting worker is notified of, together with its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Lead,
    Durable,
    Failed,
}

impl Gather {
    /// Creates a queue for `workers`, of which at most `leaders` lead at a time.
    pub(super) fn new(workers: usize, leaders: usize) -> Gather {
        let queue = Queue { waiting: VecDeque::with_capacity(workers), leading: 0 };
        Gather {
            queue: CachePadded::new(Mutex::new(queue)),
            places: (0..workers).map(|_| CachePadded::default()).collect(),
            leaders,
        }
    }

    /// Makes a worker's batch durable: in a record that `write` makes of it and other workers'
    /// batches, or in another leader's record. `room` is the words available to `write`: each batch
    /// takes its own words and one more, and the worker's own batch must fit. The batch is returned
    /// in every case.
    ///
    /// # Errors
    /// Those of `write`, of the leader that wrote the batch, or of an earlier failure: the pool is
    /// poisoned then.
    pub(super) fn persist(
        &self,
        poison: &Poison,
        worker: usize,
        batch: &mut Vec<u64>,
        room: usize,
        write: impl FnOnce(&[u64], &[Member]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.join(worker, batch) {
            Outcome::Durable => return Ok(()),
            Outcome::Failed => {
                return Err(poison.check().expect_err("a failed leader poisons the pool first"));
            }
            Outcome::Lead => {}
        }
        let mut taken = lock(&self.places[worker].taken);
        let mut lead = Lead { gather: self, taken: &mut taken, durable: false };
        // Dropped before `lead`, so a write that panics poisons the pool before any worker is
        // notified.
        let guard = poison.on_panic("commit");
        let checked = poison.check().or_else(|error| match injected(Mutant::LeaderIgnoresPoison) {
            true => Ok(()),
            false => Err(error),
        });
        let done = checked.and_then(|()| {
            let room = room.min(RECORD_WORDS).saturating_sub(batch.len() + BESIDES);
            if injected(Mutant::BatchesTakenAfterWrite) {
                let written = write(batch, lead.taken);
                lead.take(room);
                return written;
            }
            lead.take(room);
            write(batch, lead.taken)
        });
        let done = done.map_err(|error| match injected(Mutant::FailureReportedBeforePoison) {
            true => error,
            false => poison.put(error),
        });
        guard.disarm();
        lead.durable = done.is_ok() || injected(Mutant::FailureReportedDurable);
        done
    }

    /// Steps 1 and 2.
    fn join(&self, worker: usize, batch: &mut Vec<u64>) -> Outcome {
        {
            let mut queue = lock(&self.queue);
            let leaders = self.leaders + usize::from(injected(Mutant::OneLeaderTooMany));
            if queue.leading < leaders {
                queue.leading += 1;
                return Outcome::Lead;
            }
            if injected(Mutant::LeadersReadBeforeLock) {
                drop(queue);
                queue = lock(&self.queue);
            }
            queue.waiting.push_back(Member { worker, batch: std::mem::take(batch) });
        }
        let place = &self.places[worker];
        let mut outcome = lock(&place.outcome);
        loop {
            if let Some((outcome, given_back)) = outcome.take() {
                *batch = given_back;
                return outcome;
            }
            outcome = place.decided.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn notify(&self, member: Member, outcome: Outcome) {
        let place = &self.places[member.worker];
        *lock(&place.outcome) = Some((outcome, member.batch));
        // After the lock is released, so that the woken worker finds it free. A worker that has not
        // slept yet finds the outcome instead.
        if !injected(Mutant::OutcomeNotNotified) {
            place.decided.notify_all();
        }
    }
}

/// A leader from step 3 on. Its drop runs steps 5 and 6, also when the write fails or panics.
struct Lead<'g> {
    gather: &'g Gather,
    taken: &'g mut Vec<Member>,
    durable: bool,
}

impl Lead<'_> {
    /// Step 3.
    fn take(&mut self, mut room: usize) {
        let mut queue = lock(&self.gather.queue);
        while let Some(first) = queue.waiting.front()
            && let Some(rest) = room.checked_sub(first.batch.len() + BESIDES)
        {
            room = rest;
            if injected(Mutant::TakenBatchWaitsOn) {
                self.taken.push(Member { worker: first.worker, batch: first.batch.clone() });
                continue;
            }
            self.taken.extend(queue.waiting.pop_front());
        }
    }

    /// Step 6.
    fn hand_on(&self) {
        let next = {
            let mut queue = lock(&self.gather.queue);
            let next = match injected(Mutant::LeadNotHandedOn) {
                true => None,
                false => queue.waiting.pop_front(),
            };
            if injected(Mutant::LeadHandedOnAndEnded) {
                queue.leading = queue.leading.saturating_sub(1);
            } else {
                queue.leading -= usize::from(next.is_none());
            }
            next
        };
        next.into_iter().for_each(|next| self.gather.notify(next, Outcome::Lead));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let outcome = if self.durable { Outcome::Durable } else { Outcome::Failed };
        for member in self.taken.drain(..) {
            self.gather.notify(member, outcome);
        }
        // Last: a notified worker may commit again and join the next record. In the other order
        // records have two thirds as many batches (measured, 16 and 64 workers).
        self.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// The records written by a group of workers with one leader at a time: the batches of each
    /// record.
    struct Log {
        gather: Gather,
        poison: Poison,
        records: Mutex<Vec<Vec<Vec<u64>>>>,
    }

    impl Log {
        /// Commits one batch of `words` words per worker. The first worker leads, and its write
        /// returns `first()` once all others wait. Returns each worker's result.
        fn run(
            workers: usize,
            words: usize,
            room: usize,
            first: impl Fn() -> Result<(), Error> + Send,
        ) -> (Log, Vec<Option<Result<(), Error>>>) {
            let log = Log {
                gather: Gather::new(workers, 1),
                poison: Poison::default(),
                records: Mutex::default(),
            };
            let (leads, is_led) = std::sync::mpsc::channel();
            let this = &log;
            let ended = std::thread::scope(|scope| {
                let first = scope.spawn(move || {
                    this.persist(0, words, room, || {
                        leads.send(()).expect("the main thread receives it");
                        while lock(&this.gather.queue).waiting.len() < workers - 1 {
                            std::thread::yield_now();
                        }
                        first()
                    })
                });
                is_led.recv().expect("the first worker leads");
                let others = (1..workers)
                    .map(|worker| scope.spawn(move || this.persist(worker, words, room, || Ok(()))))
                    .collect::<Vec<_>>();
                let all = std::iter::once(first).chain(others);
                all.map(|thread| thread.join().expect("the worker catches its panic")).collect()
            });
            (log, ended)
        }

        /// Returns the result of the commit, or `None` for a panic. The batch is returned in every
        /// case.
        fn persist(
            &self,
            worker: usize,
            words: usize,
            room: usize,
            end: impl FnOnce() -> Result<(), Error>,
        ) -> Option<Result<(), Error>> {
            let mut batch = vec![worker as u64; words];
            let write = |own: &[u64], others: &[Member]| {
                let others = others.iter().map(|other| other.batch.clone());
                let record: Vec<_> = std::iter::once(own.to_vec()).chain(others).collect();
                assert!(record.iter().map(|batch| batch.len() + BESIDES).sum::<usize>() <= room);
                lock(&self.records).push(record);
                end()
            };
            let Log { gather, poison, .. } = self;
            let persist = || gather.persist(poison, worker, &mut batch, room, write);
            let ended = catch_unwind(AssertUnwindSafe(persist)).ok();
            assert_eq!(batch, vec![worker as u64; words]);
            ended
        }

        /// Returns the number of batches in each record. Each worker's batch is in exactly one.
        fn sizes(&self) -> Vec<usize> {
            let records = lock(&self.records);
            let mut workers: Vec<u64> = records.iter().flatten().map(|batch| batch[0]).collect();
            workers.sort_unstable();
            assert!(
                workers.windows(2).all(|two| two[0] < two[1]),
                "a batch is in two records: {workers:?}"
            );
            let nothing = lock(&self.gather.queue);
            assert_eq!((nothing.waiting.len(), nothing.leading), (0, 0));
            records.iter().map(Vec::len).collect()
        }
    }

    #[test]
    fn batches_queued_during_write_share_next_record() {
        let (log, ended) = Log::run(12, 3, 1000, || Ok(()));
        assert!(ended.iter().all(|ended| matches!(ended, Some(Ok(())))));
        assert_eq!(log.sizes(), [1, 11]);
    }

    #[test]
    fn record_size_is_bounded_by_leaders_room() {
        // Three words and one more each: four batches fit in 18.
        let (log, ended) = Log::run(12, 3, 18, || Ok(()));
        assert!(ended.iter().all(|ended| matches!(ended, Some(Ok(())))));
        assert_eq!(log.sizes(), [1, 4, 4, 3]);
        // A leader's own batch may be of any size.
        let (log, _) = Log::run(3, RECORD_WORDS, RECORD_WORDS + BESIDES, || Ok(()));
        assert_eq!(log.sizes(), [1, 1, 1]);
    }

    #[test]
    fn failed_write_wakes_all_and_stops_writes() {
        let fails = || Err(Error::InsideTransaction { call: "a write" });
        let (log, ended) = Log::run(5, 3, 1000, fails);
        for ended in ended {
            let error = ended.expect("no worker panics").expect_err("the write failed").to_string();
            assert!(error.contains("a write"), "{error}");
        }
        assert_eq!(log.sizes(), [1]);
    }

    #[test]
    fn panicking_write_wakes_all_and_stops_writes() {
        let (log, ended) = Log::run(5, 3, 1000, || panic!("injected panic"));
        assert!(ended[0].is_none());
        for ended in &ended[1..] {
            assert!(matches!(ended, Some(Err(Error::Poisoned { .. }))), "{ended:?}");
        }
        assert_eq!(log.sizes(), [1]);
    }

    #[test]
    fn taken_batch_is_notified_of_failed_write() {
        let log =
            Log { gather: Gather::new(2, 1), poison: Poison::default(), records: Mutex::default() };
        lock(&log.gather.queue).waiting.push_back(Member { worker: 1, batch: vec![1] });
        let ended = log.persist(0, 1, 4, || panic!("injected panic"));
        assert!(ended.is_none());
        assert_eq!(*lock(&log.gather.places[1].outcome), Some((Outcome::Failed, vec![1])));
        assert_eq!(log.sizes(), [2]);
        assert!(log.poison.check().is_err());
    }
}
