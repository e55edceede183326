//! Openings while a server lags, so that reads miss the end of the stream, or fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use replica::message::Kind;
use replica::{Error, Follower, Link, LogStream, MemoryStream, Primary, StreamError};

use crate::hooked::{Call, HookedStream};
use crate::set::{SOON, Set, assert_equal, options};

/// Returns a stream whose reads end with the message `last`, until its end was read five times.
fn lagging(set: &Set, last: u64) -> HookedStream {
    let hooked = HookedStream::new(set.stream.clone());
    hooked.lag(last);
    let (server, looks) = (hooked.clone(), AtomicU64::new(0));
    hooked.hook(move |call| {
        if call == Call::Bounds && looks.fetch_add(1, Ordering::Relaxed) == 5 {
            server.catch_up();
        }
        Ok(())
    });
    hooked
}

#[test]
fn caught_up_follower_opens_despite_lag() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open_with_messages(0);
    let follower = set.follow(1);
    assert_equal(&follower, primary.pool());
    follower.close().unwrap();
    let (_, last) = set.stream.bounds().unwrap();
    let link = Link::new(lagging(&set, last - 1)).patience(SOON);
    let follower = Follower::open(set.path(1), options(), &link).unwrap();
    assert_equal(&follower, primary.pool());
}

#[test]
fn stale_end_hides_no_term() {
    let set = Set::new(MemoryStream::new(), 1);
    let old = set.open_with_messages(0);
    let (_, last) = set.stream.bounds().unwrap();
    let new = set.follow(1).promote().unwrap();
    new.close().unwrap();
    drop(old);
    // Up to `last` pool 0 is the primary, and pool 1 is none.
    let link = Link::new(lagging(&set, last)).patience(SOON);
    let new = Primary::open(set.path(1), options(), &link).unwrap();
    let link = Link::new(lagging(&set, last)).patience(SOON);
    let follower = Follower::open(set.path(0), options(), &link).unwrap();
    assert_equal(&follower, new.pool());
}

/// A follower whose promotion was interrupted opens as the primary, although the first look at the
/// stream does not show its term.
#[test]
fn stale_end_hides_no_interrupted_promotion() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open_with_messages(0);
    primary.abandon();
    let (_, last) = set.stream.bounds().unwrap();
    set.begin_term_of(1);
    let link = Link::new(lagging(&set, last)).patience(SOON);
    let primary = Primary::open(set.path(1), options(), &link).unwrap();
    assert_eq!(primary.status().term.number, 3);
    assert_equal(&set.follow(0), primary.pool());
}

#[test]
fn lasting_contradiction_is_an_error() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open_with_messages(0);
    let follower = set.follow(1);
    assert_equal(&follower, primary.pool());
    follower.close().unwrap();
    let hooked = HookedStream::new(set.stream.clone());
    hooked.lag(set.stream.bounds().unwrap().1 - 1);
    let link = Link::new(hooked).patience(Duration::from_millis(200));
    let error = Follower::open(set.path(1), options(), &link).unwrap_err();
    assert!(matches!(error, Error::Ahead { .. }), "{error}");
}

/// Every second read fails. A search that began anew after each would never end.
#[test]
fn search_continues_after_failed_reads() {
    let set = Set::new(MemoryStream::new(), 2);
    let old = set.open_with_messages(0);
    let new = set.follow(1).promote().unwrap();
    drop(old);
    let hooked = HookedStream::new(set.stream.clone());
    let reads = AtomicU64::new(0);
    hooked.hook(move |call| match call {
        Call::Get(_) if reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => {
            Err(StreamError::Unreachable("no reply".into()))
        }
        _ => Ok(()),
    });
    let link = Link::new(hooked).patience(Duration::from_secs(2));
    // Pool 0 searches for its term, too.
    for number in [2, 0] {
        let follower = Follower::open(set.path(number), options(), &link).unwrap();
        assert_equal(&follower, new.pool());
    }
}

/// The lag of a reopened follower counts the bytes of the messages that it lacks, before it has
/// read one of them.
#[test]
fn reopened_follower_knows_its_lag() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open_with_messages(0);
    let follower = set.follow(1);
    assert_equal(&follower, primary.pool());
    follower.close().unwrap();
    let (known, applied) = (set.messages().len(), primary.pool().committed_id());
    let last = crate::set::change(primary.pool(), 99, 50);
    primary.pool().wait_replicated(last).unwrap();
    // Of a follower that gets no message, with all messages before its place and without them.
    let hooked = HookedStream::new(set.stream.clone());
    hooked.hold_readers(true);
    let looks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&looks);
    hooked.hook(move |call| {
        counted.fetch_add(u64::from(call == Call::Next), Ordering::Relaxed);
        Ok(())
    });
    let missing = set.messages().into_iter().skip(known);
    let words = missing.map(|message| match message.kind {
        Kind::Part { words, .. } => words.len() as u64,
        _ => 0,
    });
    let bytes = 8 * words.sum::<u64>();
    for first in [1, known as u64 + 1] {
        set.stream.trim(first);
        let follower = Follower::open(set.path(1), options(), &Link::new(hooked.clone())).unwrap();
        let before = looks.load(Ordering::Relaxed);
        while looks.load(Ordering::Relaxed) < before + 3 {
            std::thread::yield_now();
        }
        let lag = follower.lag().unwrap();
        assert_eq!((lag.ids, lag.bytes), (last.0 - applied.0, bytes));
        follower.close().unwrap();
    }
}
