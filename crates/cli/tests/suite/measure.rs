//! Reports of `lastword measure`, from measurements that take moments.

use crate::common::{Room, keys, with};
use serde_json::Value;

/// Expects a positive figure over rounds, with its median between its bounds.
fn assert_over_rounds(figure: &Value) {
    assert_eq!(keys(figure), ["max", "median", "min"]);
    let at = |key: &str| figure[key].as_f64().unwrap();
    assert!(0.0 < at("min") && at("min") <= at("median") && at("median") <= at("max"), "{figure}");
}

#[test]
fn measure_disk_reports_documented_keys() {
    let room = Room::new();
    let report = room.json(0, &["measure", "disk", "--writes", "3", "--rounds", "2"]);
    let expected = [
        "bypasses_page_cache",
        "commit",
        "directory",
        "file_system",
        "machine",
        "question",
        "rounds",
        "sizes",
        "writes_per_round",
    ];
    assert_eq!(keys(&report), expected);
    let sizes = report["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 3);
    for (size, bytes) in sizes.iter().zip([4096, 65536, 1 << 20]) {
        let expected =
            ["bytes", "bytes_per_second", "latency_ns", "latency_ns_p99", "writes_per_second"];
        assert_eq!(keys(size), expected);
        assert_eq!(size["bytes"], bytes);
        for key in ["latency_ns", "writes_per_second", "bytes_per_second"] {
            assert_over_rounds(&size[key]);
        }
        assert!(size["latency_ns_p99"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(room.files(), [""; 0]);
    let table = room.expect(0, &["measure", "disk", "--writes", "1", "--dir", "."]);
    assert!(table.starts_with("how long") && table.contains("64.0 KiB"), "{table}");
    room.refuse("no-such-place", &["measure", "disk", "--dir", "no-such-place"]);
}

#[test]
fn measure_reproduce_reports_documented_keys() {
    let room = Room::new();
    let command = ["measure", "reproduce", "--entries", "10000", "--bytes", "4M", "--rounds", "2"];
    for (skew, zipf) in [(&[][..], Value::Null), (&["--zipf", "0.99"], 0.99.into())] {
        let report = room.json(0, &with(&with(&command, &["--log-bytes", "1M"]), skew));
        let expected = [
            "both_entries_per_second",
            "commit",
            "entries",
            "heap_bytes",
            "log_bytes",
            "machine",
            "persist_entries_per_second",
            "question",
            "reproduce_cpu_ns_per_entry",
            "reproduce_entries_per_second",
            "reproduce_threads",
            "rounds",
            "threads",
            "words_per_transaction",
            "zipf",
        ];
        assert_eq!(keys(&report), expected);
        assert_eq!((&report["entries"], &report["zipf"]), (&10_000.into(), &zipf));
        for step in ["persist", "reproduce", "both"] {
            assert_over_rounds(&report[&format!("{step}_entries_per_second")]);
        }
        let median = |step: &str| report[&format!("{step}_entries_per_second")]["min"].clone();
        assert!(median("both").as_f64() <= median("reproduce").as_f64());
    }
    let table = room.expect(0, &command);
    assert!(table.starts_with("how many") && table.contains("merge and log"), "{table}");
    assert_eq!(room.files(), [""; 0]);
}

#[test]
fn unusable_directory_is_refused_with_a_next_step() {
    let room = Room::new();
    std::fs::write(room.path("file"), "").unwrap();
    for directory in ["missing", "file", "/proc"] {
        let error = format!("cannot write a file in {directory}: ");
        room.refuse(&error, &["measure", "disk", "--dir", directory]);
        room.refuse("as in `--dir /tmp`", &["measure", "disk", "--dir", directory]);
    }
}
