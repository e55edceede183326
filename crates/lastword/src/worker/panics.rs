//! Tests that a panicking commit or roll-back does not affect other workers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::design::Volatile;
use crate::perform::{Gate, Redo, Space, Stm, Tm};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::{Error, Options, Pool, Stop, TxId, Worker};
use words::Allocate;

/// A transactional memory whose next commit or roll-back panics on demand, before it releases its
/// records.
struct Panicking {
    stm: Stm,
    commit: AtomicBool,
    roll_back: AtomicBool,
}

fn panic_once(flag: &AtomicBool) {
    if flag.swap(false, Ordering::Relaxed) {
        std::panic::resume_unwind(Box::new("the end of a transaction panics"));
    }
}

impl Tm for Panicking {
    const NAME: &'static str = "panicking";
    type Attempt = <Stm as Tm>::Attempt;

    fn sized(heap_words: usize, records: u64) -> Result<Panicking, Error> {
        let (commit, roll_back) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Panicking { stm: Stm::sized(heap_words, records)?, commit, roll_back })
    }

    fn attempt(&self, worker: usize) -> Self::Attempt {
        self.stm.attempt(worker)
    }

    fn clock(&self) -> &AtomicU64 {
        self.stm.clock()
    }

    fn gate(&self) -> &Gate {
        self.stm.gate()
    }

    fn begin(&self, attempt: &mut Self::Attempt) {
        self.stm.begin(attempt);
    }

    fn read(&self, on: &mut Self::Attempt, space: impl Space, index: usize) -> Result<u64, Stop> {
        self.stm.read(on, space, index)
    }

    fn read_run(
        &self,
        on: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        out: &mut [u64],
    ) -> Result<(), Stop> {
        self.stm.read_run(on, space, index, out)
    }

    fn write(
        &self,
        on: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        value: u64,
    ) -> Result<(), Stop> {
        self.stm.write(on, space, index, value)
    }

    fn write_run(
        &self,
        on: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        values: &[u64],
    ) -> Result<(), Stop> {
        self.stm.write_run(on, space, index, values)
    }

    fn will_read(&self, space: impl Space, index: usize, words: usize) {
        self.stm.will_read(space, index, words);
    }

    fn will_write(&self, space: impl Space, index: usize, words: usize) {
        self.stm.will_write(space, index, words);
    }

    fn words_written(&self, attempt: &Self::Attempt) -> usize {
        self.stm.words_written(attempt)
    }

    fn commit(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> Result<TxId, Stop> {
        panic_once(&self.commit);
        self.stm.commit(attempt, space, redo)
    }

    fn roll_back(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> TxId {
        panic_once(&self.roll_back);
        self.stm.roll_back(attempt, space, redo)
    }
}

type Panics = Volatile<Panicking>;

/// Makes the pool's next commit or roll-back panic.
fn arm(pool: &Pool<Panics>, in_commit: bool) {
    let memory = pool.design().memory();
    let flag = if in_commit { &memory.commit } else { &memory.roll_back };
    flag.store(true, Ordering::Relaxed);
}

fn pool() -> Pool<Panics> {
    Pool::create_as("", Options::new().bytes(1 << 20)).unwrap()
}

/// Runs a transaction whose commit or roll-back panics.
fn panics(worker: &mut Worker<'_, Panics>, pool: &Pool<Panics>, in_commit: bool) {
    arm(pool, in_commit);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let done = worker.run(|tx| {
            tx.allocate(8)?;
            if in_commit { Ok(()) } else { tx.abort("rolls back") }
        });
        drop(done.map(drop));
    }));
    assert!(ended.is_err());
}

fn numbers_used(pool: &Pool<Panics>) -> usize {
    // The first free number equals the count of retired ones.
    pool.worker().unwrap().state().number
}

#[test]
fn panicked_commit_disables_its_worker() {
    for in_commit in [true, false] {
        let pool = pool();
        let mut worker = pool.worker().unwrap();
        panics(&mut worker, &pool, in_commit);
        for _ in 0..2 {
            let refused = worker.run(|_| Ok(())).map(drop);
            assert!(matches!(refused, Err(Error::StepPanicked { .. })), "{refused:?}");
            assert!(worker.begin(false).is_err());
        }
        drop(worker);
        assert_eq!(numbers_used(&pool), 1, "its number was given out again");
    }
}

#[test]
fn panicked_commit_retires_its_worker() {
    for in_commit in [true, false] {
        let pool = pool();
        arm(&pool, in_commit);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let done = pool.run(|tx| {
                tx.allocate(8)?;
                if in_commit { Ok(()) } else { tx.abort("rolls back") }
            });
            drop(done.map(drop));
        }));
        assert!(ended.is_err());
        // The next calls run on another worker.
        for _ in 0..3 {
            let _ = pool.run(|_| Ok(())).unwrap();
        }
    }
}

#[test]
fn worker_survives_a_panicking_body() {
    let pool = pool();
    let mut worker = pool.worker().unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _ = worker.run(|tx| {
            tx.allocate(8)?;
            std::panic::resume_unwind(Box::new("the body's own")) as Result<(), Stop>
        });
    }));
    assert!(ended.is_err());
    let _ = worker.run(|_| Ok(())).unwrap();
    drop(worker);
    assert_eq!(numbers_used(&pool), 0);
}
