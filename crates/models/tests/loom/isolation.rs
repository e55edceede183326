//! The transactional memory: isolation between transactions.

use super::perform::{Heap, NoRedo, Redo, Space, Stm, Tm, Written};
use crate::explore::{explore, words};
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;
use words::{Stop, TxId};

/// Words in three stripes, each with an ownership record of its own.
const X: usize = 0;
const Y: usize = 8;
const Z: usize = 16;

struct Shared {
    stm: Stm,
    heap: Box<[AtomicU64]>,
}

impl Shared {
    fn new(stripes: usize) -> Arc<Shared> {
        let count = 8 * (stripes - 1) + 2;
        Arc::new(Shared { stm: Stm::sized(count, 0).expect("there is memory"), heap: words(count) })
    }

    /// Runs a body once. Returns its result and its ID if it commits.
    fn run<R>(
        &self,
        worker: usize,
        redo: &mut impl Redo,
        body: impl FnOnce(&mut Tx<'_>) -> Result<R, Stop>,
    ) -> Option<(R, TxId)> {
        let mut attempt = self.stm.attempt(worker);
        self.stm.begin(&mut attempt);
        let mut tx = Tx { shared: self, attempt };
        let result = body(&mut tx);
        let mut attempt = tx.attempt;
        let done = result.and_then(|result| {
            self.stm.commit(&mut attempt, &self.heap, redo).map(|id| (result, id))
        });
        if done.is_err() {
            self.stm.roll_back(&mut attempt, &self.heap, redo);
        }
        done.ok()
    }

    fn value(&self, index: usize) -> u64 {
        self.heap[index].load(Ordering::Relaxed)
    }
}

struct Tx<'s> {
    shared: &'s Shared,
    attempt: <Stm as Tm>::Attempt,
}

impl Tx<'_> {
    fn read(&mut self, index: usize) -> Result<u64, Stop> {
        self.shared.stm.read(&mut self.attempt, &self.shared.heap, index)
    }

    fn write(&mut self, index: usize, value: u64) -> Result<(), Stop> {
        self.shared.stm.write(&mut self.attempt, &self.shared.heap, index, value)
    }
}

/// Runs `other` in a second thread and `this` in the first, over so many stripes.
fn beside(
    stripes: usize,
    preemptions: Option<usize>,
    other: impl Fn(&Shared) + Clone + Send + Sync + 'static,
    this: impl Fn(&Shared) + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let shared = Shared::new(stripes);
        let (theirs, other) = (Arc::clone(&shared), other.clone());
        let other = thread::spawn(move || other(&theirs));
        this(&shared);
        other.join().expect("the other thread ends");
    });
}

/// Opacity: the body asserts the invariant, even in attempts that conflict later.
pub(crate) fn body_never_sees_a_torn_pair() {
    let met = Outcomes::default();
    let seen = met.clone();
    let writer = |shared: &Shared| {
        shared.run(1, &mut NoRedo, |tx| {
            tx.write(X, 1)?;
            tx.write(Y, 1)
        });
    };
    beside(2, Some(5), writer, move |shared| {
        let body = |tx: &mut Tx<'_>| {
            let (x, y) = (tx.read(X)?, tx.read(Y)?);
            assert_eq!(x, y, "a torn pair");
            Ok(x)
        };
        seen.saw(shared.run(2, &mut NoRedo, body).map_or(2, |(x, _)| x));
    });
    met.are(0..3);
}

pub(crate) fn run_is_never_torn() {
    let met = Outcomes::default();
    let seen = met.clone();
    let writer = |shared: &Shared| {
        shared.run(1, &mut NoRedo, |tx| {
            shared.stm.write_run(&mut tx.attempt, &shared.heap, X, &[1, 1])
        });
    };
    beside(1, None, writer, move |shared| {
        let body = |tx: &mut Tx<'_>| {
            let mut run = [0; 2];
            shared.stm.read_run(&mut tx.attempt, &shared.heap, X, &mut run)?;
            assert_eq!(run[0], run[1], "a torn run");
            Ok(run[0])
        };
        seen.saw(shared.run(2, &mut NoRedo, body).map_or(2, |(x, _)| x));
    });
    met.are(0..3);
}

/// The writer's second transaction comes while the reader extends its snapshot for the first.
pub(crate) fn extended_snapshot_is_consistent() {
    let met = Outcomes::default();
    let seen = met.clone();
    let writer = |shared: &Shared| {
        shared.run(1, &mut NoRedo, |tx| tx.write(Z, 1));
        shared.run(1, &mut NoRedo, |tx| {
            tx.write(X, 1)?;
            tx.write(Z, 2)?;
            tx.write(Y, 1)
        });
    };
    beside(3, Some(2), writer, move |shared| {
        let body = |tx: &mut Tx<'_>| {
            let (x, z, y) = (tx.read(X)?, tx.read(Z)?, tx.read(Y)?);
            assert_eq!(x, y, "a torn pair, with {z} between");
            assert!(z < 2 || x == 1, "a torn pair: {x} {z}");
            assert!(z == 2 || x == 0, "a torn pair: {x} {z}");
            Ok(z)
        };
        seen.saw(shared.run(2, &mut NoRedo, body).map_or(3, |(z, _)| z));
    });
    met.are(0..4);
}

pub(crate) fn rolled_back_value_is_never_seen() {
    let met = Outcomes::default();
    let seen = met.clone();
    let writer = |shared: &Shared| {
        let aborted: Option<((), _)> = shared.run(1, &mut NoRedo, |tx| {
            tx.write(X, 1)?;
            Err(Stop::Aborted)
        });
        assert!(aborted.is_none());
    };
    beside(1, None, writer, move |shared| {
        let body = |tx: &mut Tx<'_>| {
            let x = tx.read(X)?;
            assert_eq!(x, 0, "a value that was rolled back");
            Ok(())
        };
        seen.saw(u64::from(shared.run(2, &mut NoRedo, body).is_some()));
    });
    met.are(0..2);
}

/// Each transaction writes one word if the other word is still zero; one of them must fail.
pub(crate) fn write_skew_never_happens() {
    let met = Outcomes::default();
    let seen = met.clone();
    let set = |shared: &Shared, worker, mine, other| {
        shared.run(worker, &mut NoRedo, |tx| {
            if tx.read(other)? == 0 {
                tx.write(mine, 1)?;
            }
            Ok(())
        });
    };
    explore(Some(5), move || {
        let shared = Shared::new(2);
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || set(&theirs, 1, X, Y));
        set(&shared, 2, Y, X);
        other.join().expect("the other thread ends");
        let (x, y) = (shared.value(X), shared.value(Y));
        assert!(x + y < 2, "write skew");
        // One always commits, because the first to get an ID has nothing to validate.
        seen.saw(x + 2 * y - 1);
    });
    met.are(0..2);
}

/// Records the IDs and the last word of each record.
#[derive(Default)]
struct Log(Vec<(u64, u64)>);

impl Redo for Log {
    fn has_room(&mut self, _words: usize) -> bool {
        true
    }

    fn assigning(&mut self, _clock: u64) {}

    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let mut last = 0;
        written.runs(&mut last, |_| 0, |last, value| *last = value, |_, _, _| {});
        self.0.push((id.0, last));
    }
}

/// Both workers add one until they succeed. In ID order the records count up, and the IDs are
/// dense.
pub(crate) fn dependent_transactions_commit_in_id_order() {
    let add = |shared: &Shared, worker| {
        let mut log = Log::default();
        let body = |tx: &mut Tx<'_>| {
            let x = tx.read(X)?;
            tx.write(X, x + 1)
        };
        while shared.run(worker, &mut log, body).is_none() {
            thread::yield_now();
        }
        log.0
    };
    explore(Some(4), move || {
        let shared = Shared::new(1);
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || add(&theirs, 1));
        let mut log = add(&shared, 2);
        log.extend(other.join().expect("the other thread ends"));
        log.sort_unstable();
        assert!(log.iter().map(|record| record.0).eq(1..=log.len() as u64), "dense: {log:?}");
        assert!(log.iter().map(|record| record.1).filter(|&value| value > 0).eq(1..=2), "{log:?}");
        assert_eq!(shared.value(X), 2);
    });
}
