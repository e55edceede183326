//! P7 to P9: latency of read-only transactions, alone and next to a writer, and of update
//! transactions (section 5.4, figures 9b to 9d; tables 1 and 2).

use super::{ALL_ROUNDS, CREWS, Work, applications, cycles, seldom};
use crate::budget::Budget;
use crate::output::number::number;
use crate::sheet::{Sheet, curve, each, linear, log, middle, pairs};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

const MICRO: [&str; 2] = ["chains", "btree-16"];

/// P7's designs.
const READ_BY: [&str; 4] = ["decoupled", "mvcc", "snapshot", "plain"];

/// Returns searches on cached data.
fn reading(workload: &'static str) -> Work {
    let work = Work::with_updates(workload, 0);
    Work { more: work.more + " --warm-up 0.2", ..work }
}

pub(super) fn plan_reads(budget: &Budget) -> Vec<Spec> {
    let of =
        |&workload: &&'static str| READ_BY.map(|design| reading(workload).spec(design, 1, budget));
    MICRO.iter().flat_map(of).collect()
}

/// P7: read-only transactions.
pub(super) fn reads(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for workload in MICRO {
        let command = |design: &str| reading(workload).on(design, 1, budget);
        let of = |design: &str| trials.of(&command(design));
        for design in READ_BY {
            let row = format!("cycles/{workload}/{design}");
            sheet.row(row, each(of(design), cycles)).command(&command(design));
        }
        let ours = of("snapshot");
        let by = |trial: &Trial, base: &Trial| cycles(trial) / cycles(base);
        let less = |trial: &Trial, base: &Trial| cycles(trial) - cycles(base);
        sheet.row(format!("mvcc/{workload}"), pairs(of("mvcc"), ours, by));
        sheet.row(format!("decoupled/{workload}"), pairs(of("decoupled"), ours, less));
        sheet.row(format!("plain/{workload}"), pairs(ours, of("plain"), by));
    }
}

/// P8's workloads.
const BESIDE_WRITER: [&str; 3] = ["list", "chains", "btree-16"];

const LATENCIES: [u32; 7] = [0, 100, 200, 300, 400, 500, 600];
const BANDWIDTHS: [u32; 5] = [1, 2, 4, 8, 16];

/// Values of the parameter that does not vary, and the base of the ratios.
const LATENCY: u32 = 300;
const BANDWIDTH: u32 = 2;
const MOST_BANDWIDTH: u32 = 16;

fn latencies(budget: &Budget) -> &'static [u32] {
    if budget.quick { &[0, 300, 600] } else { &LATENCIES }
}

fn bandwidths(budget: &Budget) -> &'static [u32] {
    if budget.quick { &[1, 16] } else { &BANDWIDTHS }
}

/// Command that creates the pool of the tree's trials.
const TREE: &str = "btree-16 --design snapshot --medium emulated --transactions 1";

/// Returns the command of a trial with one reader and one writer.
fn beside_writer(workload: &str, ns: u32, gbps: u32) -> String {
    format!(
        "{workload} --design snapshot --threads 2 --readers 1 --seconds 0.25 --warm-up 0.05 \
         --medium emulated --latency-ns {ns} --bandwidth-gbps {gbps}"
    )
}

pub(super) fn plan_flat(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for workload in BESIDE_WRITER {
        let by_latency = latencies(budget).iter().map(|ns| (*ns, BANDWIDTH));
        let by_bandwidth = bandwidths(budget).iter().map(|gbps| (LATENCY, *gbps));
        for (ns, gbps) in by_latency.chain(by_bandwidth) {
            // A block of its own: the trials of a block run in succession, without others between.
            let block = match workload {
                "list" => "list, beside a writer",
                "chains" => "chains, beside a writer",
                _ => "btree-16, beside a writer",
            };
            let times = if budget.quick { 1 } else { 3 };
            // Loading a million pairs takes longer than a trial, which hardly changes their number:
            // the trials share a pool. A list is small and a trial lengthens it: each has its own.
            let pool = (workload == "btree-16").then(|| TREE.to_owned());
            let command = beside_writer(workload, ns, gbps);
            specs.push(Spec { pool, times, ..Spec::new(block, command) });
        }
    }
    specs
}

fn p50(trial: &Trial) -> f64 {
    trial.reading_ns.p50.map_or(f64::NAN, |ns| ns as f64)
}

/// P8: effect of a writer's persist latency and bandwidth on a reader.
pub(super) fn flat(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let mut by_latency = Vec::new();
    let mut by_bandwidth = Vec::new();
    for workload in BESIDE_WRITER {
        let command = |ns, gbps| beside_writer(workload, ns, gbps);
        let of = |ns, gbps| trials.of(&command(ns, gbps));
        let base = of(0, BANDWIDTH);
        sheet.row(format!("p50/{workload}"), each(base, p50)).command(&command(0, BANDWIDTH));
        let by = |trial: &Trial, base: &Trial| p50(trial) / p50(base);
        let mut row = |name: String, (ns, gbps): (u32, u32), base: &[Trial]| {
            let trials = of(ns, gbps);
            let writes = middle(each(trials, |trial| trial.words_written as f64 / trial.seconds));
            sheet
                .row(name, pairs(trials, base, by))
                .note(format!("The writer writes {} words a second.", number(writes)))
                .command(&command(ns, gbps));
        };
        for &ns in latencies(budget).iter().filter(|ns| **ns > 0) {
            row(format!("latency/{workload}/{ns}"), (ns, BANDWIDTH), base);
        }
        let most = of(LATENCY, MOST_BANDWIDTH);
        for &gbps in bandwidths(budget).iter().filter(|gbps| **gbps < MOST_BANDWIDTH) {
            row(format!("bandwidth/{workload}/{gbps}"), (LATENCY, gbps), most);
        }
        let point = |x: u32, trials: &[Trial]| (f64::from(x), each(trials, p50));
        let points = latencies(budget).iter().map(|ns| point(*ns, of(*ns, BANDWIDTH)));
        by_latency.push(curve(workload, points.collect()));
        let points = bandwidths(budget).iter().map(|gbps| point(*gbps, of(LATENCY, *gbps)));
        by_bandwidth.push(curve(workload, points.collect()));
    }
    let y = || linear("reader's median latency, ns");
    let axes = (linear("latency of a persist barrier, ns"), y());
    sheet.figure("latency", "A reader next to a writer, by latency", axes, by_latency);
    let axes = (log("bandwidth, GB/s"), y());
    sheet.figure("bandwidth", "A reader next to a writer, by bandwidth", axes, by_bandwidth);
}

/// Share of update transactions in tables 1 and 2, in percent.
const WRITE: u32 = 40;

/// Grace periods for each timed one (`lastword::Metrics::grace_periods`).
const TIMED_EVERY: f64 = 8.0;

/// P9's workloads by the names of their rows; for those with readers also the workload without
/// writers.
fn grace_work() -> [(&'static str, Work, Option<Work>); 3] {
    let micro = |workload| {
        let [writing, reading] = [WRITE, 0].map(|of| Work::with_updates(workload, of));
        (workload, writing, Some(reading))
    };
    [micro("chains"), micro("btree-16"), ("vacation", applications::vacation(), None)]
}

pub(super) fn plan_grace(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for (_, work, reading) in grace_work() {
        for (workers, _) in CREWS {
            let all = [Some(work.clone()), reading.clone()].into_iter().flatten();
            specs.extend(all.map(|work| work.spec("snapshot", workers, budget)));
        }
    }
    seldom(specs, ALL_ROUNDS, budget)
}

/// P9: cycles of an update transaction and of a grace period.
pub(super) fn grace(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for (name, work, reading) in grace_work() {
        for (workers, crew) in CREWS {
            let command = work.on("snapshot", workers, budget);
            let all = trials.of(&command);
            let share = if reading.is_some() { f64::from(WRITE) / 100.0 } else { 1.0 };
            let values = match &reading {
                // The mixed trial minus the share of its readers, timed by the trial without
                // writers.
                Some(reading) => {
                    let reading = trials.of(&reading.on("snapshot", workers, budget));
                    pairs(all, reading, |all, reads| {
                        (cycles(all) - (1.0 - share) * cycles(reads)) / share
                    })
                }
                None => each(all, cycles),
            };
            sheet.row(format!("write/{name}/{crew}"), values).command(&command);
            let period = |trial: &Trial| trial.grace_cycles as f64 / trial.grace_periods as f64;
            sheet.row(format!("period/{name}/{crew}"), each(all, period)).command(&command);
            let periods = |trial: &Trial| TIMED_EVERY * trial.each(trial.grace_periods) / share;
            sheet.row(format!("periods/{name}/{crew}"), each(all, periods)).command(&command);
        }
    }
}
