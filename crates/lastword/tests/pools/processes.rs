//! Processes that are stopped, or may have no more threads. Each test runs itself in a child.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use lastword::{Decoupled, Design, Error, Medium, Objects, Options, Pool, Snapshot};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, waitpid,
};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Set in the child, to the directory of its pool.
const CHILD: &str = "LASTWORD_TEST_PROCESS";

/// What the child prints when it waits.
const WAITS: &str = "it waits";

/// More than the patience, whatever the child does before and after it is stopped.
const STOP: Timespec = Timespec { tv_sec: 1, tv_nsec: 500_000_000 };
const PATIENCE: Duration = Duration::from_millis(1000);

fn options() -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    options.medium(Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 })
}

fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Runs this test alone, in a child.
fn child(program: &mut Command, test: &str, dir: &Path) -> Child {
    let program = program.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    let program = program.env(CHILD, dir).current_dir(dir);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// A writer waits for a reader that holds what the writer needs, until standard input has a line.
fn wait_for_a_reader(dir: &Path) {
    let options = options().patience(PATIENCE);
    let pool = Pool::<Snapshot>::create_as(dir.join("pool"), options).unwrap();
    let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    let mut reader = pool.worker().unwrap();
    let (sender, written) = mpsc::channel();
    std::thread::scope(|scope| {
        let read = reader.read(|tx| {
            let value = tx.get(count)?;
            let (pool, sender) = (&pool, sender.clone());
            let writer = scope.spawn(move || {
                let mut writer = pool.worker().unwrap();
                sender.send(writer.run(|tx| tx.set(count, 1)).map(drop)).unwrap();
                // The reader needs the version before that, so there is no room for another one.
                writer.run(|tx| tx.set(count, 2)).map(drop)
            });
            written.recv().unwrap().unwrap();
            println!("{WAITS}");
            std::io::stdin().lines().next().expect("a line").unwrap();
            assert!(!writer.is_finished(), "the writer did not wait");
            Ok((value, writer))
        });
        let (value, writer) = read.unwrap().value;
        let waited = writer.join().unwrap();
        assert!(waited.is_ok() && value == 0, "{waited:?}");
    });
}

#[test]
fn stopped_process_is_not_held_up() {
    if let Some(dir) = child_dir() {
        return wait_for_a_reader(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    let mut child = child(&mut program, "processes::stopped_process_is_not_held_up", dir.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains(WAITS)), "it ended");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{status:?}");
    // The length of the stop is this test's input: nothing is to happen meanwhile.
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
    let stop = Itimerspec { it_interval: Timespec::default(), it_value: STOP };
    let _ = timerfd_settime(&timer, TimerfdTimerFlags::empty(), &stop).unwrap();
    assert_eq!(rustix::io::read(&timer, &mut [0; 8]).unwrap(), 8, "the timer expires");
    kill_process(pid, Signal::CONT).unwrap();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{}", rest.join("\n"));
}

/// Creates pools with threads of their own where none can start.
fn create_without_threads(dir: &Path) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    setrlimit(Resource::Nproc, Rlimit { current: Some(1), maximum }).unwrap();
    fn create<D: Design>(dir: &Path, options: &Options) {
        let path = dir.join(D::NAME);
        let refused = Pool::<D>::create_as(&path, options.clone()).unwrap_err();
        assert!(matches!(refused, Error::Thread { .. }), "{}: {refused}", D::NAME);
        assert!(refused.to_string().contains("thread"), "{refused}");
        let options = options.clone().background(false);
        // The files were made before the thread.
        let pool = match path.exists() {
            true => Pool::<D>::open_as(&path, options.clone()).unwrap(),
            false => Pool::<D>::create_as(&path, options.clone()).unwrap(),
        };
        let count = pool.run(|tx| tx.alloc(7_u64)).unwrap().value;
        pool.close().unwrap();
        let refused = Pool::<D>::open_as(&path, options.clone().background(true)).unwrap_err();
        assert!(matches!(refused, Error::Thread { .. }), "{}: {refused}", D::NAME);
        let pool = Pool::<D>::open_as(&path, options).unwrap();
        assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 7);
    }
    create::<Decoupled>(dir, &options());
    create::<Snapshot>(dir, &options().group(4));
}

#[test]
fn background_thread_that_cannot_start_is_an_error() {
    const NAME: &str = "processes::background_thread_that_cannot_start_is_an_error";
    if let Some(dir) = child_dir() {
        return create_without_threads(&dir);
    }
    // A limit of processes counts those of a user, and does not bind root.
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        // Past the capture of the test's output: `.ci/run` lists these lines.
        let reason = "it takes root and setpriv to make a user with a limit";
        let _ = writeln!(std::io::stderr(), "skipped: {NAME}: {reason}");
        return;
    }
    let (dir, user) = (tempfile::tempdir().unwrap(), 1_100_000_000 + std::process::id());
    chown(dir.path(), Some(user), None).unwrap();
    let mut program = Command::new("setpriv");
    program.args([&format!("--reuid={user}"), "--clear-groups"]);
    program.arg(std::env::current_exe().unwrap());
    let output = child(&mut program, NAME, dir.path()).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
