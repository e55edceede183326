//! L5, L6 and L8: where the cycles of a transaction go (table 5; section 6.2).

use sim::report::CyclesPerTransaction;

use super::super::rows::{Rows, Uses, mean, percent_above};
use super::{CORES, On, WORKLOADS};

/// Cycles in which one line comes from a first cache to a controller and is acknowledged, without
/// load (section 6.2).
const ONE_LINE: f64 = 80.0;

/// Of which one line is written: what prepare and commit take without load.
const ONE_WRITE: &str = "tatp-hash";

fn cycles(uses: &Uses<'_>, on: On, workload: &str) -> Option<CyclesPerTransaction> {
    Some(on.of(uses, workload, "lad")?.cycles_per_transaction)
}

/// The same phase of one core, all others standing still: the mean over all cores.
fn alone(rows: &mut Rows<'_>, of: fn(CyclesPerTransaction) -> f64) {
    rows.row("alone", |uses| {
        mean((0..CORES).map(|tile| cycles(uses, On::Alone(tile), ONE_WRITE).map(of)))
    });
}

/// L5: until all that was written is with the controllers.
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

/// L6: until one of them has acknowledged the commit.
pub(super) fn commit(rows: &mut Rows<'_>) {
    for workload in WORKLOADS {
        rows.row(format!("commit/{workload}"), |uses| {
            Some(cycles(uses, On::OneSocket, workload)?.commit)
        });
    }
    alone(rows, |cycles| cycles.commit);
}

/// L8: what it could bring at most to flush lines before the end.
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
