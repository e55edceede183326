//! R8 and R10: cost and gain of the DRAM cache for reads (figures 12 and 14; sections V-D and V-F).

use sim::report::Outcome;
use sim::sweep::Asked;

use super::logs::count;
use super::{Case, Data, QUICK, REDU, STORES, TABLE_II};
use crate::rows::{Rows, Uses, mean, most, percent_above, percent_below};
use crate::sheet::linear;

/// Counter of reads that hit in the DRAM cache.
const CACHE_READS: &str = "dram_read_hits";

/// Factor of measured transactions: read-only ones are shorter.
const MORE: u64 = 2;

fn gets(uses: &Uses<'_>, case: Case, design: &str, filter: bool) -> Option<f64> {
    let asked = case.asked(design, &TABLE_II, uses.budget);
    let asked = Asked { update_percent: Some(0), transactions: MORE * asked.transactions, ..asked };
    let asked = if filter { asked } else { asked.with("design.redu.filter", 0) };
    Some(uses.of(asked)?.cycles_per_transaction.total)
}

/// R8: gets only. Cycles of ReDU above those of Undo in percent, with its filter and without.
pub(super) fn get_only(rows: &mut Rows<'_>) {
    for (set, data) in [("large", Data::Large(1)), ("random", Data::Random(16))] {
        let more = |uses: &Uses<'_>, workload, filter| {
            let case = Case { workload, data };
            let undo = gets(uses, case, "hw-undo", true)?;
            Some(percent_above(gets(uses, case, REDU, filter)? / undo))
        };
        for (name, filter) in [("filter", true), ("none", false)] {
            for workload in STORES {
                let name = format!("{set}/{name}/{workload}");
                rows.row(name, |uses| more(uses, workload, filter));
            }
        }
        rows.row(format!("{set}/most"), |uses| {
            // Echo's gets write.
            let others = STORES.into_iter().filter(|workload| *workload != "echo");
            most(others.map(|workload| more(uses, workload, true).map(f64::abs)))
        });
    }
}

/// Sizes of the DRAM cache, in MiB.
const CACHES: [u64; 3] = [32, 16, 8];

/// Four copies have 128 MB of objects, of which the largest cache holds a quarter.
const SCALE: f64 = 0.32;

/// Size of the log in MiB, large enough that log space never forces a line out of a cache of 32
/// MiB. A line that is overwritten there keeps the records of all versions since its last
/// write-back.
const LOG: u64 = 1024;

/// Policy of writing lines back from the DRAM cache, and of looking them up.
#[derive(Clone, Copy, Debug)]
enum Policy {
    /// Writes a line back as soon as it is committed; with a filter.
    Eager,
    /// Writes back the least recently used line when the cache is full.
    Lru { filter: bool },
    /// Least recently used with a filter, and 15-bit transaction identifiers as in the paper.
    FewIds,
}

/// Number of 15-bit transaction identifiers; 0 identifies none.
const FEW_IDS: u64 = (1 << 15) - 1;

/// Returns half gets and half puts on a Zipf distribution, with a cache of `mib` MiB.
fn mixed<'a>(
    uses: &Uses<'a>,
    workload: &'static str,
    policy: Policy,
    mib: u64,
) -> Option<&'a Outcome> {
    let quick = if uses.budget.quick { QUICK } else { 1 };
    let case = Case { workload, data: Data::Large(1) };
    let asked = case.asked(REDU, &TABLE_II, uses.budget);
    let scale = SCALE / quick as f64;
    let asked = Asked {
        scale,
        update_percent: Some(50),
        zipf: Some(0.8),
        // Measurement begins with a full cache, and writes as many lines as the cache holds.
        transactions: MORE * asked.transactions,
        ..asked
    };
    let asked = asked.with("design.redu.dram_cache_bytes", (mib << 20) / quick);
    let asked = asked.with("design.log.bytes", (LOG << 20) / quick);
    uses.of(match policy {
        Policy::Eager => asked,
        Policy::Lru { filter } => {
            let asked = asked.with("design.redu.write_back", 1);
            if filter { asked } else { asked.with("design.redu.filter", 0) }
        }
        Policy::FewIds => {
            asked.with("design.redu.write_back", 1).with("design.log.names", FEW_IDS / quick)
        }
    })
}

/// Returns the cycles that a policy saves, in percent of the eager one's with 32 MiB.
fn gain(uses: &Uses<'_>, workload: &'static str, policy: Policy, mib: u64) -> Option<f64> {
    let eager = mixed(uses, workload, Policy::Eager, CACHES[0])?;
    let cycles = |outcome: &Outcome| outcome.cycles_per_transaction.total;
    Some(percent_below(cycles(mixed(uses, workload, policy, mib)?) / cycles(eager)))
}

/// Returns the hit rate of the DRAM cache for reads of persistent memory, in percent.
fn hit_rate(outcome: &Outcome) -> f64 {
    let hits = count(outcome, CACHE_READS);
    100.0 * hits / (hits + outcome.nvm_reads as f64)
}

/// R10: lines stay in the DRAM cache until it is full.
pub(super) fn least_recently_used(rows: &mut Rows<'_>) {
    let policies =
        [("filter", Policy::Lru { filter: true }), ("none", Policy::Lru { filter: false })];
    let mut curves = Vec::new();
    for (name, policy) in policies {
        for workload in STORES {
            let mut points = Vec::new();
            for mib in CACHES {
                let gain = rows.row(format!("gain/{name}/{mib}/{workload}"), |uses| {
                    gain(uses, workload, policy, mib)
                });
                points.insert(0, (mib as f64, gain));
            }
            if name == "filter" {
                curves.push((workload.to_owned(), points));
            }
        }
        for mib in CACHES {
            rows.row(format!("gain/{name}/{mib}/mean"), |uses| {
                mean(STORES.map(|workload| gain(uses, workload, policy, mib)))
            });
        }
    }
    let lru = Policy::Lru { filter: true };
    rows.row("better", |uses| {
        let gains = STORES.map(|workload| gain(uses, workload, lru, CACHES[0]));
        let gains: Vec<f64> = gains.into_iter().collect::<Option<_>>()?;
        Some(gains.into_iter().filter(|gain| *gain > 0.0).count() as f64)
    });
    rows.row("best", |uses| most(STORES.map(|workload| gain(uses, workload, lru, CACHES[0]))));
    for pair in CACHES.windows(2) {
        rows.row(format!("grows/{}", pair[0]), |uses| {
            let mean = |mib| mean(STORES.map(|workload| gain(uses, workload, lru, mib)));
            Some(mean(pair[0])? - mean(pair[1])?)
        });
    }
    rows.row("hit-rate/mean", |uses| {
        mean(STORES.map(|of| mixed(uses, of, lru, CACHES[0]).map(hit_rate)))
    });
    for workload in STORES {
        rows.row(format!("hit-rate/{workload}"), |uses| {
            mixed(uses, workload, lru, CACHES[0]).map(hit_rate)
        });
    }
    for mib in CACHES {
        rows.row(format!("ids-15/gain/{mib}"), |uses| {
            mean(STORES.map(|workload| gain(uses, workload, Policy::FewIds, mib)))
        });
    }
    rows.row("ids-15/hit-rate", |uses| {
        mean(STORES.map(|of| mixed(uses, of, Policy::FewIds, CACHES[0]).map(hit_rate)))
    });
    let title = "Cycles that the least recently used policy saves, with a filter";
    let axes = (linear("MiB of DRAM cache"), linear("% of eager's"));
    rows.figure("lru", title, axes, curves);
}
