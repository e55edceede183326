//! LAD's evaluation (section 6 of the paper), simulated. Names and marks are in `papers/lad.toml`.
//!
//! A row is made of simulations of six workloads on a design and on `volatile`, all on the machine
//! of table 3, or on one that differs from it in what the row is about.

mod accesses;
mod phases;
mod throughput;

use sim::report::Outcome;
use sim::sweep::Asked;

use super::sheet::Sheet;
use super::sims::Sims;
use super::{Budget, Recipe};
use crate::sim::sweep::command;

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::sims("L1", throughput::plan_one_socket, throughput::one_socket),
    Recipe::sims("L2", throughput::plan_two_sockets, throughput::two_sockets),
    Recipe::sims("L3", throughput::plan_first_ack, throughput::first_ack),
    Recipe::sims("L4", throughput::plan_each, throughput::each),
    Recipe::sims("L5", phases::plan_with_alone, phases::prepare),
    Recipe::sims("L6", phases::plan_with_alone, phases::commit),
    Recipe::sims("L7", throughput::plan_each, phases::total),
    Recipe::sims("L8", phases::plan, phases::early_flush),
    Recipe::sims("L9", accesses::plan, accesses::accesses),
    Recipe::sims("L10", accesses::plan_queue, accesses::queue),
    Recipe::sims("L11", throughput::plan_logging, throughput::extremes),
    Recipe::sims("L12", throughput::plan_memory, throughput::memory),
    Recipe::sims("L13", throughput::plan_logging, throughput::logging),
];

/// The paper's six: TATP, RBT, CQ, PC, SPS, TPCC.
const WORKLOADS: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-hash"];

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
    /// One core runs, the others stand still.
    Alone,
}

/// Entries of a queue on the machine of table 3.
const QUEUE: u32 = 64;

/// What is simulated. A quick run's data and last cache are an eighth of the paper's, and it
/// measures fewer transactions.
fn asked(workload: &str, design: &str, on: On, budget: &Budget) -> Asked {
    // New Order takes some fifty times as long as the others.
    let transactions = if workload == "tpcc-hash" { 2000 } else { 20_000 };
    let mut asked = Asked {
        machine: Some("lad".into()),
        transactions: transactions / if budget.quick { 4 } else { 1 },
        seed: budget.seed,
        ..Asked::new(workload, design)
    };
    if budget.quick {
        asked = Asked { scale: 0.125, ..asked.with("llc.bytes", 1 << 20) };
    }
    match on {
        On::OneSocket | On::Queue(QUEUE) => asked,
        On::TwoSockets => asked.with("mc.remote_ns", 50),
        On::Queue(entries) => asked.with("mc.wq", entries),
        On::Nvm => {
            let asked = asked.with("nvm.read_hit_ns", 15).with("nvm.read_miss_ns", 60);
            asked.with("nvm.write_ns", 150)
        }
        On::Alone => Asked { cores: Some(1), ..asked },
    }
}

/// All six workloads on these designs.
fn six(designs: &[&str], on: On, budget: &Budget) -> Vec<Asked> {
    let of = |design: &&str| WORKLOADS.map(|workload| asked(workload, design, on, budget));
    designs.iter().flat_map(of).collect()
}

/// What was found on one machine.
#[derive(Clone, Copy)]
struct Found<'a> {
    budget: &'a Budget,
    sims: &'a Sims,
    on: On,
}

impl<'a> Found<'a> {
    fn new(budget: &'a Budget, sims: &'a Sims, on: On) -> Found<'a> {
        Found { budget, sims, on }
    }

    fn asked(&self, workload: &str, design: &str) -> Asked {
        asked(workload, design, self.on, self.budget)
    }

    fn of(&self, workload: &str, design: &str) -> &'a Outcome {
        self.sims.of(&self.asked(workload, design))
    }

    /// Throughput beside that of `volatile` on the same machine.
    fn relative(&self, workload: &str, design: &str) -> f64 {
        let cycles = |design| self.of(workload, design).cycles_per_transaction.total;
        cycles(VOLATILE) / cycles(design)
    }

    /// The same of all six.
    fn relative_of_six(&self, design: &str) -> f64 {
        geomean(WORKLOADS.map(|workload| self.relative(workload, design)))
    }

    /// A row that is made of these workloads on these designs.
    fn row(&self, sheet: &mut Sheet, name: String, value: f64, of: (&[&str], &[&str])) {
        let (workloads, designs) = of;
        let mut unsteady = Vec::new();
        for workload in workloads {
            for design in designs.iter().filter(|design| !self.of(workload, design).steady) {
                unsteady.push(format!("{workload} on {design}"));
            }
        }
        let row = sheet.row(name, vec![value]);
        row.simulated(&command(&self.asked(workloads[0], designs[0])));
        if !unsteady.is_empty() {
            row.note(format!("Not steady: {}.", unsteady.join(", ")));
        }
    }
}

/// The geometric mean.
fn geomean<const N: usize>(values: [f64; N]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / N as f64).exp()
}

/// The arithmetic mean.
fn mean<const N: usize>(values: [f64; N]) -> f64 {
    values.iter().sum::<f64>() / N as f64
}

#[cfg(test)]
mod tests;
