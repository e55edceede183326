//! D8: one worker and two (section 5.6, figure 5).

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, pairs};

const DESIGNS: [&str; 2] = ["volatile", "decoupled"];

/// Whether workers share districts, or each has its own.
const CONFLICTS: [(&str, &str); 2] = [("shared", ""), ("own", " --low-conflict")];

const WORKERS: [u64; 2] = [1, 2];

/// As many transactions for each worker.
fn command(design: &str, conflicts: &str, workers: u64, budget: &Budget) -> String {
    let transactions = workers * if budget.quick { 6_000 } else { 16_000 };
    let medium = match design {
        "volatile" => "",
        _ => " --medium emulated --bandwidth-gbps 1 --latency-cycles 1000",
    };
    format!(
        "tpcc-btree --design {design} --transactions {transactions} --threads {workers}{conflicts}\
         {medium}"
    )
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for design in DESIGNS {
        for (_, conflicts) in CONFLICTS {
            for workers in WORKERS {
                let command = command(design, conflicts, workers, budget);
                specs.push(Spec::new("scaling", command));
            }
        }
    }
    specs
}

pub(super) fn judge(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let mut series = Vec::new();
    for design in DESIGNS {
        for (name, conflicts) in CONFLICTS {
            let of = |workers| laps.of(&command(design, conflicts, workers, budget));
            let by_one = |lap: &Lap, one: &Lap| lap.rate() / one.rate();
            let aborts =
                each(of(2), |lap| 100.0 * lap.aborts as f64 / (lap.aborts as f64 + lap.count()));
            let aborts = crate::report::OverRounds::of(aborts).median;
            sheet
                .row(format!("{design}/{name}"), pairs(of(2), of(1), by_one))
                .note(format!("Of 100 attempts of 2 workers {aborts:.1} met another's."))
                .command(&command(design, conflicts, 2, budget));
            let point = |&workers: &u64| (workers as f64, pairs(of(workers), of(1), by_one));
            let districts = if name == "own" { ", own districts" } else { "" };
            series.push(curve(format!("{design}{districts}"), WORKERS.iter().map(point).collect()));
        }
    }
    let axes = (linear("workers"), linear("rate by that of one worker"));
    sheet.figure("scaling", "TPC-C on B+-trees, one worker and two", axes, series);
}
