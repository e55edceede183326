//! `lastword pool compact`, `export` and `import`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use crate::common::{Room, TINY, text};

/// A pool of the workload bank, in a heap that is mostly empty.
fn bank() -> Room {
    let room = Room::new();
    let run = ["run", "bank", "--pool", "bank.pool", "--bytes", "32M"];
    let run: Vec<&str> = run.into_iter().chain(TINY).collect();
    room.expect(0, &run);
    room
}

fn heap_bytes(room: &Room, pool: &str) -> u64 {
    room.json(0, &["pool", "info", pool])["heap_bytes"].as_u64().unwrap()
}

/// Checks the workload in a pool with a few more transactions.
fn goes_on(room: &Room, pool: &str) {
    room.expect(0, &["run", "bank", "--pool", pool, "--transactions", "3000"]);
}

#[test]
fn compacted_pool_is_smaller_and_goes_on() {
    let room = bank();
    let text = room.expect(0, &["pool", "compact", "bank.pool", "small.pool"]);
    assert!(text.starts_with("small.pool has the content of bank.pool, up to transaction "));
    assert!(text.contains(" pointers were translated"), "{text}");
    assert!(heap_bytes(&room, "small.pool") < heap_bytes(&room, "bank.pool") / 8);
    goes_on(&room, "small.pool");
    room.refuse("exists already", &["pool", "compact", "bank.pool", "small.pool"]);
    room.refuse("is too small", &["pool", "compact", "bank.pool", "new.pool", "--bytes", "128K"]);
    room.expect(0, &["pool", "compact", "bank.pool", "wide.pool", "--bytes", "4M"]);
    assert_eq!(heap_bytes(&room, "wide.pool"), 4 << 20);
    assert!(!room.files().contains(&"new.pool".into()));
}

#[test]
fn exported_pool_is_imported_from_files_and_pipes() {
    let room = bank();
    let shown = room.expect(0, &["pool", "export", "bank.pool", "bank.export"]);
    assert!(
        shown.starts_with("bank.export has ") && shown.contains(" objects of bank.pool, up to")
    );
    room.expect(0, &["pool", "import", "bank.export", "new.pool"]);
    goes_on(&room, "new.pool");
    // An export is never replaced.
    room.refuse("bank.export", &["pool", "export", "bank.pool", "bank.export"]);
    room.refuse("cannot open missing", &["pool", "import", "missing", "other.pool"]);

    let piped = room.run(&["pool", "export", "bank.pool", "-"]);
    assert!(piped.status.success() && piped.stderr.is_empty());
    assert_eq!(piped.stdout, std::fs::read(room.path("bank.export")).unwrap());
    let import = |input: Stdio, pool: &str| {
        let mut program = room.program();
        program.args(["pool", "import", "-", pool]).stdin(input).output().unwrap()
    };
    let input = File::open(room.path("bank.export")).unwrap();
    assert!(import(input.into(), "piped.pool").status.success());
    goes_on(&room, "piped.pool");
    // Nothing arrives.
    let refused = import(Stdio::null(), "empty.pool");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is not an export"));
    assert!(!room.path("empty.pool").exists());
    for command in ["check", "info", "dump"] {
        room.refuse("is an export, not a pool", &["pool", command, "bank.export"]);
    }
}

#[test]
fn export_of_damaged_pool_needs_salvage() {
    let room = bank();
    let pool = OpenOptions::new().write(true).open(room.path("bank.pool")).unwrap();
    let begin = pool.metadata().unwrap().len() - (32 << 20);
    // Behind the allocator's own 64 KiB.
    pool.write_all_at(&[0xa5; 8], begin + (66 << 10) + 64).unwrap();
    let refused = ["pool", "export", "bank.pool", "bank.export"];
    room.refuse("differs from its checksum", &refused);
    assert!(!room.path("bank.export").exists());
    let salvage = [&refused[..], &["--salvage"]].concat();
    let text = room.expect(1, &salvage);
    assert!(text.contains(" damaged objects are left out; the pool is damaged"), "{text}");
    let text = room.expect(0, &["pool", "import", "bank.export", "rest.pool"]);
    assert!(text.contains("the export is the salvage of a damaged pool"), "{text}");
    assert!(room.json(0, &["pool", "check", "rest.pool"])["sound"] == true);
}
