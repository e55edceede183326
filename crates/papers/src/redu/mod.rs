//! Recipes for ReDU's evaluation (section V of the paper), simulated.
//!
//! `targets/redu.toml` has the names of the rows and their targets. A row is computed from cases: a
//! workload and the data set that its transactions write. All designs run a case for equally many
//! transactions, on the machine of table II with the change that the row examines. Rows compare
//! cycles per transaction (CPT) as the ratio of the other design to ReDU. A *reduction* is the
//! share of these cycles that ReDU saves, in percent.

mod logs;
mod reads;
mod sensitivity;
mod throughput;

use std::fmt;

use sim::report::Outcome;
use sim::sweep::Asked;

use crate::budget::Budget;
use crate::cuts;
use crate::recipe::Recipe;
use crate::rows::{Uses, geomean};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::simulations("R1", throughput::large_objects),
    Recipe::simulations("R2", throughput::random_objects),
    Recipe::simulations("R3", throughput::all),
    Recipe::simulations("R4", throughput::order),
    Recipe::simulations("R5", logs::large),
    Recipe::simulations("R6", logs::random),
    Recipe::simulations("R7", logs::packing),
    Recipe::simulations("R8", reads::get_only),
    Recipe::simulations("R9", sensitivity::latency),
    Recipe::simulations("R10", reads::least_recently_used),
    Recipe::simulations("R11", throughput::software),
    Recipe::simulations("R12", sensitivity::choices),
    Recipe::simulations("C1", cuts::redu).only_when_named(),
    Recipe::simulations("C2", cuts::injected),
    Recipe::simulations("C3", cuts::redu_isolated).only_when_named(),
    Recipe::simulations("C4", cuts::redu_equal),
];

/// The designs that ReDU is compared with, and ReDU.
const BASELINES: [&str; 3] = ["hw-undo", "hw-redo", "hw-undo-redo"];
const REDU: &str = "redu";
const ALL: [&str; 4] = ["hw-undo", "hw-redo", "hw-undo-redo", REDU];

/// Workloads of table III. TPC-C has no data set to vary.
const MICRO: [&str; 2] = ["vector", "swap"];
const STORES: [&str; 5] = ["hashmap", "btreemap", "rbtreemap", "ycsb-put", "echo"];
const TPCC: &str = "tpcc-rows";

/// KiB of an object in the large sets, and objects of the random sets. A quick run has the middle
/// one.
const SIZES: [u64; 3] = [1, 4, 16];
const COUNTS: [u64; 3] = [4, 16, 64];
const MIDDLE: usize = 1;

/// Data lines that a program writes while it is measured. With as many log lines they take some 20
/// million cycles to write, four scan periods of FWB.
const LINES: u64 = 1 << 18;

/// Divisor of data, caches, periods and lines in a quick run.
const QUICK: u64 = 32;

/// All copies together have 64 MB of large objects, eight times the last-level cache. At scale 1
/// each has 100 MB.
const LARGE_SCALE: f64 = 0.64;

/// Data set that a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    /// A whole object of this many KiB.
    Large(u64),
    /// A word in each of this many objects.
    Random(u64),
    /// The workload's own writes, which count as a large set.
    Own,
}

/// A workload and its data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    workload: &'static str,
    data: Data,
}

impl Case {
    /// Returns the part of a row's name.
    fn name(self) -> String {
        let Case { workload, data } = self;
        match data {
            Data::Large(kib) => format!("{workload}/{kib}"),
            Data::Random(objects) => format!("{workload}/{objects}"),
            Data::Own => workload.to_owned(),
        }
    }

    /// Returns the number of copies: eight of a micro-benchmark, four of others (section V-A).
    fn cores(self) -> usize {
        if MICRO.contains(&self.workload) { 8 } else { 4 }
    }

    /// Returns the data lines that a transaction writes, or an equivalent of its run time.
    fn lines(self) -> u64 {
        match self.data {
            Data::Large(kib) => 16 * kib,
            Data::Random(objects) => objects,
            // Computation dominates TPC-C: counted by its run time.
            Data::Own => 64,
        }
    }

    fn asked(self, design: &str, on: &On, budget: &Budget) -> Asked {
        let (data, scale) = match self.data {
            Data::Large(kib) => {
                (Some(format!("large:{}", kib << 10)), LARGE_SCALE / self.cores() as f64)
            }
            Data::Random(objects) => (Some(format!("random:{objects}")), 1.0),
            // A warehouse for each copy.
            Data::Own => (None, 4.0),
        };
        let mut asked = Asked {
            machine: Some(REDU.into()),
            cores: Some(self.cores()),
            transactions: LINES / self.lines(),
            seed: budget.seed,
            scale,
            data,
            ..Asked::new(self.workload, design)
        };
        if budget.quick {
            asked.transactions /= QUICK;
            asked.scale /= QUICK as f64;
            asked =
                asked.with("llc.bytes", (8 << 20) / QUICK).with("l2.bytes", (256 << 10) / QUICK);
            // The L2 cache includes the L1 cache, which therefore shrinks too.
            asked = asked.with("l1.bytes", (32 << 10) / 8);
            asked = asked.with("design.redu.dram_cache_bytes", (32 << 20) / QUICK);
            asked = asked.with("design.hw-undo-redo.fwb_cycles", 5_000_000 / QUICK);
            asked = asked.with("design.log.bytes", (32 << 20) / QUICK);
        }
        on.0.iter().fold(asked, |asked, &(key, value)| asked.with(key, value))
    }
}

/// Returns the cases with large objects of one size, and TPC-C.
fn large_of(kib: u64) -> impl Iterator<Item = Case> {
    let all = MICRO.into_iter().chain(STORES);
    all.map(move |workload| Case { workload, data: Data::Large(kib) })
}

/// Returns the cases with random words in `objects` objects.
fn random_of(objects: u64) -> impl Iterator<Item = Case> {
    let all = MICRO.into_iter().chain(STORES);
    all.map(move |workload| Case { workload, data: Data::Random(objects) })
}

/// Returns the sizes of a set; in a quick run the middle one.
fn sizes(all: [u64; 3], budget: &Budget) -> Vec<u64> {
    if budget.quick { vec![all[MIDDLE]] } else { all.to_vec() }
}

/// Returns the cases of all large sets.
fn large(budget: &Budget) -> Vec<Case> {
    let tpcc = Case { workload: TPCC, data: Data::Own };
    sizes(SIZES, budget).into_iter().flat_map(large_of).chain([tpcc]).collect()
}

/// Returns the cases of all random sets.
fn random(budget: &Budget) -> Vec<Case> {
    sizes(COUNTS, budget).into_iter().flat_map(random_of).collect()
}

/// Settings that differ from table II, of the machine or of all designs.
#[derive(Clone, Debug, Default)]
struct On(Vec<(&'static str, Setting)>);

/// Value of a setting.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Number(u64),
    Word(&'static str),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Number(number) => number.fmt(f),
            Setting::Word(word) => word.fmt(f),
        }
    }
}

/// No difference.
const TABLE_II: On = On(Vec::new());

impl On {
    fn number(key: &'static str, number: u64) -> On {
        On(vec![(key, Setting::Number(number))])
    }

    fn of<'a>(&self, uses: &Uses<'a>, case: Case, design: &str) -> Option<&'a Outcome> {
        uses.of(case.asked(design, self, uses.budget))
    }

    /// Returns the cycles of a transaction.
    fn cycles(&self, uses: &Uses<'_>, case: Case, design: &str) -> Option<f64> {
        Some(self.of(uses, case, design)?.cycles_per_transaction.total)
    }

    /// Returns the cycles of a design by those of ReDU.
    fn by_redu(&self, uses: &Uses<'_>, case: Case, design: &str) -> Option<f64> {
        Some(self.cycles(uses, case, design)? / self.cycles(uses, case, REDU)?)
    }

    /// Returns the geometric mean of that ratio over cases.
    fn all_by_redu(&self, uses: &Uses<'_>, cases: &[Case], design: &str) -> Option<f64> {
        geomean(cases.iter().map(|case| self.by_redu(uses, *case, design)))
    }
}

#[cfg(test)]
mod tests;
