//! Recipes for Pisces' evaluation (section 5 of the paper).
//!
//! `targets/pisces.toml` has the names of the rows and their targets. The design `snapshot` is
//! Pisces, `decoupled` is DudeTM, and `mvcc` is the strawman with lists of versions.

mod applications;
mod latency;
mod rates;
mod switches;

use crate::budget::Budget;
use crate::recipe::Recipe;
use crate::sheet::{each, middle};
use crate::trial::Trial;
use crate::trials::Spec;

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::trials("P1", rates::plan_chains, rates::chains),
    Recipe::trials("P2", rates::plan_tree, rates::tree),
    Recipe::trials("P3", rates::plan_tpcc, rates::tpcc),
    Recipe::trials("P4", rates::plan_tatp, rates::tatp),
    Recipe::trials("P5", applications::plan, applications::judge),
    Recipe::trials("P6", switches::plan_gains, switches::gains),
    Recipe::trials("P7", latency::plan_reads, latency::reads),
    Recipe::trials("P8", latency::plan_flat, latency::flat),
    Recipe::trials("P9", latency::plan_grace, latency::grace),
    Recipe::trials("P10", switches::plan_costs, switches::costs),
];

/// Medium of the durable designs.
const MEDIUM: &str = " --medium emulated --latency-ns 300 --bandwidth-gbps 2";

/// Volatile designs, which have no medium.
const IN_MEMORY: [&str; 2] = ["mvcc", "plain"];

/// Numbers of workers in rows, each with its word in their names. Charts continue with
/// [`Budget::crews`].
const CREWS: [(u32, &str); 2] = [(1, "one"), (2, "two")];

/// Shares of update transactions, in percent.
const UPDATES: [u32; 4] = [0, 2, 20, 40];

/// Workload of a trial.
#[derive(Clone)]
struct Work {
    workload: &'static str,
    /// Further arguments, each after a space.
    more: String,
    /// For one worker: some tenths of a second.
    transactions: u64,
}

impl Work {
    fn new(workload: &'static str, transactions: u64) -> Work {
        Work { workload, more: String::new(), transactions }
    }

    /// Returns searches with `updates` percent of updates.
    fn with_updates(workload: &'static str, updates: u32) -> Work {
        let few = if workload == "btree-16" { 300_000 } else { 500_000 };
        let transactions = if updates > 2 { few } else { 2 * few };
        Work { more: format!(" --update-percent {updates}"), ..Work::new(workload, transactions) }
    }

    /// Returns New Order with a warehouse for each worker.
    fn tpcc(workers: u32) -> Work {
        let more = format!(" --low-conflict --scale {workers}");
        Work { more, ..Work::new("tpcc-btree-32", 20_000) }
    }

    /// Returns the command of a trial.
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

/// Limits the rounds of specs without a target: to one in a quick run, else to `most`.
fn seldom(specs: impl IntoIterator<Item = Spec>, most: u64, budget: &Budget) -> Vec<Spec> {
    let rounds = if budget.quick { 1 } else { most };
    specs.into_iter().map(|spec| Spec { rounds: rounds.min(spec.rounds), ..spec }).collect()
}

/// No limit of rounds.
const ALL_ROUNDS: u64 = u64::MAX;

/// Returns the CPU time of a transaction as text.
fn cpu(design: &str, trials: &[Trial]) -> String {
    let [foreground, background, delay] = [
        middle(each(trials, Trial::foreground_ns)),
        middle(each(trials, Trial::background_ns)),
        middle(each(trials, |trial| trial.each(trial.delay_ns))),
    ];
    format!(
        "`{design}` {foreground:.0} foreground, {background:.0} background, up to {delay:.0} for \
         the medium"
    )
}

/// Returns the time of a transaction on its worker, in cycles of the time-stamp counter.
fn cycles(trial: &Trial) -> f64 {
    let ns = 1e9 * trial.seconds * trial.workers as f64 / trial.count();
    ns * medium::cpu::cycles_per_second() as f64 / 1e9
}

#[cfg(test)]
mod tests;
