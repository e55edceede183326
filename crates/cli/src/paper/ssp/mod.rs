//! SSP's evaluation (section 5 of the paper), simulated. Names and marks are in `papers/ssp.toml`.
//!
//! A row is made of simulations of seven micro-benchmarks, or two applications, on SSP and on the
//! two designs with a log that it is compared with, all on the machine of table 2, or on one that
//! differs from it in what the row is about.

mod latency;
mod throughput;
mod writes;

use std::fmt::Display;

use sim::report::Outcome;
use sim::sweep::Asked;

use super::rows::{Uses, geomean};
use super::{Budget, Recipe, cuts};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::sims("S1", throughput::one_thread),
    Recipe::sims("S2", throughput::four_threads),
    Recipe::sims("S3", writes::logging),
    Recipe::sims("S4", writes::all),
    Recipe::sims("S5", writes::locality),
    Recipe::sims("S6", writes::breakdown),
    Recipe::sims("S7", latency::memory),
    Recipe::sims("S8", latency::metadata),
    Recipe::sims("S9", throughput::applications),
    Recipe::sims("S10", writes::applications),
    Recipe::sims("S11", writes::logging_of_applications),
    Recipe::sims("S12", writes::sets),
    Recipe::sims("S13", writes::fallbacks),
    Recipe::sims("S14", latency::choices),
    Recipe::sims("C1", cuts::ssp).only_when_named(),
    Recipe::sims("C2", cuts::planted),
    Recipe::sims("C3", cuts::ssp_isolated).only_when_named(),
    Recipe::sims("C4", cuts::ssp_equal),
];

/// What SSP is compared with, and SSP.
const LOGS: [&str; 2] = ["ssp-undo", "ssp-redo"];
const SSP: &str = "ssp";
const ALL: [&str; 3] = ["ssp-undo", "ssp-redo", SSP];

/// Table 3: four whose keys are drawn evenly, three with 80 % of updates on 15 % of the keys, and
/// two applications.
const RANDOM: [&str; 4] = ["rbtree", "bptree", "hash", "sps-1"];
const ZIPF: [&str; 3] = ["rbtree-zipf", "bptree-zipf", "hash-zipf"];
const MICRO: [&str; 7] =
    ["rbtree", "bptree", "hash", "sps-1", "rbtree-zipf", "bptree-zipf", "hash-zipf"];
const SPS: &str = "sps-1";
const REAL: [&str; 2] = ["memcached", "vacation"];

/// Transactions that are measured, of each thread. Where each writes a line of journal these are
/// some ten checkpoints of 64 KiB; where two share a line, a simulation measures two or three times
/// as many, until there are ten.
const EACH: u64 = 12_000;

/// Keys of the trees and hash tables, by the million that they have at scale 1: 8192. The paper
/// does not say how many; by its text (section 5.3) SPS and hash tables miss the TLB often and
/// trees do not, which holds up to here and not with twice as many (`tlb_misses` of `volatile`).
const KEYS: f64 = 8192.0 / 1e6;

/// What a quick run has less of: data that do not fit in caches, caches, logs and transactions.
const QUICK: u64 = 8;

/// Their bytes, unless a row says otherwise; caches first.
const CACHES: usize = 2;
const SHRINKING: [(&str, u64); 4] = [
    ("llc.bytes", 12 << 20),
    ("l2.bytes", 256 << 10),
    ("design.ssp.journal_bytes", 64 << 10),
    ("design.ssp-redo.log_bytes", 128 << 10),
];

/// The machine, and how many of its cores run.
#[derive(Clone, Debug)]
struct On {
    cores: u64,
    /// Whether they work on one structure.
    shared: bool,
    /// How many times as many keys trees and hash tables have.
    keys: f64,
    settings: Vec<(&'static str, String)>,
}

/// Table 2, with so many threads.
const fn threads(cores: u64) -> On {
    On { cores, shared: false, keys: 1.0, settings: Vec::new() }
}

const ONE: On = threads(1);
const FOUR: On = threads(4);

impl On {
    /// The same with a number changed.
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
            scale: if has_keys { KEYS * self.keys } else { 1.0 },
            ..Asked::new(workload, design)
        };
        let settings = self.settings.iter();
        let mut asked = settings.fold(asked, |asked, (key, value)| asked.with(key, value));
        if budget.quick {
            asked.transactions /= QUICK;
            asked.scale /= if has_keys { 1.0 } else { QUICK as f64 };
            // What fits in the caches anyway is not made smaller, and they are not.
            let shrinking = if has_keys { &SHRINKING[CACHES..] } else { &SHRINKING[..] };
            for &(key, usual) in shrinking {
                let bytes = asked.value(key).and_then(|bytes| bytes.parse().ok()).unwrap_or(usual);
                asked = asked.with(key, bytes / QUICK);
            }
        }
        asked
    }

    fn of<'a>(&self, uses: &Uses<'a>, workload: &str, design: &str) -> Option<&'a Outcome> {
        uses.of(self.asked(workload, design, uses.budget))
    }

    /// Cycles of a transaction.
    fn cycles(&self, uses: &Uses<'_>, workload: &str, design: &str) -> Option<f64> {
        Some(self.of(uses, workload, design)?.cycles_per_transaction.total)
    }

    /// SSP's throughput by that of a design with a log.
    fn speedup(&self, uses: &Uses<'_>, workload: &str, log: &str) -> Option<f64> {
        Some(self.cycles(uses, workload, log)? / self.cycles(uses, workload, SSP)?)
    }

    /// The same of many.
    fn speedups(&self, uses: &Uses<'_>, workloads: &[&str], log: &str) -> Option<f64> {
        geomean(workloads.iter().map(|workload| self.speedup(uses, workload, log)))
    }
}

#[cfg(test)]
mod tests;
