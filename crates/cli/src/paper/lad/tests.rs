//! What follows from simulations that were never made.

use std::path::Path;

use clap::Parser;
use sim::machine::description::Description;
use sim::report::{CyclesPerTransaction, Machine, NvmWrites, Outcome, Spread};
use sim::sweep::SweepError;

use super::super::sample;
use super::*;
use crate::args::CommandLine;

/// The least number of cycles is that of the first workload, of the next ones twice as many each.
const CYCLES: f64 = 300.0;

/// A point of the paper's machine, whatever else was asked for.
fn invented(asked: &Asked) -> Outcome {
    let place = super::WORKLOADS.iter().position(|workload| *workload == asked.workload).unwrap();
    let of_workload = CYCLES * f64::from(1 << place);
    let [is_short, is_remote] = ["mc.wq", "mc.remote_ns"].map(|key| asked.value(key).is_some());
    let more = match (&*asked.design, is_remote) {
        ("volatile", _) => 0.0,
        ("lad-llc", _) => 0.2,
        ("lad", false) => 0.25,
        ("lad-base", false) => 0.3,
        ("lad", true) => 0.3,
        ("lad-base", true) => 0.4,
        ("sw-undo", _) => 0.9,
        (design, _) => panic!("{design}"),
    };
    let slower = if is_short && asked.design == "lad" { 1.05 } else { 1.0 };
    let transactions = asked.transactions;
    let writes = match (&*asked.design, is_short) {
        ("lad", true) => 5 * transactions,
        ("sw-undo", _) => 11 * transactions,
        _ => 4 * transactions,
    };
    let description = Description::builtin("lad").unwrap();
    Outcome {
        workload: asked.workload.clone(),
        design: asked.design.clone(),
        machine: Machine::of(&description),
        cores: 15,
        seed: asked.seed,
        transactions,
        cycles: 1,
        cycles_per_transaction: CyclesPerTransaction {
            total: of_workload * (1.0 + more) * slower,
            prepare: 100.0,
            commit: 40.0,
            ..Default::default()
        },
        nvm_reads: transactions,
        nvm_writes: NvmWrites { data: writes, ..Default::default() },
        dram_reads: 0,
        dram_writes: 0,
        lines_per_transaction: Spread { mean: 4.0, max: 4 },
        pages_per_transaction: Spread { mean: 1.0, max: 1 },
        fallbacks: if is_short { transactions / 4 } else { 0 },
        design_counts: [].into(),
        steady: asked.workload != "cq" || asked.design != "lad",
        simulated_accesses: 1,
        host_seconds: 0.0,
        checked: None,
        power_cuts: None,
        violations: None,
        rare_paths_cut: None,
        description,
        complaints: vec![],
    }
}

#[test]
fn a_full_run_has_every_row_and_a_quick_one_every_row_with_a_mark() {
    let of = |quick| sample::simulated("lad", quick, invented);
    sample::assert_rows_of("lad", (&of(false), &of(true)), |_, mark| mark.is_none());
}

#[test]
fn what_holds_follows_from_marks_and_simulations_alone() {
    let results = sample::simulated("lad", false, invented);
    let held = |id: &str, name: &str| sample::held(&results, id, name);
    assert_eq!(held("L1", "mean/lad"), (Some(0.8), Some(true)));
    assert_eq!(held("L1", "mean/sw-undo"), (Some(0.526), Some(true)));
    assert_eq!(held("L1", "order/lad-llc"), (Some(1.042), Some(true)));
    assert_eq!(held("L2", "mean/lad-base"), (Some(0.714), Some(true)));
    assert_eq!(held("L2", "base-loses-most"), (Some(0.024), Some(true)));
    assert_eq!(held("L3", "one/mean"), (Some(4.0), Some(true)));
    assert_eq!(held("L3", "two/tatp-hash"), (Some(7.692), Some(true)));
    assert_eq!(held("L4", "ratio/rbt"), (Some(0.8), Some(false)));
    assert_eq!(held("L5", "prepare/pc"), (Some(100.0), Some(false)));
    assert_eq!(held("L5", "by-commit/pc"), (Some(2.5), Some(true)));
    assert_eq!(held("L6", "commit/sps"), (Some(40.0), Some(true)));
    // The shortest is not the one of the paper.
    assert_eq!(held("L7", "order/tatp-hash"), (Some(0.5), Some(false)));
    assert_eq!(held("L7", "order/cq"), (Some(4.0), Some(true)));
    assert_eq!(held("L8", "bound/tatp-hash"), (Some(5.634), Some(true)));
    assert_eq!(held("L9", "software-by-volatile"), (Some(2.4), Some(true)));
    assert_eq!(held("L9", "lad-more-by-lines"), (Some(0.0), Some(true)));
    assert_eq!(held("L9", "lad-writes-by-lines"), (Some(1.0), Some(true)));
    assert_eq!(held("L10", "fallbacks/64/cq"), (Some(0.0), Some(true)));
    assert_eq!(held("L10", "fallbacks/8/cq"), (Some(25.0), Some(true)));
    assert_eq!(held("L10", "slower/lad/cq"), (Some(4.762), Some(true)));
    assert_eq!(held("L10", "slower/lad/tpcc-hash"), (Some(4.762), Some(false)));
    assert_eq!(held("L10", "more-writes/cq"), (Some(25.0), Some(true)));
    assert_eq!(held("L11", "cq-by-others"), (Some(1.0), Some(true)));
    assert_eq!(held("L12", "shift/lad"), (Some(0.0), Some(true)));
    assert_eq!(held("L13", "lost"), (Some(47.368), Some(true)));
    assert_eq!(results.figures.len(), 2);
}

#[test]
fn a_row_says_what_is_not_steady_and_what_makes_it() {
    let results = sample::simulated("lad", false, invented);
    let row = |id: &str, name: &str| {
        results.rows.iter().find(|row| row.id == id && row.name == name).unwrap()
    };
    let mean = row("L1", "mean/lad");
    assert!(mean.why.as_deref().is_some_and(|why| why.contains("Not steady: cq on lad.")));
    assert_eq!(row("L1", "mean/sw-undo").why, None);
    let command = row("L10", "fallbacks/8/pc").command.as_deref();
    let expected = "lastword sim run pc --design lad --transactions 20000 --machine lad \
                    --set mc.wq=8";
    assert_eq!(command, Some(expected));
}

#[test]
fn every_simulation_of_a_plan_can_be_run_or_its_design_is_named() {
    let known = |design: &str| sim::design::ALL.iter().any(|about| about.name == design);
    for quick in [false, true] {
        let budget = sample::budget(quick);
        for asked in RECIPES.iter().flat_map(|recipe| recipe.plan_sims(&budget)) {
            let (text, design) = (command(&asked), asked.design.clone());
            let resolved = asked.resolve(Path::new("."), "1.0");
            if known(&design) {
                let words = ["lastword"].into_iter().chain(text.split_whitespace());
                CommandLine::try_parse_from(words).unwrap();
                resolved.unwrap();
            } else {
                assert!(DURABLE.contains(&&*design));
                match resolved {
                    Err(SweepError::NoDesign { name, .. }) => assert_eq!(name, design),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
