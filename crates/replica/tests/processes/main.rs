//! Primaries in processes of their own, which are killed or stopped while they commit, and
//! followers that are promoted.
//!
//! A round: a child process opens a pool as the primary, and prints each transaction that is
//! replicated. The parent follows it, ends the child by SIGKILL or stops it by SIGSTOP, and
//! promotes the follower. In the next round the two pools change places, so the old primary
//! rejoins. `followers` kills followers instead.
//!
//! `LASTWORD_ROUNDS=100` runs that many rounds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../nats/cluster.rs"]
#[allow(dead_code, reason = "the tests of NATS use the rest")]
mod cluster;
mod followers;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lastword::{Options, Pool};
use replica::message::{Kind, Message};
use replica::{Follower, Link, LogStream, Primary};
use rustix::process::{Pid, Signal, kill_process};

const POOL: &str = "LASTWORD_TEST_POOL";
const STREAM: &str = "LASTWORD_TEST_STREAM";
const SOON: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).patience(SOON)
}

fn link(url: &str) -> Link {
    Link::shared(Arc::from(replica::stream::open(url).unwrap())).patience(SOON)
}

/// The program of a child process: counts, and prints each number that is replicated. Does nothing
/// in the parent.
#[test]
fn primary_process() {
    let (Ok(pool), Ok(url)) = (std::env::var(POOL), std::env::var(STREAM)) else { return };
    let link = link(&url);
    let open = match link.stream().bounds().unwrap() {
        (_, 0) => Primary::begin(pool, options(), &link),
        _ => Primary::open(pool, options(), &link),
    };
    let primary = open.unwrap();
    let counter = primary.pool().hash_map::<u64, u64>("counter").unwrap();
    loop {
        let done = primary.pool().run(|tx| {
            let next = counter.get(tx, 0)?.unwrap_or(0) + 1;
            counter.insert(tx, 0, next)?;
            Ok(next)
        });
        let Ok(done) = done else { return };
        if done.ticket.wait_replicated().is_err() {
            return;
        }
        println!("acknowledged {}", done.value);
    }
}

/// A child, and the last number that it has acknowledged.
struct Running {
    child: Child,
    acknowledged: Arc<AtomicU64>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(pool: &Path, url: &str) -> Running {
        Running::program("primary_process", "acknowledged ", pool, url)
    }

    /// Starts a test as a child, and reads the number of each line with this prefix.
    fn program(name: &str, prefix: &'static str, pool: &Path, url: &str) -> Running {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture"]).env(POOL, pool);
        command.env(STREAM, url).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let last = Arc::clone(&acknowledged);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // A line that the kill has cut has no newline, and may lack digits.
                let number = line.strip_prefix(prefix).and_then(|text| text.parse().ok());
                let _ = number.map(|number| last.fetch_max(number, Ordering::SeqCst));
            }
        });
        Running { child, acknowledged, reader: Some(reader) }
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the child. Returns the last number of its output.
    fn join(mut self) -> u64 {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < SOON, "a deposed primary does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.reader.take().unwrap().join().unwrap();
        self.acknowledged()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rounds(url: &str, count: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = [dir.path().join("a.pool"), dir.path().join("b.pool")];
    let pool = Pool::create(&paths[0], options()).unwrap();
    pool.hash_map::<u64, u64>("counter").unwrap();
    pool.backup(&paths[1]).unwrap();
    pool.close().unwrap();
    let link = link(url);
    let (mut random, mut promotions) = (0x9e37_79b9_u64, Vec::new());
    for round in 0..count {
        let running = Running::start(&paths[0], url);
        cluster::wait_for("acknowledgement", || (running.acknowledged() > 0).then_some(()));
        let follower = Follower::open(&paths[1], options(), &link).unwrap();
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((random >> 40) % 50_000));
        let is_stopped = round % 2 == 0;
        running.signal(if is_stopped { Signal::STOP } else { Signal::KILL });
        let begun = Instant::now();
        let new = follower.promote().unwrap();
        promotions.push(begun.elapsed());
        if is_stopped {
            running.signal(Signal::CONT);
        }
        let acknowledged = running.join();
        let counter = new.pool().hash_map::<u64, u64>("counter").unwrap();
        let found = new.pool().run(|tx| counter.get(tx, 0)).unwrap().value.unwrap_or(0);
        assert!(
            found >= acknowledged,
            "round {round}: {acknowledged} was acknowledged, {found} is there"
        );
        new.confirm().unwrap();
        new.close().unwrap();
        paths.swap(0, 1);
    }
    promotions.sort_unstable();
    let (median, most) = (promotions[promotions.len() / 2], promotions[promotions.len() - 1]);
    let _ = writeln!(
        std::io::stderr(),
        "{count} promotions: {median:.0?} in the median, {most:.0?} at most"
    );
    check_terms(&**link.stream());
}

/// No message of an ended term stands behind the next one, and no transaction is missing or twice.
fn check_terms(stream: &dyn LogStream) {
    let (first, last) = stream.bounds().unwrap();
    let (mut term, mut complete) = (0, None);
    for at in first..=last {
        let message = Message::decode(&stream.get(at).unwrap().unwrap()).unwrap();
        let is_next = matches!(message.kind, Kind::Term { .. });
        assert_eq!(message.term.number, term + u64::from(is_next), "message {at}");
        term = message.term.number;
        assert!(complete.is_none_or(|id| id == message.complete_before()), "message {at}");
        complete = Some(message.complete());
    }
}

fn count(default: u64) -> u64 {
    std::env::var("LASTWORD_ROUNDS").map_or(default, |text| text.parse().unwrap())
}

#[test]
fn killed_and_stopped_primaries_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("dir:{}", dir.path().join("stream").display());
    replica::stream::create(&url).unwrap();
    rounds(&url, count(10));
}

#[test]
fn primaries_of_a_cluster_are_replaced() {
    let Some(cluster) = cluster::Cluster::start("primaries_of_a_cluster_are_replaced", 3) else {
        return;
    };
    let (url, _) = cluster.create();
    rounds(&url, count(6));
}
