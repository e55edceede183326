//! Pools that are closed while other handles refer to them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use lastword::{
    AnyDesign, AnyPool, Decoupled, Design, Error, Medium, Objects, Options, Pool, Ptr, Snapshot,
    StillUsed, Volatile,
};

use super::names::{EMULATED, counted};

fn options(medium: Medium) -> Options {
    Options::new().bytes(4 << 20).log_bytes(4 << 20).ring_entries(1 << 12).medium(medium)
}

/// A shared pool of one counter, which the root leads to.
struct Shared<D: Design> {
    _dir: tempfile::TempDir,
    path: PathBuf,
    pool: Arc<Pool<D>>,
    count: Ptr<u64>,
}

impl<D: Design> Shared<D> {
    fn new(options: Options) -> Shared<D> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = Arc::new(Pool::<D>::create_as(&path, options).unwrap());
        let made = pool.run(|tx| {
            let count = tx.alloc(0_u64)?;
            tx.set_root_ptr(count)?;
            Ok(count)
        });
        let count = made.unwrap().value;
        if D::DURABLE {
            pool.flush().unwrap(); // ends a group, which other workers do not see before
        }
        Shared { _dir: dir, path, pool, count }
    }

    fn add(&self) -> Result<(), Error> {
        self.pool.run(|tx| tx.update(self.count, |count| count + 1)).map(drop)
    }
}

fn is_closed<R>(result: Result<R, Error>) -> bool {
    matches!(result, Err(Error::Closed { .. }))
}

fn closes<D: Design>(options: &Options) {
    let shared = Shared::<D>::new(options.clone());
    let Shared { pool, count, path, .. } = &shared;
    let mut worker = pool.owned_worker().unwrap();
    let (begun, barrier) = (Arc::clone(pool), Arc::new(Barrier::new(2)));
    let other = Arc::clone(&barrier);
    let closer = thread::spawn(move || {
        other.wait();
        begun.close_shared()
    });
    barrier.wait();
    let mut tickets = Vec::new();
    // The worker goes on until the pool is about to close.
    while pool.owned_worker().is_ok() {
        tickets.push(worker.run(|tx| tx.update(*count, |count| count + 1)).unwrap().ticket);
    }
    tickets.push(worker.run(|tx| tx.update(*count, |count| count + 1)).unwrap().ticket);
    drop(worker);
    closer.join().unwrap().unwrap();
    for ticket in &tickets {
        assert!(ticket.is_durable());
        ticket.wait().unwrap();
    }
    assert!(lastword::inspect(path).unwrap().clean);
    // Other handles do not keep the files locked.
    assert_eq!(counted::<D>(path, options.clone()), tickets.len() as u64);
}

#[test]
fn shared_pool_closes_when_its_workers_have_left() {
    for medium in [Medium::File, EMULATED] {
        every_durable!(closes(&options(medium)));
    }
    closes::<Snapshot>(&options(Medium::File).group(4));
    closes::<Decoupled>(&options(Medium::File).background(false));
}

fn refuses<D: Design>() {
    let options = options(Medium::File).patience(Duration::from_millis(20));
    let shared = Shared::<D>::new(options.clone());
    let Shared { pool, count, .. } = &shared;
    let mut workers: Vec<_> = (0..3).map(|_| pool.owned_worker().unwrap()).collect();
    for left in [3, 2, 1] {
        let Err(Error::StillUsed(StillUsed { workers: found, calls: 0, .. })) = pool.close_shared()
        else {
            panic!("a worker lives")
        };
        assert_eq!(found, left);
        assert!(is_closed(pool.worker()) && is_closed(shared.add()));
        let done = workers[0].run(|tx| tx.update(*count, |count| count + 1)).unwrap();
        done.ticket.wait().unwrap();
        pool.flush().unwrap();
        workers.pop();
    }
    pool.close_shared().unwrap();
    assert_eq!(counted::<D>(&shared.path, options), 3);
}

#[test]
fn shared_pool_with_workers_is_still_used() {
    every_durable!(refuses());
}

fn after<D: Design>() {
    let shared = Shared::<D>::new(options(Medium::File));
    let Shared { pool, count, path, .. } = &shared;
    let done = pool.run(|tx| tx.set(*count, 7)).unwrap().ticket;
    let owned = pool.owned_ticket(done.id()).unwrap();
    pool.close_shared().unwrap();
    assert!(is_closed(pool.close_shared()), "a second close is refused");
    assert!(is_closed(pool.worker().map(drop)) && is_closed(pool.owned_worker()));
    assert!(is_closed(shared.add()) && is_closed(pool.flush()) && is_closed(pool.checkpoint()));
    assert!(is_closed(pool.view().map(drop)) && is_closed(pool.backup(path.join("copy"))));
    done.wait().unwrap();
    pool.wait_for(done.id()).unwrap();
    let (sender, receiver) = mpsc::channel();
    done.on_durable(move |outcome| sender.send(outcome).unwrap()).unwrap();
    receiver.try_recv().unwrap().unwrap();
    let mut future = pin!(owned.into_future());
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(()))));
    assert_eq!((pool.committed_id(), pool.durable_id()), (done.id(), done.id()));
    assert_eq!((pool.info().path, pool.heap_usage().live_bytes()), (path.clone(), 0));
    assert!(!pool.is_deleted() && pool.metrics().log_capacity_bytes > 0);
    fs::remove_file(path).unwrap();
    assert!(pool.is_deleted());
}

#[test]
fn calls_on_closed_pool_are_refused() {
    every_durable!(after());
}

#[test]
fn closed_pool_refuses_to_close_by_value() {
    let Shared { pool, path, _dir, .. } = Shared::<Decoupled>::new(options(Medium::File));
    pool.close_shared().unwrap();
    let again = Pool::open(&path, options(Medium::File)).unwrap();
    assert!(is_closed(Arc::into_inner(pool).unwrap().close()));
    // The drop of the closed pool has left the files of the open one alone.
    again.run(|tx| tx.alloc(1_u64)).unwrap().ticket.wait().unwrap();
    again.close().unwrap();
    assert!(lastword::check(&path).unwrap().is_sound());
}

#[test]
fn view_of_closed_pool_is_refused() {
    every_durable!(view_of_closed());
}

fn view_of_closed<D: Design>() {
    let shared = Shared::<D>::new(options(Medium::File));
    let view = shared.pool.view().unwrap();
    shared.pool.close_shared().unwrap();
    assert!(is_closed(view.read(|tx| tx.get(shared.count))));
    drop(view);
    assert_eq!(counted::<D>(&shared.path, options(Medium::File)), 0);
}

fn races<D: Design>() {
    const THREADS: usize = 4;
    let shared = Shared::<D>::new(options(Medium::File));
    let (added, barrier) = (AtomicU64::new(0), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (shared, added, barrier) = (&shared, &added, &barrier);
            scope.spawn(move || {
                barrier.wait();
                loop {
                    let done = match number {
                        0 => shared.add(),
                        1 => shared.pool.run(|tx| tx.get(shared.count)).map(drop),
                        2 => shared.pool.flush(),
                        _ => shared.pool.owned_worker().and_then(|mut worker| {
                            let done = worker.run(|tx| tx.update(shared.count, |n| n + 1))?;
                            drop(worker);
                            added.fetch_add(1, Ordering::Relaxed);
                            done.ticket.wait()
                        }),
                    };
                    match done {
                        Ok(()) => added.fetch_add(u64::from(number == 0), Ordering::Relaxed),
                        Err(Error::Closed { .. }) => break,
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
        barrier.wait();
        while added.load(Ordering::Relaxed) < 20 {
            thread::yield_now();
        }
        shared.pool.close_shared().unwrap();
    });
    let committed = added.into_inner();
    assert_eq!(counted::<D>(&shared.path, options(Medium::File)), committed);
}

#[test]
fn close_races_with_transactions_and_loses_none() {
    for _ in 0..5 {
        every_durable!(races());
    }
}

#[test]
fn callbacks_of_a_closing_pool_end() {
    let shared = Shared::<Decoupled>::new(options(Medium::File).background(false));
    let done = shared.pool.run(|tx| tx.set(shared.count, 1)).unwrap().ticket;
    let ((sender, receiver), own) = (mpsc::channel(), Arc::clone(&shared.pool));
    let callback = move |outcome: Result<(), Error>| {
        let refused = is_closed(own.run(|_| Ok(()))) && is_closed(own.flush());
        sender.send((outcome.is_ok(), refused, own.heap_usage().live_bytes())).unwrap();
    };
    done.on_durable(callback).unwrap();
    shared.pool.close_shared().unwrap();
    assert_eq!(receiver.try_recv(), Ok((true, true, 0)));
}

#[test]
fn failed_close_ends_every_wait() {
    let shared = Shared::<Decoupled>::new(options(Medium::File).background(false));
    let done = shared.pool.run(|tx| tx.set(shared.count, 1)).unwrap().ticket;
    let ((sender, receiver), id) = (mpsc::channel(), done.id());
    done.on_durable(move |outcome| sender.send(outcome).unwrap()).unwrap();
    OpenOptions::new().write(true).open(&shared.path).unwrap().set_len(1 << 20).unwrap();
    let closed = shared.pool.close_shared();
    assert!(matches!(closed, Err(Error::Cut { closed: true, .. })), "{closed:?}");
    assert!(matches!(receiver.try_recv(), Ok(Err(Error::Poisoned { .. }))));
    assert!(matches!(shared.pool.wait_for(id), Err(Error::Poisoned { .. })));
    assert!(is_closed(shared.pool.close_shared()) && is_closed(shared.add()));
}

#[test]
fn shared_pool_is_not_closed_inside_a_body() {
    let shared = Shared::<Volatile>::new(options(Medium::File));
    let _ = shared
        .pool
        .run(|_| {
            let refused = shared.pool.close_shared();
            assert!(matches!(refused, Err(Error::InsideTransaction { .. })), "{refused:?}");
            Ok(())
        })
        .unwrap();
    shared.pool.close_shared().unwrap();
}

#[test]
fn erased_shared_pool_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for design in AnyDesign::<lastword::ToAnyPool>::all().iter().filter(|one| one.bounded.is_none())
    {
        let path = dir.path().join(design.type_name);
        let pool: Arc<dyn AnyPool> =
            Arc::from(design.create(&path, options(Medium::File)).unwrap());
        let mut worker = Arc::clone(&pool).any_owned_worker().unwrap();
        worker.run_any(false, &mut |tx| tx.set_root(0)).unwrap();
        drop(worker);
        pool.close_shared().unwrap();
        assert!(is_closed(Arc::clone(&pool).any_owned_worker()));
    }
}
