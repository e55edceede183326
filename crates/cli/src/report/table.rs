//! Reports for people, as tables.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, Table, presets};

use super::{CompareReport, Conditions, HeapUse, Quantiles, Row, RunReport};

/// Placeholder for a missing number.
pub(crate) const NONE: &str = "-";

/// A table with lines on a terminal, with spaces elsewhere.
fn table() -> Table {
    let mut table = Table::new();
    let is_terminal = std::io::stdout().is_terminal();
    table.load_style(if is_terminal { presets::UTF8_FULL_CONDENSED } else { presets::NOTHING });
    table
}

/// Formats a column of names beside a column of values.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let mut table = table();
    for (name, value) in rows {
        table.add_row([*name, value]);
    }
    trimmed(&table)
}

/// Formats rows of numbers under a header, with names in the first column.
pub(crate) fn sheet<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut table = table();
    table.set_header(header);
    rows.iter().for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    trimmed(&table)
}

/// Formats rows under a header of any width: first columns of text, then columns of numbers.
pub(crate) fn columns(header: Vec<String>, rows: Vec<Vec<String>>, words: usize) -> String {
    let mut table = table();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    trimmed(&table)
}

/// Formats rows of text under a header.
pub(crate) fn named<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut table = table();
    table.set_header(header);
    rows.iter().for_each(|row| {
        table.add_row(row);
    });
    trimmed(&table)
}

/// Formats the report of `lastword run`.
pub(crate) fn run(report: &RunReport) -> String {
    let cpu = &report.cpu_seconds;
    let seconds = |value: f64| format!("{value:.3} s");
    let per_transaction = |bytes: u64| {
        let each = super::ratio(bytes as f64, report.transactions as f64);
        format!("{} ({each:.1} B/tx)", self::bytes(bytes))
    };
    let mut rows = vec![
        ("workload", report.workload.to_owned()),
        ("design", report.design.to_owned()),
        ("conditions", conditions(&report.conditions)),
        ("timed", seconds(report.seconds)),
        ("transactions", grouped(report.transactions)),
        ("aborts", grouped(report.aborts)),
        ("rate", rate(report.transactions_per_second)),
        ("rate, until durable", rate(report.durable_transactions_per_second)),
        ("worst 100 ms", worst(report)),
        ("per CPU-second", rate(report.transactions_per_cpu_second)),
        ("CPU: workers", seconds(cpu.workers)),
        ("CPU: persist", seconds(cpu.persist)),
        ("CPU: reproduce", seconds(cpu.reproduce)),
        ("CPU: emulated delay", seconds(cpu.emulated_delay)),
        ("CPU: other", seconds(cpu.other)),
        ("commit latency", quantiles(&report.commit_latency_ns)),
        ("latency of readers", quantiles(&report.reading_latency_ns)),
        ("durable latency", quantiles(&report.durable_latency_ns)),
        ("words written", option(report.writes_per_transaction, |n| format!("{n:.2} /tx"))),
        ("log, payload", per_transaction(report.log_payload_bytes)),
        ("log, combined", saved(report.log_combined_bytes, report.log_payload_bytes)),
        ("log, compressed", saved(report.log_stored_bytes, report.log_payload_bytes)),
        ("log, written", per_transaction(report.log_bytes)),
        ("log, padding", bytes(report.padding_bytes)),
        ("log wraps", format!("{:.2}", report.log_wraps)),
        ("heap image", per_transaction(report.heap_image_bytes)),
        ("write amplification", option(report.write_amplification, |n| format!("{n:.2}"))),
        ("device writes", device_writes(report)),
        ("persist barriers", grouped(report.persist_barriers)),
        ("waits for room in ring", grouped(report.ring_full_waits)),
        ("grace period", option(report.cycles_per_grace_period, |n| format!("{n:.0} cycles"))),
        ("pages", pages(report)),
        ("peak memory", option(report.peak_rss_bytes, bytes)),
    ];
    rows.extend(report.heap.iter().flat_map(HeapUse::totals));
    let checked = option(report.checked, |held| if held { "held" } else { "FAILED" }.into());
    rows.push(("checked", checked));
    pairs(&rows)
}

/// Formats the remaining bytes of the log, and their share of the payload.
fn saved(left: u64, of: u64) -> String {
    format!("{} ({:.1} % of payload)", bytes(left), 100.0 * super::ratio(left as f64, of as f64))
}

fn worst(report: &RunReport) -> String {
    let each = |count: u64| format!("{} ({})", grouped(count), rate(10.0 * count as f64));
    option(report.worst_100ms_transactions, each)
}

fn device_writes(report: &RunReport) -> String {
    let writes = grouped(report.device_writes);
    match report.transactions_per_device_write {
        Some(each) => format!("{writes} ({} tx each)", short(each)),
        None => writes,
    }
}

/// Formats the page traffic of a bounded shadow.
fn pages(report: &RunReport) -> String {
    let RunReport { page_ins, evictions, page_waits, .. } = report;
    let counts = [page_ins, evictions, page_waits].map(|count| grouped(*count));
    match report.conditions.shadow_bytes {
        Some(_) => format!("{} in, {} out, {} waits", counts[0], counts[1], counts[2]),
        None => NONE.into(),
    }
}

/// Formats the report of `lastword compare`.
pub(crate) fn compare(report: &CompareReport) -> String {
    let mut table = table();
    table.set_header([
        "design",
        "rate",
        "until durable",
        "ratio",
        "min",
        "max",
        "durable ratio",
        "added",
        "CPU",
        "foreground",
        "background",
        "log",
    ]);
    let times = |value: Option<f64>| option(value, |value| format!("{value:.3}"));
    let ns = |value: Option<f64>| option(value, |value| format!("{value:.1} ns/tx"));
    for row in &report.rows {
        table.add_row([
            match row.threads == report.conditions.threads {
                true => row.design.to_owned(),
                false => format!("{} ({} worker)", row.design, row.threads),
            },
            option(row.transactions_per_second_median, rate),
            option(row.durable_transactions_per_second_median, rate),
            times(row.ratio_median),
            times(row.ratio_min),
            times(row.ratio_max),
            times(row.durable_ratio_median),
            ns(row.added_ns_median),
            ns(row.cpu_per_transaction_ns),
            ns(row.foreground_cpu_per_transaction_ns),
            ns(row.background_cpu_per_transaction_ns),
            option(row.log_bytes_per_transaction, |bytes| format!("{bytes:.1} B/tx")),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let head = format!(
        "{}, {} transactions a round, {} rounds; ratios to {}\n{}\n",
        report.workload,
        grouped(report.transactions),
        report.rounds,
        report.baseline,
        conditions(&report.conditions),
    );
    head + &slow(report) + &trimmed(&table)
}

/// Names the designs that reached the time limit in some round.
fn slow(report: &CompareReport) -> String {
    let slow = report.rows.iter().filter(|row| row.transactions_min < report.transactions);
    let line = |row: &Row| {
        let fewest = grouped(row.transactions_min);
        format!("{} reached the time limit: {fewest} transactions a round or more\n", row.design)
    };
    slow.map(line).collect()
}

fn conditions(conditions: &Conditions) -> String {
    let Conditions { medium, latency_cycles, bandwidth_gbps, threads, .. } = conditions;
    let workers = if *threads == 1 { "worker" } else { "workers" };
    let mut text = format!("{threads} {workers}, {}", medium.unwrap_or("no medium"));
    if let (Some(latency), Some(bandwidth)) = (latency_cycles, bandwidth_gbps) {
        text += &format!(" ({latency} cycles, {bandwidth} GB/s)");
    }
    let (machine, seed) = (&conditions.machine, conditions.seed);
    let scale = conditions.scale.map_or("of the pool".into(), |scale| scale.to_string());
    text += &format!(", {}, scale {scale}, seed {seed}", conditions.durability);
    if conditions.shadow != "full" {
        text += &format!(", shadow {}", conditions.shadow);
    }
    if let Some(most) = conditions.shadow_bytes {
        text += &format!(" of {}", bytes(most));
    }
    if conditions.reproduce_threads > 1 {
        text += &format!(", {} reproduce threads", conditions.reproduce_threads);
    }
    text += &conditions.grouping.show();
    if let Some(readers) = conditions.readers {
        text += &format!(", {readers} of them read");
    }
    if let Some(records) = conditions.ownership_records {
        text += &format!(", {records} ownership records");
    }
    if let Some(most) = conditions.outstanding {
        text += &format!(", {most} outstanding");
    }
    text += &format!("; {}, {} cores", machine.cpu, machine.cores);
    if let Some(commit) = conditions.commit {
        text += &format!("; commit {commit}");
    }
    text
}

fn quantiles(quantiles: &Quantiles) -> String {
    let Quantiles { samples, p50, p90, p99, max } = *quantiles;
    let named = [("p50", p50), ("p90", p90), ("p99", p99), ("max", max)];
    let parts =
        named.iter().filter_map(|(name, value)| Some(format!("{name} {}", time((*value)?))));
    match (samples, parts.collect::<Vec<_>>()) {
        (_, parts) if parts.is_empty() => NONE.into(),
        (1, _) => option(max, |max| format!("{} (one sample)", time(max))),
        // The number of samples explains the missing quantile.
        (few, parts) if p99.is_none() => format!("{} ({few} samples)", parts.join(", ")),
        (_, parts) => parts.join(", "),
    }
}

fn option<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.into(), show)
}

fn trimmed(table: &Table) -> String {
    table.trim_fmt()
}

/// Groups digits in threes: `1 204 551`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with two or three digits and a decimal prefix: `5.7 M`.
pub(crate) fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 1e9 => (number / 1e9, " G"),
        n if n >= 1e6 => (number / 1e6, " M"),
        n if n >= 1e3 => (number / 1e3, " k"),
        _ => (number, ""),
    };
    let decimals = usize::from(scaled.abs() < 100.0) + usize::from(scaled.abs() < 10.0);
    format!("{scaled:.decimals$}{unit}")
}

/// Formats transactions a second.
pub(crate) fn rate(number: f64) -> String {
    format!("{} tx/s", short(number))
}

/// Formats bytes in powers of 1024.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Formats a time given in nanoseconds.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_units() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_204_551), "1 204 551");
        assert_eq!(short(5.0), "5.00");
        assert_eq!(short(5_712_345.0), "5.71 M");
        assert_eq!(short(310_000.0), "310 k");
        assert_eq!(rate(5_712_345.0), "5.71 M tx/s");
        assert_eq!(rate(310_000.0), "310 k tx/s");
        assert_eq!(rate(12.0), "12.0 tx/s");
        assert_eq!(bytes(1000), "1000 B");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(time(950), "950 ns");
        assert_eq!(time(1_500), "1.5 us");
        assert_eq!(time(2_000_000_000), "2.00 s");
    }
}
