//! Tests that a panic in a group's commit poisons the pool, ends every wait for a member of any
//! group, and loses no transaction that was reported durable.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use words::Ptr;

use crate::design::Design;
use crate::worker::panic_injection::{Point, panics_at, two_words};
use crate::{Error, Medium, Objects, Options, Pool, Snapshot, Ticket, Worker};

/// The call that panics, of a group whose first member has committed, unless it is that member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The commit of the first member.
    First,
    /// The commit of the second member, while another thread waits for the first.
    Second,
    /// The roll-back of the second member.
    RollBack,
    /// A wait for the first member on a thread without a transaction.
    Wait,
    /// The step that the timer runs.
    Step,
    /// The transaction of another worker that writes a word of the group.
    Rival,
}

/// The outcomes with which the callback of a ticket was notified: whether each was a success.
type Outcomes = Arc<Mutex<Vec<bool>>>;

fn on_durable(ticket: Ticket<'_, Snapshot>) -> Outcomes {
    let outcomes = Outcomes::default();
    let kept = Arc::clone(&outcomes);
    let callback = move |outcome: Result<(), Error>| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(outcome.is_ok());
    };
    ticket.on_durable(callback).unwrap();
    outcomes
}

/// Checks that the pool is poisoned by a panic. Without the poison, waits would never end: then
/// this poisons the pool, so that the test fails instead of hanging.
fn assert_panicked(pool: &Pool<Snapshot>, case: (Call, Point)) {
    let refused = pool.design().core.workers.poison.check();
    let is_panic = match &refused {
        Err(Error::Poisoned { cause }) => matches!(**cause, Error::StepPanicked { .. }),
        _ => false,
    };
    if !is_panic {
        pool.design().core.workers.poison.put(Error::InsideTransaction { call: "test" });
        pool.design().core.notify_on_drop();
        panic!("{case:?}: {refused:?}");
    }
}

/// Runs the call that panics. `worker` has a group with a first member, if `first` is there.
fn panics(
    pool: &Pool<Snapshot>,
    worker: &mut Worker<'_, Snapshot>,
    (first, words): (Option<Ticket<'_, Snapshot>>, [Ptr<u64>; 2]),
    case @ (call, point): (Call, Point),
) -> bool {
    let first = || first.expect("the group has its first member");
    match call {
        Call::First => panics_at(point, || drop(worker.run(|tx| tx.set(words[0], 2)).map(drop))),
        Call::Second => thread::scope(|scope| {
            let mut waits = None;
            let has_panicked = panics_at(point, || {
                let done = worker.run(|tx| {
                    tx.set(words[1], 2)?;
                    // The group has left its place, so this thread has to wait for the member.
                    waits = Some(scope.spawn(move || first().wait()));
                    Ok(())
                });
                drop(done.map(drop));
            });
            assert_panicked(pool, case);
            let waited = waits.expect("the body has run").join().unwrap();
            assert!(matches!(waited, Err(Error::Poisoned { .. })), "{case:?}: {waited:?}");
            has_panicked
        }),
        Call::RollBack => panics_at(point, || {
            let done = worker.run(|tx| tx.set(words[1], 2).and_then(|()| tx.abort("rolls back")));
            drop(done.map(|done: crate::Committed<'_, (), _>| done.value));
        }),
        Call::Wait => panics_at(point, || drop(first().wait())),
        Call::Step => panics_at(point, || drop(pool.design().step(0))),
        Call::Rival => panics_at(point, || drop(pool.run(|tx| tx.set(words[0], 3)).map(drop))),
    }
}

/// Lets one call panic, and reopens the pool.
fn panicked_group_is_a_crash(medium: Medium, case @ (call, point): (Call, Point)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    // The second member ends its group if that has to end.
    let group = if call == Call::Second && point != Point::Assigned { 2 } else { 4 };
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(medium).group(group);
    let options = options.background(false);
    let pool = Pool::<Snapshot>::create_as(&path, options.clone()).unwrap();
    let words = two_words(&pool);
    let third = pool.run(|tx| tx.alloc(1_u64)).unwrap();
    third.ticket.wait().unwrap();
    let third = third.value;

    let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    let of_other = other.run(|tx| tx.set(third, 2)).unwrap().ticket;
    let first = (call != Call::First).then(|| worker.run(|tx| tx.set(words[0], 2)).unwrap().ticket);
    let [other_outcomes, outcomes] = [Some(of_other), first].map(|ticket| ticket.map(on_durable));
    assert!(panics(&pool, &mut worker, (first, words), case), "{case:?}");
    assert_panicked(&pool, case);

    // Each callback has been notified, once. The thread that waits for the first member may have
    // ended the group of the other worker before, since that has the same ID.
    let is_other_durable = of_other.is_durable();
    assert!(!is_other_durable || call == Call::Second, "{case:?}");
    assert_eq!(*other_outcomes.unwrap().lock().unwrap(), [is_other_durable], "{case:?}");
    assert_eq!(of_other.wait().is_ok(), is_other_durable, "{case:?}");
    if let (Some(first), Some(outcomes)) = (first, outcomes) {
        assert_eq!(*outcomes.lock().unwrap(), [false], "{case:?}");
        assert!(!first.is_durable() && first.wait().is_err(), "{case:?}");
    }
    assert!(worker.run(|tx| tx.get(words[0])).is_err() && worker.begin(false).is_err());
    assert!(other.run(|tx| tx.get(third)).is_err() && other.begin(false).is_err());
    assert!(pool.run(|tx| tx.set(words[0], 4)).is_err() && pool.flush().is_err(), "{case:?}");
    drop((worker, other));
    let refused = pool.close();
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{case:?}: {refused:?}");

    let pool = Pool::<Snapshot>::open_as(&path, options).unwrap();
    let read = pool.run(|tx| Ok([tx.get(words[0])?, tx.get(words[1])?, tx.get(third)?])).unwrap();
    let [is_first, is_second, is_other] = read.value.map(|value| value == 2);
    let is_recorded = point == Point::Recorded && call != Call::RollBack;
    assert_eq!(is_first, is_recorded, "{case:?}");
    assert_eq!(is_second, is_recorded && call == Call::Second, "{case:?}");
    assert!(is_other || !is_other_durable, "{case:?}: an acknowledged transaction is lost");
    pool.check_heap().unwrap();
    pool.close().unwrap();
}

#[test]
fn panicked_group_ends_waits_and_is_a_crash() {
    let cases = [
        (Call::First, Point::Assigned),
        (Call::Second, Point::Assigned),
        (Call::Second, Point::GroupEnds),
        (Call::Second, Point::Recorded),
        (Call::RollBack, Point::Recorded),
        (Call::Wait, Point::GroupEnds),
        (Call::Wait, Point::Recorded),
        (Call::Step, Point::GroupEnds),
        (Call::Step, Point::Recorded),
        (Call::Rival, Point::GroupEnds),
        (Call::Rival, Point::Recorded),
    ];
    for medium in [Medium::File, Medium::PersistentCache] {
        for case in cases {
            panicked_group_is_a_crash(medium, case);
        }
    }
}
