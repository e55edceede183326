//! Streams that lose requests and replies.

use std::time::Duration;

use lastword::{Objects, ReplicationError};
use replica::MemoryStream;
use replica::message::Kind;

use crate::set::{Set, assert_equal, change};

/// No message is in the stream twice, and none is missing.
#[test]
fn lost_replies_make_neither_duplicates_nor_gaps() {
    let set = Set::new(MemoryStream::with_message_bytes(3000), 1);
    set.net.set_faults(replica::Faults::of_each_kind(3));
    let primary = set.open(0);
    let follower = set.follow(1);
    for seed in 0..20 {
        let last = change(primary.pool(), seed, 20);
        primary.pool().wait_replicated(last).unwrap();
        primary.confirm().unwrap();
    }
    assert_equal(&follower, primary.pool());
    let messages = set.messages();
    let mut next = None;
    for message in messages {
        if let Kind::Part { first, last, part, parts, .. } = message.kind {
            assert!(next.is_none_or(|next| next == (first, part)), "{next:?}: {first} {part}");
            next = Some(match part + 1 == parts {
                true => (lastword::TxId(last.0 + 1), 0),
                false => (first, part + 1),
            });
        }
    }
}

/// Commits wait, and end with an error; then the stream is back, and so is the pool.
#[test]
fn outage_of_stream_holds_commits() {
    let set = Set::new(MemoryStream::new(), 1);
    let options = crate::set::options().log_bytes(128 << 10).ring_entries(1 << 12);
    let options = options.patience(Duration::from_millis(50));
    let primary = replica::Primary::begin(set.path(0), options, &set.primary).unwrap();
    set.net.pause();
    let done = primary.pool().run(|tx| tx.alloc(1_u64)).unwrap();
    done.ticket.wait().unwrap();
    let error = done.ticket.wait_replicated().unwrap_err();
    assert!(
        matches!(error, lastword::Error::Replication(ReplicationError::Behind { .. })),
        "{error}"
    );
    while primary.status().trouble.is_none() {
        std::thread::yield_now();
    }
    set.net.resume();
    while primary.pool().wait_replicated(primary.pool().committed_id()).is_err() {}
    assert_eq!(primary.status().trouble, None);
    assert_equal(&set.follow(1), primary.pool());
}

/// A confirmation that gives up leaves a message that the stream may have. The next one settles it.
#[test]
fn confirmation_gives_up_without_reply() {
    let set = Set::new(MemoryStream::new(), 1);
    let link = set.primary.clone().patience(Duration::from_millis(100));
    let primary = replica::Primary::begin(set.path(0), crate::set::options(), &link).unwrap();
    set.net.set_faults(replica::Faults { lost_request: 1000, ..Default::default() });
    assert!(matches!(primary.confirm().unwrap_err(), replica::Error::Unconfirmed(_)));
    set.net.set_faults(replica::Faults::default());
    primary.confirm().unwrap();
    let last = change(primary.pool(), 1, 10);
    primary.pool().wait_replicated(last).unwrap();
    assert_equal(&set.follow(1), primary.pool());
}

/// Many groups wait for the stream after an outage. Each is sent, in few messages.
#[test]
fn backlog_after_outage_is_sent_whole() {
    let set = Set::new(MemoryStream::with_message_bytes(300 << 10), 1);
    let primary = set.open(0);
    let texts = crate::set::map(primary.pool());
    set.net.pause();
    let mut last = lastword::TxId(0);
    for round in 0..60_u64 {
        let text = round.to_string().repeat(10_000);
        let done = primary.pool().run(|tx| texts.insert(tx, round, text.as_str()).map(drop));
        last = done.unwrap().ticket.id();
        primary.pool().wait_for(last).unwrap();
    }
    set.net.resume();
    primary.pool().wait_replicated(last).unwrap();
    let messages = set.messages();
    for (before, message) in messages.iter().zip(&messages[1..]) {
        assert_eq!(message.complete_before(), before.complete());
    }
    assert_equal(&set.follow(1), primary.pool());
}
