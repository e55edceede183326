//! Reports and time limits of `lastword compare`.

use crate::common::{Room, TINY, keys, with};

#[test]
fn compare_ratios_are_to_first_design() {
    let room = Room::new();
    let command =
        ["compare", "hashtable", "--designs", "volatile,decoupled,plain", "--rounds", "2"];
    let report = room.json(0, &with(&command, &TINY));
    let expected = [
        "bandwidth_gbps",
        "baseline",
        "commit",
        "compress",
        "durability",
        "group",
        "group_ms",
        "latency_cycles",
        "machine",
        "medium",
        "outstanding",
        "ownership_records",
        "pause_us",
        "persist_threads",
        "readers",
        "reproduce_threads",
        "rounds",
        "rows",
        "scale",
        "seed",
        "shadow",
        "shadow_bytes",
        "threads",
        "transactions",
        "workload",
    ];
    assert_eq!(keys(&report), expected);
    assert_eq!((&report["baseline"], &report["rounds"]), (&"volatile".into(), &2.into()));
    assert_eq!((&report["medium"], &report["transactions"]), (&"file".into(), &3000.into()));
    let rows = report["rows"].as_array().unwrap();
    let designs: Vec<_> = rows.iter().map(|row| row["design"].as_str().unwrap()).collect();
    assert_eq!(designs, ["volatile", "decoupled", "plain"]);
    for row in rows {
        let expected = [
            "added_ns_median",
            "background_cpu_per_transaction_ns",
            "cpu_per_transaction_ns",
            "design",
            "durable_ratio_median",
            "durable_transactions_per_second_median",
            "foreground_cpu_per_transaction_ns",
            "log_bytes_per_transaction",
            "ratio_max",
            "ratio_median",
            "ratio_min",
            "threads",
            "transactions_min",
            "transactions_per_second_median",
        ];
        assert_eq!(keys(row), expected);
        assert_eq!(row["transactions_min"], 3000);
        assert!(row["cpu_per_transaction_ns"].as_f64().unwrap() > 0.0);
    }
    assert_eq!((&rows[0]["ratio_median"], &rows[0]["added_ns_median"]), (&1.0.into(), &0.0.into()));
    let rate = |key: &str| rows[0][key].as_f64().unwrap();
    let plain = rate("transactions_per_second_median");
    assert_eq!(rate("durable_transactions_per_second_median"), plain, "a volatile commit waits");
    assert_eq!(room.files(), [""; 0]);
}

#[test]
fn slow_design_ends_at_the_time_limit() {
    let room = Room::new();
    // Each commit of `undo` waits for a barrier of 1 ms: at most 100 in 10 times 10 ms. `volatile`
    // runs thousands.
    let command = ["compare", "bank", "--designs", "volatile,undo", "--rounds", "1"];
    let slow = ["--medium", "emulated", "--latency-ns", "1000000", "--seconds", "0.01"];
    let command = with(&with(&command, &slow), &["--scale", "0.0005"]);
    let report = room.json(0, &command);
    let (all, rows) = (&report["transactions"], &report["rows"]);
    assert_eq!(&rows[0]["transactions_min"], all);
    let fewest = rows[1]["transactions_min"].as_u64().unwrap();
    assert!(fewest > 0 && fewest < all.as_u64().unwrap() / 2, "{fewest} of {all}");
    assert!(room.expect(0, &command).contains("undo reached the time limit"));
}

#[test]
fn single_worker_design_reports_one_worker() {
    let room = Room::new();
    let command = ["compare", "bank", "--designs", "plain,volatile", "--rounds", "1"];
    let report = room.json(0, &with(&with(&command, &TINY), &["--threads", "2"]));
    let threads: Vec<_> = (0..2).map(|row| report["rows"][row]["threads"].as_u64()).collect();
    assert_eq!((threads, &report["threads"]), (vec![Some(1), Some(2)], &2.into()));
    assert!(report["rows"][1]["ratio_median"].as_f64().unwrap() > 0.0);
    assert!(report["medium"].is_null());
}

#[test]
fn compare_creates_pools_at_given_path() {
    let room = Room::new();
    let command =
        ["compare", "bank", "--designs", "volatile,decoupled", "--rounds", "1", "--pool", "a"];
    let table = room.expect(0, &with(&command, &TINY));
    assert!(table.contains("decoupled") && table.contains("ratios to volatile"), "{table}");
    assert_eq!(room.files(), [""; 0]);
    std::fs::write(room.path("a"), "mine").unwrap();
    room.refuse("fresh", &with(&command, &TINY));
    assert_eq!(std::fs::read(room.path("a")).unwrap(), b"mine");
}
