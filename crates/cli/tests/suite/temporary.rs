//! Pools whose files are removed: those of killed runs, and those of a pool in use.

use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};

use crate::common::{Room, TINY, with};

/// The content of the removed files ends with the command, so no error leads to `/proc`.
#[test]
fn removed_pool_is_reported_as_lost() {
    let room = Room::new();
    let mut program = room.program();
    program.args(["run", "bank", "--pool", "a.pool", "--seconds", "3"]);
    let run = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let names = ["a.pool", "a.pool.log"];
    // The log begins behind its heads. Its first group shows that the pool is open.
    let is_written = |log: std::fs::File| {
        let mut word = [0; 8];
        log.read_exact_at(&mut word, 8192).is_ok() && word != [0; 8]
    };
    while !std::fs::File::open(room.path(names[1])).is_ok_and(is_written) {
        std::thread::yield_now();
    }
    for name in names {
        std::fs::remove_file(room.path(name)).unwrap();
    }
    let output = run.wait_with_output().unwrap();
    let stderr = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("a.pool was removed") && stderr.contains("lost with"), "{stderr}");
    assert!(!stderr.contains("/proc"), "{stderr}");
}

/// A run that does not end by itself; killed (`kill -9`) on drop.
struct LongRun(Child);

impl LongRun {
    /// Starts a run, and waits until its pool is created.
    fn started(room: &Room) -> LongRun {
        let mut program = room.program();
        program.args(["run", "bank", "--seconds", "600"]).stdout(Stdio::null());
        let mut run = LongRun(program.spawn().unwrap());
        let pool = format!("lastword-temporary-{}-0.pool", run.0.id());
        while ![&pool, &format!("{pool}.log")].iter().all(|name| room.path(name).exists()) {
            assert!(run.0.try_wait().unwrap().is_none(), "the run ended by itself");
            std::thread::yield_now();
        }
        run
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn next_run_removes_files_of_killed_run() {
    let room = Room::new();
    drop(LongRun::started(&room));
    let left = room.files();
    assert!(!left.is_empty() && left.iter().all(|name| name.contains("temporary")), "{left:?}");
    std::fs::write(room.path("mine.pool"), "mine").unwrap();
    room.json(0, &with(&["run", "empty"], &TINY));
    assert_eq!(room.files(), ["mine.pool"]);
}

#[test]
fn next_run_removes_files_beside_a_running_one() {
    let room = Room::new();
    let running = LongRun::started(&room);
    let kept = room.files();
    drop(LongRun::started(&room));
    assert!(room.files().len() > kept.len());
    room.json(0, &with(&["run", "empty"], &TINY));
    assert_eq!(room.files(), kept);
    drop(running);
}
