//! Log in a file under process limits. Each test runs in a child process.
//!
//! These tests are a program of their own. A child that is just starting has a copy of each of its
//! parent's descriptors and locks, which would disturb the unit tests.

use std::fs::File;
use std::io;
use std::path::Path;

use medium::sync::{Arc, Mutex, lock};
use medium::{Buffer, Error, FileLog, LogMedium, LogPath, PoolFile, Prewrite, ReadLog};

/// Set in the child process: its pool.
const CHILD: &str = "LASTWORD_TEST_CHILD";

const BYTES: u64 = 256 << 10;

const PATHS: [LogPath; 4] = [
    LogPath { io_uring: true, direct: true },
    LogPath { io_uring: true, direct: false },
    LogPath { io_uring: false, direct: true },
    LogPath { io_uring: false, direct: false },
];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a single test in a child process, under limits that the shell sets.
fn in_child(test: &str, limits: &str, pool: &Path) {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$0\" --exact {test}")])
        .arg(std::env::current_exe().expect("a test has a program"))
        .env(CHILD, pool)
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn failed_group_lets_earlier_groups_through() {
    const NAME: &str = "failed_group_lets_earlier_groups_through";
    let Some(pool) = std::env::var_os(CHILD) else {
        let _one = lock(&ONE_AT_A_TIME);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        PoolFile::create(&path, BYTES, Prewrite::Zeros).unwrap().publish().unwrap();
        // A write above the limit raises SIGXFSZ, whose default action ends the process.
        return in_child(NAME, "trap '' XFSZ; ulimit -f 128", &path);
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap();
    let file = Arc::new(PoolFile::open(pool).unwrap());
    for path in PATHS {
        let log = FileLog::with_path(file.clone(), 0, BYTES, path).unwrap();
        // The second is cut short at the limit, and its rest fails.
        let groups = [(limit - 8192, 512), (limit - 4096, 1024), (limit + 4096, 512), (0, 512)];
        let mut groups = groups.into_iter();
        let send = |(at, words)| drop(log.append(at, Buffer::new(words), words).unwrap());
        groups.by_ref().take(log.depth()).for_each(send);
        assert!(log.acknowledge(true).unwrap().is_some());
        groups.by_ref().take(1).for_each(send);
        let error = log.acknowledge(true).unwrap_err();
        let Error::Transfer { offset, bytes, source, .. } = error else { panic!("{error}") };
        assert_eq!((offset, bytes), (limit - 4096, 8192));
        assert_eq!(source.kind(), io::ErrorKind::FileTooLarge);
        for wait in [true, false] {
            assert!(matches!(log.acknowledge(wait), Err(Error::Poisoned { .. })));
        }
        assert!(matches!(log.append(0, Buffer::new(512), 512), Err(Error::Poisoned { .. })));
        assert_eq!(log.counts().persist_barriers, 1);
    }
}

#[test]
fn descriptor_limit_falls_back_to_blocking_path() {
    const NAME: &str = "descriptor_limit_falls_back_to_blocking_path";
    if std::env::var_os(CHILD).is_none() {
        let _one = lock(&ONE_AT_A_TIME);
        return in_child(NAME, "ulimit -n 64", Path::new("a pool of its own"));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = PoolFile::create(dir.path().join("pool"), BYTES, Prewrite::Zeros).unwrap();
    let file = Arc::new(file);
    let open = |path| {
        let log = FileLog::with_path(file.clone(), 0, BYTES, path).unwrap();
        log.append(0, Buffer::new(512), 512).unwrap();
        assert!(log.acknowledge(true).unwrap().is_some());
        log.path()
    };
    let free = PATHS.map(open);
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    assert_eq!(PATHS.map(open), [PATHS[3]; 4]);
    taken.pop();
    let LogPath { io_uring, direct } = free[0];
    assert_eq!(open(PATHS[0]), LogPath { io_uring: io_uring && !direct, direct });
    assert_eq!(open(PATHS[1]), free[1]);
    taken.pop();
    assert_eq!(PATHS.map(open), free);
}

/// In a process that may start no thread, io_uring finds no worker for a write that has to wait.
#[test]
fn queue_without_worker_falls_back_to_blocking_writes() {
    const NAME: &str = "queue_without_worker_falls_back_to_blocking_writes";
    if std::env::var_os(CHILD).is_none() {
        let _one = lock(&ONE_AT_A_TIME);
        return in_child(NAME, "true", Path::new("a pool of its own"));
    }
    let dir = tempfile::tempdir().unwrap();
    // The file's blocks are not written yet, so that direct writes have to wait too.
    let file = PoolFile::create(dir.path().join("pool"), BYTES, Prewrite::No).unwrap();
    let file = Arc::new(file);
    let logs = PATHS.map(|path| FileLog::with_path(file.clone(), 0, BYTES, path).unwrap());
    let before = logs.each_ref().map(FileLog::path);
    without_threads();
    for (log, before) in logs.iter().zip(before) {
        for wrap in 0..3_u64 {
            for at in 0..log.depth() as u64 {
                let mut group = Buffer::new(512);
                group.words_mut().fill(wrap << 32 | at);
                log.append(at * 8192, group, 512).unwrap();
            }
            for at in 0..log.depth() as u64 {
                let group = log.acknowledge(true).unwrap().unwrap();
                let mut found = [0; 512];
                log.read(at * 8192, &mut found).unwrap();
                assert!(group.words() == found && found == [wrap << 32 | at; 512]);
            }
        }
        assert!(log.acknowledge(true).unwrap().is_none());
        println!("{before}: {}", log.path());
        assert_eq!(
            log.path(),
            LogPath { io_uring: log.path().io_uring && before.io_uring, ..before }
        );
    }
    // A write through the page cache always has to wait for one.
    assert!(!logs[1].path().io_uring);
}

/// Takes the right to start threads from this process, or from this thread if root runs it.
fn without_threads() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) })
        .expect("a limit can be lowered");
    if rustix::process::geteuid().is_root() {
        // The limit does not bind root. Open descriptors stay open.
        let user = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(user, user, user).expect("root can become any user");
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err());
}
