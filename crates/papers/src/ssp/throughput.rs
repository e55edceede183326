//! S1, S2 and S9: throughput (figure 5, table 4; sections 5.2 and 5.4).

use super::{ALL, FOUR, LOGS, MICRO, ONE, On, REAL};
use crate::rows::{Rows, percent_above};

/// Fills the mean speed-ups and that of each workload.
fn speedups(rows: &mut Rows<'_>, on: &On) {
    for log in LOGS {
        rows.row(format!("mean/{log}"), |uses| on.speedups(uses, &MICRO, log));
        for workload in MICRO {
            rows.row(format!("{log}/{workload}"), |uses| on.speedup(uses, workload, log));
        }
    }
    for design in ALL {
        for workload in MICRO {
            rows.row(format!("cycles/{design}/{workload}"), |uses| {
                on.cycles(uses, workload, design)
            });
        }
    }
}

/// S1: one thread.
pub(super) fn one_thread(rows: &mut Rows<'_>) {
    speedups(rows, &ONE);
}

/// S2: four threads, with a structure each and with a shared one.
pub(super) fn four_threads(rows: &mut Rows<'_>) {
    speedups(rows, &FOUR);
    let shared = On { shared: true, ..FOUR };
    for log in LOGS {
        rows.row(format!("shared/{log}"), |uses| shared.speedups(uses, &MICRO, log));
        rows.row(format!("by-one/{log}"), |uses| {
            Some(FOUR.speedups(uses, &MICRO, log)? / ONE.speedups(uses, &MICRO, log)?)
        });
    }
}

/// S9: applications, table 4.
pub(super) fn applications(rows: &mut Rows<'_>) {
    for workload in REAL {
        for log in LOGS {
            rows.row(format!("{workload}/{log}"), |uses| {
                FOUR.speedup(uses, workload, log).map(percent_above)
            });
        }
    }
}
