//! Transactions and workers that a program forgets ([`std::mem::forget`]), on every design.
//!
//! No destructor runs, so later calls have to clean up. Invariants: a forgotten transaction is
//! never committed and never read, and it blocks neither its worker nor the pool.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::mem::forget;
use std::path::Path;
use std::time::Duration;

use lastword::{Design, Durability, Error, Objects, Options, Pool, Ptr, TxId, Worker};

use crate::{Suite, every_design};

/// These tests depend on time, so their combinations run one by one.
const ONE: usize = 1;

const BEFORE: u64 = 1;
const FORGOTTEN: u64 = 999;

/// An object of another size class, so it shares no ownership record with a small one.
type Large = [u64; 64];

/// Two objects that are in the heap image if the design is durable.
#[derive(Clone, Copy)]
struct Pair {
    written: Ptr<u64>,
    other: Ptr<Large>,
}

fn create<D: Design>(path: &Path, options: &Options) -> (Pool<D>, Pair) {
    let pool = Pool::<D>::create_as(path, options.clone()).unwrap();
    let made = pool.run(|tx| {
        let pair = Pair { written: tx.alloc(BEFORE)?, other: tx.alloc([BEFORE; 64])? };
        let root = tx.alloc([pair.written.to_bits(), pair.other.to_bits()])?;
        tx.set_root_ptr(root)?;
        Ok(pair)
    });
    let pair = made.unwrap().value;
    if D::DURABLE {
        pool.checkpoint().unwrap();
    }
    (pool, pair)
}

/// Begins a transaction that writes, and forgets it.
fn write_and_forget<D: Design>(worker: &mut Worker<'_, D>, pair: Pair) {
    let mut open = worker.begin(false).unwrap();
    open.tx().set(pair.written, FORGOTTEN).unwrap();
    // Only the forgotten transaction can reach this object.
    let new = open.tx().alloc(FORGOTTEN).unwrap();
    open.tx().set(new, FORGOTTEN + 1).unwrap();
    forget(open);
}

fn get<D: Design>(worker: &mut Worker<'_, D>, from: Ptr<u64>) -> u64 {
    worker.run(|tx| tx.get(from)).unwrap().value
}

/// Opens the pool and returns the values of the pair.
fn reopened<D: Design>(path: &Path, options: &Options) -> (u64, u64) {
    let pool = Pool::<D>::open_as(path, options.clone()).unwrap();
    let found = pool.run(|tx| {
        let root = tx.root_ptr::<[u64; 2]>()?;
        let [written, other] = tx.get(root)?;
        Ok((tx.get(Ptr::from_bits(written))?, tx.get(Ptr::<Large>::from_bits(other))?[0]))
    });
    let found = found.unwrap().value;
    pool.close().unwrap();
    lastword::check(path).unwrap().sound().unwrap();
    found
}

/// The worker runs further transactions after the forgotten one.
struct WorkerGoesOn;

impl Suite for WorkerGoesOn {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        if !D::ROLLS_BACK {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (pool, pair) = create::<D>(&path, &options);
        let mut worker = pool.worker().unwrap();
        write_and_forget(&mut worker, pair);
        let done = worker.run(|tx| {
            let found = tx.get(pair.written)?;
            tx.set(pair.other, [2; 64])?;
            Ok(found)
        });
        assert_eq!(done.unwrap().value, BEFORE, "{}", D::NAME);
        // A forgotten read-only transaction, then a transaction in parts that commits.
        let mut open = worker.begin(true).unwrap();
        assert_eq!(open.tx().get(pair.written), Ok(BEFORE));
        forget(open);
        let mut open = worker.begin(false).unwrap();
        open.tx().set(pair.other, [3; 64]).unwrap();
        assert!(open.commit().unwrap().is_some(), "{}", D::NAME);
        drop(worker);
        assert_eq!(get(&mut pool.worker().unwrap(), pair.written), BEFORE, "{}", D::NAME);
        if D::DURABLE {
            pool.flush().unwrap();
            pool.abandon();
            assert_eq!(reopened::<D>(&path, &options), (BEFORE, 3), "{}", D::NAME);
        }
    }
}

#[test]
fn forgotten_transaction_is_rolled_back_at_next_begin() {
    every_design(&[WorkerGoesOn], ONE);
}

/// The worker is dropped with its transaction open, and the next worker gets its number.
struct WorkerIsDropped;

impl Suite for WorkerIsDropped {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (pool, pair) = create::<D>(&path, &options);
        for _ in 0..3 {
            let mut worker = pool.worker().unwrap();
            write_and_forget(&mut worker, pair);
            drop(worker);
            let mut next = pool.worker().unwrap();
            let found = next.run(|tx| {
                let found = tx.get(pair.written)?;
                tx.set(pair.written, found)?;
                Ok(found)
            });
            let expected = if D::ROLLS_BACK { BEFORE } else { FORGOTTEN };
            assert_eq!(found.unwrap().value, expected, "{}", D::NAME);
        }
        if D::DURABLE {
            pool.flush().unwrap();
            pool.abandon();
            assert_eq!(reopened::<D>(&path, &options), (BEFORE, BEFORE), "{}", D::NAME);
        }
    }
}

#[test]
fn dropped_worker_leaves_no_dirty_words() {
    every_design(&[WorkerIsDropped], ONE);
}

/// Another thread reads the word before the forgotten transaction is rolled back.
struct ReaderMeetsIt;

impl Suite for ReaderMeetsIt {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        if !D::ROLLS_BACK || D::WORKERS_MAX < 2 || waits_for_the_open_one::<D>() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (pool, pair) = create::<D>(&dir.path().join("pool"), &options);
        let mut worker = pool.worker().unwrap();
        let seen = std::thread::scope(|scope| {
            // A transaction may end on another thread than it began on: this scope's thread
            // begins it, and the test's thread rolls it back in `get` below.
            scope.spawn(|| write_and_forget(&mut worker, pair)).join().unwrap();
            let mut reader = pool.worker().unwrap();
            let mut open = reader.begin(true).unwrap();
            let seen = open.tx().get(pair.written);
            open.abort().unwrap();
            seen
        });
        assert_ne!(seen, Ok(FORGOTTEN), "{}", D::NAME);
        assert_eq!(get(&mut worker, pair.written), BEFORE, "{}", D::NAME);
    }
}

/// Whether the memory is `serial`, in which an open transaction blocks all others by one lock.
fn waits_for_the_open_one<D: Design>() -> bool {
    std::any::type_name::<D>().contains("Serial")
}

#[test]
fn forgotten_transaction_is_never_read() {
    every_design(&[ReaderMeetsIt], ONE);
}

/// The worker is forgotten too, so no call rolls the transaction back before the pool closes.
struct WorkerIsForgotten;

impl Suite for WorkerIsForgotten {
    fn run<D: Design>(&self, options: Options, durability: Durability) {
        if !D::DURABLE || waits_for_the_open_one::<D>() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (pool, pair) = create::<D>(&path, &options);
        std::thread::scope(|scope| {
            let forgets = || {
                let mut worker = pool.worker().unwrap();
                write_and_forget(&mut worker, pair);
                forget(worker);
            };
            scope.spawn(forgets).join().unwrap();
        });
        let done = pool.worker().unwrap().run(|tx| tx.set(pair.other, [2; 64])).unwrap();
        if durability == Durability::Sync {
            assert!(done.ticket.is_durable(), "{}", D::NAME);
        }
        pool.flush().unwrap();
        assert!(pool.durable_id() > TxId::NONE);
        pool.close().unwrap();
        assert_eq!(reopened::<D>(&path, &options), (BEFORE, 2), "{}", D::NAME);
    }
}

#[test]
fn forgotten_worker_does_not_block_close() {
    every_design(&[WorkerIsForgotten], ONE);
}

/// A thread that forgot a transaction may begin another once any thread has ended the first.
struct ThreadBeginsAgain;

impl Suite for ThreadBeginsAgain {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        let dir = tempfile::tempdir().unwrap();
        let (pool, pair) = create::<D>(&dir.path().join("pool"), &options);
        let mut worker = pool.worker().unwrap();
        for ends_here in [true, false] {
            write_and_forget(&mut worker, pair);
            // The transaction is still open on this thread, so a second one is refused.
            let refused = pool.run(|tx| tx.get(pair.other)).map(drop);
            assert!(matches!(refused, Err(Error::InsideTransaction { .. })), "{refused:?}");
            let mut next = || drop(worker.run(|tx| tx.get(pair.other)).unwrap());
            if ends_here {
                next();
            } else {
                std::thread::scope(|scope| scope.spawn(next).join().unwrap());
            }
            let flushed = pool.flush();
            assert_eq!(flushed.is_ok(), D::DURABLE, "{}: {flushed:?}", D::NAME);
            let inside = worker.run(|_| Ok(pool.flush())).unwrap().value;
            assert!(matches!(inside, Err(Error::InsideTransaction { .. })), "{inside:?}");
        }
        write_and_forget(&mut worker, pair);
        drop(worker);
        let _ = pool.run(|tx| tx.set(pair.other, [5; 64])).unwrap();
    }
}

#[test]
fn thread_that_forgot_a_transaction_can_begin_again() {
    every_design(&[ThreadBeginsAgain], ONE);
}

/// The transaction and its worker are forgotten while it holds the starvation lock.
struct StarvationLockIsHeld;

impl Suite for StarvationLockIsHeld {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        if !D::ROLLS_BACK || D::WORKERS_MAX < 2 || waits_for_the_open_one::<D>() {
            return;
        }
        // The thread that forgets the transaction stays inside it, so it must not be the test's.
        std::thread::spawn(|| starvation_lock_is_held::<D>(options)).join().unwrap();
    }
}

fn starvation_lock_is_held<D: Design>(options: Options) {
    const ATTEMPTS_MAX: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let options = options.patience(Duration::from_millis(5));
    let (pool, pair) = create::<D>(&dir.path().join("pool"), &options);
    // Each attempt conflicts on a word of its own: a lost word is reserved for the transaction.
    let words = (0..ATTEMPTS_MAX).map(|_| pool.run(|tx| tx.alloc([0; 64])).unwrap().value);
    let words: Vec<Ptr<Large>> = words.collect();
    let mut worker = pool.worker().unwrap();
    let stopped = words.iter().find_map(|word| {
        let mut open = worker.begin(false).unwrap();
        let read = open.tx().get(*word);
        if pool.design().starvation_lock().is_closed() {
            forget(open);
            return Some(());
        }
        let rival = || drop(pool.run(|tx| tx.set(*word, [1; 64])).unwrap());
        std::thread::scope(|scope| scope.spawn(rival).join().unwrap());
        let lost = read.is_err() || open.tx().set(*word, [2; 64]).is_err();
        // Some designs validate the read at commit only, so that commit may report the conflict.
        match lost {
            true => drop(open.abort().unwrap()),
            false => drop(open.commit().unwrap()),
        }
        None
    });
    assert!(stopped.is_some(), "{}: the starvation lock is never taken", D::NAME);
    forget(worker);
    let others = || [false, true].map(|_| pool.run(|tx| tx.set(pair.other, [2; 64])).map(drop));
    let ended = std::thread::scope(|scope| scope.spawn(others).join().unwrap());
    for refused in ended {
        assert!(matches!(refused, Err(Error::StarvationLockHeld { worker: 1, .. })), "{refused:?}");
    }
}

#[test]
fn forgotten_worker_in_starvation_lock_is_an_error() {
    every_design(&[StarvationLockIsHeld], ONE);
}

/// The transaction and its worker are forgotten, and others need what it holds.
struct RecordsStayHeld;

impl Suite for RecordsStayHeld {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        // `mvcc` locks an object only while a transaction commits.
        let holds_nothing = !D::ROLLS_BACK || D::NAME == "mvcc";
        if holds_nothing || D::WORKERS_MAX < 2 || waits_for_the_open_one::<D>() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let options = options.patience(Duration::from_millis(20));
        let (pool, pair) = create::<D>(&dir.path().join("pool"), &options);
        // This thread stays free of the transaction that another one forgets.
        let forgets = || {
            let mut worker = pool.worker().unwrap();
            write_and_forget(&mut worker, pair);
            forget(worker);
        };
        std::thread::scope(|scope| scope.spawn(forgets).join().unwrap());
        let mut worker = pool.worker().unwrap();
        for attempt in 0..2 {
            let refused = worker.run(|tx| tx.set(pair.written, 2)).map(drop);
            assert!(is_blocked(&refused), "{} {attempt}: {refused:?}", D::NAME);
            // Under `snapshot` a second write would need what the forgotten one retains.
            let done = worker.run(|tx| tx.get(pair.other)).map(drop);
            assert!(done.is_ok(), "{} {attempt}: {done:?}", D::NAME);
        }
        let read = worker.read(|tx| tx.get(pair.written)).map(|done| done.value);
        match D::READS_PASS {
            true => assert_eq!(read.unwrap(), BEFORE, "{}", D::NAME),
            false => assert!(is_blocked(&read), "{}: {read:?}", D::NAME),
        }
        let refused = loop {
            // A transaction in parts: each attempt is a call of its own.
            match worker.begin(false) {
                Ok(mut open) => {
                    assert!(open.tx().set(pair.written, 2).is_err(), "{}", D::NAME);
                    open.abort().unwrap();
                }
                Err(error) => break Err::<(), Error>(error),
            }
        };
        assert!(is_blocked(&refused), "{}: {refused:?}", D::NAME);
    }
}

fn is_blocked<T>(ended: &Result<T, Error>) -> bool {
    // `create` runs its transactions by an idle worker, so the next one is the forgotten one.
    matches!(ended, Err(Error::Blocked { worker: 1, .. }))
}

#[test]
fn word_of_forgotten_worker_is_an_error() {
    every_design(&[RecordsStayHeld], ONE);
}

/// A transaction takes longer than another one waits, and ends.
struct LongBody;

impl Suite for LongBody {
    fn run<D: Design>(&self, options: Options, _durability: Durability) {
        let holds_nothing = !D::ROLLS_BACK || D::NAME == "mvcc";
        if holds_nothing || D::WORKERS_MAX < 2 || waits_for_the_open_one::<D>() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let options = options.patience(Duration::from_millis(20));
        let (pool, pair) = create::<D>(&dir.path().join("pool"), &options);
        let mut worker = pool.worker().unwrap();
        let long = worker.run(|tx| {
            tx.set(pair.written, 2)?;
            let blocked = || pool.run(|tx| tx.set(pair.written, 3)).map(drop);
            let refused = std::thread::scope(|scope| scope.spawn(blocked).join().unwrap());
            let Err(refused @ Error::Blocked { .. }) = &refused else { panic!("{refused:?}") };
            let text = refused.to_string();
            for says in ["had no effect", "run it again", "keep bodies short", "Options::patience"]
            {
                assert!(text.contains(says), "{text}");
            }
            tx.get(pair.written)
        });
        assert_eq!(long.unwrap().value, 2, "{}", D::NAME);
        let again = pool.run(|tx| tx.update(pair.written, |value| value + 1)).map(drop);
        assert!(again.is_ok(), "{}: {again:?}", D::NAME);
        let read = pool.run(|tx| tx.get(pair.written)).unwrap().value;
        assert_eq!(read, 3, "{}", D::NAME);
    }
}

#[test]
fn blocked_transaction_had_no_effect_and_may_run_again() {
    every_design(&[LongBody], ONE);
}
