//! The examples do what their docs say, also after `kill -9`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/bank.rs"]
#[allow(dead_code, reason = "the test does not call `main`")]
mod bank;
#[path = "../examples/leaderboard.rs"]
#[allow(dead_code, reason = "the test does not call `main`")]
mod leaderboard;
#[path = "../examples/orders.rs"]
#[allow(dead_code, reason = "the test does not call `main`")]
mod orders;
#[path = "../examples/sessions.rs"]
#[allow(dead_code, reason = "the test does not call `main`")]
mod sessions;
#[path = "../examples/world.rs"]
#[allow(dead_code, reason = "the test does not call `main`")]
mod world;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn bank_example_keeps_acknowledged_transfers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank.pool");
    let mut before = 0;
    for _ in 0..2 {
        let shown = bank::run(&path).unwrap();
        assert_eq!(shown.before, before);
        assert!(shown.acknowledged > 0 && shown.declined > 0, "the run had both outcomes");
        assert!(shown.recovered >= before + shown.acknowledged);
        before = shown.recovered;
    }
}

#[test]
fn world_example_resumes_at_last_tick() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("world.pool");
    let mut tick = 0;
    for _ in 0..3 {
        let pool = world::open(&path).unwrap();
        assert_eq!(world::check(&pool).unwrap(), tick);
        world::play(&pool, world::SECOND + 5, Duration::ZERO, |_| ()).unwrap();
        tick += world::SECOND + 5;
        pool.close().unwrap();
    }
}

/// Set for a child process: the path of the pool in which it works until it is killed.
const CHILD: &str = "LASTWORD_TEST_EXAMPLE";

/// The line after which the lines of a child are those of the example.
const BEGIN: &str = "begin";

/// Returns the path of the pool in a child process.
fn child() -> Option<PathBuf> {
    let path = std::env::var_os(CHILD)?;
    println!("\n{BEGIN}");
    Some(path.into())
}

/// Runs a test in a child process and kills it with `kill -9` once it has printed `most` lines.
/// Returns all lines that it printed before it was killed.
fn killed(test: &str, path: &Path, most: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        // A line without an end was not printed as a whole.
        line.strip_suffix('\n').map(str::to_owned)
    };
    while next().expect("the child did not begin") != BEGIN {}
    let mut lines: Vec<_> = (0..most).map_while(|_| next()).collect();
    assert_eq!(lines.len(), most, "the child ended: {lines:?}");
    // The pipe stays open until the child is dead. A closed pipe would make `println!` panic, and
    // the child would unwind instead of dying by the signal.
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "the child was not killed");
    lines.extend(std::iter::from_fn(next));
    lines
}

/// Returns the two words of a line.
fn words<A: std::str::FromStr, B: std::str::FromStr>(line: &str) -> (A, B) {
    let words = line.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    words.unwrap_or_else(|| panic!("unexpected line {line:?}"))
}

#[test]
fn killed_world_example_resumes_after_saved_tick() {
    if let Some(path) = child() {
        let pool = world::open(&path).unwrap();
        let report = |saved: world::Saved| println!("saved {}", saved.tick);
        return world::play(&pool, u64::MAX, Duration::ZERO, report).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("world.pool");
    let mut reached = 0;
    for saves in [1, 4, 2] {
        let lines = killed("killed_world_example_resumes_after_saved_tick", &path, saves);
        let (_, last): (String, u64) = words(lines.last().unwrap());
        let pool = world::open(&path).unwrap();
        let tick = world::check(&pool).unwrap();
        assert!(last > reached && tick >= last, "{reached}, saved {last}, found {tick}");
        reached = tick;
        pool.close().unwrap();
    }
}

#[test]
fn killed_sessions_example_loses_no_session() {
    if let Some(path) = child() {
        return sessions::run(&path, u64::MAX).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.pool");
    let mut acknowledged = BTreeMap::new();
    for most in [3, 701, 160] {
        let lines = killed("killed_sessions_example_loses_no_session", &path, most);
        // The first line is the number of sessions that were found.
        acknowledged.extend(lines[1..].iter().map(|line| words::<String, u64>(line)));
        let (pool, map) = sessions::open(&path).unwrap();
        assert_eq!(pool.run(|tx| map.check(tx)).unwrap().value.damage, []);
        let now = sessions::now();
        for (expires, found) in found_sessions(&pool, map, &acknowledged) {
            // A session may also have been renewed once more.
            assert!(found.map_or(expires < now, |found| found >= expires));
        }
        pool.close().unwrap();
    }
    let (pool, map) = sessions::open(&path).unwrap();
    let expired = map.by(sessions::ByExpiry).range(..u64::MAX / 2);
    while !pool.run(|tx| expired.remove_step(tx, 100)).unwrap().value {}
    let left = found_sessions(&pool, map, &acknowledged);
    assert!(left.iter().all(|(_, found)| found.is_none()), "the index has all sessions");
}

/// Returns the expiry of each acknowledged session, printed and found.
fn found_sessions(
    pool: &lastword::Pool,
    map: sessions::Sessions,
    acknowledged: &BTreeMap<String, u64>,
) -> Vec<(u64, Option<u64>)> {
    let found = pool.run(|tx| {
        let get = |(token, &printed): (&String, &u64)| {
            Ok((printed, map.get(tx, token)?.map(|session| session.expires)))
        };
        acknowledged.iter().map(get).collect::<Result<Vec<_>, lastword::Stop>>()
    });
    found.unwrap().value
}

#[test]
fn killed_orders_example_resumes() {
    if let Some(path) = child() {
        return orders::run(&path, u64::MAX).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.pool");
    let mut reached = 0;
    for most in [1, 400, 90] {
        let lines = killed("killed_orders_example_resumes", &path, most);
        let (pool, book) = orders::open(&path).unwrap();
        let (orders, bids, asks) = pool
            .run(|tx| {
                let sides = (book.bids.range(..).collect(tx)?, book.asks.range(..).collect(tx)?);
                Ok((book.orders.get(tx)? as u64, sides.0, sides.1))
            })
            .unwrap()
            .value;
        assert!(orders >= reached + lines.len() as u64);
        let (traded, sides) = model_of_orders(orders);
        assert!(bids.into_iter().eq(sides[1].clone()) && asks.into_iter().eq(sides[0].clone()));
        for (line, number) in lines.iter().zip(reached + 1..) {
            assert_eq!(words::<u64, u64>(line), (number, traded[number as usize - 1]));
        }
        reached = orders;
        pool.close().unwrap();
    }
}

/// A side of the model's order book.
type Side = BTreeMap<(i64, u64), u64>;

/// Returns the shares that each of the first orders trades on arrival, and the asks and bids that
/// remain.
fn model_of_orders(orders: u64) -> (Vec<u64>, [Side; 2]) {
    let mut sides: [Side; 2] = Default::default();
    let trade = |number| {
        let (is_bid, price, shares) = orders::order(number);
        let mut left = shares;
        let limit = if is_bid { price } else { -price };
        let other = &mut sides[usize::from(!is_bid)];
        while left > 0
            && let Some(mut best) = other.first_entry().filter(|best| best.key().0 <= limit)
        {
            let traded = left.min(*best.get());
            *best.get_mut() -= traded;
            left -= traded;
            if *best.get() == 0 {
                best.remove();
            }
        }
        if left > 0 {
            sides[usize::from(is_bid)].insert((-limit, number), left);
        }
        shares - left
    };
    let traded = (1..=orders).map(trade).collect();
    (traded, sides)
}

#[test]
fn killed_leaderboard_example_keeps_scores() {
    if let Some(path) = child() {
        return leaderboard::run(&path, u64::MAX).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leaderboard.pool");
    for most in [1, 500, 120] {
        let lines = killed("killed_leaderboard_example_keeps_scores", &path, most);
        let (pool, scores) = leaderboard::open(&path).unwrap();
        for line in &lines {
            let (name, score): (String, u64) = words(line);
            let found = pool.run(|tx| scores.get(tx, &name)).unwrap().value;
            assert!(found.is_some_and(|found| found >= score), "{line}, found {found:?}");
        }
        assert_eq!(pool.run(|tx| scores.check(tx)).unwrap().value.damage, []);
        pool.close().unwrap();
    }
}

#[test]
fn examples_run_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        sessions::run(&dir.path().join("sessions.pool"), 5).unwrap();
        orders::run(&dir.path().join("orders.pool"), 20).unwrap();
        leaderboard::run(&dir.path().join("leaderboard.pool"), 5).unwrap();
    }
}
