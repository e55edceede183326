//! Isolation and progress of `snapshot`: snapshots, conflicts, and the bounded memory and log
//! behind a stalled transaction.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use lastword::{
    Array, Error, Medium, Objects, Options, Place, Pool, Ptr, Snapshot, Stop, Tx, Words, Worker,
    field,
};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Pair {
    left: u64,
    right: u64,
}

type Pairs = [Ptr<Pair>; 4];

fn options() -> Options {
    // A log of 256 KiB has four slots of 56 KiB, one per worker.
    Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12)
}

fn media() -> [Options; 3] {
    [options().medium(EMULATED), options().medium(Medium::PersistentCache), options()]
}

fn create(path: &Path, options: &Options) -> (Pool<Snapshot>, Pairs) {
    let pool = Pool::<Snapshot>::create_as(path, options.clone()).unwrap();
    let made = pool.run(|tx| {
        let mut pairs = [Ptr::NULL; 4];
        for pair in &mut pairs {
            *pair = tx.alloc(Pair { left: 0, right: 0 })?;
        }
        let root = tx.alloc(pairs)?;
        tx.set_root_ptr(root)?;
        Ok(pairs)
    });
    let pairs = made.unwrap().value;
    (pool, pairs)
}

fn put(worker: &mut Worker<'_, Snapshot>, at: Ptr<Pair>, value: u64) -> Result<(), Error> {
    worker.run(|tx| tx.set(at, Pair { left: value, right: value })).map(|done| {
        assert!(done.ticket.is_durable(), "the commit returned early");
    })
}

fn read(worker: &mut Worker<'_, Snapshot>, at: Ptr<Pair>) -> Pair {
    worker.read(|tx| tx.get(at)).unwrap().value
}

/// Runs `meanwhile` in another thread, from inside a body.
fn beside<R: Send>(meanwhile: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(meanwhile).join().unwrap())
}

#[test]
fn reader_keeps_its_snapshot_during_commits() {
    for options in media() {
        let dir = tempfile::tempdir().unwrap();
        let (pool, pairs) = create(&dir.path().join("pool"), &options);
        let (mut reader, mut writer) = (pool.worker().unwrap(), pool.worker().unwrap());
        put(&mut writer, pairs[0], 1).unwrap();
        let seen = reader.read(|tx| {
            let left = tx.get(field!(pairs[0], Pair, left))?;
            beside(|| put(&mut writer, pairs[0], 2).unwrap());
            let mut view = tx.view(pairs[0])?;
            let right = view.get(field!(pairs[0], Pair, right))?;
            assert_eq!(tx.get(pairs[0])?, Pair { left: 1, right: 1 });
            Ok((left, right))
        });
        assert_eq!(seen.unwrap().value, (1, 1));
        // The reader finds the new value in its copy first. A later commit moves it to the heap.
        assert_eq!(read(&mut reader, pairs[0]), Pair { left: 2, right: 2 });
        put(&mut writer, pairs[1], 3).unwrap();
        assert_eq!(read(&mut reader, pairs[0]), Pair { left: 2, right: 2 });
        assert_eq!(reader.conflicts(), 0);
    }
}

#[test]
fn conflicting_writer_is_retried() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, pairs) = create(&dir.path().join("pool"), &options().medium(EMULATED));
    let (mut first, mut second) = (pool.worker().unwrap(), pool.worker().unwrap());
    let mut runs = 0;
    let done = first.run(|tx| {
        runs += 1;
        let before = tx.get(pairs[0])?.left;
        if runs == 1 {
            beside(|| put(&mut second, pairs[0], 10).unwrap());
        }
        tx.set(field!(pairs[0], Pair, left), before + 1)
    });
    let _ = done.unwrap();
    assert_eq!((runs, first.conflicts()), (2, 1));
    assert_eq!(read(&mut first, pairs[0]), Pair { left: 11, right: 10 }, "an update is lost");
}

#[test]
fn transaction_reads_its_own_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, pairs) = create(&dir.path().join("pool"), &options().medium(EMULATED));
    let mut worker = pool.worker().unwrap();
    let made = worker.run(|tx| {
        tx.set(field!(pairs[0], Pair, left), 5)?;
        assert_eq!(tx.get(pairs[0])?, Pair { left: 5, right: 0 });
        let new = tx.alloc(Pair { left: 6, right: 7 })?;
        assert_eq!(tx.get(new)?, Pair { left: 6, right: 7 });
        assert_eq!(tx.view(new)?.get(field!(new, Pair, right))?, 7);
        tx.free(new)?;
        tx.alloc(Pair { left: 8, right: 9 })
    });
    let new = made.unwrap().value;
    assert_eq!(read(&mut worker, new), Pair { left: 8, right: 9 });
    let taken_back = worker.run(|tx| {
        tx.set(new, Pair { left: 0, right: 0 })?;
        tx.abort::<()>("requested by the test")
    });
    assert!(matches!(taken_back, Err(Error::Aborted { .. })));
    assert_eq!(read(&mut worker, new), Pair { left: 8, right: 9 });
    pool.check_heap().unwrap();
}

#[test]
fn stalled_reader_leaves_others_readable_and_durable() {
    for options in media() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let options = options.patience(Duration::ZERO);
        let (pool, pairs) = create(&path, &options);
        let mut stalled = pool.worker().unwrap();
        let mut others: Vec<_> = (0..2).map(|_| pool.worker().unwrap()).collect();
        let seen = stalled.read(|tx| {
            let before = tx.get(pairs[0])?;
            beside(|| {
                // The other workers' writes are durable, and each of them reads the other's.
                put(&mut others[0], pairs[0], 7).unwrap();
                put(&mut others[1], pairs[1], 8).unwrap();
                assert_eq!(read(&mut others[1], pairs[0]).left, 7);
                assert_eq!(read(&mut others[0], pairs[1]).left, 8);
            });
            assert_eq!(tx.get(pairs[0])?, before);
            Ok(before)
        });
        assert_eq!(seen.unwrap().value, Pair { left: 0, right: 0 });
        put(&mut others[1], pairs[0], 9).unwrap();
        assert_eq!(read(&mut stalled, pairs[0]).left, 9);
        drop((stalled, others));
        pool.abandon();
        let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
        let mut worker = pool.worker().unwrap();
        assert_eq!(read(&mut worker, pairs[0]), Pair { left: 9, right: 9 });
        assert_eq!(read(&mut worker, pairs[1]), Pair { left: 8, right: 8 });
        pool.check_heap().unwrap();
    }
}

/// An element that fills a block of its own, so that an array has many objects.
type Block = [u64; 32];

fn blocks(pool: &Pool<Snapshot>, count: u64) -> Array<Block> {
    let array = pool.run(|tx| Array::<Block>::reserve(tx, count)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, 64)).unwrap().value {}
    array
}

/// Runs transactions, each on `objects` blocks of its own, while a stalled reader is open. Returns
/// the number of commits and the error that ended them.
fn run_beside_stalled_reader(
    pool: &Pool<Snapshot>,
    array: Array<Block>,
    objects: u64,
    body: impl Fn(&mut Tx<'_, Snapshot>, Array<Block>, u64) -> Result<(), Stop> + Sync,
) -> (u64, Error) {
    let (mut stalled, mut worker) = (pool.worker().unwrap(), pool.worker().unwrap());
    let body = &body;
    let stuck = stalled.read(|_| {
        Ok(beside(|| {
            for first in (0..array.len() - objects).step_by(objects as usize) {
                let mut run = |first| {
                    worker.run(|tx| (first..first + objects).try_for_each(|at| body(tx, array, at)))
                };
                if let Err(error) = run(first) {
                    return (first / objects, error);
                }
            }
            panic!("no transaction was held up");
        }))
    });
    let full = stuck.unwrap().value;
    // The failed transaction succeeds once the reader has ended.
    let first = full.0 * objects;
    let again = worker.run(|tx| (first..first + objects).try_for_each(|at| body(tx, array, at)));
    assert!(again.is_ok());
    full
}

#[test]
fn full_log_slot_behind_stalled_reader_is_held_up() {
    for options in media() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let options = options.patience(Duration::ZERO);
        let (pool, _) = create(&path, &options);
        let array = blocks(&pool, 512);
        let write = |tx: &mut Tx<'_, Snapshot>, array: Array<Block>, at| {
            tx.set(array.at(at)?, [at + 1; 32])
        };
        let (done, error) = run_beside_stalled_reader(&pool, array, 1, write);
        assert!(matches!(error, Error::HeldUp { .. }), "{error}");
        assert!(error.to_string().contains("part of the log"), "{error}");
        assert!(done > 5, "{done}");
        pool.abandon();
        let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
        for at in 0..array.len() {
            let found = pool.run(|tx| tx.get(array.at(at)?)).unwrap().value;
            let there = if at <= done { at + 1 } else { 0 };
            assert_eq!(found, [there; 32], "{at} of {done}");
        }
    }
}

#[test]
fn full_copy_memory_behind_stalled_reader_is_held_up() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().bytes(4 << 20).medium(EMULATED).patience(Duration::ZERO);
    let (pool, _) = create(&dir.path().join("pool"), &options);
    let array = blocks(&pool, 8192);
    // A protected object needs a copy and no log space.
    let protect =
        |tx: &mut Tx<'_, Snapshot>, array: Array<Block>, at| tx.protect(array.at(at)?.addr());
    let (_, error) = run_beside_stalled_reader(&pool, array, 32, protect);
    assert!(matches!(error, Error::HeldUp { .. }), "{error}");
    assert!(error.to_string().contains("copies"), "{error}");
}

#[test]
fn third_version_behind_stalled_reader_is_held_up() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().medium(EMULATED).patience(Duration::ZERO);
    let (pool, _) = create(&dir.path().join("pool"), &options);
    let array = blocks(&pool, 8);
    let write = |tx: &mut Tx<'_, Snapshot>, array: Array<Block>, at: u64| {
        tx.update(array.at(at % 2)?, |block| block.map(|word| word + 1))
    };
    let (done, error) = run_beside_stalled_reader(&pool, array, 1, write);
    assert!(matches!(error, Error::HeldUp { .. }), "{error}");
    assert!(error.to_string().contains("not in the heap yet"), "{error}");
    assert_eq!(done, 2);
    assert_eq!(pool.run(|tx| tx.get(array.at(0)?)).unwrap().value, [2; 32]);
}

#[test]
fn idle_worker_does_not_block_log_truncation() {
    for options in media() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (pool, pairs) = create(&path, &options);
        let (mut idle, mut busy) = (pool.worker().unwrap(), pool.worker().unwrap());
        put(&mut idle, pairs[0], 1).unwrap();
        put(&mut busy, pairs[0], 2).unwrap();
        put(&mut idle, pairs[1], 3).unwrap();
        let mut value = 3;
        while pool.metrics().log_bytes < 10 * (256 << 10) {
            value += 1;
            put(&mut busy, pairs[2], value).unwrap();
        }
        drop((idle, busy));
        pool.abandon();
        let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
        let mut worker = pool.worker().unwrap();
        let found = [0, 1, 2].map(|at| read(&mut worker, pairs[at]).left);
        assert_eq!(found, [2, 3, value]);
    }
}

/// Runs 20 more transactions. Returns the number of transactions whose records are still needed.
fn behind(pool: &Pool<Snapshot>, busy: &mut Worker<'_, Snapshot>, at: Ptr<Pair>) -> u64 {
    for value in 0..20 {
        let _ = busy.run(|tx| tx.set(at, Pair { left: value, right: value })).unwrap();
    }
    pool.flush().unwrap();
    pool.committed_id().0 - pool.reproduced_id().0
}

/// `recycle_every` bounds the records that truncation leaves, those of idle workers included. An
/// open transaction keeps the records since its start, until it ends.
#[test]
fn log_is_truncated_every_recycle_interval() {
    for (options, members) in media().into_iter().flat_map(|it| [(it.clone(), 1), (it, 2)]) {
        let dir = tempfile::tempdir().unwrap();
        let options = options.recycle_every(3).group(members).background(false);
        let (pool, pairs) = create(&dir.path().join("pool"), &options);
        pool.flush().unwrap();
        let (mut idle, mut busy) = (pool.worker().unwrap(), pool.worker().unwrap());
        let _ = idle.run(|tx| tx.set(pairs[1], Pair { left: 1, right: 1 })).unwrap();
        let most = 3 * members + 1;
        for _ in 0..3 {
            let behind = behind(&pool, &mut busy, pairs[0]);
            assert!(behind <= most, "{behind} of {members}");
        }
        let began = pool.committed_id().0;
        let kept = idle.read(|tx| {
            let _ = tx.get(pairs[2])?;
            Ok(beside(|| {
                for at in &pairs[..3] {
                    let _ = busy.run(|tx| tx.set(*at, Pair { left: 7, right: 7 })).unwrap();
                }
                pool.reproduced_id().0
            }))
        });
        assert!(kept.unwrap().value <= began, "a record in use was truncated");
        let behind = behind(&pool, &mut busy, pairs[3]);
        assert!(behind <= most, "{behind} of {members}");
    }
}

#[test]
fn concurrent_commits_share_log_records() {
    const WORKERS: usize = 12;
    const EACH: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = Options::new().bytes(1 << 20).log_bytes(2 << 20).ring_entries(1 << 12);
    let pool = Pool::<Snapshot>::create_as(&path, options.clone()).unwrap();
    let made = pool.run(|tx| (0..WORKERS).map(|_| tx.alloc(Pair { left: 0, right: 0 })).collect());
    let pairs: Vec<Ptr<Pair>> = made.unwrap().value;
    // Each record takes one block.
    let records = |pool: &Pool<Snapshot>| pool.metrics().log_bytes / 4096;
    let (mut rounds, first) = (0, records(&pool));
    // Sharing depends on timing, so the rounds repeat until a record is shared.
    while records(&pool) - first == rounds * EACH * WORKERS as u64 {
        assert!(rounds < 100, "no record was shared");
        rounds += 1;
        std::thread::scope(|scope| {
            for &at in &pairs {
                let mut worker = pool.worker().unwrap();
                scope.spawn(move || {
                    let before = read(&mut worker, at).left;
                    (1..=EACH).for_each(|more| put(&mut worker, at, before + more).unwrap());
                });
            }
        });
    }
    let metrics = pool.metrics();
    assert!(metrics.persist_barriers >= records(&pool), "a record without a barrier");
    assert!(metrics.log_payload_bytes < metrics.log_bytes);
    let last = pool.committed_id();
    pool.abandon();
    let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
    // The count may exceed `last`: a record that truncation leaves may be counted twice.
    assert!(pool.committed_id() >= last, "a shared record counts once");
    let mut worker = pool.worker().unwrap();
    let value = rounds * EACH;
    for at in pairs {
        assert_eq!(read(&mut worker, at), Pair { left: value, right: value });
    }
    pool.check_heap().unwrap();
}

#[test]
fn flush_diff_off_logs_whole_objects() {
    let logged = |diff| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let options = options().medium(EMULATED).flush_diff(diff);
        let (pool, pairs) = create(&path, &options);
        let array = blocks(&pool, 8);
        let before = pool.metrics().log_payload_bytes;
        let mut worker = pool.worker().unwrap();
        for value in 0..8 {
            let written = worker.run(|tx| {
                let place = array.at(value)?.addr();
                tx.write(place.plus(64), value)
            });
            let _ = written.unwrap();
            put(&mut worker, pairs[0], value).unwrap();
        }
        let logged = pool.metrics().log_payload_bytes - before;
        drop(worker);
        pool.abandon();
        let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
        for value in 0..8 {
            let block = pool.run(|tx| tx.get(array.at(value)?)).unwrap().value;
            assert_eq!(block[8], value);
        }
        assert_eq!(pool.run(|tx| tx.get(pairs[0])).unwrap().value.left, 7);
        logged
    };
    assert!(logged(false) > 3 * logged(true));
}

#[test]
fn unlogged_is_refused_on_durable_media() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for medium in [Medium::File, Medium::PersistentCache] {
        let refused = Pool::<Snapshot>::create_as(&path, options().medium(medium).unlogged());
        assert!(matches!(refused, Err(Error::BadOption { option: "unlogged", .. })));
        assert!(!path.exists());
    }
    let unlogged = options().medium(EMULATED).unlogged();
    let (pool, pairs) = create(&path, &unlogged);
    let mut worker = pool.worker().unwrap();
    put(&mut worker, pairs[0], 5).unwrap();
    assert_eq!((read(&mut worker, pairs[0]).left, pool.metrics().log_bytes), (5, 0));
    drop(worker);
    pool.close().unwrap();
    let lost = Pool::<Snapshot>::open_as(&path, options());
    assert!(matches!(lost, Err(Error::UnknownDesign { .. })));
}

#[test]
fn next_worker_inherits_versions_of_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, pairs) = create(&dir.path().join("pool"), &options().medium(EMULATED));
    let mut reader = pool.worker().unwrap();
    for value in 1..200 {
        let seen = reader.read(|tx| {
            let before = tx.get(pairs[0])?.left;
            beside(|| put(&mut pool.worker().unwrap(), pairs[0], value).unwrap());
            Ok((before, tx.get(pairs[0])?.left))
        });
        assert_eq!(seen.unwrap().value, (value - 1, value - 1));
    }
    drop(reader);
    pool.check_heap().unwrap();
}

#[test]
fn whole_objects_over_a_slot_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().medium(EMULATED).flush_diff(false);
    let (pool, _) = create(&dir.path().join("pool"), &options);
    let array = blocks(&pool, 300);
    let mut worker = pool.worker().unwrap();
    // The transaction writes one word of each block, and the whole blocks exceed a slot.
    let written =
        worker.run(|tx| (0..300).try_for_each(|at| tx.write(array.at(at)?.addr(), at + 1)));
    assert!(matches!(written, Err(Error::SlotTooSmall { .. })), "{:?}", written.err());
    assert_eq!(pool.run(|tx| tx.get(array.at(7)?)).unwrap().value, [0; 32]);
}

/// A held-up worker still reads and writes objects that the stalled reader does not hold.
#[test]
fn held_up_worker_can_use_other_objects() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().medium(EMULATED).patience(Duration::ZERO);
    let (pool, pairs) = create(&dir.path().join("pool"), &options);
    let (mut stalled, mut worker) = (pool.worker().unwrap(), pool.worker().unwrap());
    let held = stalled.read(|_| {
        Ok(beside(|| {
            put(&mut worker, pairs[0], 1).unwrap();
            let error = put(&mut worker, pairs[0], 2).unwrap_err();
            assert!(matches!(error, Error::HeldUp { .. }), "{error}");
            assert_eq!(read(&mut worker, pairs[0]), Pair { left: 1, right: 1 });
            put(&mut worker, pairs[1], 3).unwrap();
            put(&mut worker, pairs[0], 4)
        }))
    });
    let error = held.unwrap().value.unwrap_err();
    assert!(matches!(error, Error::HeldUp { .. }), "{error}");
    put(&mut worker, pairs[0], 5).unwrap();
}

/// The memory of a freed array becomes free when the transaction ends, and not in the middle of it.
/// A reader that began earlier reads the array as it was.
#[test]
fn reader_of_freed_array_sees_no_free_list_links() {
    for options in media() {
        let dir = tempfile::tempdir().unwrap();
        let (pool, _) = create(&dir.path().join("pool"), &options);
        let words = pool.run(|tx| Array::<u64>::reserve(tx, 256)).unwrap().value;
        while !pool.run(|tx| words.prepare(tx, 64)).unwrap().value {}
        let fill = pool.run(|tx| (0..256).try_for_each(|at| tx.set(words.at(at)?, 7)));
        let _ = fill.unwrap();
        let (mut reader, mut worker) = (pool.worker().unwrap(), pool.worker().unwrap());
        let found = reader.read(|tx| {
            let before = tx.get(words.at(0)?)?;
            beside(|| {
                let freed = worker.run(|tx| {
                    words.free(tx)?;
                    // No slab has this size yet, so the allocation takes a whole chunk.
                    for _ in 0..64 {
                        tx.alloc([9_u64; 5])?;
                    }
                    Ok(())
                });
                let _ = freed.unwrap();
            });
            let mut sum = before;
            for at in 0..256 {
                sum += tx.get(words.at(at)?)?;
            }
            Ok(sum)
        });
        assert_eq!(found.unwrap().value, 7 * 257);
        pool.check_heap().unwrap();
        let again = worker.run(|tx| words.free(tx));
        assert!(again.is_err(), "a freed array was freed again");
    }
}

/// A protected object counts as written at the commit, even if the transaction writes nothing.
#[test]
fn write_conflicts_with_later_protect() {
    for options in [options().medium(EMULATED), options().medium(EMULATED).flush_diff(false)] {
        let dir = tempfile::tempdir().unwrap();
        let (pool, pairs) = create(&dir.path().join("pool"), &options);
        let (mut first, mut second) = (pool.worker().unwrap(), pool.worker().unwrap());
        let before = pool.metrics().persist_barriers;
        let mut runs = 0;
        let done = first.run(|tx| {
            runs += 1;
            let before = tx.get(pairs[1])?.left;
            if runs == 1 {
                let protected = beside(|| {
                    second.run(|tx| {
                        tx.protect(pairs[1].addr())?;
                        tx.get(pairs[1])
                    })
                });
                assert_eq!(protected.unwrap().value.left, 0);
            }
            tx.set(field!(pairs[1], Pair, left), before + 1)
        });
        let _ = done.unwrap();
        assert_eq!(runs, 2, "the write did not conflict with the protect");
        assert_eq!(pool.metrics().persist_barriers, before + 1, "a protect was logged");
        assert_eq!(read(&mut second, pairs[1]).left, 1);
    }
}
