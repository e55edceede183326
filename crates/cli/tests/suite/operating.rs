//! The commands of the book's Operating pages, run as they stand there.
//!
//! Each block of commands runs in a directory of its own, which has what the pages assume: closed
//! pools `my.pool` (with the collection `stock`) and `bank.pool`, a backup, a stream of a primary,
//! and its `follower.pool`. Absolute paths lead into that directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use lastword::{Options, Pool};

use crate::common::Room;

const PAGES: [&str; 6] = [
    "backup.md",
    "check-and-repair.md",
    "replication.md",
    "sizing.md",
    "troubleshooting.md",
    "upgrading.md",
];

/// Returns the blocks of shell commands of a page, each with its line.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let (mut blocks, mut block) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        match (line, &mut block) {
            ("```sh", _) => block = Some((number, String::new())),
            ("```", Some(_)) => blocks.extend(block.take()),
            (line, Some((_, commands))) => *commands += &format!("{line}\n"),
            (_, None) => {}
        }
    }
    blocks
}

/// Makes a directory as the pages assume it.
fn prepared() -> Room {
    let room = Room::new();
    for place in ["backup", "evidence"] {
        std::fs::create_dir(room.path(place)).unwrap();
    }
    for pool in ["my.pool", "bank.pool", "backup/bank.pool"] {
        room.expect(0, &["pool", "create", pool, "--bytes", "1M", "--log-bytes", "1M"]);
    }
    let pool = Pool::open(room.path("my.pool"), Options::new()).unwrap();
    pool.hash_map::<str, u64>("stock").unwrap();
    pool.close().unwrap();
    let primary = Pool::create(room.path("primary.pool"), Options::new().bytes(1 << 20)).unwrap();
    primary.backup(room.path("follower.pool")).unwrap();
    primary.close().unwrap();
    let stream = replica::DirectoryStream::create(room.path("stream")).unwrap();
    let options = Options::new();
    replica::Primary::begin(room.path("primary.pool"), options, &replica::Link::new(stream))
        .unwrap()
        .close()
        .unwrap();
    room
}

/// Whether the directory for temporary files is in persistent memory.
fn has_dax(room: &Room) -> bool {
    let made = room.run(&["pool", "create", "dax.pool", "--bytes", "1M", "--medium", "dax"]);
    made.status.success()
}

#[test]
fn commands_of_operating_pages_succeed() {
    let mut run = 0;
    for page in PAGES {
        for (line, commands) in blocks(page) {
            let room = prepared();
            let commands: Vec<&str> = commands
                .lines()
                .filter(|command| !command.contains("--medium dax") || has_dax(&room))
                .collect();
            let script = commands.join("\n");
            let here = room.path("");
            let script = ["/backup/", "/evidence/"].iter().fold(script, |script, place| {
                script.replace(place, &format!("{}{}", here.display(), &place[1..]))
            });
            let program = PathBuf::from(env!("CARGO_BIN_EXE_lastword"));
            let path = std::env::var("PATH").unwrap_or_default();
            let path = format!("{}:{path}", program.parent().unwrap().display());
            let mut shell = Command::new("sh");
            shell.arg("-euc").arg(&script).env("PATH", path).current_dir(&here);
            let output = shell.output().unwrap();
            let shown = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{page}, line {line}:\n{script}\n{shown}");
            run += commands.len();
        }
    }
    assert!(run > 20, "{run} commands");
}
