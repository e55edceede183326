//! `lastword pool info`, `check` and `dump` on collections with names.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use lastword::collections::catalog;
use lastword::collections::{BTreeSet, Counter, Vec as List, VecDeque};
use lastword::{Addr, Allocate, HeapAtRest, Key, Objects, Options, Pool, Ptr, Words};
use serde_json::{Value, json};

use crate::common::{Room, keys, text, with};

#[lastword::persist]
struct User {
    id: u64,
    link: Ptr<u64>,
    door: Door,
    pin: [u8; 3],
    unused: [u8; 4],
}

#[lastword::persist]
#[repr(u8)]
enum Door {
    Open = 1,
    Shut = 2,
}

#[derive(Key)]
enum Item {
    Bolt { diameter: u16, length: i8 },
    Custom(String),
    None,
}

fn created(room: &Room) -> Pool {
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10);
    Pool::create(room.path("a.pool"), options).unwrap()
}

/// Ends the use of a pool: by closing it, or as a crash does.
fn end(pool: Pool, is_clean: bool) {
    pool.flush().unwrap();
    if is_clean {
        pool.close().unwrap();
    } else {
        pool.abandon();
    }
}

/// Makes a collection of each kind, with an entry or more in most of them.
fn fill(pool: &Pool) {
    let users = pool.hash_map::<str, User>("users").unwrap();
    let stock = pool.btree_map::<Item, [u16; 2]>("stock").unwrap();
    let tags = pool.named::<BTreeSet<(bool, Option<u8>)>>("tags").unwrap();
    let log = pool.named::<List<str>>("log").unwrap();
    let sold = pool.named::<Counter>("sold").unwrap();
    let done = pool.run(|tx| {
        let user = User { id: 7, link: Ptr::NULL, door: Door::Shut, pin: *b"a\0b", unused: [0; 4] };
        users.put(tx, "ann", user)?;
        stock.put(tx, Item::Bolt { diameter: 8, length: -4 }, [1, 2])?;
        stock.put(tx, Item::Custom("x".into()), [3, 4])?;
        stock.put(tx, Item::None, [5, 6])?;
        tags.insert(tx, (true, Some(9)))?;
        log.push(tx, "one")?;
        log.push(tx, "two")?;
        sold.add(tx, -3)
    });
    let _ = done.unwrap();
    pool.named::<VecDeque<f64>>("jobs").unwrap();
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the lines of a dump that are about collections.
fn dump(room: &Room, code: i32, more: &[&str]) -> Vec<Value> {
    let arguments = with(&["pool", "dump", "a.pool", "--format", "jsonl"], more);
    let all = lines(&room.expect(code, &arguments)).into_iter();
    all.filter(|line| line.get("pointer").is_none()).collect()
}

#[test]
fn info_and_check_list_collections() {
    for is_clean in [true, false] {
        let room = Room::new();
        let pool = created(&room);
        assert_eq!(room.json(0, &["pool", "check", "a.pool"])["collections"], Value::Null);
        fill(&pool);
        pool.flush().unwrap();
        // While the pool is open, `info` reads no collections.
        let open = room.json(0, &["pool", "check", "a.pool"])["collections"].clone();
        assert_eq!(room.json(0, &["pool", "info", "a.pool"])["collections"], Value::Null);
        end(pool, is_clean);
        let info = room.json(0, &["pool", "info", "a.pool"])["collections"].clone();
        assert_eq!(info, room.json(0, &["pool", "check", "a.pool"])["collections"]);
        assert_eq!(info, open);
        let row = |name, kind, [key, value]: [Option<&str>; 2], length: Option<u64>| {
            json!({
                "name": name, "kind": kind, "key_type": key, "value_type": value,
                "length": length, "sum": null, "damage": null,
            })
        };
        let mut expected = json!([
            row("jobs", "VecDeque", [None, Some("f64")], Some(0)),
            row("log", "Vec", [None, Some("str")], Some(2)),
            row("sold", "Counter", [None, None], None),
            row("stock", "BTreeMap", [Some("Item"), Some("[u16; 2]")], Some(3)),
            row("tags", "BTreeSet", [Some("(bool, Option<u8>)"), None], Some(1)),
            row("users", "HashMap", [Some("str"), Some("User")], Some(1)),
        ]);
        expected[2]["sum"] = (-3).into();
        assert_eq!(info, expected);
        for command in ["info", "check"] {
            let text = room.expect(0, &["pool", command, "a.pool"]);
            for row in [
                "\"stock\": BTreeMap<Item, [u16; 2]>, 3 entries",
                "\"users\": HashMap<str, User>, 1 entry",
                "\"sold\": Counter, sum -3",
            ] {
                assert!(text.contains(row), "{text}");
            }
        }
    }
}

#[test]
fn dump_decodes_keys_and_values() {
    let room = Room::new();
    let pool = created(&room);
    fill(&pool);
    end(pool, true);
    let user = json!({
        "id": 7, "link": "0x0000000000000000", "door": "Shut", "pin": "0x610062",
        "unused": "0x00000000",
    });
    let entries = [
        json!({"collection": "log", "index": 0, "value": "one"}),
        json!({"collection": "log", "index": 1, "value": "two"}),
        json!({
            "collection": "stock", "key": {"Bolt": {"diameter": 8, "length": -4}}, "value": [1, 2],
        }),
        json!({"collection": "stock", "key": {"Custom": ["x"]}, "value": [3, 4]}),
        json!({"collection": "stock", "key": "None", "value": [5, 6]}),
        json!({"collection": "tags", "key": [true, 9]}),
        json!({"collection": "users", "key": "ann", "value": user}),
    ];
    let all = dump(&room, 0, &[]);
    let (found, heads): (Vec<Value>, Vec<Value>) =
        all.into_iter().partition(|line| line.get("collection").is_some());
    assert_eq!(found, entries);
    assert_eq!(
        heads,
        *room.json(0, &["pool", "info", "a.pool"])["collections"].as_array().unwrap()
    );
    let stock = dump(&room, 0, &["--collection", "stock", "--limit", "1"]);
    assert_eq!((&stock[0]["name"], &stock[1..]), (&"stock".into(), &entries[2..3]));
    let table = |more: &[&str]| room.expect(0, &with(&["pool", "dump", "a.pool"], more));
    let expected = "collection \"stock\": BTreeMap<Item, [u16; 2]>, 3 entries\n  \
                    Bolt { diameter: 8, length: -4 }: [1, 2]\n  Custom(\"x\"): [3, 4]\n  \
                    ... and 1 more\n";
    assert_eq!(table(&["--collection", "stock", "--limit", "2"]), expected);
    let all = table(&["--words", "1"]);
    assert!(all.contains(
        "  \"ann\": User { id: 7, link: 0x0000000000000000, door: Shut, pin: b\"a\\x00b\", \
         unused: b\"\\x00\\x00\\x00\\x00\" }\n"
    ));
    assert!(all.contains("  (true, Some(9))\n") && all.contains("  1: \"two\"\n"), "{all}");
    // The objects follow.
    assert!(all.contains("\npointer ") && all.lines().last().unwrap().starts_with("0x"), "{all}");
}

#[test]
fn dump_of_unknown_collection_is_refused() {
    let room = Room::new();
    let pool = created(&room);
    fill(&pool);
    end(pool, true);
    let dump = ["pool", "dump", "a.pool", "--collection", "Stock"];
    room.refuse("has no collection \"Stock\": `lastword pool info 'a.pool'`", &dump);
}

#[test]
fn pool_with_own_root_has_no_collections() {
    let room = Room::new();
    let pool = created(&room);
    let made = pool.run(|tx| {
        let object = tx.alloc(5_u64)?;
        tx.set_root_ptr(object)
    });
    let _ = made.unwrap();
    end(pool, true);
    for command in ["info", "check"] {
        let shown = room.json(0, &["pool", command, "a.pool"]);
        assert!(keys(&shown).contains(&"collections") && shown["collections"].is_null());
    }
    assert!(dump(&room, 0, &[]).is_empty());
    room.refuse("has no collection", &["pool", "dump", "a.pool", "--collection", "x"]);
}

#[test]
fn hostile_names_and_text_are_escaped() {
    let room = Room::new();
    let pool = created(&room);
    let name = "a\nsound yes\u{1b}[2J\u{9b}2J\u{202e}\u{7f}";
    let map = pool.btree_map::<str, str>(name).unwrap();
    let _ = pool.run(|tx| map.put(tx, name, name)).unwrap();
    end(pool, true);
    let is_safe = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
    for command in ["info", "check", "dump"] {
        for format in ["json", "table"] {
            let shown = room.expect(0, &["pool", command, "a.pool", "--format", format]);
            assert!(shown.chars().all(is_safe), "{shown:?}");
            assert!(!shown.contains("\nsound yes"), "{shown}");
        }
    }
    let info = room.json(0, &["pool", "info", "a.pool"]);
    assert_eq!(info["collections"][0]["name"], name, "JSON has the name as it is");
    let found = dump(&room, 0, &["--collection", name]);
    assert_eq!(
        (found.len(), &found[1]["key"], &found[1]["value"]),
        (2, &name.into(), &name.into())
    );
}

#[test]
fn damaged_collection_is_found_by_its_name() {
    for kind in ["log", "stock", "users"] {
        let room = Room::new();
        let pool = created(&room);
        fill(&pool);
        let listed = pool.run(|tx| catalog::collections(tx)).unwrap().value.unwrap();
        let header = listed.iter().find(|listed| listed.name() == kind).unwrap().header();
        // The root of a hash map is in its second word, that of the others in the first.
        let root = Addr::new(header, if kind == "users" { 8 } else { 0 });
        let _ = pool.run(|tx| tx.write(root, header)).unwrap();
        end(pool, true);
        let check = room.json(1, &["pool", "check", "a.pool"]);
        let findings = check["findings"].as_array().unwrap();
        assert_eq!((&check["opens"], &check["sound"]), (&true.into(), &false.into()));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(
            (&finding["problem"], &finding["severity"]),
            (&"collection".into(), &"damage".into())
        );
        let what = finding["what"].as_str().unwrap();
        assert!(what.starts_with(&format!("collection `{kind}` is damaged: ")), "{what}");
        let is_damaged = |one: &&Value| !one["damage"].is_null();
        let all = check["collections"].as_array().unwrap();
        let damaged: Vec<_> = all.iter().filter(is_damaged).map(|one| &one["name"]).collect();
        assert_eq!(damaged, [kind]);
        room.expect(0, &["pool", "info", "a.pool"]);
        // The others are printed.
        let output = room.run(&["pool", "dump", "a.pool", "--limit", "1"]);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(&format!("collection \"{kind}\"")));
        assert_eq!(stdout.matches("collection \"").count(), 6, "{stdout}");
        assert!(stdout.contains("  damaged: "), "{stdout}");
    }
}

#[test]
fn damaged_catalog_is_reported() {
    let room = Room::new();
    let pool = created(&room);
    fill(&pool);
    let done = pool.run(|tx| {
        // The second word of the root is the header of the tree of names.
        let root = tx.root()?;
        let names = tx.read(Addr::new(root, 8))?;
        tx.write(Addr::new(names, 0), names)
    });
    let _ = done.unwrap();
    end(pool, true);
    let check = room.json(1, &["pool", "check", "a.pool"]);
    assert_eq!(check["findings"][0]["problem"], "catalog");
    assert!(check["findings"].as_array().unwrap().len() == 1 && check["collections"].is_null());
    let info = room.json(0, &["pool", "info", "a.pool"]);
    assert!(info["collections"].is_null() && info["catalog_damage"].is_string());
    for more in [&[][..], &["--collection", "users"]] {
        room.expect(1, &with(&["pool", "dump", "a.pool"], more));
    }
}

#[test]
fn collection_on_damaged_page_is_named() {
    let room = Room::new();
    let pool = created(&room);
    fill(&pool);
    let pages = pool.hash_map::<u64, str>("pages").unwrap();
    for number in 0..500 {
        let _ = pool.run(|tx| pages.put(tx, number, "x".repeat(100))).unwrap();
    }
    end(pool, true);
    // The last object is one of the many that were made last.
    let last = HeapAtRest::load(room.path("a.pool")).unwrap().objects().last().unwrap();
    let file = OpenOptions::new().write(true).open(room.path("a.pool")).unwrap();
    file.write_all_at(&[0xa5; 8], (2 << 20) + last.offset).unwrap();
    let check = room.json(1, &["pool", "check", "a.pool"]);
    let what = |finding: &Value| finding["what"].as_str().unwrap().to_owned();
    let findings: Vec<_> = check["findings"].as_array().unwrap().iter().map(what).collect();
    let expected = "collection `pages` is damaged: a part of it is on a damaged page";
    assert!(findings.iter().any(|finding| finding == expected), "{findings:?}");
    assert_eq!(findings.len(), 2, "{findings:?}");
    let salvage = ["pool", "dump", "a.pool", "--salvage", "--collection", "pages"];
    let shown = room.expect(1, &salvage);
    assert!(shown.starts_with("collection \"pages\": HashMap<u64, str>, 500 entries\n"), "{shown}");
    assert!(shown.lines().last().unwrap().starts_with("  damaged: "), "{shown}");
}
