//! Recipes for SSP's evaluation (section 5 of the paper), simulated.
//!
//! `targets/ssp.toml` has the names of the rows and their targets. A row compares simulations of
//! seven micro-benchmarks or two applications on SSP and on two logging designs. All run on the
//! machine of table 2, with the change that the row examines.

mod latency;
mod throughput;
mod writes;

use std::fmt::Display;

use sim::report::Outcome;
use sim::sweep::Asked;

use crate::budget::Budget;
use crate::cuts;
use crate::recipe::Recipe;
use crate::rows::{Uses, geomean};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::simulations("S1", throughput::one_thread),
    Recipe::simulations("S2", throughput::four_threads),
    Recipe::simulations("S3", writes::logging),
    Recipe::simulations("S4", writes::all),
    Recipe::simulations("S5", writes::locality),
    Recipe::simulations("S6", writes::breakdown),
    Recipe::simulations("S7", latency::memory),
    Recipe::simulations("S8", latency::metadata),
    Recipe::simulations("S9", throughput::applications),
    Recipe::simulations("S10", writes::applications),
    Recipe::simulations("S11", writes::logging_of_applications),
    Recipe::simulations("S12", writes::sets),
    Recipe::simulations("S13", writes::fallbacks),
    Recipe::simulations("S14", latency::choices),
    Recipe::simulations("C1", cuts::ssp).only_when_named(),
    Recipe::simulations("C2", cuts::injected),
    Recipe::simulations("C3", cuts::ssp_isolated).only_when_named(),
    Recipe::simulations("C4", cuts::ssp_equal),
];

/// The designs that SSP is compared with, and SSP.
const LOGS: [&str; 2] = ["ssp-undo", "ssp-redo"];
const SSP: &str = "ssp";
const ALL: [&str; 3] = ["ssp-undo", "ssp-redo", SSP];

/// Workloads of table 3: four with uniform keys, three with 80 % of updates on 15 % of the keys,
/// and two applications.
const RANDOM: [&str; 4] = ["rbtree", "bptree", "hash", "sps-1"];
const ZIPF: [&str; 3] = ["rbtree-zipf", "bptree-zipf", "hash-zipf"];
const MICRO: [&str; 7] =
    ["rbtree", "bptree", "hash", "sps-1", "rbtree-zipf", "bptree-zipf", "hash-zipf"];
const SPS: &str = "sps-1";
const REAL: [&str; 2] = ["memcached", "vacation"];

/// Measured transactions of each thread. With a journal line each they fill about ten checkpoints
/// of 64 KiB. Where two share a line, a simulation measures two or three times as many, up to ten
/// checkpoints.
const EACH: u64 = 12_000;

/// Divisor in a quick run: data, caches, logs and transactions.
const QUICK: u64 = 8;

/// Sizes in bytes that a quick run divides, unless a row sets them.
const SHRINKING: [(&str, u64); 4] = [
    ("llc.bytes", 12 << 20),
    ("l2.bytes", 256 << 10),
    ("design.ssp.journal_bytes", 64 << 10),
    ("design.ssp-redo.log_bytes", 128 << 10),
];

/// The machine and its running cores.
#[derive(Clone, Debug)]
struct On {
    cores: u64,
    /// The cores work on one structure.
    shared: bool,
    /// Millions of keys of trees and hash tables. The paper gives no number, and nothing in its
    /// tables excludes the usual million.
    keys: f64,
    settings: Vec<(&'static str, String)>,
}

/// Returns the machine of table 2 with `cores` threads.
const fn threads(cores: u64) -> On {
    On { cores, shared: false, keys: 1.0, settings: Vec::new() }
}

const ONE: On = threads(1);
const FOUR: On = threads(4);

impl On {
    /// Returns the machine with one setting changed.
    fn with(mut self, key: &'static str, value: impl Display) -> On {
        self.settings.push((key, value.to_string()));
        self
    }

    fn asked(&self, workload: &str, design: &str, budget: &Budget) -> Asked {
        let has_keys = MICRO.contains(&workload) && workload != SPS;
        let asked = Asked {
            machine: Some(SSP.into()),
            cores: Some(self.cores as usize),
            transactions: self.cores * EACH,
            seed: budget.seed,
            shared: self.shared,
            scale: if has_keys { self.keys } else { 1.0 },
            ..Asked::new(workload, design)
        };
        let settings = self.settings.iter();
        let mut asked = settings.fold(asked, |asked, (key, value)| asked.with(key, value));
        if budget.quick {
            asked.transactions /= QUICK;
            asked.scale /= QUICK as f64;
            for &(key, usual) in &SHRINKING {
                let bytes = asked.value(key).and_then(|bytes| bytes.parse().ok()).unwrap_or(usual);
                asked = asked.with(key, bytes / QUICK);
            }
        }
        asked
    }

    fn of<'a>(&self, uses: &Uses<'a>, workload: &str, design: &str) -> Option<&'a Outcome> {
        uses.of(self.asked(workload, design, uses.budget))
    }

    /// Returns the cycles of a transaction.
    fn cycles(&self, uses: &Uses<'_>, workload: &str, design: &str) -> Option<f64> {
        Some(self.of(uses, workload, design)?.cycles_per_transaction.total)
    }

    /// Returns the throughput of SSP by that of a logging design.
    fn speedup(&self, uses: &Uses<'_>, workload: &str, log: &str) -> Option<f64> {
        Some(self.cycles(uses, workload, log)? / self.cycles(uses, workload, SSP)?)
    }

    /// Returns the geometric mean of that ratio over workloads.
    fn speedups(&self, uses: &Uses<'_>, workloads: &[&str], log: &str) -> Option<f64> {
        geomean(workloads.iter().map(|workload| self.speedup(uses, workload, log)))
    }
}

#[cfg(test)]
mod tests;
