//! The program on a full disk: it reports the missing space and leaves no file behind.

use std::io::Write;
use std::process::{Command, Output};

use crate::common::{Room, text};

/// A directory on which each shell command mounts a small tmpfs in a namespace of its own.
struct SmallDisk {
    room: Room,
    /// Flags of `unshare` for a namespace in which a file system can be mounted.
    flags: &'static str,
}

impl SmallDisk {
    /// Returns `None`, and prints that the test is skipped, if no file system can be mounted.
    fn new(test: &str) -> Option<SmallDisk> {
        let room = Room::new();
        std::fs::create_dir(room.path("disk")).unwrap();
        let flags = ["-m", "-Urm"].into_iter().find(|flags| {
            let output = shell(&room, flags, "true", &[]);
            output.is_ok_and(|output| output.status.success())
        });
        if flags.is_none() {
            // `writeln!` bypasses the test harness's capture of standard error.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no file system can be mounted");
        }
        Some(SmallDisk { room, flags: flags? })
    }

    /// Runs the shell line `before`, then the program. Expects one line of error that contains
    /// `words`, and the files `left` afterwards.
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

/// Runs a shell line on a disk of 8 MiB, with the program and its arguments in `$@`.
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
fn pool_without_room_leaves_no_file() {
    let test = "pool_without_room_leaves_no_file";
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
fn results_without_room_keep_earlier_ones() {
    let test = "results_without_room_keep_earlier_ones";
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
fn full_disk_is_not_measured() {
    let Some(disk) = SmallDisk::new("full_disk_is_not_measured") else { return };
    let measure = ["measure", "disk", "--writes", "1", "--rounds", "1"];
    disk.refuse(":", "67108864 bytes in .", &measure, "");
    disk.refuse("dd if=/dev/zero of=filler bs=4k 2>/dev/null", "in .", &measure, "filler");
}
