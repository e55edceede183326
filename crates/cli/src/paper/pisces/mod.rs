//! Pisces' evaluation (section 5 of the paper). Names and marks are in `papers/pisces.toml`.

mod applications;
mod latency;
mod rates;
mod switches;

use super::laps::{Lap, Spec};
use super::sheet::{each, middle};
use super::{Budget, Recipe};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::laps("P1", rates::plan_chains, rates::chains),
    Recipe::laps("P2", rates::plan_tree, rates::tree),
    Recipe::laps("P3", rates::plan_tpcc, rates::tpcc),
    Recipe::laps("P4", rates::plan_tatp, rates::tatp),
    Recipe::laps("P5", applications::plan, applications::judge),
    Recipe::laps("P6", switches::plan_gains, switches::gains),
    Recipe::laps("P7", latency::plan_reads, latency::reads),
    Recipe::laps("P8", latency::plan_flat, latency::flat),
    Recipe::laps("P9", latency::plan_grace, latency::grace),
    Recipe::laps("P10", switches::plan_costs, switches::costs),
];

/// What all laps run on that keep anything.
const MEDIUM: &str = " --medium emulated --latency-ns 300 --bandwidth-gbps 2";

/// Designs that keep nothing: they have no medium.
const IN_MEMORY: [&str; 2] = ["mvcc", "plain"];

/// Workers of rows, and the word that their names have for so many; charts go on from there by
/// [`Budget::crews`].
const CREWS: [(u32, &str); 2] = [(1, "one"), (2, "two")];

/// Percent of transactions that write, in what is run with all of them.
const UPDATES: [u32; 4] = [0, 2, 20, 40];

/// What a lap runs.
#[derive(Clone)]
struct Work {
    workload: &'static str,
    /// Further arguments, each behind a space.
    more: String,
    /// Of one worker: some tenths of a second.
    transactions: u64,
}

impl Work {
    fn new(workload: &'static str, transactions: u64) -> Work {
        Work { workload, more: String::new(), transactions }
    }

    /// Searches, and so many updates of 100.
    fn with_updates(workload: &'static str, updates: u32) -> Work {
        let few = if workload == "btree-16" { 300_000 } else { 500_000 };
        let transactions = if updates > 2 { few } else { 2 * few };
        Work { more: format!(" --update-percent {updates}"), ..Work::new(workload, transactions) }
    }

    /// New Order, with a warehouse for each worker.
    fn tpcc(workers: u32) -> Work {
        let more = format!(" --low-conflict --scale {workers}");
        Work { more, ..Work::new("tpcc-btree-32", 20_000) }
    }

    /// The command of a lap.
    fn on(&self, design: &str, workers: u32, budget: &Budget) -> String {
        let Work { workload, more, transactions } = self;
        let transactions = u64::from(workers) * transactions / if budget.quick { 2 } else { 1 };
        let medium = if IN_MEMORY.contains(&design) { "" } else { MEDIUM };
        format!(
            "{workload}{more} --design {design} --threads {workers} --transactions {transactions}\
             {medium}"
        )
    }

    fn spec(&self, design: &str, workers: u32, budget: &Budget) -> Spec {
        Spec::new(self.workload, self.on(design, workers, budget))
    }
}

/// Those without a mark, which a quick run makes once, and the others as rarely as this says.
fn seldom(specs: impl IntoIterator<Item = Spec>, most: u64, budget: &Budget) -> Vec<Spec> {
    let rounds = if budget.quick { 1 } else { most };
    specs.into_iter().map(|spec| Spec { rounds: rounds.min(spec.rounds), ..spec }).collect()
}

/// As many rounds as there are.
const ALL_ROUNDS: u64 = u64::MAX;

/// CPU time of a transaction, in words.
fn cpu(design: &str, laps: &[Lap]) -> String {
    let [front, behind, delay] = [
        middle(each(laps, Lap::front)),
        middle(each(laps, Lap::behind)),
        middle(each(laps, |lap| lap.each(lap.delay_ns))),
    ];
    format!("`{design}` {front:.0} in front, {behind:.0} behind, up to {delay:.0} for the medium")
}

/// Cycles of the counter that a worker took for a transaction.
fn cycles(lap: &Lap) -> f64 {
    let ns = 1e9 * lap.seconds * lap.workers as f64 / lap.count();
    ns * medium::cpu::cycles_per_second() as f64 / 1e9
}

#[cfg(test)]
mod tests;
