//! `lastword pool dump` prints every live object, of clean and of abandoned pools.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use crate::common::{Room, keys};
use lastword::{Array, Objects, Options, Pool, Ptr};
use serde_json::Value;

/// A pool, closed or abandoned, with two live objects, a freed one and an array of ten blocks.
struct Sample {
    room: Room,
    root: Ptr<[u64; 6]>,
    small: Ptr<u64>,
}

fn sample(clean: bool) -> Sample {
    let room = Room::new();
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10);
    let pool = Pool::create(room.path("a.pool"), options).unwrap();
    let made = pool.run(|tx| {
        let root = tx.alloc([1_u64, 2, 3, 4, 5, u64::MAX])?;
        let gone = tx.alloc([7_u64; 100])?;
        let small = tx.alloc(0xabc_u64)?;
        let array = Array::<u64>::create(tx, 320)?;
        // Element 32 is the first word of the second block.
        tx.set(array.at(32)?, 99)?;
        tx.free(gone)?;
        tx.set_root_ptr(root)?;
        Ok((root, small))
    });
    let (root, small) = made.unwrap().value;
    pool.flush().unwrap();
    if clean {
        pool.close().unwrap()
    } else {
        pool.abandon()
    }
    Sample { room, root, small }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn dump(room: &Room, more: &[&str]) -> Vec<Value> {
    let arguments = crate::common::with(&["pool", "dump", "a.pool", "--format", "jsonl"], more);
    lines(&room.expect(0, &arguments))
}

fn hex(bits: u64) -> String {
    format!("{bits:#018x}")
}

#[test]
fn dump_line_has_documented_keys() {
    for clean in [true, false] {
        let Sample { room, root, small } = sample(clean);
        let objects = dump(&room, &[]);
        let expected = ["bytes", "kind", "more_words", "pointer", "root", "taken_bytes", "words"];
        objects.iter().for_each(|object| assert_eq!(keys(object), expected));
        let check = room.json(0, &["pool", "check", "a.pool"]);
        assert_eq!((&check["objects"], &check["blocks"]), (&2.into(), &10.into()));
        assert_eq!(objects.len(), 12, "clean: {clean}");
        let at = |pointer: u64| objects.iter().find(|object| object["pointer"] == hex(pointer));
        let found = at(root.to_bits()).unwrap();
        assert_eq!((&found["kind"], &found["root"]), (&"object".into(), &true.into()));
        assert_eq!((&found["bytes"], &found["taken_bytes"]), (&48.into(), &64.into()));
        assert_eq!(found["words"], serde_json::json!(["0x1", "0x2", "0x3", "0x4"]));
        assert_eq!(found["more_words"], 2);
        let found = at(small.to_bits()).unwrap();
        assert_eq!((&found["bytes"], &found["root"]), (&8.into(), &false.into()));
        assert_eq!((&found["words"], &found["more_words"]), (&vec!["0xabc"].into(), &0.into()));
        let blocks: Vec<_> = objects.iter().filter(|object| object["kind"] == "block").collect();
        assert_eq!(blocks.len(), 10);
        assert_eq!((&blocks[1]["words"][0], &blocks[1]["bytes"]), (&"0x63".into(), &256.into()));
        assert_eq!(
            (&blocks[1]["more_words"], &blocks[1]["taken_bytes"]),
            (&28.into(), &272.into())
        );
    }
}

#[test]
fn dump_is_ordered_and_limits_words() {
    let Sample { room, .. } = sample(true);
    let objects = dump(&room, &["--words", "1000"]);
    let pointers: Vec<&str> =
        objects.iter().map(|object| object["pointer"].as_str().unwrap()).collect();
    assert!(pointers.is_sorted() && pointers.iter().all(|pointer| pointer.len() == 18));
    for object in &objects {
        let words = object["words"].as_array().unwrap().len() as u64;
        assert_eq!(
            (8 * words, &object["more_words"]),
            (object["bytes"].as_u64().unwrap(), &0.into())
        );
    }
    let none = dump(&room, &["--words", "0"]);
    assert!(none.iter().all(|object| object["words"].as_array().unwrap().is_empty()));
}

#[test]
fn dump_table_has_same_objects() {
    let Sample { room, root, .. } = sample(true);
    let text = room.expect(0, &["pool", "dump", "a.pool"]);
    assert_eq!(text.lines().count(), 1 + 12);
    let head: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["pointer", "kind", "bytes", "taken", "first", "words"]);
    let line = text.lines().find(|line| line.starts_with(&hex(root.to_bits()))).unwrap();
    let fields: Vec<&str> = line.split_whitespace().skip(1).collect();
    assert_eq!(fields, ["object", "48", "64", "root", "0x1", "0x2", "0x3", "0x4", "..."]);
}

#[test]
fn dump_leaves_pool_unchanged() {
    for clean in [true, false] {
        let Sample { room, .. } = sample(clean);
        let read = || ["a.pool", "a.pool.log"].map(|name| std::fs::read(room.path(name)).unwrap());
        let before = read();
        dump(&room, &[]);
        assert!(read() == before, "clean: {clean}");
        assert_eq!(room.files(), ["a.pool", "a.pool.log"]);
    }
}

#[test]
fn dump_of_damaged_pool_reports_damage() {
    let Sample { room, .. } = sample(true);
    let file = OpenOptions::new().write(true).open(room.path("a.pool")).unwrap();
    // The header of the first slot after the first chunk.
    let last_header = (2 << 20) + (1 << 16) + 72;
    file.write_all_at(&[0xa5; 8], last_header).unwrap();
    // A dump accepts `json` as an alias of `jsonl`.
    for (format, of_check) in [("jsonl", "json"), ("json", "json"), ("table", "table")] {
        let of = |command, format| room.run(&["pool", command, "a.pool", "--format", format]);
        let (dump, check) = (of("dump", format), of("check", of_check));
        assert_eq!((dump.status.code(), check.status.code()), (Some(1), Some(1)));
        let stderr = crate::common::text(&dump.stderr);
        let damage = "1 page of the heap";
        assert!(stderr.lines().count() == 1 && stderr.contains(damage), "{stderr}");
        // A check reports the same damage among its findings.
        assert!(crate::common::text(&check.stderr).contains(damage), "{damage}");
        let shown = crate::common::text(&dump.stdout);
        assert!(!shown.contains("pointer"));
        if format != "table" {
            let [line] = &lines(&shown)[..] else { panic!("{shown}") };
            assert_eq!(line["sound"], false);
        }
    }
    room.refuse("does not exist", &["pool", "dump", "b.pool"]);
}

#[test]
fn dump_ends_at_closed_pipe() {
    let room = Room::new();
    let options = Options::new().bytes(16 << 20).log_bytes(16 << 20);
    let pool = Pool::create(room.path("a.pool"), options).unwrap();
    // The dump has far more lines than a pipe buffers.
    let made = pool.run(|tx| (0..20_000_u64).try_for_each(|n| tx.alloc(n).map(drop)));
    let _ = made.unwrap();
    pool.close().unwrap();
    let mut program = room.program();
    program.args(["pool", "dump", "a.pool"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(crate::common::text(&output.stderr), "");
}
