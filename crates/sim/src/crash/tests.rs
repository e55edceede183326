//! Bugs that are planted are found by cuts of power, and the same runs without them hold.

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{setup, simulate};

use crate::mutants::{Mutant, plant};
use crate::{Error, Setup};

/// A bug, and the run that finds it.
struct Row {
    mutant: Mutant,
    design: &'static str,
    workload: &'static str,
    machine: &'static str,
    cores: usize,
    transactions: u64,
    cuts: u64,
    settings: &'static [&'static str],
    /// The bug may also keep the machine from going on.
    hangs: bool,
}

const fn row(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    let (machine, cores, transactions, cuts) = ("tiny-lad", 2, 150, 1000);
    let (settings, hangs): (&[&str], bool) = (&[], false);
    Row { mutant, design, workload, machine, cores, transactions, cuts, settings, hangs }
}

/// A memory so slow that writes wait for each other.
const SLOW: &[&str] = &["nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// Controllers without batteries.
const WEAK: &[&str] = &["persist.point=\"media\"", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

const ROWS: [Row; 12] = [
    Row { settings: SLOW, ..row(Mutant::LinesOutOfOrder, "lad", "cq") },
    Row { hangs: true, ..row(Mutant::LadFlushLeavesDirty, "lad", "tpcc-hash") },
    // On a large mesh the nearest controller answers before the farthest one is asked.
    Row { machine: "lad", cores: 4, ..row(Mutant::LadOneController, "lad", "tatp-hash") },
    Row { transactions: 900, cuts: 1500, ..row(Mutant::LadEightBits, "lad", "sps") },
    row(Mutant::LadOldestFirst, "lad", "tpcc-hash"),
    Row { cuts: 4000, ..row(Mutant::LadClearsOldestFirst, "lad", "tpcc-hash") },
    row(Mutant::LadNoLog, "lad", "tpcc-hash"),
    row(Mutant::LadCommitEarly, "lad", "sps"),
    row(Mutant::LadRegisterLate, "lad", "tatp-hash"),
    Row { settings: &["llc.bytes=65536"], ..row(Mutant::LlcInPlace, "lad-llc", "cq") },
    Row { settings: WEAK, ..row(Mutant::UndoWithoutFence, "sw-undo", "sps") },
    Row { settings: WEAK, ..row(Mutant::UndoCommitFirst, "sw-undo", "sps") },
];

fn violations(row: &Row) -> u64 {
    let Row { design, workload, machine, cores, transactions, cuts, settings, .. } = *row;
    let mut setup = Setup { power_cuts: cuts, ..setup(machine, design, cores, transactions) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    match simulate(workload, 0.02, &setup) {
        Ok(outcome) => outcome.violations.unwrap(),
        Err(Error::Deadlock { .. }) if row.hangs => 1,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_planted_bug_is_found_by_cuts_and_its_repaired_twin_has_none() {
    let mut survived = Vec::new();
    for row in &ROWS {
        assert_eq!(violations(row), 0, "{} without the bug", row.mutant.name());
        let planted = plant(row.mutant);
        let found = violations(row);
        drop(planted);
        println!("{}: {found} violations", row.mutant.name());
        if found == 0 {
            survived.push(row.mutant.name());
        }
    }
    assert!(survived.is_empty(), "these survived: {survived:?}");
}
