//! Processes that are stopped, and processes that may start no more threads.
//!
//! Each test runs itself in a child process.
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

/// Set in the child process: the directory of its pool.
const CHILD: &str = "LASTWORD_TEST_PROCESS";

/// Line that the child prints when its writer waits.
const WAITS: &str = "the writer waits";

/// Length of the stop. It exceeds the patience alone, without the child's time before and after.
const STOP: Timespec = Timespec { tv_sec: 1, tv_nsec: 500_000_000 };
const PATIENCE: Duration = Duration::from_millis(1000);

fn options() -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    options.medium(Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 })
}

fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Starts a child process that runs only this test.
fn child(program: &mut Command, test: &str, dir: &Path) -> Child {
    let program = program.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    let program = program.env(CHILD, dir).current_dir(dir);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Lets a writer wait for a reader until a line arrives on standard input.
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
                // An object has at most two versions, and the reader keeps the older one in use.
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
fn stopped_process_keeps_its_patience() {
    if let Some(dir) = child_dir() {
        return wait_for_a_reader(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    let mut child =
        child(&mut program, "processes::stopped_process_keeps_its_patience", dir.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains(WAITS)), "the child ended early");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{status:?}");
    // The length of the stop is the test's input. No event could end this wait earlier.
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
    let stop = Itimerspec { it_interval: Timespec::default(), it_value: STOP };
    let _ = timerfd_settime(&timer, TimerfdTimerFlags::empty(), &stop).unwrap();
    assert_eq!(rustix::io::read(&timer, &mut [0; 8]).unwrap(), 8, "the timer did not expire");
    kill_process(pid, Signal::CONT).unwrap();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{}", rest.join("\n"));
}

/// Creates pools with background threads in a process that may start none.
fn create_without_threads(dir: &Path) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    setrlimit(Resource::Nproc, Rlimit { current: Some(1), maximum }).unwrap();
    fn create<D: Design>(dir: &Path, options: &Options) {
        let path = dir.join(D::NAME);
        let refused = Pool::<D>::create_as(&path, options.clone()).unwrap_err();
        assert!(matches!(refused, Error::Thread { .. }), "{}: {refused}", D::NAME);
        assert!(refused.to_string().contains("thread"), "{refused}");
        let options = options.clone().background(false);
        // A design may make its files before its thread, so the refused pool may exist.
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
    // RLIMIT_NPROC counts all processes of a user and does not bind root, so the child runs as an
    // unused user.
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let reason = "only root, with `setpriv`, can become a user with a limit";
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
