//! D8: scaling with workers (section 5.6, figure 5).

use crate::budget::Budget;
use crate::sheet::{Sheet, curve, each, linear, middle, pairs, ratio};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

/// Each worker has its own district, or all share them. Targets refer to the first.
const CONFLICTS: [(&str, &str); 2] = [("own", " --low-conflict"), ("shared", "")];

fn conflicts(budget: &Budget) -> &'static [(&'static str, &'static str)] {
    if budget.quick { &CONFLICTS[..1] } else { &CONFLICTS }
}

/// A design and its medium.
#[derive(Clone, Copy)]
struct Kind {
    row: &'static str,
    curve: &'static str,
    design: &'static str,
    /// GB/s of the medium.
    gbps: Option<u32>,
}

/// At 1 GB/s, the paper's bandwidth, the background thread spins for the medium during a good part
/// of a transaction, on a core that workers could use. At 16 GB/s it hardly spins.
const KINDS: [Kind; 3] = [
    Kind { row: "volatile", curve: "volatile", design: "volatile", gbps: None },
    Kind { row: "decoupled", curve: "decoupled", design: "decoupled", gbps: Some(1) },
    Kind { row: "decoupled-16", curve: "decoupled, 16 GB/s", design: "decoupled", gbps: Some(16) },
];

fn workers(budget: &Budget) -> Vec<u64> {
    budget.crews().into_iter().map(u64::from).collect()
}

/// Returns the command of a trial, with equally many transactions for each worker.
fn command(kind: Kind, conflicts: &str, workers: u64, budget: &Budget) -> String {
    let transactions = workers * if budget.quick { 8_000 } else { 16_000 };
    let medium = kind.gbps.map_or(String::new(), |gbps| {
        format!(" --medium emulated --bandwidth-gbps {gbps} --latency-cycles 1000")
    });
    let design = kind.design;
    format!(
        "tpcc-btree --design {design} --transactions {transactions} --threads {workers}{conflicts}\
         {medium}"
    )
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for kind in KINDS {
        for (_, conflicts) in conflicts(budget) {
            for workers in workers(budget) {
                specs.push(Spec::new("scaling", command(kind, conflicts, workers, budget)));
            }
        }
    }
    specs
}

pub(super) fn judge(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let mut series = Vec::new();
    for kind in KINDS {
        for &(name, conflicts) in conflicts(budget) {
            let of = |workers| trials.of(&command(kind, conflicts, workers, budget));
            let two = |value: &dyn Fn(&Trial) -> f64| middle(each(of(2), value));
            let us = |ns: f64| ns / 1000.0;
            sheet
                .row(format!("{}/{name}", kind.row), pairs(of(2), of(1), ratio))
                .note(format!(
                    "With 2 workers {:.1} % of the attempts abort. CPU of a transaction, us: \
                     {:.1} foreground ({:.1} with one worker), {:.1} background, \
                     up to {:.1} for the medium.",
                    two(&Trial::aborts_percent),
                    us(two(&Trial::foreground_ns)),
                    us(middle(each(of(1), Trial::foreground_ns))),
                    us(two(&Trial::background_ns)),
                    us(two(&|trial| trial.each(trial.delay_ns)))
                ))
                .missed(crowded(kind))
                .command(&command(kind, conflicts, 2, budget));
            let point = |&workers: &u64| (workers as f64, pairs(of(workers), of(1), ratio));
            let districts = if name == "own" { ", own districts" } else { "" };
            let points = workers(budget).iter().map(point).collect();
            series.push(curve(format!("{}{districts}", kind.curve), points));
        }
    }
    let axes = (linear("workers"), linear("rate by that of one worker"));
    sheet.figure("scaling", "TPC-C on B+-trees, one worker and more", axes, series);
}

/// Returns why two workers do not scale where the background threads have no core of their own.
fn crowded(kind: Kind) -> Option<String> {
    let cores = crate::machine::Machine::this().cores;
    (kind.gbps.is_some() && cores < 3).then(|| {
        format!(
            "The workers fill the {cores} cores, and the background thread runs on one of them: a \
             worker lacks the time that it spins for the medium. `decoupled-16` hardly spins. The \
             paper had 12 cores for 4 threads."
        )
    })
}
