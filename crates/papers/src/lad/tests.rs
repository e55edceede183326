//! LAD's recipes: rows of full and quick runs, and their values for given outcomes.

use sim::report::{Backlog, CyclesPerTransaction, NvmWrites, Outcome, Spread};

use super::*;
use crate::sample;
use crate::simulations::blank;

/// The least number of cycles is that of the first workload, of the next ones twice as many each.
const CYCLES: f64 = 300.0;

/// Returns an outcome on the paper's machine that depends on design, workload and settings alone.
fn invented(asked: &Asked) -> Outcome {
    // The sweep of power cuts has one workload more; no test reads its numbers.
    let place = super::WORKLOADS.iter().position(|workload| *workload == asked.workload);
    let place = place.unwrap_or_default();
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
    Outcome {
        workload: asked.workload.clone(),
        design: asked.design.clone(),
        transactions,
        cycles_per_transaction: CyclesPerTransaction {
            total: of_workload * (1.0 + more) * slower,
            prepare: 100.0,
            commit: 40.0,
            ..Default::default()
        },
        nvm_reads: transactions,
        nvm_writes: NvmWrites { data: writes, ..Default::default() },
        lines_per_transaction: Spread { mean: 4.0, max: 4 },
        fallbacks: if is_short { transactions / 4 } else { 0 },
        design_counts: [].into(),
        backlog: Backlog::default(),
        steady: asked.workload != "cq" || asked.design != "lad",
        ..blank()
    }
}

#[test]
fn lad_runs_have_all_rows() {
    let of = |quick| sample::simulated("lad", quick, invented);
    sample::assert_rows_of("lad", (&of(false), &of(true)), |_, target| target.is_none());
}

#[test]
fn lad_rows_follow_from_simulations() {
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
    // Another workload than in the paper has the shortest transactions.
    assert_eq!(held("L7", "order/tatp-hash"), (Some(0.5), Some(false)));
    assert_eq!(held("L7", "order/cq"), (Some(4.0), Some(true)));
    assert_eq!(held("L8", "bound/tatp-hash"), (Some(5.634), Some(true)));
    assert_eq!(held("L9", "software-by-volatile"), (Some(2.4), Some(true)));
    assert_eq!(held("L9", "lad-more-by-lines"), (Some(0.0), Some(true)));
    assert_eq!(held("L9", "lad-writes-by-lines"), (Some(1.0), Some(true)));
    assert_eq!(held("L10", "fallbacks/64/cq"), (Some(0.0), Some(true)));
    assert_eq!(held("L10", "fallbacks/8/cq"), (Some(25.0), None));
    assert_eq!(held("L10", "slower/lad/cq"), (Some(4.762), Some(true)));
    assert_eq!(held("L10", "slower/lad/tpcc-rows"), (Some(4.762), Some(false)));
    assert_eq!(held("L10", "slower/order"), (Some(-4.762), Some(false)));
    assert_eq!(held("L10", "more-writes/cq"), (Some(25.0), Some(true)));
    assert_eq!(held("L11", "cq-by-others"), (Some(1.0), Some(true)));
    assert_eq!(held("L12", "shift/lad"), (Some(0.0), Some(true)));
    assert_eq!(held("L13", "lost"), (Some(47.368), Some(true)));
    assert_eq!(results.figures.len(), 2);
}

#[test]
fn row_names_unsteady_simulations_and_its_command() {
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
fn failed_simulation_leaves_other_rows_intact() {
    let results = sample::judged_with("lad", false, |asked| match asked.workload.as_str() {
        "cq" if asked.design == "lad" && asked.settings.is_empty() => {
            Err("it panicked, see above".into())
        }
        _ => Ok(invented(asked)),
    });
    let row = |id: &str, name: &str| {
        results.rows.iter().find(|row| row.id == id && row.name == name).unwrap()
    };
    let failed = row("L1", "mean/lad");
    assert_eq!((failed.ours.is_none(), failed.held), (true, None));
    let why = "Could not be simulated: cq on lad: it panicked, see above.";
    assert_eq!(failed.why.as_deref(), Some(why));
    assert_eq!(row("L1", "lad/cq").why.as_deref(), Some(why));
    assert!(row("L1", "lad/pc").ours.is_some() && row("L1", "mean/sw-undo").held.is_some());
    assert_eq!(results.figures.len(), 2);
}

#[test]
fn lad_rows_have_simulations() {
    sample::assert_simulated("lad");
}
