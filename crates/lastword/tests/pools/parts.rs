//! Transactions that are begun, gone on with and ended by separate calls.
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
fn a_transaction_in_parts_is_all_or_nothing() {
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
        // Aborted, or left.
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 8).unwrap();
        assert!(open.abort().unwrap() >= ticket.id(), "what it has seen");
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 8).unwrap();
        assert!(open.tx().abort::<()>("as asked").is_err());
        assert!(matches!(open.commit(), Err(Error::Aborted { .. })));
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 9).unwrap();
        drop(open);
        // What an access was stopped by is what the commit says, however it was taken.
        let mut open = worker.begin(true).unwrap();
        assert_eq!(open.tx().set(count, 10), Err(Stop::ReadOnly));
        assert!(matches!(open.commit(), Err(Error::ReadOnly)));
        let mut open = worker.begin(true).unwrap();
        assert_eq!(open.tx().get(count), Ok(7));
        assert!(open.commit().unwrap().unwrap().id() >= ticket.id());
    }
}

/// Whoever is in the other's way is told, and is through when it begins again.
#[test]
fn transactions_in_parts_that_meet_lose_nothing() {
    that_meet::<Decoupled>(3000);
    that_meet::<Snapshot>(100);
    that_meet::<Redo>(100);
    that_meet::<Undo>(100);
}

/// So many by each of two workers.
fn that_meet<D: Design>(each: u64) {
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
