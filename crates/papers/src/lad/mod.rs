//! Recipes for LAD's evaluation (section 6 of the paper), simulated.
//!
//! `targets/lad.toml` has the names of the rows and their targets. A row compares simulations of
//! the six workloads on a design and on `volatile`. All run on the machine of table 3, with the
//! change that the row examines.

mod accesses;
mod phases;
mod throughput;

use sim::report::Outcome;
use sim::sweep::Asked;

use crate::budget::Budget;
use crate::cuts;
use crate::recipe::Recipe;
use crate::rows::{Uses, geomean};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::simulations("L1", throughput::one_socket),
    Recipe::simulations("L2", throughput::two_sockets),
    Recipe::simulations("L3", throughput::first_ack),
    Recipe::simulations("L4", throughput::each),
    Recipe::simulations("L5", phases::prepare),
    Recipe::simulations("L6", phases::commit),
    Recipe::simulations("L7", throughput::total),
    Recipe::simulations("L8", phases::early_flush),
    Recipe::simulations("L9", accesses::accesses),
    Recipe::simulations("L10", accesses::queue),
    Recipe::simulations("L11", throughput::extremes),
    Recipe::simulations("L12", throughput::memory),
    Recipe::simulations("L13", throughput::logging),
    Recipe::simulations("C1", cuts::lad).only_when_named(),
    Recipe::simulations("C2", cuts::injected),
    Recipe::simulations("C3", cuts::lad_isolated).only_when_named(),
    Recipe::simulations("C4", cuts::lad_equal),
];

/// The six workloads of the paper: TATP, RBT, CQ, PC, SPS, TPCC.
const WORKLOADS: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-rows"];

/// The design without durability, which all ratios refer to.
const VOLATILE: &str = "volatile";

/// The designs of table 4.
const DURABLE: [&str; 4] = ["lad-llc", "lad-base", "lad", "sw-undo"];

/// Difference of the machine from that of table 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    OneSocket,
    /// Half of the controllers respond 50 ns later.
    TwoSockets,
    /// Controllers with a queue of this many entries.
    Queue(u32),
    /// Memory with reads of 60 ns and writes of 150 ns.
    Nvm,
    /// Only the core on this tile runs.
    Alone(u32),
}

/// Entries of a queue on the machine of table 3.
const QUEUE: u32 = 64;

/// Cores that run transactions.
const CORES: u32 = 15;

/// Returns a simulation. In a quick run data and last-level cache are an eighth of the paper's, and
/// fewer transactions are measured.
fn asked(workload: &str, design: &str, on: On, budget: &Budget) -> Asked {
    // A New Order takes about fifty times as long as the other transactions.
    let transactions = if workload == "tpcc-rows" { 2000 } else { 20_000 };
    let scale = match workload {
        // A million subscribers.
        "tatp-hash" => 10.0,
        // A warehouse for each core, each with its share of a warehouse's rows.
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
        // A log of the full size would leave the small cache, as it does not leave the full one.
        let asked_small =
            asked.with("llc.bytes", 1 << 20).with("design.sw-undo.log_bytes", 16 << 10);
        asked = Asked { scale: scale / 8.0, ..asked_small };
    }
    match on {
        On::OneSocket | On::Queue(QUEUE) => asked,
        On::TwoSockets => asked.with("mc.remote_ns", 50),
        On::Queue(entries) => asked.with("mc.wq", entries),
        On::Nvm => {
            let asked = asked.with("nvm.read_hit_ns", 15).with("nvm.read_miss_ns", 60);
            // A write takes as long whatever row is open, keeps its bank, and needs no refresh.
            let asked = asked.with("nvm.write_hit_ns", 150).with("nvm.write_ns", 150);
            let asked = asked.with("nvm.write_keeps_bank", true).with("nvm.rc_ns", 60);
            asked.with("nvm.refi_ns", 0)
        }
        // A fifteenth: the core's share of a run on all cores.
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

    /// Returns the throughput by that of `volatile` on the same machine.
    fn relative(self, uses: &Uses<'_>, workload: &str, design: &str) -> Option<f64> {
        let ours = self.cycles(uses, workload, design)?;
        Some(self.cycles(uses, workload, VOLATILE)? / ours)
    }

    /// Returns the geometric mean of that ratio over the six workloads.
    fn relative_of_six(self, uses: &Uses<'_>, design: &str) -> Option<f64> {
        geomean(WORKLOADS.map(|workload| self.relative(uses, workload, design)))
    }
}

#[cfg(test)]
mod tests;
