//! `lastword pool` on sound, damaged, busy and unclean pools.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use crate::common::{Room, keys};
use lastword::{Addr, Allocate, Decoupled, Objects, Options, Pool, Ptr, Stop, Tx, Words};

const SMALL: [&str; 4] = ["--bytes", "256K", "--log-bytes", "128KiB"];

/// Returns a directory with a pool on this medium.
fn created(medium: &str) -> Room {
    let room = Room::new();
    let create = ["pool", "create", "a.pool", "--medium", medium, "--layout", "ledger"];
    room.expect(0, &crate::common::with(&create, &SMALL));
    room
}

/// Returns a directory with an abandoned pool whose log holds this many transactions.
fn crashed(medium: &str, transactions: u64) -> Room {
    let room = created(medium);
    let pool = Pool::open(room.path("a.pool"), Options::new().layout("ledger", 0)).unwrap();
    let counter = pool.run(|tx| {
        let counter = tx.alloc(0_u64)?;
        tx.set_root(counter.to_bits())?;
        Ok(counter)
    });
    let counter: Ptr<u64> = counter.unwrap().value;
    for _ in 1..transactions {
        let _ = pool.run(|tx| tx.update(counter, |n| n + 1)).unwrap();
    }
    pool.flush().unwrap();
    pool.abandon();
    room
}

/// Returns the name and content of every file.
fn contents(room: &Room) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = std::fs::read(room.path(&name)).unwrap();
        (name, bytes)
    };
    room.files().into_iter().map(read).collect()
}

fn open(room: &Room, name: &str) -> File {
    OpenOptions::new().write(true).open(room.path(name)).unwrap()
}

/// A name read from a file must not reach the terminal as an escape sequence. The stored name stays
/// as it is.
#[test]
fn control_characters_of_a_layout_are_escaped() {
    let room = Room::new();
    let layout = "\u{1b}[2Jbank";
    room.expect(0, &crate::common::with(&["pool", "create", "a.pool", "--layout", layout], &SMALL));
    let text = room.expect(0, &["pool", "info", "a.pool"]);
    assert!(text.contains("\\u{1b}[2Jbank, version 0") && !text.contains('\u{1b}'), "{text}");
    let found = lastword::inspect(room.path("a.pool")).unwrap().layout;
    assert_eq!(found, (layout.to_owned(), 0));
    Pool::open(room.path("a.pool"), Options::new().layout(&found.0, found.1)).unwrap();
}

#[test]
fn size_limit_is_an_error_without_signal() {
    let room = Room::new();
    let create = ["pool", "create", "a.pool", "--bytes", "256K", "--log-bytes", "128K"];
    let run = ["run", "bank", "--pool", "a.pool", "--seconds", "1"];
    for arguments in [&create[..], &run] {
        let output = std::process::Command::new("sh")
            .args(["-c", "ulimit -f 64; exec \"$0\" \"$@\""])
            .arg(room.program().get_program())
            .args(arguments)
            .current_dir(room.path(""))
            .output()
            .unwrap();
        let stderr = crate::common::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}, {stderr}", output.status);
        assert!(stderr.contains("a.pool") && stderr.contains("`ulimit -f`"), "{stderr}");
        assert!(room.files().is_empty(), "{:?}", room.files());
    }
}

#[test]
fn new_pool_is_described_and_sound() {
    for medium in ["file", "emulated"] {
        let room = created(medium);
        let info = room.json(0, &["pool", "info", "a.pool"]);
        let expected = [
            "checksummed_bytes",
            "clean",
            "collections",
            "compress",
            "design",
            "file_bytes",
            "file_system",
            "flush_ns",
            "generation",
            "group",
            "heap",
            "heap_bytes",
            "in_use",
            "layout",
            "layout_version",
            "log_bytes",
            "log_path",
            "medium",
            "memory_bytes",
            "owner",
            "ownership_records",
            "page_cache",
            "path",
            "pool_id",
            "reproduced_id",
            "survives_power_loss",
        ];
        assert_eq!(keys(&info), expected);
        assert_eq!(info["log_path"].is_string(), medium == "file");
        // A mapped pool is not flushed to a disk, so it has no time of a flush.
        assert_eq!(info["flush_ns"].as_u64().is_some_and(|ns| ns > 0), medium == "file");
        let memory = &info["memory_bytes"];
        let expected = [
            "files",
            "gathered_max",
            "heap",
            "ownership_records",
            "page_table",
            "queue_max",
            "ring_per_worker",
            "total_max_with_one_worker",
        ];
        assert_eq!(keys(memory), expected);
        assert_eq!((&memory["heap"], &memory["queue_max"]), (&262_144.into(), &131_072.into()));
        let parts = expected[..7].iter().map(|key| memory[key].as_u64().unwrap());
        assert_eq!(memory["total_max_with_one_worker"], parts.sum::<u64>());
        assert_eq!((&info["medium"], &info["layout"]), (&medium.into(), &"ledger".into()));
        assert_eq!((&info["heap_bytes"], &info["log_bytes"]), (&262_144.into(), &131_072.into()));
        let bytes = |(_, content): (String, Vec<u8>)| content.len() as u64;
        assert_eq!(info["file_bytes"], contents(&room).into_iter().map(bytes).sum::<u64>());
        assert_eq!((&info["clean"], &info["design"]), (&true.into(), &"decoupled".into()));
        let check = room.json(0, &["pool", "check", "a.pool"]);
        assert_eq!((&check["sound"], &check["needs_recovery"]), (&true.into(), &false.into()));
        let table = room.expect(0, &["pool", "check", "a.pool"]);
        assert!(table.starts_with("a.pool is sound\n") && table.contains("ledger"), "{table}");
    }
}

#[test]
fn created_pool_has_requested_layout_version() {
    let room = Room::new();
    let create = ["pool", "create", "a.pool", "--layout", "bank", "--layout-version", "3"];
    let info = room.json(0, &crate::common::with(&create, &SMALL));
    assert_eq!((&info["layout"], &info["layout_version"]), (&"bank".into(), &3.into()));
    room.json(0, &["pool", "check", "a.pool", "--layout", "bank", "--layout-version", "3"]);
    drop(Pool::open(room.path("a.pool"), Options::new().layout("bank", 3)).unwrap());
}

#[test]
fn directory_or_link_in_place_of_a_pool_is_named() {
    let room = Room::new();
    std::fs::create_dir(room.path("d")).unwrap();
    std::os::unix::fs::symlink("nowhere", room.path("l")).unwrap();
    for name in ["d", "l"] {
        for command in ["create", "info", "check", "dump"] {
            room.refuse(&format!("{name} is not a regular file"), &["pool", command, name]);
        }
    }
    assert_eq!(room.files(), ["d", "l"]);
}

#[test]
fn pool_in_memory_reports_no_power_loss_safety() {
    let dir = match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => dir,
        Err(reason) => {
            let test = "pool_in_memory_reports_no_power_loss_safety";
            // `writeln!` bypasses the test harness's capture of standard error.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: /dev/shm: {reason}");
            return;
        }
    };
    let path = dir.path().join("a.pool");
    let path = path.to_str().unwrap();
    let room = Room::new();
    for medium in ["file", "emulated"] {
        room.expect(0, &crate::common::with(&["pool", "create", path, "--medium", medium], &SMALL));
        let info = room.json(0, &["pool", "info", path]);
        assert_eq!(
            (&info["file_system"], &info["survives_power_loss"]),
            (&"tmpfs".into(), &false.into())
        );
        let files = info["memory_bytes"]["files"].as_u64().unwrap();
        let bytes = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().metadata().unwrap();
        let on_disk = dir.path().read_dir().unwrap().map(bytes).map(|file| file.len());
        assert_eq!(files, on_disk.sum::<u64>(), "the files are not counted as memory");
        let table = room.expect(0, &["pool", "info", path]);
        assert!(table.contains("kill -9, not power loss") && table.contains("tmpfs"), "{table}");
        let flush = table.lines().find(|line| line.trim_start().starts_with("flush"));
        let has_unit = |line: &str| ["ns", "us", "ms"].iter().any(|unit| line.contains(unit));
        assert_eq!(flush.is_some_and(has_unit), medium == "file", "{table}");
        std::fs::remove_file(path).unwrap();
        let _ = std::fs::remove_file(format!("{path}.log"));
    }
}

#[test]
fn existing_pool_is_not_overwritten() {
    let room = created("file");
    let before = contents(&room);
    room.refuse("exists", &["pool", "create", "a.pool"]);
    room.refuse("at least 128 KiB", &["pool", "create", "b.pool", "--bytes", "1K"]);
    room.refuse("32 bytes", &["pool", "create", "b.pool", "--layout", &"x".repeat(33)]);
    assert_eq!(contents(&room), before);
}

#[test]
fn check_of_unclean_pool_writes_nothing() {
    for medium in ["file", "emulated"] {
        let room = crashed(medium, 100);
        let before = contents(&room);
        let check = room.json(0, &["pool", "check", "a.pool"]);
        let expected = [
            "blocks",
            "checksummed_bytes",
            "clean",
            "collections",
            "compress",
            "design",
            "durable_id",
            "file_bytes",
            "file_system",
            "findings",
            "flush_ns",
            "generation",
            "group",
            "heap",
            "heap_bytes",
            "in_use",
            "layout",
            "layout_version",
            "log_bytes",
            "log_path",
            "medium",
            "memory_bytes",
            "needs_recovery",
            "object_bytes",
            "objects",
            "opens",
            "owner",
            "ownership_records",
            "page_cache",
            "path",
            "pool_id",
            "reproduced_id",
            "sound",
            "survives_power_loss",
            "torn_end",
            "transactions_to_replay",
        ];
        assert_eq!(keys(&check), expected);
        assert_eq!((&check["needs_recovery"], &check["clean"]), (&true.into(), &false.into()));
        assert_eq!(check["durable_id"], 100);
        let sum = |a: &str, b: &str| check[a].as_u64().unwrap() + check[b].as_u64().unwrap();
        assert_eq!(sum("reproduced_id", "transactions_to_replay"), 100);
        assert_eq!(contents(&room), before, "{medium}");
        // Opening finds the transactions that the check reported.
        let pool = Pool::open(room.path("a.pool"), Options::new().layout("ledger", 0)).unwrap();
        let value = pool.run(|tx| {
            let root = tx.root()?;
            tx.get(Ptr::<u64>::from_bits(root))
        });
        assert_eq!(value.unwrap().value, 99);
    }
}

/// Runs a transaction in a pool of the layout `ledger`, then closes or abandons the pool.
fn change(room: &Room, clean: bool, body: impl Fn(&mut Tx<'_, Decoupled>) -> Result<(), Stop>) {
    let pool = Pool::open(room.path("a.pool"), Options::new().layout("ledger", 0)).unwrap();
    pool.run(body).unwrap().ticket.wait().unwrap();
    if clean { pool.close().unwrap() } else { pool.abandon() }
}

#[test]
fn heap_use_is_described_by_size_class() {
    for clean in [true, false] {
        let room = created("file");
        change(&room, clean, |tx| {
            let freed = tx.allocate(100)?;
            (0..3).try_for_each(|_| tx.allocate(100).map(drop))?;
            tx.allocate(1000)?;
            tx.reserve_blocks(20)?;
            tx.retire(Addr::new(freed, 0), 100)
        });
        for command in ["info", "check"] {
            let heap = &room.json(0, &["pool", command, "a.pool"])["heap"];
            // A slab has as many slots as fit in 2 KiB, the share of one in this heap.
            let small = serde_json::json!({
                "slot_bytes": 128,
                "slabs": 1,
                "live_objects": 3,
                "live_bytes": 3 * 128,
                "free_bytes": 12 * 128,
            });
            assert_eq!(heap["classes"][0], small, "{command}, clean {clean}");
            assert_eq!(heap["classes"][1]["slot_bytes"], 1040);
            assert_eq!((&heap["objects"], &heap["arrays"]), (&4.into(), &1.into()));
            // An array takes whole KiB: 20 blocks of 272 bytes, and a head.
            assert_eq!(heap["array_bytes"], 6 << 10);
            assert_eq!(heap["live_bytes"], 3 * 128 + 1040 + (6 << 10));
            let number = |key: &str| heap[key].as_f64().unwrap();
            let free = number("free_bytes") + number("free_slot_bytes");
            let fragmentation = 1.0 - number("largest_free_bytes") / free;
            assert!((number("fragmentation") - fragmentation).abs() < 1e-9, "{heap}");
            assert_eq!(heap["unknown_bytes"], 0);
        }
        let table = room.expect(0, &["pool", "info", "a.pool"]);
        let row = |name: &str| table.lines().find(|line| line.trim_start().starts_with(name));
        for name in ["heap, live", "heap, free", "heap, fragmentation", "arrays", "slots"] {
            assert!(row(name).is_some(), "{name} is missing: {table}");
        }
        assert!(row("slots").unwrap().contains("of 128 B: 3 live (384 B)"), "{table}");
    }
}

#[test]
fn missing_pool_is_not_checked() {
    let room = created("file");
    for command in ["info", "check"] {
        room.refuse("does not exist", &["pool", command, "b.pool"]);
        room.refuse("not a regular file", &["pool", command, "."]);
    }
    room.expect(0, &["pool", "check", "a.pool"]);
}

/// Expects that `check` fails with this reason, that `info` exits with this status, and that
/// neither changes a file.
fn assert_damaged(room: &Room, why: &str, info: i32) {
    let before = contents(room);
    let output = room.run(&["pool", "check", "a.pool", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", crate::common::text(&output.stderr));
    let check: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&check["sound"], &check["opens"]), (&false.into(), &(info == 0).into()));
    assert_eq!(check["path"], "a.pool");
    let finding = &check["findings"][0];
    let expected = ["affected", "at", "file", "problem", "remedy", "severity", "what"];
    assert_eq!(keys(finding), expected);
    let severity = if info == 0 { "damage" } else { "refused" };
    assert_eq!(finding["severity"], severity, "{finding}");
    let what = finding["what"].as_str().unwrap();
    assert!(what.contains(why), "{what}");
    let stderr = crate::common::text(&output.stderr);
    assert!(stderr.starts_with("check failed: ") && stderr.contains(what), "{stderr}");
    let output = room.run(&["pool", "info", "a.pool"]);
    assert_eq!(output.status.code(), Some(info), "{}", crate::common::text(&output.stderr));
    assert_eq!(contents(room), before);
}

#[test]
fn truncated_pool_is_damaged() {
    let room = created("file");
    let bytes = std::fs::metadata(room.path("a.pool")).unwrap().len();
    open(&room, "a.pool").set_len(bytes - 4096).unwrap();
    assert_damaged(&room, "truncated", 2);
    open(&room, "a.pool").set_len(1000).unwrap();
    assert_damaged(&room, "neither copy of the superblock", 2);
}

#[test]
fn garbage_and_empty_files_are_refused() {
    let room = Room::new();
    let garbage: Vec<u8> =
        (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in [&garbage[..], &[0; 100_000], b""] {
        std::fs::write(room.path("a.pool"), content).unwrap();
        assert_damaged(&room, "neither copy of the superblock", 2);
    }
}

#[test]
fn missing_or_short_log_is_damage() {
    let room = crashed("file", 10);
    let log = room.path("a.pool.log");
    let bytes = std::fs::metadata(&log).unwrap().len();
    open(&room, "a.pool.log").set_len(bytes / 2).unwrap();
    assert_damaged(&room, "the log has 69632 bytes, not 139264", 2);
    std::fs::remove_file(log).unwrap();
    assert_damaged(&room, "is missing", 2);
}

#[test]
fn overwritten_heap_is_damage() {
    let room = created("file");
    let heap = 2 << 20;
    open(&room, "a.pool").write_all_at(&[0xa5; 65536], heap).unwrap();
    let check = room.json(1, &["pool", "check", "a.pool"]);
    assert_eq!((&check["sound"], &check["opens"]), (&false.into(), &false.into()));
    let [pages, header] = [0, 1].map(|finding| &check["findings"][finding]);
    assert_eq!((&pages["problem"], &pages["at"]), (&"damaged_pages".into(), &heap.into()));
    assert_eq!(pages["what"], "16 pages of the heap differ from their checksums");
    assert!(header["what"].as_str().unwrap().contains("no heap starts here"), "{header}");
    // A description reads no page.
    room.expect(0, &["pool", "info", "a.pool"]);
}

#[test]
fn scrub_names_damaged_pages() {
    let room = created("file");
    let scrub = ["pool", "scrub", "a.pool"];
    let text = room.expect(0, &scrub);
    assert!(text.starts_with("a.pool has no damaged page\n"), "{text}");
    for at in [70_000, 200_000] {
        open(&room, "a.pool").write_all_at(&[0xa5; 8], (2 << 20) + at).unwrap();
    }
    let before = contents(&room);
    let found = room.json(1, &scrub);
    let damaged = [(2 << 20) + 69_632, (2 << 20) + 196_608];
    assert_eq!(found["damaged"], serde_json::json!(damaged));
    assert_eq!((&found["pages"], &found["compared"]), (&found["compared"], &found["pages"]));
    let text = room.expect(1, &scrub);
    assert!(text.starts_with("a.pool has 2 damaged pages\n"), "{text}");
    room.expect(1, &["pool", "dump", "a.pool", "--salvage"]);
    assert_eq!(contents(&room), before);
    room.refuse("does not exist", &["pool", "scrub", "b.pool"]);
}

#[test]
fn repair_fixes_copies_and_reports_the_rest() {
    let room = crashed("file", 10);
    let before = contents(&room);
    let damage = |name, at| open(&room, name).write_all_at(&[0xa5; 8], at).unwrap();
    damage("a.pool", 100);
    damage("a.pool.log", 4096 + 30);
    let check = room.json(1, &["pool", "check", "a.pool"]);
    assert_eq!(check["opens"], true);
    let problems = |findings: &serde_json::Value| -> Vec<String> {
        let findings = findings.as_array().unwrap().iter();
        findings.map(|one| one["problem"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(problems(&check["findings"]), ["superblock_copy", "log_head_copy"]);
    let table = room.expect(1, &["pool", "check", "a.pool"]);
    assert!(table.starts_with("a.pool is whole and opens, but needs a repair\n"), "{table}");
    let repair = room.json(0, &["pool", "check", "a.pool", "--repair"]);
    assert_eq!(problems(&repair["repaired"]["fixed"]), ["superblock_copy", "log_head_copy"]);
    assert_eq!((&repair["sound"], problems(&repair["findings"]).len()), (&true.into(), 0));
    assert_eq!(contents(&room), before, "the repair did not restore the copies");
    // Both heads of the log cannot be repaired. Then the superblock's copy is left as it is, too.
    damage("a.pool", 100);
    damage("a.pool.log", 30);
    damage("a.pool.log", 4096 + 30);
    let damaged = contents(&room);
    let repair = room.json(1, &["pool", "check", "a.pool", "--repair"]);
    let left = &repair["repaired"]["left"];
    assert_eq!(problems(left), ["superblock_copy", "no_log_head", "heap_unchecked"]);
    assert!(left[0]["why"].as_str().unwrap().contains("something else is wrong"), "{left}");
    assert_eq!(contents(&room), damaged, "the refused repair changed a file");
    let output = room.run(&["pool", "check", "a.pool", "--repair"]);
    assert_eq!(output.status.code(), Some(1));
    let table = crate::common::text(&output.stdout);
    assert!(table.contains("remedy") && table.contains("not repaired"), "{table}");
}

#[test]
fn busy_pool_is_not_repaired() {
    let room = created("file");
    let pool = Pool::open(room.path("a.pool"), Options::new().layout("ledger", 0)).unwrap();
    room.refuse("in use", &["pool", "check", "a.pool", "--repair"]);
    drop(pool);
}

#[test]
fn lost_log_of_clean_pool_is_recreated() {
    let room = crashed("file", 10);
    Pool::open(room.path("a.pool"), Options::new().layout("ledger", 0)).unwrap().close().unwrap();
    std::fs::remove_file(room.path("a.pool.log")).unwrap();
    let before = contents(&room);
    assert_damaged(&room, "the log is missing", 2);
    let check = room.json(1, &["pool", "check", "a.pool", "--repair"]);
    assert_eq!((&check["layout"], &check["layout_version"]), (&"ledger".into(), &0.into()));
    let finding = &check["findings"][0];
    assert!(finding["affected"].as_str().unwrap().contains("its heap is whole"), "{finding}");
    let command = "`lastword pool check --repair --without-log -- 'a.pool'`";
    assert!(finding["remedy"].as_str().unwrap().contains(command), "{finding}");
    room.refuse("without_log", &["pool", "info", "a.pool"]);
    assert_eq!(room.expect(0, &["pool", "dump", "a.pool"]).lines().count(), 2);
    let info = room.json(0, &["pool", "info", "a.pool", "--without-log"]);
    assert_eq!(info["clean"], true);
    assert_eq!(contents(&room), before, "a command without --repair changed a file");
    let repair = room.json(0, &["pool", "check", "a.pool", "--repair", "--without-log"]);
    assert_eq!(repair["repaired"]["fixed"][0]["problem"], "log_lost");
    assert_eq!((&repair["sound"], &repair["opens"]), (&true.into(), &true.into()));
    room.expect(0, &["pool", "check", "a.pool"]);
}

#[test]
fn check_refuses_unexpected_layout() {
    for medium in ["file", "emulated"] {
        let room = created(medium);
        room.expect(0, &["pool", "check", "a.pool", "--layout", "ledger"]);
        let version = ["pool", "check", "a.pool", "--layout", "ledger", "--layout-version", "2"];
        let check = room.json(1, &version);
        assert_eq!((&check["opens"], &check["layout"]), (&false.into(), &"ledger".into()));
        assert_eq!(check["findings"][0]["problem"], "layout");
        room.refuse("has layout", &["pool", "info", "a.pool", "--layout", "shop"]);
        room.expect(1, &["pool", "check", "a.pool", "--layout", "shop"]);
        let refused = Pool::open(room.path("a.pool"), Options::new().layout("shop", 0));
        assert!(matches!(refused, Err(lastword::Error::Layout { .. })));
    }
}

#[test]
fn heap_of_crashed_pool_grows() {
    for medium in ["file", "persistent_cache"] {
        let room = crashed(medium, 20);
        let text = room.expect(0, &["pool", "grow", "a.pool", "3M"]);
        assert!(text.contains("the heap of a.pool has 3145728 bytes"), "{text}");
        let info = room.json(0, &["pool", "info", "a.pool"]);
        assert_eq!((&info["heap_bytes"], &info["clean"]), (&(3 << 20).into(), &false.into()));
        room.expect(0, &["pool", "check", "a.pool"]);
        // A heap that is as large stays.
        let before = contents(&room);
        let text = room.expect(0, &["pool", "grow", "a.pool", "1M"]);
        assert!(text.contains("has 3145728 bytes") && contents(&room) == before, "{text}");
        let options = || Options::new().layout("ledger", 0);
        let pool = Pool::open(room.path("a.pool"), options()).unwrap();
        assert_eq!(pool.info().heap_bytes, 3 << 20);
        room.refuse("in use", &["pool", "grow", "a.pool", "4M"]);
        let create = || pool.run(|tx| lastword::Array::<u64>::create(tx, 1000)).unwrap().value;
        let filled: Vec<_> = (0..250).map(|_| create()).collect();
        let filled = filled[249];
        let _ = pool.run(|tx| tx.set(filled.at(999)?, 7)).unwrap();
        pool.close().unwrap();
        let pool = Pool::open(room.path("a.pool"), options()).unwrap();
        assert_eq!(pool.run(|tx| tx.get(filled.at(999)?)).unwrap().value, 7);
    }
}

#[test]
fn copy_of_crashed_pool_is_sound_and_larger() {
    for medium in ["file", "persistent_cache"] {
        let room = crashed(medium, 20);
        let before = contents(&room);
        let copy = ["pool", "copy", "a.pool", "b.pool", "--bytes", "4M", "--log-bytes", "1M"];
        let text = room.expect(0, &copy);
        assert!(text.contains("b.pool has the content of a.pool, up to transaction 20"), "{text}");
        let info = room.json(0, &["pool", "info", "b.pool"]);
        assert_eq!(info["heap_bytes"], 4 << 20);
        assert_eq!((&info["clean"], &info["layout"]), (&true.into(), &"ledger".into()));
        room.expect(0, &["pool", "check", "b.pool"]);
        let pool = Pool::open(room.path("b.pool"), Options::new().layout("ledger", 0)).unwrap();
        let read = pool.run(|tx| {
            let counter = tx.root_ptr::<u64>()?;
            tx.get(counter)
        });
        assert_eq!(read.unwrap().value, 19);
        pool.close().unwrap();
        // Never over another file, and never smaller.
        room.refuse("exists", &["pool", "copy", "a.pool", "b.pool"]);
        let smaller = ["pool", "copy", "b.pool", "c.pool", "--bytes", "1M"];
        room.refuse("at least as large", &smaller);
        let after = contents(&room);
        assert!(before.iter().all(|file| after.contains(file)), "the pool is only read");
        assert!(!after.iter().any(|(name, _)| name.starts_with("c.pool")));
    }
}
