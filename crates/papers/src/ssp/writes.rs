//! S3 to S6 and S10 to S13: writes to persistent memory, and write sets of transactions (figures 6
//! and 7, tables 3 and 5; sections 5.1, 5.2 and 5.4).

use sim::report::{NvmWrites, Outcome};

use super::{ALL, FOUR, LOGS, MICRO, ONE, On, RANDOM, REAL, SSP, ZIPF};
use crate::rows::{Rows, Uses, geomean, mean, most, percent_below};

/// Returns the lines that a transaction writes.
fn each(lines: u64, outcome: &Outcome) -> f64 {
    lines as f64 / outcome.transactions.max(1) as f64
}

fn total(outcome: &Outcome) -> f64 {
    each(outcome.nvm_writes.total(), outcome)
}

/// Returns the lines of the log, or of SSP's journal.
fn logged(outcome: &Outcome) -> f64 {
    let NvmWrites { log_data, log_meta, commit_record, journal, .. } = outcome.nvm_writes;
    each(log_data + log_meta + commit_record + journal, outcome)
}

/// Returns these and the lines of the checkpoints that truncate the journal.
fn with_checkpoints(outcome: &Outcome) -> f64 {
    logged(outcome) + each(outcome.nvm_writes.checkpoint, outcome)
}

/// Returns the share of lines written by page consolidation, in percent.
fn consolidated(outcome: &Outcome) -> f64 {
    let writes = &outcome.nvm_writes;
    100.0 * writes.consolidation as f64 / writes.total() as f64
}

/// Returns the lines of SSP by those of a logging design.
fn ratio(
    uses: &Uses<'_>,
    on: &On,
    workload: &str,
    log: &str,
    of: fn(&Outcome) -> f64,
) -> Option<f64> {
    let [theirs, ours] = [log, SSP].map(|design| on.of(uses, workload, design).map(of));
    Some(ours? / theirs?)
}

/// Returns the geometric mean of that ratio over workloads.
fn ratios(
    uses: &Uses<'_>,
    on: &On,
    workloads: &[&str],
    log: &str,
    of: fn(&Outcome) -> f64,
) -> Option<f64> {
    geomean(workloads.iter().map(|workload| ratio(uses, on, workload, log, of)))
}

/// S3: log lines against journal lines, figure 6.
pub(super) fn logging(rows: &mut Rows<'_>) {
    for log in LOGS {
        let less =
            |uses: &Uses<'_>, workload| Some(ratio(uses, &ONE, workload, log, logged)?.recip());
        rows.row(format!("mean/{log}"), |uses| geomean(MICRO.map(|workload| less(uses, workload))));
        rows.row(format!("with-checkpoints/{log}"), |uses| {
            ratios(uses, &ONE, &MICRO, log, with_checkpoints).map(f64::recip)
        });
        rows.row(format!("most/{log}"), |uses| most(MICRO.map(|workload| less(uses, workload))));
        for workload in MICRO {
            rows.row(format!("{log}/{workload}"), |uses| less(uses, workload));
        }
    }
    for workload in MICRO {
        rows.row(format!("checkpoints/{workload}"), |uses| {
            let ssp = ONE.of(uses, workload, SSP)?;
            Some(each(ssp.nvm_writes.checkpoint, ssp))
        });
    }
    for design in ALL {
        for workload in MICRO {
            rows.row(format!("lines/{design}/{workload}"), |uses| {
                ONE.of(uses, workload, design).map(logged)
            });
        }
    }
}

/// S4: all lines, figure 7a.
pub(super) fn all(rows: &mut Rows<'_>) {
    for log in LOGS {
        rows.row(format!("saved/{log}"), |uses| {
            ratios(uses, &ONE, &MICRO, log, total).map(percent_below)
        });
        for workload in MICRO {
            rows.row(format!("saved/{log}/{workload}"), |uses| {
                ratio(uses, &ONE, workload, log, total).map(percent_below)
            });
        }
    }
    for design in ALL {
        for workload in MICRO {
            rows.row(format!("lines/{design}/{workload}"), |uses| {
                ONE.of(uses, workload, design).map(total)
            });
        }
    }
}

/// S5: all lines, by the distribution of keys.
pub(super) fn locality(rows: &mut Rows<'_>) {
    for log in LOGS {
        let saved = |uses: &Uses<'_>, workloads: &[&str]| {
            ratios(uses, &ONE, workloads, log, total).map(percent_below)
        };
        rows.row(format!("zipf/{log}"), |uses| saved(uses, &ZIPF));
        rows.row(format!("random/{log}"), |uses| saved(uses, &RANDOM));
        rows.row(format!("zipf-more/{log}"), |uses| {
            Some(saved(uses, &ZIPF)? - saved(uses, &RANDOM)?)
        });
    }
}

/// S6: breakdown of SSP's lines, figure 7b.
pub(super) fn breakdown(rows: &mut Rows<'_>) {
    for workload in MICRO {
        let of = |uses: &Uses<'_>| Some(ONE.of(uses, workload, SSP)?.nvm_writes);
        rows.row(format!("by-data/{workload}"), |uses| {
            let writes = of(uses)?;
            Some(writes.consolidation as f64 / writes.data as f64)
        });
        for (name, lines) in [
            ("data", (|writes| writes.data) as fn(NvmWrites) -> u64),
            ("journal", |writes| writes.journal),
            ("consolidation", |writes| writes.consolidation),
            ("checkpoint", |writes| writes.checkpoint),
        ] {
            rows.row(format!("share/{name}/{workload}"), |uses| {
                let writes = of(uses)?;
                Some(100.0 * lines(writes) as f64 / writes.total() as f64)
            });
        }
    }
}

/// S10: all lines of applications, table 5.
pub(super) fn applications(rows: &mut Rows<'_>) {
    for workload in REAL {
        for log in LOGS {
            rows.row(format!("{workload}/{log}"), |uses| {
                ratio(uses, &FOUR, workload, log, total).map(percent_below)
            });
        }
    }
}

/// S11: log lines of applications, and lines of consolidation.
pub(super) fn logging_of_applications(rows: &mut Rows<'_>) {
    for log in LOGS {
        for (name, lines) in
            [("saved", logged as fn(&Outcome) -> f64), ("with-checkpoints", with_checkpoints)]
        {
            let saved = |uses: &Uses<'_>, workload| {
                ratio(uses, &FOUR, workload, log, lines).map(percent_below)
            };
            rows.row(format!("{name}/{log}"), |uses| mean(REAL.map(|of| saved(uses, of))));
            for workload in REAL {
                rows.row(format!("{name}/{log}/{workload}"), |uses| saved(uses, workload));
            }
        }
    }
    for workload in REAL {
        rows.row(format!("consolidation/{workload}"), |uses| {
            FOUR.of(uses, workload, SSP).map(consolidated)
        });
    }
}

/// Returns the runs of table 3: micro-benchmarks with one thread, applications with four.
fn of_table_3() -> impl Iterator<Item = (&'static str, On)> {
    let micro = MICRO.into_iter().map(|workload| (workload, ONE));
    micro.chain(REAL.into_iter().map(|workload| (workload, FOUR)))
}

/// S12: lines and pages written by a transaction, table 3.
pub(super) fn sets(rows: &mut Rows<'_>) {
    for (workload, on) in of_table_3() {
        rows.row(format!("lines/{workload}"), |uses| {
            Some(on.of(uses, workload, SSP)?.lines_per_transaction.mean)
        });
        rows.row(format!("pages/{workload}"), |uses| {
            Some(on.of(uses, workload, SSP)?.pages_per_transaction.mean)
        });
        rows.row(format!("most-pages/{workload}"), |uses| {
            Some(on.of(uses, workload, SSP)?.pages_per_transaction.max as f64)
        });
    }
}

/// S13: transactions that exceed the hardware's capacity.
pub(super) fn fallbacks(rows: &mut Rows<'_>) {
    for (workload, on) in of_table_3() {
        rows.row(workload, |uses| Some(on.of(uses, workload, SSP)?.fallbacks as f64));
    }
}
