//! The examples `bank` and `world` keep the promises of their documentation.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/bank.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod bank;
#[path = "../examples/world.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod world;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
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

/// Set for the child process: the path of the pool in which it plays until it is killed.
const WORLD: &str = "LASTWORD_TEST_WORLD";
const KILLED: &str = "killed_world_example_resumes_after_saved_tick";

#[test]
fn killed_world_example_resumes_after_saved_tick() {
    if let Some(path) = std::env::var_os(WORLD) {
        let pool = world::open(&PathBuf::from(path)).unwrap();
        let report = |saved: world::Saved| println!("saved {}", saved.tick);
        return world::play(&pool, u64::MAX, Duration::ZERO, report).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("world.pool");
    let mut reached = 0;
    for saves in [1, 4, 2] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", KILLED, "--nocapture"])
            .env(WORLD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut saved = lines.filter_map(|line| line.rsplit_once("saved ")?.1.parse::<u64>().ok());
        // The pipe stays open until the child is dead. A closed pipe would make `println!` panic,
        // and the child would unwind instead of dying by the signal.
        let last = saved.by_ref().take(saves).last().expect("the child saved no tick");
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "the child was not killed");
        drop(saved);
        let pool = world::open(&path).unwrap();
        let tick = world::check(&pool).unwrap();
        assert!(last > reached && tick >= last, "{reached}, saved {last}, found {tick}");
        reached = tick;
        pool.close().unwrap();
    }
}
