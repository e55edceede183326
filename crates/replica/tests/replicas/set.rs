//! A primary, copies of its pool, and a stream that can fail.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lastword::collections::HashMap;
use lastword::{Options, Pool, TxId};
use replica::{Follower, Link, LogStream, MemoryStream, Primary, ReadStream, StreamError};

/// Time for a step that other threads make soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A stream in memory whose appends fail while it is cut off, or lose their replies by chance.
#[derive(Clone)]
pub(crate) struct Net {
    pub(crate) stream: MemoryStream,
    cut: Arc<AtomicBool>,
    /// The chance of a lost reply, and of a lost request, in 256.
    losses: Arc<AtomicU64>,
    random: Arc<AtomicU64>,
    /// Appends that are let through before the cut.
    left: Arc<AtomicU64>,
}

impl Net {
    pub(crate) fn new(stream: MemoryStream) -> Net {
        Net {
            stream,
            cut: Arc::default(),
            losses: Arc::default(),
            random: Arc::new(AtomicU64::new(7)),
            left: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// Cuts the writer off from the stream, or connects it again.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    /// Cuts the writer off after so many appends.
    pub(crate) fn cut_after(&self, appends: u64) {
        self.left.store(appends, Ordering::SeqCst);
    }

    /// Loses replies and requests with this chance in 256.
    pub(crate) fn lose(&self, chance: u64) {
        self.losses.store(chance, Ordering::SeqCst);
    }

    fn loses(&self) -> bool {
        let step = |random: u64| Some(random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(5));
        let random = self.random.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap();
        random >> 56 < self.losses.load(Ordering::SeqCst)
    }
}

impl LogStream for Net {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err()
        {
            self.cut(true);
            self.left.store(u64::MAX, Ordering::SeqCst);
        }
        if self.cut.load(Ordering::SeqCst) {
            return Err(StreamError::Unreachable("cut off".into()));
        }
        let unknown = || StreamError::Unknown { after, why: "lost".into() };
        if self.loses() {
            return Err(unknown());
        }
        let appended = self.stream.append(after, message);
        if self.loses() { Err(unknown()) } else { appended }
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        self.stream.bounds()
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        self.stream.get(position)
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        self.stream.read_from(after)
    }

    fn message_bytes_max(&self) -> usize {
        self.stream.message_bytes_max()
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        self.stream.warnings()
    }
}

/// Pools in a directory: `0` is the first primary, the others are backups of it.
pub(crate) struct Set {
    dir: tempfile::TempDir,
    pub(crate) stream: MemoryStream,
    /// The network between the primary and the stream.
    pub(crate) net: Net,
    pub(crate) primary: Link,
    /// For all others.
    pub(crate) link: Link,
}

pub(crate) fn options() -> Options {
    Options::new().bytes(4 << 20).log_bytes(4 << 20).patience(Duration::from_secs(5))
}

impl Set {
    /// Creates a pool with a map, and so many copies.
    pub(crate) fn new(stream: MemoryStream, copies: usize) -> Set {
        let dir = tempfile::tempdir().unwrap();
        let net = Net::new(stream.clone());
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
        Primary::open(self.path(number), options(), &self.primary).unwrap()
    }

    pub(crate) fn follow(&self, number: usize) -> Follower {
        Follower::open(self.path(number), options(), &self.link).unwrap()
    }

    /// Returns the messages of the stream, decoded.
    pub(crate) fn messages(&self) -> Vec<replica::message::Message> {
        let (first, last) = self.stream.bounds().unwrap();
        let get = |at| self.stream.get(at).unwrap().unwrap();
        (first..=last).map(|at| replica::message::Message::decode(&get(at)).unwrap()).collect()
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
