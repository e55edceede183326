//! A deposed primary rejoins: it drops the transactions that the stream lacks, and follows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use faults::{Failing, Fault, Faults};
use lastword::collections::HashMap;
use lastword::replication::{Group, read_log};
use lastword::{Error, Medium, Objects, Options, Pool, ReplicationError, System, TxId, Undo};

use crate::replication::{SOON, change, content, drain};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).patience(SOON)
}

/// Pools after a change of the primary.
struct Deposed {
    _dir: tempfile::TempDir,
    /// The old primary: closed, with transactions that the stream lacks.
    path: PathBuf,
    /// The last transaction of the old primary that the stream has.
    last: TxId,
    /// The last transaction of the old primary.
    longer: TxId,
    /// The content at `last`.
    content: Vec<(u64, String)>,
    /// The new primary, and its groups.
    primary: Pool,
    groups: Vec<Group>,
}

/// `extra`: changes that the stream lacks.
fn deposed(medium: Medium, extra: u64) -> Deposed {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("old.pool"), dir.path().join("new.pool"));
    let pool = Pool::create(&path, options().medium(medium)).unwrap();
    let map: HashMap<u64, str> = pool.hash_map("texts").unwrap();
    change(&pool, map, 1, 300);
    pool.backup(&copy).unwrap();
    pool.close().unwrap();

    let pool = Pool::open(&path, options().replicated(true)).unwrap();
    let feed = pool.feed().unwrap();
    change(&pool, map, 2, 100);
    pool.flush().unwrap();
    let mut sent = drain(&feed, pool.committed_id());
    // The stream has these, and the primary does not know it.
    change(&pool, map, 3, 100);
    pool.flush().unwrap();
    while sent.last().unwrap().last < pool.committed_id() {
        sent.push(feed.next(SOON).unwrap().expect("a durable group"));
    }
    let last = pool.committed_id();
    let at_last = content(&pool);
    change(&pool, map, 4, extra);
    pool.flush().unwrap();
    let longer = pool.committed_id();
    assert_eq!(longer > last, extra > 0);
    pool.abandon();

    let follower = Pool::open(&copy, options().following(true)).unwrap();
    let mut applier = follower.applier().unwrap();
    sent.iter().for_each(|group| applier.apply(group).unwrap());
    drop(applier);
    follower.close().unwrap();
    let primary = Pool::open(&copy, options().replicated(true)).unwrap();
    let feed = primary.feed().unwrap();
    change(&primary, map, 5, 200);
    primary.flush().unwrap();
    let groups = drain(&feed, primary.committed_id());
    drop(feed);
    Deposed { _dir: dir, path, last, longer, content: at_last, primary, groups }
}

/// Applies the groups of the new primary, and compares the pools.
fn follow(pool: &Pool, deposed: &Deposed) {
    assert_eq!((pool.committed_id(), content(pool)), (deposed.last, deposed.content.clone()));
    let mut applier = pool.applier().unwrap();
    deposed.groups.iter().for_each(|group| applier.apply(group).unwrap());
    drop(applier);
    pool.flush().unwrap();
    assert_eq!(pool.committed_id(), deposed.primary.committed_id());
    assert_eq!(content(pool), content(&deposed.primary));
    pool.check_heap().unwrap();
}

#[test]
fn longer_log_is_dropped() {
    for medium in [Medium::File, EMULATED] {
        let deposed = deposed(medium, 150);
        let rejoining = options().rejoining(deposed.last);
        let pool = Pool::open(&deposed.path, rejoining.clone()).unwrap();
        let refused = pool.run(|tx| tx.alloc(1_u64)).unwrap_err();
        assert!(matches!(refused, Error::Replication(ReplicationError::Following)), "{refused}");
        pool.abandon();
        // Dropped for good: neither a second such opening nor any other finds it.
        let pool = Pool::open(&deposed.path, rejoining).unwrap();
        assert_eq!(pool.committed_id(), deposed.last);
        pool.abandon();
        let pool = Pool::open(&deposed.path, options().following(true)).unwrap();
        follow(&pool, &deposed);
        pool.abandon();
        let pool = Pool::open(&deposed.path, options().following(true)).unwrap();
        assert_eq!(content(&pool), content(&deposed.primary));
        pool.close().unwrap();
        lastword::check(&deposed.path).unwrap().sound().unwrap();
    }
}

#[test]
fn equal_log_is_kept() {
    let deposed = deposed(Medium::File, 0);
    // Beyond the end of the log, too.
    let rejoining = options().rejoining(TxId(deposed.longer.0 + 1000));
    let pool = Pool::open(&deposed.path, rejoining).unwrap();
    follow(&pool, &deposed);
    pool.close().unwrap();
    // After a clean shutdown the log is empty.
    let rejoining = options().rejoining(deposed.primary.committed_id());
    let pool = Pool::open(&deposed.path, rejoining).unwrap();
    assert_eq!(content(&pool), content(&deposed.primary));
}

#[test]
fn heap_image_ahead_of_stream_is_refused() {
    let deposed = deposed(Medium::File, 50);
    // An ordinary opening applies the whole log.
    Pool::open(&deposed.path, options()).unwrap().abandon();
    let error = Pool::open(&deposed.path, options().rejoining(deposed.last)).unwrap_err();
    let Error::Replication(ReplicationError::Ahead { reproduced, last }) = error else {
        panic!("{error}")
    };
    assert_eq!((reproduced, last), (deposed.longer, deposed.last));
}

#[test]
fn part_of_group_is_not_dropped() {
    for medium in [Medium::File, EMULATED] {
        let deposed = deposed(medium, 50);
        let mut groups = Vec::new();
        let log = read_log(&deposed.path, |group| {
            groups.push((group.first, group.last));
            Ok(())
        });
        assert_eq!(log.unwrap().last, deposed.longer);
        let (first, last) = *groups.iter().find(|(first, last)| first < last).expect("a group");
        let error = Pool::open(&deposed.path, options().rejoining(first)).unwrap_err();
        let Error::Replication(ReplicationError::Inside { first: found, last_of_group, kept }) =
            error
        else {
            panic!("{error}")
        };
        assert_eq!((found, last_of_group, kept), (first, last, first));
        // Nothing has changed.
        assert_eq!(read_log(&deposed.path, |_| Ok(())).unwrap().last, deposed.longer);
        let pool = Pool::open(&deposed.path, options().rejoining(deposed.last)).unwrap();
        follow(&pool, &deposed);
    }
}

#[test]
fn other_calls_refuse_to_rejoin() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let rejoining = options().rejoining(TxId(u64::MAX));
    let refused = |error: Error| matches!(error, Error::BadOption { option: "rejoining", .. });
    assert!(refused(Pool::create(&path, rejoining.clone()).unwrap_err()));
    let pool = Pool::<Undo>::create_as(&path, options().background(false)).unwrap();
    let _ = pool.run(|tx| tx.alloc(1_u64)).unwrap();
    pool.abandon();
    assert!(refused(Pool::open(&path, rejoining.clone()).unwrap_err()));
    // The last of these calls counts.
    let pool = Pool::open(&path, rejoining.following(false)).unwrap();
    let _ = pool.run(|tx| tx.alloc(1_u64)).unwrap();
}

fn copy_of(from: &Path, to: &Path) {
    for suffix in ["", ".log"] {
        let with = |path: &Path| crate::names::with_suffix(path, suffix);
        std::fs::copy(with(from), with(to)).unwrap();
    }
}

/// The process ends at each call of the opening. The same opening, again, has the same result.
#[test]
fn interrupted_rejoining_is_repeated() {
    let deposed = deposed(Medium::File, 50);
    let copy = deposed.path.with_file_name("copy.pool");
    let (mut kept, mut dropped) = (0, 0);
    for nth in 0.. {
        copy_of(&deposed.path, &copy);
        let faults = Faults::nth(nth, Fault::Io, true);
        let system = System::kernel().failing(faults.clone());
        let rejoining = options().rejoining(deposed.last).background(false);
        let opened = Pool::open(&copy, rejoining.clone().system(system));
        let is_over = opened.is_ok();
        if let Ok(pool) = opened {
            pool.abandon();
        }
        let log = read_log(&copy, |_| Ok(())).unwrap();
        match log.last {
            last if last == deposed.longer => kept += 1,
            last if last == deposed.last => dropped += 1,
            last => panic!("{last}"),
        }
        let pool = Pool::open(&copy, rejoining).unwrap();
        assert_eq!(pool.committed_id(), deposed.last);
        assert_eq!(content(&pool), deposed.content);
        pool.abandon();
        if is_over {
            break;
        }
    }
    assert!(kept > 2 && dropped > 2, "{kept} {dropped}");
}
