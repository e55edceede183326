//! Transactions that are begun, gone on with and ended by separate calls.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lastword::{Durability, Error, Objects, Options, Pool, Ptr, Stop, TxId};

fn create(durability: Durability) -> (tempfile::TempDir, Pool, Ptr<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).ring_entries(1 << 12);
    let pool = Pool::create(dir.path().join("pool"), options.durability(durability)).unwrap();
    let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    (dir, pool, count)
}

#[test]
fn a_transaction_in_parts_is_all_or_nothing() {
    for durability in [Durability::Async, Durability::Sync] {
        let (_dir, pool, count) = create(durability);
        let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 7).unwrap();
        assert!(matches!(other.begin(false), Err(Error::InsideTransaction { .. })));
        assert!(matches!(pool.flush(), Err(Error::InsideTransaction { .. })));
        let ticket = open.commit().unwrap().unwrap();
        assert!(durability == Durability::Async || ticket.is_durable());
        assert_eq!(pool.ticket(ticket.id()).unwrap().id(), ticket.id());
        assert!(matches!(
            pool.ticket(TxId(ticket.id().0 + 1)),
            Err(Error::NoSuchTransaction { .. })
        ));
        // Aborted, or left.
        let mut open = worker.begin(false).unwrap();
        open.tx().set(count, 8).unwrap();
        assert_eq!(open.abort().unwrap(), ticket.id(), "what it has seen");
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
    const EACH: u64 = 3000;
    let (_dir, pool, count) = create(Durability::Async);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut worker = pool.worker().unwrap();
                let mut done = 0;
                while done < EACH {
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
    assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 2 * EACH);
}
