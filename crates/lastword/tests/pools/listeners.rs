//! Callbacks and tasks of tickets: the thread and time of their notification, and the number that
//! the pool keeps registered.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use faults::{Failing, Fault, Faults};
use lastword::design::Registration;
use lastword::{
    Array, DecoupledEvicting, DecoupledSoftware, Design, Error, Objects, Options, Pool, Shadow,
    Snapshot, System,
};

use crate::pages::{APART, COUNTERS, counters, options, place};

/// Options without background threads: no transaction is durable before a thread waits for it.
fn waiting(shadow: Shadow, pages: u64) -> Options {
    options(shadow, pages).background(false)
}

/// A task that counts its wake-ups.
#[derive(Default)]
struct Task(AtomicU64);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a counter and registers a callback and a task for the write. The callback runs a
/// transaction, then sends its reported outcome and the result of that transaction.
fn listen<D: Design>(
    pool: &Arc<Pool<D>>,
    array: Array<u64>,
    sender: &mpsc::Sender<(bool, Result<(), Error>)>,
    task: &Arc<Task>,
) {
    let ticket = pool.run(|tx| tx.set(array.at(0)?, 7)).unwrap().ticket;
    let (sender, own) = (sender.clone(), Arc::clone(pool));
    let callback = move |outcome: Result<(), Error>| {
        let ran = own.run(|tx| tx.get(array.at(0)?)).map(drop);
        drop(own);
        sender.send((outcome.is_ok(), ran)).unwrap();
    };
    ticket.on_durable(callback).unwrap();
    let waker = Waker::from(Arc::clone(task));
    pool.design().listen(ticket.id(), &waker, &mut Registration::default()).unwrap();
}

#[test]
fn unreadable_page_notifies_callbacks_and_tasks() {
    let (_dir, path) = place();
    let options = waiting(Shadow::Software, 16);
    let pool = Pool::<DecoupledSoftware>::create_as(&path, options.clone()).unwrap();
    let array = counters(&pool);
    pool.close().unwrap();
    let (mut refused, mut in_bodies, mut at_peeks) = (0, 0, 0);
    for (round, nth) in (0..).step_by(9).enumerate() {
        let faults = Faults::nth(nth, Fault::Io, true);
        let system = System::kernel().failing(Arc::clone(&faults));
        let opened = Pool::<DecoupledSoftware>::open_as(&path, options.clone().system(system));
        let Ok(pool) = opened.map(Arc::new) else {
            refused += 1;
            continue;
        };
        if pool.run(|tx| tx.get(array.at(0)?)).is_err() {
            continue; // without a commit there is no ticket to register with
        }
        let ((sender, receiver), task) = (mpsc::channel(), Arc::new(Task::default()));
        listen(&pool, array, &sender, &task);
        // The reads avoid the written counter: its page stays in the shadow until it is durable.
        let read = |at: u64| pool.run(|tx| tx.get(array.at(at * APART)?));
        if round % 2 == 0 {
            let Some(error) = (1..COUNTERS).find_map(|at| read(at).err()) else { break };
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
            in_bodies += 1;
        } else {
            // The heap check reads pages outside of any transaction.
            let _ = pool.check_heap();
            if read(1).is_ok() {
                continue;
            }
            at_peeks += 1;
        }
        let (is_durable, ran) = receiver.try_recv().expect("the callback did not run");
        assert!(!is_durable && matches!(ran, Err(Error::Poisoned { .. })), "{ran:?}");
        assert_eq!(task.0.load(Ordering::Relaxed), 1, "the task is woken once");
        assert_eq!(pool.design().listeners(), 0);
        Arc::into_inner(pool).unwrap().abandon();
        assert!(receiver.try_recv().is_err(), "the callback ran twice");
    }
    assert!(refused > 0 && in_bodies > 0 && at_peeks > 0, "{refused} {in_bodies} {at_peeks}");
}

/// The second transaction needs room in the shadow, so its body makes the first one durable. The
/// first one's callback must wait until that body has returned.
#[test]
fn callback_due_in_a_body_runs_after_it() {
    let (_dir, path) = place();
    let pool = Pool::<DecoupledEvicting>::create_as(&path, waiting(Shadow::CopyOnWrite, 8));
    let pool = Arc::new(pool.unwrap());
    let array = counters(&pool);
    let ((sender, receiver), task) = (mpsc::channel(), Arc::new(Task::default()));
    listen(&pool, array, &sender, &task);
    let wide = pool.run(|tx| (0..100).try_for_each(|page| tx.set(array.at(page * APART)?, 1)));
    let id = wide.unwrap().ticket.id();
    let mut seen = None;
    let next = pool.run(|tx| {
        seen.get_or_insert((pool.durable_id() >= id, task.0.load(Ordering::Relaxed)));
        assert!(receiver.try_recv().is_err(), "the callback ran in a body");
        tx.get(array.at(0)?)
    });
    let _ = next.unwrap();
    assert_eq!(seen, Some((true, 1)), "(durable, task wake-ups) in the body");
    let (is_durable, ran) = receiver.try_recv().expect("the callback did not run");
    assert!(is_durable && ran.is_ok(), "{ran:?}");
}

/// A future that is polled many times keeps one registered waker.
///
/// A running transaction keeps the group open, so the future stays pending for every poll.
#[test]
fn polled_future_keeps_one_waker_in_the_pool() {
    let (_dir, path) = place();
    let options = Options::new().bytes(4 << 20).log_bytes(1 << 20).group(100);
    let pool = Pool::<Snapshot>::create_as(&path, options.background(false)).unwrap();
    let (count, other) = pool.run(|tx| Ok((tx.alloc(0_u64)?, tx.alloc(0_u64)?))).unwrap().value;
    pool.flush().unwrap();
    let mut worker = pool.worker().unwrap();
    let ticket = worker.run(|tx| tx.set(count, 1)).unwrap().ticket;
    let tasks = [Arc::new(Task::default()), Arc::new(Task::default())];
    let held = || tasks.iter().map(Arc::strong_count).sum::<usize>() - tasks.len();
    let wakers = tasks.each_ref().map(|task| Waker::from(Arc::clone(task)));
    let polls = || {
        let mut future = pin!(ticket.into_future());
        for poll in 0..100_000 {
            let polled = future.as_mut().poll(&mut Context::from_waker(&wakers[poll % 2]));
            assert!(matches!(polled, Poll::Pending), "{polled:?}");
        }
        assert_eq!(
            (pool.design().listeners(), held()),
            (1, 3),
            "(listeners, wakers); the test holds two"
        );
        let mut second = Box::pin(ticket.into_future());
        assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        assert_eq!((pool.design().listeners(), held()), (2, 4));
        drop(second);
        assert_eq!((pool.design().listeners(), held()), (1, 3));
    };
    let ran = worker.run(|tx| {
        tx.set(other, 5)?;
        // A body may not wait, so another thread polls.
        std::thread::scope(|scope| scope.spawn(polls).join()).unwrap();
        Ok(())
    });
    let _ = (ran.unwrap(), &wakers);
    assert_eq!((pool.design().listeners(), held()), (0, 2), "a dropped future stays registered");
}

/// Fills most of a worker's log while another worker's group is pending. Then runs a transaction
/// for which the log has no room. The pool's `nth` call and all later ones fail.
///
/// Returns the number of calls before that transaction, and its result. The flag beside an error
/// says whether the listeners of the pending group had been notified when the transaction returned.
fn make_room(nth: u64) -> (u64, Result<(), (Error, bool)>) {
    const WORDS: u64 = 1 << 12;
    let (_dir, path) = place();
    let faults = Faults::nth(nth, Fault::Io, true);
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).group(2).background(false);
    let options = options.system(System::kernel().failing(Arc::clone(&faults)));
    let pool = Pool::<Snapshot>::create_as(&path, options).unwrap();
    let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    let array = pool.run(|tx| Array::<u64>::reserve(tx, WORDS)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, WORDS)).unwrap().value {}
    pool.checkpoint().unwrap();
    // A record takes a little more than a quarter of the log, so the fourth one does not fit. The
    // third leaves an eighth of the log free, so it does not truncate ahead of need.
    let words = pool.design().words_max() as u64 * 53 / 100;
    assert!(words <= WORDS, "{words}");
    let (mut other, mut worker) = (pool.worker().unwrap(), pool.worker().unwrap());
    let mut wide =
        || worker.run(|tx| (0..words).try_for_each(|at| tx.set(array.at(at)?, at))).map(drop);
    // Two transactions form a group, which is one record.
    (0..2).for_each(|_| wide().unwrap());
    let ticket = other.run(|tx| tx.set(count, 1)).unwrap().ticket;
    let ((sender, outcomes), task) = (mpsc::channel(), Arc::new(Task::default()));
    let callback = move |outcome: Result<(), Error>| {
        // In the run without a failure the callback runs at the pool's drop, after the receiver's.
        let _ = sender.send(outcome.is_ok());
    };
    ticket.on_durable(callback).unwrap();
    let waker = Waker::from(Arc::clone(&task));
    pool.design().listen(ticket.id(), &waker, &mut Registration::default()).unwrap();
    (0..4).for_each(|_| wide().unwrap());
    let calls = faults.calls();
    let done = wide();
    let is_notified = outcomes.try_recv().is_ok() && task.0.load(Ordering::Relaxed) == 1;
    (calls, done.map_err(|error| (error, is_notified)))
}

/// The worker truncates the log to make room. In each run another call of the truncation fails.
#[test]
fn failed_truncation_notifies_other_groups() {
    let (calls, done) = make_room(u64::MAX);
    done.unwrap();
    let mut failed = 0;
    for nth in calls.. {
        let (_, Err((error, is_notified))) = make_room(nth) else { break };
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        assert!(is_notified, "call {nth} of {calls}: {error}");
        failed += 1;
    }
    assert!(failed > 2, "{failed} calls failed");
}
