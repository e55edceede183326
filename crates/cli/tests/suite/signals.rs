//! Signals that end the program: its exit status, and the removal of its temporary files.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::common::Room;
use rustix::process::{Pid, Signal, kill_process};

/// Returns the signals that end the program.
///
/// A signal that this process ignores, as under `nohup`, is not among them: the program inherits
/// the disposition and keeps it.
fn ending() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let all = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
    all.into_iter().filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0).collect()
}

/// A run that does not end by itself.
const LONG: [&str; 4] = ["run", "bank", "--seconds", "600"];

/// Starts the program and waits until `is_ready` returns true.
fn started(mut program: Command, is_ready: impl Fn() -> bool) -> Child {
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_ready() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended by itself");
        std::thread::yield_now();
    }
    child
}

fn ended_by(mut child: Child, signal: Signal) -> ExitStatus {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap()
}

fn has_pool(room: &Room) -> bool {
    room.files().iter().any(|name| name.ends_with(".pool"))
}

/// Returns the names of all files except core files.
fn left(room: &Room) -> Vec<String> {
    room.files().into_iter().filter(|name| !name.starts_with("core")).collect()
}

#[test]
fn ending_signal_leaves_no_temporary_pool() {
    for signal in ending() {
        let room = Room::new();
        let mut program = room.program();
        program.args(LONG);
        let status = ended_by(started(program, || has_pool(&room)), signal);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert_eq!(left(&room), [""; 0], "{signal:?}");
    }
}

/// Returns a child of the process.
fn child_of(parent: &Child) -> Option<String> {
    let is_child = |process: &String| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        status.is_ok_and(|text| text.contains(&format!("\nPPid:\t{}\n", parent.id())))
    };
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.filter_map(|one| one.ok()?.file_name().into_string().ok()).find(is_child)
}

#[test]
fn ending_signal_ends_writers_silently() {
    let kill = ["crash", "kill", "--workload", "bank", "--seconds", "600", "--rounds", "9"];
    for command in [&["demo"][..], &kill] {
        let room = Room::new();
        let mut program = room.program();
        program.args(command).stdout(Stdio::null()).stderr(Stdio::piped());
        let parent = program.spawn().unwrap();
        let writer = loop {
            if let Some(writer) = child_of(&parent) {
                break writer;
            }
            std::thread::yield_now();
        };
        kill_process(Pid::from_child(&parent), Signal::TERM).unwrap();
        // Ends when the parent and the writer have closed the pipe.
        let output = parent.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(Signal::TERM.as_raw()), "{}", output.status);
        assert_eq!(crate::common::text(&output.stderr), "");
        assert_eq!(left(&room), [""; 0]);
        let status = std::fs::read_to_string(format!("/proc/{writer}/status"));
        assert!(status.is_err(), "the writer was not waited for: {status:?}");
    }
}

#[test]
fn commands_without_pools_end_by_the_same_signals() {
    for signal in ending() {
        let room = Room::new();
        let mut program = room.program();
        // The explorer runs for minutes and has no pool.
        let explore = ["crash", "explore", "--workload", "bank", "--medium-model", "file"];
        program.args(explore).args(["--seconds", "600"]);
        let child = started(program, || true);
        let status = ended_by(child, signal);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
    }
}

#[test]
fn ignored_signal_stays_ignored() {
    let room = Room::new();
    // `nohup` starts its program in this way.
    let mut program = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    program.current_dir(room.path("")).args(["-c", script]);
    program.arg(room.program().get_program()).args(LONG);
    let child = started(program, || has_pool(&room));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    // The next signal ends the program, so the ignored one did not.
    let status = ended_by(child, Signal::TERM);
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
    assert_eq!(left(&room), [""; 0]);
}
