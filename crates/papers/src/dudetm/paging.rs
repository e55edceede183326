//! D7: tree updates in a pool larger than its shadow memory (section 5.5, figure 4).

use crate::budget::Budget;
use crate::sheet::{Sheet, curve, each, linear, log, middle, pairs};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

const SHADOWS: [&str; 2] = ["software", "cow"];
const SKEWS: [&str; 2] = ["0.99", "1.07"];

/// Megabytes of shadow memory, for a pool of 1024.
const SIZES: [u64; 5] = [64, 128, 256, 512, 1024];
const ENDS: [u64; 2] = [64, 1024];

fn sizes(budget: &Budget) -> &'static [u64] {
    if budget.quick { &ENDS } else { &SIZES }
}

/// Returns the divisor of all sizes.
fn shrink(budget: &Budget) -> u64 {
    if budget.quick { 8 } else { 1 }
}

/// Returns the command that creates the pool of all trials.
fn pool(budget: &Budget) -> String {
    let (mb, scale) = (1024 / shrink(budget), 1.0 / shrink(budget) as f64);
    format!("btree-update --medium emulated --bytes {mb}M --scale {scale} --transactions 1")
}

fn command(shadow: &str, skew: &str, mb: u64, budget: &Budget) -> String {
    let (mb, seconds) = (mb / shrink(budget), if budget.quick { 0.4 } else { 1.5 });
    format!(
        "btree-update --medium emulated --shadow {shadow} --shadow-bytes {mb}M --zipf {skew} \
         --warm-up {seconds} --seconds {seconds}"
    )
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for skew in SKEWS {
        for &mb in sizes(budget) {
            for shadow in SHADOWS {
                let command = command(shadow, skew, mb, budget);
                let rounds = if budget.quick { 1 } else { 3 };
                let pool = Some(pool(budget));
                specs.push(Spec { pool, rounds, ..Spec::new("paging", command) });
            }
        }
    }
    specs
}

pub(super) fn judge(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let of = |shadow, skew, mb| trials.of(&command(shadow, skew, mb, budget));
    let scaled = || match budget.quick {
        true => "An eighth of all sizes. ",
        false => "",
    };
    for skew in SKEWS {
        for &mb in sizes(budget) {
            for shadow in SHADOWS {
                let trials = of(shadow, skew, mb);
                let of_1000 = |value: fn(&Trial) -> u64| {
                    let each = each(trials, |trial| 1000.0 * trial.each(value(trial)));
                    middle(each)
                };
                let (ins, out) =
                    (of_1000(|trial| trial.page_ins), of_1000(|trial| trial.evictions));
                sheet
                    .row(format!("{shadow}/{skew}/{mb}"), each(trials, Trial::rate))
                    .note(format!(
                        "{}In 1000 updates: {ins:.0} pages read, {out:.0} evicted.",
                        scaled()
                    ))
                    .command(&format!(
                        "{} --pool P, created by `lastword run {} --pool P`",
                        command(shadow, skew, mb, budget),
                        pool(budget)
                    ));
            }
        }
        for &mb in sizes(budget) {
            let (cow, software) = (of("cow", skew, mb), of("software", skew, mb));
            let ratio = |cow: &Trial, software: &Trial| cow.rate() / software.rate();
            let row =
                sheet.row(format!("cow-by-software/{skew}/{mb}"), pairs(cow, software, ratio));
            row.note(format!("{}{}", scaled(), crossing(budget, trials, skew)));
        }
    }
    let mut series = Vec::new();
    for shadow in SHADOWS {
        for skew in SKEWS {
            let point = |&mb: &u64| (mb as f64, each(of(shadow, skew, mb), Trial::rate));
            let points = sizes(budget).iter().map(point).collect();
            series.push(curve(format!("{shadow}, Zipf {skew}"), points));
        }
    }
    let axes = (log("shadow, MB of 1024"), linear("updates/s until durable"));
    sheet.figure("paging", "Updates of a tree larger than its shadow", axes, series);
}

/// Returns whether the two curves cross between the smallest and the largest shadow.
fn crossing(budget: &Budget, trials: &Trials, skew: &str) -> &'static str {
    let rate =
        |shadow, mb| middle(each(trials.of(&command(shadow, skew, mb, budget)), Trial::rate));
    let ahead = ENDS.map(|mb| rate("cow", mb) > rate("software", mb));
    match ahead {
        [false, true] => "The curves cross: `cow` is ahead where the shadow is large.",
        [true, false] => "The curves cross the other way: `cow` is ahead where it is small.",
        [true, true] => "The curves do not cross: `cow` is ahead at both ends.",
        [false, false] => "The curves do not cross: `software` is ahead at both ends.",
    }
}
