//! Kills a process that writes, again and again, and looks whether what it had acknowledged is
//! there.
//!
//! A round: a writer runs bank on the pool of the round before, and is killed after a number of
//! messages drawn at random. In some rounds other processes then open the pool and are killed while
//! they recover it. Then this process opens it and looks. Pools and logs are small, so that a log
//! goes round many times.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/kill_round.rs"]
mod kill_round;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kill_round::{Ended, Outcome, When, kill, look};
use lastword::{Options, Pool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use workloads::{Bank, Workload};

/// Small: it goes round dozens of times.
const LOG_BYTES: u64 = 256 << 10;

/// Rounds on each pool.
const ROUNDS: usize = 5;

/// In one of so many rounds recovery is killed too,
const RECOVERY: usize = 2;

/// so often in a row.
const RECOVERIES: usize = 3;

fn seed() -> u64 {
    let seed = std::env::var("LASTWORD_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = seed.unwrap_or_else(|| now.into());
    println!("LASTWORD_SEED={seed}");
    seed
}

fn options() -> Options {
    Options::new().log_bytes(LOG_BYTES)
}

fn new_bank(path: &Path) {
    let bank = workloads::Options { scale: 0.01, ..workloads::Options::default() };
    let pool = Pool::create(path, options().bytes(Bank::heap_bytes(&bank))).unwrap();
    Bank::load(&mut pool.worker().unwrap(), &bank).unwrap();
    pool.close().unwrap();
}

/// How often each outcome was seen.
#[derive(Debug, Default)]
struct Seen {
    survived: usize,
    lost: usize,
    killed_opening: usize,
    laps: u64,
}

/// Runs a writer and kills it.
fn kill_writer(path: &Path, arguments: &[&str], when: When) -> Ended {
    kill(Path::new(env!("CARGO_BIN_EXE_lastword")), path, arguments, when).unwrap()
}

/// Looks at a pool whose writer was killed: what it found holds.
fn recover(path: &Path, said: &kill_round::Seen) -> Outcome {
    // What a look finds without changing anything, recovery must find too.
    let checked = lastword::check(path).unwrap();
    assert!(checked.needs_recovery);
    let pool = Pool::open(path, options()).unwrap();
    assert_eq!(pool.committed_id(), checked.durable_id);
    let outcome = look(&pool, said).unwrap().unwrap();
    assert_eq!(outcome.lost_acknowledged, 0, "{outcome:?}");
    assert_eq!(outcome.violations, [], "{outcome:?}");
    pool.close().unwrap();
    outcome
}

#[test]
fn whatever_was_acknowledged_survives_kill_9_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(seed());
    let mut seen = Seen::default();
    for (durability, threads) in [("async", "1"), ("async", "2"), ("sync", "1"), ("sync", "2")] {
        let path = dir.path().join(format!("{durability}-{threads}.pool"));
        new_bank(&path);
        for round in 0..ROUNDS {
            let most = if durability == "async" { 4000 } else { 60 };
            let when = When { messages: rng.random_range(1..most), pause: Duration::ZERO };
            let arguments = ["--durability", durability, "--threads", threads];
            let said = match kill_writer(&path, &arguments, when) {
                Ended::Killed(said) => said,
                Ended::ByItself(status) => panic!("the writer ended by itself: {status}"),
            };
            let recoveries = if round % RECOVERY == 0 { RECOVERIES } else { 0 };
            for _ in 0..recoveries {
                let pause = Duration::from_micros(rng.random_range(0..10_000));
                match kill_writer(&path, &["--only-open"], When { messages: 0, pause }) {
                    Ended::Killed(_) => seen.killed_opening += 1,
                    Ended::ByItself(status) => assert!(status.success(), "{status}"),
                }
            }
            let outcome = recover(&path, &said);
            println!("{durability}, {threads} workers, round {round}, {when:?}: {outcome:?}");
            assert!(durability == "async" || outcome.lost == 0, "in sync mode nothing is lost");
            seen.survived += usize::from(outcome.survived > 0);
            seen.lost += usize::from(outcome.lost > 0);
            // A transfer takes 80 bytes of the log or more: mark, three heads, seven words.
            seen.laps += outcome.recovered * 80 / LOG_BYTES;
        }
    }
    println!("{seen:?}");
    // A test of crashes that saw none of these has tested nothing.
    assert!(seen.survived > 0, "no transfer survived without being acknowledged: {seen:?}");
    assert!(seen.lost > 0, "no transfer that was committed was lost: {seen:?}");
    assert!(seen.killed_opening > 0, "no recovery was killed: {seen:?}");
    assert!(seen.laps >= 10, "the logs did not go round: {seen:?}");
}
