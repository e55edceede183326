//! Group commit of `snapshot`: the visibility of transactions that are committed and not durable,
//! and the events that end a group.
//!
//! A worker reads its own pending group. Other workers see the group only once it is durable.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use lastword::{Committed, Design, Error, Medium, Objects, Options, Pool, Ptr, Snapshot, Worker};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

type Counters = [Ptr<u64>; 8];

/// Groups of three, without a background thread that could end them.
fn options() -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    options.medium(EMULATED).group(3).background(false)
}

fn create(path: &Path, options: Options) -> (Pool<Snapshot>, Counters) {
    let pool = Pool::<Snapshot>::create_as(path, options).unwrap();
    let made = pool.run(|tx| {
        let mut counters = [Ptr::NULL; 8];
        for counter in &mut counters {
            *counter = tx.alloc(0_u64)?;
        }
        let root = tx.alloc(counters)?;
        tx.set_root_ptr(root)?;
        Ok(counters)
    });
    let counters = made.unwrap().value;
    pool.flush().unwrap();
    (pool, counters)
}

/// Abandons the pool, recovers it and returns the counters.
fn after_a_crash(pool: Pool<Snapshot>, path: &Path) -> [u64; 8] {
    pool.abandon();
    let pool = Pool::<Snapshot>::open_as(path, Options::new()).unwrap();
    let read = pool.run(|tx| {
        let root = tx.root_ptr::<Counters>()?;
        let counters = tx.get(root)?;
        let mut values = [0; 8];
        for (value, counter) in values.iter_mut().zip(counters) {
            *value = tx.get(counter)?;
        }
        Ok(values)
    });
    read.unwrap().value
}

fn add<'p>(worker: &mut Worker<'p, Snapshot>, at: Ptr<u64>) -> Committed<'p, u64, Snapshot> {
    let done = worker.run(|tx| {
        let value = tx.get(at)? + 1;
        tx.set(at, value)?;
        Ok(value)
    });
    done.unwrap()
}

fn read(worker: &mut Worker<'_, Snapshot>, at: Ptr<u64>) -> u64 {
    worker.read(|tx| tx.get(at)).unwrap().value
}

#[test]
fn full_group_is_durable_and_visible() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (pool, counters) = create(&path, options());
    let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    let before = pool.metrics().persist_barriers;
    let first = add(&mut worker, counters[0]);
    let second = add(&mut worker, counters[0]);
    assert_eq!(second.value, 2, "the worker misses its own commit");
    assert!(!first.ticket.is_durable() && !second.ticket.is_durable());
    assert!(pool.durable_id() < first.ticket.id() && second.ticket.id() <= pool.committed_id());
    assert_eq!((read(&mut worker, counters[0]), read(&mut other, counters[0])), (2, 0));
    assert_eq!(pool.metrics().persist_barriers, before);
    let third = add(&mut worker, counters[1]);
    for done in [&first, &second, &third] {
        assert!(done.ticket.is_durable());
    }
    assert_eq!(pool.metrics().persist_barriers, before + 1, "one barrier per group");
    let in_image = |at: Ptr<u64>| {
        let in_heap = at.to_bits() & ((1 << words::ADDRESS_BITS) - 1);
        pool.design().peek(in_heap as usize / 8)
    };
    assert_eq!((in_image(counters[0]), in_image(counters[1])), (2, 1), "(heap image)");
    assert_eq!((read(&mut other, counters[0]), read(&mut other, counters[1])), (2, 1));
    let lost = add(&mut worker, counters[2]);
    assert!(!lost.ticket.is_durable());
    // A dropped worker would end its group, so both are forgotten, as by a crash.
    std::mem::forget(worker);
    std::mem::forget(other);
    assert_eq!(after_a_crash(pool, &path)[..3], [2, 1, 0]);
}

#[test]
fn waiting_thread_ends_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let mut worker = pool.worker().unwrap();
    type End = fn(&Pool<Snapshot>, Committed<'_, u64, Snapshot>);
    let ends: [(&str, End); 6] = [
        ("wait", |_, done| done.ticket.wait().unwrap()),
        ("wait_for", |pool, done| pool.wait_for(done.ticket.id()).unwrap()),
        ("flush", |pool, _| pool.flush().unwrap()),
        ("checkpoint", |pool, _| pool.checkpoint().unwrap()),
        ("request", |pool, done| pool.design().expedite(done.ticket.id())),
        ("step", |pool, _| assert!(pool.design().step(0).unwrap())),
    ];
    for (name, end) in ends {
        let done = add(&mut worker, counters[0]);
        let ticket = done.ticket;
        assert!(!ticket.is_durable(), "{name}");
        end(&pool, done);
        assert!(ticket.is_durable(), "{name}");
    }
    assert!(!pool.design().step(0).unwrap(), "a group is left");
    // Another thread ends the group while the worker runs no transaction.
    let done = add(&mut worker, counters[0]);
    let ticket = done.ticket;
    std::thread::scope(|scope| scope.spawn(|| ticket.wait().unwrap()).join().unwrap());
    assert!(ticket.is_durable());
    assert_eq!(read(&mut worker, counters[0]), 7);
}

#[test]
fn dropped_worker_ends_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (pool, counters) = create(&path, options());
    let mut worker = pool.worker().unwrap();
    let ticket = add(&mut worker, counters[0]).ticket;
    drop(worker);
    assert!(ticket.is_durable());
    let mut worker = pool.worker().unwrap();
    assert_eq!(add(&mut worker, counters[0]).value, 2);
    drop(worker);
    pool.close().unwrap();
    let pool = Pool::<Snapshot>::open_as(&path, options()).unwrap();
    assert_eq!(after_a_crash(pool, &path)[0], 2);
}

#[test]
fn conflicting_access_ends_the_owning_group() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let (mut first, mut second) = (pool.worker().unwrap(), pool.worker().unwrap());
    let ticket = add(&mut first, counters[0]).ticket;
    assert_eq!(add(&mut second, counters[0]).value, 2, "an update is lost");
    assert_eq!(second.conflicts(), 1);
    assert!(ticket.is_durable());
    // Each worker's group now owns an object that the other worker accesses.
    let _ = add(&mut first, counters[1]);
    let both = second.run(|tx| {
        for at in [counters[0], counters[1]] {
            let value = tx.get(at)?;
            tx.set(at, value + 10)?;
        }
        Ok(())
    });
    let _ = both.unwrap();
    assert_eq!(add(&mut first, counters[0]).value, 13);
    pool.flush().unwrap();
    assert_eq!((read(&mut second, counters[0]), read(&mut second, counters[1])), (13, 11));
}

/// A flush request meets a group whose worker runs another member. The group ends after that body.
#[test]
fn requested_group_ends_after_its_running_member() {
    for commits in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (pool, counters) = create(&dir.path().join("pool"), options().group(100));
        let mut worker = pool.worker().unwrap();
        let ticket = add(&mut worker, counters[0]).ticket;
        let (sender, receiver) = mpsc::channel();
        let ran = worker.run(|tx| {
            tx.set(counters[1], 5)?;
            let sender = sender.clone();
            ticket.on_durable(move |outcome| sender.send(outcome.is_ok()).unwrap()).unwrap();
            pool.design().expedite(ticket.id());
            assert!(!ticket.is_durable() && receiver.try_recv().is_err());
            if commits { Ok(()) } else { tx.abort("as asked") }
        });
        assert_eq!(ran.is_ok(), commits);
        assert!(ticket.is_durable());
        assert_eq!(receiver.try_recv(), Ok(true));
        assert_eq!(read(&mut worker, counters[1]), if commits { 5 } else { 0 });
    }
}

/// Each worker sees its own pending group and not the other's, so their views have no common order.
#[test]
fn two_workers_see_their_own_groups_first() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let mut workers = [pool.worker().unwrap(), pool.worker().unwrap()];
    let (x, y) = (counters[0], counters[1]);
    let _ = (add(&mut workers[0], x), add(&mut workers[1], y));
    let seen = workers.each_mut().map(|worker| (read(worker, x), read(worker, y)));
    assert_eq!(seen, [(1, 0), (0, 1)]);
    pool.flush().unwrap();
    let seen = workers.each_mut().map(|worker| (read(worker, x), read(worker, y)));
    assert_eq!(seen, [(1, 1), (1, 1)]);
}

#[test]
fn sync_durability_forms_no_groups() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().durability(lastword::Durability::Sync);
    let (pool, counters) = create(&dir.path().join("pool"), options);
    let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    assert!(add(&mut worker, counters[0]).ticket.is_durable());
    assert_eq!(read(&mut other, counters[0]), 1);
}

/// A panicked worker leaves its group pending, and the next worker of its number reads the group.
/// That read's ticket must not be durable before the group is.
#[test]
fn next_worker_waits_for_group_of_panicked_one() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut worker = pool.worker().unwrap();
        let _ = add(&mut worker, counters[0]);
        panic!("as asked");
    }));
    assert!(panicked.is_err());
    let mut worker = pool.worker().unwrap();
    let seen = worker.read(|tx| tx.get(counters[0])).unwrap();
    assert_eq!((seen.value, seen.ticket.is_durable()), (1, false));
    seen.ticket.wait().unwrap();
}

#[test]
fn aborted_member_keeps_earlier_members() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (pool, counters) = create(&path, options().group(100));
    let mut worker = pool.worker().unwrap();
    let made = worker.run(|tx| {
        tx.set(counters[0], 1)?;
        tx.alloc([7_u64; 16])
    });
    let made = made.unwrap().value;
    let free_before = worker.run(|tx| tx.alloc(0_u64)).unwrap().value;
    let aborted = worker.run(|tx| {
        tx.set(counters[0], 2)?;
        tx.set(counters[1], 2)?;
        tx.set(made, [8; 16])?;
        tx.free(made)?;
        let _ = tx.alloc([9_u64; 16])?;
        tx.abort::<()>("as asked")
    });
    assert!(matches!(aborted, Err(Error::Aborted { .. })));
    let seen = worker.run(|tx| {
        let seen = (tx.get(counters[0])?, tx.get(counters[1])?, tx.get(made)?);
        tx.set(counters[0], seen.0 + 2)?;
        tx.free(free_before)?;
        Ok(seen)
    });
    assert_eq!(seen.unwrap().value, (1, 0, [7; 16]));
    pool.flush().unwrap();
    pool.check_heap().unwrap();
    assert_eq!(worker.read(|tx| tx.get(made)).unwrap().value, [7; 16]);
    drop(worker);
    assert_eq!(after_a_crash(pool, &path)[..2], [3, 0]);
}

#[test]
fn running_reader_survives_end_of_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    let _ = add(&mut worker, counters[0]);
    let mut runs = 0;
    let seen = worker.run(|tx| {
        runs += 1;
        let before = tx.get(counters[0])?;
        if runs == 1 {
            pool.design().expedite(pool.committed_id());
            let meanwhile = || {
                assert_eq!(read(&mut other, counters[0]), 1, "the group has not ended");
                assert_eq!(add(&mut other, counters[2]).value, 1);
            };
            std::thread::scope(|scope| scope.spawn(meanwhile).join().unwrap());
        }
        let after = tx.get(counters[0])?;
        assert_eq!(after, before, "the snapshot changed");
        tx.set(counters[1], after)?;
        Ok(after)
    });
    assert_eq!((seen.unwrap().value, runs), (1, 2), "(value, runs)");
}

#[test]
fn background_thread_ends_unawaited_group() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().background(true).group_time(Duration::from_micros(100));
    let (pool, counters) = create(&dir.path().join("pool"), options);
    let mut worker = pool.worker().unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..20 {
        let sender = sender.clone();
        let done = add(&mut worker, counters[0]);
        done.ticket.on_durable(move |outcome| sender.send(outcome.is_ok()).unwrap()).unwrap();
        assert_eq!(receiver.recv(), Ok(true));
        assert!(done.ticket.is_durable());
    }
}

#[test]
fn group_larger_than_slot_is_split() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (pool, counters) = create(&path, options().group(u64::MAX));
    let mut workers = [pool.worker().unwrap(), pool.worker().unwrap()];
    let arrays = workers.each_mut().map(|worker| {
        let made = (0..32).map(|_| worker.run(|tx| tx.alloc([0_u64; 120])));
        made.map(|made| made.unwrap().value).collect::<Vec<_>>()
    });
    for round in 1..=40 {
        for (worker, arrays) in workers.iter_mut().zip(&arrays) {
            for array in arrays {
                let _ = worker.run(|tx| tx.set(*array, [round; 120])).unwrap();
            }
        }
    }
    let _ = add(&mut workers[0], counters[0]);
    pool.flush().unwrap();
    for (worker, arrays) in workers.iter_mut().zip(&arrays) {
        for array in arrays {
            assert_eq!(worker.read(|tx| tx.get(*array)).unwrap().value, [40; 120]);
        }
    }
    drop(workers);
    pool.abandon();
    let pool = Pool::<Snapshot>::open_as(&path, Options::new()).unwrap();
    for array in arrays.iter().flatten() {
        assert_eq!(pool.run(|tx| tx.get(*array)).unwrap().value, [40; 120]);
    }
}

#[test]
fn read_only_ticket_waits_for_its_workers_group() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    let _ = add(&mut worker, counters[0]);
    let seen = worker.read(|tx| tx.get(counters[0])).unwrap();
    assert!(seen.value == 1 && !seen.ticket.is_durable());
    // Another worker's read does not see the pending group and depends on durable commits only.
    let unseen = other.read(|tx| tx.get(counters[0])).unwrap();
    assert!(unseen.value == 0 && unseen.ticket.is_durable());
    seen.ticket.wait().unwrap();
    assert_eq!(read(&mut other, counters[0]), 1);
}

/// A pending group does not stop other workers from truncating their slots. The heap image may then
/// hold transactions above the durable watermark, and the reproduced watermark must not count them.
#[test]
fn reproduced_watermark_stays_below_durable_one() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let (mut idle, mut worker) = (pool.worker().unwrap(), pool.worker().unwrap());
    let member = add(&mut idle, counters[0]);
    let before = pool.metrics().persist_barriers;
    // A slot of 56 KiB holds fewer than 1000 records of 64 bytes, so the slot is truncated often.
    for _ in 0..4000 {
        let _ = add(&mut worker, counters[1]);
        assert!(pool.reproduced_id() <= pool.durable_id());
        assert!(pool.durable_id() <= pool.committed_id());
    }
    assert!(pool.metrics().persist_barriers > before + 4000 / 3 + 1, "no slot was truncated");
    assert!(!member.ticket.is_durable());
    member.ticket.wait().unwrap();
    assert!(pool.durable_id() >= member.ticket.id());
}

/// A thread waits for a group whose member is running, and is notified when that member ends. The
/// test does not observe whether the thread spins or sleeps meanwhile.
#[test]
fn waiter_of_running_member_is_notified() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, counters) = create(&dir.path().join("pool"), options());
    let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    let _ = add(&mut worker, counters[0]);
    let mine = add(&mut other, counters[1]);
    std::thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let (ends, end) = mpsc::channel();
        let (pool, worker) = (&pool, &mut worker);
        let running = scope.spawn(move || {
            let done = worker.run(|tx| {
                tx.set(counters[0], 5)?;
                begun.send(()).unwrap();
                end.recv().unwrap();
                Ok(())
            });
            done.unwrap().ticket.id()
        });
        begins.recv().unwrap();
        let waits = scope.spawn(move || mine.ticket.wait());
        ends.send(()).unwrap();
        let last = running.join().unwrap();
        waits.join().unwrap().unwrap();
        pool.wait_for(last).unwrap();
    });
}

#[test]
fn group_of_a_forgotten_worker_is_an_error_of_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (pool, counters) = create(&path, options());
    std::thread::scope(|scope| {
        let forgets = || {
            let mut worker = pool.worker().unwrap();
            let _ = add(&mut worker, counters[0]);
            // The open transaction keeps the group of the first one from ending.
            let mut open = worker.begin(false).unwrap();
            open.tx().set(counters[1], 999).unwrap();
            std::mem::forget(open);
            std::mem::forget(worker);
        };
        scope.spawn(forgets).join().unwrap();
    });
    let durable = pool.durable_id();
    let closed = pool.close();
    assert!(
        matches!(&closed, Err(Error::WorkerForgotten { durable: last }) if *last == durable),
        "{closed:?}"
    );
    let pool = Pool::<Snapshot>::open_as(&path, options()).unwrap();
    assert_eq!(after_a_crash(pool, &path), [0; 8]);
}

#[test]
fn group_survives_a_forgotten_member_of_its_worker() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (pool, counters) = create(&path, options());
    let mut worker = pool.worker().unwrap();
    let _ = add(&mut worker, counters[0]);
    let mut open = worker.begin(false).unwrap();
    open.tx().set(counters[0], 999).unwrap();
    open.tx().set(counters[1], 999).unwrap();
    std::mem::forget(open);
    let last = add(&mut worker, counters[2]);
    last.ticket.wait().unwrap();
    drop(worker);
    assert_eq!(after_a_crash(pool, &path)[..3], [1, 0, 1]);
}
