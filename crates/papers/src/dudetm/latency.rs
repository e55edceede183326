//! D5: latency until a transaction is known to be durable (section 5.3, table 3).

use crate::budget::Budget;
use crate::sheet::{Sheet, curve, each, linear, log, middle, pairs, theirs};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

/// Designs by the names of their rows. `decoupled-pausing` is `decoupled` with its default pause.
const DESIGNS: [&str; 5] = ["decoupled", "decoupled-pausing", "decoupled-sync", "redo", "undo"];
const GROUPS: [u64; 5] = [1, 10, 100, 1000, 10_000];

/// Returns the designs of a run; a quick one has only those with targets.
fn designs(budget: &Budget) -> &'static [&'static str] {
    if budget.quick { &["decoupled", "decoupled-sync"] } else { &DESIGNS }
}

fn groups(budget: &Budget) -> &'static [u64] {
    if budget.quick { &[] } else { &GROUPS }
}

/// In GB/s. The first is the paper's.
const BANDWIDTHS: [u32; 4] = [1, 2, 4, 16];

fn command(row: &str, more: &str, budget: &Budget) -> String {
    at(BANDWIDTHS[0], row, more, budget)
}

/// Returns the command of a trial that times every transaction. After each one the worker reads the
/// durable watermark, as in the paper.
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
    // The count alone completes a group; at the end of a trial the wait for durability does.
    command("decoupled", &format!(" --group {of} --group-ms 10000"), budget)
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let designs = designs(budget).iter().map(|design| command(design, "", budget));
    let groups = groups(budget).iter().map(|of| with_groups(*of, budget));
    let beside = BANDWIDTHS.into_iter().flat_map(|gbps| beside(gbps, budget));
    designs.chain(groups).chain(beside).map(|command| Spec::new("latency", command)).collect()
}

/// Returns the commands without and with a wait for each commit.
fn beside(gbps: u32, budget: &Budget) -> [String; 2] {
    ["decoupled", "decoupled-sync"].map(|design| at(gbps, design, "", budget))
}

fn us(ns: Option<u64>) -> f64 {
    ns.map_or(f64::NAN, |ns| ns as f64 / 1000.0)
}

fn p50(trial: &Trial) -> f64 {
    us(trial.durable_ns.p50)
}

pub(super) fn judge(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for &design in designs(budget) {
        let command = command(design, "", budget);
        let trials = trials.of(&command);
        sheet.row(format!("rate/{design}"), each(trials, Trial::rate)).command(&command);
        sheet.row(
            format!("foreground/{design}"),
            each(trials, |trial| trial.foreground_ns() / 1000.0),
        );
        sheet.row(
            format!("background/{design}"),
            each(trials, |trial| trial.background_ns() / 1000.0),
        );
        sheet.row(
            format!("helped/{design}"),
            each(trials, |trial| trial.each(trial.helped_ns) / 1000.0),
        );
        sheet.row(format!("commit-p50/{design}"), each(trials, |trial| us(trial.commit_ns.p50)));
        sheet.row(format!("commit-p99/{design}"), each(trials, |trial| us(trial.commit_ns.p99)));
        sheet.row(format!("p50/{design}"), each(trials, p50)).command(&command);
        sheet.row(format!("p90/{design}"), each(trials, |trial| us(trial.durable_ns.p90)));
        sheet.row(format!("p99/{design}"), each(trials, |trial| us(trial.durable_ns.p99)));
    }
    for gbps in BANDWIDTHS {
        let [ours, sync] = beside(gbps, budget);
        let (decoupled, base) = (trials.of(&ours), trials.of(&sync));
        // Share of the bandwidth in use. A busy medium delays later writes.
        let busy = |trial: &Trial| {
            let bytes = trial.each(trial.log_bytes + trial.heap_image_bytes);
            100.0 * trial.rate() * bytes / (f64::from(gbps) * 1e9)
        };
        let middle_of =
            |trials: &[Trial], value: &dyn Fn(&Trial) -> f64| middle(each(trials, value));
        sheet
            .row(format!("p50-by-sync/{gbps}"), pairs(decoupled, base, |a, b| p50(a) / p50(b)))
            .note(format!(
                "{:.1} by {:.1} us; the medium is busy for {:.0} and {:.0} % of the time. {:.0} % \
                 of the heap image's bytes were written after the last transaction was durable.",
                middle_of(decoupled, &p50),
                middle_of(base, &p50),
                middle_of(decoupled, &busy),
                middle_of(base, &busy),
                middle_of(decoupled, &|trial| {
                    100.0 * trial.late_heap_image_bytes as f64 / trial.heap_image_bytes as f64
                }),
            ))
            .command(&ours);
        let by_next = |trial: &Trial| 100.0 * trial.durable_by_next.unwrap_or(f64::NAN);
        sheet.row(format!("by-next/{gbps}"), each(decoupled, by_next)).command(&ours);
    }
    let ours = trials.of(&command("decoupled", "", budget));
    for &base in designs(budget).iter().filter(|design| ["redo", "undo"].contains(design)) {
        let theirs = trials.of(&command(base, "", budget));
        sheet.row(format!("{base}-p50"), pairs(theirs, ours, |a, b| p50(a) / p50(b)));
    }
    for &of in groups(budget) {
        let command = with_groups(of, budget);
        sheet.row(format!("group/{of}"), each(trials.of(&command), p50)).command(&command);
    }
    quantiles(budget, trials, sheet);
    if groups(budget).is_empty() {
        return;
    }
    let points = |value: fn(&Trial) -> f64| {
        let point = |&of: &u64| (of as f64, each(trials.of(&with_groups(of, budget)), value));
        GROUPS.iter().map(point).collect()
    };
    let series =
        vec![curve("p50", points(p50)), curve("p99", points(|trial| us(trial.durable_ns.p99)))];
    let axes = (log("transactions of a group"), log("us from begin to durable"));
    sheet.figure("groups", "Latency against the size of groups", axes, series);
}

fn quantiles(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let ours = designs(budget).iter().map(|&design| {
        let trials = trials.of(&command(design, "", budget));
        let at = |value: fn(&Trial) -> Option<u64>| each(trials, |trial| us(value(trial)));
        let points = vec![
            (50.0, at(|trial| trial.durable_ns.p50)),
            (90.0, at(|trial| trial.durable_ns.p90)),
            (99.0, at(|trial| trial.durable_ns.p99)),
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
