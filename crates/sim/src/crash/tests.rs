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

const fn ssp(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-ssp", ..row(mutant, design, workload) }
}

/// Room for transactions of more than four pages.
const ROOMY: &[&str] = &["ssp.write_set=64", "ssp.cache_entries=160"];

/// Whoever needs a slot waits for one, and gets that whose page has just been brought together.
const CROWDED: &[&str] = &["ssp.cache_entries=6", "tlb.entries=3"];

/// Slots change their pages several times before there is a checkpoint.
const LAZY: &[&str] = &["ssp.cache_entries=10", "ssp.journal_bytes=4096"];

/// Writes that wait for a bank are overtaken by others.
const FEW_BANKS: &[&str] = &["nvm.banks=4", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// Lines of open transactions would leave the last cache.
const SMALL: &[&str] = &["llc.bytes=4096"];

const SSP_ROWS: [Row; 9] = [
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspMetadataFirst, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspPartOfACommit, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspForgetsWriters, "ssp", "sps") },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspTableFirst, "ssp", "pages") },
    Row { transactions: 300, ..ssp(Mutant::SspTailFirst, "ssp", "pages") },
    Row { settings: LAZY, transactions: 900, ..ssp(Mutant::SspAppliesOldRecords, "ssp", "pages") },
    Row {
        settings: FEW_BANKS,
        transactions: 300,
        ..ssp(Mutant::SspUndoWithoutWaiting, "ssp-undo", "pages")
    },
    Row { settings: FEW_BANKS, ..ssp(Mutant::SspRedoRecordFirst, "ssp-redo", "pages") },
    Row { settings: SMALL, ..ssp(Mutant::SspRedoLetsLinesGo, "ssp-redo", "sps") },
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
    all_are_found(&ROWS);
}

#[test]
fn every_bug_that_is_planted_in_ssp_and_its_peers_is_found_and_its_repaired_twin_has_none() {
    all_are_found(&SSP_ROWS);
}

fn all_are_found(rows: &[Row]) {
    let mut survived = Vec::new();
    for row in rows {
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
