//! The program under limits on processes and on the stack. It ends with a result or with an error,
//! and never with a panic.

use std::io::Write;
use std::process::{Command, Output};

use crate::common::{Room, text};

/// The names of the durable designs.
fn durable() -> impl Iterator<Item = &'static str> {
    let durable = lastword::DesignInfo::ALL.iter().filter(|design| design.is_durable);
    durable.map(|design| design.name)
}

/// Gives the directory to a user without other processes. Returns `None` if that is not possible.
fn user(room: &Room, test: &str) -> Option<u32> {
    // RLIMIT_NPROC counts all processes of a user and does not bind root.
    let is_root = rustix::process::geteuid().is_root();
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_root || !has("setpriv") || !has("prlimit") {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let reason = "a user with a limit needs root, setpriv and prlimit";
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
        return None;
    }
    // Each test gets a user of its own, because tests run concurrently.
    let salt = test.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31) + u32::from(byte));
    let user = 1_100_000_000 + salt % 1000 * 100_000 + std::process::id() % 100_000;
    std::os::unix::fs::chown(room.path(""), Some(user), None).unwrap();
    Some(user)
}

/// Runs the program as this user, with a limit of `processes`.
fn limited(room: &Room, user: u32, processes: u32, arguments: &[&str]) -> Output {
    let mut program = Command::new("setpriv");
    program.current_dir(room.path("")).args([&format!("--reuid={user}"), "--clear-groups"]);
    program.args(["prlimit", &format!("--nproc={processes}")]);
    program.arg(room.program().get_program()).args(arguments);
    program.output().unwrap()
}

/// Expects exit status 0 or 2 and no panic. Returns whether it was 0.
fn ended_well(output: &Output, case: &str) -> bool {
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked") && !stderr.contains("--help"), "{case}: {stderr}");
    match output.status.code() {
        Some(0) => true,
        Some(2) => {
            assert!(stderr.contains("error: "), "{case}: {stderr}");
            false
        }
        status => panic!("{case}: {status:?}: {stderr}"),
    }
}

#[test]
fn bank_under_any_process_limit_ends() {
    let room = Room::new();
    let Some(user) = user(&room, "bank_under_any_process_limit_ends") else { return };
    for design in durable() {
        for medium in ["file", "emulated"] {
            let mut held = 0;
            for processes in 1..=12 {
                let arguments = [
                    "run",
                    "bank",
                    "--design",
                    design,
                    "--medium",
                    medium,
                    "--threads",
                    "4",
                    "--seconds",
                    "0.02",
                    "--scale",
                    "0.001",
                    "--pool",
                    "a.pool",
                ];
                let output = limited(&room, user, processes, &arguments);
                let case = format!("{design} on {medium}, {processes} processes");
                held += usize::from(ended_well(&output, &case));
                for name in room.files() {
                    std::fs::remove_file(room.path(&name)).unwrap();
                }
            }
            // Both outcomes occur: 4 workers do not fit into one process slot and fit into 12.
            assert!((1..12).contains(&held), "{design} on {medium}: {held}");
        }
    }
}

#[test]
fn kill_writer_without_a_thread_is_an_error() {
    let room = Room::new();
    let Some(user) = user(&room, "kill_writer_without_a_thread_is_an_error") else { return };
    let mut refused = 0;
    for processes in 2..=12 {
        let arguments = [
            "crash",
            "kill",
            "--workload",
            "bank",
            "--rounds",
            "1",
            "--threads",
            "8",
            "--scale",
            "0.001",
            "--pool",
            "a.pool",
        ];
        let output = limited(&room, user, processes, &arguments);
        let is_held = ended_well(&output, &format!("{processes} processes"));
        refused += usize::from(!is_held && text(&output.stderr).contains("cannot start a"));
        for name in room.files() {
            std::fs::remove_file(room.path(&name)).unwrap();
        }
    }
    assert!(refused >= 3, "{refused}");
}

/// Runs the program under a limit that the shell sets.
fn under(room: &Room, limit: &str, arguments: &[&str]) -> Output {
    let mut shell = Command::new("sh");
    shell.current_dir(room.path("")).args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]);
    shell.arg(room.program().get_program()).args(arguments).output().unwrap()
}

#[test]
fn small_stack_is_no_hindrance() {
    let room = Room::new();
    let bank = ["run", "bank", "--seconds", "0.02", "--scale", "0.001", "--medium", "emulated"];
    for arguments in [&["--help"][..], &["pool", "check", "--help"], &bank, &["no-command"]] {
        let (free, small) = (room.run(arguments), under(&room, "ulimit -s 64", arguments));
        assert_eq!(small.status, free.status, "{arguments:?}: {}", text(&small.stderr));
        assert!(!text(&small.stderr).contains("overflow"), "{}", text(&small.stderr));
    }
    assert_eq!(room.files(), [""; 0]);
}
