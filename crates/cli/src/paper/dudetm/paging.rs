//! D7: updates of a tree in a pool larger than its shadow (section 5.5, figure 4).

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, log, middle, pairs};

const SHADOWS: [&str; 2] = ["software", "cow"];
const SKEWS: [&str; 2] = ["0.99", "1.07"];

/// Megabytes of the shadow, of a pool of 1024.
const SIZES: [u64; 5] = [64, 128, 256, 512, 1024];
const ENDS: [u64; 2] = [64, 1024];

fn sizes(budget: &Budget) -> &'static [u64] {
    if budget.quick { &ENDS } else { &SIZES }
}

/// A quick run has an eighth of everything.
fn shrink(budget: &Budget) -> u64 {
    if budget.quick { 8 } else { 1 }
}

/// The pool that all laps run on.
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

pub(super) fn judge(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let of = |shadow, skew, mb| laps.of(&command(shadow, skew, mb, budget));
    let scaled = || match budget.quick {
        true => "An eighth of all sizes. ",
        false => "",
    };
    for skew in SKEWS {
        for &mb in sizes(budget) {
            for shadow in SHADOWS {
                let laps = of(shadow, skew, mb);
                let of_1000 = |value: fn(&Lap) -> u64| {
                    let each = each(laps, |lap| 1000.0 * lap.each(value(lap)));
                    middle(each)
                };
                let (ins, out) = (of_1000(|lap| lap.page_ins), of_1000(|lap| lap.evictions));
                sheet
                    .row(format!("{shadow}/{skew}/{mb}"), each(laps, Lap::rate))
                    .note(format!(
                        "{}Of 1000 updates: {ins:.0} pages read, {out:.0} forgotten.",
                        scaled()
                    ))
                    .command(&format!(
                        "{} --pool P, made by `lastword run {} --pool P`",
                        command(shadow, skew, mb, budget),
                        pool(budget)
                    ));
            }
        }
        for &mb in sizes(budget) {
            let (cow, software) = (of("cow", skew, mb), of("software", skew, mb));
            let ratio = |cow: &Lap, software: &Lap| cow.rate() / software.rate();
            let row =
                sheet.row(format!("cow-by-software/{skew}/{mb}"), pairs(cow, software, ratio));
            row.note(format!("{}{}", scaled(), crossing(budget, laps, skew)));
        }
    }
    let mut series = Vec::new();
    for shadow in SHADOWS {
        for skew in SKEWS {
            let point = |&mb: &u64| (mb as f64, each(of(shadow, skew, mb), Lap::rate));
            let points = sizes(budget).iter().map(point).collect();
            series.push(curve(format!("{shadow}, Zipf {skew}"), points));
        }
    }
    let axes = (log("shadow, MB of 1024"), linear("updates/s until durable"));
    sheet.figure("paging", "Updates of a tree larger than its shadow", axes, series);
}

/// Whether the two curves cross between the smallest and the largest shadow.
fn crossing(budget: &Budget, laps: &Laps, skew: &str) -> &'static str {
    let rate = |shadow, mb| middle(each(laps.of(&command(shadow, skew, mb, budget)), Lap::rate));
    let ahead = ENDS.map(|mb| rate("cow", mb) > rate("software", mb));
    match ahead {
        [false, true] => "The curves cross: `cow` is ahead where the shadow is large.",
        [true, false] => "The curves cross the other way: `cow` is ahead where it is small.",
        [true, true] => "The curves do not cross: `cow` is ahead at both ends.",
        [false, false] => "The curves do not cross: `software` is ahead at both ends.",
    }
}
