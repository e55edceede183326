//! Injected panics in commits and roll-backs, and their tests.
//!
//! The designs call [`point`] where a commit has assigned an ID, written its record, and so on. A
//! test arms one point for its thread. The panic must poison the pool, and recovery then decides
//! whether the transaction is there.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use words::Ptr;

use crate::design::{Decoupled, Design, Mvcc, Snapshot, Undo, Volatile};
use crate::perform::{Redo, Space, StarvationLock, Stm, Tm, Written};
use crate::sync::AtomicU64;
use crate::{Error, Medium, Objects, Options, Pool, Stop, TxId, Worker, slots};

/// A place in a commit or roll-back that can panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before the first step.
    Begun,
    /// An ID is assigned, and has no record.
    Assigned,
    /// A group's end has begun, and the group has no record.
    GroupEnds,
    /// The ID has its record; ownership records are taken.
    Recorded,
}

thread_local! {
    static ARMED: Cell<Option<Point>> = const { Cell::new(None) };
}

/// Panics if the test has armed this point.
pub(crate) fn point(here: Point) {
    if ARMED.get() == Some(here) {
        ARMED.set(None);
        std::panic::resume_unwind(Box::new("the end of a transaction panics"));
    }
}

/// Runs `work` with this point armed. Returns whether it panicked.
pub(crate) fn panics_at(point: Point, work: impl FnOnce()) -> bool {
    ARMED.set(Some(point));
    let ended = catch_unwind(AssertUnwindSafe(work));
    ARMED.set(None);
    ended.is_err()
}

/// The transactional memory `stm`, with all points.
struct Panicking(Stm);

/// A recorder, with the points around its record.
struct AtPoints<'r, R>(&'r mut R);

impl<R: Redo> Redo for AtPoints<'_, R> {
    fn has_room(&mut self, words: usize) -> bool {
        self.0.has_room(words)
    }

    fn assigning(&mut self, clock: u64) {
        self.0.assigning(clock);
    }

    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        point(Point::Assigned);
        self.0.record(id, written);
        point(Point::Recorded);
    }
}

impl Tm for Panicking {
    const NAME: &'static str = "panicking";
    type Attempt = <Stm as Tm>::Attempt;

    fn sized(heap_words: usize, records: u64) -> Result<Panicking, Error> {
        Ok(Panicking(Stm::sized(heap_words, records)?))
    }

    fn attempt(&self, worker: usize) -> Self::Attempt {
        self.0.attempt(worker)
    }

    fn clock(&self) -> &AtomicU64 {
        self.0.clock()
    }

    fn starvation_lock(&self) -> &StarvationLock {
        self.0.starvation_lock()
    }

    fn begin(&self, attempt: &mut Self::Attempt) {
        self.0.begin(attempt);
    }

    fn read(&self, on: &mut Self::Attempt, space: impl Space, index: usize) -> Result<u64, Stop> {
        self.0.read(on, space, index)
    }

    fn read_run(
        &self,
        on: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        out: &mut [u64],
    ) -> Result<(), Stop> {
        self.0.read_run(on, space, index, out)
    }

    fn write(
        &self,
        on: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        value: u64,
    ) -> Result<(), Stop> {
        self.0.write(on, space, index, value)
    }

    fn write_run(
        &self,
        on: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        values: &[u64],
    ) -> Result<(), Stop> {
        self.0.write_run(on, space, index, values)
    }

    fn will_read(&self, space: impl Space, index: usize, words: usize) {
        self.0.will_read(space, index, words);
    }

    fn will_write(&self, space: impl Space, index: usize, words: usize) {
        self.0.will_write(space, index, words);
    }

    fn words_written(&self, attempt: &Self::Attempt) -> usize {
        self.0.words_written(attempt)
    }

    fn commit(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> Result<TxId, Stop> {
        point(Point::Begun);
        self.0.commit(attempt, space, &mut AtPoints(redo))
    }

    fn roll_back(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> TxId {
        point(Point::Begun);
        self.0.roll_back(attempt, space, &mut AtPoints(redo))
    }
}

/// Runs a transaction that sets both words, and whose commit or roll-back panics at this point.
/// Returns whether it did.
fn panics<D: Design>(
    worker: &mut Worker<'_, D>,
    words: [Ptr<u64>; 2],
    at: Point,
    in_commit: bool,
) -> bool {
    panics_at(at, || {
        let done = worker.run(|tx| {
            words.iter().try_for_each(|word| tx.set(*word, 2))?;
            if in_commit { Ok(()) } else { tx.abort("rolls back") }
        });
        drop(done.map(drop));
    })
}

/// Commits two words with the value 1, far apart.
pub(crate) fn two_words<D: Design>(pool: &Pool<D>) -> [Ptr<u64>; 2] {
    let done = pool.run(|tx| {
        let first = tx.alloc(1_u64)?;
        for _ in 0..8 {
            tx.alloc([0_u64; 128])?;
        }
        Ok([first, tx.alloc(1_u64)?])
    });
    let done = done.unwrap();
    if D::DURABLE {
        done.ticket.wait().unwrap();
    }
    done.value
}

/// Lets an end panic at each point. Calls `check` with the pool, the words, the point, and whether
/// it was in a commit.
fn each_panic<D: Design>(
    pool: impl Fn() -> Pool<D>,
    points: &[Point],
    mut check: impl FnMut(Pool<D>, [Ptr<u64>; 2], Point, bool),
) {
    for (&at, in_commit) in points.iter().flat_map(|at| [(at, true), (at, false)]) {
        let pool = pool();
        let words = two_words(&pool);
        let mut worker = pool.worker().unwrap();
        let number = worker.state().number;
        assert!(panics(&mut worker, words, at, in_commit), "{at:?} {in_commit}");
        for _ in 0..2 {
            let refused = worker.run(|_| Ok(())).map(drop);
            assert!(matches!(refused, Err(Error::StepPanicked { .. })), "{refused:?}");
            assert!(worker.begin(false).is_err());
        }
        drop(worker);
        assert_ne!(pool.worker().unwrap().state().number, number, "given out again");
        // The records of the words are taken for ever: without the poison this would never end.
        // The pool is not closed before the check, since that could wait for ever, too.
        let poisoned = pool.design().check();
        if !matches!(&poisoned, Err(Error::Poisoned { cause }) if is_panic(cause)) {
            pool.abandon();
            panic!("{at:?} {in_commit}: {poisoned:?}");
        }
        let refused = pool.run(|tx| tx.set(words[0], 3));
        assert!(matches!(refused, Err(Error::Poisoned { .. })));
        check(pool, words, at, in_commit);
    }
}

fn is_panic(cause: &Error) -> bool {
    matches!(cause, Error::StepPanicked { step: "commit" | "roll-back" })
}

const POINTS: [Point; 3] = [Point::Begun, Point::Assigned, Point::Recorded];

#[test]
fn panicked_end_of_volatile_transaction_ends_the_others() {
    let pool =
        || Pool::<Volatile<Panicking>>::create_as("", Options::new().bytes(1 << 20)).unwrap();
    each_panic(pool, &POINTS, |_, _, _, _| ());
    let pool = || Pool::<Mvcc>::create_as("", Options::new().bytes(1 << 20)).unwrap();
    each_panic(pool, &POINTS, |_, _, _, _| ());
}

/// Every call fails, the pool is not closed cleanly, and recovery finds all or nothing of the
/// transaction.
fn panicked_end_is_a_crash<D: Design>(medium: Medium, group: u64, points: &[Point]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(medium).group(group);
    let create = || {
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_file(dir.path().join("pool.log"));
        Pool::<D>::create_as(&path, options.clone()).unwrap()
    };
    // The record of `decoupled` may wait in its ring when the pool ends.
    let has_record_durable = !D::STEPS.contains(&"persist");
    each_panic(create, points, |pool, words, at, in_commit| {
        // An ID that was assigned for the transaction has failed, however its durability is asked.
        let id = pool.committed_id();
        if in_commit && at == Point::Assigned && id > pool.durable_id() {
            let ticket = pool.ticket(id).unwrap();
            assert!(ticket.wait().is_err(), "{at:?}: an ID without a record is durable");
            assert!(pool.wait_for(id).is_err());
            let outcome = std::sync::Arc::new(std::sync::Mutex::new(None));
            let seen = std::sync::Arc::clone(&outcome);
            let callback = move |outcome: Result<(), Error>| *seen.lock().unwrap() = Some(outcome);
            pool.ticket(id).unwrap().on_durable(callback).unwrap();
            assert!(matches!(*outcome.lock().unwrap(), Some(Err(_))));
        }
        let refused = pool.flush();
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        let refused = pool.close();
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        let pool = Pool::<D>::open_as(&path, options.clone()).unwrap();
        let read = pool.run(|tx| Ok([tx.get(words[0])?, tx.get(words[1])?])).unwrap().value;
        let is_recorded = in_commit && at == Point::Recorded;
        match read {
            [1, 1] => assert!(!is_recorded || !has_record_durable, "{at:?}: a record is lost"),
            [2, 2] => assert!(is_recorded, "{at:?} {in_commit}: recovered without a record"),
            torn => panic!("{at:?} {in_commit}: {torn:?}"),
        }
        pool.check_heap().unwrap();
        pool.close().unwrap();
    });
}

#[test]
fn panicked_end_of_durable_transaction_is_a_crash() {
    for medium in [Medium::File, Medium::PersistentCache] {
        panicked_end_is_a_crash::<Decoupled<Panicking>>(medium, 0, &POINTS);
        panicked_end_is_a_crash::<Undo>(medium, 0, &POINTS[1..]);
        panicked_end_is_a_crash::<slots::Redo>(medium, 0, &POINTS[1..]);
        panicked_end_is_a_crash::<Snapshot>(medium, 0, &POINTS);
        // More with groups: `slots::snapshot::group::panics`.
        panicked_end_is_a_crash::<Snapshot>(medium, 4, &POINTS[..2]);
    }
}

#[test]
fn call_after_a_panicked_commit_returns_the_poison() {
    let pool = Pool::<Volatile<Panicking>>::create_as("", Options::new().bytes(1 << 20)).unwrap();
    let words = two_words(&pool);
    let call = || drop(pool.run(|tx| tx.set(words[0], 2)).map(drop));
    assert!(panics_at(Point::Recorded, call));
    // First, since the calls below would never end without it.
    assert!(pool.design().check().is_err());
    for _ in 0..3 {
        let refused = pool.run(|tx| tx.get(words[0])).map(drop);
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    }
}

#[test]
fn worker_survives_a_panicking_body() {
    let pool = Pool::<Volatile<Panicking>>::create_as("", Options::new().bytes(1 << 20)).unwrap();
    let mut worker = pool.worker().unwrap();
    let mut attempts = 0;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _ = worker.run(|tx| {
            tx.alloc(8_u64)?;
            attempts += 1;
            if attempts < 5 {
                return Err(Stop::Conflict);
            }
            std::panic::resume_unwind(Box::new("the body's own")) as Result<(), Stop>
        });
    }));
    assert!(ended.is_err());
    // Its conflicts are not the next transaction's.
    assert!(worker.state().backoff.has_few_conflicts());
    let _ = worker.run(|_| Ok(())).unwrap();
    assert_eq!(worker.state().number, 0);
}

#[test]
fn dropped_transaction_in_parts_leaves_no_conflicts() {
    let pool = Pool::<Volatile<Panicking>>::create_as("", Options::new().bytes(1 << 20)).unwrap();
    let mut worker = pool.worker().unwrap();
    for panics in [false, true] {
        (0..5).for_each(|_| worker.state().backoff.give_way());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let _open = worker.begin(false).unwrap();
            if panics {
                std::panic::resume_unwind(Box::new("the program's own"));
            }
        }));
        assert_eq!(ended.is_err(), panics);
        assert!(worker.state().backoff.has_few_conflicts(), "{panics}");
    }
}
