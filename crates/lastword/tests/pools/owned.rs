//! Workers and tickets that share ownership of their pool.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lastword::{
    AnyDesign, AnyPool, Design, Error, Objects, Options, OwnedTicket, OwnedWorker, Pool, Ptr,
    Transact, Volatile,
};

fn options() -> Options {
    Options::new().bytes(4 << 20).log_bytes(4 << 20).ring_entries(1 << 12)
}

/// A pool of one counter.
fn counter<D: Design>() -> (tempfile::TempDir, Arc<Pool<D>>, Ptr<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let pool = Arc::new(Pool::<D>::create_as(dir.path().join("pool"), options()).unwrap());
    let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    (dir, pool, count)
}

fn add<D: Design>(worker: &mut OwnedWorker<D>, count: Ptr<u64>) -> OwnedTicket<D> {
    worker.run(|tx| tx.update(count, |count| count + 1)).unwrap().ticket
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end in this thread.
fn block_on<R>(future: impl Future<Output = R>) -> R {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

fn in_threads<D: Design>() {
    let (_dir, pool, count) = counter::<D>();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut worker = pool.owned_worker().unwrap();
            thread::spawn(move || {
                (0..25).for_each(|_| drop(add(&mut worker, count)));
                worker.transact(|tx| tx.update(count, |count| count + 1)).unwrap();
                let seen = worker.read(|tx| tx.get(count)).unwrap();
                assert!(seen.value >= 26);
                add(&mut worker, count)
            })
        })
        .collect();
    for thread in threads {
        // The worker of this ticket is gone.
        let ticket = thread.join().unwrap();
        ticket.wait().unwrap();
        assert!(ticket.is_durable());
    }
    assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 4 * 27);
    // Nothing holds the pool but this handle.
    Arc::into_inner(pool).unwrap().close().unwrap();
}

#[test]
fn owned_workers_run_in_spawned_threads() {
    every_durable!(in_threads());
}

fn in_task<D: Design>() {
    let (_dir, pool, count) = counter::<D>();
    let mut worker = pool.owned_worker().unwrap();
    let task = async move {
        for _ in 0..10 {
            add(&mut worker, count).await?;
        }
        worker.read(|tx| tx.get(count))?.ticket.await?;
        Ok::<_, Error>(worker)
    };
    // As a runtime requires of a task.
    let task: Pin<Box<dyn Future<Output = _> + Send + 'static>> = Box::pin(task);
    let worker = thread::spawn(|| block_on(task)).join().unwrap().unwrap();
    assert_eq!(worker.pool().run(|tx| tx.get(count)).unwrap().value, 10);
    drop(worker);
    Arc::into_inner(pool).unwrap().close().unwrap();
}

#[test]
fn owned_worker_is_kept_across_awaits() {
    every_durable!(in_task());
}

fn last_owner<D: Design>() {
    let (dir, pool, count) = counter::<D>();
    let mut worker = pool.owned_worker().unwrap();
    let path = pool.info().path;
    drop(pool);
    let ticket = add(&mut worker, count);
    drop(worker);
    assert!(Pool::<D>::open_as(&path, options()).is_err(), "the ticket keeps the pool open");
    let (sender, receiver) = mpsc::channel();
    ticket.on_durable(move |outcome| sender.send(outcome).unwrap()).unwrap();
    thread::spawn(move || block_on(ticket.clone().into_future())).join().unwrap().unwrap();
    receiver.recv().unwrap().unwrap();
    // The future was the last owner, and has closed the pool cleanly.
    assert!(lastword::inspect(&path).unwrap().clean);
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 1);
    drop((pool, dir));
}

#[test]
fn last_owned_ticket_closes_the_pool() {
    every_durable!(last_owner());
}

#[test]
fn dropped_owned_future_leaves_no_listener() {
    let (_dir, pool, count) = counter::<lastword::Decoupled>();
    let mut worker = pool.owned_worker().unwrap();
    for _ in 0..100 {
        let mut future = add(&mut worker, count).into_future();
        let _ = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(pool.design().listeners(), 0);
}

#[test]
fn owned_worker_frees_its_number() {
    let pool = Arc::new(Pool::<lastword::Plain>::create_as("", options()).unwrap());
    for _ in 0..3 {
        let worker = pool.owned_worker().unwrap();
        assert!(matches!(pool.owned_worker(), Err(Error::TooManyWorkers { max: 1, .. })));
        drop(worker);
    }
}

#[test]
fn owned_worker_begins_in_parts() {
    let (_dir, pool, count) = counter::<lastword::Decoupled>();
    let mut worker = pool.owned_worker().unwrap();
    let mut open = worker.begin(false).unwrap();
    open.tx().set(count, 5).unwrap();
    let id = open.commit().unwrap().unwrap().id();
    pool.owned_ticket(id).unwrap().wait().unwrap();
    assert!(matches!(
        pool.owned_ticket(lastword::TxId(id.0 + 1)),
        Err(Error::NoSuchTransaction { .. })
    ));
    assert_eq!((worker.words_written(), worker.conflicts()), (1, 0));
}

#[test]
fn owned_ticket_of_volatile_pool_is_not_durable() {
    let (_dir, pool, count) = counter::<Volatile>();
    let mut worker = pool.owned_worker().unwrap();
    assert!(matches!(add(&mut worker, count).wait(), Err(Error::NotDurable { .. })));
    let awaited = block_on(add(&mut worker, count).into_future());
    assert!(matches!(awaited, Err(Error::NotDurable { .. })));
}

#[test]
fn erased_owned_workers_run_in_spawned_threads() {
    let dir = tempfile::tempdir().unwrap();
    for design in AnyDesign::<lastword::ToAnyPool>::all()
        .iter()
        .filter(|one| one.is_durable && one.bounded.is_none())
    {
        let path = dir.path().join(design.type_name);
        let pool: Arc<dyn AnyPool> = Arc::from(design.create(&path, options()).unwrap());
        let mut worker = Arc::clone(&pool).any_owned_worker().unwrap();
        let thread = thread::spawn(move || worker.run_any(false, &mut |tx| tx.set_root(0)));
        let id = thread.join().unwrap().unwrap();
        let durable = Arc::clone(&pool).any_durable(id).unwrap();
        thread::spawn(|| block_on(durable)).join().unwrap().unwrap();
        pool.wait_for(id).unwrap();
    }
}
