//! Callbacks and tasks: where and when they are notified, and what a pool keeps of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use lastword::design::Registration;
use lastword::{
    Array, DecoupledEvicting, DecoupledSoftware, Design, Error, Objects, Options, Pool, Shadow,
    Snapshot, System,
};
use medium::{Fault, Faults};

use crate::pages::{APART, COUNTERS, counters, options, place};

/// Without threads of its own: nothing is durable before a thread waits.
fn waiting(shadow: Shadow, pages: u64) -> Options {
    options(shadow, pages).background(false)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Task(AtomicU64);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a counter, and registers a callback and a task for it. The callback runs a transaction
/// and sends the reported outcome and the result of that transaction.
fn listen<D: Design>(
    pool: &Arc<Pool<D>>,
    array: Array<u64>,
    told: &mpsc::Sender<(bool, Result<(), Error>)>,
    task: &Arc<Task>,
) {
    let ticket = pool.run(|tx| tx.set(array.at(0)?, 7)).unwrap().ticket;
    let (told, own) = (told.clone(), Arc::clone(pool));
    let callback = move |outcome: Result<(), Error>| {
        let ran = own.run(|tx| tx.get(array.at(0)?)).map(drop);
        drop(own);
        told.send((outcome.is_ok(), ran)).unwrap();
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
            continue; // there is nothing to register for
        }
        let ((told, ear), task) = (mpsc::channel(), Arc::new(Task::default()));
        listen(&pool, array, &told, &task);
        // Not the counter that was written: its page waits until it is durable.
        let read = |at: u64| pool.run(|tx| tx.get(array.at(at * APART)?));
        if round % 2 == 0 {
            let Some(error) = (1..COUNTERS).find_map(|at| read(at).err()) else { break };
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
            in_bodies += 1;
        } else {
            // Past all transactions.
            let _ = pool.check_heap();
            if read(1).is_ok() {
                continue;
            }
            at_peeks += 1;
        }
        let (is_durable, ran) = ear.try_recv().expect("the callback was called");
        assert!(!is_durable && matches!(ran, Err(Error::Poisoned { .. })), "{ran:?}");
        assert_eq!(task.0.load(Ordering::Relaxed), 1, "the task is woken once");
        assert_eq!(pool.design().listeners(), 0);
        Arc::into_inner(pool).unwrap().abandon();
        assert!(ear.try_recv().is_err(), "it was called twice");
    }
    assert!(refused > 0 && in_bodies > 0 && at_peeks > 0, "{refused} {in_bodies} {at_peeks}");
}

/// The next transaction begins by making the first durable: it wants room for copies.
#[test]
fn callback_met_in_a_body_runs_behind_it() {
    let (_dir, path) = place();
    let pool = Pool::<DecoupledEvicting>::create_as(&path, waiting(Shadow::CopyOnWrite, 8));
    let pool = Arc::new(pool.unwrap());
    let array = counters(&pool);
    let ((told, ear), task) = (mpsc::channel(), Arc::new(Task::default()));
    listen(&pool, array, &told, &task);
    let wide = pool.run(|tx| (0..100).try_for_each(|page| tx.set(array.at(page * APART)?, 1)));
    let id = wide.unwrap().ticket.id();
    let mut seen = None;
    let next = pool.run(|tx| {
        seen.get_or_insert((pool.durable_id() >= id, task.0.load(Ordering::Relaxed)));
        assert!(ear.try_recv().is_err(), "the callback ran in a body");
        tx.get(array.at(0)?)
    });
    let _ = next.unwrap();
    assert_eq!(seen, Some((true, 1)), "durable in the body, and the task woken");
    let (is_durable, ran) = ear.try_recv().expect("the callback was called");
    assert!(is_durable && ran.is_ok(), "{ran:?}");
}

/// A member of the group is running, so the group cannot end, and the future cannot be ready.
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
        assert_eq!((pool.design().listeners(), held()), (1, 3), "two are the test's own");
        let mut second = Box::pin(ticket.into_future());
        assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        assert_eq!((pool.design().listeners(), held()), (2, 4));
        drop(second);
        assert_eq!((pool.design().listeners(), held()), (1, 3));
    };
    let ran = worker.run(|tx| {
        tx.set(other, 5)?;
        // Nothing waits in a body: another thread does.
        std::thread::scope(|scope| scope.spawn(polls).join()).unwrap();
        Ok(())
    });
    let _ = (ran.unwrap(), &wakers);
    assert_eq!((pool.design().listeners(), held()), (0, 2), "the future was dropped");
}
