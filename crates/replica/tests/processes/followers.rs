//! Followers in processes of their own, which are killed inside groups of many parts.
//!
//! Each transaction writes one text, that of its number, to all keys. So the content of a pool
//! shows which transaction was the last, and whether it was applied as a whole.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lastword::collections::HashMap;
use lastword::{Options, Pool, TxId};
use replica::message::{Kind, Message};
use replica::{DirectoryStream, Follower, Link, LogStream, Primary, ReadStream, StreamError};
use rustix::process::Signal;

use crate::{POOL, Running, SOON, STREAM, cluster, count, link, options};

const KEYS: u64 = 40;

/// A slow stream with messages so small that each transaction needs several. So its readers are
/// mostly inside of a group.
struct SmallMessages(DirectoryStream);

impl LogStream for SmallMessages {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        std::thread::sleep(Duration::from_millis(1));
        self.0.append(after, message)
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        self.0.bounds()
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        self.0.get(position)
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        self.0.read_from(after)
    }

    fn message_bytes_max(&self) -> usize {
        2000
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        self.0.warnings()
    }
}

/// The program of a child process: follows, and prints the position of each message that it has
/// read. Does nothing in the parent.
#[test]
fn follower_process() {
    let (Ok(pool), Ok(url)) = (std::env::var(POOL), std::env::var(STREAM)) else { return };
    let follower = Follower::open(pool, options(), &link(&url)).unwrap();
    let mut shown = 0;
    loop {
        follower.check().unwrap();
        let position = follower.status().position;
        if position != shown {
            println!("place {position}");
            shown = position;
        }
    }
}

fn texts(pool: &Pool) -> HashMap<u64, str> {
    pool.hash_map("texts").unwrap()
}

/// Returns a text that does not compress.
fn text_of(number: usize) -> String {
    let mut random = number as u64;
    let mut next = || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405);
        char::from(b'!' + (random >> 40) as u8 % 90)
    };
    (0..200).map(|_| next()).collect()
}

/// Commits the next numbers until another thread requests the end, and notes their IDs.
fn write(pool: &Pool, ids: &mut Vec<TxId>, is_over: &AtomicBool) {
    let texts = texts(pool);
    while !is_over.load(Ordering::SeqCst) {
        let text = text_of(ids.len());
        let done = pool
            .run(|tx| (0..KEYS).try_for_each(|key| texts.insert(tx, key, text.as_str()).map(drop)));
        ids.push(done.unwrap().ticket.id());
        // Some transactions share a group.
        if ids.len().is_multiple_of(4) {
            pool.wait_replicated(ids[ids.len() - 1]).unwrap();
        }
    }
}

/// Checks that the pool has the content of the primary after the pool's last transaction.
fn check_content(pool: &Pool, ids: &[TxId]) {
    let last = pool.committed_id();
    let texts = texts(pool);
    let read = pool.run(|tx| texts.iter(tx).collect::<Result<Vec<(u64, String)>, _>>());
    let mut found = read.unwrap().value;
    found.sort_unstable();
    let expected = ids.partition_point(|id| *id <= last).checked_sub(1).map(text_of);
    let expected: Vec<_> =
        expected.map(|text| (0..KEYS).map(|key| (key, text.clone())).collect()).unwrap_or_default();
    assert_eq!(found, expected, "the content after transaction {last}");
    pool.check_heap().unwrap();
}

/// Opens the pool without the stream, as the kill has left it. Returns whether it ends inside a
/// group of the stream.
fn check_killed(path: &Path, ids: &[TxId], groups: &[(TxId, TxId)]) -> bool {
    let pool = Pool::open(path, Options::new().following(true)).unwrap();
    check_content(&pool, ids);
    let last = pool.committed_id();
    pool.close().unwrap();
    groups.iter().any(|(first, end)| *first <= last && last < *end)
}

/// Returns the first and last transactions of the stream's groups, and whether the message at a
/// position is followed by another part of its group.
fn look(stream: &dyn LogStream, position: u64) -> (Vec<(TxId, TxId)>, bool) {
    let (mut groups, mut is_inside) = (Vec::new(), false);
    for at in 1..=stream.bounds().unwrap().1 {
        let message = Message::decode(&stream.get(at).unwrap().unwrap()).unwrap();
        if let Kind::Part { part, parts, first, last, .. } = message.kind {
            groups.push((first, last));
            is_inside |= at == position && part + 1 < parts;
        }
    }
    (groups, is_inside)
}

/// Rounds of: the primary commits, a follower in another process is killed, and its pool is opened
/// as that left it, and as a follower again.
#[test]
fn follower_killed_inside_group_continues() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("a.pool"), dir.path().join("b.pool")];
    let pool = Pool::create(&paths[0], options()).unwrap();
    let _ = texts(&pool);
    pool.backup(&paths[1]).unwrap();
    pool.close().unwrap();
    let path = dir.path().join("stream");
    let url = format!("dir:{}", path.display());
    let small = Link::new(SmallMessages(DirectoryStream::create(&path).unwrap())).patience(SOON);
    let primary = Primary::begin(&paths[0], options(), &small).unwrap();
    let link = link(&url);
    let (mut ids, mut random) = (Vec::new(), 0x9e37_79b9_u64);
    let (mut between_parts, mut between_transactions) = (0, 0);
    let rounds = count(16);
    for _ in 0..rounds {
        let is_over = AtomicBool::new(false);
        let place = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(primary.pool(), &mut ids, &is_over));
            let running =
                Running::program("followers::follower_process", "place ", &paths[1], &url);
            cluster::wait_for("place", || (running.acknowledged() > 0).then_some(()));
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((random >> 40) % 30_000));
            running.signal(Signal::KILL);
            is_over.store(true, Ordering::SeqCst);
            writer.join().unwrap();
            running.join()
        });
        let (groups, is_inside) = look(&**link.stream(), place);
        between_parts += u64::from(is_inside);
        between_transactions += u64::from(check_killed(&paths[1], &ids, &groups));
        let last = primary.pool().committed_id();
        primary.pool().wait_replicated(last).unwrap();
        let follower = Follower::open(&paths[1], options(), &link).unwrap();
        follower.wait_for(last, SOON).unwrap();
        assert_eq!(follower.pool().committed_id(), last);
        check_content(follower.pool(), &ids);
        follower.close().unwrap();
    }
    eprintln!(
        "{rounds} kills: {between_parts} between parts of a group, {between_transactions} between \
         its transactions"
    );
    assert!(between_parts > 0, "no kill was inside a group");
}
