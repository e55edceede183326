//! Reports and refusals of `lastword sim run` and `lastword sim list`.

use crate::common::Room;
use serde_json::Value;

/// Runs a short simulation and returns its JSON report.
fn outcome(room: &Room, more: &[&str]) -> Value {
    let some = "sim run hashtable --design volatile --scale 0.001 --transactions 200 --format json";
    let arguments: Vec<&str> = some.split(' ').chain(more.iter().copied()).collect();
    serde_json::from_str(&room.expect(0, &arguments)).unwrap()
}

#[test]
fn simulation_reports_costs_and_machine() {
    let room = Room::new();
    let report = outcome(&room, &["--cores", "2", "--check", "--set", "mc.wq=16"]);
    assert_eq!((&report["workload"], &report["design"]), (&"hashtable".into(), &"volatile".into()));
    assert_eq!((&report["machine"]["name"], &report["cores"]), (&"lad".into(), &2.into()));
    assert_eq!((&report["seed"], &report["checked"]), (&1.into(), &true.into()));
    assert_eq!(report["description"]["mc"]["wq"], 16);
    assert_eq!((&report["scale"], &report["shared"]), (&0.001.into(), &false.into()));
    assert!(report["program"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    assert!(report["transactions"].as_u64() >= Some(200), "{report}");
    assert!(report["cycles_per_transaction"]["total"].as_f64() > Some(1.0), "{report}");
    assert!(report["lines_per_transaction"]["mean"].as_f64() > Some(0.9), "{report}");
    let hash = report["machine"]["hash"].as_str().unwrap();
    let unchanged = outcome(&room, &[]);
    assert_eq!(hash.len(), 16);
    assert_ne!(unchanged["machine"]["hash"], report["machine"]["hash"]);
    assert_eq!(unchanged["checked"], Value::Null);
}

#[test]
fn equal_simulations_give_equal_results() {
    let room = Room::new();
    let simulated = |seed: &str| {
        let mut report = outcome(&room, &["--cores", "3", "--seed", seed]);
        report["host_seconds"] = Value::Null;
        report
    };
    assert_eq!(simulated("1"), simulated("1"));
    assert_ne!(simulated("1"), simulated("2"));
}

#[test]
fn machine_is_a_name_or_a_file() {
    let room = Room::new();
    let small = include_str!("../../../sim/machines/tiny-lad.toml").replace("tiny-lad", "mine");
    std::fs::write(room.path("mine.toml"), small.replacen("wq = 8", "wq = 9", 1)).unwrap();
    let report = outcome(&room, &["--machine", "mine.toml"]);
    assert_eq!((&report["machine"]["name"], &report["cores"]), (&"mine".into(), &2.into()));
    assert_eq!(report["description"]["mc"]["wq"], 9);
    let report = outcome(&room, &["--machine", "tiny-lad"]);
    assert_eq!(report["machine"]["name"], "tiny-lad");
}

#[test]
fn short_simulation_is_not_steady() {
    let room = Room::new();
    let run = "sim run hashtable --design sw-undo --machine tiny-lad --scale 0.01 --transactions";
    let steady = |transactions: &str| {
        let arguments: Vec<&str> = run.split(' ').chain([transactions]).collect();
        let report = room.json(0, &arguments);
        assert_eq!(report["cores"], 2);
        report["steady"].as_bool()
    };
    assert_eq!((steady("4"), steady("4000")), (Some(false), Some(true)));
}

#[test]
fn lock_waits_are_reported() {
    let room = Room::new();
    let run = "sim run bank --design volatile --machine tiny-lad --scale 0.001 --format json";
    let locks = |cores: &str| {
        let arguments: Vec<&str> = run.split(' ').chain(["--cores", cores]).collect();
        let report: Value = serde_json::from_str(&room.expect(0, &arguments)).unwrap();
        report["cycles_per_transaction"]["locks"].as_f64().unwrap()
    };
    assert_eq!(locks("1"), 0.0);
    assert!(locks("2") > 0.0);
}

#[test]
fn power_cuts_report_their_rare_paths() {
    let room = Room::new();
    let cut = "sim run hashtable --design lad --machine tiny-lad --scale 0.001 --transactions 100 \
               --power-cuts 50";
    let arguments: Vec<&str> = cut.split_whitespace().collect();
    let table = room.expect(0, &arguments);
    let line = |name: &str| table.lines().find(|line| line.trim().starts_with(name)).unwrap();
    assert!(line("power cuts").ends_with(" 50"), "{table}");
    assert!(line("violations").ends_with(" 0"), "{table}");
    assert!(line("steady").ends_with(" -"), "power cuts have no steady state: {table}");
    let mut json = arguments.clone();
    json.extend(["--format", "json"]);
    let report: Value = serde_json::from_str(&room.expect(0, &json)).unwrap();
    for (path, cuts) in report["rare_paths_cut"].as_object().unwrap() {
        let shown = line(path);
        let is_not_tried = shown.ends_with("NOT TRIED") || shown.contains(" off: ");
        assert_eq!(is_not_tried, *cuts == 0, "{path}: {table}");
    }
}

#[test]
fn invalid_simulation_is_refused() {
    let room = Room::new();
    for (says, arguments) in [
        ("no machine `lda`: there are lad, ", ["--machine", "lda"]),
        ("cannot read no.toml: ", ["--machine", "no.toml"]),
        ("no key `mc.wqs`: there are mc.forward, ", ["--set", "mc.wqs=8"]),
        ("mc.wq = many: it must be a whole number", ["--set", "mc.wq=many"]),
        ("mc.wq = 4: it must be from 8 to 4096", ["--set", "mc.wq=4"]),
        ("setting `mc.wq` lacks a key or a value: write key=value", ["--set", "mc.wq"]),
        ("machine lad has 15 cores, not 16: add `--set cores=16`", ["--cores", "16"]),
        ("cores = 99: it must be from 1 to 16\n", ["--cores", "99"]),
        (
            "l1.bytes = 64: it must be a multiple of 128, a set of l1.ways = 2 ",
            ["--set", "l1.bytes=64"],
        ),
        ("do you mean `ssp-undo.line`?", ["--set", "ssp-undo.lien=1"]),
        ("`large:63`: bytes must be a multiple of 1024", ["--data", "large:63"]),
        ("multiple of 1024, from 1024 to 16384", ["--data", "large:0"]),
        ("design.lad.overflow = 5: it must be from 0 to 1", ["--set", "lad.overflow=5"]),
        ("volatile does not use lad.overflow, which would", ["--set", "lad.overflow=0.5"]),
        ("or run one of lad, lad-base\n", ["--set", "design.lad.overflow=0.5"]),
        ("machine lad has no `l2`, so no `l2.bytes`: choose", ["--set", "l2.bytes=65536"]),
        ("invalid value '-1' for '--transactions <N>'", ["--transactions", "-1"]),
        ("invalid value '-0.5' for '--scale <X>'", ["--scale", "-0.5"]),
    ] {
        let all = [&["sim", "run", "bank", "--design", "volatile"][..], &arguments[..]].concat();
        room.refuse(says, &all);
    }
    let all = ["sim", "run", "sps", "--design", "lad", "--scale", "1e6"];
    room.refuse("GiB, of at most 64: give it a smaller scale", &all);
    assert_eq!(room.run(&["sim", "run", "bank", "--design", "none"]).status.code(), Some(2));
    assert_eq!(room.run(&["sim", "run", "bank"]).status.code(), Some(2));
}

#[test]
fn sim_list_is_complete() {
    let room = Room::new();
    let list: Value =
        serde_json::from_str(&room.expect(0, &["sim", "list", "--format", "json"])).unwrap();
    let names = |list_key: &str| -> Vec<String> {
        let rows = list[list_key].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names("designs").contains(&"sw-undo".to_owned()));
    assert_eq!(names("machines")[..3], ["lad", "redu", "ssp"]);
    assert!(names("workloads").contains(&"hashtable".to_owned()));
    let table = room.expect(0, &["sim", "list"]);
    for name in ["designs", "machines", "workloads"].iter().flat_map(|key| names(key)) {
        assert!(table.contains(&name), "{name}");
    }
}

#[test]
fn unwritable_trace_is_refused_before_simulation() {
    let room = Room::new();
    // A test has no time for so many transactions, so the refusal must come first.
    let run = "sim run sps --design lad --transactions 1000000000 --export-trace no/trace";
    let arguments: Vec<&str> = run.split(' ').collect();
    room.refuse("cannot write the trace no/trace: ", &arguments);
}

#[test]
fn disabled_path_names_its_setting() {
    let room = Room::new();
    let path = "a thread is suspended in a transaction";
    let cut = "sim run sps --design lad --cores 2 --scale 0.01 --transactions 200 --power-cuts 100";
    let line = |more: &[&str]| {
        let arguments: Vec<&str> = cut.split_whitespace().chain(more.iter().copied()).collect();
        let table = room.expect(0, &arguments);
        table.lines().find(|line| line.trim().starts_with(path)).unwrap().to_owned()
    };
    let off = line(&[]);
    assert!(off.ends_with("off: lad.suspend_cycles above 0 switches it on"), "{off}");
    let on = line(&["--set", "lad.suspend_cycles=3000"]);
    assert!(on.contains(", taken ") && on.ends_with(" times"), "{on}");
}

#[test]
fn extended_measurement_reports_requested_count() {
    let room = Room::new();
    let run = |design: &'static str, asked: &'static str| {
        let some = "sim run sps --machine tiny-ssp --scale 0.01 --design";
        let more = [design, "--transactions", asked];
        let arguments: Vec<&str> = some.split(' ').chain(more).collect();
        (room.json(0, &arguments), room.expect(0, &arguments))
    };
    let line = |table: &str| {
        let found = table.lines().find(|line| line.trim().starts_with("transactions "));
        found.unwrap().to_owned()
    };
    let (report, table) = run("volatile", "100");
    assert_eq!(
        (&report["transactions"], &report["transactions_asked"]),
        (&100.into(), &100.into())
    );
    assert!(line(&table).ends_with(" 100"), "{table}");
    // The measurement is extended to ten checkpoints, which take more transactions.
    let (report, table) = run("ssp", "10");
    assert_eq!((&report["transactions"], &report["transactions_asked"]), (&40.into(), &10.into()));
    assert!(line(&table).ends_with(" 40 (10 were asked for)"), "{table}");
}
