//! R5 to R7: log size with coalesced and packed entries (table IV, figure 11; section V-C).
//!
//! The cases are those of each set's middle size.

use sim::report::Outcome;

use super::{ALL, BASELINES, COUNTS, Case, MIDDLE, On, REDU, SIZES, Setting, TABLE_II, TPCC};
use super::{Data, large_of, random_of};
use crate::rows::{Rows, Uses, geomean};

/// Counter of the bytes of log entries, before they fill lines.
const LOG_BYTES: &str = "log_bytes";

/// Returns the setting where each word has an entry with an address.
fn plain() -> On {
    let off = Setting::Number(0);
    On(vec![("design.log.coalesce", off), ("design.log.pack", off)])
}

/// Returns the setting where the words of a line share an entry.
fn coalesced() -> On {
    On::number("design.log.pack", 0)
}

/// Returns the setting where entries are packed, and each is written at once in lines of its own.
fn at_once() -> On {
    On::number("design.log.gather", 0)
}

/// Bytes of all cores' logs in a quick run. A log scaled down like the caches holds no transaction
/// of `swap` with a line for each word, nor an unpacked one of Undo+Redo: 126 of ReDU's 128
/// transactions fell back to software.
const QUICK_LOG: u64 = 4 << 20;

/// Returns a setting with a log that holds every transaction.
fn held(On(mut settings): On, quick: bool) -> On {
    if quick {
        settings.push(("design.log.bytes", Setting::Number(QUICK_LOG)));
    }
    On(settings)
}

pub(super) fn large_cases() -> Vec<Case> {
    large_of(SIZES[MIDDLE]).chain([Case { workload: TPCC, data: Data::Own }]).collect()
}

pub(super) fn random_cases() -> Vec<Case> {
    random_of(COUNTS[MIDDLE]).collect()
}

/// Returns the lines that a transaction writes to the log.
fn log_writes(outcome: &Outcome) -> f64 {
    let writes = &outcome.nvm_writes;
    let lines = writes.log_data + writes.log_meta + writes.commit_record;
    lines as f64 / outcome.transactions.max(1) as f64
}

/// Returns the bytes of a transaction's log entries.
fn log_bytes(outcome: &Outcome) -> f64 {
    count(outcome, LOG_BYTES) / outcome.transactions.max(1) as f64
}

/// Returns a counter of the design; NaN where the design has no such counter.
pub(super) fn count(outcome: &Outcome, name: &str) -> f64 {
    outcome.design_counts.get(name).map_or(f64::NAN, |count| *count as f64)
}

/// Fills table IV: ReDU's log with and without coalescing and packing.
fn table_iv(rows: &mut Rows<'_>, cases: &[Case]) {
    type Of = fn(&Outcome) -> f64;
    let quick = rows.budget.quick;
    let columns = [("coalesced", coalesced()), ("packed", TABLE_II), ("packed-at-once", at_once())];
    let columns = columns.map(|(name, on)| (name, held(on, quick)));
    let plain = held(plain(), quick);
    for (what, of) in [("writes", log_writes as Of), ("bytes", log_bytes as Of)] {
        for (name, on) in &columns {
            let ratio = |uses: &Uses<'_>, case: Case| {
                let [less, all] = [on, &plain].map(|on| on.of(uses, case, REDU).map(of));
                Some(less? / all?)
            };
            rows.row(format!("{what}/{name}"), |uses| {
                geomean(cases.iter().map(|case| ratio(uses, *case)))
            });
            for case in cases {
                let name = format!("{what}/{name}/{}", case.workload);
                rows.row(name, |uses| ratio(uses, *case));
            }
        }
    }
}

/// R5: logs of large objects.
pub(super) fn large(rows: &mut Rows<'_>) {
    table_iv(rows, &large_cases());
}

/// R6: logs of words in many objects.
pub(super) fn random(rows: &mut Rows<'_>) {
    table_iv(rows, &random_cases());
}

/// R7: cycles with and without packing, figure 11.
pub(super) fn packing(rows: &mut Rows<'_>) {
    let [unpacked, packed] = [coalesced(), TABLE_II].map(|on| held(on, rows.budget.quick));
    for (set, cases) in [("large", large_cases()), ("random", random_cases())] {
        let mean = |uses: &Uses<'_>, on: &On, design: &str| {
            let cases = cases.iter();
            geomean(cases.map(|case| {
                Some(on.cycles(uses, *case, design)? / unpacked.cycles(uses, *case, "hw-redo")?)
            }))
        };
        for design in ALL {
            rows.row(format!("{set}/c/{design}"), |uses| mean(uses, &unpacked, design));
            rows.row(format!("{set}/cp/{design}"), |uses| mean(uses, &packed, design));
            rows.row(format!("{set}/gain/{design}"), |uses| {
                Some(mean(uses, &unpacked, design)? / mean(uses, &packed, design)?)
            });
        }
        for design in BASELINES.into_iter().filter(|design| *design != "hw-redo") {
            rows.row(format!("{set}/redo-before/{design}"), |uses| {
                Some(mean(uses, &unpacked, design)? / mean(uses, &packed, "hw-redo")?)
            });
        }
    }
}
