//! Primaries whose groups have no way to the stream any more: the pool is poisoned.

use std::time::{Duration, Instant};

use lastword::{Objects, Pool};
use replica::message::Message;
use replica::{Error, Link, LogStream, MemoryStream, Primary, StreamError};

use crate::hooked::{Call, HookedStream};
use crate::set::{SOON, Set, assert_equal, change, options};

/// A primary with some replicated transactions, behind a stream with hooks.
fn primary(set: &Set, patience: Duration) -> (Primary, HookedStream) {
    let hooked = HookedStream::new(set.stream.clone());
    let link = Link::new(hooked.clone()).patience(patience);
    // Commits wait for longer than the test takes, so no wait ends by itself.
    let primary = Primary::begin(set.path(0), options().patience(SOON), &link).unwrap();
    for seed in 0..10 {
        let last = change(primary.pool(), seed, 2);
        primary.pool().wait_replicated(last).unwrap();
    }
    (primary, hooked)
}

/// Commits until the pool is poisoned, and checks that the error has the cause.
#[track_caller]
fn assert_poisoned(pool: &Pool, cause: &str) {
    let begun = Instant::now();
    let waited = pool.run(|tx| tx.alloc(1_u64)).and_then(|done| done.ticket.wait_replicated());
    let error = waited.unwrap_err().to_string();
    assert!(error.contains(cause) && error.contains("cannot go on"), "{error}");
    let error = pool.run(|tx| tx.alloc(1_u64)).unwrap_err().to_string();
    assert!(error.contains(cause), "{error}");
    assert!(begun.elapsed() < SOON, "the wait has ended without a cause");
}

#[test]
fn foreign_message_poisons_pool() {
    let set = Set::new(MemoryStream::new(), 0);
    let (primary, _) = primary(&set, SOON);
    let (_, last) = set.stream.bounds().unwrap();
    set.stream.append(last, &[7; 200]).unwrap();
    assert_poisoned(primary.pool(), "no message of Lastword");
    assert!(primary.status().trouble.unwrap().contains("no message of Lastword"));
    assert!(matches!(primary.confirm().unwrap_err(), Error::Stopped(_)));
}

/// A confirmation finds the message. The primary has nothing to send.
#[test]
fn confirmation_before_foreign_message_poisons() {
    let set = Set::new(MemoryStream::new(), 0);
    let (primary, _) = primary(&set, SOON);
    let (_, last) = set.stream.bounds().unwrap();
    set.stream.append(last, &[7; 200]).unwrap();
    assert!(matches!(primary.confirm().unwrap_err(), Error::Damaged { .. }));
    let error = primary.pool().run(|tx| tx.alloc(1_u64)).unwrap_err().to_string();
    assert!(error.contains("no message of Lastword"), "{error}");
}

#[test]
fn panic_of_sender_poisons_pool() {
    let set = Set::new(MemoryStream::new(), 0);
    let (primary, hooked) = primary(&set, SOON);
    hooked.hook(|call| match call {
        Call::Append(_) => panic!("a bug of the stream"),
        _ => Ok(()),
    });
    assert_poisoned(primary.pool(), "its thread has panicked");
}

#[test]
fn lasting_refusal_poisons_pool() {
    let set = Set::new(MemoryStream::new(), 1);
    let patience = Duration::from_millis(50);
    let (primary, hooked) = primary(&set, patience);
    let fail = |error: StreamError| {
        hooked.hook(move |call| match call {
            Call::Append(_) => Err(error.clone()),
            _ => Ok(()),
        });
    };
    // No reply is no refusal, for as long as it lasts.
    fail(StreamError::Unreachable("no server".into()));
    let last = change(primary.pool(), 2, 10);
    std::thread::sleep(8 * patience);
    assert!(primary.status().trouble.unwrap().contains("no server"));
    hooked.unhook();
    primary.pool().wait_replicated(last).unwrap();
    assert_equal(&set.follow(1), primary.pool());
    fail(StreamError::Refused("no permission".into()));
    assert_poisoned(primary.pool(), "no permission");
    // The next opening sends the rest.
    hooked.unhook();
    primary.abandon();
    let primary = set.open(0);
    assert_equal(&set.follow(1), primary.pool());
}

#[test]
fn lost_end_of_stream_poisons_pool() {
    let set = Set::new(MemoryStream::new(), 0);
    let (primary, hooked) = primary(&set, Duration::from_millis(50));
    let (_, last) = hooked.bounds().unwrap();
    hooked.lose_after(last - 1);
    assert_poisoned(primary.pool(), "has lost messages");
    assert!(primary.close().is_err());
}

/// A server that lags hides the end of the stream for less than the patience.
#[test]
fn hidden_end_of_stream_poisons_nothing() {
    let set = Set::new(MemoryStream::new(), 1);
    let (primary, hooked) = primary(&set, SOON);
    let (_, last) = hooked.bounds().unwrap();
    hooked.lag(last - 1);
    let refused = hooked.clone();
    hooked.hook(move |call| match call {
        Call::Append(after) if refused.is_lagging() => Err(StreamError::Conflict { after }),
        _ => Ok(()),
    });
    let done = primary.pool().run(|tx| tx.alloc(1_u64)).unwrap();
    while !primary.status().trouble.is_some_and(|trouble| trouble.contains("lost messages")) {
        std::thread::yield_now();
    }
    hooked.catch_up();
    done.ticket.wait_replicated().unwrap();
    assert_eq!(primary.status().trouble, None);
    assert_equal(&set.follow(1), primary.pool());
}

/// The stream loses its end, and a new primary fills it up to the place where the old one would
/// append.
#[test]
fn refilled_stream_fences_old_primary() {
    let set = Set::new(MemoryStream::new(), 1);
    let (old, hooked) = primary(&set, SOON);
    let (_, last) = hooked.bounds().unwrap();
    let shorter = hooked.lose_after(last - 5);
    let done = old.pool().run(|tx| tx.alloc(1_u64)).unwrap();
    while !old.status().trouble.is_some_and(|trouble| trouble.contains("lost messages")) {
        std::thread::yield_now();
    }
    let link = Link::new(shorter.clone());
    let new = replica::Follower::open(set.path(1), options(), &link).unwrap().promote().unwrap();
    while shorter.bounds().unwrap().1 < last {
        new.confirm().unwrap();
    }
    let error = done.ticket.wait_replicated().unwrap_err().to_string();
    assert!(error.contains("term 2"), "{error}");
    let message = Message::decode(&shorter.get(last).unwrap().unwrap()).unwrap();
    assert_eq!((shorter.bounds().unwrap().1, message.term.number), (last, 2));
}
