//! Exhaustive fault injection: the n-th call of a [`Story`] fails, for every n.
//!
//! Each call fails in two runs: in one it alone fails, in the other all later calls fail too.
//! The loop over n ends with the first run that has fewer than n calls.

use std::collections::BTreeSet;
use std::path::Path;

use faults::{Call, Fault, Faults};
use lastword::{Durability, Medium, Options, Shadow};
use medium::System;
use medium::sync::Arc;

use crate::story::Story;

/// Every kind of call that a pool on medium `file` makes, except mapping.
const EVERY_CALL: [Call; 14] = [
    Call::Open,
    Call::Stat,
    Call::Rename,
    Call::Unlink,
    Call::SyncDirectory,
    Call::Lock,
    Call::Read,
    Call::Write,
    Call::SyncData,
    Call::SyncAll,
    Call::Allocate,
    Call::FileSystem,
    Call::Seek,
    Call::Advise,
];

/// Calls whose failure a pool tolerates: they are hints, or a fallback exists.
const HARMLESS: [Call; 6] =
    [Call::Open, Call::Stat, Call::Read, Call::FileSystem, Call::Seek, Call::Advise];

/// Location of the pool, and the threads that run its steps.
#[derive(Clone, Copy)]
enum Place {
    /// In the directory of temporary files. If that is on a disk, writes bypass the page cache.
    /// Waiting threads run the steps.
    Disk,
    /// In `/dev/shm` if it exists, where a sync is fast. Waiting threads run the steps.
    Memory,
    /// As `Memory`, with background threads that run the steps too.
    MemoryAndThreads,
}

impl Place {
    fn has_threads(self) -> bool {
        matches!(self, Place::MemoryAndThreads)
    }

    fn dir(self) -> tempfile::TempDir {
        match self {
            Place::Disk => tempfile::tempdir(),
            _ if Path::new("/dev/shm").is_dir() => tempfile::tempdir_in("/dev/shm"),
            _ => tempfile::tempdir(),
        }
        .unwrap()
    }
}

/// Observations over all runs with a failing disk.
#[derive(Default)]
struct Seen {
    failed: BTreeSet<Call>,
    /// Calls of the program that returned an error.
    reporting: BTreeSet<&'static str>,
    /// A transaction without acknowledgement was recovered.
    found: bool,
    /// A transaction without acknowledgement was lost.
    lost: bool,
}

/// Runs the story once for each of its calls, with that call failing.
fn every_call_fails(place: Place, options: &Options, fault: Fault, sticky: bool) -> Seen {
    let mut seen = Seen::default();
    for n in 0.. {
        let dir = place.dir();
        let faults = Faults::nth(n, fault, sticky);
        let threads = place.has_threads();
        let mut story = Story::new(dir.path(), options.clone(), threads, Arc::clone(&faults));
        let text = format!("call {n}, {fault:?}, sticky {sticky}, threads {threads}, {options:?}");
        let guard = PrintOnPanic(&text);
        story.run();
        let failed = faults.failed();
        if failed.is_empty() {
            assert!(story.failure.is_none(), "{:?}", story.failure);
            assert!(n > 20, "only {n} calls");
            return seen;
        }
        seen.reporting.extend(story.failure.as_ref().map(|(call, _)| *call));
        check(&mut story, &failed, fault, &mut seen);
        drop(guard);
        seen.failed.extend(failed);
    }
    seen
}

/// Checks the story's outcome after a failing call, and the pool that it left.
fn check(story: &mut Story, failed: &[Call], fault: Fault, seen: &mut Seen) {
    story.assert_failure_is_specific();
    if fault == Fault::Short {
        assert!(story.failure.is_none(), "{:?}", story.failure);
    }
    if story.failure.is_none() {
        let harmless = |call| fault == Fault::Short || HARMLESS.contains(call);
        assert!(failed.iter().all(harmless), "no call reported {failed:?}");
    }
    if !story.created {
        assert_nothing_is_left(story, failed);
        return;
    }
    let (acknowledged, begun) = (story.acknowledged, story.begun);
    let found = story.assert_truth();
    seen.found |= found > acknowledged;
    seen.lost |= found < begun;
}

/// Expects that a failed creation left no file and can be repeated.
///
/// If removing files failed too, the leftovers are a pool, or do not hinder the next creation.
fn assert_nothing_is_left(story: &mut Story, failed: &[Call]) {
    let dir = story.path.parent().unwrap().to_path_buf();
    let left = files(&dir);
    // With a second failed call, the removal of the files may have failed too.
    let stuck = failed.len() > 1;
    assert!(stuck || left.is_empty(), "{left:?} left by {:?}, {failed:?}", story.failure);
    if !(stuck && story.path.exists()) {
        story.options = story.options.clone().system(System::kernel());
        story.failure = None;
        story.run();
        assert!(story.failure.is_none(), "{:?} after {left:?}", story.failure);
        assert!(files(&dir).iter().all(|name| name.starts_with("test.pool")), "{left:?} stays");
    }
    story.assert_truth();
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Prints the run's parameters if the test panics during it.
struct PrintOnPanic<'a>(&'a str);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("injected failure: {}", self.0);
        }
    }
}

fn options() -> Options {
    Story::options().medium(Medium::File)
}

/// Runs every kind of fault, both once and sticky, and returns the observations.
///
/// Asserts coverage: each of `calls` failed in some run, and each of `reporting` returned an error.
fn every_fault(place: Place, options: &Options, calls: &[Call], reporting: &[&str]) -> Seen {
    let mut all = Seen::default();
    for fault in [Fault::Io, Fault::NoSpace] {
        for sticky in [false, true] {
            let seen = every_call_fails(place, options, fault, sticky);
            all.failed.extend(seen.failed);
            all.reporting.extend(seen.reporting);
            all.found |= seen.found;
            all.lost |= seen.lost;
        }
    }
    assert!(calls.iter().all(|call| all.failed.contains(call)), "only {:?} failed", all.failed);
    assert!(
        reporting.iter().all(|call| all.reporting.contains(call)),
        "only {:?} reported",
        all.reporting
    );
    all
}

/// Expects that some transactions without acknowledgement were recovered and others were lost.
fn assert_both_outcomes(seen: &Seen) {
    assert!(seen.found && seen.lost, "found {}, lost {}", seen.found, seen.lost);
}

const REPORTING: [&str; 5] = ["create", "wait", "checkpoint", "close", "open"];

#[test]
fn failed_call_loses_nothing_with_helping_waiters() {
    let options = options();
    assert_both_outcomes(&every_fault(Place::Memory, &options, &EVERY_CALL, &REPORTING));
}

#[test]
fn failed_call_loses_nothing_with_sync_commits() {
    let options = options().durability(Durability::Sync);
    let (options, calls) = (options.shadow(Shadow::CopyOnWrite), [Call::Map, Call::Write]);
    let reporting = ["create", "run", "checkpoint", "close", "open"];
    assert_both_outcomes(&every_fault(Place::Memory, &options, &calls, &reporting));
}

#[test]
fn failed_call_loses_nothing_with_background_threads() {
    let (place, reporting) = (Place::MemoryAndThreads, ["create", "open"]);
    assert_both_outcomes(&every_fault(place, &options(), &EVERY_CALL, &reporting));
    let mapped = options().shadow(Shadow::CopyOnWrite);
    assert_both_outcomes(&every_fault(place, &mapped, &[Call::Map], &reporting));
}

#[test]
fn failed_call_loses_nothing_with_direct_writes() {
    let options = options();
    let seen = every_call_fails(Place::Disk, &options, Fault::Io, false);
    assert!(
        REPORTING.iter().all(|call| seen.reporting.contains(call)),
        "only {:?} reported",
        seen.reporting
    );
    assert!(seen.lost);
}

#[test]
fn failed_call_loses_nothing_in_mapped_pool() {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Story::options().medium(medium);
    let calls = [Call::Map, Call::Write, Call::Rename, Call::SyncAll, Call::Lock, Call::Read];
    every_fault(Place::Memory, &options, &calls, &["create", "checkpoint", "close", "open"]);
}

#[test]
fn short_write_is_completed_silently() {
    for sticky in [false, true] {
        for place in [Place::Memory, Place::MemoryAndThreads] {
            let seen = every_call_fails(place, &options(), Fault::Short, sticky);
            assert!(seen.failed.contains(&Call::Write) && seen.reporting.is_empty() && !seen.lost);
        }
    }
}
