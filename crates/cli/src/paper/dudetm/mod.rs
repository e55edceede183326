//! DudeTM's evaluation (section 5 of the paper). Names and marks are in `papers/dudetm.toml`.

mod combination;
mod latency;
mod paging;
mod scaling;
mod throughput;

use super::laps::{Lap, Laps, Spec};
use super::sheet::{Sheet, each, pairs};
use super::{Budget, Recipe};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::laps("D1", throughput::plan_bandwidth, throughput::bandwidth),
    Recipe::laps("D2", throughput::plan_unbounded, throughput::unbounded),
    Recipe::laps("D3", throughput::plan_writes, throughput::writes),
    Recipe::laps("D4", throughput::plan_logging, throughput::logging),
    Recipe::laps("D5", latency::plan, latency::judge),
    Recipe::laps("D6", combination::plan, combination::judge),
    Recipe::laps("D7", paging::plan, paging::judge),
    Recipe::laps("D8", scaling::plan, scaling::judge),
    Recipe::laps("D9", plan_hardware, hardware),
    Recipe::laps("D10", plan_empty, empty),
];

/// A benchmark, and transactions of a lap: some tenths of a second of `volatile`.
struct Benchmark {
    name: &'static str,
    transactions: u64,
}

/// The paper's six (section 5.1).
const BENCHMARKS: [Benchmark; 6] = [
    Benchmark { name: "hashtable", transactions: 1_500_000 },
    Benchmark { name: "tatp-hash", transactions: 2_000_000 },
    Benchmark { name: "btree", transactions: 600_000 },
    Benchmark { name: "tatp-btree", transactions: 900_000 },
    Benchmark { name: "tpcc-hash", transactions: 80_000 },
    Benchmark { name: "tpcc-btree", transactions: 24_000 },
];

/// What a lap runs on.
#[derive(Clone, Copy)]
struct On {
    gbps: u32,
    /// Of a persist barrier.
    cycles: u32,
    workers: u32,
}

impl Benchmark {
    /// The command of a lap on the emulated medium; designs that keep nothing have none.
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

/// What table 4 compares hardware transactions with; a quick run has only what has marks.
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

/// D9: hardware transactions need a CPU that has them, and a design that uses them.
fn hardware(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for at in IN_BOTH.into_iter().filter(|_| !budget.quick) {
        let benchmark = &BENCHMARKS[at];
        let commands = ["volatile", "decoupled"].map(|d| benchmark.on(d, TABLE_4, budget));
        let [volatile, decoupled] = [0, 1].map(|of| laps.of(&commands[of]));
        let name = benchmark.name;
        for (design, command) in ["volatile", "decoupled"].iter().zip(&commands) {
            let rates = each(laps.of(command), Lap::rate);
            sheet.row(format!("{design}/{name}"), rates).command(command);
        }
        let slower =
            pairs(decoupled, volatile, |lap, base| 100.0 * (1.0 - lap.rate() / base.rate()));
        sheet.row(format!("slower/{name}"), slower);
    }
    let why = match has_rtm() {
        false => "no RTM on this CPU",
        true => "this CPU has RTM, but there is no design that uses it yet",
    };
    for design in HTM {
        for at in IN_BOTH {
            sheet.none(format!("{design}/{}", BENCHMARKS[at].name), why);
        }
    }
}

/// Whether the kernel tells of restricted transactional memory.
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

/// D10: what a transaction costs that does nothing.
fn plan_empty(budget: &Budget) -> Vec<Spec> {
    let spec = |&design: &&str| Spec::new("empty", empty_on(design, budget));
    EMPTY.iter().map(spec).collect()
}

fn empty(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for design in EMPTY {
        let command = empty_on(design, budget);
        let rates = each(laps.of(&command), |lap| lap.rate());
        sheet.row(format!("empty/{design}"), rates).command(&command);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, judged};
    use crate::lap;

    #[test]
    fn a_full_run_has_every_row_and_a_quick_one_every_row_with_a_mark() {
        sample::assert_rows("dudetm", invented, |_, mark| mark.is_none());
    }

    /// A thousand transactions of a command: how long they take says which one it is.
    fn invented(command: &str) -> lap::Lap {
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
        // Two are not twice as fast.
        let us = if has("--threads 2") { us * 3 / 4 } else { us };
        let p50 = us * if has("--group 100") { 50 } else { 7 };
        lap::Lap {
            durable_seconds: 1e-6 * us as f64,
            workers_cpu_ns: 400_000,
            cpu_ns: 600_000,
            delay_ns: 100_000,
            durable_ns: crate::report::Quantiles { p50: Some(p50), ..lap::SAMPLE.durable_ns },
            ..lap::SAMPLE
        }
    }

    #[test]
    fn what_holds_follows_from_marks_and_laps_alone() {
        let results = judged("dudetm", false, invented);
        let held = |id: &str, name: &str| sample::held(&results, id, name);
        // 125 ns of `decoupled` and 100 of `volatile`, at 16 GB/s; three times as much at 1.
        assert_eq!(held("D1", "added/hashtable"), (Some(25.0), Some(true)));
        assert_eq!(held("D1", "two/added/hashtable"), (Some(36.0), None));
        assert_eq!(held("D1", "behind-by-front/btree"), (Some(0.25), Some(true)));
        assert_eq!(held("D1", "ratio/btree/16").0, Some(0.8));
        assert_eq!(held("D1", "ratio/btree/1").0, Some(0.267));
        assert_eq!(held("D1", "sync/btree/16").0, Some(0.2));
        assert_eq!(held("D1", "sync-slow/btree/16").0, Some(0.1));
        assert_eq!(held("D2", "inf/btree/16"), (Some(0.96), Some(false)));
        assert_eq!(held("D4", "undo/btree"), (Some(8.0), Some(true)));
        assert_eq!(held("D4", "redo/btree"), (Some(6.4), Some(true)));
        assert_eq!(held("D4", "sync-redo/tpcc-hash").0, Some(1.6));
        assert_eq!(held("D4", "libpmemobj/hashtable"), (None, None));
        // Of `decoupled` 7 * 375 ns, of `decoupled-sync` 7 * 1500.
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
