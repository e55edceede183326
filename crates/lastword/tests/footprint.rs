//! The disk space and memory of a small program with the default options.
//!
//! Each measurement is a process of its own, because the kernel counts memory by process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../benches/footprint.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod footprint;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use footprint::{Footprint, MEDIA, measure, status};
use lastword::{Addr, AnyDesign, Medium, Options, ToAnyPool};

const MIB: u64 = 1 << 20;

/// Set for a child process: a design, a medium, a number of commits and the path of a pool.
const CHILD: &str = "LASTWORD_TEST_FOOTPRINT";

/// Measures in a child process, which runs the test `name` again.
fn in_child(name: &str, design: &str, medium: Medium, commits: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.pool");
    run_child(name, &format!("{design} {} {commits} {}", medium.name(), path.display()));
}

/// Runs the test `name` in a child process with these arguments.
fn run_child(name: &str, arguments: &str) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, arguments)
        .output()
        .unwrap();
    let [output, errors] = [&child.stdout, &child.stderr].map(|text| String::from_utf8_lossy(text));
    let passed = child.status.success() && output.contains("1 passed");
    assert!(passed, "{arguments}: {output}{errors}");
}

/// Runs the measurement if this is a child process.
fn child(check: impl Fn(Footprint, u64)) -> bool {
    let Ok(arguments) = std::env::var(CHILD) else { return false };
    let [design, medium, commits, path] =
        arguments.splitn(4, ' ').collect::<Vec<_>>().try_into().unwrap();
    let design = AnyDesign::<ToAnyPool>::by_name(design).unwrap();
    let medium = MEDIA.into_iter().find(|one| one.name() == medium).unwrap();
    let before = status("VmRSS");
    let commits = commits.parse().unwrap();
    let found = measure(design, medium, commits, &PathBuf::from(path)).unwrap();
    println!("{} {} from {before}: {found:?}", design.type_name, medium.name());
    check(found, before);
    true
}

#[test]
fn ledger_of_two_numbers_takes_some_mebibytes() {
    let is_child = child(|found, before| {
        assert!((12 * MIB..=16 * MIB).contains(&found.disk) || found.disk == 0, "disk");
        // The heap, its image or log where they are mapped, and the program's own pages.
        assert!(found.most - before <= 18 * MIB, "memory");
        assert!(found.anonymous <= 8 * MIB, "memory of the open pool");
    });
    if is_child {
        return;
    }
    for design in AnyDesign::<ToAnyPool>::all() {
        for medium in MEDIA {
            in_child("ledger_of_two_numbers_takes_some_mebibytes", design.type_name, medium, 200);
        }
    }
}

/// The commits fill 16 MiB of records, all of which the ring of earlier versions kept in memory.
#[test]
fn many_commits_take_no_more_memory_than_a_few() {
    let is_child = child(|found, _| {
        // The mapped log, all of whose pages are in use by then, and the queue to the heap image.
        assert!(found.busy - found.committed <= 10 * MIB, "the ring's memory");
    });
    if !is_child {
        let name = "many_commits_take_no_more_memory_than_a_few";
        in_child(name, "decoupled", Medium::PersistentCache, 450_000);
    }
}

#[test]
fn idle_worker_releases_backlog_memory() {
    const NAME: &str = "idle_worker_releases_backlog_memory";
    if std::env::var_os(CHILD).is_none() {
        return run_child(NAME, "1");
    }
    let dir = tempfile::tempdir().unwrap();
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new().bytes(32 * MIB).log_bytes(64 * MIB).medium(medium);
    let design = AnyDesign::<ToAnyPool>::by_name("decoupled").unwrap();
    let pool = design.create(&dir.path().join("a.pool"), options).unwrap();
    let mut worker = pool.any_worker().unwrap();
    // A record of 6 MiB, which only the largest region holds.
    let mut backlog = |value: u64| {
        let filled = worker.run_any(false, &mut |tx| {
            for _ in 0..6 * MIB / 1024 {
                let object = tx.allocate(1024)?;
                (0..128).try_for_each(|word| tx.write(Addr::new(object, 8 * word), value))?;
            }
            Ok(())
        });
        filled.unwrap();
        pool.checkpoint().unwrap();
        status("RssAnon")
    };
    let after_backlog = backlog(1).max(backlog(2));
    let deadline = Instant::now() + Duration::from_secs(60);
    while status("RssAnon") + 5 * MIB > after_backlog {
        assert!(Instant::now() < deadline, "the ring keeps its memory: {}", status("RssAnon"));
        std::thread::yield_now();
    }
    println!("from {after_backlog} to {}", status("RssAnon"));
    assert!(backlog(3) > 0);
}
