//! Tables of simulation results, for people.

use sim::report::{Backlog, Outcome, Spread};

use super::{List, rare};
use crate::report::table::{NONE, bytes, grouped, named, pairs, sheet, short};

/// Formats the outcome of `lastword sim run`.
pub(super) fn outcome(outcome: &Outcome, asked: u64) -> String {
    let cycles = &outcome.cycles_per_transaction;
    let transactions = outcome.transactions.max(1) as f64;
    let each = |lines: u64| format!("{} ({:.2} /tx)", grouped(lines), lines as f64 / transactions);
    let one = |cycles: f64| format!("{cycles:.1}");
    let machine = format!("{} ({})", outcome.machine.name, outcome.machine.hash);
    let rate = outcome.simulated_accesses as f64 / outcome.host_seconds.max(1e-9);
    let mut rows = vec![
        ("workload", outcome.workload.clone()),
        ("design", outcome.design.clone()),
        ("machine", machine),
        ("cores", outcome.cores.to_string()),
        ("seed", outcome.seed.to_string()),
        ("transactions", measured(outcome.transactions, asked)),
        ("cycles", grouped(outcome.cycles)),
        ("cycles a transaction", one(cycles.total)),
        ("  begin", one(cycles.begin)),
        ("  log stall", one(cycles.log_stall)),
        ("  prepare", one(cycles.prepare)),
        ("  commit", one(cycles.commit)),
        ("  abort", one(cycles.abort)),
        ("  locks", one(cycles.locks)),
        ("NVM reads", each(outcome.nvm_reads)),
        ("NVM writes", each(outcome.nvm_writes.total())),
    ];
    let names = [
        "  data",
        "  log data",
        "  log meta",
        "  commit records",
        "  journal",
        "  consolidation",
        "  checkpoint",
        "  undo fallback",
        "  other",
    ];
    let classes = names.into_iter().zip(outcome.nvm_writes.by_class());
    rows.extend(classes.filter(|(_, (_, n))| *n > 0).map(|(name, (_, n))| (name, each(n))));
    rows.extend([
        ("DRAM reads", each(outcome.dram_reads)),
        ("DRAM writes", each(outcome.dram_writes)),
        ("lines a transaction", spread(outcome.lines_per_transaction)),
        ("pages a transaction", spread(outcome.pages_per_transaction)),
        ("fallbacks", grouped(outcome.fallbacks)),
    ]);
    rows.extend(outcome.design_counts.iter().map(|(name, n)| (name.as_str(), each(*n))));
    rows.extend([
        ("backlog", backlog(outcome)),
        ("steady", steady(outcome).into()),
        ("accesses", format!("{} ({}/s)", grouped(outcome.simulated_accesses), short(rate))),
        ("simulated in", format!("{:.3} s", outcome.host_seconds)),
        ("checked", checked(outcome.checked).into()),
    ]);
    rows.extend(cuts(outcome));
    pairs(&rows)
}

/// Formats the number of measured transactions, and the requested one if it differs: a measurement
/// is extended to whole rounds of the design.
fn measured(measured: u64, asked: u64) -> String {
    match measured == asked {
        true => grouped(measured),
        false => format!("{} ({} were asked for)", grouped(measured), grouped(asked)),
    }
}

/// Formats the power cuts, their violations, and the rare paths that they hit.
fn cuts(outcome: &Outcome) -> Vec<(&str, String)> {
    let Some(cuts) = outcome.power_cuts else { return Vec::new() };
    let violations = outcome.violations.unwrap_or_default();
    let mut rows = vec![("power cuts", grouped(cuts)), ("  violations", grouped(violations))];
    rows.extend(rare::rows(outcome));
    rows
}

/// Formats the outstanding writes at both ends of the measurement.
fn backlog(outcome: &Outcome) -> String {
    let Backlog { begin, end } = outcome.backlog;
    format!("{} at the beginning, {} at the end", grouped(begin), grouped(end))
}

fn steady(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome { power_cuts: Some(_), .. } => NONE, // measured from the first transaction on
        Outcome { steady: true, .. } => "yes",
        Outcome { steady: false, .. } => "NO: run more transactions",
    }
}

fn spread(spread: Spread) -> String {
    format!("{:.2}, at most {}", spread.mean, spread.max)
}

fn checked(checked: Option<bool>) -> &'static str {
    match checked {
        Some(true) => "held",
        Some(false) => "FAILED",
        None => NONE,
    }
}

/// Formats `lastword sim list`.
pub(super) fn list(list: &List) -> String {
    let designs: Vec<_> = list
        .designs
        .iter()
        .map(|row| [row.name, row.machine, row.about].map(String::from))
        .collect();
    let machine = |row: &super::MachineRow| {
        [
            row.name.to_owned(),
            row.cores.to_string(),
            format!("{} GHz", row.clock_ghz),
            bytes(row.llc_bytes),
            format!("{} x {}/{} ns", row.nvm_channels, row.nvm_read_ns, row.nvm_write_ns),
            row.hash.clone(),
        ]
    };
    let machines: Vec<_> = list.machines.iter().map(machine).collect();
    let workloads: Vec<_> =
        list.workloads.iter().map(|row| [row.name, row.about].map(String::from)).collect();
    [
        named(["design", "machine", ""], &designs),
        sheet(["machine", "cores", "clock", "last cache", "NVM", "hash"], &machines),
        named(["workload", ""], &workloads),
    ]
    .join("\n\n")
}
