//! Cost of a long or contended transaction to transactions that share no word with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use lastword::{
    Decoupled, Design, Medium, Objects, Options, Pool, Ptr, Redo, Snapshot, Undo, Volatile,
};

/// Attempts of the rival, more than any rule counts: a transaction starves after 24 losses, and 64
/// more close the starvation lock.
const ATTEMPTS: usize = 128;
/// Transactions of the unrelated worker, each on an object of its own.
///
/// `snapshot` keeps the old version of each object written since the oldest transaction began, and
/// has room for one version of each. A second write of the same object would wait.
const TRANSACTIONS: usize = 100;

/// An object larger than a stripe of the transactional memory. Two of them with a third in between
/// share no ownership record.
type Object = [u64; 128];

fn options() -> Options {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    Options::new().bytes(4 << 20).log_bytes(16 << 20).ring_entries(1 << 14).medium(medium)
}

fn objects<D: Design>(pool: &Pool<D>) -> Vec<Ptr<Object>> {
    let made = |_| pool.run(|tx| tx.alloc([0_u64; 128])).unwrap().value;
    (0..2 * (TRANSACTIONS + 1)).map(made).step_by(2).collect()
}

/// A slow body writes an object and runs until an unrelated worker has finished, while a rival
/// contends for the object.
///
/// The body also ends once the starvation lock is taken. The lock stops the unrelated worker until
/// the body ends, so without this exit a failing test would hang.
fn slow_body<D: Design>(path: &Path, rival_writes: bool) {
    let pool = Pool::<D>::create_as(path, options()).unwrap();
    let objects = objects(&pool);
    let (contended, own) = (objects[0], &objects[1..]);
    let (begins, begun) = mpsc::channel();
    let (tries, tried) = mpsc::channel();
    let (starts, started) = mpsc::channel();
    let unrelated_ended = AtomicBool::new(false);
    let (pool, ended) = (&pool, &unrelated_ended);
    thread::scope(|scope| {
        let slow = scope.spawn(move || {
            let mut worker = pool.worker().unwrap();
            let body = |tx: &mut lastword::Tx<'_, D>| {
                tx.set(contended, [1; 128])?;
                begins.send(()).unwrap();
                (0..ATTEMPTS).for_each(|_| tried.recv().unwrap());
                starts.send(()).unwrap();
                while !ended.load(Ordering::Acquire) && !pool.design().starvation_lock().is_closed()
                {
                    tried.recv().unwrap();
                }
                Ok(ended.load(Ordering::Acquire))
            };
            worker.run(body).unwrap().value
        });
        scope.spawn(move || {
            let mut worker = pool.worker().unwrap();
            begun.recv().unwrap();
            let mut body = |tx: &mut lastword::Tx<'_, D>| {
                // The slow body drops the receiver when it ends, possibly before this attempt.
                let _ = tries.send(());
                if rival_writes { tx.set(contended, [2; 128]) } else { tx.get(contended).map(drop) }
            };
            match rival_writes {
                true => drop(worker.run(&mut body).unwrap()),
                false => drop(worker.read(&mut body).unwrap()),
            }
        });
        scope.spawn(move || {
            let mut worker = pool.worker().unwrap();
            started.recv().unwrap();
            for object in own {
                let _ = worker.run(|tx| tx.set(*object, [3; 128])).unwrap();
            }
            ended.store(true, Ordering::Release);
        });
        let ended = slow.join().unwrap();
        assert!(ended, "{}: an unrelated worker waits for the slow body", D::NAME);
    });
    let expected = if rival_writes { 2 } else { 1 };
    assert_eq!(pool.run(|tx| tx.get(contended)).unwrap().value[0], expected, "{}", D::NAME);
}

#[test]
fn slow_body_with_rival_writer_stops_no_others() {
    let dir = tempfile::tempdir().unwrap();
    slow_body::<Volatile>(&dir.path().join("volatile"), true);
    slow_body::<Decoupled>(&dir.path().join("decoupled"), true);
    slow_body::<Undo>(&dir.path().join("undo"), true);
    slow_body::<Redo>(&dir.path().join("redo"), true);
    slow_body::<Snapshot>(&dir.path().join("snapshot"), true);
}

#[test]
fn slow_body_with_reader_stops_no_others() {
    let dir = tempfile::tempdir().unwrap();
    slow_body::<Volatile>(&dir.path().join("volatile"), false);
    slow_body::<Decoupled>(&dir.path().join("decoupled"), false);
    slow_body::<Undo>(&dir.path().join("undo"), false);
    slow_body::<Redo>(&dir.path().join("redo"), false);
}

/// Returns whether concurrent writes of two objects conflict.
fn conflict<D: Design>(path: &Path, records: u64) -> bool {
    let pool = Pool::<D>::create_as(path, options().ownership_records(records)).unwrap();
    let objects = objects(&pool);
    let (one, two, pool) = (objects[0], objects[1], &pool);
    let beside = || {
        let mut attempts = 0;
        let mut worker = pool.worker().unwrap();
        let body = |tx: &mut lastword::Tx<'_, D>| {
            attempts += 1;
            if attempts == 1 { tx.set(two, [2; 128]) } else { Ok(()) }
        };
        let _ = worker.run(body).unwrap();
        attempts > 1
    };
    let mut worker = pool.worker().unwrap();
    let done = worker.run(|tx| {
        tx.set(one, [1; 128])?;
        Ok(thread::scope(|scope| scope.spawn(beside).join().unwrap()))
    });
    done.unwrap().value
}

#[test]
fn ownership_records_option_decides_false_conflicts() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, records| dir.path().join(format!("{name}-{records}"));
    for (records, expected) in [(0, false), (1, true), (1 << 40, false)] {
        assert_eq!(conflict::<Volatile>(&path("volatile", records), records), expected);
        assert_eq!(conflict::<Decoupled>(&path("decoupled", records), records), expected);
        assert_eq!(conflict::<Undo>(&path("undo", records), records), expected);
        assert_eq!(conflict::<Redo>(&path("redo", records), records), expected);
    }
}
