//! Lines and pages written per transaction by the papers' workloads, next to the papers' numbers.
//! Only the design `volatile` runs here: choices that depend on these numbers precede any
//! comparison of designs.

#![allow(clippy::unwrap_used, reason = "only tests use these helpers")]

use crate::common::{setup, simulate_with};
use sim::report::{Outcome, Spread};
use workloads::{DataSet, Options};

/// A workload on the machine of its paper, with the expected numbers.
struct Row {
    workload: &'static str,
    machine: &'static str,
    data: Option<DataSet>,
    scale: f64,
    /// The paper's numbers: average lines, average pages, most pages.
    paper: [Option<f64>; 3],
    /// Average lines as measured here, with a tolerance of a tenth.
    lines: f64,
}

const fn row(workload: &'static str, machine: &'static str, scale: f64, lines: f64) -> Row {
    Row { workload, machine, data: None, scale, paper: [None; 3], lines }
}

fn measured(row: &Row) -> Outcome {
    let cores = if row.machine == "ssp" { 1 } else { 2 };
    let mut setup = setup(row.machine, "volatile", cores, 4000);
    setup.warm_up_most = 2000;
    let options = Options {
        scale: row.scale,
        data: row.data,
        low_conflict: row.machine == "ssp",
        ..Options::default()
    };
    simulate_with(row.workload, options, &setup).unwrap()
}

fn print(row: &Row, outcome: &Outcome) {
    let Spread { mean: lines, max: lines_max, .. } = outcome.lines_per_transaction;
    let Spread { mean: pages, max: pages_max, .. } = outcome.pages_per_transaction;
    let data = row.data.map(|data| data.to_string()).unwrap_or_default();
    let paper: Vec<String> =
        row.paper.iter().map(|n| n.map_or("-".into(), |n| n.to_string())).collect();
    println!(
        "| `{}` {data} | {lines:.1} | {lines_max} | {pages:.1} | {pages_max} | {} |",
        row.workload,
        paper.join("/")
    );
}

fn hold(rows: &[Row]) {
    for row in rows {
        let outcome = measured(row);
        assert_eq!(outcome.complaints, Vec::<String>::new(), "{}", row.workload);
        print(row, &outcome);
        let lines = outcome.lines_per_transaction.mean;
        assert!((lines / row.lines - 1.0).abs() < 0.1, "{}: {lines} lines", row.workload);
    }
}

#[test]
fn ssp_workloads_write_expected_lines() {
    let of = |workload, scale, lines, paper: [f64; 3]| Row {
        paper: paper.map(Some),
        ..row(workload, "ssp", scale, lines)
    };
    // 8192 keys of a million.
    let keys = 0.008_192;
    hold(&[
        of("rbtree", keys, 5.3, [12.0, 3.0, 13.0]),
        of("bptree", keys, 8.7, [10.0, 6.0, 21.0]),
        of("hash", keys, 3.2, [3.0, 3.0, 4.0]),
        of("sps-1", 1.0, 2.0, [2.0, 2.0, 2.0]),
        of("rbtree-zipf", keys, 4.7, [5.0, 2.0, 6.0]),
        of("bptree-zipf", keys, 9.3, [6.0, 4.0, 15.0]),
        of("hash-zipf", keys, 3.1, [3.0, 3.0, 4.0]),
        of("memcached", 1.0, 3.4, [3.0, 2.0, 35.0]),
        of("vacation", 1.0, 5.7, [4.0, 3.0, 9.0]),
    ]);
}

#[test]
fn redu_workloads_write_expected_lines() {
    let measured = [
        ("vector", 18.5, 16.0),
        ("swap", 32.0, 16.0),
        ("hashmap", 19.5, 16.0),
        ("btreemap", 19.2, 16.0),
        ("rbtreemap", 19.8, 16.0),
        ("ycsb-put", 18.6, 16.0),
        ("echo", 20.5, 17.0),
    ];
    for (workload, large, random) in measured {
        let large = (DataSet::Large { bytes: 1024 }, large);
        for (data, lines) in [large, (DataSet::Random { objects: 16 }, random)] {
            hold(&[Row { data: Some(data), ..row(workload, "redu", 0.02, lines) }]);
        }
    }
}

#[test]
fn lad_workloads_write_expected_lines() {
    let of = |workload, lines, paper| Row {
        paper: [Some(paper), None, None],
        ..row(workload, "lad", 0.1, lines)
    };
    hold(&[
        of("tatp-hash", 1.0, 1.0),
        of("rbt", 3.4, 6.0),
        of("cq", 4.0, 4.0),
        of("pc", 8.0, 8.0),
        of("sps", 16.0, 16.0),
        of("tpcc-rows", 22.7, 22.0),
        of("tpcc-hash", 47.9, 22.0),
    ]);
}
