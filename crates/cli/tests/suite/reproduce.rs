//! Output, files and refusals of `lastword reproduce`. The crate `papers` tests its measurements.

use crate::common::{Room, keys};

#[test]
fn unrunnable_rows_are_reported_with_reason() {
    let room = Room::new();
    let report = room.json(0, &["reproduce", "dudetm", "d9", "--quick", "--out", "results"]);
    for key in ["paper", "machine", "seconds", "rows", "rounds", "seed"] {
        assert!(!report[key].is_null(), "{key}");
    }
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let expected = [
            "command", "held", "id", "name", "ours", "paper", "rounds", "seed", "target", "unit",
            "what", "why",
        ];
        assert_eq!(keys(row), expected);
        assert!(row["ours"].is_null() && row["held"].is_null(), "{row}");
        assert!(row["why"].as_str().unwrap().contains("RTM"), "{row}");
    }
    let read = |file: &str| std::fs::read_to_string(room.path(file)).unwrap();
    assert!(read("results/dudetm.html").contains("RTM"));
    assert_eq!(read("results/dudetm.csv").lines().count(), 7);
    assert!(read("results/dudetm.json").contains("\"rows\""));
}

#[test]
fn list_prints_experiments_without_measuring() {
    let room = Room::new();
    let all = room.json(0, &["reproduce", "lad", "--list", "--out", "results"]);
    let ids: Vec<&str> =
        all.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert!(ids[0] == "L1" && ids.contains(&"L13") && ids.contains(&"C1"), "{ids:?}");
    assert!(all.as_array().unwrap().iter().all(|it| it["rows"].as_u64() > Some(0)), "{all}");
    assert!(!room.path("results").exists());
    let table = room.expect(0, &["reproduce", "lad", "l2", "--list"]);
    assert!(table.contains("two sockets") && !table.contains("one socket"), "{table}");
}

#[test]
fn unknown_experiment_is_refused() {
    let room = Room::new();
    let known = "it has D1, D2, D3, D4, D5, D6, D7, D8, D9, D10";
    room.refuse(known, &["reproduce", "dudetm", "D11"]);
    room.refuse("it has P1, P2, P3, P4", &["reproduce", "pisces", "D1"]);
    room.refuse("dudetm, pisces", &["reproduce", "another"]);
    std::fs::write(room.path("a.json"), "hello").unwrap();
    room.refuse("comparison durable", &["reproduce", "dudetm", "D9", "--comparison", "a.json"]);
    room.refuse("a.json", &["reproduce", "dudetm", "D9", "--out", "a.json"]);
}
