//! Short histories, with the reason why each is accepted or refused.

use crate::checker::{Refusal, check};
use crate::history::{Call, Operation, Value};

/// Returns an operation on key 1.
fn replied(invoked: u64, returned: u64, call: Call, reply: Value) -> Operation {
    Operation { client: 0, key: 1, call, invoked, returned: Some((returned, reply)) }
}

/// Returns an operation whose outcome is unknown.
fn unknown(invoked: u64, call: Call) -> Operation {
    Operation { client: 0, key: 1, call, invoked, returned: None }
}

fn blocked(history: &[Operation]) -> Operation {
    match check(history) {
        Err(Refusal::NotLinearizable { blocked }) => blocked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sequential_history_is_accepted() {
    let history = [
        replied(1, 2, Call::Get, None),
        replied(3, 4, Call::Set(7), None),
        replied(5, 6, Call::Incr, Some(8)),
        replied(7, 8, Call::Get, Some(8)),
        replied(9, 10, Call::Del, Some(1)),
        replied(11, 12, Call::Del, Some(0)),
        replied(13, 14, Call::Incr, Some(1)),
    ];
    assert_eq!(check(&history), Ok(()));
    assert_eq!(check(&[]), Ok(()));
}

/// Two reads beside a write see both of its sides, in this order.
#[test]
fn read_beside_write_sees_either() {
    let write = replied(1, 10, Call::Set(7), None);
    let (before, after) = (replied(2, 3, Call::Get, None), replied(4, 5, Call::Get, Some(7)));
    assert_eq!(check(&[write.clone(), before.clone(), after.clone()]), Ok(()));
    let swapped = [write, replied(2, 3, Call::Get, Some(7)), replied(4, 5, Call::Get, None)];
    assert_eq!(blocked(&swapped), swapped[2]);
}

/// As from a primary that is deposed and does not confirm.
#[test]
fn stale_read_is_refused() {
    let history = [
        replied(1, 2, Call::Set(1), None),
        replied(3, 4, Call::Set(2), None),
        replied(5, 6, Call::Get, Some(1)),
    ];
    assert_eq!(blocked(&history), history[2]);
}

/// As after a reply that did not wait for the stream.
#[test]
fn lost_write_is_refused() {
    let history = [replied(1, 2, Call::Incr, Some(1)), replied(3, 4, Call::Incr, Some(1))];
    assert_eq!(blocked(&history), history[1]);
}

#[test]
fn read_before_write_is_refused() {
    let history = [replied(1, 2, Call::Get, Some(7)), replied(3, 4, Call::Set(7), None)];
    assert_eq!(blocked(&history), history[0]);
}

#[test]
fn unknown_write_may_show_late() {
    let history = |second| {
        [
            unknown(1, Call::Set(7)),
            replied(2, 3, Call::Set(8), None),
            replied(4, 5, Call::Get, Some(8)),
            replied(6, 7, Call::Get, second),
        ]
    };
    assert_eq!(check(&history(Some(7))), Ok(()));
    assert_eq!(check(&history(Some(8))), Ok(()), "it never took effect");
    assert!(check(&history(Some(9))).is_err());
}

#[test]
fn unknown_write_shows_once() {
    let history = [
        unknown(1, Call::Set(7)),
        replied(2, 3, Call::Get, Some(7)),
        replied(4, 5, Call::Set(8), None),
        replied(6, 7, Call::Get, Some(7)),
    ];
    assert_eq!(blocked(&history), history[3]);
    let early = [replied(1, 2, Call::Get, Some(7)), unknown(3, Call::Set(7))];
    assert_eq!(blocked(&early), early[0]);
}

#[test]
fn keys_are_checked_alone() {
    let mut history = vec![replied(1, 2, Call::Set(7), None), replied(3, 4, Call::Get, Some(7))];
    history[1].key = 2;
    assert_eq!(blocked(&history), history[1]);
    history[1].returned = Some((4, None));
    assert_eq!(check(&history), Ok(()));
}

/// The search remembers its visits, and visits few sets of unknown operations.
#[test]
fn long_history_is_decided() {
    // Of five writes at once, the first one takes effect last.
    let group = |at: u64| {
        let write = move |n| replied(10 * at, 10 * at + 5, Call::Set((5 * at + n) as i64), None);
        let read = replied(10 * at + 6, 10 * at + 7, Call::Get, Some(5 * at as i64));
        (0..5).map(write).chain([read])
    };
    let mut history: Vec<_> = (1..=300).flat_map(group).collect();
    history.extend((0..20).map(|at| unknown(150 * at, Call::Set(-1))));
    assert_eq!(check(&history), Ok(()));
    history.push(replied(3050, 3051, Call::Get, Some(0)));
    assert_eq!(blocked(&history), history[history.len() - 1]);
}
