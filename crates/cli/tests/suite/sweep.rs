//! `lastword sim sweep` and `lastword sim merge`: slices, repetition, reports and refusals.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Room, text};
use serde_json::Value;

/// A sweep of short points.
const SMALL: &str = r#"
    [base]
    workload = "hashtable"
    cores = 2
    scale = 0.001
    transactions = 200
    [axes]
    design = ["volatile", "sw-undo"]
    "mc.wq" = [64, 8]
"#;

/// A sweep with enough long points that a slice of them can be killed in the middle.
const SLOW: &str = r#"
    [base]
    workload = "hashtable"
    cores = 4
    scale = 0.01
    transactions = 5000
    [axes]
    design = ["volatile", "sw-undo"]
    seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"#;

/// Returns a directory with this sweep file.
fn room(sweep: &str) -> Room {
    let room = Room::new();
    fs::write(room.path("sweep.toml"), sweep).unwrap();
    room
}

/// Returns the hashes that `--list` prints.
fn hashes(room: &Room, more: &[&str]) -> Vec<String> {
    let arguments = crate::common::with(&["sim", "sweep", "sweep.toml", "--list"], more);
    let lines = room.expect(0, &arguments);
    lines.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Returns the JSON files of a directory with their contents.
fn files(room: &Room, directory: &str) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(room.path(directory)) else { return BTreeMap::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let results = names.filter(|name| name.ends_with(".json"));
    let read = |name: String| {
        let bytes = fs::read(room.path(directory).join(&name)).unwrap();
        (name, bytes)
    };
    results.map(read).collect()
}

/// Returns the number of finished points in a directory.
fn done(room: &Room, directory: &str) -> usize {
    let entries = files(room, directory);
    entries.keys().filter(|name| *name != "sweep.json").count()
}

/// Starts a process that runs the points of a slice one after the other.
fn slice(room: &Room, slice: &str) -> Child {
    let arguments = ["sim", "sweep", "sweep.toml", "--out", "four", "--slice", slice];
    let mut program = room.program();
    program.args(arguments).env("RAYON_NUM_THREADS", "1");
    program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn killed_and_repeated_slices_equal_one_process() {
    let room = room(SLOW);
    let mut killed = slice(&room, "0/4");
    let begun = Instant::now();
    while done(&room, "four") == 0 {
        assert!(killed.try_wait().unwrap().is_none(), "the slice ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(300), "no result");
        thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = done(&room, "four");
    assert!((1..5).contains(&left), "{left} of 5 points were done at the kill");

    let others = ["1/4", "2/4", "3/4"].map(|i_n| slice(&room, i_n));
    assert!(others.into_iter().all(|mut child| child.wait().unwrap().success()));
    let merge = room.run(&["sim", "merge", "four"]);
    assert_eq!((merge.status.code(), merge.stdout.len()), (Some(1), 0));
    let stderr = text(&merge.stderr);
    let missing = hashes(&room, &["--slice", "0/4"]);
    let missing =
        missing.iter().filter(|hash| stderr.contains(&format!("missing: {hash}"))).count();
    assert_eq!(missing, 5 - left, "{stderr}");

    assert!(slice(&room, "0/4").wait().unwrap().success());
    let one = room.expect(0, &["sim", "sweep", "sweep.toml", "--out", "one"]);
    assert_eq!(one.trim(), "20 of 20 points: 0 were there, 20 were run, 0 failed");
    assert_eq!(files(&room, "one"), files(&room, "four"));
    for format in ["table", "json", "csv"] {
        let merged = |of| room.expect(0, &["sim", "merge", of, "--format", format]);
        assert_eq!(merged("one"), merged("four"));
    }
}

#[test]
fn merge_keeps_sweep_order() {
    let room = room(SMALL);
    let sweep = ["sim", "sweep", "sweep.toml"];
    let there = "4 of 4 points: 4 were there, 0 were run, 0 failed";
    room.expect(0, &crate::common::with(&sweep, &["--out", "out"]));
    assert_eq!(room.expect(0, &crate::common::with(&sweep, &["--out", "out"])).trim(), there);
    let json = room.expect(0, &["sim", "merge", "out", "--format", "json"]);
    // A sweep without a directory gives the same results.
    assert_eq!(room.expect(0, &crate::common::with(&sweep, &["--format", "json"])), json);
    let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
    let of = |row: &Value| {
        let asked = &row["asked"];
        let key = format!("{} {}", asked["design"], asked["settings"]["mc.wq"]);
        (row["point"].as_str().unwrap().to_owned(), key.replace('"', ""))
    };
    let found: Vec<_> = rows.iter().map(of).collect();
    let order = ["volatile 64", "volatile 8", "sw-undo 64", "sw-undo 8"];
    let expected = hashes(&room, &[]).into_iter().zip(order.map(str::to_owned));
    assert_eq!(found, expected.collect::<Vec<_>>());
    for row in &rows {
        let (asked, outcome) = (&row["asked"], &row["outcome"]);
        assert_eq!(outcome["design"], asked["design"]);
        assert_eq!(outcome["description"]["mc"]["wq"].to_string(), asked["settings"]["mc.wq"]);
        assert!(outcome["host_seconds"].is_null() && outcome["cycles"].as_u64() > Some(0));
        assert!(row["program"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    }
    let csv = room.expect(0, &["sim", "merge", "out", "--format", "csv"]);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0][..3], ["point", "program", "scale"]);
    assert!(lines[0].contains(&"asked mc.wq"), "{:?}", lines[0]);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
    let table = room.expect(0, &["sim", "merge", "out"]);
    assert!(hashes(&room, &[]).iter().all(|hash| table.contains(hash)), "{table}");
}

#[test]
fn nvm_and_dram_have_separate_columns() {
    let point = "[[points]]\nworkload = \"vector\"\ncores = 1\nscale = 0.01\ntransactions = 50\n";
    let merged = |design: &str| {
        let room = room(&format!("{point}design = \"{design}\"\n"));
        let json = room.expect(0, &["sim", "sweep", "sweep.toml", "--format", "json"]);
        let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
        (rows[0]["outcome"].clone(), room.expect(0, &["sim", "sweep", "sweep.toml"]))
    };
    let (outcome, table) = merged("redu");
    let transactions = outcome["transactions"].as_f64().unwrap();
    for (name, lines) in [
        ("NVM reads /tx", &outcome["nvm_reads"]),
        ("DRAM reads /tx", &outcome["dram_reads"]),
        ("DRAM writes /tx", &outcome["dram_writes"]),
    ] {
        let lines = format!("{:.2}", lines.as_f64().unwrap() / transactions);
        assert!(table.contains(name) && table.contains(&lines), "{name} {lines}\n{table}");
    }
    let (outcome, table) = merged("hw-undo");
    assert_eq!((&outcome["dram_reads"], &outcome["dram_writes"]), (&0.into(), &0.into()));
    assert!(table.contains("NVM writes /tx") && !table.contains("DRAM"), "{table}");
}

#[test]
fn damaged_result_is_reported_and_rerun() {
    let room = room(SMALL);
    let sweep = ["sim", "sweep", "sweep.toml", "--out", "out"];
    room.expect(0, &sweep);
    let whole = files(&room, "out");
    let [first, second, ..] = &hashes(&room, &[])[..] else { panic!("there are four") };
    let path = |hash: &str| room.path("out").join(format!("{hash}.json"));
    let changed = String::from_utf8(fs::read(path(first)).unwrap()).unwrap();
    fs::write(path(first), changed.replacen("\"cycles\": ", "\"cycles\": 1", 1)).unwrap();
    fs::write(path(second), &whole[&format!("{second}.json")][..100]).unwrap();
    let stderr = text(&room.run(&["sim", "merge", "out"]).stderr);
    assert!(stderr.contains(&format!("damaged: {first}  workload=hashtable design=volatile")));
    assert!(stderr.contains(&format!("damaged: {second}")), "{stderr}");
    assert!(stderr.contains("2 of 4 points are to be run"), "{stderr}");
    let again = room.expect(0, &sweep);
    assert_eq!(again.trim(), "4 of 4 points: 2 were there, 2 were run, 0 failed");
    assert_eq!(files(&room, "out"), whole);
}

#[test]
fn point_runs_by_hash() {
    let room = room(SMALL);
    let all = hashes(&room, &[]);
    assert_eq!(all.len(), 4);
    let halves = [hashes(&room, &["--slice", "0/2"]), hashes(&room, &["--slice", "1/2"])];
    assert_eq!(halves, [[&*all[0], &*all[2]], [&*all[1], &*all[3]]]);
    let point = ["sim", "sweep", "sweep.toml", "--point", &all[2]];
    room.expect(0, &crate::common::with(&point, &["--out", "out"]));
    let names: Vec<String> = files(&room, "out").into_keys().collect();
    let mut expected = [format!("{}.json", all[2]), "sweep.json".to_owned()];
    expected.sort();
    assert_eq!(names, expected);
    let json = room.expect(0, &crate::common::with(&point, &["--format", "json"]));
    let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!((rows.len(), &rows[0]["point"]), (1, &Value::from(&*all[2])));
}

#[test]
fn failed_point_does_not_stop_sweep() {
    let room = room(SMALL);
    let all = hashes(&room, &[]);
    // A directory with an entry takes the place of the result's file, and a rename cannot replace
    // it.
    let in_the_way = room.path("out").join(format!("{}.json", all[1]));
    fs::create_dir_all(in_the_way.join("a")).unwrap();
    let sweep = ["sim", "sweep", "sweep.toml", "--out", "out"];
    let output = room.run(&sweep);
    let (stdout, stderr) = (text(&output.stdout), crate::common::complaints(&text(&output.stderr)));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stdout.trim(), "4 of 4 points: 0 were there, 3 were run, 1 failed");
    let name = format!("failed: {}  workload=hashtable design=volatile mc.wq=8: ", all[1]);
    assert!(stderr.starts_with(&name), "{stderr}");
    assert!(stderr.contains("(lastword sim run hashtable --design volatile "), "{stderr}");
    fs::remove_dir_all(in_the_way).unwrap();
    let again = room.expect(0, &sweep);
    assert_eq!(again.trim(), "4 of 4 points: 3 were there, 1 were run, 0 failed");
}

#[test]
fn list_reports_unrunnable_points() {
    let room = room(&SMALL.replace("\"sw-undo\"", "\"sw-undo\", \"ssp\""));
    let output = room.run(&["sim", "sweep", "sweep.toml", "--list"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!((stdout.lines().count(), &*stderr), (6, ""));
    for (group, problem) in [
        ("machine = \"lad\"\ndesign = \"ssp\"", "`ssp` cannot run on the machine `lad`: "),
        ("design = \"volatile\"\npower_cuts = 10", "`volatile` makes nothing durable"),
        ("design = \"volatile\"\ndata = \"large:63\"", "data: `large:63`: bytes must be"),
        (
            "design = \"volatile\"\ndata = \"large:1024\"",
            "--data is not supported by workload `hashtable`",
        ),
        ("design = \"volatile\"\nscale = 1e6", "GiB, of at most 64"),
    ] {
        let more = format!("[[points]]\ndesign = \"volatile\"\n[[points]]\n{group}\n");
        fs::write(room.path("sweep.toml"), SMALL.to_owned() + &more).unwrap();
        let output = room.run(&["sim", "sweep", "sweep.toml", "--list"]);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{group}: {stderr}");
        assert_eq!((stdout.lines().count(), stderr.lines().count()), (4, 2), "{stderr}");
        assert!(stderr.lines().all(|line| line.contains(problem)), "{stderr}");
        let named = |line: &str| stderr.contains(&format!("cannot be run: {line}: "));
        assert_eq!(stdout.lines().map(named).collect::<Vec<_>>(), [false, false, true, true]);
    }
}

#[test]
fn sheet_has_power_cut_columns() {
    let room = room(
        r#"
        [base]
        workload = "sps"
        cores = 2
        scale = 0.01
        transactions = 200
        design = "lad"
        [[points]]
        power_cuts = 100
        [[points]]
        power_cuts = 0
        "#,
    );
    let sweep = ["sim", "sweep", "sweep.toml", "--out", "out"];
    room.expect(0, &sweep);
    // A path that is switched off is never cut, so the merge reports it.
    let output = room.run(&["sim", "merge", "out"]);
    let (table, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let path = "a thread is suspended in a transaction";
    let off = "off: lad.suspend_cycles above 0 switches it on";
    assert!(stderr.contains(&format!("never cut while: {path} (lad); {off}\n")), "{stderr}");
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let lines: Vec<Vec<String>> = table.lines().map(cells).collect();
    let column = |name: &str| {
        let at = lines[0].iter().position(|cell| cell == name);
        let at = at.unwrap_or_else(|| panic!("{name}: {table}"));
        let rows = lines[1..].iter().filter(|line| line.first().is_some_and(|it| it == "sps"));
        rows.map(|line| line[at].clone()).collect::<Vec<_>>()
    };
    assert_eq!(column("steady")[0], "-", "{table}");
    assert_ne!(column("steady")[1], "-", "{table}");
    assert_eq!(column("power cuts"), ["100", "-"], "{table}");
    assert_eq!(column("violations"), ["0", "-"], "{table}");
    let rare = lines.iter().find(|line| line.iter().any(|cell| cell == "rare path")).unwrap();
    assert_eq!(rare[..], ["design", "rare path", "taken", "cuts inside"]);
    let row = |path: &str| lines.iter().find(|line| line.get(1).is_some_and(|it| it == path));
    assert_eq!(row(path).unwrap()[..], ["lad", path, "0", off], "{table}");
    let csv = room.run(&["sim", "merge", "out", "--format", "csv"]);
    let csv = text(&csv.stdout);
    assert!(csv.lines().next().unwrap().ends_with(",violations,isolation_hits"), "{csv}");
    // A sweep without power cuts and isolation checks has no such columns.
    fs::write(room.path("sweep.toml"), SMALL).unwrap();
    let plain = room.expect(0, &["sim", "sweep", "sweep.toml"]);
    assert!(!plain.contains("cuts") && !plain.contains("isolation hits"), "{plain}");
}

#[test]
fn invalid_sweep_is_refused() {
    let room = room(&SMALL.replace("mc.wq", "mc.wqs"));
    let sweep = ["sim", "sweep", "sweep.toml"];
    room.refuse("sweep.toml: no key `mc.wqs`: there are mc.forward, ", &sweep);
    let write = |text: &str| fs::write(room.path("sweep.toml"), text).unwrap();
    write(&SMALL.replace("cores", "croes"));
    room.refuse("sweep.toml: no key `croes` in [base]: there are workload, design", &sweep);
    write(&SMALL.replace("hashtable", "hastable"));
    room.refuse("there is no workload `hastable`", &sweep);
    write(&SMALL.replace("sw-undo", "another"));
    room.refuse("there is no design `another`; there are: volatile", &sweep);
    write(SMALL);
    let no_point = crate::common::with(&sweep, &["--point", "0123456789abcdef"]);
    room.refuse("the sweep has no point 0123456789abcdef", &no_point);
    room.refuse("`4/4` is no slice", &crate::common::with(&sweep, &["--slice", "4/4"]));
    room.refuse("cannot read no.toml", &["sim", "sweep", "no.toml"]);
    room.refuse("no/sweep.json", &["sim", "merge", "no"]);
}

#[test]
fn shipped_sweeps_can_run() {
    let room = Room::new();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../papers/sweeps");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let list = room.expect(0, &["sim", "sweep", path.to_str().unwrap(), "--list"]);
        assert!(list.lines().count() > 1, "{list}");
        count += 1;
    }
    assert_eq!(count, 5);
}
