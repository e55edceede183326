//! The n-th call fails, n = 0, 1, 2, ... until the story is over before its n-th call; once and
//! from there on.

use std::collections::BTreeSet;
use std::path::Path;

use faults::{Call, Fault, Faults};
use lastword::{Durability, Medium, Options, Shadow};
use medium::System;
use medium::sync::Arc;

use crate::story::Story;

/// All that a pool in files does but mapping.
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

/// Calls that nobody needs: pools do without what they would tell or gain.
const HARMLESS: [Call; 6] =
    [Call::Open, Call::Stat, Call::Read, Call::FileSystem, Call::Seek, Call::Advise];

/// Where pools are made, and who runs their steps: whoever waits, unless threads are named.
#[derive(Clone, Copy)]
enum Place {
    /// Where temporary files are, past the page cache if that is a disk.
    Disk,
    /// In memory, if there is a place for files in it: a sync takes no time.
    Memory,
    /// There, and the pool's threads run the steps too.
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

/// What was seen of a failing disk.
#[derive(Default)]
struct Seen {
    failed: BTreeSet<Call>,
    /// The calls that were told of a failure.
    told: BTreeSet<&'static str>,
    /// Of the transactions that were not acknowledged some were found, and some were not.
    found: bool,
    lost: bool,
}

/// Lets every call of the story fail.
fn every_call_fails(place: Place, options: &Options, fault: Fault, sticky: bool) -> Seen {
    let mut seen = Seen::default();
    for n in 0.. {
        let dir = place.dir();
        let faults = Faults::nth(n, fault, sticky);
        let (its_options, threads) = (options.clone(), place.has_threads());
        let mut story = Story::new(dir.path(), its_options, threads, Arc::clone(&faults));
        let what = format!("call {n}, {fault:?}, sticky {sticky}, threads {threads}, {options:?}");
        let guard = Narrator(&what);
        story.run();
        let failed = faults.failed();
        if failed.is_empty() {
            assert!(story.told.is_none(), "{:?}", story.told);
            assert!(n > 20, "only {n} calls");
            return seen;
        }
        seen.told.extend(story.told.as_ref().map(|(call, _)| *call));
        check(&mut story, &failed, fault, &mut seen);
        drop(guard);
        seen.failed.extend(failed);
    }
    seen
}

/// What a failing call did to a story.
fn check(story: &mut Story, failed: &[Call], fault: Fault, seen: &mut Seen) {
    story.assert_told();
    if fault == Fault::Short {
        assert!(story.told.is_none(), "{:?}", story.told);
    }
    if story.told.is_none() {
        let harmless = |call| fault == Fault::Short || HARMLESS.contains(call);
        assert!(failed.iter().all(harmless), "nobody was told of {failed:?}");
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

/// A failed creation has left nothing, and can be repeated. Where no name can be removed any more,
/// what is left is in nobody's way, or it is a pool.
fn assert_nothing_is_left(story: &mut Story, failed: &[Call]) {
    let dir = story.path.parent().unwrap().to_path_buf();
    let left = files(&dir);
    let stuck = failed.len() > 1; // what would have removed it failed too
    assert!(stuck || left.is_empty(), "{left:?} left by {:?}, {failed:?}", story.told);
    if !(stuck && story.path.exists()) {
        story.options = story.options.clone().system(System::kernel());
        story.told = None;
        story.run();
        assert!(story.told.is_none(), "{:?} after {left:?}", story.told);
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

/// Says what was tried when it goes wrong.
struct Narrator<'a>(&'a str);

impl Drop for Narrator<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while this failed: {}", self.0);
        }
    }
}

fn options() -> Options {
    Story::options().medium(Medium::File)
}

/// Each fault, once and from there on. Asserts that each of these calls failed, and that each of
/// those told the program of a failure; answers what was seen.
fn every_fault(place: Place, options: &Options, calls: &[Call], told: &[&str]) -> Seen {
    let mut all = Seen::default();
    for fault in [Fault::Io, Fault::NoSpace] {
        for sticky in [false, true] {
            let seen = every_call_fails(place, options, fault, sticky);
            all.failed.extend(seen.failed);
            all.told.extend(seen.told);
            all.found |= seen.found;
            all.lost |= seen.lost;
        }
    }
    assert!(calls.iter().all(|call| all.failed.contains(call)), "only {:?} failed", all.failed);
    assert!(told.iter().all(|call| all.told.contains(call)), "only {:?} were told", all.told);
    all
}

/// Transactions that were not acknowledged were found, and were not.
fn assert_both_outcomes(seen: &Seen) {
    assert!(seen.found && seen.lost, "found {}, lost {}", seen.found, seen.lost);
}

const TOLD: [&str; 5] = ["create", "wait", "bring_home", "close", "open"];

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost_when_who_waits_runs_the_steps() {
    let options = options();
    assert_both_outcomes(&every_fault(Place::Memory, &options, &EVERY_CALL, &TOLD));
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost_when_every_commit_waits() {
    let options = options().durability(Durability::Sync);
    let (options, calls) = (options.shadow(Shadow::CopyOnWrite), [Call::Map, Call::Write]);
    let told = ["create", "run", "bring_home", "close", "open"];
    assert_both_outcomes(&every_fault(Place::Memory, &options, &calls, &told));
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost_when_threads_run_the_steps() {
    let (place, told) = (Place::MemoryAndThreads, ["create", "open"]);
    assert_both_outcomes(&every_fault(place, &options(), &EVERY_CALL, &told));
    let mapped = options().shadow(Shadow::CopyOnWrite);
    assert_both_outcomes(&every_fault(place, &mapped, &[Call::Map], &told));
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost_past_the_page_cache() {
    let options = options();
    let seen = every_call_fails(Place::Disk, &options, Fault::Io, false);
    assert!(TOLD.iter().all(|call| seen.told.contains(call)), "only {:?} were told", seen.told);
    assert!(seen.lost);
}

#[test]
fn whatever_call_fails_a_mapped_pool_keeps_what_was_acknowledged() {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Story::options().medium(medium);
    let calls = [Call::Map, Call::Write, Call::Rename, Call::SyncAll, Call::Lock, Call::Read];
    every_fault(Place::Memory, &options, &calls, &["create", "bring_home", "close", "open"]);
}

#[test]
fn nobody_notices_a_write_that_ends_early() {
    for sticky in [false, true] {
        for place in [Place::Memory, Place::MemoryAndThreads] {
            let seen = every_call_fails(place, &options(), Fault::Short, sticky);
            assert!(seen.failed.contains(&Call::Write) && seen.told.is_empty() && !seen.lost);
        }
    }
}
