//! Tests of `mvcc` with interleaved and with concurrent transactions.

use super::*;
use crate::sync::AtomicBool;
use crate::{Array, Objects, Place, Pool, Ptr};

/// A pool with two counters. Its workers belong to the design itself, so that one thread can
/// interleave transactions.
struct Table {
    pool: Pool<Mvcc>,
    counters: [Ptr<u64>; 2],
}

impl Table {
    fn new() -> Table {
        let options = Options::new().bytes(1 << 20);
        let pool = Pool::<Mvcc>::create_as("nowhere", options).unwrap();
        let counters = pool.run(|tx| Ok([tx.alloc(10)?, tx.alloc(20)?])).unwrap().value;
        Table { pool, counters }
    }

    fn worker(&self, number: usize) -> Local {
        self.pool.design().local(number).unwrap()
    }

    fn at(&self, counter: usize) -> At {
        let object = (self.counters[counter].addr().object - self.pool.shape.base()) as usize / 8;
        At { object, index: object }
    }

    fn begin(&self, local: &mut Local) {
        self.pool.design().begin(local, false).unwrap();
    }

    fn read(&self, local: &mut Local, counter: usize) -> u64 {
        self.pool.design().read(local, self.at(counter)).unwrap()
    }

    fn write(&self, local: &mut Local, counter: usize, value: u64) -> Result<(), Stop> {
        self.pool.design().write(local, self.at(counter), value)
    }

    fn commit(&self, local: &mut Local) -> Result<TxId, Stop> {
        self.pool.design().commit(local)
    }

    fn set(&self, local: &mut Local, counter: usize, value: u64) {
        self.begin(local);
        self.write(local, counter, value).unwrap();
        self.commit(local).unwrap();
    }
}

#[test]
fn reader_sees_versions_of_its_start() {
    let table = Table::new();
    let [mut reader, mut writer] = [1, 2].map(|number| table.worker(number));
    table.begin(&mut reader);
    for value in 11..15 {
        table.set(&mut writer, 0, value);
        assert_eq!(table.read(&mut reader, 0), 10);
    }
    table.begin(&mut writer);
    table.write(&mut writer, 0, 99).unwrap();
    assert_eq!((table.read(&mut writer, 0), table.read(&mut reader, 0)), (99, 10));
    table.pool.design().roll_back(&mut writer);
    table.commit(&mut reader).unwrap();
    table.begin(&mut reader);
    assert_eq!(table.read(&mut reader, 0), 14);
}

#[test]
fn first_committer_wins() {
    let table = Table::new();
    let [mut first, mut second] = [1, 2].map(|number| table.worker(number));
    for value in 0..2 {
        table.begin(&mut first);
        table.begin(&mut second);
        table.write(&mut second, 0, 100 + value).unwrap();
        table.write(&mut second, 1, 100 + value).unwrap();
        table.write(&mut first, 1, value).unwrap();
        table.commit(&mut first).unwrap();
        assert_eq!(table.commit(&mut second), Err(Stop::Conflict));
        table.pool.design().roll_back(&mut second);
        // A write that comes after the other commit conflicts at once.
        table.begin(&mut second);
        table.set(&mut first, 1, value);
        assert_eq!(table.write(&mut second, 1, 7), Err(Stop::Conflict));
        table.pool.design().roll_back(&mut second);
    }
    table.begin(&mut second);
    assert_eq!(
        [0, 1].map(|counter| table.read(&mut second, counter)),
        [10, 1],
        "the rollbacks leave no write"
    );
}

/// Two transactions each read both counters and write their own. In any serial order the second
/// would have read the first one's write.
fn skew(protect: bool) -> [Result<TxId, Stop>; 2] {
    let table = Table::new();
    let mut workers = [1, 2].map(|number| table.worker(number));
    workers.iter_mut().for_each(|worker| table.begin(worker));
    for (own, worker) in workers.iter_mut().enumerate() {
        let sum = table.read(worker, 0) + table.read(worker, 1);
        if protect {
            table.pool.design().protect(worker, table.at(1 - own)).unwrap();
        }
        table.write(worker, own, sum).unwrap();
    }
    workers.each_mut().map(|worker| {
        let done = table.commit(worker);
        if done.is_err() {
            table.pool.design().roll_back(worker);
        }
        done
    })
}

#[test]
fn write_skew_is_allowed_without_protect() {
    assert!(matches!(skew(false), [Ok(_), Ok(_)]));
    assert!(matches!(skew(true), [Ok(_), Err(Stop::Conflict)]));
}

#[test]
fn old_versions_live_as_long_as_their_readers() {
    let table = Table::new();
    let [mut reader, mut writer] = [1, 2].map(|number| table.worker(number));
    let taken = || table.pool.design().versions.taken();
    for value in 0..1000 {
        table.set(&mut writer, 0, value);
    }
    let before = taken();
    for value in 0..100_000 {
        table.set(&mut writer, 0, value);
    }
    assert_eq!(taken(), before, "memory is reused");
    table.begin(&mut reader);
    for value in 0..20_000 {
        table.set(&mut writer, 0, value);
    }
    let most = taken();
    assert!(most > before, "20 000 versions are kept");
    assert_eq!(table.read(&mut reader, 0), 99_999);
    table.commit(&mut reader).unwrap();
    for value in 0..20_000 {
        table.set(&mut writer, 0, value);
    }
    assert_eq!(taken(), most, "and reused after the reader ends");
}

#[test]
fn reader_waits_for_locked_object() {
    let table = Table::new();
    let design = table.pool.design();
    let [mut reader, mut writer] = [1, 2].map(|number| table.worker(number));
    table.begin(&mut writer);
    table.write(&mut writer, 0, 77).unwrap();
    assert!(design.lock(&writer.writes.all()[0]));
    let time = design.running.next_time();
    table.begin(&mut reader);
    assert_eq!(reader.start, time, "the reader must see the unpublished version");
    let reads = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            reads.store(true, Ordering::Relaxed);
            table.read(&mut reader, 0)
        });
        while !reads.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        (0..10_000).for_each(|_| spin_loop()); // the reader most likely waits at the lock by now
        design.publish(&mut writer, time);
        assert_eq!(reader.join().unwrap(), 77);
    });
    design.end(&mut writer);
}

#[test]
fn reused_memory_has_new_objects_extent() {
    let options = Options::new().bytes(1 << 20);
    let pool = Pool::<Mvcc>::create_as("nowhere", options).unwrap();
    for round in 0..20_u64 {
        let array = pool.run(|tx| Array::<[u64; 32]>::create(tx, 240)).unwrap().value;
        let _ = pool.run(|tx| tx.set(array.at(0)?, [round; 32])).unwrap();
        let objects = pool.run(|tx| {
            array.free(tx)?;
            // In one transaction the run's chunk becomes a slab, its first block the first slot.
            (0..50).map(|n| tx.alloc([round + n; 128])).collect::<Result<Vec<_>, _>>()
        });
        let objects = objects.unwrap().value;
        assert_eq!(pool.check_heap().unwrap().objects, 50);
        let freed = pool.run(|tx| {
            for (n, object) in objects.iter().enumerate() {
                assert_eq!(tx.get(*object)?, [round + n as u64; 128]);
                tx.free(*object)?;
            }
            Ok(())
        });
        let _ = freed.unwrap();
    }
}

#[test]
fn transfers_keep_the_sum() {
    let table = Table::new();
    let (pool, [a, b]) = (&table.pool, table.counters);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                for _ in 0..3000 {
                    let moved = worker.run(|tx| {
                        let (x, y) = (tx.get(a)?, tx.get(b)?);
                        tx.set(a, x.wrapping_sub(1))?;
                        tx.set(b, y.wrapping_add(1))
                    });
                    let _ = moved.unwrap();
                    let sum = worker.read(|tx| Ok(tx.get(a)?.wrapping_add(tx.get(b)?)));
                    assert_eq!(sum.unwrap().value, 30);
                }
            });
        }
    });
    let last = pool.run(|tx| tx.get(b)).unwrap();
    assert_eq!(last.value, 20 + 9000);
    assert_eq!(pool.check_heap().unwrap().objects, 2);
}
