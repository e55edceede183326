//! Tests of the losses that each obstacle counts, and of the reach of the starvation lock.

use super::*;

const FREE: fn(u64, u64) -> Option<usize> = |_, _| None;
const WAITS: fn(Wait, bool) -> bool = |_, _| false;

/// Makes a transaction meet an obstacle this many times.
fn lose<'g>(
    gate: &'g Gate,
    fortune: &mut Fortune,
    turn: &mut Option<Turn<'g>>,
    met: Obstacle,
    times: u32,
) {
    for _ in 0..times {
        fortune.conflicts += 1;
        gate.pass(fortune, turn, || met, FREE, WAITS).unwrap();
    }
}

fn starving(gate: &Gate, worker: usize) -> (Fortune, Option<Turn<'_>>) {
    let (mut fortune, mut turn) = (Fortune::new(worker), None);
    lose(gate, &mut fortune, &mut turn, Obstacle::Untracked, PATIENCE);
    assert!(turn.is_none());
    lose(gate, &mut fortune, &mut turn, Obstacle::Untracked, 1);
    assert!(turn.is_some());
    (fortune, turn)
}

#[test]
fn held_record_counts_once_when_released() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = (Fortune::new(0), None);
    let met = Obstacle::Held { key: 5, seen: 7 };
    for _ in 0..2 * PATIENCE {
        fortune.conflicts = 1; // few enough for a single look
        gate.pass(&mut fortune, &mut turn, || met, |_, _| Some(1), WAITS).unwrap();
    }
    assert_eq!((fortune.losses, turn.is_none()), (0, true));
    gate.pass(&mut fortune, &mut turn, || met, FREE, WAITS).unwrap();
    assert_eq!(fortune.losses, 1);
}

#[test]
fn full_log_is_not_a_loss() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = (Fortune::new(0), None);
    lose(&gate, &mut fortune, &mut turn, Obstacle::Room, 10 * PATIENCE);
    assert_eq!((fortune.losses, turn.is_none()), (0, true));
}

#[test]
fn ended_reservations_make_a_transaction_starve() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = (Fortune::new(0), None);
    let met = Obstacle::Reserved { key: 5 };
    for starved in 0..=PATIENCE {
        assert!(turn.is_none(), "after {starved} reservations");
        let (mut other, mut first) = starving(&gate, 3);
        lose(&gate, &mut other, &mut first, Obstacle::Changed { key: 5 }, 1);
        fortune.conflicts = 1; // few enough for a single look
        gate.pass(&mut fortune, &mut turn, || met, FREE, WAITS).unwrap();
        assert_eq!(fortune.losses, starved, "the reservation has not ended");
        drop(first);
        lose(&gate, &mut fortune, &mut turn, met, 1);
    }
    assert!(turn.is_some());
}

#[test]
fn closed_gate_wait_reports_its_owner() {
    let gate = Gate::default();
    let (mut owner, mut turn) = starving(&gate, 3);
    lose(&gate, &mut owner, &mut turn, Obstacle::Unknown, 1);
    let (mut asked, mut other) = (Vec::new(), Fortune::new(4));
    let gives_up = |_, is_another| {
        asked.push(is_another);
        asked.len() == 3
    };
    let passed = gate.pass(&mut other, &mut None, || Obstacle::Unknown, FREE, gives_up);
    assert_eq!((passed, asked), (Err(GaveUp::Closed { worker: 3 }), vec![true, false, false]));
    // The owner's own transaction passes.
    gate.pass(&mut owner, &mut turn, || Obstacle::Unknown, FREE, |_, _| true).unwrap();
    drop(turn);
    gate.pass(&mut other, &mut None, || Obstacle::Unknown, FREE, |_, _| true).unwrap();
}

#[test]
fn lock_closed_again_restarts_the_wait() {
    const CLOSINGS: usize = 5;
    let gate = Gate::default();
    let close = || {
        let (mut owner, mut turn) = starving(&gate, 3);
        lose(&gate, &mut owner, &mut turn, Obstacle::Unknown, 1);
        turn
    };
    let (mut turn, mut asked) = (close(), Vec::new());
    let gives_up = |_, is_another| {
        asked.push(is_another);
        if asked.len().is_multiple_of(2) {
            // Opened and closed again between two looks, by the same worker.
            turn = None;
            turn = if asked.len() < 2 * CLOSINGS { close() } else { None };
        }
        false
    };
    gate.pass(&mut Fortune::new(4), &mut None, || Obstacle::Unknown, FREE, gives_up).unwrap();
    assert_eq!(asked, [true, false].repeat(CLOSINGS));
}

/// Meets each obstacle once, while worker 7 holds all records. Returns for each whether the wait
/// was for another transaction than the last one.
fn asked(gate: &Gate, fortune: &mut Fortune, obstacles: &[Obstacle]) -> Vec<bool> {
    let mut asked = Vec::new();
    for met in obstacles {
        fortune.conflicts = 1; // few enough for a single look
        let gives_up = |_, is_another| {
            asked.push(is_another);
            false
        };
        gate.pass(fortune, &mut None, || *met, |_, _| Some(7), gives_up).unwrap();
    }
    asked
}

#[test]
fn wait_for_one_holder_spans_attempts() {
    let (gate, mut fortune) = (Gate::default(), Fortune::new(4));
    let [one, two] = [7, 8].map(|seen| Obstacle::Held { key: 5, seen });
    let met = [one, one, Obstacle::Untracked, one, two, two, one];
    assert_eq!(asked(&gate, &mut fortune, &met), [true, false, false, true, false, true]);
    // It was released in between.
    gate.pass(&mut fortune, &mut None, || one, FREE, WAITS).unwrap();
    assert_eq!(asked(&gate, &mut fortune, &[one, one]), [true, false]);
    let passed = gate.pass(&mut fortune, &mut None, || one, |_, _| Some(7), |_, _| true);
    assert_eq!(passed, Err(GaveUp::Blocked { worker: 7 }));
    // Another transaction of this worker.
    fortune.reset();
    fortune.give_way();
    assert_eq!(asked(&gate, &mut fortune, &[one, one]), [true, false]);
}

#[test]
fn wait_for_one_reservation_spans_attempts() {
    let (gate, mut fortune) = (Gate::default(), Fortune::new(4));
    let met = Obstacle::Reserved { key: 5 };
    for _ in 0..3 {
        let (mut other, mut first) = starving(&gate, 3);
        lose(&gate, &mut other, &mut first, Obstacle::Changed { key: 5 }, 1);
        assert_eq!(asked(&gate, &mut fortune, &[met, met, met]), [true, false, false]);
        let passed = gate.pass(&mut fortune, &mut None, || met, FREE, |_, _| true);
        assert_eq!(passed, Err(GaveUp::Blocked { worker: 3 }));
    }
}

#[test]
fn starving_transaction_reserves_only_what_it_lost() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = starving(&gate, 3);
    lose(&gate, &mut fortune, &mut turn, Obstacle::Changed { key: 5 }, 1);
    assert!(gate.is_reserved(5, 4) && !gate.is_reserved(5, 3));
    assert_eq!((0..1000).filter(|key| gate.is_reserved(*key, 4)).count(), 1);
    assert!(!gate.is_closed());
    drop(turn);
    assert!(!gate.is_reserved(5, 4));
}

#[test]
fn long_held_reservation_leaves_gate_open() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = starving(&gate, 3);
    let met = Obstacle::Held { key: 5, seen: 7 };
    lose(&gate, &mut fortune, &mut turn, met, 10 * RESERVATIONS);
    assert!(gate.is_reserved(5, 4) && !gate.is_closed());
}

#[test]
fn gate_closes_after_many_reservations() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = starving(&gate, 3);
    for key in 0..u64::from(2 * RESERVATIONS) {
        lose(&gate, &mut fortune, &mut turn, Obstacle::Changed { key }, 1);
        // The loss that made it starve counts, too.
        let closes = key + 1 >= u64::from(RESERVATIONS);
        assert_eq!(gate.is_closed(), closes, "{key}");
    }
    drop(turn);
    assert!(!gate.is_closed());
}

#[test]
fn obstacle_without_a_record_closes_gate() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = starving(&gate, 3);
    lose(&gate, &mut fortune, &mut turn, Obstacle::Unknown, 1);
    assert!(gate.is_closed());
}

#[test]
fn second_in_queue_advances_after_the_first() {
    let gate = Gate::default();
    let (_, first) = starving(&gate, 1);
    let (mut fortune, mut second) = starving(&gate, 2);
    lose(&gate, &mut fortune, &mut second, Obstacle::Changed { key: 5 }, 1);
    assert!(!gate.is_reserved(5, 9), "only the first reserves");
    drop(first);
    lose(&gate, &mut fortune, &mut second, Obstacle::Changed { key: 5 }, 1);
    assert!(gate.is_reserved(5, 9));
    fortune.reset();
    drop(second);
    assert!(lock(&gate.queue).is_empty());
}

#[test]
fn forgotten_turn_is_released_by_its_worker() {
    let gate = Gate::default();
    let (mut fortune, mut turn) = starving(&gate, 3);
    lose(&gate, &mut fortune, &mut turn, Obstacle::Unknown, 1);
    std::mem::forget(turn);
    gate.leave(2);
    assert!(gate.is_closed(), "another worker owns it");
    gate.leave(3);
    assert!(!gate.is_closed() && lock(&gate.queue).is_empty());
}

#[test]
fn repeated_turns_close_the_gate_eventually() {
    let gate = Gate::default();
    let mut fortune = Fortune::new(3);
    for key in 0..u64::from(PATIENCE + RESERVATIONS) + 2 {
        // As in `Worker::begin`: each attempt has its own turn.
        let mut turn = None;
        assert!(!gate.is_closed(), "after {key} losses");
        lose(&gate, &mut fortune, &mut turn, Obstacle::Changed { key }, 1);
        if gate.is_closed() {
            assert!(key >= u64::from(PATIENCE + RESERVATIONS));
            drop(turn);
            return assert!(!gate.is_closed());
        }
    }
    panic!("it never runs alone");
}

#[test]
fn ended_reservations_never_close_lock() {
    let gate = Gate::default();
    let mut fortune = Fortune::new(3);
    let mut is_first = false;
    for ended in 0..200 {
        // As in `Worker::begin`: each attempt has its own turn.
        let mut turn = None;
        lose(&gate, &mut fortune, &mut turn, Obstacle::Reserved { key: 5 }, 1);
        assert!(!gate.is_closed(), "after {ended} reservations");
        is_first = turn.is_some_and(|turn| turn.is_first());
    }
    assert!(is_first, "they bring it into the queue");
    // As the first it has as many losses as any other transaction.
    for key in 0..=u64::from(RESERVATIONS) {
        let mut turn = None;
        assert!(!gate.is_closed(), "after {key} losses");
        lose(&gate, &mut fortune, &mut turn, Obstacle::Changed { key }, 1);
        assert_eq!(gate.is_closed(), key == u64::from(RESERVATIONS), "{key}");
    }
}

#[test]
fn losses_behind_another_never_close_lock() {
    let gate = Gate::default();
    let (_, first) = starving(&gate, 1);
    let mut fortune = Fortune::new(3);
    for key in 0..200 {
        lose(&gate, &mut fortune, &mut None, Obstacle::Changed { key }, 1);
    }
    drop(first);
    let mut turn = None;
    lose(&gate, &mut fortune, &mut turn, Obstacle::Changed { key: 5 }, 1);
    assert!(gate.is_reserved(5, 4) && !gate.is_closed());
}

#[test]
fn closing_between_two_waits_restarts_no_wait_for_a_record() {
    let (gate, mut fortune) = (Gate::default(), Fortune::new(4));
    let held = Obstacle::Held { key: 5, seen: 7 };
    assert_eq!(asked(&gate, &mut fortune, &[held]), [true]);
    let (mut owner, mut turn) = starving(&gate, 3);
    lose(&gate, &mut owner, &mut turn, Obstacle::Unknown, 1);
    let mut asked_in_between = Vec::new();
    let gives_up = |wait, is_another| {
        asked_in_between.push((wait, is_another));
        if wait == Wait::Turn {
            turn = None; // opens the lock
        }
        false
    };
    fortune.conflicts = 1;
    gate.pass(&mut fortune, &mut None, || held, |_, _| Some(7), gives_up).unwrap();
    assert_eq!(asked_in_between, [(Wait::Record, false), (Wait::Turn, true)]);
    assert_eq!(asked(&gate, &mut fortune, &[held]), [false]);
}

#[test]
fn next_transaction_counts_its_losses_anew() {
    let gate = Gate::default();
    let (mut fortune, turn) = starving(&gate, 3);
    fortune.losses_as_first = RESERVATIONS;
    (fortune.awaited_turn, fortune.awaited_record) = (Some(0), Some((1, 2)));
    drop(turn);
    fortune.reset();
    fortune.give_way();
    assert_eq!((fortune.losses, fortune.losses_as_first), (0, 0));
    assert_eq!((fortune.awaited_turn, fortune.awaited_record), (None, None));
}
