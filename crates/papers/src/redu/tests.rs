//! ReDU's recipes: rows of full and quick runs, and their values for given outcomes.

use sim::report::{CyclesPerTransaction, NvmWrites};

use super::*;
use crate::sample;
use crate::simulations::blank;

/// Returns an outcome on the paper's machine that depends on design, workload and settings alone.
fn invented(asked: &Asked) -> Outcome {
    let is = |key: &str, value: &str| asked.value(key).as_deref() == Some(value);
    let is_large = !asked.data.as_deref().is_some_and(|data| data.starts_with("random"));
    let by_redu = match (&*asked.design, is_large) {
        ("hw-undo", true) => 1.02,
        ("hw-undo", false) => 1.2,
        ("hw-redo", true) => 1.2,
        ("hw-redo", false) => 1.1,
        ("hw-undo-redo", true) => 1.4,
        ("hw-undo-redo", false) => 1.25,
        ("sw-undo", _) => 2.5,
        (REDU, _) => 1.0,
        ("volatile", _) => 0.5,
        (design, _) => panic!("{design}"),
    };
    let unpacked = if is("design.log.pack", "0") { 1.5 } else { 1.0 };
    let unfiltered = if is("design.redu.filter", "0") { 1.3 } else { 1.0 };
    let kept = if is("design.redu.write_back", "1") { 0.75 } else { 1.0 };
    let plain = if is("design.log.coalesce", "0") { 16 } else { 10 };
    let transactions = asked.transactions;
    Outcome {
        workload: asked.workload.clone(),
        design: asked.design.clone(),
        transactions,
        fallbacks: if plain == 16 && asked.workload == "swap" { 126 } else { 0 },
        cycles_per_transaction: CyclesPerTransaction {
            total: 1000.0 * by_redu * unpacked * unfiltered * kept,
            ..Default::default()
        },
        nvm_reads: 100,
        nvm_writes: NvmWrites { log_data: plain * transactions, ..Default::default() },
        design_counts: [
            ("log_bytes".to_owned(), 10 * plain * transactions),
            ("dram_read_hits".to_owned(), 60),
        ]
        .into(),
        ..blank()
    }
}

#[test]
fn redu_runs_have_all_rows() {
    let of = |quick| sample::simulated("redu", quick, invented);
    let (full, quick) = (of(false), of(true));
    // A quick run has fewer latencies and sizes, and leaves out the power cuts.
    sample::assert_rows_of("redu", (&full, &quick), |id, target| target.is_none() || id == "R9");
}

#[test]
fn redu_rows_follow_from_simulations() {
    let results = sample::simulated("redu", false, invented);
    let held = |id: &str, name: &str| sample::held(&results, id, name);
    assert_eq!(held("R1", "ratio/hw-redo"), (Some(1.2), Some(true)));
    assert_eq!(held("R1", "reduction/hw-redo"), (Some(16.667), None));
    assert_eq!(held("R1", "ratio/hw-undo"), (Some(1.02), Some(true)));
    assert_eq!(held("R2", "ratio/hw-undo"), (Some(1.2), Some(true)));
    assert_eq!(held("R3", "reduction/hw-undo-redo"), (Some(24.507), Some(true)));
    assert_eq!(held("R3", "order/hw-undo"), (Some(1.041), Some(true)));
    assert_eq!(held("R4", "large/best"), (Some(1.176), Some(true)));
    assert_eq!(held("R4", "random/best"), (Some(1.091), Some(true)));
    assert_eq!(held("R4", "random/redu"), (Some(1.1), Some(true)));
    assert_eq!(held("R5", "writes/packed"), (Some(0.625), Some(true)));
    assert_eq!(held("R5", "bytes/coalesced"), (Some(0.625), Some(false)));
    assert_eq!(held("R7", "large/gain/redu"), (Some(1.5), Some(true)));
    assert_eq!(held("R7", "large/redo-before/hw-undo"), (Some(1.275), Some(true)));
    assert_eq!(held("R8", "large/none/ycsb-put"), (Some(27.451), Some(true)));
    assert_eq!(held("R8", "large/most"), (Some(1.961), Some(true)));
    assert_eq!(held("R9", "random/4000/undo-redo-worst"), (Some(1.042), Some(true)));
    assert_eq!(held("R9", "large/undo-by-redo"), (Some(0.85), Some(false)));
    assert_eq!(held("R10", "best"), (Some(25.0), Some(true)));
    assert_eq!(held("R10", "better"), (Some(5.0), Some(true)));
    assert_eq!(held("R10", "gain/none/16/ycsb-put"), (Some(2.5), Some(false)));
    assert_eq!(held("R10", "hit-rate/mean"), (Some(37.5), Some(true)));
    assert_eq!(held("R11", "mean"), (Some(2.264), Some(true)));
    assert_eq!(held("R12", "random/as-is/hw-redo"), (Some(1.1), None));
    assert_eq!(results.figures.len(), 3);
}

#[test]
fn row_counts_fallbacks_to_software() {
    let results = sample::simulated("redu", false, invented);
    let why = |id: &str, name: &str| {
        let row = results.rows.iter().find(|row| row.id == id && row.name == name).unwrap();
        row.why.clone().unwrap_or_default()
    };
    let said = why("R5", "writes/packed/swap");
    let of_swap = "transactions in software: swap on redu (large:4096, design.log.coalesce=0, \
                   design.log.pack=0).";
    assert!(said.starts_with("126 of ") && said.contains(of_swap), "{said}");
    assert!(why("R5", "writes/packed").contains(of_swap));
    assert_eq!(why("R5", "writes/packed/vector"), "");
}

#[test]
fn designs_of_a_case_share_machine_and_transactions() {
    let budget = sample::budget(false);
    for case in [large(&budget), random(&budget)].concat() {
        let mut all = ALL.map(|design| case.asked(design, &TABLE_II, &budget));
        all.iter_mut().for_each(|asked| asked.design.clear());
        assert!(all.iter().all(|asked| *asked == all[0]), "{}", case.name());
    }
}

#[test]
fn redu_rows_have_simulations() {
    sample::assert_simulated("redu");
}

/// A second copy of the targets, so that no change to the file loosens one unnoticed.
#[test]
fn redu_targets_are_unchanged() {
    const CUT: [&str; 5] = ["sw-undo", "hw-undo", "hw-redo", "hw-undo-redo", "redu"];
    let mut expected: Vec<(&str, String, &str)> = Vec::new();
    let mut add = |id, of: &str, names: &[&str], targets: &[&'static str]| {
        let named = names.iter().enumerate();
        let target = |at: usize| targets[at % targets.len()];
        expected.extend(named.map(|(at, name)| (id, of.replace('*', name), target(at))));
    };
    add("R1", "ratio/*", &BASELINES, &["0.95 to 1.1", "1.08 to 1.35", "1.2 to 1.55"]);
    add("R2", "ratio/*", &BASELINES, &["1.06 to 1.35", "1 to 1.25", "1.1 to 1.4"]);
    add("R3", "reduction/*", &BASELINES, &["3 to 18", "6 to 25", "12 to 35"]);
    add("R3", "order/*", &BASELINES[..2], &[">= 1"]);
    add("R4", "*", &["large/best", "random/best"], &[">= 1"]);
    add("R4", "*", &["large/redu", "random/redu"], &[">= 0.95"]);
    add("R5", "*", &["writes/packed"], &["0.5 to 0.83"]);
    add("R5", "bytes/*", &["coalesced", "packed"], &["0.53 to 0.59"]);
    add("R6", "*", &["writes/packed"], &["0.58 to 0.88"]);
    add("R6", "bytes/*", &["coalesced", "packed"], &["0.66 to 0.9", "0.56 to 0.8"]);
    for set in ["large", "random"] {
        add("R7", &format!("{set}/gain/*"), &ALL, &[">= 1"]);
        add("R7", &format!("{set}/redo-before/*"), &["hw-undo", "hw-undo-redo"], &[">= 1"]);
        for ns in [150, 300, 600, 1200, 2400, 4000] {
            add("R9", &format!("{set}/{ns}/*"), &["undo-redo-worst", "redu-best"], &[">= 1"]);
        }
        let ends = ["undo-loses", "undo-by-redo", "gap-shrinks"];
        add("R9", &format!("{set}/*"), &ends, &[">= 1"]);
    }
    add("R8", "large/none/*", &["ycsb-put", "echo"], &["5 to 30", "<= 0"]);
    add("R8", "*/most", &["large", "random"], &["<= 4"]);
    add("R10", "*", &["better", "best"], &[">= 3", "10 to 45"]);
    add("R10", "grows/*", &["32", "16"], &[">= 0"]);
    add("R10", "gain/none/*/ycsb-put", &["16", "8"], &["<= 0"]);
    add("R10", "hit-rate/mean", &[""], &["25 to 60"]);
    add("R11", "mean", &[""], &["1.3 to 3.5"]);
    add("C1", "rare/*", &CUT[1..], &[">= 1"]);
    add("C3", "isolation/*", &CUT, &["<= 0"]);
    add("C4", "equal", &[""], &[">= 100"]);
    for (row, target) in sample::TARGETS_OF_CUTS {
        add("C1", row, &CUT, &[target]);
    }
    sample::assert_targets("redu", &expected);
}
