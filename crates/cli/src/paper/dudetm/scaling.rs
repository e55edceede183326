//! D8: one worker and more (section 5.6, figure 5).

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, middle, pairs, ratio};

/// Whether workers have a district each, or share them; marks are about the first.
const CONFLICTS: [(&str, &str); 2] = [("own", " --low-conflict"), ("shared", "")];

fn conflicts(budget: &Budget) -> &'static [(&'static str, &'static str)] {
    if budget.quick { &CONFLICTS[..1] } else { &CONFLICTS }
}

/// A design, and where it runs.
#[derive(Clone, Copy)]
struct Kind {
    row: &'static str,
    curve: &'static str,
    design: &'static str,
    /// GB/s of what it is durable on.
    gbps: Option<u32>,
}

/// With 1 GB/s, as in the paper, the thread behind spins for the medium for a good part of a
/// transaction's time, on a core that workers could use; with 16 GB/s next to none of it.
const KINDS: [Kind; 3] = [
    Kind { row: "volatile", curve: "volatile", design: "volatile", gbps: None },
    Kind { row: "decoupled", curve: "decoupled", design: "decoupled", gbps: Some(1) },
    Kind { row: "decoupled-16", curve: "decoupled, 16 GB/s", design: "decoupled", gbps: Some(16) },
];

fn workers(budget: &Budget) -> Vec<u64> {
    budget.crews().into_iter().map(u64::from).collect()
}

/// As many transactions for each worker.
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

pub(super) fn judge(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let mut series = Vec::new();
    for kind in KINDS {
        for &(name, conflicts) in conflicts(budget) {
            let of = |workers| laps.of(&command(kind, conflicts, workers, budget));
            let two = |value: &dyn Fn(&Lap) -> f64| middle(each(of(2), value));
            let us = |ns: f64| ns / 1000.0;
            sheet
                .row(format!("{}/{name}", kind.row), pairs(of(2), of(1), ratio))
                .note(format!(
                    "Of 100 attempts of 2 workers {:.1} met another's. CPU of a transaction, us: \
                     {:.1} in front ({:.1} with one worker), {:.1} behind, \
                     up to {:.1} for the medium.",
                    two(&Lap::aborts_percent),
                    us(two(&Lap::front)),
                    us(middle(each(of(1), Lap::front))),
                    us(two(&Lap::behind)),
                    us(two(&|lap| lap.each(lap.delay_ns)))
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

/// Why two workers do not run side by side, where the threads behind have no core of their own.
fn crowded(kind: Kind) -> Option<String> {
    let cores = crate::machine::Machine::this().cores;
    (kind.gbps.is_some() && cores < 3).then(|| {
        format!(
            "{cores} cores are the workers' own, and the thread behind runs on one of them: what \
             it spins away for the medium a worker lacks. `decoupled-16` has next to none of that. \
             The paper had 12 cores for 4 threads."
        )
    })
}
