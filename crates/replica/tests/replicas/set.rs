//! A primary, copies of its pool, and a stream that can fail.

use std::path::PathBuf;
use std::time::Duration;

use lastword::collections::HashMap;
use lastword::replication::read_log;
use lastword::{Options, Pool, TxId};
use replica::message::{Kind, Message, Term, Writer};
use replica::{End, Faults, FaultyStream, Follower, Link, LogStream, MemoryStream, Primary};

/// Time for a step that other threads make soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Pools in a directory: `0` is the first primary, the others are backups of it.
pub(crate) struct Set {
    dir: tempfile::TempDir,
    pub(crate) stream: MemoryStream,
    /// The stream as the primary sees it.
    pub(crate) net: FaultyStream,
    pub(crate) primary: Link,
    /// The link of followers and of new primaries, without faults.
    pub(crate) link: Link,
}

pub(crate) fn options() -> Options {
    Options::new().bytes(4 << 20).log_bytes(4 << 20).patience(Duration::from_secs(5))
}

impl Set {
    /// Creates a pool with a map, and `copies` backups of it.
    pub(crate) fn new(stream: MemoryStream, copies: usize) -> Set {
        let dir = tempfile::tempdir().unwrap();
        let net = FaultyStream::new(stream.clone(), Faults::default());
        let (primary, link) = (Link::new(net.clone()), Link::new(stream.clone()));
        let set = Set { dir, net, primary: primary.patience(SOON), link, stream };
        let pool = Pool::create(set.path(0), options()).unwrap();
        map(&pool);
        for copy in 1..=copies {
            pool.backup(set.path(copy)).unwrap();
        }
        pool.close().unwrap();
        set
    }

    pub(crate) fn path(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("{number}.pool"))
    }

    /// Opens a pool as the primary behind the network.
    pub(crate) fn open(&self, number: usize) -> Primary {
        let opened = match self.stream.bounds().unwrap() {
            (_, 0) => Primary::begin(self.path(number), options(), &self.primary),
            _ => Primary::open(self.path(number), options(), &self.primary),
        };
        opened.unwrap()
    }

    /// Opens a pool as the primary, and makes some messages.
    pub(crate) fn open_with_messages(&self, number: usize) -> Primary {
        let primary = self.open(number);
        for seed in 0..20 {
            let last = change(primary.pool(), seed, 5);
            primary.pool().wait_replicated(last).unwrap();
        }
        primary
    }

    pub(crate) fn follow(&self, number: usize) -> Follower {
        Follower::open(self.path(number), options(), &self.link).unwrap()
    }

    /// Appends the message with which a promotion of this closed pool begins its term, and nothing
    /// after it.
    pub(crate) fn begin_term_of(&self, number: usize) {
        let log = read_log(self.path(number), |_| Ok(())).unwrap();
        let writer = Writer { pool: log.writer.0, generation: log.writer.1 + 1 };
        let end = End::of(&self.stream).unwrap().unwrap();
        let term = Term { number: end.term.number + 1, at: end.position + 1, writer };
        let kind = Kind::Term { last: end.complete, previous: Some(end.term) };
        let message = Message { term, total_bytes: end.total_bytes, sent: end.sent, kind };
        self.stream.append(end.position, &message.encode()).unwrap();
    }

    /// Returns the messages of the stream, decoded.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let (first, last) = self.stream.bounds().unwrap();
        let get = |at| self.stream.get(at).unwrap().unwrap();
        (first..=last).map(|at| Message::decode(&get(at)).unwrap()).collect()
    }
}

pub(crate) fn map(pool: &Pool) -> HashMap<u64, str> {
    pool.hash_map("texts").unwrap()
}

/// Runs random changes of the map. The texts do not compress.
pub(crate) fn change(pool: &Pool, seed: u64, count: u64) -> TxId {
    let map = map(pool);
    let mut random = seed;
    let mut next = move || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405);
        random >> 33
    };
    let mut last = pool.committed_id();
    for _ in 0..count {
        let (key, length) = (next() % 200, (next() % 300) as usize);
        let text: String = (0..length).map(|_| char::from(b'!' + (next() % 90) as u8)).collect();
        let done = pool.run(|tx| match length % 3 {
            0 => map.remove(tx, key).map(drop),
            _ => map.insert(tx, key, text.as_str()).map(drop),
        });
        last = done.unwrap().ticket.id();
    }
    last
}

pub(crate) fn content(pool: &Pool) -> Vec<(u64, String)> {
    let map = map(pool);
    let pairs = pool.run(|tx| map.iter(tx).collect::<Result<Vec<(u64, String)>, _>>());
    let mut pairs = pairs.unwrap().value;
    pairs.sort_unstable();
    pairs
}

/// Waits until the follower has the transactions of the pool, and compares them.
pub(crate) fn assert_equal(follower: &Follower, pool: &Pool) {
    let last = pool.committed_id();
    pool.wait_replicated(last).unwrap();
    follower.wait_for(last, SOON).unwrap();
    assert_eq!(follower.pool().committed_id(), last);
    assert_eq!(content(follower.pool()), content(pool));
}
