//! L5, L6 and L8: cycles of the phases of a transaction (table 5; section 6.2).

use sim::report::CyclesPerTransaction;

use super::{CORES, On, WORKLOADS};
use crate::rows::{Rows, Uses, mean, percent_above};

/// Cycles from sending one line from an L1 cache to a controller until its acknowledgement, without
/// load (section 6.2).
const ONE_LINE: f64 = 80.0;

/// Workload whose transactions write one line, so that prepare and commit run without load.
const ONE_WRITE: &str = "tatp-hash";

fn cycles(uses: &Uses<'_>, on: On, workload: &str) -> Option<CyclesPerTransaction> {
    Some(on.of(uses, workload, "lad")?.cycles_per_transaction)
}

/// Fills a row with the mean of a phase over the cores, each running alone.
fn alone(rows: &mut Rows<'_>, of: fn(CyclesPerTransaction) -> f64) {
    rows.row("alone", |uses| {
        mean((0..CORES).map(|tile| cycles(uses, On::Alone(tile), ONE_WRITE).map(of)))
    });
}

/// L5: prepare, until all written lines are in the controllers.
pub(super) fn prepare(rows: &mut Rows<'_>) {
    for workload in WORKLOADS {
        let both = |uses: &Uses<'_>| {
            let CyclesPerTransaction { prepare, commit, .. } =
                cycles(uses, On::OneSocket, workload)?;
            Some((prepare, commit))
        };
        rows.row(format!("prepare/{workload}"), |uses| Some(both(uses)?.0));
        rows.row(format!("by-commit/{workload}"), |uses| {
            both(uses).map(|(prepare, commit)| prepare / commit)
        });
    }
    alone(rows, |cycles| cycles.prepare);
}

/// L6: commit, until the first controller's acknowledgement.
pub(super) fn commit(rows: &mut Rows<'_>) {
    for workload in WORKLOADS {
        rows.row(format!("commit/{workload}"), |uses| {
            Some(cycles(uses, On::OneSocket, workload)?.commit)
        });
    }
    alone(rows, |cycles| cycles.commit);
}

/// L8: upper bound of the gain from flushing lines before the commit.
pub(super) fn early_flush(rows: &mut Rows<'_>) {
    for workload in WORKLOADS {
        rows.row(format!("bound/{workload}"), |uses| {
            let CyclesPerTransaction { total, prepare, .. } =
                cycles(uses, On::OneSocket, workload)?;
            let saved = (prepare - ONE_LINE).max(0.0);
            Some(percent_above(total / (total - saved)))
        });
    }
}
