//! Reports and refusals of `lastword crash`.

use crate::common::Room;

#[test]
fn exploration_reports_its_counts() {
    let arguments = "crash explore --workload append --medium-model file --executions 60 --seed 3 \
                     --with cow=1 kills=1 --format json";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let report: serde_json::Value =
        serde_json::from_str(&Room::new().expect(0, &arguments)).unwrap();
    assert_eq!(report["design"], "decoupled");
    assert_eq!(report["workload"], "append");
    assert_eq!(report["medium_model"], "file");
    assert_eq!(report["executions"], 60);
    assert_eq!(report["violations"], 0);
    assert!(report["trace"].is_null());
    assert!(report["recoveries"].as_u64() > Some(10), "{report}");
    assert!(report["nested_crashes"].as_u64() > Some(0), "{report}");
    assert!(report["distinct_images"].as_u64() > Some(1), "{report}");
    for outcome in ["all_present", "some_lost", "none"] {
        assert!(report["outcomes"][outcome].is_u64(), "{report}");
    }
    let case = report["case"].as_str().unwrap();
    assert!(case.contains("cow=1") && case.contains("kills=1"), "{case}");
}

#[test]
fn trace_is_replayed() {
    let trace = "design=decoupled workload=cells medium=file transactions=1 moves=2 choices=0*4,1";
    let text = Room::new().expect(0, &["crash", "replay", trace]);
    assert!(text.contains("the pool is opened") && text.contains("the power goes"), "{text}");
    assert!(text.ends_with("no violation\n"), "{text}");
    let again = Room::new().expect(0, &["crash", "replay", trace]);
    assert_eq!(text, again, "two replays of a trace differ");
}

#[test]
fn invalid_case_is_refused() {
    for (says, arguments) in [
        ("`medium=stone` is not a valid part of a case", ["replay", "medium=stone choices=0"]),
        ("`x` is not a choice", ["replay", "medium=file choices=0,x"]),
        ("no such design or workload", ["replay", "design=none choices=0"]),
        ("`colour=1` is not a valid part of a case", ["explore", "--with=colour=1"]),
    ] {
        Room::new().refuse(says, &["crash", arguments[0], arguments[1]]);
    }
}

#[test]
fn acknowledged_transactions_survive_kills() {
    let room = Room::new();
    let some = "--rounds 2 --seconds 0.2 --scale 0.002 --log-bytes 256K --threads 2 --format json";
    let arguments: Vec<&str> = "crash kill --workload"
        .split_whitespace()
        .chain(["tpcc-btree"])
        .chain(some.split_whitespace())
        .collect();
    let report: serde_json::Value = serde_json::from_str(&room.expect(0, &arguments)).unwrap();
    assert_eq!((&report["workload"], &report["rounds"]), (&"tpcc-btree".into(), &2.into()));
    assert_eq!((&report["lost_acknowledged"], &report["violations"]), (&0.into(), &0.into()));
    assert_eq!((&report["checks"], &report["seed"]), (&2.into(), &1.into()));
    assert!(report["recovered"].as_u64() > Some(0), "{report}");
    room.refuse(
        "does not support --transactions: bound a round by --seconds",
        &["crash", "kill", "--transactions", "5"],
    );
}
