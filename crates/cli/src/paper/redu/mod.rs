//! ReDU's evaluation (section V of the paper), simulated. Names and marks: `papers/redu.toml`.
//!
//! A row is made of cases: a workload with what its transactions write. All designs run every case
//! on the machine of table II, or on one that differs from it in what the row is about, for equally
//! many transactions. Cycles of a transaction (CPT) are compared as ratios, the other design's by
//! ReDU's; a *reduction* is what ReDU takes away of them, of 100.

mod logs;
mod reads;
mod sensitivity;
mod throughput;

use std::fmt;

use sim::report::Outcome;
use sim::sweep::Asked;

use super::rows::{Uses, geomean};
use super::{Budget, Recipe, cuts};

pub(super) const RECIPES: &[Recipe] = &[
    Recipe::sims("R1", throughput::large_objects),
    Recipe::sims("R2", throughput::random_objects),
    Recipe::sims("R3", throughput::all),
    Recipe::sims("R4", throughput::order),
    Recipe::sims("R5", logs::large),
    Recipe::sims("R6", logs::random),
    Recipe::sims("R7", logs::packing),
    Recipe::sims("R8", reads::get_only),
    Recipe::sims("R9", sensitivity::latency),
    Recipe::sims("R10", reads::least_recently_used),
    Recipe::sims("R11", throughput::software),
    Recipe::sims("R12", sensitivity::choices),
    Recipe::sims("C1", cuts::redu).only_when_named(),
    Recipe::sims("C2", cuts::planted),
    Recipe::sims("C3", cuts::redu_isolated).only_when_named(),
    Recipe::sims("C4", cuts::redu_equal),
];

/// What ReDU is compared with, and ReDU.
const BASELINES: [&str; 3] = ["hw-undo", "hw-redo", "hw-undo-redo"];
const REDU: &str = "redu";
const ALL: [&str; 4] = ["hw-undo", "hw-redo", "hw-undo-redo", REDU];

/// Table III, but for TPC-C, whose transactions are what they are.
const MICRO: [&str; 2] = ["vector", "swap"];
const STORES: [&str; 5] = ["hashmap", "btreemap", "rbtreemap", "ycsb-put", "echo"];
const TPCC: &str = "tpcc-rows";

/// Objects of the large sets, in KiB, and of the random ones; a quick run has one in the middle.
const SIZES: [u64; 3] = [1, 4, 16];
const COUNTS: [u64; 3] = [4, 16, 64];
const MIDDLE: usize = 1;

/// Lines of its data that a program writes while it is measured: with as many of log some 20
/// million cycles of writing, four of the periods in which FWB scans.
const LINES: u64 = 1 << 18;

/// What a quick run has less of: data, caches, periods and lines.
const QUICK: u64 = 32;

/// So that all copies together have 64 MB of large objects, eight times the last cache: at scale 1
/// each has 100 MB.
const LARGE_SCALE: f64 = 0.64;

/// What a transaction of a workload writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    /// An object of so many KiB, whole.
    Large(u64),
    /// A word in each of so many objects.
    Random(u64),
    /// What the workload writes anyway: a large set, too.
    Own,
}

/// A workload with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    workload: &'static str,
    data: Data,
}

impl Case {
    /// As in a row's name.
    fn name(self) -> String {
        let Case { workload, data } = self;
        match data {
            Data::Large(kib) => format!("{workload}/{kib}"),
            Data::Random(objects) => format!("{workload}/{objects}"),
            Data::Own => workload.to_owned(),
        }
    }

    /// Copies that run: eight of the micro-benchmarks, four of all others (section V-A).
    fn cores(self) -> usize {
        if MICRO.contains(&self.workload) { 8 } else { 4 }
    }

    /// Lines of data that a transaction writes, or as long as it takes.
    fn lines(self) -> u64 {
        match self.data {
            Data::Large(kib) => 16 * kib,
            Data::Random(objects) => objects,
            // TPC-C computes more than it writes.
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
            // The second cache has what the first one has.
            asked = asked.with("l1.bytes", (32 << 10) / 8);
            asked = asked.with("design.redu.dram_cache_bytes", (32 << 20) / QUICK);
            asked = asked.with("design.hw-undo-redo.fwb_cycles", 5_000_000 / QUICK);
            asked = asked.with("design.log.bytes", (32 << 20) / QUICK);
        }
        on.0.iter().fold(asked, |asked, &(key, value)| asked.with(key, value))
    }
}

/// The cases whose transactions write large objects, of this size, and TPC-C's.
fn large_of(kib: u64) -> impl Iterator<Item = Case> {
    let all = MICRO.into_iter().chain(STORES);
    all.map(move |workload| Case { workload, data: Data::Large(kib) })
}

/// Those that write words in so many objects.
fn random_of(objects: u64) -> impl Iterator<Item = Case> {
    let all = MICRO.into_iter().chain(STORES);
    all.map(move |workload| Case { workload, data: Data::Random(objects) })
}

/// All of a set's sizes; in a quick run the one in the middle.
fn sizes(all: [u64; 3], budget: &Budget) -> Vec<u64> {
    if budget.quick { vec![all[MIDDLE]] } else { all.to_vec() }
}

/// The large sets.
fn large(budget: &Budget) -> Vec<Case> {
    let tpcc = Case { workload: TPCC, data: Data::Own };
    sizes(SIZES, budget).into_iter().flat_map(large_of).chain([tpcc]).collect()
}

/// The random ones.
fn random(budget: &Budget) -> Vec<Case> {
    sizes(COUNTS, budget).into_iter().flat_map(random_of).collect()
}

/// What the machine, or all designs on it, differ in from table II.
#[derive(Clone, Debug, Default)]
struct On(Vec<(&'static str, Setting)>);

/// A number, or a word.
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

/// Nothing.
const TABLE_II: On = On(Vec::new());

impl On {
    fn number(key: &'static str, number: u64) -> On {
        On(vec![(key, Setting::Number(number))])
    }

    fn of<'a>(&self, uses: &Uses<'a>, case: Case, design: &str) -> Option<&'a Outcome> {
        uses.of(case.asked(design, self, uses.budget))
    }

    /// Cycles of a transaction.
    fn cycles(&self, uses: &Uses<'_>, case: Case, design: &str) -> Option<f64> {
        Some(self.of(uses, case, design)?.cycles_per_transaction.total)
    }

    /// Those of a design by ReDU's.
    fn by_redu(&self, uses: &Uses<'_>, case: Case, design: &str) -> Option<f64> {
        Some(self.cycles(uses, case, design)? / self.cycles(uses, case, REDU)?)
    }

    /// The same of many cases.
    fn all_by_redu(&self, uses: &Uses<'_>, cases: &[Case], design: &str) -> Option<f64> {
        geomean(cases.iter().map(|case| self.by_redu(uses, *case, design)))
    }
}

#[cfg(test)]
mod tests;
