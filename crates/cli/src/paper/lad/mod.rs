//! LAD's evaluation (section 6 of the paper), simulated. Names and marks are in `papers/lad.toml`.
//!
//! A row is made of simulations of six workloads on a design and on `volatile`, all on the machine
//! of table 3, or on one that differs from it in what the row is about.

mod accesses;
mod phases;
mod throughput;

use sim::report::Outcome;
use sim::sweep::Asked;

use super::rows::{Uses, geomean};
use super::{Budget, Recipe, cuts};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::sims("L1", throughput::one_socket),
    Recipe::sims("L2", throughput::two_sockets),
    Recipe::sims("L3", throughput::first_ack),
    Recipe::sims("L4", throughput::each),
    Recipe::sims("L5", phases::prepare),
    Recipe::sims("L6", phases::commit),
    Recipe::sims("L7", throughput::total),
    Recipe::sims("L8", phases::early_flush),
    Recipe::sims("L9", accesses::accesses),
    Recipe::sims("L10", accesses::queue),
    Recipe::sims("L11", throughput::extremes),
    Recipe::sims("L12", throughput::memory),
    Recipe::sims("L13", throughput::logging),
    Recipe::sims("C1", cuts::lad).only_when_named(),
    Recipe::sims("C2", cuts::planted),
    Recipe::sims("C3", cuts::lad_isolated).only_when_named(),
    Recipe::sims("C4", cuts::lad_equal),
];

/// The paper's six: TATP, RBT, CQ, PC, SPS, TPCC.
const WORKLOADS: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-rows"];

/// What nothing is made durable by: all else is beside it.
const VOLATILE: &str = "volatile";

/// The designs of table 4.
const DURABLE: [&str; 4] = ["lad-llc", "lad-base", "lad", "sw-undo"];

/// What the machine differs in from that of table 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    OneSocket,
    /// Half of the controllers answer 50 ns later.
    TwoSockets,
    /// Controllers with so many entries.
    Queue(u32),
    /// Memory that takes 60 and 150 ns.
    Nvm,
    /// The core on this tile runs, the others stand still.
    Alone(u32),
}

/// Entries of a queue on the machine of table 3.
const QUEUE: u32 = 64;

/// Cores that run transactions.
const CORES: u32 = 15;

/// What is simulated. A quick run's data and last cache are an eighth of the paper's, and it
/// measures fewer transactions.
fn asked(workload: &str, design: &str, on: On, budget: &Budget) -> Asked {
    // New Order takes some fifty times as long as the others.
    let transactions = if workload == "tpcc-rows" { 2000 } else { 20_000 };
    let scale = match workload {
        // A million subscribers.
        "tatp-hash" => 10.0,
        // A warehouse for each core, each with its share of one's rows.
        "tpcc-rows" => 0.9,
        _ => 1.0,
    };
    let mut asked = Asked {
        machine: Some("lad".into()),
        transactions: transactions / if budget.quick { 4 } else { 1 },
        seed: budget.seed,
        scale,
        ..Asked::new(workload, design)
    };
    if budget.quick {
        asked = Asked { scale: scale / 8.0, ..asked.with("llc.bytes", 1 << 20) };
    }
    match on {
        On::OneSocket | On::Queue(QUEUE) => asked,
        On::TwoSockets => asked.with("mc.remote_ns", 50),
        On::Queue(entries) => asked.with("mc.wq", entries),
        On::Nvm => {
            let asked = asked.with("nvm.read_hit_ns", 15).with("nvm.read_miss_ns", 60);
            asked.with("nvm.write_ns", 150)
        }
        // A fifteenth: each core has its share of what all of them run.
        On::Alone(tile) => {
            let transactions = asked.transactions / u64::from(CORES);
            Asked { cores: Some(1), transactions, ..asked.with("network.first", tile) }
        }
    }
}

impl On {
    fn of<'a>(self, uses: &Uses<'a>, workload: &str, design: &str) -> Option<&'a Outcome> {
        uses.of(asked(workload, design, self, uses.budget))
    }

    fn cycles(self, uses: &Uses<'_>, workload: &str, design: &str) -> Option<f64> {
        Some(self.of(uses, workload, design)?.cycles_per_transaction.total)
    }

    /// Throughput beside that of `volatile` on the same machine.
    fn relative(self, uses: &Uses<'_>, workload: &str, design: &str) -> Option<f64> {
        let ours = self.cycles(uses, workload, design)?;
        Some(self.cycles(uses, workload, VOLATILE)? / ours)
    }

    /// The same of all six.
    fn relative_of_six(self, uses: &Uses<'_>, design: &str) -> Option<f64> {
        geomean(WORKLOADS.map(|workload| self.relative(uses, workload, design)))
    }
}

#[cfg(test)]
mod tests;
