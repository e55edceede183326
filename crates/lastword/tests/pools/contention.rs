//! What one transaction can cost others that do not need its words.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use lastword::{
    Decoupled, Design, Medium, Objects, Options, Pool, Ptr, Redo, Snapshot, Undo, Volatile,
};

/// A transaction with 24 losses starves, and 64 more close the starvation lock. So many attempts
/// are enough for any rule that counts waits in vain.
const ATTEMPTS: usize = 128;
/// Transactions of the unrelated worker, each on an object of its own: `snapshot` keeps the old
/// version of what was written since the oldest transaction began, and has room for one.
const TRANSACTIONS: usize = 100;

/// More than a stripe of the transactional memory: with another between them, two objects have no
/// ownership record in common.
type Object = [u64; 128];

fn options() -> Options {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    Options::new().bytes(4 << 20).log_bytes(16 << 20).ring_entries(1 << 14).medium(medium)
}

fn objects<D: Design>(pool: &Pool<D>) -> Vec<Ptr<Object>> {
    let made = |_| pool.run(|tx| tx.alloc([0_u64; 128])).unwrap().value;
    (0..2 * (TRANSACTIONS + 1)).map(made).step_by(2).collect()
}

/// A body writes an object and runs until an unrelated worker has ended its transactions, while a
/// rival wants the object. It also ends when the starvation lock has stopped the pool: then the
/// unrelated worker can only end after it.
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
                while !ended.load(Ordering::Acquire) && !pool.design().gate().is_closed() {
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
                let _ = tries.send(()); // the receiver may be gone at the end
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

/// Whether two transactions that write two objects at the same time conflict.
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
