//! Tests of the losses that each obstacle counts, and of the reach of the starvation lock.

use super::*;

const FREE: fn(u64, u64) -> Option<usize> = |_, _| None;
const WAITS: fn(Wait, bool) -> bool = |_, _| false;

/// Makes a transaction meet an obstacle this many times.
fn lose<'g>(
    starvation_lock: &'g StarvationLock,
    backoff: &mut Backoff,
    place: &mut Option<QueuePlace<'g>>,
    met: Obstacle,
    times: u32,
) {
    for _ in 0..times {
        backoff.conflicts += 1;
        starvation_lock.pass(backoff, place, || met, FREE, WAITS).unwrap();
    }
}

fn starving(starvation_lock: &StarvationLock, worker: usize) -> (Backoff, Option<QueuePlace<'_>>) {
    let (mut backoff, mut place) = (Backoff::new(worker), None);
    lose(starvation_lock, &mut backoff, &mut place, Obstacle::Untracked, PATIENCE);
    assert!(place.is_none());
    lose(starvation_lock, &mut backoff, &mut place, Obstacle::Untracked, 1);
    assert!(place.is_some());
    (backoff, place)
}

#[test]
fn held_record_counts_once_when_released() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = (Backoff::new(0), None);
    let met = Obstacle::Held { key: 5, seen: 7 };
    for _ in 0..2 * PATIENCE {
        backoff.conflicts = 1; // few enough for a single look
        starvation_lock.pass(&mut backoff, &mut place, || met, |_, _| Some(1), WAITS).unwrap();
    }
    assert_eq!((backoff.losses, place.is_none()), (0, true));
    starvation_lock.pass(&mut backoff, &mut place, || met, FREE, WAITS).unwrap();
    assert_eq!(backoff.losses, 1);
}

#[test]
fn full_log_is_not_a_loss() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = (Backoff::new(0), None);
    lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Room, 10 * PATIENCE);
    assert_eq!((backoff.losses, place.is_none()), (0, true));
}

#[test]
fn ended_reservations_make_a_transaction_starve() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = (Backoff::new(0), None);
    let met = Obstacle::Reserved { key: 5 };
    for starved in 0..=PATIENCE {
        assert!(place.is_none(), "after {starved} reservations");
        let (mut other, mut first) = starving(&starvation_lock, 3);
        lose(&starvation_lock, &mut other, &mut first, Obstacle::Changed { key: 5 }, 1);
        backoff.conflicts = 1; // few enough for a single look
        starvation_lock.pass(&mut backoff, &mut place, || met, FREE, WAITS).unwrap();
        assert_eq!(backoff.losses, starved, "the reservation has not ended");
        drop(first);
        lose(&starvation_lock, &mut backoff, &mut place, met, 1);
    }
    assert!(place.is_some());
}

#[test]
fn wait_for_closed_lock_reports_its_owner() {
    let starvation_lock = StarvationLock::default();
    let (mut owner, mut place) = starving(&starvation_lock, 3);
    lose(&starvation_lock, &mut owner, &mut place, Obstacle::Unknown, 1);
    let (mut asked, mut other) = (Vec::new(), Backoff::new(4));
    let gives_up = |_, is_another| {
        asked.push(is_another);
        asked.len() == 3
    };
    let passed = starvation_lock.pass(&mut other, &mut None, || Obstacle::Unknown, FREE, gives_up);
    assert_eq!((passed, asked), (Err(GaveUp::Closed { worker: 3 }), vec![true, false, false]));
    // The owner's own transaction passes.
    starvation_lock.pass(&mut owner, &mut place, || Obstacle::Unknown, FREE, |_, _| true).unwrap();
    drop(place);
    starvation_lock.pass(&mut other, &mut None, || Obstacle::Unknown, FREE, |_, _| true).unwrap();
}

#[test]
fn lock_closed_again_restarts_the_wait() {
    const CLOSINGS: usize = 5;
    let starvation_lock = StarvationLock::default();
    let close = || {
        let (mut owner, mut place) = starving(&starvation_lock, 3);
        lose(&starvation_lock, &mut owner, &mut place, Obstacle::Unknown, 1);
        place
    };
    let (mut place, mut asked) = (close(), Vec::new());
    let gives_up = |_, is_another| {
        asked.push(is_another);
        if asked.len().is_multiple_of(2) {
            // Opened and closed again between two looks, by the same worker.
            place = None;
            place = if asked.len() < 2 * CLOSINGS { close() } else { None };
        }
        false
    };
    starvation_lock
        .pass(&mut Backoff::new(4), &mut None, || Obstacle::Unknown, FREE, gives_up)
        .unwrap();
    assert_eq!(asked, [true, false].repeat(CLOSINGS));
}

/// Meets each obstacle once, while worker 7 holds all records. Returns for each whether the wait
/// was for another transaction than the last one.
fn asked(
    starvation_lock: &StarvationLock,
    backoff: &mut Backoff,
    obstacles: &[Obstacle],
) -> Vec<bool> {
    let mut asked = Vec::new();
    for met in obstacles {
        backoff.conflicts = 1; // few enough for a single look
        let gives_up = |_, is_another| {
            asked.push(is_another);
            false
        };
        starvation_lock.pass(backoff, &mut None, || *met, |_, _| Some(7), gives_up).unwrap();
    }
    asked
}

#[test]
fn wait_for_one_holder_spans_attempts() {
    let (starvation_lock, mut backoff) = (StarvationLock::default(), Backoff::new(4));
    let [one, two] = [7, 8].map(|seen| Obstacle::Held { key: 5, seen });
    let met = [one, one, Obstacle::Untracked, one, two, two, one];
    assert_eq!(
        asked(&starvation_lock, &mut backoff, &met),
        [true, false, false, true, false, true]
    );
    // It was released in between.
    starvation_lock.pass(&mut backoff, &mut None, || one, FREE, WAITS).unwrap();
    assert_eq!(asked(&starvation_lock, &mut backoff, &[one, one]), [true, false]);
    let passed = starvation_lock.pass(&mut backoff, &mut None, || one, |_, _| Some(7), |_, _| true);
    assert_eq!(passed, Err(GaveUp::Blocked { worker: 7 }));
    // Another transaction of this worker.
    backoff.reset();
    backoff.give_way();
    assert_eq!(asked(&starvation_lock, &mut backoff, &[one, one]), [true, false]);
}

#[test]
fn wait_for_one_reservation_spans_attempts() {
    let (starvation_lock, mut backoff) = (StarvationLock::default(), Backoff::new(4));
    let met = Obstacle::Reserved { key: 5 };
    for _ in 0..3 {
        let (mut other, mut first) = starving(&starvation_lock, 3);
        lose(&starvation_lock, &mut other, &mut first, Obstacle::Changed { key: 5 }, 1);
        assert_eq!(asked(&starvation_lock, &mut backoff, &[met, met, met]), [true, false, false]);
        let passed = starvation_lock.pass(&mut backoff, &mut None, || met, FREE, |_, _| true);
        assert_eq!(passed, Err(GaveUp::Blocked { worker: 3 }));
    }
}

#[test]
fn starving_transaction_reserves_only_lost_records() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = starving(&starvation_lock, 3);
    lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Changed { key: 5 }, 1);
    assert!(starvation_lock.is_reserved(5, 4) && !starvation_lock.is_reserved(5, 3));
    assert_eq!((0..1000).filter(|key| starvation_lock.is_reserved(*key, 4)).count(), 1);
    assert!(!starvation_lock.is_closed());
    drop(place);
    assert!(!starvation_lock.is_reserved(5, 4));
}

#[test]
fn long_held_reservation_leaves_lock_open() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = starving(&starvation_lock, 3);
    let met = Obstacle::Held { key: 5, seen: 7 };
    lose(&starvation_lock, &mut backoff, &mut place, met, 10 * RESERVATIONS);
    assert!(starvation_lock.is_reserved(5, 4) && !starvation_lock.is_closed());
}

#[test]
fn lock_closes_after_many_reservations() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = starving(&starvation_lock, 3);
    for key in 0..u64::from(2 * RESERVATIONS) {
        lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Changed { key }, 1);
        // The loss that made it starve counts, too.
        let closes = key + 1 >= u64::from(RESERVATIONS);
        assert_eq!(starvation_lock.is_closed(), closes, "{key}");
    }
    drop(place);
    assert!(!starvation_lock.is_closed());
}

#[test]
fn obstacle_without_a_record_closes_lock() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = starving(&starvation_lock, 3);
    lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Unknown, 1);
    assert!(starvation_lock.is_closed());
}

#[test]
fn second_in_queue_advances_after_the_first() {
    let starvation_lock = StarvationLock::default();
    let (_, first) = starving(&starvation_lock, 1);
    let (mut backoff, mut second) = starving(&starvation_lock, 2);
    lose(&starvation_lock, &mut backoff, &mut second, Obstacle::Changed { key: 5 }, 1);
    assert!(!starvation_lock.is_reserved(5, 9), "only the first reserves");
    drop(first);
    lose(&starvation_lock, &mut backoff, &mut second, Obstacle::Changed { key: 5 }, 1);
    assert!(starvation_lock.is_reserved(5, 9));
    backoff.reset();
    drop(second);
    assert!(lock(&starvation_lock.queue).is_empty());
}

#[test]
fn forgotten_place_is_released_by_its_worker() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, mut place) = starving(&starvation_lock, 3);
    lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Unknown, 1);
    std::mem::forget(place);
    starvation_lock.leave(2);
    assert!(starvation_lock.is_closed(), "another worker owns it");
    starvation_lock.leave(3);
    assert!(!starvation_lock.is_closed() && lock(&starvation_lock.queue).is_empty());
}

#[test]
fn repeated_attempts_close_the_lock_eventually() {
    let starvation_lock = StarvationLock::default();
    let mut backoff = Backoff::new(3);
    for key in 0..u64::from(PATIENCE + RESERVATIONS) + 2 {
        // As in `Worker::begin`: each attempt has its own place.
        let mut place = None;
        assert!(!starvation_lock.is_closed(), "after {key} losses");
        lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Changed { key }, 1);
        if starvation_lock.is_closed() {
            assert!(key >= u64::from(PATIENCE + RESERVATIONS));
            drop(place);
            return assert!(!starvation_lock.is_closed());
        }
    }
    panic!("it never runs alone");
}

#[test]
fn ended_reservations_never_close_lock() {
    let starvation_lock = StarvationLock::default();
    let mut backoff = Backoff::new(3);
    let mut is_first = false;
    for ended in 0..200 {
        // As in `Worker::begin`: each attempt has its own place.
        let mut place = None;
        lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Reserved { key: 5 }, 1);
        assert!(!starvation_lock.is_closed(), "after {ended} reservations");
        is_first = place.is_some_and(|place| place.is_first());
    }
    assert!(is_first, "they bring it into the queue");
    // As the first it has as many losses as any other transaction.
    for key in 0..=u64::from(RESERVATIONS) {
        let mut place = None;
        assert!(!starvation_lock.is_closed(), "after {key} losses");
        lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Changed { key }, 1);
        assert_eq!(starvation_lock.is_closed(), key == u64::from(RESERVATIONS), "{key}");
    }
}

#[test]
fn losses_behind_another_never_close_lock() {
    let starvation_lock = StarvationLock::default();
    let (_, first) = starving(&starvation_lock, 1);
    let mut backoff = Backoff::new(3);
    for key in 0..200 {
        lose(&starvation_lock, &mut backoff, &mut None, Obstacle::Changed { key }, 1);
    }
    drop(first);
    let mut place = None;
    lose(&starvation_lock, &mut backoff, &mut place, Obstacle::Changed { key: 5 }, 1);
    assert!(starvation_lock.is_reserved(5, 4) && !starvation_lock.is_closed());
}

#[test]
fn closing_between_two_waits_restarts_no_wait_for_a_record() {
    let (starvation_lock, mut backoff) = (StarvationLock::default(), Backoff::new(4));
    let held = Obstacle::Held { key: 5, seen: 7 };
    assert_eq!(asked(&starvation_lock, &mut backoff, &[held]), [true]);
    let (mut owner, mut place) = starving(&starvation_lock, 3);
    lose(&starvation_lock, &mut owner, &mut place, Obstacle::Unknown, 1);
    let mut asked_in_between = Vec::new();
    let gives_up = |wait, is_another| {
        asked_in_between.push((wait, is_another));
        if wait == Wait::Starving {
            place = None; // opens the lock
        }
        false
    };
    backoff.conflicts = 1;
    starvation_lock.pass(&mut backoff, &mut None, || held, |_, _| Some(7), gives_up).unwrap();
    assert_eq!(asked_in_between, [(Wait::Record, false), (Wait::Starving, true)]);
    assert_eq!(asked(&starvation_lock, &mut backoff, &[held]), [false]);
}

#[test]
fn next_transaction_counts_its_losses_anew() {
    let starvation_lock = StarvationLock::default();
    let (mut backoff, place) = starving(&starvation_lock, 3);
    backoff.losses_as_first = RESERVATIONS;
    (backoff.awaited_epoch, backoff.awaited_record) = (Some(0), Some((1, 2)));
    drop(place);
    backoff.reset();
    backoff.give_way();
    assert_eq!((backoff.losses, backoff.losses_as_first), (0, 0));
    assert_eq!((backoff.awaited_epoch, backoff.awaited_record), (None, None));
}
