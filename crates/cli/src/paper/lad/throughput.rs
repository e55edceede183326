//! L1 to L4 and L11 to L13: throughput beside `volatile` (figure 8, table 4; sections 6.1, 6.4).

use sim::sweep::Asked;

use super::super::Budget;
use super::super::sheet::Sheet;
use super::super::sims::Sims;
use super::{DURABLE, Found, On, VOLATILE, WORKLOADS, six};

/// All that table 4 compares.
fn all_designs() -> Vec<&'static str> {
    [VOLATILE].into_iter().chain(DURABLE).collect()
}

pub(super) fn plan_one_socket(budget: &Budget) -> Vec<Asked> {
    six(&all_designs(), On::OneSocket, budget)
}

/// The geometric means, and what they are made of.
fn means(found: Found<'_>, sheet: &mut Sheet) {
    for design in DURABLE {
        let of = (&WORKLOADS[..], &[design, VOLATILE][..]);
        found.row(sheet, format!("mean/{design}"), found.relative_of_six(design), of);
        for workload in WORKLOADS {
            let (name, of) = (format!("{design}/{workload}"), ([workload], [design, VOLATILE]));
            found.row(sheet, name, found.relative(workload, design), (&of.0, &of.1));
        }
    }
}

/// L1: what durability costs on one socket, and who is before whom.
pub(super) fn one_socket(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    means(found, sheet);
    for (before, behind) in [("lad-llc", "lad"), ("lad", "lad-base"), ("lad-base", "sw-undo")] {
        let ratio = found.relative_of_six(before) / found.relative_of_six(behind);
        found.row(sheet, format!("order/{before}"), ratio, (&WORKLOADS, &[before, behind]));
    }
}

pub(super) fn plan_two_sockets(budget: &Budget) -> Vec<Asked> {
    [plan_one_socket(budget), six(&all_designs(), On::TwoSockets, budget)].concat()
}

/// L2: the same on two, and what that takes away.
pub(super) fn two_sockets(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let [one, two] = [On::OneSocket, On::TwoSockets].map(|on| Found::new(budget, sims, on));
    means(two, sheet);
    let lost = |design: &str| one.relative_of_six(design) - two.relative_of_six(design);
    for design in DURABLE {
        two.row(sheet, format!("lost/{design}"), lost(design), (&WORKLOADS, &[design, VOLATILE]));
    }
    let most = lost("lad-base") - lost("lad").max(lost("lad-llc"));
    let of = ["lad-base", "lad", "lad-llc", VOLATILE];
    two.row(sheet, "base-loses-most".into(), most, (&WORKLOADS, &of));
}

pub(super) fn plan_first_ack(budget: &Budget) -> Vec<Asked> {
    let of = |on| six(&["lad", "lad-base"], on, budget);
    [of(On::OneSocket), of(On::TwoSockets)].concat()
}

/// L3: what it brings to wait for the first acknowledgement of a commit only.
pub(super) fn first_ack(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    for (on, name) in [(On::OneSocket, "one"), (On::TwoSockets, "two")] {
        let found = Found::new(budget, sims, on);
        let cycles = |workload, design| found.of(workload, design).cycles_per_transaction.total;
        let ratio = |workload| cycles(workload, "lad-base") / cycles(workload, "lad");
        let gain = |ratio: f64| 100.0 * (ratio - 1.0);
        let designs = ["lad", "lad-base"];
        let mean = gain(super::geomean(WORKLOADS.map(ratio)));
        found.row(sheet, format!("{name}/mean"), mean, (&WORKLOADS, &designs));
        for workload in WORKLOADS {
            let gain = gain(ratio(workload));
            found.row(sheet, format!("{name}/{workload}"), gain, (&[workload], &designs));
        }
    }
}

pub(super) fn plan_each(budget: &Budget) -> Vec<Asked> {
    six(&["lad", VOLATILE], On::OneSocket, budget)
}

/// L4: LAD, workload by workload.
pub(super) fn each(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    for workload in WORKLOADS {
        let of = ([workload], ["lad", VOLATILE]);
        let relative = found.relative(workload, "lad");
        found.row(sheet, format!("ratio/{workload}"), relative, (&of.0, &of.1));
    }
}

pub(super) fn plan_logging(budget: &Budget) -> Vec<Asked> {
    six(&["sw-undo", VOLATILE], On::OneSocket, budget)
}

/// L11: where logging in software costs most and least.
pub(super) fn extremes(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    let designs = ["sw-undo", VOLATILE];
    for workload in WORKLOADS {
        let relative = found.relative(workload, "sw-undo");
        found.row(sheet, format!("ratio/{workload}"), relative, (&[workload], &designs));
    }
    let others = WORKLOADS.iter().filter(|workload| **workload != "cq");
    let least = others.map(|of| found.relative(of, "sw-undo")).fold(f64::INFINITY, f64::min);
    let worst = found.relative("cq", "sw-undo") / least;
    found.row(sheet, "cq-by-others".into(), worst, (&WORKLOADS, &designs));
}

/// L13: what it costs on average.
pub(super) fn logging(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    let lost = 100.0 * (1.0 - found.relative_of_six("sw-undo"));
    found.row(sheet, "lost".into(), lost, (&WORKLOADS, &["sw-undo", VOLATILE]));
}

pub(super) fn plan_memory(budget: &Budget) -> Vec<Asked> {
    [plan_one_socket(budget), six(&all_designs(), On::Nvm, budget)].concat()
}

/// L12: memory that keeps its contents in the place of one with a battery.
pub(super) fn memory(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let [dram, nvm] = [On::OneSocket, On::Nvm].map(|on| Found::new(budget, sims, on));
    means(nvm, sheet);
    for design in DURABLE {
        let shift = nvm.relative_of_six(design) - dram.relative_of_six(design);
        nvm.row(sheet, format!("shift/{design}"), shift, (&WORKLOADS, &[design, VOLATILE]));
    }
}
