//! Process limits on the size of files (RLIMIT_FSIZE) and on descriptors (RLIMIT_NOFILE).
//!
//! The size limit also fails the writes of io_uring, which fault injection cannot reach because no
//! system call carries them out. The tests move the limit through the pool's files block by block,
//! so the first offset that cannot be written lies in turn in either superblock, in the log and in
//! the heap image. A pool does not open under such a limit, so the limit is set while it is open.

use std::os::fd::AsRawFd;
use std::path::Path;

use faults::{Failing, Faults};
use lastword::{Medium, MediumError, Objects, Pool};
use medium::System;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::story::{Story, assert_poisoned, found};

/// Set in the child process, to which the limits apply.
const CHILD: &str = "LASTWORD_TEST_LIMITED";

fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Numbers of runs by the outcome of the pool under its limit.
#[derive(Default)]
struct Seen {
    unopened: u32,
    poisoned: u32,
    unharmed: u32,
}

/// Uses the pool while no file can be written at offset `bytes` or above, then verifies it.
fn live_under(bytes: u64, story: &mut Story, seen: &mut Seen) {
    // The heap image ends at a higher offset than the log file, so it decides whether the pool
    // opens.
    if bytes < HEAP_END {
        limit(Some(bytes));
        let refused = Pool::open(&story.path, story.options.clone()).unwrap_err();
        assert!(too_large(&refused), "{refused}");
        assert!(refused.to_string().contains("`ulimit -f`"), "{refused}");
        seen.unopened += 1;
        limit(None);
    }
    let opened = Pool::open(&story.path, story.options.clone());
    limit(Some(bytes));
    let failure = match opened {
        Err(error) => panic!("{error}"),
        Ok(pool) => {
            let mut failure = None;
            for step in 0..40 {
                let put = story.put(&pool);
                let done = put.and_then(|id| {
                    pool.wait_for(id)?;
                    story.acknowledged = story.begun;
                    if step % 16 == 7 { pool.checkpoint() } else { Ok(()) }
                });
                if let Err(error) = done {
                    assert_poisoned(&error);
                    assert_poisoned(&story.put(&pool).unwrap_err());
                    assert!(pool.durable_id() <= pool.committed_id());
                    failure = Some(error);
                    break;
                }
            }
            match (&failure, pool.close()) {
                (None, closed) => closed.unwrap(),
                (Some(_), closed) => assert_poisoned(&closed.unwrap_err()),
            }
            match failure {
                None => seen.unharmed += 1,
                Some(_) => seen.poisoned += 1,
            }
            failure
        }
    };
    limit(None);
    if let Some(error) = &failure {
        let text = error.to_string();
        assert!(text.contains("test.pool") && text.contains("raise the limit"), "{text}");
    }
    story.assert_truth();
}

fn too_large(error: &lastword::Error) -> bool {
    matches!(error, lastword::Error::Medium(MediumError::FileTooLarge { limit: Some(_), .. }))
}

/// File offsets of the heap image in the story's pool.
const HEAP_START: u64 = 2 << 20;
const HEAP_END: u64 = HEAP_START + (256 << 10);

#[test]
fn file_size_limit_keeps_acknowledged_transactions() {
    const NAME: &str = "limits::file_size_limit_keeps_acknowledged_transactions";
    if std::env::var_os(CHILD).is_none() {
        // A write above the limit raises SIGXFSZ, whose default action ends the process.
        return in_child("trap '' XFSZ", NAME);
    }
    let kernel = System::kernel();
    for (system, background) in
        [(kernel.clone(), false), (kernel.clone(), true), (kernel.failing(Faults::none()), false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let options = Story::options().medium(Medium::File).background(background);
        let mut story = Story::new(dir.path(), options.clone(), background, Faults::none());
        story.run();
        let mut seen = Seen::default();
        let log_end = 8192 + (128 << 10);
        let heap = [HEAP_START, HEAP_START + (128 << 10), 4 << 20];
        for bytes in (0..=log_end).step_by(8192).chain([4096]).chain(heap) {
            story.options = options.clone().system(system.clone());
            live_under(bytes, &mut story, &mut seen);
        }
        let Seen { unopened, poisoned, unharmed } = seen;
        let all = unopened > 0 && poisoned > 5 && unharmed > 0;
        assert!(all, "unopened {unopened}, poisoned {poisoned}, unharmed {unharmed}");
        let pool = Pool::open(&story.path, options).unwrap();
        assert!(found(&pool) > 100);
    }
}

/// A library must not change the program's signal handlers, so it may not even try a write that
/// raises SIGXFSZ.
#[test]
fn pool_above_size_limit_is_refused_without_signal() {
    const NAME: &str = "limits::pool_above_size_limit_is_refused_without_signal";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    for medium in [Medium::File, Medium::PersistentCache, emulated] {
        let options = Story::options().medium(medium);
        limit(Some(HEAP_END - 1));
        let refused = Pool::create(&path, options.clone()).unwrap_err();
        assert!(too_large(&refused), "{refused}");
        assert!(refused.to_string().contains("`ulimit -f`"), "{refused}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        limit(None);
        Pool::create(&path, options.clone()).unwrap().close().unwrap();
        // The limit does not apply to stores through a mapping. Only the superblocks of a mapped
        // pool are written by system calls.
        let least = if medium == Medium::File { HEAP_END } else { 8192 };
        limit(Some(least - 1));
        let before = std::fs::read(&path).unwrap();
        let refused = Pool::open(&path, options.clone()).unwrap_err();
        assert!(too_large(&refused), "{refused}");
        assert!(std::fs::read(&path).unwrap() == before);
        limit(Some(least));
        let pool = Pool::open(&path, options).unwrap();
        pool.run(|tx| tx.alloc(7_u64)).unwrap().ticket.wait().unwrap();
        pool.close().unwrap();
        limit(None);
        std::fs::read_dir(dir.path())
            .unwrap()
            .for_each(|entry| std::fs::remove_file(entry.unwrap().path()).unwrap());
    }
}

/// The limit is set while the pool is open, as by `prlimit`, and a background thread meets it.
#[test]
fn size_limit_in_background_is_an_error_without_signal() {
    const NAME: &str = "limits::size_limit_in_background_is_an_error_without_signal";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Story::options().medium(Medium::File).background(true);
    let pool = Pool::create(dir.path().join("test.pool"), options).unwrap();
    limit(Some(8192));
    let (sender, receiver) = std::sync::mpsc::channel();
    let done = pool.run(|tx| tx.alloc(7_u64)).unwrap();
    done.ticket.on_durable(move |outcome| drop(sender.send(outcome))).unwrap();
    // This thread must not help with the persist step: its write would raise the signal, which the
    // pool's own threads block.
    let outcome = receiver.recv().unwrap();
    assert_poisoned(&outcome.unwrap_err());
    pool.abandon();
    limit(None);
}

/// Each limit below the needed number of descriptors stops creation at another step. The last of
/// these steps makes the names durable.
#[test]
fn creation_without_descriptors_leaves_nothing() {
    const NAME: &str = "limits::creation_without_descriptors_leaves_nothing";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let before = getrlimit(Resource::Nofile);
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    for medium in [Medium::File, emulated] {
        let mut refused = 0;
        for free in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("test.pool");
            let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
            let current = Some(next + free);
            setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
            let created = Pool::create(&path, Story::options().medium(medium));
            setrlimit(Resource::Nofile, before).unwrap();
            match created {
                Ok(pool) => {
                    pool.close().unwrap();
                    break;
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains("test.pool"), "{error}");
                    let left: Vec<_> = std::fs::read_dir(dir.path())
                        .unwrap()
                        .map(|entry| entry.unwrap().file_name())
                        .collect();
                    assert!(left.is_empty(), "{free} descriptors, {error}: {left:?}");
                }
            }
        }
        // The failed creation must not remove a log file that it did not make.
        for free in 0..8 {
            let dir = tempfile::tempdir().unwrap();
            let log = dir.path().join("test.pool.log");
            std::fs::write(&log, "another's").unwrap();
            let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
            setrlimit(Resource::Nofile, Rlimit { current: Some(next + free), ..before }).unwrap();
            let created = Pool::create(dir.path().join("test.pool"), Story::options());
            setrlimit(Resource::Nofile, before).unwrap();
            assert!(created.is_err());
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{free} descriptors");
            assert_eq!(std::fs::read(&log).unwrap(), b"another's");
        }
        // Creation holds at least two descriptors: of a directory and of a file.
        assert!(refused > 1, "{medium:?}: refused {refused} times");
    }
}

/// Runs a test in a child process, after a line of shell.
pub(crate) fn in_child(line: &str, test: &str) {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{line}; exec \"$0\" --exact \"$1\"")])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(CHILD, Path::new("yes"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}
