//! The locks of workloads, for designs that isolate by locks alone (simulated hardware); no-ops on
//! all others.
//!
//! Rules:
//! - A common lock guards data that two workers may access in the same transactions, if one of them
//!   writes. Data that never changes after loading needs none.
//! - Data under one lock shares no cache line of 64 bytes with data under another one, where
//!   objects begin at a line: hardware isolates by lines.
//! - Locks are taken in ascending order, before any allocation or retirement ([`LockId`]), so that
//!   no cycle of waiting workers arises. A transaction first takes the locks that it knows before.
//!
//! A pool holds one workload, so lock spaces only divide the data of one workload.

use words::{LockId, Stop, Words};

/// All of a workload's data, where transactions cross every border of smaller locks.
pub(crate) const ALL: LockId = LockId::of(0, 0);

/// Rows, and other data found by one number.
pub(crate) const ROWS: u8 = 1;

/// Data locked after the rows.
pub(crate) const FURTHER: u8 = 2;

/// Locks that many rows share. With so many, 15 workers that hold 16 each seldom collide (one in 17
/// locks taken is another's).
const STRIPES: u64 = 4096;

/// Returns the lock of a row's stripe, where a row fills its lines.
#[inline]
pub(crate) fn stripe(row: u64) -> LockId {
    LockId::of(ROWS, row % STRIPES)
}

/// Returns the lock of a chain of objects, by its bucket. The head words of eight chains share a
/// line, and hence a lock.
#[inline]
pub(crate) fn chain(space: u8, bucket: u64) -> LockId {
    LockId::of(space, bucket / 8)
}

/// Up to `MOST` locks in the order in which they are taken; a repeated lock is taken once.
#[derive(Clone, Debug)]
pub(crate) struct Locks<const MOST: usize> {
    ids: [LockId; MOST],
    count: usize,
}

impl<const MOST: usize> Locks<MOST> {
    pub(crate) const NONE: Locks<MOST> = Locks { ids: [ALL; MOST], count: 0 };

    /// Sorts the first `MOST` of these locks.
    #[inline]
    pub(crate) fn of(ids: impl IntoIterator<Item = LockId>) -> Locks<MOST> {
        let mut locks = Locks::NONE;
        for (place, id) in locks.ids.iter_mut().zip(ids) {
            (*place, locks.count) = (id, locks.count + 1);
        }
        if locks.count > 1 {
            locks.ids[..locks.count].sort_unstable();
        }
        locks
    }

    /// Takes all of them.
    #[inline]
    pub(crate) fn take<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        let mut last = None;
        for &id in &self.ids[..self.count] {
            if last.replace(id) != Some(id) {
                tx.lock(id)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use words::mock::Mock;
    use words::{Addr, Allocate, Transact};

    use super::*;
    use crate::watch::{Finding, Watch, Watched};
    use crate::{NAMES, Options, Visitor, Workload, by_name};

    #[test]
    fn locks_are_taken_once_in_ascending_order() {
        struct Taken(Vec<u64>);
        impl Words for Taken {
            fn read(&mut self, _at: Addr) -> Result<u64, Stop> {
                Ok(0)
            }
            fn write(&mut self, _at: Addr, _value: u64) -> Result<(), Stop> {
                Ok(())
            }
            fn retire(&mut self, _at: Addr, _bytes: u64) -> Result<(), Stop> {
                Ok(())
            }
            fn lock(&mut self, lock: LockId) -> Result<(), Stop> {
                self.0.push(lock.0);
                Ok(())
            }
        }
        let mut taken = Taken(Vec::new());
        Locks::<7>::of([5, 3, 9, 3, 5, 1].map(LockId)).take(&mut taken).unwrap();
        Locks::<2>::of([ALL, ALL]).take(&mut taken).unwrap();
        assert_eq!(taken.0, [1, 3, 5, 9, 0]);
    }

    /// Runs a small workload with as many workers as share all shareable data.
    struct Run {
        forgets: bool,
    }

    const WORKERS: [usize; 4] = [0, 1, 2, 32];

    impl Visitor for Run {
        type Out = (Watch, bool);

        fn visit<W: Workload>(self) -> (Watch, bool) {
            let options = Options { scale: 0.0005, workers: 33, ..Options::default() };
            let mut mock = Mock::new(W::heap_bytes(&options) as usize);
            let workload = W::load(&mut mock, &options).unwrap();
            let mut watch = Watch::default();
            let mut clients = WORKERS.map(|worker| {
                let mut client = workload.client(worker, 1);
                workload.tune(&mut client, &options);
                (worker, client)
            });
            for _ in 0..200 {
                for (worker, client) in &mut clients {
                    workload.next(client);
                    let (mock, watch) = (&mut mock, &mut watch);
                    let mut watched =
                        Watched { mock, watch, worker: *worker, forgets: self.forgets };
                    let done = watched.transact(|tx| workload.run(client, tx));
                    assert_eq!(done.is_err(), workload.gives_up(client), "{}", W::NAME);
                }
            }
            (watch, W::ANNOUNCES)
        }
    }

    #[test]
    fn workload_locks_isolate_words_and_lines() {
        let mut several = Vec::new();
        for name in NAMES {
            let (watch, announces) = by_name(name, Run { forgets: false }).unwrap();
            assert_eq!(watch.findings(), [], "{name}");
            if watch.orders() > 0 {
                several.push(name);
            }
            // TPC-C's hash indexes announce the start of a key: some keys are in later buckets.
            let least = if name == "tpcc-hash" { watch.written * 85 / 100 } else { watch.written };
            let (written, announced) = (watch.written, watch.announced);
            assert!(!announces || announced >= least, "{name}: {announced} of {written} lines");
            println!("{name}: {:?} to {} lines", watch.lines_min, watch.lines_max);
        }
        assert_eq!(several, ["bank", "vacation", "pc", "sps"], "workloads of several locks");
    }

    #[test]
    fn workload_without_locks_is_caught() {
        let of_their_own = ["empty", "ycsb-c"];
        for name in NAMES {
            let (watch, _) = by_name(name, Run { forgets: true }).unwrap();
            let is_caught = watch.findings().iter().any(|f| matches!(f, Finding::Word(..)));
            assert_eq!(is_caught, !of_their_own.contains(&name), "{name}");
        }
    }

    /// Runs two workers: each takes its locks in this order, and writes its word under them.
    fn watched(workers: [(&[u64], u64); 2]) -> Vec<Finding> {
        let (mut mock, mut watch) = (Mock::new(4096), Watch::default());
        let object = mock.transact(|tx| tx.allocate(128)).unwrap();
        for (worker, (locks, word)) in workers.into_iter().enumerate() {
            let (mock, watch) = (&mut mock, &mut watch);
            let mut watched = Watched { mock, watch, worker, forgets: false };
            let body = |tx: &mut crate::watch::WatchedTx<'_>| {
                locks.iter().try_for_each(|&lock| tx.lock(LockId(lock)))?;
                tx.write(Addr::new(object, 8 * word), 1)
            };
            watched.transact(body).unwrap();
        }
        watch.findings()
    }

    #[test]
    fn lock_violations_are_found() {
        assert_eq!(watched([(&[1, 2], 0), (&[2, 3], 0)]), []);
        let found = watched([(&[1], 0), (&[2], 0)]);
        assert!(matches!(found[..], [Finding::Word(0, 1, ..), Finding::Line(0, 1, ..)]));
        let found = watched([(&[1], 0), (&[2], 7)]);
        assert!(matches!(found[..], [Finding::Line(0, 1, _, 0)]), "one line: {found:?}");
        assert_eq!(watched([(&[1], 0), (&[2], 8)]), [], "two lines");
        let found = watched([(&[1, 2], 0), (&[2, 1], 0)]);
        assert_eq!(found, [Finding::Circle(vec![LockId(1), LockId(2)])]);
        let (mut mock, mut watch) = (Mock::new(4096), Watch::default());
        let mut watched = Watched { mock: &mut mock, watch: &mut watch, worker: 0, forgets: false };
        let late = watched.transact(|tx| tx.allocate(16).and_then(|_| tx.lock(LockId(7))));
        assert!(late.is_ok() && watch.findings() == [Finding::Late(LockId(7))]);
    }
}
