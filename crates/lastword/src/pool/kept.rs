//! Workers that a pool keeps for [`Pool::run`] and lends to any thread.
//!
//! ```text
//!   register --> lent --> idle --> lent --> ... --> leave    more than `most` are idle
//!                           |
//!                           +--> Pool::worker                no number or memory is left
//! ```
//!
//! Each worker has a number, and under `decoupled` a ring, so a peak of calls must not retain its
//! workers. At most as many stay idle as threads can run at a time; the others leave when their
//! call returns. If no worker can be registered, a call waits until another one returns.

use std::cell::Cell;

use super::Pool;
use crate::design::Design;
use crate::sync::{Condvar, Mutex, cores, lock};
use crate::worker::WorkerState;
use crate::{Error, Worker};

thread_local! {
    /// Running calls of this thread. More than one if a callback, which runs inside a call after
    /// its body, calls again.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// The workers of a pool that are not bound to a thread.
pub(super) struct Kept<D: Design> {
    state: Mutex<State<D>>,
    returned: Condvar,
    /// The greatest number of idle workers while no call waits.
    most: usize,
}

struct State<D: Design> {
    idle: Vec<WorkerState<D>>,
    /// Workers that are running a call.
    lent: usize,
    /// The number of calls that have returned.
    returns: u64,
    /// Calls that wait for another one to return.
    waiting: usize,
}

/// A worker on loan to one call. Dropping it returns the worker. A panic of the body does so, too,
/// after the roll-back of its transaction.
pub(super) struct Lent<'p, D: Design> {
    pool: &'p Pool<D>,
    worker: Option<Worker<'p, D>>,
}

impl<D: Design> Kept<D> {
    pub(super) fn new() -> Kept<D> {
        let state = State { idle: Vec::new(), lent: 0, returns: 0, waiting: 0 };
        Kept { state: Mutex::new(state), returned: Condvar::new(), most: cores() }
    }

    /// Takes an idle worker out of the pool.
    pub(super) fn take(&self) -> Option<WorkerState<D>> {
        lock(&self.state).idle.pop()
    }

    /// Takes all idle workers.
    pub(super) fn take_all(&self) -> Vec<WorkerState<D>> {
        std::mem::take(&mut lock(&self.state).idle)
    }
}

impl<'p, D: Design> Lent<'p, D> {
    /// Lends an idle worker, or registers one. If that fails while other threads' calls run, waits
    /// until one of them returns; it returns, since a body must not wait. A nested call does not
    /// wait: its outer call returns only after it, so two threads could wait for each other.
    ///
    /// # Errors
    /// As [`Pool::worker`], if no other call is running.
    pub(super) fn new(pool: &'p Pool<D>) -> Result<Lent<'p, D>, Error> {
        let Kept { state, returned, .. } = &pool.kept;
        let mut kept = lock(state);
        let worker = loop {
            if let Some(worker) = kept.idle.pop() {
                break worker;
            }
            let returns = kept.returns;
            // Unlock: registration maps a ring, and other calls must not wait for that.
            drop(kept);
            let registered = pool.register();
            kept = lock(state);
            match registered {
                Ok(worker) => break worker,
                Err(error @ Error::Closed { .. }) => return Err(error),
                // A call has returned meanwhile: its worker is idle, or has left.
                Err(_) if kept.returns != returns => {}
                Err(error) if kept.lent == 0 || CALLS.get() > 0 => return Err(error),
                Err(_) => {
                    kept.waiting += 1;
                    kept = returned.wait(kept).unwrap_or_else(std::sync::PoisonError::into_inner);
                    kept.waiting -= 1;
                }
            }
        };
        kept.lent += 1;
        drop(kept);
        CALLS.set(CALLS.get() + 1);
        Ok(Lent { pool, worker: Some(Worker::new(pool, worker)) })
    }

    pub(super) fn worker(&mut self) -> &mut Worker<'p, D> {
        self.worker.as_mut().expect("a call has its worker until it returns")
    }
}

impl<D: Design> Drop for Lent<'_, D> {
    fn drop(&mut self) {
        let Kept { state, returned, most } = &self.pool.kept;
        let mut kept = lock(state);
        if let Some(worker) = self.worker.take() {
            // A worker whose commit panicked leaves and retires its number.
            // Under the lock: a thread that closes the pool takes the idle workers later, or this
            // thread sees that the pool closes.
            let stays = !worker.is_lost() && !self.pool.admission.is_closing();
            if stays && (kept.waiting > 0 || kept.idle.len() < *most) {
                kept.idle.push(worker.into_state());
            } else {
                // Leave before the return counts, so that a waiting call finds the number free.
                drop(kept);
                drop(worker);
                kept = lock(state);
            }
        }
        CALLS.set(CALLS.get() - 1);
        kept.lent -= 1;
        kept.returns += 1;
        let is_waited_for = kept.waiting > 0;
        drop(kept);
        if is_waited_for {
            // Wake all: a call that still cannot register a worker waits again or returns its
            // error.
            returned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use super::*;
    use crate::design::{Plain, Volatile};
    use crate::{Objects, Options, Snapshot, Stop};

    fn pool<D: Design>() -> Pool<D> {
        Pool::create_as("", Options::new().bytes(1 << 20)).unwrap()
    }

    fn idle<D: Design>(pool: &Pool<D>) -> usize {
        lock(&pool.kept.state).idle.len()
    }

    #[test]
    fn peak_of_calls_keeps_few_workers() {
        let pool = pool::<Volatile>();
        let most = pool.kept.most;
        let calls = most + 5;
        let barrier = Barrier::new(calls);
        std::thread::scope(|scope| {
            for _ in 0..calls {
                let run = || pool.run(|_| Ok(barrier.wait())).map(drop).unwrap();
                scope.spawn(run);
            }
        });
        assert_eq!(idle(&pool), most);
        assert_eq!(pool.admission.workers(), most);
    }

    /// Runs a check in a thread of its own and fails if it does not end. A failing check would
    /// otherwise wait for ever.
    fn ends(check: impl FnOnce() + Send + 'static) {
        let (end, ended) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            check();
            let _ = end.send(());
        });
        let ended = ended.recv_timeout(Duration::from_secs(60));
        assert!(ended != Err(RecvTimeoutError::Timeout), "a call waits for ever");
        thread.join().unwrap();
    }

    #[test]
    fn call_waits_for_a_free_worker() {
        ends(wait_for_another_call);
    }

    fn wait_for_another_call() {
        let pool = pool::<Plain>();
        let (state, started) = (&pool.kept.state, Barrier::new(2));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let first = pool.run(|_| {
                    started.wait();
                    // The second call either waits for this call's worker, or is refused and ends.
                    while lock(state).waiting == 0 && !ended.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    Ok(())
                });
                first.map(drop)
            });
            started.wait();
            let second = pool.run(|_| Ok(())).map(drop);
            ended.store(true, Ordering::Relaxed);
            second.unwrap();
            first.join().unwrap().unwrap();
        });
    }

    #[test]
    fn worker_of_panicked_call_is_reused() {
        let pool = pool::<Plain>();
        for _ in 0..3 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = pool.run(|_| -> Result<(), Stop> { panic!("the body's own") });
            }));
            assert!(panicked.is_err());
        }
        let _ = pool.run(|_| Ok(())).unwrap();
        assert_eq!((idle(&pool), lock(&pool.kept.state).lent), (1, 0));
        // `Pool::worker` takes the idle worker and resets the counts of its earlier calls.
        let worker = pool.worker().unwrap();
        assert_eq!((idle(&pool), worker.words_written()), (0, 0));
        let refused = pool.run(|_| Ok(())).map(drop);
        assert!(matches!(refused, Err(Error::TooManyWorkers { max: 1, .. })), "{refused:?}");
        drop(worker);
        let _ = pool.run(|_| Ok(())).unwrap();
    }

    #[test]
    fn call_in_callback_gets_worker_or_error() {
        for others in [0, Snapshot::WORKERS_MAX - 1] {
            ends(move || call_in_a_callback(others));
        }
    }

    /// The second member ends the group, so the callback runs in that member's call, which holds a
    /// worker.
    fn call_in_a_callback(others: usize) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().bytes(4 << 20).log_bytes(4 << 20).group(2);
        let options = options.background(false);
        let made = Pool::<Snapshot>::create_as(dir.path().join("pool"), options);
        let pool = Arc::new(made.unwrap());
        let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
        pool.flush().unwrap();
        let first = pool.run(|tx| tx.set(count, 1)).unwrap().ticket;
        let ((sender, called), own) = (mpsc::channel(), Arc::clone(&pool));
        let callback = move |durable: Result<(), Error>| {
            durable.unwrap();
            let calls = CALLS.get();
            sender.send((calls, own.run(|tx| tx.get(count)).map(|done| done.value))).unwrap();
        };
        first.on_durable(callback).unwrap();
        let workers: Vec<_> = (0..others).map(|_| pool.worker().unwrap()).collect();
        let _ = pool.run(|tx| tx.set(count, 2)).unwrap();
        let (calls, nested) = called.try_recv().expect("the callback ran in the call");
        assert_eq!(calls, 1);
        match (others, nested) {
            (0, Ok(2)) | (1.., Err(Error::TooManyWorkers { .. })) => {}
            (_, nested) => panic!("{others} workers: {nested:?}"),
        }
        drop(workers);
    }

    #[test]
    fn call_inside_body_is_refused() {
        let pool = pool::<Volatile>();
        let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
        let outer = pool.run(|tx| {
            let nested = pool.run(|tx| tx.set(count, 2)).map(drop);
            assert!(matches!(nested, Err(Error::InsideTransaction { call: "run" })), "{nested:?}");
            tx.set(count, 1)
        });
        let _ = outer.unwrap();
        assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 1);
        assert_eq!((idle(&pool), CALLS.get()), (1, 0));
    }
}
