//! Unwritable standard output and closed standard error.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

use crate::common::{Room, text};

/// Commands that print, each by another path through the code.
const PRINTING: [&[&str]; 12] = [
    &["--help"],
    &["--version"],
    &["pool", "dump", "--help"],
    &["help", "run"],
    &["pool", "info", "a.pool"],
    &["pool", "check", "a.pool", "--format", "json"],
    &["pool", "dump", "a.pool"],
    &["pool", "dump", "a.pool", "--format", "jsonl"],
    &["man"],
    &["completions", "bash"],
    &["sim", "list"],
    &["reproduce", "dudetm", "--list"],
];

fn room_with_pool() -> Room {
    let room = Room::new();
    room.expect(
        0,
        &["run", "bank", "--pool", "a.pool", "--transactions", "10", "--scale", "0.001"],
    );
    room
}

/// Runs the program in a shell with this redirection.
fn redirected(room: &Room, arguments: &[&str], redirection: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.current_dir(room.path("")).arg("-c").arg(format!("exec \"$0\" \"$@\" {redirection}"));
    shell.arg(room.program().get_program()).args(arguments);
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn closed_stdout_is_an_error() {
    let room = room_with_pool();
    for arguments in PRINTING {
        let Output { status, stderr, .. } = redirected(&room, arguments, ">&-");
        let stderr = text(&stderr);
        assert_eq!(status.code(), Some(2), "{arguments:?} {stderr}");
        assert!(stderr.starts_with("error: standard output is closed"), "{arguments:?} {stderr}");
    }
    // A command whose outcome could not be printed must not start its work.
    let create = ["pool", "create", "b.pool", "--bytes", "1M"];
    assert_eq!(redirected(&room, &create, ">&-").status.code(), Some(2));
    assert_eq!(room.files(), ["a.pool", "a.pool.log"]);
}

#[test]
fn full_stdout_is_an_error() {
    let room = room_with_pool();
    for arguments in PRINTING {
        let Output { status, stderr, .. } = redirected(&room, arguments, ">/dev/full");
        let stderr = text(&stderr);
        assert_eq!(status.code(), Some(2), "{arguments:?} {stderr}");
        let why = "error: cannot write to standard output: No space left on device";
        assert!(stderr.starts_with(why), "{arguments:?} {stderr}");
    }
}

/// The work is done when its report cannot be printed, and the error says so.
#[test]
fn lost_report_of_done_work_is_named() {
    let room = room_with_pool();
    let create = ["pool", "create", "b.pool", "--bytes", "1M", "--log-bytes", "1M"];
    for (command, done) in [
        (&create[..], "error: b.pool is created, but the report is lost: cannot write"),
        (&["pool", "check", "a.pool", "--repair"], "error: the repair is done, but"),
    ] {
        let Output { status, stderr, .. } = redirected(&room, command, ">/dev/full");
        let stderr = text(&stderr);
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(done), "{stderr}");
    }
    assert!(room.files().contains(&"b.pool".to_owned()));
}

#[test]
fn dev_null_is_accepted_as_stdout() {
    let room = room_with_pool();
    for arguments in PRINTING {
        // `1<>` opens it for reading and writing, as Rust's runtime does for a closed descriptor.
        for redirection in [">/dev/null", "1<>/dev/null"] {
            let Output { status, stderr, .. } = redirected(&room, arguments, redirection);
            assert_eq!(status.code(), Some(0), "{arguments:?} {}", text(&stderr));
        }
    }
}

#[test]
fn closed_pipe_is_no_error() {
    let room = room_with_pool();
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let Output { status, stderr, .. } =
            room.program().args(arguments).stdout(writer).output().unwrap();
        assert_eq!((status.code(), text(&stderr)), (Some(0), String::new()), "{arguments:?}");
    }
    // A failed check keeps its exit status, although its reader is gone.
    let path = room.path("a.pool");
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(8192).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let check = room.program().args(["pool", "check", "a.pool"]).stdout(writer).output().unwrap();
    assert_eq!(check.status.code(), Some(1), "{}", text(&check.stderr));
}

#[test]
fn closed_stderr_never_panics() {
    let room = room_with_pool();
    for (arguments, code) in [
        (&["pool", "info", "no.pool"][..], 2),
        (&["no-such-command"], 2),
        (&["pool", "info", "a.pool"], 0),
        (&["run", "bank", "--transactions", "10", "--scale", "0.001"], 0),
    ] {
        for redirection in ["2>&-", "2>/dev/full"] {
            let output = redirected(&room, arguments, redirection);
            assert_eq!(output.status.code(), Some(code), "{arguments:?} {redirection}");
        }
        let output = redirected(&room, arguments, ">&- 2>&-");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
