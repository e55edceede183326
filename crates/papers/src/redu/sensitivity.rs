//! R9 and R12: slower memory (figure 13; section V-E), and parameters that the paper leaves open.

use super::{ALL, BASELINES, COUNTS, Case, Data, MICRO, MIDDLE, On, REDU, SIZES, Setting};
use crate::rows::{Points, Rows, Uses, geomean, least, most};
use crate::sheet::log;

/// Latencies of writes, in ns; reads take 100.
const WRITES: [u64; 6] = [150, 300, 600, 1200, 2400, 4000];
const QUICK_WRITES: [u64; 3] = [150, 600, 4000];
const READ: u64 = 100;

/// Returns memory with this write latency, whether the row is open or not.
fn writing(ns: u64) -> On {
    let ns = Setting::Number(ns);
    On(vec![("nvm.write_hit_ns", ns), ("nvm.write_ns", ns)])
}

fn slow(ns: u64) -> On {
    let On(mut settings) = writing(ns);
    settings.push(("nvm.read_miss_ns", Setting::Number(READ)));
    settings.push(("nvm.rc_ns", Setting::Number(READ)));
    On(settings)
}

/// Returns the cases of each set's middle size.
fn of_each_set(workloads: &[&'static str]) -> [(&'static str, Vec<Case>); 2] {
    let sets = [("large", Data::Large(SIZES[MIDDLE])), ("random", Data::Random(COUNTS[MIDDLE]))];
    sets.map(|(set, data)| {
        (set, workloads.iter().map(|workload| Case { workload, data }).collect())
    })
}

/// Returns the geometric mean of a design's cycles over cases.
fn cycles(uses: &Uses<'_>, on: &On, cases: &[Case], design: &str) -> Option<f64> {
    geomean(cases.iter().map(|case| on.cycles(uses, *case, design)))
}

/// R9: slower writes.
pub(super) fn latency(rows: &mut Rows<'_>) {
    let quick = rows.budget.quick;
    let writes = if quick { &QUICK_WRITES[..] } else { &WRITES[..] };
    for (set, cases) in of_each_set(&MICRO) {
        let mut curves: Vec<(String, Points)> =
            ALL.iter().map(|design| ((*design).to_owned(), Points::new())).collect();
        for &ns in writes {
            let on = slow(ns);
            for (design, (_, points)) in ALL.into_iter().zip(&mut curves) {
                let cycles = rows
                    .row(format!("{set}/{ns}/{design}"), |uses| cycles(uses, &on, &cases, design));
                points.push((ns as f64, cycles));
            }
            rows.row(format!("{set}/{ns}/undo-redo-worst"), |uses| {
                let others = ALL.into_iter().filter(|design| *design != "hw-undo-redo");
                let others = most(others.map(|design| cycles(uses, &on, &cases, design)))?;
                Some(cycles(uses, &on, &cases, "hw-undo-redo")? / others)
            });
            rows.row(format!("{set}/{ns}/redu-best"), |uses| {
                let others = least(BASELINES.map(|design| cycles(uses, &on, &cases, design)))?;
                Some(others / cycles(uses, &on, &cases, REDU)?)
            });
        }
        let ends = [slow(writes[0]), slow(writes[writes.len() - 1])];
        let ratio = |uses: &Uses<'_>, on: &On, one, other| {
            Some(cycles(uses, on, &cases, one)? / cycles(uses, on, &cases, other)?)
        };
        rows.row(format!("{set}/undo-loses"), |uses| {
            let [fast, slow] = ends.each_ref().map(|on| ratio(uses, on, "hw-undo", "hw-redo"));
            Some(slow? / fast?)
        });
        rows.row(format!("{set}/undo-by-redo"), |uses| ratio(uses, &ends[1], "hw-undo", "hw-redo"));
        rows.row(format!("{set}/gap-shrinks"), |uses| {
            let [fast, slow] = ends.each_ref().map(|on| ratio(uses, on, "hw-redo", REDU));
            Some(fast? / slow?)
        });
        let title = format!("Cycles of a transaction on slower memory, {set} sets");
        let axes = (log("ns of a write"), log("cycles"));
        rows.figure(set, &title, axes, curves);
    }
}

/// Three representative workloads.
const SOME: [&str; 3] = ["vector", "hashmap", "ycsb-put"];

/// Returns the parameters that the paper does not give, each with other plausible values.
fn variants() -> Vec<(&'static str, On)> {
    let word = |key, word| On(vec![(key, Setting::Word(word))]);
    vec![
        ("as-is", On::default()),
        ("banks-4", On::number("nvm.banks", 4)),
        ("banks-16", On::number("nvm.banks", 16)),
        // Adjacent lines in one bank.
        ("rows-round", On::number("nvm.interleave_bytes", 2048)),
        ("accepted", word("persist.point", "accepted")),
        ("window-16", On::number("design.log.window", 16)),
        ("window-64", On::number("design.log.window", 64)),
        ("mshrs-4", On::number("l1.mshrs", 4)),
        ("write-600", writing(600)),
        ("write-4000", writing(4000)),
        ("serial-loads", word("core.serial_loads", "true")),
    ]
}

/// R12: each parameter varied alone.
pub(super) fn choices(rows: &mut Rows<'_>) {
    for (set, cases) in of_each_set(&SOME) {
        for (variant, on) in variants() {
            for design in BASELINES {
                rows.row(format!("{set}/{variant}/{design}"), |uses| {
                    on.all_by_redu(uses, &cases, design)
                });
            }
        }
    }
}
