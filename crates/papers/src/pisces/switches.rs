//! P6 and P10: `snapshot` with one of its techniques switched on or off (section 5.4, figure 9a;
//! sections 5.2 and 5.3: persistency cost).

use super::{ALL_ROUNDS, CREWS, Work, cpu, seldom};
use crate::budget::Budget;
use crate::sheet::{Sheet, pairs, ratio};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

/// Each step does less work: the second shortens the log, the third makes one commit of three.
const STEPS: [&str; 3] = ["snapshot-whole", "snapshot", "snapshot-group"];

const MICRO: [&str; 2] = ["chains", "btree-16"];

/// Returns the gain in percent.
fn gain(trial: &Trial, base: &Trial) -> f64 {
    100.0 * (ratio(trial, base) - 1.0)
}

fn micro(workload: &'static str) -> Work {
    Work::with_updates(workload, 20)
}

pub(super) fn plan_gains(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for workload in MICRO {
        for (workers, _) in CREWS {
            specs.extend(STEPS.map(|design| micro(workload).spec(design, workers, budget)));
        }
    }
    seldom(specs, ALL_ROUNDS, budget)
}

/// P6: gain of logging only changed words, and of committing three transactions together.
pub(super) fn gains(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for workload in MICRO {
        for (workers, crew) in CREWS {
            let command = |design: &str| micro(workload).on(design, workers, budget);
            let [whole, diff, group] = STEPS.map(|design| trials.of(&command(design)));
            let bytes = |trials: &[Trial]| {
                super::middle(super::each(trials, |trial| {
                    trial.each(trial.log_bytes + trial.heap_image_bytes)
                }))
            };
            sheet
                .row(format!("flush-diff/{workload}/{crew}"), pairs(diff, whole, gain))
                .note(format!(
                    "Bytes of a transaction to the medium: {:.0}, with whole objects {:.0}.",
                    bytes(diff),
                    bytes(whole)
                ))
                .command(&command(STEPS[1]));
            sheet
                .row(format!("group/{workload}/{crew}"), pairs(group, diff, gain))
                .note(format!(
                    "CPU of a transaction, ns: {}; {}.",
                    cpu(STEPS[2], group),
                    cpu(STEPS[1], diff)
                ))
                .command(&command(STEPS[2]));
        }
    }
}

/// Workloads of P10, by the names of their rows.
const COSTS: [&str; 4] = ["chains", "btree-16", "tpcc", "tatp"];

fn cost_work(name: &str, workers: u32) -> Work {
    match name {
        "tpcc" => Work::tpcc(workers),
        "tatp" => Work::new("tatp-mix", 400_000),
        "chains" => Work::with_updates("chains", 40),
        _ => Work::with_updates("btree-16", 40),
    }
}

const LOGGED: [&str; 2] = ["snapshot", "snapshot-unlogged"];

pub(super) fn plan_costs(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for name in COSTS {
        for (workers, _) in CREWS {
            let work = cost_work(name, workers);
            let of = LOGGED.map(|design| work.spec(design, workers, budget));
            let most = if name == "tpcc" { 3 } else { ALL_ROUNDS };
            specs.extend(seldom(of, most, budget));
        }
    }
    specs
}

/// P10: throughput lost to durability.
pub(super) fn costs(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for name in COSTS {
        for (workers, crew) in CREWS {
            let command = |design: &str| cost_work(name, workers).on(design, workers, budget);
            let [logged, unlogged] = LOGGED.map(|design| trials.of(&command(design)));
            sheet
                .row(format!("cost/{name}/{crew}"), pairs(logged, unlogged, |a, b| -gain(a, b)))
                .note(format!(
                    "CPU of a transaction, ns: {}; {}.",
                    cpu(LOGGED[0], logged),
                    cpu(LOGGED[1], unlogged)
                ))
                .command(&command(LOGGED[0]));
        }
    }
}
