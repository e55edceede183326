//! DudeTM's evaluation (section 5 of the paper). Names and marks are in `papers/dudetm.toml`.

mod combination;
mod latency;
mod paging;
mod scaling;
mod throughput;

use super::laps::{Laps, Spec};
use super::sheet::{Sheet, each};
use super::{Budget, Recipe};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe { id: "D1", plan: throughput::plan_bandwidth, judge: throughput::bandwidth },
    Recipe { id: "D2", plan: throughput::plan_unbounded, judge: throughput::unbounded },
    Recipe { id: "D3", plan: throughput::plan_writes, judge: throughput::writes },
    Recipe { id: "D4", plan: throughput::plan_logging, judge: throughput::logging },
    Recipe { id: "D5", plan: latency::plan, judge: latency::judge },
    Recipe { id: "D6", plan: combination::plan, judge: combination::judge },
    Recipe { id: "D7", plan: paging::plan, judge: paging::judge },
    Recipe { id: "D8", plan: scaling::plan, judge: scaling::judge },
    Recipe { id: "D9", plan: |_| Vec::new(), judge: hardware },
    Recipe { id: "D10", plan: plan_empty, judge: empty },
];

/// A benchmark, and transactions of a lap: half a second or so of `volatile`.
struct Benchmark {
    name: &'static str,
    transactions: u64,
}

/// The paper's six (section 5.1).
const BENCHMARKS: [Benchmark; 6] = [
    Benchmark { name: "hashtable", transactions: 1_200_000 },
    Benchmark { name: "tatp-hash", transactions: 1_500_000 },
    Benchmark { name: "btree", transactions: 400_000 },
    Benchmark { name: "tatp-btree", transactions: 600_000 },
    Benchmark { name: "tpcc-hash", transactions: 50_000 },
    Benchmark { name: "tpcc-btree", transactions: 16_000 },
];

impl Benchmark {
    /// The command of a lap on the emulated medium; designs that keep nothing have none.
    fn on(&self, design: &str, gbps: u32, cycles: u32, budget: &Budget) -> String {
        let Benchmark { name, transactions } = self;
        let transactions = if budget.quick { transactions / 3 } else { *transactions };
        let work = format!("{name} --design {design} --transactions {transactions}");
        match design {
            "volatile" => work,
            _ => {
                let costs = format!("--bandwidth-gbps {gbps} --latency-cycles {cycles}");
                format!("{work} --medium emulated {costs}")
            }
        }
    }
}

const HTM: [&str; 2] = ["volatile-htm", "decoupled-htm"];

/// D9 needs a CPU with hardware transactions, and a design that uses them.
fn hardware(_budget: &Budget, _laps: &Laps, sheet: &mut Sheet) {
    let why = match has_rtm() {
        false => "no RTM on this CPU",
        true => "this CPU has RTM, but there is no design that uses it yet",
    };
    for design in HTM {
        for workload in ["btree", "hashtable", "tatp-btree"] {
            sheet.none(format!("{design}/{workload}"), why);
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
    use super::super::marks::Paper;
    use super::*;
    use crate::lap;

    fn results(quick: bool) -> super::super::results::Results {
        let budget = Budget { quick, rounds: 3, seed: 1, peers: None };
        let plan: Vec<Spec> = RECIPES.iter().flat_map(|recipe| (recipe.plan)(&budget)).collect();
        let laps = Laps::all_like(plan, budget.rounds, lap::SAMPLE);
        let recipes: Vec<&Recipe> = RECIPES.iter().collect();
        let paper = Paper::by_name("dudetm").unwrap();
        super::super::judge(&paper, &recipes, &budget, &laps)
    }

    #[test]
    fn a_full_run_has_every_row_and_a_quick_one_every_row_with_a_mark() {
        let paper = Paper::by_name("dudetm").unwrap();
        let (full, quick) = (results(false), results(true));
        for experiment in &paper.experiment {
            for marked in experiment.rows() {
                let has = |results: &super::super::results::Results| {
                    let mut rows = results.rows.iter();
                    rows.any(|row| row.id == experiment.id && row.name == marked.name)
                };
                assert!(has(&full), "{} {}", experiment.id, marked.name);
                assert!(marked.mark.text().is_none() || has(&quick), "{}", marked.name);
            }
        }
    }

    #[test]
    fn what_holds_follows_from_marks_and_laps_alone() {
        let results = results(true);
        let held = |id: &str, name: &str| {
            let row = results.rows.iter().find(|row| row.id == id && row.name == name).unwrap();
            (row.ours.map(|ours| ours.median), row.held)
        };
        assert_eq!(held("D2", "inf/btree/16"), (Some(1.0), Some(true)));
        assert_eq!(held("D10", "empty/decoupled"), (Some(2000.0), Some(false)));
        assert_eq!(held("D6", "saved/10"), (Some(50.0), Some(false)));
        assert_eq!(held("D8", "decoupled/own"), (Some(1.0), Some(false)));
        assert_eq!(held("D5", "p50-by-sync"), (Some(1.0), Some(true)));
        assert_eq!(held("D9", "decoupled-htm/btree"), (None, None));
        assert_eq!(held("D4", "libpmemobj/hashtable"), (None, None));
        assert!(results.rows.iter().all(|row| row.held.is_some() || row.why.is_some()));
    }

    #[test]
    fn every_command_of_a_plan_can_be_run() {
        use crate::args::CommandLine;
        use clap::Parser;
        for quick in [false, true] {
            let budget = Budget { quick, rounds: 3, seed: 1, peers: None };
            for spec in RECIPES.iter().flat_map(|recipe| (recipe.plan)(&budget)) {
                for command in [Some(spec.command), spec.pool].into_iter().flatten() {
                    let words = ["lastword", "run"].into_iter().chain(command.split_whitespace());
                    CommandLine::try_parse_from(words).unwrap();
                }
            }
        }
    }
}
