//! P6 and P10: `snapshot` without one of its parts, or with one more (section 5.4, figure 9a; 5.2,
//! 5.3: persistency cost).

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, pairs, ratio};
use super::{ALL_ROUNDS, CREWS, Work, cpu, seldom};

/// From one to the next there is less to do: the log gets shorter; of three commits there is one.
const STEPS: [&str; 3] = ["snapshot-whole", "snapshot", "snapshot-group"];

const MICRO: [&str; 2] = ["chains", "btree-16"];

/// Percent more.
fn gain(lap: &Lap, base: &Lap) -> f64 {
    100.0 * (ratio(lap, base) - 1.0)
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

/// P6: what logging no more than has changed brings, and committing three together.
pub(super) fn gains(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for workload in MICRO {
        for (workers, crew) in CREWS {
            let command = |design: &str| micro(workload).on(design, workers, budget);
            let [whole, diff, group] = STEPS.map(|design| laps.of(&command(design)));
            let bytes = |laps: &[Lap]| {
                super::middle(super::each(laps, |lap| lap.each(lap.log_bytes + lap.home_bytes)))
            };
            sheet
                .row(format!("flush-diff/{workload}/{crew}"), pairs(diff, whole, gain))
                .note(format!(
                    "To the medium, bytes of a transaction: {:.0}, whole objects {:.0}.",
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

/// The work of P10, by its rows' names.
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

/// P10: what of the rate goes when what is committed is to last.
pub(super) fn costs(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for name in COSTS {
        for (workers, crew) in CREWS {
            let command = |design: &str| cost_work(name, workers).on(design, workers, budget);
            let [logged, unlogged] = LOGGED.map(|design| laps.of(&command(design)));
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
