//! R5 to R7: what entries of a log take, put together and packed (table IV, figure 11; section
//! V-C).
//!
//! Of each set the cases of the size in the middle.

use sim::report::Outcome;

use super::super::rows::{Rows, Uses, geomean};
use super::{ALL, BASELINES, COUNTS, Case, MIDDLE, On, REDU, SIZES, Setting, TABLE_II, TPCC};
use super::{Data, large_of, random_of};

/// Bytes of log entries, before they are put into lines.
const LOG_BYTES: &str = "log_bytes";

/// Each word has an entry, and that an address.
fn plain() -> On {
    let off = Setting::Number(0);
    On(vec![("design.log.coalesce", off), ("design.log.pack", off)])
}

/// The words of a line share an entry.
fn coalesced() -> On {
    On::number("design.log.pack", 0)
}

/// Packed, and what an entry keeps is written at once, in lines of its own.
fn at_once() -> On {
    On::number("design.log.gather", 0)
}

/// Bytes of all cores' logs in a quick run. Scaled down as everything else they held no transaction
/// of `swap` whose every word has a line, nor one of Undo+Redo's that is not packed: 126 of ReDU's
/// 128 fell back to software.
const QUICK_LOG: u64 = 4 << 20;

/// The same on a log that holds every transaction.
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

/// Lines that were written to the log, for a transaction.
fn log_writes(outcome: &Outcome) -> f64 {
    let writes = &outcome.nvm_writes;
    let lines = writes.log_data + writes.log_meta + writes.commit_record;
    lines as f64 / outcome.transactions.max(1) as f64
}

/// Bytes of entries, for a transaction.
fn log_bytes(outcome: &Outcome) -> f64 {
    count(outcome, LOG_BYTES) / outcome.transactions.max(1) as f64
}

/// What only a design counts; what it does not count is no number.
pub(super) fn count(outcome: &Outcome, name: &str) -> f64 {
    outcome.design_counts.get(name).map_or(f64::NAN, |count| *count as f64)
}

/// Table IV: ReDU's log, beside the same without what makes it smaller.
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

/// R5: of large objects.
pub(super) fn large(rows: &mut Rows<'_>) {
    table_iv(rows, &large_cases());
}

/// R6: of words in many objects.
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
