//! Transactions in parts: separate calls begin, continue and end them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lastword::{
    Decoupled, Design, Durability, Error, Objects, Options, Pool, Ptr, Redo, Snapshot, Stop, TxId,
    Undo,
};

fn create<D: Design>(durability: Durability) -> (tempfile::TempDir, Pool<D>, Ptr<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).ring_entries(1 << 12);
    let pool = Pool::create_as(dir.path().join("pool"), options.durability(durability)).unwrap();
    let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    (dir, pool, count)
}

#[test]
fn transaction_in_parts_is_atomic() {
    every_durable!(all_or_nothing());
}

fn all_or_nothing<D: Design>() {
    for durability in [Durability::Async, Durability::Sync] {
        let (_dir, pool, count) = create::<D>(durability);
        let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 7).unwrap();
        assert!(matches!(other.begin(false), Err(Error::InsideTransaction { .. })));
        assert!(matches!(pool.flush(), Err(Error::InsideTransaction { .. })));
        let ticket = open.commit().unwrap().unwrap();
        assert!(durability == Durability::Async || ticket.is_durable());
        assert_eq!(pool.ticket(ticket.id()).unwrap().id(), ticket.id());
        let later = pool.ticket(TxId(pool.committed_id().0 + 1));
        assert!(matches!(later, Err(Error::NoSuchTransaction { .. })));
        // A transaction in parts can end by `abort`, by an aborting access, or by a drop.
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 8).unwrap();
        assert!(open.abort().unwrap() >= ticket.id(), "an abort returns the last ID that it read");
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 8).unwrap();
        assert!(open.tx().abort::<()>("as asked").is_err());
        assert!(matches!(open.commit(), Err(Error::Aborted { .. })));
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 9).unwrap();
        drop(open);
        // The commit repeats the error that stopped an access, even if the program ignored it.
        let mut open = worker.begin(true).unwrap();
        assert_eq!(open.tx().set(count, 10), Err(Stop::ReadOnly));
        assert!(matches!(open.commit(), Err(Error::ReadOnly)));
        let mut open = worker.begin(true).unwrap();
        assert_eq!(open.tx().get(count), Ok(7));
        assert!(open.commit().unwrap().unwrap().id() >= ticket.id());
    }
}

/// A conflict is reported at the access or at the commit, and the retried transaction succeeds.
#[test]
fn conflicting_transactions_in_parts_lose_no_update() {
    conflicting::<Decoupled>(3000);
    conflicting::<Snapshot>(100);
    conflicting::<Redo>(100);
    conflicting::<Undo>(100);
}

/// Runs `each` increments of one counter on each of two workers.
fn conflicting<D: Design>(each: u64) {
    let (_dir, pool, count) = create::<D>(Durability::Async);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut worker = pool.worker().unwrap();
                let mut done = 0;
                while done < each {
                    let mut open = worker.begin(false).unwrap();
                    match open.tx().update(count, |count| count + 1) {
                        Ok(()) => done += u64::from(open.commit().unwrap().is_some()),
                        Err(stop) => {
                            assert_eq!(stop, Stop::Conflict);
                            open.abort().unwrap();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 2 * each);
}
