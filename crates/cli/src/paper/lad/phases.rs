//! L5 to L8: where the cycles of a transaction go (table 5; section 6.2).

use sim::report::CyclesPerTransaction;
use sim::sweep::Asked;

use super::super::Budget;
use super::super::sheet::Sheet;
use super::super::sims::Sims;
use super::{Found, On, VOLATILE, WORKLOADS, asked, six};

const LAD: [&str; 1] = ["lad"];

/// Cycles in which one line comes from a first cache to a controller and is acknowledged, without
/// load (section 6.2).
const ONE_LINE: f64 = 80.0;

/// From the shortest transaction to the longest, in table 5.
const BY_LENGTH: [&str; 6] = ["rbt", "tatp-hash", "cq", "pc", "sps", "tpcc-hash"];

/// Of which one line is written: what prepare and commit take without load.
const ONE_WRITE: &str = "tatp-hash";

pub(super) fn plan(budget: &Budget) -> Vec<Asked> {
    six(&LAD, On::OneSocket, budget)
}

pub(super) fn plan_with_alone(budget: &Budget) -> Vec<Asked> {
    let mut all = plan(budget);
    all.push(asked(ONE_WRITE, "lad", On::Alone, budget));
    all
}

fn cycles(found: Found<'_>, workload: &str, design: &str) -> CyclesPerTransaction {
    found.of(workload, design).cycles_per_transaction
}

/// The same phase of one core, all others standing still.
fn alone(budget: &Budget, sims: &Sims, sheet: &mut Sheet, of: fn(CyclesPerTransaction) -> f64) {
    let found = Found::new(budget, sims, On::Alone);
    let value = of(cycles(found, ONE_WRITE, "lad"));
    found.row(sheet, "alone".into(), value, (&[ONE_WRITE], &LAD));
}

/// L5: until all that was written is with the controllers.
pub(super) fn prepare(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    for workload in WORKLOADS {
        let CyclesPerTransaction { prepare, commit, .. } = cycles(found, workload, "lad");
        let of = ([workload], LAD);
        found.row(sheet, format!("prepare/{workload}"), prepare, (&of.0, &of.1));
        let name = format!("by-commit/{workload}");
        found.row(sheet, name, prepare / commit, (&of.0, &of.1));
    }
    alone(budget, sims, sheet, |cycles| cycles.prepare);
}

/// L6: until one of them has acknowledged the commit.
pub(super) fn commit(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    for workload in WORKLOADS {
        let commit = cycles(found, workload, "lad").commit;
        found.row(sheet, format!("commit/{workload}"), commit, (&[workload], &LAD));
    }
    alone(budget, sims, sheet, |cycles| cycles.commit);
}

/// L7: all of them.
pub(super) fn total(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    for design in ["lad", VOLATILE] {
        for workload in WORKLOADS {
            let total = cycles(found, workload, design).total;
            found.row(sheet, format!("{design}/{workload}"), total, (&[workload], &[design]));
        }
    }
    for pair in BY_LENGTH.windows(2) {
        let [shorter, longer] = [0, 1].map(|at| cycles(found, pair[at], "lad").total);
        let name = format!("order/{}", pair[1]);
        found.row(sheet, name, longer / shorter, (&[pair[1], pair[0]], &LAD));
    }
}

/// L8: what it could bring at most to flush lines before the end.
pub(super) fn early_flush(budget: &Budget, sims: &Sims, sheet: &mut Sheet) {
    let found = Found::new(budget, sims, On::OneSocket);
    for workload in WORKLOADS {
        let CyclesPerTransaction { total, prepare, .. } = cycles(found, workload, "lad");
        let saved = (prepare - ONE_LINE).max(0.0);
        let gain = 100.0 * (total / (total - saved) - 1.0);
        found.row(sheet, format!("bound/{workload}"), gain, (&[workload], &LAD));
    }
}
