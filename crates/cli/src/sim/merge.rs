//! `lastword sim merge`: the results of a sweep as one sheet, in the sweep's order.

use std::io::Write;

use serde::Serialize;
use sim::report::Outcome;
use sim::sweep::{Asked, Found, Listed, Record, Results, labels, varying};

use super::rare::{self, Rare};
use crate::args::{SheetFormat, SimMerge};
use crate::failure::{Failure, Verdict};
use crate::report::table::{NONE, columns, grouped};
use crate::report::{self, json};

pub(super) fn run(arguments: &SimMerge) -> Result<Verdict, Failure> {
    let results = Results::at(&arguments.directory);
    let list = results.list()?;
    let labels = labels(list.points.iter().map(|listed| &listed.asked));
    let (mut records, mut problems) = (Vec::new(), Vec::new());
    for (listed, label) in list.points.iter().zip(labels) {
        let hash = &listed.point;
        match results.record_of(hash) {
            Found::Whole(record) => records.push(*record),
            Found::Missing => problems.push(format!("missing: {hash}  {label}")),
            Found::Damaged(why) => problems.push(format!("damaged: {hash}  {label}: {why}")),
        }
    }
    if problems.is_empty() {
        report::print(&show(arguments.format, &list.points, &records))?;
        problems = never_cut(&records);
    } else {
        let (count, total) = (problems.len(), list.points.len());
        problems.push(format!(
            "{count} of {total} points are to be run: run the sweep again with this directory as \
             --out; it says of those that fail why"
        ));
    }
    if problems.is_empty() {
        return Ok(Verdict::Held);
    }
    for problem in problems {
        let _ = writeln!(std::io::stderr(), "{problem}");
    }
    Ok(Verdict::Failed)
}

/// Returns the rare paths that no power cut of these results hit: recovery is untested there.
fn never_cut(records: &[Record]) -> Vec<String> {
    let all = rare::of(records.iter().map(|record| &record.outcome));
    let never = all.into_iter().filter(|(_, rare)| rare.cut == 0);
    let said = |((design, path), rare): ((&str, &str), Rare)| match rare.off() {
        Some(off) => format!("never cut while: {path} ({design}); {off}"),
        None => format!(
            "never cut while: {path} ({design}); add points that come there: \
             docs/designs/{design}.md says when it does that"
        ),
    };
    never.map(said).collect()
}

/// One row of the JSON.
#[derive(Serialize)]
struct Row<'r> {
    point: &'r str,
    program: &'r str,
    asked: &'r Asked,
    outcome: &'r Outcome,
}

/// Formats the results, each beside its parameters, in the order of both.
pub(super) fn show(format: SheetFormat, listed: &[Listed], records: &[Record]) -> String {
    let both = || listed.iter().zip(records);
    match format {
        SheetFormat::Json => {
            let row = |(Listed { point, asked }, record): (&'_ Listed, &'_ Record)| {
                let Record { program, outcome, .. } = record;
                json::object(&Row { point, program, asked, outcome })
            };
            let rows: Vec<String> = both().map(row).collect();
            if rows.is_empty() { "[]".into() } else { format!("[\n{}\n]", rows.join(",\n")) }
        }
        SheetFormat::Csv => {
            // Each parameter that differs between points has a column; workload and design always
            // have one.
            let keys = varying(listed.iter().map(|listed| &listed.asked));
            let keys = keys.into_iter().filter(|key| !["workload", "design"].contains(&&**key));
            let keys: Vec<String> = keys.collect();
            let head = |outcome: &Outcome| {
                let names = numbers(outcome).into_iter().map(|(name, _)| name.to_owned());
                let asked = keys.iter().map(|key| format!("asked {key}"));
                ["point", "program", "scale"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(asked)
                    .chain(names)
                    .collect::<Vec<_>>()
            };
            let mut lines: Vec<Vec<String>> =
                records.first().map(|record| head(&record.outcome)).into_iter().collect();
            for (listed, record) in both() {
                let scale = listed.asked.scale.to_string();
                let mut line = vec![listed.point.clone(), record.program.clone(), scale];
                line.extend(keys.iter().map(|key| listed.asked.value(key).unwrap_or_default()));
                line.extend(numbers(&record.outcome).into_iter().map(|(_, value)| value));
                lines.push(line);
            }
            let lines: Vec<String> = lines.iter().map(|line| csv_line(line)).collect();
            lines.join("\n")
        }
        SheetFormat::Table => {
            let rare = rare::table(records.iter().map(|record| &record.outcome));
            let both = [Some(table(listed, records)), rare];
            both.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
        }
    }
}

/// Columns of counters that only some options enable.
type Check = (&'static str, fn(&Outcome) -> Option<u64>);

/// Columns of DRAM, which only some machines have.
type Dram = (&'static str, fn(&Outcome) -> u64);

const DRAM: [Dram; 2] = [
    ("DRAM reads /tx", |outcome| outcome.dram_reads),
    ("DRAM writes /tx", |outcome| outcome.dram_writes),
];

const CHECKS: [Check; 3] = [
    ("power cuts", |outcome| outcome.power_cuts),
    ("violations", |outcome| outcome.violations),
    ("isolation hits", |outcome| outcome.isolation_hits),
];

/// Meaningless for a run with power cuts, which measures all of its transactions.
fn steady(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome { power_cuts: Some(_), .. } => NONE,
        Outcome { steady: true, .. } => "yes",
        Outcome { steady: false, .. } => "NO",
    }
}

/// Formats the table for people.
fn table(listed: &[Listed], records: &[Record]) -> String {
    let mut keys = vec!["workload".to_owned(), "design".to_owned()];
    let more = varying(listed.iter().map(|listed| &listed.asked));
    keys.extend(more.into_iter().filter(|key| !["workload", "design"].contains(&&**key)));
    // Columns that only some sweeps have.
    let dram = DRAM.iter().filter(|(_, of)| records.iter().any(|it| of(&it.outcome) > 0));
    let dram: Vec<&Dram> = dram.collect();
    let of_dram = dram.iter().map(|(name, _)| *name);
    let more = CHECKS.iter().filter(|(_, of)| records.iter().any(|it| of(&it.outcome).is_some()));
    let more: Vec<&Check> = more.collect();
    let last = more.iter().map(|(name, _)| *name).chain(["point"]);
    let names = ["cycles /tx", "prepare", "commit", "NVM reads /tx", "NVM writes /tx"].into_iter();
    let names = names.chain(of_dram).chain(["lines /tx", "fallbacks", "steady"]);
    let header = names.chain(last).map(str::to_owned);
    let header = keys.iter().cloned().chain(header).collect();
    let row = |(listed, record): (&Listed, &Record)| {
        let outcome = &record.outcome;
        let transactions = outcome.transactions.max(1) as f64;
        let each = |lines: u64| format!("{:.2}", lines as f64 / transactions);
        let cycles = &outcome.cycles_per_transaction;
        let one = |cycles: f64| format!("{cycles:.1}");
        let asked = keys.iter().map(|key| listed.asked.value(key).unwrap_or_else(|| NONE.into()));
        let found = [
            one(cycles.total),
            one(cycles.prepare),
            one(cycles.commit),
            each(outcome.nvm_reads),
            each(outcome.nvm_writes.total()),
        ];
        let of_dram = dram.iter().map(|(_, of)| each(of(outcome)));
        let rest = [
            format!("{:.2}", outcome.lines_per_transaction.mean),
            outcome.fallbacks.to_string(),
            steady(outcome).into(),
        ];
        let some = |count: Option<u64>| count.map_or_else(|| NONE.into(), grouped);
        let more = more.iter().map(|(_, of)| some(of(outcome)));
        let found = found.into_iter().chain(of_dram).chain(rest).chain(more);
        asked.chain(found).chain([listed.point.clone()]).collect()
    };
    let rows: Vec<Vec<String>> = listed.iter().zip(records).map(row).collect();
    columns(header, rows, keys.len())
}

/// Returns the numbers of an outcome except the machine's, by JSON key.
fn numbers(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let Outcome { cycles_per_transaction: cycles, lines_per_transaction: lines, .. } = outcome;
    let pages = &outcome.pages_per_transaction;
    let mut all = vec![
        ("workload", outcome.workload.clone()),
        ("design", outcome.design.clone()),
        ("machine.name", outcome.machine.name.clone()),
        ("machine.hash", outcome.machine.hash.clone()),
        ("cores", outcome.cores.to_string()),
        ("seed", outcome.seed.to_string()),
        ("transactions", outcome.transactions.to_string()),
        ("cycles", outcome.cycles.to_string()),
        ("cycles_per_transaction.total", cycles.total.to_string()),
        ("cycles_per_transaction.begin", cycles.begin.to_string()),
        ("cycles_per_transaction.log_stall", cycles.log_stall.to_string()),
        ("cycles_per_transaction.prepare", cycles.prepare.to_string()),
        ("cycles_per_transaction.commit", cycles.commit.to_string()),
        ("cycles_per_transaction.abort", cycles.abort.to_string()),
        ("cycles_per_transaction.locks", cycles.locks.to_string()),
        ("nvm_reads", outcome.nvm_reads.to_string()),
        ("nvm_writes", outcome.nvm_writes.total().to_string()),
    ];
    const CLASSES: [&str; 9] = [
        "nvm_writes.data",
        "nvm_writes.log_data",
        "nvm_writes.log_meta",
        "nvm_writes.commit_record",
        "nvm_writes.journal",
        "nvm_writes.consolidation",
        "nvm_writes.checkpoint",
        "nvm_writes.undo_fallback",
        "nvm_writes.other",
    ];
    let classes = CLASSES.into_iter().zip(outcome.nvm_writes.by_class());
    all.extend(classes.map(|(name, (_, written))| (name, written.to_string())));
    let some = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    all.extend([
        ("dram_reads", outcome.dram_reads.to_string()),
        ("dram_writes", outcome.dram_writes.to_string()),
        ("lines_per_transaction.mean", lines.mean.to_string()),
        ("lines_per_transaction.max", lines.max.to_string()),
        ("pages_per_transaction.mean", pages.mean.to_string()),
        ("pages_per_transaction.max", pages.max.to_string()),
        ("fallbacks", outcome.fallbacks.to_string()),
        ("backlog.begin", outcome.backlog.begin.to_string()),
        ("backlog.end", outcome.backlog.end.to_string()),
        ("steady", outcome.steady.to_string()),
        ("simulated_accesses", outcome.simulated_accesses.to_string()),
        ("checked", outcome.checked.map_or_else(String::new, |held| held.to_string())),
        ("power_cuts", some(outcome.power_cuts)),
        ("violations", some(outcome.violations)),
        ("isolation_hits", some(outcome.isolation_hits)),
    ]);
    all
}

/// Formats a line of RFC 4180, ended by a newline alone.
fn csv_line(fields: &[String]) -> String {
    let quoted = |field: &String| match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",")
}
