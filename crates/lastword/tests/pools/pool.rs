//! The life of a pool: transactions, their errors and tickets, closing, recovery.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use lastword::{
    Addr, Allocate, Array, Durability, Error, Medium, Objects, Options, Pool, Ptr, Shadow, Stop,
    TxId, Words,
};
use tempfile::TempDir;

/// Checks a pool without changing it and expects that it is sound.
fn checked(path: &std::path::Path) -> Result<lastword::Checked, lastword::Error> {
    lastword::check(path)?.sound()
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    (dir, path)
}

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).ring_entries(1 << 12)
}

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

/// Options for each medium that every machine has, with both shadows of `decoupled`.
fn media() -> [Options; 4] {
    [
        options(),
        options().shadow(Shadow::CopyOnWrite),
        options().medium(EMULATED),
        options().medium(Medium::PersistentCache).shadow(Shadow::CopyOnWrite),
    ]
}

/// Creates a counter as the pool's root.
fn counter(pool: &Pool) -> Ptr<u64> {
    let made = pool.run(|tx| {
        let counter = tx.alloc(0_u64)?;
        tx.set_root_ptr(counter)?;
        Ok(counter)
    });
    made.unwrap().value
}

fn add(pool: &Pool, counter: Ptr<u64>) -> TxId {
    pool.run(|tx| tx.update(counter, |n| n + 1)).unwrap().ticket.id()
}

fn value(pool: &Pool) -> u64 {
    pool.run(|tx| {
        let root = tx.root_ptr::<u64>()?;
        tx.get(root)
    })
    .unwrap()
    .value
}

#[test]
fn closed_pool_reopens_with_all_commits() {
    for options in media() {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options.clone()).unwrap();
        let counter = counter(&pool);
        for _ in 0..1000 {
            add(&pool, counter);
        }
        pool.close().unwrap();
        assert!(lastword::inspect(&path).unwrap().clean);
        let pool = Pool::open(&path, options).unwrap();
        assert_eq!(value(&pool), 1000);
    }
}

#[test]
fn acknowledged_writes_survive_repeated_abandonment() {
    for options in media() {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options.clone()).unwrap();
        let counter = counter(&pool);
        pool.close().unwrap();
        let mut acknowledged = 0;
        for round in 0..10 {
            let pool = Pool::open(&path, options.clone()).unwrap();
            let found = value(&pool);
            assert!(found >= acknowledged, "round {round}: {found} of {acknowledged}");
            let base = pool.committed_id().0;
            for _ in 0..500 {
                add(&pool, counter);
            }
            let ticket = pool.run(|tx| tx.update(counter, |n| n + 1)).unwrap().ticket;
            ticket.wait().unwrap();
            assert_eq!(ticket.id().0, base + 501);
            acknowledged = found + 501;
            for _ in 0..100 {
                add(&pool, counter);
            }
            pool.abandon();
            let shown = checked(&path).unwrap();
            assert!(shown.needs_recovery);
        }
    }
}

#[test]
fn without_background_threads_only_waiting_persists() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options().background(false)).unwrap();
    let counter = counter(&pool);
    let id = add(&pool, counter);
    assert_eq!(pool.durable_id(), TxId::NONE);
    pool.wait_for(id).unwrap();
    assert_eq!(pool.durable_id(), id);
    assert_eq!(pool.reproduced_id(), TxId::NONE);
    assert!(pool.design().reproduce_step().unwrap());
    assert_eq!(pool.reproduced_id(), id);
    assert!(!pool.design().persist_step().unwrap() && !pool.design().reproduce_step().unwrap());
}

#[test]
fn reproduced_transactions_need_no_replay() {
    for options in media() {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options.clone()).unwrap();
        let counter = counter(&pool);
        let last = (0..1000).map(|_| add(&pool, counter)).last().unwrap();
        pool.checkpoint().unwrap();
        assert!(pool.durable_id() >= last && pool.reproduced_id() >= last);
        pool.abandon();
        let shown = checked(&path).unwrap();
        assert_eq!((shown.transactions_to_replay, shown.durable_id), (0, last));
        let pool = Pool::open(&path, options).unwrap();
        assert_eq!(value(&pool), 1000);
    }
}

#[test]
fn log_that_wraps_often_recovers() {
    for options in media() {
        let (_dir, path) = place();
        let options = options.log_bytes(128 << 10);
        let pool = Pool::create(&path, options.clone()).unwrap();
        let array = pool.run(|tx| Array::<u64>::create(tx, 1000)).unwrap().value;
        pool.run(|tx| {
            let root = tx.alloc(array)?;
            tx.set_root(root.to_bits())
        })
        .unwrap()
        .ticket
        .wait()
        .unwrap();
        let mut worker = pool.worker().unwrap();
        for round in 1..=5000_u64 {
            let done = worker.run(|tx| {
                for i in 0..20 {
                    tx.set(array.at((round * 37 + i * 41) % 1000)?, round * 1000 + i)?;
                }
                tx.set(array.at(0)?, round)
            });
            let _ = done.unwrap();
        }
        drop(worker);
        pool.flush().unwrap();
        assert!(pool.metrics().log_wraps > 3.0, "{:?}", pool.metrics());
        pool.abandon();
        let pool = Pool::open(&path, options).unwrap();
        assert_eq!(pool.run(|tx| tx.get(array.at(0)?)).unwrap().value, 5000);
    }
}

#[test]
fn many_workers_share_groups_and_lose_nothing() {
    for options in media() {
        for durability in [Durability::Async, Durability::Sync] {
            let (_dir, path) = place();
            let options = options.clone().durability(durability);
            let pool = Pool::create(&path, options.clone()).unwrap();
            let shared = counter(&pool);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut worker = pool.worker().unwrap();
                        for _ in 0..250 {
                            let done = worker.run(|tx| tx.update(shared, |n| n + 1)).unwrap();
                            if durability == Durability::Sync {
                                assert!(done.ticket.is_durable());
                            }
                        }
                    });
                }
            });
            pool.flush().unwrap();
            pool.abandon();
            let pool = Pool::open(&path, options).unwrap();
            assert_eq!(value(&pool), 1000);
        }
    }
}

#[test]
fn write_beyond_log_capacity_is_too_large() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options().log_bytes(128 << 10)).unwrap();
    let array = pool.run(|tx| Array::<u64>::create(tx, 8000)).unwrap().value;
    let mut written = 0;
    let error = pool.run(|tx| {
        for i in 0..8000 {
            tx.set(array.at(i)?, i + 1)?;
            written = i;
        }
        Ok(())
    });
    let Err(Error::TransactionTooLarge { words_max, .. }) = error else { panic!("{error:?}") };
    assert_eq!(written as usize + 1, words_max);
    let sum = pool.run(|tx| (0..8000).try_fold(0, |sum, i| Ok(sum + tx.get(array.at(i)?)?)));
    assert_eq!(sum.unwrap().value, 0, "the refused transaction had an effect");
    // A transaction of exactly `words_max` words commits and recovers.
    pool.run(|tx| (0..words_max as u64).try_for_each(|i| tx.set(array.at(i)?, 1)))
        .unwrap()
        .ticket
        .wait()
        .unwrap();
    pool.abandon();
    let pool = Pool::open(&path, options()).unwrap();
    let sum = pool.run(|tx| (0..8000).try_fold(0, |sum, i| Ok(sum + tx.get(array.at(i)?)?)));
    assert_eq!(sum.unwrap().value, words_max as u64);
}

#[test]
fn full_pool_names_its_size_and_keeps_objects() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options().bytes(512 << 10)).unwrap();
    let counter = counter(&pool);
    let error = loop {
        add(&pool, counter);
        if let Err(error) = pool.run(|tx| tx.alloc([0_u64; 64])) {
            break error;
        }
    };
    let text = error.to_string();
    assert!(text.contains("heap of 524288 bytes") && text.contains("512 bytes"), "{text}");
    let Error::Full { free_bytes, largest_free_bytes, .. } = error else { panic!("{text}") };
    assert!(largest_free_bytes <= free_bytes && free_bytes < 64 << 10, "{text}");
    assert!(value(&pool) > 10);
}

#[test]
fn wild_pointer_is_an_error_without_effect() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let counter = counter(&pool);
    let other = Pool::create(path.with_extension("other"), options()).unwrap();
    let foreign: Ptr<u64> = other.run(|tx| tx.alloc(1_u64)).unwrap().value;
    let freed = pool.run(|tx| tx.alloc(1_u64)).unwrap().value;
    pool.run(|tx| tx.free(freed)).unwrap().ticket.wait().unwrap();
    let inside: Ptr<u64> = Ptr::from_bits(counter.to_bits() + 8);
    let beyond: Ptr<u64> = Ptr::from_bits(counter.to_bits() + (1 << 30));
    let odd: Ptr<u64> = Ptr::from_bits(counter.to_bits() + 4);
    for wild in [Ptr::NULL, Ptr::from_bits(3), Ptr::from_bits(u64::MAX), foreign, freed, inside] {
        let error = pool.run(|tx| {
            tx.update(counter, |n| n + 100)?;
            tx.set(wild, 7)
        });
        assert!(matches!(error, Err(Error::BadPointer { .. })), "{wild:?}: {error:?}");
    }
    for wild in [beyond, odd, foreign] {
        let error = pool.run(|tx| tx.get(wild)).unwrap_err();
        assert!(error.to_string().contains("no such word in a live object"), "{error}");
    }
    let over = pool.run(|tx| tx.write(Addr::new(counter.to_bits(), 8), 1)).unwrap_err();
    assert!(matches!(over, Error::BadPointer { .. }));
    let past = pool.run(|tx| {
        let array = Array::<u64>::create(tx, 10)?;
        tx.get(array.at(10)?)
    });
    let past = past.unwrap_err().to_string();
    assert!(past.contains("not less than the length of its array"), "{past}");
    assert_eq!(value(&pool), 0);
}

#[test]
fn body_that_swallows_an_error_cannot_commit() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let counter = counter(&pool);
    let error = pool.run(|tx| {
        tx.set(counter, 5)?;
        let _ = tx.get(Ptr::<u64>::NULL);
        let _ = tx.set(counter, 6);
        Ok(())
    });
    assert!(matches!(error, Err(Error::BadPointer { .. })));
    assert_eq!(value(&pool), 0);
}

#[test]
fn panicking_body_is_rolled_back() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let counter = counter(&pool);
    let mut worker = pool.worker().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = worker.run(|tx| -> Result<(), Stop> {
            tx.set(counter, 99)?;
            panic!("the body's own");
        });
    }));
    assert!(panicked.is_err());
    let done = worker.run(|tx| tx.update(counter, |n| n + 1)).unwrap();
    done.ticket.wait().unwrap();
    drop(worker);
    assert_eq!(value(&pool), 1);
}

#[test]
fn waiting_or_running_inside_a_body_is_an_error() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let counter = counter(&pool);
    let ticket = pool.run(|tx| tx.get(counter)).unwrap().ticket;
    let done = pool.run(|tx| {
        assert!(matches!(ticket.wait(), Err(Error::InsideTransaction { call: "wait" })));
        assert!(matches!(pool.flush(), Err(Error::InsideTransaction { .. })));
        let inner = pool.run(|tx| tx.get(counter));
        assert!(matches!(inner, Err(Error::InsideTransaction { call: "run" })));
        tx.update(counter, |n| n + 1)
    });
    done.unwrap().ticket.wait().unwrap();
    assert_eq!(value(&pool), 1);
}

#[test]
fn write_to_concurrently_freed_object_is_refused() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let big: Ptr<[u64; 64]> = pool.run(|tx| tx.alloc([1; 64])).unwrap().value;
    let (mut one, mut two) = (pool.worker().unwrap(), pool.worker().unwrap());
    let mut attempts = 0;
    let refused = one.run(|tx| {
        attempts += 1;
        // The last word lies in another stripe than the header and the first word.
        tx.write(Addr::new(big.to_bits(), 504), 7)?;
        if attempts == 1 {
            std::thread::scope(|scope| {
                let freed = scope.spawn(|| two.run(|tx| tx.free(big)).map(drop));
                freed.join().unwrap().unwrap();
            });
        }
        // The free list keeps its link in the first word of a freed block.
        tx.write(Addr::new(big.to_bits(), 0), 7)
    });
    assert!(matches!(refused, Err(Error::BadPointer { .. })), "{refused:?}");
    drop((one, two));
    pool.close().unwrap();
    checked(&path).unwrap();
}

#[test]
fn waiting_for_unassigned_id_is_an_error() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let id = pool.committed_id().next();
    assert!(matches!(pool.wait_for(id), Err(Error::NoSuchTransaction { .. })));
}

#[test]
fn abort_returns_its_reason_and_read_id() {
    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("only {0} are left")]
    struct Insufficient(u64);
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let counter = counter(&pool);
    let last = add(&pool, counter);
    let error = pool.run(|tx| {
        let n = tx.get(counter)?;
        tx.set(counter, 1000)?;
        tx.abort::<()>(Insufficient(n))
    });
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "ended by the program: only 1 are left");
    let Error::Aborted { reason, seen } = error else { panic!("{error:?}") };
    assert_eq!(reason.get(), Some(&Insufficient(1)));
    assert!(seen >= last);
    pool.wait_for(seen).unwrap();
    assert_eq!(value(&pool), 1);
}

#[test]
fn abort_reason_is_shown_by_its_display() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let shown = |error: Error| (error.to_string(), format!("{error:?}"));
    let text = "ended by the program: insufficient funds".to_owned();
    let error = pool.run(|tx| tx.abort::<()>("insufficient funds")).unwrap_err();
    assert_eq!(shown(error), (text.clone(), text.clone()));
    let error = pool.run(|tx| tx.abort::<()>(String::from("insufficient funds"))).unwrap_err();
    assert_eq!(shown(error), (text.clone(), text));
    let error = pool.run(|tx| tx.abort::<()>(std::io::Error::other("offline"))).unwrap_err();
    assert_eq!(error.to_string(), "ended by the program: offline");
}

#[test]
fn read_only_ticket_waits_for_its_reads() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options().background(false)).unwrap();
    let counter = counter(&pool);
    let mut worker = pool.worker().unwrap();
    let read = worker.read(|tx| tx.get(counter)).unwrap();
    assert!(!read.ticket.is_durable(), "its reads are not durable yet");
    read.ticket.wait().unwrap();
    assert!(pool.durable_id() >= read.ticket.id());
    let error = worker.read(|tx| tx.set(counter, 1)).unwrap_err();
    assert!(matches!(error, Error::ReadOnly));
}

#[test]
fn forgotten_worker_does_not_delay_durability() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options().background(false)).unwrap();
    let counter = counter(&pool);
    let mut forgotten = pool.worker().unwrap();
    let _ = forgotten.run(|tx| tx.update(counter, |n| n + 1)).unwrap();
    std::mem::forget(forgotten);
    let mut dropped = pool.worker().unwrap();
    let id = dropped.run(|tx| tx.update(counter, |n| n + 1)).unwrap().ticket.id();
    drop(dropped);
    pool.wait_for(id).unwrap();
    for _ in 0..100 {
        let mut worker = pool.worker().unwrap();
        let _ = worker.run(|tx| tx.update(counter, |n| n + 1)).unwrap();
    }
    pool.flush().unwrap();
    assert_eq!(pool.durable_id(), pool.committed_id());
    pool.abandon();
    let pool = Pool::open(&path, options()).unwrap();
    assert_eq!(value(&pool), 102);
}

/// Polls a future on this thread and parks between polls.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn ticket_is_awaited_with_and_without_background() {
    for background in [true, false] {
        for medium in [Medium::File, EMULATED] {
            let dir = tempfile::tempdir().unwrap();
            let options = options().medium(medium).background(background);
            let pool = Pool::create(dir.path().join("test.pool"), options).unwrap();
            for n in 0..20_u64 {
                let done = pool.run(|tx| tx.alloc(n)).unwrap();
                let id = done.ticket.id();
                block_on(async move { done.ticket.await }).unwrap();
                assert!(pool.durable_id() >= id);
            }
            let done = pool.run(|tx| tx.alloc(1_u64)).unwrap();
            let refused = pool.run(|_| Ok(block_on(done.ticket.into_future()).is_err()));
            assert!(refused.unwrap().value, "a ticket is ready inside a body");
        }
    }
}

/// The callback drops the pool on the pool's own thread, which must not join itself.
#[test]
fn callback_may_drop_last_pool_handle() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.pool");
        let pool = std::sync::Arc::new(Pool::create(&path, options().medium(medium)).unwrap());
        let (sender, receiver) = std::sync::mpsc::channel();
        let owner = std::sync::Arc::clone(&pool);
        let ticket = pool.run(|tx| tx.alloc(7_u64)).unwrap().ticket;
        let drops = move |outcome: Result<(), Error>| {
            drop(owner);
            sender.send(outcome.is_ok()).unwrap();
        };
        let id = ticket.id();
        ticket.on_durable(drops).unwrap();
        drop(pool);
        assert!(receiver.recv().unwrap());
        // That thread closes the files when it ends, which may be after the callback's message.
        let shown = loop {
            match checked(&path) {
                Err(error) if error.to_string().contains("in use") => std::thread::yield_now(),
                shown => break shown.unwrap(),
            }
        };
        assert!(!shown.needs_recovery && shown.durable_id == id);
    }
}

#[test]
fn callback_runs_once_transaction_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("test.pool"), options()).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    for n in 0..100_u64 {
        let sender = sender.clone();
        let done = pool.run(|tx| tx.alloc(n)).unwrap();
        done.ticket.on_durable(move |outcome| sender.send(outcome.is_ok()).unwrap()).unwrap();
    }
    // No thread waits for a ticket, so the background thread runs all callbacks.
    assert!(receiver.iter().take(100).all(|durable| durable));
}

#[test]
fn write_to_concurrently_freed_array_is_refused() {
    let (_dir, path) = place();
    let pool = Pool::create(&path, options()).unwrap();
    let array = pool.run(|tx| Array::<[u64; 32]>::create(tx, 900)).unwrap().value;
    // This write caches the array's head: later accesses read no block header.
    pool.run(|tx| tx.set(array.at(500)?, [1; 32])).unwrap().ticket.wait().unwrap();
    let (mut one, mut two) = (pool.worker().unwrap(), pool.worker().unwrap());
    let mut attempts = 0;
    let refused = one.run(|tx| {
        attempts += 1;
        tx.set(array.at(490)?, [2; 32])?;
        if attempts == 1 {
            std::thread::scope(|scope| {
                // The free clears the headers of the first blocks alone.
                let freed = scope.spawn(|| two.run(|tx| array.free(tx)).map(drop));
                freed.join().unwrap().unwrap();
            });
        }
        // The header of this block is cleared, but this attempt does not read it.
        tx.set(array.at(50)?, [2; 32])
    });
    assert!(matches!(refused, Err(Error::BadPointer { .. })), "{refused:?}");
    assert_eq!(attempts, 2, "the free did not conflict");
    // Its header still looks live.
    for late in [240, 500, 899] {
        let refused = one.run(|tx| tx.set(array.at(late)?, [2; 32]));
        assert!(matches!(refused, Err(Error::BadPointer { .. })), "{late}: {refused:?}");
    }
    drop((one, two));
    pool.close().unwrap();
    checked(&path).unwrap();
}

/// A worker fills its ring of 64 KiB with 16 MiB of records, and no background thread persists.
///
/// With a bound the worker persists records itself to make room. Without one the ring grows, and
/// pages of persisted records return to the kernel.
#[test]
fn bounded_ring_blocks_and_unbounded_ring_grows() {
    const TRANSACTIONS: u64 = 400_000;
    for (options, waits) in [(options(), true), (options().unbounded(), false)] {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options.medium(EMULATED).background(false)).unwrap();
        let counter = counter(&pool);
        let before = pool.durable_id();
        let mut worker = pool.worker().unwrap();
        for _ in 0..TRANSACTIONS {
            let _ = worker.run(|tx| tx.get(counter).and_then(|n| tx.set(counter, n + 1))).unwrap();
        }
        assert_eq!(pool.metrics().ring_full_waits > 0, waits);
        assert_eq!(pool.durable_id() > before, waits);
        drop(worker);
        pool.close().unwrap();
        assert_eq!(value(&Pool::open(&path, Options::new()).unwrap()), TRANSACTIONS);
    }
}
