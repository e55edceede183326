//! Workers that commit at the same time share a record, and the one write that makes it durable.
//!
//! ```text
//!   a worker with a batch
//!   1 do fewer lead than may?  it leads: 3
//!   2 else the batch waits in the queue, and the worker sleeps until it is told:
//!     "durable" or "failed", and it is done; "lead", and it leads
//!
//!   who leads, its own batch in hand
//!   3 takes batches from the queue, oldest first, as long as there is room behind its own
//!   4 writes one record of all of them                                               barrier
//!   5 gives back what it has taken, and tells "durable" or "failed"
//!   6 lets the oldest that waits lead in its place; leads no more, where none waits
//! ```
//!
//! Invariants:
//! - A batch has one owner: its worker, the queue, or who has taken it. It is moved from one to the
//!   next, so it is in one record.
//! - While a batch waits, as many lead as may: 1 and 2 are one step under the queue's lock, and so
//!   is 6. Each of them comes to 6, whatever its write does. So nobody sleeps for ever, and in the
//!   order of the queue: who is let lead has its own batch in the next record.
//! - "Durable" is told behind the write that had the batch. Where the write fails or panics the
//!   pool is poisoned before anybody is told, and who leads afterwards writes nothing.
//! - All batches of a record came to 1 before it is made (3 comes before 4): whatever their workers
//!   have seen and shown before is seen by who makes it.
//!
//! A record is whole or it never happened, so its batches are durable together, or none is. They
//! are of transactions that have all locked what they write, and none of which can be seen before
//! it is told: they know nothing of each other, so their order in the record is no matter.
//!
//! Who is alone leads at once, writes its batch alone, and waits for nobody: two locks that nobody
//! has are all that it pays. Nothing is allocated once a worker has met its largest group: batches
//! are moved, and come back.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crossbeam_utils::CachePadded;

use crate::Error;
use crate::poison::Poison;
use crate::sync::{Condvar, Mutex, lock};

/// Records under way at a time. Measured, `lastword run tatp-hash --design snapshot --medium file
/// --threads T` on two busy cores, by a record for each transaction: with one 2 and 4 workers have
/// 0.77 of the rate, with two .9 to 1.1; 16 and 64 have 1.5 to 3.2 with either. With four as many
/// workers share nothing.
pub(super) const LEADERS: usize = 2;
/// Words of a record at most, if its leader's own batch has no more: what others lead meanwhile is
/// durable sooner than what comes behind it in one long write.
const RECORD_WORDS: usize = 1 << 17;
/// What a batch takes in a record besides its words.
const BESIDES: usize = 1;

/// The batches of workers that commit, until they are durable.
#[derive(Debug)]
pub(super) struct Gather {
    queue: CachePadded<Mutex<Queue>>,
    places: Box<[CachePadded<Place>]>,
    leaders: usize,
}

/// Another worker's batch.
#[derive(Debug)]
pub(super) struct Member {
    worker: usize,
    pub(super) batch: Vec<u64>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Member>,
    /// How many lead.
    leading: usize,
}

/// Where one worker sleeps.
#[derive(Debug, Default)]
struct Place {
    told: Mutex<Option<(Told, Vec<u64>)>>,
    bell: Condvar,
    /// What it has taken while it leads; nobody else looks.
    taken: Mutex<Vec<Member>>,
}

/// What a worker is told, with its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Lead,
    Durable,
    Failed,
}

impl Gather {
    /// For so many workers, of whom so many lead at a time.
    pub(super) fn new(workers: usize, leaders: usize) -> Gather {
        let queue = Queue { waiting: VecDeque::with_capacity(workers), leading: 0 };
        Gather {
            queue: CachePadded::new(Mutex::new(queue)),
            places: (0..workers).map(|_| CachePadded::default()).collect(),
            leaders,
        }
    }

    /// Makes a worker's batch durable, in a record that `write` makes of it and those of others, or
    /// in another worker's. `write` has room for so many words, of which each batch takes its own
    /// and one more; its own has room. It comes back with the worker's own batch in any case.
    ///
    /// # Errors
    /// Those of `write`, of whoever has called it, or of an earlier one: the pool is poisoned then.
    pub(super) fn persist(
        &self,
        poison: &Poison,
        worker: usize,
        batch: &mut Vec<u64>,
        room: usize,
        write: impl FnOnce(&[u64], &[Member]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.join(worker, batch) {
            Told::Durable => return Ok(()),
            Told::Failed => {
                return Err(poison.check().expect_err("who fails poisons the pool first"));
            }
            Told::Lead => {}
        }
        let mut taken = lock(&self.places[worker].taken);
        let mut lead = Lead { gather: self, taken: &mut taken, durable: false };
        // It is dropped before `lead`: a write that panics poisons before anybody is told.
        let guard = poison.on_panic("commit");
        let done = poison.check().and_then(|()| {
            lead.take(room.min(RECORD_WORDS).saturating_sub(batch.len() + BESIDES));
            write(batch, lead.taken)
        });
        let done = done.map_err(|error| poison.put(error));
        guard.disarm();
        lead.durable = done.is_ok();
        done
    }

    /// Steps 1 and 2.
    fn join(&self, worker: usize, batch: &mut Vec<u64>) -> Told {
        {
            let mut queue = lock(&self.queue);
            if queue.leading < self.leaders {
                queue.leading += 1;
                return Told::Lead;
            }
            queue.waiting.push_back(Member { worker, batch: std::mem::take(batch) });
        }
        let place = &self.places[worker];
        let mut told = lock(&place.told);
        loop {
            if let Some((told, given_back)) = told.take() {
                *batch = given_back;
                return told;
            }
            told = place.bell.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tell(&self, member: Member, told: Told) {
        let place = &self.places[member.worker];
        *lock(&place.told) = Some((told, member.batch));
        // Behind the lock: who wakes finds it free. Who has not slept yet finds what it is told.
        place.bell.notify_all();
    }
}

/// Who leads, from its step 3 on; steps 5 and 6 come when it goes, however it does.
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
            self.taken.extend(queue.waiting.pop_front());
        }
    }

    /// Step 6.
    fn hand_on(&self) {
        let next = {
            let mut queue = lock(&self.gather.queue);
            let next = queue.waiting.pop_front();
            queue.leading -= usize::from(next.is_none());
            next
        };
        next.into_iter().for_each(|next| self.gather.tell(next, Told::Lead));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let told = if self.durable { Told::Durable } else { Told::Failed };
        for member in self.taken.drain(..) {
            self.gather.tell(member, told);
        }
        // Last: who has been told may come again into the next record. The other way round records
        // have two thirds as many batches (measured, 16 and 64 workers).
        self.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// What some workers of one leader have written: the batches of each record.
    struct Log {
        gather: Gather,
        poison: Poison,
        records: Mutex<Vec<Vec<Vec<u64>>>>,
    }

    impl Log {
        /// Every worker's batch, of this many words; the first worker leads, and its write ends as
        /// `first` says when all others wait. Answers how it ended for each.
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
                        leads.send(()).expect("the others wait for it");
                        while lock(&this.gather.queue).waiting.len() < workers - 1 {
                            std::thread::yield_now();
                        }
                        first()
                    })
                });
                is_led.recv().expect("somebody leads");
                let others = (1..workers)
                    .map(|worker| scope.spawn(move || this.persist(worker, words, room, || Ok(()))))
                    .collect::<Vec<_>>();
                let all = std::iter::once(first).chain(others);
                all.map(|thread| thread.join().expect("it catches its panic")).collect()
            });
            (log, ended)
        }

        /// How it ended, or `None` for a panic. The batch comes back in any case.
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

        /// How many batches each record has. Each worker's is in one.
        fn sizes(&self) -> Vec<usize> {
            let records = lock(&self.records);
            let mut workers: Vec<u64> = records.iter().flatten().map(|batch| batch[0]).collect();
            workers.sort_unstable();
            assert!(workers.windows(2).all(|two| two[0] < two[1]), "in one record: {workers:?}");
            let nothing = lock(&self.gather.queue);
            assert_eq!((nothing.waiting.len(), nothing.leading), (0, 0));
            records.iter().map(Vec::len).collect()
        }
    }

    #[test]
    fn workers_that_commit_while_a_record_is_written_share_the_next() {
        let (log, ended) = Log::run(12, 3, 1000, || Ok(()));
        assert!(ended.iter().all(|ended| matches!(ended, Some(Ok(())))));
        assert_eq!(log.sizes(), [1, 11]);
    }

    #[test]
    fn a_record_has_as_many_as_its_leader_has_room_for() {
        // Three words and one each: four find room in 18.
        let (log, ended) = Log::run(12, 3, 18, || Ok(()));
        assert!(ended.iter().all(|ended| matches!(ended, Some(Ok(())))));
        assert_eq!(log.sizes(), [1, 4, 4, 3]);
        // However large a leader's own batch is.
        let (log, _) = Log::run(3, RECORD_WORDS, RECORD_WORDS + BESIDES, || Ok(()));
        assert_eq!(log.sizes(), [1, 1, 1]);
    }

    #[test]
    fn behind_a_write_that_fails_nothing_is_written_and_nobody_is_left_asleep() {
        let fails = || Err(Error::InsideTransaction { call: "a write" });
        let (log, ended) = Log::run(5, 3, 1000, fails);
        for ended in ended {
            let told = ended.expect("nobody panics").expect_err("it has failed").to_string();
            assert!(told.contains("a write"), "{told}");
        }
        assert_eq!(log.sizes(), [1]);
    }

    #[test]
    fn behind_a_write_that_panics_nothing_is_written_and_nobody_is_left_asleep() {
        let (log, ended) = Log::run(5, 3, 1000, || panic!("on purpose"));
        assert!(ended[0].is_none());
        for ended in &ended[1..] {
            assert!(matches!(ended, Some(Err(Error::Poisoned { .. }))), "{ended:?}");
        }
        assert_eq!(log.sizes(), [1]);
    }

    #[test]
    fn who_has_been_taken_is_told_of_a_write_that_fails() {
        let log =
            Log { gather: Gather::new(2, 1), poison: Poison::default(), records: Mutex::default() };
        lock(&log.gather.queue).waiting.push_back(Member { worker: 1, batch: vec![1] });
        let ended = log.persist(0, 1, 4, || panic!("on purpose"));
        assert!(ended.is_none());
        assert_eq!(*lock(&log.gather.places[1].told), Some((Told::Failed, vec![1])));
        assert_eq!(log.sizes(), [2]);
        assert!(log.poison.check().is_err());
    }
}
