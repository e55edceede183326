//! Primaries that crash and open again.

use replica::MemoryStream;

use crate::set::{Set, assert_equal, change, content};

#[test]
fn restarted_primary_sends_rest_of_its_log() {
    let set = Set::new(MemoryStream::with_message_bytes(3000), 1);
    for round in 0..6 {
        let primary = set.open(0);
        assert_eq!(primary.status().term.number, 3 * round + 1);
        let last = change(primary.pool(), round, 100);
        primary.pool().wait_replicated(last).unwrap();
        match round % 2 {
            0 => set.net.pause(),
            // Inside a group of several parts, whose rest never comes.
            _ => set.net.pause_after(2),
        }
        let last = change(primary.pool(), 100 + round, 200);
        primary.pool().wait_for(last).unwrap();
        let expected = content(primary.pool());
        primary.abandon();
        set.net.resume();
        let primary = set.open(0);
        assert_eq!(content(primary.pool()), expected);
        assert_eq!(primary.pool().replicated_id(), Some(last));
        assert_equal(&set.follow(1), primary.pool());
        primary.close().unwrap();
        // A term without a transaction.
        set.open(0).close().unwrap();
    }
}

/// The primary crashes after its term has begun and before its pool is open.
#[test]
fn primary_opens_after_crash_inside_opening() {
    let set = Set::new(MemoryStream::new(), 1);
    let primary = set.open(0);
    let last = change(primary.pool(), 1, 100);
    primary.pool().wait_replicated(last).unwrap();
    set.net.pause();
    change(primary.pool(), 2, 100);
    primary.pool().flush().unwrap();
    primary.abandon();
    set.net.resume();
    // The term message is let through, and nothing after it.
    set.net.pause_after(1);
    let link = set.primary.clone().patience(std::time::Duration::from_millis(50));
    for _ in 0..2 {
        assert!(replica::Primary::open(set.path(0), crate::set::options(), &link).is_err());
        set.net.resume();
        set.net.pause_after(1);
    }
    set.net.resume();
    let primary = set.open(0);
    assert_eq!(primary.status().term.number, 4);
    assert_equal(&set.follow(1), primary.pool());
}
