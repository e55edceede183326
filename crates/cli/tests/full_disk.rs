//! The program on a disk that is full: what it says, and that nothing of what it tried is left.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::process::{Command, Output};

use common::{Room, text};

/// A program on a small disk of its own, in memory, that is there only for the shell.
struct SmallDisk {
    room: Room,
    /// How a namespace is made in which a file system can be mounted.
    flags: &'static str,
}

impl SmallDisk {
    /// Where that cannot be, says so.
    fn new(test: &str) -> Option<SmallDisk> {
        let room = Room::new();
        std::fs::create_dir(room.path("disk")).unwrap();
        let flags = ["-m", "-Urm"].into_iter().find(|flags| {
            let output = shell(&room, flags, "true", &[]);
            output.is_ok_and(|output| output.status.success())
        });
        if flags.is_none() {
            // Past the capture of the test's output.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no file system can be mounted");
        }
        Some(SmallDisk { room, flags: flags? })
    }

    /// Runs the program there, behind a line of shell; expects one line of error with these words,
    /// and these files afterwards.
    fn refuse(&self, before: &str, words: &str, arguments: &[&str], left: &str) {
        let line = format!("{before}; \"$@\"; code=$?; ls -A; exit $code");
        let output = shell(&self.room, self.flags, &line, arguments).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{stdout}\n{stderr}");
        assert!(stderr.starts_with("error: no room for ") && stderr.contains(words), "{stderr}");
        assert!(stderr.contains("free some space") && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(stdout.split_whitespace().collect::<Vec<_>>().join(" "), left, "{arguments:?}");
    }
}

/// A line of shell in a disk of 8 MiB, with the program and its arguments in `$@`.
fn shell(room: &Room, flags: &str, line: &str, arguments: &[&str]) -> std::io::Result<Output> {
    let mount = "mount -t tmpfs -o size=8m lastword disk && cd disk";
    let program = room.program();
    Command::new("unshare")
        .args([flags, "sh", "-c", &format!("{mount} && {{ {line}; }}"), "sh"])
        .arg(program.get_program())
        .args(arguments)
        .current_dir(room.path(""))
        .output()
}

#[test]
fn a_pool_that_has_no_room_is_refused_and_leaves_nothing() {
    let test = "a_pool_that_has_no_room_is_refused_and_leaves_nothing";
    let Some(disk) = SmallDisk::new(test) else { return };
    let bytes = (2_u64 << 20) + (16 << 20);
    let create = ["pool", "create", "a.pool", "--bytes", "16M", "--log-bytes", "1M"];
    disk.refuse(":", &format!("{bytes} bytes of a.pool;"), &create, "");
    let create = ["pool", "create", "a.pool", "--bytes", "1M", "--log-bytes", "16M"];
    disk.refuse(":", "of a.pool.log;", &create, "");
    let fill = "dd if=/dev/zero of=filler bs=4k 2>/dev/null";
    let create = ["pool", "create", "a.pool", "--bytes", "128K", "--log-bytes", "128K"];
    disk.refuse(fill, "of a.pool;", &create, "filler");
    for medium in ["file", "emulated"] {
        let run = ["run", "bank", "--pool", "a.pool", "--medium", medium, "--seconds", "1"];
        disk.refuse(":", "of a.pool", &run, "");
        disk.refuse(fill, "of a.pool", &run, "filler");
    }
}

#[test]
fn results_that_have_no_room_leave_those_of_an_earlier_run_whole() {
    let test = "results_that_have_no_room_leave_those_of_an_earlier_run_whole";
    let Some(disk) = SmallDisk::new(test) else { return };
    let line = "\"$@\" >../said && cp -r out ../whole && dd if=/dev/zero of=filler bs=4k 2>../dd; \
                \"$@\" >../said; code=$?; diff -r out ../whole && ls -A out; exit $code";
    let reproduce = ["reproduce", "redu", "C2", "--out", "out"];
    let output = shell(&disk.room, disk.flags, line, &reproduce).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{stdout}\n{stderr}");
    assert!(stderr.starts_with("error: writing out/redu.json: "), "{stderr}");
    assert_eq!(
        stdout.split_whitespace().collect::<Vec<_>>(),
        ["redu.csv", "redu.html", "redu.json"]
    );
}

#[test]
fn a_disk_that_has_no_room_is_not_measured() {
    let Some(disk) = SmallDisk::new("a_disk_that_has_no_room_is_not_measured") else { return };
    let measure = ["measure", "disk", "--writes", "1", "--rounds", "1"];
    disk.refuse(":", "67108864 bytes in .", &measure, "");
    disk.refuse("dd if=/dev/zero of=filler bs=4k 2>/dev/null", "in .", &measure, "filler");
}
