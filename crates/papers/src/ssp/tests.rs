//! SSP's recipes: rows of full and quick runs, and their values for given outcomes.

use sim::report::{CyclesPerTransaction, NvmWrites, Spread};

use super::*;
use crate::sample;
use crate::simulations::blank;

/// Returns an outcome on the paper's machine that depends on design, workload and settings alone.
fn invented(asked: &Asked) -> Outcome {
    let number = |key: &str, or: f64| asked.value(key).map_or(or, |value| value.parse().unwrap());
    let four = asked.cores == Some(4);
    let by_ssp = match (&*asked.design, four) {
        (SSP, _) => 1.0,
        ("ssp-undo", false) => 1.8,
        ("ssp-undo", true) => 2.0,
        ("ssp-redo", false) => 0.1 * (number("nvm.write_ns", 200.0) / 50.0) + 0.9,
        ("ssp-redo", true) => 1.4,
        ("volatile", _) => 0.5,
        (design, _) => panic!("{design}"),
    };
    // Two workloads depend on the latency of metadata.
    let metadata = number("design.ssp.hit_cycles", 0.0);
    let slower = if ["sps-1", "hash"].contains(&&*asked.workload) { metadata } else { 0.0 };
    let transactions = asked.transactions;
    let writes = match &*asked.design {
        SSP => {
            NvmWrites { data: 2, journal: 1, consolidation: 1, checkpoint: 1, ..Default::default() }
        }
        "ssp-undo" => NvmWrites { data: 3, log_data: 7, ..Default::default() },
        _ => NvmWrites { data: 3, log_data: 4, ..Default::default() },
    };
    let NvmWrites { data, log_data, journal, consolidation, checkpoint, .. } = writes;
    Outcome {
        workload: asked.workload.clone(),
        design: asked.design.clone(),
        transactions,
        cycles_per_transaction: CyclesPerTransaction {
            total: 1000.0 * by_ssp + slower,
            ..Default::default()
        },
        nvm_writes: NvmWrites {
            data: data * transactions,
            log_data: log_data * transactions,
            journal: journal * transactions,
            consolidation: consolidation * transactions,
            checkpoint: checkpoint * transactions,
            ..Default::default()
        },
        lines_per_transaction: Spread { mean: 3.0, max: 5 },
        pages_per_transaction: Spread { mean: 3.0, max: 65 },
        ..blank()
    }
}

#[test]
fn ssp_runs_have_all_rows() {
    let of = |quick| sample::simulated("ssp", quick, invented);
    sample::assert_rows_of("ssp", (&of(false), &of(true)), |_, _| false);
}

#[test]
fn ssp_rows_follow_from_simulations() {
    let results = sample::simulated("ssp", false, invented);
    let held = |id: &str, name: &str| sample::held(&results, id, name);
    assert_eq!(held("S1", "mean/ssp-undo"), (Some(1.8), Some(true)));
    assert_eq!(held("S1", "mean/ssp-redo"), (Some(1.3), Some(true)));
    assert_eq!(held("S2", "mean/ssp-undo"), (Some(2.0), Some(true)));
    assert_eq!(held("S2", "by-one/ssp-redo"), (Some(1.077), Some(true)));
    assert_eq!(held("S3", "mean/ssp-undo"), (Some(7.0), Some(true)));
    assert_eq!(held("S3", "mean/ssp-redo"), (Some(4.0), Some(true)));
    assert_eq!(held("S3", "with-checkpoints/ssp-undo").0, Some(3.5));
    assert_eq!(held("S3", "checkpoints/hash").0, Some(1.0));
    assert_eq!(held("S4", "saved/ssp-undo"), (Some(50.0), Some(true)));
    assert_eq!(held("S4", "saved/ssp-redo"), (Some(28.571), Some(true)));
    assert_eq!(held("S5", "zipf/ssp-undo"), (Some(50.0), Some(true)));
    assert_eq!(held("S5", "zipf-more/ssp-undo").0, Some(0.0));
    assert_eq!(held("S6", "by-data/sps-1"), (Some(0.5), Some(false)));
    assert_eq!(held("S6", "share/consolidation/hash-zipf"), (Some(20.0), Some(false)));
    assert_eq!(held("S7", "redo-before-ssp"), (Some(0.0), Some(true)));
    assert_eq!(held("S7", "ssp-redo/bptree/8"), (Some(1.7), Some(true)));
    assert_eq!(held("S7", "grows").1, Some(true));
    assert_eq!(held("S8", "sensitive/hash"), (Some(15.686), Some(true)));
    assert_eq!(held("S8", "flatter/hash-zipf"), (Some(15.686), Some(true)));
    assert_eq!(held("S9", "memcached/ssp-redo"), (Some(40.0), Some(true)));
    assert_eq!(held("S10", "vacation/ssp-undo"), (Some(50.0), Some(true)));
    assert_eq!(held("S11", "saved/ssp-undo"), (Some(85.714), Some(true)));
    assert_eq!(held("S11", "with-checkpoints/ssp-undo").0, Some(71.429));
    assert_eq!(held("S11", "consolidation/memcached"), (Some(20.0), Some(true)));
    assert_eq!(held("S12", "lines/hash"), (Some(3.0), Some(true)));
    assert_eq!(held("S12", "most-pages/hash"), (Some(65.0), Some(false)));
    assert_eq!(held("S13", "hash"), (Some(0.0), Some(true)));
    assert_eq!(results.figures.len(), 3);
}

#[test]
fn ssp_rows_have_simulations() {
    sample::assert_simulated("ssp");
}

/// A second copy of the targets, so that no change to the file loosens one unnoticed.
#[test]
fn ssp_targets_are_unchanged() {
    const CUT: [&str; 3] = ["ssp", "ssp-undo", "ssp-redo"];
    let mut expected: Vec<(&str, String, &str)> = Vec::new();
    let mut add = |id, of: &str, names: &[&str], targets: &[&'static str]| {
        let named = names.iter().enumerate();
        let target = |at: usize| targets[at % targets.len()];
        expected.extend(named.map(|(at, name)| (id, of.replace('*', name), target(at))));
    };
    add("S1", "mean/*", &LOGS, &["1.5 to 2.6", "1.12 to 1.6"]);
    add("S2", "mean/*", &LOGS, &["1.7 to 3.2", "1.15 to 1.8"]);
    add("S2", "by-one/*", &LOGS, &[">= 0.97"]);
    add("S3", "mean/*", &LOGS, &["4 to 12", "2.5 to 8"]);
    add("S4", "saved/*", &LOGS, &["33 to 58", "15 to 42"]);
    add("S5", "zipf/*", &LOGS, &["42 to 70", "28 to 56"]);
    add("S5", "random/*", &LOGS, &["29 to 57", "9 to 37"]);
    add("S5", "zipf-more/*", &LOGS, &[">= 0"]);
    add("S6", "by-data/*", &["sps-1"], &[">= 1"]);
    add("S6", "by-data/*", &RANDOM[..3], &["<= 1"]);
    add("S6", "by-data/*", &ZIPF, &["<= 1"]);
    add("S6", "share/consolidation/*", &ZIPF, &["<= 8"]);
    add("S7", "redo-before-ssp", &[""], &["0 to 15"]);
    add("S7", "ssp-redo/bptree/*", &["1", "8"], &["1 to 1.25", "1.4 to 2.2"]);
    add("S7", "grows", &[""], &[">= 1"]);
    add("S8", "sensitive/*", &["sps-1", "hash"], &[">= 0"]);
    add("S8", "flatter/*", &ZIPF, &[">= 0"]);
    add("S9", "memcached/*", &LOGS, &["40 to 110", "18 to 55"]);
    add("S9", "vacation/*", &LOGS, &["14 to 45", "5 to 25"]);
    add("S10", "memcached/*", &LOGS, &["34 to 64", "31 to 61"]);
    add("S10", "vacation/*", &LOGS, &["23 to 53", "2 to 32"]);
    add("S11", "saved/*", &LOGS, &[">= 70"]);
    add("S11", "consolidation/*", &REAL, &["5 to 40"]);
    let lines = ["9 to 15", "7.5 to 12.5", "2.25 to 3.75", "1.5 to 2.5"];
    add("S12", "lines/*", &RANDOM, &lines);
    add("S12", "lines/*", &ZIPF, &["3.75 to 6.25", "4.5 to 7.5", "2.25 to 3.75"]);
    add("S12", "lines/*", &REAL, &["2.25 to 3.75", "3 to 5"]);
    add("S12", "pages/*", &RANDOM, &["2 to 4", "5 to 7", "2 to 4", "1 to 3"]);
    add("S12", "pages/*", &ZIPF, &["1 to 3", "3 to 5", "2 to 4"]);
    add("S12", "pages/*", &REAL, &["1 to 3", "2 to 4"]);
    for all in [&MICRO[..], &REAL[..]] {
        add("S12", "most-pages/*", all, &["<= 64"]);
        add("S13", "*", all, &["<= 0"]);
    }
    add("C1", "rare/*", &CUT, &[">= 1"]);
    add("C3", "isolation/*", &CUT, &["<= 0"]);
    add("C4", "equal", &[""], &[">= 100"]);
    for (row, target) in sample::TARGETS_OF_CUTS {
        add("C1", row, &CUT, &[target]);
    }
    sample::assert_targets("ssp", &expected);
}
