//! D5: how long until a transaction is known to be durable (section 5.3, table 3).

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, log, middle, pairs, theirs};

/// Designs by the names of their rows; `decoupled-pausing` is `decoupled` as it is by default.
const DESIGNS: [&str; 5] = ["decoupled", "decoupled-pausing", "decoupled-sync", "redo", "undo"];
const GROUPS: [u64; 5] = [1, 10, 100, 1000, 10_000];

/// A quick run has only those that marks are about.
fn designs(budget: &Budget) -> &'static [&'static str] {
    if budget.quick { &["decoupled", "decoupled-sync"] } else { &DESIGNS }
}

fn groups(budget: &Budget) -> &'static [u64] {
    if budget.quick { &[] } else { &GROUPS }
}

/// GB/s; the paper has the first.
const BANDWIDTHS: [u32; 4] = [1, 2, 4, 16];

fn command(row: &str, more: &str, budget: &Budget) -> String {
    at(BANDWIDTHS[0], row, more, budget)
}

/// Every transaction is timed; behind each the worker looks what is durable, as in the paper.
fn at(gbps: u32, row: &str, more: &str, budget: &Budget) -> String {
    let transactions = if budget.quick { 40_000 } else { 100_000 };
    let (design, pause) = match row {
        "decoupled" => ("decoupled", " --pause-us 0"),
        "decoupled-pausing" => ("decoupled", ""),
        design => (design, ""),
    };
    format!(
        "tpcc-hash --design {design} --transactions {transactions} --sample every \
         --medium emulated --bandwidth-gbps {gbps} --latency-cycles 1000{pause}{more}"
    )
}

fn with_groups(of: u64, budget: &Budget) -> String {
    // Only the number ends a group, and at the end of a lap who waits for it.
    command("decoupled", &format!(" --group {of} --group-ms 10000"), budget)
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let designs = designs(budget).iter().map(|design| command(design, "", budget));
    let groups = groups(budget).iter().map(|of| with_groups(*of, budget));
    let beside = BANDWIDTHS.into_iter().flat_map(|gbps| beside(gbps, budget));
    designs.chain(groups).chain(beside).map(|command| Spec::new("latency", command)).collect()
}

/// Behind, and waited for.
fn beside(gbps: u32, budget: &Budget) -> [String; 2] {
    ["decoupled", "decoupled-sync"].map(|design| at(gbps, design, "", budget))
}

fn us(ns: Option<u64>) -> f64 {
    ns.map_or(f64::NAN, |ns| ns as f64 / 1000.0)
}

fn p50(lap: &Lap) -> f64 {
    us(lap.durable_ns.p50)
}

pub(super) fn judge(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for &design in designs(budget) {
        let command = command(design, "", budget);
        let laps = laps.of(&command);
        sheet.row(format!("rate/{design}"), each(laps, Lap::rate)).command(&command);
        sheet.row(format!("front/{design}"), each(laps, |lap| lap.front() / 1000.0));
        sheet.row(format!("behind/{design}"), each(laps, |lap| lap.behind() / 1000.0));
        sheet.row(format!("helped/{design}"), each(laps, |lap| lap.each(lap.helped_ns) / 1000.0));
        sheet.row(format!("commit-p50/{design}"), each(laps, |lap| us(lap.commit_ns.p50)));
        sheet.row(format!("commit-p99/{design}"), each(laps, |lap| us(lap.commit_ns.p99)));
        sheet.row(format!("p50/{design}"), each(laps, p50)).command(&command);
        sheet.row(format!("p90/{design}"), each(laps, |lap| us(lap.durable_ns.p90)));
        sheet.row(format!("p99/{design}"), each(laps, |lap| us(lap.durable_ns.p99)));
    }
    for gbps in BANDWIDTHS {
        let [ours, sync] = beside(gbps, budget);
        let (decoupled, base) = (laps.of(&ours), laps.of(&sync));
        // Of what the bandwidth lets through: a medium that is busy makes who comes wait.
        let busy = |lap: &Lap| {
            let bytes = lap.each(lap.log_bytes + lap.home_bytes);
            100.0 * lap.rate() * bytes / (f64::from(gbps) * 1e9)
        };
        let middle_of = |laps: &[Lap], value: &dyn Fn(&Lap) -> f64| middle(each(laps, value));
        sheet
            .row(format!("p50-by-sync/{gbps}"), pairs(decoupled, base, |a, b| p50(a) / p50(b)))
            .note(format!(
                "{:.1} by {:.1} us; the medium is busy for {:.0} and {:.0} % of the time. Of what \
                 went home, {:.0} % did after the last was durable.",
                middle_of(decoupled, &p50),
                middle_of(base, &p50),
                middle_of(decoupled, &busy),
                middle_of(base, &busy),
                middle_of(decoupled, &|lap| {
                    100.0 * lap.late_home_bytes as f64 / lap.home_bytes as f64
                }),
            ))
            .command(&ours);
        let by_next = |lap: &Lap| 100.0 * lap.durable_by_next.unwrap_or(f64::NAN);
        sheet.row(format!("by-next/{gbps}"), each(decoupled, by_next)).command(&ours);
    }
    let ours = laps.of(&command("decoupled", "", budget));
    for &base in designs(budget).iter().filter(|design| ["redo", "undo"].contains(design)) {
        let theirs = laps.of(&command(base, "", budget));
        sheet.row(format!("{base}-p50"), pairs(theirs, ours, |a, b| p50(a) / p50(b)));
    }
    for &of in groups(budget) {
        let command = with_groups(of, budget);
        sheet.row(format!("group/{of}"), each(laps.of(&command), p50)).command(&command);
    }
    quantiles(budget, laps, sheet);
    if groups(budget).is_empty() {
        return;
    }
    let points = |value: fn(&Lap) -> f64| {
        let point = |&of: &u64| (of as f64, each(laps.of(&with_groups(of, budget)), value));
        GROUPS.iter().map(point).collect()
    };
    let series =
        vec![curve("p50", points(p50)), curve("p99", points(|lap| us(lap.durable_ns.p99)))];
    let axes = (log("transactions of a group"), log("us from begin to durable"));
    sheet.figure("groups", "Latency against the size of groups", axes, series);
}

fn quantiles(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let ours = designs(budget).iter().map(|&design| {
        let laps = laps.of(&command(design, "", budget));
        let at = |value: fn(&Lap) -> Option<u64>| each(laps, |lap| us(value(lap)));
        let points = vec![
            (50.0, at(|lap| lap.durable_ns.p50)),
            (90.0, at(|lap| lap.durable_ns.p90)),
            (99.0, at(|lap| lap.durable_ns.p99)),
        ];
        curve(design, points)
    });
    let paper = [
        theirs("DudeTM (paper)", &[(50.0, 45.0), (90.0, 73.0), (99.0, 124.0)]),
        theirs("DudeTM-Sync (paper)", &[(50.0, 18.0), (90.0, 40.0), (99.0, 90.0)]),
        theirs("Mnemosyne (paper)", &[(50.0, 62.0), (90.0, 87.0), (99.0, 126.0)]),
        theirs("NVML (paper)", &[(50.0, 112.0), (90.0, 161.0), (99.0, 254.0)]),
    ];
    let axes = (linear("percentile"), log("us from begin to durable"));
    let series = ours.chain(paper).collect();
    sheet.figure("latency", "Latency of TPC-C (hash), until durable", axes, series);
}
