//! Descriptors that a pool's files must not get: those of standard input, output and error.
//!
//! The test closes descriptor 0 of its process, so it is a program of its own.

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use medium::sync::Arc;
use medium::{Buffer, FileLog, LogMedium, LogPath, PoolFile, Prewrite};

/// Returns the path behind descriptor 0, if it is open.
fn standard_input() -> Option<std::path::PathBuf> {
    std::fs::read_link("/proc/self/fd/0").ok()
}

#[test]
fn files_and_queues_leave_standard_input_closed() {
    if !Path::new("/proc/self/fd").is_dir() {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let reason = "only /proc shows which descriptors are open";
        let _ = writeln!(std::io::stderr(), "skipped: standard_input: {reason}");
        return;
    }
    // SAFETY: nothing in this process owns standard input or reads it.
    drop(unsafe { OwnedFd::from_raw_fd(0) });
    assert_eq!(standard_input(), None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let file = PoolFile::create(&path, 1 << 18, Prewrite::Zeros).unwrap();
    file.publish().unwrap();
    file.measure_flush().unwrap();
    drop(file);
    let file = Arc::new(PoolFile::open(&path).unwrap());
    file.settle_name().unwrap();
    for (io_uring, direct) in [(true, true), (true, false), (false, true), (false, false)] {
        let log = LogPath { io_uring, direct };
        let log = FileLog::with_path(file.clone(), 0, 1 << 18, log).unwrap();
        log.append(0, Buffer::new(512), 512).unwrap();
        assert!(log.acknowledge(true).unwrap().is_some());
        assert_eq!(standard_input(), None, "{}", log.path());
    }
    drop(file);
    let shared = PoolFile::open_shared(&path).unwrap();
    assert_eq!((standard_input(), shared.len()), (None, 1 << 18));
}
