//! Pools and streams that do not fit together.

use lastword::{Objects, Pool};
use replica::{Damage, Error, Follower, LogStream, MemoryStream, Primary};

use crate::set::{SOON, Set, assert_equal, change, options};

#[test]
fn wrong_pools_are_refused() {
    let set = Set::new(MemoryStream::new(), 2);
    // Some errors come after the patience: the end of the stream may be stale.
    let link = set.link.clone().patience(std::time::Duration::from_millis(60));
    let follow = |number| Follower::open(set.path(number), options(), &link).unwrap_err();
    let open = |number| Primary::open(set.path(number), options(), &link).unwrap_err();
    assert!(matches!(follow(1), Error::Empty));
    assert!(matches!(open(0), Error::Empty));
    // A copy of the files, not a backup.
    std::fs::copy(set.path(0), set.path(5)).unwrap();
    std::fs::copy(set.path(0).with_extension("pool.log"), set.path(5).with_extension("pool.log"))
        .unwrap();
    let primary = set.open(0);
    let last = change(primary.pool(), 1, 100);
    primary.pool().wait_replicated(last).unwrap();
    assert!(matches!(open(1), Error::NotPrimary { term: 1, .. }));
    assert!(matches!(open(5), Error::OlderCopy { .. }));
    assert!(matches!(follow(5), Error::IsPrimary { term: 1 }));
    Pool::create(set.path(9), options()).unwrap().close().unwrap();
    assert!(matches!(open(9), Error::OtherPool { .. }));
    assert!(matches!(follow(9), Error::OtherPool { .. }));
    primary.close().unwrap();
    let begun = Primary::begin(set.path(0), options(), &set.link).unwrap_err();
    assert!(matches!(begun, Error::Begun));
    // Opened alone, it has transactions that no log has.
    let pool = Pool::open(set.path(0), options()).unwrap();
    pool.run(|tx| tx.alloc(1_u64)).unwrap().ticket.wait().unwrap();
    pool.close().unwrap();
    assert!(matches!(open(0), Error::Ahead { .. }));
    let pool = Pool::open(set.path(2), options()).unwrap();
    (0..500_u64).for_each(|value| drop(pool.run(|tx| tx.alloc(value)).unwrap()));
    pool.close().unwrap();
    assert!(matches!(follow(2), Error::Ahead { .. }));
}

#[test]
fn damaged_message_stops_follower() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    let follower = set.follow(1);
    change(primary.pool(), 1, 10);
    assert_equal(&follower, primary.pool());
    let (_, last) = set.stream.bounds().unwrap();
    set.stream
        .append(last, b"another program's message, which is long enough to be one of these")
        .unwrap();
    let error = follower.wait_for(lastword::TxId(u64::MAX), SOON).unwrap_err();
    assert!(matches!(error, Error::Stopped(_)), "{error}");
    assert!(error.to_string().contains("no message of Lastword"), "{error}");
    assert!(follower.check().is_err());
    let error = follower.close().unwrap_err();
    assert!(matches!(error, Error::Damaged { damage: Damage::NoMessage, .. }), "{error}");
    // The primary notices it as a foreign writer.
    assert!(primary.confirm().is_err());
}

/// A writer that ignores the fence: a message of an old term behind a new one.
#[test]
fn message_of_old_term_stops_follower() {
    let set = Set::new(MemoryStream::new(), 2);
    let old = set.open(0);
    let last = change(old.pool(), 1, 10);
    old.pool().wait_replicated(last).unwrap();
    let message = set.messages().pop().unwrap();
    let new = set.follow(1).promote().unwrap();
    let follower = set.follow(2);
    follower.catch_up(SOON).unwrap();
    let (_, end) = set.stream.bounds().unwrap();
    set.stream.append(end, &message.encode()).unwrap();
    let error = follower.wait_for(lastword::TxId(u64::MAX), SOON).unwrap_err();
    assert!(error.to_string().contains("of term 1 after term 2"), "{error}");
    drop(new);
}
