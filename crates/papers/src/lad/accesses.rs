//! L9 and L10: memory reads and writes, and the size of the controllers' queues (figure 9; section
//! 6.3).

use sim::report::Outcome;

use super::{On, QUEUE, VOLATILE, WORKLOADS};
use crate::rows::{Points, Rows, Uses, mean, percent_above, percent_below};
use crate::sheet::{linear, log};

/// Designs of figure 9, `volatile` as their base.
const DESIGNS: [&str; 4] = [VOLATILE, "lad-llc", "lad", "sw-undo"];

/// Entries of the controllers' queues.
const QUEUES: [u32; 4] = [QUEUE, 32, 16, FEWEST];
const FEWEST: u32 = 8;

/// Workloads with the costliest fallbacks (section 6.3).
const WORST: [&str; 2] = ["cq", "tpcc-rows"];

/// Returns the lines that a transaction reads from memory.
fn reads(outcome: &Outcome) -> f64 {
    each(outcome.nvm_reads + outcome.dram_reads, outcome)
}

/// Returns the lines that a transaction writes to memory.
fn writes(outcome: &Outcome) -> f64 {
    each(outcome.nvm_writes.total() + outcome.dram_writes, outcome)
}

fn each(lines: u64, outcome: &Outcome) -> f64 {
    lines as f64 / outcome.transactions.max(1) as f64
}

/// Returns the mean of a number over the workloads.
fn of_six(uses: &Uses<'_>, on: On, design: &str, value: fn(&Outcome) -> f64) -> Option<f64> {
    mean(WORKLOADS.map(|workload| on.of(uses, workload, design).map(value)))
}

fn both(uses: &Uses<'_>, on: On, design: &str) -> Option<f64> {
    of_six(uses, on, design, |outcome| reads(outcome) + writes(outcome))
}

/// L9: accesses of a transaction.
pub(super) fn accesses(rows: &mut Rows<'_>) {
    let on = On::OneSocket;
    for design in DESIGNS {
        rows.row(format!("reads/{design}"), |uses| of_six(uses, on, design, reads));
        rows.row(format!("writes/{design}"), |uses| of_six(uses, on, design, writes));
    }
    let lines =
        |uses: &Uses<'_>| of_six(uses, on, "lad", |outcome| outcome.lines_per_transaction.mean);
    for (name, design) in [("software-by-volatile", "sw-undo"), ("llc-by-volatile", "lad-llc")] {
        rows.row(name, |uses| Some(both(uses, on, design)? / both(uses, on, VOLATILE)?));
    }
    rows.row("lad-more-by-lines", |uses| {
        Some((both(uses, on, "lad")? - both(uses, on, VOLATILE)?) / lines(uses)?)
    });
    rows.row("lad-writes-by-lines", |uses| Some(of_six(uses, on, "lad", writes)? / lines(uses)?));
}

/// Returns the queues of a run; a quick one has only those with targets.
fn is_asked(entries: u32, quick: bool) -> bool {
    !quick || entries == QUEUE || entries == FEWEST
}

/// L10: shorter queues.
pub(super) fn queue(rows: &mut Rows<'_>) {
    let (whole, least) = (On::Queue(QUEUE), On::Queue(FEWEST));
    for workload in WORKLOADS {
        for entries in [QUEUE, FEWEST] {
            rows.row(format!("fallbacks/{entries}/{workload}"), |uses| {
                let outcome = On::Queue(entries).of(uses, workload, "lad")?;
                // In percent of the transactions.
                Some(100.0 * each(outcome.fallbacks, outcome))
            });
        }
        for design in ["lad", "sw-undo"] {
            rows.row(format!("slower/{design}/{workload}"), |uses| {
                let [less, more] = [least, whole].map(|on| on.relative(uses, workload, design));
                Some(percent_below(less? / more?))
            });
        }
    }
    let mut slower = |design| {
        rows.row(format!("slower/{design}/mean"), |uses| {
            let [less, more] = [least, whole].map(|on| on.relative_of_six(uses, design));
            Some(percent_below(less? / more?))
        })
    };
    let [lad, software] = ["lad", "sw-undo"].map(&mut slower);
    rows.row("slower/order", |_| Some(software? - lad?));
    for workload in WORST {
        rows.row(format!("more-writes/{workload}"), |uses| {
            let [more, less] = [least, whole].map(|on| on.of(uses, workload, "lad").map(writes));
            Some(percent_above(more? / less?))
        });
    }
    curves(rows);
}

/// Plots figure 9, and fills a row for each of its points.
fn curves(rows: &mut Rows<'_>) {
    let quick = rows.budget.quick;
    let (mut accesses, mut throughput) = (Vec::new(), Vec::new());
    for design in DESIGNS {
        let (mut many, mut fast) = (Points::new(), Points::new());
        for entries in QUEUES.into_iter().rev().filter(|entries| is_asked(*entries, quick)) {
            let (on, x) = (On::Queue(entries), f64::from(entries));
            let name = format!("accesses/{design}/{entries}");
            many.push((x, rows.row(name, |uses| both(uses, on, design))));
            if design != VOLATILE {
                let name = format!("throughput/{design}/{entries}");
                fast.push((x, rows.row(name, |uses| on.relative_of_six(uses, design))));
            }
        }
        accesses.push((design.to_owned(), many));
        if design != VOLATILE {
            throughput.push((design.to_owned(), fast));
        }
    }
    let x = || log("entries of a controller's queue");
    let title = "Memory accesses of a transaction";
    rows.figure("accesses", title, (x(), linear("lines")), accesses);
    let title = "Throughput by that of `volatile` with the same queue";
    rows.figure("throughput", title, (x(), linear("ratio")), throughput);
}
