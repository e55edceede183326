//! Recipes for DudeTM's evaluation (section 5 of the paper).
//!
//! `targets/dudetm.toml` has the names of the rows and their targets. Every experiment runs trials
//! on the emulated medium, whose latency and bandwidth are those of the paper's setup.

mod combination;
mod latency;
mod paging;
mod scaling;
mod throughput;

use crate::budget::Budget;
use crate::recipe::Recipe;
use crate::sheet::{Sheet, each, pairs};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::trials("D1", throughput::plan_bandwidth, throughput::bandwidth),
    Recipe::trials("D2", throughput::plan_unbounded, throughput::unbounded),
    Recipe::trials("D3", throughput::plan_writes, throughput::writes),
    Recipe::trials("D4", throughput::plan_logging, throughput::logging),
    Recipe::trials("D5", latency::plan, latency::judge),
    Recipe::trials("D6", combination::plan, combination::judge),
    Recipe::trials("D7", paging::plan, paging::judge),
    Recipe::trials("D8", scaling::plan, scaling::judge),
    Recipe::trials("D9", plan_hardware, hardware),
    Recipe::trials("D10", plan_empty, empty),
];

/// A benchmark and the transactions of a trial: some tenths of a second of `volatile`.
struct Benchmark {
    name: &'static str,
    transactions: u64,
}

/// The six benchmarks of the paper (section 5.1).
const BENCHMARKS: [Benchmark; 6] = [
    Benchmark { name: "hashtable", transactions: 1_500_000 },
    Benchmark { name: "tatp-hash", transactions: 2_000_000 },
    Benchmark { name: "btree", transactions: 600_000 },
    Benchmark { name: "tatp-btree", transactions: 900_000 },
    Benchmark { name: "tpcc-hash", transactions: 80_000 },
    Benchmark { name: "tpcc-btree", transactions: 24_000 },
];

/// Medium and workers of a trial.
#[derive(Clone, Copy)]
struct On {
    gbps: u32,
    /// Latency of a persist barrier.
    cycles: u32,
    workers: u32,
}

impl Benchmark {
    /// Returns the command of a trial on the emulated medium. Volatile designs have no medium.
    fn on(&self, design: &str, on: On, budget: &Budget) -> String {
        let name = self.name;
        let transactions = self.transactions / if budget.quick { 2 } else { 1 };
        let mut command = format!("{name} --design {design} --transactions {transactions}");
        if on.workers > 1 {
            command += &format!(" --threads {}", on.workers);
        }
        if design != "volatile" {
            let On { gbps, cycles, .. } = on;
            command +=
                &format!(" --medium emulated --bandwidth-gbps {gbps} --latency-cycles {cycles}");
        }
        command
    }
}

const HTM: [&str; 2] = ["volatile-htm", "decoupled-htm"];

/// The benchmarks of table 4.
const IN_BOTH: [usize; 3] = [2, 0, 3];

const TABLE_4: On = On { gbps: 1, cycles: 1000, workers: 1 };

/// Plans the software designs that table 4 compares with hardware transactions. Their rows have no
/// target, so a quick run leaves them out.
fn plan_hardware(budget: &Budget) -> Vec<Spec> {
    if budget.quick {
        return Vec::new();
    }
    let of = |at: usize| {
        let benchmark = &BENCHMARKS[at];
        let spec = |design| Spec::new(benchmark.name, benchmark.on(design, TABLE_4, budget));
        ["volatile", "decoupled"].map(spec)
    };
    IN_BOTH.into_iter().flat_map(of).collect()
}

/// D9: hardware transactions. They need a CPU with RTM and a design that uses it.
fn hardware(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for at in IN_BOTH.into_iter().filter(|_| !budget.quick) {
        let benchmark = &BENCHMARKS[at];
        let commands = ["volatile", "decoupled"].map(|d| benchmark.on(d, TABLE_4, budget));
        let [volatile, decoupled] = [0, 1].map(|of| trials.of(&commands[of]));
        let name = benchmark.name;
        for (design, command) in ["volatile", "decoupled"].iter().zip(&commands) {
            let rates = each(trials.of(command), Trial::rate);
            sheet.row(format!("{design}/{name}"), rates).command(command);
        }
        let slower =
            pairs(decoupled, volatile, |trial, base| 100.0 * (1.0 - trial.rate() / base.rate()));
        sheet.row(format!("slower/{name}"), slower);
    }
    let why = match has_rtm() {
        false => "no RTM on this CPU",
        true => "this CPU has RTM, but no design uses it yet",
    };
    for design in HTM {
        for at in IN_BOTH {
            sheet.none(format!("{design}/{}", BENCHMARKS[at].name), why);
        }
    }
}

/// Returns whether the kernel reports restricted transactional memory.
fn has_rtm() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "rtm"))
}

const EMPTY: [&str; 4] = ["volatile", "decoupled", "undo", "redo"];

fn empty_on(design: &str, budget: &Budget) -> String {
    let transactions = if budget.quick { 10_000_000 } else { 30_000_000 };
    let medium = if design == "volatile" { "" } else { " --medium emulated" };
    format!("empty --design {design} --transactions {transactions}{medium}")
}

/// D10: the cost of an empty transaction.
fn plan_empty(budget: &Budget) -> Vec<Spec> {
    let spec = |&design: &&str| Spec::new("empty", empty_on(design, budget));
    EMPTY.iter().map(spec).collect()
}

fn empty(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for design in EMPTY {
        let command = empty_on(design, budget);
        let rates = each(trials.of(&command), |trial| trial.rate());
        sheet.row(format!("empty/{design}"), rates).command(&command);
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::{self, judged};
    use crate::trial::Trial;

    #[test]
    fn dudetm_runs_have_all_rows() {
        sample::assert_rows("dudetm", invented, |_, target| target.is_none());
    }

    /// A thousand transactions whose duration identifies the command.
    fn invented(command: &str) -> Trial {
        let has = |words: &str| format!("{command} ").contains(&format!("{words} "));
        let design = [
            ("volatile", 100),
            ("decoupled-unbounded", 120),
            ("decoupled-sync", 500),
            ("undo", 1000),
            ("redo", 800),
        ];
        let of_design = design.iter().find(|(name, _)| has(&format!("--design {name}")));
        let us = of_design.map_or(125, |(_, us)| *us)
            * if has("--bandwidth-gbps 1") { 3 } else { 1 }
            * if has("--latency-cycles 3500") { 2 } else { 1 };
        // Two workers scale to less than twice the rate.
        let us = if has("--threads 2") { us * 3 / 4 } else { us };
        let p50 = us * if has("--group 100") { 50 } else { 7 };
        Trial {
            durable_seconds: 1e-6 * us as f64,
            workers_cpu_ns: 400_000,
            cpu_ns: 600_000,
            delay_ns: 100_000,
            durable_ns: crate::statistics::Quantiles { p50: Some(p50), ..Trial::SAMPLE.durable_ns },
            ..Trial::SAMPLE
        }
    }

    #[test]
    fn dudetm_rows_follow_from_trials() {
        let results = judged("dudetm", false, invented);
        let held = |id: &str, name: &str| sample::held(&results, id, name);
        // 125 ns for `decoupled` and 100 for `volatile` at 16 GB/s; three times as much at 1.
        assert_eq!(held("D1", "added/hashtable"), (Some(25.0), Some(true)));
        assert_eq!(held("D1", "two/added/hashtable"), (Some(36.0), None));
        assert_eq!(held("D1", "background-by-foreground/btree"), (Some(0.25), Some(true)));
        assert_eq!(held("D1", "ratio/btree/16").0, Some(0.8));
        assert_eq!(held("D1", "ratio/btree/1").0, Some(0.267));
        assert_eq!(held("D1", "sync/btree/16").0, Some(0.2));
        assert_eq!(held("D1", "sync-slow/btree/16").0, Some(0.1));
        assert_eq!(held("D2", "inf/btree/16"), (Some(0.96), Some(false)));
        assert_eq!(held("D4", "undo/btree"), (Some(8.0), Some(true)));
        assert_eq!(held("D4", "redo/btree"), (Some(6.4), Some(true)));
        assert_eq!(held("D4", "sync-redo/tpcc-hash").0, Some(1.6));
        assert_eq!(held("D4", "libpmemobj/hashtable"), (None, None));
        // 7 * 375 ns for `decoupled`, 7 * 1500 for `decoupled-sync`.
        assert_eq!(held("D5", "p50-by-sync/1"), (Some(0.25), Some(true)));
        assert_eq!(held("D5", "redo-p50").0, Some(6.4));
        assert_eq!(held("D5", "group/100").0, Some(18.75));
        assert_eq!(held("D6", "saved/10"), (Some(50.0), Some(false)));
        assert_eq!(held("D6", "stored/100"), (Some(62.5), Some(false)));
        assert_eq!(held("D8", "decoupled/own"), (Some(1.335), Some(true)));
        assert_eq!(held("D9", "slower/btree").0, Some(73.333));
        assert_eq!(held("D9", "decoupled-htm/btree"), (None, None));
        assert_eq!(held("D10", "empty/decoupled"), (Some(8_000_000.0), Some(false)));
        assert!(results.rows.iter().all(|row| row.ours.is_some() || row.why.is_some()));
    }
}
