//! Kills a process that writes, again and again, and looks whether what it had acknowledged is
//! there.
//!
//! A round: a writer runs a workload on the pool of the round before, and is killed after a number
//! of messages drawn at random. In every other round further processes then open the pool and are
//! killed while they open or recover it:
//!
//! ```text
//!   start | read, check | home written | log's head | superblock | shadow loaded | end
//!         `--- before: no byte changed `-- in recovery -----------`-- opened
//! ```
//!
//! Then this process opens it and looks. Pools and logs are small, so that a log goes round many
//! times. `LASTWORD_KILL_ROUNDS` says how many rounds there are, `LASTWORD_SEED` repeats their
//! draws.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/kill_round.rs"]
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

/// Where the heap begins in the pool's file.
const HEAP_OFFSET: usize = 2 << 20;

/// Bytes of the log's head, both copies.
const LOG_HEAD_BYTES: usize = 8192;

/// Small: it goes round dozens of times.
const LOG_BYTES: u64 = 256 << 10;

/// Rounds when nothing is said, over all pools.
const ROUNDS: usize = 20;

/// In one of so many rounds of a pool its recovery is killed too,
const RECOVERY: usize = 2;

/// at most so often in a row.
const RECOVERIES: usize = 6;

/// From so many rounds on, one that has killed no recovery in its midst has not aimed at it.
const ENOUGH: usize = 100;

/// One test at a time: a process that another one forks holds this one's files, locks included,
/// until it executes its program.
static ALONE: Mutex<()> = Mutex::new(());

/// A number that the environment gives.
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

/// How often each outcome was seen.
#[derive(Debug, Default)]
struct Seen {
    survived: usize,
    lost: usize,
    /// Of processes that were killed while they opened a pool.
    stages: [usize; 3],
    laps: u64,
}

/// How far a process came that was killed while it opened a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Before,
    InRecovery,
    Opened,
}

/// What recovery writes: the superblock's generation last, home and the log's head before it.
#[derive(PartialEq, Eq)]
struct Mark {
    generation: u64,
    home: Vec<u8>,
    log_head: Vec<u8>,
}

impl Mark {
    fn of(path: &Path) -> Mark {
        let generation = lastword::inspect(path).unwrap().generation;
        let home = std::fs::read(path).unwrap().split_off(HEAP_OFFSET);
        // Where the log is in the pool's own file it has no head.
        let mut log_head = std::fs::read(path.with_added_extension("log")).unwrap_or_default();
        log_head.truncate(LOG_HEAD_BYTES);
        Mark { generation, home, log_head }
    }

    fn stage(&self, after: &Mark) -> Stage {
        match (self.generation == after.generation, self == after) {
            (false, _) => Stage::Opened,
            (true, false) => Stage::InRecovery,
            (true, true) => Stage::Before,
        }
    }
}

/// Runs a writer and kills it.
fn kill_writer(path: &Path, arguments: &[&str], when: When) -> Ended {
    kill(Path::new(env!("CARGO_BIN_EXE_lastword")), path, arguments, when).unwrap()
}

/// What a writer had said that was killed.
fn killed(path: &Path, arguments: &[&str], when: When) -> kill_round::Seen {
    match kill_writer(path, arguments, when) {
        Ended::Killed(said) => said,
        Ended::ByItself(status) => panic!("the writer ended by itself: {status}"),
    }
}

/// Looks at a pool whose writer was killed: what it found holds.
fn recover(kind: Kind, path: &Path, said: &kill_round::Seen) -> Outcome {
    // What a look finds without changing anything, recovery must find too.
    let checked = lastword::check(path).and_then(lastword::Report::sound).unwrap();
    assert!(checked.needs_recovery);
    let pool = Pool::open(path, options()).unwrap();
    assert_eq!(pool.committed_id(), checked.durable_id);
    let outcome = look(kind, &pool, &workloads::Options::default(), said).unwrap().unwrap();
    assert_eq!(outcome.lost_acknowledged, 0, "{outcome:?}");
    assert_eq!(outcome.violations, [], "{outcome:?}");
    pool.close().unwrap();
    outcome
}

/// The workload of this name.
fn kind(name: &str) -> Kind {
    Kind::by_name(name).unwrap()
}

/// When to kill what opens a pool: it is moved towards recovery, which takes a millisecond or so.
struct Aim(Duration);

impl Aim {
    /// Opens the pool and recovers it in a process that is killed meanwhile; answers how far it
    /// came.
    fn kill(&mut self, path: &Path, rng: &mut StdRng) -> Stage {
        let before = Mark::of(path);
        let pause = self.0.mul_f64(rng.random_range(0.7..1.3));
        let stage = match kill_writer(path, &["--only-open"], When { messages: 0, pause }) {
            Ended::Killed(_) => before.stage(&Mark::of(path)),
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

/// How long a process takes that opens a pool and ends.
fn time_of_opening(path: &Path) -> Duration {
    let start = Instant::now();
    let mut opening = Command::new(env!("CARGO_BIN_EXE_lastword"));
    let status = opening.arg("kill-writer").arg(path).arg("--only-open").status().unwrap();
    assert!(status.success(), "{status}");
    start.elapsed()
}

#[test]
fn whatever_was_acknowledged_survives_kill_9_again_and_again() {
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
        let said = killed(&path, &arguments, when);
        if (round / pools.len()).is_multiple_of(RECOVERY) {
            for _ in 0..RECOVERIES {
                let stage = aim.kill(&path, &mut rng);
                seen.stages[stage as usize] += 1;
                if stage == Stage::Opened {
                    break; // there is nothing to recover any more
                }
            }
        }
        let outcome = recover(bank, &path, &said);
        println!("{durability}, {threads} workers, round {round}, {when:?}: {outcome:?}");
        assert!(durability == "async" || outcome.lost == 0, "in sync mode nothing is lost");
        seen.survived += usize::from(outcome.survived > 0);
        seen.lost += usize::from(outcome.lost > 0);
        // A transfer takes 80 bytes of the log or more: mark, three heads, seven words.
        seen.laps += outcome.recovered * 80 / LOG_BYTES;
    }
    println!("{rounds} rounds: {seen:?}");
    // A test of crashes that saw none of these has tested nothing.
    assert!(seen.survived > 0, "no transfer survived without being acknowledged: {seen:?}");
    assert!(seen.lost > 0, "no transfer that was committed was lost: {seen:?}");
    assert!(seen.laps >= 10, "the logs did not go round: {seen:?}");
    let [before, in_recovery, opened] = seen.stages;
    assert!(before + in_recovery + opened > 0, "nobody was killed while opening: {seen:?}");
    assert!(rounds < ENOUGH || in_recovery > 0, "no recovery was killed: {seen:?}");
}

/// Orders of TPC-C: the specification's consistency conditions hold after every kill.
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
        let said = killed(&path, &["--durability", durability, "--threads", "2"], when);
        let outcome = recover(kind, &path, &said);
        println!("{name}, {durability}, round {round}, {when:?}: {outcome:?}");
        assert!(durability == "async" || outcome.lost == 0, "in sync mode nothing is lost");
        acknowledged += outcome.acknowledged;
        survived += outcome.survived;
    }
    assert!(acknowledged > 0, "nothing was ever acknowledged");
    assert!(survived > 0, "nothing survived without being acknowledged");
}

#[test]
fn tpcc_is_consistent_after_kill_9_over_hash_maps_and_over_trees() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    orders_survive("tpcc-hash");
    orders_survive("tpcc-btree");
}
