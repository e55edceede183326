//! A follower takes the place of a primary that is lost, or that only seems so.

use lastword::{Objects, ReplicationError, TxId};
use replica::message::Kind;
use replica::{Error, MemoryStream};

use crate::set::{SOON, Set, assert_equal, change, content, map};

/// Rounds of: the primary crashes with transactions that the stream lacks, a follower is promoted,
/// and the old primary follows it.
#[test]
fn crashed_primary_is_replaced_and_rejoins() {
    let set = Set::new(MemoryStream::with_message_bytes(3000), 2);
    let mut primary = set.open(0);
    let mut numbers = [0, 1, 2];
    for round in 0..8 {
        let followers = [set.follow(numbers[1]), set.follow(numbers[2])];
        let replicated = change(primary.pool(), round, 100);
        primary.pool().wait_replicated(replicated).unwrap();
        let before = content(primary.pool());
        // Durable in its log alone, or cut off inside a group.
        match round % 3 {
            0 => set.net.pause(),
            1 => set.net.pause_after(3),
            _ => {}
        }
        let last = change(primary.pool(), 100 + round, 200);
        primary.pool().wait_for(last).unwrap();
        primary.abandon();
        set.net.resume();
        let [follower, other] = followers;
        let promoted = follower.promote().unwrap();
        assert!(promoted.pool().committed_id() >= replicated);
        if round % 3 == 0 {
            assert_eq!(content(promoted.pool()), before);
            assert_eq!(promoted.pool().committed_id(), replicated);
        }
        change(promoted.pool(), 200 + round, 100);
        assert_equal(&other, promoted.pool());
        let rejoined = set.follow(numbers[0]);
        assert_equal(&rejoined, promoted.pool());
        rejoined.pool().check_heap().unwrap();
        drop((rejoined, other));
        promoted.close().unwrap();
        numbers.rotate_left(1);
        primary = set.open(numbers[0]);
    }
}

#[test]
fn deposed_primary_acknowledges_nothing() {
    let set = Set::new(MemoryStream::new(), 1);
    let old = set.open(0);
    let last = change(old.pool(), 1, 100);
    old.pool().wait_replicated(last).unwrap();
    let new = set.follow(1).promote().unwrap();
    // The old one does not know yet. Its commits succeed, and are never replicated.
    let done = old.pool().run(|tx| tx.alloc(1_u64)).unwrap();
    let error = done.ticket.wait_replicated().unwrap_err();
    let fenced = |error: &lastword::Error| {
        matches!(error, lastword::Error::Replication(ReplicationError::Fenced { term: 2, .. }))
            || error.to_string().contains("term 2")
    };
    assert!(fenced(&error), "{error}");
    assert!(old.pool().run(|tx| tx.alloc(1_u64)).is_err());
    assert!(matches!(old.confirm().unwrap_err(), Error::Fenced { term: 2 } | Error::Pool(_)));
    let last = change(new.pool(), 2, 100);
    new.pool().wait_replicated(last).unwrap();
    let mut term = 0;
    for message in set.messages() {
        assert!(message.term.number >= term, "a message of an old term");
        term = message.term.number;
    }
    assert_eq!(term, 2);
}

#[test]
fn confirmation_notices_new_primary() {
    let set = Set::new(MemoryStream::new(), 1);
    let old = set.open(0);
    old.confirm().unwrap();
    assert!(matches!(set.messages().last().unwrap().kind, Kind::Mark { .. }));
    let new = set.follow(1).promote().unwrap();
    new.confirm().unwrap();
    assert!(matches!(old.confirm().unwrap_err(), Error::Fenced { term: 2 }));
    assert!(old.pool().run(|tx| tx.alloc(1_u64)).is_err());
}

#[test]
fn confirmations_share_marks() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let primary = &primary;
            let _ = scope.spawn(move || {
                for round in 0..500 {
                    change(primary.pool(), seed * 1000 + round, 1);
                    primary.confirm().unwrap();
                }
            });
        }
    });
    assert_equal(&set.follow(1), primary.pool());
}

/// Two followers are promoted at once: one after the other succeeds, and every replicated
/// transaction is in the last one.
#[test]
fn two_promotions_at_once_are_ordered() {
    let set = Set::new(MemoryStream::new(), 2);
    let primary = set.open(0);
    let last = change(primary.pool(), 1, 200);
    primary.pool().wait_replicated(last).unwrap();
    let before = content(primary.pool());
    primary.abandon();
    let followers = [set.follow(1), set.follow(2)];
    let promoted = std::thread::scope(|scope| {
        let threads = followers.map(|follower| scope.spawn(|| follower.promote()));
        threads.map(|thread| thread.join().unwrap().unwrap())
    });
    let [one, other] = &promoted;
    let (later, earlier) = match one.status().term.number {
        3 => (one, other),
        _ => (other, one),
    };
    assert_eq!((earlier.status().term.number, later.status().term.number), (2, 3));
    assert_eq!((content(later.pool()), content(earlier.pool())), (before.clone(), before));
    later.confirm().unwrap();
    assert!(matches!(earlier.confirm().unwrap_err(), Error::Fenced { term: 3 }));
}

/// A client reads its own writes on a follower.
#[test]
fn client_reads_own_writes_on_follower() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    let follower = set.follow(1);
    let texts = map(primary.pool());
    for round in 0..100_u64 {
        let text = round.to_string();
        let done = primary.pool().run(|tx| texts.insert(tx, 7, text.as_str()).map(drop)).unwrap();
        follower.wait_for(done.ticket.id(), SOON).unwrap();
        let read = follower.pool().run(|tx| texts.get(tx, 7)).unwrap().value;
        assert_eq!(read, Some(text));
    }
    assert!(follower.status().applied > TxId(100));
}

/// The old primary commits without a pause while a follower is promoted.
#[test]
fn busy_primary_is_fenced() {
    let set = Set::new(MemoryStream::new(), 1);
    let old = set.open(0);
    let follower = set.follow(1);
    let new = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut last = TxId(0);
            while let Ok(done) = old.pool().run(|tx| tx.alloc(1_u64)) {
                match done.ticket.wait_replicated() {
                    Ok(()) => last = old.pool().replicated_id().unwrap(),
                    Err(_) => break,
                }
            }
            last
        });
        while old.status().position < 50 {
            std::thread::yield_now();
        }
        let new = follower.promote().unwrap();
        let last = writer.join().unwrap();
        assert!(new.pool().committed_id() >= last, "an acknowledged transaction is lost");
        new
    });
    assert_eq!(new.status().term.number, 2);
}

/// A pool whose term has begun, and that was never opened in it, follows more than once.
#[test]
fn primary_that_only_began_follows_again() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    let last = change(primary.pool(), 1, 50);
    primary.pool().wait_replicated(last).unwrap();
    set.net.pause();
    change(primary.pool(), 2, 50);
    primary.pool().flush().unwrap();
    primary.abandon();
    // The term message is let through, and nothing after it.
    set.net.resume();
    set.net.pause_after(1);
    let link = set.primary.clone().patience(std::time::Duration::from_millis(50));
    assert!(replica::Primary::open(set.path(0), crate::set::options(), &link).is_err());
    let new = set.follow(1).promote().unwrap();
    assert_eq!(new.status().term.number, 3);
    for seed in 0..3 {
        change(new.pool(), 10 + seed, 50);
        let follower = set.follow(0);
        assert_equal(&follower, new.pool());
        follower.close().unwrap();
    }
}

/// A promotion crashes between its term and the opening of the pool.
#[test]
fn interrupted_promotion_is_completed() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    let last = change(primary.pool(), 1, 100);
    primary.pool().wait_replicated(last).unwrap();
    let before = content(primary.pool());
    primary.abandon();
    // As the promotion writes it, with nothing applied.
    set.begin_term_of(1);
    let primary = set.open(1);
    assert_eq!((content(primary.pool()), primary.status().term.number), (before, 3));
    assert_equal(&set.follow(0), primary.pool());
}
