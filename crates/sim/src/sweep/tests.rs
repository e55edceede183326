//! Tests of sweeps and of their result directories.

use super::*;
use crate::report::{Backlog, CyclesPerTransaction, Machine, NvmWrites, Outcome, Spread};

const TEXT: &str = r#"
    [base]
    workload = "cq"
    transactions = 500
    mc.write_age_ns = 400

    [axes]
    design = ["volatile", "sw-undo"]
    "mc.wq" = [64, 8]
"#;

fn sweep(text: &str) -> Result<Sweep, SweepError> {
    Sweep::parse(text, Path::new("."), "1.0")
}

fn refusal(text: &str) -> String {
    sweep(text).expect_err("an invalid sweep is rejected").to_string()
}

fn shown(sweep: &Sweep) -> Vec<String> {
    labels(sweep.points().iter().map(|point| &point.asked))
}

/// A made-up outcome of a point.
fn outcome(point: &Point) -> Outcome {
    let setup = &point.setup;
    Outcome {
        workload: point.asked.workload.clone(),
        design: setup.design.clone(),
        machine: Machine::of(&setup.description),
        cores: setup.cores,
        seed: setup.seed,
        transactions: setup.transactions,
        cycles: 1000,
        cycles_per_transaction: CyclesPerTransaction { total: 0.1 + 0.2, ..Default::default() },
        nvm_reads: 5,
        nvm_writes: NvmWrites::default(),
        dram_reads: 0,
        dram_writes: 0,
        channels: Vec::new(),
        caches: Default::default(),
        lines_per_transaction: Spread::default(),
        pages_per_transaction: Spread::default(),
        fallbacks: 0,
        design_counts: [].into(),
        backlog: Backlog::default(),
        steady: true,
        simulated_accesses: 77,
        host_seconds: 1.5,
        checked: None,
        isolation_hits: None,
        image_hash: None,
        power_cuts: None,
        violations: None,
        rare_paths_taken: None,
        rare_paths_cut: None,
        description: setup.description.clone(),
        complaints: vec![],
    }
}

#[test]
fn points_are_all_combinations_in_a_fixed_order() {
    let sweep = sweep(TEXT).unwrap();
    assert_eq!(
        shown(&sweep),
        [
            "workload=cq design=volatile mc.wq=64",
            "workload=cq design=volatile mc.wq=8",
            "workload=cq design=sw-undo mc.wq=64",
            "workload=cq design=sw-undo mc.wq=8",
        ]
    );
    for point in sweep.points() {
        assert_eq!((point.setup.transactions, point.setup.seed), (500, 1));
        assert_eq!(point.setup.description.mc.write_age_ns, 400.0);
        assert_eq!(point.setup.cores, 15, "all cores of the machine");
    }
}

#[test]
fn group_overrides_base_and_settings_vary_together() {
    let text = r#"
        [base]
        design = "volatile"
        [axes]
        settings = [{}, { "nvm.read_miss_ns" = 60, nvm.write_ns = 150 }]
        [[points]]
        workload = ["cq", "pc"]
        [[points]]
        workload = "tpcc-hash"
        transactions = 20
        settings = { "mc.wq" = 8 }
    "#;
    let sweep = sweep(text).unwrap();
    let settings = "nvm.read_miss_ns=60 nvm.write_ns=150";
    assert_eq!(
        shown(&sweep),
        [
            "workload=cq design=volatile transactions=10000".to_owned(),
            format!("workload=cq design=volatile transactions=10000 {settings}"),
            "workload=pc design=volatile transactions=10000".to_owned(),
            format!("workload=pc design=volatile transactions=10000 {settings}"),
            "workload=tpcc-hash design=volatile transactions=20 mc.wq=8".to_owned(),
        ]
    );
}

#[test]
fn point_hash_covers_the_simulation_only() {
    let hashes = |text: &str, program: &str| -> Vec<String> {
        let sweep = Sweep::parse(text, Path::new("."), program).unwrap();
        sweep.points().iter().map(|point| point.hash.clone()).collect()
    };
    let all = hashes(TEXT, "1.0");
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert_eq!((all.len(), different.len()), (4, 4));
    assert!(all.iter().all(|hash| hash.len() == 16));
    // The same point with its defaults written out: the design's machine and all of its cores.
    let said = TEXT.replace("[base]", "[base]\nmachine = \"lad\"\ncores = 15\nscale = 1");
    assert_eq!(hashes(&said, "1.0"), all);
    for (from, to) in [
        ("500", "501"),
        ("400", "401"),
        ("\"cq\"", "\"pc\""),
        ("[base]", "[base]\nseed = 2"),
        ("[base]", "[base]\nscale = 0.5"),
        ("[base]", "[base]\ncheck = true"),
        ("[base]", "[base]\npower_cuts = 10"),
        ("[base]", "[base]\ncores = 4"),
        ("[base]", "[base]\nmachine = \"tiny-lad\""),
    ] {
        let others = hashes(&TEXT.replacen(from, to, 1), "1.0");
        assert!(others.iter().all(|hash| !all.contains(hash)), "{to}");
    }
    assert!(hashes(TEXT, "1.1").iter().all(|hash| !all.contains(hash)));
}

#[test]
fn slices_partition_all_points() {
    let sweep = sweep(TEXT).unwrap();
    for of in 1..6 {
        let slices = (0..of).map(|index| Slice { index, of });
        let mut shared: Vec<&str> =
            slices.flat_map(|slice| sweep.slice(slice)).map(|point| &*point.hash).collect();
        let mut all: Vec<&str> = sweep.points().iter().map(|point| &*point.hash).collect();
        shared.sort_unstable();
        all.sort_unstable();
        assert_eq!(shared, all);
    }
    assert_eq!("2/3".parse::<Slice>().unwrap(), Slice { index: 2, of: 3 });
    for wrong in ["", "1", "3/3", "0/0", "-1/2", "a/b", "1/2/3"] {
        assert!(wrong.parse::<Slice>().is_err(), "{wrong}");
    }
}

#[test]
fn invalid_sweep_error_names_the_key() {
    for (text, says) in [
        ("[base", "line 1: "),
        ("[bases]", "no key `bases` in the file: there are [base], [axes], [[points]]"),
        ("[base]\nworklaod = \"cq\"", "no key `worklaod` in [base]: there are workload, design"),
        ("[axes]\nseeds = [1]", "no key `seeds` in [axes]"),
        ("[[points]]\na = 1", "no key `a` in [[points]] 1"),
        ("base = 1", "base = 1 in the file: it must be a table"),
        ("points = [1]", "it must be tables, each [[points]]"),
        ("[base]\ndesign = \"volatile\"", "no `workload`: put it into [base]"),
        ("[base]\nworkload = \"cq\"", "no `design`"),
        ("[base]\nseed = -1", "seed = -1 in [base]: it must be a whole number, not negative"),
        ("[base]\nseed = [1]", "seed = [1] in [base]"),
        ("[axes]\nseed = 1", "seed = 1 in [axes]: it must be a list"),
        ("[axes]\nseed = []", "`seed` in [axes] has no values"),
        ("[axes]\nseed = [1, 2, 1]", "`seed` in [axes] has 1 twice: keep one of them"),
        ("[base]\nscale = nan", "scale = nan in [base]: it must be a number above 0"),
        ("[base]\nsettings = [\"mc.wq=8\"]", "it must be a table of keys"),
        (
            "[base]\nworkload = \"sps\"\ndesign = \"lad\"\n\"mc.wq\" = 16\n[axes]\n\
             settings = [{ \"mc.wq\" = 32 }, { \"mc.wq\" = 64 }]",
            "`mc.wq` is a key of its own and in `settings`: keep one of them",
        ),
        ("[axes]\n\"mc.wq\" = [[8]]", "it must be a number, true, false or a word"),
    ] {
        let said = refusal(text);
        assert!(said.contains(says), "{text}: {said}");
    }
    let with = |more: &str| refusal(&TEXT.replacen("[axes]", more, 1));
    let says = "`design` is in [base] and in [axes]";
    assert!(with("design = \"volatile\"\n[axes]").contains(says));
    assert!(with("mc.wqs = 8\n[axes]").contains("no key `mc.wqs`: there are mc.forward, "));
    assert!(with("machine = \"lda\"\n[axes]").contains("no machine `lda`"));
    assert!(with("machine = \"no.toml\"\n[axes]").contains("cannot read ./no.toml"));
    assert!(with("cores = 16\n[axes]").contains("machine lad has 15 cores, not 16"));
    assert!(refusal(&TEXT.replace("sw-undo", "none")).contains("there is no design `none`"));
    let values: Vec<u32> = (8..136).collect();
    let many = "[base]\nworkload = \"cq\"\ndesign = \"volatile\"\n[axes]\n".to_owned()
        + &["mc.wq", "mc.a", "mc.b"].map(|key| format!("\"{key}\" = {values:?}\n")).concat();
    assert!(refusal(&many).contains("more than 1048576 points"));
}

#[test]
fn result_round_trips_without_host_seconds() {
    let (room, sweep) = (tempfile::tempdir().unwrap(), sweep(TEXT).unwrap());
    let results = Results::create(&room.path().join("a/b")).unwrap();
    let [point, other, ..] = sweep.points() else { panic!("there are four") };
    assert!(matches!(results.record(point), Found::Missing));
    let record = Record::new(point, sweep.program(), outcome(point));
    results.put_record(&record).unwrap();
    let path = room.path().join(format!("a/b/{}.json", point.hash));
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("host_seconds"), "{text}");
    // Another host takes another time.
    let slower = Outcome { host_seconds: 99.0, ..outcome(point) };
    results.put_record(&Record::new(point, sweep.program(), slower)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    match results.record(point) {
        Found::Whole(found) => assert_eq!(*found, record),
        found => panic!("{found:?}"),
    }
    // No other file is left.
    assert_eq!(fs::read_dir(room.path().join("a/b")).unwrap().count(), 1);
    fs::copy(&path, room.path().join(format!("a/b/{}.json", other.hash))).unwrap();
    assert!(matches!(results.record(other), Found::Damaged(_)));
}

#[test]
fn changed_or_missing_byte_is_damage() {
    let (room, sweep) = (tempfile::tempdir().unwrap(), sweep(TEXT).unwrap());
    let results = Results::create(room.path()).unwrap();
    let point = &sweep.points()[0];
    results.put_record(&Record::new(point, sweep.program(), outcome(point))).unwrap();
    let path = room.path().join(format!("{}.json", point.hash));
    let whole = fs::read(&path).unwrap();
    let is_damaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        matches!(results.record(point), Found::Damaged(_))
    };
    assert!(!is_damaged(&whole));
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x11;
        assert!(is_damaged(&changed), "byte {at}");
    }
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        assert!(is_damaged(&whole[..length]), "{length} bytes");
    }
}

#[test]
fn list_round_trips() {
    let (room, sweep) = (tempfile::tempdir().unwrap(), sweep(TEXT).unwrap());
    let results = Results::create(room.path()).unwrap();
    let said = results.list().expect_err("the directory has no list").to_string();
    assert!(said.contains("sweep.json") && said.contains("--out"), "{said}");
    results.put_list(&sweep).unwrap();
    results.put_list(&sweep).unwrap();
    let list = results.list().unwrap();
    assert_eq!(list.program, "1.0");
    let found = list.points.iter().map(|listed| (&listed.point, &listed.asked));
    assert!(found.eq(sweep.points().iter().map(|point| (&point.hash, &point.asked))));
    fs::write(room.path().join("sweep.json"), "{}").unwrap();
    assert!(results.list().is_err());
}
