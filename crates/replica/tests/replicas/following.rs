//! Followers of a primary that works on.

use std::time::Duration;

use replica::message::Kind;
use replica::{Error, MemoryStream};

use crate::set::{SOON, Set, assert_equal, change, content};

#[test]
fn follower_has_content_and_ids_of_primary() {
    let set = Set::new(MemoryStream::new(), 2);
    let primary = set.open(0);
    change(primary.pool(), 1, 300);
    let followers = [set.follow(1), set.follow(2)];
    change(primary.pool(), 2, 300);
    for follower in &followers {
        assert_equal(follower, primary.pool());
        follower.pool().check_heap().unwrap();
        assert_eq!(follower.lag().unwrap().ids, 0);
    }
    let status = primary.status();
    assert_eq!((status.term.number, status.replicated), (1, status.committed));
    assert_eq!(followers[0].status().applied, status.replicated);
    primary.close().unwrap();
    followers.into_iter().for_each(|follower| follower.close().unwrap());
}

#[test]
fn large_groups_are_sent_in_parts() {
    let set = Set::new(MemoryStream::with_message_bytes(2000), 1);
    let primary = set.open(0);
    let follower = set.follow(1);
    change(primary.pool(), 1, 500);
    assert_equal(&follower, primary.pool());
    let parts = set.messages().into_iter().filter(
        |message| matches!(message.kind, Kind::Part { parts, part, .. } if parts > 1 && part > 0),
    );
    assert!(parts.count() > 10);
}

#[test]
fn restarted_follower_goes_on_where_it_was() {
    let set = Set::new(MemoryStream::with_message_bytes(2000), 1);
    let primary = set.open(0);
    for round in 0..6 {
        let follower = set.follow(1);
        let last = change(primary.pool(), round, 200);
        match round % 2 {
            // Somewhere inside: the next opening finds its place.
            0 => follower.wait_for(lastword::TxId(last.0 - 50), SOON).unwrap(),
            _ => assert_equal(&follower, primary.pool()),
        }
        match round % 3 {
            0 => follower.close().unwrap(),
            _ => drop(follower),
        }
    }
    assert_equal(&set.follow(1), primary.pool());
}

#[test]
fn follower_of_trimmed_stream_needs_newer_backup() {
    let set = Set::new(MemoryStream::with_message_bytes(4000), 1);
    let primary = set.open(0);
    for seed in 0..4 {
        change(primary.pool(), seed, 100);
        primary.confirm().unwrap();
    }
    primary.pool().backup(set.path(2)).unwrap();
    let last = change(primary.pool(), 9, 100);
    primary.pool().wait_replicated(last).unwrap();
    let messages = set.messages();
    // The backup needs the last messages alone.
    let kept = messages.iter().rposition(|message| matches!(message.kind, Kind::Mark { .. }));
    set.stream.trim(kept.unwrap() as u64 + 1);
    let error = replica::Follower::open(set.path(1), crate::set::options(), &set.link).unwrap_err();
    assert!(matches!(error, Error::Stream(replica::StreamError::Trimmed { .. })), "{error}");
    assert!(error.to_string().contains("newer backup"), "{error}");
    assert_equal(&set.follow(2), primary.pool());
}

#[test]
fn lag_grows_while_follower_waits() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    let follower = set.follow(1);
    let last = change(primary.pool(), 1, 10);
    let late = follower.wait_for(lastword::TxId(last.0 + 1), Duration::from_millis(50));
    assert!(matches!(late.unwrap_err(), Error::Late { .. }));
    assert_equal(&follower, primary.pool());
    assert_eq!(content(follower.pool()), content(primary.pool()));
    follower.close().unwrap();
    let last = change(primary.pool(), 2, 100);
    primary.pool().wait_replicated(last).unwrap();
    // It has not read anything yet, or all of it.
    let follower = set.follow(1);
    let lag = follower.lag().unwrap();
    assert!(lag.ids <= 100 && (lag.ids == 0) == (lag.bytes == 0), "{lag:?}");
    assert_eq!(follower.catch_up(SOON).unwrap(), last);
}
