//! Replication: the watermark of a required stream, the feed, and a follower.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lastword::collections::HashMap;
use lastword::replication::{Feed, Group, read_log};
use lastword::{
    Durability, Error, Objects, Options, Pool, ReplicationError, Shadow, Stop, TxId, Undo,
};

use crate::names::with_suffix;

/// Time for a group that is durable already, or that other threads make durable.
pub(crate) const SOON: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).patience(SOON)
}

fn is_behind(error: &Error) -> bool {
    matches!(error, Error::Replication(ReplicationError::Behind { .. }))
}

fn is_stalled(error: &Error) -> bool {
    matches!(error, Error::Replication(ReplicationError::Stalled { .. }))
}

fn is_undurable(error: &Error) -> bool {
    matches!(error, Error::Replication(ReplicationError::Undurable { .. }))
}

/// Returns the groups up to a transaction, and confirms each.
pub(crate) fn drain(feed: &Feed, last: TxId) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    while groups.last().is_none_or(|group| group.last < last) {
        let group = feed.next(SOON).unwrap().expect("a durable group");
        feed.replicated(group.last).unwrap();
        groups.push(group);
    }
    groups
}

/// Runs random changes of a map of byte strings.
pub(crate) fn change(pool: &Pool, map: HashMap<u64, str>, seed: u64, count: u64) {
    let mut random = seed;
    for _ in 0..count {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405);
        let (key, length) = ((random >> 33) % 200, (random >> 48) as usize % 300);
        let text = "x".repeat(length);
        let _ = pool
            .run(|tx| match length % 3 {
                0 => map.remove(tx, key).map(drop),
                _ => map.insert(tx, key, text.as_str()).map(drop),
            })
            .unwrap();
    }
}

pub(crate) fn content(pool: &Pool) -> Vec<(u64, String)> {
    let map: HashMap<u64, str> = pool.hash_map("texts").unwrap();
    let pairs = pool.run(|tx| map.iter(tx).collect::<Result<Vec<(u64, String)>, _>>());
    let mut pairs = pairs.unwrap().value;
    pairs.sort_unstable();
    pairs
}

#[test]
fn heap_image_waits_for_stream() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("primary.pool");
    let pool = Pool::create(&path, options().replicated(true).background(false)).unwrap();
    let begin = pool.replicated_id().unwrap();
    let feed = pool.feed().unwrap();
    let cell = pool.run(|tx| tx.alloc(1_u64)).unwrap().value;
    let ticket = pool.run(|tx| tx.set(cell, 2)).unwrap().ticket;
    pool.flush().unwrap();
    assert!(pool.design().reproduce_step().is_ok_and(|done| !done), "the stream has nothing");
    assert_eq!(pool.reproduced_id(), begin);
    let group = feed.next(SOON).unwrap().unwrap();
    assert_eq!((group.first.0, group.last), (begin.0 + 1, ticket.id()));
    assert!(feed.next(Duration::ZERO).unwrap().is_none());
    feed.replicated(group.last).unwrap();
    assert_eq!(pool.replicated_id(), Some(ticket.id()));
    ticket.wait_replicated().unwrap();
    while pool.design().reproduce_step().unwrap() {}
    assert_eq!(pool.reproduced_id(), ticket.id());
    pool.close().unwrap();
}

#[test]
fn wait_for_stream_ends_without_feed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("primary.pool");
    let pool = Pool::create(&path, options().replicated(true)).unwrap();
    let done = pool.run(|tx| tx.alloc(1_u64)).unwrap();
    done.ticket.wait().unwrap();
    let error = done.ticket.wait_replicated().unwrap_err();
    assert!(is_behind(&error) && error.to_string().contains("no feed"), "{error}");
    assert!(is_behind(&pool.checkpoint().unwrap_err()));
    assert!(is_behind(&pool.view().map(drop).unwrap_err()));
    let (cell, id) = (done.value, done.ticket.id());
    // The pool stays as a crash leaves it, and its log has the transaction.
    assert!(is_behind(&pool.close().unwrap_err()));
    let mut groups = Vec::new();
    let log = read_log(&path, |group| {
        groups.push(group);
        Ok(())
    });
    let log = log.unwrap();
    assert_eq!((log.last, log.reproduced < id), (id, true));
    assert_eq!(groups.last().unwrap().last, id);
    let pool = Pool::open(&path, options()).unwrap();
    assert_eq!(pool.run(|tx| tx.get(cell)).unwrap().value, 1);
    assert!(matches!(
        pool.feed().unwrap_err(),
        Error::Replication(ReplicationError::NotReplicated)
    ));
}

#[test]
fn full_log_waits_for_stream() {
    let dir = tempfile::tempdir().unwrap();
    for background in [true, false] {
        let path = dir.path().join(format!("primary-{background}.pool"));
        let options = options().log_bytes(128 << 10).replicated(true).background(background);
        let pool = Pool::create(&path, options.ring_entries(1 << 12)).unwrap();
        let feed = pool.feed().unwrap();
        let cells = pool.run(|tx| tx.alloc([0_u64; 100])).unwrap().value;
        let last = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut last = TxId::default();
                for round in 0..400_u64 {
                    let done = pool.run(|tx| tx.set(cells, [round; 100]));
                    last = done.unwrap().ticket.id();
                }
                pool.flush().unwrap();
                last
            });
            while !feed.holds_commits().unwrap() {
                std::thread::yield_now();
            }
            assert!(!writer.is_finished());
            while !writer.is_finished() {
                if let Some(group) = feed.next(Duration::from_millis(1)).unwrap() {
                    feed.replicated(group.last).unwrap();
                }
            }
            writer.join().unwrap()
        });
        assert!(pool.durable_id() >= last);
        while pool.replicated_id() < Some(last) {
            let group = feed.next(SOON).unwrap().expect("a durable group");
            feed.replicated(group.last).unwrap();
        }
        pool.close().unwrap();
    }
}

/// A follower that gets the groups of a primary has its content and its transaction IDs.
fn follow(dir: &Path, options: Options) {
    let (path, copy) = (dir.join("primary.pool"), dir.join("follower.pool"));
    let pool = Pool::create(&path, options.clone().max_bytes(64 << 20).replicated(true)).unwrap();
    let feed = pool.feed().unwrap();
    let map: HashMap<u64, str> = pool.hash_map("texts").unwrap();
    let _ = drain(&feed, pool.committed_id());
    let seed = pool.backup(&copy).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let pool = &pool;
            let _ = scope.spawn(move || change(pool, map, seed, 400));
        }
    });
    let last = pool.committed_id();
    pool.flush().unwrap();
    let groups = drain(&feed, last);
    let expected = content(&pool);
    let following = options.max_bytes(64 << 20).following(true);
    // A crash after each fifth group; the next opening gets some groups again.
    for part in groups.chunks(5) {
        let pool = Pool::open(&copy, following.clone()).unwrap();
        assert!(pool.committed_id() >= seed);
        let mut applier = pool.applier().unwrap();
        let before = applier.last();
        for group in groups.iter().filter(|group| group.last <= part.last().unwrap().last) {
            applier.apply(group).unwrap();
        }
        assert!(applier.last() > before);
        drop(applier);
        pool.flush().unwrap();
        pool.abandon();
    }
    let pool = Pool::open(&copy, following).unwrap();
    assert_eq!((pool.committed_id(), content(&pool)), (last, expected));
    pool.check_heap().unwrap();
    let refused = pool.run(|tx| tx.alloc(1_u64)).unwrap_err();
    assert!(matches!(refused, Error::Replication(ReplicationError::Following)), "{refused}");
    pool.close().unwrap();
    // The copy continues as a pool of its own.
    let pool = Pool::open(&copy, Options::new().max_bytes(64 << 20)).unwrap();
    let map: HashMap<u64, str> = pool.hash_map("texts").unwrap();
    change(&pool, map, 9, 400);
    pool.check_heap().unwrap();
}

#[test]
fn follower_has_content_and_ids_of_primary() {
    let dir = tempfile::tempdir().unwrap();
    follow(dir.path(), options());
}

/// Makes a primary of a map with some texts, and a follower with these options. The follower is
/// opened by `run`, which then applies groups beside other threads.
fn with_follower(
    following: Options,
    run: impl FnOnce(&Pool, HashMap<u64, str>, &mut dyn FnMut(&mut dyn FnMut(&Group))),
) {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("primary.pool"), dir.path().join("follower.pool"));
    let pool = Pool::create(&path, options()).unwrap();
    let map: HashMap<u64, str> = pool.hash_map("texts").unwrap();
    change(&pool, map, 1, 300);
    pool.backup(&copy).unwrap();
    pool.close().unwrap();
    let pool = Pool::open(&path, options().replicated(true)).unwrap();
    let feed = pool.feed().unwrap();
    let follower = Pool::open(&copy, following.following(true)).unwrap();
    let mut seed = 0;
    run(&follower, map, &mut |apply| {
        seed += 1;
        change(&pool, map, seed, 200);
        pool.flush().unwrap();
        drain(&feed, pool.committed_id()).iter().for_each(apply);
    });
    assert_eq!(follower.committed_id(), pool.committed_id());
    assert_eq!(content(&follower), content(&pool));
}

/// A full ring makes a transaction wait before it begins, and costs it no ID.
#[test]
fn applier_waits_for_ring_and_spends_no_id() {
    let following = options().ring_entries(1 << 10).background(false);
    with_follower(following, |follower, _, groups| {
        let mut applier = follower.applier().unwrap();
        for _ in 0..10 {
            groups(&mut |group| applier.apply(group).unwrap());
        }
    });
}

/// Readers that lose again and again against the applier cost it no ID.
#[test]
fn applier_spends_no_id_on_starving_readers() {
    with_follower(options(), |follower, map, groups| {
        let done = AtomicBool::new(false);
        let scan = || {
            while !done.load(Ordering::Relaxed) {
                // Long enough to meet several groups.
                let counted = follower.run(|tx| {
                    (0..50).try_fold(0, |sum, _| {
                        map.iter(tx).try_fold(sum, |sum, pair| pair.map(|_| sum + 1))
                    })
                });
                assert_eq!(counted.unwrap().value % 50, 0);
            }
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(scan), scope.spawn(scan)];
            let mut applier = follower.applier().unwrap();
            for _ in 0..40 {
                groups(&mut |group| applier.apply(group).unwrap());
            }
            done.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    });
}

#[test]
fn transaction_beyond_follower_is_refused_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("follower.pool");
    Pool::create(&path, options()).unwrap().close().unwrap();
    let following = options().ring_entries(1 << 10).following(true);
    let pool = Pool::open(&path, following).unwrap();
    let mut applier = pool.applier().unwrap();
    let (last, next) = (applier.last(), TxId(applier.last().0 + 1));
    let mut words = vec![0, 60_000 << 16 | 30_000];
    words.extend(0..30_000);
    let large = Group { first: next, last: next, heap_bytes: 1 << 20, words };
    for _ in 0..2 {
        let error = applier.apply(&large).unwrap_err();
        assert!(matches!(error, Error::TransactionTooLarge { .. }), "{error}");
        assert_eq!(applier.last(), last);
    }
}

#[test]
fn pools_that_cannot_be_replicated_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let refused = |options: Options| {
        let error = Pool::create(&path, options).unwrap_err();
        matches!(error, Error::BadOption { .. })
    };
    for (replicated, following) in [(true, false), (false, true)] {
        let options = options().replicated(replicated).following(following);
        assert!(refused(options.clone().group(4)));
        assert!(refused(options.clone().ideal_reproduce()));
        for shadow in [Shadow::CopyOnWrite, Shadow::Software] {
            assert!(refused(options.clone().shadow(shadow)));
        }
        let error = Pool::<Undo>::create_as(&path, options).unwrap_err();
        assert!(matches!(error, Error::BadOption { .. }));
    }
}

#[test]
fn follower_stops_inside_group_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("primary.pool"), dir.path().join("follower.pool"));
    let pool = Pool::create(&path, options().replicated(true).background(false)).unwrap();
    let feed = pool.feed().unwrap();
    let seed = pool.backup(&copy).unwrap();
    let mut cells = Vec::new();
    for value in 0..20_u64 {
        cells.push(pool.run(|tx| tx.alloc(value)).unwrap().value);
    }
    pool.flush().unwrap();
    let whole = feed.next(SOON).unwrap().unwrap();
    assert_eq!(whole.last.0 - whole.first.0, 19);
    assert!(whole.transactions().count() == 20 && whole.transactions().all(|it| !it.is_empty()));
    // A part of the group, as if the follower had stopped there.
    let marks: Vec<usize> =
        (0..whole.words.len()).filter(|&at| is_mark(&whole.words, at)).collect();
    let (first, last) = (whole.first, TxId(whole.first.0 + 6));
    let words = whole.words[..marks[7]].to_vec();
    let part = Group { first, last, words, ..whole.clone() };
    let pool = Pool::open(&copy, options().following(true)).unwrap();
    let mut applier = pool.applier().unwrap();
    let later = Group { first: TxId(seed.0 + 2), ..part.clone() };
    assert!(applier.apply(&later).is_err());
    applier.apply(&part).unwrap();
    assert_eq!(applier.last(), last);
    applier.apply(&whole).unwrap();
    assert_eq!(applier.last(), whole.last);
    drop(applier);
    let values =
        pool.run(|tx| cells.iter().map(|cell| tx.get(*cell)).collect::<Result<Vec<_>, _>>());
    assert_eq!(values.unwrap().value, (0..20).collect::<Vec<_>>());
}

/// Whether a mark begins here.
fn is_mark(words: &[u64], wanted: usize) -> bool {
    let mut at = 0;
    while at < wanted {
        at += 1 + (words[at] & 0xffff) as usize;
    }
    at == wanted && words[at] & 0xffff == 0
}

#[test]
fn wrong_groups_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("follower.pool");
    let pool = Pool::create(&path, options()).unwrap();
    assert!(pool.applier().is_err());
    pool.close().unwrap();
    let pool = Pool::open(&path, options().following(true)).unwrap();
    let mut applier = pool.applier().unwrap();
    assert!(matches!(
        pool.applier().unwrap_err(),
        Error::Replication(ReplicationError::Taken("applier"))
    ));
    let last = applier.last();
    let next = TxId(last.0 + 1);
    let good =
        Group { first: next, last: next, heap_bytes: 1 << 20, words: vec![0, 1 << 16 | 1, 7] };
    assert!(good.transactions().eq([vec![(1, &[7][..])]]));
    let outside = ((1 << 17) << 16) | 1;
    let wrong = [
        Group { words: vec![0, outside, 7], ..good.clone() },
        Group { words: vec![0, 1 << 16 | 2, 7], ..good.clone() },
        Group { words: vec![1 << 16 | 1, 7, 0], ..good.clone() },
        Group { words: vec![0, 0], ..good.clone() },
        Group { first: TxId(0), last: TxId(0), ..good.clone() },
        Group { last, ..good.clone() },
        Group { first: TxId(next.0 + 1), last: TxId(next.0 + 1), ..good.clone() },
        Group { last: TxId(u64::MAX), ..good.clone() },
        Group { words: Vec::new(), ..good.clone() },
    ];
    for group in wrong {
        let error = applier.apply(&group).unwrap_err();
        assert!(matches!(error, Error::Replication(_)), "{group:?}: {error}");
        assert_eq!(applier.last(), last);
    }
    let too_large = Group { heap_bytes: 1 << 40, ..good };
    assert!(matches!(applier.apply(&too_large).unwrap_err(), Error::NoGrowth { .. }));
}

#[test]
fn fenced_pool_acknowledges_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("primary.pool");
    let pool = Pool::create(&path, options().replicated(true)).unwrap();
    let feed = pool.feed().unwrap();
    assert!(pool.feed().is_err());
    let done = pool.run(|tx| tx.alloc(1_u64)).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| done.ticket.wait_replicated());
        feed.fence(4).unwrap();
        let error = waiter.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("term 4"), "{error}");
    });
    assert!(pool.run(|tx| tx.alloc(1_u64)).is_err());
    drop(pool);
    assert!(matches!(feed.fence(5).unwrap_err(), Error::Closed { .. }));
}

#[test]
fn failed_feed_poisons_pool() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("a.pool"), options().replicated(true)).unwrap();
    let feed = pool.feed().unwrap();
    let done = pool.run(|tx| tx.alloc(1_u64)).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| done.ticket.wait_replicated());
        feed.fail("the stream is gone").unwrap();
        let error = waiter.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("the stream is gone"), "{error}");
    });
    let error = pool.run(|tx| tx.alloc(1_u64)).unwrap_err();
    assert!(error.to_string().contains("the stream is gone"), "{error}");
    assert!(matches!(feed.replicated(TxId(1)).unwrap_err(), Error::Poisoned { .. }));
    drop(pool);
    assert!(matches!(feed.fail("late").unwrap_err(), Error::Closed { .. }));
}

/// A primary crashes with transactions that the stream lacks. Its log has them, and sends them
/// before the next opening.
#[test]
fn primary_sends_rest_of_its_log_after_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("primary.pool"), dir.path().join("follower.pool"));
    Pool::create(&path, options()).unwrap().close().unwrap();
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(with_suffix(&path, ".log"), with_suffix(&copy, ".log")).unwrap();
    let follower = Pool::open(&copy, options().following(true)).unwrap();
    let mut applier = follower.applier().unwrap();
    let mut replicated = applier.last();
    for round in 0..4 {
        // The groups that the stream lacks after the crash of the last round.
        let mut sent = 0;
        let log = read_log(&path, |group| {
            sent += u64::from(group.last > applier.last());
            applier.apply(&group)
        });
        let log = log.unwrap();
        assert!(log.reproduced <= replicated, "the heap image is ahead of the stream");
        assert_eq!((sent > 0, applier.last()), (round > 0, log.last));
        let pool = Pool::open(&path, options().replicated(true)).unwrap();
        assert_eq!((pool.replicated_id(), pool.committed_id()), (Some(log.last), log.last));
        let map: HashMap<u64, str> = pool.hash_map("texts").unwrap();
        let feed = pool.feed().unwrap();
        change(&pool, map, round, 300);
        pool.flush().unwrap();
        for _ in 0..2 {
            let Some(group) = feed.next(Duration::ZERO).unwrap() else { break };
            applier.apply(&group).unwrap();
            feed.replicated(group.last).unwrap();
        }
        change(&pool, map, 100 + round, 300);
        pool.flush().unwrap();
        replicated = pool.replicated_id().unwrap();
        assert!(pool.committed_id() > replicated);
        pool.abandon();
    }
    let _ = read_log(&path, |group| applier.apply(&group)).unwrap();
    let pool = Pool::open(&path, options()).unwrap();
    assert_eq!(content(&follower), content(&pool));
}

/// The stream stalls while the log is full: commits wait, and end with an error after the patience.
/// Then the stream goes on, and so do they.
#[test]
fn commits_end_with_error_while_stream_stalls() {
    let dir = tempfile::tempdir().unwrap();
    for background in [true, false] {
        let path = dir.path().join(format!("{background}.pool"));
        let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 12);
        let options = options.patience(Duration::from_millis(20)).background(background);
        let pool = Pool::create(&path, options.replicated(true)).unwrap();
        let feed = pool.feed().unwrap();
        let cells = pool.run(|tx| tx.alloc([0_u64; 100])).unwrap().value;
        let mut count = 0_u64;
        let error = loop {
            match pool.run(|tx| tx.set(cells, [count; 100])) {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 10_000);
        };
        assert!(is_stalled(&error) && count > 50, "{count}: {error}");
        // Some of the last ones do not fit in the log, and are not durable.
        assert!(is_undurable(&pool.checkpoint().unwrap_err()));
        assert!(is_undurable(&pool.flush().unwrap_err()));
        while let Some(group) = feed.next(Duration::from_millis(100)).unwrap() {
            feed.replicated(group.last).unwrap();
        }
        let last = pool.run(|tx| tx.set(cells, [count + 1; 100])).unwrap().ticket.id();
        let confirm = || {
            while pool.replicated_id() < Some(last) {
                if let Some(group) = feed.next(Duration::from_millis(10)).unwrap() {
                    feed.replicated(group.last).unwrap();
                }
            }
        };
        std::thread::scope(|scope| {
            let _ = scope.spawn(confirm);
            while pool.flush().is_err() {}
        });
        pool.close().unwrap();
        assert!(matches!(feed.next(SOON).unwrap_err(), Error::Closed { .. }));
    }
}

/// Many threads that wait for their commits all get the error when the stream stalls: a thread that
/// gives up wakes the next.
#[test]
fn every_thread_ends_while_stream_stalls() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("primary.pool");
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 12);
    let options = options.patience(Duration::from_millis(20)).durability(Durability::Sync);
    let pool = Pool::create(&path, options.replicated(true)).unwrap();
    let feed = pool.feed().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let _ = scope.spawn(|| {
                let error = (0..10_000_u64).find_map(|value| pool.run(|tx| tx.alloc(value)).err());
                let error = error.expect("the log is full before");
                assert!(is_stalled(&error) || is_undurable(&error), "{error}");
            });
        }
    });
    while let Some(group) = feed.next(Duration::from_millis(100)).unwrap() {
        feed.replicated(group.last).unwrap();
    }
    assert!(pool.run(|tx| tx.alloc(1_u64)).is_ok());
    drop(feed);
}

/// A body that finds the heap full makes a pool reclaim memory by transactions of its own: not in a
/// follower, whose IDs are those of the primary.
#[test]
fn follower_reclaims_nothing() {
    with_follower(options(), |follower, _, groups| {
        let mut applier = follower.applier().unwrap();
        for _ in 0..3 {
            let full = follower.run(|_| Err::<(), _>(Stop::Full)).unwrap_err();
            assert!(matches!(full, Error::Full { .. }), "{full}");
            assert_eq!(follower.committed_id(), applier.last());
            groups(&mut |group| applier.apply(group).unwrap());
        }
    });
}
