//! Kills a writing process repeatedly and verifies that its acknowledged transactions survive.
//!
//! In each round a writer runs a workload on the pool of the round before, and is killed after a
//! random number of messages. In every other round further processes then open the pool and are
//! killed while they open or recover it:
//!
//! ```text
//!   start | read, check | heap written | log's head | superblock | shadow loaded | end
//!         `--- before: no byte changed `-- in recovery -----------`-- opened
//! ```
//!
//! At the end of a round this process opens the pool and verifies it. Pools and logs are small, so
//! that the logs wrap often.
//!
//! | variable | meaning |
//! |---|---|
//! | `LASTWORD_KILL_ROUNDS` | number of rounds |
//! | `LASTWORD_SEED` | seed of the random choices, printed by each run |
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/kill_round.rs"]
#[allow(dead_code, reason = "the program's signals use the rest")]
mod kill_round;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kill_round::{Ended, Outcome, When, kill, look};
use lastword::{Erased, Options, Pool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use workloads::Kind;

/// File offset of the heap image.
const HEAP_OFFSET: usize = 2 << 20;

/// Bytes of both copies of the log's head.
const LOG_HEAD_BYTES: usize = 8192;

/// Size of the log, so small that it wraps dozens of times.
const LOG_BYTES: u64 = 256 << 10;

/// Default number of rounds over all pools.
const ROUNDS: usize = 20;

/// Rounds of a pool per round in which recovery is killed too.
const RECOVERY: usize = 2;

/// Most recoveries that are killed in a row.
const RECOVERIES: usize = 6;

/// Rounds from which a run must have killed at least one recovery before its end.
const ENOUGH: usize = 100;

/// Serializes the tests. A child forked by one test holds the other's open files and their locks
/// until it executes its program.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the number in an environment variable.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect(name))
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = given("LASTWORD_SEED").unwrap_or(now.into());
    println!("LASTWORD_SEED={seed}");
    seed
}

fn options() -> Options {
    Options::new().log_bytes(LOG_BYTES)
}

fn new_pool(kind: Kind, path: &Path) {
    let small = workloads::Options { scale: 0.01, ..workloads::Options::default() };
    let pool = Pool::create(path, options().bytes(kind.heap_bytes(&small))).unwrap();
    kind.load(&mut Erased::any(&mut pool.worker().unwrap()), &small).unwrap();
    pool.close().unwrap();
}

/// Observed outcomes.
#[derive(Debug, Default)]
struct Seen {
    survived: usize,
    lost: usize,
    /// Processes killed while they opened a pool, by [`Stage`].
    stages: [usize; 3],
    wraps: u64,
}

/// Progress of a process when it was killed while it opened a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Before,
    InRecovery,
    Opened,
}

/// Contents that recovery writes: the heap image, then the log's head, then the superblock with the
/// generation.
#[derive(PartialEq, Eq)]
struct Written {
    generation: u64,
    heap: Vec<u8>,
    log_head: Vec<u8>,
}

impl Written {
    fn of(path: &Path) -> Written {
        let generation = lastword::inspect(path).unwrap().generation;
        let heap = std::fs::read(path).unwrap().split_off(HEAP_OFFSET);
        // A log in the pool's own file has no head.
        let mut log_head = std::fs::read(path.with_added_extension("log")).unwrap_or_default();
        log_head.truncate(LOG_HEAD_BYTES);
        Written { generation, heap, log_head }
    }

    fn stage(&self, after: &Written) -> Stage {
        match (self.generation == after.generation, self == after) {
            (false, _) => Stage::Opened,
            (true, false) => Stage::InRecovery,
            (true, true) => Stage::Before,
        }
    }
}

fn kill_writer(path: &Path, arguments: &[&str], when: When) -> Ended {
    kill(Path::new(env!("CARGO_BIN_EXE_lastword")), path, arguments, when).unwrap()
}

/// Kills a writer and returns the messages that it had sent. Panics if it ended by itself.
fn killed(path: &Path, arguments: &[&str], when: When) -> kill_round::Seen {
    match kill_writer(path, arguments, when) {
        Ended::Killed(reported) => reported,
        Ended::ByItself(status) => panic!("the writer ended by itself: {status}"),
    }
}

/// Recovers a pool whose writer was killed, and expects that no acknowledged transaction is lost.
fn recover(kind: Kind, path: &Path, reported: &kill_round::Seen) -> Outcome {
    // Recovery must find the same transactions as a check, which changes nothing.
    let checked = lastword::check(path).and_then(lastword::Report::sound).unwrap();
    assert!(checked.needs_recovery);
    let pool = Pool::open(path, options()).unwrap();
    assert_eq!(pool.committed_id(), checked.durable_id);
    let outcome = look(kind, &pool, &workloads::Options::default(), reported).unwrap().unwrap();
    assert_eq!(outcome.lost_acknowledged, 0, "{outcome:?}");
    assert_eq!(outcome.violations, [], "{outcome:?}");
    pool.close().unwrap();
    outcome
}

fn kind(name: &str) -> Kind {
    Kind::by_name(name).unwrap()
}

/// Delay before a process that opens a pool is killed. Each kill adjusts it towards recovery, which
/// takes about a millisecond.
struct Aim(Duration);

impl Aim {
    /// Starts a process that opens and recovers the pool, and kills it. Returns its progress.
    fn kill(&mut self, path: &Path, rng: &mut StdRng) -> Stage {
        let before = Written::of(path);
        let pause = self.0.mul_f64(rng.random_range(0.7..1.3));
        let stage = match kill_writer(path, &["--only-open"], When { messages: 0, pause }) {
            Ended::Killed(_) => before.stage(&Written::of(path)),
            Ended::ByItself(status) => {
                assert!(status.success(), "{status}");
                Stage::Opened
            }
        };
        match stage {
            Stage::Before => self.0 = self.0.mul_f64(1.1),
            Stage::InRecovery => {}
            Stage::Opened => self.0 = self.0.mul_f64(0.9),
        }
        stage
    }
}

/// Returns the duration of a process that opens a pool and ends.
fn time_of_opening(path: &Path) -> Duration {
    let start = Instant::now();
    let mut opening = Command::new(env!("CARGO_BIN_EXE_lastword"));
    let status = opening.arg("kill-writer").arg(path).arg("--only-open").status().unwrap();
    assert!(status.success(), "{status}");
    start.elapsed()
}

#[test]
fn acknowledged_transfers_survive_repeated_kills() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(seed());
    let mut seen = Seen::default();
    let bank = kind("bank");
    let pools = [("async", "1"), ("async", "4"), ("sync", "1"), ("sync", "4")];
    let place = |(durability, threads): (&str, &str)| {
        dir.path().join(format!("{durability}-{threads}.pool"))
    };
    pools.iter().for_each(|&pool| new_pool(bank, &place(pool)));
    let mut aim = Aim(time_of_opening(&place(pools[0])) / 2);
    let rounds = given("LASTWORD_KILL_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    for round in 0..rounds {
        let pool @ (durability, threads) = pools[round % pools.len()];
        let path = place(pool);
        let most = if durability == "async" { 4000 } else { 60 };
        let when = When { messages: rng.random_range(1..most), pause: Duration::ZERO };
        let arguments = ["--durability", durability, "--threads", threads];
        let reported = killed(&path, &arguments, when);
        if (round / pools.len()).is_multiple_of(RECOVERY) {
            for _ in 0..RECOVERIES {
                let stage = aim.kill(&path, &mut rng);
                seen.stages[stage as usize] += 1;
                if stage == Stage::Opened {
                    // The pool is recovered, so another process would find nothing to recover.
                    break;
                }
            }
        }
        let outcome = recover(bank, &path, &reported);
        println!("{durability}, {threads} workers, round {round}, {when:?}: {outcome:?}");
        assert!(durability == "async" || outcome.lost == 0, "sync mode lost a commit");
        seen.survived += usize::from(outcome.survived > 0);
        seen.lost += usize::from(outcome.lost > 0);
        // A transfer takes at least 80 bytes of the log: a mark, three heads and seven words.
        seen.wraps += outcome.recovered * 80 / LOG_BYTES;
    }
    println!("{rounds} rounds: {seen:?}");
    // Coverage: a run without one of these outcomes has not tested crashes.
    assert!(seen.survived > 0, "no transfer survived without being acknowledged: {seen:?}");
    assert!(seen.lost > 0, "no transfer that was committed was lost: {seen:?}");
    assert!(seen.wraps >= 10, "the logs did not wrap: {seen:?}");
    let [before, in_recovery, opened] = seen.stages;
    assert!(before + in_recovery + opened > 0, "no process was killed while opening: {seen:?}");
    assert!(rounds < ENOUGH || in_recovery > 0, "no recovery was killed: {seen:?}");
}

/// Checks the consistency conditions of the TPC-C specification after every kill.
fn orders_survive(name: &str) {
    let kind = kind(name);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.pool");
    new_pool(kind, &path);
    let mut rng = StdRng::seed_from_u64(seed());
    let (mut acknowledged, mut survived) = (0, 0);
    let rounds = given("LASTWORD_KILL_ROUNDS").unwrap_or(4);
    for round in 0..rounds {
        let (durability, most) = [("async", 400), ("sync", 40)][round as usize % 2];
        let when = When { messages: rng.random_range(1..most), pause: Duration::ZERO };
        let reported = killed(&path, &["--durability", durability, "--threads", "2"], when);
        let outcome = recover(kind, &path, &reported);
        println!("{name}, {durability}, round {round}, {when:?}: {outcome:?}");
        assert!(durability == "async" || outcome.lost == 0, "sync mode lost a commit");
        acknowledged += outcome.acknowledged;
        survived += outcome.survived;
    }
    assert!(acknowledged > 0, "no order was acknowledged");
    assert!(survived > 0, "no order survived without being acknowledged");
}

#[test]
fn tpcc_is_consistent_after_kills() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    orders_survive("tpcc-hash");
    orders_survive("tpcc-btree");
}
