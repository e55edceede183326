//! L9 and L10: what is read from memory and written to it, and how long the controllers' queues
//! must be (figure 9; section 6.3).

use sim::report::Outcome;
use sim::sweep::Asked;

use super::super::Budget;
use super::super::results::Series;
use super::super::sheet::{Sheet, curve, linear, log};
use super::super::sims::Sims;
use super::{Found, On, QUEUE, VOLATILE, WORKLOADS, mean, six};

/// What figure 9 compares, and what all is beside.
const DESIGNS: [&str; 4] = [VOLATILE, "lad-llc", "lad", "sw-undo"];

/// Entries of the controllers' queues, and the fewest.
const QUEUES: [u32; 4] = [QUEUE, 32, 16, FEWEST];
const FEWEST: u32 = 8;

/// Where falling back costs most (section 6.3).
const WORST: [&str; 2] = ["cq", "tpcc-hash"];

pub(super) fn plan(budget: &Budget) -> Vec<Asked> {
    six(&DESIGNS, On::OneSocket, budget)
}

/// Lines of a transaction that memory has read.
fn reads(outcome: &Outcome) -> f64 {
    each(outcome.nvm_reads + outcome.dram_reads, outcome)
}

/// Lines of a transaction that it has written.
fn writes(outcome: &Outcome) -> f64 {
    each(outcome.nvm_writes.total() + outcome.dram_writes, outcome)
}

fn each(lines: u64, outcome: &Outcome) -> f64 {
    lines as f64 / outcome.transactions.max(1) as f64
}

/// The mean over the workloads of what a design's outcomes have.
fn of_six(found: Found<'_>, design: &str, value: impl Fn(&Outcome) -> f64) -> f64 {
    mean(WORKLOADS.map(|workload| value(found.of(workload, design))))
}

fn both(found: Found<'_>, design: &str) -> f64 {
    of_six(found, design, |outcome| reads(outcome) + writes(outcome))
}

/// L9: accesses of a transaction.
pub(super) fn accesses(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    for design in DESIGNS {
        let of = (&WORKLOADS[..], &[design][..]);
        found.row(sheet, format!("reads/{design}"), of_six(found, design, reads), of);
        found.row(sheet, format!("writes/{design}"), of_six(found, design, writes), of);
    }
    let [volatile, llc, lad, software] = DESIGNS.map(|design| both(found, design));
    let lines = of_six(found, "lad", |outcome| outcome.lines_per_transaction.mean);
    let flushed = of_six(found, "lad", writes) / lines;
    for (name, value, design) in [
        ("software-by-volatile", software / volatile, "sw-undo"),
        ("lad-more-by-lines", (lad - volatile) / lines, "lad"),
        ("llc-by-volatile", llc / volatile, "lad-llc"),
    ] {
        found.row(sheet, name.into(), value, (&WORKLOADS, &[design, VOLATILE]));
    }
    found.row(sheet, "lad-writes-by-lines".into(), flushed, (&WORKLOADS, &["lad"]));
}

pub(super) fn plan_queue(budget: &Budget) -> Vec<Asked> {
    let queues = QUEUES.iter().filter(|entries| is_asked(**entries, budget));
    queues.flat_map(|entries| six(&DESIGNS, On::Queue(*entries), budget)).collect()
}

/// A quick run has only the queues that marks are about.
fn is_asked(entries: u32, budget: &Budget) -> bool {
    !budget.quick || entries == QUEUE || entries == FEWEST
}

/// L10: shorter queues.
pub(super) fn queue(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let with = |entries| Found::new(budget, sims, On::Queue(entries));
    let (whole, least) = (with(QUEUE), with(FEWEST));
    let lad = ["lad", VOLATILE];
    for workload in WORKLOADS {
        for entries in [QUEUE, FEWEST] {
            let fallbacks = each_fallback(with(entries), workload);
            let name = format!("fallbacks/{entries}/{workload}");
            with(entries).row(sheet, name, fallbacks, (&[workload], &lad[..1]));
        }
        for design in ["lad", "sw-undo"] {
            let ratio = least.relative(workload, design) / whole.relative(workload, design);
            let name = format!("slower/{design}/{workload}");
            let of = ([workload], [design, VOLATILE]);
            least.row(sheet, name, 100.0 * (1.0 - ratio), (&of.0, &of.1));
        }
    }
    for design in ["lad", "sw-undo"] {
        let ratio = least.relative_of_six(design) / whole.relative_of_six(design);
        let of = (&WORKLOADS[..], &[design, VOLATILE][..]);
        least.row(sheet, format!("slower/{design}/mean"), 100.0 * (1.0 - ratio), of);
    }
    for workload in WORST {
        let [less, more] = [whole, least].map(|found| writes(found.of(workload, "lad")));
        let name = format!("more-writes/{workload}");
        least.row(sheet, name, 100.0 * (more / less - 1.0), (&[workload], &lad[..1]));
    }
    curves(budget, sims, sheet);
}

/// How many transactions of 100 fell back to the log.
fn each_fallback(found: Found<'_>, workload: &str) -> f64 {
    let outcome = found.of(workload, "lad");
    100.0 * each(outcome.fallbacks, outcome)
}

/// Figure 9, and the rows that its points are.
fn curves(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let (mut accesses, mut throughput): (Vec<Series>, Vec<Series>) = (Vec::new(), Vec::new());
    for design in DESIGNS {
        let (mut many, mut fast) = (Vec::new(), Vec::new());
        for entries in QUEUES.into_iter().rev().filter(|entries| is_asked(*entries, budget)) {
            let found = Found::new(budget, sims, On::Queue(entries));
            let (lines, relative) = (both(found, design), found.relative_of_six(design));
            let of = (&WORKLOADS[..], &[design, VOLATILE][..]);
            found.row(sheet, format!("accesses/{design}/{entries}"), lines, of);
            many.push((f64::from(entries), vec![lines]));
            if design != VOLATILE {
                found.row(sheet, format!("throughput/{design}/{entries}"), relative, of);
                fast.push((f64::from(entries), vec![relative]));
            }
        }
        accesses.push(curve(design, many));
        if design != VOLATILE {
            throughput.push(curve(design, fast));
        }
    }
    let x = || log("entries of a controller's queue");
    let title = "Memory accesses of a transaction";
    sheet.figure("accesses", title, (x(), linear("lines")), accesses);
    let title = "Throughput beside `volatile` with the same queue";
    sheet.figure("throughput", title, (x(), linear("ratio")), throughput);
}
